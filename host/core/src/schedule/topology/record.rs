//! Counts pods in groups, and takes that back.

use smallvec::SmallVec;

use super::constraint_kind::ConstraintKind;
use super::{Domains, Group, PlacedAt, Topology};
use crate::ids::NodeIx;
use crate::model::{ShapeId, Symbol, Taint};
use crate::schedule::node_specs::NodeSpecs;
use crate::schedule::sets::Set;
use crate::schedule::undo::Undo;
use crate::snapshot::Snapshot;

/// The domains of one topology key in which a pod counts that is placed somewhere.
struct Landing {
    /// The domains; several while it is not settled.
    pub(super) domains: SmallVec<[u32; 8]>,
    /// Whether the domain is known now.
    settled: bool,
}

impl Landing {
    pub(super) fn new(domains: &Domains, at: PlacedAt, states: &NodeSpecs<'_>) -> Self {
        match at {
            PlacedAt::Node(node) => {
                let domain = Some(domains.of_node[node]).filter(|&domain| domain != u32::MAX);
                Landing {
                    domains: domain.into_iter().collect(),
                    settled: true,
                }
            }
            PlacedAt::Claim(_, state) if states.lacks(state, domains.key) => Landing {
                domains: SmallVec::new(),
                settled: true,
            },
            PlacedAt::Claim(_, state) => {
                let set = states.get(state).sets.get(domains.key);
                let admitted = |&(_, value): &(u32, &Symbol)| {
                    set.is_none_or(|s| s.admits(*value, &states.numbers))
                };
                let all = (0..)
                    .zip(&domains.values)
                    .filter(admitted)
                    .map(|(domain, _)| domain);
                Landing {
                    domains: all.collect(),
                    settled: set.and_then(Set::single).is_some(),
                }
            }
        }
    }
}

impl Topology {
    pub(super) fn count_running(&mut self, group: &mut Group, snapshot: &Snapshot) {
        for shape in snapshot.running.candidates(&group.spec.selector) {
            let pods = snapshot.world.shapes.get(shape);
            if group.spec.selects(pods.namespace, &pods.labels) {
                self.counting
                    .entry(shape)
                    .or_default()
                    .push(self.groups.len() as u32);
                for &(node, count) in self.counted(group.spec.rule, shape, snapshot) {
                    let at = node.0 as usize;
                    if !self.is_nowhere(group, at) && !group.passed_over.contains(&(at as u32)) {
                        group.count_on_node(&self.keys, at, count);
                    }
                }
            }
        }
    }

