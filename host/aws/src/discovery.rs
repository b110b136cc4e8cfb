//! What is asked of EC2, SSM and EKS, and how the answers become host/ec2's facts.
//!
//! Queries and what becomes of the answers are functions; [`Finder`] sends the queries, and keeps the
//! values of parameters.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use longshore_api::manifests::Diagnostics;
use longshore_ec2::catalogue::{Group, Region, Zone};
use longshore_ec2::facts::{self, TypeFacts};
use longshore_ec2::images::{Context, Image, Selected, discover, parameters};
use longshore_ec2::nodeclass::{
    AmiSelectorTerm, CapacityReservationSelectorTerm, EC2NodeClassSpec, MatchCriteria,
    PlacementGroupSelector, SecurityGroupSelectorTerm, SubnetSelectorTerm,
};
use serde_json::Value;

use crate::clients::Clients;
use crate::error::ApiError;
use crate::lock::lock;
use crate::nodeclass::ImageFault;
use crate::prices::OnDemand;
use crate::records::{
    Filters, GroupFacts, ImageQuery, PlacementFacts, ReservationFacts, SpotPrice, SubnetFacts,
};
use crate::wire;

/// Values that one filter takes.
const MAX_VALUES: usize = 200;

/// Filters for tags: `*` asks for the key alone.
fn tag_filters(tags: &BTreeMap<String, String>) -> Filters {
    let filter = |(key, value): (&String, &String)| match &**value {
        "*" => ("tag-key".to_owned(), vec![key.clone()]),
        value => (format!("tag:{key}"), vec![value.to_owned()]),
    };
    tags.iter().map(filter).collect()
}

/// One query for each of at most 200 values.
fn by_value(name: &str, values: BTreeSet<String>) -> Vec<Filters> {
    let values: Vec<String> = values.into_iter().collect();
    let query = |chunk: &[String]| vec![(name.to_owned(), chunk.to_vec())];
    values.chunks(MAX_VALUES).map(query).collect()
}

/// The queries for subnets: IDs in one, tags of each term in one of their own.
pub fn subnet_queries(terms: &[SubnetSelectorTerm]) -> Vec<Filters> {
    let ids = terms.iter().filter_map(|term| term.id.clone()).collect();
    let mut all = by_value("subnet-id", ids);
    let with_tags = terms.iter().filter(|term| term.id.is_none());
    all.extend(
        with_tags
            .filter_map(|term| term.tags.as_ref())
            .map(tag_filters),
    );
    all
}

/// The queries for security groups: IDs in one, names in one, tags of each term in one.
pub fn group_queries(terms: &[SecurityGroupSelectorTerm]) -> Vec<Filters> {
    let ids = terms.iter().filter_map(|term| term.id.clone()).collect();
    let mut all = by_value("group-id", ids);
    let others = terms.iter().filter(|term| term.id.is_none());
    let plain = |term: &&SecurityGroupSelectorTerm| term.tags.is_none();
    let names = others
        .clone()
        .filter(plain)
        .filter_map(|term| term.name.clone());
    all.extend(by_value("group-name", names.collect()));
    for term in others.filter(|term| term.tags.is_some()) {
        let mut filters = term.tags.as_ref().map(tag_filters).unwrap_or_default();
        if let Some(name) = &term.name {
            filters.push(("group-name".to_owned(), vec![name.clone()]));
        }
        all.push(filters);
    }
    all
}

/// The queries for reservations without an ID, and the IDs.
pub fn reservation_queries(
    terms: &[CapacityReservationSelectorTerm],
) -> (Vec<Filters>, BTreeSet<String>) {
    let ids = terms.iter().filter_map(|term| term.id.clone()).collect();
    let query = |term: &CapacityReservationSelectorTerm| {
        let mut filters = term.tags.as_ref().map(tag_filters).unwrap_or_default();
        if let Some(owner) = &term.owner_id {
            filters.push(("owner-id".to_owned(), vec![owner.clone()]));
        }
        if let Some(criteria) = term.instance_match_criteria {
            let word = match criteria {
                MatchCriteria::Open => "open",
                MatchCriteria::Targeted => "targeted",
            };
            filters.push(("instance-match-criteria".to_owned(), vec![word.to_owned()]));
        }
        filters.push(("state".to_owned(), vec!["active".to_owned()]));
        filters
    };
    (
        terms
            .iter()
            .filter(|term| term.id.is_none())
            .map(query)
            .collect(),
        ids,
    )
}

