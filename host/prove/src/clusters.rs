//! Questions to consolidation policies: small clusters, as manifests.

use std::sync::Arc;

use longshore_api::manifests::Reader;
use longshore_core::model::ClusterObjects;
use serde_json::{Value, json};

use crate::random::Random;

/// When clusters are looked at: 2026-11-24T12:00:00Z.
pub const NOW: i64 = 1_795_521_600;
/// When nodes were made: an hour, five, two days and a month before.
const MADE: [&str; 4] = [
    "2026-11-24T11:00:00Z",
    "2026-11-24T07:00:00Z",
    "2026-11-22T12:00:00Z",
    "2026-10-25T08:00:00Z",
];
/// When pods have started: two minutes, half an hour, one and a half, and two days before.
const STARTED: [&str; 4] = [
    "2026-11-24T11:58:00Z",
    "2026-11-24T11:30:00Z",
    "2026-11-24T10:30:00Z",
    "2026-11-22T10:00:00Z",
];
const TYPES: [(&str, u32, f64); 4] = [
    ("m6i.large", 2, 0.096),
    ("m6i.xlarge", 4, 0.192),
    ("m6i.2xlarge", 8, 0.384),
    ("c7i.4xlarge", 16, 0.714),
];
/// Offerings of the catalogue: each type on demand and as spot.
pub const OFFERINGS: usize = 2 * TYPES.len();
const POOLS: [&str; 2] = ["default", "batch"];
const ZONE: &str = "us-east-1a";

/// A cluster of at most three nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    pub nodes: Vec<Node>,
    pub pods: Vec<Pod>,
    /// Of the pods of which owner a PodDisruptionBudget is.
    pub budget: Option<u8>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Positions in [`TYPES`] and [`POOLS`].
    of_type: usize,
    pool: usize,
    made: &'static str,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// Its node.
    node: usize,
    /// Which ReplicaSet made it; none for a pod without one.
    owner: Option<u8>,
    millicores: u32,
    started: &'static str,
}

/// Question `number` of a seed.
pub fn cluster(seed: u64, number: u64) -> Cluster {
    let random = &mut Random::new(seed, number);
    let nodes: Vec<Node> = (0..1 + random.below(3))
        .map(|_| Node {
            of_type: random.below(TYPES.len()),
            pool: usize::from(random.once_in(4)),
            made: random.pick(&MADE),
        })
        .collect();
    let mut pods = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let mut room = TYPES[node.of_type].1 * 1000 - 200;
        for _ in 0..random.below(4) {
            let millicores = random.pick(&[100, 250, 500, 1500]);
            if millicores > room {
                continue;
            }
            room -= millicores;
            pods.push(Pod {
                node: at,
                owner: (!random.once_in(8)).then(|| random.below(3) as u8),
                millicores,
                started: random.pick(&STARTED),
            });
        }
    }
    Cluster {
        nodes,
        pods,
        budget: random.once_in(3).then(|| random.below(3) as u8),
    }
}

impl Cluster {
    /// Clusters that are a step smaller.
    pub fn smaller(&self) -> Vec<Cluster> {
        let mut all = Vec::new();
        let mut with = |change: &dyn Fn(&mut Cluster)| {
            let mut other = self.clone();
            change(&mut other);
            if other != *self {
                all.push(other);
            }
        };
        for at in 0..self.nodes.len() {
            with(&|of| of.remove_node(at));
        }
        for at in 0..self.pods.len() {
            with(&|of| {
                of.pods.remove(at);
            });
        }
        with(&|of| of.budget = None);
        for at in 0..self.nodes.len() {
            with(&|of| of.nodes[at].pool = 0);
            with(&|of| of.nodes[at].made = MADE[2]);
        }
        for at in 0..self.pods.len() {
            with(&|of| of.pods[at].millicores = 100);
            with(&|of| of.pods[at].started = STARTED[3]);
        }
        all
    }

    /// Leaves out a node with its pods.
    pub fn remove_node(&mut self, at: usize) {
        self.nodes.remove(at);
        self.pods.retain(|pod| pod.node != at);
        let later = self.pods.iter_mut().filter(|pod| pod.node > at);
        later.for_each(|pod| pod.node -= 1);
    }

    /// The name of a node by its position.
    pub fn node_name(at: usize) -> String {
        format!("node-{at}")
    }

    /// The objects.
    pub fn world(&self) -> ClusterObjects {
        let mut reader = Reader::new();
        reader.read("cluster.json", self.text().as_bytes());
        let (mut world, _) = reader.finish();
        let types = types().to_string();
        let names = &mut world.names;
        let (catalogue, _) =
            longshore_kwok::catalogue::parse("types.json", types.as_bytes(), names);
        world.catalogue = catalogue;
        world.now = NOW;
        world
    }

