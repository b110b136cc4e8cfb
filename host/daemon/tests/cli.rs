//! The command as people run it: files in, text and exit codes out.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use expect_test::{Expect, expect};
use serde_json::Value;

const SMALL: &str = "tests/data/small.yaml";
const TYPES: &str = "tests/data/types.json";

fn longshore(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longshore"));
    command
        .current_dir(std::env::var("CARGO_MANIFEST_DIR").unwrap())
        .args(args);
    command
}

fn run(args: &[&str]) -> Output {
    longshore(args).output().expect("longshore starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Fails with everything that the command said if its exit code is another one.
fn exits(output: &Output, code: i32) {
    assert_eq!(
        output.status.code(),
        Some(code),
        "\n{}\n{}",
        stdout(output),
        stderr(output)
    );
}

fn plan(more: &[&str]) -> Output {
    run(&[
        &["plan", "--snapshot", SMALL, "--instance-types", TYPES],
        more,
    ]
    .concat())
}

fn json(output: &Output) -> Value {
    exits(output, 0);
    serde_json::from_slice(&output.stdout).expect("JSON on standard output")
}

/// The text without the line that says how long it took.
fn shown(output: &Output, expected: Expect) {
    let text = stdout(output);
    let lines = text.lines().filter(|line| !line.starts_with("Decided in "));
    expected.assert_eq(&lines.map(|line| format!("{line}\n")).collect::<String>());
}

/// A file of this test's own.
fn file(name: &str, content: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(name);
    std::fs::write(&file, content).unwrap();
    file
}

fn path(file: &Path) -> &str {
    file.to_str().unwrap()
}

#[test]
fn a_plan_is_shown_to_people_as_a_table() {
    let output = plan(&[]);
    exits(&output, 0);
    shown(
        &output,
        expect![[r#"
            Buy 2 nodes for 3 pods:

            NODES  INSTANCE TYPE  CPU  MEMORY  CAPACITY  ZONES       NODEPOOL  PODS  USD/H EACH   USD/H
                2  m7g.large        2     8Gi  spot      us-east-1b  default      3      0.0290  0.0580

            Place 1 pod on nodes that exist:

            NODE  PODS
            old      1  shop/web-0

            1 pod left over:

              shop/huge
                  NodePool default: 4 of 5 types: too little cpu; 1: too little memory

            Price              0.0580  USD/h
            Objective          0.0880  USD/h as scored, with 0.015 for each node
            Lower bound        0.0477  USD/h, gap 45.8 %
            Robust              10/10  runs of kube-scheduler leave no pod over if it is told of the plan, as `longshore run` does (mean 0.0 pods)
                                10/10  if it is not (mean 0.0 pods)

        "#]],
    );
}

#[test]
fn a_plan_has_the_keys_of_the_oracle_and_ours() {
    let plan = json(&plan(&["-o", "json"]));
    for key in [
        "seconds",
        "cost",
        "claims",
        "existing",
        "errors",
        "effective",
        "lowerBound",
        "gap",
        "digest",
        "problems",
    ] {
        assert!(plan.get(key).is_some(), "no {key} in {plan:#}");
    }
    for claim in plan["claims"].as_array().unwrap() {
        for key in ["nodePool", "instanceTypes", "price", "requirements", "pods"] {
            assert!(claim.get(key).is_some(), "no {key} in {claim:#}");
        }
    }
    assert_eq!(plan["errors"]["shop/huge"]["reason"], "InstanceTypes");
    assert_eq!(
        plan["errors"]["shop/huge"]["refusals"][0]["nodePool"],
        "default"
    );
}

#[test]
fn strict_plans_leave_no_pod_over() {
    exits(&plan(&["--strict"]), 1);
    exits(&plan(&[]), 0);
}

#[test]
fn the_same_objects_in_another_order_give_the_same_digest() {
    let text = std::fs::read_to_string(
        Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join(SMALL),
    )
    .unwrap();
    let mut documents: Vec<&str> = text.split("\n---\n").collect();
    documents.reverse();
    let reversed = file("reversed.yaml", &documents.join("\n---\n"));
    let there = json(&plan(&["-o", "json"]));
    let back = json(&run(&[
        "plan",
        "--snapshot",
        path(&reversed),
        "--instance-types",
        TYPES,
        "-o",
        "json",
    ]));
    assert_eq!(there["digest"], back["digest"]);
    assert_eq!(there["digest"].as_str().map(str::len), Some(64));
}

#[test]
fn standard_input_is_a_file_like_any_other() {
    let mut command = longshore(&[
        "plan",
        "--snapshot",
        "-",
        "--instance-types",
        TYPES,
        "-o",
        "json",
    ]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let text = std::fs::read(Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join(SMALL))
        .unwrap();
    child.stdin.take().unwrap().write_all(&text).unwrap();
    let piped = json(&child.wait_with_output().unwrap());
    assert_eq!(piped["digest"], json(&plan(&["-o", "json"]))["digest"]);
}

#[test]
fn a_bad_object_is_reported_and_the_others_are_planned() {
    let bad = "apiVersion: v1\nkind: Pod\nmetadata: {name: odd, namespace: shop}\nspec: \
        {containers: [{name: a, resources: {requests: {cpu: lots}}}]}\n";
    let bad = file("bad.yaml", bad);
    let output = run(&[
        "plan",
        "--snapshot",
        SMALL,
        path(&bad),
        "--instance-types",
        TYPES,
        "-o",
        "json",
    ]);
    let plan = json(&output);
    let complaint = stderr(&output);
    for part in ["bad.yaml", "odd", "cpu", "lots"] {
        assert!(complaint.contains(part), "no {part} in {complaint}");
    }
    assert_eq!(plan["problems"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        plan["errors"].as_object().map(serde_json::Map::len),
        Some(1)
    );
}

#[test]
fn what_cannot_be_used_at_all_is_an_error() {
    let broken = file("broken.yaml", "kind: [\n");
    let nothing = file("nothing.yaml", "");
    for arguments in [
        vec!["plan", "--snapshot", "nowhere.yaml"],
        vec!["plan", "--snapshot", path(&broken)],
        vec!["plan", "--snapshot", path(&nothing)],
        vec!["plan", "--snapshot", SMALL, "--instance-types", SMALL],
        vec!["plan", "--snapshot", SMALL, "--scorer", "nowhere.wasm"],
        vec!["plan", "--snapshot", SMALL, "--scorer", SMALL],
        vec!["plan", "--snapshot", "-", "-"],
        vec!["plan"],
        vec!["plan", "--snapshot", SMALL, "--improve", "hard"],
        vec!["types", "--instance-types", "nowhere.json"],
        vec!["policy", "check", SMALL],
        vec!["explain", "pod", "nobody", "--snapshot", SMALL],
    ] {
        let output = run(&arguments);
        exits(&output, 2);
        assert!(
            !stderr(&output).is_empty(),
            "{arguments:?} failed without a word"
        );
        assert!(
            !stderr(&output).contains("panicked"),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn faults_of_the_configuration_name_file_line_and_hint() {
    let config = file("longshore.toml", "[planning]\nimprov = \"quick\"\n");
    let output = plan(&["--config", path(&config)]);
    exits(&output, 2);
    let complaint = stderr(&output);
    assert!(
        complaint.starts_with("longshore: the configuration has 1 fault\n"),
        "{complaint}"
    );
    assert!(
        complaint.contains("longshore.toml:2:1: unknown key `improv` in [planning]"),
        "{complaint}"
    );
    assert!(
        complaint.contains("hint: did you mean `improve`?"),
        "{complaint}"
    );
}

#[test]
fn configuration_changes_the_plan() {
    let config = file("dear.toml", "[planning]\nnode-cost = 1.0\n");
    let dear = json(&plan(&["--config", path(&config), "-o", "json"]));
    let nodes = dear["claims"].as_array().unwrap().len() as f64;
    let difference = dear["effective"].as_f64().unwrap() - dear["cost"].as_f64().unwrap();
    assert!(
        (difference - nodes).abs() < 1e-9,
        "{difference} for {nodes} nodes"
    );
}

#[test]
fn a_pod_left_over_is_explained_by_pool_and_node() {
    let output = run(&[
        "explain",
        "pod",
        "huge",
        "--snapshot",
        SMALL,
        "--instance-types",
        TYPES,
    ]);
    exits(&output, 0);
    shown(
        &output,
        expect![[r#"
        Pod shop/huge (3 cpu, 60Gi memory) is left over.

        WHERE             WHY
        NodePool default  4 of 5 types: too little cpu; 1: too little memory
        node old          too little cpu: wants 3, free 100m
    "#]],
    );
}

#[test]
fn a_pod_whose_affinity_binds_it_to_a_full_node_is_explained() {
    let guest = "apiVersion: v1\nkind: Pod\nmetadata: {name: guest, namespace: shop, uid: \
        g0}\nspec: {containers: [{name: main, \
                 resources: {requests: {cpu: 950m}}}], affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{\
                 topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: resident}}}]}}}\nstatus: {phase: Pending, \
                 conditions: [{type: PodScheduled, status: \"False\", reason: Unschedulable}]}\n";
    let guest = file("guest.yaml", guest);
    let output = run(&[
        "explain",
        "pod",
        "guest",
        "--snapshot",
        SMALL,
        path(&guest),
        "--instance-types",
        TYPES,
    ]);
    exits(&output, 0);
    shown(
        &output,
        expect![[r#"
        Pod shop/guest (950m cpu) is left over.

        WHERE             WHY
        NodePool default  its affinity requires pods on the same node; they run on full nodes or do not run
        node old          too little cpu: wants 950m, free 100m
    "#]],
    );
}

#[test]
fn a_placed_pod_is_explained_with_the_next_best() {
    let output = run(&[
        "explain",
        "pod",
        "shop/arm",
        "--snapshot",
        SMALL,
        "--instance-types",
        TYPES,
    ]);
    exits(&output, 0);
    shown(
        &output,
        expect![[r#"
        Pod shop/arm (500m cpu, 1Gi memory) goes to a new node.

          NodePool     default
          node         m7g.large (spot, us-east-1b) at 0.0290 USD/h, 1 pod on it
          next best    no other type takes these pods
          on its own   m7g.large (spot, us-east-1b) at 0.0290 USD/h

        WHERE     WHY NOT THERE
        node old  label kubernetes.io/arch does not match: wants arm64
    "#]],
    );
}

#[test]
fn a_pod_that_runs_is_explained_by_its_node() {
    let output = run(&[
        "explain",
        "pod",
        "resident",
        "--snapshot",
        SMALL,
        "--instance-types",
        TYPES,
    ]);
    exits(&output, 0);
    shown(
        &output,
        expect![[r#"
            Pod shop/resident (1 cpu, 4Gi memory) runs on node old.

              node         its price is not known: no offering of the catalogue has its labels, 1 pod on it
              on its own   m7g.large (spot, us-east-1b) at 0.0290 USD/h
        "#]],
    );
}

#[test]
fn types_are_listed() {
    let output = run(&["types", "--instance-types", TYPES]);
    exits(&output, 0);
    shown(
        &output,
        expect![[r#"
        INSTANCE TYPE  ARCH   CPU  MEMORY  PODS  ZONES  ON-DEMAND  SPOT FROM  ALSO
        c6i.large      amd64    2     4Gi    29      2     0.0850     0.0252
        m6i.large      amd64    2     8Gi    29      2     0.0960     0.0439
        m6i.xlarge     amd64    4    16Gi    58      2     0.1920     0.0880
        m7g.large      arm64    2     8Gi    29      2     0.0816     0.0290
        r6i.large      amd64    2    16Gi    29      2     0.1260     0.0469

        5 instance types, 20 offerings available. Prices in USD per hour.
    "#]],
    );
    let built_in = json(&run(&["types", "-o", "json"]));
    assert_eq!(built_in.as_array().map(Vec::len), Some(144));
}

#[test]
fn version_is_said() {
    let output = run(&["--version"]);
    exits(&output, 0);
    assert_eq!(
        stdout(&output),
        format!("longshore {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn default_constraints_spread_pods_that_have_none_as_the_daemon_does() {
    let pod = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: shop, uid: {name}, \
            labels: {{app: free}}}}\n\
             spec: {{containers: [{{name: main, resources: {{requests: {{cpu: 100m, memory: 1Gi}}}}}}]}}\n\
             status: {{phase: Pending, conditions: [{{type: PodScheduled, status: \"False\", \
                 reason: Unschedulable}}]}}\n"
        )
    };
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: free, namespace: shop}\nspec: \
        {selector: {app: free}}\n";
    let small = std::fs::read_to_string(
        Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join(SMALL),
    )
    .unwrap();
    let pool: Vec<&str> = small.split("\n---\n").take(2).collect();
    let documents = [
        pool.join("\n---\n"),
        service.to_owned(),
        pod("free-0"),
        pod("free-1"),
    ];
    let cluster = file("spread.yaml", &documents.join("\n---\n"));
    let constraints = "podTopologySpread:\n  defaultConstraints:\n  - {maxSkew: 1, topologyKey: \
        topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}\n";
    let constraints = file("constraints.yaml", constraints);
    let claims = |more: &[&str]| {
        let plan = [
            "plan",
            "--snapshot",
            path(&cluster),
            "--instance-types",
            TYPES,
            "-o",
            "json",
        ];
        json(&run(&[&plan[..], more].concat()))["claims"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(claims(&[]), 1);
    assert_eq!(claims(&["--scheduler-config", path(&constraints)]), 2);
    let refused = plan(&[
        "--scheduler-config",
        "{podTopologySpread: {defaultConstraints: [{maxSkew: 0}]}}",
    ]);
    exits(&refused, 2);
    let complaint = stderr(&refused);
    assert!(
        complaint.contains("SCHEDULER_CONFIG:1: podTopologySpread.defaultConstraints[0]"),
        "{complaint}"
    );
}

#[test]
fn a_nodepool_that_nothing_can_be_bought_for_is_told_with_its_requirement() {
    let incompatible = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: \
        risc}\nspec: {template: {spec: {\
                  nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, requirements: [\
                  {key: kubernetes.io/arch, operator: In, values: [riscv64]}]}}}\n";
    let incompatible = file("barren.yaml", incompatible);
    let args = [
        "--snapshot",
        SMALL,
        path(&incompatible),
        "--instance-types",
        TYPES,
    ];
    let why = "no compatible instance type: 5 of 5 types: labels do not match; none satisfies the \
        NodePool's requirement on kubernetes.io/arch: riscv64";
    let planned = run(&[&["plan"], &args[..]].concat());
    exits(&planned, 0);
    assert!(
        stdout(&planned).contains(&format!("\nNodePool risc: {why}\n")),
        "{}",
        stdout(&planned)
    );
    let explained = run(&[&["explain", "pod", "huge"], &args[..]].concat());
    exits(&explained, 0);
    let line = format!("\nNodePool risc, whatever pod asks: {why}.\n");
    assert!(stdout(&explained).contains(&line), "{}", stdout(&explained));
    let json = json(&run(&[&["plan", "-o", "json"], &args[..]].concat()));
    assert_eq!(json["barren"]["risc"], why);
}

#[test]
fn a_nodepool_that_may_not_be_bought_from_is_told_with_the_reason() {
    let small = std::fs::read_to_string(
        Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join(SMALL),
    )
    .unwrap();
    let rest: Vec<&str> = small
        .split("\n---\n")
        .filter(|document| !document.contains("kind: NodePool"))
        .collect();
    let pool = |name: &str, class: &str, more: &str| {
        format!(
            "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec: \
            {{template: {{spec: {{\
             requirements: [], nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, \
             name: {class}}}}}}}{more}}}\n"
        )
    };
    let pools = [
        pool("fixed", "default", ", replicas: 1"),
        pool("lost", "elsewhere", ""),
    ];
    let cluster = file(
        "unusable.yaml",
        &[&rest[..], &[&pools[0], &pools[1]]]
            .concat()
            .join("\n---\n"),
    );
    let args = ["--snapshot", path(&cluster), "--instance-types", TYPES];
    let planned = run(&[&["plan"], &args[..]].concat());
    exits(&planned, 0);
    assert!(
        stdout(&planned).contains("Price              0.0000"),
        "{}",
        stdout(&planned)
    );
    let explained = run(&[&["explain", "pod", "huge"], &args[..]].concat());
    exits(&explained, 0);
    for why in [
        "it is static (spec.replicas): its nodes are kept by count",
        "its KWOKNodeClass elsewhere does not exist",
    ] {
        for output in [stdout(&planned), stdout(&explained)] {
            assert!(output.contains(why), "{output}");
        }
    }
}

#[test]
fn daemons_that_a_limit_range_sizes_have_room_on_the_first_node() {
    let cluster = |ranges: &str| {
        format!(
            "
{{apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {{name: default}}}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: default}}
spec: {{template: {{spec: {{nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}, requirements: []}}}}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: log, namespace: shop}}
spec: {{template: {{spec: {{containers: [{{name: a}}, {{name: b}}]}}}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: web, namespace: shop, uid: w}}
spec: {{containers: [{{name: c, resources: {{requests: {{cpu: 1500m}}}}}}]}}
status: {{phase: Pending, conditions: [{{type: PodScheduled, status: 'False', reason: Unschedulable}}]}}
{ranges}"
        )
    };
    let bought = |name: &str, ranges: &str| {
        let snapshot = file(name, &cluster(ranges));
        let plan = json(&run(&[
            "plan",
            "--snapshot",
            path(&snapshot),
            "--instance-types",
            TYPES,
            "-o",
            "json",
        ]));
        let claims = plan["claims"].as_array().unwrap();
        assert_eq!(claims.len(), 1, "{plan:#}");
        claims[0]["instanceTypes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| t.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let range = |namespace: &str| {
        let entry = "{type: Container, default: {cpu: 500m}}";
        format!(
            "---\n{{apiVersion: v1, kind: LimitRange, metadata: {{name: r, namespace: \
            {namespace}}}, spec: {{limits: [{entry}]}}}}\n"
        )
    };
    assert!(bought("no-range.yaml", "").contains(&"m7g.large".to_owned()));
    assert!(bought("other-range.yaml", &range("other")).contains(&"m7g.large".to_owned()));
    // 1 500m of the pod and 500m for each container of the daemon.
    assert_eq!(bought("range.yaml", &range("shop")), ["m6i.xlarge"]);
}

/// Two half-empty nodes, each with a pod.
fn half_empty() -> String {
    let labels = |name: &str| {
        format!(
            r#"{{"karpenter.sh/nodepool": "default", "karpenter.sh/registered": "true",
            "karpenter.sh/initialized": "true", "karpenter.sh/capacity-type": "on-demand",
            "topology.kubernetes.io/zone": "us-east-1a", "kubernetes.io/hostname": "{name}",
            "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": "m6i.xlarge"}}"#
        )
    };
    let amounts = r#"{"cpu": "4", "memory": "16Gi", "pods": "58"}"#;
    let is = |kind: &str| format!(r#"{{"type": "{kind}", "status": "True"}}"#);
    let conditions = ["Launched", "Registered", "Initialized", "Consolidatable"]
        .map(is)
        .join(",");
    let ready = is("Ready");
    let node = |name: &str| {
        let labels = labels(name);
        format!(
            r#"{{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {{"name": "claim-{name}",
            "uid": "c-{name}", "labels": {labels}}}, "spec": {{"requirements": [], "nodeClassRef":
            {{"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}}}, "status":
            {{"providerID": "kwok://{name}", "nodeName": "{name}", "capacity": {amounts},
            "allocatable": {amounts}, "conditions": [{conditions}]}}}},
            {{"apiVersion": "v1", "kind": "Node", "metadata": {{"name": "{name}", "uid": "n-{name}",
            "labels": {labels}}}, "spec": {{"providerID": "kwok://{name}"}}, "status":
            {{"capacity": {amounts}, "allocatable": {amounts}, "conditions": [{ready}]}}}},
            {{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "web-{name}", "namespace": "shop",
            "uid": "p-{name}", "labels": {{"app": "web"}}}}, "spec": {{"nodeName": "{name}",
            "containers": [{{"name": "main", "image": "web",
            "resources": {{"requests": {{"cpu": "500m", "memory": "1Gi"}}}}}}]}},
            "status": {{"phase": "Running"}}}}"#
        )
    };
    let pool = r#"{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}, "template": {"spec": {"nodeClassRef":
        {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements":
        [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]}}}}"#;
    let (one, two) = (node("one"), node("two"));
    format!(r#"{{"apiVersion": "v1", "kind": "List", "items": [{pool}, {one}, {two}]}}"#)
}

#[test]
fn what_could_be_saved_is_proposed_and_carried_out_on_paper() {
    let cluster = file("half-empty.json", &half_empty());
    let ask = |more: &[&str]| {
        let from = [
            "plan",
            "--snapshot",
            path(&cluster),
            "--instance-types",
            TYPES,
        ];
        run(&[&from[..], more].concat())
    };
    let proposed = json(&ask(&["--disrupt", "-o", "json"]));
    let first = &proposed["proposals"][0];
    assert_eq!(first["verdict"], "now", "{proposed:#}");
    assert!(first["savings"].as_f64().unwrap() > 0.2, "{first:#}");
    assert_eq!(
        first["podsMoved"],
        first["moves"].as_object().unwrap().len()
    );
    assert!(proposed["lowerBound"].as_f64().unwrap() <= proposed["cost"].as_f64().unwrap());
    let text = stdout(&ask(&["--disrupt"]));
    assert!(text.starts_with("Remove "), "{text}");
    let after = file("after.json", "");
    let converged = json(&ask(&["--converge", "--write", path(&after), "-o", "json"]));
    assert_eq!(
        (&converged["finished"], &converged["nodesBefore"]),
        (&true.into(), &2.into())
    );
    assert_eq!(converged["nodesAfter"], 1);
    let cost = |at: &str| converged[at].as_f64().unwrap();
    assert!(
        cost("after") < 0.1 && cost("before") > 0.38,
        "{converged:#}"
    );
    let from = [
        "plan",
        "--snapshot",
        path(&after),
        "--instance-types",
        TYPES,
    ];
    let again = json(&run(&[&from[..], &["--converge", "-o", "json"]].concat()));
    assert_eq!(
        again["before"], converged["after"],
        "what was written is what was reached"
    );
    assert_eq!(again["steps"].as_array().unwrap().len(), 0);
}

/// The half-empty cluster while node `one` is in a command; what is bought for it is so far.
fn in_a_command(conditions: &[&str]) -> String {
    let mut list: Value = serde_json::from_str(&half_empty()).unwrap();
    let details = r#"{"method": "multi", "reason": "Underutilized", "candidates": 2,
        "replacements": ["claim-new"], "began": 1795539600}"#;
    let items = list["items"].as_array_mut().unwrap();
    let mut bought = items[1].clone();
    items[1]["metadata"]["annotations"] = serde_json::json!({
        "longshore.dev/disruption": "d1", "longshore.dev/disruption-command": details});
    let conditions = conditions.iter();
    let conditions = conditions.map(|kind| serde_json::json!({"type": kind, "status": "True"}));
    bought["metadata"] = serde_json::json!({"name": "claim-new", "uid": "c-new",
        "labels": bought["metadata"]["labels"],
        "annotations": {"longshore.dev/replaces": "d1"}});
    bought["status"] = serde_json::json!({"conditions": conditions.collect::<Vec<_>>()});
    items.push(bought);
    list.to_string()
}

#[test]
fn a_node_in_a_command_is_explained_by_the_command_and_what_it_waits_for() {
    let ask = |cluster: &str| {
        let cluster = file("in-a-command.json", cluster);
        let from = ["--snapshot", path(&cluster), "--instance-types", TYPES];
        run(&[&["explain", "node", "one"], &from[..]].concat())
    };
    let output = ask(&in_a_command(&["Launched"]));
    exits(&output, 0);
    shown(
        &output,
        expect![[r#"
            Node one goes by multi (Underutilized), with 1 others, for 1 replacements: command d1 of 2026-11-24T17:00:00Z.
            It waits for: initialization of claim-new (launched); the node stays if that is not done by 2026-11-24T17:10:00Z.
        "#]],
    );
    let output = ask(&in_a_command(&["Launched", "Registered", "Initialized"]));
    assert!(stdout(&output).contains("its NodeClaim is deleted next"));
    let going = r#""metadata":{"deletionTimestamp":"2026-11-24T17:00:00Z","#;
    let bought = r#""metadata":{"annotations":{"longshore.dev/replaces""#;
    let gone = in_a_command(&[]).replace(bought, &format!("{going}{}", &bought[12..]));
    let output = ask(&gone);
    let said = "replacement claim-new (being deleted): the node will stay";
    assert!(stdout(&output).contains(said), "{}", stdout(&output));
}

#[test]
fn an_unhealthy_node_of_a_snapshot_is_repaired_if_that_is_asked_for() {
    let ready = r#"{"type": "Ready", "status": "True"}"#;
    let unready = r#"{"type": "Ready", "status": "False",
        "lastTransitionTime": "2026-11-24T10:00:00Z"}"#;
    let late = r#"{"type": "Ready", "status": "True",
        "lastHeartbeatTime": "2026-11-24T23:00:00Z"}"#;
    let healthy = half_empty();
    let ill = healthy.replacen(ready, unready, 1).replacen(ready, late, 1);
    assert_ne!(ill, healthy);
    let proposals = |name: &str, cluster: &str, more: &[&str]| {
        let cluster = file(name, cluster);
        let from = ["plan", "--disrupt", "--snapshot", path(&cluster)];
        let as_json = ["--instance-types", TYPES, "-o", "json"];
        let report = json(&run(&[&from[..], &as_json, more].concat()));
        let proposals = report["proposals"].as_array().unwrap().clone();
        proposals
            .iter()
            .map(|one| format!("{} {}", one["method"], one["nodes"]))
            .collect::<Vec<_>>()
    };
    let repair = ["--method", "repair"];
    let found = proposals("unready.json", &ill, &repair);
    assert_eq!(found, [r#""repair" ["one"]"#]);
    assert!(proposals("ready.json", &healthy, &repair).is_empty());
    let others = proposals("unready-others.json", &ill, &[]);
    assert!(
        others.iter().all(|one| !one.contains("repair")),
        "{others:?}"
    );
}

#[test]
fn a_method_that_is_not_there_is_named() {
    let cluster = file("half-empty-2.json", &half_empty());
    for (name, said) in [
        ("expiration", "cannot be planned from files yet"),
        ("all", "no method all"),
    ] {
        let output = run(&[
            "plan",
            "--disrupt",
            "--method",
            name,
            "--snapshot",
            path(&cluster),
        ]);
        exits(&output, 2);
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
}

const EC2: &str = "apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: KarpenterNodeRole-demo
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: []
      expireAfter: 720h
";

#[test]
fn drift_hashes_are_karpenters() {
    let class = file("ec2.yaml", EC2);
    let all = json(&run(&["hash", "-f", path(&class), "-o", "json"]));
    let numbers = [
        ("EC2NodeClass", "477699353285763520", "v6"),
        ("NodePool", "6821555240594823858", "v3"),
    ];
    let expected = numbers.map(|(kind, hash, version)| {
        serde_json::json!({"kind": kind, "name": "default", "hash": hash, "hashVersion": version})
    });
    assert_eq!(all, Value::from(expected.to_vec()));
    let text = run(&["hash", "-f", path(&class)]);
    exits(&text, 0);
    assert!(stdout(&text).contains("477699353285763520"));
    let bundle = ["--cluster-ca-bundle", "Y2EtYnVuZGxl", "-o", "json"];
    let other = json(&run(&[&["hash", "-f", path(&class)], &bundle[..]].concat()));
    assert_ne!(other[0]["hash"], all[0]["hash"]);
    assert_eq!(other[1]["hash"], all[1]["hash"]);
    let bad = file("bad-ec2.yaml", &EC2.replace("role:", "rolle:"));
    let bad = run(&["hash", "-f", path(&bad), path(&class)]);
    exits(&bad, 2);
    assert!(stderr(&bad).contains("bad-ec2.yaml:5 (document 1): EC2NodeClass default: spec.rolle"));
    assert_eq!(stdout(&bad), "");
}

#[test]
fn user_data_is_rendered() {
    let node = "name: windows\namiFamily: Windows2022\nresolve: true\nmaxPods: 110\ncluster: \
                {name: demo, endpoint: 'https://e'}\n---\nname: refused\namiFamily: AL2023\n";
    let nodes = file("nodes.yaml", node);
    let all = json(&run(&[
        "render",
        "userdata",
        "-f",
        path(&nodes),
        "-o",
        "json",
    ]));
    let text = all[0]["userData"].as_str().unwrap();
    assert!(text.starts_with("<powershell>\n") && text.contains("--max-pods=110"));
    assert_eq!(all[1]["userData"], "");
    assert!(all[1]["error"].as_str().unwrap().contains("cluster.cidr"));
    let shown = run(&["render", "userdata", "-f", path(&nodes)]);
    exits(&shown, 0);
    assert!(stdout(&shown).starts_with("==> windows <==\n<powershell>\n"));
    let missing = [
        "render",
        "userdata",
        "-f",
        path(&nodes),
        "--bootstrap",
        "x.wasm",
    ];
    let missing = run(&missing);
    exits(&missing, 2);
    assert!(
        stderr(&missing).contains("cannot read x.wasm"),
        "{}",
        stderr(&missing)
    );
}

#[test]
fn migrate_check_says_by_its_exit_code_what_a_take_over_changes() {
    let pool = |hash: &str| {
        format!(
            "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: default\n  annotations: \
             {{karpenter.sh/nodepool-hash: '{hash}', karpenter.sh/nodepool-hash-version: v3}}\nspec:\n  \
             template:\n    spec:\n      nodeClassRef: {{group: karpenter.kwok.sh, kind: \
             KWOKNodeClass, name: default}}\n      requirements: []\n---\n\
             apiVersion: karpenter.kwok.sh/v1alpha1\nkind: KWOKNodeClass\nmetadata: {{name: default}}\n"
        )
    };
    let check = |name: &str, text: &str| {
        let file = file(name, text);
        run(&["migrate", "check", "--snapshot", path(&file), "-o", "json"])
    };
    let changed = check("migrate-old.yaml", &pool("1"));
    exits(&changed, 1);
    let said: Value = serde_json::from_slice(&changed.stdout).unwrap();
    let what = said["findings"][0]["what"].as_str().unwrap();
    let hash = what.split_whitespace().nth(3).unwrap();
    let now = check("migrate-now.yaml", &pool(hash));
    exits(&now, 0);
    let broken = pool(hash).replace("requirements: []", "requirements: many");
    let broken = check("migrate-broken.yaml", &broken);
    exits(&broken, 3);
    assert!(
        stdout(&broken).contains("migrate-broken.yaml:10"),
        "{}",
        stdout(&broken)
    );
    for (name, text, says) in [
        (
            "migrate-pods.yaml",
            "kind: Pod\n",
            "no NodePool, NodeClaim or node class",
        ),
        (
            "migrate-none.yaml",
            "a: 1\n",
            "every object needs apiVersion and kind",
        ),
        ("migrate-cut.json", "{\"kind\": \"NodePool\"", "cut short"),
    ] {
        let refused = check(name, text);
        exits(&refused, 2);
        assert!(stderr(&refused).contains(says), "{}", stderr(&refused));
    }
    let both = run(&["migrate", "check", "--snapshot", "x", "--kubeconfig", "y"]);
    exits(&both, 2);
    let away = run(&["migrate", "check", "--kubeconfig", "tests/data/small.yaml"]);
    exits(&away, 2);
    assert!(stderr(&away).contains("hint"), "{}", stderr(&away));
}

/// A NodePool of a node class, with a requirement, and a pod that waits.
fn waits_beside(group: &str, kind: &str, key: &str) -> String {
    format!(
        "apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: default}}
spec:
  template:
    spec:
      nodeClassRef: {{group: {group}, kind: {kind}, name: default}}
      requirements: [{{key: {key}, operator: In, values: [r]}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: web, namespace: shop, uid: u, creationTimestamp: '2026-11-24T10:00:00Z'}}
spec: {{containers: [{{name: c, image: x, resources: {{requests: {{cpu: '1'}}}}}}]}}
status:
  phase: Pending
  conditions: [{{type: PodScheduled, status: 'False', reason: Unschedulable}}]
"
    )
}

/// Requirements of another provider mean nothing to the instance types at hand: what was bought would
/// have been wrong.
#[test]
fn nothing_is_bought_for_a_nodepool_of_another_provider_and_the_reason_names_its_node_class() {
    let world = "../../examples/catalogues/aws-us-east-1.json.gz";
    let aws = ["--provider", "aws", "--world", world];
    let cases = [
        (
            (
                "karpenter.k8s.aws",
                "EC2NodeClass",
                "karpenter.k8s.aws/instance-category",
            ),
            &["--instance-types", TYPES][..],
            "plan with --provider aws",
            "KWOKNodeClass (karpenter.kwok.sh)",
        ),
        (
            (
                "eks.amazonaws.com",
                "NodeClass",
                "eks.amazonaws.com/instance-category",
            ),
            &aws,
            "its own controller buys for it",
            "EC2NodeClass (karpenter.k8s.aws)",
        ),
    ];
    for ((group, kind, key), provider, hint, ours) in cases {
        let input = file(&format!("{kind}.yaml"), &waits_beside(group, kind, key));
        let plan = ["plan", "--snapshot", path(&input), "-o", "json"];
        let output = run(&[&plan[..], provider].concat());
        let plan = json(&output);
        assert_eq!(plan["claims"], serde_json::json!([]), "{plan}");
        let why = plan["errors"].to_string();
        for part in [
            format!("{kind} ({group}) default, of another provider").as_str(),
            ours,
        ] {
            assert!(why.contains(part), "{part} in {why}");
        }
        let said = stderr(&output);
        let field = "NodePool default: spec.template.spec.nodeClassRef: is";
        for part in [field, &format!("{kind} ({group})"), ours, hint] {
            assert!(said.contains(part), "{part} in {said}");
        }
        let explain = ["explain", "pod", "shop/web", "--snapshot", path(&input)];
        let explained = stdout(&run(&[&explain[..], provider].concat()));
        assert!(explained.contains("of another provider"), "{explained}");
    }
}
