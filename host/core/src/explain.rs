//! Why not: who refuses one pod of a snapshot, NodePool by NodePool and node by node.

use crate::plan::{Effort, PodIx, Refusal, Target};
use crate::policy::Policies;
use crate::schedule::domains::Counted;
use crate::schedule::refusal;
use crate::snapshot::Snapshot;
use crate::stop::Stop;

/// The first rule of each NodePool and each node that refuses `pod`, after first-fit-decreasing has placed what it
/// could. NodePools are asked only about a pod that it left over: one that took the pod has nothing to refuse. Nodes
/// that would take the pod are left out; a pod that is not pending is refused by nobody.
pub fn refusals(snapshot: &Snapshot, policies: &dyn Policies, pod: PodIx) -> Vec<Refusal> {
    let Some(pending) = snapshot.pending.iter().find(|pending| pending.pod == pod) else { return Vec::new() };
    if let Some(unfit) = &pending.unfit {
        return vec![Refusal { target: Target::Pod, unfit: unfit.clone() }];
    }
    let counted = Counted::default();
    let (mut problem, floor) = crate::planner::floor(snapshot, policies, Effort::Normal, &counted, Stop::never());
    let place = problem.items.iter().enumerate().find_map(|(item, it)| {
        let at = it.pods.iter().position(|&other| other == pod)?;
        Some((item, at))
    });
    let Some((item, at)) = place else { return Vec::new() };
    let left_over = floor.placed.get(item).is_none_or(|&placed| at >= placed as usize);
    let mut all = if left_over { refusal::by_pools(&mut problem, &floor, item) } else { Vec::new() };
    all.extend(refusal::by_nodes(&problem, &floor, item));
    all
}
