//! A copy of the state for metrics, taken at one moment: small enough to copy between two events,
//! and complete enough to write the text elsewhere. Nothing is kept from one copy to the next.
//!
//! A copy costs the loop about half as much as a round's copy of the objects, and 50 bytes per pod
//! beside its name while the text is written.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use longshore_api::crd::{Condition, NodeClaim, NodePool, Time, Timestamp};
use longshore_api::labels;
use longshore_core::model::{Catalogue, NodeRecord, Pod, ResourceId, Resources, Symbol, Symbols};

use super::cost::Cost;
use super::{ClusterState, Phase, TypeTable};
use crate::observe::node::NodeView;
use crate::observe::pod_latency::PodLatency;

/// The state of the cluster for metrics at one moment.
#[derive(Default)]
pub struct MetricsSnapshot {
    pub now: Timestamp,
    /// Nodes in the order of their names.
    pub nodes: Vec<NodeTotals>,
    pub pods: Vec<PodRow>,
    /// Who owns pods, `Kind/name`.
    pub owners: Vec<String>,
    pub claims: Vec<Arc<NodeClaim>>,
    pub pools: Vec<Arc<NodePool>>,
    /// EC2NodeClasses with their conditions. Empty under KWOK.
    pub classes: Vec<ClassView>,
    /// Instance types of the catalogue, with prices and capacity.
    pub types: Arc<TypeTable>,
    /// USD per hour of what each NodePool has launched.
    pub costs: BTreeMap<String, f64>,
    /// Exported labels of nodes, and their names in metrics.
    pub keys: Vec<(String, String)>,
    /// Names of resources that have none of their own.
    pub others: BTreeMap<Symbol, String>,
    /// Pods that wait and are not expected on a node that is still to come.
    pub queue: usize,
    /// For how long a round has been deciding, if one is.
    pub deciding: Option<Duration>,
    /// When rounds decided about pods that do not run yet.
    pub pod_latency: PodLatency,
}

/// A node class, as far as metrics need it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassView {
    pub name: String,
    pub conditions: Vec<Condition>,
    /// When its deletion was asked for.
    pub deletion: Option<Time>,
}

/// A node, and what the pods on it ask for together.
pub struct NodeTotals {
    pub view: Arc<NodeView>,
    /// It belongs to a NodeClaim.
    pub managed: bool,
    /// All of its pods that have not ended.
    pub pods: Sums,
    /// Those of DaemonSets among them.
    pub daemons: Sums,
}

/// Amounts of several pods.
#[derive(Default)]
pub struct Sums {
    pub requests: Resources,
    pub limits: Resources,
}

impl Sums {
    fn add(&mut self, requests: &Resources, limits: &Resources) {
        self.requests.add(requests);
        self.limits.add(limits);
    }
}

pub struct PodRow {
    /// `namespace/name`.
    pub name: Box<str>,
    pub node: Option<Arc<str>>,
    /// Position in [`MetricsSnapshot::owners`]; past the end for none.
    pub owner: u32,
    /// Seconds since 1970.
    pub created: i64,
    pub phase: Phase,
    pub ready: bool,
    /// It asks for dynamic resources.
    pub dynamic: bool,
}

impl ClusterState {
    /// A picture of it; `now`, the queue, what is being decided and what was are the caller's to
    /// say.
    pub fn metrics_snapshot(&self, catalogue: &Catalogue) -> MetricsSnapshot {
        let names = &self.store.unsorted().names;
        let managed = |node: &NodeView| self.claims_by_provider.contains(&node.provider_id);
        let mut nodes: Vec<NodeTotals> = self
            .nodes
            .values()
            .map(|view| NodeTotals {
                managed: managed(view),
                view: view.clone(),
                pods: Sums::default(),
                daemons: Sums::default(),
            })
            .collect();
        let (pods, owners) = self.pod_lines(&mut nodes);
        let resources = nodes
            .iter()
            .flat_map(|node| node.pods.requests.iter().chain(node.pods.limits.iter()));
        let others = resources.filter_map(|(resource, _)| match resource {
            ResourceId::Other(name) => Some((name, names.text(name).to_owned())),
            _ => None,
        });
        MetricsSnapshot {
            others: others.collect(),
            nodes,
            pods,
            owners,
            claims: self.claims.values().cloned().collect(),
            pools: self.pools.values().cloned().collect(),
            costs: self.costs(catalogue),
            keys: keys(catalogue, names),
            ..MetricsSnapshot::default()
        }
    }

