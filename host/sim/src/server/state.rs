//! What one lock holds.

use tokio::time::Instant;

use super::ids::Ids;
use super::store::Store;
use crate::clock::Clock;

/// Everything that a write may change.
pub struct State {
    /// The time of day of stamps.
    pub clock: Clock,
    /// UIDs and names.
    pub ids: Ids,
    /// Objects.
    pub store: Store,
    /// Watches of an earlier one end.
    pub epoch: u64,
    /// Watches say nothing before.
    pub stalled: Option<Instant>,
}
