//! Events on objects. An Event with the same reason and message for the same object is not repeated
//! for two minutes. The limit is five minutes for pods without a node, and one minute for NodePools
//! without compatible instance types.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use longshore_api::crd::{NodeClaim, NodeOverlay, NodePool, Time};
use tokio::time::Instant;

use super::clock::Clock;
use super::disruption::staying;
use super::lock::lock;

const QUIET: Duration = Duration::from_secs(120);
const QUIET_FOR_LEFTOVERS: Duration = Duration::from_secs(300);

const QUIET_FOR_UNHEALTHY: Duration = Duration::from_secs(900);

const QUIET_FOR_REBOOTS: Duration = Duration::from_secs(1800);

const QUIET_FOR_GARBAGE: Duration = Duration::from_secs(900);

/// A class that waits for its nodes says so as often as Karpenter's.
const QUIET_FOR_CLASSES: Duration = Duration::from_secs(600);

const QUIET_FOR_BARREN: Duration = Duration::from_secs(60);

/// How long the same words are not repeated.
fn quiet(reason: &str) -> Duration {
    match reason {
        "FailedScheduling" => QUIET_FOR_LEFTOVERS,
        "NodeRepairBlocked" => QUIET_FOR_UNHEALTHY,
        "RebootObserved" | "RebootFailed" => QUIET_FOR_REBOOTS,
        "Unconsolidatable" => staying::QUIET,
        "GarbageLimitExceeded" | "InstancesWithoutNodeClaim" => QUIET_FOR_GARBAGE,
        "WaitingOnNodeClaimTermination" | "RequestFailed" => QUIET_FOR_CLASSES,
        "NoCompatibleInstanceTypes" | "DisruptionBlocked" => QUIET_FOR_BARREN,
        _ => QUIET,
    }
}

/// Writes Events.
pub struct Events {
    client: Client,
    clock: Clock,
    /// Namespace and name of the Lease, which stands for this daemon.
    lease: (String, String),
    said: Mutex<HashMap<String, Instant>>,
    few: Mutex<RateLimiter>,
}

/// What an Event is about. What has no namespace or no known UID has an empty one.
struct Object<'a> {
    api_version: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
}

impl<'a> Object<'a> {
    fn new(api_version: &'a str, kind: &'a str, name: &'a str) -> Self {
        Object {
            api_version,
            kind,
            namespace: "",
            name,
            uid: "",
        }
    }

    /// An object of Karpenter's own API.
    fn of(kind: &'a str, meta: &'a ObjectMeta) -> Self {
        let (name, uid) = (
            meta.name.as_deref().unwrap_or_default(),
            meta.uid.as_deref().unwrap_or_default(),
        );
        Object {
            uid,
            ..Object::new("karpenter.sh/v1", kind, name)
        }
    }
}

/// Events with a rate limit: a burst of ten, then five per second.
struct RateLimiter {
    left: f64,
    counted: Instant,
}

impl RateLimiter {
    const MOST: f64 = 10.0;
    const A_SECOND: f64 = 5.0;

    fn new(now: Instant) -> Self {
        RateLimiter {
            left: RateLimiter::MOST,
            counted: now,
        }
    }

    /// Whether one more may be written.
    fn take(&mut self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.counted).as_secs_f64();
        self.left = (self.left + since * RateLimiter::A_SECOND).min(RateLimiter::MOST);
        self.counted = now;
        let may = self.left >= 1.0;
        self.left -= f64::from(u8::from(may));
        may
    }
}

impl Events {
    /// Events by a client. `lease` is the namespace and name of what those about this daemon are
    /// said of.
    pub fn new(client: Client, clock: Clock, lease: (String, String)) -> Self {
        Events {
            client,
            clock,
            lease,
            said: Mutex::default(),
            few: Mutex::new(RateLimiter::new(Instant::now())),
        }
    }

    /// Says something about a pod, `namespace/name`.
    pub async fn pod(&self, pod: &str, warning: bool, reason: &str, message: &str) {
        let (namespace, name) = pod.split_once('/').unwrap_or(("default", pod));
        self.say(
            Object {
                namespace,
                ..Object::new("v1", "Pod", name)
            },
            warning,
            reason,
            message,
        )
        .await;
    }

    /// Says something about a NodeClaim.
    pub async fn claim(&self, claim: &NodeClaim, warning: bool, reason: &str, message: &str) {
        self.say(
            Object::of("NodeClaim", &claim.metadata),
            warning,
            reason,
            message,
        )
        .await;
    }

