//! One policy from four compilers and as an expression: components are accepted, and there is one plan.

use std::path::Path;

use longshore_xtask::guests::EXAMPLES;

use crate::cel::said;

/// The digest of a plan, by price or with a scorer.
fn digest(scorer: Option<&str>) -> String {
    let snapshot = "../../examples/clusters/web-shop.json";
    let types = "../../examples/catalogues/ec2-us-east-1.json";
    let input = ["--snapshot", snapshot, "--instance-types", types];
    let scorer = scorer.map_or_else(Vec::new, |scorer| vec!["--scorer", scorer]);
    let plan = said(&[&["plan", "-o", "json"], &input[..], &scorer].concat());
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["errors"], serde_json::json!({}));
    plan["digest"].as_str().unwrap().to_owned()
}

#[test]
fn one_policy_by_any_compiler_gives_one_plan() {
    let rust = EXAMPLES[0].build().unwrap();
    let expected = digest(rust.to_str());
    assert_ne!(expected, digest(None), "the policy changes nothing");
    let recorded = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap())
        .join("../policy/tests/data/toolchains");
    for tool in ["assemblyscript", "c", "zig"] {
        let component = recorded.join(format!("{tool}.wasm"));
        let component = component.to_str().unwrap();
        let checked = said(&["policy", "check", component]);
        assert!(checked.contains("spot-surcharge 0.1.0"), "{checked}");
        assert_eq!(digest(Some(component)), expected, "{tool}");
    }
    let expression = "cel=cost * (capacity_type == 'spot' ? 1.15 : 1.0)";
    assert_eq!(digest(Some(expression)), expected);
}
