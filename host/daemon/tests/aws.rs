//! `--provider aws`: instance types and plans under EC2NodeClasses, from files.

#![allow(
    clippy::unwrap_used,
    reason = "a test ends where the command does not answer"
)]

use std::process::{Command, Output};

use serde_json::Value;

const WORLD: &str = "../../examples/catalogues/aws-us-east-1.json.gz";
const CLUSTER: &str = "tests/data/aws.yaml";

fn longshore(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longshore"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(args);
    command.output().expect("longshore starts")
}

fn json(args: &[&str]) -> Value {
    let output = longshore(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(args: &[&str]) -> String {
    let output = longshore(args);
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn each_nodepool_buys_what_its_node_class_allows() {
    let plan = json(&[
        "plan",
        "--provider",
        "aws",
        "--world",
        WORLD,
        "--snapshot",
        CLUSTER,
        "-o",
        "json",
    ]);
    assert_eq!(
        plan["errors"],
        serde_json::json!({}),
        "every pod has a place"
    );
    let claims = plan["claims"].as_array().unwrap();
    let of = |pool: &str| {
        let claims = claims.iter().filter(|claim| claim["nodePool"] == pool);
        claims.collect::<Vec<_>>()
    };
    let (few, many) = (of("few"), of("many"));
    assert_eq!(few.len() + many.len(), claims.len());
    assert!(few.len() >= 3, "maxPods is 4, and there are ten pods");
    for claim in &few {
        assert!(claim["pods"].as_array().unwrap().len() <= 4, "{claim:#}");
    }
    // `many` has one subnet, and its NodePool wants arm64.
    for claim in &many {
        let types = claim["instanceTypes"].as_array().unwrap();
        let graviton = |name: &Value| name.as_str().unwrap().contains('g');
        assert!(types.iter().all(graviton), "{claim:#}");
        assert_eq!(claim["offering"]["zone"], "us-east-1b", "{claim:#}");
    }
}

#[test]
fn types_are_listed_under_the_node_class_of_the_world() {
    let dir = std::env::temp_dir().join(format!("longshore-aws-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let world = dir.join("world.yaml");
    let class =
        std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(CLUSTER))
            .unwrap();
    let class = class
        .split("---\n")
        .nth(2)
        .unwrap()
        .trim()
        .replace('\n', "\n  ");
    let text =
        format!("region: us-east-1\nzones: {{us-east-1a: use1-az1}}\nnodeClass:\n  {class}\n");
    std::fs::write(&world, text).unwrap();
    let types = "../ec2/data/instance_types.json.gz";
    let world = world.to_str().unwrap();
    let args = [
        "types",
        "--provider",
        "aws",
        "-f",
        world,
        "--instance-types",
        types,
    ];
    let all = json(&[&args[..], &["-o", "json", "--offerings"]].concat());
    let all = all.as_array().unwrap();
    assert!(all.len() > 1100);
    let one = all.iter().find(|one| one["name"] == "m5.large").unwrap();
    assert_eq!(one["allocatable"]["pods"], "4");
    assert_eq!(one["offerings"].as_array().unwrap().len(), 2);
    let fewer = json(&[&args[..], &["-o", "json", "--reserved-enis", "1"]].concat());
    assert!(
        fewer[0].get("offerings").is_none(),
        "offerings are listed if asked for"
    );
    let text = longshore(&args);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    let line = text
        .lines()
        .find(|line| line.starts_with("m5.large "))
        .unwrap();
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells[..3], ["m5.large", "amd64", "1930m"]);
    assert_eq!(cells[4..7], ["4", "1", "0.0960"]);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_makes_no_sense_is_refused_with_a_hint() {
    let aws = ["types", "--provider", "aws"];
    for (args, expected) in [
        (aws.to_vec(), "--provider aws needs a world"),
        (
            vec!["types", "-f", WORLD],
            "--world means nothing with --provider kwok",
        ),
        (vec!["types", "--offerings"], "add --provider aws"),
        ([&aws[..], &["-f", WORLD]].concat(), "has no nodeClass"),
        (
            [&aws[..], &["-f", "nowhere"]].concat(),
            "cannot read nowhere",
        ),
        (
            [&aws[..], &["-f", WORLD, "--reserved-enis=-1"]].concat(),
            "give 0 or more",
        ),
        (
            [
                &aws[..],
                &["-f", WORLD, "--vm-memory-overhead-percent", "7.5"],
            ]
            .concat(),
            "give 0 to 1",
        ),
        (
            vec!["plan", "--provider", "aws", "--snapshot", CLUSTER],
            "name a file with region",
        ),
    ] {
        let said = refused(&args);
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

#[test]
fn a_nodepool_whose_class_is_nowhere_is_told() {
    let dir = std::env::temp_dir().join(format!("longshore-aws-class-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let cluster = dir.join("cluster.yaml");
    let whole =
        std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(CLUSTER));
    let without: Vec<String> = whole
        .unwrap()
        .split("---\n")
        .filter(|document| !document.contains("kind: EC2NodeClass\nmetadata: {name: many}"))
        .map(str::to_owned)
        .collect();
    std::fs::write(&cluster, without.join("---\n")).unwrap();
    let output = longshore(&[
        "plan",
        "--provider",
        "aws",
        "--world",
        WORLD,
        "--snapshot",
        cluster.to_str().unwrap(),
    ]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("EC2NodeClass many: is named by a NodePool and is in neither"),
        "{said}"
    );
    std::fs::remove_dir_all(dir).unwrap();
}
