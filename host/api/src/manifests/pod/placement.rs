//! Scheduling constraints of a pod: node selector, affinities, spread, tolerations and host ports.

pub(super) mod excess;

use longshore_core::model::{
    HostPort, LabelSelector, Labels, NodeInclusion, Op, PodTerm, Requirement, SelectorOp,
    SelectorRule, Spread, Symbol, Symbols, Toleration,
};

use super::wire::{WireAffinity, WirePodTerm, WireSpec, WireSpread, WireTerm, WireToleration};
use crate::labels::{self, of_topology, stable};
use crate::manifests::diagnostic::{Fault, Path, quoted};
use crate::manifests::object::effect;
use crate::manifests::requirement::{Of, requirements};
use crate::manifests::scheduler::is_required;
use crate::manifests::selector::selector;
use crate::manifests::wire::{Map, Text};

/// `nodeSelector` as requirements, ordered by key so that pods of one shape do not differ by the
/// order of a map.
pub(super) fn node_selector(
    map: &Map<'_, Option<Text<'_>>>,
    names: &mut Symbols,
) -> Vec<Requirement> {
    let mut all: Vec<Requirement> = map
        .iter()
        .map(|(key, value)| {
            let key = names.intern(stable(key));
            Requirement::is(key, names.intern(value.as_deref().unwrap_or("")))
        })
        .collect();
    all.sort_by_key(|requirement| requirement.key);
    all
}

/// The first fault of a pod's rules. What is faulty is left out, and the rest is read all the same:
/// where the pod runs, the rest concerns others.
#[derive(Default)]
pub(super) struct FirstFault(pub Option<Fault>);

impl FirstFault {
    /// What could be read; notes the fault otherwise.
    fn take<T>(&mut self, read: Result<T, Fault>) -> Option<T> {
        read.map_err(|fault| _ = self.0.get_or_insert(fault)).ok()
    }
}

