//! What each policy of a NodePool's chain made of the costs that it was given, and how its answer
//! joins those before it.

use std::collections::BTreeSet;
use std::sync::Arc;

use longshore_core::model::OfferingId;
use longshore_core::policy::{CommitmentPool, CostTerm, DISCOURAGED, PolicyCosts, Scores};

use crate::loaded::LoadedPolicy;
use crate::report::Fallback;
use crate::sum::Sum;

/// What was answered about a NodePool, recorded for replay.
#[derive(Clone, Debug)]
pub struct ScoreRecord {
    /// The NodePool that it is about.
    pub node_pool: Arc<str>,
    /// What offerings cost before any policy: their list prices.
    pub list: Arc<[f64]>,
    /// What each policy made of that, in their order; none where offerings cost their price.
    pub links: Vec<ChainLink>,
    /// Checksum over costs and commitments.
    pub sum: u64,
}

/// What one policy of a chain made of the costs before it.
#[derive(Clone, Debug)]
pub struct ChainLink {
    /// Its place among the assignments.
    pub place: usize,
    /// What the operator calls it.
    pub name: Arc<str>,
    /// The version that answered; none if neither it nor its last good version did.
    pub by: Option<LoadedPolicy>,
    /// It gave no answer, so that another version did, or what `on-failure` says counts.
    pub failed: bool,
    /// What counts where no version answered. With the price it is left out.
    pub instead: Option<Fallback>,
    /// The answer was there already: all that it is made of was the same.
    pub is_kept: bool,
    /// What offerings cost after it.
    pub cost: Arc<[f64]>,
    /// Offerings that draw on its commitments.
    pub draws: Arc<[u32]>,
    /// Rows whose cost it makes so high that they are bought only where nothing else fits.
    pub discouraged: Arc<[u32]>,
    /// Checksum over these costs and its commitments.
    pub sum: u64,
    /// How many offerings it costs how much, where it costs all of them the same.
    pub alike: Option<(usize, f64)>,
}

impl ChainLink {
    /// A policy of another kind gives no answer, and nothing is bought: after all others.
    pub(super) fn held(policy: &Arc<str>, offerings: usize) -> (Self, Scores) {
        let cost: Arc<[f64]> = vec![f64::INFINITY; offerings].into();
        let mut answer = Scores {
            cost: cost.clone(),
            ..Scores::default()
        };
        let link = ChainLink {
            place: usize::MAX,
            name: policy.clone(),
            by: None,
            failed: true,
            instead: Some(Fallback::Hold),
            is_kept: false,
            cost: cost.clone(),
            draws: Arc::default(),
            discouraged: Arc::default(),
            sum: summed(&answer).0,
            alike: None,
        };
        let policy = link.called();
        answer.policies = vec![PolicyCosts {
            policy,
            cost,
            discouraged: Arc::default(),
        }];
        (link, answer)
    }

    /// Whether no version answered, and its last answer counts or nothing is bought.
    pub fn is_instead(&self) -> bool {
        matches!(self.instead, Some(Fallback::LastAnswer | Fallback::Hold))
    }

    /// Its name, and that it gives no answer where that is so.
    pub(super) fn called(&self) -> Arc<str> {
        match self.is_instead() {
            true => without_answer(&self.name),
            false => self.name.clone(),
        }
    }

    /// Whether a policy tells no two offerings apart that had different costs before it.
    pub(super) fn alike(before: &[f64], answer: &Scores) -> (u64, Option<(usize, f64)>) {
        let (sum, alike) = summed(answer);
        (sum, alike.filter(|_| differ(before, &answer.cost)))
    }
}

/// What a policy is called whose last answer counts, or for which nothing is bought.
pub fn without_answer(policy: &str) -> Arc<str> {
    format!("{policy} (it gives no answer: `on-failure` counts)").into()
}

impl ScoreRecord {
    /// What offerings cost after all policies.
    pub fn cost(&self) -> &Arc<[f64]> {
        self.links.last().map_or(&self.list, |link| &link.cost)
    }

