//! Names of the conditions of a NodeClaim.

/// Its instance was bought.
pub const LAUNCHED: &str = "Launched";
/// Its node has joined.
pub const REGISTERED: &str = "Registered";
/// Its node is ready for pods.
pub const INITIALIZED: &str = "Initialized";
/// It is not what its NodePool and its class ask for.
pub const DRIFTED: &str = "Drifted";
/// Consolidation may take its node.
pub const CONSOLIDATABLE: &str = "Consolidatable";
/// It goes for a command of disruption, or will.
pub const DISRUPTION_REASON: &str = "DisruptionReason";
/// The pods of its node have left.
pub const DRAINED: &str = "Drained";
/// The volumes of its node are detached.
pub const VOLUMES_DETACHED: &str = "VolumesDetached";
/// The cloud was asked to end its instance.
pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
/// Its node has what its NodeClaim promised.
pub const CONSISTENT_STATE_FOUND: &str = "ConsistentStateFound";
