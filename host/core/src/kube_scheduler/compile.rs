//! Compiles a snapshot's pods to [`Shape`]s, [`QueueClass`]es and counters. Selectors are resolved
//! here once.

use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::matchers::{Matcher, Namespaces, Postings, Scope, first_selector};
use super::rules::{Filter, Rules};
use super::shapes::{PreferredSpread, QueueClass, Queued, RequiredSpread, Shape, UnboundClaim};
use crate::model::{ClusterObjects, NodeInclusion, PodShape, PodTerm, ResourceId, ShapeId, Symbol};
use crate::snapshot::{ClaimToBind, PendingPod, SharedClaim, Snapshot};

/// What required pod affinity of a pod weighs in the score of the pods that it selects
/// (`hardPodAffinityWeight`).
const HARD_AFFINITY_WEIGHT: i64 = 1;
/// The built-in default constraints: hostname and zone, with their `maxSkew`.
const DEFAULT_SPREAD: [(&str, i32); 2] = [
    ("kubernetes.io/hostname", 3),
    ("topology.kubernetes.io/zone", 5),
];
/// Labels that differ between pods of one StatefulSet, or between revisions.
const OWN_LABELS: [&str; 3] = [
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "controller-revision-hash",
];

/// What a counter counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Role {
    /// Pods that match, on nodes that the filter counts: of topology spread, which leaves
    /// terminating pods out.
    Spread(u32),
    /// Pods that match, terminating ones included: of pod affinity and anti-affinity.
    Selected,
    /// Pods with required anti-affinity against what matches.
    AntiAffinity,
    /// Weights of affinity to what matches, of pods that carry it.
    AffinityWeight,
}

/// A number per value of a topology key.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    /// Index of the topology key.
    pub key: u32,
    /// Position of the filter that says on which nodes pods count.
    pub filter: u32,
    /// Index of filter and key together.
    pub space: u32,
}

/// Everything about the pods of a snapshot that does not depend on nodes.
pub struct Compiled {
    /// Resources that pods to be placed ask for; CPU, memory and pods first.
    pub resources: Vec<ResourceId>,
    /// Daemons first, then pods.
    pub shapes: Vec<Shape>,
    /// Profiles of the daemons, which are the first shapes.
    pub daemons: Vec<u32>,
    /// Classes of pods to be placed.
    pub classes: Vec<QueueClass>,
    /// Pods to be placed: most important first, then oldest.
    pub queue: Vec<Queued>,
    /// Ends of the runs of `queue` that share priority and time.
    pub ties: Vec<usize>,
    /// Demands on labels and taints.
    pub rules: Rules,
    /// Topology keys.
    pub keys: Vec<Symbol>,
    /// Pairs of filter and key, for which domains are counted.
    pub spaces: Vec<(u32, u32)>,
    /// What is counted by domain: pods that a selector selects.
    pub counters: Vec<Counter>,
    /// What running pods add: counter, shape, how much each, and whether terminating ones do.
    pub running: Vec<(u32, ShapeId, i32, bool)>,
    /// Selectors select so much together that nothing of it is resolved: there are no counters.
    pub is_too_large: bool,
}

/// Pairs of a selector and a shape that it selects beyond which a snapshot is not modelled: each
/// pod looks at all of its, and beyond it a scenario takes seconds. Two hundred services that keep
/// to themselves have two hundred pairs, and two thousand that all keep away from a hundred others
/// two hundred thousand.
const MOST_PAIRS: usize = 1 << 20;
/// Pairs of a counter and a node beyond which it is not modelled: 64 MB of counts.
const MOST_COUNTS: usize = 16 << 20;

/// Pairs of a claim and a volume that it may be bound to beyond which volumes are not told apart:
/// each pod looks at all of its on each node.
const MOST_VOLUMES: usize = 1 << 16;

