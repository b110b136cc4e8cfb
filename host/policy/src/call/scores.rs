//! What a scorer answers: whether it keeps the contract, its bounds, and what the operator's terms
//! leave of it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use longshore_core::model::OfferingId;
use longshore_core::policy::{CommitmentPool, Draw, Scores};
use wasmtime::component::{ComponentType, Lift};

use super::answer::{CallError, CostFault, MAX_COST, number};
use crate::columns::Columns;
use crate::guest_text::{MAX_ERROR_CHARS, cut};
use crate::kept::RawScores;
use crate::score_request::ScoreRequest;
use crate::terms::{Exclusions, Terms};

/// What costs less, in USD per hour, costs nothing: a millionth of the cheapest.
const LEAST_COST: f64 = 1e-9;
/// What one node may take of a commitment, in its own unit.
const AMOUNTS: RangeInclusive<f64> = 1e-6..=1e9;
/// The most that may be left of one.
const MAX_REMAINING: f64 = 1e12;

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct RawPool {
    name: String,
    remaining: f64,
    offerings: Vec<u32>,
    amounts: Vec<f64>,
    costs: Vec<f64>,
}

/// What the operator's terms change in costs.
#[derive(Clone, Copy)]
pub(crate) struct Guard {
    /// The least share of the list price that an offering costs.
    least_share: f64,
    exclusions: Exclusions,
}

/// What the operator's terms leave of an answer. What is discouraged costs as much as before.
pub(crate) struct Guarded {
    pub scores: Scores,
    /// Rows that it excludes, where that discourages only.
    pub discouraged: Arc<[u32]>,
    /// Costs that were too low.
    pub raised: Option<Raised>,
}

/// Costs that were too low.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Raised {
    /// Number of offerings whose cost was raised.
    pub offerings: u64,
    /// The first one: its row, what it is, and what it was said to cost.
    pub row: usize,
    pub instance_type: String,
    pub cost: f64,
    /// The cost that it gets instead, USD per hour.
    pub least: f64,
}

impl Guard {
    pub fn of(terms: &Terms) -> Self {
        Guard {
            least_share: terms.least_share(),
            exclusions: terms.exclusions,
        }
    }

    /// What counts of an answer, and the costs that were too low: what is too far below the list price is
    /// raised, unless it was so before. What was excluded before stays excluded. Fails where nothing is
    /// left.
    pub fn apply(&self, answer: RawScores, request: &ScoreRequest) -> Result<Guarded, CallError> {
        let RawScores { mut cost, pools } = answer;
        let before = &*request.costs;
        checked_chain(&cost, before).map_err(|fault| CallError::Costs {
            asked: "score",
            fault,
        })?;
        let discouraged = self.discourage(&mut cost, before);
        let raised = self.raise(&mut cost, &request.columns, before);
        let scores = Scores {
            policies: Vec::new(),
            cost,
            pools,
        };
        Ok(Guarded {
            scores,
            discouraged,
            raised,
        })
    }

    /// Rows that are excluded and only discouraged by that: they cost what they did.
    pub fn discourage(&self, cost: &mut Arc<[f64]>, before: &[f64]) -> Arc<[u32]> {
        if self.exclusions != Exclusions::Discourage {
            return Arc::default();
        }
        let rows = cost.iter().zip(before).enumerate();
        let excluded = rows.filter(|(_, (cost, before))| cost.is_infinite() && before.is_finite());
        let rows: Vec<u32> = excluded.map(|(row, _)| row as u32).collect();
        if !rows.is_empty() {
            let mut all = cost.to_vec();
            rows.iter()
                .for_each(|&row| all[row as usize] = before[row as usize]);
            *cost = all.into();
        }
        rows.into()
    }

