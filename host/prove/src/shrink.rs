//! Makes a counterexample small: whatever can be left out is, as long as it stays one.

use longshore_policy::{Case, CasePool};

/// Questions that are a step smaller than one.
pub fn smaller(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut Case)| {
        let mut other = case.clone();
        change(&mut other);
        if other != *case {
            all.push(other);
        }
    };
    let rows = case.offerings.len();
    if rows > 3 {
        with(&|case| case.offerings.truncate(rows / 2));
        with(&|case| drop(case.offerings.drain(..rows / 2)));
    }
    for row in 0..rows {
        with(&|case| drop(case.offerings.remove(row)));
    }
    with(&|case| {
        case.signals
            .values_mut()
            .for_each(std::collections::BTreeMap::clear)
    });
    with(&|case| case.node_pool = CasePool::default());
    with(&|case| case.now = 0.0);
    for row in 0..rows {
        with(&|case| case.offerings[row].cost_before = None);
        with(&|case| case.offerings[row].available = true);
        with(&|case| case.offerings[row].labels.clear());
        with(&|case| case.offerings[row].resources.clear());
        with(&|case| {
            let row = &mut case.offerings[row];
            (row.reservation_count, row.reservation) = (0, String::new());
        });
        with(&|case| case.offerings[row].architecture.clear());
        with(&|case| {
            let row = &mut case.offerings[row];
            (row.cpu, row.memory_gib) = (0.0, 0.0);
        });
        for price in [1.0, case.offerings[row].price.round(), 10.0] {
            // Towards 1, so that it ends.
            let is_simpler = case.offerings[row].price != 1.0
                && (price == 1.0 || case.offerings[row].price.fract() != 0.0);
            if is_simpler {
                with(&|case| case.offerings[row].price = price);
            }
        }
    }
    all
}

/// The smallest question found that is still bad in the same way, after so many steps at most.
pub fn smallest<Q>(
    mut question: Q,
    steps: usize,
    smaller: fn(&Q) -> Vec<Q>,
    mut is_bad: impl FnMut(&Q) -> bool,
) -> Q {
    // Each step leaves something out, so there is an end; this is for a policy that answers by chance.
    for _ in 0..steps {
        match smaller(&question).into_iter().find(|other| is_bad(other)) {
            Some(other) => question = other,
            None => break,
        }
    }
    question
}
