//! What an API server would refuse of an EC2NodeClass is refused of one from a file, with place,
//! reason and hint, and nothing else is.

#[allow(dead_code, reason = "what another crate's tests ask besides")]
#[path = "../../api/tests/crd/stand_in.rs"]
mod stand_in;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use longshore_ec2::nodeclass::{self, EC2NodeClass};
use longshore_ec2::validation::rules;
use serde_json::{Value, json};

use stand_in::StandIn;

/// Changes of a spec, one a line: fields to set, `null` to leave one out. `{"times": 2, "of": x}`
/// stands for a list of x.
const REFUSED: &str = include_str!("rules/refused.jsonl");
const ACCEPTED: &str = include_str!("rules/accepted.jsonl");

fn object(change: &str) -> Value {
    let mut object = json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "changed"},
        "spec": {
            "role": "node",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"id": "subnet-1"}],
            "securityGroupSelectorTerms": [{"id": "sg-1"}],
        },
    });
    let change: Value = serde_json::from_str(change).expect("a line is JSON");
    let fields = change.as_object().expect("a line is an object");
    let spec = object["spec"].as_object_mut().expect("there is a spec");
    for (field, value) in fields {
        match value {
            Value::Null => spec.remove(field),
            value => spec.insert(field.clone(), written_out(value)),
        };
    }
    object
}

fn written_out(value: &Value) -> Value {
    match (value["times"].as_u64(), value.get("of")) {
        (Some(times), Some(one)) => (0..times).map(|_| one.clone()).collect(),
        _ => value.clone(),
    }
}

fn read(object: &Value) -> EC2NodeClass {
    let (mut classes, problems) = nodeclass::read("class.json", object.to_string().as_bytes());
    assert!(problems.is_empty(), "{problems}");
    classes.remove(0)
}

#[test]
fn what_an_api_server_would_refuse_has_place_reason_and_hint() {
    let server = StandIn::new(&nodeclass::definition());
    let (mut out, mut broken) = (String::new(), BTreeSet::new());
    for change in REFUSED.lines() {
        let object = object(change);
        let refusals = server.refusals(&object, None);
        assert!(!refusals.is_empty(), "accepted: {change}");
        broken.extend(refusals.into_iter().map(|refusal| refusal.by));
        let faults = rules(&read(&object).spec);
        assert!(!faults.is_empty(), "no fault: {change}");
        let _ = writeln!(out, "{change}");
        for fault in faults {
            let _ = writeln!(out, "  {}: {}; {}", fault.field, fault.what, fault.hint);
        }
    }
    expect_test::expect_file!["rules/refused.txt"].assert_eq(&out);
    assert!(REFUSED.lines().count() >= 60);
    // Readers refuse what is missing and unknown words.
    let mut left = server.parts();
    left.retain(|part| {
        let by_reader = part.contains(" required ") || part.ends_with(" enum");
        part.starts_with("spec") && !by_reader && !broken.contains(part)
    });
    assert!(left.is_empty(), "no line of the table breaks {left:#?}");
}

#[test]
fn what_an_api_server_accepts_has_no_fault() {
    let server = StandIn::new(&nodeclass::definition());
    for change in ACCEPTED.lines() {
        let object = object(change);
        assert_eq!(server.refusals(&object, None), [], "{change}");
        assert_eq!(rules(&read(&object).spec), [], "{change}");
    }
}
