//! Commitments: capacity that is paid for already costs nothing more, for as long as there is some
//! left.
//!
//! Reserved instances, savings plans and private deals become pools: which offerings draw on it,
//! how much one node takes, how much is left. How much is left comes from signal `commitments` (by
//! name), else from the settings. Outside a pool an offering costs what it
//! did before, and a savings plan counts by the list price.

use longshore_sdk::{
    About, Commitments, Keys, PerEdition, Pool, Scorer, Selector, SignalUse, chain, offerings,
    signals,
};
use serde::Deserialize;

/// Where the remaining amount is looked up.
const SIGNAL: &str = "commitments";

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    commitments: Vec<Commitment>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Commitment {
    name: String,
    #[serde(default)]
    offerings: Selector,
    unit: Unit,
    remaining: Option<f64>,
    #[serde(default)]
    percent: f64,
    #[serde(default)]
    price: f64,
}

/// What a commitment counts.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Unit {
    /// Reserved instances.
    Instances,
    /// A private deal by size.
    Vcpus,
    /// A savings plan: USD per hour at the committed rate.
    Usd,
}

struct Prepaid {
    commitments: Vec<Commitment>,
    drawn: PerEdition<Vec<Drawn>>,
}

/// Who draws on a commitment.
#[derive(Debug, Default)]
struct Drawn {
    offerings: Vec<u32>,
    vcpus: Vec<f64>,
}

impl Scorer for Prepaid {
    const ABOUT: About = About {
        name: "commitments",
        version: env!("CARGO_PKG_VERSION"),
        summary: "Reserved instances and savings plans cost nothing more while some is left.",
        signals: &[SignalUse::named(SIGNAL)],
        settings_schema: include_str!("settings.schema.json"),
    };
    type Settings = Settings;

    fn new(settings: Settings) -> Result<Self, String> {
        let mut commitments = settings.commitments;
        for (at, commitment) in commitments.iter_mut().enumerate() {
            if commitment.percent != 0.0 && commitment.unit != Unit::Usd {
                return Err(format!(
                    "`commitments[{at}].percent` is for unit \"usd\"; use `price`"
                ));
            }
            if commitment.price != 0.0 && commitment.unit == Unit::Usd {
                return Err(format!(
                    "`commitments[{at}].price`: a commitment in USD is paid already; use `percent`"
                ));
            }
            commitment
                .offerings
                .capacity_type
                .get_or_insert_with(|| "on-demand".to_owned());
        }
        for (at, commitment) in commitments.iter().enumerate() {
            if commitments[..at]
                .iter()
                .any(|before| before.name == commitment.name)
            {
                return Err(format!(
                    "`commitments[{at}].name`: {:?} is taken",
                    commitment.name
                ));
            }
        }
        Ok(Prepaid {
            commitments,
            drawn: PerEdition::new(),
        })
    }

    fn score(&mut self) -> Result<Vec<f64>, String> {
        Ok(chain::costs())
    }
}

impl Commitments for Prepaid {
    fn pools(&mut self) -> Result<Vec<Pool>, String> {
        let commitments = &self.commitments;
        let drawn = self.drawn.get(|| drawn(commitments));
        let prices = offerings::prices();
        let mut pools = remaining(commitments)?;
        for ((pool, commitment), drawn) in pools.iter_mut().zip(commitments).zip(drawn) {
            (pool.amounts, pool.costs) = draws(commitment, drawn, &prices);
            pool.offerings.clone_from(&drawn.offerings);
            // Free things draw nothing.
            if pool.amounts.iter().any(|&amount| amount <= 0.0) {
                let draws = std::mem::take(&mut pool.amounts)
                    .into_iter()
                    .zip(std::mem::take(&mut pool.costs));
                let rows = std::mem::take(&mut pool.offerings).into_iter().zip(draws);
                rows.filter(|(_, (amount, _))| *amount > 0.0)
                    .for_each(|(row, (amount, cost))| pool.draw(row, amount, cost));
            }
        }
        Ok(pools)
    }
}

/// Rows by commitment: each draws on the first that matches.
fn drawn(commitments: &[Commitment]) -> Vec<Drawn> {
    let first = Keys::pull().first_match(commitments.iter().map(|c| &c.offerings));
    let mut drawn: Vec<Drawn> = commitments.iter().map(|_| Drawn::default()).collect();
    for ((row, at), millicores) in first
        .into_iter()
        .enumerate()
        .zip(offerings::cpu_millicores())
    {
        let Some(at) = at else { continue };
        drawn[at].offerings.push(row as u32);
        drawn[at].vcpus.push(f64::from(millicores) / 1000.0);
    }
    drawn
}

/// Pools without their draws: what is left by the signal, else by the settings.
fn remaining(commitments: &[Commitment]) -> Result<Vec<Pool>, String> {
    let signal = signals::get(SIGNAL).unwrap_or_default();
    let pool = |commitment: &Commitment| {
        let remaining = signal
            .value(&commitment.name)
            .or(commitment.remaining)
            .ok_or_else(|| {
                format!(
                    "neither signal `{SIGNAL}` nor `remaining` says how much of `{}` is left",
                    commitment.name
                )
            })?;
        Ok(Pool {
            name: commitment.name.clone(),
            remaining: remaining.max(0.0),
            ..Pool::default()
        })
    };
    commitments.iter().map(pool).collect()
}

