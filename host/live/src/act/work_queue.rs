//! Objects to reconcile: one task at a time per object, with exponential backoff after failures.
//!
//! Kinds of work have slots of their own, so that a cloud that answers slowly to one kind of call
//! delays no other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::observe::state::WorkItem;
use crate::process::backoff::back_off;
use crate::process::step_error::{StepError, StepOutcome};

/// Delay after a write conflict. Usually the watch brings the new version earlier and triggers the
/// retry. A retry with the same old copy would conflict again.
const CONFLICT_RETRY: Duration = Duration::from_secs(2);

/// What kind of work it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// A NodeClaim without an instance. It may wait for its turn at the cloud for long.
    #[default]
    Launch,
    /// A NodeClaim with an instance: its node registers, or has done so.
    Register,
    /// A NodeClaim that is terminating.
    End,
    /// A node: drained or repaired.
    Drain,
    /// A NodePool: its status, hash and static nodes.
    Pool,
    /// A command of disruption that is under way.
    Disruption,
}

impl Lane {
    const ALL: [Lane; 6] = [
        Lane::Launch,
        Lane::Register,
        Lane::End,
        Lane::Drain,
        Lane::Pool,
        Lane::Disruption,
    ];

    /// Most tasks of it at a time. For launches, [`WorkQueue::new`] is given another number.
    const fn slots(self) -> usize {
        match self {
            Lane::Launch => MAX_LAUNCHES,
            Lane::Register => 64,
            Lane::End | Lane::Drain => 32,
            Lane::Pool => 4,
            Lane::Disruption => 8,
        }
    }
}

/// Most launches at a time.
pub const MAX_LAUNCHES: usize = 64;

/// Work on one object.
#[derive(Default)]
struct Job {
    lane: Lane,
    running: bool,
    /// It was touched while it ran: the lane that it goes on in.
    again: Option<Lane>,
    failures: u32,
    due: Option<Instant>,
}

/// Work of one kind.
#[derive(Default)]
struct Queue {
    due: BTreeSet<(Instant, WorkItem)>,
    running: usize,
}

/// All work, by object. Nothing here outlives the process, and nothing needs to.
pub struct WorkQueue {
    /// Most launches at a time.
    launches: usize,
    jobs: BTreeMap<WorkItem, Job>,
    lanes: [Queue; Lane::ALL.len()],
}

impl WorkQueue {
    /// A queue without work, and how many launches run at a time at most.
    pub fn new(launches: usize) -> Self {
        WorkQueue {
            launches,
            jobs: BTreeMap::new(),
            lanes: Default::default(),
        }
    }

    /// How many objects there is work on.
    #[allow(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Number of tasks that run now, in all lanes.
    pub fn running(&self) -> usize {
        self.lanes.iter().map(|queue| queue.running).sum()
    }

    /// Something has changed about an object: it is due at once, or again once the task that runs
    /// has ended.
    pub fn enqueue(&mut self, what: WorkItem, lane: Lane, now: Instant) {
        let job = self.jobs.entry(what.clone()).or_default();
        if job.running {
            job.again = Some(lane);
            return;
        }
        let due = job.due.filter(|due| *due <= now).unwrap_or(now);
        if let Some(old) = job.due.replace(due) {
            self.lanes[job.lane as usize]
                .due
                .remove(&(old, what.clone()));
        }
        job.lane = lane;
        self.lanes[lane as usize].due.insert((due, what));
    }

    /// When something is due next, of what may run.
    pub fn next(&self) -> Option<Instant> {
        self.free()
            .filter_map(|(_, queue)| queue.due.first())
            .map(|(at, _)| *at)
            .min()
    }

