//! The loop: what is observed is folded in, what it touches is looked at again, and now and then a round plans.
//!
//! One task owns the state; nobody else reads it. Work on one object is done by one task at a time, with copies of what
//! it needs, and what comes of it returns as an observation like any other. A round takes its snapshot only after the
//! NodeClaims that the round before has written have come back by the watch, so that no pod is bought for twice.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kube::api::{Api, Patch, PatchParams, PostParams};
use longshore_api::crd::{ConditionStatus, NodeClaim, NodePool, condition};
use longshore_core::model::{Catalogue, Names, Settings, World};
use longshore_core::plan::{Plan, PodIx};
use longshore_core::planner;
use longshore_core::snapshot::Snapshot;
use serde_json::json;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{MissedTickBehavior, interval};

use super::claims::{Wanted, planned_pods, pod_name, wanted};
use super::context::{Context, back_off, lock};
use super::journal::{Decided, Journal};
use super::kinds::Kind;
use super::lifecycle::{self, Outcome, is_true, launch_of};
use super::policies::Manager;
use super::pools::{self, Class};
use super::serve::SharedBoard;
use super::state::{ClusterState, Touched};
use super::termination;
use super::watch::Change;
use crate::report::{self, Leftover};

/// How rounds are made.
pub struct How {
    pub catalogue: Catalogue,
    /// What the environment says; the configuration's own words win.
    pub settings: Settings,
    /// Who scores, and what the configuration says of planning.
    pub manager: Manager,
    /// Where all of it is written down.
    pub journal: Journal,
    pub idle: Duration,
    pub longest: Duration,
}

/// Work on one object.
#[derive(Default)]
struct Job {
    running: bool,
    again: bool,
    failures: u32,
    due: Option<Instant>,
}

/// What tasks report.
enum Done {
    Step(Touched, Outcome),
    Round(Box<Round>),
    /// Claims that were written, and how many could not be.
    Written(Vec<String>, usize),
    Collected,
}

/// A round that has been decided.
struct Round {
    snapshot: Snapshot,
    plan: Result<Plan, String>,
    took: Duration,
}

const TICK: Duration = Duration::from_millis(100);
const RETRY: Duration = Duration::from_secs(10);
const GARBAGE: Duration = Duration::from_secs(120);
const POOLS: Duration = Duration::from_secs(5);
/// How long kube-scheduler may take over a pod that we have named a node for.
const HINT: Duration = Duration::from_secs(30);
/// How young an instance without a claim may be before it is taken for lost, seconds.
const LEAKED: i64 = 60;
const AT_ONCE: usize = 64;
/// Most pods of a round that get an Event saying where they should go.
const NOMINATED_EVENTS: usize = 50;

/// The loop's own.
pub struct Control {
    ctx: Arc<Context>,
    how: Arc<How>,
    board: SharedBoard,
    state: ClusterState,
    jobs: HashMap<Touched, Job>,
    running: usize,
    done: Sender<Done>,
    window: Option<(Instant, Instant)>,
    planning: bool,
    awaited: BTreeSet<String>,
    awaited_since: Instant,
    last_round: Option<Instant>,
    rounds: u64,
    led: bool,
    collecting: bool,
    last_garbage: Instant,
    last_pools: Instant,
    hinted: HashMap<String, Instant>,
    unhinted: BTreeSet<String>,
    pod_events: HashMap<String, Instant>,
    last_plan: serde_json::Value,
}

/// Runs until the channel of observations closes.
pub async fn run(
    ctx: Arc<Context>,
    how: How,
    names: Names,
    board: SharedBoard,
    mut observations: Receiver<(Kind, Change)>,
) {
    let (done, mut reports) = channel(1024);
    let now = Instant::now();
    let mut control = Control {
        ctx,
        how: Arc::new(how),
        board,
        state: ClusterState::new(names),
        jobs: HashMap::new(),
        running: 0,
        done,
        window: None,
        planning: false,
        awaited: BTreeSet::new(),
        awaited_since: now,
        last_round: None,
        rounds: 0,
        led: false,
        collecting: false,
        last_garbage: now,
        last_pools: now,
        hinted: HashMap::new(),
        unhinted: BTreeSet::new(),
        pod_events: HashMap::new(),
        last_plan: serde_json::Value::Null,
    };
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            observed = observations.recv() => {
                let Some((kind, change)) = observed else { return };
                control.observe(kind, change);
                // Whatever else has arrived belongs to the same moment.
                for _ in 0..4096 {
                    let Ok((kind, change)) = observations.try_recv() else { break };
                    control.observe(kind, change);
                }
                control.go_on();
            }
            Some(report) = reports.recv() => {
                control.report(report);
                control.go_on();
            }
            _ = tick.tick() => control.tick(),
        }
    }
}