/// The queries for images: `ids` are those of terms and parameters.
pub fn image_queries(terms: &[AmiSelectorTerm], ids: BTreeSet<String>) -> Vec<ImageQuery> {
    let state = || ("state".to_owned(), vec!["available".to_owned()]);
    let with_state = |mut filters: Filters, owners: Vec<String>| {
        filters.push(state());
        ImageQuery { owners, filters }
    };
    let mut all: Vec<ImageQuery> = by_value("image-id", ids)
        .into_iter()
        .map(|filters| with_state(filters, Vec::new()))
        .collect();
    let others = terms
        .iter()
        .filter(|term| term.id.is_none() && term.ssm_parameter.is_none() && term.alias.is_none());
    for term in others {
        let mut filters = term.tags.as_ref().map(tag_filters).unwrap_or_default();
        if let Some(name) = &term.name {
            filters.push(("name".to_owned(), vec![name.clone()]));
        }
        let owners = match (&term.owner, &term.name) {
            (Some(owner), _) => vec![owner.clone()],
            // A name alone would find what anybody has published under it.
            (None, Some(_)) => vec!["self".to_owned(), "amazon".to_owned()],
            (None, None) => Vec::new(),
        };
        all.push(with_state(filters, owners));
    }
    all
}

/// A region from what EC2 answered. Zones are those that offer a type; their IDs are those that
/// `zone_ids` knows, for subnets alone name them.
pub fn region(
    name: &str,
    types: &[Value],
    offered: &[(String, String)],
    zone_ids: &BTreeMap<String, String>,
) -> (Region, Diagnostics) {
    let text = Value::Array(types.to_vec()).to_string();
    let (facts, problems) = facts::read("DescribeInstanceTypes", text.as_bytes());
    (assemble(name, facts, offered, zone_ids), problems)
}

fn assemble(
    name: &str,
    facts: Arc<[TypeFacts]>,
    offered: &[(String, String)],
    zone_ids: &BTreeMap<String, String>,
) -> Region {
    let zones: BTreeSet<&str> = offered.iter().map(|(_, zone)| &**zone).collect();
    let zone = |name: &str| Zone {
        name: name.into(),
        id: zone_ids.get(name).map_or("", String::as_str).into(),
    };
    let names: Vec<Box<str>> = facts.iter().map(|one| one.name.clone()).collect();
    let mut region = Region::new(name, zones.into_iter().map(zone).collect(), facts);
    let mut by_type: HashMap<&str, Vec<&str>> = HashMap::new();
    for (kind, zone) in offered {
        by_type.entry(kind).or_default().push(zone);
    }
    for name in &names {
        let zones = by_type.get(&**name).map_or(&[][..], Vec::as_slice);
        region.offer(name, zones.iter().copied());
    }
    region
}

/// Hands what is remembered of a region on to its successor: what has no capacity, zones that are
/// shifted away from, memory that was seen, settings, groups, and what is left in reservations.
pub fn inherit(
    new: &mut Region,
    old: &Region,
    reservations: impl Iterator<Item = impl AsRef<str>>,
) {
    new.settings = old.settings;
    new.groups = old.groups.clone();
    new.change_unavailable(|all| *all = old.unavailable().clone());
    new.set_shifted(old.shifted().iter().map(|id| &**id));
    new.change_discovered(|all| *all = old.discovered().clone());
    for id in reservations {
        new.set_free(id.as_ref(), old.free(id.as_ref()));
    }
}

/// The newest price of each type and zone, of those of an answer and of answers before it. One that a
/// short answer leaves out stays: without a price an offering is gone, and its nodes drift.
pub fn newest_prices<'a>(prices: impl Iterator<Item = &'a SpotPrice>) -> Vec<SpotPrice> {
    newest(prices).into_values().cloned().collect()
}

