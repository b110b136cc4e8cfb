//! Test programs, built by one call of cargo and run side by side.
//!
//! Tests on a real control plane wait for most of their time, and the others compute. So there are
//! three lanes: the suite of Karpenter's specs, the other suites with a control plane, and the rest
//! at a lower priority, so that it does not slow the clusters down.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use anyhow::bail;
use serde_json::Value;

use crate::commands;

/// Suites that assert wall-clock time. They run first, with nothing beside them.
const ALONE: [&str; 1] = ["hostile_pods"];
/// A program whose suites run as programs of their own: their names come before `::` in those of its
/// tests.
const OF_SUITES: &str = "clusters";
/// Suites with a control plane, by lane.
const WITH_CONTROL_PLANE: [&[&str]; 2] = [
    &["regression"],
    &[
        "operation",
        "deaths",
        "deleted_leader",
        "journal_live",
        "repair",
        "disruption_live",
        "overlays_live",
        "bundles_live",
        "one_pod_live",
        "tight",
        "crd_server",
        "contract",
        "control_plane",
    ],
];

/// A test program.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The target's name in cargo.
    name: String,
    /// As cargo announces it: `tests/stop.rs`.
    source: String,
    path: PathBuf,
    /// The only tests that it runs: `repair::`.
    filter: Option<String>,
    /// The package's folder, where it runs.
    folder: PathBuf,
}

impl Program {
    /// From a line of cargo's messages; nothing for messages about other things.
    fn read(line: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_test = message["profile"]["test"] == true;
        let path = message["executable"].as_str().filter(|_| is_test)?;
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
        let source = Path::new(message["target"]["src_path"].as_str()?);
        Some(Program {
            name: message["target"]["name"].as_str()?.to_owned(),
            source: source
                .strip_prefix(folder)
                .unwrap_or(source)
                .display()
                .to_string(),
            path: path.into(),
            filter: None,
            folder: folder.into(),
        })
    }

    /// A program for each of its suites, of the tests that it lists: `repair::nodes: test`.
    fn split(self, list: &str) -> Vec<Self> {
        let suites = list
            .lines()
            .filter_map(|line| line.strip_suffix(": test")?.split_once("::"));
        let suites: BTreeSet<&str> = suites.map(|(suite, _)| suite).collect();
        let program = |suite: &str| Program {
            name: suite.to_owned(),
            source: format!("{} {suite}", self.source),
            filter: Some(format!("{suite}::")),
            ..self.clone()
        };
        suites.into_iter().map(program).collect()
    }

    fn command(&self, low_priority: bool) -> Command {
        let mut command = if low_priority && cfg!(unix) {
            let mut nice = Command::new("nice");
            nice.args(["-n", "10"]).arg(&self.path);
            nice
        } else {
            Command::new(&self.path)
        };
        command
            .args(&self.filter)
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }

    /// Runs it to its end. Its output comes in one piece, after the line with which cargo announces
    /// a suite.
    fn run(&self, low_priority: bool) -> anyhow::Result<(bool, String)> {
        let (mut child, mut lines) = commands::spawn_merged(self.command(low_priority))?;
        let mut bytes = Vec::new();
        lines.read_to_end(&mut bytes)?;
        let passed = child.wait()?.success();
        let announced = format!("     Running {} ({})", self.source, self.path.display());
        let text = format!("{announced}\n{}", String::from_utf8_lossy(&bytes));
        Ok((passed, text))
    }
}

/// The lanes of programs: the first runs alone, then all others beside each other.
fn lanes(mut programs: Vec<Program>) -> (Vec<Program>, Vec<Vec<Program>>) {
    let mut take = |names: &[&str]| {
        // In the order of the names, so that the longest begins first.
        let found = names.iter().flat_map(|name| {
            programs
                .extract_if(.., |program| program.name == *name)
                .collect::<Vec<_>>()
        });
        found.collect::<Vec<_>>()
    };
    let alone = take(&ALONE);
    let mut lanes: Vec<_> = WITH_CONTROL_PLANE.iter().map(|names| take(names)).collect();
    lanes.push(programs);
    (alone, lanes)
}

/// Builds all test programs of the workspace but those with the SDK of AWS.
///
/// # Errors
/// One that cannot be built.
pub fn build() -> anyhow::Result<Vec<Program>> {
    let mut build = commands::cargo(&[
        "test",
        "--workspace",
        super::WITHOUT_SDK[0],
        super::WITHOUT_SDK[1],
        "--no-run",
        "--message-format",
        "json-render-diagnostics",
    ]);
    build.stderr(std::process::Stdio::inherit());
    let messages = commands::output(build)?;
    let messages = String::from_utf8_lossy(&messages).into_owned();
    let mut programs = Vec::new();
    for program in messages.lines().filter_map(Program::read) {
        if program.name == OF_SUITES {
            let mut list = program.command(false);
            list.args(["--list", "--format", "terse"]);
            let list = commands::output(list)?;
            programs.extend(program.split(&String::from_utf8_lossy(&list)));
        } else {
            programs.push(program);
        }
    }
    Ok(programs)
}

