//! Repair within budgets in virtual time: replaced first, rebooted, vetoed, and carried on after a
//! kill.

use std::sync::Arc;
use std::time::Duration;

use longshore_sim::harness::{Harness, Kill, RepairMode, Setup, When, reloader};
use longshore_simcluster::fields::{self, name};
use longshore_simcluster::object::Key;
use longshore_simcluster::server::resources::{NODE, NODE_CLAIM};
use longshore_simcluster::server::{Subresource, resources};
use longshore_simcluster::world::paused;
use serde_json::Value;

/// A NodePool, a pod on each of so many nodes, and more of the NodePool's disruption.
fn cluster(nodes: u32, budget: &str) -> String {
    format!(
        "
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {{name: default}}
spec: {{}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: general}}
spec:
  disruption: {{consolidateAfter: Never, budgets: [{{nodes: '{budget}'}}]}}
  template:
    spec:
      expireAfter: Never
      nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}
      requirements:
      - {{key: kubernetes.io/os, operator: In, values: [linux]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: {nodes}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      containers: [{{name: c, image: 'x:1', resources: {{requests: {{cpu: 200m, memory: 64Mi}}}}}}]
      affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [
        {{topologyKey: kubernetes.io/hostname, labelSelector: {{matchLabels: {{app: web}}}}}}]}}}}
"
    )
}

fn setup(seed: u64) -> Setup {
    Setup {
        repairs: RepairMode::WithinBudgets,
        disrupts: true,
        ..Setup::new(seed).expect("policies")
    }
}

async fn started(setup: Setup, nodes: u32, budget: &str) -> Harness {
    let harness = Harness::new(setup);
    harness
        .world
        .apply(&cluster(nodes, budget))
        .expect("manifests");
    run(&harness, 300).await;
    assert_eq!(
        harness.world.ready_pods(),
        nodes as usize,
        "{}",
        harness.transcript()
    );
    harness
}

async fn run(harness: &Harness, seconds: u64) {
    harness.world.run_for(Duration::from_secs(seconds)).await;
    assert_eq!(harness.violations(), [""; 0], "{}", harness.transcript());
}

fn nodes(harness: &Harness) -> Vec<Arc<Value>> {
    harness.world.server.list(NODE)
}

fn first_node(harness: &Harness) -> String {
    name(&nodes(harness)[0]).to_owned()
}

/// Each of five nodes has its pod.
fn all_pods_run(harness: &Harness) {
    let ready = harness.world.ready_pods();
    assert_eq!(ready, 5, "{}", harness.world.describe());
}

/// A node asks for a reboot for so long that it gets one, and for no other.
async fn reboot(harness: &Harness, node: &str) {
    state(harness, node, "RebootRequired", "True");
    run(harness, 70).await;
    state(harness, node, "RebootRequired", "False");
    run(harness, 300).await;
}

fn key(node: &str) -> Key {
    fields::key(resources::NODE, "", node)
}

/// Gives a node a condition, or takes it away.
fn state(harness: &Harness, node: &str, condition: &str, status: &str) {
    let now = harness.world.clock.now();
    let change = &mut |object: &mut Value| {
        fields::set_condition(object, condition, status, "Test", "", now);
    };
    let written = harness
        .world
        .server
        .update(&key(node), Subresource::Status, change);
    written.expect("the node is there");
}

fn boot_id(harness: &Harness, node: &str) -> String {
    let node = harness.world.server.get(&key(node)).expect("the node");
    fields::text(&node, "/status/nodeInfo/bootID").to_owned()
}

/// The line of the transcript that has all of these words first.
fn line(harness: &Harness, words: &[&str]) -> usize {
    let transcript = harness.transcript();
    let found = transcript
        .lines()
        .position(|line| words.iter().all(|word| line.contains(word)));
    found.unwrap_or_else(|| panic!("no {words:?} in\n{transcript}"))
}

#[test]
fn an_unhealthy_node_is_replaced_first() {
    paused(async {
        let harness = started(setup(1), 5, "1").await;
        let sick = first_node(&harness);
        state(&harness, &sick, "Ready", "False");
        run(&harness, 170).await;
        assert_eq!(
            nodes(&harness).len(),
            5,
            "it is tolerated for three minutes"
        );
        run(&harness, 600).await;
        let left: Vec<_> = nodes(&harness)
            .iter()
            .map(|node| name(node).to_owned())
            .collect();
        assert!(
            left.len() == 5 && !left.contains(&sick),
            "{}",
            harness.transcript()
        );
        all_pods_run(&harness);
        let (bought, gone) = (
            line(&harness, &["node-6", "joins"]),
            line(&harness, &[&sick, "is ended"]),
        );
        assert!(bought < gone, "{}", harness.transcript());
    })
    .expect("a runtime");
}

