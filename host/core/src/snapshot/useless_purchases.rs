//! Purchases that did not help: a node was bought for a pod, and kube-scheduler still refuses the pod
//! though the node is ready and no other pod has taken the room, or though the node had time to get ready.
//! Where other pods have taken the room, that counts from the third time in a row.
//!
//! Whatever the cause, the next node would not help either. So nothing more is bought for the pod's
//! group until something that matters has changed, or a back-off has passed that doubles each time.
//! Then a node is bought for one of its pods, and for the others when one of the group has started on a
//! node as young as that.
//! Evidence is read from NodeClaims while they are there, and from annotations of NodePools
//! ([`Useless`]) afterwards: [`remember`] says what is to be written there. Pods of the group may
//! still go to nodes that exist.
//!
//! The same for nodes that never join ([`Unjoined`](crate::model::purchases::Unjoined)) or are not ready for pods long after they have:
//! after three in a row nothing is bought from their NodePool for a while, then one node at a time.
//! Nodes that are late and were bought for one group alone say nothing of the NodePool.

mod groups;
mod joining;

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};

use super::moves::COMMAND;
use super::nodes::INITIALIZATION_LIMIT;
use crate::ids::PodIx;
use crate::model::conditions::REGISTERED;
use crate::model::purchases::{BOUGHT_GIVEN, Useless};
use crate::model::{ClusterObjects, NodeClaim, NodePool, Pod, Resources, ShapeId, Symbol};
use crate::reasons::{FullMemory, UselessPurchase};
use groups::{Digest, Groups};

pub use self::joining::{paused, unjoined, unjoined_again};

/// Annotation of a NodeClaim with the pods that it was bought for.
const PLANNED: &str = "longshore.dev/planned-pods";
/// How long kube-scheduler may take over a node that is ready, seconds. It tries a pod again at
/// most ten seconds after a node has changed.
const SETTLE_SECONDS: i64 = 30;
/// How long no other node is bought the first time, seconds. It doubles with each time.
const FIRST_BACKOFF_SECONDS: i64 = 300;
/// Longest time that no other node is bought, seconds.
const MAX_BACKOFF_SECONDS: i64 = 3600;
/// NodeClaims that were made within so many seconds are one purchase.
const ONE_PURCHASE_SECONDS: i64 = 60;
/// An entry without news is forgotten so many seconds after its back-off.
const MEMORY_SECONDS: i64 = 3600;
/// Most bytes of a NodePool's annotation: some 700 groups at least. The API server takes 256 KiB of
/// annotations, all together.
const MAX_BYTES: usize = 96 * 1024;
/// Room for one more entry, bytes; the name of a NodeClaim has 63 at most.
const ENTRY_BYTES: usize = 160;
/// So many purchases in vain are free: of nodes that never join, one after the other, and of nodes whose
/// room other pods took.
const FREE_PURCHASES: u32 = 2;
/// How long purchases are put off after so many in vain, seconds.
fn backoff(times: u32) -> i64 {
    (FIRST_BACKOFF_SECONDS << times.saturating_sub(1).min(16)).min(MAX_BACKOFF_SECONDS)
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
    /// Why nothing is bought for pods of a shape, without volumes.
    bars: FxHashMap<ShapeId, UselessPurchase>,
    /// Why nothing is bought for pods with volumes.
    with_volumes: FxHashMap<PodIx, UselessPurchase>,
    /// Pods for which one node may be bought all the same: one pod of each group.
    tried: FxHashSet<PodIx>,
    /// Pods whose node may still help them.
    young: FxHashMap<PodIx, UselessPurchase>,
    /// Nodes, by name, that stay until it is plain whether they help, and remembered that they do not.
    awaited: Vec<(Symbol, PodIx)>,
    /// What the cluster shows.
    pub found: Vec<Found>,
}

