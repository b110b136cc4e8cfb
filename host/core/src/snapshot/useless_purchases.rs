//! Purchases that did not help: a node was bought for a pod, it is ready, nobody has taken the room,
//! and kube-scheduler refuses the pod all the same.
//!
//! Whatever the cause, the next node would not help either. So nothing more is bought for the pod's
//! group until something that matters has changed, or a back-off has passed that doubles each time.
//! Evidence is read from NodeClaims while they are there, and from annotations of NodePools
//! ([`Useless`]) afterwards: [`remember`] says what is to be written there. Pods of the group may
//! still go to nodes that exist.
//!
//! The same for nodes that never join ([`Unjoined`]): after three in a row nothing is bought from
//! their NodePool for a while, and then one node at a time.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ids::PodIx;
use crate::model::purchases::{BOUGHT_GIVEN, Unjoined, Useless};
use crate::model::{
    ClusterObjects, LabelSelector, Labels, NodeClaim, NodePool, Op, Pod, PodShape, PodTerm,
    Requirement, Resources, SelectorOp, ShapeId, Symbol, Symbols,
};
use crate::reasons::{UnjoinedBackoff, UselessPurchase};

/// Annotation of a NodeClaim with the pods that it was bought for.
const PLANNED: &str = "longshore.dev/planned-pods";
/// How long kube-scheduler may take over a node that is ready, seconds. It tries a pod again at
/// most ten seconds after a node has changed.
const SETTLED: i64 = 30;
/// How long a node that has registered may take to be initialized, seconds after its NodeClaim was
/// made; meanwhile it is waited for.
const COMES: i64 = 600;
/// How long no other node is bought the first time, seconds; it doubles with each time,
const FIRST: i64 = 300;
/// up to this.
const LONGEST: i64 = 3600;
/// NodeClaims that were made within so many seconds are one purchase.
const ONE_PURCHASE: i64 = 60;
/// An entry without news is forgotten so many seconds after its back-off.
const FORGOTTEN: i64 = 3600;
/// Most groups that a NodePool remembers.
const MOST: usize = 50;
/// So many nodes that never join, one after the other, are bought without a word.
const FREE: u32 = 2;
/// Labels by which controllers tell pods of one template apart, or templates of one kind.
const OWN_LABELS: [&str; 10] = [
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "controller-revision-hash",
    "pod-template-hash",
    "pod-template-generation",
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "batch.kubernetes.io/job-completion-index",
];

/// How long purchases are put off after so many in vain, seconds.
fn backoff(times: u32) -> i64 {
    (FIRST << times.saturating_sub(1).min(16)).min(LONGEST)
}

/// A purchase that did not help, as the cluster shows it now.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The NodePool.
    pub pool: Symbol,
    /// The NodeClaim.
    pub claim: Symbol,
    /// The pods that it was bought for and that kube-scheduler still refuses, of one group.
    pub pods: Vec<PodIx>,
    /// What is to be remembered of it.
    pub entry: Useless,
    /// The NodePool remembers it already.
    pub is_known: bool,
}

/// Purchases that did not help.
#[derive(Clone, Debug, Default)]
pub struct UselessPurchases {
    /// Why nothing is bought for pods of a shape.
    bars: FxHashMap<ShapeId, UselessPurchase>,
    /// Pods whose node may still help them.
    young: FxHashMap<PodIx, UselessPurchase>,
    /// What the cluster shows.
    pub found: Vec<Found>,
}

