//! Events on objects, said once: the same reason and words about the same object are not repeated for two minutes, and
//! for five where a pod is told in every round that it has no node.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use longshore_api::crd::{NodeClaim, NodePool, Time};
use tokio::time::Instant;

use super::clock::Clock;
use super::context::lock;

const QUIET: Duration = Duration::from_secs(120);
const QUIET_FOR_LEFTOVERS: Duration = Duration::from_secs(300);

/// Writes Events.
pub struct Events {
    client: Client,
    clock: Clock,
    /// Namespace and name of the Lease, which stands for this daemon.
    lease: (String, String),
    said: Mutex<HashMap<String, Instant>>,
}

impl Events {
    /// Events by a client. `lease` is the namespace and name of what those about this daemon are said of.
    pub fn new(client: Client, clock: Clock, lease: (String, String)) -> Self {
        Events { client, clock, lease, said: Mutex::default() }
    }

    /// Says something about a pod, `namespace/name`.
    pub async fn pod(&self, pod: &str, warning: bool, reason: &str, message: &str) {
        let (namespace, name) = pod.split_once('/').unwrap_or(("default", pod));
        self.say("v1", "Pod", namespace, name, "", warning, reason, message).await;
    }

    /// Says something about a NodeClaim.
    pub async fn claim(&self, claim: &NodeClaim, warning: bool, reason: &str, message: &str) {
        let (name, uid) = (claim.metadata.name.as_deref(), claim.metadata.uid.as_deref());
        self.say("karpenter.sh/v1", "NodeClaim", "", name.unwrap_or(""), uid.unwrap_or(""), warning, reason, message)
            .await;
    }

    /// Says something about a NodePool.
    pub async fn pool(&self, pool: &NodePool, warning: bool, reason: &str, message: &str) {
        let (name, uid) = (pool.metadata.name.as_deref(), pool.metadata.uid.as_deref());
        self.say("karpenter.sh/v1", "NodePool", "", name.unwrap_or(""), uid.unwrap_or(""), warning, reason, message)
            .await;
    }

    /// Says something about a node.
    pub async fn node(&self, name: &str, warning: bool, reason: &str, message: &str) {
        self.say("v1", "Node", "", name, name, warning, reason, message).await;
    }

    /// Says something about this daemon, on its Lease.
    pub async fn own(&self, warning: bool, reason: &str, message: &str) {
        let (namespace, name) = &self.lease;
        self.say("coordination.k8s.io/v1", "Lease", namespace, name, "", warning, reason, message).await;
    }

    #[allow(clippy::too_many_arguments)]
    async fn say(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
        uid: &str,
        warning: bool,
        reason: &str,
        message: &str,
    ) {
        {
            let mut said = lock(&self.said);
            let now = Instant::now();
            said.retain(|_, until| now < *until);
            let key = format!("{kind}/{namespace}/{name}/{reason}/{message}");
            if said.contains_key(&key) {
                return;
            }
            said.insert(key, now + if reason == "FailedScheduling" { QUIET_FOR_LEFTOVERS } else { QUIET });
        }
        let home = if namespace.is_empty() { "default" } else { namespace };
        let now = self.clock.now();
        let event = Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{:x}", now.as_nanosecond())),
                namespace: Some(home.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some(api_version.to_owned()),
                kind: Some(kind.to_owned()),
                name: Some(name.to_owned()),
                namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
                uid: (!uid.is_empty()).then(|| uid.to_owned()),
                ..ObjectReference::default()
            },
            type_: Some(if warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.chars().take(1000).collect()),
            source: Some(EventSource { component: Some("karpenter".to_owned()), ..EventSource::default() }),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            ..Event::default()
        };
        let api: Api<Event> = Api::namespaced(self.client.clone(), home);
        if let Err(error) = api.create(&PostParams::default(), &event).await {
            tracing::debug!(%error, reason, "an Event could not be written");
        }
    }
}
