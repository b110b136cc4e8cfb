//! The offering of a launch: the cheapest one that the claim admits and that is large enough. Where a
//! scorer or a NodeOverlay, which are not known here, would have another one, the claim says so: then
//! its capacity type, the first of its types, and its zone.

use std::collections::BTreeMap;

use longshore_api::labels::{
    CAPACITY_TYPE, INSTANCE_TYPE, LAUNCH_ORDER, LAUNCH_ZONE, PRICE_OVERLAY, ZONE,
};
use longshore_api::quantity::{Quantity, amounts};
use longshore_cloud::{CloudError, Launch, OfferingName, Operator, Shortage};
use longshore_core::model::{
    Catalogue, InstanceType, Offering, Op, Requirement, ResourceId, Symbol, Symbols,
};
use rustc_hash::{FxHashMap, FxHashSet};

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

/// Of two offerings the one with the least is taken: whether the capacity type is another one than the
/// claim says, the place of the type, and whether the zone is another one.
type Place = (bool, usize, bool);

/// Chooses. The same claim and catalogue always give the same choice.
///
/// # Errors
/// Insufficient capacity, with the counts of what each rule left out and the offerings that are
/// short.
pub fn choose(
    catalogue: &Catalogue,
    names: &Symbols,
    launch: &Launch,
    faults: &Faults,
) -> Result<Choice, CloudError> {
    let wanted = Wanted::new(launch, names)?;
    let (mut labels_refuse, mut too_small) = (0, 0);
    let mut short = Vec::new();
    let mut best: Option<(Place, &InstanceType, &Offering)> = None;
    for t in catalogue.types() {
        if !wanted.fits(t) {
            too_small += 1;
            continue;
        }
        let offerings =
            &catalogue.offerings()[t.offerings.start as usize..t.offerings.end as usize];
        if !wanted.admits_type(t) {
            labels_refuse += offerings.len();
            continue;
        }
        let type_place = wanted.place(t);
        for offering in offerings {
            if !wanted.admits(t, offering) {
                labels_refuse += 1;
                continue;
            }
            let [zone, capacity_type] =
                [ZONE, CAPACITY_TYPE].map(|key| wanted.value_of(offering, key));
            let at = [names.text(t.name), zone, capacity_type];
            if !offering.available || faults.is_short(at) {
                let [instance_type, zone, capacity_type] = at.map(str::to_owned);
                short.push(OfferingName {
                    instance_type,
                    zone,
                    capacity_type,
                });
                continue;
            }
            let second = wanted.is_second_choice(capacity_type);
            let place = (second, type_place, wanted.is_other_zone(zone));
            let is_better = |(first, _, best): (Place, &InstanceType, &Offering)| {
                place < first || (place == first && offering.price < best.price)
            };
            if best.is_none_or(is_better) {
                best = Some((place, t, offering));
            }
        }
    }
    let Some((_, t, offering)) = best else {
        let message = format!(
            "no offering for NodeClaim {}: {labels_refuse} refused by its requirements, {} without capacity, \
             {too_small} instance types too small",
            launch.name,
            short.len()
        );
        return Err(CloudError::InsufficientCapacity(Shortage {
            message,
            offerings: short,
        }));
    };
    Ok(Choice {
        labels: wanted.labels(t, offering),
        capacity: amounts(&t.capacity, names),
        allocatable: amounts(&t.allocatable, names),
        price: offering.price,
    })
}

/// A claim as a catalogue is compared with it: label keys and resources by their symbols there.
struct Wanted<'a> {
    names: &'a Symbols,
    /// A resource that no type has has no symbol.
    requests: Vec<(Option<ResourceId>, i64)>,
    /// Those whose label the catalogue knows.
    requirements: Vec<(Symbol, Rule<'a>)>,
    /// What the name of a type must satisfy.
    type_names: Vec<Rule<'a>>,
    /// Labels of the claim that its own requirements refuse: types and offerings must say something
    /// else of them.
    contradicted: Vec<&'a str>,
    /// The place of each type in the claim's order, where that counts.
    order: Option<FxHashMap<&'a str, usize>>,
    /// The capacity type that is bought if it can be, where the claim says one.
    capacity_type: Option<&'a str>,
    /// The zone that is bought if it can be, where the claim says one.
    zone: Option<&'a str>,
}

/// A requirement. The planner names every type that would do, hundreds of them, and each is
/// compared with every type there is: lists of values are sets here.
enum Rule<'a> {
    /// The value is one of these.
    In(FxHashSet<Symbol>),
    /// It is none of them.
    NotIn(FxHashSet<Symbol>),
    Other(&'a longshore_cloud::Requirement),
}

