//! The API server of a simulated cluster: answers like a real one, in process and without sockets.
//!
//! There are two ways in. Clients ([`Server::client`]) send requests and pass a gate with faults.
//! Actors, the rest of the cluster, call methods under the same rules and without text. All writes
//! go through one lock and one counter of revisions, so that "before" and "after" have a meaning
//! everywhere. UIDs, generated names and timestamps come from the seed and the clock: the same
//! calls give the same bytes.
//!
//! Absent on purpose: authentication and RBAC, discovery, OpenAPI of the built-in kinds
//! ([`builtin`] has what a typed server does to them, as far as an autoscaler notices), protobuf,
//! tables, garbage collection and everything else that controllers do. Objects track field managers
//! from their first apply on, not from their creation.

pub mod apply;
pub mod builtin;
pub mod client;
pub mod definitions;
pub mod delete;
pub mod resources;

mod api_error;
mod ids;
mod meta;
mod patch;
mod pods;
mod select;
mod state;
mod store;
mod types;
mod write;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

pub use self::client::fault_gate::{Counts, Moment, RequestInfo, Verdict};
pub use self::client::quiet::Whose;
pub use self::client::request::Body;
pub use self::delete::{DeleteOptions, Propagation};
pub use self::select::Selector;
pub use self::state::Server;
pub use crate::object::Subresource;

use self::apply::Manager;
use self::client::fault_gate::{FaultPolicy, Witness};
use self::client::quiet::Quiet;
use self::ids::Ids;
use self::resources::{NAMESPACE, PRIORITY_CLASS};
use self::state::ServerState;
use self::store::Store;
use self::write::WriteOptions;
use crate::clock::Clock;
use crate::object::{ApiError, Change, Key, Resource};

impl Server {
    /// A server with the namespaces, priority classes and custom kinds that a cluster starts with.
    pub fn new(clock: Clock, seed: u64) -> Server {
        let state = ServerState {
            clock,
            ids: Ids::new(seed),
            store: Store::new(),
            events: VecDeque::new(),
            epoch: 0,
            quiet: Quiet::default(),
        };
        let server = Server::holding(state);
        let named = |name: &str| json!({"metadata": {"name": name}});
        let namespaces = ["default", "kube-node-lease", "kube-public", "kube-system"];
        let namespaces = namespaces.iter().map(|name| (NAMESPACE, named(name)));
        let class = |name: &str, value: i64| {
            let mut class = named(name);
            class["value"] = json!(value);
            (PRIORITY_CLASS, class)
        };
        let classes = [
            class("system-cluster-critical", 2_000_000_000),
            class("system-node-critical", 2_000_001_000),
        ];
        for (resource, object) in namespaces.chain(classes) {
            // Nothing is in their way on an empty server.
            let _ = server.create(resource, object);
        }
        server
    }
}

/// For actors: the same rules, no text.
impl Server {
    /// An object as it is now.
    pub fn get(&self, key: &Key) -> Option<Arc<Value>> {
        let path = store::path(&key.namespace, &key.name);
        self.lock()
            .store
            .get(key.resource, &path)
            .map(|stored| stored.value.clone())
    }

    /// All objects of a kind, ordered by `namespace/name` as lists are.
    pub fn list(&self, resource: Resource) -> Vec<Arc<Value>> {
        self.lock()
            .store
            .all(resource)
            .map(|stored| stored.value.clone())
            .collect()
    }

    /// All objects of a kind in a namespace, ordered by name.
    pub fn list_in(&self, resource: Resource, namespace: &str) -> Vec<Arc<Value>> {
        self.lock()
            .store
            .within(resource, namespace)
            .map(|stored| stored.value.clone())
            .collect()
    }

    /// Pods that are bound to a node, ordered by `namespace/name`.
    pub fn pods_on(&self, node: &str) -> Vec<Arc<Value>> {
        self.lock()
            .store
            .on_node(node, "")
            .map(|stored| stored.value.clone())
            .collect()
    }