    /// What offerings cost after the last of the policies at such places: what a policy is given that
    /// comes right after it.
    pub fn cost_after(&self, is_before: impl Fn(usize) -> bool) -> &Arc<[f64]> {
        let mut links = self.links.iter();
        let last = links.rfind(|link| is_before(link.place));
        last.map_or(&self.list, |link| &link.cost)
    }

    /// What offerings would cost in the end if another policy said `own` of them between the policies
    /// at such places and the others. The others are not asked again: they add what they added, and
    /// exclude what they excluded.
    pub fn cost_with(&self, own: &Arc<[f64]>, is_before: impl Fn(usize) -> bool) -> Arc<[f64]> {
        let (given, end) = (self.cost_after(is_before), self.cost());
        if Arc::ptr_eq(given, end) {
            return own.clone();
        }
        let rows = own.iter().zip(given.iter().zip(end.iter()));
        let cost = |(&own, (&given, &end)): (&f64, (&f64, &f64))| match given.is_finite() {
            true => (own + (end - given)).max(0.0),
            false => f64::INFINITY,
        };
        rows.map(cost).collect()
    }

    /// What each policy added to the cost of an offering, in their order. One that gives no answer and is
    /// left out adds nothing, and says so.
    pub(super) fn terms(&self, offering: OfferingId) -> Vec<CostTerm> {
        let row = offering.0 as usize;
        let Some(mut before) = self.list.get(row).copied() else {
            return Vec::new();
        };
        let mut terms = Vec::new();
        for link in &self.links {
            let Some(&cost) = link.cost.get(row) else {
                continue;
            };
            terms.push(CostTerm {
                policy: match link.by.is_some() || link.is_instead() {
                    true => link.called(),
                    false => format!("{} (it gives no answer, and is left out)", link.name).into(),
                },
                usd: match before.is_finite() {
                    true => cost - before,
                    false => 0.0,
                },
                cost,
                draws: link.draws.binary_search(&offering.0).is_ok(),
                discourages: link.discouraged.binary_search(&offering.0).is_ok(),
            });
            before = cost;
        }
        terms
    }

    /// The names of those that answered.
    pub(super) fn answered_by(&self) -> Option<Arc<str>> {
        let answered = self.links.iter().filter(|link| link.by.is_some());
        let names: Vec<&str> = answered.map(|link| &*link.name).collect();
        match names.as_slice() {
            [] => None,
            names => Some(names.join(", ").into()),
        }
    }
}

/// Joins what a policy answered with what was there before it. An offering draws on one pool at most:
/// that of the first policy that has one for it. What another policy excludes draws on none.
pub fn chained(before: Scores, after: Scores) -> Scores {
    let mut pools = before.pools;
    for pool in &mut pools {
        let rows = |row: usize| (before.cost.get(row), after.cost.get(row));
        pool.draws.retain(|draw| {
            let (was, is) = rows(draw.offering.0 as usize);
            let excluded_now = is.is_none_or(|is| is.is_infinite());
            !(excluded_now && was.is_some_and(|was| was.is_finite()))
        });
    }
    let taken = rows_of(&pools);
    for mut pool in after.pools {
        pool.draws.retain(|draw| {
            let row = draw.offering.0;
            let was = before.cost.get(row as usize);
            was.is_some_and(|was| was.is_finite()) && taken.binary_search(&row).is_err()
        });
        pools.push(pool);
    }
    let mut policies = before.policies;
    policies.extend(after.policies);
    Scores {
        policies,
        cost: after.cost,
        pools,
    }
}

/// Costs with [`DISCOURAGED`] more for these rows.
pub(crate) fn dearer(cost: &Arc<[f64]>, rows: &[u32]) -> Arc<[f64]> {
    dearer_by(DISCOURAGED, cost, rows)
}

/// Costs without it: what [`dearer`] makes of these is what they were made of, to the bit.
pub(super) fn cheaper(cost: &Arc<[f64]>, rows: &[u32]) -> Arc<[f64]> {
    dearer_by(-DISCOURAGED, cost, rows)
}

