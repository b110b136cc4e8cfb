//! Nominated pods (`status.nominatedNodeName`).
//!
//! kube-scheduler tries the nominated node first and, since 1.35, reserves its room for the pod. It
//! counts nominated pods as running. So only one pod of a spread group is nominated per node at a
//! time; the next one follows once that pod is bound. kube-scheduler clears the nomination of a pod
//! that it tries in vain, for instance before the node is registered. Such pods are nominated
//! again. Pods that find room without a nomination get none. A nomination not followed within 30 s
//! is cleared, and the pod is planned again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::observe::planned_pods::Planned;

/// How long kube-scheduler may take over a pod that has a node nominated.
pub const NOMINATION_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a pod is nominated again.
const MAX_RENOMINATIONS: u32 = 3;

/// Pods without a nomination that stay in the order of time, beside as many as there are with one.
const MAX_CLEARED: usize = 64;

/// A pod, `namespace/name`, and the node that is nominated for it.
pub type Nomination = (String, String);

#[derive(Default)]
pub struct Nominations {
    /// Pods with a node nominated, and since when that is known.
    nominated: BTreeMap<String, Instant>,
    /// What was said, by pod: it is not said twice.
    said: BTreeMap<String, String>,
    /// When each nomination was known first, in order of time; may have pods whose nomination was
    /// cleared.
    since: VecDeque<(Instant, String)>,
    /// Pods with a nomination that kube-scheduler has cleared.
    forgotten: Vec<String>,
    /// How often waiting pods have been nominated again.
    renominations: BTreeMap<String, u32>,
    /// Pods that did not follow theirs: they get no other.
    ignored: BTreeSet<String>,
    /// Pods that wait for their turn, by node and group. The first of each has been named.
    spread_queues: BTreeMap<SpreadSlot, VecDeque<String>>,
    /// The turn that a pod waits for.
    spread_slot_of: BTreeMap<String, SpreadSlot>,
}

/// A node and a group of pods that must spread.
type SpreadSlot = (String, u32);

