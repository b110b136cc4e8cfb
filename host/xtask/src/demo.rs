//! `cargo xtask demo`: one cluster, two policies, and what the difference is.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use serde_json::Value;

use crate::steps::{self, Steps, bold, table};

const CLUSTER: &str = "examples/clusters/harbour.json";
const CATALOGUE: &str = "examples/catalogues/ec2-us-east-1.json";

/// Builds, plans twice, compares.
pub fn run() -> anyhow::Result<()> {
    let mut steps = Steps::default();
    let longshore = steps.run("build longshore", steps::longshore)?;
    let policy = steps.run("build the policies", steps::plugins)?.join("spot-risk.wasm");
    let settings = crate::root().join("examples/clusters/spot-risk.toml");
    let scorer = format!("{},{}", policy.display(), settings.display());
    let plain = steps.run("plan by price", || plan(&longshore, None))?;
    let careful = steps.run("plan with the risk of interruptions in the price", || plan(&longshore, Some(&scorer)))?;
    println!("\n{}", compare(&plain, &careful));
    println!("The same plan, as `longshore plan` prints it:\n");
    steps::run(command(&longshore, Some(&scorer)))
}

fn command(longshore: &Path, scorer: Option<&str>) -> Command {
    let root = crate::root();
    let mut command = Command::new(longshore);
    command.current_dir(&root).args(["plan", "--snapshot", CLUSTER, "--instance-types", CATALOGUE]);
    if let Some(scorer) = scorer {
        command.args(["--scorer", scorer]);
    }
    command
}

fn plan(longshore: &Path, scorer: Option<&str>) -> anyhow::Result<Value> {
    let mut command = command(longshore, scorer);
    command.args(["--output", "json"]);
    serde_json::from_slice(&steps::output(command)?).context("longshore's answer")
}

/// Both plans side by side: totals, then nodes by type and capacity type where they differ.
fn compare(plain: &Value, careful: &Value) -> String {
    let number = |plan: &Value, key: &str| plan[key].as_f64().unwrap_or(0.0);
    let claims = |plan: &'_ Value| plan["claims"].as_array().cloned().unwrap_or_default();
    let kind = |claim: &Value| claim["offering"]["capacityType"].as_str().unwrap_or("?").to_owned();
    let of_kind = |plan: &Value, wanted: &str| claims(plan).iter().filter(|claim| kind(claim) == wanted).count();
    let pods_on = |plan: &Value, wanted: &str| -> usize {
        let claims = claims(plan);
        let wanted = claims.iter().filter(|claim| kind(claim) == wanted);
        wanted.filter_map(|claim| claim["pods"].as_array()).map(Vec::len).sum()
    };
    let both = |name: &str, of: &dyn Fn(&Value) -> String| vec![name.to_owned(), of(plain), of(careful)];
    let totals = [
        both("price of the new nodes, USD/h", &|plan| format!("{:.3}", number(plan, "cost"))),
        both("as the policy sees it, USD/h", &|plan| format!("{:.3}", number(plan, "effective"))),
        both("at least, USD/h", &|plan| format!("{:.3}", number(plan, "lowerBound"))),
        both("new nodes", &|plan| claims(plan).len().to_string()),
        both("… on-demand", &|plan| of_kind(plan, "on-demand").to_string()),
        both("… spot", &|plan| of_kind(plan, "spot").to_string()),
        both("pods on spot", &|plan| pods_on(plan, "spot").to_string()),
        both("decided in", &|plan| format!("{:.1} ms", 1e3 * number(plan, "seconds"))),
    ];
    let mut nodes: BTreeMap<(String, String), [usize; 2]> = BTreeMap::new();
    for (at, plan) in [plain, careful].into_iter().enumerate() {
        for claim in claims(plan) {
            let name = claim["offering"]["instanceType"].as_str().unwrap_or("?").to_owned();
            nodes.entry((name, kind(&claim))).or_default()[at] += 1;
        }
    }
    let mut nodes: Vec<_> = nodes.into_iter().collect();
    nodes.sort_by_key(|(_, [plain, careful])| std::cmp::Reverse(plain + careful));
    let count = |nodes: usize| if nodes == 0 { "·".to_owned() } else { nodes.to_string() };
    let rows: Vec<Vec<String>> = nodes
        .iter()
        .map(|((name, kind), [plain, careful])| vec![format!("{name} {kind}"), count(*plain), count(*careful)])
        .collect();
    format!(
        "{}\n{}\n{}",
        bold("A web shop's morning on real EC2 types, planned by price and with spot-risk.wasm in the loop"),
        table(&["", "BY PRICE", "SPOT-RISK"], &totals),
        table(&["NODES TO BUY", "BY PRICE", "SPOT-RISK"], &rows),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plans_stand_side_by_side() {
        let claim = |name: &str, kind: &str, pods: &[&str]| json!({"offering": {"instanceType": name, "capacityType": kind}, "pods": pods});
        let plan = |claims: Value| json!({"cost": 1.25, "effective": 1.26, "lowerBound": 1.0, "seconds": 0.002, "claims": claims});
        let plain = plan(json!([claim("c7g.large", "spot", &["a", "b"])]));
        let careful = plan(json!([claim("c7g.large", "on-demand", &["a"]), claim("m7g.large", "spot", &["b"])]));
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
