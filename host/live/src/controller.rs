//! The main loop: it folds observations, reconciles the objects that they touch, and plans rounds.
//!
//! One task owns the state and is its only reader. One task at a time works on an object
//! ([`WorkQueue`]), with copies of what it needs, and its result returns as an observation. The
//! answers of this process's own writes are folded as well, so that no round forgets a NodeClaim
//! that the watch has not brought yet. While a watch is known to lag no round is made
//! ([`Freshness`]). Nothing is polled: the loop sleeps until something arrives or its next timer is
//! due.

mod apply_plan;
mod boots;
mod canaries;
mod disruption;
mod due;
mod known_canaries;
mod observed;
mod offered;
mod overlays_status;
mod purchases;
mod reconcile;
mod repairs;
mod reports;
mod rounds;
mod singles;
mod status_view;
mod take_input;
mod timers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use longshore_api::crd::{NodeClaim, Timestamp};
use longshore_core::model::Symbols;
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, channel};
use tokio::time::{Instant, sleep_until};

use crate::act::catch_panics::guarded;
use crate::act::claim_writes;
use crate::act::context::Context;
use crate::act::end::garbage;
use crate::act::last_pod_event::LastPodEvents;
use crate::act::launch::create_claims::Created;
use crate::act::launch::launch_groups;
use crate::act::launch::launch_request::launch_of;
use crate::act::recent;
use crate::act::repair::UnhealthyCounts;
use crate::act::work_queue::{Lane, WorkQueue};
use crate::decide::rollout::{Action, Nomination, Rollout};
use crate::decide::round::{Round, RoundConfig};
use crate::decide::round_timer::RoundTimer;
use crate::observe::freshness::{Freshness, OwnWrite};
use crate::observe::node_claim::{self, is_true};
use crate::observe::pod_latency::PodLatency;
use crate::observe::state::{ClusterState, WorkItem};
use crate::observe::watch::Observed;
use crate::policies::Trouble;
use crate::process::heap;
use crate::process::mutants::mutant;
use crate::process::step_error::StepOutcome;
use crate::serve::explain_requests::ExplainRequests;
use crate::serve::http::{Query, SharedBoard};
use crate::status::parts;
use due::{GarbagePasses, PoolCounts, Publishing};
use known_canaries::{Canaries, CanariesDone};
use longshore_api::kinds::ObjectKind;
use longshore_core::model::conditions::{LAUNCHED, REGISTERED};
use offered::Offered;
use purchases::Purchases;

/// What tasks report.
enum Done {
    Step(WorkItem, StepOutcome),
    Round(Box<Round>),
    RoundPanicked,
    /// Claims that were written, how many could not be, and whether some were left out because the
    /// server has other pods that wait than the state has.
    Written(Vec<Created>, usize, bool),
    Collected,
    Explained,
    /// The ConfigMap of canaries was read or written.
    Canaries(CanariesDone),
    /// A look for disruption has ended; nothing if it has panicked.
    Disruption(Option<disruption::Look>),
    /// A command of disruption has been begun, or could not be; whether something may have been bought
    /// for it.
    Begun(String, bool),
    /// Nominations were written as far as they can be.
    Nominated(Vec<Nomination>),
    /// The node of a claim was registered, and initialized with it or not.
    Registered(String, bool),
}

/// No round is made for so long where memory is given back to the system.
const TRIM_MARGIN: Duration = Duration::from_millis(50);

