//! One instance.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use longshore_cloud::{Instance, Launch, Taint};
use longshore_core::model::OfferingId;
use serde_json::{Value, json};

use super::READY_AFTER;
use super::choose::Choice;
use super::ledger::Entry;
use super::market::Market;

/// Annotation of nodes with the UID of their claim.
const CLAIM_UID: &str = "sim.longshore.dev/nodeclaim-uid";

/// Where an instance is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InstanceState {
    /// It runs, and is paid for.
    Running,
    /// It is going down.
    Ending,
    /// The cloud has forgotten it.
    Gone,
}

pub struct SimInstance {
    /// What the cloud says of it.
    pub instance: Arc<Instance>,
    /// What it was made for.
    pub launch: Launch,
    /// The name of its node.
    pub node: String,
    pub offering: OfferingId,
    pub instance_type: String,
    pub zone: String,
    pub capacity_type: String,
    pub state: InstanceState,
    /// It has an interruption notice.
    pub notified: bool,
    started: Duration,
    ended: Option<Duration>,
    /// USD paid until `paid_until`.
    paid: f64,
    paid_until: Duration,
}

impl SimInstance {
    /// The instance number `at`, begun now.
    pub fn new(at: usize, launch: &Launch, chosen: Choice, now: Duration, created: i64) -> Self {
        let node = format!("node-{}", at + 1);
        let label = |key: &str| chosen.labels.get(key).cloned().unwrap_or_default();
        let (zone, capacity_type) = (
            label("topology.kubernetes.io/zone"),
            label("karpenter.sh/capacity-type"),
        );
        let instance_type = label("node.kubernetes.io/instance-type");
        let instance = Instance {
            provider_id: format!("sim:///{zone}/i-{:06}", at + 1),
            claim_uid: Some(launch.uid.clone()),
            group: None,
            image_id: Some("image-sim".to_owned()),
            labels: chosen.labels,
            capacity: chosen.capacity,
            allocatable: chosen.allocatable,
            annotations: BTreeMap::new(),
            created,
        };
        let instance = Arc::new(instance);
        SimInstance {
            instance,
            launch: launch.clone(),
            node,
            offering: chosen.offering,
            instance_type,
            zone,
            capacity_type,
            state: InstanceState::Running,
            notified: false,
            started: now,
            ended: None,
            paid: 0.0,
            paid_until: now,
        }
    }

    pub fn runs(&self) -> bool {
        self.state == InstanceState::Running
    }

    /// The NodePool that it was made for.
    pub fn node_pool(&self) -> &str {
        self.launch
            .labels
            .get("karpenter.sh/nodepool")
            .map_or("", String::as_str)
    }

    /// Pays at the price of now for the time since it was paid last. Asked before each change of
    /// the price.
    pub fn pay(&mut self, now: Duration, market: &Market) {
        if self.runs() {
            self.paid += self.due(now, market);
            self.paid_until = now;
        }
    }

    fn due(&self, now: Duration, market: &Market) -> f64 {
        if !self.runs() {
            return 0.0;
        }
        now.saturating_sub(self.paid_until).as_secs_f64() / 3600.0 * market.price(self.offering)
    }

    /// It goes down.
    pub fn end(&mut self, now: Duration, market: &Market) {
        self.pay(now, market);
        self.state = InstanceState::Ending;
        self.ended = Some(now);
    }

    /// Its line in the ledger.
    pub fn entry(&self, now: Duration, market: &Market) -> Entry {
        Entry {
            provider_id: self.instance.provider_id.clone(),
            node: self.node.clone(),
            claim: self.launch.name.clone(),
            claim_uid: self.launch.uid.clone(),
            group: String::new(),
            node_pool: self.node_pool().to_owned(),
            instance_type: self.instance_type.clone(),
            zone: self.zone.clone(),
            capacity_type: self.capacity_type.clone(),
            start: self.started,
            end: self.ended,
            paid: self.paid + self.due(now, market),
        }
    }

    /// A line for the log.
    pub fn described(&self, what: &str) -> String {
        let SimInstance {
            node,
            instance_type,
            zone,
            capacity_type,
            ..
        } = self;
        format!(
            "{node} ({instance_type} {zone} {capacity_type}, for {}) {what}",
            self.launch.name
        )
    }

    /// The node as its kubelet registers it.
    pub fn node_object(&self, never_ready: bool) -> Value {
        let launch = &self.launch;
        let taint = |t: &Taint| match t.value.as_str() {
            "" => json!({"key": t.key, "effect": t.effect}),
            value => json!({"key": t.key, "value": value, "effect": t.effect}),
        };
        let unregistered = json!({"key": "karpenter.sh/unregistered", "effect": "NoExecute"});
        let starting = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
        let all = launch
            .taints
            .iter()
            .chain(&launch.startup_taints)
            .map(taint);
        let taints: Vec<Value> = all.chain([unregistered, starting]).collect();
        let mut labels = self.instance.labels.clone();
        labels.extend(launch.labels.clone());
        labels.insert("kubernetes.io/hostname".into(), self.node.clone());
        let mut annotations = launch.annotations.clone();
        annotations.insert(CLAIM_UID.into(), launch.uid.clone());
        if never_ready {
            annotations.insert(READY_AFTER.into(), "never".into());
        }
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": self.node, "labels": labels, "annotations": annotations},
            "spec": {"providerID": self.instance.provider_id, "taints": taints},
            "status": {
                "capacity": self.instance.capacity, "allocatable": self.instance.allocatable,
                "conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}],
            },
        })
    }
}
