//! Runs the daemon in a world: its code, its processes, events that happen to them, and checks of
//! what they do.
//!
//! A process is a name (`daemon#1`), a task and a slot among the live processes. A killed process
//! sends nothing more: its requests in flight wait for ever, as if its machine had been switched
//! off. What the server or the cloud had accepted is carried out. A successor follows after a
//! while. Everything follows from the seed: the daemon plans on the world's own thread.

#[cfg(feature = "aws")]
pub mod aws;
mod foreign;
pub mod generated;
mod history;
mod interceptor;
mod judges;
mod liveness;
mod provider;
mod replica;
pub mod run;
mod safety;
mod spread;

use std::sync::Arc;
use std::time::Duration;

use longshore_daemon::error::Failure;
pub use longshore_daemon::live::environment::RepairMode;
use longshore_daemon::live::journal::Journal;
use longshore_daemon::live::policies::{PolicyReloader, Setup as Policies};
use tokio::task::JoinSet;

use crate::faults::Faults;
use crate::server::{Moment, RequestInfo, Verdict};
use crate::world::{self, World};
use generated::Watches;
use interceptor::Interceptor;
pub use interceptor::{Kill, Point, Strike, When};

/// Default size: nodes of a scenario at its busiest, about.
pub const SEEDS_SIZE: u32 = 50;
/// The most CPUs of an instance type in scenarios: pods of one to two CPUs fill small nodes, so
/// that there are many.
pub const SEEDS_TYPES: i64 = 4;

/// How a daemon runs in a world.
#[derive(Clone)]
pub struct Setup {
    /// Decides everything.
    pub seed: u64,
    pub world: world::Options,
    /// How many processes compete; a Lease decides where there are more than one.
    pub replicas: u32,
    /// Processes ask for a Lease, even where there is only one.
    pub elects: bool,
    /// How long a batch of pods waits for one more, and at most.
    pub window: (Duration, Duration),
    /// How long it takes until a process that was killed has a successor.
    pub restart: Duration,
    /// What goes wrong on the way to the server, from the beginning.
    pub faults: Faults,
    /// One process is killed there.
    pub kill: Option<Kill>,
    /// The call of the cloud's API of this number, among writes and calls, is struck.
    pub strike: Option<(usize, Strike)>,
    /// Nodes come from this account of AWS.
    #[cfg(feature = "aws")]
    pub ec2: Option<Arc<aws::Account>>,
    /// What each process begins with.
    pub begin: Begin,
    /// Processes plan with the prices of now, not with those of the beginning.
    pub sees_prices: bool,
    /// How nodes that stay unhealthy are repaired.
    pub repairs: RepairMode,
    /// Whether nodes are disrupted.
    pub disrupts: bool,
    /// How long a look for disruption takes; the daemon goes on meanwhile.
    pub look_takes: Duration,
    /// Static NodePools are kept at their replicas.
    pub static_capacity: bool,
    /// Clocks that are set anew while all else goes on.
    pub jumps: Vec<Jump>,
    /// Requests are kept, for [`Harness::transcript`] and [`Harness::points`]. Grows without end.
    pub keeps_requests: bool,
}

/// The clock of a machine is set anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// Whose: the place of the processes that run there, from 0 on.
    pub slot: u32,
    /// When, since the world began.
    pub at: Duration,
    /// It is this many seconds ahead from then on.
    pub seconds: i64,
}

/// What a process begins with.
pub struct ProcessInputs {
    /// Who scores.
    pub reloader: PolicyReloader,
    /// Where it writes everything down.
    pub journal: Journal,
}

/// Makes what the next process in a place, from 0 on, begins with; the one before it is dead.
pub type Begin = Arc<dyn Fn(u32) -> ProcessInputs + Send + Sync>;

impl Setup {
    /// One process, no Lease, no faults.
    ///
    /// # Errors
    /// If policies cannot be run here at all.
    pub fn new(seed: u64) -> Result<Self, Failure> {
        Ok(Setup::with(seed, reloader()?))
    }

