//! What is bought in vain is bounded: for pods that kube-scheduler refuses whatever is bought, and from
//! a NodePool whose nodes never join. The daemon may be killed at any time in between.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use super::disruption::{self, COMMAND};
use super::purchases::{pods_of, under_way};
use crate::harness::interceptor::Interceptor;
use longshore_simcluster::actors::scheduler::REFUSED;
use longshore_simcluster::fields;
use longshore_simcluster::object::{Change, Event};
use longshore_simcluster::server::{RequestInfo, resources};

/// The NodePool whose nodes never join.
pub(crate) const BROKEN: &str = "broken";
/// kube-scheduler may take so long over a node that is ready.
const SCHEDULER_SETTLE_TIME: Duration = Duration::from_secs(30);
/// How long it may take until the daemon knows: a watch may be silent, see `purchases`. What was
/// planned before was planned without it.
const MAX_NEWS_DELAY: Duration = Duration::from_secs(95);
/// Clocks of machines and whole seconds.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(3);
/// Nothing is bought for so long after the first node that did not help; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(300);
/// Longest pause after nodes that did not help.
const MAX_PAUSE: Duration = Duration::from_secs(3600);
/// The first pause of nodes that never join, a little less.
const UNJOINED_PAUSE: Duration = Duration::from_secs(295);
/// Claims made within this time are one purchase.
const PURCHASE_WINDOW: Duration = Duration::from_secs(60);
/// A claim that has never registered goes after so long, because its node does not join.
const REGISTRATION_LIMIT: Duration = Duration::from_secs(14 * 60);
/// So many nodes that do not join, one after the other, are bought without a pause.
const FREE_PURCHASES: usize = 3;
/// Most purchases in an hour for pods that kube-scheduler refuses, whatever else they are for: pauses of 5,
/// 10 and 20 minutes leave four, and a process that is killed may forget one that it has not written.
const MAX_PURCHASES_AN_HOUR: usize = 8;
/// A process that was killed has forgotten what it had not yet written down, and this is how soon a
/// round follows the write.
const NOTE_DELAY: Duration = Duration::from_secs(120);

/// A claim that was bought in vain.
struct Purchase {
    /// What it was bought for.
    bought_for: BoughtFor,
    created: Duration,
    /// When the round planned it.
    planned: Duration,
    ready: Option<Duration>,
    registered: bool,
    /// When its deletion was asked for: the daemon has given up then.
    given_up: Option<Duration>,
    gone: Option<Duration>,
    node: String,
    /// Since when others have room of its node.
    shared: Option<Duration>,
    /// The pods that it was bought for.
    pods: Vec<String>,
    /// A command of the daemon has deleted it.
    disrupted: bool,
}

/// What kube-scheduler goes by.
#[derive(PartialEq)]
struct Openness {
    ready: bool,
    taints: Vec<Value>,
}

/// What a claim was bought for.
enum BoughtFor {
    /// Anything, from the broken NodePool.
    Broken,
    /// Refused pods of one Deployment.
    Refused(String),
    /// Refused pods of these Deployments, and other pods.
    Several(BTreeSet<String>),
}

impl BoughtFor {
    /// Whether it was for pods of a Deployment, and no others.
    fn is_for(&self, group: &str) -> bool {
        matches!(self, BoughtFor::Refused(of) if of == group)
    }

    /// Whether such pods were among those that it was for.
    fn is_also_for(&self, group: &str) -> bool {
        self.is_for(group) || matches!(self, BoughtFor::Several(all) if all.contains(group))
    }

    fn is_broken(&self) -> bool {
        matches!(self, BoughtFor::Broken)
    }
}

/// Whether a pod takes room of a node that the next node would have. A daemon's pod is on that too.
fn takes_room_of(pod: &Value, node: &str) -> bool {
    let is_daemon = || fields::controller(pod).is_some_and(|owner| owner["kind"] == "DaemonSet");
    !node.is_empty() && fields::text(pod, "/spec/nodeName") == node && !is_daemon()
}

/// A purchase that did not help.
struct Pause {
    found: Duration,
    until: Duration,
}

