//! NodeClasses with images of one architecture, and NodePools that leave it open.

use std::time::Duration;

use longshore_sim::harness::{Setup, reloader};
use longshore_simcluster::server::resources;
use longshore_simcluster::world::paused;

use super::{AccountOptions, BASE, apart, harness, launches, state};

const HOUR: Duration = Duration::from_secs(3600);

/// The objects of [`BASE`], with images of one architecture, and instance families that a NodePool
/// has instead of one.
fn base(images: &str, families: &str) -> String {
    BASE.replace(
        "  amiSelectorTerms: [{alias: al2023@latest}]",
        &format!(
            "  amiFamily: AL2023\n\
             \x20 amiSelectorTerms: [{{name: 'amazon-eks-node-al2023-{images}-standard-*'}}]"
        ),
    )
    .replace(
        "{key: kubernetes.io/arch, operator: In, values: [amd64]}",
        &format!("{{key: karpenter.k8s.aws/instance-family, operator: In, values: [{families}]}}"),
    )
    .replace("values: [spot, on-demand]", "values: [on-demand]")
}

/// c6g costs less than c5. Consolidation would replace every node, and no launch would succeed.
#[test]
fn nodes_are_not_replaced_by_types_that_no_image_fits() {
    let mut setup = Setup::with(1, reloader().expect("policies"));
    setup.disrupts = true;
    let ended = paused(async {
        let (harness, account) = harness(setup, AccountOptions::default());
        let world = &harness.world;
        world.apply(&base("x86_64", "c5, c6g")).expect("manifests");
        world.run_for(Duration::from_secs(60)).await;
        world.apply(&apart("web", 3)).expect("manifests");
        world.run_for(HOUR).await;
        assert_eq!(
            harness.settle(HOUR).await,
            [""; 0],
            "{}",
            harness.transcript()
        );
        assert_eq!(harness.violations(), [""; 0], "{}", harness.transcript());
        let expected = "3 pods run, 3 nodes, 3 claims, 3 instances";
        assert_eq!(state(world), expected, "{}", world.describe());
        for node in world.server.list(resources::NODE) {
            let kind = &node["metadata"]["labels"]["node.kubernetes.io/instance-type"];
            assert_eq!(kind, "c5.large");
        }
        assert_eq!(launches(&account), 1, "one for all three");
    });
    ended.expect("a runtime");
}

#[test]
fn a_pod_is_told_that_no_image_fits() {
    let setup = Setup::with(1, reloader().expect("policies"));
    let ended = paused(async {
        let (harness, _) = harness(setup, AccountOptions::default());
        let world = &harness.world;
        world.apply(&base("arm64", "c5")).expect("manifests");
        world.run_for(Duration::from_secs(60)).await;
        world.apply(&apart("web", 1)).expect("manifests");
        world.run_for(Duration::from_secs(120)).await;
        let events = world.server.list(resources::EVENT);
        let message = |event: &serde_json::Value| {
            let is_of_pod = event["involvedObject"]["kind"] == "Pod"
                && event["reason"] == "FailedScheduling"
                && event["source"]["component"] != "default-scheduler";
            is_of_pod.then(|| event["message"].as_str().unwrap_or_default().to_owned())
        };
        let mut messages: Vec<String> = events.iter().filter_map(|event| message(event)).collect();
        messages.dedup();
        let expected = "Failed to schedule pod, NodePool default: 13 of 15 types: labels do not \
                        match; 2: no image in the NodeClass's status fits them";
        assert_eq!(messages, [expected]);
        assert_eq!(state(world), "0 pods run, 0 nodes, 0 claims, 0 instances");
    });
    ended.expect("a runtime");
}
