//! Pods of many Deployments run, become fewer and become as many again, on nodes of any provider.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use longshore_xtask::control_plane::ControlPlane;
use serde_json::Value;

use super::judge::Judge;
use super::plane::{objects, running, within};

/// How many pods there are, how fast nodes may go, and how often the daemon is killed.
#[derive(Clone, Copy)]
pub struct Load {
    pub deployments: usize,
    /// Pods of each Deployment at first and at last, and in between.
    pub many: usize,
    pub few: usize,
    /// Most nodes of 100 that are disrupted at once.
    pub percent: usize,
    pub killed_every: Option<Duration>,
}

/// A thousand pods and three hundred.
pub const LARGE: Load = Load {
    deployments: 20,
    many: 50,
    few: 15,
    percent: 10,
    killed_every: None,
};

/// Pods that must not be disrupted.
const HELD: usize = 4;
/// How long a node keeps its pods before it is looked at, in seconds.
pub const CONSOLIDATE_AFTER: i64 = 20;
/// Minutes in which no node may go.
const WINDOW: i64 = 1;

/// What is scaled, and where.
pub struct Scaling<'a> {
    pub plane: &'a ControlPlane,
    pub load: Load,
    /// Manifests of the NodePool and its class, with budgets.
    pub pool: &'a dyn Fn(&str) -> String,
    /// What a node of a type costs, USD per hour.
    pub price: &'a dyn Fn(&str) -> Option<f64>,
    /// Called when a phase is over: `up`, `down`, `up again`.
    pub over: &'a dyn Fn(&str) -> Result<()>,
}

/// What has to hold of a run.
pub struct Scaled {
    /// UIDs of pods that must stay, by name.
    held: BTreeMap<String, String>,
    percent: usize,
    /// When no node may go.
    closed: (Timestamp, Timestamp),
}

impl Scaled {
    /// Judges what the API server recorded of Longshore.
    pub fn judge(&self, plane: &ControlPlane) -> Result<()> {
        let (from, to) = self.closed;
        Judge::new(plane, &self.held)?.judge(self.percent, from, to)
    }
}

/// A Deployment of pods of half a core, and a PodDisruptionBudget of its name that lets a fifth of
/// them go if `budget` says so.
pub fn deployment(name: &str, replicas: usize, annotations: &str, budget: bool) -> String {
    let selector = format!("selector: {{matchLabels: {{app: {name}}}}}");
    let budget = if budget {
        format!(
            "
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: {name}}}
spec: {{maxUnavailable: 20%, {selector}}}"
        )
    } else {
        String::new()
    };
    format!(
        "
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  {selector}
  template:
    metadata: {{labels: {{app: {name}}}, annotations: {{{annotations}}}}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{{name: c, image: pause, resources: {{requests: {{cpu: 500m, memory: 512Mi}}}}}}]
{budget}"
    )
}

