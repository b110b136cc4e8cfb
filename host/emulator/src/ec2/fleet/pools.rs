//! The pools of a fleet: where each would launch, and in which order a strategy asks them.

use super::super::launch::{self, Place};
use super::bought::Bought;
use super::request::{Config, Market, Override, Wanted, invalid};
use crate::action::Context;
use crate::wire::Refusal;
use crate::world::account::Reservation;
use crate::world::{CapacityType, World};

/// A pair of template and override, with where it would launch.
pub(super) struct Pool {
    pub config: usize,
    pub at: usize,
    pub place: Place,
    pub price: f64,
    pub depth: u8,
    pub priority: f64,
    pub weight: f64,
}

/// How many instances pools have together.
pub(super) fn room(world: &World, context: &Context, pools: &[Pool]) -> f64 {
    let free = |pool: &Pool| {
        let place = &pool.place;
        let key = (
            place.instance_type.clone(),
            place.zone.clone(),
            place.capacity_type,
        );
        let free = world.pools.free(&key, context.now).1;
        free.map_or(f64::INFINITY, f64::from) * pool.weight
    };
    pools.iter().map(free).sum()
}

/// Pools that can be asked; those that cannot are refused at once.
pub(super) fn pools(
    world: &World,
    context: &Context,
    wanted: &Wanted,
    market: Market,
    bought: &mut Bought,
) -> Vec<Pool> {
    let mut all = Vec::new();
    for (number, config) in wanted.configs.iter().enumerate() {
        let checked = launch::check(world, context, &config.data.root());
        for (at, one) in config.overrides.iter().enumerate() {
            let found = checked
                .clone()
                .and_then(|()| place(world, config, one, market));
            match found {
                Ok(place) => all.push(pool(world, context, (number, at), one, place)),
                Err(refusal) => bought.refuse((number, at), market, refusal),
            }
        }
    }
    all
}

fn pool(
    world: &World,
    context: &Context,
    (config, at): (usize, usize),
    one: &Override,
    place: Place,
) -> Pool {
    let known = world.account.types.get(&place.instance_type);
    let price = known.and_then(|known| match place.capacity_type {
        CapacityType::Spot => known.spot.get(&place.zone).copied(),
        _ => known.on_demand,
    });
    let key = (
        place.instance_type.clone(),
        place.zone.clone(),
        place.capacity_type,
    );
    Pool {
        config,
        at,
        depth: world.pools.depth(&key, context.now),
        price: price.unwrap_or(f64::MAX),
        priority: one.priority.unwrap_or(f64::MAX),
        weight: one.weight.filter(|weight| *weight > 0.0).unwrap_or(1.0),
        place,
    }
}

/// Where a pool launches.
fn place(world: &World, config: &Config, one: &Override, market: Market) -> Result<Place, Refusal> {
    let (account, data) = (&world.account, config.data.root());
    let missing = |name: &str| invalid(format!("Neither template nor override has {name}"));
    let kind = one
        .instance_type
        .as_deref()
        .or_else(|| data.get("InstanceType"));
    let kind = kind.ok_or_else(|| missing("an instance type"))?;
    let known = account.types.get(kind).ok_or_else(|| {
        Refusal::new(
            "InvalidParameterValue",
            format!("Invalid value '{kind}' for InstanceType."),
        )
    })?;
    let image = one.image.as_deref().or_else(|| data.get("ImageId"));
    let image = image.ok_or_else(|| missing("an image"))?;
    launch::image_known(world, image)?;
    launch::runs(world, kind, image)?;
    let (subnet, zone) = subnet(world, one)?;
    if !known.zones.contains(&zone) {
        let message = format!(
            "Your requested instance type ({kind}) is not supported in your requested Availability \
             Zone ({zone})."
        );
        return Err(Refusal::new("Unsupported", message));
    }
    let mut place = Place {
        instance_type: kind.to_owned(),
        zone,
        subnet,
        image: image.to_owned(),
        capacity_type: match market {
            Market::Spot => CapacityType::Spot,
            Market::OnDemand => CapacityType::OnDemand,
            Market::Reserved => CapacityType::Reserved,
        },
        reservation: None,
        market: data
            .get("InstanceMarketOptions.MarketType")
            .filter(|market| *market != "spot")
            .map(str::to_owned),
    };
    if market == Market::Spot {
        spot_possible(world, config, one, &place)?;
    } else {
        reserve(world, config, market, &mut place)?;
    }
    Ok(place)
}

