//! What the end of nodes leaves for later steps of this process.

use super::drains::Drains;
use super::garbage::memory::Garbage;
use super::shared_list::SharedList;

#[derive(Default)]
pub struct EndMemory {
    /// All instances, for claims that end.
    pub shared_list: SharedList,
    /// Nodes that are being drained.
    pub drains: Drains,
    /// What garbage collection has seen.
    pub garbage: Garbage,
}
