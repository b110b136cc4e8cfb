use std::fmt::Write as _;

use expect_test::expect;

use super::*;

const LEAST: &str = "
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: one}
spec:
  requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}]
";

fn said(texts: &[String]) -> String {
    let mut out = String::new();
    for text in texts {
        let mut names = Symbols::default();
        let (found, problems) =
            overlays("o.yaml", text.as_bytes(), &["nvidia.com/gpu"], &mut names);
        for overlay in found {
            let keys = overlay.requirements.iter().map(|one| names.text(one.key));
            let keys: Vec<&str> = keys.collect();
            let capacity = overlay.capacity.iter();
            let capacity: Vec<_> = capacity.map(|(of, n)| (of.name(&names), n)).collect();
            let name = names.text(overlay.name);
            let (price, weight) = (overlay.price, overlay.weight);
            let _ = writeln!(
                out,
                "{name}: {keys:?} {price:?} {capacity:?} weight {weight}"
            );
        }
        let _ = write!(out, "{problems}");
    }
    out
}

fn with(line: &str) -> String {
    format!("{LEAST}  {line}\n")
}

fn requiring(requirement: &str) -> String {
    LEAST.replace(
        "{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}",
        requirement,
    )
}

#[test]
fn an_overlay_becomes_a_record() {
    expect![[r#"
        one: ["node.kubernetes.io/instance-type"] None [] weight 0
        one: ["node.kubernetes.io/instance-type"] Some(Set(0.071)) [] weight 0
        one: ["node.kubernetes.io/instance-type"] Some(Percent(-10.0)) [] weight 0
        one: ["node.kubernetes.io/instance-type"] Some(Add(0.5)) [] weight 0
        one: ["node.kubernetes.io/instance-type"] Some(Percent(-100.0)) [] weight 0
        one: ["node.kubernetes.io/instance-type"] None [("example.com/x", 4), ("hugepages-2Mi", 1073741824)] weight 10000
        one: ["karpenter.sh/nodepool"] None [] weight 0
        one: ["kubernetes.io/arch"] None [] weight 0
    "#]].assert_eq(&said(&[
        LEAST.to_owned(),
        with("price: \"0.071\""),
        with("priceAdjustment: \"-10%\""),
        with("priceAdjustment: \"+.5\""),
        with("priceAdjustment: \"-100%\""),
        with("capacity: {example.com/x: \"4\", hugepages-2Mi: 1Gi}\n  weight: 10000"),
        requiring("{key: karpenter.sh/nodepool, operator: NotIn, values: [a]}"),
        requiring("{key: beta.kubernetes.io/arch, operator: Exists}"),
        "kind: Pod\n".to_owned(),
    ]));
}