/// Resolves the pods of a snapshot.
pub fn compile(snapshot: &Snapshot) -> Compiled {
    let resources = resources(snapshot);
    let mut rules = Rules::new(&snapshot.world.names);
    let mut shapes: IndexMap<(Arc<PodShape>, bool), Shape, FxBuildHasher> = IndexMap::default();
    let mut daemons = Vec::new();
    // Two DaemonSets of one shape are two daemons with different numbers.
    let mut daemon_shapes = Vec::new();
    for daemon in &snapshot.daemons {
        daemons.push(rules.profile(daemon, &[]));
        daemon_shapes.push(Shape::new(daemon.clone(), &resources));
    }
    let mut classes: IndexSet<QueueClass, FxBuildHasher> = IndexSet::default();
    let mut queue = Vec::with_capacity(snapshot.pending.len());
    let mut last: Option<(&PendingPod, bool, u32)> = None;
    let claims = snapshot.pending.iter().flat_map(|pending| &pending.to_bind);
    let binds_volumes = claims.map(|of| of.volumes.len()).sum::<usize>() <= MOST_VOLUMES;
    for pending in snapshot.pending.iter().filter(|p| p.unfit.is_none()) {
        let replicated = is_replicated(snapshot, pending);
        let as_before = last.filter(|(p, r, _)| {
            Arc::ptr_eq(&p.shape, &pending.shape)
                && *r == replicated
                && p.volumes == pending.volumes
                && p.volume_alternatives == pending.volume_alternatives
                && shared(p) == shared(pending)
                && p.to_bind == pending.to_bind
        });
        let class = as_before.map(|(_, _, class)| class).unwrap_or_else(|| {
            let entry = shapes.entry((pending.shape.clone(), replicated));
            let shape = (daemons.len() + entry.index()) as u32;
            entry.or_insert_with(|| Shape::new(pending.shape.clone(), &resources));
            let profile = rules.profile(&pending.shape, &pending.volume_alternatives);
            classes
                .insert_full(QueueClass {
                    shape,
                    profile,
                    volumes: pending.volumes.clone(),
                    shared: shared(pending).to_vec(),
                    unbound: match binds_volumes {
                        true => unbound(snapshot, pending, &mut rules),
                        false => Vec::new(),
                    },
                })
                .0 as u32
        });
        last = Some((pending, replicated, class));
        queue.push(Queued {
            pod: pending.pod,
            class,
        });
    }
    let replicated: Vec<bool> = daemons
        .iter()
        .map(|_| false)
        .chain(shapes.keys().map(|k| k.1))
        .collect();
    let shapes: Vec<Shape> = daemon_shapes
        .into_iter()
        .chain(shapes.into_values())
        .collect();
    let ties = sort(snapshot, &classes, &shapes, &mut queue);
    let topology = Topology::new(snapshot, shapes, rules);
    let topology = topology.resolve(&replicated);
    let is_too_large = topology.is_too_large();
    let topology = if is_too_large {
        topology.without_counters()
    } else {
        topology
    };
    let Topology {
        shapes,
        mut rules,
        keys,
        spaces,
        counters,
        running,
        ..
    } = topology;
    rules.settle();
    Compiled {
        resources,
        shapes,
        daemons,
        classes: classes.into_iter().collect(),
        queue,
        ties,
        rules,
        keys: keys.into_iter().collect(),
        spaces: spaces.into_iter().collect(),
        counters,
        running,
        is_too_large,
    }
}

fn unbound(snapshot: &Snapshot, pending: &PendingPod, rules: &mut Rules) -> Vec<UnboundClaim> {
    let volumes = &snapshot.world.volumes;
    let mut of_claim = |claim: &ClaimToBind| UnboundClaim {
        claim: claim.claim,
        made: claim.made.as_ref().map(|made| rules.volume(made)),
        volumes: (claim.volumes.iter())
            .map(|&at| (at, rules.volume(&volumes[at as usize].node_affinity)))
            .collect(),
    };
    pending.to_bind.iter().map(&mut of_claim).collect()
}

fn shared(pending: &PendingPod) -> &[SharedClaim] {
    pending.shared.as_ref().map_or(&[], |shared| &shared.claims)
}

fn resources(snapshot: &Snapshot) -> Vec<ResourceId> {
    let mut all = IndexSet::<_, FxBuildHasher>::from_iter([
        ResourceId::Cpu,
        ResourceId::Memory,
        ResourceId::Pods,
    ]);
    for pending in &snapshot.pending {
        all.extend(pending.shape.requests.iter().map(|(resource, _)| resource));
    }
    all.into_iter().collect()
}

