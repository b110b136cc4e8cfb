//! Ends nodes whose instances EC2 finds unhealthy: failing status checks and planned events.
//!
//! A node whose check fails and whose kubelet is silent too runs no pod that could leave in order, so
//! its NodeClaim gets an end that is now, also where it is being drained already. At most 5 % of the
//! cluster's nodes, and at least one, get one in a look. A Node that is Ready is drained like any other
//! that is deleted, and so is one with an event. If the checks of more than 20 % of a NodePool's nodes
//! fail, or of the cluster's, the cause is probably elsewhere, so none is ended for it.

use std::collections::BTreeMap;
use std::future::pending;
use std::time::Duration;

use longshore_api::crd::NodeClaim;
use longshore_aws::error::Class;
use longshore_aws::provider::Ec2;
use longshore_aws::status_checks::{Category, Episodes, Unhealthy};
use longshore_core::disrupt::repair::are_too_many;

use super::LEADERSHIP_POLL;
use super::claims::{Claims, Owner};
use crate::act::claim_writes;
use crate::act::context::Context;
use crate::act::end::proof;
use crate::act::repair::reboot::{end_within, phase};
use crate::metrics::ec2::Ec2Metrics;
use crate::observe::node_claim;
use crate::observe::node_claim::termination_time;
use crate::process::step_error::StepError;

/// How often EC2 is asked.
const STATUS_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Asks EC2 and ends nodes, until it is dropped. For the replica that leads.
pub(super) async fn run(ec2: &Ec2, ctx: &Context, claims: &Claims, metrics: &Ec2Metrics) {
    let mut episodes = Episodes::default();
    // How many nodes there are bounds how many may be ended.
    while !claims.is_listed() {
        tokio::time::sleep(LEADERSHIP_POLL).await;
    }
    loop {
        match ec2.unhealthy_instances().await {
            Ok(found) => {
                let ours = ours(ec2, ctx, claims, found).await;
                count(&mut episodes, &ours, metrics);
                let failing = Failing::of(&ours);
                let mut forces_left = most_forced(claims.count("").1);
                for (one, claim) in ours {
                    if is_left_alone(ec2, &claim, one.category) {
                        continue;
                    }
                    if let Some(why) = failing.brake(&claim, one.category, claims) {
                        hold(ctx, &claim, &one, &why).await;
                        continue;
                    }
                    if forces_left == 0 {
                        tracing::info!(
                            instance = one.instance,
                            "unhealthy instance ends in the next look"
                        );
                        continue;
                    }
                    // What failed is done at the next look.
                    match end(ctx, &claim, &one).await {
                        Ok(End::Forced) => forces_left -= 1,
                        Ok(End::InOrder | End::UnderWay) => {}
                        Err(why) => {
                            let claim = claim.metadata.name.as_deref();
                            tracing::warn!(nodeclaim = claim, %why, "deleting NodeClaim of unhealthy instance failed; retrying");
                        }
                    }
                }
            }
            // Not for credentials that have expired or a clock that is wrong: these are put right.
            Err(error)
                if error.class == Class::Unauthorized
                    && !error.concerns_credentials()
                    && !error.code.is_empty() =>
            {
                tracing::error!(
                    error = error.to_string(),
                    action = error.call.action(),
                    "status checks of instances may not be read and are not asked for again; \
                     allow the action in the policy of Longshore's role, then restart"
                );
                pending().await
            }
            Err(error) => tracing::warn!(
                error = error.with_hint(),
                "reading status checks failed; retrying"
            ),
        }
        tokio::time::sleep(STATUS_CHECK_INTERVAL).await;
    }
}

/// How many nodes have a check that fails: by NodePool, and in all.
#[derive(Default)]
struct Failing {
    pools: BTreeMap<String, usize>,
    all: usize,
}

impl Failing {
    fn of(ours: &[(Unhealthy, NodeClaim)]) -> Self {
        let mut failing = Failing::default();
        for (_, claim) in ours.iter().filter(|(one, _)| !one.category.may_drain()) {
            failing.all += 1;
            let pool = node_claim::pool_of(claim).to_owned();
            *failing.pools.entry(pool).or_default() += 1;
        }
        failing
    }

    /// Why a node is not ended for its check: too many fail. Repair has the same limit.
    fn brake(&self, claim: &NodeClaim, category: Category, claims: &Claims) -> Option<String> {
        if category.may_drain() {
            return None;
        }
        let pool = node_claim::pool_of(claim);
        let (of_pool, of_all) = claims.count(pool);
        let failing = self.pools.get(pool).copied().unwrap_or(0);
        let (count, of, name) = match () {
            () if !pool.is_empty() && are_too_many(failing, of_pool) => {
                (failing, of_pool, format!("NodePool {pool}"))
            }
            () if are_too_many(self.all, of_all) => (self.all, of_all, "the cluster".to_owned()),
            () => return None,
        };
        Some(format!(
            "status checks of {count} of {of} nodes of {name} fail (more than 20 %), so none is \
             replaced"
        ))
    }
}

