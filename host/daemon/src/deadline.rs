//! The time at which the search for a cheaper plan ends. The planner polls it, because it has no
//! clock.

use std::time::{Duration, Instant};

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

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.0.is_some_and(|at| Instant::now() >= at)
    }
}

/// The note on a plan that the time limit has cut short.
pub fn words(limit: Duration) -> String {
    format!("the time limit of {limit:?} was reached: the first-fit answer is used")
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
            words(TIME_LIMIT),
            "the time limit of 10s was reached: the first-fit answer is used"
        );
    }
}
