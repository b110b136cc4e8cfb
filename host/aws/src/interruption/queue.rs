//! Receives messages, has them handled and deletes them.
//!
//! One call waits for messages at a time. What it brings is handled beside the next call, so that
//! neither a slow handler nor a slow deletion holds up the messages behind. A message is deleted
//! once everything that it asks for is done.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::duties::{Duties, Duty, Turn};
use super::{Handler, Interruption, Message, read};
use crate::batch::{Batcher, Window};
use crate::clients::Clients;
use crate::error::{ApiError, Class};
use crate::provider::Ec2;
use crate::wire;

/// The queue.
pub struct Queue {
    name: String,
    url: Option<Arc<str>>,
    work: Arc<Work>,
    /// Messages that are being handled.
    in_hand: JoinSet<()>,
}

/// What handles messages.
struct Work {
    provider: Ec2,
    handler: Arc<dyn Handler>,
    duties: Arc<Duties>,
    /// Duties that may be done at a time.
    turns: Semaphore,
    deletions: Batcher<Receipt, Result<(), ApiError>>,
}

/// What deletes a message.
#[derive(Clone)]
struct Receipt {
    url: Arc<str>,
    receipt: String,
}

/// Pause after a call that failed; doubled each time.
const RECEIVE_RETRY: Duration = Duration::from_secs(1);
/// Longest pause after a call that failed.
const MAX_RECEIVE_RETRY: Duration = Duration::from_secs(60);
/// Messages that may be in hand before the next are received: 20 batches.
const MAX_MESSAGES_IN_HAND: usize = 200;
/// Duties that are done at a time. Each is a few calls of the API server.
const DUTIES_AT_ONCE: usize = 32;
/// Deletions that are sent together: ten are all that SQS takes.
const DELETIONS: Window = Window {
    idle: Duration::from_millis(20),
    longest: Duration::from_millis(200),
    most: 10,
};

impl Queue {
    /// A queue by name. Its URL is asked for when it is needed.
    pub fn new(provider: Ec2, name: &str, handler: Arc<dyn Handler>) -> Self {
        let clients = provider.inner().clients.clone();
        let observed = clients.clone();
        let seen = move |size, waited| observed.observer().batched("delete_messages", size, waited);
        let work = Work {
            provider,
            handler,
            duties: Arc::default(),
            turns: Semaphore::new(DUTIES_AT_ONCE),
            deletions: Batcher::seen(DELETIONS, seen, move |all| delete(clients.clone(), all)),
        };
        Queue {
            name: name.to_owned(),
            url: None,
            work: Arc::new(work),
            in_hand: JoinSet::new(),
        }
    }

    /// Receives and handles for ever. What is in hand when this is dropped comes again.
    pub async fn run(mut self) {
        let mut pause = RECEIVE_RETRY;
        let mut failing = false;
        loop {
            match self.receive().await {
                Ok(_) if failing => {
                    (failing, pause) = (false, RECEIVE_RETRY);
                    tracing::info!(queue = self.name, "interruption queue recovered");
                    self.work.handler.trouble(None).await;
                }
                Ok(_) => {}
                Err(error) => {
                    failing = true;
                    let why = format!("interruption queue {}: {}", self.name, error.lasting());
                    self.work.handler.trouble(Some(&why)).await;
                    let error = error.with_hint();
                    tracing::warn!(
                        queue = self.name,
                        error,
                        "receiving messages failed; retrying"
                    );
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(MAX_RECEIVE_RETRY);
                }
            }
            while self.in_hand.try_join_next().is_some() {}
            while self.in_hand.len() >= MAX_MESSAGES_IN_HAND {
                // One that panicked leaves its message for another time.
                let _ = self.in_hand.join_next().await;
            }
        }
    }

    /// Waits for a batch and handles all of it. How many messages came.
    ///
    /// # Errors
    /// Messages cannot be received.
    pub async fn batch(&mut self) -> Result<usize, ApiError> {
        let received = self.receive().await?;
        while self.in_hand.join_next().await.is_some() {}
        Ok(received)
    }

