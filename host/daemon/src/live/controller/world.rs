//! What a round plans from: the cluster as it is, and what is known of the pods that wait in it.

use std::collections::HashMap;

use longshore_api::crd::{ConditionStatus, NodeClaim, condition};
use longshore_core::model::ClusterObjects;
use longshore_core::plan::PodIx;

use super::{Controller, planned_for};
use crate::live::claims::pod_name;
use crate::live::kinds::Kind;
use crate::live::mutants::mutant;
use crate::live::nominations::NOMINATION_TIMEOUT;
use crate::live::strip_managed_fields::full_name;

impl Controller {
    /// What a round plans from: the cluster as it is, and what is known of the pods that wait in
    /// it.
    pub(super) fn world(&mut self) -> ClusterObjects {
        let mut world = self.state.world();
        self.mark_unattempted(&mut world);
        let late = self.attach_to_claims(&mut world);
        self.bought.extend(late);
        if mutant("limits-from-cache") {
            // What a claim may become counts against no limit before its capacity was seen.
            world
                .claims
                .iter_mut()
                .filter(|claim| claim.capacity.is_empty())
                .for_each(|claim| claim.requirements.clear());
        }
        world.now = self.ctx.now().as_second();
        world
    }

    /// Claims that this process has written and no watch has brought yet: only mutants tell them
    /// from others.
    pub(super) fn unseen_claims(&self) -> Vec<String> {
        self.watches
            .unseen(Kind::NodeClaim)
            .iter()
            .filter_map(|object| full_name(object))
            .collect()
    }

    /// Marks pods that kube-scheduler will find no node for, if the plan finds none: it takes its
    /// time over a thousand, and their nodes can be on their way by then. Not those that could
    /// preempt others.
    fn mark_unattempted(&self, world: &mut ClusterObjects) {
        if !self.state.any_unattempted() {
            return;
        }
        let priority =
            |world: &ClusterObjects, at: usize| world.shapes.get(world.pods[at].shape).priority;
        let run = (0..world.pods.len())
            .filter(|&at| world.pods[at].node.is_some() && !world.pods[at].terminal);
        let lowest = run.map(|at| priority(world, at)).min();
        for at in 0..world.pods.len() {
            let pod = &world.pods[at];
            let new = pod.node.is_none()
                && !pod.unschedulable
                && self
                    .state
                    .is_unattempted(&pod_name(world, PodIx(at as u32)));
            let preempts = lowest.is_some_and(|lowest| priority(world, at) > lowest);
            world.pods[at].unattempted = new && !preempts;
        }
    }

    /// Counts pods to the claims that they were planned for, until nodes have taken them or should
    /// have: to the one that is still to come, and to the newest, for they are planned again if
    /// others have taken their place. Returns pods that wait though their nodes should have taken
    /// them.
    fn attach_to_claims(&self, world: &mut ClusterObjects) -> Vec<String> {
        let mut left = Vec::new();
        if mutant("forgets-planned") {
            return left;
        }
        let now = self.ctx.now().as_second();
        let mut host_of: HashMap<&str, (bool, i64, &str)> = HashMap::new();
        for (name, claim) in &self.state.claims {
            let status = claim.status.as_ref();
            let registered = status.and_then(|s| condition(&s.conditions, "Registered"));
            let joined = registered.filter(|c| c.status == ConditionStatus::True);
            let late = joined.is_some_and(|c| {
                now - c.last_transition_time.0.as_second() > NOMINATION_TIMEOUT.as_secs() as i64
            });
            if late || claim.metadata.deletion_timestamp.is_some() {
                let pods =
                    planned_for(&self.in_flight_pods, name, claim).map(|planned| planned.pod);
                left.extend(pods.filter(|pod| self.state.waits(pod)).map(str::to_owned));
                continue;
            }
            let id = status
                .map(|s| s.provider_id.as_str())
                .filter(|id| !id.is_empty());
            let node = id
                .and_then(|id| self.state.node_name_of(id))
                .unwrap_or(name);
            let planned = planned_for(&self.in_flight_pods, name, claim).map(|planned| planned.pod);
            let created = claim
                .metadata
                .creation_timestamp
                .as_ref()
                .map_or(0, |t| t.0.as_second());
            let this = (joined.is_none(), created, node);
            for pod in planned.filter(|pod| self.state.waits(pod)) {
                let host = host_of.entry(pod).or_insert(this);
                *host = this.max(*host);
            }
        }
        if host_of.is_empty() {
            return left;
        }
        for at in 0..world.pods.len() {
            let pod = &world.pods[at];
            if pod.node.is_some() || !(pod.unschedulable || pod.unattempted) {
                continue;
            }
            // Told of a node that is going, it was planned for another one since.
            let told = pod
                .nominated
                .is_some_and(|node| self.is_staying(world.names.text(node)));
            let full = pod_name(world, PodIx(at as u32));
            if let Some(&(to_come, _, host)) = host_of.get(full.as_str())
                && (to_come || !told)
            {
                world.pods[at].nominated = Some(world.names.intern(host));
            }
        }
        left
    }

    /// Whether a node, or a claim that will be one, is there and is not on its way out.
    fn is_staying(&self, name: &str) -> bool {
        let claim_stays = |claim: &NodeClaim| claim.metadata.deletion_timestamp.is_none();
        match self.state.nodes.get(name) {
            Some(node) => {
                node.deletion.is_none()
                    && self
                        .state
                        .claim_of(node)
                        .iter()
                        .all(|claim| claim_stays(claim))
            }
            None => self
                .state
                .claims
                .get(name)
                .is_some_and(|claim| claim_stays(claim)),
        }
    }
}
