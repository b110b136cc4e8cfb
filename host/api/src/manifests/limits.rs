//! Resource limits of pods. Planning does not use them, so they are kept beside the objects, each
//! distinct value once.

use longshore_core::model::{Resources, Symbol};
use rustc_hash::FxHashMap;

/// Limits of the pods of a world, by their index.
#[derive(Default)]
pub(super) struct Limits {
    table: Vec<Resources>,
    index: FxHashMap<Resources, u32>,
    of_pod: Vec<u32>,
}

impl Limits {
    /// Those of the next pod.
    pub fn push(&mut self, limits: Resources) {
        let id = self.id(limits);
        self.of_pod.push(id);
    }

    /// Forgets a pod's; the last pod's take their place.
    pub fn swap_remove(&mut self, at: usize) {
        self.of_pod.swap_remove(at);
        if self.table.len() > 2 * self.of_pod.len() + 1000 {
            self.sweep();
        }
    }

    /// A pod's; nothing is no limit.
    pub fn get(&self, at: usize) -> &Resources {
        &self.table[self.of_pod[at] as usize]
    }

    pub fn each(&mut self, visit: &mut dyn FnMut(&mut Symbol)) {
        self.table.iter_mut().for_each(|limits| limits.each(visit));
        self.index = self.table.iter().cloned().zip(0..).collect();
    }

    fn id(&mut self, limits: Resources) -> u32 {
        let next = self.table.len() as u32;
        let id = *self.index.entry(limits.clone()).or_insert(next);
        if id == next {
            self.table.push(limits);
        }
        id
    }

    /// Drops what no pod has any more.
    fn sweep(&mut self) {
        let (table, of_pod) = (
            std::mem::take(&mut self.table),
            std::mem::take(&mut self.of_pod),
        );
        self.index.clear();
        self.of_pod = of_pod
            .into_iter()
            .map(|id| self.id(table[id as usize].clone()))
            .collect();
    }
}
