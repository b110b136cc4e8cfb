//! A node has the labels and taints of its claim when it registers, and loses none of them later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::pods;
use crate::harness::interceptor::Interceptor;
use longshore_simcluster::fields;
use longshore_simcluster::object::{Change, Event};
use longshore_simcluster::server::{RequestInfo, resources};

/// Taint of nodes that are disrupted or on their way out.
pub(crate) const DISRUPTED: &str = "karpenter.sh/disrupted";
/// Taint of nodes that later waves of disruption remove.
pub(crate) const GOES_LATER: &str = "longshore.dev/disruption-planned";
const UNREGISTERED: &str = "karpenter.sh/unregistered";
const REGISTERED: &str = "karpenter.sh/registered";
const INITIALIZED: &str = "karpenter.sh/initialized";
/// Taint of nodes whose machine is started anew.
const REBOOTS: &str = "karpenter.sh/rebooting";
const FINALIZER: &str = "karpenter.sh/termination";
const NO_TAINT_SYNC: &str = "karpenter.sh/do-not-sync-taints";

/// For so long the daemon may not know that a claim is gone: bookmarks come every minute, and after
/// 90 s without one a watch is begun anew; five seconds more for a step that is under way.
pub(crate) const MAX_WATCH_SILENCE: Duration = Duration::from_secs(95);

/// Nodes as they were last seen.
#[derive(Default)]
pub(super) struct Nodes {
    last: BTreeMap<String, Arc<Value>>,
    /// Since when they have the disruption taint.
    tainted: BTreeMap<String, Duration>,
}

impl Nodes {
    /// When the disruption taint came to a node.
    pub fn tainted(&self, node: &str) -> Option<Duration> {
        self.tainted.get(node).copied()
    }

    /// A Node came, changed or went.
    pub fn on_change(
        &mut self,
        interceptor: &Interceptor,
        change: &Change,
        by: Option<&RequestInfo>,
    ) {
        let (node, name) = (&change.object, fields::name(&change.object));
        if change.event == Event::Deleted {
            self.last.remove(name);
            self.tainted.remove(name);
            return;
        }
        if has_taint(node, DISRUPTED) {
            self.tainted
                .entry(name.to_owned())
                .or_insert(interceptor.clock.elapsed());
        } else {
            self.tainted.remove(name);
        }
        let Some(before) = self.last.insert(name.to_owned(), node.clone()) else {
            return;
        };
        if by.is_none() {
            return;
        }
        let registers = |node: &Value| fields::label(node, REGISTERED) == Some("true");
        if has_taint(&before, UNREGISTERED) && !has_taint(node, UNREGISTERED) && !registers(node) {
            interceptor.violated(format!("{name} is opened to pods without being registered"));
        }
        if registers(node) && !registers(&before) {
            registered(interceptor, node);
        }
        lost(interceptor, &before, node);
    }
}

/// A node registers: it has what its claim promises, and is open.
fn registered(interceptor: &Interceptor, node: &Value) {
    let name = fields::name(node);
    let id = fields::text(node, "/spec/providerID");
    let claims = interceptor.server.list(resources::NODE_CLAIM);
    let Some(claim) = claims
        .iter()
        .find(|claim| fields::text(claim, "/status/providerID") == id)
    else {
        return interceptor.violated(format!("{name} is registered without a claim"));
    };
    let labels = claim.pointer("/metadata/labels").and_then(Value::as_object);
    let missing = labels
        .into_iter()
        .flatten()
        .find(|(key, value)| fields::label(node, key) != value.as_str());
    if let Some((key, value)) = missing {
        interceptor.violated(format!(
            "{name} is registered without its claim's label {key}={value}"
        ));
    }
    let promised = ["/spec/taints", "/spec/startupTaints"]
        .into_iter()
        .flat_map(|path| fields::items(claim, path));
    let synced = fields::label(node, NO_TAINT_SYNC) != Some("true");
    if let Some(taint) = promised
        .filter(|_| synced)
        .find(|taint| !has_same(node, taint))
    {
        interceptor.violated(format!(
            "{name} is registered without its claim's taint {}",
            fields::text(taint, "/key")
        ));
    }
    if has_taint(node, UNREGISTERED) {
        interceptor.violated(format!("{name} is registered and still closed to pods"));
    }
    if !fields::holds(node, FINALIZER) {
        interceptor.violated(format!("{name} is registered without our finalizer"));
    }
    // Or what its claim was before a backup has brought it back under another UID, for as long as
    // that may not be known.
    let created = fields::time(claim, "/metadata/creationTimestamp").map_or(0, |at| at.as_second());
    let restored = pods::now(interceptor) - created <= MAX_WATCH_SILENCE.as_secs() as i64;
    let owns = |owner: &Value| {
        owner["uid"] == fields::uid(claim) || (restored && owner["name"] == fields::name(claim))
    };
    let owned = fields::items(node, "/metadata/ownerReferences")
        .iter()
        .any(owns);
    if !owned {
        interceptor.violated(format!(
            "{name} is registered without its claim as its owner"
        ));
    }
}