    /// The same, with policies that are there already.
    pub fn with(seed: u64, reloader: PolicyReloader) -> Self {
        let begin: Begin = Arc::new(move |_| ProcessInputs {
            reloader: reloader.clone(),
            journal: Journal::off(),
        });
        Setup::beginning(seed, begin)
    }

    /// The same, with the inputs of each process.
    pub fn beginning(seed: u64, begin: Begin) -> Self {
        Setup {
            seed,
            world: world::Options::default(),
            replicas: 1,
            elects: false,
            window: (Duration::from_secs(1), Duration::from_secs(10)),
            restart: Duration::from_secs(5),
            faults: Faults::default(),
            kill: None,
            strike: None,
            #[cfg(feature = "aws")]
            ec2: None,
            begin,
            sees_prices: true,
            repairs: RepairMode::Off,
            disrupts: false,
            look_takes: Duration::ZERO,
            static_capacity: false,
            jumps: Vec::new(),
            keeps_requests: true,
        }
    }
}

#[cfg(feature = "aws")]
impl Setup {
    /// The same with nodes of an account of AWS.
    #[must_use]
    pub fn on_ec2(mut self, account: Arc<aws::Account>) -> Self {
        self.world.cloud.elsewhere = Some(account.handle());
        self.ec2 = Some(account);
        self
    }
}

/// Plans by price. Costs milliseconds and a thread: one is made for many runs on one thread.
///
/// # Errors
/// If policies cannot be run here at all.
pub fn reloader() -> Result<PolicyReloader, Failure> {
    // Without a configuration there is nothing to watch and there are no shadow policies.
    PolicyReloader::manual(Policies::default()).map(|(reloader, _, _)| reloader)
}

/// A world with the daemon in it. Its processes end when it is dropped.
pub struct Harness {
    pub world: World,
    interceptor: Arc<Interceptor>,
    places: u32,
    // Ends with this.
    _tasks: JoinSet<()>,
}

impl Drop for Harness {
    fn drop(&mut self) {
        // The gate holds the interceptor, and the interceptor the server: nothing would ever be
        // freed.
        self.world.server.open_gate();
    }
}

