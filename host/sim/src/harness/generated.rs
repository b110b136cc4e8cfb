//! A generated scenario: an hour of users, cloud and faults, made up from a seed.
//!
//! Every pod of it can run in the end: there is a NodePool without limits, and no rule on pods
//! needs more zones or budgets than there are. Nobody cleans up after the daemon. Nodes that never
//! become ready do so once the hour and its faults are over.

mod acts;
#[cfg(feature = "aws")]
mod ec2;
mod pods;
mod pools;
mod rng;
mod safe;
mod trouble;
mod vain;

use std::sync::Arc;
use std::time::Duration;

use longshore_core::model::{Catalogue, Symbols};

use crate::cloud;
use crate::faults::Faults;
use crate::harness::{Jump, RepairMode};
use crate::world;
pub use acts::ScenarioEvent;
pub use rng::Rng;
pub use trouble::{Trouble, Watches};
pub use vain::BROKEN;

/// Length of a generated scenario.
pub const HOUR: Duration = Duration::from_secs(3600);

#[derive(Clone, Debug)]
pub struct GeneratedScenario {
    /// Of what seed.
    pub seed: u64,
    /// The cluster and its cloud, with the cloud's own faults.
    pub world: world::Options,
    /// Processes of the daemon.
    pub replicas: u32,
    /// Whether they ask for a Lease.
    pub elects: bool,
    /// What the daemon does with nodes that stay unhealthy.
    pub repairs: RepairMode,
    /// Whether the daemon disrupts nodes.
    pub disrupts: bool,
    /// Faults on the way to the server while it runs.
    pub faults: Faults,
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
    pub ec2: Option<crate::harness::aws::Options>,
}

/// So that what NodePools say of disruption does not follow from what else a seed says.
const DISRUPT: u64 = 0x0064_6973_7275_7074;

/// Which scenarios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stories {
    /// Mostly one process, faults of requests, watches that end or forget.
    #[default]
    Usual,
    /// Mostly two processes; watches late or silent by kind, processes stopped or terminated, pods
    /// and volumes that hold their nodes, clouds that list half of their instances, clocks that
    /// jump, claims from a backup.
    Safe,
    /// Both kinds in turn, with NodePools whose nodes are consolidated. Unhealthy nodes are repaired
    /// within budgets; the others repair at once, as 1.14 does.
    Disrupt,
    /// The third kind with pods that kube-scheduler refuses whatever is bought for them, and with a
    /// NodePool whose nodes never join.
    Vain,
    /// On EC2: the provider with AWS's SDK on the emulated AWS, with faults of AWS.
    #[cfg(feature = "aws")]
    Aws,
}

impl Stories {
    /// All kinds.
    pub const ALL: &[Stories] = &[
        Stories::Usual,
        Stories::Safe,
        Stories::Disrupt,
        Stories::Vain,
        #[cfg(feature = "aws")]
        Stories::Aws,
    ];

    /// By name: `usual`, `safe`, `disrupt`, `vain`, `aws`.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Stories::ALL.iter().copied();
        all.find(|stories| stories.name() == name)
    }

    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Stories::Usual => "usual",
            Stories::Safe => "safe",
            Stories::Disrupt => "disrupt",
            Stories::Vain => "vain",
            #[cfg(feature = "aws")]
            Stories::Aws => "aws",
        }
    }

    /// The scenario of a seed.
    pub fn scenario(
        self,
        seed: u64,
        size: u32,
        types: Arc<(Catalogue, Symbols)>,
    ) -> GeneratedScenario {
        match self {
            Stories::Usual => GeneratedScenario::new(seed, size, types),
            Stories::Safe => safe::scenario(seed, size, types),
            Stories::Disrupt => {
                let mut scenario = match seed % 2 {
                    0 => GeneratedScenario::new(seed, size, types),
                    _ => safe::scenario(seed, size, types),
                };
                scenario.disrupts = true;
                if scenario.repairs == RepairMode::AtOnce {
                    scenario.repairs = RepairMode::WithinBudgets;
                }
                scenario.base = pools::disrupted(&scenario.base, &mut Rng::new(seed ^ DISRUPT));
                scenario
            }
            Stories::Vain => vain::scenario(seed, size, types),
            #[cfg(feature = "aws")]
            Stories::Aws => ec2::scenario(seed, size),
        }
    }
}

