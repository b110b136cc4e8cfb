//! A world: clock, API server, actors and cloud, from one seed.
//!
//! The daemon gets [`World::server`]'s client and [`World::cloud`]; faults between them are set
//! there. A world lives in a tokio runtime of one thread, whose clock [`paused`] makes jump from
//! one timer to the next: an idle hour takes no time.

mod describe;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use longshore_core::model::{Catalogue, Symbols};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::actors::{Actors, Timing};
use crate::clock::Clock;
use crate::cloud::{self, Cloud, READY_AFTER};
use crate::fields;
use crate::log::Log;
use crate::object::{ApiError, Key, Resource};
use crate::server::{DeleteOptions, Server, Subresource, resources};

/// How a world is.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// Latencies of the cluster.
    pub timing: Timing,
    pub cloud: cloud::CloudOptions,
    /// What can be bought; the types of Karpenter's KWOK provider if nothing is said.
    pub types: Option<Arc<(Catalogue, Symbols)>>,
    /// The time of day when the world begins.
    pub begins: Timestamp,
}

impl Default for WorldOptions {
    fn default() -> Self {
        WorldOptions {
            timing: Timing::default(),
            cloud: cloud::CloudOptions::default(),
            types: None,
            // 2026-01-01T00:00:00Z
            begins: Timestamp::constant(1_767_225_600, 0),
        }
    }
}

/// Why a manifest was not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("manifests are not YAML: {0}")]
    Yaml(String),
    /// It names a kind that the server does not have.
    #[error("no kind {kind:?} in {api_version:?}; the simulated server has {known}")]
    Kind {
        /// What it says of its group and version.
        api_version: String,
        /// What it says of its kind.
        kind: String,
        known: String,
    },
    /// The server does not want it.
    #[error("{what}: {}", refusal.message)]
    Refused {
        /// Kind and name.
        what: String,
        /// The server's answer.
        refusal: ApiError,
    },
}

/// A world. Its actors stop when it is dropped.
pub struct World {
    /// The time.
    pub clock: Clock,
    /// The API server.
    pub server: Server,
    pub cloud: Cloud,
    pub log: Log,
    actors: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.actors.abort();
    }
}

/// Runs a future to its end on one thread, on a clock that jumps.
///
/// # Errors
/// If the system has no resources for a runtime.
pub fn paused<T>(future: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    Ok(runtime.block_on(future))
}

impl World {
    /// A world that begins now. Inside a runtime only.
    pub fn new(seed: u64, options: WorldOptions) -> Self {
        let clock = Clock::starting_at(options.begins);
        let log = Log::default();
        let server = Server::new(clock, seed);
        let types = options.types.unwrap_or_else(|| {
            let mut names = Symbols::default();
            Arc::new((longshore_kwok::catalogue::built_in(&mut names), names))
        });
        let cloud = Cloud::new(
            server.clone(),
            clock,
            seed,
            types,
            options.cloud,
            log.clone(),
        );
        let actors = Actors::new(
            server.clone(),
            clock,
            seed,
            options.timing,
            cloud.clone(),
            log.clone(),
        );
        World {
            clock,
            server,
            cloud,
            log,
            actors: tokio::spawn(actors.run()),
        }
    }

