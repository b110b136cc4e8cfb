//! A controller as a process that is measured from outside.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use longshore_xtask::control_plane::{self, ControlPlane};

/// A program that makes nodes for pods.
pub struct ControllerKind {
    /// What tables call it.
    pub name: &'static str,
    pub program: PathBuf,
    /// Its `longshore.toml`, if it is ours and has one.
    pub config: Option<PathBuf>,
    /// Variables that it gets besides those that every controller gets.
    pub variables: &'static [(&'static str, &'static str)],
}

impl ControllerKind {
    /// Whether it is Longshore.
    fn is_ours(&self) -> bool {
        self.name == "longshore"
    }
}

/// What runs are made with.
pub struct Bench {
    pub kinds: Vec<ControllerKind>,
    pub types: PathBuf,
}

/// The body at a path of a port; nothing if the answer is not 200.
fn ask(port: u16, path: &str) -> Option<String> {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        // 1.0: the body comes in one piece.
        write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = ask().ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.lines()
        .next()?
        .ends_with(" 200 OK")
        .then(|| body.to_owned())
}

/// One that runs; killed when dropped.
pub struct Controller {
    child: Child,
    pub log: PathBuf,
    /// Where it is measured.
    metrics: u16,
    /// Where ours is asked.
    status: u16,
    /// Where it says how it is.
    probes: u16,
}

/// What it has taken so far.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Seconds of CPU.
    pub cpu: f64,
    /// In memory now, MiB.
    pub memory: f64,
    /// In memory at most, MiB.
    pub most: f64,
}

impl Controller {
    /// Starts it: with its rights by `deploy/` if it is ours, else with all rights.
    pub fn start(
        kind: &ControllerKind,
        plane: &ControlPlane,
        types: &Path,
    ) -> anyhow::Result<Self> {
        let config = if kind.is_ours() {
            plane.longshore_kubeconfig()
        } else {
            plane.other_kubeconfig()
        };
        Controller::start_at(kind, &config, types, true)
    }

    /// Starts it beside any server, to lead or to ask for the Lease first.
    pub fn start_at(
        kind: &ControllerKind,
        kubeconfig: &Path,
        types: &Path,
        leads: bool,
    ) -> anyhow::Result<Self> {
        let [metrics, probes, status] = control_plane::free_ports()?;
        let log = crate::commands::target().join(format!("bench/live-{}.log", kind.name));
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(&kind.program);
        if kind.is_ours() {
            command.arg("run");
            command.args(
                kind.config
                    .iter()
                    .flat_map(|file| [std::ffi::OsStr::new("--config"), file.as_os_str()]),
            );
        }
        let child = command
            .env("KUBECONFIG", kubeconfig)
            .env("INSTANCE_TYPES_FILE_PATH", types)
            .env("SYSTEM_NAMESPACE", "kube-system")
            .env("DISABLE_LEADER_ELECTION", leads.to_string())
            .env("METRICS_PORT", metrics.to_string())
            .env("HEALTH_PROBE_PORT", probes.to_string())
            .env("STATUS_ADDRESS", format!("127.0.0.1:{status}"))
            .envs(kind.variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {}", kind.program.display()))?;
        Ok(Controller {
            child,
            log,
            metrics,
            status,
            probes,
        })
    }

    /// What is at a path, if it answers: of the metrics port, or of the status address what is
    /// there.
    pub fn ask(&self, path: &str) -> Option<String> {
        ask(
            if path == "/metrics" {
                self.metrics
            } else {
                self.status
            },
            path,
        )
    }

    /// Whether it says that it knows everything.
    pub fn is_ready(&self) -> bool {
        ask(self.probes, "/readyz").is_some()
    }

    /// What it has taken, as the kernel counts.
    pub fn usage(&mut self) -> anyhow::Result<Usage> {
        let ended = self.child.try_wait()?;
        ensure!(
            ended.is_none(),
            "it ended; its log is {}",
            self.log.display()
        );
        let pid = self.child.id();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // After the name, which may hold spaces: state is the first, user and system time are the
        // 12th and 13th.
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap_or("")
            .split_whitespace()
            .collect();
        let ticks: f64 = fields[11..13]
            .iter()
            .filter_map(|text| text.parse::<f64>().ok())
            .sum();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let kib = |name: &str| {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .unwrap_or("");
            line.split_whitespace()
                .next()
                .and_then(|text| text.parse::<f64>().ok())
                .unwrap_or(0.0)
        };
        let tick = rustix::param::clock_ticks_per_second() as f64;
        Ok(Usage {
            cpu: ticks / tick,
            memory: kib("VmRSS:") / 1024.0,
            most: kib("VmHWM:") / 1024.0,
        })
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
