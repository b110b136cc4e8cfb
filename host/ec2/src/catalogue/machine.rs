//! What one node has and what of it pods can have: capacity and overhead of an instance type under
//! a NodeClass.
//!
//! Formulas: Karpenter's AWS provider 1.15 (capacity, reserved amounts and eviction thresholds of
//! its instance types). The numbers of every type are compared with the provider's own answers in
//! `tests/types.rs`.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::expression::Variables;
use crate::facts::{Network, TypeFacts};

use super::amount::{Amount, GIB, MIB};
use super::class::expressions::{Expressions, Unresolved};
use super::class::kubelet::{Kubelet, Reserved, Threshold};
use super::class::{Class, Family};
use super::requirements::architecture;
use super::tables::NetworkRow;

/// Settings of the process that change what nodes have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// `VM_MEMORY_OVERHEAD_PERCENT`: the share of memory that the hypervisor keeps, 0 to 1.
    pub vm_memory_overhead: f64,
    /// `RESERVED_ENIS`: interfaces per node that pods do not get.
    pub reserved_enis: i64,
    /// Gate NodeClassCEL: settings of the kubelet may be expressions.
    pub expressions: bool,
    /// The cluster's minor version, 36 for 1.36, if it is known.
    pub kubernetes: Option<u16>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            vm_memory_overhead: 0.075,
            reserved_enis: 0,
            expressions: false,
            kubernetes: None,
        }
    }
}

/// Resources of a node, in the order of [`Machine::capacity`].
pub const RESOURCES: [&str; 12] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "pods",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "amd.com/gpu",
    "habana.ai/gaudi",
    "nvidia.com/gpu",
    "vpc.amazonaws.com/efa",
    "vpc.amazonaws.com/pod-eni",
    "vpc.amazonaws.com/PrivateIPv4Address",
];

/// Of [`RESOURCES`] those that NodeOverlays may set: drivers may show a GPU in parts (Karpenter's
/// well-known resources lack these two).
const SHARED: [&str; 2] = ["amd.com/gpu", "nvidia.com/gpu"];

/// Resources that no NodeOverlay may set on EC2: the provider sets them itself.
pub static OWN_RESOURCES: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let all = RESOURCES.into_iter();
    all.filter(|name| !SHARED.contains(name)).collect()
});

/// Rows of [`RESOURCES`] that overhead is taken from.
const CPU: usize = 0;
const MEMORY: usize = 1;
const STORAGE: usize = 2;
/// The row of pods.
const PODS: usize = 3;

/// A node of an instance type under a NodeClass.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// What it has, by [`RESOURCES`]; the last only under Windows.
    pub capacity: [Option<Amount>; RESOURCES.len()],
    /// What the kubelet and the container runtime keep.
    pub kube_reserved: Reserved,
    /// What the operating system keeps.
    pub system_reserved: Reserved,
    /// Memory below which the kubelet evicts pods.
    pub evict_memory: Amount,
    /// Free storage below which it does.
    pub evict_storage: Amount,
}

impl Machine {
    /// A node of `facts` under `class`, with memory as it is estimated.
    ///
    /// # Errors
    /// The first expression of the class without a value for the type.
    pub fn new(
        facts: &TypeFacts,
        network: Option<NetworkRow>,
        class: &Class,
        settings: &Settings,
    ) -> Result<Self, Unresolved> {
        let kubelet = resolved(facts, class, settings)?;
        Ok(Self::with(facts, network, class, &kubelet, settings))
    }

    /// A node of `facts` under `class`, whose kubelet has the settings `kubelet` whatever the class
    /// says.
    pub fn with(
        facts: &TypeFacts,
        network: Option<NetworkRow>,
        class: &Class,
        kubelet: &Kubelet,
        settings: &Settings,
    ) -> Self {
        let pods = pods(facts, class, kubelet, settings.reserved_enis);
        let estimated = Amount::binary(estimated_memory(facts, settings));
        let storage = storage(facts, class);
        let count = |number: i64| Some(Amount::decimal(number));
        let gpus = |manufacturer: &str| {
            let gpus = facts
                .gpus
                .iter()
                .filter(|gpu| &*gpu.manufacturer == manufacturer);
            count(gpus.map(|gpu| gpu.count).sum())
        };
        // A type that no table has gives its Windows nodes no address, as Karpenter has it.
        let windows = class.family.is_windows() && architecture(facts) == Some("amd64");
        let windows_addresses = network.and_then(|row| row.windows_addresses).unwrap_or(0);
        let capacity = [
            count(facts.vcpus),
            Some(estimated),
            Some(storage),
            count(pods),
            count(facts.neuron.iter().map(|device| device.count).sum()),
            count(
                facts
                    .neuron
                    .first()
                    .map_or(0, |device| device.count * device.cores),
            ),
            gpus("AMD"),
            gpus("Habana"),
            gpus("NVIDIA"),
            count(efa_interfaces(facts, class)),
            count(network.map_or(0, |row| row.branch_interfaces)),
            Some(Amount::decimal(windows_addresses)).filter(|_| windows),
        ];
        let memory_pods = match class.family.memory_by_interfaces() {
            true => memory_pods(facts, class),
            false => pods,
        };
        let defaults = Reserved {
            cpu: Some(Amount::milli(reserved_cpu(facts.vcpus))),
            memory: Some(Amount::binary((11 * memory_pods + 255) * MIB)),
            storage: Some(Amount::binary(GIB)),
            pid: None,
        };
        Machine {
            capacity,
            kube_reserved: kubelet.kube_reserved.or(defaults),
            system_reserved: kubelet.system_reserved,
            evict_memory: threshold(kubelet.evict_memory, estimated, Amount::binary(100 * MIB)),
            evict_storage: threshold(kubelet.evict_storage, storage, share(storage, 10.0)),
        }
    }

