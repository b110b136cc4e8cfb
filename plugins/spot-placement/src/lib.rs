//! Spot placement: spot offerings that EC2 gives a low score cost more than their price.
//!
//! A score s of 1 to 10 says how likely a request is to succeed. Below a threshold t, each point
//! adds a share w of the cost c, which is the price p unless a policy before says otherwise:
//!
//! effective = c · (1 + w · max(t − s, 0))

use longshore_sdk::{About, Keys, PerGeneration, Scorer, Selector, chain, offerings};
use serde::Deserialize;

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
    spot: PerGeneration<Vec<bool>>,
}

impl Scorer for SpotPlacement {
    const ABOUT: About = About {
        name: "spot-placement",
        version: env!("CARGO_PKG_VERSION"),
        summary: "Makes spot offerings dearer that EC2 gives a low placement score.",
        signals: &["placement-scores"],
        settings_schema: include_str!("settings.schema.json"),
    };
    type Settings = Settings;

    fn new(settings: Settings) -> Result<Self, String> {
        Ok(SpotPlacement {
            settings,
            spot: PerGeneration::new(),
        })
    }

    fn score(&mut self) -> Result<Vec<f64>, String> {
        let (costs, scores) = (chain::costs(), offerings::placement_scores());
        let settings = &self.settings;
        let spot = self.spot.get_mut(spot);
        let rows = costs.iter().zip(&scores).zip(spot.iter());
        let costs = rows.map(|((&cost, &score), &spot)| {
            cost * if spot { settings.factor(score) } else { 1.0 }
        });
        Ok(costs.collect())
    }
}

impl Settings {
    /// What the price of a spot offering is multiplied by. Above 10 a score is unknown.
    fn factor(&self, score: u8) -> f64 {
        match score {
            0..=10 => 1.0 + self.weight * (self.threshold - f64::from(score)).max(0.0),
            _ => 1.0,
        }
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
    use longshore_sdk::testing::{Offering, with};

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
        interruption_rate: None,
        placement_score: None,
    };

    fn scored(score: u8) -> Offering {
        Offering {
            placement_score: Some(score),
            ..SPOT
        }
    }

    fn costs(threshold: f64, weight: f64, rows: &[Offering]) -> Vec<f64> {
        let settings = Settings { threshold, weight };
        with(rows, || {
            SpotPlacement::new(settings).unwrap().score().unwrap()
        })
    }

    #[test]
    fn each_point_below_the_threshold_adds_its_share() {
        let rows = [scored(1), scored(6), scored(7), scored(10)];
        assert_eq!(costs(7.0, 0.5, &rows), [0.04 * 4.0, 0.04 * 1.5, 0.04, 0.04]);
    }

    #[test]
    fn what_has_no_score_or_is_not_spot_costs_its_price() {
        let on_demand = Offering {
            capacity_type: "on-demand",
            ..scored(1)
        };
        assert_eq!(costs(10.0, 1.0, &[SPOT, on_demand]), [0.04, 0.04]);
    }

    #[test]
    fn a_likely_offering_wins_over_a_cheaper_one() {
        let cheap = Offering {
            price: 0.039,
            ..scored(2)
        };
        let Settings { threshold, weight } = Settings::default();
        let costs = costs(threshold, weight, &[cheap, scored(9)]);
        assert!(costs[0] > costs[1], "{costs:?}");
    }
}
