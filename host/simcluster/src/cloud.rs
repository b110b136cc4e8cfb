//! A cloud: instances, prices, capacity of each offering, and faults.
//!
//! The cloud outlives the daemon: a call that has begun is carried out even if its caller is gone.
//! The token of a launch is the claim's UID, so that a repeated launch makes one instance.
//! Everything that happens is in its event queue and runs in order when the world is stepped
//! ([`Cloud::step`]); calls only add events. Random decisions depend on the seed and the claim's
//! UID only.
//!
//! Nodes are created through the API server, as their kubelets would register them, with the taint
//! `karpenter.sh/unregistered`.

mod api;
mod choose;
mod disturbances;
pub mod elsewhere;
mod instance;
mod ledger;
mod market;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longshore_cloud::{CloudError, Instance, Launch};
use longshore_core::model::{Catalogue, Symbols};
use tokio::sync::{Notify, oneshot};

use crate::clock::Clock;
use crate::event_queue::EventQueue;
use crate::fields;
use crate::keyed_rng::KeyedRng;
use crate::log::Log;
use crate::server::{Server, Subresource};
pub use disturbances::Disturbances;
use elsewhere::Elsewhere;
pub use instance::InstanceState;
use instance::SimInstance;
pub use ledger::{Entry, Ledger};
use market::Market;

/// Annotation of nodes: from the Node object to Ready, `never` for nodes that do not get ready.
pub const READY_AFTER: &str = "sim.longshore.dev/ready-after";

/// How long things take in a cloud.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// From a launch call to its answer.
    pub launch: Duration,
    /// From the launch to the Node object.
    pub boot: Duration,
    /// From the deletion to the instance's being gone.
    pub end: Duration,
    /// Any other call.
    pub call: Duration,
    /// Between the notice of an interruption and its end: two minutes at AWS.
    pub notice: Duration,
    /// After how long a lost answer is given up.
    pub timeout: Duration,
    /// Share by which launches and boots differ from one to the next.
    pub spread: f64,
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies {
            launch: Duration::from_secs(2),
            boot: Duration::from_secs(30),
            end: Duration::from_secs(20),
            call: Duration::from_millis(100),
            notice: Duration::from_secs(120),
            timeout: Duration::from_secs(30),
            spread: 0.25,
        }
    }
}

/// What goes wrong, as shares (0 to 1) of launches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaunchFaults {
    /// The call fails and nothing was made.
    pub fail: f64,
    /// The call is not allowed, and nothing was made.
    pub unauthorized: f64,
    /// The launch takes ten times as long.
    pub slow: f64,
    /// The instance is made, and the caller gets an error.
    pub lost: f64,
    /// The node never appears.
    pub never_register: f64,
    /// The node appears and never gets ready.
    pub never_ready: f64,
    /// NodePools whose nodes never appear.
    pub never_register_pools: Vec<String>,
    /// Offerings whose nodes never appear: `TYPE/ZONE/CAPACITY-TYPE`, `*` for any.
    pub never_register_offerings: Vec<String>,
    /// Nodes never appear whose NodeClaim has this text in this annotation: they boot with a user data
    /// that is broken.
    pub broken_boots: Option<(String, String)>,
}

impl LaunchFaults {
    /// Whether the node of a machine never appears, for where it is or what it boots with.
    fn is_lost(&self, market: &Market, machine: &SimInstance) -> bool {
        let mut lost = self.never_register_offerings.iter();
        let boots = |(key, part): &(String, String)| {
            let text = machine.launch.annotations.get(key);
            text.is_some_and(|text| text.contains(part))
        };
        self.broken_boots.as_ref().is_some_and(boots)
            || lost.any(|pattern| market.matching(pattern).contains(&machine.offering))
    }
}

/// How a cloud is. By default all goes well and there is no end of anything.
#[derive(Clone, Debug, Default)]
pub struct CloudOptions {
    /// How long things take.
    pub latencies: Latencies,
    /// What goes wrong.
    pub faults: LaunchFaults,
    /// Prices, interruptions, storms.
    pub disturbances: Disturbances,
    /// How many instances of each offering there can be at once; nothing for any number.
    pub capacity: Option<u32>,
    /// A cloud in place of this one: none of the above is said of it.
    pub elsewhere: Option<elsewhere::Handle>,
}

/// What the rest of the world has to know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CloudEvent {
    /// A machine has started. Names of nodes may come again.
    Began {
        /// The node's name.
        node: String,
    },
    /// The machine of a node is gone, or going down: nothing runs on it any more.
    Ended {
        /// The node's name.
        node: String,
    },
}