    /// How many pods it takes.
    pub fn pods(&self) -> i64 {
        self.capacity[PODS].map_or(0, Amount::units)
    }

    /// Sets the memory that nodes of the type were seen with, in bytes; without it memory is
    /// estimated. Overhead stays: eviction thresholds are shares of the estimate.
    pub fn set_memory(&mut self, facts: &TypeFacts, settings: &Settings, memory: Option<i64>) {
        let bytes = memory.unwrap_or_else(|| estimated_memory(facts, settings));
        self.capacity[MEMORY] = Some(Amount::binary(bytes));
    }

    /// What pods can have, by [`RESOURCES`]: capacity less overhead. May be below zero.
    pub fn allocatable(&self) -> [Option<Amount>; RESOURCES.len()] {
        let mut left = self.capacity;
        let none = Amount::ZERO;
        for (row, taken) in [
            (
                CPU,
                [self.kube_reserved.cpu, self.system_reserved.cpu, None],
            ),
            (
                MEMORY,
                [
                    self.kube_reserved.memory,
                    self.system_reserved.memory,
                    Some(self.evict_memory),
                ],
            ),
            (
                STORAGE,
                [
                    self.kube_reserved.storage,
                    self.system_reserved.storage,
                    Some(self.evict_storage),
                ],
            ),
        ] {
            for amount in taken {
                left[row] = left[row].map(|l| l.less(amount.unwrap_or(none)));
            }
        }
        left
    }
}

impl Expressions {
    /// Writes into `spec.kubelet` what the expressions came to on a machine, as user data has it:
    /// `maxPods` as a number, reserved amounts as quantities.
    pub fn write(&self, settings: &mut Map<String, Value>, machine: &Machine) {
        if self.max_pods.is_some() {
            settings.insert("maxPods".to_owned(), machine.pods().into());
        }
        for (name, entries, mut reserved) in [
            ("kubeReserved", &self.kube_reserved, machine.kube_reserved),
            (
                "systemReserved",
                &self.system_reserved,
                machine.system_reserved,
            ),
        ] {
            let Some(map) = settings.get_mut(name).and_then(Value::as_object_mut) else {
                continue;
            };
            for (of, _) in entries {
                if let Some(amount) = *of.slot(&mut reserved) {
                    map.insert(of.name().to_owned(), amount.to_string().into());
                }
            }
        }
    }
}

/// Bytes of memory that a node shows: what EC2 names less what the hypervisor keeps. On arm64 the
/// kernel keeps another 64 MiB for contiguous allocations.
fn estimated_memory(facts: &TypeFacts, settings: &Settings) -> i64 {
    let arm = facts
        .architectures
        .first()
        .is_some_and(|arch| &**arch == "arm64");
    let mib = facts.memory_mib - if arm { 64 } else { 0 };
    let kept = (mib as f64 * settings.vm_memory_overhead).ceil() as i64;
    mib.saturating_sub(kept).saturating_mul(MIB)
}

/// The kubelet's settings on a node of `facts`, expressions evaluated.
fn resolved<'a>(
    facts: &TypeFacts,
    class: &'a Class,
    settings: &Settings,
) -> Result<Cow<'a, Kubelet>, Unresolved> {
    if class.expressions.is_empty() {
        return Ok(Cow::Borrowed(&class.kubelet));
    }
    let default = Kubelet {
        max_pods: None,
        pods_per_core: 0,
        ..Kubelet::default()
    };
    let taken = |kubelet: &Kubelet| pods(facts, class, kubelet, settings.reserved_enis);
    let variables = Variables {
        vcpus: facts.vcpus,
        memory_mib: facts.memory_mib,
        default_enis: facts.network.default_interfaces(),
        ips_per_eni: facts.network.ipv4_per_interface,
        max_pods: taken(&default),
        instance_type: &facts.name,
    };
    let kubelet = class
        .expressions
        .resolve(&class.kubelet, variables, taken)?;
    Ok(Cow::Owned(kubelet))
}

/// How many pods a node takes with settings of the kubelet.
fn pods(facts: &TypeFacts, class: &Class, kubelet: &Kubelet, reserved_enis: i64) -> i64 {
    let Kubelet {
        max_pods,
        pods_per_core,
        ..
    } = *kubelet;
    let pods = match max_pods {
        Some(number) => number,
        None if class.family.pods_by_interfaces() => {
            pods_by_interfaces(&facts.network, class, reserved_enis)
        }
        None => 110,
    };
    match pods_per_core > 0 && class.family.pods_per_core() {
        true => pods.min(pods_per_core.saturating_mul(facts.vcpus)),
        false => pods,
    }
}

