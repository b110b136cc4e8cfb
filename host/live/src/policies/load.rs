//! Loads a configured policy: read, compiled, described, configured, and validated on the previous
//! score requests. Every failure has a stage, a reason and a hint.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use longshore_files::MAX_TEXT_BYTES;
use longshore_policy::golden::{self, Golden, GoldenError};
use longshore_policy::{
    Ability, CallError, Host, LoadError, LoadedPolicy, MAX_COMPONENT_BYTES, ROUND_TIME,
    ScoreRequest, Session, Signals,
};
use sha2::{Digest as _, Sha256};

use super::bundles::Bundles;
use super::diff::{Fingerprint, PolicySlot};
use super::files::Files;
use super::shipped;
use crate::config::toml_of;
use crate::config::{Config, PolicyEntry, PolicySource, parse, parse_settings};
use crate::error::Failure;
use crate::policies::grants::not_granted;
use crate::status::policies::Problem;
use longshore_report::hex::hex;

/// The files of one policy as they are.
pub struct Read {
    /// What makes it this version.
    pub version: Fingerprint,
    /// The bytes of the component's file.
    pub bytes: Arc<Vec<u8>>,
}

/// Reads the configuration, and its text.
pub fn config(file: &Path) -> Result<(Config, String), Failure> {
    let text = text(file)?;
    let config = parse(file, &text).map_err(Failure::Config)?;
    Ok((config, text))
}

fn text(file: &Path) -> Result<String, Failure> {
    longshore_files::read_text(file, MAX_TEXT_BYTES).map_err(|source| Failure::Read {
        file: file.into(),
        source,
    })
}

/// The slot of an entry of the configuration: name, mode and NodePools.
pub fn slot(entry: &PolicyEntry) -> PolicySlot {
    PolicySlot {
        name: entry.name.clone(),
        mode: entry.mode,
        nodepools: entry.nodepools.clone(),
    }
}

/// The version of a policy as the files have it. The component is not read if what its watched file
/// holds is known, or what its reference leads to.
pub fn identify(
    entry: &PolicyEntry,
    files: &Files,
    bundles: &Bundles,
) -> Result<Fingerprint, Problem> {
    let digest = match &entry.source {
        PolicySource::File(path) => files.digest(path),
        PolicySource::Expression => Some(shipped::digest()),
        PolicySource::Bundle(_) => Some(bundles.digest(entry)?),
    };
    match digest {
        Some(digest) => Ok(Fingerprint {
            digest,
            settings: toml_of(&settings(entry)?),
            terms: entry.terms(),
        }),
        // The failure, in words.
        None => read(entry, bundles).map(|read| read.version),
    }
}

fn settings(entry: &PolicyEntry) -> Result<serde_json::Value, Problem> {
    match &entry.settings_file {
        None => Ok(entry.settings.clone()),
        Some(file) => text(file)
            .and_then(|text| parse_settings(file, &text).map_err(Failure::Config))
            .map_err(failed),
    }
}

