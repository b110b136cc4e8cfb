//! Rules that a daemon must never break, checked when it acts.
//!
//! Safety checks read the server's state and trust nothing that the daemon says. Effects of
//! requests that are carried out later are checked by [`judges`](super::judges).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use longshore_cloud::Launch;

use super::interceptor::Interceptor;
use super::judges::Judges;
use super::judges::canaries;
use super::judges::nodes::MAX_WATCH_SILENCE;
use longshore_simcluster::faults::writes;
use longshore_simcluster::fields;
use longshore_simcluster::server::{RequestInfo, resources};

/// A request to the API server leaves a process.
pub(super) fn request(judges: &Judges, asked: &RequestInfo) {
    let interceptor = &judges.interceptor;
    if !asked.client.starts_with("daemon#") || !interceptor.lives(&asked.client) || !writes(asked) {
        return;
    }
    let Some(resource) = asked.resource else {
        return;
    };
    if resource != resources::LEASE && resource != resources::EVENT {
        leads(
            interceptor,
            &asked.client,
            &format!("{} {} {}", asked.verb, resource.plural, asked.name),
        );
    }
}

/// A launch is asked for.
pub(super) fn launch(judges: &Judges, client: &str, launch: &Launch) {
    let interceptor = &judges.interceptor;
    leads(interceptor, client, &format!("launch {}", launch.name));
    canaries::launch(interceptor, launch);
    let claim = interceptor
        .server
        .get(&fields::key(resources::NODE_CLAIM, "", &launch.name));
    match claim {
        Some(claim) if fields::uid(&claim) == launch.uid => {}
        // A silent watch or an old list may show a claim that is gone, or its state before a backup
        // was restored.
        _ if may_be_known(judges, &launch.uid) => {}
        Some(_) => interceptor.violated(format!(
            "{}: launched with a token that is not its claim's",
            launch.name
        )),
        None => interceptor.violated(format!(
            "launch without a claim on the server ({})",
            launch.uid
        )),
    }
}

/// Instances are asked for, for a launch group: as many claims of it were made at least, and its claims
/// are known.
#[cfg(feature = "aws")]
pub(super) fn launch_group(judges: &Judges, client: &str, group: &longshore_cloud::GroupLaunch) {
    let interceptor = &judges.interceptor;
    let token = &*group.token;
    leads(interceptor, client, &format!("launch group {token}"));
    if group.count > group.size {
        let (count, size) = (group.count, group.size);
        interceptor.violated(format!("group {token}: {count} launched, of {size}"));
    }
    let claims = interceptor.server.list(resources::NODE_CLAIM);
    let members = claims
        .iter()
        .filter(|claim| super::judges::proof::in_group(claim, token))
        .count();
    // Others went so recently that the daemon may take them for claims that are there.
    let gone = judges.members_gone_within(token, MAX_WATCH_SILENCE);
    if members + gone < group.count {
        let count = group.count;
        interceptor.violated(format!(
            "group {token}: {count} launched, for {members} claims on the server"
        ));
    }
}

/// Whether a claim went so recently that the daemon may take it for one that is there.
fn may_be_known(judges: &Judges, uid: &str) -> bool {
    judges
        .gone_for(uid)
        .is_some_and(|gone| gone <= MAX_WATCH_SILENCE)
}

/// An instance is terminated: its pods must have left.
pub(super) fn end(judges: &Judges, client: &str, provider_id: &str) {
    let what = format!("end {provider_id}");
    leads(&judges.interceptor, client, &what);
    judges.end(client, provider_id);
}

/// What became of the rounds of a process, as it counts them itself.
pub(super) struct Rounds<F> {
    count: F,
    /// Rejected, replaced, and with pods left out, when they were looked at last.
    seen: Mutex<(u64, u64, u64)>,
}

impl<F: Fn(&str) -> u64> Rounds<F> {
    pub fn new(count: F) -> Self {
        Rounds {
            count,
            seen: Mutex::default(),
        }
    }

    /// Looks whether plans have broken rules since it was looked at last.
    pub fn look(&self, interceptor: &Interceptor, client: &str) {
        let now = (
            (self.count)("rejected"),
            (self.count)("replaced"),
            (self.count)("left_out"),
        );
        let before = std::mem::replace(
            &mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner),
            now,
        );
        if before != now {
            interceptor.violated(format!(
                "{client}: plans that break a rule: {} rejected, {} replaced, {} with pods left out",
                now.0, now.1, now.2
            ));
        }
    }

    /// Looks now and then, for ever.
    pub async fn watch(&self, interceptor: &Interceptor, client: &str) {
        loop {
            tokio::time::sleep(Duration::from_secs(60)).await;
            self.look(interceptor, client);
        }
    }
}

/// Only the leader changes anything.
pub(super) fn leads(interceptor: &Interceptor, client: &str, what: &str) {
    if !interceptor.elects {
        return;
    }
    let holder = interceptor.lease_holder();
    if holder != client {
        interceptor.violated(format!(
            "{client} does not lead ({holder:?} does) and does: {what}"
        ));
    }
}