pub(super) fn dearer_by(usd: f64, cost: &Arc<[f64]>, rows: &[u32]) -> Arc<[f64]> {
    if rows.is_empty() {
        return cost.clone();
    }
    let mut all = cost.to_vec();
    for &row in rows {
        if let Some(cost) = all.get_mut(row as usize) {
            *cost += usd;
        }
    }
    all.into()
}

/// Has draws on commitments cost as much more as their offerings.
pub(super) fn draws_dearer(pools: &mut [CommitmentPool], rows: &[u32]) {
    if rows.is_empty() {
        return;
    }
    let draws = pools.iter_mut().flat_map(|pool| &mut pool.draws);
    draws
        .filter(|draw| rows.binary_search(&draw.offering.0).is_ok())
        .for_each(|draw| draw.cost += DISCOURAGED);
}

/// Rows that are in the second list alone.
pub(super) fn new_rows(before: &[u32], all: &[u32]) -> Vec<u32> {
    let is_new = |row: &u32| before.binary_search(row).is_err();
    all.iter().copied().filter(is_new).collect()
}

/// Rows of either, in order.
pub(super) fn union(one: &Arc<[u32]>, other: &Arc<[u32]>) -> Arc<[u32]> {
    match (one.is_empty(), other.is_empty()) {
        (true, _) => other.clone(),
        (_, true) => one.clone(),
        _ => {
            let rows: BTreeSet<u32> = one.iter().chain(other.iter()).copied().collect();
            rows.into_iter().collect()
        }
    }
}

/// Rows that any of these policies discourages.
pub(super) fn all_discouraged(policies: &[PolicyCosts]) -> Arc<[u32]> {
    let all = policies.iter().map(|of| &of.discouraged);
    all.fold(Arc::default(), |all, of| union(&all, of))
}

/// Rows that a policy discourages, by costs before and after it that do not say so.
pub fn discouraged_by_cost(before: &[f64], after: &[f64]) -> Arc<[u32]> {
    let rows = (0..).zip(before.iter().zip(after));
    let is_so = |(before, after): (&f64, &f64)| after.is_finite() && after - before >= DISCOURAGED;
    rows.filter(|(_, costs)| is_so(*costs))
        .map(|(row, _)| row)
        .collect()
}

/// Offerings that draw on pools, in order.
pub(super) fn rows_of(pools: &[CommitmentPool]) -> Vec<u32> {
    let draws = pools.iter().flat_map(|pool| &pool.draws);
    let mut rows: Vec<u32> = draws.map(|draw| draw.offering.0).collect();
    rows.sort_unstable();
    rows
}

/// A checksum: about 10 µs for 8 000 offerings. In the same
/// pass: how many offerings cost how much, where all that are not excluded cost the same and draw on
/// no commitment.
pub(super) fn summed(scores: &Scores) -> (u64, Option<(usize, f64)>) {
    let mut sum = Sum::default();
    let mut take = |bits: u64| sum.take(bits);
    let first = scores.cost.iter().copied().find(|cost| cost.is_finite());
    let first = first.unwrap_or(f64::INFINITY);
    let (mut offered, mut other) = (0, 0);
    for cost in scores.cost.iter() {
        take(cost.to_bits());
        offered += usize::from(cost.is_finite());
        other += usize::from(cost.is_finite() & (*cost != first));
    }
    for pool in &scores.pools {
        pool.name.bytes().for_each(|byte| take(u64::from(byte)));
        take(pool.remaining.to_bits());
        for draw in &pool.draws {
            take(u64::from(draw.offering.0));
            take(draw.amount.to_bits());
            take(draw.cost.to_bits());
        }
    }
    let is_alike = offered > 1 && other == 0 && scores.pools.is_empty();
    (sum.0, is_alike.then_some((offered, first)))
}

