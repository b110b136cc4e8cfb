//! A plan as output: names instead of indexes, everything sorted, and a digest.
//!
//! The keys are those of Karpenter's oracle (`seconds`, `cost`, `claims`, `existing`, `errors`),
//! with ours beside them. [`Decision`] is the decision alone. The digest is computed from its JSON,
//! so equal digests mean equal plans on every machine.

pub mod text;

use std::collections::BTreeMap;

use longshore_core::model::{ClusterObjects, Offering, OfferingId, Requirement, Symbol, TypeId};
use longshore_core::plan::{
    IncompatiblePool, Plan, PlannedClaim, PodIx, PoolIx, Target, Unfit, Unplaced,
};
use longshore_core::snapshot::{Ineligible, Snapshot};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::hex::hex;
use crate::messages::{self, Messages};

/// Everything that `longshore plan -o json` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Seconds of deciding: policies and planner, without reading files.
    pub seconds: f64,
    /// Seconds for making the snapshot.
    pub state_seconds: f64,
    /// Seconds of reading and parsing files.
    pub parse_seconds: f64,
    /// Largest resident set, MiB.
    pub mib: Option<u64>,
    /// What was decided; its keys stand beside the others.
    #[serde(flatten)]
    pub decision: Decision,
    /// How far `effective` may be above the best there is: `(effective - lowerBound) / effective`.
    pub gap: f64,
    /// SHA-256 of the decision.
    pub digest: String,
    /// That the time limit was reached and the plan is that of a lesser effort, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<String>,
    /// Whether kube-scheduler, placing the pods by itself, finds a place for each; absent where
    /// trying takes too long.
    #[serde(rename = "survives")]
    pub robustness: Option<Robustness>,
    /// How often kube-scheduler places all pods with nominations, as `longshore run` writes them.
    #[serde(rename = "survivesTold")]
    pub robustness_nominated: Option<Robustness>,
    /// Why nothing can be bought for a NodePool, whatever pod asks, by its name. Not part of the
    /// decision: it follows from what the plan was made on.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[serde(rename = "barren")]
    pub incompatible_pools: BTreeMap<String, String>,
    /// What prices are estimated from that say they are estimates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimates: Option<String>,
    /// What policies had to say: failures and fall-backs.
    pub policies: Vec<String>,
    /// Input that was skipped.
    pub problems: Vec<serde_json::Value>,
}

/// The decision alone: equal for equal input on every machine.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// USD per hour of all claims at their price.
    pub cost: f64,
    /// The objective, USD per hour: effective cost and the cost per node.
    pub effective: f64,
    /// No plan for the same pods has a smaller objective.
    pub lower_bound: f64,
    /// Nodes to buy, sorted by their pods.
    pub claims: Vec<Claim>,
    /// Pods by the existing node that they go to.
    pub existing: BTreeMap<String, Vec<String>>,
    /// Reasons by unplaced pod.
    pub errors: BTreeMap<String, UnplacedPod>,
}

/// A node to buy.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The NodePool that it is bought from.
    pub node_pool: String,
    /// Types that take its pods, cheapest first.
    pub instance_types: Vec<String>,
    /// USD per hour of the cheapest offering.
    pub price: f64,
    /// USD per hour as the scorer sees it.
    pub effective: f64,
    /// The offering that the plan counts on.
    pub offering: Priced,
    /// The cheapest offering of any other type that would do.
    pub next_best: Option<Priced>,
    /// Labels narrowed to values.
    pub requirements: BTreeMap<String, Vec<String>>,
    /// `minValues` of the NodePool were lowered.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub min_values_relaxed: bool,
    /// The policy that discourages `offering`: nothing that it leaves costs less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discouraged_by: Option<String>,
    /// Its pods as `namespace/name`, sorted.
    pub pods: Vec<String>,
}

/// An offering with its price.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Priced {
    /// The instance type's name.
    pub instance_type: String,
    /// Its zone; nothing if the offering is in none.
    pub zone: Option<String>,
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: Option<String>,
    /// USD per hour.
    pub price: f64,
    /// The price is an estimate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

