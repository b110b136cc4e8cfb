//! The catalogue in the records that plans are made on.

use std::sync::Arc;

use longshore_api::labels;
use longshore_core::model::{
    Catalogue, InstanceType, Offering, Op, Requirement, ResourceId, Resources, Symbol, Symbols,
    TypeId,
};
use rustc_hash::FxHashMap;

use super::class_catalogue::ClassCatalogue;
use super::machine::RESOURCES;
use super::offerings::Offering as ClassOffering;
use super::region::Region;
use super::requirements::aws::{self, NODE_CLASS};

/// Builds core's catalogue for NodeClasses of one region.
///
/// One row per type for all NodeClasses that are alike in what can be bought with them; others have
/// other capacity, zones or reservations. Each row requires [`NODE_CLASS`], so a NodePool only meets
/// the rows of its own NodeClass.
pub struct CoreCatalogues<'a> {
    region: &'a Region,
    names: &'a mut Symbols,
    resources: [ResourceId; RESOURCES.len()],
    /// One of the NodeClasses that are alike, and the names of all of them.
    kinds: Vec<(Arc<ClassCatalogue>, Vec<Symbol>)>,
    /// Of the NodeClass whose rows are being made.
    shared: FxHashMap<PinsKey, Pins>,
}

/// What the labels of an offering without a reservation follow from, within a NodeClass.
#[derive(PartialEq, Eq, Hash)]
struct PinsKey {
    zone: usize,
    capacity_type: &'static str,
    in_subnet: bool,
    reserved: bool,
    partition: i64,
}

/// What an offering pins.
#[derive(Clone)]
struct Pins {
    zone: Symbol,
    capacity_type: Symbol,
    requirements: Arc<[Requirement]>,
}

impl<'a> CoreCatalogues<'a> {
    /// Rows of no NodeClass yet.
    pub fn new(region: &'a Region, names: &'a mut Symbols) -> Self {
        CoreCatalogues {
            resources: RESOURCES.map(|name| ResourceId::named(name, names)),
            region,
            names,
            kinds: Vec::new(),
            shared: FxHashMap::default(),
        }
    }

    /// Adds a NodeClass.
    pub fn add(&mut self, class: Arc<ClassCatalogue>) {
        let name = self.names.intern(&class.class().name);
        let region = self.region;
        let alike = |(one, _): &&mut (Arc<ClassCatalogue>, _)| one.sells_like(&class, region);
        match self.kinds.iter_mut().find(alike) {
            Some((_, names)) => names.push(name),
            None => self.kinds.push((class, vec![name])),
        }
    }

    /// The catalogue of everything added.
    pub fn finish(mut self) -> Catalogue {
        let key = self.names.intern(NODE_CLASS);
        let types = self.region.types().len();
        let mut rows = Vec::with_capacity(types * self.kinds.len());
        for (class, names) in std::mem::take(&mut self.kinds) {
            self.shared.clear();
            let of_class = Requirement::new(key, Op::In(names.into()));
            rows.extend((0..types).map(|at| self.row(&class, at, of_class.clone())));
        }
        Catalogue::new(rows, self.names)
    }

    fn row(
        &mut self,
        class: &ClassCatalogue,
        at: usize,
        of_class: Requirement,
    ) -> (InstanceType, Vec<Offering>) {
        let mut requirements = Vec::with_capacity(40);
        requirements.push(of_class);
        class.labels(self.region, at, &mut |key, values| {
            let key = self.names.intern(key);
            let op = match values {
                [] => Op::DoesNotExist,
                _ => Op::In(
                    values
                        .iter()
                        .map(|value| self.names.intern(value))
                        .collect(),
                ),
            };
            requirements.push(Requirement::new(key, op));
        });
        let name = self.names.intern(&self.region.types()[at].name);
        let machine = class.machine(at);
        let incompatible = class.incompatible(at);
        let kind = InstanceType {
            name,
            requirements,
            capacity: self.amounts(&machine.capacity),
            allocatable: self.amounts(&machine.allocatable()),
            volume_limits: Vec::new(),
            incompatible: incompatible.map(|why| self.names.intern(&why.to_string())),
            offerings: 0..0,
        };
        (kind, self.offerings(class, at))
    }

