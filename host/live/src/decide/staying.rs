//! Nodes that consolidation leaves, and why: what Events `Unconsolidatable` and `DisruptionBlocked`
//! say of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use longshore_core::disrupt::methods::Round;
use longshore_core::disrupt::verdicts::{Candidate, Method, Stays};
use longshore_core::ids::NodeIx;
use longshore_core::model::Symbol;
use longshore_core::snapshot::Snapshot;
use tokio::time::Instant;

use longshore_report::disruption::{Messages, Reason, Reasons};

use crate::status::parts::Held;
use longshore_core::model::conditions::DRIFTED;

/// Nothing is said again of a node before this: Karpenter's interval.
pub const REPEAT_INTERVAL: Duration = Duration::from_secs(15 * 60);
/// Most nodes that one look asks about and reports.
pub const MAX_NODES_PER_LOOK: usize = 10;

/// When something was last reported of each node, by its name. Shared with the thread that decides.
pub type ReportTimes = Arc<BTreeMap<String, Instant>>;

/// What is said of a node that stays.
#[derive(Debug, PartialEq, Eq)]
pub struct Staying {
    pub node: String,
    /// The reason of the Event.
    pub event: &'static str,
    /// What is in the way.
    pub message: String,
}

/// What is to be reported of nodes that consolidation leaves, at most [`MAX_NODES_PER_LOOK`].
/// `is_reported` says which nodes are left out.
pub fn to_report(
    snapshot: &Snapshot,
    round: &Round,
    is_reported: impl Fn(&str) -> bool,
) -> Vec<Staying> {
    let (messages, reasons) = (Messages { snapshot }, Reasons::new(round));
    // What drift or repair has found is no word of consolidation.
    let was_asked = round.lower_bound.is_some();
    let nodes = round.candidates.iter().enumerate();
    let of = |(at, candidate): (usize, &Candidate)| {
        let node = NodeIx(at as u32);
        if reasons.goes.contains(&node) {
            return None;
        }
        let method = decisive(candidate);
        let why = reasons.of(node, method)?;
        let event = event(why).filter(|_| was_asked || !candidate.may(method))?;
        let name = messages.node(node);
        (!is_reported(&name)).then(|| Staying {
            message: why.text(node, &messages),
            node: name,
            event,
        })
    };
    nodes.filter_map(of).take(MAX_NODES_PER_LOOK).collect()
}

/// The method whose word on a node counts: that of drift if it has drifted, that of emptiness if it is
/// empty.
fn decisive(candidate: &Candidate) -> Method {
    let drift = candidate.refusal(Method::Drift);
    match candidate.refusal(Method::MultiNode) {
        _ if !matches!(drift, None | Some(Stays::NotDrifted | Stays::Static)) => Method::Drift,
        Some(Stays::IsEmpty) => Method::Emptiness,
        _ => Method::MultiNode,
    }
}

/// Most groups, and names of each.
const MAX_GROUPS: usize = 5;
const MAX_NAMES: usize = 3;

