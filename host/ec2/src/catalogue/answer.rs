//! The catalogue of a NodeClass as an answer for programs: the JSON of `oracle-aws types`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::amount::Amount;
use super::class_catalogue::ClassCatalogue;
use super::machine::{Machine, RESOURCES};
use super::region::Region;

/// Amounts by resource, as Kubernetes writes them.
pub type Quantities = BTreeMap<&'static str, String>;

/// An instance type under a NodeClass.
#[derive(Debug, Serialize)]
pub struct TypeAnswer<'a> {
    /// The instance type's name.
    pub name: &'a str,
    /// Whether it can be launched with the NodeClass; if not, no offering is available.
    pub compatible: bool,
    /// Labels of its nodes.
    pub requirements: BTreeMap<&'static str, RequirementAnswer>,
    /// What a node has.
    pub capacity: Quantities,
    /// What pods cannot have of it.
    pub overhead: OverheadAnswer,
    /// What is left for pods.
    pub allocatable: Quantities,
    /// Where and how it can be bought, if asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub offerings: Vec<OfferingAnswer<'a>>,
}

/// The values of a label.
#[derive(Debug, Serialize)]
pub struct RequirementAnswer {
    /// `In` or `DoesNotExist`.
    pub operator: &'static str,
    /// Ordered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// What pods cannot have, by cause.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OverheadAnswer {
    /// The kubelet's and the container runtime's.
    pub kube_reserved: Quantities,
    /// The operating system's.
    pub system_reserved: Quantities,
    /// What must stay free.
    pub eviction_threshold: Quantities,
}

/// A type in a zone at a price.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferingAnswer<'a> {
    /// The zone's name.
    pub zone: &'a str,
    /// `on-demand`, `reserved` or `spot`.
    pub capacity_type: &'static str,
    /// USD per hour; left out where unknown.
    #[serde(skip_serializing_if = "is_zero")]
    pub price: f64,
    /// Whether it may be launched, but for a full reservation.
    pub available: bool,
    /// The reservation's ID, for `reserved`.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reservation: &'a str,
    /// Instances left in it.
    #[serde(skip_serializing_if = "none_left")]
    pub free: u32,
    /// The placement group's partition.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub partition: String,
}

fn is_zero(price: &f64) -> bool {
    *price == 0.0
}

fn none_left(free: &u32) -> bool {
    *free == 0
}

/// Every type of the region under a NodeClass, by name.
pub fn types<'a>(
    region: &'a Region,
    class: &'a ClassCatalogue,
    offerings: bool,
) -> impl Iterator<Item = TypeAnswer<'a>> {
    (0..region.types().len()).map(move |at| one(region, class, at, offerings))
}

fn one<'a>(
    region: &'a Region,
    class: &'a ClassCatalogue,
    at: usize,
    offerings: bool,
) -> TypeAnswer<'a> {
    let mut requirements = BTreeMap::new();
    class.labels(region, at, &mut |key, values| {
        let mut values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        values.sort_unstable();
        let operator = if values.is_empty() {
            "DoesNotExist"
        } else {
            "In"
        };
        requirements.insert(key, RequirementAnswer { operator, values });
    });
    let machine = class.machine(at);
    TypeAnswer {
        name: &region.types()[at].name,
        compatible: class.incompatible(at).is_none(),
        requirements,
        capacity: quantities(RESOURCES.into_iter().zip(machine.capacity)),
        overhead: overhead(machine),
        allocatable: quantities(RESOURCES.into_iter().zip(machine.allocatable())),
        offerings: match offerings {
            true => list(region, class, at),
            false => Vec::new(),
        },
    }
}

fn quantities(amounts: impl Iterator<Item = (&'static str, Option<Amount>)>) -> Quantities {
    amounts
        .filter_map(|(name, amount)| Some((name, amount?.to_string())))
        .collect()
}

fn overhead(machine: &Machine) -> OverheadAnswer {
    let some = |(name, amount)| (name, Some(amount));
    OverheadAnswer {
        kube_reserved: quantities(machine.kube_reserved.iter().map(some)),
        system_reserved: quantities(machine.system_reserved.iter().map(some)),
        eviction_threshold: quantities(
            [
                ("memory", Some(machine.evict_memory)),
                ("ephemeral-storage", Some(machine.evict_storage)),
            ]
            .into_iter(),
        ),
    }
}

fn list<'a>(region: &'a Region, class: &'a ClassCatalogue, at: usize) -> Vec<OfferingAnswer<'a>> {
    let mut all = Vec::new();
    class.offerings(region, at, &mut |offering| {
        all.push(OfferingAnswer {
            zone: &region.zones()[offering.zone].name,
            capacity_type: offering.capacity_type,
            price: offering.price.unwrap_or(0.0),
            available: offering.available,
            reservation: offering
                .reservation
                .map_or("", |(reservation, _)| &reservation.id),
            free: offering.reservation.map_or(0, |(_, free)| free),
            partition: match offering.partition {
                0 => String::new(),
                number => number.to_string(),
            },
        });
    });
    all
}