    /// Lets time pass.
    pub async fn run_for(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Lets time pass until something holds, looked at whenever an object changes; says whether it
    /// came to hold within the limit.
    pub async fn run_until(&self, holds: impl Fn(&World) -> bool, limit: Duration) -> bool {
        let end = tokio::time::Instant::now() + limit;
        loop {
            let seen = self.server.revision();
            if holds(self) {
                return true;
            }
            tokio::select! {
                biased;
                () = self.server.changed(seen) => {}
                () = tokio::time::sleep_until(end) => return holds(self),
            }
        }
    }

    /// Creates the objects of some YAML documents, or replaces their fields (not their status)
    /// where they are there.
    ///
    /// # Errors
    /// The first document that is not applied; those before it are.
    pub fn apply(&self, manifests: &str) -> Result<(), ApplyError> {
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(manifests).map_err(|e| ApplyError::Yaml(e.to_string()))?;
        documents
            .into_iter()
            .filter(|d| !d.is_null())
            .try_for_each(|document| self.apply_object(document))
    }

    /// Creates an object, or replaces its fields (not its status) where it is there.
    ///
    /// # Errors
    /// Of a kind that the server does not have, or refused by it.
    pub fn apply_object(&self, mut object: Value) -> Result<(), ApplyError> {
        let resource = resource_of(&object)?;
        if resource.namespaced && fields::text(&object, "/metadata/namespace").is_empty() {
            fields::map_at(&mut object, "metadata")["namespace"] = "default".into();
        }
        let key = fields::key_of(resource, &object);
        let done = match self.server.get(&key) {
            None => self.server.create(resource, object),
            Some(_) => self
                .server
                .update(&key, Subresource::Object, &mut |old| merge(old, &object)),
        };
        let refused = |refusal| ApplyError::Refused {
            what: format!("{} {}", resource.kind, key.name),
            refusal,
        };
        done.map(drop).map_err(refused)
    }

    /// Sets the number of replicas of a Deployment, ReplicaSet or StatefulSet (`Deployment`,
    /// `default`, `web`). Says whether it is there.
    pub fn scale(&self, kind: &str, namespace: &str, name: &str, replicas: u32) -> bool {
        let Some(resource) = kind_named(kind) else {
            return false;
        };
        let key = fields::key(resource, namespace, name);
        let scale =
            &mut |object: &mut Value| fields::map_at(object, "spec")["replicas"] = replicas.into();
        self.server.update(&key, Subresource::Object, scale).is_ok()
    }

    /// Deletes an object. Says whether it was there.
    pub fn delete(&self, kind: &str, namespace: &str, name: &str) -> bool {
        let Some(resource) = kind_named(kind) else {
            return false;
        };
        self.server
            .delete(
                &fields::key(resource, namespace, name),
                &DeleteOptions::default(),
            )
            .is_ok()
    }

    /// Nodes that never become ready do, if their machines run. Returns how many.
    pub fn make_well(&self) -> usize {
        let now = self.clock.now();
        let nodes = self.server.list(resources::NODE);
        let sick = nodes.iter().filter(|node| {
            let never = fields::annotation(node, READY_AFTER) == Some("never");
            let runs = self.cloud.runs(fields::text(node, "/spec/providerID"));
            never && runs && fields::condition(node, "Ready") != "True"
        });
        let ready = &mut |node: &mut Value| {
            let message = "kubelet is posting ready status";
            fields::set_condition(node, "Ready", "True", "KubeletReady", message, now);
        };
        let well = sick.filter(|node| {
            let key = fields::key(resources::NODE, "", fields::name(node));
            self.server.update(&key, Subresource::Status, ready).is_ok()
        });
        well.count()
    }

    /// All pods, by namespace and name.
    pub fn pods(&self) -> Vec<Arc<Value>> {
        self.server.list(resources::POD)
    }

    /// Pods that run and are ready.
    pub fn ready_pods(&self) -> usize {
        self.pods()
            .iter()
            .filter(|p| fields::ready(p) && !fields::deleting(p))
            .count()
    }

    /// One object, by kind, namespace and name.
    pub fn object(&self, kind: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.server
            .get(&fields::key(kind_named(kind)?, namespace, name))
    }

    /// The cluster as text: nodes with their pods, pods that wait and why, cost per hour. For
    /// people and for tests.
    pub fn describe(&self) -> String {
        describe::describe(self)
    }

    /// Everything on the server as text, and the log: equal for equal runs.
    pub fn transcript(&self) -> String {
        let mut text = self.log.text();
        for resource in resources::ALL {
            for object in self.server.list(*resource) {
                text.push_str(&object.to_string());
                text.push('\n');
            }
        }
        text + &self.cloud.ledger().to_string()
    }
}

fn kind_named(kind: &str) -> Option<Resource> {
    resources::ALL.iter().copied().find(|r| r.kind == kind)
}

fn resource_of(object: &Value) -> Result<Resource, ApplyError> {
    let (api_version, kind) = (
        fields::text(object, "/apiVersion"),
        fields::text(object, "/kind"),
    );
    let found = resources::ALL
        .iter()
        .copied()
        .find(|r| r.kind == kind && r.api_version() == api_version);
    found.ok_or_else(|| ApplyError::Kind {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        known: resources::ALL
            .iter()
            .map(|r| format!("{} {}", r.api_version(), r.kind))
            .collect::<Vec<_>>()
            .join(", "),
    })
}

/// Puts `new` over `old`: maps field by field, all else whole.
fn merge(old: &mut Value, new: &Value) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (field, value) in new {
                merge(old.entry(field.clone()).or_insert(Value::Null), value);
            }
        }
        (old, new) => *old = new.clone(),
    }
}

/// The key of an object by kind, namespace and name.
pub fn key(resource: Resource, namespace: &str, name: &str) -> Key {
    fields::key(resource, namespace, name)
}
