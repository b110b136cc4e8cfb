//! What a search did, in parts that do not depend on each other: which pods go where, and which nodes
//! belong together.

use rustc_hash::FxHashMap;

use crate::disrupt::compiled::Compiled;
use crate::disrupt::state::{HostState, SearchState};

/// A state of the search, without its borrow of the cluster.
#[derive(Clone, Debug)]
pub struct SearchOutcome {
    removed: Vec<usize>,
    /// Hosts with their guests: existing nodes, and offers.
    existing: Vec<(usize, Vec<(u32, u32)>)>,
    pub(super) bought: Vec<(usize, Vec<(u32, u32)>)>,
}

impl SearchOutcome {
    /// Nodes that go, purchases and moves of a search's state.
    pub fn new(state: &SearchState<'_, '_>) -> Self {
        let existing = 0..state.c.nodes.len();
        let hosts = |at: usize| (at, state.hosts[at].guests.to_vec());
        let kept = |at: &usize| {
            state.hosts[*at].state == HostState::Kept && !state.hosts[*at].guests.is_empty()
        };
        SearchOutcome {
            removed: state.removed().collect(),
            existing: existing.filter(kept).map(hosts).collect(),
            bought: state
                .bought()
                .map(|(at, offer)| (offer, state.hosts[at].guests.to_vec()))
                .collect(),
        }
    }

    /// What it adds to another one that it was made from.
    pub fn since(mut self, before: &SearchOutcome) -> Self {
        self.removed.retain(|node| !before.removed.contains(node));
        for (node, guests) in &mut self.existing {
            let Some((_, known)) = before.existing.iter().find(|(of, _)| of == node) else {
                continue;
            };
            for (class, pods) in guests.iter_mut() {
                *pods -= known
                    .iter()
                    .find(|(of, _)| of == class)
                    .map_or(0, |(_, pods)| *pods);
            }
            guests.retain(|(_, pods)| *pods > 0);
        }
        // Bought nodes keep their order.
        self.bought
            .drain(..before.bought.len().min(self.bought.len()));
        self
    }

    /// Says which pods go where, and which nodes belong together.
    pub(super) fn parts(self, c: &Compiled<'_>) -> Vec<Part> {
        let mut sources = Sources::new(c, &self.removed);
        let mut bought = self.bought;
        bought.sort_by(|a, b| {
            c.offers[b.0]
                .cost
                .total_cmp(&c.offers[a.0].cost)
                .then(a.cmp(b))
        });
        let mut moves: Vec<(usize, u32, u32, Target)> = Vec::new();
        for (at, (_, guests)) in bought.iter().enumerate() {
            for (source, class, pods) in sources.few(c, guests) {
                moves.push((source, class, pods, Target::Bought(at)));
            }
        }
        for (node, guests) in &self.existing {
            for &(class, pods) in guests {
                for (source, pods) in sources.any(class, pods) {
                    moves.push((source, class, pods, Target::Node(*node)));
                }
            }
        }
        sources.join(moves, &bought)
    }
}

#[derive(Clone, Copy)]
pub(super) enum Target {
    Node(usize),
    Bought(usize),
}

/// Nodes that belong together.
pub(super) struct Part {
    pub(super) nodes: Vec<usize>,
    /// Offer, and pods by class, of each node to buy.
    pub(super) bought: Vec<(usize, Vec<(u32, u32)>)>,
    /// From which node how many pods of a class go where; bought nodes by position above.
    pub(super) moves: Vec<(usize, u32, u32, Target)>,
}

/// Pods of removed nodes that are not yet assigned.
struct Sources {
    pub(super) nodes: Vec<usize>,
    /// What is left of each node, by class.
    pub(super) left: Vec<Vec<(u32, u32)>>,
    /// Which nodes have pods of a class.
    pub(super) with: FxHashMap<u32, Vec<usize>>,
    /// Which part each node belongs to: union-find.
    parent: Vec<usize>,
    /// Whether a node is tied to a bought one.
    tied: Vec<bool>,
}

impl Sources {
    pub(super) fn new(c: &Compiled<'_>, removed: &[usize]) -> Self {
        let mut with: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
        let mut left = Vec::new();
        for (at, &node) in removed.iter().enumerate() {
            let own = &c.nodes[node].own;
            own.iter()
                .for_each(|own| with.entry(own.class).or_default().push(at));
            left.push(own.iter().map(|own| (own.class, own.units)).collect());
        }
        let parent = (0..removed.len()).collect();
        Sources {
            nodes: removed.to_vec(),
            left,
            with,
            parent,
            tied: vec![false; removed.len()],
        }
    }

