//! The pods that a NodeClaim was made for, in an annotation of it.

use longshore_api::crd::NodeClaim;

/// Annotation with the pods that a NodeClaim was made for, `namespace/name` separated by commas:
/// until its node has taken them, no other round plans for them, whichever process makes it. A pod
/// may be followed by `~` and then, in this order: the number of its group, if it must spread; `+`
/// and a number, if it is an affinity leader of that number; `-`, if it needs no nomination.
pub const PLANNED_PODS: &str = "longshore.dev/planned-pods";

/// A pod that a node is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned<'a> {
    /// `namespace/name`.
    pub pod: &'a str,
    /// The group of a spread pod; nothing for other pods.
    pub group: Option<u32>,
    /// The group of an affinity leader; nothing for other pods.
    pub affinity_leader: Option<u32>,
    /// It is nominated; other pods find room without a nomination.
    pub nominated: bool,
}

impl<'a> Planned<'a> {
    /// A pod without group, affinity leader or nomination.
    pub fn plain(pod: &'a str) -> Self {
        Planned {
            pod,
            group: None,
            affinity_leader: None,
            nominated: true,
        }
    }
}

/// The pods that a NodeClaim was made for.
pub fn planned_pods(claim: &NodeClaim) -> impl Iterator<Item = Planned<'_>> {
    let list = claim
        .metadata
        .annotations
        .as_ref()
        .and_then(|a| a.get(PLANNED_PODS))
        .map_or("", String::as_str);
    list.split(',').filter(|pod| !pod.is_empty()).map(|text| {
        let (pod, marks) = text.split_once('~').unwrap_or((text, ""));
        let (numbers, nominated) = marks
            .strip_suffix('-')
            .map_or((marks, true), |numbers| (numbers, false));
        let (group, leads) = numbers.split_once('+').unwrap_or((numbers, ""));
        Planned {
            pod,
            group: group.parse().ok(),
            affinity_leader: leads.parse().ok(),
            nominated,
        }
    })
}
