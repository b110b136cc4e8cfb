//! Shared context of all steps: clients, clock, leadership, metrics.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, Patch, PatchParams};
use kube::core::Request;
use kube::{Client, Resource as _};
use longshore_api::crd::{NodeClaim, Taint, Timestamp};
use longshore_cloud::CloudProvider;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedSender;

use super::disruption::counts::KnownDisruptions;
use super::disruption::known_failures::KnownFailures;
use super::end::drains::Drains;
use super::end::garbage::memory::Garbage;
use super::end::shared_list::SharedList;
use super::events::Events;
use super::launch::launch_backoff::LaunchBackoff;
use super::launch::launch_groups::members::LaunchGroups;
use super::launch::launches::Launches;
use super::launch::refusals::Refusals;
use super::launch::static_pools::purchases::StaticCapacity;
use super::launch::useless_purchases::registrations::Registrations;
use super::recent::Recent;
use super::repair::mode::Repairs;
use crate::live::decide::rollout::Nomination;
use crate::live::metrics::Metrics;
use crate::live::observe::freshness::OwnWrite;
use crate::live::observe::kinds::Kind;
use crate::live::observe::node::NodeView;
use crate::live::observe::strip_managed_fields::strip_managed_fields;
use crate::live::observe::unavailable_offerings::UnavailableOfferings;
use crate::live::observe::watch::Relists;
use crate::live::process::clock::Clock;
use crate::live::process::leader::Leadership;
use crate::live::process::lock::lock;
use crate::live::process::pulse::Pulse;
use crate::live::process::step_error::StepError;
use crate::managed::Managed;

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
    pub health: RegistrationHealth,
    /// Nodes that have joined or not, for their NodePools to remember.
    pub registrations: Registrations,
    pub leadership: Leadership,
    pub clock: Clock,
    /// Whether the loop is alive.
    pub pulse: Pulse,
    /// Own writes, sent to the loop at once, because the watch may bring them much later.
    pub echoes: UnboundedSender<OwnWrite>,
    /// Asks watches for a new list.
    pub relists: Arc<Relists>,
    /// The watches are up to date as far as is known, so timeouts on their content may be applied.
    pub fresh: AtomicBool,
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
    /// Nominations that may be written at a time.
    pub nomination_turns: Semaphore,
    /// Nodes that are being drained.
    pub drains: Drains,
    /// What garbage collection has seen.
    pub garbage: Garbage,
    /// How nodes that stay unhealthy are repaired.
    pub repairs: Repairs,
    /// Static NodePools.
    pub static_capacity: StaticCapacity,
    /// Commands of disruption that have failed.
    pub failures: KnownFailures,
    /// How many nodes of NodePools were disrupted.
    pub disruptions: KnownDisruptions,
    /// Whether `status.nominatedNodeName` may be written; off after the first refusal.
    pub nominates: AtomicBool,
    /// Whether metrics and Events report the state of objects beside actions; off by default.
    pub observes: AtomicBool,
}

/// What a [`Context`] is made with; all else begins empty.
pub struct Parts {
    pub client: Client,
    pub plain: Client,
    pub provider: Arc<dyn CloudProvider>,
    pub managed: Managed,
    pub events: Events,
    pub metrics: Arc<Metrics>,
    pub leadership: Leadership,
    pub clock: Clock,
    pub echoes: UnboundedSender<OwnWrite>,
    pub repairs: Repairs,
    /// Whether there are static NodePools.
    pub static_capacity: bool,
}

