//! What is remembered of the purchases of static NodePools.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use longshore_api::crd::NodePool;
use tokio::time::Instant;

use crate::process::lock::lock;

/// A NodePool whose spec has not changed is scaled up at most this often: a cloud without capacity
/// is not asked all the time.
pub(super) const SCALE_UP_PAUSE: Duration = Duration::from_secs(60);

/// What is remembered of static NodePools.
#[derive(Default)]
pub struct StaticCapacity {
    /// Whether they are kept at their replicas.
    pub enabled: bool,
    /// The last purchase of each NodePool: the generation of its spec, and when.
    bought: Mutex<BTreeMap<String, (Option<i64>, Instant)>>,
}

impl StaticCapacity {
    /// Nothing has been bought yet.
    pub fn new(enabled: bool) -> Self {
        StaticCapacity {
            enabled,
            ..StaticCapacity::default()
        }
    }

    /// How much longer a NodePool must wait for its next purchase.
    pub(super) fn pause(&self, pool: &NodePool, now: Instant) -> Option<Duration> {
        let all = lock(&self.bought);
        let (generation, at) = all.get(name_of(pool))?;
        let left = (*at + SCALE_UP_PAUSE).saturating_duration_since(now);
        (*generation == pool.metadata.generation && !left.is_zero()).then_some(left)
    }

    /// A NodePool has bought nodes.
    pub(super) fn bought(&self, pool: &NodePool, now: Instant) {
        let entry = (pool.metadata.generation, now);
        lock(&self.bought).insert(name_of(pool).to_owned(), entry);
    }
}

/// The name of a NodePool.
pub(super) fn name_of(pool: &NodePool) -> &str {
    pool.metadata.name.as_deref().unwrap_or_default()
}
