//! Where the volumes of a pod let it be.

use rustc_hash::FxHashSet;

use super::{Alternatives, ClaimToBind, LocalVolumes, Places, Volumes, used_by};
use crate::ids::PodIx;
use crate::matching::satisfies;
use crate::model::storage::{StorageCapacity, StorageClass, Volume, VolumeClaim};
use crate::model::{
    BetaLabel, ClusterObjects, LabelSelector, Op, Requirement, SelectorOp, Symbol, fields,
};

/// The provisioner of classes whose volumes are made by people.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Whether a claim has room in a volume that is there.
fn is_large_enough(volume: &Volume, claim: &VolumeClaim, class: &StorageClass) -> bool {
    !volume.deleting
        && !volume.released
        && volume.class == Some(class.name)
        && volume.storage >= claim.storage
        && volume.block == claim.block
}

/// Whether a volume is kept for no claim and is what a claim asks for.
fn is_free_for(volume: &Volume, claim: &VolumeClaim) -> bool {
    let mut selector = claim.selector.iter();
    volume.claim.is_none()
        && volume.available
        && volume.modes.include(claim.modes)
        && selector.all(|selector| selector.matches(&volume.labels))
}

/// The class that the API server gives claims without one: of several defaults the newest, then the
/// first by name.
pub(in crate::snapshot) fn default_class(world: &ClusterObjects) -> Option<&StorageClass> {
    let defaults = world.storage_classes.iter().filter(|class| class.default);
    let name = |class: &StorageClass| world.names.text(class.name);
    defaults.min_by(|a, b| {
        let newest = b.created.cmp(&a.created);
        newest.then_with(|| name(a).cmp(name(b)))
    })
}

/// A label selector of nodes as requirements; nothing if it selects none.
pub(super) fn requirements(selector: &LabelSelector) -> Option<Vec<Requirement>> {
    let rules = selector.0.as_ref()?;
    let one = |rule: &crate::model::SelectorRule| {
        let op = match &rule.op {
            SelectorOp::In(values) => Op::In(values.clone()),
            SelectorOp::NotIn(values) => Op::NotIn(values.clone()),
            SelectorOp::Exists => Op::Exists,
            SelectorOp::DoesNotExist => Op::DoesNotExist,
        };
        Requirement::new(rule.key, op)
    };
    Some(rules.iter().map(one).collect())
}

/// What two lists of alternatives leave together.
fn both(a: Alternatives, b: Alternatives) -> Alternatives {
    match (a.is_empty(), b.is_empty()) {
        (true, _) => b,
        (_, true) => a,
        _ => cross(&a, &b),
    }
}

/// Every compatible pair of alternatives, merged. If no pair is compatible, all pairs, so that the
/// contradiction is reported where it is evaluated.
fn cross(a: &[Vec<Requirement>], b: &[Vec<Requirement>]) -> Vec<Vec<Requirement>> {
    let both = |x: &Vec<Requirement>, y: &Vec<Requirement>| [x.clone(), y.clone()].concat();
    let contradict = |x: &Vec<Requirement>, y: &Vec<Requirement>| {
        x.iter().any(|r| {
            y.iter()
                .filter(|s| s.key == r.key)
                .any(|s| match (&r.op, &s.op) {
                    (Op::In(p), Op::In(q)) => !p.iter().any(|v| q.contains(v)),
                    _ => false,
                })
        })
    };
    let pairs = || a.iter().flat_map(|x| b.iter().map(move |y| (x, y)));
    let fine: Vec<_> = pairs()
        .filter(|(x, y)| !contradict(x, y))
        .map(|(x, y)| both(x, y))
        .collect();
    if fine.is_empty() {
        pairs().map(|(x, y)| both(x, y)).collect()
    } else {
        fine
    }
}

