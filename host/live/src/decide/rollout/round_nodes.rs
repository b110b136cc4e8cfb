//! Nodes of one round register together.
//!
//! kube-scheduler spreads pods over existing domains only, so an early node would attract spread
//! pods that are planned for others. Each registered node also makes kube-scheduler retry every
//! unschedulable pod. A pod whose node is not registered yet fails again and backs off longer. So a
//! node registers once all nodes of its round have joined, or a few seconds after the last one that
//! joined. It also waits some seconds to become Ready, because pods cannot start earlier.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use longshore_api::crd::NodeClaim;
use tokio::time::Instant;

use crate::decide::claims::ROUND;
use crate::observe::node::NodeView;
use crate::observe::planned_pods::planned_pods;

/// How long a node waits for the others of a round with pods that must spread or be together. A node
/// that is there before the others attracts them, whatever is planned for it.
const MAX_SPREAD_WAIT: Duration = Duration::from_secs(10);
/// How long a node waits for the others of any other round: its pods would only be delayed.
const MAX_ROUND_WAIT: Duration = Duration::from_secs(2);
/// While nodes of a round keep coming, each waits this long after the last of them.
const ARRIVAL_GAP: Duration = Duration::from_secs(1);
/// Longest wait of a node while others of its round keep coming.
const MAX_ARRIVAL_WAIT: Duration = Duration::from_secs(10);
/// How long a node waits to be Ready. Until it is, its pods would be bound to other nodes. It does not
/// wait for ever: what makes it Ready may need pods that do not tolerate unregistered nodes.
const MAX_READY_WAIT: Duration = Duration::from_secs(10);

/// Nodes that have joined, and NodeClaims without a node, by round.
#[derive(Default)]
pub struct RoundNodes {
    /// Claims without a node, by round.
    unobserved_claims: BTreeMap<String, BTreeSet<String>>,
    /// Those rounds of them that have pods which must spread or be together.
    bound_together: BTreeSet<String>,
    /// Claims that wait for others, by round.
    waiting: BTreeMap<String, BTreeSet<String>>,
    /// When a claim's node was first seen.
    joined: BTreeMap<String, Instant>,
    /// When the last node of a round was, by round of which more are awaited.
    last: BTreeMap<String, Instant>,
}

impl RoundNodes {
    /// Notes a claim as it stands now. Returns claims that have waited for it and need not any
    /// longer.
    pub fn note(
        &mut self,
        name: &str,
        claim: Option<&NodeClaim>,
        joined: bool,
        now: Instant,
    ) -> Vec<String> {
        let Some(claim) = claim.filter(|c| c.metadata.deletion_timestamp.is_none()) else {
            self.joined.remove(name);
            return self.node_joined(name);
        };
        if joined {
            if !self.joined.contains_key(name) {
                self.joined.insert(name.to_owned(), now);
                if let Some(round) =
                    round_of(claim).filter(|round| self.unobserved_claims.contains_key(*round))
                {
                    self.last.insert(round.to_owned(), now);
                }
            }
            return self.node_joined(name);
        }
        if let Some(round) = round_of(claim) {
            if depends_on_others(claim) {
                self.bound_together.insert(round.to_owned());
            }
            self.unobserved_claims
                .entry(round.to_owned())
                .or_default()
                .insert(name.to_owned());
        }
        Vec::new()
    }

    fn node_joined(&mut self, name: &str) -> Vec<String> {
        let mut free = Vec::new();
        self.unobserved_claims.retain(|round, claims| {
            if claims.remove(name) && claims.is_empty() {
                free.extend(self.waiting.remove(round).into_iter().flatten());
                self.last.remove(round);
                self.bound_together.remove(round);
            }
            !claims.is_empty()
        });
        free
    }

    /// How much longer a claim's node should not be registered.
    pub fn hold(
        &mut self,
        name: &str,
        claim: &NodeClaim,
        node: &NodeView,
        now: Instant,
    ) -> Option<Duration> {
        let since = now.duration_since(*self.joined.get(name)?);
        if !node.is_ready() && since < MAX_READY_WAIT {
            return Some(MAX_READY_WAIT - since);
        }
        let round = round_of(claim).filter(|round| self.unobserved_claims.contains_key(*round))?;
        let together = match self.bound_together.contains(round) {
            true => MAX_SPREAD_WAIT,
            false => MAX_ROUND_WAIT,
        };
        let quiet = self
            .last
            .get(round)
            .map_or(ARRIVAL_GAP, |at| now.duration_since(*at));
        let more = ARRIVAL_GAP
            .saturating_sub(quiet)
            .min(MAX_ARRIVAL_WAIT.saturating_sub(since));
        let left = Some(together.saturating_sub(since).max(more)).filter(|left| !left.is_zero());
        match left {
            Some(_) => drop(
                self.waiting
                    .entry(round.to_owned())
                    .or_default()
                    .insert(name.to_owned()),
            ),
            None => drop(
                self.waiting
                    .get_mut(round)
                    .map(|waiting| waiting.remove(name)),
            ),
        }
        left
    }

    /// A claim is registered: nothing is awaited of it any more. Says whether that is news.
    pub fn registered(&mut self, name: &str) -> bool {
        self.joined.remove(name).is_some()
    }
}

fn round_of(claim: &NodeClaim) -> Option<&str> {
    claim
        .metadata
        .annotations
        .as_ref()?
        .get(ROUND)
        .map(String::as_str)
}

