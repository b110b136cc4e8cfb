//! Reads and checks CreateFleet.

use super::super::tags::tags_for;
use super::super::templates;
use crate::wire::{Params, Refusal, Scope};
use crate::world::World;
use crate::world::account::Tags;

/// A request that can be carried out.
pub struct Wanted {
    pub(super) targets: Vec<(Market, u32)>,
    pub(super) spot_strategy: String,
    pub(super) on_demand_strategy: String,
    pub(super) configs: Vec<Config>,
    pub(super) tags: Tags,
    pub(super) token: String,
    pub(super) least: u32,
}

/// How instances of a target are bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Market {
    OnDemand,
    Spot,
    Reserved,
}

pub(super) struct Config {
    pub template: String,
    pub name: Option<String>,
    pub version: Option<String>,
    pub data: Params,
    pub overrides: Vec<Override>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Override {
    pub instance_type: Option<String>,
    pub subnet: Option<String>,
    pub zone: Option<String>,
    pub image: Option<String>,
    pub priority: Option<f64>,
    pub max_price: Option<f64>,
    pub weight: Option<f64>,
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

pub(super) fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new("InvalidFleetConfiguration", message)
}

/// Reads and checks a request.
pub fn read(world: &World, scope: &Scope) -> Result<Wanted, Refusal> {
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
