//! Whether pods may be evicted, by their annotations and PodDisruptionBudgets.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Stays;
use crate::ids::PodIx;
use crate::model::pod::DoNotDisrupt;
use crate::model::{ClusterObjects, Pod, SelectorOp, ShapeId, Symbol};

/// Whether single pods may be evicted.
pub(in crate::disrupt) struct PodRules(PodBudgets);

impl PodRules {
    pub(in crate::disrupt) fn new(world: &ClusterObjects) -> Self {
        PodRules(PodBudgets::new(world))
    }

    /// Why a pod may not be evicted now.
    pub(in crate::disrupt) fn refuses(&self, world: &ClusterObjects, ix: PodIx) -> Option<Stays> {
        let pod = &world.pods[ix.0 as usize];
        match pod.do_not_disrupt {
            DoNotDisrupt::No => {}
            DoNotDisrupt::Always => return Some(Stays::PodDoNotDisrupt(ix, None)),
            DoNotDisrupt::For(seconds) => {
                let until = pod
                    .started
                    .map(|started| started.saturating_add(seconds.into()));
                if until.is_none_or(|until| world.now < until) {
                    return Some(Stays::PodDoNotDisrupt(ix, until));
                }
            }
        }
        if pod.terminal || pod.is_static || pod.waits_to_start || tolerates_disruption(world, pod) {
            return None;
        }
        match self.0.of(world, pod.shape).as_slice() {
            [] => None,
            [one] if world.budgets[*one].allowed > 0 => None,
            [one] if world.budgets[*one].evicts_unhealthy && pod.unready => None,
            [one] => Some(Stays::PodBudget(ix, *one)),
            _ => Some(Stays::SeveralPodBudgets(ix)),
        }
    }

    /// The fewest disruptions that a PodDisruptionBudget of the pod allows; nothing without one.
    pub(in crate::disrupt) fn allowed(&self, world: &ClusterObjects, pod: &Pod) -> Option<u32> {
        let budgets = self.0.of(world, pod.shape);
        let allowed = budgets
            .iter()
            .map(|&at| world.budgets[at].allowed.max(0) as u32);
        allowed.min()
    }
}

/// Such a pod is not evicted: it ends with its node.
fn tolerates_disruption(world: &ClusterObjects, pod: &Pod) -> bool {
    use crate::model::TaintEffect::NoSchedule;
    let text = |symbol: Symbol| world.names.text(symbol);
    let tolerations = &world.shapes.get(pod.shape).tolerations;
    tolerations.iter().any(|toleration| {
        let key = toleration.key.map_or(toleration.exists, |key| {
            text(key) == "karpenter.sh/disrupted"
        });
        let value = toleration.exists || text(toleration.value).is_empty();
        key && value && toleration.effect.is_none_or(|effect| effect == NoSchedule)
    })
}

/// Which PodDisruptionBudgets select a pod.
struct PodBudgets {
    /// By a label that they ask for.
    by_label: FxHashMap<(Symbol, Symbol), Vec<usize>>,
    /// Those that ask for no label by value.
    others: Vec<usize>,
    pub(super) known: std::cell::RefCell<FxHashMap<ShapeId, Vec<usize>>>,
}

impl PodBudgets {
    pub(super) fn new(world: &ClusterObjects) -> Self {
        let mut all = PodBudgets {
            by_label: FxHashMap::default(),
            others: Vec::new(),
            known: std::cell::RefCell::default(),
        };
        for (at, budget) in world.budgets.iter().enumerate() {
            let Some(rules) = &budget.selector.0 else {
                continue;
            };
            let named = rules.iter().find_map(|rule| match &rule.op {
                SelectorOp::In(values) => Some((rule.key, values)),
                _ => None,
            });
            match named {
                Some((key, values)) => {
                    values
                        .iter()
                        .for_each(|&v| all.by_label.entry((key, v)).or_default().push(at));
                }
                None => all.others.push(at),
            }
        }
        all
    }

    pub(super) fn of(&self, world: &ClusterObjects, shape: ShapeId) -> Vec<usize> {
        if let Some(known) = self.known.borrow().get(&shape) {
            return known.clone();
        }
        let pod = world.shapes.get(shape);
        let by_label = pod
            .labels
            .iter()
            .filter_map(|label| self.by_label.get(&label))
            .flatten();
        let may: FxHashSet<usize> = by_label.chain(&self.others).copied().collect();
        let selects = |at: &usize| {
            let budget = &world.budgets[*at];
            budget.namespace == pod.namespace && budget.selector.matches(&pod.labels)
        };
        let mut found: Vec<usize> = may.into_iter().filter(selects).collect();
        found.sort_unstable();
        self.known.borrow_mut().insert(shape, found.clone());
        found
    }
}
