//! EC2 behind `CloudProvider`.
//!
//! What is kept here can be found again: launch templates by their tags, instances by theirs, and a
//! launch by its token. Kept in memory alone is what makes calls cheaper or answers sooner: what has
//! no capacity, addresses in flight, instances that EC2 may not describe yet.

mod launching;
mod memory;
mod price_list;
mod state;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use longshore_cloud::{
    CloudError, CloudProvider, GroupAnswer, GroupLaunch, Instance, Launch, NodeShows, RebootError,
    RepairPolicy,
};
use longshore_core::model::{Catalogue, MinValuesPolicy, Symbols};
use longshore_ec2::bootstrap::Joins;
use longshore_ec2::catalogue::class::Class;
use longshore_ec2::catalogue::machine::Settings as MachineSettings;
use longshore_ec2::catalogue::{ClassCatalogue, CoreCatalogues, Region, Short};
use longshore_ec2::kubelet::minor;
use longshore_ec2::nodeclass::EC2NodeClass;
use longshore_ec2::userdata::Cluster;
use longshore_ec2::{repair, tags};
use tokio::time::Instant;

use crate::batch::{Batcher, Window};
use crate::boot::Bootstrap;
use crate::clients::Clients;
use crate::discovery::{self, Finder};
use crate::drift;
use crate::error::{ApiError, Class as ErrorClass};
use crate::instances::{capacity_type, instance, parse_provider_id};
use crate::interruption::Kind;
use crate::launch::fleet::{GROUP_TAG, UNAVAILABLE};
use crate::lock::lock;
use crate::nodeclass::Part;
use crate::records::{Filters, InstanceFacts, Tags};
use crate::store::NodeClasses;
use crate::{nodeclass, wire};

pub(crate) use state::State;

/// What the process was told.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The cluster that nodes join. Its name is needed; what else is empty comes from EKS.
    pub cluster: Cluster,
    /// The API server's version, such as `1.35`; empty for EKS's word.
    pub kubernetes: String,
    /// Settings that change what nodes have.
    pub machines: MachineSettings,
    /// Gate ReservedCapacity.
    pub reserved_capacity: bool,
    /// Whether a launch may have fewer values of a label than `minValues` asks for.
    pub min_values: MinValuesPolicy,
    /// Whether classes are validated without trying a launch.
    pub without_dry_runs: bool,
    /// Whether there is no way to IAM: profiles are neither made nor deleted.
    pub isolated: bool,
    /// Gate RebootForRepair: what a reboot helps is rebooted and not replaced.
    pub reboot_for_repair: bool,
    /// Whether zonal shifts of the cluster are obeyed.
    pub zonal_shift: bool,
    /// How often parts of a class are observed, in seconds, where that is not
    /// [`PACE`](crate::nodeclass::PACE).
    pub paces: BTreeMap<Part, i64>,
}

/// Says how `minValues` are taken now; `None` is as the settings say.
pub type AskMinValues = Arc<dyn Fn() -> Option<MinValuesPolicy> + Send + Sync>;

/// Why there is no provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// A call failed that nothing works without.
    #[error("{}", .0.with_hint())]
    Api(#[from] ApiError),
    /// Zonal shifts are to be obeyed, and cannot be asked for.
    #[error(
        "zonal shifts of the cluster cannot be read: {0}; enable zonal shift for the cluster, or \
         turn ENABLE_ZONAL_SHIFT off"
    )]
    ZonalShift(String),
    /// EC2 described no instance type that could be used.
    #[error("EC2 describes no usable instance type in {0}")]
    NoTypes(String),
}

impl StartError {
    /// Whether AWS is slow or down, so that another attempt may succeed.
    pub fn passes(&self) -> bool {
        matches!(self, StartError::Api(error) if error.class.passes())
    }
}

