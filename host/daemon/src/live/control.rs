//! The loop: what is observed is folded in, what it touches is looked at again, and now and then a round plans.
//!
//! One task owns the state; nobody else reads it. Work on one object is done by one task at a time ([`Jobs`]), with
//! copies of what it needs, and what comes of it returns as an observation like any other. A round takes its snapshot
//! only after the NodeClaims that the round before has written have come back by the watch, so that no pod is bought for
//! twice. Nothing is polled: the loop sleeps until something arrives or the next of its own dates.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use longshore_api::crd::{ConditionStatus, NodeClaim, NodePool, condition};
use longshore_core::model::{Names, Settings, World};
use longshore_core::plan::{Plan, PodIx, PoolIx};
use longshore_core::planner::in_order;
use longshore_core::snapshot::{Snapshot, Unusable};
use serde_json::json;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::arrivals::Arrivals;
use super::claims::{Planned, group_of, planned_pods, pod_name, wanted};
use super::context::{Context, lock};
use super::decisions::Decisions;
use super::edges::Offers;
use super::garbage;
use super::hints::{HINT, Hint, Hints};
use super::jobs::Jobs;
use super::journal::Journal;
use super::kinds::Kind;
use super::lifecycle::{self, Outcome, is_true, launch_of};
use super::mutants::mutant;
use super::policies::Manager;
use super::pools::{self, Class};
use super::round::{self, Round};
use super::serve::SharedBoard;
use super::shortages::Shortages;
use super::state::{ClusterState, Picture, Touched};
use super::termination;
use super::timetable::Timetable;
use super::watch::Change;
use crate::config::NewPods;
use crate::explain::Explained;
use crate::report::{self, Leftover};

/// How rounds are made.
pub struct How {
    /// What can be bought now.
    pub catalogue: Offers,
    /// What of it could not be had a moment ago.
    pub shortages: Arc<Shortages>,
    /// What the environment says; the configuration's own words win.
    pub settings: Settings,
    /// Who scores, and what the configuration says of planning.
    pub manager: Manager,
    /// Where all of it is written down.
    pub journal: Journal,
    pub idle: Duration,
    pub longest: Duration,
    /// Plans on the loop's own thread, so that nothing depends on the order of threads: for simulations.
    pub inline: bool,
}

/// What tasks report.
enum Done {
    Step(Touched, Outcome),
    Round(Box<Round>),
    /// Claims that were written, and how many could not be.
    Written(Vec<String>, usize),
    Collected,
    Explained,
}

/// A question of somebody outside.
pub enum Ask {
    /// What about this pod, `namespace/name`?
    Pod { pod: String, reply: oneshot::Sender<Result<Explained, String>> },
    /// What does the cluster look like? Answered at once by who leads, by others never.
    Picture(oneshot::Sender<Picture>),
}

/// Pods and their groups, by the claim that they were planned for after it was made.
type Expected = BTreeMap<String, Vec<(String, Option<u32>)>>;

type Work = futures::future::BoxFuture<'static, Outcome>;

/// How long claims that were written may take to come back by the watch.
const ECHO: Duration = Duration::from_secs(10);
const GARBAGE: Duration = Duration::from_secs(120);
/// NodePools are counted again at most this often.
const POOLS: Duration = Duration::from_secs(1);
/// Who leads is looked at this often, where replicas compete for it.
const LEADER: Duration = Duration::from_millis(250);
/// The status for others is written anew at most this often.
const SHOW: Duration = Duration::from_millis(500);
/// A claim's `lastPodEventTime` is written so long after the first pod that it tells of, with the time of the last: while
/// nodes fill up, kube-apiserver has other things to do.
const POD_EVENTS: Duration = Duration::from_secs(10);
/// Most pods of a round that get an Event saying where they should go.
const NOMINATED_EVENTS: usize = 50;

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
    awaited: BTreeSet<String>,
    awaited_since: Instant,
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
    /// Nodes whose pods have changed, and when their claims are told.
    pod_events: BTreeMap<String, PodEvent>,
    /// The first of those dates.
    pod_events_due: Option<Instant>,
    last_plan: serde_json::Value,
    /// Why nothing can be bought for NodePools, as the last round has found that planned for anybody.
    barren: BTreeMap<String, String>,
    asks: VecDeque<(String, oneshot::Sender<Result<Explained, String>>)>,
    shown: Instant,
    changed: bool,
    /// When this process began to watch.
    began: Instant,
}

