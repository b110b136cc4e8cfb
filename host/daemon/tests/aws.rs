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
    command
        .current_dir(std::env::var("CARGO_MANIFEST_DIR").unwrap())
        .args(args);
    command.output().expect("longshore starts")
}

fn json(args: &[&str]) -> Value {
    let output = longshore(args);
    let said = String::from_utf8_lossy(&output.stderr);
    // Without its gate a NodeOverlay does not count, which is said.
    let gate = |line: &&str| !line.contains("plan with --feature-gates NodeOverlay=true");
    let others: Vec<&str> = said.lines().filter(gate).collect();
    assert!(output.status.success() && others.is_empty(), "{said}");
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
    let class = std::fs::read_to_string(
        std::path::Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join(CLUSTER),
    )
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

/// A folder of one test.
fn folder(name: &str) -> std::path::PathBuf {
    let dir = std::env::temp_dir().join(format!("longshore-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// A small world: two types in two zones, and a cluster to join. `kubelet` is the NodeClass's.
fn small_world(dir: &std::path::Path, kubelet: Value) -> String {
    let mut types = Vec::new();
    let packed = include_bytes!("../../ec2/data/instance_types.json.gz");
    let mut unpacked = flate2::read::GzDecoder::new(&packed[..]);
    std::io::Read::read_to_end(&mut unpacked, &mut types).unwrap();
    let all: Value = serde_json::from_slice(&types).unwrap();
    let world = serde_json::json!({
        "region": "us-east-1",
        "zones": {"us-east-1a": "use1-az1", "us-east-1b": "use1-az2"},
        "instanceTypes": [all["c7i.xlarge"], all["m6g.large"]],
        "cluster": {"name": "demo", "version": "1.35", "endpoint": "https://demo.eks.example",
            "caBundle": "Y2EtYnVuZGxl", "cidr": "10.100.0.0/16", "kubeDNSIP": "10.100.0.10"},
        "nodeClass": {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "listed"},
            "spec": {"role": "node", "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "kubelet": kubelet,
                "subnetSelectorTerms": [{"id": "subnet-1"}],
                "securityGroupSelectorTerms": [{"id": "sg-1"}]}},
    });
    let file = dir.join("world.json");
    std::fs::write(&file, world.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

/// The template plugin with settings, as `--bootstrap` takes it.
fn template(dir: &std::path::Path, settings: &str) -> String {
    let file = dir.join("settings.toml");
    std::fs::write(&file, settings).unwrap();
    let policy = longshore_xtask::guests::plugin("bootstrap-template");
    format!("{},{}", policy.display(), file.display())
}

fn allocatable<'a>(types: &'a Value, at: usize, of: &str) -> &'a str {
    types[at]["allocatable"][of].as_str().unwrap()
}

#[test]
fn types_and_plans_count_with_what_a_bootstrap_policy_keeps_back() {
    let dir = folder("aws-bootstrap");
    let world = small_world(&dir, serde_json::json!({}));
    // Nodes of `few` run Bottlerocket, whose agent keeps memory by the number of pods.
    let settings = "template = '#!/bin/sh'\n[overhead]\nmax-pods = 5\nkube-reserved-cpu = 1.5\n\
                    kube-reserved-memory = 325058560\n";
    let policy = template(&dir, settings);
    let aws = ["--provider", "aws", "--world", &world];
    let by_policy = [&aws[..], &["--bootstrap", &policy]].concat();
    let listed = |args: &[&str]| json(&[&["types", "-o", "json"], args].concat());
    let (before, after) = (listed(&aws), listed(&by_policy));
    assert_eq!(before[0]["name"], "c7i.xlarge");
    let pods_and_cpu = |all| (allocatable(all, 0, "pods"), allocatable(all, 0, "cpu"));
    assert_eq!(pods_and_cpu(&before), ("58", "3920m"));
    assert_eq!(pods_and_cpu(&after), ("5", "2500m"));
    // Nodes of `few` take four pods, those of `many` as many as fit: with the policy five.
    let most = |args: &[&str]| {
        let plan = ["plan", "--snapshot", CLUSTER, "-o", "json"];
        let plan = json(&[&plan[..], args].concat());
        let claims = plan["claims"].as_array().unwrap().iter();
        let pods = claims.map(|claim| claim["pods"].as_array().unwrap().len());
        pods.max().unwrap()
    };
    assert_eq!(most(&aws), 10);
    assert_eq!(most(&by_policy), 5);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_bootstrap_policy_that_is_refused_is_told_and_the_built_in_counts() {
    let dir = folder("aws-refused");
    let world = small_world(&dir, serde_json::json!({}));
    // The text does not tell the kubelet what the overheads say.
    let settings = "mode = 'whole'\ntemplate = '{{ built-in }}'\n[overhead]\nmax-pods = 5\n";
    let policy = template(&dir, settings);
    let args = ["types", "--provider", "aws", "-o", "json", "-f", &world];
    let output = longshore(&[&args[..], &["--bootstrap", &policy]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let differs = "max-pods is 5 in the overheads and 58 in the user data";
    assert!(said.contains(differs), "{said}");
    let falls_back = "note: nodes boot with the built-in user data";
    assert!(said.contains(falls_back), "{said}");
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(allocatable(&all, 0, "pods"), "58");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn expressions_of_the_kubelet_count_with_their_gate() {
    let dir = folder("aws-expressions");
    let world = small_world(&dir, serde_json::json!({"maxPods": "vcpus * 3"}));
    let args = ["types", "--provider", "aws", "-o", "json", "-f", &world];
    let said = refused(&args);
    assert!(said.contains("the gate NodeClassCEL is off"), "{said}");
    let gate = ["--aws-feature-gates", "NodeClassCEL=true"];
    let all = json(&[&args[..], &gate].concat());
    let pods = [0, 1].map(|at| allocatable(&all, at, "pods"));
    assert_eq!(pods, ["12", "6"]);
    std::fs::remove_dir_all(dir).unwrap();
}

/// A NodeOverlay that makes a family nearly free.
const OVERLAY: &str = r#"
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: cheap}
spec:
  requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [m7i]}]
  price: "0.0001"
"#;

/// What a plan of the example's world buys, one line for each NodeClaim: NodePool, instance type,
/// zone, capacity type and pods.
fn bought(more: &[&str]) -> Vec<String> {
    let plan = ["plan", "--provider", "aws", "--world", WORLD, "-o", "json"];
    let plan = json(&[&plan[..], &["--snapshot", CLUSTER], more].concat());
    let line = |claim: &Value| {
        let mut offering = claim["offering"].clone();
        offering.as_object_mut().unwrap().remove("price");
        format!("{} {offering} {}", claim["nodePool"], claim["pods"])
    };
    plan["claims"]
        .as_array()
        .unwrap()
        .iter()
        .map(line)
        .collect()
}

#[test]
fn node_overlays_change_prices_with_their_gate() {
    let dir = folder("aws-overlays");
    let overlay = dir.join("overlay.yaml");
    std::fs::write(&overlay, OVERLAY).unwrap();
    let overlay = overlay.to_str().unwrap();
    let off = bought(&[overlay]);
    let on = bought(&[overlay, "--feature-gates", "NodeOverlay=true"]);
    let few = |all: &[String]| -> Vec<String> {
        let few = all.iter().filter(|line| line.starts_with("\"few\""));
        few.cloned().collect()
    };
    let cheap = |line: &String| line.contains("\"m7i.");
    assert!(!few(&on).is_empty() && few(&on).iter().all(cheap), "{on:?}");
    assert!(!off.iter().any(cheap), "{off:?}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn an_overlay_and_the_price_policy_with_the_same_prices_give_the_same_plan() {
    let dir = folder("aws-price");
    let (overlay, settings) = (dir.join("overlay.yaml"), dir.join("price.toml"));
    let policy = longshore_xtask::guests::plugin("price");
    let policy = format!("{},{}", policy.display(), settings.display());
    // In the overlay's words and in the policy's. Not one price for all sizes: then offerings cost
    // the same, and the policy leaves their prices to tell them apart.
    for (change, discount) in [
        ("priceAdjustment: \"-60%\"", "percent = 60"),
        ("priceAdjustment: \"+900%\"", "percent = -900"),
    ] {
        let text = OVERLAY.replace("price: \"0.0001\"", change);
        std::fs::write(&overlay, text).unwrap();
        let text =
            format!("[[discounts]]\nofferings = {{ instance-type = \"m7i.*\" }}\n{discount}\n");
        std::fs::write(&settings, text).unwrap();
        let overlay = overlay.to_str().unwrap();
        let by_overlay = bought(&[overlay, "--feature-gates", "NodeOverlay=true"]);
        assert_eq!(by_overlay, bought(&["--scorer", &policy]), "{change}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

/// A NodePool and a pod for the small world; NodeOverlays with a price for its types.
const PREVIEW: &str = r#"
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: any}
spec: {template: {spec: {
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: listed}, requirements: []}}}
---
apiVersion: v1
kind: Pod
metadata: {name: one, namespace: default}
spec: {containers: [{name: c, resources: {requests: {cpu: 100m}}}]}
status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: preview}
spec:
  requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [c7i.xlarge]}]
  price: "0.5"
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: dearer}
spec:
  requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [c7i]}]
  priceAdjustment: "+100%"
  weight: 5
