//! Elementary questions of scheduling: is a taint tolerated, do labels satisfy requirements.

use crate::model::{
    Labels, Op, PodShape, Requirement, Symbol, Symbols, Taint, TaintEffect, Toleration,
};

/// Whether one of the tolerations covers the taint.
pub fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|t| {
        t.effect.is_none_or(|e| e == taint.effect)
            && match t.key {
                None => t.exists,
                Some(key) => key == taint.key && (t.exists || t.value == taint.value),
            }
    })
}

/// The first taint that keeps the pod away. `PreferNoSchedule` excludes no pod where `prefer` is
/// false.
pub fn untolerated<'a>(
    tolerations: &[Toleration],
    taints: &'a [Taint],
    prefer: bool,
) -> Option<&'a Taint> {
    taints.iter().find(|taint| {
        (prefer || taint.effect != TaintEffect::PreferNoSchedule) && !tolerates(tolerations, taint)
    })
}

/// Whether a node with these labels satisfies one requirement.
pub fn satisfies(labels: &Labels, requirement: &Requirement, names: &Symbols) -> bool {
    let value = labels.get(requirement.key);
    let number = |v: Symbol| names.text(v).parse::<i64>().ok();
    match &requirement.op {
        Op::In(values) => value.is_some_and(|v| values.contains(&v)),
        Op::NotIn(values) => value.is_none_or(|v| !values.contains(&v)),
        Op::Exists => value.is_some(),
        Op::DoesNotExist => value.is_none(),
        Op::Gte(lo) => value.and_then(number).is_some_and(|n| n >= *lo),
        Op::Lte(hi) => value.and_then(number).is_some_and(|n| n <= *hi),
    }
}

/// Whether a node with these labels satisfies the pod's node selector and one term of its required
/// node affinity. An empty term selects nothing.
pub fn admits(labels: &Labels, shape: &PodShape, names: &Symbols) -> bool {
    let all = |rs: &[Requirement]| rs.iter().all(|r| satisfies(labels, r, names));
    all(&shape.node_selector)
        && (shape.required.is_empty() || shape.required.iter().any(|t| !t.is_empty() && all(t)))
}
