//! The loop: what is observed is folded in, what it touches is looked at again, and now and then a round plans.
//!
//! One task owns the state; nobody else reads it. Work on one object is done by one task at a time ([`Jobs`]), with
//! copies of what it needs, and what comes of it returns as an observation like any other. What this process writes is
//! folded in from the answers, so that no round forgets a NodeClaim that the watch has not brought yet; while a watch is known
//! to be behind nothing is planned ([`Freshness`]). Nothing is polled: the loop sleeps until something arrives or the next
//! of its own dates.

mod decided;
mod observed;
mod shown;
mod world;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use longshore_api::crd::{NodeClaim, NodePool};
use longshore_core::model::Names;
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, channel};
use tokio::time::{Instant, sleep_until};

use super::arrivals::Arrivals;
use super::claims::{Planned, planned_pods};
use super::context::Context;
use super::decisions::Decisions;
use super::freshness::{Freshness, OwnWrite};
use super::garbage;
use super::guard::{guarded, guarded_now};
use super::hints::{Hint, Hints};
use super::jobs::{Jobs, Lane};
use super::kinds::Kind;
use super::lifecycle::{self, Outcome, is_true, launch_of};
use super::mutants::mutant;
use super::node::NodeView;
use super::plan_index::PlanIndex;
use super::pod_events::PodEvents;
use super::pools;
use super::pulse;
use super::questions::Questions;
use super::repair::{self, Wards};
use super::round::{self, Created, How, Round};
use super::serve::{Ask, SharedBoard};
use super::state::{Class, ClusterState, Touched};
use super::step_error::StepError;
use super::termination;
use super::timetable::Timetable;
use super::watch::Observed;
use crate::config::NewPods;
use crate::process;

/// What tasks report.
enum Done {
    Step(Touched, Outcome),
    Round(Box<Round>),
    /// A round has panicked.
    RoundPanicked,
    /// Claims that were written, and how many could not be.
    Written(Vec<Created>, usize),
    /// Claims were not written: the server has other pods that wait than the state has.
    Outdated,
    Collected,
    Explained,
}

/// Pods and their groups, by the claim that they were planned for after it was made.
type Expected = BTreeMap<String, Vec<(String, Option<u32>)>>;

type Work = futures::future::BoxFuture<'static, Outcome>;

/// While nothing may be planned, whether that is over is looked at this often.
const RECHECK: Duration = Duration::from_secs(1);
const GARBAGE: Duration = Duration::from_secs(120);
/// NodePools are counted again at most this often.
const POOLS: Duration = Duration::from_secs(1);
/// Who leads is looked at this often, where replicas compete for it.
const LEADER: Duration = Duration::from_millis(250);
/// No round is made for so long where memory is given back to the system.
const CALM: Duration = Duration::from_millis(50);
/// The status for others is written anew at most this often.
const SHOW: Duration = Duration::from_millis(500);

/// The loop's own.
struct Control {
    ctx: Arc<Context>,
    how: Arc<How>,
    board: SharedBoard,
    state: ClusterState,
    jobs: Jobs,
    done: Sender<Done>,
    timetable: Timetable,
    planning: bool,
    /// What the watches can be trusted with.
    watches: Freshness,
    /// Why nothing may be planned now, if so.
    blocked: Option<String>,
    /// Pods that wait and that a node was bought for: it is not done again without asking the server.
    bought: HashSet<String>,
    /// Which claim each pod is planned for.
    plans: PlanIndex,
    /// This process has not asked the server yet which pods wait, since it leads.
    unproven: bool,
    /// How many rounds have panicked one after the other.
    panics: u32,
    rounds: u64,
    led: bool,
    collecting: bool,
    last_garbage: Instant,
    last_pools: Instant,
    pools_changed: bool,
    arrivals: Arrivals,
    hints: Hints,
    decisions: Decisions,
    /// Pods planned for a claim after it was made, until its node is there.
    expected: Expected,
    /// Nodes whose pods have changed, until their claims say so.
    pod_events: PodEvents,
    /// How many nodes are unhealthy.
    wards: Wards,
    last_plan: serde_json::Value,
    /// Why nothing can be bought for NodePools, as the last round has found that planned for anybody.
    barren: BTreeMap<String, String>,
    questions: Questions,
    shown: Instant,
    changed: bool,
    /// Whether the heap has free what somebody needed for a while.
    spent: bool,
    /// When this process began to watch.
    began: Instant,
}

