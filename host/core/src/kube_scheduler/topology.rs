//! Who is where: counts of pods by topology domain, kept up to date pod by pod, and the rules that read them.
//!
//! Every rule of every shape reads one [`Counter`]; rules that count the same pods over the same hosts share it.

use rustc_hash::FxHashMap;

use super::Kind;
use super::hosts::Host;
use crate::model::{LabelSelector, NodeInclusion, PodShape, PodTerm, SelectorOp, ShapeId, Spread, Sym};
use crate::snapshot::Snapshot;

/// The domain of a host that lacks the key.
const NOWHERE: u32 = u32::MAX;

/// Pods in some namespaces under some selector.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Term {
    /// `None` for all.
    namespaces: Option<Vec<Sym>>,
    selector: LabelSelector,
}

impl Term {
    fn of(term: &PodTerm, own: Sym, snapshot: &Snapshot) -> Self {
        let selector = term.selector.clone();
        let mut names = term.namespaces.clone();
        match &term.namespace_selector {
            Some(LabelSelector(Some(rules))) if rules.is_empty() => return Term { namespaces: None, selector },
            Some(chosen) => {
                let all = snapshot.world.namespaces.iter();
                names.extend(all.filter(|(_, labels)| chosen.matches(labels)).map(|(name, _)| *name));
            }
            None if names.is_empty() => names.push(own),
            None => {}
        }
        names.sort_unstable();
        names.dedup();
        Term { namespaces: Some(names), selector }
    }

    fn matches(&self, shape: &PodShape) -> bool {
        self.namespaces.as_ref().is_none_or(|all| all.contains(&shape.namespace))
            && self.selector.matches(&shape.labels)
    }
}

/// Which pods a counter counts.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Counted {
    /// Those that match all terms.
    Matching(Vec<Term>),
    /// Those that carry the term: required anti-affinity for no weight, else a preference of that weight.
    Carrying(Term, Option<i32>),
    /// Those of one kind.
    Alike(usize),
}

struct Counter {
    key: usize,
    /// Pods by domain.
    counts: Vec<u32>,
    /// Hosts there now by domain; a domain without any does not exist yet.
    present: Vec<u32>,
    /// Which hosts count; `None` for all.
    eligible: Option<Vec<bool>>,
    total: u64,
}

struct Key {
    /// The domain of each host.
    of: Vec<u32>,
    domains: usize,
}

struct SpreadRule {
    counter: usize,
    max_skew: i64,
    min_domains: usize,
    /// The pod is one of those it counts.
    own: i64,
}

/// What one shape obeys, and what it adds to.
#[derive(Default)]
struct Rules {
    hard: Vec<SpreadRule>,
    soft: Vec<SpreadRule>,
    /// All must have a pod in the domain.
    together: Vec<usize>,
    /// It satisfies its own affinity, so that the first of its kind may start anywhere.
    alone: bool,
    /// None may have a pod in the domain.
    apart: Vec<usize>,
    likes: Vec<(usize, f64)>,
    adds: Vec<usize>,
}

/// All counters and rules of a survival.
pub(super) struct Topology {
    keys: Vec<Key>,
    counters: Vec<Counter>,
    rules: Vec<Rules>,
}

/// For one pod: what every domain is measured against, worked out before hosts are looked at.
pub(super) struct Limits(Vec<i64>);

impl Topology {
    /// The counts as they are before the first pod is bound.
    pub fn new(snapshot: &Snapshot, kinds: &[Kind], hosts: &[Host]) -> Self {
        let mut make = Maker {
            snapshot,
            kinds,
            hosts,
            by_key: FxHashMap::default(),
            by_what: FxHashMap::default(),
            postings: FxHashMap::default(),
            carried: Vec::new(),
            topology: Topology { keys: Vec::new(), counters: Vec::new(), rules: Vec::new() },
        };
        for (at, kind) in kinds.iter().enumerate() {
            make.topology.rules.push(Rules::default());
            kind.shape.labels.iter().for_each(|label| make.postings.entry(label).or_default().push(at));
        }
        for at in 0..kinds.len() {
            make.rules(at);
        }
        make.carriers();
        make.inverse();
        make.topology
    }

    /// A host has come.
    pub fn arrive(&mut self, host: usize) {
        for counter in &mut self.counters {
            let domain = self.keys[counter.key].of[host];
            if domain != NOWHERE && counter.eligible.as_ref().is_none_or(|e| e[host]) {
                counter.present[domain as usize] += 1;
            }
        }
    }

