//! Which pods are to be planned, and in which order.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::useless_purchases::UselessPurchases;
use super::volumes::{ClaimToBind, LocalVolumes, Places, SharedClaim, Volumes};
use crate::ids::PodIx;
use crate::model::{
    ClusterObjects, LabelSelector, Pod, PodShape, Requirement, ResourceId, Resources, SelectorOp,
    SelectorRule, ShapeId, Spread, Symbol, Workload,
};
use crate::reasons::{Unfit, UselessPurchase};

/// A pod to plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingPod {
    /// Index into the observed pods.
    pub pod: PodIx,
    /// Its shape. Differs from the pod's own where default topology spread was added.
    pub shape: Arc<PodShape>,
    /// Requirements of its volumes: one of the alternatives must hold; empty for none.
    pub volume_alternatives: Vec<Vec<Requirement>>,
    /// CSI volumes it mounts, driver and a number for the volume (a shared claim counts once per
    /// node).
    pub volumes: Vec<(Symbol, u32)>,
    /// Claims that are bound when it is placed: a volume that one has is no other's.
    pub to_bind: Vec<ClaimToBind>,
    /// Claims of which the first pod that has a place decides for it.
    pub shared: Option<Box<SharedClaims>>,
    /// Why it cannot be planned at all, if so.
    pub unfit: Option<Unfit>,
    /// Why no node is bought for it, if so.
    pub useless: Option<UselessPurchase>,
}

/// The PersistentVolumeClaims that a pod shares with others that wait or are about to be bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedClaims {
    /// Its place among pods that share claims, in kube-scheduler's queue.
    pub turn: u32,
    /// The claims that it shares, each once.
    pub claims: Vec<SharedClaim>,
}

/// Pods that kube-scheduler has marked or will mark unschedulable, including those that lost their
/// nomination, and pods of terminating nodes. `moved` have room elsewhere already. `nominated` are
/// the pods that kept their nomination, with the positions of their nodes.
pub fn collect(
    world: &ClusterObjects,
    leaving: &FxHashSet<Symbol>,
    (crowded_out, moved, nominated): (&FxHashSet<PodIx>, &FxHashSet<PodIx>, &[(PodIx, usize)]),
    volumes: &Volumes,
    useless: &UselessPurchases,
) -> Vec<PendingPod> {
    let kinds = Kinds::of(world);
    let mut shapes = Shapes::default();
    let claims = world.claims.iter().filter(|c| !c.deleting).map(|c| c.name);
    let there: FxHashSet<Symbol> = world
        .nodes
        .iter()
        .map(|n| n.name)
        .chain(claims)
        .filter(|n| !leaving.contains(n))
        .collect();
    let mut pending: Vec<PendingPod> = Vec::new();
    // A nomination counts while its node exists, is not terminating, and has room.
    for (at, pod) in world.pods.iter().enumerate() {
        let leaves = pod.node.is_some_and(|n| leaving.contains(&n));
        let has_room = moved.contains(&PodIx(at as u32));
        let displaced = leaves && !has_room && reschedulable(world, pod, &kinds);
        let expected = pod.nominated.is_some_and(|n| there.contains(&n))
            && !crowded_out.contains(&PodIx(at as u32));
        if !((provisionable(pod, &kinds) && !expected) || displaced) {
            continue;
        }
        let mut entry = shapes.pending(world, PodIx(at as u32), volumes, LocalVolumes::Bind);
        entry.useless = useless
            .bar(PodIx(at as u32), pod)
            .filter(|_| !displaced)
            .cloned();
        pending.push(entry);
    }
    sort(world, &mut pending);
    share_claims(world, &mut pending, volumes, nominated);
    pending
}

/// Finds the claims that pods share and of which the first that has a place decides for the others.
/// Which one that is only planning shows: a pod without a place holds no other.
fn share_claims(
    world: &ClusterObjects,
    pending: &mut [PendingPod],
    volumes: &Volumes,
    nominated: &[(PodIx, usize)],
) {
    let of = |pod: PodIx| volumes.shareable(world, &world.pods[pod.0 as usize]);
    let mut users: FxHashMap<u32, u32> = FxHashMap::default();
    let mut sharing: Vec<(usize, Vec<SharedClaim>)> = Vec::new();
    for (at, waits) in pending.iter().enumerate() {
        let claims = match waits.unfit {
            None => of(waits.pod),
            Some(_) => continue,
        };
        for claim in &claims {
            *users.entry(claim.claim).or_default() += 1;
        }
        if !claims.is_empty() {
            sharing.push((at, claims));
        }
    }
    if sharing.is_empty() {
        return;
    }
    let mut first: FxHashMap<u32, (PodIx, u32)> = FxHashMap::default();
    for &(pod, node) in nominated {
        for claim in of(pod) {
            first.entry(claim.claim).or_insert((pod, node as u32));
        }
    }
    for (_, claims) in &mut sharing {
        claims
            .iter_mut()
            .for_each(|claim| claim.first = first.get(&claim.claim).copied());
        claims.retain(|claim| claim.first.is_some() || users[&claim.claim] > 1);
    }
    sharing.retain(|(_, claims)| !claims.is_empty());
    sharing.sort_by_key(|&(at, _)| {
        let pod = &world.pods[pending[at].pod.0 as usize];
        let priority = world.shapes.get(pod.shape).priority;
        let place = pod.queued.wrapping_sub(1);
        (Reverse(priority), place, pod.created, &pod.uid)
    });
    for (turn, (at, claims)) in (0..).zip(sharing) {
        pending[at].shared = Some(Box::new(SharedClaims { turn, claims }));
    }
}

