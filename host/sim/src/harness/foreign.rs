//! Objects of another provider in the same cluster: a NodePool, NodeClaims and Nodes of a node class
//! that the daemon does not manage, and a Node of nobody. Nobody works on them, so whatever changes
//! them is the daemon.
//!
//! Everything that a controller could want to do is due there: one NodeClaim has expired, one is
//! empty, one has drifted by its hash, one never registered, one Node is not ready, one is being
//! deleted, and one has a taint of a disruption.

use serde_json::{Value, json};

use longshore_simcluster::cloud::READY_AFTER;
use longshore_simcluster::fields;
use longshore_simcluster::server::{Subresource, resources};
use longshore_simcluster::world::{ApplyError, World};

/// Label of all of them.
const FOREIGN: &str = "sim.longshore.dev/foreign";
const POOL: &str = "karpenter.sh/nodepool";
const FINALIZER: &str = "karpenter.sh/termination";
/// What their provider IDs begin with.
pub(super) const SCHEME: &str = "other://";

/// Whether an object is another provider's.
pub(super) fn is_foreign(object: &Value) -> bool {
    fields::label(object, FOREIGN).is_some()
}

/// Whether a scenario has them: every sixth has, so that the others stay what they are.
pub(super) fn are_in(seed: u64) -> bool {
    seed % 6 == 4
}

/// A NodeClaim with its Node.
struct Pair {
    name: &'static str,
    /// Of the NodeClaim's spec.
    expires: &'static str,
    /// Conditions of the NodeClaim that are True.
    is: &'static [&'static str],
    /// More about the Node.
    node: Value,
    deleted: bool,
}

fn pairs() -> [Pair; 6] {
    let pair = |name, node| Pair {
        name,
        expires: "Never",
        is: &[
            "Launched",
            "Registered",
            "Initialized",
            "Consolidatable",
            "Ready",
        ],
        node,
        deleted: false,
    };
    let disrupted = json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"});
    let never = json!({"metadata": {"annotations": {READY_AFTER: "never"}}});
    [
        pair("auto-empty", json!({})),
        Pair {
            expires: "3m",
            ..pair("auto-expired", json!({}))
        },
        Pair {
            is: &["Launched"],
            ..pair("auto-new", json!({"unregistered": true}))
        },
        pair("auto-broken", never),
        pair("auto-closed", json!({"taint": disrupted})),
        Pair {
            deleted: true,
            ..pair("auto-going", json!({}))
        },
    ]
}

fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "auto", "labels": {FOREIGN: "true"}},
        "spec": {
            "weight": 100,
            "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
            "template": {"spec": {
                "nodeClassRef": {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"},
                "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
            }},
        },
    })
}

fn claim(pair: &Pair) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": pair.name, "finalizers": [FINALIZER],
            "labels": {FOREIGN: "true", POOL: "auto", "eks.amazonaws.com/nodeclass": "default"},
            "annotations": {"karpenter.sh/nodepool-hash": "1",
                "karpenter.sh/nodepool-hash-version": "v3"},
        },
        "spec": {
            "nodeClassRef": {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"},
            "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
            "expireAfter": pair.expires,
        },
    })
}

fn amounts() -> Value {
    json!({"cpu": "2", "memory": "4Gi", "pods": "20"})
}

/// A Node that pods stay away from, but for those of DaemonSets that tolerate everything.
fn node(name: &str, more: &Value) -> Value {
    let mut taints = vec![json!({"key": "other.example.com/only", "effect": "NoSchedule"})];
    taints.extend(more.get("taint").cloned());
    let mut labels = json!({FOREIGN: "true", POOL: "auto", "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name,
        "eks.amazonaws.com/nodeclass": "default"});
    if more.get("unregistered").is_some() {
        taints.push(json!({"key": "karpenter.sh/unregistered", "effect": "NoExecute"}));
    } else {
        labels["karpenter.sh/registered"] = "true".into();
        labels["karpenter.sh/initialized"] = "true".into();
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "finalizers": [FINALIZER], "labels": labels,
            "annotations": more["metadata"]["annotations"]},
        "spec": {"providerID": format!("{SCHEME}{name}"), "taints": taints},
        "status": {"capacity": amounts(), "allocatable": amounts()},
    })
}

/// Puts them into a world.
///
/// # Errors
/// The server refuses one.
pub(super) fn begin(world: &World) -> Result<(), ApplyError> {
    world.apply_object(pool())?;
    for pair in pairs() {
        world.apply_object(claim(&pair))?;
        let key = fields::key(resources::NODE_CLAIM, "", pair.name);
        let now = world.clock.now();
        let update = world
            .server
            .update(&key, Subresource::Status, &mut |claim| {
                let status = fields::map_at(claim, "status");
                status["providerID"] = format!("{SCHEME}{}", pair.name).into();
                status["nodeName"] = pair.name.into();
                status["capacity"] = amounts();
                status["allocatable"] = amounts();
                for condition in pair.is {
                    fields::set_condition(claim, condition, "True", condition, "", now);
                }
            });
        let what = || format!("NodeClaim {}", pair.name);
        update.map_err(|refusal| ApplyError::Refused {
            what: what(),
            refusal,
        })?;
        world.apply_object(node(pair.name, &pair.node))?;
        if pair.deleted {
            world.delete("NodeClaim", "", pair.name);
            world.delete("Node", "", pair.name);
        }
    }
    // A node of nobody, which has room.
    let mut plain = node("plain", &json!({}));
    plain["spec"]["taints"] = json!([]);
    plain["metadata"] = json!({"name": "plain", "labels": {FOREIGN: "true", "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": "plain"}});
    world.apply_object(plain)
}
