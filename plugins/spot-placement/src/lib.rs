//! Spot placement: spot offerings that EC2 gives a low score cost more than their price.
//!
//! A score s of 1 to 10 says how likely a request is to succeed. Below a threshold t, each point
//! adds a share w of the cost c, which is the price p unless a policy before says otherwise:
//!
//! effective = c · (1 + w · max(t − s, 0))

use longshore_sdk::{About, Keys, PerEdition, Scorer, Selector, SignalUse, chain, joined};
use serde::Deserialize;

/// Where scores come from.
const SIGNAL: &str = "placement-scores";

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Settings {
    threshold: f64,
    weight: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            threshold: 7.0,
            weight: 0.05,
        }
    }
}

struct SpotPlacement {
    settings: Settings,
    /// Which offerings are spot.
    spot: PerEdition<Vec<bool>>,
}

impl Scorer for SpotPlacement {
    const ABOUT: About = About {
        name: "spot-placement",
        version: env!("CARGO_PKG_VERSION"),
        summary: "Makes spot offerings dearer that EC2 gives a low placement score.",
        signals: &[SignalUse::named(SIGNAL)],
        settings_schema: include_str!("settings.schema.json"),
    };
    type Settings = Settings;

    fn new(settings: Settings) -> Result<Self, String> {
        Ok(SpotPlacement {
            settings,
            spot: PerEdition::new(),
        })
    }

    fn score(&mut self) -> Result<Vec<f64>, String> {
        let (costs, scores) = (chain::costs(), joined::column_or(SIGNAL, f64::NAN));
        let settings = &self.settings;
        let spot = self.spot.get_mut(spot);
        let rows = costs.iter().zip(&scores).zip(spot.iter());
        let costs = rows
            .map(|((&cost, &score), &spot)| cost * if spot { settings.factor(score) } else { 1.0 });
        Ok(costs.collect())
    }
}

impl Settings {
    /// What the price of a spot offering is multiplied by: nothing where its score is not known.
    fn factor(&self, score: f64) -> f64 {
        if score.is_nan() {
            return 1.0;
        }
        1.0 + self.weight * (self.threshold - score.clamp(1.0, 10.0)).max(0.0)
    }
}

fn spot() -> Vec<bool> {
    Keys::pull().matches(&Selector {
        capacity_type: Some("spot".to_owned()),
        ..Selector::default()
    })
}

longshore_sdk::export_scorer!(SpotPlacement);

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
        price: 0.04,
        cost: None,
        available: true,
        reservation: None,
    };

    /// An offering in a zone of its own.
    fn placed(zone: &'static str) -> Offering {
        Offering { zone, ..SPOT }
    }

    fn costs(threshold: f64, weight: f64, scores: &[(&str, f64)], rows: &[Offering]) -> Vec<f64> {
        let settings = Settings { threshold, weight };
        let scores: Vec<(String, f64)> = scores
            .iter()
            .map(|(zone, score)| (format!("m7g.large/{zone}"), *score))
            .collect();
        let scores: Vec<(&str, f64)> = scores.iter().map(|(key, s)| (key.as_str(), *s)).collect();
        with(rows, || {
            with_signal(SIGNAL, &scores, || {
                SpotPlacement::new(settings).unwrap().score().unwrap()
            })
        })
    }

    #[test]
    fn each_point_below_the_threshold_adds_its_share() {
        let scores = [("a", 1.0), ("b", 6.0), ("c", 7.0), ("d", 10.0)];
        let rows = ["a", "b", "c", "d"].map(placed);
        assert_eq!(
            costs(7.0, 0.5, &scores, &rows),
            [0.04 * 4.0, 0.04 * 1.5, 0.04, 0.04]
        );
    }

    #[test]
    fn what_has_no_score_or_is_not_spot_costs_its_price() {
        let on_demand = Offering {
            capacity_type: "on-demand",
            ..placed("a")
        };
        let rows = [SPOT, on_demand];
        assert_eq!(costs(10.0, 1.0, &[("a", 1.0)], &rows), [0.04, 0.04]);
    }

    #[test]
    fn a_likely_offering_wins_over_a_cheaper_one() {
        let cheap = Offering {
            price: 0.039,
            ..placed("a")
        };
        let Settings { threshold, weight } = Settings::default();
        let scores = [("a", 2.0), ("b", 9.0)];
        let costs = costs(threshold, weight, &scores, &[cheap, placed("b")]);
        assert!(costs[0] > costs[1], "{costs:?}");
    }
}
