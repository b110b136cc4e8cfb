//! Applies a plan: creates NodeClaims, nominates pods, writes Events for unplaced pods.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use longshore_core::model::ClusterObjects;
use longshore_core::plan::{Plan, PodIx, PoolIx, Refusal, Unfit, Unplaced};
use longshore_core::reasons::UselessPurchase;
use longshore_core::snapshot::{Ineligible, Snapshot};
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;

use super::{Controller, Done};
use crate::act::catch_panics::guarded;
use crate::act::context::Context;
use crate::act::launch::create_claims::{self, Created};
use crate::act::launch::outcomes::CANARIES;
use crate::decide::claims::{NewNodeClaim, group_of, new_node_claims, pod_name};
use crate::decide::rollout::InFlightPod;
use crate::decide::round::Round;
use crate::observe::server_pods::{self, Asked};
use crate::process::lock::lock;
use crate::status::parts::LastPlan;
use longshore_api::kinds::ObjectKind;
use longshore_report::decision::{self, UnplacedPod};
use longshore_report::messages::time_of_day;

/// Why no node is bought for a pod for now, if that is because one did not help.
fn useless_purchase(unplaced: &Unplaced) -> Option<&UselessPurchase> {
    unplaced
        .refusals
        .iter()
        .find_map(|refusal| match &refusal.unfit {
            Unfit::UselessPurchase(useless) if useless.times > 0 && !useless.after_another => {
                Some(useless)
            }
            _ => None,
        })
}

/// Most pods of a round that get an Event saying where they should go, and most that get one saying
/// why they wait. The others get theirs in the next rounds.
const MAX_EVENTS: usize = 200;

/// Most violations of a round that are logged.
const MAX_LOGGED_VIOLATIONS: usize = 10;

/// Whether a pod was left out because plans with it break a rule.
fn is_left_out(unplaced: &Unplaced) -> bool {
    let breaks = |refusal: &Refusal| matches!(refusal.unfit, Unfit::BreaksPlan { .. });
    unplaced.refusals.iter().any(breaks)
}

impl Controller {
    /// Carries out a plan: creates NodeClaims, nominates pods, and writes Events for unplaced pods.
    pub(super) fn apply_plan(&mut self, round: Round) {
        self.panics = 0;
        self.ctx.pulse.decided();
        self.remember_useless(&round.snapshot);
        let took = round.took.as_secs_f64();
        let scheduling = &self.ctx.metrics.scheduling;
        scheduling.with_label_values(&["provisioner"]).observe(took);
        let wanted = self.take_plan(&round);
        if wanted.is_empty() {
            self.planning = false;
            return;
        }
        self.create_claims(&round, wanted);
    }

    /// Says and notes what a plan has, and returns its NodeClaims; none of a plan that was rejected.
    fn take_plan(&mut self, round: &Round) -> Vec<NewNodeClaim> {
        let Some(plan) = self.accepted(round) else {
            return Vec::new();
        };
        let snapshot = &round.snapshot;
        let left_out = self.report_left_out(plan);
        self.count(plan);
        self.note_used(snapshot, plan);
        self.note_decisions(snapshot, plan);
        self.report_leftovers(snapshot, plan);
        self.report_useless(snapshot, plan);
        self.report_barren(snapshot, plan);
        self.hint(snapshot, plan);
        let wanted = self.new_claims(round, plan);
        self.note_plan(round, plan, wanted.len(), left_out);
        wanted
    }

