//! Nodes and NodeClaims.

use longshore_core::model::{NodeClaim, NodeClassRef, NodeRecord};
use serde::Deserialize;

use super::ObjectsBuilder;
use super::diagnostic::{Fault, Path};
use super::nodepool::grace;
use super::object::{
    WireTaint, annotations, condition, created, labels, resources, symbol, taints,
};
use super::requirement::{Of, WireRequirement, requirements};
use super::wire::{Amount, Condition, List, Map, Meta, Text, only_from_maps};
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

/// `nodeClassRef` as written.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireClassRef<'a> {
    #[serde(borrow)]
    pub group: Text<'a>,
    #[serde(borrow)]
    pub kind: Text<'a>,
    #[serde(borrow)]
    pub name: Text<'a>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
struct WireClaimResources<'a> {
    #[serde(borrow)]
    requests: Map<'a, Amount<'a>>,
}

only_from_maps!(
    WireNode<'a>,
    WireNodeSpec<'a>,
    WireNodeStatus<'a>,
    WireNodeClaim<'a>,
    WireNodeClaimSpec<'a>,
    WireClassRef<'a>,
    WireClaimResources<'a>
);

/// Takes a Node in.
pub(super) fn read(wire: WireNode<'_>, objects: &mut ObjectsBuilder) -> Result<(), Fault> {
    let names = &mut objects.world.names;
    let meta = &wire.metadata;
    let spec = wire.spec.unwrap_or_default();
    let status = wire.status.unwrap_or_default();
    let at_status = Path::Root.field("status");
    let node = NodeRecord {
        name: names.intern(meta.name.as_deref().unwrap_or_default()),
        labels: labels(&meta.labels, names),
        annotations: annotations(meta, names),
        taints: taints(
            &spec.taints,
            Path::Root.field("spec").field("taints"),
            names,
        )?,
        provider_id: symbol(&spec.provider_id, names),
        unschedulable: spec.unschedulable.unwrap_or(false),
        capacity: resources(&status.capacity, at_status.field("capacity"), names)?,
        allocatable: resources(&status.allocatable, at_status.field("allocatable"), names)?,
        ready: condition(&status.conditions, "Ready") == Some(true),
        deleting: meta.deletion_timestamp.is_some(),
        created: created(meta)?,
    };
    objects.world.nodes.push(node);
    Ok(())
}

/// Takes a NodeClaim in.
pub(super) fn read_claim(
    wire: WireNodeClaim<'_>,
    objects: &mut ObjectsBuilder,
) -> Result<(), Fault> {
    let names = &mut objects.world.names;
    let meta = &wire.metadata;
    let spec = wire.spec.unwrap_or_default();
    let status = wire.status.unwrap_or_default();
    let (at, at_status) = (Path::Root.field("spec"), Path::Root.field("status"));
    let name = meta.name.as_deref().unwrap_or_default();
    let claim = NodeClaim {
        name: names.intern(name),
        uid: match meta.uid.as_deref() {
            Some(uid) if !uid.is_empty() => names.intern(uid),
            _ => names.intern(&format!("NodeClaim/{name}")),
        },
        labels: labels(&meta.labels, names),
        annotations: annotations(meta, names),
        requirements: requirements(
            &spec.requirements,
            Of::NodeClaim,
            at.field("requirements"),
            names,
        )?,
        taints: taints(&spec.taints, at.field("taints"), names)?,
        startup_taints: taints(&spec.startup_taints, at.field("startupTaints"), names)?,
        class: NodeClassRef {
            group: names.intern(&spec.node_class_ref.group),
            kind: names.intern(&spec.node_class_ref.kind),
            name: names.intern(&spec.node_class_ref.name),
        },
        termination_grace: grace(
            &spec.termination_grace_period,
            at.field("terminationGracePeriod"),
        )?,
        requests: match &spec.resources {
            Some(wire) => resources(&wire.requests, at.field("resources.requests"), names)?,
            None => Default::default(),
        },
        provider_id: symbol(&status.provider_id, names),
        node_name: symbol(&status.node_name, names),
        capacity: resources(&status.capacity, at_status.field("capacity"), names)?,
        allocatable: resources(&status.allocatable, at_status.field("allocatable"), names)?,
        conditions: status
            .conditions
            .iter()
            .filter(|c| &*c.status == "True")
            .map(|c| names.intern(&c.kind))
            .collect(),
        drifted: status
            .conditions
            .iter()
            .find(|c| (&*c.kind, &*c.status) == ("Drifted", "True"))
            .and_then(|c| time::timestamp(c.since.as_deref()?)),
        deleting: meta.deletion_timestamp.is_some(),
        created: created(meta)?,
    };
    objects.world.claims.push(claim);
    Ok(())
}
