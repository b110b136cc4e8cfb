//! What the objects of a cluster are called, and how a change to one is told.

use std::sync::Arc;

use serde_json::Value;

/// A kind of object, as the API server's paths name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Resource {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// Version, as `v1`.
    pub version: &'static str,
    /// Kind, as `Pod`.
    pub kind: &'static str,
    /// Plural in paths, as `pods`.
    pub plural: &'static str,
    /// Whether its objects belong to a namespace.
    pub namespaced: bool,
}

/// One object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key {
    /// Its kind.
    pub resource: Resource,
    /// Its namespace, empty for a kind that has none.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// What happened to an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// It is new.
    Added,
    /// It is another than before.
    Modified,
    /// It is gone; the object is its last version.
    Deleted,
}

/// A change, in the order of revisions over all kinds.
#[derive(Clone, Debug)]
pub struct Change {
    /// The server's revision after it.
    pub revision: u64,
    /// What happened.
    pub event: Event,
    /// The object's name.
    pub key: Key,
    /// The object.
    pub object: Arc<Value>,
}

/// An answer that is not what was asked for, as `metav1.Status` has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// HTTP status, as 409.
    pub code: u16,
    /// Reason, as `AlreadyExists` or `Conflict`.
    pub reason: &'static str,
    /// In words.
    pub message: String,
}
