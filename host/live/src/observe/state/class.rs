//! The status of node classes.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Deserialize;
use serde_json::Value;

use super::head::{Head, PodCondition};

/// What is known of the class that a NodePool names.
#[derive(Clone, Debug, PartialEq)]
pub enum Class {
    Missing,
    Leaving,
    NotReady(String),
    Unknown,
    Ready,
}

/// A node class.
pub(super) struct NodeClass {
    pub(super) class: Class,
    pub(super) generation: Option<i64>,
    /// A digest of what instances are compared with to see whether they have drifted: images, subnets,
    /// and the hash of the spec, which is in an annotation.
    pub(super) compared: u64,
}

/// What a node class says of itself; one that says nothing is taken for ready.
pub(super) fn read(json: &str) -> NodeClass {
    let (class, generation) = state(json);
    NodeClass {
        class,
        generation,
        compared: compared(json),
    }
}

fn compared(json: &str) -> u64 {
    let mut object: Value = serde_json::from_str(json).unwrap_or_default();
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("conditions");
    }
    let mut digest = DefaultHasher::new();
    for part in ["/metadata/annotations", "/status"] {
        object.pointer(part).map(Value::to_string).hash(&mut digest);
    }
    digest.finish()
}

fn state(json: &str) -> (Class, Option<i64>) {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Object {
        metadata: Head,
        status: Status,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Status {
        conditions: Vec<PodCondition>,
    }
    let object: Object = serde_json::from_str(json).unwrap_or_default();
    let generation = object.metadata.generation;
    if object.metadata.deletion_timestamp.is_some() {
        return (Class::Leaving, generation);
    }
    let class = match object.status.conditions.iter().find(|c| c.kind == "Ready") {
        Some(c) if c.status == "False" => Class::NotReady(c.reason.clone()),
        Some(c) if c.status != "True" => Class::Unknown,
        _ => Class::Ready,
    };
    (class, generation)
}
