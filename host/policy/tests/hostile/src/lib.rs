//! A policy that misbehaves as configured, for tests of the host.

use longshore_sdk::{
    About, Commitments, Pool, Scorer, chain, joined, labels, log, node_pool, offerings, request,
    resources, signals,
};
use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Hostile {
    mode: String,
    #[serde(skip)]
    hoard: Vec<Vec<u8>>,
}

impl Scorer for Hostile {
    const ABOUT: About = About {
        name: "hostile",
        version: "6.6.6",
        summary: "Misbehaves.",
        signals: &[],
        settings_schema: r#"{"type": "object", "properties": {"mode": {"type": "string"}}}"#,
    };
    type Settings = Hostile;

    fn new(settings: Hostile) -> Result<Self, String> {
        match settings.mode.as_str() {
            "configure-refuses" => Err("I do not like these settings".to_owned()),
            "configure-panics" => panic!("cannot be configured"),
            _ => Ok(settings),
        }
    }

    fn score(&mut self) -> Result<Vec<f64>, String> {
        let prices = chain::costs();
        let with = |at: usize, cost: f64| {
            let mut all = prices.clone();
            all[at] = cost;
            Ok(all)
        };
        match self.mode.as_str() {
            "loop" => loop {
                std::hint::black_box(());
            },
            "memory" => {
                let mut hog = Vec::new();
                loop {
                    hog.push(vec![1_u8; 1 << 20]);
                }
            }
            "panic" => panic!("out of ideas"),
            "unreachable" => unreachable(),
            "recursion" => Err(recurse(1).to_string()),
            "nan" => with(3, f64::NAN),
            "negative" => with(4, -1.0),
            "minus-infinity" => with(5, f64::NEG_INFINITY),
            "dear" => with(6, 1e300),
            "free" => Ok(vec![0.0; prices.len()]),
            "free-p5" => with(7, 0.0),
            "exclude-half" => {
                let half = prices.len() / 2;
                Ok(prices
                    .iter()
                    .enumerate()
                    .map(|(at, &price)| if at < half { f64::INFINITY } else { price })
                    .collect())
            }
            "exclude-odd" => {
                let odd = |(at, price): (usize, &f64)| match at % 2 {
                    0 => *price,
                    _ => f64::INFINITY,
                };
                Ok(prices.iter().enumerate().map(odd).collect())
            }
            // Excludes even rows in one second and odd rows in the next.
            "flips" => {
                let even = request::now() as u64 % 2;
                let cost = |(at, price): (usize, &f64)| match at as u64 % 2 == even {
                    true => *price,
                    false => f64::INFINITY,
                };
                Ok(prices.iter().enumerate().map(cost).collect())
            }
            // Much of the fuel of a call, for each NodePool anew.
            "slow" => {
                std::hint::black_box(node_pool::name());
                for turn in 0..10_000_000_u64 {
                    std::hint::black_box(turn);
                }
                Ok(prices)
            }
            // Just under the memory of a policy, which it keeps.
            "hog" => {
                std::hint::black_box(node_pool::name());
                let taken: usize = self.hoard.iter().map(Vec::len).sum();
                if taken < 56 << 20 {
                    self.hoard.extend((0..56).map(|_| vec![1; 1 << 20]));
                }
                Ok(prices)
            }
            // Another answer each time that it is asked.
            "two-answers" => {
                std::hint::black_box(node_pool::name());
                self.hoard.push(Vec::new());
                Ok(prices
                    .iter()
                    .map(|price| price * self.hoard.len() as f64)
                    .collect())
            }
            "asks-name" => {
                std::hint::black_box(node_pool::name());
                Ok(prices)
            }
            "asks-time" => {
                std::hint::black_box(request::now());
                Ok(prices)
            }
            "log" => {
                log::info("once more");
                Ok(prices)
            }
            "tells-pool" => Err(format!(
                "{} {:?} {:?} {}",
                node_pool::name(),
                node_pool::labels(),
                node_pool::annotations(),
                node_pool::weight()
            )),
            "tells-details" => {
                let of = |key: &str| labels::values(key)[labels::rows(key)[6] as usize].clone();
                let keys = labels::keys().join(" ");
                let cpu = resources::capacity("cpu")[6];
                let memory = resources::allocatable("memory")[6];
                let names = resources::names().join(" ");
                let (zone, arch) = (of("topology.kubernetes.io/zone"), of("kubernetes.io/arch"));
                let none = (
                    of("no-such-label"),
                    resources::capacity("no-such-resource")[6],
                );
                Err(format!(
                    "{keys}; {zone} {arch}; {names}; {cpu} {memory}; {none:?}"
                ))
            }
            // What it was never declared to read.
            "secret" => Err(format!(
                "secret: {:?}",
                signals::get("secret").map(|signal| signal.value("m7g"))
            )),
            "rates" => {
                let known = joined::column("interruption-rates")
                    .into_iter()
                    .flatten()
                    .count();
                Err(format!("{known} rates"))
            }
            "bidi" => Err("\u{202e}llew si lla\u{2066}\nERROR forged\u{200b}".to_owned()),
            "log-empty" => {
                for _ in 0..5000 {
                    log::error("");
                }
                Ok(prices)
            }
            "short" => Ok(prices[1..].to_vec()),
            "long" => Ok([prices.as_slice(), &[1.0]].concat()),
            "huge" => Ok(vec![1.0; 5_000_000]),
            "excluded" => Ok(vec![f64::INFINITY; prices.len()]),
            "error" => Err("no".to_owned()),
            "long-error" => Err("x".repeat(10 << 20)),
            // SAFETY: none; the text is not UTF-8, which is what the host must notice.
            "not-utf8" => Err(unsafe { String::from_utf8_unchecked(vec![0xff; 16]) }),
            "escape-codes" => Err("\u{1b}[2Jgone\u{7}".to_owned()),
            "log-spam" => loop {
                log::info("spam");
            },
            "log-flood" => {
                for _ in 0..100 {
                    log::warn(&"flood ".repeat(1000));
                }
                Ok(prices)
            }
            "long-log" => {
                log::info(&"x".repeat(40 << 20));
                Ok(prices)
            }
            "column-spam" => loop {
                std::hint::black_box(offerings::instance_type_names());
            },
            _ => Ok(prices),
        }
    }
}

