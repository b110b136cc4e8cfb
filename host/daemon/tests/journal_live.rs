//! The journal of a daemon on a real control plane, decided again. Where there is none, the test is reported as ignored,
//! by name.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use longshore_xtask::control_plane::{self, ControlPlane};
use serde_json::Value;

#[allow(dead_code, reason = "its other users need the rest")]
#[path = "reload/guest.rs"]
mod guest;

use guest::{Way, guest};

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

const CONFIG: &str = "
[[policy]]
name = 'one'
path = 'one.wasm'
[signals.carbon]
file = 'carbon.json'
[journal]
dir = 'journal'
max-size = '16MiB'
segment-size = '64KiB'
";

fn main() {
    let arguments = Arguments::from_args();
    let unavailable = control_plane::available().err();
    if let Some(reason) = &unavailable {
        eprintln!("not run, no control plane: {reason}");
    }
    let test = || decided_again().map_err(|error| Failed::from(format!("{error:#}")));
    let trial = Trial::test("the_journal_of_two_daemons_on_one_cluster_is_decided_again_to_the_same_digests", test);
    libtest_mimic::run(&arguments, vec![trial.with_ignored_flag(unavailable.is_some())]).exit();
}

/// A daemon; killed when dropped.
struct Daemon(Child);

impl Daemon {
    fn start(plane: &ControlPlane, folder: &Path, port: u16) -> Result<Self> {
        let child = Command::new(env!("CARGO_BIN_EXE_longshore"))
            .args(["run", "--kubeconfig"])
            .arg(plane.longshore_kubeconfig())
            .arg("--config")
            .arg(folder.join("longshore.toml"))
            .env("METRICS_PORT", port.to_string())
            .env("HEALTH_PROBE_PORT", (port + 1).to_string())
            .env("DISABLE_LEADER_ELECTION", "true")
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Daemon(child))
    }

    /// Tells it to stop, and waits until it has.
    fn stop(mut self) -> Result<()> {
        Command::new("kill").arg(self.0.id().to_string()).status()?;
        ensure!(self.0.wait()?.success(), "the daemon ends badly");
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ports() -> Result<u16> {
    let free = |port: u16| std::net::TcpListener::bind(("0.0.0.0", port)).is_ok();
    (21_000..22_000).step_by(2).find(|&port| free(port) && free(port + 1)).context("no two free ports")
}

fn scale(plane: &ControlPlane, replicas: u32) -> Result<()> {
    plane.apply(&format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{{name: c, image: pause, resources: {{requests: {{cpu: 700m, memory: 600Mi}}}}}}]
"
    ))?;
    until(&format!("{replicas} pods run"), || {
        let running = "jsonpath={.items[?(@.status.phase=='Running')].metadata.name}";
        Ok(lines(plane, &["get", "pods", "-o", running])?.len() == replicas as usize)
    })
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

fn longshore(args: &[&str]) -> Result<Output> {
    Ok(Command::new(env!("CARGO_BIN_EXE_longshore")).args(args).output()?)
}

fn renamed(folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    std::fs::write(folder.join("part"), bytes)?;
    Ok(std::fs::rename(folder.join("part"), folder.join(name))?)
}

fn decided_again() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("longshore-journal-live-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("longshore.toml"), CONFIG)?;
    std::fs::write(folder.join("carbon.json"), "{\"us-east-1a\": 379.5}")?;
    std::fs::write(folder.join("one.wasm"), guest("1.0.0", Way::Alternates(0.2, 0.1)))?;
    let plane = ControlPlane::start("journal")?;
    plane.apply(POOL)?;
    let port = ports()?;
    let first = Daemon::start(&plane, &folder, port)?;
    scale(&plane, 20)?;
    renamed(&folder, "one.wasm", &guest("1.1.0", Way::Alternates(0.1, 0.2)))?;
    std::thread::sleep(Duration::from_secs(2));
    scale(&plane, 45)?;
    // Killed: its last segment has no end.
    drop(first);
    let second = Daemon::start(&plane, &folder, port)?;
    scale(&plane, 60)?;
    let claims = lines(&plane, &["get", "nodeclaims", "-o", "jsonpath={.items[*].metadata.name}"])?;
    let mut delete = vec!["delete", "nodeclaim", "--wait=false"];
    delete.extend(claims.iter().map(String::as_str));
    plane.run(&delete)?;
    until("the old claims are gone", || {
        let left = lines(&plane, &["get", "nodeclaims", "-o", "jsonpath={.items[*].metadata.name}"])?;
        Ok(claims.iter().all(|claim| !left.contains(claim)))
    })?;
    scale(&plane, 10)?;
    second.stop()?;
    check(&folder)?;
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

fn check(folder: &Path) -> Result<()> {
    let journal = folder.join("journal");
    let path = journal.to_str().context("a path of text")?;
    let replayed = longshore(&["replay", path, "--output", "json"])?;
    let told = String::from_utf8_lossy(&replayed.stdout).into_owned();
    ensure!(replayed.status.code() == Some(0), "{told}{}", String::from_utf8_lossy(&replayed.stderr));
    let verdict: Value = serde_json::from_str(&told)?;
    let equal = verdict["equal"].as_u64().unwrap_or(0);
    ensure!(equal >= 4 && verdict["passedOver"] == 0, "{told}");
    eprintln!("{equal} rounds, {} observations, {} segments", verdict["observations"], verdict["segments"]);
    // Every segment by itself.
    let mut files: Vec<PathBuf> = std::fs::read_dir(&journal)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|ending| ending == "journal"));
    ensure!(files.len() >= 2, "{files:?}");
    for file in &files {
        let alone = longshore(&["replay", file.to_str().unwrap_or_default()])?;
        ensure!(alone.status.code() == Some(0), "{file:?}: {}", String::from_utf8_lossy(&alone.stdout));
    }
    // Another scorer says where it differs.
    std::fs::write(folder.join("other.wasm"), guest("2.0.0", Way::Costs(1.0)))?;
    let other = folder.join("other.wasm");
    let compared = longshore(&["replay", path, "--scorer", other.to_str().unwrap_or_default()])?;
    let told = String::from_utf8_lossy(&compared.stdout).into_owned();
    ensure!(compared.status.code() == Some(0) && told.contains("With flat 2.0.0"), "{told}");
    eprintln!("{told}");
    let shown = longshore(&["journal", "show", path, "--rounds"])?;
    let told = String::from_utf8_lossy(&shown.stdout).into_owned();
    ensure!(told.lines().filter(|line| line.contains(" decided in ")).count() as u64 == equal, "{told}");
    eprintln!("{told}");
    let found = longshore(&["journal", "grep", "default/web-", path, "--kind", "pod"])?;
    ensure!(found.status.code() == Some(0) && found.stdout.len() > 1000, "nothing of web-");
    let none = longshore(&["journal", "grep", "no such thing", path])?;
    ensure!(none.status.code() == Some(1) && none.stdout.is_empty(), "something of nothing");
    Ok(())
}
