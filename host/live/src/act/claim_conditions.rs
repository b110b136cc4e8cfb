//! Conditions Consolidatable and Drifted of a NodeClaim.
//!
//! The lifecycle step writes them; disruption reads them. Consolidatable says that `consolidateAfter`
//! has passed since pods of the node changed. Drifted says that the node differs from its NodePool,
//! from the catalogue or from its node class, and why. A condition that does not hold is absent, not
//! False. Claims without a NodePool that exists keep what they have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use longshore_api::crd::duration::{self, Lifetime};
use longshore_api::crd::{
    ConditionStatus, NodeClaim, NodeClaimStatus, NodePool, Operator, Requirement, Time, Timestamp,
    condition, hash, set_condition,
};
use longshore_api::labels;
use longshore_core::matching::satisfies;
use longshore_core::model::{Catalogue, InstanceType, Labels, Symbols};

use super::context::Context;
use super::launch::launch_request::{launch_of, requirement};
use crate::decide::claims::{HASH, HASH_VERSION};
use crate::observe::node_claim::is_true;
use longshore_core::model::conditions::{CONSOLIDATABLE, DRIFTED, INITIALIZED, LAUNCHED};

/// A claim must be this old before a missing instance type counts as drift. Clouds list types with
/// gaps.
const TYPE_CHECK_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// What a claim is compared with.
#[derive(Clone, Default)]
pub struct Surroundings {
    /// Its NodePool; nothing if there is none.
    pub pool: Option<Arc<NodePool>>,
    /// Whether the catalogue has the instance type and the offering of its labels; nothing if that
    /// was not looked up.
    pub listed: Option<bool>,
}

/// Why a node is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The reason of the condition: one word.
    pub reason: String,
    /// The condition's message, one sentence.
    pub message: String,
}

/// Brings both conditions up to date. Returns how long until they have to be looked at again, if
/// time alone can change them.
pub async fn update(
    ctx: &Context,
    claim: &NodeClaim,
    status: &mut NodeClaimStatus,
    around: &Surroundings,
) -> Option<Duration> {
    let pool = around.pool.as_deref()?;
    let now = ctx.now();
    let (is_consolidatable, ripe_in) = consolidatable(status, pool, now);
    put(
        status,
        CONSOLIDATABLE,
        is_consolidatable.then_some((CONSOLIDATABLE, "")),
        now,
    );
    let (mut drift, counts_in) = own_drift(claim, status, pool, around.listed, now);
    let mut asked_in = None;
    if is_true(status, LAUNCHED)
        && drift.is_none()
        && let Some(interval) = ctx.provider.drift_interval()
    {
        asked_in = Some(interval);
        drift = provider_drift(ctx, claim, status).await;
    }
    put(
        status,
        DRIFTED,
        drift.as_ref().map(|d| (&*d.reason, &*d.message)),
        now,
    );
    [ripe_in, counts_in, asked_in].into_iter().flatten().min()
}

/// What the cloud says. While it does not answer, what it said before stands.
async fn provider_drift(
    ctx: &Context,
    claim: &NodeClaim,
    status: &NodeClaimStatus,
) -> Option<Drift> {
    let answer = ctx
        .provider
        .drifted(&status.provider_id, &launch_of(claim))
        .await;
    match answer {
        Ok(reason) => reason.map(|reason| Drift {
            message: "the cloud says that the instance differs from its node class".to_owned(),
            reason,
        }),
        Err(error) => {
            tracing::warn!(
                nodeclaim = claim.metadata.name, %error,
                "cloud does not say whether the instance has drifted; retrying"
            );
            let before = condition(&status.conditions, DRIFTED)?;
            Some(Drift {
                reason: before.reason.clone(),
                message: before.message.clone(),
            })
        }
    }
}

/// Whether `consolidateAfter` has passed since pods of the node changed, and if not, when it will
/// have. A node without pod events counts from its initialization.
pub fn consolidatable(
    status: &NodeClaimStatus,
    pool: &NodePool,
    now: Timestamp,
) -> (bool, Option<Duration>) {
    let initialized =
        condition(&status.conditions, INITIALIZED).filter(|c| c.status == ConditionStatus::True);
    let Ok(Lifetime::After(after)) = duration::lifetime(&pool.spec.disruption.consolidate_after)
    else {
        return (false, None);
    };
    let Some(initialized) = initialized else {
        return (false, None);
    };
    let pods = status.last_pod_event_time.as_ref().map(|time| time.0);
    let since = pods.map_or(initialized.last_transition_time.0, |pods| {
        pods.max(initialized.last_transition_time.0)
    });
    let left = left(since, after, now);
    (left.is_zero(), Some(left).filter(|left| !left.is_zero()))
}

/// How much of a time is left that began at `since`.
fn left(since: Timestamp, time: Duration, now: Timestamp) -> Duration {
    let passed = now.as_millisecond().saturating_sub(since.as_millisecond());
    let whole = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    Duration::from_millis(u64::try_from(whole.saturating_sub(passed)).unwrap_or(0))
}

