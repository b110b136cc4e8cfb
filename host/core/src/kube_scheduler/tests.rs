//! A small cluster for tests: nodes of 4 cores, 8 GiB and 10 pods in zones, pods of 1 core and 1
//! GiB.

mod filters;
mod scenarios;
mod scores;

use std::sync::Arc;

use super::cluster::Cluster;
use super::filter::Filters;
use super::{SimulatedNode, SimulationResult, Simulator, VirtualNode, score};
use crate::model::pod::DoNotDisrupt;
use crate::model::{
    Catalogue, ClusterObjects, ConsolidationPolicy, DaemonSet, InstanceType, LabelSelector, Labels,
    NodeClassRef, NodePool, NodeRecord, Offering, OfferingId, Pod, PodShape, PodTerm, Requirement,
    ResourceId, Resources, SelectorOp, SelectorRule, Symbol, Symbols, Taint, TaintEffect, TypeId,
};
use crate::plan::PoolIx;
use crate::snapshot::Snapshot;

const GIB: i64 = 1 << 30;
const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

/// A cluster in the making.
struct Town {
    world: ClusterObjects,
    types: Vec<(InstanceType, Vec<Offering>)>,
}

fn resources(cpu: i64, memory: i64, pods: i64) -> Resources {
    Resources::new([
        (ResourceId::Cpu, cpu),
        (ResourceId::Memory, memory),
        (ResourceId::Pods, pods),
    ])
}