/// The history of what is bought in vain.
#[derive(Default)]
pub(super) struct Vain {
    purchases: BTreeMap<String, Purchase>,
    /// When a NodePool was changed last, and its generation, by name.
    pools: BTreeMap<String, (i64, Duration)>,
    /// Pods that went.
    gone: BTreeMap<String, Duration>,
    /// Whether kube-scheduler may use a node, and since when that is so, by name. Its claim may say later
    /// that it is ready: that write can be slow.
    nodes: BTreeMap<String, (Openness, Duration)>,
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
                let bought_for = bought_for(interceptor, claim);
                let planned = now.saturating_sub(under_way(interceptor, claim));
                match &bought_for {
                    BoughtFor::Broken => self.check_broken(interceptor, name, now),
                    BoughtFor::Refused(group) => {
                        self.for_refused(interceptor, name, group, planned);
                        self.in_an_hour(interceptor, name, group, now);
                    }
                    BoughtFor::Several(groups) => groups
                        .iter()
                        .for_each(|group| self.in_an_hour(interceptor, name, group, now)),
                }
                let purchase = Purchase {
                    bought_for,
                    created: now,
                    planned,
                    ready: None,
                    registered: false,
                    given_up: None,
                    gone: None,
                    node: String::new(),
                    shared: None,
                    pods: pods_of(claim).map(str::to_owned).collect(),
                    disrupted: false,
                };
                self.purchases.insert(name.to_owned(), purchase);
            }
            Event::Added => {}
            Event::Modified => {
                if let Some(purchase) = self.purchases.get_mut(name) {
                    let node = fields::text(claim, "/status/nodeName");
                    // Pods may be on a node before its claim says which it is.
                    if purchase.node.is_empty() && !node.is_empty() {
                        let pods = interceptor.server.list(resources::POD);
                        let shared = pods.iter().any(|pod| takes_room_of(pod, node));
                        purchase.shared = purchase.shared.or(shared.then_some(now));
                    }
                    purchase.node = node.to_owned();
                    if fields::deleting(claim) {
                        purchase.given_up.get_or_insert(now);
                    }
                    purchase.disrupted |= fields::annotation(claim, COMMAND).is_some();
                    purchase.registered |= fields::condition(claim, "Registered") == "True";
                    if fields::condition(claim, "Initialized") == "True" {
                        let since = self.nodes.get(node).map(|(_, since)| *since);
                        purchase.ready.get_or_insert(since.unwrap_or(now));
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

    /// A node came, changed or went.
    pub fn node(&mut self, interceptor: &Interceptor, change: &Change) {
        let (node, now) = (&change.object, interceptor.clock.elapsed());
        let name = fields::name(node);
        let open = Openness {
            ready: fields::condition(node, "Ready") == "True",
            taints: fields::items(node, "/spec/taints").to_vec(),
        };
        if change.event == Event::Deleted {
            self.nodes.remove(name);
        } else if self.nodes.get(name).is_none_or(|(known, _)| *known != open) {
            self.nodes.insert(name.to_owned(), (open, now));
        }
    }

    /// A pod came, changed or went.
    pub fn pod(&mut self, interceptor: &Interceptor, change: &Change) {
        let (pod, now) = (&change.object, interceptor.clock.elapsed());
        if change.event == Event::Deleted || fields::deleting(pod) {
            let name = format!(
                "{}/{}",
                fields::text(pod, "/metadata/namespace"),
                fields::name(pod)
            );
            self.gone.entry(name).or_insert(now);
        }
        let here = self
            .purchases
            .values_mut()
            .filter(|purchase| takes_room_of(pod, &purchase.node));
        here.for_each(|purchase| _ = purchase.shared.get_or_insert(now));
    }

    /// When NodePools were changed last.
    fn changed(&self) -> Duration {
        let times = self.pools.values().map(|(_, at)| *at);
        times.max().unwrap_or_default()
    }

    /// The pauses of a group: five minutes after the first purchase that did not help, ten after
    /// the next, and so on up to an hour.
    fn pauses(&self, group: &str) -> Vec<Pause> {
        let changed = self.changed();
        let did_not_help = |purchase: &&Purchase| {
            let Some(ready) = purchase.ready else {
                return false;
            };
            let plain = ready + SCHEDULER_SETTLE_TIME + MAX_NEWS_DELAY;
            // Others took its room or its node, or its pods went, before it was plain.
            let is_shared = purchase.shared.is_some_and(|at| at <= plain);
            let was_taken = !purchase.disrupted && purchase.given_up.is_some_and(|at| at <= plain);
            let waits = |pod: &String| self.gone.get(pod).is_none_or(|&at| at > plain);
            purchase.bought_for.is_for(group)
                && purchase.planned > changed
                && !is_shared
                && !was_taken
                && purchase.pods.iter().any(waits)
        };
        let mut all: Vec<&Purchase> = self.purchases.values().filter(did_not_help).collect();
        all.sort_by_key(|purchase| purchase.ready);
        let (mut pauses, mut length): (Vec<Pause>, _) = (Vec::new(), FIRST_PAUSE);
        let mut last: Option<Duration> = None;
        for purchase in all {
            let ready = purchase.ready.unwrap_or_default();
            if last.is_some_and(|last| purchase.created <= last + PURCHASE_WINDOW) {
                continue;
            }
            last = Some(purchase.created);
            let found = ready + SCHEDULER_SETTLE_TIME;
            let until = self.first_plain(group, purchase).unwrap_or(found) + length;
            pauses.push(Pause { found, until });
            length = (length * 2).min(MAX_PAUSE);
        }
        pauses
    }

    /// When it may have been plain first that a purchase does not help: claims that were made a moment
    /// before are one purchase with it, and the daemon may have seen those that went soon afterwards.
    fn first_plain(&self, group: &str, purchase: &Purchase) -> Option<Duration> {
        let found = |of: &Purchase| {
            let plain = of.ready? + SCHEDULER_SETTLE_TIME;
            // Others on the node may have left enough room.
            let end = of.given_up.map(|end| end + MAX_CLOCK_SKEW);
            end.is_none_or(|end| plain <= end).then_some(plain)
        };
        let together = self.purchases.values().filter(|of| {
            let window = of.created..=of.created + PURCHASE_WINDOW;
            of.bought_for.is_also_for(group) && window.contains(&purchase.created)
        });
        together.filter_map(found).min()
    }

    /// Nothing is bought for pods in the pauses of their group. No excuse for a node that went
    /// early: the daemon lets it stay until it is plain that it does not help.
    fn for_refused(&self, interceptor: &Interceptor, name: &str, group: &str, planned: Duration) {
        if interceptor.clocks_differ() {
            return;
        }
        let pauses = self.pauses(group);
        let within = |pause: &&Pause| {
            planned > pause.found + MAX_NEWS_DELAY && planned + MAX_CLOCK_SKEW < pause.until
        };
        if let Some(pause) = pauses.iter().find(within) {
            let (since, left) = (planned - pause.found, pause.until - planned);
            interceptor.violated(format!(
                "{name} is bought for {group}, which a node has not helped: that was plain {} s \
                before, and the pause lasts {} s more",
                since.as_secs(),
                left.as_secs()
            ));
        }
    }

    /// Whatever became of the nodes and whoever else is on them, few are bought in an hour.
    fn in_an_hour(&self, interceptor: &Interceptor, name: &str, group: &str, now: Duration) {
        let since = self.changed().max(now.saturating_sub(MAX_PAUSE));
        let made = self.purchases.values();
        let made = made.filter(|of| of.bought_for.is_also_for(group) && of.created >= since);
        let mut made: Vec<Duration> = made.map(|of| of.created).collect();
        made.sort_unstable();
        let mut counted: Vec<Duration> = Vec::new();
        for created in made {
            if counted
                .last()
                .is_none_or(|&last| created > last + PURCHASE_WINDOW)
            {
                counted.push(created);
            }
        }
        if counted.len() >= MAX_PURCHASES_AN_HOUR {
            interceptor.violated(format!(
                "{name} is bought for {group}, the {}. in an hour that does not help",
                counted.len() + 1
            ));
        }
    }

    /// After three nodes that never joined one is tried after the other, with pauses between.
    fn check_broken(&self, interceptor: &Interceptor, name: &str, now: Duration) {
        let own = || {
            self.purchases
                .iter()
                .filter(|(_, purchase)| purchase.bought_for.is_broken())
        };
        let failed = own().filter_map(|(_, purchase)| {
            let gone = purchase.gone?;
            let never = !purchase.registered && gone - purchase.created >= REGISTRATION_LIMIT;
            let given_up = purchase.given_up.unwrap_or(gone);
            (never && purchase.created > self.changed()).then_some(given_up)
        });
        let mut failed: Vec<Duration> = failed.collect();
        failed.sort_unstable();
        // What was written down last counts; what a killed process did not write does not.
        let Some(&last) = failed.last().filter(|_| failed.len() > FREE_PURCHASES) else {
            return;
        };
        if now < last + NOTE_DELAY {
            return;
        }
        if now < last + UNJOINED_PAUSE {
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

/// What a claim is bought for. A pod that is gone by now was another one.
fn bought_for(interceptor: &Interceptor, claim: &Value) -> BoughtFor {
    if fields::label(claim, "karpenter.sh/nodepool") == Some(BROKEN) {
        return BoughtFor::Broken;
    }
    let refused = |pod: &str| {
        let (namespace, name) = pod.split_once('/')?;
        let key = fields::key(resources::POD, namespace, name);
        let pod = interceptor.server.get(&key)?;
        fields::annotation(&pod, REFUSED)?;
        fields::label(&pod, "app").map(str::to_owned)
    };
    let groups: Vec<Option<String>> = pods_of(claim).map(refused).collect();
    let all: BTreeSet<String> = groups.iter().flatten().cloned().collect();
    match all.first() {
        Some(group) if all.len() == 1 && groups.iter().all(Option::is_some) => {
            BoughtFor::Refused(group.clone())
        }
        _ => BoughtFor::Several(all),
    }
}
