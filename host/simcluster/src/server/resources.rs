//! The kinds that the server knows, and their differences.
//!
//! Any other kind is answered with 404, as by a server without its group.

use crate::object::{Resource, ResourceKind};

macro_rules! kinds {
    ($($(#[$about:meta])* $name:ident = ($group:literal, $version:literal, $kind:literal, $plural:literal, $namespaced:literal);)*) => {
        /// Where each is in [`KINDS`].
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "named as the constants are")]
        enum Place { $($name),* }

        $($(#[$about])* pub const $name: Resource = Resource::numbered(Place::$name as u8);)*

        /// Every kind.
        pub const ALL: &[Resource] = &[$($name),*];

        /// What they are called; `true` for those of namespaces.
        static KINDS: &[ResourceKind] = &[
            $(ResourceKind { group: $group, version: $version, kind: $kind, plural: $plural, namespaced: $namespaced }),*
        ];
    };
}

/// The kind in a place, which only the constants here have.
pub fn kind(place: u8) -> &'static ResourceKind {
    &KINDS[place as usize]
}

kinds! {
    /// Capacity kept free.
    CAPACITY_BUFFER = ("autoscaling.x-k8s.io", "v1beta1", "CapacityBuffer", "capacitybuffers", true);
    /// Configuration for pods.
    CONFIG_MAP = ("", "v1", "ConfigMap", "configmaps", true);
    /// A storage driver.
    CSI_DRIVER = ("storage.k8s.io", "v1", "CSIDriver", "csidrivers", false);
    /// What storage drivers say of a node.
    CSI_NODE = ("storage.k8s.io", "v1", "CSINode", "csinodes", false);
    /// Where a storage driver has room.
    CSI_STORAGE_CAPACITY = ("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", true);
    /// One pod per node.
    DAEMON_SET = ("apps", "v1", "DaemonSet", "daemonsets", true);
    /// Replicas with roll-outs.
    DEPLOYMENT = ("apps", "v1", "Deployment", "deployments", true);
    /// How nodes of EC2 are made.
    EC2_NODE_CLASS = ("karpenter.k8s.aws", "v1", "EC2NodeClass", "ec2nodeclasses", false);
    /// Addresses of a Service.
    ENDPOINT_SLICE = ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", true);
    /// Something that happened.
    EVENT = ("", "v1", "Event", "events", true);
    /// Pods that end.
    JOB = ("batch", "v1", "Job", "jobs", true);
    /// Nodes without machines.
    KWOK_NODE_CLASS = ("karpenter.kwok.sh", "v1alpha1", "KWOKNodeClass", "kwoknodeclasses", false);
    /// Who leads, which kubelet lives.
    LEASE = ("coordination.k8s.io", "v1", "Lease", "leases", true);
    /// What containers of a namespace ask for where they say nothing.
    LIMIT_RANGE = ("", "v1", "LimitRange", "limitranges", true);
    /// A namespace.
    NAMESPACE = ("", "v1", "Namespace", "namespaces", false);
    /// A machine.
    NODE = ("", "v1", "Node", "nodes", false);
    /// A machine that is asked for.
    NODE_CLAIM = ("karpenter.sh", "v1", "NodeClaim", "nodeclaims", false);
    /// Corrections of instance types.
    NODE_OVERLAY = ("karpenter.sh", "v1alpha1", "NodeOverlay", "nodeoverlays", false);
    /// Machines of one sort, within limits.
    NODE_POOL = ("karpenter.sh", "v1", "NodePool", "nodepools", false);
    /// A volume.
    PERSISTENT_VOLUME = ("", "v1", "PersistentVolume", "persistentvolumes", false);
    /// A volume that is asked for.
    PERSISTENT_VOLUME_CLAIM = ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true);
    /// Containers that run together.
    POD = ("", "v1", "Pod", "pods", true);
    /// How many pods may be evicted.
    POD_DISRUPTION_BUDGET = ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true);
    /// Which pods come first.
    PRIORITY_CLASS = ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", false);
    /// A number of like pods.
    REPLICA_SET = ("apps", "v1", "ReplicaSet", "replicasets", true);
    /// A number of like pods, as it was said before.
    REPLICATION_CONTROLLER = ("", "v1", "ReplicationController", "replicationcontrollers", true);
    /// One address for pods.
    SERVICE = ("", "v1", "Service", "services", true);
    /// Who a pod is to the API.
    SERVICE_ACCOUNT = ("", "v1", "ServiceAccount", "serviceaccounts", true);
    /// Pods with names that stay.
    STATEFUL_SET = ("apps", "v1", "StatefulSet", "statefulsets", true);
    /// Volumes of one sort.
    STORAGE_CLASS = ("storage.k8s.io", "v1", "StorageClass", "storageclasses", false);
    /// A volume on a node.
    VOLUME_ATTACHMENT = ("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", false);
}

/// The kind at a place in the API.
pub fn find(group: &str, version: &str, plural: &str) -> Option<Resource> {
    ALL.iter()
        .copied()
        .find(|r| r.plural == plural && r.group == group && r.version == version)
}

impl Resource {
    /// `group/version`, or the version of the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// As messages name it: `pods`, `deployments.apps`.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// Whether it is defined by a CustomResourceDefinition.
    pub fn is_custom(&self) -> bool {
        matches!(
            self.group,
            "karpenter.sh" | "karpenter.kwok.sh" | "karpenter.k8s.aws" | "autoscaling.x-k8s.io"
        )
    }

    /// Whether its status is written apart.
    pub fn has_status(&self) -> bool {
        !matches!(
            self.plural,
            "configmaps"
                | "csidrivers"
                | "csinodes"
                | "csistoragecapacities"
                | "endpointslices"
                | "events"
                | "leases"
                | "limitranges"
                | "priorityclasses"
                | "serviceaccounts"
                | "storageclasses"
        )
    }

    /// Whether `metadata.generation` counts its changes.
    pub fn counts_generations(&self) -> bool {
        self.is_custom()
            || matches!(
                self.plural,
                "daemonsets"
                    | "deployments"
                    | "endpointslices"
                    | "jobs"
                    | "poddisruptionbudgets"
                    | "pods"
                    | "priorityclasses"
                    | "replicasets"
                    | "replicationcontrollers"
                    | "statefulsets"
            )
    }

    /// Whether a write of the whole object may leave out the version that it replaces.
    pub fn may_replace_blindly(&self) -> bool {
        !self.is_custom() && !matches!(self.plural, "leases" | "poddisruptionbudgets" | "jobs")
    }

    /// Whether a write of the whole object makes one that is not there.
    pub fn is_created_by_update(&self) -> bool {
        matches!(self.plural, "leases" | "events")
    }
}
