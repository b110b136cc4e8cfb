//! Status of policies and signals for `longshore status`, and notices for logs, metrics and Events.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use longshore_policy::{CallStats, Fallback, Level, Message, Report, ScoreRecord};
use serde::Serialize;

use super::compare::Comparison;
use super::serve::{ActivePolicies, ShadowJudge};
use crate::config::{Mode, SignalEntry};
use crate::live::process::lock::lock;
use crate::messages::span;

/// What taking over has cost rounds.
#[derive(Clone, Copy, Default)]
pub(super) struct SwapTimes {
    pub(super) times: u64,
    pub(super) longest: Duration,
}

/// Something that cannot be used.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct Problem {
    /// File (with line and column where there is one) or address.
    pub place: String,
    /// What is wrong.
    pub reason: String,
    /// What can be done; may be empty.
    pub hint: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

/// The kinds of notices: a closed set, fit for a label.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Another configuration is in force.
    ConfigLoaded,
    /// The configuration cannot be used; the last good one stays in force.
    ConfigRefused,
    /// A version was made ready; the next round takes it over.
    PolicyLoaded,
    /// A version was refused; the old one goes on.
    PolicyRefused,
    /// The configuration names a policy no more, or turns it off.
    PolicyRemoved,
    /// Compiled code was not read or not kept: something is wrong with the cache.
    CompiledCodeIgnored,
    /// An enforced policy fails; a substitute answers.
    PolicyFailing,
    /// It answers again.
    PolicyRecovered,
    /// An enforced policy costs all offerings alike: the price decides nothing.
    PolicyCostsAlike,
    /// It does so no longer.
    PolicyCostsDiffer,
    /// Costs of an enforced policy were too far below the list price, and raised.
    PolicyCostsRaised,
    /// A component wants more than the operator's file grants.
    PolicyNotGranted,
    /// A policy had something to say.
    PolicySaid,
    /// A policy that is compared does not answer.
    ShadowFailing,
    /// It answers again.
    ShadowRecovered,
    /// A signal cannot be fetched; its last good table stays.
    SignalLost,
    /// It can be fetched (again).
    SignalBack,
}

impl Kind {
    /// Whether an operator should look at it.
    pub fn is_warning(self) -> bool {
        use Kind::*;
        matches!(
            self,
            ConfigRefused
                | PolicyRefused
                | CompiledCodeIgnored
                | PolicyFailing
                | PolicyCostsAlike
                | PolicyCostsRaised
                | PolicyNotGranted
                | ShadowFailing
                | SignalLost
        )
    }
}

impl Kind {
    /// Whether a component brings it about by itself, as often as it is asked.
    pub fn is_of_component(self) -> bool {
        use Kind::*;
        matches!(
            self,
            PolicySaid
                | PolicyFailing
                | PolicyRecovered
                | PolicyCostsAlike
                | PolicyCostsDiffer
                | PolicyCostsRaised
                | ShadowFailing
                | ShadowRecovered
        )
    }
}

/// Something that happened. The same trouble in many rounds is one notice.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Notice {
    pub kind: Kind,
    /// Name of the policy or signal; file of the configuration.
    pub name: String,
    /// What happened, in a sentence.
    pub message: String,
    /// What can be done; may be empty.
    pub hint: String,
    /// It is of what this process began with, which is no change.
    #[serde(skip)]
    pub at_start: bool,
    /// How loud it is, if a policy said it.
    #[serde(skip)]
    pub level: Option<Level>,
}

impl Notice {
    /// What was changed and how, where rounds may decide otherwise from now on.
    pub fn change(&self) -> Option<(String, &str)> {
        let subject = match self.kind {
            _ if self.at_start => return None,
            Kind::ConfigLoaded => "configuration".to_owned(),
            Kind::PolicyLoaded | Kind::PolicyRemoved => format!("policy {}", self.name),
            _ => return None,
        };
        let what = self.message.strip_prefix(&subject).unwrap_or(&self.message);
        Some((subject, what.trim_start_matches([':', ' '])))
    }
}

