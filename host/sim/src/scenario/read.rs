//! `SCENARIO.toml`: its keys, and every message about it.
//!
//! As strict as the daemon's configuration, with the same reader: an error names file, line and
//! column, says what was expected and gives a hint. Unknown keys are errors. All errors are
//! reported at once. Contradictions (a load on nothing, an event after the end) are errors too.
//! Paths are relative to the file's folder.

mod cloud;
#[cfg(feature = "aws")]
mod ec2;
mod events;
mod files;
mod known;
mod pools;
mod values;
mod workloads;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use longshore_files::MAX_TEXT_BYTES;
use longshore_live::config::reader::{ConfigError, Document, Table};
use longshore_live::config::{self, Config};
use longshore_live::error::Failure;
use longshore_report::count;

use super::policy::Policy;
use super::{Daemon, Scenario, VERSION};
use known::ScenarioBasics;
use values::{MAX_SCENARIO, MIN_SCENARIO};

/// Why there is no scenario.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// It says something that makes no sense.
    #[error("the scenario has {}", count(.0.len(), "fault"))]
    Faults(Vec<ConfigError>),
    /// A file of it cannot be used at all.
    #[error(transparent)]
    Failure(#[from] Failure),
}

impl Unread {
    /// All of it, over several lines.
    pub fn report(&self) -> String {
        match self {
            Unread::Faults(faults) => faults
                .iter()
                .fold(self.to_string(), |text, fault| format!("{text}\n  {fault}")),
            Unread::Failure(failure) => failure.report(),
        }
    }
}

/// 2026-01-05T00:00:00Z, a Monday.
const MONDAY: Timestamp = Timestamp::constant(1_767_571_200, 0);

/// Reads a scenario.
///
/// # Errors
/// The file cannot be read, or has faults.
pub fn read(file: &Path) -> Result<Scenario, Unread> {
    let text =
        longshore_files::read_text(file, MAX_TEXT_BYTES).map_err(|source| Failure::Read {
            file: file.into(),
            source,
        })?;
    parse(file, &text)
}

/// Reads `text`, the content of `file`.
///
/// # Errors
/// All faults, in the order of the file.
pub fn parse(file: &Path, text: &str) -> Result<Scenario, Unread> {
    let document = Document::new(file, text);
    let folder = file.parent().unwrap_or(Path::new("")).to_owned();
    let mut read = None;
    if let Some(mut root) = document.root()
        // Of a format that is not known, no other key is known either.
        && version(&mut root)
    {
        read = Some(scenario(&mut root, file, &folder)?);
        root.finish();
    }
    let read = document.end(read).map_err(Unread::Faults)?;
    read.ok_or_else(|| Unread::Faults(Vec::new()))
}

fn version(root: &mut Table) -> bool {
    if !root.has("version") {
        root.missing("version", &VERSION.to_string());
    }
    match root.count("version") {
        Some(newer) if newer > VERSION => {
            let message =
                format!("`version` is {newer}: this program reads scenarios of version {VERSION}");
            root.fault_at(
                "version",
                message,
                "the file was written for a newer Longshore: take that one".into(),
            );
            false
        }
        Some(0) => {
            root.fault_at(
                "version",
                "`version` is 0: expected 1".into(),
                "write `version = 1`".into(),
            );
            false
        }
        _ => true,
    }
}

/// Where nodes come from.
#[derive(Clone, Copy)]
enum Provider {
    Kwok,
    Aws,
}

