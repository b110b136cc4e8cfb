//! Names of labels, annotations, taints and conditions, and which labels mean something special.

/// A node's name as a label.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// A node's zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// A node's region.
pub const REGION: &str = "topology.kubernetes.io/region";
/// A node's instance type.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// A node's CPU architecture.
pub const ARCH: &str = "kubernetes.io/arch";
/// A node's operating system.
pub const OS: &str = "kubernetes.io/os";
/// A Windows node's build.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
/// The NodePool that owns a node.
pub const NODEPOOL: &str = "karpenter.sh/nodepool";
/// How a node is paid for.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// The taint of a node that did not join its claim yet.
pub const UNREGISTERED: &str = "karpenter.sh/unregistered";
/// A node that joined its claim.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// A node that is ready for pods.
pub const INITIALIZED: &str = "karpenter.sh/initialized";

/// Labels that KWOK gives its instance types.
pub mod kwok {
    /// First part of the type's name.
    pub const FAMILY: &str = "karpenter.kwok.sh/instance-family";
    /// Second part of the type's name.
    pub const SIZE: &str = "karpenter.kwok.sh/instance-size";
    /// Number of CPUs.
    pub const CPU: &str = "karpenter.kwok.sh/instance-cpu";
    /// Memory as the type has it, `8Gi`.
    pub const MEMORY: &str = "karpenter.kwok.sh/instance-memory";
    /// The class of a node.
    pub const NODE_CLASS: &str = "karpenter.kwok.sh/kwoknodeclass";
}

/// Values of [`CAPACITY_TYPE`].
pub mod capacity_type {
    /// Capacity paid for in advance.
    pub const RESERVED: &str = "reserved";
    /// Capacity that can be taken away.
    pub const SPOT: &str = "spot";
    /// Capacity at list price.
    pub const ON_DEMAND: &str = "on-demand";
    /// The three values, reserved first.
    pub const ALL: [&str; 3] = [RESERVED, SPOT, ON_DEMAND];
}

/// Annotation of pods and nodes that should be left alone.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Key of the taint that stands for taints of a Node which cannot be read.
pub const UNREADABLE: &str = "longshore.dev/unreadable";
/// Annotation of NodePools: what one moved pod must save, a share of what a pod costs or USD per hour.
pub const MOVE_COST: &str = "longshore.dev/move-cost";
/// Annotation of pods: what it costs to evict it, an integer of 32 bits.
pub const DISRUPTION_COST: &str = "karpenter.sh/disruption-cost";
/// Annotation of pods: which of a ReplicaSet's pods go first.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Annotation of NodeClaims: a NodeOverlay has changed the price of an instance type that it may
/// become. The cloud then prefers its types in the order in which it names them.
pub const PRICE_OVERLAY: &str = "karpenter.sh/price-overlay-applied";
/// Annotation of NodeClaims whose instance is not to be chosen by the cloud's prices, because a scorer
/// or a NodeOverlay has others or prefers some of equal price: the requirement on the instance type names up to 600 types, best
/// first, and the value is the capacity type that is bought if it can be.
pub const LAUNCH_ORDER: &str = "longshore.dev/launch-order";
/// Annotation of NodeClaims that have [`LAUNCH_ORDER`] and whose first instance type costs no more in
/// another zone than in the planned one: the zone that is bought if it can be.
pub const LAUNCH_ZONE: &str = "longshore.dev/launch-zone";
/// Annotation of NodeClaims: the least that NodeOverlays add to any instance type that it may
/// become, resource and quantity, as a JSON object.
pub const OVERLAY_AMOUNTS: &str = "longshore.dev/overlay-capacity";
/// Annotation of NodeClaims: a NodeOverlay has added resources to an instance type that it may
/// become.
pub const CAPACITY_OVERLAY: &str = "karpenter.sh/capacity-overlay-applied";
/// Annotation of mirrors of static pods.
pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";
/// Annotation of the default StorageClass, and its older name.
pub const DEFAULT_CLASS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
/// Annotation of a claim that is bound.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Annotation that named a claim's class before the field did.
pub const BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Labels that a requirement may name although a NodePool does not define them: the cloud knows
/// their values.
pub const WELL_KNOWN: [&str; 8] = [
    NODEPOOL,
    ZONE,
    REGION,
    INSTANCE_TYPE,
    ARCH,
    OS,
    CAPACITY_TYPE,
    WINDOWS_BUILD,
];

/// The stable name of a label that had another one in beta; any other label is itself.
pub fn stable(key: &str) -> &str {
    match key {
        "failure-domain.beta.kubernetes.io/zone" | "topology.ebs.csi.aws.com/zone" => ZONE,
        "failure-domain.beta.kubernetes.io/region" => REGION,
        "beta.kubernetes.io/arch" => ARCH,
        "beta.kubernetes.io/os" => OS,
        "beta.kubernetes.io/instance-type" => INSTANCE_TYPE,
        _ => key,
    }
}

