//! What a daemon says of itself: the loop fills it, `/status` serves it as JSON, `longshore status`
//! reads that. The JSON's names are a contract with scripts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use super::policies::PoliciesStatus;

/// Everything. Times are in RFC 3339.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    /// Everything was listed once, and the API server answers.
    pub synced: bool,
    /// Whether this replica leads.
    pub leads: bool,
    /// Why nothing may be planned now.
    pub planning_waits: Option<String>,
    /// Goes up with every change of the observed cluster.
    pub revision: u64,
    /// Rounds since the process began.
    pub rounds: u64,
    pub pods: usize,
    pub pending: usize,
    pub nodes: usize,
    pub node_claims: usize,
    pub node_pools: usize,
    /// Pods without a place, by reason.
    pub waiting: Vec<WaitingPods>,
    /// Objects that wait to be reconciled.
    pub work: usize,
    pub last_plan: Option<LastPlan>,
    /// What is wrong with the cluster, by subject.
    pub troubles: BTreeMap<String, String>,
    pub without_capacity: Option<WithoutCapacity>,
    /// Absent until the configuration was read.
    pub policies: Option<PoliciesStatus>,
    /// NodePools without compatible instance types, with the reason.
    pub barren: BTreeMap<String, String>,
    /// NodeOverlays and what they change. Absent where there are none.
    pub overlays: Option<Overlays>,
    /// Pods whose node is on its way.
    pub coming: Vec<Coming>,
    /// Pods that wait without a reason of their own.
    pub others: usize,
    /// What the API server or the cloud refuses again and again.
    pub refused: Vec<Refusal>,
    /// What an operator should look at, a sentence each.
    pub warnings: Vec<String>,
    pub churn: Option<Churn>,
    pub lost: Option<Lost>,
    pub cost: Option<Cost>,
    /// What was changed lately.
    pub changes: Vec<Change>,
    /// Nodes that take long to drain.
    pub draining: Option<Draining>,
    /// Nodes that a budget or an annotation keeps.
    pub held: Vec<Held>,
    /// When the API server answered last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_seconds_ago: Option<f64>,
}

/// Pods that wait for the same reason.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitingPods {
    pub why: String,
    pub pods: usize,
    /// A few of them, `namespace/name`.
    pub some: Vec<String>,
}

/// The last round's plan. Costs are in USD per hour.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LastPlan {
    pub milliseconds: u64,
    /// At the catalogue's prices.
    pub cost: f64,
    /// At the costs that policies give.
    pub effective: f64,
    pub lower_bound: f64,
    pub claims: usize,
    /// NodeClaims that could not be created; known once all were tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<usize>,
    pub pods: usize,
    /// Pods that the plan could not place.
    pub left: usize,
    /// Whether the search ended at the time limit.
    pub cut_short: bool,
    /// Pods whose placement breaks a rule, so that they are not in the plan.
    pub left_out: usize,
}

/// Offerings that the cloud had no capacity for.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WithoutCapacity {
    pub offerings: usize,
    /// When the first of them is asked for again, a time of day.
    pub asked_again_from: String,
    pub asked_again_until: String,
    /// A few of them, `TYPE/ZONE/CAPACITY-TYPE`.
    pub some: Vec<String>,
}

/// NodeOverlays, and what they do to prices.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Overlays {
    pub count: usize,
    /// The first few NodeOverlays.
    pub overlays: Vec<Overlay>,
    /// Offerings at another price.
    pub prices_changed: usize,
    /// The first few of these prices.
    pub prices: Vec<ChangedPrice>,
}

#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Overlay {
    pub name: String,
    /// `applied`, or why not.
    pub state: String,
}

/// An offering whose price a NodeOverlay changes. In USD per hour.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct ChangedPrice {
    /// `TYPE/ZONE/CAPACITY-TYPE`
    pub offering: String,
    /// The price that counts.
    pub price: f64,
    /// The provider's price.
    pub offered: f64,
}

/// NodeClaims of a NodePool that have pods and wait for the same thing.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Coming {
    pub node_pool: String,
    pub waits_for: String,
    pub node_claims: usize,
    pub pods: usize,
    /// When the oldest was created.
    pub since: Option<String>,
    /// Names of the first few NodeClaims.
    pub some: Vec<String>,
}

/// An action that is refused again and again.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Refusal {
    /// `launching instances`
    pub what: String,
    pub node_pool: String,
    pub times: u64,
    pub since: String,
    pub why: String,
}

/// Nodes that came and went within an hour.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Churn {
    pub launched: usize,
    pub ended: usize,
    /// Whether more ended than is known.
    pub ended_more: bool,
    /// Nodes that are there and stay.
    pub nodes: usize,
    /// How long half of those that ended did not live.
    pub median_seconds: Option<i64>,
    /// How much of the hour this process has watched; absent for all of it.
    pub watched_seconds: Option<i64>,
    pub by_node_pool: Vec<NodesOf>,
    pub by_reason: Vec<NodesOf>,
}

