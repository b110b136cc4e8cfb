//! Tags that a NodeClass cannot have: those that the autoscaler sets.

use std::collections::BTreeMap;

use super::fault::Fault;
use crate::tags;

/// All faults of `spec.tags`: keys that the autoscaler sets itself. The API server refuses them
/// too; objects from before its rules may have them.
pub fn tags(tags: &BTreeMap<String, String>) -> Vec<Fault> {
    let ours = |key: &str| {
        let set = [
            tags::CLUSTER,
            tags::NODEPOOL,
            tags::NODE_CLAIM,
            tags::NODE_CLASS,
        ];
        set.contains(&key) || key.starts_with("kubernetes.io/cluster")
    };
    let fault = |key: &String| {
        let (what, hint) = match key.as_str() {
            "" => ("a tag has no key", "give it one"),
            key if ours(key) => ("is set by the autoscaler", "remove it"),
            _ => return None,
        };
        Some(Fault::new(format!("tags[{key}]"), what, hint))
    };
    tags.keys().filter_map(fault).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_the_autoscaler_are_refused() {
        let keys = [
            "",
            "team",
            "Name",
            "eks:eks-cluster-name",
            "eks:other",
            "kubernetes.io/cluster/demo",
            "kubernetes.io/other",
            "karpenter.sh/nodepool",
            "karpenter.sh/other",
            "karpenter.sh/nodeclaim",
            "karpenter.k8s.aws/ec2nodeclass",
        ];
        let map = keys.map(|key| (key.to_owned(), "x".to_owned())).into();
        let faults = tags(&map);
        let lines: Vec<String> = faults
            .iter()
            .map(|fault| format!("{}: {}; {}", fault.field, fault.what, fault.hint))
            .collect();
        expect_test::expect![[r#"
            tags[]: a tag has no key; give it one
            tags[eks:eks-cluster-name]: is set by the autoscaler; remove it
            tags[karpenter.k8s.aws/ec2nodeclass]: is set by the autoscaler; remove it
            tags[karpenter.sh/nodeclaim]: is set by the autoscaler; remove it
            tags[karpenter.sh/nodepool]: is set by the autoscaler; remove it
            tags[kubernetes.io/cluster/demo]: is set by the autoscaler; remove it"#]]
        .assert_eq(&lines.join("\n"));
    }
}
