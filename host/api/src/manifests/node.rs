//! Nodes and NodeClaims.

use longshore_core::model::conditions::{DRIFTED, INITIALIZED};
use longshore_core::model::{
    Labels, NodeClaim, NodeClassRef, NodeRecord, Resources, Symbols, Taint, TaintEffect, fields,
};
use serde::Deserialize;

use super::builder::ObjectsBuilder;
use super::diagnostic::{Fault, Path};
use super::nodepool::grace;
use super::object::{
    WireClassRef, WireTaint, amount, annotations, condition, created, labels, resource, symbol,
    taints,
};
use super::requirement::{Of, WireRequirement, requirement};
use super::wire::{Amount, Condition, List, Map, Meta, Text, WireClaimResources, only_from_maps};
use crate::labels as label;
use crate::time;

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireNode<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Option<WireNodeSpec<'a>>,
    #[serde(borrow)]
    status: Option<WireNodeStatus<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
struct WireNodeSpec<'a> {
    #[serde(borrow, rename = "providerID")]
    provider_id: Option<Text<'a>>,
    #[serde(borrow)]
    taints: List<WireTaint<'a>>,
    unschedulable: Option<bool>,
}

/// The status of a Node; of a NodeClaim, which has the same fields and two names more.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
struct WireNodeStatus<'a> {
    #[serde(borrow)]
    capacity: Map<'a, Amount<'a>>,
    #[serde(borrow)]
    allocatable: Map<'a, Amount<'a>>,
    #[serde(borrow)]
    conditions: List<Condition<'a>>,
    #[serde(borrow, rename = "providerID")]
    provider_id: Option<Text<'a>>,
    #[serde(borrow, rename = "nodeName")]
    node_name: Option<Text<'a>>,
    #[serde(borrow, rename = "declaredFeatures")]
    declared_features: List<Text<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireNodeClaim<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Option<WireNodeClaimSpec<'a>>,
    #[serde(borrow)]
    status: Option<WireNodeStatus<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
struct WireNodeClaimSpec<'a> {
    #[serde(borrow)]
    requirements: List<WireRequirement<'a>>,
    #[serde(borrow)]
    taints: List<WireTaint<'a>>,
    #[serde(borrow)]
    startup_taints: List<WireTaint<'a>>,
    #[serde(borrow)]
    node_class_ref: WireClassRef<'a>,
    #[serde(borrow)]
    termination_grace_period: Option<Text<'a>>,
    #[serde(borrow)]
    resources: Option<WireClaimResources<'a>>,
}

only_from_maps!(
    WireNode<'a>,
    WireNodeSpec<'a>,
    WireNodeStatus<'a>,
    WireNodeClaim<'a>,
    WireNodeClaimSpec<'a>
);

/// The taint that follows `spec.unschedulable`.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// A part of an object that counts all the same where it cannot be read: then it is what `instead`
/// says.
fn or<T>(part: Result<T, Fault>, notes: &mut Vec<Fault>, instead: impl FnOnce() -> T) -> T {
    part.unwrap_or_else(|fault| {
        notes.push(fault);
        instead()
    })
}

/// The amounts of a resource list that can be read.
fn known_resources(
    map: &Map<'_, Amount<'_>>,
    at: Path<'_>,
    names: &mut Symbols,
    notes: &mut Vec<Fault>,
) -> Resources {
    let mut all = Resources::default();
    for (name, value) in map.iter() {
        let value = or(amount(name, value, at.key(name)), notes, || 0);
        all.set(resource(name, names), value);
    }
    all
}

/// What stands for taints that cannot be read: no pod tolerates it.
fn unreadable_taints(names: &mut Symbols) -> Vec<Taint> {
    vec![Taint {
        key: names.intern(label::UNREADABLE),
        value: names.intern(""),
        effect: TaintEffect::NoSchedule,
    }]
}

/// Annotations of an object that is not disrupted because something of it cannot be read, with why.
fn kept(annotations: &Labels, why: &Fault, names: &mut Symbols) -> Labels {
    let forbids = (names.intern(label::DO_NOT_DISRUPT), names.intern("true"));
    let unreadable = (
        names.intern(label::UNREADABLE),
        names.intern(&why.to_string()),
    );
    Labels::new(annotations.iter().chain([forbids, unreadable]).collect())
}

