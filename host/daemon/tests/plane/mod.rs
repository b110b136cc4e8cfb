//! What tests on a real control plane share: a daemon with the rights that `deploy/` ships, and
//! what it is asked for. Where there is no control plane, each test that needs one is reported as
//! ignored, by name; in CI it fails.

use std::cell::RefCell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use longshore_xtask::control_plane::{self, ControlPlane};
use serde_json::Value;

/// A test by its name.
pub type Test = (&'static str, fn() -> Result<()>);

/// Tests that run beside each other, and beside no other suite of their program.
pub struct Suite {
    /// Comes before the names of its tests: `repair::`.
    prefix: String,
    /// How many run at once, unless the command line says it.
    at_once: Option<usize>,
    trials: Vec<Trial>,
    /// What is done after the last.
    end: Option<Box<dyn FnOnce()>>,
}

impl Suite {
    /// Without tests so far.
    pub fn empty(name: &str, at_once: Option<usize>) -> Self {
        Suite {
            prefix: format!("{name}::"),
            at_once,
            trials: Vec::new(),
            end: None,
        }
    }

    /// Of tests that need a control plane, and others that need none.
    pub fn new(name: &str, at_once: Option<usize>, needs: &[Test], alone: &[Test]) -> Self {
        let ignored = control_plane::tests_are_ignored();
        let needs = needs.iter().map(|test| (test, ignored));
        let alone = alone.iter().map(|test| (test, false));
        needs.chain(alone).fold(
            Suite::empty(name, at_once),
            |suite, (&(name, test), ignored)| suite.test(name, ignored, test),
        )
    }

    pub fn test(
        mut self,
        name: &str,
        ignored: bool,
        test: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Self {
        let run = move || {
            let result = test();
            let logs = ENDED.take();
            result.map_err(|error| Failed::from(format!("{error:#}\n{}", logs.join("\n"))))
        };
        let trial = Trial::test(format!("{}{name}", self.prefix), run);
        self.trials.push(trial.with_ignored_flag(ignored));
        self
    }

    /// Does more once its tests have ended.
    pub fn then(mut self, end: impl FnOnce() + 'static) -> Self {
        self.end = Some(Box::new(end));
        self
    }

    /// Runs the tests that the command line asks for. Returns whether one has failed.
    pub fn run(mut self, arguments: &Arguments) -> bool {
        self.trials
            .retain(|trial| !arguments.is_filtered_out(trial));
        if self.trials.is_empty() {
            return false;
        }
        let mut arguments = arguments.clone();
        arguments.test_threads = arguments.test_threads.or(self.at_once);
        let conclusion = libtest_mimic::run(&arguments, self.trials);
        if let Some(end) = self.end {
            end();
        }
        conclusion.has_failed()
    }
}

/// Ends the program as one of tests does.
pub fn exit(failed: bool) {
    if failed {
        std::process::exit(101);
    }
}

/// A class with nodes that take a second to register.
pub const CLASS: &str = "
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
spec: {nodeRegistrationDelay: 1s}
";

/// A NodePool with a class and annotations for its claims.
pub fn pool(name: &str, class: &str, annotations: &str) -> String {
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

/// The usual NodePool and its class.
pub fn usual_pool() -> String {
    format!("{CLASS}{}", pool("default", "default", ""))
}

/// A Deployment of pods that ask for most of a core, with a line more in their spec.
pub fn deployment(name: &str, replicas: usize, more: &str) -> String {
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

/// How much of a daemon's log is kept for a test that fails.
const LOG_TAIL: usize = 12 << 10;

thread_local! {
    /// The ends of the logs of the daemons that this thread has dropped: those of its test. One
    /// that several tests share ends after them, and is in no report.
    static ENDED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// A daemon with its log; killed when dropped.
pub struct Daemon {
    pub child: Child,
    log: PathBuf,
    pub port: u16,
    pub probes: u16,
    /// Of status and explanations.
    pub status: u16,
}

impl Daemon {
    /// One that leads for ever.
    pub fn start(kubeconfig: &Path, args: &[&str]) -> Result<Self> {
        Daemon::compete(kubeconfig, &[args, &["--disable-leader-election"]].concat())
    }

    /// One that competes for the Lease.
    pub fn compete(kubeconfig: &Path, args: &[&str]) -> Result<Self> {
        Daemon::with(kubeconfig, args, &[])
    }

    /// One with more in its environment.
    pub fn with(kubeconfig: &Path, args: &[&str], environment: &[(&str, &str)]) -> Result<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longshore"));
        command.envs(environment.iter().copied());
        Daemon::spawn(command, kubeconfig, args)
    }

    /// One that a command starts with the arguments that it is given.
    pub fn spawn(mut command: Command, kubeconfig: &Path, args: &[&str]) -> Result<Self> {
        let [port, probes, status] = control_plane::free_ports()?;
        let log = std::env::temp_dir().join(format!(
            "longshore-daemon-{}-{port}.log",
            std::process::id()
        ));
        let child = command
            .args(["run", "--kubeconfig"])
            .arg(kubeconfig)
            .args([
                "--metrics-port",
                &port.to_string(),
                "--health-probe-port",
                &probes.to_string(),
            ])
            .args(["--status-address", &format!("127.0.0.1:{status}")])
            .args(args)
            .stderr(File::create(&log)?)
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Daemon {
            child,
            log,
            port,
            probes,
            status,
        })
    }

    pub fn log(&self) -> Result<String> {
        Ok(std::fs::read_to_string(&self.log)?)
    }

    /// Sends `STOP`, `CONT` or `TERM`.
    pub fn signal(&self, name: &str) -> Result<()> {
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &self.child.id().to_string()])
            .status()?;
        ensure!(sent.success(), "kill -{name}: {sent}");
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let log = self.log().unwrap_or_default();
        let tail = log.ceil_char_boundary(log.len().saturating_sub(LOG_TAIL));
        let text = format!(
            "--- log of the daemon at {} ---\n{}",
            self.port,
            &log[tail..]
        );
        ENDED.with_borrow_mut(|ended| ended.push(text));
        let _ = std::fs::remove_file(&self.log);
    }
}

/// Waits three minutes until something holds.
pub fn until(what: &str, holds: impl FnMut() -> Result<bool>) -> Result<()> {
    within(180, Duration::from_millis(300), what, holds)
}

/// Waits so many seconds until something holds, looking every so often.
pub fn within(
    seconds: u64,
    every: Duration,
    what: &str,
    mut holds: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let begun = Instant::now();
    let mut last = String::new();
    while begun.elapsed() < Duration::from_secs(seconds) {
        match holds() {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => last = format!(" ({error:#})"),
        }
        std::thread::sleep(every);
    }
    bail!("not within {seconds} s: {what}{last}")
}

/// Sees that something holds for so many seconds: for what must not happen.
pub fn stays(seconds: u64, what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    loop {
        ensure!(holds()?, "no more after {:?}: {what}", begun.elapsed());
        if begun.elapsed() >= Duration::from_secs(seconds) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Fails with what the cluster has, in the columns of kubectl, where something has failed.
pub fn with_cluster<T>(plane: &ControlPlane, result: Result<T>) -> Result<T> {
    result.map_err(|error| {
        let shown = |kinds| plane.run(&["get", kinds, "--all-namespaces", "--output", "wide"]);
        let all = ["nodepools,nodeclaims,nodes,pods", "events"].map(shown);
        let all = all.map(|shown| shown.unwrap_or_else(|error| format!("{error:#}")));
        error.context(all.join("\n"))
    })
}

/// All objects of a kind, or those that more arguments of kubectl select.
pub fn objects(plane: &ControlPlane, kind: &str, more: &[&str]) -> Result<Vec<Value>> {
    let text = plane.run(&[&["get", kind, "--output", "json"], more].concat())?;
    let list: Value = serde_json::from_str(&text)?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

/// Fails unless some Event has a reason.
pub fn ensure_event(plane: &ControlPlane, reason: &str) -> Result<()> {
    let events = objects(plane, "events", &[])?;
    let is_there = events.iter().any(|event| event["reason"] == reason);
    ensure!(is_there, "no Event says {reason}");
    Ok(())
}

/// The instance that a provider ID names.
pub fn instance_of(provider_id: &str) -> &str {
    provider_id.rsplit('/').next().unwrap_or_default()
}

/// What a path leads to in objects of a kind, or in one of `kind/name`.
pub fn get(plane: &ControlPlane, what: &str, path: &str) -> Result<String> {
    plane.run(&["get", what, "-o", &format!("jsonpath={path}")])
}

/// The same, word by word.
pub fn words(plane: &ControlPlane, what: &str, path: &str) -> Result<Vec<String>> {
    Ok(get(plane, what, path)?
        .split_whitespace()
        .map(str::to_owned)
        .collect())
}

/// Names of all objects of a kind.
pub fn names(plane: &ControlPlane, what: &str) -> Result<Vec<String>> {
    words(plane, what, "{.items[*].metadata.name}")
}

/// How many pods run.
pub fn running(plane: &ControlPlane) -> Result<usize> {
    Ok(words(
        plane,
        "pods",
        "{.items[?(@.status.phase=='Running')].metadata.name}",
    )?
    .len())
}

/// Asks for NodeClaims to be deleted.
pub fn delete_claims(plane: &ControlPlane, names: &[String]) -> Result<()> {
    let mut delete = vec!["delete", "nodeclaim", "--wait=false"];
    delete.extend(names.iter().map(String::as_str));
    plane.run(&delete).map(drop)
}

/// The identity that the Lease names as its holder.
pub fn holder(plane: &ControlPlane) -> Result<String> {
    let path = "jsonpath={.spec.holderIdentity}";
    plane.run(&[
        "-n",
        "kube-system",
        "get",
        "lease",
        "karpenter-leader-election",
        "-o",
        path,
    ])
}
