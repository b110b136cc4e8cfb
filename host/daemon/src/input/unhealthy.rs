//! Nodes of a snapshot that their cloud calls unhealthy, for `plan --disrupt --method repair`.

use longshore_api::crd::Timestamp;
use longshore_api::manifests::documents;
use longshore_cloud::RepairPolicy;
use longshore_core::model::{ClusterObjects, UnhealthyNode};
use serde::Deserialize;

use longshore_live::act::repair::policies::RepairPolicies;
use longshore_live::observe::node::NodeView;

/// Nodes as they came, and the latest time that a condition of one of them names.
#[derive(Default)]
pub struct Nodes {
    all: Vec<NodeView>,
    latest: i64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Times {
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Condition {
    last_heartbeat_time: Option<Timestamp>,
    last_transition_time: Option<Timestamp>,
}

impl Nodes {
    /// Takes the Nodes of a text in. What is wrong with the text, the reader of all manifests says.
    pub fn read(&mut self, source: &str, bytes: &[u8]) {
        let (found, _) = documents(source, bytes);
        let items = found.into_iter().flat_map(|document| document.items());
        for item in items.filter(|item| item.field("kind") == Some("Node")) {
            let Ok(node) = NodeView::read(item.text()) else {
                continue;
            };
            let times: Times = serde_json::from_str(item.text()).unwrap_or_default();
            let conditions = times.status.conditions.iter();
            let named =
                conditions.flat_map(|one| [one.last_heartbeat_time, one.last_transition_time]);
            let latest = named.flatten().map(Timestamp::as_second).max();
            self.latest = self.latest.max(latest.unwrap_or(0));
            self.all.push(node);
        }
    }

    /// Adds those that are unhealthy to a world. How long a condition has lasted is counted until
    /// the latest time that a condition names: kubelets that live report every few minutes.
    pub fn enter(self, world: &mut ClusterObjects, policies: &[RepairPolicy]) {
        let Ok(policies) = RepairPolicies::new(policies) else {
            return;
        };
        let now = world.now.max(self.latest);
        for node in &self.all {
            let Some(found) = policies.of(node, None, now) else {
                continue;
            };
            let unhealthy = UnhealthyNode {
                node: world.names.intern(&node.name),
                condition: world.names.intern(&found.text()),
                due: found.repair(node, None, now),
            };
            world.unhealthy.push(unhealthy);
        }
    }
}
