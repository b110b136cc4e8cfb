//! NodePools: read and validated by every rule of their schema and of Karpenter's own validation.

mod disruption;

use longshore_core::model::disruptions::{DISRUPTIONS, Disruptions};
use longshore_core::model::purchases::{self, Purchases, Unjoined, Useless};
use longshore_core::model::{
    Labels, MoveCost, NodeClassRef, NodePool, Op, Requirement, Symbols, Taint, TaintEffect,
};
use serde::Deserialize;

use super::builder::ObjectsBuilder;
use super::diagnostic::{Fault, Path, quoted};
use super::object::{WireClassRef, WireTaint, amount, condition, resource, resources, taints};
use super::requirement::{Of, WireRequirement, requirements};
use super::wire::{Amount, Condition, List, Map, Meta, Text, only_from_maps};
use crate::failures::{FAILURES, HASH, Recorded};
use crate::labels::{self, capacity_type};
use crate::quantity::Quantity;
use crate::time::plain_duration;

use self::disruption::{
    MONTH, WireBudget, WireDisruption, budgets, consolidation, unreadable_schedules,
};

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireNodePool<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Option<WireSpec<'a>>,
    #[serde(borrow)]
    status: Option<WireStatus<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
struct WireSpec<'a> {
    #[serde(borrow)]
    template: WireTemplate<'a>,
    #[serde(borrow)]
    disruption: Option<WireDisruption<'a>>,
    #[serde(borrow)]
    limits: Map<'a, Amount<'a>>,
    weight: Option<i64>,
    replicas: Option<i64>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
struct WireTemplate<'a> {
    #[serde(borrow)]
    metadata: Option<WireTemplateMeta<'a>>,
    #[serde(borrow)]
    spec: Option<WireTemplateSpec<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
struct WireTemplateMeta<'a> {
    #[serde(borrow)]
    labels: Map<'a, Text<'a>>,
    #[serde(borrow)]
    annotations: Map<'a, Text<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
struct WireTemplateSpec<'a> {
    #[serde(borrow)]
    requirements: List<WireRequirement<'a>>,
    #[serde(borrow)]
    taints: List<WireTaint<'a>>,
    #[serde(borrow)]
    startup_taints: List<WireTaint<'a>>,
    #[serde(borrow)]
    node_class_ref: Option<WireClassRef<'a>>,
    #[serde(borrow)]
    termination_grace_period: Option<Text<'a>>,
    #[serde(borrow)]
    expire_after: Option<Text<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
struct WireStatus<'a> {
    #[serde(borrow)]
    resources: Map<'a, Amount<'a>>,
    #[serde(borrow)]
    conditions: List<Condition<'a>>,
}

only_from_maps!(
    WireNodePool<'a>,
    WireSpec<'a>,
    WireTemplate<'a>,
    WireTemplateMeta<'a>,
    WireTemplateSpec<'a>,
    WireDisruption<'a>,
    WireBudget<'a>,
    WireStatus<'a>
);

/// What a label value takes: `karpenter.sh/nodepool` is one.
const LONGEST_NAME: usize = 63;