/// Why a pod goes nowhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct UnplacedPod {
    /// Code of the first refusal.
    pub reason: &'static str,
    /// All refusals in one sentence.
    pub message: String,
    /// Who refuses, and why.
    pub refusals: Vec<Refusal>,
}

/// Who refuses a pod, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// The NodePool, if one refuses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_pool: Option<String>,
    /// The node, if one refuses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Code.
    pub reason: &'static str,
    /// Sentence.
    pub message: String,
    /// Types removed by each rule, where types are the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub types: Option<BTreeMap<&'static str, u32>>,
}

/// The result of a plan when kube-scheduler binds its pods.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Robustness {
    /// Runs that were modelled.
    pub runs: u32,
    /// Runs that placed all pods.
    pub survived: u32,
    /// Unplaced pods, the mean of all runs.
    pub left_over: f64,
}

impl Decision {
    /// The names of what `plan` decided for `snapshot`.
    pub fn new(snapshot: &Snapshot, plan: &Plan) -> Self {
        let world = &*snapshot.world;
        let mut claims: Vec<Claim> = plan
            .claims
            .iter()
            .map(|claim| claim_of(world, claim))
            .collect();
        claims.sort_by(|a, b| a.pods.cmp(&b.pods));
        let existing = plan
            .on_existing_nodes
            .iter()
            .filter(|placement| !placement.pods.is_empty())
            .map(|placement| {
                let node = snapshot.nodes[placement.node.0 as usize].name;
                (
                    world.names.text(node).to_owned(),
                    pod_names(world, &placement.pods),
                )
            });
        let errors = plan.unplaced.iter().map(|unplaced| {
            (
                pod_name(world, unplaced.pod),
                unplaced_pod(snapshot, unplaced),
            )
        });
        Decision {
            cost: plan.cost,
            effective: plan.effective_cost,
            lower_bound: plan.lower_bound,
            claims,
            existing: existing.collect(),
            errors: errors.collect(),
        }
    }

    /// SHA-256 over the JSON of the decision, in hexadecimal.
    pub fn digest(&self) -> String {
        digest(self)
    }

    /// `(effective - lowerBound) / effective`; 0 where nothing is bought.
    pub fn gap(&self) -> f64 {
        if self.effective > 0.0 {
            ((self.effective - self.lower_bound) / self.effective).max(0.0)
        } else {
            0.0
        }
    }
}

/// `namespace/name`.
pub fn pod_name(world: &ClusterObjects, pod: PodIx) -> String {
    let pod = &world.pods[pod.0 as usize];
    let namespace = world.shapes.get(pod.shape).namespace;
    format!("{}/{}", world.names.text(namespace), pod.name)
}

fn pod_names(world: &ClusterObjects, pods: &[PodIx]) -> Vec<String> {
    let mut names: Vec<String> = pods.iter().map(|&pod| pod_name(world, pod)).collect();
    names.sort_unstable();
    names
}

/// Why nothing can be bought for NodePools, whatever pod asks, by their names: those that may not
/// be bought from, and those that no instance type is left for.
pub fn all_incompatible_pools(snapshot: &Snapshot, plan: &Plan) -> BTreeMap<String, String> {
    let world = &*snapshot.world;
    let unusable = |(pool, why): &(PoolIx, Ineligible)| {
        let (name, words) = of_pool(world, *pool);
        (name, words.unusable(why))
    };
    let mut all = incompatible_pools(world, plan);
    all.extend(snapshot.ineligible_pools.iter().map(unusable));
    all
}

/// NodePools that no instance type is left for, by their names.
pub fn incompatible_pools(world: &ClusterObjects, plan: &Plan) -> BTreeMap<String, String> {
    let one = |incompatible: &IncompatiblePool| {
        let (name, words) = of_pool(world, incompatible.pool);
        (name, words.incompatible_pool(incompatible))
    };
    plan.incompatible_pools.iter().map(one).collect()
}

