//! NodePool: nodes of one kind, within limits, and how they may be disrupted.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::Condition;
use super::defaults::{is_default, month};
use super::quantities::Quantities;
use super::requirement::{NodeClassRef, Requirement};
use super::schema;
use super::taint::Taint;

/// What a NodePool asks for.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodePool",
    plural = "nodepools",
    category = "karpenter",
    status = "NodePoolStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Nodes of one kind, within limits: what they are made of, which pods they take, and how they may be disrupted.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.nodes"
    ),
    printcolumn(
        name = "NodeClass",
        type_ = "string",
        json_path = ".spec.template.spec.nodeClassRef.name"
    ),
    printcolumn(name = "Nodes", type_ = "string", json_path = ".status.nodes"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Weight",
        type_ = "integer",
        json_path = ".spec.weight",
        priority = 1
    ),
    printcolumn(
        name = "CPU",
        type_ = "string",
        json_path = ".status.resources.cpu",
        priority = 1
    ),
    printcolumn(
        name = "Memory",
        type_ = "string",
        json_path = ".status.resources.memory",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.replicas) == has(oldSelf.replicas)")
    .message("a pool stays with or without replicas for its life"))]
#[x_kube(validation = Rule::new("!has(self.replicas) || (!has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits))")
    .message("a pool with replicas can limit nothing but nodes"))]
#[x_kube(validation = Rule::new("!has(self.replicas) || !has(self.weight)")
    .message("a pool with replicas has no weight"))]
pub struct NodePoolSpec {
    /// What each node of the pool is made from.
    pub template: NodeClaimTemplate,
    /// How and when nodes may be disrupted of the autoscaler's own accord.
    #[serde(default)]
    #[schemars(extend("default" = {"consolidateAfter": "0s"}))]
    pub disruption: Disruption,
    /// What the nodes of the pool may have together, at most. The resource `nodes` counts them.
    #[serde(default, skip_serializing_if = "Quantities::is_empty")]
    pub limits: Quantities,
    /// Pools with a greater weight are tried first; none counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub weight: Option<i32>,
    /// Keeps this many nodes, whatever pods ask for (alpha). A pool with it is static, one without
    /// dynamic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i64>,
}

/// What a node is made from: a NodeClaim without a name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplate {
    /// Labels and annotations of the claims and their nodes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub metadata: TemplateMetadata,
    /// What the claims ask for.
    pub spec: NodeClaimTemplateSpec,
}

/// Labels and annotations that a NodePool gives. Empty and absent mean the same, but not to
/// [`super::hash`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMetadata {
    /// Labels. Each also counts as a requirement for just this value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::labels")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "granular"))]
    pub annotations: Option<BTreeMap<String, String>>,
}

impl TemplateMetadata {
    /// The labels, however few.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        self.labels.as_ref().unwrap_or(&NOTHING)
    }

    /// The annotations, however few.
    pub fn annotations(&self) -> &BTreeMap<String, String> {
        self.annotations.as_ref().unwrap_or(&NOTHING)
    }
}

static NOTHING: BTreeMap<String, String> = BTreeMap::new();

/// What the claims of a NodePool ask for. Empty and absent taints mean the same, but not to
/// [`super::hash`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    /// The object that says how nodes are made. Its group and kind cannot change.
    #[schemars(schema_with = "schema::pool_class")]
    pub node_class_ref: NodeClassRef,
    /// What labels a node must have.
    #[schemars(schema_with = "schema::pool_requirements")]
    pub requirements: Vec<Requirement>,
    /// Taints that nodes keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub taints: Option<Vec<Taint>>,
    /// Taints that nodes start with and that others take away, once their part is ready. Pods need
    /// not tolerate them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub startup_taints: Option<Vec<Taint>>,
    /// How old a node may get, or `Never`. Read it with [`super::duration::lifetime`].
    #[serde(default = "month")]
    #[schemars(regex(pattern = schema::LIFETIME))]
    pub expire_after: String,
    /// How long a deleted node may take to drain before its pods go anyway. Read it with
    /// [`super::duration::duration`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub termination_grace_period: Option<String>,
}

