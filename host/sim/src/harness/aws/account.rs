//! An account of the emulated AWS, and what a world has to know of it.

mod cloud;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use longshore_aws::in_process::{Reply, Request};
use longshore_aws::launch::fleet::{GROUP_TAG, UID_TAG};
use longshore_ec2::tags;
use longshore_emulator::shell::{self, Shell};
use longshore_emulator::world::{CapacityType, Settings};
use longshore_emulator::{self as emulator, Time, World};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::fleets::Fleets;
use super::kubelets::{self, Amounts};
use longshore_simcluster::clock::Clock;
use longshore_simcluster::cloud::elsewhere::{Elsewhere, Handle};
use longshore_simcluster::cloud::{CloudEvent, Entry, Stats};
use longshore_simcluster::fields;
use longshore_simcluster::keyed_rng::KeyedRng;
use longshore_simcluster::log::Log;
use longshore_simcluster::server::{Server, resources};

/// How an account is.
#[derive(Clone, Debug)]
pub struct AccountOptions {
    /// What there is; the built-in region if nothing is said.
    pub account: emulator::Account,
    /// From a request to its reply, on average.
    pub latency: Duration,
    /// The share of instances whose kubelet never says anything.
    pub never_register: f64,
    /// The share of instances whose Node never gets ready.
    pub never_ready: f64,
    /// Interruptions of one spot instance in an hour, on average.
    pub interruptions: f64,
    /// Whether a spot instance that EC2 takes back must have been given up by then.
    pub strict: bool,
}

impl Default for AccountOptions {
    fn default() -> Self {
        let mut account = emulator::Account::default_region();
        account.settings = Settings {
            start_milliseconds: (2_000, 5_000),
            boot_milliseconds: (15_000, 30_000),
            ..Settings::default()
        };
        AccountOptions {
            account,
            latency: Duration::from_millis(60),
            never_register: 0.0,
            never_ready: 0.0,
            interruptions: 0.0,
            strict: false,
        }
    }
}

/// The role that EC2NodeClasses of scenarios have.
const ROLE: &str = "node";

/// The account. It is one world's.
pub struct Account {
    options: AccountOptions,
    seed: u64,
    chance: KeyedRng,
    connected: OnceLock<Connected>,
    state: Mutex<AccountState>,
    changed: Notify,
    /// What CreateFleet was asked for and answered.
    pub(super) fleets: Fleets,
}

struct Connected {
    shell: Arc<Shell<Timers>>,
    server: Server,
    clock: Clock,
    log: Log,
    /// Milliseconds since 1970 when the world began.
    base: i64,
}

#[derive(Default)]
struct AccountState {
    machines: BTreeMap<String, Machine>,
    /// Their ids, in the order of their launch.
    order: Vec<String>,
    happened: VecDeque<CloudEvent>,
    stats: Stats,
    amounts: BTreeMap<String, Amounts>,
    /// Instances that EC2 has said will be retired.
    retired: BTreeSet<String>,
    /// Spot instances that were given notice.
    noticed: BTreeSet<String>,
    /// Capacity rules that end: when, and which faults are left then.
    outages: BTreeMap<(Duration, u64), Value>,
    wrong: Vec<String>,
    requests: u64,
    /// No interruption comes any more.
    calm: bool,
    /// Shares of instances that never register and never get ready from now on; nothing for those
    /// of the options.
    never: Option<(f64, f64)>,
}

struct Machine {
    entry: Entry,
    price: f64,
    /// When its kubelet says something.
    boots: Option<Duration>,
    /// When the market wants it back.
    wanted: Option<Duration>,
}

/// The clock and the timers of a world, as the emulator asks for them.
struct Timers {
    clock: Clock,
    base: i64,
}

impl Timers {
    fn time(&self, elapsed: Duration) -> Time {
        Time(self.base + i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX / 2))
    }
}

impl shell::Clock for Timers {
    fn now(&self) -> Time {
        self.time(self.clock.elapsed())
    }

    fn sleep_until(&self, time: Time) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let pause = u64::try_from(time.since(self.now())).unwrap_or(0);
        Box::pin(tokio::time::sleep(Duration::from_millis(pause)))
    }
}

impl Account {
    /// An account for a world of this seed.
    pub fn new(seed: u64, mut options: AccountOptions) -> Arc<Self> {
        options.account.roles.insert(ROLE.to_owned());
        // The SDK draws its pauses from the thread's generator.
        fastrand::seed(seed);
        Arc::new(Account {
            options,
            seed,
            chance: KeyedRng(seed),
            connected: OnceLock::new(),
            state: Mutex::default(),
            changed: Notify::new(),
            fleets: Fleets::default(),
        })
    }

