//! Nodes of later waves. Budgets let only some of the nodes go at once that a look wants to remove.
//! The others carry the taint [`LATER`] meanwhile, so that kube-scheduler does not put evicted pods
//! on nodes that go next.
//!
//! The taint on the nodes is all that is remembered. It is taken back from a node that a look does
//! not want to remove any more, and from all nodes once no command is under way.

use std::collections::BTreeSet;

use longshore_api::crd::{Taint, TaintEffect};
use longshore_core::disrupt::methods::{Round, Verdict};
use longshore_core::disrupt::verdicts::{Candidate, Stays};
use longshore_core::ids::NodeIx;
use longshore_core::snapshot::Snapshot;
pub use longshore_core::snapshot::moves::LATER;

use crate::observe::node::NodeView;

/// Most nodes that get the taint in one look.
const MAX_TAINTS_PER_LOOK: usize = 100;

/// Whether a node has the taint.
pub fn goes_later(node: &NodeView) -> bool {
    node.taints.iter().any(is_later)
}

fn is_later(taint: &Taint) -> bool {
    taint.key == LATER
}

/// The taints of a node with the one of later waves, or without it.
pub fn taints(node: &NodeView, later: bool) -> Vec<Taint> {
    let others = node.taints.iter().filter(|taint| !is_later(taint)).cloned();
    let own = later.then(|| Taint {
        key: LATER.into(),
        value: String::new(),
        effect: TaintEffect::PreferNoSchedule,
        time_added: None,
    });
    others.chain(own).collect()
}

/// Nodes that are to get the taint, and nodes that are to lose it, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Those that get it, dearest first.
    pub mark: Vec<String>,
    /// Nodes that lose the taint.
    pub clear: BTreeSet<String>,
}

/// What a look changes. `marked` are the nodes that have the taint, `begins` those of the commands
/// that begin with this look, and `under_way` says whether any command is.
///
/// Nodes of commands that begin keep what they have: the command writes its own taint on them. The
/// two writes would meet, the command would be taken back, and the next look would do the same.
pub fn changes(
    snapshot: &Snapshot,
    round: &Round,
    mut marked: BTreeSet<String>,
    begins: &BTreeSet<String>,
    under_way: bool,
) -> Changes {
    marked.retain(|node| !begins.contains(node));
    if !under_way {
        let (mark, clear) = (Vec::new(), marked);
        return Changes { mark, clear };
    }
    let name = |node: NodeIx| {
        let symbol = snapshot.nodes[node.0 as usize].name;
        snapshot.world.names.text(symbol).to_owned()
    };
    let later = round.proposals.iter();
    let later = later.filter(|(_, verdict)| matches!(verdict, Verdict::Later(..)));
    let wanted: Vec<String> = later
        .flat_map(|(proposal, _)| proposal.nodes.iter().map(|&node| name(node)))
        .filter(|node| !begins.contains(node))
        .collect();
    // A node that the look may not ask about keeps what it has.
    let unknown = |(at, of): (usize, &Candidate)| is_unknown(of).then(|| name(NodeIx(at as u32)));
    let candidates = round.candidates.iter().enumerate();
    let mut stays: BTreeSet<String> = candidates.filter_map(unknown).collect();
    stays.extend(wanted.iter().cloned());
    let new = wanted.into_iter().filter(|node| !marked.contains(node));
    Changes {
        mark: new.take(MAX_TAINTS_PER_LOOK).collect(),
        clear: marked.difference(&stays).cloned().collect(),
    }
}

/// Whether nothing but a budget is in a method's way: then the look does not say whether the node is
/// worth removing.
fn is_unknown(candidate: &Candidate) -> bool {
    let budget = |of: &Option<Stays>| matches!(of, Some(Stays::NodePoolBudget(_)));
    candidate.refusals.iter().any(budget)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use longshore_core::disrupt::proposals::Proposal;
    use longshore_core::disrupt::verdicts::{Method, Reason};
    use longshore_core::model::ClusterObjects;
    use longshore_core::snapshot::StateNode;

    use super::*;

    fn candidate(refusal: Option<Stays>) -> Candidate {
        Candidate {
            pods: 1,
            weight: 1.0,
            settles: false,
            refusals: std::array::from_fn(|_| refusal.clone()),
        }
    }

    /// Nodes `a` to `c`: the first may go later, a budget keeps the second, no look wants the third.
    fn case() -> (Snapshot, Round) {
        let mut world = ClusterObjects::default();
        let names: Vec<_> = ["a", "b", "c"]
            .iter()
            .map(|name| world.names.intern(name))
            .collect();
        let pool = world.names.intern("default");
        let mut snapshot = Snapshot::new(Arc::new(world));
        snapshot.nodes = names.iter().map(|&name| node(name)).collect();
        let later = Proposal::of_node(NodeIx(0), Method::MultiNode);
        assert_eq!(later.reason, Reason::Underutilized);
        let round = Round {
            proposals: vec![(later, Verdict::Later(pool, 0))],
            candidates: vec![
                candidate(None),
                candidate(Some(Stays::NodePoolBudget(0))),
                candidate(None),
            ],
            ..Round::default()
        };
        (snapshot, round)
    }

    fn node(name: longshore_core::model::Symbol) -> StateNode {
        StateNode {
            late: false,
            name,
            pool: None,
            labels: Default::default(),
            taints: Vec::new(),
            allocatable: Default::default(),
            free: Default::default(),
            capacity: Default::default(),
            initialized: true,
            ports: Vec::new(),
            volume_limits: Vec::new(),
            volumes: Vec::new(),
            pods: Vec::new(),
            terminating: Vec::new(),
            cordoned: false,
        }
    }

    fn names(of: &[&str]) -> BTreeSet<String> {
        of.iter().map(|&name| name.to_owned()).collect()
    }

    fn changed(marked: &[&str], under_way: bool) -> (Vec<String>, Vec<String>) {
        changed_beside(&[], marked, under_way)
    }

    /// What changes while commands of the nodes `begins` begin.
    fn changed_beside(
        begins: &[&str],
        marked: &[&str],
        under_way: bool,
    ) -> (Vec<String>, Vec<String>) {
        let (snapshot, round) = case();
        let changes = changes(&snapshot, &round, names(marked), &names(begins), under_way);
        (changes.mark, changes.clear.into_iter().collect())
    }

    #[test]
    fn nodes_of_commands_that_begin_keep_what_they_have() {
        let none = (Vec::<String>::new(), Vec::<String>::new());
        assert_eq!(changed_beside(&["a"], &[], true), none);
        assert_eq!(
            changed_beside(&["c"], &["c"], true),
            (vec!["a".into()], vec![])
        );
        assert_eq!(changed_beside(&["c"], &["c"], false), none);
    }

    #[test]
    fn nodes_that_go_later_are_marked_and_others_are_not_any_more() {
        let none = Vec::<String>::new();
        assert_eq!(changed(&[], true), (vec!["a".into()], none.clone()));
        assert_eq!(
            changed(&["a", "b", "c"], true),
            (none.clone(), vec!["c".into()])
        );
        assert_eq!(
            changed(&["a", "b"], false),
            (none.clone(), vec!["a".into(), "b".into()])
        );
        assert_eq!(changed(&[], false), (none.clone(), none));
    }
}
