//! Whether a cloud that goes by its prices would buy what the plan counts on.
//!
//! A scorer makes a dearer offering the better one, or one of several of equal price, and a NodeOverlay
//! changes a price that the cloud does not know of. Then the claim says so, and the cloud follows the
//! order of its instance types, and buys in the zone of the plan.

use longshore_api::labels::{LAUNCH_ORDER, LAUNCH_ZONE};
use longshore_core::model::{ClusterObjects, Offering, TypeId};
use longshore_core::plan::{PlannedClaim, admits};

/// Annotations [`LAUNCH_ORDER`] and [`LAUNCH_ZONE`] of a claim; none if prices say the same as the plan.
pub(super) fn launch_order(world: &ClusterObjects, claim: &PlannedClaim) -> Vec<(String, String)> {
    let catalogue = &world.catalogue;
    let Some(word) = catalogue.offering(claim.offering).capacity_type else {
        return Vec::new();
    };
    let word = world.names.text(word);
    let overlaid = |t: &TypeId| catalogue.overlay_of(*t).is_some_and(|of| of.price);
    let by_price = !claim.dearer_at_same_price && is_by_price(world, claim, word);
    if !claim.types.iter().any(overlaid) && by_price {
        return Vec::new();
    }
    let zone = launch_zone(world, claim).map(|zone| (LAUNCH_ZONE.to_owned(), zone.to_owned()));
    let order = (LAUNCH_ORDER.to_owned(), word.to_owned());
    [Some(order), zone].into_iter().flatten().collect()
}

/// The zone that the plan counts on, if prices would buy the same type in another one.
fn launch_zone<'a>(world: &'a ClusterObjects, claim: &PlannedClaim) -> Option<&'a str> {
    let planned = world.catalogue.offering(claim.offering);
    let zone = planned.zone?;
    let same_type = world.catalogue.offerings_of(planned.instance_type).iter();
    let mut others = same_type.filter(|one| {
        let alike = one.capacity_type == planned.capacity_type && one.zone != planned.zone;
        alike && one.available && admits(&claim.requirements, one)
    });
    // Of equal prices a cloud takes any.
    let may_differ = others.any(|one| one.price <= planned.price);
    may_differ.then(|| world.names.text(zone))
}

