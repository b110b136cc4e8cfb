//! What Karpenter's own end-to-end suite asks of a controller, tried on a real control plane: its
//! specs about NodeClaims, termination, expiration, integration and chaos, each with the suite's
//! letters and number. All of them share one cluster and one daemon; each has a namespace, a
//! NodePool and a node label of its own name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use longshore_xtask::control_plane::{self, ControlPlane};
use serde_json::Value;

#[path = "regression/static_capacity.rs"]
mod static_capacity;

#[path = "regression/disruption.rs"]
mod disruption;

use crate::plane::{self, Daemon, Suite};

/// A spec by its name.
type Spec = (&'static str, fn(&Scene) -> Result<()>);

/// It waits for what takes a quarter of an hour: run only if asked for with `--ignored`.
const SLOW: Spec = ("a-node-that-never-registers-is-given-up", never_registered); // NC6

const SPECS: &[Spec] = &[
    ("a-standalone-nodeclaim-becomes-a-node", standalone), // NC1, NC3, NC4
    ("a-nodeclaim-gets-what-it-requests", requests),       // NC2
    ("a-deleted-node-takes-its-nodeclaim-along", node_deleted), // NC5
    ("a-nodeclaim-without-its-class-goes", class_missing), // NC7
    ("a-nodeclaim-of-an-unready-class-goes", class_not_ready), // NC8
    ("a-nodeclaim-without-its-instance-goes", instance_unknown), // NC9
    ("the-grace-period-ends-a-drain", termination_grace_period), // TE4
    ("a-drain-waits-for-pre-stop-hooks", pre_stop),        // TE5, TE6
    ("pods-are-drained-in-order", in_order),               // TE7
    ("an-expired-node-is-replaced", expired),              // EX1
    (
        "expired-nodes-are-replaced-within-pdbs",
        expired_with_budget,
    ), // EX2
    ("requests-of-a-limit-range-count", limit_range),      // IN1, IN2
    ("host-ports-of-daemons-count", host_ports),           // IN3
    ("a-hundred-pods-apart-get-a-node-each", one_a_node),  // IN5
    ("wrong-nodepools-are-refused", validation),           // IN6 to IN22
    ("a-node-that-is-not-ready-is-repaired", repair_not_ready), // IN23
    ("a-node-that-is-unknown-is-repaired", repair_unknown), // IN24
    ("repair-ignores-budgets", repair_ignores_budgets),    // IN25
    (
        "repair-ignores-do-not-disrupt",
        repair_ignores_do_not_disrupt,
    ), // IN26
    (
        "repair-ignores-the-grace-period",
        repair_ignores_grace_period,
    ), // IN27
    ("a-condition-of-kwok-is-repaired", repair_by_hand),
    ("repair-stops-if-many-nodes-are-unhealthy", repair_of_few),
    ("do-not-disrupt-may-end", do_not_disrupt_for), // IN28
    ("a-hundred-equal-pods-run", many_alike),       // PF1
    ("a-hundred-pods-of-many-kinds-run", many_kinds), // PF3
    ("hashes-of-another-version-are-rewritten", hashes), // DR11
    (
        "a-static-nodepool-has-its-replicas",
        static_capacity::replicas,
    ), // SC1, SC2, SC4
    ("a-limit-bounds-replicas", static_capacity::limit), // SC3
    ("empty-static-nodes-go-first", static_capacity::order), // SC5
    (
        "a-drifted-static-node-is-replaced",
        static_capacity::drifted,
    ), // SC7
    ("nodes-tainted-by-others-do-not-run-away", tainted_by_others), // CH1
];

pub fn suite() -> Suite {
    let ignored = control_plane::tests_are_ignored();
    let stage: Arc<Mutex<Option<Arc<Stage>>>> = Arc::default();
    let add = |suite: Suite, &(name, spec): &Spec, ignored: bool| {
        let stage = stage.clone();
        suite.test(name, ignored, move || {
            let stage = Stage::shared(&stage)?;
            spec(&Scene::new(stage, name)?)
        })
    };
    let specs = SPECS.iter().chain(disruption::SPECS);
    // Most of a spec is waiting.
    let suite = specs.fold(Suite::empty("regression", Some(4)), |suite, spec| {
        add(suite, spec, ignored)
    });
    // Now, for the end of the process drops nothing.
    add(suite, &SLOW, true)
        .then(move || drop(stage.lock().unwrap_or_else(PoisonError::into_inner).take()))
}

/// A cluster with its daemon.
struct Stage {
    // Ended in this order.
    daemon: Daemon,
    plane: ControlPlane,
}

impl Stage {
    fn shared(stage: &Mutex<Option<Arc<Stage>>>) -> Result<Arc<Stage>> {
        let mut stage = stage.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stage) = &*stage {
            return Ok(stage.clone());
        }
        let plane = ControlPlane::start("regression")?;
        plane.apply(plane::CLASS)?;
        let daemon = Daemon::start(
            &plane.longshore_kubeconfig(),
            &[
                "--feature-gates",
                "NodeRepair=true,StaticCapacity=true",
                // Specs of 1.14; `repair.rs` has the other way.
                "--legacy-node-repair",
            ],
        )?;
        Ok(stage.insert(Arc::new(Stage { daemon, plane })).clone())
    }
}

/// What differs between NodePools of specs, each as it stands in the manifest.
struct NodePool<'a> {
    disruption: &'a str,
    /// More of `spec`.
    spec: &'a str,
    /// What follows the labels of the template's metadata.
    labels: &'a str,
    /// More of `spec.template.spec`.
    template: &'a str,
    requirements: &'a str,
}

impl Default for NodePool<'_> {
    fn default() -> Self {
        NodePool {
            disruption: "consolidateAfter: Never, budgets: [{nodes: 100%}]",
            spec: "",
            labels: "",
            template: "",
            requirements: "",
        }
    }
}