impl Town {
    fn new() -> Self {
        let mut town = Town {
            world: ClusterObjects::default(),
            types: Vec::new(),
        };
        for text in [
            ZONE,
            HOST,
            "default",
            "karpenter.sh/nodepool",
            "node.kubernetes.io/instance-type",
        ] {
            town.sym(text);
        }
        let name = town.sym("pool");
        let class = NodeClassRef {
            group: name,
            kind: name,
            name,
        };
        town.world.pools.push(NodePool {
            name,
            uid: name,
            labels: Labels::default(),
            annotations: Labels::default(),
            requirements: Vec::new(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            class,
            expire_after: None,
            termination_grace: None,
            limits: Vec::new(),
            node_limit: None,
            weight: 0,
            replicas: None,
            consolidate_after: None,
            consolidation: ConsolidationPolicy::WhenEmpty,
            budgets: Vec::new(),
            move_cost: None,
            failures: None,
            disruptions: None,
            ready: None,
            deleting: false,
            generation: 0,
            purchases: crate::model::purchases::Purchases::default(),
            usage: Resources::default(),
        });
        town
    }

    fn sym(&mut self, text: &str) -> Symbol {
        self.world.names.intern(text)
    }

    fn node(&mut self, name: &str, zone: &str) -> &mut NodeRecord {
        let (key, zone, name) = (self.sym(ZONE), self.sym(zone), self.sym(name));
        let host = self.sym(HOST);
        self.world.nodes.push(NodeRecord {
            name,
            labels: Labels::new(vec![(key, zone), (host, name)]),
            annotations: Labels::default(),
            taints: Vec::new(),
            provider_id: None,
            unschedulable: false,
            cordon: None,
            features: Vec::new(),
            capacity: resources(4000, 8 * GIB, 10),
            allocatable: resources(4000, 8 * GIB, 10),
            ready: true,
            deleting: false,
            created: 0,
        });
        let last = self.world.nodes.len() - 1;
        &mut self.world.nodes[last]
    }

    fn label(&mut self, node: &str, key: &str, value: &str) {
        let (node, pair) = (self.sym(node), (self.sym(key), self.sym(value)));
        let node = self
            .world
            .nodes
            .iter_mut()
            .find(|n| n.name == node)
            .unwrap();
        node.labels = Labels::new(node.labels.iter().chain([pair]).collect());
    }

    fn taint(&mut self, key: &str, effect: TaintEffect) -> Taint {
        Taint {
            key: self.sym(key),
            value: self.sym(""),
            effect,
        }
    }

    /// A type of `cpu` cores with 2 GiB to each, one offering in each zone.
    fn instance_type(&mut self, name: &str, cpu: i64, zones: &[&str]) -> &mut InstanceType {
        let (zone_key, name) = (self.sym(ZONE), self.sym(name));
        let offerings = zones.iter().map(|zone| {
            let zone = self.sym(zone);
            Offering {
                instance_type: TypeId(0),
                requirements: [Requirement::is(zone_key, zone)].into(),
                zone: Some(zone),
                capacity_type: None,
                price: 1.0,
                available: true,
                reservation: None,
            }
        });
        let offerings = offerings.collect();
        let allocatable = resources(cpu * 1000, cpu * 2 * GIB, 10);
        let (capacity, volume_limits) = (allocatable.clone(), Vec::new());
        let requirements = Vec::new();
        self.types.push((
            InstanceType {
                name,
                requirements,
                capacity,
                allocatable,
                volume_limits,
                incompatible: None,
                offerings: 0..0,
            },
            offerings,
        ));
        &mut self.types.last_mut().unwrap().0
    }

    fn shape(&mut self, app: &str, change: impl FnOnce(&mut PodShape, &mut Symbols)) -> PodShape {
        let labels = Labels::new(vec![(self.sym("app"), self.sym(app))]);
        let mut shape = PodShape {
            namespace: self.sym("default"),
            labels,
            requests: resources(1000, GIB, 1),
            node_selector: Vec::new(),
            required: Vec::new(),
            preferred: Vec::new(),
            tolerations: Vec::new(),
            spread: Vec::new(),
            affinity: Vec::new(),
            anti_affinity: Vec::new(),
            preferred_affinity: Vec::new(),
            preferred_anti_affinity: Vec::new(),
            ports: Vec::new(),
            priority: 0,
        };
        change(&mut shape, &mut self.world.names);
        shape
    }

    /// A pod named after its app and its place in the list of all pods.
    fn pod(
        &mut self,
        app: &str,
        node: Option<&str>,
        change: impl FnOnce(&mut PodShape, &mut Symbols),
    ) -> &mut Pod {
        let shape = self.shape(app, change);
        let (shape, node) = (self.world.shapes.intern(shape), node.map(|n| self.sym(n)));
        let name: Box<str> = format!("{app}{}", self.world.pods.len()).into();
        self.world.pods.push(Pod {
            uid: name.clone(),
            name,
            shape,
            node,
            claims: Box::default(),
            owner: None,
            created: 0,
            started: None,
            grace: 30,
            terminal: false,
            deleting: false,
            unready: false,
            waits_to_start: false,
            unschedulable: node.is_none(),
            queued: 0,
            unattempted: false,
            gated: false,
            nominated: None,
            is_static: false,
            resource_claims: false,
            do_not_disrupt: DoNotDisrupt::No,
            deletion_cost: 0,
            invalid: None,
            unreadable: false,
            excess: None,
        });
        self.world.pods.last_mut().unwrap()
    }

    fn daemon(&mut self, name: &str, change: impl FnOnce(&mut PodShape, &mut Symbols)) {
        let shape = self.shape(name, change);
        let (namespace, name) = (shape.namespace, self.sym(name));
        let template = self.world.shapes.intern(shape);
        self.world.daemons.push(DaemonSet {
            namespace,
            name,
            template,
            resource_claims: false,
        });
    }

    fn snapshot(mut self) -> Snapshot {
        self.world.catalogue = Catalogue::new(self.types, &self.world.names);
        Snapshot::new(Arc::new(self.world))
    }

    /// Nodes that the first pending pod passes, by name.
    fn passing(self) -> String {
        let snapshot = self.snapshot();
        ask(&snapshot, |cluster, sim| {
            let class = &sim.compiled.classes[0];
            let filters = Filters::new(cluster, &sim.compiled.shapes[class.shape as usize], class);
            let names = cluster
                .ready
                .iter()
                .filter(|&&n| filters.passes(n))
                .map(|&n| node_name(&snapshot, n as usize));
            names.collect::<Vec<_>>().join(" ")
        })
    }

    /// Scores of all nodes for the first pending pod, nodes by name, without those of resources.
    fn scores(self) -> Vec<i64> {
        let snapshot = self.snapshot();
        ask(&snapshot, |cluster, sim| {
            let class = &sim.compiled.classes[0];
            let shape = &sim.compiled.shapes[class.shape as usize];
            let totals = score::totals(cluster, shape, class, &cluster.ready);
            let nodes = totals.iter().zip(&cluster.ready);
            nodes
                .map(|(t, &n)| t - score::resources(&cluster.load[n as usize], shape))
                .collect()
        })
    }
}

/// Asks something of the existing nodes, all there.
fn ask<T>(snapshot: &Snapshot, question: impl FnOnce(&Cluster, &Simulator) -> T) -> T {
    let sim = Simulator::new(snapshot);
    let mut cluster = Cluster::new(&sim, &[]);
    (0..snapshot.nodes.len()).for_each(|n| cluster.node_ready(n as u32, &mut |_| {}));
    question(&cluster, &sim)
}

fn node_name(snapshot: &Snapshot, at: usize) -> &str {
    snapshot.world.names.text(snapshot.nodes[at].name)
}

/// The offering of a type in a zone, as a node of the only pool.
fn buy<'a>(snapshot: &Snapshot, instance_type: &str, zone: &str) -> VirtualNode<'a> {
    let world = &snapshot.world;
    let is = |o: &Offering| {
        world
            .names
            .text(world.catalogue.instance_type(o.instance_type).name)
            == instance_type
            && o.zone.is_some_and(|z| world.names.text(z) == zone)
    };
    let offering = OfferingId(world.catalogue.offerings().iter().position(is).unwrap() as u32);
    VirtualNode {
        pool: PoolIx(0),
        offering,
        requirements: &[],
    }
}

/// `pod@node` by pod, new nodes by their number, unplaced pods at the end.
fn places(snapshot: &Snapshot, survival: &SimulationResult) -> String {
    let pod = |at: crate::plan::PodIx| snapshot.world.pods[at.0 as usize].name.to_string();
    let mut all: Vec<String> = survival
        .placements
        .iter()
        .map(|&(p, seat)| match seat {
            SimulatedNode::Existing(node) => {
                format!("{}@{}", pod(p), node_name(snapshot, node.0 as usize))
            }
            SimulatedNode::New(node) => format!("{}@{node}", pod(p)),
        })
        .collect();
    all.sort();
    all.extend(
        survival
            .unplaced
            .iter()
            .map(|&p| format!("{} left", pod(p))),
    );
    all.join(" ")
}

fn app(names: &mut Symbols, value: &str) -> LabelSelector {
    let op = SelectorOp::In(Box::new([names.intern(value)]));
    LabelSelector(Some(vec![SelectorRule {
        key: names.intern("app"),
        op,
    }]))
}

fn term(names: &mut Symbols, key: &str, value: &str) -> PodTerm {
    PodTerm {
        key: names.intern(key),
        selector: app(names, value),
        namespaces: vec![names.intern("default")],
        namespace_selector: None,
    }
}