/// Pods came to a node or went.
struct PodEvent {
    /// When it is written.
    due: Instant,
    /// The time to write.
    time: String,
}

/// Runs until the channel of observations closes.
pub async fn run(
    ctx: Arc<Context>,
    how: How,
    names: Names,
    board: SharedBoard,
    mut observations: Receiver<(Kind, Change)>,
    mut asks: Receiver<Ask>,
) {
    let (done, mut reports) = channel(1024);
    let now = Instant::now();
    let timetable = Timetable::new(how.idle, how.longest);
    let mut control = Control {
        ctx,
        how: Arc::new(how),
        board,
        state: ClusterState::new(names),
        jobs: Jobs::default(),
        done,
        timetable,
        planning: false,
        awaited: BTreeSet::new(),
        awaited_since: now,
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
        pod_events: BTreeMap::new(),
        pod_events_due: None,
        last_plan: serde_json::Value::Null,
        barren: BTreeMap::new(),
        asks: VecDeque::new(),
        shown: now,
        changed: true,
        began: now,
    };
    control.learn();
    loop {
        let next = control.next(Instant::now());
        tokio::select! {
            biased;
            Some(report) = reports.recv() => control.report(report),
            observed = observations.recv() => {
                let Some((kind, change)) = observed else { return };
                control.observe(kind, change);
                // Whatever else has arrived belongs to the same moment.
                for _ in 0..4096 {
                    let Ok((kind, change)) = observations.try_recv() else { break };
                    control.observe(kind, change);
                }
            }
            Some(ask) = asks.recv() => control.asked(ask),
            () = sleep_until(next) => {}
        }
        control.turn(Instant::now());
    }
}

impl Control {
    fn observe(&mut self, kind: Kind, change: Change) {
        self.changed = true;
        match (&change, self.state.trouble(kind)) {
            // Said once, however often it is tried.
            (Change::Trouble(why), told) if told != Some(why) => {
                tracing::warn!(?kind, why, "cannot watch; trying again");
            }
            (Change::End | Change::Well, Some(_)) => tracing::info!(?kind, "watching again"),
            _ => {}
        }
        let (touched, refused) = self.state.fold(kind, &change);
        let time = self.ctx.now().as_millisecond();
        self.how.journal.observed(time, self.state.revision, kind, change, refused.is_some());
        if let Some(refused) = refused {
            tracing::warn!(
                ?kind,
                name = refused.name,
                why = refused.why,
                "object cannot be read; the last version stays"
            );
        }
        let reached = self.state.milestones();
        let turned = self.state.turned();
        if self.led {
            turned.iter().for_each(|(old, new)| self.ctx.metrics.node_transition(old, new));
            for milestone in &reached {
                let placed = self.decisions.reached(&milestone.pod, milestone.what, self.ctx.now());
                self.ctx.metrics.reached(milestone, self.ctx.now(), placed);
            }
        }
        let now = Instant::now();
        for what in touched {
            match what {
                Touched::Pending => self.timetable.came(now),
                Touched::PodEvent(node) => self.pod_event(node, now),
                what => self.touch(what, now),
            }
        }
    }

    fn touch(&mut self, what: Touched, now: Instant) {
        match &what {
            Touched::Claim(name) => {
                self.pools_changed = true;
                self.awaited.remove(name);
                let claim = self.state.claims.get(name).cloned();
                let id = claim.as_ref().and_then(|c| c.status.as_ref()).map_or("", |s| s.provider_id.as_str());
                let joined = !id.is_empty() && self.state.node_name_of(id).is_some();
                for other in self.arrivals.note(name, claim.as_deref(), joined, now) {
                    self.jobs.touch(Touched::Claim(other), now);
                }
                if claim.is_none() {
                    self.expected.remove(name);
                    self.ctx.written.forget(name);
                }
            }
            Touched::Node(_) => self.pools_changed = true,
            _ => {}
        }
        self.jobs.touch(what, now);
    }

