//! What a NodeClaim may be launched as: the offerings that it admits, filtered and ordered.
//!
//! [`choose`] is a function of the region, the NodeClass's catalogue and the claim. The order of the
//! filters is Karpenter's: reservations first, then types without special devices, then spot
//! offerings that cost no more than on-demand, then the 60 cheapest types. Where the planner's order
//! is not that of prices, the order decides ([`order`]).
//! [`fleet`] makes the request of the choice, and reads its reply.

pub mod fleet;
mod min_values;
pub mod order;

use std::collections::BTreeMap;

use longshore_api::labels::{CAPACITY_TYPE, OVERLAY_AMOUNTS, ZONE, capacity_type};
use longshore_api::quantity::Quantity;
use longshore_cloud::{CloudError, Launch};
use longshore_core::model::MinValuesPolicy;
use longshore_ec2::catalogue::machine::RESOURCES;
use longshore_ec2::catalogue::requirements::aws;
use longshore_ec2::catalogue::{ClassCatalogue, Incompatible, Offering, Region};
use longshore_ec2::launch::{CapacityType, LaunchFault, Tenancy};

use order::Order;

/// Types that a fleet chooses from.
const MOST_TYPES: usize = 60;
/// The label of tenancy.
pub const TENANCY: &str = "karpenter.k8s.aws/instance-tenancy";
/// Resources of devices that nodes without a need for them should not have.
const EXOTIC: [&str; 5] = [
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "amd.com/gpu",
    "habana.ai/gaudi",
    "nvidia.com/gpu",
];
const EFA: &str = "vpc.amazonaws.com/efa";
/// Annotation of claims whose pods use drivers of devices.
const DRIVERS: &str = "karpenter.sh/requested-dra-drivers";

/// An offering of the choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// Index of the type in [`Region::types`].
    pub at: usize,
    /// Index of the zone in [`Region::zones`].
    pub zone: usize,
    /// USD per hour.
    pub price: f64,
    /// The reservation, for `reserved`.
    pub reservation: Option<ChosenReservation>,
}

/// The reservation of an offering.
#[derive(Clone, Debug, PartialEq)]
pub struct ChosenReservation {
    /// Its ID.
    pub id: Box<str>,
    /// `default` or `capacity-block`.
    pub kind: Box<str>,
    /// Whether its owner may take it back.
    pub interruptible: bool,
    /// Instances that are left in it.
    pub free: u32,
}

/// What a claim may be launched as.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// How capacity is bought.
    pub capacity_type: CapacityType,
    /// Whose hardware it is.
    pub tenancy: Tenancy,
    /// Whether the pods use EFA.
    pub efa: bool,
    /// The partition of the placement group, if the claim asks for one.
    pub partition: Option<i32>,
    /// Offerings, all of `capacity_type`; those of the best types first: best by the planner's order
    /// if there is one, else by price.
    pub offerings: Vec<Chosen>,
}

/// Chooses. `policy` says whether a choice may have fewer values of a label than the claim's
/// `minValues`.
///
/// # Errors
/// Insufficient capacity; or a request that is no quantity.
pub fn choose(
    region: &Region,
    catalogue: &ClassCatalogue,
    launch: &Launch,
    policy: MinValuesPolicy,
) -> Result<Choice, CloudError> {
    let wanted = Wanted::new(launch)?;
    let mut seen = Seen::default();
    for at in 0..region.types().len() {
        wanted.visit(region, catalogue, at, &mut seen);
    }
    if seen.admitted.is_empty() {
        return Err(seen.shortage(launch));
    }
    let order = Order::of(launch);
    let order = order.as_ref();
    let mut all = seen.admitted;
    let reserved = all.iter().any(|one| one.capacity_type == "reserved");
    if reserved {
        all.retain(|one| one.capacity_type == "reserved");
        one_kind_of_reservation(&mut all);
    }
    // Both filters could leave out what `minValues` count on.
    if launch.min_values.is_empty() {
        let best = order.and_then(|order| best(order, region, &all));
        without_exotic(region, catalogue, best, &mut all);
        without_dear_spot(best, &mut all);
    }
    let has = |kind: &CapacityType| all.iter().any(|one| one.capacity_type == kind.as_str());
    let first = order.map(Order::capacity_type).filter(has);
    let capacity_type = match first {
        _ if reserved => CapacityType::Reserved,
        Some(first) => first,
        None if has(&CapacityType::Spot) => CapacityType::Spot,
        None => CapacityType::OnDemand,
    };
    all.retain(|one| one.capacity_type == capacity_type.as_str());
    let partition = launch
        .requirements_on(aws::GROUP_PARTITION)
        .next()
        .is_some();
    let partition = partition.then(|| all.iter().map(|one| one.partition).min());
    let offerings = first_types(region, order, all);
    if policy == MinValuesPolicy::Strict {
        min_values::check(region, catalogue, launch, &offerings)?;
    }
    Ok(Choice {
        capacity_type,
        tenancy: wanted.tenancy(),
        efa: wanted.efa(),
        partition: partition
            .flatten()
            .filter(|number| *number > 0)
            .and_then(|number| i32::try_from(number).ok()),
        offerings,
    })
}

