//! What was listed of each kind of objects, and what cannot be.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::process::mutants::mutant;
use longshore_api::kinds::ObjectKind;

/// The lists of all kinds.
#[derive(Default)]
pub struct Lists {
    /// Known names by kind, so that a list shows which objects are gone. Pods have their own map.
    known: BTreeMap<ObjectKind, BTreeSet<Box<str>>>,
    /// Names seen in the list that is being read.
    seen: BTreeMap<ObjectKind, HashSet<Box<str>>>,
    listed: BTreeSet<ObjectKind>,
    /// Kinds that are not watched.
    unwatched: BTreeSet<ObjectKind>,
    troubles: BTreeMap<ObjectKind, String>,
}

impl Lists {
    /// Waits for no list of a kind: it is not watched.
    pub fn leave_out(&mut self, kind: ObjectKind) {
        self.unwatched.insert(kind);
    }

    /// Every kind that planning cannot do without has been listed once.
    pub fn synced(&self) -> bool {
        let at_least = if mutant("trusts-cache") {
            &ObjectKind::ALL[..1]
        } else {
            &ObjectKind::ALL
        };
        let is_known =
            |kind: &ObjectKind| self.listed.contains(kind) || self.unwatched.contains(kind);
        at_least.iter().all(is_known)
    }

    /// What cannot be listed or watched now, in words.
    pub fn troubles(&self) -> impl Iterator<Item = (ObjectKind, &str)> {
        self.troubles
            .iter()
            .map(|(kind, why)| (*kind, why.as_str()))
    }

    /// Why a kind cannot be listed or watched now, if so.
    pub fn trouble(&self, kind: ObjectKind) -> Option<&str> {
        self.troubles.get(&kind).map(String::as_str)
    }

    /// An object was listed, in a version that is folded or not: it exists.
    pub fn note_seen(&mut self, kind: ObjectKind, name: &str) {
        if let Some(seen) = self.seen.get_mut(&kind) {
            seen.insert(name.into());
        }
    }

    /// Whether every object of a kind was listed once.
    pub(super) fn is_listed(&self, kind: ObjectKind) -> bool {
        self.listed.contains(&kind)
    }

    /// Whether a list of a kind is being read.
    pub(super) fn is_being_read(&self, kind: ObjectKind) -> bool {
        self.seen.contains_key(&kind)
    }

    /// Notes that a list of the kind begins: no name has been read of it.
    pub(super) fn begin(&mut self, kind: ObjectKind) {
        self.seen.insert(kind, HashSet::new());
    }

    /// A list has ended. Returns the names in it.
    pub(super) fn end(&mut self, kind: ObjectKind) -> HashSet<Box<str>> {
        self.troubles.remove(&kind);
        self.listed.insert(kind);
        self.seen.remove(&kind).unwrap_or_default()
    }

    /// A kind cannot be listed or watched.
    pub(super) fn failed(&mut self, kind: ObjectKind, why: &str) {
        self.troubles.insert(kind, why.to_owned());
    }

    /// A kind can be watched again.
    pub(super) fn recovered(&mut self, kind: ObjectKind) {
        self.troubles.remove(&kind);
    }

    /// An object of a kind other than Pod is there.
    pub(super) fn add(&mut self, kind: ObjectKind, name: &str) {
        self.known.entry(kind).or_default().insert(name.into());
    }

    /// Forgets an object that is deleted.
    pub(super) fn forget(&mut self, kind: ObjectKind, name: &str) {
        if let Some(known) = self.known.get_mut(&kind) {
            known.remove(name);
        }
    }

    /// Names of the objects of a kind other than Pod.
    pub(super) fn names(&self, kind: ObjectKind) -> impl Iterator<Item = &str> {
        let names = self.known.get(&kind).into_iter().flatten();
        names.map(|name| &**name)
    }
}
