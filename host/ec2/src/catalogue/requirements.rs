//! The labels that nodes of an instance type have or may have.

use longshore_api::labels;

use crate::facts::TypeFacts;

use super::class::{Class, Reservation};
use super::tables::NetworkRow;

/// Labels of the AWS provider.
pub mod aws {
    /// Label that ties a node to its NodeClass.
    pub const NODE_CLASS: &str = "karpenter.k8s.aws/ec2nodeclass";
    /// The zone by its id, the same for all accounts.
    pub const ZONE_ID: &str = "topology.k8s.aws/zone-id";
    /// The reservation that an instance was launched into.
    pub const RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
    /// `default` or `capacity-block`.
    pub const RESERVATION_TYPE: &str = "karpenter.k8s.aws/capacity-reservation-type";
    /// Whether EC2 may take the instance back.
    pub const RESERVATION_INTERRUPTIBLE: &str =
        "karpenter.k8s.aws/capacity-reservation-interruptible";
    /// The placement group.
    pub const GROUP_ID: &str = "karpenter.k8s.aws/placement-group-id";
    /// The partition of the placement group, from 1.
    pub const GROUP_PARTITION: &str = "karpenter.k8s.aws/placement-group-partition";
}

/// What of a type's labels depends on the NodeClass.
pub struct InClass<'a> {
    /// The NodeClass.
    pub class: &'a Class,
    /// The region's name.
    pub region: &'a str,
    /// Zones that it can be launched in.
    pub zones: &'a [&'a str],
    /// The IDs of these zones, such as `use1-az1`.
    pub zone_ids: &'a [&'a str],
    /// The reservations for the type.
    pub reservations: &'a [&'a Reservation],
    /// The placement group and its partitions (0 if it has none).
    pub group: Option<(&'a str, i64)>,
}

/// Visits every label of a type with its possible values. No value means that nodes never have the
/// label, so that `DoesNotExist` and `NotIn` admit the type.
pub fn visit(
    facts: &TypeFacts,
    network: Option<NetworkRow>,
    at: &InClass<'_>,
    visit: &mut dyn FnMut(&'static str, &[&str]),
) {
    in_class(facts, at, visit);
    of_machine(facts, network, visit);
    of_devices(facts, visit);
}

fn in_class(facts: &TypeFacts, at: &InClass<'_>, visit: &mut dyn FnMut(&'static str, &[&str])) {
    let arch = architecture(facts);
    let family = at.class.family;
    let os = match family.is_windows() {
        false => Some("linux"),
        true => Some("windows").filter(|_| arch == Some("amd64")),
    };
    visit(labels::OS, os.as_slice());
    visit(labels::WINDOWS_BUILD, family.windows_build().as_slice());
    visit(labels::REGION, &[at.region]);
    visit(labels::ZONE, at.zones);
    if !at.zone_ids.is_empty() {
        visit(aws::ZONE_ID, at.zone_ids);
    }
    let all = [
        ("on-demand", facts.usage.on_demand),
        ("reserved", !at.reservations.is_empty()),
        ("spot", facts.usage.spot),
    ];
    let buyable: Vec<&str> = all
        .iter()
        .filter(|(_, is)| *is)
        .map(|(name, _)| *name)
        .collect();
    visit(labels::CAPACITY_TYPE, &buyable);
    let of_reservations = |of: fn(&Reservation) -> &str| {
        let mut values: Vec<&str> = at.reservations.iter().map(|r| of(r)).collect();
        values.sort_unstable();
        values.dedup();
        values
    };
    visit(aws::RESERVATION_ID, &of_reservations(|r| &r.id));
    visit(aws::RESERVATION_TYPE, &of_reservations(|r| &r.kind));
    let interruptible = |r: &Reservation| flag(r.interruptible);
    visit(
        aws::RESERVATION_INTERRUPTIBLE,
        &of_reservations(interruptible),
    );
    if let Some((id, partitions)) = at.group {
        visit(aws::GROUP_ID, &[id]);
        if partitions > 0 {
            let numbers: Vec<String> = (1..=partitions).map(|n| n.to_string()).collect();
            let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
            visit(aws::GROUP_PARTITION, &numbers);
        }
    }
}

