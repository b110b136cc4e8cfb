//! How a daemon runs in a world: its processes, what they begin with, and what happens to them.

use std::sync::Arc;
use std::time::Duration;

use longshore_journal::Journal;
use longshore_live::environment::RepairMode;
use longshore_live::error::Failure;
use longshore_live::policies::{PolicyReloader, Setup as Policies};

#[cfg(feature = "aws")]
use super::aws::account::Account;
use super::points::{Kill, Strike};
use longshore_simcluster::faults::RequestFaults;
use longshore_simcluster::world;

/// How a daemon runs in a world.
#[derive(Clone)]
pub struct Setup {
    /// Decides everything.
    pub seed: u64,
    pub world: world::WorldOptions,
    /// How many processes compete; a Lease decides where there are more than one.
    pub replicas: u32,
    /// Processes ask for a Lease, even where there is only one.
    pub elects: bool,
    /// How long a batch of pods waits for one more, and at most.
    pub window: (Duration, Duration),
    /// How long it takes until a process that was killed has a successor.
    pub restart: Duration,
    /// What goes wrong on the way to the server, from the beginning.
    pub faults: RequestFaults,
    /// One process is killed there.
    pub kill: Option<Kill>,
    /// The call of the cloud's API of this number, among writes and calls, is struck.
    pub strike: Option<(usize, Strike)>,
    /// Nodes come from this account of AWS.
    #[cfg(feature = "aws")]
    pub ec2: Option<Arc<Account>>,
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
    /// Requests are kept, for [`Harness::transcript`](super::Harness::transcript) and
    /// [`Harness::points`](super::Harness::points). Grows without end.
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
    /// The policies that score.
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
            world: world::WorldOptions::default(),
            replicas: 1,
            elects: false,
            window: (Duration::from_secs(1), Duration::from_secs(10)),
            restart: Duration::from_secs(5),
            faults: RequestFaults::default(),
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
    pub fn on_ec2(mut self, account: Arc<Account>) -> Self {
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
