//! An index of pod groups by label, so that a selector is compared only with groups that it may
//! select.

use rustc_hash::FxHashMap;

use super::pod_groups::PodGroup;
use super::topology::GroupKey;
use crate::model::{LabelSelector, PodShape, SelectorOp, Symbol};

/// Positions of pod groups by the labels and the namespace of their pods.
pub struct ByLabel<'i> {
    shapes: Vec<&'i PodShape>,
    all: Vec<u32>,
    by_label: FxHashMap<(Symbol, Symbol), Vec<u32>>,
    by_key: FxHashMap<Symbol, Vec<u32>>,
    by_namespace: FxHashMap<Symbol, Vec<u32>>,
}

impl<'i> ByLabel<'i> {
    /// Indexes pod groups.
    pub fn new(items: &'i [PodGroup]) -> Self {
        let shapes: Vec<&PodShape> = items.iter().map(|item| &*item.shape).collect();
        let mut index = ByLabel {
            all: (0..shapes.len() as u32).collect(),
            by_label: FxHashMap::default(),
            by_key: FxHashMap::default(),
            by_namespace: FxHashMap::default(),
            shapes: Vec::new(),
        };
        for (&at, shape) in index.all.iter().zip(&shapes) {
            index
                .by_namespace
                .entry(shape.namespace)
                .or_default()
                .push(at);
            for (key, value) in shape.labels.iter() {
                index.by_label.entry((key, value)).or_default().push(at);
                index.by_key.entry(key).or_default().push(at);
            }
        }
        ByLabel { shapes, ..index }
    }

    /// Pod groups that a rule selects, in order.
    pub fn selected(&self, spec: &GroupKey) -> impl Iterator<Item = usize> + use<> {
        let mut found = self.candidates(&spec.selector, spec.namespaces.as_deref());
        found.retain(|at| {
            let shape = self.shapes[*at as usize];
            spec.selects(shape.namespace, &shape.labels)
        });
        found.into_iter().map(|at| at as usize)
    }

    /// A superset of them: by the first rule that asks for values, else by one that asks for a
    /// label, else by namespace.
    fn candidates(&self, selector: &LabelSelector, namespaces: Option<&[Symbol]>) -> Vec<u32> {
        let Some(rules) = &selector.0 else {
            return Vec::new();
        };
        let values = rules.iter().find_map(|rule| match &rule.op {
            SelectorOp::In(values) => Some((rule.key, values)),
            _ => None,
        });
        if let Some((key, values)) = values {
            return merged(
                values
                    .iter()
                    .filter_map(|&value| self.by_label.get(&(key, value))),
            );
        }
        let there = rules.iter().find(|rule| rule.op == SelectorOp::Exists);
        match (there, namespaces) {
            (Some(rule), _) => self.by_key.get(&rule.key).cloned().unwrap_or_default(),
            (None, Some(names)) => {
                merged(names.iter().filter_map(|name| self.by_namespace.get(name)))
            }
            (None, None) => self.all.clone(),
        }
    }
}

fn merged<'a>(lists: impl Iterator<Item = &'a Vec<u32>>) -> Vec<u32> {
    let mut all: Vec<u32> = lists.flatten().copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}
