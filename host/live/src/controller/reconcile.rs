//! Which objects are reconciled, and with what.

use std::collections::BTreeMap;
use std::sync::Arc;

use longshore_api::crd::{NodeClaim, NodePool};
use longshore_core::disrupt::static_capacity::Scale;
use longshore_core::snapshot::Snapshot;
use tokio::time::Instant;

use super::{Controller, Done};
use crate::act::catch_panics::guarded;
use crate::act::claim_conditions::{Surroundings, is_listed};
use crate::act::end::termination;
use crate::act::launch::{lifecycle, static_pools, useless_purchase_writes};
use crate::act::repair::{Repairs, reboot};
use crate::act::work_queue::Lane;
use crate::act::{overlay_status, pools, repair};
use crate::decide::claims::class_label;
use crate::decide::rollout::Turn;
use crate::observe::node::NodeView;
use crate::observe::node_claim;
use crate::observe::node_claim::is_true;
use crate::observe::planned_pods::{Planned, planned_pods};
use crate::observe::state::{Class, WorkItem};
use crate::policies::trouble_of;
use crate::process::step_error::{StepError, StepOutcome};
use longshore_core::model::conditions::REGISTERED;

pub(super) type Work = futures::future::BoxFuture<'static, StepOutcome>;

impl Controller {
    /// Enqueues an object. A standby replica reconciles nothing and keeps no queue: a
    /// new leader reconciles everything.
    pub(super) fn enqueue(&mut self, what: WorkItem, now: Instant) {
        match &what {
            WorkItem::Claim(name) => {
                self.pool_counts.note_change();
                self.follow_command(name, now);
                let claim = self.state.claims.get(name).cloned();
                let id = claim.as_deref().map_or("", node_claim::provider_id);
                let joined = !id.is_empty() && self.state.node_name_of(id).is_some();
                self.rollout.claim(name, claim.as_deref(), joined, now);
                match &claim {
                    Some(claim) if claim.metadata.deletion_timestamp.is_none() => {
                        if !self.purchases.plans.knows(name) {
                            let created = claim
                                .metadata
                                .creation_timestamp
                                .as_ref()
                                .map_or(0, |t| t.0.as_second());
                            planned_pods(claim).for_each(|planned| {
                                self.purchases.plans.plan(planned.pod, name, created)
                            });
                        }
                    }
                    _ => self.purchases.plans.forget(name),
                }
            }
            WorkItem::Node(name) => {
                self.pool_counts.note_change();
                if !self.state.nodes.contains_key(name) {
                    self.last_pod_events.forget(name);
                    self.ctx.memory.end.drains.end(name);
                }
            }
            _ => {}
        }
        let lane = self.lane(&what);
        self.work(what, lane, now);
    }

    pub(super) fn work(&mut self, what: WorkItem, lane: Lane, now: Instant) {
        if self.was_leader {
            self.work.enqueue(what, lane, now);
        }
    }

    /// What kind of work there is on an object.
    pub(super) fn lane(&self, what: &WorkItem) -> Lane {
        match what {
            WorkItem::Claim(name) => match self.state.claims.get(name) {
                Some(claim) if claim.metadata.deletion_timestamp.is_some() => Lane::End,
                Some(claim) if reboot::phase::is_under_way(claim) => Lane::Drain,
                Some(claim) if !node_claim::provider_id(claim).is_empty() => Lane::Register,
                _ => Lane::Launch,
            },
            WorkItem::Pool(_) | WorkItem::Overlay(_) => Lane::Pool,
            WorkItem::Command(_) => Lane::Disruption,
            _ => Lane::Drain,
        }
    }

    pub(super) fn start(&mut self, what: WorkItem, now: Instant) {
        let work = match &what {
            WorkItem::Claim(name) => self.work_on_claim(name, now),
            WorkItem::Node(name) => self.work_on_node(name, now),
            WorkItem::Pool(name) => self.work_on_pool(name),
            WorkItem::Overlay(name) => self.work_on_overlay(name),
            WorkItem::Command(id) => self.work_on_command(id),
            WorkItem::Pending | WorkItem::PodEvent(_) => None,
        };
        let Some(work) = work else {
            self.work.forget(&what);
            return;
        };
        let done = self.done.clone();
        let metrics = self.ctx.metrics.clone();
        tokio::spawn(async move {
            // Whatever becomes of it, its slot is given back.
            let outcome = guarded(&metrics, "step", work).await;
            let outcome =
                outcome.unwrap_or_else(|| Err(StepError::Other("it has panicked".to_owned())));
            let _ = done.send(Done::Step(what, outcome)).await;
        });
    }