/// What the time is.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// The provider. Cheap to clone.
#[derive(Clone)]
pub struct Ec2 {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) clients: Arc<Clients>,
    pub(crate) classes: Arc<dyn NodeClasses>,
    pub(crate) settings: Settings,
    /// The API server's version as it was read last. Each text is kept for ever: a cluster is upgraded
    /// a few times in the life of a process.
    kubernetes: Mutex<&'static str>,
    pub(crate) finder: Finder,
    pub(crate) account: String,
    /// The cluster's ARN; empty if EKS does not know the cluster.
    pub(crate) arn: String,
    clock: Clock,
    state: Mutex<State>,
    /// One launch of a claim, or of a group, at a time.
    claims: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// One creation of templates at a time: launches that coincide mostly want the same.
    making_templates: tokio::sync::Mutex<()>,
    describes: Batcher<String, Result<Option<InstanceFacts>, ApiError>>,
    endings: Batcher<String, Result<Option<InstanceFacts>, ApiError>>,
    terminates: Batcher<String, Result<String, ApiError>>,
}

/// Windows of batches, as Karpenter's.
const BATCH: Window = Window {
    idle: Duration::from_millis(100),
    longest: Duration::from_secs(1),
    most: 200,
};
/// Whether instances that were terminated are gone: they are asked for every few seconds, each at
/// its own time, and nothing waits for the answer.
const ENDINGS: Window = Window {
    idle: Duration::from_secs(1),
    longest: Duration::from_secs(2),
    ..BATCH
};
/// NodeClaims that share a CreateFleet at most. EC2 takes requests of many more instances; a group
/// of this size keeps a lost or partial answer small.
const MAX_GROUP_SIZE: usize = 500;
/// How long EC2 may take to describe what it has launched, in seconds.
const VISIBLE: i64 = 300;
/// How often nodes are compared with their classes.
const DRIFT_CHECK_INTERVAL: Duration = Duration::from_secs(300);
/// How often types and prices are read anew.
const REFRESH: Duration = Duration::from_secs(12 * 3600);
/// How often what is over is let go.
const STATE_SWEEP_INTERVAL: Duration = Duration::from_secs(10);
/// How often the leader looks for launch templates that others have made.
const TEMPLATE_SEARCH_INTERVAL: Duration = Duration::from_secs(3600);
/// How soon the search for launch templates is repeated after it failed.
const TEMPLATE_SEARCH_RETRY: Duration = Duration::from_secs(60);
/// How long a start waits for zonal shifts.
const ZONAL_SHIFT_TIMEOUT: Duration = Duration::from_secs(10);

impl Ec2 {
    /// Asks for the cluster, instance types and prices, and finds launch templates again.
    ///
    /// # Errors
    /// The cluster or the types are not known. Prices and templates come later if they do not come
    /// now.
    pub async fn start(
        clients: Arc<Clients>,
        classes: Arc<dyn NodeClasses>,
        mut settings: Settings,
        clock: Clock,
    ) -> Result<Self, StartError> {
        let arn = complete_cluster(&clients, &mut settings).await?;
        warn_of_version(settings.machines.kubernetes);
        let types = wire::types::descriptions(&clients).await?;
        let offered = wire::types::offerings(&clients).await?;
        let (mut region, problems) =
            discovery::region(clients.region(), &types, &offered, &BTreeMap::new());
        for problem in &problems.list {
            tracing::warn!(%problem, "instance type skipped");
        }
        if region.types().is_empty() {
            return Err(StartError::NoTypes(clients.region().to_owned()));
        }
        region.settings = settings.machines;
        let provider = Self::over(region, clients, classes, settings, arn, clock);
        if provider.inner.settings.zonal_shift {
            provider.begin_shifts().await?;
        }
        if let Err(error) = provider.refresh_prices().await {
            tracing::warn!(
                error = error.with_hint(),
                "reading spot prices failed; on-demand prices count until then"
            );
        }
        if let Err(error) = provider.find_templates().await {
            tracing::warn!(error = error.with_hint(), "finding launch templates failed");
        }
        Ok(provider)
    }

