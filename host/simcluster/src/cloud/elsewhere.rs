//! A cloud that is simulated elsewhere. The world, its judges and its scenarios see it through
//! [`Cloud`](super::Cloud) as they see the cloud of this crate.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::{CloudEvent, Disturbances, LaunchFaults, Ledger, Running, Stats};
use crate::clock::Clock;
use crate::log::Log;
use crate::server::Server;

/// What a world asks of it; each is what the method of [`Cloud`](super::Cloud) of that name does.
#[allow(missing_docs)]
pub trait Elsewhere: Send + Sync {
    /// A world begins. Called once, before everything else.
    fn connect(&self, server: Server, clock: Clock, log: Log);
    fn next(&self) -> Option<Duration>;
    /// Does all that is due by now.
    fn step(&self, now: Duration);
    fn events(&self) -> Vec<CloudEvent>;
    /// Is notified when something new is due.
    fn asked(&self) -> &Notify;
    fn ledger(&self) -> Ledger;
    fn running(&self) -> Vec<Running>;
    fn runs(&self, provider_id: &str) -> bool;
    fn runs_for(&self, claim: &str) -> Option<String>;
    /// Whether it has said that it takes an instance back, or retires it.
    fn warned(&self, provider_id: &str) -> bool;
    fn stats(&self) -> Stats;
    fn interrupt(&self, provider_id: &str) -> bool;
    fn kill(&self, provider_id: &str) -> bool;
    fn capacity_outage(&self, pattern: &str, length: Duration);
    fn shift_prices(&self, pattern: &str, factor: f64);
    fn set_faults(&self, faults: LaunchFaults);
    fn set_disturbances(&self, disturbances: Disturbances);
    /// A fault of this cloud alone, in its own words.
    fn trouble(&self, what: &str);
    /// What is not as it must be once all is quiet, beside what holds for every cloud.
    fn unsettled(&self) -> Vec<String>;
}

#[derive(Clone)]
pub struct Handle(pub Arc<dyn Elsewhere>);

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handle")
    }
}