/// Takes a NodePool in.
pub(super) fn read(wire: WireNodePool<'_>, objects: &mut ObjectsBuilder) -> Result<(), Fault> {
    let move_cost = move_cost(&wire.metadata);
    let names = &mut objects.world.names;
    let at = Path::Root.field("spec");
    let Some(spec) = &wire.spec else {
        return Err(at.fault("is missing", "a NodePool needs spec.template.spec"));
    };
    let status = wire.status.unwrap_or_default();
    let at_template = at.field("template");
    let at_node = at_template.field("spec");
    let Some(node) = &spec.template.spec else {
        return Err(at_node.fault(
            "is missing",
            "a NodePool needs requirements and a nodeClassRef there",
        ));
    };
    let taints_of = |list: &[WireTaint<'_>], field: &str, names: &mut Symbols| {
        taints(list, at_node.field(field), names)
    };
    let meta = &wire.metadata;
    let disruption = spec.disruption.as_ref();
    let at_disruption = at.field("disruption");
    let (limits, node_limit) = limits(spec, at, names)?;
    let name = meta.name.as_deref().unwrap_or_default();
    if name.len() > LONGEST_NAME {
        return Err(Path::Root.field("metadata.name").fault(
            format!("has {} characters", name.len()),
            "nodes carry it as a label value, which takes 63",
        ));
    }
    let pool = NodePool {
        name: names.intern(name),
        uid: match meta.uid.as_deref() {
            Some(uid) if !uid.is_empty() => names.intern(uid),
            _ => names.intern(&format!("NodePool/{name}")),
        },
        labels: template_labels(&spec.template, at_template.field("metadata.labels"), names)?,
        annotations: template_annotations(&spec.template, names),
        requirements: pool_requirements(node, at_node.field("requirements"), names)?,
        taints: taints_of(&node.taints, "taints", names)?,
        startup_taints: taints_of(&node.startup_taints, "startupTaints", names)?,
        class: class(node, at_node.field("nodeClassRef"), names)?,
        expire_after: lifetime(
            &node.expire_after,
            Some(MONTH),
            at_node.field("expireAfter"),
        )?,
        termination_grace: grace(
            &node.termination_grace_period,
            at_node.field("terminationGracePeriod"),
        )?,
        limits,
        node_limit,
        weight: weight(spec, at)?,
        replicas: replicas(spec, at)?,
        consolidate_after: match disruption {
            Some(d) => lifetime(
                &d.consolidate_after,
                Some(0),
                at_disruption.field("consolidateAfter"),
            )?,
            None => Some(0),
        },
        consolidation: consolidation(disruption, at_disruption.field("consolidationPolicy"))?,
        budgets: budgets(disruption, at_disruption.field("budgets"), names)?,
        move_cost: move_cost.as_ref().ok().copied().flatten(),
        failures: meta
            .annotation(FAILURES)
            .and_then(|text| Recorded::read(text, meta.annotation(HASH).unwrap_or_default())),
        disruptions: Disruptions::read(meta.annotation(DISRUPTIONS).unwrap_or_default()),
        ready: condition(&status.conditions, "Ready"),
        deleting: meta.deletion_timestamp.is_some(),
        generation: meta.generation.unwrap_or(0),
        purchases: purchases(meta),
        usage: resources(
            &status.resources,
            Path::Root.field("status").field("resources"),
            names,
        )?,
    };
    taints_differ(&pool.taints, &pool.startup_taints, at_node, names)?;
    objects.notes.extend(unreadable_schedules(&pool.budgets));
    let stays = lasting_registration_taint(&pool, at_node, names);
    objects.world.pools.push(pool);
    objects.notes.extend(move_cost.err());
    objects.notes.extend(stays);
    Ok(())
}

/// What annotations remember of purchases that did not help.
fn purchases(meta: &Meta<'_>) -> Purchases {
    let useless = meta.annotation(purchases::USELESS).map(Useless::read);
    Purchases {
        useless: useless.unwrap_or_default(),
        unjoined: meta
            .annotation(purchases::UNJOINED)
            .and_then(Unjoined::read),
    }
}

/// What the annotation says. A NodePool is of use without it, so a fault does not concern the rest.
fn move_cost(meta: &Meta<'_>) -> Result<Option<MoveCost>, Fault> {
    let Some(text) = meta.annotation(labels::MOVE_COST) else {
        return Ok(None);
    };
    match MoveCost::read(text) {
        Some(cost) => Ok(Some(cost)),
        None => Err(Path::Root
            .field("metadata.annotations")
            .key(labels::MOVE_COST)
            .fault(
                format!(
                    "{} is neither a share nor an amount of USD per hour",
                    quoted(text)
                ),
                "write it as \"10%\" or \"0.002\"; until then the default counts",
            )),
    }
}

fn template_labels(
    template: &WireTemplate<'_>,
    at: Path<'_>,
    names: &mut Symbols,
) -> Result<Labels, Fault> {
    let Some(meta) = &template.metadata else {
        return Ok(Labels::default());
    };
    if meta.labels.len() > 100 {
        return Err(at.fault(
            format!("has {} labels", meta.labels.len()),
            "a NodePool sets at most 100",
        ));
    }
    let mut pairs = Vec::new();
    for (key, value) in meta.labels.iter() {
        let at = at.key(key);
        label_key(key, at)?;
        if !labels::is_label_value(value) {
            return Err(at.fault(
                format!("{} is not a label value", quoted(value)),
                LABEL_VALUE,
            ));
        }
        pairs.push((names.intern(labels::stable(key)), names.intern(value)));
    }
    Ok(Labels::new(pairs))
}

const LABEL_VALUE: &str =
    "at most 63 letters, digits, `-`, `_` and `.`, first and last a letter or digit";

fn label_key(key: &str, at: Path<'_>) -> Result<(), Fault> {
    if !labels::is_label_key(key) {
        return Err(at.fault(
            format!("{} is not a label key", quoted(key)),
            "write it like team or example.com/team",
        ));
    }
    match labels::restricted(key) {
        Some(why) => Err(at.fault(
            format!("label {} is restricted: {why}", quoted(key)),
            "use another label",
        )),
        None => Ok(()),
    }
}

