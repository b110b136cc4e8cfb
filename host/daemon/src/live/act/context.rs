//! Shared context of all steps: clients, clock, leadership, metrics.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use longshore_api::crd::{NodeClaim, Taint, Timestamp};
use longshore_cloud::CloudProvider;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use super::disruption::known_disruptions::KnownDisruptions;
use super::disruption::known_failures::KnownFailures;
use super::end::drains::Drains;
use super::end::garbage::memory::Garbage;
use super::end::shared_list::SharedList;
use super::events::Events;
use super::launch::first_boots::FirstBoots;
use super::launch::launch_backoff::LaunchBackoff;
use super::launch::launch_groups::members::LaunchGroups;
use super::launch::launches::Launches;
use super::launch::outcomes::Outcomes;
use super::launch::refusals::Refusals;
use super::launch::static_pools::purchases::StaticCapacity;
use super::launch::useless_purchase_writes::registrations::Registrations;
use super::nominations::Nominations;
use super::recent::Recent;
use super::repair::mode::Repairs;
use crate::live::metrics::Metrics;
use crate::live::observe::freshness::OwnWrite;
use crate::live::observe::node::NodeView;
use crate::live::observe::unavailable_offerings::UnavailableOfferings;
use crate::live::observe::watch::Relists;
use crate::live::process::clock::Clock;
use crate::live::process::leader::Leadership;
use crate::live::process::lock::lock;
use crate::live::process::pulse::Pulse;
use crate::live::process::step_error::StepError;
use crate::managed::Managed;
use longshore_api::kinds::Kind;
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
    /// Static NodePools.
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
    pub health: RegistrationHealth,
    /// How launches went, for canaries of policies.
    pub outcomes: Outcomes,
    /// Whose nodes boot with the next version of a policy.
    pub first_boots: FirstBoots,
    /// Nodes that have joined or not, for their NodePools to remember.
    pub registrations: Registrations,
    /// Offerings that are unavailable now.
    pub unavailable: Arc<UnavailableOfferings>,
    /// Launches that wait, for the cloud has refused them.
    pub backoff: LaunchBackoff,
    /// What others refuse again and again.
    pub refusals: Refusals,
    /// What has happened lately.
    pub recent: Recent,
    /// Launches that may have made an instance that no claim names yet.
    pub launches: Launches,
    /// NodeClaims that are launched together.
    pub launch_groups: LaunchGroups,
    /// All instances, for claims that end.
    pub shared_list: SharedList,
    /// Nodes that are being drained.
    pub drains: Drains,
    /// What garbage collection has seen.
    pub garbage: Garbage,
    /// Commands of disruption that have failed.
    pub failures: KnownFailures,
    /// How many nodes of NodePools were disrupted.
    pub disruptions: KnownDisruptions,
    pub nominations: Nominations,
}

impl Context {
    /// The time.
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
    pub fn echo(&self, kind: Kind, name: &str, text: &str) -> Option<String> {
        let (object, version) = strip_managed_fields(text);
        let version = version?.to_owned();
        let object = (kind == Kind::NodeClaim).then_some(object);
        self.echo_version(kind, name, &version, object);
        Some(version)
    }

    fn echo_version(&self, kind: Kind, name: &str, version: &str, object: Option<Box<str>>) {
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
            self.echo_version(Kind::Node, name, version, None);
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

/// How the last four launches of each NodePool went.
#[derive(Default)]
pub struct RegistrationHealth(Mutex<BTreeMap<String, VecDeque<bool>>>);

impl RegistrationHealth {
    /// Notes how a launch or registration ended.
    pub fn record(&self, pool: &str, good: bool) {
        let mut all = lock(&self.0);
        let last = all.entry(pool.to_owned()).or_default();
        last.push_back(good);
        if last.len() > 4 {
            last.pop_front();
        }
    }

    /// Another version of a NodePool or its class: what was before says nothing about it.
    pub fn forget(&self, pool: &str) {
        lock(&self.0).remove(pool);
    }

    /// Fewer than two of the last four failed; nothing if none is known.
    pub fn of(&self, pool: &str) -> Option<bool> {
        let all = lock(&self.0);
        let last = all.get(pool).filter(|l| !l.is_empty())?;
        Some(last.iter().filter(|good| !**good).count() < 2)
    }
}
