//! Where the pods of some nodes would go if these nodes were gone: many questions about one
//! cluster.
//!
//! Everything that does not depend on the question is compiled once: what can be bought, nodes with
//! their room, pods by shape, and topology counts. A question removes a node, places its pods
//! first-fit, and undoes both.

use rustc_hash::FxHashMap;

use super::domains::Counted;
use super::first_fit::{Assignment, CompiledCluster, Packing, pack_on};
use super::ranking::Ranking;
use super::topology::ConstraintKind;
use crate::ids::{NodeIx, PodIx, PoolIx};
use crate::model::OfferingId;
use crate::policy::Policies;
use crate::snapshot::Snapshot;

/// Questions about one cluster.
pub struct Questions<'a> {
    compiled: CompiledCluster<'a>,
    /// Pods of each node that would have to move, in queue order.
    pods: Vec<Vec<Moves>>,
    /// Groups that pods of each pod group own and others are kept balanced for.
    owned: Vec<Vec<usize>>,
    ranking: Ranking,
    /// Room to work in, empty between questions.
    out: Packing,
    demand: Vec<Moves>,
}

/// A pod that moves when its node is removed.
#[derive(Clone, Copy, Debug)]
struct Moves {
    /// Its position among all pods of nodes in queue order.
    rank: u32,
    /// What it is alike; nothing if it cannot be planned at all.
    item: Option<u32>,
    pod: PodIx,
}

/// Where pods go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Pods that other nodes have room for, with these nodes.
    pub existing: Vec<(PodIx, NodeIx)>,
    /// Nodes that would have to be bought for others.
    pub bought: Vec<Bought>,
    /// Pods that cannot be placed.
    pub unplaced: Vec<PodIx>,
}

/// A node that would be bought.
#[derive(Clone, Debug, PartialEq)]
pub struct Bought {
    /// Of which NodePool.
    pub pool: PoolIx,
    /// The cheapest offering that would do.
    pub offering: OfferingId,
    /// Its effective cost, USD per hour.
    pub cost: f64,
    /// Pods that would be placed on it.
    pub pods: Vec<PodIx>,
}

impl<'a> Questions<'a> {
    /// Compiles a cluster. Pending pods are ignored.
    pub fn new(snapshot: &'a Snapshot, policies: &dyn Policies) -> Self {
        let movable = snapshot.movable();
        let mut compiled = CompiledCluster::of(snapshot, &movable, policies, &Counted::default());
        compiled.wanted.fill(0);
        compiled.balanced.fill(false);
        compiled.topology.keep_all_changes();
        let mut item_of: FxHashMap<PodIx, u32> = FxHashMap::default();
        for (at, item) in compiled.items.iter().enumerate() {
            item_of.extend(item.pods.iter().map(|&pod| (pod, at as u32)));
        }
        let mut node_of: FxHashMap<PodIx, usize> = FxHashMap::default();
        for (at, node) in snapshot.nodes.iter().enumerate() {
            node_of.extend(node.pods.iter().map(|&pod| (pod, at)));
        }
        let mut pods = vec![Vec::new(); snapshot.nodes.len()];
        for (rank, pending) in (0..).zip(&movable) {
            let pod = pending.pod;
            pods[node_of[&pod]].push(Moves {
                rank,
                item: item_of.get(&pod).copied(),
                pod,
            });
        }
        let owned = (0..compiled.items.len())
            .map(|item| owned(&compiled, item))
            .collect();
        let items = compiled.items.len();
        let out = Packing {
            placed: vec![0; items],
            awaits_reservation: vec![false; items],
            ..Packing::default()
        };
        let ranking = Ranking::default();
        Questions {
            compiled,
            pods,
            owned,
            ranking,
            out,
            demand: Vec::new(),
        }
    }

    /// Where the pods of these nodes would go if the nodes were gone: first-fit, on other nodes,
    /// then on new ones. Costs what the nodes and their pods are, not what the cluster is.
    pub fn without(&mut self, nodes: &[NodeIx]) -> Answer {
        let items = self.begin(nodes);
        let out = pack_on(
            &mut self.compiled,
            items.clone(),
            std::mem::take(&mut self.out),
        );
        let answer = self.answer(&items, &out);
        self.end(&items, out);
        answer
    }

