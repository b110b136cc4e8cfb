//! Which settings a kubelet starts with, by its version.
//!
//! A kubelet that refuses its settings ends at its start, and its node never joins. [`refused`] says
//! so before anything is bought. The rules are those of Kubernetes 1.26 to 1.37: reading of the
//! files, `ValidateKubeletConfiguration`, and what is refused later while the kubelet starts
//! (`rules`). Vectors recorded from the kubelet's own packages are in `vectors/kubelet.jsonl`.

pub(crate) mod effective;
mod gates;
mod rules;
pub(crate) mod versions;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

pub use effective::{Base, effective, merge_patch};
pub use versions::{KNOWN, Kubelets, minor};

use crate::validation::fault::Fault;

/// Signals that the kubelet can evict pods by.
pub(crate) const EVICTION_SIGNALS: [&str; 6] = [
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
];

/// Settings with which nodes would never join, with fields below `settings` and the kubelet's
/// reason: those that a kubelet of `kubelets` refuses at its start, on top of `base`. Types are
/// checked before ([`crate::validation::kubelet`]).
///
/// Where it is not known which of several versions a node has, a setting is refused if all of them
/// do.
pub fn refused(settings: &Map<String, Value>, base: Base, kubelets: &Kubelets) -> Vec<Fault> {
    let mut found: BTreeMap<String, (Fault, Vec<u16>)> = BTreeMap::new();
    for &minor in &kubelets.minors {
        for fault in rules::broken(settings, base, minor) {
            let entry = found.entry(fault.field.clone());
            let (last, minors) = entry.or_insert_with(|| (fault.clone(), Vec::new()));
            *last = fault;
            if minors.last() != Some(&minor) {
                minors.push(minor);
            }
        }
    }
    let enough = |minors: &Vec<u16>| kubelets.each || minors.len() == kubelets.minors.len();
    let faults = found.into_values().filter(|(_, minors)| enough(minors));
    let worded = faults.map(|(fault, minors)| {
        let by = match minors.as_slice() {
            all if all.len() == KNOWN.count() => "no kubelet starts with it".to_owned(),
            [.., last] => format!("the kubelet of 1.{last} does not start with it"),
            [] => String::new(),
        };
        Fault {
            what: format!("{}; {by}", fault.what),
            ..fault
        }
    });
    worded.collect()
}
