//! Tags that the autoscaler sets on what it makes in EC2 and IAM.

use std::collections::BTreeMap;

pub use longshore_api::labels::NODEPOOL;

pub use crate::catalogue::requirements::aws::NODE_CLASS;
use crate::nodeclass::EC2NodeClass;

/// Tag with the cluster's name.
pub const CLUSTER: &str = "eks:eks-cluster-name";
/// Tag with the NodeClaim's name.
pub const NODE_CLAIM: &str = "karpenter.sh/nodeclaim";

/// Annotation of NodeClaims whose instance has the tags `Name` and [`NODE_CLAIM`].
pub const TAGGED: &str = "karpenter.k8s.aws/tagged";
/// Annotation of NodeClaims whose instance has the tag [`CLUSTER`].
pub const CLUSTER_TAGGED: &str = "compatibility.karpenter.k8s.aws/cluster-name-tagged";
/// Annotation of NodeClaims with the name of the instance profile that their instance has.
pub const PROFILE: &str = "karpenter.k8s.aws/instance-profile-name";

/// Tags of everything that is made for a NodeClass in a cluster; ours win over the NodeClass's.
pub fn of_class(class: &EC2NodeClass, cluster: &str) -> BTreeMap<String, String> {
    let name = class.metadata.name.clone().unwrap_or_default();
    let owned = format!("kubernetes.io/cluster/{cluster}");
    let mut tags = class.spec.tags().clone();
    tags.extend([
        (owned, "owned".to_owned()),
        (CLUSTER.to_owned(), cluster.to_owned()),
        (NODE_CLASS.to_owned(), name),
    ]);
    tags
}