impl Scaling<'_> {
    /// Up, down and up again.
    pub fn run(&self) -> Result<Scaled> {
        let (plane, load) = (self.plane, self.load);
        let apps: Vec<String> = (0..load.deployments).map(|at| format!("web{at}")).collect();
        let manifests = apps
            .iter()
            .enumerate()
            .map(|(at, app)| deployment(app, load.many, "", at % 2 == 0));
        let begun = Instant::now();
        plane.apply(&manifests.collect::<String>())?;
        let held = "karpenter.sh/do-not-disrupt: 'true'";
        plane.apply(&deployment("held", HELD, held, false))?;
        let pods = HELD + load.deployments * load.many;
        self.all_run(pods)?;
        let held = uids_of_held(plane)?;
        let before = self.print_cost(pods, begun)?;
        (self.over)("up")?;

        let window = next_minute();
        let closed = format!(
            "{{nodes: '0', schedule: '{}', duration: {WINDOW}m}}",
            window.strftime("%M %H * * *")
        );
        let percent = self.percent();
        plane.apply(&(self.pool)(&format!("{percent}, {closed}")))?;
        let begun = Instant::now();
        scale(plane, &apps, load.few)?;
        let end = window + SignedDuration::from_mins(WINDOW);
        self.settle(end)?;
        let few = HELD + load.deployments * load.few;
        self.all_run(few)?;
        let cost = self.print_cost(few, begun)?;
        // What pods cost in nodes that are filled, and a half more for those that held pods keep.
        let share = few as f64 / pods as f64;
        ensure!(
            cost <= 1.5 * share * before,
            "{cost} USD/h for {few} pods, and {pods} cost {before}"
        );
        (self.over)("down")?;

        let begun = Instant::now();
        scale(plane, &apps, load.many)?;
        self.all_run(pods)?;
        self.print_cost(pods, begun)?;
        (self.over)("up again")?;
        ensure!(
            uids_of_held(plane)? == held,
            "a pod that must stay is another one"
        );
        Ok(Scaled {
            held,
            percent: load.percent,
            closed: (window, end),
        })
    }

    /// The budget that always holds.
    pub fn percent(&self) -> String {
        format!("{{nodes: {}%}}", self.load.percent)
    }

    fn all_run(&self, pods: usize) -> Result<()> {
        within(
            self.patience(),
            Duration::from_secs(1),
            &format!("{pods} pods run"),
            || Ok(running(self.plane)? == pods),
        )
    }

    /// How long phases may take; a daemon that is killed begins to wait anew each time.
    fn patience(&self) -> u64 {
        if self.load.killed_every.is_some() {
            2400
        } else {
            1200
        }
    }

    /// Says how many nodes there are and what they cost, USD per hour; returns the latter.
    fn print_cost(&self, pods: usize, begun: Instant) -> Result<f64> {
        let nodes = objects(self.plane, "nodes", &[])?;
        let cost = self.cost(&nodes)?;
        println!(
            "{pods} pods on {} nodes after {} s: {cost:.2} USD/h",
            nodes.len(),
            begun.elapsed().as_secs()
        );
        Ok(cost)
    }

    fn cost(&self, nodes: &[Value]) -> Result<f64> {
        let price = |node: &Value| {
            let kind = node["metadata"]["labels"]["node.kubernetes.io/instance-type"].as_str();
            kind.and_then(self.price)
                .with_context(|| format!("a node of no known type: {}", node["metadata"]["name"]))
        };
        nodes.iter().map(price).sum()
    }

    /// Waits until the nodes have been the same for two minutes, none disrupted, after a time: for
    /// five where the daemon is killed, which looks twice, 15 s apart, and often does not live so
    /// long.
    fn settle(&self, after: Timestamp) -> Result<()> {
        let (mut last, mut since) = (BTreeSet::new(), Instant::now());
        let same_for = if self.load.killed_every.is_some() {
            300
        } else {
            120
        };
        within(
            self.patience(),
            Duration::from_secs(2),
            "nodes stay the same",
            || {
                let nodes = objects(self.plane, "nodes", &[])?;
                let busy = nodes.iter().any(|node| {
                    !node["metadata"]["deletionTimestamp"].is_null() || is_disrupted(&node["spec"])
                });
                let names: BTreeSet<String> = nodes
                    .iter()
                    .map(|node| node["metadata"]["name"].to_string())
                    .collect();
                if busy || names != last || Timestamp::now() < after {
                    (last, since) = (names, Instant::now());
                }
                Ok(since.elapsed() >= Duration::from_secs(same_for))
            },
        )
    }
}

fn scale(plane: &ControlPlane, apps: &[String], replicas: usize) -> Result<()> {
    let replicas = format!("--replicas={replicas}");
    let mut words = vec!["scale", "deployment", &replicas];
    words.extend(apps.iter().map(String::as_str));
    plane.run(&words).map(drop)
}

/// The first full minute that is at least half a minute away.
fn next_minute() -> Timestamp {
    let second = Timestamp::now().as_second() + 30;
    let minute = second - second.rem_euclid(60) + 60;
    Timestamp::from_second(minute).unwrap_or(Timestamp::MAX)
}

/// Pods that must not be disrupted: UIDs by name.
fn uids_of_held(plane: &ControlPlane) -> Result<BTreeMap<String, String>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = objects(plane, "pods", &["--selector=app=held"])?;
    let uids = pods.iter().map(|pod| {
        let metadata = &pod["metadata"];
        (text(&metadata["name"]), text(&metadata["uid"]))
    });
    Ok(uids.collect())
}

/// Whether a Node has the taint of a disruption.
pub fn is_disrupted(spec: &Value) -> bool {
    spec["taints"]
        .to_string()
        .contains("karpenter.sh/disrupted")
}
