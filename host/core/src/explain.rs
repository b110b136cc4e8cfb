//! Explains which NodePools and nodes refuse one pod of a snapshot, and why.

use crate::plan::{Effort, Plan, PodIx, Refusal, Target, Unfit};
use crate::planner::{self, MAX_RETRIES, Once};
use crate::policy::Policies;
use crate::schedule::bought_domains::bought_by_others;
use crate::schedule::domains::Counted;
use crate::schedule::first_fit::{CompiledCluster, Packing};
use crate::schedule::refusal;
use crate::snapshot::Snapshot;
use crate::stop::Stop;

/// The first rule of each NodePool and each node that refuses `pod`, after first-fit-decreasing has
/// placed what it could. NodePools are evaluated only for unplaced pods, because a NodePool that
/// took the pod refuses nothing. Nodes that would take the pod are left out. A pod that is not
/// pending has no refusals. Domains count in which `plan` buys a node. If `stop` is raised, pods
/// that others left no place get no second choice.
pub fn refusals(
    snapshot: &Snapshot,
    policies: &dyn Policies,
    plan: &Plan,
    pod: PodIx,
    stop: Stop<'_>,
) -> Vec<Refusal> {
    let Some(pending) = snapshot.pending.iter().find(|pending| pending.pod == pod) else {
        return Vec::new();
    };
    if let Some(unfit) = &pending.unfit {
        return vec![Refusal {
            target: Target::Pod,
            unfit: unfit.clone(),
        }];
    }
    let left = plan.unplaced.iter().find(|left| left.pod == pod);
    let is_left_out = |refusal: &&Refusal| {
        let why = &refusal.unfit;
        matches!(why, Unfit::BreaksPlan { .. } | Unfit::Unrealised { .. })
    };
    if let Some(why) = left.and_then(|left| left.refusals.iter().find(is_left_out)) {
        return vec![why.clone()];
    }
    let (mut compiled, packing) = first_fit(snapshot, &Once::new(policies), plan, stop);
    let place = compiled
        .items
        .iter()
        .enumerate()
        .find_map(|(index, pod_group)| {
            let at = pod_group.pods.iter().position(|&other| other == pod)?;
            Some((index, at))
        });
    let Some((index, at)) = place else {
        return Vec::new();
    };
    let left_over = packing
        .placed
        .get(index)
        .is_none_or(|&placed| at >= placed as usize);
    let mut all = if left_over {
        refusal::by_pools(&mut compiled, &packing, index)
    } else {
        Vec::new()
    };
    all.extend(refusal::by_nodes(&compiled, &packing, index));
    all
}

/// First-fit-decreasing with the counted domains of `plan`.
fn first_fit<'a>(
    snapshot: &'a Snapshot,
    policies: &dyn Policies,
    plan: &Plan,
    stop: Stop<'a>,
) -> (CompiledCluster<'a>, Packing) {
    let mut counted = Counted::default();
    let mut attempts = 0;
    loop {
        let (compiled, packing) =
            planner::initial_solution(snapshot, policies, Effort::Normal, &counted, stop);
        let overlooked = bought_by_others(&compiled, plan, &counted);
        if overlooked.is_empty() {
            return (compiled, packing);
        }
        counted.add(overlooked, attempts >= MAX_RETRIES);
        attempts += 1;
    }
}