fn of_machine(
    facts: &TypeFacts,
    network: Option<NetworkRow>,
    visit: &mut dyn FnMut(&'static str, &[&str]),
) {
    let name = Name::of(&facts.name);
    visit(labels::INSTANCE_TYPE, &[&facts.name]);
    match architecture(facts) {
        Some(arch) => visit(labels::ARCH, &[arch]),
        // As Karpenter has it, for Macs alone: a value that no pod asks for.
        None => visit(
            labels::ARCH,
            &[&format!("[{}]", facts.architectures.join(" "))],
        ),
    }
    number(visit, "karpenter.k8s.aws/instance-cpu", Some(facts.vcpus));
    number(
        visit,
        "karpenter.k8s.aws/instance-memory",
        Some(facts.memory_mib),
    );
    let maker = kebab(&facts.cpu_manufacturer);
    visit(
        "karpenter.k8s.aws/instance-cpu-manufacturer",
        present(&maker).as_slice(),
    );
    // Karpenter writes 0 for the old types whose speed EC2 does not say.
    let mhz = Some(facts.clock_mhz.unwrap_or(0));
    number(
        visit,
        "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz",
        mhz,
    );
    visit(
        "karpenter.k8s.aws/instance-category",
        name.category.as_slice(),
    );
    visit(
        "karpenter.k8s.aws/instance-generation",
        name.generation.as_slice(),
    );
    visit("karpenter.k8s.aws/instance-family", name.family.as_slice());
    visit("karpenter.k8s.aws/instance-size", name.size.as_slice());
    let flex = name.family.is_some_and(|family| family.contains("-flex"));
    visit("karpenter.k8s.aws/instance-capability-flex", &[flag(flex)]);
    let nvme = facts.local_disks.filter(|disks| disks.nvme);
    number(
        visit,
        "karpenter.k8s.aws/instance-local-nvme",
        nvme.map(|disks| disks.total_gb),
    );
    let mbps = network.and_then(|row| row.mbps);
    number(visit, "karpenter.k8s.aws/instance-network-bandwidth", mbps);
    number(
        visit,
        "karpenter.k8s.aws/instance-ebs-bandwidth",
        facts.ebs_mbps,
    );
    visit(
        "karpenter.k8s.aws/instance-hypervisor",
        &[&facts.hypervisor],
    );
    let encrypted = flag(facts.network.encryption_in_transit);
    visit(
        "karpenter.k8s.aws/instance-encryption-in-transit-supported",
        &[encrypted],
    );
    visit(
        "karpenter.k8s.aws/instance-tenancy",
        &["dedicated", "default"],
    );
}

fn of_devices(facts: &TypeFacts, visit: &mut dyn FnMut(&'static str, &[&str])) {
    // Labels cannot describe a machine with several kinds.
    let gpu = match &*facts.gpus {
        [one] => Some(one),
        _ => None,
    };
    let (name, maker) = gpu.map_or_else(Default::default, |gpu| {
        (kebab(&gpu.name), kebab(&gpu.manufacturer))
    });
    visit(
        "karpenter.k8s.aws/instance-gpu-name",
        present(&name).as_slice(),
    );
    visit(
        "karpenter.k8s.aws/instance-gpu-manufacturer",
        present(&maker).as_slice(),
    );
    number(
        visit,
        "karpenter.k8s.aws/instance-gpu-count",
        gpu.map(|gpu| gpu.count),
    );
    number(
        visit,
        "karpenter.k8s.aws/instance-gpu-memory",
        gpu.map(|gpu| gpu.memory_mib),
    );
    let accelerator = match (&*facts.neuron, &*facts.accelerators) {
        ([one], _) => Some((kebab(&one.name), "aws".to_owned(), one.count)),
        ([], [one]) => Some((kebab(&one.name), kebab(&one.manufacturer), one.count)),
        _ => None,
    };
    let (name, maker, count) = match accelerator {
        Some((name, maker, count)) => (name, maker, Some(count)),
        None => Default::default(),
    };
    visit(
        "karpenter.k8s.aws/instance-accelerator-name",
        present(&name).as_slice(),
    );
    visit(
        "karpenter.k8s.aws/instance-accelerator-manufacturer",
        present(&maker).as_slice(),
    );
    number(visit, "karpenter.k8s.aws/instance-accelerator-count", count);
}

/// The value of `kubernetes.io/arch`: the first architecture that Kubernetes has a name for.
pub fn architecture(facts: &TypeFacts) -> Option<&'static str> {
    facts.architectures.iter().find_map(|arch| match &**arch {
        "x86_64" => Some("amd64"),
        "arm64" => Some("arm64"),
        _ => None,
    })
}

/// Parts of a type's name.
struct Name<'a> {
    category: Option<&'a str>,
    generation: Option<&'a str>,
    family: Option<&'a str>,
    size: Option<&'a str>,
}

