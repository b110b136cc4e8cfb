//! Unhealthy nodes: what their cloud says of them ([`policies`]), and the two ways to act on it.
//!
//! *Within budgets* is Karpenter 1.15's way: a look for disruption finds at most one node, which is
//! replaced by a command ([`disruption`](super::disruption)) or rebooted ([`reboot`]).
//!
//! *At once* is what Karpenter 1.14 does, and 1.15 with `--legacy-node-repair`: a node is replaced
//! regardless of budgets, pods and grace periods. It is here. If more than 20 % of a NodePool's
//! nodes are unhealthy, the cause is probably elsewhere, so none is replaced.
//!
//! Like [`lifecycle`](super::launch::lifecycle), a step can be run twice or killed anywhere.

pub mod mode;
pub mod policies;
pub mod reboot;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use longshore_api::crd::{NodeClaim, NodePool};
use longshore_api::labels;
use longshore_core::disrupt::repair::are_too_many;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::claim_writes::{delete, patch_meta};
use super::context::Context;
use super::end::proof;
use crate::decide::command::candidate_of;
use crate::observe::node::NodeView;
use crate::observe::node_claim::{TERMINATION_TIME, pool_of, rfc3339, termination_time};
use crate::process::mutants::mutant;
use crate::process::step_error::{StepError, StepOutcome};
pub use mode::{RepairMode, Repairs};
pub use policies::RepairPolicies;
use policies::Unhealthy;

/// When a repair that was blocked is checked again.
const BLOCKED_REPAIR_RECHECK: Duration = Duration::from_secs(5 * 60);
/// When a node is checked again that is healthy although the watch says otherwise.
const HEALTHY_NODE_RECHECK: Duration = Duration::from_secs(30);
/// For how long counts are good.
const HEALTH_COUNTS_LIFETIME: Duration = Duration::from_secs(1);

/// Nodes that are counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairScope {
    nodes: usize,
    unhealthy: usize,
}

impl RepairScope {
    fn count(&mut self, unhealthy: bool) {
        self.nodes += 1;
        self.unhealthy += usize::from(unhealthy);
    }

    fn has_too_many(self) -> bool {
        are_too_many(self.unhealthy, self.nodes)
    }
}

/// How many nodes are unhealthy, tolerated or not, by NodePool and in the whole cluster. Counted on
/// demand, once for concurrent requests.
#[derive(Default)]
pub struct UnhealthyCounts {
    counted: Option<Instant>,
    pools: BTreeMap<String, RepairScope>,
    all: RepairScope,
}

impl UnhealthyCounts {
    /// The scope of a claim's node: those of its NodePool, or, for a claim without one, all.
    pub fn of<'a>(
        &mut self,
        claim: &NodeClaim,
        nodes: impl Iterator<Item = &'a Arc<NodeView>>,
        policies: &RepairPolicies,
        now: Instant,
    ) -> RepairScope {
        if self
            .counted
            .is_none_or(|at| now >= at + HEALTH_COUNTS_LIFETIME)
        {
            *self = UnhealthyCounts {
                counted: Some(now),
                ..UnhealthyCounts::default()
            };
            for node in nodes {
                let unhealthy = policies.at_once(node).is_some();
                self.all.count(unhealthy);
                if let Some(pool) = node.labels.get(labels::NODEPOOL) {
                    self.pools.entry(pool.clone()).or_default().count(unhealthy);
                }
            }
        }
        match pool_of(claim) {
            "" => self.all,
            pool => self.pools.get(pool).copied().unwrap_or_default(),
        }
    }
}

/// Replaces a node if the server itself says that its condition is not tolerated any more: the
/// watch that said so may have been silent since.
pub async fn look_and_step(
    ctx: &Context,
    policies: &RepairPolicies,
    node: &NodeView,
    claim: &NodeClaim,
    pool: Option<&NodePool>,
    scope: RepairScope,
) -> StepOutcome {
    let live = proof::node(&ctx.client, &node.name)
        .await?
        .filter(|live| live.provider_id == node.provider_id);
    let Some(live) = live else { return Ok(None) };
    let Some(unhealthy) = policies.at_once(&live) else {
        return Ok(Some(HEALTHY_NODE_RECHECK));
    };
    match unhealthy.tolerated(ctx.now().as_second()) {
        Some(left) => Ok(Some(left)),
        None => step(ctx, &live, claim, pool, &unhealthy, scope).await,
    }
}