    /// Asks for zonal shifts for a moment. While ARC is slow or down, none are known to hold.
    async fn begin_shifts(&self) -> Result<(), StartError> {
        let why = match tokio::time::timeout(ZONAL_SHIFT_TIMEOUT, self.refresh_shifts()).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(why)) if !why.class.passes() => {
                return Err(StartError::ZonalShift(why.with_hint()));
            }
            Ok(Err(why)) => why.with_hint(),
            Err(_) => format!("no answer within {} s", ZONAL_SHIFT_TIMEOUT.as_secs()),
        };
        tracing::warn!(why, "zonal shifts are not known yet; asked for again");
        Ok(())
    }

    /// A provider that knows a region, and nothing else yet.
    fn over(
        region: Region,
        clients: Arc<Clients>,
        classes: Arc<dyn NodeClasses>,
        settings: Settings,
        arn: String,
        clock: Clock,
    ) -> Self {
        let inner = Inner {
            finder: Finder::new(clients.clone()),
            state: Mutex::new(State::new(region)),
            claims: Mutex::default(),
            making_templates: tokio::sync::Mutex::default(),
            describes: batcher(&clients, "describe_instances", BATCH, describe),
            endings: batcher(&clients, "describe_instances", ENDINGS, describe),
            terminates: batcher(&clients, "terminate_instances", BATCH, terminate),
            clients,
            classes,
            kubernetes: Mutex::new(leaked(&settings.kubernetes)),
            settings,
            account: discovery::account_of(&arn).to_owned(),
            arn,
            clock,
        };
        Ec2 {
            inner: Arc::new(inner),
        }
    }

    /// Nodes boot with what a bootstrap policy says from now on.
    pub fn boot_with(&self, bootstrap: Arc<dyn Bootstrap>) {
        self.state().bootstrap = Some(bootstrap);
    }

    /// Before each launch `asked` is asked how `minValues` are taken.
    pub fn take_min_values_as(&self, asked: AskMinValues) {
        self.state().min_values = Some(asked);
    }

    /// The API server's version, such as `1.35`.
    pub fn kubernetes(&self) -> &'static str {
        *lock(&self.inner.kubernetes)
    }

    /// The API server has this version now. Whether it is another one: then images, kubelets and
    /// catalogues follow.
    pub fn set_kubernetes(&self, version: &str) -> bool {
        let Some(minor) = minor(version) else {
            return false;
        };
        {
            let mut known = lock(&self.inner.kubernetes);
            if *known == version {
                return false;
            }
            *known = leaked(version);
        }
        self.state().set_kubernetes(minor);
        warn_of_version(Some(minor));
        true
    }

    /// The cluster's version as EKS says it.
    ///
    /// # Errors
    /// The call failed.
    pub async fn eks_version(&self) -> Result<String, ApiError> {
        let name = &self.inner.settings.cluster.name;
        let facts = wire::cluster::describe(&self.inner.clients, name).await?;
        Ok(facts.version)
    }

    pub(crate) fn joins(&self) -> Joins<'_> {
        let settings = &self.inner.settings;
        Joins {
            cluster: &settings.cluster,
            kubernetes: self.kubernetes(),
        }
    }

    /// Keeps types and prices up to date, until it is dropped. It only reads: a replica that stands
    /// by does so too.
    pub async fn follow(&self) {
        tokio::join!(self.follow_types(), self.follow_price_list());
    }

    async fn follow_types(&self) {
        loop {
            tokio::time::sleep(REFRESH).await;
            if let Err(error) = self.refresh_types().await {
                tracing::warn!(
                    error = error.with_hint(),
                    "reading instance types failed; the last ones count"
                );
            }
            if let Err(error) = self.refresh_prices().await {
                tracing::warn!(
                    error = error.with_hint(),
                    "reading spot prices failed; the last ones count"
                );
            }
        }
    }

    /// Lets go what is over, until it is dropped. For the replica that leads. Launch templates are
    /// found again first, and from time to time: whoever led before has made some.
    pub async fn keep_clean(&self) {
        let mut due = Instant::now();
        loop {
            if due <= Instant::now() {
                due = Instant::now() + TEMPLATE_SEARCH_INTERVAL;
                if let Err(error) = self.find_templates().await {
                    due = Instant::now() + TEMPLATE_SEARCH_RETRY;
                    tracing::warn!(
                        error = error.with_hint(),
                        "finding launch templates failed; retrying"
                    );
                }
            }
            tokio::time::sleep(STATE_SWEEP_INTERVAL).await;
            self.sweep().await;
        }
    }

    /// Lets go what is over: offerings come back, templates that no launch uses are deleted.
    pub async fn sweep(&self) {
        let now = self.now();
        let idle = {
            let mut state = self.state();
            state.expire(now);
            state.templates.idle(now)
        };
        for name in idle {
            if let Err(error) = wire::templates::delete(&self.inner.clients, &name).await {
                // It is found again by its tag, and tried then.
                tracing::warn!(
                    template = name,
                    error = error.with_hint(),
                    "deleting launch template failed"
                );
                self.state().templates.add(&name, now);
            }
        }
    }

    /// Reads instance types and where they are offered.
    ///
    /// # Errors
    /// A call failed: the types stay as they were.
    pub async fn refresh_types(&self) -> Result<(), ApiError> {
        let clients = &self.inner.clients;
        let types = wire::types::descriptions(clients).await?;
        let offered = wire::types::offerings(clients).await?;
        let (mut new, _) = discovery::region(clients.region(), &types, &offered, &BTreeMap::new());
        if new.types().is_empty() {
            return Ok(());
        }
        let mut state = self.state();
        let reservations = state.reservations.clone();
        discovery::inherit(&mut new, &state.region, reservations.iter());
        state.replace_region(new);
        Ok(())
    }

    /// Reads spot prices.
    ///
    /// # Errors
    /// A call failed: prices stay as they were.
    pub async fn refresh_prices(&self) -> Result<(), ApiError> {
        let now = (self.inner.clock)();
        let prices = wire::types::spot_prices(&self.inner.clients, now).await?;
        let mut state = self.state();
        state.prices = discovery::newest_prices(prices.iter().chain(&state.prices));
        let State { region, prices, .. } = &mut *state;
        discovery::set_spot_prices(region, prices);
        Ok(())
    }

    /// Finds the cluster's launch templates again, after a start.
    ///
    /// # Errors
    /// The call failed.
    pub async fn find_templates(&self) -> Result<(), ApiError> {
        let cluster = self.inner.settings.cluster.name.clone();
        let query: Filters = vec![(format!("tag:{}", tags::CLUSTER), vec![cluster])];
        let found = wire::templates::find(&self.inner.clients, &query).await?;
        let now = self.now();
        let mut state = self.state();
        // Karpenter's own have the same prefix; others with the cluster's tag are none of ours.
        let ours = found
            .iter()
            .filter(|one| one.name.starts_with("karpenter.k8s.aws/"));
        ours.for_each(|one| state.templates.add(&one.name, now));
        Ok(())
    }

    /// The region as it is now.
    pub fn region(&self) -> Region {
        self.state().region.clone()
    }

    /// The catalogue of plans for the classes that can be launched from.
    pub fn catalogue(&self, classes: &[EC2NodeClass], names: &mut Symbols) -> Catalogue {
        let mut state = self.state();
        let now = self.now();
        state.region.change_unavailable(|all| all.expire(now));
        let usable = classes
            .iter()
            .filter(|class| nodeclass::launchable(class).is_ok());
        let all: Vec<Arc<ClassCatalogue>> = usable
            .filter_map(|class| state.catalogue(class, &self.joins()).ok())
            .collect();
        let mut core = CoreCatalogues::new(&state.region, names);
        all.into_iter().for_each(|class| core.add(class));
        core.finish()
    }

    /// Grows with every change of what [`Ec2::catalogue`] says for the same classes. What is over
    /// counts as a change as well.
    pub fn version(&self) -> u64 {
        let now = self.now();
        let mut state = self.state();
        state.region.change_unavailable(|all| all.expire(now));
        state.version()
    }

    /// Name of the NodeClaim that an instance was launched for; nothing if it is none of this
    /// cluster's.
    ///
    /// # Errors
    /// The instance cannot be described. Or it was launched for a group, and which NodeClaim has it
    /// is not known yet.
    pub async fn claim_of(&self, id: &str) -> Result<Option<String>, CloudError> {
        let known = self.state().instances.get(id).cloned();
        let facts = match known {
            Some(facts) => Some(facts),
            None => self.described(id).await?,
        };
        let Some(facts) = facts.filter(|facts| self.is_ours(facts)) else {
            return Ok(None);
        };
        let name = facts.tags.get(tags::NODE_CLAIM).cloned();
        match facts.tags.get(GROUP_TAG) {
            Some(group) if name.is_none() => Err(CloudError::Other(format!(
                "{id} is of launch group {group}, and no NodeClaim names it yet"
            ))),
            _ => Ok(name),
        }
    }

    /// A node has joined: its name and its NodeClaim's become tags of the instance, and the
    /// cluster's. Tags that are there stay as they are; with all of them nothing is called.
    ///
    /// # Errors
    /// The tags could not be set.
    pub async fn tag_node(
        &self,
        provider_id: &str,
        node: &str,
        claim: &str,
    ) -> Result<(), CloudError> {
        let (zone, id) = parse_provider_id(provider_id).ok_or_else(|| not_ours(provider_id))?;
        let known = self.state().instances.get(id).cloned();
        let facts = match known {
            Some(facts) => facts,
            None => self.facts(provider_id).await?,
        };
        let cluster = &*self.inner.settings.cluster.name;
        let wanted = [
            ("Name", node),
            (tags::NODE_CLAIM, claim),
            (tags::CLUSTER, cluster),
        ];
        let missing = wanted
            .iter()
            .filter(|(key, _)| !facts.tags.contains_key(*key));
        let missing = missing.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let tags: Tags = missing.collect();
        if tags.is_empty() {
            return Ok(());
        }
        self.may_touch(zone)?;
        wire::instances::tag(&self.inner.clients, id, &tags).await?;
        if let Some(facts) = self.state().instances.get_mut(id) {
            facts.tags.extend(tags);
        }
        Ok(())
    }

    /// Takes an interruption into account: what EC2 takes back has no capacity for a while.
    pub async fn note_interruption(&self, kind: Kind, id: &str) {
        if !matches!(kind, Kind::SpotInterrupted | Kind::ReservationInterrupted) {
            return;
        }
        let known = self.state().instances.get(id).cloned();
        let facts = match known {
            Some(facts) => facts,
            // Another cluster's, most likely: one batched read tells.
            None => match self.described(id).await {
                Ok(Some(facts)) if self.is_ours(&facts) => facts,
                _ => return,
            },
        };
        let until = self.now() + UNAVAILABLE;
        let short = Short {
            capacity_type: capacity_type(&facts).into(),
            zone: (*facts.zone).into(),
            reservation: facts.reservation.as_deref().map(Into::into),
            ..Short::default()
        };
        let mut state = self.state();
        state
            .region
            .change_unavailable(|all| all.mark(&facts.instance_type, short, until));
    }

    fn is_ours(&self, facts: &InstanceFacts) -> bool {
        is_of(&facts.tags, &self.inner.settings.cluster.name)
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// Seconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        let since = (self.inner.clock)().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| {
            i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
        })
    }

    pub(crate) fn system_time(&self) -> SystemTime {
        (self.inner.clock)()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.inner.state)
    }

    async fn described(&self, id: &str) -> Result<Option<InstanceFacts>, CloudError> {
        let answer = self.inner.describes.ask(id.to_owned()).await;
        let answer = answer.ok_or_else(|| CloudError::Other("the process ends".to_owned()))?;
        Ok(answer?)
    }

    /// An instance, from memory if it was launched a moment ago and EC2 does not show it.
    async fn facts(&self, provider_id: &str) -> Result<InstanceFacts, CloudError> {
        let (zone, id) = parse_provider_id(provider_id).ok_or_else(|| not_ours(provider_id))?;
        if let Err(shifted) = self.may_touch(zone) {
            let known = self.state().instances.get(id).cloned();
            return known.filter(|facts| !facts.is_gone()).ok_or(shifted);
        }
        match self.described(id).await? {
            Some(facts) => {
                let mut state = self.state();
                match facts.is_gone() {
                    true => {
                        state.gone(id, self.now());
                        Err(gone(provider_id))
                    }
                    false => {
                        state.seen(facts.clone());
                        Ok(facts)
                    }
                }
            }
            None => {
                let now = self.now();
                // One lock for both: in a `match` of the first, its guard would outlive the second.
                let mut state = self.state();
                state.fresh(id, now).ok_or_else(|| {
                    state.gone(id, now);
                    gone(provider_id)
                })
            }
        }
    }

    async fn class(&self, name: &str) -> Result<EC2NodeClass, CloudError> {
        let found = self.inner.classes.get(name).await;
        let found = found.map_err(|why| {
            CloudError::Other(format!("EC2NodeClass {name} cannot be read: {why}"))
        })?;
        let mut class = found.ok_or_else(|| {
            CloudError::NodeClassNotReady(format!("EC2NodeClass {name} does not exist"))
        })?;
        // The status may have them from when the gate was on.
        if let Some(status) = &mut class.status
            && !self.inner.settings.reserved_capacity
        {
            status.capacity_reservations.clear();
        }
        Ok(class)
    }
}