/// Nodes that a budget or an annotation keeps. The rule that keeps most nodes comes first.
pub fn held(snapshot: &Snapshot, round: &Round) -> Vec<Held> {
    let mut groups: BTreeMap<(Rule, bool), Vec<(NodeIx, &Stays)>> = BTreeMap::new();
    let world = &snapshot.world;
    // The word of drift counts for a node that must not be disrupted at all, whether it has drifted or not.
    let drifted: BTreeSet<Symbol> = match world.names.get(DRIFTED) {
        Some(known) => {
            let claims = world.claims.iter();
            let drifted = claims.filter(|claim| claim.conditions.contains(&known));
            drifted.filter_map(|claim| claim.node_name).collect()
        }
        None => BTreeSet::new(),
    };
    for (at, candidate) in round.candidates.iter().enumerate() {
        let node = &snapshot.nodes[at];
        if let Some(why) = candidate.refusal(decisive(candidate))
            && let Some(rule) = Rule::of(why, node.pool)
        {
            let group = groups.entry((rule, drifted.contains(&node.name)));
            group.or_default().push((NodeIx(at as u32), why));
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    let messages = Messages { snapshot };
    let held = |((_, drifted), nodes): ((Rule, bool), Vec<(NodeIx, &Stays)>)| {
        let (first, why) = nodes[0];
        let some = nodes.iter().take(MAX_NAMES);
        Held {
            nodes: nodes.len(),
            some: some.map(|(node, _)| messages.node(*node)).collect(),
            drifted,
            why: messages.stays(first, why),
        }
    };
    groups.into_iter().take(MAX_GROUPS).map(held).collect()
}

/// A rule that keeps nodes.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    /// Of a NodePool, by its place there.
    Budget(Option<Symbol>, usize),
    /// By its place in the snapshot.
    PodBudget(usize),
    SeveralPodBudgets,
    Annotation,
}

impl Rule {
    fn of(why: &Stays, pool: Option<Symbol>) -> Option<Self> {
        Some(match why {
            Stays::NodePoolBudget(at) => Rule::Budget(pool, *at),
            Stays::PodBudget(_, at) => Rule::PodBudget(*at),
            Stays::SeveralPodBudgets(_) => Rule::SeveralPodBudgets,
            Stays::DoNotDisrupt | Stays::PodDoNotDisrupt(..) => Rule::Annotation,
            _ => return None,
        })
    }
}

/// The Event for a reason; nothing for what passes by itself or is said otherwise.
fn event(why: Reason<'_>) -> Option<&'static str> {
    let Reason::Stays(why) = why else {
        return Some("Unconsolidatable");
    };
    match why {
        Stays::DoNotDisrupt
        | Stays::PodDoNotDisrupt(..)
        | Stays::PodBudget(..)
        | Stays::SeveralPodBudgets(_)
        | Stays::BreaksRule(_)
        | Stays::SeveralClaims => Some("DisruptionBlocked"),
        Stays::ConsolidationOff
        | Stays::OnlyWhenEmpty
        | Stays::UnknownOffering
        | Stays::NotModelled(_)
        | Stays::Unschedulable(..)
        | Stays::NoPlace(_)
        | Stays::NoPlaceTogether(..)
        | Stays::Needed
        | Stays::NotNow
        | Stays::NotWorthIt(_) => Some("Unconsolidatable"),
        Stays::Policy { .. } => Some("ConsolidationRejected"),
        Stays::NotManaged
        | Stays::NotInitialized
        | Stays::NodePoolMissing
        | Stays::Static
        | Stays::NotStatic
        | Stays::StaticScales
        | Stays::StaticAtLimit
        | Stays::OthersNotReady
        | Stays::Nominated(_)
        | Stays::Leaving(_)
        | Stays::Disrupting
        | Stays::Rebooting
        | Stays::Healthy
        | Stays::Tolerated(_)
        | Stays::DoNotRepair
        | Stays::TooManyUnhealthy(..)
        | Stays::Replaces
        | Stays::NodePoolBudget(_)
        | Stays::BacksOff(_)
        | Stays::OneAtATime
        | Stays::Awaits(_)
        | Stays::NotConsolidatable
        | Stays::NotEmpty(_)
        | Stays::IsEmpty
        | Stays::NotDrifted => None,
    }
}

#[cfg(test)]
mod tests {
    use longshore_api::manifests::Reader;
    use longshore_core::disrupt::methods::{self, RoundOptions};
    use longshore_core::policy::ByPrice;
    use longshore_core::stop::Stop;
    use serde_json::{Value, json};

    use super::*;

    const POOL: &str = "karpenter.sh/nodepool";

    fn node(name: &str, annotations: &Value) -> [Value; 2] {
        let labels = json!({POOL: "default", "karpenter.sh/registered": "true",
            "karpenter.sh/initialized": "true"});
        let is = |kind: &str| json!({"type": kind, "status": "True"});
        let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "c"});
        [
            json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": {"name": name, "uid": name, "labels": labels},
                "spec": {"nodeClassRef": class, "requirements": []},
                "status": {"providerID": name, "nodeName": name,
                    "conditions": [is("Registered"), is("Initialized"), is("Consolidatable")]}}),
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name,
                    "labels": labels, "annotations": annotations},
                "spec": {"providerID": name}, "status": {"conditions": [is("Ready")]}}),
        ]
    }

    /// Nodes of a NodePool that does not consolidate; the first must not be disrupted.
    fn nodes(names: &[&str]) -> Snapshot {
        let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "c"});
        let mut items = vec![json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "default"}, "spec": {"disruption": {"consolidateAfter": "Never"},
                "template": {"spec": {"nodeClassRef": class, "requirements": []}}}})];
        for (at, name) in names.iter().enumerate() {
            let forbids = json!({"karpenter.sh/do-not-disrupt": (at == 0).to_string()});
            items.extend(node(name, &forbids));
        }
        let mut reader = Reader::new();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        reader.read("cluster.json", list.as_bytes());
        let (world, problems) = reader.finish();
        assert!(problems.list.is_empty(), "{problems}");
        Snapshot::new(world.into())
    }

    #[test]
    fn a_policy_that_keeps_a_node_rejects_its_consolidation() {
        let why = Stays::Policy {
            by: "cautious".into(),
            why: "never".into(),
            until: None,
        };
        let rejected = event(Reason::Stays(&why));
        assert_eq!(rejected, Some("ConsolidationRejected"));
        assert_eq!(event(Reason::Stays(&Stays::NotInitialized)), None);
    }

    #[test]
    fn ten_nodes_that_stay_are_reported_in_a_look_each_with_its_reason() {
        let names: Vec<String> = (10..25).map(|number| format!("node-{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let snapshot = nodes(&names);
        let round = methods::round(&snapshot, &ByPrice, RoundOptions::default(), Stop::never());
        let reported = to_report(&snapshot, &round, |node| node == "node-11");
        let nodes: Vec<&str> = reported.iter().map(|of| of.node.as_str()).collect();
        assert_eq!(
            (nodes.len(), nodes[0], nodes[1]),
            (MAX_NODES_PER_LOOK, names[0], names[2])
        );
        assert_eq!(reported[0].event, "DisruptionBlocked");
        assert!(reported[0].message.contains("karpenter.sh/do-not-disrupt"));
        assert_eq!(
            reported[1],
            Staying {
                node: names[2].to_owned(),
                event: "Unconsolidatable",
                message: "consolidateAfter of its NodePool is Never".into(),
            }
        );
        assert!(to_report(&snapshot, &round, |_| true).is_empty());
        // That its NodePool does not consolidate is no rule against a single node.
        let held = held(&snapshot, &round);
        assert_eq!(held.len(), 1);
        assert_eq!(
            (held[0].nodes, held[0].drifted, &held[0].some[..]),
            (1, false, &[names[0].to_owned()][..])
        );
        assert!(held[0].why.contains("karpenter.sh/do-not-disrupt"));
    }
}
