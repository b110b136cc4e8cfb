//! Pods, and the templates of DaemonSets: requests and scheduling constraints.
//!
//! A pod with unreadable fields (a word instead of a number, a negative quantity) is refused. A pod
//! that can be read but never planned (an unknown operator, an affinity that selects nothing) is
//! kept, with the reason in [`Pod::invalid`]. If it runs it takes room; if it is pending the plan
//! says why it is refused.

pub(super) mod api_rules;
mod placement;
mod readable;
pub(super) mod requests;
mod wire;

use longshore_core::model::pod::DoNotDisrupt;
use longshore_core::model::{
    Excess, Labels, Op, Pod, PodShape, Requirement, Resources, Symbol, Symbols, fields,
};
use serde::Deserialize;

use placement::{FirstFault, excess};
use requests::Needs;
pub(crate) use wire::{WireNodeSelector, WirePod, WirePodHead, WireTemplate};
use wire::{WireSpec, WireStatus};

use super::builder::ObjectsBuilder;
use super::diagnostic::{Fault, Path, quoted};
use super::object::{condition, created, labels, symbol, time_of};
use super::wire::{Condition, Map, Meta};
use crate::json;
use crate::labels as label;
use crate::time::go_duration;

pub(super) fn read(wire: WirePod<'_>, objects: &mut ObjectsBuilder) -> Result<(), Fault> {
    let meta = &wire.metadata;
    let name: Box<str> = meta.name.as_deref().unwrap_or_default().into();
    let namespace = objects.namespace(meta);
    let Some(spec) = &wire.spec else {
        return Err(Path::Root
            .field("spec")
            .fault("is missing", "a pod needs its spec"));
    };
    let status = wire.status.as_ref();
    let names = &mut objects.world.names;
    let excess = excess::of_pod(&wire).map(Box::new);
    let (shape, invalid) = match excess {
        None => {
            let own = labels(&meta.labels, names);
            let mut shape = bare_shape(spec, status, own, namespace, names)?;
            let selected = placement::node_selector(&spec.node_selector, names);
            shape.node_selector.extend(selected);
            let (at, notes) = (Path::Root.field("spec"), &mut objects.notes);
            let invalid = place(spec, &mut shape, at, names, notes).err();
            (shape, invalid)
        }
        Some(_) => {
            let own = excess::fewer_labels(&meta.labels);
            let own = own
                .into_iter()
                .map(|(key, value)| (names.intern(key), names.intern(value)));
            let own = Labels::new(own.collect());
            let mut shape = bare_shape(spec, status, own, namespace, names)?;
            shape.anti_affinity = excess::wider(spec, namespace, names);
            (shape, None)
        }
    };
    // They have no part in placing it.
    let limits = requests::limits(spec, Path::Root.field("spec"), names);
    let limits = limits.unwrap_or_else(|fault| {
        objects.notes.push(fault);
        Resources::default()
    });
    let created = created(meta)?;
    let started = match status {
        Some(status) => time_of(
            &status.start_time,
            Path::Field(&Path::Root, "status.startTime"),
        )?,
        None => None,
    };
    let claims = if excess.is_none() {
        claims(spec, &name, names)
    } else {
        Box::default()
    };
    let owner = meta
        .owner_references
        .iter()
        .find(|owner| owner.controller == Some(true));
    let owner = owner.map(|owner| (names.intern(&owner.kind), names.intern(&owner.name)));
    let node_owned = owner.is_some_and(|(kind, _)| names.text(kind) == "Node");
    let uid = match meta.uid.as_deref() {
        Some(uid) if !uid.is_empty() => uid.into(),
        _ => format!("Pod/{}/{name}", names.text(namespace)).into(),
    };
    let priority_class = symbol(&spec.priority_class_name, names);
    let pod = Pod {
        uid,
        shape: objects.world.shapes.intern(shape),
        node: symbol(&spec.node_name, names),
        claims,
        owner,
        created,
        queued: 0,
        started,
        grace: grace(spec.termination_grace_period_seconds),
        terminal: status
            .is_some_and(|s| matches!(s.phase.as_deref(), Some("Succeeded" | "Failed"))),
        deleting: meta.deletion_timestamp.is_some(),
        unready: status.is_some_and(|s| condition(&s.conditions, "Ready") == Some(false)),
        waits_to_start: status.is_some_and(|s| s.phase.as_deref() == Some("Pending")),
        unschedulable: status.is_some_and(|status| is_unschedulable(&status.conditions)),
        unattempted: false,
        gated: !spec.scheduling_gates.is_empty(),
        nominated: status.and_then(|s| symbol(&s.nominated_node_name, names)),
        is_static: node_owned || meta.annotation(label::MIRROR_POD).is_some(),
        resource_claims: !spec.resource_claims.is_empty(),
        do_not_disrupt: do_not_disrupt(meta),
        deletion_cost: deletion_cost(meta),
        invalid: invalid.map(|fault| fault.to_string().into()),
        unreadable: false,
        excess,
        name,
    };
    if spec.priority.is_none() {
        objects
            .pods_by_class
            .push((objects.world.pods.len(), priority_class));
    }
    objects.world.pods.push(pod);
    objects.limits.push(limits);
    Ok(())
}