impl UselessPurchases {
    /// What is known of a cluster.
    pub fn of(world: &ClusterObjects) -> Self {
        let remembers = |pool: &NodePool| !pool.purchases.useless.is_empty();
        let planned = world.names.get(PLANNED);
        let registered = world.names.get("Registered");
        let is_suspect = |claim: &&NodeClaim| {
            planned.is_some_and(|key| claim.annotations.get(key).is_some())
                && registered.is_some_and(|known| claim.conditions.contains(&known))
        };
        let suspects: Vec<&NodeClaim> = world.claims.iter().filter(is_suspect).collect();
        if suspects.is_empty() && !world.pools.iter().any(remembers) {
            return UselessPurchases::default();
        }
        let waiting = refused_pods(world);
        if waiting.is_empty() {
            return UselessPurchases::default();
        }
        let mut groups = Groups::default();
        let (found, young) = match planned {
            Some(planned) => find(world, &suspects, planned, &waiting, &mut groups),
            None => Default::default(),
        };
        let bars = bars(world, &found, &waiting, &mut groups);
        UselessPurchases { bars, young, found }
    }

    /// Why nothing is bought for a pod, if so.
    pub fn bar(&self, ix: PodIx, pod: &Pod) -> Option<&UselessPurchase> {
        self.bars.get(&pod.shape).or_else(|| self.young.get(&ix))
    }
}

/// Pods that kube-scheduler has refused, by `namespace/name`.
fn refused_pods(world: &ClusterObjects) -> FxHashMap<(Symbol, &str), PodIx> {
    let waits =
        |pod: &Pod| pod.unschedulable && pod.node.is_none() && !pod.terminal && !pod.deleting;
    let pods = (0..).map(PodIx).zip(&world.pods);
    pods.filter(|(_, pod)| waits(pod))
        .map(|(ix, pod)| ((world.shapes.get(pod.shape).namespace, &*pod.name), ix))
        .collect()
}

/// Digests of shapes, each made once.
#[derive(Default)]
struct Groups(FxHashMap<ShapeId, u64>);

impl Groups {
    fn of(&mut self, world: &ClusterObjects, shape: ShapeId) -> u64 {
        let made = || group(&world.names, world.shapes.get(shape));
        *self.0.entry(shape).or_insert_with(made)
    }
}

fn find(
    world: &ClusterObjects,
    suspects: &[&NodeClaim],
    planned: Symbol,
    waiting: &FxHashMap<(Symbol, &str), PodIx>,
    groups: &mut Groups,
) -> (Vec<Found>, FxHashMap<PodIx, UselessPurchase>) {
    let pool_key = world.names.get("karpenter.sh/nodepool");
    let mut refused: Vec<(&NodeClaim, PodIx)> = Vec::new();
    for claim in suspects {
        let list = claim
            .annotations
            .get(planned)
            .map_or("", |text| world.names.text(text));
        for name in list.split(',') {
            let name = name.split('~').next().unwrap_or_default();
            let Some((namespace, name)) = name.split_once('/') else {
                continue;
            };
            let namespace = world.names.get(namespace);
            let pod = namespace.and_then(|namespace| waiting.get(&(namespace, name)));
            // One of the same name that came later was not bought for.
            let is_same = |pod: &&PodIx| world.pods[pod.0 as usize].created <= claim.created;
            refused.extend(pod.filter(is_same).map(|&pod| (*claim, pod)));
        }
    }
    if refused.is_empty() {
        return Default::default();
    }
    let used = used(world, &refused);
    let hosts = Hosts::of(world);
    let mut found: Vec<Found> = Vec::new();
    let mut young: FxHashMap<PodIx, UselessPurchase> = FxHashMap::default();
    let started = newest_starts(world, &refused, groups);
    for (claim, pod) in refused {
        let Some(pool) = pool_key.and_then(|key| claim.labels.get(key)) else {
            continue;
        };
        let shape = world.pods[pod.0 as usize].shape;
        let group = groups.of(world, shape);
        // kube-scheduler is still at it.
        let ready = claim.initialized.unwrap_or(claim.created);
        if started.get(&group).is_some_and(|&newest| newest >= ready) {
            continue;
        }
        let mut room = claim.allocatable.clone();
        used.get(&claim.name)
            .into_iter()
            .for_each(|used| room.sub(used));
        if !world.shapes.get(shape).requests.fits(&room) {
            continue;
        }
        // Whether it helps is not plain yet.
        let settled = claim.initialized.map(|at| at + SETTLED);
        let settled = settled.unwrap_or(world.now.min(claim.created + COMES) + SETTLED);
        if world.now < settled {
            let bar = UselessPurchase {
                claim: world.names.text(claim.name).into(),
                times: 0,
                until: settled,
            };
            young.insert(pod, bar);
            continue;
        }
        if claim.initialized.is_none() {
            continue;
        }
        let same = |of: &&mut Found| of.claim == claim.name && of.entry.group == group;
        if let Some(known) = found.iter_mut().find(same) {
            known.pods.push(pod);
            continue;
        }
        let (entry, is_known) = entry(world, claim, group, hosts.labels(world, claim));
        found.push(Found {
            pool,
            claim: claim.name,
            pods: vec![pod],
            entry,
            is_known,
        });
    }
    found.sort_by(|a, b| {
        let key = |of: &Found| (of.entry.created, of.entry.group);
        key(a)
            .cmp(&key(b))
            .then_with(|| a.entry.claim.cmp(&b.entry.claim))
    });
    (found, young)
}

