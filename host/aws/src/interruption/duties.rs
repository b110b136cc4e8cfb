//! What interruptions ask for. Each duty is done once, however many messages ask for it, one after
//! the other or at the same time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use super::InterruptionKind;
use crate::lock::lock;

/// What is to be done: for which kind of event, for which instance.
pub type Duty = (InterruptionKind, String);

/// How long what was done is remembered, in seconds: a queue keeps messages for 300.
const DUTY_MEMORY_SECONDS: i64 = 600;
/// How often what is long past is forgotten, in seconds.
const MEMORY_SWEEP_SECONDS: i64 = 60;

/// What was done lately, and what is being done.
#[derive(Debug, Default)]
pub struct Duties(Mutex<DutyTable>);

#[derive(Debug, Default)]
struct DutyTable {
    /// Until when each is remembered.
    done: HashMap<Duty, i64>,
    /// Says whether it worked.
    under_way: HashMap<Duty, watch::Receiver<Option<bool>>>,
    forgot: i64,
}

/// What a message that asks for a duty has to do.
#[derive(Debug)]
pub enum Turn {
    /// Nothing: it was done.
    Done,
    /// To wait: another message has asked for it.
    Wait(Waiting),
    /// To do it.
    Begin(Begun),
}

/// A duty that another message has asked for.
#[derive(Debug)]
pub struct Waiting(watch::Receiver<Option<bool>>);

/// A duty that is being done. Dropped before its end, it was not done.
#[derive(Debug)]
pub struct Begun {
    all: Arc<Duties>,
    duty: Duty,
    says: watch::Sender<Option<bool>>,
    ended: bool,
}

impl Duties {
    /// Asks for a duty. `now` is in seconds since 1970.
    pub fn ask(self: &Arc<Self>, duty: &Duty, now: i64) -> Turn {
        let mut known = lock(&self.0);
        if now - known.forgot >= MEMORY_SWEEP_SECONDS {
            known.forgot = now;
            known.done.retain(|_, until| *until > now);
        }
        if known.done.get(duty).is_some_and(|until| *until > now) {
            return Turn::Done;
        }
        if let Some(says) = known.under_way.get(duty) {
            return Turn::Wait(Waiting(says.clone()));
        }
        let (says, heard) = watch::channel(None);
        known.under_way.insert(duty.clone(), heard);
        Turn::Begin(Begun {
            all: self.clone(),
            duty: duty.clone(),
            says,
            ended: false,
        })
    }
}

impl Waiting {
    /// Whether it worked.
    pub async fn worked(mut self) -> bool {
        let said = self.0.wait_for(Option::is_some).await;
        said.is_ok_and(|said| *said == Some(true))
    }
}

impl Begun {
    /// It has ended; whether it worked. What failed is done again when its message comes again.
    pub fn end(mut self, worked: bool, now: i64) {
        self.ended = true;
        let mut known = lock(&self.all.0);
        known.under_way.remove(&self.duty);
        if worked {
            known
                .done
                .insert(self.duty.clone(), now + DUTY_MEMORY_SECONDS);
        }
        drop(known);
        self.says.send_replace(Some(worked));
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        // After an end another message may have begun it again.
        if !self.ended {
            lock(&self.all.0).under_way.remove(&self.duty);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn duty() -> Duty {
        (InterruptionKind::SpotInterrupted, "i-0a".to_owned())
    }

    fn begin(all: &Arc<Duties>, now: i64) -> Begun {
        match all.ask(&duty(), now) {
            Turn::Begin(begun) => begun,
            other => panic!("{other:?}"),
        }
    }

    fn wait(all: &Arc<Duties>) -> Waiting {
        match all.ask(&duty(), 0) {
            Turn::Wait(waiting) => waiting,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn what_is_being_done_is_waited_for_and_what_was_done_is_not_done_again() {
        let all = Arc::new(Duties::default());
        let begun = begin(&all, 0);
        let (first, second) = (wait(&all), wait(&all));
        begun.end(true, 0);
        assert!(first.worked().await && second.worked().await);
        assert!(matches!(
            all.ask(&duty(), DUTY_MEMORY_SECONDS - 1),
            Turn::Done
        ));
        let another = (InterruptionKind::InstanceStopped, "i-0a".to_owned());
        assert!(matches!(all.ask(&another, 0), Turn::Begin(_)));
        // A message that comes much later is about something new.
        begin(&all, DUTY_MEMORY_SECONDS).end(true, DUTY_MEMORY_SECONDS);
    }

    #[tokio::test]
    async fn what_fails_or_is_given_up_is_done_again() {
        let all = Arc::new(Duties::default());
        let begun = begin(&all, 0);
        let waiting = wait(&all);
        begun.end(false, 0);
        assert!(!waiting.worked().await);
        let begun = begin(&all, 0);
        let waiting = wait(&all);
        drop(begun);
        assert!(!waiting.worked().await);
        begin(&all, 0).end(true, 0);
        assert!(lock(&all.0).under_way.is_empty());
    }
}