/// Types that a launch should be able to choose from where it falls back on on-demand.
const ENOUGH_TYPES: usize = 5;

/// How many types are left where on-demand is bought for a claim that spot was good enough for. Nothing
/// if they are enough for on-demand not to run out as well.
pub fn few_types(launch: &Launch, choice: &Choice) -> Option<usize> {
    let may_be_spot = launch.admits(CAPACITY_TYPE, Some(capacity_type::SPOT));
    let mut types: Vec<usize> = choice.offerings.iter().map(|one| one.at).collect();
    types.dedup();
    let falls_back = choice.capacity_type == CapacityType::OnDemand && may_be_spot;
    Some(types.len()).filter(|count| falls_back && *count < ENOUGH_TYPES)
}

/// An offering that the claim admits.
#[derive(Clone, Debug)]
struct Admitted {
    chosen: Chosen,
    capacity_type: &'static str,
    partition: i64,
}

#[derive(Default)]
struct Seen {
    admitted: Vec<Admitted>,
    short: usize,
    too_small: usize,
    refused: usize,
    without_image: usize,
}

impl Seen {
    /// The region remembers what is short and until when, so no offering is named: whoever hears of
    /// one leaves it out anew.
    fn shortage(self, launch: &Launch) -> CloudError {
        if self.without_image > 0 && self.short == 0 {
            return invalid(launch, &LaunchFault::NoImage);
        }
        let message = format!(
            "no offering for NodeClaim {}: {} without capacity, {} instance types refused by its \
             requirements, {} too small",
            launch.name, self.short, self.refused, self.too_small
        );
        CloudError::InsufficientCapacity(message.into())
    }
}

/// The error of a claim whose NodeClass no launch template can be made for.
pub fn invalid(launch: &Launch, fault: &LaunchFault) -> CloudError {
    CloudError::Invalid(format!("EC2NodeClass {}: {fault}", launch.class_name))
}

/// What NodeOverlays add to whatever type the claim becomes, by resource.
fn added(launch: &Launch) -> BTreeMap<String, String> {
    let text = launch.annotations.get(OVERLAY_AMOUNTS);
    let read = text.and_then(|text| serde_json::from_str(text).ok());
    read.unwrap_or_default()
}

/// A claim as types are compared with it.
struct Wanted<'a> {
    launch: &'a Launch,
    /// Row of [`RESOURCES`], or nothing for a resource that no type has, and the amount: thousandths
    /// of a CPU, units of all else.
    requests: Vec<(Option<usize>, i64)>,
}

impl<'a> Wanted<'a> {
    fn new(launch: &'a Launch) -> Result<Self, CloudError> {
        let added = added(launch);
        let amount = |(resource, text): (&String, &String)| {
            let parsed = Quantity::parse(text).and_then(|quantity| match &**resource {
                "cpu" => quantity.milli(),
                _ => quantity.whole(),
            });
            let row = RESOURCES.iter().position(|name| name == resource);
            parsed.map(|amount| (row, amount)).map_err(|error| {
                CloudError::Invalid(format!(
                    "NodeClaim {}: spec.resources.requests.{resource}: quantity {text:?} {error}",
                    launch.name
                ))
            })
        };
        let added = |(resource, text): &(&String, &String)| {
            let amount = |text: &str| Quantity::parse(text).and_then(|amount| amount.whole()).ok();
            let has = added.get(*resource).and_then(|text| amount(text));
            amount(text).is_some_and(|wants| has.is_some_and(|has| has >= wants))
        };
        let requests = launch
            .requests
            .iter()
            .filter(|one| !added(one))
            .map(amount)
            .collect::<Result<_, _>>()?;
        Ok(Wanted { launch, requests })
    }

