//! Instance types and their offerings: what can be bought, where, at what price.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::catalogue_index::CatalogueIndex;
use super::requirement::Requirement;
use super::resources::{ResourceId, Resources};
use super::symbols::{Symbol, Symbols};

/// Index of an instance type in its [`Catalogue`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TypeId(pub u32);

/// Index of an offering in its [`Catalogue`]; row of every column that a policy sees.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OfferingId(pub u32);

/// A kind of machine.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceType {
    /// Its name, also the value of `node.kubernetes.io/instance-type`.
    pub name: Symbol,
    /// What its nodes' labels are or may be (arch, os, instance type, family, size, …), without
    /// those of offerings.
    pub requirements: Vec<Requirement>,
    /// What the machine has.
    pub capacity: Resources,
    /// What pods can have: capacity less kube-reserved, system-reserved and eviction threshold,
    /// huge pages less memory.
    pub allocatable: Resources,
    /// Most volumes per CSI driver that one node can attach; a driver not named is unlimited.
    pub volume_limits: Vec<(Symbol, u32)>,
    /// Why no machine of it can be made with its node class, in words for messages. Its offerings
    /// are unavailable then.
    pub incompatible: Option<Symbol>,
    /// Its rows in [`Catalogue::offerings`], contiguous.
    pub offerings: std::ops::Range<u32>,
}

impl InstanceType {
    /// A type of that name, and nothing else known of it.
    pub fn named(name: Symbol) -> Self {
        InstanceType {
            name,
            requirements: Vec::new(),
            capacity: Resources::default(),
            allocatable: Resources::default(),
            volume_limits: Vec::new(),
            incompatible: None,
            offerings: 0..0,
        }
    }
}

/// An instance type in one zone under one capacity type.
#[derive(Clone, Debug, PartialEq)]
pub struct Offering {
    /// Index into the catalogue's types.
    pub instance_type: TypeId,
    /// Everything that the offering pins (zone, capacity type, reservation id, zone id, …): single
    /// values. Shared: offerings of many types pin the same.
    pub requirements: Arc<[Requirement]>,
    /// The value of `topology.kubernetes.io/zone`, if it has one.
    pub zone: Option<Symbol>,
    /// The value of `karpenter.sh/capacity-type`: `spot`, `on-demand` or `reserved`.
    pub capacity_type: Option<Symbol>,
    /// USD per hour, finite and not negative.
    pub price: f64,
    /// Whether the cloud reports it as available.
    pub available: bool,
    /// For reserved offerings: the reservation's id and how many instances are left in it.
    pub reservation: Option<(Symbol, u32)>,
}

/// What NodeOverlays have changed of an instance type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TypeOverlay {
    /// The price of at least one of its offerings.
    pub price: bool,
    /// Resources that they have added, in the unit of each.
    pub capacity: Vec<(ResourceId, i64)>,
}

/// Everything that can be bought. Types are ordered by name, offerings by type and then as given,
/// so that the same catalogue in another order is the same catalogue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalogue {
    // Shared: a round keeps the one that it was made with.
    types: Arc<[InstanceType]>,
    offerings: Arc<[Offering]>,
    index: Arc<CatalogueIndex>,
    /// USD per hour of each offering, by row.
    prices: Arc<[f64]>,
    /// What NodeOverlays have changed, by type; empty where there are none.
    overlaid: Arc<[TypeOverlay]>,
    /// Offerings that are taken to be without capacity, by row, and until which second since 1970.
    short: Vec<(OfferingId, i64)>,
    /// Which prices are estimates.
    estimates: Estimates,
    number: Number,
    /// Number of the catalogue that this is, but for what is short.
    origin: Number,
}

/// Which prices of a catalogue are estimates: no cloud and no file has said them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimates {
    /// Prices of spot offerings.
    pub spot: bool,
    /// Prices of all others.
    pub on_demand: bool,
    /// What they are estimated from, in words for messages.
    pub words: Option<Symbol>,
}

impl Estimates {
    /// Whether the price of an offering is one, by its capacity type.
    pub fn of(self, capacity_type: Option<&str>) -> bool {
        match capacity_type {
            Some("spot") => self.spot,
            _ => self.on_demand,
        }
    }

    /// Whether some price is one.
    pub fn any(self) -> bool {
        self.spot || self.on_demand
    }
}

