//! Every purchase is for a pod, and no pod is bought for twice, whatever is late.

use std::collections::BTreeMap;
use std::time::Duration;

use longshore_core::model::{Resources, Symbols};
use serde_json::Value;

use super::disruption;
use crate::harness::interceptor::Interceptor;
use crate::harness::spread::one_too_many;
use longshore_simcluster::actors::scheduler::{amounts, requests};
use longshore_simcluster::fields;
use longshore_simcluster::object::{Change, Event};
use longshore_simcluster::server::{RequestInfo, resources};

/// Pods that a claim was made for, as the daemon writes them down.
const PLANNED_PODS: &str = "longshore.dev/planned-pods";
/// The second that a claim was planned at, and a number.
const ROUND: &str = "longshore.dev/round";
/// A registered node has so long to take its pods, seconds, before they are planned again; a little
/// less than the daemon gives it.
const MIN_TAKING_SECONDS: i64 = 25;
/// How long a watch may be silent before rounds wait for it; bookmarks arrive every minute. What
/// became of a pod in that time need not be known; five seconds more for a round that has begun.
const MAX_WATCH_SILENCE: Duration = Duration::from_secs(95);
/// Before a second purchase for a pod the server is asked. Changes of the pod within this time may
/// have happened between the answer and the purchase.
const MAX_ANSWER_AGE: Duration = Duration::from_secs(5);

/// The history of pods and of purchases for them.
#[derive(Default)]
pub(super) struct Purchases {
    /// Pods that a claim was made for, by the claim's name.
    planned: BTreeMap<String, Vec<String>>,
    /// Pods that something was bought for, ever.
    bought: BTreeMap<String, u32>,
    /// The second that pods came in, by `namespace/name`.
    came: BTreeMap<String, i64>,
    /// When pods went, by `namespace/name`.
    gone: BTreeMap<String, Duration>,
    /// When pods were put on a node.
    bound: BTreeMap<String, Duration>,
}

/// Whether the NodePool of a claim has replicas: it is bought for whatever pods there are.
fn is_static(interceptor: &Interceptor, claim: &Value) -> bool {
    let pool = fields::label(claim, "karpenter.sh/nodepool").unwrap_or_default();
    let pool = interceptor
        .server
        .get(&fields::key(resources::NODE_POOL, "", pool));
    pool.is_some_and(|pool| pool.pointer("/spec/replicas").is_some())
}

impl Purchases {
    /// A pod came, changed or went.
    pub fn pod(&mut self, interceptor: &Interceptor, change: &Change) {
        let name = format!("{}/{}", change.key.namespace, change.key.name);
        let now = interceptor.clock.elapsed();
        if change.event == Event::Added {
            let second = interceptor.clock.now().as_second();
            self.came.insert(name.clone(), second);
        }
        match change.event {
            Event::Deleted => {
                self.came.remove(&name);
                self.bound.remove(&name);
                self.gone.insert(name, now);
            }
            _ if fields::text(&change.object, "/spec/nodeName").is_empty() => {
                self.gone.remove(&name);
                self.bound.remove(&name);
            }
            _ => {
                self.gone.remove(&name);
                self.bound.entry(name).or_insert(now);
            }
        }
    }

    /// A claim came, changed or went.
    pub fn claim(
        &mut self,
        interceptor: &Interceptor,
        change: &Change,
        (by, commands): (Option<&RequestInfo>, &disruption::Disruption),
    ) {
        let (claim, name) = (&change.object, fields::name(&change.object));
        match change.event {
            Event::Deleted => drop(self.planned.remove(name)),
            Event::Added => {
                let pods: Vec<String> = pods_of(claim).map(str::to_owned).collect();
                // It is bought for whatever pods there are.
                let is_bought = by.is_some() && !is_static(interceptor, claim);
                if is_bought && disruption::replaces(claim) {
                    commands.replacement(interceptor, claim);
                } else if is_bought {
                    self.must_be_for_a_pod(interceptor, claim, &pods);
                    self.once(interceptor, claim, &pods);
                }
                for pod in &pods {
                    *self.bought.entry(pod.clone()).or_default() += 1;
                }
                self.planned.insert(name.to_owned(), pods);
            }
            Event::Modified => {}
        }
    }

    /// Pods that something is bought for were there when it was planned, and waited.
    fn must_be_for_a_pod(&self, interceptor: &Interceptor, claim: &Value, pods: &[String]) {
        let name = fields::name(claim);
        if pods.is_empty() {
            return interceptor.violated(format!("{name} is made for no pod"));
        }
        let planned = interceptor
            .clock
            .elapsed()
            .saturating_sub(under_way(interceptor, claim));
        for pod in pods {
            let may = if self.bought.contains_key(pod) {
                MAX_ANSWER_AGE
            } else {
                MAX_WATCH_SILENCE
            };
            if let Some(gone) = self.gone.get(pod).filter(|gone| **gone + may < planned) {
                let since = (planned - *gone).as_secs();
                interceptor.violated(format!(
                    "{name} is made for pod {pod}, which is gone since {since} s"
                ));
            }
            if let Some(bound) = self
                .bound
                .get(pod)
                .filter(|bound| **bound + may < planned && stays(interceptor, pod))
            {
                let since = (planned - *bound).as_secs();
                interceptor.violated(format!(
                    "{name} is made for pod {pod}, which has a node since {since} s"
                ));
            }
        }
    }

