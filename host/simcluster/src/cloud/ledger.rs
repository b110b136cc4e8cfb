//! The ledger: what was bought, for how long, and at what cost.

use std::fmt::{Display, Formatter, Result};
use std::time::Duration;

use crate::log::clock_text;

/// One instance, times since the world began.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The cloud's ID for it.
    pub provider_id: String,
    /// Its node's name.
    pub node: String,
    /// The NodeClaim that it was made for, and that one's UID.
    pub claim: String,
    pub claim_uid: String,
    /// The token of its launch group; empty for none. Until a claim names it, it is nobody's.
    pub group: String,
    /// The NodePool of the claim.
    pub node_pool: String,
    pub instance_type: String,
    pub zone: String,
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: String,
    /// When it was launched.
    pub start: Duration,
    /// When it was ended; nothing while it runs.
    pub end: Option<Duration>,
    /// USD so far.
    pub paid: f64,
}

/// All instances that there ever were, in the order of their launch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    /// One line for each.
    pub entries: Vec<Entry>,
}

impl Ledger {
    /// USD so far.
    pub fn paid(&self) -> f64 {
        self.entries.iter().fold(0.0, |all, e| all + e.paid)
    }

    /// Instances that run.
    pub fn running(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|e| e.end.is_none())
    }

    /// Instances that run for a claim that `is_wanted` does not know, by its UID: leaks.
    pub fn leaked(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<&Entry> {
        self.running()
            .filter(|e| !is_wanted(&e.claim_uid))
            .collect()
    }

    /// Claims that more than one instance was made for, ever.
    pub fn bought_twice(&self) -> Vec<&str> {
        let mut claims: Vec<&str> = self.entries.iter().map(|e| e.claim_uid.as_str()).collect();
        // One of a launch group that no claim has named.
        claims.retain(|uid| !uid.is_empty());
        claims.sort_unstable();
        let mut twice: Vec<&str> = claims
            .windows(2)
            .filter(|w| w[0] == w[1])
            .map(|w| w[0])
            .collect();
        twice.dedup();
        twice
    }
}

impl Display for Ledger {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for e in &self.entries {
            let end = e.end.map_or("now".to_owned(), clock_text);
            writeln!(
                f,
                "{} {} {} {} {} to {end}: {:.6} USD",
                e.node,
                e.instance_type,
                e.zone,
                e.capacity_type,
                clock_text(e.start),
                e.paid
            )?;
        }
        writeln!(f, "{:.6} USD", self.paid())
    }
}
