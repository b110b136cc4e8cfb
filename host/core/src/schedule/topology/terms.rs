//! The keys of groups: whose pods a term selects, and where they count.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::constraint_kind::ConstraintKind;
use super::{Domains, GroupKey, ToBuy, Topology, cheapest_unit, to_buy_in};
use crate::model::{ClusterObjects, LabelSelector, PodShape, PodTerm, Symbol};
use crate::schedule::members::Members;
use crate::schedule::node_specs::{NodeSpecId, NodeSpecs};
use crate::snapshot::Snapshot;

impl Topology {
    /// The key of the group of a term of pod affinity or anti-affinity of a pod in a namespace.
    pub fn term(
        &mut self,
        rule: ConstraintKind,
        term: &PodTerm,
        namespace: Symbol,
        snapshot: &Snapshot,
    ) -> GroupKey {
        GroupKey {
            rule,
            key: term.key,
            namespaces: self.namespaces(term, namespace, &snapshot.world),
            selector: term.selector.clone(),
            beside: Vec::new(),
            keys: Vec::new(),
            named: false,
            node_affinity: None,
            tolerations: None,
            buyer: None,
        }
    }

    /// The keys of the groups of the required affinity terms of a pod, in order. Each counts pods
    /// that match all of them.
    pub fn affinity_terms(&mut self, shape: &PodShape, snapshot: &Snapshot) -> Vec<GroupKey> {
        let terms = shape.affinity.iter();
        let mut keys: Vec<GroupKey> = terms
            .map(|term| self.term(ConstraintKind::Affinity, term, shape.namespace, snapshot))
            .collect();
        let mut all: Vec<(Option<Arc<[Symbol]>>, LabelSelector)> = Vec::new();
        for key in &keys {
            let one = (key.namespaces.clone(), key.selector.clone());
            if !all.contains(&one) {
                all.push(one);
            }
        }
        for key in keys.iter_mut().filter(|_| all.len() > 1) {
            let others = all
                .iter()
                .filter(|(names, selector)| (names, selector) != (&key.namespaces, &key.selector));
            key.beside = others.cloned().collect();
        }
        keys
    }

    /// Namespaces that a term names or selects, sorted; `None` for all. Those without pods are left
    /// out of what is selected, and the same list is kept once: a term may select thousands.
    pub(super) fn namespaces(
        &mut self,
        term: &PodTerm,
        own: Symbol,
        world: &ClusterObjects,
    ) -> Option<Arc<[Symbol]>> {
        let mut all = term.namespaces.clone();
        match &term.namespace_selector {
            None if all.is_empty() => all.push(own),
            None => {}
            Some(selector) if selector.0.as_ref().is_some_and(Vec::is_empty) => return None,
            Some(selector) => {
                let there = self.inhabited.iter().map(|&at| &world.namespaces[at]);
                all.extend(
                    there
                        .filter(|(_, labels)| selector.matches(labels))
                        .map(|(name, _)| *name),
                );
            }
        }
        all.sort_unstable();
        all.dedup();
        if let Some(known) = self.lists.get(all.as_slice()) {
            return Some(known.clone());
        }
        let list: Arc<[Symbol]> = all.into();
        self.lists.insert(list.clone());
        Some(list)
    }

    pub(super) fn key(
        &mut self,
        key: Symbol,
        snapshot: &Snapshot,
        states: &mut NodeSpecs<'_>,
        pools: &[NodeSpecId],
    ) -> usize {
        if let Some(at) = self.keys.iter().position(|k| k.key == key) {
            return at;
        }
        let mut values = states.values_of(key);
        for &pool in pools {
            if let Some(set) = states.get(pool).sets.get(key).filter(|s| !s.complement) {
                values.extend(&set.values);
            }
        }
        values.extend(snapshot.nodes.iter().filter_map(|n| n.labels.get(key)));
        values.sort_by_key(|&v| states.names.text(v));
        values.dedup();
        let index: FxHashMap<Symbol, u32> = values
            .iter()
            .enumerate()
            .map(|(at, &v)| (v, at as u32))
            .collect();
        let of_node = snapshot
            .nodes
            .iter()
            .map(|n| {
                n.labels
                    .get(key)
                    .and_then(|v| index.get(&v))
                    .copied()
                    .unwrap_or(u32::MAX)
            })
            .collect::<Vec<u32>>();
        let lacking =
            of_node.contains(&u32::MAX) || pools.iter().any(|&pool| states.lacks(pool, key));
        let to_buy = values.iter().map(|&v| to_buy_in(states, pools, key, v));
        let mut to_buy: Vec<Vec<ToBuy>> = to_buy.collect();
        let price: Vec<f64> = to_buy
            .iter()
            .map(|all| cheapest_unit(states.catalogue, all))
            .collect();
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|&a, &b| price[a].total_cmp(&price[b]).then(a.cmp(&b)));
        let mut rank = vec![0; values.len()];
        order
            .iter()
            .enumerate()
            .for_each(|(r, &at)| rank[at] = r as u32);
        if states.catalogue.index().is_of_types(key) {
            for all in &mut to_buy {
                all.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
            }
        } else {
            to_buy.clear();
        }
        self.repelled_in
            .push(vec![Members::default(); values.len()]);
        self.keys.push(Domains {
            key,
            values,
            rank,
            machines: to_buy,
            of_node,
            lacking,
        });
        self.keys.len() - 1
    }
}