impl<'a> Volumes<'a> {
    /// Where all volumes of a pod let it be.
    ///
    /// # Errors
    /// A sentence about the first unavailable volume.
    pub fn places(
        &self,
        world: &ClusterObjects,
        ix: PodIx,
        local: LocalVolumes,
    ) -> Result<Places, String> {
        let pod = &world.pods[ix.0 as usize];
        let namespace = world.shapes.get(pod.shape).namespace;
        for id in self.exclusive(world, pod) {
            let users = self.users.get(&id).into_iter().flatten();
            if let Some(user) = users.copied().find(|&user| user != ix) {
                return Err(used_by(world, id.1, user));
            }
        }
        let mut places = Places::default();
        for &name in &pod.claims {
            let to_bind = &mut places.to_bind;
            let of_claim = self.topology(world, namespace, name, local, to_bind)?;
            places.alternatives = both(places.alternatives, of_claim);
        }
        let room = |of: &ClaimToBind| world.volume_claims[of.claim as usize].storage;
        places.to_bind.sort_by_key(|of| (room(of), of.claim));
        places.to_bind.dedup_by_key(|of| of.claim);
        Ok(places)
    }

    pub(super) fn topology(
        &self,
        world: &ClusterObjects,
        namespace: Symbol,
        name: Symbol,
        local: LocalVolumes,
        to_bind: &mut Vec<ClaimToBind>,
    ) -> Result<Alternatives, String> {
        let text = |s: Symbol| world.names.text(s);
        let Some(&(at, claim)) = self.claims.get(&(namespace, name)) else {
            return Err(format!(
                "its PersistentVolumeClaim {} does not exist",
                text(name)
            ));
        };
        if claim.deleting {
            return Err(format!(
                "its PersistentVolumeClaim {} is being deleted",
                text(name)
            ));
        }
        if claim.lost {
            return Err(format!(
                "its PersistentVolumeClaim {} has lost its volume",
                text(name)
            ));
        }
        if let Some(volume) = claim.volume {
            let Some(&(_, volume)) = self.volumes.get(&volume) else {
                return Err(format!(
                    "PersistentVolume {} of its claim {} does not exist",
                    text(volume),
                    text(name)
                ));
            };
            if volume.deleting {
                return Err(format!(
                    "PersistentVolume {} of its claim {} is being deleted",
                    text(volume.name),
                    text(name)
                ));
            }
            let others = volume.claim.is_some_and(|id| id != (namespace, name));
            if !claim.bound && (others || volume.released) {
                return Err(format!(
                    "PersistentVolume {} of its claim {} {}",
                    text(volume.name),
                    text(name),
                    match others {
                        true => "is kept for another claim",
                        false => "is released, and no claim is bound to it again",
                    }
                ));
            }
            return self.of_volume(world, volume, local);
        }
        let Some(class) = self.class_of(claim) else {
            let why = match claim.class.map(text) {
                None => "names no StorageClass, and no StorageClass is the default",
                Some("") => {
                    "asks for a PersistentVolume without StorageClass (storageClassName \"\")"
                }
                Some(class) => {
                    return Err(format!(
                        "StorageClass {class} of its claim {} does not exist",
                        text(name)
                    ));
                }
            };
            return Err(format!(
                "its PersistentVolumeClaim {} is not bound and {why}",
                text(name)
            ));
        };
        if !class.wait_for_consumer {
            let why = "is not bound yet, and its StorageClass binds immediately, not when a pod \
                is placed";
            return Err(format!("its PersistentVolumeClaim {} {why}", text(name)));
        }
        // For a claim with a node its volume is made, whatever volumes are there.
        match claim.selected_node {
            Some(node) => Ok(both(
                self.on_selected(world, claim, node)?,
                self.made(world, claim, class)?,
            )),
            None => self.unbound(world, (at, claim), class, to_bind),
        }
    }

