//! Failed commands, by NodePool: what is remembered of them, and when it is forgotten.
//!
//! [`longshore_core::disrupt::backoff`] says what follows from it. The annotation of the NodePool is
//! what counts, for a process that takes over knows nothing else. This process also knows what it has
//! written and the watch has not brought yet.

use std::time::Duration;

use kube::api::{Api, Patch, PatchParams};
use longshore_api::crd::NodePool;
use longshore_api::failures::{FAILURES, HASH, Recorded};
use longshore_core::disrupt::backoff;
use serde_json::{Value, json};

use super::events;
use super::known_failures::{annotation, name_of};
use crate::act::context::Context;
use crate::decide::command::Command;
use crate::process::mutants::mutant;
use crate::process::step_error::StepError;

/// A write of the annotation is tried this often before the command is taken back without it.
const WRITE_ATTEMPTS: u32 = 4;
/// Pause between two attempts to write the annotation.
const WRITE_RETRY: Duration = Duration::from_millis(250);

/// Remembers that a command on nodes of a NodePool has failed.
///
/// # Errors
/// This process leads no more.
pub async fn failed(ctx: &Context, pool: &NodePool, command: &Command) -> Result<(), StepError> {
    if mutant("no-disruption-backoff") {
        return Ok(());
    }
    let now = ctx.now().as_second();
    if let Some(failures) =
        backoff::one_more(ctx.memory.disruption.failures.of(pool), command.began, now)
    {
        ctx.memory.disruption.failures.note(pool, failures);
        let seconds = failures.until - now;
        tracing::warn!(
            nodepool = name_of(pool),
            failures = failures.count,
            seconds,
            "replacements failed; nothing is bought to replace nodes of the NodePool for a while"
        );
        ctx.metrics.disruption.backs_off(name_of(pool));
        events::backs_off(&ctx.events, pool, command.reason.name(), failures, seconds).await;
    }
    let Some(failures) = ctx.memory.disruption.failures.of(pool) else {
        return Ok(());
    };
    let text = Recorded::write(failures, annotation(pool, HASH));
    if annotation(pool, FAILURES) == text || mutant("forgets-disruption-backoff") {
        return Ok(());
    }
    annotate(ctx, pool, FAILURES, text.into()).await
}

/// A command on nodes of a NodePool that began at `began` has got its replacements. If that was after
/// the pause, others failed for what is over; one that was under way before says nothing of it.
///
/// # Errors
/// This process leads no more.
pub async fn succeeded(ctx: &Context, pool: &NodePool, began: i64) -> Result<(), StepError> {
    if ctx
        .memory
        .disruption
        .failures
        .of(pool)
        .is_none_or(|of| began < of.until)
    {
        return Ok(());
    }
    ctx.memory.disruption.failures.forget(pool);
    tracing::info!(
        nodepool = name_of(pool),
        "a replacement became ready; back-off ends"
    );
    match annotation(pool, FAILURES) {
        "" => Ok(()),
        _ => annotate(ctx, pool, FAILURES, Value::Null).await,
    }
}

/// Writes an annotation of a NodePool. What cannot be written holds up no command: this process knows
/// it, and another one will find out.
///
/// # Errors
/// This process leads no more.
pub async fn annotate(
    ctx: &Context,
    pool: &NodePool,
    key: &str,
    value: Value,
) -> Result<(), StepError> {
    let api: Api<NodePool> = Api::all(ctx.client.clone());
    let patch = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
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
                tracing::warn!(nodepool, key, %error, "writing an annotation of disruption failed");
            }
        }
        tokio::time::sleep(WRITE_RETRY).await;
    }
    Ok(())
}
