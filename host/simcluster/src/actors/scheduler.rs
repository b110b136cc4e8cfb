//! kube-scheduler: binds one waiting pod after another, by priority and then by age.
//!
//! Filters and scores are those of its default profile: resources, selectors, taints, spread, pod
//! affinity, host ports, zones of volumes. A pod without a feasible host gets the condition
//! PodScheduled=False. It is tried again after something has changed and its backoff (1 s, doubled
//! up to 10 s) has ended. `status.nominatedNodeName` is tried first, and nominated pods count as
//! running for pods of lower or equal priority. A pod that is tried in vain loses its nomination. A
//! new nomination alone does not trigger another try (both observed on 1.36).
//!
//! Preemption: not yet. Absent: image locality, sampling of hosts, volume limits, dynamic resource
//! claims.

mod cluster;
mod shape;
mod topology;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use longshore_core::matching;
use longshore_core::model::{
    HostPort, PodShape, Requirement, ResourceId, Resources, Taint, TaintEffect, Toleration,
};
use serde_json::Value;

use super::context::ActorContext;
use super::controllers::volumes::{self, Needs};
use super::work::Work;
use crate::fields;
use crate::object::{Change, Event, Key};
use crate::server::{Subresource, resources};
use cluster::{Cluster, Host, ShapeNo};
pub use shape::{amounts, requests};
use topology::{Rejection, Rules};

/// Annotation of pods that find no host, for a reason that nobody foresees.
pub const REFUSED: &str = "sim.longshore.dev/refused";

/// Back-off after the first failure, doubled with each further one.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
/// Longest back-off.
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// Order in the queue.
type Rank = (Reverse<i32>, Duration, u64, Key);

/// A pod that waits.
struct Waiting {
    rank: Rank,
    nominated: Arc<str>,
    tries: u32,
    /// Not tried before this.
    back: Duration,
}

/// The queue and the cluster as it is counted on.
#[derive(Default)]
pub struct Scheduler {
    cluster: Cluster,
    waiting: BTreeMap<Key, Waiting>,
    /// Waiting pods that are to be tried.
    active: BTreeSet<Rank>,
    /// Waiting pods that are to be tried when their back-off is over.
    backoff: BTreeSet<(Duration, Key)>,
    /// Waiting pods that nothing has changed for.
    unschedulable: BTreeSet<Key>,
    /// Waiting pods by the node that they are nominated for.
    nominated: BTreeMap<Arc<str>, BTreeSet<Key>>,
    /// Counts changes of the cluster; what found no host at one count finds none at it.
    moment: u64,
    stuck: HashMap<ShapeNo, ((u64, u64), String)>,
    arrived: u64,
    /// Changes to nodes that it has not heard of yet, and when it does; whether they say something
    /// new.
    unheard: VecDeque<(Duration, Change, bool)>,
}

impl Scheduler {
    pub fn on_change(&mut self, ctx: &mut ActorContext, change: &Change, before: Option<&Value>) {
        let object = &change.object;
        match change.key.resource {
            resources::POD => self.on_pod_change(ctx, change, before),
            resources::NODE => {
                let same = |b: &Value| {
                    b["metadata"]["labels"] == object["metadata"]["labels"]
                        && b["spec"] == object["spec"]
                        && b["status"]["allocatable"] == object["status"]["allocatable"]
                };
                let new = change.event == Event::Deleted || !before.is_some_and(same);
                if ctx.timing.scheduler_lag.is_zero() {
                    self.on_node_change(ctx, change, new);
                } else {
                    self.delay_node_change(ctx, change, new);
                }
            }
            resources::NAMESPACE => {
                let name = self.cluster.names.intern(&change.key.name);
                let labels = shape::labels(&object["metadata"]["labels"], &mut self.cluster.names);
                self.cluster.namespaces.insert(name, labels);
            }
            resources::PERSISTENT_VOLUME_CLAIM
            | resources::PERSISTENT_VOLUME
            | resources::STORAGE_CLASS => {
                self.requeue_all(ctx);
            }
            _ => {}
        }
    }

    /// A change to a node.
    fn on_node_change(&mut self, ctx: &mut ActorContext, change: &Change, new: bool) {
        if change.event == Event::Deleted {
            self.cluster.remove_node(&change.key.name);
            self.moment += 1;
        } else if new {
            self.cluster.put_node(&change.object);
            self.requeue_all(ctx);
        }
    }

