//! Events on objects. An Event with the same reason and message for the same object is not repeated
//! for two minutes, or for as long as `quiet` has it for its reason: one minute to an hour. Reasons of
//! `is_quiet_for_all` are said once in that time whatever the message. What is said again is counted on
//! the first Event, as long as the API server keeps that.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Mutex;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use kube::Client;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use longshore_api::crd::{NodeClaim, NodeOverlay, NodePool, Time};
use serde_json::json;
use tokio::time::Instant;

use crate::decide::staying;
use crate::observe::protection;
use crate::process::clock::Clock;
use crate::process::lock::lock;

/// How long an Event is not repeated, unless its reason has an interval of its own.
const DEFAULT_REPEAT_INTERVAL: Duration = Duration::from_secs(120);
/// How long Events of pods that stay pending are not repeated.
const LEFTOVER_REPEAT_INTERVAL: Duration = Duration::from_secs(300);

/// How long Events of repairs that are blocked are not repeated.
const UNHEALTHY_REPEAT_INTERVAL: Duration = Duration::from_secs(900);

/// How long Events of reboots are not repeated.
const REBOOT_REPEAT_INTERVAL: Duration = Duration::from_secs(1800);

/// How long Events of a pod's protection are not repeated. Pods change often, their annotations do
/// not.
const PROTECTION_REPEAT_INTERVAL: Duration = Duration::from_secs(3600);

/// How long Events of garbage are not repeated.
const GARBAGE_REPEAT_INTERVAL: Duration = Duration::from_secs(900);

/// How long Events of node classes are not repeated: as long as Karpenter's.
const CLASS_REPEAT_INTERVAL: Duration = Duration::from_secs(600);

/// How long Events of a NodePool without instance types, or of blocked disruption, are not
/// repeated.
const NODEPOOL_REPEAT_INTERVAL: Duration = Duration::from_secs(60);

/// The API server forgets an Event an hour after its last change; this is a little less.
const EVENT_LIFETIME: Duration = Duration::from_secs(3500);
/// How often Events that the API server has forgotten are forgotten here.
const FORGET_INTERVAL: Duration = Duration::from_secs(60);

/// Reporting component of every Event, the same as Karpenter's.
const COMPONENT: &str = "karpenter";

/// How long the same words are not repeated.
fn quiet(reason: &str) -> Duration {
    match reason {
        "FailedScheduling" | "PurchaseDidNotHelp" => LEFTOVER_REPEAT_INTERVAL,
        "NodeRepairBlocked" => UNHEALTHY_REPEAT_INTERVAL,
        "RebootObserved" | "RebootFailed" => REBOOT_REPEAT_INTERVAL,
        "Unconsolidatable" => staying::REPEAT_INTERVAL,
        protection::INVALID | protection::UNTIL | protection::ELAPSED => PROTECTION_REPEAT_INTERVAL,
        "GarbageLimitExceeded" | "InstancesWithoutNodeClaim" => GARBAGE_REPEAT_INTERVAL,
        "WaitingOnNodeClaimTermination" | "RequestFailed" => CLASS_REPEAT_INTERVAL,
        "NoCompatibleInstanceTypes" | "DisruptionBlocked" => NODEPOOL_REPEAT_INTERVAL,
        _ => DEFAULT_REPEAT_INTERVAL,
    }
}

/// Whether an object hears a reason once in its interval, also if the message is another one. A pod's
/// message changes with each NodePool and each node that comes and goes.
fn is_quiet_for_all(reason: &str) -> bool {
    matches!(
        reason,
        "Discouraged" | "FailedScheduling" | "PurchaseDidNotHelp" | "Unconsolidatable"
    )
}

/// Writes Events.
pub struct Events {
    client: Client,
    clock: Clock,
    /// Namespace and name of the Lease, which stands for this daemon.
    lease: (String, String),
    said: Mutex<Said>,
    limiter: Mutex<RateLimiter>,
}

#[derive(Default)]
struct Said {
    /// By a digest of the object, the reason and the words.
    events: HashMap<u64, Written>,
    /// When it was said, by a digest of the object and the reason, and of the words where these count.
    when: HashMap<u64, Instant>,
    /// When those that are too old are forgotten.
    forget: Option<Instant>,
    /// What the last Event is named by.
    moment: i128,
}