    /// Nothing is bought for a pod that another claim was made for and still can take.
    fn once(&self, interceptor: &Interceptor, claim: &Value, pods: &[String]) {
        // A delayed create was planned on an earlier state. Whether a usable node had room then is
        // no longer known. Whether a node was on its way is.
        let held_up = under_way(interceptor, claim) > Duration::from_secs(1);
        for (name, theirs) in &self.planned {
            let Some(pod) = pods.iter().find(|pod| theirs.contains(pod)) else {
                continue;
            };
            let Some(other) = interceptor
                .server
                .get(&fields::key(resources::NODE_CLAIM, "", name))
            else {
                continue;
            };
            let Some((namespace, plain)) = pod.split_once('/') else {
                continue;
            };
            let Some(waiting) =
                interceptor
                    .server
                    .get(&fields::key(resources::POD, namespace, plain))
            else {
                continue;
            };
            let second = |object: &Value, path| fields::time(object, path).map(|at| at.as_second());
            let registered = fields::items(&other, "/status/conditions")
                .iter()
                .find(|c| c["type"] == "Registered");
            let since = registered
                .filter(|c| c["status"] == "True")
                .and_then(|c| second(c, "/lastTransitionTime"));
            let over = since.is_some_and(|since| {
                held_up || interceptor.clock.now().as_second() - since > MIN_TAKING_SECONDS
            });
            // One of its name that came since, such as a StatefulSet's, is another pod.
            let same = self
                .came
                .get(pod)
                .is_none_or(|came| planned_at(&other).is_none_or(|at| *came < at));
            let waits = fields::text(&waiting, "/spec/nodeName").is_empty() && same;
            let may = || {
                has_room(interceptor, &other, theirs)
                    && !one_too_many(interceptor, &waiting, &other, &self.planned)
            };
            if waits && !over && !fields::deleting(&other) && may() {
                interceptor.violated(format!(
                    "pod {pod} is planned for {} while {name} is on its way",
                    fields::name(claim)
                ));
            }
        }
    }
}

/// Whether a pod that has a node can stay there: a node that is going, or that nothing is known of,
/// needs a successor.
fn stays(interceptor: &Interceptor, pod: &str) -> bool {
    let Some((namespace, name)) = pod.split_once('/') else {
        return false;
    };
    let Some(pod) = interceptor
        .server
        .get(&fields::key(resources::POD, namespace, name))
    else {
        return false;
    };
    let Some(node) = interceptor.server.get(&fields::key(
        resources::NODE,
        "",
        fields::text(&pod, "/spec/nodeName"),
    )) else {
        return false;
    };
    let id = fields::text(&node, "/spec/providerID");
    let claims = interceptor.server.list(resources::NODE_CLAIM);
    let claim = claims
        .iter()
        .find(|claim| fields::text(claim, "/status/providerID") == id);
    !fields::deleting(&node) && claim.is_some_and(|claim| !fields::deleting(claim))
}

pub(super) fn pods_of(claim: &Value) -> impl Iterator<Item = &str> {
    let list = fields::annotation(claim, PLANNED_PODS).unwrap_or_default();
    list.split(',')
        .filter(|pod| !pod.is_empty())
        .map(|pod| pod.split('~').next().unwrap_or(pod))
}

/// The second that a claim was planned at.
fn planned_at(claim: &Value) -> Option<i64> {
    let round = fields::annotation(claim, ROUND)?;
    round.split('-').next()?.parse().ok()
}

/// How long it took from the plan to the claim, in whole seconds.
pub(super) fn under_way(interceptor: &Interceptor, claim: &Value) -> Duration {
    let seconds =
        planned_at(claim).map_or(0, |planned| interceptor.clock.now().as_second() - planned);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// Whether a claim's node still has room for its planned pods and those nominated to it since;
/// others may have taken their room.
fn has_room(interceptor: &Interceptor, claim: &Value, planned: &[String]) -> bool {
    // The claim may not say so yet: a node is open before the answer to the patch that opened it
    // has come. A claim with an interrupted instance takes no more pods.
    let Some(name) = interceptor.cloud.runs_for(fields::uid(claim)) else {
        return fields::text(claim, "/status/providerID").is_empty();
    };
    let Some(node) = interceptor
        .server
        .get(&fields::key(resources::NODE, "", &name))
    else {
        return true;
    };
    let mut names = Symbols::default();
    let room = amounts(
        node.pointer("/status/allocatable").unwrap_or(&Value::Null),
        &mut names,
    );
    let mut wanted = Resources::default();
    for pod in interceptor.server.list(resources::POD) {
        let on = fields::text(&pod, "/spec/nodeName");
        let full = || {
            format!(
                "{}/{}",
                fields::text(&pod, "/metadata/namespace"),
                fields::name(&pod)
            )
        };
        let promised =
            || fields::text(&pod, "/status/nominatedNodeName") == name || planned.contains(&full());
        if on == name && !fields::ended(&pod) || on.is_empty() && promised() {
            wanted.add(&requests(&pod["spec"], &mut names));
        }
    }
    wanted.fits(&room)
}