impl<'a> Rule<'a> {
    fn new(requirement: &'a longshore_cloud::Requirement, names: &Symbols) -> Self {
        // A value that the catalogue does not know is that of no type.
        let values = || {
            requirement
                .values
                .iter()
                .filter_map(|value| names.get(value))
                .collect()
        };
        match requirement.operator {
            Operator::In => Rule::In(values()),
            Operator::NotIn => Rule::NotIn(values()),
            _ => Rule::Other(requirement),
        }
    }

    /// Whether a label of this value satisfies it.
    fn admits(&self, value: Symbol, names: &Symbols) -> bool {
        match self {
            Rule::In(values) => values.contains(&value),
            Rule::NotIn(values) => !values.contains(&value),
            Rule::Other(requirement) => requirement.admits(Some(names.text(value))),
        }
    }
}

impl<'a> Wanted<'a> {
    fn new(launch: &'a Launch, names: &'a Symbols) -> Result<Self, CloudError> {
        let all = launch.requirements.iter();
        let own = |r: &longshore_cloud::Requirement| {
            launch
                .labels
                .get(&r.key)
                .is_some_and(|v| !r.admits(Some(v)))
        };
        Ok(Wanted {
            names,
            requests: requests(launch, names)?,
            requirements: all
                .clone()
                .filter_map(|r| Some((names.get(&r.key)?, Rule::new(r, names))))
                .collect(),
            type_names: all
                .clone()
                .filter(|r| r.key == INSTANCE_TYPE)
                .map(|r| Rule::new(r, names))
                .collect(),
            contradicted: all
                .clone()
                .filter(|r| own(r))
                .map(|r| r.key.as_str())
                .collect(),
            order: (launch.annotations.get(PRICE_OVERLAY))
                .filter(|value| *value == "true")
                .or(launch.annotations.get(LAUNCH_ORDER))
                .and_then(|_| all.into_iter().find(|r| r.key == INSTANCE_TYPE))
                .map(|r| r.values.iter().map(String::as_str).zip(0..).collect()),
            capacity_type: launch.annotations.get(LAUNCH_ORDER).map(String::as_str),
            zone: launch.annotations.get(LAUNCH_ZONE).map(String::as_str),
        })
    }

    /// The place of a type among those that the claim may become: the least is taken.
    fn place(&self, t: &InstanceType) -> usize {
        let order = self.order.as_ref();
        order.map_or(0, |order| {
            let place = order.get(self.names.text(t.name));
            place.copied().unwrap_or(usize::MAX)
        })
    }

    /// Whether another capacity type is bought rather than this one.
    fn is_second_choice(&self, capacity_type: &str) -> bool {
        self.capacity_type
            .is_some_and(|first| first != capacity_type)
    }

    /// Whether the plan counts on another zone.
    fn is_other_zone(&self, zone: &str) -> bool {
        self.zone.is_some_and(|planned| planned != zone)
    }

    fn fits(&self, t: &InstanceType) -> bool {
        let has = |resource: Option<ResourceId>| {
            resource.map_or(0, |resource| t.allocatable.get(resource))
        };
        self.requests
            .iter()
            .all(|&(resource, amount)| has(resource) >= amount)
    }

    /// Whether the labels that a type gives its nodes are admitted.
    fn admits_type(&self, t: &InstanceType) -> bool {
        self.type_names
            .iter()
            .all(|rule| rule.admits(t.name, self.names))
            && self.finds_values(&t.requirements)
    }

    /// Whether those of an offering are as well, and no label of the claim is left to contradict
    /// it.
    fn admits(&self, t: &InstanceType, offering: &Offering) -> bool {
        let says = |key: &str| {
            let mut all = t.requirements.iter().chain(offering.requirements.iter());
            key == INSTANCE_TYPE
                || all.any(|r| matches!(r.op, Op::In(_)) && self.names.text(r.key) == key)
        };
        self.finds_values(&offering.requirements) && self.contradicted.iter().all(|key| says(key))
    }

    fn finds_values(&self, requirements: &[Requirement]) -> bool {
        requirements
            .iter()
            .all(|r| !matches!(r.op, Op::In(_)) || self.value(r).is_some())
    }

    /// The first value of a requirement that the claim admits.
    fn value(&self, requirement: &Requirement) -> Option<&'a str> {
        let Op::In(values) = &requirement.op else {
            return None;
        };
        let admitted = |value: Symbol| {
            let mut same = self
                .requirements
                .iter()
                .filter(|(key, _)| *key == requirement.key);
            same.all(|(_, rule)| rule.admits(value, self.names))
        };
        values
            .iter()
            .copied()
            .find(|&value| admitted(value))
            .map(|value| self.names.text(value))
    }

    /// What an offering says of a label, empty for nothing.
    fn value_of(&self, offering: &Offering, key: &str) -> &'a str {
        let found = offering
            .requirements
            .iter()
            .find(|r| self.names.text(r.key) == key);
        found.and_then(|r| self.value(r)).unwrap_or_default()
    }

    /// The labels of a node of this type and offering. Where a type may have one of several values,
    /// the first that is admitted is taken.
    fn labels(&self, t: &InstanceType, offering: &Offering) -> BTreeMap<String, String> {
        let all = t.requirements.iter().chain(offering.requirements.iter());
        let said = all.filter_map(|r| Some((self.names.text(r.key), self.value(r)?)));
        let name = [(INSTANCE_TYPE, self.names.text(t.name))];
        name.into_iter()
            .chain(said)
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }
}

