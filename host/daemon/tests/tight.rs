//! The daemon with a policy in Python in 512 MiB, on a core that something else keeps busy. Run where
//! `LONGSHORE_TIGHT` is set, alone.
#![allow(clippy::print_stdout, reason = "figures, for a person that runs it")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use longshore_xtask::control_plane::{self, ControlPlane};
use longshore_xtask::guests::EXAMPLES;

use crate::plane::{Daemon, Suite, deployment, holder, running, until, usual_pool, within};

/// What the charts give a container.
const MEMORY: &str = "536870912";

pub fn suite() -> Suite {
    let suite = Suite::empty("tight", Some(1));
    // Its minute is on the clock, which suites beside it use up: by night, or where it is asked for.
    let is_asked_for = std::env::var_os("LONGSHORE_TIGHT").is_some();
    let missing = !is_asked_for
        || control_plane::tests_are_ignored()
        || Group::new("probe").is_err()
        || python().is_none();
    suite.test(
        "a_python_policy_starts_in_512_mib_on_a_busy_core_and_compiles_once",
        missing,
        started,
    )
}

/// The example in Python, if it can be built.
fn python() -> Option<&'static longshore_xtask::guests::Example> {
    let python = EXAMPLES
        .iter()
        .find(|example| example.language == "python")?;
    python.missing().is_none().then_some(python)
}

/// Cgroups of a container; removed when dropped. Containers share a core by group: what is nice in one
/// yields to its own group alone.
struct Group(Vec<PathBuf>);

impl Group {
    fn new(name: &str) -> Result<Self> {
        let name = format!("longshore-{name}-{}", std::process::id());
        let root = Path::new("/sys/fs/cgroup");
        let has_two = root.join("cgroup.controllers").exists();
        let (folders, limit) = match has_two {
            true => (vec![root.join(&name)], "memory.max"),
            false => (
                ["memory", "cpu"].map(|of| root.join(of).join(&name)).into(),
                "memory.limit_in_bytes",
            ),
        };
        let mut group = Group(Vec::new());
        for folder in folders {
            std::fs::create_dir(&folder)?;
            group.0.push(folder);
        }
        std::fs::write(group.0[0].join(limit), MEMORY)?;
        Ok(group)
    }

    /// How often the kernel has killed something in it.
    fn kills(&self) -> Result<u64> {
        let texts = ["memory.events", "memory.oom_control"];
        let text = texts
            .iter()
            .find_map(|name| std::fs::read_to_string(self.0[0].join(name)).ok());
        let text = text.context("the group tells nothing")?;
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        Ok(line.map_or(Ok(0), str::parse)?)
    }

    /// Runs what is added to it in this group, on the first core.
    fn command(&self) -> Command {
        let mut command = Command::new("/bin/sh");
        let script = "while [ \"$1\" != -- ]; do echo $$ > \"$1/cgroup.procs\" || exit 1; shift; done; \
                      shift; exec taskset -c 0 \"$@\"";
        command.args(["-c", script, "sh"]).args(&self.0).arg("--");
        command
    }

    fn daemon(&self, plane: &ControlPlane, config: &Path) -> Result<Daemon> {
        let mut command = self.command();
        command.arg(env!("CARGO_BIN_EXE_longshore"));
        let config = config.to_str().context("a path")?;
        Daemon::spawn(
            command,
            &plane.longshore_kubeconfig(),
            &["--config", config],
        )
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.0.iter().for_each(|folder| {
            let _ = std::fs::remove_dir(folder);
        });
    }
}

/// Another container that keeps the core busy; ended when dropped.
struct Busy {
    child: Child,
    _group: Group,
}

impl Busy {
    fn new() -> Result<Self> {
        let group = Group::new("busy")?;
        let mut command = group.command();
        command.args(["sh", "-c", "while :; do :; done"]);
        Ok(Busy {
            child: command.stdout(Stdio::null()).spawn()?,
            _group: group,
        })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn started() -> Result<()> {
    let component = python().context("a Python")?.build()?;
    let plane = ControlPlane::start("tight")?;
    plane.apply(&usual_pool())?;
    let folder = std::env::temp_dir().join(format!("longshore-tight-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    let config = folder.join("longshore.toml");
    let cache = folder.join("cache");
    let text = format!(
        "[cache]\ndir = '{}'\n[[policy]]\nname = 'python'\npath = '{}'\n",
        cache.display(),
        component.display()
    );
    std::fs::write(&config, text)?;
    let (group, _busy) = (Group::new("tight")?, Busy::new()?);

    let begun = Instant::now();
    let mut daemon = group.daemon(&plane, &config)?;
    within(60, Duration::from_millis(300), "it leads", || {
        Ok(!holder(&plane)?.is_empty())
    })?;
    let led = begun.elapsed();
    until("the policy answers", || is_active(&daemon))?;
    let first = begun.elapsed();
    ensure!(daemon.child.try_wait()?.is_none(), "{}", daemon.log()?);
    plane.apply(&deployment("web", 3, ""))?;
    until("pods run", || Ok(running(&plane)? == 3))?;
    drop(daemon);

    let compiled = code(&cache)?;
    ensure!(compiled.len() == 1, "{compiled:?}");
    let begun = Instant::now();
    let daemon = group.daemon(&plane, &config)?;
    until("the policy answers again", || is_active(&daemon))?;
    let second = begun.elapsed();
    ensure!(code(&cache)? == compiled, "it was compiled again");
    ensure!(second < first, "{second:?}, and {first:?} with compiling");
    ensure!(group.kills()? == 0, "the kernel has killed something");
    println!("leads after {led:?}; answers after {first:?}, and {second:?} the second time");
    drop(daemon);
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// Whether the policy at work is the one that is configured.
fn is_active(daemon: &Daemon) -> Result<bool> {
    let url = format!("http://127.0.0.1:{}/metrics", daemon.port);
    let text = ureq::get(&url).call()?.body_mut().read_to_string()?;
    Ok(text.contains("longshore_policy_info{") && !daemon.log()?.contains("PolicyRefused"))
}

/// Compiled code, with the time that it was written.
fn code(cache: &Path) -> Result<Vec<(PathBuf, std::time::SystemTime)>> {
    let mut found = Vec::new();
    let mut folders = vec![cache.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|of| of == "cwasm") {
                found.push((path.clone(), path.metadata()?.modified()?));
            }
        }
    }
    Ok(found)
}
