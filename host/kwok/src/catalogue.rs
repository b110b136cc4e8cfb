//! Instance types in the format of Karpenter's KWOK provider, or its 144 built-in ones.
//!
//! An unusable type becomes a [`Diagnostic`] with its location and is left out; the others stay.
//! Karpenter accepts anything. Here unknown keys, prices that are not above zero, types without
//! offerings and duplicate names are problems, because a misspelt key would silently change what is
//! bought.

mod built_in;
mod file;
mod labels;
mod row;

use longshore_core::model::{Catalogue, Symbols};

use longshore_api::manifests::{Diagnostic, Diagnostics, Location};

/// The types in a file of KWOK's format, and what was wrong with the others. `source` names the
/// file in problems.
pub fn parse(source: &str, bytes: &[u8], names: &mut Symbols) -> (Catalogue, Diagnostics) {
    let (rows, mut problems) = file::read(source, bytes, names);
    if rows.is_empty() {
        let place = Location {
            source: source.to_owned(),
            ..Location::default()
        };
        problems.push(Diagnostic {
            location: place,
            what: "the catalogue is empty: nothing can be bought".to_owned(),
            hint: "give instance types, or leave the file out for the built-in ones".to_owned(),
            ..Diagnostic::default()
        });
    }
    (Catalogue::new(rows, names), problems)
}

/// The types that the KWOK provider has built in.
pub fn built_in(names: &mut Symbols) -> Catalogue {
    let rows = built_in::rows(names);
    Catalogue::new(rows, names)
}