fn requests(
    launch: &Launch,
    names: &Symbols,
) -> Result<Vec<(Option<ResourceId>, i64)>, CloudError> {
    let amount = |(resource, text): (&String, &String)| {
        let parsed = Quantity::parse(text).and_then(|q| {
            if resource == "cpu" {
                q.milli()
            } else {
                q.whole()
            }
        });
        match parsed {
            Ok(amount) => {
                let other = || names.get(resource).map(ResourceId::Other);
                Ok((ResourceId::known(resource).or_else(other), amount))
            }
            Err(error) => Err(CloudError::Invalid(format!(
                "NodeClaim {}: spec.resources.requests.{resource}: quantity {text:?} {error}",
                launch.name
            ))),
        }
    };
    launch.requests.iter().map(amount).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::catalogue::built_in;

    /// A claim from lines: `cpu=1` asks, `KEY In a b` requires, `KEY: value` is a label of the
    /// claim itself.
    fn claim(lines: &[&str]) -> Launch {
        let mut launch = Launch {
            name: "c".into(),
            ..Launch::default()
        };
        for line in lines {
            if let Some((resource, amount)) = line.split_once('=') {
                launch.requests.insert(resource.into(), amount.into());
            } else if let Some((key, value)) = line.split_once(": ") {
                launch.labels.insert(key.into(), value.into());
            } else {
                let mut words = line.split(' ').map(str::to_owned);
                let (key, operator) = (words.next().unwrap(), words.next().unwrap());
                launch.requirements.push(longshore_cloud::Requirement {
                    key,
                    operator: match operator.as_str() {
                        "In" => Operator::In,
                        "NotIn" => Operator::NotIn,
                        other => panic!("no operator: {other}"),
                    },
                    values: words.collect(),
                });
            }
        }
        launch
    }

    /// Faults that a NodeClass asks for with annotations of these names.
    fn read(faults: &[(&str, &str)]) -> Faults {
        let asked = faults
            .iter()
            .map(|(what, how)| (format!("kwok.longshore.dev/{what}"), (*how).to_owned()))
            .collect();
        Faults::read([&asked]).unwrap()
    }

    /// The type, zone and capacity type chosen and its operating system, or why none is.
    fn chosen(lines: &[&str], faults: &[(&str, &str)]) -> String {
        let mut names = Symbols::default();
        let catalogue = built_in(&mut names);
        match choose(&catalogue, &names, &claim(lines), &read(faults)) {
            Ok(choice) => {
                let keys = [INSTANCE_TYPE, ZONE, CAPACITY_TYPE, "kubernetes.io/os"];
                keys.map(|key| choice.labels[key].as_str()).join(" ")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_cheapest_that_is_admitted_and_big_enough_is_taken() {
        let cases: [&[&str]; 9] = [
            &["cpu=500m"],
            &["cpu=3", "memory=20Gi", "kubernetes.io/arch In arm64"],
            &[
                "cpu=3",
                "karpenter.sh/capacity-type NotIn spot",
                "topology.kubernetes.io/zone In test-zone-c test-zone-b",
            ],
            &["node.kubernetes.io/instance-type In m-8x-arm64-linux s-16x-amd64-linux"],
            &["cpu=1", "kubernetes.io/os In windows"],
            &["cpu=1", "team In red", "team: red"],
            // A label of the claim that its own requirements refuse, and one that every node says
            // something else of.
            &["cpu=1", "team In red", "team: blue"],
            &[
                "cpu=1",
                "kubernetes.io/os In linux",
                "kubernetes.io/os: windows",
            ],
            &["cpu=1", "example.com/gpu=1"],
        ];
        let lines: Vec<String> = cases
            .iter()
            .map(|lines| format!("{}: {}", lines.join(", "), chosen(lines, &[])))
            .collect();
        expect![[r#"
            cpu=500m: c-1x-amd64-linux test-zone-a spot linux
            cpu=3, memory=20Gi, kubernetes.io/arch In arm64: m-4x-arm64-linux test-zone-a spot linux
            cpu=3, karpenter.sh/capacity-type NotIn spot, topology.kubernetes.io/zone In test-zone-c test-zone-b: c-4x-amd64-linux test-zone-b on-demand linux
            node.kubernetes.io/instance-type In m-8x-arm64-linux s-16x-amd64-linux: m-8x-arm64-linux test-zone-a spot linux
            cpu=1, kubernetes.io/os In windows: c-2x-amd64-windows test-zone-a spot windows
            cpu=1, team In red, team: red: c-2x-amd64-linux test-zone-a spot linux
            cpu=1, team In red, team: blue: insufficient capacity: no offering for NodeClaim c: 1056 refused by its requirements, 0 without capacity, 12 instance types too small
            cpu=1, kubernetes.io/os In linux, kubernetes.io/os: windows: c-2x-amd64-linux test-zone-a spot linux
            cpu=1, example.com/gpu=1: insufficient capacity: no offering for NodeClaim c: 0 refused by its requirements, 0 without capacity, 144 instance types too small"#]].assert_eq(&lines.join("\n"));
    }

    #[test]
    fn a_claim_with_an_order_gets_its_capacity_type_and_the_first_of_its_types() {
        let types = "node.kubernetes.io/instance-type In m-2x-amd64-linux c-2x-amd64-linux";
        let mut names = Symbols::default();
        let catalogue = built_in(&mut names);
        let chosen = |order: Option<&str>, short: &[(&str, &str)]| {
            let mut launch = claim(&[types, "cpu=1"]);
            let order = order.map(|word| (LAUNCH_ORDER.to_owned(), word.to_owned()));
            launch.annotations.extend(order);
            let faults = read(short);
            let choice = choose(&catalogue, &names, &launch, &faults).unwrap();
            [INSTANCE_TYPE, CAPACITY_TYPE]
                .map(|key| choice.labels[key].clone())
                .join(" ")
        };
        assert_eq!(chosen(None, &[]), "c-2x-amd64-linux spot");
        assert_eq!(chosen(Some("spot"), &[]), "m-2x-amd64-linux spot");
        assert_eq!(chosen(Some("on-demand"), &[]), "m-2x-amd64-linux on-demand");
        let short = [("no-capacity", "m-2x-amd64-linux/*/on-demand")];
        assert_eq!(
            chosen(Some("on-demand"), &short),
            "c-2x-amd64-linux on-demand"
        );
    }

    #[test]
    fn a_claim_with_a_zone_is_bought_there_if_it_can_be() {
        let mut names = Symbols::default();
        let catalogue = built_in(&mut names);
        let chosen = |short: &[(&str, &str)]| {
            let mut launch = claim(&["node.kubernetes.io/instance-type In c-2x-amd64-linux"]);
            let annotations = [(LAUNCH_ORDER, "spot"), (LAUNCH_ZONE, "test-zone-c")];
            let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
            launch.annotations.extend(annotations);
            let faults = read(short);
            let choice = choose(&catalogue, &names, &launch, &faults).unwrap();
            choice.labels[ZONE].clone()
        };
        assert_eq!(chosen(&[]), "test-zone-c");
        let short = [("no-capacity", "*/test-zone-c/*")];
        assert_eq!(chosen(&short), "test-zone-a");
    }

    #[test]
    fn where_overlays_changed_prices_the_first_type_of_the_claim_is_taken() {
        let types = "node.kubernetes.io/instance-type In m-2x-amd64-linux c-2x-amd64-linux";
        let mut names = Symbols::default();
        let catalogue = built_in(&mut names);
        let chosen = |marked: &str, faults: &[(&str, &str)]| {
            let mut launch = claim(&[types, "cpu=1"]);
            let annotations = &mut launch.annotations;
            annotations.insert(PRICE_OVERLAY.to_owned(), marked.to_owned());
            let faults = read(faults);
            let choice = choose(&catalogue, &names, &launch, &faults).unwrap();
            [INSTANCE_TYPE, CAPACITY_TYPE].map(|key| choice.labels[key].clone())
        };
        assert_eq!(chosen("true", &[]), ["m-2x-amd64-linux", "spot"]);
        assert_eq!(chosen("false", &[]), ["c-2x-amd64-linux", "spot"]);
        let short = [("no-capacity", "m-2x-amd64-linux/*/*")];
        assert_eq!(chosen("true", &short), ["c-2x-amd64-linux", "spot"]);
    }

    #[test]
    fn what_is_short_is_passed_over_and_told_where_nothing_else_is_left() {
        let only = [
            "node.kubernetes.io/instance-type In c-1x-amd64-linux",
            "karpenter.sh/capacity-type In spot",
        ];
        let short = |pattern| chosen(&only, &[("no-capacity", pattern)]);
        let lines = [
            short("c-1x-amd64-linux/test-zone-a/spot"),
            short("*/*/spot"),
        ];
        expect![[r#"
            c-1x-amd64-linux test-zone-b spot linux
            insufficient capacity: no offering for NodeClaim c: 1148 refused by its requirements, 4 without capacity, 0 instance types too small"#]].assert_eq(&lines.join("\n"));
    }
}
