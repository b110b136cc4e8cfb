//! User data is Karpenter's, byte for byte.

use std::fmt::Write as _;

use longshore_ec2::userdata::nodes;
use serde_json::Value;

/// One case a line, recorded from `oracle-aws userdata` (Karpenter 1.15.1). Recorded, not made. In
/// arguments of the kubelet, maps are sorted: Karpenter's order is random.
fn recorded() -> Vec<Value> {
    let lines = include_str!("../vectors/userdata.jsonl").lines();
    lines
        .map(|line| serde_json::from_str(line).expect("it is JSON"))
        .collect()
}

#[test]
fn a_node_boots_with_the_text_that_karpenter_gives_it() {
    let (mut wrong, mut equal) = (String::new(), 0);
    for case in recorded() {
        let node = case["node"].to_string();
        let (found, problems) = nodes("case", node.as_bytes());
        let name = case["node"]["name"].as_str().unwrap_or_default();
        let right = match (&found[..], case["userData"].as_str()) {
            ([one], Some(text)) => one.error.is_empty() && one.user_data == text,
            ([one], None) => !one.error.is_empty() && one.user_data.is_empty(),
            _ => false,
        };
        if right && problems.is_empty() {
            equal += 1;
        } else {
            let expected = &case["userData"];
            let _ = writeln!(wrong, "{name}: {found:?} {problems}\n  {expected}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(equal >= 300, "only {equal} cases");
}

#[test]
fn what_cannot_be_rendered_is_refused_with_place_reason_and_hint() {
    let mut out = String::new();
    for case in recorded().iter().filter(|case| case["refused"] == true) {
        let (found, _) = nodes("node.json", case["node"].to_string().as_bytes());
        for one in found {
            let _ = writeln!(out, "{}", one.error);
        }
    }
    expect_test::expect_file!["userdata/refused.txt"].assert_eq(&out);
}

#[test]
fn a_document_that_is_no_node_is_reported() {
    let text = "name: fine\namiFamily: Custom\n---\nname: a\nfamily: AL2\n---\nname: b\namiFamily: \
                Ubuntu\n---\nname: c\nlabels: [a]\n---\n[1, 2]\n---\nname: d\nkubelet: 5\n---\nname: \
                e\nresolve: \"yes\"\n---\nname: f\n  x: [\n";
    let (found, problems) = nodes("nodes.yaml", text.as_bytes());
    assert_eq!(found.len(), 1, "{found:?}");
    expect_test::expect_file!["userdata/no-nodes.txt"].assert_eq(&problems.to_string());
}
