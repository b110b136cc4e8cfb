//! What happens in a story, and when.

use std::time::Duration;

use super::pods::Cast;
use super::trouble::Trouble;
use super::{Dice, HOUR};
use crate::actors::fields;
use crate::faults::Faults;
use crate::harness::Harness;
use crate::server::resources;

/// Something that happens. `lot` picks one of those that are there then.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Somebody applies manifests.
    Apply(String),
    /// A Deployment gets another number of replicas.
    Scale(String, u32),
    /// Somebody deletes a pod.
    DeletePod(u64),
    /// Somebody deletes a NodeClaim.
    DeleteClaim(u64),
    /// Somebody deletes a Node.
    DeleteNode(u64),
    /// The cloud takes an instance back, with notice.
    Interrupt(u64),
    /// A machine dies.
    Break(u64),
    /// Offerings run short: pattern and for how long.
    Storm(String, Duration),
    /// All watches end.
    DropWatches,
    /// All watches are silent for a while.
    Stall(Duration),
    /// The server forgets the past: whoever watches has to list.
    Compact,
    /// A process of the daemon is killed.
    Kill(u64),
    /// Whoever leads cannot renew its Lease for a while.
    CutLease(Duration),
    /// The operator deletes nodes that have not been ready for long.
    LookAfter,
    /// What only stories of the second kind have.
    Trouble(Trouble),
}

/// The acts of a story, by time. The last of them is before the hour is over.
pub(super) fn acts(dice: &mut Dice, cast: &Cast, faults: &Faults, replicas: u32) -> Vec<(Duration, Act)> {
    let mut acts = vec![(Duration::from_secs(1), Act::Apply(cast.base.clone()))];
    let minute = |n: u64| Duration::from_secs(60 * n);
    // They come in the first ten minutes, some of them all at once.
    for player in &cast.players {
        let begins = if dice.hits(0.3) { Duration::from_secs(5) } else { dice.time(minute(10)) };
        let (least, most) = player.replicas;
        let begin = dice.between(1, u64::from(most)) as u32;
        acts.push((begins, Act::Apply(player.with(begin))));
        for _ in 0..dice.between(1, 5) {
            let at = begins + dice.time(minute(45));
            let replicas = if dice.hits(0.3) { most } else { dice.between(u64::from(least), u64::from(most)) as u32 };
            acts.push((at, Act::Scale(player.name.clone(), replicas)));
        }
        if dice.hits(0.5) {
            acts.push((minute(56), Act::Scale(player.name.clone(), (least + most) / 4)));
        }
    }
    for other in &cast.others {
        acts.push((dice.time(minute(30)), Act::Apply(other.clone())));
    }
    let mut some = |most: u64, make: &mut dyn FnMut(&mut Dice) -> Act| {
        for _ in 0..dice.between(0, most) {
            let at = Duration::from_secs(30) + dice.time(minute(57));
            let act = make(dice);
            acts.push((at, act));
        }
    };
    let lot = |dice: &mut Dice| dice.between(0, 1 << 20);
    some(8, &mut |dice| Act::DeletePod(lot(dice)));
    some(5, &mut |dice| Act::DeleteClaim(lot(dice)));
    some(3, &mut |dice| Act::DeleteNode(lot(dice)));
    some(2, &mut |dice| Act::Interrupt(lot(dice)));
    some(1, &mut |dice| Act::Break(lot(dice)));
    some(2, &mut |dice| {
        let zone = dice.one_of(&["*", "test-zone-a", "test-zone-b"]);
        let capacity = dice.one_of(&["*", "spot", "spot", "on-demand"]);
        Act::Storm(format!("*/{zone}/{capacity}"), dice.time(Duration::from_secs(900)))
    });
    let watches = dice.hits(0.6);
    let mut some = |most: u64, make: &mut dyn FnMut(&mut Dice) -> Act| {
        for _ in 0..dice.between(0, most) {
            let at = Duration::from_secs(10) + dice.time(minute(57));
            let act = make(dice);
            acts.push((at, act));
        }
    };
    if watches {
        some(4, &mut |_| Act::DropWatches);
        some(2, &mut |dice| Act::Stall(dice.time(Duration::from_secs(60))));
        some(3, &mut |_| Act::Compact);
    }
    // Who was deaf for a while and then finds the past forgotten has to find out from a list what is gone.
    let stalls: Vec<_> = acts.iter().filter(|(_, act)| matches!(act, Act::Stall(_))).cloned().collect();
    for (at, act) in stalls {
        if let (Act::Stall(length), true) = (act, dice.hits(0.6)) {
            acts.push((at + length.mul_f64(0.9), Act::Compact));
        }
    }
    let mut some = |most: u64, make: &mut dyn FnMut(&mut Dice) -> Act| {
        for _ in 0..dice.between(0, most) {
            let at = Duration::from_secs(10) + dice.time(minute(57));
            let act = make(dice);
            acts.push((at, act));
        }
    };
    if faults.kill > 0.0 {
        some(4, &mut |dice| Act::Kill(lot(dice)));
    }
    if replicas > 1 {
        some(4, &mut |dice| Act::CutLease(Duration::from_secs(20) + dice.time(Duration::from_secs(60))));
    }
    for n in 1..60 {
        acts.push((minute(n), Act::LookAfter));
    }
    acts.retain(|(at, _)| *at < HOUR);
    acts.sort_by_key(|(at, _)| *at);
    acts
}

