//! The definition in `deploy/crds` is what the types give, and what upstream defines.

use expect_test::expect_file;
use longshore_ec2::nodeclass::definition;
use serde_json::{Map, Value};

#[test]
fn the_file_is_what_the_types_give() {
    // `cargo xtask crds` runs this test with UPDATE_EXPECT=1, and so writes it.
    let definition = definition();
    let file = format!("../../../deploy/crds/{}", definition.file());
    expect_file![file].assert_eq(&definition.yaml());
}

/// `vectors/ec2nodeclass-crd.json` is upstream's definition of 1.15.1 without descriptions and
/// messages. Recorded, not made: where it and our types differ, the types are wrong.
#[test]
fn the_definition_is_upstreams_but_for_prose() {
    let upstream: Value =
        serde_json::from_str(include_str!("../vectors/ec2nodeclass-crd.json")).expect("it is JSON");
    let mut ours = Vec::new();
    lines("", &bare(definition().json().clone()), &mut ours);
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
