//! What a round plans from: the cluster as it is, and what is known of the pods that wait in it.
//!
//! The loop takes it in next to no time, whatever the size of the cluster: [`RoundInput`] shares
//! all records with the state. The thread that plans makes a world of it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use longshore_api::crd::{ConditionStatus, NodeClaim, condition};
use longshore_core::model::{Catalogue, ClusterObjects, Failures, Symbol};
use longshore_core::plan::PodIx;
use tokio::time::Instant;

use super::Controller;
use super::repairs::UnhealthyHost;
use crate::live::claims::{NewNodeClaim, pod_name};
use crate::live::kinds::Kind;
use crate::live::mutants::mutant;
use crate::live::overlays::OverlaySet;
use crate::live::rollout::NOMINATION_TIMEOUT;
use crate::live::state::FrozenState;
use crate::live::strip_managed_fields::full_name;

/// The cluster at a moment, and what the loop knows of pods that wait.
pub struct RoundInput {
    state: FrozenState,
    /// What can be bought, in the names of the state.
    catalogue: Catalogue,
    /// Pods that kube-scheduler has not looked at yet, `namespace/name`.
    unattempted: HashSet<String>,
    /// The place of each pod that waits in kube-scheduler's queue, by `namespace/name`.
    queued: HashMap<String, u64>,
    /// The node or claim that a pod was planned for, by `namespace/name`.
    planned: HashMap<String, PlannedHost>,
    /// Nodes that their cloud calls unhealthy, for a look for disruption.
    unhealthy: Vec<UnhealthyHost>,
    /// What this process has noted of commands that failed, by NodePool, for a look for disruption.
    failures: BTreeMap<String, Failures>,
    /// Seconds since 1970.
    now: i64,
}

/// A node, or a claim that will be one. The greatest of several is the one that counts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PlannedHost {
    /// It has not registered yet.
    in_flight: bool,
    /// When its claim was made, seconds since 1970.
    created: i64,
    name: String,
}

impl Controller {
    /// What a round plans from. Notes the pods that wait though their nodes should have taken them.
    pub(super) fn round_input(&mut self) -> RoundInput {
        let (planned, late) = self.planned_hosts();
        self.bought.extend(late);
        self.follow_offers(Instant::now());
        let expected = self.disruption.expected();
        let limited = expected.filter(|want| {
            let pool = self.state.pools.get(&want.pool);
            pool.is_some_and(|pool| !pool.spec.limits.is_empty())
        });
        let limited: Vec<NewNodeClaim> = limited.filter(|_| !mutant("begins-uncounted")).collect();
        let limited = limited.iter().map(|want| (&*want.name, &want.object));
        RoundInput {
            state: self.state.freeze_with(limited),
            catalogue: self.offers.catalogue().clone(),
            unattempted: self.state.unattempted().map(str::to_owned).collect(),
            queued: self.state.queue(),
            planned,
            unhealthy: Vec::new(),
            failures: BTreeMap::new(),
            now: self.ctx.now().as_second(),
        }
    }

    /// What a look for disruption decides from, and how long until one more node is to be repaired.
    pub(super) fn look_input(&mut self) -> (RoundInput, Option<Duration>) {
        let (unhealthy, next) = self.unhealthy_hosts();
        let input = RoundInput {
            unhealthy,
            failures: (self.ctx.failures)
                .noted(self.state.pools.values(), self.ctx.now().as_second()),
            ..self.round_input()
        };
        (input, next)
    }

    /// Claims that this process has written and no watch has brought yet; only mutants use this.
    pub(super) fn unseen_claims(&self) -> Vec<String> {
        self.watches
            .unseen(Kind::NodeClaim)
            .iter()
            .filter_map(|object| full_name(object))
            .collect()
    }

    /// Which claim each pod that waits was planned for, until its node has taken it or should have:
    /// the one that is still to come, and the newest, for pods are planned again if others have
    /// taken their place. Then pods that wait though their nodes should have taken them.
    fn planned_hosts(&self) -> (HashMap<String, PlannedHost>, Vec<String>) {
        let (mut hosts, mut late) = (HashMap::<String, PlannedHost>::new(), Vec::new());
        if mutant("forgets-planned") {
            return (hosts, late);
        }
        let mut planned_since: HashMap<&str, Vec<&str>> = HashMap::new();
        for (claim, pods) in self.rollout.in_flight() {
            for (pod, _) in pods {
                planned_since.entry(pod).or_default().push(claim);
            }
        }
        for pod in self.state.waiting() {
            let since = planned_since.get(pod).into_iter().flatten().copied();
            let names = self.state.claims_planned_for(pod).chain(since);
            for (name, claim) in names.filter_map(|name| self.state.claims.get_key_value(name)) {
                match self.planned_host(name, claim) {
                    None => late.push(pod.to_owned()),
                    Some(host) if hosts.get(pod).is_none_or(|best| host > *best) => {
                        hosts.insert(pod.to_owned(), host);
                    }
                    Some(_) => {}
                }
            }
        }
        (hosts, late)
    }

    /// The node that a claim is or will be; nothing if it goes or should have taken its pods.
    pub(super) fn planned_host(&self, name: &str, claim: &NodeClaim) -> Option<PlannedHost> {
        let status = claim.status.as_ref();
        let registered = status.and_then(|s| condition(&s.conditions, "Registered"));
        let joined = registered.filter(|c| c.status == ConditionStatus::True);
        let limit = NOMINATION_TIMEOUT.as_secs() as i64;
        let is_over = joined.is_some_and(|c| {
            self.ctx.now().as_second() - c.last_transition_time.0.as_second() > limit
        });
        if is_over || claim.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let id = status.map(|s| s.provider_id.as_str());
        let node = id.filter(|id| !id.is_empty());
        let node = node.and_then(|id| self.state.node_name_of(id));
        let created = claim.metadata.creation_timestamp.as_ref();
        Some(PlannedHost {
            in_flight: joined.is_none(),
            created: created.map_or(0, |t| t.0.as_second()),
            name: node.unwrap_or(name).to_owned(),
        })
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