impl UselessPurchases {
    /// What is known of a cluster.
    pub fn of(world: &ClusterObjects) -> Self {
        let remembers = |pool: &NodePool| !pool.purchases.useless.is_empty();
        let planned = world.names.get(PLANNED);
        let registered = world.names.get(REGISTERED);
        let command = world.names.get(COMMAND);
        // Of one that goes others have the room no longer, and kube-scheduler may not use it.
        let goes = |claim: &NodeClaim| {
            claim.deleting || command.is_some_and(|key| claim.annotations.get(key).is_some())
        };
        let is_suspect = |claim: &&NodeClaim| {
            !goes(claim)
                && planned.is_some_and(|key| claim.annotations.get(key).is_some())
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
        let mut groups = Groups::new(world);
        let (found, young, awaited) = match planned {
            Some(planned) => find(world, &suspects, planned, &waiting, &mut groups),
            None => Default::default(),
        };
        let Bars {
            of_shapes,
            with_volumes,
            tried,
        } = bars(world, &found, &waiting, &mut groups);
        UselessPurchases {
            bars: of_shapes,
            with_volumes,
            tried,
            young,
            awaited,
            found,
        }
    }

    /// Nodes that are not to go yet though they are empty, and a pod that each was bought for. One
    /// that went before its NodePool remembers it would be bought again: nothing would show that it
    /// had not helped.
    pub fn awaited(&self) -> &[(Symbol, PodIx)] {
        &self.awaited
    }

    /// Why nothing is bought for a pod, if so.
    pub fn bar(&self, ix: PodIx, pod: &Pod) -> Option<&UselessPurchase> {
        let bar = match pod.claims.is_empty() {
            true => self.bars.get(&pod.shape),
            false => self.with_volumes.get(&ix),
        };
        let bar = bar.filter(|_| !self.tried.contains(&ix));
        bar.or_else(|| self.young.get(&ix))
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

/// What NodeClaims show: [`UselessPurchases::found`], `young` and `awaited`.
type Evidence = (
    Vec<Found>,
    FxHashMap<PodIx, UselessPurchase>,
    Vec<(Symbol, PodIx)>,
);

/// Pods that a NodeClaim was bought for and that kube-scheduler refuses.
fn still_waiting<'w>(
    world: &'w ClusterObjects,
    claim: &'w NodeClaim,
    planned: Symbol,
    waiting: &'w FxHashMap<(Symbol, &'w str), PodIx>,
) -> impl Iterator<Item = PodIx> + 'w {
    let list = claim.annotations.get(planned);
    let list = list.map_or("", |text| world.names.text(text));
    list.split(',').filter_map(|name| {
        let name = name.split('~').next().unwrap_or_default();
        let (namespace, name) = name.split_once('/')?;
        let pod = *waiting.get(&(world.names.get(namespace)?, name))?;
        // One of the same name that came later was not bought for.
        (world.pods[pod.0 as usize].created <= claim.created).then_some(pod)
    })
}

/// What a NodeClaim shows of the pods that it was bought for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// There is room for them on a node that is ready.
    Room,
    /// Other pods have taken the room.
    Taken,
    /// Its node is not ready for pods.
    NotReady,
}