    /// As the cloud of a world.
    pub fn handle(self: &Arc<Self>) -> Handle {
        Handle(self.clone())
    }

    pub fn region(&self) -> &str {
        &self.options.account.region
    }

    /// The name of the cluster.
    pub fn cluster(&self) -> &str {
        &self.options.account.cluster.name
    }

    /// The name of the queue of interruptions.
    pub fn queue(&self) -> &str {
        &self.options.account.queue
    }

    /// Adds faults of the emulator, as `POST /_emulator/faults` does. Those that it does not take
    /// are wrong in the end.
    pub fn faults(&self, faults: &Value) {
        let answer = self.ask("POST", "/_emulator/faults", faults.to_string().into_bytes());
        if answer.status != 200 {
            self.wrong(format!("faults {faults}: {}", answer.text()));
        }
        self.sync();
    }

    /// Ends all faults.
    pub fn clear_faults(&self) {
        self.state().outages.clear();
        self.ask("DELETE", "/_emulator/faults", Vec::new());
        self.faults(&json!([{"lag": [0, 2_000]}]));
    }

    /// The calls that the emulator has logged.
    pub fn calls(&self) -> Vec<Value> {
        let answer = self.ask("GET", "/_emulator/calls", Vec::new());
        let answer: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        answer["calls"].as_array().cloned().unwrap_or_default()
    }

    /// Messages in the queue, hidden ones included.
    pub fn messages(&self) -> u64 {
        let answer = self.ask("GET", "/_emulator/world", Vec::new());
        let answer: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let queues = answer["queues"].as_array().cloned().unwrap_or_default();
        queues
            .iter()
            .filter_map(|queue| queue["messages"].as_u64())
            .sum()
    }

    /// How often a reply said that an offering has no capacity.
    pub fn shortages(&self) -> u64 {
        self.fleets.shortages()
    }

    /// An offering that no capacity was left of and that was asked for again within `time`, and
    /// claims with two CreateFleet in flight, a line each.
    pub fn fleet_faults(&self, time: Duration) -> Vec<String> {
        self.fleets.faults(time)
    }

    fn connected(&self) -> &Connected {
        self.connected.get().expect("a world is made first")
    }

