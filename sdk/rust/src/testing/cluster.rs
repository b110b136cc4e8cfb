//! A cluster for tests of consolidation policies: what the host's functions answer inside
//! [`with_cluster`].

use std::cell::RefCell;
use std::collections::BTreeMap;

/// A node of the cluster under test.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: &'static str,
    /// Its NodePool.
    pub node_pool: &'static str,
    /// Row of the offerings.
    pub offering: u32,
    /// USD per hour.
    pub cost: f64,
    /// Seconds.
    pub age: f64,
    /// Pods that would move.
    pub pods: u32,
    /// Pods that may not be evicted.
    pub blocked: u32,
    /// Pods that are the only one of their controller.
    pub single: u32,
    /// Pods without a controller.
    pub bare: u32,
    /// Pods without a budget.
    pub unprotected: u32,
    /// What the least budget allows.
    pub allowed: Option<u32>,
    /// Seconds since the last pod has started.
    pub youngest: f64,
    /// Eviction cost of its pods.
    pub disruption_cost: f64,
    /// Seconds: the longest termination grace of its pods.
    pub longest_grace: f64,
    /// Its labels.
    pub labels: BTreeMap<&'static str, &'static str>,
    /// Allocatable and requested amounts by resource.
    pub resources: BTreeMap<&'static str, (f64, f64)>,
}

impl Default for Node {
    /// A node of NodePool `default` for 0.1 USD per hour with ten pods, an hour old.
    fn default() -> Self {
        Node {
            name: "node",
            node_pool: "default",
            offering: 0,
            cost: 0.1,
            age: 3600.0,
            pods: 10,
            blocked: 0,
            single: 0,
            bare: 0,
            unprotected: 0,
            allowed: None,
            youngest: 3600.0,
            disruption_cost: 10.0,
            longest_grace: 30.0,
            labels: BTreeMap::new(),
            resources: BTreeMap::new(),
        }
    }
}

/// A controller of pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Owner {
    /// Namespace, kind and name.
    pub name: &'static str,
    /// Its pods.
    pub pods: u32,
    /// Those that started within an hour.
    pub young: u32,
}

/// A proposal.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// `Empty`, `Drifted` or `Underutilized`.
    pub reason: &'static str,
    /// Rows of nodes.
    pub removed: Vec<u32>,
    /// Rows of offerings.
    pub added: Vec<u32>,
    /// Pods that move.
    pub moved: u32,
    /// Rows of owners, and how many pods of each.
    pub owners: Vec<(u32, u32)>,
    /// USD per hour.
    pub savings: f64,
    /// Eviction cost.
    pub disruption_cost: f64,
}

impl Default for Proposal {
    /// The first node, underutilized: ten pods move, 0.1 USD per hour is saved.
    fn default() -> Self {
        Proposal {
            reason: "Underutilized",
            removed: vec![0],
            added: Vec::new(),
            moved: 10,
            owners: Vec::new(),
            savings: 0.1,
            disruption_cost: 10.0,
        }
    }
}

/// A cluster, what was found in it, and the time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// Seconds since 1970.
    pub now: f64,
    /// Its nodes.
    pub nodes: Vec<Node>,
    /// Controllers of their pods.
    pub owners: Vec<Owner>,
    /// What was found.
    pub proposals: Vec<Proposal>,
}

thread_local! {
    static CLUSTER: RefCell<Cluster> = RefCell::default();
}

/// Runs a test on a cluster.
pub fn with_cluster<T>(cluster: Cluster, test: impl FnOnce() -> T) -> T {
    let before = CLUSTER.replace(cluster);
    let result = test();
    CLUSTER.set(before);
    result
}

pub(crate) fn now() -> f64 {
    CLUSTER.with_borrow(|cluster| cluster.now)
}

const REASONS: [&str; 3] = ["Empty", "Drifted", "Underutilized"];

fn table(all: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in all {
        if !names.iter().any(|known| known == name) {
            names.push((*name).to_owned());
        }
    }
    names
}

fn indexes(all: &[&str]) -> Vec<u32> {
    let names = table(all);
    let at = |name: &&str| names.iter().position(|known| known == name);
    all.iter()
        .map(|name| at(name).unwrap_or_default() as u32)
        .collect()
}

macro_rules! columns {
    ($all:ident: $($name:ident: $type:ty = $of:expr;)*) => {$(
        pub(crate) fn $name() -> Vec<$type> {
            super::CLUSTER.with_borrow(|cluster| cluster.$all.iter().map($of).collect())
        }
    )*};
}

pub(crate) mod nodes {
    use super::{indexes, table};

    columns! { nodes:
        names: String = |n| n.name.to_owned();
        offerings: u32 = |n| n.offering;
        costs: f64 = |n| n.cost;
        ages: f64 = |n| n.age;
        pods: u32 = |n| n.pods;
        blocked_pods: u32 = |n| n.blocked;
        single_pods: u32 = |n| n.single;
        bare_pods: u32 = |n| n.bare;
        unprotected_pods: u32 = |n| n.unprotected;
        allowed_disruptions: u32 = |n| n.allowed.unwrap_or(u32::MAX);
        youngest_pod_ages: f64 = |n| n.youngest;
        disruption_costs: f64 = |n| n.disruption_cost;
        longest_grace: f64 = |n| n.longest_grace;
        pools: &'static str = |n| n.node_pool;
    }