/// What one spec sees of it.
struct Scene {
    stage: Arc<Stage>,
    /// Name of the spec, its namespace, its NodePool, and the value of label `spec` on its nodes.
    name: &'static str,
}

impl Scene {
    fn new(stage: Arc<Stage>, name: &'static str) -> Result<Self> {
        stage.plane.apply(&format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}"
        ))?;
        Ok(Self { stage, name })
    }

    /// Applies manifests in which `$` stands for the name of the spec.
    fn apply(&self, manifests: &str) -> Result<()> {
        self.stage
            .plane
            .apply(&manifests.replace('$', self.name))
            .map(drop)
    }

    /// Applies a NodePool whose nodes are not consolidated, with more of `template.spec` and more
    /// requirements.
    fn pool(&self, template: &str, requirements: &str) -> Result<()> {
        self.node_pool(&NodePool {
            template,
            requirements,
            ..NodePool::default()
        })
    }

    /// Applies a NodePool.
    fn node_pool(&self, pool: &NodePool<'_>) -> Result<()> {
        let NodePool {
            disruption,
            spec,
            labels,
            template,
            requirements,
        } = pool;
        self.apply(&format!(
            "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: $}}
spec:
  disruption: {{{disruption}}}
  {spec}
  template:
    metadata: {{labels: {{spec: $}}{labels}}}
    spec:
      nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}
      requirements:
      - {{key: kubernetes.io/os, operator: In, values: [linux]}}
      - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}
      {requirements}
      {template}
"
        ))
    }

    /// Applies a Deployment of pods for the spec's nodes, with annotations and more of the pods'
    /// spec.
    fn deployment(
        &self,
        name: &str,
        replicas: usize,
        cpu: &str,
        annotations: &str,
        more: &str,
    ) -> Result<()> {
        self.apply(&Self::deployment_of(name, replicas, cpu, annotations, more))
    }

    fn deployment_of(
        name: &str,
        replicas: usize,
        cpu: &str,
        annotations: &str,
        more: &str,
    ) -> String {
        format!(
            "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: $}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}, annotations: {{{annotations}}}}}
    spec:
      nodeSelector: {{spec: $}}
      containers: [{{name: c, image: pause, resources: {{requests: {{cpu: {cpu}}}}}}}]
      {more}
"
        )
    }

    /// Applies a NodeClaim of no NodePool, with more of its metadata and spec.
    fn claim(&self, metadata: &str, class: &str, spec: &str) -> Result<()> {
        self.apply(&format!(
            "
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {{name: $, labels: {{spec: $}}{metadata}}}
spec:
  nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: {class}}}
  requirements:
  - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}
  {spec}
"
        ))
    }

    /// Has the server refuse what a rule is about and a condition is not true of.
    fn admit(&self, rule: &str, condition: &str) -> Result<()> {
        self.apply(&format!(
            "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: $}}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{rule}]
  validations:
  - expression: \"{condition}\"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: $}}
spec: {{policyName: $, validationActions: [Deny]}}
"
        ))?;
        // Admission hears of it a moment later.
        std::thread::sleep(Duration::from_secs(3));
        Ok(())
    }

    /// Runs kubectl, in the namespace of the spec.
    fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.stage
            .plane
            .run(&[&["--namespace", self.name], args].concat())
    }

    /// Objects of a kind; nodes and NodeClaims only where they are the spec's.
    fn all(&self, kind: &str) -> Result<Vec<Value>> {
        let selector = format!("spec={}", self.name);
        let mut args = vec!["get", kind, "--output", "json"];
        if kind == "nodes" || kind == "nodeclaims" {
            args.extend(["--selector", &selector]);
        }
        let list: Value = serde_json::from_str(&self.kubectl(&args)?)?;
        Ok(list["items"].as_array().context("no List")?.clone())
    }

    fn names(&self, kind: &str) -> Result<BTreeSet<String>> {
        Ok(self.all(kind)?.iter().map(name).collect())
    }

    /// The only one of a kind.
    fn only(&self, kind: &str) -> Result<Value> {
        let mut all = self.all(kind)?;
        ensure!(all.len() == 1, "{} {kind}", all.len());
        all.pop().context("none")
    }

    /// Waits until something holds.
    fn until(&self, seconds: u64, what: &str, holds: impl FnMut() -> Result<bool>) -> Result<()> {
        plane::within(seconds, Duration::from_millis(500), what, holds)
    }

    /// Sees that something goes on to hold.
    fn stays(&self, seconds: u64, what: &str, holds: impl FnMut() -> Result<bool>) -> Result<()> {
        plane::stays(seconds, what, holds)
    }

    /// Waits until there are so many pods and all of them run; else says which do not, and why.
    fn run(&self, seconds: u64, pods: usize) -> Result<()> {
        let runs = |pod: &Value| {
            pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
        };
        let done = self.until(seconds, &format!("{pods} pods run"), || {
            let all = self.all("pods")?;
            Ok(all.len() == pods && all.iter().all(runs))
        });
        done.or_else(|error| {
            let all = self.all("pods")?;
            let others = all.iter().filter(|pod| !runs(pod)).map(|pod| {
                let why = pod["status"]["conditions"].as_array().into_iter().flatten();
                let why: Vec<&str> = why
                    .filter_map(|condition| condition["message"].as_str())
                    .collect();
                format!(
                    "{} on {} for {}: {}",
                    name(pod),
                    pod["spec"]["nodeName"],
                    pod["status"]["nominatedNodeName"],
                    why.join(" ")
                )
            });
            let log = self.stage.daemon.log()?;
            let end: Vec<&str> = log
                .lines()
                .rev()
                .filter(|line| !line.contains(" claims=0 "))
                .take(60)
                .collect();
            Err(error.context(format!(
                "{} pods;\n{}\nthe log, last line first:\n{}",
                all.len(),
                others.collect::<Vec<_>>().join("\n"),
                end.join("\n")
            )))
        })
    }

    /// Waits until the only claim is initialised.
    fn initialised(&self) -> Result<Value> {
        self.until(60, "the NodeClaim is initialised", || {
            Ok(is_true(&self.only("nodeclaims")?, "Initialized"))
        })?;
        self.only("nodeclaims")
    }

    /// Waits until neither claims nor nodes are left.
    fn gone(&self, seconds: u64) -> Result<()> {
        self.until(seconds, "NodeClaims and nodes are gone", || {
            Ok(self.all("nodeclaims")?.is_empty() && self.all("nodes")?.is_empty())
        })
    }

    /// Deletes what is expensive for the other specs.
    fn clear(&self) -> Result<()> {
        self.kubectl(&[
            "delete",
            "deployments,daemonsets,poddisruptionbudgets",
            "--all",
        ])?;
        self.kubectl(&[
            "delete",
            "nodeclaims",
            "--selector",
            &format!("spec={}", self.name),
            "--wait=false",
        ])?;
        self.gone(180)
    }
}