/// The Nodes of NodeClaims.
struct Hosts(FxHashMap<Symbol, usize>);

impl Hosts {
    fn of(world: &ClusterObjects) -> Self {
        let nodes = world.nodes.iter().enumerate();
        Hosts(nodes.map(|(at, node)| (node.name, at)).collect())
    }

    /// The digest of the labels of a NodeClaim's Node; 0 without one, and for one that goes: its end
    /// writes labels too, and no pod is helped by them.
    fn labels(&self, world: &ClusterObjects, claim: &NodeClaim) -> u64 {
        let at = claim.node_name.and_then(|name| self.0.get(&name));
        let node = at.map(|&at| &world.nodes[at]);
        let stays = node.filter(|node| !node.deleting && !claim.deleting);
        stays.map_or(0, |node| labels(&world.names, &node.labels))
    }
}

/// What is remembered of a group, whichever NodePool does; the newest if several do.
fn remembered(world: &ClusterObjects, group: u64) -> Option<&Useless> {
    let all = world.pools.iter().flat_map(|pool| &pool.purchases.useless);
    all.filter(|entry| entry.group == group)
        .max_by_key(|entry| (entry.created, entry.until))
}

/// What is to be remembered of a purchase, and whether it is so already.
fn entry(world: &ClusterObjects, claim: &NodeClaim, group: u64, labels: u64) -> (Useless, bool) {
    let known = remembered(world, group);
    let counts = known.filter(|known| claim.created <= known.created + ONE_PURCHASE);
    if let Some(known) = counts {
        return (known.clone(), true);
    }
    let times = known.map_or(0, |known| known.times).saturating_add(1);
    let found = claim.initialized.unwrap_or(world.now) + SETTLED;
    let given = world.names.get(BOUGHT_GIVEN);
    let given = given.and_then(|key| claim.annotations.get(key));
    let given = given.and_then(|text| u64::from_str_radix(world.names.text(text), 16).ok());
    let entry = Useless {
        group,
        times,
        until: found + backoff(times),
        found,
        created: claim.created,
        claim: world.names.text(claim.name).into(),
        given: given.unwrap_or_else(|| given_now(world)),
        labels,
    };
    (entry, false)
}

/// What pods have taken of the nodes of some NodeClaims, by NodeClaim. Daemons were counted with when
/// the node was bought.
fn used(world: &ClusterObjects, refused: &[(&NodeClaim, PodIx)]) -> FxHashMap<Symbol, Resources> {
    let nodes = refused
        .iter()
        .filter_map(|(claim, _)| Some((claim.node_name?, claim.name)));
    let nodes: FxHashMap<Symbol, Symbol> = nodes.collect();
    let daemon = world.names.get("DaemonSet");
    let mut used: FxHashMap<Symbol, Resources> = FxHashMap::default();
    for pod in world.pods.iter().filter(|pod| !pod.terminal) {
        let claim = pod.node.and_then(|node| nodes.get(&node));
        if let Some(&claim) = claim
            && pod.owner.is_none_or(|(kind, _)| Some(kind) != daemon)
        {
            let taken = used.entry(claim).or_default();
            taken.add(&world.shapes.get(pod.shape).requests);
        }
    }
    used
}

