//! CreateFleet of type `instant`.
//!
//! Each pair of template and override is a pool. A strategy orders the pools; each gives what it
//! has until the target is met. A pool that was asked and did not give enough is in `errorSet`, so
//! a reply can have instances and errors. A deep pool is at most 2 less deep than the deepest.
//!
//! | strategy | order of pools |
//! |---|---|
//! | `lowest-price` | price |
//! | `prioritized` | priority, then price |
//! | `price-capacity-optimized` | deep ones by price, then the others |
//! | `capacity-optimized` | depth |
//! | `capacity-optimized-prioritized` | deep ones by priority, then the others |
//! | `diversified` | price, one instance of each in turn |

mod bought;
mod pools;
pub(super) mod request;

use super::launch::{self, Place, Purchase};
use crate::action::{Context, Found};
use crate::wire::{Refusal, Scope};
use crate::world::account::PlacementGroup;
use crate::world::{CapacityType, World};
use bought::{Bought, shown};
use pools::{Pool, order, pools, room};
use request::{Market, Wanted};

/// Buys.
pub(super) fn create(world: &mut World, context: &Context, wanted: Wanted) -> Found {
    if let Some(error) = &world.account.fleet_error {
        return Err(Refusal::new(&*error.code, &*error.message));
    }
    let mut bought = Bought::default();
    let purchase = Purchase {
        tags: &wanted.tags,
        token: &wanted.token,
        launch: world.id("r"),
    };
    for (market, count) in &wanted.targets {
        let mut pools = pools(world, context, &wanted, *market, &mut bought);
        let strategy = match market {
            Market::Spot => &wanted.spot_strategy,
            Market::OnDemand | Market::Reserved => &wanted.on_demand_strategy,
        };
        order(&mut pools, strategy);
        let each = if strategy == "diversified" {
            1
        } else {
            u32::MAX
        };
        let mut left = f64::from(*count);
        let minimum = f64::from(wanted.least.min(*count));
        if minimum > 0.0 && room(world, context, &pools) < minimum {
            for pool in &pools {
                bought.refuse((pool.config, pool.at), *market, no_capacity(&pool.place));
            }
            continue;
        }
        while left > 0.0 && !pools.is_empty() {
            pools.retain(|pool| {
                let mut taken = 0;
                while left > 0.0 && taken < each {
                    match buy(world, context, &wanted, pool, *market, &purchase) {
                        Ok((place, id)) => {
                            bought.add((pool.config, pool.at, *market), &place, id);
                            left -= pool.weight;
                            taken += 1;
                        }
                        Err(refusal) => {
                            bought.refuse((pool.config, pool.at), *market, refusal);
                            return false;
                        }
                    }
                }
                true
            });
        }
    }
    let fleet = format!("fleet-{}", world.chance.uuid());
    Ok(shown(world, &wanted, &bought, fleet))
}

/// Buys one instance of a pool.
fn buy(
    world: &mut World,
    context: &Context,
    wanted: &Wanted,
    pool: &Pool,
    market: Market,
    purchase: &Purchase,
) -> Result<(Place, String), Refusal> {
    let mut place = pool.place.clone();
    refused(world, &place)?;
    let held = place
        .reservation
        .as_ref()
        .and_then(|id| world.account.reservations.get(id));
    if held.is_some_and(|held| held.available == 0) {
        let open = held.is_some_and(|held| held.criteria == "open") && market == Market::OnDemand;
        if !open {
            let message = "The requested reservation does not have sufficient compatible and \
                           available capacity for this request.";
            return Err(Refusal::new("ReservationCapacityExceeded", message));
        }
        // An open reservation that is used up leaves what is sold on demand.
        place.reservation = None;
        place.capacity_type = CapacityType::OnDemand;
    }
    if place.capacity_type != CapacityType::Reserved {
        let key = (
            place.instance_type.clone(),
            place.zone.clone(),
            place.capacity_type,
        );
        if world.pools.free(&key, context.now).1 == Some(0) {
            return Err(no_capacity(&place));
        }
        quota(world, &place)?;
    }
    let data = &wanted.configs[pool.config].data;
    spread(world, &data.root(), &place)?;
    let id = launch::launch(world, context, data, &place, purchase)?;
    Ok((place, id))
}

fn refused(world: &World, place: &Place) -> Result<(), Refusal> {
    let fits = |wanted: &Option<String>, own: &str| wanted.as_deref().is_none_or(|w| w == own);
    let mut all = world.account.refuse.iter();
    let found = all
        .find(|one| fits(&one.instance_type, &place.instance_type) && fits(&one.zone, &place.zone));
    match found {
        Some(one) => Err(Refusal::new(&*one.code, &*one.message)),
        None => Ok(()),
    }
}

fn no_capacity(place: &Place) -> Refusal {
    let message = match place.capacity_type {
        CapacityType::Spot => {
            "There is no Spot capacity available that matches your request.".to_owned()
        }
        _ => format!(
            "We currently do not have sufficient {} capacity in the Availability Zone you \
             requested ({}).",
            place.instance_type, place.zone
        ),
    };
    Refusal::new("InsufficientInstanceCapacity", message)
}

fn quota(world: &World, place: &Place) -> Result<(), Refusal> {
    let settings = &world.account.settings;
    let vcpus = world
        .account
        .types
        .get(&place.instance_type)
        .map_or(0, |one| one.vcpus);
    let used = world.pools.vcpus(place.capacity_type) + vcpus;
    let over = |most: Option<i64>| most.filter(|most| used > *most);
    match place.capacity_type {
        CapacityType::OnDemand => match over(settings.on_demand_vcpus) {
            Some(most) => Err(Refusal::new(
                "VcpuLimitExceeded",
                format!(
                    "You have requested more vCPU capacity than your current vCPU limit of {most} \
                     allows."
                ),
            )),
            None => Ok(()),
        },
        CapacityType::Spot if over(settings.spot_vcpus).is_some() => Err(Refusal::new(
            "MaxSpotInstanceCountExceeded",
            "Max spot instance count exceeded",
        )),
        _ => Ok(()),
    }
}

/// Instances that a spread group has room for, per zone.
const MAX_SPREAD: usize = 7;

fn spread(world: &World, data: &Scope, place: &Place) -> Result<(), Refusal> {
    let wanted = data
        .get("Placement.GroupId")
        .or_else(|| data.get("Placement.GroupName"));
    let Some(wanted) = wanted else {
        return Ok(());
    };
    let is = |one: &&PlacementGroup| one.group_id == wanted || one.group_name == wanted;
    let group = world.account.placement_groups.iter().find(is);
    if group.is_none_or(|group| group.strategy != "spread") {
        return Ok(());
    }
    let inside = world.instances.iter().filter(|(_, one)| {
        one.state.lives()
            && one.zone == place.zone
            && one.placement_group.as_deref() == Some(wanted)
    });
    match inside.count() >= MAX_SPREAD {
        true => Err(Refusal::new(
            "InsufficientInstanceCapacity",
            format!(
                "You have reached the limit of instances in this spread placement group: \
                 {MAX_SPREAD} in {}",
                place.zone
            ),
        )),
        false => Ok(()),
    }
}