fn name(object: &Value) -> String {
    object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    conditions
        .iter()
        .any(|c| c["type"] == condition && c["status"] == "True")
}

fn deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn disrupted(node: &Value) -> bool {
    let taints = node["spec"]["taints"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    taints
        .iter()
        .any(|t| t["key"] == "karpenter.sh/disrupted" && t["effect"] == "NoSchedule")
}

/// Milli-units of a quantity in whole units or `m`.
fn milli(quantity: &Value) -> Result<u64> {
    let text = quantity
        .as_str()
        .with_context(|| format!("{quantity} is no quantity"))?;
    Ok(match text.strip_suffix('m') {
        Some(milli) => milli.parse()?,
        None => text.parse::<u64>()? * 1000,
    })
}

// NodeClaims

fn standalone(scene: &Scene) -> Result<()> {
    scene.claim(
        ", annotations: {custom-annotation: custom}",
        "default",
        "taints: [{key: custom-taint, effect: NoSchedule, value: custom}]",
    )?;
    let claim = scene.initialised()?;
    let node = scene.only("nodes")?;
    ensure!(
        node["metadata"]["labels"]["karpenter.sh/capacity-type"] == "on-demand",
        "{node}"
    );
    ensure!(
        node["metadata"]["annotations"]["custom-annotation"] == "custom",
        "{node}"
    );
    let taints = node["spec"]["taints"].as_array().context("no taints")?;
    ensure!(
        taints
            .iter()
            .any(|t| t["key"] == "custom-taint" && t["value"] == "custom"),
        "{node}"
    );
    let owner = &node["metadata"]["ownerReferences"][0];
    ensure!(
        owner["uid"] == claim["metadata"]["uid"] && owner["blockOwnerDeletion"] == true,
        "{node}"
    );
    scene.kubectl(&["delete", "nodeclaim", scene.name, "--wait=false"])?;
    scene.gone(60)
}

fn requests(scene: &Scene) -> Result<()> {
    scene.claim(
        "",
        "default",
        "resources: {requests: {cpu: '3', memory: 64Gi}}",
    )?;
    let claim = scene.initialised()?;
    let allocatable = &scene.only("nodes")?["status"]["allocatable"];
    ensure!(milli(&allocatable["cpu"])? >= 3000, "{allocatable}");
    ensure!(
        claim["status"]["allocatable"]["cpu"] == allocatable["cpu"],
        "{claim}"
    );
    let size = milli(&claim["status"]["capacity"]["cpu"])?;
    ensure!(size <= 16_000, "a much smaller one would do: {size}");
    scene.clear()
}

fn node_deleted(scene: &Scene) -> Result<()> {
    scene.claim("", "default", "")?;
    scene.initialised()?;
    scene.kubectl(&[
        "delete",
        "node",
        "--selector",
        &format!("spec={}", scene.name),
        "--wait=false",
    ])?;
    scene.gone(60)
}

fn never_registered(scene: &Scene) -> Result<()> {
    scene.admit(
        "{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [nodes]}",
        "!('registration' in object.metadata.labels) || object.metadata.labels.registration != \
        'fail'",
    )?;
    scene.apply(
        "
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: $, labels: {spec: $, registration: fail}}
spec:
  nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
  requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
",
    )?;
    let claims = || scene.all("nodeclaims");
    scene.until(60, "it is launched", || {
        Ok(claims()?
            .first()
            .is_some_and(|claim| is_true(claim, "Launched")))
    })?;
    let unknown = |claim: &Value, kind: &str| {
        let conditions = claim["status"]["conditions"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        conditions
            .iter()
            .any(|c| c["type"] == kind && c["status"] == "Unknown")
    };
    let begun = Instant::now();
    while let Some(claim) = claims()?.first().filter(|claim| !deleting(claim)) {
        ensure!(
            unknown(claim, "Registered") && unknown(claim, "Initialized"),
            "{}",
            claim["status"]
        );
        ensure!(
            begun.elapsed() < Duration::from_secs(17 * 60),
            "it is still there"
        );
        std::thread::sleep(Duration::from_secs(5));
    }
    ensure!(
        begun.elapsed() > Duration::from_secs(14 * 60),
        "given up after {:?}",
        begun.elapsed()
    );
    scene.gone(60)
}

fn class_missing(scene: &Scene) -> Result<()> {
    scene.claim("", "not-there", "")?;
    scene.gone(60)
}

fn class_not_ready(scene: &Scene) -> Result<()> {
    // Whoever writes another status is refused: the class stays as it is.
    scene.admit(
        "{apiGroups: [karpenter.kwok.sh], apiVersions: [v1alpha1], operations: [UPDATE], \
        resources: [kwoknodeclasses/status]}",
        "object.metadata.name != '$' || object.status.conditions.exists(c, c.type == 'Ready' && \
        c.reason == 'TestingNotReady')",
    )?;
    scene.apply(
        "{apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: $}}",
    )?;
    let status = r#"{"status":{"conditions":[{"type":"Ready","status":"False","reason":"TestingNotReady",
        "message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;
    scene.kubectl(&[
        "patch",
        "kwoknodeclass",
        scene.name,
        "--subresource=status",
        "--type=merge",
        "--patch",
        status,
    ])?;
    scene.claim("", scene.name, "")?;
    scene.gone(60)
}

fn instance_unknown(scene: &Scene) -> Result<()> {
    scene.claim("", "default", "")?;
    scene.initialised()?;
    let status = r#"{"status":{"providerID":"kwok://nobody-knows-this-one"}}"#;
    scene.kubectl(&[
        "patch",
        "nodeclaim",
        scene.name,
        "--subresource=status",
        "--type=merge",
        "--patch",
        status,
    ])?;
    // Seen twice, two minutes apart, by passes that begin two minutes apart: three may be needed.
    scene.until(420, "the NodeClaim is gone", || {
        Ok(scene.all("nodeclaims")?.is_empty())
    })
}

// Termination

fn termination_grace_period(scene: &Scene) -> Result<()> {
    scene.pool("terminationGracePeriod: 30s", "")?;
    scene.deployment(
        "web",
        1,
        "1",
        "karpenter.sh/do-not-disrupt: 'true'",
        "terminationGracePeriodSeconds: 15",
    )?;
    scene.run(60, 1)?;
    let (pod, node) = (name(&scene.only("pods")?), name(&scene.only("nodes")?));
    let begun = Instant::now();
    scene.kubectl(&[
        "delete",
        "nodeclaims",
        "--selector",
        &format!("spec={}", scene.name),
        "--wait=false",
    ])?;
    let the_node =
        || Ok::<_, anyhow::Error>(scene.all("nodes")?.into_iter().find(|n| name(n) == node));
    scene.until(3, "the node is tainted", || {
        Ok(the_node()?.is_some_and(|n| disrupted(&n)))
    })?;
    let the_pod =
        || Ok::<_, anyhow::Error>(scene.all("pods")?.into_iter().find(|p| name(p) == pod));
    // Its own grace period ends with that of the node.
    scene.stays(
        10u64.saturating_sub(begun.elapsed().as_secs()),
        "the pod stays",
        || Ok(the_pod()?.is_some_and(|p| !deleting(&p))),
    )?;
    scene.until(40, "the pod is gone", || Ok(the_pod()?.is_none()))?;
    let after = begun.elapsed();
    ensure!(
        (12..=35).contains(&after.as_secs()),
        "the pod was gone after {after:?}"
    );
    scene.until(40, "the node is gone", || Ok(the_node()?.is_none()))?;
    scene.run(60, 1)
}

fn pre_stop(scene: &Scene) -> Result<()> {
    scene.pool("terminationGracePeriod: 60s", "")?;
    // kwok runs no hooks; it is asked to take as long for the pod's end.
    let slow = "pod-delete.stage.kwok.x-k8s.io/delay: 12s";
    scene.deployment("web", 1, "1", slow, "terminationGracePeriodSeconds: 15")?;
    scene.run(60, 1)?;
    let (pod, node) = (name(&scene.only("pods")?), name(&scene.only("nodes")?));
    let begun = Instant::now();
    scene.kubectl(&[
        "delete",
        "nodeclaims",
        "--selector",
        &format!("spec={}", scene.name),
        "--wait=false",
    ])?;
    let the_node =
        || Ok::<_, anyhow::Error>(scene.all("nodes")?.into_iter().find(|n| name(n) == node));
    let the_pod =
        || Ok::<_, anyhow::Error>(scene.all("pods")?.into_iter().find(|p| name(p) == pod));
    scene.until(3, "the node is tainted", || {
        Ok(the_node()?.is_some_and(|n| disrupted(&n)))
    })?;
    scene.until(5, "the pod is asked to go", || {
        Ok(the_pod()?.is_some_and(|p| deleting(&p)))
    })?;
    scene.stays(
        8u64.saturating_sub(begun.elapsed().as_secs()),
        "the node waits for its pod",
        || Ok(the_pod()?.is_some() && the_node()?.is_some()),
    )?;
    scene.until(15, "the pod is gone", || Ok(the_pod()?.is_none()))?;
    scene.until(30, "the node is gone", || Ok(the_node()?.is_none()))?;
    scene.run(60, 1)?;
    scene.clear()
}

fn in_order(scene: &Scene) -> Result<()> {
    scene.pool("", "")?;
    let slow = "pod-delete.stage.kwok.x-k8s.io/delay: 4s";
    let daemons = |name: &str, more: &str| {
        scene.apply(&format!(
            "
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: {name}, namespace: $}}
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}, annotations: {{{slow}}}}}
    spec:
      nodeSelector: {{spec: $}}
      containers: [{{name: c, image: pause, resources: {{requests: {{cpu: 100m}}}}}}]
      {more}