/// Pods that the VPC CNI has addresses for: each interface gives its secondary addresses, and two
/// pods use the host's network. Zero without a usable interface.
fn pods_by_interfaces(network: &Network, class: &Class, reserved_enis: i64) -> i64 {
    let without_addresses = class
        .network_interfaces
        .iter()
        .filter(|interface| interface.card == network.default_card && interface.efa_only)
        .count() as i64;
    let usable = network.default_interfaces() - reserved_enis - without_addresses;
    match usable {
        ..=0 => 0,
        _ => usable * (network.ipv4_per_interface - 1) + 2,
    }
}

/// Interfaces of the default card where nodeadm's own table, which it reads before it asks EC2, has
/// another number than EC2 describes. Source: its instance-info.jsonl of July 2026 against
/// DescribeInstanceTypes of October 2026, 1 395 types.
const NODEADM_INTERFACES: [(&str, i64); 4] = [
    ("i7ie.48xlarge", 15),
    ("i7ie.metal-48xl", 15),
    ("i8ge.48xlarge", 24),
    ("i8ge.metal-48xl", 24),
];

/// Pods that memory is reserved for: those that interfaces allow, or what the user's expression gives.
/// nodeadm passes over one without a value, and over values that are no number of pods.
fn memory_pods(facts: &TypeFacts, class: &Class) -> i64 {
    let own = NODEADM_INTERFACES
        .iter()
        .filter(|_| class.family == Family::AL2023);
    let own = own.into_iter().find(|(name, _)| *name == &*facts.name);
    let interfaces = own.map_or(facts.network.default_interfaces(), |(_, number)| *number);
    let more = interfaces - facts.network.default_interfaces();
    let standard = pods_by_interfaces(&facts.network, class, -more);
    let Some(expression) = &class.memory_pods else {
        return standard;
    };
    let value = expression.evaluate(&Variables {
        vcpus: facts.vcpus,
        memory_mib: facts.memory_mib,
        default_enis: interfaces,
        ips_per_eni: facts.network.ipv4_per_interface,
        max_pods: standard,
        instance_type: &facts.name,
    });
    let value = value
        .ok()
        .filter(|pods| (1..=i32::MAX.into()).contains(pods));
    value.unwrap_or(standard)
}

/// Disk for images, logs and writable layers.
fn storage(facts: &TypeFacts, class: &Class) -> Amount {
    if let Some(disks) = facts.local_disks.filter(|disks| disks.total_gb > 0)
        && class.local_disks_as_storage
    {
        return Amount::decimal(disks.total_gb * 1_000_000_000);
    }
    let default = class.family.storage_device();
    let devices = &class.block_devices;
    let used = devices
        .iter()
        .find(|device| device.root)
        .or_else(|| match default {
            Some((name, _)) => devices.iter().find(|device| &*device.name == name),
            None => devices.last(),
        });
    used.and_then(|device| device.size)
        .or(default.map(|(_, size)| size))
        .unwrap_or(Amount::binary(20 * GIB))
}

/// EFA interfaces for pods: those that the NodeClass lists, or all that the type has.
fn efa_interfaces(facts: &TypeFacts, class: &Class) -> i64 {
    match class.network_interfaces.as_slice() {
        [] => facts.network.efa_interfaces.unwrap_or(0),
        listed => listed.iter().filter(|interface| interface.efa_only).count() as i64,
    }
}

/// CPU that the kubelet keeps, in thousandths of a core: 6 % of the first core, 1 % of the second,
/// 0.5 % of the next two, 0.25 % of the others.
fn reserved_cpu(vcpus: i64) -> i64 {
    // Cores of a band, and thousandths of a core per 4 of its cores.
    [(1, 240), (1, 40), (2, 20), (i64::MAX, 10)]
        .into_iter()
        .fold((0, vcpus), |(kept, left), (band, per_four)| {
            let cores = left.min(band);
            (kept + cores * per_four / 4, left - cores)
        })
        .0
}

fn threshold(set: Option<Threshold>, of: Amount, default: Amount) -> Amount {
    match set {
        None => default,
        Some(Threshold::Amount(amount)) => amount,
        // The kubelet reads 100 % as: this signal evicts nothing.
        Some(Threshold::Percent(percent)) if percent >= 100.0 => Amount::ZERO,
        Some(Threshold::Percent(percent)) => share(of, percent),
    }
}

/// A share of whole units, rounded up.
fn share(of: Amount, percent: f64) -> Amount {
    Amount::binary((of.units() as f64 / 100.0 * percent).ceil() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_cpu_follows_the_bands() {
        let kept = [1, 2, 4, 8, 16, 48, 96, 192].map(reserved_cpu);
        assert_eq!(kept, [60, 70, 80, 90, 110, 190, 310, 550]);
    }
}
