//! When nodes register, and which pods are nominated for them.
//!
//! The loop owns the [`Rollout`] and tells it what it observes: claims and their nodes, pods that
//! wait, nominations that were written. The rollout answers with [`Action`]s and says when it wants
//! to be asked again. It holds no lock, waits for nothing and writes nothing.
//!
//! A node passes these gates before it registers: the other nodes of its round
//! ([`round_nodes`]), its nominations ([`nominations`], [`pacer`]), and its turn among the nodes
//! that register ([`registration_queue`]).

mod nominations;
mod pacer;
mod registration_queue;
mod round_nodes;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use longshore_api::crd::NodeClaim;
use tokio::time::Instant;

use crate::observe::node::NodeView;
use crate::observe::planned_pods::{Planned, planned_pods};
use nominations::Nominations;
pub use nominations::{NOMINATION_TIMEOUT, Nomination};
use pacer::Pacer;
use registration_queue::{Opening, RegistrationQueue};
use round_nodes::RoundNodes;

/// What the loop is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Write these nominations, and say when it is done.
    Nominate(Vec<Nomination>),
    /// Write these again, which kube-scheduler has cleared. No node waits for them.
    Renominate(Vec<Nomination>),
    /// Clear the nominations of these pods, `namespace/name`.
    Clear(Vec<String>),
    /// Take the next step of this claim.
    Step(String),
}

/// What a claim's step may do about registration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Nothing. Asked again after this time, or with [`Action::Step`].
    Wait(Option<Duration>),
    /// The node may register now: its taint `karpenter.sh/unregistered` is removed.
    Register,
    /// The node is registered: write the claim. `ready`: the node was initialized in the same
    /// write.
    Confirm { ready: bool },
}

/// A pod and its group, if it must spread.
pub type InFlightPod = (String, Option<u32>);

/// Which nodes wait to register, the nominations for them, and what is to be done next.
#[derive(Default)]
pub struct Rollout {
    nominations: Nominations,
    groups: RoundNodes,
    queue: RegistrationQueue,
    pacer: Pacer,
    /// Pods that were planned for a claim after it was made, until its node has registered.
    in_flight: BTreeMap<String, Vec<InFlightPod>>,
    actions: Vec<Action>,
}

