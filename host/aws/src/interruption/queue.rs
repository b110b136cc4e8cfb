//! Receives messages, has them handled and deletes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use super::{Done, Handler, Kind, Message, duties};
use crate::error::{ApiError, Class};
use crate::provider::Ec2;
use crate::wire;

/// Counts since the start, for metrics.
#[derive(Debug, Default)]
pub struct Counts {
    /// Messages that came.
    pub received: AtomicU64,
    /// Messages that were deleted.
    pub deleted: AtomicU64,
    /// Messages that could not be read or were of no concern.
    pub unread: AtomicU64,
    /// Duties that were done.
    pub handled: AtomicU64,
    /// Duties that failed: their messages come again.
    pub failed: AtomicU64,
}

/// The queue.
pub struct Queue {
    provider: Ec2,
    name: String,
    url: Option<String>,
    done: Done,
    counts: Arc<Counts>,
}

/// Pause after a call that failed: a second, doubled up to a minute.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl Queue {
    /// A queue by name. Its URL is asked for when it is needed.
    pub fn new(provider: Ec2, name: &str) -> Self {
        Queue {
            provider,
            name: name.to_owned(),
            url: None,
            done: Done::default(),
            counts: Arc::default(),
        }
    }

    /// The counts, which go on.
    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// Receives and handles for ever.
    pub async fn run(mut self, handler: Arc<dyn Handler>) {
        let mut pause = PAUSE;
        loop {
            match self.batch(&handler).await {
                Ok(_) => pause = PAUSE,
                Err(error) => {
                    let error = error.with_hint();
                    tracing::warn!(queue = self.name, error, "no messages; tried again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Waits for a batch and handles it. How many messages came.
    ///
    /// # Errors
    /// Messages cannot be received.
    pub async fn batch(&mut self, handler: &Arc<dyn Handler>) -> Result<usize, ApiError> {
        let clients = &self.provider.inner().clients;
        let url = match &self.url {
            Some(url) => url.clone(),
            None => wire::queue::url(clients, &self.name).await?,
        };
        let messages = match wire::queue::receive(clients, &url).await {
            Ok(messages) => messages,
            Err(error) => {
                // Another queue may have the name by now.
                if error.class == Class::NotFound {
                    self.url = None;
                }
                return Err(error);
            }
        };
        self.url = Some(url.clone());
        self.counts
            .received
            .fetch_add(messages.len() as u64, Ordering::Relaxed);
        self.handle(&messages, &url, handler).await;
        Ok(messages.len())
    }

    async fn handle(&mut self, messages: &[Message], url: &str, handler: &Arc<dyn Handler>) {
        let now = self.provider.now();
        self.done.expire(now);
        let duties = duties(messages, &self.done);
        for why in &duties.unread {
            tracing::debug!(%why, "message deleted");
        }
        self.counts
            .unread
            .fetch_add(duties.unread.len() as u64, Ordering::Relaxed);
        let mut tasks: JoinSet<(Kind, String, Result<(), String>)> = JoinSet::new();
        for (kind, id) in duties.to_do.keys().cloned() {
            let (provider, handler) = (self.provider.clone(), handler.clone());
            tasks.spawn(async move {
                let handled = handler.interrupted(kind, &id).await;
                // Second, so that nothing delays the drain.
                provider.note_interruption(kind, &id).await;
                (kind, id, handled)
            });
        }
        let mut finished = vec![true; messages.len()];
        let mut open = duties.to_do;
        while let Some(task) = tasks.join_next().await {
            // A handler that panics leaves its messages for another time.
            let Ok((kind, id, handled)) = task else {
                continue;
            };
            match handled {
                Ok(()) => {
                    self.done.add(kind, &id, now);
                    self.counts.handled.fetch_add(1, Ordering::Relaxed);
                    open.remove(&(kind, id));
                }
                Err(error) => {
                    self.counts.failed.fetch_add(1, Ordering::Relaxed);
                    let kind = kind.as_str();
                    tracing::warn!(kind, instance = id, error, "not handled; the message stays");
                }
            }
        }
        open.values().flatten().for_each(|at| finished[*at] = false);
        let mut tasks = JoinSet::new();
        for (message, _) in messages
            .iter()
            .zip(finished)
            .filter(|(_, finished)| *finished)
        {
            let (provider, url) = (self.provider.clone(), url.to_owned());
            let receipt = message.receipt.clone();
            tasks.spawn(async move {
                wire::queue::delete(&provider.inner().clients, &url, &receipt).await
            });
        }
        while let Some(task) = tasks.join_next().await {
            match task {
                Ok(Ok(())) => {
                    self.counts.deleted.fetch_add(1, Ordering::Relaxed);
                }
                // It comes again, and what it asks for is known to be done.
                Ok(Err(error)) => tracing::info!(error = error.with_hint(), "message not deleted"),
                Err(_) => {}
            }
        }
    }
}
