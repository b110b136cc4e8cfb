//! What this process has noted of failed commands, by NodePool.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longshore_api::crd::NodePool;
use longshore_api::failures::{FAILURES, HASH, Recorded};
use longshore_core::disrupt::backoff;
use longshore_core::model::Failures;
use tokio::time::Instant;

use crate::process::lock::lock;

/// What this process has noted of NodePools, by name.
#[derive(Default)]
pub struct KnownFailures(Mutex<BTreeMap<String, Noted>>);

#[derive(Clone)]
struct Noted {
    /// The template that it was noted of.
    template: String,
    failures: Failures,
    /// When the NodePool may buy again: a clock that is set anew changes nothing.
    over: Instant,
}

impl KnownFailures {
    /// What is known of a NodePool: what it says itself, or what was noted later.
    pub fn of(&self, pool: &NodePool) -> Option<Failures> {
        let said = Recorded::read(annotation(pool, FAILURES), annotation(pool, HASH));
        let noted = self.noted_of(pool).map(|noted| noted.failures);
        said.into_iter().chain(noted).max_by_key(|of| of.until)
    }

    fn noted_of(&self, pool: &NodePool) -> Option<Noted> {
        let all = lock(&self.0);
        let noted = all.get(name_of(pool));
        noted
            .filter(|of| of.template == annotation(pool, HASH))
            .cloned()
    }

    /// What this process has noted itself of NodePools, by the clock of now, seconds since 1970.
    pub fn noted<'p>(
        &self,
        pools: impl Iterator<Item = &'p Arc<NodePool>>,
        now: i64,
    ) -> BTreeMap<String, Failures> {
        if lock(&self.0).is_empty() {
            return BTreeMap::new();
        }
        let known = pools.filter_map(|pool| {
            let noted = self.noted_of(pool)?;
            let left = noted.over.saturating_duration_since(Instant::now());
            let until = now.saturating_add(left.as_secs_f64().ceil() as i64);
            let count = noted.failures.count;
            Some((name_of(pool).to_owned(), Failures { count, until }))
        });
        known.collect()
    }

    pub(super) fn note(&self, pool: &NodePool, failures: Failures) {
        let pause = u64::try_from(backoff::pause(failures.count)).unwrap_or(0);
        let noted = Noted {
            template: annotation(pool, HASH).to_owned(),
            failures,
            over: Instant::now() + Duration::from_secs(pause),
        };
        lock(&self.0).insert(name_of(pool).to_owned(), noted);
    }

    pub(super) fn forget(&self, pool: &NodePool) {
        lock(&self.0).remove(name_of(pool));
    }
}

/// The name of a NodePool.
pub(super) fn name_of(pool: &NodePool) -> &str {
    pool.metadata.name.as_deref().unwrap_or_default()
}

/// An annotation of a NodePool, empty for none.
pub(super) fn annotation<'p>(pool: &'p NodePool, key: &str) -> &'p str {
    let all = pool.metadata.annotations.as_ref();
    all.and_then(|all| all.get(key)).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pool(template: &str, said: Option<Failures>) -> Arc<NodePool> {
        let mut annotations = json!({HASH: template});
        if let Some(failures) = said {
            annotations[FAILURES] = Recorded::write(failures, template).into();
        }
        let class = json!({"group": "g", "kind": "k", "name": "n"});
        let pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "web", "annotations": annotations},
            "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}},
        });
        Arc::new(serde_json::from_value(pool).unwrap())
    }

    #[test]
    fn what_was_noted_last_counts_for_the_template_that_it_was_noted_of() {
        let failures = |count, until| Failures { count, until };
        let known = KnownFailures::default();
        let said = pool("1", Some(failures(1, 100)));
        assert_eq!(known.of(&said), Some(failures(1, 100)), "a process begins");
        known.note(&said, failures(2, 300));
        assert_eq!(known.of(&said), Some(failures(2, 300)), "the watch is late");
        let noted = known.noted([said.clone()].iter(), 9_000);
        assert_eq!(noted["web"], failures(2, 9_600), "whatever the clock says");
        let later = pool("1", Some(failures(3, 900)));
        assert_eq!(known.of(&later), Some(failures(3, 900)));
        assert_eq!(known.of(&pool("2", None)), None, "another template");
        known.forget(&said);
        assert_eq!(known.of(&pool("1", None)), None);
    }
}