    fn tenancy(&self) -> Tenancy {
        match self.launch.admits(TENANCY, Some("default")) {
            true => Tenancy::Default,
            false => Tenancy::Dedicated,
        }
    }

    fn efa(&self) -> bool {
        let row = RESOURCES.iter().position(|name| *name == EFA);
        let asked = |(of, amount): &(Option<usize>, i64)| *of == row && *amount > 0;
        let drivers = self.launch.annotations.get(DRIVERS);
        self.requests.iter().any(asked)
            || drivers.is_some_and(|all| all.split(',').any(|one| one.trim() == "dra.net"))
    }

    /// Adds what a type offers.
    fn visit(&self, region: &Region, catalogue: &ClassCatalogue, at: usize, seen: &mut Seen) {
        // The other questions are asked of types that their name admits: of a thousand, say, ten.
        let name = &region.types()[at].name;
        if !self
            .launch
            .admits(longshore_api::labels::INSTANCE_TYPE, Some(name))
        {
            seen.refused += 1;
            return;
        }
        if !self.fits(catalogue, at) {
            seen.too_small += 1;
            return;
        }
        let mut admitted = true;
        catalogue.labels(region, at, &mut |key, values| {
            admitted &= match values {
                [] => self.launch.admits(key, None),
                _ => values
                    .iter()
                    .any(|value| self.launch.admits(key, Some(value))),
            };
        });
        if !admitted {
            seen.refused += 1;
            return;
        }
        if catalogue.incompatible(at) == Some(Incompatible::Image) {
            seen.without_image += 1;
            return;
        }
        catalogue.offerings(region, at, &mut |offering| {
            if self.admits_offering(region, catalogue, &offering) {
                Self::offering(at, &offering, seen);
            }
        });
    }

    fn fits(&self, catalogue: &ClassCatalogue, at: usize) -> bool {
        let left = catalogue.machine(at).allocatable();
        self.requests.iter().all(|&(row, amount)| {
            let has = row.and_then(|row| Some((row, left[row]?)));
            let has = has.map_or(0, |(row, has)| match row {
                0 => has.milli,
                _ => has.units(),
            });
            has >= amount
        })
    }

    fn admits_offering(
        &self,
        region: &Region,
        catalogue: &ClassCatalogue,
        offering: &Offering<'_>,
    ) -> bool {
        let zone = &region.zones()[offering.zone];
        let ids = catalogue.class().subnets.iter();
        let id = ids
            .clone()
            .find(|one| one.zone == zone.name && !one.id.is_empty());
        let id = id.map_or(&*zone.id, |one| &*one.id);
        let reservation = offering.reservation.map(|(reservation, _)| reservation);
        let flag = |value: bool| if value { "true" } else { "false" };
        let partition = offering.partition.to_string();
        let partition = Some(&*partition).filter(|_| offering.partition > 0);
        self.launch
            .admits(CAPACITY_TYPE, Some(offering.capacity_type))
            && self.launch.admits(ZONE, Some(&zone.name))
            && (id.is_empty() || self.launch.admits(aws::ZONE_ID, Some(id)))
            && self
                .launch
                .admits(aws::RESERVATION_ID, reservation.map(|one| &*one.id))
            && self
                .launch
                .admits(aws::RESERVATION_TYPE, reservation.map(|one| &*one.kind))
            && self.launch.admits(
                aws::RESERVATION_INTERRUPTIBLE,
                reservation.map(|one| flag(one.interruptible)),
            )
            && (partition.is_none() || self.launch.admits(aws::GROUP_PARTITION, partition))
    }

    fn offering(at: usize, offering: &Offering<'_>, seen: &mut Seen) {
        // A reservation that is full is available and cannot be launched into.
        let full = offering.reservation.is_some_and(|(_, free)| free == 0);
        let (true, false, Some(price)) = (offering.available, full, offering.price) else {
            seen.short += 1;
            return;
        };
        let reservation = offering.reservation.map(|(one, free)| ChosenReservation {
            id: one.id.clone(),
            kind: one.kind.clone(),
            interruptible: one.interruptible,
            free,
        });
        seen.admitted.push(Admitted {
            chosen: Chosen {
                at,
                zone: offering.zone,
                price,
                reservation,
            },
            capacity_type: offering.capacity_type,
            partition: offering.partition,
        });
    }
}

