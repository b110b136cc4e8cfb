//! The number of requests of a process is in proportion to what happens.

use std::collections::BTreeMap;

use crate::harness::interceptor::Interceptor;
use longshore_simcluster::fields;
use longshore_simcluster::server::resources;

/// Kinds that are watched, and as many again.
const WATCHES: u64 = 30;
/// Competing for the Lease every two seconds: a read and a write.
const LEASE_REQUESTS: u64 = 60;
/// Requests per change: a launch writes a claim about ten times, and a pod is nominated, cleared
/// and nominated again.
const CHANGE_REQUESTS: u64 = 6;
/// A minute of a node that is being drained: looked at every second at most.
const DRAIN_REQUESTS: u64 = 60;
/// A minute of a pod that may not leave yet, asked again every ten seconds.
const BLOCKED_REQUESTS: u64 = 6;

/// Requests and changes of the last minutes.
#[derive(Default)]
pub(super) struct Requests {
    /// Requests by process and verb, as of the last minute.
    counted: BTreeMap<(String, &'static str), u64>,
    changes: u64,
    before: u64,
    /// How often all watches had been ended a minute ago.
    dropped: u64,
    /// Nodes on their way out and pods on them a minute ago.
    leaving: (u64, u64),
}

impl Requests {
    /// Something was written.
    pub fn changed(&mut self) {
        self.changes += 1;
    }

    /// A minute is over.
    pub fn minute(&mut self, interceptor: &Interceptor) {
        let nodes = interceptor.server.list(resources::NODE);
        let going: Vec<_> = nodes.iter().filter(|node| fields::deleting(node)).collect();
        let pods: usize = going
            .iter()
            .map(|node| interceptor.server.pods_on(fields::name(node)).len())
            .sum();
        let leaving = (going.len() as u64, pods as u64);
        let (nodes, pods) = (leaving.0.max(self.leaving.0), leaving.1.max(self.leaving.1));
        let lease = if interceptor.elects {
            LEASE_REQUESTS
        } else {
            0
        };
        let dropped = interceptor.server.dropped_watches();
        let most = |verb: &str| match verb {
            // A watch that is refused is asked for again, later each time.
            "watch" => WATCHES * (2 + dropped - self.dropped),
            // After a start, or when the server has forgotten the past, everything is listed.
            "list" => {
                WATCHES * 2
                    + nodes * DRAIN_REQUESTS
                    + CHANGE_REQUESTS * (self.changes + self.before) / 2
            }
            _ => {
                WATCHES
                    + lease
                    + CHANGE_REQUESTS * (self.changes + self.before)
                    + nodes * DRAIN_REQUESTS
                    + pods * BLOCKED_REQUESTS
            }
        };
        let mut now: BTreeMap<(String, &'static str), u64> = BTreeMap::new();
        for ((client, verb, _), count) in interceptor.server.requests().by {
            if client.starts_with("daemon#") {
                *now.entry((client, verb)).or_default() += count;
            }
        }
        for ((client, verb), count) in &now {
            let more = count
                - self
                    .counted
                    .get(&(client.clone(), *verb))
                    .copied()
                    .unwrap_or(0);
            let most = most(verb);
            if more > most {
                let changes = self.changes + self.before;
                interceptor.violated(format!(
                    "{client} has asked {more} times in a minute to {verb}, and {most} times would \
                    do ({changes} changes in \
                     two minutes, {nodes} nodes with {pods} pods going)"
                ));
            }
        }
        self.dropped = dropped;
        (self.counted, self.before, self.changes, self.leaving) = (now, self.changes, 0, leaving);
    }
}
