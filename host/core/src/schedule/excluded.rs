//! What a policy excludes is not bought. A NodeClaim knows no offerings, only types and values of labels:
//! what it admits is narrowed until none of its offerings is excluded. What is only discouraged is left out
//! in the same way, unless it is what is counted on.

use super::first_fit::CompiledCluster;
use super::node_specs::NodeSpecId;
use crate::model::{ClusterObjects, Offering, OfferingId, Symbol, TypeId};
use crate::plan::admits;
use crate::policy::Scores;

/// What a claim may be bought as, and what the planner counts on.
pub struct Choice<'a> {
    /// Instance types, the planned one first.
    pub types: &'a mut Vec<TypeId>,
    /// Values of labels, by key text.
    pub requirements: &'a mut Vec<(Symbol, Vec<Symbol>)>,
    /// What is counted on: it is not excluded.
    pub planned: OfferingId,
}

/// Leaves out what the policies of a spec's NodePool exclude. What `minValues` demand stays.
pub fn leave_out(p: &CompiledCluster<'_>, spec: NodeSpecId, choice: Choice<'_>) {
    let pool = p.states.get(spec).pool;
    let asked = &p.record(pool).requirements;
    let least = |key: Symbol| {
        let of = asked.iter().filter(|of| of.key == key);
        usize::from(of.filter_map(|of| of.min_values).max().unwrap_or(0))
    };
    narrowed(&p.snapshot.world, &p.states.scores[pool], least, choice);
}

/// Leaves out zones and capacity types of which everything is excluded, then others than the planned
/// ones where the planned type has some, then types with something that is excluded. `least` is the
/// `minValues` of a label, 0 without: fewer are not left.
fn narrowed(
    world: &ClusterObjects,
    scores: &Scores,
    least: impl Fn(Symbol) -> usize,
    choice: Choice<'_>,
) {
    let leaves_discouraged =
        scores.discourages_any() && scores.discouraged_by(choice.planned.0).is_none();
    if !leaves_discouraged && !scores.cost.contains(&f64::INFINITY) {
        return;
    }
    let is_excluded = |id: OfferingId| {
        scores.excludes(id.0) || (leaves_discouraged && scores.discouraged_by(id.0).is_some())
    };
    let has_excluded = |choice: &Choice<'_>, of: TypeId| {
        admitted(world, &*choice.requirements, of).any(|(id, _)| is_excluded(id))
    };
    let all_bought = |choice: &Choice<'_>| !choice.types.iter().any(|of| has_excluded(choice, *of));
    if all_bought(&choice) {
        return;
    }
    let key = |name: &str| world.names.get(name);
    let keys: [(Option<Symbol>, fn(&Offering) -> Option<Symbol>); 2] = [
        (key("karpenter.sh/capacity-type"), |of| of.capacity_type),
        (key("topology.kubernetes.io/zone"), |of| of.zone),
    ];
    for (key, value) in keys {
        let Some(key) = key else { continue };
        let values = |bought_alone: bool| -> Vec<Symbol> {
            let all = choice.types.iter();
            let all = all.flat_map(|of| admitted(world, &*choice.requirements, *of));
            let all = all.filter(|(id, _)| !bought_alone || !is_excluded(*id));
            let mut values: Vec<Symbol> = all.filter_map(|(_, of)| value(of)).collect();
            values.sort_by_key(|value| world.names.text(*value));
            values.dedup();
            values
        };
        let (bought, all) = (values(true), values(false));
        if bought.len() < all.len() && bought.len() >= least(key) {
            narrow(world, choice.requirements, key, bought);
        }
    }
    let planned = world.catalogue.offering(choice.planned);
    for (key, value) in keys.into_iter().rev() {
        if has_excluded(&choice, planned.instance_type)
            && let Some((key, value)) = key.zip(value(planned))
            && least(key) <= 1
        {
            narrow(world, choice.requirements, key, vec![value]);
        }
    }
    let kept: Vec<TypeId> = choice
        .types
        .iter()
        .copied()
        .filter(|of| *of == planned.instance_type || !has_excluded(&choice, *of))
        .collect();
    let instance_type = key("node.kubernetes.io/instance-type");
    if instance_type.is_none_or(|key| kept.len() >= least(key)) {
        *choice.types = kept;
    }
}

/// Offerings of a type that requirements admit, also those that cannot be had now.
fn admitted<'a>(
    world: &'a ClusterObjects,
    requirements: &'a [(Symbol, Vec<Symbol>)],
    of: TypeId,
) -> impl Iterator<Item = (OfferingId, &'a Offering)> {
    let ids = world.catalogue.instance_type(of).offerings.clone();
    let all = ids.map(OfferingId).zip(world.catalogue.offerings_of(of));
    all.filter(|(_, offering)| admits(requirements, offering))
}

