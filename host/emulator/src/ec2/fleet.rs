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

use super::launch::{self, Place, Purchase};
use super::{Found, tags_for, templates};
use crate::handle::Context;
use crate::wire::{Params, Refusal, Scope, Xml, element, items, text};
use crate::world::account::{PlacementGroup, Tags};
use crate::world::{CapacityType, World};

/// A request that can be carried out.
pub(super) struct Wanted {
    targets: Vec<(Market, u32)>,
    spot_strategy: String,
    on_demand_strategy: String,
    configs: Vec<Config>,
    tags: Tags,
    token: String,
    least: u32,
}

/// How instances of a target are bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Market {
    OnDemand,
    Spot,
    Reserved,
}

struct Config {
    template: String,
    name: Option<String>,
    version: Option<String>,
    data: Params,
    overrides: Vec<Override>,
}

#[derive(Clone, Debug, Default)]
struct Override {
    instance_type: Option<String>,
    subnet: Option<String>,
    zone: Option<String>,
    image: Option<String>,
    priority: Option<f64>,
    max_price: Option<f64>,
    weight: Option<f64>,
}

/// Most launch template configurations of a fleet.
const MAX_CONFIGS: usize = 50;

const SPOT: [&str; 6] = [
    "lowest-price",
    "lowestPrice",
    "diversified",
    "capacity-optimized",
    "capacity-optimized-prioritized",
    "price-capacity-optimized",
];

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new("InvalidFleetConfiguration", message)
}

/// Reads and checks a request.
pub(super) fn read(world: &World, scope: &Scope) -> Result<Wanted, Refusal> {
    if let Some(kind) = scope.get("Type").filter(|kind| *kind != "instant") {
        return Err(invalid(format!(
            "Fleets of type {kind} are not emulated; instant ones are"
        )));
    }
    scope
        .get("Type")
        .ok_or_else(|| invalid("Fleets of type maintain are not emulated"))?;
    let _ = scope.get("Context");
    let spot = scope.under("SpotOptions");
    let on_demand = scope.under("OnDemandOptions");
    let reserved = scope
        .under("ReservedCapacityOptions")
        .texts("ReservationType");
    if let Some(kind) = reserved
        .iter()
        .find(|kind| **kind != "interruptible-capacity-reservation")
    {
        return Err(invalid(format!("{kind} is not a type of reservation")));
    }
    let strategy = |options: &Scope, known: &[&str]| -> Result<String, Refusal> {
        let given = options.one_of("AllocationStrategy", known)?;
        Ok(given.unwrap_or("lowest-price").to_owned())
    };
    let mut configs = Vec::new();
    for config in scope.list("LaunchTemplateConfigs") {
        configs.push(read_config(world, &config)?);
    }
    if configs.is_empty() {
        return Err(Refusal::new(
            "MissingParameter",
            "The request must contain the parameter LaunchTemplateConfigs",
        ));
    }
    if configs.len() > MAX_CONFIGS {
        return Err(Refusal::new(
            "InvalidParameterValue",
            format!("A fleet has at most {MAX_CONFIGS} launch template configurations"),
        ));
    }
    let overrides: usize = configs.iter().map(|config| config.overrides.len()).sum();
    if overrides > 300 {
        return Err(invalid("A fleet has at most 300 overrides"));
    }
    let least = spot
        .parse("MinTargetCapacity")?
        .or(on_demand.parse("MinTargetCapacity")?);
    Ok(Wanted {
        targets: targets(&scope.under("TargetCapacitySpecification"))?,
        spot_strategy: strategy(&spot, &SPOT)?,
        on_demand_strategy: strategy(&on_demand, &["lowest-price", "lowestPrice", "prioritized"])?,
        configs,
        tags: tags_for(scope, "TagSpecification", "instance")?,
        token: scope.get("ClientToken").unwrap_or_default().to_owned(),
        least: least.unwrap_or(0),
    })
}

fn targets(scope: &Scope) -> Result<Vec<(Market, u32)>, Refusal> {
    scope.need("TotalTargetCapacity")?;
    let total: u32 = scope.parse("TotalTargetCapacity")?.unwrap_or(0);
    if !(1..=10_000).contains(&total) {
        return Err(invalid(format!(
            "A target capacity of {total} is not possible"
        )));
    }
    if let Some(unit) = scope
        .get("TargetCapacityUnitType")
        .filter(|unit| *unit != "units")
    {
        return Err(invalid(format!(
            "Targets in {unit} are not emulated; units are"
        )));
    }
    let kinds = ["on-demand", "spot", "reserved-capacity", "capacity-block"];
    let usual = match scope.one_of("DefaultTargetCapacityType", &kinds)? {
        Some("spot") => Market::Spot,
        Some("reserved-capacity" | "capacity-block") => Market::Reserved,
        _ => Market::OnDemand,
    };
    let on_demand: u32 = scope.parse("OnDemandTargetCapacity")?.unwrap_or(0);
    let spot: u32 = scope.parse("SpotTargetCapacity")?.unwrap_or(0);
    let rest = total.checked_sub(on_demand.saturating_add(spot));
    let rest = rest.ok_or_else(|| invalid("The parts of the target exceed the total"))?;
    let all = [
        (Market::OnDemand, on_demand),
        (Market::Spot, spot),
        (usual, rest),
    ];
    Ok(all.into_iter().filter(|(_, count)| *count > 0).collect())
}