    /// The plan of a round, unless it was rejected.
    fn accepted<'a>(&self, round: &'a Round) -> Option<&'a Plan> {
        let plan = match &round.plan {
            Ok(plan) => plan,
            Err(why) => {
                tracing::error!(
                    why,
                    "plan rejected by check: a defect of Longshore, please report it"
                );
                self.count_round("rejected");
                return None;
            }
        };
        if let Some(violation) = plan.rejected_candidates.first() {
            tracing::error!(
                %violation,
                "optimised plan rejected by check, first-fit plan used: a defect of Longshore, \
                please report it"
            );
            self.count_round("replaced");
        }
        Some(plan)
    }

    fn count_round(&self, outcome: &str) {
        let rounds = &self.ctx.metrics.rounds;
        rounds.with_label_values(&[outcome]).inc();
    }

    /// Counts what a plan has.
    fn count(&self, plan: &Plan) {
        let metrics = &self.ctx.metrics;
        if plan.cut_short.is_some() {
            self.count_round("cut_short");
        }
        metrics.unschedulable(plan.unplaced.len());
        let is_ignored = |left: &&Unplaced| left.refusals.iter().any(|r| r.unfit.is_of_the_pod());
        metrics.ignored(plan.unplaced.iter().filter(is_ignored).count());
        if plan.claims.is_empty() {
            self.count_round("nothing");
        } else {
            metrics.plan_cost.set(plan.effective_cost);
            metrics.plan_bound.set(plan.lower_bound);
        }
    }

    /// The NodeClaims of a plan, without those whose NodePool has another spec by now.
    fn new_claims(&self, round: &Round, plan: &Plan) -> Vec<NewNodeClaim> {
        let snapshot = &round.snapshot;
        // Time and count name a round: no other process makes one at the same second, for only one
        // leads.
        let name = format!("{}-{}", snapshot.world.now, self.rounds);
        let pools = &self.state.pools;
        let mut wanted = new_node_claims(snapshot, plan, &round.nomination_plan, pools, &name);
        wanted.retain(|want| self.state.pool_fault(&want.pool).is_none());
        for want in &mut wanted {
            if let Some(mark) = round.canary_marks.get(&want.pool) {
                want.object["metadata"]["annotations"][CANARIES] = mark.as_str().into();
            }
        }
        wanted
    }

    /// Notes a plan for the status, and logs it.
    fn note_plan(&mut self, round: &Round, plan: &Plan, claims: usize, left_out: usize) {
        let milliseconds = round.took.as_millis() as u64;
        let pods = round.snapshot.pending.len();
        self.last_round.plan = Some(LastPlan {
            milliseconds,
            cost: plan.cost,
            effective: plan.effective_cost,
            lower_bound: plan.lower_bound,
            claims,
            failed: None,
            pods,
            left: plan.unplaced.len(),
            cut_short: plan.cut_short.is_some(),
            left_out,
        });
        if claims == 0 && plan.unplaced.is_empty() {
            return;
        }
        let existing = plan.on_existing_nodes.iter().map(|e| e.pods.len());
        tracing::info!(
            pods,
            claims,
            existing = existing.sum::<usize>(),
            left = plan.unplaced.len(),
            cost = plan.cost,
            milliseconds,
            "planned"
        );
        log_places(&round.snapshot.world, plan);
    }

    /// Has the NodeClaims of a round created by a task that reports.
    fn create_claims(&mut self, round: &Round, wanted: Vec<NewNodeClaim>) {
        let pods = wanted.iter().flat_map(|want| want.pods.iter().cloned());
        let (waiting, moving): (Vec<String>, Vec<String>) =
            pods.partition(|pod| self.state.pods.waits(pod));
        let recent = self.watches.is_recent(ObjectKind::Pod, Instant::now());
        let purchase = Purchase {
            doubtful: self.purchases.doubtful(&waiting, recent),
            waiting,
            moving,
            uids: uids_of(round),
            wanted,
        };
        self.purchases.proven = true;
        let (ctx, done) = (self.ctx.clone(), self.done.clone());
        tokio::spawn(purchase.carry_out(ctx, done));
    }

    /// Notes what a look for disruption did not know of that began before this plan.
    fn note_used(&mut self, snapshot: &Snapshot, plan: &Plan) {
        let names = &snapshot.world.names;
        let nodes = plan.on_existing_nodes.iter().map(|placement| {
            let symbol = snapshot.nodes[placement.node.0 as usize].name;
            names.text(symbol).to_owned()
        });
        let pools = plan.claims.iter().map(|claim| {
            let symbol = snapshot.world.pools[claim.pool.0 as usize].name;
            names.text(symbol).to_owned()
        });
        self.disruption.round_used(nodes, pools);
    }

    /// Notes when pods were decided about.
    fn note_decisions(&mut self, snapshot: &Snapshot, plan: &Plan) {
        let now = self.ctx.now();
        let left: BTreeSet<PodIx> = plan.unplaced.iter().map(|left| left.pod).collect();
        for pending in &snapshot.pending {
            let pod = pod_name(&snapshot.world, pending.pod);
            if let Some(seconds) = self
                .pod_latency
                .decided(&pod, !left.contains(&pending.pod), now)
            {
                self.ctx.metrics.decided(seconds);
            }
        }
    }

    /// Says which rules plans broke until the pods in question were left out. Returns how many pods
    /// that are.
    fn report_left_out(&self, plan: &Plan) -> usize {
        for violation in plan.left_out.iter().take(MAX_LOGGED_VIOLATIONS) {
            tracing::error!(
                %violation,
                "plan rejected by check, its pods left out: a defect of Longshore, please report it"
            );
        }
        let pods = plan
            .unplaced
            .iter()
            .filter(|left| is_left_out(left))
            .count();
        if pods > 0 {
            let outcome = &["left_out"];
            self.ctx.metrics.rounds.with_label_values(outcome).inc();
            self.ctx.metrics.left_out.inc_by(pods as u64);
        }
        pods
    }

    /// Says why pods got no node: Event FailedScheduling on each pod that kube-scheduler has given up
    /// on, and `status`. The sentence is `unplaced_pod` of
    /// `report/src/decision.rs`, its reasons are of `report/src/messages.rs`.
    fn report_leftovers(&self, snapshot: &Snapshot, plan: &Plan) {
        let mut waiting = BTreeMap::new();
        let mut events = Vec::new();
        // For the others kube-scheduler writes the first Event.
        let given_up = |pod: PodIx| !snapshot.world.pods[pod.0 as usize].unattempted;
        for unplaced in plan
            .unplaced
            .iter()
            .filter(|unplaced| given_up(unplaced.pod) || is_left_out(unplaced))
        {
            let pod = pod_name(&snapshot.world, unplaced.pod);
            let UnplacedPod { message, .. } = decision::unplaced_pod(snapshot, unplaced);
            let uid = &snapshot.world.pods[unplaced.pod.0 as usize].uid;
            let words = format!("Failed to schedule pod, {message}");
            if events.len() < MAX_EVENTS
                && useless_purchase(unplaced).is_none()
                && self
                    .ctx
                    .events
                    .is_due((&pod, uid), "FailedScheduling", &words)
            {
                events.push((pod.clone(), uid.clone(), words));
            }
            waiting.insert(pod, message);
        }
        let ctx = self.ctx.clone();
        lock(&self.board).waiting = waiting;
        if events.is_empty() {
            return;
        }
        tokio::spawn(async move {
            for (pod, uid, words) in events {
                ctx.events
                    .pod_with_uid((&pod, &uid), true, "FailedScheduling", &words)
                    .await;
            }
        });
    }

    /// Says of pods that a node was bought for them in vain, with kube-scheduler's own words.
    fn report_useless(&self, snapshot: &Snapshot, plan: &Plan) {
        let shown = snapshot.useless.found.iter().flat_map(|found| {
            let pods = found.pods.iter();
            pods.map(move |&pod| (pod, &*found.entry.claim, found.entry.until))
        });
        let unplaced = plan.unplaced.iter().filter_map(|unplaced| {
            let useless = useless_purchase(unplaced)?;
            Some((unplaced.pod, &*useless.claim, useless.until))
        });
        let mut messages: BTreeMap<String, (Box<str>, String)> = BTreeMap::new();
        let now = snapshot.world.now;
        let is_over = |until: i64| until <= now;
        for (pod, claim, until) in shown.chain(unplaced).filter(|of| !is_over(of.2)) {
            let uid = snapshot.world.pods[pod.0 as usize].uid.clone();
            let pod = pod_name(&snapshot.world, pod);
            let words = match self.state.pods.words_of_scheduler(&pod) {
                "" => String::new(),
                words => format!(": {}", words.trim_end_matches('.')),
            };
            let message = format!(
                "The node of NodeClaim {claim} was bought for the pod and did not help: \
                kube-scheduler refuses the pod all the same{words}. No other node is bought for \
                such pods before {} UTC, unless the pod, its volumes, a NodePool or a node class \
                change",
                time_of_day(until)
            );
            messages.insert(pod, (uid, message));
        }
        if messages.is_empty() {
            return;
        }
        let ctx = self.ctx.clone();
        tokio::spawn(async move {
            for (pod, (uid, message)) in messages.into_iter().take(MAX_EVENTS) {
                let reason = "PurchaseDidNotHelp";
                ctx.events
                    .pod_with_uid((&pod, &uid), true, reason, &message)
                    .await;
            }
        });
    }

    /// Says which NodePools nothing can be bought for: in the log when that changes, in Events as
    /// long as it is so.
    fn report_barren(&mut self, snapshot: &Snapshot, plan: &Plan) {
        if snapshot.pending.is_empty() {
            return;
        }
        let mut found = decision::all_incompatible_pools(snapshot, plan);
        // Those of other providers are nobody's fault.
        found.retain(|pool, _| self.state.pools.contains_key(pool));
        for (pool, why) in found
            .iter()
            .filter(|(pool, why)| self.last_round.incompatible_pools.get(*pool) != Some(why))
        {
            tracing::warn!(
                nodepool = pool,
                why,
                "no compatible instance type for NodePool"
            );
        }
        let name = |pool: PoolIx| {
            snapshot
                .world
                .names
                .text(snapshot.world.pools[pool.0 as usize].name)
        };
        let spoiled = snapshot
            .ineligible_pools
            .iter()
            .filter_map(|(pool, why)| match why {
                Ineligible::ForeignTaints(_) => Some((*pool, "NodesTaintedByOthers")),
                Ineligible::NeverJoined(_) => Some((*pool, "NodesNeverJoined")),
                _ => None,
            });
        let spoiled = spoiled.map(|(pool, reason)| (name(pool), reason, ""));
        let filtered = "NodePool requirements filtered out all instance types: ";
        let incompatible = plan.incompatible_pools.iter().map(|incompatible| {
            (
                name(incompatible.pool),
                "NoCompatibleInstanceTypes",
                filtered,
            )
        });
        for (name, reason, words) in spoiled.chain(incompatible) {
            let Some((pool, why)) = self.state.pools.get(name).cloned().zip(found.get(name)) else {
                continue;
            };
            let (ctx, message) = (self.ctx.clone(), format!("{words}{why}"));
            tokio::spawn(async move { ctx.events.pool(&pool, true, reason, &message).await });
        }
        self.last_round.incompatible_pools = found;
    }

    /// Nominates pods that are planned for existing nodes, remembers those of new nodes, and clears
    /// earlier nominations of both.
    fn hint(&mut self, snapshot: &Snapshot, plan: &Plan) {
        let world = &snapshot.world;
        let bought = plan.claims.iter().flat_map(|claim| &claim.pods);
        let planned = bought.chain(
            plan.on_existing_nodes
                .iter()
                .flat_map(|placement| &placement.pods),
        );
        let planned = planned.map(|&pod| pod_name(world, pod));
        let (mut on_nodes, mut on_claims) = (Vec::new(), Vec::new());
        for placement in &plan.on_existing_nodes {
            let name = world
                .names
                .text(snapshot.nodes[placement.node.0 as usize].name);
            let mut pods: Vec<InFlightPod> = placement
                .pods
                .iter()
                .map(|&pod| (pod_name(world, pod), group_of(world, pod)))
                .collect();
            if self
                .state
                .nodes
                .get(name)
                .is_some_and(|node| node.is_registered())
            {
                // kube-scheduler will bind those that it has not tried yet by itself.
                pods.retain(|(pod, _)| !self.state.pods.is_unattempted(pod));
                on_nodes.push((name, pods));
            } else if self.state.claims.contains_key(name) {
                let decided = self.ctx.now().as_second();
                pods.iter()
                    .for_each(|(pod, _)| self.purchases.plans.plan(pod, name, decided));
                on_claims.push((name, pods));
            }
        }
        self.rollout.planned(planned, &on_nodes, on_claims);
    }
}