/// Sets the values of a label.
fn narrow(
    world: &ClusterObjects,
    requirements: &mut Vec<(Symbol, Vec<Symbol>)>,
    key: Symbol,
    values: Vec<Symbol>,
) {
    match requirements.iter_mut().find(|(own, _)| *own == key) {
        Some((_, own)) => *own = values,
        None => {
            requirements.push((key, values));
            requirements.sort_by_key(|(key, _)| world.names.text(*key));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{Catalogue, InstanceType, Requirement};
    use crate::policy::{ByPrice, Policies as _, PolicyCosts};

    /// What is sold: `TYPE CAPACITY-TYPE ZONE`, a `-` behind what is excluded, a `~` behind what is
    /// discouraged. The first is counted on.
    fn left(lines: &[&str], min_types: usize) -> String {
        let mut world = ClusterObjects::default();
        let names = &mut world.names;
        let (ct, zone) = (
            names.intern("karpenter.sh/capacity-type"),
            names.intern("topology.kubernetes.io/zone"),
        );
        let by_type = names.intern("node.kubernetes.io/instance-type");
        let mut types: Vec<(InstanceType, Vec<Offering>)> = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            let words: Vec<&str> = line.split(' ').collect();
            let name = names.intern(words[0]);
            if types.last().is_none_or(|(last, _)| last.name != name) {
                types.push((InstanceType::named(name), Vec::new()));
            }
            let of = TypeId(types.len() as u32 - 1);
            let (kind, place) = (names.intern(words[1]), names.intern(words[2]));
            let offering = Offering {
                instance_type: of,
                requirements: Arc::from([Requirement::is(ct, kind), Requirement::is(zone, place)]),
                zone: Some(place),
                capacity_type: Some(kind),
                // What is sold is sorted: prices say which line it was.
                price: match words.get(3) {
                    Some(&"-") => f64::INFINITY,
                    _ => at as f64,
                },
                available: true,
                reservation: None,
            };
            if let Some((_, offerings)) = types.last_mut() {
                offerings.push(offering);
            }
        }
        world.catalogue = Catalogue::new(types, &world.names);
        let mut scores = ByPrice.score(&world.catalogue, &world.names, by_type);
        let is_discouraged = |cost: f64| {
            let line = lines.get(cost as usize);
            cost.is_finite() && line.is_some_and(|line| line.ends_with('~'))
        };
        let rows = (0..).zip(scores.cost.iter());
        let discouraged = rows.filter(|(_, cost)| is_discouraged(**cost));
        scores.policies = vec![PolicyCosts {
            policy: "rather-not".into(),
            cost: scores.cost.clone(),
            discouraged: discouraged.map(|(row, _)| row).collect(),
        }];
        let planned = scores.cost.iter().position(|cost| *cost == 0.0).unwrap();
        let mut left: Vec<TypeId> = (0..world.catalogue.types().len() as u32)
            .map(TypeId)
            .collect();
        let mut requirements = Vec::new();
        let choice = Choice {
            types: &mut left,
            requirements: &mut requirements,
            planned: OfferingId(planned as u32),
        };
        let least = |key| if key == by_type { min_types } else { 0 };
        narrowed(&world, &scores, least, choice);
        let name = |of: &TypeId| world.names.text(world.catalogue.instance_type(*of).name);
        let mut text = left.iter().map(name).collect::<Vec<_>>().join(" ");
        for (_, values) in &requirements {
            let values: Vec<&str> = values
                .iter()
                .map(|value| world.names.text(*value))
                .collect();
            text += &format!("; {}", values.join(" "));
        }
        text
    }

    #[test]
    fn what_nothing_is_excluded_of_stays_as_it_is() {
        assert_eq!(
            left(&["a spot z1", "a on-demand z1", "b spot z2"], 0),
            "a b"
        );
    }

    #[test]
    fn a_zone_or_a_capacity_type_that_is_excluded_is_left_out() {
        let zone = ["a spot z1", "a spot z2 -", "b spot z1", "b spot z2 -"];
        assert_eq!(left(&zone, 0), "a b; z1");
        let spot = [
            "a on-demand z1",
            "a spot z1 -",
            "b on-demand z2",
            "b spot z2 -",
        ];
        assert_eq!(left(&spot, 0), "a b; on-demand");
    }

    #[test]
    fn what_is_discouraged_is_left_out_unless_it_is_counted_on() {
        let zone = ["a spot z1", "a spot z2 ~", "b spot z1", "b spot z2 ~"];
        assert_eq!(left(&zone, 0), "a b; z1");
        let counted_on = ["a spot z1 ~", "a spot z2 -", "b spot z1 ~", "b spot z2"];
        assert_eq!(left(&counted_on, 0), "a b; z1");
    }

    #[test]
    fn a_type_with_something_excluded_goes_and_the_planned_one_stays_where_it_is_not() {
        let other = ["a spot z1", "a spot z2", "b spot z1", "b spot z2 -"];
        assert_eq!(left(&other, 0), "a");
        assert_eq!(left(&other, 2), "a b");
        let planned = ["a spot z1", "a spot z2 -", "b spot z1", "b spot z2"];
        assert_eq!(left(&planned, 0), "a b; z1");
    }
}
