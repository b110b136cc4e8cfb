//! Generated scenarios of the kind `usual`: mostly one process, faults of requests, of the cloud and of
//! watches.

use std::sync::Arc;
use std::time::Duration;

use longshore_core::model::{Catalogue, Symbols};
use longshore_live::environment::RepairMode;

use super::rng::Rng;
use super::scenario::GeneratedScenario;
use super::{acts, pods, pools};
use longshore_simcluster::cloud;
use longshore_simcluster::faults::RequestFaults;
use longshore_simcluster::world;

impl GeneratedScenario {
    /// The scenario of a seed. `size` is about how many nodes there are at the busiest.
    pub fn new(seed: u64, size: u32, types: Arc<(Catalogue, Symbols)>) -> Self {
        let mut rng = Rng::new(seed);
        let mut world = world::WorldOptions {
            types: Some(types),
            ..world::WorldOptions::default()
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
pub(super) fn repairs_of(rng: &mut Rng) -> RepairMode {
    match rng.hits(0.7) {
        true => RepairMode::AtOnce,
        false => RepairMode::Off,
    }
}

/// Each fault of the cloud occurs in some scenarios only, so that others run without it.
fn cloud_of(rng: &mut Rng, cloud: &mut cloud::CloudOptions) {
    let faults = &mut cloud.faults;
    faults.fail = rng.share(0.5, 0.3);
    faults.slow = rng.share(0.4, 0.3);
    faults.lost = rng.share(0.5, 0.3);
    faults.never_register = rng.share(0.3, 0.1);
    faults.never_ready = rng.share(0.2, 0.1);
    let disturbances = &mut cloud.disturbances;
    disturbances.interruptions = rng.share(0.5, 1.0);
    disturbances.capacity_outages = rng.share(0.4, 6.0);
    if rng.hits(0.5) {
        disturbances.prices_every = Duration::from_secs(300);
        disturbances.volatility = 0.1;
    }
    if rng.hits(0.2) {
        cloud.capacity = Some(rng.between(2, 6) as u32);
    }
}

/// Each fault of requests occurs in some scenarios only.
pub(super) fn faults_of(rng: &mut Rng) -> RequestFaults {
    RequestFaults {
        conflict: rng.share(0.5, 0.05),
        busy: rng.share(0.5, 0.05),
        failing: rng.share(0.5, 0.05),
        lost_request: rng.share(0.4, 0.01),
        lost_answer: rng.share(0.5, 0.02),
        late_request: rng.share(0.5, 0.05),
        stale: rng.share(0.4, 0.1),
        kill: rng.share(0.4, 0.004),
        calls: rng.share(0.4, 0.1),
        ..RequestFaults::default()
    }
}