/// The UIDs of the pods that a round's NodeClaims are for, by `namespace/name`.
fn uids_of(round: &Round) -> HashMap<String, Box<str>> {
    let world = &round.snapshot.world;
    let claims = round.plan.iter().flat_map(|plan| &plan.claims);
    claims
        .flat_map(|claim| &claim.pods)
        .map(|&pod| (pod_name(world, pod), world.pods[pod.0 as usize].uid.clone()))
        .collect()
}

/// NodeClaims to create, and what is to be known of their pods; pods are `namespace/name`.
struct Purchase {
    wanted: Vec<NewNodeClaim>,
    waiting: Vec<String>,
    /// Those on nodes that are being deleted.
    moving: Vec<String>,
    /// Of those that wait, the ones to list before anything is created for them.
    doubtful: Vec<String>,
    uids: HashMap<String, Box<str>>,
}

impl Purchase {
    /// Creates the NodeClaims whose pods still need them, and reports that. Then says so in Events.
    async fn carry_out(mut self, ctx: Arc<Context>, done: Sender<Done>) {
        let asked = self.ask(&ctx).await;
        // The others need their nodes all the same.
        let outdated = create_claims::leave_out(&mut self.wanted, &asked.gone) > 0;
        let unread = create_claims::leave_out(&mut self.wanted, &asked.unread);
        let all = self.wanted.len();
        let writes = create_claims::write_all(&ctx, self.wanted);
        let written = guarded(&ctx.metrics, "writing", writes).await;
        let (written, failed) = written.unwrap_or((Vec::new(), all));
        let nominated = written
            .iter()
            .flat_map(|Created { name, pods }| pods.iter().map(|pod| (pod.clone(), name.clone())));
        let nominated: Vec<(String, String)> = nominated.take(MAX_EVENTS).collect();
        let report = Done::Written(written, failed + unread, outdated);
        let _ = done.send(report).await;
        for (pod, claim) in nominated {
            let uid = self.uids.get(&pod).map_or("", |uid| &**uid);
            let message = format!("Pod should schedule on: nodeclaim/{claim}");
            ctx.events
                .pod_with_uid((&pod, uid), false, "Nominated", &message)
                .await;
        }
    }

    /// Asks the server for pods that the state may be wrong about.
    async fn ask(&self, ctx: &Context) -> Asked {
        let mut asked = Asked::default();
        if !self.doubtful.is_empty() {
            asked = server_pods::unbound(&ctx.client, &self.waiting, &self.doubtful).await;
        }
        // They are being evicted: a watch that is a little late shows some that have gone.
        if !self.moving.is_empty() {
            asked.extend(server_pods::existing(&ctx.client, &self.moving).await);
        }
        asked
    }
}

/// Where each pod of a plan goes, in the log of a developer.
fn log_places(world: &ClusterObjects, plan: &Plan) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let names =
        |pods: &[PodIx]| -> Vec<String> { pods.iter().map(|&pod| pod_name(world, pod)).collect() };
    for of in &plan.on_existing_nodes {
        tracing::debug!(on = ?of.node, pods = ?names(&of.pods), "planned on what is there");
    }
    for claim in &plan.claims {
        tracing::debug!(pods = ?names(&claim.pods), "planned on a new NodeClaim");
    }
}
