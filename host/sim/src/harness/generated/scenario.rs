//! A generated scenario: what it has.

use std::time::Duration;

use longshore_live::environment::RepairMode;

use super::event::ScenarioEvent;
#[cfg(feature = "aws")]
use crate::harness::aws::account::AccountOptions;
use crate::harness::setup::Jump;
use longshore_simcluster::faults::RequestFaults;
use longshore_simcluster::world;

/// Length of a generated scenario.
pub const HOUR: Duration = Duration::from_secs(3600);

#[derive(Clone, Debug)]
pub struct GeneratedScenario {
    pub seed: u64,
    /// The cluster and its cloud, with the cloud's own faults.
    pub world: world::WorldOptions,
    /// Processes of the daemon.
    pub replicas: u32,
    /// Whether they ask for a Lease.
    pub elects: bool,
    /// What the daemon does with nodes that stay unhealthy.
    pub repairs: RepairMode,
    /// Whether the daemon disrupts nodes.
    pub disrupts: bool,
    /// Faults on the way to the server while it runs.
    pub faults: RequestFaults,
    /// What is there at the beginning.
    pub base: String,
    /// What happens, by time.
    pub acts: Vec<(Duration, ScenarioEvent)>,
    /// Clocks of processes that are set anew.
    pub jumps: Vec<Jump>,
    /// What people do every minute once everything else is over.
    pub operator: Vec<ScenarioEvent>,
    /// The account of AWS that nodes come from; nothing for the simulated cloud.
    #[cfg(feature = "aws")]
    pub ec2: Option<AccountOptions>,
}
