//! Golden vectors: cases that a component carries in a custom section, and answers before it is used.
//!
//! `longshore-policy build` and `policy test --record` write the section; `longshore-golden` reads it.

use std::time::Instant;

pub use longshore_golden::{cases, with_cases};

use crate::call::answer::CallError;
use crate::cases::{Case, CaseError};
use crate::guest_text::{cut, printable};
use crate::loaded::LoadedPolicy;
use crate::round_budget::ROUND_TIME;

/// Most offerings that one vector may have.
const MAX_ROWS: usize = 2000;
/// Longest of what is wrong with one, in characters.
const MAX_PROBLEM: usize = 1000;

/// What became of a component's golden vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Golden {
    /// The component has no such section.
    Missing,
    /// It has none that can be asked: only scorers have.
    NotAsked,
    /// It answers so many as they say.
    Met(usize),
}

/// A component does not answer as it says of itself.
#[derive(Debug, thiserror::Error)]
pub enum GoldenError {
    /// The section cannot be read.
    #[error("its golden vectors cannot be read: {0}")]
    Section(#[from] longshore_golden::Unreadable),
    /// The policy answers otherwise than a vector expects.
    #[error("golden vector `{name}` is not met: {problem}")]
    Unmet {
        /// Name of the vector.
        name: String,
        /// Where the answer differs from the expected one.
        problem: String,
        /// It was for want of time.
        may_go_by: bool,
    },
}

/// Asks a policy the cases of its component. `policy` was made of `component`.
pub fn check(policy: &LoadedPolicy, component: &[u8]) -> Result<Golden, GoldenError> {
    let Some(cases) = cases(component)? else {
        return Ok(Golden::Missing);
    };
    if !policy.is_scorer() {
        return Ok(Golden::NotAsked);
    }
    let begun = Instant::now();
    for (name, text) in &cases {
        let unmet = |problem: String, may_go_by| GoldenError::Unmet {
            name: cut(printable(name), 80),
            problem: cut(printable(&problem), MAX_PROBLEM),
            may_go_by,
        };
        let case = Case::read(text).map_err(|problem| unmet(problem, false))?;
        if case.offerings.len() > MAX_ROWS {
            return Err(unmet(
                format!("it has more than {MAX_ROWS} offerings"),
                false,
            ));
        }
        let answer = case.ask(policy);
        let for_want_of_time = matches!(&answer, Err(CaseError::Call(CallError::Time { .. })));
        case.meets(&answer)
            .map_err(|problem| unmet(problem, for_want_of_time))?;
        if begun.elapsed() > 2 * ROUND_TIME {
            return Err(unmet("they take more than 10 s".to_owned(), true));
        }
    }
    Ok(Golden::Met(cases.len()))
}
