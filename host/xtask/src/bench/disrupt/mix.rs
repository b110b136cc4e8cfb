//! A cluster with several NodePools, taints, volumes and affinity: three clusters of
//! `make_cluster.py`, renamed, decorated and put together. Same input, same bytes.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use serde_json::{Map, Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const NODEPOOL: &str = "karpenter.sh/nodepool";
const DRIVER: &str = "ebs.csi.aws.com";
/// Volumes that a node attaches at most.
const MAX_VOLUMES: u32 = 24;
/// Pods on a node, on average.
const PODS: u32 = 30;
/// NodePools: nodes of the second have a taint, pods of the third have volumes.
const POOLS: [&str; 3] = ["default", "batch", "stateful"];

/// Which clusters are put together.
pub struct Mix {
    /// Seed of the first; the others follow.
    pub seed: u32,
    /// Nodes of each NodePool.
    pub nodes: [u32; 3],
}

impl Mix {
    /// What tables call it.
    pub fn name(&self) -> String {
        let [a, b, c] = self.nodes;
        format!("seed {}: {a} + {b} + {c} nodes", self.seed)
    }

    /// The name of its file.
    pub fn file(&self) -> String {
        let [a, b, c] = self.nodes;
        format!("mix-{}-{a}-{b}-{c}", self.seed)
    }

    /// Arguments of `make_cluster.py` for each part.
    pub fn arguments(&self) -> [String; 3] {
        std::array::from_fn(|at| {
            let (nodes, seed) = (self.nodes[at], self.seed + 100 * at as u32);
            let paid = if at == 2 {
                " --capacity-types on-demand"
            } else {
                ""
            };
            let pods = nodes * PODS;
            format!("--profile services --nodes {nodes} --pods {pods} --seed {seed}{paid}")
        })
    }

    /// The parts as one cluster.
    pub fn mixed(&self, parts: Vec<Value>) -> anyhow::Result<Value> {
        let mut all: Vec<Value> = Vec::new();
        for (pool, part) in POOLS.into_iter().zip(parts) {
            let Value::Object(mut part) = part else {
                anyhow::bail!("a part is not a List");
            };
            let items = part.remove("items").context("a part has no items")?;
            let mut items = items.as_array().context("a part has no items")?.clone();
            if pool != POOLS[0] {
                // Classes and DaemonSets are those of the first.
                items.retain(|item| !is(item, "DaemonSet") && !is(item, "KWOKNodeClass"));
                items.iter_mut().for_each(|item| rename(item, pool));
            }
            all.extend(items);
        }
        taint(&mut all);
        let volumes = volumes(&mut all);
        all.extend(volumes);
        follow(&mut all);
        Ok(json!({"apiVersion": "v1", "kind": "List", "items": all}))
    }
}

fn is(item: &Value, kind: &str) -> bool {
    item["kind"] == kind
}

fn text<'v>(item: &'v Value, pointer: &str) -> &'v str {
    item.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

fn is_daemon(pod: &Value) -> bool {
    text(pod, "/metadata/ownerReferences/0/kind") == "DaemonSet"
}

/// The application of a pod.
fn app(pod: &Value) -> &str {
    text(pod, "/metadata/labels/app")
}

/// A number of a name, the same everywhere.
fn number_of(name: &str) -> u32 {
    let step = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    name.bytes().fold(0x811c_9dc5, step) >> 8
}

/// Gives an object of a part names of its own.
fn rename(item: &mut Value, pool: &str) {
    let name = text(item, "/metadata/name").to_owned();
    let uid = text(item, "/metadata/uid").to_owned();
    let is_pool = is(item, "NodePool");
    let is_daemon = is(item, "Pod") && is_daemon(item);
    walk(item, "", pool);
    if is_pool {
        item["metadata"]["name"] = json!(pool);
    } else if is_daemon {
        item["metadata"]["name"] = json!(format!("{pool}-{name}"));
    }
    item["metadata"]["uid"] = json!(format!("{pool}-{uid}"));
}

fn walk(value: &mut Value, key: &str, pool: &str) {
    match value {
        Value::String(text) => {
            if let Some(renamed) = renamed(text, key, pool) {
                *text = renamed;
            }
        }
        Value::Array(all) => {
            let is_pool = all.len() == 1 && key == NODEPOOL;
            all.iter_mut()
                .for_each(|one| walk(one, if is_pool { NODEPOOL } else { "" }, pool));
        }
        Value::Object(fields) => {
            // Requirements of a NodeClaim name their key beside the values.
            let of = fields.get("key").and_then(Value::as_str).map(str::to_owned);
            for (key, value) in fields {
                let key = match &of {
                    Some(of) if key == "values" => of.as_str(),
                    _ => key.as_str(),
                };
                walk(value, key, pool);
            }
        }
        _ => {}
    }
}

/// A name of nodes, NodeClaims, pods and applications with the NodePool before it.
fn renamed(text: &str, key: &str, pool: &str) -> Option<String> {
    if key == NODEPOOL {
        return Some(pool.to_owned());
    }
    for (before, after) in [
        ("run", format!("{pool}-run")),
        ("rs-run", format!("rs-{pool}-run")),
        ("node-", format!("{pool}-node-")),
        ("kwok://node-", format!("kwok://{pool}-node-")),
        ("default-", format!("{pool}-")),
    ] {
        let rest = text.strip_prefix(before);
        if let Some(rest) = rest.filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
            return Some(format!("{after}{rest}"));
        }
    }
    None
}

