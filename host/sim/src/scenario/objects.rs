//! Workloads and NodePools of a scenario as Kubernetes objects.

use std::time::Duration;

use longshore_api::labels::MOVE_COST;
use serde_json::{Map, Value, json};

use super::acts::joined;
use longshore_simcluster::actors::kubelet::{RUNS_FOR, START_AFTER, STOP_AFTER};

/// Devices that `gpus` asks for.
pub const GPU: &str = "nvidia.com/gpu";
const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const CAPACITY: &str = "karpenter.sh/capacity-type";
const ARCH: &str = "kubernetes.io/arch";

/// Pods of one sort, and what keeps up their number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// Name, also the value of the label `app`.
    pub name: String,
    pub namespace: String,
    /// Requests of its one container, by resource.
    pub requests: Vec<(String, String)>,
    /// Zones that it may run in; any if empty.
    pub zones: Vec<String>,
    /// The capacity type that it needs.
    pub capacity_type: Option<String>,
    /// The architecture that it needs.
    pub arch: Option<String>,
    /// Spread over zones, over nodes.
    pub spread: (bool, bool),
    /// `maxUnavailable` of its disruption budget.
    pub budget: Option<String>,
    /// Grace period.
    pub grace: Option<Duration>,
    /// From binding to ready.
    pub starts_after: Option<Duration>,
    /// From SIGTERM to its end.
    pub stops_after: Option<Duration>,
}

impl Workload {
    /// As a Deployment of so many replicas, with its disruption budget.
    pub fn deployment(&self, replicas: u32) -> Vec<Value> {
        let labels = json!({"app": self.name});
        let mut all = vec![json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": self.metadata(),
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": self.template(None)},
        })];
        if let Some(budget) = &self.budget {
            let most = budget
                .parse::<u32>()
                .map_or_else(|_| json!(budget), |count| json!(count));
            all.push(json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": self.metadata(),
                "spec": {"maxUnavailable": most, "selector": {"matchLabels": labels}},
            }));
        }
        all
    }

    /// As a DaemonSet, which runs wherever it can.
    pub fn daemon_set(&self) -> Value {
        let mut template = self.template(None);
        template["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": self.metadata(),
            "spec": {"selector": {"matchLabels": {"app": self.name}}, "template": template},
        })
    }

    /// As a Job of so many pods, all at once, that each run for a while. It goes ten minutes after
    /// its end.
    pub fn job(&self, name: &str, pods: u32, runs_for: Duration) -> Value {
        let mut metadata = self.metadata();
        metadata["name"] = name.into();
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
            "spec": {
                "parallelism": pods, "completions": pods, "backoffLimit": 10_000, "ttlSecondsAfterFinished": 600,
                "template": self.template(Some(runs_for)),
            },
        })
    }

    fn metadata(&self) -> Value {
        json!({"name": self.name, "namespace": self.namespace})
    }

    fn template(&self, runs_for: Option<Duration>) -> Value {
        let mut annotations = Map::new();
        let times = [
            (START_AFTER, self.starts_after),
            (STOP_AFTER, self.stops_after),
            (RUNS_FOR, runs_for),
        ];
        for (key, time) in times {
            if let Some(time) = time {
                annotations.insert(key.into(), duration(time).into());
            }
        }
        let requests: Map<String, Value> = self
            .requests
            .iter()
            .map(|(k, v)| (k.clone(), v.clone().into()))
            .collect();
        let mut resources = json!({"requests": requests});
        if let Some(gpus) = requests.get(GPU) {
            // Devices are not overcommitted: an API server wants a limit as large as the request.
            resources["limits"] = json!({GPU: gpus});
        }
        let container = json!({"name": "main", "image": "scenario:1", "resources": resources});
        let mut spec = json!({"containers": [container]});
        if let Some(grace) = self.grace {
            spec["terminationGracePeriodSeconds"] = grace.as_secs().into();
        }
        if runs_for.is_some() {
            spec["restartPolicy"] = "Never".into();
        }
        let own = [(CAPACITY, &self.capacity_type), (ARCH, &self.arch)];
        for (key, value) in own {
            if let Some(value) = value {
                spec["nodeSelector"][key] = value.clone().into();
            }
        }
        if !self.zones.is_empty() {
            let term = json!({"matchExpressions": [{"key": ZONE, "operator": "In", "values": self.zones}]});
            spec["affinity"] = json!({"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
        }
        let (zones, hosts) = self.spread;
        let spread = |key: &str| {
            json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
                   "labelSelector": {"matchLabels": {"app": self.name}}})
        };
        let rules: Vec<Value> = [(zones, ZONE), (hosts, HOST)]
            .iter()
            .filter(|r| r.0)
            .map(|r| spread(r.1))
            .collect();
        if !rules.is_empty() {
            spec["topologySpreadConstraints"] = rules.into();
        }
        let mut template = json!({"metadata": {"labels": {"app": self.name}}, "spec": spec});
        if !annotations.is_empty() {
            template["metadata"]["annotations"] = annotations.into();
        }
        template
    }
}

