//! Whom of a plan kube-scheduler need not be told of.
//!
//! Telling is not free: each pod is a write to the API server, for each of which kube-scheduler
//! looks at every pod that waits. Where pods are small and go anywhere, they find room once that of
//! the large ones is kept; where all are alike, whoever comes first takes a place and leaves one as
//! large: of a thousand on eight nodes nobody is told, which takes the control plane 18.8 seconds
//! of CPU in place of 22.9 with half of them told. And of a service that must spread kube-scheduler
//! can be told of one pod of a node at a time only: where all that a domain gets of it come to one
//! node they find it anyhow, for elsewhere places are kept for others.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Simulator;
use super::matchers::{Matcher, Namespaces, Postings, Scope};
use crate::model::{PodShape, ResourceId, ShapeId, Symbol};
use crate::plan::{Plan, PodIx};
use crate::snapshot::Snapshot;
use crate::stop::Stop;

/// Eighths of the pods that are told, the largest of them, as they are tried.
const EIGHTHS: [usize; 5] = [7, 6, 4, 2, 0];
/// Courses of events that each is tried in. In half of them nodes come up one by one: nodes that
/// open within half a second of each other are enough for pods to take places that are not kept.
const COURSES: u64 = 6;
/// Of fewer than this many pods all are told.
const FEW: usize = 64;
/// Pods times nodes up to which trying takes some ten milliseconds; above, all are told.
const MOST_PAIRS: usize = 200_000;

/// Pods that nodes are bought for and that kube-scheduler need not be told of: the smallest eighths
/// of them without which no more pods are left over than if it were told of all. Nobody where
/// asking costs more than telling, or is stopped. Where some pods have to wait for their turn to be
/// told, those if all of their service that a domain gets come to one node, and else nobody: the
/// fewer wait besides them, the fewer take their places. Nobody who is [`affinity_leaders`] is
/// among them.
pub fn pods_without_nomination(
    snapshot: &Snapshot,
    plan: &Plan,
    followed: &FxHashSet<ShapeId>,
    stop: Stop<'_>,
) -> FxHashSet<PodIx> {
    let pods: usize = plan.claims.iter().map(|claim| claim.pods.len()).sum();
    let pairs = snapshot.pending.len() * (snapshot.nodes.len() + plan.claims.len());
    if pods < FEW || pairs > MOST_PAIRS || stop.is_raised() {
        return FxHashSet::default();
    }
    let simulator = Simulator::new(snapshot).until(stop);
    if simulator.is_stopped() {
        return FxHashSet::default();
    }
    let leads = |pod: &PodIx| followed.contains(&snapshot.world.pods[pod.0 as usize].shape);
    let found = match simulator.spread_sharing(plan) {
        SpreadSharing::None => simulator.small(plan, leads),
        SpreadSharing::OneNode(mut pods) => {
            pods.retain(|pod| !leads(pod));
            pods
        }
        SpreadSharing::SeveralNodes => FxHashSet::default(),
    };
    if stop.is_raised() {
        FxHashSet::default()
    } else {
        found
    }
}

/// Shapes of pods that nodes are bought for and that required pod affinity of such pods selects,
/// their own or that of others. Where the first of them goes, the others have to go as well; if it
/// strays to a node without room for them, they wait for ever.
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
    /// There are none.
    None,
    /// All of each service that a domain gets come to one node.
    OneNode(FxHashSet<PodIx>),
    /// Those of some service come to several nodes of a domain.
    SeveralNodes,
}

/// The pods of a service on a node that is bought, and the domain, if that is settled.
type NodeShare<'p> = (Option<&'p [Symbol]>, Vec<PodIx>);