    /// The manifests: `longshore plan --disrupt --snapshot` takes them.
    pub fn text(&self) -> String {
        let pools = (0..POOLS.len())
            .filter(|&pool| pool == 0 || self.nodes.iter().any(|node| node.pool == pool));
        let mut items: Vec<Value> = pools.map(|pool| pool_object(POOLS[pool])).collect();
        for (at, node) in self.nodes.iter().enumerate() {
            items.extend(node.objects(at));
        }
        for (at, pod) in self.pods.iter().enumerate() {
            items.push(pod.object(at));
        }
        if let Some(owner) = self.budget {
            items.push(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": "budget", "namespace": "shop"},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": format!("app-{owner}")}}},
                "status": {"disruptionsAllowed": 1}}));
        }
        let lines: Vec<String> = items.iter().map(Value::to_string).collect();
        let items = lines.join(",\n");
        format!("{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{items}\n]}}\n")
    }
}

/// The instance types that all questions have.
fn types() -> Value {
    let offering = |capacity_type: &str, price: f64| {
        let pinned =
            |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
        json!({"Price": price, "Available": true, "Requirements": [
            pinned("karpenter.sh/capacity-type", capacity_type), pinned("topology.kubernetes.io/zone", ZONE)]})
    };
    let one = |&(name, cpu, price): &(&str, u32, f64)| {
        json!({"name": name, "architecture": "amd64", "operatingSystems": ["linux"],
            "offerings": [offering("on-demand", price), offering("spot", price * 0.4)],
            "resources": {"cpu": cpu.to_string(), "memory": format!("{}Gi", cpu * 4), "pods": "58",
                "ephemeral-storage": "20Gi"}})
    };
    TYPES.iter().map(one).collect()
}

fn class() -> Value {
    json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"})
}

fn pool_object(name: &str) -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": {
        "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s",
            "budgets": [{"nodes": "100%"}]},
        "template": {"spec": {"nodeClassRef": class(), "requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]}}}})
}

impl Node {
    fn objects(&self, at: usize) -> [Value; 2] {
        let (of_type, cpu, _) = TYPES[self.of_type];
        let name = Cluster::node_name(at);
        let labels = json!({"karpenter.sh/nodepool": POOLS[self.pool], "karpenter.sh/registered": "true",
            "karpenter.sh/initialized": "true", "karpenter.sh/capacity-type": "on-demand",
            "topology.kubernetes.io/zone": ZONE, "kubernetes.io/hostname": name,
            "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": of_type});
        let amounts =
            json!({"cpu": cpu.to_string(), "memory": format!("{}Gi", cpu * 4), "pods": "58"});
        let created = self.made;
        let id = format!("kwok://{name}");
        let condition = |kind: &str| json!({"type": kind, "status": "True"});
        let conditions = ["Launched", "Registered", "Initialized", "Consolidatable"].map(condition);
        [
            json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": {"name": format!("claim-{at}"), "uid": format!("c-{at}"), "labels": labels,
                    "creationTimestamp": created},
                "spec": {"requirements": [], "nodeClassRef": class()},
                "status": {"providerID": id, "nodeName": name, "capacity": amounts,
                    "allocatable": amounts, "conditions": conditions}}),
            json!({"apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "uid": format!("n-{at}"), "labels": labels,
                    "creationTimestamp": created},
                "spec": {"providerID": id},
                "status": {"capacity": amounts, "allocatable": amounts, "conditions": [condition("Ready")]}}),
        ]
    }
}

impl Pod {
    fn object(&self, at: usize) -> Value {
        let app = self
            .owner
            .map_or("bare".to_owned(), |owner| format!("app-{owner}"));
        let started = self.started;
        let mut metadata = json!({"name": format!("pod-{at}"), "namespace": "shop",
            "uid": format!("p-{at}"), "labels": {"app": app}, "creationTimestamp": started});
        if self.owner.is_some() {
            metadata["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet",
                "name": app, "uid": app, "controller": true}]);
        }
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {"nodeName": Cluster::node_name(self.node), "containers": [{"name": "main",
                "image": "app", "resources": {"requests": {"cpu": format!("{}m", self.millicores),
                    "memory": "64Mi"}}}]},
            "status": {"phase": "Running", "startTime": started}})
    }
}

/// A snapshot of objects.
pub fn snapshot(world: ClusterObjects) -> longshore_core::snapshot::Snapshot {
    longshore_core::snapshot::Snapshot::new(Arc::new(world))
}
