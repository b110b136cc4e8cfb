//! What every scorer has to keep.

use longshore_policy::{CallError, Case, CostFault};

use crate::cases::case;
use crate::shrink::{smaller, smallest};
use crate::{Counterexample, Proof, ProveOptions, search};

/// Something that says what offerings cost.
pub trait Scorer {
    /// Forgets everything: what is asked next is asked of a fresh instance.
    fn fresh(&mut self);

    /// Costs in the order of the case's offerings.
    ///
    /// # Errors
    /// Why there are none.
    fn costs(&mut self, case: &Case) -> Result<Vec<f64>, NoCosts>;

    /// As [`Scorer::costs`] of the case that was asked last.
    fn costs_again(&mut self, case: &Case) -> Result<Vec<f64>, NoCosts> {
        self.costs(case)
    }

    /// How much of the fuel of a call it has used since last asked, in thousandths.
    fn fuel_permille(&mut self) -> u32 {
        0
    }
}

/// Why a scorer gave no costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoCosts {
    /// What it breaks with that.
    pub property: ScorerProperty,
    /// In words.
    pub why: String,
}

impl From<CallError> for NoCosts {
    fn from(error: CallError) -> Self {
        let property = match &error {
            CallError::Fuel { .. } | CallError::Budget { what: "fuel", .. } => ScorerProperty::Fuel,
            CallError::Costs { fault, .. } => match fault {
                CostFault::Count { .. } | CostFault::OutOfBounds { .. } => ScorerProperty::Bounded,
                CostFault::AllExcluded | CostFault::RestExcluded => ScorerProperty::NeverStarves,
            },
            _ => ScorerProperty::Answers,
        };
        NoCosts {
            property,
            why: error.to_string(),
        }
    }
}

impl From<NoCosts> for String {
    fn from(none: NoCosts) -> Self {
        none.why
    }
}

/// What a scorer can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScorerProperty {
    /// It answers every question.
    Answers,
    /// One cost for each offering: 0 to 1 000 000 USD per hour, or infinity.
    Bounded,
    /// It leaves an offering where there was one.
    NeverStarves,
    /// No cost is further below the list price than `max-discount` allows.
    MaxDiscount,
    /// Asked the same again it says the same, also after other questions.
    Alike,
    /// The order of rows does not matter.
    OrderFree,
    /// An offering that becomes dearer does not cost less.
    Monotone,
    /// It needs less than half of the fuel of a call.
    Fuel,
}

impl ScorerProperty {
    const ALL: [ScorerProperty; 8] = [
        ScorerProperty::Answers,
        ScorerProperty::Bounded,
        ScorerProperty::NeverStarves,
        ScorerProperty::MaxDiscount,
        ScorerProperty::Alike,
        ScorerProperty::OrderFree,
        ScorerProperty::Monotone,
        ScorerProperty::Fuel,
    ];

    /// What it says, for people.
    pub fn words(self) -> &'static str {
        match self {
            ScorerProperty::Answers => "it answers",
            ScorerProperty::Bounded => "costs are within their bounds",
            ScorerProperty::NeverStarves => "something is left to buy",
            ScorerProperty::MaxDiscount => "costs are within max-discount",
            ScorerProperty::Alike => "the same question has the same answer",
            ScorerProperty::OrderFree => "the order of rows does not matter",
            ScorerProperty::Monotone => "dearer offerings do not cost less",
            ScorerProperty::Fuel => "it needs less than half of its fuel",
        }
    }
}

/// What a call may cost at most, and the most that may differ, as a share.
const MAX_COST: f64 = 1e6;
const TOLERANCE: f64 = 1e-9;
/// A counterexample is made smaller so often at most.
const STEPS: usize = 500;
/// How often the questions that need fresh instances are asked: always at first, then seldom.
const ALWAYS: u64 = 2000;
const SELDOM: u64 = 16;