impl Commitments for Hostile {
    fn pools(&mut self) -> Result<Vec<Pool>, String> {
        let pool = Pool {
            name: "pool".to_owned(),
            remaining: 1.0,
            ..Pool::default()
        };
        match self.mode.as_str() {
            "pool-row" => Ok(vec![Pool {
                offerings: vec![u32::MAX],
                amounts: vec![1.0],
                costs: vec![0.0],
                ..pool
            }]),
            "pool-twice" => Ok(vec![Pool {
                offerings: vec![1, 1],
                amounts: vec![1.0; 2],
                costs: vec![0.0; 2],
                ..pool
            }]),
            "pool-names" => Ok(vec![pool.clone(), pool]),
            "pool-columns" => Ok(vec![Pool {
                offerings: vec![1],
                ..pool
            }]),
            "pool-dust" => Ok(vec![Pool {
                offerings: vec![1],
                amounts: vec![5e-324],
                costs: vec![0.0],
                ..pool
            }]),
            "pool-dear" => Ok(vec![Pool {
                offerings: vec![1],
                amounts: vec![1.0],
                costs: vec![1e308],
                ..pool
            }]),
            "pool-endless" => Ok(vec![Pool {
                remaining: 1e300,
                ..pool
            }]),
            "pool-nan" => Ok(vec![Pool {
                remaining: f64::NAN,
                ..pool
            }]),
            _ => Ok(vec![]),
        }
    }
}

#[cfg(target_arch = "wasm32")]
fn unreachable() -> ! {
    core::arch::wasm32::unreachable()
}

#[cfg(not(target_arch = "wasm32"))]
fn unreachable() -> ! {
    std::process::abort()
}

#[allow(unconditional_recursion)]
fn recurse(depth: u64) -> u64 {
    std::hint::black_box(recurse(std::hint::black_box(depth + 1))) + 1
}

longshore_sdk::export_commitments!(Hostile);