    /// Notes that pods came to a node or went. Its claim is told later, so that many changes are one write.
    fn pod_event(&mut self, node: String, now: Instant) {
        if !self.state.nodes.contains_key(&node) {
            return;
        }
        let time = lifecycle::rfc3339(self.ctx.now());
        let due = now + POD_EVENTS;
        self.pod_events.entry(node).or_insert_with(|| PodEvent { due, time: String::new() }).time = time;
        self.pod_events_due = Some(self.pod_events_due.map_or(due, |first| first.min(due)));
    }

    fn write_pod_events(&mut self, now: Instant) {
        if self.pod_events_due.is_none_or(|due| due > now) {
            return;
        }
        let Control { pod_events, state, ctx, .. } = self;
        pod_events.retain(|node, event| {
            if event.due > now {
                return true;
            }
            if let Some(view) = state.nodes.get(node)
                && let [claim] = state.claim_of(view).as_slice()
            {
                let (ctx, claim, time) = (ctx.clone(), claim.clone(), event.time.clone());
                tokio::spawn(async move {
                    if let Err(error) = lifecycle::pod_event(&ctx, &claim, &time).await {
                        tracing::debug!(%error, "lastPodEventTime was not written; the next pod does it");
                    }
                });
            }
            false
        });
        self.pod_events_due = self.pod_events.values().map(|event| event.due).min();
    }

    fn report(&mut self, report: Done) {
        self.changed = true;
        match report {
            Done::Step(what, outcome) => {
                let failures = self.jobs.ended(&what, &outcome, Instant::now());
                if let (Some(failures), Err(error)) = (failures, outcome) {
                    tracing::warn!(?what, %error, failures, "not done yet; trying again");
                }
            }
            Done::Round(round) => self.decided(*round),
            Done::Written(claims, failed) => {
                if !mutant("ignores-awaited") {
                    self.awaited.extend(claims.into_iter().filter(|name| !self.state.claims.contains_key(name)));
                }
                self.awaited_since = Instant::now();
                self.planning = false;
                if failed > 0 {
                    self.timetable.came(Instant::now());
                }
            }
            Done::Collected => self.collecting = false,
            Done::Explained => self.planning = false,
        }
    }

    /// When to wake up if nothing arrives.
    fn next(&self, now: Instant) -> Instant {
        let mut next = now + GARBAGE;
        let mut by = |at: Option<Instant>| next = at.map_or(next, |at| next.min(at));
        if !self.ctx.leadership.is_permanent() {
            by(Some(now + LEADER));
        }
        by(self.changed.then(|| self.shown + SHOW));
        if self.led && self.state.synced() {
            by(self.jobs.next());
            by(self.hints.next());
            by(Some(self.last_garbage + GARBAGE).filter(|_| !self.collecting));
            by(self.pools_changed.then(|| self.last_pools + POOLS));
            by(self.pod_events_due);
            if !self.planning {
                by(self.next_round());
            }
        }
        next.max(now)
    }

    /// When the next round may be made.
    fn next_round(&self) -> Option<Instant> {
        let closes = self.timetable.next(self.hints.any(), self.waits())?;
        let echo = if self.awaited.is_empty() { closes } else { self.awaited_since + ECHO };
        Some(closes.max(echo))
    }

    /// Whether there is anything to plan for.
    fn waits(&self) -> bool {
        self.state.pending() > 0 || self.state.any_node_leaves()
    }

