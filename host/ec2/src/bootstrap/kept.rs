//! What the kubelet keeps back on one machine, held against the machine and against user data.

use crate::catalogue::amount::Amount;
use crate::catalogue::class::kubelet::{Kubelet, Reserved, Threshold};
use crate::catalogue::machine::Machine;

/// Rows of [`crate::catalogue::machine::RESOURCES`].
const CPU: usize = 0;
const MEMORY: usize = 1;
const STORAGE: usize = 2;
const PODS: usize = 3;

/// What a machine has, as far as it is known: cores and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Capacity {
    /// Cores.
    pub cpu: Option<f64>,
    /// Bytes of memory.
    pub memory: Option<f64>,
    /// Bytes of disk for images, logs and writable layers.
    pub storage: Option<f64>,
}

/// What the kubelet keeps back from pods on one machine: cores and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Kept {
    /// How many pods the kubelet takes.
    pub max_pods: i64,
    /// `kubeReserved`: cpu, memory, ephemeral-storage.
    pub kube: [f64; 3],
    /// `systemReserved`: cpu, memory, ephemeral-storage.
    pub system: [f64; 3],
    /// Thresholds of eviction: memory, storage.
    pub eviction: [f64; 2],
}

/// Names of the amounts of a [`Kept`], in the order of [`Kept::amounts`].
const NAMES: [&str; 8] = [
    "kube-reserved-cpu",
    "kube-reserved-memory",
    "kube-reserved-storage",
    "system-reserved-cpu",
    "system-reserved-memory",
    "system-reserved-storage",
    "eviction-memory",
    "eviction-storage",
];

impl Capacity {
    /// That of a machine of the catalogue.
    pub fn of(machine: &Machine) -> Self {
        let units = |row: usize| machine.capacity[row].map(units);
        Capacity {
            cpu: units(CPU),
            memory: units(MEMORY),
            storage: units(STORAGE),
        }
    }
}

impl Kept {
    /// That of a machine of the catalogue.
    pub fn of(machine: &Machine) -> Self {
        Kept {
            max_pods: machine.capacity[PODS].map_or(0, Amount::units),
            kube: three(&machine.kube_reserved),
            system: three(&machine.system_reserved),
            eviction: [units(machine.evict_memory), units(machine.evict_storage)],
        }
    }

    /// What settings of the kubelet say themselves; nothing where they are silent.
    pub fn said(kubelet: &Kubelet, capacity: &Capacity) -> Self {
        Kept {
            max_pods: kubelet.max_pods.unwrap_or(0),
            kube: three(&kubelet.kube_reserved),
            system: three(&kubelet.system_reserved),
            eviction: [
                threshold(kubelet.evict_memory, capacity.memory).unwrap_or(0.0),
                threshold(kubelet.evict_storage, capacity.storage).unwrap_or(0.0),
            ],
        }
    }

    /// Makes the machine keep this back. What `pid` reserves stays.
    pub fn apply(&self, machine: &mut Machine) {
        let bytes = |amount: f64| Amount::binary(amount as i64);
        let reserved = |of: &[f64; 3], before: &Reserved| Reserved {
            cpu: Some(Amount::milli((of[0] * 1000.0).round() as i64)),
            memory: Some(bytes(of[1])),
            storage: Some(bytes(of[2])),
            pid: before.pid,
        };
        machine.capacity[PODS] = Some(Amount::decimal(self.max_pods));
        machine.kube_reserved = reserved(&self.kube, &machine.kube_reserved);
        machine.system_reserved = reserved(&self.system, &machine.system_reserved);
        machine.evict_memory = bytes(self.eviction[0]);
        machine.evict_storage = bytes(self.eviction[1]);
    }