/// The loop's own.
struct Controller {
    ctx: Arc<Context>,
    config: Arc<RoundConfig>,
    board: SharedBoard,
    state: ClusterState,
    work: WorkQueue,
    done: Sender<Done>,
    round_timer: RoundTimer,
    planning: bool,
    /// What the watches can be trusted with.
    watches: Freshness,
    /// Why nothing may be planned now, if so.
    blocked: Option<String>,
    purchases: Purchases,
    /// How many rounds have panicked one after the other.
    panics: u32,
    rounds: u64,
    was_leader: bool,
    garbage: GarbagePasses,
    pool_counts: PoolCounts,
    /// Policies that give no answer, as they were last reported on NodePools.
    troubles: Arc<[Trouble]>,
    /// Next versions of policies, and how they take over.
    canaries: Canaries,
    /// What can be bought.
    offers: Offered,
    /// When nodes register, and which pods are nominated for them.
    rollout: Rollout,
    pod_latency: PodLatency,
    /// Nodes whose pods have changed, until their claims are updated.
    last_pod_events: LastPodEvents,
    /// How many nodes are unhealthy.
    unhealthy_counts: UnhealthyCounts,
    last_round: LastRound,
    explain_requests: ExplainRequests,
    publishing: Publishing,
    /// Whether the heap holds memory that was needed for a while only.
    trim_due: bool,
    /// What is known of disruption.
    disruption: disruption::Disruption,
    /// What CSI drivers say is watched, too.
    follows_drivers: bool,
    /// When this process began to watch, by both clocks.
    began: Instant,
    since: Timestamp,
    /// When was written down last what all nodes cost.
    last_cost: Option<Instant>,
}

/// What `status` says of the last round.
#[derive(Default)]
struct LastRound {
    plan: Option<parts::LastPlan>,
    /// NodePools without compatible instance types, with reasons, as of the last round that planned
    /// for a pod.
    incompatible_pools: BTreeMap<String, String>,
}

/// Where the loop hears from.
pub struct Heard {
    /// What the watches bring.
    pub observations: Receiver<Observed>,
    /// What this process has written.
    pub echoes: UnboundedReceiver<OwnWrite>,
    /// What others want to know.
    pub queries: Receiver<Query>,
}

/// Runs until this replica retires and nothing of it is under way any more, or the channel of
/// observations closes.
pub async fn run(
    ctx: Arc<Context>,
    how: RoundConfig,
    round_timer: RoundTimer,
    names: Symbols,
    board: SharedBoard,
    heard: Heard,
) {
    let Heard {
        mut observations,
        mut echoes,
        queries: mut asks,
    } = heard;
    let (mut control, mut reports) = Controller::new(ctx, how, round_timer, names, board);
    control.apply_config();
    let leadership = control.ctx.leadership.clone();
    loop {
        if leadership.is_retiring() && control.is_idle() {
            return;
        }
        let next = control.next(Instant::now());
        tokio::select! {
            biased;
            Some(report) = reports.recv() => control.report(report),
            observed = observations.recv() => {
                let Some(observed) = observed else { return };
                control.observe(observed);
                // Whatever else has arrived belongs to the same moment.
                for _ in 0..4096 {
                    let Ok(observed) = observations.try_recv() else { break };
                    control.observe(observed);
                }
            }
            Some(write) = echoes.recv() => control.wrote(write),
            Some(ask) = asks.recv() => control.asked(ask),
            () = sleep_until(next) => {}
            () = leadership.retires(), if !leadership.is_retiring() => {}
        }
        // No step starts from a copy older than this process's own writes.
        while let Ok(write) = echoes.try_recv() {
            control.wrote(write);
        }
        control.tick(Instant::now());
    }
}

