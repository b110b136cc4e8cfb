//! What we read in user data is what the node's own readers read, and we refuse what they refuse.
//!
//! Vectors were recorded from nodeadm and the kubelet's own packages; `vectors/record_readers.py` and
//! the README of `vectors` say how.

#![allow(
    clippy::unwrap_used,
    reason = "a test ends where its vectors are broken"
)]

#[path = "readers/boots.rs"]
mod boots;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use longshore_ec2::bootstrap::{ReadBack, read_back};
use longshore_ec2::kubelet::{Base, Kubelets, effective, refused};
use longshore_ec2::nodeclass::AmiFamily;
use longshore_ec2::userdata::{Boot, Cluster, Family, Taint, duration, render, resolve};
use longshore_ec2::validation::{self, starts};
use serde_json::{Map, Value, json};

fn vectors() -> Vec<Value> {
    let lines = include_str!("../vectors/readers.jsonl").lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// What we make of a text: what it says, or why no node boots with it.
fn ours(text: &str) -> Result<ReadBack, String> {
    let said = read_back(Family::AL2023, text)?;
    let needed = [
        &said.cluster_name,
        &said.endpoint,
        &said.ca_bundle,
        &said.cidr,
    ];
    if needed.iter().any(|one| one.is_none()) {
        return Err("the cluster is missing".to_owned());
    }
    let faults = starts(&said, Base::Nodeadm, &Kubelets::of("1.36"));
    match faults.first() {
        Some(fault) => Err(format!("{} {}", fault.field, fault.what)),
        None => Ok(said),
    }
}

/// The settings that the kubelet runs with, of those that were recorded.
fn settings(said: &ReadBack) -> Map<String, Value> {
    let defaults = json!({
        "cpuCFSQuota": true, "enforceNodeAllocatable": ["pods"],
        "imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80,
        "podPidsLimit": -1, "registryPullQPS": 5, "serializeImagePulls": false,
    });
    let mut all = defaults.as_object().cloned().unwrap();
    all.extend(effective(&said.settings, Base::Nodeadm, 36));
    all
}

/// A value as it can be compared: durations and amounts are written in several ways, and what is
/// empty is not there.
fn normal(value: &Value) -> Value {
    match value {
        Value::String(text) if text.ends_with(['s', 'm', 'h']) => match duration::parse(text) {
            Some(time) => json!(time),
            None => value.clone(),
        },
        Value::Object(map) => {
            let entries = map
                .iter()
                .filter(|(_, value)| !value.is_null() && *value != "");
            entries
                .map(|(key, value)| (key.clone(), normal(value)))
                .collect()
        }
        Value::Array(items) => items.iter().map(normal).collect(),
        other => other.clone(),
    }
}

/// What differs from what was recorded.
fn differences(case: &Value, said: &Result<ReadBack, String>) -> Vec<String> {
    let said = match (case.get("refused"), said) {
        (Some(_), Err(_)) => return Vec::new(),
        (Some(reason), Ok(_)) => return vec![format!("taken, and refused by {reason}")],
        (None, Err(why)) => return vec![format!("refused, {why}, and taken by the node")],
        (None, Ok(said)) => said,
    };
    let mut out = Vec::new();
    let all = settings(said);
    let empty = |value: &Value| *value == json!({}) || *value == json!([]);
    for (key, theirs) in case["settings"].as_object().unwrap() {
        let our = all.get(key).cloned().unwrap_or_default();
        let (theirs, our) = (normal(theirs), normal(&our));
        // A kubelet of 110 pods has none set; memory by an expression is counted elsewhere.
        let by_type = key == "kubeReserved" && said.max_pods_expression.is_some();
        if theirs != our && !(our.is_null() && empty(&theirs)) && !by_type {
            out.push(format!("{key} is {our}, and {theirs} on the node"));
        }
    }
    for key in [
        "evictionHard",
        "kubeReserved",
        "systemReserved",
        "clusterDNS",
    ] {
        let there = case["settings"].get(key).is_some_and(|value| !empty(value));
        let our = all
            .get(key)
            .filter(|value| !value.is_null() && !empty(value));
        if let Some(our) = our.filter(|_| !there) {
            out.push(format!("{key} is {our}, and nothing on the node"));
        }
    }
    if let Some(labels) = case.get("labels") {
        let labels: BTreeMap<String, String> = serde_json::from_value(labels.clone()).unwrap();
        if labels != said.labels {
            out.push(format!(
                "labels are {:?}, and {labels:?} on the node",
                said.labels
            ));
        }
    }
    out
}

#[test]
fn what_we_read_in_user_data_is_what_the_node_reads() {
    let (mut out, mut boots, mut refused) = (String::new(), 0, 0);
    for case in vectors() {
        let said = ours(case["userData"].as_str().unwrap());
        match said.is_ok() {
            true => boots += 1,
            false => refused += 1,
        }
        for difference in differences(&case, &said) {
            let _ = writeln!(out, "{}: {difference}", case["name"]);
        }
    }
    assert!(out.is_empty(), "{out}");
    assert!(boots > 200 && refused > 90, "{boots} {refused}");
}

/// A node of a NodeClass of the vectors, rendered by us.
fn boot(class: &Value) -> Boot {
    let mut boot = Boot {
        cluster: Cluster {
            name: "demo".to_owned(),
            endpoint: "https://demo.eks.example".to_owned(),
            ca_bundle: "Y2EtYnVuZGxl".to_owned(),
            cidr: "10.100.0.0/16".to_owned(),
            kube_dns_ip: "10.100.0.10".to_owned(),
        },
        family: Family::AL2023,
        image_terms: Vec::new(),
        images: Vec::new(),
        labels: [("team".to_owned(), "a".to_owned())].into(),
        taints: vec![Taint {
            key: "dedicated".to_owned(),
            value: "gpu".to_owned(),
            effect: "NoSchedule".to_owned(),
            time_added: None,
        }],
        kubelet: class["kubelet"].as_object().cloned().unwrap(),
        user_data: class["userData"].as_str().map(str::to_owned),
        raid0: false,
    };
    resolve(&mut boot, 29);
    boot
}

#[test]
fn a_nodeclass_is_refused_if_its_nodes_would_not_join_and_what_we_render_reads_the_same() {
    let (mut out, mut classes, mut refused) = (String::new(), 0, 0);
    for case in vectors() {
        let Some(class) = case.get("class") else {
            continue;
        };
        classes += 1;
        let kubelet = class["kubelet"].as_object().unwrap();
        let text = class["userData"].as_str();
        let kubelets = Kubelets::of("1.36");
        let verdict = validation::node(AmiFamily::AL2023, kubelet, text, &kubelets);
        refused += usize::from(verdict.is_err());
        if verdict.is_err() != case.get("refused").is_some() {
            let _ = writeln!(out, "{}: {verdict:?}; {}", case["name"], case["refused"]);
        }
        let said = ours(&render(&boot(class)).unwrap());
        for difference in differences(&case, &said) {
            let _ = writeln!(out, "{}, rendered: {difference}", case["name"]);
        }
    }
    assert!(out.is_empty(), "{out}");
    assert!(classes >= 200 && refused > 50, "{classes} {refused}");
}

/// cloud-init 22.4.2 of Debian 12 was given these texts: it runs the script of the second, after
/// decoding it, and it stores the base64 of the third as the script.
#[test]
fn a_script_that_joins_is_read_out_of_base64_where_its_header_says_so() {
    let script = "#!/bin/bash\n/etc/eks/bootstrap.sh demo --apiserver-endpoint https://e --b64-cluster-ca Y2E= \
                  --kubelet-extra-args '--max-pods=29'\n";
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, script);
    let part = |headers: &str, text: &str| {
        format!(
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"B\"\n\n--B\n{headers}\n\n{text}\n--B--\n"
        )
    };
    let kind = "Content-Type: Text/X-ShellScript; charset=\"utf-8\"";
    let header = format!("{kind}\nContent-Transfer-Encoding: base64");
    for (text, boots) in [
        (part(kind, script), true),
        (part(&header, &encoded), true),
        (part(kind, &encoded), false),
        (part("Content-Type: text/plain", script), true),
        (part("X-A: b", script), true),
        (part("Content-Type: text/cloud-config", script), false),
    ] {
        let said = read_back(Family::AL2, &text);
        assert_eq!(said.is_ok(), boots, "{text}\n{said:?}");
        assert!(said.is_err() || said.unwrap().kubelet.max_pods == Some(29));
    }
}

