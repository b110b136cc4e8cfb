//! What a round plans from: the cluster as it is, and what is known of the pods that wait in it.
//!
//! The loop takes it in next to no time, whatever the size of the cluster: [`RoundInput`] shares
//! all records with the state. The thread that plans makes a world of it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use longshore_api::crd::{ConditionStatus, NodeClaim, condition};
use tokio::time::Instant;

use super::Controller;
use crate::decide::claims::NewNodeClaim;
use crate::decide::rollout::NOMINATION_TIMEOUT;
use crate::decide::round_input::{PlannedHost, RoundInput};
use longshore_api::kinds::ObjectKind;

use crate::process::mutants::mutant;
use longshore_api::strip_managed_fields::full_name;
use longshore_core::model::conditions::REGISTERED;

impl Controller {
    /// What a round plans from. Notes the pods that wait though their nodes should have taken them.
    pub(super) fn round_input(&mut self) -> RoundInput {
        let (planned, late) = self.planned_hosts();
        self.purchases.bought.extend(late);
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
            catalogue: self.offers.current.catalogue().clone(),
            unattempted: self.state.pods.unattempted().map(str::to_owned).collect(),
            queued: self.state.pods.queue(),
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
            failures: (self.ctx.memory.disruption.failures)
                .noted(self.state.pools.values(), self.ctx.now().as_second()),
            ..self.round_input()
        };
        (input, next)
    }

    /// Claims that this process has written and no watch has brought yet; only mutants use this.
    pub(super) fn unseen_claims(&self) -> Vec<String> {
        self.watches
            .unseen(ObjectKind::NodeClaim)
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
        for pod in self.state.pods.waiting() {
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
        let registered = status.and_then(|s| condition(&s.conditions, REGISTERED));
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
