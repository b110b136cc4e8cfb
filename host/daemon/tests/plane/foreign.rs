//! Objects of other providers in a cluster that is shared with ours: all that a controller does is due
//! for them. The API server's audit log says whether anything of ours wrote one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Result, ensure};
use longshore_xtask::control_plane::{ControlPlane, OUR_USER};
use serde_json::{Value, json};

use crate::plane::objects;

/// The other providers: what their objects are named by, and their node classes.
pub const OTHERS: [(&str, &str, &str); 2] = [
    ("auto", "eks.amazonaws.com", "NodeClass"),
    ("other", "karpenter.example.com", "ExampleNodeClass"),
];
const POOL: &str = "karpenter.sh/nodepool";

/// What is due for a NodeClaim of another provider and its Node.
const DUE: [&str; 8] = [
    "empty", "expired", "drifted", "broken", "closed", "going", "new", "lost",
];

/// NodePool, NodeClaims and Nodes of a provider, as manifests.
fn manifests(
    (name, group, kind): (&str, &str, &str),
    provider_id: &dyn Fn(&str) -> String,
) -> Vec<Value> {
    let class = json!({"group": group, "kind": kind, "name": "default"});
    let linux = json!([{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]);
    let mut all = vec![json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "weight": 100,
            "disruption": {"consolidateAfter": "0s", "consolidationPolicy": "WhenEmpty",
                "budgets": [{"nodes": "100%"}]},
            "template": {
                "metadata": {"labels": {"example.com/compute": name}},
                "spec": {"nodeClassRef": class, "requirements": linux},
            },
        },
    })];
    for due in DUE {
        let own = format!("{name}-{due}");
        let class_label = format!("{group}/{}", kind.to_lowercase());
        let mut labels = json!({POOL: name, "example.com/compute": name});
        labels[class_label] = "default".into();
        all.push(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {
                "name": own, "labels": labels, "finalizers": ["karpenter.sh/termination"],
                "annotations": {
                    "karpenter.sh/nodepool-hash": if due == "drifted" { "1" } else { "2" },
                    "karpenter.sh/nodepool-hash-version": "v3",
                },
            },
            "spec": {"nodeClassRef": class, "requirements": linux,
                "expireAfter": if due == "expired" { "20s" } else { "Never" }},
        }));
        if due == "lost" {
            continue;
        }
        let mut taints = vec![json!({"key": "example.com/only", "effect": "NoSchedule"})];
        match due {
            "closed" => {
                taints.push(json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}))
            }
            "new" => {
                taints.push(json!({"key": "karpenter.sh/unregistered", "effect": "NoExecute"}))
            }
            _ => {}
        }
        let mut annotations = json!({});
        if due != "broken" {
            annotations["kwok.x-k8s.io/node"] = "fake".into();
        }
        let mut node_labels = labels.clone();
        node_labels["kubernetes.io/hostname"] = own.clone().into();
        node_labels["kubernetes.io/os"] = "linux".into();
        node_labels["kubernetes.io/arch"] = "amd64".into();
        if due != "new" {
            node_labels["karpenter.sh/registered"] = "true".into();
            node_labels["karpenter.sh/initialized"] = "true".into();
        }
        all.push(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": own, "labels": node_labels, "annotations": annotations,
                "finalizers": ["karpenter.sh/termination"]},
            "spec": {"providerID": provider_id(&own), "taints": taints},
        }));
        if due == "going" {
            all.push(json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("on-{own}"), "namespace": "default"},
                "spec": {"nodeName": own, "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "c", "image": "pause"}]},
            }));
        }
    }
    all
}

