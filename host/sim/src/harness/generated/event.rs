//! Events of generated scenarios, and how they happen in a world.

use std::time::Duration;

use super::trouble::Trouble;
use crate::harness::Harness;
use crate::harness::foreign::is_foreign;
use longshore_simcluster::fields;
use longshore_simcluster::server::resources;

/// Something that happens. `lot` picks one of those that are there then.
#[derive(Clone, Debug, PartialEq)]
pub enum ScenarioEvent {
    /// A user applies manifests.
    Apply(String),
    /// A Deployment gets another number of replicas.
    Scale(String, u32),
    /// A user deletes a pod.
    DeletePod(u64),
    /// A user deletes a NodeClaim.
    DeleteClaim(u64),
    /// A user deletes a Node.
    DeleteNode(u64),
    /// The cloud takes an instance back, with notice.
    Interrupt(u64),
    /// A machine dies.
    Break(u64),
    /// Offerings run short: pattern and for how long.
    CapacityOutage(String, Duration),
    /// All watches end.
    DropWatches,
    /// All watches are silent for a while.
    Stall(Duration),
    /// The server compacts its history: watchers have to list.
    Compact,
    /// A process of the daemon is killed.
    Kill(u64),
    /// The leader cannot renew its Lease for a while.
    CutLease(Duration),
    /// A minute is over: what runs then is counted.
    Minute,
    /// What only scenarios of the kind `safe` have.
    Trouble(Trouble),
    /// Faults of a cloud that is simulated elsewhere, in its own words.
    Cloud(String),
}

impl ScenarioEvent {
    /// Lets it happen.
    pub fn happen(&self, harness: &Harness) {
        let world = &harness.world;
        let server = &world.server;
        match self {
            ScenarioEvent::Apply(manifests) => {
                if let Err(error) = world.apply(manifests) {
                    world
                        .log
                        .say(world.clock, format!("VIOLATION of the story: {error}"));
                }
            }
            ScenarioEvent::Scale(name, replicas) => {
                world.scale("Deployment", "default", name, *replicas);
            }
            ScenarioEvent::DeletePod(lot) => {
                let pods = server.list_in(resources::POD, "default");
                if let Some(pod) = pods.get(*lot as usize % pods.len().max(1)) {
                    world.delete("Pod", "default", fields::name(pod));
                }
            }
            ScenarioEvent::DeleteClaim(lot) => {
                let mut claims = server.list(resources::NODE_CLAIM);
                claims.retain(|claim| !is_foreign(claim));
                if let Some(claim) = claims.get(*lot as usize % claims.len().max(1)) {
                    world.delete("NodeClaim", "", fields::name(claim));
                }
            }
            ScenarioEvent::DeleteNode(lot) => {
                let mut nodes = server.list(resources::NODE);
                nodes.retain(|node| !is_foreign(node));
                if let Some(node) = nodes.get(*lot as usize % nodes.len().max(1)) {
                    world.delete("Node", "", fields::name(node));
                }
            }
            ScenarioEvent::Interrupt(lot) | ScenarioEvent::Break(lot) => {
                let ledger = world.cloud.ledger();
                let running: Vec<&str> = ledger
                    .running()
                    .map(|entry| entry.provider_id.as_str())
                    .collect();
                if let Some(id) = running.get(*lot as usize % running.len().max(1)) {
                    match self {
                        ScenarioEvent::Interrupt(_) => world.cloud.interrupt(id),
                        _ => world.cloud.kill(id),
                    };
                }
            }
            ScenarioEvent::CapacityOutage(pattern, length) => {
                world.cloud.capacity_outage(pattern, *length)
            }
            ScenarioEvent::DropWatches => server.drop_watches(),
            ScenarioEvent::Stall(length) => harness.stall_watches(*length),
            ScenarioEvent::Compact => server.compact(),
            ScenarioEvent::Kill(lot) => drop(harness.kill(*lot)),
            ScenarioEvent::CutLease(length) => harness.cut_lease(*length),
            ScenarioEvent::Minute => {}
            ScenarioEvent::Trouble(trouble) => trouble.happen(harness),
            ScenarioEvent::Cloud(what) => {
                if let Some(elsewhere) = world.cloud.elsewhere() {
                    elsewhere.trouble(what);
                }
            }
        }
    }
}