/// A NodePool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pool {
    pub name: String,
    /// Its nodes come from EC2.
    pub on_ec2: bool,
    /// Larger is asked first.
    pub weight: Option<u64>,
    /// `limits`, by resource.
    pub limits: Vec<(String, String)>,
    /// Nodes go after so long.
    pub expires: Option<Duration>,
    /// How long they may take to go.
    pub grace: Option<Duration>,
    /// What nodes must be: label and its values.
    pub requirements: Vec<(String, Vec<String>)>,
    /// Labels of nodes.
    pub labels: Vec<(String, String)>,
    /// Taints of nodes: key, value, effect.
    pub taints: Vec<(String, String, String)>,
    /// `consolidationPolicy`.
    pub consolidation: Option<String>,
    /// `consolidateAfter`, as a NodePool has it.
    pub consolidate_after: Option<String>,
    /// `budgets`; empty for the default, 10 % of the nodes.
    pub budgets: Vec<Value>,
    /// What one moved pod must save, as an annotation.
    pub move_cost: Option<String>,
}

impl Pool {
    pub fn object(&self) -> Value {
        let requirement = |(key, values): &(String, Vec<String>)| json!({"key": key, "operator": "In", "values": values});
        let mut requirements: Vec<Value> = self.requirements.iter().map(requirement).collect();
        requirements.push(requirement(&(
            "kubernetes.io/os".to_owned(),
            vec!["linux".to_owned()],
        )));
        let (group, kind) = match self.on_ec2 {
            true => ("karpenter.k8s.aws", "EC2NodeClass"),
            false => ("karpenter.kwok.sh", "KWOKNodeClass"),
        };
        let mut template = json!({
            "nodeClassRef": {"group": group, "kind": kind, "name": "default"},
            "requirements": requirements,
            "expireAfter": self.expires.map_or("Never".to_owned(), duration),
        });
        if let Some(grace) = self.grace {
            template["terminationGracePeriod"] = duration(grace).into();
        }
        let taint = |(key, value, effect): &(String, String, String)| json!({"key": key, "value": value, "effect": effect});
        if !self.taints.is_empty() {
            template["taints"] = self.taints.iter().map(taint).collect();
        }
        let mut spec = json!({"template": {"spec": template}});
        if !self.labels.is_empty() {
            spec["template"]["metadata"]["labels"] = pairs(&self.labels);
        }
        if let Some(weight) = self.weight {
            spec["weight"] = weight.into();
        }
        if !self.limits.is_empty() {
            spec["limits"] = pairs(&self.limits);
        }
        if let Some(policy) = &self.consolidation {
            spec["disruption"]["consolidationPolicy"] = policy.clone().into();
        }
        if let Some(after) = &self.consolidate_after {
            spec["disruption"]["consolidateAfter"] = after.clone().into();
        }
        if !self.budgets.is_empty() {
            spec["disruption"]["budgets"] = self.budgets.clone().into();
        }
        let mut metadata = json!({"name": self.name});
        if let Some(cost) = &self.move_cost {
            metadata["annotations"][MOVE_COST] = cost.clone().into();
        }
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": metadata, "spec": spec})
    }
}

/// The class of all NodePools that the file itself describes.
pub fn node_class(on_ec2: bool) -> Value {
    if on_ec2 {
        // What the emulator's regions have; clusters of other names have their own manifests.
        let discovered = json!([{"tags": {"karpenter.sh/discovery": "*"}}]);
        return json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "default"},
            "spec": {
                "role": "node",
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": discovered,
                "securityGroupSelectorTerms": discovered,
            },
        });
    }
    json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}, "spec": {},
    })
}

fn pairs(pairs: &[(String, String)]) -> Value {
    Value::Object(
        pairs
            .iter()
            .map(|(key, value)| (key.clone(), value.clone().into()))
            .collect(),
    )
}

/// As Kubernetes has it: hours are the largest unit.
fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    joined(&[
        (seconds / 3600, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ])
}
