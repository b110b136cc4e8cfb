//! Properties of policies, held against generated questions until one breaks them.
//!
//! A [`Scorer`] or a [`Judge`] is a component ([`wasm`]) or, in tests, a type. A counterexample is made
//! as small as it gets: of a scorer it is a [case](longshore_policy::Case) to keep beside the others, of
//! a consolidation policy the manifests of a cluster. Question `n` of a seed is the same on every
//! machine.

#![warn(missing_docs)]

mod cases;
mod clusters;
mod drawn;
mod judges;
mod random;
mod scorers;
mod shrink;
pub mod wasm;

pub use judges::{Judge, JudgeProperty, prove_judge};
pub use scorers::{NoCosts, Scorer, ScorerProperty, prove_scorer};

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

/// How a policy is asked.
#[derive(Clone, Debug)]
pub struct ProveOptions {
    /// Where the questions begin.
    pub seed: u64,
    /// How many at most.
    pub cases: u64,
    /// How long at most.
    pub time: Duration,
    /// The policy's settings, which every question has.
    pub settings: Map<String, Value>,
    /// Signals that it declares: questions have numbers for them.
    pub signals: Vec<String>,
    /// The share of the list price that it may take off, 0 to 1.
    pub max_discount: f64,
    /// An offering that becomes dearer must not cost less.
    pub monotone: bool,
}

impl Default for ProveOptions {
    fn default() -> Self {
        ProveOptions {
            seed: 1,
            cases: 1_000_000,
            time: Duration::from_secs(60),
            settings: Map::new(),
            signals: Vec::new(),
            max_discount: longshore_policy::MAX_DISCOUNT,
            monotone: false,
        }
    }
}

/// What became of it.
#[derive(Debug)]
pub struct Proof<P> {
    /// Questions that were asked.
    pub cases: u64,
    /// How long that took.
    pub took: Duration,
    /// What it does badly.
    pub counterexample: Option<Counterexample<P>>,
}

/// A question that a policy answers badly.
#[derive(Clone, Debug)]
pub struct Counterexample<P> {
    /// What it breaks.
    pub property: P,
    /// In words.
    pub why: String,
    /// The question as text.
    pub text: String,
    /// How large it is: offerings, or nodes.
    pub size: usize,
    /// Its number among those of the seed.
    pub number: u64,
}

/// Something that a question is asked of: its number, and whether a fresh instance must be asked.
type Asker<'a, P> = Box<dyn FnMut(u64, bool) -> Option<Counterexample<P>> + 'a>;

/// Questions that one thread takes at a time. It begins them with a fresh instance: so what is found
/// does not depend on which thread took them.
const AT_A_TIME: u64 = 64;

/// Asks questions until one breaks a property, all are asked or the time is over. Each thread has an
/// asker of its own; of what they find the question with the lowest number counts.
fn search<'a, P: Send>(
    options: &ProveOptions,
    asker: impl Fn() -> Asker<'a, P> + Sync,
) -> Proof<P> {
    let begun = Instant::now();
    let (next, lowest) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let work = || {
        let mut ask = asker();
        let mut asked = 0;
        loop {
            let first = next.fetch_add(AT_A_TIME, Ordering::Relaxed);
            for number in first..options.cases.min(first.saturating_add(AT_A_TIME)) {
                if number > lowest.load(Ordering::Relaxed) {
                    return (asked, None);
                }
                asked += 1;
                if let Some(found) = ask(number, number == first) {
                    lowest.fetch_min(number, Ordering::Relaxed);
                    return (asked, Some(found));
                }
                if begun.elapsed() > options.time {
                    return (asked, None);
                }
            }
            if first >= options.cases {
                return (asked, None);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let results: Vec<_> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let own = work();
        // A panic is that of the test double that panicked.
        let others = others.into_iter().map(|other| match other.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        others.chain([own]).collect()
    });
    let cases = results.iter().map(|(asked, _)| asked).sum();
    let found = results.into_iter().filter_map(|(_, found)| found);
    Proof {
        cases,
        took: begun.elapsed(),
        counterexample: found.min_by_key(|found| found.number),
    }
}
