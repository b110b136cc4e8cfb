//! Definitions for EC2 in `deploy` are what the types give, and what upstream defines.

use std::collections::BTreeSet;

use expect_test::expect_file;
use longshore_ec2::definitions;
use longshore_ec2::nodeclass::definition;
use serde_json::{Map, Value};

#[test]
fn the_files_are_what_the_types_give() {
    // `cargo xtask crds` runs this test with UPDATE_EXPECT=1, and so writes them.
    let definition = definition();
    let file = format!("../../../deploy/crds/{}", definition.file());
    expect_file![file].assert_eq(&definition.yaml());
    for definition in definitions::all() {
        let file = format!("../../../deploy/crds-aws/{}", definition.file());
        expect_file![file].assert_eq(&definition.yaml());
    }
}

/// `vectors/label-rules.json` has the rules that the chart of Karpenter's AWS provider adds to the
/// definitions of its core. Recorded, not made.
#[test]
fn labels_under_karpenter_k8s_aws_are_those_that_upstream_allows() {
    let upstream: Map<String, Value> =
        serde_json::from_str(include_str!("../vectors/label-rules.json")).expect("it is JSON");
    let of_ec2 = definitions::all();
    let names: Vec<&str> = of_ec2.iter().map(|definition| definition.name()).collect();
    assert_eq!(
        names,
        upstream.keys().map(String::as_str).collect::<Vec<_>>()
    );
    for definition in &of_ec2 {
        for (at, rule) in upstream[definition.name()]
            .as_object()
            .expect("rules by place")
        {
            let ours = definition.schema().pointer(at).and_then(Value::as_array);
            let ours = ours
                .and_then(|rules| rules.last())
                .map(|rule| &rule["rule"]);
            let (ours, theirs) = (ours.and_then(Value::as_str), rule.as_str());
            let (ours, theirs) = (ours.expect("a rule"), theirs.expect("a rule"));
            assert_eq!(quoted(ours), quoted(theirs), "{} {at}", definition.name());
            assert_eq!(frame(ours), frame(theirs), "{} {at}", definition.name());
        }
    }
}

/// Texts in quotes.
fn quoted(rule: &str) -> BTreeSet<&str> {
    rule.split('"').skip(1).step_by(2).collect()
}

/// A rule without its list.
fn frame(rule: &str) -> String {
    let (before, rest) = rule.split_once('[').expect("a list");
    let (_, after) = rest.split_once(']').expect("its end");
    format!("{before}[]{after}")
}

/// `vectors/ec2nodeclass-crd.json` is upstream's definition of 1.15.1 without descriptions and
/// messages. Recorded, not made: where it and our types differ, the types are wrong.
#[test]
fn the_definition_is_upstreams_but_for_prose() {
    let upstream: Value =
        serde_json::from_str(include_str!("../vectors/ec2nodeclass-crd.json")).expect("it is JSON");
    let mut ours = Vec::new();
    let mut bared = bare(definition().json().clone());
    // What keeps it in a cluster is ours.
    let metadata = bared["metadata"].as_object_mut().expect("metadata");
    metadata.remove("annotations").expect("annotations");
    lines("", &bared, &mut ours);
    let mut recorded = Vec::new();
    lines("", &bare(upstream), &mut recorded);
    let missing: Vec<_> = recorded
        .iter()
        .filter(|line| !ours.contains(line))
        .collect();
    let extra: Vec<_> = ours
        .iter()
        .filter(|line| !recorded.contains(line))
        .collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "missing: {missing:#?}\nextra: {extra:#?}"
    );
}

#[test]
fn everything_is_described_and_every_rule_says_what_it_wants() {
    fn visit(path: &str, schema: &Value, out: &mut Vec<String>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            let top = [".spec", ".status", ".metadata"].contains(&path.as_str());
            if !property["description"].is_string() && !top {
                out.push(path.clone());
            }
            visit(&path, property, out);
        }
        for rule in schema["x-kubernetes-validations"]
            .as_array()
            .into_iter()
            .flatten()
        {
            if !rule["message"].is_string() {
                out.push(format!("{path}: {}", rule["rule"]));
            }
        }
        if schema["items"].is_object() {
            visit(&format!("{path}[]"), &schema["items"], out);
        }
    }
    let mut undescribed = Vec::new();
    visit("", definition().schema(), &mut undescribed);
    assert_eq!(undescribed, Vec::<String>::new());
    let text = definition().yaml();
    assert!(!text.contains("[`") && !text.contains("super::"));
}

/// Without prose, and with the names of required fields sorted.
fn bare(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let schema = fields.contains_key("type") || fields.contains_key("rule");
            let mut out = Map::new();
            for (key, value) in fields {
                let prose = key == "description" || key == "message";
                if schema && prose && value.is_string() {
                    continue;
                }
                let mut value = bare(value);
                if let (true, Value::Array(names)) = (key == "required", &mut value) {
                    names.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
                }
                out.insert(key, value);
            }
            Value::Object(out)
        }
        Value::Array(items) => items.into_iter().map(bare).collect(),
        other => other,
    }
}

fn lines(path: &str, value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => fields
            .iter()
            .for_each(|(key, value)| lines(&format!("{path}/{key}"), value, out)),
        Value::Array(items) if !items.is_empty() => items
            .iter()
            .enumerate()
            .for_each(|(at, value)| lines(&format!("{path}/{at}"), value, out)),
        leaf => out.push(format!("{path} {leaf}")),
    }
}
