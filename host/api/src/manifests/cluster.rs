//! Namespaces, priority classes and node classes.

use longshore_core::model::{NodeClass, NodeClassRef};
use serde::Deserialize;

use super::builder::{ObjectsBuilder, PriorityClass};
use super::diagnostic::{Fault, Path};
use super::object::{condition, labels};
use super::wire::{Condition, List, Meta, only_from_maps};

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireNamespace<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(crate) struct WirePriorityClass<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    value: Option<i32>,
    global_default: Option<bool>,
}

/// Any node class: only its conditions are read.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireNodeClass<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(borrow)]
    status: Option<WireClassStatus<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
struct WireClassStatus<'a> {
    #[serde(borrow)]
    conditions: List<Condition<'a>>,
}

only_from_maps!(
    WireNamespace<'a>,
    WirePriorityClass<'a>,
    WireNodeClass<'a>,
    WireClassStatus<'a>
);

pub(super) fn read_namespace(
    wire: WireNamespace<'_>,
    objects: &mut ObjectsBuilder,
) -> Result<(), Fault> {
    let names = &mut objects.world.names;
    let name = names.intern(wire.metadata.name.as_deref().unwrap_or_default());
    let labels = labels(&wire.metadata.labels, names);
    objects.world.namespaces.push((name, labels));
    Ok(())
}

/// Takes a PriorityClass in; pods get its value at the end, so that it may come after them.
pub(super) fn read_priority_class(
    wire: WirePriorityClass<'_>,
    objects: &mut ObjectsBuilder,
) -> Result<(), Fault> {
    let Some(value) = wire.value else {
        return Err(Path::Root
            .field("value")
            .fault("is missing", "a PriorityClass needs a number"));
    };
    let name = objects
        .world
        .names
        .intern(wire.metadata.name.as_deref().unwrap_or_default());
    let default = wire.global_default == Some(true);
    objects.priority_classes.push(PriorityClass {
        name,
        value,
        default,
    });
    Ok(())
}

/// Takes a node class of any kind in.
pub(super) fn read_node_class(
    group: &str,
    kind: &str,
    wire: WireNodeClass<'_>,
    objects: &mut ObjectsBuilder,
) -> Result<(), Fault> {
    let names = &mut objects.world.names;
    let name = names.intern(wire.metadata.name.as_deref().unwrap_or_default());
    let id = NodeClassRef {
        group: names.intern(group),
        kind: names.intern(kind),
        name,
    };
    let status = wire.status.unwrap_or_default();
    let ready = condition(&status.conditions, "Ready");
    objects.world.classes.push(NodeClass {
        id,
        ready,
        deleting: wire.metadata.deletion_timestamp.is_some(),
        generation: wire.metadata.generation.unwrap_or(0),
    });
    Ok(())
}
