//! Generated scenarios of the kind `safe`: as `usual`, plus temptations to buy twice or to end what is
//! in use. Each scale-up has its own stall at a time that the seed decides.
//!
//! Their seeds are independent: seed 7 here has nothing in common with seed 7 of
//! [`GeneratedScenario::new`](super::GeneratedScenario::new).

use std::sync::Arc;
use std::time::Duration;

use longshore_core::model::{Catalogue, Symbols};

use super::event::ScenarioEvent;
use super::pods::{self, Workloads};
use super::rng::Rng;
use super::scenario::{GeneratedScenario, HOUR};
use super::trouble::Trouble;
use super::usual::repairs_of;
use super::{acts, pools};
use crate::harness::interceptor::Watches;
use crate::harness::setup::Jump;
use longshore_simcluster::cloud;
use longshore_simcluster::faults::RequestFaults;
use longshore_simcluster::object::Resource;
use longshore_simcluster::server::resources::{self, NODE, NODE_CLAIM, POD};
use longshore_simcluster::world;

/// Separates the random numbers of these scenarios from those of the others.
const SAFE: u64 = 0x5afe_0000_0000;
/// Separates what one scenario in ten has from its others.
const RARE: u64 = 0x5afe_7a7e_0000;
/// How likely a watch of the daemon is late or silent while many pods come at once; between bursts it is
/// [`SILENT_WATCH_OTHERWISE`].
const WATCH_FAULT_IN_BURST: f64 = 0.8;
/// How many of those watches are silent, and not late.
const SILENT_NOT_LATE: f64 = 0.6;
/// How likely a scenario has watches that are silent at any other time.
const SILENT_WATCH_OTHERWISE: f64 = 0.4;
const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}
/// How long watches are silent.
const STALLS: [Duration; 4] = [seconds(15), seconds(60), seconds(120), seconds(290)];
/// Kinds with late watches; the three kinds that planning depends on are more frequent.
const KINDS: [Option<Resource>; 10] = [
    None,
    None,
    Some(POD),
    Some(POD),
    Some(NODE),
    Some(NODE),
    Some(NODE_CLAIM),
    Some(NODE_CLAIM),
    Some(resources::NODE_POOL),
    Some(resources::POD_DISRUPTION_BUDGET),
];

/// A scale-up of many pods at once.
struct Burst {
    at: Duration,
    pods: u32,
    manifest: String,
    name: String,
}

