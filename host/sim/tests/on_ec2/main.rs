//! The daemon on EC2 in virtual time: its provider with AWS's SDK, on the emulated AWS.

mod groups;
mod images;
mod kills;
#[path = "../manifests.rs"]
mod manifests;
mod scenarios;
mod seeds;
mod storms;
mod up_and_down;

use std::sync::Arc;

use longshore_sim::harness::aws::{Account, AccountOptions};
use longshore_sim::harness::{Harness, Setup};
use longshore_simcluster::server::resources;
use longshore_simcluster::world::World;

/// A class and a NodePool of spot and on-demand instances.
const BASE: &str = "
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: node
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: '*'}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  disruption: {consolidateAfter: 30s}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
";

/// A Deployment whose pods each need a node of their own.
fn apart(name: &str, replicas: usize) -> String {
    manifests::one_per_node(name, replicas, manifests::ONE_CPU)
}

/// A world on EC2, and its account.
fn harness(setup: Setup, options: AccountOptions) -> (Harness, Arc<Account>) {
    let account = Account::new(setup.seed, options);
    (Harness::new(setup.on_ec2(account.clone())), account)
}

/// How often an instance was asked for; dry runs do not count.
fn launches(account: &Account) -> usize {
    let calls = account.calls();
    let launches = calls.iter().filter(|call| {
        let asked = call["request"].as_str().unwrap_or_default();
        call["action"] == "CreateFleet" && !asked.contains("DryRun=true")
    });
    launches.count()
}

/// Pods that run, nodes, claims and instances.
fn state(world: &World) -> String {
    let count = |resource| world.server.list(resource).len();
    let (nodes, claims) = (count(resources::NODE), count(resources::NODE_CLAIM));
    let instances = world.cloud.ledger().running().count();
    format!(
        "{} pods run, {nodes} nodes, {claims} claims, {instances} instances",
        world.ready_pods()
    )
}