impl<'a> WirePodHead<'a> {
    /// As much of an object as can be read: each part by itself, and of metadata that cannot be read
    /// as a whole the name.
    pub(super) fn lenient(text: &'a str) -> Self {
        serde_json::from_str(text).unwrap_or_else(|_| {
            let of_metadata = || Meta {
                name: part(text, &["metadata", "name"]),
                namespace: part(text, &["metadata", "namespace"]),
                generate_name: part(text, &["metadata", "generateName"]),
                ..Meta::default()
            };
            WirePodHead {
                metadata: part(text, &["metadata"]).unwrap_or_else(of_metadata),
                spec: part(text, &["spec"]),
                status: part(text, &["status"]),
            }
        })
    }
}

/// What a path leads to, if it can be read.
fn part<'a, T: Deserialize<'a>>(text: &'a str, path: &[&str]) -> Option<T> {
    let inside = |text: &'a str, key: &&str| {
        let range = json::member(text.as_bytes(), 0, key)?;
        text.get(range)
    };
    let found = path.iter().try_fold(text, inside)?;
    serde_json::from_str(found).ok()
}

/// Takes a pod in that cannot be read, for this reason: whatever it needs, it holds its node. What
/// can be read of its needs, its host ports, its claims and its labels counts. Of what it asks for in an
/// unreadable amount its node counts as full, which is said. One without a name is called by what its
/// name was to begin with.
pub(super) fn unreadable(
    text: &str,
    wire: &WirePodHead<'_>,
    why: &mut Fault,
    objects: &mut ObjectsBuilder,
) {
    let meta = &wire.metadata;
    let names = [&meta.name, &meta.generate_name].into_iter();
    let mut names = names.filter_map(|name| name.as_deref());
    let name: Box<str> = names.find(|name| !name.is_empty()).unwrap_or("?").into();
    let number = objects.world.pods.len();
    let namespace = objects.namespace(meta);
    let names = &mut objects.world.names;
    let bare = WireSpec::default();
    let own = excess::fewer_labels(&meta.labels).into_iter();
    let own = own.map(|(key, value)| (names.intern(key), names.intern(value)));
    let own = Labels::new(own.collect());
    let Ok(mut shape) = bare_shape(&bare, None, own, namespace, names) else {
        return;
    };
    let written = json::member(text.as_bytes(), 0, "spec").and_then(|range| text.get(range));
    let written = written.unwrap_or_default();
    let (needs, unknown) = requests::readable(written, names);
    shape.requests = needs;
    let (ports, claims) = readable::ports_and_claims(written, &name, names);
    shape.ports = ports;
    let (spec, status) = (wire.spec.as_ref(), wire.status.as_ref());
    let node = spec.and_then(|spec| symbol(&spec.node_name, names));
    if node.is_some() && !unknown.is_empty() {
        let full = format!(
            "until then its node counts as full of {}",
            unknown.join(", ")
        );
        let parts = [std::mem::take(&mut why.hint), full].into_iter();
        let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
        why.hint = parts.join("; ");
    }
    let owners = &meta.owner_references;
    let owner = owners.iter().find(|owner| owner.controller == Some(true));
    let owner = owner.map(|owner| (names.intern(&owner.kind), names.intern(&owner.name)));
    let phase = status.and_then(|status| status.phase.as_deref());
    objects.world.pods.push(Pod {
        uid: match meta.uid.as_deref() {
            Some(uid) if !uid.is_empty() => uid.into(),
            _ if meta.name.is_none() => format!("Pod/{number}").into(),
            _ => format!("Pod/{}/{name}", names.text(namespace)).into(),
        },
        shape: objects.world.shapes.intern(shape),
        node,
        claims,
        owner,
        created: created(meta).unwrap_or(0),
        queued: 0,
        started: None,
        grace: grace(None),
        terminal: matches!(phase, Some("Succeeded" | "Failed")),
        deleting: meta.deletion_timestamp.is_some(),
        unready: false,
        waits_to_start: false,
        unschedulable: status.is_some_and(|status| is_unschedulable(&status.conditions)),
        unattempted: false,
        gated: false,
        nominated: None,
        is_static: owner.is_some_and(|(kind, _)| names.text(kind) == "Node"),
        resource_claims: false,
        do_not_disrupt: DoNotDisrupt::Always,
        deletion_cost: 0,
        invalid: Some(why.to_string().into()),
        unreadable: true,
        excess: None,
        name,
    });
    objects.limits.push(Resources::default());
}

