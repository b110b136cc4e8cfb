//! Which pods of a plan need no nomination.
//!
//! A nomination costs a write to the API server, and kube-scheduler looks at every pending pod for
//! each write. Small pods that fit anywhere find room once the room of large pods is reserved.
//! Where all pods are equal, a pod that takes another one's room leaves as much elsewhere. With no
//! nominations for 1 000 equal pods on eight nodes the control plane takes 18.8 s of CPU, against
//! 22.9 s with half of them nominated.
//!
//! Only one pod of a spread group can be nominated per node at a time. If all pods of the group in
//! a domain go to one node, they find that node without a nomination, because the room elsewhere is
//! reserved.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Simulator;
use super::matchers::{Matcher, Namespaces, Postings, Scope};
use crate::model::{PodShape, ResourceId, ShapeId, Symbol};
use crate::plan::{Plan, PodIx};
use crate::snapshot::Snapshot;
use crate::stop::Stop;

/// Eighths of the pods that get a nomination, largest pods first, in the order in which they are
/// tried.
const EIGHTHS: [usize; 5] = [7, 6, 4, 2, 0];
/// Scenarios per attempt. In half of them nodes register one by one: half a second between two
/// nodes is enough for pods to take room that is not reserved.
const COURSES: u64 = 6;
/// Plans with fewer pods nominate all of them.
const FEW: usize = 64;
/// Limit of pods times nodes, at which trying takes about 10 ms. Above it all pods are nominated.
const MOST_PAIRS: usize = 200_000;

/// Pods on new nodes that need no nomination. These are the smallest eighths of the pods without
/// whose nominations no more pods stay unplaced than with all of them. The result is empty if the
/// search would cost more than the nominations, or is stopped. If spread pods have to wait for
/// their nomination, the result is these pods if each domain has them all on one node, and empty
/// otherwise: the fewer pods wait beside them, the fewer take their room. Affinity leaders are
/// never in the result.
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
        let mut nominated = self.nominated(plan);
        let mut free = FxHashSet::default();
        let mut smallest_first = self.by_size(plan);
        smallest_first.retain(|pod| !leads(pod));
        let Some(least) = self.left_over(plan, &nominated, usize::MAX) else {
            return free;
        };
        for eighths in EIGHTHS {
            let spared = smallest_first.len() * (8 - eighths) / 8;
            smallest_first[..spared]
                .iter()
                .for_each(|pod| _ = nominated.remove(pod));
            if self.left_over(plan, &nominated, least).is_none() {
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

    /// Number of unplaced pods over all scenarios, unless it exceeds `most`.
    fn left_over(
        &self,
        plan: &Plan,
        nominated: &FxHashMap<PodIx, u32>,
        most: usize,
    ) -> Option<usize> {
        (0..COURSES).try_fold(0, |sum, seed| {
            let sum = sum
                + self
                    .run_simulation(plan, nominated.clone(), seed)
                    .unplaced
                    .len();
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
