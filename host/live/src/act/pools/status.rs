//! A NodePool's status as it should be: resources and conditions.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use longshore_api::crd::{
    ConditionStatus, NodeClaim, NodePoolStatus, Quantity, Time, condition, set_condition,
};
use longshore_api::quantity;

use super::{Observed, name_of};
use crate::act::context::Context;
use crate::act::end::garbage::HELD;
use crate::observe::node::NodeView;
use crate::observe::state::Class;

/// Says whether the policies of the NodePool answer.
const POLICIES_HEALTHY: &str = "longshore.dev/PoliciesHealthy";
const VALIDATED: &str = "ValidationSucceeded";
const CLASS_READY: &str = "NodeClassReady";
const REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";

/// The status as it should be; `fault` is why nothing can be planned with the spec, if so. What is
/// known of registrations under another version of the NodePool or its class is forgotten.
pub fn next(ctx: &Context, observed: &Observed<'_>, fault: Option<String>) -> NodePoolStatus {
    let (class, class_generation) = &observed.class;
    let mut draft = Draft {
        status: observed.pool.status.clone().unwrap_or_default(),
        generation: observed.pool.metadata.generation,
        now: Time(ctx.now()),
    };
    count(&mut draft.status, observed.claims, observed.nodes);
    let outdated = draft.is_outdated(*class_generation);
    let name = name_of(observed.pool);
    if outdated {
        ctx.memory.launch.health.forget(name);
    }
    let unknown = outdated || condition(&draft.status.conditions, REGISTRATION_HEALTHY).is_none();
    if class_generation.is_some() {
        draft.status.node_class_observed_generation = *class_generation;
    }
    draft.validated(fault.as_deref());
    draft.class_ready(class);
    draft.ready();
    draft.registration_healthy(ctx.memory.launch.health.of(name), unknown);
    draft.held(ctx.memory.end.garbage.held());
    draft.policies_healthy(observed.policies.clone());
    draft.status
}

/// A status that is being made for a generation of the spec.
struct Draft {
    status: NodePoolStatus,
    generation: Option<i64>,
    now: Time,
}

impl Draft {
    /// Whether registrations were judged under another version of the NodePool or its class.
    fn is_outdated(&self, class_generation: Option<i64>) -> bool {
        let healthy = condition(&self.status.conditions, REGISTRATION_HEALTHY);
        let other_class = class_generation.is_some()
            && self.status.node_class_observed_generation != class_generation;
        other_class || healthy.is_some_and(|c| c.observed_generation != self.generation)
    }

    fn set(&mut self, what: &str, to: ConditionStatus, reason: &str, message: &str) {
        let conditions = &mut self.status.conditions;
        set_condition(conditions, what, to, reason, message, self.now.clone());
        if let Some(set) = conditions.iter_mut().find(|c| c.type_ == what) {
            set.observed_generation = self.generation;
        }
    }

    fn status_of(&self, what: &str) -> ConditionStatus {
        condition(&self.status.conditions, what).map_or(ConditionStatus::Unknown, |c| c.status)
    }

    fn validated(&mut self, fault: Option<&str>) {
        match fault {
            None => self.set(VALIDATED, ConditionStatus::True, VALIDATED, ""),
            Some(why) => {
                let reason = "NodePoolValidationFailed";
                self.set(VALIDATED, ConditionStatus::False, reason, why);
            }
        }
    }

    fn class_ready(&mut self, class: &Class) {
        use ConditionStatus::{False, True, Unknown};
        let (to, reason, message) = match class {
            Class::Ready => (True, CLASS_READY, ""),
            Class::Missing => (False, "NodeClassNotFound", "the node class does not exist"),
            Class::Leaving => (
                False,
                "NodeClassTerminating",
                "the node class is being deleted",
            ),
            Class::Unknown => (
                Unknown,
                "NodeClassReadinessUnknown",
                "the class does not say yet",
            ),
            Class::NotReady(why) => (False, "NodeClassNotReady", &**why),
        };
        self.set(CLASS_READY, to, reason, message);
    }

