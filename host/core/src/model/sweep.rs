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

impl EachSymbol for Taint {
    fn each(&mut self, visit: Visit<'_>) {
        let Taint {
            key,
            value,
            effect: _,
        } = self;
        visit(key);
        visit(value);
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

impl EachSymbol for PodTerm {
    fn each(&mut self, visit: Visit<'_>) {
        let PodTerm {
            key,
            selector,
            namespaces,
            namespace_selector,
        } = self;
        visit(key);
        selector.each(visit);
        namespaces.each(visit);
        namespace_selector.each(visit);
    }
}

impl EachSymbol for Spread {
    fn each(&mut self, visit: Visit<'_>) {
        let Spread {
            max_skew: _,
            key,
            required: _,
            selector,
            min_domains: _,
            node_affinity: _,
            node_taints: _,
        } = self;
        visit(key);
        selector.each(visit);
    }
}

impl EachSymbol for Toleration {
    fn each(&mut self, visit: Visit<'_>) {
        let Toleration {
            key,
            exists: _,
            value,
            effect: _,
        } = self;
        key.each(visit);
        visit(value);
    }
}

impl EachSymbol for HostPort {
    fn each(&mut self, visit: Visit<'_>) {
        let HostPort {
            ip,
            port: _,
            protocol,
        } = self;
        ip.each(visit);
        visit(protocol);
    }
}

impl EachSymbol for PodShape {
    fn each(&mut self, visit: Visit<'_>) {
        let PodShape {
            namespace,
            labels,
            requests,
            node_selector,
            required,
            preferred,
            tolerations,
            spread,
            affinity,
            anti_affinity,
            preferred_affinity,
            preferred_anti_affinity,
            ports,
            priority: _,
        } = self;
        visit(namespace);
        labels.each(visit);
        requests.each(visit);
        node_selector.each(visit);
        required.each(visit);
        preferred.each(visit);
        tolerations.each(visit);
        spread.each(visit);
        affinity.each(visit);
        anti_affinity.each(visit);
        preferred_affinity.each(visit);
        preferred_anti_affinity.each(visit);
        ports.each(visit);
    }
}

impl EachSymbol for Pod {
    fn each(&mut self, visit: Visit<'_>) {
        let Pod {
            name: _,
            uid: _,
            shape: _,
            node,
            claims,
            owner,
            created: _,
            queued: _,
            started: _,
            grace: _,
            terminal: _,
            deleting: _,
            unready: _,
            waits_to_start: _,
            unschedulable: _,
            unattempted: _,
            gated: _,
            nominated,
            is_static: _,
            resource_claims: _,
            do_not_disrupt: _,
            deletion_cost: _,
            invalid: _,
            unreadable: _,
            excess: _,
        } = self;
        node.each(visit);
        claims.each(visit);
        owner.each(visit);
        nominated.each(visit);
    }
}

impl EachSymbol for NodeClassRef {
    fn each(&mut self, visit: Visit<'_>) {
        let NodeClassRef { group, kind, name } = self;
        [group, kind, name].into_iter().for_each(visit);
    }
}

impl EachSymbol for NodeClass {
    fn each(&mut self, visit: Visit<'_>) {
        let NodeClass {
            id,
            ready: _,
            deleting: _,
            generation: _,
        } = self;
        id.each(visit);
    }
}

impl EachSymbol for Budget {
    fn each(&mut self, visit: Visit<'_>) {
        let Budget {
            nodes: _,
            reasons,
            schedule: _,
            duration: _,
        } = self;
        reasons.each(visit);
    }
}

impl EachSymbol for NodePool {
    fn each(&mut self, visit: Visit<'_>) {
        let NodePool {
            name,
            uid,
            labels,
            annotations,
            requirements,
            taints,
            startup_taints,
            class,
            expire_after: _,
            termination_grace: _,
            limits,
            node_limit: _,
            weight: _,
            replicas: _,
            consolidate_after: _,
            consolidation: _,
            budgets,
            move_cost: _,
            failures: _,
            disruptions: _,
            ready: _,
            deleting: _,
            generation: _,
            purchases: _,
            usage,
        } = self;
        visit(name);
        visit(uid);
        labels.each(visit);
        annotations.each(visit);
        requirements.each(visit);
        taints.each(visit);
        startup_taints.each(visit);
        class.each(visit);
        limits.each(visit);
        budgets.each(visit);
        usage.each(visit);
    }
}

impl EachSymbol for NodeRecord {
    fn each(&mut self, visit: Visit<'_>) {
        let NodeRecord {
            name,
            labels,
            annotations,
            taints,
            provider_id,
            unschedulable: _,
            cordon,
            features,
            capacity,
            allocatable,
            ready: _,
            deleting: _,
            created: _,
        } = self;
        visit(name);
        labels.each(visit);
        annotations.each(visit);
        taints.each(visit);
        cordon.each(visit);
        features.each(visit);
        provider_id.each(visit);
        capacity.each(visit);
        allocatable.each(visit);
    }
}

impl EachSymbol for UnhealthyNode {
    fn each(&mut self, visit: Visit<'_>) {
        let UnhealthyNode {
            node,
            condition,
            due: _,
        } = self;
        visit(node);
        visit(condition);
    }
}

impl EachSymbol for NodeClaim {
    fn each(&mut self, visit: Visit<'_>) {
        let NodeClaim {
            name,
            uid,
            labels,
            annotations,
            requirements,
            taints,
            startup_taints,
            class,
            termination_grace: _,
            requests,
            provider_id,
            node_name,
            capacity,
            allocatable,
            conditions,
            initialized: _,
            drifted: _,
            deleting: _,
            created: _,
        } = self;
        visit(name);
        visit(uid);
        labels.each(visit);
        annotations.each(visit);
        requirements.each(visit);
        taints.each(visit);
        startup_taints.each(visit);
        class.each(visit);
        requests.each(visit);
        provider_id.each(visit);
        node_name.each(visit);
        capacity.each(visit);
        allocatable.each(visit);
        conditions.each(visit);
    }
}

impl EachSymbol for DaemonSet {
    fn each(&mut self, visit: Visit<'_>) {
        let DaemonSet {
            namespace,
            name,
            template: _,
            resource_claims: _,
        } = self;
        visit(namespace);
        visit(name);
    }
}

impl EachSymbol for Workload {
    fn each(&mut self, visit: Visit<'_>) {
        let Workload {
            kind,
            namespace,
            name,
            selector,
        } = self;
        visit(kind);
        visit(namespace);
        visit(name);
        selector.each(visit);
    }
}

impl EachSymbol for PodDisruptionBudget {
    fn each(&mut self, visit: Visit<'_>) {
        let PodDisruptionBudget {
            namespace,
            name,
            selector,
            allowed: _,
            blocks_always: _,
            evicts_unhealthy: _,
        } = self;
        visit(namespace);
        visit(name);
        selector.each(visit);
    }
}

impl EachSymbol for VolumeClaim {
    fn each(&mut self, visit: Visit<'_>) {
        let VolumeClaim {
            namespace,
            name,
            volume,
            class,
            lost: _,
            bound: _,
            selected_node,
            modes: _,
            storage: _,
            block: _,
            selector,
            deleting: _,
        } = self;
        visit(namespace);
        visit(name);
        volume.each(visit);
        class.each(visit);
        selected_node.each(visit);
        if let Some(selector) = selector {
            selector.each(visit);
        }
    }
}

impl EachSymbol for Volume {
    fn each(&mut self, visit: Visit<'_>) {
        let Volume {
            name,
            node_affinity,
            driver,
            local: _,
            labels,
            handle,
            class,
            claim,
            available: _,
            released: _,
            modes: _,
            storage: _,
            block: _,
            deleting: _,
        } = self;
        visit(name);
        node_affinity.each(visit);
        driver.each(visit);
        labels.each(visit);
        handle.each(visit);
        class.each(visit);
        if let Some((namespace, name)) = claim {
            visit(namespace);
            visit(name);
        }
    }
}

impl EachSymbol for StorageClass {
    fn each(&mut self, visit: Visit<'_>) {
        let StorageClass {
            name,
            provisioner,
            topologies,
            wait_for_consumer: _,
            default: _,
            created: _,
        } = self;
        visit(name);
        visit(provisioner);
        topologies.each(visit);
    }
}

impl EachSymbol for CsiDriver {
    fn each(&mut self, visit: Visit<'_>) {
        let CsiDriver {
            name,
            counts_capacity: _,
        } = self;
        visit(name);
    }
}

impl EachSymbol for StorageCapacity {
    fn each(&mut self, visit: Visit<'_>) {
        let StorageCapacity {
            namespace,
            name,
            class,
            topology,
            largest: _,
        } = self;
        visit(namespace);
        visit(name);
        visit(class);
        topology.each(visit);
    }
}

impl EachSymbol for VolumeAttachment {
    fn each(&mut self, visit: Visit<'_>) {
        let VolumeAttachment {
            name,
            driver,
            node,
            volume,
        } = self;
        visit(name);
        visit(driver);
        visit(node);
        volume.each(visit);
    }
}

impl EachSymbol for CsiNode {
    fn each(&mut self, visit: Visit<'_>) {
        let CsiNode { name, drivers } = self;
        visit(name);
        drivers.each(visit);
    }
}