fn of_pool(world: &ClusterObjects, pool: PoolIx) -> (String, Messages<'_>) {
    let pool = &world.pools[pool.0 as usize];
    (
        world.names.text(pool.name).to_owned(),
        Messages {
            world,
            shape: None,
            pool: Some(pool),
        },
    )
}

/// SHA-256 over the JSON of something, in hexadecimal.
pub fn digest(of: &impl Serialize) -> String {
    let bytes = serde_json::to_vec(of).unwrap_or_default();
    hex(&Sha256::digest(&bytes))
}

/// One claim with names.
pub fn claim_of(world: &ClusterObjects, claim: &PlannedClaim) -> Claim {
    let text = |sym| world.names.text(sym).to_owned();
    let requirements = claim.requirements.iter().map(|(key, values)| {
        let mut values: Vec<String> = values.iter().map(|&value| text(value)).collect();
        values.sort_unstable();
        (text(*key), values)
    });
    Claim {
        node_pool: text(world.pools[claim.pool.0 as usize].name),
        instance_types: claim
            .types
            .iter()
            .map(|&id| text(world.catalogue.instance_type(id).name))
            .collect(),
        price: claim.price,
        effective: claim.effective_cost,
        offering: priced(world, world.catalogue.offering(claim.offering)),
        next_best: next_best(world, claim).map(|id| priced(world, world.catalogue.offering(id))),
        requirements: requirements.collect(),
        min_values_relaxed: claim.min_values_relaxed,
        discouraged_by: claim.discouraged_by.as_deref().map(str::to_owned),
        pods: pod_names(world, &claim.pods),
    }
}

/// An offering with its names.
pub fn priced(world: &ClusterObjects, offering: &Offering) -> Priced {
    let text = |sym| world.names.text(sym).to_owned();
    let capacity_type = offering.capacity_type.map(text);
    Priced {
        instance_type: text(world.catalogue.instance_type(offering.instance_type).name),
        zone: offering.zone.map(text),
        price: offering.price,
        estimated: world.catalogue.estimates().of(capacity_type.as_deref()),
        capacity_type,
    }
}

/// The cheapest offering, by price, that the claim admits among types other than the one it counts
/// on.
pub fn next_best(world: &ClusterObjects, claim: &PlannedClaim) -> Option<OfferingId> {
    let planned = world.catalogue.offering(claim.offering).instance_type;
    let others = claim.types.iter().copied().filter(|&id| id != planned);
    others
        .filter_map(|id| cheapest(world, claim, id))
        .min_by(|a, b| price(world, *a).total_cmp(&price(world, *b)))
}

fn price(world: &ClusterObjects, id: OfferingId) -> f64 {
    world.catalogue.offering(id).price
}

fn cheapest(world: &ClusterObjects, claim: &PlannedClaim, id: TypeId) -> Option<OfferingId> {
    let admits = |id: &OfferingId| {
        let offering = world.catalogue.offering(*id);
        offering.available
            && claim.requirements.iter().all(|(key, values)| {
                offering
                    .requirements
                    .iter()
                    .filter(|r| r.key == *key)
                    .all(|r| match &r.op {
                        longshore_core::model::Op::In(pinned) => {
                            pinned.iter().any(|value| values.contains(value))
                        }
                        _ => true,
                    })
            })
    };
    let rows = world.catalogue.instance_type(id).offerings.clone();
    rows.map(OfferingId)
        .filter(admits)
        .min_by(|a, b| price(world, *a).total_cmp(&price(world, *b)))
}

/// Why a pod goes nowhere, with every refusal that the plan has of it.
pub fn unplaced_pod(snapshot: &Snapshot, unplaced: &Unplaced) -> UnplacedPod {
    let refusals: Vec<Refusal> = unplaced
        .refusals
        .iter()
        .map(|r| refusal(snapshot, unplaced.pod, r.target, &r.unfit))
        .collect();
    let mut sentences: Vec<String> = refusals.iter().map(Refusal::sentence).collect();
    sentences.extend(volumes(snapshot, unplaced.pod));
    UnplacedPod {
        reason: refusals.first().map_or("Unknown", |refusal| refusal.reason),
        message: sentences.join("; "),
        refusals,
    }
}