fn push(value: &mut Value, entry: Value) {
    match value {
        Value::Array(all) => all.push(entry),
        other => *other = json!([entry]),
    }
}

/// Nodes of the second NodePool have a taint and a label. All of its pods tolerate the taint, and
/// those of every second application ask for the label.
fn taint(items: &mut [Value]) {
    let taint = json!({"key": "dedicated", "value": POOLS[1], "effect": "NoSchedule"});
    for item in items {
        let is_pool = is(item, "NodePool") && text(item, "/metadata/name") == POOLS[1];
        if is_pool {
            let template = &mut item["spec"]["template"];
            template["metadata"] = json!({"labels": {"workload": POOLS[1]}});
            template["spec"]["taints"] = json!([taint]);
        }
        let labels = &item["metadata"]["labels"];
        if labels[NODEPOOL] == POOLS[1] {
            item["metadata"]["labels"]["workload"] = json!(POOLS[1]);
            push(&mut item["spec"]["taints"], taint.clone());
        }
        let app = app(item).to_owned();
        if is(item, "Pod") && !is_daemon(item) && app.starts_with(POOLS[1]) {
            let tolerates = json!({"key": "dedicated", "operator": "Exists"});
            push(&mut item["spec"]["tolerations"], tolerates);
            if number_of(&app).is_multiple_of(2) {
                item["spec"]["nodeSelector"]["workload"] = json!(POOLS[1]);
            }
        }
    }
}

/// Every third application of the third NodePool has a volume for each pod, in the zone of its
/// node. Returns the volumes, and what nodes attach at most.
fn volumes(items: &mut [Value]) -> Vec<Value> {
    let mut zones: BTreeMap<String, String> = BTreeMap::new();
    for node in items.iter().filter(|item| is(item, "Node")) {
        let zone = node["metadata"]["labels"][ZONE].as_str().unwrap_or("");
        zones.insert(text(node, "/metadata/name").to_owned(), zone.to_owned());
    }
    let mut made = vec![
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "gp3"}, "provisioner": DRIVER,
        "volumeBindingMode": "WaitForFirstConsumer"}),
    ];
    for item in items.iter_mut().filter(|item| is(item, "Pod")) {
        let app = app(item);
        if is_daemon(item) || !app.starts_with(POOLS[2]) || !number_of(app).is_multiple_of(3) {
            continue;
        }
        let name = text(item, "/metadata/name").to_owned();
        let zone = zones.get(text(item, "/spec/nodeName")).cloned();
        let source = json!({"persistentVolumeClaim": {"claimName": name}});
        let mut volume = Map::from_iter([("name".to_owned(), json!("data"))]);
        volume.extend(source.as_object().cloned().unwrap_or_default());
        push(&mut item["spec"]["volumes"], Value::Object(volume));
        let size = json!({"storage": "10Gi"});
        made.push(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default", "uid": format!("pvc-{name}")},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "gp3",
                "resources": {"requests": size}, "volumeName": format!("pv-{name}")},
            "status": {"phase": "Bound"}}));
        let terms = json!([{"matchExpressions": [
            {"key": ZONE, "operator": "In", "values": [zone]}]}]);
        made.push(json!({"apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": format!("pv-{name}"), "uid": format!("pv-{name}")},
            "spec": {"accessModes": ["ReadWriteOnce"], "capacity": size, "storageClassName": "gp3",
                "csi": {"driver": DRIVER, "volumeHandle": format!("vol-{name}")},
                "claimRef": {"namespace": "default", "name": name},
                "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}));
    }
    for node in zones.keys() {
        made.push(json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
            "metadata": {"name": node}, "spec": {"drivers": [{"name": DRIVER, "nodeID": node,
                "topologyKeys": [ZONE], "allocatable": {"count": MAX_VOLUMES}}]}}));
    }
    made
}

/// Some applications of the first NodePool follow others: a single pod has to be beside a pod of
/// its node, and larger applications in a zone with the largest.
fn follow(items: &mut [Value]) {
    let is_free = |pod: &Value| {
        is(pod, "Pod")
            && !is_daemon(pod)
            && app(pod).starts_with("run")
            && pod["spec"]["affinity"].is_null()
    };
    let mut pods: BTreeMap<String, u32> = BTreeMap::new();
    let mut on_node: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for pod in items.iter().filter(|item| is_free(item)) {
        *pods.entry(app(pod).to_owned()).or_default() += 1;
        let node = text(pod, "/spec/nodeName").to_owned();
        on_node.entry(node).or_default().insert(app(pod).to_owned());
    }
    let largest = pods.iter().max_by_key(|(name, pods)| (**pods, *name));
    let Some((largest, _)) = largest.map(|(name, pods)| (name.clone(), *pods)) else {
        return;
    };
    for pod in items.iter_mut().filter(|item| is_free(item)) {
        let (own, node) = (app(pod).to_owned(), text(pod, "/spec/nodeName"));
        let beside = |name: &&String| **name != own && pods[*name] > 1;
        let (other, key) = match (pods[&own], number_of(&own)) {
            (1, number) if number % 4 == 0 => (on_node[node].iter().find(beside), HOST),
            (2.., number) if number % 6 == 0 && own != largest => (Some(&largest), ZONE),
            _ => continue,
        };
        if let Some(other) = other {
            pod["spec"]["affinity"] = json!({"podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key,
                    "labelSelector": {"matchLabels": {"app": other}}}]}});
        }
    }
}