impl NodeClaimTemplateSpec {
    /// The taints, however few.
    pub fn taints(&self) -> &[Taint] {
        self.taints.as_deref().unwrap_or_default()
    }

    /// The startup taints, however few.
    pub fn startup_taints(&self) -> &[Taint] {
        self.startup_taints.as_deref().unwrap_or_default()
    }
}

impl Default for NodeClaimTemplateSpec {
    fn default() -> Self {
        Self {
            node_class_ref: NodeClassRef::default(),
            requirements: Vec::new(),
            taints: None,
            startup_taints: None,
            expire_after: month(),
            termination_grace_period: None,
        }
    }
}

/// How and when nodes may be disrupted of the autoscaler's own accord.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// How long a node must have been left alone by pods before it may be consolidated, or `Never`.
    /// Read it with [`super::duration::lifetime`].
    #[serde(default = "at_once")]
    #[schemars(regex(pattern = schema::LIFETIME))]
    pub consolidate_after: String,
    /// Which nodes may be consolidated.
    #[serde(default)]
    pub consolidation_policy: ConsolidationPolicy,
    /// How many nodes may be disrupted at a time. The strictest budget that is active counts.
    #[serde(default = "one_budget")]
    #[schemars(length(max = 50), extend("x-kubernetes-list-type" = "atomic"))]
    #[x_kube(validation = Rule::new("self.all(x, has(x.schedule) == has(x.duration))")
        .message("a budget has both schedule and duration, or neither"))]
    pub budgets: Vec<Budget>,
}

impl Default for Disruption {
    fn default() -> Self {
        Self {
            consolidate_after: at_once(),
            consolidation_policy: ConsolidationPolicy::default(),
            budgets: one_budget(),
        }
    }
}

/// Which nodes may be consolidated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ConsolidationPolicy {
    /// Nodes without pods that matter.
    WhenEmpty,
    /// Empty nodes, and nodes whose pods fit elsewhere for less.
    #[default]
    WhenEmptyOrUnderutilized,
    /// As before, if what is saved is worth the disruption.
    Balanced,
}

/// How many nodes may be disrupted at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["nodes"]))]
pub struct Budget {
    /// A number of nodes, or a percentage of the pool's nodes, rounded up.
    #[serde(default = "ten_percent")]
    #[schemars(regex(pattern = "^((100|[0-9]{1,2})%|[0-9]+)$"))]
    pub nodes: String,
    /// Which disruptions it bounds; all, if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), extend("x-kubernetes-list-type" = "set"))]
    pub reasons: Vec<DisruptionReason>,
    /// When it starts to be active: a cron line in UTC, or a word such as `@daily`. Always, if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(
        pattern = r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$"
    ))]
    pub schedule: Option<String>,
    /// How long it is active each time, in hours and minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"))]
    pub duration: Option<String>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            nodes: ten_percent(),
            reasons: Vec::new(),
            schedule: None,
            duration: None,
        }
    }
}

/// Why a node is disrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DisruptionReason {
    /// Its pods fit elsewhere for less.
    Underutilized,
    /// It has no pods that matter.
    Empty,
    /// It is no longer what its NodePool or class asks for.
    Drifted,
    /// It is broken.
    Unhealthy,
}

/// What is known of a NodePool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// What the pool's nodes have together.
    #[serde(
        default,
        deserialize_with = "super::condition::if_readable",
        skip_serializing_if = "Quantities::is_empty"
    )]
    pub resources: Quantities,
    /// How many nodes the pool has.
    #[serde(default, deserialize_with = "super::condition::if_readable")]
    pub nodes: i64,
    /// The generation of the class that `NodeRegistrationHealthy` speaks of.
    #[serde(
        default,
        deserialize_with = "super::condition::if_readable",
        skip_serializing_if = "Option::is_none"
    )]
    pub node_class_observed_generation: Option<i64>,
    /// Statements about the pool.
    #[serde(
        default,
        deserialize_with = "super::condition::readable",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

fn at_once() -> String {
    "0s".to_owned()
}

fn ten_percent() -> String {
    "10%".to_owned()
}

fn one_budget() -> Vec<Budget> {
    vec![Budget::default()]
}
