//! Interfaces that only a consolidation policy has a use for.

use std::sync::Arc;

use wasmtime::component::{ComponentNamedList, Lower};

use super::interface::{Bytes, Interface, strings};
use super::state::{StoreData, charge};
use crate::cluster_columns::{ClusterColumns, ProposalColumns};
use crate::columns::Table;

impl Interface<'_> {
    fn shared<T>(
        &mut self,
        name: &'static str,
        get: impl Fn(&StoreData) -> Arc<[T]> + Send + Sync + 'static,
    ) -> wasmtime::Result<()>
    where
        T: Copy + Send + Sync + 'static,
        (Arc<[T]>,): ComponentNamedList + Lower,
    {
        self.function(name, move |mut cx, (): ()| {
            let column = get(cx.data());
            charge(&mut cx, column.bytes())?;
            Ok((column,))
        })
    }

    fn of_cluster<T>(
        &mut self,
        name: &'static str,
        get: fn(&ClusterColumns) -> &Arc<[T]>,
    ) -> wasmtime::Result<()>
    where
        T: Copy + Send + Sync + 'static,
        (Arc<[T]>,): ComponentNamedList + Lower,
    {
        self.shared(name, move |state| get(&state.cluster).clone())
    }

    fn of_proposals<T>(
        &mut self,
        name: &'static str,
        get: fn(&ProposalColumns) -> &Arc<[T]>,
    ) -> wasmtime::Result<()>
    where
        T: Copy + Send + Sync + 'static,
        (Arc<[T]>,): ComponentNamedList + Lower,
    {
        self.shared(name, move |state| get(&state.proposals).clone())
    }

    fn texts(&mut self, name: &'static str, get: fn(&StoreData) -> &Table) -> wasmtime::Result<()> {
        self.function(name, move |mut cx, (): ()| {
            let table = get(cx.data()).clone();
            charge(&mut cx, strings(&table))?;
            Ok((table,))
        })
    }

    /// A column by key. It is made anew for each call, which the guest pays for too.
    fn keyed<T>(
        &mut self,
        name: &'static str,
        get: fn(&ClusterColumns, &str) -> Arc<[T]>,
    ) -> wasmtime::Result<()>
    where
        T: Copy + Send + Sync + 'static,
        (Arc<[T]>,): ComponentNamedList + Lower,
    {
        self.function(name, move |mut cx, (key,): (String,)| {
            let column = get(&cx.data().cluster.clone(), &key);
            charge(&mut cx, key.len() + ALLOCATION_COST_FACTOR * column.bytes())?;
            Ok((column,))
        })
    }
}

/// How much more a byte costs that is made and not only copied.
const ALLOCATION_COST_FACTOR: usize = 8;

pub(super) fn nodes(to: &mut Interface) -> wasmtime::Result<()> {
    to.scalar("count", |state| state.cluster.count() as u32)?;
    to.texts("names", |state| &state.cluster.names)?;
    to.texts("node-pool-names", |state| &state.cluster.node_pool_names)?;
    to.of_cluster("node-pools", |c| &c.node_pools)?;
    to.of_cluster("offerings", |c| &c.offerings)?;
    to.of_cluster("costs", |c| &c.costs)?;
    to.of_cluster("ages", |c| &c.ages)?;
    to.keyed("allocatable", |c, name| c.allocatable(name))?;
    to.keyed("requested", |c, name| c.requested(name))?;
    to.of_cluster("pods", |c| &c.pods)?;
    to.of_cluster("blocked-pods", |c| &c.blocked_pods)?;
    to.of_cluster("single-pods", |c| &c.single_pods)?;
    to.of_cluster("bare-pods", |c| &c.bare_pods)?;
    to.of_cluster("unprotected-pods", |c| &c.unprotected_pods)?;
    to.of_cluster("allowed-disruptions", |c| &c.allowed_disruptions)?;
    to.of_cluster("youngest-pod-ages", |c| &c.youngest_pod_ages)?;
    to.of_cluster("disruption-costs", |c| &c.disruption_costs)?;
    to.of_cluster("longest-grace", |c| &c.longest_grace)?;
    to.function("label-values", |mut cx, (key,): (String,)| {
        let (values, rows) = cx.data().cluster.labels(&key);
        charge(
            &mut cx,
            key.len() + strings(&values) + ALLOCATION_COST_FACTOR * rows.bytes(),
        )?;
        Ok((values,))
    })?;
    to.keyed("labels", |c, key| c.labels(key).1)
}

pub(super) fn node_pools(to: &mut Interface) -> wasmtime::Result<()> {
    to.of_cluster("costs", |c| &c.pool_costs)?;
    to.of_cluster("disruption-costs", |c| &c.pool_disruption_costs)?;
    to.of_cluster("disrupted-hour", |c| &c.pool_disrupted_hour)?;
    to.of_cluster("disrupted-day", |c| &c.pool_disrupted_day)?;
    to.of_cluster("since-disruption", |c| &c.pool_since_disruption)?;
    to.keyed("allowed", |c, reason| c.allowed(reason))
}

pub(super) fn owners(to: &mut Interface) -> wasmtime::Result<()> {
    to.texts("names", |state| &state.cluster.owner_names)?;
    to.of_cluster("pods", |c| &c.owner_pods)?;
    to.of_cluster("young-pods", |c| &c.owner_young_pods)
}

pub(super) fn proposals(to: &mut Interface) -> wasmtime::Result<()> {
    to.scalar("count", |state| state.proposals.count() as u32)?;
    to.texts("reason-names", |state| &state.proposals.reason_names)?;
    to.of_proposals("reasons", |p| &p.reasons)?;
    to.of_proposals("removed", |p| &p.removed)?;
    to.of_proposals("removed-ends", |p| &p.removed_ends)?;
    to.of_proposals("added", |p| &p.added)?;
    to.of_proposals("added-ends", |p| &p.added_ends)?;
    to.of_proposals("moved-pods", |p| &p.moved_pods)?;
    to.of_proposals("moved-owners", |p| &p.moved_owners)?;
    to.of_proposals("moved-owner-pods", |p| &p.moved_owner_pods)?;
    to.of_proposals("moved-owner-ends", |p| &p.moved_owner_ends)?;
    to.of_proposals("savings", |p| &p.savings)?;
    to.of_proposals("disruption-costs", |p| &p.disruption_costs)
}