"
        ))
    };
    // Pods of DaemonSets tolerate what makes nodes unschedulable, not that they are disrupted.
    daemons("second", "")?;
    daemons("fourth", "priorityClassName: system-node-critical")?;
    scene.deployment("first", 1, "100m", slow, "")?;
    scene.deployment(
        "third",
        1,
        "100m",
        slow,
        "priorityClassName: system-cluster-critical",
    )?;
    scene.run(60, 4)?;
    let node = name(&scene.only("nodes")?);
    scene.kubectl(&[
        "delete",
        "nodeclaims",
        "--selector",
        &format!("spec={}", scene.name),
        "--wait=false",
    ])?;
    let mut order: Vec<String> = Vec::new();
    scene.until(90, "the node is gone", || {
        let pods = scene.all("pods")?;
        let here: Vec<&Value> = pods
            .iter()
            .filter(|p| p["spec"]["nodeName"] == *node)
            .collect();
        let app = |pod: &Value| {
            pod["metadata"]["labels"]["app"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let leaving: BTreeSet<String> = here
            .iter()
            .filter(|p| deleting(p))
            .map(|p| app(p))
            .collect();
        ensure!(leaving.len() <= 1, "leave together: {leaving:?}");
        order.extend(
            leaving
                .into_iter()
                .filter(|one| order.last() != Some(one))
                .collect::<Vec<_>>(),
        );
        Ok(!scene.names("nodes")?.contains(&node))
    })?;
    ensure!(
        order == ["first", "second", "third", "fourth"],
        "they left in this order: {order:?}"
    );
    scene.clear()
}

// Expiration

fn expired(scene: &Scene) -> Result<()> {
    scene.pool("expireAfter: 45s", "")?;
    scene.deployment("web", 1, "1", "", "")?;
    scene.run(60, 1)?;
    let (claim, node) = (
        name(&scene.only("nodeclaims")?),
        name(&scene.only("nodes")?),
    );
    scene.until(120, "claim and node are replaced", || {
        let (claims, nodes) = (scene.names("nodeclaims")?, scene.names("nodes")?);
        Ok(!claims.contains(&claim)
            && !nodes.contains(&node)
            && !claims.is_empty()
            && !nodes.is_empty())
    })?;
    scene.run(60, 1)?;
    scene.kubectl(&["delete", "nodepool", scene.name, "--wait=false"])?;
    scene.clear()
}

fn expired_with_budget(scene: &Scene) -> Result<()> {
    scene.pool("expireAfter: 60s", "")?;
    scene.apply(
        "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: $}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
",
    )?;
    scene.deployment("web", 5, "500m", "", "")?;
    scene.run(60, 5)?;
    let old = scene.names("nodes")?;
    scene.until(150, "the first nodes are replaced", || {
        let nodes = scene.names("nodes")?;
        Ok(!nodes.is_empty() && nodes.is_disjoint(&old))
    })?;
    scene.run(90, 5)?;
    let nodes = scene.names("nodes")?;
    ensure!(
        nodes.len() == old.len(),
        "{} nodes in place of {}",
        nodes.len(),
        old.len()
    );
    scene.kubectl(&["delete", "nodepool", scene.name, "--wait=false"])?;
    scene.clear()
}

// Integration

fn limit_range(scene: &Scene) -> Result<()> {
    scene.pool("", "")?;
    // The requests of a daemon's container come from the LimitRange only.
    scene.apply(
        "
apiVersion: v1
kind: LimitRange
metadata: {name: usual, namespace: $}
spec: {limits: [{type: Container, default: {cpu: '1', memory: 1Gi}}]}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: $}
value: 10000000
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: daemon, namespace: $}
spec:
  selector: {matchLabels: {app: daemon}}
  template:
    metadata: {labels: {app: daemon}}
    spec:
      nodeSelector: {spec: $}
      priorityClassName: $
      containers: [{name: c, image: pause}]
",
    )?;
    scene.deployment("web", 1, "1", "", "")?;
    scene.until(90, "the pod runs beside a daemon", || {
        let pods = scene.all("pods")?;
        let of = |app: &str| -> BTreeSet<String> {
            let run = pods.iter().filter(|p| {
                p["status"]["phase"] == "Running" && p["metadata"]["labels"]["app"] == app
            });
            run.filter_map(|p| p["spec"]["nodeName"].as_str().map(str::to_owned))
                .collect()
        };
        Ok(!of("web").is_disjoint(&of("daemon")))
    })?;
    let nodes = scene.names("nodes")?;
    ensure!(
        nodes.len() == 1,
        "the first node had no room for both: {nodes:?}"
    );
    scene.clear()
}

