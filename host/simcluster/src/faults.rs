//! Faults between the daemon and the API server: by seed, a share of all requests; by script,
//! single requests.
//!
//! Which request fails depends on the seed and the number of the request only. Faults of the cloud
//! are in [`cloud::LaunchFaults`](crate::cloud::LaunchFaults); faults of whole watches are the server's
//! ([`Server::drop_watches`](crate::server::Server::drop_watches) and its neighbours).
//!
//! A new share is a field here and a step of [`RequestFaults::fate`]. Generated scenarios draw it, in
//! `faults_of` of their kind below `sim/src/harness/generated`; written ones are read in
//! `sim/src/scenario/read/cloud.rs`. Both end with it: one lot is drawn for a request and each share
//! takes its part in turn, so a share in the middle changes what every recorded seed does.

use std::time::Duration;

use crate::object::Resource;
use crate::server::resources::NODE_CLAIM;
use crate::server::{RequestInfo, Verdict};

/// Shares (0 to 1) of requests. By default nothing goes wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RequestFaults {
    /// Writes that lose to a concurrent one: 409. A list that falls into this share is stale
    /// instead.
    pub conflict: f64,
    /// Too many requests: 429 with `Retry-After`.
    pub busy: f64,
    /// The server has a bad moment: 500.
    pub failing: f64,
    /// No answer, nothing done.
    pub lost_request: f64,
    /// No answer, all done.
    pub lost_answer: f64,
    /// It arrives up to [`MAX_REQUEST_DELAY`] later.
    pub late_request: f64,
    /// Lists of an older state, of those that may be.
    pub stale: f64,
    /// The process is killed with the request, before or after it is carried out.
    pub kill: f64,
    /// Calls of the cloud's API, other than launches, that fail.
    pub calls: f64,
    /// The server is not there: 503, half of them with `Retry-After`. Nothing is done.
    pub unavailable: f64,
    /// What answers for the server has waited long enough: 504. Nothing is done.
    pub gateway: f64,
    /// Carried out, but answered with 500, 503 or 504.
    pub done_and_failed: f64,
    /// Creates of NodeClaims that a webhook or a quota refuses: 403.
    pub refused_claims: f64,
    /// A kind whose definition is gone: whatever is asked of it is answered with 404.
    pub undefined: Option<Resource>,
    /// Every write takes so long.
    pub writes_take: Duration,
}

/// The longest that a request is under way.
pub const MAX_REQUEST_DELAY: Duration = Duration::from_secs(6);
/// A stale list is this old at most.
pub const MAX_LIST_AGE: Duration = Duration::from_secs(3);

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultAction {
    /// The API server decides: it is carried out, delayed, refused or lost.
    Verdict(Verdict),
    /// A list is answered as it was [`MAX_LIST_AGE`] ago or later; the share says how long ago.
    Stale(f64),
    /// The process dies before, or after, it is carried out.
    Kill {
        /// It is carried out first.
        after: bool,
    },
}

/// Whether a request changes anything.
pub fn writes(asked: &RequestInfo) -> bool {
    matches!(
        asked.verb,
        "create" | "update" | "patch" | "delete" | "deletecollection"
    )
}

impl RequestFaults {
    /// Everything, a little of it: about one request of `1 / share` fails in one way or another.
    pub fn all(share: f64) -> Self {
        RequestFaults {
            conflict: share,
            busy: share,
            failing: share,
            lost_request: share / 4.0,
            lost_answer: share / 4.0,
            late_request: share,
            stale: share,
            kill: 0.0,
            calls: share,
            ..RequestFaults::default()
        }
    }

