//! Owners, selectors and guards of pods: DaemonSets, other workloads, Services,
//! PodDisruptionBudgets.

use std::sync::Arc;

use longshore_core::model::{DaemonSet, LabelSelector, PodDisruptionBudget, Symbols, Workload};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::builder::ObjectsBuilder;
use super::diagnostic::{Fault, Path};
use super::pod::{WireTemplate, api_rules, template};
use super::selector::{WireSelector, map_selector, selector};
use super::wire::{Map, Meta, Text, only_from_maps};

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireDaemonSet<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Option<WireDaemonSpec<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
struct WireDaemonSpec<'a> {
    #[serde(borrow)]
    template: WireTemplate<'a>,
}

/// A workload with a label selector.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireWorkload<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Option<WireWorkloadSpec<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
struct WireWorkloadSpec<'a> {
    #[serde(borrow)]
    selector: Option<WireSelector<'a>>,
}

/// A Service or ReplicationController, whose selector is a plain map.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireMapped<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Option<WireMappedSpec<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
struct WireMappedSpec<'a> {
    #[serde(borrow)]
    selector: Map<'a, Option<Text<'a>>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireBudget<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Option<WireBudgetSpec<'a>>,
    status: Option<WireBudgetStatus>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
struct WireBudgetSpec<'a> {
    #[serde(borrow)]
    selector: Option<WireSelector<'a>>,
    #[serde(borrow)]
    max_unavailable: Option<&'a RawValue>,
    #[serde(borrow)]
    min_available: Option<&'a RawValue>,
    #[serde(borrow)]
    unhealthy_pod_eviction_policy: Option<Text<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
struct WireBudgetStatus {
    disruptions_allowed: i32,
}

only_from_maps!(
    WireDaemonSet<'a>,
    WireDaemonSpec<'a>,
    WireWorkload<'a>,
    WireWorkloadSpec<'a>,
    WireMapped<'a>,
    WireMappedSpec<'a>,
    WireBudget<'a>,
    WireBudgetSpec<'a>,
    WireBudgetStatus
);

/// What the API server refuses of the pods of a DaemonSet that it has not seen.
pub(super) fn check_daemon(wire: &WireDaemonSet<'_>) -> Result<(), Fault> {
    let spec = wire.spec.as_ref();
    spec.map_or(Ok(()), |spec| api_rules::check_template(&spec.template))
}

/// Takes a DaemonSet in.
pub(super) fn read_daemon(
    wire: WireDaemonSet<'_>,
    objects: &mut ObjectsBuilder,
) -> Result<(), Fault> {
    let namespace = objects.namespace(&wire.metadata);
    let spec = wire.spec.unwrap_or_default();
    let names = &mut objects.world.names;
    let read = template(&spec.template, namespace, names)?;
    let daemon = DaemonSet {
        namespace,
        name: names.intern(wire.metadata.name.as_deref().unwrap_or_default()),
        template: objects.world.shapes.intern(read.shape),
        resource_claims: read.resource_claims,
    };
    if let Some(class) = read.class {
        objects
            .daemons_by_class
            .push((objects.world.daemons.len(), class));
    }
    objects.world.daemons.push(daemon);
    objects.daemon_needs.push(Arc::new(read.needs));
    Ok(())
}

/// Takes a ReplicaSet or StatefulSet in.
pub(super) fn read_workload(
    kind: &str,
    wire: WireWorkload<'_>,
    objects: &mut ObjectsBuilder,
) -> Result<(), Fault> {
    let spec = wire.spec.unwrap_or_default();
    let at = Path::Root.field("spec");
    take_in(kind, &wire.metadata, objects, |names| {
        selector(spec.selector.as_ref(), at.field("selector"), names)
    })
}

/// Takes a Service or ReplicationController in.
pub(super) fn read_mapped(
    kind: &str,
    wire: WireMapped<'_>,
    objects: &mut ObjectsBuilder,
) -> Result<(), Fault> {
    let spec = wire.spec.unwrap_or_default();
    take_in(kind, &wire.metadata, objects, |names| {
        Ok(map_selector(&spec.selector, names))
    })
}

/// Takes an object in that selects pods.
fn take_in(
    kind: &str,
    meta: &Meta<'_>,
    objects: &mut ObjectsBuilder,
    selector: impl FnOnce(&mut Symbols) -> Result<LabelSelector, Fault>,
) -> Result<(), Fault> {
    let namespace = objects.namespace(meta);
    let names = &mut objects.world.names;
    let workload = Workload {
        kind: names.intern(kind),
        namespace,
        name: names.intern(meta.name.as_deref().unwrap_or_default()),
        selector: selector(names)?,
    };
    objects.world.workloads.push(workload);
    Ok(())
}

/// Takes a PodDisruptionBudget in that cannot be read: it protects every pod of its namespace.
pub(super) fn unreadable_budget(meta: &Meta<'_>, objects: &mut ObjectsBuilder) {
    let namespace = objects.namespace(meta);
    let name = meta.name.as_deref().unwrap_or_default();
    objects.world.budgets.push(PodDisruptionBudget {
        namespace,
        name: objects.world.names.intern(name),
        selector: LabelSelector(Some(Vec::new())),
        allowed: 0,
        blocks_always: true,
        evicts_unhealthy: false,
    });
}

/// Takes a PodDisruptionBudget in.
pub(super) fn read_budget(wire: WireBudget<'_>, objects: &mut ObjectsBuilder) -> Result<(), Fault> {
    let namespace = objects.namespace(&wire.metadata);
    let spec = wire.spec.unwrap_or_default();
    let names = &mut objects.world.names;
    let at = Path::Root.field("spec");
    if spec.max_unavailable.is_some() && spec.min_available.is_some() {
        return Err(at.fault("has both minAvailable and maxUnavailable", "remove one"));
    }
    let text =
        |value: Option<&RawValue>| value.map(|value| value.get().trim_matches('"').to_owned());
    for (field, value) in [
        ("maxUnavailable", spec.max_unavailable),
        ("minAvailable", spec.min_available),
    ] {
        let Some(text) = text(value) else { continue };
        let digits = text.strip_suffix('%').unwrap_or(&text);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            let what = format!(
                "{} is neither a count nor a percentage",
                super::diagnostic::quoted(&text)
            );
            return Err(at.field(field).fault(what, "write it like 1 or \"10%\""));
        }
    }
    let max = text(spec.max_unavailable);
    let min = text(spec.min_available);
    let budget = PodDisruptionBudget {
        namespace,
        name: names.intern(wire.metadata.name.as_deref().unwrap_or_default()),
        selector: selector(spec.selector.as_ref(), at.field("selector"), names)?,
        allowed: wire.status.unwrap_or_default().disruptions_allowed.max(0),
        blocks_always: matches!(max.as_deref(), Some("0" | "0%")) || min.as_deref() == Some("100%"),
        evicts_unhealthy: spec.unhealthy_pod_eviction_policy.as_deref() == Some("AlwaysAllow"),
    };
    objects.world.budgets.push(budget);
    Ok(())
}