/// Whether an owner makes pods like this one, so that the built-in default constraints find a
/// selector.
fn is_replicated(snapshot: &Snapshot, pending: &PendingPod) -> bool {
    let names = &snapshot.world.names;
    let owner = snapshot.world.pods[pending.pod.0 as usize].owner;
    owner.is_some_and(|(kind, _)| {
        matches!(
            names.text(kind),
            "ReplicaSet" | "StatefulSet" | "ReplicationController"
        )
    })
}

/// Puts the queue in order and says where runs of the same priority and time end.
fn sort(
    snapshot: &Snapshot,
    classes: &IndexSet<QueueClass, FxBuildHasher>,
    shapes: &[Shape],
    queue: &mut [Queued],
) -> Vec<usize> {
    let urgency = |q: &Queued| {
        let priority = shapes[classes[q.class as usize].shape as usize]
            .source
            .priority;
        (
            std::cmp::Reverse(priority),
            snapshot.world.pods[q.pod.0 as usize].created,
        )
    };
    queue.sort_by_key(urgency);
    let mut ties: Vec<usize> = (1..queue.len())
        .filter(|&at| urgency(&queue[at - 1]) != urgency(&queue[at]))
        .collect();
    ties.push(queue.len());
    ties
}

/// Counters in the making.
struct Topology<'a> {
    snapshot: &'a Snapshot,
    namespaces: Namespaces<'a>,
    postings: Postings,
    shapes: Vec<Shape>,
    rules: Rules,
    keys: IndexSet<Symbol, FxBuildHasher>,
    spaces: IndexSet<(u32, u32), FxBuildHasher>,
    /// Matchers with the shapes that they mean.
    matchers: IndexMap<Matcher, Vec<u32>, FxBuildHasher>,
    by_meaning: FxHashMap<(u32, u32, Role), u32>,
    counters: Vec<Counter>,
    running: Vec<(u32, ShapeId, i32, bool)>,
    /// Pairs of a matcher and a shape so far.
    pairs: usize,
}

impl<'a> Topology<'a> {
    fn new(snapshot: &'a Snapshot, shapes: Vec<Shape>, rules: Rules) -> Self {
        let mut postings = Postings::default();
        shapes.iter().for_each(|s| postings.push(&s.source.labels));
        Topology {
            snapshot,
            namespaces: Namespaces::of(&snapshot.world),
            postings,
            shapes,
            rules,
            keys: IndexSet::default(),
            spaces: IndexSet::default(),
            matchers: IndexMap::default(),
            by_meaning: FxHashMap::default(),
            counters: Vec::new(),
            running: Vec::new(),
            pairs: 0,
        }
    }

    fn is_too_large(&self) -> bool {
        self.pairs > MOST_PAIRS
            || self.counters.len() * self.snapshot.nodes.len().max(1) > MOST_COUNTS
    }

    fn without_counters(mut self) -> Self {
        for shape in &mut self.shapes {
            *shape = shape.without_rules();
        }
        Topology {
            counters: Vec::new(),
            running: Vec::new(),
            spaces: IndexSet::default(),
            ..self
        }
    }

    fn resolve(mut self, replicated: &[bool]) -> Self {
        for (at, &replicated) in replicated.iter().enumerate() {
            if self.is_too_large() {
                return self;
            }
            let source = self.shapes[at].source.clone();
            self.spread(at, &source);
            if replicated && source.spread.is_empty() {
                self.default_spread(at, &source);
            }
            self.affinity(at, &source);
            self.preferences(at, &source);
            for (counter, amount) in self.affinity_terms(&source) {
                self.shapes[at].adds.push((counter, amount as i32));
            }
        }
        self.running_carriers();
        if self.is_too_large() {
            return self;
        }
        self.selected_counters();
        self.requeues();
        self
    }

    fn spread(&mut self, at: usize, shape: &PodShape) {
        let keys_of = |required: bool| -> Vec<Symbol> {
            shape
                .spread
                .iter()
                .filter(|s| s.required == required)
                .map(|s| s.key)
                .collect()
        };
        let keys = [keys_of(false), keys_of(true)];
        for s in &shape.spread {
            let filter = self.filter(
                shape,
                s.node_affinity,
                s.node_taints,
                &keys[usize::from(s.required)],
            );
            let counter = self.seen(
                vec![Scope::within(shape.namespace, s.selector.clone())],
                s.key,
                Role::Spread(filter),
            );
            if s.required {
                let counts_itself = i64::from(s.selector.matches(&shape.labels));
                let room = i64::from(s.max_skew) - counts_itself;
                self.shapes[at].required_spread.push(RequiredSpread {
                    counter,
                    room,
                    min_domains: s.min_domains,
                });
            } else {
                self.shapes[at].preferred_spread.push(PreferredSpread {
                    counter,
                    max_skew: s.max_skew,
                });
            }
        }
    }

