//! `cargo xtask demo --aws`: the daemon on a real control plane with an emulated EC2. Pods come, an
//! instance is interrupted, a zone runs out of capacity, pods go. Everything is on loopback.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use longshore_xtask::control_plane::{self, ControlPlane};
use longshore_xtask::emulated_aws::EmulatedAws;
use serde_json::json;

use crate::commands::{self, Steps, bold};

const WORLD: &str = "examples/catalogues/aws-us-east-1.json.gz";
/// Names a binary with the feature `aws` that is built already.
const BUILT: &str = "LONGSHORE_WITH_EC2";
/// How long a scene may take.
const SCENE_TIMEOUT: Duration = Duration::from_secs(300);

/// Ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Builds the daemon with EC2, and shows it.
pub fn run() -> Result<()> {
    let mut steps = Steps::default();
    let longshore = match std::env::var_os(BUILT) {
        Some(built) => built.into(),
        None => steps.run(
            "build longshore with EC2; the SDK takes minutes",
            commands::longshore_with_ec2,
        )?,
    };
    steps.run("control plane", || {
        control_plane::build(&|line| println!("    {line}"))
    })?;
    let plane = ControlPlane::start("demo-aws")?;
    let aws = EmulatedAws::start(
        &longshore,
        &longshore_xtask::guests::root().join(WORLD),
        &plane,
    )?;
    let url = &aws.url;
    println!("    AWS is emulated at {url}; its calls are at {url}/_emulator/calls");
    let log = crate::commands::target().join("demo-aws.log");
    let _daemon = daemon(&longshore, &plane, &aws, &log)?;
    println!("    the daemon's log is in {}", log.display());
    Scenes { plane, aws }.play()
}

fn daemon(
    longshore: &Path,
    plane: &ControlPlane,
    aws: &EmulatedAws,
    log: &Path,
) -> Result<Running> {
    let [metrics, probes, status] = control_plane::free_ports()?;
    let child = Command::new(longshore)
        .args(["run", "--provider", "aws", "--cluster-name", "demo"])
        .args(["--interruption-queue", &aws.queue])
        .arg("--disable-leader-election")
        .arg("--kubeconfig")
        .arg(plane.longshore_kubeconfig())
        .args(["--metrics-port", &metrics.to_string()])
        .args(["--health-probe-port", &probes.to_string()])
        .args(["--status-address", &format!("127.0.0.1:{status}")])
        .envs(aws.environment())
        .stderr(std::fs::File::create(log)?)
        .spawn()?;
    Ok(Running(child))
}

const MANIFESTS: &str = "
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: KarpenterNodeRole-demo
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: '*'}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: '*'}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  disruption: {consolidateAfter: 10s, budgets: [{nodes: 100%}]}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
      - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: c, image: pause, resources: {requests: {cpu: 900m, memory: 1500Mi}}}]
";

struct Scenes {
    plane: ControlPlane,
    aws: EmulatedAws,
}

impl Scenes {
    fn play(&self) -> Result<()> {
        self.plane.apply(MANIFESTS)?;
        let ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
        self.scene("the EC2NodeClass gets its status", || {
            let status = self
                .plane
                .run(&["get", "ec2nodeclass/default", "-o", ready])?;
            Ok((status == "True", format!("Ready={status}")))
        })?;
        self.scale(100)?;
        self.scene("100 pods come", || self.runs(100))?;
        self.aws
            .faults(&json!([{"capacity": {"zone": "us-east-1a", "free": 0}}]))?;
        self.scale(160)?;
        self.scene("60 more while us-east-1a has no capacity", || {
            self.runs(160)
        })?;
        let instance = self.aws.instances()?;
        let instance = instance.first().context("no instance lives")?;
        let interrupt = json!({"instance": instance, "kind": "spot", "afterSeconds": 120});
        self.aws.faults(&json!([{"interrupt": interrupt}]))?;
        let name = format!("EC2 takes {instance} back in two minutes");
        self.scene(&name, || {
            let (all_run, words) = self.runs(160)?;
            let gone = !self.aws.instances()?.contains(instance);
            Ok((gone && all_run, words))
        })?;
        self.scale(0)?;
        self.scene("all pods go, and their nodes and instances", || {
            let (_, words) = self.runs(0)?;
            let nodes = self.plane.run(&["get", "nodes", "-o", "name"])?;
            let gone = nodes.trim().is_empty() && self.aws.instances()?.is_empty();
            Ok((gone, words))
        })?;
        self.say_calls()
    }

    /// What AWS was called for.
    fn say_calls(&self) -> Result<()> {
        let counts = self.aws.counts()?;
        let all: usize = counts.values().sum();
        println!("{}", bold(&format!("==> {all} calls")));
        for (action, count) in counts {
            println!("{count:>9}  {action}");
        }
        Ok(())
    }

    /// Waits until a scene is over, and says what changes meanwhile.
    fn scene(&self, name: &str, holds: impl Fn() -> Result<(bool, String)>) -> Result<()> {
        println!("{}", bold(&format!("==> {name}")));
        let begun = Instant::now();
        let mut said = String::new();
        while begun.elapsed() < SCENE_TIMEOUT {
            let (is_over, words) = holds()?;
            if words != said {
                println!("{:>7.1} s  {words}", begun.elapsed().as_secs_f64());
                said = words;
            }
            if is_over {
                return Ok(());
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        bail!("not within {} s: {name}", SCENE_TIMEOUT.as_secs())
    }

    fn scale(&self, replicas: usize) -> Result<()> {
        let replicas = format!("--replicas={replicas}");
        let words = ["scale", "deployment", "web", &replicas];
        self.plane.run(&words).map(drop)
    }

    /// Whether so many pods run, and what there is in words.
    fn runs(&self, pods: usize) -> Result<(bool, String)> {
        let path = "jsonpath={.items[?(@.status.phase=='Running')].metadata.name}";
        let running = self.plane.run(&["get", "pods", "-o", path])?;
        let running = running.split_whitespace().count();
        let labels = "jsonpath={range .items[*]}\
            {.metadata.labels.node\\.kubernetes\\.io/instance-type}/\
            {.metadata.labels.karpenter\\.sh/capacity-type} {end}";
        let nodes = self.plane.run(&["get", "nodes", "-o", labels])?;
        let mut kinds = std::collections::BTreeMap::<&str, usize>::new();
        for kind in nodes.split_whitespace() {
            *kinds.entry(kind).or_default() += 1;
        }
        let kinds: Vec<String> = kinds
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        let words = format!("{running} pods run on {}", kinds.join(", "));
        Ok((running == pods, words))
    }
}
