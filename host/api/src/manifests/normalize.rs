//! The end of reading: resolves priorities and sorts everything, so that the order of the input
//! does not matter.

use longshore_core::model::{ClusterObjects, Pod, PodShape, Resources, ShapeId, Shapes, Symbol};
use rustc_hash::FxHashMap;

use super::builder::ObjectsBuilder;

/// Classes that every cluster has.
const BUILT_IN: [(&str, i32); 2] = [
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
];

impl ObjectsBuilder {
    /// The world, complete.
    pub(super) fn finish(mut self) -> ClusterObjects {
        let of_pods = self.priorities(&self.pods_by_class);
        let of_daemons = self.priorities(&self.daemons_by_class);
        let world = &mut self.world;
        let shapes = &mut world.shapes;
        for (index, priority) in of_pods {
            let pod = &mut world.pods[index];
            pod.shape = with_priority(shapes, pod.shape, priority);
        }
        for (index, priority) in of_daemons {
            let daemon = &mut world.daemons[index];
            daemon.template = with_priority(shapes, daemon.template, priority);
        }
        self.default_requests();
        let world = &mut self.world;
        sort(world);
        renumber_shapes(world);
        self.world
    }

    /// Gives the templates of DaemonSets the requests that admission gives their pods.
    fn default_requests(&mut self) {
        let world = &mut self.world;
        for (daemon, needs) in world.daemons.iter_mut().zip(&self.daemon_needs) {
            let mut defaults = Resources::default();
            let here = self
                .limit_ranges
                .iter()
                .filter(|range| range.namespace == daemon.namespace);
            // Which of several counts Kubernetes leaves open: with the largest the node is large
            // enough.
            here.for_each(|range| defaults.max(&range.requests));
            if !defaults.is_empty() {
                let shape = world.shapes.get(daemon.template).clone();
                daemon.template = world.shapes.intern(PodShape {
                    requests: needs.requests(&defaults),
                    ..shape
                });
            }
        }
    }

    /// The priorities other than 0 of pods that name a class or none.
    fn priorities(&self, by_class: &[(usize, Option<Symbol>)]) -> Vec<(usize, i32)> {
        let default = self
            .priority_classes
            .iter()
            .filter(|class| class.default)
            .map(|class| class.value)
            .max();
        let names = &self.world.names;
        let of = |class: Option<Symbol>| {
            let Some(class) = class else {
                return default.unwrap_or(0);
            };
            let given = self
                .priority_classes
                .iter()
                .find(|c| c.name == class)
                .map(|c| c.value);
            let built_in = || {
                BUILT_IN
                    .iter()
                    .find(|(name, _)| *name == names.text(class))
                    .map(|(_, value)| *value)
            };
            given.or_else(built_in).or(default).unwrap_or(0)
        };
        by_class
            .iter()
            .map(|&(index, class)| (index, of(class)))
            .filter(|(_, priority)| *priority != 0)
            .collect()
    }
}

fn with_priority(shapes: &mut Shapes, id: ShapeId, priority: i32) -> ShapeId {
    let shape = PodShape {
        priority,
        ..shapes.get(id).clone()
    };
    shapes.intern(shape)
}

/// Orders objects by namespace and name.
fn sort(world: &mut ClusterObjects) {
    let names = &world.names;
    let text = |sym: Symbol| names.text(sym);
    let shapes = &world.shapes;
    let pod_key = |pod: &Pod| text(shapes.get(pod.shape).namespace);
    world
        .pods
        .sort_by(|a, b| (pod_key(a), &a.name).cmp(&(pod_key(b), &b.name)));
    world.pools.sort_by_key(|pool| text(pool.name));
    world.classes.sort_by_key(|class| {
        (
            text(class.id.group),
            text(class.id.kind),
            text(class.id.name),
        )
    });
    world.claims.sort_by_key(|claim| text(claim.name));
    world.nodes.sort_by_key(|node| text(node.name));
    world
        .daemons
        .sort_by_key(|daemon| (text(daemon.namespace), text(daemon.name)));
    world.workloads.sort_by_key(|workload| {
        (
            text(workload.kind),
            text(workload.namespace),
            text(workload.name),
        )
    });
    world
        .budgets
        .sort_by_key(|budget| (text(budget.namespace), text(budget.name)));
    world.namespaces.sort_by_key(|(name, _)| text(*name));
    world
        .volume_claims
        .sort_by_key(|claim| (text(claim.namespace), text(claim.name)));
    world.volumes.sort_by_key(|volume| text(volume.name));
    world.storage_classes.sort_by_key(|class| text(class.name));
    world.csi_nodes.sort_by_key(|node| text(node.name));
    world.csi_drivers.sort_by_key(|driver| text(driver.name));
    world
        .storage_capacities
        .sort_by_key(|capacity| (text(capacity.namespace), text(capacity.name)));
    world.attachments.sort_by_key(|one| text(one.name));
}

/// Numbers shapes in the order in which sorted pods and then daemons use them, and drops unused
/// ones.
pub(super) fn renumber_shapes(world: &mut ClusterObjects) {
    let mut new: FxHashMap<ShapeId, u32> = FxHashMap::default();
    let mut order = Vec::new();
    let used = world
        .pods
        .iter()
        .map(|pod| pod.shape)
        .chain(world.daemons.iter().map(|daemon| daemon.template));
    for shape in used {
        new.entry(shape).or_insert_with(|| {
            order.push(shape);
            order.len() as u32 - 1
        });
    }
    if order.len() == world.shapes.len()
        && order
            .iter()
            .enumerate()
            .all(|(at, shape)| shape.0 as usize == at)
    {
        return;
    }
    let mut shapes = Shapes::default();
    for shape in order {
        shapes.intern(world.shapes.get(shape).clone());
    }
    world.shapes = shapes;
    for pod in world.pods.iter_mut() {
        pod.shape = ShapeId(new[&pod.shape]);
    }
    for daemon in world.daemons.iter_mut() {
        daemon.template = ShapeId(new[&daemon.template]);
    }
}