/// An instance that runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Running {
    /// The cloud's ID for it.
    pub provider_id: String,
    /// Its node's name.
    pub node: String,
    /// The NodePool that it was made for.
    pub node_pool: String,
    pub instance_type: String,
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: String,
    /// `TYPE/ZONE/CAPACITY-TYPE`.
    pub offering: String,
    /// USD per hour, now.
    pub price: f64,
}

/// What happened in a cloud, counted from the beginning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Launches that made an instance.
    pub launched: u64,
    /// Launches that were answered with an error.
    pub failed: u64,
    /// Of these, those for want of capacity.
    pub short: u64,
    /// Spot instances that were given notice.
    pub interruptions: u64,
    /// Machines that were taken back or broke.
    pub taken_back: u64,
    /// Storms, in words, and when.
    pub capacity_outages: Vec<(Duration, String)>,
}

/// What a cloud does at a time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Work {
    /// Carries out the launch of this number.
    Launch(u64),
    /// The node of an instance appears.
    Boot(usize),
    /// Notice is given to an instance.
    Notice(usize),
    /// The market wants a spot instance back.
    Wanted(usize),
    /// An instance is taken back.
    TakeBack(usize),
    /// An instance is gone.
    Gone(usize),
    /// The machine of an instance has started anew, by the name of the operation.
    Rebooted(usize, String),
    /// Prices move.
    Prices,
    /// A capacity outage begins, by its number.
    CapacityOutage(u64),
}

/// What becomes of a launch, and how much later the caller learns of it.
type Answer = (Duration, Result<Instance, CloudError>);

/// A requested launch.
struct QueuedLaunch {
    launch: Launch,
    reply: oneshot::Sender<Answer>,
    /// How often this claim was asked for before.
    before: u64,
}

/// The cloud. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Cloud(Arc<Shared>);

struct Shared {
    inner: Mutex<Inner>,
    /// A cloud in place of this one.
    elsewhere: Option<Arc<dyn Elsewhere>>,
    asked: Notify,
    latencies: Latencies,
}

struct Inner {
    server: Server,
    clock: Clock,
    chance: KeyedRng,
    options: CloudOptions,
    log: Log,
    event_queue: EventQueue<Work>,
    market: Market,
    machines: Vec<SimInstance>,
    /// Indexes of those that the cloud has not forgotten, in order.
    there: Vec<usize>,
    /// Index of the machine that was made for a claim, by its UID. Looked up, never walked.
    by_claim: HashMap<String, usize>,
    by_id: HashMap<String, usize>,
    launches: BTreeMap<u64, QueuedLaunch>,
    tries: HashMap<String, u64>,
    number: u64,
    happened: VecDeque<CloudEvent>,
    stats: Stats,
}

