//! Says that something has changed to all who wait for it, in the order in which they began to wait.
//!
//! Not tokio's `watch`, which wakes waiters in an order drawn from the thread's own chance: two processes that watch the
//! same kind would ask in another order each time, and the seed would not decide.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// A bell. Dropped, it never rings again.
#[derive(Default)]
pub struct Bell(Arc<Shared>);

#[derive(Default)]
struct Shared {
    rung: AtomicU64,
    notify: Notify,
}

/// Who waits for it.
pub struct Ear {
    bell: Arc<Shared>,
    heard: u64,
}

impl Bell {
    /// Rings.
    pub fn ring(&self) {
        self.0.rung.fetch_add(1, Ordering::Relaxed);
        self.0.notify.notify_waiters();
    }

    /// Hears what rings from now on.
    pub fn listen(&self) -> Ear {
        Ear { bell: self.0.clone(), heard: self.0.rung.load(Ordering::Relaxed) }
    }
}

impl Ear {
    /// Until it has rung since this was asked, or [`Ear::forget`], last.
    pub async fn rung(&mut self) {
        let bell = self.bell.clone();
        loop {
            let mut next = std::pin::pin!(bell.notify.notified());
            next.as_mut().enable();
            let rung = bell.rung.load(Ordering::Relaxed);
            if rung != self.heard {
                self.heard = rung;
                return;
            }
            next.await;
        }
    }

    /// What has rung until now was heard.
    pub fn forget(&mut self) {
        self.heard = self.bell.rung.load(Ordering::Relaxed);
    }
}