impl Context {
    /// One that has seen nothing yet.
    pub fn new(parts: Parts) -> Self {
        Context {
            client: parts.client,
            plain: parts.plain,
            provider: parts.provider,
            managed: parts.managed,
            events: parts.events,
            metrics: parts.metrics,
            health: RegistrationHealth::default(),
            registrations: Registrations::default(),
            leadership: parts.leadership,
            clock: parts.clock,
            pulse: Pulse::new(tokio::time::Instant::now()),
            echoes: parts.echoes,
            relists: Arc::default(),
            fresh: AtomicBool::new(true),
            unavailable: Arc::default(),
            backoff: LaunchBackoff::default(),
            refusals: Refusals::default(),
            recent: Recent::default(),
            launches: Launches::default(),
            launch_groups: LaunchGroups::default(),
            shared_list: SharedList::default(),
            nomination_turns: Semaphore::new(NOMINATIONS_AT_ONCE),
            drains: Drains::default(),
            garbage: Garbage::default(),
            repairs: parts.repairs,
            static_capacity: StaticCapacity::new(parts.static_capacity),
            failures: KnownFailures::default(),
            disruptions: KnownDisruptions::default(),
            nominates: AtomicBool::new(true),
            observes: AtomicBool::new(false),
        }
    }

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
        self.recent.because(claim, reason, self.now());
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

    /// Writes `status.nominatedNodeName` of pods, several at a time, and echoes each. kube-scheduler
    /// tries the nominated node first and, since 1.35, reserves its room. A refused write costs only
    /// the nomination.
    pub async fn nominate(&self, pods: &[Nomination]) {
        if !self.nominates.load(Ordering::Relaxed) || self.may_write().is_err() {
            return;
        }
        futures::stream::iter(pods)
            .for_each_concurrent(NOMINATIONS_AT_ONCE, |(pod, node)| {
                self.nominate_one(pod, node)
            })
            .await;
    }

    async fn nominate_one(&self, pod: &str, node: &str) {
        let _turn = self.nomination_turns.acquire().await;
        let Some((namespace, name)) = pod.split_once('/') else {
            return;
        };
        let patch = Patch::Strategic(json!({"status": {"nominatedNodeName": node}}));
        let path = Request::new(Pod::url_path(&(), Some(namespace)));
        let Ok(request) = path.patch_subresource("status", name, &PatchParams::default(), &patch)
        else {
            return;
        };
        match self.plain.request_text(request).await {
            // The pod itself comes by the watch as well, and is read there.
            Ok(text) => drop(self.echo(Kind::Pod, pod, &text)),
            Err(kube::Error::Api(status))
                if status.code == 403 && self.nominates.swap(false, Ordering::Relaxed) =>
            {
                tracing::warn!("missing permission to patch pods/status; pods are not nominated");
            }
            Err(_) => {}
        }
    }

    /// Clears the nomination of each of these pods, unless it has changed meanwhile.
    pub async fn clear_nominations(&self, pods: Vec<String>) {
        futures::stream::iter(pods)
            .for_each_concurrent(NOMINATIONS_AT_ONCE, |pod| async move {
                self.clear_nomination(&pod).await
            })
            .await;
    }

    async fn clear_nomination(&self, pod: &str) {
        let Some((namespace, name)) = pod.split_once('/') else {
            return;
        };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let mut old = None;
        for attempt in 0..CLEAR_ATTEMPTS {
            if self.may_write().is_err() {
                return;
            }
            match self.try_clear_nomination(&api, name, &mut old).await {
                Ok(()) => return,
                Err(kube::Error::Api(status)) if [403, 404].contains(&status.code) => return,
                Err(_) => tokio::time::sleep(Duration::from_secs(1 << attempt)).await,
            }
        }
    }

    async fn try_clear_nomination(
        &self,
        api: &Api<Pod>,
        name: &str,
        old: &mut Option<String>,
    ) -> kube::Result<()> {
        let pod = api.get(name).await?;
        let nominated = pod
            .status
            .and_then(|status| status.nominated_node_name)
            .filter(|node| !node.is_empty());
        let Some(nominated) = nominated.filter(|node| old.as_ref().is_none_or(|old| old == node))
        else {
            return Ok(());
        };
        *old = Some(nominated);
        let version = json!({"resourceVersion": pod.metadata.resource_version});
        let patch =
            Patch::Strategic(json!({"metadata": version, "status": {"nominatedNodeName": null}}));
        api.patch_status(name, &PatchParams::default(), &patch)
            .await
            .map(drop)
    }
}

/// Attempts to clear a nomination.
const CLEAR_ATTEMPTS: u32 = 5;

/// Number of nominations written at a time, so that other writes get their turn.
const NOMINATIONS_AT_ONCE: usize = 32;
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