    pub(crate) fn count() -> u32 {
        pools().len() as u32
    }

    pub(crate) fn node_pool_names() -> Vec<String> {
        table(&pools())
    }

    pub(crate) fn node_pools() -> Vec<u32> {
        indexes(&pools())
    }

    fn amounts(key: &str, of: impl Fn(&(f64, f64)) -> f64) -> Vec<f64> {
        super::CLUSTER.with_borrow(|cluster| {
            let amount = |n: &super::Node| n.resources.get(key).map_or(0.0, &of);
            cluster.nodes.iter().map(amount).collect()
        })
    }

    pub(crate) fn allocatable(key: &str) -> Vec<f64> {
        amounts(key, |both| both.0)
    }

    pub(crate) fn requested(key: &str) -> Vec<f64> {
        amounts(key, |both| both.1)
    }

    fn values(key: &str) -> Vec<&'static str> {
        super::CLUSTER.with_borrow(|cluster| {
            let value = |n: &super::Node| n.labels.get(key).copied().unwrap_or("");
            cluster.nodes.iter().map(value).collect()
        })
    }

    pub(crate) fn label_values(key: &str) -> Vec<String> {
        table(&values(key))
    }

    pub(crate) fn labels(key: &str) -> Vec<u32> {
        indexes(&values(key))
    }
}

pub(crate) mod node_pools {
    fn sums(of: impl Fn(&super::Node) -> f64) -> Vec<f64> {
        let pools = super::nodes::node_pools();
        let mut sums = vec![0.0; super::nodes::node_pool_names().len()];
        super::CLUSTER.with_borrow(|cluster| {
            for (node, pool) in cluster.nodes.iter().zip(pools) {
                sums[pool as usize] += of(node);
            }
        });
        sums
    }

    pub(crate) fn costs() -> Vec<f64> {
        sums(|node| node.cost)
    }

    pub(crate) fn disruption_costs() -> Vec<f64> {
        sums(|node| node.disruption_cost)
    }

    pub(crate) fn disrupted_hour() -> Vec<u32> {
        sums(|_| 0.0).iter().map(|_| u32::MAX).collect()
    }

    pub(crate) fn disrupted_day() -> Vec<u32> {
        disrupted_hour()
    }

    pub(crate) fn since_disruption() -> Vec<f64> {
        sums(|_| f64::NAN)
    }

    pub(crate) fn allowed(reason: &str) -> Vec<u32> {
        let pools = super::nodes::node_pool_names().len();
        match super::REASONS.contains(&reason) {
            true => vec![u32::MAX; pools],
            false => Vec::new(),
        }
    }
}

pub(crate) mod owners {
    columns! { owners:
        names: String = |o| o.name.to_owned();
        pods: u32 = |o| o.pods;
        young_pods: u32 = |o| o.young;
    }
}

pub(crate) mod proposals {
    columns! { proposals:
        moved_pods: u32 = |p| p.moved;
        savings: f64 = |p| p.savings;
        disruption_costs: f64 = |p| p.disruption_cost;
        reasons: u32 = |p| super::REASONS.iter().position(|r| *r == p.reason).unwrap_or(2) as u32;
    }

    pub(crate) fn count() -> u32 {
        moved_pods().len() as u32
    }

    pub(crate) fn reason_names() -> Vec<String> {
        super::REASONS.map(str::to_owned).to_vec()
    }

    fn flat(of: impl Fn(&super::Proposal) -> Vec<u32>) -> (Vec<u32>, Vec<u32>) {
        let (mut all, mut ends) = (Vec::new(), Vec::new());
        super::CLUSTER.with_borrow(|cluster| {
            for proposal in &cluster.proposals {
                all.extend(of(proposal));
                ends.push(all.len() as u32);
            }
        });
        (all, ends)
    }

    pub(crate) fn removed() -> Vec<u32> {
        flat(|p| p.removed.clone()).0
    }

    pub(crate) fn removed_ends() -> Vec<u32> {
        flat(|p| p.removed.clone()).1
    }

    pub(crate) fn added() -> Vec<u32> {
        flat(|p| p.added.clone()).0
    }

    pub(crate) fn added_ends() -> Vec<u32> {
        flat(|p| p.added.clone()).1
    }

    pub(crate) fn moved_owners() -> Vec<u32> {
        flat(|p| p.owners.iter().map(|of| of.0).collect()).0
    }

    pub(crate) fn moved_owner_pods() -> Vec<u32> {
        flat(|p| p.owners.iter().map(|of| of.1).collect()).0
    }

    pub(crate) fn moved_owner_ends() -> Vec<u32> {
        flat(|p| p.owners.iter().map(|of| of.0).collect()).1
    }
}