/// Everything about policies and signals. Times are seconds since 1970.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Status {
    /// The configuration.
    pub config: ConfigStatus,
    /// How its files are watched.
    pub files: FilesStatus,
    /// The policies that the configuration names, in its order.
    pub policies: Vec<PolicyStatus>,
    /// The signals, by name.
    pub signals: Vec<SignalStatus>,
    /// How often a round took over something new.
    pub swaps: u64,
    /// The longest that taking over has ever held up a round, in microseconds.
    pub longest_swap_micros: f64,
    /// Notices that were dropped because they were never read.
    pub notices_dropped: u64,
    /// What an operator should look at, a sentence each: policies that tell no offerings apart, signals
    /// whose data is old.
    pub warnings: Vec<String>,
}

/// The configuration.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct ConfigStatus {
    /// Its file; none for defaults.
    pub file: Option<String>,
    /// Since when the current configuration is in use.
    pub loaded_at: i64,
    /// What is wrong with the file as it is now.
    pub error: Option<Problem>,
}

/// How changes of files are noticed.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct FilesStatus {
    /// How often all are looked at, whatever events say, in milliseconds; 0 before the first look.
    pub look_every_ms: u64,
    /// Why events are not relied on, if so.
    pub without_events: Option<String>,
    /// Files that never change while this process lives: mounted with `subPath`.
    pub fixed: Vec<String>,
}

impl FilesStatus {
    /// A sentence about each file that never changes.
    fn fixed(&self) -> impl Iterator<Item = String> {
        self.fixed.iter().map(|file| {
            format!(
                "{file} is mounted with subPath and never changes while the pod lives: mount the \
                 whole volume, or restart to read it again"
            )
        })
    }
}

#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct PolicyStatus {
    /// Its name in the configuration.
    pub name: String,
    /// The component's file.
    pub path: String,
    /// Whether it is enforced.
    pub mode: Mode,
    /// NodePools that it serves; none for all.
    pub nodepools: Option<Vec<String>>,
    /// What the version that runs calls itself; none if none could ever be loaded, and the price
    /// answers.
    pub version: Option<String>,
    /// SHA-256 of the component that runs.
    pub digest: Option<String>,
    /// Since when it is loaded.
    pub loaded_at: Option<i64>,
    /// Whether it is being read and compiled, for the first time.
    pub loading: bool,
    /// What is wrong with the files as they are now.
    pub error: Option<Problem>,
    /// What answered for it when it was last asked.
    pub active: Option<Active>,
    /// The longest call when it was last asked, in seconds.
    pub call_seconds: Option<f64>,
    /// The most fuel that a call used then, as a share of what it has.
    pub fuel_ratio: Option<f64>,
    /// The most memory that it had then, in bytes.
    pub memory_bytes: Option<u64>,
    /// What it fails with in rounds, if it does.
    pub failing: Option<String>,
    /// Versions made ready.
    pub loads: u64,
    /// Versions refused.
    pub refused: u64,
    /// Questions in rounds.
    pub calls: u64,
    /// Answers of a version that could not be used: traps, timeouts, broken rules.
    pub failures: u64,
    /// Questions that its last good version answered.
    pub by_last_good: u64,
    /// Questions that what it last said answered.
    pub by_last_answer: u64,
    /// Questions after which nothing was bought or consolidated.
    pub by_hold: u64,
    /// Questions that the price answered.
    pub by_price: u64,
    /// Questions about consolidation that no version answered: the rules alone counted.
    pub by_rules: u64,
    /// Proposals to disrupt nodes that it let go.
    pub approved: u64,
    /// Proposals that it put off.
    pub deferred: u64,
    /// Proposals that it refused.
    pub declined: u64,
    /// Costs that were raised, since they were too far below the list price.
    pub raised: u64,
    /// What the version that runs implements: `scorer`, `commitments`, `consolidation`, `bootstrap`.
    pub implements: Vec<String>,
    /// What of that it is not asked, since `grants` does not have it.
    pub not_granted: Vec<String>,
    /// Signals that it declares and does not see, since `signals` does not have them.
    pub withheld_signals: Vec<String>,
    /// The comparison, for a shadow policy.
    pub shadow: Option<ShadowStatus>,
    /// Where all offerings cost the same in its last answers.
    pub alike: Vec<Alike>,
}