/// Drift that shows without a question to the cloud, the first of: another template, requirements
/// that are not met, an instance type that is no longer listed. If the last needs a claim of more
/// age, when it will have it.
pub fn own_drift(
    claim: &NodeClaim,
    status: &NodeClaimStatus,
    pool: &NodePool,
    listed: Option<bool>,
    now: Timestamp,
) -> (Option<Drift>, Option<Duration>) {
    if !is_true(status, LAUNCHED) {
        return (None, None);
    }
    if let Some(drift) = template_drift(claim, pool).or_else(|| requirements_drift(claim, pool)) {
        return (Some(drift), None);
    }
    if listed != Some(false) {
        return (None, None);
    }
    let created = claim.metadata.creation_timestamp.as_ref().map(|t| t.0);
    let left = left(created.unwrap_or(now), TYPE_CHECK_INTERVAL, now);
    if !left.is_zero() {
        return (None, Some(left));
    }
    let label = |key| label(claim, key).unwrap_or("unknown");
    let drift = Drift {
        reason: "InstanceTypeNotFound".to_owned(),
        message: format!(
            "{} is no longer offered in {} as {}",
            label(labels::INSTANCE_TYPE),
            label(labels::ZONE),
            label(labels::CAPACITY_TYPE)
        ),
    };
    (Some(drift), None)
}

/// Whether the template of the NodePool has another hash than the claim's. The hash is that of the
/// spec, not of the annotation: a claim can be written before the annotation is.
fn template_drift(claim: &NodeClaim, pool: &NodePool) -> Option<Drift> {
    let own = claim.metadata.annotations.as_ref()?;
    let (value, version) = (own.get(HASH)?, own.get(HASH_VERSION)?);
    let wanted = hash::nodepool_hash(pool).ok()?;
    (version == hash::VERSION && *value != wanted).then(|| Drift {
        reason: "NodePoolDrifted".to_owned(),
        message: format!(
            "the template of its NodePool has changed: its hash was {value} and is {wanted}"
        ),
    })
}

/// Whether the labels of the claim fail a requirement of its NodePool.
fn requirements_drift(claim: &NodeClaim, pool: &NodePool) -> Option<Drift> {
    let failed = pool
        .spec
        .template
        .spec
        .requirements
        .iter()
        .find(|r| !is_met(claim, r))?;
    let key = labels::stable(&failed.key);
    let has = label(claim, key).map_or_else(
        || format!("the node has no label {key}"),
        |value| format!("the node has {key}={value}"),
    );
    let values = failed.values.join(", ");
    Some(Drift {
        reason: "RequirementsDrifted".to_owned(),
        message: format!(
            "{has}, the NodePool requires {key} {} [{values}]",
            failed.operator.as_str()
        ),
    })
}

/// Whether a claim meets a requirement of its NodePool. A label that it has not is replaced by its
/// own requirements: a key with several values left gives no label.
fn is_met(claim: &NodeClaim, wanted: &Requirement) -> bool {
    let key = labels::stable(&wanted.key);
    let plain = requirement(wanted);
    if let Some(value) = label(claim, key) {
        return plain.admits(Some(value));
    }
    let mut own = claim
        .spec
        .requirements
        .iter()
        .filter(|r| labels::stable(&r.key) == key)
        .peekable();
    if own.peek().is_none() {
        return plain.admits(None);
    }
    own.all(|own| {
        own.operator != Operator::In || own.values.iter().any(|value| plain.admits(Some(value)))
    })
}

fn label<'a>(claim: &'a NodeClaim, key: &str) -> Option<&'a str> {
    let labels = claim.metadata.labels.as_ref()?;
    labels.get(key).map(String::as_str)
}

/// Whether a catalogue has the instance type and the offering of these labels, available or not,
/// for the NodeClass that the labels name by the key `class`. Reserved capacity that is no longer
/// listed is still on-demand capacity. `names` has the texts of the catalogue.
///
/// Not known for a NodeClass of which the catalogue has nothing: one that is not ready offers
/// nothing, and its nodes are as good as before.
pub fn is_listed(
    labels: &BTreeMap<String, String>,
    class: &str,
    catalogue: &Catalogue,
    names: &Symbols,
) -> Option<bool> {
    let instance_type = labels.get(labels::INSTANCE_TYPE)?;
    let symbol = |key: &str| labels.get(key).map(|value| names.get(value));
    let key = names.get(class);
    let of_class = symbol(class).map(|value| Labels::new(key.zip(value).into_iter().collect()));
    let is_of_class = |row: &InstanceType| {
        let mut all = row.requirements.iter().filter(|one| Some(one.key) == key);
        let meets = |own: &Labels| all.all(|one| satisfies(own, one, names));
        of_class.as_ref().is_none_or(meets)
    };
    let (zone, capacity_type) = (symbol(labels::ZONE), symbol(labels::CAPACITY_TYPE));
    let reserved = labels
        .get(labels::CAPACITY_TYPE)
        .is_some_and(|value| value == labels::capacity_type::RESERVED);
    let on_demand = names.get(labels::capacity_type::ON_DEMAND);
    let named = names.get(instance_type).map(|name| catalogue.named(name));
    let row = named.and_then(|mut rows| rows.find(|(_, row)| is_of_class(row)));
    let Some((id, _)) = row else {
        return catalogue.types().iter().any(is_of_class).then_some(false);
    };
    let mut offerings = catalogue.offerings_of(id).iter();
    Some(offerings.any(|offering| {
        zone.is_none_or(|zone| offering.zone == zone)
            && (capacity_type.is_none_or(|wanted| offering.capacity_type == wanted)
                || (reserved && offering.capacity_type == on_demand))
    }))
}

/// Sets a condition to True, or removes it.
fn put(status: &mut NodeClaimStatus, what: &str, holds: Option<(&str, &str)>, now: Timestamp) {
    match holds {
        Some((reason, message)) => drop(set_condition(
            &mut status.conditions,
            what,
            ConditionStatus::True,
            reason,
            message,
            Time(now),
        )),
        None => status.conditions.retain(|c| c.type_ != what),
    }
}

#[cfg(test)]
mod tests;
