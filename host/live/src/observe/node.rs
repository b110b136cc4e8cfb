//! The parts of a Node that steps use.

use std::collections::BTreeMap;

use longshore_api::crd::{Condition, ConditionStatus, Taint, Time, Timestamp, condition};
use longshore_api::labels;
use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeView {
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub finalizers: Vec<String>,
    /// As written: ours is added to them.
    pub owners: Vec<Value>,
    /// When its deletion was asked for.
    pub deletion: Option<Time>,
    pub created: Option<Time>,
    pub provider_id: String,
    pub taints: Vec<Taint>,
    /// Without their messages.
    pub conditions: Vec<Condition>,
    pub capacity: BTreeMap<String, String>,
    pub allocatable: BTreeMap<String, String>,
    /// Another one each time that its machine starts; empty before it has said so.
    pub boot_id: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Wire {
    metadata: Meta,
    spec: Spec,
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    name: String,
    uid: String,
    resource_version: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    finalizers: Vec<String>,
    owner_references: Vec<Value>,
    deletion_timestamp: Option<Time>,
    creation_timestamp: Option<Time>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(rename = "providerID")]
    provider_id: String,
    taints: Vec<Taint>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    node_info: NodeInfo,
    conditions: Vec<Stated>,
    capacity: BTreeMap<String, String>,
    allocatable: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeInfo {
    #[serde(rename = "bootID")]
    boot_id: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Stated {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
    last_transition_time: Option<Time>,
}

impl Stated {
    /// Any agent may write Node conditions. An invalid status is read as Unknown. A missing time is
    /// read as the creation of the Node.
    fn condition(self, created: Option<&Time>) -> Condition {
        Condition {
            type_: self.kind,
            status: match self.status.as_str() {
                "True" => ConditionStatus::True,
                "False" => ConditionStatus::False,
                _ => ConditionStatus::Unknown,
            },
            last_transition_time: self
                .last_transition_time
                .or_else(|| created.cloned())
                .unwrap_or(Time(Timestamp::UNIX_EPOCH)),
            reason: self.reason,
            message: String::new(),
            observed_generation: None,
        }
    }
}

impl NodeView {
    pub fn is_registered(&self) -> bool {
        self.labels.contains_key(labels::REGISTERED)
    }

    /// Whether it says that it is ready.
    pub fn is_ready(&self) -> bool {
        condition(&self.conditions, "Ready")
            .is_some_and(|ready| ready.status == ConditionStatus::True)
    }

    /// Reads a Node.
    ///
    /// # Errors
    /// In words, if it is not one.
    pub fn read(json: &str) -> Result<Self, String> {
        let Wire {
            metadata,
            spec,
            status,
        } = serde_json::from_str(json).map_err(|e| e.to_string())?;
        let created = metadata.creation_timestamp.as_ref();
        let conditions: Vec<Condition> = status
            .conditions
            .into_iter()
            .map(|c| c.condition(created))
            .collect();
        Ok(NodeView {
            name: metadata.name,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            labels: metadata.labels,
            annotations: metadata.annotations,
            finalizers: metadata.finalizers,
            owners: metadata.owner_references,
            deletion: metadata.deletion_timestamp,
            created: metadata.creation_timestamp,
            provider_id: spec.provider_id,
            taints: spec.taints,
            conditions,
            capacity: status.capacity,
            allocatable: status.allocatable,
            boot_id: status.node_info.boot_id,
        })
    }

    /// Whether it has a finalizer.
    pub fn holds(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|f| f == finalizer)
    }

    /// Its finalizers, with this one.
    pub fn finalizers_with(&self, finalizer: &str) -> Vec<String> {
        let mut all = self.finalizers.clone();
        if !self.holds(finalizer) {
            all.push(finalizer.to_owned());
        }
        all
    }
}
