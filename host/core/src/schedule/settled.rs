//! What a NodeClaim says of labels: those that its instance types settle, and those left open.

use super::first_fit::CompiledCluster;
use super::node_specs::NodeSpecId;
use crate::model::{Op, Requirement, Symbol, TypeId};

/// Karpenter's bound on the instance types of one NodeClaim.
pub const MOST_TYPES: usize = 600;

/// Labels with several possible values, and requirements on those that are not settled. If types
/// and offerings have the label, the set has their allowed values.
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
    for (key, set) in s
        .sets
        .0
        .iter()
        .filter(|(key, _)| Some(*key) != instance_type)
    {
        let mut values = set.values.to_vec();
        if set.complement {
            values = offered(p, state, types, *key);
            values.retain(|&v| set.admits(v, &p.states.numbers));
        }
        if values.is_empty() {
            open.extend(set.ops().into_iter().map(|op| Requirement::new(*key, op)));
        } else {
            values.sort_by_key(|&v| world.names.text(v));
            requirements.push((*key, values));
        }
    }
    requirements.sort_by_key(|(key, _)| world.names.text(*key));
    open.sort_by_key(|r| world.names.text(r.key));
    (requirements, open)
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
