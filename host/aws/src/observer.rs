//! What happens, for metrics: told where it happens, counted by whoever listens.
//!
//! Nothing here knows a name of a metric, and nothing waits for an answer: methods return at once.

use std::time::Duration;

use crate::calls::Call;

/// Is told what happens. Every method does nothing unless an implementation wants to know.
pub trait Observer: Send + Sync {
    /// A call has ended. `attempts` counts the requests that were sent, 0 if none was; `waited` is
    /// how long it was held back here, and `took` how long it took after that. `error` is the code of
    /// the failure, or the word for one that has none.
    fn called(
        &self,
        call: Call,
        attempts: u32,
        waited: Duration,
        took: Duration,
        error: Option<&str>,
    ) {
        _ = (call, attempts, waited, took, error);
    }

    /// A fleet could not launch an offering. `reason` is EC2's code.
    fn launch_failed(&self, zone: &str, zone_id: &str, capacity_type: &str, reason: &str) {
        _ = (zone, zone_id, capacity_type, reason);
    }

    /// An instance could not be terminated.
    fn termination_failed(&self, zone: &str, zone_id: &str) {
        _ = (zone, zone_id);
    }

    /// Calls that coincided were sent as one: how many, and how long the first of them waited.
    fn batched(&self, batcher: &'static str, size: usize, waited: Duration) {
        _ = (batcher, size, waited);
    }

    /// Nodes of a NodeClass boot with so many bytes of user data.
    fn user_data(&self, nodeclass: &str, bytes: usize) {
        _ = (nodeclass, bytes);
    }

    /// A message came. `what` is the kind of its interruption, `no_op` or `unreadable`.
    fn received(&self, what: &'static str) {
        _ = what;
    }

    /// What a message asks for is done, so long after the message was sent.
    fn message_done(&self, after: Duration) {
        _ = after;
    }

    /// A message was deleted.
    fn deleted(&self) {}

    /// What a message asks for could not be done: it comes again.
    fn message_failed(&self) {}
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}