    /// Creates an object. Its namespace is in its metadata; `generateName` is served.
    ///
    /// # Errors
    /// As the API: 409 for a name that is taken, 422 for what its kind does not allow, 404 without
    /// its namespace.
    pub fn create(&self, resource: Resource, object: Value) -> Result<Arc<Value>, ApiError> {
        let namespace = meta::text(&object, &["metadata", "namespace"]).to_owned();
        let stored = write::create(&mut self.lock(), resource, &namespace, object, &actor())?;
        Ok(stored.value.clone())
    }

    /// Changes an object, or its status, as it is now. What does not differ is not written.
    ///
    /// # Errors
    /// As the API: 404 if it is gone, 422 for what its kind does not allow.
    pub fn update(
        &self,
        key: &Key,
        sub: Subresource,
        change: &mut dyn FnMut(&mut Value),
    ) -> Result<Arc<Value>, ApiError> {
        let mut state = self.lock();
        let old = write::current(&state, key.resource, &key.namespace, &key.name)?;
        let mut new = (*old.value).clone();
        change(&mut new);
        let stored = write::replace(&mut state, &old, new, sub, &actor())?;
        Ok(stored.value.clone())
    }

    /// Deletes an object: at once, or when its grace period and its finalizers let it go.
    ///
    /// # Errors
    /// As the API: 404 if it is gone, 409 if a precondition does not hold.
    pub fn delete(&self, key: &Key, options: &DeleteOptions) -> Result<(), ApiError> {
        let mut state = self.lock();
        let old = write::current(&state, key.resource, &key.namespace, &key.name)?;
        delete::delete(&mut state, &old, options)?;
        Ok(())
    }

    /// Lets go of a namespace's content (`spec.finalizers`), as its controller does when it has
    /// emptied it.
    ///
    /// # Errors
    /// 404 if it is gone.
    pub fn finalize_namespace(&self, name: &str) -> Result<(), ApiError> {
        let mut state = self.lock();
        let old = write::current(&state, NAMESPACE, "", name)?;
        delete::finalize(&mut state, &old, &json!({}));
        Ok(())
    }

    /// Puts a pod on a node.
    ///
    /// # Errors
    /// 404 if it is gone, 409 if it is on one or going.
    pub fn bind(&self, pod: &Key, node: &str) -> Result<(), ApiError> {
        let mut state = self.lock();
        let old = write::pod(&state, pod)?;
        pods::bind(&mut state, &old, node)?;
        Ok(())
    }

    /// Asks a pod to leave.
    ///
    /// # Errors
    /// 429 if its disruption budget is used up, 500 if it counts for several, 404 if it is gone.
    pub fn evict(&self, pod: &Key, options: &DeleteOptions) -> Result<(), ApiError> {
        let mut state = self.lock();
        let old = write::pod(&state, pod)?;
        pods::evict(&mut state, &old, options)?;
        Ok(())
    }

    /// Of the last write.
    pub fn revision(&self) -> u64 {
        self.lock().store.revision()
    }

    /// Everything written after a revision, in order. Writes are remembered for five minutes, and
    /// 200 000 at most.
    pub fn changes(&self, after: u64) -> Vec<Change> {
        self.lock().store.changes(after)
    }

    /// Waits until something is written after a revision.
    pub async fn changed(&self, after: u64) {
        let mut writes = self.lock().store.changed();
        while self.revision() <= after {
            writes.changed().await;
        }
    }
}

/// For faults.
impl Server {
    /// Forgets what was written: watches that have not read it, and those that begin before now,
    /// get 410, as do pages of lists that began before.
    pub fn compact(&self) {
        self.lock().store.compact();
    }

    /// Ends all watches, as a server does that stops.
    pub fn drop_watches(&self) {
        let mut state = self.lock();
        state.epoch += 1;
        state.store.wake();
    }

    /// How often all watches have been ended.
    pub fn dropped_watches(&self) -> u64 {
        self.lock().epoch
    }