fn warn_of_version(minor: Option<u16>) {
    if let Some(why) = nodeclass::unknown_kubernetes(minor) {
        tracing::error!(why, "nodes may not join");
    }
}

/// A text that lives as long as the process.
fn leaked(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

/// Whether tags are those of an instance that was launched for an EC2NodeClass of a cluster. EKS gives
/// its tag with the cluster's name to instances of Auto Mode too, and these are none of ours.
fn is_of(tags: &Tags, cluster: &str) -> bool {
    tags.get(tags::CLUSTER).is_some_and(|name| name == cluster)
        && tags.contains_key(tags::NODE_CLASS)
}

/// Asks EKS for what the settings leave out. Gives the cluster's ARN, empty if it is not known.
async fn complete_cluster(
    clients: &Clients,
    settings: &mut Settings,
) -> Result<String, StartError> {
    let cluster = &mut settings.cluster;
    let whole = [&cluster.endpoint, &cluster.cidr, &settings.kubernetes];
    let whole = whole.iter().all(|text| !text.is_empty());
    let facts = match wire::cluster::describe(clients, &cluster.name).await {
        Ok(facts) => facts,
        // A cluster of one's own making is none of EKS's.
        Err(error) if whole => {
            tracing::info!(error = %error, "EKS does not describe the cluster");
            settings.machines.kubernetes = minor(&settings.kubernetes);
            return Ok(String::new());
        }
        Err(error) => return Err(error.into()),
    };
    let fill = |text: &mut String, own: String| {
        if text.is_empty() {
            *text = own;
        }
    };
    fill(&mut cluster.endpoint, facts.endpoint);
    fill(&mut cluster.ca_bundle, facts.ca_bundle);
    fill(&mut cluster.cidr, facts.cidr);
    fill(&mut settings.kubernetes, facts.version);
    settings.machines.kubernetes = minor(&settings.kubernetes);
    Ok(facts.arn)
}

/// The ID of a zone, empty if it is not known.
fn zone_id<'a>(region: &'a Region, zone: &str) -> &'a str {
    let at = region.zone(zone);
    at.map_or("", |at| &*region.zones()[at].id)
}

