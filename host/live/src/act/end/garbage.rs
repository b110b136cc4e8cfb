//! Garbage collection in both directions: claims whose instance is gone, and instances whose claim
//! is gone.
//!
//! One observation proves nothing: a cloud's list can succeed and lack half of the instances,
//! claims can be restored with new UIDs, a watch can lag. So garbage has to be seen in two passes
//! an interval apart, and is checked once more at its source (API server or cloud). Each pass has a
//! limit; above the limit nothing is removed and the operator is notified.

mod limit;
pub mod memory;
mod sightings;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use longshore_api::crd::NodeClaim;
use longshore_cloud::{CloudError, Instance};
use tokio::time::Instant;

use super::proof;
use crate::act::claim_writes;
use crate::act::context::Context;
use crate::act::launch::launch_groups;
use crate::observe::node::NodeView;
use crate::observe::node_claim::is_true;
use crate::process::lock::lock;
use crate::process::mutants::mutant;
use crate::process::step_error::StepError;
use limit::{Refusal, What};
use longshore_core::model::conditions::REGISTERED;

/// How young an instance without a claim may be before it is taken for lost, seconds.
const LEAK_AGE: i64 = 60;

/// The condition of NodePools that is True while garbage is not collected because there is too much
/// of it.
pub const HELD: &str = "GarbageCollectionHeld";

/// Deletes registered claims whose instance is gone, and instances whose claim is gone. `ready` has
/// the provider IDs of Ready nodes: their instances exist, whatever the cloud says.
///
/// # Errors
/// What the server or the cloud says; what was not done is done the next time.
pub async fn collect(
    ctx: &Context,
    claims: &[Arc<NodeClaim>],
    ready: &BTreeSet<String>,
) -> Result<(), StepError> {
    ctx.may_write()?;
    let instances = ctx.provider.list().await.map_err(StepError::other)?;
    let lost = lost_claims(ctx, claims, ready, &instances).await;
    let leaked = leaked_instances(ctx, claims, ready, &instances).await;
    let mut refusals = Vec::new();
    let mut errors = Vec::new();
    for outcome in [lost, leaked] {
        match outcome {
            Ok(refusal) => refusals.extend(refusal),
            Err(error) => errors.push(error.to_string()),
        }
    }
    tell(ctx, refusals).await;
    if errors.is_empty() {
        Ok(())
    } else {
        Err(StepError::Other(errors.join("; ")))
    }
}

/// Says what was not done.
async fn tell(ctx: &Context, refusals: Vec<Refusal>) {
    ctx.metrics.garbage(
        refusals
            .iter()
            .map(|refusal| (refusal.what.label(), refusal.count)),
    );
    for refusal in &refusals {
        let message = refusal.to_string();
        tracing::warn!(
            reason = refusal.what.reason(),
            message,
            "garbage collection stopped itself"
        );
        ctx.events.own(true, refusal.what.reason(), &message).await;
    }
    lock(&ctx.memory.end.garbage.0).trouble = refusals;
}

/// Deletes registered claims whose instance is gone.
async fn lost_claims(
    ctx: &Context,
    claims: &[Arc<NodeClaim>],
    ready: &BTreeSet<String>,
    instances: &[Arc<Instance>],
) -> Result<Option<Refusal>, StepError> {
    let there: BTreeSet<&str> = instances.iter().map(|i| i.provider_id.as_str()).collect();
    let registered =
        |c: &&Arc<NodeClaim>| c.status.as_ref().is_some_and(|s| is_true(s, REGISTERED));
    let registered: Vec<&Arc<NodeClaim>> = claims.iter().filter(registered).collect();
    let missing =
        |c: &&&Arc<NodeClaim>| c.metadata.deletion_timestamp.is_none() && !there.contains(id_of(c));
    let suspects: BTreeMap<&str, &Arc<NodeClaim>> = registered
        .iter()
        .filter(missing)
        .filter_map(|c| Some((c.metadata.uid.as_deref()?, *c)))
        .collect();
    let (due, limit) = {
        let mut memory = lock(&ctx.memory.end.garbage.0);
        let mut due = memory.claims.seen(suspects.keys().copied(), Instant::now());
        if mutant("garbage-partial-list") {
            due = suspects.keys().map(|uid| (*uid).to_owned()).collect();
        }
        (due, memory.limit.of(registered.len()))
    };
    if due.len() > limit {
        return Ok(Some(Refusal {
            what: What::Claims,
            count: due.len(),
            of: registered.len(),
            limit,
        }));
    }
    let due = due.iter().filter_map(|uid| suspects.get(uid.as_str()));
    // One that cannot be asked for does not hold up the others.
    let mut failed = None;
    for claim in due.filter(|claim| !ready.contains(id_of(claim)) || mutant("garbage-partial-list"))
    {
        match ctx.provider.get(id_of(claim)).await {
            Err(CloudError::NotFound(_)) => {}
            // The list was wrong.
            Ok(_) if !mutant("garbage-partial-list") => continue,
            Ok(_) => {}
            Err(error) => {
                failed = Some(error);
                continue;
            }
        }
        if claim_writes::delete(ctx, claim, "its instance is gone").await? {
            ctx.disrupted("garbage_collected", claim);
        }
    }
    failed.map_or(Ok(None), |error| Err(error.into()))
}

