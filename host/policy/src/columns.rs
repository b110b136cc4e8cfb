//! A catalogue as policies see it: one array per column, built once, shared, and lowered into
//! guests without another copy.

mod details;
mod joined;

use std::sync::Arc;

use longshore_core::model::{Catalogue, InstanceType, Offering, Op, ResourceId, Symbol, Symbols};

use details::Details;
use joined::JoinedCache;

use crate::sum::Sum;

/// A table of strings.
pub(crate) type Table = Arc<[Arc<str>]>;

/// The columns of a catalogue; row i is the offering with that id.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    /// Catalogues of one origin have the same static columns.
    origin: Option<u64>,
    pub fixed: Arc<Fixed>,
    pub moving: Moving,
}

/// Columns that `edition` stands for.
#[derive(Debug, PartialEq, Default)]
pub(crate) struct Fixed {
    /// Checksum of all other columns: equal editions are equal columns.
    pub edition: Arc<str>,
    pub instance_type_names: Table,
    pub instance_types: Arc<[u32]>,
    pub zone_names: Table,
    pub zones: Arc<[u32]>,
    pub capacity_type_names: Table,
    pub capacity_types: Arc<[u32]>,
    pub architecture_names: Table,
    pub architectures: Arc<[u32]>,
    pub reservation_names: Table,
    pub reservations: Arc<[u32]>,
    pub cpu_millicores: Arc<[u32]>,
    pub memory_mib: Arc<[u32]>,
    pub details: Details,
    pub joined: JoinedCache,
}

/// Columns that change from one round to the next.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct Moving {
    /// List prices, USD per hour.
    pub prices: Arc<[f64]>,
    pub available: Arc<[u8]>,
    pub reservation_counts: Arc<[u32]>,
}

impl Columns {
    /// No offerings: the columns of a policy before its first request.
    pub fn empty() -> Self {
        Columns {
            origin: None,
            fixed: Arc::default(),
            moving: Moving::default(),
        }
    }

    /// The columns of a catalogue. Static ones are those of `last` where they are the same.
    pub fn build(catalogue: &Catalogue, names: &Symbols, last: Option<&Columns>) -> Self {
        let origin = Some(catalogue.origin());
        let known = last.filter(|last| last.origin == origin);
        let fixed = known.map(|last| last.fixed.clone()).unwrap_or_else(|| {
            let fixed = Fixed::build(catalogue.types(), catalogue.offerings(), names);
            let same = last.filter(|last| *last.fixed == fixed);
            same.map_or_else(|| Arc::new(fixed), |last| last.fixed.clone())
        });
        Columns {
            origin,
            fixed,
            moving: Moving::build(catalogue.offerings(), catalogue.prices().clone()),
        }
    }

    /// The columns of rows in this order, which a catalogue would sort.
    pub fn of_rows(types: &[InstanceType], offerings: &[Offering], names: &Symbols) -> Self {
        let prices = offerings.iter().map(|of| of.price).collect();
        Columns {
            origin: None,
            fixed: Arc::new(Fixed::build(types, offerings, names)),
            moving: Moving::build(offerings, prices),
        }
    }

    /// How many rows they have.
    pub fn count(&self) -> usize {
        self.moving.prices.len()
    }
}

