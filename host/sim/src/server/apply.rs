//! Server-side apply.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::refusal::Refused;
use crate::object::Resource;

/// Who writes.
#[derive(Clone, Debug, Default)]
pub struct Manager {
    /// `fieldManager`, or the client's name.
    pub name: String,
    /// By apply, not by update.
    pub applies: bool,
    /// Such as `status`, or empty.
    pub subresource: String,
}

impl Manager {
    /// One who updates whole objects.
    pub fn update(name: &str) -> Self {
        Manager { name: name.to_owned(), ..Manager::default() }
    }
}

/// Notes who changed which fields.
pub fn track(_: Resource, _: Option<&Value>, _: &mut Value, _: &Manager, _: Timestamp) {}

/// What an object becomes when somebody applies some fields.
pub fn apply(_: Resource, _: Option<&Value>, _: &Value, _: &Manager, _: bool, _: Timestamp) -> Result<Value, Refused> {
    Err(Refused::plain(501, "NotImplemented", "server-side apply: not yet"))
}
