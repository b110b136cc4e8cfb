//! For unit tests: a step's [`Context`] on the simulated API server, and a cloud with preset
//! answers.
//!
//! The server has no controllers: an object changes when the step or the test changes it. Its clock
//! is tokio's, so that a test with a paused runtime spends no time.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use longshore_api::crd::{NodeClaim, Timestamp};
use longshore_cloud::{CloudError, CloudProvider, Instance, Launch};
use longshore_simcluster as sim;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sim::object::{Key, Resource};
use sim::server::resources::{EVENT, NAMESPACE, NODE_CLAIM, POD};
use sim::server::{Server, Subresource, Verdict};

use crate::act::context::{Context, Memory};
use crate::act::events::Events;
use crate::act::launch::static_pools::purchases::StaticCapacity;
use crate::act::repair::Repairs;
use crate::decide::claims::FINALIZER;
use crate::managed::Managed;
use crate::metrics::Metrics;
use crate::process::clock::Clock;
use crate::process::leader::Leadership;
use crate::process::lock::lock;
use crate::process::pulse::Pulse;

/// The time of day when a test begins: 2026-11-24T12:00:00Z.
pub const BEGIN: Timestamp = Timestamp::constant(1_795_521_600, 0);

/// What every Longshore of a test is called by the server.
const DAEMON: &str = "daemon";

/// The server, and the time that it shows.
#[derive(Clone)]
pub struct TestCluster {
    pub server: Server,
    pub clock: Clock,
}

impl TestCluster {
    /// A cluster with the namespace `shop` and nothing in it.
    pub fn empty() -> TestCluster {
        let cluster = TestCluster {
            server: Server::new(sim::clock::Clock::starting_at(BEGIN), 1),
            clock: Clock::starting_at(BEGIN),
        };
        cluster.create(NAMESPACE, json!({"metadata": {"name": "shop"}}));
        cluster
    }

    /// The same cluster with pods of these names in the namespace `shop`.
    #[must_use]
    pub fn with_pods(self, names: &[&str]) -> TestCluster {
        for name in names {
            let pod = json!({
                "metadata": {"name": name, "namespace": "shop"},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            });
            self.create(POD, pod);
        }
        self
    }

    /// Creates an object with its status. Returns it as the server has it.
    pub fn create(&self, resource: Resource, object: Value) -> Value {
        let status = object["status"].clone();
        let made = self.server.create(resource, object).unwrap();
        if status.is_null() {
            return (*made).clone();
        }
        let name = made["metadata"]["name"].as_str().unwrap();
        let namespace = made["metadata"]["namespace"].as_str().unwrap_or_default();
        let (namespace, name) = (namespace.into(), name.into());
        let key = Key {
            resource,
            namespace,
            name,
        };
        let mut write = |object: &mut Value| object["status"] = status.clone();
        let written = self.server.update(&key, Subresource::Status, &mut write);
        (*written.unwrap()).clone()
    }

    /// An object of a kind without namespaces, as a step gets it.
    pub fn get<T: DeserializeOwned>(&self, resource: Resource, name: &str) -> Option<T> {
        let object = self.server.get(&cluster_wide(resource, name))?;
        Some(serde_json::from_value((*object).clone()).unwrap())
    }

    /// Changes such an object, but for its status.
    pub fn change(&self, resource: Resource, name: &str, mut change: impl FnMut(&mut Value)) {
        let key = cluster_wide(resource, name);
        let done = self.server.update(&key, Subresource::Object, &mut change);
        done.unwrap();
    }

    /// Deletes such an object: it goes once its finalizers let it go.
    pub fn delete(&self, resource: Resource, name: &str) {
        let key = cluster_wide(resource, name);
        let at_once = sim::server::DeleteOptions::default();
        self.server.delete(&key, &at_once).unwrap();
    }

    /// The NodeClaim of [`fresh`].
    pub fn claim(&self) -> Option<NodeClaim> {
        self.get(NODE_CLAIM, "web-1")
    }

    /// Whether somebody has asked for the end of the NodeClaim of [`fresh`], or it is gone.
    pub fn is_claim_deleted(&self) -> bool {
        self.claim()
            .is_none_or(|claim| claim.metadata.deletion_timestamp.is_some())
    }

    /// From now on the server refuses these requests.
    pub fn refuse(&self, verb: &'static str, resource: Resource, code: u16, reason: &'static str) {
        self.server.set_gate(Box::new(move |asked| {
            let is_meant = asked.verb == verb && asked.resource == Some(resource);
            match is_meant {
                false => Verdict::Go,
                true => Verdict::Refuse {
                    code,
                    reason,
                    retry_after: None,
                },
            }
        }));
    }

    /// The Events that were written, as `object: reason: message`.
    pub fn events(&self) -> Vec<String> {
        let text = |event: &Value| {
            let [name, reason, message] =
                ["/involvedObject/name", "/reason", "/message"].map(|at| {
                    event
                        .pointer(at)
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                });
            format!("{name}: {reason}: {message}")
        };
        let all = self.server.list(EVENT);
        all.iter().map(|event| text(event)).collect()
    }

