//! Replaces nodes that are unhealthy for longer than their cloud tolerates, as Karpenter's
//! controller `node.health` does: at once, regardless of budgets, pods and grace periods. If more
//! than 20 % of a NodePool's nodes are unhealthy, the cause is probably elsewhere, so none is
//! replaced.
//!
//! Like [`lifecycle`](super::lifecycle), a step can be run twice or killed anywhere.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use longshore_api::crd::{ConditionStatus, NodeClaim, NodePool, Timestamp, condition};
use longshore_api::labels;
use longshore_cloud::RepairPolicy;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::context::Context;
use super::lifecycle::{Outcome, TERMINATION_TIME, delete, patch_meta, pool_of, rfc3339};
use super::mutants::mutant;
use super::node::NodeView;
use super::proof;

/// One node in so many may be unhealthy, rounded up; with more, none is replaced.
const UNHEALTHY_DIVISOR: usize = 5;
/// When it is looked again whether that is over.
const AGAIN: Duration = Duration::from_secs(5 * 60);
/// When a node is checked again that is healthy although the watch says otherwise.
const BEHIND: Duration = Duration::from_secs(30);
/// For how long counts are good.
const FRESH: Duration = Duration::from_secs(1);

/// What is wrong with a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnhealthyCondition {
    condition: &'static str,
    status: ConditionStatus,
    /// When it has lasted for as long as is tolerated, seconds since 1970.
    due: i64,
}

/// What is wrong with a node by a cloud's policies; of several things the one that is due first.
pub fn unhealthy_condition(
    node: &NodeView,
    policies: &[RepairPolicy],
) -> Option<UnhealthyCondition> {
    let matches = |policy: &RepairPolicy| {
        let found = condition(&node.conditions, policy.condition)
            .filter(|c| c.status.text() == policy.status)?;
        let toleration = i64::try_from(policy.toleration.as_secs()).unwrap_or(i64::MAX);
        let due = found
            .last_transition_time
            .0
            .as_second()
            .saturating_add(toleration);
        Some(UnhealthyCondition {
            condition: policy.condition,
            status: found.status,
            due,
        })
    };
    policies
        .iter()
        .filter_map(matches)
        .min_by_key(|unhealthy| unhealthy.due)
}