/// An Event that was written.
struct Written {
    /// When it was said last.
    at: Instant,
    /// `metadata.name` of the Event object, which a repetition patches.
    name: Box<str>,
    count: i32,
}

impl Said {
    fn forget(&mut self, now: Instant) {
        if self.forget.is_none_or(|at| at <= now) {
            self.forget = Some(now + FORGET_INTERVAL);
            self.events
                .retain(|_, written| now < written.at + EVENT_LIFETIME);
            self.when.retain(|_, at| now < *at + EVENT_LIFETIME);
        }
    }

    /// What an Event is named by: the time, in nanoseconds. Two of one moment differ, as those of a
    /// Node and a NodeClaim of the same name would not otherwise.
    fn moment(&mut self, now: i128) -> i128 {
        self.moment = now.max(self.moment + 1);
        self.moment
    }

    /// Whether this may be said now.
    fn is_due(&self, key: u64, reason: &str, now: Instant) -> bool {
        let said = self.when.get(&key);
        said.is_none_or(|said| now >= *said + quiet(reason))
    }
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

    /// A pod, `namespace/name` and UID. `kubectl describe` shows Events with its UID alone.
    fn pod((pod, uid): (&'a str, &'a str)) -> Self {
        let (namespace, name) = pod.split_once('/').unwrap_or(("default", pod));
        Object {
            namespace,
            uid,
            ..Object::new("v1", "Pod", name)
        }
    }

    fn digest(&self, reason: &str, message: &str) -> u64 {
        let Object {
            api_version,
            kind,
            namespace,
            name,
            uid,
        } = self;
        let mut digest = DefaultHasher::new();
        (api_version, kind, namespace, name, uid, reason, message).hash(&mut digest);
        digest.finish()
    }

    /// What must not be said again too soon.
    fn digest_of_interval(&self, reason: &str, message: &str) -> u64 {
        let message = if is_quiet_for_all(reason) {
            ""
        } else {
            message
        };
        self.digest(reason, message)
    }

    /// A node. Its Events are found by its name.
    fn node(name: &'a str) -> Self {
        Object {
            uid: name,
            ..Object::new("v1", "Node", name)
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
    const BURST: f64 = 10.0;
    const EVENTS_PER_SECOND: f64 = 5.0;

    fn new(now: Instant) -> Self {
        RateLimiter {
            left: RateLimiter::BURST,
            counted: now,
        }
    }

    /// Whether one more may be written.
    fn take(&mut self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.counted).as_secs_f64();
        self.left = (self.left + since * RateLimiter::EVENTS_PER_SECOND).min(RateLimiter::BURST);
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
            limiter: Mutex::new(RateLimiter::new(Instant::now())),
        }
    }

    /// The namespace of what this daemon has of its own.
    pub fn namespace(&self) -> &str {
        &self.lease.0
    }

    /// Says something about a pod, `namespace/name` and UID.
    pub async fn pod_with_uid(
        &self,
        pod: (&str, &str),
        warning: bool,
        reason: &str,
        message: &str,
    ) {
        self.say(Object::pod(pod), warning, reason, message).await;
    }

    /// Says something about a pod, `namespace/name`, and asks the API server for its UID. Nothing is
    /// said of a pod that is gone.
    pub async fn pod(&self, pod: &str, warning: bool, reason: &str, message: &str) {
        let (namespace, name) = pod.split_once('/').unwrap_or(("default", pod));
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        if let Ok(known) = api.get_metadata(name).await {
            let uid = known.metadata.uid.unwrap_or_default();
            self.pod_with_uid((pod, &uid), warning, reason, message)
                .await;
        }
    }

    /// Whether this may be said about a pod now: it was not said a moment ago.
    pub fn is_due(&self, pod: (&str, &str), reason: &str, message: &str) -> bool {
        let key = Object::pod(pod).digest_of_interval(reason, message);
        lock(&self.said).is_due(key, reason, Instant::now())
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
        let claim = Object::of("NodeClaim", &claim.metadata);
        self.say_if_few(claim, warning, reason, &message);
    }

