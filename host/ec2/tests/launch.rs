//! Launch templates, compared key by key with those that Karpenter's AWS provider asks for:
//! `vectors/record_launch.py` recorded them.

#![allow(
    clippy::unwrap_used,
    reason = "a test ends where its vectors are broken"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;

use longshore_ec2::bootstrap::drift::{self, Drift};
use longshore_ec2::catalogue::{ClassCatalogue, world};
use longshore_ec2::launch::{
    CapacityType, Choice, Launch, LaunchFault, Tenancy, Texts, bootstrap_drift, templates,
};
use longshore_ec2::nodeclass::EC2NodeClass;
use serde_json::Value;

const TYPES: &[u8] = include_bytes!("../data/instance_types.json.gz");
const CASES: &[u8] = include_bytes!("../vectors/launch.jsonl.gz");

/// What differs on purpose: case, path, and why. A difference that is not listed fails the test, and
/// so does an entry that no longer differs.
const EXCEPTIONS: [(&str, &str, &str); 1] = [(
    "many types, either",
    "count of ([], \"\")",
    "Karpenter also makes templates that no override of its fleet names",
)];

fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    flate2::read::GzDecoder::new(packed)
        .read_to_end(&mut all)
        .unwrap();
    all
}

fn cases() -> Vec<Value> {
    let text = String::from_utf8(unpacked(CASES)).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Instance types and reservation of a template, and the request without its name.
type ByContent = BTreeMap<(Vec<String>, String), Vec<Value>>;

/// What Karpenter asked for.
fn recorded(case: &Value) -> ByContent {
    let mut all = ByContent::new();
    for template in case["templates"].as_array().unwrap() {
        let name = template["LaunchTemplateName"].as_str().unwrap();
        assert_eq!(
            number(name).map(|number| number.to_string().len() > 15),
            Some(true)
        );
        let types = case["types"][name].as_array().cloned().unwrap_or_default();
        let types = types.iter().map(|name| name.as_str().unwrap().to_owned());
        let mut template = template.clone();
        template
            .as_object_mut()
            .unwrap()
            .remove("LaunchTemplateName");
        let key = (types.collect(), reservation(&template));
        let of_key = all.entry(key).or_default();
        // One that was gone is made again.
        if !of_key.contains(&template) {
            of_key.push(template);
        }
    }
    all
}

/// The number in a template's name.
fn number(name: &str) -> Option<u64> {
    name.strip_prefix("karpenter.k8s.aws/")?.parse().ok()
}

fn reservation(template: &Value) -> String {
    let data = &template["LaunchTemplateData"]["CapacityReservationSpecification"];
    let id = &data["CapacityReservationTarget"]["CapacityReservationId"];
    id.as_str().unwrap_or_default().to_owned()
}

/// Hands on the launch of a case.
fn with_launch<T>(case: &Value, types: &[u8], run: impl FnOnce(&Launch<'_>) -> T) -> T {
    let text = case["world"].to_string();
    let read = world::read("world", text.as_bytes(), Some(("types", types)));
    let (world, problems) = read.unwrap_or_else(|problems| panic!("{}: {problems}", case["case"]));
    assert!(problems.list.is_empty(), "{problems}");
    let mut region = world.region;
    region.settings.expressions = flag(case, "NodeClassCEL=true");
    let catalogue = ClassCatalogue::new(&region, world.class.unwrap()).unwrap();
    let node_class: EC2NodeClass =
        serde_json::from_value(case["world"]["nodeClass"].clone()).unwrap();
    let claim = &case["world"]["nodeClaim"];
    let cluster = serde_json::from_value(case["world"]["cluster"].clone()).unwrap();
    let list = |path: &str| -> Vec<_> {
        let list = claim["spec"].get(path).cloned();
        serde_json::from_value(list.unwrap_or(Value::Array(Vec::new()))).unwrap()
    };
    let launch = Launch {
        region: &region,
        catalogue: &catalogue,
        node_class: &node_class,
        cluster: &cluster,
        labels: serde_json::from_value(claim["metadata"]["labels"].clone()).unwrap(),
        taints: [list("taints"), list("startupTaints")].concat(),
        capacity_type: capacity_type(case),
        tenancy: match required(claim, "karpenter.k8s.aws/instance-tenancy").as_slice() {
            [only] if only == "dedicated" => Tenancy::Dedicated,
            _ => Tenancy::Default,
        },
        efa: claim["spec"]["resources"]["requests"]["vpc.amazonaws.com/efa"].is_string()
            || claim["metadata"]["annotations"]["karpenter.sh/requested-dra-drivers"] == "dra.net",
        partition: required(claim, "karpenter.k8s.aws/placement-group-partition")
            .iter()
            .min()
            .map(|number| number.parse().unwrap()),
        reserved_capacity: !flag(case, "ReservedCapacity=false"),
        choices: choices(case, &region),
        texts: None,
    };
    run(&launch)
}

/// What Longshore asks for.
fn ours(launch: &Launch<'_>) -> Result<ByContent, LaunchFault> {
    let mut all = ByContent::new();
    for template in templates(launch)? {
        let name = |at: &usize| launch.region.types()[*at].name.to_string();
        let types: Vec<String> = template.types.iter().map(name).collect();
        let mut request = serde_json::to_value(&template.request).unwrap();
        let fields = request.as_object_mut().unwrap();
        let name = fields.remove("LaunchTemplateName").unwrap();
        assert!(number(name.as_str().unwrap()).is_some(), "{name}");
        let data = &mut request["LaunchTemplateData"];
        if let Some(text) = data["UserData"].as_str() {
            data["UserData"] = decoded(text).into();
        }
        let id = template.reservation.unwrap_or_default().to_string();
        all.entry((types, id)).or_default().push(request);
    }
    Ok(all)
}

fn flag(case: &Value, set: &str) -> bool {
    case["flags"]
        .as_array()
        .unwrap()
        .iter()
        .any(|one| one == set)
}

fn capacity_type(case: &Value) -> CapacityType {
    let targets = case["templates"].as_array().unwrap().iter();
    let reserved = targets.map(reservation).any(|id| !id.is_empty());
    match case["fleet"][0].as_str() {
        _ if reserved => CapacityType::Reserved,
        Some("spot") => CapacityType::Spot,
        _ => CapacityType::OnDemand,
    }
}

fn required(claim: &Value, key: &str) -> Vec<String> {
    let all = claim["spec"]["requirements"].as_array().unwrap();
    let one = all.iter().find(|one| one["key"] == key);
    one.map_or(Vec::new(), |one| {
        serde_json::from_value(one["values"].clone()).unwrap()
    })
}

/// Types that Karpenter chose from; those that the NodeClaim names where it chose from none.
fn choices(case: &Value, region: &longshore_ec2::catalogue::Region) -> Vec<Choice> {
    let mut all: BTreeMap<usize, Vec<Box<str>>> = BTreeMap::new();
    for template in case["templates"].as_array().unwrap() {
        let id: Box<str> = reservation(template).into();
        let name = template["LaunchTemplateName"].as_str().unwrap();
        for of in case["types"][name].as_array().into_iter().flatten() {
            let at = region.find(of.as_str().unwrap()).unwrap();
            all.entry(at).or_default().push(id.clone());
        }
    }
    if all.is_empty() {
        for name in required(
            &case["world"]["nodeClaim"],
            "node.kubernetes.io/instance-type",
        ) {
            all.insert(region.find(&name).unwrap(), Vec::new());
        }
    }
    let choice = |(at, reservations)| Choice { at, reservations };
    all.into_iter().map(choice).collect()
}

fn decoded(text: &str) -> String {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text);
    String::from_utf8(bytes.unwrap()).unwrap()
}

fn differences(path: &str, ours: &Value, theirs: &Value, out: &mut Vec<(String, String)>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in a {
                differences(&format!("{path}.{key}"), value, &theirs[key.as_str()], out);
            }
            for (key, value) in b.iter().filter(|(key, _)| !a.contains_key(*key)) {
                differences(&format!("{path}.{key}"), &Value::Null, value, out);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&format!("{path}[{at}]"), a, b, out);
            }
        }
        _ if ours != theirs => out.push((
            path.trim_start_matches('.').to_owned(),
            format!("ours {ours}, Karpenter's {theirs}"),
        )),
        _ => {}
    }
}