"#;

#[test]
fn an_overlay_prices_a_type_that_has_no_price() {
    let dir = folder("aws-preview");
    let world = small_world(&dir, serde_json::json!({}));
    let text = std::fs::read_to_string(&world).unwrap();
    let mut changed: Value = serde_json::from_str(&text).unwrap();
    changed["prices"] = serde_json::json!({"onDemand": {}, "spot": {}});
    std::fs::write(&world, changed.to_string()).unwrap();
    let file = dir.join("snapshot.yaml");
    std::fs::write(&file, PREVIEW).unwrap();
    let plan = |more: &[&str]| {
        let plan = ["plan", "--provider", "aws", "--world", &world, "-o", "json"];
        let snapshot = ["--snapshot", file.to_str().unwrap()];
        json(&[&plan[..], &snapshot, more].concat())
    };
    assert_eq!(plan(&[])["claims"], Value::Array(Vec::new()));
    let priced = plan(&["--feature-gates", "NodeOverlay=true"]);
    let offering = &priced["claims"][0]["offering"];
    assert_eq!(offering["instanceType"], "c7i.xlarge");
    assert_eq!(offering["price"], 1.0);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_an_api_server_would_refuse_of_a_node_class_is_told() {
    let dir = folder("aws-rules");
    let world = small_world(&dir, serde_json::json!({}));
    let file = dir.join("snapshot.yaml");
    std::fs::write(
        &file,
        SHOWN.replace("role: node\n", "instanceProfile: ''\n"),
    )
    .unwrap();
    let plan = ["plan", "--provider", "aws", "--world", &world];
    let output = longshore(&[&plan[..], &["--snapshot", file.to_str().unwrap()]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = "EC2NodeClass listed: spec.instanceProfile: is empty; give its name";
    assert!(said.contains(expected), "{said}");
    std::fs::remove_dir_all(dir).unwrap();
}

/// A node of `listed`, booted from `ami-1`, shows 6700 MiB; 7577 MiB are estimated. One pod wants
/// what fits into the estimate and not into what the node shows.
const SHOWN: &str = r#"
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: any}
spec: {template: {spec: {
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: listed},
  requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]}}}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: listed}
