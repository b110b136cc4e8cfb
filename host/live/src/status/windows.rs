//! Rounds that were planned with and without a version, summed over an hour, a day and a week: what a
//! shadow would have bought, by NodePool, and one sentence about it.
//!
//! The sums are this process's; a restart begins them anew. What decides about canaries is kept in
//! the cluster (`crate::canary`).

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

/// The windows: name, seconds, and seconds of a part of it.
const SPANS: [(&str, i64, i64); 3] = [
    ("1h", 3600, 300),
    ("24h", 86_400, 3600),
    ("7d", 7 * 86_400, 6 * 3600),
];
/// Differences that are shown.
const MAX_DIFFERENCES: usize = 5;
/// Differences of cost below this are none, in USD per hour.
const EQUAL_WITHIN_USD: f64 = 1e-6;

/// A round that was planned twice.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Replanned {
    /// By NodePool: without the version, and with it.
    pub pools: BTreeMap<String, (Side, Side)>,
    pub left: u64,
    pub left_instead: u64,
    /// NodeClaims of the plan without it whose offering it excludes.
    pub excluded: u64,
    /// By the clock, and the largest share of a call's fuel.
    pub seconds: f64,
    pub fuel: f64,
    pub differences: Vec<Difference>,
}

/// What a plan buys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Side {
    /// Number of NodeClaims.
    pub claims: u64,
    /// Their list price in USD per hour.
    pub usd: f64,
}

/// A NodePool of a round for which something else would have been bought.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Difference {
    /// When, seconds since 1970.
    pub at: i64,
    pub nodepool: String,
    /// Without the version and with it, USD per hour.
    pub usd: f64,
    pub usd_instead: f64,
}

/// Sums over a span of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sums {
    /// Rounds that were planned twice.
    pub rounds: u64,
    /// Rounds in which the version gave no answer.
    pub failures: u64,
    /// Pods without a node: without the version, and with it.
    pub left: u64,
    pub left_instead: u64,
    /// NodeClaims of plans without it whose offering it excludes.
    pub excluded: u64,
    /// What its plans took by the clock, all together.
    pub seconds: f64,
    /// The largest share of a call's fuel.
    pub fuel_ratio: f64,
    /// What plans without it buy, by NodePool.
    pub pools: BTreeMap<String, Side>,
    /// What plans with it buy.
    pub pools_instead: BTreeMap<String, Side>,
}

/// A window, as the status shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Window {
    /// `1h`, `24h`, `7d`.
    pub span: String,
    #[serde(flatten)]
    pub sums: Sums,
    /// The comparison in one sentence.
    pub verdict: String,
}

/// Sums of the last hour, day and week.
#[derive(Clone, Debug, Default)]
pub(crate) struct Windows {
    parts: [VecDeque<(i64, Sums)>; 3],
    largest: VecDeque<Difference>,
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        self.rounds += other.rounds;
        self.failures += other.failures;
        self.left += other.left;
        self.left_instead += other.left_instead;
        self.excluded += other.excluded;
        self.seconds += other.seconds;
        self.fuel_ratio = self.fuel_ratio.max(other.fuel_ratio);
        let both = [
            (&mut self.pools, &other.pools),
            (&mut self.pools_instead, &other.pools_instead),
        ];
        for (sums, others) in both {
            for (pool, side) in others {
                let sum = sums.entry(pool.clone()).or_default();
                (sum.claims, sum.usd) = (sum.claims + side.claims, sum.usd + side.usd);
            }
        }
    }

    fn of(round: &Replanned) -> Self {
        let side = |of: fn(&(Side, Side)) -> Side| {
            let pools = round.pools.iter();
            pools
                .map(|(pool, sides)| (pool.clone(), of(sides)))
                .collect()
        };
        Sums {
            rounds: 1,
            failures: 0,
            left: round.left,
            left_instead: round.left_instead,
            excluded: round.excluded,
            seconds: round.seconds,
            fuel_ratio: round.fuel,
            pools: side(|sides| sides.0),
            pools_instead: side(|sides| sides.1),
        }
    }

    /// What that comes to, in one sentence.
    pub fn verdict(&self) -> String {
        if self.rounds == 0 {
            return match self.failures {
                0 => "no round was planned with it".into(),
                failures => format!("it gave no answer in {failures} rounds"),
            };
        }
        let usd = |pools: &BTreeMap<String, Side>| pools.values().map(|side| side.usd).sum::<f64>();
        let (old, new) = (usd(&self.pools), usd(&self.pools_instead));
        let cost = match new - old {
            change if change.abs() <= EQUAL_WITHIN_USD => "it costs the same".to_owned(),
            change if change < 0.0 => format!("it saves {:.4} of {old:.4} USD/h", -change),
            change => format!("it costs {change:.4} USD/h more than {old:.4}"),
        };
        let left = match (self.left, self.left_instead) {
            (old, new) if new > old => format!(" and leaves {} more pods over", new - old),
            (old, new) if new < old => format!(" and leaves {} fewer pods over", old - new),
            _ => " and leaves as many pods over".to_owned(),
        };
        let failures = match self.failures {
            0 => String::new(),
            failures => format!(", and gave no answer in {failures} more"),
        };
        format!("in {} rounds {cost}{left}{failures}", self.rounds)
    }
}

