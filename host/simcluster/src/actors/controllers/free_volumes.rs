//! Volumes that are there before a claim asks for one: each serves one claim.
//!
//! A claim takes the smallest volume of its class that is large enough. A volume that names a claim
//! in `spec.claimRef` is for that claim alone, whether the claim knows of it or not.

use std::sync::Arc;

use longshore_api::quantity::Quantity;
use serde_json::{Value, json};

use crate::actors::context::ActorContext;
use crate::actors::selector;
use crate::actors::view::View;
use crate::fields;
use crate::object::{Key, Subresource};
use crate::server::resources;

/// The provisioner of classes whose volumes people make.
const BY_HAND: &str = "kubernetes.io/no-provisioner";

/// A claim that is not bound yet.
#[derive(Clone)]
pub struct Unbound {
    pub key: Key,
    pub claim: Arc<Value>,
}

/// Which volume that is there each of some claims gets on a node; none for a claim whose volume is
/// made. Nothing if a claim finds no volume there.
pub fn on_node(view: &View, claims: &[Unbound], node: &Value) -> Option<Vec<Option<Key>>> {
    let mut taken: Vec<Key> = Vec::new();
    let mut choose = |unbound: &Unbound| {
        let found = first(view, unbound, Some(node), &taken);
        taken.extend(found.clone());
        match found {
            Some(volume) => Some(Some(volume)),
            None => can_be_made(view, &unbound.claim, node).then_some(None),
        }
    };
    claims.iter().map(&mut choose).collect()
}

/// The volume that a claim gets of those that are there: the one that names it, else the smallest
/// free one. With a node, one that the node can use.
pub fn first(
    view: &View,
    Unbound { key, claim }: &Unbound,
    node: Option<&Value>,
    taken: &[Key],
) -> Option<Key> {
    let reaches = |volume: &Value| node.is_none_or(|node| admits(volume, node));
    let named = |(_, volume): &(Key, &Arc<Value>)| is_for(volume, key, claim);
    if let Some((found, volume)) = view.all(resources::PERSISTENT_VOLUME).find(named) {
        return reaches(volume).then_some(found);
    }
    let all = view.all(resources::PERSISTENT_VOLUME);
    let fits = all.filter(|(of, volume)| {
        is_free(volume) && serves(volume, claim) && reaches(volume) && !taken.contains(of)
    });
    let smallest = fits.min_by_key(|(key, volume)| (size(volume, "/spec/capacity"), key.clone()));
    smallest.map(|(key, _)| key)
}

/// Writes into a volume which claim it is for. No other claim gets it then.
pub fn reserve(ctx: &mut ActorContext, volume: &Key, Unbound { key, claim }: &Unbound) {
    let of = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": &*key.namespace, "name": &*key.name, "uid": fields::uid(claim)});
    ctx.update(volume, Subresource::Object, |volume| {
        fields::map_at(volume, "spec")["claimRef"] = of.clone();
    });
}

/// Whether a volume names no claim.
pub fn is_free(volume: &Value) -> bool {
    !volume["spec"]["claimRef"].is_object() && !fields::deleting(volume)
}

/// Whether a volume names a claim.
pub fn is_for(volume: &Value, key: &Key, claim: &Value) -> bool {
    let of = |field: &str| fields::text(&volume["spec"]["claimRef"], field);
    (of("/namespace"), of("/name")) == (&*key.namespace, &*key.name)
        && ["", fields::uid(claim)].contains(&of("/uid"))
}

/// Whether volumes of a claim's class are made, and could be on a node.
fn can_be_made(view: &View, claim: &Value, node: &Value) -> bool {
    let class = fields::text(claim, "/spec/storageClassName");
    let class = view.get(&fields::key(resources::STORAGE_CLASS, "", class));
    class.is_some_and(|class| is_made(class) && is_allowed(class, node))
}

/// Whether a class has its volumes made.
pub fn is_made(class: &Value) -> bool {
    fields::text(class, "/provisioner") != BY_HAND
}

fn is_allowed(class: &Value, node: &Value) -> bool {
    let topologies = fields::items(class, "/allowedTopologies");
    let term = |topology: &Value| {
        let labels = fields::items(topology, "/matchLabelExpressions").iter();
        let expression =
            |e: &Value| json!({"key": e["key"], "operator": "In", "values": e["values"]});
        json!({"matchExpressions": labels.map(expression).collect::<Vec<_>>()})
    };
    let terms: Vec<Value> = topologies.iter().map(term).collect();
    terms.is_empty() || selector::admits(&requires(&json!({"nodeSelectorTerms": terms})), node)
}

/// Whether a node can use a volume.
pub fn admits(volume: &Value, node: &Value) -> bool {
    let required = &volume["spec"]["nodeAffinity"]["required"];
    !required.is_object() || selector::admits(&requires(required), node)
}

/// A pod's spec that requires this of nodes.
fn requires(required: &Value) -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
}

/// Whether a volume is what a claim asks for.
fn serves(volume: &Value, claim: &Value) -> bool {
    let class = |object: &Value| fields::text(object, "/spec/storageClassName").to_owned();
    let has = |mode: &Value| fields::items(volume, "/spec/accessModes").contains(mode);
    class(volume) == class(claim)
        && fields::items(claim, "/spec/accessModes").iter().all(has)
        && size(volume, "/spec/capacity") >= size(claim, "/spec/resources/requests")
}

fn size(object: &Value, at: &str) -> i64 {
    let amount = fields::text(object, &format!("{at}/storage"));
    Quantity::parse(amount)
        .and_then(Quantity::whole_saturating)
        .unwrap_or(0)
}