    fn root(&mut self, at: usize) -> usize {
        let mut root = at;
        while self.parent[root] != root {
            root = self.parent[root];
        }
        self.parent[at] = root;
        root
    }

    fn left_of(&self, at: usize, class: u32) -> u32 {
        self.left[at]
            .iter()
            .find(|(known, _)| *known == class)
            .map_or(0, |(_, pods)| *pods)
    }

    /// Pods for a bought node from as few nodes as can be, and rather from nodes that are not tied to
    /// another one.
    fn few(&mut self, c: &Compiled<'_>, guests: &[(u32, u32)]) -> Vec<(usize, u32, u32)> {
        let mut need = guests.to_vec();
        let mut found = Vec::new();
        let mut first: Option<usize> = None;
        while need.iter().any(|(_, pods)| *pods > 0) {
            let mut score: FxHashMap<usize, f64> = FxHashMap::default();
            for &(class, pods) in need.iter().filter(|(_, pods)| *pods > 0) {
                for &at in self.with.get(&class).into_iter().flatten() {
                    let shared = pods.min(self.left_of(at, class));
                    *score.entry(at).or_default() +=
                        f64::from(shared) * (c.worth_of_one(class) + 1e-9);
                }
            }
            let mut best: Option<(f64, usize)> = None;
            let mut scores: Vec<(usize, f64)> = score
                .into_iter()
                .filter(|(_, score)| *score > 0.0)
                .collect();
            scores.sort_unstable_by_key(|(at, _)| *at);
            for (at, score) in scores {
                let own = first.is_some_and(|first| self.root(first) == self.root(at));
                let score = if own || !self.tied[at] {
                    score
                } else {
                    0.3 * score
                };
                if best.is_none_or(|(known, _)| score > known) {
                    best = Some((score, at));
                }
            }
            let Some((_, at)) = best else { break };
            for (class, pods) in &mut need {
                let taken = self.take(at, *class, *pods);
                if taken > 0 {
                    found.push((at, *class, taken));
                    *pods -= taken;
                }
            }
            self.tied[at] = true;
            match first {
                Some(first) => {
                    let (a, b) = (self.root(first), self.root(at));
                    self.parent[a.max(b)] = a.min(b);
                }
                None => first = Some(at),
            }
        }
        found
    }

    /// Pods of a class from whichever nodes have them.
    pub(super) fn any(&mut self, class: u32, mut pods: u32) -> Vec<(usize, u32)> {
        let mut found = Vec::new();
        let nodes = self.with.get(&class).cloned().unwrap_or_default();
        for at in nodes {
            if pods == 0 {
                break;
            }
            let taken = self.take(at, class, pods);
            if taken > 0 {
                found.push((at, taken));
                pods -= taken;
            }
        }
        // Nodes without pods left are not looked at again.
        let left = &self.left;
        if let Some(nodes) = self.with.get_mut(&class) {
            nodes.retain(|&at| {
                left[at]
                    .iter()
                    .any(|&(known, pods)| known == class && pods > 0)
            });
        }
        found
    }

    fn take(&mut self, at: usize, class: u32, most: u32) -> u32 {
        let Some((_, left)) = self.left[at].iter_mut().find(|(known, _)| *known == class) else {
            return 0;
        };
        let taken = most.min(*left);
        *left -= taken;
        taken
    }

    fn join(
        mut self,
        moves: Vec<(usize, u32, u32, Target)>,
        bought: &[(usize, Vec<(u32, u32)>)],
    ) -> Vec<Part> {
        let roots: Vec<usize> = (0..self.nodes.len()).map(|at| self.root(at)).collect();
        let mut parts: Vec<Part> = Vec::new();
        let mut part_of: FxHashMap<usize, usize> = FxHashMap::default();
        for (at, root) in roots.iter().enumerate() {
            let part = *part_of.entry(*root).or_insert_with(|| {
                parts.push(Part {
                    nodes: Vec::new(),
                    bought: Vec::new(),
                    moves: Vec::new(),
                });
                parts.len() - 1
            });
            parts[part].nodes.push(self.nodes[at]);
        }
        let mut place_of: FxHashMap<usize, usize> = FxHashMap::default();
        for (source, class, pods, target) in moves {
            let part = &mut parts[part_of[&roots[source]]];
            let target = match target {
                Target::Node(node) => Target::Node(node),
                Target::Bought(at) => Target::Bought(*place_of.entry(at).or_insert_with(|| {
                    part.bought.push(bought[at].clone());
                    part.bought.len() - 1
                })),
            };
            part.moves.push((self.nodes[source], class, pods, target));
        }
        parts
    }
}
