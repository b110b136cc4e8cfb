//! The definitions in `deploy/crds` are what the types give, and what upstream defines.

use std::fmt::Write as _;

use expect_test::expect_file;
use longshore_api::crd::definition::{self, Definition};
use serde_json::{Map, Value};

#[test]
fn the_files_are_what_the_types_give() {
    // `cargo xtask crds` runs this test with UPDATE_EXPECT=1, and so writes them.
    for definition in definition::all() {
        let file = format!("../../../deploy/crds/{}", definition.file());
        expect_file![file].assert_eq(&definition.yaml());
    }
}

#[test]
fn the_files_read_as_the_definitions() {
    for definition in definition::all() {
        let read: Value = serde_norway::from_str(&definition.yaml()).expect("it is YAML");
        assert_eq!(&read, definition.json(), "{}", definition.name());
    }
}

#[test]
fn no_other_definition_is_shipped() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap() + "/../../deploy/crds";
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let mut files: Vec<_> = files
        .map(|file| file.expect("it has a name").file_name())
        .collect();
    files.sort();
    // `longshore-ec2` has it, with a test of its own.
    let ec2 = "karpenter.k8s.aws_ec2nodeclasses.yaml".into();
    let ours = definition::all();
    let mut ours: Vec<std::ffi::OsString> = ours.iter().map(|d| d.file().into()).collect();
    ours.push(ec2);
    ours.sort();
    assert_eq!(files, ours);
}

#[test]
fn the_definitions_are_upstreams_but_for_prose() {
    let upstream = include_str!("crd/upstream.txt");
    let recorded: Vec<&str> = upstream.split("\n\n").skip(1).map(str::trim).collect();
    let ours: Vec<String> = definition::all().iter().map(shape).collect();
    let lines = |part: &str| part.trim().lines().map(str::to_owned).collect::<Vec<_>>();
    let (ours, recorded): (Vec<_>, Vec<_>) = (
        ours.iter().map(|part| lines(part)).collect(),
        recorded.iter().map(|part| lines(part)).collect(),
    );
    for (ours, recorded) in ours.iter().zip(&recorded) {
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
            "{}\nmissing: {missing:#?}\nextra: {extra:#?}",
            ours[0]
        );
    }
    assert_eq!(ours, recorded);
}

#[test]
fn everything_is_described_and_every_rule_says_what_it_wants() {
    fn visit(path: &str, schema: &Value, undescribed: &mut Vec<String>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            // What stands at the top describes itself, and metadata must not be described.
            let top = [".spec", ".status", ".metadata"]
                .iter()
                .any(|name| path.ends_with(name));
            if !property["description"].is_string() && !top {
                undescribed.push(path.clone());
            }
            visit(&path, property, undescribed);
        }
        for rule in schema["x-kubernetes-validations"]
            .as_array()
            .into_iter()
            .flatten()
        {
            if !rule["message"].is_string() {
                undescribed.push(format!("{path}: {}", rule["rule"]));
            }
        }
        if schema["items"].is_object() {
            visit(&format!("{path}[]"), &schema["items"], undescribed);
        }
    }
    let mut undescribed = Vec::new();
    for definition in definition::all() {
        visit(definition.name(), definition.schema(), &mut undescribed);
        let text = definition.yaml();
        assert!(
            !text.contains("[`") && !text.contains("super::"),
            "{} points into the code",
            definition.name()
        );
    }
    assert!(undescribed.is_empty(), "{undescribed:#?}");
}

/// A definition as `upstream.txt` has it.
fn shape(definition: &Definition) -> String {
    let mut out = format!("# {}\n", definition.name());
    let spec = &definition.json()["spec"];
    for part in ["group", "scope", "names"] {
        let _ = writeln!(out, "{part} {}", spec[part]);
    }
    let others = |fields: &Value, but: &[&str]| -> Map<String, Value> {
        let fields = fields
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| !but.contains(&key.as_str()));
        fields
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    assert_eq!(
        others(spec, &["group", "scope", "names", "versions"]),
        Map::new()
    );
    assert_eq!(spec["versions"].as_array().map(Vec::len), Some(1));
    let version = &spec["versions"][0];
    let rest = others(version, &["additionalPrinterColumns", "schema"]);
    let _ = writeln!(out, "version {}", Value::Object(rest));
    for column in version["additionalPrinterColumns"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let _ = writeln!(out, "column {column}");
    }
    assert_eq!(others(&version["schema"], &["openAPIV3Schema"]), Map::new());
    shape_of(&mut out, "schema", definition.schema());
    out
}

fn shape_of(out: &mut String, path: &str, schema: &Value) {
    let mut own = Map::new();
    for (key, value) in schema.as_object().into_iter().flatten() {
        let mut value = value.clone();
        match key.as_str() {
            "description" | "properties" | "items" | "additionalProperties" => continue,
            "x-kubernetes-validations" => {
                let rules = value
                    .as_array_mut()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_object_mut);
                rules.for_each(|rule| drop(rule.remove("message")));
            }
            "required" => {
                let names = value.as_array_mut().expect("a list of names");
                names.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
            }
            _ => {}
        }
        own.insert(key.clone(), value);
    }
    let _ = writeln!(out, "{path} {}", Value::Object(own));
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        shape_of(out, &format!("{path}.{name}"), property);
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[key].is_object() {
            shape_of(out, &format!("{path}{mark}"), &schema[key]);
        }
    }
}
