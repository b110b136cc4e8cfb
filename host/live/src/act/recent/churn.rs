//! Nodes that were bought and ended within an hour, and those that were lost to interruptions within ten
//! minutes.

use crate::observe::node_claim::{pool_of, provider_id};
use longshore_api::crd::NodeClaim;
use longshore_api::labels;

use super::{HOUR, NodesByName, listed, most};
use crate::status::parts;
use longshore_report::messages::span;

/// Nodes live short where more ended within the hour than half of those that there are, and at least
/// so many, and half of them lived no longer than [`SHORT_LIFE_SECONDS`].
const LEAST_ENDED: usize = 5;
/// A life that counts as short.
const SHORT_LIFE_SECONDS: i64 = 20 * 60;
/// Interruptions count for so long.
const INTERRUPTION_MEMORY_SECONDS: i64 = 600;
/// They are a burst where they took more than a fifth of the nodes, and at least so many.
const LEAST_LOST: usize = 3;

/// The reason of an end that this process knows nothing of.
const UNKNOWN: &str = "unknown";

/// Reasons of ends that EC2 is the cause of.
const INTERRUPTIONS: [&str; 5] = [
    "spot_interrupted",
    "scheduled_change",
    "instance_stopped",
    "instance_terminated",
    "capacity_reservation_interrupted",
];

/// A NodeClaim with an instance whose end was asked for.
pub struct End {
    /// When: seconds since 1970.
    pub at: i64,
    created: i64,
    pool: Box<str>,
    reason: Box<str>,
    zone: Box<str>,
    instance_type: Box<str>,
}

impl End {
    /// That of a NodeClaim, if it ever had an instance. Where nothing says when it was to end, it is
    /// `now`.
    pub fn of(claim: &NodeClaim, reason: Option<&str>, now: i64) -> Option<End> {
        if provider_id(claim).is_empty() {
            return None;
        }
        let meta = &claim.metadata;
        let asked = meta.deletion_timestamp.as_ref();
        let at = asked.map_or(now, |at| at.0.as_second());
        let label = |key: &str| {
            let label = meta.labels.as_ref().and_then(|labels| labels.get(key));
            label.map_or("?", String::as_str).into()
        };
        Some(End {
            at,
            created: created(claim).unwrap_or(at),
            pool: pool_of(claim).into(),
            reason: reason.unwrap_or(UNKNOWN).to_lowercase().into(),
            zone: label(labels::ZONE),
            instance_type: label(labels::INSTANCE_TYPE),
        })
    }

    /// Whether it was within the hour.
    pub fn is_recent(&self, now: i64) -> bool {
        self.at > now - HOUR
    }
}

fn created(claim: &NodeClaim) -> Option<i64> {
    let created = claim.metadata.creation_timestamp.as_ref();
    created.map(|at| at.0.as_second())
}

/// What came and went within an hour.
pub struct Churn {
    now: i64,
    /// Since when this process has watched.
    since: i64,
    /// Whether more ended than is known.
    is_more: bool,
    nodes: usize,
    launched: usize,
    lives: Vec<i64>,
    by_pool: NodesByName,
    by_reason: NodesByName,
}

impl Churn {
    pub fn new(now: i64, (since, is_more): (i64, bool)) -> Self {
        Churn {
            now,
            since,
            is_more,
            nodes: 0,
            launched: 0,
            lives: Vec::new(),
            by_pool: NodesByName::new(),
            by_reason: NodesByName::new(),
        }
    }

    /// A NodeClaim is there and is to stay.
    pub fn lives(&mut self, claim: &NodeClaim) {
        if !provider_id(claim).is_empty() {
            self.nodes += 1;
            self.launches(created(claim));
        }
    }

    /// One has ended, or is about to.
    pub fn ends(&mut self, end: &End) {
        if !end.is_recent(self.now) {
            return;
        }
        self.launches(Some(end.created));
        self.lives.push((end.at - end.created).max(0));
        *self.by_pool.entry(end.pool.clone()).or_default() += 1;
        *self.by_reason.entry(end.reason.clone()).or_default() += 1;
    }

    fn launches(&mut self, created: Option<i64>) {
        let is_recent = created.is_some_and(|created| created > self.now - HOUR);
        self.launched += usize::from(is_recent);
    }

    fn ended(&self) -> usize {
        self.lives.len()
    }

    /// How long half of those that ended did not live, in seconds.
    fn median(&self) -> Option<i64> {
        let mut lives = self.lives.clone();
        lives.sort_unstable();
        lives.get(lives.len() / 2).copied()
    }

