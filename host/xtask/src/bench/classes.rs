//! `cargo xtask bench classes`: many NodePools with an EC2NodeClass each. Time and memory of a plan
//! for 200 pods at 50, 100, 200 and 400 pairs: classes that are alike, and classes that all differ.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::outcome::number;
use crate::commands::{self, Steps};

const PAIRS: [usize; 4] = [50, 100, 200, 400];
const PODS: usize = 200;
/// A pair more costs at most this much of a pair before.
const MAX_GROWTH: f64 = 1.5;

/// Runs all sizes. `--longshore PROGRAM` measures another build, `--pairs N` one size alone.
pub fn run(args: &[&str]) -> anyhow::Result<()> {
    let mut steps = Steps::default();
    let (mut program, mut sizes) = (None, PAIRS.to_vec());
    let mut words = args.iter();
    while let Some(&word) = words.next() {
        let value = words
            .next()
            .with_context(|| format!("{word} needs a value"))?;
        match word {
            "--longshore" => program = Some(PathBuf::from(value)),
            "--pairs" => sizes = vec![value.parse().context("--pairs is a number")?],
            other => bail!("unknown word {other:?}: expected --longshore or --pairs"),
        }
    }
    let program = match program {
        Some(program) => program,
        None => steps.run("build longshore", commands::longshore)?,
    };
    for (name, differ) in [("alike", false), ("each another", true)] {
        println!("\nNodeClasses {name}:  pairs  reading s  deciding s  MiB");
        let mut before: Option<(usize, f64)> = None;
        for &pairs in &sizes {
            let answer = plan(&program, pairs, differ)?;
            let number = |key| number(&answer, key);
            let (reading, deciding) = (number("parseSeconds"), number("seconds"));
            println!(
                "{pairs:>27} {reading:>10.2} {deciding:>11.2} {:>4}",
                number("mib")
            );
            let total = reading + deciding;
            if let Some((fewer, seconds)) = before {
                let most = seconds * MAX_GROWTH * pairs as f64 / fewer as f64;
                let verdict = if total <= most { "reached" } else { "MISSED" };
                println!("    at most linear growth: {verdict}");
            }
            before = Some((pairs, total));
        }
    }
    Ok(())
}

fn plan(program: &Path, pairs: usize, differ: bool) -> anyhow::Result<Value> {
    let folder = std::env::temp_dir().join("longshore-bench-classes");
    std::fs::create_dir_all(&folder)?;
    let file = folder.join(format!("{pairs}-{differ}.json"));
    std::fs::write(&file, cluster(pairs, differ).to_string())?;
    let mut command = Command::new(program);
    command
        .args(["plan", "--provider", "aws", "-o", "json", "--world"])
        .arg(longshore_xtask::guests::root().join("examples/catalogues/aws-us-east-1.json.gz"))
        .arg("--snapshot")
        .arg(&file);
    serde_json::from_slice(&commands::output(command)?).context("longshore's answer")
}

fn cluster(pairs: usize, differ: bool) -> Value {
    let pools = (0..pairs).map(pool);
    let classes = (0..pairs).map(|at| class(at, differ));
    let pods = (0..PODS).map(pod);
    let items: Vec<Value> = pools.chain(classes).chain(pods).collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn pool(at: usize) -> Value {
    let requirement =
        |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": format!("pool-{at}")},
        "spec": {"weight": at % 100 + 1, "template": {
            "metadata": {"labels": {"example.com/team": format!("team-{at}")}},
            "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass",
                    "name": format!("class-{at}")},
                "requirements": [
                    requirement("karpenter.sh/capacity-type", &["spot", "on-demand"]),
                    requirement("karpenter.k8s.aws/instance-category", &["c", "m", "r"])]}}}})
}

fn class(at: usize, differ: bool) -> Value {
    let terms = json!([{"tags": {"cluster": "bench"}}]);
    let mut class = json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": format!("class-{at}")},
        "spec": {"role": "nodes", "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": terms, "securityGroupSelectorTerms": terms}});
    if differ {
        class["spec"]["kubelet"] = json!({"maxPods": 50 + at});
    }
    class
}

fn pod(at: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{at}"), "namespace": "bench",
            "labels": {"app": format!("app-{}", at % 10)}},
        "spec": {"containers": [{"name": "c",
            "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}}}]},
        "status": {"phase": "Pending", "conditions":
            [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}})
}