/// Where the loop hears from.
pub struct Heard {
    /// What the watches bring.
    pub observations: Receiver<Observed>,
    /// What this process has written.
    pub echoes: UnboundedReceiver<OwnWrite>,
    /// What others want to know.
    pub asks: Receiver<Ask>,
}

/// Runs until this replica retires and nothing of it is under way any more, or the channel of observations closes.
pub async fn run(ctx: Arc<Context>, how: How, timetable: Timetable, names: Names, board: SharedBoard, heard: Heard) {
    let Heard { mut observations, mut echoes, mut asks } = heard;
    let (mut control, mut reports) = Control::new(ctx, how, timetable, names, board);
    control.learn();
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
        // No step begins from a copy that is older than what this process has written.
        while let Ok(write) = echoes.try_recv() {
            control.wrote(write);
        }
        control.turn(Instant::now());
    }
}

impl Control {
    /// A loop that knows nothing yet, and where its tasks report.
    fn new(
        ctx: Arc<Context>,
        how: How,
        timetable: Timetable,
        names: Names,
        board: SharedBoard,
    ) -> (Self, Receiver<Done>) {
        let (done, reports) = channel(1024);
        let now = Instant::now();
        let control = Control {
            ctx,
            how: Arc::new(how),
            board,
            state: ClusterState::new(names),
            jobs: Jobs::default(),
            done,
            timetable,
            planning: false,
            watches: Freshness::default(),
            blocked: None,
            bought: HashSet::new(),
            plans: PlanIndex::default(),
            unproven: true,
            panics: 0,
            rounds: 0,
            led: false,
            collecting: false,
            last_garbage: now,
            last_pools: now,
            pools_changed: true,
            arrivals: Arrivals::default(),
            hints: Hints::default(),
            decisions: Decisions::default(),
            expected: BTreeMap::new(),
            pod_events: PodEvents::default(),
            wards: Wards::default(),
            last_plan: serde_json::Value::Null,
            barren: BTreeMap::new(),
            questions: Questions::default(),
            shown: now,
            changed: true,
            spent: false,
            began: now,
        };
        (control, reports)
    }

    /// Whether nothing is under way that another replica would have to take up.
    fn is_idle(&self) -> bool {
        !self.planning && !self.collecting && self.jobs.running() == 0
    }

    /// Has an object looked at again. A replica that stands by acts on nothing and keeps no list of it: whoever takes over
    /// looks at everything.
    fn touch(&mut self, what: Touched, now: Instant) {
        match &what {
            Touched::Claim(name) => {
                self.pools_changed = true;
                let claim = self.state.claims.get(name).cloned();
                let id = claim.as_ref().and_then(|c| c.status.as_ref()).map_or("", |s| s.provider_id.as_str());
                let joined = !id.is_empty() && self.state.node_name_of(id).is_some();
                for other in self.arrivals.note(name, claim.as_deref(), joined, now) {
                    self.work(Touched::Claim(other), Lane::Launch, now);
                }
                match &claim {
                    Some(claim) if claim.metadata.deletion_timestamp.is_none() => {
                        if !self.plans.knows(name) {
                            let created = claim.metadata.creation_timestamp.as_ref().map_or(0, |t| t.0.as_second());
                            planned_pods(claim).for_each(|planned| self.plans.plan(planned.pod, name, created));
                        }
                    }
                    _ => {
                        self.plans.forget(name);
                        if claim.is_none() {
                            self.expected.remove(name);
                        }
                    }
                }
            }
            Touched::Node(name) => {
                self.pools_changed = true;
                if !self.state.nodes.contains_key(name) {
                    self.pod_events.forget(name);
                    self.ctx.drains.end(name);
                }
            }
            _ => {}
        }
        let lane = self.lane(&what);
        self.work(what, lane, now);
    }

