//! Stories of the second kind: everything of the first, and what tempts a controller to buy twice or to end what is in
//! use. Each scale-up has its own stall, at a time that the seed decides.
//!
//! Their seeds are other ones: seed 7 here tells nothing of what seed 7 of [`Story::new`](super::Story::new) does.

use std::sync::Arc;
use std::time::Duration;

use longshore_core::model::{Catalogue, Names};

use super::pods::{self, Cast};
use super::trouble::{Trouble, Watches};
use super::{Act, Dice, HOUR, Story, acts, pools};
use crate::cloud;
use crate::faults::Faults;
use crate::harness::Jump;
use crate::object::Resource;
use crate::server::resources::{self, NODE, NODE_CLAIM, POD};
use crate::world;

/// Tells these dice from those of the other stories.
const SAFE: u64 = 0x5afe_0000_0000;
/// Tells the dice of what one story in ten has from its others.
const RARE: u64 = 0x5afe_7a7e_0000;
const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}
/// How long watches are silent.
const STALLS: [Duration; 4] = [seconds(15), seconds(60), seconds(120), seconds(290)];
/// What is told late; the three kinds that planning lives on more often than others.
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

/// The story of a seed.
pub(super) fn story(seed: u64, size: u32, types: Arc<(Catalogue, Names)>) -> Story {
    let mut dice = Dice::new(seed ^ SAFE);
    let mut world = world::Options { types: Some(types), ..world::Options::default() };
    world.timing.scheduler_lag = seconds(dice.one_of(&[0, 1, 2, 4]));
    world.timing.detach = seconds(dice.one_of(&[0, 5, 20]));
    cloud_of(&mut dice, &mut world.cloud);
    let replicas = if dice.hits(0.8) { 2 } else { 1 };
    let elects = replicas > 1 || dice.hits(0.5);
    let faults = faults_of(&mut dice);
    let base = pools::pools(&mut dice) + &pools::tight(&mut dice, size) + DISKS;
    let mut cast = pods::cast(&mut dice, size);
    cast.others.retain(|other| !other.contains("name: store"));
    if dice.hits(0.6) {
        cast.others.push(pods::with_disks(&mut dice));
    }
    hold_some(&mut dice, &mut cast);
    let bursts = bursts(&mut dice);
    let mut acts = acts::acts(&mut dice, &cast, &faults, replicas);
    // Those are silent by kind here.
    acts.retain(|(_, act)| !matches!(act, Act::Stall(_)));
    acts.extend(budgets(&mut dice, &cast));
    acts.extend(scale_ups(&mut dice, &bursts));
    acts.extend(troubles(&mut dice));
    acts.extend(rare(seed, &bursts));
    for n in 1..60 {
        acts.push((seconds(60 * n), Act::Trouble(Trouble::LetGo)));
    }
    acts.retain(|(at, _)| *at < HOUR);
    acts.sort_by_key(|(at, _)| *at);
    let jumps = jumps(&mut dice, replicas);
    let repairs = dice.hits(0.7);
    let operator = vec![Act::LookAfter, Act::Trouble(Trouble::LetGo)];
    Story { seed, world, replicas, elects, repairs, faults, base, acts, jumps, operator }
}

const DISKS: &str = "---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: disk}
provisioner: sim.longshore.dev
volumeBindingMode: WaitForFirstConsumer
";

fn share(dice: &mut Dice, chance: f64, most: f64) -> f64 {
    if dice.hits(chance) { dice.unit() * most } else { 0.0 }
}

fn cloud_of(dice: &mut Dice, cloud: &mut cloud::Options) {
    let faults = &mut cloud.faults;
    faults.fail = share(dice, 0.4, 0.3);
    faults.slow = share(dice, 0.4, 0.3);
    faults.lost = share(dice, 0.6, 0.4);
    faults.never_register = share(dice, 0.2, 0.1);
    faults.never_ready = share(dice, 0.1, 0.1);
    let weather = &mut cloud.weather;
    weather.interruptions = share(dice, 0.3, 1.0);
    weather.storms = share(dice, 0.3, 6.0);
}

fn faults_of(dice: &mut Dice) -> Faults {
    Faults {
        conflict: share(dice, 0.5, 0.05),
        busy: share(dice, 0.5, 0.05),
        failing: share(dice, 0.4, 0.03),
        lost_request: share(dice, 0.4, 0.01),
        lost_answer: share(dice, 0.5, 0.02),
        late: share(dice, 0.5, 0.05),
        stale: share(dice, 0.4, 0.1),
        kill: share(dice, 0.3, 0.003),
        calls: share(dice, 0.4, 0.1),
        unavailable: share(dice, 0.5, 0.05),
        gateway: share(dice, 0.5, 0.03),
        done_and_failed: share(dice, 0.6, 0.05),
    }
}

/// Pods of some Deployments must not be disrupted.
fn hold_some(dice: &mut Dice, cast: &mut Cast) {
    for player in &mut cast.players {
        if dice.hits(0.25) && !player.manifest.contains("annotations") {
            let held = "template: {metadata: {annotations: {karpenter.sh/do-not-disrupt: 'true'}, labels";
            player.manifest = player.manifest.replacen("template: {metadata: {labels", held, 1);
        }
    }
}

