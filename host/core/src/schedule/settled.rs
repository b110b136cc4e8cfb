//! What a NodeClaim says of labels: those that its instance types settle, and those left open.

use super::first_fit::CompiledCluster;
use super::node_specs::NodeSpecId;
use super::sets::Set;
use crate::model::{Op, Requirement, Symbol, TypeId, fields, own_values};

/// Karpenter's bound on the instance types of one NodeClaim.
pub const MOST_TYPES: usize = 600;

/// Labels with several possible values, and requirements on those that are not settled. If types
/// and offerings have the label, the set has their allowed values. If only the NodePool knows it,
/// there is the one value that the node is given ([`own_values`]), beside what is required of it.
pub fn settled(
    p: &CompiledCluster<'_>,
    state: NodeSpecId,
    types: &[TypeId],
) -> (Vec<(Symbol, Vec<Symbol>)>, Vec<Requirement>) {
    let world = &p.snapshot.world;
    let s = p.states.get(state);
    let instance_type = world.names.get("node.kubernetes.io/instance-type");
    let mut requirements: Vec<(Symbol, Vec<Symbol>)> = Vec::new();
    let mut open = Vec::new();
    for (key, set) in
        s.sets.0.iter().filter(|(key, _)| {
            Some(*key) != instance_type && !fields::is_field(world.names.text(*key))
        })
    {
        let mut values = set.values.to_vec();
        if set.complement {
            values = offered(p, state, types, *key);
            values.retain(|&v| set.admits(v, &p.states.numbers));
        }
        values.sort_by_key(|&v| world.names.text(v));
        if values.is_empty() {
            open.extend(set.ops().into_iter().map(|op| Requirement::new(*key, op)));
        }
        if values.len() != 1 && is_given(p, s.pool, *key) {
            values = given(p, set, &values).into_iter().collect();
        }
        if !values.is_empty() {
            requirements.push((*key, values));
        }
    }
    requirements.sort_by_key(|(key, _)| world.names.text(*key));
    open.sort_by_key(|r| world.names.text(r.key));
    (requirements, open)
}

/// Whether the nodes of a NodePool have no value of a label but the one that they are given.
fn is_given(p: &CompiledCluster<'_>, pool: usize, key: Symbol) -> bool {
    let world = &p.snapshot.world;
    let asked = &p.record(pool).requirements;
    let counted = asked.iter().any(|r| r.key == key && r.min_values.is_some());
    !counted && own_values::is_given(world, asked, key)
}

/// The value that a node is given: the first of those that are named, else an integer.
fn given(p: &CompiledCluster<'_>, set: &Set, named: &[Symbol]) -> Option<Symbol> {
    let names = &p.snapshot.world.names;
    if !set.complement {
        return named.first().copied();
    }
    let symbol = |value: i64| names.get(&value.to_string());
    let excluded = |value: i64| symbol(value).is_some_and(|sym| set.values.contains(&sym));
    own_values::largest(set.lo, set.hi, excluded).and_then(symbol)
}

/// Values of a label that types and their offerings name.
fn offered(
    p: &CompiledCluster<'_>,
    state: NodeSpecId,
    types: &[TypeId],
    key: Symbol,
) -> Vec<Symbol> {
    let s = p.states.get(state);
    let mut values: Vec<Symbol> = Vec::new();
    if p.states.is_cell_key(key) {
        let cells = s.cells.iter().map(|c| &p.states.cells[c]);
        values.extend(
            cells
                .flat_map(|c| &c.values)
                .filter(|(k, _)| *k == key)
                .map(|v| v.1),
        );
    }
    for &t in types {
        for r in p
            .snapshot
            .world
            .catalogue
            .instance_type(t)
            .requirements
            .iter()
            .filter(|r| r.key == key)
        {
            if let Op::In(of_type) = &r.op {
                values.extend(of_type.iter().copied());
            }
        }
    }
    values.sort_unstable();
    values.dedup();
    values
}
