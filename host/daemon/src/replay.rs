//! `longshore replay`: folds a journal again, plans every round again, and compares the results.
//!
//! It uses the daemon's state, snapshot and planner, fed by the journal alone. A difference is a
//! defect, a gap in the journal, or a policy that is not deterministic; each is reported. With
//! another scorer each round is also planned with that one. Every round is planned on the recorded
//! cluster, because a journal cannot know what would have followed from another purchase.

mod compare;
#[cfg(test)]
mod damaged;
mod fold;
mod recorded;
#[cfg(test)]
mod tests;
mod text;

use std::path::Path;
use std::sync::Arc;

use longshore_core::disrupt::checked;
use longshore_core::planner;
use longshore_core::policy::Policies;
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;
use longshore_policy::Signals;
use serde::Serialize;

pub use compare::{Other, Totals};

use crate::answer::Answer;
use crate::args::{Output, ReplayArgs};
use fold::Folded;
use longshore_journal::look::Look;
use longshore_journal::messages;
use longshore_journal::read::{Item, Reader};
use longshore_journal::record::Record;
use longshore_journal::round::{Round, RoundOutcome, Summary};
use longshore_live::error::Failure;
use longshore_report::decision::Decision;
use recorded::{RecordedAnswers, RecordedPolicies, Scorer};

/// What became of a journal.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Segment files of the journal that were read.
    pub segments: usize,
    /// Observations that were taken into the state.
    pub observations: usize,
    /// Rounds that were decided again and came out the same.
    pub equal: usize,
    /// Rounds that were decided again and came out otherwise.
    pub different: Vec<Different>,
    /// Rounds that could not be decided again.
    pub passed_over: usize,
    /// Digests of the plans that came out, by round, in order.
    pub digests: Vec<String>,
    /// What is to be known of the journal: where it was cut, what is missing.
    pub notes: Vec<String>,
    /// What another scorer would have done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<Other>,
}

/// A round that came out otherwise.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Different {
    pub round: RoundPlace,
    /// What the journal says, at the first difference.
    pub recorded: String,
    pub replayed: String,
    /// What may be the reason.
    pub reasons: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoundPlace {
    pub number: u64,
    /// When it was decided, RFC 3339.
    pub time: String,
    /// The file that says so.
    pub file: String,
}

impl Verdict {
    /// Whether everything that was decided again came out the same.
    pub fn holds(&self) -> bool {
        self.different.is_empty()
    }
}

/// Replays, and prints what was found.
pub(crate) fn run(args: &ReplayArgs) -> Result<Answer, Failure> {
    let verdict = replay(&args.path, args.scorer.as_deref())?;
    let text = match args.output {
        Output::Text => text::render(&verdict),
        Output::Json => format!(
            "{}\n",
            serde_json::to_string_pretty(&verdict).map_err(|e| Failure::Print(e.into()))?
        ),
    };
    Ok(Answer {
        text,
        code: u8::from(!verdict.holds()),
    })
}

/// Decides every round of a journal (a folder or a segment) again, and with `scorer`
/// (`FILE.wasm[,SETTINGS.toml]`), if one is given, as that would have it.
///
/// # Errors
/// The journal cannot be read or is damaged; the scorer cannot be loaded.
pub fn replay(path: &Path, scorer: Option<&str>) -> Result<Verdict, Failure> {
    let mut replay = Replay {
        folded: Folded::default(),
        asker: RecordedPolicies::default(),
        other: scorer.map(Scorer::load).transpose()?,
        verdict: Verdict::default(),
        file: String::new(),
    };
    if let Some(other) = &replay.other {
        replay.verdict.other = Some(Other::new(other.name()));
    }
    let mut reader = Reader::open(path)?;
    while let Some(item) = reader.next_item()? {
        replay.take(item);
    }
    replay.finish();
    Ok(replay.verdict)
}

