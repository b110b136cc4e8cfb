//! Static NodePools: `spec.replicas` nodes, whatever pods ask for (feature gate StaticCapacity).
//!
//! The step runs with that of the NodePool. It counts the cached claims and ends there if the number
//! is right. Otherwise it reads the NodePool and its claims from the API server, and acts on those
//! alone: a cache that lags neither buys twice nor removes too much. Names of claims are numbered,
//! so that a create without an answer meets its own name when it is tried again.

pub mod purchases;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::api::Api;
use longshore_api::crd::{
    ConditionStatus, NodeClaim, NodePool, NodePoolStatus, Operator, condition, hash,
};
use longshore_api::{labels, quantity};
use longshore_core::disrupt::static_capacity::{Counts, Scale, scale};
use longshore_core::model::purchases::{UNJOINED, Unjoined};
use longshore_core::snapshot::useless_purchases;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::create_claims;
use crate::act::claim_writes::delete;
use crate::act::context::Context;
use crate::act::end::proof;
use crate::act::events::Events;
use crate::decide::claims::{NewNodeClaim, claim_name, class_label, given_labels, node_claim};
use crate::decide::command::candidate_of;
use crate::observe::node_claim::is_true;
use crate::process::mutants::mutant;
use crate::process::step_error::{StepError, StepOutcome};
use longshore_core::model::conditions::{DISRUPTION_REASON, INITIALIZED};
use longshore_report::messages::time_of_day;
use purchases::{SCALE_UP_PAUSE, name_of};

/// When a NodePool is looked at again that waits for commands to begin.
const COMMAND_POLL: Duration = Duration::from_secs(1);

/// Keeps a static NodePool at its replicas. `claims` are its own. `order` gives the names of claims
/// in the order in which scale-down takes them; it is asked only if some have to go. Nothing is done
/// while a command `begins` whose replacements no list may have yet. `given` is the digest of the
/// NodePool and its node class.
pub async fn step(
    ctx: &Arc<Context>,
    pool: &NodePool,
    claims: &[Arc<NodeClaim>],
    order: &[String],
    begins: bool,
    given: u64,
) -> StepOutcome {
    if !ctx.static_capacity.enabled || pool.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    // What the cache says is enough to do nothing.
    match due(pool, claims.iter().map(|claim| &**claim)) {
        None | Some(Scale::Stands) => return Ok(None),
        Some(Scale::AtLimit { missing }) => {
            report_limit(&ctx.events, pool, missing).await;
            return Ok(None);
        }
        // The change of the condition has it looked at again.
        Some(Scale::Up { .. }) if !is_ready(pool.status.as_ref()) => return Ok(None),
        Some(Scale::Up { .. }) => {
            if let Some(left) = ctx.static_capacity.pause(pool, Instant::now()) {
                return Ok(Some(left));
            }
            let own = claims.iter().map(|claim| &**claim);
            if let Purchase::After(left) = may_buy(pool, own, given, ctx.now().as_second()) {
                report_unjoined(&ctx.events, pool).await;
                return Ok(Some(left));
            }
        }
        Some(Scale::Down(_)) => {}
    }
    if begins {
        return Ok(Some(COMMAND_POLL));
    }
    let name = name_of(pool);
    let Some(pool) = Api::<NodePool>::all(ctx.client.clone())
        .get_opt(name)
        .await?
    else {
        return Ok(None);
    };
    if pool.metadata.deletion_timestamp.is_some() || !ctx.managed.pool(&pool) {
        return Ok(None);
    }
    let mut claims = proof::claims(&ctx.client, name).await?;
    claims.retain(|claim| ctx.managed.claim(claim));
    match due(&pool, &claims) {
        None | Some(Scale::Stands) => Ok(None),
        Some(Scale::AtLimit { missing }) => {
            report_limit(&ctx.events, &pool, missing).await;
            Ok(None)
        }
        Some(Scale::Up { create, missing }) => {
            if missing > 0 {
                report_limit(&ctx.events, &pool, missing).await;
            }
            grow(ctx, &pool, &claims, create, given).await
        }
        Some(Scale::Down(excess)) => shrink(ctx, &claims, order, excess).await,
    }
}

/// What brings a NodePool to its replicas; nothing for one that is dynamic.
pub fn due<'a>(pool: &NodePool, claims: impl IntoIterator<Item = &'a NodeClaim>) -> Option<Scale> {
    let replicas = pool.spec.replicas?;
    Some(scale(replicas, node_limit(pool), counts(claims)))
}

