//! How the daemon is operated, on a real control plane: bad surroundings are said and waited for, a cloud that is short
//! is not asked in vain, and what an operator looks at shows what he knows. Where there is no control plane, what needs
//! one is reported as ignored, by name.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use longshore_xtask::control_plane::{self, ControlPlane};

fn main() {
    let arguments = Arguments::from_args();
    let unavailable = control_plane::available().err();
    if let Some(reason) = &unavailable {
        eprintln!("not run, no control plane: {reason}");
    }
    let needs: [(&str, fn() -> Result<()>); 3] = [
        ("what_is_missing_in_the_cluster_is_said_and_waited_for", missing),
        ("offerings_without_capacity_are_left_out_until_they_are_asked_for_again", storm),
        ("default_spread_constraints_are_planned_with", spread),
    ];
    let alone: [(&str, fn() -> Result<()>); 2] = [
        ("a_server_that_cannot_be_reached_is_waited_for", unreachable),
        ("what_cannot_be_understood_at_the_start_is_refused_with_a_hint", refused),
    ];
    let trial = |(name, test): (&str, fn() -> Result<()>)| {
        Trial::test(name, move || test().map_err(|error| Failed::from(format!("{error:#}"))))
    };
    let needs = needs.into_iter().map(|t| trial(t).with_ignored_flag(unavailable.is_some()));
    libtest_mimic::run(&arguments, needs.chain(alone.into_iter().map(trial)).collect()).exit();
}

/// A daemon whose log is kept; killed when dropped.
struct Daemon {
    child: Child,
    log: PathBuf,
    port: u16,
}

impl Daemon {
    fn start(kubeconfig: &Path, args: &[&str]) -> Result<Self> {
        let port = free_port()?;
        let log = std::env::temp_dir().join(format!("longshore-operation-{}-{port}.log", std::process::id()));
        let child = Command::new(env!("CARGO_BIN_EXE_longshore"))
            .args(["run", "--kubeconfig"])
            .arg(kubeconfig)
            .args(["--metrics-port", &port.to_string(), "--health-probe-port", &free_port()?.to_string()])
            .arg("--disable-leader-election")
            .args(args)
            .stderr(File::create(&log)?)
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Daemon { child, log, port })
    }

    fn log(&self) -> Result<String> {
        Ok(std::fs::read_to_string(&self.log)?)
    }

    fn says(&self, what: &str) -> Result<bool> {
        Ok(self.log()?.contains(what))
    }

    /// What `longshore ARGUMENTS --at …` prints.
    fn ask(&self, args: &[&str]) -> Result<String> {
        let out = Command::new(env!("CARGO_BIN_EXE_longshore"))
            .args(args)
            .args(["--at", &format!("127.0.0.1:{}", self.port)])
            .output()?;
        ensure!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        Ok(String::from_utf8(out.stdout)?)
    }

    fn metric(&self, line: &str) -> Result<Option<f64>> {
        let url = format!("http://127.0.0.1:{}/metrics", self.port);
        let text = ureq::get(&url).call()?.body_mut().read_to_string()?;
        let found = text.lines().find_map(|l| l.strip_prefix(line)?.trim().parse().ok());
        Ok(found)
    }

    fn lives(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("the daemon has ended: {status}\n{}", self.log()?),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}

