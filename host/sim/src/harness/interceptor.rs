//! Shared state of everything between a process and its world: live processes, counts of requests,
//! faults.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::points::{Kill, Point, Strike, When};
use super::setup::Setup;
use longshore_simcluster::clock::Clock;
use longshore_simcluster::cloud::Cloud;
use longshore_simcluster::faults::{FaultAction, MAX_LIST_AGE, RequestFaults, unit, writes};
use longshore_simcluster::fields;
use longshore_simcluster::keyed_rng::KeyedRng;
use longshore_simcluster::log::{Log, clock_text};
use longshore_simcluster::object::Resource;
use longshore_simcluster::server::resources::LEASE;
use longshore_simcluster::server::{RequestInfo, Server, Verdict, Whose};
use longshore_simcluster::world::World;

/// What becomes of a call of the cloud's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Go,
    Fail,
    /// The process is dead, or dies now.
    Never,
    /// It dies once the call has been sent.
    During,
    /// It dies when the answer is there.
    After,
    /// The process lives, and the call does not go well.
    Struck(Strike),
}

/// Which watches: of one process or all, of one kind or all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watches {
    /// Picks one of the processes that are there then.
    pub process: Option<u64>,
    /// What is watched.
    pub kind: Option<Resource>,
}

/// Signals to a process.
#[derive(Clone, Default)]
pub(super) struct Signals {
    /// It is gone.
    pub killed: Arc<Notify>,
    /// It is to end.
    pub terminate: Arc<Notify>,
}

/// What is wrong with the cloud, and until when.
#[derive(Default)]
pub(super) struct CloudTrouble {
    /// It lists this share of its instances.
    pub partial: Option<(f64, Duration)>,
    /// It refuses every call.
    pub throttled: Duration,
    pub nothing_ends: Duration,
}

pub(super) struct Interceptor {
    pub clock: Clock,
    pub server: Server,
    pub cloud: Cloud,
    pub log: Log,
    pub elects: bool,
    keeps: bool,
    seed: u64,
    /// When clocks of processes are set anew.
    jumps: Vec<Duration>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Live processes, and wakers for their ends.
    alive: BTreeMap<String, Signals>,
    processes: u32,
    faults: RequestFaults,
    kill: Option<Kill>,
    strike: Option<(usize, Strike)>,
    points: Vec<Point>,
    requests: String,
    calls: u64,
    violations: Vec<String>,
    /// Requests of Leases by this process are not answered before then.
    cut: Option<(String, Duration)>,
    /// All other requests of this process are refused before then.
    overloaded: Option<(String, Duration)>,
    cloud: CloudTrouble,
    /// Revisions of the last seconds, for stale lists.
    revisions: VecDeque<(Duration, u64)>,
}

impl Interceptor {
    pub fn new(world: &World, setup: &Setup) -> Self {
        let inner = Inner {
            faults: setup.faults,
            kill: setup.kill,
            strike: setup.strike,
            ..Inner::default()
        };
        Interceptor {
            clock: world.clock,
            server: world.server.clone(),
            cloud: world.cloud.clone(),
            log: world.log.clone(),
            elects: setup.elects || setup.replicas > 1,
            keeps: setup.keeps_requests,
            seed: setup.seed,
            jumps: setup.jumps.iter().map(|jump| jump.at).collect(),
            inner: Mutex::new(inner),
        }
    }