/// `vectors/al2.jsonl` has 49 user data of AL2 as Karpenter renders them and 60 generated ones, with
/// the arguments of every call of bootstrap.sh. They were recorded from cloud-init 22.4.2 of Debian 12,
/// which took the archives apart into scripts, and from bash 5.2, which ran these in the order of their
/// names. In the place of bootstrap.sh and of a node's other programs stood scripts that do nothing; the
/// first noted its arguments.
#[test]
fn a_node_of_al2_joins_with_the_call_that_cloud_init_and_bash_make() {
    let (mut out, mut joins, mut never) = (String::new(), 0, 0);
    for line in include_str!("../vectors/al2.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let calls: Vec<Vec<String>> = serde_json::from_value(case["calls"].clone()).unwrap();
        let said = read_back(Family::AL2, case["userData"].as_str().unwrap());
        let Some(call) = calls.last() else {
            never += 1;
            if said.is_ok() {
                let _ = writeln!(out, "{}: taken, and no node joins", case["name"]);
            }
            continue;
        };
        joins += 1;
        let words = shlex::try_join(call.iter().map(String::as_str)).unwrap();
        let alone = format!("#!/bin/bash\n/etc/eks/bootstrap.sh {words}\n");
        let theirs = read_back(Family::AL2, &alone);
        let after = |option: &str| {
            let at = call.iter().position(|word| word == option)?;
            call.get(at + 1).cloned()
        };
        let endpoint = theirs.as_ref().ok().and_then(|said| said.endpoint.clone());
        if said != theirs || endpoint != after("--apiserver-endpoint") {
            let _ = writeln!(out, "{}: {said:?}, and {theirs:?}", case["name"]);
        }
    }
    assert!(out.is_empty(), "{out}");
    assert!(joins >= 95 && never >= 9, "{joins} {never}");
}