    fn work_on_claim(&mut self, name: &str, now: Instant) -> Option<Work> {
        let claim = self.state.claims.get(name)?.clone();
        let status = claim.status.clone().unwrap_or_default();
        let nodes = match status.provider_id.as_str() {
            "" => Vec::new(),
            id => self.state.nodes_of(id),
        };
        let mut turn = Turn::Wait(None);
        if is_true(&status, REGISTERED) {
            if self.rollout.registered(name, &claim, now) {
                self.round_timer.node_registered(now);
            }
            // A kubelet has registered again, after its Node was removed by force.
            if let [node] = nodes.as_slice()
                && claim.metadata.deletion_timestamp.is_none()
                && lifecycle::joins_again(self.ctx.now(), &status, node)
            {
                let (ctx, node) = (self.ctx.clone(), node.clone());
                return Some(Box::pin(async move {
                    lifecycle::register(&ctx, &claim, &node).await?;
                    Ok(None)
                }));
            }
        } else if let [node] = nodes.as_slice()
            && claim.metadata.deletion_timestamp.is_none()
        {
            let (state, plans) = (&self.state, &self.purchases.plans);
            let is_expected = |planned: &Planned<'_>| {
                state.pods.waits(planned.pod)
                    && plans.owner(planned.pod).is_none_or(|owner| owner == name)
            };
            let young = lifecycle::may_wait(self.ctx.now(), node);
            turn = self
                .rollout
                .turn(name, &claim, node, is_expected, young, now);
        } else {
            self.rollout.without_node(name);
        }
        let ctx = self.ctx.clone();
        if turn == Turn::Register {
            let (node, done, name) = (
                nodes.into_iter().next()?,
                self.done.clone(),
                name.to_owned(),
            );
            return Some(Box::pin(async move {
                let ready = lifecycle::register(&ctx, &claim, &node).await?;
                let _ = done.send(Done::Registered(name, ready)).await;
                Ok(None)
            }));
        }
        let around = self.surroundings(&claim);
        Some(Box::pin(async move {
            lifecycle::step(&ctx, &claim, &nodes, &around, turn).await
        }))
    }

    /// What the conditions of a claim follow from.
    fn surroundings(&self, claim: &NodeClaim) -> Surroundings {
        let labels = claim.metadata.labels.as_ref();
        let pool = self.state.pools.get(node_claim::pool_of(claim)).cloned();
        let listed = labels.zip(pool.as_ref()).and_then(|(labels, pool)| {
            let (class, _) = class_label(&pool.spec.template.spec.node_class_ref);
            let names = self.state.names();
            is_listed(labels, &class, self.offers.current.catalogue(), names)
        });
        Surroundings { pool, listed }
    }

    fn work_on_node(&mut self, name: &str, now: Instant) -> Option<Work> {
        let node = self.state.nodes.get(name).cloned();
        let node = node.filter(|node| self.state.manages(node));
        let Some(node) = node.filter(|node| node.deletion.is_some()) else {
            let node = self.state.nodes.get(name).cloned();
            let claims = node.as_ref().map(|node| self.state.claim_of(node));
            let mut claims = claims.iter().flatten();
            if !claims.any(|claim| reboot::phase::drains(claim)) {
                self.ctx.memory.end.drains.end(name);
            }
            return self.repair_node(&node?, now);
        };
        let claims = self.state.claim_of(&node);
        let mut others = match node.provider_id.as_str() {
            "" => Vec::new(),
            id => self.state.nodes_of(id),
        };
        others.retain(|other| other.name != node.name);
        let ctx = self.ctx.clone();
        Some(Box::pin(async move {
            termination::step(&ctx, &node, &claims, &others).await
        }))
    }

    /// Work on a node that is not being deleted. Where nodes are repaired at once, it is replaced if
    /// it is unhealthy for too long. Within budgets, a look for disruption finds it.
    fn repair_node(&mut self, node: &Arc<NodeView>, now: Instant) -> Option<Work> {
        let repairs = self.ctx.repairs.clone();
        let (ctx, node) = (self.ctx.clone(), node.clone());
        let [claim] = &self.state.claim_of(&node)[..] else {
            return None;
        };
        let claim = claim.clone();
        if claim.metadata.deletion_timestamp.is_some() || !node.is_registered() {
            return None;
        }
        let policies = match repairs {
            Repairs::Off => return None,
            Repairs::AtOnce(policies) => Some(policies),
            Repairs::WithinBudgets(_) => None,
        };
        let unhealthy = policies.as_ref().and_then(|known| known.at_once(&node));
        let Some((policies, unhealthy)) = policies.zip(unhealthy) else {
            let left_over = repair::is_left_over(&claim) && !reboot::phase::is_under_way(&claim);
            return left_over.then(|| -> Work {
                Box::pin(async move { repair::take_back(&ctx, &claim).await })
            });
        };
        if let Some(left) = unhealthy.tolerated(ctx.now().as_second()) {
            return Some(Box::pin(async move { Ok(Some(left)) }));
        }
        let state = &self.state;
        let nodes = state.nodes.values().filter(|node| state.manages(node));
        let scope = self.unhealthy_counts.of(&claim, nodes, &policies, now);
        let pool = self.state.pools.get(node_claim::pool_of(&claim)).cloned();
        Some(Box::pin(async move {
            repair::look_and_step(&ctx, &policies, &node, &claim, pool.as_deref(), scope).await
        }))
    }

    /// Has NodePools remember which purchases did not help, as a round or a look has found.
    pub(super) fn remember_useless(&mut self, snapshot: &Snapshot) {
        let now = Instant::now();
        for (pool, purchases) in self.purchases.to_remember.note(snapshot) {
            if purchases > 0 {
                self.ctx.metrics.useless_purchases(&pool, purchases);
                tracing::warn!(
                    nodepool = pool,
                    purchases,
                    "nodes were bought that did not help: kube-scheduler refuses the pods that \
                    they were bought for"
                );
            }
            self.enqueue(WorkItem::Pool(pool), now);
        }
    }

    fn work_on_pool(&mut self, name: &str) -> Option<Work> {
        let Some(pool) = self.state.pools.get(name).cloned() else {
            self.ctx
                .metrics
                .pool(name, &BTreeMap::new(), &BTreeMap::new());
            return None;
        };
        let class = self.class_of(&pool);
        let own = |labels: Option<&BTreeMap<String, String>>| {
            labels
                .and_then(|l| l.get("karpenter.sh/nodepool"))
                .is_some_and(|of| of == name)
        };
        let claims: Vec<_> = self
            .state
            .claims
            .values()
            .filter(|c| own(c.metadata.labels.as_ref()))
            .cloned()
            .collect();
        let nodes: Vec<_> = self
            .state
            .nodes
            .values()
            .filter(|n| own(Some(&n.labels)) && self.state.manages(n))
            .cloned()
            .collect();
        let order = match static_pools::due(&pool, claims.iter().map(|claim| &**claim)) {
            Some(Scale::Down(_)) => self.state.removal_order(name, self.ctx.now().as_second()),
            _ => Vec::new(),
        };
        let begins = self.disruption.is_beginning();
        let fault = self.state.pool_fault(name).map(str::to_owned);
        let useless = self.purchases.to_remember.take(&pool);
        let given = self.state.given_of(name);
        let policies = trouble_of(&self.troubles, name);
        let ctx = self.ctx.clone();
        Some(Box::pin(async move {
            let is_read = fault.is_none();
            useless_purchase_writes::step(&ctx, &pool, useless, given).await?;
            let observed = pools::Observed {
                pool: &pool,
                fault,
                policies,
                class,
                claims: &claims,
                nodes: &nodes,
            };
            let pool_due = pools::step(&ctx, observed).await?;
            if !is_read {
                return Ok(pool_due);
            }
            let replicas_due =
                static_pools::step(&ctx, &pool, &claims, &order, begins, given).await?;
            Ok([pool_due, replicas_due].into_iter().flatten().min())
        }))
    }

    fn work_on_overlay(&self, name: &str) -> Option<Work> {
        let known = self.config.overlays.clone()?;
        let overlay = self.state.overlays.get(name)?.clone();
        let set = self.state.overlays.clone();
        let (pools, names) = (self.state.pool_records(), self.state.names().clone());
        let offers = self.offers.current.catalogue().clone();
        let (ctx, name, inline) = (self.ctx.clone(), name.to_owned(), self.config.inline);
        Some(Box::pin(async move {
            let apply = move || {
                let mut names = names;
                known.apply(&offers, &set, &pools, &mut names)
            };
            let applied = match inline {
                true => apply(),
                false => tokio::task::spawn_blocking(apply)
                    .await
                    .map_err(StepError::other)?,
            };
            match applied.verdicts.get(&name) {
                Some(verdict) => overlay_status::step(&ctx, &overlay, verdict).await,
                None => Ok(None),
            }
        }))
    }

    fn class_of(&self, pool: &NodePool) -> (Class, Option<i64>) {
        let class = &pool.spec.template.spec.node_class_ref;
        (
            self.state.class(&class.kind, &class.name),
            self.state.class_generation(&class.kind, &class.name),
        )
    }
}