/// Terminates instances whose claim is gone. One that has a Node is ended by way of its Node, which
/// is drained.
async fn leaked_instances(
    ctx: &Context,
    claims: &[Arc<NodeClaim>],
    ready: &BTreeSet<String>,
    instances: &[Arc<Instance>],
) -> Result<Option<Refusal>, StepError> {
    let now = ctx.now().as_second();
    let owners = Owners::of(claims.iter().map(AsRef::as_ref));
    let old = |i: &Instance| i.created > 0 && now - i.created > LEAK_AGE;
    let suspects: BTreeMap<&str, &Arc<Instance>> = instances
        .iter()
        .filter(|i| owners.lack(i) && old(i))
        .map(|i| (i.provider_id.as_str(), i))
        .collect();
    let (due, limit) = {
        let mut memory = lock(&ctx.memory.end.garbage.0);
        let mut due = memory
            .instances
            .seen(suspects.keys().copied(), Instant::now());
        if mutant("garbage-trusts-cache") {
            due = suspects.keys().map(|id| (*id).to_owned()).collect();
        }
        (due, memory.limit.of(instances.len()))
    };
    if due.is_empty() {
        return Ok(None);
    }
    // Asked of the server itself: a claim may have been made since, and a watch may be behind.
    let known = proof::claims(&ctx.client, "").await?;
    let owners = if mutant("garbage-trusts-cache") {
        owners
    } else {
        Owners::of(known.iter())
    };
    let mut leaked: BTreeSet<&str> = due.iter().map(String::as_str).collect();
    leaked.retain(|id| {
        suspects
            .get(id)
            .is_some_and(|instance| owners.lack(instance))
    });
    let (mut spared, doomed): (BTreeSet<&str>, BTreeSet<&str>) = leaked
        .iter()
        .partition(|id| ready.contains(**id) && !mutant("garbage-by-uid"));
    if doomed.len() > limit {
        return Ok(Some(Refusal {
            what: What::Instances,
            count: doomed.len(),
            of: instances.len(),
            limit,
        }));
    }
    let blind = mutant("garbage-by-uid") || mutant("garbage-trusts-cache");
    let nodes = if doomed.is_empty() || blind {
        Vec::new()
    } else {
        proof::nodes_with(&ctx.client, "", &doomed).await?
    };
    // One that cannot be terminated does not hold up the others.
    let mut failed = None;
    for id in doomed {
        let its: Vec<&NodeView> = nodes.iter().filter(|node| node.provider_id == id).collect();
        // One that never registered has no pods: nothing keeps it.
        if its
            .iter()
            .any(|node| node.is_ready() && node.is_registered())
        {
            spared.insert(id);
            continue;
        }
        let uid = suspects
            .get(id)
            .and_then(|instance| instance.claim_uid.as_deref());
        tracing::warn!(
            provider_id = id,
            uid,
            "deleting leaked instance without NodeClaim"
        );
        if its.is_empty() {
            ctx.may_write()?;
            match ctx.provider.delete(id).await {
                Ok(()) | Err(CloudError::NotFound(_)) => {}
                Err(error) => {
                    failed = Some(error);
                    continue;
                }
            }
        }
        for node in its.iter().filter(|node| node.deletion.is_none()) {
            proof::delete_node(ctx, node).await?;
        }
    }
    if let Some(error) = failed {
        return Err(error.into());
    }
    let count = spared.len();
    Ok((count > 0).then_some(Refusal {
        what: What::Ready,
        count,
        of: instances.len(),
        limit,
    }))
}