/// Asks scorers that are made alike, one for each thread, until a property breaks.
pub fn prove_scorer<S: Scorer>(
    scorer: impl Fn() -> S + Sync,
    options: &ProveOptions,
) -> Proof<ScorerProperty> {
    search(options, || {
        let mut scorer = scorer();
        Box::new(move |number, is_first| {
            if is_first {
                scorer.fresh();
            }
            let question = case(options, number);
            let thorough = number < ALWAYS || number.is_multiple_of(SELDOM);
            let (property, _) = broken(&mut scorer, &question, options, thorough)?;
            let is_bad = |scorer: &mut S, case: &Case| {
                scorer.fresh();
                let broken = broken(scorer, case, options, true);
                broken
                    .filter(|(other, _)| *other == property)
                    .map(|(_, why)| why)
            };
            let small = smallest(question, STEPS, smaller, |case| {
                is_bad(&mut scorer, case).is_some()
            });
            let why = is_bad(&mut scorer, &small)
                .unwrap_or_else(|| "it is so only now and then".to_owned());
            Some(Counterexample {
                property,
                why,
                text: small.text(),
                size: small.offerings.len(),
                number,
            })
        })
    })
}

/// The first property that a question breaks, and how.
fn broken(
    scorer: &mut dyn Scorer,
    case: &Case,
    options: &ProveOptions,
    thorough: bool,
) -> Option<(ScorerProperty, String)> {
    let costs = match scorer.costs(case) {
        Ok(costs) => costs,
        Err(NoCosts { property, why }) => {
            scorer.fresh();
            return Some((property, why));
        }
    };
    ScorerProperty::ALL.into_iter().find_map(|property| {
        let kept = match property {
            ScorerProperty::Answers => Ok(()),
            ScorerProperty::Bounded => bounded(case, &costs),
            ScorerProperty::NeverStarves => never_starves(case, &costs),
            ScorerProperty::MaxDiscount => within_discount(case, &costs, options.max_discount),
            ScorerProperty::Alike => alike(scorer, case, &costs, thorough),
            ScorerProperty::OrderFree => order_free(scorer, case, &costs),
            ScorerProperty::Monotone if options.monotone => monotone(scorer, case, &costs),
            ScorerProperty::Monotone => Ok(()),
            ScorerProperty::Fuel => match scorer.fuel_permille() {
                0..=500 => Ok(()),
                much => Err(format!("it needs {} % of it", much / 10)),
            },
        };
        kept.err().map(|why| (property, why))
    })
}

fn bounded(case: &Case, costs: &[f64]) -> Result<(), String> {
    if costs.len() != case.offerings.len() {
        let rows = case.offerings.len();
        return Err(format!("{} costs for {rows} offerings", costs.len()));
    }
    let bad = |&cost: &f64| !(0.0..=MAX_COST).contains(&cost) && cost != f64::INFINITY;
    match costs.iter().position(bad) {
        Some(row) => Err(format!("{} costs {}", shown(case, row), costs[row])),
        None => Ok(()),
    }
}

fn never_starves(case: &Case, costs: &[f64]) -> Result<(), String> {
    let mut left = (0..costs.len())
        .filter(|&row| before(case, row).is_finite())
        .peekable();
    let was_left = left.peek().is_some();
    if was_left && left.all(|row| costs[row].is_infinite()) {
        return Err("every offering is excluded that the policies before it leave".to_owned());
    }
    Ok(())
}

fn within_discount(case: &Case, costs: &[f64], most: f64) -> Result<(), String> {
    let least = |row: usize| (case.offerings[row].price * (1.0 - most)).min(before(case, row));
    let bad = |&row: &usize| costs[row] < least(row) * (1.0 - TOLERANCE) - 1e-9;
    match (0..costs.len()).find(bad) {
        Some(row) => Err(format!(
            "{} costs {}; its list price is {}, and {} percent off are allowed",
            shown(case, row),
            costs[row],
            case.offerings[row].price,
            most * 100.0
        )),
        None => Ok(()),
    }
}

