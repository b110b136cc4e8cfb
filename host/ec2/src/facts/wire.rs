//! A description as EC2 writes it: what of it is read, and what it must say.

use std::borrow::Cow;

use serde::Deserialize;

use super::{Accelerator, Gpu, LocalDisks, Network, NetworkCard, Neuron, TypeFacts, UsageClasses};

/// Field, reason and hint.
pub(super) type Fault = (String, String, &'static str);

type Text<'a> = Cow<'a, str>;

/// Counts and sizes stay below this, so that no product of two of them leaves 64 bits.
const MAX_COUNT: i64 = 1 << 31;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", expecting = "an instance type")]
pub(super) struct Description<'a> {
    #[serde(borrow)]
    instance_type: Text<'a>,
    #[serde(borrow)]
    processor_info: ProcessorInfo<'a>,
    #[serde(rename = "VCpuInfo")]
    vcpu_info: VCpuInfo,
    memory_info: MemoryInfo,
    #[serde(default, borrow)]
    supported_usage_classes: Vec<Text<'a>>,
    #[serde(default, borrow)]
    hypervisor: Option<Text<'a>>,
    #[serde(default)]
    bare_metal: Option<bool>,
    #[serde(default, borrow)]
    nitro_enclaves_support: Option<Text<'a>>,
    #[serde(default, borrow)]
    placement_group_info: Option<PlacementGroupInfo<'a>>,
    #[serde(default, borrow)]
    instance_storage_info: Option<InstanceStorageInfo<'a>>,
    #[serde(default, borrow)]
    ebs_info: Option<EbsInfo<'a>>,
    #[serde(borrow)]
    network_info: NetworkInfo<'a>,
    #[serde(default, borrow)]
    gpu_info: Option<GpuInfo<'a>>,
    #[serde(default, borrow)]
    inference_accelerator_info: Option<InferenceAcceleratorInfo<'a>>,
    #[serde(default, borrow)]
    neuron_info: Option<NeuronInfo<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", expecting = "an object")]
struct ProcessorInfo<'a> {
    #[serde(borrow)]
    supported_architectures: Vec<Text<'a>>,
    #[serde(default, borrow)]
    manufacturer: Option<Text<'a>>,
    #[serde(default)]
    sustained_clock_speed_in_ghz: Option<f64>,
    #[serde(default, borrow)]
    supported_features: Vec<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct VCpuInfo {
    #[serde(rename = "DefaultVCpus")]
    default_vcpus: i64,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct MemoryInfo {
    #[serde(rename = "SizeInMiB")]
    size_in_mib: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", expecting = "an object")]
struct PlacementGroupInfo<'a> {
    #[serde(default, borrow)]
    supported_strategies: Vec<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", expecting = "an object")]
struct InstanceStorageInfo<'a> {
    #[serde(default, rename = "TotalSizeInGB")]
    total_size_in_gb: Option<i64>,
    #[serde(default, borrow)]
    nvme_support: Option<Text<'a>>,
    #[serde(default)]
    disks: Vec<WireDisks>,
}

/// Disks of a machine that are alike.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", expecting = "an object")]
struct WireDisks {
    #[serde(default)]
    count: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", expecting = "an object")]
struct EbsInfo<'a> {
    #[serde(default, borrow)]
    ebs_optimized_support: Option<Text<'a>>,
    #[serde(default)]
    ebs_optimized_info: Option<EbsOptimizedInfo>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", expecting = "an object")]
struct EbsOptimizedInfo {
    #[serde(default)]
    maximum_bandwidth_in_mbps: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", expecting = "an object")]
struct NetworkInfo<'a> {
    #[serde(default, borrow)]
    ena_support: Option<Text<'a>>,
    #[serde(default)]
    encryption_in_transit_supported: Option<bool>,
    #[serde(default)]
    maximum_network_interfaces: Option<i64>,
    #[serde(default)]
    default_network_card_index: Option<i64>,
    #[serde(default)]
    network_cards: Vec<WireCard>,
    #[serde(default)]
    ipv4_addresses_per_interface: Option<i64>,
    #[serde(default)]
    efa_info: Option<EfaInfo>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", expecting = "a network card")]
struct WireCard {
    #[serde(default)]
    network_card_index: i64,
    #[serde(default)]
    maximum_network_interfaces: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", expecting = "an object")]
struct EfaInfo {
    #[serde(default)]
    maximum_efa_interfaces: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", expecting = "an object")]
struct GpuInfo<'a> {
    #[serde(default, borrow)]
    gpus: Vec<Device<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", expecting = "an object")]
struct InferenceAcceleratorInfo<'a> {
    #[serde(default, borrow)]
    accelerators: Vec<Device<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", expecting = "an object")]
struct NeuronInfo<'a> {
    #[serde(default, borrow)]
    neuron_devices: Vec<Device<'a>>,
}

/// GPUs, inference accelerators and Neuron devices have the same shape.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", expecting = "a device")]
struct Device<'a> {
    #[serde(default, borrow)]
    name: Text<'a>,
    #[serde(default, borrow)]
    manufacturer: Text<'a>,
    #[serde(default)]
    count: i64,
    #[serde(default)]
    memory_info: Option<MemoryInfo>,
    #[serde(default)]
    core_info: Option<CoreInfo>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", expecting = "an object")]
struct CoreInfo {
    #[serde(default)]
    count: i64,
}

impl Description<'_> {
    pub(super) fn name(&self) -> &str {
        &self.instance_type
    }

    pub(super) fn facts(&self) -> Result<TypeFacts, Fault> {
        self.check()?;
        let network = &self.network_info;
        let usage = |class: &str| self.supported_usage_classes.iter().any(|c| c == class);
        let features = &self.processor_info.supported_features;
        Ok(TypeFacts {
            name: (&*self.instance_type).into(),
            architectures: boxed(&self.processor_info.supported_architectures),
            cpu_manufacturer: text(&self.processor_info.manufacturer),
            clock_mhz: self
                .processor_info
                .sustained_clock_speed_in_ghz
                .map(|ghz| (ghz * 1000.0).round() as i64),
            nested_virtualization: features.iter().any(|f| f == "nested-virtualization"),
            vcpus: self.vcpu_info.default_vcpus,
            memory_mib: self.memory_info.size_in_mib,
            usage: UsageClasses {
                on_demand: usage("on-demand"),
                spot: usage("spot"),
                capacity_block: usage("capacity-block"),
            },
            hypervisor: text(&self.hypervisor),
            bare_metal: self.bare_metal.unwrap_or(false),
            enclaves: self.nitro_enclaves_support.as_deref() == Some("supported"),
            placement: self
                .placement_group_info
                .as_ref()
                .map_or(Box::default(), |info| boxed(&info.supported_strategies)),
            local_disks: self.instance_storage_info.as_ref().map(|info| LocalDisks {
                total_gb: info.total_size_in_gb.unwrap_or(0),
                number: info.number(),
                nvme: info
                    .nvme_support
                    .as_deref()
                    .is_some_and(|support| support != "unsupported"),
            }),
            ebs_mbps: self
                .ebs_info
                .as_ref()
                .filter(|info| info.ebs_optimized_support.as_deref() == Some("default"))
                .and_then(|info| info.ebs_optimized_info.as_ref()?.maximum_bandwidth_in_mbps),
            network: Network {
                ena: text(&network.ena_support),
                encryption_in_transit: network.encryption_in_transit_supported.unwrap_or(false),
                interfaces: network.maximum_network_interfaces.unwrap_or(0),
                default_card: network.default_network_card_index.unwrap_or(0),
                cards: network.network_cards.iter().map(WireCard::card).collect(),
                ipv4_per_interface: network.ipv4_addresses_per_interface.unwrap_or(0),
                efa_interfaces: network.efa_info.as_ref().map(EfaInfo::interfaces),
            },
            gpus: self.gpus().map(Device::gpu).collect(),
            accelerators: self.accelerators().map(Device::accelerator).collect(),
            neuron: self.neuron().map(Device::neuron).collect(),
        })
    }

    fn gpus(&self) -> impl Iterator<Item = &Device<'_>> {
        self.gpu_info.iter().flat_map(|info| &info.gpus)
    }

    fn accelerators(&self) -> impl Iterator<Item = &Device<'_>> {
        let info = self.inference_accelerator_info.iter();
        info.flat_map(|info| &info.accelerators)
    }

    fn neuron(&self) -> impl Iterator<Item = &Device<'_>> {
        self.neuron_info
            .iter()
            .flat_map(|info| &info.neuron_devices)
    }

    fn check(&self) -> Result<(), Fault> {
        use longshore_api::labels::is_label_value;
        if self.instance_type.is_empty() || !is_label_value(&self.instance_type) {
            return Err((
                "InstanceType".to_owned(),
                "is not the name of an instance type".to_owned(),
                "at most 63 letters, digits, `-`, `_` and `.`; it becomes a label",
            ));
        }
        if self.processor_info.supported_architectures.is_empty() {
            let field = "ProcessorInfo.SupportedArchitectures".to_owned();
            let hint = "name at least one, such as x86_64";
            return Err((field, "is empty".to_owned(), hint));
        }
        let speed = self.processor_info.sustained_clock_speed_in_ghz;
        if speed.is_some_and(|ghz| !(0.0..1000.0).contains(&ghz)) {
            let field = "ProcessorInfo.SustainedClockSpeedInGhz".to_owned();
            return Err((
                field,
                "is not a speed in GHz".to_owned(),
                "EC2 says about 3",
            ));
        }
        for (field, value) in [
            ("VCpuInfo.DefaultVCpus", self.vcpu_info.default_vcpus),
            ("MemoryInfo.SizeInMiB", self.memory_info.size_in_mib),
        ] {
            if value == 0 {
                let what = "is zero".to_owned();
                return Err((field.to_owned(), what, "every machine has cpu and memory"));
            }
        }
        for (field, value) in self.counts() {
            if !(0..MAX_COUNT).contains(&value) {
                let what = format!("{value} is not a number from 0 to {}", MAX_COUNT - 1);
                return Err((field.to_owned(), what, "give the number that EC2 answers"));
            }
        }
        Ok(())
    }

    /// Every number that is computed with, and its field.
    fn counts(&self) -> impl Iterator<Item = (&'static str, i64)> + '_ {
        let network = &self.network_info;
        let storage = self.instance_storage_info.as_ref();
        let ebs = self
            .ebs_info
            .as_ref()
            .and_then(|i| i.ebs_optimized_info.as_ref());
        let devices = self
            .gpus()
            .map(|device| ("GpuInfo.Gpus", device))
            .chain(
                self.accelerators()
                    .map(|device| ("InferenceAcceleratorInfo.Accelerators", device)),
            )
            .chain(
                self.neuron()
                    .map(|device| ("NeuronInfo.NeuronDevices", device)),
            );
        let single = [
            ("VCpuInfo.DefaultVCpus", Some(self.vcpu_info.default_vcpus)),
            ("MemoryInfo.SizeInMiB", Some(self.memory_info.size_in_mib)),
            (
                "NetworkInfo.MaximumNetworkInterfaces",
                network.maximum_network_interfaces,
            ),
            (
                "NetworkInfo.DefaultNetworkCardIndex",
                network.default_network_card_index,
            ),
            (
                "NetworkInfo.Ipv4AddressesPerInterface",
                network.ipv4_addresses_per_interface,
            ),
            (
                "NetworkInfo.EfaInfo.MaximumEfaInterfaces",
                network.efa_info.as_ref().map(EfaInfo::interfaces),
            ),
            (
                "InstanceStorageInfo.TotalSizeInGB",
                storage.and_then(|info| info.total_size_in_gb),
            ),
            (
                "EbsInfo.EbsOptimizedInfo.MaximumBandwidthInMbps",
                ebs.and_then(|info| info.maximum_bandwidth_in_mbps),
            ),
        ];
        let cards = network.network_cards.iter().flat_map(|card| {
            [card.network_card_index, card.maximum_network_interfaces]
                .map(|value| ("NetworkInfo.NetworkCards", value))
        });
        let devices = devices.flat_map(|(field, device)| {
            let memory = device.memory_info.as_ref().map_or(0, |m| m.size_in_mib);
            let cores = device.core_info.as_ref().map_or(0, |c| c.count);
            [device.count, memory, cores].map(|value| (field, value))
        });
        single
            .into_iter()
            .filter_map(|(field, value)| value.map(|value| (field, value)))
            .chain(cards)
            .chain(devices)
    }
}

impl InstanceStorageInfo<'_> {
    /// How many disks there are, if each kind says its number.
    fn number(&self) -> Option<u32> {
        let number = |disks: &WireDisks| u32::try_from(disks.count?).ok().map(u64::from);
        let all: Option<u64> = self.disks.iter().map(number).sum();
        let all = all.filter(|_| !self.disks.is_empty());
        all.and_then(|all| u32::try_from(all).ok())
    }
}

impl WireCard {
    fn card(&self) -> NetworkCard {
        NetworkCard {
            index: self.network_card_index,
            interfaces: self.maximum_network_interfaces,
        }
    }
}

impl EfaInfo {
    fn interfaces(&self) -> i64 {
        self.maximum_efa_interfaces.unwrap_or(0)
    }
}

impl Device<'_> {
    fn gpu(&self) -> Gpu {
        Gpu {
            name: (&*self.name).into(),
            manufacturer: (&*self.manufacturer).into(),
            count: self.count,
            memory_mib: self.memory_info.as_ref().map_or(0, |m| m.size_in_mib),
        }
    }

    fn accelerator(&self) -> Accelerator {
        Accelerator {
            name: (&*self.name).into(),
            manufacturer: (&*self.manufacturer).into(),
            count: self.count,
        }
    }

    fn neuron(&self) -> Neuron {
        Neuron {
            name: (&*self.name).into(),
            count: self.count,
            cores: self.core_info.as_ref().map_or(0, |c| c.count),
        }
    }
}

fn text(value: &Option<Text<'_>>) -> Box<str> {
    value.as_deref().unwrap_or_default().into()
}

fn boxed(values: &[Text<'_>]) -> Box<[Box<str>]> {
    values.iter().map(|value| (&**value).into()).collect()
}
