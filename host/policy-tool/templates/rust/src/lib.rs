//! {{name}}: adds a surcharge to the cost of spot offerings.

use longshore_sdk::{About, Rows, Scorer};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    percent: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { percent: 15.0 }
    }
}

struct SpotSurcharge {
    /// What the cost of a spot offering is multiplied by.
    factor: f64,
}

impl Scorer for SpotSurcharge {
    const ABOUT: About = About {
        name: "{{name}}",
        version: env!("CARGO_PKG_VERSION"),
        summary: "Adds a surcharge to the cost of spot offerings.",
        signals: &[],
        settings_schema: r#"{"type": "object", "properties": {
            "percent": {"description": "Of the cost; default 15.", "type": "number", "minimum": 0}}}"#,
    };
    type Settings = Settings;

    fn new(settings: Settings) -> Result<Self, String> {
        Ok(SpotSurcharge {
            factor: 1.0 + settings.percent / 100.0,
        })
    }

    fn score(&mut self) -> Result<Vec<f64>, String> {
        let rows = Rows::pull();
        let factor = |capacity_type| {
            if capacity_type == "spot" {
                self.factor
            } else {
                1.0
            }
        };
        Ok(rows
            .iter()
            .map(|row| row.cost * factor(row.capacity_type))
            .collect())
    }
}

longshore_sdk::export_scorer!(SpotSurcharge);
