//! Removes symbols that no record uses any more.
//!
//! A process that runs for months sees an unlimited number of names, such as labels of deleted
//! pods. A sweep visits every symbol of every record, marks those in use, and builds the table anew
//! without the others. Symbols keep their order, so that everything sorted by them stays sorted.
//! Each record is destructured field by field, so that a new field with symbols does not compile
//! until it is visited.

use super::cluster_objects::{ClusterObjects, DaemonSet, PodDisruptionBudget, Settings, Workload};
use super::node::{NodeClaim, NodeRecord, Taint, UnhealthyNode};
use super::pod::{
    HostPort, LabelSelector, Pod, PodShape, PodTerm, SelectorOp, SelectorRule, Spread, Toleration,
};
use super::pool::{Budget, NodeClass, NodeClassKind, NodeClassRef, NodePool};
use super::records::Records;
use super::requirement::{Op, Requirement};
use super::resources::{ResourceId, Resources};
use super::storage::{
    CsiDriver, CsiNode, StorageCapacity, StorageClass, Volume, VolumeAttachment, VolumeClaim,
};
use super::symbols::{Labels, Symbol};

/// What is done with each symbol.
pub type Visit<'v> = &'v mut dyn FnMut(&mut Symbol);

trait EachSymbol {
    /// Visits every one of them.
    fn each(&mut self, visit: Visit<'_>);
}

/// Visits the fields of a record that have symbols, and names those that have none: a new field
/// does not compile until it is in one of the two lists.
macro_rules! each_symbol {
    ($($record:ident { $($with:ident),* } without { $($without:ident),* })*) => {$(
        impl EachSymbol for $record {
            fn each(&mut self, visit: Visit<'_>) {
                let $record { $($with,)* $($without: _,)* } = self;
                $($with.each(visit);)*
            }
        }
    )*};
}

each_symbol! {
    Taint { key, value } without { effect }
    PodTerm { key, selector, namespaces, namespace_selector } without {}
    Spread { key, selector } without { max_skew, required, min_domains, node_affinity, node_taints }
    Toleration { key, value } without { exists, effect }
    HostPort { ip, protocol } without { port }
    PodShape {
        namespace, labels, requests, node_selector, required, preferred, tolerations,
        spread, affinity, anti_affinity, preferred_affinity, preferred_anti_affinity,
        ports
    } without { priority }
    Pod {
        node, claims, owner, nominated
    } without {
        name, uid, shape, created, queued, started, grace, terminal, deleting, unready,
        waits_to_start, unschedulable, unattempted, gated, is_static, resource_claims,
        do_not_disrupt, deletion_cost, invalid, unreadable, excess
    }
    NodeClassRef { group, kind, name } without {}
    NodeClass { id } without { ready, deleting, generation }
    Budget { reasons } without { nodes, schedule, duration }
    NodePool {
        name, uid, labels, annotations, requirements, taints, startup_taints, class,
        limits, budgets, usage
    } without {
        expire_after, termination_grace, node_limit, weight, replicas, consolidate_after,
        consolidation, move_cost, failures, disruptions, ready, deleting, generation,
        purchases
    }
    NodeRecord {
        name, labels, annotations, taints, provider_id, cordon, features, capacity,
        allocatable
    } without { unschedulable, ready, deleting, created }
    UnhealthyNode { node, condition } without { due }
    NodeClaim {
        name, uid, labels, annotations, requirements, taints, startup_taints, class,
        requests, provider_id, node_name, capacity, allocatable, conditions
    } without { termination_grace, initialized, drifted, deleting, created }
    DaemonSet { namespace, name } without { template, resource_claims }
    Workload { kind, namespace, name, selector } without {}
    PodDisruptionBudget {
        namespace, name, selector
    } without { allowed, blocks_always, evicts_unhealthy }
    StorageClass { name, provisioner, topologies } without { wait_for_consumer, default, created }
    CsiDriver { name } without { counts_capacity }
    StorageCapacity { namespace, name, class, topology } without { largest }
    VolumeAttachment { name, driver, node, volume } without {}
    CsiNode { name, drivers } without {}
    VolumeClaim {
        namespace, name, volume, class, selected_node, selector
    } without { lost, bound, modes, storage, block, deleting }
    Volume {
        name, node_affinity, driver, labels, handle, class, claim
    } without { local, available, released, modes, storage, block, deleting }
}

impl ClusterObjects {
    /// Drops symbols that no record and no visit by `others` uses, if they are more than half of
    /// all. The first `kept` symbols always stay. Returns how many names there are then. The
    /// catalogue is not visited, so its names must be among the kept ones.
    pub fn sweep_names(&mut self, kept: usize, others: &mut dyn FnMut(Visit<'_>)) -> usize {
        let mut used = vec![false; self.names.len()];
        used.iter_mut().take(kept).for_each(|used| *used = true);
        let mut shapes = self.shapes.take();
        let mut mark = |sym: &mut Symbol| used[sym.0 as usize] = true;
        shapes.each(&mut mark);
        self.records(&mut mark);
        others(&mut mark);
        let count = used.iter().filter(|used| **used).count();
        if 2 * count < used.len() {
            let mut new = vec![Symbol(0); used.len()];
            let places = new.iter_mut().zip(&used).filter(|(_, used)| **used);
            places.zip(0..).for_each(|((new, _), at)| *new = Symbol(at));
            let mut rename = |sym: &mut Symbol| *sym = new[sym.0 as usize];
            shapes.each(&mut rename);
            self.records(&mut rename);
            others(&mut rename);
            self.names.keep(&used);
        }
        self.shapes.put_back(shapes);
        self.names.len()
    }

    /// Everything but shapes of pods and the catalogue.
    fn records(&mut self, visit: Visit<'_>) {
        let ClusterObjects {
            names: _,
            catalogue: _,
            settings,
            managed,
            foreign_nodes,
            pools,
            classes,
            claims,
            nodes,
            shapes: _,
            pods,
            daemons,
            workloads,
            budgets,
            namespaces,
            volume_claims,
            volumes,
            storage_classes,
            csi_nodes,
            csi_drivers,
            storage_capacities,
            attachments,
            unhealthy,
            now: _,
        } = self;
        let Settings {
            preferences: _,
            min_values: _,
            reserved_capacity: _,
            node_cost: _,
            default_spread,
        } = settings;
        default_spread.each(visit);
        if let Some(NodeClassKind { group, kind }) = managed {
            [group, kind].into_iter().for_each(&mut *visit);
        }
        foreign_nodes.each(visit);
        pools.each(visit);
        classes.each(visit);
        claims.each(visit);
        nodes.each(visit);
        pods.each(visit);
        daemons.each(visit);
        workloads.each(visit);
        budgets.each(visit);
        namespaces.each(visit);
        volume_claims.each(visit);
        volumes.each(visit);
        storage_classes.each(visit);
        csi_nodes.each(visit);
        csi_drivers.each(visit);
        storage_capacities.each(visit);
        attachments.each(visit);
        unhealthy.each(visit);
    }
}

impl EachSymbol for Symbol {
    fn each(&mut self, visit: Visit<'_>) {
        visit(self);
    }
}

impl<T: EachSymbol> EachSymbol for Vec<T> {
    fn each(&mut self, visit: Visit<'_>) {
        self.iter_mut().for_each(|one| one.each(visit));
    }
}

impl<T: EachSymbol + Clone> EachSymbol for Records<T> {
    fn each(&mut self, visit: Visit<'_>) {
        self.iter_mut().for_each(|one| one.each(visit));
    }
}

impl EachSymbol for (Symbol, Labels) {
    fn each(&mut self, visit: Visit<'_>) {
        visit(&mut self.0);
        self.1.each(visit);
    }
}

impl<T: EachSymbol> EachSymbol for Option<T> {
    fn each(&mut self, visit: Visit<'_>) {
        self.iter_mut().for_each(|one| one.each(visit));
    }
}

impl<T: EachSymbol> EachSymbol for Box<[T]> {
    fn each(&mut self, visit: Visit<'_>) {
        self.iter_mut().for_each(|one| one.each(visit));
    }
}

impl<T: EachSymbol> EachSymbol for (i32, T) {
    fn each(&mut self, visit: Visit<'_>) {
        self.1.each(visit);
    }
}

impl EachSymbol for (Symbol, Symbol) {
    fn each(&mut self, visit: Visit<'_>) {
        visit(&mut self.0);
        visit(&mut self.1);
    }
}

impl EachSymbol for (Symbol, Option<u32>) {
    fn each(&mut self, visit: Visit<'_>) {
        visit(&mut self.0);
    }
}

impl EachSymbol for Labels {
    fn each(&mut self, visit: Visit<'_>) {
        Labels::each(self, visit);
    }
}

impl EachSymbol for Resources {
    fn each(&mut self, visit: Visit<'_>) {
        Resources::each(self, visit);
    }
}

impl EachSymbol for (ResourceId, i64) {
    fn each(&mut self, visit: Visit<'_>) {
        if let ResourceId::Other(name) = &mut self.0 {
            visit(name);
        }
    }
}

impl EachSymbol for Requirement {
    fn each(&mut self, visit: Visit<'_>) {
        let Requirement {
            key,
            op,
            min_values: _,
        } = self;
        visit(key);
        match op {
            Op::In(values) | Op::NotIn(values) => values.each(visit),
            Op::Exists | Op::DoesNotExist | Op::Gte(_) | Op::Lte(_) => {}
        }
    }
}

impl EachSymbol for LabelSelector {
    fn each(&mut self, visit: Visit<'_>) {
        self.0.each(visit);
    }
}

impl EachSymbol for SelectorRule {
    fn each(&mut self, visit: Visit<'_>) {
        let SelectorRule { key, op } = self;
        visit(key);
        match op {
            SelectorOp::In(values) | SelectorOp::NotIn(values) => values.each(visit),
            SelectorOp::Exists | SelectorOp::DoesNotExist => {}
        }
    }
}
