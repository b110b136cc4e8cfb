//! Which offering a claim is launched as: the cheapest of those that it admits and that are big enough.

use std::collections::BTreeMap;

use longshore_api::quantity::Quantity;
use longshore_cloud::{CloudError, Launch, OfferingName, Shortage};
use longshore_core::model::{Catalogue, InstanceType, Names, Offering, Op, Requirement, ResourceId, Resources};

use super::faults::Faults;

/// A choice, as labels and amounts.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Labels of type and offering.
    pub labels: BTreeMap<String, String>,
    /// What the node has.
    pub capacity: BTreeMap<String, String>,
    /// What of it is left for pods.
    pub allocatable: BTreeMap<String, String>,
    /// USD per hour.
    pub price: f64,
}

/// Chooses. The same claim and catalogue always give the same choice.
///
/// # Errors
/// Insufficient capacity, with the counts of what each rule left out and the offerings that are short.
pub fn choose(catalogue: &Catalogue, names: &Names, launch: &Launch, faults: &Faults) -> Result<Choice, CloudError> {
    let wanted = requests(launch)?;
    let (mut labels_refuse, mut too_small) = (0, 0);
    let mut short = Vec::new();
    let mut best: Option<(f64, BTreeMap<String, String>, &InstanceType)> = None;
    for t in catalogue.types() {
        if !big_enough(t, names, &wanted) {
            too_small += 1;
            continue;
        }
        for offering in &catalogue.offerings()[t.offerings.start as usize..t.offerings.end as usize] {
            let Some(labels) = labels(t, offering, names, launch) else {
                labels_refuse += 1;
                continue;
            };
            let of = |key: &str| labels.get(key).map_or("", String::as_str);
            let at = [names.text(t.name), of("topology.kubernetes.io/zone"), of("karpenter.sh/capacity-type")];
            if !offering.available || faults.is_short(at) {
                let [instance_type, zone, capacity_type] = at.map(str::to_owned);
                short.push(OfferingName { instance_type, zone, capacity_type });
                continue;
            }
            if best.as_ref().is_none_or(|b| offering.price < b.0) {
                best = Some((offering.price, labels, t));
            }
        }
    }
    let Some((price, labels, t)) = best else {
        let message = format!(
            "no offering for NodeClaim {}: {labels_refuse} refused by its requirements, {} without capacity, \
             {too_small} instance types too small",
            launch.name,
            short.len()
        );
        return Err(CloudError::InsufficientCapacity(Shortage { message, offerings: short }));
    };
    Ok(Choice { labels, capacity: amounts(&t.capacity, names), allocatable: amounts(&t.allocatable, names), price })
}

fn requests(launch: &Launch) -> Result<Vec<(String, i64)>, CloudError> {
    let amount = |(resource, text): (&String, &String)| {
        let parsed = Quantity::parse(text).and_then(|q| if resource == "cpu" { q.milli() } else { q.whole() });
        match parsed {
            Ok(amount) => Ok((resource.clone(), amount)),
            Err(error) => Err(CloudError::Invalid(format!(
                "NodeClaim {}: spec.resources.requests.{resource}: quantity {text:?} {error}",
                launch.name
            ))),
        }
    };
    launch.requests.iter().map(amount).collect()
}

fn name_of(resource: ResourceId, names: &Names) -> &str {
    match resource {
        ResourceId::Cpu => "cpu",
        ResourceId::Memory => "memory",
        ResourceId::Pods => "pods",
        ResourceId::EphemeralStorage => "ephemeral-storage",
        ResourceId::Other(name) => names.text(name),
    }
}

fn big_enough(t: &InstanceType, names: &Names, wanted: &[(String, i64)]) -> bool {
    wanted.iter().all(|(resource, amount)| {
        let has = t.allocatable.iter().find(|(id, _)| name_of(*id, names) == resource).map_or(0, |(_, has)| has);
        has >= *amount
    })
}

/// The labels of a node of this type and offering, or nothing if the claim's requirements refuse it. Where a type may
/// have one of several values, the first that is admitted is taken.
fn labels(t: &InstanceType, o: &Offering, names: &Names, launch: &Launch) -> Option<BTreeMap<String, String>> {
    let mut labels = BTreeMap::from([("node.kubernetes.io/instance-type".to_owned(), names.text(t.name).to_owned())]);
    let admitted =
        |key: &str, value: &str| launch.requirements.iter().filter(|r| r.key == key).all(|r| r.admits(Some(value)));
    for Requirement { key, op, .. } in t.requirements.iter().chain(&o.requirements) {
        let (key, Op::In(values)) = (names.text(*key), op) else { continue };
        let value = values.iter().map(|&v| names.text(v)).find(|v| admitted(key, v))?;
        labels.insert(key.to_owned(), value.to_owned());
    }
    let refused = launch.requirements.iter().any(|r| {
        let value = labels.get(&r.key).or_else(|| launch.labels.get(&r.key));
        value.is_some_and(|value| !r.admits(Some(value)))
    });
    (!refused).then_some(labels)
}

/// Amounts as Kubernetes writes them.
fn amounts(resources: &Resources, names: &Names) -> BTreeMap<String, String> {
    let text = |(id, amount): (ResourceId, i64)| {
        let text = match id {
            ResourceId::Cpu => format!("{amount}m"),
            ResourceId::Memory | ResourceId::EphemeralStorage if amount % 1024 == 0 => format!("{}Ki", amount / 1024),
            _ => amount.to_string(),
        };
        (name_of(id, names).to_owned(), text)
    };
    resources.iter().map(text).collect()
}
