//! A row of the catalogue: a type with what follows from its capacity.

use longshore_core::model::{
    InstanceType, Offering, Requirement, ResourceId, Resources, Symbol, Symbols,
};

/// What every KWOK node keeps back: 100m of CPU and 10Mi of memory.
const OVERHEAD: [(ResourceId, i64); 2] = [(ResourceId::Cpu, 100), (ResourceId::Memory, 10 << 20)];

/// A type to be added to a catalogue.
pub(super) type Row = (InstanceType, Vec<Offering>);

/// A row with what follows from capacity: allocatable. Indexes are filled in by [`Catalogue::new`].
///
/// [`Catalogue::new`]: longshore_core::model::Catalogue::new
pub(super) fn row(
    name: &str,
    requirements: Vec<Requirement>,
    capacity: Resources,
    volume_limits: Vec<(Symbol, u32)>,
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
