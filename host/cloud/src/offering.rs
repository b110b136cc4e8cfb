//! The name of an offering.

/// How long an offering is skipped after a launch failed for lack of capacity, in seconds. As long
/// as Karpenter's EC2 provider waits (three minutes); a capacity that comes back earlier is found
/// by the claims that admit other offerings as well.
pub const UNAVAILABLE_SECONDS: i64 = 180;

/// An offering by what the labels of its nodes say.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfferingName {
    /// `node.kubernetes.io/instance-type`.
    pub instance_type: String,
    /// `topology.kubernetes.io/zone`, empty for none.
    pub zone: String,
    /// `karpenter.sh/capacity-type`.
    pub capacity_type: String,
}