fn subnet(world: &World, one: &Override) -> Result<(String, String), Refusal> {
    let account = &world.account;
    if let Some(id) = &one.subnet {
        let found = account.subnets.get(id).ok_or_else(|| {
            let message = format!("The subnet ID '{id}' does not exist");
            Refusal::new("InvalidSubnetID.NotFound", message)
        })?;
        if one.zone.as_ref().is_some_and(|zone| *zone != found.zone) {
            return Err(invalid(format!("The subnet {id} is in {}", found.zone)));
        }
        return Ok((id.clone(), found.zone.clone()));
    }
    let here = account.subnets.values();
    let here = here.filter(|own| one.zone.as_ref().is_none_or(|zone| *zone == own.zone));
    let widest = here.max_by_key(|own| (own.free_addresses, std::cmp::Reverse(&own.id)));
    let widest = widest.ok_or_else(|| invalid("There is no subnet in the zone"))?;
    Ok((widest.id.clone(), widest.zone.clone()))
}

fn spot_possible(
    world: &World,
    config: &Config,
    one: &Override,
    place: &Place,
) -> Result<(), Refusal> {
    let price = world.account.types.get(&place.instance_type);
    let price = price.and_then(|known| known.spot.get(&place.zone).copied());
    let Some(price) = price else {
        let message = format!(
            "{} is not offered as spot in {}",
            place.instance_type, place.zone
        );
        return Err(Refusal::new("Unsupported", message));
    };
    let of_template: Option<f64> = config
        .data
        .root()
        .parse("InstanceMarketOptions.SpotOptions.MaxPrice")?;
    match one.max_price.or(of_template) {
        Some(most) if most < price => Err(Refusal::new(
            "SpotMaxPriceTooLow",
            format!(
                "Your Spot request price of {most} is lower than the minimum required Spot request \
                 fulfillment price of {price}."
            ),
        )),
        _ => Ok(()),
    }
}

/// Finds the reservation that a template aims at, or an open one.
fn reserve(
    world: &World,
    config: &Config,
    market: Market,
    place: &mut Place,
) -> Result<(), Refusal> {
    let data = config.data.root();
    let specification = data.under("CapacityReservationSpecification");
    let target = specification.get("CapacityReservationTarget.CapacityReservationId");
    let preference = specification.get("CapacityReservationPreference");
    let all = &world.account.reservations;
    if let Some(id) = target {
        let held = all.get(id).ok_or_else(|| {
            let message = format!("The capacity reservation ID '{id}' does not exist");
            Refusal::new("InvalidCapacityReservationId.NotFound", message)
        })?;
        if held.instance_type != place.instance_type || held.zone != place.zone {
            let message = format!(
                "The capacity reservation {id} is for {} in {}",
                held.instance_type, held.zone
            );
            return Err(Refusal::new("InvalidParameterValue", message));
        }
        place.reservation = Some(id.to_owned());
        place.capacity_type = CapacityType::Reserved;
        return Ok(());
    }
    if market == Market::Reserved || preference == Some("capacity-reservations-only") {
        let message = "The launch template does not target a capacity reservation.";
        return Err(invalid(message));
    }
    let open = |one: &&Reservation| {
        one.criteria == "open"
            && one.available > 0
            && one.instance_type == place.instance_type
            && one.zone == place.zone
    };
    if preference != Some("none")
        && let Some(held) = all.values().find(open)
    {
        place.reservation = Some(held.id.clone());
        place.capacity_type = CapacityType::Reserved;
    }
    Ok(())
}

pub(super) fn order(pools: &mut [Pool], strategy: &str) {
    let deepest = pools.iter().map(|pool| pool.depth).max().unwrap_or(0);
    let shallow = |pool: &Pool| pool.depth + 2 < deepest;
    pools.sort_by(|a, b| {
        let price = a.price.total_cmp(&b.price);
        let priority = a.priority.total_cmp(&b.priority);
        let class = shallow(a).cmp(&shallow(b));
        match strategy {
            "prioritized" => priority.then(price),
            "price-capacity-optimized" => class.then(price),
            "capacity-optimized" => b.depth.cmp(&a.depth),
            "capacity-optimized-prioritized" => class.then(priority),
            _ => price,
        }
    });
}