/// The instance types of scenarios: those of Karpenter's KWOK provider that run Linux on amd64 and
/// have up to `most` CPUs.
pub fn types(most: i64) -> Arc<(Catalogue, Symbols)> {
    let mut names = Symbols::default();
    let all = longshore_kwok::catalogue::built_in(&mut names);
    let fits = |name: &str| {
        let size = name
            .split('-')
            .nth(1)
            .and_then(|size| size.strip_suffix('x')?.parse::<i64>().ok());
        name.ends_with("-amd64-linux") && size.is_some_and(|size| size <= most)
    };
    let rows = all
        .types()
        .iter()
        .enumerate()
        .filter(|(_, t)| fits(names.text(t.name)));
    let rows = rows.map(|(at, t)| {
        let offerings = all
            .offerings_of(longshore_core::model::TypeId(at as u32))
            .to_vec();
        (t.clone(), offerings)
    });
    let catalogue = Catalogue::new(rows.collect(), &names);
    Arc::new((catalogue, names))
}

impl GeneratedScenario {
    /// The scenario of a seed. `size` is about how many nodes there are at the busiest.
    pub fn new(seed: u64, size: u32, types: Arc<(Catalogue, Symbols)>) -> Self {
        let mut rng = Rng::new(seed);
        let mut world = world::Options {
            types: Some(types),
            ..world::Options::default()
        };
        cloud_of(&mut rng, &mut world.cloud);
        let replicas = if rng.hits(0.15) { 2 } else { 1 };
        let elects = replicas > 1 || rng.hits(0.15);
        let faults = faults_of(&mut rng);
        let base = pools::pools(&mut rng);
        let workloads = pods::workloads(&mut rng, size);
        let capacity = &mut world.cloud.capacity;
        *capacity = capacity.map(|capacity| capacity.max(workloads.needs_of_each_offering(size)));
        let acts = acts::acts(&mut rng, &workloads, &faults, replicas);
        let repairs = repairs_of(&mut rng);
        let (jumps, operator) = (Vec::new(), Vec::new());
        GeneratedScenario {
            seed,
            world,
            replicas,
            elects,
            repairs,
            disrupts: false,
            faults,
            base,
            acts,
            jumps,
            operator,
            #[cfg(feature = "aws")]
            ec2: None,
        }
    }
}

/// Seven scenarios of ten repair.
fn repairs_of(rng: &mut Rng) -> RepairMode {
    match rng.hits(0.7) {
        true => RepairMode::AtOnce,
        false => RepairMode::Off,
    }
}

/// Each fault of the cloud occurs in some scenarios only, so that others run without it.
fn cloud_of(rng: &mut Rng, cloud: &mut cloud::Options) {
    let share = |rng: &mut Rng, chance, most| {
        if rng.hits(chance) {
            rng.unit() * most
        } else {
            0.0
        }
    };
    let faults = &mut cloud.faults;
    faults.fail = share(rng, 0.5, 0.3);
    faults.slow = share(rng, 0.4, 0.3);
    faults.lost = share(rng, 0.5, 0.3);
    faults.never_register = share(rng, 0.3, 0.1);
    faults.never_ready = share(rng, 0.2, 0.1);
    let disturbances = &mut cloud.disturbances;
    disturbances.interruptions = share(rng, 0.5, 1.0);
    disturbances.capacity_outages = share(rng, 0.4, 6.0);
    if rng.hits(0.5) {
        disturbances.prices_every = Duration::from_secs(300);
        disturbances.volatility = 0.1;
    }
    if rng.hits(0.2) {
        cloud.capacity = Some(rng.between(2, 6) as u32);
    }
}

fn faults_of(rng: &mut Rng) -> Faults {
    let mut share = |chance: f64, most: f64| {
        if rng.hits(chance) {
            rng.unit() * most
        } else {
            0.0
        }
    };
    Faults {
        conflict: share(0.5, 0.05),
        busy: share(0.5, 0.05),
        failing: share(0.5, 0.05),
        lost_request: share(0.4, 0.01),
        lost_answer: share(0.5, 0.02),
        late: share(0.5, 0.05),
        stale: share(0.4, 0.1),
        kill: share(0.4, 0.004),
        calls: share(0.4, 0.1),
        ..Faults::default()
    }
}
