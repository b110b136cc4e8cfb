//! What has happened lately, for `longshore status`: nodes that were bought and ended, those that were lost
//! to interruptions, what all nodes cost, and what was changed.
//!
//! What is in the cluster survives a restart: when NodeClaims were made and asked to end, and why
//! disruption takes them. The rest is what this process has seen; the status says since when.

mod churn;
mod cost;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Mutex;

use longshore_api::crd::{ConditionStatus, NodeClaim, Timestamp, condition};

use crate::observe::node_claim::rfc3339;
use crate::observe::state::cost::Cost;
use crate::process::lock::lock;
use crate::status::parts;
use churn::{Churn, End, Lost};
use cost::Costs;
pub use cost::SAMPLE_INTERVAL;
use longshore_core::model::conditions::DISRUPTION_REASON;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;
/// Ends that are remembered; the status says if there were more.
const MAX_ENDS: usize = 5_000;
/// Changes that are remembered.
const MAX_CHANGES: usize = 10;
/// Reasons of deletions that are remembered.
const MAX_REASONS: usize = 20_000;

/// What has happened lately.
#[derive(Default)]
pub struct Recent(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// Why this process has asked for the end of NodeClaims, and when, by UID.
    reasons: HashMap<String, (String, i64)>,
    /// NodeClaims that are gone, in the order in which they went.
    gone: VecDeque<End>,
    /// When the last one ended that was forgotten for want of room.
    forgotten: Option<i64>,
    changes: VecDeque<Change>,
    costs: Costs,
}

/// Something that rounds or launches depend on is another one.
struct Change {
    at: Timestamp,
    subject: String,
    what: String,
    times: usize,
}

/// What the status says.
#[derive(Default)]
pub struct View {
    /// `churn`.
    pub churn: Option<parts::Churn>,
    /// `lost`.
    pub lost: Option<parts::Lost>,
    /// `cost`.
    pub cost: Option<parts::Cost>,
    /// `changes`.
    pub changes: Vec<parts::Change>,
    /// A sentence for each thing that an operator should look at.
    pub warnings: Vec<String>,
}

impl Recent {
    /// This process has asked for the end of a NodeClaim.
    pub fn because(&self, claim: &NodeClaim, reason: &str, now: Timestamp) {
        let Some(uid) = claim.metadata.uid.clone() else {
            return;
        };
        let mut inner = lock(&self.0);
        if inner.reasons.len() < MAX_REASONS {
            let reason = reason.to_owned();
            inner.reasons.insert(uid, (reason, now.as_second()));
        }
    }

    pub fn gone(&self, claim: &NodeClaim, now: Timestamp) {
        let mut inner = lock(&self.0);
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        let own = inner.reasons.remove(uid).map(|(reason, _)| reason);
        let now = now.as_second();
        let Some(end) = End::of(claim, own.as_deref().or_else(|| stated(claim)), now) else {
            return;
        };
        if inner.gone.len() == MAX_ENDS {
            inner.forgotten = inner.gone.pop_front().map(|end| end.at);
        }
        inner.gone.push_back(end);
    }

    /// Something was changed; again and again it is one line.
    pub fn changed(&self, at: Timestamp, subject: &str, what: &str) {
        let mut inner = lock(&self.0);
        let changes = &mut inner.changes;
        let known = changes.iter().position(|change| change.subject == subject);
        let known = known.and_then(|known| changes.remove(known));
        if changes.len() == MAX_CHANGES {
            changes.pop_front();
        }
        changes.push_back(Change {
            at,
            subject: subject.to_owned(),
            what: what.to_owned(),
            times: known.map_or(0, |known| known.times) + 1,
        });
    }

    /// What all nodes cost now. To be called once in [`SAMPLE_INTERVAL`].
    pub fn sample(&self, now: Timestamp, cost: Cost) {
        let mut inner = lock(&self.0);
        let now = now.as_second();
        inner.costs.note(now, cost);
        inner.reasons.retain(|_, (_, at)| *at > now - DAY);
        inner.gone.retain(|end| end.is_recent(now));
        let is_recent = |change: &Change| change.at.as_second() > now - DAY;
        inner.changes.retain(is_recent);
    }

    /// What has happened until `now`, where these NodeClaims are there, and this process has watched
    /// since `since` and led since `led`: the reasons of ends before that are those that objects say.
    pub fn view<'c>(
        &self,
        claims: impl Iterator<Item = &'c NodeClaim>,
        (since, led, now): (Timestamp, Timestamp, Timestamp),
    ) -> View {
        let inner = lock(&self.0);
        let second = now.as_second();
        let reason = |claim: &'c NodeClaim| {
            let uid = claim.metadata.uid.as_deref().unwrap_or_default();
            let own = inner.reasons.get(uid).map(|(reason, _)| reason.clone());
            own.or_else(|| stated(claim).map(str::to_owned))
        };
        let is_more = inner.forgotten.is_some_and(|at| at > second - HOUR);
        let mut churn = Churn::new(second, (since.as_second(), is_more));
        let mut lost = Lost::new(second, led.as_second(), inner.forgotten);
        for claim in claims {
            if claim.metadata.deletion_timestamp.is_none() {
                churn.lives(claim);
                lost.lives(claim);
                continue;
            }
            if let Some(end) = End::of(claim, reason(claim).as_deref(), second) {
                churn.ends(&end);
                lost.ends(&end);
            }
        }
        for end in &inner.gone {
            churn.ends(end);
            lost.ends(end);
        }
        let latest = inner.changes.back();
        let latest = latest.map(|change| (change.at.as_second(), change.text()));
        let warnings = [churn.warning(), lost.warning(), inner.costs.warning(latest)];
        View {
            churn: churn.status(),
            lost: lost.status(),
            cost: inner.costs.status(rfc3339(since)),
            changes: inner.changes.iter().map(Change::status).collect(),
            warnings: warnings.into_iter().flatten().collect(),
        }
    }
}

impl Change {
    /// `NodeClass default: generation 2, was 1`
    fn text(&self) -> String {
        format!("{}: {}", self.subject, self.what)
    }

    fn status(&self) -> parts::Change {
        parts::Change {
            at: rfc3339(self.at),
            what: self.text(),
            times: self.times,
        }
    }
}

/// Why disruption takes a NodeClaim, as its condition says.
fn stated(claim: &NodeClaim) -> Option<&str> {
    let status = claim.status.as_ref()?;
    let stated = condition(&status.conditions, DISRUPTION_REASON)?;
    (stated.status == ConditionStatus::True).then_some(stated.reason.as_str())
}

/// How many nodes there are by name.
type NodesByName = BTreeMap<Box<str>, usize>;

/// Names with how many nodes each has, the most first; a few of them.
fn most(all: &NodesByName) -> Vec<(&str, usize)> {
    let mut all: Vec<(&str, usize)> = all.iter().map(|(name, count)| (&**name, *count)).collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    all.truncate(MAX_NAMES_SHOWN);
    all
}

/// How many names are shown.
const MAX_NAMES_SHOWN: usize = 5;

/// The names that have most nodes, for programs.
fn listed(all: &NodesByName) -> Vec<parts::NodesOf> {
    let line = |(name, nodes): (&str, usize)| parts::NodesOf {
        name: name.to_owned(),
        nodes,
    };
    most(all).into_iter().map(line).collect()
}

#[cfg(test)]
mod tests;