/// Tells one catalogue made from the next. No part of what a catalogue is: all are equal.
#[derive(Clone, Copy, Debug, Default)]
struct Number(u64);

impl Number {
    fn next() -> Self {
        static MADE: AtomicU64 = AtomicU64::new(1);
        Number(MADE.fetch_add(1, Ordering::Relaxed))
    }
}

impl PartialEq for Number {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Catalogue {
    /// Visits every symbol that it is written with, some of them several times.
    pub fn symbols(&self, visit: &mut dyn FnMut(Symbol)) {
        self.estimates.words.into_iter().for_each(&mut *visit);
        for kind in self.types.iter() {
            visit(kind.name);
            kind.requirements.iter().for_each(|one| one.symbols(visit));
            for (resource, _) in kind.capacity.iter().chain(kind.allocatable.iter()) {
                if let ResourceId::Other(name) = resource {
                    visit(name);
                }
            }
            kind.volume_limits.iter().for_each(|(name, _)| visit(*name));
        }
        let mut last: *const [Requirement] = &[];
        for offering in self.offerings.iter() {
            [offering.zone, offering.capacity_type]
                .into_iter()
                .chain([offering.reservation.map(|(id, _)| id)])
                .flatten()
                .for_each(&mut *visit);
            // Offerings of one type mostly share their pins with those of the type before.
            let pins: *const [Requirement] = &*offering.requirements;
            if !std::ptr::addr_eq(pins, last) {
                last = pins;
                let pins = offering.requirements.iter();
                pins.for_each(|one| one.symbols(visit));
            }
        }
    }

    /// A catalogue of types with their offerings; `instance_type` and `offerings` indexes are
    /// filled in here.
    pub fn new(mut types: Vec<(InstanceType, Vec<Offering>)>, names: &Symbols) -> Self {
        types.sort_by(|a, b| names.text(a.0.name).cmp(names.text(b.0.name)));
        let (mut all, mut rows) = (Vec::with_capacity(types.len()), Vec::new());
        for (mut instance_type, mut offerings) in types {
            let id = TypeId(all.len() as u32);
            let text = |s: Option<Symbol>| s.map(|s| names.text(s));
            offerings.sort_by(|a, b| {
                (
                    text(a.zone),
                    text(a.capacity_type),
                    text(a.reservation.map(|r| r.0)),
                )
                    .cmp(&(
                        text(b.zone),
                        text(b.capacity_type),
                        text(b.reservation.map(|r| r.0)),
                    ))
                    .then(a.price.total_cmp(&b.price))
            });
            let start = rows.len() as u32;
            rows.extend(offerings.into_iter().map(|o| Offering {
                instance_type: id,
                ..o
            }));
            instance_type.offerings = start..rows.len() as u32;
            all.push(instance_type);
        }
        let number = Number::next();
        Catalogue {
            index: Arc::new(CatalogueIndex::new(&all, &rows)),
            prices: rows.iter().map(|row| row.price).collect(),
            types: all.into(),
            offerings: rows.into(),
            overlaid: Arc::default(),
            short: Vec::new(),
            estimates: Estimates::default(),
            number,
            origin: number,
        }
    }

    /// The same catalogue that says what NodeOverlays have changed of each of its types, in their
    /// order.
    pub fn with_overlays(mut self, by_type: Vec<TypeOverlay>) -> Self {
        self.overlaid = by_type.into();
        self
    }

    /// What NodeOverlays have changed of a type; nothing if that is not known.
    pub fn overlay_of(&self, id: TypeId) -> Option<&TypeOverlay> {
        self.overlaid.get(id.0 as usize)
    }

    /// The same catalogue that says which of its prices are estimates.
    pub fn with_estimates(mut self, estimates: Estimates) -> Self {
        self.estimates = estimates;
        self
    }

    /// Which prices are estimates.
    pub fn estimates(&self) -> Estimates {
        self.estimates
    }

    /// Unique per catalogue in this process, except for clones. Data derived from a catalogue of
    /// this number need not be derived again. Says nothing else, and no decision may depend on it.
    pub fn number(&self) -> u64 {
        self.number.0
    }