    /// Costs are copied only where one changes.
    fn raise(&self, answer: &mut Arc<[f64]>, columns: &Columns, before: &[f64]) -> Option<Raised> {
        let prices = &columns.moving.prices;
        let least = |price: f64, before: f64| (price * self.least_share).min(before);
        let (mut low, mut others) = (0, 0);
        for ((cost, &price), &before) in answer.iter().zip(prices.iter()).zip(before) {
            low += u64::from((*cost < least(price, before)) & before.is_finite());
            others += u64::from(before.is_infinite() & cost.is_finite());
        }
        if low + others == 0 {
            return None;
        }
        let mut cost = answer.to_vec();
        for (cost, before) in cost.iter_mut().zip(before) {
            if before.is_infinite() {
                *cost = f64::INFINITY;
            }
        }
        let is_low = |((cost, &price), &before): ((&f64, &f64), &f64)| *cost < least(price, before);
        let row = { cost.iter().zip(prices.iter()).zip(before) }.position(is_low);
        let raised = row.map(|row| {
            let types = &columns.fixed;
            let name = (types.instance_types.get(row))
                .and_then(|&at| types.instance_type_names.get(at as usize));
            Raised {
                offerings: low,
                row,
                instance_type: name.map(|name| name.to_string()).unwrap_or_default(),
                cost: cost[row],
                least: least(prices[row], before[row]),
            }
        });
        for ((cost, &price), &before) in cost.iter_mut().zip(prices.iter()).zip(before) {
            *cost = cost.max(least(price, before));
        }
        *answer = cost.into();
        raised
    }
}

/// Checks that something is left of what the policies before have left.
fn checked_chain(cost: &[f64], before: &[f64]) -> Result<(), CostFault> {
    let mut rows = cost.iter().zip(before);
    if rows.any(|(cost, before)| cost.is_finite() & before.is_finite()) {
        return Ok(());
    }
    match before.iter().filter(|before| before.is_finite()).count() {
        0 => Ok(()),
        left if left == before.len() => Err(CostFault::AllExcluded),
        _ => Err(CostFault::RestExcluded),
    }
}

/// Checks that costs keep the contract; a zero loses its sign.
pub(super) fn checked_costs(cost: &mut [f64], rows: usize) -> Result<(), CostFault> {
    if cost.len() != rows {
        let given = cost.len();
        return Err(CostFault::Count { given, rows });
    }
    // One pass without branches; which row it was is looked for only if there is one.
    let bad = |cost: f64| !(0.0..=MAX_COST).contains(&cost) & (cost != f64::INFINITY);
    if cost.iter().fold(false, |any, &cost| any | bad(cost)) {
        let row = cost.iter().position(|&cost| bad(cost)).unwrap_or_default();
        return Err(CostFault::OutOfBounds {
            row,
            cost: number(cost[row]),
        });
    }
    cost.iter_mut().for_each(|cost| *cost = settled(*cost));
    Ok(())
}

/// A cost without a sign where it is zero, and zero where it is nearly that.
fn settled(cost: f64) -> f64 {
    if cost < LEAST_COST { 0.0 } else { cost }
}