/// Nobody may leave for a while.
fn budgets(dice: &mut Dice, cast: &Cast) -> Vec<(Duration, Act)> {
    let mut acts = Vec::new();
    for player in cast.players.iter().filter(|player| !player.manifest.contains("PodDisruptionBudget")) {
        if dice.hits(0.4) {
            let at = seconds(60) + dice.time(seconds(40 * 60));
            let until = at + seconds(30) + dice.time(seconds(600));
            acts.push((at, Act::Apply(pods::budget(&player.name, "maxUnavailable: 0"))));
            acts.push((until, Act::Apply(pods::budget(&player.name, "maxUnavailable: 50%"))));
        }
    }
    acts
}

fn bursts(dice: &mut Dice) -> Vec<Burst> {
    let mut all = Vec::new();
    for number in 0..dice.between(1, 2) {
        let name = format!("burst{number}");
        let (pods, cpus) = if dice.hits(0.06) { (400, ["50m", "100m"]) } else { (40, ["250m", "900m"]) };
        let manifest = pods::burst(&name, dice.one_of(&cpus), dice.hits(0.3));
        all.push(Burst { at: seconds(60) + dice.time(seconds(40 * 60)), pods, manifest, name });
    }
    all
}

fn watches(dice: &mut Dice) -> Watches {
    let process = dice.hits(0.4).then(|| dice.between(0, 1 << 20));
    Watches { process, kind: dice.one_of(&KINDS) }
}

/// Scale-ups, each with a stall of its own from before it begins until its nodes are there.
fn scale_ups(dice: &mut Dice, bursts: &[Burst]) -> Vec<(Duration, Act)> {
    let mut acts = Vec::new();
    for burst in bursts {
        acts.push((seconds(2), Act::Apply(burst.manifest.clone())));
        acts.push((burst.at, Act::Scale(burst.name.clone(), burst.pods)));
        let down = burst.at + seconds(300) + dice.time(seconds(1200));
        acts.push((down, Act::Scale(burst.name.clone(), dice.between(0, 10) as u32)));
        if dice.hits(0.8) {
            let at = (burst.at + dice.time(seconds(70))).saturating_sub(seconds(10));
            let (whose, length) = (watches(dice), dice.one_of(&STALLS));
            let late = Trouble::Late(whose, seconds(dice.one_of(&[3, 10, 30, 100])), length + seconds(60));
            acts.push((at, Act::Trouble(if dice.hits(0.6) { Trouble::Silent(whose, length) } else { late })));
        }
    }
    acts
}

fn troubles(dice: &mut Dice) -> Vec<(Duration, Act)> {
    let mut acts = Vec::new();
    let mut some = |chance: f64, most: u64, make: &mut dyn FnMut(&mut Dice) -> Trouble| {
        if !dice.hits(chance) {
            return;
        }
        for _ in 0..dice.between(1, most) {
            let at = seconds(20) + dice.time(seconds(50 * 60));
            let trouble = make(dice);
            acts.push((at, Act::Trouble(trouble)));
        }
    };
    let lot = |dice: &mut Dice| dice.between(0, 1 << 20);
    some(0.5, 3, &mut |dice| Trouble::Freeze(lot(dice), seconds(dice.one_of(&[3, 12, 20, 60, 180]))));
    some(0.5, 3, &mut |dice| Trouble::Terminate(lot(dice)));
    some(0.2, 1, &mut |_| Trouble::Restore);
    some(0.4, 2, &mut |dice| {
        let listed = dice.one_of(&[0.0, 0.5, 0.9]);
        Trouble::PartialLists(listed, seconds(30) + dice.time(seconds(270)))
    });
    some(0.3, 2, &mut |dice| Trouble::Throttled(seconds(30) + dice.time(seconds(240))));
    some(0.3, 2, &mut |dice| Trouble::NothingEnds(seconds(30) + dice.time(seconds(240))));
    some(0.4, 2, &mut |dice| Trouble::Silent(watches(dice), dice.one_of(&STALLS)));
    acts
}

/// What one story in ten has: the leader is refused while it buys and loses its Lease meanwhile, or most nodes are sick at
/// once. By dice of their own, so that all other stories stay what they are.
fn rare(seed: u64, bursts: &[Burst]) -> Vec<(Duration, Act)> {
    let mut dice = Dice::new(seed ^ RARE);
    match seed % 10 {
        3 => {
            let overload = |burst: &Burst| {
                let at = burst.at + dice.time(seconds(20));
                (at, Act::Trouble(Trouble::Overloaded(seconds(12) + dice.time(seconds(20)))))
            };
            bursts.iter().map(overload).collect()
        }
        7 => {
            let at = seconds(15 * 60) + dice.time(seconds(30 * 60));
            let sick = Trouble::Sick(dice.one_of(&[0.3, 0.6, 0.9]), dice.between(0, 1 << 20));
            let well = at + seconds(200) + dice.time(seconds(300));
            vec![(at, Act::Trouble(sick)), (well, Act::Trouble(Trouble::Well))]
        }
        _ => Vec::new(),
    }
}

/// Clocks that are set wrong for a while.
fn jumps(dice: &mut Dice, replicas: u32) -> Vec<Jump> {
    let mut jumps = Vec::new();
    if dice.hits(0.35) {
        let slot = dice.between(0, u64::from(replicas) - 1) as u32;
        let by = dice.one_of(&[90, 600, 3600, -90, -600, -3600]);
        let at = seconds(60) + dice.time(seconds(30 * 60));
        let back = at + seconds(60) + dice.time(seconds(15 * 60));
        jumps.extend([Jump { slot, at, seconds: by }, Jump { slot, at: back, seconds: -by }]);
    }
    jumps
}
