//! Groups of pods that one node helps as much as another: by their spec and what their volumes ask
//! for.
//!
//! A group is a digest that is the same in every process, for annotations hold it.

use std::cell::OnceCell;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::storage::{StorageClass, Volume, VolumeClaim};
use crate::model::{
    BetaLabel, ClusterObjects, LabelSelector, Labels, Op, Pod, PodShape, PodTerm, Requirement,
    SelectorOp, ShapeId, Symbol, Symbols,
};
use crate::snapshot::volumes::default_class;

/// Labels by which controllers tell pods of one template apart, or templates of one kind. Of the others
/// those count that the pod's own rules read.
const OWN_LABELS: [&str; 10] = [
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "controller-revision-hash",
    "pod-template-hash",
    "pod-template-generation",
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "batch.kubernetes.io/job-completion-index",
];

/// The groups of pods. The next pod of a Job or of a rollout is of the same group.
pub(super) struct Groups<'w> {
    world: &'w ClusterObjects,
    shapes: FxHashMap<ShapeId, u64>,
    storage: OnceCell<Storage<'w>>,
    kept_away: OnceCell<KeptAway<'w>>,
}

impl<'w> Groups<'w> {
    pub fn new(world: &'w ClusterObjects) -> Self {
        Groups {
            world,
            shapes: FxHashMap::default(),
            storage: OnceCell::new(),
            kept_away: OnceCell::new(),
        }
    }

    /// The group of a pod.
    pub fn of(&mut self, pod: &Pod) -> u64 {
        let shape = self.of_shape(pod.shape);
        match pod.claims.is_empty() {
            true => shape,
            false => self.with_claims(shape, pod, Storage::claim),
        }
    }

    /// The groups that the start of a pod says something of: its own, and the one that it was of
    /// before its volumes were made.
    pub fn of_started(&mut self, pod: &Pod) -> [Option<u64>; 2] {
        let shape = self.of_shape(pod.shape);
        if pod.claims.is_empty() {
            return [Some(shape), None];
        }
        [
            Some(self.with_claims(shape, pod, Storage::claim)),
            Some(self.with_claims(shape, pod, Storage::unbound)),
        ]
    }

    fn of_shape(&mut self, shape: ShapeId) -> u64 {
        let world = self.world;
        let kept_away = self.kept_away.get_or_init(|| KeptAway::of(world));
        let made = || of_shape(world, world.shapes.get(shape), kept_away);
        *self.shapes.entry(shape).or_insert_with(made)
    }

    fn with_claims(
        &self,
        shape: u64,
        pod: &Pod,
        of: impl Fn(&Storage<'w>, &Symbols, &VolumeClaim) -> Digest,
    ) -> u64 {
        let (world, namespace) = (self.world, self.world.shapes.get(pod.shape).namespace);
        let storage = self.storage.get_or_init(|| Storage::of(world));
        let mut claims: Vec<u64> = pod
            .claims
            .iter()
            .map(|&name| match storage.claims.get(&(namespace, name)) {
                Some(&claim) => of(storage, &world.names, claim).0,
                None => 0,
            })
            .collect();
        claims.sort_unstable();
        let mut digest = Digest(shape);
        digest.add("volumes");
        for claim in claims {
            digest.add(&format!("{claim:016x}"));
        }
        digest.0
    }
}

/// Storage objects by name.
struct Storage<'w> {
    claims: FxHashMap<(Symbol, Symbol), &'w VolumeClaim>,
    volumes: FxHashMap<Symbol, &'w Volume>,
    classes: FxHashMap<Symbol, &'w StorageClass>,
    default: Option<&'w StorageClass>,
    topology: [BetaLabel; 2],
}

impl<'w> Storage<'w> {
    fn of(world: &'w ClusterObjects) -> Self {
        let claims = world.volume_claims.iter();
        Storage {
            claims: claims.map(|of| ((of.namespace, of.name), of)).collect(),
            volumes: world.volumes.iter().map(|of| (of.name, of)).collect(),
            classes: world
                .storage_classes
                .iter()
                .map(|of| (of.name, of))
                .collect(),
            default: default_class(world),
            topology: world.beta_topology(),
        }
    }

