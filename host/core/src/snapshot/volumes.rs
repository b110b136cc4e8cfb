//! Resolves a pod's volumes to where they can be attached and which limits they count against.

mod topology;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::nodes::StateNode;
use crate::ids::PodIx;
use crate::matching::satisfies;
use crate::model::storage::{StorageCapacity, StorageClass, Volume, VolumeClaim};
use crate::model::{BetaLabel, ClusterObjects, Pod, Requirement, SelectorOp, Symbol};

pub(super) use self::topology::default_class;

/// A PersistentVolumeClaim of which one pod decides for the others: its volume is made or chosen
/// for the node of its first pod, or one pod at a time may use it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SharedClaim {
    /// Its position in [`ClusterObjects::volume_claims`].
    pub claim: u32,
    /// One pod at a time may use its volume (ReadWriteOncePod). Else the others can be where the
    /// first is until the volume is there.
    pub one_pod: bool,
    /// The pod that is nominated and has the claim, and its node.
    pub first: Option<(PodIx, u32)>,
}

/// A PersistentVolumeClaim that is bound when its pod is placed: to a PersistentVolume that is there,
/// else to one that is made.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ClaimToBind {
    /// Its position in [`ClusterObjects::volume_claims`].
    pub claim: u32,
    /// PersistentVolumes that fit it, the smallest first: positions in [`ClusterObjects::volumes`].
    /// Each serves one claim.
    pub volumes: Vec<u32>,
    /// Where a volume can be made for it if it gets none of these: one of the alternatives must
    /// hold. Nothing if none can be made.
    pub made: Option<Vec<Vec<Requirement>>>,
}

/// Volumes that claims are given: position of the volume, position of the claim.
pub type Given = SmallVec<[(u32, u32); 2]>;

/// Gives each claim of a pod the smallest volume that no other claim has and that can be used on a
/// node of which `hold` says whether requirements hold there. `None` if a claim gets no volume and
/// none can be made for it there.
pub fn give(
    world: &ClusterObjects,
    claims: &[ClaimToBind],
    taken: &FxHashMap<u32, u32>,
    hold: impl Fn(&[Requirement]) -> bool,
) -> Option<Given> {
    let one_holds = |terms: &[Vec<Requirement>]| terms.is_empty() || terms.iter().any(|t| hold(t));
    let mut given = Given::new();
    for of in claims {
        let suits = |volume: &&u32| {
            let free = taken.get(*volume).is_none_or(|&claim| claim == of.claim);
            let other = given.iter().any(|(known, _)| known == *volume);
            free && !other && one_holds(&world.volumes[**volume as usize].node_affinity)
        };
        match of.volumes.iter().find(suits) {
            Some(&volume) => given.push((volume, of.claim)),
            None if of.made.as_ref().is_some_and(|made| one_holds(made)) => {}
            None => return None,
        }
    }
    Some(given)
}

/// Where the volumes of a pod let it be.
#[derive(Default)]
pub struct Places {
    /// Alternatives of which one must hold; none is no restriction.
    pub alternatives: Vec<Vec<Requirement>>,
    /// Its claims that are bound when it is placed, those that ask for least first.
    pub to_bind: Vec<ClaimToBind>,
}

/// Alternatives of which one must hold; none is no restriction.
type Alternatives = Vec<Vec<Requirement>>;

/// How the host of a local volume counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LocalVolumes {
    /// Its pod can be bound there and nowhere else.
    Bind,
    /// It goes with its node: what else its affinity says restricts the pod.
    Leave,
}