/// The scenario of a seed.
pub(super) fn scenario(
    seed: u64,
    size: u32,
    types: Arc<(Catalogue, Symbols)>,
) -> GeneratedScenario {
    let mut rng = Rng::new(seed ^ SAFE);
    let mut world = world::WorldOptions {
        types: Some(types),
        ..world::WorldOptions::default()
    };
    world.timing.scheduler_lag = seconds(rng.one_of(&[0, 1, 2, 4]));
    world.timing.detach = seconds(rng.one_of(&[0, 5, 20]));
    cloud_of(&mut rng, &mut world.cloud);
    let replicas = if rng.hits(0.8) { 2 } else { 1 };
    let elects = replicas > 1 || rng.hits(0.5);
    let faults = faults_of(&mut rng);
    let base = pools::pools(&mut rng) + &pools::tight(&mut rng, size) + DISKS;
    let mut workloads = pods::workloads(&mut rng, size);
    workloads
        .others
        .retain(|other| !other.contains("name: store"));
    if rng.hits(0.6) {
        workloads.others.push(pods::with_disks(&mut rng));
    }
    hold_some(&mut rng, &mut workloads);
    let bursts = bursts(&mut rng);
    let mut acts = acts::acts(&mut rng, &workloads, &faults, replicas);
    // Those are silent by kind here.
    acts.retain(|(_, act)| !matches!(act, ScenarioEvent::Stall(_)));
    acts.extend(budgets(&mut rng, &workloads));
    acts.extend(scale_ups(&mut rng, &bursts));
    acts.extend(troubles(&mut rng));
    acts.extend(rare(seed, &bursts));
    for n in 1..60 {
        acts.push((seconds(60 * n), ScenarioEvent::Trouble(Trouble::LetGo)));
    }
    acts.retain(|(at, _)| *at < HOUR);
    acts.sort_by_key(|(at, _)| *at);
    let jumps = jumps(&mut rng, replicas);
    let repairs = repairs_of(&mut rng);
    let operator = vec![ScenarioEvent::Trouble(Trouble::LetGo)];
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

const DISKS: &str = "---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: disk}
provisioner: sim.longshore.dev
volumeBindingMode: WaitForFirstConsumer
";

fn cloud_of(rng: &mut Rng, cloud: &mut cloud::CloudOptions) {
    let faults = &mut cloud.faults;
    faults.fail = rng.share(0.4, 0.3);
    faults.slow = rng.share(0.4, 0.3);
    faults.lost = rng.share(0.6, 0.4);
    faults.never_register = rng.share(0.2, 0.1);
    faults.never_ready = rng.share(0.1, 0.1);
    let disturbances = &mut cloud.disturbances;
    disturbances.interruptions = rng.share(0.3, 1.0);
    disturbances.capacity_outages = rng.share(0.3, 6.0);
}

fn faults_of(rng: &mut Rng) -> RequestFaults {
    RequestFaults {
        conflict: rng.share(0.5, 0.05),
        busy: rng.share(0.5, 0.05),
        failing: rng.share(0.4, 0.03),
        lost_request: rng.share(0.4, 0.01),
        lost_answer: rng.share(0.5, 0.02),
        late_request: rng.share(0.5, 0.05),
        stale: rng.share(0.4, 0.1),
        kill: rng.share(0.3, 0.003),
        calls: rng.share(0.4, 0.1),
        unavailable: rng.share(0.5, 0.05),
        gateway: rng.share(0.5, 0.03),
        done_and_failed: rng.share(0.6, 0.05),
        ..RequestFaults::default()
    }
}

/// Pods of some Deployments must not be disrupted.
fn hold_some(rng: &mut Rng, workloads: &mut Workloads) {
    for workload in &mut workloads.workloads {
        if rng.hits(0.25) && !workload.manifest.contains("annotations") {
            let held =
                "template: {metadata: {annotations: {karpenter.sh/do-not-disrupt: 'true'}, labels";
            workload.manifest = workload
                .manifest
                .replacen("template: {metadata: {labels", held, 1);
        }
    }
}

/// No pod may leave for a while.
fn budgets(rng: &mut Rng, workloads: &Workloads) -> Vec<(Duration, ScenarioEvent)> {
    let mut acts = Vec::new();
    for workload in workloads
        .workloads
        .iter()
        .filter(|workload| !workload.manifest.contains("PodDisruptionBudget"))
    {
        if rng.hits(0.4) {
            let at = seconds(60) + rng.time(seconds(40 * 60));
            let until = at + seconds(30) + rng.time(seconds(600));
            acts.push((
                at,
                ScenarioEvent::Apply(pods::budget(&workload.name, "maxUnavailable: 0")),
            ));
            acts.push((
                until,
                ScenarioEvent::Apply(pods::budget(&workload.name, "maxUnavailable: 50%")),
            ));
        }
    }
    acts
}

fn bursts(rng: &mut Rng) -> Vec<Burst> {
    let mut all = Vec::new();
    for number in 0..rng.between(1, 2) {
        let name = format!("burst{number}");
        let (pods, cpus) = if rng.hits(0.06) {
            (400, ["50m", "100m"])
        } else {
            (40, ["250m", "900m"])
        };
        let manifest = pods::burst(&name, rng.one_of(&cpus), rng.hits(0.3));
        all.push(Burst {
            at: seconds(60) + rng.time(seconds(40 * 60)),
            pods,
            manifest,
            name,
        });
    }
    all
}

fn watches(rng: &mut Rng) -> Watches {
    let process = rng.hits(0.4).then(|| rng.between(0, 1 << 20));
    Watches {
        process,
        kind: rng.one_of(&KINDS),
    }
}

/// Scale-ups, each with a stall of its own from before it begins until its nodes are there.
fn scale_ups(rng: &mut Rng, bursts: &[Burst]) -> Vec<(Duration, ScenarioEvent)> {
    let mut acts = Vec::new();
    for burst in bursts {
        acts.push((seconds(2), ScenarioEvent::Apply(burst.manifest.clone())));
        acts.push((
            burst.at,
            ScenarioEvent::Scale(burst.name.clone(), burst.pods),
        ));
        let down = burst.at + seconds(300) + rng.time(seconds(1200));
        acts.push((
            down,
            ScenarioEvent::Scale(burst.name.clone(), rng.between(0, 10) as u32),
        ));
        if rng.hits(WATCH_FAULT_IN_BURST) {
            let at = (burst.at + rng.time(seconds(70))).saturating_sub(seconds(10));
            let (whose, length) = (watches(rng), rng.one_of(&STALLS));
            let late = Trouble::Late(
                whose,
                seconds(rng.one_of(&[3, 10, 30, 100])),
                length + seconds(60),
            );
            acts.push((
                at,
                ScenarioEvent::Trouble(if rng.hits(SILENT_NOT_LATE) {
                    Trouble::Silent(whose, length)
                } else {
                    late
                }),
            ));
        }
    }
    acts
}

fn troubles(rng: &mut Rng) -> Vec<(Duration, ScenarioEvent)> {
    let mut acts = Vec::new();
    let mut some = |chance: f64, most: u64, make: &mut dyn FnMut(&mut Rng) -> Trouble| {
        if !rng.hits(chance) {
            return;
        }
        for _ in 0..rng.between(1, most) {
            let at = seconds(20) + rng.time(seconds(50 * 60));
            let trouble = make(rng);
            acts.push((at, ScenarioEvent::Trouble(trouble)));
        }
    };
    let lot = |rng: &mut Rng| rng.between(0, 1 << 20);
    some(0.5, 3, &mut |rng| {
        Trouble::Freeze(lot(rng), seconds(rng.one_of(&[3, 12, 20, 60, 180])))
    });
    some(0.5, 3, &mut |rng| Trouble::Terminate(lot(rng)));
    some(0.2, 1, &mut |_| Trouble::Restore);
    some(0.4, 2, &mut |rng| {
        let listed = rng.one_of(&[0.0, 0.5, 0.9]);
        Trouble::PartialLists(listed, seconds(30) + rng.time(seconds(270)))
    });
    some(0.3, 2, &mut |rng| {
        Trouble::Throttled(seconds(30) + rng.time(seconds(240)))
    });
    some(0.3, 2, &mut |rng| {
        Trouble::NothingEnds(seconds(30) + rng.time(seconds(240)))
    });
    some(SILENT_WATCH_OTHERWISE, 2, &mut |rng| {
        Trouble::Silent(watches(rng), rng.one_of(&STALLS))
    });
    acts
}

/// What one scenario in ten has: the leader is refused while it buys and loses its Lease meanwhile,
/// or most nodes are sick at once. By random numbers of their own, so that all other scenarios stay what they
/// are.
fn rare(seed: u64, bursts: &[Burst]) -> Vec<(Duration, ScenarioEvent)> {
    let mut rng = Rng::new(seed ^ RARE);
    match seed % 10 {
        3 => {
            let overload = |burst: &Burst| {
                let at = burst.at + rng.time(seconds(20));
                (
                    at,
                    ScenarioEvent::Trouble(Trouble::Overloaded(
                        seconds(12) + rng.time(seconds(20)),
                    )),
                )
            };
            bursts.iter().map(overload).collect()
        }
        7 => {
            let at = seconds(15 * 60) + rng.time(seconds(30 * 60));
            let sick = Trouble::Sick(rng.one_of(&[0.3, 0.6, 0.9]), rng.between(0, 1 << 20));
            let well = at + seconds(200) + rng.time(seconds(300));
            vec![
                (at, ScenarioEvent::Trouble(sick)),
                (well, ScenarioEvent::Trouble(Trouble::Well)),
            ]
        }
        _ => Vec::new(),
    }
}

/// Clocks that are set wrong for a while.
fn jumps(rng: &mut Rng, replicas: u32) -> Vec<Jump> {
    let mut jumps = Vec::new();
    if rng.hits(0.35) {
        let slot = rng.between(0, u64::from(replicas) - 1) as u32;
        let by = rng.one_of(&[90, 600, 3600, -90, -600, -3600]);
        let at = seconds(60) + rng.time(seconds(30 * 60));
        let back = at + seconds(60) + rng.time(seconds(15 * 60));
        jumps.extend([
            Jump {
                slot,
                at,
                seconds: by,
            },
            Jump {
                slot,
                at: back,
                seconds: -by,
            },
        ]);
    }
    jumps
}
