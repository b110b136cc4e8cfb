use expect_test::{Expect, expect};

use super::*;

const LEAST: &str = "
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{id: sg-1}]
";

fn one(text: &str) -> EC2NodeClass {
    let (mut classes, problems) = read("class.yaml", text.as_bytes());
    assert!(problems.is_empty(), "{problems}");
    classes.remove(0)
}

#[test]
fn defaults_are_the_schemas() {
    let class = one(LEAST);
    assert_eq!(class.spec.metadata_options, MetadataOptions::default());
    assert_eq!(class.spec.family(), AmiFamily::AL2023);
    assert!(class.spec.alias().is_some_and(|alias| alias.is_latest()));
    assert!(class.spec.kubelet().is_empty() && class.spec.tags().is_empty());
    assert!(!class.spec.enclaves());
    let part = one(&LEAST.replace("role:", "metadataOptions: {httpTokens: optional}\n  role:"));
    assert_eq!(
        part.spec.metadata_options,
        MetadataOptions {
            http_tokens: HttpTokens::Optional,
            ..MetadataOptions::default()
        }
    );
}

#[test]
fn what_was_read_is_written_again() {
    let text = include_str!("../../vectors/nodeclass-full.json");
    let class = one(text);
    let before: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_value(&class).unwrap(), before);
}

#[test]
fn the_whole_object_has_every_field_of_the_definition() {
    fn missing(path: &str, schema: &Value, value: &Value, out: &mut Vec<String>) {
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            // A term has one of several fields; together the terms have all.
            let values: Vec<&Value> = match value {
                Value::Array(items) => items.iter().filter_map(|item| item.get(name)).collect(),
                value => value.get(name).into_iter().collect(),
            };
            if values.is_empty() && path != ".metadata" {
                out.push(path.clone());
            }
            let below = if schema["items"].is_object() {
                let all = values.iter().filter_map(|v| v.as_array()).flatten();
                missing(
                    &path,
                    &schema["items"],
                    &all.cloned().collect::<Vec<_>>().into(),
                    out,
                );
                continue;
            } else {
                values.first().copied().unwrap_or(&Value::Null)
            };
            missing(&path, schema, below, out);
        }
    }
    let whole: Value =
        serde_json::from_str(include_str!("../../vectors/nodeclass-full.json")).unwrap();
    let mut out = Vec::new();
    missing("", definition().schema(), &whole, &mut out);
    // A role excludes a profile, and a group's name its ID.
    assert_eq!(
        out,
        [".spec.instanceProfile", ".spec.placementGroupSelector.id"]
    );
}

fn refused(change: (&str, &str), expected: Expect) {
    let text = LEAST.replace(change.0, change.1);
    assert_ne!(text, LEAST, "{change:?}");
    let (classes, problems) = read("class.yaml", text.as_bytes());
    assert!(classes.is_empty());
    expected.assert_eq(&problems.to_string());
}

#[test]
fn an_object_that_cannot_be_read_is_refused_with_place_reason_and_hint() {
    refused(
        ("role: nodes", "role: 5"),
        expect![[r#"
        class.yaml:6 (document 1): EC2NodeClass default: spec.role: invalid type: integer `5`, expected a string; put the value in quotes
    "#]],
    );
    refused(
        ("role: nodes", "rolle: nodes"),
        expect![[r#"
            class.yaml:6 (document 1): EC2NodeClass default: spec.rolle: is not a known field; remove it, or correct its spelling; kubectl apply refuses it
        "#]],
    );
    refused(
        ("{id: sg-1}", "{id: sg-1, names: x}"),
        expect![[r#"
            class.yaml:9 (document 1): EC2NodeClass default: spec.securityGroupSelectorTerms[0].names: is not a known field; remove it, or correct its spelling; kubectl apply refuses it
        "#]],
    );
    refused(
        ("role: nodes", "role: nodes\n  amiFamily: Ubuntu"),
        expect![[r#"
            class.yaml:7 (document 1): EC2NodeClass default: spec.amiFamily: unknown variant `Ubuntu`, expected one of `AL2`, `AL2023`, `Bottlerocket`, `Custom`, `Windows2019`, `Windows2022`, `Windows2025`
        "#]],
    );
    refused(
        ("{karpenter.sh/discovery: demo}", "[demo]"),
        expect![[r#"
            class.yaml:8 (document 1): EC2NodeClass default: spec.subnetSelectorTerms[0].tags: invalid type: sequence, expected a map; write it as `key: value`
        "#]],
    );
    refused(
        (
            "role: nodes",
            "role: nodes\n  blockDeviceMappings: [{ebs: {volumeType: gp4}}]",
        ),
        expect![[r#"
            class.yaml:7 (document 1): EC2NodeClass default: spec.blockDeviceMappings[0].ebs.volumeType: unknown variant `gp4`, expected one of `standard`, `io1`, `io2`, `gp2`, `sc1`, `st1`, `gp3`
        "#]],
    );
    refused(
        ("role: nodes", "role: nodes\n  ipPrefixCount: 1.5"),
        expect![[r#"
            class.yaml:7 (document 1): EC2NodeClass default: spec.ipPrefixCount: invalid type: floating point `1.5`, expected i32; write a whole number without quotes
        "#]],
    );
    refused(
        ("name: default", "nam: default"),
        expect![[r#"
        class.yaml:4 (document 1): EC2NodeClass: metadata.nam: is not a known field; remove it, or correct its spelling
    "#]],
    );
    refused(
        ("karpenter.k8s.aws/v1", "karpenter.k8s.aws/v1beta1"),
        expect![[r#"
            class.yaml:2 (document 1): EC2NodeClass default: apiVersion: `karpenter.k8s.aws/v1beta1` is not read; convert it to karpenter.k8s.aws/v1
        "#]],
    );
    refused(
        (
            "  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]\n",
            "",
        ),
        expect![[r#"
            class.yaml:6 (document 1): EC2NodeClass default: spec: missing field `subnetSelectorTerms`; add it
        "#]],
    );
}

#[test]
fn a_list_is_no_structure() {
    for list in [
        "blockDeviceMappings: [[/dev/xvda]]",
        "metadataOptions: []",
        "placementGroupSelector: []",
        "cpuOptions: []",
        "kubelet: []",
    ] {
        let text = LEAST.replace("role: nodes", &format!("role: nodes\n  {list}"));
        let (classes, problems) = read("class.yaml", text.as_bytes());
        let field = list.split(':').next().unwrap();
        let said = problems.to_string();
        assert!(classes.is_empty() && said.contains(field), "{list}: {said}");
    }
}
