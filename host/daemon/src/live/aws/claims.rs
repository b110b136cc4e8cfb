//! The NodeClaims of the leader, by instance: which instances are this cluster's, known without a
//! call; and which still lack the tag with the name of their node.
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

use crate::live::lifecycle;
use crate::live::lock::lock;

/// Whose an instance is, as far as the watch says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A NodeClaim's, by name.
    Claim(String),
    /// No NodeClaim's.
    Foreign,
    /// Not known: not everything has been listed, or a NodeClaim has no instance yet.
    Unknown,
}

/// NodeClaims by instance.
#[derive(Default)]
pub struct Claims(Mutex<Known>);

#[derive(Default)]
struct Known {
    listed: bool,
    /// The watch has failed, and nothing has come since.
    failing: bool,
    /// IDs of instances by NodeClaim; empty while it has none.
    instances: HashMap<String, String>,
    /// NodeClaims by ID of their instance.
    claims: HashMap<String, String>,
    /// NodeClaims without an instance.
    without: usize,
    /// A list that is being read.
    reading: Option<HashMap<String, String>>,
}

/// How soon the watch begins again after it failed.
const AGAIN: Duration = Duration::from_secs(1);

impl Claims {
    /// Whose an instance is.
    pub fn owner(&self, instance: &str) -> Owner {
        let known = lock(&self.0);
        match known.claims.get(instance) {
            Some(name) => Owner::Claim(name.clone()),
            None if known.listed && !known.failing && known.without == 0 => Owner::Foreign,
            None => Owner::Unknown,
        }
    }

    /// Whether a NodeClaim is there.
    pub fn contains(&self, name: &str) -> bool {
        lock(&self.0).instances.contains_key(name)
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
                        lock(&self.0).failing = true;
                        tracing::warn!(%why, "NodeClaims cannot be watched; tried again");
                    }
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    fn take_in(&self, event: Event<NodeClaim>, changed: &UnboundedSender<NodeClaim>) {
        lock(&self.0).take_in(&event);
        if let Event::Apply(claim) | Event::InitApply(claim) = event {
            // Nobody listens once this replica leads no more.
            _ = changed.send(claim);
        }
    }
}

impl Known {
    fn take_in(&mut self, event: &Event<NodeClaim>) {
        self.failing &= matches!(event, Event::Init | Event::InitApply(_));
        match event {
            Event::Init => self.reading = Some(HashMap::new()),
            Event::InitApply(claim) => {
                let reading = self.reading.get_or_insert_default();
                reading.insert(claim.name_any(), instance_of(claim));
            }
            Event::InitDone => {
                self.instances = self.reading.take().unwrap_or_default();
                let own = self.instances.iter().filter(|(_, id)| !id.is_empty());
                self.claims = own.map(|(name, id)| (id.clone(), name.clone())).collect();
                self.without = self.instances.values().filter(|id| id.is_empty()).count();
                self.listed = true;
            }
            Event::Apply(claim) => self.put(claim.name_any(), instance_of(claim)),
            Event::Delete(claim) => self.remove(&claim.name_any()),
        }
    }

    fn put(&mut self, name: String, id: String) {
        self.remove(&name);
        match id.is_empty() {
            true => self.without += 1,
            false => drop(self.claims.insert(id.clone(), name.clone())),
        }
        self.instances.insert(name, id);
    }

    fn remove(&mut self, name: &str) {
        match self.instances.remove(name) {
            Some(id) if id.is_empty() => self.without -= 1,
            Some(id) if self.claims.get(&id).is_some_and(|owner| owner == name) => {
                self.claims.remove(&id);
            }
            // None, or a NodeClaim of another name has taken the instance over.
            _ => {}
        }
    }
}

/// The ID of a NodeClaim's instance: `i-…` of `aws:///us-east-1a/i-…`; empty for none.
fn instance_of(claim: &NodeClaim) -> String {
    let id = lifecycle::provider_id(claim).rsplit('/').next();
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
        let mut known = Known::default();
        let owners = |known: &mut Known| {
            let claims = Claims(Mutex::new(std::mem::take(known)));
            let owners = ["i-1", "i-2", "i-3"].map(|id| claims.owner(id));
            *known = claims.0.into_inner().unwrap();
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
}