/// Collects questions about instances. `name` is its word of metrics.
fn batcher<V, R>(
    clients: &Arc<Clients>,
    name: &'static str,
    window: Window,
    run: impl Fn(Arc<Clients>, Vec<String>) -> R + Send + Sync + 'static,
) -> Batcher<String, V>
where
    V: Send + 'static,
    R: Future<Output = Vec<V>> + Send + 'static,
{
    let (observed, asked) = (clients.clone(), clients.clone());
    let seen = move |size, waited| observed.observer().batched(name, size, waited);
    Batcher::seen(window, seen, move |ids| run(asked.clone(), ids))
}

async fn describe(
    clients: Arc<Clients>,
    ids: Vec<String>,
) -> Vec<Result<Option<InstanceFacts>, ApiError>> {
    // A filter finds those that there are; IDs in the request would fail for one that is not.
    let query: Filters = vec![("instance-id".to_owned(), ids.clone())];
    match wire::instances::find(&clients, &query).await {
        Err(error) => ids.iter().map(|_| Err(error.clone())).collect(),
        Ok(found) => {
            let of = |id: &String| found.iter().find(|facts| facts.id == *id).cloned();
            ids.iter().map(|id| Ok(of(id))).collect()
        }
    }
}

/// The state of each instance afterwards.
async fn terminate(clients: Arc<Clients>, ids: Vec<String>) -> Vec<Result<String, ApiError>> {
    let state = |states: &BTreeMap<String, String>, id: &String| {
        // An instance that the reply leaves out was accepted with the others. It is asked for again
        // until it is gone.
        states
            .get(id)
            .cloned()
            .unwrap_or_else(|| "shutting-down".to_owned())
    };
    // EC2 refuses all of a request for one instance: it does not exist, is protected, or lacks the
    // tag that the policy asks for. The others wait for nothing.
    let of_one = |error: &ApiError| {
        let whole = [ErrorClass::Throttled, ErrorClass::Unknown];
        ids.len() > 1 && !whole.contains(&error.class) && !error.concerns_credentials()
    };
    match wire::instances::terminate(&clients, &ids).await {
        Ok(states) => ids.iter().map(|id| Ok(state(&states, id))).collect(),
        Err(error) if of_one(&error) => {
            let mut all = Vec::with_capacity(ids.len());
            for id in &ids {
                let one = wire::instances::terminate(&clients, std::slice::from_ref(id)).await;
                all.push(one.map(|states| state(&states, id)));
            }
            all
        }
        Err(error) => ids.iter().map(|_| Err(error.clone())).collect(),
    }
}