    /// Watches say nothing until then, and then all that has happened.
    pub fn stall_watches(&self, until: Instant) {
        self.silence(Whose::default(), until);
    }

    /// Stalls some watches, as `stall_watches` stalls all.
    pub fn silence(&self, whose: Whose, until: Instant) {
        let mut state = self.lock();
        state.quiet.silence(whose, until);
        state.store.wake();
    }

    /// Until then some watches deliver each change this much later, and their bookmarks lag as
    /// well. Then they deliver the rest at once.
    pub fn delay_watches(&self, whose: Whose, by: Duration, until: Instant) {
        let mut state = self.lock();
        state.quiet.delay(whose, by, until);
        state.store.wake();
    }

    /// A client is stopped until then: what it has sent is carried out, and it reads no answer and
    /// no watch and sends nothing.
    pub fn stop_client(&self, client: &str, until: Instant) {
        let mut state = self.lock();
        state.quiet.stop(client, until);
        state.store.wake();
    }

    /// Whether a client is stopped.
    pub fn is_stopped(&self, client: &str) -> bool {
        self.lock().quiet.stopped(client, Instant::now()).is_some()
    }

    /// Returns once a client is not stopped.
    pub async fn until_it_goes_on(&self, client: &str) {
        loop {
            let stopped = self.lock().quiet.stopped(client, Instant::now());
            let Some(until) = stopped else { return };
            tokio::time::sleep_until(until).await;
        }
    }

    /// Objects of a kind as a backup brings them back: the same names and content, UIDs of their
    /// own, whatever finalizers said. What names the old ones as owners names them no longer.
    pub fn restore(&self, resource: Resource) {
        let mut state = self.lock();
        let now = state.clock.elapsed();
        let old: Vec<_> = state
            .store
            .all(resource)
            .filter(|o| !meta::is_leaving(&o.value))
            .cloned()
            .collect();
        let gone: Vec<String> = old
            .iter()
            .map(|o| meta::text(&o.value, &["metadata", "uid"]).to_owned())
            .collect();
        let everything: Vec<_> = resources::ALL
            .iter()
            .flat_map(|r| state.store.all(*r))
            .cloned()
            .collect();
        for owned in everything {
            let owners = owned.value["metadata"]["ownerReferences"]
                .as_array()
                .into_iter()
                .flatten();
            let left: Vec<&Value> = owners
                .filter(|o| !gone.iter().any(|uid| o["uid"] == **uid))
                .collect();
            if owned.value["metadata"]["ownerReferences"]
                .as_array()
                .is_some_and(|all| all.len() > left.len())
            {
                let mut value = (*owned.value).clone();
                value["metadata"]["ownerReferences"] = json!(left);
                state.store.put(&owned.key, value, now);
            }
        }
        for stored in &old {
            state.store.remove(&stored.key, now);
        }
        for stored in &old {
            let mut value = (*stored.value).clone();
            value["metadata"]["uid"] = json!(state.ids.uid());
            value["metadata"]["creationTimestamp"] = meta::time(state.clock.now());
            state.store.put(&stored.key, value, now);
        }
    }

    /// From now on asks `judge` what becomes of each request of a client.
    pub fn set_gate(&self, judge: FaultPolicy) {
        self.fault_gate().set(Some(judge));
    }

    /// From now on calls `witness` for each request of a client when it is carried out.
    pub fn set_witness(&self, witness: Witness) {
        self.fault_gate().set_witness(Some(witness));
    }

    /// From now on every request is carried out, and no answer arrives.
    pub fn open_gate(&self) {
        self.fault_gate().set(None);
        self.fault_gate().set_witness(None);
    }

    /// How many requests clients have sent, by caller, verb and kind.
    pub fn requests(&self) -> Counts {
        self.fault_gate().counts()
    }
}

/// An actor has read what it changes.
fn actor() -> WriteOptions {
    WriteOptions {
        manager: Manager::update("actor"),
        dry_run: false,
        blind: true,
    }
}