    /// What a claim asks of a node: by its volume if it has one, else by its class.
    fn claim(&self, names: &Symbols, claim: &VolumeClaim) -> Digest {
        let mut digest = match claim.volume {
            Some(volume) => self.bound(names, volume),
            None => self.unbound(names, claim),
        };
        if claim.lost {
            digest.add("lost");
        }
        if claim.deleting {
            digest.add("deleting");
        }
        digest
    }

    /// A claim of its volume: not by the name, for volumes of one zone ask for the same.
    fn bound(&self, names: &Symbols, volume: Symbol) -> Digest {
        let mut digest = Digest::default();
        let Some(volume) = self.volumes.get(&volume) else {
            digest.add("without its volume");
            return digest;
        };
        digest
            .add("bound")
            .add(volume.driver.map_or("", |driver| names.text(driver)));
        alternatives(names, &volume.node_affinity, &mut digest);
        let keys = self.topology.iter().flat_map(|of| [of.beta, of.stable]);
        for key in keys.flatten() {
            if let Some(value) = volume.labels.get(key) {
                digest.add(names.text(key)).add(names.text(value));
            }
        }
        if volume.deleting {
            digest.add("deleting");
        }
        digest
    }

    /// A claim whose volume is still to be made, or as it was then.
    ///
    /// Neither the node that was selected for it counts, nor which volumes are free, nor how much
    /// room drivers have: each purchase may change them, and the next would be made for another
    /// group.
    fn unbound(&self, names: &Symbols, claim: &VolumeClaim) -> Digest {
        let mut digest = Digest::default();
        digest.add("unbound").add(&format!(
            "{} {} {}",
            claim.modes.0, claim.storage, claim.block
        ));
        if let Some(of) = &claim.selector {
            selector(names, of, &mut digest);
        }
        let class = match claim.class {
            Some(class) => self.classes.get(&class).copied(),
            None => self.default,
        };
        match class {
            Some(class) => {
                digest
                    .add(names.text(class.name))
                    .add(names.text(class.provisioner))
                    .add(&class.wait_for_consumer.to_string());
                alternatives(names, &class.topologies, &mut digest);
            }
            None => {
                digest.add("without its class");
            }
        }
        digest
    }
}

fn alternatives(names: &Symbols, all: &[Vec<Requirement>], digest: &mut Digest) {
    for term in all {
        digest.add("term");
        term.iter().for_each(|r| requirement(names, r, digest));
    }
}

/// FNV-1a, which is the same in every process.
#[derive(Clone, Copy)]
pub(super) struct Digest(pub u64);

impl Default for Digest {
    fn default() -> Self {
        Digest(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    pub fn add(&mut self, text: &str) -> &mut Self {
        for byte in text.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self
    }
}

/// The required anti-affinity of all pods, which keeps other pods away from them.
///
/// A pod's group tells by which of them it is kept away, not by its labels: what other pods come and go
/// with rules that do not concern it changes no group, so no pause ends by that.
struct KeptAway<'w> {
    terms: Vec<OtherTerm<'w>>,
    /// Terms that select one value of a label, or one of a few, by label and value.
    by_label: FxHashMap<(Symbol, Symbol), Vec<usize>>,
    /// Terms that are not in `by_label`, which every pod is held against.
    rest: Vec<usize>,
    /// Namespaces with their labels.
    namespaces: FxHashMap<Symbol, &'w Labels>,
}

/// A required anti-affinity term of some pod.
struct OtherTerm<'w> {
    term: &'w PodTerm,
    /// The namespace of its pod.
    namespace: Symbol,
    digest: u64,
}