impl Cloud {
    /// A cloud that sells a catalogue, read with these names.
    pub fn new(
        server: Server,
        clock: Clock,
        seed: u64,
        catalogue: Arc<(Catalogue, Symbols)>,
        options: CloudOptions,
        log: Log,
    ) -> Self {
        let elsewhere = options.elsewhere.as_ref().map(|own| own.0.clone());
        if let Some(elsewhere) = &elsewhere {
            elsewhere.connect(server.clone(), clock, log.clone());
        }
        let market = Market::new(catalogue, options.capacity);
        let mut inner = Inner {
            server,
            clock,
            chance: KeyedRng(seed),
            options: options.clone(),
            log,
            event_queue: EventQueue::default(),
            market,
            machines: Vec::new(),
            there: Vec::new(),
            by_claim: HashMap::new(),
            by_id: HashMap::new(),
            launches: BTreeMap::new(),
            tries: HashMap::new(),
            number: 0,
            happened: VecDeque::new(),
            stats: Stats::default(),
        };
        inner.schedule_all();
        Cloud(Arc::new(Shared {
            inner: Mutex::new(inner),
            elsewhere,
            asked: Notify::new(),
            latencies: options.latencies,
        }))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cloud in place of this one.
    pub fn elsewhere(&self) -> Option<&Arc<dyn Elsewhere>> {
        self.0.elsewhere.as_ref()
    }

    /// When something is due next.
    pub fn next(&self) -> Option<Duration> {
        if let Some(elsewhere) = &self.0.elsewhere {
            return elsewhere.next();
        }
        self.inner().event_queue.next()
    }

    /// Does the next thing that is due by now.
    pub fn step(&self, now: Duration) {
        if let Some(elsewhere) = &self.0.elsewhere {
            return elsewhere.step(now);
        }
        let mut inner = self.inner();
        if let Some(work) = inner.event_queue.take(now) {
            inner.act(now, work);
        }
    }

    /// Events since the last call.
    pub fn events(&self) -> Vec<CloudEvent> {
        if let Some(elsewhere) = &self.0.elsewhere {
            return elsewhere.events();
        }
        self.inner().happened.drain(..).collect()
    }

    /// Waits until the event queue has something new.
    pub async fn asked(&self) {
        if let Some(elsewhere) = &self.0.elsewhere {
            return elsewhere.asked().notified().await;
        }
        self.0.asked.notified().await;
    }

    /// Every instance that there ever was, and what it has cost so far.
    pub fn ledger(&self) -> Ledger {
        if let Some(elsewhere) = &self.0.elsewhere {
            return elsewhere.ledger();
        }
        let inner = self.inner();
        let now = inner.clock.elapsed();
        Ledger {
            entries: inner
                .machines
                .iter()
                .map(|m| m.entry(now, &inner.market))
                .collect(),
        }
    }

    /// What all instances that run cost together now, USD per hour.
    pub fn cost_per_hour(&self) -> f64 {
        if let Some(elsewhere) = &self.0.elsewhere {
            return elsewhere.running().iter().map(|one| one.price).sum();
        }
        let inner = self.inner();
        inner
            .there()
            .filter(|m| m.runs())
            .map(|m| inner.market.price(m.offering))
            .fold(0.0, |all, one| all + one)
    }

    /// What can be bought, with the prices of now, and the names that it is written in.
    pub fn catalogue(&self) -> (Catalogue, Symbols) {
        let inner = self.inner();
        (inner.market.offers(), inner.market.types().1.clone())
    }

    /// What can be bought, with the prices of now, in the names that the cloud was made with.
    pub fn offers(&self) -> Catalogue {
        self.inner().market.offers()
    }

    /// Every instance that runs, in the order of their launch, with its price of now.
    pub fn running(&self) -> Vec<Running> {
        if let Some(elsewhere) = &self.0.elsewhere {
            return elsewhere.running();
        }
        let inner = self.inner();
        let one = |m: &SimInstance| Running {
            provider_id: m.instance.provider_id.clone(),
            node: m.node.clone(),
            node_pool: m.node_pool().to_owned(),
            instance_type: m.instance_type.clone(),
            capacity_type: m.capacity_type.clone(),
            offering: inner.market.named(m.offering).join("/"),
            price: inner.market.price(m.offering),
        };
        inner.there().filter(|m| m.runs()).map(one).collect()
    }

    /// Whether an instance runs.
    pub fn runs(&self, provider_id: &str) -> bool {
        if let Some(elsewhere) = &self.0.elsewhere {
            return elsewhere.runs(provider_id);
        }
        self.inner().running(provider_id).is_some()
    }

    /// The node of the instance that runs for a claim, by the claim's UID.
    pub fn runs_for(&self, claim: &str) -> Option<String> {
        if let Some(elsewhere) = &self.0.elsewhere {
            return elsewhere.runs_for(claim);
        }
        let inner = self.inner();
        let machine = inner.by_claim.get(claim).map(|at| &inner.machines[*at]);
        machine.filter(|m| m.runs()).map(|m| m.node.clone())
    }

    /// Whether the daemon got a warning that an instance goes. The cloud of this crate sends none.
    pub fn warned(&self, provider_id: &str) -> bool {
        let elsewhere = self.0.elsewhere.as_ref();
        elsewhere.is_some_and(|elsewhere| elsewhere.warned(provider_id))
    }

    /// What has happened so far.
    pub fn stats(&self) -> Stats {
        if let Some(elsewhere) = &self.0.elsewhere {
            return elsewhere.stats();
        }
        self.inner().stats.clone()
    }

    /// Multiplies the prices of offerings by `TYPE/ZONE/CAPACITY-TYPE`, `*` for any.
    pub fn shift_prices(&self, pattern: &str, factor: f64) {
        if let Some(elsewhere) = &self.0.elsewhere {
            return elsewhere.shift_prices(pattern, factor);
        }
        let mut inner = self.inner();
        let now = inner.clock.elapsed();
        inner.pay_all(now);
        let offerings = inner.market.matching(pattern);
        inner.say(format!("{pattern}: prices times {factor}"));
        inner.market.shift(&offerings, factor);
    }

    /// Lets offerings run short: `TYPE/ZONE/CAPACITY-TYPE`, `*` for any.
    pub fn capacity_outage(&self, pattern: &str, length: Duration) {
        if let Some(elsewhere) = &self.0.elsewhere {
            return elsewhere.capacity_outage(pattern, length);
        }
        let mut inner = self.inner();
        let until = inner.clock.elapsed() + length;
        let offerings = inner.market.matching(pattern);
        let (now, what) = (
            inner.clock.elapsed(),
            format!("{pattern}: no capacity for {} s", length.as_secs()),
        );
        inner.stats.capacity_outages.push((now, what.clone()));
        inner.say(what);
        inner.market.close(&offerings, until);
    }

    /// Gives notice to an instance, by provider ID: it is taken back two minutes later. Says
    /// whether it runs.
    pub fn interrupt(&self, provider_id: &str) -> bool {
        if let Some(elsewhere) = &self.0.elsewhere {
            return elsewhere.interrupt(provider_id);
        }
        let mut inner = self.inner();
        let Some(at) = inner.running(provider_id) else {
            return false;
        };
        let now = inner.clock.elapsed();
        inner.event_queue.at(now, Work::Notice(at));
        drop(inner);
        self.0.asked.notify_one();
        true
    }

    /// Takes an instance away without notice. Says whether it ran.
    pub fn kill(&self, provider_id: &str) -> bool {
        if let Some(elsewhere) = &self.0.elsewhere {
            return elsewhere.kill(provider_id);
        }
        let mut inner = self.inner();
        let Some(at) = inner.running(provider_id) else {
            return false;
        };
        let now = inner.clock.elapsed();
        inner.event_queue.at(now, Work::TakeBack(at));
        drop(inner);
        self.0.asked.notify_one();
        true
    }

    /// Changes prices, interruptions and storms from now on; where there are none any more, none
    /// come that were on their way.
    pub fn set_disturbances(&self, disturbances: Disturbances) {
        if let Some(elsewhere) = &self.0.elsewhere {
            return elsewhere.set_disturbances(disturbances);
        }
        self.inner().options.disturbances = disturbances;
    }

    /// Sets the faults from now on.
    pub fn set_faults(&self, faults: LaunchFaults) {
        if let Some(elsewhere) = &self.0.elsewhere {
            return elsewhere.set_faults(faults);
        }
        self.inner().options.faults = faults;
    }
}

impl Inner {
    fn say(&self, line: String) {
        self.log.say(self.clock, line);
    }

