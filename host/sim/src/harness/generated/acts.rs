//! The events of a generated scenario, and their times.

use std::time::Duration;

use super::event::ScenarioEvent;
use super::pods::Workloads;
use super::rng::Rng;
use super::scenario::HOUR;
use longshore_simcluster::faults::RequestFaults;

/// How likely watches end, are silent and find the history compacted in a scenario.
const WATCH_FAULTS: f64 = 0.6;

/// The acts of a scenario, by time. The last of them is before the hour is over.
pub(super) fn acts(
    rng: &mut Rng,
    workloads: &Workloads,
    faults: &RequestFaults,
    replicas: u32,
) -> Vec<(Duration, ScenarioEvent)> {
    let mut acts = vec![(
        Duration::from_secs(1),
        ScenarioEvent::Apply(workloads.base.clone()),
    )];
    let minute = |n: u64| Duration::from_secs(60 * n);
    // They come in the first ten minutes, some of them all at once.
    for workload in &workloads.workloads {
        let begins = if rng.hits(0.3) {
            Duration::from_secs(5)
        } else {
            rng.time(minute(10))
        };
        let (least, most) = workload.replicas;
        let begin = rng.between(1, u64::from(most)) as u32;
        acts.push((begins, ScenarioEvent::Apply(workload.with(begin))));
        for _ in 0..rng.between(1, 5) {
            let at = begins + rng.time(minute(45));
            let replicas = if rng.hits(0.3) {
                most
            } else {
                rng.between(u64::from(least), u64::from(most)) as u32
            };
            acts.push((at, ScenarioEvent::Scale(workload.name.clone(), replicas)));
        }
        if rng.hits(0.5) {
            acts.push((
                minute(56),
                ScenarioEvent::Scale(workload.name.clone(), (least + most) / 4),
            ));
        }
    }
    for other in &workloads.others {
        acts.push((rng.time(minute(30)), ScenarioEvent::Apply(other.clone())));
    }
    let mut some = |most: u64, make: &mut dyn FnMut(&mut Rng) -> ScenarioEvent| {
        for _ in 0..rng.between(0, most) {
            let at = Duration::from_secs(30) + rng.time(minute(57));
            let act = make(rng);
            acts.push((at, act));
        }
    };
    let lot = |rng: &mut Rng| rng.between(0, 1 << 20);
    some(8, &mut |rng| ScenarioEvent::DeletePod(lot(rng)));
    some(5, &mut |rng| ScenarioEvent::DeleteClaim(lot(rng)));
    some(3, &mut |rng| ScenarioEvent::DeleteNode(lot(rng)));
    some(2, &mut |rng| ScenarioEvent::Interrupt(lot(rng)));
    some(1, &mut |rng| ScenarioEvent::Break(lot(rng)));
    some(2, &mut |rng| {
        let zone = rng.one_of(&["*", "test-zone-a", "test-zone-b"]);
        let capacity = rng.one_of(&["*", "spot", "spot", "on-demand"]);
        ScenarioEvent::CapacityOutage(
            format!("*/{zone}/{capacity}"),
            rng.time(Duration::from_secs(900)),
        )
    });
    let watches = rng.hits(WATCH_FAULTS);
    let mut some = |most: u64, make: &mut dyn FnMut(&mut Rng) -> ScenarioEvent| {
        for _ in 0..rng.between(0, most) {
            let at = Duration::from_secs(10) + rng.time(minute(57));
            let act = make(rng);
            acts.push((at, act));
        }
    };
    if watches {
        some(4, &mut |_| ScenarioEvent::DropWatches);
        some(2, &mut |rng| {
            ScenarioEvent::Stall(rng.time(Duration::from_secs(60)))
        });
        some(3, &mut |_| ScenarioEvent::Compact);
    }
    // A client with a silent watch finds the history compacted, and has to learn deletions from a
    // list.
    let stalls: Vec<_> = acts
        .iter()
        .filter(|(_, act)| matches!(act, ScenarioEvent::Stall(_)))
        .cloned()
        .collect();
    for (at, act) in stalls {
        if let (ScenarioEvent::Stall(length), true) = (act, rng.hits(0.6)) {
            acts.push((at + length.mul_f64(0.9), ScenarioEvent::Compact));
        }
    }
    let mut some = |most: u64, make: &mut dyn FnMut(&mut Rng) -> ScenarioEvent| {
        for _ in 0..rng.between(0, most) {
            let at = Duration::from_secs(10) + rng.time(minute(57));
            let act = make(rng);
            acts.push((at, act));
        }
    };
    if faults.kill > 0.0 {
        some(4, &mut |rng| ScenarioEvent::Kill(lot(rng)));
    }
    if replicas > 1 {
        some(4, &mut |rng| {
            ScenarioEvent::CutLease(Duration::from_secs(20) + rng.time(Duration::from_secs(60)))
        });
    }
    for n in 1..60 {
        acts.push((minute(n), ScenarioEvent::Minute));
    }
    acts.retain(|(at, _)| *at < HOUR);
    acts.sort_by_key(|(at, _)| *at);
    acts
}