impl Rollout {
    /// A claim as it stands now, or that it is gone. `joined`: its Node exists.
    pub fn claim(&mut self, name: &str, claim: Option<&NodeClaim>, joined: bool, now: Instant) {
        let free = self.groups.note(name, claim, joined, now);
        self.actions.extend(free.into_iter().map(Action::Step));
        if claim.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some()) {
            self.queue.forget(name);
        }
        if claim.is_none() {
            self.in_flight.remove(name);
        }
    }

    /// A claim says that its node is registered. Says whether that is news. From now on its pods have
    /// time to follow their nominations.
    pub fn registered(&mut self, name: &str, claim: &NodeClaim, now: Instant) -> bool {
        let is_news = self.groups.registered(name);
        if is_news {
            for planned in planned_for(&self.in_flight, name, claim) {
                self.nominations.opened(planned.pod, now);
            }
        }
        self.in_flight.remove(name);
        self.queue.forget(name);
        is_news
    }

    /// A claim that is not registered has no node, or several.
    pub fn without_node(&mut self, name: &str) {
        self.queue.forget(name);
    }

    /// What a claim may do that has a node and is not registered. `is_expected` says whether a pod
    /// still waits and is planned for this claim. `may_wait`: the node is young enough to wait for
    /// kube-scheduler to hear of nominations.
    pub fn turn(
        &mut self,
        name: &str,
        claim: &NodeClaim,
        node: &NodeView,
        is_expected: impl Fn(&Planned<'_>) -> bool,
        may_wait: bool,
        now: Instant,
    ) -> Turn {
        if !self.queue.has(name) {
            let hold = self.groups.hold(name, claim, node, now);
            let pods = planned_for(&self.in_flight, name, claim).filter(is_expected);
            let nominations = self.nominations.plan(&node.name, pods);
            for (pod, _) in &nominations {
                self.pacer.begins(pod, name);
            }
            self.nominate(nominations);
            if hold.is_some() {
                return Turn::Wait(hold);
            }
            if self.pacer.is_writing(name) {
                return Turn::Wait(None);
            }
            if let Some(left) = self.pacer.left(now).filter(|_| may_wait) {
                return Turn::Wait(Some(left));
            }
        }
        self.queue.turn(name, || Opening::of(claim), now)
    }

    /// The node of a claim was registered with [`Turn::Register`].
    pub fn node_registered(&mut self, claim: &str, ready: bool, now: Instant) {
        self.queue.registered(claim, ready, now);
    }

    /// A step of a claim has failed.
    pub fn step_failed(&mut self, claim: &str) {
        self.queue.failed(claim);
    }

    /// A pod that waits is seen with or without a node nominated.
    pub fn pod_waits(&mut self, pod: &str, nominated: bool, now: Instant) {
        self.nominations.seen(pod, nominated, now);
    }

    /// A pod waits no longer.
    pub fn pod_gone(&mut self, pod: &str) {
        self.nominations.gone(pod);
        self.queue.placed(pod);
    }

    /// Nominates the next pods, now that others have changed.
    pub fn advance(&mut self, waits: impl Fn(&str) -> bool) {
        let next = self.nominations.advance(waits);
        let again = self.nominations.repeat();
        if !again.is_empty() {
            self.actions.push(Action::Renominate(again));
        }
        self.nominate(next);
    }

    /// Clears nominations that kube-scheduler did not follow. The time of one begins when its node
    /// is registered (`open`).
    pub fn expire(&mut self, now: Instant, open: impl Fn(&str) -> bool) {
        let stale = self.nominations.stale(now, open);
        self.clear(stale);
    }

    /// The nomination of a pod was written, or refused.
    pub fn nomination_written(&mut self, pod: &str, now: Instant) {
        let claim = self.pacer.written(pod, now);
        self.actions.extend(claim.map(Action::Step));
    }

    /// A plan was made. `pods` are all its pods. `on_nodes` are pods for nodes that are registered
    /// and that kube-scheduler does not find by itself; `on_claims` are those for claims.
    pub fn planned(
        &mut self,
        pods: impl Iterator<Item = String>,
        on_nodes: &[(&str, Vec<InFlightPod>)],
        on_claims: Vec<(&str, Vec<InFlightPod>)>,
    ) {
        let mut anew: BTreeSet<String> = pods
            .filter(|pod| self.nominations.planned_anew(pod))
            .collect();
        let mut nominations = Vec::new();
        for (node, pods) in on_nodes {
            let planned = pods.iter().map(|(pod, group)| Planned {
                group: *group,
                ..Planned::plain(pod)
            });
            nominations.extend(self.nominations.plan(node, planned));
        }
        for (claim, pods) in on_claims {
            let expected = self.in_flight.entry(claim.to_owned()).or_default();
            expected.retain(|(pod, _)| !pods.iter().any(|(new, _)| new == pod));
            expected.extend(pods);
        }
        anew.retain(|pod| !nominations.iter().any(|(nominated, _)| nominated == pod));
        self.clear(anew.into_iter().collect());
        self.nominate(nominations);
    }

    /// Pods that were planned for a claim after it was made.
    pub fn in_flight(&self) -> impl Iterator<Item = (&str, &[InFlightPod])> {
        self.in_flight
            .iter()
            .map(|(claim, pods)| (claim.as_str(), pods.as_slice()))
    }

    /// Whether a nominated pod still waits.
    pub fn any_nominated(&self) -> bool {
        self.nominations.any()
    }

    /// This replica leads no more.
    pub fn stand_by(&mut self) {
        self.nominations.stand_by();
        self.queue.stand_by();
        self.actions.clear();
    }

    /// What is to be done now. The caller does all of it.
    pub fn due(&mut self, now: Instant) -> Vec<Action> {
        let claims = self.queue.due(now);
        self.actions.extend(claims.into_iter().map(Action::Step));
        std::mem::take(&mut self.actions)
    }

    /// When it is to be asked again, if nothing is observed before.
    pub fn wakes_at(&self, now: Instant) -> Option<Instant> {
        let waits = [self.nominations.next(), self.queue.wakes_at(now)];
        let at_once = (!self.actions.is_empty()).then_some(now);
        waits.into_iter().chain([at_once]).flatten().min()
    }

    fn nominate(&mut self, nominations: Vec<Nomination>) {
        if !nominations.is_empty() {
            self.actions.push(Action::Nominate(nominations));
        }
    }

    fn clear(&mut self, pods: Vec<String>) {
        if !pods.is_empty() {
            self.actions.push(Action::Clear(pods));
        }
    }
}

/// All pods that were planned for a claim, those of its own round first.
fn planned_for<'a>(
    in_flight: &'a BTreeMap<String, Vec<InFlightPod>>,
    name: &str,
    claim: &'a NodeClaim,
) -> impl Iterator<Item = Planned<'a>> {
    let more = in_flight.get(name).into_iter().flatten();
    let more = more.map(|(pod, group)| Planned {
        group: *group,
        ..Planned::plain(pod)
    });
    planned_pods(claim).chain(more)
}

#[cfg(test)]
mod tests;