/// A fleet is of one market: ordinary reservations, capacity blocks or interruptible reservations.
/// The cheapest wins, in that order among equals. Of a block one offering is taken, because the
/// market takes no more; of several reservations of a type in a zone the one with the most left.
fn one_kind_of_reservation(all: &mut Vec<Admitted>) {
    let kind = |one: &Admitted| match &one.chosen.reservation {
        Some(held) if &*held.kind == "capacity-block" => 1,
        Some(held) if held.interruptible => 2,
        _ => 0,
    };
    let by_price = |a: &Admitted, b: &Admitted| a.chosen.price.total_cmp(&b.chosen.price);
    let best = all
        .iter()
        .min_by(|a, b| by_price(a, b).then(kind(a).cmp(&kind(b))));
    let Some(best) = best.map(kind) else { return };
    all.retain(|one| kind(one) == best);
    if best == 1 {
        all.sort_by(by_price);
        all.truncate(1);
        return;
    }
    let free = |one: &Admitted| one.chosen.reservation.as_ref().map_or(0, |held| held.free);
    all.sort_by_key(|one| (one.chosen.at, one.chosen.zone, std::cmp::Reverse(free(one))));
    all.dedup_by_key(|one| (one.chosen.at, one.chosen.zone));
}

/// Index of the type that the planner would have first, of those that are there.
fn best(order: &Order<'_>, region: &Region, all: &[Admitted]) -> Option<usize> {
    let of_kind = |one: &&Admitted| one.capacity_type == order.capacity_type().as_str();
    let place = |one: &&Admitted| order.place(&region.types()[one.chosen.at].name);
    let best = all.iter().filter(of_kind).min_by_key(place);
    best.map(|one| one.chosen.at)
}

/// Leaves out types with devices and whole machines unless there are no others. The planner's first
/// choice stays.
fn without_exotic(
    region: &Region,
    catalogue: &ClassCatalogue,
    best: Option<usize>,
    all: &mut Vec<Admitted>,
) {
    let exotic = |one: &Admitted| {
        let metal = region.types()[one.chosen.at].bare_metal;
        let capacity = &catalogue.machine(one.chosen.at).capacity;
        let amounts = RESOURCES.iter().zip(capacity);
        metal
            || amounts
                .filter(|(name, _)| EXOTIC.contains(name))
                .any(|(_, amount)| amount.is_some_and(|amount| amount.units() > 0))
    };
    if all.iter().any(|one| !exotic(one)) {
        all.retain(|one| Some(one.chosen.at) == best || !exotic(one));
    }
}

/// Leaves out spot offerings that cost more than the cheapest on-demand offering. Those of the
/// planner's first choice stay.
fn without_dear_spot(best: Option<usize>, all: &mut Vec<Admitted>) {
    let on_demand = all
        .iter()
        .filter(|one| one.capacity_type == capacity_type::ON_DEMAND);
    let Some(most) = on_demand.map(|one| one.chosen.price).min_by(f64::total_cmp) else {
        return;
    };
    all.retain(|one| {
        Some(one.chosen.at) == best
            || one.capacity_type != capacity_type::SPOT
            || one.chosen.price <= most
    });
}

/// The offerings of the first 60 types, by the order if there is one and then by price. Partitions of
/// a type in a zone count as one.
fn first_types(region: &Region, order: Option<&Order<'_>>, all: Vec<Admitted>) -> Vec<Chosen> {
    let mut by_type: BTreeMap<usize, Vec<Chosen>> = BTreeMap::new();
    for Admitted { chosen, .. } in all {
        let of_type = by_type.entry(chosen.at).or_default();
        let same = |one: &Chosen| one.zone == chosen.zone && one.reservation == chosen.reservation;
        if !of_type.iter().any(same) {
            of_type.push(chosen);
        }
    }
    let least = |of_type: &[Chosen]| {
        let prices = of_type.iter().map(|one| one.price);
        prices.min_by(f64::total_cmp).unwrap_or(f64::MAX)
    };
    let place = |at: usize| order.map(|order| order.place(&region.types()[at].name));
    let mut types: Vec<(usize, Vec<Chosen>)> = by_type.into_iter().collect();
    types.sort_by(|(at, a), (bt, b)| {
        let by_place = place(*at).cmp(&place(*bt));
        by_place.then(least(a).total_cmp(&least(b)))
    });
    types.truncate(MOST_TYPES);
    types.into_iter().flat_map(|(_, of_type)| of_type).collect()
}

#[cfg(test)]
mod tests;