/// Whether the types stand by their cheapest offerings, and the planned one is the cheapest of all.
fn is_by_price(world: &ClusterObjects, claim: &PlannedClaim, capacity_type: &str) -> bool {
    let least = |t: &TypeId| {
        let all = world.catalogue.offerings_of(*t).iter();
        let all = all.filter(|one| one.available && admits(&claim.requirements, one));
        // What is reserved costs next to nothing: a plan that does not count on it says so by itself.
        let counts = |one: &&Offering| one.reservation.is_none() || capacity_type == "reserved";
        let prices = all.filter(counts).map(|one| one.price);
        prices.fold(f64::INFINITY, f64::min)
    };
    let prices: Vec<f64> = claim.types.iter().map(least).collect();
    prices.is_sorted() && prices.first().is_none_or(|least| claim.price <= *least)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use longshore_core::model::{
        Catalogue, InstanceType, OfferingId, Requirement, Resources, Symbols,
    };
    use longshore_core::plan::PoolIx;

    use super::*;

    /// A world that sells `TYPE CAPACITY-TYPE ZONE PRICE`, one line each, types by name.
    fn world(lines: &[&str]) -> ClusterObjects {
        let mut world = ClusterObjects::default();
        let names: &mut Symbols = &mut world.names;
        let mut types: Vec<(InstanceType, Vec<Offering>)> = Vec::new();
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let name = names.intern(words[0]);
            if types.last().is_none_or(|(last, _)| last.name != name) {
                types.push((InstanceType::named(name), Vec::new()));
            }
            let of = TypeId(types.len() as u32 - 1);
            let (kind, zone) = (names.intern(words[1]), names.intern(words[2]));
            let pins = [
                Requirement::is(names.intern("karpenter.sh/capacity-type"), kind),
                Requirement::is(names.intern("topology.kubernetes.io/zone"), zone),
            ];
            let reservation = (words[1] == "reserved").then_some((zone, 1));
            let offering = Offering {
                instance_type: of,
                requirements: Arc::from(pins),
                zone: Some(zone),
                capacity_type: Some(kind),
                price: words[3].parse().unwrap(),
                available: words.len() == 4,
                reservation,
            };
            types.last_mut().unwrap().1.push(offering);
        }
        world.catalogue = Catalogue::new(types, &world.names);
        world
    }

    /// What the claim for types in this order says that counts on an offering, with a requirement.
    fn said(lines: &[&str], types: &[u32], offering: u32, required: (&str, &[&str])) -> String {
        of_plan(lines, types, (offering, false), required)
    }

    /// The same for an offering, and whether others of its price cost more.
    fn of_plan(
        lines: &[&str],
        types: &[u32],
        (offering, dearer_at_same_price): (u32, bool),
        required: (&str, &[&str]),
    ) -> String {
        let mut world = world(lines);
        let values = required.1.iter().map(|value| world.names.intern(value));
        let values = values.collect();
        let key = world.names.intern(required.0);
        let claim = PlannedClaim {
            pool: PoolIx(0),
            offering: OfferingId(offering),
            types: types.iter().map(|at| TypeId(*at)).collect(),
            requirements: vec![(key, values)],
            open: Vec::new(),
            price: world.catalogue.offering(OfferingId(offering)).price,
            effective_cost: 0.0,
            pods: Vec::new(),
            requests: Resources::default(),
            min_values_relaxed: false,
            discouraged_by: None,
            dearer_at_same_price,
        };
        let annotations = launch_order(&world, &claim).into_iter();
        let shown: Vec<String> = annotations
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        shown.join(" ")
    }

    #[test]
    fn a_claim_says_when_prices_would_choose_something_else() {
        let sold = [
            "a on-demand z1 3",
            "a spot z1 1",
            "a spot z2 2 out",
            "b on-demand z1 4",
            "b spot z1 2",
            "c reserved z1 0",
            "c spot z1 5",
        ];
        let any: (&str, &[&str]) = ("topology.kubernetes.io/zone", &["z1", "z2"]);
        let on_demand: (&str, &[&str]) = ("karpenter.sh/capacity-type", &["on-demand"]);
        let reserved: (&str, &[&str]) = ("karpenter.sh/capacity-type", &["reserved"]);
        assert_eq!(said(&sold, &[0, 1], 1, any), "", "spot, cheapest first");
        assert_eq!(
            said(&sold, &[0, 1], 0, on_demand),
            "",
            "spot is not admitted"
        );
        assert_eq!(said(&sold, &[0, 1, 2], 1, any), "", "another's reservation");
        assert_eq!(said(&sold, &[2], 5, reserved), "", "its own reservation");
        let order = |word: &str| format!("longshore.dev/launch-order={word}");
        assert_eq!(
            said(&sold, &[1, 0], 4, any),
            order("spot"),
            "a scorer would have b"
        );
        assert_eq!(
            said(&sold, &[0, 1], 0, any),
            order("on-demand"),
            "a scorer would have no spot"
        );
        let zones = ["a spot z1 1", "a spot z2 2", "a spot z3 2", "b spot z1 3"];
        let zone = |name: &str| format!("{} longshore.dev/launch-zone={name}", order("spot"));
        assert_eq!(said(&zones, &[0, 1], 0, any), "", "the cheapest zone");
        assert_eq!(said(&zones, &[0, 1], 1, any), zone("z2"));
        assert_eq!(
            said(&zones, &[1, 0], 3, any),
            order("spot"),
            "there is one zone for b"
        );
        let second: (&str, &[&str]) = ("topology.kubernetes.io/zone", &["z2"]);
        assert_eq!(said(&zones, &[0], 1, second), "", "its only zone");
    }

    #[test]
    fn a_claim_says_what_is_preferred_among_offerings_of_equal_price() {
        let any: (&str, &[&str]) = ("topology.kubernetes.io/zone", &["z1", "z2"]);
        let equal = [
            "a on-demand z1 3",
            "a on-demand z2 3",
            "a spot z1 3",
            "b on-demand z1 3",
        ];
        let preferred = |types: &[u32], line: usize| {
            let world = world(&equal);
            let words: Vec<&str> = equal[line].split(' ').collect();
            let is_meant = |of: &Offering| {
                let name = world.catalogue.instance_type(of.instance_type).name;
                let found = [Some(name), of.capacity_type, of.zone];
                let found = found.map(|word| word.map(|word| world.names.text(word)));
                found == [words[0], words[1], words[2]].map(Some)
            };
            let at = world.catalogue.offerings().iter().position(is_meant);
            of_plan(&equal, types, (at.unwrap() as u32, true), any)
        };
        let order = "longshore.dev/launch-order=on-demand";
        let zone = |name| format!("{order} longshore.dev/launch-zone={name}");
        assert_eq!(preferred(&[0, 1], 1), zone("z2"), "a zone");
        assert_eq!(preferred(&[0, 1], 0), zone("z1"), "a capacity type");
        assert_eq!(preferred(&[1, 0], 3), order, "a type");
        assert_eq!(said(&equal, &[0, 1], 1, any), "", "nothing is preferred");
    }
}
