//! Turns a plan into NodeClaims as they are written to the API server.

mod launch_order;
mod min_values;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use longshore_api::crd::hash;
use longshore_api::crd::{self, NodeClassRef, NodePool, Operator};
use longshore_api::labels;
use longshore_core::kube_scheduler::{affinity_leaders, pods_without_nomination};
use longshore_core::model::purchases::BOUGHT_GIVEN;
use longshore_core::model::{
    ClusterObjects, Op, Requirement, ResourceId, ShapeId, Symbol, TypeId, own_values,
};
use longshore_core::plan::{Plan, PlannedClaim, PodIx};
use longshore_core::snapshot::{Snapshot, useless_purchases};
use rustc_hash::FxHashSet;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::observe::overlays;
use crate::observe::planned_pods::PLANNED_PODS;
use crate::process::mutants::mutant;
use longshore_report::messages::quantities;

/// The finalizer of claims and nodes.
pub const FINALIZER: &str = "karpenter.sh/termination";
/// Annotation with the hash of what a NodePool's nodes are made from.
pub const HASH: &str = "karpenter.sh/nodepool-hash";
/// Annotation with the version of the hash.
pub const HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";

/// Most bytes of the annotation [`PLANNED_PODS`]; the API server allows 256 KiB of annotations.
const PODS_BYTES: usize = 200_000;

/// Annotation with the round that a NodeClaim comes from.
pub const ROUND: &str = "longshore.dev/round";

/// The group of a spread pod: its shape.
pub fn group_of(world: &ClusterObjects, pod: PodIx) -> Option<u32> {
    let shape = world.pods[pod.0 as usize].shape;
    let own = &world.shapes.get(shape).spread;
    let spread = if own.is_empty() {
        &world.settings.default_spread
    } else {
        own
    };
    spread.iter().any(|s| s.required).then_some(shape.0)
}

/// Nomination data of the pods that nodes are bought for.
#[derive(Default)]
pub struct NominationPlan {
    /// Pods that need no nomination.
    pub without_nomination: FxHashSet<PodIx>,
    /// Shapes of pods that others have to follow.
    pub affinity_leaders: FxHashSet<ShapeId>,
}

impl NominationPlan {
    /// Decides which pods of a plan are nominated.
    pub fn of(snapshot: &Snapshot, plan: &Plan) -> Self {
        let followed = affinity_leaders(snapshot, plan);
        NominationPlan {
            without_nomination: pods_without_nomination(snapshot, plan, &followed),
            affinity_leaders: followed,
        }
    }

    /// What stands behind a pod in [`PLANNED_PODS`].
    fn suffix(&self, world: &ClusterObjects, pod: PodIx) -> String {
        let shape = world.pods[pod.0 as usize].shape;
        let group = group_of(world, pod).map_or_else(String::new, |group| group.to_string());
        let leads = if self.affinity_leaders.contains(&shape) {
            format!("+{}", shape.0)
        } else {
            String::new()
        };
        let no_nomination = if self.without_nomination.contains(&pod) {
            "-"
        } else {
            ""
        };
        match group + &leads + no_nomination {
            none if none.is_empty() => none,
            marks => format!("~{marks}"),
        }
    }
}

/// A NodeClaim to write.
#[derive(Clone, Debug, PartialEq)]
pub struct NewNodeClaim {
    /// Its name: the same for the same round and pods.
    pub name: String,
    /// Its NodePool.
    pub pool: String,
    pub object: Value,
    /// The pods that it is for, `namespace/name`.
    pub pods: Vec<String>,
    /// The cheapest instance type and its price, in words.
    pub summary: String,
    /// Whether its `minValues` were relaxed, as the policy `BestEffort` allows.
    pub min_values_relaxed: bool,
    /// The policy that discourages what is bought.
    pub discouraged_by: Option<Arc<str>>,
}

/// The NodeClaims of a plan, annotated with the round and the nomination data of its pods. A
/// claim whose NodePool is no longer known is left out: the next round plans without it.
pub fn new_node_claims(
    snapshot: &Snapshot,
    plan: &Plan,
    nomination_plan: &NominationPlan,
    pools: &BTreeMap<String, Arc<NodePool>>,
    round: &str,
) -> Vec<NewNodeClaim> {
    let world = &*snapshot.world;
    let given = format!("{:016x}", useless_purchases::given_now(world));
    let numbered = plan.claims.iter().enumerate();
    numbered
        .filter_map(|(number, claim)| {
            let name = world.names.text(world.pools[claim.pool.0 as usize].name);
            Some(one(
                world,
                claim,
                nomination_plan,
                pools.get(name)?,
                &format!("{round}-{number}"),
                (round, &given),
            ))
        })
        .collect()
}

