//! Nodes, NodePools, owners and proposals as a consolidation policy sees them.

use std::sync::Arc;

use longshore_core::disrupt::consolidation::{Facts, NodeFacts, PoolFacts};
use longshore_core::disrupt::proposals::Proposal;
use longshore_core::disrupt::verdicts::Reason;
use longshore_core::model::{ClusterObjects, Labels, ResourceId, Resources};

use crate::columns::{Interner, Table};

/// Columns of a cluster; row i of those of nodes is entry i of [`Facts::nodes`].
#[derive(Default)]
pub(crate) struct ClusterColumns {
    pub names: Table,
    pub node_pool_names: Table,
    pub node_pools: Arc<[u32]>,
    pub offerings: Arc<[u32]>,
    pub costs: Arc<[f64]>,
    pub ages: Arc<[f64]>,
    pub pods: Arc<[u32]>,
    pub blocked_pods: Arc<[u32]>,
    pub single_pods: Arc<[u32]>,
    pub bare_pods: Arc<[u32]>,
    pub unprotected_pods: Arc<[u32]>,
    pub allowed_disruptions: Arc<[u32]>,
    pub youngest_pod_ages: Arc<[f64]>,
    pub disruption_costs: Arc<[f64]>,
    pub longest_grace: Arc<[f64]>,
    pub pool_costs: Arc<[f64]>,
    pub pool_disruption_costs: Arc<[f64]>,
    /// In the order of [`Reason::ALL`].
    pub pool_allowed: [Arc<[u32]>; Reason::ALL.len()],
    pub pool_disrupted_hour: Arc<[u32]>,
    pub pool_disrupted_day: Arc<[u32]>,
    pub pool_since_disruption: Arc<[f64]>,
    pub owner_names: Table,
    pub owner_pods: Arc<[u32]>,
    pub owner_young_pods: Arc<[u32]>,
    details: Option<Details>,
}

/// What columns by key are made of.
struct Details {
    world: Arc<ClusterObjects>,
    labels: Vec<Labels>,
    allocatable: Vec<Resources>,
    free: Vec<Resources>,
}

impl ClusterColumns {
    /// The columns of a cluster.
    pub fn new(facts: &Facts<'_>) -> Self {
        let (snapshot, world) = (facts.snapshot, &facts.snapshot.world);
        let text = |symbol| world.names.text(symbol);
        let nodes = &facts.nodes;
        let of = |node: &NodeFacts| &snapshot.nodes[node.node.0 as usize];
        let disrupted = |pool: &PoolFacts, of: fn((u32, u32)) -> u32| {
            // What is not known is the largest number: no count is.
            pool.disrupted
                .map_or(u32::MAX, |all| of(all).min(u32::MAX - 1))
        };
        let owner = |(namespace, kind, name)| {
            let (namespace, kind, name) = (text(namespace), text(kind), text(name));
            format!("{namespace}/{kind}/{name}").into()
        };
        let details = Details {
            world: world.clone(),
            labels: nodes.iter().map(|node| of(node).labels.clone()).collect(),
            allocatable: column(nodes, |node| of(node).allocatable.clone()).to_vec(),
            free: column(nodes, |node| of(node).free.clone()).to_vec(),
        };
        ClusterColumns {
            names: column(nodes, |node| text(of(node).name).into()),
            node_pool_names: column(&facts.pools, |pool| text(pool.name).into()),
            node_pools: column(nodes, |node| node.pool),
            offerings: column(nodes, |node| node.offering.map_or(u32::MAX, |of| of.0)),
            costs: column(nodes, |node| node.cost.unwrap_or(f64::NAN)),
            ages: column(nodes, |node| node.age.map_or(f64::NAN, |age| age as f64)),
            pods: column(nodes, |node| node.pods),
            blocked_pods: column(nodes, |node| node.blocked),
            single_pods: column(nodes, |node| node.single),
            bare_pods: column(nodes, |node| node.bare),
            unprotected_pods: column(nodes, |node| node.unprotected),
            allowed_disruptions: column(nodes, |node| node.allowed.unwrap_or(u32::MAX)),
            youngest_pod_ages: column(nodes, |node| {
                node.youngest.map_or(f64::INFINITY, |age| age as f64)
            }),
            disruption_costs: column(nodes, |node| node.weight),
            longest_grace: column(nodes, |node| node.grace.map_or(f64::NAN, f64::from)),
            pool_costs: column(&facts.pools, |pool| pool.cost),
            pool_disruption_costs: column(&facts.pools, |pool| pool.weight),
            pool_allowed: std::array::from_fn(|at| column(&facts.pools, |pool| pool.allowed[at])),
            pool_disrupted_hour: column(&facts.pools, |pool| disrupted(pool, |(hour, _)| hour)),
            pool_disrupted_day: column(&facts.pools, |pool| disrupted(pool, |(_, day)| day)),
            pool_since_disruption: column(&facts.pools, |pool| {
                pool.since_disruption.unwrap_or(f64::NAN)
            }),
            owner_names: column(&facts.owners, |of| owner(of.name)),
            owner_pods: column(&facts.owners, |owner| owner.pods),
            owner_young_pods: column(&facts.owners, |owner| owner.young),
            details: Some(details),
        }
    }