/// What the volumes of a pod that waits require of its node, and which claims they are of.
pub fn volumes(snapshot: &Snapshot, pod: PodIx) -> Option<String> {
    let world = &*snapshot.world;
    let record = &world.pods[pod.0 as usize];
    if record.claims.is_empty() {
        return None;
    }
    let pending = snapshot.pending.iter().find(|pending| pending.pod == pod)?;
    let words = Messages {
        world,
        shape: None,
        pool: None,
    };
    let one = |all: &Vec<Requirement>| {
        let all = all.iter().map(|one| {
            let key = world.names.text(one.key);
            format!("{key} {}", words.requirement(one))
        });
        all.collect::<Vec<_>>().join(" and ")
    };
    let wanted = pending.volume_alternatives.iter().map(one);
    let wanted: Vec<String> = wanted.filter(|wanted| !wanted.is_empty()).collect();
    let namespace = world.shapes.get(record.shape).namespace;
    let host = world.names.get(longshore_api::labels::HOSTNAME);
    let mut requirements = pending.volume_alternatives.iter().flatten();
    let on_a_host = requirements.any(|wanted| Some(wanted.key) == host);
    let named = |claim: &Symbol| match on_a_host {
        true => named_claim(world, namespace, *claim),
        false => world.names.text(*claim).to_owned(),
    };
    let claims: Vec<String> = record.claims.iter().map(named).collect();
    (!wanted.is_empty()).then(|| {
        let (claims, wanted) = (claims.join(", "), wanted.join(", or "));
        format!("its volumes (PersistentVolumeClaim {claims}) require {wanted}")
    })
}

/// The name of a claim; of one with a volume that is on one node alone the volume too.
fn named_claim(world: &ClusterObjects, namespace: Symbol, claim: Symbol) -> String {
    let text = |symbol| world.names.text(symbol);
    let mut claims = world.volume_claims.iter();
    let record = claims.find(|of| (of.namespace, of.name) == (namespace, claim));
    let volume = record.and_then(|of| of.volume).and_then(|name| {
        let mut volumes = world.volumes.iter();
        volumes.find(|volume| volume.name == name && volume.local)
    });
    match volume {
        Some(volume) => format!(
            "{} with PersistentVolume {}, which is on that node alone",
            text(claim),
            text(volume.name)
        ),
        None => text(claim).to_owned(),
    }
}

/// One refusal in words.
pub fn refusal(snapshot: &Snapshot, pod: PodIx, target: Target, unfit: &Unfit) -> Refusal {
    let world = &*snapshot.world;
    let pool = match target {
        Target::Pool(pool) => Some(&world.pools[pool.0 as usize]),
        Target::Pod | Target::Node(_) => None,
    };
    let node = match target {
        Target::Node(node) => Some(snapshot.nodes[node.0 as usize].name),
        Target::Pod | Target::Pool(_) => None,
    };
    let shape = Some(world.shapes.get(world.pods[pod.0 as usize].shape));
    Refusal {
        node_pool: pool.map(|pool| world.names.text(pool.name).to_owned()),
        node: node.map(|name| world.names.text(name).to_owned()),
        reason: messages::code(unfit),
        message: Messages { world, shape, pool }.sentence(unfit),
        types: messages::type_counts(unfit),
    }
}

impl Refusal {
    /// Who and why: `NodePool default: …`.
    pub fn sentence(&self) -> String {
        match (&self.node_pool, &self.node) {
            (Some(pool), _) => format!("NodePool {pool}: {}", self.message),
            (_, Some(node)) => format!("node {node}: {}", self.message),
            _ => self.message.clone(),
        }
    }
}