impl<'w> KeptAway<'w> {
    fn of(world: &'w ClusterObjects) -> Self {
        let here = world.pods.iter().filter(|pod| !pod.terminal);
        let shapes: FxHashSet<ShapeId> = here.map(|pod| pod.shape).collect();
        let mut known: FxHashSet<u64> = FxHashSet::default();
        let mut all = KeptAway {
            terms: Vec::new(),
            by_label: FxHashMap::default(),
            rest: Vec::new(),
            namespaces: world
                .namespaces
                .iter()
                .map(|(name, labels)| (*name, labels))
                .collect(),
        };
        for shape in shapes.into_iter().map(|shape| world.shapes.get(shape)) {
            for of in &shape.anti_affinity {
                let mut digest = Digest::default();
                digest.add(world.names.text(shape.namespace));
                term(&world.names, of, &mut digest);
                if known.insert(digest.0) {
                    all.add(OtherTerm {
                        term: of,
                        namespace: shape.namespace,
                        digest: digest.0,
                    });
                }
            }
        }
        all
    }

    fn add(&mut self, of: OtherTerm<'w>) {
        let at = self.terms.len();
        let rules = of.term.selector.0.iter().flatten();
        let values = rules.into_iter().find_map(|rule| match &rule.op {
            SelectorOp::In(values) => Some((rule.key, values)),
            _ => None,
        });
        match values {
            Some((key, values)) => values.iter().for_each(|&value| {
                self.by_label.entry((key, value)).or_default().push(at);
            }),
            None => self.rest.push(at),
        }
        self.terms.push(of);
    }

    /// Digests of the terms that select pods of a shape, sorted.
    fn digests(&self, shape: &PodShape) -> Vec<u64> {
        let by_label = shape.labels.iter();
        let by_label = by_label.filter_map(|(key, value)| self.by_label.get(&(key, value)));
        let terms = by_label
            .flatten()
            .chain(&self.rest)
            .map(|&at| &self.terms[at]);
        let mut selecting: Vec<u64> = terms
            .filter(|of| self.selects(of, shape))
            .map(|of| of.digest)
            .collect();
        selecting.sort_unstable();
        selecting
    }

    fn selects(&self, of: &OtherTerm<'_>, shape: &PodShape) -> bool {
        let (term, namespace) = (of.term, shape.namespace);
        let by_selector = term.namespace_selector.as_ref().is_some_and(|selector| {
            let labels = self.namespaces.get(&namespace);
            labels.is_some_and(|labels| selector.matches(labels))
        });
        let is_own = term.namespaces.is_empty()
            && term.namespace_selector.is_none()
            && namespace == of.namespace;
        (is_own || by_selector || term.namespaces.contains(&namespace))
            && term.selector.matches(&shape.labels)
    }
}

/// Labels that a pod's own rules about pods read; nothing for all of them, where a spread by default goes by
/// the selectors of Services.
fn read_labels(world: &ClusterObjects, shape: &PodShape) -> Option<FxHashSet<Symbol>> {
    if !world.settings.default_spread.is_empty() {
        return None;
    }
    let spread = shape.spread.iter().filter(|of| of.required);
    let terms = shape.affinity.iter().chain(&shape.anti_affinity);
    let selectors = spread.map(|of| &of.selector);
    let selectors = selectors.chain(terms.map(|of| &of.selector));
    let rules = selectors.flat_map(|LabelSelector(rules)| rules.iter().flatten());
    Some(rules.map(|rule| rule.key).collect())
}