/// Their NodeClaims say what they are.
fn say_status(
    plane: &ControlPlane,
    name: &str,
    provider_id: &dyn Fn(&str) -> String,
) -> Result<()> {
    for due in DUE {
        let own = format!("{name}-{due}");
        let now = k8s_openapi::jiff::Timestamp::now()
            .strftime("%FT%TZ")
            .to_string();
        let mut is = vec!["Launched"];
        if !["new", "lost"].contains(&due) {
            is.extend(["Registered", "Initialized", "Consolidatable", "Ready"]);
        }
        let conditions: Vec<Value> = is
            .iter()
            .map(|kind| {
                json!({"type": kind, "status": "True", "reason": kind, "message": "",
                    "lastTransitionTime": now})
            })
            .collect();
        let node = if due == "lost" { "" } else { &own };
        let patch = json!({"status": {"providerID": provider_id(&own), "nodeName": node,
            "capacity": {"cpu": "4", "memory": "8Gi"}, "conditions": conditions}});
        let patch = patch.to_string();
        let args = [
            "patch",
            "nodeclaim",
            &own,
            "--subresource=status",
            "--type=merge",
        ];
        plane.run(&[&args[..], &["--patch", &patch]].concat())?;
    }
    Ok(())
}

/// Makes all of them. `provider_id` says the provider ID of a node.
pub fn apply(plane: &ControlPlane, provider_id: impl Fn(&str) -> String) -> Result<Theirs> {
    let mut theirs = Vec::new();
    for other in OTHERS {
        let all = manifests(other, &provider_id);
        let text = all.iter().fold(String::new(), |mut text, object| {
            _ = writeln!(text, "{object}\n---");
            text
        });
        plane.apply(&text)?;
        say_status(plane, other.0, &provider_id)?;
        for kind in ["nodeclaim", "node"] {
            let own = format!("{}-going", other.0);
            plane.run(&["delete", kind, &own, "--wait=false"])?;
        }
        theirs.extend(all);
    }
    Ok(Theirs::new(&theirs))
}

/// Names of other providers' objects by resource.
pub struct Theirs(BTreeMap<&'static str, BTreeSet<String>>);

impl Theirs {
    pub fn count(&self) -> usize {
        self.0.values().map(BTreeSet::len).sum()
    }

    fn new(all: &[Value]) -> Self {
        let mut names: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for object in all {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let (resource, name) = match object["kind"].as_str() {
                Some("NodePool") => ("nodepools", name.to_owned()),
                Some("NodeClaim") => ("nodeclaims", name.to_owned()),
                Some("Node") => ("nodes", name.to_owned()),
                _ => ("pods", format!("default/{name}")),
            };
            names.entry(resource).or_default().insert(name);
        }
        Theirs(names)
    }

    /// Whether an object is one of them.
    pub fn has(&self, resource: &str, name: &str) -> bool {
        let resource = resource.split('/').next().unwrap_or_default();
        self.0.get(resource).is_some_and(|all| all.contains(name))
    }
}

/// Versions of their NodePools and NodeClaims. Their own controllers do not run, so that none of
/// these changes.
pub fn versions(plane: &ControlPlane, theirs: &Theirs) -> Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    for resource in ["nodepools", "nodeclaims"] {
        for object in objects(plane, resource, &[])? {
            let text = |field: &str| {
                object["metadata"][field]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            if theirs.has(resource, &text("name")) {
                all.insert(
                    format!("{resource}/{}", text("name")),
                    text("resourceVersion"),
                );
            }
        }
    }
    Ok(all)
}

/// Nothing of ours has written one of them, and they are as they were `before`.
pub fn none_written(
    plane: &ControlPlane,
    theirs: &Theirs,
    before: &BTreeMap<String, String>,
) -> Result<()> {
    let requests = plane.requests()?;
    let writes = requests
        .iter()
        .filter(|request| request.user == OUR_USER && request.is_write());
    let on_theirs: Vec<String> = writes
        .filter(|request| theirs.has(&request.resource, &request.object))
        .map(|request| {
            format!(
                "{} {} {} {}",
                request.at, request.verb, request.resource, request.object
            )
        })
        .collect();
    ensure!(
        on_theirs.is_empty(),
        "written of other providers:\n{}",
        on_theirs.join("\n")
    );
    let after = versions(plane, theirs)?;
    ensure!(*before == after, "changed: {before:#?} became {after:#?}");
    Ok(())
}
