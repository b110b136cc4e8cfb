//! Only the holder of the Lease writes.

use std::time::Duration;

use crate::harness::interceptor::Interceptor;
use longshore_simcluster::faults::MAX_REQUEST_DELAY;
use longshore_simcluster::fields;
use longshore_simcluster::object::Change;
use longshore_simcluster::server::{RequestInfo, resources};

/// A holder acts for 10 s after its last renewal, and others take over after 15 s. So its last
/// request has 5 s to arrive before it can lose the Lease. A request in flight for longer arrives
/// [`MAX_REQUEST_DELAY`] later at most, and cannot be called back. A tenth of a second is for
/// timers in whole milliseconds.
const UNDER_WAY: Duration = MAX_REQUEST_DELAY.saturating_sub(Duration::from_millis(4_900));

/// Who holds the Lease, and since when. By the server's time: the Lease has the time of the holder,
/// which may be wrong.
#[derive(Default)]
pub(super) struct Leaders {
    holder: String,
    since: Duration,
}

impl Leaders {
    pub fn lease(&mut self, interceptor: &Interceptor, change: &Change) {
        let holder = fields::text(&change.object, "/spec/holderIdentity");
        if holder != self.holder {
            *self = Leaders {
                holder: holder.to_owned(),
                since: interceptor.clock.elapsed(),
            };
        }
    }

    /// A write is about to be carried out.
    pub fn write(&self, interceptor: &Interceptor, asked: &RequestInfo) {
        // Who competes for the Lease does not hold it. An Event changes nothing that an actor reads.
        let Some(resource) = asked
            .resource
            .filter(|r| ![resources::LEASE, resources::EVENT].contains(r))
        else {
            return;
        };
        if !interceptor.elects {
            return;
        }
        let holder = &self.holder;
        if *holder == asked.client {
            return;
        }
        let since = interceptor.clock.elapsed().saturating_sub(self.since);
        if holder.is_empty() || since > UNDER_WAY {
            let what = format!("{} {}", asked.verb, resource.plural);
            let held = if holder.is_empty() {
                "nobody holds the Lease".to_owned()
            } else {
                format!("{holder} leads")
            };
            interceptor.violated(format!(
                "{} does not lead ({held}), and its {what} {} is carried out",
                asked.client, asked.name
            ));
        }
    }
}
