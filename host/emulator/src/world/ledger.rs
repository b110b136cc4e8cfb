//! Objects with their past, for reads that lag behind.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::time::{MINUTE, Time};

/// How long a replaced version stays readable: longer than any lag.
const HISTORY_TIME: i64 = 15 * MINUTE;

/// Objects by id. Each has the versions of the last [`HISTORY_TIME`] milliseconds.
#[derive(Debug)]
pub struct Ledger<T>(BTreeMap<String, Vec<(Time, Option<Arc<T>>)>>);

impl<T> Default for Ledger<T> {
    fn default() -> Self {
        Ledger(BTreeMap::new())
    }
}

impl<T: Clone> Ledger<T> {
    /// The newest version of an object.
    pub fn get(&self, id: &str) -> Option<&Arc<T>> {
        self.0.get(id)?.last()?.1.as_ref()
    }

    /// The newest versions, by id.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<T>)> {
        self.iter_at(Time(i64::MAX))
    }

    /// The version of a moment.
    pub fn get_at(&self, id: &str, moment: Time) -> Option<&Arc<T>> {
        version(self.0.get(id)?, moment)
    }

    /// The versions of a moment, by id.
    pub fn iter_at(&self, moment: Time) -> impl Iterator<Item = (&str, &Arc<T>)> {
        let at = move |versions| version(versions, moment);
        let rows = self.0.iter();
        rows.filter_map(move |(id, versions)| Some((&**id, at(versions)?)))
    }

    /// Adds a version.
    pub fn put(&mut self, now: Time, id: &str, object: T) {
        self.push(now, id, Some(Arc::new(object)));
    }

    /// Ends an object.
    pub fn remove(&mut self, now: Time, id: &str) {
        if self.get(id).is_some() {
            self.push(now, id, None);
        }
    }

    /// Adds a version that differs from the newest one. Nothing happens to an object that is gone.
    pub fn change(&mut self, now: Time, id: &str, change: impl FnOnce(&mut T)) {
        if let Some(object) = self.get(id) {
            let mut object = (**object).clone();
            change(&mut object);
            self.put(now, id, object);
        }
    }

    /// Forgets objects that ended longer ago than any lag.
    pub fn sweep(&mut self, now: Time) {
        self.0.retain(|_, versions| match versions.last() {
            Some((at, None)) => now.since(*at) <= HISTORY_TIME,
            other => other.is_some(),
        });
    }

    fn push(&mut self, now: Time, id: &str, object: Option<Arc<T>>) {
        let versions = self.0.entry(id.to_owned()).or_default();
        let old = versions
            .iter()
            .rposition(|(at, _)| now.since(*at) > HISTORY_TIME);
        versions.drain(..old.unwrap_or(0));
        versions.push((now, object));
    }
}

fn version<T>(versions: &[(Time, Option<Arc<T>>)], moment: Time) -> Option<&Arc<T>> {
    let found = versions.iter().rev().find(|(at, _)| *at <= moment)?;
    found.1.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_of_an_earlier_moment_does_not_know_later_versions() {
        let mut ledger = Ledger::default();
        ledger.put(Time(1000), "a", "new");
        ledger.change(Time(2000), "a", |value| *value = "changed");
        ledger.remove(Time(3000), "a");
        let at = |moment| ledger.get_at("a", Time(moment)).map(|value| **value);
        assert_eq!(at(999), None);
        assert_eq!(at(1999), Some("new"));
        assert_eq!(at(2000), Some("changed"));
        assert_eq!(at(3000), None);
        assert_eq!(ledger.iter_at(Time(1500)).count(), 1);
        assert_eq!(ledger.iter().count(), 0);
        ledger.sweep(Time(3000 + HISTORY_TIME));
        assert_eq!(ledger.0.len(), 1);
        ledger.sweep(Time(3001 + HISTORY_TIME));
        assert_eq!(ledger.0.len(), 0);
    }
}