impl Windows {
    /// Takes in a round at `now`, or that there was no answer.
    pub fn add(&mut self, round: Option<&Replanned>, now: i64) {
        let sums = match round {
            Some(round) => Sums::of(round),
            None => Sums {
                failures: 1,
                ..Sums::default()
            },
        };
        for ((_, span, part), parts) in SPANS.iter().zip(&mut self.parts) {
            let begins = now - now.rem_euclid(*part);
            match parts.back_mut().filter(|(at, _)| *at == begins) {
                Some((_, known)) => known.add(&sums),
                None => parts.push_back((begins, sums.clone())),
            }
            while parts.front().is_some_and(|(at, _)| at + part + span <= now) {
                parts.pop_front();
            }
        }
        let apart = |of: &Difference| (of.usd_instead - of.usd).abs();
        let news = round.iter().flat_map(|round| &round.differences);
        self.largest
            .extend(news.filter(|of| apart(of) > EQUAL_WITHIN_USD).cloned());
        self.largest.retain(|of| of.at + SPANS[2].1 > now);
        let largest = self.largest.make_contiguous();
        largest.sort_by(|a, b| apart(b).total_cmp(&apart(a)));
        self.largest.truncate(MAX_DIFFERENCES);
    }

    /// Each window as of `now`.
    pub fn all(&self, now: i64) -> Vec<Window> {
        let window = |((name, span, part), parts): (&(&str, i64, i64), &VecDeque<(i64, Sums)>)| {
            let mut sums = Sums::default();
            let recent = parts.iter().filter(|(at, _)| at + part + span > now);
            recent.for_each(|(_, of)| sums.add(of));
            Window {
                span: (*name).to_owned(),
                verdict: sums.verdict(),
                sums,
            }
        };
        SPANS.iter().zip(&self.parts).map(window).collect()
    }

    /// The largest differences of a week.
    pub fn largest(&self) -> Vec<Difference> {
        self.largest.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(usd: (f64, f64), left: (u64, u64), at: i64) -> Replanned {
        let side = |usd| Side { claims: 1, usd };
        Replanned {
            pools: [("web".to_owned(), (side(usd.0), side(usd.1)))].into(),
            left: left.0,
            left_instead: left.1,
            differences: vec![Difference {
                at,
                nodepool: "web".to_owned(),
                usd: usd.0,
                usd_instead: usd.1,
            }],
            ..Replanned::default()
        }
    }

    fn verdicts(windows: &Windows, now: i64) -> Vec<String> {
        windows.all(now).into_iter().map(|of| of.verdict).collect()
    }

    #[test]
    fn a_round_leaves_the_hour_before_the_day_and_the_week() {
        let mut windows = Windows::default();
        windows.add(Some(&round((2.0, 1.5), (0, 0), 0)), 0);
        let saves = "in 1 rounds it saves 0.5000 of 2.0000 USD/h and leaves as many pods over";
        let none = "no round was planned with it";
        assert_eq!(verdicts(&windows, 3600), [saves; 3]);
        assert_eq!(verdicts(&windows, 4000), [none, saves, saves]);
        assert_eq!(verdicts(&windows, 90_000), [none, none, saves]);
        assert_eq!(verdicts(&windows, 8 * 86_400), [none; 3]);
    }

    #[test]
    fn its_sentence_has_cost_pods_and_failures() {
        let mut windows = Windows::default();
        windows.add(Some(&round((1.0, 1.25), (0, 2), 10)), 10);
        windows.add(None, 11);
        assert_eq!(
            verdicts(&windows, 20)[0],
            "in 1 rounds it costs 0.2500 USD/h more than 1.0000 and leaves 2 more pods over, and gave no \
             answer in 1 more"
        );
    }

    #[test]
    fn the_five_largest_differences_of_a_week_are_kept() {
        let mut windows = Windows::default();
        for at in 0..8 {
            windows.add(
                Some(&round((1.0, 1.0 + f64::from(at as i32)), (0, 0), at)),
                at,
            );
        }
        let found: Vec<f64> = windows.largest().iter().map(|of| of.usd_instead).collect();
        assert_eq!(found, [8.0, 7.0, 6.0, 5.0, 4.0]);
        windows.add(Some(&round((1.0, 1.0), (0, 0), 604_806)), 604_806);
        assert_eq!(
            windows.largest().len(),
            1,
            "the others are older than a week"
        );
    }
}
