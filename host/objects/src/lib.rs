//! Objects of Kubernetes' own kinds read as their types.
//!
//! A crate of its own because these types take minutes to compile and change with a version of
//! Kubernetes only. It depends on nothing of ours, so that a change of ours does not compile them again.

#![warn(missing_docs)]

#[cfg(feature = "types")]
mod types;

#[cfg(feature = "types")]
pub use types::{Mismatch, Object, Read, read};

/// A path of fields: `spec.containers[0].image`.
pub fn path_text(path: &serde_ignored::Path<'_>) -> String {
    use serde_ignored::Path;
    match path {
        Path::Root => String::new(),
        Path::Seq { parent, index } => format!("{}[{index}]", path_text(parent)),
        Path::Map { parent, key } => match path_text(parent) {
            parent if parent.is_empty() => key.clone(),
            parent => format!("{parent}.{key}"),
        },
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => path_text(parent),
    }
}
