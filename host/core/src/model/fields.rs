//! Fields of a Node that pods and volumes ask for, as labels: keys that no label can have, so that
//! whatever reads labels answers for them too.
//!
//! A node has them in a snapshot only. A new node is taken to declare every feature, as the kubelet
//! of its node class would; and it has no name that anything could ask for.

/// `metadata.name`: of nodes that are told apart by it, others seem to have none.
pub const NAME: &str = "field:metadata.name";

/// What the kubelet has to declare for pods whose containers restart all containers of their pod.
pub const RESTART_ALL_CONTAINERS: &str = "feature:RestartAllContainersOnContainerExits";

/// Features that a pod may ask for. kube-scheduler looks at no others when it places a pod.
pub const FEATURES: [&str; 1] = [RESTART_ALL_CONTAINERS];

/// The feature behind a key, as Nodes declare it (`status.declaredFeatures`).
pub fn feature(key: &str) -> Option<&str> {
    key.strip_prefix("feature:")
}

/// Whether a key is a field and no label.
pub fn is_field(key: &str) -> bool {
    key == NAME || feature(key).is_some()
}
