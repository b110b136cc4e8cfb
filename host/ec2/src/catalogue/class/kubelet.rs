//! Settings of the kubelet that change how many pods fit.

use super::super::amount::Amount;

/// Settings of the kubelet that change how many pods fit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kubelet {
    /// `maxPods`.
    pub max_pods: Option<i64>,
    /// `podsPerCore`; zero for no limit.
    pub pods_per_core: i64,
    /// `kubeReserved`.
    pub kube_reserved: Reserved,
    /// `systemReserved`.
    pub system_reserved: Reserved,
    /// `evictionHard` of `memory.available`.
    pub evict_memory: Option<Threshold>,
    /// `evictionHard` of `nodefs.available`.
    pub evict_storage: Option<Threshold>,
}

/// Amounts kept back from pods; what is not named has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    /// `cpu`.
    pub cpu: Option<Amount>,
    /// `memory`.
    pub memory: Option<Amount>,
    /// `ephemeral-storage`.
    pub storage: Option<Amount>,
    /// `pid`.
    pub pid: Option<Amount>,
}

impl Reserved {
    /// These amounts, and those of `defaults` that these do not name.
    pub fn or(self, defaults: Reserved) -> Reserved {
        Reserved {
            cpu: self.cpu.or(defaults.cpu),
            memory: self.memory.or(defaults.memory),
            storage: self.storage.or(defaults.storage),
            pid: self.pid.or(defaults.pid),
        }
    }

    /// Names and amounts of those that are set.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Amount)> {
        [
            ("cpu", self.cpu),
            ("memory", self.memory),
            ("ephemeral-storage", self.storage),
            ("pid", self.pid),
        ]
        .into_iter()
        .filter_map(|(name, amount)| Some((name, amount?)))
    }
}

/// Where the kubelet starts to evict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// So much must stay free.
    Amount(Amount),
    /// A share of capacity, 0 to 100.
    Percent(f64),
}