    /// Does what is due.
    fn turn(&mut self, now: Instant) {
        let leads = self.ctx.leadership.holds();
        let synced = self.state.synced();
        if self.changed && now >= self.shown + SHOW {
            self.show(synced, leads, now);
        }
        if synced && !self.planning {
            self.answer();
        }
        if !synced || !leads {
            self.led &= leads;
            return;
        }
        if !self.led {
            self.led = true;
            self.take_over(now);
        }
        let mut told = Vec::new();
        let changes = self.state.waits_changed();
        if !changes.is_empty() {
            for (pod, nominated) in &changes {
                match nominated {
                    Some(nominated) => {
                        self.hints.seen(pod, *nominated, now);
                        self.decisions.waits(pod, self.ctx.now());
                    }
                    None => {
                        self.hints.gone(pod);
                        if self.state.has_pod(pod) {
                            self.timetable.moved(now);
                        }
                    }
                }
            }
            let state = &self.state;
            told = self.hints.advance(|pod| state.waits(pod));
            self.tell_again();
        }
        self.tell(told);
        self.drop_stale_hints(now);
        if self.pools_changed && now >= self.last_pools + POOLS {
            (self.pools_changed, self.last_pools) = (false, now);
            let names: Vec<String> = self.state.pools.keys().cloned().collect();
            names.into_iter().for_each(|name| self.jobs.touch(Touched::Pool(name), now));
        }
        if !self.collecting && now >= self.last_garbage + GARBAGE {
            self.last_garbage = now;
            self.collect();
        }
        self.write_pod_events(now);
        while let Some(what) = self.jobs.take(now) {
            self.start(what, now);
        }
        if !self.planning && self.next_round().is_some_and(|at| at <= now) {
            self.plan(now);
        }
    }

    /// What a leader does first: everything is looked at once.
    fn take_over(&mut self, now: Instant) {
        let claims: Vec<String> = self.state.claims.keys().cloned().collect();
        let nodes: Vec<String> = self.state.nodes.keys().cloned().collect();
        claims.into_iter().for_each(|name| self.touch(Touched::Claim(name), now));
        nodes.into_iter().for_each(|name| self.touch(Touched::Node(name), now));
        self.timetable.came(now);
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
            Touched::Claim(name) => {
                let claim = self.state.claims.get(name);
                let version = claim.and_then(|c| c.metadata.resource_version.as_deref());
                if claim.is_some() && self.ctx.written.is_newer_than(name, version) {
                    // What we wrote has not come back yet: to go on from the version before would do it twice.
                    self.jobs.postpone(what, now + ECHO);
                    return;
                }
                self.work_on_claim(name, now)
            }
            Touched::Node(name) => self.work_on_node(name),
            Touched::Pool(name) => self.work_on_pool(name),
            Touched::Pending | Touched::PodEvent(_) => None,
        };
        let Some(work) = work else {
            self.jobs.forget(&what);
            return;
        };
        let done = self.done.clone();
        tokio::spawn(async move {
            let outcome = work.await;
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
            let state = &self.state;
            let pods = planned_for(&self.expected, name, &claim).filter(|planned| state.waits(planned.pod));
            hints = self.hints.plan(&node.name, pods);
        }
        let ctx = self.ctx.clone();
        Some(Box::pin(async move { lifecycle::step(&ctx, &claim, &nodes, hold, hints).await }))
    }

    fn work_on_node(&self, name: &str) -> Option<Work> {
        let node = self.state.nodes.get(name).filter(|n| n.deletion.is_some()).cloned()?;
        let claims = self.state.claim_of(&node);
        let ctx = self.ctx.clone();
        Some(Box::pin(async move { termination::step(&ctx, &node, &claims).await }))
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
        self.awaited.clear();
        self.timetable.close();
        if !self.waits() {
            return;
        }
        self.planning = true;
        self.timetable.begin(now);
        self.rounds += 1;
        let (clock, number) = (self.ctx.clock, self.rounds);
        self.learn();
        self.how.journal.began(clock.now().as_millisecond(), number, self.state.revision);
        let world = self.world();
        if self.how.inline {
            let round = round::decide(&self.how, clock, number, world);
            self.decided(round);
            return;
        }
        let (how, done) = (self.how.clone(), self.done.clone());
        tokio::task::spawn_blocking(move || {
            let round = round::decide(&how, clock, number, world);
            let _ = done.blocking_send(Done::Round(Box::new(round)));
        });
    }

    /// What a round plans from: the cluster as it is, and what is known of the pods that wait in it.
    fn world(&self) -> World {
        let mut world = self.state.world();
        self.foresee(&mut world);
        self.assign(&mut world);
        world.now = self.ctx.now().as_second();
        world
    }

    fn asked(&mut self, ask: Ask) {
        match ask {
            Ask::Pod { pod, reply } => self.asks.push_back((pod, reply)),
            Ask::Picture(reply) if self.led => drop(reply.send(self.picture())),
            Ask::Picture(_) => {}
        }
    }

