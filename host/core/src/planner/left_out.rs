//! Pods that are left out of a plan so that the others get their nodes: those with which the plan
//! breaks a rule, and those that kube-scheduler would not bind.
//!
//! Both are defects of the planner. One such pod must cost a sentence and not everybody's nodes. So
//! the pods that the check blames are planned without, a few times, and at the end more and more of
//! those that they have something to do with. Where the planner panics, the shapes of pods are halved
//! until those are found that it panics for.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rustc_hash::{FxHashMap, FxHashSet};

use super::Rejected;
use super::simulation_affordable;
use crate::check::{Invariant, Violation};
use crate::ids::PodIx;
use crate::kube_scheduler::Simulator;
use crate::model::{PodShape, ShapeId};
use crate::plan::{Effort, Plan, PlannedClaim};
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
    pub fn broken(&mut self, snapshot: &Snapshot, rejected: &Rejected) -> Without {
        let plannable: FxHashSet<PodIx> = plannable(snapshot).map(|pending| pending.pod).collect();
        loop {
            let blame = match self.blamed {
                0..MAX_BLAMED => Blame::Named,
                MAX_BLAMED => Blame::Rule,
                of if of == MAX_BLAMED + 1 => Blame::Claims,
                of if of == MAX_BLAMED + 2 => Blame::Pools,
                of if of == MAX_BLAMED + 3 => Blame::Purchases,
                _ => return Without::default(),
            };
            self.blamed += 1;
            let mut without = Without::default();
            for violation in &rejected.violations {
                let pods = blame.pods(snapshot, &rejected.plan, violation);
                for pod in pods.into_iter().filter(|pod| plannable.contains(pod)) {
                    let reason = || Unfit::BreaksPlan {
                        rule: violation.invariant,
                        detail: violation.detail.as_str().into(),
                    };
                    without.entry(pod).or_insert_with(reason);
                }
            }
            if !without.is_empty() {
                return without;
            }
        }
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

/// The pods that are left out for a violation. Each step leaves out those of the steps before it, too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Blame {
    /// The pods that it names.
    Named,
    /// All pods with such a rule.
    Rule,
    /// The pods of the NodeClaims that it names.
    Claims,
    /// The pods of all NodeClaims of their NodePools.
    Pools,
    /// All pods that something is bought for.
    Purchases,
}

impl Blame {
    fn pods(self, snapshot: &Snapshot, plan: &Plan, violation: &Violation) -> Vec<PodIx> {
        let mut pods = violation.pods.clone();
        if self >= Blame::Rule {
            let like = plannable_of(snapshot, violation.invariant);
            pods.extend(like.map(|pending| pending.pod));
        }
        let named = violation.claims.iter();
        let named: Vec<&PlannedClaim> = named.filter_map(|&at| plan.claims.get(at)).collect();
        let is_meant = |claim: &&PlannedClaim| match self {
            Blame::Named | Blame::Rule => false,
            Blame::Claims => named.iter().any(|of| std::ptr::eq(*of, *claim)),
            Blame::Pools => named.iter().any(|of| of.pool == claim.pool),
            Blame::Purchases => true,
        };
        let meant = plan.claims.iter().filter(is_meant);
        pods.extend(meant.flat_map(|claim| &claim.pods));
        pods
    }
}

/// Plans; nothing if the planner panics. The panic is logged where panics are.
pub fn unless_it_panics<T>(plan: impl FnOnce() -> T) -> Option<T> {
    // Nothing that it has begun to change is used again: a plan is made of a snapshot alone.
    catch_unwind(AssertUnwindSafe(plan)).ok()
}

/// The pods to leave out so that the planner does not panic, found by halves; nothing if it panics
/// without any pod.
pub fn panicking(snapshot: &Snapshot, panics: &mut dyn FnMut(&Snapshot) -> bool) -> Without {
    let shape = |pending: &PendingPod| snapshot.world.pods[pending.pod.0 as usize].shape;
    let mut suspects: Vec<ShapeId> = plannable(snapshot).map(shape).collect();
    suspects.sort_unstable();
    suspects.dedup();
    let leave_out = |shapes: &[ShapeId]| -> Without {
        let reason = |pending: &PendingPod| {
            let reason = Unfit::BreaksPlan {
                rule: Invariant::Completion,
                detail: "the planner panics for pods like this one".into(),
            };
            (pending.pod, reason)
        };
        let meant = plannable(snapshot).filter(|of| shapes.binary_search(&shape(of)).is_ok());
        meant.map(reason).collect()
    };
    if panics(&without(snapshot, &leave_out(&suspects))) {
        return Without::default();
    }
    // It panics for these, and not without them.
    while suspects.len() > 1 {
        let second = suspects.split_off(suspects.len() / 2);
        if !panics(&without(snapshot, &leave_out(&suspects))) {
            continue;
        }
        if !panics(&without(snapshot, &leave_out(&second))) {
            suspects = second;
            continue;
        }
        // Each half has some.
        suspects.extend(second);
        break;
    }
    leave_out(&suspects)
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