    /// Says something about a node that is left unsaid where much is said already.
    pub fn node_if_few(&self, name: &str, reason: &str, message: &str) {
        self.say_if_few(Object::node(name), false, reason, message);
    }

    fn say_if_few(&self, object: Object<'_>, warning: bool, reason: &str, message: &str) {
        if !lock(&self.limiter).take(Instant::now()) {
            let Object { kind, name, .. } = object;
            tracing::debug!(kind, name, message, "Event not written: rate limit");
            return;
        }
        if let Some((event, written)) = self.event(object, warning, reason, message) {
            tokio::spawn(write(self.client.clone(), event, written));
        }
    }

    /// Says something about a NodePool, and asks the API server for its UID. Nothing is said of one
    /// that is gone.
    pub async fn pool_named(&self, name: &str, warning: bool, reason: &str, message: &str) {
        let api: Api<NodePool> = Api::all(self.client.clone());
        if let Ok(known) = api.get_metadata(name).await {
            let object = Object::of("NodePool", &known.metadata);
            self.say(object, warning, reason, message).await;
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
        self.say(Object::node(name), warning, reason, message).await;
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
        if let Some((event, written)) = self.event(object, warning, reason, message) {
            write(self.client.clone(), event, written).await;
        }
    }

    /// An Event to write, and the name of the one that says the same already; nothing if it was said
    /// a moment ago.
    fn event(
        &self,
        object: Object<'_>,
        warning: bool,
        reason: &str,
        message: &str,
    ) -> Option<(Event, Option<Box<str>>)> {
        let key = object.digest(reason, message);
        let of_interval = object.digest_of_interval(reason, message);
        let Object {
            api_version,
            kind,
            namespace,
            name,
            uid,
        } = object;
        let time = self.clock.now();
        let (own_name, count, written) = {
            let mut said = lock(&self.said);
            let now = Instant::now();
            said.forget(now);
            if !said.is_due(of_interval, reason, now) {
                return None;
            }
            said.when.insert(of_interval, now);
            let own_name = format!("{name}.{:x}", said.moment(time.as_nanosecond()));
            let written = said.events.entry(key).or_insert_with(|| Written {
                at: now,
                name: own_name.clone().into(),
                count: 0,
            });
            written.at = now;
            written.count += 1;
            let known = (written.count > 1).then(|| written.name.clone());
            (own_name, written.count, known)
        };
        let home = if namespace.is_empty() {
            "default"
        } else {
            namespace
        };
        let event = Event {
            metadata: ObjectMeta {
                name: Some(own_name),
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
                component: Some(COMPONENT.to_owned()),
                ..EventSource::default()
            }),
            reporting_component: Some(COMPONENT.to_owned()),
            first_timestamp: Some(Time(time)),
            last_timestamp: Some(Time(time)),
            count: Some(count),
            ..Event::default()
        };
        Some((event, written))
    }
}

