//! The limit of one garbage collection pass, and the message when it is exceeded.

use std::fmt;

/// Smallest limit where none was configured.
const MIN_LIMIT: usize = 5;
/// Where no limit was configured, one in so many of what there is may go.
const UNKNOWN_DIVISOR: usize = 20;

/// The configured limit of one pass, if set.
#[derive(Clone, Copy, Default)]
pub struct Limit(pub Option<usize>);

impl Limit {
    /// The limit where there are so many.
    pub fn of(self, there: usize) -> usize {
        self.0.unwrap_or((there / UNKNOWN_DIVISOR).max(MIN_LIMIT))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// Claims without instance were not deleted: there are too many.
    Claims,
    /// Instances without claim were not ended: there are too many.
    Instances,
    /// Instances without claim were not ended: their Nodes are Ready.
    Ready,
}

impl What {
    /// Value of the metrics' label.
    pub fn label(self) -> &'static str {
        match self {
            What::Claims => "nodeclaims",
            What::Instances => "instances",
            What::Ready => "ready_instances",
        }
    }

    /// Reason of the Event.
    pub fn reason(self) -> &'static str {
        match self {
            What::Claims | What::Instances => "GarbageLimitExceeded",
            What::Ready => "InstancesWithoutNodeClaim",
        }
    }
}

/// What was not done, and how much of it there is.
pub struct Refusal {
    pub what: What,
    pub count: usize,
    pub of: usize,
    pub limit: usize,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refusal {
            what,
            count,
            of,
            limit,
        } = self;
        let allow = format_args!("if they may go, set --garbage-limit {count} (GARBAGE_LIMIT)");
        match what {
            What::Claims => write!(
                f,
                "{count} of {of} registered NodeClaims have no instance in the cloud's list; more \
                than {limit} in one \
                 pass are not deleted, so none is; {allow}"
            ),
            What::Instances => write!(
                f,
                "{count} of {of} instances have no NodeClaim; more than {limit} in one pass are \
                not ended, so none is; \
                 {allow}"
            ),
            What::Ready => write!(
                f,
                "{count} instances of {of} have no NodeClaim and stay, for their Nodes are Ready; \
                delete the Nodes to \
                 drain and end them, or restore the NodeClaims with their status"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_may_go_or_one_in_twenty_or_what_was_set() {
        assert_eq!(
            [0, 4, 100, 119, 120, 5000].map(|there| Limit(None).of(there)),
            [5, 5, 5, 5, 6, 250]
        );
        assert_eq!((Limit(Some(0)).of(5000), Limit(Some(60)).of(10)), (0, 60));
    }

    #[test]
    fn the_message_says_how_many_why_and_how_to_allow_it() {
        let said = Refusal {
            what: What::Claims,
            count: 50,
            of: 100,
            limit: 5,
        }
        .to_string();
        for part in [
            "50 of 100",
            "cloud's list",
            "more than 5",
            "--garbage-limit 50",
        ] {
            assert!(said.contains(part), "{said}");
        }
    }
}