fn read_config(world: &World, scope: &Scope) -> Result<Config, Refusal> {
    let specification = scope.under("LaunchTemplateSpecification");
    let id = templates::named(world, &specification)?;
    let version = specification.need("Version")?;
    if !["1", "$Latest", "$Default"].contains(&version) {
        let message = format!("The launch template version {version} does not exist");
        return Err(Refusal::new(
            "InvalidLaunchTemplateId.VersionNotFound",
            message,
        ));
    }
    let mut overrides = Vec::new();
    for one in scope.list("Overrides") {
        let text = |name: &str| one.get(name).map(str::to_owned);
        overrides.push(Override {
            instance_type: text("InstanceType"),
            subnet: text("SubnetId"),
            zone: text("AvailabilityZone"),
            image: text("ImageId"),
            priority: one.parse("Priority")?,
            max_price: one.parse("MaxPrice")?,
            weight: one.parse("WeightedCapacity")?,
        });
    }
    if overrides.is_empty() {
        overrides.push(Override::default());
    }
    Ok(Config {
        template: id.clone(),
        name: specification.get("LaunchTemplateName").map(str::to_owned),
        version: Some(version.to_owned()),
        data: world
            .templates
            .get(&id)
            .map(|one| one.params())
            .unwrap_or_default(),
        overrides,
    })
}

/// A pair of template and override, with where it would launch.
struct Pool {
    config: usize,
    at: usize,
    place: Place,
    price: f64,
    depth: u8,
    priority: f64,
    weight: f64,
}

/// What a fleet has bought and was refused.
#[derive(Default)]
struct Bought {
    instances: Vec<((usize, usize, Market), Place, Vec<String>)>,
    errors: Vec<(usize, usize, Market, Refusal)>,
}

impl Bought {
    fn refuse(&mut self, (config, at): (usize, usize), market: Market, refusal: Refusal) {
        let known = |one: &(usize, usize, Market, Refusal)| {
            (one.0, one.1, &one.3) == (config, at, &refusal)
        };
        if !self.errors.iter().any(known) {
            self.errors.push((config, at, market, refusal));
        }
    }

    fn add(&mut self, key: (usize, usize, Market), place: &Place, id: String) {
        match self
            .instances
            .iter_mut()
            .find(|(own, held, _)| *own == key && held == place)
        {
            Some((_, _, ids)) => ids.push(id),
            None => self.instances.push((key, place.clone(), vec![id])),
        }
    }
}

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

/// How many instances pools have together.
fn room(world: &World, context: &Context, pools: &[Pool]) -> f64 {
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
fn pools(
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
    let open = |one: &&crate::world::account::Reservation| {
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

fn order(pools: &mut [Pool], strategy: &str) {
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

fn shown(world: &World, wanted: &Wanted, bought: &Bought, fleet: String) -> Vec<Xml> {
    let lifecycle = |market: Market, place: Option<&Place>| match (market, place) {
        (Market::Spot, _) => "spot".to_owned(),
        (Market::Reserved, Some(place)) => place
            .market
            .clone()
            .unwrap_or_else(|| "on-demand".to_owned()),
        _ => "on-demand".to_owned(),
    };
    let errors = bought.errors.iter().map(|(config, at, market, refusal)| {
        vec![
            chosen(world, wanted, (*config, *at), None),
            text("lifecycle", lifecycle(*market, None)),
            text("errorCode", &refusal.code),
            text("errorMessage", &refusal.message),
        ]
    });
    let instances = bought
        .instances
        .iter()
        .map(|((config, at, market), place, ids)| {
            vec![
                chosen(world, wanted, (*config, *at), Some(place)),
                text("lifecycle", lifecycle(*market, Some(place))),
                element("instanceIds", ids.iter().map(|id| text("item", id))),
                text("instanceType", &place.instance_type),
            ]
        });
    vec![
        text("fleetId", fleet),
        items("errorSet", errors),
        items("fleetInstanceSet", instances),
    ]
}

/// Template and override of a pool; of an instance, with where it was launched.
fn chosen(
    world: &World,
    wanted: &Wanted,
    (config, at): (usize, usize),
    place: Option<&Place>,
) -> Xml {
    let config = &wanted.configs[config];
    let one = &config.overrides[at];
    let name = config.name.clone();
    let name = name.or_else(|| {
        world
            .templates
            .get(&config.template)
            .map(|own| own.name.clone())
    });
    let mut specification = vec![text("launchTemplateId", &config.template)];
    specification.extend(name.map(|name| text("launchTemplateName", name)));
    // The number that `$Latest` stands for.
    specification.extend(config.version.as_ref().map(|_| text("version", 1)));
    let kind = place
        .map(|place| &place.instance_type)
        .or(one.instance_type.as_ref());
    let subnet = place.map(|place| &place.subnet).or(one.subnet.as_ref());
    let zone = place.map(|place| &place.zone).or(one.zone.as_ref());
    let image = one.image.as_ref();
    let mut inside = Vec::new();
    inside.extend(kind.map(|kind| text("instanceType", kind)));
    inside.extend(subnet.map(|subnet| text("subnetId", subnet)));
    inside.extend(zone.map(|zone| text("availabilityZone", zone)));
    inside.extend(one.max_price.map(|price| text("maxPrice", price)));
    inside.extend(one.weight.map(|weight| text("weightedCapacity", weight)));
    inside.extend(one.priority.map(|priority| text("priority", priority)));
    inside.extend(image.map(|image| text("imageId", image)));
    element(
        "launchTemplateAndOverrides",
        [
            element("launchTemplateSpecification", specification),
            element("overrides", inside),
        ],
    )
}