/// What answers for a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Active {
    /// The version that runs.
    Current,
    /// Its last good version.
    LastVersion,
    /// What it last said of each offering.
    LastAnswer,
    /// Nothing: nothing is bought or consolidated.
    Hold,
    /// The list price.
    Price,
    /// The rules of NodePools alone.
    Rules,
}

impl Active {
    /// As a label has it.
    pub fn label(self) -> &'static str {
        match self {
            Active::Current => "current",
            Active::LastVersion => "last-version",
            Active::LastAnswer => "last-answer",
            Active::Hold => "hold",
            Active::Price => "price",
            Active::Rules => "rules",
        }
    }

    fn of(tally: &CallStats) -> Self {
        match tally {
            tally if tally.by_last_good > 0 => Active::LastVersion,
            tally if tally.by_last_answer > 0 => Active::LastAnswer,
            tally if tally.by_hold > 0 => Active::Hold,
            tally if tally.by_price > 0 => Active::Price,
            tally if tally.by_rules > 0 => Active::Rules,
            _ => Active::Current,
        }
    }
}

/// NodePools for which a policy costs all offerings alike.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct Alike {
    /// What each offering costs, in USD per hour.
    pub cost: f64,
    /// How many offerings that are, without those that it excludes.
    pub offerings: usize,
    /// The NodePools, by name.
    pub nodepools: Vec<String>,
}

/// NodePools that are named in a sentence.
const NAMED: usize = 3;

impl Alike {
    /// `all 812 offerings 0 USD/h for NodePool general`
    pub fn text(&self) -> String {
        let named = self.nodepools.iter().take(NAMED);
        let mut names = named.map(String::as_str).collect::<Vec<_>>().join(", ");
        if self.nodepools.len() > NAMED {
            names += &format!(" and {} more", self.nodepools.len() - NAMED);
        }
        let plural = if self.nodepools.len() == 1 { "" } else { "s" };
        format!(
            "all {} offerings {} USD/h for NodePool{plural} {names}",
            self.offerings, self.cost
        )
    }

    /// Whether two answers are the same in all but the number of offerings, which changes with the
    /// catalogue.
    fn is_like(&self, other: &Alike) -> bool {
        self.cost == other.cost && self.nodepools == other.nodepools
    }
}

impl PolicyStatus {
    /// `costs all 812 offerings 0 USD/h for NodePool general: the price decides nothing`, if so.
    fn alike(&self) -> Option<String> {
        let all: Vec<String> = self.alike.iter().map(Alike::text).collect();
        (!all.is_empty())
            .then(|| format!("costs {}: the price decides nothing", all.join(", and ")))
    }
}