impl Fixed {
    fn build(types: &[InstanceType], offerings: &[Offering], names: &Symbols) -> Self {
        let per_type = |of: &dyn Fn(&InstanceType) -> u32| -> Arc<[u32]> {
            let by_type: Vec<u32> = types.iter().map(of).collect();
            offerings
                .iter()
                .map(|o| by_type[o.instance_type.0 as usize])
                .collect()
        };
        let mut architectures = Interner::new(names);
        let arch_key = names.get("kubernetes.io/arch");
        let arch_by_type: Vec<u32> = types
            .iter()
            .map(|t| architectures.index(arch_key.and_then(|k| single(t, k))))
            .collect();
        let details = Details::build(types, names);
        let mut zones = Interner::new(names);
        let mut capacity_types = Interner::new(names);
        let mut reservations = Interner::new(names);
        let mut fixed = Fixed {
            edition: "".into(),
            instance_type_names: types.iter().map(|t| names.text(t.name).into()).collect(),
            instance_types: offerings.iter().map(|o| o.instance_type.0).collect(),
            zones: offerings.iter().map(|o| zones.index(o.zone)).collect(),
            capacity_types: offerings
                .iter()
                .map(|o| capacity_types.index(o.capacity_type))
                .collect(),
            architectures: offerings
                .iter()
                .map(|o| arch_by_type[o.instance_type.0 as usize])
                .collect(),
            reservations: offerings
                .iter()
                .map(|o| reservations.index(o.reservation.map(|(id, _)| id)))
                .collect(),
            cpu_millicores: per_type(&|t| clamp(t.capacity.get(ResourceId::Cpu))),
            memory_mib: per_type(&|t| clamp(t.capacity.get(ResourceId::Memory) >> 20)),
            zone_names: zones.table(),
            capacity_type_names: capacity_types.table(),
            architecture_names: architectures.table(),
            reservation_names: reservations.table(),
            details,
            joined: JoinedCache::default(),
        };
        fixed.edition = fixed.sum().into();
        fixed
    }

    /// Digits that are made of all columns, in the manner of FNV.
    fn sum(&self) -> String {
        let mut sum = Sum::default();
        let tables = [
            &self.instance_type_names,
            &self.zone_names,
            &self.capacity_type_names,
            &self.architecture_names,
            &self.reservation_names,
        ];
        tables.iter().for_each(|table| sum.table(table));
        let columns = [
            &self.instance_types,
            &self.zones,
            &self.capacity_types,
            &self.architectures,
            &self.reservations,
            &self.cpu_millicores,
            &self.memory_mib,
        ];
        columns.iter().for_each(|column| sum.column(column));
        self.details.add_to(&mut sum);
        format!("{:016x}", sum.0)
    }
}

impl Moving {
    fn build(offerings: &[Offering], prices: Arc<[f64]>) -> Self {
        Moving {
            prices,
            available: offerings.iter().map(|o| u8::from(o.available)).collect(),
            reservation_counts: offerings
                .iter()
                .map(|o| o.reservation.map_or(0, |(_, left)| left))
                .collect(),
        }
    }
}

/// The value of a label that a type pins to one.
fn single(instance_type: &InstanceType, key: Symbol) -> Option<Symbol> {
    instance_type
        .requirements
        .iter()
        .find(|r| r.key == key)
        .and_then(|r| match &r.op {
            Op::In(values) if values.len() == 1 => Some(values[0]),
            _ => None,
        })
}

fn clamp(amount: i64) -> u32 {
    amount.clamp(0, i64::from(u32::MAX)) as u32
}

/// Gives out indexes for a column of few distinct symbols, in the order of first use.
pub(crate) struct Interner<'a> {
    names: &'a Symbols,
    /// Index + 1 by symbol, the last one for no symbol; 0 for not seen.
    seen: Vec<u32>,
    order: Vec<Option<Symbol>>,
}

impl<'a> Interner<'a> {
    pub(crate) fn new(names: &'a Symbols) -> Self {
        Interner {
            names,
            seen: vec![0; names.len() + 1],
            order: Vec::new(),
        }
    }

    pub(crate) fn index(&mut self, sym: Option<Symbol>) -> u32 {
        let slot = &mut self.seen[sym.map_or(self.names.len(), |sym| sym.0 as usize)];
        if *slot == 0 {
            self.order.push(sym);
            *slot = self.order.len() as u32;
        }
        *slot - 1
    }

    pub(crate) fn table(self) -> Table {
        self.order
            .iter()
            .map(|sym| sym.map_or("", |sym| self.names.text(sym)).into())
            .collect()
    }
}
