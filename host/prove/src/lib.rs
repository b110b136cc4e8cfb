//! Properties of policies, held against generated questions until one breaks them.
//!
//! A [`Scorer`] or a [`Judge`] is a component ([`wasm`]) or, in tests, a type. A counterexample is made
//! as small as it gets: of a scorer it is a [case](longshore_policy::Case) to keep beside the others, of
//! a consolidation policy the manifests of a cluster. Question `n` of a seed is the same on every
//! machine.

#![warn(missing_docs)]

mod cases;
mod clusters;
mod judges;
mod random;
mod scorers;
mod shrink;
pub mod wasm;

pub use judges::{Judge, JudgeProperty, prove_judge};
pub use scorers::{Scorer, ScorerProperty, prove_scorer};

use std::time::{Duration, Instant};

use serde_json::{Map, Value};

/// How a policy is asked.
#[derive(Clone, Debug)]
pub struct Options {
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

impl Default for Options {
    fn default() -> Self {
        Options {
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

/// Asks one question after the other until one breaks a property, all are asked or the time is over.
fn search<P>(options: &Options, mut ask: impl FnMut(u64) -> Option<Counterexample<P>>) -> Proof<P> {
    let begun = Instant::now();
    for number in 0..options.cases {
        if let Some(found) = ask(number) {
            return Proof {
                cases: number + 1,
                took: begun.elapsed(),
                counterexample: Some(found),
            };
        }
        if begun.elapsed() > options.time {
            return Proof {
                cases: number + 1,
                took: begun.elapsed(),
                counterexample: None,
            };
        }
    }
    Proof {
        cases: options.cases,
        took: begun.elapsed(),
        counterexample: None,
    }
}
