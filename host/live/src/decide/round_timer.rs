//! When rounds are made.
//!
//! An arriving pod opens a batching window; the window closes when no further pod arrives for a
//! while. Pods without a place are planned again after 10 s, after 3 s where nodes have just
//! registered, and not while kube-scheduler is still binding pods. kube-scheduler refuses a pod
//! whose room another pod has taken, and may bind it moments later where that pod was planned. A
//! node bought in between is one too many.

use std::time::Duration;

use tokio::time::Instant;

use super::rollout::NOMINATION_TIMEOUT;

/// After this long a round is made for pods that wait, whatever has changed.
const MAX_ROUND_INTERVAL: Duration = Duration::from_secs(10);
/// A round follows the last one this soon if pods are nominated or a node has just registered,
/// because others may have taken their room.
const MIN_RETRY_DELAY: Duration = Duration::from_secs(3);
/// So long after a pod that waited got a node kube-scheduler is taken to be done with those it can
/// place. To pods that it has refused it comes back at whole seconds, a little later where it is
/// busy.
const SCHEDULER_SETTLE_TIME: Duration = Duration::from_millis(1200);

/// What decides when the next round is made.
#[derive(Debug)]
pub struct RoundTimer {
    idle: Duration,
    longest: Duration,
    /// When the batching window opened, and when the last pod arrived.
    window: Option<(Instant, Instant)>,
    /// When a round for pods began last.
    last: Option<Instant>,
    /// When the last node registered.
    registered_at: Option<Instant>,
    /// When a pod that waited got a node last.
    bound_at: Option<Instant>,
}

impl RoundTimer {
    /// A window closes `idle` after the last pod, but at most `longest` after it opened.
    pub fn new(idle: Duration, longest: Duration) -> Self {
        RoundTimer {
            idle,
            longest,
            window: None,
            last: None,
            registered_at: None,
            bound_at: None,
        }
    }

    /// A pod without a node has arrived, or room for one has.
    pub fn pod_arrived(&mut self, now: Instant) {
        let opened = self.window.map_or(now, |(opened, _)| opened);
        self.window = Some((opened, now));
    }

    pub fn node_registered(&mut self, now: Instant) {
        self.registered_at = Some(now);
    }

    /// A pod that waited got a node.
    pub fn pod_bound(&mut self, now: Instant) {
        self.bound_at = Some(now);
    }

    /// All pods that were to be planned have been planned.
    pub fn close(&mut self) {
        self.window = None;
    }

    /// Notes that a round begins at `now`.
    pub fn begin(&mut self, now: Instant) {
        self.last = Some(now);
    }

    /// When the last round began.
    pub fn last(&self) -> Option<Instant> {
        self.last
    }

    /// When the next round is due, if pods wait, nominated or not.
    pub fn next(&self, nominated: bool, wait: bool) -> Option<Instant> {
        match (self.window, self.last) {
            (Some((opened, last)), _) => Some((last + self.idle).min(opened + self.longest)),
            (None, Some(last)) if nominated || wait => Some(self.retry_at(last, nominated)),
            _ => None,
        }
    }

    fn retry_at(&self, last: Instant, nominated: bool) -> Instant {
        let opened = self
            .registered_at
            .is_some_and(|at| last < at + NOMINATION_TIMEOUT);
        if !opened && !nominated {
            return last + MAX_ROUND_INTERVAL;
        }
        let settled = self
            .bound_at
            .filter(|_| opened)
            .map_or(last, |moved| moved + SCHEDULER_SETTLE_TIME);
        settled.clamp(last + MIN_RETRY_DELAY, last + MAX_ROUND_INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_window_closes_when_no_pod_comes_any_more_or_it_has_been_open_for_long() {
        let now = Instant::now();
        let mut timer = RoundTimer::new(seconds(1.0), seconds(10.0));
        assert_eq!(timer.next(true, true), None, "nothing has been seen yet");
        timer.pod_arrived(now);
        assert_eq!(timer.next(false, false), Some(now + seconds(1.0)));
        (1..=19).for_each(|n| timer.pod_arrived(now + seconds(0.5) * n));
        assert_eq!(timer.next(false, true), Some(now + seconds(10.0)));
        timer.close();
        assert_eq!(timer.next(false, true), None);
    }

    #[test]
    fn pods_that_wait_are_planned_for_again_sooner_where_nodes_have_opened() {
        let now = Instant::now();
        let mut timer = RoundTimer::new(seconds(1.0), seconds(10.0));
        timer.begin(now);
        assert_eq!(timer.next(false, false), None);
        assert_eq!(timer.next(false, true), Some(now + MAX_ROUND_INTERVAL));
        assert_eq!(timer.next(true, true), Some(now + MIN_RETRY_DELAY));
        timer.node_registered(now);
        assert_eq!(timer.next(false, true), Some(now + MIN_RETRY_DELAY));
        timer.begin(now + NOMINATION_TIMEOUT);
        assert_eq!(
            timer.next(false, true),
            Some(now + NOMINATION_TIMEOUT + MAX_ROUND_INTERVAL),
            "that was long ago"
        );
    }

    #[test]
    fn no_pod_is_planned_again_while_kube_scheduler_fills_nodes_but_not_for_ever() {
        let now = Instant::now();
        let mut timer = RoundTimer::new(seconds(1.0), seconds(10.0));
        timer.begin(now);
        timer.node_registered(now + seconds(2.0));
        timer.pod_bound(now + seconds(2.8));
        assert_eq!(
            timer.next(true, true),
            Some(now + seconds(2.8) + SCHEDULER_SETTLE_TIME)
        );
        timer.pod_bound(now + seconds(9.9));
        assert_eq!(timer.next(true, true), Some(now + MAX_ROUND_INTERVAL));
        timer.pod_arrived(now + seconds(4.0));
        assert_eq!(
            timer.next(true, true),
            Some(now + seconds(5.0)),
            "others have come and do not wait for it"
        );
    }
}
