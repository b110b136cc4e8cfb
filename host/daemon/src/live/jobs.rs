//! Who has to be looked at, and when: one task at a time for each object, failures later and later.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::context::back_off;
use super::lifecycle::Outcome;
use super::state::Touched;

/// Most tasks at a time.
const AT_ONCE: usize = 64;
/// After somebody else wrote first: the watch brings the new version in a moment, and that is when it is looked at again;
/// this long if the watch says nothing. To ask sooner with the same old copy is refused again.
const CONFLICT: Duration = Duration::from_secs(2);

/// Work on one object.
#[derive(Default)]
struct Job {
    running: bool,
    /// It was touched while it ran.
    again: bool,
    failures: u32,
    due: Option<Instant>,
}

/// All work, by object. Nothing here outlives the process, and nothing needs to.
#[derive(Default)]
pub struct Jobs {
    jobs: BTreeMap<Touched, Job>,
    due: BTreeSet<(Instant, Touched)>,
    running: usize,
}

impl Jobs {
    /// How many objects there is work on.
    #[allow(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// How many tasks run.
    pub fn running(&self) -> usize {
        self.running
    }

    /// Something has changed about an object: it is due at once, or again once the task that runs has ended.
    pub fn touch(&mut self, what: Touched, now: Instant) {
        let job = self.jobs.entry(what.clone()).or_default();
        if job.running {
            job.again = true;
            return;
        }
        if job.due.is_none_or(|due| due > now) {
            job.due.replace(now).map(|due| self.due.remove(&(due, what.clone())));
            self.due.insert((now, what));
        }
    }

    /// When something is due next, if one more task may run.
    pub fn next(&self) -> Option<Instant> {
        if self.running >= AT_ONCE { None } else { self.due.first().map(|(at, _)| *at) }
    }

    /// The object that has been due for longest; it counts as running from here on.
    pub fn take(&mut self, now: Instant) -> Option<Touched> {
        if self.running >= AT_ONCE || self.due.first()?.0 > now {
            return None;
        }
        let (_, what) = self.due.pop_first()?;
        if let Some(job) = self.jobs.get_mut(&what) {
            (job.running, job.again, job.due) = (true, false, None);
            self.running += 1;
        }
        Some(what)
    }

    /// There was nothing to do for an object that was taken.
    pub fn forget(&mut self, what: &Touched) {
        if self.jobs.remove(what).is_some_and(|job| job.running) {
            self.running -= 1;
        }
    }

    /// An object that was taken is to be looked at later, unless it changes before.
    pub fn postpone(&mut self, what: Touched, at: Instant) {
        let Some(job) = self.jobs.get_mut(&what) else { return };
        (job.running, job.due) = (false, Some(at));
        self.running -= 1;
        self.due.insert((at, what));
    }

    /// A task has ended. Returns how often it has failed in a row, where that is worth a word.
    pub fn ended(&mut self, what: &Touched, outcome: &Outcome, now: Instant) -> Option<u32> {
        let job = self.jobs.get_mut(what)?;
        job.running = false;
        self.running -= 1;
        let mut said = None;
        let due = match outcome {
            Ok(wait) => {
                job.failures = 0;
                if job.again { Some(now) } else { wait.map(|wait| now + wait) }
            }
            Err(error) if error.contains("onflict") || error.contains("cannot be fulfilled") => {
                Some(if job.again { now } else { now + CONFLICT })
            }
            Err(_) => {
                job.failures += 1;
                said = (job.failures > 1).then_some(job.failures);
                Some(now + back_off(job.failures))
            }
        };
        job.due = due;
        match due {
            Some(due) => drop(self.due.insert((due, what.clone()))),
            None => drop(self.jobs.remove(what)),
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(name: &str) -> Touched {
        Touched::Claim(name.into())
    }

    #[test]
    fn an_object_is_worked_on_by_one_task_and_again_if_it_changed_meanwhile() {
        let now = Instant::now();
        let mut jobs = Jobs::default();
        jobs.touch(claim("a"), now);
        assert_eq!(jobs.take(now), Some(claim("a")));
        jobs.touch(claim("a"), now);
        assert_eq!(jobs.take(now), None, "it runs");
        assert_eq!(jobs.ended(&claim("a"), &Ok(None), now), None);
        assert_eq!(jobs.take(now), Some(claim("a")));
        jobs.ended(&claim("a"), &Ok(Some(Duration::from_secs(5))), now);
        assert_eq!((jobs.next(), jobs.take(now)), (Some(now + Duration::from_secs(5)), None));
        jobs.touch(claim("a"), now);
        assert_eq!(jobs.take(now), Some(claim("a")), "a change does not wait");
        let later = now + Duration::from_secs(1);
        jobs.postpone(claim("a"), later);
        assert_eq!((jobs.take(now), jobs.take(later)), (None, Some(claim("a"))));
        jobs.ended(&claim("a"), &Ok(None), now);
        assert!(jobs.len() == 0 && jobs.next().is_none());
    }

    #[test]
    fn failures_wait_longer_each_time_and_conflicts_hardly() {
        let now = Instant::now();
        let mut jobs = Jobs::default();
        jobs.touch(claim("a"), now);
        jobs.take(now);
        assert_eq!(jobs.ended(&claim("a"), &Err("Conflict".into()), now), None);
        assert_eq!(jobs.next(), Some(now + CONFLICT));
        let now = now + CONFLICT;
        jobs.take(now);
        jobs.touch(claim("a"), now);
        jobs.ended(&claim("a"), &Err("Conflict".into()), now);
        assert_eq!(jobs.next(), Some(now), "the new version has come meanwhile");
        for (failures, wait) in [(None, 1), (Some(2), 2), (Some(3), 4)] {
            let at = jobs.next().unwrap();
            jobs.take(at);
            assert_eq!(jobs.ended(&claim("a"), &Err("no".into()), at), failures);
            assert_eq!(jobs.next(), Some(at + Duration::from_secs(wait)));
        }
    }

    #[test]
    fn so_many_run_at_once_and_no_more() {
        let now = Instant::now();
        let mut jobs = Jobs::default();
        (0..AT_ONCE + 2).for_each(|n| jobs.touch(claim(&n.to_string()), now));
        let taken: Vec<_> = std::iter::from_fn(|| jobs.take(now)).collect();
        assert_eq!((taken.len(), jobs.next()), (AT_ONCE, None));
        jobs.forget(&taken[0]);
        assert!(jobs.take(now).is_some());
    }
}
