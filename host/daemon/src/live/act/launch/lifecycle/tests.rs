//! Steps on old copies of a claim, against an API server that has one NodeClaim and nothing else.

use std::io;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::task::Poll;

use async_trait::async_trait;
use http::{Method, Request, Response};
use kube::client::Body;
use longshore_cloud::{CloudProvider, Instance, Launch, OfferingName, Shortage};

use super::*;
use crate::live::act::context::RegistrationHealth;
use crate::live::act::events::Events;
use crate::live::metrics::Metrics;
use crate::live::observe::node_claim::rfc3339;
use crate::live::process::clock::Clock;
use crate::live::process::leader::Leadership;
use crate::live::process::lock::lock;

/// The server: its NodeClaim, or nothing once that is deleted.
#[derive(Clone)]
pub struct Server {
    claim: Arc<Mutex<Option<Value>>>,
    /// The names of the pods of the namespace `shop`; lists of pods are refused where there are
    /// none.
    pods: &'static [&'static str],
}

impl Server {
    pub fn claim(&self) -> Option<NodeClaim> {
        lock(&self.claim)
            .clone()
            .map(|claim| serde_json::from_value(claim).unwrap())
    }

    /// The same server with these pods.
    pub fn with_pods(self, pods: &'static [&'static str]) -> Server {
        Server { pods, ..self }
    }

    fn list(&self) -> (u16, Value) {
        if self.pods.is_empty() {
            return refuse(403, "Forbidden");
        }
        let named = |name: &&str| json!({"metadata": {"name": name, "namespace": "shop"}});
        let items: Vec<Value> = self.pods.iter().map(named).collect();
        let list = json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
            "metadata": {}, "items": items,
        });
        (200, list)
    }

    fn answer(&self, method: &Method, path: &str, body: &[u8]) -> (u16, Value) {
        let asked: Value = serde_json::from_slice(body).unwrap_or_default();
        if *method == Method::GET && path.ends_with("/pods") {
            return self.list();
        }
        if !path.contains("/nodeclaims/") {
            // Events and the like.
            return (201, asked);
        }
        let mut there = lock(&self.claim);
        let Some(claim) = there.as_mut() else {
            return refuse(404, "NotFound");
        };
        let version = &claim["metadata"]["resourceVersion"];
        let wanted = match *method {
            Method::DELETE => &asked["preconditions"]["resourceVersion"],
            _ => &asked["metadata"]["resourceVersion"],
        };
        if !wanted.is_null() && wanted != version {
            return refuse(409, "Conflict");
        }
        if method == Method::DELETE {
            let gone = there.take().unwrap_or_default();
            return (200, gone);
        }
        let next = version
            .as_str()
            .and_then(|v| v.parse::<u64>().ok())
            .unwrap_or(0)
            + 1;
        merge(claim, asked);
        claim["metadata"]["resourceVersion"] = json!(next.to_string());
        (200, claim.clone())
    }
}

fn refuse(code: u16, reason: &str) -> (u16, Value) {
    (
        code,
        json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason}),
    )
}

fn merge(into: &mut Value, patch: Value) {
    match patch {
        Value::Object(fields) if into.is_object() => {
            fields.into_iter().for_each(|(key, value)| match value {
                Value::Null => drop(into.as_object_mut().map(|o| o.remove(&key))),
                value => merge(&mut into[&key], value),
            })
        }
        value => *into = value,
    }
}

impl tower_service::Service<Request<Body>> for Server {
    type Response = Response<Body>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Response<Body>>> + Send>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.map_err(io::Error::other)?;
            let (code, answer) = server.answer(&parts.method, parts.uri.path(), &body);
            let response = Response::builder()
                .status(code)
                .body(Body::from(answer.to_string().into_bytes()));
            response.map_err(io::Error::other)
        })
    }
}

/// A cloud with preset answers.
struct Cloud(Result<Instance, CloudError>);

#[async_trait]
impl CloudProvider for Cloud {
    fn name(&self) -> &'static str {
        "test"
    }
    async fn create(&self, _: &Launch) -> Result<Instance, CloudError> {
        self.0.clone()
    }
    async fn delete(&self, _: &str) -> Result<(), CloudError> {
        Ok(())
    }
    async fn get(&self, id: &str) -> Result<Instance, CloudError> {
        Err(CloudError::NotFound(id.to_owned()))
    }
    async fn list(&self) -> Result<Vec<Arc<Instance>>, CloudError> {
        Ok(Vec::new())
    }
}

