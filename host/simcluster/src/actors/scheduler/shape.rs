//! The scheduling constraints of a pod, read from its JSON into the records of `longshore-core`.
//!
//! They are read here and not by `longshore-api`, so that a mistake of that reader shows as a pod
//! that is not bound where it was planned. `matchFields` on the name is read as a label [`NAME`],
//! which every host has.

use longshore_api::quantity::Quantity;
use longshore_core::model::{
    HostPort, LabelSelector, Labels, NodeInclusion, Op, PodShape, PodTerm, Requirement, ResourceId,
    Resources, SelectorOp, SelectorRule, Spread, Symbol, Symbols, Taint, TaintEffect, Toleration,
};
use serde_json::Value;

use crate::fields::{items, number, text};

/// The label that stands for a node's name.
pub const NAME: &str = "metadata.name";

pub fn read(pod: &Value, names: &mut Symbols) -> PodShape {
    let spec = &pod["spec"];
    let labels = labels(&pod["metadata"]["labels"], names);
    let affinity = &spec["affinity"];
    let terms = |kind: &str, names: &mut Symbols| -> Vec<PodTerm> {
        let all = items(
            &affinity[kind],
            "/requiredDuringSchedulingIgnoredDuringExecution",
        );
        all.iter().map(|t| pod_term(t, &labels, names)).collect()
    };
    let preferred = |kind: &str, names: &mut Symbols| -> Vec<(i32, PodTerm)> {
        let all = items(
            &affinity[kind],
            "/preferredDuringSchedulingIgnoredDuringExecution",
        );
        all.iter()
            .map(|t| (weight(t), pod_term(&t["podAffinityTerm"], &labels, names)))
            .collect()
    };
    PodShape {
        namespace: names.intern(text(pod, "/metadata/namespace")),
        requests: requests(spec, names),
        node_selector: pairs(&spec["nodeSelector"])
            .map(|(k, v)| is(k, v, names))
            .collect(),
        required: items(
            affinity,
            "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
        )
        .iter()
        .map(|t| node_term(t, names))
        .collect(),
        preferred: items(
            affinity,
            "/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution",
        )
        .iter()
        .map(|t| (weight(t), node_term(&t["preference"], names)))
        .collect(),
        tolerations: items(spec, "/tolerations")
            .iter()
            .map(|t| toleration(t, names))
            .collect(),
        spread: items(spec, "/topologySpreadConstraints")
            .iter()
            .map(|s| spread(s, &labels, names))
            .collect(),
        affinity: terms("podAffinity", names),
        anti_affinity: terms("podAntiAffinity", names),
        preferred_affinity: preferred("podAffinity", names),
        preferred_anti_affinity: preferred("podAntiAffinity", names),
        ports: ports(spec, names),
        priority: number(spec, "/priority")
            .unwrap_or(0)
            .clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32,
        labels,
    }
}

/// Labels of an object, as in `metadata.labels`.
pub fn labels(map: &Value, names: &mut Symbols) -> Labels {
    Labels::new(
        pairs(map)
            .map(|(k, v)| (names.intern(k), names.intern(v)))
            .collect(),
    )
}

/// Amounts, as in `status.allocatable`. What is no quantity is nothing.
pub fn amounts(map: &Value, names: &mut Symbols) -> Resources {
    let all = map.as_object().into_iter().flatten();
    Resources::new(all.filter_map(|(resource, amount)| {
        let quantity = match amount {
            Value::String(text) => Quantity::parse(text).ok()?,
            number => Quantity::parse(&number.to_string()).ok()?,
        };
        let resource = ResourceId::named(resource, names);
        let amount = if resource == ResourceId::Cpu {
            quantity.milli_saturating()
        } else {
            quantity.whole_saturating()
        };
        Some((resource, amount.ok()?))
    }))
}

pub fn taints(node: &Value, names: &mut Symbols) -> Vec<Taint> {
    let taint = |t: &Value| {
        let effect = effect(text(t, "/effect"))?;
        Some(Taint {
            key: names.intern(text(t, "/key")),
            value: names.intern(text(t, "/value")),
            effect,
        })
    };
    items(node, "/spec/taints")
        .iter()
        .filter_map(taint)
        .collect()
}