/// The claims of a NodePool by what becomes of them.
pub fn counts<'a>(claims: impl IntoIterator<Item = &'a NodeClaim>) -> Counts {
    let mut counts = Counts::default();
    for claim in claims {
        if claim.metadata.deletion_timestamp.is_some() {
            counts.deleting += 1;
        } else if is_disrupted(claim) {
            counts.disrupted += 1;
        } else {
            counts.active += 1;
        }
    }
    counts
}

fn is_disrupted(claim: &NodeClaim) -> bool {
    let status = claim.status.as_ref();
    candidate_of(claim).is_some() || status.is_some_and(|s| is_true(s, DISRUPTION_REASON))
}

/// `spec.limits.nodes`. Parts of a node count as nothing.
fn node_limit(pool: &NodePool) -> Option<i64> {
    let limit = pool.spec.limits.get("nodes")?;
    let milli = quantity::Quantity::parse(&limit.0).and_then(|q| q.milli());
    Some(milli.unwrap_or(0).div_euclid(1000))
}

async fn report_limit(events: &Events, pool: &NodePool, missing: u32) {
    let message = format!(
        "{missing} of {} replicas are missing: the NodePool is at its limit of {} nodes",
        pool.spec.replicas.unwrap_or(0),
        node_limit(pool).unwrap_or(0)
    );
    events
        .pool(pool, true, "StaticNodePoolAtLimit", &message)
        .await;
}

/// How many of the missing nodes may be bought now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purchase {
    All,
    /// One, after nodes that never joined.
    One,
    /// None: it is looked at again after this.
    After(Duration),
}

/// Whether nodes of a NodePool join. As for pods, nothing is bought for a while after three that
/// did not, and then one node at a time. `now` in seconds since 1970.
fn may_buy<'a>(
    pool: &NodePool,
    claims: impl IntoIterator<Item = &'a NodeClaim>,
    given: u64,
    now: i64,
) -> Purchase {
    let known = unjoined(pool);
    let Some(known) = useless_purchases::paused(known.as_ref(), given) else {
        return Purchase::All;
    };
    if mutant("static-pools-never-wait") {
        return Purchase::All;
    }
    if let Ok(left @ 1..) = u64::try_from(known.until - now) {
        return Purchase::After(Duration::from_secs(left));
    }
    let got_ready = |claim: &NodeClaim| {
        let status = claim.status.as_ref();
        status.is_some_and(|status| is_true(status, INITIALIZED))
    };
    // One that goes has not got ready either: it is counted soon.
    match claims.into_iter().all(got_ready) {
        true => Purchase::One,
        false => Purchase::After(SCALE_UP_PAUSE),
    }
}

fn unjoined(pool: &NodePool) -> Option<Unjoined> {
    let annotations = pool.metadata.annotations.as_ref()?;
    annotations
        .get(UNJOINED)
        .and_then(|text| Unjoined::read(text))
}

async fn report_unjoined(events: &Events, pool: &NodePool) {
    let class = &pool.spec.template.spec.node_class_ref;
    let Some(known) = unjoined(pool) else { return };
    let message = format!(
        "its last {} nodes never joined the cluster, probably because of {} {}; one node is tried \
        after {} UTC, or when the NodePool or its node class changes",
        known.nodes,
        class.kind,
        class.name,
        time_of_day(known.until)
    );
    events.pool(pool, true, "NodesNeverJoined", &message).await;
}

async fn grow(
    ctx: &Arc<Context>,
    pool: &NodePool,
    claims: &[NodeClaim],
    create: u32,
    given: u64,
) -> StepOutcome {
    if !is_ready(pool.status.as_ref()) {
        // The change of the condition has it looked at again.
        return Ok(None);
    }
    if let Some(left) = ctx.static_capacity.pause(pool, Instant::now()) {
        return Ok(Some(left));
    }
    let create = match may_buy(pool, claims, given, ctx.now().as_second()) {
        Purchase::All => create,
        Purchase::One => create.min(1),
        Purchase::After(left) => return Ok(Some(left)),
    };
    let wanted = new_claims(pool, claims, create);
    let total = wanted.len();
    let (created, failed) = create_claims::write_all(ctx, wanted).await;
    if failed > 0 {
        let said = format!("{} of {total} NodeClaims were created", created.len());
        return Err(StepError::Other(said));
    }
    ctx.static_capacity.bought(pool, Instant::now());
    Ok(None)
}