    /// Delays a change to a node by the lag of the watch, in the order of changes.
    fn delay_node_change(&mut self, ctx: &mut ActorContext, change: &Change, new: bool) {
        let share = ctx
            .chance
            .unit("scheduler-lag", &change.revision.to_string());
        let due = ctx.clock.elapsed() + ctx.timing.scheduler_lag.mul_f64(share);
        let due = self.unheard.back().map_or(due, |(last, ..)| due.max(*last));
        self.unheard.push_back((due, change.clone(), new));
        ctx.event_queue.once(due, Work::Schedule);
    }

    fn on_pod_change(&mut self, ctx: &mut ActorContext, change: &Change, before: Option<&Value>) {
        let (key, pod) = (&change.key, &change.object);
        let waits = fields::text(pod, "/spec/nodeName").is_empty();
        if change.event == Event::Deleted || fields::ended(pod) {
            self.forget(key);
            let was_there = self.cluster.pod(key).is_some_and(|r| !r.node.is_empty());
            self.cluster.remove_pod(key);
            if was_there {
                self.requeue_all(ctx);
            }
            return;
        }
        if !waits {
            self.forget(key);
            let same = before.is_some_and(|b| {
                b["spec"]["nodeName"] == pod["spec"]["nodeName"]
                    && fields::deleting(b) == fields::deleting(pod)
                    && b["metadata"]["labels"] == pod["metadata"]["labels"]
            });
            if !same {
                self.cluster.put_pod(key, pod, before);
                self.requeue_all(ctx);
            }
            return;
        }
        let ours = matches!(
            fields::text(pod, "/spec/schedulerName"),
            "" | "default-scheduler"
        );
        let gated = !fields::items(pod, "/spec/schedulingGates").is_empty();
        if !ours || gated || fields::deleting(pod) {
            return self.forget(key);
        }
        fn matters(pod: &Value) -> [&Value; 2] {
            [&pod["spec"], &pod["metadata"]["labels"]]
        }
        if !self.waiting.contains_key(key) || before.map(matters) != Some(matters(pod)) {
            self.cluster.put_pod(key, pod, before);
            self.enqueue(ctx, key, pod);
        } else {
            self.nominate(key, fields::text(pod, "/status/nominatedNodeName"));
        }
    }

    /// Keeps room for a waiting pod on another node than before, or on none.
    fn nominate(&mut self, key: &Key, node: &str) {
        let Some(pod) = self
            .waiting
            .get_mut(key)
            .filter(|pod| *pod.nominated != *node)
        else {
            return;
        };
        let old = std::mem::replace(&mut pod.nominated, Arc::from(node));
        self.unnominate(&old, key);
        if !node.is_empty() {
            self.nominated
                .entry(Arc::from(node))
                .or_default()
                .insert(key.clone());
        }
    }

    fn unnominate(&mut self, node: &str, key: &Key) {
        if let Some(all) = self.nominated.get_mut(node) {
            all.remove(key);
            if all.is_empty() {
                self.nominated.remove(node);
            }
        }
    }

    fn enqueue(&mut self, ctx: &mut ActorContext, key: &Key, pod: &Value) {
        let priority = fields::number(pod, "/spec/priority").unwrap_or(0) as i32;
        let old = self
            .waiting
            .get(key)
            .map(|w| (w.rank.1, w.rank.2, w.tries, w.back));
        self.forget(key);
        self.arrived += 1;
        let (since, number, tries, back) =
            old.unwrap_or((ctx.clock.elapsed(), self.arrived, 0, Duration::ZERO));
        let rank = (Reverse(priority), since, number, key.clone());
        self.waiting.insert(
            key.clone(),
            Waiting {
                rank,
                nominated: Arc::default(),
                tries,
                back,
            },
        );
        self.nominate(key, fields::text(pod, "/status/nominatedNodeName"));
        self.ready(ctx, key);
    }

    /// Puts a waiting pod where it is tried, now or after its back-off.
    fn ready(&mut self, ctx: &mut ActorContext, key: &Key) {
        let Some(pod) = self.waiting.get(key) else {
            return;
        };
        let now = ctx.clock.elapsed();
        if pod.back <= now {
            self.active.insert(pod.rank.clone());
            ctx.event_queue
                .once(now + ctx.timing.binding, Work::Schedule);
        } else {
            self.backoff.insert((pod.back, key.clone()));
            ctx.event_queue.once(pod.back, Work::Schedule);
        }
    }

    fn forget(&mut self, key: &Key) {
        let Some(pod) = self.waiting.remove(key) else {
            return;
        };
        self.active.remove(&pod.rank);
        self.backoff.remove(&(pod.back, key.clone()));
        self.unschedulable.remove(key);
        self.unnominate(&pod.nominated, key);
    }

