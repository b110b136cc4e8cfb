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
mod points;
mod provider;
mod questions;
mod replica;
pub mod run;
mod safety;
mod setup;
mod spread;

use std::sync::Arc;
use std::time::Duration;

pub use longshore_live::environment::RepairMode;
use tokio::task::JoinSet;

use interceptor::Interceptor;
pub use interceptor::Watches;
use judges::Judges;
use longshore_simcluster::faults::RequestFaults;
use longshore_simcluster::server::{Moment, RequestInfo, Verdict};
use longshore_simcluster::world::World;
pub use points::{Kill, Point, Strike, When};
pub use questions::Subject;
use questions::{Process, Processes};
pub use setup::{Begin, Jump, ProcessInputs, Setup, reloader};

/// Default size: nodes of a scenario at its busiest, about.
pub const SEEDS_SIZE: u32 = 50;
/// The most CPUs of an instance type in scenarios: pods of one to two CPUs fill small nodes, so
/// that there are many.
pub const SEEDS_TYPES: i64 = 4;

/// A world with the daemon in it. Its processes end when it is dropped.
pub struct Harness {
    pub world: World,
    interceptor: Arc<Interceptor>,
    judges: Arc<Judges>,
    processes: Processes,
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
        let judges = Arc::new(Judges::new(interceptor.clone()));
        let gate = judges.clone();
        world
            .server
            .set_gate(Box::new(move |asked: &RequestInfo| -> Verdict {
                safety::request(&gate, asked);
                gate.interceptor.judge(asked)
            }));
        let witness = judges.clone();
        world
            .server
            .set_witness(Box::new(move |asked: &RequestInfo, moment: Moment<'_>| {
                witness.carried_out(asked, moment);
            }));
        let processes = Processes::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(history::observe(judges.clone()));
        let types = setup
            .world
            .types
            .clone()
            .unwrap_or_else(|| Arc::new(world.cloud.catalogue()));
        for slot in 0..setup.replicas.max(1) {
            let replica = replica::Replica {
                slot,
                interceptor: interceptor.clone(),
                judges: judges.clone(),
                processes: processes.clone(),
                setup: setup.clone(),
                types: types.clone(),
            };
            tasks.spawn(replica.run());
        }
        Harness {
            world,
            interceptor,
            judges,
            processes,
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
    pub fn set_faults(&self, faults: RequestFaults) {
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

    /// The process that leads, or another one.
    fn process(&self) -> Option<Process> {
        self.processes.pick(&self.interceptor.lease_holder())
    }

    /// What `longshore status` prints of the process that leads; empty if there is none.
    pub fn status(&self) -> String {
        self.process()
            .map_or_else(String::new, |process| process.status())
    }

    /// Metrics of what the process that leads has counted.
    pub fn counted(&self) -> String {
        self.process()
            .map_or_else(String::new, |process| process.counted())
    }

    /// What `longshore explain` prints, in the process that leads.
    ///
    /// # Errors
    /// There is no such object, or no answer now, in the daemon's words.
    pub async fn explain(&self, about: Subject) -> Result<String, String> {
        let process = self.process().ok_or("no daemon runs")?;
        process.explain(about).await.map_err(|why| why.to_string())
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
        self.judges.rest(true);
        self.world.run_for(length).await;
        self.judges.rest(false);
    }

    /// All events and requests as text: equal for equal runs.
    pub fn transcript(&self) -> String {
        format!("{}{}", self.interceptor.requests(), self.world.transcript())
    }
}