fn template_annotations(template: &WireTemplate<'_>, names: &mut Symbols) -> Labels {
    let Some(meta) = &template.metadata else {
        return Labels::default();
    };
    Labels::new(
        meta.annotations
            .iter()
            .map(|(key, value)| (names.intern(key), names.intern(value)))
            .collect(),
    )
}

fn pool_requirements(
    node: &WireTemplateSpec<'_>,
    at: Path<'_>,
    names: &mut Symbols,
) -> Result<Vec<Requirement>, Fault> {
    if node.requirements.len() > 100 {
        return Err(at.fault(
            format!("has {} entries", node.requirements.len()),
            "a NodePool takes at most 100",
        ));
    }
    for (index, wire) in node.requirements.iter().enumerate() {
        let at = at.index(index);
        if !wire.key.is_empty() {
            label_key(labels::stable(&wire.key), at.field("key"))?;
        }
        let bound = matches!(&*wire.operator, "Gt" | "Lt" | "Gte" | "Lte");
        if let Some(bad) = wire
            .values
            .iter()
            .find(|value| !bound && !labels::is_label_value(value))
        {
            return Err(at
                .field("values")
                .fault(format!("{} is not a label value", quoted(bad)), LABEL_VALUE));
        }
    }
    let all = requirements(&node.requirements, Of::NodePool, at, names)?;
    for (index, requirement) in all.iter().enumerate() {
        if names.text(requirement.key) == labels::CAPACITY_TYPE {
            known_capacity_types(requirement, at.index(index), names)?;
        }
    }
    Ok(all)
}

/// At least one value, and as many as `minValues` asks for, must be a capacity type that exists.
fn known_capacity_types(
    requirement: &Requirement,
    at: Path<'_>,
    names: &Symbols,
) -> Result<(), Fault> {
    let Op::In(values) = &requirement.op else {
        return Ok(());
    };
    let known = values
        .iter()
        .filter(|value| capacity_type::ALL.contains(&names.text(**value)))
        .count();
    if known >= usize::from(requirement.min_values.unwrap_or(1)) {
        return Ok(());
    }
    let what = match known {
        0 => "no value is a capacity type".to_owned(),
        known => format!("only {known} of the values are capacity types"),
    };
    Err(at
        .field("values")
        .fault(what, "expected on-demand, spot or reserved"))
}

fn class(
    node: &WireTemplateSpec<'_>,
    at: Path<'_>,
    names: &mut Symbols,
) -> Result<NodeClassRef, Fault> {
    let hint = "name a node class by group, kind and name, such as karpenter.k8s.aws, EC2NodeClass, default";
    let Some(wire) = &node.node_class_ref else {
        return Err(at.fault("is missing", hint));
    };
    for (field, text) in [
        ("group", &wire.group),
        ("kind", &wire.kind),
        ("name", &wire.name),
    ] {
        if text.is_empty() {
            return Err(at.field(field).fault("is missing", hint));
        }
    }
    if wire.group.contains('/') {
        let what = format!("{} is not a group", quoted(&wire.group));
        return Err(at.field("group").fault(what, "leave out the version"));
    }
    // Labels that all nodes of the NodePool get. A plan says them, whether or not another object
    // happens to name them.
    for label in [
        labels::NODEPOOL,
        labels::REGISTERED,
        labels::INITIALIZED,
        "true",
    ] {
        names.intern(label);
    }
    let class = NodeClassRef {
        group: names.intern(&wire.group),
        kind: names.intern(&wire.kind),
        name: names.intern(&wire.name),
    };
    let label = class.label(names);
    names.intern(&label);
    Ok(class)
}

const DURATION: &str = "write it in hours, minutes and seconds, like 720h, 1h30m or 300s";

/// A duration or Never (`None`).
fn lifetime(
    text: &Option<Text<'_>>,
    default: Option<i64>,
    at: Path<'_>,
) -> Result<Option<i64>, Fault> {
    match text.as_deref() {
        None => Ok(default),
        Some("Never") => Ok(None),
        Some(text) => match plain_duration(text) {
            Some(seconds) => Ok(Some(seconds)),
            None => Err(at.fault(
                format!("{} is not a duration", quoted(text)),
                format!("{DURATION}, or Never"),
            )),
        },
    }
}

/// A duration, if there is one.
pub(super) fn grace(text: &Option<Text<'_>>, at: Path<'_>) -> Result<Option<i64>, Fault> {
    let Some(text) = text else { return Ok(None) };
    match plain_duration(text) {
        Some(seconds) => Ok(Some(seconds)),
        None => Err(at.fault(format!("{} is not a duration", quoted(text)), DURATION)),
    }
}