impl Control {
    fn observe(&mut self, kind: Kind, change: Change) {
        if let Change::Trouble(why) = &change {
            tracing::warn!(?kind, why, "cannot watch; trying again");
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
        for what in touched {
            match what {
                Touched::Pending => self.open_window(),
                Touched::PodEvent(node) => self.pod_event(&node),
                what => self.touch(what),
            }
        }
    }

    fn touch(&mut self, what: Touched) {
        if let Touched::Claim(name) = &what {
            self.awaited.remove(name);
        }
        let job = self.jobs.entry(what).or_default();
        job.again = true;
        job.due = Some(Instant::now());
    }

    fn open_window(&mut self) {
        let now = Instant::now();
        let opened = self.window.map_or(now, |(opened, _)| opened);
        self.window = Some((opened, now));
    }

    /// Notes on a claim that pods came or went, at most every 10 s.
    fn pod_event(&mut self, node: &str) {
        let Some(view) = self.state.nodes.get(node) else { return };
        let now = Instant::now();
        let quiet = self.pod_events.get(node).is_none_or(|at| now.duration_since(*at) >= Duration::from_secs(10));
        if !quiet || !self.ctx.leadership.holds() {
            return;
        }
        let claims = self.state.claim_of(view);
        let [claim] = claims.as_slice() else { return };
        self.pod_events.insert(node.to_owned(), now);
        let (ctx, claim) = (self.ctx.clone(), claim.clone());
        tokio::spawn(async move {
            let time = lifecycle::rfc3339(ctx.now());
            let api: Api<NodeClaim> = Api::all(ctx.client.clone());
            let name = claim.metadata.name.as_deref().unwrap_or_default();
            let patch = Patch::Merge(json!({"status": {"lastPodEventTime": time}}));
            let _ = api.patch_status(name, &PatchParams::default(), &patch).await;
        });
    }

    fn report(&mut self, report: Done) {
        match report {
            Done::Step(what, outcome) => self.stepped(what, outcome),
            Done::Round(round) => self.decided(*round),
            Done::Written(claims, failed) => {
                self.awaited.extend(claims.into_iter().filter(|name| !self.state.claims.contains_key(name)));
                self.awaited_since = Instant::now();
                self.planning = false;
                if failed > 0 {
                    self.open_window();
                }
            }
            Done::Collected => self.collecting = false,
        }
    }

    fn stepped(&mut self, what: Touched, outcome: Outcome) {
        self.running -= 1;
        let Some(job) = self.jobs.get_mut(&what) else { return };
        job.running = false;
        let next = match outcome {
            Ok(wait) => {
                job.failures = 0;
                wait
            }
            Err(error) => {
                job.failures += 1;
                let wait = back_off(job.failures);
                // Somebody else wrote first: the watch brings the new version in a moment.
                let conflict = error.contains("onflict") || error.contains("cannot be fulfilled");
                let wait = if conflict { Duration::from_millis(200) } else { wait };
                if job.failures > 1 && !conflict {
                    tracing::warn!(?what, %error, failures = job.failures, "not done yet; trying again");
                }
                Some(wait)
            }
        };
        let retry = job.failures > 0;
        let due = next.map(|wait| Instant::now() + wait);
        job.due = match (job.again && !retry, due) {
            (true, _) => Some(Instant::now()),
            (false, due) => due,
        };
        if job.due.is_none() {
            self.jobs.remove(&what);
        }
    }

    /// Starts what is due, if it is ours to start.
    fn go_on(&mut self) {
        if self.led && self.state.synced() && self.ctx.leadership.holds() {
            self.start_due(Instant::now());
        }
    }

    fn tick(&mut self) {
        let now = Instant::now();
        let leads = self.ctx.leadership.holds();
        let synced = self.state.synced();
        self.ctx.metrics.leads.set(i64::from(leads));
        self.ctx.metrics.synced.set(i64::from(synced));
        self.ctx.metrics.nodes.set(self.state.nodes.len() as i64);
        self.show(synced, leads);
        if !synced || !leads {
            self.led &= leads;
            return;
        }
        if !self.led {
            self.led = true;
            self.take_over();
        }
        if now.duration_since(self.last_pools) >= POOLS {
            self.last_pools = now;
            let names: Vec<String> = self.state.pools.keys().cloned().collect();
            names.into_iter().for_each(|name| self.touch(Touched::Pool(name)));
        }
        if now.duration_since(self.last_garbage) >= GARBAGE && !self.collecting {
            self.last_garbage = now;
            self.collect();
        }
        if self.state.waiting_changed() {
            let all = self.state.pending_pods().map(|(pod, _)| pod.into()).collect();
            *lock(&self.ctx.waiting) = Arc::new(all);
        }
        self.start_due(now);
        self.drop_stale_hints(now);
        self.maybe_plan(now);
    }

    /// What a leader does first: everything is looked at once.
    fn take_over(&mut self) {
        let claims: Vec<String> = self.state.claims.keys().cloned().collect();
        let nodes: Vec<String> = self.state.nodes.keys().cloned().collect();
        claims.into_iter().for_each(|name| self.touch(Touched::Claim(name)));
        nodes.into_iter().for_each(|name| self.touch(Touched::Node(name)));
        self.open_window();
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

    fn start_due(&mut self, now: Instant) {
        let mut due: Vec<Touched> = Vec::new();
        for (what, job) in &self.jobs {
            if !job.running && job.due.is_some_and(|at| at <= now) {
                due.push(what.clone());
            }
        }
        due.sort();
        for what in due {
            if self.running >= AT_ONCE {
                return;
            }
            self.start(what);
        }
    }

    fn start(&mut self, what: Touched) {
        let ctx = self.ctx.clone();
        let work: Option<futures::future::BoxFuture<'static, Outcome>> = match &what {
            Touched::Claim(name) => self.state.claims.get(name).cloned().map(|claim| {
                let id = claim.status.as_ref().map(|s| s.provider_id.clone()).unwrap_or_default();
                let nodes = if id.is_empty() { Vec::new() } else { self.state.nodes_of(&id) };
                let work: futures::future::BoxFuture<'static, Outcome> =
                    Box::pin(async move { lifecycle::step(&ctx, &claim, &nodes).await });
                work
            }),
            Touched::Node(name) => {
                let leaving = self.state.nodes.get(name).filter(|n| n.deletion.is_some()).cloned();
                leaving.map(|node| {
                    let claims = self.state.claim_of(&node);
                    let work: futures::future::BoxFuture<'static, Outcome> =
                        Box::pin(async move { termination::step(&ctx, &node, &claims).await });
                    work
                })
            }
            Touched::Pool(name) => self.state.pools.get(name).cloned().map(|pool| {
                let class = self.class_of(&pool);
                let own = |labels: Option<&BTreeMap<String, String>>| {
                    labels.and_then(|l| l.get("karpenter.sh/nodepool")) == Some(name)
                };
                let claims =
                    self.state.claims.values().filter(|c| own(c.metadata.labels.as_ref())).cloned().collect::<Vec<_>>();
                let nodes = self.state.nodes.values().filter(|n| own(Some(&n.labels))).cloned().collect::<Vec<_>>();
                let work: futures::future::BoxFuture<'static, Outcome> =
                    Box::pin(async move { pools::step(&ctx, &pool, class, &claims, &nodes).await });
                work
            }),
            Touched::Pending | Touched::PodEvent(_) => None,
        };
        let Some(work) = work else {
            self.jobs.remove(&what);
            return;
        };
        let job = self.jobs.entry(what.clone()).or_default();
        (job.running, job.again, job.due) = (true, false, None);
        self.running += 1;
        let done = self.done.clone();
        tokio::spawn(async move {
            let outcome = work.await;
            let _ = done.send(Done::Step(what, outcome)).await;
        });
    }

    fn class_of(&self, pool: &NodePool) -> Class {
        let class = &pool.spec.template.spec.node_class_ref;
        self.state.class(&class.kind, &class.name)
    }

    fn maybe_plan(&mut self, now: Instant) {
        let waits = self.state.pending() > 0 || self.state.nodes.values().any(|n| n.deletion.is_some());
        if self.window.is_none() && waits && self.last_round.is_none_or(|at| now.duration_since(at) >= RETRY) {
            self.open_window();
        }
        let Some((opened, last)) = self.window else { return };
        let closed = now.duration_since(last) >= self.how.idle || now.duration_since(opened) >= self.how.longest;
        if !closed || self.planning {
            return;
        }
        if !self.awaited.is_empty() && now.duration_since(self.awaited_since) < Duration::from_secs(10) {
            return;
        }
        self.awaited.clear();
        self.window = None;
        if !waits {
            return;
        }
        self.planning = true;
        self.last_round = Some(now);
        self.rounds += 1;
        let (round, ctx) = (self.rounds, self.ctx.clone());
        self.how.journal.began(ctx.now().as_millisecond(), round, self.state.revision);
        let mut world = self.state.world();
        self.assign(&mut world);
        world.now = self.ctx.now().as_second();
        world.settings = self.how.settings.clone();
        let (how, done) = (self.how.clone(), self.done.clone());
        tokio::task::spawn_blocking(move || {
            let begun = Instant::now();
            let live = how.manager.take();
            live.begin_round(world.now);
            let planning = live.planning();
            world.settings.preferences = planning.preferences.unwrap_or(how.settings.preferences);
            world.settings.min_values = planning.min_values.unwrap_or(how.settings.min_values);
            world.settings.node_cost = planning.node_cost.unwrap_or(how.settings.node_cost);
            let options =
                planner::Options { effort: planning.improve.unwrap_or_default(), seed: planning.seed.unwrap_or(0) };
            world.catalogue = how.catalogue.clone();
            let snapshot = Snapshot::new(Arc::new(world));
            let plan = planner::plan(&snapshot, &*live, options);
            if let Ok(plan) = &plan {
                how.manager.finish(&live, &snapshot, plan);
            }
            let plan = plan.map_err(|rejected| format!("{:?}", rejected.violations));
            how.journal.decided(Decided {
                time: ctx.now().as_millisecond(),
                round,
                live: &live,
                snapshot: &snapshot,
                options,
                plan: plan.as_ref().map_err(String::as_str),
                took: begun.elapsed(),
            });
            let round = Round { snapshot, plan, took: begun.elapsed() };
            let _ = done.blocking_send(Done::Round(Box::new(round)));
        });
    }

    /// Counts pods to the claims that they were planned for, until nodes have taken them or should have.
    fn assign(&self, world: &mut World) {
        let now = self.ctx.now().as_second();
        let mut host_of: HashMap<&str, &str> = HashMap::new();
        let expected = lock(&self.ctx.expected);
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
            let more = expected.get(name).into_iter().flatten().map(String::as_str);
            for pod in planned_pods(claim).chain(more).filter(|pod| self.state.waits(pod)) {
                host_of.insert(pod, node);
            }
        }
        if host_of.is_empty() {
            return;
        }
        for at in 0..world.pods.len() {
            let pod = &world.pods[at];
            if pod.node.is_some() || pod.nominated.is_some() || !pod.unschedulable {
                continue;
            }
            let full = pod_name(world, PodIx(at as u32));
            if let Some(host) = host_of.get(full.as_str()) {
                world.pods[at].nominated = Some(world.names.intern(host));
            }
        }
    }