impl Controller {
    /// A loop that knows nothing yet, and where its tasks report.
    fn new(
        ctx: Arc<Context>,
        how: RoundConfig,
        round_timer: RoundTimer,
        names: Symbols,
        board: SharedBoard,
    ) -> (Self, Receiver<Done>) {
        let (done, reports) = channel(1024);
        let now = Instant::now();
        let mut state = ClusterState::new(names);
        state.managed = Some(ctx.managed);
        let watched: Vec<ObjectKind> =
            ObjectKind::watched(how.catalogue.class_kind(), how.overlays.is_some()).collect();
        let unwatched = ObjectKind::ALL
            .iter()
            .filter(|kind| !watched.contains(kind));
        unwatched.for_each(|kind| state.lists.leave_out(*kind));
        let control = Controller {
            config: Arc::new(how),
            board,
            state,
            work: WorkQueue::new(launch_groups::slots(ctx.provider.most_in_group())),
            done,
            round_timer,
            planning: false,
            watches: Freshness::default(),
            blocked: None,
            purchases: Purchases::default(),
            panics: 0,
            rounds: 0,
            was_leader: false,
            garbage: GarbagePasses::new(now),
            pool_counts: PoolCounts::new(now),
            troubles: Arc::default(),
            canaries: Canaries::default(),
            offers: Offered::default(),
            rollout: Rollout::default(),
            pod_latency: PodLatency::default(),
            last_pod_events: LastPodEvents::default(),
            unhealthy_counts: UnhealthyCounts::default(),
            last_round: LastRound::default(),
            explain_requests: ExplainRequests::default(),
            publishing: Publishing::new(now),
            trim_due: false,
            disruption: disruption::Disruption::default(),
            follows_drivers: false,
            began: now,
            since: ctx.now(),
            last_cost: None,
            ctx,
        };
        (control, reports)
    }

    /// Whether nothing is under way that another replica would have to take up.
    fn is_idle(&self) -> bool {
        let idle = !self.planning && !self.garbage.is_running() && self.disruption.is_idle();
        idle && self.work.running() == 0
    }

    /// Records that pods were bound to a node or left.
    fn pod_event(&mut self, node: String, now: Instant) {
        if self.state.nodes.contains_key(&node) {
            self.last_pod_events
                .note(node, node_claim::rfc3339(self.ctx.now()), now);
        }
    }

    fn write_last_pod_events(&mut self, now: Instant) {
        for (node, time) in self.last_pod_events.due(now) {
            let view = self.state.nodes.get(&node);
            let claims = view
                .map(|view| self.state.claim_of(view))
                .unwrap_or_default();
            let [claim] = claims.as_slice() else { continue };
            let (ctx, claim) = (self.ctx.clone(), claim.clone());
            tokio::spawn(async move {
                if let Err(error) = claim_writes::pod_event(&ctx, &claim, &time).await {
                    tracing::debug!(%error, "writing lastPodEventTime failed; retried with the \
                        next pod event");
                }
            });
        }
    }

    /// Runs due actions.
    fn tick(&mut self, now: Instant) {
        self.ctx.pulse.beat(now);
        if !self.planning {
            // Before another round begins.
            self.take_held_look();
        }
        if self.offers.is_due(now) {
            self.follow_offers(now);
        }
        let leads = self.ctx.leadership.is_leader();
        let synced = self.state.lists.synced();
        self.sample_cost(synced, now);
        if self.publishing.is_due(now) {
            self.publish_status(synced && self.silence().is_none(), leads, now);
        }
        if self.next_answer(now).is_some_and(|at| at <= now) {
            self.answer_query(now);
        }
        self.trim_heap(now);
        let blocked = self.why_blocked(now);
        self.ctx.fresh.store(blocked.is_none(), Ordering::Relaxed);
        if self.blocked != blocked {
            self.publishing.note_change();
            self.blocked = blocked;
        }
        if !synced || !leads || self.ctx.leadership.is_retiring() {
            if self.was_leader && !leads {
                self.was_leader = false;
                self.work.stand_by();
                self.rollout.stand_by();
                self.forget_canaries();
            }
            self.follow_pods(now);
            // Another replica does them.
            drop(self.rollout.due(now));
            return;
        }
        if !self.was_leader {
            self.was_leader = true;
            self.on_elected(now);
            // What another leader wrote last is to be listed before anything is planned.
            self.blocked = self.why_blocked(now);
            self.ctx
                .fresh
                .store(self.blocked.is_none(), Ordering::Relaxed);
        }
        if self.follow_pods(now) {
            let state = &self.state;
            self.rollout.advance(|pod| state.pods.waits(pod));
        }
        let nodes = &self.state.nodes;
        let open = |node: &str| nodes.get(node).is_none_or(|node| node.is_registered());
        self.rollout.expire(now, open);
        self.carry_out(now);
        self.follow_canaries(now);
        let troubles = self.config.policies.troubles();
        if !Arc::ptr_eq(&troubles, &self.troubles) {
            self.troubles = troubles;
            self.pool_counts.note_change();
        }
        if self.pool_counts.take_due(now) {
            let names: Vec<String> = self.state.pools.keys().cloned().collect();
            names
                .into_iter()
                .for_each(|name| self.work.enqueue(WorkItem::Pool(name), Lane::Pool, now));
        }
        if self.garbage.next().is_some_and(|at| at <= now) {
            self.garbage.begin(now);
            self.collect();
        }
        self.write_last_pod_events(now);
        if self.purchases.failed.take_due(now) {
            self.round_timer.pod_arrived(now);
        }
        while let Some(what) = self.work.take(now) {
            self.start(what, now);
        }
        // What the steps have asked for.
        self.carry_out(now);
        if !self.planning && self.next_round().is_some_and(|at| at <= now) && self.blocked.is_none()
        {
            self.plan(now);
        }
        if self.blocked.is_none() && self.next_disruption().is_some_and(|at| at <= now) {
            self.look_for_disruption(now);
        }
    }