/// What one node of each offering takes of a commitment, and what it still costs inside (USD per
/// hour).
fn draws(commitment: &Commitment, drawn: &Drawn, prices: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let count = drawn.offerings.len();
    match commitment.unit {
        Unit::Instances => (vec![1.0; count], vec![commitment.price; count]),
        Unit::Vcpus => (
            drawn.vcpus.clone(),
            drawn
                .vcpus
                .iter()
                .map(|vcpus| commitment.price * vcpus)
                .collect(),
        ),
        Unit::Usd => {
            let share = 1.0 - commitment.percent / 100.0;
            let amounts = drawn
                .offerings
                .iter()
                .map(|&row| prices[row as usize] * share);
            (amounts.collect(), vec![0.0; count])
        }
    }
}

longshore_sdk::export_commitments!(Prepaid);

#[cfg(test)]
mod tests {
    use longshore_sdk::testing::{Offering, with, with_signal};

    use super::*;

    fn rows() -> [Offering; 3] {
        [
            ("m7g.large", "on-demand", 0.08),
            ("m7g.large", "spot", 0.03),
            ("c7g.xlarge", "on-demand", 0.15),
        ]
        .map(|(instance_type, capacity_type, price)| Offering {
            instance_type,
            capacity_type,
            price,
            ..Offering::default()
        })
    }

    fn commitment(name: &str, unit: Unit, remaining: Option<f64>) -> Commitment {
        let (name, offerings) = (name.to_owned(), Selector::default());
        Commitment {
            name,
            offerings,
            unit,
            remaining,
            percent: 0.0,
            price: 0.0,
        }
    }

    fn pools(commitments: Vec<Commitment>) -> Result<Vec<Pool>, String> {
        with(&rows(), || Prepaid::new(Settings { commitments })?.pools())
    }

    #[test]
    fn an_offering_draws_on_the_first_commitment_that_matches() {
        let offerings = Selector {
            instance_type: Some("m7g.*".to_owned()),
            ..Selector::default()
        };
        let reserved = Commitment {
            offerings,
            price: 0.01,
            ..commitment("ri", Unit::Instances, Some(3.0))
        };
        let plan = Commitment {
            percent: 20.0,
            ..commitment("sp", Unit::Usd, Some(5.0))
        };
        let expected = [
            Pool {
                name: "ri".into(),
                remaining: 3.0,
                offerings: vec![0],
                amounts: vec![1.0],
                costs: vec![0.01],
            },
            Pool {
                name: "sp".into(),
                remaining: 5.0,
                offerings: vec![2],
                amounts: vec![0.15 * 0.8],
                costs: vec![0.0],
            },
        ];
        assert_eq!(pools(vec![reserved, plan]).unwrap(), expected);
    }

    #[test]
    fn what_costs_nothing_draws_nothing() {
        let [first, _, last] = rows();
        let rows = [
            first.clone(),
            Offering {
                price: 0.0,
                ..first
            },
            last,
        ];
        let plan = commitment("sp", Unit::Usd, Some(5.0));
        let pools = with(&rows, || {
            Prepaid::new(Settings {
                commitments: vec![plan],
            })
            .unwrap()
            .pools()
        });
        assert_eq!(pools.unwrap()[0].offerings, [0, 2]);
    }

    #[test]
    fn vcpus_are_counted_by_size() {
        let deal = Commitment {
            price: 0.01,
            ..commitment("deal", Unit::Vcpus, Some(64.0))
        };
        let pool = pools(vec![deal]).unwrap().remove(0);
        assert_eq!(
            (pool.amounts, pool.costs),
            (vec![2.0, 2.0], vec![0.02, 0.02])
        );
    }

    #[test]
    fn the_signal_outranks_the_settings_and_one_of_them_must_know() {
        let deal = |remaining| vec![commitment("deal", Unit::Instances, remaining)];
        let left = |remaining| {
            with_signal(SIGNAL, &[("deal", 2.0)], || {
                pools(deal(remaining)).unwrap()[0].remaining
            })
        };
        assert_eq!((left(Some(9.0)), left(None)), (2.0, 2.0));
        assert_eq!(
            pools(deal(None)).unwrap_err(),
            "neither signal `commitments` nor `remaining` says how much of `deal` is left"
        );
    }

    #[test]
    fn outside_a_pool_an_offering_costs_its_price() {
        let scores = with(&rows(), || {
            Prepaid::new(Settings::default()).unwrap().score().unwrap()
        });
        assert_eq!(scores, [0.08, 0.03, 0.15]);
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let problem = |commitments| Prepaid::new(Settings { commitments }).err().unwrap();
        let wrong = Commitment {
            percent: 5.0,
            ..commitment("a", Unit::Vcpus, None)
        };
        assert_eq!(
            problem(vec![wrong]),
            "`commitments[0].percent` is for unit \"usd\"; use `price`"
        );
        let twice = vec![
            commitment("a", Unit::Usd, None),
            commitment("a", Unit::Usd, None),
        ];
        assert_eq!(problem(twice), "`commitments[1].name`: \"a\" is taken");
    }
}