fn scenario(root: &mut Table, file: &Path, folder: &Path) -> Result<Scenario, Failure> {
    let stem = file
        .file_stem()
        .unwrap_or(file.as_os_str())
        .to_string_lossy();
    let name = root.text("name").unwrap_or(&stem).to_owned();
    if !root.has("duration") {
        root.missing("duration", "\"7d\"");
    }
    let duration = root
        .duration("duration", MIN_SCENARIO..=MAX_SCENARIO)
        .unwrap_or(MAX_SCENARIO);
    let begins = begins(root);
    let seed = root.count("seed").unwrap_or(1);
    let step = root.duration("step", MIN_SCENARIO..=duration);
    let on_ec2 = provider(root);
    let types = match on_ec2 {
        true => Arc::default(),
        false => files::types(root, folder)?,
    };
    #[cfg(feature = "aws")]
    let mut ec2 = on_ec2.then(|| ec2::account(root, folder));
    #[cfg(feature = "aws")]
    let offerings = match &ec2 {
        Some(options) => files::Offerings::named(ec2::offerings(options)),
        None => files::Offerings::of(&types),
    };
    #[cfg(not(feature = "aws"))]
    let offerings = files::Offerings::of(&types);
    let daemon = root.table("daemon").map_or_else(Daemon::default, daemon);
    let known = ScenarioBasics {
        folder,
        duration,
        offerings,
        replicas: daemon.replicas,
        on_ec2,
    };
    let policy = policy(root, folder);
    let mut objects = pools::pools(root, &known);
    objects.extend(files::manifests(root, folder));
    let (workloads, loads, mut events) = workloads::workloads(root, &known, &objects);
    objects.extend(workloads);
    if !objects.iter().any(|object| object["kind"] == "NodePool") {
        let hint = "add a [[nodepool]], or name a file with one in `manifests`".into();
        root.fault_at(
            "nodepool",
            "there is no NodePool: no node would ever be bought".into(),
            hint,
        );
    }
    let (cloud, faults) = cloud::disturbances(root, &known);
    #[cfg(feature = "aws")]
    if let Some(options) = &mut ec2 {
        ec2::apply(options, &cloud);
    }
    events.extend(events::events(root, &known));
    let file = file.to_owned();
    Ok(Scenario {
        file,
        name,
        duration,
        begins,
        seed,
        step,
        types,
        #[cfg(feature = "aws")]
        ec2,
        objects,
        loads,
        cloud,
        daemon,
        policy,
        faults,
        events,
    })
}

/// Whether nodes come from EC2.
fn provider(root: &mut Table) -> bool {
    let known = [("kwok", Provider::Kwok), ("aws", Provider::Aws)];
    let on_ec2 = match root.one_of("provider", &known) {
        Some(Provider::Aws) => cfg!(feature = "aws"),
        _ => return false,
    };
    if !on_ec2 {
        let hint = "build one that has it, with AWS's SDK: `cargo install --path host/sim \
                    --features aws`";
        let message = "`provider` is `aws`, and this binary was built without EC2";
        root.fault_at("provider", message.into(), hint.into());
    }
    on_ec2
}

fn begins(root: &mut Table) -> Timestamp {
    let Some(typed) = root.text("begins") else {
        return MONDAY;
    };
    let full = if typed.len() == 10 {
        format!("{typed}T00:00:00Z")
    } else {
        typed.to_owned()
    };
    full.parse().unwrap_or_else(|_| {
        let message = format!("`begins` is `{typed}`: expected a day or a moment");
        root.fault_at(
            "begins",
            message,
            "write it as `2026-01-05` or `2026-01-05T08:00:00Z`".into(),
        );
        MONDAY
    })
}

fn daemon(mut table: Table) -> Daemon {
    let default = Daemon::default();
    let hour = Duration::from_secs(3600);
    let second = Duration::from_secs(1);
    let read = Daemon {
        replicas: table
            .number(
                "replicas",
                1.0..=5.0,
                "how many processes compete for the Lease",
            )
            .unwrap_or(1.0) as u32,
        restart: table
            .duration("restart", second..=hour)
            .unwrap_or(default.restart),
        window: (
            table
                .duration("batch-idle", Duration::from_millis(100)..=hour)
                .unwrap_or(default.window.0),
            table
                .duration("batch-max", Duration::from_millis(100)..=hour)
                .unwrap_or(default.window.1),
        ),
    };
    if read.window.0 > read.window.1 {
        let message = "`batch-idle` is longer than `batch-max`".into();
        table.fault_at(
            "batch-idle",
            message,
            "the daemon waits `batch-idle` for one more pod, `batch-max` at most".into(),
        );
    }
    table.finish();
    read
}

/// The policies: `config` names a `longshore.toml`, or its tables stand in the scenario.
fn policy(root: &mut Table, folder: &Path) -> Policy {
    let inline = config::tables(root, folder);
    let policy = match root.text("config") {
        None => Policy {
            file: None,
            config: inline,
        },
        Some(typed) => {
            if inline != Config::default() {
                let message = "`config` stands beside [planning], [[policy]] or [signals]: expected one of them".into();
                root.fault_at(
                    "config",
                    message,
                    "move those tables into that file, or delete the line".into(),
                );
            }
            let read = Policy::read(&folder.join(typed));
            read.unwrap_or_else(|failure| {
                root.fault_at(
                    "config",
                    failure.report(),
                    "it is a longshore.toml as `longshore run` reads it".into(),
                );
                Policy::price()
            })
        }
    };
    if let Some((message, hint)) = policy.network() {
        root.fault_at("config", message, hint.into());
    }
    policy
}