/// Replaces a node whose condition is no longer tolerated: deletes its claim, and from then on its
/// pods are not evicted but deleted.
async fn step(
    ctx: &Context,
    node: &NodeView,
    claim: &NodeClaim,
    pool: Option<&NodePool>,
    unhealthy: &Unhealthy,
    scope: RepairScope,
) -> StepOutcome {
    let what = unhealthy.text();
    if scope.has_too_many() && !mutant("no-breaker") {
        let of = pool.and_then(|pool| pool.metadata.name.as_deref());
        let of = of.map_or_else(
            || "the cluster".to_owned(),
            |name| format!("NodePool {name}"),
        );
        let RepairScope { nodes, unhealthy } = scope;
        let message = format!(
            "{what} exceeds its toleration, but {unhealthy} of {nodes} nodes of {of} are \
            unhealthy (more than 20 %), so none is replaced"
        );
        let reason = "NodeRepairBlocked";
        ctx.events.node(&node.name, true, reason, &message).await;
        ctx.events.claim(claim, true, reason, &message).await;
        if let Some(pool) = pool {
            ctx.events.pool(pool, true, reason, &message).await;
        }
        return Ok(Some(BLOCKED_REPAIR_RECHECK));
    }
    let mut claim = claim.clone();
    let now = ctx.now();
    if termination_time(&claim).is_none_or(|ends| ends > now) {
        let fields = json!({"annotations": {TERMINATION_TIME: rfc3339(now)}});
        claim.metadata.resource_version = patch_meta(ctx, &claim, fields).await?;
    }
    let since = now.as_second() - unhealthy.since;
    let why = format!(
        "replacing unhealthy node {}: {what}; toleration expired {since} s ago",
        node.name
    );
    if delete(ctx, &claim, &why).await? {
        ctx.events.claim(&claim, true, "Unhealthy", &why).await;
        ctx.metrics
            .unhealthy(&unhealthy.condition, "forceful", &claim);
        ctx.disrupted("unhealthy", &claim);
    }
    Ok(None)
}

/// What metrics call a bound, seconds, on the time that pods may take.
pub fn mode(bound: Option<i64>) -> &'static str {
    match bound {
        None => "graceful",
        Some(0) => "forceful",
        Some(_) => "eventual",
    }
}

/// Whether the server itself says that a node is to be replaced within budgets: the watch that said
/// so may have been silent since.
///
/// # Errors
/// What the server says.
pub async fn is_still_due(
    ctx: &Context,
    node: &NodeView,
    claim: &NodeClaim,
) -> Result<bool, StepError> {
    let Some(policies) = ctx.repairs.within_budgets() else {
        return Ok(false);
    };
    let live = proof::node(&ctx.client, &node.name).await?;
    let live = live.filter(|live| live.provider_id == node.provider_id);
    let rebooted = reboot::phase::ended(claim);
    let unhealthy = live.and_then(|live| policies.of(&live, rebooted, ctx.now().as_second()));
    Ok(unhealthy.is_some_and(|unhealthy| unhealthy.due.is_some()))
}

/// Whether a claim was given an end by a step that did not live to delete it. A command of
/// disruption takes back its own.
pub fn is_left_over(claim: &NodeClaim) -> bool {
    let going = claim.metadata.deletion_timestamp.is_some() || candidate_of(claim).is_some();
    !going && termination_time(claim).is_some()
}