    /// Machines that the cloud has not forgotten, in the order of their launch.
    fn there(&self) -> impl Iterator<Item = &SimInstance> {
        self.there.iter().map(|at| &self.machines[*at])
    }

    fn running(&self, provider_id: &str) -> Option<usize> {
        self.by_id
            .get(provider_id)
            .copied()
            .filter(|at| self.machines[*at].runs())
    }

    fn act(&mut self, now: Duration, work: Work) {
        match work {
            Work::Launch(number) => self.launch(now, number),
            Work::Boot(at) => self.boot(now, at),
            Work::Notice(at) => self.notice(now, at),
            Work::Wanted(at) if self.options.disturbances.interruptions > 0.0 => {
                self.notice(now, at)
            }
            Work::Wanted(_) => {}
            Work::TakeBack(at) => {
                self.stats.taken_back += u64::from(self.machines[at].runs());
                self.end(now, at, "taken back");
            }
            Work::Gone(at) => self.gone(now, at),
            Work::Rebooted(at, operation) => self.rebooted(at, &operation),
            Work::Prices => self.move_prices(now),
            Work::CapacityOutage(number) => self.begin_storm(now, number),
        }
    }

    /// Carries out a launch and answers if the caller still waits.
    fn launch(&mut self, now: Duration, number: u64) {
        let Some(asked) = self.launches.remove(&number) else {
            return;
        };
        let answer = self.made(now, &asked);
        let about = format!("{}/{}", asked.launch.uid, asked.before);
        match &answer {
            // One that is there already was counted.
            Ok(_) => {}
            Err(error) => {
                self.stats.failed += 1;
                self.stats.short += u64::from(matches!(error, CloudError::InsufficientCapacity(_)));
            }
        }
        let lost = answer.is_ok() && self.chance.hits(self.options.faults.lost, "lost", &about);
        let answer = match answer {
            Ok(_) if lost => {
                self.say(format!(
                    "the answer to the launch of {} is lost",
                    asked.launch.name
                ));
                let why = CloudError::Other(format!(
                    "launch of {}: no answer in time",
                    asked.launch.name
                ));
                (self.options.latencies.timeout, Err(why))
            }
            answer => (Duration::ZERO, answer),
        };
        // Nobody waits where the caller has been killed.
        let _ = asked.reply.send(answer);
    }

