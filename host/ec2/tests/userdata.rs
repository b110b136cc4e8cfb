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

/// How many pairs are equal, from the first on.
fn same<'a>(pairs: impl Iterator<Item = (&'a &'a str, &'a &'a str)>) -> usize {
    pairs.take_while(|(theirs, ours)| theirs == ours).count()
}

/// Lines of two texts that are not the same, between what both begin and end with.
fn changed(theirs: &str, ours: &str) -> String {
    let theirs: Vec<&str> = theirs.lines().collect();
    let ours: Vec<&str> = ours.lines().collect();
    let first = same(theirs.iter().zip(&ours));
    let last = same(theirs[first..].iter().rev().zip(ours[first..].iter().rev()));
    let mut out = String::new();
    for (sign, lines) in [('-', &theirs), ('+', &ours)] {
        for line in &lines[first..lines.len() - last] {
            let _ = writeln!(out, "  {sign} {line}");
        }
    }
    out
}

/// Equal to Karpenter, but for what its nodes would not boot with, or lose without a word: the file
/// has each of these differences, Karpenter's lines with `-` and ours with `+`.
#[test]
fn a_node_boots_with_the_text_that_karpenter_gives_it_or_the_difference_is_meant() {
    let (mut out, mut equal) = (String::new(), 0);
    for case in recorded() {
        let node = case["node"].to_string();
        let (found, problems) = nodes("case", node.as_bytes());
        assert!(problems.is_empty() && found.len() == 1, "{problems}");
        let (one, theirs) = (&found[0], case["userData"].as_str());
        match (theirs, one.error.as_str()) {
            (None, error) if !error.is_empty() => equal += 1,
            (Some(theirs), "") if *theirs == one.user_data => equal += 1,
            (Some(_), error) if !error.is_empty() => {
                let _ = writeln!(out, "{}\n  refused: {error}", one.name);
            }
            (theirs, _) => {
                let theirs = theirs.unwrap_or("refused");
                let _ = write!(out, "{}\n{}", one.name, changed(theirs, &one.user_data));
            }
        }
    }
    assert!(equal >= 300, "only {equal} cases");
    expect_test::expect_file!["userdata/differences.txt"].assert_eq(&out);
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
