//! What is bought in vain is bounded: for pods that kube-scheduler refuses whatever is bought, and from
//! a NodePool whose nodes never join. The daemon may be killed at any time in between.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::disruption;
use super::purchases::pods_of;
use crate::actors::scheduler::REFUSED;
use crate::fields;
use crate::harness::generated::BROKEN;
use crate::harness::interceptor::Interceptor;
use crate::object::{Change, Event};
use crate::server::{RequestInfo, resources};

/// So long after a node is ready it is plain that it does not help: kube-scheduler has tried, every
/// watch has said so, a new process has begun, and a round has written it down.
const PLAIN: Duration = Duration::from_secs(180);
/// After a node is ready that does not help nothing is bought for so long; a little less than the
/// daemon waits the first time, and after more than one of them.
const PAUSE: Duration = Duration::from_secs(295);
const LONGER: Duration = Duration::from_secs(540);
/// Claims made within this time are one purchase.
const ONE_PURCHASE: Duration = Duration::from_secs(60);
/// A claim that has never registered goes after so long, because its node does not join.
const NEVER: Duration = Duration::from_secs(14 * 60);
/// So many nodes that do not join, one after the other, are bought without a pause.
const FREE: usize = 3;
/// A process that was killed has forgotten what it had not yet written down, and this is how soon a
/// round follows the write.
const WRITTEN: Duration = Duration::from_secs(120);

/// A claim that was bought in vain.
struct Purchase {
    /// The Deployment of the pods that are refused; empty for those of the broken NodePool.
    group: String,
    created: Duration,
    ready: Option<Duration>,
    registered: bool,
    /// When its deletion was asked for: the daemon has given up then.
    given_up: Option<Duration>,
    gone: Option<Duration>,
    node: String,
    /// Others have had room of its node.
    shared: bool,
}

/// The history of what is bought in vain.
#[derive(Default)]
pub(super) struct Vain {
    purchases: BTreeMap<String, Purchase>,
    /// When a NodePool was changed last, and its generation, by name.
    pools: BTreeMap<String, (i64, Duration)>,
}

impl Vain {
    /// A NodePool came, changed or went: what was so before says little of what is bought now.
    pub fn pool(&mut self, interceptor: &Interceptor, change: &Change) {
        let generation = fields::number(&change.object, "/metadata/generation").unwrap_or(0);
        let (name, now) = (fields::name(&change.object), interceptor.clock.elapsed());
        let known = self.pools.get(name).map(|(generation, _)| *generation);
        if known != Some(generation) || change.event == Event::Deleted {
            self.pools.insert(name.to_owned(), (generation, now));
        }
    }

    /// A claim came, changed or went.
    pub fn claim(&mut self, interceptor: &Interceptor, change: &Change, by: Option<&RequestInfo>) {
        let (claim, name) = (&change.object, fields::name(&change.object));
        let now = interceptor.clock.elapsed();
        match change.event {
            Event::Added if by.is_some() && !disruption::replaces(claim) => {
                let Some(group) = group_of(interceptor, claim) else {
                    return;
                };
                match group.as_str() {
                    "" => self.check_broken(interceptor, name, now),
                    group => self.for_refused(interceptor, name, group, now),
                }
                let purchase = Purchase {
                    group,
                    created: now,
                    ready: None,
                    registered: false,
                    given_up: None,
                    gone: None,
                    node: String::new(),
                    shared: false,
                };
                self.purchases.insert(name.to_owned(), purchase);
            }
            Event::Added => {}
            Event::Modified => {
                if let Some(purchase) = self.purchases.get_mut(name) {
                    purchase.node = fields::text(claim, "/status/nodeName").to_owned();
                    if !fields::text(claim, "/metadata/deletionTimestamp").is_empty() {
                        purchase.given_up.get_or_insert(now);
                    }
                    purchase.registered |= fields::condition(claim, "Registered") == "True";
                    if fields::condition(claim, "Initialized") == "True" {
                        purchase.ready.get_or_insert(now);
                    }
                }
            }
            Event::Deleted => {
                if let Some(purchase) = self.purchases.get_mut(name) {
                    purchase.gone = Some(now);
                }
            }
        }
    }