fn free_port() -> Result<u16> {
    // Nobody gets it again soon: the kernel goes round.
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn until(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    let mut last = String::new();
    while begun.elapsed() < Duration::from_secs(120) {
        match holds() {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => last = format!(" ({error:#})"),
        }
        std::thread::sleep(Duration::from_millis(300));
    }
    bail!("not within two minutes: {what}{last}")
}

fn scratch(name: &str, text: &str) -> Result<PathBuf> {
    let file = std::env::temp_dir().join(format!("longshore-operation-{}-{name}", std::process::id()));
    std::fs::write(&file, text)?;
    Ok(file)
}

/// A kubeconfig of a server that is not there.
fn nowhere(name: &str) -> Result<PathBuf> {
    let config = format!(
        "{{apiVersion: v1, kind: Config, current-context: x, contexts: [{{name: x, context: {{cluster: x, user: x}}}}], \
         clusters: [{{name: x, cluster: {{server: 'http://127.0.0.1:{}'}}}}], users: [{{name: x, user: {{}}}}]}}",
        free_port()?
    );
    scratch(name, &config)
}

fn unreachable() -> Result<()> {
    let config = nowhere("unreachable")?;
    let mut daemon = Daemon::start(&config, &[])?;
    until("it says that it cannot list", || daemon.says("cannot list nodepools"))?;
    until("its status says so", || Ok(daemon.ask(&["status"])?.contains("waits: not everything could be listed")))?;
    std::thread::sleep(Duration::from_secs(5));
    daemon.lives()?;
    let told = daemon.log()?.matches("cannot list nodepools").count();
    ensure!(told == 1, "the same trouble is said {told} times:\n{}", daemon.log()?);
    ensure!(
        daemon.ask(&["status"])?.contains("trouble   NodePool: cannot list nodepools"),
        "{}",
        daemon.ask(&["status"])?
    );
    Ok(())
}

fn refused() -> Result<()> {
    let config = scratch("bad.toml", "[planing]\nseed = 'x'\n")?;
    let spread = scratch("bad.yaml", "podTopologySpread:\n  defaultConstraints:\n  - {maxSkew: 0}\n")?;
    let text = |path: &Path| path.display().to_string();
    let none = nowhere("refused")?;
    for (args, said) in [
        (
            vec!["--config".to_owned(), text(&config)],
            vec![format!("{}:1:2", text(&config)), "did you mean `planning`?".into()],
        ),
        (
            vec!["--scheduler-config".to_owned(), text(&spread)],
            vec![format!("{}:3", text(&spread)), "not a policy".into()],
        ),
        (vec!["--metric-port=1".to_owned()], vec!["--metric-port".into(), "'--metrics-port'".into()]),
        (vec!["--batch-idle-duration=soon".to_owned()], vec!["BATCH_IDLE_DURATION (--batch-idle-duration)".into()]),
        (vec!["--journal".to_owned(), "/proc/nowhere".into()], vec!["/proc/nowhere".into()]),
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_longshore"))
            .args(["run", "--kubeconfig"])
            .arg(&none)
            .args(&args)
            .args(
                ["--metrics-port=0", "--health-probe-port=0"].iter().filter(|_| !args[0].starts_with("--metric-port")),
            )
            .output()?;
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        ensure!(out.status.code() == Some(2), "{args:?}: {}\n{told}", out.status);
        for part in said {
            ensure!(told.contains(&part), "{args:?} says nothing of {part}:\n{told}");
        }
    }
    Ok(())
}

const CLASS: &str = "
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
spec: {nodeRegistrationDelay: 1s}
";

fn pool(name: &str, class: &str, annotations: &str) -> String {
    format!(
        "
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: {name}}}
spec:
  template:
    metadata: {{annotations: {{{annotations}}}}}
    spec:
      nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: {class}}}
      requirements:
      - {{key: kubernetes.io/os, operator: In, values: [linux]}}
"
    )
}

fn pods(name: &str, replicas: u32, more: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 0
      {more}
      containers: [{{name: c, image: pause, resources: {{requests: {{cpu: 700m, memory: 600Mi}}}}}}]
"
    )
}

fn get(plane: &ControlPlane, what: &str, path: &str) -> Result<String> {
    plane.run(&["get", what, "-o", &format!("jsonpath={path}")])
}

fn running(plane: &ControlPlane) -> Result<usize> {
    Ok(get(plane, "pods", "{.items[?(@.status.phase=='Running')].metadata.name}")?.split_whitespace().count())
}

fn deploy(name: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
    Ok(path.canonicalize()?.to_str().context("a path that is no text")?.to_owned())
}