    /// Carries a plan out: claims are written, pods told where they are expected, and those left over why.
    fn decided(&mut self, round: Round) {
        let Round { snapshot, plan, took } = round;
        self.ctx.metrics.scheduling.with_label_values(&["provisioner"]).observe(took.as_secs_f64());
        let plan = match plan {
            Ok(plan) => plan,
            Err(why) => {
                tracing::error!(why, "the plan breaks a rule and is dropped: a defect, please report it");
                self.ctx.metrics.rounds.with_label_values(&["rejected"]).inc();
                self.planning = false;
                return;
            }
        };
        let outcome = if plan.claims.is_empty() { "nothing" } else { "bought" };
        self.ctx.metrics.rounds.with_label_values(&[outcome]).inc();
        self.ctx.metrics.unschedulable.set(plan.unplaced.len() as i64);
        if !plan.claims.is_empty() {
            self.ctx.metrics.plan_cost.set(plan.effective);
            self.ctx.metrics.plan_bound.set(plan.lower_bound);
        }
        self.tell_leftovers(&snapshot, &plan);
        self.hint_existing(&snapshot, &plan);
        let wanted = wanted(&snapshot, &plan, &self.state.pools);
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
        let (ctx, done) = (self.ctx.clone(), self.done.clone());
        tokio::spawn(async move {
            let (written, failed) = write_all(&ctx, wanted).await;
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

    fn tell_leftovers(&self, snapshot: &Snapshot, plan: &Plan) {
        let mut waiting = BTreeMap::new();
        for unplaced in &plan.unplaced {
            let pod = pod_name(&snapshot.world, unplaced.pod);
            let Leftover { message, .. } = report::leftover(snapshot, unplaced);
            waiting.insert(pod, message);
        }
        let ctx = self.ctx.clone();
        let told: Vec<(String, String)> = waiting.iter().take(50).map(|(p, m)| (p.clone(), m.clone())).collect();
        lock(&self.board).waiting = waiting;
        tokio::spawn(async move {
            for (pod, why) in told {
                ctx.events.pod(&pod, true, "FailedScheduling", &format!("Failed to schedule pod, {why}")).await;
            }
        });
    }

    /// Tells kube-scheduler about pods that nodes with room are meant for, and remembers those of nodes on their way.
    fn hint_existing(&mut self, snapshot: &Snapshot, plan: &Plan) {
        let world = &snapshot.world;
        let now = Instant::now();
        let mut hints: Vec<(String, String)> = Vec::new();
        for placement in &plan.existing {
            let name = world.names.text(snapshot.nodes[placement.node.0 as usize].name);
            let pods = placement.pods.iter().map(|&pod| pod_name(world, pod)).filter(|p| !self.unhinted.contains(p));
            let pods: Vec<String> = pods.collect();
            if self.state.nodes.get(name).is_some_and(|n| n.labels.contains_key("karpenter.sh/registered")) {
                for pod in &pods {
                    self.hinted.insert(pod.clone(), now);
                }
                hints.extend(pods.into_iter().map(|pod| (pod, name.to_owned())));
            } else if self.state.claims.contains_key(name) {
                lock(&self.ctx.expected).insert(name.to_owned(), pods);
            }
        }
        if !hints.is_empty() {
            let ctx = self.ctx.clone();
            tokio::spawn(async move { ctx.nominate_all(hints).await });
        }
    }

    /// Takes back hints that kube-scheduler did not follow, so that those pods are planned for again.
    fn drop_stale_hints(&mut self, now: Instant) {
        for (pod, nominated) in self.state.pending_pods() {
            if nominated && !self.hinted.contains_key(pod) {
                self.hinted.insert(pod.to_owned(), now);
            }
        }
        let state = &self.state;
        self.hinted.retain(|pod, _| state.waits(pod));
        self.unhinted.retain(|pod| state.waits(pod));
        let stale: Vec<String> =
            self.hinted.iter().filter(|(_, at)| now.duration_since(**at) >= HINT).map(|(pod, _)| pod.clone()).collect();
        for pod in stale {
            self.hinted.remove(&pod);
            self.unhinted.insert(pod.clone());
            let ctx = self.ctx.clone();
            tokio::spawn(async move {
                let Some((namespace, name)) = pod.split_once('/') else { return };
                let api: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(ctx.plain.clone(), namespace);
                let patch = Patch::Strategic(json!({"status": {"nominatedNodeName": null}}));
                let _ = api.patch_status(name, &PatchParams::default(), &patch).await;
            });
        }
    }

    /// Garbage, both ways: claims whose instance is gone, and instances whose claim is.
    fn collect(&mut self) {
        self.collecting = true;
        let claims: Vec<Arc<NodeClaim>> = self.state.claims.values().cloned().collect();
        let ready: BTreeSet<String> =
            self.state.nodes.values().filter(|n| n.ready == Some(true)).map(|n| n.provider_id.clone()).collect();
        let (ctx, done) = (self.ctx.clone(), self.done.clone());
        tokio::spawn(async move {
            if let Err(error) = collect(&ctx, &claims, &ready).await {
                tracing::warn!(%error, "garbage was not collected; trying again in two minutes");
            }
            let _ = done.send(Done::Collected).await;
        });
    }

    fn show(&self, synced: bool, leads: bool) {
        let mut board = lock(&self.board);
        board.synced = synced;
        let policies = board.policies.clone();
        let troubles: BTreeMap<String, &str> =
            self.state.troubles().map(|(kind, why)| (format!("{kind:?}"), why)).collect();
        board.status = json!({
            "synced": synced, "leads": leads, "revision": self.state.revision, "rounds": self.rounds,
            "pods": self.state.pods(), "pending": self.state.pending(), "nodes": self.state.nodes.len(),
            "nodeClaims": self.state.claims.len(), "nodePools": self.state.pools.len(),
            "work": self.jobs.len(), "lastPlan": self.last_plan, "troubles": troubles,
            "policies": policies,
        });
    }
}

/// Creates claims, several at a time. Returns those created with their pods, and how many failed.
async fn write_all(ctx: &Arc<Context>, wanted: Vec<Wanted>) -> (Vec<(String, Vec<String>)>, usize) {
    let total = wanted.len();
    let one = |want: Wanted| async move {
        ctx.may_write().ok()?;
        let api: Api<NodeClaim> = Api::all(ctx.client.clone());
        let object: NodeClaim = serde_json::from_value(want.object).ok()?;
        match api.create(&PostParams::default(), &object).await {
            Ok(made) => {
                let name = made.metadata.name.unwrap_or_default();
                tracing::info!(
                    nodeclaim = name,
                    nodepool = want.pool,
                    pods = want.pods.len(),
                    want.words,
                    "created NodeClaim"
                );
                ctx.metrics.claim_created(&want.pool, want.relaxed);
                Some((name, want.pods))
            }
            Err(error) => {
                tracing::error!(nodepool = want.pool, %error, "a NodeClaim could not be created");
                None
            }
        }
    };
    let made: Vec<_> = futures::stream::iter(wanted).map(one).buffer_unordered(16).collect().await;
    let made: Vec<(String, Vec<String>)> = made.into_iter().flatten().collect();
    let failed = total - made.len();
    (made, failed)
}

async fn collect(ctx: &Context, claims: &[Arc<NodeClaim>], ready: &BTreeSet<String>) -> Result<(), String> {
    ctx.may_write()?;
    let instances = ctx.provider.list().await.map_err(|e| e.to_string())?;
    let there: BTreeSet<&str> = instances.iter().map(|i| i.provider_id.as_str()).collect();
    for claim in claims.iter().filter(|c| c.metadata.deletion_timestamp.is_none()) {
        let Some(status) = &claim.status else { continue };
        if is_true(status, "Registered")
            && !there.contains(status.provider_id.as_str())
            && !ready.contains(&status.provider_id)
        {
            let name = claim.metadata.name.as_deref().unwrap_or_default();
            tracing::info!(nodeclaim = name, "its instance is gone; deleting NodeClaim");
            ctx.metrics.disrupted("garbage_collected", lifecycle::pool_of(claim));
            let api: Api<NodeClaim> = Api::all(ctx.client.clone());
            let _ = api.delete(name, &kube::api::DeleteParams::default()).await;
        }
    }
    // Asked anew: a claim may have been made since.
    let api: Api<NodeClaim> = Api::all(ctx.client.clone());
    let known = api.list_metadata(&kube::api::ListParams::default()).await.map_err(|e| e.to_string())?;
    let uids: BTreeSet<&str> = known.items.iter().filter_map(|c| c.metadata.uid.as_deref()).collect();
    for instance in &instances {
        let Some(uid) = instance.claim_uid.as_deref().filter(|uid| !uids.contains(uid)) else { continue };
        if instance.created > 0 && ctx.now().as_second() - instance.created > LEAKED {
            tracing::warn!(provider_id = instance.provider_id, uid, "an instance without NodeClaim; deleting it");
            let _ = ctx.provider.delete(&instance.provider_id).await;
        }
    }
    Ok(())
}