/// How long a pod may take to end, in seconds. As the kubelet has it, a negative number is 1.
fn grace(written: Option<i64>) -> u32 {
    const DEFAULT: i64 = 30;
    match written.unwrap_or(DEFAULT) {
        ..0 => 1,
        seconds => u32::try_from(seconds).unwrap_or(u32::MAX),
    }
}

/// A pod template, read.
pub(super) struct Template {
    pub shape: PodShape,
    /// What it asks for, container by container.
    pub needs: Needs,
    /// Its priority class, where it gives no number itself.
    pub class: Option<Option<Symbol>>,
    /// It asks for dynamic resource claims.
    pub resource_claims: bool,
}

/// Reads the template at `spec.template`.
pub(super) fn template(
    wire: &WireTemplate<'_>,
    namespace: Symbol,
    names: &mut Symbols,
) -> Result<Template, Fault> {
    let inside = |fault: Fault| Fault {
        field: format!("spec.template.{}", fault.field),
        ..fault
    };
    let Some(spec) = &wire.spec else {
        return Err(Path::Root
            .field("spec.template.spec")
            .fault("is missing", "a workload needs a pod template"));
    };
    let none = Map::default();
    let written = wire.metadata.as_ref().map_or(&none, |meta| &meta.labels);
    if let Some(Excess { part, count }) = excess::of_spec(spec, written) {
        let what = format!("has {count} {}", part.words());
        return Err(Path::Root
            .field("spec.template")
            .fault(what, format!("at most {} are planned for", part.most())));
    }
    let own = labels(written, names);
    let mut shape = bare_shape(spec, None, own, namespace, names).map_err(inside)?;
    let selected = placement::node_selector(&spec.node_selector, names);
    shape.node_selector.extend(selected);
    let at = Path::Root.field("spec");
    place(spec, &mut shape, at, names, &mut Vec::new()).map_err(inside)?;
    let needs = Needs::read(spec, Path::Root.field("spec"), names).map_err(inside)?;
    let class = spec
        .priority
        .is_none()
        .then(|| symbol(&spec.priority_class_name, names));
    Ok(Template {
        shape,
        needs,
        class,
        resource_claims: !spec.resource_claims.is_empty(),
    })
}

/// The shape of a pod with its requests, without scheduling constraints.
fn bare_shape(
    spec: &WireSpec<'_>,
    status: Option<&WireStatus<'_>>,
    own: Labels,
    namespace: Symbol,
    names: &mut Symbols,
) -> Result<PodShape, Fault> {
    Ok(PodShape {
        namespace,
        requests: requests::requests(spec, status, Path::Root.field("spec"), names)?,
        node_selector: features(spec, names),
        required: Vec::new(),
        preferred: Vec::new(),
        tolerations: Vec::new(),
        spread: Vec::new(),
        affinity: Vec::new(),
        anti_affinity: Vec::new(),
        preferred_affinity: Vec::new(),
        preferred_anti_affinity: Vec::new(),
        ports: Vec::new(),
        priority: spec.priority.unwrap_or(0),
        labels: own,
    })
}