    /// What becomes of a request, the `number`th of its seed.
    pub fn fate(&self, seed: u64, number: u64, asked: &RequestInfo) -> FaultAction {
        let claim = asked.verb == "create" && asked.resource == Some(NODE_CLAIM);
        if claim && unit(seed.rotate_left(23), number) < self.refused_claims {
            return FaultAction::Verdict(Verdict::Refuse {
                code: 403,
                reason: "Forbidden",
                retry_after: None,
            });
        }
        if self.undefined.is_some() && asked.resource == self.undefined {
            return FaultAction::Verdict(Verdict::Refuse {
                code: 404,
                reason: "NotFound",
                retry_after: None,
            });
        }
        if writes(asked) && !self.writes_take.is_zero() {
            return FaultAction::Verdict(Verdict::Delay(self.writes_take));
        }
        let mut lot = unit(seed, number);
        let mut falls = |share: f64| {
            let hit = lot < share;
            lot -= share;
            hit
        };
        let refuse = |code, reason, retry_after| {
            FaultAction::Verdict(Verdict::Refuse {
                code,
                reason,
                retry_after,
            })
        };
        let changes = writes(asked) && asked.verb != "create";
        let second = unit(!seed, number);
        if falls(self.busy) {
            refuse(429, "TooManyRequests", Some(1 + (second * 3.0) as u32))
        } else if falls(self.failing) {
            refuse(500, "InternalError", None)
        } else if falls(self.lost_request) {
            FaultAction::Verdict(Verdict::TimeOutBefore)
        } else if falls(self.lost_answer) {
            FaultAction::Verdict(Verdict::TimeOutAfter)
        } else if falls(self.late_request) {
            FaultAction::Verdict(Verdict::Delay(MAX_REQUEST_DELAY.mul_f64(second)))
        } else if falls(self.kill) {
            FaultAction::Kill {
                after: second < 0.5,
            }
        } else if falls(self.conflict) && changes {
            refuse(409, "Conflict", None)
        } else if falls(self.stale) && asked.verb == "list" {
            FaultAction::Stale(second)
        } else if falls(self.unavailable) {
            refuse(
                503,
                "ServiceUnavailable",
                (second < 0.5).then_some(1 + (second * 20.0) as u32),
            )
        } else if falls(self.gateway) {
            refuse(504, "Timeout", None)
        } else if falls(self.done_and_failed) {
            let of = [
                (500, "InternalError"),
                (503, "ServiceUnavailable"),
                (504, "Timeout"),
            ];
            let (code, reason) = of[(second * 3.0) as usize % 3];
            FaultAction::Verdict(Verdict::RefuseAfter { code, reason })
        } else {
            FaultAction::Verdict(Verdict::Go)
        }
    }

    /// Whether a call of the cloud's API fails, the `number`th of its seed.
    pub fn call_fails(&self, seed: u64, number: u64) -> bool {
        unit(seed.rotate_left(17), number) < self.calls
    }
}

/// From 0 to just below 1, from a seed and a number (the finisher of SplitMix64).
pub fn unit(seed: u64, number: u64) -> f64 {
    let mut n = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ number.wrapping_add(1).wrapping_mul(0xd1b5_4a32_d192_ed03);
    n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((n ^ (n >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::resources;

    fn asked(verb: &'static str) -> RequestInfo {
        RequestInfo {
            client: "daemon#1".into(),
            verb,
            resource: Some(resources::POD),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            number: 0,
        }
    }

    #[test]
    fn each_fault_has_its_share_and_the_seed_decides() {
        let faults = RequestFaults::all(0.02);
        let count = |verb, what: &dyn Fn(&FaultAction) -> bool| {
            (0..10_000)
                .filter(|n| what(&faults.fate(7, *n, &asked(verb))))
                .count()
        };
        let code = |wanted: u16| move |fate: &FaultAction| matches!(fate, FaultAction::Verdict(Verdict::Refuse { code, .. }) if *code == wanted);
        let near = |n: usize, about: usize| n.abs_diff(about) < about / 3;
        assert!(near(count("patch", &code(409)), 200) && count("list", &code(409)) == 0);
        assert!(near(count("list", &code(429)), 200) && near(count("list", &code(500)), 200));
        assert!(near(
            count("list", &|fate| matches!(fate, FaultAction::Stale(_))),
            400
        ));
        assert_eq!(
            count("list", &|fate| matches!(fate, FaultAction::Kill { .. })),
            0
        );
        assert_eq!(
            faults.fate(7, 3, &asked("list")),
            faults.fate(7, 3, &asked("list"))
        );
        let none = RequestFaults::default();
        assert!(
            (0..1000).all(|n| none.fate(7, n, &asked("list")) == FaultAction::Verdict(Verdict::Go))
        );
    }
}