/// Whether kube-scheduler's place for a pod of the claim depends on which other nodes are there.
fn depends_on_others(claim: &NodeClaim) -> bool {
    planned_pods(claim).any(|planned| planned.group.is_some() || planned.affinity_leader.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::planned_pods::PLANNED_PODS;

    fn claim(round: &str, pods: &str) -> NodeClaim {
        let object = serde_json::json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "x", "annotations": {ROUND: round, PLANNED_PODS: pods}},
            "spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": []},
        });
        serde_json::from_value(object).unwrap()
    }

    fn node(ready: bool) -> NodeView {
        let status = if ready { "True" } else { "False" };
        NodeView::read(&format!(
            r#"{{"status":{{"conditions":[{{"type":"Ready","status":"{status}"}}]}}}}"#
        ))
        .unwrap()
    }

    #[test]
    fn nodes_of_a_round_wait_for_each_other_but_not_for_ever() {
        let now = Instant::now();
        let (spread, plain) = (claim("1", "shop/a~0"), claim("1", "shop/b"));
        let mut round_nodes = RoundNodes::default();
        round_nodes.note("a", Some(&spread), false, now);
        round_nodes.note("b", Some(&spread), false, now);
        round_nodes.note("c", Some(&plain), false, now);
        round_nodes.note("a", Some(&spread), true, now);
        round_nodes.note("c", Some(&plain), true, now);
        assert_eq!(
            round_nodes.hold("c", &plain, &node(true), now),
            Some(MAX_SPREAD_WAIT),
            "it would attract the pods that must spread"
        );
        assert_eq!(
            round_nodes.hold("a", &spread, &node(true), now),
            Some(MAX_SPREAD_WAIT)
        );
        assert_eq!(
            round_nodes.note("b", Some(&spread), true, now),
            ["a", "c"],
            "the last one frees the others"
        );
        assert_eq!(round_nodes.hold("a", &spread, &node(true), now), None);
        round_nodes.note("d", Some(&claim("2", "shop/a~0")), false, now);
        let other = claim("2", "shop/e~0");
        round_nodes.note("e", Some(&other), true, now);
        assert_eq!(
            round_nodes.hold("e", &other, &node(true), now + MAX_SPREAD_WAIT),
            None,
            "long enough"
        );
    }

    #[test]
    fn while_nodes_of_a_round_come_one_after_the_other_the_first_waits_longer() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let plain = claim("1", "shop/a");
        let mut round_nodes = RoundNodes::default();
        for name in 0..20 {
            round_nodes.note(&name.to_string(), Some(&plain), false, now);
        }
        for name in 0..5 {
            round_nodes.note(&name.to_string(), Some(&plain), true, now + second * name);
        }
        let hold = |round_nodes: &mut RoundNodes, seconds| {
            round_nodes.hold("0", &plain, &node(true), now + second * seconds)
        };
        assert_eq!(
            hold(&mut round_nodes, 4),
            Some(second),
            "the fifth has just come"
        );
        assert_eq!(hold(&mut round_nodes, 5), None, "and no node after it");
        round_nodes.note("5", Some(&plain), true, now + MAX_ARRIVAL_WAIT);
        assert_eq!(hold(&mut round_nodes, 10), None, "this must end some time");
    }

    #[test]
    fn a_round_of_pods_that_go_anywhere_waits_briefly() {
        let now = Instant::now();
        let plain = claim("1", "shop/b");
        let mut round_nodes = RoundNodes::default();
        for name in ["a", "b"] {
            round_nodes.note(name, Some(&plain), false, now);
        }
        round_nodes.note("a", Some(&plain), true, now);
        let mut hold = |at| round_nodes.hold("a", &plain, &node(true), at);
        assert_eq!(hold(now), Some(MAX_ROUND_WAIT));
        assert_eq!(hold(now + MAX_ROUND_WAIT), None);
        let leader = claim("2", "shop/a~+0");
        round_nodes.note("d", Some(&leader), false, now);
        round_nodes.note("c", Some(&leader), true, now);
        let led = round_nodes.hold("c", &leader, &node(true), now);
        assert_eq!(led, Some(MAX_SPREAD_WAIT), "its followers go where it goes");
    }

    #[test]
    fn a_node_may_take_a_while_to_get_ready() {
        let now = Instant::now();
        let plain = claim("1", "shop/b");
        let mut round_nodes = RoundNodes::default();
        round_nodes.note("a", Some(&plain), true, now);
        assert_eq!(
            round_nodes.hold("a", &plain, &node(false), now),
            Some(MAX_READY_WAIT)
        );
        assert_eq!(round_nodes.hold("a", &plain, &node(true), now), None);
        assert_eq!(
            round_nodes.hold("a", &plain, &node(false), now + MAX_READY_WAIT),
            None
        );
    }

    #[test]
    fn a_claim_that_is_given_up_keeps_no_other_waiting() {
        let now = Instant::now();
        let spread = claim("1", "shop/a~0");
        let mut round_nodes = RoundNodes::default();
        round_nodes.note("a", Some(&spread), true, now);
        round_nodes.note("b", Some(&spread), false, now);
        assert!(round_nodes.hold("a", &spread, &node(true), now).is_some());
        assert_eq!(round_nodes.note("b", None, false, now), ["a"]);
    }
}
