//! Where the pods of nodes in commands of disruption will go, as the annotation [`MOVES`] of their
//! NodeClaims says.
//!
//! A pod that will move keeps room on its destination from the moment that the command is written
//! down until the pod has left its node. So the room is not taken as free, and the destination is not
//! disrupted. Only objects say so: a process that starts anew finds the same.

use rustc_hash::FxHashMap;

use crate::ids::PodIx;
use crate::model::{ClusterObjects, NodeClaim, Pod, Symbol};

/// Annotation of a NodeClaim that is being disrupted: the command that it belongs to.
pub const COMMAND: &str = "longshore.dev/disruption";
/// Annotation of a NodeClaim in a command: destinations of its pods, `NODE=NAMESPACE/POD,…;…`. A
/// destination that has no Node yet goes by the name of its NodeClaim.
pub const MOVES: &str = "longshore.dev/moves";

/// Taint of nodes that later waves of disruption remove, with the effect `PreferNoSchedule`: evicted
/// pods go elsewhere if they can. Decisions do not see it.
pub const LATER: &str = "longshore.dev/disruption-planned";

/// A destination with its pods as the annotation has them.
pub type MovesTo<'t> = (&'t str, Vec<&'t str>);

/// The text of an annotation [`MOVES`]: each destination with its pods.
pub fn write<'t>(moves: impl IntoIterator<Item = (&'t str, &'t [String])>) -> String {
    let moves = moves.into_iter();
    let all = moves.map(|(node, pods)| format!("{node}={}", pods.join(",")));
    all.collect::<Vec<_>>().join(";")
}

/// What an annotation [`MOVES`] says; parts that make no sense are left out.
pub fn read(text: &str) -> impl Iterator<Item = MovesTo<'_>> {
    let parts = text.split(';').filter_map(|part| part.split_once('='));
    parts.map(|(node, pods)| (node, pods.split(',').collect()))
}

/// Pods that will move and have not left their node, with the names of their destinations.
pub fn destinations(world: &ClusterObjects) -> Vec<(PodIx, Symbol)> {
    let Some(key) = world.names.get(MOVES) else {
        return Vec::new();
    };
    let says = |claim: &NodeClaim| Some((claim.node_name?, claim.annotations.get(key)?));
    let said: Vec<(Symbol, Symbol)> = world.claims.iter().filter_map(says).collect();
    if said.is_empty() {
        return Vec::new();
    }
    let pods = pods_of(world, &said);
    let mut found = Vec::new();
    for (node, text) in said {
        for (to, moved) in read(world.names.text(text)) {
            let Some(to) = world.names.get(to).map(|name| node_of(world, name)) else {
                continue;
            };
            let there = moved.into_iter().filter_map(|pod| pods.get(&(node, pod)));
            found.extend(there.filter(|_| to != node).map(|&pod| (pod, to)));
        }
    }
    found
}

/// Running pods of some nodes, by node and `namespace/name`.
fn pods_of<'w>(
    world: &'w ClusterObjects,
    said: &[(Symbol, Symbol)],
) -> FxHashMap<(Symbol, &'w str), PodIx> {
    let mut wanted: FxHashMap<(Symbol, &str), Vec<&str>> = FxHashMap::default();
    for &(node, text) in said {
        for (_, moved) in read(world.names.text(text)) {
            let named = moved
                .into_iter()
                .filter_map(|pod| Some((pod.split_once('/')?.1, pod)));
            named.for_each(|(name, pod)| wanted.entry((node, name)).or_default().push(pod));
        }
    }
    let runs = |pod: &Pod| !pod.terminal && !pod.deleting;
    let pods = world.pods.iter().enumerate().filter(|(_, pod)| runs(pod));
    let found = pods.filter_map(|(at, pod)| {
        let (node, namespace) = (pod.node?, world.shapes.get(pod.shape).namespace);
        let namespace = world.names.text(namespace);
        let mine = |full: &&&str| full.split_once('/').is_some_and(|(of, _)| of == namespace);
        let full = wanted.get(&(node, &*pod.name))?.iter().find(mine)?;
        Some(((node, *full), PodIx(at as u32)))
    });
    found.collect()
}

/// The Node of that name, or of the NodeClaim of that name.
fn node_of(world: &ClusterObjects, name: Symbol) -> Symbol {
    let claim = world.claims.iter().find(|claim| claim.name == name);
    claim.and_then(|claim| claim.node_name).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let (two, one) = (["a/x", "b/y"].map(str::to_owned), ["a/z".to_owned()]);
        let text = write([("node-1", &two[..]), ("node-2", &one[..])]);
        assert_eq!(text, "node-1=a/x,b/y;node-2=a/z");
        assert_eq!(
            read(&text).collect::<Vec<_>>(),
            [("node-1", vec!["a/x", "b/y"]), ("node-2", vec!["a/z"])]
        );
        assert_eq!(read("").count() + read("nonsense;;").count(), 0);
    }
}
