//! Bound pods by shape: what topology rules count.

use rustc_hash::FxHashMap;

use super::nodes::StateNode;
use crate::ids::NodeIx;
use crate::model::{ClusterObjects, LabelSelector, SelectorOp, ShapeId, Symbol};

/// Where pods of each shape run. Terminal pods do not count. Terminating pods are kept apart: they
/// count for affinity and anti-affinity, and not for topology spread.
#[derive(Clone, Debug, Default)]
pub struct Running {
    by_shape: Vec<Vec<(NodeIx, u32)>>,
    /// The same with terminating pods, of shapes that have any.
    with_terminating: FxHashMap<ShapeId, Vec<(NodeIx, u32)>>,
    /// Shapes with running pods, terminating ones included, by a label that they carry.
    postings: FxHashMap<(Symbol, Symbol), Vec<ShapeId>>,
    /// Shapes with running pods, in order.
    shapes: Vec<ShapeId>,
    /// Those among them with required anti-affinity, by namespace and labels as text.
    pub anti_affine: Vec<ShapeId>,
}

impl Running {
    /// Indexes the pods bound to `nodes`.
    pub fn index(world: &ClusterObjects, nodes: &[StateNode]) -> Self {
        let mut all = Running {
            by_shape: vec![Vec::new(); world.shapes.len()],
            ..Running::default()
        };
        for (at, node) in nodes.iter().enumerate() {
            for pod in &node.pods {
                let on = &mut all.by_shape[world.pods[pod.0 as usize].shape.0 as usize];
                match on.last_mut() {
                    Some((n, count)) if n.0 as usize == at => *count += 1,
                    _ => on.push((NodeIx(at as u32), 1)),
                }
            }
        }
        for (at, node) in nodes.iter().enumerate() {
            for pod in &node.terminating {
                let shape = world.pods[pod.0 as usize].shape;
                let live = &all.by_shape[shape.0 as usize];
                let on = all
                    .with_terminating
                    .entry(shape)
                    .or_insert_with(|| live.clone());
                match on.binary_search_by_key(&(at as u32), |(n, _)| n.0) {
                    Ok(known) => on[known].1 += 1,
                    Err(new) => on.insert(new, (NodeIx(at as u32), 1)),
                }
            }
        }
        for (id, shape) in world
            .shapes
            .iter()
            .enumerate()
            .map(|(id, shape)| (ShapeId(id as u32), shape))
        {
            if all.with_terminating(id).is_empty() {
                continue;
            }
            all.shapes.push(id);
            shape
                .labels
                .iter()
                .for_each(|label| all.postings.entry(label).or_default().push(id));
            if !shape.anti_affinity.is_empty() {
                all.anti_affine.push(id);
            }
        }
        all.anti_affine.sort_by_cached_key(|&id| {
            let shape = world.shapes.get(id);
            let text = |s: Symbol| world.names.text(s).to_owned();
            let mut labels: Vec<(String, String)> = shape
                .labels
                .iter()
                .map(|(k, v)| (text(k), text(v)))
                .collect();
            labels.sort();
            (text(shape.namespace), labels)
        });
        all
    }

    /// Nodes and counts of the running pods of a shape, terminating ones left out.
    pub fn on(&self, shape: ShapeId) -> &[(NodeIx, u32)] {
        self.by_shape
            .get(shape.0 as usize)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// Nodes and counts of the running pods of a shape, terminating ones included.
    pub fn with_terminating(&self, shape: ShapeId) -> &[(NodeIx, u32)] {
        let more = self.with_terminating.get(&shape).map(Vec::as_slice);
        more.unwrap_or_else(|| self.on(shape))
    }

    /// Shapes with running pods that a selector might select: a superset, by its first rule that
    /// names values.
    pub fn candidates(&self, selector: &LabelSelector) -> Vec<ShapeId> {
        let Some(rules) = &selector.0 else {
            return Vec::new();
        };
        let named = rules.iter().find_map(|r| match &r.op {
            SelectorOp::In(values) => Some((r.key, values)),
            _ => None,
        });
        let Some((key, values)) = named else {
            return self.shapes.clone();
        };
        let mut found: Vec<ShapeId> = values
            .iter()
            .filter_map(|&v| self.postings.get(&(key, v)))
            .flatten()
            .copied()
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}
