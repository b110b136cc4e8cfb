//! The state of the cluster: observations folded into indexes.
//!
//! There are two views of the same objects. The [`Store`] holds what planning needs, interned.
//! Beside it are NodeClaims, NodePools and nodes with the fields that steps need. Folding returns
//! the objects that an observation touches ([`WorkItem`]), so that only these are reconciled. An
//! unreadable object leaves the last good version in place and is reported. Two kinds are different:
//! an unreadable pod holds its node, and nothing is bought with a NodePool that cannot be read.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use longshore_api::crd::{NodeClaim, NodePool};
use longshore_api::manifests::{Diagnostic, Frozen, Store};
use longshore_core::disrupt::static_capacity::removal_order;
use longshore_core::model::{self, ClusterObjects, Records, Symbol, Symbols};
use longshore_core::snapshot::useless_purchases;

use super::node::NodeView;
use super::node_claim::pool_of;
use super::overlays::OverlaySet;
pub use super::pod_latency::PodStage;
use crate::managed::Managed;
use crate::observe::node_classes;
use longshore_api::kinds::ObjectKind;

mod by_provider;
mod changes;
mod class;
pub mod cost;
mod fold;
mod head;
mod lists;
mod managed;
mod metrics_snapshot;
mod pods;
mod type_table;
mod waiting;
mod work_item;

use by_provider::NamesByProvider;
pub use changes::Changes;
pub use class::Class;
use class::NodeClass;
pub use lists::Lists;
pub use metrics_snapshot::{ClassView, MetricsSnapshot, NodeTotals, PodRow};
pub use pods::Pods;
#[cfg(test)]
pub use type_table::TypeRow;
pub use type_table::{OfferingRow, TypeTable};

pub use self::waiting::{Phase, PodTransition};
pub use self::work_item::WorkItem;

/// What is known at a moment. Copies nothing until its world is asked for.
pub struct FrozenState {
    objects: Frozen,
    managed: Option<Managed>,
    /// NodePools whose class is missing.
    without_class: Vec<Symbol>,
    /// NodeOverlays at that moment.
    pub overlays: OverlaySet,
}

impl FrozenState {
    /// A copy of the objects to plan on; the caller sets `now`, settings and catalogue.
    pub fn world(self) -> ClusterObjects {
        let mut world = self.objects.world();
        if let Some(managed) = self.managed {
            managed.enter(&mut world);
        }
        for pool in world.pools.iter_mut() {
            if self.without_class.contains(&pool.name) {
                pool.ready = Some(false);
            }
        }
        node_classes::tie_pools(&mut world);
        world
    }
}

/// An object that could not be taken in, or not all of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    pub kind: ObjectKind,
    pub name: String,
    pub why: String,
    /// The object counts but for what cannot be read.
    pub is_kept: bool,
}

/// The cluster as the watches tell of it, and what follows from it.
#[derive(Default)]
pub struct ClusterState {
    store: Store,
    /// What is managed; all that there is where nothing else is said.
    pub managed: Option<Managed>,
    /// Names of what other providers manage.
    foreign: managed::Foreign,
    /// Managed NodeClaims by name.
    pub claims: BTreeMap<String, Arc<NodeClaim>>,
    /// Managed NodePools by name.
    pub pools: BTreeMap<String, Arc<NodePool>>,
    /// NodeOverlays as last observed.
    pub overlays: OverlaySet,
    /// Nodes by name.
    pub nodes: BTreeMap<String, Arc<NodeView>>,
    /// What node classes say of themselves.
    classes: BTreeMap<(ObjectKind, String), NodeClass>,
    /// Names that what can be bought is written with.
    offered: Vec<String>,
    nodes_by_provider: NamesByProvider,
    claims_by_provider: NamesByProvider,
    /// Names of the claims that pods were planned for, by pod.
    claims_by_pod: HashMap<Box<str>, Vec<Arc<str>>>,
    /// Nodes that are being deleted.
    deleting: BTreeSet<String>,
    pub pods: Pods,
    pub changes: Changes,
    pub lists: Lists,
    /// Objects that cannot be read, or not all of them, and why.
    unreadable: BTreeMap<(ObjectKind, Box<str>), String>,
    /// Goes up with every change.
    pub revision: u64,
}

impl ClusterState {
    /// Nothing known yet; `names` is the table that the catalogue was read with.
    pub fn new(names: Symbols) -> Self {
        ClusterState {
            store: Store::with_names(names),
            ..ClusterState::default()
        }
    }

    /// Objects that cannot be read, or not all of them, and why.
    pub fn unreadable(&self) -> impl Iterator<Item = (ObjectKind, &str, &str)> {
        let all = self.unreadable.iter();
        all.map(|((kind, name), why)| (*kind, &**name, why.as_str()))
    }

    /// Why nothing may be bought with a NodePool, if its spec cannot be read.
    pub fn pool_fault(&self, pool: &str) -> Option<&str> {
        // One whose default counts is in the store.
        let why = self.unreadable.get(&(ObjectKind::NodePool, pool.into()))?;
        let names = &self.store.unsorted().names;
        let name = names.get(pool);
        let is_read = name.is_some_and(|name| {
            let mut pools = self.store.unsorted().pools.iter();
            pools.any(|pool| pool.name == name)
        });
        (!is_read).then_some(why)
    }

    /// Whether a CSI driver runs on a node.
    pub fn has_csi_drivers(&self) -> bool {
        let mut nodes = self.store.unsorted().csi_nodes.iter();
        nodes.any(|node| !node.drivers.is_empty())
    }

    /// Whether a node is being deleted whose pods need another place. Those of another provider's node
    /// get one from that provider.
    pub fn any_node_leaves(&self) -> bool {
        let nodes = self.deleting.iter().filter_map(|name| self.nodes.get(name));
        let mut nodes = nodes.filter(|node| !self.is_of_others(node));
        nodes.next().is_some()
    }