    fn work(&mut self, what: Touched, lane: Lane, now: Instant) {
        if self.led {
            self.jobs.touch(what, lane, now);
        }
    }

    /// What kind of work there is on an object.
    fn lane(&self, what: &Touched) -> Lane {
        match what {
            Touched::Claim(name) => match self.state.claims.get(name) {
                Some(claim) if claim.metadata.deletion_timestamp.is_some() => Lane::End,
                _ => Lane::Launch,
            },
            Touched::Pool(_) => Lane::Pool,
            _ => Lane::Drain,
        }
    }

    /// Notes that pods came to a node or went.
    fn pod_event(&mut self, node: String, now: Instant) {
        if self.state.nodes.contains_key(&node) {
            self.pod_events.note(node, lifecycle::rfc3339(self.ctx.now()), now);
        }
    }

    fn write_pod_events(&mut self, now: Instant) {
        for (node, time) in self.pod_events.due(now) {
            let view = self.state.nodes.get(&node);
            let claims = view.map(|view| self.state.claim_of(view)).unwrap_or_default();
            let [claim] = claims.as_slice() else { continue };
            let (ctx, claim) = (self.ctx.clone(), claim.clone());
            tokio::spawn(async move {
                if let Err(error) = lifecycle::pod_event(&ctx, &claim, &time).await {
                    tracing::debug!(%error, "lastPodEventTime was not written; the next pod does it");
                }
            });
        }
    }

    fn report(&mut self, report: Done) {
        self.changed = true;
        match report {
            Done::Step(what, _) if !self.led => self.jobs.forget(&what),
            Done::Step(what, outcome) => {
                let failures = self.jobs.ended(&what, &outcome, Instant::now());
                if let (Some(failures), Err(error)) = (failures, outcome) {
                    tracing::warn!(?what, %error, failures, "not done yet; trying again");
                }
            }
            Done::Round(round) => {
                self.spent = true;
                self.decided(*round);
            }
            Done::RoundPanicked => self.round_panicked(),
            Done::Outdated => {
                self.planning = false;
                self.ctx.metrics.rounds.with_label_values(&["outdated"]).inc();
                tracing::warn!(
                    "pods that were planned for do not wait any more: the watch of pods is behind; listing them"
                );
                self.relist(Kind::Pod);
                self.timetable.came(Instant::now());
            }
            Done::Written(claims, failed) => {
                let state = &self.state;
                let pods = claims.into_iter().flat_map(|created| created.pods);
                self.bought.extend(pods.filter(|pod| state.waits(pod)));
                self.planning = false;
                if failed > 0 {
                    self.timetable.came(Instant::now());
                }
            }
            Done::Collected => (self.collecting, self.pools_changed) = (false, true),
            Done::Explained => self.questions.ended(),
        }
    }

    /// When to wake up if nothing arrives.
    fn next(&self, now: Instant) -> Instant {
        let mut next = now + pulse::BEAT;
        let mut by = |at: Option<Instant>| next = at.map_or(next, |at| next.min(at));
        if !self.ctx.leadership.is_permanent() {
            by(Some(now + LEADER));
        }
        by(self.changed.then(|| self.shown + SHOW));
        by(self.next_answer(now));
        if self.led && self.state.synced() && !self.ctx.leadership.is_retiring() {
            by(self.jobs.next());
            by(self.hints.next());
            by(Some(self.last_garbage + GARBAGE).filter(|_| !self.collecting));
            by(self.pools_changed.then(|| self.last_pools + POOLS));
            by(self.pod_events.next());
            if !self.planning {
                let blocked = self.why_blocked(now).map(|_| now + RECHECK);
                by(self.next_round().map(|at| blocked.map_or(at, |again| at.max(again))));
            }
        }
        next.max(now)
    }