    /// Waits for a batch and begins to handle it.
    async fn receive(&mut self) -> Result<usize, ApiError> {
        let clients = &self.work.provider.inner().clients;
        let url = match &self.url {
            Some(url) => url.clone(),
            None => wire::queue::url(clients, &self.name).await?.into(),
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
        let received = messages.len();
        for message in messages {
            let asks = self.work.asks(&message);
            let Message { receipt, sent, .. } = message;
            let receipt = Receipt {
                url: url.clone(),
                receipt,
            };
            let work = self.work.clone();
            self.in_hand
                .spawn(async move { work.handle(asks, sent, receipt).await });
        }
        Ok(received)
    }
}

impl Work {
    /// What a message asks for; the duties of other clusters' instances are left out.
    fn asks(&self, message: &Message) -> Vec<Duty> {
        let observer = self.provider.inner().clients.observer();
        match read(&message.body) {
            Ok(Interruption {
                kind, instances, ..
            }) => {
                observer.received(kind.as_str());
                let ours = instances.into_iter();
                let ours = ours.filter(|id| !self.handler.is_foreign(id));
                ours.map(|id| (kind, id)).collect()
            }
            Err(why) => {
                observer.received(why.as_str());
                tracing::debug!(%why, "deleting a message that cannot be read");
                Vec::new()
            }
        }
    }

    /// Does what a message asks for, and deletes it.
    async fn handle(self: Arc<Self>, asks: Vec<Duty>, sent: Option<i64>, receipt: Receipt) {
        let mut tasks = JoinSet::new();
        for duty in asks {
            tasks.spawn(self.clone().perform(duty));
        }
        let mut all = true;
        while let Some(done) = tasks.join_next().await {
            all &= done.unwrap_or(false);
        }
        let observer = self.provider.inner().clients.observer();
        if !all {
            observer.message_failed();
            return;
        }
        if let Some(sent) = sent.and_then(|sent| u64::try_from(sent).ok()) {
            let sent = SystemTime::UNIX_EPOCH + Duration::from_millis(sent);
            let after = self.provider.system_time().duration_since(sent);
            observer.message_done(after.unwrap_or_default());
        }
        match self.deletions.ask(receipt).await {
            Some(Ok(())) => observer.deleted(),
            // It comes again, and what it asks for is known to be done.
            Some(Err(error)) => {
                tracing::info!(error = error.with_hint(), "deleting message failed")
            }
            None => {}
        }
    }

    /// Whether a duty is done.
    async fn perform(self: Arc<Self>, duty: Duty) -> bool {
        let begun = match self.duties.ask(&duty, self.provider.now()) {
            Turn::Done => return true,
            Turn::Wait(waiting) => return waiting.worked().await,
            Turn::Begin(begun) => begun,
        };
        let Ok(turn) = self.turns.acquire().await else {
            return false;
        };
        let (kind, id) = &duty;
        let handled = self.handler.interrupted(*kind, id).await;
        begun.end(handled.is_ok(), self.provider.now());
        drop(turn);
        // Second, and out of turn, so that nothing delays a drain.
        self.provider.note_interruption(*kind, id).await;
        if let Err(error) = &handled {
            let kind = kind.as_str();
            tracing::warn!(
                kind,
                instance = id,
                error,
                "handling message failed; it stays in the queue"
            );
        }
        handled.is_ok()
    }
}

/// Deletes messages. Those of a queue that was replaced have another URL.
async fn delete(clients: Arc<Clients>, all: Vec<Receipt>) -> Vec<Result<(), ApiError>> {
    let mut results = Vec::with_capacity(all.len());
    for same in all.chunk_by(|one, next| one.url == next.url) {
        let receipts: Vec<&str> = same.iter().map(|one| &*one.receipt).collect();
        match wire::queue::delete(&clients, &same[0].url, &receipts).await {
            Ok(each) => results.extend(each),
            Err(error) => results.extend(same.iter().map(|_| Err(error.clone()))),
        }
    }
    results
}