/// What a round of a journal was decided on, and which it is: the last one without a number.
///
/// # Errors
/// The journal cannot be read, or has no such round that could be decided again.
pub(crate) fn round(
    path: &Path,
    number: Option<u64>,
) -> Result<(Snapshot, Arc<Signals>, String), Failure> {
    let is_asked = |round: &Round| round.look.is_none() && number.is_none_or(|n| n == round.round);
    let mut wanted = None;
    let mut reader = Reader::open(path)?;
    while let Some(item) = reader.next_item()? {
        if let Item::Record {
            record: Record::Decided(round),
            ..
        } = item
            && is_asked(&round)
        {
            wanted = Some(round.round);
        }
    }
    let none = |reason: String| Failure::Input {
        file: path.to_owned(),
        reason,
        hint: "`longshore journal show` lists its rounds".into(),
    };
    let wanted = wanted.ok_or_else(|| none("it has no such round".into()))?;
    let mut folded = Folded::default();
    let mut reader = Reader::open(path)?;
    while let Some(item) = reader.next_item()? {
        match item {
            Item::Begins { head, goes_on, .. } => folded.begin(&head, goes_on),
            Item::Record { record, .. } => match record {
                Record::Observed(observed) => folded.observe(observed),
                Record::Began(began) => folded.begin_round(began),
                Record::Blob(blob) => folded.blobs.put(blob),
                Record::Decided(round) if round.round == wanted && round.look.is_none() => {
                    let (snapshot, _) = folded.snapshot(&round).map_err(none)?;
                    let signals = folded
                        .blobs
                        .signals(round.signals.as_deref())
                        .map_err(none)?;
                    let time = messages::time(round.time);
                    return Ok((snapshot, signals, format!("round {wanted} at {time}")));
                }
                Record::Decided(round) => folded.forget_round(round.round),
                _ => {}
            },
            Item::Ends { .. } => {}
        }
    }
    Err(none(format!("round {wanted} is not in it any more")))
}

struct Replay {
    folded: Folded,
    asker: RecordedPolicies,
    other: Option<Scorer>,
    verdict: Verdict,
    file: String,
}

impl Replay {
    fn take(&mut self, item: Item) {
        match item {
            Item::Begins {
                file,
                head,
                goes_on,
            } => {
                self.verdict.segments += 1;
                self.file = file.display().to_string();
                self.end_rounds(goes_on);
                self.folded.begin(&head, goes_on);
            }
            Item::Ends { file, end } => {
                self.verdict
                    .notes
                    .extend(messages::end(end).map(|end| format!("{} {end}", file.display())));
            }
            Item::Record { checkpoint, record } => match record {
                Record::Observed(observed) => {
                    self.verdict.observations += usize::from(!checkpoint);
                    self.folded.observe(observed);
                }
                Record::Began(began) => self.folded.begin_round(began),
                Record::Decided(round) => self.decide(&round),
                Record::Blob(blob) => self.folded.blobs.put(blob),
                Record::Gap(gap) => {
                    self.verdict
                        .notes
                        .push(format!("{}: {}", self.file, messages::gap(&gap)));
                    self.folded.record_gap(gap.kinds);
                }
                Record::Head(_) | Record::CheckpointEnds { .. } | Record::Closed => {}
            },
        }
    }

    /// Rounds that have begun and cannot end any more.
    fn end_rounds(&mut self, goes_on: bool) {
        if !goes_on {
            for round in self.folded.open_rounds() {
                self.verdict.notes.push(format!(
                    "{} began and is not decided in the journal",
                    messages::name_of(round)
                ));
            }
        }
    }

    fn finish(&mut self) {
        self.end_rounds(false);
        if let (Some(other), Some(scorer)) = (&mut self.verdict.other, &self.other) {
            other.notes.extend(scorer.notes());
        }
        if self.verdict.equal + self.verdict.different.len() == 0 {
            self.verdict
                .notes
                .push("no round of it could be decided again".into());
        }
    }

