//! A process in an idle, converged cluster writes nothing but its Lease, and Events that say again
//! why nodes stay.

use std::time::Duration;

use super::disruption;
use crate::harness::interceptor::Interceptor;
use longshore_simcluster::fields;
use longshore_simcluster::object::Change;
use longshore_simcluster::server::{RequestInfo, resources};

/// What the daemon still does about the last thing that happened: hints are taken back after 30 s,
/// garbage is looked for twice, two minutes apart, failures are tried again within a minute.
const AFTERMATH_TIME: Duration = Duration::from_secs(5 * 60);

/// Reasons of Events that say why nodes stay. They are said again every 15 minutes, and of NodePools
/// whose budgets are closed every minute, as Karpenter does: the API server forgets Events after an
/// hour.
const STAYS: [&str; 3] = [
    "Unconsolidatable",
    "ConsolidationRejected",
    "DisruptionBlocked",
];

/// When something last happened that the daemon has not done itself.
#[derive(Default)]
pub(super) struct Rest {
    since: Option<Duration>,
    /// Whether the Event that the daemon has written last says why a node stays; nothing once that is
    /// judged.
    says_why: Option<bool>,
}

impl Rest {
    /// From now on nothing is expected to happen, or everything again.
    pub fn begin(&mut self, interceptor: &Interceptor, rests: bool) {
        self.since = rests.then(|| interceptor.clock.elapsed());
    }

    pub fn on_change(
        &mut self,
        interceptor: &Interceptor,
        change: &Change,
        by: Option<&RequestInfo>,
    ) {
        if change.key.resource == resources::EVENT && by.is_some() {
            let reason = fields::text(&change.object, "/reason");
            self.says_why = Some(STAYS.contains(&reason));
        }
        let matters = ![resources::LEASE, resources::EVENT].contains(&change.key.resource);
        if let Some(since) = self.since.as_mut().filter(|_| by.is_none() && matters) {
            *since = interceptor.clock.elapsed();
        }
    }

    /// A write of the daemon was carried out.
    pub fn write(&mut self, interceptor: &Interceptor, asked: &RequestInfo) {
        // Taken by each write of an Event: what was written before rest began says nothing of this one.
        let of_event = asked.resource == Some(resources::EVENT);
        let says_why = of_event.then(|| self.says_why.take()).flatten();
        let Some(since) = &mut self.since else { return };
        let now = interceptor.clock.elapsed();
        let Some(resource) = asked
            .resource
            .filter(|resource| *resource != resources::LEASE)
        else {
            return;
        };
        // An Event that the API server has forgotten is not written by the patch that finds that out.
        if of_event && says_why != Some(false) {
            return;
        }
        let goes = |claim: &std::sync::Arc<serde_json::Value>| fields::deleting(claim);
        if interceptor
            .server
            .list(resources::NODE_CLAIM)
            .iter()
            .any(goes)
        {
            // Its time was over: something happens again. Whether that is so is another rule's
            // (`proof`).
            *since = now;
        } else if disruption::backs_off(interceptor, AFTERMATH_TIME) {
            // What failed is tried again when its time has come.
            *since = now;
        } else if *since + AFTERMATH_TIME < now {
            let (verb, kind, sub) = (asked.verb, resource.plural, &asked.subresource);
            let idle = (now - *since).as_secs();
            interceptor.violated(format!(
                "nothing happens for {idle} s, and {} does: {verb} {kind}/{sub} {}",
                asked.client, asked.name
            ));
        }
    }
}
