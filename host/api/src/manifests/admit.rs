//! What the API server makes of a manifest of a custom kind, for readers of files.
//!
//! A manifest without `uid` and `resourceVersion` was written by hand: what the API server refuses is
//! refused, an unknown field too, as `kubectl apply` does. An object with one comes from a cluster
//! that has accepted it: a field that only its newer definition knows is left out, with a word where
//! it stands in `spec`. `status` is written by controllers: what is unknown there never counts.

use serde_json::Value;

use super::diagnostic::Fault;
use crate::crd::admission::{Admission, Cause};
use crate::json;

/// What becomes of a manifest.
pub(crate) struct Admitted {
    /// It as it will be stored, on one line.
    pub text: String,
    /// Why it is refused; empty if it is not.
    pub refusals: Vec<Fault>,
    /// Fields that are left out.
    pub notes: Vec<Fault>,
}

/// What becomes of the object `text`. Nothing is known of what is not JSON: its reader says why.
pub(crate) fn admit(admission: &Admission, text: &str) -> Option<Admitted> {
    let mut object: Value = serde_json::from_str(text).ok()?;
    let stored = is_stored(text);
    let unknown = admission.schema().unknown(&object);
    let unknown = unknown.iter().filter(|path| !is_status(path));
    let unknown: Vec<Fault> = unknown.map(|path| unknown_field(path, stored)).collect();
    if stored {
        admission.schema().clean(&mut object);
        return Some(Admitted {
            text: object.to_string(),
            refusals: Vec::new(),
            notes: unknown,
        });
    }
    let causes = admission.admit(&mut object, None);
    let causes = causes.into_iter().filter(|cause| cause.field != "<nil>");
    let refusals = unknown.into_iter().chain(causes.map(refusal));
    Some(Admitted {
        refusals: refusals.collect(),
        text: object.to_string(),
        notes: Vec::new(),
    })
}

/// Whether an object was read from a cluster.
pub(crate) fn is_stored(text: &str) -> bool {
    let bytes = text.as_bytes();
    let metadata = json::member(bytes, 0, "metadata").filter(|range| bytes[range.start] == b'{');
    let has =
        |range: &std::ops::Range<usize>, name| super::field(bytes, range.start, name).is_some();
    metadata.is_some_and(|range| has(&range, "uid") || has(&range, "resourceVersion"))
}

fn is_status(path: &str) -> bool {
    path == "status" || path.starts_with("status.")
}

fn unknown_field(path: &str, stored: bool) -> Fault {
    Fault {
        field: path.to_owned(),
        what: "is not a known field".to_owned(),
        hint: match stored {
            true => "it has no effect here; the cluster's definition may be newer".to_owned(),
            false => "remove it, or correct its spelling; kubectl apply refuses it".to_owned(),
        },
    }
}

fn refusal(cause: Cause) -> Fault {
    Fault {
        field: cause.field,
        what: cause.message,
        hint: "the API server refuses it".to_owned(),
    }
}