    fn decide(&mut self, round: &Round) {
        let place = RoundPlace {
            number: round.round,
            time: messages::time(round.time),
            file: self.file.clone(),
        };
        if round.look.as_ref().is_some_and(|look| look.same) {
            self.folded.forget_round(round.round);
            return;
        }
        let judged = round.look.as_ref().filter(|look| look.judged);
        let is_unsaid = judged.is_some_and(|look| look.questions.is_empty());
        let snapshot = self.folded.snapshot(round).and_then(|found| {
            let why = "what its consolidation policies answered is not in the journal";
            match is_unsaid {
                true => Err(why.into()),
                false => Ok(found),
            }
        });
        let (snapshot, options) = match snapshot {
            Ok(found) => found,
            Err(why) => {
                self.verdict.passed_over += 1;
                self.verdict.notes.push(format!(
                    "{} at {} is passed over: {why}",
                    messages::name_of(place.number),
                    place.time
                ));
                return;
            }
        };
        let mut reasons: Vec<String> = round
            .missing
            .iter()
            .map(|what| format!("not in the journal: {what}"))
            .collect();
        reasons.extend(self.folded.stale());
        let signals = self
            .folded
            .blobs
            .signals(round.signals.as_deref())
            .unwrap_or_else(|why| {
                reasons.push(why);
                Default::default()
            });
        let policies = self.asker.round(round, &self.folded.blobs, &signals);
        let outcome = match &round.look {
            Some(look) => look_again(&snapshot, &policies, look, options.seed),
            None => plan(&snapshot, &policies, options),
        };
        reasons.extend(policies.reasons());
        if let RoundOutcome::Decided(summary) = &outcome {
            self.verdict.digests.push(summary.digest.clone());
        }
        match difference(&round.outcome, &outcome) {
            None => self.verdict.equal += 1,
            Some((recorded, replayed)) => {
                let round = place.clone();
                self.verdict.different.push(Different {
                    round,
                    recorded,
                    replayed,
                    reasons,
                });
            }
        }
        if let (None, Some(scorer), Some(other)) =
            (&round.look, &self.other, &mut self.verdict.other)
        {
            scorer.begin(round.now, &signals);
            let with = plan(&snapshot, scorer.policies(), options);
            other.add(place, &round.outcome, &with);
        }
    }
}

fn plan(
    snapshot: &Snapshot,
    policies: &dyn Policies,
    options: planner::PlanOptions,
) -> RoundOutcome {
    match planner::plan(snapshot, policies, options) {
        Ok(plan) => RoundOutcome::Decided(Summary::new(
            &Decision::new(snapshot, &plan),
            snapshot.pending.len(),
        )),
        Err(rejected) => RoundOutcome::Rejected(format!("{:?}", rejected.violations)),
    }
}

/// Looks for disruption again, with what consolidation policies answered.
fn look_again(
    snapshot: &Snapshot,
    policies: &RecordedAnswers<'_>,
    look: &Look,
    seed: u64,
) -> RoundOutcome {
    let round = checked::round(snapshot, policies, look.options(seed), Stop::never());
    RoundOutcome::Decided(Summary::of_look(snapshot, &round))
}

/// The first difference between two outcomes.
fn difference(recorded: &RoundOutcome, replayed: &RoundOutcome) -> Option<(String, String)> {
    let words = |outcome: &RoundOutcome| match outcome {
        RoundOutcome::Decided(summary) => format!("a plan with {} nodes to buy", summary.claims),
        RoundOutcome::Rejected(why) => format!("a plan that breaks a rule: {why}"),
    };
    match (recorded, replayed) {
        (RoundOutcome::Decided(a), RoundOutcome::Decided(b)) => a.difference(b),
        (RoundOutcome::Rejected(a), RoundOutcome::Rejected(b)) if a == b => None,
        (a, b) => Some((words(a), words(b))),
    }
}