/// The key of an allowed topology of a StorageClass, or a topologyKey of a pod. kube-scheduler reads
/// both as written: only the label of a CSI driver, which writes it on every node, goes by the stable name.
pub fn of_topology(key: &str) -> &str {
    match key {
        "topology.ebs.csi.aws.com/zone" => ZONE,
        _ => key,
    }
}

/// The part of a label before its slash, empty if it has none.
pub fn domain(key: &str) -> &str {
    key.split_once('/').map_or("", |(domain, _)| domain)
}

/// Why a NodePool may neither set nor require a label, if it may not.
pub fn restricted(key: &str) -> Option<&'static str> {
    if key == CAPACITY_TYPE {
        None
    } else if key == NODEPOOL {
        Some("karpenter.sh/nodepool is set by the autoscaler")
    } else if key == HOSTNAME {
        Some("kubernetes.io/hostname differs from node to node")
    } else if key
        .split('/')
        .next()
        .is_some_and(|first| first.ends_with("karpenter.sh"))
    {
        Some("labels under karpenter.sh are the autoscaler's own")
    } else {
        let (domain, name) = key.split_once('/')?;
        (domain == EC2_DOMAIN && !EC2_LABELS.contains(&name))
            .then_some("no instance type of EC2 has a label of that name under karpenter.k8s.aws")
    }
}

/// The domain of labels of EC2's instance types and offerings.
const EC2_DOMAIN: &str = "karpenter.k8s.aws";
/// Names of those labels, in order.
pub const EC2_LABELS: [&str; 28] = [
    "capacity-reservation-id",
    "capacity-reservation-interruptible",
    "capacity-reservation-type",
    "ec2nodeclass",
    "instance-accelerator-count",
    "instance-accelerator-manufacturer",
    "instance-accelerator-name",
    "instance-capability-flex",
    "instance-category",
    "instance-cpu",
    "instance-cpu-manufacturer",
    "instance-cpu-sustained-clock-speed-mhz",
    "instance-ebs-bandwidth",
    "instance-encryption-in-transit-supported",
    "instance-family",
    "instance-generation",
    "instance-gpu-count",
    "instance-gpu-manufacturer",
    "instance-gpu-memory",
    "instance-gpu-name",
    "instance-hypervisor",
    "instance-local-nvme",
    "instance-memory",
    "instance-network-bandwidth",
    "instance-size",
    "instance-tenancy",
    "placement-group-id",
    "placement-group-partition",
];

/// Whether `key` has the form of a label key: an optional DNS domain and a slash, then a name of at
/// most 63 characters.
pub fn is_label_key(key: &str) -> bool {
    let (domain, name) = match key.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, key),
    };
    !name.is_empty() && is_label_value(name) && domain.is_none_or(is_dns_name)
}

/// Whether `value` has the form of a label value: at most 63 letters, digits, `-`, `_` and `.`,
/// first and last a letter or digit.
pub fn is_label_value(value: &str) -> bool {
    let bytes = value.as_bytes();
    let edge = |b: Option<&u8>| b.is_none_or(u8::is_ascii_alphanumeric);
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

/// Whether `name` is a DNS subdomain as Kubernetes has it (RFC 1123): at most 253 lower case letters,
/// digits, `-` and `.`, each part with a letter or digit first and last. Names of objects are.
pub fn is_dns_name(name: &str) -> bool {
    let lower = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    name.len() <= 253
        && name.split('.').all(|part| {
            let bytes = part.as_bytes();
            bytes.first().is_some_and(lower)
                && bytes.last().is_some_and(lower)
                && bytes.iter().all(|b| lower(b) || *b == b'-')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beta_labels_have_stable_names() {
        assert_eq!(stable("failure-domain.beta.kubernetes.io/zone"), ZONE);
        assert_eq!(stable("beta.kubernetes.io/instance-type"), INSTANCE_TYPE);
        assert_eq!(stable("team"), "team");
    }

    #[test]
    fn only_some_labels_are_restricted() {
        for (key, ours) in [
            (CAPACITY_TYPE, false),
            (ZONE, false),
            ("team", false),
            ("karpenter.kwok.sh/instance-size", false),
            (NODEPOOL, true),
            (HOSTNAME, true),
            ("karpenter.sh/initialized", true),
            ("x.karpenter.sh/y", true),
            ("karpenter.k8s.aws/instance-cpu", false),
            ("karpenter.k8s.aws/instance-cpus", true),
        ] {
            assert_eq!(restricted(key).is_some(), ours, "{key}");
        }
    }

    #[test]
    fn label_keys_have_a_form() {
        for (key, good) in [
            ("app", true),
            ("a.b/C_d", true),
            ("a/b/c", false),
            ("A.b/c", false),
            ("/c", false),
            ("a/", false),
            ("", false),
            ("-a", false),
            ("sp ace", false),
        ] {
            assert_eq!(is_label_key(key), good, "{key}");
        }
    }
}