    /// For the status, where something came or went.
    pub fn status(&self) -> Option<parts::Churn> {
        (self.launched + self.ended() > 0).then(|| parts::Churn {
            launched: self.launched,
            ended: self.ended(),
            ended_more: self.is_more,
            nodes: self.nodes,
            median_seconds: self.median(),
            watched_seconds: Some((self.now - self.since).clamp(0, HOUR)),
            by_node_pool: listed(&self.by_pool),
            by_reason: listed(&self.by_reason),
        })
    }

    /// A sentence where many nodes live short.
    pub fn warning(&self) -> Option<String> {
        let median = self.median()?;
        let ended = self.ended();
        if ended < LEAST_ENDED || 2 * ended <= self.nodes || median > SHORT_LIFE_SECONDS {
            return None;
        }
        let (pool, of_pool) = most(&self.by_pool).into_iter().next()?;
        let (reason, of_reason) = most(&self.by_reason).into_iter().next()?;
        let why = match reason {
            UNKNOWN => "for no known reason".to_owned(),
            reason => format!("as {reason}"),
        };
        Some(format!(
            "nodes live short: {ended} ended within the hour, {} are there; half of those that ended lived \
            no longer than {}; {of_pool} of them are of NodePool {pool}, {of_reason} ended {why}",
            self.nodes,
            span(median)
        ))
    }
}

/// Nodes that were lost to interruptions within ten minutes.
pub struct Lost {
    now: i64,
    nodes: usize,
    /// Other nodes that were there when these ten minutes began.
    others: usize,
    /// Whether more were lost than is known.
    is_more: bool,
    /// Since when this process has led, and so knows why nodes end.
    led: i64,
    /// Nodes that ended before, for no known reason.
    unknown: usize,
    by_zone: NodesByName,
    by_type: NodesByName,
}

impl Lost {
    /// None yet. The end that was forgotten last, if any, was at `forgotten`. This process leads since
    /// `led`.
    pub fn new(now: i64, led: i64, forgotten: Option<i64>) -> Self {
        Lost {
            now,
            nodes: 0,
            others: 0,
            led,
            unknown: 0,
            is_more: forgotten.is_some_and(|at| at > now - INTERRUPTION_MEMORY_SECONDS),
            by_zone: NodesByName::new(),
            by_type: NodesByName::new(),
        }
    }

    /// A NodeClaim is there and is to stay. One that was bought since, maybe in place of a lost one, is
    /// none of those that there were.
    pub fn lives(&mut self, claim: &NodeClaim) {
        let was_there =
            created(claim).is_some_and(|created| created <= self.now - INTERRUPTION_MEMORY_SECONDS);
        self.others += usize::from(was_there && !provider_id(claim).is_empty());
    }

    /// A node has ended, or is about to.
    pub fn ends(&mut self, end: &End) {
        if end.at <= self.now - INTERRUPTION_MEMORY_SECONDS {
            return;
        }
        if !INTERRUPTIONS.contains(&&*end.reason) {
            let is_unknown = &*end.reason == UNKNOWN && end.at < self.led;
            self.unknown += usize::from(is_unknown);
            self.others += usize::from(end.created <= self.now - INTERRUPTION_MEMORY_SECONDS);
        } else {
            self.nodes += 1;
            *self.by_zone.entry(end.zone.clone()).or_default() += 1;
            let of_type = self.by_type.entry(end.instance_type.clone());
            *of_type.or_default() += 1;
        }
    }

    /// For the status, where there are any, or may be.
    pub fn status(&self) -> Option<parts::Lost> {
        (self.nodes + self.unknown > 0).then(|| parts::Lost {
            nodes: self.nodes,
            more: self.is_more,
            by_zone: listed(&self.by_zone),
            by_type: listed(&self.by_type),
            counted_seconds: (self.now - self.led).clamp(0, INTERRUPTION_MEMORY_SECONDS),
            unknown: self.unknown,
        })
    }

    /// A sentence where they are many of those that there were.
    pub fn warning(&self) -> Option<String> {
        let before = self.nodes + self.others;
        if self.nodes < LEAST_LOST || 5 * self.nodes <= before {
            return None;
        }
        let (zone, of_zone) = most(&self.by_zone).into_iter().next()?;
        let (kind, of_type) = most(&self.by_type).into_iter().next()?;
        Some(format!(
            "interruptions took {} of {before} nodes within 10 min: {of_zone} in {zone}, {of_type} of \
            type {kind}",
            self.nodes
        ))
    }
}