    /// Whether they were made of this cluster, as it is now.
    pub fn is_of(&self, facts: &Facts<'_>) -> bool {
        let made = self.details.as_ref();
        made.is_some_and(|details| Arc::ptr_eq(&details.world, &facts.snapshot.world))
    }

    /// How many nodes there are.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// What pods can have of a resource on each node, in cores, bytes or devices.
    pub fn allocatable(&self, resource: &str) -> Arc<[f64]> {
        self.amounts(resource, |details, at, id| details.allocatable[at].get(id))
    }

    /// What is requested of it.
    pub fn requested(&self, resource: &str) -> Arc<[f64]> {
        self.amounts(resource, |details, at, id| {
            details.allocatable[at].get(id) - details.free[at].get(id)
        })
    }

    fn amounts(&self, name: &str, of: impl Fn(&Details, usize, ResourceId) -> i64) -> Arc<[f64]> {
        let Some(details) = &self.details else {
            return Arc::default();
        };
        let other = || details.world.names.get(name).map(ResourceId::Other);
        let resource = ResourceId::known(name).or_else(other);
        let unit = if resource == Some(ResourceId::Cpu) {
            1000.0
        } else {
            1.0
        };
        let amount = |at| resource.map_or(0.0, |id| of(details, at, id) as f64 / unit);
        (0..self.count()).map(amount).collect()
    }

    /// The values of a label, and which of them each node has.
    pub fn labels(&self, key: &str) -> (Table, Arc<[u32]>) {
        let Some(details) = &self.details else {
            return Default::default();
        };
        let names = &details.world.names;
        let key = names.get(key);
        let mut values = Interner::new(names);
        let of = |labels: &Labels| values.index(key.and_then(|key| labels.get(key)));
        let rows = details.labels.iter().map(of).collect();
        (values.table(), rows)
    }

    /// What budgets let go of each NodePool; nothing for an unknown reason.
    pub fn allowed(&self, reason: &str) -> Arc<[u32]> {
        let known = Reason::ALL.iter().position(|of| of.name() == reason);
        known.map_or_else(Arc::default, |at| self.pool_allowed[at].clone())
    }
}

#[derive(Default)]
pub(crate) struct ProposalColumns {
    pub reason_names: Table,
    pub reasons: Arc<[u32]>,
    pub removed: Arc<[u32]>,
    pub removed_ends: Arc<[u32]>,
    pub added: Arc<[u32]>,
    pub added_ends: Arc<[u32]>,
    pub moved_pods: Arc<[u32]>,
    pub moved_owners: Arc<[u32]>,
    pub moved_owner_pods: Arc<[u32]>,
    pub moved_owner_ends: Arc<[u32]>,
    pub savings: Arc<[f64]>,
    pub disruption_costs: Arc<[f64]>,
}

impl ProposalColumns {
    /// The columns of proposals about a cluster.
    pub fn new(facts: &Facts<'_>, proposals: &[Proposal]) -> Self {
        let reason = |of: &Proposal| Reason::ALL.iter().position(|known| *known == of.reason);
        let rows = |of: &Proposal| -> Vec<u32> {
            let rows = of.nodes.iter().filter_map(|&node| facts.row(node));
            rows.collect()
        };
        let bought = |of: &Proposal| -> Vec<u32> {
            let bought = of.replacements.iter().map(|one| one.claim.offering.0);
            bought.collect()
        };
        let (removed, removed_ends) = flat(proposals.iter().map(rows));
        let (added, added_ends) = flat(proposals.iter().map(bought));
        let owners = proposals.iter().map(|of| facts.moved_owners(of));
        let (owners, moved_owner_ends) = flat(owners);
        ProposalColumns {
            reason_names: column(&Reason::ALL, |reason| reason.name().into()),
            reasons: column(proposals, |of| reason(of).unwrap_or(0) as u32),
            removed,
            removed_ends,
            added,
            added_ends,
            moved_pods: column(proposals, |of| of.moves.len() as u32),
            moved_owners: column(&owners, |of| of.0),
            moved_owner_pods: column(&owners, |of| of.1),
            moved_owner_ends,
            savings: column(proposals, |of| facts.savings(of)),
            disruption_costs: column(proposals, |of| of.disruption_cost),
        }
    }

    /// Rows of the nodes that a proposal removes.
    pub fn removed_of(&self, proposal: usize) -> &[u32] {
        let end = |at: usize| self.removed_ends.get(at).map_or(0, |&end| end as usize);
        let begin = proposal.checked_sub(1).map_or(0, end);
        self.removed.get(begin..end(proposal)).unwrap_or_default()
    }

    /// How many proposals there are.
    pub fn count(&self) -> usize {
        self.reasons.len()
    }
}

fn column<T, U>(of: &[T], get: impl Fn(&T) -> U) -> Arc<[U]> {
    of.iter().map(get).collect()
}

/// Lists one after the other, and where each ends.
fn flat<T>(lists: impl Iterator<Item = Vec<T>>) -> (Arc<[T]>, Arc<[u32]>) {
    let (mut all, mut ends) = (Vec::new(), Vec::new());
    for list in lists {
        all.extend(list);
        ends.push(all.len() as u32);
    }
    (all.into(), ends.into())
}
