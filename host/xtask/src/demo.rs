//! `cargo xtask demo`: one cluster planned with two policies and their difference, then the daemon
//! on a simulated cluster.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::commands::{self, Steps, bold, table};

const CLUSTER: &str = "examples/clusters/web-shop.json";
const CATALOGUE: &str = "examples/catalogues/ec2-us-east-1.json";
const SETTINGS: &str = "examples/clusters/spot-risk.toml";
/// The policies that are shown.
const POLICIES: [&str; 3] = ["cautious", "pdb-aware", "spot-risk"];
const SCENARIO: &str = "examples/scenarios/busy-hour.toml";
/// How long the daemon is shown, unless said.
const DEFAULT_SECONDS: f64 = 60.0;
/// At these shares of it the policy file is edited, unless the viewer has edited it: the scorer
/// comes, and as the load falls the consolidation policy is swapped for another.
const EDITS: [f64; 2] = [0.4, 0.85];

/// What was typed.
#[derive(Debug, PartialEq)]
struct DemoOptions {
    seconds: f64,
    plain: bool,
}

/// Builds, plans twice, compares; then shows the daemon for a minute.
pub fn run(args: &[&str]) -> anyhow::Result<()> {
    let options = options(args)?;
    let mut steps = Steps::default();
    let longshore = steps.run(
        "build longshore and the simulator",
        commands::longshore_and_sim,
    )?;
    let policies = steps.run("build the policies", || commands::plugins_named(&POLICIES))?;
    let policy = policies.join("spot-risk.wasm");
    let scorer = format!(
        "{},{}",
        policy.display(),
        longshore_xtask::guests::root().join(SETTINGS).display()
    );
    let plain = steps.run("plan by price", || plan(&longshore, None))?;
    let careful = steps.run("plan with the risk of interruptions in the price", || {
        plan(&longshore, Some(&scorer))
    })?;
    println!("\n{}", compare(&plain, &careful));
    println!(
        "{}",
        bold("==> the daemon at work: a busy hour of a simulated cluster")
    );
    live(&longshore, &policies, &options)
}

fn options(args: &[&str]) -> anyhow::Result<DemoOptions> {
    let mut options = DemoOptions {
        seconds: DEFAULT_SECONDS,
        plain: !std::io::stdout().is_terminal(),
    };
    let mut words = args.iter();
    while let Some(&word) = words.next() {
        match word {
            "--plain" => options.plain = true,
            "--seconds" => {
                let typed = words.next().copied().unwrap_or_default();
                let seconds = typed
                    .parse::<f64>()
                    .ok()
                    .filter(|seconds| (1.0..=86_400.0).contains(seconds));
                options.seconds = seconds.with_context(|| {
                    format!("--seconds wants a number from 1 on, not {typed:?}")
                })?;
            }
            other => bail!("demo does not know {other:?}: it takes --seconds N and --plain"),
        }
    }
    Ok(options)
}

/// The scenario with a policy file that the viewer can edit. Without an edit of the viewer's it is
/// edited twice.
fn live(longshore: &Path, policies: &Path, options: &DemoOptions) -> anyhow::Result<()> {
    let folder = crate::commands::target().join("demo");
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("longshore.toml");
    let versions = [0, 1, 2].map(|edits| policy_file(policies, edits));
    std::fs::write(&file, &versions[0])?;
    let (edited, seconds) = (file.clone(), options.seconds);
    // Ends with us at the latest.
    std::thread::spawn(move || {
        let mut before = 0.0;
        for (share, versions) in EDITS.iter().zip(versions.windows(2)) {
            std::thread::sleep(Duration::from_secs_f64(seconds * (share - before)));
            before = *share;
            edit(&edited, &versions[0], &versions[1])?;
        }
        std::io::Result::Ok(())
    });
    let mut show = Command::new(longshore);
    show.current_dir(longshore_xtask::guests::root()).args([
        "sim",
        SCENARIO,
        "--live",
        "--seconds",
        &options.seconds.to_string(),
    ]);
    show.arg("--policy").arg(&file);
    if options.plain {
        show.arg("--plain");
    }
    commands::run(show)
}