/// How a shadow compares with what was decided, since it is one. Sums of claims, in USD per hour.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct ShadowStatus {
    /// Rounds compared.
    pub rounds: u64,
    /// Rounds that came while another was compared.
    pub skipped: u64,
    /// Rounds in which it did not answer.
    pub failures: u64,
    /// Rounds in which it would have chosen differently.
    pub rounds_differing: u64,
    /// Proposals to disrupt nodes that a consolidation policy was asked about.
    pub proposals: u64,
    /// Proposals that it would have kept or let go otherwise.
    pub proposals_differing: u64,
    /// Claims compared.
    pub claims: u64,
    /// Claims for which it would have chosen another offering.
    pub differ: u64,
    /// Claims with an offering that it excludes.
    pub excluded: u64,
    /// Price of what was chosen.
    pub price: f64,
    /// Price of its own choice.
    pub price_instead: f64,
    /// Effective cost of the chosen offerings, by the enforced policies.
    #[serde(rename = "obeyed")]
    pub enforced: f64,
    /// Effective cost of its own choices, by the enforced policies.
    #[serde(rename = "obeyed_instead")]
    pub enforced_instead: f64,
    /// Effective cost of what was chosen, by the shadow.
    pub own: f64,
    /// Effective cost of what it would have chosen, by the shadow.
    pub own_instead: f64,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SignalStatus {
    pub name: String,
    /// File, address, or what EC2 is asked.
    pub source: String,
    /// Seconds between two requests; none for a file.
    pub every_seconds: Option<u64>,
    /// Rows of the table in use.
    pub rows: Option<usize>,
    /// When the table in use was fetched.
    pub had_at: Option<i64>,
    /// When its numbers were true, as far as that is known.
    pub data_at: Option<i64>,
    pub dated_by: Option<DatedBy>,
    /// Seconds since then.
    pub age_seconds: Option<i64>,
    /// Data that is older is old.
    pub max_age_seconds: u64,
    /// Tables had.
    pub had: u64,
    /// Number of failed fetches.
    pub failures: u64,
    /// Why it cannot be fetched now.
    pub error: Option<Problem>,
}

/// What says when the numbers of a signal were true.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DatedBy {
    /// The row `time` of the table.
    Table,
    /// The last change of the file.
    File,
    /// The header `Last-Modified` of the reply.
    LastModified,
    /// When the reply came.
    Reply,
}

impl SignalStatus {
    /// Whether its data is older than it may be.
    pub fn is_old(&self) -> bool {
        self.age_seconds
            .is_some_and(|age| u64::try_from(age).is_ok_and(|age| age > self.max_age_seconds))
    }

    /// A sentence about data that is old.
    fn old(&self) -> Option<String> {
        let age = self.age_seconds.filter(|_| self.is_old())?;
        let most = i64::try_from(self.max_age_seconds).unwrap_or(i64::MAX);
        Some(format!(
            "signal {}: its data is {} old, more than {}",
            self.name,
            span(age),
            span(most)
        ))
    }

    /// One that was never had.
    pub(super) fn new(name: &str, entry: &SignalEntry) -> Self {
        let (source, every_seconds) = match entry {
            SignalEntry::File(file) => (file.display().to_string(), None),
            SignalEntry::Url { url, every, .. } => (without_secrets(url), Some(every.as_secs())),
            SignalEntry::PlacementScores(entry) => (
                "EC2: spot placement scores".to_owned(),
                Some(entry.every.as_secs()),
            ),
        };
        let name = name.to_owned();
        SignalStatus {
            name,
            source,
            every_seconds,
            rows: None,
            had_at: None,
            data_at: None,
            dated_by: None,
            age_seconds: None,
            max_age_seconds: 0,
            had: 0,
            failures: 0,
            error: None,
        }
    }
}

/// Limit of unread notices.
const NOTICES: usize = 1000;

/// Where everything is written down.
#[derive(Default)]
pub(super) struct PolicyBoard {
    pub config: ConfigStatus,
    pub files: FilesStatus,
    /// In the order of the configuration.
    pub policies: Vec<PolicyStatus>,
    pub signals: BTreeMap<String, SignalStatus>,
    notices: VecDeque<Notice>,
    dropped: u64,
}

impl PolicyBoard {
    pub fn note(&mut self, kind: Kind, name: &str, message: String, hint: &str) {
        if self.notices.len() == NOTICES {
            self.notices.pop_front();
            self.dropped += 1;
        }
        self.notices.push_back(Notice {
            kind,
            name: name.into(),
            message,
            hint: hint.into(),
            at_start: false,
            level: None,
        });
    }

