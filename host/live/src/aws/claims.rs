//! The NodeClaims of the leader, by instance: which instances are this cluster's, known without a
//! call; and which still lack the tag with the name of their node. Another provider's NodeClaims are
//! passed over: their instances are foreign.
//!
//! A watch of its own, so that what reads it does not wait for the loop.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use kube::Client;
use kube::api::Api;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{ResourceExt as _, runtime::WatchStreamExt as _};
use longshore_api::crd::NodeClaim;
use tokio::sync::mpsc::UnboundedSender;

use crate::managed::Managed;
use crate::observe::node_claim;
use crate::process::lock::lock;

/// Whose an instance is, as far as the watch says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A NodeClaim's, by name.
    Claim(String),
    /// Everything has been listed, and no NodeClaim has this instance.
    Foreign,
    /// Not known: not everything has been listed, or a NodeClaim has no instance yet.
    Unknown,
}

/// NodeClaims by instance.
pub struct Claims {
    managed: Managed,
    known: Mutex<ClaimIndex>,
}

#[derive(Default)]
struct ClaimIndex {
    listed: bool,
    /// The watch has failed, and nothing has come since.
    failing: bool,
    instances: HashMap<String, Own>,
    /// NodeClaims by ID of their instance.
    claims: HashMap<String, String>,
    /// Number of NodeClaims whose instance is not known yet.
    without: usize,
    /// A list that is being read.
    reading: Option<HashMap<String, Own>>,
}

/// How soon the watch begins again after it failed.
const WATCH_RETRY: Duration = Duration::from_secs(1);

impl Claims {
    pub fn new(managed: Managed) -> Self {
        Claims {
            managed,
            known: Mutex::default(),
        }
    }

    /// Takes over a complete list of NodeClaims.
    #[cfg(test)]
    pub fn list(&self, all: impl Iterator<Item = NodeClaim>) {
        let mut known = lock(&self.known);
        known.take_in(&Event::Init);
        all.for_each(|claim| known.take_in(&Event::InitApply(claim)));
        known.take_in(&Event::InitDone);
    }

    /// Whether all have been listed once.
    pub fn is_listed(&self) -> bool {
        lock(&self.known).listed
    }

    /// How many have an instance: of a NodePool, and in the whole cluster.
    pub fn count(&self, pool: &str) -> (usize, usize) {
        let known = lock(&self.known);
        let launched = known.instances.values().filter(|own| !own.id.is_empty());
        let of_pool = launched.clone().filter(|own| own.pool == pool).count();
        (of_pool, launched.count())
    }

    pub fn owner(&self, instance: &str) -> Owner {
        let known = lock(&self.known);
        match known.claims.get(instance) {
            Some(name) => Owner::Claim(name.clone()),
            None if known.listed && !known.failing && known.without == 0 => Owner::Foreign,
            None => Owner::Unknown,
        }
    }

    /// Whether a NodeClaim is there.
    pub fn contains(&self, name: &str) -> bool {
        lock(&self.known).instances.contains_key(name)
    }

    /// Watches for ever. `changed` gets each NodeClaim as it is then.
    pub async fn follow(self: Arc<Self>, client: Client, changed: UnboundedSender<NodeClaim>) {
        let all: Api<NodeClaim> = Api::all(client);
        loop {
            let events = watcher(all.clone(), watcher::Config::default()).default_backoff();
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => self.take_in(event, &changed),
                    Err(why) => {
                        lock(&self.known).failing = true;
                        tracing::warn!(%why, "watching NodeClaims failed; retrying");
                    }
                }
            }
            tokio::time::sleep(WATCH_RETRY).await;
        }
    }

    fn take_in(&self, event: Event<NodeClaim>, changed: &UnboundedSender<NodeClaim>) {
        let Some(event) = self.own(event) else {
            return;
        };
        lock(&self.known).take_in(&event);
        if let Event::Apply(claim) | Event::InitApply(claim) = event {
            // Nobody listens once this replica leads no more.
            _ = changed.send(claim);
        }
    }
}

impl Claims {
    /// What an event says of managed NodeClaims. One that was made again for another provider is gone.
    fn own(&self, event: Event<NodeClaim>) -> Option<Event<NodeClaim>> {
        match event {
            Event::Apply(claim) if !self.managed.claim(&claim) => Some(Event::Delete(claim)),
            Event::InitApply(claim) if !self.managed.claim(&claim) => None,
            event => Some(event),
        }
    }
}

/// What is known of a NodeClaim.
#[derive(Default)]
struct Own {
    /// ID of its instance; empty while it has none.
    id: String,
    /// Its NodePool; empty for none.
    pool: String,
}

impl Own {
    fn of(claim: &NodeClaim) -> Self {
        Own {
            id: instance_of(claim),
            pool: node_claim::pool_of(claim).to_owned(),
        }
    }
}