/// Which purchases were in vain: pods of a NodeClaim that wait though its node is ready, and what the
/// node shows of the room that was bought.
fn find(
    world: &ClusterObjects,
    suspects: &[&NodeClaim],
    planned: Symbol,
    waiting: &FxHashMap<(Symbol, &str), PodIx>,
    groups: &mut Groups<'_>,
) -> Evidence {
    let pool_key = world.names.get("karpenter.sh/nodepool");
    let refused: Vec<(&NodeClaim, PodIx)> = suspects
        .iter()
        .flat_map(|claim| {
            let pods = still_waiting(world, claim, planned, waiting);
            pods.map(|pod| (*claim, pod))
        })
        .collect();
    if refused.is_empty() {
        return Default::default();
    }
    let used = used(world, &refused);
    let remembered = remembered(world);
    let mut found: Vec<Found> = Vec::new();
    let mut young: FxHashMap<PodIx, UselessPurchase> = FxHashMap::default();
    let mut awaited = Vec::new();
    let started = newest_starts(world, &refused, groups);
    for (claim, pod) in refused {
        let Some(pool) = pool_key.and_then(|key| claim.labels.get(key)) else {
            continue;
        };
        let shape = world.pods[pod.0 as usize].shape;
        let group = groups.of(&world.pods[pod.0 as usize]);
        // kube-scheduler is still at it.
        let ready = claim.initialized.unwrap_or(claim.created);
        if started.get(&group).is_some_and(|&newest| newest >= ready) {
            continue;
        }
        let has_room = || {
            let mut room = claim.allocatable.clone();
            let used = used.get(&claim.name);
            used.into_iter().for_each(|used| room.sub(used));
            world.shapes.get(shape).requests.fits(&room)
        };
        let shown = match claim.initialized {
            None => Shown::NotReady,
            Some(_) if has_room() => Shown::Room,
            Some(_) => Shown::Taken,
        };
        // Until then it is not plain whether it helps.
        let settled = claim.initialized.map(|at| at + SETTLE_SECONDS);
        let settled =
            settled.unwrap_or(world.now.min(claim.created + INITIALIZATION_LIMIT) + SETTLE_SECONDS);
        if world.now < settled {
            if shown != Shown::Taken {
                let bar = UselessPurchase {
                    claim: world.names.text(claim.name).into(),
                    times: 0,
                    until: settled,
                    after_another: false,
                };
                young.insert(pod, bar);
                awaited.extend(claim.node_name.map(|node| (node, pod)));
            }
            continue;
        }
        let same = |of: &&mut Found| of.claim == claim.name && of.entry.group == group;
        if let Some(known) = found.iter_mut().find(same) {
            known.pods.push(pod);
            continue;
        }
        let known = remembered.get(&group).copied();
        let (entry, is_known) = entry(world, claim, group, known, (shown, settled));
        // Without the node nothing shows it, until the NodePool remembers it.
        if !is_known {
            awaited.extend(claim.node_name.map(|node| (node, pod)));
        }
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
    (found, young, awaited)
}

/// What is remembered of groups, whichever NodePool does; the newest if several do.
fn remembered(world: &ClusterObjects) -> FxHashMap<u64, &Useless> {
    let mut all: FxHashMap<u64, &Useless> = FxHashMap::default();
    for entry in world.pools.iter().flat_map(|pool| &pool.purchases.useless) {
        let known = all.entry(entry.group).or_insert(entry);
        if (entry.created, entry.until) > (known.created, known.until) {
            *known = entry;
        }
    }
    all
}

/// What is to be remembered of a purchase, and whether it is so already.
fn entry(
    world: &ClusterObjects,
    claim: &NodeClaim,
    group: u64,
    known: Option<&Useless>,
    (shown, found): (Shown, i64),
) -> (Useless, bool) {
    let counts = known.filter(|known| claim.created <= known.created + ONE_PURCHASE_SECONDS);
    if let Some(known) = counts {
        return (known.clone(), true);
    }
    let times = known.map_or(0, |known| known.times).saturating_add(1);
    // That others have taken the room may be chance.
    let free = match shown {
        Shown::Taken => FREE_PURCHASES,
        Shown::Room | Shown::NotReady => 0,
    };
    let pause = match times.saturating_sub(free) {
        0 => 0,
        counted => backoff(counted),
    };
    let given = world.names.get(BOUGHT_GIVEN);
    let given = given.and_then(|key| claim.annotations.get(key));
    let given = given.and_then(|text| u64::from_str_radix(world.names.text(text), 16).ok());
    let entry = Useless {
        group,
        times,
        // What is only counted ends no pause.
        until: (found + pause).max(known.map_or(0, |known| known.until)),
        found,
        created: claim.created,
        claim: world.names.text(claim.name).into(),
        given: given.unwrap_or_else(|| given_now(world)),
    };
    (entry, false)
}

/// What pods have taken of the nodes of some NodeClaims, by NodeClaim. Daemons and static pods are on
/// the next node too.
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
            && !pod.is_static
        {
            let taken = used.entry(claim).or_default();
            taken.add(&world.shapes.get(pod.shape).requests);
        }
    }
    used
}

/// When the newest pod of each group in question was started on a node as young as those bought for it,
/// seconds since 1970.
fn newest_starts(
    world: &ClusterObjects,
    refused: &[(&NodeClaim, PodIx)],
    groups: &mut Groups<'_>,
) -> FxHashMap<u64, i64> {
    let mut asked: FxHashMap<u64, i64> = FxHashMap::default();
    for (claim, pod) in refused {
        let group = groups.of(&world.pods[pod.0 as usize]);
        let since = asked.entry(group).or_insert(claim.created);
        *since = (*since).min(claim.created);
    }
    starts(world, &asked, groups)
}