/// Removes the termination time after the node recovered, so that a later deletion drains normally.
pub async fn take_back(ctx: &Context, claim: &NodeClaim) -> StepOutcome {
    patch_meta(
        ctx,
        claim,
        json!({"annotations": {TERMINATION_TIME: Value::Null}}),
    )
    .await?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use longshore_cloud::{CloudError, RepairAction, RepairPolicy};

    use super::*;
    use crate::test_cluster::{TestCluster, context, fresh};

    /// A node that is not ready is tolerated for ten minutes.
    fn policies() -> RepairPolicies {
        let policy = RepairPolicy {
            condition: "Ready",
            status: "False",
            reason: "",
            toleration: Duration::from_secs(600),
            grace: None,
            priority: 0,
            action: RepairAction::Replace,
        };
        RepairPolicies::new(&[policy]).unwrap()
    }

    const NOON: &str = "2026-11-24T12:00:00Z";

    fn node(name: &str, pool: &str, conditions: &Value) -> Arc<NodeView> {
        let node = json!({
            "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": pool}},
            "status": {"conditions": conditions},
        });
        Arc::new(NodeView::read(&node.to_string()).unwrap())
    }

    fn stated(kind: &str, status: &str) -> Value {
        json!({"type": kind, "status": status, "reason": "Test", "lastTransitionTime": NOON})
    }

    #[test]
    fn a_ward_is_a_nodepool_or_for_those_of_none_the_cluster() {
        let (sick, well) = (json!([stated("Ready", "False")]), json!([]));
        let mut nodes: Vec<_> = (0..11)
            .map(|n| node(&format!("db-{n}"), "db", &well))
            .collect();
        nodes.extend((0..6).map(|n| {
            node(
                &format!("web-{n}"),
                "web",
                if n < 3 { &sick } else { &well },
            )
        }));
        let (_, mut claim) = fresh();
        let now = Instant::now();
        let mut unhealthy_counts = UnhealthyCounts::default();
        let web = unhealthy_counts.of(&claim, nodes.iter(), &policies(), now);
        assert_eq!(
            (web, web.has_too_many()),
            (
                RepairScope {
                    nodes: 6,
                    unhealthy: 3
                },
                true
            ),
            "two are a fifth of six"
        );
        claim.metadata.labels = None;
        let all = unhealthy_counts.of(&claim, nodes.iter(), &policies(), now);
        assert_eq!(
            (all, all.has_too_many()),
            (
                RepairScope {
                    nodes: 17,
                    unhealthy: 3
                },
                false
            )
        );
        nodes.truncate(11);
        assert_eq!(
            unhealthy_counts.of(&claim, nodes.iter(), &policies(), now),
            all,
            "a moment later it is not counted again"
        );
        let later = unhealthy_counts.of(
            &claim,
            nodes.iter(),
            &policies(),
            now + HEALTH_COUNTS_LIFETIME,
        );
        assert_eq!(
            later,
            RepairScope {
                nodes: 11,
                unhealthy: 0
            }
        );
    }

    async fn repaired(
        server: &TestCluster,
        claim: &NodeClaim,
        scope: RepairScope,
    ) -> (StepOutcome, String) {
        let ctx = context(server, Err(CloudError::Other("not asked".into())));
        let sick = node("a", "web", &json!([stated("Ready", "False")]));
        let unhealthy = policies().at_once(&sick).unwrap();
        let outcome = step(&ctx, &sick, claim, None, &unhealthy, scope).await;
        (outcome, ctx.metrics.text())
    }

    #[tokio::test]
    async fn the_claim_is_given_its_end_and_deleted() {
        let (server, claim) = fresh();
        let (outcome, metrics) = repaired(
            &server,
            &claim,
            RepairScope {
                nodes: 1,
                unhealthy: 1,
            },
        )
        .await;
        assert_eq!(outcome, Ok(None));
        assert!(server.is_claim_deleted());
        let counted = r#"unhealthy_disrupted_total{capacity_type="",condition="ready""#;
        assert!(
            metrics.contains(counted) && metrics.contains(r#"reason="unhealthy""#),
            "{metrics}"
        );
    }

    #[tokio::test]
    async fn where_too_many_are_unhealthy_none_is_replaced() {
        let (server, claim) = fresh();
        let (outcome, metrics) = repaired(
            &server,
            &claim,
            RepairScope {
                nodes: 5,
                unhealthy: 2,
            },
        )
        .await;
        assert_eq!(outcome, Ok(Some(BLOCKED_REPAIR_RECHECK)));
        assert!(
            server
                .claim()
                .is_some_and(|claim| termination_time(&claim).is_none())
                && !metrics.contains("unhealthy_disrupted")
        );
    }

    #[tokio::test]
    async fn the_end_of_a_claim_that_no_process_lived_to_delete_is_taken_back() {
        let (server, claim) = fresh();
        let ctx = context(&server, Err(CloudError::Other("not asked".into())));
        let ended = json!({"annotations": {TERMINATION_TIME: NOON}});
        patch_meta(&ctx, &claim, ended).await.unwrap();
        let claim = server.claim().unwrap();
        assert!(is_left_over(&claim));
        assert_eq!(take_back(&ctx, &claim).await, Ok(None));
        assert!(!is_left_over(&server.claim().unwrap()));
    }
}
