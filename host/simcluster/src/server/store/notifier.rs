//! Notifies all waiters of a change, in the order in which they began to wait.
//!
//! tokio's `watch` wakes waiters in an order drawn from the thread's random numbers. Two processes
//! that watch the same kind would then ask in another order each time, and the seed would not
//! decide.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// A bell. Dropped, it never rings again.
#[derive(Default)]
pub struct Notifier(Arc<Shared>);

#[derive(Default)]
struct Shared {
    count: AtomicU64,
    notify: Notify,
}

/// Who waits for it.
pub struct Subscription {
    notifier: Arc<Shared>,
    seen: u64,
}

impl Notifier {
    /// Rings.
    pub fn notify(&self) {
        self.0.count.fetch_add(1, Ordering::Relaxed);
        self.0.notify.notify_waiters();
    }

    /// Hears what rings from now on.
    pub fn subscribe(&self) -> Subscription {
        Subscription {
            notifier: self.0.clone(),
            seen: self.0.count.load(Ordering::Relaxed),
        }
    }
}

impl Subscription {
    /// Until it has rung since this was asked, or [`Subscription::forget`], last.
    pub async fn changed(&mut self) {
        let bell = self.notifier.clone();
        loop {
            let mut next = std::pin::pin!(bell.notify.notified());
            next.as_mut().enable();
            let rung = bell.count.load(Ordering::Relaxed);
            if rung != self.seen {
                self.seen = rung;
                return;
            }
            next.await;
        }
    }

    /// What has rung until now was heard.
    pub fn forget(&mut self) {
        self.seen = self.notifier.count.load(Ordering::Relaxed);
    }
}
