//! NodePools and the node classes that they name.

use longshore_core::model::{ClusterObjects, Labels};
use longshore_ec2::catalogue::NODE_CLASS;
use longshore_ec2::nodeclass;

/// Labels the NodePools of EC2NodeClasses with them, as their nodes are labelled, so that each
/// meets the instance types of its own. Names of the NodeClasses, ordered.
pub fn tie_pools(objects: &mut ClusterObjects) -> Vec<String> {
    let Some(group) = objects.names.get(nodeclass::GROUP) else {
        return Vec::new();
    };
    if !objects.pools.iter().any(|pool| pool.class.group == group) {
        return Vec::new();
    }
    let key = objects.names.intern(NODE_CLASS);
    let mut names = Vec::new();
    let pools = objects.pools.iter_mut();
    for pool in pools.filter(|pool| pool.class.group == group) {
        let class = pool.class;
        names.push(objects.names.text(class.name).to_owned());
        pool.labels = Labels::new(pool.labels.iter().chain([(key, class.name)]).collect());
    }
    names.sort_unstable();
    names.dedup();
    names
}