    /// Writes down once in a while what all nodes cost, if everything is known.
    fn sample_cost(&mut self, synced: bool, now: Instant) {
        let is_due = |last: Instant| now >= last + recent::SAMPLE_INTERVAL;
        if synced && self.last_cost.is_none_or(is_due) && self.silence().is_none() {
            self.last_cost = Some(now);
            let cost = self.state.cost(self.offers.current.catalogue());
            self.ctx.memory.recent.sample(self.ctx.now(), cost);
        }
    }

    /// Has NodeOverlays looked at where the cloud offers something else than before: those that
    /// were in conflict may be so no longer.
    fn follow_offers(&mut self, now: Instant) {
        self.offers.asked = Some(now);
        let changed = (self.offers.current).follow(&*self.config.catalogue, &mut self.state);
        if changed && self.config.overlays.is_some() {
            let overlays: Vec<WorkItem> = self.state.every_overlay().collect();
            overlays
                .into_iter()
                .for_each(|overlay| self.enqueue(overlay, now));
        }
    }

    /// Notes which pods wait in another way than before; a replica that stands by does so too, and
    /// acts on nothing of it. Says whether there were any.
    fn follow_pods(&mut self, now: Instant) -> bool {
        let changes = self.state.pods.waits_changed();
        for (pod, nominated) in &changes {
            match nominated {
                Some(nominated) => {
                    self.rollout.pod_waits(pod, *nominated, now);
                    self.pod_latency.waits(pod, self.ctx.now());
                }
                None => {
                    self.purchases.bought.remove(&**pod);
                    self.rollout.pod_gone(pod);
                    if !self.was_leader {
                        self.pod_latency.forget(pod);
                    }
                    if self.state.pods.contains(pod) {
                        self.round_timer.pod_bound(now);
                    }
                }
            }
        }
        !changes.is_empty()
    }

    /// Gives memory back that rounds have left, or policies that were replaced, when that holds up
    /// no round.
    fn trim_heap(&mut self, now: Instant) {
        self.trim_due |= self.config.policies.take_trim_due();
        if !self.trim_due
            || self.config.inline
            || self.planning
            || self.next_round().is_some_and(|at| at <= now + TRIM_MARGIN)
        {
            return;
        }
        self.trim_due = false;
        tokio::task::spawn_blocking(heap::trim_heap);
    }

