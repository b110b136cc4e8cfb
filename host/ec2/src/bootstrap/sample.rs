//! A node as a NodeClass would make it, without a cluster: what its user data changes of what pods get.

use std::collections::BTreeMap;

use longshore_userdata::{self as userdata, Boot, Cluster, resolve};
use serde_json::{Map, Value};

use super::read_back::{ReadBack, read_back};
use crate::catalogue::amount::Amount;
use crate::catalogue::class::kubelet::{Kubelet, Threshold};
use crate::catalogue::class::read_kubelet::is_expression;
use crate::nodeclass::AmiFamily;

/// Pods of a sample, where neither the NodeClass nor its user data says: a number that nobody writes.
const PODS: i64 = 1_999_999_999;

/// A node like those of a NodeClass, in a cluster of no name. Expressions are left out, since their
/// values depend on the instance type.
pub fn sample(family: AmiFamily, settings: &Map<String, Value>, user_data: Option<&str>) -> Boot {
    let mut kubelet = settings.clone();
    if kubelet.get("maxPods").is_some_and(Value::is_string) {
        kubelet.remove("maxPods");
    }
    for name in ["systemReserved", "kubeReserved"] {
        if let Some(entries) = kubelet.get_mut(name).and_then(Value::as_object_mut) {
            entries.retain(|_, value| !value.as_str().is_some_and(is_expression));
        }
    }
    let mut boot = Boot {
        cluster: Cluster {
            name: "cluster".to_owned(),
            endpoint: "https://cluster".to_owned(),
            ca_bundle: "Y2E=".to_owned(),
            cidr: "10.100.0.0/16".to_owned(),
            kube_dns_ip: "10.100.0.10".to_owned(),
        },
        family: family.into(),
        image_terms: Vec::new(),
        images: Vec::new(),
        labels: BTreeMap::new(),
        taints: Vec::new(),
        kubelet,
        user_data: user_data.map(str::to_owned),
        raid0: false,
    };
    resolve(&mut boot, PODS);
    boot
}

/// What nodes of a NodeClass read in their user data, where that may differ from its settings: there
/// is user data that reaches the kubelet, or a setting takes back what the image has. `None`
/// otherwise, and for user data that no node boots with.
pub fn said(
    family: AmiFamily,
    settings: &Map<String, Value>,
    user_data: Option<&str>,
) -> Option<ReadBack> {
    let taken_back = || settings.values().any(has_null);
    let there = user_data.is_some_and(|text| !text.is_empty());
    match family {
        AmiFamily::AL2023 if there || taken_back() => {}
        AmiFamily::Bottlerocket if there => {}
        _ => return None,
    }
    let boot = sample(family, settings, user_data);
    let text = userdata::merged(&boot).ok()?;
    let mut said = read_back(boot.family, &text).ok()?;
    said.kubelet.max_pods = said.kubelet.max_pods.filter(|pods| *pods != PODS);
    Some(said)
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().any(Value::is_null),
        _ => false,
    }
}

/// What nodes have otherwise than the settings of their NodeClass say, in sentences with both
/// numbers. It is counted with.
pub fn differences(own: &Kubelet, said: &ReadBack) -> Vec<String> {
    let theirs = &said.kubelet;
    let amount =
        |of: Option<Amount>| of.map_or("the default".to_owned(), |amount| amount.to_string());
    let mut out = Vec::new();
    let mut differ = |name: &str, ours: String, theirs: String| {
        let of = match ours.as_str() {
            "the default" => "",
            _ => " of spec.kubelet",
        };
        if ours != theirs {
            out.push(format!("{name} is {theirs} on nodes, not {ours}{of}"));
        }
    };
    let number = |of: Option<i64>| of.map_or("the default".to_owned(), |of| of.to_string());
    differ("maxPods", number(own.max_pods), number(theirs.max_pods));
    let cores = |of: i64| number(Some(of).filter(|of| *of != 0));
    differ(
        "podsPerCore",
        cores(own.pods_per_core),
        cores(theirs.pods_per_core),
    );
    for (name, ours, theirs) in [
        ("kubeReserved", &own.kube_reserved, &theirs.kube_reserved),
        (
            "systemReserved",
            &own.system_reserved,
            &theirs.system_reserved,
        ),
    ] {
        for (of, ours, theirs) in [
            ("cpu", ours.cpu, theirs.cpu),
            ("memory", ours.memory, theirs.memory),
            ("ephemeral-storage", ours.storage, theirs.storage),
        ] {
            differ(&format!("{name}[{of}]"), amount(ours), amount(theirs));
        }
    }
    let threshold = |of: Option<Threshold>| match of {
        None => "the default".to_owned(),
        Some(Threshold::Amount(amount)) => amount.to_string(),
        Some(Threshold::Percent(percent)) => format!("{percent}%"),
    };
    for (name, ours, theirs) in [
        ("memory.available", own.evict_memory, theirs.evict_memory),
        ("nodefs.available", own.evict_storage, theirs.evict_storage),
    ] {
        let name = format!("evictionHard[{name}]");
        differ(&name, threshold(ours), threshold(theirs));
    }
    if let Some(expression) = &said.max_pods_expression {
        let text = longshore_api::manifests::quoted(expression);
        out.push(format!(
            "maxPodsExpression {text} does not change how many pods nodes take, which is maxPods; \
             kubeReserved[memory] is 255 MiB and 11 MiB for each pod that it gives, not for each pod \
             of the instance type"
        ));
    }
    out
}
