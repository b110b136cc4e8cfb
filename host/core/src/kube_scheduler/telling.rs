//! Whom of a plan kube-scheduler need not be told of.
//!
//! Telling is not free: each pod is a write to the API server, for each of which kube-scheduler looks at every pod that
//! waits. Where pods are small and go anywhere, they find room once that of the large ones is kept.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Simulator;
use super::shapes::Queued;
use crate::model::ResourceId;
use crate::plan::{Plan, PodIx};
use crate::snapshot::Snapshot;

/// Eighths of the pods that are told, the largest of them, as they are tried.
const EIGHTHS: [usize; 3] = [7, 6, 4];
/// Courses of events that each is tried in. In half of them nodes come up one by one: nodes that open within half a
/// second of each other are enough for pods to take places that are not kept.
const COURSES: u64 = 6;
/// Of fewer than this many pods all are told.
const FEW: usize = 64;
/// Pods times nodes up to which trying takes some ten milliseconds; above, all are told.
const MOST_PAIRS: usize = 200_000;

/// Pods that nodes are bought for and that kube-scheduler need not be told of: the smallest eighths of them without which
/// no more pods are left over than if it were told of all. Nobody where asking costs more than telling, and nobody where
/// some pods have to wait for their turn to be told: the fewer do besides them, the fewer take their places.
pub fn need_no_telling(snapshot: &Snapshot, plan: &Plan) -> FxHashSet<PodIx> {
    let pods: usize = plan.claims.iter().map(|claim| claim.pods.len()).sum();
    let pairs = snapshot.pending.len() * (snapshot.nodes.len() + plan.claims.len());
    if pods < FEW || pairs > MOST_PAIRS {
        return FxHashSet::default();
    }
    let simulator = Simulator::new(snapshot);
    if simulator.takes_turns(plan) { FxHashSet::default() } else { simulator.need_no_telling(plan) }
}

impl Simulator<'_> {
    fn need_no_telling(&self, plan: &Plan) -> FxHashSet<PodIx> {
        let mut told = self.told(plan);
        let mut free = FxHashSet::default();
        let smallest_first = self.by_size(plan);
        let Some(least) = self.left_over(plan, &told, usize::MAX) else { return free };
        for eighths in EIGHTHS {
            let spared = smallest_first.len() * (8 - eighths) / 8;
            smallest_first[..spared].iter().for_each(|pod| _ = told.remove(pod));
            if self.left_over(plan, &told, least).is_none() {
                break;
            }
            free.extend(&smallest_first[..spared]);
        }
        free
    }

    /// Whether several pods of a service that must spread are to come to one node.
    fn takes_turns(&self, plan: &Plan) -> bool {
        let spreads = |queued: &&Queued| {
            let shape = self.compiled.classes[queued.class as usize].shape;
            !self.compiled.shapes[shape as usize].hard.is_empty()
        };
        let service: FxHashMap<PodIx, u32> =
            self.compiled.queue.iter().filter(spreads).map(|queued| (queued.pod, queued.class)).collect();
        plan.claims.iter().any(|claim| {
            let mut here = FxHashSet::default();
            claim.pods.iter().filter_map(|pod| service.get(pod)).any(|class| !here.insert(class))
        })
    }

    /// How many pods are left over in all courses, unless they are more than `most`.
    fn left_over(&self, plan: &Plan, told: &FxHashMap<PodIx, u32>, most: usize) -> Option<usize> {
        (0..COURSES).try_fold(0, |sum, seed| {
            let sum = sum + self.play(plan, told.clone(), seed).left.len();
            (sum <= most).then_some(sum)
        })
    }

    /// Pods that nodes are bought for, by the share that each asks for of what all of them do, of CPU and of memory added
    /// up.
    fn by_size(&self, plan: &Plan) -> Vec<PodIx> {
        let world = &self.snapshot.world;
        let mut pods: Vec<PodIx> = plan.claims.iter().flat_map(|claim| claim.pods.iter().copied()).collect();
        let asks =
            |pod: PodIx, resource| world.shapes.get(world.pods[pod.0 as usize].shape).requests.get(resource) as f64;
        let both = [ResourceId::Cpu, ResourceId::Memory];
        let sums = both.map(|resource| pods.iter().map(|&pod| asks(pod, resource)).sum::<f64>().max(1.0));
        let size = |pod| both.iter().zip(sums).map(|(&resource, sum)| asks(pod, resource) / sum).sum::<f64>();
        pods.sort_by(|&a, &b| size(a).total_cmp(&size(b)).then(a.cmp(&b)));
        pods
    }
}