/// Those of some pods that would have to find another place if their node went, in queue order: all but
/// those of DaemonSets, static ones, and those that end anyway.
pub fn movable(
    world: &ClusterObjects,
    pods: impl IntoIterator<Item = PodIx>,
    volumes: &Volumes,
) -> Vec<PendingPod> {
    let kinds = Kinds::of(world);
    let mut shapes = Shapes::default();
    let moves = |ix: &PodIx| {
        let pod = &world.pods[ix.0 as usize];
        let daemon = pod.owner.is_some_and(|o| Some(o.0) == kinds.daemon);
        !daemon && !pod.is_static && !pod.terminal
    };
    let pods = pods.into_iter().filter(moves);
    let mut movable: Vec<PendingPod> = pods
        .map(|ix| shapes.pending(world, ix, volumes, LocalVolumes::Leave))
        .collect();
    sort(world, &mut movable);
    movable
}

/// Shapes of pods with default spread constraints, each made once.
#[derive(Default)]
struct Shapes {
    made: FxHashMap<(ShapeId, Option<(Symbol, Symbol)>), Arc<PodShape>>,
    /// Resources of nodes and instance types, but for those that every node has.
    resources: OnceCell<FxHashSet<ResourceId>>,
}

impl Shapes {
    fn pending(
        &mut self,
        world: &ClusterObjects,
        ix: PodIx,
        volumes: &Volumes,
        local: LocalVolumes,
    ) -> PendingPod {
        let pod = &world.pods[ix.0 as usize];
        let defaults = !world.settings.default_spread.is_empty();
        let key = (pod.shape, pod.owner.filter(|_| defaults));
        let shape = self
            .made
            .entry(key)
            .or_insert_with(|| Arc::new(with_default_spread(world, pod)))
            .clone();
        let nowhere = || self.no_such_resource(world, &shape);
        let (places, unfit) = match (
            unplannable(pod).or_else(nowhere),
            volumes.places(world, ix, local),
        ) {
            (Some(unfit), _) => (Places::default(), Some(unfit)),
            (None, Err(why)) => (Places::default(), Some(Unfit::Volume(why.into()))),
            (None, Ok(places)) => (places, None),
        };
        PendingPod {
            pod: ix,
            shape,
            volume_alternatives: places.alternatives,
            volumes: volumes.of(world, pod),
            to_bind: places.to_bind,
            shared: None,
            unfit,
            useless: None,
        }
    }
}

impl Shapes {
    /// An extended resource that pods of a shape ask for and that no node has and no type offers.
    fn no_such_resource(&self, world: &ClusterObjects, shape: &PodShape) -> Option<Unfit> {
        let extended = |resource: &ResourceId| match *resource {
            ResourceId::Other(name) => world.names.text(name).contains('/'),
            _ => false,
        };
        let asked = shape.requests.iter().map(|(resource, _)| resource);
        let mut asked = asked.filter(extended).peekable();
        asked.peek()?;
        let known = self.resources.get_or_init(|| {
            let types = world.catalogue.types().iter().map(|t| &t.allocatable);
            let nodes = world.nodes.iter().map(|node| &node.allocatable);
            let claims = world.claims.iter().map(|claim| &claim.allocatable);
            let all = types.chain(nodes).chain(claims).flat_map(Resources::iter);
            all.map(|(resource, _)| resource).filter(extended).collect()
        });
        let resource = asked.find(|resource| !known.contains(resource))?;
        Some(Unfit::NoSuchResource { resource })
    }
}

struct Kinds {
    daemon: Option<Symbol>,
    stateful: Option<Symbol>,
}

impl Kinds {
    fn of(world: &ClusterObjects) -> Self {
        Kinds {
            daemon: world.names.get("DaemonSet"),
            stateful: world.names.get("StatefulSet"),
        }
    }
}

fn provisionable(pod: &Pod, kinds: &Kinds) -> bool {
    let daemon = pod.owner.is_some_and(|o| Some(o.0) == kinds.daemon);
    let waits = pod.unschedulable || pod.unattempted;
    waits && pod.node.is_none() && !daemon && !pod.is_static && !pod.terminal && !pod.deleting
}