/// Amounts of `limits`, and the limit on nodes.
type Limits = (Vec<(longshore_core::model::ResourceId, i64)>, Option<i64>);

/// Limits by resource. Larger than can be counted is no limit in practice: the largest number
/// stands for it.
fn limits(spec: &WireSpec<'_>, at: Path<'_>, names: &mut Symbols) -> Result<Limits, Fault> {
    let at = at.field("limits");
    let mut all = Limits::default();
    for (name, value) in spec.limits.iter() {
        let huge = Quantity::parse(&value.0)
            .is_ok_and(|q| !q.is_negative() && (q.whole().is_err() || q.milli().is_err()));
        let negative = Quantity::parse(&value.0).is_ok_and(|q| q.is_negative());
        let value = if huge {
            i64::MAX
        } else if negative {
            // The API server stores it, and no node fits below it.
            -1
        } else {
            amount(name, value, at.key(name))?
        };
        if &**name == "nodes" {
            all.1 = Some(value);
        } else {
            let resource = resource(name, names);
            all.0.retain(|(other, _)| *other != resource);
            all.0.push((resource, value));
        }
    }
    all.0.sort();
    if spec.replicas.is_some() && !all.0.is_empty() {
        return Err(at.fault(
            "a static NodePool is limited by nodes only",
            "remove the other limits, or replicas",
        ));
    }
    Ok(all)
}

fn weight(spec: &WireSpec<'_>, at: Path<'_>) -> Result<i32, Fault> {
    let at = at.field("weight");
    match spec.weight {
        None => Ok(0),
        Some(_) if spec.replicas.is_some() => Err(at.fault(
            "a static NodePool has no weight",
            "remove weight, or replicas",
        )),
        Some(weight @ 1..=100) => Ok(weight as i32),
        Some(weight) => Err(at.fault(
            format!("{weight} is out of range"),
            "weights go from 1 to 100",
        )),
    }
}

fn replicas(spec: &WireSpec<'_>, at: Path<'_>) -> Result<Option<i64>, Fault> {
    match spec.replicas {
        Some(count) if count < 0 => Err(at
            .field("replicas")
            .fault(format!("{count} is negative"), "it starts at 0")),
        Some(count) if count > i64::from(i32::MAX) => Err(at.field("replicas").fault(
            format!("{count} is too large"),
            "the API server takes at most 2147483647",
        )),
        count => Ok(count),
    }
}

/// A startup taint with the key of registration that registration does not remove: it removes the
/// one with the effect NoExecute. No node of the NodePool would ever be initialized.
fn lasting_registration_taint(pool: &NodePool, at: Path<'_>, names: &Symbols) -> Option<Fault> {
    let stays = |taint: &Taint| {
        names.text(taint.key) == labels::UNREGISTERED && taint.effect != TaintEffect::NoExecute
    };
    let index = pool.startup_taints.iter().position(stays)?;
    let taint = &pool.startup_taints[index];
    Some(at.field("startupTaints").index(index).fault(
        format!(
            "taint {} with effect {:?} is never removed, so no node is ever initialized",
            labels::UNREGISTERED,
            taint.effect
        ),
        "remove it; every node gets this taint with NoExecute until it is registered",
    ))
}

/// No two taints, startup taints included, may have the same key and effect.
fn taints_differ(
    taints: &[Taint],
    startup: &[Taint],
    at: Path<'_>,
    names: &Symbols,
) -> Result<(), Fault> {
    let all: Vec<&Taint> = taints.iter().chain(startup).collect();
    for (index, taint) in all.iter().enumerate() {
        if !labels::is_label_key(names.text(taint.key)) {
            let what = format!("{} is not a taint key", quoted(names.text(taint.key)));
            return Err(at
                .field("taints")
                .fault(what, "write it like team or example.com/team"));
        }
        if !labels::is_label_value(names.text(taint.value)) {
            let what = format!("{} is not a taint value", quoted(names.text(taint.value)));
            return Err(at.field("taints").fault(what, LABEL_VALUE));
        }
        if all[..index]
            .iter()
            .any(|other| (other.key, other.effect) == (taint.key, taint.effect))
        {
            let what = format!(
                "taint {} with effect {:?} is there twice",
                quoted(names.text(taint.key)),
                taint.effect
            );
            return Err(at
                .field("taints")
                .fault(what, "keep one, over taints and startupTaints together"));
        }
    }
    Ok(())
}
