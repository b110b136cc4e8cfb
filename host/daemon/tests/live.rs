//! The daemon on a real control plane, with the rights that `deploy/` ships. Where there is none, each test is reported
//! as ignored, by name.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use longshore_xtask::control_plane::{self, ControlPlane};

const POOL: &str = "
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
spec: {nodeRegistrationDelay: 1s}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: kubernetes.io/os, operator: In, values: [linux]}
";

fn main() {
    let mut arguments = Arguments::from_args();
    // Each has a control plane of its own, which takes more than one core while pods start.
    arguments.test_threads.get_or_insert(2);
    let unavailable = control_plane::available().err();
    if let Some(reason) = &unavailable {
        eprintln!("not run, no control plane: {reason}");
    }
    let tests: [(&str, fn() -> Result<()>); 4] = [
        ("pods_get_nodes_and_leave_them_when_their_claims_are_deleted", scale_and_drain),
        ("a_daemon_killed_at_any_moment_of_a_scale_up_buys_nothing_twice", killed),
        ("a_daemon_killed_at_any_moment_of_a_drain_leaves_nothing_behind", killed_draining),
        ("a_leader_that_was_frozen_writes_nothing_once_another_leads", frozen),
    ];
    let trial = |(name, test): (&str, fn() -> Result<()>)| {
        Trial::test(name, move || test().map_err(|error| Failed::from(format!("{error:#}"))))
            .with_ignored_flag(unavailable.is_some())
    };
    libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect()).exit();
}

/// A daemon; killed when dropped.
struct Daemon(Child);

impl Daemon {
    fn start(plane: &ControlPlane, ports: u16) -> Result<Self> {
        Daemon::start_as(plane, ports, false)
    }

    /// One that competes for the Lease, or leads for ever.
    fn start_as(plane: &ControlPlane, ports: u16, competes: bool) -> Result<Self> {
        let child = Command::new(env!("CARGO_BIN_EXE_longshore"))
            .args(["run", "--kubeconfig"])
            .arg(plane.longshore_kubeconfig())
            .env("METRICS_PORT", ports.to_string())
            .env("HEALTH_PROBE_PORT", (ports + 1).to_string())
            .env("DISABLE_LEADER_ELECTION", (!competes).to_string())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Daemon(child))
    }

    /// Sends `STOP`, `CONT` or `TERM`.
    fn signal(&self, name: &str) -> Result<()> {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.0.id().to_string()]).status()?;
        ensure!(sent.success(), "kill -{name}: {sent}");
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The first of four ports that nobody had a moment ago and no other test gets.
fn ports() -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    while NEXT.load(Ordering::Relaxed) < 21_000 {
        let port = NEXT.fetch_add(4, Ordering::Relaxed);
        let free = |port| std::net::TcpListener::bind(("0.0.0.0", port)).is_ok();
        if (port..port + 4).all(free) {
            return Ok(port);
        }
    }
    bail!("no four free ports")
}

fn deployment(name: &str, replicas: u32) -> String {
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
      containers: [{{name: c, image: pause, resources: {{requests: {{cpu: 700m, memory: 600Mi}}}}}}]
"
    )
}

