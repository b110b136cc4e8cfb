//! The offering of a launch: the cheapest one that its requirements admit, that is large enough and
//! available; or by the order of the claim, where a scorer would have another one.

use std::collections::BTreeMap;
use std::time::Duration;

use longshore_api::labels::{INSTANCE_TYPE, LAUNCH_ORDER, LAUNCH_ZONE};
use longshore_api::quantity::{Quantity, amounts};
use longshore_cloud::{CloudError, Launch, OfferingName, Operator, Shortage};
use longshore_core::model::{InstanceType, Offering, OfferingId, Op, Requirement, Symbols};

use super::market::Market;

/// A choice, as labels and amounts.
pub struct Choice {
    pub offering: OfferingId,
    /// Labels that follow from it.
    pub labels: BTreeMap<String, String>,
    /// What the node has.
    pub capacity: BTreeMap<String, String>,
    /// What of it is left for pods.
    pub allocatable: BTreeMap<String, String>,
}

/// Chooses.
///
/// # Errors
/// Insufficient capacity, with the counts of what each rule left out; invalid for a request that is
/// no quantity.
pub fn choose(market: &Market, now: Duration, launch: &Launch) -> Result<Choice, CloudError> {
    let (catalogue, names) = market.types();
    let wanted = requests(launch)?;
    let (mut refused, mut small) = (0, 0);
    let mut short = Vec::new();
    let order = Order::of(launch);
    let mut best: Option<(
        (bool, usize, bool, f64),
        OfferingId,
        BTreeMap<String, String>,
    )> = None;
    for t in catalogue.types() {
        if !is_big_enough(t, names, &wanted) {
            small += 1;
            continue;
        }
        for at in t.offerings.clone() {
            let id = OfferingId(at);
            let Some(labels) = labels(t, catalogue.offering(id), names, launch) else {
                refused += 1;
                continue;
            };
            if !market.available(id, now) {
                let [instance_type, zone, capacity_type] = market.named(id).map(str::to_owned);
                short.push(OfferingName {
                    instance_type,
                    zone,
                    capacity_type,
                });
                continue;
            }
            let [name, zone, capacity_type] = market.named(id);
            let (second, place) = order.place(name, capacity_type);
            let other_zone = order.zone.is_some_and(|planned| planned != zone);
            let place = (second, place, other_zone, market.price(id));
            if best.as_ref().is_none_or(|(best, ..)| place < *best) {
                best = Some((place, id, labels));
            }
        }
    }
    let Some((_, offering, labels)) = best else {
        let message = format!(
            "{} offerings that NodeClaim {} admits are short, {refused} are refused by its requirements, {small} \
             instance types are too small",
            short.len(),
            launch.name
        );
        return Err(CloudError::InsufficientCapacity(Shortage {
            message,
            offerings: short,
        }));
    };
    let t = catalogue.instance_type(catalogue.offering(offering).instance_type);
    Ok(Choice {
        offering,
        labels,
        capacity: amounts(&t.capacity, names),
        allocatable: amounts(&t.allocatable, names),
    })
}

/// The planner's order of a claim's offerings, where it is not the order of prices.
#[derive(Default)]
struct Order<'a> {
    places: BTreeMap<&'a str, usize>,
    capacity_type: Option<&'a str>,
    /// The zone that the planner counts on.
    zone: Option<&'a str>,
}

impl<'a> Order<'a> {
    fn of(launch: &'a Launch) -> Self {
        let Some(word) = launch.annotations.get(LAUNCH_ORDER) else {
            return Order::default();
        };
        let types = launch.requirements_on(INSTANCE_TYPE);
        let types = types.filter(|one| one.operator == Operator::In).take(1);
        let names = types.flat_map(|one| one.values.iter().map(String::as_str));
        Order {
            places: names.zip(0..).collect(),
            capacity_type: Some(word),
            zone: launch.annotations.get(LAUNCH_ZONE).map(String::as_str),
        }
    }

    /// Whether another capacity type is bought rather, and the place of the instance type: the least
    /// is the best.
    fn place(&self, instance_type: &str, capacity_type: &str) -> (bool, usize) {
        let Some(first) = self.capacity_type else {
            return (false, 0);
        };
        let place = self.places.get(instance_type).copied();
        (first != capacity_type, place.unwrap_or(usize::MAX))
    }
}

fn requests(launch: &Launch) -> Result<Vec<(&str, i64)>, CloudError> {
    let amount = |(resource, text): (&'_ String, &'_ String)| {
        let parsed = Quantity::parse(text).and_then(|q| {
            if resource == "cpu" {
                q.milli()
            } else {
                q.whole()
            }
        });
        let wrong = |e| {
            CloudError::Invalid(format!(
                "NodeClaim {}: request {resource}: {text:?} {e}",
                launch.name
            ))
        };
        parsed.map_err(wrong)
    };
    launch
        .requests
        .iter()
        .map(|(resource, text)| Ok((resource.as_str(), amount((resource, text))?)))
        .collect()
}

fn is_big_enough(t: &InstanceType, names: &Symbols, wanted: &[(&str, i64)]) -> bool {
    let has = |resource: &str| {
        t.allocatable
            .iter()
            .find(|(id, _)| id.name(names) == resource)
            .map_or(0, |(_, n)| n)
    };
    wanted
        .iter()
        .all(|(resource, amount)| has(resource) >= *amount)
}

/// The labels of a node of this offering, or nothing if a requirement refuses it. Where a type may
/// have one of several values, the first that is admitted is taken.
fn labels(
    t: &InstanceType,
    o: &Offering,
    names: &Symbols,
    launch: &Launch,
) -> Option<BTreeMap<String, String>> {
    let admits = |key: &str, value| {
        launch
            .requirements
            .iter()
            .filter(|r| r.key == key)
            .all(|r| r.admits(value))
    };
    let mut labels = BTreeMap::new();
    for Requirement { key, op, .. } in t.requirements.iter().chain(o.requirements.iter()) {
        let (key, Op::In(values)) = (names.text(*key), op) else {
            continue;
        };
        let value = values
            .iter()
            .map(|&v| names.text(v))
            .find(|v| admits(key, Some(*v)))?;
        labels.insert(key.to_owned(), value.to_owned());
    }
    let of = |key: &str| {
        labels
            .get(key)
            .or_else(|| launch.labels.get(key))
            .map(String::as_str)
    };
    let refused = launch
        .requirements
        .iter()
        .any(|r| of(&r.key).is_some_and(|value| !r.admits(Some(value))));
    (!refused).then_some(labels)
}