impl Harness {
    /// A world and processes that begin now. Inside a runtime only.
    pub fn new(setup: Setup) -> Self {
        let world = World::new(setup.seed, setup.world.clone());
        let interceptor = Arc::new(Interceptor::new(&world, &setup));
        let gate = interceptor.clone();
        world
            .server
            .set_gate(Box::new(move |asked: &RequestInfo| -> Verdict {
                gate.judge(asked)
            }));
        let witness = interceptor.clone();
        world
            .server
            .set_witness(Box::new(move |asked: &RequestInfo, moment: Moment<'_>| {
                judges::carried_out(&witness, asked, moment);
            }));
        let mut tasks = JoinSet::new();
        tasks.spawn(history::observe(interceptor.clone()));
        let types = setup
            .world
            .types
            .clone()
            .unwrap_or_else(|| Arc::new(world.cloud.catalogue()));
        for slot in 0..setup.replicas.max(1) {
            let replica = replica::Replica {
                slot,
                interceptor: interceptor.clone(),
                setup: setup.clone(),
                types: types.clone(),
            };
            tasks.spawn(replica.run());
        }
        Harness {
            world,
            interceptor,
            places: setup.replicas.max(1),
            _tasks: tasks,
        }
    }

    /// Kills the process that has the `lot`th place now, modulo how many there are. Says whether
    /// there was one.
    pub fn kill(&self, lot: u64) -> bool {
        self.interceptor.kill_one(lot)
    }

    /// Sets the faults between daemon and server from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.interceptor.set_faults(faults);
    }

    /// The leader cannot renew its Lease for a while.
    pub fn cut_lease(&self, length: Duration) {
        self.interceptor.cut_lease(length);
    }

    /// The leader is refused all that it asks for a while, and cannot renew its Lease for a
    /// minute longer.
    pub fn overload(&self, length: Duration) {
        self.interceptor.overload(length);
    }

    /// Watches hear nothing for a while.
    pub fn stall_watches(&self, length: Duration) {
        self.world
            .server
            .stall_watches(tokio::time::Instant::now() + length);
    }

    /// Some watches say nothing for a while, and then everything.
    pub fn silence(&self, watches: Watches, length: Duration) {
        let whose = self.interceptor.whose(watches);
        self.world
            .server
            .silence(whose, tokio::time::Instant::now() + length);
    }

    /// Some watches are late for a while.
    pub fn delay_watches(&self, watches: Watches, by: Duration, length: Duration) {
        let whose = self.interceptor.whose(watches);
        self.world
            .server
            .delay_watches(whose, by, tokio::time::Instant::now() + length);
    }

    /// Stops a process, as SIGSTOP does, and lets it go on after a while. Its sent requests are
    /// carried out meanwhile. Its timers continue, as if it read them when it continues. Says
    /// whether there was one.
    pub fn freeze(&self, lot: u64, length: Duration) -> bool {
        self.interceptor.freeze(lot, length)
    }

    /// Tells a process to end, as SIGTERM does. It has a successor as every process has. Says
    /// whether there was one.
    pub fn terminate(&self, lot: u64) -> bool {
        self.interceptor.terminate(lot)
    }

    /// The cloud lists this share of its instances for a while, as if there were no others.
    pub fn list_partially(&self, share: f64, length: Duration) {
        self.interceptor.cloud_trouble(
            |trouble, until| trouble.partial = Some((share, until)),
            length,
        );
    }

    /// The cloud refuses all calls for a while.
    pub fn throttle(&self, length: Duration) {
        self.interceptor
            .cloud_trouble(|trouble, until| trouble.throttled = until, length);
    }

    /// The cloud ends no instance for a while.
    pub fn keep_instances(&self, length: Duration) {
        self.interceptor
            .cloud_trouble(|trouble, until| trouble.nothing_ends = until, length);
    }

    /// What the daemon wrote and called so far, in order.
    pub fn points(&self) -> Vec<Point> {
        self.interceptor.points()
    }

    /// How many processes there have been.
    pub fn processes(&self) -> u32 {
        self.interceptor.processes()
    }

    /// How often a process that had died was followed by another one.
    pub fn restarts(&self) -> u32 {
        self.interceptor.processes().saturating_sub(self.places)
    }

    /// Rules that were broken on the way.
    pub fn violations(&self) -> Vec<String> {
        self.interceptor.violations()
    }

    /// What is not as it must be once all is quiet; empty if nothing.
    pub fn unsettled(&self) -> Vec<String> {
        liveness::unsettled(&self.world)
    }

    /// Waits until all is as it must be, for some time; says what is not.
    pub async fn settle(&self, limit: Duration) -> Vec<String> {
        const SETTLE_POLL: Duration = Duration::from_secs(10);
        let end = self.world.clock.elapsed() + limit;
        loop {
            let wrong = self.unsettled();
            if wrong.is_empty() || self.world.clock.elapsed() >= end {
                return wrong;
            }
            self.world.run_for(SETTLE_POLL).await;
        }
    }

    /// Lets time pass in which nothing is to happen: whatever the daemon writes is a rule broken.
    pub async fn rest(&self, length: Duration) {
        self.interceptor.judges.rest(&self.interceptor, true);
        self.world.run_for(length).await;
        self.interceptor.judges.rest(&self.interceptor, false);
    }

    /// All events and requests as text: equal for equal runs.
    pub fn transcript(&self) -> String {
        format!("{}{}", self.interceptor.requests(), self.world.transcript())
    }
}