    /// A pod came, changed or went.
    pub fn pod(&mut self, change: &Change) {
        let pod = &change.object;
        let node = fields::text(pod, "/spec/nodeName");
        let daemon = fields::controller(pod).is_some_and(|owner| owner["kind"] == "DaemonSet");
        if !node.is_empty() && !daemon {
            let here = self
                .purchases
                .values_mut()
                .filter(|purchase| purchase.node == node);
            here.for_each(|purchase| purchase.shared = true);
        }
    }

    /// When NodePools were changed last.
    fn changed(&self) -> Duration {
        let times = self.pools.values().map(|(_, at)| *at);
        times.max().unwrap_or_default()
    }

    /// Nothing is bought for pods soon after a node that was ready did not help them.
    fn for_refused(&self, interceptor: &Interceptor, name: &str, group: &str, now: Duration) {
        let changed = self.changed();
        let plain = self.purchases.iter().filter_map(|(other, purchase)| {
            let ready = purchase.ready?;
            let lived = purchase.gone.unwrap_or(now).saturating_sub(ready);
            let is_plain = purchase.group == group
                && lived >= PLAIN
                && purchase.created > changed
                && !purchase.shared;
            is_plain.then_some((ready, other, purchase.created))
        });
        let plain: Vec<_> = plain.collect();
        let first = plain.iter().map(|(.., created)| *created).min();
        let again = |first: Duration| plain.iter().any(|(.., at)| *at > first + ONE_PURCHASE);
        let pause = if first.is_some_and(again) {
            LONGER
        } else {
            PAUSE
        };
        let last = plain.into_iter().max();
        if let Some((ready, other, _)) = last.filter(|(ready, ..)| now < *ready + pause) {
            let since = (now - ready).as_secs();
            interceptor.violated(format!(
                "{name} is bought for {group}, which {other} has not helped: it was ready {since} s \
                before"
            ));
        }
    }

    /// After three nodes that never joined one is tried after the other, with pauses between.
    fn check_broken(&self, interceptor: &Interceptor, name: &str, now: Duration) {
        let own = || {
            self.purchases
                .iter()
                .filter(|(_, purchase)| purchase.group.is_empty())
        };
        let failed = own().filter_map(|(_, purchase)| {
            let gone = purchase.gone?;
            let never = !purchase.registered && gone - purchase.created >= NEVER;
            let given_up = purchase.given_up.unwrap_or(gone);
            (never && purchase.created > self.changed()).then_some(given_up)
        });
        let mut failed: Vec<Duration> = failed.collect();
        failed.sort_unstable();
        // What was written down last counts; what a killed process did not write does not.
        let Some(&last) = failed.last().filter(|_| failed.len() > FREE) else {
            return;
        };
        if now < last + WRITTEN {
            return;
        }
        if now < last + PAUSE {
            let since = (now - last).as_secs();
            interceptor.violated(format!(
                "{name} is bought from {BROKEN} {since} s after its last node has not joined"
            ));
        }
        let flying = own().find(|(_, purchase)| {
            purchase.gone.is_none() && now > purchase.created + Duration::from_secs(60)
        });
        if let Some((other, _)) = flying {
            interceptor.violated(format!(
                "{name} is bought from {BROKEN} while {other} has not joined"
            ));
        }
    }
}

/// The Deployment whose refused pods a claim is for, empty if it is of the broken NodePool; nothing
/// if it is for others.
fn group_of(interceptor: &Interceptor, claim: &Value) -> Option<String> {
    if fields::label(claim, "karpenter.sh/nodepool") == Some(BROKEN) {
        return Some(String::new());
    }
    let mut groups: Vec<String> = Vec::new();
    for pod in pods_of(claim) {
        let (namespace, name) = pod.split_once('/')?;
        let pod = interceptor
            .server
            .get(&fields::key(resources::POD, namespace, name))?;
        fields::annotation(&pod, REFUSED)?;
        groups.push(fields::label(&pod, "app")?.to_owned());
    }
    // Of one Deployment alone: others may have been bought for with it.
    groups.dedup();
    <[String; 1]>::try_from(groups).ok().map(|[group]| group)
}
