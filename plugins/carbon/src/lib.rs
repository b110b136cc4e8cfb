//! Carbon: what an offering costs, p, plus a price for the CO2 that it emits.
//!
//! effective = p + watts / 1000 × overhead × intensity / 1 000 000 × USD per ton
//!
//! watts = vCPUs × (rest + utilization × (full − rest)) + GiB × watts per GiB + GPUs × watts per
//! GPU. The model and the default coefficients are those that the Cloud Carbon Footprint
//! methodology gives for AWS: 0.74 W per vCPU at rest and 3.5 W fully used (its averages over
//! processors), 0.392 W per GB of memory, a power usage effectiveness of 1.135. 150 W per
//! accelerator is a guess of ours between an inference and a training card at half load: set your
//! own. Emissions of making the hardware are left out.
//!
//! The intensity (grams of CO2 equivalent per kWh) is signal `carbon-intensity`, by zone or by
//! region.

use std::collections::BTreeMap;

use longshore_sdk::{About, PerEdition, Scorer, SignalUse, chain, offerings, resources, signals};
use serde::Deserialize;

const SIGNAL: &str = "carbon-intensity";
const GRAMS_PER_TON: f64 = 1e6;

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Settings {
    usd_per_ton: f64,
    default_intensity: f64,
    utilization: f64,
    overhead: f64,
    watts_per_vcpu: BTreeMap<String, Watts>,
    watts_per_gib: f64,
    watts_per_gpu: f64,
}

/// Power of a vCPU.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Watts {
    rest: f64,
    full: f64,
}

const ANY_PROCESSOR: Watts = Watts {
    rest: 0.74,
    full: 3.5,
};

impl Default for Settings {
    fn default() -> Self {
        Settings {
            usd_per_ton: 80.0,
            default_intensity: 450.0,
            utilization: 0.5,
            overhead: 1.135,
            watts_per_vcpu: BTreeMap::new(),
            watts_per_gib: 0.392,
            watts_per_gpu: 150.0,
        }
    }
}

struct Carbon {
    settings: Settings,
    power: PerEdition<Power>,
}

/// What depends on static columns only.
struct Power {
    /// kW drawn from the grid, by offering.
    kilowatts: Vec<f64>,
    zone_names: Vec<String>,
    zones: Vec<u32>,
}

impl Scorer for Carbon {
    const ABOUT: About = About {
        name: "carbon",
        version: env!("CARGO_PKG_VERSION"),
        summary: "Adds a price for the CO2 that a node emits to the price of its offering.",
        signals: &[SignalUse::named(SIGNAL)],
        settings_schema: include_str!("settings.schema.json"),
    };
    type Settings = Settings;

    fn new(settings: Settings) -> Result<Self, String> {
        for (architecture, watts) in &settings.watts_per_vcpu {
            if watts.full < watts.rest {
                return Err(format!(
                    "`watts-per-vcpu.{architecture}`: `full` is less than `rest`"
                ));
            }
        }
        Ok(Carbon {
            settings,
            power: PerEdition::new(),
        })
    }

    fn score(&mut self) -> Result<Vec<f64>, String> {
        let settings = &self.settings;
        let power = self.power.get(|| Power::pull(settings));
        let signal = signals::get(SIGNAL).unwrap_or_default();
        let usd_per_kwh: Vec<f64> = power
            .zone_names
            .iter()
            .map(|zone| {
                let known = signal.value(zone).or_else(|| signal.value(region(zone)));
                known.unwrap_or(settings.default_intensity).max(0.0) / GRAMS_PER_TON
                    * settings.usd_per_ton
            })
            .collect();
        let costs = chain::costs()
            .into_iter()
            .zip(&power.kilowatts)
            .zip(&power.zones);
        Ok(costs
            .map(|((cost, kw), &zone)| cost + kw * usd_per_kwh[zone as usize])
            .collect())
    }
}