    /// The object that has been due for longest; it counts as running from here on.
    pub fn take(&mut self, now: Instant) -> Option<WorkItem> {
        let first = |(lane, queue): (Lane, &Queue)| queue.due.first().map(|(at, _)| (*at, lane));
        let (_, lane) = self
            .free()
            .filter_map(first)
            .min()
            .filter(|(at, _)| *at <= now)?;
        let queue = &mut self.lanes[lane as usize];
        let (_, what) = queue.due.pop_first()?;
        if let Some(job) = self.jobs.get_mut(&what) {
            (job.running, job.again, job.due) = (true, None, None);
            queue.running += 1;
        }
        Some(what)
    }

    fn free(&self) -> impl Iterator<Item = (Lane, &Queue)> {
        let lanes = Lane::ALL.into_iter().zip(&self.lanes);
        lanes.filter(|(lane, queue)| {
            let slots = match lane {
                Lane::Launch => self.launches,
                lane => lane.slots(),
            };
            queue.running < slots
        })
    }

    /// This replica leads no more: what has not begun is for another one.
    pub fn stand_by(&mut self) {
        self.lanes.iter_mut().for_each(|queue| queue.due.clear());
        self.jobs.retain(|_, job| {
            (job.again, job.due) = (None, None);
            job.running
        });
    }

    /// There was nothing to do for an object that was taken.
    pub fn forget(&mut self, what: &WorkItem) {
        if let Some(job) = self.jobs.remove(what).filter(|job| job.running) {
            self.lanes[job.lane as usize].running -= 1;
        }
    }