fn id_of(claim: &NodeClaim) -> &str {
    claim.status.as_ref().map_or("", |s| s.provider_id.as_str())
}

/// What claims own: the instance that their status names, and, until it names one, whatever was made
/// for their UID. A claim that was restored has another UID than the one that its instance was made
/// for. A claim that names its instance owns no second one with its UID, such as a copy that somebody
/// has launched ("launch more like this" copies tags).
struct Owners<'a> {
    /// Of claims that name no instance yet.
    uids: BTreeSet<&'a str>,
    /// Launch groups of the same: any instance of a group may be any member's.
    groups: BTreeSet<&'a str>,
    ids: BTreeSet<&'a str>,
}

impl<'a> Owners<'a> {
    fn of(claims: impl Iterator<Item = &'a NodeClaim> + Clone) -> Self {
        Owners {
            uids: claims
                .clone()
                .filter(|claim| id_of(claim).is_empty())
                .filter_map(|c| c.metadata.uid.as_deref())
                .collect(),
            groups: claims
                .clone()
                .filter(|claim| id_of(claim).is_empty())
                .filter_map(|claim| Some(launch_groups::member(claim)?.token))
                .collect(),
            ids: claims.map(id_of).filter(|id| !id.is_empty()).collect(),
        }
    }

    /// Whether an instance was made for a claim and no claim owns it. One that Karpenter made says
    /// no UID: it is owned by the claim whose status names it.
    fn lack(&self, instance: &Instance) -> bool {
        instance
            .claim_uid
            .as_deref()
            .is_some_and(|uid| !self.uids.contains(uid))
            && !instance
                .group
                .as_deref()
                .is_some_and(|token| self.groups.contains(token))
            && (!self.ids.contains(instance.provider_id.as_str()) || mutant("garbage-by-uid"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_cluster::fresh;

    #[test]
    fn a_claim_owns_what_was_made_for_it_and_what_its_status_names() {
        let (_, mut claim) = fresh();
        claim.metadata.uid = Some("new".into());
        let instance = |uid: Option<&str>, id: &str| Instance {
            claim_uid: uid.map(str::to_owned),
            provider_id: id.into(),
            ..Instance::default()
        };
        let lack = |claim: &NodeClaim, uid, id| {
            Owners::of(std::iter::once(claim)).lack(&instance(uid, id))
        };
        assert!(!lack(&claim, Some("new"), "test://1"));
        assert!(lack(&claim, Some("old"), "test://1"));
        assert!(
            !lack(&claim, None, "test://1"),
            "nobody knows what it was made for"
        );
        assert!(
            lack(&claim, Some(""), "test://1"),
            "Karpenter made it, and its claim is gone"
        );
        claim.status =
            serde_json::from_value(serde_json::json!({"providerID": "test://1"})).unwrap();
        assert!(
            !lack(&claim, Some("old"), "test://1"),
            "restored under another UID"
        );
        assert!(lack(&claim, Some("old"), "test://2"));
        assert!(!lack(&claim, Some("new"), "test://1"));
        assert!(
            lack(&claim, Some("new"), "test://2"),
            "a copy with its tags: it has its own already"
        );
        assert!(
            !lack(&claim, Some(""), "test://1"),
            "Karpenter made it, and its claim names it"
        );
    }

    #[test]
    fn an_instance_of_a_group_is_garbage_once_no_member_lacks_one() {
        let (_, mut claim) = fresh();
        let annotations = claim.metadata.annotations.get_or_insert_default();
        annotations.insert(launch_groups::GROUP.to_owned(), "t/0/2".to_owned());
        let of = |group: &str, id: &str| Instance {
            claim_uid: Some(String::new()),
            group: Some(group.into()),
            provider_id: id.into(),
            ..Instance::default()
        };
        let lack =
            |claim: &NodeClaim, group, id| Owners::of(std::iter::once(claim)).lack(&of(group, id));
        assert!(!lack(&claim, "t", "test://1") && lack(&claim, "other", "test://1"));
        claim.status =
            serde_json::from_value(serde_json::json!({"providerID": "test://1"})).unwrap();
        assert!(!lack(&claim, "t", "test://1") && lack(&claim, "t", "test://2"));
    }
}
