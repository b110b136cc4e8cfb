//! Times of pods from first seen unschedulable to running, for metrics only. A new process starts
//! empty, and no decision uses them.

use std::collections::HashMap;

use longshore_api::crd::Timestamp;

/// What a pod has reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PodStage {
    /// `spec.nodeName` is set.
    Bound,
    /// `status.phase` is Running.
    Running,
}

/// What is known of pods, `namespace/name`, that do not run yet.
#[derive(Clone, Default, Debug)]
pub struct PodLatency {
    pods: HashMap<Box<str>, PodTimes>,
}

/// What is known of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PodTimes {
    /// When it was first seen to wait.
    pub seen: Timestamp,
    /// When a round first had a place for it or had none.
    pub decided: Option<Timestamp>,
    /// When a round first had one.
    pub placed: Option<Timestamp>,
}

impl PodLatency {
    pub fn waits(&mut self, pod: &str, now: Timestamp) {
        if !self.pods.contains_key(pod) {
            self.pods.insert(
                pod.into(),
                PodTimes {
                    seen: now,
                    decided: None,
                    placed: None,
                },
            );
        }
    }

    /// A round had a place for a pod, or had none. Returns for how many seconds the pod was waiting
    /// for a decision, if this is the first.
    pub fn decided(&mut self, pod: &str, placed: bool, now: Timestamp) -> Option<f64> {
        let decision = self.pods.get_mut(pod)?;
        if placed {
            decision.placed.get_or_insert(now);
        }
        match decision.decided {
            Some(_) => None,
            None => {
                decision.decided = Some(now);
                Some(seconds(decision.seen, now))
            }
        }
    }

    /// A pod has reached something. Returns how many seconds after there was first a place for it.
    pub fn reached(&mut self, pod: &str, what: PodStage, now: Timestamp) -> Option<f64> {
        let decision = match what {
            PodStage::Bound => *self.pods.get(pod)?,
            PodStage::Running => self.pods.remove(pod)?,
        };
        decision.placed.map(|placed| seconds(placed, now))
    }

    /// What is known of a pod.
    pub fn get(&self, pod: &str) -> Option<&PodTimes> {
        self.pods.get(pod)
    }

    pub fn forget(&mut self, pod: &str) {
        self.pods.remove(pod);
    }

    /// How many pods are known.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Forgets pods that are gone.
    pub fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.pods.retain(|pod, _| is_there(pod));
    }
}

/// Seconds from one time to another, never less than none.
pub fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn the_first_decision_and_the_first_place_count() {
        let mut decisions = PodLatency::default();
        decisions.waits("shop/a", at(0));
        decisions.waits("shop/a", at(1));
        assert_eq!(decisions.decided("shop/a", false, at(2)), Some(2.0));
        assert_eq!(decisions.decided("shop/a", true, at(5)), None);
        assert_eq!(decisions.decided("shop/a", true, at(7)), None);
        assert_eq!(
            decisions.reached("shop/a", PodStage::Bound, at(8)),
            Some(3.0)
        );
        assert_eq!(
            decisions.reached("shop/a", PodStage::Running, at(9)),
            Some(4.0)
        );
        assert_eq!(decisions.get("shop/a"), None, "it runs");
    }

    #[test]
    fn a_pod_that_is_bound_without_a_decision_was_never_decided_about() {
        let mut decisions = PodLatency::default();
        decisions.waits("shop/a", at(0));
        assert_eq!(decisions.reached("shop/a", PodStage::Bound, at(1)), None);
        assert_eq!(decisions.decided("shop/unknown", true, at(1)), None);
        decisions.retain(|_| false);
        assert_eq!(decisions.get("shop/a"), None);
    }
}
