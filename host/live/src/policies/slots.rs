//! What runs for each policy of the configuration, and what a step towards another version came to.

use std::time::SystemTime;

use longshore_policy::{LoadedPolicy, OnFailure};

use super::board::PolicyBoard;
use super::diff::Fingerprint;
use super::load::Unusable;
use super::notice::NoticeKind;
use super::signals::seconds;
use crate::config::{Mode, PolicyEntry};
use crate::policies::grants::{grants_hint, unused};
use crate::status::policies::{PolicyStatus, ShadowStatus};

/// A policy of the configuration.
pub(super) struct LoadedSlot {
    pub entry: PolicyEntry,
    /// The version that runs; none if none could ever be loaded.
    pub running: Option<(Fingerprint, LoadedPolicy)>,
    /// The version that was refused last.
    pub refused: Option<Fingerprint>,
}

/// What became of one policy.
pub(super) enum SlotOutcome {
    /// The version that runs is the one wanted.
    Kept,
    /// Refused before; nothing new.
    Known,
    /// The bundle is being fetched.
    Coming,
    /// Loaded, and ready to take the place of what runs.
    Loaded(LoadedPolicy),
    /// The version cannot be used; what runs goes on.
    Refused(Unusable),
    /// Its mode in the configuration is `off`.
    Off,
}

impl SlotOutcome {
    /// Records it: in the slot, in the status, and as a notice where something has changed.
    pub fn settle(
        self,
        version: Option<Fingerprint>,
        slot: &mut LoadedSlot,
        status: &mut PolicyStatus,
        now: SystemTime,
        board: &mut PolicyBoard,
    ) {
        let name = &slot.entry.name;
        status.loading = false;
        status.fetching = false;
        match self {
            SlotOutcome::Known => {}
            SlotOutcome::Coming => status.fetching = true,
            SlotOutcome::Off => {
                slot.refused = None;
                if slot.running.take().is_some() {
                    let message = format!("policy {name} is off");
                    board.note(NoticeKind::PolicyRemoved, name, message, "");
                }
                *status = PolicyStatus {
                    name: std::mem::take(&mut status.name),
                    path: std::mem::take(&mut status.path),
                    mode: status.mode,
                    nodepools: status.nodepools.take(),
                    loads: status.loads,
                    refused: status.refused,
                    ..PolicyStatus::default()
                };
            }
            SlotOutcome::Kept => {
                slot.refused = None;
                if status.error.take().is_some() {
                    let message = format!(
                        "policy {name}: the files are those of the version that runs again"
                    );
                    board.note(NoticeKind::PolicyLoaded, name, message, "");
                }
            }
            SlotOutcome::Loaded(policy) => {
                let about = policy.about();
                let called = format!("{} {}", about.name, about.version);
                let before = status.version.replace(called.clone());
                let digest = policy.digest().to_owned();
                let instead = before.map_or(String::new(), |before| {
                    format!(" and takes the place of {before}")
                });
                let message = format!(
                    "policy {name}: {called} (sha256:{}) is ready{instead}",
                    &digest[..12]
                );
                match status.loads {
                    0 => board.note_start(NoticeKind::PolicyLoaded, name, message),
                    _ => board.note(NoticeKind::PolicyLoaded, name, message, ""),
                }
                status.implements.clone_from(&policy.about().implements);
                let not_granted = policy.not_granted();
                let names = not_granted.iter().map(|ability| ability.name().to_owned());
                status.not_granted = names.collect();
                let withheld = policy.withheld_signals().into_iter();
                status.withheld_signals = withheld.map(str::to_owned).collect();
                status.unused = unused(&policy, &slot.entry);
                if !not_granted.is_empty() {
                    let message = format!(
                        "policy {name}: it exports {}, which is not asked",
                        status.not_granted.join(", ")
                    );
                    let hint = grants_hint(&not_granted);
                    board.note(NoticeKind::PolicyNotGranted, name, message, &hint);
                }
                // Sums of another version say nothing about this one.
                board.windows.remove(name);
                status.shadow = status.shadow.take().map(|_| ShadowStatus::default());
                (status.digest, status.loaded_at, status.error) =
                    (Some(digest), Some(seconds(now)), None);
                status.loads += 1;
                slot.refused = None;
                slot.running = version.map(|version| (version, policy));
            }
            SlotOutcome::Refused(Unusable { problem, may_go_by }) => {
                let known = may_go_by || slot.refused == version;
                let same = known && status.error.as_ref() == Some(&problem);
                slot.refused = version.filter(|_| !may_go_by);
                // Counted and said once for each way to be wrong.
                if !same {
                    status.refused += 1;
                    let instead = match &status.version {
                        Some(running) => format!("{running} goes on"),
                        None if slot.entry.mode == Mode::Canary => {
                            "the version that runs goes on".into()
                        }
                        None if slot.entry.on_failure == OnFailure::Hold => {
                            "nothing is bought or consolidated where it counts".into()
                        }
                        None => "decisions are made without it".into(),
                    };
                    let message = format!("policy {name} is refused: {problem}; {instead}");
                    board.note(
                        NoticeKind::PolicyRefused,
                        name,
                        message,
                        &problem.hint.clone(),
                    );
                    status.error = Some(problem);
                }
            }
        }
    }
}