fn missing() -> Result<()> {
    let plane = ControlPlane::start("operation-missing")?;
    // No definition of NodePools, an old one of KWOKNodeClasses, and no rights to list pods.
    plane.run(&["delete", "crd", "nodepools.karpenter.sh"])?;
    let old = r#"[{"op": "remove", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/nodeRegistrationDelay"}]"#;
    plane.run(&["patch", "crd", "kwoknodeclasses.karpenter.kwok.sh", "--type=json", "--patch", old])?;
    let rights = plane.run(&["get", "clusterrole", "karpenter", "-o", "json"])?;
    let mut role: serde_json::Value = serde_json::from_str(&rights)?;
    for rule in role["rules"].as_array_mut().context("no rules")? {
        if let Some(resources) = rule["resources"].as_array_mut() {
            resources.retain(|r| r != "pods");
        }
    }
    role["rules"].as_array_mut().context("no rules")?.retain(|rule| rule["resources"] != serde_json::json!([]));
    role["metadata"] = serde_json::json!({"name": "karpenter"});
    let file = scratch("role.json", &role.to_string())?;
    plane.run(&["replace", "-f", file.to_str().context("a path that is no text")?])?;
    let mut daemon = Daemon::start(plane.longshore_kubeconfig().as_ref(), &[])?;
    let install = "kubectl apply --server-side --force-conflicts -f deploy/crds";
    until("the missing definition is said, with what installs it", || {
        Ok(daemon.says("nodepools of karpenter.sh/v1 are not known to the cluster")? && daemon.says(install)?)
    })?;
    until("the missing right is said", || {
        daemon.says("RBAC does not let us list pods; kubectl apply -f deploy/rbac.yaml")
    })?;
    until("the old definition is said", || daemon.says("drops what is written to spec.nodeRegistrationDelay"))?;
    until("its status says so", || {
        let status = daemon.ask(&["status"])?;
        Ok(status.contains("waits: not everything") && status.contains("trouble   Pod: RBAC"))
    })?;
    daemon.lives()?;
    plane.run(&["apply", "--server-side", "--force-conflicts", "-f", &deploy("crds")?])?;
    plane.run(&["replace", "-f", &deploy("rbac.yaml")?])?;
    until("it goes on by itself", || Ok(daemon.ask(&["status"])?.starts_with("daemon    leads")))?;
    // A NodePool whose class is missing, the only class of its kind at first, keeps nobody else from nodes.
    plane.apply(&pool("orphan", "nowhere", ""))?;
    let reason = "{.status.conditions[?(@.type=='NodeClassReady')].reason}";
    until("the NodePool says so", || Ok(get(&plane, "nodepool/orphan", reason)? == "NodeClassNotFound"))?;
    let events = || {
        plane.run(&["get", "events", "-o", "jsonpath={range .items[*]}{.involvedObject.name} {.message}{'\\n'}{end}"])
    };
    until("an Event says so", || {
        Ok(events()?.lines().any(|l| l.starts_with("orphan ") && l.contains("NodeClassNotFound")))
    })?;
    plane.apply(&pods("web", 3, ""))?;
    until("the pods are told", || Ok(events()?.contains("Failed to schedule pod")))?;
    ensure!(
        get(&plane, "nodeclaims", "{.items[*].metadata.name}")?.is_empty(),
        "it bought for a NodePool without class"
    );
    plane.apply(CLASS)?;
    plane.apply(&pool("default", "default", ""))?;
    until("the pods run on the other's nodes", || Ok(running(&plane)? == 3))?;
    let table = plane.run(&["get", "nodepools,nodeclaims", "-o", "wide"])?;
    let heads: Vec<Vec<&str>> =
        table.lines().filter(|l| l.starts_with("NAME")).map(|l| l.split_whitespace().collect()).collect();
    let pools = ["NAME", "NODECLASS", "NODES", "READY", "AGE", "WEIGHT", "CPU", "MEMORY"];
    let claims = [
        "NAME",
        "TYPE",
        "CAPACITY",
        "ZONE",
        "NODE",
        "READY",
        "AGE",
        "IMAGEID",
        "ID",
        "NODEPOOL",
        "NODECLASS",
        "DRIFTED",
    ];
    ensure!(heads == [pools.to_vec(), claims.to_vec()], "{table}");
    let row = table.lines().find(|l| l.starts_with("nodeclaim.karpenter.sh/default-")).context("no claim")?;
    let cells: Vec<&str> = row.split_whitespace().collect();
    ensure!(cells.len() >= 10 && cells[5] == "True" && cells[9] == "default", "{table}");
    daemon.lives()
}

