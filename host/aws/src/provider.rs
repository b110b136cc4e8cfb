//! EC2 behind `CloudProvider`.
//!
//! What is kept here can be found again: launch templates by their tags, instances by theirs, and a
//! launch by its token. Kept in memory alone is what makes calls cheaper or answers sooner: what has
//! no capacity, addresses in flight, instances that EC2 may not describe yet.

mod batches;
mod launching;
mod memory;
mod price_list;
mod start;
mod state;
mod upkeep;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use longshore_cloud::{
    CloudError, CloudProvider, GroupAnswer, GroupLaunch, Instance, Launch, NodeShows, RebootError,
    RepairPolicy, UNAVAILABLE_SECONDS,
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

use crate::batch::Batcher;
use crate::boot::Bootstrap;
use crate::clients::Clients;
use crate::discovery::Finder;
use crate::drift;
use crate::error::{ApiError, Class as ErrorClass};
use crate::instances::{capacity_type, instance, parse_provider_id};
use crate::interruption::InterruptionKind;
use crate::launch::fleet::GROUP_TAG;
use crate::lock::lock;
use crate::nodeclass::Part;
use crate::records::{Filters, InstanceFacts, Tags};
use crate::store::NodeClasses;
use crate::{nodeclass, wire};

pub use start::StartError;
pub(crate) use state::ProviderState;

/// Settings of the process.
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
    state: Mutex<ProviderState>,
    /// One launch of a claim, or of a group, at a time.
    claims: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// One creation of templates at a time: launches that coincide mostly want the same.
    making_templates: tokio::sync::Mutex<()>,
    describes: Batcher<String, Result<Option<InstanceFacts>, ApiError>>,
    endings: Batcher<String, Result<Option<InstanceFacts>, ApiError>>,
    terminates: Batcher<String, Result<String, ApiError>>,
}

/// NodeClaims that share a CreateFleet at most. EC2 takes requests of many more instances; a group
/// of this size keeps a lost or partial answer small.
const MAX_GROUP_SIZE: usize = 500;
/// How long EC2 may take to describe what it has launched, in seconds.
const MAX_DESCRIBE_DELAY_SECONDS: i64 = 300;
/// How often nodes are compared with their classes.
const DRIFT_CHECK_INTERVAL: Duration = Duration::from_secs(300);

impl Ec2 {
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
    pub async fn note_interruption(&self, kind: InterruptionKind, id: &str) {
        if !matches!(
            kind,
            InterruptionKind::SpotInterrupted | InterruptionKind::ReservationInterrupted
        ) {
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
        let until = self.now() + UNAVAILABLE_SECONDS;
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

    pub(crate) fn state(&self) -> MutexGuard<'_, ProviderState> {
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

/// The ID of a zone, empty if it is not known.
fn zone_id<'a>(region: &'a Region, zone: &str) -> &'a str {
    let at = region.zone(zone);
    at.map_or("", |at| &*region.zones()[at].id)
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

impl ProviderState {
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
