//! `longshore plan --disrupt --consolidation`, as people run it.

use std::process::{Command, Output};

use serde_json::Value;

/// Two half-empty nodes.
const CLUSTER: &str = "../policy/tests/data/half-empty.json";
const TYPES: &str = "tests/data/types.json";

fn plugin(name: &str) -> String {
    longshore_xtask::guests::plugin(name).display().to_string()
}

fn settings(name: &str, text: &str) -> String {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join(name);
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

fn run(more: &[&str]) -> Output {
    let from = ["--snapshot", CLUSTER, "--instance-types", TYPES];
    let mut command = Command::new(env!("CARGO_BIN_EXE_longshore"));
    command.current_dir(std::env::var("CARGO_MANIFEST_DIR").unwrap());
    let output = command
        .args(&more[..1])
        .args(from)
        .args(&more[1..])
        .output();
    output.expect("longshore starts")
}

fn json(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    serde_json::from_slice(&output.stdout).expect("JSON on standard output")
}

const ALWAYS: &str = "[[windows]]
days = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']
from = '00:00'
to = '00:00'
";

#[test]
fn a_policy_puts_off_and_the_nodes_that_stay_name_it() {
    let always = settings("always.toml", ALWAYS);
    let policy = format!("{},{always}", plugin("business-hours"));
    let asked = [
        "plan",
        "--disrupt",
        "--consolidation",
        &policy,
        "-o",
        "json",
    ];
    let found = json(&run(&asked));
    let first = &found["proposals"][0];
    assert_eq!(first["verdict"], "deferred", "{found:#}");
    let why = first["why"].as_str().unwrap();
    assert!(
        why.starts_with("policy business-hours: not within 00:00 to 00:00 UTC; not before 20"),
        "{why}"
    );
    let stays = found["stays"].as_array().unwrap();
    assert_eq!(stays.len(), 2);
    for node in stays {
        let verdicts = node["verdicts"].as_array().unwrap();
        let named = verdicts.iter().any(|verdict| {
            let blocked = verdict["blockedBy"].as_str().unwrap();
            verdict["reason"] == "Policy" && blocked.starts_with("policy business-hours: ")
        });
        assert!(named, "{node:#}");
    }
    let text = run(&["plan", "--disrupt", "--consolidation", &policy]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.starts_with("Nothing to disrupt now"), "{text}");

    let asked = [
        "plan",
        "--converge",
        "--consolidation",
        &policy,
        "-o",
        "json",
    ];
    let converged = json(&run(&asked));
    assert_eq!(
        (&converged["finished"], &converged["nodesAfter"]),
        (&true.into(), &2.into())
    );
}

#[test]
fn a_policy_that_lets_go_changes_nothing() {
    let without = json(&run(&["plan", "--converge", "-o", "json"]));
    let policy = plugin("cautious");
    let asked = [
        "plan",
        "--converge",
        "--consolidation",
        &policy,
        "-o",
        "json",
    ];
    let with = json(&run(&asked));
    assert_eq!(with["after"], without["after"]);
    assert!(with["after"].as_f64() < with["before"].as_f64());
}

#[test]
fn a_component_of_another_kind_and_a_flag_without_a_question_are_refused() {
    let scorer = plugin("price");
    let output = run(&["plan", "--disrupt", "--consolidation", &scorer]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("exports no `consolidation`: it implements scorer"),
        "{said}"
    );

    let judge = plugin("cautious");
    let output = run(&["plan", "--scorer", &judge]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("exports no `scorer`: it implements consolidation"),
        "{said}"
    );

    let output = run(&["plan", "--consolidation", &judge]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("--consolidation has nothing to decide"),
        "{said}"
    );
}