/// Commitment pools that keep the contract.
pub(super) fn checked_pools(
    pools: Vec<RawPool>,
    rows: usize,
) -> Result<Vec<CommitmentPool>, String> {
    // The last pool that an offering draws on, from 1 on.
    let mut drawn = vec![0; if pools.is_empty() { 0 } else { rows }];
    let mut names = std::collections::BTreeSet::new();
    let mut checked = Vec::with_capacity(pools.len());
    for (nth, pool) in (1..).zip(pools) {
        let name = cut(pool.name, MAX_ERROR_CHARS);
        let wrong = |what: String| Err(format!("pool `{name}`: {what}"));
        if !names.insert(name.clone()) {
            return wrong("declared twice".to_owned());
        }
        if !(0.0..=MAX_REMAINING).contains(&pool.remaining) {
            return wrong(format!(
                "{} is left; expected 0 to {MAX_REMAINING}",
                number(pool.remaining)
            ));
        }
        let lengths = (pool.offerings.len(), pool.amounts.len(), pool.costs.len());
        if lengths.0 != lengths.1 || lengths.0 != lengths.2 {
            return wrong(format!("columns of different lengths: {lengths:?}"));
        }
        let mut draws = Vec::with_capacity(pool.offerings.len());
        for ((&offering, &amount), &cost) in
            pool.offerings.iter().zip(&pool.amounts).zip(&pool.costs)
        {
            match drawn.get_mut(offering as usize) {
                None => return wrong(format!("offering {offering} is not one of {rows}")),
                Some(last) if *last == nth => {
                    return wrong(format!("offering {offering} draws on it twice"));
                }
                Some(last) => *last = nth,
            }
            if !AMOUNTS.contains(&amount) {
                return wrong(format!(
                    "offering {offering} takes {}; expected {} to {}",
                    number(amount),
                    AMOUNTS.start(),
                    AMOUNTS.end()
                ));
            }
            if !(0.0..=MAX_COST).contains(&cost) {
                return wrong(format!(
                    "offering {offering} costs {} inside; expected 0 to {MAX_COST}",
                    number(cost)
                ));
            }
            draws.push(Draw {
                offering: OfferingId(offering),
                amount,
                cost: settled(cost),
            });
        }
        checked.push(CommitmentPool {
            owner: 0,
            name,
            remaining: pool.remaining + 0.0,
            draws,
        });
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INF: f64 = f64::INFINITY;

    #[test]
    fn costs_that_break_the_contract_are_named() {
        let problem = |cost: &[f64]| {
            checked_costs(&mut cost.to_vec(), 3)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(problem(&[1.0]), "1 costs for 3 offerings");
        assert_eq!(
            problem(&[1.0, f64::NAN, 2.0]),
            "the cost of offering 1 is NaN; expected 0 to 1000000, or infinity"
        );
        assert_eq!(
            problem(&[1.0, 2.0, -0.1]),
            "the cost of offering 2 is -0.1; expected 0 to 1000000, or infinity"
        );
        assert_eq!(
            problem(&[-INF, 0.0, 1.0]),
            "the cost of offering 0 is -inf; expected 0 to 1000000, or infinity"
        );
    }

    /// Which bits an operation on NaN gives differs by processor: none of them gets any further.
    #[test]
    fn a_nan_of_any_bits_is_refused_in_the_same_words() {
        let refused = |nan: f64| {
            let pool = |remaining, amount, cost| RawPool {
                name: "a".to_owned(),
                remaining,
                offerings: vec![1],
                amounts: vec![amount],
                costs: vec![cost],
            };
            [
                checked_costs(&mut [1.0, nan, 2.0], 3)
                    .unwrap_err()
                    .to_string(),
                checked_pools(vec![pool(nan, 1.0, 1.0)], 3).unwrap_err(),
                checked_pools(vec![pool(1.0, nan, 1.0)], 3).unwrap_err(),
                checked_pools(vec![pool(1.0, 1.0, nan)], 3).unwrap_err(),
            ]
        };
        let usual = refused(f64::NAN);
        assert!(usual.iter().all(|said| said.contains("NaN")), "{usual:?}");
        for bits in [
            0x7ff8_0000_0000_0001u64,
            0xfff8_0000_0000_0000,
            0x7ff0_0000_0000_0001,
            u64::MAX,
        ] {
            assert_eq!(refused(f64::from_bits(bits)), usual, "{bits:#x}");
        }
    }

    #[test]
    fn a_zero_loses_its_sign_and_what_is_nearly_zero_is_zero() {
        let mut cost = vec![-0.0, INF, 5e-324];
        checked_costs(&mut cost, 3).unwrap();
        assert!(cost[0].is_sign_positive());
        assert_eq!(cost, [0.0, INF, 0.0]);
        assert!(checked_costs(&mut [], 0).is_ok());
    }

    #[test]
    fn numbers_beyond_their_bounds_are_named() {
        let problem = |cost: f64| {
            checked_costs(&mut [1.0, cost, 2.0], 3)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            problem(1e7),
            "the cost of offering 1 is 10000000; expected 0 to 1000000, or infinity"
        );
        assert_eq!(
            problem(1e308),
            "the cost of offering 1 is 1e308; expected 0 to 1000000, or infinity"
        );
        let pool = |remaining, amount, cost| {
            let pool = RawPool {
                name: "a".to_owned(),
                remaining,
                offerings: vec![1],
                amounts: vec![amount],
                costs: vec![cost],
            };
            checked_pools(vec![pool], 3)
        };
        assert!(pool(1e12, 1e-6, 1e6).is_ok());
        for (remaining, amount, cost) in [
            (1e13, 1.0, 0.0),
            (1.0, 5e-324, 0.0),
            (1.0, 1e10, 0.0),
            (1.0, 1.0, 1e7),
        ] {
            let said = pool(remaining, amount, cost).unwrap_err();
            assert!(said.contains("; expected 0"), "{said}");
        }
    }

    const PRICES: [f64; 3] = [1.0, 2.0, 4.0];

    /// Three offerings that cost 1, 2 and 4 USD per hour.
    fn columns() -> Columns {
        let mut columns = Columns::empty();
        columns.moving.prices = PRICES.into();
        columns
    }

    /// What a guard leaves of costs, and what it raised.
    fn left(guard: Guard, cost: &[f64], before: &[f64]) -> (Vec<f64>, Option<Raised>) {
        let mut cost = cost.into();
        let raised = guard.raise(&mut cost, &columns(), before);
        (cost.to_vec(), raised)
    }

    #[test]
    fn a_cost_far_below_the_price_is_raised() {
        let usual = Guard::of(&Terms::default());
        let (cost, raised) = left(usual, &[0.0, 0.25, INF], &PRICES);
        let raised = raised.unwrap();
        assert_eq!((raised.offerings, raised.row), (1, 0));
        assert!((cost[0] - 0.1).abs() < 1e-12, "{cost:?}");
        assert_eq!(cost[1..], [0.25, INF]);
        assert!(left(usual, &[0.5, 3.0, 4.0], &PRICES).1.is_none());
        let free = Guard::of(&Terms {
            max_discount: 1.0,
            ..Terms::default()
        });
        assert!(left(free, &[0.0, 0.0, 0.0], &PRICES).1.is_none());
    }

    #[test]
    fn what_was_cheap_or_excluded_before_stays_so_and_is_nobody_elses_doing() {
        let before = [0.01, INF, 4.0];
        let usual = Guard::of(&Terms::default());
        let (cost, raised) = left(usual, &[0.01, 0.0, 0.25], &before);
        let raised = raised.unwrap();
        assert_eq!((raised.offerings, raised.row), (1, 2));
        assert_eq!(cost[..2], [0.01, INF]);
        assert!((cost[2] - 0.4).abs() < 1e-12, "{cost:?}");
        assert!(checked_chain(&[INF, INF, 5.0], &before).is_ok());
        let said = checked_chain(&[INF; 3], &before).unwrap_err();
        assert_eq!(said, CostFault::RestExcluded);
        assert!(checked_chain(&[INF; 3], &[INF; 3]).is_ok());
    }

    #[test]
    fn what_is_discouraged_costs_what_it_did_and_what_was_excluded_before_is_not_discouraged() {
        let discouraging = Guard::of(&Terms {
            exclusions: Exclusions::Discourage,
            ..Terms::default()
        });
        let mut cost: Arc<[f64]> = [INF, INF, 5.0].into();
        let rows = discouraging.discourage(&mut cost, &[0.01, INF, 4.0]);
        assert_eq!((&*rows, &*cost), (&[0][..], &[0.01, INF, 5.0][..]));
        let mut cost: Arc<[f64]> = [INF, 2.0, 5.0].into();
        let usual = Guard::of(&Terms::default());
        assert!(usual.discourage(&mut cost, &PRICES).is_empty());
        assert_eq!(cost[0], INF);
    }

    #[test]
    fn pools_that_break_the_contract_are_named() {
        let pool = |name: &str, remaining, rows: &[u32], amount, cost| RawPool {
            name: name.to_owned(),
            remaining,
            offerings: rows.to_vec(),
            amounts: vec![amount; rows.len()],
            costs: vec![cost; rows.len()],
        };
        let problem = |pools| checked_pools(pools, 3).unwrap_err();
        assert_eq!(
            problem(vec![pool("a", INF, &[], 1.0, 0.0)]),
            "pool `a`: inf is left; expected 0 to 1000000000000"
        );
        assert_eq!(
            problem(vec![pool("a", 1.0, &[3], 1.0, 0.0)]),
            "pool `a`: offering 3 is not one of 3"
        );
        assert_eq!(
            problem(vec![pool("a", 1.0, &[1, 1], 1.0, 0.0)]),
            "pool `a`: offering 1 draws on it twice"
        );
        let several = vec![
            pool("a", 1.0, &[1], 1.0, 0.0),
            pool("b", 1.0, &[1, 2], 1.0, 0.0),
        ];
        assert_eq!(
            checked_pools(several, 3).unwrap().len(),
            2,
            "in their order"
        );
        assert_eq!(
            problem(vec![
                pool("a", 1.0, &[], 1.0, 0.0),
                pool("a", 1.0, &[], 1.0, 0.0)
            ]),
            "pool `a`: declared twice"
        );
        assert_eq!(
            problem(vec![pool("a", 1.0, &[1], 0.0, 0.0)]),
            "pool `a`: offering 1 takes 0; expected 0.000001 to 1000000000"
        );
        assert_eq!(
            problem(vec![pool("a", 1.0, &[1], 1.0, f64::NAN)]),
            "pool `a`: offering 1 costs NaN inside; expected 0 to 1000000"
        );
        let uneven = RawPool {
            amounts: vec![],
            ..pool("a", 1.0, &[1], 1.0, 0.0)
        };
        assert_eq!(
            problem(vec![uneven]),
            "pool `a`: columns of different lengths: (1, 0, 1)"
        );
    }
}
