//! What is on each node or comes to it: its room, ports, volumes and pods.

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::moves;
use super::super::volumes::Volumes;
use super::StateNode;
use crate::ids::PodIx;
use crate::matching::{admits, untolerated};
use crate::model::{ClusterObjects, PodShape, Resources, Symbol, Taint};

/// What [`bind`] found.
pub(super) struct Bound {
    /// Nominated pods without room, and those that are not here.
    pub(super) crowded_out: FxHashSet<PodIx>,
    /// The other nominated pods with the positions of their nodes, by priority and UID.
    pub(super) nominated: Vec<(PodIx, usize)>,
    /// Pods that will move and for which there is room.
    pub(super) moved: FxHashSet<PodIx>,
}

/// Subtracts bound pods, nominated pods, pods that will move and expected daemons from each node.
/// Terminating pods on the node count as gone for nominated pods, because their room may be why the
/// pods were nominated.
pub(super) fn bind(
    world: &ClusterObjects,
    nodes: &mut [StateNode],
    daemons: &[Arc<PodShape>],
    volumes: &Volumes,
    not_here: &FxHashSet<PodIx>,
) -> Bound {
    let at = nodes.iter().enumerate().map(|(i, n)| (n.name, i)).collect();
    let mut binding = Binding {
        world,
        volumes,
        at,
        daemon_kind: world.names.get("DaemonSet"),
        running_daemons: vec![Resources::default(); nodes.len()],
        ending: FxHashMap::default(),
        nodes,
    };
    let mut nominated = binding.bind_running();
    nominated.retain(|(ix, _)| !not_here.contains(ix));
    let mut crowded_out = not_here.clone();
    binding.bind_nominated(&mut nominated, &mut crowded_out);
    let moved = binding.bind_moving();
    binding.attach_volumes();
    binding.expect_daemons(daemons);
    binding.limit_volumes();
    Bound {
        crowded_out,
        nominated,
        moved,
    }
}

/// Nodes whose pods are being found.
struct Binding<'a> {
    world: &'a ClusterObjects,
    volumes: &'a Volumes<'a>,
    nodes: &'a mut [StateNode],
    /// The position of each node.
    at: FxHashMap<Symbol, usize>,
    daemon_kind: Option<Symbol>,
    /// What daemons request that are on each node.
    running_daemons: Vec<Resources>,
    /// What terminating pods have, by node.
    ending: FxHashMap<usize, Resources>,
}

