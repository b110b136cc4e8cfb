//! Spot risk: what interruptions cost on average, added to the price of spot offerings.
//!
//! The rate is known as the share m of instances interrupted within a month. Taking interruptions
//! to be memoryless (survival e^(−λt), the constant-hazard model of reliability theory), m = 1 −
//! e^(−λ·730 h), so an hour sees λ = −ln(1 − m) / 730 interruptions on average. Each costs a fixed
//! sum c and wastes t hours of the node, which are paid for again at what it costs before, p:
//!
//! effective = p + λ · (c + t · p)

use longshore_sdk::{About, Keys, PerEdition, Scorer, Selector, SignalUse, chain, joined};
use serde::Deserialize;

/// Where rates come from, and what stands for one that is not known.
const SIGNAL: &str = "interruption-rates";
const UNKNOWN: f64 = -1.0;
/// Hours in a month, 365 × 24 / 12.
const MONTH: f64 = 730.0;
/// A share of 1 would be an infinite hazard; the advisors that publish rates stop at "more than 20
/// %".
const HIGHEST_RATE: f64 = 0.99;

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Settings {
    interruption_cost: f64,
    lost_minutes: f64,
    default_rate: f64,
    rates: Vec<Rate>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rate {
    #[serde(default)]
    offerings: Selector,
    rate: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            interruption_cost: 0.05,
            lost_minutes: 10.0,
            default_rate: 0.1,
            rates: Vec::new(),
        }
    }
}

struct SpotRisk {
    settings: Settings,
    known: PerEdition<Known>,
}

/// What was derived from static columns, and from the rates as they were last. A logarithm costs
/// more than all else here, and rates change every few hours.
#[derive(Debug)]
struct Known {
    risks: Vec<Risk>,
    rates: Vec<f64>,
    /// Interruptions per hour of each offering, at those rates.
    hazards: Vec<f64>,
}

/// What settings say about an offering.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Risk {
    /// Not spot: no interruptions.
    None,
    /// This share per month.
    Rate(f64),
    /// Ask the host's column.
    Column,
}

impl Scorer for SpotRisk {
    const ABOUT: About = About {
        name: "spot-risk",
        version: env!("CARGO_PKG_VERSION"),
        summary: "Adds the expected cost of interruptions to the price of spot offerings.",
        signals: &[SignalUse::named(SIGNAL)],
        settings_schema: include_str!("settings.schema.json"),
    };
    type Settings = Settings;

    fn new(settings: Settings) -> Result<Self, String> {
        Ok(SpotRisk {
            settings,
            known: PerEdition::new(),
        })
    }

    fn score(&mut self) -> Result<Vec<f64>, String> {
        let rates = joined::column_or(SIGNAL, UNKNOWN);
        let mut costs = chain::costs();
        let settings = &self.settings;
        let known = self.known.get_mut(|| Known {
            risks: risks(settings),
            rates: Vec::new(),
            hazards: Vec::new(),
        });
        if known.rates != rates || known.hazards.is_empty() {
            let hazards = known
                .risks
                .iter()
                .zip(&rates)
                .map(|(risk, &rate)| settings.hazard(*risk, rate));
            known.hazards = hazards.collect();
            known.rates = rates;
        }
        for (cost, hazard) in costs.iter_mut().zip(&known.hazards) {
            // Nothing times infinity is no number.
            if cost.is_finite() {
                let lost = settings.lost_minutes / 60.0 * *cost;
                *cost += hazard * (settings.interruption_cost + lost);
            }
        }
        Ok(costs)
    }
}

impl Settings {
    /// Interruptions per hour of an offering, by the host's column where settings do not say.
    fn hazard(&self, risk: Risk, column: f64) -> f64 {
        match risk {
            Risk::None => 0.0,
            Risk::Rate(rate) => hazard(rate),
            Risk::Column => hazard(if column < 0.0 {
                self.default_rate
            } else {
                column
            }),
        }
    }
}

/// Interruptions per hour for a monthly share.
fn hazard(monthly: f64) -> f64 {
    -(1.0 - monthly.clamp(0.0, HIGHEST_RATE)).ln() / MONTH
}