    /// Whether a clock was set anew: what processes wrote down may be times of the wrong clock.
    pub fn clocks_differ(&self) -> bool {
        let now = self.clock.elapsed();
        self.jumps.iter().any(|at| *at <= now)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process begins. Its name, and what says that it has been killed.
    pub fn begin(&self) -> (String, Signals) {
        let mut inner = self.inner();
        inner.processes += 1;
        let name = format!("daemon#{}", inner.processes);
        let signals = Signals::default();
        inner.alive.insert(name.clone(), signals.clone());
        self.log.say(self.clock, format!("{name} begins"));
        (name, signals)
    }

    /// Whether a process lives.
    pub fn lives(&self, client: &str) -> bool {
        self.inner().alive.contains_key(client)
    }

    /// A process ends.
    pub fn kill(&self, client: &str, why: &str) {
        self.end(&mut self.inner(), client, why);
    }

    fn end(&self, inner: &mut Inner, client: &str, why: &str) {
        if let Some(signals) = inner.alive.remove(client) {
            self.log.say(self.clock, format!("{client} is killed{why}"));
            signals.killed.notify_one();
        }
    }

    /// A process has ended on request.
    pub fn ended(&self, client: &str) {
        self.inner().alive.remove(client);
        self.log.say(self.clock, format!("{client} has ended"));
    }

    /// Stops a process for a while.
    pub fn freeze(&self, lot: u64, length: Duration) -> bool {
        let Some(client) = self.inner().pick(lot) else {
            return false;
        };
        self.log.say(
            self.clock,
            format!("{client} is stopped for {} s", length.as_secs()),
        );
        self.server
            .stop_client(&client, tokio::time::Instant::now() + length);
        true
    }

    /// Tells a process to end.
    pub fn terminate(&self, lot: u64) -> bool {
        let inner = self.inner();
        let Some(client) = inner.pick(lot) else {
            return false;
        };
        self.log
            .say(self.clock, format!("{client} is asked to end"));
        inner.alive[&client].terminate.notify_one();
        true
    }

    /// Whose watches these are now.
    pub fn whose(&self, watches: Watches) -> Whose {
        Whose {
            client: watches.process.and_then(|lot| self.inner().pick(lot)),
            kind: watches.kind,
        }
    }

    /// Something is wrong with the cloud for a while.
    pub fn cloud_trouble(&self, what: impl FnOnce(&mut CloudTrouble, Duration), length: Duration) {
        what(&mut self.inner().cloud, self.clock.elapsed() + length);
    }

    /// Whether the cloud refuses calls now.
    pub fn is_throttled(&self) -> bool {
        self.clock.elapsed() < self.inner().cloud.throttled
    }

    /// Whether the cloud ends no instance now.
    pub fn ends_nothing(&self) -> bool {
        self.clock.elapsed() < self.inner().cloud.nothing_ends
    }

    /// Whether the cloud lists an instance now.
    pub fn is_listed(&self, provider_id: &str) -> bool {
        let now = self.clock.elapsed();
        let Some((share, _)) = self.inner().cloud.partial.filter(|(_, until)| now < *until) else {
            return true;
        };
        KeyedRng(self.seed).unit("listed", provider_id) < share
    }

    pub fn kill_one(&self, lot: u64) -> bool {
        let mut inner = self.inner();
        let Some(client) = inner.pick(lot) else {
            return false;
        };
        self.end(&mut inner, &client, "");
        true
    }

    /// The holder of the Lease, empty if there is none.
    pub fn lease_holder(&self) -> String {
        let lease = self.server.get(&fields::key(
            LEASE,
            "kube-system",
            "karpenter-leader-election",
        ));
        lease
            .as_deref()
            .map_or("", |lease| fields::text(lease, "/spec/holderIdentity"))
            .to_owned()
    }

    /// Whoever holds the Lease cannot renew it for a while; everything else is answered.
    pub fn cut_lease(&self, length: Duration) {
        let holder = self.lease_holder();
        self.log.say(
            self.clock,
            format!("{holder} cannot renew its Lease for {} s", length.as_secs()),
        );
        self.inner().cut = Some((holder, self.clock.elapsed() + length));
    }

    /// Whoever holds the Lease is refused all that it asks for a while, and cannot renew it for a
    /// minute longer.
    pub fn overload(&self, length: Duration) {
        self.cut_lease(length + Duration::from_secs(60));
        let mut inner = self.inner();
        inner.overloaded = inner
            .cut
            .clone()
            .map(|(client, until)| (client, until - Duration::from_secs(60)));
    }

    pub fn set_faults(&self, faults: RequestFaults) {
        self.inner().faults = faults;
    }

    pub fn points(&self) -> Vec<Point> {
        self.inner().points.clone()
    }

    pub fn processes(&self) -> u32 {
        self.inner().processes
    }

    pub fn requests(&self) -> String {
        self.inner().requests.clone()
    }

    pub fn violations(&self) -> Vec<String> {
        self.inner().violations.clone()
    }

    /// A rule was broken.
    pub fn violated(&self, what: String) {
        self.log.say(self.clock, format!("VIOLATION: {what}"));
        let line = format!("{} {what}", clock_text(self.clock.elapsed()));
        self.inner().violations.push(line);
    }

    /// What becomes of a request.
    pub fn judge(&self, asked: &RequestInfo) -> Verdict {
        if !asked.client.starts_with("daemon#") {
            return Verdict::Go;
        }
        if !self.lives(&asked.client) {
            return Verdict::Kill;
        }
        let mut inner = self.inner();
        let now = self.clock.elapsed();
        let what = words(asked);
        let fate = if writes(asked) && self.is_due(&mut inner, false, &what) {
            let when = inner.kill.take().map(|kill| kill.when);
            FaultAction::Kill {
                after: when != Some(When::Before),
            }
        } else {
            inner.faults.fate(self.seed, asked.number, asked)
        };
        let lease = asked.resource == Some(LEASE);
        let cut = lease
            && inner
                .cut
                .as_ref()
                .is_some_and(|(client, until)| *client == asked.client && now < *until);
        let refused = !lease && asked.verb != "watch";
        let overloaded = refused
            && inner
                .overloaded
                .as_ref()
                .is_some_and(|(client, until)| *client == asked.client && now < *until);
        let verdict = match fate {
            FaultAction::Verdict(_) if cut => Verdict::TimeOutBefore,
            FaultAction::Verdict(_) if overloaded => Verdict::Refuse {
                code: 429,
                reason: "TooManyRequests",
                retry_after: Some(5),
            },
            FaultAction::Verdict(verdict) => verdict,
            FaultAction::Stale(share) => {
                Verdict::Stale(inner.revision_at(now.saturating_sub(MAX_LIST_AGE.mul_f64(share))))
            }
            FaultAction::Kill { after } => {
                self.end(
                    &mut inner,
                    &asked.client,
                    &format!(" {} {what}", if after { "after" } else { "before" }),
                );
                if after {
                    Verdict::TimeOutAfter
                } else {
                    Verdict::Kill
                }
            }
        };
        if self.keeps {
            inner.note(now, &asked.client, &what, &verdict);
        }
        inner.remember(now, self.server.revision());
        verdict
    }

    /// Notes a write or a call; says whether the process is to be killed at it.
    fn is_due(&self, inner: &mut Inner, call: bool, what: &str) -> bool {
        let due = inner
            .kill
            .is_some_and(|kill| kill.point == inner.points.len());
        if self.keeps {
            inner.points.push(Point {
                call,
                what: what.to_owned(),
            });
        }
        due
    }

    /// What becomes of a call of the cloud's API.
    pub fn call(&self, client: &str, what: &str, may_fail: bool) -> Call {
        if !self.lives(client) {
            return Call::Never;
        }
        let mut inner = self.inner();
        inner.calls += 1;
        let number = inner.calls;
        let now = self.clock.elapsed();
        let point = inner.points.len();
        let strike = inner.strike.take_if(|strike| strike.0 == point);
        let due = self.is_due(&mut inner, true, what);
        let when = due
            .then(|| inner.kill.take())
            .flatten()
            .map(|kill| kill.when);
        // A call is a moment like any other to die at; there are fewer of them.
        let dies = unit(self.seed.rotate_left(29), number) < inner.faults.kill * 4.0;
        let when = when.or_else(|| {
            let lot = unit(self.seed.rotate_left(31), number);
            dies.then_some(if lot < 0.33 {
                When::Before
            } else if lot < 0.66 {
                When::During
            } else {
                When::After
            })
        });
        let call = match when {
            Some(When::Before) => {
                self.end(&mut inner, client, &format!(" before {what}"));
                Call::Never
            }
            Some(When::During) => Call::During,
            Some(When::After) => Call::After,
            None if strike.is_some() => strike.map_or(Call::Go, |strike| Call::Struck(strike.1)),
            None if may_fail && inner.faults.call_fails(self.seed, number) => Call::Fail,
            None => Call::Go,
        };
        if self.keeps {
            inner.note(now, client, what, &call);
        }
        call
    }
}

impl Inner {
    /// One of the processes that are there.
    fn pick(&self, lot: u64) -> Option<String> {
        self.alive
            .keys()
            .nth(lot as usize % self.alive.len().max(1))
            .cloned()
    }

    fn note(&mut self, now: Duration, client: &str, what: &str, became: &dyn fmt::Debug) {
        let _ = writeln!(
            self.requests,
            "{} {client} {what}: {became:?}",
            clock_text(now)
        );
    }

    fn remember(&mut self, now: Duration, revision: u64) {
        self.revisions.push_back((now, revision));
        while self
            .revisions
            .front()
            .is_some_and(|(at, _)| *at + MAX_LIST_AGE * 2 < now)
        {
            self.revisions.pop_front();
        }
    }

    /// The last revision known to be no younger than a time, or the oldest that is known.
    fn revision_at(&self, at: Duration) -> u64 {
        let older = self.revisions.iter().rev().find(|(when, _)| *when <= at);
        older
            .or(self.revisions.front())
            .map_or(u64::MAX, |(_, revision)| *revision)
    }
}

fn words(asked: &RequestInfo) -> String {
    let mut text = format!(
        "{} {}",
        asked.verb,
        asked.resource.map_or("?", |r| r.plural)
    );
    for (sign, part) in [
        ("/", &asked.subresource),
        (" ", &asked.namespace),
        (" ", &asked.name),
    ] {
        if !part.is_empty() {
            text.push_str(sign);
            text.push_str(part);
        }
    }
    text
}