#[test]
fn a_budget_of_none_a_veto_and_an_outage_keep_an_unhealthy_node() {
    paused(async {
        let harness = started(setup(2), 5, "0").await;
        let sick = first_node(&harness);
        state(&harness, &sick, "Ready", "False");
        run(&harness, 900).await;
        assert!(harness.world.server.get(&key(&sick)).is_some(), "no budget");

        let harness = started(setup(3), 5, "1").await;
        let sick = first_node(&harness);
        let veto = &mut |node: &mut Value| {
            node["metadata"]["annotations"]["karpenter.sh/do-not-repair"] = "true".into();
        };
        let written = harness
            .world
            .server
            .update(&key(&sick), Subresource::Object, veto);
        written.expect("the node is there");
        state(&harness, &sick, "Ready", "False");
        run(&harness, 900).await;
        assert!(harness.world.server.get(&key(&sick)).is_some(), "a veto");

        let harness = started(setup(4), 5, "100%").await;
        for node in &nodes(&harness)[..2] {
            state(&harness, name(node), "Ready", "False");
        }
        run(&harness, 900).await;
        assert_eq!(nodes(&harness).len(), 5, "two of five are too many");
    })
    .expect("a runtime");
}

#[test]
fn a_node_is_rebooted_and_keeps_its_place() {
    paused(async {
        let harness = started(setup(5), 5, "1").await;
        let sick = first_node(&harness);
        let before = harness.world.server.list(NODE_CLAIM);
        reboot(&harness, &sick).await;
        assert!(
            boot_id(&harness, &sick).contains('-'),
            "{}",
            harness.transcript()
        );
        let node = harness.world.server.get(&key(&sick)).expect("the node");
        let taints = fields::items(&node, "/spec/taints");
        assert!(taints.is_empty(), "{taints:?}");
        let after = harness.world.server.list(NODE_CLAIM);
        assert_eq!(after.len(), before.len());
        for claim in &after {
            assert_eq!(fields::condition(claim, "Initialized"), "True", "{claim}");
            assert_ne!(fields::condition(claim, "Rebooting"), "True", "{claim}");
            assert_ne!(
                fields::condition(claim, "DisruptionReason"),
                "True",
                "{claim}"
            );
        }
        let bought = harness.world.cloud.stats().launched;
        assert_eq!(bought, 5, "its pod comes back\n{}", harness.transcript());
        all_pods_run(&harness);
        assert_eq!(harness.settle(Duration::from_secs(600)).await, [""; 0]);
    })
    .expect("a runtime");
}

#[test]
fn a_third_reboot_in_a_day_is_a_replacement() {
    paused(async {
        let harness = started(setup(6), 5, "1").await;
        let sick = first_node(&harness);
        // The condition stays: no reboot helps.
        state(&harness, &sick, "RebootRequired", "True");
        run(&harness, 1800).await;
        assert!(
            harness.world.server.get(&key(&sick)).is_none(),
            "{}",
            harness.transcript()
        );
        all_pods_run(&harness);
        assert_eq!(harness.world.cloud.stats().launched, 6);
    })
    .expect("a runtime");
}

/// Reboots a node of three while a process may be killed. Returns the writes and calls that this
/// took, first and last, and what came of it.
async fn rebooted(setup: Setup) -> (std::ops::Range<usize>, String) {
    let harness = started(setup, 3, "1").await;
    let first = harness.points().len();
    let sick = first_node(&harness);
    reboot(&harness, &sick).await;
    let last = harness.points().len();
    let settled = harness.settle(Duration::from_secs(900)).await;
    assert_eq!(settled, [""; 0], "{}", harness.transcript());
    let node = harness.world.server.get(&key(&sick)).expect("the node");
    let claims = harness.world.server.list(NODE_CLAIM);
    let claim = claims
        .iter()
        .find(|claim| fields::text(claim, "/status/nodeName") == sick);
    let claim = claim.expect("its claim");
    let end = format!(
        "{} pods run, {} launched, rebooted {}, taints {}, Rebooting {}, Initialized {}, reason {}",
        harness.world.ready_pods(),
        harness.world.cloud.stats().launched,
        boot_id(&harness, &sick).contains('-'),
        fields::items(&node, "/spec/taints").len(),
        fields::condition(claim, "Rebooting"),
        fields::condition(claim, "Initialized"),
        fields::condition(claim, "DisruptionReason"),
    );
    (first..last, end)
}

#[test]
fn a_process_that_is_killed_anywhere_in_a_reboot_has_a_successor_that_carries_on() {
    let reloader = reloader().expect("policies");
    let setup = || Setup {
        repairs: RepairMode::WithinBudgets,
        disrupts: true,
        ..Setup::with(7, reloader.clone())
    };
    let (points, usual) = paused(rebooted(setup())).expect("a runtime");
    assert!(points.len() > 8, "{points:?}");
    for point in points {
        for when in [When::Before, When::After] {
            let kill = Some(Kill { point, when });
            let setup = Setup { kill, ..setup() };
            let (_, end) = paused(rebooted(setup)).expect("a runtime");
            assert_eq!(end, usual, "killed {when:?} point {point}");
        }
    }
}