pub(crate) fn not_ours(provider_id: &str) -> CloudError {
    CloudError::NotFound(format!(
        "{provider_id:?} is no instance of EC2; its provider ID is aws:///ZONE/i-…"
    ))
}

fn gone(provider_id: &str) -> CloudError {
    CloudError::NotFound(format!("there is no instance {provider_id}"))
}

#[async_trait]
impl CloudProvider for Ec2 {
    fn name(&self) -> &'static str {
        "aws"
    }

    async fn create(&self, launch: &Launch) -> Result<Instance, CloudError> {
        self.launch(launch).await
    }

    fn most_in_group(&self) -> usize {
        MAX_GROUP_SIZE
    }

    async fn create_group(&self, group: &GroupLaunch) -> Result<GroupAnswer, CloudError> {
        self.launch_group(group).await
    }

    fn node_shows(&self, node: &NodeShows<'_>) {
        self.state().see_memory(node, self.now());
    }

    async fn delete(&self, provider_id: &str) -> Result<(), CloudError> {
        let (zone, id) = parse_provider_id(provider_id).ok_or_else(|| not_ours(provider_id))?;
        if self.state().is_over(id) {
            return Err(gone(provider_id));
        }
        self.may_touch(zone)?;
        if self.state().ends(id) {
            // EC2 counts each instance of TerminateInstances, and a read costs it nothing.
            let answer = self.inner.endings.ask(id.to_owned()).await;
            let answer = answer.ok_or_else(|| CloudError::Other("the process ends".to_owned()))?;
            match answer? {
                Some(facts) if facts.ends() => return Ok(()),
                // An old description, or it lives after all: it is terminated again.
                Some(facts) if !facts.is_gone() => {}
                Some(_) => {
                    self.state().over(id, self.now());
                    return Err(gone(provider_id));
                }
                None => {
                    self.state().gone(id, self.now());
                    return Err(gone(provider_id));
                }
            }
        }
        let answer = self.inner.terminates.ask(id.to_owned()).await;
        let answer = answer.ok_or_else(|| CloudError::Other("the process ends".to_owned()))?;
        match answer {
            Ok(state) if state == "terminated" => {
                self.state().over(id, self.now());
                Err(gone(provider_id))
            }
            Ok(state) => {
                if let Some(facts) = self.state().instances.get_mut(id) {
                    facts.state = state;
                }
                Ok(())
            }
            Err(error) if error.class == ErrorClass::NotFound => {
                // EC2 may not know yet what it has just launched.
                let fresh = self.state().fresh(id, self.now()).is_some();
                match fresh {
                    true => Err(CloudError::Other(format!(
                        "{error}; it was launched just now"
                    ))),
                    false => {
                        self.state().gone(id, self.now());
                        Err(gone(provider_id))
                    }
                }
            }
            Err(error) => {
                let zone = parse_provider_id(provider_id).map_or("", |(zone, _)| zone);
                let state = self.state();
                let observer = self.inner.clients.observer();
                observer.termination_failed(zone, zone_id(&state.region, zone));
                Err(error.into())
            }
        }
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        repair::policies(self.inner.settings.reboot_for_repair)
    }

    async fn reboot(&self, provider_id: &str, operation: &str) -> Result<(), RebootError> {
        self.reboot_instance(provider_id, operation).await
    }

    fn drift_interval(&self) -> Option<Duration> {
        Some(DRIFT_CHECK_INTERVAL)
    }

    async fn drifted(
        &self,
        provider_id: &str,
        launch: &Launch,
    ) -> Result<Option<String>, CloudError> {
        let (_, id) = parse_provider_id(provider_id).ok_or_else(|| not_ours(provider_id))?;
        let found = self.inner.classes.get(&launch.class_name).await;
        let found = found.map_err(CloudError::Other)?;
        // A class that is missing or leaves says nothing about its nodes.
        let Some(class) = found.filter(|class| class.metadata.deletion_timestamp.is_none()) else {
            return Ok(None);
        };
        let known = self.state().instances.get(id).cloned();
        let facts = match known.filter(|facts| !facts.groups.is_empty()) {
            Some(facts) => facts,
            None => self.facts(provider_id).await?,
        };
        let mut state = self.state();
        let catalogue = state.catalogue(&class, &self.joins())?;
        let bootstrap = self.bootstrap_drifted(&state, &catalogue, &class, launch, &facts);
        let compared = drift::Compared {
            region: &state.region,
            catalogue: &catalogue,
            class: &class,
            launch,
            instance: &facts,
            bootstrap,
        };
        let reason = drift::reason(&compared).map_err(CloudError::Other)?;
        Ok(reason.map(str::to_owned))
    }

    async fn get(&self, provider_id: &str) -> Result<Instance, CloudError> {
        let facts = self.facts(provider_id).await?;
        Ok(self.state().instance(&facts))
    }

    async fn list(&self) -> Result<Vec<Arc<Instance>>, CloudError> {
        let found = wire::instances::find(&self.inner.clients, &self.owned()).await?;
        let now = self.now();
        let mut state = self.state();
        let all = state.listed(found, now);
        Ok(all
            .iter()
            .map(|facts| Arc::new(state.instance(facts)))
            .collect())
    }
}

