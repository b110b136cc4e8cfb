//! A catalogue and signals for tests of policies, on any target but `wasm32`: what the host's
//! functions answer inside [`with`] and [`with_signals`].

pub mod boot;
mod cluster;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

pub use cluster::{Cluster, Node, Owner, Proposal, with_cluster};
pub(crate) use cluster::{node_pools, nodes, now, owners, proposals};

/// An offering of the catalogue under test.
#[derive(Clone, Debug, PartialEq)]
pub struct Offering {
    /// `m7g.large`.
    pub instance_type: &'static str,
    /// Its zone.
    pub zone: &'static str,
    /// `on-demand`, `spot` or `reserved`.
    pub capacity_type: &'static str,
    /// `amd64` or `arm64`.
    pub architecture: &'static str,
    /// Thousandths of a core.
    pub cpu_millicores: u32,
    /// MiB.
    pub memory_mib: u32,
    /// Devices of resource `nvidia.com/gpu`.
    pub gpus: u32,
    /// USD per hour.
    pub price: f64,
    /// USD per hour by the policy before; none for the price.
    pub cost: Option<f64>,
    /// Whether it can be had.
    pub available: bool,
    /// Its reservation, and how many are left.
    pub reservation: Option<(&'static str, u32)>,
}

impl Default for Offering {
    /// An on-demand m7g.large in us-east-1a for 0.0816 USD per hour.
    fn default() -> Self {
        Offering {
            instance_type: "m7g.large",
            zone: "us-east-1a",
            capacity_type: "on-demand",
            architecture: "arm64",
            cpu_millicores: 2000,
            memory_mib: 8192,
            gpus: 0,
            price: 0.0816,
            cost: None,
            available: true,
            reservation: None,
        }
    }
}

type Tables = BTreeMap<String, BTreeMap<String, f64>>;

thread_local! {
    static OFFERINGS: RefCell<Vec<Offering>> = const { RefCell::new(Vec::new()) };
    static SIGNALS: RefCell<Tables> = const { RefCell::new(BTreeMap::new()) };
}

/// Runs a test on a catalogue.
pub fn with<T>(offerings: &[Offering], test: impl FnOnce() -> T) -> T {
    let before = OFFERINGS.replace(offerings.to_vec());
    let result = test();
    OFFERINGS.set(before);
    result
}

/// Runs a test with a signal, fetched in 1970.
pub fn with_signal<T>(name: &str, rows: &[(&str, f64)], test: impl FnOnce() -> T) -> T {
    let table = rows
        .iter()
        .map(|&(key, value)| (key.to_owned(), value))
        .collect();
    SIGNALS.with_borrow_mut(|signals| signals.insert(name.to_owned(), table));
    let result = test();
    SIGNALS.with_borrow_mut(|signals| signals.remove(name));
    result
}

pub(crate) fn edition() -> String {
    let mut hasher = DefaultHasher::new();
    OFFERINGS.with_borrow(|all| {
        for o in all {
            (
                o.instance_type,
                o.zone,
                o.capacity_type,
                o.architecture,
                o.reservation,
            )
                .hash(&mut hasher);
            (o.cpu_millicores, o.memory_mib, o.gpus).hash(&mut hasher);
        }
    });
    format!("{:016x}", hasher.finish())
}

pub(crate) fn count() -> u32 {
    OFFERINGS.with_borrow(|all| all.len() as u32)
}

fn column<T>(of: impl Fn(&Offering) -> T) -> Vec<T> {
    OFFERINGS.with_borrow(|all| all.iter().map(of).collect())
}

fn table(of: impl Fn(&Offering) -> &'static str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in column(of) {
        if !names.iter().any(|have| have == name) {
            names.push(name.to_owned());
        }
    }
    names
}

fn index(of: impl Fn(&Offering) -> &'static str + Copy) -> Vec<u32> {
    let names = table(of);
    column(|o| {
        names
            .iter()
            .position(|name| name == of(o))
            .unwrap_or_default() as u32
    })
}

macro_rules! columns {
    ($($names:ident, $rows:ident: $of:expr;)*) => {$(
        pub(crate) fn $names() -> Vec<String> {
            table($of)
        }

        pub(crate) fn $rows() -> Vec<u32> {
            index($of)
        }
    )*};
    ($($rows:ident: $type:ty = $of:expr;)*) => {$(
        pub(crate) fn $rows() -> Vec<$type> {
            column($of)
        }
    )*};
}