    /// When the next round may be made.
    fn next_round(&self) -> Option<Instant> {
        self.timetable.next(self.hints.any(), self.waits()).filter(|_| self.waits())
    }

    /// When the question that waits may be answered: between two rounds, or at any time where another replica makes them.
    fn next_answer(&self, now: Instant) -> Option<Instant> {
        let round = if self.led { self.next_round() } else { None };
        if self.planning || !self.state.synced() { None } else { self.questions.due(now, round) }
    }

    /// Whether there is anything to plan for.
    fn waits(&self) -> bool {
        self.state.pending() > 0 || self.state.any_node_leaves()
    }

    /// Does what is due.
    fn turn(&mut self, now: Instant) {
        self.ctx.pulse.beat(now);
        let leads = self.ctx.leadership.holds();
        let synced = self.state.synced();
        if self.changed && now >= self.shown + SHOW {
            self.show(synced, leads, now);
        }
        if self.next_answer(now).is_some_and(|at| at <= now) {
            self.answer(now);
        }
        self.give_back(now);
        let blocked = self.why_blocked(now);
        self.ctx.fresh.store(blocked.is_none(), Ordering::Relaxed);
        self.changed |= self.blocked != blocked;
        self.blocked = blocked;
        if !synced || !leads || self.ctx.leadership.is_retiring() {
            if self.led && !leads {
                self.led = false;
                self.jobs.stand_by();
                self.hints.stand_by();
            }
            self.follow_pods(now);
            return;
        }
        if !self.led {
            self.led = true;
            self.take_over(now);
            // What another leader wrote last is to be listed before anything is planned.
            self.blocked = self.why_blocked(now);
            self.ctx.fresh.store(self.blocked.is_none(), Ordering::Relaxed);
        }
        let mut told = Vec::new();
        if self.follow_pods(now) {
            let state = &self.state;
            told = self.hints.advance(|pod| state.waits(pod));
            self.tell_again();
        }
        self.tell(told);
        self.drop_stale_hints(now);
        if self.pools_changed && now >= self.last_pools + POOLS {
            (self.pools_changed, self.last_pools) = (false, now);
            let names: Vec<String> = self.state.pools.keys().cloned().collect();
            names.into_iter().for_each(|name| self.jobs.touch(Touched::Pool(name), Lane::Pool, now));
        }
        if !self.collecting && now >= self.last_garbage + GARBAGE {
            self.last_garbage = now;
            self.collect();
        }
        self.write_pod_events(now);
        while let Some(what) = self.jobs.take(now) {
            self.start(what, now);
        }
        if !self.planning && self.next_round().is_some_and(|at| at <= now) && self.blocked.is_none() {
            self.plan(now);
        }
    }

    /// Notes which pods wait in another way than before; a replica that stands by does so too, and acts on nothing of it. Says
    /// whether there were any.
    fn follow_pods(&mut self, now: Instant) -> bool {
        let changes = self.state.waits_changed();
        for (pod, nominated) in &changes {
            match nominated {
                Some(nominated) => {
                    self.hints.seen(pod, *nominated, now);
                    self.decisions.waits(pod, self.ctx.now());
                }
                None => {
                    self.bought.remove(&**pod);
                    self.hints.gone(pod);
                    self.ctx.doors.placed(pod);
                    if !self.led {
                        self.decisions.forget(pod);
                    }
                    if self.state.has_pod(pod) {
                        self.timetable.moved(now);
                    }
                }
            }
        }
        !changes.is_empty()
    }