fn is_ready(status: Option<&NodePoolStatus>) -> bool {
    let ready = status.and_then(|status| condition(&status.conditions, "Ready"));
    ready.is_some_and(|ready| ready.status == ConditionStatus::True)
}

async fn shrink(ctx: &Context, claims: &[NodeClaim], order: &[String], excess: u32) -> StepOutcome {
    for claim in leaving(claims, order, excess) {
        let why = "its static NodePool has more nodes than replicas";
        if delete(ctx, claim, why).await? {
            ctx.memory
                .recent
                .because(claim, "fewer replicas", ctx.now());
        }
    }
    Ok(None)
}

/// The claims that scale-down deletes. What `order` does not name is newer than it, and so goes
/// first.
fn leaving<'a>(claims: &'a [NodeClaim], order: &[String], excess: u32) -> Vec<&'a NodeClaim> {
    let at: BTreeMap<&str, usize> = order.iter().map(String::as_str).zip(1..).collect();
    let mut active: Vec<(usize, &str, &NodeClaim)> = claims
        .iter()
        .filter(|claim| claim.metadata.deletion_timestamp.is_none() && !is_disrupted(claim))
        .map(|claim| {
            let name = claim.metadata.name.as_deref().unwrap_or_default();
            (at.get(name).copied().unwrap_or(0), name, claim)
        })
        .collect();
    active.sort_by_key(|(at, name, _)| (*at, *name));
    let going = active.into_iter().take(excess as usize);
    going.map(|(_, _, claim)| claim).collect()
}

/// The claim that takes the place of a node of a static NodePool, by the command that replaces it.
pub fn replacement(pool: &NodePool, command: &str) -> NewNodeClaim {
    new_claim(pool, claim_name(name_of(pool), "replacement", command))
}

/// New claims of a static NodePool beside those that it has. Names are of the lowest free numbers of
/// the template.
pub fn new_claims<'a>(
    pool: &NodePool,
    claims: impl IntoIterator<Item = &'a NodeClaim>,
    create: u32,
) -> Vec<NewNodeClaim> {
    let taken: BTreeSet<&str> = claims
        .into_iter()
        .filter_map(|claim| claim.metadata.name.as_deref())
        .collect();
    let hash = hash::nodepool_hash(pool).unwrap_or_default();
    let template = format!(
        "static {} {hash}",
        pool.metadata.uid.as_deref().unwrap_or_default()
    );
    (0u64..)
        .map(|number| claim_name(name_of(pool), &template, &number.to_string()))
        .filter(|name| !taken.contains(&**name))
        .take(create as usize)
        .map(|name| new_claim(pool, name))
        .collect()
}

fn new_claim(pool: &NodePool, name: String) -> NewNodeClaim {
    let spec = &pool.spec.template.spec;
    let mut own_labels = pool.spec.template.metadata.labels().clone();
    // Of several named values the cloud may know which.
    let is_named = |label: &str| {
        let mut of_label = spec
            .requirements
            .iter()
            .filter(|r| labels::stable(&r.key) == label);
        of_label.any(|r| r.operator == Operator::In)
    };
    for (label, value) in given_labels(&spec.requirements, true) {
        if !is_named(&label) {
            own_labels.entry(label).or_insert(value);
        }
    }
    own_labels.insert(labels::NODEPOOL.into(), name_of(pool).to_owned());
    let (class_key, class_name) = class_label(&spec.node_class_ref);
    own_labels.insert(class_key.clone(), class_name.clone());
    let annotations = pool.spec.template.metadata.annotations().clone();
    let mut requirements: Vec<Value> = spec
        .requirements
        .iter()
        .map(|r| {
            let mut r = json!(r);
            r["key"] = labels::stable(r["key"].as_str().unwrap_or_default()).into();
            r
        })
        .collect();
    requirements.extend(
        own_labels
            .iter()
            .filter(|(key, _)| {
                !spec
                    .requirements
                    .iter()
                    .any(|r| labels::stable(&r.key) == **key)
            })
            .map(|(key, value)| json!({"key": key, "operator": "In", "values": [value]})),
    );
    let object = node_claim(
        pool,
        &name,
        own_labels,
        annotations,
        requirements,
        json!({}),
    );
    NewNodeClaim {
        object,
        pool: name_of(pool).to_owned(),
        pods: Vec::new(),
        summary: "static capacity".to_owned(),
        min_values_relaxed: false,
        discouraged_by: None,
        name,
    }
}

#[cfg(test)]
mod tests;
