//! Zone balance: zones that are ahead of others cost more, and so does traffic between zones.
//!
//! Balance. vCPUs of a zone are counted in steps. The first step costs what it costs. With each further
//! step a vCPU costs u USD per hour more. One cost for each offering cannot say that, for it is the same
//! for the first node of a plan and for the last. So each step of a zone is a pool of a
//! [commitment](Commitments): while vCPUs are left in it, a node costs its share of that step.
//!
//! step k of a zone, from 0: effective = b + vCPUs · u · k
//!
//! Signal `zone-vcpus` says what zones have already. A zone begins at the step that it is ahead of the
//! one with the least. Without the signal, zones are even before each plan.
//!
//! Traffic. Signal `zone-peers` says where those are that the pods talk to, as weights of zones. What is
//! in another zone than a node costs:
//!
//! b = c + vCPUs · GiB per vCPU and hour · USD per GiB · (1 − share of the node's zone)
//!
//! c is the list price unless a policy before says otherwise.

use longshore_sdk::{
    About, Commitments, PerEdition, Pool, Scorer, SignalUse, chain, offerings, signals,
};
use serde::Deserialize;

/// vCPUs that each zone has.
const VCPUS: &str = "zone-vcpus";
/// Weights of zones by those that pods talk to.
const PEERS: &str = "zone-peers";
/// Steps of a zone in one plan. What goes beyond costs as much as the next one.
const STEPS: u32 = 4;
/// No zone is further ahead than that.
const MAX_AHEAD: f64 = 64.0;

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Settings {
    usd_per_vcpu: f64,
    step: f64,
    gib_per_vcpu: f64,
    usd_per_gib: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            usd_per_vcpu: 0.001,
            step: 16.0,
            gib_per_vcpu: 0.0,
            usd_per_gib: 0.02,
        }
    }
}

struct ZoneBalance {
    settings: Settings,
    machines: PerEdition<Machines>,
    /// Costs with traffic, in the first step, of the last question.
    costs: Vec<f64>,
}

/// What depends on static columns only.
struct Machines {
    vcpus: Vec<f64>,
    zone_names: Vec<String>,
    zones: Vec<u32>,
    /// Rows with vCPUs of each zone.
    rows: Vec<Vec<u32>>,
}

impl Machines {
    fn pull() -> Self {
        let millicores = offerings::cpu_millicores().into_iter();
        let vcpus: Vec<f64> = millicores.map(|all| f64::from(all) / 1000.0).collect();
        let (zone_names, zones) = (offerings::zone_names(), offerings::zones());
        let mut rows = vec![Vec::new(); zone_names.len()];
        for (row, &zone) in (0..).zip(&zones) {
            if vcpus[row as usize] > 0.0 {
                rows[zone as usize].push(row);
            }
        }
        Machines {
            vcpus,
            zone_names,
            zones,
            rows,
        }
    }
}

impl Scorer for ZoneBalance {
    const ABOUT: About = About {
        name: "zone-balance",
        version: env!("CARGO_PKG_VERSION"),
        summary: "Makes zones dearer that are ahead of others, and traffic between zones.",
        signals: &[SignalUse::named(VCPUS), SignalUse::named(PEERS)],
        settings_schema: include_str!("settings.schema.json"),
    };
    type Settings = Settings;

    fn new(settings: Settings) -> Result<Self, String> {
        Ok(ZoneBalance {
            settings,
            machines: PerEdition::new(),
            costs: Vec::new(),
        })
    }

    fn score(&mut self) -> Result<Vec<f64>, String> {
        let machines = self.machines.get(Machines::pull);
        let names = &machines.zone_names;
        let traffic = self.settings.traffic(names);
        // What the step beyond the last costs for a vCPU of each zone.
        let ahead = names.iter().zip(self.settings.ahead(names));
        let beyond: Vec<f64> = ahead
            .map(|(name, ahead)| match &**name {
                "" => 0.0,
                _ => self.settings.usd_per_vcpu * (ahead.floor() + f64::from(STEPS)),
            })
            .collect();
        self.costs = chain::costs();
        let rows = machines.zones.iter().zip(&machines.vcpus);
        let answer = self
            .costs
            .iter_mut()
            .zip(rows)
            .map(|(cost, (&zone, vcpus))| {
                *cost += vcpus * traffic[zone as usize];
                *cost + vcpus * beyond[zone as usize]
            });
        Ok(answer.collect())
    }
}

impl Commitments for ZoneBalance {
    fn pools(&mut self) -> Result<Vec<Pool>, String> {
        let machines = self.machines.get(Machines::pull);
        let ahead = self.settings.ahead(&machines.zone_names);
        if self.settings.usd_per_vcpu == 0.0 {
            return Ok(Vec::new());
        }
        let mut pools = Vec::new();
        for (zone, name) in machines.zone_names.iter().enumerate() {
            if name.is_empty() {
                continue;
            }
            let first = ahead[zone].floor();
            // Some of the first step is taken already.
            let mut left = self.settings.step * (first + 1.0 - ahead[zone]);
            let of = |row: u32| (self.costs[row as usize], machines.vcpus[row as usize]);
            let mut rows = machines.rows[zone].clone();
            rows.retain(|&row| of(row).0.is_finite());
            let (costs, vcpus): (Vec<f64>, Vec<f64>) = rows.iter().map(|&row| of(row)).unzip();
            // What is larger than a step takes a whole one.
            let amounts = vcpus.iter().map(|vcpus| vcpus.min(self.settings.step));
            let amounts: Vec<f64> = amounts.collect();
            for step in 0..STEPS {
                let step = first + f64::from(step);
                let usd = self.settings.usd_per_vcpu * step;
                let all = costs.iter().zip(&vcpus);
                pools.push(Pool {
                    name: format!("{name}, step {step}"),
                    remaining: left,
                    offerings: rows.clone(),
                    amounts: amounts.clone(),
                    costs: all.map(|(cost, vcpus)| cost + vcpus * usd).collect(),
                });
                left = self.settings.step;
            }
        }
        Ok(pools)
    }
}