    /// Why nothing may be planned, if so.
    fn why_blocked(&self, now: Instant) -> Option<String> {
        let stale = self.watches.stale(now).map(|stale| stale.to_string());
        stale.or_else(|| {
            let needed = [Kind::NodeClaim, Kind::Node, Kind::Pod].into_iter();
            needed.filter_map(|kind| self.state.trouble(kind)).next().map(str::to_owned)
        })
    }

    /// Has a kind listed again; nothing is planned before it was.
    fn relist(&mut self, kind: Kind) {
        self.watches.relist(kind);
        self.ctx.relists.ask(kind);
    }

    /// A round has panicked. The next one does without improving; should that panic too, liveness says so in time.
    fn round_panicked(&mut self) {
        self.planning = false;
        self.panics += 1;
    }

    /// Gives memory back that rounds have left, or policies that were replaced, when that holds up no round.
    fn give_back(&mut self, now: Instant) {
        self.spent |= self.how.manager.take_spent();
        if !self.spent || self.how.inline || self.planning || self.next_round().is_some_and(|at| at <= now + CALM) {
            return;
        }
        self.spent = false;
        tokio::task::spawn_blocking(process::give_back);
    }

    /// What a leader does first: everything is looked at once.
    fn take_over(&mut self, now: Instant) {
        let claims: Vec<String> = self.state.claims.keys().cloned().collect();
        let nodes: Vec<String> = self.state.nodes.keys().cloned().collect();
        let pools: Vec<String> = self.state.pools.keys().cloned().collect();
        claims.into_iter().for_each(|name| self.touch(Touched::Claim(name), now));
        nodes.into_iter().for_each(|name| self.touch(Touched::Node(name), now));
        pools.into_iter().for_each(|name| self.touch(Touched::Pool(name), now));
        self.timetable.came(now);
        // What another leader has written may not have been brought yet by the watch of a replica that only stood by.
        self.unproven = true;
        let since = self.ctx.leadership.since();
        for kind in [Kind::NodeClaim, Kind::Node] {
            if !self.watches.was_listed_since(kind, since) {
                self.relist(kind);
            }
        }
        let coming = self.state.claims.values().filter(|claim| {
            let status = claim.status.clone().unwrap_or_default();
            claim.metadata.deletion_timestamp.is_none()
                && is_true(&status, "Launched")
                && self.state.nodes_of(&status.provider_id).is_empty()
        });
        let launched: Vec<_> = coming.map(|claim| launch_of(claim)).collect();
        let provider = self.ctx.provider.clone();
        tokio::spawn(async move { provider.resume(launched).await });
    }

