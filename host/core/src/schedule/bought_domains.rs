//! The domains where a plan buys nodes, compared with those that its spread constraints counted.

use super::domains::{Counted, alternatives};
use super::first_fit::CompiledCluster;
use super::sets::{Set, Sets};
use super::topology::{ConstraintKind, GroupKey};
use crate::matching::untolerated;
use crate::plan::{Plan, PlannedClaim};

/// Domains that a plan's own claims make count, and that its spread constraints were planned
/// without, where that would put a domain beyond its `maxSkew`. Each claim counts with its cheapest
/// node.
pub fn bought_by_others(compiled: &CompiledCluster<'_>, plan: &Plan, counted: &Counted) -> Counted {
    let (topology, mut found) = (&compiled.topology, Counted::default());
    let mut bought: Vec<(&PlannedClaim, Sets)> = Vec::new();
    for group in topology.groups.iter().filter(|_| !counted.everybody) {
        let (ConstraintKind::Spread { max_skew, .. }, Some(key)) = (group.spec.rule, group.key)
        else {
            continue;
        };
        let domains = &topology.keys[key];
        let most = group.count.iter().copied().max().unwrap_or(0);
        let overlooked = |d: &usize| {
            !group.eligible_domains[*d]
                && i64::from(most) > i64::from(group.count[*d]) + i64::from(max_skew)
        };
        for domain in (0..domains.values.len()).filter(overlooked) {
            if bought.is_empty() {
                bought.extend(
                    plan.claims
                        .iter()
                        .map(|claim| (claim, labels(claim, compiled))),
                );
            }
            let value = domains.values[domain];
            let there = |(claim, labels): &(&PlannedClaim, Sets)| {
                labels.get(domains.key).and_then(Set::single) == Some(value)
                    && passes(&group.spec, claim, labels, compiled)
            };
            if bought.iter().any(there) {
                found.domains.insert((group.spec.clone(), value));
            }
        }
    }
    found
}

/// What is known of the labels of the node that a claim counts on.
fn labels(claim: &PlannedClaim, compiled: &CompiledCluster<'_>) -> Sets {
    let numbers = &compiled.states.numbers;
    let catalogue = &compiled.snapshot.world.catalogue;
    let offering = catalogue.offering(claim.offering);
    let mut sets = Sets::new(&claim.open, numbers);
    for (key, values) in &claim.requirements {
        sets.add(*key, &Set::of(values.iter().copied()), numbers);
    }
    let of_type = &catalogue.instance_type(offering.instance_type).requirements;
    sets.add_all(
        &Sets::new(of_type.iter().chain(offering.requirements.iter()), numbers),
        numbers,
    );
    sets
}

/// Whether such a node of a claim's NodePool passes the filter of a group.
fn passes(
    spec: &GroupKey,
    claim: &PlannedClaim,
    labels: &Sets,
    compiled: &CompiledCluster<'_>,
) -> bool {
    let states = &compiled.states;
    let taints = &compiled.snapshot.world.pools[claim.pool.0 as usize].taints;
    if spec
        .tolerations
        .as_ref()
        .is_some_and(|t| untolerated(t, taints, false).is_some())
    {
        return false;
    }
    let Some((selector, terms)) = spec.asked() else {
        return true;
    };
    let asked = alternatives(&selector, &terms, states);
    asked.iter().any(|a| {
        labels
            .conflict(a, |key| states.may_be_undefined(key), &states.numbers)
            .is_none()
    })
}