    /// A pod has been bound.
    pub fn bind(&mut self, kind: usize, host: usize) {
        for &at in &self.rules[kind].adds {
            self.counters[at].add(&self.keys, host, 1);
        }
    }

    /// Whether a pod bound elsewhere can make room for pods of this kind.
    pub fn may_open(&self, kind: usize) -> bool {
        let rules = &self.rules[kind];
        !rules.hard.is_empty() || !rules.together.is_empty()
    }

    /// What hard spread allows in a domain at most, before the pod.
    pub fn limits(&self, kind: usize) -> Limits {
        let limit = |rule: &SpreadRule| {
            let counter = &self.counters[rule.counter];
            let mut there = counter.counts.iter().zip(&counter.present).filter(|(_, p)| **p > 0);
            let domains = there.clone().count();
            let least = if domains < rule.min_domains { 0 } else { there.by_ref().map(|(c, _)| *c).min().unwrap_or(0) };
            i64::from(least) + rule.max_skew - rule.own
        };
        Limits(self.rules[kind].hard.iter().map(limit).collect())
    }

    /// Whether every hard topology rule lets a pod of this kind onto the host.
    pub fn allows(&self, kind: usize, host: usize, limits: &Limits) -> bool {
        let rules = &self.rules[kind];
        let spread = rules
            .hard
            .iter()
            .zip(&limits.0)
            .all(|(rule, limit)| self.count(rule.counter, host).is_some_and(|c| i64::from(c) <= *limit));
        spread
            && rules.apart.iter().all(|&c| self.count(c, host).is_none_or(|n| n == 0))
            && (rules.together.is_empty() || self.joins(rules, host))
    }

    fn joins(&self, rules: &Rules, host: usize) -> bool {
        if rules.together.iter().all(|&c| self.count(c, host).is_some_and(|n| n > 0)) {
            return true;
        }
        rules.alone && rules.together.iter().all(|&c| self.counters[c].total == 0 && self.count(c, host).is_some())
    }

    /// Pods in the domain of the host; nothing if the host has none.
    fn count(&self, counter: usize, host: usize) -> Option<u32> {
        let counter = &self.counters[counter];
        let domain = self.keys[counter.key].of[host];
        (domain != NOWHERE).then(|| counter.counts[domain as usize])
    }

    /// How full of its like the domains of a host are, by soft spread; nothing where a key is missing. Less is better.
    pub fn crowd(&self, kind: usize, host: usize) -> Option<f64> {
        let mut sum = 0.0;
        for rule in &self.rules[kind].soft {
            let counter = &self.counters[rule.counter];
            let size = counter.present.len() as f64;
            sum += f64::from(self.count(rule.counter, host)?) * (size + 2.0).ln() + (rule.max_skew - 1) as f64;
        }
        Some(sum.round())
    }

    /// Whether soft spread says anything.
    pub fn spreads(&self, kind: usize) -> bool {
        !self.rules[kind].soft.is_empty()
    }

    /// What pod affinity prefers: the sum of weights over the pods around, own preferences and those of the others.
    pub fn liking(&self, kind: usize, host: usize) -> f64 {
        let likes = self.rules[kind].likes.iter();
        likes.map(|&(c, weight)| self.count(c, host).map_or(0.0, |n| f64::from(n) * weight)).sum()
    }

    /// Whether pod affinity prefers anything.
    pub fn prefers(&self, kind: usize) -> bool {
        !self.rules[kind].likes.is_empty()
    }
}

impl Counter {
    fn add(&mut self, keys: &[Key], host: usize, pods: u32) {
        let domain = keys[self.key].of[host];
        if domain != NOWHERE && self.eligible.as_ref().is_none_or(|e| e[host]) {
            self.counts[domain as usize] += pods;
            self.total += u64::from(pods);
        }
    }
}

/// Builds the counters, each once.
struct Maker<'a> {
    snapshot: &'a Snapshot,
    kinds: &'a [Kind],
    hosts: &'a [Host],
    by_key: FxHashMap<Sym, usize>,
    by_what: FxHashMap<(Counted, usize, Option<Vec<bool>>), usize>,
    /// Kinds by a label.
    postings: FxHashMap<(Sym, Sym), Vec<usize>>,
    /// Counters of carriers with their term and what they mean to the pods that it selects.
    carried: Vec<(usize, Term, Option<i32>)>,
    topology: Topology,
}

