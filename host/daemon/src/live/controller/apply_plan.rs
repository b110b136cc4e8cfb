//! Applies a plan: creates NodeClaims, nominates pods, writes Events for unplaced pods.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use longshore_core::model::ClusterObjects;
use longshore_core::plan::{Plan, PodIx, PoolIx, Refusal, Unfit, Unplaced};
use longshore_core::reasons::UselessPurchase;
use longshore_core::snapshot::{Ineligible, Snapshot};
use serde_json::json;
use tokio::time::Instant;

use super::{Controller, Done};
use crate::live::act::guard::guarded;
use crate::live::act::launch::create_claims::{self, Created};
use crate::live::decide::claims::{group_of, new_node_claims, pod_name};
use crate::live::decide::rollout::InFlightPod;
use crate::live::decide::round::Round;
use crate::live::observe::kinds::Kind;
use crate::live::observe::server_pods::{self, Asked};
use crate::live::process::lock::lock;
use crate::messages::time_of_day;
use crate::report::{self, UnplacedPod};

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
        let Round {
            snapshot,
            plan,
            nomination_plan,
            took,
        } = round;
        self.ctx.pulse.decided();
        self.remember_useless(&snapshot);
        self.ctx
            .metrics
            .scheduling
            .with_label_values(&["provisioner"])
            .observe(took.as_secs_f64());
        let plan = match plan {
            Ok(plan) => plan,
            Err(why) => {
                tracing::error!(
                    why,
                    "plan rejected by check: a defect of Longshore, please report it"
                );
                self.ctx
                    .metrics
                    .rounds
                    .with_label_values(&["rejected"])
                    .inc();
                self.planning = false;
                return;
            }
        };
        if let Some(violation) = plan.rejected_candidates.first() {
            tracing::error!(
                %violation,
                "optimised plan rejected by check, first-fit plan used: a defect of Longshore, \
                please report it"
            );
            self.ctx
                .metrics
                .rounds
                .with_label_values(&["replaced"])
                .inc();
        }
        let left_out = self.tell_left_out(&plan);
        if plan.cut_short.is_some() {
            self.ctx
                .metrics
                .rounds
                .with_label_values(&["cut_short"])
                .inc();
        }
        if plan.claims.is_empty() {
            self.ctx
                .metrics
                .rounds
                .with_label_values(&["nothing"])
                .inc();
        }
        self.ctx.metrics.unschedulable(plan.unplaced.len());
        let ignored = plan
            .unplaced
            .iter()
            .filter(|left| left.refusals.iter().any(|r| r.unfit.is_of_the_pod()));
        self.ctx.metrics.ignored(ignored.count());
        if !plan.claims.is_empty() {
            self.ctx.metrics.plan_cost.set(plan.effective_cost);
            self.ctx.metrics.plan_bound.set(plan.lower_bound);
        }
        self.note_used(&snapshot, &plan);
        self.note_decisions(&snapshot, &plan);
        self.tell_leftovers(&snapshot, &plan);
        self.tell_useless(&snapshot, &plan);
        self.tell_barren(&snapshot, &plan);
        self.hint(&snapshot, &plan);
        // Time and count name a round: no other process makes one at the same second, for only one
        // leads.
        let name = format!("{}-{}", snapshot.world.now, self.rounds);
        let mut wanted =
            new_node_claims(&snapshot, &plan, &nomination_plan, &self.state.pools, &name);
        // They were planned with a spec that nobody wants any more.
        wanted.retain(|want| self.state.pool_fault(&want.pool).is_none());
        self.last_plan = json!({
            "milliseconds": took.as_millis() as u64, "cost": plan.cost, "effective": plan.effective_cost,
            "lowerBound": plan.lower_bound, "claims": wanted.len(), "left": plan.unplaced.len(),
            "pods": snapshot.pending.len(), "cutShort": plan.cut_short.is_some(),
            "leftOut": left_out,
        });
        if !wanted.is_empty() || !plan.unplaced.is_empty() {
            tracing::info!(
                pods = snapshot.pending.len(),
                claims = wanted.len(),
                existing = plan
                    .on_existing_nodes
                    .iter()
                    .map(|e| e.pods.len())
                    .sum::<usize>(),
                left = plan.unplaced.len(),
                cost = plan.cost,
                milliseconds = took.as_millis() as u64,
                "planned"
            );
            log_places(&snapshot.world, &plan);
        }
        if wanted.is_empty() {
            self.planning = false;
            return;
        }
        // The others are on nodes that are being deleted.
        let waiting = wanted
            .iter()
            .flat_map(|want| &want.pods)
            .filter(|pod| self.state.waits(pod))
            .cloned();
        let waiting: Vec<String> = waiting.collect();
        let moving: Vec<String> = wanted
            .iter()
            .flat_map(|want| &want.pods)
            .filter(|pod| !self.state.waits(pod))
            .cloned()
            .collect();
        let bought = plan.claims.iter().flat_map(|claim| &claim.pods);
        let uids: HashMap<String, Box<str>> = bought
            .map(|&pod| {
                let uid = &snapshot.world.pods[pod.0 as usize].uid;
                (pod_name(&snapshot.world, pod), uid.clone())
            })
            .collect();
        let doubtful = self.doubtful(&waiting);
        self.unproven = false;
        let (ctx, done) = (self.ctx.clone(), self.done.clone());
        tokio::spawn(async move {
            let mut asked = Asked::default();
            if !doubtful.is_empty() {
                asked = server_pods::unbound(&ctx.client, &waiting, &doubtful).await;
            }
            // They are being evicted: a watch that is a little late shows some that have gone.
            if !moving.is_empty() {
                asked.extend(server_pods::existing(&ctx.client, &moving).await);
            }
            // The others need their nodes all the same.
            let outdated = create_claims::leave_out(&mut wanted, &asked.gone) > 0;
            let unread = create_claims::leave_out(&mut wanted, &asked.unread);
            let all = wanted.len();
            let written = guarded(
                &ctx.metrics,
                "writing",
                create_claims::write_all(&ctx, wanted),
            )
            .await;
            let (written, failed) = written.unwrap_or((Vec::new(), all));
            let failed = failed + unread;
            let planned: Vec<(String, String)> = written
                .iter()
                .flat_map(|Created { name, pods }| {
                    pods.iter().map(|pod| (pod.clone(), name.clone()))
                })
                .take(MAX_EVENTS)
                .collect();
            let _ = done.send(Done::Written(written, failed, outdated)).await;
            for (pod, claim) in planned {
                let uid = uids.get(&pod).map_or("", |uid| &**uid);
                ctx.events
                    .pod_with_uid(
                        (&pod, uid),
                        false,
                        "Nominated",
                        &format!("Pod should schedule on: nodeclaim/{claim}"),
                    )
                    .await;
            }
        });
    }

    /// Of these pods those to list before claims are created for them: nodes were bought for them
    /// before. All, where the watch of pods has been silent, or another leader may have bought for them.
    fn doubtful(&self, waiting: &[String]) -> Vec<String> {
        let unsure = self.unproven || !self.watches.is_recent(Kind::Pod, Instant::now());
        let again = |pod: &&String| unsure || self.bought.contains(*pod);
        waiting.iter().filter(again).cloned().collect()
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
    fn tell_left_out(&self, plan: &Plan) -> usize {
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
    /// on, and `status`. The words are of `messages.rs`.
    fn tell_leftovers(&self, snapshot: &Snapshot, plan: &Plan) {
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
            let UnplacedPod { message, .. } = report::unplaced_pod(snapshot, unplaced);
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
    fn tell_useless(&self, snapshot: &Snapshot, plan: &Plan) {
        let shown = snapshot.useless.found.iter().flat_map(|found| {
            let pods = found.pods.iter();
            pods.map(move |&pod| (pod, &*found.entry.claim, found.entry.until))
        });
        let unplaced = plan.unplaced.iter().filter_map(|unplaced| {
            let useless = useless_purchase(unplaced)?;
            Some((unplaced.pod, &*useless.claim, useless.until))
        });
        let mut told: BTreeMap<String, (Box<str>, String)> = BTreeMap::new();
        let now = snapshot.world.now;
        let is_over = |until: i64| until <= now;
        for (pod, claim, until) in shown.chain(unplaced).filter(|of| !is_over(of.2)) {
            let uid = snapshot.world.pods[pod.0 as usize].uid.clone();
            let pod = pod_name(&snapshot.world, pod);
            let words = match self.state.words_of_scheduler(&pod) {
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
            told.insert(pod, (uid, message));
        }
        if told.is_empty() {
            return;
        }
        let ctx = self.ctx.clone();
        tokio::spawn(async move {
            for (pod, (uid, message)) in told.into_iter().take(MAX_EVENTS) {
                let reason = "PurchaseDidNotHelp";
                ctx.events
                    .pod_with_uid((&pod, &uid), true, reason, &message)
                    .await;
            }
        });
    }

    /// Says which NodePools nothing can be bought for: in the log when that changes, in Events as
    /// long as it is so.
    fn tell_barren(&mut self, snapshot: &Snapshot, plan: &Plan) {
        if snapshot.pending.is_empty() {
            return;
        }
        let mut found = report::all_incompatible_pools(snapshot, plan);
        // Those of other providers are nobody's fault.
        found.retain(|pool, _| self.state.pools.contains_key(pool));
        for (pool, why) in found
            .iter()
            .filter(|(pool, why)| self.incompatible_pools.get(*pool) != Some(why))
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
        self.incompatible_pools = found;
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
                pods.retain(|(pod, _)| !self.state.is_unattempted(pod));
                on_nodes.push((name, pods));
            } else if self.state.claims.contains_key(name) {
                let decided = self.ctx.now().as_second();
                pods.iter()
                    .for_each(|(pod, _)| self.plans.plan(pod, name, decided));
                on_claims.push((name, pods));
            }
        }
        self.rollout.planned(planned, &on_nodes, on_claims);
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