#[test]
fn templates_are_karpenters_key_by_key() {
    let types = unpacked(TYPES);
    let (mut wrong, mut used, mut compared) = (String::new(), Vec::new(), 0);
    for case in cases() {
        let name = case["case"].as_str().unwrap();
        if case.get("refused").is_some() {
            continue;
        }
        let theirs = recorded(&case);
        // Nothing was chosen.
        if theirs.is_empty() && case["error"] == "InsufficientCapacity" {
            continue;
        }
        let mut found = Vec::new();
        match with_launch(&case, &types, ours) {
            Err(fault) if theirs.is_empty() => assert_eq!(fault, LaunchFault::NoImage),
            Err(fault) => found.push((String::new(), fault.to_string())),
            Ok(ours) => {
                for (key, theirs) in &theirs {
                    let none = Vec::new();
                    let ours = ours.get(key).unwrap_or(&none);
                    if ours.len() != theirs.len() {
                        let counts = format!("ours {}, Karpenter's {}", ours.len(), theirs.len());
                        found.push((format!("count of {key:?}"), counts));
                    }
                    for (ours, theirs) in ours.iter().zip(theirs) {
                        compared += 1;
                        differences("", ours, theirs, &mut found);
                    }
                }
                for key in ours.keys().filter(|key| !theirs.contains_key(*key)) {
                    found.push((format!("{key:?}"), "is ours alone".to_owned()));
                }
            }
        }
        for (path, what) in found {
            let known = |(of, at, _): &&(&str, &str, &str)| [name, "*"].contains(of) && *at == path;
            match EXCEPTIONS.iter().position(|one| known(&one)) {
                Some(at) => used.push(at),
                None => _ = writeln!(wrong, "{name}: {path}: {what}"),
            }
        }
    }
    for (at, exception) in EXCEPTIONS.iter().enumerate() {
        if !used.contains(&at) {
            let _ = writeln!(wrong, "no longer differs: {exception:?}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(compared >= 60, "only {compared} templates");
}

#[test]
fn a_nodeclaim_drifts_from_changed_user_data_if_its_nodeclass_asks() {
    let types = unpacked(TYPES);
    let mut case = cases().swap_remove(0);
    let annotate = |case: &mut Value, value: &str| {
        case["world"]["nodeClass"]["metadata"]["annotations"] =
            serde_json::json!({ drift::DRIFTS: value });
    };
    annotate(&mut case, "true");
    let claim = with_launch(&case, &types, |launch| {
        let template = templates(launch).unwrap().swap_remove(0);
        let claim = BTreeMap::from([(drift::DIGEST.to_owned(), template.digest)]);
        let at = template.types[0];
        assert_eq!(bootstrap_drift(launch, at, &claim), Drift::Current);
        // A policy renders something else, for this type alone.
        let mut of = vec![u32::MAX; launch.region.types().len()];
        of[at] = 0;
        let texts = ["#!/bin/sh\n".to_owned()];
        let texts = Some(Texts {
            texts: &texts,
            of: &of,
        });
        let today = Launch {
            texts,
            ..launch.clone()
        };
        assert_eq!(bootstrap_drift(&today, at, &claim), Drift::Drifted);
        claim
    });
    annotate(&mut case, "false");
    with_launch(&case, &types, |launch| {
        assert_eq!(bootstrap_drift(launch, 0, &claim), Drift::NotAsked);
    });
}
