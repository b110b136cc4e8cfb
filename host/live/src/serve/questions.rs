//! What operators ask a daemon: its status, and explanations. [`serve`](super::http) answers them over
//! HTTP; the simulator, which has no ports, asks here.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::explain_requests::ExplainRequest;
pub use super::explain_requests::Subject;
use super::http::{Query, SharedBoard};
use crate::act::context::Context;
use crate::policies::{Notice, PolicyReloader};
use crate::process::lock::lock;
use crate::status;
use crate::status::parts::Status;
use longshore_report::explained::{Explained, NoExplanation};

/// Longest wait for an explanation.
const EXPLAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Asks a daemon that runs.
#[derive(Clone)]
pub struct Questions {
    pub(crate) ctx: Arc<Context>,
    pub(crate) board: SharedBoard,
    pub(crate) queries: Sender<Query>,
    /// How many explanations may be asked for at a time: one.
    turns: Arc<Semaphore>,
}

/// Why there is no explanation.
#[derive(Debug, thiserror::Error)]
pub enum NotExplained {
    /// To be asked for again.
    #[error("another explanation is in progress; only one runs at a time; retry later")]
    Busy,
    /// There is nothing to explain it with.
    #[error(transparent)]
    No(#[from] NoExplanation),
    /// To be asked for again.
    #[error(
        "no answer yet: not everything has been listed, or rounds go first; see `longshore status`"
    )]
    Late,
}

impl Questions {
    pub(crate) fn new(ctx: Arc<Context>, board: SharedBoard, queries: Sender<Query>) -> Self {
        Questions {
            ctx,
            board,
            queries,
            turns: Arc::new(Semaphore::new(1)),
        }
    }

    /// What the loop reports, and how old that may be.
    ///
    /// Nothing before it has begun.
    pub fn status(&self) -> Option<Status> {
        let mut status = lock(&self.board).status.clone()?;
        let answered = self.ctx.clock.last_answer();
        status.answered_seconds_ago = answered.map(|(_, ago)| ago.as_secs_f64());
        Some(status)
    }

    /// What this process has counted, as metrics have it.
    pub fn counted(&self) -> String {
        self.ctx.metrics.text()
    }

    /// Takes what the policies say of themselves into the status and the metrics. What is news.
    pub fn note_policies(&self, reloader: &PolicyReloader) -> Vec<Notice> {
        let ctx = &self.ctx;
        let notices = reloader.notices();
        for (subject, what) in notices.iter().filter_map(Notice::change) {
            ctx.memory.recent.changed(ctx.now(), &subject, what);
        }
        let status = reloader.status();
        reloader.note_health(&status.policies, ctx.now().as_second());
        ctx.metrics.policies_and_signals(&status);
        lock(&self.board).policies = Some(status);
        notices
    }

    /// What `longshore status` prints.
    pub fn status_text(&self) -> String {
        status::as_text(&self.status().unwrap_or_default())
    }

    /// Explains a pod or a node.
    ///
    /// # Errors
    /// There is no such object, or no answer now.
    pub async fn explain(&self, about: Subject) -> Result<Explained, NotExplained> {
        let turn = self.turns.clone().try_acquire_owned();
        let turn = turn.map_err(|_| NotExplained::Busy)?;
        let (reply, answer) = oneshot::channel();
        let asked = async {
            let request = ExplainRequest { about, reply, turn };
            self.queries.send(Query::Explain(request)).await.ok()?;
            answer.await.ok()
        };
        match timeout(EXPLAIN_TIMEOUT, asked).await {
            Ok(Some(answer)) => Ok(answer?),
            Ok(None) | Err(_) => Err(NotExplained::Late),
        }
    }
}