    /// The cluster as metrics tell of it.
    fn picture(&self) -> Picture {
        let coming = self.state.claims.values().filter(|claim| {
            claim.metadata.deletion_timestamp.is_none()
                && !claim.status.as_ref().is_some_and(|status| is_true(status, "Registered"))
        });
        let planned = coming.flat_map(|claim| planned_pods(claim)).map(|planned| planned.pod);
        let more = self.expected.values().flatten().map(|(pod, _)| pod.as_str());
        let expected: BTreeSet<&str> = planned.chain(more).filter(|pod| self.state.waits(pod)).collect();
        let deciding = self.timetable.last().filter(|_| self.planning).map(|began| began.elapsed());
        Picture {
            now: self.ctx.now(),
            queue: self.state.pending() - expected.len(),
            deciding,
            decisions: self.decisions.clone(),
            ..self.state.picture(&(self.how.catalogue)())
        }
    }

    /// Answers who asks about a pod, between two rounds: it plans as a round would, and nothing comes of it.
    fn answer(&mut self) {
        let Some((pod, reply)) = self.asks.pop_front() else { return };
        self.planning = true;
        let world = self.world();
        let (how, done) = (self.how.clone(), self.done.clone());
        tokio::task::spawn_blocking(move || {
            let _ = reply.send(round::explain(&how, world, &pod));
            let _ = done.blocking_send(Done::Explained);
        });
    }

    /// What the configuration says to whoever folds what is seen. To be called between two rounds.
    fn learn(&mut self) {
        self.state.foresees = self.how.manager.take().planning().new_pods.unwrap_or_default() == NewPods::Foresee;
    }

    /// Marks pods that kube-scheduler will find no node for, if the plan finds none: it takes its time over a thousand,
    /// and their nodes can be on their way by then. Not those that could preempt others.
    fn foresee(&self, world: &mut World) {
        if !self.state.any_fresh() {
            return;
        }
        let priority = |world: &World, at: usize| world.shapes.get(world.pods[at].shape).priority;
        let run = (0..world.pods.len()).filter(|&at| world.pods[at].node.is_some() && !world.pods[at].terminal);
        let lowest = run.map(|at| priority(world, at)).min();
        for at in 0..world.pods.len() {
            let pod = &world.pods[at];
            let new =
                pod.node.is_none() && !pod.unschedulable && self.state.is_fresh(&pod_name(world, PodIx(at as u32)));
            let preempts = lowest.is_some_and(|lowest| priority(world, at) > lowest);
            world.pods[at].foreseen = new && !preempts;
        }
    }

    /// Counts pods to the claims that they were planned for, until nodes have taken them or should have: to the one that is
    /// still to come, and to the newest, for they are planned again if others have taken their place.
    fn assign(&self, world: &mut World) {
        if mutant("forgets-planned") {
            return;
        }
        let now = self.ctx.now().as_second();
        let mut host_of: HashMap<&str, (bool, i64, &str)> = HashMap::new();
        for (name, claim) in &self.state.claims {
            let status = claim.status.as_ref();
            let registered = status.and_then(|s| condition(&s.conditions, "Registered"));
            let joined = registered.filter(|c| c.status == ConditionStatus::True);
            let late = joined.is_some_and(|c| now - c.last_transition_time.0.as_second() > HINT.as_secs() as i64);
            if late || claim.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let id = status.map(|s| s.provider_id.as_str()).filter(|id| !id.is_empty());
            let node = id.and_then(|id| self.state.node_name_of(id)).unwrap_or(name);
            let planned = planned_for(&self.expected, name, claim).map(|planned| planned.pod);
            let created = claim.metadata.creation_timestamp.as_ref().map_or(0, |t| t.0.as_second());
            let this = (joined.is_none(), created, node);
            for pod in planned.filter(|pod| self.state.waits(pod)) {
                let host = host_of.entry(pod).or_insert(this);
                *host = this.max(*host);
            }
        }
        if host_of.is_empty() {
            return;
        }
        for at in 0..world.pods.len() {
            let pod = &world.pods[at];
            if pod.node.is_some() || !(pod.unschedulable || pod.foreseen) {
                continue;
            }
            // Told of a node that is going, it was planned for another one since.
            let told = pod.nominated.is_some_and(|node| self.stays(world.names.text(node)));
            let full = pod_name(world, PodIx(at as u32));
            if let Some(&(to_come, _, host)) = host_of.get(full.as_str())
                && (to_come || !told)
            {
                world.pods[at].nominated = Some(world.names.intern(host));
            }
        }
    }