fn host_ports(scene: &Scene) -> Result<()> {
    scene.pool(
        "",
        "- {key: kubernetes.io/arch, operator: In, values: [amd64, arm64]}",
    )?;
    for arch in ["amd64", "arm64"] {
        scene.apply(&format!(
            "
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: {arch}, namespace: $}}
spec:
  selector: {{matchLabels: {{app: {arch}-daemon}}}}
  template:
    metadata: {{labels: {{app: {arch}-daemon}}}}
    spec:
      nodeSelector: {{spec: $, kubernetes.io/arch: {arch}}}
      containers: [{{name: c, image: pause, ports: [{{containerPort: 8080, hostPort: 8080}}]}}]
"
        ))?;
    }
    for arch in ["amd64", "arm64"] {
        scene.deployment(
            arch,
            1,
            "1",
            "",
            &format!("nodeSelector: {{spec: $, kubernetes.io/arch: {arch}}}")
                .replace('$', scene.name),
        )?;
    }
    scene.run(60, 4)?;
    let events = scene.kubectl(&[
        "get",
        "events",
        "--output",
        "jsonpath={.items[?(@.source.component=='karpenter')].reason}",
    ])?;
    ensure!(!events.contains("FailedScheduling"), "{events}");
    ensure!(
        scene.names("nodes")?.len() == 2,
        "one node for each architecture"
    );
    scene.clear()
}

fn one_a_node(scene: &Scene) -> Result<()> {
    scene.pool("", "")?;
    let apart = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
        [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}";
    scene.deployment("web", 100, "1800m", "", apart)?;
    scene.run(180, 100)?;
    let nodes = scene.names("nodes")?.len();
    ensure!(nodes == 100, "{nodes} nodes");
    scene.clear()
}