/// When the newest pod of each group in question was started, seconds since 1970.
fn newest_starts(
    world: &ClusterObjects,
    refused: &[(&NodeClaim, PodIx)],
    groups: &mut Groups,
) -> FxHashMap<u64, i64> {
    let asked: FxHashSet<u64> = refused
        .iter()
        .map(|(_, pod)| groups.of(world, world.pods[pod.0 as usize].shape))
        .collect();
    starts(world, &asked, groups)
}

fn starts(
    world: &ClusterObjects,
    asked: &FxHashSet<u64>,
    groups: &mut Groups,
) -> FxHashMap<u64, i64> {
    let mut newest: FxHashMap<u64, i64> = FxHashMap::default();
    for pod in world.pods.iter().filter(|pod| pod.node.is_some()) {
        let started = pod.started.unwrap_or(pod.created);
        let group = groups.of(world, pod.shape);
        if asked.contains(&group) {
            let newest = newest.entry(group).or_insert(started);
            *newest = (*newest).max(started);
        }
    }
    newest
}

fn bars(
    world: &ClusterObjects,
    found: &[Found],
    waiting: &FxHashMap<(Symbol, &str), PodIx>,
    groups: &mut Groups,
) -> FxHashMap<ShapeId, UselessPurchase> {
    let now = given_now(world);
    let hosts = Hosts::of(world);
    let claims: FxHashMap<&str, &NodeClaim> = world
        .claims
        .iter()
        .map(|claim| (world.names.text(claim.name), claim))
        .collect();
    let holds = |entry: &Useless| {
        let claim = claims.get(&*entry.claim);
        let labels = claim.map_or(0, |claim| hosts.labels(world, claim));
        let is_relabelled = labels != 0 && entry.labels != 0 && labels != entry.labels;
        entry.given == now && !is_relabelled && world.now < entry.until
    };
    let shapes: FxHashSet<ShapeId> = waiting
        .values()
        .map(|pod| world.pods[pod.0 as usize].shape)
        .collect();
    let asked = shapes
        .iter()
        .map(|&shape| groups.of(world, shape))
        .collect();
    let started = starts(world, &asked, groups);
    let mut bars = FxHashMap::default();
    for shape in shapes {
        let group = groups.of(world, shape);
        let shown = found.iter().map(|found| &found.entry);
        let shown = shown.filter(|entry| entry.group == group);
        let newest = shown.chain(remembered(world, group));
        let Some(entry) = newest.max_by_key(|entry| (entry.created, entry.times)) else {
            continue;
        };
        let is_over = started
            .get(&group)
            .is_some_and(|&newest| newest > entry.found);
        if holds(entry) && !is_over {
            let bar = UselessPurchase {
                claim: entry.claim.clone(),
                times: entry.times,
                until: entry.until,
            };
            bars.insert(shape, bar);
        }
    }
    bars
}

/// What a NodePool is to remember from now on, where that differs from what it does: the text of
/// its annotation, empty for none.
pub fn remember(world: &ClusterObjects, found: &[Found], pool: &NodePool) -> Option<String> {
    let known = &pool.purchases.useless;
    let news: Vec<&Useless> = found
        .iter()
        .filter(|of| of.pool == pool.name && !of.is_known)
        .map(|of| &of.entry)
        .collect();
    if known.is_empty() && news.is_empty() {
        return None;
    }
    let asked: FxHashSet<u64> = known.iter().map(|entry| entry.group).collect();
    let started = starts(world, &asked, &mut Groups::default());
    let helped = |entry: &Useless| {
        started
            .get(&entry.group)
            .is_some_and(|&at| at > entry.found)
    };
    // What is old alone is no reason to write.
    if news.is_empty() && !known.iter().any(helped) {
        return None;
    }
    let is_old = |entry: &Useless| world.now >= entry.until.saturating_add(FORGOTTEN);
    let kept = known
        .iter()
        .filter(|entry| !helped(entry) && !is_old(entry));
    let mut all: Vec<Useless> = kept.cloned().collect();
    for entry in news {
        all.retain(|old| old.group != entry.group);
        all.push(entry.clone());
    }
    let excess = all.len().saturating_sub(MOST);
    all.drain(..excess);
    (all != *known).then(|| Useless::write(&all))
}

