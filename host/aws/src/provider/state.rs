//! What a provider remembers.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use longshore_cloud::CloudError;
use longshore_ec2::catalogue::{ClassCatalogue, Group as PlacementGroup, Region, Revisions};
use longshore_ec2::nodeclass::EC2NodeClass;

use super::{AskMinValues, MAX_DESCRIBE_DELAY_SECONDS};
use crate::boot::Bootstrap;
use crate::discovery;
use crate::launch::fleet::{Fleet, UID_TAG};
use crate::prices::OnDemand;
use crate::records::{InstanceFacts, ShiftFacts, SpotPrice, SubnetFacts};
use crate::subnets::Addresses;
use crate::templates::KnownTemplates;

/// Everything that is remembered. Nothing here is the only copy of anything.
pub(crate) struct ProviderState {
    pub region: Region,
    pub prices: Vec<SpotPrice>,
    /// On-demand prices of the price list.
    pub on_demand: OnDemand,
    pub addresses: Addresses,
    pub templates: KnownTemplates,
    /// Instances as they were described last.
    pub instances: HashMap<String, InstanceFacts>,
    /// Launches that are not over, by UID of the claim or token of the group.
    pub launches: HashMap<String, InFlight>,
    /// Launch groups of which it is known what there is, by token.
    pub groups: HashMap<String, Group>,
    /// Zonal shifts as they were described last.
    pub shifts: Vec<ShiftFacts>,
    /// What nodes boot with in place of the built-in user data.
    pub bootstrap: Option<Arc<dyn Bootstrap>>,
    /// Says how `minValues` are taken. Without an answer the settings do.
    pub min_values: Option<AskMinValues>,
    /// IDs of reservations that were described.
    pub reservations: BTreeSet<String>,
    catalogues: HashMap<String, Kept>,
    /// When instances were launched here, by ID.
    launched: HashMap<String, i64>,
    /// Instances by the UID of their claim.
    by_claim: HashMap<String, String>,
    /// Instances of reservations that were counted as gone, and when.
    returned: HashMap<String, i64>,
    /// Instances that EC2 called terminated, and when.
    over: HashMap<String, i64>,
    /// Grows with every new set of types.
    generation: u64,
    /// [`ProviderState::version`] when the set of types was replaced, and one more.
    versions: u64,
}

/// What there is of a launch group; its token makes nothing more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// IDs of its instances, and what their claims are annotated with.
    pub made: Vec<(String, BTreeMap<String, String>)>,
    /// Why they are fewer than were wanted.
    pub short: Option<CloudError>,
    /// When it was asked for last.
    pub touched: i64,
}

/// A launch that has begun.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight {
    /// The number of the attempt.
    pub attempt: u32,
    /// The request that was sent and whose reply is not known.
    pub sent: Option<Fleet>,
    /// Since when the token is known to be used by a request of another process.
    pub reused: Option<i64>,
    /// When something happened to it last.
    pub touched: i64,
}

struct Kept {
    class: EC2NodeClass,
    generation: u64,
    groups: Arc<[PlacementGroup]>,
    /// [`Bootstrap::version`].
    boots: u64,
    catalogue: Arc<ClassCatalogue>,
}

/// How long a launch is remembered after the last request for it, in seconds.
const LAUNCH_MEMORY_SECONDS: i64 = 3600;

impl ProviderState {
    pub fn new(region: Region) -> Self {
        ProviderState {
            region,
            prices: Vec::new(),
            on_demand: OnDemand::new(),
            addresses: Addresses::default(),
            templates: KnownTemplates::default(),
            instances: HashMap::new(),
            launches: HashMap::new(),
            groups: HashMap::new(),
            shifts: Vec::new(),
            bootstrap: None,
            min_values: None,
            reservations: BTreeSet::new(),
            catalogues: HashMap::new(),
            launched: HashMap::new(),
            by_claim: HashMap::new(),
            returned: HashMap::new(),
            over: HashMap::new(),
            generation: 0,
            versions: 0,
        }
    }