    /// Every pod, and what those on nodes ask for together.
    fn pod_lines(&self, nodes: &mut [NodeTotals]) -> (Vec<PodRow>, Vec<String>) {
        let world = self.store.unsorted();
        let names = &world.names;
        let at: HashMap<Symbol, usize> = nodes
            .iter()
            .enumerate()
            .filter_map(|(at, node)| Some((names.get(&node.view.name)?, at)))
            .collect();
        let daemon_set = names.get("DaemonSet");
        let mut owners: HashMap<(Symbol, Symbol, Symbol), u32> = HashMap::new();
        let mut owner_paths = Vec::new();
        let mut lines = Vec::with_capacity(world.pods.len());
        for (index, pod) in world.pods.iter().enumerate() {
            let shape = world.shapes.get(pod.shape);
            let node = pod
                .node
                .and_then(|name| at.get(&name))
                .filter(|_| !pod.terminal);
            if let Some(node) = node.map(|&at| &mut nodes[at]) {
                let limits = self.store.limits(index);
                node.pods.add(&shape.requests, limits);
                if pod.owner.is_some_and(|(kind, _)| Some(kind) == daemon_set) {
                    node.daemons.add(&shape.requests, limits);
                }
            }
            let name = [names.text(shape.namespace), "/", &pod.name]
                .concat()
                .into_boxed_str();
            // Not there while the version that could be read is older than the last.
            let Some(mark) = self.pods.get(&name) else {
                continue;
            };
            let owner = pod.owner.map(|(kind, owner)| {
                let key = (kind, owner, shape.namespace);
                *owners.entry(key).or_insert_with(|| {
                    let [kind, owner, namespace] =
                        [kind, owner, shape.namespace].map(|part| names.text(part));
                    owner_paths.push(owner_path(kind, owner, namespace));
                    owner_paths.len() as u32 - 1
                })
            });
            lines.push(PodRow {
                name,
                node: mark.node.clone(),
                owner: owner.unwrap_or(u32::MAX),
                created: pod.created,
                phase: mark.phase,
                ready: mark.ready,
                dynamic: pod.resource_claims,
            });
        }
        (lines, owner_paths)
    }

    /// USD per hour of the claims of each NodePool that have been launched, at today's price of
    /// what they are. A claim that the catalogue has no price for costs nothing.
    fn costs(&self, catalogue: &Catalogue) -> BTreeMap<String, f64> {
        let names = &self.store.unsorted().names;
        let mut costs: BTreeMap<String, f64> =
            self.pools.keys().map(|name| (name.clone(), 0.0)).collect();
        self.each_price(catalogue, |pool, _, price| {
            if let Some(cost) = costs.get_mut(names.text(pool)) {
                *cost += price.unwrap_or(0.0);
            }
        });
        costs
    }

    /// What all launched claims cost now, and what the pods on their nodes request. Pods on a node
    /// without a known price are left out as its price is, so that the cost of a core says nothing else
    /// when prices come.
    pub fn cost(&self, catalogue: &Catalogue) -> Cost {
        let mut cost = Cost::default();
        let world = self.store.unsorted();
        let mut priced: HashSet<Symbol> = HashSet::new();
        self.each_price(catalogue, |pool, instance, price| {
            // Another provider's are among the records.
            if self.pools.contains_key(world.names.text(pool)) {
                cost.nodes += 1;
                match price {
                    Some(price) => {
                        cost.usd += price;
                        priced.insert(instance);
                    }
                    None => cost.unpriced += 1,
                }
            }
        });
        let is_priced =
            |node: &&NodeRecord| node.provider_id.is_some_and(|id| priced.contains(&id));
        let own = world.nodes.iter().filter(is_priced);
        let own: HashSet<Symbol> = own.map(|node| node.name).collect();
        let bound = world.pods.iter().filter(|pod| !pod.terminal);
        let bound = bound.filter(|pod| pod.node.is_some_and(|node| own.contains(&node)));
        let cpu = |pod: &Pod| {
            let requests = &world.shapes.get(pod.shape).requests;
            requests.get(ResourceId::Cpu)
        };
        let millis: i64 = bound.map(cpu).sum();
        cost.cores = millis as f64 / 1000.0;
        cost
    }

