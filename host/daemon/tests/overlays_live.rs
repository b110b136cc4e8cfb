//! NodeOverlays in the daemon on a real control plane: what is bought with them, and what their
//! status says.

use anyhow::{Result, ensure};
use longshore_xtask::control_plane::ControlPlane;

use crate::plane::{CLASS, Daemon, Suite, deployment, get, names, objects, running, stays, until};

pub fn suite() -> Suite {
    Suite::new(
        "overlays_live",
        Some(2),
        &[
            ("an_overlay_changes_what_is_bought_and_says_so", prices),
            ("an_overlay_adds_a_resource_that_pods_ask_for", resources),
        ],
        &[],
    )
}

/// Types of two CPUs: the first is the cheapest.
const TYPES: [&str; 2] = ["c-2x-amd64-linux", "m-2x-amd64-linux"];
const GATE: [&str; 2] = ["--feature-gates", "NodeOverlay=true"];

fn pool() -> String {
    let class = "{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}";
    let types = TYPES.join(", ");
    format!(
        "{CLASS}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: default}}
spec:
  disruption: {{consolidateAfter: Never}}
  template:
    spec:
      nodeClassRef: {class}
      requirements:
      - {{key: node.kubernetes.io/instance-type, operator: In, values: [{types}]}}
"
    )
}

/// An overlay of a type, with a line of its spec.
fn overlay(name: &str, of: &str, line: &str) -> String {
    format!(
        "
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {{name: {name}}}
spec:
  requirements: [{{key: node.kubernetes.io/instance-type, operator: In, values: [{of}]}}]
  {line}
"
    )
}

/// Waits until a condition of an overlay has this status, reason and message.
fn says(plane: &ControlPlane, name: &str, of: &str, expected: [&str; 3]) -> Result<()> {
    let what = format!("nodeoverlay/{name}");
    let said = || {
        let field = |field: &str| {
            let path = format!("{{.status.conditions[?(@.type=='{of}')].{field}}}");
            get(plane, &what, &path)
        };
        anyhow::Ok([field("status")?, field("reason")?, field("message")?])
    };
    until(&format!("{of} of {what} is {expected:?}"), || {
        Ok(said()? == expected)
    })
}

/// Instance types of all nodes, sorted.
fn types(plane: &ControlPlane) -> Result<Vec<String>> {
    let nodes = objects(plane, "nodes", &[])?;
    let of = |node: &serde_json::Value| {
        let labels = &node["metadata"]["labels"];
        let kind = labels["node.kubernetes.io/instance-type"].as_str();
        kind.unwrap_or_default().to_owned()
    };
    let mut types: Vec<String> = nodes.iter().map(of).collect();
    types.sort();
    Ok(types)
}