/// Volumes by name.
pub struct Volumes<'a> {
    claims: FxHashMap<(Symbol, Symbol), (u32, &'a VolumeClaim)>,
    volumes: FxHashMap<Symbol, (u32, &'a Volume)>,
    /// The first volume of each driver and handle, which stands for all of them.
    handles: FxHashMap<(Symbol, Symbol), u32>,
    classes: FxHashMap<Symbol, &'a StorageClass>,
    /// The class of claims that name none: of several defaults the newest.
    default: Option<&'a StorageClass>,
    hostname: Option<Symbol>,
    /// Topology labels that had another name in beta.
    topology: [BetaLabel; 2],
    /// Pods that use a claim of which one pod at a time may use the volume.
    users: FxHashMap<(Symbol, Symbol), Vec<PodIx>>,
    /// Nodes that claims have selected and that exist.
    selected: FxHashSet<Symbol>,
    /// Classes whose driver makes volumes on the node itself, and says how much room each has.
    on_nodes: FxHashSet<Symbol>,
    /// Volumes that go to claims of pods that are about to be bound, by position.
    taken: FxHashMap<u32, u32>,
}

impl<'a> Volumes<'a> {
    /// Indexes storage objects.
    pub fn index(world: &'a ClusterObjects) -> Self {
        let claims = world.volume_claims.iter().enumerate();
        let volumes = world.volumes.iter().enumerate();
        let mut handles = FxHashMap::default();
        for (at, volume) in world.volumes.iter().enumerate() {
            if let Some(handle) = volume.driver.zip(volume.handle) {
                handles.entry(handle).or_insert(at as u32);
            }
        }
        Volumes {
            claims: claims
                .map(|(at, c)| ((c.namespace, c.name), (at as u32, c)))
                .collect(),
            volumes: volumes.map(|(at, v)| (v.name, (at as u32, v))).collect(),
            handles,
            classes: world.storage_classes.iter().map(|c| (c.name, c)).collect(),
            default: default_class(world),
            hostname: world.names.get("kubernetes.io/hostname"),
            topology: world.beta_topology(),
            users: users(world),
            selected: selected(world),
            on_nodes: classes_on_nodes(world),
            taken: FxHashMap::default(),
        }
    }

    /// Gives volumes to the claims of pods that are about to be bound, each with its node.
    pub fn give_to(
        &mut self,
        world: &ClusterObjects,
        nominated: &[(PodIx, usize)],
        nodes: &[StateNode],
    ) {
        for &(pod, node) in nominated {
            if world.pods[pod.0 as usize].claims.is_empty() {
                continue;
            }
            let Ok(places) = self.places(world, pod, LocalVolumes::Bind) else {
                continue;
            };
            let labels = &nodes[node].labels;
            let hold = |all: &[Requirement]| all.iter().all(|r| satisfies(labels, r, &world.names));
            let given = give(world, &places.to_bind, &self.taken, hold);
            self.taken.extend(given.into_iter().flatten());
        }
    }

    /// Whether nodes have to be told apart from those that are yet to come.
    pub fn count_rooms_of_nodes(&self) -> bool {
        !self.on_nodes.is_empty()
    }

    /// Nodes for which a volume is to be made.
    pub fn selected_nodes(&self) -> &FxHashSet<Symbol> {
        &self.selected
    }

    /// CSI volumes of a pod: driver and a number of the volume. Claims that cannot be resolved are
    /// left out.
    pub fn of(&self, world: &ClusterObjects, pod: &Pod) -> Vec<(Symbol, u32)> {
        let namespace = world.shapes.get(pod.shape).namespace;
        let named = pod.claims.iter();
        let mut all: Vec<(Symbol, u32)> = named
            .filter_map(|&name| self.driver(namespace, name))
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn driver(&self, namespace: Symbol, name: Symbol) -> Option<(Symbol, u32)> {
        let &(at, claim) = self.claims.get(&(namespace, name))?;
        match claim.volume.and_then(|v| self.volumes.get(&v)) {
            Some(&(number, volume)) => self.number(number, volume),
            None => Some((self.class_of(claim)?.provisioner, at)),
        }
    }

    /// The StorageClass of a claim: the one that it names, else the default.
    fn class_of(&self, claim: &VolumeClaim) -> Option<&'a StorageClass> {
        match claim.class {
            Some(class) => self.classes.get(&class).copied(),
            None => self.default,
        }
    }

    /// The driver of a volume, and a number that it shares with volumes of the same handle and with
    /// no claim.
    fn number(&self, at: u32, volume: &Volume) -> Option<(Symbol, u32)> {
        let driver = volume.driver?;
        let first = volume
            .handle
            .and_then(|handle| self.handles.get(&(driver, handle)));
        Some((
            driver,
            self.claims.len() as u32 + first.copied().unwrap_or(at),
        ))
    }

    /// Volumes that are attached to nodes, whether pods use them there or not.
    pub fn attached(&self, world: &ClusterObjects) -> Vec<(Symbol, (Symbol, u32))> {
        let of = |attachment: &crate::model::storage::VolumeAttachment| {
            let &(at, volume) = self.volumes.get(&attachment.volume?)?;
            let (_, number) = self.number(at, volume)?;
            Some((attachment.node, (attachment.driver, number)))
        };
        world.attachments.iter().filter_map(of).collect()
    }

    /// The claims of a pod that one pod at a time may use.
    fn exclusive(&self, world: &ClusterObjects, pod: &Pod) -> Vec<(Symbol, Symbol)> {
        let namespace = world.shapes.get(pod.shape).namespace;
        let named = pod.claims.iter().map(|&name| (namespace, name));
        let one_pod = |id: &(Symbol, Symbol)| {
            self.claims
                .get(id)
                .is_some_and(|(_, claim)| claim.modes.one_pod())
        };
        named.filter(one_pod).collect()
    }

    /// The claims of a pod of which one pod decides for the others, each once.
    pub fn shareable(&self, world: &ClusterObjects, pod: &Pod) -> Vec<SharedClaim> {
        let namespace = world.shapes.get(pod.shape).namespace;
        let mut all: Vec<SharedClaim> = Vec::new();
        for &name in &pod.claims {
            let Some(&(at, claim)) = self.claims.get(&(namespace, name)) else {
                continue;
            };
            let one_pod = claim.modes.one_pod();
            let known = all.iter().any(|of| of.claim == at);
            if !known && (one_pod || self.waits_for_a_node(claim)) {
                all.push(SharedClaim {
                    claim: at,
                    one_pod,
                    first: None,
                });
            }
        }
        all
    }

    /// Whether the node of a claim's first pod decides where its volume is.
    fn waits_for_a_node(&self, claim: &VolumeClaim) -> bool {
        let class = self.class_of(claim);
        claim.volume.is_none()
            && claim.selected_node.is_none()
            && class.is_some_and(|class| class.wait_for_consumer)
    }
}

/// Pods that use claims of which one pod at a time may use the volume: bound ones, terminating ones
/// included, and those that are about to be.
fn users(world: &ClusterObjects) -> FxHashMap<(Symbol, Symbol), Vec<PodIx>> {
    let one_pod = world
        .volume_claims
        .iter()
        .filter(|claim| claim.modes.one_pod());
    let exclusive: FxHashSet<(Symbol, Symbol)> =
        one_pod.map(|claim| (claim.namespace, claim.name)).collect();
    let mut users: FxHashMap<(Symbol, Symbol), Vec<PodIx>> = FxHashMap::default();
    if exclusive.is_empty() {
        return users;
    }
    for (at, pod) in world.pods.iter().enumerate() {
        let holds = !pod.terminal && (pod.node.is_some() || pod.nominated.is_some());
        if pod.claims.is_empty() || !holds {
            continue;
        }
        let namespace = world.shapes.get(pod.shape).namespace;
        let named = pod.claims.iter().map(|&name| (namespace, name));
        for id in named.filter(|id| exclusive.contains(id)) {
            users.entry(id).or_default().push(PodIx(at as u32));
        }
    }
    users
}

/// Classes with room that one node alone has: it is said by a label of which no two nodes share a
/// value, and which is neither zone nor region nor given by a NodePool.
fn classes_on_nodes(world: &ClusterObjects) -> FxHashSet<Symbol> {
    let counting = world.csi_drivers.iter().filter(|of| of.counts_capacity);
    let counting: FxHashSet<Symbol> = counting.map(|driver| driver.name).collect();
    let classes = world.storage_classes.iter();
    let classes = classes.filter(|class| counting.contains(&class.provisioner));
    let classes: FxHashSet<Symbol> = classes.map(|class| class.name).collect();
    let capacities = world.storage_capacities.iter();
    let capacities = || capacities.clone().filter(|of| classes.contains(&of.class));
    let keys_of = |capacity: &StorageCapacity| -> Vec<Symbol> {
        let rules = capacity.topology.0.iter().flatten();
        let named = rules.filter(|rule| matches!(rule.op, SelectorOp::In(_)));
        named.map(|rule| rule.key).collect()
    };
    let mut keys: FxHashSet<Symbol> = capacities().flat_map(keys_of).collect();
    for BetaLabel { beta, stable, .. } in world.beta_topology() {
        for key in [beta, stable].into_iter().flatten() {
            keys.remove(&key);
        }
    }
    for pool in &world.pools {
        pool.labels
            .iter()
            .for_each(|(key, _)| _ = keys.remove(&key));
        pool.requirements
            .iter()
            .for_each(|of| _ = keys.remove(&of.key));
    }
    if keys.is_empty() {
        return FxHashSet::default();
    }
    let mut seen: FxHashSet<(Symbol, Symbol)> = FxHashSet::default();
    for node in &world.nodes {
        for (key, value) in node.labels.iter() {
            if keys.contains(&key) && !seen.insert((key, value)) {
                keys.remove(&key);
            }
        }
    }
    let own = capacities().filter(|of| keys_of(of).iter().any(|key| keys.contains(key)));
    own.map(|capacity| capacity.class).collect()
}

/// Nodes that exist and that claims without a volume have selected.
fn selected(world: &ClusterObjects) -> FxHashSet<Symbol> {
    let unbound = world
        .volume_claims
        .iter()
        .filter(|claim| claim.volume.is_none());
    let mut named: FxHashSet<Symbol> = unbound.filter_map(|claim| claim.selected_node).collect();
    if !named.is_empty() {
        let there: FxHashSet<Symbol> = world.nodes.iter().map(|node| node.name).collect();
        named.retain(|node| there.contains(node));
    }
    named
}

/// Why a pod cannot have a claim of which one pod at a time may use the volume.
pub fn used_by(world: &ClusterObjects, claim: Symbol, user: PodIx) -> String {
    format!(
        "its PersistentVolumeClaim {} is ReadWriteOncePod, and pod {} uses it",
        world.names.text(claim),
        world.pods[user.0 as usize].name
    )
}

/// Why a pod has to wait for the volume of a claim, which is made or chosen for another pod's node.
pub fn placed_first(world: &ClusterObjects, claim: Symbol, first: PodIx) -> String {
    format!(
        "its PersistentVolumeClaim {} is not bound, and pod {}, which uses it too, is placed first",
        world.names.text(claim),
        world.pods[first.0 as usize].name
    )
}