    /// Follows from the two before it.
    fn ready(&mut self) {
        use ConditionStatus::{False, True, Unknown};
        let [valid, class] = [VALIDATED, CLASS_READY].map(|what| self.status_of(what));
        let (to, reason, message) = match (valid, class) {
            (True, True) => (True, "Ready", String::new()),
            (True, Unknown) => (
                Unknown,
                "ReconcilingDependents",
                format!("{CLASS_READY}=Unknown"),
            ),
            (True, False) => (False, "UnhealthyDependents", format!("{CLASS_READY}=False")),
            _ => (False, "UnhealthyDependents", format!("{VALIDATED}=False")),
        };
        self.set("Ready", to, reason, &message);
    }

    /// `healthy` is what is known of its last nodes; `unknown` whether nothing is to be known.
    fn registration_healthy(&mut self, healthy: Option<bool>, unknown: bool) {
        let (to, reason, message) = match healthy {
            Some(true) => (ConditionStatus::True, REGISTRATION_HEALTHY, ""),
            Some(false) => (
                ConditionStatus::False,
                "RegistrationFailed",
                "two or more of the last four nodes did not launch or register",
            ),
            None if unknown => (
                ConditionStatus::Unknown,
                "AwaitingReconciliation",
                "no node was launched yet",
            ),
            None => return,
        };
        self.set(REGISTRATION_HEALTHY, to, reason, message);
    }

    /// Why garbage is not collected, if so.
    fn held(&mut self, held: Option<(&str, String)>) {
        let held = held.map(|(reason, message)| (ConditionStatus::True, reason, message));
        self.set_if_known(HELD, held, (ConditionStatus::False, "NothingHeld"));
    }

    /// Why policies give no answer, if so.
    fn policies_healthy(&mut self, failing: Option<String>) {
        let failing = failing.map(|why| (ConditionStatus::False, "PolicyFailing", why));
        let usual = (ConditionStatus::True, "PoliciesHealthy");
        self.set_if_known(POLICIES_HEALTHY, failing, usual);
    }

    /// Sets a condition that a NodePool gets when there is something to say, and keeps from then on:
    /// what there is, or `usual`.
    fn set_if_known(
        &mut self,
        what: &str,
        found: Option<(ConditionStatus, &str, String)>,
        usual: (ConditionStatus, &str),
    ) {
        let known = condition(&self.status.conditions, what).is_some();
        match found {
            Some((to, reason, message)) => self.set(what, to, reason, &message),
            None if known => self.set(what, usual.0, usual.1, ""),
            None => {}
        }
    }
}

/// Sums what the NodePool's nodes have; a claim without a node counts with its expected resources.
/// What every node has stands there also if there is no node.
fn count(status: &mut NodePoolStatus, claims: &[Arc<NodeClaim>], nodes: &[Arc<NodeView>]) {
    let always = ["cpu", "memory", "pods", "ephemeral-storage"];
    let mut milli: BTreeMap<String, i64> = always.map(|of| (of.to_owned(), 0)).into();
    let mut add = |resource: &str, text: &str| {
        let amount = quantity::Quantity::parse(text)
            .and_then(|q| q.milli())
            .unwrap_or(0);
        match milli.get_mut(resource) {
            Some(sum) => *sum = sum.saturating_add(amount),
            None => drop(milli.insert(resource.to_owned(), amount)),
        }
    };
    let joined: HashSet<&str> = nodes
        .iter()
        .map(|n| n.provider_id.as_str())
        .filter(|id| !id.is_empty())
        .collect();
    let mut number = 0;
    for node in nodes {
        number += 1;
        node.capacity
            .iter()
            .for_each(|(resource, text)| add(resource, text));
    }
    for claim in claims {
        let Some(status) = &claim.status else {
            continue;
        };
        if !joined.contains(status.provider_id.as_str()) && !status.provider_id.is_empty() {
            number += 1;
            status
                .capacity
                .iter()
                .for_each(|(resource, amount)| add(resource, &amount.0));
        }
    }
    milli.insert("nodes".into(), number * 1000);
    status.nodes = number;
    let text = |(resource, milli): (String, i64)| {
        let text = text_of(&resource, milli);
        (resource, Quantity(text))
    };
    status.resources = milli.into_iter().map(text).collect();
}

/// An amount of a resource as Kubernetes writes it.
fn text_of(resource: &str, milli: i64) -> String {
    match resource {
        "cpu" if milli % 1000 != 0 => format!("{milli}m"),
        "memory" | "ephemeral-storage" if milli != 0 && milli % 1_024_000 == 0 => {
            format!("{}Ki", milli / 1_024_000)
        }
        _ => (milli / 1000).to_string(),
    }
}