/// Writes an Event: counts it on the one that was written before, else makes it.
async fn write(client: Client, mut event: Event, written: Option<Box<str>>) {
    let api: Api<Event> = Api::namespaced(
        client,
        event.metadata.namespace.as_deref().unwrap_or("default"),
    );
    if let Some(name) = written {
        let again = json!({"count": event.count, "lastTimestamp": event.last_timestamp});
        let patched = api
            .patch_metadata(&name, &PatchParams::default(), &Patch::Merge(again))
            .await;
        if patched.is_ok() {
            return;
        }
        // The API server may have forgotten it; then its name is free again.
        event.metadata.name = Some(name.into());
    }
    if let Err(error) = api.create(&PostParams::default(), &event).await {
        tracing::debug!(%error, reason = event.reason, "an Event could not be written");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use longshore_api::crd::Timestamp;

    use super::*;

    #[test]
    fn events_are_limited_to_bursts_of_ten() {
        let start = Instant::now();
        let mut limiter = RateLimiter::new(start);
        let taken = |limiter: &mut RateLimiter, at: f64| {
            (0..30)
                .filter(|_| limiter.take(start + Duration::from_secs_f64(at)))
                .count()
        };
        assert_eq!(
            [
                taken(&mut limiter, 0.0),
                taken(&mut limiter, 0.5),
                taken(&mut limiter, 60.0)
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

    /// A server that keeps Events and forgets them when it is told to. Each request is a line.
    fn server(forgets: Arc<AtomicBool>) -> (Client, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (log, forgets) = (log.clone(), forgets.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body: serde_json::Value =
                    serde_json::from_slice(&body.collect_bytes().await?).unwrap_or_default();
                let uid = body["involvedObject"]["uid"].as_str().unwrap_or("-");
                let line = format!("{} {uid} {}", parts.method, body["count"]);
                lock(&log).push(line);
                let gone = parts.method == http::Method::PATCH && forgets.load(Ordering::Relaxed);
                let status =
                    serde_json::json!({"kind": "Status", "status": "Failure", "code": 404});
                let answer = if gone {
                    status
                } else {
                    serde_json::json!({"metadata": {"name": "e"}, "involvedObject": {}})
                };
                http::Response::builder()
                    .status(if gone { 404 } else { 200 })
                    .body(kube::client::Body::from(answer.to_string().into_bytes()))
                    .map_err(tower::BoxError::from)
            }
        });
        (Client::new(service, "default"), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_said_again_is_counted_on_the_first_event_of_the_pod() {
        let forgets = Arc::new(AtomicBool::new(false));
        let (client, asked) = server(forgets.clone());
        let events = Events::new(client, Clock::system(), ("a".into(), "b".into()));
        let say = async |seconds: u64, uid: &str| {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            events
                .pod_with_uid(("shop/web", uid), true, "FailedScheduling", "no room")
                .await;
        };
        say(0, "u1").await;
        say(299, "u1").await;
        say(0, "u2").await;
        say(1, "u1").await;
        forgets.store(true, Ordering::Relaxed);
        say(300, "u1").await;
        let said = std::mem::take(&mut *lock(&asked)).join(", ");
        assert_eq!(
            said,
            "POST u1 1, POST u2 1, PATCH - 2, PATCH - 3, POST u1 3"
        );
        // The server has forgotten it by now.
        say(3600, "u1").await;
        assert_eq!(*lock(&asked), ["POST u1 1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn events_of_one_moment_have_names_of_their_own() {
        let (client, _) = server(Arc::default());
        let clock = Clock::starting_at(Timestamp::from_second(1_800_000_000).unwrap());
        let events = Events::new(client, clock, ("a".into(), "b".into()));
        let mut names: Vec<String> = ["Launched", "Registered", "Ready"]
            .into_iter()
            .filter_map(|reason| events.event(Object::node("n"), false, reason, ""))
            .filter_map(|(event, _)| event.metadata.name)
            .collect();
        assert_eq!(names[0], "n.18fae27693b40000", "the time");
        names.dedup();
        assert_eq!(names.len(), 3, "{names:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_without_a_node_hears_one_reason_in_five_minutes_whatever_the_message() {
        let (client, asked) = server(Arc::default());
        let events = Events::new(client, Clock::system(), ("a".into(), "b".into()));
        let say = async |seconds: u64, uid: &str, reason: &str, message: &str| {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            let pod = ("shop/web", uid);
            let is_due = events.is_due(pod, reason, message);
            events.pod_with_uid(pod, true, reason, message).await;
            let was_said = !std::mem::take(&mut *lock(&asked)).is_empty();
            assert_eq!(is_due, was_said, "{message}");
            was_said
        };
        assert!(say(0, "u1", "FailedScheduling", "NodePool a: no room").await);
        assert!(!say(299, "u1", "FailedScheduling", "NodePool b: taints").await);
        assert!(
            say(0, "u2", "FailedScheduling", "NodePool b: taints").await,
            "a new pod"
        );
        assert!(say(1, "u1", "FailedScheduling", "NodePool b: taints").await);
        assert!(say(0, "u1", "Nominated", "to node a").await);
        assert!(say(1, "u1", "Nominated", "to node b").await, "words count");
    }
}