    /// Pods of one owner are those with the same labels, but for labels that each has for itself.
    fn default_spread(&mut self, at: usize, shape: &PodShape) {
        let world = &self.snapshot.world;
        if !world.settings.default_spread.is_empty() {
            return;
        }
        let shared = |key: Symbol| !OWN_LABELS.contains(&world.names.text(key));
        let scope = Scope::same_owner(
            shape.namespace,
            shape.labels.iter().filter(|&(key, _)| shared(key)),
        );
        for (key, max_skew) in DEFAULT_SPREAD {
            let Some(key) = world.names.get(key) else {
                continue;
            };
            let filter = self.filter(shape, NodeInclusion::Honor, NodeInclusion::Ignore, &[]);
            let counter = self.seen(vec![scope.clone()], key, Role::Spread(filter));
            self.shapes[at]
                .preferred_spread
                .push(PreferredSpread { counter, max_skew });
        }
    }

    fn filter(
        &mut self,
        shape: &PodShape,
        affinity: NodeInclusion,
        taints: NodeInclusion,
        keys: &[Symbol],
    ) -> u32 {
        let picky = !shape.node_selector.is_empty() || !shape.required.is_empty();
        let filter = Filter {
            affinity: (affinity == NodeInclusion::Honor && picky)
                .then(|| (shape.node_selector.clone(), shape.required.clone())),
            tolerations: (taints == NodeInclusion::Honor).then(|| shape.tolerations.clone()),
            keys: keys.to_vec(),
        };
        self.rules.filters.insert_full(filter).0 as u32
    }

    fn affinity(&mut self, at: usize, shape: &PodShape) {
        if !shape.affinity.is_empty() {
            let all: Matcher = shape
                .affinity
                .iter()
                .map(|t| Scope::of_term(t, shape.namespace))
                .collect();
            self.shapes[at].may_be_first = self.namespaces.matches(&all, shape);
            for term in &shape.affinity {
                let counter = self.seen(all.clone(), term.key, Role::Selected);
                self.shapes[at].affinity.push(counter);
            }
        }
        for term in &shape.anti_affinity {
            let scopes = vec![Scope::of_term(term, shape.namespace)];
            let counter = self.seen(scopes, term.key, Role::Selected);
            self.shapes[at].anti_affinity.push(counter);
        }
    }

    fn preferences(&mut self, at: usize, shape: &PodShape) {
        let attracted = shape
            .preferred_affinity
            .iter()
            .map(|(w, t)| (i64::from(*w), t));
        let averse = shape
            .preferred_anti_affinity
            .iter()
            .map(|(w, t)| (-i64::from(*w), t));
        for (weight, term) in attracted.chain(averse) {
            let scopes = vec![Scope::of_term(term, shape.namespace)];
            let counter = self.seen(scopes, term.key, Role::Selected);
            self.shapes[at].affinity_weights.push((counter, weight));
        }
    }

    /// Terms that a pod carries with it, which concern other pods: anti-affinity keeps them away,
    /// the rest attracts or repels them in the score. Terms that select none of the pods to be
    /// placed are left out.
    fn affinity_terms(&mut self, shape: &PodShape) -> Vec<(u32, i64)> {
        let mut all = Vec::new();
        let mut carry = |this: &mut Self, term: &PodTerm, role, amount| {
            let matcher = this.matcher(vec![Scope::of_term(term, shape.namespace)]);
            if !this.matchers[matcher as usize].is_empty() {
                all.push((this.counter(matcher, term.key, role), amount));
            }
        };
        shape
            .anti_affinity
            .iter()
            .for_each(|t| carry(self, t, Role::AntiAffinity, 1));
        shape
            .affinity
            .iter()
            .for_each(|t| carry(self, t, Role::AffinityWeight, HARD_AFFINITY_WEIGHT));
        shape
            .preferred_affinity
            .iter()
            .for_each(|(w, t)| carry(self, t, Role::AffinityWeight, i64::from(*w)));
        shape
            .preferred_anti_affinity
            .iter()
            .for_each(|(w, t)| carry(self, t, Role::AffinityWeight, -i64::from(*w)));
        all
    }