pub fn context(server: &Server, answer: Result<Instance, CloudError>) -> Context {
    let client = kube::Client::new(server.clone(), "default");
    Context {
        client: client.clone(),
        plain: client.clone(),
        provider: Arc::new(Cloud(answer)),
        managed: crate::managed::Managed::KWOK,
        events: Events::new(
            client,
            Clock::system(),
            ("kube-system".into(), "lease".into()),
        ),
        metrics: Arc::new(Metrics::new()),
        health: RegistrationHealth::default(),
        registrations:
            crate::live::act::launch::useless_purchases::registrations::Registrations::default(),
        leadership: Leadership::new(true),
        clock: Clock::system(),
        pulse: crate::live::process::pulse::Pulse::new(Instant::now()),
        echoes: tokio::sync::mpsc::unbounded_channel().0,
        relists: Arc::default(),
        fresh: AtomicBool::new(true),
        unavailable: Arc::default(),
        backoff: crate::live::act::launch::launch_backoff::LaunchBackoff::default(),
        refusals: crate::live::act::launch::refusals::Refusals::default(),
        recent: crate::live::act::recent::Recent::default(),
        launches: crate::live::act::launch::launches::Launches::default(),
        launch_groups: crate::live::act::launch::launch_groups::LaunchGroups::default(),
        shared_list: crate::live::act::end::shared_list::SharedList::default(),
        nomination_turns: tokio::sync::Semaphore::new(1),
        drains: crate::live::act::end::drains::Drains::default(),
        garbage: crate::live::act::end::garbage::memory::Garbage::default(),
        repairs: crate::live::act::repair::Repairs::Off,
        static_capacity: crate::live::act::launch::static_pools::purchases::StaticCapacity::new(
            true,
        ),
        failures: crate::live::act::disruption::known_failures::KnownFailures::default(),
        nominates: AtomicBool::new(true),
        observes: AtomicBool::new(true),
    }
}

/// A server with a claim that is to be launched, and a copy of it.
pub fn fresh() -> (Server, NodeClaim) {
    let now = rfc3339(Clock::system().now());
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": "web-1", "uid": "u-1", "resourceVersion": "10", "creationTimestamp": now, "finalizers": [FINALIZER],
            "labels": {"karpenter.sh/nodepool": "web"},
        },
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [], "resources": {},
        },
    });
    let server = Server {
        claim: Arc::new(Mutex::new(Some(claim))),
        pods: &[],
    };
    let copy = server.claim().unwrap();
    (server, copy)
}

pub fn instance() -> Instance {
    Instance {
        provider_id: "test://1".into(),
        ..Instance::default()
    }
}

async fn run(ctx: &Context, claim: &NodeClaim) -> Outcome {
    step(ctx, claim, &[], &Surroundings::default(), Turn::Wait(None)).await
}

fn launched(server: &Server) -> bool {
    server
        .claim()
        .and_then(|claim| claim.status)
        .is_some_and(|status| is_true(&status, "Launched"))
}

#[tokio::test]
async fn a_launch_on_an_old_copy_takes_nothing_back() {
    let (server, old) = fresh();
    run(&context(&server, Ok(instance())), &old).await.unwrap();
    assert!(launched(&server));
    for error in [
        CloudError::Other("a bad moment".into()),
        CloudError::InsufficientCapacity(Shortage::from("nothing left".to_owned())),
        CloudError::NodeClassNotReady("not yet".into()),
    ] {
        let refused = run(&context(&server, Err(error.clone())), &old)
            .await
            .unwrap_err();
        assert!(matches!(refused, StepError::Conflict(_)), "{refused}");
        assert!(launched(&server), "after {error}");
    }
    let now = server.claim().unwrap();
    run(
        &context(&server, Err(CloudError::Other("not asked".into()))),
        &now,
    )
    .await
    .unwrap();
    assert!(launched(&server));
}

#[tokio::test]
async fn a_claim_without_capacity_goes_and_what_was_short_is_remembered() {
    let (server, claim) = fresh();
    let [instance_type, zone, capacity_type] = ["m5.large", "z1", "spot"].map(str::to_owned);
    let offerings = vec![OfferingName {
        instance_type,
        zone,
        capacity_type,
    }];
    let shortage = Shortage {
        message: "nothing left".into(),
        offerings,
    };
    let ctx = context(&server, Err(CloudError::InsufficientCapacity(shortage)));
    assert_eq!(run(&ctx, &claim).await, Ok(None));
    assert!(server.claim().is_none());
    assert_eq!(
        ctx.unavailable.summary(ctx.now().as_second()).some,
        ["m5.large/z1/spot"]
    );
    assert!(
        ctx.metrics
            .text()
            .contains(r#"reason="insufficient_capacity""#)
    );
}
