//! Which pods of a plan need no nomination.
//!
//! A nomination costs a write to the API server, and kube-scheduler looks at every pending pod for
//! each write. Two rules spare it:
//!
//! - Where all pods of a round have one shape, a pod that takes another one's room leaves as much
//!   elsewhere. With no nominations for 1 000 equal pods on eight nodes the control plane takes
//!   18.8 s of CPU, against 22.9 s with half of them nominated.
//! - Only one pod of a spread group can be nominated per node at a time. If all pods of the group in
//!   a domain go to one node, they find that node without a nomination, because the room elsewhere
//!   is reserved.

use rustc_hash::{FxHashMap, FxHashSet};

use super::matchers::{Matcher, Namespaces, Postings, Scope};
use crate::model::{PodShape, ShapeId, Symbol};
use crate::plan::{Plan, PodIx};
use crate::snapshot::Snapshot;

/// Plans with fewer pods nominate all of them: it costs next to nothing, and pods that arrive
/// meanwhile take no room.
const FEW_PODS: usize = 64;

/// Pods on new nodes that need no nomination. If spread pods have to wait for their nomination, the
/// result is these pods if each domain has them all on one node, and empty otherwise: the fewer pods
/// wait beside them, the fewer take their room. Affinity leaders are never in the result.
pub fn pods_without_nomination(
    snapshot: &Snapshot,
    plan: &Plan,
    followed: &FxHashSet<ShapeId>,
) -> FxHashSet<PodIx> {
    let bought = || plan.claims.iter().flat_map(|claim| &claim.pods).copied();
    if bought().count() < FEW_PODS {
        return FxHashSet::default();
    }
    let shape = |pod: PodIx| snapshot.world.pods[pod.0 as usize].shape;
    let mut found = match spread_sharing(snapshot, plan) {
        SpreadSharing::None => {
            let existing = plan.on_existing_nodes.iter().flat_map(|e| &e.pods).copied();
            let mut shapes = bought().chain(existing).map(shape);
            let first = shapes.next();
            match shapes.all(|other| Some(other) == first) {
                true => bought().collect(),
                false => FxHashSet::default(),
            }
        }
        SpreadSharing::OneNode(pods) => pods,
        SpreadSharing::SeveralNodes => FxHashSet::default(),
    };
    found.retain(|pod| !followed.contains(&shape(*pod)));
    found
}

/// Shapes of pods that nodes are bought for and that required pod affinity of such pods selects,
/// their own or that of others. The others have to follow the first one. If it is bound to a node
/// without room for them, they stay pending.
pub fn affinity_leaders(snapshot: &Snapshot, plan: &Plan) -> FxHashSet<ShapeId> {
    let world = &snapshot.world;
    let pods = plan.claims.iter().flat_map(|claim| &claim.pods);
    let shapes: FxHashSet<ShapeId> = pods.map(|pod| world.pods[pod.0 as usize].shape).collect();
    let shapes: Vec<(ShapeId, &PodShape)> = shapes
        .into_iter()
        .map(|id| (id, world.shapes.get(id)))
        .collect();
    let terms = shapes
        .iter()
        .flat_map(|(_, shape)| shape.affinity.iter().map(|term| (term, shape.namespace)));
    let matchers: FxHashSet<Matcher> = terms
        .map(|(term, own)| vec![Scope::of_term(term, own)])
        .collect();
    if matchers.is_empty() {
        return FxHashSet::default();
    }
    let namespaces = Namespaces::of(world);
    let mut postings = Postings::default();
    shapes
        .iter()
        .for_each(|(_, shape)| postings.push(&shape.labels));
    let selected = |matcher: &Matcher| {
        let candidates = postings
            .candidates(matcher)
            .into_iter()
            .map(|at| shapes[at as usize]);
        let matches = candidates.filter(|(_, shape)| namespaces.matches(matcher, shape));
        matches.map(|(id, _)| id).collect::<Vec<ShapeId>>()
    };
    matchers.iter().flat_map(selected).collect()
}

/// Pods of services that must spread and come to a node together.
enum SpreadSharing {
    None,
    /// All of each service that a domain gets come to one node.
    OneNode(FxHashSet<PodIx>),
    /// Those of some service come to several nodes of a domain.
    SeveralNodes,
}

/// The pods of a service on a node that is bought, and the domain, if that is settled.
type NodeShare<'p> = (Option<&'p [Symbol]>, Vec<PodIx>);

fn spread_sharing(snapshot: &Snapshot, plan: &Plan) -> SpreadSharing {
    let world = &snapshot.world;
    let mut groups: FxHashMap<PodIx, (ShapeId, Symbol)> = FxHashMap::default();
    for pending in &snapshot.pending {
        let mut required = pending.shape.spread.iter().filter(|spread| spread.required);
        if let Some(spread) = required.next() {
            let shape = world.pods[pending.pod.0 as usize].shape;
            groups.insert(pending.pod, (shape, spread.key));
        }
    }
    let mut shares: FxHashMap<ShapeId, Vec<NodeShare<'_>>> = FxHashMap::default();
    for claim in &plan.claims {
        let mut here: FxHashMap<(ShapeId, Symbol), Vec<PodIx>> = FxHashMap::default();
        for pod in &claim.pods {
            if let Some(group) = groups.get(pod) {
                here.entry(*group).or_default().push(*pod);
            }
        }
        for ((shape, key), pods) in here {
            let settled = claim.requirements.iter().find(|(k, _)| *k == key);
            let domain = settled
                .map(|(_, values)| values.as_slice())
                .filter(|values| values.len() == 1);
            shares.entry(shape).or_default().push((domain, pods));
        }
    }
    let mut all = FxHashSet::default();
    for shares in shares.into_values() {
        if shares.iter().all(|(_, pods)| pods.len() < 2) {
            continue;
        }
        let mut domains = FxHashSet::default();
        let mut repeated = shares
            .iter()
            .map(|(domain, _)| domain.is_none_or(|domain| !domains.insert(domain)));
        if repeated.any(|repeated| repeated) {
            return SpreadSharing::SeveralNodes;
        }
        let crowded = shares.into_iter().filter(|(_, pods)| pods.len() > 1);
        all.extend(crowded.flat_map(|(_, pods)| pods));
    }
    if all.is_empty() {
        SpreadSharing::None
    } else {
        SpreadSharing::OneNode(all)
    }
}