    /// The same catalogue, with these offerings, and no others, taken to be without capacity until
    /// some second since
    /// 1970. Rows that it has not and offerings that are unavailable anyway are passed over.
    pub fn without_capacity(&self, short: &[(OfferingId, i64)]) -> Self {
        let mut made = Catalogue {
            number: Number::next(),
            ..self.clone()
        };
        let offerings = Arc::make_mut(&mut made.offerings);
        for (id, _) in made.short.drain(..) {
            offerings[id.0 as usize].available = true;
        }
        for &(id, until) in short {
            if let Some(offering) = offerings
                .get_mut(id.0 as usize)
                .filter(|offering| offering.available)
            {
                offering.available = false;
                made.short.push((id, until));
            }
        }
        made.short.sort_unstable();
        made
    }

    /// The same catalogue with one more instance left in a capacity reservation.
    pub fn with_one_more(&self, reservation: Symbol) -> Self {
        let number = Number::next();
        let mut made = Catalogue {
            number,
            origin: number,
            ..self.clone()
        };
        for offering in Arc::make_mut(&mut made.offerings) {
            if let Some((of, left)) = &mut offering.reservation
                && *of == reservation
            {
                *left += 1;
            }
        }
        made
    }

    /// Offerings that are taken to be without capacity, and until when; in order of their rows.
    pub fn short(&self) -> &[(OfferingId, i64)] {
        &self.short
    }

    /// The [`Catalogue::number`] of the catalogue that this one was made from by
    /// [`Catalogue::without_capacity`], its own if it was not: catalogues of the same origin differ
    /// only in unavailable offerings.
    pub fn origin(&self) -> u64 {
        self.origin.0
    }

    /// All instance types, by name.
    pub fn types(&self) -> &[InstanceType] {
        &self.types
    }

    /// All offerings, grouped by type in the order of [`Catalogue::types`].
    pub fn offerings(&self) -> &[Offering] {
        &self.offerings
    }

    /// Prices of all offerings, USD per hour, by row.
    pub fn prices(&self) -> &Arc<[f64]> {
        &self.prices
    }

    /// Where types and offerings name labels.
    pub fn index(&self) -> &CatalogueIndex {
        &self.index
    }

    /// The type with an id of this catalogue.
    pub fn instance_type(&self, id: TypeId) -> &InstanceType {
        &self.types[id.0 as usize]
    }

    /// The offering with an id of this catalogue.
    pub fn offering(&self, id: OfferingId) -> &Offering {
        &self.offerings[id.0 as usize]
    }

    /// The offerings of one type.
    pub fn offerings_of(&self, id: TypeId) -> &[Offering] {
        let rows = &self.instance_type(id).offerings;
        &self.offerings[rows.start as usize..rows.end as usize]
    }

    /// The type of that name, the first if there are several.
    pub fn find(&self, name: Symbol) -> Option<TypeId> {
        self.named(name).next().map(|(id, _)| id)
    }

    /// The types of that name: several, if they differ by NodePool or NodeClass.
    pub fn named(&self, name: Symbol) -> impl Iterator<Item = (TypeId, &InstanceType)> {
        let rows = self.types.iter().enumerate();
        rows.skip_while(move |(_, row)| row.name != name)
            .take_while(move |(_, row)| row.name == name)
            .map(|(at, row)| (TypeId(at as u32), row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two(names: &mut Symbols) -> Catalogue {
        let offering = |available| Offering {
            instance_type: TypeId(0),
            requirements: Arc::default(),
            zone: None,
            capacity_type: None,
            price: 1.0,
            available,
            reservation: None,
        };
        let kind = InstanceType::named(names.intern("m5.large"));
        Catalogue::new(vec![(kind, vec![offering(true), offering(false)])], names)
    }

    #[test]
    fn what_is_short_comes_back_when_it_is_short_no_more() {
        let whole = two(&mut Symbols::default());
        let ids = |catalogue: &Catalogue| {
            catalogue
                .offerings()
                .iter()
                .map(|o| o.available)
                .collect::<Vec<_>>()
        };
        let short =
            whole.without_capacity(&[(OfferingId(9), 7), (OfferingId(1), 7), (OfferingId(0), 8)]);
        assert_eq!(
            short.short(),
            [(OfferingId(0), 8)],
            "rows that are not there or not available are passed over"
        );
        assert_eq!(
            (ids(&whole), ids(&short)),
            (vec![true, false], vec![false, false])
        );
        assert!(short.number() != whole.number() && short.origin() == whole.number());
        assert_eq!(short.without_capacity(&[]), whole);
    }
}