/// Each NodePool differs from one that is taken in one thing.
fn validation(scene: &Scene) -> Result<()> {
    let ask = |labels: &str, requirement: &str, disruption: &str| {
        let pool = format!(
            "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{generateName: $-}}
spec:
  disruption: {{{disruption}}}
  template:
    metadata: {{labels: {{{labels}}}}}
    spec:
      nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}
      requirements: [{{{requirement}}}]
"
        );
        let file = std::env::temp_dir().join(format!(
            "longshore-{}-{}.yaml",
            scene.name,
            std::process::id()
        ));
        std::fs::write(&file, pool.replace('$', scene.name))?;
        let answer = scene.kubectl(&[
            "create",
            "--dry-run=server",
            "--filename",
            &file.display().to_string(),
        ]);
        std::fs::remove_file(&file)?;
        answer
    };
    let usual = (
        "",
        "key: kubernetes.io/os, operator: In, values: [linux]",
        "consolidateAfter: Never",
    );
    let label = |text| (text, usual.1, usual.2);
    let requirement = |text| (usual.0, text, usual.2);
    let disruption = |text| (usual.0, usual.1, text);
    let taken = [
        usual,
        label("node-restriction.kubernetes.io/custom: a"),
        requirement("key: node-restriction.kubernetes.io/custom, operator: Exists"),
        disruption("consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 5m"),
    ];
    for (labels, requirement, disruption) in taken {
        ask(labels, requirement, disruption)?;
    }
    let refused = [
        (label("karpenter.sh/nodepool: a"), "karpenter.sh/nodepool"),
        (label("karpenter.sh/custom: a"), "karpenter.sh"),
        (
            requirement("key: karpenter.sh/nodepool, operator: In, values: [a]"),
            "karpenter.sh/nodepool",
        ),
        (
            requirement("key: kubernetes.io/os, operator: In, values: []"),
            "In needs",
        ),
        (
            requirement("key: kubernetes.io/os, operator: among, values: [linux]"),
            "Unsupported value",
        ),
        (
            requirement("key: a, operator: Gt, values: ['1', '2']"),
            "Gt, Lt",
        ),
        (
            requirement("key: a, operator: Lt, values: ['1', '2']"),
            "Gt, Lt",
        ),
        (
            requirement("key: a, operator: Gte, values: ['1', '2']"),
            "Gt, Lt",
        ),
        (
            requirement("key: a, operator: Lte, values: ['1', '2']"),
            "Gt, Lt",
        ),
        (disruption("consolidateAfter: -1s"), "consolidateAfter"),
        (
            requirement("key: a, operator: Exists, minValues: -1"),
            "minValues",
        ),
        (
            requirement("key: a, operator: Exists, minValues: 0"),
            "minValues",
        ),
        (
            requirement("key: a, operator: Exists, minValues: 51"),
            "minValues",
        ),
        (
            requirement("key: a, operator: In, values: [b], minValues: 2"),
            "minValues",
        ),
    ];
    for ((labels, requirement, disruption), because) in refused {
        let asked = format!("{labels} {requirement} {disruption}");
        let error = ask(labels, requirement, disruption)
            .err()
            .with_context(|| format!("taken: {asked}"))?;
        ensure!(format!("{error:#}").contains(because), "{asked}: {error:#}");
    }
    Ok(())
}

/// Has a condition of a node say so since so many hours.
fn sicken(scene: &Scene, node: &str, condition: &str, status: &str, hours: i64) -> Result<()> {
    let since = Timestamp::now() - SignedDuration::from_hours(hours);
    let condition = serde_json::json!({
        "type": condition, "status": status, "reason": "Test", "lastTransitionTime": since.strftime("%FT%TZ").to_string(),
    });
    let patch = serde_json::json!({"status": {"conditions": [condition]}}).to_string();
    scene
        .kubectl(&[
            "patch",
            "node",
            node,
            "--subresource=status",
            "--type=strategic",
            "--patch",
            &patch,
        ])
        .map(drop)
}

/// Sees that the spec's only node, with its only pod, is replaced once it is unhealthy.
fn repaired(scene: &Scene, condition: &str, status: &str, hours: i64) -> Result<()> {
    scene.run(60, 1)?;
    let (claim, node) = (
        name(&scene.only("nodeclaims")?),
        name(&scene.only("nodes")?),
    );
    let pod = name(&scene.only("pods")?);
    sicken(scene, &node, condition, status, hours)?;
    scene.until(120, "pod, node and claim are replaced", || {
        let (claims, nodes) = (scene.names("nodeclaims")?, scene.names("nodes")?);
        let left =
            claims.contains(&claim) || nodes.contains(&node) || scene.names("pods")?.contains(&pod);
        Ok(!left && !claims.is_empty() && !nodes.is_empty())
    })?;
    scene.run(60, 1)?;
    scene.clear()
}

fn repair_not_ready(scene: &Scene) -> Result<()> {
    scene.pool("", "")?;
    scene.deployment("web", 1, "1", "", "")?;
    repaired(scene, "Ready", "False", 31)
}

fn repair_unknown(scene: &Scene) -> Result<()> {
    scene.pool("", "")?;
    scene.deployment("web", 1, "1", "", "")?;
    repaired(scene, "Ready", "Unknown", 31)
}

fn repair_ignores_budgets(scene: &Scene) -> Result<()> {
    scene.pool("", "")?;
    let none = r#"{"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}}"#;
    scene.kubectl(&[
        "patch",
        "nodepool",
        scene.name,
        "--type=merge",
        "--patch",
        none,
    ])?;
    scene.apply(
        "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: $}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: web}}}
",
    )?;
    scene.deployment("web", 1, "1", "", "")?;
    repaired(scene, "Ready", "False", 31)
}