/// Most bytes of a NodeClaim's name: its node may get the same name, which is the value of a label.
const NAME_BYTES: usize = 63;
/// Alphabet of the name suffix: Kubernetes' own, which forms no words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Length of the name suffix. Nine letters: one collision in 1 500 among 100 000 names; the loser
/// is planned again.
const SUFFIX_LETTERS: usize = 9;

/// The name of a claim, derived from its round, its number there and its pods, so that a retry
/// after a lost answer writes the same name.
pub fn claim_name(pool: &str, decided_by: &str, pods: &str) -> String {
    let mut digest = Sha256::new();
    [pool, decided_by, pods].iter().for_each(|part| {
        digest.update(part.as_bytes());
        digest.update([0]);
    });
    let digest = digest.finalize();
    let mut number = digest
        .iter()
        .take(8)
        .fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let mut end = pool.len().min(NAME_BYTES - SUFFIX_LETTERS - 1);
    while !pool.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = format!("{}-", pool[..end].trim_end_matches(['-', '.']));
    for _ in 0..SUFFIX_LETTERS {
        name.push(char::from(
            ALPHABET[(number % ALPHABET.len() as u64) as usize],
        ));
        number /= ALPHABET.len() as u64;
    }
    name
}

/// `namespace/name`.
pub fn pod_name(world: &ClusterObjects, pod: PodIx) -> String {
    let pod = &world.pods[pod.0 as usize];
    format!(
        "{}/{}",
        world.names.text(world.shapes.get(pod.shape).namespace),
        pod.name
    )
}

/// A planned NodeClaim as it is written: labels, annotations, requirements and `minValues`.
fn one(
    world: &ClusterObjects,
    claim: &PlannedClaim,
    nomination_plan: &NominationPlan,
    pool: &NodePool,
    decided_by: &str,
    (round, given): (&str, &str),
) -> NewNodeClaim {
    let pool_name = pool.metadata.name.clone().unwrap_or_default();
    let pods: Vec<String> = claim.pods.iter().map(|&pod| pod_name(world, pod)).collect();
    let planned = planned_pods_text(world, claim, nomination_plan, &pods);
    let name = claim_name(&pool_name, decided_by, &planned);
    let mut annotations = annotations_of(world, claim, pool);
    annotations.insert(PLANNED_PODS.into(), planned);
    annotations.insert(ROUND.into(), round.to_owned());
    annotations.insert(BOUGHT_GIVEN.into(), given.to_owned());
    annotations.insert(
        "karpenter.sh/nodeclaim-min-values-relaxed".into(),
        claim.min_values_relaxed.to_string(),
    );
    let requests = claim.requests.iter().filter(|(_, amount)| *amount > 0);
    let object = node_claim(
        pool,
        &name,
        labels_of(world, claim, pool),
        annotations,
        requirements_of(world, claim, pool),
        json!(quantities(&world.names, requests)),
    );
    NewNodeClaim {
        name,
        pool: pool_name,
        object,
        pods,
        summary: summary(world, claim),
        min_values_relaxed: claim.min_values_relaxed,
        discouraged_by: claim.discouraged_by.clone(),
    }
}

/// What the annotation [`PLANNED_PODS`] says: as many of the claim's pods as there is room for.
fn planned_pods_text(
    world: &ClusterObjects,
    claim: &PlannedClaim,
    nomination_plan: &NominationPlan,
    names: &[String],
) -> String {
    let mut list = String::new();
    for (name, &pod) in names.iter().zip(&claim.pods) {
        if list.len() + name.len() >= PODS_BYTES {
            break;
        }
        if !list.is_empty() {
            list.push(',');
        }
        list.push_str(name);
        list += &nomination_plan.suffix(world, pod);
    }
    list
}

/// Annotations that do not depend on the round.
fn annotations_of(
    world: &ClusterObjects,
    claim: &PlannedClaim,
    pool: &NodePool,
) -> BTreeMap<String, String> {
    let template = pool.spec.template.metadata.annotations.clone();
    let mut annotations = template.unwrap_or_default();
    annotations.extend(overlay_annotations(world, &claim.types));
    annotations.extend(launch_order::launch_order(world, claim));
    annotations
}

/// Requirements that come with the lifecycle of a node, and are asked of no cloud.
fn is_of_lifecycle(key: &str) -> bool {
    [labels::REGISTERED, labels::INITIALIZED].contains(&key)
}