impl ClaimIndex {
    fn take_in(&mut self, event: &Event<NodeClaim>) {
        self.failing &= matches!(event, Event::Init | Event::InitApply(_));
        match event {
            Event::Init => self.reading = Some(HashMap::new()),
            Event::InitApply(claim) => {
                let reading = self.reading.get_or_insert_default();
                reading.insert(claim.name_any(), Own::of(claim));
            }
            Event::InitDone => {
                self.instances = self.reading.take().unwrap_or_default();
                let own = self.instances.iter().filter(|(_, own)| !own.id.is_empty());
                self.claims = own
                    .map(|(name, own)| (own.id.clone(), name.clone()))
                    .collect();
                let all = self.instances.values();
                self.without = all.filter(|own| own.id.is_empty()).count();
                self.listed = true;
            }
            Event::Apply(claim) => self.put(claim.name_any(), Own::of(claim)),
            Event::Delete(claim) => self.remove(&claim.name_any()),
        }
    }

    fn put(&mut self, name: String, own: Own) {
        self.remove(&name);
        match own.id.is_empty() {
            true => self.without += 1,
            false => drop(self.claims.insert(own.id.clone(), name.clone())),
        }
        self.instances.insert(name, own);
    }

    fn remove(&mut self, name: &str) {
        match self.instances.remove(name) {
            Some(own) if own.id.is_empty() => self.without -= 1,
            Some(own) if self.claims.get(&own.id).is_some_and(|owner| owner == name) => {
                self.claims.remove(&own.id);
            }
            // None, or a NodeClaim of another name has taken the instance over.
            _ => {}
        }
    }
}

/// The ID of a NodeClaim's instance: `i-…` of `aws:///us-east-1a/i-…`; empty for none.
fn instance_of(claim: &NodeClaim) -> String {
    let id = node_claim::provider_id(claim).rsplit('/').next();
    id.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(name: &str, instance: &str) -> NodeClaim {
        let id = match instance {
            "" => String::new(),
            id => format!("aws:///us-east-1a/{id}"),
        };
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"requirements": [], "nodeClassRef":
                {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
            "status": {"providerID": id},
        }))
        .unwrap()
    }

    #[test]
    fn an_instance_is_foreign_once_every_nodeclaim_is_known_and_has_its_own() {
        let mut known = ClaimIndex::default();
        let owners = |known: &mut ClaimIndex| {
            let claims = Claims::new(Managed::EC2);
            *lock(&claims.known) = std::mem::take(known);
            let owners = ["i-1", "i-2", "i-3"].map(|id| claims.owner(id));
            *known = claims.known.into_inner().unwrap();
            owners
        };
        let own = |name: &str| Owner::Claim(name.to_owned());
        known.take_in(&Event::Init);
        known.take_in(&Event::InitApply(claim("a", "i-1")));
        assert_eq!(
            owners(&mut known),
            [Owner::Unknown, Owner::Unknown, Owner::Unknown]
        );
        known.take_in(&Event::InitDone);
        assert_eq!(
            owners(&mut known),
            [own("a"), Owner::Foreign, Owner::Foreign]
        );
        // A launch is open: its instance may be any that no NodeClaim has.
        known.take_in(&Event::Apply(claim("b", "")));
        assert_eq!(
            owners(&mut known),
            [own("a"), Owner::Unknown, Owner::Unknown]
        );
        known.take_in(&Event::Apply(claim("b", "i-2")));
        assert_eq!(owners(&mut known), [own("a"), own("b"), Owner::Foreign]);
        known.take_in(&Event::Delete(claim("a", "i-1")));
        assert_eq!(
            owners(&mut known),
            [Owner::Foreign, own("b"), Owner::Foreign]
        );
        // What a new list leaves out is gone.
        known.take_in(&Event::Init);
        known.take_in(&Event::InitApply(claim("c", "i-3")));
        known.take_in(&Event::InitDone);
        assert_eq!(
            owners(&mut known),
            [Owner::Foreign, Owner::Foreign, own("c")]
        );
        assert_eq!(known.without, 0);
    }

    #[test]
    fn another_providers_nodeclaims_are_passed_over_and_their_instances_are_foreign() {
        let foreign = |name: &str, instance: &str| {
            let mut claim = claim(name, instance);
            let class = &mut claim.spec.node_class_ref;
            class.group = "eks.amazonaws.com".to_owned();
            class.kind = "NodeClass".to_owned();
            claim
        };
        let claims = Claims::new(Managed::EC2);
        let (changed, mut changes) = tokio::sync::mpsc::unbounded_channel();
        let take_in = |event| claims.take_in(event, &changed);
        take_in(Event::Init);
        take_in(Event::InitApply(foreign("auto", "i-1")));
        take_in(Event::InitApply(claim("ours", "i-2")));
        assert!(!claims.is_listed());
        take_in(Event::InitDone);
        // A launch of theirs that is open is no launch of ours.
        take_in(Event::Apply(foreign("new", "")));
        let own = Owner::Claim("ours".to_owned());
        assert_eq!(claims.owner("i-1"), Owner::Foreign);
        assert_eq!(claims.owner("i-2"), own);
        assert!(!claims.contains("auto") && claims.is_listed());
        assert_eq!(claims.count("").1, 1);
        take_in(Event::Apply(foreign("ours", "i-2")));
        assert_eq!(claims.owner("i-2"), Owner::Foreign, "made again");
        drop(changed);
        let tagged: Vec<String> = std::iter::from_fn(|| changes.try_recv().ok())
            .map(|claim| claim.name_any())
            .collect();
        assert_eq!(tagged, ["ours"], "nothing of theirs is tagged");
    }
}