fn prices() -> Result<()> {
    let plane = ControlPlane::start("overlay-prices")?;
    plane.apply(&pool())?;
    let daemon = Daemon::start(&plane.longshore_kubeconfig(), &GATE)?;
    plane.apply(&deployment("before", 2, ""))?;
    until("2 pods run", || Ok(running(&plane)? == 2))?;
    let [cheap, other] = TYPES;
    ensure!(types(&plane)? == [cheap], "bought {:?}", types(&plane)?);

    plane.apply(&overlay("dear", cheap, "price: \"5.0\""))?;
    says(&plane, "dear", "Ready", ["True", "Ready", ""])?;
    let valid = ["True", "ValidationSucceeded", ""];
    says(&plane, "dear", "ValidationSucceeded", valid)?;
    plane.apply(&deployment("after", 2, ""))?;
    until("4 pods run", || Ok(running(&plane)? == 4))?;
    let bought = types(&plane)?;
    ensure!(bought == [cheap, other], "bought {bought:?}");
    let claims = objects(&plane, "nodeclaims", &[])?;
    let marked = claims.iter().filter(|claim| {
        claim["metadata"]["annotations"]["karpenter.sh/price-overlay-applied"] == "true"
    });
    ensure!(marked.count() == 1, "of {claims:?}");

    // Of two of one weight, the later in the alphabet counts.
    plane.apply(&overlay("clash", cheap, "price: \"0.0001\""))?;
    let conflict = ["False", "Conflict", "conflict with another overlay"];
    says(&plane, "clash", "ValidationSucceeded", conflict)?;
    let unready = ["False", "UnhealthyDependents", "ValidationSucceeded=False"];
    says(&plane, "clash", "Ready", unready)?;
    // The definition lets it through.
    let gpu = "priceAdjustment: \"+1%\"";
    let text = overlay("wrong", "a b", gpu);
    plane.apply(&text)?;
    let wrong = "spec.requirements[0].values: `a b` is not a label value; at most 63 letters, \
                 digits, `-`, `_` and `.`, first and last a letter or digit";
    says(
        &plane,
        "wrong",
        "ValidationSucceeded",
        ["False", "RuntimeValidation", wrong],
    )?;
    says(&plane, "dear", "Ready", ["True", "Ready", ""])?;

    let written = || -> Result<usize> {
        let requests = plane.requests()?;
        let writes = requests.iter();
        let writes = writes.filter(|one| one.resource == "nodeoverlays/status" && one.changed());
        Ok(writes.count())
    };
    let before = written()?;
    ensure!(before == 3, "{before} writes say what became of 3 overlays");
    plane.apply(&deployment("more", 2, ""))?;
    until("6 pods run", || Ok(running(&plane)? == 6))?;
    let bought = types(&plane)?;
    ensure!(bought == [cheap, other, other], "bought {bought:?}");
    ensure!(written()? == before, "statuses were written again");

    plane.run(&["delete", "nodeoverlay", "dear"])?;
    says(&plane, "clash", "Ready", ["True", "Ready", ""])?;
    plane.apply(&deployment("last", 2, ""))?;
    until("8 pods run", || Ok(running(&plane)? == 8))?;
    let bought = types(&plane)?;
    ensure!(bought == [cheap, cheap, other, other], "bought {bought:?}");
    ensure!(!daemon.log()?.contains("panicked"), "{}", daemon.log()?);
    Ok(())
}

fn resources() -> Result<()> {
    let plane = ControlPlane::start("overlay-resources")?;
    plane.apply(&pool())?;
    let _daemon = Daemon::start(&plane.longshore_kubeconfig(), &GATE)?;
    let [_, other] = TYPES;
    let adds = "capacity: {example.com/fuse: \"4\"}";
    plane.apply(&overlay("fuse", other, adds))?;
    says(&plane, "fuse", "Ready", ["True", "Ready", ""])?;
    let asks = "containers: [{name: c, image: pause, resources: {limits: {example.com/fuse: 1}}}]";
    let pods = deployment("fused", 2, "");
    let at = pods.find("containers:").unwrap_or_default();
    plane.apply(&format!("{}{asks}\n", &pods[..at]))?;
    until("a node has registered", || Ok(types(&plane)? == [other]))?;
    // Its device plugin does not run yet: nothing more is bought for its pods.
    stays(15, "nothing is bought again, and nothing runs", || {
        Ok(names(&plane, "nodeclaims")?.len() == 1 && running(&plane)? == 0)
    })?;
    let claims = names(&plane, "nodeclaims")?;
    let node = names(&plane, "nodes")?.join("");
    let has = "{\"example.com/fuse\":\"4\"}";
    let status = format!("{{\"status\":{{\"capacity\":{has},\"allocatable\":{has}}}}}");
    let patch = [
        "patch",
        "node",
        &node,
        "--subresource=status",
        "--patch",
        &status,
    ];
    plane.run(&patch)?;
    until("2 pods run", || Ok(running(&plane)? == 2))?;
    let path = "{.items[*].status.conditions[?(@.type=='Initialized')].status}";
    until("the claim is initialized", || {
        Ok(get(&plane, "nodeclaims", path)? == "True")
    })?;
    ensure!(names(&plane, "nodeclaims")? == claims);
    Ok(())
}