/// Asked again, and in between something else, and of a fresh instance.
fn alike(
    scorer: &mut dyn Scorer,
    case: &Case,
    costs: &[f64],
    thorough: bool,
) -> Result<(), String> {
    same(case, costs, &scorer.costs_again(case)?, "asked again")?;
    if !thorough {
        return Ok(());
    }
    let mut other = case.clone();
    other.offerings.iter_mut().for_each(|row| {
        row.price = row.price * 1.5 + 0.01;
        row.cost_before = row.cost_before.map(|cost| cost * 1.5 + 0.01);
    });
    other.now += 86_400.0;
    let after = scorer.costs(&other)?;
    same(
        case,
        costs,
        &scorer.costs(case)?,
        "asked again after something else",
    )?;
    scorer.fresh();
    let of_other = scorer.costs(&other)?;
    same(&other, &of_other, &after, "asked after something else")?;
    scorer.fresh();
    same(case, &scorer.costs(case)?, costs, "asked after others")
}

fn same(case: &Case, first: &[f64], then: &[f64], when: &str) -> Result<(), String> {
    let differs = |&row: &usize| {
        let bits = |of: &[f64]| of.get(row).map(|cost| cost.to_bits());
        bits(first) != bits(then)
    };
    match (0..case.offerings.len()).find(differs) {
        Some(row) => Err(format!(
            "{} costs {}, and {when} {}",
            shown(case, row),
            first[row],
            then.get(row).copied().unwrap_or(f64::NAN)
        )),
        None => Ok(()),
    }
}

fn order_free(scorer: &mut dyn Scorer, case: &Case, costs: &[f64]) -> Result<(), String> {
    let rows = case.offerings.len();
    if rows < 2 {
        return Ok(());
    }
    let mut turned = case.clone();
    turned.offerings.reverse();
    // What is of a type counts in the first row that names it.
    for row in 0..rows {
        let first = case
            .offerings
            .iter()
            .find(|of| of.instance_type == turned.offerings[row].instance_type);
        if let Some(first) = first.cloned() {
            let own = &mut turned.offerings[row];
            (own.architecture, own.cpu) = (first.architecture, first.cpu);
            (own.memory_gib, own.resources) = (first.memory_gib, first.resources);
            own.labels = first.labels;
        }
    }
    let other = scorer.costs(&turned)?;
    let near = |a: f64, b: f64| a == b || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs());
    let differs = |&row: &usize| {
        other
            .get(rows - 1 - row)
            .is_none_or(|&cost| !near(costs[row], cost))
    };
    match (0..rows).find(differs) {
        Some(row) => Err(format!(
            "{} costs {}, and {} with the rows turned round",
            shown(case, row),
            costs[row],
            other.get(rows - 1 - row).copied().unwrap_or(f64::NAN)
        )),
        None => Ok(()),
    }
}

/// Makes one offering dearer after the other.
fn monotone(scorer: &mut dyn Scorer, case: &Case, costs: &[f64]) -> Result<(), String> {
    for (row, &before) in costs.iter().enumerate().take(5) {
        let mut dearer = case.clone();
        let of = &mut dearer.offerings[row];
        of.price = of.price * 1.25 + 0.01;
        of.cost_before = of.cost_before.map(|cost| cost * 1.25 + 0.01);
        let cost = scorer.costs(&dearer)?[row];
        if cost < before * (1.0 - TOLERANCE) {
            return Err(format!(
                "{} costs {before}, and {cost} where its list price is {} in place of {}",
                shown(case, row),
                dearer.offerings[row].price,
                case.offerings[row].price
            ));
        }
    }
    Ok(())
}

fn before(case: &Case, row: usize) -> f64 {
    let of = &case.offerings[row];
    of.cost_before.unwrap_or(of.price)
}

fn shown(case: &Case, row: usize) -> String {
    format!(
        "offering {row} ({})",
        case.offerings[row].shown().trim_end()
    )
}