/// When the newest pod of each group was started, on a node that was made since a time of its own. What
/// starts on older nodes does not show that a new one would help.
fn starts(
    world: &ClusterObjects,
    asked: &FxHashMap<u64, i64>,
    groups: &mut Groups<'_>,
) -> FxHashMap<u64, i64> {
    if asked.is_empty() {
        return FxHashMap::default();
    }
    let nodes = world.nodes.iter().map(|node| (node.name, node.created));
    let mut made: FxHashMap<Symbol, i64> = nodes.collect();
    for claim in &world.claims {
        claim.node_name.map(|node| made.insert(node, claim.created));
    }
    let mut newest: FxHashMap<u64, i64> = FxHashMap::default();
    for pod in &world.pods {
        let Some(&made) = pod.node.and_then(|node| made.get(&node)) else {
            continue;
        };
        let started = pod.started.unwrap_or(pod.created);
        for group in groups.of_started(pod).into_iter().flatten() {
            if asked.get(&group).is_some_and(|&since| made >= since) {
                let newest = newest.entry(group).or_insert(started);
                *newest = (*newest).max(started);
            }
        }
    }
    newest
}

/// Why nothing is bought, by shape and for pods with volumes, and the pods that are tried.
#[derive(Default)]
struct Bars {
    of_shapes: FxHashMap<ShapeId, UselessPurchase>,
    with_volumes: FxHashMap<PodIx, UselessPurchase>,
    tried: FxHashSet<PodIx>,
}

/// The shapes and pods for which nothing is bought while their entries hold, and the pod of each group
/// that is tried once an entry has ended.
fn bars(
    world: &ClusterObjects,
    found: &[Found],
    waiting: &FxHashMap<(Symbol, &str), PodIx>,
    groups: &mut Groups<'_>,
) -> Bars {
    let now = given_now(world);
    // Other labels of the node are no reason to buy: kube-scheduler tries again by itself, and a
    // pod that it places ends the pause.
    let holds = |entry: &Useless| entry.given == now && world.now < entry.until;
    let mut oldest: FxHashMap<u64, PodIx> = FxHashMap::default();
    for &ix in waiting.values() {
        let age = |ix: PodIx| {
            let pod = &world.pods[ix.0 as usize];
            let namespace = world.shapes.get(pod.shape).namespace;
            (pod.created, world.names.text(namespace), &*pod.name)
        };
        let group = groups.of(&world.pods[ix.0 as usize]);
        let known = oldest.entry(group).or_insert(ix);
        if age(ix) < age(*known) {
            *known = ix;
        }
    }
    let mut newest = remembered(world);
    for entry in found.iter().map(|found| &found.entry) {
        let known = newest.entry(entry.group).or_insert(entry);
        if (entry.created, entry.times) > (known.created, known.times) {
            *known = entry;
        }
    }
    let asked = newest.values().map(|entry| (entry.group, entry.created));
    let started = starts(world, &asked.collect(), groups);
    let is_over = |entry: &Useless| {
        let started = started.get(&entry.group);
        started.is_some_and(|&newest| newest > entry.found)
    };
    let mut bars = Bars::default();
    let mut bar = |ix: PodIx, groups: &mut Groups<'_>| {
        let pod = &world.pods[ix.0 as usize];
        let group = groups.of(pod);
        let (Some(&entry), Some(&first)) = (newest.get(&group), oldest.get(&group)) else {
            return;
        };
        // Without a pause it is only counted.
        if is_over(entry) || entry.until <= entry.found {
            return;
        }
        // What may be bought by now is bought for one pod: whether it helps shows at the others.
        if !holds(entry) && ix == first {
            bars.tried.insert(ix);
            return;
        }
        let bar = || UselessPurchase {
            claim: entry.claim.clone(),
            times: entry.times,
            until: entry.until,
            after_another: !holds(entry),
        };
        match pod.claims.is_empty() {
            true => _ = bars.of_shapes.entry(pod.shape).or_insert_with(bar),
            false => _ = bars.with_volumes.entry(ix).or_insert_with(bar),
        }
    };
    let refused = waiting.values().copied();
    refused.for_each(|ix| bar(ix, groups));
    // Others of these groups that kube-scheduler has not tried yet.
    let others = (0..).map(PodIx).zip(&world.pods);
    let others = others.filter(|(_, pod)| pod.unattempted && !pod.claims.is_empty());
    others.for_each(|(ix, _)| bar(ix, groups));
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
    let asked = known.iter().map(|entry| (entry.group, entry.created));
    let asked: FxHashMap<u64, i64> = asked.collect();
    let started = starts(world, &asked, &mut Groups::new(world));
    let helped = |entry: &Useless| {
        started
            .get(&entry.group)
            .is_some_and(|&at| at > entry.found)
    };
    // What is old alone is no reason to write.
    if news.is_empty() && !known.iter().any(helped) {
        return None;
    }
    let is_old = |entry: &Useless| world.now >= entry.until.saturating_add(MEMORY_SECONDS);
    let kept = known
        .iter()
        .filter(|entry| !helped(entry) && !is_old(entry));
    let mut all: Vec<Useless> = kept.cloned().collect();
    for entry in news {
        all.retain(|old| old.group != entry.group);
        all.push(entry.clone());
    }
    let all = at_most(world, all, MAX_BYTES);
    (all != *known).then(|| Useless::write(&all))
}

