//! Facts of instance types, as EC2's DescribeInstanceTypes answers.
//!
//! The records hold what the catalogue computes with and nothing else. EC2 adds fields and values
//! at any time, so unknown fields are passed over and enumerations stay strings. A description that
//! lacks what every machine has becomes a [`Diagnostic`], and the others stay.

mod wire;

use std::sync::Arc;

use longshore_api::json;
use longshore_api::manifests::{Diagnostic, Diagnostics, Location, explain};

/// One instance type. Amounts are EC2's, in the unit that the name says.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeFacts {
    /// `m5.large`.
    pub name: Box<str>,
    /// CPU architectures in EC2's order: `x86_64`, `arm64`, `i386`, ….
    pub architectures: Box<[Box<str>]>,
    /// `Intel`, `AMD`, `AWS`, `Apple`; empty if EC2 does not say.
    pub cpu_manufacturer: Box<str>,
    /// Sustained clock speed in MHz, rounded.
    pub clock_mhz: Option<i64>,
    /// Whether the processor can run virtual machines inside a virtual machine.
    pub nested_virtualization: bool,
    /// vCPUs at the default number of threads per core.
    pub vcpus: i64,
    /// Memory of the machine in MiB, the hypervisor's share included.
    pub memory_mib: i64,
    /// Whether on-demand, spot instances and capacity blocks exist.
    pub usage: UsageClasses,
    /// `nitro`, `xen`; empty for bare metal.
    pub hypervisor: Box<str>,
    /// Whether nodes get the whole machine.
    pub bare_metal: bool,
    /// Whether Nitro Enclaves are supported.
    pub enclaves: bool,
    /// Placement group strategies that it can be launched with.
    pub placement: Box<[Box<str>]>,
    /// Disks of the machine itself, if it has some.
    pub local_disks: Option<LocalDisks>,
    /// Most EBS bandwidth in Mbps, for types that are EBS-optimized by default.
    pub ebs_mbps: Option<i64>,
    /// Interfaces and addresses.
    pub network: Network,
    /// Kinds of GPU.
    pub gpus: Box<[Gpu]>,
    /// Kinds of inference accelerator.
    pub accelerators: Box<[Accelerator]>,
    /// Kinds of AWS Neuron device.
    pub neuron: Box<[Neuron]>,
}

/// How capacity of a type can be bought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageClasses {
    /// On-demand instances exist.
    pub on_demand: bool,
    /// Spot instances exist.
    pub spot: bool,
    /// Capacity blocks for machine learning exist.
    pub capacity_block: bool,
}

/// Disks of the machine itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalDisks {
    /// All disks together, in GB (10^9 bytes).
    pub total_gb: i64,
    /// How many they are, if that is described.
    pub number: Option<u32>,
    /// They are reached over NVMe.
    pub nvme: bool,
}

/// Network cards and what they carry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// `required`, `supported`, `unsupported`.
    pub ena: Box<str>,
    /// Whether traffic between instances is encrypted.
    pub encryption_in_transit: bool,
    /// Most network interfaces, all cards together.
    pub interfaces: i64,
    /// Index of the card that the first interface is on.
    pub default_card: i64,
    /// The cards, by index.
    pub cards: Box<[NetworkCard]>,
    /// IPv4 addresses per interface.
    pub ipv4_per_interface: i64,
    /// Most EFA interfaces, if EFA is supported.
    pub efa_interfaces: Option<i64>,
}

impl Network {
    /// Most interfaces on the default card; all interfaces if EC2 describes no such card.
    pub fn default_interfaces(&self) -> i64 {
        self.cards
            .iter()
            .find(|card| card.index == self.default_card)
            .map_or(self.interfaces, |card| card.interfaces)
    }
}

/// A network card of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkCard {
    /// Its number in the machine, from 0.
    pub index: i64,
    /// Most interfaces on it.
    pub interfaces: i64,
}

/// A kind of GPU in a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// `H100`.
    pub name: Box<str>,
    /// `NVIDIA`.
    pub manufacturer: Box<str>,
    /// How many the machine has.
    pub count: i64,
    /// Memory of one, in MiB.
    pub memory_mib: i64,
}

/// A kind of inference accelerator in a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accelerator {
    /// `Inferentia`.
    pub name: Box<str>,
    /// `AWS`.
    pub manufacturer: Box<str>,
    /// How many the machine has.
    pub count: i64,
}

/// A kind of Neuron device in a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neuron {
    /// `Trainium2`.
    pub name: Box<str>,
    /// How many the machine has.
    pub count: i64,
    /// Cores of one device.
    pub cores: i64,
}

