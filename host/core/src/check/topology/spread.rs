//! Topology spread constraints.

use std::cell::OnceCell;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Demands, SpreadRule, Terminating, View, demands, has_right_taints};
use crate::check::hosts::HostKind;
use crate::check::{Invariant, Violations, purchases};
use crate::matching::{admits, untolerated};
use crate::model::{Labels, NodeInclusion, PodShape, Spread, Symbol, Taint};

impl<'a> View<'a> {
    pub(super) fn spreads(&self) -> Vec<SpreadRule<'a>> {
        let mut rules: Vec<SpreadRule<'a>> = Vec::new();
        type Same<'k> = (
            Symbol,
            &'k Spread,
            Demands<'k>,
            &'k [crate::model::Toleration],
            bool,
        );
        let mut index: FxHashMap<Same<'a>, usize> = FxHashMap::default();
        for (at, &shape) in self.shapes.iter().enumerate() {
            for spread in shape.spread.iter().filter(|s| s.required) {
                let keys = self.spread_keys(shape);
                let key = (
                    shape.namespace,
                    spread,
                    demands(shape, &keys),
                    shape.tolerations.as_slice(),
                    self.spreads_over_hosts(shape),
                );
                let rule = *index.entry(key).or_insert_with(|| {
                    rules.push(SpreadRule {
                        spread,
                        shape,
                        keys,
                        owners: Vec::new(),
                    });
                    rules.len() - 1
                });
                rules[rule].owners.push(at);
            }
        }
        rules
    }

    pub(super) fn check_spread(&self, rule: &SpreadRule<'a>, found: &mut Violations<'_>) {
        let key = rule.spread.key;
        let selects = |s: &PodShape| {
            s.namespace == rule.shape.namespace && rule.spread.selector.matches(&s.labels)
        };
        let mut running: FxHashMap<u32, i64> = FxHashMap::default();
        let left_out = Terminating::LeftOut;
        for (at, n) in self.running(&rule.spread.selector, left_out, selects) {
            if let Some(domain) = self.domain(at, key).filter(|_| self.counts(rule, at)) {
                *running.entry(domain).or_default() += i64::from(n);
            }
        }
        let owners: FxHashSet<usize> = rule.owners.iter().copied().collect();
        let (mut by_owners, mut by_all) = (running.clone(), running);
        let mut used: Vec<(u32, usize, usize)> = Vec::new();
        let selected = self.selected(&rule.spread.selector, selects);
        for (at, shape, n) in self.placed(selected.into_iter().chain(rule.owners.iter().copied())) {
            let domain = self.domain(at, key);
            match domain {
                Some(domain) if owners.contains(&shape) => used.push((domain, at, shape)),
                None if owners.contains(&shape) => {
                    let detail = format!(
                        "a pod with a spread constraint, but {} is not settled",
                        found.text(key)
                    );
                    self.add(Invariant::Spread, (at, shape), detail, found);
                }
                _ => {}
            }
            let counts = at >= self.snapshot().nodes.len() || self.counts(rule, at);
            if let Some(domain) = domain.filter(|_| counts && selects(self.shapes[shape])) {
                *by_all.entry(domain).or_default() += i64::from(n);
                if owners.contains(&shape) {
                    *by_owners.entry(domain).or_default() += i64::from(n);
                }
            }
        }
        let host = Some(key) == self.hostname;
        let eligible = if host {
            FxHashSet::default()
        } else {
            self.eligible_domains(rule)
        };
        let least = if host {
            0
        } else {
            self.least(rule, &eligible, &by_all)
        };
        let max_skew = i64::from(rule.spread.max_skew);
        let of_nodes = OnceCell::new();
        for (domain, at, shape) in used {
            let mut least_skew = by_owners.get(&domain).copied().unwrap_or(0) - least;
            if host && least_skew > max_skew && self.is_there(at) {
                least_skew -= of_nodes.get_or_init(|| self.least_on_nodes(rule, &by_all));
            }
            if least_skew > max_skew {
                let name = found.text(key).to_owned();
                let detail = format!("skew {least_skew} over {name}, maxSkew {max_skew}");
                self.add(Invariant::Spread, (at, shape), detail, found);
            }
        }
    }

    /// Whether a host is a node that kube-scheduler binds pods to by now.
    fn is_there(&self, at: usize) -> bool {
        let node = self.snapshot().nodes.get(at);
        node.is_some_and(|node| node.initialized)
    }

    /// The fewest pods on any Node that counts. Pods for an initialized one are bound before the first
    /// node of the plan comes. One on its way out, or long not initialized, has none then.
    fn least_on_nodes(&self, rule: &SpreadRule<'a>, count: &FxHashMap<u32, i64>) -> i64 {
        let counts = |&at: &u32| {
            let node = &self.world.nodes[at as usize];
            let named = self.hostname.is_none_or(|k| node.labels.get(k).is_some());
            named && self.counts_node(rule, &node.labels, &node.taints)
        };
        if self.snapshot().hosts_without_pods.iter().any(counts) {
            return 0;
        }
        let hosts = (0..self.hosts.hosts.len()).filter(|&at| self.is_there(at));
        let compared = hosts.filter(|&at| self.has_name(at) && self.counts(rule, at));
        let compared = compared.map(|at| at as u32).collect();
        self.least(rule, &compared, count)
    }

    /// The fewest pods in any domain that counts.
    fn least(
        &self,
        rule: &SpreadRule<'a>,
        eligible: &FxHashSet<u32>,
        count: &FxHashMap<u32, i64>,
    ) -> i64 {
        if (eligible.len() as i64) < i64::from(rule.spread.min_domains.unwrap_or(0)) {
            return 0;
        }
        eligible
            .iter()
            .map(|d| count.get(d).copied().unwrap_or(0))
            .min()
            .unwrap_or(0)
    }

    /// Domains that count: of nodes that pass the constraint's filter, existing or planned, and
    /// those where a NodePool could buy a node for such a pod.
    fn eligible_domains(&self, rule: &SpreadRule<'a>) -> FxHashSet<u32> {
        let key = rule.spread.key;
        let mut eligible: FxHashSet<u32> = FxHashSet::default();
        for &at in &self.snapshot().pools {
            let pool = &self.world.pools[at.0 as usize];
            if untolerated(&rule.shape.tolerations, &pool.taints, false).is_none() {
                let mut known = self.offered.borrow_mut();
                let offered = known
                    .entry((at.0, key))
                    .or_default()
                    .entry(demands(rule.shape, &rule.keys))
                    .or_insert_with(|| {
                        purchases::domains(self.snapshot(), pool, (rule.shape, &rule.keys), key)
                    });
                eligible.extend(offered.iter().map(|s| s.0));
            }
        }
        for at in 0..self.hosts.hosts.len() {
            if let Some(domain) = self
                .domain(at, key)
                .filter(|domain| !eligible.contains(domain))
                && self.counts(rule, at)
            {
                eligible.insert(domain);
            }
        }
        eligible
    }

    /// Whether a node counts for a constraint. A planned node counts only if every node that may be
    /// launched for it does.
    fn counts(&self, rule: &SpreadRule<'a>, at: usize) -> bool {
        match &self.host(at).kind {
            HostKind::Node(node) => {
                (self.has_name(at) || !self.spreads_over_hosts(rule.shape))
                    && self.counts_node(rule, &node.labels, node.written_taints())
            }
            HostKind::Claim(claim, possible) => {
                let has_keys = rule.keys.iter().all(|&key| possible.has(key, self.world));
                let admitted = || possible.unsatisfied(rule.shape, self.world).is_none();
                let taints = &self.world.pools[claim.pool.0 as usize].taints;
                has_keys
                    && (rule.spread.node_affinity == NodeInclusion::Ignore || admitted())
                    && has_right_taints(rule, taints)
            }
        }
    }

    /// Whether a Node with these labels and taints counts for a constraint.
    fn counts_node(&self, rule: &SpreadRule<'a>, labels: &Labels, taints: &[Taint]) -> bool {
        let has_keys = rule.keys.iter().all(|&key| labels.get(key).is_some());
        let admitted = || admits(labels, rule.shape, &self.world.names);
        has_keys
            && (rule.spread.node_affinity == NodeInclusion::Ignore || admitted())
            && has_right_taints(rule, taints)
    }

    fn spreads_over_hosts(&self, shape: &PodShape) -> bool {
        let mut required = shape.spread.iter().filter(|s| s.required);
        required.any(|s| Some(s.key) == self.hostname)
    }

    fn spread_keys(&self, shape: &PodShape) -> Vec<Symbol> {
        let required = shape
            .spread
            .iter()
            .filter(|s| s.required && Some(s.key) != self.hostname);
        let mut keys: Vec<Symbol> = required.map(|s| s.key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}