fn effect(text: &str) -> Option<TaintEffect> {
    match text {
        "NoSchedule" => Some(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(TaintEffect::NoExecute),
        _ => None,
    }
}

fn pairs(map: &Value) -> impl Iterator<Item = (&str, &str)> {
    map.as_object()
        .into_iter()
        .flatten()
        .filter_map(|(k, v)| Some((k.as_str(), v.as_str()?)))
}

fn is(key: &str, value: &str, names: &mut Symbols) -> Requirement {
    let key = names.intern(key);
    Requirement::is(key, names.intern(value))
}

fn weight(term: &Value) -> i32 {
    number(term, "/weight").unwrap_or(0).clamp(0, 100) as i32
}

/// The most that a pod needs at once.
pub fn requests(spec: &Value, names: &mut Symbols) -> Resources {
    let mut of = |container: &Value| {
        let resources = &container["resources"];
        let mut asked = amounts(&resources["requests"], names);
        for (resource, limit) in amounts(&resources["limits"], names).iter() {
            let named = resources["requests"].get(resource.name(names)).is_some();
            if !named {
                asked.set(resource, limit);
            }
        }
        asked
    };
    let mut running = Resources::default();
    let mut most = Resources::default();
    for container in items(spec, "/initContainers") {
        let mut asked = of(container);
        if text(container, "/restartPolicy") == "Always" {
            running.add(&asked);
            most.max(&running);
        } else {
            asked.add(&running);
            most.max(&asked);
        }
    }
    for container in items(spec, "/containers") {
        running.add(&of(container));
    }
    most.max(&running);
    for (resource, amount) in of(spec).iter() {
        most.set(resource, amount);
    }
    most.add(&amounts(&spec["overhead"], names));
    most.add_one(ResourceId::Pods, 1);
    most
}

/// Requirements of a term. No node satisfies one with an unknown operator.
fn node_term(term: &Value, names: &mut Symbols) -> Vec<Requirement> {
    let labels = items(term, "/matchExpressions").iter();
    let fields = items(term, "/matchFields").iter();
    labels
        .chain(fields)
        .map(|e| requirement(e, names))
        .collect()
}

fn requirement(expression: &Value, names: &mut Symbols) -> Requirement {
    let key = names.intern(text(expression, "/key"));
    let values: Vec<&str> = items(expression, "/values")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let bound = values.first().and_then(|v| v.parse::<i64>().ok());
    let nothing = || Op::In(Box::new([]));
    let mut all = || values.iter().map(|v| names.intern(v)).collect();
    let op = match text(expression, "/operator") {
        "In" => Op::In(all()),
        "NotIn" => Op::NotIn(all()),
        "Exists" => Op::Exists,
        "DoesNotExist" => Op::DoesNotExist,
        "Gt" => bound
            .and_then(|b| b.checked_add(1))
            .map_or_else(nothing, Op::Gte),
        "Lt" => bound
            .and_then(|b| b.checked_sub(1))
            .map_or_else(nothing, Op::Lte),
        _ => nothing(),
    };
    Requirement::new(key, op)
}

fn toleration(t: &Value, names: &mut Symbols) -> Toleration {
    let key = Some(text(t, "/key"))
        .filter(|k| !k.is_empty())
        .map(|k| names.intern(k));
    Toleration {
        key,
        exists: text(t, "/operator") == "Exists",
        value: names.intern(text(t, "/value")),
        effect: effect(text(t, "/effect")),
    }
}

fn selector(value: &Value, names: &mut Symbols) -> LabelSelector {
    if !value.is_object() {
        return LabelSelector(None);
    }
    let mut rules: Vec<SelectorRule> = pairs(&value["matchLabels"])
        .map(|(k, v)| SelectorRule {
            key: names.intern(k),
            op: SelectorOp::In(Box::new([names.intern(v)])),
        })
        .collect();
    for e in items(value, "/matchExpressions") {
        let key = names.intern(text(e, "/key"));
        let mut values = || {
            items(e, "/values")
                .iter()
                .filter_map(Value::as_str)
                .map(|v| names.intern(v))
                .collect()
        };
        let op = match text(e, "/operator") {
            "In" => SelectorOp::In(values()),
            "NotIn" => SelectorOp::NotIn(values()),
            "Exists" => SelectorOp::Exists,
            "DoesNotExist" => SelectorOp::DoesNotExist,
            _ => SelectorOp::In(Box::new([])),
        };
        rules.push(SelectorRule { key, op });
    }
    LabelSelector(Some(rules))
}

/// Adds what `matchLabelKeys` and `mismatchLabelKeys` take from the pod itself.
fn with_own(
    mut selector: LabelSelector,
    term: &Value,
    own: &Labels,
    names: &mut Symbols,
) -> LabelSelector {
    for (field, same) in [("/matchLabelKeys", true), ("/mismatchLabelKeys", false)] {
        for key in items(term, field).iter().filter_map(Value::as_str) {
            let key = names.intern(key);
            if let (Some(value), Some(rules)) = (own.get(key), &mut selector.0) {
                let values: Box<[Symbol]> = Box::new([value]);
                rules.push(SelectorRule {
                    key,
                    op: if same {
                        SelectorOp::In(values)
                    } else {
                        SelectorOp::NotIn(values)
                    },
                });
            }
        }
    }
    selector
}

fn pod_term(term: &Value, own: &Labels, names: &mut Symbols) -> PodTerm {
    let plain = selector(&term["labelSelector"], names);
    PodTerm {
        key: names.intern(text(term, "/topologyKey")),
        selector: with_own(plain, term, own, names),
        namespaces: items(term, "/namespaces")
            .iter()
            .filter_map(Value::as_str)
            .map(|n| names.intern(n))
            .collect(),
        namespace_selector: term
            .get("namespaceSelector")
            .filter(|s| s.is_object())
            .map(|s| selector(s, names)),
    }
}

fn spread(constraint: &Value, own: &Labels, names: &mut Symbols) -> Spread {
    let policy = |field: &str, usual: NodeInclusion| match text(constraint, field) {
        "Honor" => NodeInclusion::Honor,
        "Ignore" => NodeInclusion::Ignore,
        _ => usual,
    };
    let plain = selector(&constraint["labelSelector"], names);
    Spread {
        max_skew: number(constraint, "/maxSkew")
            .unwrap_or(1)
            .clamp(1, i64::from(i32::MAX)) as i32,
        key: names.intern(text(constraint, "/topologyKey")),
        required: text(constraint, "/whenUnsatisfiable") != "ScheduleAnyway",
        selector: with_own(plain, constraint, own, names),
        min_domains: number(constraint, "/minDomains").and_then(|n| i32::try_from(n).ok()),
        node_affinity: policy("/nodeAffinityPolicy", NodeInclusion::Honor),
        node_taints: policy("/nodeTaintsPolicy", NodeInclusion::Ignore),
    }
}

fn ports(spec: &Value, names: &mut Symbols) -> Vec<HostPort> {
    let host_network = spec["hostNetwork"] == true;
    let mut all = Vec::new();
    for port in items(spec, "/containers")
        .iter()
        .flat_map(|c| items(c, "/ports"))
    {
        let own = number(port, "/hostPort").filter(|p| *p > 0);
        let number = own.or_else(|| number(port, "/containerPort").filter(|_| host_network));
        let Some(number) = number.and_then(|p| u16::try_from(p).ok()) else {
            continue;
        };
        let ip = Some(text(port, "/hostIP")).filter(|ip| !matches!(*ip, "" | "0.0.0.0" | "::"));
        let protocol = Some(text(port, "/protocol"))
            .filter(|p| !p.is_empty())
            .unwrap_or("TCP");
        let ip = ip.map(|ip| names.intern(ip));
        all.push(HostPort {
            ip,
            port: number,
            protocol: names.intern(protocol),
        });
    }
    all
}