    /// Where a volume that is there can be used.
    fn of_volume(
        &self,
        world: &ClusterObjects,
        volume: &Volume,
        local: LocalVolumes,
    ) -> Result<Alternatives, String> {
        let terms = match (volume.local, local) {
            (true, LocalVolumes::Leave) => self.without_hostname(volume),
            _ => volume.node_affinity.clone(),
        };
        let fits = |labels: &crate::model::Labels| {
            let all =
                |term: &Vec<Requirement>| term.iter().all(|r| satisfies(labels, r, &world.names));
            terms.iter().any(all)
        };
        let gone = || !world.nodes.iter().any(|node| fits(&node.labels));
        if volume.local && local == LocalVolumes::Bind && !terms.is_empty() && gone() {
            return Err(format!(
                "PersistentVolume {} is local to a node that does not exist",
                world.names.text(volume.name)
            ));
        }
        Ok(both(terms, self.by_labels(world, volume)))
    }

    /// What labels of a volume say of zone and region: nodes that carry neither will do too.
    fn by_labels(&self, world: &ClusterObjects, volume: &Volume) -> Alternatives {
        let mut asked: Vec<Requirement> = Vec::new();
        let mut keys: Vec<Symbol> = Vec::new();
        for &BetaLabel { beta, stable, .. } in &self.topology {
            for written in [beta, stable].into_iter().flatten() {
                keys.push(written);
                let Some(value) = volume.labels.get(written) else {
                    continue;
                };
                // Several zones are joined by two underscores. A value that is nowhere else has no
                // symbol. Where no node has the stable label, the volume's own has to be there.
                let several = world.names.text(value).split("__");
                let values = several.filter_map(|value| world.names.get(value));
                let key = stable.unwrap_or(written);
                asked.push(Requirement::new(key, Op::In(values.collect())));
            }
        }
        if asked.is_empty() {
            return Vec::new();
        }
        let without = |node: &crate::model::NodeRecord| {
            keys.iter().all(|&key| node.labels.get(key).is_none())
        };
        let mut all = vec![asked];
        if world.nodes.iter().any(without) {
            let absent = |&key: &Symbol| Requirement::new(key, Op::DoesNotExist);
            all.push(keys.iter().map(absent).collect());
        }
        all
    }

    /// The node that was selected for a volume that is still to be made.
    fn on_selected(
        &self,
        world: &ClusterObjects,
        claim: &VolumeClaim,
        node: Symbol,
    ) -> Result<Alternatives, String> {
        let key = world.names.get(fields::NAME);
        match key.filter(|_| self.selected.contains(&node)) {
            Some(key) => Ok(vec![vec![Requirement::is(key, node)]]),
            None => Err(format!(
                "the volume of its claim {} is to be made for node {} (annotation \
                volume.kubernetes.io/selected-node), which does not exist",
                world.names.text(claim.name),
                world.names.text(node)
            )),
        }
    }

    /// Where a claim can be bound that waits for its pod: to a volume that is there, or to one that
    /// is made. Labels of a volume that is not bound yet restrict nothing.
    pub(super) fn unbound(
        &self,
        world: &ClusterObjects,
        (at, claim): (u32, &VolumeClaim),
        class: &StorageClass,
        to_bind: &mut Vec<ClaimToBind>,
    ) -> Result<Alternatives, String> {
        let volumes = self.that_fit(world, (at, claim), class);
        let made = match self.made(world, claim, class) {
            Err(why) if volumes.is_empty() => return Err(why),
            Err(_) => None,
            Ok(made) if made.is_empty() || volumes.is_empty() => return Ok(made),
            Ok(made) => Some(made),
        };
        let affinity = |&at: &u32| &world.volumes[at as usize].node_affinity;
        let mut all: Alternatives = Vec::new();
        if !volumes.iter().any(|volume| affinity(volume).is_empty()) {
            let made = made.iter().flatten();
            let mut seen: FxHashSet<&Vec<Requirement>> = FxHashSet::default();
            let terms = made.chain(volumes.iter().flat_map(affinity));
            all.extend(terms.filter(|&term| seen.insert(term)).cloned());
        }
        to_bind.push(ClaimToBind {
            claim: at,
            volumes,
            made,
        });
        Ok(all)
    }