impl Maker<'_> {
    /// The rules of one kind by itself.
    fn rules(&mut self, kind: usize) {
        let shape = self.kinds[kind].shape.clone();
        let own = |s: &Maker, t: &PodTerm| Term::of(t, shape.namespace, s.snapshot);
        self.spread(kind, &shape, true);
        self.spread(kind, &shape, false);
        if shape.spread.is_empty() {
            self.default_spread(kind);
        }
        let terms: Vec<Term> = shape.affinity.iter().map(|t| own(self, t)).collect();
        self.topology.rules[kind].alone = terms.iter().all(|t| t.matches(&shape));
        for term in &shape.affinity {
            let counter = self.counter(Counted::Matching(terms.clone()), term.key, None);
            self.topology.rules[kind].together.push(counter);
        }
        for term in &shape.anti_affinity {
            let counter = self.counter(Counted::Matching(vec![own(self, term)]), term.key, None);
            self.topology.rules[kind].apart.push(counter);
        }
        for (weight, term) in preferences(&shape) {
            let counter = self.counter(Counted::Matching(vec![own(self, term)]), term.key, None);
            self.topology.rules[kind].likes.push((counter, f64::from(weight)));
        }
    }

    fn spread(&mut self, kind: usize, shape: &PodShape, required: bool) {
        let rules: Vec<&Spread> = shape.spread.iter().filter(|s| s.required == required).collect();
        for spread in &rules {
            let names = &self.snapshot.world.names;
            let counts = |host: &Host| {
                rules.iter().all(|s| host.has(s.key))
                    && (spread.node_affinity == NodeInclusion::Ignore || host.admits(shape, names))
                    && (spread.node_taints == NodeInclusion::Ignore || host.lets_in(shape))
            };
            let eligible: Vec<bool> = self.hosts.iter().map(counts).collect();
            let eligible = eligible.contains(&false).then_some(eligible);
            let term = Term { namespaces: Some(vec![shape.namespace]), selector: spread.selector.clone() };
            let own = i64::from(spread.selector.matches(&shape.labels));
            let counter = self.counter(Counted::Matching(vec![term]), spread.key, eligible);
            let min_domains = spread.min_domains.unwrap_or(1).max(0) as usize;
            let rule = SpreadRule { counter, max_skew: i64::from(spread.max_skew), min_domains, own };
            let rules = &mut self.topology.rules[kind];
            if required { rules.hard.push(rule) } else { rules.soft.push(rule) }
        }
    }

    /// The defaults that are built into the scheduler: hosts with a skew of 3, zones with 5, never required. What the
    /// owner of a pod selects is taken to be the pods of the same shape.
    fn default_spread(&mut self, kind: usize) {
        for (key, max_skew) in [("kubernetes.io/hostname", 3), ("topology.kubernetes.io/zone", 5)] {
            let Some(key) = self.snapshot.world.names.get(key) else { continue };
            if self.hosts.iter().any(|h| !h.has(key)) {
                continue;
            }
            let counter = self.counter(Counted::Alike(kind), key, None);
            self.topology.rules[kind].soft.push(SpreadRule { counter, max_skew, min_domains: 1, own: 1 });
        }
    }

    /// Who carries required anti-affinity or a preference, running or pending.
    fn carriers(&mut self) {
        let snapshot = self.snapshot;
        for (at, kind) in self.kinds.iter().enumerate() {
            for (key, weight, term) in terms_carried(&kind.shape, snapshot) {
                let counter = self.carrier(key, weight, term);
                self.topology.rules[at].adds.push(counter);
            }
        }
        for (at, shape) in snapshot.world.shapes.iter().enumerate() {
            let on = snapshot.running.on(ShapeId(at as u32));
            if on.is_empty() {
                continue;
            }
            for (key, weight, term) in terms_carried(shape, snapshot) {
                let counter = self.carrier(key, weight, term);
                for &(node, pods) in on {
                    self.topology.counters[counter].add(&self.topology.keys, node.0 as usize, pods);
                }
            }
        }
    }

    fn carrier(&mut self, key: Sym, weight: Option<i32>, term: Term) -> usize {
        let before = self.topology.counters.len();
        let counter = self.counter(Counted::Carrying(term.clone(), weight), key, None);
        if counter == before {
            self.carried.push((counter, term, weight));
        }
        counter
    }

    /// What the terms of others mean to each kind that they select.
    fn inverse(&mut self) {
        for (counter, term, weight) in std::mem::take(&mut self.carried) {
            for kind in self.selected(std::slice::from_ref(&term)) {
                let rules = &mut self.topology.rules[kind];
                match weight {
                    None => rules.apart.push(counter),
                    Some(weight) => rules.likes.push((counter, f64::from(weight))),
                }
            }
        }
    }

    /// Kinds that match all terms.
    fn selected(&self, terms: &[Term]) -> Vec<usize> {
        let all = |kind: &usize| terms.iter().all(|t| t.matches(&self.kinds[*kind].shape));
        let named = terms.iter().filter_map(|t| t.selector.0.as_ref()).flatten().find_map(|rule| match &rule.op {
            SelectorOp::In(values) => Some((rule.key, values)),
            _ => None,
        });
        let Some((key, values)) = named else { return (0..self.kinds.len()).filter(all).collect() };
        let mut some: Vec<usize> =
            values.iter().filter_map(|&v| self.postings.get(&(key, v))).flatten().copied().filter(all).collect();
        some.sort_unstable();
        some.dedup();
        some
    }

    fn counter(&mut self, what: Counted, key: Sym, eligible: Option<Vec<bool>>) -> usize {
        let key = self.key(key);
        let id = (what, key, eligible);
        if let Some(&at) = self.by_what.get(&id) {
            return at;
        }
        let domains = self.topology.keys[key].domains;
        let (counts, present) = (vec![0; domains], vec![0; domains]);
        let mut counter = Counter { key, counts, present, eligible: id.2.clone(), total: 0 };
        let at = self.topology.counters.len();
        let (pending, running) = match &id.0 {
            Counted::Carrying(..) => (Vec::new(), Vec::new()),
            Counted::Alike(kind) => (vec![*kind], self.kinds[*kind].ids.clone()),
            Counted::Matching(terms) => {
                let shapes = terms.first().map(|t| self.snapshot.running.candidates(&t.selector)).unwrap_or_default();
                let matches = |id: &ShapeId| {
                    let shape = self.snapshot.world.shapes.get(*id);
                    terms.iter().all(|t| t.matches(shape))
                };
                (self.selected(terms), shapes.into_iter().filter(matches).collect())
            }
        };
        for id in running {
            for &(node, pods) in self.snapshot.running.on(id) {
                counter.add(&self.topology.keys, node.0 as usize, pods);
            }
        }
        pending.into_iter().for_each(|kind| self.topology.rules[kind].adds.push(at));
        self.topology.counters.push(counter);
        self.by_what.insert(id, at);
        at
    }

    /// Domains of a key: hosts for the host name, else one per value.
    fn key(&mut self, key: Sym) -> usize {
        if let Some(&at) = self.by_key.get(&key) {
            return at;
        }
        let mut values: FxHashMap<Sym, u32> = FxHashMap::default();
        let by_host = self.snapshot.world.names.get("kubernetes.io/hostname") == Some(key);
        let of = self.hosts.iter().enumerate().map(|(at, host)| match host.label(key) {
            _ if by_host => at as u32,
            None => NOWHERE,
            Some(value) => {
                let next = values.len() as u32;
                *values.entry(value).or_insert(next)
            }
        });
        let of: Vec<u32> = of.collect();
        let domains = if by_host { of.len() } else { values.len() };
        self.topology.keys.push(Key { of, domains });
        self.by_key.insert(key, self.topology.keys.len() - 1);
        self.topology.keys.len() - 1
    }
}

fn preferences(shape: &PodShape) -> impl Iterator<Item = (i32, &PodTerm)> {
    let near = shape.preferred_affinity.iter().map(|(weight, term)| (*weight, term));
    near.chain(shape.preferred_anti_affinity.iter().map(|(weight, term)| (-*weight, term)))
}

/// Key, weight and term of all that a pod asks of pods that come after it. Required affinity weighs 1, the default
/// `hardPodAffinityWeight`.
fn terms_carried(shape: &PodShape, snapshot: &Snapshot) -> Vec<(Sym, Option<i32>, Term)> {
    let hard = shape.anti_affinity.iter().map(|t| (None, t));
    let near = shape.affinity.iter().map(|t| (Some(1), t));
    let soft = preferences(shape).map(|(weight, t)| (Some(weight), t));
    let all = hard.chain(near).chain(soft);
    all.map(|(weight, t)| (t.key, weight, Term::of(t, shape.namespace, snapshot))).collect()
}