    /// Hands over the NodePool of each claim that has been launched, its provider id, and the price of
    /// what it is.
    fn each_price(&self, catalogue: &Catalogue, mut take: impl FnMut(Symbol, Symbol, Option<f64>)) {
        let world = self.store.unsorted();
        let names = &world.names;
        let key = |label: &str| names.get(label);
        let (Some(pool), Some(kind)) = (key(labels::NODEPOOL), key(labels::INSTANCE_TYPE)) else {
            return;
        };
        let (zone, capacity_type) = (key(labels::ZONE), key(labels::CAPACITY_TYPE));
        let mut prices: HashMap<[Option<Symbol>; 3], Option<f64>> = HashMap::new();
        let launched = world.claims.iter();
        let launched = launched.filter_map(|claim| Some((claim, claim.provider_id?)));
        for (claim, instance) in launched {
            let of = |key: Option<Symbol>| key.and_then(|key| claim.labels.get(key));
            let Some(pool) = claim.labels.get(pool) else {
                continue;
            };
            let what = [of(Some(kind)), of(zone), of(capacity_type)];
            let price = prices
                .entry(what)
                .or_insert_with(|| price(catalogue, names, what));
            take(pool, instance, *price);
        }
    }
}

/// The owner of a pod as Karpenter has it: `/apis/apps/v1/namespaces/shop/replicasets/web-5d4f`. Of
/// other kinds than Kubernetes' own the group is not kept: `Workflow/nightly`.
fn owner_path(kind: &str, name: &str, namespace: &str) -> String {
    let version = match kind {
        "DaemonSet" | "ReplicaSet" | "StatefulSet" => "apps/v1",
        "Job" => "batch/v1",
        "ReplicationController" | "Node" => "v1",
        _ => return format!("{kind}/{name}"),
    };
    let plural = kind.to_ascii_lowercase();
    format!("/apis/{version}/namespaces/{namespace}/{plural}s/{name}")
}

/// USD per hour of an instance type in a zone under a capacity type.
fn price(
    catalogue: &Catalogue,
    names: &Symbols,
    [kind, zone, capacity_type]: [Option<Symbol>; 3],
) -> Option<f64> {
    let name = names.text(kind?);
    let types = catalogue.types();
    let at = types
        .binary_search_by(|t| names.text(t.name).cmp(name))
        .ok()?;
    let rows = &types[at].offerings;
    let mut offerings = catalogue.offerings()[rows.start as usize..rows.end as usize].iter();
    offerings
        .find(|o| o.zone == zone && o.capacity_type == capacity_type)
        .map(|o| o.price)
}

/// Well-known labels of nodes: Kubernetes' and Karpenter's, and what instance types and their
/// offerings say. Metrics call them by what is behind the slash, with `_` for whatever they do not
/// allow.
fn keys(catalogue: &Catalogue, names: &Symbols) -> Vec<(String, String)> {
    let of_types = catalogue.types().iter().flat_map(|t| {
        let first = catalogue.offerings().get(t.offerings.start as usize);
        t.requirements
            .iter()
            .chain(first.into_iter().flat_map(|o| o.requirements.iter()))
    });
    let mut keys: Vec<&str> = of_types
        .map(|r| names.text(r.key))
        .chain(labels::WELL_KNOWN)
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys.retain(|key| ![labels::NODEPOOL, labels::HOSTNAME].contains(key));
    let snake = |key: &str| {
        let name = key.rsplit('/').next().unwrap_or(key);
        name.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
    };
    let mut named: Vec<(String, String)> = keys
        .into_iter()
        .map(|key| (key.to_owned(), snake(key)))
        .collect();
    named.sort_by(|a, b| a.1.cmp(&b.1));
    // Kubernetes' own comes first where two share a name, which no series may.
    named.dedup_by(|b, a| a.1 == b.1);
    named
}