    /// The writes that clients have asked for, as `verb kind`, each with how often.
    pub fn writes(&self) -> Vec<String> {
        let counts = self.server.requests();
        let is_write = |verb: &str| !["get", "list", "watch"].contains(&verb);
        let all = counts.by.iter().filter(|((_, verb, _), _)| is_write(verb));
        all.map(|((_, verb, kind), times)| format!("{verb} {kind} ×{times}"))
            .collect()
    }

    /// What a step of a process gets that leads on this cluster and buys from this cloud.
    pub fn context_with(&self, cloud: Arc<dyn CloudProvider>) -> Context {
        let client = self.server.client(DAEMON);
        let lease = ("kube-system".into(), "lease".into());
        Context {
            client: client.clone(),
            plain: client.clone(),
            provider: cloud,
            managed: Managed::KWOK,
            events: Events::new(client, self.clock.clone(), lease),
            metrics: Arc::new(Metrics::new()),
            leadership: Leadership::new(true),
            clock: self.clock.clone(),
            pulse: Pulse::new(tokio::time::Instant::now()),
            echoes: tokio::sync::mpsc::unbounded_channel().0,
            repairs: Repairs::Off,
            static_capacity: StaticCapacity::new(true),
            relists: Arc::default(),
            fresh: AtomicBool::new(true),
            observes: AtomicBool::new(true),
            memory: Memory::default(),
        }
    }
}

fn cluster_wide(resource: Resource, name: &str) -> Key {
    Key {
        resource,
        namespace: "".into(),
        name: name.into(),
    }
}

/// A cloud that answers every launch alike, and has the instances that a test gives it.
pub struct Cloud {
    launch: Result<Instance, CloudError>,
    instances: Mutex<Vec<Arc<Instance>>>,
    /// `create UID` and `delete PROVIDER-ID`, in order.
    calls: Mutex<Vec<String>>,
}

impl Cloud {
    pub fn answering(launch: Result<Instance, CloudError>) -> Cloud {
        Cloud {
            launch,
            instances: Mutex::default(),
            calls: Mutex::default(),
        }
    }

    /// A cloud with these instances, in which nothing can be launched.
    pub fn with(instances: impl IntoIterator<Item = Instance>) -> Arc<Cloud> {
        let cloud = Cloud::answering(Err(CloudError::Other("not asked".into())));
        instances.into_iter().for_each(|one| cloud.has(one));
        Arc::new(cloud)
    }

    /// An instance shows in lists.
    pub fn has(&self, instance: Instance) {
        lock(&self.instances).push(Arc::new(instance));
    }

    /// All instances are gone.
    pub fn forget_all(&self) {
        lock(&self.instances).clear();
    }

    /// What was asked for that changes something.
    pub fn calls(&self) -> Vec<String> {
        lock(&self.calls).clone()
    }
}

#[async_trait]
impl CloudProvider for Cloud {
    fn name(&self) -> &'static str {
        "test"
    }
    async fn create(&self, launch: &Launch) -> Result<Instance, CloudError> {
        lock(&self.calls).push(format!("create {}", launch.uid));
        self.launch.clone()
    }
    async fn delete(&self, id: &str) -> Result<(), CloudError> {
        let mut instances = lock(&self.instances).clone().into_iter();
        if !instances.any(|one| one.provider_id == id) {
            return Err(CloudError::NotFound(id.to_owned()));
        }
        lock(&self.calls).push(format!("delete {id}"));
        Ok(())
    }
    async fn get(&self, id: &str) -> Result<Instance, CloudError> {
        Err(CloudError::NotFound(id.to_owned()))
    }
    async fn list(&self) -> Result<Vec<Arc<Instance>>, CloudError> {
        Ok(lock(&self.instances).clone())
    }
}

/// What a step gets on a cluster, with a cloud that answers every launch alike.
pub fn context(cluster: &TestCluster, launch: Result<Instance, CloudError>) -> Context {
    cluster.context_with(Arc::new(Cloud::answering(launch)))
}

/// A NodeClaim that is to be launched, as a manifest.
pub fn claim_to_launch() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": "web-1", "finalizers": [FINALIZER],
            "labels": {"karpenter.sh/nodepool": "web"},
        },
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [], "resources": {},
        },
    })
}

/// A cluster with a NodeClaim that is to be launched, and a copy of it.
pub fn fresh() -> (TestCluster, NodeClaim) {
    let cluster = TestCluster::empty();
    cluster.create(NODE_CLAIM, claim_to_launch());
    let copy = cluster.claim().unwrap();
    (cluster, copy)
}

/// The instance of a launch that went well.
pub fn instance() -> Instance {
    Instance {
        provider_id: "test://1".into(),
        ..Instance::default()
    }
}