impl Ec2 {
    /// What finds this cluster's instances that are not gone.
    fn owned(&self) -> Filters {
        let states = ["pending", "running", "stopping", "stopped", "shutting-down"];
        let cluster = self.inner.settings.cluster.name.clone();
        vec![
            ("tag-key".to_owned(), vec![tags::NODEPOOL.to_owned()]),
            ("tag-key".to_owned(), vec![tags::NODE_CLASS.to_owned()]),
            (format!("tag:{}", tags::CLUSTER), vec![cluster]),
            (
                "instance-state-name".to_owned(),
                states.map(str::to_owned).to_vec(),
            ),
        ]
    }
}

impl State {
    /// An instance with what its class says of its type.
    fn instance(&self, facts: &InstanceFacts) -> Instance {
        let class = facts.tags.get(tags::NODE_CLASS);
        let class = class.and_then(|name| self.known_catalogue(name));
        instance(facts, class.map(|class| (&self.region, class)))
    }

    /// The catalogue of a class; made anew if the class or the region has changed.
    pub(crate) fn catalogue(
        &mut self,
        class: &EC2NodeClass,
        joins: &Joins<'_>,
    ) -> Result<Arc<ClassCatalogue>, CloudError> {
        let name = class.metadata.name.clone().unwrap_or_default();
        if let Some(known) = self.fitting_catalogue(&name, class) {
            return Ok(known);
        }
        let made = Class::of(class).and_then(|made| ClassCatalogue::new(&self.region, made));
        let mut made = made.map_err(|fault| {
            CloudError::NodeClassNotReady(format!(
                "EC2NodeClass {name}: {} {}; {}",
                fault.field, fault.what, fault.hint
            ))
        })?;
        if let Some(bootstrap) = &self.bootstrap {
            bootstrap.count(&self.region, &mut made, class, joins);
        }
        Ok(self.keep_catalogue(name, class, made))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_of_auto_mode_are_none_of_ours_although_they_have_the_clusters_tag() {
        let tagged = |keys: &[(&str, &str)]| -> Tags {
            let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            keys.iter().map(pair).collect()
        };
        let cluster = (tags::CLUSTER, "demo");
        assert!(is_of(
            &tagged(&[cluster, (tags::NODE_CLASS, "default")]),
            "demo"
        ));
        let auto = [
            cluster,
            (tags::NODEPOOL, "general-purpose"),
            (tags::NODE_CLAIM, "a"),
        ];
        assert!(!is_of(&tagged(&auto), "demo"));
        let other = [(tags::CLUSTER, "other"), (tags::NODE_CLASS, "default")];
        assert!(!is_of(&tagged(&other), "demo"));
    }
}
