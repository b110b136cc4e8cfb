//! The kinds that are watched.

/// A kind of object, by the name that Kubernetes has for it.
#[allow(missing_docs, reason = "a variant's name is the kind's")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ObjectKind {
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

impl ObjectKind {
    /// Every kind, in the order in which they are asked for.
    pub const ALL: [ObjectKind; 23] = [
        ObjectKind::NodePool,
        ObjectKind::NodeClaim,
        ObjectKind::NodeOverlay,
        ObjectKind::KwokNodeClass,
        ObjectKind::Ec2NodeClass,
        ObjectKind::Node,
        ObjectKind::Namespace,
        ObjectKind::PriorityClass,
        ObjectKind::StorageClass,
        ObjectKind::CsiNode,
        ObjectKind::PersistentVolume,
        ObjectKind::PersistentVolumeClaim,
        ObjectKind::VolumeAttachment,
        ObjectKind::DaemonSet,
        ObjectKind::ReplicaSet,
        ObjectKind::StatefulSet,
        ObjectKind::ReplicationController,
        ObjectKind::Service,
        ObjectKind::PodDisruptionBudget,
        ObjectKind::LimitRange,
        ObjectKind::CsiDriver,
        ObjectKind::CsiStorageCapacity,
        ObjectKind::Pod,
    ];

    /// Kinds that are watched once a CSI driver runs on a node: before that nothing depends on them.
    pub const OF_DRIVERS: [ObjectKind; 2] = [ObjectKind::CsiDriver, ObjectKind::CsiStorageCapacity];

    /// The kinds that are watched from the start: of node classes those of the cloud, NodeOverlays only
    /// where they are applied.
    pub fn watched(class: ObjectKind, overlays: bool) -> impl Iterator<Item = ObjectKind> {
        ObjectKind::ALL.into_iter().filter(move |kind| match kind {
            ObjectKind::NodeOverlay => overlays,
            ObjectKind::KwokNodeClass | ObjectKind::Ec2NodeClass => *kind == class,
            ObjectKind::CsiDriver | ObjectKind::CsiStorageCapacity => false,
            _ => true,
        })
    }

    /// Whether its objects are few, and say what is wanted: our own kinds but for NodeClaims.
    pub fn is_configuration(self) -> bool {
        matches!(
            self,
            ObjectKind::NodePool
                | ObjectKind::NodeOverlay
                | ObjectKind::KwokNodeClass
                | ObjectKind::Ec2NodeClass
        )
    }

    /// The kind of node class that a reference names.
    pub fn of_class(kind: &str) -> Option<ObjectKind> {
        let mut classes = [ObjectKind::KwokNodeClass, ObjectKind::Ec2NodeClass].into_iter();
        classes.find(|class| class.at().kind == kind)
    }

    /// Group, version, kind and plural.
    pub fn at(self) -> At {
        let (group, version, kind, plural) = match self {
            ObjectKind::NodePool => ("karpenter.sh", "v1", "NodePool", "nodepools"),
            ObjectKind::NodeClaim => ("karpenter.sh", "v1", "NodeClaim", "nodeclaims"),
            ObjectKind::NodeOverlay => ("karpenter.sh", "v1alpha1", "NodeOverlay", "nodeoverlays"),
            ObjectKind::KwokNodeClass => (
                "karpenter.kwok.sh",
                "v1alpha1",
                "KWOKNodeClass",
                "kwoknodeclasses",
            ),
            ObjectKind::Ec2NodeClass => {
                ("karpenter.k8s.aws", "v1", "EC2NodeClass", "ec2nodeclasses")
            }
            ObjectKind::Node => ("", "v1", "Node", "nodes"),
            ObjectKind::Namespace => ("", "v1", "Namespace", "namespaces"),
            ObjectKind::PriorityClass => (
                "scheduling.k8s.io",
                "v1",
                "PriorityClass",
                "priorityclasses",
            ),
            ObjectKind::StorageClass => ("storage.k8s.io", "v1", "StorageClass", "storageclasses"),
            ObjectKind::CsiNode => ("storage.k8s.io", "v1", "CSINode", "csinodes"),
            ObjectKind::PersistentVolume => ("", "v1", "PersistentVolume", "persistentvolumes"),
            ObjectKind::PersistentVolumeClaim => {
                ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
            }
            ObjectKind::VolumeAttachment => (
                "storage.k8s.io",
                "v1",
                "VolumeAttachment",
                "volumeattachments",
            ),
            ObjectKind::DaemonSet => ("apps", "v1", "DaemonSet", "daemonsets"),
            ObjectKind::ReplicaSet => ("apps", "v1", "ReplicaSet", "replicasets"),
            ObjectKind::StatefulSet => ("apps", "v1", "StatefulSet", "statefulsets"),
            ObjectKind::ReplicationController => {
                ("", "v1", "ReplicationController", "replicationcontrollers")
            }
            ObjectKind::Service => ("", "v1", "Service", "services"),
            ObjectKind::PodDisruptionBudget => (
                "policy",
                "v1",
                "PodDisruptionBudget",
                "poddisruptionbudgets",
            ),
            ObjectKind::LimitRange => ("", "v1", "LimitRange", "limitranges"),
            ObjectKind::CsiDriver => ("storage.k8s.io", "v1", "CSIDriver", "csidrivers"),
            ObjectKind::CsiStorageCapacity => (
                "storage.k8s.io",
                "v1",
                "CSIStorageCapacity",
                "csistoragecapacities",
            ),
            ObjectKind::Pod => ("", "v1", "Pod", "pods"),
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