    /// Volumes that are there and fit a claim, the smallest first. One that is kept for the claim is
    /// the only one.
    fn that_fit(
        &self,
        world: &ClusterObjects,
        (at, claim): (u32, &VolumeClaim),
        class: &StorageClass,
    ) -> Vec<u32> {
        let id = Some((claim.namespace, claim.name));
        let all = (0..).zip(&world.volumes);
        let large = all.filter(|(_, volume)| is_large_enough(volume, claim, class));
        let untaken = large.filter(|(volume, _)| self.taken.get(volume).is_none_or(|&of| of == at));
        let mut found: Vec<(u32, &Volume)> = untaken
            .filter(|(_, volume)| volume.claim == id || is_free_for(volume, claim))
            .collect();
        let text = |volume: &Volume| world.names.text(volume.name);
        found.sort_by(|(_, a), (_, b)| a.storage.cmp(&b.storage).then(text(a).cmp(text(b))));
        if let Some(kept) = found.iter().position(|(_, volume)| volume.claim == id) {
            found = vec![found[kept]];
        }
        found.into_iter().map(|(volume, _)| volume).collect()
    }

    /// Where a driver can make the volume of a claim.
    pub(super) fn made(
        &self,
        world: &ClusterObjects,
        claim: &VolumeClaim,
        class: &StorageClass,
    ) -> Result<Alternatives, String> {
        if world.names.text(class.provisioner) == NO_PROVISIONER {
            return Err(format!(
                "no PersistentVolume of StorageClass {} is free and fits its claim {}",
                world.names.text(class.name),
                world.names.text(claim.name)
            ));
        }
        let topologies = class.topologies.iter().map(|topology| {
            let written = |r: &Requirement| Requirement::new(self.written(r.key), r.op.clone());
            topology.iter().map(written).collect()
        });
        let topologies: Alternatives = topologies.collect();
        let counts = |driver: &crate::model::storage::CsiDriver| {
            driver.name == class.provisioner && driver.counts_capacity
        };
        if !world.csi_drivers.iter().any(counts) {
            return Ok(topologies);
        }
        let enough = |capacity: &&StorageCapacity| {
            capacity.class == class.name && capacity.largest >= claim.storage
        };
        let capacities = world.storage_capacities.iter().filter(enough);
        let mut reached: Alternatives = capacities
            .filter_map(|capacity| requirements(&capacity.topology))
            .collect();
        // A node that is yet to come brings room of its own.
        let name = world.names.get(fields::NAME);
        if let Some(name) = name.filter(|_| self.on_nodes.contains(&class.name)) {
            reached.push(vec![Requirement::new(name, Op::DoesNotExist)]);
        }
        match reached.is_empty() {
            true => Err(format!(
                "no CSIStorageCapacity of StorageClass {} has room for its claim {}",
                world.names.text(class.name),
                world.names.text(claim.name)
            )),
            // One that selects every node.
            false if reached.iter().any(Vec::is_empty) => Ok(topologies),
            false => Ok(both(topologies, reached)),
        }
    }

    /// The label behind a key of an allowed topology: nodes that carry a beta label carry the
    /// stable one, and new ones will.
    fn written(&self, key: Symbol) -> Symbol {
        let mut carried = self.topology.iter().filter(|of| of.is_carried);
        let known = carried.find(|of| of.beta == Some(key));
        known.and_then(|of| of.stable).unwrap_or(key)
    }

    fn without_hostname(&self, volume: &Volume) -> Alternatives {
        let mut terms = volume.node_affinity.clone();
        terms
            .iter_mut()
            .for_each(|t| t.retain(|r| Some(r.key) != self.hostname));
        if terms.iter().any(Vec::is_empty) {
            return Vec::new();
        }
        terms
    }
}
