//! Failed commands, by NodePool: what is remembered of them, and when it is forgotten.
//!
//! [`longshore_core::disrupt::backoff`] says what follows from it. The annotation of the NodePool is
//! what counts, for a process that takes over knows nothing else. This process also knows what it has
//! written and the watch has not brought yet.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::api::{Api, Patch, PatchParams};
use longshore_api::crd::NodePool;
use longshore_api::failures::{FAILURES, HASH, Recorded};
use longshore_core::disrupt::backoff;
use longshore_core::model::Failures;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::command::Command;
use super::events;
use crate::live::context::Context;
use crate::live::lock::lock;
use crate::live::mutants::mutant;
use crate::live::step_error::StepError;

/// A write of the annotation is tried this often before the command is taken back without it.
const WRITE_ATTEMPTS: u32 = 4;
/// Pause between two attempts to write the annotation.
const WRITE_RETRY: Duration = Duration::from_millis(250);

/// What this process has noted of NodePools, by name.
#[derive(Default)]
pub struct KnownFailures(Mutex<BTreeMap<String, Noted>>);

/// What was noted last.
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

    fn note(&self, pool: &NodePool, failures: Failures) {
        let pause = u64::try_from(backoff::pause(failures.count)).unwrap_or(0);
        let noted = Noted {
            template: annotation(pool, HASH).to_owned(),
            failures,
            over: Instant::now() + Duration::from_secs(pause),
        };
        lock(&self.0).insert(name_of(pool).to_owned(), noted);
    }

    fn forget(&self, pool: &NodePool) {
        lock(&self.0).remove(name_of(pool));
    }
}

fn name_of(pool: &NodePool) -> &str {
    pool.metadata.name.as_deref().unwrap_or_default()
}

fn annotation<'p>(pool: &'p NodePool, key: &str) -> &'p str {
    let all = pool.metadata.annotations.as_ref();
    all.and_then(|all| all.get(key)).map_or("", String::as_str)
}

/// Remembers that a command on nodes of a NodePool has failed.
///
/// # Errors
/// This process leads no more.
pub async fn failed(ctx: &Context, pool: &NodePool, command: &Command) -> Result<(), StepError> {
    if mutant("no-disruption-backoff") {
        return Ok(());
    }
    let now = ctx.now().as_second();
    if let Some(failures) = backoff::one_more(ctx.failures.of(pool), command.began, now) {
        ctx.failures.note(pool, failures);
        let seconds = failures.until - now;
        tracing::warn!(
            nodepool = name_of(pool),
            failures = failures.count,
            seconds,
            "replacements failed; nothing is bought to replace nodes of the NodePool for a while"
        );
        ctx.metrics.disruption.backs_off(name_of(pool));
        events::backs_off(ctx, pool, &command.reason, failures, seconds).await;
    }
    let Some(failures) = ctx.failures.of(pool) else {
        return Ok(());
    };
    let text = Recorded::write(failures, annotation(pool, HASH));
    if annotation(pool, FAILURES) == text || mutant("forgets-disruption-backoff") {
        return Ok(());
    }
    write(ctx, pool, text.into()).await
}

/// A command on nodes of a NodePool that began at `began` has got its replacements. If that was after
/// the pause, others failed for what is over; one that was under way before says nothing of it.
///
/// # Errors
/// This process leads no more.
pub async fn succeeded(ctx: &Context, pool: &NodePool, began: i64) -> Result<(), StepError> {
    if ctx.failures.of(pool).is_none_or(|of| began < of.until) {
        return Ok(());
    }
    ctx.failures.forget(pool);
    tracing::info!(
        nodepool = name_of(pool),
        "a replacement became ready; back-off ends"
    );
    match annotation(pool, FAILURES) {
        "" => Ok(()),
        _ => write(ctx, pool, Value::Null).await,
    }
}

/// Writes the annotation. What cannot be written holds up no command: this process knows it, and
/// another one will find out.
async fn write(ctx: &Context, pool: &NodePool, value: Value) -> Result<(), StepError> {
    let api: Api<NodePool> = Api::all(ctx.client.clone());
    let patch = Patch::Merge(json!({"metadata": {"annotations": {FAILURES: value}}}));
    for _ in 0..WRITE_ATTEMPTS {
        ctx.may_write()?;
        let written = api
            .patch_metadata(name_of(pool), &PatchParams::default(), &patch)
            .await;
        match written.map_err(StepError::from) {
            Ok(_) | Err(StepError::Gone) => return Ok(()),
            Err(StepError::NotLeading) => return Err(StepError::NotLeading),
            Err(error) => {
                let nodepool = name_of(pool);
                tracing::warn!(nodepool, %error, "writing failures of disruption failed");
            }
        }
        tokio::time::sleep(WRITE_RETRY).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
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