/// Whether the claim of a node says that its machine is started anew.
fn reboots(interceptor: &Interceptor, node: &Value) -> bool {
    let id = fields::text(node, "/spec/providerID");
    let claims = interceptor.server.list(resources::NODE_CLAIM);
    let mut own = claims
        .iter()
        .filter(|claim| fields::text(claim, "/status/providerID") == id);
    own.any(|claim| fields::condition(claim, "Rebooting") == "True")
}

/// What a process of the daemon writes takes no label away and no taint but those that keep a node
/// closed; a node that is rebooted is not initialized meanwhile. A list that is written from an old copy would.
fn lost(interceptor: &Interceptor, before: &Value, node: &Value) {
    let name = fields::name(node);
    let labels = before
        .pointer("/metadata/labels")
        .and_then(Value::as_object);
    if let Some((key, _)) = labels
        .into_iter()
        .flatten()
        .find(|(key, _)| fields::label(node, key).is_none())
        .filter(|(key, _)| *key != INITIALIZED || !reboots(interceptor, node))
    {
        interceptor.violated(format!("{name} loses its label {key}"));
    }
    let mut taints = fields::items(before, "/spec/taints").iter().filter(|t| {
        t["key"] != UNREGISTERED
            && t["key"] != GOES_LATER
            && !(t["key"] == DISRUPTED && stays(interceptor, node))
            && !(t["key"] == REBOOTS && reboots(interceptor, node))
    });
    if let Some(taint) = taints.find(|taint| !has_same(node, taint)) {
        interceptor.violated(format!(
            "{name} loses its taint {}",
            fields::text(taint, "/key")
        ));
    }
}

/// Whether a node is not on its way out: then it may be opened to pods again.
fn stays(interceptor: &Interceptor, node: &Value) -> bool {
    let id = fields::text(node, "/spec/providerID");
    let claims = interceptor.server.list(resources::NODE_CLAIM);
    let mine = claims
        .iter()
        .find(|claim| fields::text(claim, "/status/providerID") == id);
    !fields::deleting(node) && mine.is_some_and(|claim| !fields::deleting(claim))
}

fn has_same(node: &Value, taint: &Value) -> bool {
    fields::items(node, "/spec/taints")
        .iter()
        .any(|t| t["key"] == taint["key"] && t["effect"] == taint["effect"])
}

/// Whether a node has a taint of a key.
pub(crate) fn has_taint(node: &Value, key: &str) -> bool {
    fields::items(node, "/spec/taints")
        .iter()
        .any(|t| t["key"] == key)
}

/// The Node of a provider ID.
pub(super) fn node_of(interceptor: &Interceptor, provider_id: &str) -> Option<Arc<Value>> {
    let nodes = interceptor.server.list(resources::NODE);
    nodes
        .into_iter()
        .find(|node| fields::text(node, "/spec/providerID") == provider_id)
}