    /// Says something about a NodeClaim that is left unsaid where much is said already. Nobody
    /// waits for it to be written.
    pub fn claim_if_few(&self, claim: &NodeClaim, warning: bool, reason: &str, message: String) {
        if !lock(&self.few).take(Instant::now()) {
            tracing::debug!(
                nodeclaim = claim.metadata.name,
                message,
                "too many to write an Event"
            );
            return;
        }
        if let Some(event) = self.event(
            Object::of("NodeClaim", &claim.metadata),
            warning,
            reason,
            &message,
        ) {
            tokio::spawn(write(self.client.clone(), event));
        }
    }

    /// Says something about a NodePool.
    pub async fn pool(&self, pool: &NodePool, warning: bool, reason: &str, message: &str) {
        self.say(
            Object::of("NodePool", &pool.metadata),
            warning,
            reason,
            message,
        )
        .await;
    }

    /// Says something about a NodeOverlay.
    pub async fn overlay(&self, overlay: &NodeOverlay, warning: bool, reason: &str, message: &str) {
        let object = Object {
            api_version: "karpenter.sh/v1alpha1",
            ..Object::of("NodeOverlay", &overlay.metadata)
        };
        self.say(object, warning, reason, message).await;
    }

    /// Says something about an EC2NodeClass.
    #[cfg(feature = "aws")]
    pub async fn ec2_class(&self, meta: &ObjectMeta, warning: bool, reason: &str, message: &str) {
        let object = Object {
            api_version: "karpenter.k8s.aws/v1",
            ..Object::of("EC2NodeClass", meta)
        };
        self.say(object, warning, reason, message).await;
    }

    /// Says something about a node.
    pub async fn node(&self, name: &str, warning: bool, reason: &str, message: &str) {
        self.say(
            Object {
                uid: name,
                ..Object::new("v1", "Node", name)
            },
            warning,
            reason,
            message,
        )
        .await;
    }

    /// Says something about this daemon, on its Lease.
    pub async fn own(&self, warning: bool, reason: &str, message: &str) {
        let (namespace, name) = &self.lease;
        let lease = Object {
            namespace,
            ..Object::new("coordination.k8s.io/v1", "Lease", name)
        };
        self.say(lease, warning, reason, message).await;
    }

    async fn say(&self, object: Object<'_>, warning: bool, reason: &str, message: &str) {
        if let Some(event) = self.event(object, warning, reason, message) {
            write(self.client.clone(), event).await;
        }
    }

    /// An Event to write, unless the same was said a moment ago.
    fn event(
        &self,
        object: Object<'_>,
        warning: bool,
        reason: &str,
        message: &str,
    ) -> Option<Event> {
        let Object {
            api_version,
            kind,
            namespace,
            name,
            uid,
        } = object;
        {
            let mut said = lock(&self.said);
            let now = Instant::now();
            said.retain(|_, until| now < *until);
            let key = format!("{kind}/{namespace}/{name}/{reason}/{message}");
            if said.contains_key(&key) {
                return None;
            }
            said.insert(key, now + quiet(reason));
        }
        let home = if namespace.is_empty() {
            "default"
        } else {
            namespace
        };
        let now = self.clock.now();
        Some(Event {
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
            source: Some(EventSource {
                component: Some("karpenter".to_owned()),
                ..EventSource::default()
            }),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            ..Event::default()
        })
    }
}

async fn write(client: Client, event: Event) {
    let api: Api<Event> = Api::namespaced(
        client,
        event.metadata.namespace.as_deref().unwrap_or("default"),
    );
    if let Err(error) = api.create(&PostParams::default(), &event).await {
        tracing::debug!(%error, reason = event.reason, "an Event could not be written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_at_once_is_cut_short_and_a_little_is_not() {
        let start = Instant::now();
        let mut few = RateLimiter::new(start);
        let nominated = |few: &mut RateLimiter, at: f64| {
            (0..30)
                .filter(|_| few.take(start + Duration::from_secs_f64(at)))
                .count()
        };
        assert_eq!(
            [
                nominated(&mut few, 0.0),
                nominated(&mut few, 0.5),
                nominated(&mut few, 60.0)
            ],
            [10, 2, 10]
        );
    }

    #[test]
    fn words_are_not_repeated_for_as_long_as_their_reason_says() {
        let seconds = |reason| quiet(reason).as_secs();
        assert_eq!(
            ["FailedScheduling", "NoCompatibleInstanceTypes", "Launched"].map(seconds),
            [300, 60, 120]
        );
    }
}
