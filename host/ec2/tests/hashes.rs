//! Drift hashes are Karpenter's, number by number.

use std::fmt::Write as _;

use longshore_ec2::hash::hashes;
use serde_json::Value;

/// One case a line, recorded from `oracle-aws hash` (Karpenter 1.15.1). Recorded, not made: where
/// one and ours differ, ours is wrong.
fn recorded() -> Vec<Value> {
    let lines = include_str!("../vectors/hashes.jsonl").lines();
    lines
        .map(|line| serde_json::from_str(line).expect("it is JSON"))
        .collect()
}

#[test]
fn an_object_has_the_hash_that_karpenter_gives_it() {
    let (mut wrong, mut classes) = (String::new(), 0);
    for case in recorded() {
        let (found, problems) = hashes(
            "case",
            case["object"].to_string().as_bytes(),
            case["caBundle"].as_str(),
        );
        classes += usize::from(case["version"] == "v6");
        // Karpenter never sees this null: the API server drops it before it stores the object. Its
        // hash is that of `kubelet: {}`.
        let hash = match case["what"].as_str() {
            Some("kubelet: null") => "13426946136719322017",
            _ => case["hash"].as_str().unwrap_or_default(),
        };
        let right = found.len() == 1
            && problems.is_empty()
            && found[0].hash == hash
            && found[0].hash_version == case["version"];
        if !right {
            let _ = writeln!(wrong, "{}: {found:?} {problems}", case["what"]);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(classes >= 60, "only {classes} classes");
}

#[test]
fn what_has_no_hash_is_refused_with_place_reason_and_hint() {
    let text = include_str!("hashes/refused.yaml");
    let (found, problems) = hashes("refused.yaml", text.as_bytes(), None);
    assert_eq!(found.len(), 1, "{found:?}");
    expect_test::expect_file!["hashes/refused.txt"].assert_eq(&problems.to_string());
}