/// Nodes lost to interruptions within ten minutes.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Lost {
    pub nodes: usize,
    /// Whether more were lost than is known.
    pub more: bool,
    pub by_zone: Vec<NodesOf>,
    pub by_type: Vec<NodesOf>,
    /// How much of the ten minutes this process has led.
    pub counted_seconds: i64,
    /// Nodes that ended before that, for no known reason.
    pub unknown: usize,
}

/// How many nodes a name has.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct NodesOf {
    pub name: String,
    pub nodes: usize,
}

/// What all nodes cost.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Cost {
    pub usd_per_hour: f64,
    pub nodes: usize,
    /// Nodes without a known price.
    pub unpriced: usize,
    /// Cores that pods request.
    pub cores: f64,
    pub usd_per_core: Option<f64>,
    pub hour_ago: Option<CostBefore>,
    pub day_ago: Option<CostBefore>,
    /// Since when this process has watched.
    pub since: String,
}

/// What all nodes did cost. Changes since then are in percent.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CostBefore {
    pub usd_per_hour: f64,
    pub change: Option<f64>,
    pub usd_per_core: Option<f64>,
    pub change_per_core: Option<f64>,
}

/// Something that rounds or launches depend on was changed.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Change {
    /// When it was changed last.
    pub at: String,
    pub what: String,
    pub times: usize,
}

/// Nodes that have been draining for long.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Draining {
    pub nodes: usize,
    /// The nodes that have been draining longest.
    pub lines: Vec<DrainingNode>,
}

#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DrainingNode {
    pub node_claim: Option<String>,
    /// Empty where the NodeClaim has none.
    pub node: String,
    pub node_pool: String,
    pub since: String,
    pub waits_for: String,
    /// Pods that may not be evicted.
    pub refusing: usize,
    /// A few of those, each with the reason.
    pub some: Vec<String>,
}

/// Nodes that the same rule keeps.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Held {
    pub nodes: usize,
    /// The names of a few.
    pub some: Vec<String>,
    /// Whether these nodes have drifted.
    pub drifted: bool,
    /// What is in the way of the first.
    pub why: String,
}

/// Reads the JSON of a daemon, of another version too: a field that it writes in a way unknown here
/// is as if it were absent.
pub fn read(mut json: Value) -> Status {
    loop {
        let error = match serde_path_to_error::deserialize::<_, Status>(&json) {
            Ok(status) => return status,
            Err(error) => error,
        };
        if !remove(&mut json, error.path()) {
            return Status::default();
        }
    }
}

/// Removes what is at a path, or the innermost known thing around it; whether there was any.
fn remove(json: &mut Value, path: &Path) -> bool {
    let steps = path.iter().map_while(|segment| match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } => Some(key.clone()),
        Segment::Enum { .. } | Segment::Unknown => None,
    });
    let steps: Vec<String> = steps.collect();
    let Some((last, around)) = steps.split_last() else {
        return false;
    };
    let mut at = json;
    for step in around {
        let inner = match at {
            Value::Object(fields) => fields.get_mut(step),
            Value::Array(items) => match step.parse::<usize>() {
                Ok(step) => items.get_mut(step),
                Err(_) => None,
            },
            _ => None,
        };
        let Some(inner) = inner else { return false };
        at = inner;
    }
    match at {
        Value::Object(fields) => fields.remove(last).is_some(),
        Value::Array(items) => {
            let index = last.parse::<usize>().ok();
            let index = index.filter(|index| *index < items.len());
            index.map(|index| items.remove(index)).is_some()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_of_another_version_is_read_but_for_what_is_unknown() {
        let status = read(json!({
            "synced": true, "leads": "perhaps", "pods": null, "nodes": 3, "new": {"in": 2030},
            "lastPlan": {"cost": null, "pods": 4},
            "waiting": [{"why": "no room", "pods": 2}, "in words"],
            "policies": {"policies": [{"name": "cost", "mode": "half", "calls": 7, "active": "oracle"}]},
        }));
        let policies = status.policies.clone().unwrap_or_default().policies;
        assert_eq!((status.synced, status.leads), (true, false));
        assert_eq!((status.pods, status.nodes), (0, 3));
        assert_eq!(status.last_plan.map(|plan| plan.pods), Some(4));
        assert_eq!(status.waiting.len(), 1);
        assert_eq!((&*policies[0].name, policies[0].stats.calls), ("cost", 7));
        assert_eq!(read(json!("starting")), Status::default());
    }
}