    /// Notes what a policy said. Other notices do not go for it.
    fn said(&mut self, name: &str, message: Message) {
        if self.notices.len() >= NOTICES / 2 {
            self.dropped += 1;
            return;
        }
        self.note(Kind::PolicySaid, name, message.text, "");
        if let Some(notice) = self.notices.back_mut() {
            notice.level = Some(message.level);
        }
    }

    /// A notice of what this process begins with.
    pub fn note_start(&mut self, kind: Kind, name: &str, message: String) {
        self.note(kind, name, message, "");
        if let Some(notice) = self.notices.back_mut() {
            notice.at_start = true;
        }
    }

    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.notices.drain(..).collect()
    }

    /// Everything, at `now`, seconds since 1970.
    pub fn status(&self, took: SwapTimes, now: i64) -> Status {
        let age = |signal: &SignalStatus| SignalStatus {
            age_seconds: signal.data_at.map(|at| now.saturating_sub(at).max(0)),
            ..signal.clone()
        };
        let signals: Vec<SignalStatus> = self.signals.values().map(age).collect();
        let alike = self.policies.iter().filter_map(|policy| {
            let what = policy.alike()?;
            Some(format!("policy {} {what}", policy.name))
        });
        Status {
            config: self.config.clone(),
            files: self.files.clone(),
            policies: self.policies.clone(),
            warnings: alike
                .chain(signals.iter().filter_map(SignalStatus::old))
                .chain(self.files.fixed())
                .collect(),
            signals,
            swaps: took.times,
            longest_swap_micros: took.longest.as_secs_f64() * 1e6,
            notices_dropped: self.dropped,
        }
    }

    /// Notes which enforced policies cost all offerings alike, and says so each time that this
    /// changes. One that was not asked yet is as its version before was.
    pub fn judge(&mut self, live: &ActivePolicies) {
        let answers = live.wasm.last_answers();
        let others = self.policies.iter_mut();
        others
            .filter(|policy| !live.names.contains(&policy.name))
            .for_each(|policy| policy.alike.clear());
        for (place, name) in live.names.iter().enumerate() {
            let Some(policy) = self.policy(name) else {
                continue;
            };
            let is_own = |answer: &&ScoreRecord| {
                let by = answer.by.as_ref();
                by.is_some_and(|(at, _)| *at == place)
            };
            let mut own = answers.iter().filter(is_own).peekable();
            if own.peek().is_none() {
                continue;
            }
            let mut alike: Vec<Alike> = Vec::new();
            for answer in own {
                let Some((offerings, cost)) = answer.alike else {
                    continue;
                };
                let node_pool = answer.node_pool.to_string();
                match alike.iter_mut().find(|known| known.cost == cost) {
                    Some(known) => {
                        known.offerings = known.offerings.max(offerings);
                        known.nodepools.push(node_pool);
                    }
                    None => alike.push(Alike {
                        cost,
                        offerings,
                        nodepools: vec![node_pool],
                    }),
                }
            }
            let before = std::mem::replace(&mut policy.alike, alike);
            let now = &policy.alike;
            let is_same = before.len() == now.len()
                && before
                    .iter()
                    .zip(now)
                    .all(|(before, now)| before.is_like(now));
            if is_same {
                continue;
            }
            match policy.alike() {
                Some(what) => {
                    let message = format!("policy {name} {what}");
                    let hint = "look at the policy's settings and at the signals that it reads";
                    self.note(Kind::PolicyCostsAlike, name, message, hint);
                }
                None => {
                    let message = format!("policy {name} tells offerings apart again");
                    self.note(Kind::PolicyCostsDiffer, name, message, "");
                }
            }
        }
    }

    pub fn policy(&mut self, name: &str) -> Option<&mut PolicyStatus> {
        self.policies.iter_mut().find(|policy| policy.name == name)
    }

    /// Records the events of policy calls.
    pub fn collect(&mut self, live: &ActivePolicies) {
        for report in live.wasm.reports() {
            let text = report.to_string();
            match report {
                Report::Said { place, message, .. } => {
                    let Some(name) = live.names.get(place) else {
                        continue;
                    };
                    self.said(name, message);
                }
                Report::Raised { place, what, .. } => {
                    let Some(name) = live.names.get(place) else {
                        continue;
                    };
                    let known = self.policy(name).is_some_and(|policy| policy.raised > 0);
                    if !known {
                        let hint = "if that is meant, set `max-discount` of the policy";
                        let message = format!("policy {name}: {what}");
                        self.note(Kind::PolicyCostsRaised, name, message, hint);
                    }
                }
                Report::Failed {
                    place,
                    error,
                    instead,
                    ..
                } => {
                    let Some(name) = live.names.get(place) else {
                        continue;
                    };
                    let error = error.to_string();
                    let known = self
                        .policy(name)
                        .and_then(|policy| policy.failing.replace(error.clone()));
                    // The last good version of one that is known to fail fails in turn: news.
                    if known.as_ref() != Some(&error) {
                        let hint = match instead {
                            Fallback::LastGood => {
                                "put the last good component back, or wait: every round asks again"
                            }
                            Fallback::LastAnswer
                            | Fallback::Hold
                            | Fallback::Price
                            | Fallback::Rules => {
                                "put a good component in its place; every round asks again"
                            }
                        };
                        self.note(Kind::PolicyFailing, name, text, hint);
                    }
                }
            }
        }
        for (name, tally) in live.names.iter().zip(live.wasm.tallies()) {
            self.count(name, tally);
        }
        for shadow in &live.shadow_judges {
            self.compared_judge(shadow);
        }
    }

    /// Writes down how a shadow of consolidation did since last asked.
    fn compared_judge(&mut self, shadow: &ShadowJudge) {
        let compared = std::mem::take(&mut *lock(&shadow.compared));
        let tally: CallStats = shadow.wasm.tallies().first().copied().unwrap_or_default();
        let mut reports = shadow.wasm.reports().into_iter().rev();
        let failed = reports.find_map(|report| match report {
            Report::Failed { error, .. } => Some(error.to_string()),
            Report::Said { .. } | Report::Raised { .. } => None,
        });
        let Some(policy) = self.policy(&shadow.name) else {
            return;
        };
        let Some(sum) = &mut policy.shadow else {
            return;
        };
        sum.proposals += compared.0;
        sum.proposals_differing += compared.1;
        sum.failures += tally.failures;
        policy.calls += tally.calls;
        let name = &shadow.name;
        match failed {
            Some(error) if policy.failing.replace(error.clone()).as_ref() != Some(&error) => {
                let message = format!("shadow policy {name} failed: {error}");
                let hint = "no decision depends on it";
                self.note(Kind::ShadowFailing, name, message, hint);
            }
            None if tally.calls > 0 && policy.failing.take().is_some() => {
                let message = format!("policy {name} answers again");
                self.note(Kind::ShadowRecovered, name, message, "");
            }
            _ => {}
        }
    }

    fn count(&mut self, name: &str, tally: CallStats) {
        let Some(policy) = self.policy(name) else {
            return;
        };
        if tally.calls > 0 {
            policy.active = Some(Active::of(&tally));
            policy.call_seconds = Some(tally.usage.longest.as_secs_f64());
            policy.fuel_ratio = Some(f64::from(tally.usage.fuel_permille) / 1000.0);
            policy.memory_bytes = Some(tally.usage.memory as u64);
        }
        policy.calls += tally.calls;
        policy.failures += tally.failures;
        policy.by_last_good += tally.by_last_good;
        policy.by_price += tally.by_price;
        policy.by_rules += tally.by_rules;
        policy.raised += tally.raised;
        policy.by_last_answer += tally.by_last_answer;
        policy.by_hold += tally.by_hold;
        policy.approved += tally.approved;
        policy.deferred += tally.deferred;
        policy.declined += tally.refused;
        let instead = tally.by_last_good
            + tally.by_last_answer
            + tally.by_hold
            + tally.by_price
            + tally.by_rules;
        let fine = tally.calls > 0 && instead == 0;
        if fine && policy.failing.take().is_some() {
            self.note(
                Kind::PolicyRecovered,
                name,
                format!("policy {name} answers again"),
                "",
            );
        }
    }

    /// Writes down how a shadow did in a round.
    pub fn compared(&mut self, name: &str, result: Result<Comparison, String>) {
        let Some(policy) = self.policy(name) else {
            return;
        };
        let Some(sum) = &mut policy.shadow else {
            return;
        };
        match result {
            Ok(round) => {
                sum.rounds += 1;
                sum.rounds_differing += u64::from(round.differ > 0);
                sum.claims += round.claims;
                sum.differ += round.differ;
                sum.excluded += round.excluded;
                (sum.price, sum.price_instead) =
                    (sum.price + round.price.0, sum.price_instead + round.price.1);
                (sum.enforced, sum.enforced_instead) = (
                    sum.enforced + round.enforced.0,
                    sum.enforced_instead + round.enforced.1,
                );
                (sum.own, sum.own_instead) = (sum.own + round.own.0, sum.own_instead + round.own.1);
                if policy.failing.take().is_some() {
                    self.note(
                        Kind::ShadowRecovered,
                        name,
                        format!("policy {name} answers again"),
                        "",
                    );
                }
            }
            Err(error) => {
                sum.failures += 1;
                if policy.failing.replace(error.clone()).as_ref() != Some(&error) {
                    let message = format!("shadow policy {name} failed {error}");
                    self.note(
                        Kind::ShadowFailing,
                        name,
                        message,
                        "no decision depends on it",
                    );
                }
            }
        }
    }

    /// Writes down that a round was not compared.
    pub fn skipped<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        for name in names {
            if let Some(sum) = self.policy(name).and_then(|policy| policy.shadow.as_mut()) {
                sum.skipped += 1;
            }
        }
    }
}