    /// The name of the only node of a provider ID.
    pub fn node_name_of(&self, provider_id: &str) -> Option<&str> {
        let mut names = self.nodes_by_provider.get(provider_id);
        let name = names.next()?;
        names.next().is_none().then_some(name.as_str())
    }

    /// A NodePool and its node class as they are now, by their digest.
    pub fn given_of(&self, pool: &str) -> u64 {
        let world = self.store.unsorted();
        let name = world.names.get(pool);
        let record = name.and_then(|name| world.pools.iter().find(|pool| pool.name == name));
        record.map_or(0, |pool| useless_purchases::given_of(world, pool))
    }

    /// Names of the claims that a pod was planned for.
    pub fn claims_planned_for(&self, pod: &str) -> impl Iterator<Item = &str> {
        let claims = self.claims_by_pod.get(pod).into_iter().flatten();
        claims.map(|claim| &**claim)
    }

    /// What is known of a node class.
    pub fn class(&self, kind: &str, name: &str) -> Class {
        let known =
            ObjectKind::of_class(kind).and_then(|kind| self.classes.get(&(kind, name.to_owned())));
        known.map_or(Class::Missing, |known| known.class.clone())
    }

    /// The generation of a node class.
    pub fn class_generation(&self, kind: &str, name: &str) -> Option<i64> {
        let kind = ObjectKind::of_class(kind)?;
        self.classes.get(&(kind, name.to_owned()))?.generation
    }

    /// Nodes of a provider ID.
    pub fn nodes_of(&self, provider_id: &str) -> Vec<Arc<NodeView>> {
        let names = self.nodes_by_provider.get(provider_id);
        names
            .filter_map(|name| self.nodes.get(name).cloned())
            .collect()
    }

    /// The claim that a node belongs to.
    pub fn claim_of(&self, node: &NodeView) -> Vec<Arc<NodeClaim>> {
        let names = self.claims_by_provider.get(&node.provider_id);
        names
            .filter_map(|name| self.claims.get(name).cloned())
            .collect()
    }

    /// The table of names, which has those of the catalogue.
    pub fn names(&self) -> &Symbols {
        &self.store.unsorted().names
    }

    /// NodePools as records, with symbols of [`ClusterState::names`].
    pub fn pool_records(&self) -> Records<model::NodePool> {
        self.store.unsorted().pools.clone()
    }

    /// Names of a NodePool's claims in the order in which scale-down takes them; `now` in seconds
    /// since 1970.
    pub fn removal_order(&self, pool: &str, now: i64) -> Vec<String> {
        let world = self.store.unsorted();
        let order = world
            .names
            .get(pool)
            .map(|pool| removal_order(world, pool, now));
        let text = |name| world.names.text(name).to_owned();
        order.into_iter().flatten().map(text).collect()
    }

    /// Names of the claims of a NodePool.
    fn claims_of_pool(&self, pool: &str) -> impl Iterator<Item = &String> {
        let own = move |(_, claim): &(&String, &Arc<NodeClaim>)| pool_of(claim) == pool;
        self.claims.iter().filter(own).map(|(name, _)| name)
    }

    /// A cheap snapshot of everything, to plan on another thread.
    pub fn freeze(&self) -> FrozenState {
        let known = self.store.unsorted();
        let text = |sym| known.names.text(sym);
        let missing = known.pools.iter().filter(|pool| {
            self.class(text(pool.class.kind), text(pool.class.name)) == Class::Missing
        });
        FrozenState {
            without_class: missing.map(|pool| pool.name).collect(),
            overlays: self.overlays.clone(),
            managed: self.managed,
            objects: self.store.freeze(),
        }
    }

    /// The same with NodeClaims that are being created: those of these names that are not known yet.
    pub fn freeze_with<'c>(
        &mut self,
        claims: impl Iterator<Item = (&'c str, &'c serde_json::Value)>,
    ) -> FrozenState {
        let at = ObjectKind::NodeClaim.at();
        let unknown: Vec<_> = claims
            .filter(|(name, _)| !self.claims.contains_key(*name))
            .collect();
        for (_, object) in &unknown {
            // What cannot be read is refused by the server as well.
            let _ = self
                .store
                .apply(&at.api_version(), at.kind, &object.to_string());
        }
        let frozen = self.freeze();
        for (name, _) in unknown {
            self.store.remove("karpenter.sh", at.kind, "", name);
        }
        frozen
    }

    /// Makes something with the table of names, see [`Store::make_with_names`].
    pub fn make_with_names<T>(&mut self, make: impl FnOnce(&mut Symbols) -> T) -> (T, usize) {
        self.store.make_with_names(make)
    }

    /// Keeps these names as if an object used them, and no longer those of the last call.
    pub fn keep_offered(&mut self, names: Vec<String>) {
        self.offered = names;
        self.keep_names();
    }

    fn keep_names(&mut self) {
        let offered = self.offered.iter().map(String::as_str);
        self.store
            .keep_names(self.overlays.names_used().chain(offered));
    }

    pub fn every_overlay(&self) -> impl Iterator<Item = WorkItem> {
        self.overlays
            .names()
            .map(str::to_owned)
            .map(WorkItem::Overlay)
    }
}

/// What is wrong with an object: the field, the reason and a hint.
fn why(problem: &Diagnostic) -> String {
    let Diagnostic {
        field, what, hint, ..
    } = problem;
    let colon = if field.is_empty() { "" } else { ": " };
    let semicolon = if hint.is_empty() { "" } else { "; " };
    format!("{field}{colon}{what}{semicolon}{hint}")
}