    fn running_carriers(&mut self) {
        let world: &ClusterObjects = &self.snapshot.world;
        for (id, shape) in world.shapes.iter().enumerate() {
            let id = ShapeId(id as u32);
            let silent = shape.anti_affinity.is_empty()
                && shape.affinity.is_empty()
                && shape.preferred_affinity.is_empty()
                && shape.preferred_anti_affinity.is_empty();
            if silent || self.snapshot.running.with_terminating(id).is_empty() {
                continue;
            }
            for (counter, amount) in self.affinity_terms(shape) {
                self.running.push((counter, id, amount as i32, true));
            }
        }
    }

    /// Who is seen by which counter, now that all counters are known.
    fn selected_counters(&mut self) {
        let mut meanings: Vec<((u32, u32, Role), u32)> =
            self.by_meaning.iter().map(|(m, c)| (*m, *c)).collect();
        meanings.sort_unstable_by_key(|&(_, counter)| counter);
        for ((matcher, _, role), counter) in meanings {
            let Some((scopes, selected)) = self.matchers.get_index(matcher as usize) else {
                continue;
            };
            for &shape in selected {
                let shape = &mut self.shapes[shape as usize];
                match role {
                    Role::Spread(_) | Role::Selected => shape.adds.push((counter, 1)),
                    Role::AntiAffinity => shape.anti_affinity.push(counter),
                    Role::AffinityWeight => shape.affinity_weights.push((counter, 1)),
                }
            }
            if let Role::Spread(_) | Role::Selected = role {
                let terminating = role == Role::Selected;
                let running = self.snapshot.running.candidates(first_selector(scopes));
                let meant = |&id: &ShapeId| {
                    self.namespaces
                        .matches(scopes, self.snapshot.world.shapes.get(id))
                };
                self.running.extend(
                    running
                        .into_iter()
                        .filter(meant)
                        .map(|id| (counter, id, 1, terminating)),
                );
            }
        }
    }

    /// A placed pod may raise the least count of a spread constraint, or be what an affinity waits
    /// for.
    fn requeues(&mut self) {
        let mut waiting: Vec<Vec<u32>> = vec![Vec::new(); self.counters.len()];
        for (at, shape) in self.shapes.iter().enumerate() {
            let counters = shape
                .required_spread
                .iter()
                .map(|h| h.counter)
                .chain(shape.affinity.iter().copied());
            counters.for_each(|c| waiting[c as usize].push(at as u32));
        }
        for shape in &mut self.shapes {
            let mut woken: Vec<u32> = shape
                .adds
                .iter()
                .flat_map(|(c, _)| &waiting[*c as usize])
                .copied()
                .collect();
            woken.sort_unstable();
            woken.dedup();
            shape.requeues = woken;
        }
    }

    fn seen(&mut self, matcher: Matcher, key: Symbol, role: Role) -> u32 {
        let matcher = self.matcher(matcher);
        self.counter(matcher, key, role)
    }

    fn matcher(&mut self, matcher: Matcher) -> u32 {
        if let Some(at) = self.matchers.get_index_of(&matcher) {
            return at as u32;
        }
        let mut selected = self.postings.candidates(&matcher);
        selected.retain(|&at| {
            self.namespaces
                .matches(&matcher, &self.shapes[at as usize].source)
        });
        self.pairs += selected.len();
        self.matchers.insert_full(matcher, selected).0 as u32
    }

    fn counter(&mut self, matcher: u32, key: Symbol, role: Role) -> u32 {
        let key = self.keys.insert_full(key).0 as u32;
        let filter = if let Role::Spread(filter) = role {
            filter
        } else {
            0
        };
        let space = self.spaces.insert_full((filter, key)).0 as u32;
        let counters = &mut self.counters;
        *self
            .by_meaning
            .entry((matcher, key, role))
            .or_insert_with(|| {
                counters.push(Counter { key, filter, space });
                counters.len() as u32 - 1
            })
    }
}
