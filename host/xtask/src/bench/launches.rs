//! `cargo xtask bench launches`: 1 000 equal NodeClaims on the emulated EC2, with EC2's limits, in
//! virtual time. Given another checkout, the same program is built there too, and both are shown.
//!
//! The program is `host/sim/examples/launches.rs`. Both are built in the profile of the tests and in
//! the same target folder: to optimize the SDK takes long, and it is built once.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::outcome::number;
use crate::commands::{self, Steps, table};

const PROGRAM: &str = "host/sim/examples/launches.rs";
/// What is to be reached: all launched in this share of the other's time, a node that joined is
/// registered within so many seconds, and calls of CreateFleet.
const SHARE: f64 = 0.16;
const REGISTERS: f64 = 15.0;
const CALLS: f64 = 10.0;

/// Runs it here, and in another checkout if one is named.
pub fn run(args: &[&str]) -> anyhow::Result<()> {
    let other = match args {
        [] => None,
        [path] => Some(
            Path::new(path)
                .canonicalize()
                .with_context(|| path.to_string())?,
        ),
        _ => bail!("expected nothing or the path of another checkout"),
    };
    let mut steps = Steps::default();
    let here = longshore_xtask::guests::root();
    let program = steps.run("build", || build(&here, "launches-here"))?;
    let mut found = vec![("this checkout", steps.run("launch", || measured(&program))?)];
    if let Some(other) = &other {
        let program = steps.run("build the other", || build_other(&here, other))?;
        found.push(("the other", steps.run("launch", || measured(&program))?));
    }
    println!("\n{}", shown(&found));
    let ours = &found[0].1;
    let mut bad = Vec::new();
    if ours["wrong"].as_array().is_some_and(|all| !all.is_empty()) {
        bad.push("rules were broken".to_owned());
    }
    if number(ours, "joinToRegistered") > REGISTERS {
        bad.push(format!(
            "a node that joined was not registered in {REGISTERS} s"
        ));
    }
    if number(ours, "createFleet") > CALLS {
        bad.push(format!("more than {CALLS} CreateFleet"));
    }
    if let Some((_, theirs)) = found.get(1) {
        let share = number(ours, "launched") / number(theirs, "launched");
        println!("all launched in {share:.3} of the other's time; {SHARE} is to be reached");
        if share > SHARE {
            bad.push(format!("more than {SHARE} of the other's time"));
        }
        for (key, what) in [("processorSeconds", "CPU"), ("mebibytes", "memory")] {
            if number(ours, key) > number(theirs, key) {
                bad.push(format!("more {what} than the other"));
            }
        }
    }
    match bad.is_empty() {
        true => Ok(()),
        false => bail!("{}", bad.join("; ")),
    }
}

/// Builds the program, and puts it beside others of its kind.
fn build(root: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let mut build = commands::cargo(&[
        "build",
        "--package",
        "longshore-sim",
        "--features",
        "aws",
        "--example",
        "launches",
    ]);
    let target = crate::commands::target();
    build.current_dir(root).env("CARGO_TARGET_DIR", &target);
    commands::run(build)?;
    let folder = target.join("debug/examples");
    let kept = folder.join(name);
    std::fs::copy(folder.join("launches"), &kept)?;
    Ok(kept)
}

/// The same in a checkout that may not have the program: it is there for as long as it is built.
fn build_other(here: &Path, other: &Path) -> anyhow::Result<PathBuf> {
    let (source, place) = (here.join(PROGRAM), other.join(PROGRAM));
    if place.exists() {
        return build(other, "launches-other");
    }
    let folder = place.parent().context("a folder")?;
    let made = !folder.exists();
    std::fs::create_dir_all(folder)?;
    std::fs::copy(source, &place)?;
    let built = build(other, "launches-other");
    std::fs::remove_file(&place)?;
    if made {
        std::fs::remove_dir(folder)?;
    }
    built
}

fn measured(program: &Path) -> anyhow::Result<Value> {
    let said = commands::output(Command::new(program))?;
    let said: Value = serde_json::from_slice(&said).context("a line of JSON")?;
    if said["launched"].is_null() || said["nodeClaims"] != said["instances"] {
        bail!("it went wrong: {said}");
    }
    for line in said["wrong"].as_array().into_iter().flatten() {
        println!("    a rule was broken: {line}");
    }
    Ok(said)
}

fn shown(found: &[(&str, Value)]) -> String {
    let row = |(name, said): &(&str, Value)| {
        let of = |key: &str| format!("{}", number(said, key));
        vec![
            (*name).to_owned(),
            of("nodeClaims"),
            of("launched"),
            of("registered"),
            of("joinToRegistered"),
            of("createFleet"),
            format!("{:.1}", number(said, "processorSeconds")),
            of("mebibytes"),
        ]
    };
    let rows: Vec<Vec<String>> = found.iter().map(row).collect();
    let headings = [
        "",
        "NodeClaims",
        "launched, s",
        "registered, s",
        "join to registered, s",
        "CreateFleet",
        "CPU, s",
        "MiB",
    ];
    table(&headings, &rows)
}