    /// Whoever asks the same at the same moment gets the same answer.
    fn moment(&self) -> (u64, u64) {
        (self.moment, self.cluster.born())
    }

    /// The cluster has changed: pods without a host may find one now.
    fn requeue_all(&mut self, ctx: &mut ActorContext) {
        self.moment += 1;
        for key in std::mem::take(&mut self.unschedulable) {
            self.ready(ctx, &key);
        }
    }

    /// Tries the first pod of the queue.
    pub fn act(&mut self, ctx: &mut ActorContext) {
        let now = ctx.clock.elapsed();
        while self.unheard.front().is_some_and(|(due, ..)| *due <= now) {
            if let Some((_, change, new)) = self.unheard.pop_front() {
                self.on_node_change(ctx, &change, new);
            }
        }
        while let Some((due, key)) = self.backoff.first().cloned().filter(|(due, _)| *due <= now) {
            self.backoff.remove(&(due, key.clone()));
            if let Some(pod) = self.waiting.get(&key) {
                self.active.insert(pod.rank.clone());
            }
        }
        if let Some((.., key)) = self.active.pop_first() {
            self.attempt(ctx, &key);
        }
        if !self.active.is_empty() {
            ctx.event_queue
                .once(now + ctx.timing.binding, Work::Schedule);
        } else if let Some((due, _)) = self.backoff.first() {
            ctx.event_queue.once(*due, Work::Schedule);
        }
        if let Some((due, ..)) = self.unheard.front() {
            ctx.event_queue.once(*due, Work::Schedule);
        }
    }

    fn attempt(&mut self, ctx: &mut ActorContext, key: &Key) {
        let Some(pod) = ctx.view.get(key).cloned() else {
            return;
        };
        match self.find(ctx, key, &pod) {
            Ok(node) => {
                volumes::reserve(ctx, key, &pod, &node);
                if let Err(refusal) = ctx.server.bind(key, &node) {
                    let why = format!(
                        "{} could not be bound to {node}: {}",
                        key.name, refusal.message
                    );
                    ctx.log.say(ctx.clock, why);
                    self.fail(ctx, key);
                    self.requeue_all(ctx);
                }
            }
            Err(why) => {
                self.fail(ctx, key);
                let now = ctx.clock.now();
                let said = |c: &Value| {
                    let is = |field: &str, text: &str| fields::text(c, field) == text;
                    is("/type", "PodScheduled")
                        && is("/status", "False")
                        && is("/reason", "Unschedulable")
                        && is("/message", &why)
                };
                let nominated = !fields::text(&pod, "/status/nominatedNodeName").is_empty();
                if nominated || !fields::items(&pod, "/status/conditions").iter().any(said) {
                    ctx.update(key, Subresource::Status, |pod| {
                        fields::set_condition(
                            pod,
                            "PodScheduled",
                            "False",
                            "Unschedulable",
                            &why,
                            now,
                        );
                        if let Some(status) = pod["status"].as_object_mut() {
                            status.remove("nominatedNodeName");
                        }
                    });
                }
            }
        }
    }

    fn fail(&mut self, ctx: &ActorContext, key: &Key) {
        if let Some(pod) = self.waiting.get_mut(key) {
            let wait = MIN_BACKOFF
                .saturating_mul(1 << pod.tries.min(10))
                .min(MAX_BACKOFF);
            pod.tries += 1;
            pod.back = ctx.clock.elapsed() + wait;
            self.unschedulable.insert(key.clone());
        }
    }

    /// The host for a pod, or why there is none.
    fn find(&mut self, ctx: &ActorContext, key: &Key, pod: &Value) -> Result<String, String> {
        if fields::annotation(pod, REFUSED).is_some() {
            let nodes = ctx.server.list(resources::NODE).len();
            return Err(format!(
                "0/{nodes} nodes are available: {nodes} node(s) do not please the pod."
            ));
        }
        let record = self.cluster.pod(key).ok_or("it is not known")?;
        let (number, volumes) = (record.shape, volumes::claims(pod));
        let nominated = self
            .waiting
            .get(key)
            .map(|w| w.nominated.clone())
            .unwrap_or_default();
        let alike = volumes.is_empty() && nominated.is_empty();
        if let Some((moment, why)) = self.stuck.get(&number).filter(|_| alike)
            && *moment == self.moment()
        {
            return Err(why.clone());
        }
        let shape = self
            .cluster
            .shape(number)
            .cloned()
            .ok_or("it is not known")?;
        let attempt = Attempt {
            scheduler: self,
            ctx,
            key,
            shape: &shape,
            rules: Rules::new(&self.cluster, &shape),
        };
        let needs = volumes::needs(&ctx.view, &key.namespace, &volumes)?;
        if let Some(host) = self.cluster.hosts.get(&nominated)
            && host.exists
            && attempt.refuse(&nominated, host, &needs).is_none()
        {
            return Ok(nominated.to_string());
        }
        let found = attempt.best(&needs);
        if let (Err(why), true) = (&found, alike) {
            self.stuck.insert(number, (self.moment(), why.clone()));
        }
        found
    }
}

