//! Pods that are left out of a plan so that the others get their nodes: those with which the plan
//! breaks a rule, and those that kube-scheduler would not bind.
//!
//! Both are defects of the planner. One such pod must cost a sentence and not everybody's nodes. So
//! the pods that the check blames are planned without, a few times, and at the end all pods with a
//! rule of the broken kind.

use rustc_hash::{FxHashMap, FxHashSet};

use super::simulation_affordable;
use crate::check::{Invariant, Violation};
use crate::ids::PodIx;
use crate::kube_scheduler::Simulator;
use crate::model::PodShape;
use crate::plan::{Effort, Plan};
use crate::reasons::Unfit;
use crate::snapshot::{PendingPod, Snapshot};

/// How often the pods that a check blames are left out before all pods with such rules are.
const MAX_BLAMED: u32 = 3;
/// How often pods are left out that kube-scheduler would not bind.
const MAX_UNREALISED: u32 = 2;
/// Runs of the model of kube-scheduler in which a pod finds no node, before no node is bought for it.
pub const MAX_RUNS: u32 = 10;

/// Pods to leave out, with reasons.
pub type Without = FxHashMap<PodIx, Unfit>;

/// What was tried so far.
#[derive(Default)]
pub struct Tries {
    blamed: u32,
    unrealised: u32,
}

impl Tries {
    /// The pods to leave out of a plan that breaks rules; nothing if leaving out does not help.
    pub fn broken(&mut self, snapshot: &Snapshot, violations: &[Violation]) -> Without {
        self.blamed += 1;
        let mut without = Without::default();
        if self.blamed > MAX_BLAMED + 1 {
            return without;
        }
        let plannable: FxHashSet<PodIx> = plannable(snapshot).map(|pending| pending.pod).collect();
        for violation in violations {
            let mut blame = |pod: PodIx| {
                let reason = || Unfit::BreaksPlan {
                    rule: violation.invariant,
                    detail: violation.detail.as_str().into(),
                };
                if plannable.contains(&pod) {
                    without.entry(pod).or_insert_with(reason);
                }
            };
            violation.pods.iter().copied().for_each(&mut blame);
            if self.blamed > MAX_BLAMED {
                let like = plannable_of(snapshot, violation.invariant);
                like.for_each(|pending| blame(pending.pod));
            }
        }
        without
    }

    /// The pods that a plan buys nodes for and that the model of kube-scheduler binds in none of
    /// [`MAX_RUNS`] runs, because of rules about other pods: room may come, and labels of new nodes are
    /// not all known. Where such rules about other pods have no part,
    /// or where the runs take longer than the effort allows, it is not asked.
    pub fn unrealised(&mut self, snapshot: &Snapshot, plan: &Plan, effort: Effort) -> Without {
        let none = Without::default();
        let has_rules = plannable(snapshot).any(|pending| has_rules(&pending.shape))
            || !snapshot.running.anti_affine.is_empty();
        let affordable = simulation_affordable(snapshot, plan.claims.len(), effort);
        if !has_rules || !affordable || self.unrealised >= MAX_UNREALISED {
            return none;
        }
        let simulator = Simulator::new(snapshot);
        let mut never: FxHashSet<PodIx> = plan
            .claims
            .iter()
            .flat_map(|claim| &claim.pods)
            .copied()
            .collect();
        for seed in 0..u64::from(MAX_RUNS) {
            let result = simulator.simulate_nominated(plan, seed);
            if simulator.is_stopped() {
                return none;
            }
            let why = result.feasible_if_larger.iter().zip(&result.suited);
            let refused = result.unplaced.iter().zip(why);
            let refused: FxHashSet<PodIx> = refused
                .filter(|(_, (nodes, suited))| nodes.is_empty() && **suited)
                .map(|(&pod, _)| pod)
                .collect();
            never.retain(|pod| refused.contains(pod));
            if never.is_empty() {
                return none;
            }
        }
        self.unrealised += 1;
        let with_reason = |pod| (pod, Unfit::Unrealised { runs: MAX_RUNS });
        never.into_iter().map(with_reason).collect()
    }
}

/// Pods that can be planned for.
fn plannable(snapshot: &Snapshot) -> impl Iterator<Item = &PendingPod> {
    let all = snapshot.pending.iter();
    all.filter(|pending| pending.unfit.is_none())
}

/// Those with a rule of the kind that an invariant is about; all of them where every pod has.
fn plannable_of(snapshot: &Snapshot, rule: Invariant) -> impl Iterator<Item = &PendingPod> {
    plannable(snapshot).filter(move |pending| has_rule(pending, rule))
}

fn has_rule(pending: &PendingPod, rule: Invariant) -> bool {
    let shape = &pending.shape;
    match rule {
        Invariant::Spread => !shape.spread.is_empty(),
        Invariant::Affinity => !shape.affinity.is_empty(),
        Invariant::AntiAffinity => !shape.anti_affinity.is_empty(),
        Invariant::Ports => !shape.ports.is_empty(),
        Invariant::Volumes => {
            !pending.volumes.is_empty()
                || !pending.volume_alternatives.is_empty()
                || pending.shared.is_some()
                || !pending.to_bind.is_empty()
        }
        Invariant::Labels => !shape.node_selector.is_empty() || !shape.required.is_empty(),
        Invariant::Taints => !shape.tolerations.is_empty(),
        // Sums are nobody's, and the others are of pools and types, which the blamed pods stand for.
        _ => false,
    }
}

fn has_rules(shape: &PodShape) -> bool {
    !shape.spread.is_empty() || !shape.affinity.is_empty() || !shape.anti_affinity.is_empty()
}

/// The snapshot in which some pods cannot be planned for.
pub fn without(snapshot: &Snapshot, pods: &Without) -> Snapshot {
    let mut fewer = snapshot.clone();
    for pending in &mut fewer.pending {
        if let Some(unfit) = pods.get(&pending.pod) {
            pending.unfit = Some(unfit.clone());
        }
    }
    fewer
}
