//! Whether launches of a NodePool come to a node, for its condition `NodeRegistrationHealthy`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use crate::process::lock::lock;

/// How the last four launches of each NodePool went.
#[derive(Default)]
pub struct RegistrationHealth(Mutex<BTreeMap<String, VecDeque<bool>>>);

impl RegistrationHealth {
    /// Notes how a launch or registration ended.
    pub fn record(&self, pool: &str, good: bool) {
        let mut all = lock(&self.0);
        let last = all.entry(pool.to_owned()).or_default();
        last.push_back(good);
        if last.len() > 4 {
            last.pop_front();
        }
    }

    /// Another version of a NodePool or its class: what was before says nothing about it.
    pub fn forget(&self, pool: &str) {
        lock(&self.0).remove(pool);
    }

    /// Fewer than two of the last four failed; nothing if none is known.
    pub fn of(&self, pool: &str) -> Option<bool> {
        let all = lock(&self.0);
        let last = all.get(pool).filter(|l| !l.is_empty())?;
        Some(last.iter().filter(|good| !**good).count() < 2)
    }
}
