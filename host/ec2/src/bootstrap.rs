//! What a bootstrap policy answered, checked: user data that boots a node of its family, and what
//! the kubelet keeps back.
//!
//! [`check_text`] refuses user data with which a node would not join, and [`read_back`] finds what
//! it tells the kubelet. [`Kept`] is what the kubelet keeps back on one machine; [`Kept::fits`]
//! holds it against the machine, [`Kept::agrees`] against the user data. The policy itself is called
//! elsewhere.

mod bottlerocket;
pub mod drift;
mod flags;
mod join;
mod nodeadm;
mod read_back;
pub mod sample;

use crate::catalogue::amount::Amount;
use crate::catalogue::class::{Kubelet, Reserved, Threshold};
use crate::catalogue::machine::Machine;
use crate::userdata::{Boot, Cluster, Family, MOST_BYTES, Taint};

pub use flags::has as has_flag;
pub use read_back::{ReadBack, read_back};

/// Rows of [`crate::catalogue::machine::RESOURCES`].
const CPU: usize = 0;
const MEMORY: usize = 1;
const STORAGE: usize = 2;
const PODS: usize = 3;

/// The cluster that nodes join.
#[derive(Clone, Copy, Debug)]
pub struct Joins<'a> {
    /// What user data names.
    pub cluster: &'a Cluster,
    /// The API server's version, such as `1.35`; empty if it is not known.
    pub kubernetes: &'a str,
}

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
    /// Most pods.
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

    /// All amounts in the order of [`NAMES`].
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

/// Whether a node of `boot`'s family joins its cluster with this user data: not longer than EC2
/// takes, readable as its format, and with the cluster's name, endpoint and CA and the node's taints
/// in it. Custom images may boot with anything. What the text says to the kubelet comes back.
pub fn check_text(boot: &Boot, bytes: &[u8]) -> Result<ReadBack, String> {
    if bytes.len() > MOST_BYTES {
        return Err(format!(
            "{} bytes; EC2 takes at most {MOST_BYTES} before they are encoded",
            bytes.len()
        ));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| format!("not UTF-8 from byte {} on", error.valid_up_to()))?;
    if text.contains('\0') {
        return Err("has a NUL character".to_owned());
    }
    joins(boot, text)
}

/// Whether a node of `boot`'s family joins its cluster with this user data, however long it is; see
/// [`check_text`].
///
/// # Errors
/// Why it would not.
pub fn joins(boot: &Boot, text: &str) -> Result<ReadBack, String> {
    let said = read_back(boot.family, text)?;
    if boot.family == Family::Custom {
        return Ok(said);
    }
    let cluster = &boot.cluster;
    let expected = [
        ("the cluster's name", &cluster.name, &said.cluster_name),
        ("the API server's URL", &cluster.endpoint, &said.endpoint),
        ("the cluster's CA", &cluster.ca_bundle, &said.ca_bundle),
    ];
    for (what, ours, theirs) in expected {
        match theirs {
            _ if ours.is_empty() => {}
            Some(theirs) if theirs == ours => {}
            Some(theirs) => {
                let theirs = longshore_api::manifests::quoted(theirs);
                return Err(format!("{what} is {theirs}; a node would join elsewhere"));
            }
            None => return Err(format!("{what} is missing; a node would not join")),
        }
    }
    if boot.family == Family::AL2023 && said.cidr.as_deref() != Some(&cluster.cidr) {
        return Err(
            "spec.cluster.cidr is missing or another; AL2023 cannot boot without it".to_owned(),
        );
    }
    let there = |taint: &&Taint| {
        said.taints.iter().any(|(key, value, effect)| {
            (key, value, effect) == (&taint.key, &taint.value, &taint.effect)
        })
    };
    if let Some(taint) = boot.taints.iter().find(|taint| !there(taint)) {
        return Err(format!(
            "the taint {}:{} is missing; pods would start too early",
            taint.key, taint.effect
        ));
    }
    Ok(said)
}
