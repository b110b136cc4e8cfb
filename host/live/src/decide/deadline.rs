//! The time at which the search for a cheaper plan ends. The planner polls it, because it has no
//! clock.

use std::time::{Duration, Instant};

use longshore_core::plan::Effort;

/// Default time limit of a plan. A round at the default effort takes about 50
/// ms for a thousand pods and a second for ten thousand; beyond ten seconds pods wait longer for
/// the plan than a cheaper node is worth.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);

/// A moment on the monotonic clock, or never.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// So long from now; never for nothing.
    pub fn after(limit: Option<Duration>) -> Self {
        Deadline(limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    pub fn is_over(&self) -> bool {
        self.0.is_some_and(|at| Instant::now() >= at)
    }
}

/// The note on a plan that the time limit has cut short, which is that of a lesser effort.
pub fn words(limit: Duration, used: Effort) -> String {
    let answer = match used {
        Effort::None => "first-fit answer".to_owned(),
        lesser => format!("answer of effort {}", lesser.name()),
    };
    format!("the time limit of {limit:?} was reached: the {answer} is used")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_without_a_limit_never_comes() {
        assert!(!Deadline::after(None).is_over());
        assert!(Deadline::after(Some(Duration::ZERO)).is_over());
        assert!(!Deadline::after(Some(Duration::from_secs(3600))).is_over());
    }

    #[test]
    fn the_limit_is_said_as_it_was_set() {
        assert_eq!(
            words(TIME_LIMIT, Effort::None),
            "the time limit of 10s was reached: the first-fit answer is used"
        );
        assert_eq!(
            words(Duration::from_secs(2), Effort::Quick),
            "the time limit of 2s was reached: the answer of effort quick is used"
        );
    }
}