    /// A region with other types: catalogues are made anew.
    pub fn replace_region(&mut self, region: Region) {
        self.versions = self.version() + 1;
        self.region = region;
        discovery::set_on_demand_prices(&mut self.region, &self.on_demand);
        discovery::set_spot_prices(&mut self.region, &self.prices);
        self.generation += 1;
        self.catalogues.clear();
    }

    /// The API server has another version: catalogues are made anew.
    pub fn set_kubernetes(&mut self, minor: u16) {
        self.region.settings.kubernetes = Some(minor);
        self.versions += 1;
        self.generation += 1;
        self.catalogues.clear();
    }

    /// Grows with every change of what classes offer.
    pub fn version(&self) -> u64 {
        let Revisions {
            types,
            prices,
            capacity,
            memory,
        } = self.region.revisions();
        // Each set of types begins its counts anew: the highest of the set before is kept apart.
        self.versions + types + prices + capacity + memory + self.boots()
    }

    fn boots(&self) -> u64 {
        self.bootstrap.as_ref().map_or(0, |boot| boot.version())
    }

    /// Forgets what is over at `now`.
    pub fn expire(&mut self, now: i64) {
        self.region.change_unavailable(|all| all.expire(now));
        self.region.change_discovered(|all| all.expire(now));
        let young = |at: &i64| now - at <= MAX_DESCRIBE_DELAY_SECONDS;
        self.launched.retain(|_, at| young(at));
        self.returned
            .retain(|_, at| now - *at <= 3 * MAX_DESCRIBE_DELAY_SECONDS);
        self.over.retain(|_, at| now - *at <= LAUNCH_MEMORY_SECONDS);
        self.launches
            .retain(|_, own| now - own.touched <= LAUNCH_MEMORY_SECONDS);
        self.groups
            .retain(|_, own| now - own.touched <= LAUNCH_MEMORY_SECONDS);
        let instances = &self.instances;
        self.by_claim.retain(|_, id| instances.contains_key(id));
    }

    /// The class that the catalogue of a name was made of, and the catalogue.
    pub fn known_class(&self, name: &str) -> Option<(&EC2NodeClass, &ClassCatalogue)> {
        let kept = self.catalogues.get(name)?;
        Some((&kept.class, &kept.catalogue))
    }

    pub fn known_catalogue(&self, name: &str) -> Option<&ClassCatalogue> {
        self.catalogues.get(name).map(|kept| &*kept.catalogue)
    }

    /// The catalogue that was made of this very class.
    pub fn fitting_catalogue(
        &mut self,
        name: &str,
        class: &EC2NodeClass,
    ) -> Option<Arc<ClassCatalogue>> {
        let boots = self.boots();
        let kept = self.catalogues.get_mut(name)?;
        let same = kept.generation == self.generation
            && kept.boots == boots
            && Arc::ptr_eq(&kept.groups, &self.region.groups)
            && kept.class.spec == class.spec
            && kept.class.status == class.status;
        if !same {
            return None;
        }
        Arc::make_mut(&mut kept.catalogue).follow(&self.region);
        Some(kept.catalogue.clone())
    }

    pub fn keep_catalogue(
        &mut self,
        name: String,
        class: &EC2NodeClass,
        catalogue: ClassCatalogue,
    ) -> Arc<ClassCatalogue> {
        let catalogue = Arc::new(catalogue);
        let kept = Kept {
            class: class.clone(),
            generation: self.generation,
            groups: self.region.groups.clone(),
            boots: self.boots(),
            catalogue: catalogue.clone(),
        };
        self.catalogues.insert(name, kept);
        catalogue
    }

    /// Subnets were described.
    pub fn describe_subnets(&mut self, subnets: &[SubnetFacts]) {
        self.addresses.describe(subnets);
    }