/// Required terms of node affinity. Terms without expressions select no node and are left out. With
/// a term that cannot be read, what is required is not known and nothing is given.
pub(super) fn required_terms(
    affinity: &WireAffinity<'_>,
    at: Path<'_>,
    names: &mut Symbols,
) -> Result<Vec<Vec<Requirement>>, Fault> {
    let Some(required) = affinity
        .node_affinity
        .as_ref()
        .and_then(|node| node.required.as_ref())
    else {
        return Ok(Vec::new());
    };
    let at =
        at.field("nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
    let mut terms = Vec::new();
    for (index, wire) in required.node_selector_terms.iter().enumerate() {
        let term = term(wire, at.index(index), names)?;
        if !term.is_empty() {
            terms.push(term);
        }
    }
    if terms.is_empty() {
        return Err(at.fault(
            "selects no node: it has no term with an expression",
            "add one, or remove the affinity",
        ));
    }
    Ok(terms)
}

/// Preferred terms of node affinity with their weights. Terms without expressions prefer nothing
/// and are left out. So are, with a note, those whose bound is no number: the API server takes them,
/// and a preference keeps no pod from a node.
pub(super) fn preferred_terms(
    affinity: &WireAffinity<'_>,
    at: Path<'_>,
    names: &mut Symbols,
    faults: &mut FirstFault,
    notes: &mut Vec<Fault>,
) -> Vec<(i32, Vec<Requirement>)> {
    let Some(node) = &affinity.node_affinity else {
        return Vec::new();
    };
    let at = at.field("nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution");
    let mut terms = Vec::new();
    for (index, wire) in node.preferred.iter().enumerate() {
        let at = at.index(index);
        let mut read = weight(wire.weight, at)
            .and_then(|()| term(&wire.preference, at.field("preference"), names));
        if has_text_as_bound(&wire.preference) || !wire.preference.match_fields.is_empty() {
            notes.extend(read.err());
            read = Ok(Vec::new());
        }
        let read = faults.take(read).filter(|term| !term.is_empty());
        terms.extend(read.map(|term| (wire.weight, term)));
    }
    terms
}

fn has_text_as_bound(term: &WireTerm<'_>) -> bool {
    term.match_expressions.iter().any(|rule| {
        let is_bound = matches!(&*rule.operator, "Gt" | "Lt");
        is_bound && matches!(&*rule.values, [value] if value.parse::<i64>().is_err())
    })
}

fn term(wire: &WireTerm<'_>, at: Path<'_>, names: &mut Symbols) -> Result<Vec<Requirement>, Fault> {
    if !wire.match_fields.is_empty() {
        let hint = "a node that does not exist yet has no fields; use matchExpressions on labels";
        return Err(at.field("matchFields").fault(
            "node selector terms with matchFields are not supported",
            hint,
        ));
    }
    requirements(
        &wire.match_expressions,
        Of::Affinity,
        at.field("matchExpressions"),
        names,
    )
}

fn weight(weight: i32, at: Path<'_>) -> Result<(), Fault> {
    if (1..=100).contains(&weight) {
        return Ok(());
    }
    Err(at.field("weight").fault(
        format!("{weight} is out of range"),
        "weights go from 1 to 100",
    ))
}

/// Required and preferred terms of one of the two pod affinities.
type PodTerms = (Vec<PodTerm>, Vec<(i32, PodTerm)>);

/// Terms of pod affinity, or with `anti` of pod anti-affinity.
pub(super) fn pod_terms(
    affinity: &WireAffinity<'_>,
    anti: bool,
    own: &Labels,
    at: Path<'_>,
    names: &mut Symbols,
    faults: &mut FirstFault,
) -> PodTerms {
    let (wire, field) = match anti {
        false => (&affinity.pod_affinity, "podAffinity"),
        true => (&affinity.pod_anti_affinity, "podAntiAffinity"),
    };
    let Some(wire) = wire else {
        return PodTerms::default();
    };
    let at = at.field(field);
    let mut terms = PodTerms::default();
    for (index, wire) in wire.required.iter().enumerate() {
        let at = at.field("requiredDuringSchedulingIgnoredDuringExecution");
        let read = pod_term(wire, own, at.index(index), names);
        terms.0.extend(faults.take(read));
    }
    for (index, wire) in wire.preferred.iter().enumerate() {
        let at = at.field("preferredDuringSchedulingIgnoredDuringExecution");
        let at = at.index(index);
        let of = at.field("podAffinityTerm");
        let read = weight(wire.weight, at)
            .and_then(|()| pod_term(&wire.pod_affinity_term, own, of, names));
        let read = faults.take(read).map(|term| (wire.weight, term));
        terms.1.extend(read);
    }
    terms
}

fn pod_term(
    wire: &WirePodTerm<'_>,
    own: &Labels,
    at: Path<'_>,
    names: &mut Symbols,
) -> Result<PodTerm, Fault> {
    let mut chosen = selector(
        wire.label_selector.as_ref(),
        at.field("labelSelector"),
        names,
    )?;
    merge_keys(&mut chosen, &wire.match_label_keys, own, names, |value| {
        SelectorOp::In(Box::new([value]))
    });
    merge_keys(
        &mut chosen,
        &wire.mismatch_label_keys,
        own,
        names,
        |value| SelectorOp::NotIn(Box::new([value])),
    );
    let namespace_selector = match &wire.namespace_selector {
        None => None,
        Some(wire) => Some(selector(Some(wire), at.field("namespaceSelector"), names)?),
    };
    Ok(PodTerm {
        key: topology_key(&wire.topology_key, at, names)?,
        selector: chosen,
        namespaces: wire
            .namespaces
            .iter()
            .map(|name| names.intern(name))
            .collect(),
        namespace_selector,
    })
}

fn topology_key(key: &Text<'_>, at: Path<'_>, names: &mut Symbols) -> Result<Symbol, Fault> {
    if key.is_empty() {
        return Err(at.field("topologyKey").fault(
            "is missing",
            "name a label such as topology.kubernetes.io/zone",
        ));
    }
    // As written, like the key of an allowed topology: snapshots know what nodes carry.
    Ok(names.intern(of_topology(key)))
}

/// Adds the pod's own values of these labels to a selector. Labels that it does not have are passed
/// over, and so are rules that the API server has merged already.
fn merge_keys(
    selector: &mut LabelSelector,
    keys: &[Text<'_>],
    own: &Labels,
    names: &mut Symbols,
    op: impl Fn(Symbol) -> SelectorOp,
) {
    let Some(rules) = &mut selector.0 else { return };
    for key in keys {
        let key = names.intern(key);
        let Some(value) = own.get(key) else { continue };
        let rule = SelectorRule { key, op: op(value) };
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
}

/// Topology spread constraints.
pub(super) fn spread(
    list: &[WireSpread<'_>],
    own: &Labels,
    at: Path<'_>,
    names: &mut Symbols,
    faults: &mut FirstFault,
) -> Vec<Spread> {
    let read = list.iter().enumerate();
    let read = read.map(|(index, wire)| one_spread(wire, own, at.index(index), names));
    read.filter_map(|one| faults.take(one)).collect()
}

fn one_spread(
    wire: &WireSpread<'_>,
    own: &Labels,
    at: Path<'_>,
    names: &mut Symbols,
) -> Result<Spread, Fault> {
    let required = is_required(&wire.when_unsatisfiable, at)?;
    let mut chosen = selector(
        wire.label_selector.as_ref(),
        at.field("labelSelector"),
        names,
    )?;
    merge_keys(&mut chosen, &wire.match_label_keys, own, names, |value| {
        SelectorOp::In(Box::new([value]))
    });
    // kube-scheduler counts no pod for a selector without rules: the constraint always holds.
    if chosen.0.as_ref().is_some_and(Vec::is_empty) {
        chosen = LabelSelector(None);
    }
    let min_domains = match wire.min_domains {
        None => None,
        Some(_) if !required => {
            let hint = "set whenUnsatisfiable to DoNotSchedule or remove it";
            return Err(at
                .field("minDomains")
                .fault("only goes with DoNotSchedule", hint));
        }
        Some(least) => Some(at_least_one(least, at.field("minDomains"))?),
    };
    Ok(Spread {
        max_skew: at_least_one(wire.max_skew, at.field("maxSkew"))?,
        key: topology_key(&wire.topology_key, at, names)?,
        required,
        selector: chosen,
        min_domains,
        node_affinity: inclusion(
            &wire.node_affinity_policy,
            NodeInclusion::Honor,
            at.field("nodeAffinityPolicy"),
        )?,
        node_taints: inclusion(
            &wire.node_taints_policy,
            NodeInclusion::Ignore,
            at.field("nodeTaintsPolicy"),
        )?,
    })
}

fn at_least_one(number: i64, at: Path<'_>) -> Result<i32, Fault> {
    match i32::try_from(number) {
        Ok(number) if number >= 1 => Ok(number),
        _ => Err(at.fault(format!("{number} is out of range"), "it starts at 1")),
    }
}

fn inclusion(
    text: &Option<Text<'_>>,
    default: NodeInclusion,
    at: Path<'_>,
) -> Result<NodeInclusion, Fault> {
    match text.as_deref() {
        None | Some("") => Ok(default),
        Some("Honor") => Ok(NodeInclusion::Honor),
        Some("Ignore") => Ok(NodeInclusion::Ignore),
        Some(other) => Err(at.fault(
            format!("{} is not a policy", quoted(other)),
            "expected Honor or Ignore",
        )),
    }
}

pub(super) fn tolerations(
    list: &[WireToleration<'_>],
    at: Path<'_>,
    names: &mut Symbols,
    faults: &mut FirstFault,
) -> Vec<Toleration> {
    let read = list.iter().enumerate();
    let read = read.map(|(index, wire)| toleration(wire, at.index(index), names));
    read.filter_map(|one| faults.take(one)).collect()
}

fn toleration(
    wire: &WireToleration<'_>,
    at: Path<'_>,
    names: &mut Symbols,
) -> Result<Toleration, Fault> {
    let text = |text: &Option<Text<'_>>| {
        text.as_deref()
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let exists = match wire.operator.as_deref() {
        None | Some("" | "Equal") => false,
        Some("Exists") => true,
        Some(other) => {
            let what = format!("unknown operator {}", quoted(other));
            return Err(at.field("operator").fault(what, "expected Exists or Equal"));
        }
    };
    let key = text(&wire.key);
    if key.is_none() && !exists {
        return Err(at
            .field("key")
            .fault("is missing", "only operator Exists goes without a key"));
    }
    Ok(Toleration {
        key: key.map(|key| names.intern(&key)),
        exists,
        value: names.intern(wire.value.as_deref().unwrap_or("")),
        effect: match text(&wire.effect) {
            None => None,
            Some(name) => Some(effect(&name, at.field("effect"))?),
        },
    })
}

/// Host ports of containers and sidecars. On the host's network every port of a container is one.
pub(super) fn host_ports(
    spec: &WireSpec<'_>,
    at: Path<'_>,
    names: &mut Symbols,
    faults: &mut FirstFault,
) -> Vec<HostPort> {
    let mut all = Vec::new();
    let sidecars = spec
        .init_containers
        .iter()
        .filter(|container| container.is_sidecar());
    for port in spec
        .containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| container.ports.iter())
    {
        let number = match port.host_port.unwrap_or(0) {
            0 if spec.host_network == Some(true) => port.container_port.unwrap_or(0),
            number => number,
        };
        if number == 0 {
            continue;
        }
        let Ok(number) = u16::try_from(number) else {
            let at = at.field("containers[].ports[].hostPort");
            let what = format!("{number} is not a port");
            faults.take::<()>(Err(at.fault(what, "ports go from 1 to 65535")));
            continue;
        };
        let ip = port
            .host_ip
            .as_deref()
            .filter(|ip| !matches!(*ip, "" | "0.0.0.0" | "::"));
        let protocol = port
            .protocol
            .as_deref()
            .filter(|protocol| !protocol.is_empty())
            .unwrap_or("TCP");
        let port = HostPort {
            ip: ip.map(|ip| names.intern(ip)),
            port: number,
            protocol: names.intern(protocol),
        };
        if !all.contains(&port) {
            all.push(port);
        }
    }
    all
}

/// Whether these requirements ask for a node that no NodePool owns, which can never be bought.
pub(super) fn wants_no_pool(required: &[Vec<Requirement>], names: &Symbols) -> bool {
    let without = |term: &Vec<Requirement>| {
        term.iter()
            .any(|r| r.op == Op::DoesNotExist && names.text(r.key) == labels::NODEPOOL)
    };
    !required.is_empty() && required.iter().all(without)
}