/// Settings that `ValidateKubeletConfiguration` passes, and that the kubelet refuses afterwards.
const LATER: [&str; 4] = [
    "containerLogMaxFiles",
    "containerLogMaxSize",
    "qosReserved",
    "syncFrequency",
];

#[test]
fn a_setting_is_refused_exactly_if_the_kubelet_of_the_version_refuses_it() {
    let (mut out, mut refusals) = (String::new(), BTreeSet::new());
    let files = [
        include_str!("../vectors/kubelet.jsonl"),
        include_str!("../vectors/kubelet_start.jsonl"),
    ];
    for line in files.into_iter().flat_map(str::lines) {
        let case: Value = serde_json::from_str(line).unwrap();
        let settings = case["settings"].as_object().unwrap();
        let base = match case["base"] == "nodeadm" {
            true => Base::Nodeadm,
            false => Base::Bare,
        };
        let later = settings.keys().any(|key| LATER.contains(&key.as_str()));
        for version in ["1.36", "1.37"] {
            let Some(reason) = case[version].as_str() else {
                continue;
            };
            let faults = refused(settings, base, &Kubelets::of(version));
            // Those of the start have their words in `boots/kubelet.txt`.
            let worded = case.get("1.37").is_some();
            if faults.is_empty() == reason.is_empty() && !worded {
                continue;
            }
            if faults.is_empty() == reason.is_empty() {
                refusals.extend(
                    faults
                        .into_iter()
                        .map(|fault| format!("{}: {}; {}", fault.field, fault.what, fault.hint)),
                );
            } else if !(later && reason.is_empty()) {
                let _ = writeln!(
                    out,
                    "{version} {} {settings:?}: {faults:?}; {reason}",
                    case["base"]
                );
            }
        }
    }
    assert!(out.is_empty(), "{out}");
    let refusals: Vec<String> = refusals.into_iter().collect();
    expect_test::expect_file!["readers/refusals.txt"].assert_eq(&(refusals.join("\n") + "\n"));
}