/// Labels: the NodePool's, and custom ones that a requirement gives a single value.
fn labels_of(
    world: &ClusterObjects,
    claim: &PlannedClaim,
    pool: &NodePool,
) -> BTreeMap<String, String> {
    let template = &pool.spec.template;
    let mut own = template.metadata.labels.clone().unwrap_or_default();
    let pool = pool.metadata.name.clone().unwrap_or_default();
    own.insert(labels::NODEPOOL.into(), pool);
    own.extend([class_label(&template.spec.node_class_ref)]);
    for (key, values) in &claim.requirements {
        let key = world.names.text(*key);
        if let ([only], true) = (values.as_slice(), own_values::is_custom(key))
            && !is_of_lifecycle(key)
        {
            own.insert(key.to_owned(), world.names.text(*only).to_owned());
        }
    }
    own
}

/// Requirements: what the claim may become, then what is open, then its instance types.
fn requirements_of(world: &ClusterObjects, claim: &PlannedClaim, pool: &NodePool) -> Vec<Value> {
    let text = |symbol: Symbol| world.names.text(symbol);
    let texts =
        |values: &[Symbol]| -> Vec<String> { values.iter().map(|&v| text(v).to_owned()).collect() };
    let counted = min_values::Counted {
        world,
        claim,
        template: &pool.spec.template.spec.requirements,
    };
    let mut all: Vec<(&str, &str, Vec<String>)> = Vec::new();
    for (key, values) in &claim.requirements {
        // What is required of a label that is given a value stands below.
        if is_of_lifecycle(text(*key)) || claim.open.iter().any(|open| open.key == *key) {
            continue;
        }
        match counted.bounds(text(*key)) {
            Some(bounds) => {
                let bounds = bounds.into_iter();
                all.extend(bounds.map(|(operator, bound)| (text(*key), operator, vec![bound])));
            }
            None => all.push((text(*key), "In", texts(values))),
        }
    }
    for Requirement { key, op, .. } in &claim.open {
        if is_of_lifecycle(text(*key)) {
            continue;
        }
        let (operator, values) = match op {
            Op::In(values) => ("In", texts(values)),
            Op::NotIn(values) => ("NotIn", texts(values)),
            Op::Exists => ("Exists", Vec::new()),
            Op::DoesNotExist => ("DoesNotExist", Vec::new()),
            Op::Gte(bound) => ("Gte", vec![bound.to_string()]),
            Op::Lte(bound) => ("Lte", vec![bound.to_string()]),
        };
        all.push((text(*key), operator, values));
    }
    all.push((labels::INSTANCE_TYPE, "In", types_of(world, claim)));
    let written = all.into_iter().map(|(key, operator, values)| {
        let mut r = json!({"key": key, "operator": operator});
        if !values.is_empty() {
            r["values"] = json!(values);
        }
        if let Some(least) = counted.least(key) {
            r["minValues"] = json!(least);
        }
        r
    });
    written.collect()
}

/// The names of the instance types that a claim may become, cheapest first.
fn types_of(world: &ClusterObjects, claim: &PlannedClaim) -> Vec<String> {
    let name = |&t: &TypeId| world.names.text(world.catalogue.instance_type(t).name);
    claim.types.iter().map(name).map(str::to_owned).collect()
}

/// The cheapest instance type of a claim and its price, in words.
fn summary(world: &ClusterObjects, claim: &PlannedClaim) -> String {
    let cheapest = claim.types.first();
    let cheapest = cheapest.map_or("", |&t| {
        world.names.text(world.catalogue.instance_type(t).name)
    });
    format!("{cheapest} at {:.4} USD/h", claim.price)
}

/// What a claim that may become these types says of NodeOverlays that have changed them.
pub fn overlay_annotations(world: &ClusterObjects, types: &[TypeId]) -> Vec<(String, String)> {
    let of_type = |t: &TypeId| world.catalogue.overlay_of(*t);
    let changed = || types.iter().filter_map(of_type);
    let yes = |key: &str| (key.to_owned(), "true".to_owned());
    let mut all = Vec::new();
    if changed().any(|of| of.price) {
        all.push(yes(labels::PRICE_OVERLAY));
    }
    if changed().any(|of| !of.capacity.is_empty()) {
        all.push(yes(labels::CAPACITY_OVERLAY));
    }
    // A resource that one of the types has not got cannot be counted on.
    let least = |resource: ResourceId| {
        let amount = |t: &TypeId| {
            let added = of_type(t)?.capacity.iter();
            let mut found = added.filter(|(of, _)| *of == resource);
            found.next().map(|(_, amount)| *amount)
        };
        let amounts: Option<Vec<i64>> = types.iter().map(amount).collect();
        amounts?.into_iter().min().map(|amount| (resource, amount))
    };
    let first = types.first().and_then(of_type);
    let resources = first.into_iter().flat_map(|of| &of.capacity);
    let added = quantities(&world.names, resources.filter_map(|(of, _)| least(*of)));
    if !added.is_empty() {
        all.push((overlays::CAPACITY.to_owned(), json!(added).to_string()));
    }
    all
}