    /// The first action of a leader: enqueue everything.
    fn on_elected(&mut self, now: Instant) {
        let claims: Vec<String> = self.state.claims.keys().cloned().collect();
        let nodes: Vec<String> = self.state.nodes.keys().cloned().collect();
        let pools: Vec<String> = self.state.pools.keys().cloned().collect();
        claims
            .into_iter()
            .for_each(|name| self.enqueue(WorkItem::Claim(name), now));
        nodes
            .into_iter()
            .for_each(|name| self.enqueue(WorkItem::Node(name), now));
        pools
            .into_iter()
            .for_each(|name| self.enqueue(WorkItem::Pool(name), now));
        let overlays: Vec<WorkItem> = self.state.every_overlay().collect();
        overlays
            .into_iter()
            .for_each(|overlay| self.enqueue(overlay, now));
        self.recall(now);
        self.round_timer.pod_arrived(now);
        // What another leader has written may not have been brought yet by the watch of a replica
        // that only stood by.
        self.purchases.proven = false;
        let since = self.ctx.leadership.since();
        for kind in [ObjectKind::NodeClaim, ObjectKind::Node] {
            if !self.watches.was_listed_since(kind, since) {
                self.relist(kind);
            }
        }
        let coming = self.state.claims.values().filter(|claim| {
            let status = claim.status.clone().unwrap_or_default();
            // One that has joined has lost its node since: it is not made anew.
            claim.metadata.deletion_timestamp.is_none()
                && is_true(&status, LAUNCHED)
                && !is_true(&status, REGISTERED)
                && self.state.nodes_of(&status.provider_id).is_empty()
        });
        let launched: Vec<_> = coming.map(|claim| launch_of(claim)).collect();
        let provider = self.ctx.provider.clone();
        tokio::spawn(async move { provider.restore_launches(launched).await });
    }

    /// Does what the rollout asks for.
    fn carry_out(&mut self, now: Instant) {
        for action in self.rollout.due(now) {
            let (ctx, done) = (self.ctx.clone(), self.done.clone());
            match action {
                Action::Step(claim) => {
                    let what = WorkItem::Claim(claim);
                    let lane = self.lane(&what);
                    self.work.enqueue(what, lane, now);
                }
                Action::Nominate(pods) => drop(tokio::spawn(async move {
                    ctx.nominate(&pods).await;
                    let _ = done.send(Done::Nominated(pods)).await;
                })),
                Action::Renominate(pods) => {
                    drop(tokio::spawn(async move { ctx.nominate(&pods).await }));
                }
                Action::Clear(pods) => drop(tokio::spawn(async move {
                    ctx.clear_nominations(pods).await;
                })),
            }
        }
    }

    /// Garbage in both directions: claims whose instance is gone, and instances whose claim is
    /// gone.
    fn collect(&mut self) {
        let state = &self.state;
        self.pod_latency.retain(|pod| state.pods.contains(pod));
        let mut claims: Vec<Arc<NodeClaim>> = self.state.claims.values().cloned().collect();
        if mutant("garbage-trusts-cache") {
            let unseen = self.unseen_claims();
            claims.retain(|claim| {
                claim
                    .metadata
                    .name
                    .as_ref()
                    .is_none_or(|name| !unseen.contains(name))
            });
        }
        let ready: BTreeSet<String> = self
            .state
            .nodes
            .values()
            .filter(|n| n.is_ready() && n.is_registered())
            .map(|n| n.provider_id.clone())
            .collect();
        let (ctx, done) = (self.ctx.clone(), self.done.clone());
        tokio::spawn(async move {
            let collected = guarded(
                &ctx.metrics,
                "garbage",
                garbage::collect(&ctx, &claims, &ready),
            )
            .await;
            if let Some(Err(error)) = collected {
                tracing::warn!(%error, "garbage collection failed; retrying in 120 s");
            }
            let _ = done.send(Done::Collected).await;
        });
    }
}

#[cfg(test)]
mod tests;
