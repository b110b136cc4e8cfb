//! Bound pods by shape: what topology rules count.

use rustc_hash::FxHashMap;

use super::StateNode;
use crate::ids::NodeIx;
use crate::model::{ClusterObjects, LabelSelector, SelectorOp, ShapeId, Symbol};

/// Where pods of each shape run. Pods that are terminal or terminating do not count.
#[derive(Clone, Debug, Default)]
pub struct Running {
    by_shape: Vec<Vec<(NodeIx, u32)>>,
    /// Shapes with running pods by a label that they carry.
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
        for (id, shape) in world
            .shapes
            .iter()
            .enumerate()
            .filter(|(id, _)| !all.by_shape[*id].is_empty())
        {
            let id = ShapeId(id as u32);
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

    /// Nodes and counts of the running pods of a shape.
    pub fn on(&self, shape: ShapeId) -> &[(NodeIx, u32)] {
        self.by_shape
            .get(shape.0 as usize)
            .map(Vec::as_slice)
            .unwrap_or_default()
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