    fn state(&self) -> MutexGuard<'_, AccountState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, line: String) {
        let connected = self.connected();
        connected.log.say(connected.clock, line);
    }

    fn wrong(&self, line: String) {
        self.say(format!("VIOLATION: {line}"));
        self.state().wrong.push(line);
    }

    fn ask(&self, method: &str, path: &str, body: Vec<u8>) -> emulator::Reply {
        let request = emulator::Request {
            method: method.to_owned(),
            path: path.to_owned(),
            body,
            ..emulator::Request::default()
        };
        let shell = &self.connected().shell;
        match shell.with(|world, now| emulator::handle(world, now, &request)) {
            emulator::Response::Reply { reply, .. } => reply,
            _ => emulator::Reply::default(),
        }
    }

    /// The zone of a subnet.
    pub(super) fn zone_of(&self, subnet: &str) -> String {
        let found = self.options.account.subnets.get(subnet);
        found.map(|one| one.zone.clone()).unwrap_or_default()
    }

    /// How long a request is on its way, one way.
    pub(super) fn latency(&self) -> Duration {
        let number = {
            let mut state = self.state();
            state.requests += 1;
            state.requests.to_string()
        };
        let whole = self
            .chance
            .around(self.options.latency, 0.6, "latency", &number);
        whole / 2
    }

    /// Carries a request out. It is carried out before this waits for anything.
    pub(super) async fn send(&self, request: Request) -> Option<Reply> {
        let Request {
            method,
            path,
            query,
            headers,
            body,
        } = request;
        let request = emulator::Request {
            method,
            path,
            query,
            headers,
            body,
        };
        let reply = self.connected().shell.call(request).await;
        self.sync();
        let emulator::Reply {
            status,
            headers,
            body,
        } = reply.ok()?;
        Some(Reply {
            status,
            headers,
            body,
        })
    }

    /// What a type has, as NodeClaims say it: kubelets have no machine to ask.
    fn learn(&self, server: &Server) {
        for claim in server.list(resources::NODE_CLAIM) {
            let Some(kind) = fields::label(&claim, "node.kubernetes.io/instance-type") else {
                continue;
            };
            let mut state = self.state();
            if !state.amounts.contains_key(kind)
                && let Some(amounts) = kubelets::amounts(&claim)
            {
                state.amounts.insert(kind.to_owned(), amounts);
            }
        }
    }

    /// Claims that name instances of launch groups, which say no claim themselves.
    fn name(&self, state: &mut AccountState) {
        let nameless = |one: &Machine| one.entry.claim_uid.is_empty() && one.entry.end.is_none();
        if !state.machines.values().any(nameless) {
            return;
        }
        for claim in self.connected().server.list(resources::NODE_CLAIM) {
            let id = id_of(fields::text(&claim, "/status/providerID"));
            if let Some(machine) = state.machines.get_mut(id).filter(|one| nameless(one)) {
                machine.entry.claim = fields::name(&claim).to_owned();
                machine.entry.claim_uid = fields::uid(&claim).to_owned();
            }
        }
    }

    /// Takes in what has become of instances.
    fn sync(&self) {
        let connected = self.connected();
        let now = connected.clock.elapsed();
        let mut guard = self.state();
        let state = &mut *guard;
        self.name(state);
        let mut said = Vec::new();
        connected.shell.look(|world| {
            for one in world.instances() {
                match state.machines.get_mut(&one.id) {
                    None if one.state.lives() => {
                        let machine = self.machine(world, one, state.never, now);
                        said.push(format!("{} is launched", described(&machine.entry)));
                        state.stats.launched += 1;
                        state.order.push(one.id.clone());
                        state.machines.insert(one.id.clone(), machine);
                    }
                    Some(machine) if machine.entry.end.is_none() && !one.state.lives() => {
                        machine.entry.end = Some(now);
                        machine.entry.paid = paid(machine, now);
                        machine.boots = None;
                        machine.wanted = None;
                        said.push(format!("{} ends", described(&machine.entry)));
                        let entry = machine.entry.clone();
                        let taken = one
                            .reason
                            .is_some_and(|(code, _)| code.starts_with("Server"));
                        state.stats.taken_back += u64::from(taken);
                        let node = entry.node.clone();
                        state.happened.push_back(CloudEvent::Ended { node });
                        if taken && self.options.strict && !given_up(&connected.server, &entry) {
                            let id = &entry.provider_id;
                            let line =
                                format!("{id} was taken back, and its claim was not given up");
                            state.wrong.push(line);
                        }
                    }
                    _ => {}
                }
            }
        });
        drop(guard);
        if !said.is_empty() {
            said.into_iter().for_each(|line| self.say(line));
            self.changed.notify_one();
        }
    }

    fn machine(
        &self,
        world: &World,
        one: &emulator::world::Instance,
        never: Option<(f64, f64)>,
        now: Duration,
    ) -> Machine {
        let tag = |key: &str| one.tags.get(key).cloned().unwrap_or_default();
        let entry = Entry {
            provider_id: format!("aws:///{}/{}", one.zone, one.id),
            node: one.dns_name(self.region()),
            claim: tag(tags::NODE_CLAIM),
            claim_uid: tag(UID_TAG),
            group: tag(GROUP_TAG),
            node_pool: tag(tags::NODEPOOL),
            instance_type: one.instance_type.clone(),
            zone: one.zone.clone(),
            capacity_type: one.capacity_type.name().to_owned(),
            start: now,
            end: None,
            paid: 0.0,
        };
        let kind = self.options.account.types.get(&one.instance_type);
        let price = kind.and_then(|kind| match one.capacity_type {
            CapacityType::Spot => kind.spot.get(&one.zone).copied(),
            CapacityType::OnDemand => kind.on_demand,
            CapacityType::Reserved => None,
        });
        let boots = emulator::kubelet::boots_until(world, one);
        let share = self.options.never_register;
        let share = never.map_or(share, |(register, _)| register);
        let never = self.chance.hits(share, "never-register", &one.id);
        let spot = one.capacity_type == CapacityType::Spot;
        let wanted = self
            .chance
            .wait(self.options.interruptions, "interruption", &one.id);
        Machine {
            entry,
            price: price.unwrap_or(0.0),
            boots: (!never).then(|| self.elapsed(boots)),
            wanted: wanted.filter(|_| spot).map(|wait| now + wait),
        }
    }

    fn elapsed(&self, time: Time) -> Duration {
        let since = time.0 - self.connected().base;
        Duration::from_millis(u64::try_from(since).unwrap_or(0))
    }

    /// Kubelets that are due say something.
    fn boot(&self, now: Duration) {
        let due: Vec<String> = {
            let state = self.state();
            let machines = state.machines.iter();
            let due = machines.filter(|(_, one)| one.boots.is_some_and(|at| at <= now));
            due.map(|(id, _)| id.clone()).collect()
        };
        if due.is_empty() {
            return;
        }
        let server = &self.connected().server;
        self.learn(server);
        for id in due {
            let again = self.register(server, &id);
            if let Some(machine) = self.state().machines.get_mut(&id) {
                machine.boots = again.map(|wait| now + wait);
            }
        }
    }

    /// Registers the Node of an instance; says when it is tried again.
    fn register(&self, server: &Server, id: &str) -> Option<Duration> {
        const JOIN_RETRY: Duration = Duration::from_secs(1);
        let joins = self.connected().shell.with(|world, now| {
            let one = world.instances().find(|one| one.id == id)?;
            Some((
                emulator::kubelet::join(world, one, now),
                one.instance_type.clone(),
            ))
        });
        let (joins, kind) = joins?;
        let joining = match joins {
            Ok(joining) => joining,
            Err(
                emulator::kubelet::NotJoining::NotRunning("pending")
                | emulator::kubelet::NotJoining::Booting(_),
            ) => return Some(JOIN_RETRY),
            Err(emulator::kubelet::NotJoining::NotRunning(_)) => return None,
            Err(why) => {
                self.wrong(format!("{id} does not join: {why}"));
                return None;
            }
        };
        let amounts = self.state().amounts.get(&kind).cloned();
        // No claim says yet what its type has.
        let Some(amounts) = amounts else {
            return Some(JOIN_RETRY);
        };
        let share = self.state().never.map(|(_, ready)| ready);
        let share = share.unwrap_or(self.options.never_ready);
        let never_ready = self.chance.hits(share, "never-ready", id);
        let node = kubelets::node(&joining, &amounts, never_ready);
        let named = fields::key(resources::NODE, "", &joining.name);
        let there = server.get(&named);
        let own = |node: &Value| fields::text(node, "/spec/providerID") == joining.provider_id;
        match there {
            Some(node) if own(&node) => None,
            // The Node of a machine that had the address before.
            Some(_) => Some(JOIN_RETRY),
            None => {
                let began = CloudEvent::Began {
                    node: joining.name.clone(),
                };
                self.state().happened.push_back(began);
                match server.create(resources::NODE, node) {
                    Ok(_) => {
                        self.say(format!("{} joins", joining.name));
                        None
                    }
                    Err(_) => Some(Duration::from_secs(5)),
                }
            }
        }
    }

    /// Warns instances that the market wants back.
    fn take_back(&self, now: Duration) {
        let due: Vec<String> = {
            let mut state = self.state();
            let calm = state.calm;
            let machines = state.machines.values_mut();
            let due = machines.filter(|one| one.wanted.is_some_and(|at| at <= now));
            let due = due.map(|one| {
                one.wanted = None;
                one.entry.provider_id.clone()
            });
            due.filter(|_| !calm).collect()
        };
        for id in due {
            self.interrupt(&id);
        }
    }

    fn end_outages(&self, now: Duration) {
        loop {
            let due = {
                let mut state = self.state();
                let first = state.outages.first_entry();
                match first.filter(|entry| entry.key().0 <= now) {
                    Some(entry) => entry.remove(),
                    None => return,
                }
            };
            self.faults(&due);
        }
    }
}

fn paid(machine: &Machine, now: Duration) -> f64 {
    let end = machine.entry.end.unwrap_or(now);
    end.saturating_sub(machine.entry.start).as_secs_f64() / 3600.0 * machine.price
}

fn described(entry: &Entry) -> String {
    let Entry {
        node,
        provider_id,
        claim,
        instance_type,
        capacity_type,
        ..
    } = entry;
    format!("{node} ({provider_id}, {instance_type} {capacity_type}, for {claim})")
}

/// Whether the claim of an instance leaves, or is gone.
fn given_up(server: &Server, entry: &Entry) -> bool {
    let claim = server.get(&fields::key(resources::NODE_CLAIM, "", &entry.claim));
    claim.is_none_or(|claim| fields::uid(&claim) != entry.claim_uid || fields::deleting(&claim))
}

fn id_of(provider_id: &str) -> &str {
    provider_id.rsplit('/').next().unwrap_or_default()
}
