//! Scorers that are bad in one way each.

use std::cell::RefCell;
use std::collections::BTreeMap;

use longshore_policy::{Case, CaseRow};
use longshore_prove::{NoCosts, ProveOptions, Scorer, ScorerProperty, prove_scorer};

/// A scorer made of a function over a case; the number counts questions, which a good one ignores.
struct Double<F>(F, u64);

impl<F: Fn(&Case, u64) -> Result<Vec<f64>, String>> Scorer for Double<F> {
    fn fresh(&mut self) {
        self.1 = 0;
    }

    fn costs(&mut self, case: &Case) -> Result<Vec<f64>, NoCosts> {
        self.1 += 1;
        (self.0)(case, self.1).map_err(|why| NoCosts {
            property: ScorerProperty::Answers,
            why,
        })
    }
}

fn before(row: &CaseRow) -> f64 {
    row.cost_before.unwrap_or(row.price)
}

/// One cost for each row.
fn each(case: &Case, cost: impl Fn(&CaseRow) -> f64) -> Result<Vec<f64>, String> {
    Ok(case.offerings.iter().map(cost).collect())
}

/// What is said of a scorer.
fn found(scorer: impl Fn(&Case, u64) -> Result<Vec<f64>, String> + Sync) -> Option<ScorerProperty> {
    let options = ProveOptions {
        cases: 20_000,
        monotone: true,
        ..ProveOptions::default()
    };
    let proof = prove_scorer(|| Double(&scorer, 0), &options);
    let found = proof.counterexample?;
    assert!(found.size <= 5, "{found:?}");
    assert!(
        !found.why.is_empty() && found.why != "it is so only now and then",
        "{found:?}"
    );
    // It is a case, and one that can be kept.
    assert_eq!(Case::read(&found.text).unwrap().offerings.len(), found.size);
    Some(found.property)
}

#[test]
fn a_good_one_is_not_blamed() {
    let surcharge = |row: &CaseRow| {
        before(row)
            * if row.capacity_type == "spot" {
                1.15
            } else {
                1.0
            }
    };
    assert_eq!(found(|case, _| each(case, surcharge)), None);
}

#[test]
fn it_divides_by_a_price_that_is_nothing() {
    let per_price = |row: &CaseRow| before(row) + row.price / row.price;
    assert_eq!(
        found(|case, _| each(case, per_price)),
        Some(ScorerProperty::Bounded)
    );
}

#[test]
fn it_takes_a_fee_off_until_less_than_nothing_is_left() {
    let cheaper = |row: &CaseRow| before(row) - 0.05;
    assert_eq!(
        found(|case, _| each(case, cheaper)),
        Some(ScorerProperty::Bounded)
    );
}

#[test]
fn it_multiplies_beyond_all_bounds() {
    let dear = |row: &CaseRow| before(row) * 1e5;
    assert_eq!(
        found(|case, _| each(case, dear)),
        Some(ScorerProperty::Bounded)
    );
}

#[test]
fn it_gives_one_cost_too_few() {
    let few = |case: &Case, _| {
        let mut costs = each(case, before)?;
        costs.truncate(3);
        Ok(costs)
    };
    assert_eq!(found(few), Some(ScorerProperty::Bounded));
}

#[test]
fn it_excludes_all_that_is_spot() {
    let on_demand = |row: &CaseRow| match row.capacity_type.as_str() {
        "spot" => f64::INFINITY,
        _ => before(row),
    };
    assert_eq!(
        found(|case, _| each(case, on_demand)),
        Some(ScorerProperty::NeverStarves)
    );
}

#[test]
fn it_excludes_what_is_dearer_than_a_dollar() {
    let cheap = |row: &CaseRow| {
        if row.price > 1.0 {
            f64::INFINITY
        } else {
            before(row)
        }
    };
    assert_eq!(
        found(|case, _| each(case, cheap)),
        Some(ScorerProperty::NeverStarves)
    );
}

#[test]
fn it_gives_gpus_away() {
    let free = |row: &CaseRow| match row.resources.is_empty() {
        true => before(row),
        false => 0.0,
    };
    assert_eq!(
        found(|case, _| each(case, free)),
        Some(ScorerProperty::MaxDiscount)
    );
}

#[test]
fn it_takes_too_much_off_where_the_price_is_high() {
    let bulk = |row: &CaseRow| {
        if row.price > 30.0 {
            row.price * 0.01
        } else {
            before(row)
        }
    };
    assert_eq!(
        found(|case, _| each(case, bulk)),
        Some(ScorerProperty::MaxDiscount)
    );
}

#[test]
fn it_counts_how_often_it_is_asked() {
    let counting = |case: &Case, asked: u64| each(case, |row| before(row) + asked as f64 * 1e-6);
    assert_eq!(found(counting), Some(ScorerProperty::Alike));
}

#[test]
fn it_keeps_the_first_prices_that_it_saw() {
    // As a policy that keeps what it derives by the number of rows, in place of the edition.
    thread_local! {
        static KEPT: RefCell<BTreeMap<usize, Vec<f64>>> = RefCell::default();
    }
    let stale = |case: &Case, asked: u64| {
        let mut kept = KEPT.take();
        if asked == 1 {
            kept.clear();
        }
        let costs = kept.entry(case.offerings.len());
        let costs = costs
            .or_insert_with(|| case.offerings.iter().map(before).collect())
            .clone();
        KEPT.set(kept);
        Ok(costs)
    };
    assert!(matches!(
        found(stale),
        Some(ScorerProperty::Alike | ScorerProperty::OrderFree)
    ));
}

#[test]
fn it_prefers_the_first_row() {
    let first = |case: &Case, _| {
        let mut costs = each(case, before)?;
        costs.first_mut().into_iter().for_each(|cost| *cost *= 0.9);
        Ok(costs)
    };
    assert_eq!(found(first), Some(ScorerProperty::OrderFree));
}

#[test]
fn it_adds_up_what_came_before_in_the_rows() {
    let running = |case: &Case, _| {
        let mut sum = 0.0;
        each(case, |row| before(row) + row.cpu * 1e-4).map(|costs| {
            costs
                .into_iter()
                .map(|cost| {
                    sum += 0.001;
                    cost + sum
                })
                .collect()
        })
    };
    assert_eq!(found(running), Some(ScorerProperty::OrderFree));
}

#[test]
fn it_likes_what_is_dear() {
    let dear = |row: &CaseRow| {
        if row.price > 5.0 {
            before(row).min(5.0)
        } else {
            before(row) * 1.2
        }
    };
    assert_eq!(
        found(|case, _| each(case, dear)),
        Some(ScorerProperty::Monotone)
    );
}

#[test]
fn it_does_not_know_reserved_capacity() {
    let known = |case: &Case, _| {
        let unknown = case
            .offerings
            .iter()
            .find(|row| row.capacity_type == "reserved");
        match unknown {
            Some(row) => Err(format!("KeyError: {}", row.capacity_type)),
            None => each(case, before),
        }
    };
    assert_eq!(found(known), Some(ScorerProperty::Answers));
}