/// Reads descriptions: a list of them, the answer of the call (`{"InstanceTypes": […]}`), or an
/// object of them by name. `source` names the text in diagnostics.
///
/// Of a name that is there twice the first counts and the other is a diagnostic. Types come back in
/// order of their names.
pub fn read(source: &str, bytes: &[u8]) -> (Arc<[TypeFacts]>, Diagnostics) {
    let mut reader = Reader {
        source,
        bytes,
        item: 0,
        types: Vec::new(),
        problems: Diagnostics::default(),
    };
    let start = match bytes.starts_with(b"\xef\xbb\xbf") {
        true => 3,
        false => 0,
    };
    reader.document(json::skip_space(bytes, start));
    let Reader {
        mut types,
        mut problems,
        ..
    } = reader;
    types.sort_by(|a, b| a.name.cmp(&b.name));
    types.dedup_by(|second, first| {
        let same = first.name == second.name;
        if same {
            problems.push(Diagnostic {
                location: whole(source),
                kind: "instance type".to_owned(),
                name: second.name.to_string(),
                what: "is there twice".to_owned(),
                hint: "remove one; the first is used".to_owned(),
                ..Diagnostic::default()
            });
        }
        same
    });
    if types.is_empty() {
        problems.push(Diagnostic {
            location: whole(source),
            what: "has no usable instance type: nothing can be bought".to_owned(),
            hint: "expected what `aws ec2 describe-instance-types` prints".to_owned(),
            ..Diagnostic::default()
        });
    }
    (types.into(), problems)
}

fn whole(source: &str) -> Location {
    Location {
        source: source.to_owned(),
        ..Location::default()
    }
}

struct Reader<'a> {
    source: &'a str,
    bytes: &'a [u8],
    item: u32,
    types: Vec<TypeFacts>,
    problems: Diagnostics,
}

impl Reader<'_> {
    fn document(&mut self, at: usize) {
        let list = match self.bytes.get(at) {
            Some(b'[') => Some(at),
            Some(b'{') => json::member(self.bytes, at, "InstanceTypes").map(|range| range.start),
            None => return,
            Some(_) => {
                let what = "is neither a list nor an object of instance types".to_owned();
                let hint = "expected what `aws ec2 describe-instance-types` prints, as JSON";
                return self.refuse(at, None, "", (String::new(), what, hint));
            }
        };
        let bytes = self.bytes;
        // Of an object by name the keys repeat what the values say.
        let walked = json::walk(bytes, list.unwrap_or(at), |_, start| {
            let end = json::skip_value(bytes, start);
            if let Ok(end) = end {
                self.item += 1;
                self.description(start, end);
            }
            Some(end)
        });
        if let Err(broken) = walked {
            let what = match broken.at_end {
                true => "is not JSON: the text ends too early",
                false => "is not JSON",
            };
            let hint = "check commas, quotes and brackets before it";
            self.refuse(broken.at, None, "", (String::new(), what.to_owned(), hint));
        }
    }

    fn description(&mut self, start: usize, end: usize) {
        let Ok(text) = std::str::from_utf8(&self.bytes[start..end]) else {
            let fault = (String::new(), "is not UTF-8".to_owned(), "save it as UTF-8");
            return self.refuse(start, Some(self.item), "", fault);
        };
        let refused = match serde_json::from_str::<wire::Description<'_>>(text) {
            Ok(description) => match description.facts() {
                Ok(facts) => return self.types.push(facts),
                Err(fault) => (description.name().to_owned(), fault),
            },
            Err(_) => {
                let name = json::member(text.as_bytes(), 0, "InstanceType")
                    .map_or("", |range| text[range].trim_matches('"'));
                (name.to_owned(), explain::<wire::Description<'_>>(text))
            }
        };
        let (name, fault) = refused;
        let at = start + json::locate(text.as_bytes(), &fault.0);
        self.refuse(at, Some(self.item), &name, fault);
    }

    fn refuse(
        &mut self,
        at: usize,
        item: Option<u32>,
        name: &str,
        (field, what, hint): wire::Fault,
    ) {
        self.problems.push(Diagnostic {
            location: Location {
                source: self.source.to_owned(),
                document: 1,
                item,
                line: Some(json::lines_before(self.bytes, at) + 1),
            },
            kind: "instance type".to_owned(),
            name: name.chars().take(100).collect(),
            field,
            what,
            hint: hint.to_owned(),
        });
    }
}