/// Why nothing is bought from a NodePool whose nodes never join, and whether it may try one node: it
/// has had its pause.
pub fn unjoined(world: &ClusterObjects, pool: &NodePool) -> Option<(UnjoinedBackoff, bool)> {
    let known = pool.purchases.unjoined.as_ref()?;
    if known.nodes <= FREE || known.given != given_of(world, pool) {
        return None;
    }
    let registered = world.names.get("Registered");
    let pool_key = world.names.get("karpenter.sh/nodepool");
    let is_tried = world.claims.iter().any(|claim| {
        let own = pool_key.and_then(|key| claim.labels.get(key)) == Some(pool.name);
        let joined = registered.is_some_and(|known| claim.conditions.contains(&known));
        // One that goes has not joined either: it is counted soon.
        own && !joined
    });
    let backoff = UnjoinedBackoff {
        nodes: known.nodes,
        class: pool.class,
        until: known.until,
    };
    Some((backoff, world.now >= known.until && !is_tried))
}

/// What a NodePool is to remember after so many more of its nodes have not joined. `given` is
/// [`given_of`] it; `now` in seconds since 1970.
pub fn unjoined_again(known: Option<&Unjoined>, more: u32, given: u64, now: i64) -> Unjoined {
    let known = known.filter(|known| known.given == given);
    let nodes = known.map_or(0, |known| known.nodes).saturating_add(more);
    let before = known.map_or(0, |known| known.times);
    let times = before.saturating_add(u32::from(nodes > FREE));
    let until = if nodes > FREE {
        now + backoff(times)
    } else {
        0
    };
    Unjoined {
        nodes,
        times,
        until,
        given,
    }
}

/// The NodePools and node classes as they are now, by their digest.
pub fn given_now(world: &ClusterObjects) -> u64 {
    let text = |sym| world.names.text(sym);
    let mut all: Vec<(&str, &str, i64)> = Vec::new();
    for pool in &world.pools {
        all.push((text(pool.name), text(pool.uid), pool.generation));
    }
    for class in &world.classes {
        all.push((text(class.id.kind), text(class.id.name), class.generation));
    }
    all.sort_unstable();
    let mut digest = Digest::default();
    for (kind, name, generation) in all {
        digest.add(kind).add(name).add(&generation.to_string());
    }
    digest.0
}

/// A NodePool and its node class as they are now, by their digest.
pub fn given_of(world: &ClusterObjects, pool: &NodePool) -> u64 {
    let mut digest = Digest::default();
    digest
        .add(world.names.text(pool.uid))
        .add(&pool.generation.to_string());
    let class = world.classes.iter().find(|class| class.id == pool.class);
    let generation = class.map_or(0, |class| class.generation);
    digest
        .add(world.names.text(pool.class.name))
        .add(&generation.to_string());
    digest.0
}

/// FNV-1a, which is the same in every process.
struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Digest(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    fn add(&mut self, text: &str) -> &mut Self {
        for byte in text.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self
    }
}

fn labels(names: &Symbols, labels: &Labels) -> u64 {
    let mut all: Vec<(&str, &str)> = labels
        .iter()
        .map(|(key, value)| (names.text(key), names.text(value)))
        .collect();
    all.sort_unstable();
    let mut digest = Digest::default();
    for (key, value) in all {
        digest.add(key).add(value);
    }
    digest.0
}

