//! NodePools whose new nodes another agent makes unusable with a taint.
//!
//! An agent may taint every new node, for a while or for good, without an entry in `startupTaints`.
//! Then each purchase yields an empty node and the pod stays pending: without end, a node every few
//! seconds. So after a few such nodes purchases back off exponentially, counted from the newest of
//! them. All of this is derived from the cluster and nothing is remembered: a node stops counting
//! when its taint is removed, when it is gone, or when it is no longer new.

use rustc_hash::FxHashMap;

use super::nodes::StateNode;
use crate::ids::PodIx;
use crate::model::{ClusterObjects, NodeRecord, Symbol, Symbols, Taint, TaintEffect};
use crate::reasons::ForeignTaintBackoff;

/// How long a node is new, seconds.
const NEW_NODE_SECONDS: i64 = 600;
/// So many useless nodes are bought without a word.
const FREE_PURCHASES: u32 = 3;
/// How long the next purchase waits then, seconds. Every further node doubles it.
const FIRST_BACKOFF_SECONDS: i64 = 5;
/// Longest wait of a purchase, seconds.
const MAX_BACKOFF_SECONDS: i64 = 120;

/// NodePools that wait, by name.
pub fn find(world: &ClusterObjects, nodes: &[StateNode]) -> FxHashMap<Symbol, ForeignTaintBackoff> {
    let daemon = world.names.get("DaemonSet");
    let is_daemon = |pod: &PodIx| {
        world.pods[pod.0 as usize]
            .owner
            .is_some_and(|owner| Some(owner.0) == daemon)
    };
    let idle = nodes
        .iter()
        .filter(|n| n.initialized && !n.taints.is_empty() && n.pods.iter().all(is_daemon));
    let idle: FxHashMap<Symbol, Symbol> = idle.filter_map(|n| Some((n.name, n.pool?))).collect();
    if idle.is_empty() {
        return FxHashMap::default();
    }
    let asked_for: FxHashMap<Symbol, &[Taint]> = world
        .claims
        .iter()
        .filter_map(|claim| Some((claim.node_name?, claim.taints.as_slice())))
        .collect();
    let by_others = |node: &NodeRecord| {
        let asked_for = asked_for.get(&node.name)?;
        node.taints
            .iter()
            .find(|t| is_foreign(t, &world.names) && !asked_for.contains(t))
            .copied()
    };
    let mut found: FxHashMap<Symbol, (&NodeRecord, ForeignTaintBackoff)> = FxHashMap::default();
    for node in world
        .nodes
        .iter()
        .filter(|node| node.created > world.now - NEW_NODE_SECONDS)
    {
        let Some((&pool, taint)) = idle.get(&node.name).zip(by_others(node)) else {
            continue;
        };
        let (newest, spoiled) = found.entry(pool).or_insert((
            node,
            ForeignTaintBackoff {
                nodes: 0,
                taint,
                until: 0,
            },
        ));
        spoiled.nodes += 1;
        let key = |node: &NodeRecord| (node.created, world.names.text(node.name));
        if key(node) > key(newest) {
            (*newest, spoiled.taint) = (node, taint);
        }
    }
    let waits = |(pool, (newest, mut spoiled)): (Symbol, (&NodeRecord, ForeignTaintBackoff))| {
        let doubled = spoiled.nodes.checked_sub(FREE_PURCHASES)?.min(16);
        spoiled.until =
            newest.created + (FIRST_BACKOFF_SECONDS << doubled).min(MAX_BACKOFF_SECONDS);
        (spoiled.until > world.now).then_some((pool, spoiled))
    };
    found.into_iter().filter_map(waits).collect()
}

/// Whether it keeps pods away and is neither Karpenter's nor Kubernetes' own.
fn is_foreign(taint: &Taint, names: &Symbols) -> bool {
    let group = names
        .text(taint.key)
        .split_once('/')
        .map_or("", |(group, _)| group);
    taint.effect != TaintEffect::PreferNoSchedule
        && !matches!(
            group,
            "karpenter.sh" | "node.kubernetes.io" | "node.cloudprovider.kubernetes.io"
        )
}
