//! The main loop: it folds observations, reconciles the objects that they touch, and plans rounds.
//!
//! One task owns the state and is its only reader. One task at a time works on an object
//! ([`WorkQueue`]), with copies of what it needs, and its result returns as an observation. The
//! answers of this process's own writes are folded as well, so that no round forgets a NodeClaim
//! that the watch has not brought yet. While a watch is known to lag no round is made
//! ([`Freshness`]). Nothing is polled: the loop sleeps until something arrives or its next timer is
//! due.

mod apply_plan;
mod disruption;
mod observed;
mod overlays_status;
mod repairs;
mod singles;
mod status_view;
mod take_input;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longshore_api::crd::{NodeClaim, NodePool, Timestamp};
use longshore_core::disrupt::static_capacity::Scale;
use longshore_core::model::Symbols;
use longshore_core::snapshot::Snapshot;
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, channel};
use tokio::time::{Instant, sleep_until};

use crate::config::NewPods;
use crate::live::act::claim_conditions::{Surroundings, is_listed};
use crate::live::act::claim_writes;
use crate::live::act::context::Context;
use crate::live::act::end::garbage;
use crate::live::act::end::termination;
use crate::live::act::guard::{guarded, guarded_now};
use crate::live::act::last_pod_event::LastPodEvents;
use crate::live::act::launch::create_claims::Created;
use crate::live::act::launch::launch_groups;
use crate::live::act::launch::launch_request::launch_of;
use crate::live::act::launch::lifecycle;
use crate::live::act::launch::static_pools;
use crate::live::act::launch::useless_purchases::{self, ToRemember};
use crate::live::act::overlay_status;
use crate::live::act::pools;
use crate::live::act::recent;
use crate::live::act::repair::{self, Repairs, UnhealthyCounts, reboot};
use crate::live::act::work_queue::{Lane, WorkQueue};
use crate::live::decide;
use crate::live::decide::claims::class_label;
use crate::live::decide::rollout::{Action, Nomination, Rollout, Turn};
use crate::live::decide::round::{self, Round, RoundConfig};
use crate::live::decide::round_timer::RoundTimer;
use crate::live::observe::freshness::{Freshness, OwnWrite};
use crate::live::observe::kinds::Kind;
use crate::live::observe::node::NodeView;
use crate::live::observe::node_claim::{self, is_true};
use crate::live::observe::offers::CurrentOffers;
use crate::live::observe::plan_index::PlanIndex;
use crate::live::observe::planned_pods::{Planned, planned_pods};
use crate::live::observe::pod_latency::PodLatency;
use crate::live::observe::state::{Class, ClusterState, TypeTable, WorkItem};
use crate::live::observe::watch::Observed;
use crate::live::policies::{Trouble, trouble_of};
use crate::live::process::backoff::back_off;
use crate::live::process::mutants::mutant;
use crate::live::process::pulse;
use crate::live::process::step_error::{Outcome, StepError};
use crate::live::serve::explain_requests::{ExplainRequests, Subject};
use crate::live::serve::http::{Query, SharedBoard};
use crate::process;