    /// Removes the nodes and returns the pod groups to place, in queue order.
    fn begin(&mut self, nodes: &[NodeIx]) -> Vec<usize> {
        self.demand.clear();
        for node in nodes {
            let at = node.0 as usize;
            self.demand.extend(&self.pods[at]);
            let CompiledCluster {
                topology,
                room,
                snapshot,
                ..
            } = &mut self.compiled;
            topology.remove_node(at, snapshot);
            room.remove(at);
            self.compiled.give_back_limits(at);
        }
        self.demand.sort_unstable_by_key(|moves| moves.rank);
        let mut items: Vec<usize> = Vec::new();
        for item in self.demand.iter().filter_map(|moves| moves.item) {
            let item = item as usize;
            if self.compiled.wanted[item] == 0 {
                items.push(item);
                self.owned[item]
                    .iter()
                    .for_each(|&group| self.compiled.balanced[group] = true);
            }
            self.compiled.wanted[item] += 1;
        }
        items
    }

    fn answer(&mut self, items: &[usize], out: &Packing) -> Answer {
        let mut pods: FxHashMap<usize, Vec<PodIx>> = FxHashMap::default();
        let mut answer = Answer::default();
        for moves in &self.demand {
            match moves.item {
                Some(item) => pods.entry(item as usize).or_default().push(moves.pod),
                None => answer.unplaced.push(moves.pod),
            }
        }
        let of = |m: &Assignment| pods[&m.pod_group][m.pods.0 as usize..m.pods.1 as usize].to_vec();
        let mut nodes: Vec<(&usize, &Vec<Assignment>)> = out.existing.iter().collect();
        nodes.sort_unstable_by_key(|(node, _)| **node);
        for (&node, members) in nodes {
            let there = NodeIx(node as u32);
            answer
                .existing
                .extend(members.iter().flat_map(of).map(|pod| (pod, there)));
        }
        for claim in &out.claims {
            let pods: Vec<PodIx> = claim.members.iter().flat_map(of).collect();
            let ranked = self.ranking.of(&self.compiled, claim.state);
            match ranked.iter().find(|(t, _)| claim.types.has(t.0 as usize)) {
                Some(&(_, offering)) => answer.bought.push(Bought {
                    pool: self.compiled.pools[claim.pool].pool,
                    offering,
                    cost: self.compiled.states.scores[claim.pool].cost[offering.0 as usize],
                    pods,
                }),
                None => answer.unplaced.extend(pods),
            }
        }
        for item in items {
            answer
                .unplaced
                .extend(&pods[item][out.placed[*item] as usize..]);
        }
        answer
    }

    /// Everything is as before the question.
    fn end(&mut self, items: &[usize], mut out: Packing) {
        out.claims.clear();
        out.existing.clear();
        out.deciders.clear();
        out.taken_volumes.clear();
        for &item in items {
            (
                out.placed[item],
                out.awaits_reservation[item],
                self.compiled.wanted[item],
            ) = (0, false, 0);
            self.owned[item]
                .iter()
                .for_each(|&group| self.compiled.balanced[group] = false);
        }
        self.out = out;
        // All changes are kept.
        let taken_back = self.compiled.reset();
        debug_assert!(taken_back, "a question leaves nothing behind");
    }
}

/// Groups of a pod group's own constraints over domains wider than a host, which others are kept
/// balanced for.
fn owned(compiled: &CompiledCluster<'_>, item: usize) -> Vec<usize> {
    let Some(last) = compiled.items[item].relaxations.last() else {
        return Vec::new();
    };
    let balanced = |group: usize| {
        let group = &compiled.topology.groups[group];
        group.key.is_some()
            && matches!(
                group.spec.rule,
                ConstraintKind::Spread { .. } | ConstraintKind::Affinity
            )
    };
    last.uses
        .iter()
        .filter(|rule| rule.owner && !rule.soft && balanced(rule.group))
        .map(|rule| rule.group)
        .collect()
}