    /// The ID of a zone, as classes and instances name it; nothing if none of them is in it.
    pub fn zone_id(&self, zone: &str) -> Option<&str> {
        let classes = self.catalogues.values().map(|kept| kept.catalogue.class());
        let mut of_classes = classes.flat_map(|class| &class.subnets);
        let of_class = of_classes.find(|one| *one.zone == *zone && !one.id.is_empty());
        of_class.map(|one| &*one.id).or_else(|| {
            let mut all = self.instances.values();
            let found = all.find(|one| one.zone == zone && !one.zone_id.is_empty());
            found.map(|one| &*one.zone_id)
        })
    }

    /// Whether traffic is shifted away from a zone, by name.
    pub fn is_shifted(&self, zone: &str) -> bool {
        let shifted = self.region.shifted();
        !shifted.is_empty()
            && self
                .zone_id(zone)
                .is_some_and(|id| shifted.iter().any(|own| **own == *id))
    }

    /// An instance was launched for a claim.
    pub fn launched(&mut self, uid: &str, facts: InstanceFacts, now: i64) {
        self.launches.remove(uid);
        self.by_claim.insert(uid.to_owned(), facts.id.clone());
        self.made(facts, now);
    }

    /// There is an instance that was not there before.
    pub fn made(&mut self, facts: InstanceFacts, now: i64) {
        self.launched.insert(facts.id.clone(), now);
        if let Some(id) = &facts.reservation {
            let left = self.region.free(id).saturating_sub(1);
            self.region.set_free(id, left);
        }
        self.instances.insert(facts.id.clone(), facts);
    }

    /// What there is of a launch group is known.
    pub fn keep_group(&mut self, token: &str, group: Group) {
        self.launches.remove(token);
        self.groups.insert(token.to_owned(), group);
    }

    /// The instance of a claim, if it is known.
    pub fn of_claim(&self, uid: &str) -> Option<&InstanceFacts> {
        let facts = self.instances.get(self.by_claim.get(uid)?)?;
        (!facts.is_gone()).then_some(facts)
    }

    /// An instance was described. One that ends goes on ending, whatever an old description says.
    pub fn seen(&mut self, mut facts: InstanceFacts) {
        if self.ends(&facts.id) && !facts.is_gone() {
            facts.state = "shutting-down".to_owned();
        }
        if let Some(uid) = facts.tags.get(UID_TAG) {
            self.by_claim.insert(uid.clone(), facts.id.clone());
        }
        self.instances.insert(facts.id.clone(), facts);
    }

    /// An instance that was launched here so lately that EC2 may not describe it. One that ends is
    /// none: then a description without it means that it is gone.
    pub fn fresh(&self, id: &str, now: i64) -> Option<InstanceFacts> {
        let at = self.launched.get(id)?;
        let facts = self.instances.get(id)?;
        let lives = ["pending", "running"].contains(&&*facts.state);
        (now - at <= MAX_DESCRIBE_DELAY_SECONDS && lives).then(|| facts.clone())
    }

    /// Whether EC2 has accepted the end of an instance.
    pub fn ends(&self, id: &str) -> bool {
        self.instances.get(id).is_some_and(InstanceFacts::ends)
    }

    /// EC2 calls an instance terminated, which it stays.
    pub fn over(&mut self, id: &str, now: i64) {
        self.over.insert(id.to_owned(), now);
        self.gone(id, now);
    }

    /// Whether EC2 has called an instance terminated: nothing has to be asked.
    pub fn is_over(&self, id: &str) -> bool {
        self.over.contains_key(id)
    }

    /// An instance is gone: its place in a reservation is free again, once.
    pub fn gone(&mut self, id: &str, now: i64) {
        self.launched.remove(id);
        let Some(facts) = self.instances.remove(id) else {
            return;
        };
        if let Some(reservation) = &facts.reservation
            && self.returned.insert(id.to_owned(), now).is_none()
        {
            let left = self.region.free(reservation).saturating_add(1);
            self.region.set_free(reservation, left);
        }
    }