fn repair_ignores_do_not_disrupt(scene: &Scene) -> Result<()> {
    scene.pool("", "")?;
    scene.deployment("web", 1, "1", "karpenter.sh/do-not-disrupt: 'true'", "")?;
    scene.run(60, 1)?;
    let node = name(&scene.only("nodes")?);
    scene.kubectl(&[
        "annotate",
        "node",
        &node,
        "karpenter.sh/do-not-disrupt=true",
    ])?;
    repaired(scene, "Ready", "False", 31)
}

fn repair_ignores_grace_period(scene: &Scene) -> Result<()> {
    scene.pool("terminationGracePeriod: 1h", "")?;
    scene.deployment(
        "web",
        1,
        "1",
        "karpenter.sh/do-not-disrupt: 'true'",
        "terminationGracePeriodSeconds: 3600",
    )?;
    repaired(scene, "Ready", "False", 31)
}

/// The condition of KWOK's own, which is tolerated for half a minute.
fn repair_by_hand(scene: &Scene) -> Result<()> {
    scene.pool("", "")?;
    scene.deployment("web", 1, "1", "", "")?;
    scene.run(60, 1)?;
    let begun = Instant::now();
    repaired(scene, "KWOKUnhealthy", "True", 0)?;
    let took = begun.elapsed();
    ensure!(
        (30..90).contains(&took.as_secs()),
        "replaced after {took:?}"
    );
    Ok(())
}

/// Two of three nodes are unhealthy, one of them for long: none is replaced.
fn repair_of_few(scene: &Scene) -> Result<()> {
    scene.pool("", "")?;
    let apart = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
        [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}";
    scene.deployment("web", 3, "1", "", apart)?;
    scene.run(60, 3)?;
    let nodes: Vec<String> = scene.names("nodes")?.into_iter().collect();
    ensure!(nodes.len() == 3, "{nodes:?}");
    sicken(scene, &nodes[0], "Ready", "False", 0)?;
    std::thread::sleep(Duration::from_secs(2));
    sicken(scene, &nodes[1], "Ready", "False", 31)?;
    let is_reported = |kind: &str, object: &str| -> Result<bool> {
        let of = format!(
            "involvedObject.kind={kind},involvedObject.name={object},reason=NodeRepairBlocked"
        );
        let args = [
            "--namespace",
            "default",
            "get",
            "events",
            "--field-selector",
            &of,
            "--output",
            "name",
        ];
        Ok(!scene.stage.plane.run(&args)?.is_empty())
    };
    scene.until(30, "the node and its NodePool are told", || {
        Ok(is_reported("Node", &nodes[1])? && is_reported("NodePool", scene.name)?)
    })?;
    ensure!(
        scene.names("nodes")?.into_iter().eq(nodes.iter().cloned()),
        "a node was replaced"
    );
    scene.clear()
}

