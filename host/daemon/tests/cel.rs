//! Expressions on the command line: from one to a configuration that works, and what is wrong with one.

use std::path::PathBuf;
use std::process::{Command, Output};

use expect_test::expect;

const EXPRESSION: &str = "cost * 0.9 + (capacity_type == 'spot' ? 0.02 : 0.0)";

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longshore"))
        .current_dir(std::env::var("CARGO_MANIFEST_DIR").unwrap())
        .args(args)
        .output()
        .expect("longshore starts")
}

/// What it says if it is content.
pub fn said(args: &[&str]) -> String {
    let output = run(args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    String::from_utf8(output.stdout).unwrap()
}

pub fn refused(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8(output.stderr).unwrap()
}

fn file(name: &str, content: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cel");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(name);
    std::fs::write(&file, content).unwrap();
    file
}

#[test]
fn an_expression_becomes_a_configuration_that_plans() {
    let config = file("new.toml", &said(&["policy", "new", "--cel", EXPRESSION]));
    let config = config.to_str().unwrap();
    expect![[r#"
        cel          cel 0.1.0, cel (in this binary)
        accepted     {"expression":"cost * 0.9 + (capacity_type == 'spot' ? 0.02 : 0.0)"}
        reads        cost, capacity_type
    "#]]
    .assert_eq(&said(&["policy", "check", "--config", config]));

    let plan = ["plan", "-o", "json", "--snapshot", "tests/data/small.yaml"];
    let json = |more: &[&str]| -> serde_json::Value {
        serde_json::from_str(&said(&[&plan, more].concat())).unwrap()
    };
    let configured = json(&["--config", config]);
    let typed = json(&["--scorer", &format!("cel={EXPRESSION}")]);
    assert_eq!(configured["claims"], typed["claims"]);
    let claims = configured["claims"].as_array().unwrap();
    assert!(!claims.is_empty());
    for claim in claims {
        let (offering, effective) = (&claim["offering"], claim["effective"].as_f64().unwrap());
        let is_spot = offering["capacityType"] == "spot";
        let surcharge = if is_spot { 0.02 } else { 0.0 };
        let expected = offering["price"].as_f64().unwrap() * 0.9 + surcharge;
        assert!((effective - expected).abs() < 1e-9, "{claim}");
    }
}

#[test]
fn check_says_what_an_expression_reads() {
    let text = said(&[
        "policy",
        "check",
        "--cel",
        "has(resources['nvidia.com/gpu']) ? infinity : cost + signal('carbon', 450) * 1e-6",
    ]);
    let (_, accepted) = text.split_once("accepted").expect("accepted");
    expect![[r#"
        {"expression":"has(resources['nvidia.com/gpu']) ? infinity : cost + signal('carbon', 450) * 1e-6"}
        reads        resources["nvidia.com/gpu"], cost, signal("carbon", 450)
    "#]]
    .assert_eq(accepted.trim_start());
}

#[test]
fn check_prints_settings_to_begin_with() {
    let component = longshore_xtask::guests::plugin("gpu-fragmentation");
    let component = component.to_str().unwrap();
    let text = said(&["policy", "check", component, "--settings"]);
    expect![[r#"
        # GPUs that a usual pod asks for. (number, at least 1)
        # gpus-per-pod = 1
        # Share of pods that run to their end where they are: jobs, and what must not be disrupted. (number, at least 0, at most 1)
        # weight = 0.5
    "#]]
    .assert_eq(&text);
}

#[test]
fn bench_measures_an_expression() {
    let text = said(&["policy", "bench", "--cel", EXPRESSION]);
    assert!(
        text.contains("ns per offering") && text.contains("cel 0."),
        "{text}"
    );
}

#[test]
fn a_fault_has_place_reason_and_hint() {
    let wrong = "cost * 0.9 + (capacity_typ == 'spot' ? 0.02 : 0)";
    let typed = refused(&["policy", "new", "--cel", wrong]);
    let reason = "column 15: capacity_typ is not a known name";
    let hint = "hint: did you mean `capacity_type`?";
    assert!(typed.contains(reason) && typed.contains(hint), "{typed}");
    let config = file(
        "wrong.toml",
        &format!("[[policy]]\nname = \"a\"\ncel = \"{wrong}\"\n"),
    );
    let said = refused(&["policy", "check", "--config", config.to_str().unwrap()]);
    let place = format!("wrong.toml:3:22: `cel`: {reason}");
    assert!(said.contains(&place) && said.contains(hint), "{said}");
}