/// Reads the files of a policy, and its component where its reference was found.
pub fn read(entry: &PolicyEntry, bundles: &Bundles) -> Result<Read, Problem> {
    let settings = settings(entry)?;
    let problem = |reason: String, hint: &str| Problem {
        place: entry.source.to_string(),
        reason,
        hint: hint.into(),
    };
    let bytes = match &entry.source {
        PolicySource::File(path) => {
            let said = |error| {
                let hint = "check `path`, and that the daemon's user may read the file";
                problem(format!("cannot be read: {error}"), hint)
            };
            Arc::new(longshore_files::read(path, MAX_COMPONENT_BYTES).map_err(said)?)
        }
        PolicySource::Expression => Arc::new(shipped::CEL.to_vec()),
        PolicySource::Bundle(_) => bundles.component(entry).ok_or_else(|| {
            let reason = "it is no longer on this machine, and is fetched again";
            problem(reason.into(), "")
        })?,
    };
    Ok(Read {
        version: Fingerprint {
            digest: hex(&Sha256::digest(&*bytes)),
            settings: toml_of(&settings),
            terms: entry.terms(),
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
) -> Result<LoadedPolicy, Unusable> {
    let place = entry.source.to_string();
    // A compiler's defect must not stop all later reloads.
    let loaded = catch_unwind(AssertUnwindSafe(|| {
        let version = &read.version;
        host.load_bytes(
            &version.terms,
            Path::new(&place),
            &read.bytes,
            Some(&version.settings),
        )
    }));
    let policy = match loaded {
        Ok(Ok(policy)) => policy,
        Ok(Err(error)) => {
            return Err(Unusable {
                may_go_by: error.may_go_by(),
                problem: refused(config, entry, place, &error),
            });
        }
        Err(_) => {
            let hint = "a defect of Longshore: please report it with the component".into();
            return Err(Unusable::from(Problem {
                place,
                reason: "compiling it panics".into(),
                hint,
            }));
        }
    };
    vectors(&policy, &read.bytes, entry)?;
    let asked = policy.is_scorer() || policy.is_consolidation();
    if asked || (boots && policy.is_bootstrap()) {
        return Ok(policy);
    }
    if policy.is_bootstrap() {
        return Err(Unusable::from(Problem {
            place,
            reason: "it says what nodes boot with, and nodes do not come from EC2".into(),
            hint: "run with `--provider aws`, or take it out of the configuration".into(),
        }));
    }
    let (reason, hint) = not_granted(&policy);
    Err(Unusable::from(Problem {
        place,
        reason,
        hint,
    }))
}

/// A component that does not answer as it says of itself is not used. One that says nothing is.
fn vectors(policy: &LoadedPolicy, bytes: &[u8], entry: &PolicyEntry) -> Result<(), Unusable> {
    match golden::check(policy, bytes) {
        Ok(Golden::Missing) if policy.is_scorer() && entry.source != PolicySource::Expression => {
            tracing::info!(policy = entry.name, "its component has no golden vectors");
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(error) => Err(Unusable {
            may_go_by: matches!(
                error,
                GoldenError::Unmet {
                    may_go_by: true,
                    ..
                }
            ),
            problem: Problem {
                place: entry.source.to_string(),
                reason: error.to_string(),
                hint: format!("build it again; {} asks them too", check(entry)),
            },
        }),
    }
}

/// What a version wants beyond the one that runs, where the operator's file does not say whether it
/// may: that waits for consent.
pub fn without_consent(
    policy: &LoadedPolicy,
    entry: &PolicyEntry,
    running: &LoadedPolicy,
) -> Result<(), Unusable> {
    let news = |now: &[String], before: &[String]| -> Vec<String> {
        now.iter()
            .filter(|name| !before.contains(name))
            .cloned()
            .collect()
    };
    let (now, before) = (policy.about(), running.about());
    let mut wants = Vec::new();
    let mut hints = Vec::new();
    if entry.grants.is_none() {
        let withheld = policy.not_granted();
        let mut asked = news(&now.implements, &before.implements);
        asked.retain(|name| !withheld.iter().any(|ability| ability.name() == name));
        if !asked.is_empty() {
            wants.push(format!("export {}", asked.join(", ")));
            hints.push(format!("`grants = {:?}`", names_of(&policy.terms().grants)));
        }
    }
    let names = now.signal_names();
    let signals = news(&names, &before.signal_names());
    if entry.signals.is_none() && !signals.is_empty() {
        wants.push(format!("signal {}", signals.join(", ")));
        hints.push(format!("`signals = {names:?}`"));
    }
    if wants.is_empty() {
        return Ok(());
    }
    Err(Unusable::from(Problem {
        place: entry.source.to_string(),
        reason: format!(
            "it wants more than the version that runs: {}; it waits for consent",
            wants.join("; ")
        ),
        hint: format!(
            "if that is meant, write {} into its entry",
            hints.join(" and ")
        ),
    }))
}

fn names_of(grants: &BTreeSet<Ability>) -> Vec<&'static str> {
    grants.iter().map(|ability| ability.name()).collect()
}

/// Why a version is not used.
pub struct Unusable {
    /// Where it fails, why, and what can be done.
    pub problem: Problem,
    /// It is for want of time or memory, so that it is tried again though no file has changed.
    pub may_go_by: bool,
}

impl From<Problem> for Unusable {
    fn from(problem: Problem) -> Self {
        Unusable {
            problem,
            may_go_by: false,
        }
    }
}

/// The command that inspects its component.
fn check(entry: &PolicyEntry) -> String {
    match &entry.source {
        PolicySource::File(path) => format!("`longshore policy check {}`", path.display()),
        PolicySource::Expression => "`longshore policy check --cel EXPRESSION`".into(),
        PolicySource::Bundle(reference) => {
            format!("`longshore policy check --config FILE {reference}`")
        }
    }
}

fn refused(config: &Path, entry: &PolicyEntry, place: String, error: &LoadError) -> Problem {
    let mut reason = match error {
        LoadError::Settings { problem, .. } => {
            let place = match &entry.settings_file {
                Some(file) => file.display().to_string(),
                None => format!("{}:{}", config.display(), entry.line),
            };
            let hint = format!("{} lists the settings that it takes", check(entry));
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
    let hint = format!("{} says what it is and wants", check(entry));
    Problem {
        place,
        reason,
        hint,
    }
}

/// A version is tried for this many NodePools at most.
const MAX_TRIALS: usize = 16;

/// Sends a version the score requests of the last round for its NodePools, or for all if it had
/// none. Without a last round it passes, and so does one that scores nothing.
pub fn validate(
    policy: &LoadedPolicy,
    entry: &PolicyEntry,
    asked: &[ScoreRequest],
    signals: &Arc<Signals>,
) -> Result<(), Unusable> {
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
    let begun = Instant::now();
    for question in questions.into_iter().take(MAX_TRIALS) {
        let answer = Session::of(policy, &question.with_signals(signals))
            .and_then(|mut session| session.ask());
        let problem = |reason: String| Problem {
            place: entry.source.to_string(),
            reason: format!(
                "asked what the last round asked for NodePool {} ({} offerings): {reason}",
                question.node_pool(),
                question.offerings()
            ),
            hint: "try it with `longshore plan --scorer` on files".into(),
        };
        answer.map_err(|error| Unusable {
            problem: problem(error.to_string()),
            may_go_by: matches!(error, CallError::Time { .. } | CallError::Signal { .. }),
        })?;
        if begun.elapsed() > ROUND_TIME {
            let reason = format!("it takes more than {} s in a round", ROUND_TIME.as_secs());
            return Err(Unusable {
                problem: problem(reason),
                may_go_by: true,
            });
        }
    }
    Ok(())
}