    /// Whether every amount is finite and 0 or more, and no resource is kept back beyond what the
    /// machine has, or beyond what `built_in` keeps back where that is more already. The error names
    /// the amount.
    pub fn fits(&self, capacity: &Capacity, built_in: &Kept) -> Result<(), String> {
        for (name, amount) in self.amounts() {
            if !(amount.is_finite() && amount >= 0.0) {
                return Err(format!(
                    "{name} is {amount}; expected a finite number, 0 or more"
                ));
            }
        }
        let sums = |kept: &Kept| {
            [
                kept.kube[0] + kept.system[0],
                kept.kube[1] + kept.system[1] + kept.eviction[0],
                kept.kube[2] + kept.system[2] + kept.eviction[1],
            ]
        };
        let has = [capacity.cpu, capacity.memory, capacity.storage];
        let names = ["cores", "bytes of memory", "bytes of storage"];
        for (at, name) in names.into_iter().enumerate() {
            let (kept, usual) = (sums(self)[at], sums(built_in)[at]);
            if let Some(has) = has[at]
                && kept > has.max(usual)
            {
                return Err(format!(
                    "{kept} {name} are kept back of a machine that has {has}"
                ));
            }
        }
        Ok(())
    }

    /// Whether this is what user data makes the kubelet keep back on a machine with `capacity`.
    /// Where the user data says nothing, the node's own agent decides, and it decides as
    /// `by_agent` says; without it anything is right. The error names the amount.
    pub fn agrees(
        &self,
        said: &Kubelet,
        capacity: &Capacity,
        by_agent: Option<&Kept>,
    ) -> Result<(), String> {
        let differs = |name: &str, declared: f64, said: f64, by: &str| {
            Err(format!(
                "{name} is {declared} in the overheads and {said} {by}; the scheduler would count \
                 with another node than the one that boots"
            ))
        };
        let pods = said
            .max_pods
            .map(|pods| (pods, "in the user data"))
            .or_else(|| by_agent.map(|kept| (kept.max_pods, "by the node's own agent")));
        // With podsPerCore the kubelet takes the smaller of both.
        if let Some((pods, by)) = pods
            && (pods < self.max_pods || (pods > self.max_pods && said.pods_per_core == 0))
        {
            return differs("max-pods", self.max_pods as f64, pods as f64, by);
        }
        let kube = [
            &said.kube_reserved.cpu,
            &said.kube_reserved.memory,
            &said.kube_reserved.storage,
        ];
        let system = [
            &said.system_reserved.cpu,
            &said.system_reserved.memory,
            &said.system_reserved.storage,
        ];
        let amounts = kube
            .into_iter()
            .chain(system)
            .map(|amount| amount.map(units));
        let thresholds = [
            threshold(said.evict_memory, capacity.memory),
            threshold(said.evict_storage, capacity.storage),
        ];
        let by_agent = by_agent.map(Kept::amounts);
        let rows = self.amounts().into_iter();
        for (at, ((name, declared), said)) in rows.zip(amounts.chain(thresholds)).enumerate() {
            let (right, by) = match (said, by_agent) {
                (Some(said), _) => (said, "in the user data"),
                (None, Some(usual)) => (usual[at].1, "by the node's own agent"),
                (None, None) => continue,
            };
            // The kubelet counts thousandths of a core and whole bytes.
            let step = if name.ends_with("cpu") { 1000.0 } else { 1.0 };
            if (declared * step).round() != (right * step).round() {
                return differs(name, declared, right, by);
            }
        }
        Ok(())
    }

    /// The amounts without the number of pods, by the names of the contract with policies.
    pub fn amounts(&self) -> [(&'static str, f64); 8] {
        let ([a, b, c], [d, e, f], [g, h]) = (self.kube, self.system, self.eviction);
        let amounts = [a, b, c, d, e, f, g, h];
        std::array::from_fn(|at| (NAMES[at], amounts[at]))
    }
}

/// Amounts of cpu, memory and ephemeral-storage; what is not named has none.
fn three(of: &Reserved) -> [f64; 3] {
    [of.cpu, of.memory, of.storage].map(|amount| amount.map_or(0.0, units))
}

/// An amount in cores or bytes.
fn units(amount: Amount) -> f64 {
    amount.milli as f64 / 1000.0
}

/// A threshold in bytes. `None` for a share of what is not known.
fn threshold(said: Option<Threshold>, of: Option<f64>) -> Option<f64> {
    match said? {
        Threshold::Amount(amount) => Some(units(amount)),
        Threshold::Percent(percent) if percent >= 100.0 => Some(0.0),
        Threshold::Percent(percent) => Some((of?.ceil() / 100.0 * percent).ceil()),
    }
}
