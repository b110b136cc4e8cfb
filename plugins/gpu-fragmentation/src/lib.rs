//! GPU fragmentation: a machine with many GPUs costs more where small pods share it.
//!
//! Pods that share a machine end one after the other, and the machine is paid until the last one ends.
//! Meanwhile its free GPUs are pieces: none of them helps a pod that asks for all.
//!
//! n pods that run for times with an exponential distribution and the same mean T: the last one ends
//! after T · H(n) on average, with H(n) = 1 + 1/2 + … + 1/n. They use n · T of n · T · H(n) hours. So an
//! hour in use costs H(n) times as much as on a machine of one pod. A share w of pods stays to its end:
//!
//! effective = c · (1 + w · (H(n) − 1)), n = GPUs of the machine / GPUs of a usual pod, at least 1
//!
//! c is the list price unless a policy before says otherwise.

use longshore_sdk::{About, PerEdition, Scorer, chain, resources};
use serde::Deserialize;

/// More pods than any machine has GPUs for.
const MAX_PODS: f64 = 1024.0;

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Settings {
    gpus_per_pod: f64,
    weight: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            gpus_per_pod: 1.0,
            weight: 0.5,
        }
    }
}

struct GpuFragmentation {
    settings: Settings,
    /// What the cost of each offering is multiplied by.
    factors: PerEdition<Vec<f64>>,
}

impl Scorer for GpuFragmentation {
    const ABOUT: About = About {
        name: "gpu-fragmentation",
        version: env!("CARGO_PKG_VERSION"),
        summary: "Makes machines with many GPUs dearer for what small pods leave idle there.",
        signals: &[],
        settings_schema: include_str!("settings.schema.json"),
    };
    type Settings = Settings;

    fn new(settings: Settings) -> Result<Self, String> {
        Ok(GpuFragmentation {
            settings,
            factors: PerEdition::new(),
        })
    }

    fn score(&mut self) -> Result<Vec<f64>, String> {
        let settings = &self.settings;
        let factors = self.factors.get(|| settings.factors());
        let costs = chain::costs().into_iter().zip(factors);
        Ok(costs.map(|(cost, factor)| cost * factor).collect())
    }
}

impl Settings {
    fn factors(&self) -> Vec<f64> {
        let gpus = resources::accelerators().into_iter();
        gpus.map(|gpus| self.factor(gpus)).collect()
    }

    /// What a machine with so many GPUs costs, as a share of its cost.
    fn factor(&self, gpus: f64) -> f64 {
        let pods = (gpus / self.gpus_per_pod).floor().clamp(1.0, MAX_PODS);
        1.0 + self.weight * (harmonic(pods as u32) - 1.0)
    }
}

/// 1 + 1/2 + … + 1/n.
fn harmonic(n: u32) -> f64 {
    (1..=n).map(|pod| 1.0 / f64::from(pod)).sum()
}

longshore_sdk::export_scorer!(GpuFragmentation);

#[cfg(test)]
mod tests {
    use longshore_sdk::policy::configured;
    use longshore_sdk::testing::{Offering, with};

    use super::*;

    fn machine(instance_type: &'static str, gpus: u32, price: f64) -> Offering {
        Offering {
            instance_type,
            architecture: "amd64",
            gpus,
            price,
            ..Offering::default()
        }
    }

    fn score(settings: &str, rows: &[Offering]) -> Vec<f64> {
        with(rows, || {
            let mut policy = configured::<GpuFragmentation>(settings).unwrap();
            policy.score().unwrap()
        })
    }

    #[test]
    fn golden_vectors() {
        let rows = [
            Offering::default(),
            machine("g6.xlarge", 1, 0.8048),
            machine("g6.12xlarge", 4, 4.6016),
            machine("g6.48xlarge", 8, 13.3504),
        ];
        let mut lines = 0;
        for line in include_str!("golden.tsv").lines() {
            let Some((settings, expected)) = line.split_once('\t') else {
                continue;
            };
            let costs = score(settings, &rows);
            let shown: Vec<String> = costs.iter().map(|cost| format!("{cost:.6}")).collect();
            assert_eq!(shown.join(" "), expected, "{settings}");
            lines += 1;
        }
        assert_eq!(lines, 6);
    }

    /// Pods that end by chance, one after the other: what the formula says of their machine.
    #[test]
    fn a_machine_is_paid_until_its_last_pod_ends() {
        let mut state = 1_u64;
        let mut exponential = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            -((((state >> 11) + 1) as f64) / (1_u64 << 53) as f64).ln()
        };
        for pods in [1, 4, 8] {
            let machines = 20_000;
            let last = |_| (0..pods).map(|_| exponential()).fold(0.0, f64::max);
            let mean = (0..machines).map(last).sum::<f64>() / f64::from(machines);
            let settings = Settings {
                weight: 1.0,
                ..Settings::default()
            };
            let factor = settings.factor(f64::from(pods));
            assert!(
                (mean / factor - 1.0).abs() < 0.02,
                "{pods}: {mean}, {factor}"
            );
        }
    }

    #[test]
    fn small_pods_get_small_machines_and_what_is_excluded_stays_so() {
        // Sixteen vCPUs for each GPU: by price alone four pods share a machine.
        let rows = [
            machine("g5.4xlarge", 1, 1.624),
            machine("g5.12xlarge", 4, 5.672),
            Offering {
                cost: Some(f64::INFINITY),
                ..machine("g5.48xlarge", 8, 16.288)
            },
        ];
        let costs = score("{}", &rows);
        assert!(rows[1].price < 4.0 * rows[0].price);
        assert!(costs[1] > 4.0 * costs[0], "{costs:?}");
        assert_eq!(costs[2], f64::INFINITY);
    }
}