/// A pod that will be created again when its node is removed.
fn reschedulable(world: &ClusterObjects, pod: &Pod, kinds: &Kinds) -> bool {
    let owned_by = |kind: Option<Symbol>| pod.owner.is_some_and(|o| Some(o.0) == kind);
    let active = !pod.terminal && (!pod.deleting || owned_by(kinds.stateful));
    let held = pod.do_not_disrupt.holds(pod.started, world.now);
    let shape = world.shapes.get(pod.shape);
    let blocked = || {
        let selects = |b: &&crate::model::PodDisruptionBudget| {
            b.namespace == shape.namespace && b.selector.matches(&shape.labels)
        };
        world
            .budgets
            .iter()
            .filter(selects)
            .any(|b| b.blocks_always)
    };
    active && !owned_by(kinds.daemon) && !pod.is_static && !held && !blocked()
}

fn unplannable(pod: &Pod) -> Option<Unfit> {
    if let Some(why) = &pod.invalid {
        return Some(Unfit::Invalid(why.clone()));
    }
    if let Some(excess) = &pod.excess {
        return Some(Unfit::Excess(**excess));
    }
    pod.resource_claims.then_some(Unfit::ResourceClaims)
}

/// Most CPU first, then most memory, then the first in kube-scheduler's queue, then oldest, then
/// UID. So of identical pods the first in the queue is the first of its group: a plan then keeps
/// places for pods in the order in which they are tried.
fn sort(world: &ClusterObjects, pending: &mut [PendingPod]) {
    let of = |p: &PendingPod| &world.pods[p.pod.0 as usize];
    // Pods that are not in the queue, 0, come last.
    let place = |pod: &Pod| pod.queued.wrapping_sub(1);
    pending.sort_by(|a, b| {
        let size = |p: &PendingPod, r| p.shape.requests.get(r);
        let (pa, pb) = (of(a), of(b));
        size(b, ResourceId::Cpu)
            .cmp(&size(a, ResourceId::Cpu))
            .then(size(b, ResourceId::Memory).cmp(&size(a, ResourceId::Memory)))
            .then(place(pa).cmp(&place(pb)))
            .then(pa.created.cmp(&pb.created))
            .then_with(|| pa.uid.cmp(&pb.uid))
            .then_with(|| pa.name.cmp(&pb.name))
    });
}

/// Default constraints go, all or none, to pods without constraints of their own whose selector can
/// be deduced.
fn with_default_spread(world: &ClusterObjects, pod: &Pod) -> PodShape {
    let mut shape = world.shapes.get(pod.shape).clone();
    let defaults = &world.settings.default_spread;
    if !shape.spread.is_empty() || defaults.is_empty() {
        return shape;
    }
    let Some(selector) = deduced_selector(world, pod, &shape) else {
        return shape;
    };
    shape.spread = defaults
        .iter()
        .map(|s| Spread {
            selector: selector.clone(),
            ..s.clone()
        })
        .collect();
    shape
}

/// The selectors of all Services that select the pod, merged (of a key the last Service by name
/// counts), then the controlling owner's: a ReplicationController's overwrites, a ReplicaSet's or
/// StatefulSet's is added.
fn deduced_selector(world: &ClusterObjects, pod: &Pod, shape: &PodShape) -> Option<LabelSelector> {
    let text = |s: Symbol| world.names.text(s);
    let mut services: Vec<&Workload> = world
        .workloads
        .iter()
        .filter(|w| {
            text(w.kind) == "Service"
                && w.namespace == shape.namespace
                && w.selector.matches(&shape.labels)
        })
        .collect();
    services.sort_by_key(|w| text(w.name));
    let mut merged: Vec<(Symbol, SelectorOp)> = Vec::new();
    let mut put = |rules: &[SelectorRule]| {
        for rule in rules {
            merged.retain(|(key, _)| *key != rule.key);
            merged.push((rule.key, rule.op.clone()));
        }
    };
    services
        .iter()
        .filter_map(|w| w.selector.0.as_ref())
        .for_each(|rules| put(rules));
    let owner = pod.owner.and_then(|(kind, name)| {
        world
            .workloads
            .iter()
            .find(|w| w.kind == kind && w.name == name && w.namespace == shape.namespace)
    });
    let owner_rules = owner
        .filter(|w| text(w.kind) != "Service")
        .and_then(|w| w.selector.0.as_ref());
    let overwrites = owner.is_some_and(|w| text(w.kind) == "ReplicationController");
    if let (Some(rules), true) = (owner_rules, overwrites) {
        put(rules);
    }
    let mut rules: Vec<SelectorRule> = merged
        .into_iter()
        .map(|(key, op)| SelectorRule { key, op })
        .collect();
    if let (Some(more), false) = (owner_rules, overwrites) {
        rules.extend(more.iter().cloned());
    }
    rules.sort_by_key(|r| text(r.key));
    (!rules.is_empty()).then_some(LabelSelector(Some(rules)))
}