    fn made(&mut self, now: Duration, asked: &QueuedLaunch) -> Result<Instance, CloudError> {
        let launch = &asked.launch;
        if let Some(&at) = self.by_claim.get(&launch.uid) {
            let machine = &self.machines[at];
            return match machine.runs() {
                true => Ok((*machine.instance).clone()),
                false => {
                    let why = format!(
                        "the instance of NodeClaim {} has been taken back already",
                        launch.name
                    );
                    Err(CloudError::InsufficientCapacity(why.into()))
                }
            };
        }
        let about = format!("{}/{}", launch.uid, asked.before);
        self.may_launch(launch, &about)?;
        let chosen = choose::choose(&self.market, now, launch).inspect_err(|error| {
            self.log
                .say(self.clock, format!("{}: {error}", launch.name));
        })?;
        let created = self.clock.now().as_second();
        let machine = SimInstance::new(self.machines.len(), launch, chosen, now, created);
        let instance = (*machine.instance).clone();
        self.start(now, machine);
        Ok(instance)
    }

    fn start(&mut self, now: Duration, machine: SimInstance) {
        let at = self.machines.len();
        let uid = machine.launch.uid.clone();
        let (faults, pace) = (&self.options.faults, &self.options.latencies);
        let pool = machine.launch.nodepool.as_ref();
        if pool.is_some_and(|pool| faults.never_register_pools.contains(pool))
            || faults.is_lost(&self.market, &machine)
            || self
                .chance
                .hits(faults.never_register, "never-register", &uid)
        {
            self.say(format!("{} will never register", machine.node));
        } else {
            let boot = self.chance.around(pace.boot, pace.spread, "boot", &uid);
            self.event_queue.at(now + boot, Work::Boot(at));
        }
        if machine.capacity_type == "spot"
            && let Some(wait) = self.chance.wait(
                self.options.disturbances.interruptions,
                "interruption",
                &uid,
            )
        {
            self.event_queue.at(now + wait, Work::Wanted(at));
        }
        self.stats.launched += 1;
        self.market.take(machine.offering);
        self.say(machine.described("is launched"));
        self.by_claim.insert(uid, at);
        self.by_id.insert(machine.instance.provider_id.clone(), at);
        self.machines.push(machine);
        self.there.push(at);
    }

    fn boot(&mut self, now: Duration, at: usize) {
        let machine = &self.machines[at];
        if !machine.runs() {
            return;
        }
        let never_ready = self.chance.hits(
            self.options.faults.never_ready,
            "never-ready",
            &machine.launch.uid,
        );
        let node = machine.node_object(never_ready);
        match self.server.create(crate::server::resources::NODE, node) {
            Ok(_) => {
                let more = if never_ready {
                    " and will never be ready"
                } else {
                    ""
                };
                self.say(format!("{} joins{more}", self.machines[at].node));
            }
            // It is there already.
            Err(refusal) if refusal.code == 409 => {}
            // A kubelet tries until it is let in.
            Err(_) => self
                .event_queue
                .at(now + Duration::from_secs(5), Work::Boot(at)),
        }
    }

    /// The kubelet says that its machine was started.
    fn rebooted(&mut self, at: usize, operation: &str) {
        if !self.machines[at].runs() {
            return;
        }
        let node = &self.machines[at].node;
        let key = fields::key(crate::server::resources::NODE, "", node);
        let mut changed = false;
        let written = self.server.update(&key, Subresource::Status, &mut |node| {
            let info = fields::map_at(fields::map_at(node, "status"), "nodeInfo");
            changed = info["bootID"] != operation;
            info["bootID"] = operation.into();
        });
        if written.is_ok() && changed {
            self.say(format!("{} has started anew", self.machines[at].node));
        }
    }

    fn notice(&mut self, now: Duration, at: usize) {
        if self.machines[at].runs() && !self.machines[at].notified {
            self.machines[at].notified = true;
            self.stats.interruptions += 1;
            self.say(self.machines[at].described("is given notice of its interruption"));
            self.event_queue
                .at(now + self.options.latencies.notice, Work::TakeBack(at));
        }
    }

    /// Nothing runs on the machine from now on; it is paid for until now.
    fn end(&mut self, now: Duration, at: usize, how: &str) {
        if !self.machines[at].runs() {
            return;
        }
        self.machines[at].end(now, &self.market);
        self.market.give_back(self.machines[at].offering);
        self.say(self.machines[at].described(&format!("is {how}")));
        let node = self.machines[at].node.clone();
        self.happened.push_back(CloudEvent::Ended { node });
        self.event_queue
            .at(now + self.options.latencies.end, Work::Gone(at));
    }

    fn gone(&mut self, _: Duration, at: usize) {
        self.machines[at].state = InstanceState::Gone;
        self.there.retain(|other| *other != at);
    }
}