    /// All instances were described: what is missing is gone, unless it is fresh.
    pub fn listed(&mut self, found: Vec<InstanceFacts>, now: i64) -> Vec<InstanceFacts> {
        let ids: HashSet<String> = found.iter().map(|facts| facts.id.clone()).collect();
        let missing: Vec<String> = self
            .instances
            .keys()
            .filter(|id| !ids.contains(*id))
            .cloned()
            .collect();
        let mut all = found;
        all.retain(|facts| !facts.is_gone());
        for facts in &all {
            self.seen(facts.clone());
        }
        for id in missing {
            // EC2 may not answer for a zone that is shifted away from.
            let known = self.instances.get(&id);
            let away = known.filter(|facts| self.is_shifted(&facts.zone)).cloned();
            match away.or_else(|| self.fresh(&id, now)) {
                Some(facts) => all.push(facts),
                None => self.gone(&id, now),
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> ProviderState {
        ProviderState::new(Region::new("us-east-1", Vec::new(), Vec::new().into()))
    }

    fn facts(id: &str, uid: &str) -> InstanceFacts {
        InstanceFacts {
            id: id.into(),
            state: "running".into(),
            reservation: Some("cr-1".into()),
            tags: [(UID_TAG.to_owned(), uid.to_owned())].into(),
            ..InstanceFacts::default()
        }
    }

    fn ids(all: &[InstanceFacts]) -> Vec<&str> {
        all.iter().map(|one| &*one.id).collect()
    }

    #[test]
    fn an_instance_that_ec2_does_not_describe_yet_is_listed_for_a_while() {
        let mut state = state();
        state.launched("uid-1", facts("i-1", "uid-1"), 100);
        assert_eq!(
            ids(&state.listed(Vec::new(), 100 + MAX_DESCRIBE_DELAY_SECONDS)),
            ["i-1"]
        );
        assert!(state.of_claim("uid-1").is_some());
        assert!(
            state
                .listed(Vec::new(), 101 + MAX_DESCRIBE_DELAY_SECONDS)
                .is_empty(),
            "then it is gone"
        );
        assert!(state.of_claim("uid-1").is_none());
    }

    #[test]
    fn an_instance_that_ends_and_is_not_described_is_gone() {
        let mut state = state();
        state.launched("uid-1", facts("i-1", "uid-1"), 100);
        if let Some(own) = state.instances.get_mut("i-1") {
            own.state = "shutting-down".to_owned();
        }
        assert!(state.listed(Vec::new(), 101).is_empty());
    }

    #[test]
    fn an_instance_that_ends_goes_on_ending_whatever_an_old_description_says() {
        let mut state = state();
        let with = |name: &str| InstanceFacts {
            state: name.to_owned(),
            ..facts("i-1", "uid-1")
        };
        state.seen(with("shutting-down"));
        state.listed(vec![with("running")], 0);
        assert!(state.ends("i-1") && !state.is_over("i-1"));
        state.over("i-1", 5);
        assert!(!state.ends("i-1") && state.is_over("i-1"));
        state.expire(5 + LAUNCH_MEMORY_SECONDS);
        assert!(state.is_over("i-1"), "EC2 describes it for an hour");
        state.expire(6 + LAUNCH_MEMORY_SECONDS);
        assert!(!state.is_over("i-1"));
    }

    #[test]
    fn a_place_in_a_reservation_comes_back_once() {
        let mut state = state();
        state.region.set_free("cr-1", 3);
        state.launched("uid-1", facts("i-1", "uid-1"), 0);
        assert_eq!(state.region.free("cr-1"), 2);
        state.gone("i-1", 10);
        // A slow description shows it again.
        state.seen(facts("i-1", "uid-1"));
        state.gone("i-1", 20);
        assert_eq!(state.region.free("cr-1"), 3);
    }

    #[test]
    fn instances_of_another_process_are_found_by_their_tag() {
        let mut state = state();
        let listed = state.listed(vec![facts("i-1", "uid-1")], 0);
        assert_eq!(ids(&listed), ["i-1"]);
        assert_eq!(state.of_claim("uid-1").map(|facts| &*facts.id), Some("i-1"));
    }
}