impl UnhealthyCondition {
    /// How much longer it is tolerated; nothing once it is not.
    pub fn tolerated(&self, now: Timestamp) -> Option<Duration> {
        u64::try_from(self.due - now.as_second())
            .ok()
            .filter(|left| *left > 0)
            .map(Duration::from_secs)
    }
}

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
        self.unhealthy > self.nodes.div_ceil(UNHEALTHY_DIVISOR)
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
        policies: &[RepairPolicy],
        now: Instant,
    ) -> RepairScope {
        if self.counted.is_none_or(|at| now >= at + FRESH) {
            *self = UnhealthyCounts {
                counted: Some(now),
                ..UnhealthyCounts::default()
            };
            for node in nodes {
                let unhealthy = unhealthy_condition(node, policies).is_some();
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
    node: &NodeView,
    claim: &NodeClaim,
    pool: Option<&NodePool>,
    scope: RepairScope,
) -> Outcome {
    let live = proof::node(ctx, &node.name)
        .await?
        .filter(|live| live.provider_id == node.provider_id);
    let Some(live) = live else { return Ok(None) };
    let Some(unhealthy) = unhealthy_condition(&live, ctx.provider.repair_policies()) else {
        return Ok(Some(BEHIND));
    };
    match unhealthy.tolerated(ctx.now()) {
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
    unhealthy: &UnhealthyCondition,
    scope: RepairScope,
) -> Outcome {
    let what = format!("{}={}", unhealthy.condition, unhealthy.status.text());
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
        return Ok(Some(AGAIN));
    }
    let mut claim = claim.clone();
    let now = ctx.now();
    if ends(&claim).is_none_or(|ends| ends > now) {
        let fields = json!({"annotations": {TERMINATION_TIME: rfc3339(now)}});
        claim.metadata.resource_version = patch_meta(ctx, &claim, fields).await?;
    }
    let since = now.as_second() - unhealthy.due;
    let why = format!(
        "replacing unhealthy node {}: {what}; toleration expired {since} s ago",
        node.name
    );
    if delete(ctx, &claim, &why).await? {
        ctx.events.claim(&claim, true, "Unhealthy", &why).await;
        ctx.metrics.unhealthy(unhealthy.condition, &claim);
        ctx.metrics.disrupted("unhealthy", &claim);
    }
    Ok(None)
}

/// Whether a claim was given an end by a step that did not live to delete it.
pub fn is_left_over(claim: &NodeClaim) -> bool {
    claim.metadata.deletion_timestamp.is_none() && ends(claim).is_some()
}

/// Removes the termination time after the node recovered, so that a later deletion drains normally.
pub async fn take_back(ctx: &Context, claim: &NodeClaim) -> Outcome {
    patch_meta(
        ctx,
        claim,
        json!({"annotations": {TERMINATION_TIME: Value::Null}}),
    )
    .await?;
    Ok(None)
}

fn ends(claim: &NodeClaim) -> Option<Timestamp> {
    claim
        .metadata
        .annotations
        .as_ref()?
        .get(TERMINATION_TIME)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use longshore_cloud::CloudError;

    use super::*;
    use crate::live::lifecycle::tests::{Server, context, fresh};

    const TEN: Duration = Duration::from_secs(600);
    const POLICIES: [RepairPolicy; 2] = [
        RepairPolicy {
            condition: "Ready",
            status: "False",
            toleration: TEN,
        },
        RepairPolicy {
            condition: "KernelReady",
            status: "False",
            toleration: Duration::from_secs(60),
        },
    ];
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

    fn at(seconds_past_noon: i64) -> Timestamp {
        let noon: Timestamp = NOON.parse().unwrap();
        Timestamp::from_second(noon.as_second() + seconds_past_noon).unwrap()
    }

    #[test]
    fn of_several_things_that_are_wrong_the_first_one_due_counts() {
        let of = |conditions: Value| unhealthy_condition(&node("a", "web", &conditions), &POLICIES);
        assert_eq!(
            of(json!([
                stated("Ready", "True"),
                stated("DiskPressure", "False")
            ])),
            None
        );
        assert_eq!(
            of(json!([stated("Ready", "Unknown")])),
            None,
            "no policy is about that"
        );
        let both = of(json!([
            stated("Ready", "False"),
            stated("KernelReady", "False")
        ]))
        .unwrap();
        assert_eq!(both.condition, "KernelReady");
        assert_eq!(
            (both.tolerated(at(59)), both.tolerated(at(60))),
            (Some(Duration::from_secs(1)), None)
        );
        let never = json!([{"type": "Ready", "status": "False", "lastTransitionTime": "9999-12-30T00:00:00Z"}]);
        assert!(of(never).unwrap().tolerated(at(0)).is_some());
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
        let web = unhealthy_counts.of(&claim, nodes.iter(), &POLICIES, now);
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
        let all = unhealthy_counts.of(&claim, nodes.iter(), &POLICIES, now);
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
            unhealthy_counts.of(&claim, nodes.iter(), &POLICIES, now),
            all,
            "a moment later it is not counted again"
        );
        let later = unhealthy_counts.of(&claim, nodes.iter(), &POLICIES, now + FRESH);
        assert_eq!(
            later,
            RepairScope {
                nodes: 11,
                unhealthy: 0
            }
        );
    }

    async fn repaired(server: &Server, claim: &NodeClaim, scope: RepairScope) -> (Outcome, String) {
        let ctx = context(server, Err(CloudError::Other("not asked".into())));
        let sick = node("a", "web", &json!([stated("Ready", "False")]));
        let unhealthy = unhealthy_condition(&sick, &POLICIES).unwrap();
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
        assert!(server.claim().is_none());
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
        assert_eq!(outcome, Ok(Some(AGAIN)));
        assert!(
            server.claim().is_some_and(|claim| ends(&claim).is_none())
                && !metrics.contains("unhealthy_disrupted")
        );
    }

    #[tokio::test]
    async fn the_end_of_a_claim_that_nobody_lived_to_delete_is_taken_back() {
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
