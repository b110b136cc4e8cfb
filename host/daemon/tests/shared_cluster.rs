//! A real control plane that three providers share: EKS Auto Mode's objects, another provider's, and
//! ours. Everything that a controller does is due everywhere: nodes are empty, expired, drifted,
//! broken and on their way out. The API server's audit log has no write of ours on anything of the
//! others.
//!
//! Three minutes; `LONGSHORE_SHARED_MINUTES` says for how long else.

#![allow(clippy::print_stdout, reason = "figures, for a person that runs it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use longshore_xtask::control_plane::{ControlPlane, OUR_USER, Request};
use serde_json::{Value, json};

#[allow(dead_code, reason = "its other users need the rest")]
mod plane;

use plane::{CLASS, Daemon, Test, names, objects, until};

const TESTS: &[Test] = &[(
    "nothing_of_another_provider_is_written_in_a_shared_cluster",
    shared,
)];

fn main() {
    plane::main(Some(1), TESTS, &[]);
}

/// The other providers: what their objects are named by, and their node classes.
const OTHERS: [(&str, &str, &str); 2] = [
    ("auto", "eks.amazonaws.com", "NodeClass"),
    ("other", "karpenter.example.com", "ExampleNodeClass"),
];
const POOL: &str = "karpenter.sh/nodepool";

/// What is due for a NodeClaim of another provider and its Node.
const DUE: [&str; 8] = [
    "empty", "expired", "drifted", "broken", "closed", "going", "new", "lost",
];