    /// Whether a node, or a claim that will be one, is there and is not on its way out.
    fn stays(&self, name: &str) -> bool {
        let claim_stays = |claim: &NodeClaim| claim.metadata.deletion_timestamp.is_none();
        match self.state.nodes.get(name) {
            Some(node) => node.deletion.is_none() && self.state.claim_of(node).iter().all(|claim| claim_stays(claim)),
            None => self.state.claims.get(name).is_some_and(|claim| claim_stays(claim)),
        }
    }

    /// Carries a plan out: claims are written, pods told where they are expected, and those left over why.
    fn decided(&mut self, round: Round) {
        let Round { snapshot, plan, mut free, took } = round;
        self.ctx.metrics.scheduling.with_label_values(&["provisioner"]).observe(took.as_secs_f64());
        let mut plan = match plan {
            Ok(plan) => plan,
            Err(why) => {
                tracing::error!(why, "the plan breaks a rule and is dropped: a defect, please report it");
                self.ctx.metrics.rounds.with_label_values(&["rejected"]).inc();
                self.planning = false;
                return;
            }
        };
        if let Some(violation) = plan.replaced.first() {
            tracing::error!(
                %violation,
                "a cheaper plan broke a rule, first-fit-decreasing stands in: a defect, please report it"
            );
            self.ctx.metrics.rounds.with_label_values(&["replaced"]).inc();
        }
        let outcome = if plan.claims.is_empty() { "nothing" } else { "bought" };
        self.ctx.metrics.rounds.with_label_values(&[outcome]).inc();
        self.ctx.metrics.unschedulable(plan.unplaced.len());
        let ignored = plan.unplaced.iter().filter(|left| left.refusals.iter().any(|r| r.unfit.is_of_the_pod()));
        self.ctx.metrics.ignored(ignored.count());
        if !plan.claims.is_empty() {
            self.ctx.metrics.plan_cost.set(plan.effective);
            self.ctx.metrics.plan_bound.set(plan.lower_bound);
        }
        in_order(&snapshot, &mut plan, &mut free, |pod| self.state.queued(&pod_name(&snapshot.world, pod)));
        self.note_decisions(&snapshot, &plan);
        self.tell_leftovers(&snapshot, &plan);
        self.tell_barren(&snapshot, &plan);
        self.hint(&snapshot, &plan);
        // Time and count name a round: no other process makes one at the same second, for only one leads.
        let name = format!("{}-{}", snapshot.world.now, self.rounds);
        let wanted = wanted(&snapshot, &plan, &free, &self.state.pools, &name);
        self.last_plan = json!({
            "milliseconds": took.as_millis() as u64, "cost": plan.cost, "effective": plan.effective,
            "lowerBound": plan.lower_bound, "claims": wanted.len(), "left": plan.unplaced.len(),
            "pods": snapshot.pending.len(),
        });
        if !wanted.is_empty() || !plan.unplaced.is_empty() {
            tracing::info!(
                pods = snapshot.pending.len(),
                claims = wanted.len(),
                existing = plan.existing.iter().map(|e| e.pods.len()).sum::<usize>(),
                left = plan.unplaced.len(),
                cost = plan.cost,
                milliseconds = took.as_millis() as u64,
                "planned"
            );
        }
        if wanted.is_empty() {
            self.planning = false;
            return;
        }
        let (ctx, done) = (self.ctx.clone(), self.done.clone());
        tokio::spawn(async move {
            let (written, failed) = round::write_all(&ctx, wanted).await;
            let told: Vec<(String, String)> = written
                .iter()
                .flat_map(|(claim, pods)| pods.iter().map(|pod| (pod.clone(), claim.clone())))
                .take(NOMINATED_EVENTS)
                .collect();
            let _ = done.send(Done::Written(written.into_iter().map(|w| w.0).collect(), failed)).await;
            for (pod, claim) in told {
                ctx.events.pod(&pod, false, "Nominated", &format!("Pod should schedule on: nodeclaim/{claim}")).await;
            }
        });
    }