/// Takes a Node in. What cannot be read of it is taken for nothing, and it is not disrupted: if it
/// were left out, others would be bought in its place.
pub(super) fn read(wire: WireNode<'_>, objects: &mut ObjectsBuilder) -> Result<(), Fault> {
    let (names, notes) = (&mut objects.world.names, &mut objects.notes);
    let meta = &wire.metadata;
    let spec = wire.spec.unwrap_or_default();
    let status = wire.status.unwrap_or_default();
    let at_status = Path::Root.field("status");
    let tainted = taints(
        &spec.taints,
        Path::Root.field("spec").field("taints"),
        names,
    );
    let taints = or(tainted, notes, || unreadable_taints(names));
    let unschedulable = spec.unschedulable.unwrap_or(false);
    let cordon = unschedulable.then(|| Taint {
        key: names.intern(UNSCHEDULABLE),
        value: names.intern(""),
        effect: TaintEffect::NoSchedule,
    });
    let is_written = |cordon: &Taint| {
        let same = |t: &Taint| (t.key, t.effect) == (cordon.key, cordon.effect);
        taints.iter().any(same)
    };
    let cordon = cordon.filter(|cordon| !is_written(cordon));
    let known = |feature: &&&str| {
        let declares = |text: &Text<'_>| Some(&**text) == fields::feature(feature);
        status.declared_features.iter().any(declares)
    };
    let features = fields::FEATURES.iter().filter(known);
    let features = features.map(|feature| names.intern(feature)).collect();
    let mut node = NodeRecord {
        features,
        name: names.intern(meta.name.as_deref().unwrap_or_default()),
        labels: labels(&meta.labels, names),
        annotations: annotations(meta, names),
        cordon,
        taints,
        provider_id: symbol(&spec.provider_id, names),
        unschedulable,
        capacity: known_resources(&status.capacity, at_status.field("capacity"), names, notes),
        allocatable: known_resources(
            &status.allocatable,
            at_status.field("allocatable"),
            names,
            notes,
        ),
        ready: condition(&status.conditions, "Ready") == Some(true),
        deleting: meta.deletion_timestamp.is_some(),
        created: or(created(meta), notes, || 0),
    };
    if let Some(first) = notes.first() {
        node.annotations = kept(&node.annotations, first, names);
    }
    objects.world.nodes.push(node);
    Ok(())
}

/// Takes a NodeClaim in. What cannot be read of it is taken for nothing, as with a Node.
pub(super) fn read_claim(
    wire: WireNodeClaim<'_>,
    objects: &mut ObjectsBuilder,
) -> Result<(), Fault> {
    let (names, notes) = (&mut objects.world.names, &mut objects.notes);
    let meta = &wire.metadata;
    let spec = wire.spec.unwrap_or_default();
    let status = wire.status.unwrap_or_default();
    let (at, at_status) = (Path::Root.field("spec"), Path::Root.field("status"));
    let name = meta.name.as_deref().unwrap_or_default();
    let wanted = spec.requirements.iter().enumerate();
    let at_wanted = at.field("requirements");
    let wanted = wanted.filter_map(|(index, wire)| {
        let read = requirement(wire, Of::NodeClaim, at_wanted.index(index), names);
        or(read.map(Some), notes, || None)
    });
    let requirements = wanted.collect();
    let tainted = taints(&spec.taints, at.field("taints"), names);
    let startup = taints(&spec.startup_taints, at.field("startupTaints"), names);
    let grace = grace(
        &spec.termination_grace_period,
        at.field("terminationGracePeriod"),
    );
    let since = |kind: &str| {
        let mut conditions = status.conditions.iter();
        let is_true = conditions.find(|c| (&*c.kind, &*c.status) == (kind, "True"));
        is_true.and_then(|c| time::timestamp(c.since.as_deref()?))
    };
    let mut claim = NodeClaim {
        name: names.intern(name),
        uid: match meta.uid.as_deref() {
            Some(uid) if !uid.is_empty() => names.intern(uid),
            _ => names.intern(&format!("NodeClaim/{name}")),
        },
        labels: labels(&meta.labels, names),
        annotations: annotations(meta, names),
        requirements,
        taints: or(tainted, notes, || unreadable_taints(names)),
        startup_taints: or(startup, notes, Vec::new),
        class: NodeClassRef {
            group: names.intern(&spec.node_class_ref.group),
            kind: names.intern(&spec.node_class_ref.kind),
            name: names.intern(&spec.node_class_ref.name),
        },
        termination_grace: or(grace, notes, || None),
        requests: match &spec.resources {
            Some(wire) => {
                known_resources(&wire.requests, at.field("resources.requests"), names, notes)
            }
            None => Default::default(),
        },
        provider_id: symbol(&status.provider_id, names),
        node_name: symbol(&status.node_name, names),
        capacity: known_resources(&status.capacity, at_status.field("capacity"), names, notes),
        allocatable: known_resources(
            &status.allocatable,
            at_status.field("allocatable"),
            names,
            notes,
        ),
        conditions: status
            .conditions
            .iter()
            .filter(|c| &*c.status == "True")
            .map(|c| names.intern(&c.kind))
            .collect(),
        initialized: since(INITIALIZED),
        drifted: since(DRIFTED),
        deleting: meta.deletion_timestamp.is_some(),
        created: or(created(meta), notes, || 0),
    };
    if let Some(first) = notes.first() {
        claim.annotations = kept(&claim.annotations, first, names);
    }
    objects.world.claims.push(claim);
    Ok(())
}
