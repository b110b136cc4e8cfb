//! Values for labels that a NodePool requires without saying which: `team Exists`, `gen Gt 5`,
//! `tier NotIn [gold]`.
//!
//! kube-scheduler reads the label of the Node, so that a pod which asks for one of these only runs
//! where there is a value. Karpenter writes a random integer; here it is the largest that is
//! allowed, which most lower bounds admit and which is the same in every process.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use super::cluster_objects::ClusterObjects;
use super::requirement::{Op, Requirement};
use super::symbols::Symbol;

/// The largest integer from `lo` to `hi` that is not excluded; nothing if there is none.
pub fn largest(lo: i64, hi: i64, excluded: impl Fn(i64) -> bool) -> Option<i64> {
    let mut value = hi;
    while value >= lo {
        if !excluded(value) {
            return Some(value);
        }
        value = value.checked_sub(1)?;
    }
    None
}

/// Groups of labels that clouds and autoscalers give values to.
const KNOWN_GROUPS: [&str; 3] = ["karpenter.sh", "karpenter.kwok.sh", "karpenter.k8s.aws"];
/// Labels that every cloud gives values to.
const KNOWN: [&str; 7] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/windows-build",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "kubernetes.io/hostname",
];

/// Whether nobody but a NodePool gives a label its value, as far as its name says.
pub fn is_custom(label: &str) -> bool {
    let group = label.split_once('/').map_or("", |(group, _)| group);
    !KNOWN_GROUPS.contains(&group) && !KNOWN.contains(&label)
}

/// Whether the nodes of a NodePool have no value of a label but the one that they are given: it
/// requires the label, and neither instance types nor offerings name it.
pub fn is_given(world: &ClusterObjects, requirements: &[Requirement], label: Symbol) -> bool {
    let index = world.catalogue.index();
    let of_offerings = || {
        let mut pinned = index.pinned().iter().flat_map(|pinned| &pinned.values);
        pinned.any(|(of, _)| *of == label)
    };
    requirements.iter().any(|r| r.key == label)
        && is_custom(world.names.text(label))
        && !index.is_of_types(label)
        && !of_offerings()
}

impl ClusterObjects {
    /// The values that nodes may be given and that no object names yet. A plan names them, so that
    /// they have to be interned first.
    pub fn own_values(&self) -> Vec<String> {
        let custom = |r: &&Requirement| is_custom(self.names.text(r.key));
        let of_pools = || self.pools.iter().flat_map(|pool| &pool.requirements);
        let mut upper: FxHashMap<Symbol, FxHashSet<i64>> = FxHashMap::default();
        for r in of_pools().filter(custom) {
            if !matches!(r.op, Op::In(_) | Op::DoesNotExist) {
                upper.entry(r.key).or_default().insert(i64::MAX);
            }
        }
        if upper.is_empty() {
            return Vec::new();
        }
        let mut excluded: FxHashSet<(Symbol, i64)> = FxHashSet::default();
        let of_pods = self.shapes.iter().flat_map(|shape| {
            let preferred = shape.preferred.iter().flat_map(|(_, term)| term);
            shape.required.iter().flatten().chain(preferred)
        });
        for r in of_pools().chain(of_pods) {
            let Some(upper) = upper.get_mut(&r.key) else {
                continue;
            };
            match &r.op {
                Op::Lte(most) => drop(upper.insert(*most)),
                Op::NotIn(values) => {
                    let numbers = values
                        .iter()
                        .filter_map(|&v| self.names.text(v).parse().ok());
                    excluded.extend(numbers.map(|number| (r.key, number)));
                }
                _ => {}
            }
        }
        let mut values: BTreeSet<i64> = BTreeSet::new();
        for (key, upper) in upper {
            for most in upper {
                // Whether a value is excluded depends on the pods of the node.
                let mut value = Some(most);
                while let Some(number) = value {
                    values.insert(number);
                    let next = excluded.contains(&(key, number));
                    value = number.checked_sub(1).filter(|_| next);
                }
            }
        }
        let texts = values.into_iter().map(|value| value.to_string());
        texts
            .filter(|text| self.names.get(text).is_none())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_integer_that_is_allowed_is_given() {
        let none = |_: i64| false;
        assert_eq!(largest(i64::MIN, i64::MAX, none), Some(i64::MAX));
        assert_eq!(largest(6, 99, none), Some(99));
        assert_eq!(largest(6, 99, |n| n > 97), Some(97));
        assert_eq!(largest(6, 5, none), None);
        assert_eq!(largest(i64::MIN, i64::MIN, |_| true), None);
    }

    #[test]
    fn labels_of_clouds_are_no_custom_ones() {
        let custom = ["team", "example.com/gen", "node.kubernetes.io/rack"];
        assert!(custom.iter().all(|label| is_custom(label)));
        let known = [
            "topology.kubernetes.io/zone",
            "karpenter.k8s.aws/instance-cpu",
            "karpenter.sh/capacity-type",
        ];
        assert!(!known.iter().any(|label| is_custom(label)));
    }
}