    /// Notes when pods were decided about.
    fn note_decisions(&mut self, snapshot: &Snapshot, plan: &Plan) {
        let now = self.ctx.now();
        let left: BTreeSet<PodIx> = plan.unplaced.iter().map(|left| left.pod).collect();
        for pending in &snapshot.pending {
            let pod = pod_name(&snapshot.world, pending.pod);
            if let Some(seconds) = self.decisions.decided(&pod, !left.contains(&pending.pod), now) {
                self.ctx.metrics.decided(seconds);
            }
        }
    }

    fn tell_leftovers(&self, snapshot: &Snapshot, plan: &Plan) {
        let mut waiting = BTreeMap::new();
        // Of the others kube-scheduler speaks first.
        let given_up = |pod: PodIx| !snapshot.world.pods[pod.0 as usize].foreseen;
        for unplaced in plan.unplaced.iter().filter(|unplaced| given_up(unplaced.pod)) {
            let pod = pod_name(&snapshot.world, unplaced.pod);
            let Leftover { message, .. } = report::leftover(snapshot, unplaced);
            waiting.insert(pod, message);
        }
        let ctx = self.ctx.clone();
        let told: Vec<(String, String)> = waiting.iter().take(50).map(|(p, m)| (p.clone(), m.clone())).collect();
        lock(&self.board).waiting = waiting;
        if told.is_empty() {
            return;
        }
        tokio::spawn(async move {
            for (pod, why) in told {
                ctx.events.pod(&pod, true, "FailedScheduling", &format!("Failed to schedule pod, {why}")).await;
            }
        });
    }

    /// Says which NodePools nothing can be bought for: in the log when that changes, in Events as long as it is so.
    fn tell_barren(&mut self, snapshot: &Snapshot, plan: &Plan) {
        if snapshot.pending.is_empty() {
            return;
        }
        let found = report::nothing_to_buy(snapshot, plan);
        for (pool, why) in found.iter().filter(|(pool, why)| self.barren.get(*pool) != Some(why)) {
            tracing::warn!(nodepool = pool, why, "nothing can be bought for a NodePool");
        }
        let name = |pool: PoolIx| snapshot.world.names.text(snapshot.world.pools[pool.0 as usize].name);
        let spoiled = snapshot.unusable_pools.iter().filter(|(_, why)| matches!(why, Unusable::Spoiled(_)));
        let spoiled = spoiled.map(|&(pool, _)| (name(pool), "NodesTaintedByOthers", ""));
        let filtered = "NodePool requirements filtered out all instance types: ";
        let barren = plan.barren.iter().map(|barren| (name(barren.pool), "NoCompatibleInstanceTypes", filtered));
        for (name, reason, words) in spoiled.chain(barren) {
            let Some((pool, why)) = self.state.pools.get(name).cloned().zip(found.get(name)) else { continue };
            let (ctx, message) = (self.ctx.clone(), format!("{words}{why}"));
            tokio::spawn(async move { ctx.events.pool(&pool, true, reason, &message).await });
        }
        self.barren = found;
    }

