//! Shared context of all steps: clients, clock, leadership, metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use longshore_api::crd::{NodeClaim, Taint, Timestamp};
use longshore_cloud::CloudProvider;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use super::disruption::memory::DisruptionMemory;
use super::end::memory::EndMemory;
use super::events::Events;
use super::launch::memory::LaunchMemory;
use super::launch::static_pools::purchases::StaticCapacity;
use super::nominations::Nominations;
use super::recent::Recent;
use super::repair::mode::Repairs;
use crate::managed::Managed;
use crate::metrics::Metrics;
use crate::observe::freshness::OwnWrite;
use crate::observe::node::NodeView;
use crate::observe::watch::Relists;
use crate::process::clock::Clock;
use crate::process::leader::Leadership;
use crate::process::pulse::Pulse;
use crate::process::step_error::StepError;
use longshore_api::kinds::ObjectKind;
use longshore_api::strip_managed_fields::strip_managed_fields;

/// Shared by all that is going on.
pub struct Context {
    /// Asks again where the server says so.
    pub client: Client,
    /// Does not: for evictions and leases, where a refusal is an answer.
    pub plain: Client,
    pub provider: Arc<dyn CloudProvider>,
    /// Which objects are this provider's.
    pub managed: Managed,
    pub events: Events,
    pub metrics: Arc<Metrics>,
    pub leadership: Leadership,
    pub clock: Clock,
    /// Whether the loop is alive.
    pub pulse: Pulse,
    /// Own writes, sent to the loop at once, because the watch may bring them much later.
    pub echoes: UnboundedSender<OwnWrite>,
    /// How nodes that stay unhealthy are repaired.
    pub repairs: Repairs,
    /// Purchases for static NodePools, and whether these are kept at their replicas.
    pub static_capacity: StaticCapacity,
    /// Asks watches for a new list.
    pub relists: Arc<Relists>,
    /// The watches are up to date as far as is known, so timeouts on their content may be applied.
    pub fresh: AtomicBool,
    /// Whether metrics and Events report the state of objects beside actions; off by default.
    pub observes: AtomicBool,
    pub memory: Memory,
}

/// What steps leave for later steps of this process. Without it, all goes on from the cluster.
#[derive(Default)]
pub struct Memory {
    pub launch: LaunchMemory,
    pub end: EndMemory,
    pub disruption: DisruptionMemory,
    /// Ends of NodeClaims, changes and costs that the status tells of.
    pub recent: Recent,
    pub nominations: Nominations,
}

impl Context {
    /// The time of day by [`Self::clock`], which is virtual in the simulation.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Whether the state of objects is reported.
    pub fn observes(&self) -> bool {
        self.observes.load(Ordering::Relaxed)
    }

    /// Whether this process may change anything now: it leads, and has said so to the server
    /// recently enough.
    ///
    /// # Errors
    /// Another replica may have taken over.
    pub fn may_write(&self) -> Result<(), StepError> {
        if self.leadership.is_leader() {
            Ok(())
        } else {
            Err(StepError::NotLeading)
        }
    }

    /// Whether this process may change a NodeClaim now.
    ///
    /// # Errors
    /// Another replica may have taken over; or it is another provider's, which the caller should have
    /// seen.
    pub fn may_write_claim(&self, claim: &NodeClaim) -> Result<(), StepError> {
        if !self.managed.claim(claim) {
            let name = claim.metadata.name.as_deref().unwrap_or_default();
            let class = &claim.spec.node_class_ref;
            return Err(StepError::Other(format!(
                "NodeClaim {name} is of another provider ({}, {}) and is not written",
                class.kind, class.group
            )));
        }
        self.may_write()
    }

    /// This process has asked for the end of a NodeClaim: counts it, and remembers why.
    pub fn disrupted(&self, reason: &str, claim: &NodeClaim) {
        self.metrics.disrupted(reason, claim);
        self.memory.recent.because(claim, reason, self.now());
    }

    /// Tells the loop of an object that was written: `text` is the server's answer. NodeClaims are
    /// sent whole. Returns its version.
    pub fn echo(&self, kind: ObjectKind, name: &str, text: &str) -> Option<String> {
        let (object, version) = strip_managed_fields(text);
        let version = version?.to_owned();
        let object = (kind == ObjectKind::NodeClaim).then_some(object);
        self.echo_version(kind, name, &version, object);
        Some(version)
    }

    fn echo_version(&self, kind: ObjectKind, name: &str, version: &str, object: Option<Box<str>>) {
        if let Ok(version) = version.parse() {
            // Nobody listens once the loop has ended.
            _ = self.echoes.send(OwnWrite {
                kind,
                name: name.to_owned(),
                version,
                object,
            });
        }
    }

    /// Patches a Node by merge.
    ///
    /// # Errors
    /// What the server says.
    pub async fn patch_node(&self, name: &str, patch: &Value) -> Result<(), StepError> {
        self.may_write()?;
        let api: Api<Node> = Api::all(self.client.clone());
        let written = api
            .patch_metadata(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        if let Some(version) = &written.metadata.resource_version {
            self.echo_version(ObjectKind::Node, name, version, None);
        }
        Ok(())
    }

    /// Gives a Node these taints and no others, unless it has changed since it was seen. A Node that
    /// is gone needs none.
    ///
    /// # Errors
    /// What the server says.
    pub async fn write_taints(&self, node: &NodeView, taints: &[Taint]) -> Result<(), StepError> {
        let metadata = json!({"resourceVersion": node.resource_version});
        let patch = json!({"metadata": metadata, "spec": {"taints": taints}});
        match self.patch_node(&node.name, &patch).await {
            Err(StepError::Gone) => Ok(()),
            other => other,
        }
    }
}
