//! Where the status of policies and signals, and notices about them, are written down.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use longshore_policy::{CallStats, ChainLink, Fallback, Message, Report, ScoreRecord};

use super::grants::missing_node_pools;
use super::notice::{Notice, NoticeKind};
use super::serve::ActivePolicies;
use crate::config::Mode;
use crate::status::policies::{
    Active, Alike, Comparison, ConfigStatus, FilesStatus, LookComparison, PoliciesStatus,
    PolicyStatus, SignalStatus,
};

use crate::bootstrap::BootedBy;
use crate::status::windows::{Replanned, Windows};

/// What taking over has cost rounds.
#[derive(Clone, Copy, Default)]
pub(super) struct SwapTimes {
    pub(super) times: u64,
    pub(super) longest: Duration,
}

/// Limit of unread notices.
const MAX_NOTICES: usize = 1000;

/// Where everything is written down.
#[derive(Default)]
pub(super) struct PolicyBoard {
    pub config: ConfigStatus,
    pub files: FilesStatus,
    /// In the order of the configuration.
    pub policies: Vec<PolicyStatus>,
    pub signals: BTreeMap<String, SignalStatus>,
    /// Rounds that were planned with and without shadows and next versions, by name.
    pub windows: BTreeMap<String, Windows>,
    /// A sentence about each key whose signature is demanded of nothing.
    pub unused_keys: Vec<String>,
    notices: VecDeque<Notice>,
    dropped: u64,
}

/// What the policy at a place answered about a NodePool, if a version of it did.
fn answered_at(answer: &ScoreRecord, place: usize) -> Option<(&Arc<str>, &ChainLink)> {
    let link = answer.links.iter().find(|link| link.place == place)?;
    link.by.is_some().then_some((&answer.node_pool, link))
}

impl PolicyBoard {
    pub fn note(&mut self, kind: NoticeKind, name: &str, message: String, hint: &str) {
        if self.notices.len() == MAX_NOTICES {
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
        if self.notices.len() >= MAX_NOTICES / 2 {
            self.dropped += 1;
            return;
        }
        self.note(NoticeKind::PolicySaid, name, message.text, "");
        if let Some(notice) = self.notices.back_mut() {
            notice.level = Some(message.level);
        }
    }

    /// A notice of what this process begins with.
    pub fn note_start(&mut self, kind: NoticeKind, name: &str, message: String) {
        self.note(kind, name, message, "");
        if let Some(notice) = self.notices.back_mut() {
            notice.at_start = true;
        }
    }

    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.notices.drain(..).collect()
    }

    /// Everything, at `now`, seconds since 1970.
    pub fn status(&self, took: SwapTimes, now: i64) -> PoliciesStatus {
        let age = |signal: &SignalStatus| SignalStatus {
            age_seconds: signal.data_at.map(|at| now.saturating_sub(at).max(0)),
            ..signal.clone()
        };
        let signals: Vec<SignalStatus> = self.signals.values().map(age).collect();
        let alike = self.policies.iter().filter_map(|policy| {
            let what = policy.alike()?;
            Some(format!("policy {} {what}", policy.name))
        });
        let policies = self.policies.iter().map(|policy| self.shown(policy, now));
        PoliciesStatus {
            config: self.config.clone(),
            files: self.files.clone(),
            policies: policies.collect(),
            warnings: alike
                .chain(self.unused())
                .chain(signals.iter().filter_map(SignalStatus::old))
                .chain(self.files.fixed())
                .chain(self.unused_keys.iter().cloned())
                .collect(),
            signals,
            swaps: took.times,
            longest_swap_micros: took.longest.as_secs_f64() * 1e6,
            notices_dropped: self.dropped,
        }
    }

    /// What entries of policies name and nothing has, a sentence each.
    fn unused(&self) -> impl Iterator<Item = String> {
        self.policies.iter().flat_map(|policy| {
            let said = policy.unused.iter().chain(&policy.missing_nodepools);
            said.map(|said| format!("policy {}: {said}", policy.name))
        })
    }

    /// Notes which NodePools of entries are not there, of those that are.
    fn see_node_pools(&mut self, there: &[&str]) {
        for policy in &mut self.policies {
            let named = policy.nodepools.iter().flatten().cloned();
            let named: Vec<String> = named.collect();
            policy.missing_nodepools = match policy.mode {
                Mode::Off => None,
                _ => missing_node_pools(&named, there),
            };
        }
    }

    /// A policy with what it would have bought.
    fn shown(&self, policy: &PolicyStatus, now: i64) -> PolicyStatus {
        let windows = self.windows.get(&policy.name);
        PolicyStatus {
            windows: windows.map_or_else(Vec::new, |of| of.all(now)),
            largest: windows.map_or_else(Vec::new, Windows::largest),
            ..policy.clone()
        }
    }

