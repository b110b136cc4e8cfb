//! A catalogue as policies see it: one array per column, built once, shared, and lowered into
//! guests without another copy.

use std::sync::Arc;

use longshore_core::model::{Catalogue, InstanceType, Op, ResourceId, Symbol, Symbols};

use crate::signals::Signals;

/// Signal of the share of spot instances interrupted per month, 0 to 1, by `type`, `type/zone`.
pub const INTERRUPTION_RATES: &str = "interruption-rates";
/// Signal of placement scores, 1 to 10, by `type`, `type/zone`.
pub const PLACEMENT_SCORES: &str = "placement-scores";

/// What these columns have where the signal says nothing.
const UNKNOWN_RATE: f64 = -1.0;
const UNKNOWN_SCORE: u8 = 255;

/// A table of strings.
pub(crate) type Table = Arc<[Arc<str>]>;

/// The columns of a catalogue; row i is the offering with that id.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    /// Differs from that of every other `Columns` whose `fixed` is not the same.
    pub generation: u32,
    pub fixed: Arc<Fixed>,
    pub moving: Moving,
}

/// Columns that `generation` stands for.
#[derive(Debug, PartialEq, Default)]
pub(crate) struct Fixed {
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
    pub gpu_counts: Arc<[u32]>,
}

/// Columns that change from one round to the next.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct Moving {
    /// List prices, USD per hour.
    pub prices: Arc<[f64]>,
    /// The same in millionths.
    pub micros: Arc<[u32]>,
    pub available: Arc<[u8]>,
    pub reservation_counts: Arc<[u32]>,
    pub interruption_rates: Arc<[f64]>,
    pub placement_scores: Arc<[u8]>,
}

impl Columns {
    /// No offerings: the columns of a policy before its first request.
    pub fn empty() -> Self {
        Columns {
            generation: 0,
            fixed: Arc::default(),
            moving: Moving::default(),
        }
    }

    /// The columns of a catalogue. Where the static ones are those of `last`, they and its
    /// generation are kept.
    pub fn build(
        catalogue: &Catalogue,
        names: &Symbols,
        signals: &Signals,
        last: Option<&Columns>,
    ) -> Self {
        let fixed = Fixed::build(catalogue, names);
        let moving = Moving::build(catalogue, &fixed, signals);
        match last {
            Some(last) if *last.fixed == fixed => Columns {
                generation: last.generation,
                fixed: last.fixed.clone(),
                moving,
            },
            last => {
                let generation = last.map_or(1, |last| last.generation.wrapping_add(1));
                Columns {
                    generation,
                    fixed: Arc::new(fixed),
                    moving,
                }
            }
        }
    }

    /// The same catalogue in the light of other signals.
    pub fn with_signals(&self, signals: &Signals) -> Self {
        let moving = Moving {
            interruption_rates: interruption_rates(&self.fixed, signals),
            placement_scores: placement_scores(&self.fixed, signals),
            ..self.moving.clone()
        };
        Columns {
            moving,
            ..self.clone()
        }
    }

    /// Shares of spot instances interrupted; unknown for who may not see them.
    pub fn interruption_rates(&self, seen: bool) -> Arc<[f64]> {
        match seen {
            true => self.moving.interruption_rates.clone(),
            false => std::iter::repeat_n(UNKNOWN_RATE, self.count()).collect(),
        }
    }

    /// Placement scores; unknown for who may not see them.
    pub fn placement_scores(&self, seen: bool) -> Arc<[u8]> {
        match seen {
            true => self.moving.placement_scores.clone(),
            false => std::iter::repeat_n(UNKNOWN_SCORE, self.count()).collect(),
        }
    }

    pub fn count(&self) -> usize {
        self.moving.prices.len()
    }
}

impl Fixed {
    fn build(catalogue: &Catalogue, names: &Symbols) -> Self {
        let (types, offerings) = (catalogue.types(), catalogue.offerings());
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
        let mut zones = Interner::new(names);
        let mut capacity_types = Interner::new(names);
        let mut reservations = Interner::new(names);
        Fixed {
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
            gpu_counts: per_type(&|t| accelerators(t, names)),
            zone_names: zones.table(),
            capacity_type_names: capacity_types.table(),
            architecture_names: architectures.table(),
            reservation_names: reservations.table(),
        }
    }
}

impl Moving {
    fn build(catalogue: &Catalogue, fixed: &Fixed, signals: &Signals) -> Self {
        let offerings = catalogue.offerings();
        Moving {
            prices: catalogue.prices().clone(),
            micros: offerings
                .iter()
                .map(|o| (o.price * 1e6).round() as u32)
                .collect(),
            available: offerings.iter().map(|o| u8::from(o.available)).collect(),
            reservation_counts: offerings
                .iter()
                .map(|o| o.reservation.map_or(0, |(_, left)| left))
                .collect(),
            interruption_rates: interruption_rates(fixed, signals),
            placement_scores: placement_scores(fixed, signals),
        }
    }
}

fn interruption_rates(fixed: &Fixed, signals: &Signals) -> Arc<[f64]> {
    joined(INTERRUPTION_RATES, fixed, signals, UNKNOWN_RATE, |rate| {
        rate.clamp(0.0, 1.0)
    })
}

fn placement_scores(fixed: &Fixed, signals: &Signals) -> Arc<[u8]> {
    joined(PLACEMENT_SCORES, fixed, signals, UNKNOWN_SCORE, |score| {
        score.clamp(1.0, 10.0) as u8
    })
}

/// A signal as a column: the value under `type/zone`, else under `type`, else `unknown`.
fn joined<T: Copy>(
    name: &str,
    fixed: &Fixed,
    signals: &Signals,
    unknown: T,
    read: impl Fn(f64) -> T,
) -> Arc<[T]> {
    let rows = fixed.instance_types.iter().zip(fixed.zones.iter());
    let Some(signal) = signals.get(name) else {
        return rows.map(|_| unknown).collect();
    };
    let mut key = String::new();
    rows.map(|(&type_, &zone)| {
        key.clear();
        key.push_str(&fixed.instance_type_names[type_ as usize]);
        let whole_type = key.len();
        key.push('/');
        key.push_str(&fixed.zone_names[zone as usize]);
        signal
            .get(&key)
            .or_else(|| signal.get(&key[..whole_type]))
            .map_or(unknown, &read)
    })
    .collect()
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

fn accelerators(instance_type: &InstanceType, names: &Symbols) -> u32 {
    const DEVICES: [&str; 5] = ["/gpu", "/neuron", "/neurondevice", "/gaudi", "/tpu"];
    let devices = instance_type
        .capacity
        .iter()
        .filter_map(|(resource, amount)| match resource {
            ResourceId::Other(name) if DEVICES.iter().any(|d| names.text(name).ends_with(d)) => {
                Some(amount)
            }
            _ => None,
        });
    clamp(devices.sum())
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