spec:
  role: node
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
status:
  amis: [{id: ami-1, requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]}]
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: any-1
  labels: {karpenter.sh/nodepool: any, node.kubernetes.io/instance-type: c7i.xlarge}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: listed}
  requirements: []
status:
  providerID: aws:///us-east-1a/i-1
  nodeName: node-1
  imageID: ami-1
  conditions:
  - {type: Registered, status: "True", reason: Registered, lastTransitionTime: 2026-11-01T00:00:00Z}
  - {type: Initialized, status: "True", reason: Ready, lastTransitionTime: 2026-11-01T00:00:00Z}
---
apiVersion: v1
kind: Node
metadata:
  name: node-1
  labels: {karpenter.sh/nodepool: any, node.kubernetes.io/instance-type: c7i.xlarge}
spec: {providerID: "aws:///us-east-1a/i-1"}
status:
  capacity: {cpu: "4", memory: 6700Mi, pods: "58"}
  allocatable: {cpu: "4", memory: 1Mi, pods: "58"}
---
apiVersion: v1
kind: Pod
metadata: {name: large, namespace: default}
spec: {containers: [{name: c, resources: {requests: {memory: 6400Mi}}}]}
status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}
"#;

#[test]
fn a_plan_counts_with_the_memory_that_nodes_of_the_same_images_show() {
    let dir = folder("aws-memory");
    let world = small_world(&dir, serde_json::json!({}));
    let plan = |snapshot: &str| {
        let file = dir.join("snapshot.yaml");
        std::fs::write(&file, snapshot).unwrap();
        let plan = ["plan", "--provider", "aws", "--world", &world, "-o", "json"];
        let plan = json(&[&plan[..], &["--snapshot", file.to_str().unwrap()]].concat());
        plan["errors"].as_object().unwrap().len()
    };
    assert_eq!(plan(SHOWN), 1);
    // The estimate holds where the node boots from another image, or is not registered.
    let other = SHOWN.replace("imageID: ami-1", "imageID: ami-0");
    assert_eq!(plan(&other), 0);
    let not_yet = SHOWN.replace(
        "type: Registered, status: \"True\"",
        "type: Registered, status: \"False\"",
    );
    assert_ne!(not_yet, SHOWN);
    assert_eq!(plan(&not_yet), 0);
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
            vec!["types", "--bootstrap", "x.wasm"],
            "--bootstrap means nothing with --provider kwok",
        ),
        (
            [
                &aws[..],
                &["-f", WORLD, "--aws-feature-gates", "NodeClassCEL"],
            ]
            .concat(),
            "write it like ReservedCapacity=true",
        ),
        (
            vec![
                "plan",
                "--provider",
                "aws",
                "--snapshot",
                CLUSTER,
                "--bootstrap",
                "x.wasm",
            ],
            "name a file with the cluster",
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
    let whole = std::fs::read_to_string(
        std::path::Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join(CLUSTER),
    );
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