    /// Where the pods of a shape run that a rule counts: a spread constraint leaves terminating
    /// pods out.
    pub(super) fn counted<'s>(
        &self,
        rule: ConstraintKind,
        shape: ShapeId,
        snapshot: &'s Snapshot,
    ) -> &'s [(NodeIx, u32)] {
        match rule {
            ConstraintKind::Spread { .. } => snapshot.running.on(shape),
            ConstraintKind::Affinity
            | ConstraintKind::AntiAffinity
            | ConstraintKind::InverseAntiAffinity => snapshot.running.with_terminating(shape),
        }
    }

    /// Counts running pods of a shape as owners of an anti-affinity term.
    pub fn count_owners(&mut self, group: usize, shape: ShapeId, snapshot: &Snapshot) {
        self.owned_by.entry(shape).or_default().push(group as u32);
        for &(node, count) in snapshot.running.with_terminating(shape) {
            if self.is_nowhere(&self.groups[group], node.0 as usize) {
                continue;
            }
            self.groups[group].count_on_node(&self.keys, node.0 as usize, count);
            let key = self.groups[group].key;
            match key.map(|key| (key, self.keys[key].of_node[node.0 as usize])) {
                None => _ = self.repel_on(group, node.0 as usize),
                Some((key, domain)) if domain != u32::MAX => self.repel_in(group, key, domain),
                Some(_) => {}
            }
        }
    }

    /// Whether it was not the last one known there.
    fn repel_on(&mut self, group: usize, host: usize) -> bool {
        if self.repelled_on.len() <= host {
            self.repelled_on.resize_with(host + 1, Vec::new);
        }
        let there = &mut self.repelled_on[host];
        // Groups come in runs, so only the last one is compared; a duplicate is harmless.
        let new = there.last() != Some(&(group as u32));
        if new {
            there.push(group as u32);
        }
        new
    }

    fn repel_in(&mut self, group: usize, key: usize, domain: u32) {
        self.repelled_in[key][domain as usize].insert(group);
    }

    /// Counts so many placed pods in groups that select them (or, for
    /// [`ConstraintKind::InverseAntiAffinity`], that they own).
    pub fn record(
        &mut self,
        groups: impl Iterator<Item = usize>,
        at: PlacedAt,
        pods: u32,
        states: &NodeSpecs<'_>,
        taints: &[Taint],
    ) {
        let mut landings: Vec<Option<Landing>> = self.keys.iter().map(|_| None).collect();
        for number in groups {
            let group = &mut self.groups[number];
            let inverse = group.spec.rule == ConstraintKind::InverseAntiAffinity;
            let Some(k) = group.key else {
                let host = match at {
                    PlacedAt::Node(node) if self.nameless.has(node) => continue,
                    PlacedAt::Node(node) => node,
                    PlacedAt::Claim(host, _) => host,
                };
                let first = group
                    .hosts
                    .add(host, u16::try_from(pods).unwrap_or(u16::MAX));
                group.total += u64::from(pods);
                self.log.push(Undo::Host {
                    group: number as u32,
                    host: host as u32,
                    pods,
                    first,
                });
                if inverse && first && self.repel_on(number, host) {
                    self.log.push(Undo::RepelledOn { host: host as u32 });
                }
                continue;
            };
            let landing =
                landings[k].get_or_insert_with(|| Landing::new(&self.keys[k], at, states));
            let blocks = matches!(
                group.spec.rule,
                ConstraintKind::AntiAffinity | ConstraintKind::InverseAntiAffinity
            );
            if landing.domains.is_empty()
                || !(landing.settled || blocks)
                || !group.counts(at, states, taints)
            {
                continue;
            }
            for &domain in &landing.domains {
                group.count[domain as usize] += pods;
                self.log.push(Undo::Domain {
                    group: number as u32,
                    domain,
                    pods,
                });
                if inverse && self.repelled_in[k][domain as usize].insert(number) {
                    self.log.push(Undo::RepelledIn {
                        key: k as u32,
                        domain,
                        group: number as u32,
                    });
                }
            }
            group.total += u64::from(pods);
            self.log.push(Undo::Total {
                group: number as u32,
                pods,
            });
        }
    }

    /// Removes a node with its pods, until [`rewind`](Topology::rewind). Its number stays,
    /// and nothing may be placed on it.
    pub fn remove_node(&mut self, node: usize, snapshot: &Snapshot) {
        for number in 0..self.groups.len() {
            let group = &mut self.groups[number];
            let Some(key) = group.key else {
                if group.hosts.remove_node(node) {
                    self.log.push(Undo::NodeIn {
                        group: number as u32,
                        domain: node as u32,
                    });
                }
                continue;
            };
            let domain = self.keys[key].of_node[node];
            if domain == u32::MAX {
                continue;
            }
            if group.nodes_in.is_empty() || group.passed_over.contains(&(node as u32)) {
                continue;
            }
            let (nodes, anyway) = &mut group.nodes_in[domain as usize];
            *nodes -= 1;
            group.eligible_domains[domain as usize] = *anyway || *nodes > 0;
            self.log.push(Undo::NodeIn {
                group: number as u32,
                domain,
            });
        }
        let gone = &snapshot.nodes[node];
        let live = gone.pods.iter().map(|pod| (pod, false));
        for (pod, terminating) in live.chain(gone.terminating.iter().map(|pod| (pod, true))) {
            let shape = snapshot.world.pods[pod.0 as usize].shape;
            for at in 0..self.counting.get(&shape).map_or(0, Vec::len) {
                let group = self.counting[&shape][at] as usize;
                let of = &self.groups[group];
                let left_out = terminating && matches!(of.spec.rule, ConstraintKind::Spread { .. });
                if !left_out && !of.passed_over.contains(&(node as u32)) {
                    self.uncount(group, node);
                }
            }
            for at in 0..self.owned_by.get(&shape).map_or(0, Vec::len) {
                let group = self.owned_by[&shape][at] as usize;
                let Some((key, domain)) = self.uncount(group, node) else {
                    continue;
                };
                if self.groups[group].count[domain as usize] == 0 {
                    self.repelled_in[key][domain as usize].remove(group);
                    self.log.push(Undo::Repels {
                        key: key as u32,
                        domain,
                        group: group as u32,
                    });
                }
            }
        }
    }

    /// One pod of a group on an existing node is gone. Hosts are left as they are: nothing comes to
    /// this one any more. Returns the topology key and the domain in which it counted.
    fn uncount(&mut self, number: usize, node: usize) -> Option<(usize, u32)> {
        if self.is_nowhere(&self.groups[number], node) {
            return None;
        }
        let group = &mut self.groups[number];
        let counted = match group.key {
            None => None,
            Some(key) => {
                let domain =
                    Some(self.keys[key].of_node[node]).filter(|&domain| domain != u32::MAX)?;
                group.count[domain as usize] -= 1;
                Some((key, domain))
            }
        };
        group.total -= 1;
        self.log.push(Undo::Uncounted {
            group: number as u32,
            domain: counted.map_or(u32::MAX, |(_, domain)| domain),
        });
        counted
    }

    /// Everything that changes from now on can be taken back, however much that is.
    pub fn keep_all_changes(&mut self) {
        self.log.keep_all();
    }

    /// Takes back everything that has changed since it was counted. Says whether that is possible.
    #[must_use]
    pub fn rewind(&mut self) -> bool {
        if self.log.is_lost() {
            return false;
        }
        while let Some(change) = self.log.pop() {
            self.take_back(change);
        }
        true
    }

    fn take_back(&mut self, change: Undo) {
        match change {
            Undo::Host {
                group,
                host,
                pods,
                first,
            } => {
                let group = &mut self.groups[group as usize];
                group.hosts.take(
                    host as usize,
                    u16::try_from(pods).unwrap_or(u16::MAX),
                    first,
                );
                group.total -= u64::from(pods);
            }
            Undo::RepelledOn { host } => _ = self.repelled_on[host as usize].pop(),
            Undo::Domain {
                group,
                domain,
                pods,
            } => self.groups[group as usize].count[domain as usize] -= pods,
            Undo::RepelledIn { key, domain, group } => {
                self.repelled_in[key as usize][domain as usize].remove(group as usize);
            }
            Undo::Total { group, pods } => self.groups[group as usize].total -= u64::from(pods),
            Undo::NodeIn { group, domain } => {
                let group = &mut self.groups[group as usize];
                if group.key.is_none() {
                    group.hosts.put_back_node(domain as usize);
                    return;
                }
                group.nodes_in[domain as usize].0 += 1;
                group.eligible_domains[domain as usize] = true;
            }
            Undo::Uncounted { group, domain } => {
                let group = &mut self.groups[group as usize];
                group.total += 1;
                if domain != u32::MAX {
                    group.count[domain as usize] += 1;
                }
            }
            Undo::Repels { key, domain, group } => {
                self.repelled_in[key as usize][domain as usize].insert(group as usize);
            }
        }
    }
}
