//! The kinds that are watched.

/// A kind of object, by the name that Kubernetes has for it.
#[allow(missing_docs, reason = "a variant's name is the kind's")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    NodePool,
    NodeClaim,
    NodeOverlay,
    KwokNodeClass,
    Ec2NodeClass,
    Node,
    Namespace,
    PriorityClass,
    StorageClass,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttachment,
    DaemonSet,
    ReplicaSet,
    StatefulSet,
    ReplicationController,
    Service,
    PodDisruptionBudget,
    LimitRange,
    CsiDriver,
    CsiStorageCapacity,
    Pod,
}

/// Where a kind is in the API.
#[allow(missing_docs, reason = "they are the parts of a path")]
pub struct At {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
}

impl Kind {
    /// Every kind, in the order in which they are asked for.
    pub const ALL: [Kind; 23] = [
        Kind::NodePool,
        Kind::NodeClaim,
        Kind::NodeOverlay,
        Kind::KwokNodeClass,
        Kind::Ec2NodeClass,
        Kind::Node,
        Kind::Namespace,
        Kind::PriorityClass,
        Kind::StorageClass,
        Kind::CsiNode,
        Kind::PersistentVolume,
        Kind::PersistentVolumeClaim,
        Kind::VolumeAttachment,
        Kind::DaemonSet,
        Kind::ReplicaSet,
        Kind::StatefulSet,
        Kind::ReplicationController,
        Kind::Service,
        Kind::PodDisruptionBudget,
        Kind::LimitRange,
        Kind::CsiDriver,
        Kind::CsiStorageCapacity,
        Kind::Pod,
    ];

    /// Kinds that are watched once a CSI driver runs on a node: before that nothing depends on them.
    pub const OF_DRIVERS: [Kind; 2] = [Kind::CsiDriver, Kind::CsiStorageCapacity];

    /// The kinds that are watched from the start: of node classes those of the cloud, NodeOverlays only
    /// where they are applied.
    pub fn watched(class: Kind, overlays: bool) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |kind| match kind {
            Kind::NodeOverlay => overlays,
            Kind::KwokNodeClass | Kind::Ec2NodeClass => *kind == class,
            Kind::CsiDriver | Kind::CsiStorageCapacity => false,
            _ => true,
        })
    }

    /// Whether its objects are few, and say what is wanted: our own kinds but for NodeClaims.
    pub fn is_configuration(self) -> bool {
        matches!(
            self,
            Kind::NodePool | Kind::NodeOverlay | Kind::KwokNodeClass | Kind::Ec2NodeClass
        )
    }

    /// The kind of node class that a reference names.
    pub fn of_class(kind: &str) -> Option<Kind> {
        let mut classes = [Kind::KwokNodeClass, Kind::Ec2NodeClass].into_iter();
        classes.find(|class| class.at().kind == kind)
    }

    /// Group, version, kind and plural.
    pub fn at(self) -> At {
        let (group, version, kind, plural) = match self {
            Kind::NodePool => ("karpenter.sh", "v1", "NodePool", "nodepools"),
            Kind::NodeClaim => ("karpenter.sh", "v1", "NodeClaim", "nodeclaims"),
            Kind::NodeOverlay => ("karpenter.sh", "v1alpha1", "NodeOverlay", "nodeoverlays"),
            Kind::KwokNodeClass => (
                "karpenter.kwok.sh",
                "v1alpha1",
                "KWOKNodeClass",
                "kwoknodeclasses",
            ),
            Kind::Ec2NodeClass => ("karpenter.k8s.aws", "v1", "EC2NodeClass", "ec2nodeclasses"),
            Kind::Node => ("", "v1", "Node", "nodes"),
            Kind::Namespace => ("", "v1", "Namespace", "namespaces"),
            Kind::PriorityClass => (
                "scheduling.k8s.io",
                "v1",
                "PriorityClass",
                "priorityclasses",
            ),
            Kind::StorageClass => ("storage.k8s.io", "v1", "StorageClass", "storageclasses"),
            Kind::CsiNode => ("storage.k8s.io", "v1", "CSINode", "csinodes"),
            Kind::PersistentVolume => ("", "v1", "PersistentVolume", "persistentvolumes"),
            Kind::PersistentVolumeClaim => {
                ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
            }
            Kind::VolumeAttachment => (
                "storage.k8s.io",
                "v1",
                "VolumeAttachment",
                "volumeattachments",
            ),
            Kind::DaemonSet => ("apps", "v1", "DaemonSet", "daemonsets"),
            Kind::ReplicaSet => ("apps", "v1", "ReplicaSet", "replicasets"),
            Kind::StatefulSet => ("apps", "v1", "StatefulSet", "statefulsets"),
            Kind::ReplicationController => {
                ("", "v1", "ReplicationController", "replicationcontrollers")
            }
            Kind::Service => ("", "v1", "Service", "services"),
            Kind::PodDisruptionBudget => (
                "policy",
                "v1",
                "PodDisruptionBudget",
                "poddisruptionbudgets",
            ),
            Kind::LimitRange => ("", "v1", "LimitRange", "limitranges"),
            Kind::CsiDriver => ("storage.k8s.io", "v1", "CSIDriver", "csidrivers"),
            Kind::CsiStorageCapacity => (
                "storage.k8s.io",
                "v1",
                "CSIStorageCapacity",
                "csistoragecapacities",
            ),
            Kind::Pod => ("", "v1", "Pod", "pods"),
        };
        At {
            group,
            version,
            kind,
            plural,
        }
    }
}

impl At {
    /// `group/version`, or the version of the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The path of the collection, over all namespaces.
    pub fn path(&self) -> String {
        match self.group {
            "" => format!("/api/{}/{}", self.version, self.plural),
            group => format!("/apis/{group}/{}/{}", self.version, self.plural),
        }
    }
}