/// The group of a pod: everything that decides where it may run, but for the labels by which its
/// controller tells it apart. So the next pod of a Job or of a rollout is of the same group.
fn group(names: &Symbols, shape: &PodShape) -> u64 {
    let text = |sym: Symbol| names.text(sym);
    let mut digest = Digest::default();
    digest.add(text(shape.namespace));
    let mut own: Vec<(&str, &str)> = shape
        .labels
        .iter()
        .map(|(key, value)| (text(key), text(value)))
        .filter(|(key, _)| !OWN_LABELS.contains(key))
        .collect();
    own.sort_unstable();
    own.iter().for_each(|(key, value)| {
        digest.add(key).add(value);
    });
    let mut asks: Vec<(&str, i64)> = shape
        .requests
        .iter()
        .map(|(resource, amount)| (resource.name(names), amount))
        .collect();
    asks.sort_unstable();
    digest.add("requests");
    asks.iter().for_each(|(resource, amount)| {
        digest.add(resource).add(&amount.to_string());
    });
    digest.add("selector");
    shape
        .node_selector
        .iter()
        .for_each(|r| requirement(names, r, &mut digest));
    for term in &shape.required {
        digest.add("term");
        term.iter().for_each(|r| requirement(names, r, &mut digest));
    }
    for of in &shape.tolerations {
        digest
            .add("toleration")
            .add(of.key.map_or("", text))
            .add(text(of.value));
        digest.add(&format!("{} {:?}", of.exists, of.effect));
    }
    for of in shape.spread.iter().filter(|of| of.required) {
        digest.add("spread").add(text(of.key));
        digest.add(&format!(
            "{} {:?} {:?} {:?}",
            of.max_skew, of.min_domains, of.node_affinity, of.node_taints
        ));
        selector(names, &of.selector, &mut digest);
    }
    for of in &shape.affinity {
        digest.add("affinity");
        term(names, of, &mut digest);
    }
    for of in &shape.anti_affinity {
        digest.add("anti-affinity");
        term(names, of, &mut digest);
    }
    for port in &shape.ports {
        digest
            .add("port")
            .add(port.ip.map_or("", text))
            .add(text(port.protocol));
        digest.add(&port.port.to_string());
    }
    digest.0
}

fn requirement(names: &Symbols, r: &Requirement, digest: &mut Digest) {
    digest.add(names.text(r.key));
    match &r.op {
        Op::In(values) | Op::NotIn(values) => {
            digest.add(if matches!(r.op, Op::In(_)) {
                "In"
            } else {
                "NotIn"
            });
            values.iter().for_each(|&value| {
                digest.add(names.text(value));
            });
        }
        Op::Exists => {
            digest.add("Exists");
        }
        Op::DoesNotExist => {
            digest.add("DoesNotExist");
        }
        Op::Gte(bound) => {
            digest.add("Gte").add(&bound.to_string());
        }
        Op::Lte(bound) => {
            digest.add("Lte").add(&bound.to_string());
        }
    }
}

fn term(names: &Symbols, term: &PodTerm, digest: &mut Digest) {
    digest.add(names.text(term.key));
    selector(names, &term.selector, digest);
    term.namespaces.iter().for_each(|&of| {
        digest.add(names.text(of));
    });
    if let Some(of) = &term.namespace_selector {
        digest.add("namespaces");
        selector(names, of, digest);
    }
}

fn selector(names: &Symbols, selector: &LabelSelector, digest: &mut Digest) {
    let Some(rules) = &selector.0 else {
        return;
    };
    for rule in rules {
        let key = names.text(rule.key);
        if OWN_LABELS.contains(&key) {
            continue;
        }
        digest.add(key);
        match &rule.op {
            SelectorOp::In(values) | SelectorOp::NotIn(values) => {
                let is_in = matches!(rule.op, SelectorOp::In(_));
                digest.add(if is_in { "In" } else { "NotIn" });
                values.iter().for_each(|&value| {
                    digest.add(names.text(value));
                });
            }
            SelectorOp::Exists => {
                digest.add("Exists");
            }
            SelectorOp::DoesNotExist => {
                digest.add("DoesNotExist");
            }
        }
    }
}
