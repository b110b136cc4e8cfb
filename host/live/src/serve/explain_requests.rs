//! Answers `longshore explain`, one request at a time, without delaying rounds.
//!
//! A request is answered by planning on a thread of its own with its own policy instances, so that
//! a round that becomes due meanwhile starts at once. A request does not start while a round runs
//! or is about to.

use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use longshore_report::explained::{Explained, NoExplanation};

/// What a question is about.
pub enum Subject {
    /// A pod, `namespace/name`.
    Pod(String),
    Node(String),
}

/// A question about a pod or a node.
pub struct ExplainRequest {
    pub about: Subject,
    pub reply: oneshot::Sender<Result<Explained, NoExplanation>>,
    /// Held until the answer is complete, even if the client has gone, so that only one runs at a
    /// time.
    pub turn: OwnedSemaphorePermit,
}

/// No answer begins so shortly before a round.
const MIN_GAP_BEFORE_ROUND: Duration = Duration::from_secs(1);
/// A question that has waited for this long is answered even so shortly before a round: where pods
/// keep coming, a round is always near.
const MAX_QUESTION_AGE: Duration = Duration::from_secs(5);
/// Answers begin at most this often: each takes a copy of the cluster on the loop's thread.
const MIN_ANSWER_INTERVAL: Duration = Duration::from_secs(1);

/// The question that waits, and when the next answer may begin.
#[derive(Default)]
pub struct ExplainRequests {
    waits: Option<(ExplainRequest, Instant)>,
    answering: bool,
    last: Option<Instant>,
}

impl ExplainRequests {
    /// Takes a question. One that waits already is replaced, which senders rule out by
    /// [`ExplainRequest::turn`].
    pub fn ask(&mut self, question: ExplainRequest, now: Instant) {
        self.waits = Some((question, now));
    }

    /// When the question that waits may be answered, if the next round is due at `round`. Nothing
    /// where the loop is woken for something else first.
    pub fn due(&self, now: Instant, round: Option<Instant>) -> Option<Instant> {
        let (_, asked) = self.waits.as_ref().filter(|_| !self.answering)?;
        let at = self
            .last
            .map_or(now, |last| (last + MIN_ANSWER_INTERVAL).max(now));
        match round {
            Some(round) if round <= at + MIN_GAP_BEFORE_ROUND => {
                let at = at.max(*asked + MAX_QUESTION_AGE);
                (at < round).then_some(at)
            }
            _ => Some(at),
        }
    }

    /// Begins an answer, unless the client has gone.
    pub fn begin(&mut self, now: Instant) -> Option<ExplainRequest> {
        let (question, _) = self.waits.take()?;
        if question.reply.is_closed() {
            return None;
        }
        (self.answering, self.last) = (true, Some(now));
        Some(question)
    }

    /// The answer, or none.
    pub fn ended(&mut self) {
        self.answering = false;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    fn question() -> (
        ExplainRequest,
        oneshot::Receiver<Result<Explained, NoExplanation>>,
    ) {
        let turn = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let (reply, answer) = oneshot::channel();
        (
            ExplainRequest {
                about: Subject::Pod("shop/web".into()),
                reply,
                turn,
            },
            answer,
        )
    }

    /// Seconds after `begin` at which a question asked then is due.
    fn due(
        requests: &ExplainRequests,
        begin: Instant,
        now: f64,
        round: Option<f64>,
    ) -> Option<f64> {
        let at = |seconds: f64| begin + Duration::from_secs_f64(seconds);
        requests
            .due(at(now), round.map(at))
            .map(|due| (due - begin).as_secs_f64())
    }

    #[test]
    fn a_question_waits_for_a_round_that_is_near_but_not_for_ever() {
        let begin = Instant::now();
        let mut requests = ExplainRequests::default();
        assert_eq!(due(&requests, begin, 0.0, None), None, "no request waits");
        let (asked, _answer) = question();
        requests.ask(asked, begin);
        assert_eq!(due(&requests, begin, 0.0, None), Some(0.0));
        assert_eq!(due(&requests, begin, 0.0, Some(1.5)), Some(0.0));
        assert_eq!(
            due(&requests, begin, 0.0, Some(0.9)),
            None,
            "the round wakes the loop"
        );
        assert_eq!(due(&requests, begin, 4.5, Some(5.4)), Some(5.0));
        assert_eq!(due(&requests, begin, 6.0, Some(6.5)), Some(6.0));
        assert_eq!(
            due(&requests, begin, 60.0, Some(60.0)),
            None,
            "never before a round that is due"
        );
        assert_eq!(
            due(&requests, begin, 60.0, Some(50.0)),
            None,
            "nor before one that is late"
        );
    }

    #[test]
    fn answers_are_given_one_at_a_time_and_a_second_apart() {
        let begin = Instant::now();
        let mut requests = ExplainRequests::default();
        let (first, _answer) = question();
        requests.ask(first, begin);
        assert!(requests.begin(begin).is_some());
        let (second, _answer) = question();
        requests.ask(second, begin);
        assert_eq!(
            due(&requests, begin, 9.0, None),
            None,
            "the first is being answered"
        );
        requests.ended();
        assert_eq!(due(&requests, begin, 0.2, None), Some(1.0));
        assert_eq!(due(&requests, begin, 9.0, None), Some(9.0));
    }

    #[test]
    fn a_question_whose_client_has_gone_is_dropped() {
        let begin = Instant::now();
        let mut requests = ExplainRequests::default();
        let (asked, answer) = question();
        requests.ask(asked, begin);
        drop(answer);
        assert!(requests.begin(begin).is_none());
        assert_eq!(due(&requests, begin, 0.0, None), None);
    }
}
