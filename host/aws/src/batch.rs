//! Calls that coincide are sent as one.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::lock::lock;

/// What runs a batch: answers in the order of the questions.
type Run<K, V> = dyn Fn(Vec<K>) -> Pin<Box<dyn Future<Output = Vec<V>> + Send>> + Send + Sync;

/// When a batch is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Nothing has come for this long.
    pub idle: Duration,
    /// The first has waited for this long.
    pub longest: Duration,
    /// So many have come.
    pub most: usize,
}

/// Collects questions and asks them together. Cheap to clone. Once the last clone is dropped, nothing
/// is asked any more: a batch that is under way ends where it is.
pub struct Batcher<K, V> {
    inner: Arc<Inner<K, V>>,
    tasks: Arc<Mutex<JoinSet<()>>>,
}

struct Inner<K, V> {
    window: Window,
    waiting: Mutex<Vec<(K, oneshot::Sender<V>)>>,
    arrived: Notify,
    run: Box<Run<K, V>>,
    seen: Box<Seen>,
}

/// Called with each batch before it runs: how many questions it has, and how long the first waited.
type Seen = dyn Fn(usize, Duration) + Send + Sync;

impl<K, V> Clone for Batcher<K, V> {
    fn clone(&self) -> Self {
        Batcher {
            inner: self.inner.clone(),
            tasks: self.tasks.clone(),
        }
    }
}

impl<K: Send + 'static, V: Send + 'static> Batcher<K, V> {
    /// A batcher. `run` answers each question of a batch, in order.
    pub fn new<R>(window: Window, run: impl Fn(Vec<K>) -> R + Send + Sync + 'static) -> Self
    where
        R: Future<Output = Vec<V>> + Send + 'static,
    {
        Batcher::seen(window, |_, _| {}, run)
    }

    /// The same, where `seen` is called with each batch before it runs: how many questions it has, and
    /// how long the first waited.
    pub fn seen<R>(
        window: Window,
        seen: impl Fn(usize, Duration) + Send + Sync + 'static,
        run: impl Fn(Vec<K>) -> R + Send + Sync + 'static,
    ) -> Self
    where
        R: Future<Output = Vec<V>> + Send + 'static,
    {
        let inner = Inner {
            window,
            waiting: Mutex::default(),
            arrived: Notify::new(),
            run: Box::new(move |all| Box::pin(run(all))),
            seen: Box::new(seen),
        };
        Batcher {
            inner: Arc::new(inner),
            tasks: Arc::default(),
        }
    }

    /// Asks. Nothing if the batch was not answered: the runtime ends.
    pub async fn ask(&self, question: K) -> Option<V> {
        let (sender, answer) = oneshot::channel();
        let first = {
            let mut waiting = self.inner.waiting();
            waiting.push((question, sender));
            waiting.len() == 1
        };
        match first {
            // A task of its own: the first to ask may be cancelled.
            true => {
                let mut tasks = lock(&self.tasks);
                while tasks.try_join_next().is_some() {}
                tasks.spawn(collect(self.inner.clone()));
            }
            false => self.inner.arrived.notify_one(),
        }
        answer.await.ok()
    }
}

impl<K, V> Inner<K, V> {
    fn waiting(&self) -> MutexGuard<'_, Vec<(K, oneshot::Sender<V>)>> {
        lock(&self.waiting)
    }
}

async fn collect<K: Send + 'static, V: Send + 'static>(inner: Arc<Inner<K, V>>) {
    let Window {
        idle,
        longest,
        most,
    } = inner.window;
    let began = Instant::now();
    let last = began + longest;
    while inner.waiting().len() < most {
        let until = last.min(Instant::now() + idle);
        tokio::select! {
            // In this order, so that two runs of a simulation are equal.
            biased;
            () = tokio::time::sleep_until(until) => break,
            () = inner.arrived.notified() => {}
        }
    }
    let mut all = std::mem::take(&mut *inner.waiting()).into_iter();
    loop {
        let (questions, senders): (Vec<K>, Vec<_>) = all.by_ref().take(most).unzip();
        if questions.is_empty() {
            return;
        }
        (inner.seen)(questions.len(), began.elapsed());
        let answers = (inner.run)(questions).await;
        for (sender, answer) in senders.into_iter().zip(answers) {
            // The caller may have given up.
            let _ = sender.send(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(most: usize) -> Window {
        Window {
            idle: Duration::from_millis(20),
            longest: Duration::from_secs(5),
            most,
        }
    }

    /// Asks 1 to 5 at once of a batcher that doubles: the answers, and the sizes of the batches.
    async fn five(most: usize) -> (Vec<u32>, Vec<usize>) {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let seen = sizes.clone();
        let batcher = Batcher::new(window(most), move |all: Vec<u32>| {
            seen.lock().unwrap().push(all.len());
            async move { all.into_iter().map(|one| one * 2).collect() }
        });
        let mut asked = Vec::new();
        for one in 1..=5 {
            let batcher = batcher.clone();
            asked.push(tokio::spawn(async move { batcher.ask(one).await.unwrap() }));
        }
        let mut answers = Vec::new();
        for one in asked {
            answers.push(one.await.unwrap());
        }
        let sizes = sizes.lock().unwrap().clone();
        (answers, sizes)
    }

    #[tokio::test]
    async fn what_comes_together_is_asked_together_and_each_gets_its_answer() {
        let (answers, sizes) = five(100).await;
        assert_eq!(answers, [2, 4, 6, 8, 10]);
        assert_eq!(sizes, [5]);
    }

    #[tokio::test]
    async fn a_batch_has_a_largest_size() {
        let (answers, sizes) = five(2).await;
        assert_eq!(answers, [2, 4, 6, 8, 10]);
        assert_eq!(sizes.iter().sum::<usize>(), 5);
        assert!(sizes.iter().all(|size| *size <= 2), "{sizes:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_asked_once_nobody_can_ask() {
        let done = Arc::new(Mutex::new(Vec::<u32>::new()));
        let seen = done.clone();
        let batcher = Batcher::new(window(1), move |all: Vec<u32>| {
            let seen = seen.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(u64::from(all[0]))).await;
                seen.lock().unwrap().extend(&all);
                all
            }
        });
        assert_eq!(batcher.ask(1).await, Some(1));
        let of = batcher.clone();
        let asking = tokio::spawn(async move { of.ask(2).await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        asking.abort();
        drop(batcher);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(*done.lock().unwrap(), [1]);
    }
}