#[test]
fn an_overlay_that_cannot_be_used_says_where_why_and_what_to_do() {
    expect![[r#"
        one: ["node.kubernetes.io/instance-type"] None [] weight 0
        o.yaml:8 (document 2): NodeOverlay one: is there twice; remove one; the first is used
        o.yaml:2 (document 1): NodeOverlay one: apiVersion: `karpenter.sh/v1` is not read; write karpenter.sh/v1alpha1
        o.yaml:4 (document 1): NodeOverlay: metadata.name: is missing; give it one
        o.yaml:6 (document 1): NodeOverlay one: spec.requirement: is not a known field; remove it, or correct its spelling; kubectl apply refuses it
        o.yaml:7 (document 1): NodeOverlay one: spec.price: invalid type: integer `5`, expected a string; put the value in quotes
        o.yaml:7 (document 1): NodeOverlay one: spec.price: `-5` is not a price; write USD per hour like "0.071"
        o.yaml:7 (document 1): NodeOverlay one: spec.price: `5.` is not a price; write USD per hour like "0.071"
        o.yaml:7 (document 1): NodeOverlay one: spec.price: `1e3` is not a price; write USD per hour like "0.071"
        o.yaml:8 (document 1): NodeOverlay one: spec.priceAdjustment: stands beside a price; give one of them
        o.yaml:7 (document 1): NodeOverlay one: spec.priceAdjustment: `10%` is not an adjustment; write a sign and USD per hour or percent, down to -100%: "-0.01", "+10%"
        o.yaml:7 (document 1): NodeOverlay one: spec.priceAdjustment: `-101%` is not an adjustment; write a sign and USD per hour or percent, down to -100%: "-0.01", "+10%"
        o.yaml:7 (document 1): NodeOverlay one: spec.priceAdjustment: `+` is not an adjustment; write a sign and USD per hour or percent, down to -100%: "-0.01", "+10%"
        o.yaml:7 (document 1): NodeOverlay one: spec.weight: 0 is out of range; give 1 to 10000, or leave it out for 0
        o.yaml:7 (document 1): NodeOverlay one: spec.weight: 10001 is out of range; give 1 to 10000, or leave it out for 0
        o.yaml:7 (document 1): NodeOverlay one: spec.capacity[cpu]: is known from the cloud; an overlay adds other resources
        o.yaml:7 (document 1): NodeOverlay one: spec.capacity[nvidia.com/gpu]: is known from the cloud; an overlay adds other resources
        o.yaml:7 (document 1): NodeOverlay one: spec.capacity[example.com/x]: is negative; write it like 4 or 1Gi
        o.yaml:7 (document 1): NodeOverlay one: spec.capacity[example.com/x]: does not start with a number; write it like 4 or 1Gi
        o.yaml:6 (document 1): NodeOverlay one: spec.requirements[0].values: In has no values; list at least one value, or use Exists or DoesNotExist
        o.yaml:6 (document 1): NodeOverlay one: spec.requirements[0].values: NotIn has no values; list at least one value, or use Exists or DoesNotExist
        o.yaml:6 (document 1): NodeOverlay one: spec.requirements[0].values: Gt has no single bound; give one whole number from 0 on
        o.yaml:6 (document 1): NodeOverlay one: spec.requirements[0].values: Lte has no single bound; give one whole number from 0 on
        o.yaml:6 (document 1): NodeOverlay one: spec.requirements[0].operator: unknown variant `Is`, expected one of `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`, `Gte`, `Lte`
        o.yaml:6 (document 1): NodeOverlay one: spec.requirements[0].values: `b c` is not a label value; at most 63 letters, digits, `-`, `_` and `.`, first and last a letter or digit
        o.yaml:6 (document 1): NodeOverlay one: spec.requirements[0].minValues: is not a known field; remove it, or correct its spelling; kubectl apply refuses it
        o.yaml:6 (document 1): NodeOverlay one: spec.requirements[0].key: `a b` is not a label key; write it like team or example.com/team
        o.yaml:6 (document 1): NodeOverlay one: spec.requirements[0].key: label `kubernetes.io/hostname` is restricted: kubernetes.io/hostname differs from node to node; use another label
        o.yaml:6 (document 1): NodeOverlay one: spec.requirements: has 101 entries; an overlay takes at most 100
    "#]].assert_eq(&said(&[
        format!("{LEAST}---{LEAST}"),
        LEAST.replace("v1alpha1", "v1"),
        LEAST.replace("name: one", ""),
        LEAST.replace("requirements", "requirement"),
        with("price: 5"),
        with("price: \"-5\""),
        with("price: \"5.\""),
        with("price: \"1e3\""),
        with("price: \"1\"\n  priceAdjustment: \"+1\""),
        with("priceAdjustment: \"10%\""),
        with("priceAdjustment: \"-101%\""),
        with("priceAdjustment: \"+\""),
        with("weight: 0"),
        with("weight: 10001"),
        with("capacity: {cpu: \"1\"}"),
        with("capacity: {nvidia.com/gpu: \"1\"}"),
        with("capacity: {example.com/x: \"-1\"}"),
        with("capacity: {example.com/x: many}"),
        requiring("{key: a, operator: In}"),
        requiring("{key: a, operator: NotIn}"),
        requiring("{key: a, operator: Gt, values: [\"1\", \"2\"]}"),
        requiring("{key: a, operator: Lte, values: [\"-1\"]}"),
        requiring("{key: a, operator: Is, values: [b]}"),
        requiring("{key: a, operator: In, values: [\"b c\"]}"),
        requiring("{key: a, operator: In, values: [b], minValues: 1}"),
        requiring("{key: \"a b\", operator: Exists}"),
        requiring("{key: kubernetes.io/hostname, operator: Exists}"),
        requiring(&["{key: a, operator: Exists}"; 101].join(", ")),
    ]));
}