    fn start(&mut self, what: Touched, now: Instant) {
        let work = match &what {
            Touched::Claim(name) => self.work_on_claim(name, now),
            Touched::Node(name) => self.work_on_node(name, now),
            Touched::Pool(name) => self.work_on_pool(name),
            Touched::Pending | Touched::PodEvent(_) => None,
        };
        let Some(work) = work else {
            self.jobs.forget(&what);
            return;
        };
        let done = self.done.clone();
        let metrics = self.ctx.metrics.clone();
        tokio::spawn(async move {
            // Whatever becomes of it, its slot is given back.
            let outcome = guarded(&metrics, "step", work).await;
            let outcome = outcome.unwrap_or_else(|| Err(StepError::Other("it has panicked".to_owned())));
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
        let mut hold = None;
        let mut hints = Vec::new();
        if is_true(&status, "Registered") {
            if self.arrivals.registered(name) {
                self.timetable.opened(now);
            }
            self.expected.remove(name);
        } else if let [node] = nodes.as_slice() {
            hold = self.arrivals.hold(name, &claim, node, now);
            let (state, plans) = (&self.state, &self.plans);
            let is_ours = |planned: &Planned| {
                state.waits(planned.pod) && plans.owner(planned.pod).is_none_or(|owner| owner == name)
            };
            let pods = planned_for(&self.expected, name, &claim).filter(is_ours);
            hints = self.hints.plan(&node.name, pods);
        }
        let ctx = self.ctx.clone();
        Some(Box::pin(async move { lifecycle::step(&ctx, &claim, &nodes, hold, hints).await }))
    }

    fn work_on_node(&mut self, name: &str, now: Instant) -> Option<Work> {
        let node = self.state.nodes.get(name).cloned();
        let Some(node) = node.filter(|node| node.deletion.is_some()) else {
            self.ctx.drains.end(name);
            let node = self.state.nodes.get(name)?.clone();
            return if self.ctx.repairs { self.look_after_node(&node, now) } else { None };
        };
        let claims = self.state.claim_of(&node);
        let ctx = self.ctx.clone();
        Some(Box::pin(async move { termination::step(&ctx, &node, &claims).await }))
    }

    /// Work on a node that nobody has deleted: it is replaced if it is unhealthy for too long.
    fn look_after_node(&mut self, node: &Arc<NodeView>, now: Instant) -> Option<Work> {
        let (ctx, node) = (self.ctx.clone(), node.clone());
        let [claim] = &self.state.claim_of(&node)[..] else { return None };
        let claim = claim.clone();
        if claim.metadata.deletion_timestamp.is_some() || !node.is_registered() {
            return None;
        }
        let policies = ctx.provider.repair_policies();
        let Some(ailment) = repair::ailment(&node, policies) else {
            let left_over = repair::is_left_over(&claim);
            return left_over.then(|| -> Work { Box::pin(async move { repair::take_back(&ctx, &claim).await }) });
        };
        if let Some(left) = ailment.tolerated(ctx.now()) {
            return Some(Box::pin(async move { Ok(Some(left)) }));
        }
        let ward = self.wards.of(&claim, self.state.nodes.values(), policies, now);
        let pool = self.state.pools.get(lifecycle::pool_of(&claim)).cloned();
        Some(Box::pin(async move { repair::look_and_step(&ctx, &node, &claim, pool.as_deref(), ward).await }))
    }

    fn work_on_pool(&self, name: &str) -> Option<Work> {
        let Some(pool) = self.state.pools.get(name).cloned() else {
            self.ctx.metrics.pool(name, &BTreeMap::new(), &BTreeMap::new());
            return None;
        };
        let class = self.class_of(&pool);
        let own = |labels: Option<&BTreeMap<String, String>>| {
            labels.and_then(|l| l.get("karpenter.sh/nodepool")).is_some_and(|of| of == name)
        };
        let claims: Vec<_> = self.state.claims.values().filter(|c| own(c.metadata.labels.as_ref())).cloned().collect();
        let nodes: Vec<_> = self.state.nodes.values().filter(|n| own(Some(&n.labels))).cloned().collect();
        let ctx = self.ctx.clone();
        Some(Box::pin(async move { pools::step(&ctx, &pool, class, &claims, &nodes).await }))
    }

    fn class_of(&self, pool: &NodePool) -> (Class, Option<i64>) {
        let class = &pool.spec.template.spec.node_class_ref;
        (self.state.class(&class.kind, &class.name), self.state.class_generation(&class.kind, &class.name))
    }

    fn plan(&mut self, now: Instant) {
        self.timetable.close();
        if !self.waits() {
            return;
        }
        self.planning = true;
        self.timetable.begin(now);
        self.rounds += 1;
        let (clock, number) = (self.ctx.clock.clone(), self.rounds);
        self.learn();
        self.ctx.pulse.due(now, round::time_limit(&self.how.manager.take()));
        self.how.journal.began(clock.now().as_millisecond(), number, self.state.revision);
        let world = self.world();
        let (careful, metrics) = (self.panics > 0, self.ctx.metrics.clone());
        let decide =
            move |how: &How| guarded_now(&metrics, "planning", || round::decide(how, &clock, number, careful, world));
        if self.how.inline {
            match decide(&self.how) {
                Some(round) => self.decided(round),
                None => self.round_panicked(),
            }
            return;
        }
        let (how, done) = (self.how.clone(), self.done.clone());
        tokio::task::spawn_blocking(move || {
            let _ = done.blocking_send(match decide(&how) {
                Some(round) => Done::Round(Box::new(round)),
                None => Done::RoundPanicked,
            });
        });
    }

    fn asked(&mut self, ask: Ask) {
        match ask {
            Ask::Pod(question) => self.questions.ask(question, Instant::now()),
            Ask::Picture(reply) if self.led => drop(reply.send(self.picture())),
            Ask::Picture(_) => {}
        }
    }

    /// Answers who asks about a pod, between two rounds: it plans as a round would, and nothing comes of it. A round that
    /// becomes due meanwhile does not wait for it.
    fn answer(&mut self, now: Instant) {
        let Some(question) = self.questions.begin(now) else { return };
        let (how, world) = (self.how.clone(), self.world());
        let live = how.manager.take().apart();
        let answer = tokio::task::spawn_blocking(move || {
            let explained = round::explain(&how, &live, world, &question.pod);
            let _ = question.reply.send(explained);
            drop(question.turn);
        });
        let done = self.done.clone();
        tokio::spawn(async move {
            // Whatever became of it.
            let _ = answer.await;
            let _ = done.send(Done::Explained).await;
        });
    }

    /// What the configuration says to whoever folds what is seen. To be called between two rounds.
    fn learn(&mut self) {
        self.state.foresees = self.how.manager.take().planning().new_pods.unwrap_or_default() == NewPods::Foresee;
    }

    fn tell(&self, hints: Vec<Hint>) {
        if !hints.is_empty() {
            let ctx = self.ctx.clone();
            tokio::spawn(async move { ctx.nominate(hints).await });
        }
    }

    fn tell_again(&mut self) {
        let hints = self.hints.repeat();
        if !hints.is_empty() {
            let ctx = self.ctx.clone();
            tokio::spawn(async move { ctx.nominate_again(hints).await });
        }
    }

    /// Takes back hints that kube-scheduler did not follow, so that those pods are planned for again.
    fn drop_stale_hints(&mut self, now: Instant) {
        let nodes = &self.state.nodes;
        let open = |node: &str| nodes.get(node).is_none_or(|n| n.is_registered());
        let stale = self.hints.stale(now, open);
        self.take_back(stale);
    }

    fn take_back(&self, pods: Vec<String>) {
        if !pods.is_empty() {
            let ctx = self.ctx.clone();
            tokio::spawn(async move { ctx.take_back(pods).await });
        }
    }

    /// Garbage, both ways: claims whose instance is gone, and instances whose claim is.
    fn collect(&mut self) {
        self.collecting = true;
        let state = &self.state;
        self.decisions.retain(|pod| state.has_pod(pod));
        let mut claims: Vec<Arc<NodeClaim>> = self.state.claims.values().cloned().collect();
        if mutant("garbage-trusts-cache") {
            let unseen = self.unseen_claims();
            claims.retain(|claim| claim.metadata.name.as_ref().is_none_or(|name| !unseen.contains(name)));
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
            let collected = guarded(&ctx.metrics, "garbage", garbage::collect(&ctx, &claims, &ready)).await;
            if let Some(Err(error)) = collected {
                tracing::warn!(%error, "garbage was not collected; trying again in two minutes");
            }
            let _ = done.send(Done::Collected).await;
        });
    }
}

/// All pods that were planned for a claim, those of its own round first.
fn planned_for<'a>(expected: &'a Expected, name: &str, claim: &'a NodeClaim) -> impl Iterator<Item = Planned<'a>> {
    let more =
        expected.get(name).into_iter().flatten().map(|(pod, group)| Planned { group: *group, ..Planned::plain(pod) });
    planned_pods(claim).chain(more)
}

#[cfg(test)]
mod tests;