    /// Tells kube-scheduler about pods that nodes with room are meant for, remembers those of nodes on their way, and
    /// takes back what it was told of any before.
    fn hint(&mut self, snapshot: &Snapshot, plan: &Plan) {
        let world = &snapshot.world;
        let bought = plan.claims.iter().flat_map(|claim| &claim.pods);
        let planned = bought.chain(plan.existing.iter().flat_map(|placement| &placement.pods));
        let planned = planned.map(|&pod| pod_name(world, pod));
        let mut anew: BTreeSet<String> = planned.filter(|pod| self.hints.planned_anew(pod)).collect();
        let mut hints = Vec::new();
        for placement in &plan.existing {
            let name = world.names.text(snapshot.nodes[placement.node.0 as usize].name);
            let pods: Vec<(String, Option<u32>)> =
                placement.pods.iter().map(|&pod| (pod_name(world, pod), group_of(world, pod))).collect();
            if self.state.nodes.get(name).is_some_and(|n| n.is_registered()) {
                // Those that kube-scheduler has not looked at yet it will place by itself.
                let given_up = pods.iter().filter(|(pod, _)| !self.state.is_fresh(pod));
                hints.extend(
                    self.hints.plan(name, given_up.map(|(pod, group)| Planned { pod, group: *group, told: true })),
                );
            } else if self.state.claims.contains_key(name) {
                let expected = self.expected.entry(name.to_owned()).or_default();
                expected.retain(|(pod, _)| !pods.iter().any(|(new, _)| new == pod));
                expected.extend(pods);
            }
        }
        anew.retain(|pod| !hints.iter().any(|(told, _)| told == pod));
        self.take_back(anew.into_iter().collect());
        self.tell(hints);
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
        let claims: Vec<Arc<NodeClaim>> = self.state.claims.values().cloned().collect();
        let ready: BTreeSet<String> =
            self.state.nodes.values().filter(|n| n.is_ready()).map(|n| n.provider_id.clone()).collect();
        let (ctx, done) = (self.ctx.clone(), self.done.clone());
        tokio::spawn(async move {
            if let Err(error) = garbage::collect(&ctx, &claims, &ready).await {
                tracing::warn!(%error, "garbage was not collected; trying again in two minutes");
            }
            let _ = done.send(Done::Collected).await;
        });
    }

    fn show(&mut self, synced: bool, leads: bool, now: Instant) {
        (self.changed, self.shown) = (false, now);
        let pools = &self.state.pools;
        self.barren.retain(|name, _| pools.contains_key(name));
        self.ctx.metrics.leads.set(i64::from(leads));
        self.ctx.metrics.synced.set(i64::from(synced));
        let unsynced = if synced { 0 } else { now.duration_since(self.began).as_secs() };
        self.ctx.metrics.unsynced.set(unsynced as i64);
        self.ctx.metrics.nodes.set(self.state.nodes.len() as i64);
        let mut board = lock(&self.board);
        board.synced = synced;
        board.waiting.retain(|pod, _| self.state.waits(pod));
        let waiting = grouped(&board.waiting);
        let policies = board.policies.clone();
        let short = self.ctx.shortages.summary(self.ctx.now().as_second());
        self.ctx.metrics.short(&short);
        let mut troubles: BTreeMap<String, String> =
            self.state.troubles().map(|(kind, why)| (format!("{kind:?}"), why.to_owned())).collect();
        if !board.definitions.is_empty() {
            troubles.insert("definitions".to_owned(), board.definitions.join("; "));
        }
        board.status = json!({
            "synced": synced, "leads": leads, "revision": self.state.revision, "rounds": self.rounds,
            "pods": self.state.pods(), "pending": self.state.pending(), "nodes": self.state.nodes.len(),
            "nodeClaims": self.state.claims.len(), "nodePools": self.state.pools.len(),
            "waiting": waiting, "work": self.jobs.len(), "lastPlan": self.last_plan, "troubles": troubles,
            "withoutCapacity": short.told(), "policies": policies, "barren": self.barren,
        });
    }
}

/// All pods that were planned for a claim, those of its own round first.
fn planned_for<'a>(expected: &'a Expected, name: &str, claim: &'a NodeClaim) -> impl Iterator<Item = Planned<'a>> {
    let more = expected.get(name).into_iter().flatten().map(|(pod, group)| Planned { pod, group: *group, told: true });
    planned_pods(claim).chain(more)
}

/// Most reasons for waiting that are told, and pods that are named for each.
const REASONS: usize = 20;

/// Pods that wait, by why, the reason of most first.
fn grouped(waiting: &BTreeMap<String, String>) -> serde_json::Value {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    waiting.iter().for_each(|(pod, why)| by_reason.entry(why).or_default().push(pod));
    let mut reasons: Vec<_> = by_reason.into_iter().collect();
    reasons.sort_by_key(|(_, pods)| std::cmp::Reverse(pods.len()));
    let told = |(why, pods): (&str, Vec<&str>)| json!({"why": why, "pods": pods.len(), "some": pods.get(..3).unwrap_or(&pods)});
    reasons.into_iter().take(REASONS).map(told).collect()
}