/// The digest of a shape: everything that decides where its pods may run. Of its labels those count
/// that its own rules read, but for [`OWN_LABELS`].
fn of_shape(world: &ClusterObjects, shape: &PodShape, kept_away: &KeptAway<'_>) -> u64 {
    let names = &world.names;
    let text = |sym: Symbol| names.text(sym);
    let mut digest = Digest::default();
    digest.add(text(shape.namespace));
    let read = read_labels(world, shape);
    let mut own: Vec<(&str, &str)> = shape
        .labels
        .iter()
        .filter(|(key, _)| read.as_ref().is_none_or(|read| read.contains(key)))
        .map(|(key, value)| (text(key), text(value)))
        .filter(|(key, _)| !OWN_LABELS.contains(key))
        .collect();
    own.sort_unstable();
    own.iter().for_each(|(key, value)| {
        digest.add(key).add(value);
    });
    for term in kept_away.digests(shape) {
        digest.add("kept away").add(&format!("{term:016x}"));
    }
    let mut asks: Vec<(&str, i64)> = shape
        .requests
        .iter()
        .map(|(resource, amount)| (resource.name(names), amount))
        .collect();
    asks.sort_unstable();
    digest.add("requests");
    asks.iter().for_each(|(resource, amount)| {
        digest.add(resource).add(&amount.to_string());
    });
    digest.add("selector");
    shape
        .node_selector
        .iter()
        .for_each(|r| requirement(names, r, &mut digest));
    for term in &shape.required {
        digest.add("term");
        term.iter().for_each(|r| requirement(names, r, &mut digest));
    }
    for of in &shape.tolerations {
        digest
            .add("toleration")
            .add(of.key.map_or("", text))
            .add(text(of.value));
        digest.add(&format!("{} {:?}", of.exists, of.effect));
    }
    for of in shape.spread.iter().filter(|of| of.required) {
        digest.add("spread").add(text(of.key));
        digest.add(&format!(
            "{} {:?} {:?} {:?}",
            of.max_skew, of.min_domains, of.node_affinity, of.node_taints
        ));
        selector(names, &of.selector, &mut digest);
    }
    for of in &shape.affinity {
        digest.add("affinity");
        term(names, of, &mut digest);
    }
    for of in &shape.anti_affinity {
        digest.add("anti-affinity");
        term(names, of, &mut digest);
    }
    for port in &shape.ports {
        digest
            .add("port")
            .add(port.ip.map_or("", text))
            .add(text(port.protocol));
        digest.add(&port.port.to_string());
    }
    digest.0
}

fn requirement(names: &Symbols, r: &Requirement, digest: &mut Digest) {
    digest.add(names.text(r.key));
    match &r.op {
        Op::In(values) | Op::NotIn(values) => {
            digest.add(if matches!(r.op, Op::In(_)) {
                "In"
            } else {
                "NotIn"
            });
            values.iter().for_each(|&value| {
                digest.add(names.text(value));
            });
        }
        Op::Exists => {
            digest.add("Exists");
        }
        Op::DoesNotExist => {
            digest.add("DoesNotExist");
        }
        Op::Gte(bound) => {
            digest.add("Gte").add(&bound.to_string());
        }
        Op::Lte(bound) => {
            digest.add("Lte").add(&bound.to_string());
        }
    }
}

fn term(names: &Symbols, term: &PodTerm, digest: &mut Digest) {
    digest.add(names.text(term.key));
    selector(names, &term.selector, digest);
    term.namespaces.iter().for_each(|&of| {
        digest.add(names.text(of));
    });
    if let Some(of) = &term.namespace_selector {
        digest.add("namespaces");
        selector(names, of, digest);
    }
}

fn selector(names: &Symbols, selector: &LabelSelector, digest: &mut Digest) {
    let Some(rules) = &selector.0 else {
        return;
    };
    for rule in rules {
        let key = names.text(rule.key);
        if OWN_LABELS.contains(&key) {
            continue;
        }
        digest.add(key);
        match &rule.op {
            SelectorOp::In(values) | SelectorOp::NotIn(values) => {
                let is_in = matches!(rule.op, SelectorOp::In(_));
                digest.add(if is_in { "In" } else { "NotIn" });
                values.iter().for_each(|&value| {
                    digest.add(names.text(value));
                });
            }
            SelectorOp::Exists => {
                digest.add("Exists");
            }
            SelectorOp::DoesNotExist => {
                digest.add("DoesNotExist");
            }
        }
    }
}