fn do_not_disrupt_for(scene: &Scene) -> Result<()> {
    scene.pool("", "")?;
    let annotation = |value: &str| format!("karpenter.sh/do-not-disrupt: '{value}'");
    scene.deployment("short", 1, "100m", &annotation("20s"), "")?;
    scene.deployment("long", 1, "100m", &annotation("40s"), "")?;
    scene.deployment("always", 1, "100m", &annotation("true"), "")?;
    scene.run(60, 3)?;
    let begun = Instant::now();
    let node = name(&scene.only("nodes")?);
    scene.kubectl(&[
        "delete",
        "nodeclaims",
        "--selector",
        &format!("spec={}", scene.name),
        "--wait=false",
    ])?;
    let left = || {
        let pods = scene.all("pods")?;
        let here = pods.iter().filter(|p| p["spec"]["nodeName"] == *node);
        let app = |pod: &Value| pod["metadata"]["labels"]["app"].as_str().map(str::to_owned);
        Ok::<BTreeSet<String>, anyhow::Error>(here.filter_map(app).collect())
    };
    scene.until(60, "the short one has left", || Ok(left()?.len() == 2))?;
    ensure!(
        !left()?.contains("short") && begun.elapsed() > Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    scene.until(60, "the long one has left", || Ok(left()?.len() == 1))?;
    ensure!(
        left()?.contains("always") && begun.elapsed() > Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
    scene.stays(15, "who must never be disrupted stays", || {
        Ok(left()?.len() == 1)
    })?;
    for pod in scene
        .all("pods")?
        .iter()
        .filter(|p| p["spec"]["nodeName"] == *node)
    {
        scene.kubectl(&[
            "annotate",
            "pod",
            &name(pod),
            "karpenter.sh/do-not-disrupt-",
        ])?;
    }
    scene.until(60, "the node is gone", || {
        Ok(!scene.names("nodes")?.contains(&node))
    })?;
    scene.clear()
}

// Provisioning

fn many_alike(scene: &Scene) -> Result<()> {
    scene.pool("", "")?;
    scene.deployment("web", 100, "1", "", "")?;
    scene.run(120, 100)?;
    scene.clear()
}

fn many_kinds(scene: &Scene) -> Result<()> {
    let spread = |app: &str, key: &str, when: &str| {
        format!(
            "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: {key}, whenUnsatisfiable: \
            {when}, labelSelector: {{matchLabels: {{app: {app}}}}}}}]"
        )
    };
    let affinity = |app: &str, kind: &str, key: &str| {
        format!(
            "affinity: {{{kind}: {{requiredDuringSchedulingIgnoredDuringExecution: \
            [{{topologyKey: {key}, labelSelector: {{matchLabels: {{app: {app}}}}}}}]}}}}"
        )
    };
    let (zone, host) = ("topology.kubernetes.io/zone", "kubernetes.io/hostname");
    let kinds = [
        ("usual", String::new()),
        ("zones", spread("zones", zone, "DoNotSchedule")),
        (
            "zones-if-possible",
            spread("zones-if-possible", zone, "ScheduleAnyway"),
        ),
        ("hosts", spread("hosts", host, "DoNotSchedule")),
        ("one-host", affinity("one-host", "podAffinity", host)),
        ("one-zone", affinity("one-zone", "podAffinity", zone)),
        ("apart", affinity("apart", "podAntiAffinity", host)),
        (
            "arm",
            format!(
                "nodeSelector: {{spec: {}, kubernetes.io/arch: arm64}}",
                scene.name
            ),
        ),
    ];
    let deployments = kinds
        .iter()
        .map(|(name, more)| Scene::deployment_of(name, 10, "500m", "", more));
    scene.apply(&deployments.collect::<Vec<_>>().join("---"))?;
    // The NodePool comes when all pods wait. With a node that is there before the others of its
    // kind, kube-scheduler binds the first pod of `one-host` to it, and nine do not fit there.
    let pods = 10 * kinds.len();
    scene.until(60, "all pods wait", || Ok(scene.all("pods")?.len() == pods))?;
    scene.pool("", "")?;
    scene.run(180, pods)?;
    let nodes = scene.all("nodes")?;
    let pods = scene.all("pods")?;
    let places = |app: &str, key: &str| -> Result<BTreeMap<String, usize>> {
        let mut counts = BTreeMap::new();
        for pod in pods
            .iter()
            .filter(|pod| pod["metadata"]["labels"]["app"] == app)
        {
            let node = nodes
                .iter()
                .find(|node| node["metadata"]["name"] == pod["spec"]["nodeName"]);
            let place = node.context("on no node of the spec")?["metadata"]["labels"][key].as_str();
            *counts
                .entry(place.context("no such label")?.to_owned())
                .or_default() += 1;
        }
        Ok(counts)
    };
    for (app, key) in [("zones", zone), ("hosts", host)] {
        let counts = places(app, key)?;
        let (most, least) = (counts.values().max(), counts.values().min());
        ensure!(
            most.copied() <= least.map(|n| n + 1),
            "{app} too far apart: {counts:?}"
        );
    }
    for (app, key) in [("one-host", host), ("one-zone", zone)] {
        let counts = places(app, key)?;
        ensure!(counts.len() == 1, "{app} not together: {counts:?}");
    }
    let apart = places("apart", host)?;
    ensure!(apart.len() == 10, "two on a node: {apart:?}");
    let kinds = places("arm", "kubernetes.io/arch")?;
    ensure!(kinds.keys().eq(["arm64"]), "of another kind: {kinds:?}");
    scene.clear()
}

// Drift, of which there is only this: hashes of another version are written anew.

fn hashes(scene: &Scene) -> Result<()> {
    scene.pool("", "")?;
    scene.deployment("web", 1, "1", "", "")?;
    scene.run(60, 1)?;
    let claim = name(&scene.only("nodeclaims")?);
    let pool: Value = serde_json::from_str(
        &scene.kubectl(&["get", "nodepool", scene.name, "--output", "json"])?,
    )?;
    let hash = pool["metadata"]["annotations"]["karpenter.sh/nodepool-hash"].clone();
    ensure!(hash.is_string(), "{pool}");
    for object in [
        format!("nodepool/{}", scene.name),
        format!("nodeclaim/{claim}"),
    ] {
        let old = [
            "karpenter.sh/nodepool-hash=test-hash",
            "karpenter.sh/nodepool-hash-version=test-version",
        ];
        scene.kubectl(&[&["annotate", "--overwrite", &object], &old[..]].concat())?;
    }
    // Looked at when it changes.
    scene.kubectl(&["label", "nodepool", scene.name, "touched=yes"])?;
    scene.until(60, "the hashes are written anew", || {
        let pool: Value = serde_json::from_str(
            &scene.kubectl(&["get", "nodepool", scene.name, "--output", "json"])?,
        )?;
        let claim = scene.only("nodeclaims")?;
        let of = |object: &Value| {
            object["metadata"]["annotations"]["karpenter.sh/nodepool-hash"].clone()
        };
        Ok(of(&pool) == hash && of(&claim) == hash)
    })?;
    scene.clear()
}

// Chaos

/// Somebody taints every node as soon as a pod is on it, so that the pod has to leave. Each node
/// more is waited for twice as long, or there would be one every three seconds.
fn tainted_by_others(scene: &Scene) -> Result<()> {
    scene.pool("", "")?;
    scene.deployment("web", 1, "1", "", "")?;
    let begun = Instant::now();
    let mut most = 0;
    while begun.elapsed() < Duration::from_secs(120) {
        let (nodes, pods) = (scene.all("nodes")?, scene.all("pods")?);
        most = most.max(nodes.len());
        let tainted = |node: &Value| node["spec"]["taints"].to_string().contains("test");
        let open: Vec<&Value> = nodes.iter().filter(|node| !tainted(node)).collect();
        ensure!(open.len() < 2, "two nodes at a time for one pod");
        let used = |node: &&&Value| {
            pods.iter()
                .any(|pod| pod["spec"]["nodeName"] == node["metadata"]["name"])
        };
        for node in open.iter().filter(used) {
            scene.kubectl(&[
                "taint",
                "node",
                &name(node),
                "test=true:NoExecute",
                "--overwrite",
            ])?;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    ensure!((4..10).contains(&most), "{most} nodes in two minutes");
    for (namespace, object) in [("default", "NodePool"), (scene.name, "Pod")] {
        let selector = format!("involvedObject.kind={object}");
        let args = [
            "--namespace",
            namespace,
            "get",
            "events",
            "--field-selector",
            &selector,
            "--output",
            "json",
        ];
        let events = scene.stage.plane.run(&args)?;
        let is_reported = events.contains("unusable because of taint test=true:NoExecute");
        ensure!(is_reported, "{object} is not told");
    }
    scene.clear()
}