fn newest<'a>(
    prices: impl Iterator<Item = &'a SpotPrice>,
) -> BTreeMap<(&'a str, &'a str), &'a SpotPrice> {
    let mut newest: BTreeMap<(&str, &str), &SpotPrice> = BTreeMap::new();
    for price in prices {
        let key = (&*price.instance_type, &*price.zone);
        let entry = newest.entry(key).or_insert(price);
        if price.at > entry.at {
            *entry = price;
        }
    }
    newest
}

/// Takes over spot prices: the newest of each type and zone. None change nothing, because an empty
/// answer is no answer.
pub fn set_spot_prices(region: &mut Region, prices: &[SpotPrice]) {
    let newest = newest(prices.iter());
    if !newest.is_empty() {
        region.replace_spot(|kind, zone| newest.get(&(kind, zone)).map(|price| price.price));
    }
}

/// Takes over on-demand prices. A type without one keeps the price that it had.
pub fn set_on_demand_prices(region: &mut Region, prices: &OnDemand) {
    for (name, price) in prices {
        region.set_on_demand(name, Some(*price));
    }
}

/// Adds or replaces a placement group.
pub fn set_group(region: &mut Region, facts: &PlacementFacts) {
    let group = Group {
        id: (*facts.id).into(),
        name: (*facts.name).into(),
        strategy: (*facts.strategy).into(),
        partitions: facts.partitions,
    };
    if region.groups.contains(&group) {
        return;
    }
    let others = region
        .groups
        .iter()
        .filter(|own| own.id != group.id)
        .cloned();
    let groups: Vec<Group> = others.chain([group.clone()]).collect();
    region.groups = groups.into();
}

/// A parameter of Amazon's holds for a day; one of the user's own for five minutes.
fn lifetime(parameter: &str) -> Duration {
    match parameter.starts_with("/aws/service/") {
        true => Duration::from_secs(24 * 3600),
        false => Duration::from_secs(300),
    }
}

/// The value of a parameter, and until when it holds.
type Parameter = (Option<String>, SystemTime);

/// Sends the queries.
#[derive(Debug)]
pub struct Finder {
    clients: Arc<Clients>,
    parameters: Mutex<HashMap<String, Parameter>>,
}

impl Finder {
    /// A finder that knows no parameter yet.
    pub fn new(clients: Arc<Clients>) -> Self {
        Finder {
            clients,
            parameters: Mutex::default(),
        }
    }

    /// Subnets that terms select, each once.
    ///
    /// # Errors
    /// A call failed.
    pub async fn subnets(
        &self,
        terms: &[SubnetSelectorTerm],
    ) -> Result<Vec<SubnetFacts>, ApiError> {
        let mut all: BTreeMap<String, SubnetFacts> = BTreeMap::new();
        for query in subnet_queries(terms) {
            let found = wire::network::subnets(&self.clients, &query).await?;
            all.extend(found.into_iter().map(|one| (one.id.clone(), one)));
        }
        Ok(all.into_values().collect())
    }

    /// Security groups that terms select, each once.
    ///
    /// # Errors
    /// A call failed.
    pub async fn groups(
        &self,
        terms: &[SecurityGroupSelectorTerm],
    ) -> Result<Vec<GroupFacts>, ApiError> {
        let mut all: BTreeMap<String, GroupFacts> = BTreeMap::new();
        for query in group_queries(terms) {
            let found = wire::network::groups(&self.clients, &query).await?;
            all.extend(found.into_iter().map(|one| (one.id.clone(), one)));
        }
        Ok(all.into_values().collect())
    }