    /// Takes in a round that was planned again with a policy; nothing where it gave no answer.
    pub fn replanned(&mut self, name: &str, round: Option<&Replanned>, now: i64) {
        let windows = self.windows.entry(name.to_owned()).or_default();
        windows.add(round, now);
    }

    /// Notes which enforced policies cost all offerings alike, and says so each time that this
    /// changes. One that was not asked yet is as its version before was.
    pub fn judge(&mut self, live: &ActivePolicies) {
        let there = live.wasm.node_pool_names();
        if !there.is_empty() {
            self.see_node_pools(&there.iter().map(|name| &**name).collect::<Vec<_>>());
        }
        let answers = live.wasm.last_answers();
        let others = self.policies.iter_mut();
        others
            .filter(|policy| !live.names.contains(&policy.name))
            .for_each(|policy| policy.alike.clear());
        for (place, name) in live.names.iter().enumerate() {
            let Some(policy) = self.policy(name) else {
                continue;
            };
            let mut own = answers
                .iter()
                .filter_map(|answer| answered_at(answer, place))
                .peekable();
            if own.peek().is_none() {
                continue;
            }
            let mut alike: Vec<Alike> = Vec::new();
            for (node_pool, link) in own {
                let Some((offerings, cost)) = link.alike else {
                    continue;
                };
                let node_pool = node_pool.to_string();
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
                    self.note(NoticeKind::PolicyCostsAlike, name, message, hint);
                }
                None => {
                    let message = format!("policy {name} tells offerings apart again");
                    self.note(NoticeKind::PolicyCostsDiffer, name, message, "");
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
                    let known = self
                        .policy(name)
                        .is_some_and(|policy| policy.stats.raised > 0);
                    if !known {
                        let hint = "if that is meant, set `max-discount` of the policy";
                        let message = format!("policy {name}: {what}");
                        self.note(NoticeKind::PolicyCostsRaised, name, message, hint);
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
                        self.note(NoticeKind::PolicyFailing, name, text, hint);
                    }
                }
            }
        }
        for (name, tally) in live.names.iter().zip(live.wasm.tallies()) {
            self.count(name, tally);
        }
    }

    /// Writes down how a shadow of consolidation did in a look.
    pub fn compared_look(&mut self, name: &str, look: LookComparison) {
        let Some(policy) = self.policy(name) else {
            return;
        };
        let Some(sum) = &mut policy.shadow else {
            return;
        };
        sum.proposals += look.proposals;
        sum.proposals_differing += look.differ;
        sum.failures += look.failures;
        policy.stats.calls += look.calls;
        match look.failed {
            Some(error) if policy.failing.replace(error.clone()).as_ref() != Some(&error) => {
                let message = format!("shadow policy {name} failed: {error}");
                let hint = "no decision depends on it";
                self.note(NoticeKind::ShadowFailing, name, message, hint);
            }
            None if look.calls > 0 && policy.failing.take().is_some() => {
                let message = format!("policy {name} answers again");
                self.note(NoticeKind::ShadowRecovered, name, message, "");
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
        }
        if tally.calls > tally.kept {
            policy.call_seconds = Some(tally.usage.longest.as_secs_f64());
            policy.fuel_ratio = Some(f64::from(tally.usage.fuel_permille) / 1000.0);
            policy.memory_bytes = Some(tally.usage.memory as u64);
        }
        policy.stats.add(&tally);
        let fine = tally.calls > 0 && Active::of(&tally) == Active::Current;
        if fine && policy.failing.take().is_some() {
            self.note(
                NoticeKind::PolicyRecovered,
                name,
                format!("policy {name} answers again"),
                "",
            );
        }
    }

    /// Counts a question about what nodes boot with.
    pub fn booted(&mut self, name: &str, by: BootedBy, failing: Option<String>) {
        let Some(policy) = self.policy(name) else {
            return;
        };
        let (active, count) = match by {
            BootedBy::Current => (Active::Current, None),
            BootedBy::LastVersion => (Active::LastVersion, Some(&mut policy.stats.by_last_good)),
            BootedBy::LastAnswer => (Active::LastAnswer, Some(&mut policy.stats.by_last_answer)),
            BootedBy::Hold => (Active::Hold, Some(&mut policy.stats.by_hold)),
            BootedBy::BuiltIn => (Active::BuiltIn, Some(&mut policy.stats.by_price)),
        };
        if let Some(count) = count {
            *count += 1;
        }
        policy.active = Some(active);
        policy.stats.calls += 1;
        policy.stats.failures += u64::from(failing.is_some());
        policy.failing = failing;
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
                        NoticeKind::ShadowRecovered,
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
                        NoticeKind::ShadowFailing,
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
