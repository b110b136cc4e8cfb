//! Runs [`handle`](crate::handle()) at a clock: in process under virtual time, or behind a port.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::handle::{Response, handle, resume};
use crate::time::Time;
use crate::wire::{Reply, Request};
use crate::world::World;

/// A clock, real or virtual.
pub trait Clock: Send + Sync {
    fn now(&self) -> Time;
    /// Done when it is at least this time.
    fn sleep_until(&self, time: Time) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// A world that many callers share.
pub struct Shell<C> {
    world: Mutex<World>,
    clock: C,
    waiting: Mutex<Waiting>,
}

/// Polls that wait for a change, and how many changes there were.
#[derive(Default)]
struct Waiting {
    changes: u64,
    wakers: Vec<Waker>,
}

/// The connection ended without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection ended without a reply")]
pub struct Dropped;

impl<C: Clock> Shell<C> {
    /// A shell around a world.
    pub fn new(world: World, clock: C) -> Arc<Self> {
        Arc::new(Shell {
            world: Mutex::new(world),
            clock,
            waiting: Mutex::default(),
        })
    }

    /// Looks at the world, or changes it, at the clock's time.
    pub fn with<T>(&self, look: impl FnOnce(&mut World, Time) -> T) -> T {
        let result = look(&mut self.lock(), self.clock.now());
        self.wake();
        result
    }

    /// Looks at the world as the last call has left it. Long polls sleep on.
    pub fn look<T>(&self, look: impl FnOnce(&World) -> T) -> T {
        look(&self.lock())
    }

    /// Sends a request and waits for its reply, delays and long polls included.
    ///
    /// # Errors
    /// The connection ended without a reply, as a fault wanted it.
    pub async fn call(&self, request: Request) -> Result<Reply, Dropped> {
        let mut response = self.with(|world, now| handle(world, now, &request));
        loop {
            let wait = match response {
                Response::Reply { reply, delay } => {
                    self.pause(delay).await;
                    return Ok(reply);
                }
                Response::Drop { delay } => {
                    self.pause(delay).await;
                    return Err(Dropped);
                }
                Response::Wait(wait) => wait,
            };
            // Counted before the world is read: a change in between ends the pause at once.
            let changes = self.waiting().changes;
            let next = self.lock().next_change().unwrap_or(wait.until);
            self.change_or(changes, next.min(wait.until)).await;
            let now = self.clock.now();
            response = resume(&mut self.lock(), now, *wait);
        }
    }

    async fn pause(&self, delay: i64) {
        if delay > 0 {
            self.clock.sleep_until(self.clock.now().plus(delay)).await;
        }
    }

    /// Waits for a change after the first `seen`, or for a time.
    async fn change_or(&self, seen: u64, time: Time) {
        let mut sleep = pin!(self.clock.sleep_until(time));
        poll_fn(|context| {
            let mut waiting = self.waiting();
            if waiting.changes != seen || sleep.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            waiting.wakers.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn wake(&self) {
        let mut waiting = self.waiting();
        waiting.changes += 1;
        let wakers = std::mem::take(&mut waiting.wakers);
        drop(waiting);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
