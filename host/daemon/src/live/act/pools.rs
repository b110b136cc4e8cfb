//! A NodePool's status: its resources, its Ready condition, and the hash that its nodes are
//! compared with.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use kube::api::{Api, Patch, PatchParams};
use longshore_api::crd::hash;
use longshore_api::crd::{
    ConditionStatus, NodeClaim, NodePool, NodePoolStatus, Quantity, Time, condition, set_condition,
};
use longshore_api::quantity;
use serde_json::{Value, json};

use super::claim_writes::{patch_meta, transition};
use super::context::Context;
use super::end::garbage::HELD;
use crate::live::decide::claims::{HASH, HASH_VERSION};
use crate::live::observe::node::NodeView;
use crate::live::observe::state::Class;
use crate::live::process::step_error::{Outcome, StepError};

/// Says whether the policies of the NodePool answer.
const POLICIES_HEALTHY: &str = "longshore.dev/PoliciesHealthy";

/// Brings a NodePool's status and hash up to date. `fault` is why its spec cannot be read, and
/// `policies` why its policies give no answer, if so. `class` is what its class says of itself, with its generation; `claims` and `nodes` are its own.
pub async fn step(
    ctx: &Context,
    pool: &NodePool,
    (fault, policies): (Option<String>, Option<String>),
    (class, class_generation): (Class, Option<i64>),
    claims: &[Arc<NodeClaim>],
    nodes: &[Arc<NodeView>],
) -> Outcome {
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    if !ctx.managed.pool(pool) {
        return Ok(None);
    }
    let api: Api<NodePool> = Api::all(ctx.client.clone());
    let own = pool.metadata.annotations.clone().unwrap_or_default();
    let hashed = hash::nodepool_hash(pool);
    if let Ok(value) = &hashed {
        let stands = own.get(HASH) == Some(value)
            && own.get(HASH_VERSION).map(String::as_str) == Some(hash::VERSION);
        if !stands {
            ctx.may_write()?;
            let patch =
                json!({"metadata": {"annotations": {HASH: value, HASH_VERSION: hash::VERSION}}});
            let done = api
                .patch_metadata(name, &PatchParams::default(), &Patch::Merge(patch))
                .await;
            done?;
        }
        adopt(ctx, claims, value).await?;
    }
    let mut status = pool.status.clone().unwrap_or_default();
    count(&mut status, claims, nodes);
    let generation = pool.metadata.generation;
    let healthy = condition(&status.conditions, "NodeRegistrationHealthy");
    let other_class =
        class_generation.is_some() && status.node_class_observed_generation != class_generation;
    let outdated = other_class || healthy.is_some_and(|c| c.observed_generation != generation);
    if outdated {
        ctx.health.forget(name);
    }
    let unknown = outdated || healthy.is_none();
    status.node_class_observed_generation =
        class_generation.or(status.node_class_observed_generation);
    let mut set = |what: &str, to: ConditionStatus, reason: &str, message: &str| {
        set_condition(
            &mut status.conditions,
            what,
            to,
            reason,
            message,
            Time(ctx.now()),
        );
        if let Some(c) = status.conditions.iter_mut().find(|c| c.type_ == what) {
            c.observed_generation = generation;
        }
    };
    let fault = invalid(pool).or(fault);
    let valid = match fault.or(hashed.err().map(|e| e.to_string())) {
        None => {
            set(
                "ValidationSucceeded",
                ConditionStatus::True,
                "ValidationSucceeded",
                "",
            );
            true
        }
        Some(why) => {
            set(
                "ValidationSucceeded",
                ConditionStatus::False,
                "NodePoolValidationFailed",
                &why,
            );
            false
        }
    };
    let usable = match &class {
        Class::Ready => {
            set(
                "NodeClassReady",
                ConditionStatus::True,
                "NodeClassReady",
                "",
            );
            ConditionStatus::True
        }
        Class::Missing => {
            set(
                "NodeClassReady",
                ConditionStatus::False,
                "NodeClassNotFound",
                "the node class does not exist",
            );
            ConditionStatus::False
        }
        Class::Leaving => {
            set(
                "NodeClassReady",
                ConditionStatus::False,
                "NodeClassTerminating",
                "the node class is being deleted",
            );
            ConditionStatus::False
        }
        Class::Unknown => {
            set(
                "NodeClassReady",
                ConditionStatus::Unknown,
                "NodeClassReadinessUnknown",
                "the class does not say yet",
            );
            ConditionStatus::Unknown
        }
        Class::NotReady(why) => {
            set(
                "NodeClassReady",
                ConditionStatus::False,
                "NodeClassNotReady",
                why,
            );
            ConditionStatus::False
        }
    };
    match (valid, usable) {
        (true, ConditionStatus::True) => set("Ready", ConditionStatus::True, "Ready", ""),
        (true, ConditionStatus::Unknown) => {
            set(
                "Ready",
                ConditionStatus::Unknown,
                "ReconcilingDependents",
                "NodeClassReady=Unknown",
            );
        }
        (valid, _) => {
            let part = if valid {
                "NodeClassReady"
            } else {
                "ValidationSucceeded"
            };
            set(
                "Ready",
                ConditionStatus::False,
                "UnhealthyDependents",
                &format!("{part}=False"),
            );
        }
    }
    match ctx.health.of(name) {
        Some(true) => set(
            "NodeRegistrationHealthy",
            ConditionStatus::True,
            "NodeRegistrationHealthy",
            "",
        ),
        Some(false) => {
            let message = "two or more of the last four nodes did not launch or register";
            set(
                "NodeRegistrationHealthy",
                ConditionStatus::False,
                "RegistrationFailed",
                message,
            );
        }
        None if unknown => {
            let message = "no node was launched yet";
            set(
                "NodeRegistrationHealthy",
                ConditionStatus::Unknown,
                "AwaitingReconciliation",
                message,
            );
        }
        None => {}
    }
    let held = ctx.garbage.held();
    let held = held.map(|(reason, message)| (ConditionStatus::True, reason, message));
    let nothing = (ConditionStatus::False, "NothingHeld");
    set_if_known(ctx, &mut status, (HELD, generation), held, nothing);
    let failing = policies.map(|why| (ConditionStatus::False, "PolicyFailing", why));
    let healthy = (ConditionStatus::True, "PoliciesHealthy");
    let condition = (POLICIES_HEALTHY, generation);
    set_if_known(ctx, &mut status, condition, failing, healthy);
    if pool.status.as_ref() != Some(&status) {
        ctx.may_write()?;
        let patch = Patch::Merge(change(pool.status.as_ref(), &status));
        api.patch_status(name, &PatchParams::default(), &patch)
            .await?;
        announce(ctx, pool, &status).await;
    }
    let amounts = |all: &BTreeMap<String, Quantity>| {
        let amount = |q: &Quantity| {
            quantity::Quantity::parse(&q.0)
                .and_then(|q| q.milli())
                .unwrap_or(0) as f64
                / 1000.0
        };
        all.iter()
            .map(|(resource, q)| (resource.clone(), amount(q)))
            .collect()
    };
    ctx.metrics.pool(
        name,
        &amounts(&pool.spec.limits),
        &amounts(&status.resources),
    );
    Ok(None)
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

/// Sets a condition that a NodePool gets when there is something to say, and keeps from then on:
/// what there is, or `usual`.
fn set_if_known(
    ctx: &Context,
    status: &mut NodePoolStatus,
    (name, generation): (&str, Option<i64>),
    found: Option<(ConditionStatus, &str, String)>,
    usual: (ConditionStatus, &str),
) {
    let known = condition(&status.conditions, name).is_some();
    let (to, reason, message) = match found {
        Some(found) => found,
        None if known => (usual.0, usual.1, String::new()),
        None => return,
    };
    let now = Time(ctx.now());
    set_condition(&mut status.conditions, name, to, reason, &message, now);
    if let Some(set) = status.conditions.iter_mut().find(|c| c.type_ == name) {
        set.observed_generation = generation;
    }
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
            .and_then(|s| condition(&s.conditions, "Drifted"));
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

/// Sums what the NodePool's nodes have; a claim without a node counts with its expected resources.
/// What every node has stands there also if there is no node.
fn count(status: &mut NodePoolStatus, claims: &[Arc<NodeClaim>], nodes: &[Arc<NodeView>]) {
    let always = ["cpu", "memory", "pods", "ephemeral-storage"];
    let mut milli: BTreeMap<String, i64> = always.map(|of| (of.to_owned(), 0)).into();
    let mut add = |resource: &str, text: &str| {
        let amount = quantity::Quantity::parse(text)
            .and_then(|q| q.milli())
            .unwrap_or(0);
        match milli.get_mut(resource) {
            Some(sum) => *sum = sum.saturating_add(amount),
            None => drop(milli.insert(resource.to_owned(), amount)),
        }
    };
    let joined: HashSet<&str> = nodes
        .iter()
        .map(|n| n.provider_id.as_str())
        .filter(|id| !id.is_empty())
        .collect();
    let mut number = 0;
    for node in nodes {
        number += 1;
        node.capacity
            .iter()
            .for_each(|(resource, text)| add(resource, text));
    }
    for claim in claims {
        let Some(status) = &claim.status else {
            continue;
        };
        if !joined.contains(status.provider_id.as_str()) && !status.provider_id.is_empty() {
            number += 1;
            status
                .capacity
                .iter()
                .for_each(|(resource, amount)| add(resource, &amount.0));
        }
    }
    milli.insert("nodes".into(), number * 1000);
    status.nodes = number;
    status.resources = milli
        .into_iter()
        .map(|(resource, milli)| {
            let text = match resource.as_str() {
                "cpu" if milli % 1000 != 0 => format!("{milli}m"),
                "memory" | "ephemeral-storage" if milli != 0 && milli % 1_024_000 == 0 => {
                    format!("{}Ki", milli / 1_024_000)
                }
                _ => (milli / 1000).to_string(),
            };
            (resource, Quantity(text))
        })
        .collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nodepool_without_nodes_has_none_of_what_every_node_has() {
        let mut status = NodePoolStatus::default();
        count(&mut status, &[], &[]);
        let all = status.resources.iter();
        let all: Vec<String> = all
            .map(|(of, amount)| format!("{of} {}", amount.0))
            .collect();
        assert_eq!(
            all.join(", "),
            "cpu 0, ephemeral-storage 0, memory 0, nodes 0, pods 0"
        );
    }
}
