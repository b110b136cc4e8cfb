//! The name of an offering.

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