/// Fills in where a pod may run, and what it asks of others, as far as that can be read. `notes` get
/// what is left out without harm.
///
/// # Errors
/// The first part that cannot be read, or a reason why the pod cannot be planned for.
fn place(
    spec: &WireSpec<'_>,
    shape: &mut PodShape,
    at: Path<'_>,
    names: &mut Symbols,
    notes: &mut Vec<Fault>,
) -> Result<(), Fault> {
    let mut faults = FirstFault::default();
    let tolerations_at = at.field("tolerations");
    shape.ports = placement::host_ports(spec, at, names, &mut faults);
    shape.tolerations =
        placement::tolerations(&spec.tolerations, tolerations_at, names, &mut faults);
    if let Some(affinity) = &spec.affinity {
        let at = at.field("affinity");
        match placement::required_terms(affinity, at, names) {
            Ok(terms) => shape.required = terms,
            Err(fault) => _ = faults.0.get_or_insert(fault),
        }
        shape.preferred = placement::preferred_terms(affinity, at, names, &mut faults, notes);
        (shape.affinity, shape.preferred_affinity) =
            placement::pod_terms(affinity, false, &shape.labels, at, names, &mut faults);
        (shape.anti_affinity, shape.preferred_anti_affinity) =
            placement::pod_terms(affinity, true, &shape.labels, at, names, &mut faults);
    }
    let spread_at = at.field("topologySpreadConstraints");
    shape.spread = placement::spread(
        &spec.topology_spread_constraints,
        &shape.labels,
        spread_at,
        names,
        &mut faults,
    );
    if let Some(fault) = faults.0 {
        return Err(fault);
    }
    if placement::wants_no_pool(&shape.required, names) {
        let hint = "such a pod only runs on nodes that no NodePool owns";
        return Err(at
            .field("affinity")
            .fault("requires karpenter.sh/nodepool to be absent", hint));
    }
    if let Some(group) = spec.scheduling_group.as_ref().map(|group| &group.name) {
        let what = format!("names PodGroup {}", quoted(group.as_deref().unwrap_or("")));
        let hint = "pods of a group are not planned for yet, for they are bound all or none";
        return Err(at.field("schedulingGroup").fault(what, hint));
    }
    Ok(())
}

/// What a pod needs of the kubelet that a node has to declare (`status.declaredFeatures`), as
/// requirements on labels that stand for it.
fn features(spec: &WireSpec<'_>, names: &mut Symbols) -> Vec<Requirement> {
    let mut containers = spec.containers.iter().chain(spec.init_containers.iter());
    let restarts_all = containers.any(|container| {
        let mut rules = container.restart_policy_rules.iter();
        rules.any(|rule| rule.action.as_deref() == Some("RestartAllContainers"))
    });
    let needs = restarts_all.then(|| names.intern(fields::RESTART_ALL_CONTAINERS));
    let exists = |key| Requirement::new(key, Op::Exists);
    needs.map(exists).into_iter().collect()
}

/// Names of the claims that a pod mounts; an ephemeral volume's claim is named after both.
fn claims(spec: &WireSpec<'_>, pod: &str, names: &mut Symbols) -> Box<[Symbol]> {
    let mut all = Vec::new();
    for volume in spec.volumes.iter() {
        if let Some(source) = &volume.persistent_volume_claim {
            all.push(names.intern(&source.claim_name));
        } else if volume.ephemeral.is_some() {
            all.push(names.intern(&format!("{pod}-{}", &*volume.name)));
        }
    }
    all.into_boxed_slice()
}

fn is_unschedulable(conditions: &[Condition<'_>]) -> bool {
    conditions.iter().any(|condition| {
        &*condition.kind == "PodScheduled"
            && &*condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    })
}

/// Karpenter's annotation counts where it is there, also with a value that is no number; else that
/// of ReplicaSets.
fn deletion_cost(meta: &Meta<'_>) -> i32 {
    let text = meta.annotation(label::DISRUPTION_COST);
    let text = text.or_else(|| meta.annotation(label::POD_DELETION_COST));
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn do_not_disrupt(meta: &Meta<'_>) -> DoNotDisrupt {
    match meta.annotation(label::DO_NOT_DISRUPT) {
        None => DoNotDisrupt::No,
        Some("true") => DoNotDisrupt::Always,
        Some(text) => match go_duration(text) {
            Some(seconds) if seconds > 0 => {
                DoNotDisrupt::For(u32::try_from(seconds).unwrap_or(u32::MAX))
            }
            _ => DoNotDisrupt::No,
        },
    }
}