fn until(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(180) {
        if holds().unwrap_or(false) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    bail!("not within three minutes: {what}")
}

fn lines(plane: &ControlPlane, args: &[&str]) -> Result<Vec<String>> {
    Ok(plane.run(args)?.split_whitespace().map(str::to_owned).collect())
}

fn running(plane: &ControlPlane) -> Result<usize> {
    let phases = lines(plane, &["get", "pods", "-o", "jsonpath={.items[?(@.status.phase=='Running')].metadata.name}"])?;
    Ok(phases.len())
}

fn scale_and_drain() -> Result<()> {
    let plane = ControlPlane::start("live-drain")?;
    plane.apply(POOL)?;
    let _daemon = Daemon::start(&plane, ports()?)?;
    plane.apply(&deployment("web", 30))?;
    until("30 pods run", || Ok(running(&plane)? == 30))?;
    let first = lines(&plane, &["get", "nodeclaims", "-o", "jsonpath={.items[*].metadata.name}"])?;
    ensure!(!first.is_empty(), "no NodeClaims");
    let pool =
        plane.run(&["get", "nodepool", "default", "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}"])?;
    ensure!(pool == "True", "NodePool Ready is {pool:?}");
    let mut delete = vec!["delete", "nodeclaim", "--wait=false"];
    delete.extend(first.iter().map(String::as_str));
    plane.run(&delete)?;
    until("the old claims and their nodes are gone, and 30 pods run elsewhere", || {
        let left = lines(&plane, &["get", "nodeclaims", "-o", "jsonpath={.items[*].metadata.name}"])?;
        let nodes = lines(&plane, &["get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"])?;
        let gone = first.iter().all(|name| !left.contains(name));
        Ok(gone && running(&plane)? == 30 && nodes.len() == left.len())
    })
}

fn killed() -> Result<()> {
    let plane = ControlPlane::start("live-kill")?;
    plane.apply(POOL)?;
    plane.apply(&deployment("web", 40))?;
    let port = ports()?;
    // Idle for a second, then plan, write, launch, register: every moment of that, a little later each time.
    for moment in [200u64, 900, 1_300, 1_600, 1_900, 2_200, 2_600, 3_000, 3_500, 4_000] {
        let daemon = Daemon::start(&plane, port)?;
        std::thread::sleep(Duration::from_millis(moment));
        drop(daemon);
    }
    let _daemon = Daemon::start(&plane, port)?;
    until("40 pods run", || Ok(running(&plane)? == 40))?;
    until("every claim has a node and every node a claim", || {
        let claims = lines(&plane, &["get", "nodeclaims", "-o", "jsonpath={.items[*].status.nodeName}"])?;
        let nodes = lines(&plane, &["get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"])?;
        let same = |a: &[String], b: &[String]| a.iter().all(|name| b.contains(name));
        Ok(!claims.is_empty() && claims.len() == nodes.len() && same(&claims, &nodes))
    })?;
    let used = lines(&plane, &["get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}"])?;
    let nodes = lines(&plane, &["get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"])?;
    let empty: Vec<&String> = nodes.iter().filter(|node| !used.contains(node)).collect();
    ensure!(empty.is_empty(), "bought twice: {empty:?} are empty");
    Ok(())
}

fn killed_draining() -> Result<()> {
    let plane = ControlPlane::start("live-kill-drain")?;
    plane.apply(POOL)?;
    let port = ports()?;
    let daemon = Daemon::start(&plane, port)?;
    plane.apply(&deployment("web", 30))?;
    until("30 pods run", || Ok(running(&plane)? == 30))?;
    drop(daemon);
    let first = lines(&plane, &["get", "nodeclaims", "-o", "jsonpath={.items[*].metadata.name}"])?;
    let mut delete = vec!["delete", "nodeclaim", "--wait=false"];
    delete.extend(first.iter().map(String::as_str));
    plane.run(&delete)?;
    // Taint, evict, wait, buy for those that were evicted, end: every moment of that.
    for moment in [200u64, 700, 1_000, 1_300, 1_600, 2_000, 2_500, 3_000, 3_500, 4_500] {
        let daemon = Daemon::start(&plane, port)?;
        std::thread::sleep(Duration::from_millis(moment));
        drop(daemon);
    }
    let _daemon = Daemon::start(&plane, port)?;
    until("the old claims and their nodes are gone, and 30 pods run elsewhere", || {
        let left = lines(&plane, &["get", "nodeclaims", "-o", "jsonpath={.items[*].metadata.name}"])?;
        let nodes = lines(&plane, &["get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"])?;
        let gone = first.iter().all(|name| !left.contains(name));
        Ok(gone && running(&plane)? == 30 && nodes.len() == left.len())
    })
}

/// Who holds the Lease.
fn holder(plane: &ControlPlane) -> Result<String> {
    let path = "jsonpath={.spec.holderIdentity}";
    plane.run(&["-n", "kube-system", "get", "lease", "karpenter-leader-election", "-o", path])
}

fn frozen() -> Result<()> {
    let plane = ControlPlane::start("live-frozen")?;
    plane.apply(POOL)?;
    let port = ports()?;
    let first = Daemon::start_as(&plane, port, true)?;
    until("the first leads", || Ok(!holder(&plane)?.is_empty()))?;
    let (old, second) = (holder(&plane)?, Daemon::start_as(&plane, port + 2, true)?);
    plane.apply(&deployment("web", 10))?;
    until("10 pods run", || Ok(running(&plane)? == 10))?;
    // Work is waiting for the first when it is frozen, in the middle of a batching window.
    plane.apply(&deployment("more", 20))?;
    std::thread::sleep(Duration::from_millis(800));
    first.signal("STOP")?;
    let begun = Instant::now();
    until("the second leads", || Ok(holder(&plane)? != old))?;
    ensure!(begun.elapsed() < Duration::from_secs(25), "hand-over took {:?}", begun.elapsed());
    until("30 pods run", || Ok(running(&plane)? == 30))?;
    let claims = || lines(&plane, &["get", "nodeclaims", "-o", "jsonpath={.items[*].metadata.resourceVersion}"]);
    std::thread::sleep(Duration::from_secs(60).saturating_sub(begun.elapsed()));
    let before = claims()?;
    first.signal("CONT")?;
    std::thread::sleep(Duration::from_secs(8));
    let after = claims()?;
    ensure!(before.len() == after.len(), "the thawed one wrote: {} claims, now {}", before.len(), after.len());
    ensure!(holder(&plane)? != old, "the thawed one took the Lease from one that renews it");
    let used = lines(&plane, &["get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}"])?;
    let nodes = lines(&plane, &["get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"])?;
    let empty: Vec<&String> = nodes.iter().filter(|node| !used.contains(node)).collect();
    ensure!(empty.is_empty(), "bought twice: {empty:?} are empty");
    // A clean stop hands over at once, not after the Lease has run out.
    second.signal("TERM")?;
    let begun = Instant::now();
    until("the first leads again", || Ok(holder(&plane)? == old))?;
    ensure!(begun.elapsed() < Duration::from_secs(8), "hand-over after a clean stop took {:?}", begun.elapsed());
    Ok(())
}