/// What tasks report.
enum Done {
    Step(WorkItem, Outcome),
    Round(Box<Round>),
    RoundPanicked,
    /// Claims that were written, how many could not be, and whether some were left out because the
    /// server has other pods that wait than the state has.
    Written(Vec<Created>, usize, bool),
    Collected,
    Explained,
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

type Work = futures::future::BoxFuture<'static, Outcome>;

/// How often freshness is checked while no round may be made.
const FRESHNESS_POLL: Duration = Duration::from_secs(1);
/// How often garbage is looked for.
const GARBAGE_INTERVAL: Duration = Duration::from_secs(120);
/// What can be bought is asked this often while nothing is planned.
const OFFERS_POLL: Duration = Duration::from_secs(1);
/// NodePools are counted again at most this often.
const POOL_COUNT_INTERVAL: Duration = Duration::from_secs(1);
/// How often leadership is checked, if there are several replicas.
const LEADERSHIP_POLL: Duration = Duration::from_millis(250);
/// No round is made for so long where memory is given back to the system.
const TRIM_MARGIN: Duration = Duration::from_millis(50);
/// Replicas that compete ask for the Lease every 2 s. Without an answer for so long this one is cut
/// off from the API server.
const MAX_LEASE_SILENCE: Duration = Duration::from_secs(15);
/// Without a Lease, this process counts as cut off after its watches were silent for so long:
/// bookmarks come every minute, or the kind is listed again.
const MAX_WATCH_SILENCE: Duration = Duration::from_secs(100);
/// The status for others is written anew at most this often.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(500);
/// It is written anew at least this often: ages in it grow.
const REPUBLISH_INTERVAL: Duration = Duration::from_secs(10);

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
    /// Pending pods that have a NodeClaim. Buying again first lists unbound pods.
    bought: HashSet<String>,
    /// Which claim each pod is planned for.
    plans: PlanIndex,
    /// This process has not asked the server yet which pods wait, since it leads.
    unproven: bool,
    /// How many rounds could create no NodeClaim one after the other, and when the pods of NodeClaims
    /// that could not be created are planned again.
    failed_writes: u32,
    again: Option<Instant>,
    /// How many rounds have panicked one after the other.
    panics: u32,
    rounds: u64,
    was_leader: bool,
    collecting: bool,
    last_garbage: Instant,
    last_pools: Instant,
    pools_changed: bool,
    /// Policies that give no answer, as NodePools were last told.
    troubles: Arc<[Trouble]>,
    /// What can be bought, and when that was asked last.
    offers: CurrentOffers,
    last_offers: Option<Instant>,
    /// Cached metric rows and the catalogue generation they belong to.
    type_table: Mutex<Option<(u64, Arc<TypeTable>)>>,
    /// Cached status of NodeOverlays and the catalogue generation it belongs to.
    overlays_status: Mutex<Option<(u64, serde_json::Value)>>,
    /// When nodes register, and which pods are nominated for them.
    rollout: Rollout,
    pod_latency: PodLatency,
    /// Nodes whose pods have changed, until their claims are updated.
    last_pod_events: LastPodEvents,
    /// How many nodes are unhealthy.
    unhealthy_counts: UnhealthyCounts,
    last_plan: serde_json::Value,
    /// NodePools without compatible instance types, with reasons, as of the last round that planned
    /// for a pod.
    incompatible_pools: BTreeMap<String, String>,
    /// What NodePools are to remember of purchases that did not help.
    to_remember: ToRemember,
    explain_requests: ExplainRequests,
    published: Instant,
    changed: bool,
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
        let watched: Vec<Kind> =
            Kind::watched(how.catalogue.class_kind(), how.overlays.is_some()).collect();
        let unwatched = Kind::ALL.iter().filter(|kind| !watched.contains(kind));
        unwatched.for_each(|kind| state.leave_out(*kind));
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
            bought: HashSet::new(),
            plans: PlanIndex::default(),
            unproven: true,
            failed_writes: 0,
            again: None,
            panics: 0,
            rounds: 0,
            was_leader: false,
            collecting: false,
            last_garbage: now,
            last_pools: now,
            pools_changed: true,
            troubles: Arc::default(),
            offers: CurrentOffers::default(),
            last_offers: None,
            type_table: Mutex::default(),
            overlays_status: Mutex::default(),
            rollout: Rollout::default(),
            pod_latency: PodLatency::default(),
            last_pod_events: LastPodEvents::default(),
            unhealthy_counts: UnhealthyCounts::default(),
            last_plan: serde_json::Value::Null,
            incompatible_pools: BTreeMap::new(),
            to_remember: ToRemember::default(),
            explain_requests: ExplainRequests::default(),
            published: now,
            changed: true,
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
        let idle = !self.planning && !self.collecting && self.disruption.is_idle();
        idle && self.work.running() == 0
    }

    /// Enqueues an object. A standby replica reconciles nothing and keeps no queue: a
    /// new leader reconciles everything.
    fn enqueue(&mut self, what: WorkItem, now: Instant) {
        match &what {
            WorkItem::Claim(name) => {
                self.pools_changed = true;
                self.follow_command(name, now);
                let claim = self.state.claims.get(name).cloned();
                let id = claim.as_deref().map_or("", node_claim::provider_id);
                let joined = !id.is_empty() && self.state.node_name_of(id).is_some();
                self.rollout.claim(name, claim.as_deref(), joined, now);
                match &claim {
                    Some(claim) if claim.metadata.deletion_timestamp.is_none() => {
                        if !self.plans.knows(name) {
                            let created = claim
                                .metadata
                                .creation_timestamp
                                .as_ref()
                                .map_or(0, |t| t.0.as_second());
                            planned_pods(claim)
                                .for_each(|planned| self.plans.plan(planned.pod, name, created));
                        }
                    }
                    _ => self.plans.forget(name),
                }
            }
            WorkItem::Node(name) => {
                self.pools_changed = true;
                if !self.state.nodes.contains_key(name) {
                    self.last_pod_events.forget(name);
                    self.ctx.drains.end(name);
                }
            }
            _ => {}
        }
        let lane = self.lane(&what);
        self.work(what, lane, now);
    }

    fn work(&mut self, what: WorkItem, lane: Lane, now: Instant) {
        if self.was_leader {
            self.work.enqueue(what, lane, now);
        }
    }

    /// What kind of work there is on an object.
    fn lane(&self, what: &WorkItem) -> Lane {
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

    fn report(&mut self, report: Done) {
        self.changed = true;
        match report {
            Done::Step(what, _) if !self.was_leader => self.work.forget(&what),
            Done::Step(what, outcome) => {
                if let (WorkItem::Claim(name), Err(_)) = (&what, &outcome) {
                    self.rollout.step_failed(name);
                }
                let failures = self.work.ended(&what, &outcome, Instant::now());
                if let (Some(failures), Err(error)) = (failures, outcome) {
                    tracing::warn!(?what, %error, failures, "reconcile failed; retrying");
                }
            }
            Done::Round(round) => {
                self.trim_due = true;
                self.apply_plan(*round);
            }
            Done::RoundPanicked => self.round_panicked(),
            Done::Written(claims, failed, outdated) => {
                let state = &self.state;
                let created = claims.len();
                let pods = claims.into_iter().flat_map(|created| created.pods);
                self.bought.extend(pods.filter(|pod| state.waits(pod)));
                self.planning = false;
                if outdated {
                    let rounds = &self.ctx.metrics.rounds;
                    rounds.with_label_values(&["outdated"]).inc();
                    tracing::warn!(
                        "watch of pods lags: planned pods are bound or gone, nothing is bought for \
                        them; listing pods again"
                    );
                    self.relist(Kind::Pod);
                    self.round_timer.pod_arrived(Instant::now());
                }
                if created + failed > 0 {
                    self.written(created, failed, Instant::now());
                }
            }
            Done::Collected => (self.collecting, self.pools_changed) = (false, true),
            Done::Explained => self.explain_requests.ended(),
            Done::Disruption(decision) => {
                self.trim_due = true;
                self.disruption_decided(decision);
            }
            Done::Begun(id, buys) => self.begun(id, buys),
            Done::Nominated(pods) => {
                let now = Instant::now();
                pods.iter()
                    .for_each(|(pod, _)| self.rollout.nomination_written(pod, now));
            }
            Done::Registered(claim, ready) => {
                self.rollout.node_registered(&claim, ready, Instant::now());
            }
        }
    }

    /// NodeClaims of a round were created, and others could not be: those pods are planned again,
    /// later each time where nothing can be created.
    fn written(&mut self, created: usize, failed: usize, now: Instant) {
        let outcome = if created > 0 { "bought" } else { "failed" };
        let rounds = &self.ctx.metrics.rounds;
        rounds.with_label_values(&[outcome]).inc();
        if let Some(plan) = self.last_plan.as_object_mut() {
            plan.insert("failed".to_owned(), failed.into());
        }
        self.failed_writes = if created > 0 {
            0
        } else {
            self.failed_writes + 1
        };
        if failed > 0 {
            self.again = Some(now + back_off(self.failed_writes));
        }
    }

    /// When to wake up if nothing arrives.
    fn next(&self, now: Instant) -> Instant {
        let mut next = now + pulse::WAKE_INTERVAL;
        let mut by = |at: Option<Instant>| next = at.map_or(next, |at| next.min(at));
        if !self.ctx.leadership.is_permanent() {
            by(Some(now + LEADERSHIP_POLL));
        }
        by(self.changed.then(|| self.published + PUBLISH_INTERVAL));
        by(self.next_answer(now));
        if self.was_leader && self.state.synced() && !self.ctx.leadership.is_retiring() {
            by(self.work.next());
            by(self.rollout.wakes_at(now));
            by(Some(self.last_garbage + GARBAGE_INTERVAL).filter(|_| !self.collecting));
            by(self
                .pools_changed
                .then(|| self.last_pools + POOL_COUNT_INTERVAL));
            by(self.last_pod_events.next());
            by(self.again);
            let blocked = self.why_blocked(now).map(|_| now + FRESHNESS_POLL);
            let unblocked = |at: Instant| blocked.map_or(at, |again| at.max(again));
            by(self.next_disruption().map(unblocked));
            by(self.next_round().filter(|_| !self.planning).map(unblocked));
        }
        next.max(now)
    }

    /// When the next round may be made.
    fn next_round(&self) -> Option<Instant> {
        self.round_timer
            .next(self.rollout.any_nominated(), self.waits())
            .filter(|_| self.waits())
    }

    /// When the question that waits may be answered: between two rounds, or at any time where
    /// another replica makes them.
    fn next_answer(&self, now: Instant) -> Option<Instant> {
        let round = if self.was_leader {
            self.next_round()
        } else {
            None
        };
        if self.planning || !self.state.synced() {
            None
        } else {
            self.explain_requests.due(now, round)
        }
    }

    /// Whether there is anything to plan for.
    fn waits(&self) -> bool {
        self.state.pending() > 0 || self.state.any_node_leaves()
    }

    /// Runs due actions.
    fn tick(&mut self, now: Instant) {
        self.ctx.pulse.beat(now);
        if !self.planning {
            // Before another round begins.
            self.take_held_look();
        }
        if self
            .last_offers
            .is_none_or(|last| now >= last + OFFERS_POLL)
        {
            self.follow_offers(now);
        }
        let leads = self.ctx.leadership.is_leader();
        let synced = self.state.synced();
        self.sample_cost(synced, now);
        let is_due = now >= self.published + PUBLISH_INTERVAL;
        if (is_due && self.changed) || now >= self.published + REPUBLISH_INTERVAL {
            self.publish_status(synced && self.silence().is_none(), leads, now);
        }
        if self.next_answer(now).is_some_and(|at| at <= now) {
            self.answer_query(now);
        }
        self.trim_heap(now);
        let blocked = self.why_blocked(now);
        self.ctx.fresh.store(blocked.is_none(), Ordering::Relaxed);
        self.changed |= self.blocked != blocked;
        self.blocked = blocked;
        if !synced || !leads || self.ctx.leadership.is_retiring() {
            if self.was_leader && !leads {
                self.was_leader = false;
                self.work.stand_by();
                self.rollout.stand_by();
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
            self.rollout.advance(|pod| state.waits(pod));
        }
        let nodes = &self.state.nodes;
        let open = |node: &str| nodes.get(node).is_none_or(|node| node.is_registered());
        self.rollout.expire(now, open);
        self.carry_out(now);
        let troubles = self.config.policies.troubles();
        if !Arc::ptr_eq(&troubles, &self.troubles) {
            (self.troubles, self.pools_changed) = (troubles, true);
        }
        if self.pools_changed && now >= self.last_pools + POOL_COUNT_INTERVAL {
            (self.pools_changed, self.last_pools) = (false, now);
            let names: Vec<String> = self.state.pools.keys().cloned().collect();
            names
                .into_iter()
                .for_each(|name| self.work.enqueue(WorkItem::Pool(name), Lane::Pool, now));
        }
        if !self.collecting && now >= self.last_garbage + GARBAGE_INTERVAL {
            self.last_garbage = now;
            self.collect();
        }
        self.write_last_pod_events(now);
        if self.again.is_some_and(|at| at <= now) {
            self.again = None;
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
            let cost = self.state.cost(self.offers.catalogue());
            self.ctx.recent.sample(self.ctx.now(), cost);
        }
    }

    /// Has NodeOverlays looked at where the cloud offers something else than before: those that
    /// were in conflict may be so no longer.
    fn follow_offers(&mut self, now: Instant) {
        self.last_offers = Some(now);
        let changed = self.offers.follow(&*self.config.catalogue, &mut self.state);
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
        let changes = self.state.waits_changed();
        for (pod, nominated) in &changes {
            match nominated {
                Some(nominated) => {
                    self.rollout.pod_waits(pod, *nominated, now);
                    self.pod_latency.waits(pod, self.ctx.now());
                }
                None => {
                    self.bought.remove(&**pod);
                    self.rollout.pod_gone(pod);
                    if !self.was_leader {
                        self.pod_latency.forget(pod);
                    }
                    if self.state.has_pod(pod) {
                        self.round_timer.pod_bound(now);
                    }
                }
            }
        }
        !changes.is_empty()
    }

    /// Since when the API server has not answered, if that is long.
    fn silence(&self) -> Option<String> {
        let (time, ago) = self.ctx.clock.last_answer()?;
        let limit = match self.ctx.leadership.is_permanent() {
            true => MAX_WATCH_SILENCE,
            false => MAX_LEASE_SILENCE,
        };
        (ago >= limit).then(|| {
            let time = node_claim::rfc3339(time);
            format!("the API server has not answered since {time}; what is shown is from then")
        })
    }

    /// Why nothing may be planned, if so.
    fn why_blocked(&self, now: Instant) -> Option<String> {
        let stale = self.silence();
        let stale = stale.or_else(|| Some(self.watches.stale(now)?.to_string()));
        stale.or_else(|| {
            let needed = [Kind::NodeClaim, Kind::Node, Kind::Pod].into_iter();
            needed
                .filter_map(|kind| self.state.trouble(kind))
                .next()
                .map(str::to_owned)
        })
    }

    /// Has a kind listed again; nothing is planned before it was.
    fn relist(&mut self, kind: Kind) {
        self.watches.relist(kind);
        self.ctx.relists.ask(kind);
    }

    /// A round has panicked. The next one does without improving; should that panic too, liveness
    /// says so in time.
    fn round_panicked(&mut self) {
        self.planning = false;
        self.panics += 1;
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
        tokio::task::spawn_blocking(process::trim_heap);
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
        self.unproven = true;
        let since = self.ctx.leadership.since();
        for kind in [Kind::NodeClaim, Kind::Node] {
            if !self.watches.was_listed_since(kind, since) {
                self.relist(kind);
            }
        }
        let coming = self.state.claims.values().filter(|claim| {
            let status = claim.status.clone().unwrap_or_default();
            // One that has joined has lost its node since: it is not made anew.
            claim.metadata.deletion_timestamp.is_none()
                && is_true(&status, "Launched")
                && !is_true(&status, "Registered")
                && self.state.nodes_of(&status.provider_id).is_empty()
        });
        let launched: Vec<_> = coming.map(|claim| launch_of(claim)).collect();
        let provider = self.ctx.provider.clone();
        tokio::spawn(async move { provider.restore_launches(launched).await });
    }

    fn start(&mut self, what: WorkItem, now: Instant) {
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
        if is_true(&status, "Registered") {
            if self.rollout.registered(name, &claim, now) {
                self.round_timer.node_registered(now);
            }
            // A kubelet has registered again, after its Node was removed by force.
            if let [node] = nodes.as_slice()
                && claim.metadata.deletion_timestamp.is_none()
                && lifecycle::joins_again(&self.ctx, &status, node)
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
            let (state, plans) = (&self.state, &self.plans);
            let is_expected = |planned: &Planned<'_>| {
                state.waits(planned.pod)
                    && plans.owner(planned.pod).is_none_or(|owner| owner == name)
            };
            let young = lifecycle::may_wait(&self.ctx, node);
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
            is_listed(labels, &class, self.offers.catalogue(), names)
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
                self.ctx.drains.end(name);
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
    fn remember_useless(&mut self, snapshot: &Snapshot) {
        let now = Instant::now();
        for (pool, purchases) in self.to_remember.note(snapshot) {
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
        let useless = self.to_remember.take(&pool);
        let given = self.state.given_of(name);
        let policies = trouble_of(&self.troubles, name);
        let ctx = self.ctx.clone();
        Some(Box::pin(async move {
            let is_read = fault.is_none();
            useless_purchases::step(&ctx, &pool, useless, given).await?;
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
        let offers = self.offers.catalogue().clone();
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

    fn plan(&mut self, now: Instant) {
        self.round_timer.close();
        if !self.waits() {
            return;
        }
        self.planning = true;
        self.disruption.round_begins();
        self.round_timer.begin(now);
        self.rounds += 1;
        let (clock, number) = (self.ctx.clock.clone(), self.rounds);
        self.apply_config();
        self.ctx
            .pulse
            .due(now, round::time_limit(&self.config.policies.take()));
        self.config
            .journal
            .began(clock.now().as_millisecond(), number, self.state.revision);
        let input = self.round_input();
        let (careful, metrics) = (self.panics > 0, self.ctx.metrics.clone());
        let decide = move |how: &RoundConfig| {
            guarded_now(&metrics, "planning", || {
                round::decide(how, &clock, number, careful, input)
            })
        };
        if self.config.inline {
            match decide(&self.config) {
                Some(round) => self.apply_plan(round),
                None => self.round_panicked(),
            }
            return;
        }
        let (how, done) = (self.config.clone(), self.done.clone());
        self.config.compute(move || {
            let _ = done.blocking_send(match decide(&how) {
                Some(round) => Done::Round(Box::new(round)),
                None => Done::RoundPanicked,
            });
        });
    }

    fn asked(&mut self, ask: Query) {
        match ask {
            Query::Explain(question) => self.explain_requests.ask(question, Instant::now()),
            Query::Metrics(reply) if self.was_leader => drop(reply.send(self.metrics_snapshot())),
            Query::Metrics(_) => {}
        }
    }

    /// Answers a query about a pod or a node between two rounds: it plans like a round and drops the plan. A
    /// round that becomes due meanwhile does not wait for it.
    fn answer_query(&mut self, now: Instant) {
        let Some(question) = self.explain_requests.begin(now) else {
            return;
        };
        let input = match &question.about {
            Subject::Pod(_) => self.round_input(),
            Subject::Node(_) => self.look_input().0,
        };
        let how = self.config.clone();
        let live = how.policies.take().apart();
        let repairs_off = matches!(self.ctx.repairs, Repairs::Off);
        let metrics = self.ctx.metrics.clone();
        let answer = self.config.compute(move || {
            let explained = guarded_now(&metrics, "explaining", || match &question.about {
                Subject::Pod(pod) => round::explain(&how, &live, input, pod),
                Subject::Node(node) => {
                    decide::disruption::explain(&how, &live, input, (node, repairs_off))
                }
            });
            let defect = || Err("explaining has panicked: a defect, please report it".to_owned());
            let _ = question.reply.send(explained.unwrap_or_else(defect));
            drop(question.turn);
        });
        let done = self.done.clone();
        tokio::spawn(async move {
            // Whatever became of it.
            let _ = answer.await;
            let _ = done.send(Done::Explained).await;
        });
    }

    /// The part of the configuration that the fold uses. To be called between two rounds.
    fn apply_config(&mut self) {
        self.state.plans_unattempted = self
            .config
            .policies
            .take()
            .planning()
            .new_pods
            .unwrap_or_default()
            == NewPods::Immediate;
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
        self.collecting = true;
        let state = &self.state;
        self.pod_latency.retain(|pod| state.has_pod(pod));
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
