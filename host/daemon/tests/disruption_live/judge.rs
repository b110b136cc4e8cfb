//! What the API server recorded, against the rules of disruption.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use longshore_xtask::control_plane::{ControlPlane, OUR_USER, Request};

use super::scaling::{CONSOLIDATE_AFTER, is_disrupted};

/// What the API server recorded.
pub struct Judge<'a> {
    recorded: Vec<Request>,
    /// Pods that must stay, and their UIDs.
    held: &'a BTreeMap<String, String>,
}

impl<'a> Judge<'a> {
    /// Reads the audit log of a control plane.
    pub fn new(plane: &ControlPlane, held: &'a BTreeMap<String, String>) -> Result<Self> {
        let mut recorded = plane.recorded()?;
        recorded.sort_by(|one, other| one.at.cmp(&other.at));
        Ok(Judge { recorded, held })
    }

    /// All requests, in the order in which they were answered.
    pub fn recorded(&self) -> &[Request] {
        &self.recorded
    }

    /// Requests of Longshore that changed something.
    fn ours(&self) -> impl Iterator<Item = &Request> {
        self.recorded
            .iter()
            .filter(|request| request.user == OUR_USER && request.changed())
    }

    /// Pods were evicted as they may be, budgets held, and nothing was disrupted while the window was
    /// closed.
    pub fn judge(&self, percent: usize, from: Timestamp, to: Timestamp) -> Result<()> {
        self.pods_left_by_the_eviction_api(CONSOLIDATE_AFTER)?;
        let begun = self.budget_holds(percent)?;
        ensure!(!begun.is_empty(), "the audit log has no disruption");
        // The daemon's clock and the server's are one; its look at the budget is a moment before.
        let from = from + SignedDuration::from_secs(1);
        let inside: Vec<_> = begun
            .iter()
            .filter(|(at, _)| (from..to).contains(at))
            .collect();
        ensure!(
            inside.is_empty(),
            "disrupted while the window is closed: {inside:?}"
        );
        Ok(())
    }

    /// No pod was deleted without its budgets, none that must stay was evicted, and none sooner than
    /// so many seconds after it came to its node.
    pub fn pods_left_by_the_eviction_api(&self, stay: i64) -> Result<()> {
        let mut bound = BTreeMap::new();
        let mut evicted = BTreeSet::new();
        for request in &self.recorded {
            match request.resource.as_str() {
                "pods/binding" if request.changed() => {
                    bound.insert(&request.object, time(request)?);
                }
                "pods" if request.user == OUR_USER => ensure!(
                    !request.verb.starts_with("delete"),
                    "{} was deleted, not evicted",
                    request.object
                ),
                "pods/eviction" if request.user == OUR_USER && request.changed() => {
                    let pod = &request.object;
                    if !evicted.insert(pod) {
                        continue;
                    }
                    let name = pod.rsplit('/').next().unwrap_or(pod);
                    ensure!(
                        !self.held.contains_key(name),
                        "{pod} was evicted and must stay"
                    );
                    let since = bound
                        .get(pod)
                        .with_context(|| format!("{pod} was never bound"))?;
                    let stayed = time(request)?.duration_since(*since);
                    ensure!(
                        stayed >= SignedDuration::from_secs(stay),
                        "{pod} was evicted {stayed:?} after it was bound"
                    );
                }
                _ => {}
            }
        }
        ensure!(!evicted.is_empty(), "the audit log has no eviction");
        println!("{} pods evicted", evicted.len());
        Ok(())
    }

    /// No more nodes were disrupted at once than the budget allows, of the NodeClaims that there
    /// were. Returns when each disruption began, and of which node.
    pub fn budget_holds(&self, percent: usize) -> Result<Vec<(Timestamp, String)>> {
        // A node or claim is gone with the last request about it, which takes the finalizer away.
        let mut last = BTreeMap::new();
        let mut deleted = BTreeSet::new();
        for request in self.ours() {
            last.insert(
                (request.resource.as_str(), request.object.as_str()),
                &request.at,
            );
            if request.verb == "delete" {
                deleted.insert((request.resource.as_str(), request.object.as_str()));
            }
        }
        let mut claims = BTreeSet::new();
        let mut disrupted = BTreeSet::new();
        let mut begun = Vec::new();
        let mut most = 0;
        for request in self.ours() {
            let object = request.object.as_str();
            match request.resource.as_str() {
                "nodeclaims" if request.verb == "create" => {
                    claims.insert(object);
                }
                // Names come back: a node of EC2 has the name of its address.
                "nodes" if request.body["metadata"]["finalizers"] == serde_json::json!([]) => {
                    disrupted.remove(object);
                }
                "nodes" if !request.body["spec"]["taints"].is_null() => {
                    if !is_disrupted(&request.body["spec"]) {
                        disrupted.remove(object);
                    } else if disrupted.insert(object) {
                        begun.push((time(request)?, object.to_owned()));
                    }
                }
                _ => {}
            }
            let key = (request.resource.as_str(), object);
            if last.get(&key) == Some(&&request.at) && deleted.contains(&key) {
                claims.remove(object);
                disrupted.remove(object);
            }
            let allowed = (claims.len() * percent).div_ceil(100);
            most = most.max(disrupted.len());
            ensure!(
                disrupted.len() <= allowed,
                "at {}: {} of {} nodes are disrupted, {allowed} may be: {disrupted:?}",
                request.at,
                disrupted.len(),
                claims.len()
            );
        }
        println!("{} nodes disrupted, {most} at once", begun.len());
        Ok(begun)
    }
}

/// When a request was answered.
fn time(request: &Request) -> Result<Timestamp> {
    request
        .at
        .parse()
        .with_context(|| format!("a time of the audit log: {:?}", request.at))
}
