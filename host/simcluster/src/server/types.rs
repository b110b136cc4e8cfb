//! Merge rules of object fields with several writers: which lists are merged, and by which key.
//!
//! Definitions of custom kinds have them. For built-in kinds the merged fields are listed here by
//! name, because a name means the same wherever it occurs. All other lists are replaced as a whole.

use serde_json::Value;

pub use super::definitions::Schema;
use super::definitions::{self, ListKind};
use crate::object::Resource;

/// Lists of built-in kinds whose items are merged by their names, in patches and by managers of
/// fields.
const BY_NAME: [&str; 9] = [
    "containers",
    "initContainers",
    "ephemeralContainers",
    "env",
    "volumes",
    "imagePullSecrets",
    "schedulingGates",
    "resourceClaims",
    "secrets",
];

/// A place in an object, with what is known of its type.
#[derive(Clone, Copy)]
pub enum Position<'a> {
    /// In a custom object.
    Custom(&'a Schema),
    /// A field of an object of a built-in kind, and the field above it.
    Builtin(&'a str, &'a str),
    /// Nothing is known: fields are merged, lists are not.
    Unknown,
}

impl<'a> Position<'a> {
    /// The whole object.
    pub fn of(resource: Resource) -> Position<'a> {
        match definitions::schema(resource) {
            Some(schema) => Position::Custom(schema),
            None => Position::Builtin("", ""),
        }
    }

    /// A field of what is here.
    pub fn field(self, name: &'a str) -> Position<'a> {
        match self {
            // The metadata of all objects is of one type.
            Position::Custom(_) if name == "metadata" => Position::Builtin(name, ""),
            Position::Custom(schema) => schema
                .field(name)
                .map_or(Position::Unknown, Position::Custom),
            Position::Builtin(above, _) => Position::Builtin(name, above),
            Position::Unknown => Position::Unknown,
        }
    }

    /// An item of the list that is here.
    pub fn item(self) -> Position<'a> {
        match self {
            Position::Custom(schema) => schema.item().map_or(Position::Unknown, Position::Custom),
            other => other,
        }
    }

    /// Whether what is here is taken as a whole, though it has fields.
    pub fn is_atomic(self) -> bool {
        match self {
            Position::Custom(schema) => schema.is_atomic,
            Position::Builtin(name, above) => {
                matches!(name, "selector" if above == "spec")
                    || matches!(
                        name,
                        "secretKeyRef"
                            | "configMapKeyRef"
                            | "fieldRef"
                            | "resourceFieldRef"
                            | "labelSelector"
                            | "nodeSelectorTerms"
                            | "nodeSelector"
                            | "claimRef"
                            | "involvedObject"
                    )
                    || (above == "affinity"
                        && name == "requiredDuringSchedulingIgnoredDuringExecution")
            }
            Position::Unknown => false,
        }
    }

    /// How a list that is here is put together by apply.
    pub fn list(self) -> ListKind {
        let by = |keys: &[&str]| ListKind::Map(keys.iter().map(|key| (*key).to_owned()).collect());
        match self {
            Position::Custom(schema) => schema.list.clone(),
            Position::Unknown => ListKind::Atomic,
            Position::Builtin(name, above) => match (above, name) {
                (_, "ownerReferences") => by(&["uid"]),
                ("metadata", "finalizers") | (_, "podCIDRs") => ListKind::Set,
                (_, "claims") => by(&["name"]),
                (_, name) if BY_NAME.contains(&name) => by(&["name"]),
                (_, "volumeMounts") => by(&["mountPath"]),
                (_, "volumeDevices") => by(&["devicePath"]),
                ("spec", "ports") => by(&["port", "protocol"]),
                (_, "ports") => by(&["containerPort", "protocol"]),
                (_, "topologySpreadConstraints") => by(&["topologyKey", "whenUnsatisfiable"]),
                (_, "hostAliases" | "podIPs") => by(&["ip"]),
                (_, "conditions" | "addresses") => by(&["type"]),
                (_, "drivers") => by(&["name"]),
                _ => ListKind::Atomic,
            },
        }
    }

    /// The merge key of a list in strategic merge patches; empty for plain values.
    pub fn patch_key(self) -> Option<&'static str> {
        let Position::Builtin(name, above) = self else {
            return None;
        };
        match (above, name) {
            (_, "ownerReferences") => Some("uid"),
            ("metadata", "finalizers") | (_, "podCIDRs") => Some(""),
            (_, name) if BY_NAME.contains(&name) => Some("name"),
            (_, "volumeMounts") => Some("mountPath"),
            (_, "volumeDevices") => Some("devicePath"),
            ("spec", "ports") => Some("port"),
            (_, "ports") => Some("containerPort"),
            (_, "topologySpreadConstraints") => Some("topologyKey"),
            (_, "hostAliases" | "podIPs") => Some("ip"),
            (_, "conditions" | "addresses") => Some("type"),
            _ => None,
        }
    }
}

/// The item of a list that has the same keys.
pub fn find(items: &[Value], keys: &[String], item: &Value) -> Option<usize> {
    items.iter().position(|other| {
        keys.iter()
            .all(|key| key_of(other, key) == key_of(item, key))
    })
}

/// The value of a key. A protocol that is not said is TCP.
pub fn key_of(item: &Value, key: &str) -> Value {
    match item.get(key) {
        None if key == "protocol" => Value::from("TCP"),
        None => Value::Null,
        Some(value) => value.clone(),
    }
}
