//! NodePools whose requirements no instance type satisfies, whatever the pod. First fit would skip
//! them silently.

use super::first_fit::CompiledCluster;
use super::refusal::{count_not_offered, matching_labels};
use super::sets::Set;
use crate::model::{MinValuesPolicy, Symbol};
use crate::plan::IncompatiblePool;
use crate::reasons::{TypesLeft, Unfit};

/// Every NodePool that no instance type is left for, in order of preference.
pub fn find(p: &mut CompiledCluster<'_>) -> Vec<IncompatiblePool> {
    (0..p.pools.len())
        .filter_map(|pool| of_pool(p, pool))
        .collect()
}

fn of_pool(p: &mut CompiledCluster<'_>, pool: usize) -> Option<IncompatiblePool> {
    let initial = p.pools[pool].initial;
    let ix = p.pools[pool].pool;
    if p.states.get(initial).types.is_empty() {
        let unfit = Unfit::Types(types_left(p, pool));
        return Some(IncompatiblePool {
            pool: ix,
            unfit,
            requirement: unsatisfiable(p, pool),
        });
    }
    let strict = p.snapshot.world.settings.min_values == MinValuesPolicy::Strict;
    let types = p.states.get(initial).types.clone();
    let key = p.too_few_values(initial, &types).filter(|_| strict)?;
    Some(IncompatiblePool {
        pool: ix,
        unfit: Unfit::MinValues { key },
        requirement: Some(key),
    })
}

/// Counts types by what removes them: labels of the type, or no offering that is available.
fn types_left(p: &mut CompiledCluster<'_>, pool: usize) -> TypesLeft {
    let initial = p.pools[pool].initial;
    let all = p.snapshot.world.catalogue.types().len();
    let sets = p.states.get(initial).sets.clone();
    let labels = matching_labels(p, &sets);
    let mut left = TypesLeft {
        all: all as u32,
        ..TypesLeft::default()
    };
    for at in 0..all {
        if labels.has(at) {
            count_not_offered(p, initial, at, &mut left);
        } else {
            left.labels += 1;
        }
    }
    left
}

/// The first requirement of a NodePool, by the text of its label, that leaves no instance type all
/// by itself.
fn unsatisfiable(p: &mut CompiledCluster<'_>, pool: usize) -> Option<Symbol> {
    let mut sets = p.states.get(p.pools[pool].initial).sets.clone().0;
    sets.sort_by_key(|(key, _)| p.states.names.text(*key));
    let none = |(key, set): &(Symbol, Set)| match p.states.is_cell_key(*key) {
        true => !p
            .states
            .values_of(*key)
            .iter()
            .any(|&value| set.admits(value, &p.states.numbers)),
        false => p.states.mask(*key, set).is_empty(),
    };
    sets.into_iter().find(none).map(|(key, _)| key)
}