/// Entries that fit into so many bytes, in their order. Those whose pause runs come first; what
/// comes too late for a place is barred by [`full`].
fn at_most(world: &ClusterObjects, all: Vec<Useless>, bytes: usize) -> Vec<Useless> {
    let mut left = bytes;
    let total: usize = all.iter().map(size).sum();
    if total <= bytes {
        return all;
    }
    let given = given_now(world);
    let known: FxHashSet<u64> = remembered(world).into_keys().collect();
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|&at| {
        let entry = &all[at];
        let is_running = runs(entry, given, world.now);
        // One that is known already has been counted on.
        let is_known = known.contains(&entry.group);
        Reverse((is_running, is_known, entry.times, entry.until))
    });
    let mut kept: Vec<usize> = order
        .into_iter()
        .take_while(|&at| {
            let fits = size(&all[at]) <= left;
            left = left.saturating_sub(size(&all[at]));
            fits
        })
        .collect();
    kept.sort_unstable();
    let mut all: Vec<Option<Useless>> = all.into_iter().map(Some).collect();
    kept.into_iter().filter_map(|at| all[at].take()).collect()
}

fn runs(entry: &Useless, given: u64, now: i64) -> bool {
    entry.given == given && now < entry.until
}

/// Bytes of an entry in the annotation.
fn size(entry: &Useless) -> usize {
    Useless::write(std::slice::from_ref(entry)).len() + 1
}

/// Why nothing is bought from a NodePool that has no room to remember another purchase in vain:
/// until the first of the pauses that it remembers has passed.
pub fn full(world: &ClusterObjects, pool: &NodePool) -> Option<FullMemory> {
    let all = &pool.purchases.useless;
    // The common case at once.
    if (all.len() + 1) * ENTRY_BYTES <= MAX_BYTES {
        return None;
    }
    let given = given_now(world);
    let running = all.iter().filter(|entry| runs(entry, given, world.now));
    let bytes: usize = running.clone().map(size).sum();
    let until = running.clone().map(|entry| entry.until).min()?;
    (bytes + ENTRY_BYTES > MAX_BYTES).then(|| FullMemory {
        groups: u32::try_from(running.count()).unwrap_or(u32::MAX),
        until,
    })
}

/// The NodePools that pods may get nodes from and node classes as they are now, by their digest. A static
/// NodePool is edited whenever it is scaled.
pub fn given_now(world: &ClusterObjects) -> u64 {
    let text = |sym| world.names.text(sym);
    let mut all: Vec<(&str, &str, i64)> = Vec::new();
    for pool in world.pools.iter().filter(|pool| pool.replicas.is_none()) {
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