/// The label that names the class of nodes.
pub fn class_label(class: &NodeClassRef) -> (String, String) {
    (
        format!("{}/{}", class.group, class.kind.to_lowercase()),
        class.name.clone(),
    )
}

/// Labels that a node is given because requirements ask for them without a single value. Where the
/// label may be absent (`NotIn`), it is given a value if `optional`.
pub fn given_labels(requirements: &[crd::Requirement], optional: bool) -> BTreeMap<String, String> {
    let keys: BTreeSet<&str> = requirements
        .iter()
        .map(|r| labels::stable(&r.key))
        .collect();
    let keys = keys.into_iter().filter(|key| own_values::is_custom(key));
    keys.filter_map(|key| {
        let of_key = requirements
            .iter()
            .filter(|r| labels::stable(&r.key) == key);
        Some((key.to_owned(), given_value(of_key, optional)?))
    })
    .collect()
}

/// The value of one label, by all that is required of it.
fn given_value<'a>(
    requirements: impl Iterator<Item = &'a crd::Requirement>,
    optional: bool,
) -> Option<String> {
    let (mut lo, mut hi, mut present) = (i64::MIN, i64::MAX, optional);
    let (mut named, mut excluded) = (None::<BTreeSet<&str>>, BTreeSet::new());
    for r in requirements {
        let bound = || r.values.first().and_then(|value| value.parse::<i64>().ok());
        let values = || r.values.iter().map(String::as_str);
        present |= r.operator != Operator::NotIn;
        match r.operator {
            Operator::In => {
                let mut both: BTreeSet<&str> = values().collect();
                both.retain(|value| named.as_ref().is_none_or(|named| named.contains(value)));
                named = Some(both);
            }
            Operator::NotIn => excluded.extend(values()),
            Operator::Exists => {}
            Operator::DoesNotExist => return None,
            Operator::Gt => lo = lo.max(bound()?.checked_add(1)?),
            Operator::Gte => lo = lo.max(bound()?),
            Operator::Lt => hi = hi.min(bound()?.checked_sub(1)?),
            Operator::Lte => hi = hi.min(bound()?),
        }
    }
    let is_bounded = lo != i64::MIN || hi != i64::MAX;
    let fits = |value: &&str| {
        let inside = |number: i64| lo <= number && number <= hi;
        !excluded.contains(value) && (!is_bounded || value.parse().is_ok_and(inside))
    };
    match named {
        Some(named) => named.into_iter().find(fits).map(str::to_owned),
        None if present => {
            let excluded = |number: i64| excluded.contains(number.to_string().as_str());
            own_values::largest(lo, hi, excluded).map(|number| number.to_string())
        }
        None => None,
    }
}

/// A NodeClaim of a NodePool as it is written. The hash of the template is added to its annotations.
pub fn node_claim(
    pool: &NodePool,
    name: &str,
    labels: BTreeMap<String, String>,
    mut annotations: BTreeMap<String, String>,
    requirements: Vec<Value>,
    requests: Value,
) -> Value {
    if let Ok(value) = hash::nodepool_hash(pool) {
        annotations.insert(HASH.into(), value);
        annotations.insert(HASH_VERSION.into(), hash::VERSION.into());
    }
    let template = &pool.spec.template.spec;
    let spec = json!({
        "nodeClassRef": template.node_class_ref,
        "requirements": requirements,
        "resources": {"requests": requests},
        "taints": template.taints,
        "startupTaints": template.startup_taints,
        "expireAfter": template.expire_after,
        "terminationGracePeriod": template.termination_grace_period,
    });
    let finalizers = if mutant("no-finalizer") {
        json!([])
    } else {
        json!([FINALIZER])
    };
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": name, "finalizers": finalizers, "labels": labels, "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": pool.metadata.name,
                "uid": pool.metadata.uid, "blockOwnerDeletion": true,
            }],
        },
        "spec": without_null(spec),
    })
}

fn without_null(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, v| !v.is_null() && v.as_array().is_none_or(|a| !a.is_empty()));
    }
    value
}
