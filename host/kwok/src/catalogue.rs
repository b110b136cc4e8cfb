//! Instance types in the format of Karpenter's KWOK provider, or its 144 built-in ones.
//!
//! An unusable type becomes a [`Diagnostic`] with its location and is left out; the others stay.
//! Karpenter accepts anything. Here unknown keys, prices that are not above zero, types without
//! offerings and duplicate names are problems, because a misspelt key would silently change what is
//! bought.

mod built_in;
mod file;
mod labels;

use longshore_core::model::{
    Catalogue, InstanceType, Offering, Requirement, ResourceId, Resources, Symbols,
};

use longshore_api::manifests::{Diagnostic, Diagnostics, Location};

/// What every KWOK node keeps back: 100m of CPU and 10Mi of memory.
const OVERHEAD: [(ResourceId, i64); 2] = [(ResourceId::Cpu, 100), (ResourceId::Memory, 10 << 20)];

/// A type to be added to a [`Catalogue`].
type Row = (InstanceType, Vec<Offering>);

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

/// A row with what follows from capacity: allocatable. Indexes are filled in by [`Catalogue::new`].
fn row(
    name: &str,
    requirements: Vec<Requirement>,
    capacity: Resources,
    volume_limits: Vec<(longshore_core::model::Symbol, u32)>,
    offerings: Vec<Offering>,
    names: &mut Symbols,
) -> Row {
    let allocatable = allocatable(&capacity, names);
    let name = names.intern(name);
    (
        InstanceType {
            name,
            requirements,
            capacity,
            allocatable,
            volume_limits,
            incompatible: None,
            offerings: 0..0,
        },
        offerings,
    )
}

/// Capacity less [`OVERHEAD`], and for memory less huge pages; never below zero.
fn allocatable(capacity: &Resources, names: &Symbols) -> Resources {
    let mut left = capacity.clone();
    let huge_pages = capacity
        .iter()
        .filter(|(resource, _)| resource.is_huge_pages(names))
        .map(|(_, bytes)| (ResourceId::Memory, bytes));
    let taken: Vec<_> = OVERHEAD.into_iter().chain(huge_pages).collect();
    for (resource, amount) in taken {
        left.set(resource, left.get(resource).saturating_sub(amount).max(0));
    }
    left
}
