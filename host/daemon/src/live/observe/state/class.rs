//! The status of node classes.

use serde::Deserialize;

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

/// What a node class says of itself, and its generation; one that says nothing is taken for ready.
pub(super) fn read(json: &str) -> (Class, Option<i64>) {
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