/// Says that a node whose check fails stays.
async fn hold(ctx: &Context, claim: &NodeClaim, one: &Unhealthy, why: &str) {
    let instance = &*one.instance;
    tracing::warn!(instance, why, "unhealthy instance is not replaced");
    let message = format!("{instance}: {}, but {why}", one.what);
    let reason = "NodeRepairBlocked";
    ctx.events.claim(claim, true, reason, &message).await;
    if let Some(node) = node_of(claim) {
        ctx.events.node(node, true, reason, &message).await;
    }
}

fn node_of(claim: &NodeClaim) -> Option<&str> {
    let status = claim.status.as_ref()?;
    (!status.node_name.is_empty()).then_some(&*status.node_name)
}

/// Whether a failing check is expected: the instance is being rebooted, or its zone is one that
/// traffic is shifted away from.
fn is_left_alone(ec2: &Ec2, claim: &NodeClaim, category: Category) -> bool {
    let shifted = || ec2.is_shifted(node_claim::provider_id(claim));
    !category.may_drain() && (phase::is_under_way(claim) || shifted())
}

/// Unhealthy instances of this cluster, each with its NodeClaim.
async fn ours(
    ec2: &Ec2,
    ctx: &Context,
    claims: &Claims,
    found: Vec<Unhealthy>,
) -> Vec<(Unhealthy, NodeClaim)> {
    let mut all = Vec::new();
    for one in found {
        match claim_of(ec2, ctx, claims, &one.instance).await {
            Ok(Some(claim)) => all.push((one, claim)),
            // Another cluster's, or none of a cluster.
            Ok(None) => {}
            Err(why) => {
                tracing::warn!(
                    instance = one.instance,
                    why,
                    "finding NodeClaim of unhealthy instance failed"
                );
            }
        }
    }
    all
}

/// The NodeClaim of an instance, as the API server has it now; nothing if it is none of this
/// cluster's.
async fn claim_of(
    ec2: &Ec2,
    ctx: &Context,
    claims: &Claims,
    id: &str,
) -> Result<Option<NodeClaim>, String> {
    let name = match claims.owner(id) {
        Owner::Claim(name) => Some(name),
        Owner::Foreign => None,
        Owner::Unknown => ec2.claim_of(id).await.map_err(|why| why.to_string())?,
    };
    let Some(name) = name else { return Ok(None) };
    let found = proof::claim(&ctx.client, &name).await;
    let found = found.map_err(|why| why.to_string())?;
    let is_its = |claim: &NodeClaim| {
        ctx.managed.claim(claim) && node_claim::provider_id(claim).ends_with(id)
    };
    Ok(found.filter(is_its))
}

/// Counts what was not unhealthy before.
fn count(episodes: &mut Episodes, ours: &[(Unhealthy, NodeClaim)], metrics: &Ec2Metrics) {
    let all: Vec<Unhealthy> = ours.iter().map(|(one, _)| one.clone()).collect();
    for one in episodes.begun(&all) {
        let (category, what) = (one.category.as_str(), &*one.what);
        tracing::warn!(
            instance = one.instance,
            category,
            what,
            "unhealthy instance"
        );
        metrics.status_unhealthy(category);
    }
}

/// How many nodes of a cluster get an end that is now in one look: 5 %, and at least one.
fn most_forced(nodes: usize) -> usize {
    nodes.div_ceil(20).max(1)
}

/// How a node ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// Now: its pods cannot leave.
    Forced,
    /// Once its pods have left.
    InOrder,
    /// Now, as was decided before: it takes no turn from another.
    UnderWay,
}

/// Deletes the NodeClaim of an unhealthy instance. One that goes already gets its end only: its pods
/// cannot leave, and PodDisruptionBudgets would hold them for ever.
async fn end(ctx: &Context, claim: &NodeClaim, one: &Unhealthy) -> Result<End, StepError> {
    let how = how_it_ends(ctx, claim, one.category).await?;
    let goes = claim.metadata.deletion_timestamp.is_some();
    if goes && how == End::Forced && termination_time(claim).is_some_and(|end| end <= ctx.now()) {
        return Ok(End::UnderWay);
    }
    let claim = &bounded(ctx, claim, how).await?;
    if goes {
        return Ok(how);
    }
    let message = format!("EC2 says of {}: {}", one.instance, one.what);
    if claim_writes::delete(ctx, claim, &message).await? {
        ctx.disrupted(one.category.as_str(), claim);
        let reason = "InstanceUnhealthy";
        ctx.events.claim(claim, true, reason, &message).await;
        if let Some(node) = node_of(claim) {
            ctx.events.node(node, true, reason, &message).await;
        }
    }
    Ok(how)
}

/// A kubelet that keeps its Node Ready can stop pods in order, whatever EC2 says of the machine.
async fn how_it_ends(
    ctx: &Context,
    claim: &NodeClaim,
    category: Category,
) -> Result<End, StepError> {
    if category.may_drain() {
        return Ok(End::InOrder);
    }
    let node = match node_of(claim) {
        Some(name) => proof::node(&ctx.client, name).await?,
        None => None,
    };
    match node.is_some_and(|node| node.is_ready()) {
        true => Ok(End::InOrder),
        false => Ok(End::Forced),
    }
}

