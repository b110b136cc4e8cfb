//! Where the types and offerings of a catalogue name labels. It depends on neither prices nor
//! capacity, so that catalogues which differ in those alone share it, and no round makes it again.

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::catalogue::{InstanceType, Offering};
use super::requirement::{Op, Requirement};
use super::symbols::Symbol;

/// What offerings pin.
#[derive(Clone, Debug, PartialEq)]
pub struct Pinned {
    /// Labels with the one value that each offering allows, sorted by label.
    pub values: Vec<(Symbol, Symbol)>,
    /// The first row that pins them.
    pub first: u32,
}

/// The index of a catalogue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CatalogueIndex {
    /// Type and position among its requirements, by label; in the order of types.
    of_types: FxHashMap<Symbol, Vec<(u32, u32)>>,
    /// What offerings pin, each combination once, in the order of the first row that has it.
    pinned: Vec<Pinned>,
    /// Position in `pinned`, by row.
    pinned_by: Vec<u32>,
}

impl CatalogueIndex {
    /// The index of types and of offerings by row.
    pub fn new(types: &[InstanceType], offerings: &[Offering]) -> Self {
        let mut of_types: FxHashMap<Symbol, Vec<(u32, u32)>> = FxHashMap::default();
        for (at, of) in types.iter().enumerate() {
            for (place, requirement) in of.requirements.iter().enumerate() {
                let all = of_types.entry(requirement.key).or_default();
                all.push((at as u32, place as u32));
            }
        }
        let mut pinned: IndexMap<Vec<(Symbol, Symbol)>, u32, FxBuildHasher> = IndexMap::default();
        let mut pinned_by = Vec::with_capacity(offerings.len());
        for (row, offering) in offerings.iter().enumerate() {
            let mut values: Vec<_> = offering.requirements.iter().filter_map(single).collect();
            values.sort_unstable();
            let entry = pinned.entry(values);
            pinned_by.push(entry.index() as u32);
            entry.or_insert(row as u32);
        }
        let pinned = pinned.into_iter();
        CatalogueIndex {
            of_types,
            pinned: pinned
                .map(|(values, first)| Pinned { values, first })
                .collect(),
            pinned_by,
        }
    }

    /// Labels that types have requirements of, in no order.
    pub fn labels_of_types(&self) -> impl Iterator<Item = Symbol> {
        self.of_types.keys().copied()
    }

    /// Whether some type has a requirement of a label.
    pub fn is_of_types(&self, label: Symbol) -> bool {
        self.of_types.contains_key(&label)
    }

    /// Types that have a requirement of a label, each with its position among their requirements.
    pub fn types_with(&self, label: Symbol) -> &[(u32, u32)] {
        self.of_types.get(&label).map_or(&[], Vec::as_slice)
    }

    /// What offerings pin, each combination once.
    pub fn pinned(&self) -> &[Pinned] {
        &self.pinned
    }

    /// The position in [`CatalogueIndex::pinned`] of what each offering pins, by row.
    pub fn pinned_by(&self) -> &[u32] {
        &self.pinned_by
    }
}

fn single(requirement: &Requirement) -> Option<(Symbol, Symbol)> {
    match &requirement.op {
        Op::In(values) if values.len() == 1 => Some((requirement.key, values[0])),
        _ => None,
    }
}