fn minutes() -> u64 {
    let set = std::env::var("LONGSHORE_SHARED_MINUTES").ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// NodePool, NodeClaims and Nodes of a provider, as manifests.
fn manifests(name: &str, group: &str, kind: &str) -> Vec<Value> {
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

fn provider_id(name: &str) -> String {
    format!("example:///zone/{name}")
}

/// Their NodeClaims say what they are.
fn say_status(plane: &ControlPlane, name: &str) -> Result<()> {
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

/// Our NodePool: nodes of two CPUs with a label, which go when they are empty or old.
fn our_pool(version: &str) -> String {
    format!(
        "{CLASS}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: default}}
spec:
  disruption: {{consolidateAfter: 5s, budgets: [{{nodes: 100%}}]}}
  template:
    metadata: {{labels: {{version: {version}}}}}
    spec:
      nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}
      expireAfter: 100s
      requirements:
      - {{key: kubernetes.io/os, operator: In, values: [linux]}}
      - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}
      - {{key: karpenter.kwok.sh/instance-cpu, operator: In, values: ['2']}}
"
    )
}

/// A pod that fits another provider's nodes only.
const MISFIT: &str = "
apiVersion: v1
kind: Pod
metadata: {name: misfit, namespace: default}
spec:
  nodeSelector: {example.com/compute: auto}
  containers: [{name: c, image: pause, resources: {requests: {cpu: 100m}}}]
";

fn shared() -> Result<()> {
    let plane = ControlPlane::start("shared")?;
    let mut theirs = Vec::new();
    for (name, group, kind) in OTHERS {
        let all = manifests(name, group, kind);
        let text = all.iter().fold(String::new(), |mut text, object| {
            _ = writeln!(text, "{object}\n---");
            text
        });
        plane.apply(&text)?;
        say_status(&plane, name)?;
        for kind in ["nodeclaim", "node"] {
            let own = format!("{name}-going");
            plane.run(&["delete", kind, &own, "--wait=false"])?;
        }
        theirs.extend(all);
    }
    let theirs = Theirs::new(&theirs);
    plane.apply(&our_pool("one"))?;
    let before = versions(&plane, &theirs)?;
    let gates = ["--feature-gates", "NodeRepair=true"];
    let daemon = Daemon::start(&plane.longshore_kubeconfig(), &gates)?;
    let said = live(&plane).and_then(|()| judge(&plane, &theirs, &before));
    said.with_context(|| daemon.log().unwrap_or_default())
}

/// Ours come and go all the while: nodes drift, are empty, expire, are sick, and are removed by force.
fn live(plane: &ControlPlane) -> Result<()> {
    plane.apply(MISFIT)?;
    let apart = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [\
        {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}";
    plane.apply(&plane::deployment("web", 4, apart))?;
    until("our pods run", || {
        let running = plane::words(
            plane,
            "pods",
            "{.items[?(@.status.phase=='Running')].metadata.name}",
        )?;
        Ok(running
            .iter()
            .filter(|name| name.starts_with("web-"))
            .count()
            == 4)
    })?;
    until("the pod that fits another provider only is told so", || {
        let events = objects(plane, "events", &["--namespace", "default"])?;
        Ok(events.iter().any(|event| {
            let about = &event["involvedObject"]["name"];
            let message = event["message"].as_str().unwrap_or_default();
            about == "misfit" && message.contains("of another provider")
        }))
    })?;
    let end = Instant::now() + Duration::from_secs(60 * minutes());
    for round in 0.. {
        if Instant::now() >= end {
            break;
        }
        let replicas = format!("--replicas={}", [4, 1, 3, 0][round % 4]);
        plane.run(&["scale", "deployment", "web", &replicas])?;
        if round % 4 == 1 {
            plane.apply(&our_pool(&format!("v{round}")))?;
        }
        if round % 4 == 2 {
            sicken(plane)?;
        }
        std::thread::sleep(Duration::from_secs(20).min(end - Instant::now()));
    }
    Ok(())
}

/// A node of ours and one of each other provider are unhealthy by the words of our cloud.
fn sicken(plane: &ControlPlane) -> Result<()> {
    let nodes = names(plane, "nodes")?;
    let ours = nodes.iter().find(|node| node.starts_with("kwok-"));
    let theirs = OTHERS.map(|(name, ..)| format!("{name}-empty"));
    for node in ours.into_iter().chain(&theirs) {
        let now = k8s_openapi::jiff::Timestamp::now()
            .strftime("%FT%TZ")
            .to_string();
        let sick = json!({"type": "KWOKUnhealthy", "status": "True", "reason": "Test",
            "lastTransitionTime": now});
        let patch = json!({"status": {"conditions": [sick]}}).to_string();
        let args = [
            "patch",
            "node",
            node,
            "--subresource=status",
            "--type=strategic",
        ];
        // It may be gone by now.
        _ = plane.run(&[&args[..], &["--patch", &patch]].concat());
    }
    Ok(())
}

/// Names of other providers' objects by resource.
struct Theirs(BTreeMap<&'static str, BTreeSet<String>>);

impl Theirs {
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

    fn has(&self, resource: &str, name: &str) -> bool {
        let resource = resource.split('/').next().unwrap_or_default();
        self.0.get(resource).is_some_and(|all| all.contains(name))
    }
}

/// Versions of their NodePools and NodeClaims, which nobody else writes.
fn versions(plane: &ControlPlane, theirs: &Theirs) -> Result<BTreeMap<String, String>> {
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

fn judge(plane: &ControlPlane, theirs: &Theirs, before: &BTreeMap<String, String>) -> Result<()> {
    let requests = plane.requests()?;
    let ours = requests.iter().filter(|request| request.user == OUR_USER);
    let writes: Vec<&Request> = ours.filter(|request| request.is_write()).collect();
    let on_theirs: Vec<String> = writes
        .iter()
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
    let told = objects(plane, "events", &["--all-namespaces"])?;
    let about = |event: &Value| {
        let about = &event["involvedObject"];
        let text = |field: &str| about[field].as_str().unwrap_or_default();
        let ours = event["reportingComponent"] == "karpenter"
            || event["source"]["component"] == "karpenter";
        let resource = format!("{}s", text("kind").to_lowercase());
        ours && resource != "pods" && theirs.has(&resource, text("name"))
    };
    let told: Vec<String> = told
        .iter()
        .filter(|event| about(event))
        .map(Value::to_string)
        .collect();
    ensure!(told.is_empty(), "Events about others: {told:#?}");
    // The daemon did all of that with its own.
    let did = |verb: &str, resource: &str| {
        let of = |request: &&&Request| request.verb == verb && request.resource == resource;
        writes
            .iter()
            .filter(of)
            .filter(|request| request.changed())
            .count()
    };
    let (made, deleted) = (did("create", "nodeclaims"), did("delete", "nodeclaims"));
    let (patched, evicted) = (did("patch", "nodes"), did("create", "pods/eviction"));
    println!(
        "{} writes of ours: {made} NodeClaims made and {deleted} deleted, {patched} patches of Nodes, \
         {evicted} evictions; none on {} objects of others",
        writes.len(),
        theirs.0.values().map(BTreeSet::len).sum::<usize>()
    );
    ensure!(
        made >= 6 && deleted >= 4 && patched >= 10,
        "hardly anything was done: {made}, {deleted}, {patched}"
    );
    Ok(())
}