    /// Amounts as core counts them; what would be below zero is zero.
    fn amounts(&self, all: &[Option<super::amount::Amount>; RESOURCES.len()]) -> Resources {
        let pairs = self
            .resources
            .iter()
            .zip(all)
            .filter_map(|(&resource, amount)| {
                let amount = (*amount)?;
                let value = match resource {
                    ResourceId::Cpu => amount.milli,
                    _ => amount.units(),
                };
                Some((resource, value.max(0)))
            });
        Resources::new(pairs)
    }

    fn offerings(&mut self, class: &ClassCatalogue, at: usize) -> Vec<Offering> {
        let mut all = Vec::with_capacity(2 * self.region.zones().len());
        let reserved = class.reservations_of(at).next().is_some();
        class.offerings(self.region, at, &mut |offering| {
            let Some(price) = offering.price else { return };
            let pins = self.pins(class, at, &offering, reserved);
            all.push(Offering {
                instance_type: TypeId(0),
                requirements: pins.requirements,
                zone: Some(pins.zone),
                capacity_type: Some(pins.capacity_type),
                price,
                available: offering.available,
                reservation: offering
                    .reservation
                    .map(|(reservation, free)| (self.names.intern(&reservation.id), free)),
            });
        });
        all
    }

    /// What an offering pins. Offerings of many types pin the same, so the lists are shared; those
    /// of reservations are few.
    fn pins(
        &mut self,
        class: &ClassCatalogue,
        at: usize,
        offering: &ClassOffering<'_>,
        reserved: bool,
    ) -> Pins {
        let key = PinsKey {
            zone: offering.zone,
            capacity_type: offering.capacity_type,
            in_subnet: class.zones(at).contains(offering.zone),
            reserved,
            partition: offering.partition,
        };
        let shared = offering.reservation.is_none();
        if shared && let Some(known) = self.shared.get(&key) {
            return known.clone();
        }
        let zone = &self.region.zones()[offering.zone];
        let pins = Pins {
            zone: self.names.intern(&zone.name),
            capacity_type: self.names.intern(offering.capacity_type),
            requirements: Arc::default(),
        };
        let mut requirements = vec![
            self.is(labels::CAPACITY_TYPE, pins.capacity_type),
            self.is(labels::ZONE, pins.zone),
        ];
        let id = class.zone_id(zone);
        if !id.is_empty() && key.in_subnet {
            let id = self.names.intern(id);
            requirements.push(self.is(aws::ZONE_ID, id));
        }
        let keys = [
            aws::RESERVATION_ID,
            aws::RESERVATION_TYPE,
            aws::RESERVATION_INTERRUPTIBLE,
        ];
        match offering.reservation {
            Some((reservation, _)) => {
                let interruptible = ["false", "true"][usize::from(reservation.interruptible)];
                let values = [&*reservation.id, &*reservation.kind, interruptible];
                for (key, value) in keys.into_iter().zip(values) {
                    let value = self.names.intern(value);
                    requirements.push(self.is(key, value));
                }
            }
            // The type's labels name its reservations, and these offerings are in none of them.
            None if reserved => {
                for key in keys {
                    let key = self.names.intern(key);
                    requirements.push(Requirement::new(key, Op::DoesNotExist));
                }
            }
            None => {}
        }
        if offering.partition > 0 {
            let partition = self.names.intern(&offering.partition.to_string());
            requirements.push(self.is(aws::GROUP_PARTITION, partition));
        }
        let pins = Pins {
            requirements: requirements.into(),
            ..pins
        };
        if shared {
            self.shared.insert(key, pins.clone());
        }
        pins
    }

    fn is(&mut self, key: &str, value: Symbol) -> Requirement {
        Requirement::is(self.names.intern(key), value)
    }
}