fn storm() -> Result<()> {
    let plane = ControlPlane::start("operation-storm")?;
    // Spot is short in the first zone; then nothing can be had at all.
    let short = "kwok.longshore.dev/no-capacity: '*/*/spot'";
    plane.apply(CLASS)?;
    plane.apply(&pool("default", "default", short))?;
    let daemon = Daemon::start(plane.longshore_kubeconfig().as_ref(), &[])?;
    plane.apply(&pods("web", 5, "nodeSelector: {karpenter.sh/capacity-type: spot}"))?;
    let gauge = "longshore_offerings_without_capacity{capacity_type=\"spot\",zone=\"test-zone-a\"}";
    until("the shortage is counted", || Ok(daemon.metric(gauge)?.is_some_and(|n| n > 0.0)))?;
    until("the pods are told until when", || {
        let told = daemon.ask(&["status"])?;
        Ok(told.contains("are without capacity until") && told.contains("capacity  "))
    })?;
    let pod = get(&plane, "pods", "{.items[0].metadata.name}")?;
    let explained = daemon.ask(&["explain", "pod", &format!("default/{pod}")])?;
    ensure!(explained.contains("are without capacity until"), "{explained}");
    let events = plane.run(&["get", "events", "-o", "jsonpath={.items[*].reason}"])?;
    ensure!(events.contains("InsufficientCapacityError"), "{events}");
    // A claim for each shape of need, and no other for three minutes.
    let made = || Ok::<_, anyhow::Error>(daemon.log()?.matches("created NodeClaim").count());
    let before = made()?;
    std::thread::sleep(Duration::from_secs(25));
    ensure!(made()? == before, "{before} NodeClaims, then {}:\n{}", made()?, daemon.log()?);
    // Pods that may run elsewhere do, at once.
    let begun = Instant::now();
    plane.apply(&pods("any", 5, ""))?;
    until("pods that need no spot run", || Ok(running(&plane)? == 5))?;
    ensure!(begun.elapsed() < Duration::from_secs(20), "it took {:?}", begun.elapsed());
    let kinds = get(&plane, "nodeclaims", "{.items[*].metadata.labels.karpenter\\.sh/capacity-type}")?;
    ensure!(kinds.split_whitespace().all(|kind| kind == "on-demand"), "{kinds}");
    // It comes back when it is asked for again.
    plane.run(&["annotate", "kwoknodeclass", "default", "a=b"])?;
    plane.run(&[
        "patch",
        "nodepool",
        "default",
        "--type=json",
        "--patch",
        r#"[{"op": "remove", "path": "/spec/template/metadata/annotations"}]"#,
    ])?;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(240) && running(&plane)? < 10 {
        std::thread::sleep(Duration::from_secs(2));
    }
    ensure!(running(&plane)? == 10, "spot was not asked for again:\n{}", daemon.log()?);
    Ok(())
}

fn spread() -> Result<()> {
    let plane = ControlPlane::start("operation-spread")?;
    plane.apply(CLASS)?;
    plane.apply(&pool("default", "default", ""))?;
    let config = "{podTopologySpread: {defaultConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, \
                  whenUnsatisfiable: DoNotSchedule}]}}";
    let daemon =
        Daemon::start(plane.longshore_kubeconfig().as_ref(), &["--scheduler-config", config, "--isolated-vpc"])?;
    plane.apply(&pods("web", 8, ""))?;
    until("8 pods run", || Ok(running(&plane)? == 8))?;
    let zones = get(&plane, "nodeclaims", "{.items[*].metadata.labels.topology\\.kubernetes\\.io/zone}")?;
    let distinct: std::collections::BTreeSet<&str> = zones.split_whitespace().collect();
    ensure!(distinct.len() == 4, "nodes are in {zones}");
    ensure!(daemon.says("ISOLATED_VPC (--isolated-vpc) is set and has no effect")?, "{}", daemon.log()?);
    Ok(())
}
