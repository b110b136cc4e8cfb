//! What happens, for metrics: reported where it happens, counted by the observer.
//!
//! Nothing here knows a name of a metric, and nothing waits for an answer: methods return at once.

use std::time::Duration;

use longshore_api::crd::Condition;

use crate::calls::Call;
use crate::error::Class;

/// How a call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Called {
    /// Requests that were sent: 0 if none was, more than 1 if the SDK tried again.
    pub attempts: u32,
    /// How long the call was held back here, to stay below the limits of AWS.
    pub waited: Duration,
    /// How long it took after that, all attempts together.
    pub took: Duration,
    /// What came of it, if it failed.
    pub error: Option<Class>,
}

/// Counts what happens. A method that an implementation leaves out does nothing.
pub trait Observer: Send + Sync {
    /// A call has ended.
    fn called(&self, call: Call, how: Called) {
        _ = (call, how);
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

    /// A condition of an EC2NodeClass has another status. `old` is what it was before, if it was
    /// there.
    fn condition_changed(&self, old: Option<&Condition>, new: &Condition) {
        _ = (old, new);
    }

    /// An EC2NodeClass is gone, so long after its deletion was asked for.
    fn class_ended(&self, after: Duration) {
        _ = after;
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

/// An observer that counts nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}