/// Runs programs to their end, also after one has failed, and prints the output of each when it has
/// ended. Returns the lines that `keep` wants.
///
/// # Errors
/// The programs that failed.
pub fn run(programs: Vec<Program>, keep: impl Fn(&str) -> bool) -> anyhow::Result<Vec<String>> {
    let (alone, lanes) = lanes(programs);
    let lines: Mutex<Vec<String>> = Mutex::default();
    let failed: Mutex<Vec<String>> = Mutex::default();
    let ended = |program: &Program, low_priority: bool| {
        let (passed, text) = program
            .run(low_priority)
            .unwrap_or_else(|error| (false, format!("{error:#}")));
        println!("{}", text.trim_end());
        lock(&lines).extend(text.lines().map(str::to_owned));
        if !passed {
            lock(&failed).push(program.source.clone());
        }
    };
    alone.iter().for_each(|program| ended(program, false));
    std::thread::scope(|scope| {
        for (number, lane) in lanes.iter().enumerate() {
            let ended = &ended;
            scope.spawn(move || {
                let computes = number == WITH_CONTROL_PLANE.len();
                lane.iter().for_each(|program| ended(program, computes));
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_default();
    if !failed.is_empty() {
        bail!("these test programs failed: {}", failed.join(", "));
    }
    let lines = lines.into_inner().unwrap_or_default();
    Ok(lines.into_iter().filter(|line| keep(line)).collect())
}

/// What a panicked lane has left is as good as before.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str) -> Program {
        let line = format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/w/host/daemon/Cargo.toml","target":{{"name":"{name}",
            "src_path":"/w/host/daemon/tests/{name}.rs"}},"profile":{{"test":true}},"executable":"/t/{name}-0f"}}"#
        );
        Program::read(&line).unwrap()
    }

    #[test]
    fn programs_are_read_from_the_messages_of_cargo() {
        let stop = program("stop");
        assert_eq!(stop.source, "tests/stop.rs");
        assert_eq!(stop.folder, Path::new("/w/host/daemon"));
        for other in [
            r#"{"reason":"build-finished","success":true}"#,
            r#"{"profile":{"test":false},"executable":"/t/longshore"}"#,
            r#"{"profile":{"test":true},"executable":null}"#,
            "warning: not a message",
        ] {
            assert_eq!(Program::read(other), None, "{other}");
        }
    }

    #[test]
    fn suites_of_one_program_run_as_programs_of_their_own() {
        let list =
            "repair::a_node: test\nrepair::two_nodes: test\ntakeover::helm: test\n\n3 tests\n";
        let suites = program(OF_SUITES).split(list);
        let names: Vec<_> = suites.iter().map(|suite| &*suite.name).collect();
        assert_eq!(names, ["repair", "takeover"]);
        assert_eq!(suites[0].source, "tests/clusters.rs repair");
        assert_eq!(suites[0].filter.as_deref(), Some("repair::"));
        assert_eq!(suites[0].path, suites[1].path);
    }

    #[test]
    fn suites_with_a_control_plane_have_lanes_of_their_own() {
        let names = ["deaths", "seeds", "regression", "hostile_pods", "operation"];
        let (alone, lanes) = lanes(names.map(program).into());
        let names = |lane: &[Program]| -> Vec<String> {
            lane.iter().map(|program| program.name.clone()).collect()
        };
        assert_eq!(names(&alone), ["hostile_pods"]);
        let lanes: Vec<_> = lanes.iter().map(|lane| names(lane)).collect();
        let expected: [&[&str]; 3] = [&["regression"], &["operation", "deaths"], &["seeds"]];
        assert_eq!(lanes, expected);
    }

    #[test]
    fn every_suite_that_has_a_lane_exists() {
        let all = ALONE
            .iter()
            .chain(WITH_CONTROL_PLANE.iter().copied().flatten());
        for name in all {
            let found = ["api", "daemon", "ec2", "sim", "simcluster", "xtask"]
                .iter()
                .any(|package| {
                    let tests = longshore_xtask::guests::root()
                        .join("host")
                        .join(package)
                        .join("tests");
                    tests.join(format!("{name}.rs")).is_file() || tests.join(name).is_dir()
                });
            assert!(found, "no suite is called {name}");
        }
    }
}
