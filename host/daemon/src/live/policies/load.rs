//! Loads a configured policy: read, compiled, described, configured, and validated on the previous
//! score requests. Every failure has a stage, a reason and a hint.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use longshore_policy::{Host, LoadError, LoadedPolicy, ScoreRequest, Session, Signals};
use sha2::{Digest as _, Sha256};

use super::diff::{Fingerprint, PolicySlot};
use super::files::{self, MAX_FILE_BYTES};
use super::status::Problem;
use crate::config::{Config, PolicyEntry, parse, parse_settings};
use crate::error::Failure;
use crate::policies::toml_of;

/// The largest configuration or settings file.
const TEXT: u64 = 4 << 20;

/// The files of one policy as they are.
pub struct Read {
    /// What makes it this version.
    pub version: Fingerprint,
    /// The component.
    pub bytes: Vec<u8>,
}

/// Reads the configuration.
pub fn config(file: &Path) -> Result<Config, Failure> {
    parse(file, &text(file)?).map_err(Failure::Config)
}

fn text(file: &Path) -> Result<String, Failure> {
    let fails = |source| Failure::Read {
        file: file.into(),
        source,
    };
    let bytes = files::read(file, TEXT).map_err(fails)?;
    String::from_utf8(bytes)
        .map_err(|error| fails(std::io::Error::new(std::io::ErrorKind::InvalidData, error)))
}

/// Whom a policy serves.
pub fn slot(entry: &PolicyEntry) -> PolicySlot {
    PolicySlot {
        name: entry.name.clone(),
        mode: entry.mode,
        nodepools: entry.nodepools.clone(),
    }
}

/// Reads the files of a policy.
pub fn read(entry: &PolicyEntry) -> Result<Read, Problem> {
    let settings = match &entry.settings_file {
        None => entry.settings.clone(),
        Some(file) => text(file)
            .and_then(|text| parse_settings(file, &text).map_err(Failure::Config))
            .map_err(failed)?,
    };
    let bytes = files::read(&entry.path, MAX_FILE_BYTES).map_err(|error| Problem {
        place: entry.path.display().to_string(),
        reason: format!("cannot be read: {error}"),
        hint: "check `path`, and that the daemon's user may read the file".into(),
    })?;
    let digest = Sha256::digest(&bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(Read {
        version: Fingerprint {
            digest,
            settings: toml_of(&settings),
        },
        bytes,
    })
}

/// The kind of failure of a file.
pub fn failed(failure: Failure) -> Problem {
    match &failure {
        Failure::Config(faults) if !faults.is_empty() => {
            let more = match faults.len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            let first = &faults[0];
            Problem {
                place: first.place(),
                reason: format!("{}{more}", first.message()),
                hint: first.hint().to_owned(),
            }
        }
        Failure::Read { file, source } => Problem {
            place: file.display().to_string(),
            reason: format!("cannot be read: {source}"),
            hint: "check the path, and that the daemon's user may read the file".into(),
        },
        Failure::Input { file, reason, hint } => Problem {
            place: file.display().to_string(),
            reason: reason.clone(),
            hint: hint.clone(),
        },
        other => Problem {
            place: String::new(),
            reason: other.report(),
            hint: String::new(),
        },
    }
}

/// Makes a version ready: compiles, verifies and configures it. `boots`: something asks what nodes
/// boot with.
pub fn load(
    host: &Host,
    config: &Path,
    entry: &PolicyEntry,
    read: &Read,
    boots: bool,
) -> Result<LoadedPolicy, Problem> {
    let place = entry.path.display().to_string();
    // A compiler's defect must not stop all later reloads.
    let loaded = catch_unwind(AssertUnwindSafe(|| {
        host.load_bytes(&entry.path, &read.bytes, Some(&read.version.settings))
    }));
    let policy = match loaded {
        Ok(Ok(policy)) => policy,
        Ok(Err(error)) => return Err(refused(config, entry, place, &error)),
        Err(_) => {
            let hint = "a defect of Longshore: please report it with the component".into();
            return Err(Problem {
                place,
                reason: "compiling it panics".into(),
                hint,
            });
        }
    };
    let asked = policy.is_scorer() || policy.is_consolidation();
    if asked || (boots && policy.is_bootstrap()) {
        return Ok(policy);
    }
    if policy.is_bootstrap() {
        return Err(Problem {
            place,
            reason: "it says what nodes boot with, and nodes do not come from EC2".into(),
            hint: "run with `--provider aws`, or take it out of the configuration".into(),
        });
    }
    let reason = format!(
        "it implements {}, which is not asked yet",
        policy.about().implements.join(", ")
    );
    Err(Problem {
        place,
        reason,
        hint: "scorers, their commitments, consolidation and bootstrap policies are asked in this \
               version"
            .into(),
    })
}

fn refused(config: &Path, entry: &PolicyEntry, place: String, error: &LoadError) -> Problem {
    let mut reason = match error {
        LoadError::Settings { problem, .. } => {
            let place = match &entry.settings_file {
                Some(file) => file.display().to_string(),
                None => format!("{}:{}", config.display(), entry.line),
            };
            let hint = format!(
                "`longshore policy check {}` lists the settings that it takes",
                entry.path.display()
            );
            return Problem {
                place,
                reason: format!("settings: {problem}"),
                hint,
            };
        }
        LoadError::Refused { refusal, .. } => refusal.to_string(),
        other => other.to_string(),
    };
    let mut cause = match error {
        LoadError::Refused { refusal, .. } => std::error::Error::source(refusal),
        other => std::error::Error::source(other),
    };
    while let Some(error) = cause {
        reason = format!("{reason}: {error}");
        cause = error.source();
    }
    let hint = format!(
        "`longshore policy check {}` says what it is and wants",
        entry.path.display()
    );
    Problem {
        place,
        reason,
        hint,
    }
}

/// A version is tried for this many NodePools at most.
const TRIALS: usize = 16;

/// Sends a version the score requests of the last round for its NodePools, or for all if it had
/// none. Without a last round it passes, and so does one that scores nothing.
pub fn validate(
    policy: &LoadedPolicy,
    entry: &PolicyEntry,
    asked: &[ScoreRequest],
    signals: &Arc<Signals>,
) -> Result<(), Problem> {
    if !policy.is_scorer() {
        return Ok(());
    }
    let named = |q: &&ScoreRequest| {
        entry
            .nodepools
            .as_ref()
            .is_none_or(|names| names.iter().any(|n| n == q.node_pool()))
    };
    let mut questions: Vec<&ScoreRequest> = asked.iter().filter(named).collect();
    if questions.is_empty() {
        questions = asked.iter().collect();
    }
    for question in questions.into_iter().take(TRIALS) {
        let answer = Session::of(policy, &question.with_signals(signals))
            .and_then(|mut session| session.ask());
        answer.map_err(|error| Problem {
            place: entry.path.display().to_string(),
            reason: format!(
                "asked what the last round asked for NodePool {} ({} offerings): {error}",
                question.node_pool(),
                question.offerings()
            ),
            hint: "try it with `longshore plan --scorer` on files".into(),
        })?;
    }
    Ok(())
}
