//! The types, and how an object is read as its own.

use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass, VolumeAttachment};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::path_text;

/// An object as its type, where there are rules for it beyond its type.
pub enum Object {
    /// `v1` Pod.
    Pod(Box<Pod>),
    /// `apps/v1` DaemonSet.
    DaemonSet(Box<DaemonSet>),
    /// Any other.
    Other,
}

/// A value that its field does not take.
#[derive(Debug)]
pub struct Mismatch {
    /// The field as a path, `spec.containers[0].image`; empty for the object itself.
    pub field: String,
    /// What is wrong, in serde's words.
    pub what: String,
}

/// What was read.
pub struct Read {
    /// The object, or the first value of a wrong type.
    pub object: Result<Object, Mismatch>,
    /// Fields that the type does not have, as paths, up to the wrong value.
    pub unknown: Vec<String>,
}

/// Reads an object. Nothing if its kind or version is not known here.
pub fn read((group, version, kind): (&str, &str, &str), object: Value) -> Option<Read> {
    let read = match (group, version, kind) {
        ("", "v1", "Pod") => of(object, |pod| Object::Pod(Box::new(pod))),
        ("", "v1", "Node") => of(object, other::<Node>),
        ("", "v1", "Namespace") => of(object, other::<Namespace>),
        ("", "v1", "LimitRange") => of(object, other::<LimitRange>),
        ("", "v1", "PersistentVolume") => of(object, other::<PersistentVolume>),
        ("", "v1", "PersistentVolumeClaim") => of(object, other::<PersistentVolumeClaim>),
        ("", "v1", "ReplicationController") => of(object, other::<ReplicationController>),
        ("", "v1", "Service") => of(object, other::<Service>),
        ("apps", "v1", "DaemonSet") => of(object, |set| Object::DaemonSet(Box::new(set))),
        ("apps", "v1", "ReplicaSet") => of(object, other::<ReplicaSet>),
        ("apps", "v1", "StatefulSet") => of(object, other::<StatefulSet>),
        ("policy", "v1", "PodDisruptionBudget") => of(object, other::<PodDisruptionBudget>),
        ("scheduling.k8s.io", "v1", "PriorityClass") => of(object, other::<PriorityClass>),
        ("storage.k8s.io", "v1", "StorageClass") => of(object, other::<StorageClass>),
        ("storage.k8s.io", "v1", "CSINode") => of(object, other::<CSINode>),
        ("storage.k8s.io", "v1", "CSIDriver") => of(object, other::<CSIDriver>),
        ("storage.k8s.io", "v1", "VolumeAttachment") => of(object, other::<VolumeAttachment>),
        _ => return None,
    };
    Some(read)
}

fn other<T>(_: T) -> Object {
    Object::Other
}

fn of<T: DeserializeOwned>(object: Value, wrap: impl FnOnce(T) -> Object) -> Read {
    let mut track = serde_path_to_error::Track::new();
    let reader = serde_path_to_error::Deserializer::new(object, &mut track);
    let mut unknown = Vec::new();
    let result: Result<T, _> =
        serde_ignored::deserialize(reader, |path| unknown.push(path_text(&path)));
    let object = result.map(wrap).map_err(|error| {
        let field = track.path().to_string();
        Mismatch {
            field: if field == "." { String::new() } else { field },
            what: error.to_string(),
        }
    });
    Read { object, unknown }
}