/// One pod against all hosts.
struct Attempt<'a> {
    scheduler: &'a Scheduler,
    ctx: &'a ActorContext,
    key: &'a Key,
    shape: &'a PodShape,
    rules: Rules,
}

impl Attempt<'_> {
    /// Why a host is refused, in Kubernetes' words.
    fn refuse(&self, name: &str, host: &Host, needs: &Needs) -> Option<Cow<'static, str>> {
        let names = &self.scheduler.cluster.names;
        if host.unschedulable && !self.tolerates_cordon() {
            return Some("node(s) were unschedulable".into());
        }
        if matching::untolerated(&self.shape.tolerations, &host.taints, false).is_some() {
            return Some("node(s) had untolerated taint(s)".into());
        }
        if !matching::admits(&host.labels, self.shape, names) {
            return Some("node(s) didn't match Pod's node affinity/selector".into());
        }
        let (free, ports) = self.free(name, host);
        if self
            .shape
            .ports
            .iter()
            .any(|p| ports.iter().any(|taken| taken.conflicts(p)))
        {
            return Some("node(s) didn't have free ports for the requested pod ports".into());
        }
        let short = self
            .shape
            .requests
            .iter()
            .find(|(r, amount)| *amount > 0 && *amount > free.get(*r));
        if let Some((resource, _)) = short {
            return Some(match resource {
                ResourceId::Pods => "Too many pods".into(),
                resource => format!("Insufficient {}", resource.name(names)).into(),
            });
        }
        if let Some(why) = needs.refuse(&self.ctx.view, name) {
            return Some(why.into());
        }
        let why = match self.rules.refuse(host)? {
            Rejection::Spread => "node(s) didn't match pod topology spread constraints",
            Rejection::Affinity => "node(s) didn't match pod affinity rules",
            Rejection::AntiAffinity => "node(s) didn't match pod anti-affinity rules",
        };
        Some(why.into())
    }

    fn tolerates_cordon(&self) -> bool {
        let key = self
            .scheduler
            .cluster
            .names
            .get("node.kubernetes.io/unschedulable");
        let covers = |t: &Toleration| {
            let named = if t.key.is_none() {
                t.exists
            } else {
                t.key == key
            };
            named && t.effect.is_none_or(|e| e == TaintEffect::NoSchedule)
        };
        self.shape.tolerations.iter().any(covers)
    }

    /// Free room and used ports of a host, including nominated pods of equal or higher priority.
    fn free(&self, name: &str, host: &Host) -> (Resources, Vec<HostPort>) {
        let (mut free, mut ports) = (host.allocatable.clone(), Vec::new());
        free.sub(&host.used);
        if !self.shape.ports.is_empty() {
            ports.extend(&host.ports);
        }
        let Scheduler {
            nominated, cluster, ..
        } = self.scheduler;
        for other in nominated
            .get(name)
            .into_iter()
            .flatten()
            .filter(|k| *k != self.key)
        {
            let shape = cluster.pod(other).and_then(|r| cluster.shape(r.shape));
            if let Some(shape) = shape.filter(|s| s.priority >= self.shape.priority) {
                free.sub(&shape.requests);
                ports.extend(&shape.ports);
            }
        }
        (free, ports)
    }

    fn best(&self, needs: &Needs) -> Result<String, String> {
        let mut reasons: BTreeMap<Cow<'static, str>, usize> = BTreeMap::new();
        let mut open: Vec<(&Arc<str>, &Host)> = Vec::new();
        let hosts = self
            .scheduler
            .cluster
            .hosts
            .iter()
            .filter(|(_, h)| h.exists);
        let mut total = 0;
        for (name, host) in hosts {
            total += 1;
            match self.refuse(name, host, needs) {
                None => open.push((name, host)),
                Some(why) => *reasons.entry(why).or_default() += 1,
            }
        }
        if open.is_empty() {
            let mut counts: Vec<String> = reasons
                .iter()
                .map(|(why, n)| format!("{n} {why}"))
                .collect();
            counts.sort();
            let counts = if counts.is_empty() {
                String::new()
            } else {
                format!(": {}", counts.join(", "))
            };
            return Err(format!("0/{total} nodes are available{counts}."));
        }
        let scores = self.scores(&open);
        let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let equals: Vec<&str> = open
            .iter()
            .zip(&scores)
            .filter(|(_, s)| **s == best)
            .map(|((n, _), _)| &***n)
            .collect();
        let lot = self.ctx.chance.draw("tie", &self.key.name) % equals.len().max(1) as u64;
        Ok(equals
            .get(lot as usize)
            .copied()
            .unwrap_or_default()
            .to_owned())
    }

    /// Scores of the hosts that are open, with the weights of the default profile.
    fn scores(&self, open: &[(&Arc<str>, &Host)]) -> Vec<f64> {
        let names = &self.scheduler.cluster.names;
        let each = |score: &dyn Fn(&Host) -> f64| -> Vec<f64> {
            open.iter().map(|(_, h)| score(h)).collect()
        };
        let mut total = each(&|h| spare(h, &self.shape.requests));
        let soft = |h: &Host| {
            let shuns = |t: &&Taint| {
                t.effect == TaintEffect::PreferNoSchedule
                    && !matching::tolerates(&self.shape.tolerations, t)
            };
            h.taints.iter().filter(shuns).count() as f64
        };
        let shunned = each(&soft);
        let most = highest(&shunned);
        add(
            &mut total,
            3.0,
            shunned
                .iter()
                .map(|s| if most > 0.0 { 1.0 - s / most } else { 1.0 }),
        );
        if !self.shape.preferred.is_empty() {
            let holds = |h: &Host, term: &[Requirement]| {
                !term.is_empty()
                    && term
                        .iter()
                        .all(|r| matching::satisfies(&h.labels, r, names))
            };
            let liked = each(&|h| {
                self.shape
                    .preferred
                    .iter()
                    .filter(|(_, t)| holds(h, t))
                    .map(|(weight, _)| f64::from(*weight))
                    .sum()
            });
            let most = highest(&liked);
            add(
                &mut total,
                2.0,
                liked
                    .iter()
                    .map(|l| if most > 0.0 { l / most } else { 0.0 }),
            );
        }
        if self.rules.spreads() {
            let load: Vec<Option<f64>> = open.iter().map(|(_, h)| self.rules.load(h)).collect();
            let low = load.iter().flatten().copied().fold(f64::INFINITY, f64::min);
            let high = load.iter().flatten().copied().fold(0.0, f64::max);
            let share = |c: &Option<f64>| match c {
                None => 0.0,
                Some(_) if high == 0.0 => 1.0,
                Some(c) => (high + low - c) / high,
            };
            add(&mut total, 2.0, load.iter().map(share));
        }
        if self.rules.prefers() {
            let liking = each(&|h| self.rules.liking(h));
            let (low, high) = (
                liking.iter().copied().fold(f64::INFINITY, f64::min),
                highest(&liking),
            );
            add(
                &mut total,
                2.0,
                liking.iter().map(|l| {
                    if high > low {
                        (l - low) / (high - low)
                    } else {
                        0.0
                    }
                }),
            );
        }
        total
    }
}

/// LeastAllocated and BalancedAllocation of CPU and memory: 0 to 100 each.
fn spare(host: &Host, requests: &Resources) -> f64 {
    let used = |resource| {
        let all = host.allocatable.get(resource).max(1) as f64;
        ((host.used.get(resource) + requests.get(resource)) as f64 / all).clamp(0.0, 1.0)
    };
    let (cpu, memory) = (used(ResourceId::Cpu), used(ResourceId::Memory));
    let least = (100.0 * (1.0 - cpu)).floor() + (100.0 * (1.0 - memory)).floor();
    (least / 2.0).floor() + (100.0 * (1.0 - (cpu - memory).abs() / 2.0)).floor()
}

fn highest(all: &[f64]) -> f64 {
    all.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// Adds shares (0 to 1), as whole points of 100, times their weight.
fn add(total: &mut [f64], weight: f64, shares: impl Iterator<Item = f64>) {
    for (score, share) in total.iter_mut().zip(shares) {
        *score += weight * (100.0 * share).floor();
    }
}