/// An address without user and query, which may hold secrets, for messages.
pub fn without_secrets(url: &str) -> String {
    let bare = url.split(['?', '#']).next().unwrap_or(url);
    match bare.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit('@').next().unwrap_or(authority);
            format!("{scheme}://{host}{path}")
        }
        None => bare.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_is_a_change_of_its_policy() {
        let notice = |kind, name: &str, message: &str| Notice {
            kind,
            name: name.to_owned(),
            message: message.to_owned(),
            hint: String::new(),
            at_start: false,
            level: None,
        };
        let loaded = "policy cost: discounts 1.2.0 (sha256:a179) is ready";
        let loaded = notice(Kind::PolicyLoaded, "cost", loaded);
        let what = "discounts 1.2.0 (sha256:a179) is ready";
        assert_eq!(loaded.change(), Some(("policy cost".to_owned(), what)));
        let first = Notice {
            at_start: true,
            ..loaded
        };
        assert_eq!(first.change(), None);
        let reloaded = "configuration reloaded; 2 policies changed";
        let reloaded = notice(Kind::ConfigLoaded, "/etc/longshore.toml", reloaded);
        let what = "reloaded; 2 policies changed";
        assert_eq!(reloaded.change(), Some(("configuration".to_owned(), what)));
        assert_eq!(notice(Kind::PolicySaid, "cost", "hello").change(), None);
    }

    #[test]
    fn messages_show_no_passwords_or_tokens() {
        assert_eq!(
            without_secrets("https://me:secret@host:8/path?token=x#y"),
            "https://host:8/path"
        );
        assert_eq!(without_secrets("http://host"), "http://host");
    }
}