impl<'a> Name<'a> {
    /// `c6gd.4xlarge` is category `c`, generation `6`, family `c6gd`, size `4xlarge`;
    /// `u-6tb1.metal` is category `u`, generation `1`.
    fn of(name: &'a str) -> Self {
        let parts = name.split_once('.').filter(|(_, size)| !size.contains('.'));
        let letters = run(name, |b| b.is_ascii_lowercase());
        let rest = &name[letters.len()..];
        let rest = terabytes(rest).unwrap_or(rest);
        let digits = run(rest, |b| b.is_ascii_digit());
        let whole = name.contains('.') && !letters.is_empty() && !digits.is_empty();
        Name {
            category: Some(letters).filter(|_| whole),
            generation: Some(digits).filter(|_| whole),
            family: parts.map(|(family, _)| family),
            size: parts.map(|(_, size)| size),
        }
    }
}

/// What follows `-6tb`, if a text starts so and a number follows.
fn terabytes(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('-')?;
    let digits = run(rest, |b| b.is_ascii_digit());
    let rest = rest[digits.len()..].strip_prefix("tb")?;
    let number = rest.starts_with(|c: char| c.is_ascii_digit());
    (!digits.is_empty() && number).then_some(rest)
}

fn run(text: &str, is: impl Fn(u8) -> bool) -> &str {
    let end = text.bytes().position(|b| !is(b)).unwrap_or(text.len());
    &text[..end]
}

fn number(visit: &mut dyn FnMut(&'static str, &[&str]), key: &'static str, number: Option<i64>) {
    match number {
        Some(number) => visit(key, &[&number.to_string()]),
        None => visit(key, &[]),
    }
}

fn present(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

fn flag(is: bool) -> &'static str {
    if is { "true" } else { "false" }
}

/// Names of devices as label values: `RTX PRO 4500` is `rtx-pro-4500`.
fn kebab(name: &str) -> String {
    name.to_ascii_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn category_and_generation_follow_from_the_name() {
        for (name, wanted) in [
            ("m5.large", Some(("m", "5"))),
            ("u-6tb1.metal", Some(("u", "1"))),
            ("u7i-12tb.224xlarge", Some(("u", "7"))),
            ("im4gn.large", Some(("im", "4"))),
            ("p6-b200.48xlarge", Some(("p", "6"))),
            ("x1e.xlarge", Some(("x", "1"))),
            ("large", None),
            ("Z9.large", None),
            ("u-tb1.metal", None),
        ] {
            let found = Name::of(name);
            assert_eq!(found.category.zip(found.generation), wanted, "{name}");
        }
    }
}
