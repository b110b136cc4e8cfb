//! A NodePool's status: its resources, its Ready condition, and the hash that its nodes are
//! compared with.

mod status;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::{Api, Patch, PatchParams};
use longshore_api::crd::hash;
use longshore_api::crd::{
    ConditionStatus, NodeClaim, NodePool, NodePoolStatus, Quantity, condition,
};
use longshore_api::quantity;
use serde_json::{Value, json};

use super::claim_writes::{patch_meta, transition};
use super::context::Context;
use crate::decide::claims::{HASH, HASH_VERSION};
use crate::observe::node::NodeView;

use crate::observe::state::Class;
use crate::process::step_error::{StepError, StepOutcome};
use longshore_core::model::conditions::DRIFTED;

/// A NodePool, and what its status depends on.
pub struct Observed<'a> {
    pub pool: &'a NodePool,
    /// Why its spec cannot be read, if so.
    pub fault: Option<String>,
    /// Why its policies give no answer, if so.
    pub policies: Option<String>,
    /// What its class says of itself, with its generation.
    pub class: (Class, Option<i64>),
    /// NodeClaims of this NodePool.
    pub claims: &'a [Arc<NodeClaim>],
    pub nodes: &'a [Arc<NodeView>],
}

/// Brings a NodePool's status and hash up to date.
pub async fn step(ctx: &Context, observed: Observed<'_>) -> StepOutcome {
    let pool = observed.pool;
    if !ctx.managed.pool(pool) {
        return Ok(None);
    }
    let hashed = hash::nodepool_hash(pool);
    if let Ok(value) = &hashed {
        write_hash(ctx, pool, value).await?;
        adopt(ctx, observed.claims, value).await?;
    }
    let fault = invalid(pool).or_else(|| observed.fault.clone());
    let fault = fault.or(hashed.err().map(|e| e.to_string()));
    let status = status::next(ctx, &observed, fault);
    write_status(ctx, pool, &status).await?;
    ctx.metrics.pool(
        name_of(pool),
        &amounts(&pool.spec.limits),
        &amounts(&status.resources),
    );
    Ok(None)
}

fn name_of(pool: &NodePool) -> &str {
    pool.metadata.name.as_deref().unwrap_or_default()
}

/// Writes the hash that nodes of the NodePool are compared with, unless it stands there.
async fn write_hash(ctx: &Context, pool: &NodePool, value: &str) -> Result<(), StepError> {
    let annotations = pool.metadata.annotations.as_ref();
    let own = |key: &str| annotations.and_then(|own| own.get(key)).map(String::as_str);
    if own(HASH) == Some(value) && own(HASH_VERSION) == Some(hash::VERSION) {
        return Ok(());
    }
    ctx.may_write()?;
    let api: Api<NodePool> = Api::all(ctx.client.clone());
    let patch = json!({"metadata": {"annotations": {HASH: value, HASH_VERSION: hash::VERSION}}});
    let patch = Patch::Merge(patch);
    api.patch_metadata(name_of(pool), &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// Writes a status that is another than the NodePool's, and says what has changed.
async fn write_status(
    ctx: &Context,
    pool: &NodePool,
    status: &NodePoolStatus,
) -> Result<(), StepError> {
    if pool.status.as_ref() == Some(status) {
        return Ok(());
    }
    ctx.may_write()?;
    let api: Api<NodePool> = Api::all(ctx.client.clone());
    let patch = Patch::Merge(change(pool.status.as_ref(), status));
    api.patch_status(name_of(pool), &PatchParams::default(), &patch)
        .await?;
    announce(ctx, pool, status).await;
    Ok(())
}

/// Amounts as metrics have them.
fn amounts(all: &BTreeMap<String, Quantity>) -> BTreeMap<String, f64> {
    let amount = |q: &Quantity| {
        let milli = quantity::Quantity::parse(&q.0).and_then(|q| q.milli());
        milli.unwrap_or(0) as f64 / 1000.0
    };
    all.iter()
        .map(|(resource, q)| (resource.clone(), amount(q)))
        .collect()
}

/// The merge patch that makes one status of another. It names resources that no node has any more,
/// for a merge patch takes nothing away that it does not name.
fn change(old: Option<&NodePoolStatus>, new: &NodePoolStatus) -> Value {
    let mut patch = json!({"status": new});
    let gone = old
        .into_iter()
        .flat_map(|old| old.resources.keys())
        .filter(|key| !new.resources.contains_key(*key));
    for key in gone {
        patch["status"]["resources"][key] = Value::Null;
    }
    patch
}

/// Says in Events which conditions have changed their status.
async fn announce(ctx: &Context, pool: &NodePool, status: &NodePoolStatus) {
    let old = pool.status.as_ref().map_or(&[][..], |s| &s.conditions);
    for new in &status.conditions {
        let stood = condition(old, &new.type_);
        if stood.map(|c| c.status) != Some(new.status) {
            ctx.metrics.pool_transition(stood, new);
        }
        if let Some(message) = transition(stood, new) {
            ctx.events
                .pool(
                    pool,
                    new.status == ConditionStatus::False,
                    &new.type_,
                    &message,
                )
                .await;
        }
    }
}

/// Claims with a hash of another version, made by an older Karpenter, get the current hash, because
/// no difference from their NodePool is known. One that has drifted already keeps its own.
async fn adopt(ctx: &Context, claims: &[Arc<NodeClaim>], value: &str) -> Result<(), StepError> {
    for claim in claims.iter().filter(|claim| is_of_other_version(claim)) {
        let drifted = claim
            .status
            .as_ref()
            .and_then(|s| condition(&s.conditions, DRIFTED));
        let mut annotations = json!({HASH_VERSION: hash::VERSION});
        if drifted.is_none_or(|c| c.status != ConditionStatus::True) {
            annotations[HASH] = json!(value);
        }
        patch_meta(ctx, claim, json!({"annotations": annotations})).await?;
    }
    Ok(())
}

fn is_of_other_version(claim: &NodeClaim) -> bool {
    let version = claim
        .metadata
        .annotations
        .as_ref()
        .and_then(|a| a.get(HASH_VERSION));
    claim.metadata.deletion_timestamp.is_none()
        && version.is_some_and(|version| version != hash::VERSION)
}

/// What the schema lets through and planning cannot use, if there is any.
pub fn invalid(pool: &NodePool) -> Option<String> {
    let spec = &pool.spec.template.spec;
    let wrong = spec
        .requirements
        .iter()
        .find(|r| r.key == "karpenter.sh/nodepool");
    if let Some(r) = wrong {
        return Some(format!("requirement {} may not be set", r.key));
    }
    let known = longshore_api::labels::capacity_type::ALL;
    let capacity = spec.requirements.iter().find(|r| {
        r.key == "karpenter.sh/capacity-type"
            && r.operator == longshore_api::crd::Operator::In
            && !r.values.iter().any(|v| known.contains(&v.as_str()))
    });
    if let Some(r) = capacity {
        return Some(format!("{} has none of {}", r.key, known.join(", ")));
    }
    let mut seen = std::collections::BTreeSet::new();
    let taints = spec.taints().iter().chain(spec.startup_taints());
    let twice = taints
        .map(|t| (t.key.as_str(), t.effect.as_str()))
        .find(|t| !seen.insert(*t));
    twice.map(|(key, effect)| format!("taint {key}:{effect} is there twice"))
}