impl Power {
    fn pull(settings: &Settings) -> Self {
        let per_vcpu: Vec<f64> = offerings::architecture_names()
            .iter()
            .map(|name| {
                let watts = settings.watts_per_vcpu.get(name).unwrap_or(&ANY_PROCESSOR);
                watts.rest + settings.utilization * (watts.full - watts.rest)
            })
            .collect();
        let (cpus, memory) = (offerings::cpu_millicores(), offerings::memory_mib());
        let (gpus, architectures) = (resources::accelerators(), offerings::architectures());
        let kilowatts = (0..cpus.len()).map(|row| {
            let watts = f64::from(cpus[row]) / 1000.0 * per_vcpu[architectures[row] as usize]
                + f64::from(memory[row]) / 1024.0 * settings.watts_per_gib
                + gpus[row] * settings.watts_per_gpu;
            watts / 1000.0 * settings.overhead
        });
        Power {
            kilowatts: kilowatts.collect(),
            zone_names: offerings::zone_names(),
            zones: offerings::zones(),
        }
    }
}

/// The region of an AWS zone: `us-east-1a` is in `us-east-1`, `us-west-2-lax-1a` in `us-west-2`.
fn region(zone: &str) -> &str {
    let mut dashes = zone.match_indices('-').map(|(at, _)| at);
    let number = dashes.nth(1).map_or(zone.len(), |at| at + 1);
    let digits = zone[number..]
        .bytes()
        .take_while(u8::is_ascii_digit)
        .count();
    &zone[..number + digits]
}

longshore_sdk::export_scorer!(Carbon);

#[cfg(test)]
mod tests {
    use longshore_sdk::testing::{Offering, with, with_signal};

    use super::*;

    fn scores(settings: Settings, rows: &[Offering]) -> Vec<f64> {
        with(rows, || Carbon::new(settings).unwrap().score().unwrap())
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn a_node_pays_for_what_its_vcpus_and_memory_draw() {
        // 2 × (0.74 + 0.5 × 2.76) + 8 × 0.392 = 7.376 W; × 1.135 = 8.37176 W; × 450 g/kWh =
        // 3.767292 g/h.
        let extra = scores(Settings::default(), &[Offering::default()])[0] - 0.0816;
        assert!(close(extra, 3.767292e-6 * 80.0), "{extra}");
    }

    #[test]
    fn accelerators_and_architectures_count() {
        let arm = Watts {
            rest: 0.5,
            full: 2.0,
        };
        let settings = Settings {
            watts_per_vcpu: BTreeMap::from([("arm64".to_owned(), arm)]),
            watts_per_gib: 0.0,
            overhead: 1.0,
            usd_per_ton: 1e6,
            default_intensity: 1.0,
            ..Settings::default()
        };
        let rows = [
            Offering {
                price: 0.0,
                ..Offering::default()
            },
            Offering {
                price: 0.0,
                architecture: "amd64",
                gpus: 1,
                ..Offering::default()
            },
        ];
        let scores = scores(settings, &rows);
        assert!(
            close(scores[0], 2.0 * 1.25 / 1000.0)
                && close(scores[1], (2.0 * 2.12 + 150.0) / 1000.0),
            "{scores:?}"
        );
    }

    #[test]
    fn the_intensity_is_the_zones_then_the_regions_then_the_default() {
        let zones = ["eu-north-1a", "eu-north-1b", "us-east-1a"];
        let rows = zones.map(|zone| Offering {
            price: 0.0,
            zone,
            ..Offering::default()
        });
        let scores = with_signal(
            SIGNAL,
            &[("eu-north-1", 30.0), ("eu-north-1b", 15.0)],
            || scores(Settings::default(), &rows),
        );
        assert!(
            close(scores[0], 2.0 * scores[1]) && close(scores[2], 15.0 * scores[0]),
            "{scores:?}"
        );
    }

    #[test]
    fn a_region_is_a_zone_without_what_follows_its_number() {
        for (zone, of) in [
            ("us-east-1a", "us-east-1"),
            ("us-west-2-lax-1a", "us-west-2"),
            ("test-zone-a", "test-zone-"),
            ("x", "x"),
        ] {
            assert_eq!(region(zone), of);
        }
    }
}