/// Whether the offerings that a policy does not exclude had different costs before it: where they had
/// not, it is no fault of the policy that it tells none apart.
fn differ(before: &[f64], after: &[f64]) -> bool {
    let costs = after.iter().zip(before);
    let mut before = costs
        .filter(|(cost, _)| cost.is_finite())
        .map(|(_, before)| *before);
    let first = before.next();
    before.any(|before| Some(before) != first)
}

#[cfg(test)]
mod tests {
    use longshore_core::policy::Draw;

    use super::*;

    const INF: f64 = f64::INFINITY;

    fn scores(cost: &[f64], pools: Vec<CommitmentPool>) -> Scores {
        Scores {
            policies: Vec::new(),
            cost: cost.into(),
            pools,
        }
    }

    fn pool(owner: u32, rows: &[u32]) -> CommitmentPool {
        let draw = |&row: &u32| Draw {
            offering: OfferingId(row),
            amount: 1.0,
            cost: 0.0,
        };
        CommitmentPool {
            owner,
            name: "reserved".into(),
            remaining: 5.0,
            draws: rows.iter().map(draw).collect(),
        }
    }

    #[test]
    fn costs_are_alike_where_no_two_of_them_differ() {
        let alike = |cost: &[f64]| summed(&scores(cost, Vec::new())).1;
        assert_eq!(alike(&[0.0, 0.0, 0.0]), Some((3, 0.0)));
        assert_eq!(alike(&[INF, 0.5, 0.5]), Some((2, 0.5)), "one is excluded");
        assert_eq!(alike(&[0.0, 0.0, 0.1]), None);
        assert_eq!(alike(&[INF, 0.5]), None, "one is left");
        assert_eq!(alike(&[]), None);
    }

    #[test]
    fn an_offering_draws_on_the_first_pool_and_on_none_where_another_policy_excludes_it() {
        let before = scores(&[1.0, 2.0, INF, 4.0, INF], vec![pool(0, &[0, 1, 2])]);
        let after = scores(&[1.0, INF, INF, 4.0, INF], vec![pool(1, &[0, 3, 4])]);
        let both = chained(before, after);
        let rows = |at: usize| rows_of(&both.pools[at..=at]);
        assert_eq!(rows(0), [0, 2], "1 is excluded after it; 2 was by itself");
        assert_eq!(rows(1), [3], "0 is taken; 4 was excluded before it");
        assert_eq!((both.pools[0].owner, both.pools[1].owner), (0, 1));
    }

    #[test]
    fn each_term_is_the_difference_that_the_policy_made() {
        let link = |name: &str, cost: &[f64], is_instead: bool, draws: &[u32]| ChainLink {
            place: 0,
            name: name.into(),
            by: None,
            failed: true,
            instead: is_instead.then_some(Fallback::LastAnswer),
            is_kept: false,
            cost: cost.into(),
            draws: draws.into(),
            discouraged: Arc::default(),
            sum: 0,
            alike: None,
        };
        let record = ScoreRecord {
            node_pool: "default".into(),
            list: [1.0, 2.0].into(),
            links: vec![
                link("left out", &[1.0, 2.0], false, &[]),
                link("green", &[1.5, INF], true, &[0]),
                link("risk", &[1.25, INF], true, &[]),
            ],
            sum: 0,
        };
        let terms = |row| -> Vec<(f64, f64, bool)> {
            let terms = record.terms(OfferingId(row));
            terms
                .iter()
                .map(|term| (term.usd, term.cost, term.draws))
                .collect()
        };
        assert_eq!(
            terms(0),
            [(0.0, 1.0, false), (0.5, 1.5, true), (-0.25, 1.25, false)]
        );
        assert_eq!(
            terms(1),
            [(0.0, 2.0, false), (INF, INF, false), (0.0, INF, false)]
        );
        assert!(terms(2).is_empty());
        let named = record.terms(OfferingId(0));
        assert_eq!(
            &*named[0].policy,
            "left out (it gives no answer, and is left out)"
        );
        assert!(named[1].policy.starts_with("green ("));
    }
}