/// The NodeClaim, with an end that is now where its pods cannot leave in order.
async fn bounded(ctx: &Context, claim: &NodeClaim, how: End) -> Result<NodeClaim, StepError> {
    match how {
        End::InOrder | End::UnderWay => Ok(claim.clone()),
        End::Forced => end_within(ctx, claim, 0).await,
    }
}

#[cfg(test)]
mod tests {
    use longshore_cloud::CloudError;

    use super::*;
    use crate::managed::Managed;
    use crate::test_cluster::{context, fresh};

    #[tokio::test]
    async fn the_claim_of_an_unhealthy_instance_is_deleted_and_counted() {
        let (server, claim) = fresh();
        let ctx = context(&server, Err(CloudError::Other("not asked".into())));
        let one = Unhealthy {
            instance: "i-1".to_owned(),
            category: Category::System,
            what: "it does not answer".to_owned(),
        };
        end(&ctx, &claim, &one).await.unwrap();
        assert!(server.is_claim_deleted());
        let metrics = ctx.metrics.text();
        assert!(metrics.contains("reason=\"system_status\""), "{metrics}");
    }

    #[tokio::test]
    async fn pods_leave_in_order_before_an_event_and_not_when_a_check_fails() {
        for (category, ends_now) in [
            (Category::Instance, true),
            (Category::System, true),
            (Category::Event, false),
        ] {
            let (server, claim) = fresh();
            let ctx = context(&server, Err(CloudError::Other("not asked".into())));
            let how = how_it_ends(&ctx, &claim, category).await.unwrap();
            let claim = bounded(&ctx, &claim, how).await.unwrap();
            let written = server.claim().unwrap();
            let bound = termination_time(&written).is_some_and(|end| end <= ctx.now());
            assert_eq!(bound, ends_now, "{category:?}");
            assert_eq!(
                claim.metadata.resource_version, written.metadata.resource_version,
                "the copy is the newest, or its deletion would be refused"
            );
        }
    }

    fn unhealthy(category: Category) -> Unhealthy {
        Unhealthy {
            instance: "i-1".to_owned(),
            category,
            what: "it does not answer".to_owned(),
        }
    }

    #[tokio::test]
    async fn a_dead_machine_that_is_being_drained_is_forced() {
        for (category, is_forced) in [(Category::System, true), (Category::Event, false)] {
            let (server, mut claim) = fresh();
            let ctx = context(&server, Err(CloudError::Other("not asked".into())));
            claim.metadata.deletion_timestamp = claim.metadata.creation_timestamp.clone();
            end(&ctx, &claim, &unhealthy(category)).await.unwrap();
            let end = termination_time(&server.claim().unwrap());
            assert_eq!(
                end.is_some_and(|end| end <= ctx.now()),
                is_forced,
                "{category:?}"
            );
            // The next look does no more to it, and its turn is another's.
            let mut again = server.claim().unwrap();
            again.metadata.deletion_timestamp = claim.metadata.deletion_timestamp.clone();
            let how = super::end(&ctx, &again, &unhealthy(category))
                .await
                .unwrap();
            assert_eq!(how == End::UnderWay, is_forced, "{category:?}");
        }
    }

    #[test]
    fn few_nodes_are_forced_in_one_look() {
        assert_eq!([0, 1, 20, 21, 300].map(most_forced), [1, 1, 1, 2, 15]);
    }

    #[tokio::test]
    async fn too_many_failing_checks_end_no_node() {
        let claims = Claims::new(Managed::EC2);
        let claim = |number: usize| -> NodeClaim {
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": format!("c-{number}"), "labels":
                    {"karpenter.sh/nodepool": if number < 5 { "db" } else { "web" }}},
                "spec": {"requirements": [], "nodeClassRef":
                    {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
                "status": {"providerID": format!("aws:///us-east-1a/i-{number}")},
            }))
            .unwrap()
        };
        claims.list((0..60).map(claim));
        let brake = |numbers: std::ops::Range<usize>, category| {
            let ours: Vec<_> = numbers
                .clone()
                .map(|n| (unhealthy(category), claim(n)))
                .collect();
            Failing::of(&ours).brake(&claim(numbers.start), category, &claims)
        };
        assert_eq!(brake(0..1, Category::System), None);
        let of_pool = brake(0..2, Category::System).unwrap();
        assert!(of_pool.contains("2 of 5 nodes of NodePool db"), "{of_pool}");
        assert!(brake(0..60, Category::Instance).is_some(), "a false alarm");
        let of_cluster = brake(4..17, Category::Instance).unwrap();
        assert!(
            of_cluster.contains("13 of 60 nodes of the cluster"),
            "{of_cluster}"
        );
        assert_eq!(
            brake(0..60, Category::Event),
            None,
            "these are drained in order"
        );
    }
}
