//! What was listed of each kind of objects, and what cannot be.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::process::mutants::mutant;
use longshore_api::kinds::Kind;

/// The lists of all kinds.
#[derive(Default)]
pub struct Lists {
    /// Known names by kind, so that a list shows which objects are gone. Pods have their own map.
    known: BTreeMap<Kind, BTreeSet<Box<str>>>,
    /// Names seen in the list that is being read.
    seen: BTreeMap<Kind, HashSet<Box<str>>>,
    listed: BTreeSet<Kind>,
    /// Kinds that are not watched.
    unwatched: BTreeSet<Kind>,
    troubles: BTreeMap<Kind, String>,
}

impl Lists {
    /// Waits for no list of a kind: it is not watched.
    pub fn leave_out(&mut self, kind: Kind) {
        self.unwatched.insert(kind);
    }

    /// Every kind that planning cannot do without has been listed once.
    pub fn synced(&self) -> bool {
        let at_least = if mutant("trusts-cache") {
            &Kind::ALL[..1]
        } else {
            &Kind::ALL
        };
        let is_known = |kind: &Kind| self.listed.contains(kind) || self.unwatched.contains(kind);
        at_least.iter().all(is_known)
    }

    /// What cannot be listed or watched now, in words.
    pub fn troubles(&self) -> impl Iterator<Item = (Kind, &str)> {
        self.troubles
            .iter()
            .map(|(kind, why)| (*kind, why.as_str()))
    }

    /// Why a kind cannot be listed or watched now, if so.
    pub fn trouble(&self, kind: Kind) -> Option<&str> {
        self.troubles.get(&kind).map(String::as_str)
    }

    /// An object was listed, in a version that is folded or not: it exists.
    pub fn note_seen(&mut self, kind: Kind, name: &str) {
        if let Some(seen) = self.seen.get_mut(&kind) {
            seen.insert(name.into());
        }
    }

    /// Whether every object of a kind was listed once.
    pub(super) fn is_listed(&self, kind: Kind) -> bool {
        self.listed.contains(&kind)
    }

    /// Whether a list of a kind is being read.
    pub(super) fn is_being_read(&self, kind: Kind) -> bool {
        self.seen.contains_key(&kind)
    }

    /// A list begins.
    pub(super) fn begin(&mut self, kind: Kind) {
        self.seen.insert(kind, HashSet::new());
    }

    /// A list has ended. Returns the names in it.
    pub(super) fn end(&mut self, kind: Kind) -> HashSet<Box<str>> {
        self.troubles.remove(&kind);
        self.listed.insert(kind);
        self.seen.remove(&kind).unwrap_or_default()
    }

    /// A kind cannot be listed or watched.
    pub(super) fn failed(&mut self, kind: Kind, why: &str) {
        self.troubles.insert(kind, why.to_owned());
    }

    /// A kind can be watched again.
    pub(super) fn recovered(&mut self, kind: Kind) {
        self.troubles.remove(&kind);
    }

    /// An object of a kind other than Pod is there.
    pub(super) fn add(&mut self, kind: Kind, name: &str) {
        self.known.entry(kind).or_default().insert(name.into());
    }

    /// An object is gone.
    pub(super) fn forget(&mut self, kind: Kind, name: &str) {
        if let Some(known) = self.known.get_mut(&kind) {
            known.remove(name);
        }
    }

    /// Names of the objects of a kind other than Pod.
    pub(super) fn names(&self, kind: Kind) -> impl Iterator<Item = &str> {
        let names = self.known.get(&kind).into_iter().flatten();
        names.map(|name| &**name)
    }
}
