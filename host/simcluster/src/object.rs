//! Keys of the objects of a cluster, and the description of a change.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value;

use crate::server::resources;

/// A kind of object: its place among those that the server knows. Every look-up asks for it, so it
/// is a number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource(u8);

impl Resource {
    /// The kind in this place.
    pub const fn numbered(place: u8) -> Self {
        Resource(place)
    }
}

impl Deref for Resource {
    type Target = ResourceKind;

    fn deref(&self) -> &ResourceKind {
        resources::kind(self.0)
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version(), self.kind)
    }
}

/// What a kind is called, as the API server's paths name it.
#[derive(Debug)]
pub struct ResourceKind {
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
    pub resource: Resource,
    /// Its namespace, empty for a kind that has none.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

/// What happened to an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
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
    pub event: Event,
    /// The object's name.
    pub key: Key,
    pub object: Arc<Value>,
}

/// An answer that is not what was asked for, as `metav1.Status` has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApiError {
    /// HTTP status, as 409.
    pub code: u16,
    /// Reason, as `AlreadyExists` or `Conflict`.
    pub reason: &'static str,
    pub message: String,
}

/// Which part of an object is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subresource {
    /// All but the status, where that is written apart.
    Object,
    /// The status, and of kinds that are not custom the metadata too.
    Status,
}