impl Nominations {
    /// The pods planned for a node that are nominated now; the others wait for their turn.
    pub fn plan<'a>(
        &mut self,
        node: &str,
        pods: impl Iterator<Item = Planned<'a>>,
    ) -> Vec<Nomination> {
        let mut now = Vec::new();
        for Planned {
            pod,
            group,
            nominated,
            ..
        } in pods
        {
            if !nominated || self.ignored.contains(pod) {
                continue;
            }
            if let Some(group) = group {
                let turn = (node.to_owned(), group);
                if self.spread_slot_of.get(pod) != Some(&turn) {
                    self.leave_spread_queue(pod);
                    self.spread_queues
                        .entry(turn.clone())
                        .or_default()
                        .push_back(pod.to_owned());
                    self.spread_slot_of.insert(pod.to_owned(), turn.clone());
                }
                if self
                    .spread_queues
                    .get(&turn)
                    .and_then(VecDeque::front)
                    .is_none_or(|first| first != pod)
                {
                    continue;
                }
            }
            if self.said.get(pod).is_none_or(|said| said != node) {
                self.said.insert(pod.to_owned(), node.to_owned());
                now.push((pod.to_owned(), node.to_owned()));
            }
        }
        now
    }

    /// Pods to nominate next, now that others are bound.
    pub fn advance(&mut self, waits: impl Fn(&str) -> bool) -> Vec<Nomination> {
        let mut now = Vec::new();
        let (said, turn_of) = (&mut self.said, &mut self.spread_slot_of);
        self.spread_queues.retain(|(node, _), turn| {
            while let Some(pod) = turn.pop_front_if(|pod| !waits(pod)) {
                turn_of.remove(&pod);
            }
            if let Some(pod) = turn.front().filter(|pod| said.get(*pod) != Some(node)) {
                said.insert(pod.clone(), node.clone());
                now.push((pod.clone(), node.clone()));
            }
            !turn.is_empty()
        });
        self.ignored.retain(|pod| waits(pod));
        now
    }

    /// A pod that waits is seen with or without a node nominated.
    pub fn seen(&mut self, pod: &str, nominated: bool, now: Instant) {
        if !nominated {
            if self.nominated.remove(pod).is_some() && self.said.contains_key(pod) {
                self.forgotten.push(pod.to_owned());
            }
        } else if !self.nominated.contains_key(pod) {
            self.nominated.insert(pod.to_owned(), now);
            self.since.push_back((now, pod.to_owned()));
            // Nobody looks at the oldest of them where another replica leads.
            if self.since.len() > 2 * self.nominated.len() + MAX_CLEARED {
                self.since
                    .retain(|(at, pod)| self.nominated.get(pod) == Some(at));
            }
        }
    }

    /// The node of a pod is registered: the time of the pod's nomination begins. While the node was not,
    /// the time began again each time that it was over.
    pub fn opened(&mut self, pod: &str, now: Instant) {
        if let Some(at) = self.nominated.get_mut(pod) {
            *at = now;
            self.since.push_back((now, pod.to_owned()));
        }
    }

    /// This replica leads no more: another one says what is nominated, and is seen to.
    pub fn stand_by(&mut self) {
        let Nominations {
            nominated, since, ..
        } = std::mem::take(self);
        (self.nominated, self.since) = (nominated, since);
    }

    /// A pod waits no longer.
    pub fn gone(&mut self, pod: &str) {
        self.said.remove(pod);
        self.nominated.remove(pod);
        self.renominations.remove(pod);
    }

    /// Pods to nominate again after kube-scheduler cleared their nomination. The number is limited,
    /// because there may be another cause.
    pub fn repeat(&mut self) -> Vec<Nomination> {
        let forgotten = std::mem::take(&mut self.forgotten);
        let again = |pod: String| {
            let node = self
                .said
                .get(&pod)
                .filter(|_| !self.nominated.contains_key(&pod))?
                .clone();
            let times = self.renominations.entry(pod.clone()).or_default();
            *times += 1;
            (*times <= MAX_RENOMINATIONS).then_some((pod, node))
        };
        forgotten.into_iter().filter_map(again).collect()
    }

    /// A pod was planned for another node. Says whether one is nominated for it, which is to be
    /// taken back: its room is kept, and after a restart it would look like the answer.
    pub fn planned_anew(&mut self, pod: &str) -> bool {
        let was_nominated = self.nominated.remove(pod).is_some();
        if was_nominated {
            self.said.remove(pod);
        }
        self.leave_spread_queue(pod);
        was_nominated
    }

    fn leave_spread_queue(&mut self, pod: &str) {
        if let Some(turn) = self
            .spread_slot_of
            .remove(pod)
            .and_then(|turn| self.spread_queues.get_mut(&turn))
        {
            turn.retain(|waiting| waiting != pod);
        }
    }

    /// Whether a nominated pod still waits.
    pub fn any(&self) -> bool {
        !self.nominated.is_empty()
    }

    /// When the oldest nomination expires.
    pub fn next(&self) -> Option<Instant> {
        self.since.front().map(|(at, _)| *at + NOMINATION_TIMEOUT)
    }

    /// Pods whose nomination has expired. The time starts again while the node is not registered
    /// (`open`).
    pub fn stale(&mut self, now: Instant, open: impl Fn(&str) -> bool) -> Vec<String> {
        let mut stale = Vec::new();
        while let Some((at, pod)) = self
            .since
            .pop_front_if(|(at, _)| now >= *at + NOMINATION_TIMEOUT)
        {
            if self.nominated.get(&pod) == Some(&at) {
                if self.said.get(&pod).is_some_and(|node| !open(node)) {
                    self.nominated.insert(pod.clone(), now);
                    self.since.push_back((now, pod));
                    continue;
                }
                self.nominated.remove(&pod);
                self.leave_spread_queue(&pod);
                self.ignored.insert(pod.clone());
                stale.push(pod);
            }
        }
        stale
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(pod: &str) -> Planned<'_> {
        Planned::plain(pod)
    }

    fn spread(pod: &str) -> Planned<'_> {
        Planned {
            group: Some(7),
            ..Planned::plain(pod)
        }
    }

    fn names(nominations: &[Nomination]) -> Vec<&str> {
        nominations.iter().map(|(pod, _)| pod.as_str()).collect()
    }

    #[test]
    fn of_pods_that_must_spread_one_is_nominated_at_a_time() {
        let mut nominations = Nominations::default();
        let nominated = nominations.plan(
            "n",
            [
                plain("a"),
                spread("b"),
                plain("c"),
                spread("d"),
                spread("e"),
            ]
            .into_iter(),
        );
        assert_eq!(names(&nominated), ["a", "b", "c"]);
        assert_eq!(names(&nominations.advance(|_| true)), [""; 0]);
        assert_eq!(
            names(&nominations.advance(|pod| !["b", "d"].contains(&pod))),
            ["e"],
            "d went by itself"
        );
        assert_eq!(names(&nominations.advance(|_| false)), [""; 0]);
        assert!(nominations.spread_queues.is_empty());
        let again = nominations.plan("n", [spread("x"), spread("y")].into_iter());
        assert_eq!(names(&again), ["x"]);
        assert_eq!(
            names(&nominations.plan("n", [spread("x"), spread("y")].into_iter())),
            [""; 0],
            "not said twice"
        );
        nominations.gone("x");
        assert_eq!(
            names(&nominations.plan("n", [spread("x")].into_iter())),
            ["x"],
            "another pod of that name"
        );
    }

    #[test]
    fn a_hint_that_is_not_followed_is_taken_back_once() {
        let now = Instant::now();
        let mut nominations = Nominations::default();
        nominations.seen("a", true, now);
        nominations.seen("b", true, now);
        nominations.seen("a", true, now + Duration::from_secs(9));
        nominations.gone("b");
        assert_eq!(nominations.next(), Some(now + NOMINATION_TIMEOUT));
        assert!(
            nominations
                .stale(now + NOMINATION_TIMEOUT - Duration::from_secs(1), |_| true)
                .is_empty()
        );
        assert_eq!(nominations.stale(now + NOMINATION_TIMEOUT, |_| true), ["a"]);
        assert_eq!(
            names(&nominations.plan("n", [plain("a")].into_iter())),
            [""; 0]
        );
        nominations.advance(|_| false);
        assert_eq!(
            names(&nominations.plan("n", [plain("a")].into_iter())),
            ["a"],
            "another pod of that name"
        );
    }

    #[test]
    fn the_time_of_a_nomination_begins_when_its_node_is_registered() {
        let began = Instant::now();
        let after = |seconds| began + Duration::from_secs(seconds);
        let mut nominations = Nominations::default();
        nominations.plan("n", [plain("a")].into_iter());
        nominations.seen("a", true, began);
        assert!(nominations.stale(after(30), |_| false).is_empty());
        nominations.opened("a", after(50));
        assert!(
            nominations.stale(after(79), |_| true).is_empty(),
            "not 30 s after the time that was over while the node was on its way"
        );
        assert_eq!(nominations.stale(after(80), |_| true), ["a"]);
        nominations.opened("b", after(80));
        assert_eq!(nominations.next(), None, "no node is nominated for it");
    }

    #[test]
    fn a_replica_that_stands_by_keeps_nothing_of_pods_that_have_gone() {
        let now = Instant::now();
        let mut nominations = Nominations::default();
        nominations.seen("stays", true, now);
        for pod in 0..1000 {
            nominations.seen(&format!("p{pod}"), true, now);
            nominations.gone(&format!("p{pod}"));
        }
        assert!(
            nominations.since.len() <= MAX_CLEARED + 2,
            "{}",
            nominations.since.len()
        );
        assert_eq!(
            nominations.stale(now + NOMINATION_TIMEOUT, |_| true),
            ["stays"]
        );
        nominations.plan("n", [plain("a"), spread("b"), spread("c")].into_iter());
        nominations.seen("a", true, now);
        nominations.stand_by();
        assert!(nominations.any(), "a is nominated, whoever said so");
        nominations.seen("a", false, now);
        assert_eq!(
            (nominations.repeat(), nominations.advance(|_| true)),
            (Vec::new(), Vec::new())
        );
    }

    #[test]
    fn a_pod_that_is_planned_anew_is_nominated_anew() {
        let now = Instant::now();
        let mut nominations = Nominations::default();
        nominations.plan("n", [spread("a"), spread("b")].into_iter());
        nominations.seen("a", true, now);
        assert!(nominations.planned_anew("a"));
        assert!(!nominations.planned_anew("a"), "once");
        assert_eq!(names(&nominations.advance(|_| true)), ["b"]);
        assert_eq!(
            names(&nominations.plan("m", [spread("a")].into_iter())),
            ["a"]
        );
    }

    #[test]
    fn a_pod_that_was_forgotten_is_nominated_again_a_few_times() {
        let now = Instant::now();
        let mut nominations = Nominations::default();
        nominations.plan("n", [plain("a"), plain("b")].into_iter());
        for _ in 0..MAX_RENOMINATIONS {
            nominations.seen("a", true, now);
            nominations.seen("a", false, now);
            assert_eq!(nominations.repeat(), [("a".to_owned(), "n".to_owned())]);
        }
        nominations.seen("a", true, now);
        nominations.seen("a", false, now);
        assert_eq!(nominations.repeat(), [], "often enough");
        nominations.seen("b", true, now);
        assert!(nominations.planned_anew("b"));
        nominations.seen("b", false, now);
        assert_eq!(nominations.repeat(), [], "taken back by ourselves");
    }

    #[test]
    fn the_time_of_a_hint_begins_when_its_node_is_open() {
        let now = Instant::now();
        let mut nominations = Nominations::default();
        nominations.plan("n", [plain("a")].into_iter());
        nominations.seen("a", true, now);
        assert!(
            nominations
                .stale(now + NOMINATION_TIMEOUT, |node| node != "n")
                .is_empty()
        );
        assert_eq!(nominations.next(), Some(now + 2 * NOMINATION_TIMEOUT));
        assert_eq!(
            nominations.stale(now + 2 * NOMINATION_TIMEOUT, |_| true),
            ["a"]
        );
    }
}
