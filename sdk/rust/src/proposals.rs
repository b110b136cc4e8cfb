//! What was found, as columns: row i is the same proposal in each. Empty while `weigh` is asked.

#[cfg(target_arch = "wasm32")]
use crate::bindings::consolidation::longshore::consolidation::proposals as host;
#[cfg(not(target_arch = "wasm32"))]
use crate::testing::proposals as host;

/// How many proposals there are.
pub fn count() -> u32 {
    host::count()
}

/// Table: `Empty`, `Drifted`, `Underutilized`; more may come.
pub fn reason_names() -> Vec<String> {
    host::reason_names()
}

/// Index into [`reason_names`].
pub fn reasons() -> Vec<u32> {
    host::reasons()
}

/// Rows of nodes that would go, one proposal after the other.
pub fn removed() -> Vec<u32> {
    host::removed()
}

/// Where the nodes of each proposal end in [`removed`].
pub fn removed_ends() -> Vec<u32> {
    host::removed_ends()
}

/// Rows of offerings that would be bought, one proposal after the other.
pub fn added() -> Vec<u32> {
    host::added()
}

/// Where the purchases of each proposal end in [`added`].
pub fn added_ends() -> Vec<u32> {
    host::added_ends()
}

/// Pods that would move.
pub fn moved_pods() -> Vec<u32> {
    host::moved_pods()
}

/// Rows of owners whose pods would move, one proposal after the other.
pub fn moved_owners() -> Vec<u32> {
    host::moved_owners()
}

/// How many pods of each of [`moved_owners`] would move.
pub fn moved_owner_pods() -> Vec<u32> {
    host::moved_owner_pods()
}

/// Where the owners of each proposal end in [`moved_owners`].
pub fn moved_owner_ends() -> Vec<u32> {
    host::moved_owner_ends()
}

/// Effective cost saved, USD per hour; may be negative for drift.
pub fn savings() -> Vec<f64> {
    host::savings()
}

/// The sum of the eviction costs of the pods that would move.
pub fn disruption_costs() -> Vec<f64> {
    host::disruption_costs()
}

/// The parts of a column that is one proposal after the other, by proposal.
pub fn parts<'c, T>(column: &'c [T], ends: &'c [u32]) -> impl Iterator<Item = &'c [T]> {
    let mut begin = 0;
    ends.iter().map(move |&end| {
        let part = column.get(begin..end as usize).unwrap_or_default();
        begin = end as usize;
        part
    })
}
