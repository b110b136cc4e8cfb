//! For `cargo xtask bench launches`: equal NodeClaims are launched on the emulated EC2, with EC2's
//! limits, in virtual time. Prints a line of JSON. It is built with other versions of the daemon as
//! well, so it uses what the harness has had for long.

use std::time::Duration;

use longshore_sim::harness::aws::{Account, AccountOptions};
use longshore_sim::harness::{Harness, Setup, reloader};
use longshore_simcluster::fields;
use longshore_simcluster::server::resources;
use longshore_simcluster::world::paused;
use serde_json::json;

const SECOND: Duration = Duration::from_secs(1);
const MAX_TIME: Duration = Duration::from_secs(3600);

/// One instance type, so that a node has room for one pod.
const CLUSTER: &str = "
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
  disruption: {consolidateAfter: Never}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
";

fn pods(count: usize) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: {count}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      containers: [{{name: c, image: 'x:1', resources: {{requests: {{cpu: '1', memory: 1Gi}}}}}}]
"
    )
}

#[allow(clippy::print_stdout, reason = "the result")]
fn main() {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let count: usize = count.unwrap_or(1000);
    let mut setup = Setup::with(1, reloader().expect("policies"));
    setup.keeps_requests = false;
    let report = paused(async {
        let account = Account::new(1, AccountOptions::default());
        let harness = Harness::new(setup.on_ec2(account.clone()));
        let world = &harness.world;
        world.apply(CLUSTER).expect("manifests");
        world.run_for(30 * SECOND).await;
        let before = processor_seconds();
        world.apply(&pods(count)).expect("manifests");
        let began = world.clock.elapsed();
        let with = |condition: &str| {
            let claims = world.server.list(resources::NODE_CLAIM);
            let with = claims
                .iter()
                .filter(|claim| fields::condition(claim, condition) == "True");
            with.count()
        };
        let mut launched = None;
        while with("Registered") < count && world.clock.elapsed() < began + MAX_TIME {
            world.run_for(SECOND).await;
            if launched.is_none() && with("Launched") >= count {
                launched = Some(world.clock.elapsed() - began);
            }
        }
        let registered = world.clock.elapsed() - began;
        let mut longest = 0;
        for claim in world.server.list(resources::NODE_CLAIM) {
            let name = fields::text(&claim, "/status/nodeName");
            let Some(node) = world.object("Node", "", name) else {
                continue;
            };
            let conditions = fields::items(&claim, "/status/conditions").iter();
            let mut own = conditions.filter(|one| one["type"] == "Registered");
            let at = own
                .next()
                .and_then(|one| fields::time(one, "/lastTransitionTime"));
            let joined = fields::time(&node, "/metadata/creationTimestamp");
            if let (Some(at), Some(joined)) = (at, joined) {
                longest = longest.max(at.as_second() - joined.as_second());
            }
        }
        let fleets = account.calls().into_iter().filter(|call| {
            let asked = call["request"].as_str().unwrap_or_default();
            call["action"] == "CreateFleet" && !asked.contains("DryRun=true")
        });
        let wrong = harness.violations();
        json!({
            "nodeClaims": with("Registered"),
            "launched": launched.map(|time| time.as_secs()),
            "registered": registered.as_secs(),
            "joinToRegistered": longest,
            "createFleet": fleets.count(),
            "processorSeconds": processor_seconds() - before,
            "mebibytes": mebibytes(),
            "instances": world.cloud.ledger().entries.len(),
            "wrong": wrong,
        })
    });
    println!("{}", report.expect("a runtime"));
}

/// Seconds of processor time that this process has used.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let rest = text.rsplit(')').next().unwrap_or_default();
    let field = |at: usize| -> f64 {
        let word = rest.split_whitespace().nth(at);
        word.and_then(|word| word.parse().ok()).unwrap_or(0.0)
    };
    // In hundredths of a second, on every Linux.
    (field(11) + field(12)) / 100.0
}

/// The most memory that this process has had.
fn mebibytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.unwrap_or(0_u64) / 1024
}