/// A node that is not ready for so long, seconds, is deleted by the operator.
const UNREADY: i64 = 300;

impl Act {
    /// Lets it happen.
    pub fn happen(&self, harness: &Harness) {
        let world = &harness.world;
        let server = &world.server;
        match self {
            Act::Apply(manifests) => {
                if let Err(error) = world.apply(manifests) {
                    world.log.say(world.clock, format!("VIOLATION of the story: {error}"));
                }
            }
            Act::Scale(name, replicas) => drop(world.scale("Deployment", "default", name, *replicas)),
            Act::DeletePod(lot) => {
                let pods = server.list_in(resources::POD, "default");
                if let Some(pod) = pods.get(*lot as usize % pods.len().max(1)) {
                    world.delete("Pod", "default", fields::name(pod));
                }
            }
            Act::DeleteClaim(lot) => {
                let claims = server.list(resources::NODE_CLAIM);
                if let Some(claim) = claims.get(*lot as usize % claims.len().max(1)) {
                    world.delete("NodeClaim", "", fields::name(claim));
                }
            }
            Act::DeleteNode(lot) => {
                let nodes = server.list(resources::NODE);
                if let Some(node) = nodes.get(*lot as usize % nodes.len().max(1)) {
                    world.delete("Node", "", fields::name(node));
                }
            }
            Act::Interrupt(lot) | Act::Break(lot) => {
                let ledger = world.cloud.ledger();
                let running: Vec<&str> = ledger.running().map(|entry| entry.provider_id.as_str()).collect();
                if let Some(id) = running.get(*lot as usize % running.len().max(1)) {
                    match self {
                        Act::Interrupt(_) => world.cloud.interrupt(id),
                        _ => world.cloud.kill(id),
                    };
                }
            }
            Act::Storm(pattern, length) => world.cloud.storm(pattern, *length),
            Act::DropWatches => server.drop_watches(),
            Act::Stall(length) => harness.stall_watches(*length),
            Act::Compact => server.compact(),
            Act::Kill(lot) => drop(harness.kill(*lot)),
            Act::CutLease(length) => harness.cut_lease(*length),
            Act::LookAfter => look_after(harness),
            Act::Trouble(trouble) => trouble.happen(harness),
        }
    }
}

/// Deletes nodes that have not been ready for long: nobody else repairs them.
pub(crate) fn look_after(harness: &Harness) {
    let world = &harness.world;
    let now = world.clock.now().as_second();
    for node in world.server.list(resources::NODE) {
        let ready = fields::items(&node, "/status/conditions").iter().find(|c| c["type"] == "Ready");
        let unready = ready.is_none_or(|c| c["status"] != "True");
        let since = ready.and_then(|c| fields::time(c, "/lastTransitionTime"));
        let since = since.or(fields::time(&node, "/metadata/creationTimestamp")).map_or(now, |at| at.as_second());
        if unready && now - since > UNREADY && !fields::deleting(&node) {
            world.log.say(world.clock, format!("the operator deletes {}: it is not ready", fields::name(&node)));
            world.delete("Node", "", fields::name(&node));
        }
    }
}