columns! {
    instance_type_names, instance_types: |o| o.instance_type;
    zone_names, zones: |o| o.zone;
    capacity_type_names, capacity_types: |o| o.capacity_type;
    architecture_names, architectures: |o| o.architecture;
    reservation_names, reservations: |o| o.reservation.map_or("", |(id, _)| id);
}

columns! {
    cpu_millicores: u32 = |o| o.cpu_millicores;
    memory_mib: u32 = |o| o.memory_mib;
    prices: f64 = |o| o.price;
    costs: f64 = |o| o.cost.unwrap_or(o.price);
    available: u8 = |o| u8::from(o.available);
    reservation_counts: u32 = |o| o.reservation.map_or(0, |(_, left)| left);
}

pub(crate) fn signal_keys(name: &str) -> Vec<String> {
    SIGNALS.with_borrow(|all| {
        all.get(name)
            .map_or_else(Vec::new, |table| table.keys().cloned().collect())
    })
}

pub(crate) fn signal_values(name: &str) -> Vec<f64> {
    SIGNALS.with_borrow(|all| {
        all.get(name)
            .map_or_else(Vec::new, |table| table.values().copied().collect())
    })
}

pub(crate) fn signal_time(name: &str) -> f64 {
    SIGNALS.with_borrow(|all| {
        if all.contains_key(name) {
            0.0
        } else {
            f64::NAN
        }
    })
}

pub(crate) mod labels {
    use super::Offering;

    const LABELS: [(&str, fn(&Offering) -> &'static str); 4] = [
        ("karpenter.sh/capacity-type", |o| o.capacity_type),
        ("kubernetes.io/arch", |o| o.architecture),
        ("node.kubernetes.io/instance-type", |o| o.instance_type),
        ("topology.kubernetes.io/zone", |o| o.zone),
    ];

    fn of(key: &str) -> fn(&Offering) -> &'static str {
        let known = LABELS.iter().find(|(known, _)| *known == key);
        known.map_or(|_| "", |(_, of)| *of)
    }

    pub(crate) fn keys() -> Vec<String> {
        LABELS.map(|(key, _)| key.to_owned()).to_vec()
    }

    pub(crate) fn values(key: &str) -> Vec<String> {
        super::table(of(key))
    }

    pub(crate) fn rows(key: &str) -> Vec<u32> {
        super::index(of(key))
    }
}

pub(crate) mod resources {
    pub(crate) fn names() -> Vec<String> {
        ["cpu", "memory", "nvidia.com/gpu"]
            .map(str::to_owned)
            .to_vec()
    }

    pub(crate) fn capacity(name: &str) -> Vec<f64> {
        super::column(|o| match name {
            "cpu" => f64::from(o.cpu_millicores) / 1000.0,
            "memory" => f64::from(o.memory_mib) * 1_048_576.0,
            "nvidia.com/gpu" => f64::from(o.gpus),
            _ => 0.0,
        })
    }

    /// Nothing is kept back.
    pub(crate) fn allocatable(name: &str) -> Vec<f64> {
        capacity(name)
    }
}

pub(crate) mod joined {
    pub(crate) fn column(signal: &str, otherwise: f64) -> Vec<f64> {
        super::SIGNALS.with_borrow(|all| {
            let table = all.get(signal);
            super::column(|o| {
                let (kind, zone) = (o.instance_type, o.zone);
                let keys = [
                    format!("{kind}/{zone}/{}", o.capacity_type),
                    format!("{kind}/{zone}"),
                    kind.to_owned(),
                    zone.to_owned(),
                ];
                let known = keys.iter().find_map(|key| table?.get(key));
                known.copied().unwrap_or(otherwise)
            })
        })
    }
}

pub(crate) mod node_pool {
    pub(crate) fn name() -> String {
        "default".to_owned()
    }

    pub(crate) fn labels() -> Vec<(String, String)> {
        Vec::new()
    }

    pub(crate) fn annotations() -> Vec<(String, String)> {
        Vec::new()
    }

    pub(crate) fn weight() -> u32 {
        0
    }
}
