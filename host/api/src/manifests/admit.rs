//! What the API server makes of a manifest of a custom kind, for readers of files.
//!
//! A manifest without `uid` and `resourceVersion` was written by hand: what the API server refuses is
//! refused, an unknown field too, as `kubectl apply` does. An object with one comes from a cluster
//! that has accepted it: a field that only its newer definition knows is left out, with a word where
//! it stands in `spec`. `status` is written by controllers: what is unknown there never counts.

use std::borrow::Cow;
use std::ops::Range;

use rustc_hash::FxHashSet;
use serde_json::Value;

use super::diagnostic::Fault;
use super::metadata;
use super::status::is_status;
use crate::crd::admission::{Admission, Cause};
use crate::json;

/// What becomes of a manifest.
pub(crate) struct Admitted<'a> {
    /// It as it will be stored.
    pub text: Cow<'a, str>,
    /// Why it is refused; empty if it is not.
    pub refusals: Vec<Fault>,
    /// Fields that are left out.
    pub notes: Vec<Fault>,
}

/// What becomes of the object `text`. Nothing is known of what is not JSON: its reader says why.
pub(crate) fn admit<'a>(
    admission: &Admission,
    text: &'a str,
    is_by_hand: bool,
) -> Option<Admitted<'a>> {
    if !is_by_hand {
        return stored(admission, text);
    }
    let (mut object, mut admitted) = pruned(admission, text, false)?;
    let causes = admission.admit(&mut object, None);
    // The API server drops `status` before it looks, where an object is created.
    let causes = causes
        .into_iter()
        .filter(|cause| cause.field != "<nil>" && !is_status(&cause.field));
    admitted.refusals.extend(causes.map(refusal));
    Some(admitted)
}

/// The same without schema and rules: only fields that are not known are refused.
pub(crate) fn prune<'a>(admission: &Admission, text: &'a str) -> Option<Admitted<'a>> {
    match is_stored(text) {
        true => stored(admission, text),
        false => pruned(admission, text, false).map(|(_, admitted)| admitted),
    }
}

/// What becomes of an object that was read from a cluster.
fn stored<'a>(admission: &Admission, text: &'a str) -> Option<Admitted<'a>> {
    if admission.schema().is_stored_form(text) {
        return Some(Admitted {
            text: Cow::Borrowed(text),
            refusals: Vec::new(),
            notes: Vec::new(),
        });
    }
    pruned(admission, text, true).map(|(_, admitted)| admitted)
}

fn pruned<'a>(admission: &Admission, text: &str, stored: bool) -> Option<(Value, Admitted<'a>)> {
    let mut object: Value = serde_json::from_str(text).ok()?;
    let unknown = admission.schema().unknown(&object);
    let unknown = unknown.iter().filter(|path| !is_status(path));
    let unknown = unknown.map(|path| unknown_field(path, stored));
    let mut unknown: Vec<Fault> = twice(text).into_iter().chain(unknown).collect();
    if !stored {
        unknown.extend(metadata::check(&object));
    }
    admission.schema().clean(&mut object);
    admission.schema().complete(&mut object);
    let (refusals, notes) = match stored {
        true => (Vec::new(), unknown),
        false => (unknown, Vec::new()),
    };
    let admitted = Admitted {
        text: Cow::Owned(object.to_string()),
        refusals,
        notes,
    };
    Some((object, admitted))
}

/// A field of the wrong type, where a reader is more lenient than the API server. `status` is none.
pub(crate) fn wrong_type(admission: &Admission, text: &str) -> Option<Fault> {
    let object: Value = serde_json::from_str(text).ok()?;
    let mut causes = Vec::new();
    admission.schema().check_object(&object, None, &mut causes);
    let mut causes = causes.into_iter();
    causes
        .find(|cause| cause.reason == "FieldValueTypeInvalid" && !is_status(&cause.field))
        .map(refusal)
}

/// A field that an object has twice. Kubectl refuses it; a tree would keep the last.
pub(super) fn twice(text: &str) -> Option<Fault> {
    let bytes = text.as_bytes();
    let mut open = vec![(0, String::new())];
    while let Some((at, path)) = open.pop() {
        let (mut seen, mut found) = (FxHashSet::default(), None);
        let mut index = 0;
        let is_list = bytes[at] == b'[';
        let _ = json::walk(bytes, at, |key, start| {
            let name = String::from_utf8_lossy(key);
            let below = match (is_list, path.as_str()) {
                (true, path) => format!("{path}[{index}]"),
                (false, "") => name.into_owned(),
                (false, path) => format!("{path}.{name}"),
            };
            index += 1;
            if !is_list && !seen.insert(key) {
                found = Some(below);
                return None;
            }
            if matches!(bytes.get(start), Some(b'{' | b'[')) {
                open.push((start, below));
            }
            Some(json::skip_value(bytes, start))
        });
        if let Some(field) = found {
            return Some(Fault {
                field,
                what: "is there twice".to_owned(),
                hint: "keep one of the two; kubectl apply refuses it".to_owned(),
            });
        }
    }
    None
}

/// Whether an object was read from a cluster.
pub(crate) fn is_stored(text: &str) -> bool {
    let bytes = text.as_bytes();
    json::member(bytes, 0, "metadata").is_some_and(|metadata| is_stored_by(bytes, metadata))
}

/// The same by the place of its metadata.
pub(super) fn is_stored_by(bytes: &[u8], metadata: Range<usize>) -> bool {
    let given = json::members(bytes, metadata.start, ["uid", "resourceVersion"]);
    let mut given = given.into_iter().flatten();
    given.any(|value| json::plain_string(bytes, value).is_some())
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