impl Simulator<'_> {
    fn small(&self, plan: &Plan, leads: impl Fn(&PodIx) -> bool) -> FxHashSet<PodIx> {
        let mut told = self.nominated(plan);
        let mut free = FxHashSet::default();
        let mut smallest_first = self.by_size(plan);
        smallest_first.retain(|pod| !leads(pod));
        let Some(least) = self.left_over(plan, &told, usize::MAX) else {
            return free;
        };
        for eighths in EIGHTHS {
            let spared = smallest_first.len() * (8 - eighths) / 8;
            smallest_first[..spared]
                .iter()
                .for_each(|pod| _ = told.remove(pod));
            if self.left_over(plan, &told, least).is_none() {
                break;
            }
            free.extend(&smallest_first[..spared]);
        }
        free
    }

    fn spread_sharing(&self, plan: &Plan) -> SpreadSharing {
        let mut services: FxHashMap<PodIx, (u32, Symbol)> = FxHashMap::default();
        for queued in &self.compiled.queue {
            let shape =
                &self.compiled.shapes[self.compiled.classes[queued.class as usize].shape as usize];
            if let Some(hard) = shape.required_spread.first() {
                let key =
                    self.compiled.keys[self.compiled.counters[hard.counter as usize].key as usize];
                services.insert(queued.pod, (queued.class, key));
            }
        }
        let mut shares: FxHashMap<u32, Vec<NodeShare<'_>>> = FxHashMap::default();
        for claim in &plan.claims {
            let mut here: FxHashMap<(u32, Symbol), Vec<PodIx>> = FxHashMap::default();
            for pod in &claim.pods {
                services
                    .get(pod)
                    .into_iter()
                    .for_each(|service| here.entry(*service).or_default().push(*pod));
            }
            for ((class, key), pods) in here {
                let values = claim
                    .requirements
                    .iter()
                    .find(|(k, _)| *k == key)
                    .map(|(_, values)| values.as_slice());
                shares
                    .entry(class)
                    .or_default()
                    .push((values.filter(|values| values.len() == 1), pods));
            }
        }
        let mut all = FxHashSet::default();
        for shares in shares
            .into_values()
            .filter(|shares| shares.iter().any(|(_, pods)| pods.len() > 1))
        {
            let mut domains = FxHashSet::default();
            if shares
                .iter()
                .any(|(domain, _)| domain.is_none_or(|domain| !domains.insert(domain)))
            {
                return SpreadSharing::SeveralNodes;
            }
            all.extend(
                shares
                    .into_iter()
                    .filter(|(_, pods)| pods.len() > 1)
                    .flat_map(|(_, pods)| pods),
            );
        }
        if all.is_empty() {
            SpreadSharing::None
        } else {
            SpreadSharing::OneNode(all)
        }
    }

    /// How many pods are left over in all courses, unless they are more than `most`.
    fn left_over(&self, plan: &Plan, told: &FxHashMap<PodIx, u32>, most: usize) -> Option<usize> {
        (0..COURSES).try_fold(0, |sum, seed| {
            let sum = sum + self.run_simulation(plan, told.clone(), seed).unplaced.len();
            (sum <= most).then_some(sum)
        })
    }

    /// Pods that nodes are bought for, by the share that each asks for of what all of them do, of
    /// CPU and of memory added up.
    fn by_size(&self, plan: &Plan) -> Vec<PodIx> {
        let world = &self.snapshot.world;
        let mut pods: Vec<PodIx> = plan
            .claims
            .iter()
            .flat_map(|claim| claim.pods.iter().copied())
            .collect();
        let asks = |pod: PodIx, resource| {
            world
                .shapes
                .get(world.pods[pod.0 as usize].shape)
                .requests
                .get(resource) as f64
        };
        let both = [ResourceId::Cpu, ResourceId::Memory];
        let sums = both.map(|resource| {
            pods.iter()
                .map(|&pod| asks(pod, resource))
                .sum::<f64>()
                .max(1.0)
        });
        let size = |pod| {
            both.iter()
                .zip(sums)
                .map(|(&resource, sum)| asks(pod, resource) / sum)
                .sum::<f64>()
        };
        pods.sort_by(|&a, &b| size(a).total_cmp(&size(b)).then(a.cmp(&b)));
        pods
    }
}