fn risks(settings: &Settings) -> Vec<Risk> {
    let keys = Keys::pull();
    let spot = keys.matches(&Selector {
        capacity_type: Some("spot".to_owned()),
        ..Selector::default()
    });
    let rates = keys.first_match(settings.rates.iter().map(|rate| &rate.offerings));
    let risk = |(spot, rate): (bool, Option<usize>)| match rate {
        _ if !spot => Risk::None,
        Some(at) => Risk::Rate(settings.rates[at].rate),
        None => Risk::Column,
    };
    spot.into_iter().zip(rates).map(risk).collect()
}

longshore_sdk::export_scorer!(SpotRisk);

#[cfg(test)]
mod tests {
    use longshore_sdk::testing::{Offering, with, with_signal};

    use super::*;

    const SPOT: Offering = Offering {
        instance_type: "m7g.large",
        zone: "us-east-1a",
        capacity_type: "spot",
        architecture: "arm64",
        cpu_millicores: 2000,
        memory_mib: 8192,
        gpus: 0,
        price: 0.03,
        cost: None,
        available: true,
        reservation: None,
    };

    fn scores(settings: Settings, rows: &[Offering]) -> Vec<f64> {
        with(rows, || SpotRisk::new(settings).unwrap().score().unwrap())
    }

    #[test]
    fn on_demand_costs_its_price() {
        assert_eq!(
            scores(Settings::default(), &[Offering::default()]),
            [0.0816]
        );
    }

    #[test]
    fn a_month_without_survivors_to_half_is_a_hazard_of_ln_2_per_month() {
        assert!((hazard(0.5) * MONTH - std::f64::consts::LN_2).abs() < 1e-15);
        assert_eq!(hazard(0.0), 0.0);
        assert!(hazard(1.0).is_finite());
    }

    #[test]
    fn the_rate_is_that_of_settings_then_the_hosts_then_the_default() {
        let settings = || Settings {
            interruption_cost: 1.0,
            lost_minutes: 60.0,
            ..Settings::default()
        };
        let cost = |rate: f64| 0.03 + hazard(rate) * (1.0 + 0.03);
        let other = Offering {
            zone: "us-east-1b",
            ..SPOT
        };
        let rows = [SPOT, other];
        let known = [("m7g.large/us-east-1b", 0.2)];
        let scores = |settings: Settings| with_signal(SIGNAL, &known, || scores(settings, &rows));
        assert_eq!(scores(settings()), [cost(0.1), cost(0.2)]);
        let offerings = Selector {
            instance_type: Some("m7g.*".to_owned()),
            ..Selector::default()
        };
        let settings = Settings {
            rates: vec![Rate {
                offerings,
                rate: 0.05,
            }],
            ..settings()
        };
        assert_eq!(scores(settings), [cost(0.05); 2]);
    }

    #[test]
    fn rates_that_changed_are_worked_out_again() {
        let mut scorer = SpotRisk::new(Settings {
            interruption_cost: 1.0,
            lost_minutes: 0.0,
            ..Settings::default()
        });
        let scorer = scorer.as_mut().unwrap();
        for rate in [0.1, 0.1, 0.3, 0.0] {
            let scored = with(&[SPOT], || {
                with_signal(SIGNAL, &[("m7g.large", rate)], || scorer.score().unwrap())
            });
            assert_eq!(scored, [0.03 + hazard(rate)]);
        }
    }

    #[test]
    fn a_risky_cheap_offering_can_cost_more_than_a_safe_one() {
        let rows = [
            SPOT,
            Offering {
                instance_type: "m7i.large",
                price: 0.032,
                ..SPOT
            },
        ];
        let rates = [("m7g.large", 0.9), ("m7i.large", 0.01)];
        let settings = Settings {
            interruption_cost: 2.0,
            ..Settings::default()
        };
        let scores = with_signal(SIGNAL, &rates, || scores(settings, &rows));
        assert!(scores[0] > scores[1], "{scores:?}");
    }
}