impl Settings {
    /// What traffic costs for a vCPU of each zone, in USD per hour.
    fn traffic(&self, zones: &[String]) -> Vec<f64> {
        let peers = signals::get(PEERS).unwrap_or_default();
        let weight = |zone: &String| peers.value(zone).unwrap_or(0.0).max(0.0);
        let all: f64 = peers.values().iter().map(|weight| weight.max(0.0)).sum();
        let elsewhere = |zone: &String| match all > 0.0 {
            true => 1.0 - weight(zone) / all,
            // Where peers are is not known: no zone is better for it.
            false => 0.0,
        };
        let usd = self.gib_per_vcpu * self.usd_per_gib;
        zones.iter().map(|zone| usd * elsewhere(zone)).collect()
    }

    /// How many steps each zone is ahead of the one with the least.
    fn ahead(&self, zones: &[String]) -> Vec<f64> {
        let vcpus = signals::get(VCPUS).unwrap_or_default();
        let of = |zone: &String| vcpus.value(zone).unwrap_or(0.0).max(0.0);
        let named = zones.iter().filter(|zone| !zone.is_empty());
        let least = named.map(of).fold(f64::INFINITY, f64::min);
        let steps = zones.iter().map(|zone| (of(zone) - least) / self.step);
        steps.map(|steps| steps.clamp(0.0, MAX_AHEAD)).collect()
    }
}

longshore_sdk::export_commitments!(ZoneBalance);

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use longshore_sdk::policy::configured;
    use longshore_sdk::testing::{Offering, with, with_signal};

    use super::*;

    /// The offerings of golden.tsv.
    fn offerings() -> [Offering; 4] {
        let small = Offering::default();
        [
            small.clone(),
            Offering {
                zone: "us-east-1b",
                ..small.clone()
            },
            Offering {
                instance_type: "m7g.8xlarge",
                zone: "us-east-1b",
                cpu_millicores: 32_000,
                price: 1.3056,
                ..small.clone()
            },
            Offering {
                zone: "",
                price: 0.1,
                ..small
            },
        ]
    }

    /// `us-east-1a=40 us-east-1b=4` as rows of a signal.
    fn rows(text: &str) -> Vec<(&str, f64)> {
        text.split_whitespace()
            .filter_map(|pair| pair.split_once('='))
            .map(|(zone, number)| (zone, number.parse().unwrap()))
            .collect()
    }

    /// What is answered, as a line: costs, then each pool with what is left and its costs.
    fn answer(settings: &str, vcpus: &str, peers: &str, all: &[Offering]) -> String {
        let ask = || {
            with(all, || {
                let mut policy = configured::<ZoneBalance>(settings).unwrap();
                (policy.score().unwrap(), policy.pools().unwrap())
            })
        };
        let with_peers = || match peers {
            "" => ask(),
            _ => with_signal(PEERS, &rows(peers), ask),
        };
        let (costs, pools) = match vcpus {
            "" => with_peers(),
            _ => with_signal(VCPUS, &rows(vcpus), with_peers),
        };
        let numbers = |all: &[f64]| {
            let shown: Vec<String> = all.iter().map(|cost| format!("{cost:.4}")).collect();
            shown.join(" ")
        };
        let mut line = numbers(&costs);
        for pool in pools {
            let zone = pool.name.trim_start_matches("us-east-");
            let _ = write!(
                line,
                "; {zone} {}: {}",
                pool.remaining,
                numbers(&pool.costs)
            );
        }
        line
    }

    #[test]
    fn golden_vectors() {
        let mut lines = 0;
        for line in include_str!("golden.tsv")
            .lines()
            .filter(|line| !line.starts_with('#'))
        {
            let [settings, vcpus, peers, expected] =
                <[&str; 4]>::try_from(line.split('\t').collect::<Vec<_>>()).expect(line);
            assert_eq!(
                answer(settings, vcpus, peers, &offerings()),
                expected,
                "{line}"
            );
            lines += 1;
        }
        assert_eq!(lines, 4);
    }

    #[test]
    fn what_is_excluded_is_in_no_pool() {
        let excluded = Offering {
            cost: Some(f64::INFINITY),
            ..Offering::default()
        };
        let line = answer("{}", "", "", &[excluded]);
        assert!(line.starts_with("inf; 1a, step 0 16: ; "), "{line}");
    }

    #[test]
    fn a_machine_that_is_larger_than_a_step_takes_a_whole_one() {
        with(&offerings(), || {
            let mut policy = configured::<ZoneBalance>("{}").unwrap();
            policy.score().unwrap();
            let pools = policy.pools().unwrap();
            assert_eq!(pools[4].name, "us-east-1b, step 0");
            assert_eq!(pools[4].amounts, [2.0, 16.0]);
        });
    }
}