/// The policy file after so many edits: by price and with nodes that stay unless much is saved; with
/// a scorer; with a consolidation policy that lets nodes go.
fn policy_file(policies: &Path, edits: usize) -> String {
    let scorer = [
        "[[policy]]".to_owned(),
        "name = \"spot-risk\"".to_owned(),
        format!("path = {:?}", absolute(&policies.join("spot-risk.wasm"))),
        format!(
            "settings-file = {:?}",
            absolute(&longshore_xtask::guests::root().join(SETTINGS))
        ),
    ];
    let sign = if edits > 0 { "" } else { "# " };
    let scorer: String = scorer
        .iter()
        .map(|line| format!("{sign}{line}\n"))
        .collect();
    let (name, settings) = match edits {
        0 | 1 => ("cautious", "{ least-savings-per-pod = 1 }"),
        _ => ("pdb-aware", "{}"),
    };
    let path = absolute(&policies.join(format!("{name}.wasm")));
    format!(
        "# Policies of the demo. Change them and save: the next round asks those that it names.\n\
        \n{scorer}\n[[policy]]\nname = {name:?}\npath = {path:?}\n\
        grants = [\"consolidation\"]\nsettings = {settings}\n"
    )
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Puts a new version in place, unless the file has changed.
fn edit(file: &Path, before: &str, after: &str) -> std::io::Result<()> {
    if std::fs::read_to_string(file)? == before {
        let new = file.with_extension("new");
        std::fs::write(&new, after)?;
        std::fs::rename(new, file)?;
    }
    Ok(())
}

fn command(longshore: &Path, scorer: Option<&str>) -> Command {
    let root = longshore_xtask::guests::root();
    let mut command = Command::new(longshore);
    command
        .current_dir(&root)
        .args(["plan", "--snapshot", CLUSTER, "--instance-types", CATALOGUE]);
    if let Some(scorer) = scorer {
        command.args(["--scorer", scorer]);
    }
    command
}

fn plan(longshore: &Path, scorer: Option<&str>) -> anyhow::Result<Value> {
    let mut command = command(longshore, scorer);
    command.args(["--output", "json"]);
    serde_json::from_slice(&commands::output(command)?).context("longshore's answer")
}

/// Both plans side by side: totals, then nodes by type and capacity type where they differ.
fn compare(plain: &Value, careful: &Value) -> String {
    let number = |plan: &Value, key: &str| plan[key].as_f64().unwrap_or(0.0);
    let claims = |plan: &'_ Value| plan["claims"].as_array().cloned().unwrap_or_default();
    let kind = |claim: &Value| {
        claim["offering"]["capacityType"]
            .as_str()
            .unwrap_or("?")
            .to_owned()
    };
    let of_kind = |plan: &Value, wanted: &str| {
        claims(plan)
            .iter()
            .filter(|claim| kind(claim) == wanted)
            .count()
    };
    let pods_on = |plan: &Value, wanted: &str| -> usize {
        let claims = claims(plan);
        let wanted = claims.iter().filter(|claim| kind(claim) == wanted);
        wanted
            .filter_map(|claim| claim["pods"].as_array())
            .map(Vec::len)
            .sum()
    };
    let both =
        |name: &str, of: &dyn Fn(&Value) -> String| vec![name.to_owned(), of(plain), of(careful)];
    let totals = [
        both("price of the new nodes, USD/h", &|plan| {
            format!("{:.3}", number(plan, "cost"))
        }),
        both("as the policy sees it, USD/h", &|plan| {
            format!("{:.3}", number(plan, "effective"))
        }),
        both("at least, USD/h", &|plan| {
            format!("{:.3}", number(plan, "lowerBound"))
        }),
        both("new nodes", &|plan| claims(plan).len().to_string()),
        both("… on-demand", &|plan| {
            of_kind(plan, "on-demand").to_string()
        }),
        both("… spot", &|plan| of_kind(plan, "spot").to_string()),
        both("pods on spot", &|plan| pods_on(plan, "spot").to_string()),
        both("decided in", &|plan| {
            format!("{:.1} ms", 1e3 * number(plan, "seconds"))
        }),
    ];
    let mut nodes: BTreeMap<(String, String), [usize; 2]> = BTreeMap::new();
    for (at, plan) in [plain, careful].into_iter().enumerate() {
        for claim in claims(plan) {
            let name = claim["offering"]["instanceType"]
                .as_str()
                .unwrap_or("?")
                .to_owned();
            nodes.entry((name, kind(&claim))).or_default()[at] += 1;
        }
    }
    let mut nodes: Vec<_> = nodes.into_iter().collect();
    nodes.sort_by_key(|(_, [plain, careful])| std::cmp::Reverse(plain + careful));
    let count = |nodes: usize| {
        if nodes == 0 {
            "·".to_owned()
        } else {
            nodes.to_string()
        }
    };
    let rows: Vec<Vec<String>> = nodes
        .iter()
        .map(|((name, kind), [plain, careful])| {
            vec![format!("{name} {kind}"), count(*plain), count(*careful)]
        })
        .collect();
    format!(
        "{}\n{}\n{}",
        bold(
            "A web shop's morning on real EC2 types, planned by price and with spot-risk.wasm in \
            the loop"
        ),
        table(&["", "BY PRICE", "SPOT-RISK"], &totals),
        table(&["NODES TO BUY", "BY PRICE", "SPOT-RISK"], &rows),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn options_are_read_and_nothing_else() {
        assert_eq!(
            options(&["--seconds", "5", "--plain"]).unwrap(),
            DemoOptions {
                seconds: 5.0,
                plain: true
            }
        );
        assert!(options(&["--seconds", "0"]).is_err() && options(&["--secnods", "5"]).is_err());
    }

    #[test]
    fn plans_stand_side_by_side() {
        let claim = |name: &str, kind: &str, pods: &[&str]| json!({"offering": {"instanceType": name, "capacityType": kind}, "pods": pods});
        let plan = |claims: Value| json!({"cost": 1.25, "effective": 1.26, "lowerBound": 1.0, "seconds": 0.002, "claims": claims});
        let plain = plan(json!([claim("c7g.large", "spot", &["a", "b"])]));
        let careful = plan(json!([
            claim("c7g.large", "on-demand", &["a"]),
            claim("m7g.large", "spot", &["b"])
        ]));
        let text = compare(&plain, &careful);
        for line in [
            "price of the new nodes, USD/h     1.250      1.250",
            "pods on spot                          2          1",
            "c7g.large spot              1          ·",
            "m7g.large spot              ·          1",
        ] {
            assert!(text.contains(line), "no line {line:?} in\n{text}");
        }
    }
}