    /// Active reservations that terms select, each once.
    ///
    /// # Errors
    /// A call failed.
    pub async fn reservations(
        &self,
        terms: &[CapacityReservationSelectorTerm],
    ) -> Result<Vec<ReservationFacts>, ApiError> {
        let mut all: BTreeMap<String, ReservationFacts> = BTreeMap::new();
        let (queries, ids) = reservation_queries(terms);
        for query in queries {
            let found = wire::network::reservations(&self.clients, &query).await?;
            all.extend(found.into_iter().map(|one| (one.id.clone(), one)));
        }
        for id in ids {
            let found = wire::network::reservation_by_id(&self.clients, &id).await?;
            all.extend(found.map(|one| (id, one)));
        }
        Ok(all.into_values().collect())
    }

    /// The placement group that is selected.
    ///
    /// # Errors
    /// The call failed.
    pub async fn placement(
        &self,
        selector: &PlacementGroupSelector,
    ) -> Result<Option<PlacementFacts>, ApiError> {
        let (id, name) = (selector.id.as_deref(), selector.name.as_deref());
        wire::network::placement_group(&self.clients, id, name).await
    }

    /// The images of a class in a cluster of a version of Kubernetes. `account` is the account's own
    /// number, which `self` stands for; `now` is in seconds since 1970.
    ///
    /// # Errors
    /// The alias has no images for the version, a parameter holds something else, or a call failed.
    pub async fn images(
        &self,
        spec: &EC2NodeClassSpec,
        kubernetes: &str,
        account: &str,
        now: SystemTime,
    ) -> Result<Selected, ImageFault> {
        let terms = &spec.ami_selector_terms;
        let of_alias = match spec.alias() {
            Some(alias) => parameters(&alias, kubernetes)?,
            None => Vec::new(),
        };
        let names = of_alias.iter().map(|one| &*one.name);
        let names = names.chain(
            terms
                .iter()
                .filter_map(|term| term.ssm_parameter.as_deref()),
        );
        let names: Vec<String> = names.map(str::to_owned).collect();
        let mut values = BTreeMap::new();
        for name in names {
            if let Some(value) = self.parameter(&name, now).await? {
                values.insert(name, value);
            }
        }
        let mut ids: BTreeSet<String> = terms.iter().filter_map(|term| term.id.clone()).collect();
        ids.extend(
            values
                .values()
                .filter(|value| value.starts_with("ami-"))
                .cloned(),
        );
        let mut found: BTreeMap<String, Image> = BTreeMap::new();
        for query in image_queries(terms, ids) {
            let images = wire::network::images(&self.clients, &query).await?;
            found.extend(images.into_iter().map(|one| (one.id.clone(), one)));
        }
        let found: Vec<Image> = found.into_values().collect();
        let context = Context {
            account,
            now: &timestamp(now),
            alias: &of_alias,
            values,
        };
        let selected = discover(terms, &found, &context)?;
        self.drop_deprecated(&context.values, &selected);
        Ok(selected)
    }

    async fn parameter(&self, name: &str, now: SystemTime) -> Result<Option<String>, ApiError> {
        if let Some((value, until)) = self.known().get(name)
            && *until > now
        {
            return Ok(value.clone());
        }
        let value = wire::network::parameter(&self.clients, name).await?;
        // What does not exist may be made soon.
        let lifetime = match value {
            Some(_) => lifetime(name),
            None => Duration::from_secs(300),
        };
        self.known()
            .insert(name.to_owned(), (value.clone(), now + lifetime));
        Ok(value)
    }

    /// A parameter that moves on and still names an image that is deprecated is asked for again.
    fn drop_deprecated(&self, values: &BTreeMap<String, String>, selected: &Selected) {
        let deprecated = selected.amis.iter().filter(|ami| ami.deprecated);
        let ids: BTreeSet<&str> = deprecated.map(|ami| &*ami.id).collect();
        let mut known = self.known();
        for (name, _) in values.iter().filter(|(_, id)| ids.contains(&***id)) {
            known.remove(name);
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Parameter>> {
        lock(&self.parameters)
    }
}

/// A time as EC2 writes it.
pub fn timestamp(now: SystemTime) -> String {
    let since = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%S.000Z").to_string()
}

/// The account's number in an ARN; empty if there is none.
pub fn account_of(arn: &str) -> &str {
    arn.split(':').nth(4).unwrap_or_default()
}

#[cfg(test)]
mod tests;
