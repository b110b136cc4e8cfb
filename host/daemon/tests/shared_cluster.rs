//! A real control plane that three providers share: EKS Auto Mode's objects, another provider's, and
//! ours. Everything that a controller does is due everywhere: nodes are empty, expired, drifted,
//! broken and on their way out. The API server's audit log has no write of ours on anything of the
//! others.
//!
//! Three minutes; `LONGSHORE_SHARED_MINUTES` says for how long else.

#![allow(clippy::print_stdout, reason = "figures, for a person that runs it")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use longshore_xtask::control_plane::{ControlPlane, OUR_USER, Request};
use serde_json::{Value, json};

#[path = "plane/foreign.rs"]
mod foreign;

use crate::plane::{self, CLASS, Daemon, Suite, Test, names, objects, until};
use foreign::{OTHERS, Theirs, versions};

const TESTS: &[Test] = &[(
    "nothing_of_another_provider_is_written_in_a_shared_cluster",
    shared,
)];

pub fn suite() -> Suite {
    Suite::new("shared_cluster", Some(1), TESTS, &[])
}

fn minutes() -> u64 {
    let set = std::env::var("LONGSHORE_SHARED_MINUTES").ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(3)
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
    let theirs = foreign::apply(&plane, |name| format!("example:///zone/{name}"))?;
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

fn judge(plane: &ControlPlane, theirs: &Theirs, before: &BTreeMap<String, String>) -> Result<()> {
    let requests = plane.requests()?;
    let ours = requests.iter().filter(|request| request.user == OUR_USER);
    let writes: Vec<&Request> = ours.filter(|request| request.is_write()).collect();
    foreign::none_written(plane, theirs, before)?;
    let events = objects(plane, "events", &["--all-namespaces"])?;
    let about = |event: &Value| {
        let about = &event["involvedObject"];
        let text = |field: &str| about[field].as_str().unwrap_or_default();
        let ours = event["reportingComponent"] == "karpenter"
            || event["source"]["component"] == "karpenter";
        let resource = format!("{}s", text("kind").to_lowercase());
        ours && resource != "pods" && theirs.has(&resource, text("name"))
    };
    let events: Vec<String> = events
        .iter()
        .filter(|event| about(event))
        .map(Value::to_string)
        .collect();
    ensure!(events.is_empty(), "Events about others: {events:#?}");
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
        theirs.count()
    );
    ensure!(
        made >= 6 && deleted >= 4 && patched >= 10,
        "hardly anything was done: {made}, {deleted}, {patched}"
    );
    Ok(())
}