    /// A task has ended. Returns how often it has failed in a row, where that is worth a word.
    pub fn ended(&mut self, what: &WorkItem, outcome: &StepOutcome, now: Instant) -> Option<u32> {
        let job = self.jobs.get_mut(what)?;
        job.running = false;
        self.lanes[job.lane as usize].running -= 1;
        let again = job.again.is_some();
        job.lane = job.again.take().unwrap_or(job.lane);
        let mut said = None;
        let due = match outcome {
            Ok(wait) => {
                job.failures = 0;
                if again {
                    Some(now)
                } else {
                    wait.map(|wait| now + wait)
                }
            }
            Err(StepError::Conflict(_)) => Some(if again { now } else { now + CONFLICT_RETRY }),
            Err(error) => {
                job.failures += 1;
                said =
                    (job.failures > 1 && *error != StepError::NotLeading).then_some(job.failures);
                Some(now + back_off(job.failures))
            }
        };
        job.due = due;
        match due {
            Some(due) => drop(
                self.lanes[job.lane as usize]
                    .due
                    .insert((due, what.clone())),
            ),
            None => drop(self.jobs.remove(what)),
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(name: &str) -> WorkItem {
        WorkItem::Claim(name.into())
    }

    #[test]
    fn an_object_is_worked_on_by_one_task_and_again_if_it_changed_meanwhile() {
        let now = Instant::now();
        let mut queue = WorkQueue::new(MAX_LAUNCHES);
        queue.enqueue(claim("a"), Lane::Launch, now);
        assert_eq!(queue.take(now), Some(claim("a")));
        queue.enqueue(claim("a"), Lane::Launch, now);
        assert_eq!(queue.take(now), None, "it runs");
        assert_eq!(queue.ended(&claim("a"), &Ok(None), now), None);
        assert_eq!(queue.take(now), Some(claim("a")));
        queue.ended(&claim("a"), &Ok(Some(Duration::from_secs(5))), now);
        assert_eq!(
            (queue.next(), queue.take(now)),
            (Some(now + Duration::from_secs(5)), None)
        );
        queue.enqueue(claim("a"), Lane::Launch, now);
        assert_eq!(queue.take(now), Some(claim("a")), "a change does not wait");
        queue.ended(&claim("a"), &Ok(None), now);
        assert!(queue.len() == 0 && queue.next().is_none());
    }

    #[test]
    fn failures_wait_longer_each_time_and_conflicts_hardly() {
        let now = Instant::now();
        let mut queue = WorkQueue::new(MAX_LAUNCHES);
        queue.enqueue(claim("a"), Lane::Launch, now);
        queue.take(now);
        assert_eq!(
            queue.ended(
                &claim("a"),
                &Err(StepError::Conflict("changed".into())),
                now
            ),
            None
        );
        assert_eq!(queue.next(), Some(now + CONFLICT_RETRY));
        let now = now + CONFLICT_RETRY;
        queue.take(now);
        queue.enqueue(claim("a"), Lane::Launch, now);
        queue.ended(
            &claim("a"),
            &Err(StepError::Conflict("changed".into())),
            now,
        );
        assert_eq!(
            queue.next(),
            Some(now),
            "the new version has come meanwhile"
        );
        for (failures, wait) in [(None, 1), (Some(2), 2), (Some(3), 4)] {
            let at = queue.next().unwrap();
            queue.take(at);
            assert_eq!(
                queue.ended(&claim("a"), &Err(StepError::Other("no".into())), at),
                failures
            );
            assert_eq!(queue.next(), Some(at + Duration::from_secs(wait)));
        }
    }

    #[test]
    fn a_replica_that_leads_no_more_keeps_only_what_is_under_way() {
        let now = Instant::now();
        let mut queue = WorkQueue::new(MAX_LAUNCHES);
        queue.enqueue(claim("a"), Lane::Launch, now);
        assert_eq!(queue.take(now), Some(claim("a")));
        queue.enqueue(claim("a"), Lane::Launch, now);
        queue.enqueue(claim("b"), Lane::Launch, now);
        queue.stand_by();
        assert_eq!((queue.len(), queue.running(), queue.next()), (1, 1, None));
        queue.forget(&claim("a"));
        assert_eq!((queue.len(), queue.running()), (0, 0));
    }

    #[test]
    fn a_claim_whose_node_has_joined_does_not_wait_for_launches_and_changes_its_lane_once_launched()
    {
        let now = Instant::now();
        let mut queue = WorkQueue::new(2);
        ["a", "b", "c"]
            .iter()
            .for_each(|name| queue.enqueue(claim(name), Lane::Launch, now));
        let taken = [queue.take(now), queue.take(now)];
        assert_eq!(taken, [Some(claim("a")), Some(claim("b"))]);
        assert_eq!(queue.take(now), None, "two launches at a time");
        queue.enqueue(claim("joined"), Lane::Register, now);
        assert_eq!(queue.take(now), Some(claim("joined")));
        // The echo of its launch comes while it runs.
        queue.enqueue(claim("a"), Lane::Register, now);
        queue.ended(&claim("a"), &Ok(None), now);
        let next = [queue.take(now), queue.take(now)];
        assert_eq!(next, [Some(claim("c")), Some(claim("a"))], "both at once");
        queue.ended(&claim("a"), &Ok(None), now);
        queue.ended(&claim("joined"), &Ok(None), now);
        assert_eq!(queue.running(), 2, "b and c are launched");
    }

    #[test]
    fn so_many_of_a_kind_run_at_once_and_hold_up_no_others() {
        let now = Instant::now();
        let mut queue = WorkQueue::new(MAX_LAUNCHES);
        (0..MAX_LAUNCHES + 2).for_each(|n| queue.enqueue(claim(&n.to_string()), Lane::Launch, now));
        let taken: Vec<_> = std::iter::from_fn(|| queue.take(now)).collect();
        assert_eq!((taken.len(), queue.next()), (MAX_LAUNCHES, None));
        queue.enqueue(WorkItem::Node("n".into()), Lane::Drain, now);
        assert_eq!(
            queue.take(now),
            Some(WorkItem::Node("n".into())),
            "a drain has slots of its own"
        );
        let waits = (0..)
            .map(|n| claim(&n.to_string()))
            .find(|waits| !taken.contains(waits))
            .unwrap();
        queue.enqueue(waits.clone(), Lane::End, now);
        assert_eq!(
            queue.take(now),
            Some(waits),
            "so has a claim that is deleted before its turn"
        );
        queue.forget(&taken[0]);
        assert!(queue.take(now).is_some());
    }
}