impl<'a> Binding<'a> {
    fn shape(&self, ix: PodIx) -> &'a PodShape {
        self.world.shapes.get(self.world.pods[ix.0 as usize].shape)
    }

    /// Puts a pod on a node.
    fn put(&mut self, ix: PodIx, i: usize) {
        let world = self.world;
        let pod = &world.pods[ix.0 as usize];
        let shape = world.shapes.get(pod.shape);
        let node = &mut self.nodes[i];
        node.free.sub(&shape.requests);
        node.ports.extend(&shape.ports);
        for volume in self.volumes.of(world, pod) {
            if !node.volumes.contains(&volume) {
                node.volumes.push(volume);
            }
        }
        if pod.owner.is_some_and(|o| Some(o.0) == self.daemon_kind) {
            self.running_daemons[i].add(&shape.requests);
        }
        if pod.deleting {
            node.terminating.extend(pod.node.map(|_| ix));
        } else {
            node.pods.push(ix);
        }
    }

    /// Puts pods on the nodes that they are bound to. Returns those that are nominated, with the
    /// positions of their nodes.
    fn bind_running(&mut self) -> Vec<(PodIx, usize)> {
        let world = self.world;
        let mut nominated = Vec::new();
        for (ix, pod) in world.pods.iter().enumerate() {
            let ix = PodIx(ix as u32);
            if pod.terminal {
                continue;
            }
            if let Some(&i) = pod.node.and_then(|name| self.at.get(&name)) {
                // Of a machine that is started anew: they are gone before it takes pods again.
                if pod.deleting && !self.nodes[i].initialized {
                    continue;
                }
                self.put(ix, i);
                if pod.deleting {
                    let requests = &world.shapes.get(pod.shape).requests;
                    self.ending.entry(i).or_default().add(requests);
                }
            } else if pod.node.is_none()
                && let Some(&i) = pod.nominated.and_then(|name| self.at.get(&name))
            {
                nominated.push((ix, i));
            }
        }
        nominated
    }

    /// Whether a node with this room takes a pod. What a node has room for is known once it is ready;
    /// of one that is late its taints count, too.
    fn takes(&self, ix: PodIx, node: &StateNode, room: &Resources) -> bool {
        let shape = self.shape(ix);
        let tolerates = || untolerated(&shape.tolerations, &node.taints, false).is_none();
        let fits = || shape.requests.fits(room);
        (!node.late || tolerates()) && (!(node.initialized || node.late) || fits())
    }

    /// Puts nominated pods on their nodes and sorts them; those without room are crowded out.
    fn bind_nominated(
        &mut self,
        nominated: &mut Vec<(PodIx, usize)>,
        crowded_out: &mut FxHashSet<PodIx>,
    ) {
        // kube-scheduler reserves no room against pods of higher priority, and tries them first.
        let world = self.world;
        nominated.sort_by_key(|&(ix, _)| {
            let pod = &world.pods[ix.0 as usize];
            (Reverse(world.shapes.get(pod.shape).priority), &pod.uid)
        });
        nominated.retain(|&(ix, i)| {
            let mut room = self.nodes[i].free.clone();
            if let Some(ending) = self.ending.get(&i) {
                room.add(ending);
            }
            let takes = self.takes(ix, &self.nodes[i], &room);
            if takes {
                self.put(ix, i);
            } else {
                crowded_out.insert(ix);
            }
            takes
        });
    }

    /// Puts pods on the nodes that they will move to, as far as there is room. Returns those.
    fn bind_moving(&mut self) -> FxHashSet<PodIx> {
        let world = self.world;
        let mut moved = FxHashSet::default();
        let mut moves = moves::destinations(world);
        moves.retain(|(_, to)| self.at.contains_key(to));
        moves.sort_by(|a, b| {
            let uid = |pod: PodIx| &world.pods[pod.0 as usize].uid;
            uid(a.0).cmp(uid(b.0))
        });
        for (ix, to) in moves {
            let (i, pod) = (self.at[&to], &world.pods[ix.0 as usize]);
            if !self.takes(ix, &self.nodes[i], &self.nodes[i].free) {
                continue;
            }
            moved.insert(ix);
            self.put(ix, i);
            if pod.node.is_some_and(|from| self.at.contains_key(&from)) {
                // It counts where it is until its node is on its way out.
                self.nodes[i].pods.retain(|&known| known != ix);
            }
        }
        moved
    }

    /// Adds volumes that are attached without a pod.
    fn attach_volumes(&mut self) {
        for (name, volume) in self.volumes.attached(self.world) {
            if let Some(&i) = self.at.get(&name)
                && !self.nodes[i].volumes.contains(&volume)
            {
                self.nodes[i].volumes.push(volume);
            }
        }
    }

    /// Subtracts daemons that are still to come. Nodes that daemons cannot tell apart expect the
    /// same.
    fn expect_daemons(&mut self, daemons: &[Arc<PodShape>]) {
        let mut expected_of: FxHashMap<(Vec<Taint>, Vec<(Symbol, Symbol)>), Resources> =
            FxHashMap::default();
        let keys: FxHashSet<Symbol> = daemons
            .iter()
            .flat_map(|d| d.node_selector.iter().chain(d.required.iter().flatten()))
            .map(|r| r.key)
            .collect();
        let names = &self.world.names;
        for (node, running) in self.nodes.iter_mut().zip(&self.running_daemons) {
            let labels = node.labels.iter().filter(|(k, _)| keys.contains(k));
            let seen = (node.taints.clone(), labels.collect());
            let expected = expected_of.entry(seen).or_insert_with(|| {
                let mut expected = Resources::default();
                let runs = |d: &&Arc<PodShape>| {
                    untolerated(&d.tolerations, &node.taints, false).is_none()
                        && admits(&node.labels, d, names)
                };
                let running = daemons.iter().filter(runs);
                running.for_each(|d| expected.add(&d.requests));
                expected
            });
            for (resource, amount) in expected.iter() {
                let missing = (amount - running.get(resource)).max(0);
                node.free.add_one(resource, -missing);
            }
        }
    }

    /// Sets how many volumes each driver can attach: what the node says, otherwise its type.
    fn limit_volumes(&mut self) {
        let world = self.world;
        let limits: FxHashMap<Symbol, &crate::model::storage::CsiNode> =
            world.csi_nodes.iter().map(|c| (c.name, c)).collect();
        let instance_type = world.names.get("node.kubernetes.io/instance-type");
        let types = world.catalogue.types().iter();
        let types: FxHashMap<Symbol, _> = types.map(|t| (t.name, &t.volume_limits)).collect();
        for node in &mut *self.nodes {
            let csi = limits.get(&node.name).map(|c| c.drivers.as_slice());
            let csi = csi.unwrap_or_default();
            let counted = csi.iter();
            node.volume_limits = counted
                .filter_map(|&(driver, count)| Some((driver, count?)))
                .collect();
            let of_type = instance_type
                .and_then(|k| node.labels.get(k))
                .and_then(|v| types.get(&v));
            for &(driver, count) in of_type.into_iter().flat_map(|l| l.iter()) {
                if !csi.iter().any(|&(d, _)| d == driver) {
                    node.volume_limits.push((driver, count));
                }
            }
        }
    }
}
