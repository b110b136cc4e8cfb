//! What a round plans from: the cluster at a moment, and what is known of pods that wait and of
//! unhealthy nodes. The thread that plans makes a world of it.

use std::collections::{BTreeMap, HashMap, HashSet};

use longshore_core::model::{
    Catalogue, ClusterObjects, DueRepair, Failures, Symbol, UnhealthyNode,
};
use longshore_core::plan::PodIx;

use super::claims::pod_name;
use crate::observe::overlays::OverlaySet;
use crate::observe::state::FrozenState;
use crate::process::mutants::mutant;

/// The cluster at a moment, and what the loop knows of pods that wait.
pub struct RoundInput {
    pub(crate) state: FrozenState,
    /// What can be bought, in the names of the state.
    pub(crate) catalogue: Catalogue,
    /// Pods that kube-scheduler has not looked at yet, `namespace/name`.
    pub(crate) unattempted: HashSet<String>,
    /// The place of each pod that waits in kube-scheduler's queue, by `namespace/name`.
    pub(crate) queued: HashMap<String, u64>,
    /// The node or claim that a pod was planned for, by `namespace/name`.
    pub(crate) planned: HashMap<String, PlannedHost>,
    /// Nodes that their cloud calls unhealthy, for a look for disruption.
    pub(crate) unhealthy: Vec<UnhealthyHost>,
    /// What this process has noted of commands that failed, by NodePool, for a look for disruption.
    pub(crate) failures: BTreeMap<String, Failures>,
    /// Seconds since 1970.
    pub(crate) now: i64,
}

/// A node, or a claim that will be one. The greatest of several is the one that counts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PlannedHost {
    /// It has not registered yet.
    pub(crate) in_flight: bool,
    /// When its claim was made, seconds since 1970.
    pub(crate) created: i64,
    pub(crate) name: String,
}

/// A node that its cloud calls unhealthy.
pub(crate) struct UnhealthyHost {
    pub(crate) node: String,
    /// `Type=Status`.
    pub(crate) condition: String,
    pub(crate) due: Option<DueRepair>,
}

impl UnhealthyHost {
    /// Adds it to a world.
    pub(crate) fn enter(self, world: &mut ClusterObjects) {
        let unhealthy = UnhealthyNode {
            node: world.names.intern(&self.node),
            condition: world.names.intern(&self.condition),
            due: self.due,
        };
        world.unhealthy.push(unhealthy);
    }
}

impl RoundInput {
    /// NodeOverlays.
    pub fn overlays(&self) -> OverlaySet {
        self.state.overlays.clone()
    }

    /// The world to plan on; settings are the caller's.
    pub fn world(self) -> ClusterObjects {
        let mut world = self.state.world();
        world.catalogue = self.catalogue;
        world.now = self.now;
        // Names are made once: there may be thousands of pods that wait.
        let unbound: Vec<(usize, String)> = (0..world.pods.len())
            .filter(|&at| world.pods[at].node.is_none())
            .map(|at| (at, pod_name(&world, PodIx(at as u32))))
            .collect();
        for (at, name) in &unbound {
            world.pods[*at].queued = self.queued.get(name).copied().unwrap_or(0);
        }
        if !self.unattempted.is_empty() {
            mark_unattempted(&mut world, &unbound, &self.unattempted);
        }
        if !self.planned.is_empty() {
            nominate_planned(&mut world, &unbound, &self.planned);
        }
        for host in self.unhealthy {
            host.enter(&mut world);
        }
        for (name, failures) in &self.failures {
            let name = world.names.get(name);
            let mut pools = world.pools.iter_mut();
            if let Some(pool) = pools.find(|pool| Some(pool.name) == name) {
                pool.failures = Some(*failures);
            }
        }
        if mutant("limits-from-cache") {
            // What a claim may become counts against no limit before its capacity was seen.
            let unseen = world
                .claims
                .iter_mut()
                .filter(|claim| claim.capacity.is_empty());
            unseen.for_each(|claim| claim.requirements.clear());
        }
        world
    }
}

/// Marks pods for which kube-scheduler will find no node if the plan finds none. kube-scheduler
/// needs seconds for a thousand pods, and their nodes can be launching by then. Not those that
/// could preempt others.
fn mark_unattempted(
    world: &mut ClusterObjects,
    unbound: &[(usize, String)],
    unattempted: &HashSet<String>,
) {
    let priority = |at: usize| world.shapes.get(world.pods[at].shape).priority;
    let run = (0..world.pods.len())
        .filter(|&at| world.pods[at].node.is_some() && !world.pods[at].terminal);
    let lowest = run.map(priority).min();
    for (at, name) in unbound {
        let pod = &world.pods[*at];
        let preempts =
            || lowest.is_some_and(|lowest| world.shapes.get(pod.shape).priority > lowest);
        if !pod.unschedulable && unattempted.contains(name) && !preempts() {
            world.pods[*at].unattempted = true;
        }
    }
}

/// Counts pods to the nodes and claims that they were planned for.
fn nominate_planned(
    world: &mut ClusterObjects,
    unbound: &[(usize, String)],
    planned: &HashMap<String, PlannedHost>,
) {
    let staying = staying(world);
    for (at, name) in unbound {
        let pod = &world.pods[*at];
        if !(pod.unschedulable || pod.unattempted) {
            continue;
        }
        let Some(host) = planned.get(name) else {
            continue;
        };
        // A pod that is nominated to a node that goes was planned for another one since.
        let nominated = pod.nominated.is_some_and(|node| staying.contains(&node));
        if host.in_flight || !nominated {
            let host = world.names.intern(&host.name);
            world.pods[*at].nominated = Some(host);
        }
    }
}

/// Nodes, and claims that will be nodes, that are there and are not on their way out. A node hides
/// a claim of its name.
fn staying(world: &ClusterObjects) -> HashSet<Symbol> {
    let leaving = world.claims.iter().filter(|claim| claim.deleting);
    let leaving: HashSet<Symbol> = leaving.filter_map(|claim| claim.provider_id).collect();
    let claims = world.claims.iter().filter(|claim| !claim.deleting);
    let mut names: HashSet<Symbol> = claims.map(|claim| claim.name).collect();
    for node in &world.nodes {
        if node.deleting || node.provider_id.is_some_and(|id| leaving.contains(&id)) {
            names.remove(&node.name);
        } else {
            names.insert(node.name);
        }
    }
    names
}
