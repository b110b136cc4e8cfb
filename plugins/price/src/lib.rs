//! Price: the effective cost of offerings, less a table of discounts.
//!
//! Without settings it changes nothing: an offering costs what the policy before it says, the list
//! price if it is the first.

use longshore_sdk::{About, Keys, PerEdition, Scorer, Selector, chain};
use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    discounts: Vec<Discount>,
}

/// A line of the table: exactly one of `percent`, `price` and `exclude`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Discount {
    offerings: Selector,
    percent: Option<f64>,
    price: Option<f64>,
    exclude: bool,
}

/// What becomes of a cost c: `c × factor + fixed`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Term {
    factor: f64,
    fixed: f64,
}

const UNCHANGED: Term = Term {
    factor: 1.0,
    fixed: 0.0,
};

struct Price {
    lines: Vec<(Selector, Term)>,
    terms: PerEdition<Vec<Term>>,
}

impl Scorer for Price {
    const ABOUT: About = About {
        name: "price",
        version: env!("CARGO_PKG_VERSION"),
        summary: "Offerings cost less by a table of discounts.",
        signals: &[],
        settings_schema: include_str!("settings.schema.json"),
    };
    type Settings = Settings;

    fn new(settings: Settings) -> Result<Self, String> {
        let term = |(at, discount): (usize, Discount)| {
            let term =
                term_of(&discount).map_err(|problem| format!("`discounts[{at}]`: {problem}"))?;
            Ok((discount.offerings, term))
        };
        let lines = settings
            .discounts
            .into_iter()
            .enumerate()
            .map(term)
            .collect::<Result<_, String>>()?;
        Ok(Price {
            lines,
            terms: PerEdition::new(),
        })
    }

    fn score(&mut self) -> Result<Vec<f64>, String> {
        let mut costs = chain::costs();
        if self.lines.is_empty() {
            return Ok(costs);
        }
        let terms = self.terms.get(|| terms(&self.lines));
        for (cost, term) in costs.iter_mut().zip(terms) {
            // Infinity times zero is no number.
            if cost.is_finite() {
                *cost = *cost * term.factor + term.fixed;
            }
        }
        Ok(costs)
    }
}

fn term_of(discount: &Discount) -> Result<Term, String> {
    match *discount {
        Discount { percent: Some(percent), price: None, exclude: false, .. } if percent <= 100.0 => {
            Ok(Term { factor: 1.0 - percent / 100.0, fixed: 0.0 })
        }
        Discount { percent: None, price: Some(price), exclude: false, .. } if price >= 0.0 => {
            Ok(Term { factor: 0.0, fixed: price })
        }
        Discount { percent: None, price: None, exclude: true, .. } => Ok(Term { factor: 0.0, fixed: f64::INFINITY }),
        _ => {
            Err("expected exactly one of `percent` (at most 100), `price` (at least 0) and `exclude = true`".to_owned())
        }
    }
}

fn terms(lines: &[(Selector, Term)]) -> Vec<Term> {
    let first = Keys::pull().first_match(lines.iter().map(|(selector, _)| selector));
    first
        .into_iter()
        .map(|line| line.map_or(UNCHANGED, |line| lines[line].1))
        .collect()
}

longshore_sdk::export_scorer!(Price);

#[cfg(test)]
mod tests {
    use longshore_sdk::testing::{Offering, with};

    use super::*;

    fn discount(instance_type: &str) -> Discount {
        let offerings = Selector {
            instance_type: Some(instance_type.to_owned()),
            ..Selector::default()
        };
        Discount {
            offerings,
            ..Discount::default()
        }
    }

    fn scores(discounts: Vec<Discount>) -> Vec<f64> {
        let rows = [
            ("m7g.large", 0.0816),
            ("m7i.large", 0.1008),
            ("c7i.metal-24xl", 4.284),
        ]
        .map(|(instance_type, price)| Offering {
            instance_type,
            price,
            ..Offering::default()
        });
        with(&rows, || {
            Price::new(Settings { discounts }).unwrap().score().unwrap()
        })
    }

    #[test]
    fn without_discounts_an_offering_costs_its_list_price() {
        assert_eq!(scores(vec![]), [0.0816, 0.1008, 4.284]);
    }

    #[test]
    fn the_first_discount_that_matches_counts() {
        let table = vec![
            Discount {
                percent: Some(50.0),
                ..discount("m7g.*")
            },
            Discount {
                percent: Some(-10.0),
                ..discount("m*")
            },
            Discount {
                exclude: true,
                ..discount("*.metal*")
            },
        ];
        assert_eq!(scores(table), [0.0408, 0.1008 * 1.1, f64::INFINITY]);
        let table = vec![Discount {
            price: Some(0.05),
            ..discount("m7i.large")
        }];
        assert_eq!(scores(table), [0.0816, 0.05, 4.284]);
    }

    #[test]
    fn a_line_must_say_one_thing() {
        let problem = |discount| {
            Price::new(Settings {
                discounts: vec![discount],
            })
            .err()
            .unwrap()
        };
        let expected = "`discounts[0]`: expected exactly one of `percent` (at most 100), `price` (at least 0) and \
                        `exclude = true`";
        assert_eq!(problem(discount("*")), expected);
        assert_eq!(
            problem(Discount {
                percent: Some(1.0),
                exclude: true,
                ..discount("*")
            }),
            expected
        );
        assert_eq!(
            problem(Discount {
                percent: Some(101.0),
                ..discount("*")
            }),
            expected
        );
    }
}
