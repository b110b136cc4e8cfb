//! A cluster that is left alone: replacements that do not become nodes, commands that meet other writes,
//! looks that rounds overlap. In virtual time, and nobody cleans up after the daemon.
//!
//! Each scene says what is wrong in it. `night.tsv` names the scene that finds each mutant.

use std::sync::Arc;
use std::time::Duration;

use longshore_live::process::mutants;
use longshore_sim::harness::{Harness, RepairMode, Setup};
use longshore_simcluster::faults::Faults;
use longshore_simcluster::fields::{self, name};
use longshore_simcluster::server::Subresource;
use longshore_simcluster::server::resources::{self, EVENT, NODE, NODE_CLAIM, NODE_POOL, POD};
use longshore_simcluster::world::paused;
use serde_json::Value;

use crate::manifests;

/// A startup taint that an agent would take away.
const AGENT: &str = "test/agent";
const POOL: &str = "karpenter.sh/nodepool";
const REPLACES: &str = "longshore.dev/replaces";

const CLASS: &str = "
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
spec: {}
";

/// A NodePool for its own pods; `more` is more of its template's spec.
fn pool(name: &str, disruption: &str, requirements: &str, more: &str) -> String {
    format!(
        "---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: {name}}}
spec:
  disruption: {{{disruption}}}
  template:
    metadata: {{labels: {{team: {name}}}}}
    spec:
      expireAfter: Never
      nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}
      requirements:
      - {{key: kubernetes.io/os, operator: In, values: [linux]}}
      - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}
{requirements}{more}"
    )
}

/// Nodes go by budget alone.
fn drift_only(budget: &str) -> String {
    format!("consolidateAfter: Never, budgets: [{{nodes: '{budget}'}}]")
}

/// Startup taint of a template.
const TAINTED: &str = "      startupTaints: [{key: test/agent, effect: NoSchedule}]\n";

/// Pods of a NodePool; alone on their nodes, or not.
fn pods(team: &str, name: &str, replicas: u32, cpu: &str, alone: bool) -> String {
    let mut more = format!("nodeSelector: {{team: {team}}}");
    if alone {
        more += &format!("\n      {}", manifests::alone(name));
    }
    let requests = format!("cpu: {cpu}, memory: 64Mi");
    manifests::deployment(name, replicas as usize, &requests, &more)
}

/// What a scene comes to: what is wrong, a line each.
struct Scene {
    harness: Harness,
    wrong: Vec<String>,
}

impl Scene {
    fn new(setup: Setup) -> Self {
        let setup = Setup {
            disrupts: true,
            keeps_requests: false,
            ..setup
        };
        Scene {
            harness: Harness::new(setup),
            wrong: Vec::new(),
        }
    }

    fn apply(&self, text: &str) {
        self.harness.world.apply(text).expect("manifests");
    }

    async fn run(&self, seconds: u64) {
        self.harness
            .world
            .run_for(Duration::from_secs(seconds))
            .await;
    }

    fn claims(&self, pool: &str) -> Vec<Arc<Value>> {
        let claims = self.harness.world.server.list(NODE_CLAIM);
        let own = |claim: &Arc<Value>| fields::label(claim, POOL) == Some(pool);
        claims.into_iter().filter(own).collect()
    }

    fn drifted(&self, pool: &str) -> usize {
        let claims = self.claims(pool);
        let drifted = |claim: &&Arc<Value>| fields::condition(claim, "Drifted") == "True";
        claims.iter().filter(drifted).count()
    }

    fn launched(&self) -> u64 {
        self.harness.world.cloud.stats().launched
    }

    fn expect(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.wrong.push(what());
        }
    }

    /// The agent takes its taint away.
    fn agent(&self) {
        self.agent_on(|_| true);
    }

    /// The agent takes its taint away from some nodes.
    fn agent_on(&self, runs_on: impl Fn(&Value) -> bool) {
        let world = &self.harness.world;
        let nodes = world.server.list(NODE);
        for node in nodes.into_iter().filter(|node| runs_on(node)) {
            let has = fields::items(&node, "/spec/taints")
                .iter()
                .any(|t| t["key"] == AGENT);
            if has && fields::label(&node, "karpenter.sh/registered") == Some("true") {
                let key = fields::key(NODE, "", name(&node));
                let without = &mut |node: &mut Value| {
                    if let Some(taints) = node["spec"]["taints"].as_array_mut() {
                        taints.retain(|taint| taint["key"] != AGENT);
                    }
                };
                let _ = world.server.update(&key, Subresource::Object, without);
            }
        }
    }

    /// What is wrong in the end.
    fn end(mut self) -> Vec<String> {
        self.wrong.extend(self.harness.violations());
        self.wrong
    }
}

/// Twenty nodes whose template changes to one that never gets ready, beside a NodePool that is well: for
/// 24 hours, then the agent is there.
async fn never_initialized() -> Vec<String> {
    let mut scene = Scene::new(Setup::new(1).expect("policies"));
    let pools = |more: &str, version: &str| {
        let label = format!("      - {{key: version, operator: In, values: ['{version}']}}\n");
        let web = pool("web", &drift_only("10%"), "", more);
        format!("{CLASS}{web}{}", pool("api", &drift_only("1"), &label, ""))
    };
    scene.apply(&pools("", "1"));
    scene.apply(&pods("web", "web", 20, "200m", true));
    scene.apply(&pods("api", "api", 5, "200m", true));
    scene.run(600).await;
    let start = scene.launched();
    scene.expect(start == 25, || format!("{start} nodes at the start"));
    scene.apply(&pools(TAINTED, "2"));
    for minute in 0..24 * 60 {
        scene.run(60).await;
        let nodes = scene.claims("web").len();
        scene.expect(nodes <= 22, || {
            format!("minute {minute}: {nodes} NodeClaims of web")
        });
        if minute == 20 {
            let events = scene.harness.world.server.list(EVENT);
            let mut events = events.iter();
            let is_reported = events.any(|event| event["reason"] == "DisruptionBackoff");
            scene.expect(is_reported, || {
                "no Event says that the NodePool backs off".into()
            });
        }
        if minute == 60 {
            let left = scene.drifted("api");
            scene.expect(left == 0, || {
                format!("{left} nodes of api are still drifted")
            });
        }
        if scene.wrong.len() > 3 {
            return scene.end();
        }
    }
    // Two at first, then one at a time: after 5, 10, 20, 40 and then 60 minutes, and as long as it
    // takes to give up.
    let bought = scene.launched() - start - 5;
    scene.expect((8..=22).contains(&bought), || {
        format!("{bought} nodes were bought in vain")
    });
    for _ in 0..5 * 60 {
        scene.run(60).await;
        scene.agent();
    }
    let left = scene.drifted("web");
    scene.expect(left == 0, || {
        format!("{left} nodes of web are still drifted")
    });
    let recorded = scene.harness.world.server.list(NODE_POOL);
    let recorded = recorded
        .iter()
        .any(|pool| fields::annotation(pool, "longshore.dev/disruption-failures").is_some());
    scene.expect(!recorded, || {
        "a NodePool still says that commands failed".into()
    });
    let unsettled = scene.harness.settle(Duration::from_secs(600)).await;
    scene.wrong.extend(unsettled);
    scene.end()
}

/// Nodes that join for pods and never get ready for these, for six hours; then they do.
async fn late_nodes() -> Vec<String> {
    let mut scene = Scene::new(Setup::new(15).expect("policies"));
    let web = pool("web", &drift_only("1"), "", TAINTED);
    scene.apply(&format!(
        "{CLASS}{web}{}",
        pool("api", &drift_only("1"), "", "")
    ));
    scene.apply(&pods("web", "web", 5, "200m", true));
    scene.run(540).await;
    let start = scene.launched();
    scene.expect(start == 5, || format!("{start} nodes at the start"));
    for minute in 0..6 * 60 {
        scene.run(60).await;
        let nodes = scene.claims("web").len();
        scene.expect(nodes <= 7, || {
            format!("minute {minute}: {nodes} NodeClaims of web")
        });
        if minute == 180 {
            scene.apply(&pods("api", "api", 1, "200m", true));
        }
    }
    // After a pause one is tried, and none after it as long as it may get ready: in 10 minutes.
    let bought = scene.launched() - start - 1;
    scene.expect((3..=12).contains(&bought), || {
        format!("{bought} more nodes were bought in vain")
    });
    scene.expect(scene.claims("api").len() == 1, || {
        "another NodePool waits".into()
    });
    for _ in 0..3 * 60 {
        scene.run(60).await;
        scene.agent();
    }
    let waits = scene.harness.world.server.list(POD);
    let waits = waits
        .iter()
        .filter(|pod| fields::text(pod, "/spec/nodeName").is_empty());
    let waits = waits.count();
    scene.expect(waits == 0, || format!("{waits} pods wait"));
    let remembered = scene.harness.world.server.list(NODE_POOL);
    let remembered = remembered
        .iter()
        .any(|pool| fields::annotation(pool, "longshore.dev/nodes-never-joined").is_some());
    scene.expect(!remembered, || {
        "a NodePool still says that its nodes never join".into()
    });
    scene.end()
}

/// Nodes of one kind never get ready, in a NodePool that others get nodes from all the time: for six hours.
async fn one_kind_of_node() -> Vec<String> {
    let mut scene = Scene::new(Setup::new(16).expect("policies"));
    let never = drift_only("1");
    scene.apply(&format!("{CLASS}{}", pool("web", &never, "", TAINTED)));
    scene.apply(&pods("web", "large", 1, "6", true));
    let is_small = |node: &Value| {
        let cores = fields::label(node, "karpenter.kwok.sh/instance-cpu").unwrap_or_default();
        cores.parse().is_ok_and(|cores: u32| cores < 4)
    };
    let waiting = |scene: &Scene, of: &str| {
        let pods = scene.harness.world.server.list(POD);
        let waits = |pod: &&Arc<Value>| {
            name(pod).starts_with(of) && fields::text(pod, "/spec/nodeName").is_empty()
        };
        pods.iter().filter(waits).count()
    };
    let (mut small, mut slow) = (0, 0);
    for minute in 0..6 * 60 {
        if minute % 20 == 7 {
            small += 1;
            scene.apply(&pods("web", "small", small, "200m", true));
        }
        scene.run(30).await;
        scene.agent_on(is_small);
        scene.run(30).await;
        scene.agent_on(is_small);
        // One may share the node that is tried for the large pod: it waits ten minutes for that.
        if minute % 20 == 12 {
            slow += waiting(&scene, "small");
        }
        if minute % 20 == 6 {
            let left = waiting(&scene, "small");
            scene.expect(left == 0, || {
                format!("minute {minute}: {left} small pods wait")
            });
        }
    }
    scene.expect(slow <= 2, || {
        format!("{slow} small pods waited for five minutes")
    });
    let nodes = scene.harness.world.server.list(NODE);
    let large = nodes.iter().filter(|node| !is_small(node)).count();
    let bought = scene.launched() - u64::from(small);
    // At once, then after pauses of 5, 10, 20, 40 and 60 minutes that begin when each is late.
    scene.expect((3..=9).contains(&bought), || {
        format!("{bought} large nodes were bought in vain, {large} are there")
    });
    scene.expect(waiting(&scene, "large") == 1, || {
        "the large pod runs".into()
    });
    scene.end()
}

/// Nodes that never get ready, for three hours, with a process that is killed every few minutes.
async fn restarts() -> Vec<String> {
    let mut scene = Scene::new(Setup::new(2).expect("policies"));
    let pools = |more: &str| format!("{CLASS}{}", pool("web", &drift_only("2"), "", more));
    scene.apply(&pools(""));
    scene.apply(&pods("web", "web", 6, "200m", true));
    scene.run(600).await;
    let start = scene.launched();
    scene.apply(&pools(TAINTED));
    for minute in 0..180 {
        scene.run(60).await;
        if minute % 7 == 3 {
            scene.harness.kill(0);
        }
        let nodes = scene.claims("web").len();
        scene.expect(nodes <= 8, || {
            format!("minute {minute}: {nodes} NodeClaims")
        });
    }
    let bought = scene.launched() - start;
    scene.expect(bought <= 7, || {
        format!("{bought} nodes were bought in vain")
    });
    scene.end()
}

/// A node is to be replaced by several, for which the cloud has too few machines: for a day. Then fewer
/// are needed.
async fn short_of_capacity() -> Vec<String> {
    let mut setup = Setup::new(3).expect("policies");
    setup.world.cloud.capacity = Some(3);
    let mut scene = Scene::new(setup);
    let pools = |kind: &str, version: &str| {
        let requirements = format!(
            "      - {{key: node.kubernetes.io/instance-type, operator: In, values: [{kind}]}}
      - {{key: topology.kubernetes.io/zone, operator: In, values: [test-zone-a]}}
      - {{key: version, operator: In, values: ['{version}']}}\n"
        );
        format!(
            "{CLASS}{}",
            pool("web", &drift_only("1"), &requirements, "")
        )
    };
    scene.apply(&pools("c-4x-amd64-linux", "1"));
    scene.apply(&pods("web", "web", 5, "600m", false));
    scene.run(600).await;
    let start = scene.launched();
    scene.expect(start == 1, || format!("{start} nodes at the start"));
    scene.apply(&pools("c-1x-amd64-linux", "2"));
    for minute in 0..24 * 60 {
        scene.run(60).await;
        let nodes = scene.claims("web").len();
        scene.expect(nodes <= 1 + 5, || {
            format!("minute {minute}: {nodes} NodeClaims")
        });
    }
    let bought = scene.launched() - start;
    scene.expect((3..=5 * 30).contains(&bought), || {
        format!("{bought} nodes were bought in vain")
    });
    let left = scene.claims("web").len();
    scene.expect(left <= 6, || format!("{left} NodeClaims are there"));
    scene.harness.world.scale("Deployment", "default", "web", 3);
    scene.run(3 * 3600).await;
    let left = scene.drifted("web");
    scene.expect(left == 0, || format!("{left} nodes are still drifted"));
    let unsettled = scene.harness.settle(Duration::from_secs(600)).await;
    scene.wrong.extend(unsettled);
    scene.end()
}

/// Creates of NodeClaims are refused, some or all, for a day.
async fn refused_creates() -> Vec<String> {
    let mut scene = Scene::new(Setup::new(4).expect("policies"));
    let pools = |version: &str| {
        let label = format!("      - {{key: version, operator: In, values: ['{version}']}}\n");
        format!("{CLASS}{}", pool("web", &drift_only("2"), &label, ""))
    };
    scene.apply(&pools("1"));
    scene.apply(&pods("web", "web", 6, "200m", true));
    scene.run(600).await;
    let start = scene.launched();
    scene.harness.set_faults(Faults {
        refused_claims: 1.0,
        ..Faults::default()
    });
    scene.apply(&pools("2"));
    scene.run(24 * 3600).await;
    let bought = scene.launched() - start;
    scene.expect(bought == 0, || format!("{bought} nodes were bought"));
    let requests = scene.harness.world.server.requests().total;
    scene.harness.set_faults(Faults {
        refused_claims: 0.5,
        ..Faults::default()
    });
    scene.run(24 * 3600).await;
    let more = scene.harness.world.server.requests().total - requests;
    scene.expect(more < 60_000, || format!("{more} requests in a day"));
    scene.harness.set_faults(Faults::default());
    scene.run(3 * 3600).await;
    let left = scene.drifted("web");
    scene.expect(left == 0, || format!("{left} nodes are still drifted"));
    let unsettled = scene.harness.settle(Duration::from_secs(600)).await;
    scene.wrong.extend(unsettled);
    scene.end()
}

/// A pod that waits finds its way to a replacement that does not get ready: it keeps its node.
async fn used_replacement() -> Vec<String> {
    let mut scene = Scene::new(Setup::new(5).expect("policies"));
    let pools = |more: &str| format!("{CLASS}{}", pool("web", &drift_only("1"), "", more));
    scene.apply(&pools(""));
    scene.apply(&pods("web", "web", 1, "200m", true));
    scene.run(600).await;
    scene.apply(&pools(TAINTED));
    scene.run(120).await;
    let bought = scene.claims("web");
    let bought = bought
        .iter()
        .find(|claim| fields::annotation(claim, REPLACES).is_some());
    let Some(bought) = bought else {
        return vec!["nothing was bought".into()];
    };
    let node = fields::text(bought, "/status/nodeName").to_owned();
    scene.apply(&format!(
        "---
apiVersion: v1
kind: Pod
metadata: {{name: agent}}
spec:
  nodeName: {node}
  tolerations: [{{operator: Exists, key: test/agent}}]
  containers: [{{name: c, image: 'x:1', resources: {{requests: {{cpu: 10m}}}}}}]
"
    ));
    scene.run(1800).await;
    let key = fields::key(POD, "default", "agent");
    let pod = scene.harness.world.server.get(&key);
    let stays = pod.is_some_and(|pod| !fields::deleting(&pod) && fields::ready(&pod));
    scene.expect(stays, || "its pod is gone".into());
    scene.end()
}

/// A drifted node's pod has room on a node that is about to come: nothing is bought for it.
async fn coming_node() -> Vec<String> {
    let mut setup = Setup::new(6).expect("policies");
    setup.world.cloud.latencies.boot = Duration::from_secs(240);
    let mut scene = Scene::new(setup);
    let pools = |version: &str, budget: &str| {
        let label = format!("      - {{key: version, operator: In, values: ['{version}']}}\n");
        format!("{CLASS}{}", pool("web", &drift_only(budget), &label, ""))
    };
    scene.apply(&pools("1", "0"));
    scene.apply(&pods("web", "small", 1, "100m", false));
    scene.run(900).await;
    scene.apply(&pools("2", "0"));
    scene.apply(&pods("web", "large", 1, "1500m", false));
    scene.run(60).await;
    scene.apply(&pools("2", "1"));
    scene.run(3600).await;
    let bought = scene.launched();
    scene.expect(bought == 2, || format!("{bought} nodes were bought"));
    let left = scene.drifted("web");
    scene.expect(left == 0, || format!("{left} nodes are still drifted"));
    let unsettled = scene.harness.settle(Duration::from_secs(600)).await;
    scene.wrong.extend(unsettled);
    scene.end()
}

/// Somebody deletes the candidate of a command, and its pods with it, before the replacement is ready,
/// which it never gets.
async fn candidate_gone() -> Vec<String> {
    let mut scene = Scene::new(Setup::new(7).expect("policies"));
    let pools = |more: &str| format!("{CLASS}{}", pool("web", &drift_only("1"), "", more));
    scene.apply(&pools(""));
    scene.apply(&pods("web", "web", 1, "200m", true));
    scene.run(600).await;
    scene.apply(&pools(TAINTED));
    scene.run(120).await;
    let claims = scene.claims("web");
    let candidate = claims
        .iter()
        .find(|claim| fields::annotation(claim, REPLACES).is_none());
    let Some(candidate) = candidate.filter(|_| claims.len() == 2) else {
        return vec!["nothing was bought".into()];
    };
    scene.harness.world.scale("Deployment", "default", "web", 0);
    scene.harness.world.delete("NodeClaim", "", name(candidate));
    scene.run(1800).await;
    for claim in scene.claims("web") {
        scene.wrong.push(format!("{} is there", name(&claim)));
    }
    scene.end()
}

/// One command takes fifty nodes, while kubelets write their heartbeats and each write takes 100 ms.
async fn heartbeats() -> Vec<String> {
    let mut scene = Scene::new(Setup::new(8).expect("policies"));
    let pools = |kinds: &str| {
        let requirements = format!(
            "      - {{key: node.kubernetes.io/instance-type, operator: In, values: [{kinds}]}}\n"
        );
        let disruption = "consolidateAfter: 0s, budgets: [{nodes: '100%'}]";
        format!("{CLASS}{}", pool("web", disruption, &requirements, ""))
    };
    scene.apply(&pools("c-2x-amd64-linux"));
    scene.apply(&pods("web", "web", 50, "1200m", false));
    scene.run(900).await;
    let start = scene.launched();
    scene.expect(start == 50, || format!("{start} nodes at the start"));
    scene.harness.set_faults(Faults {
        writes_take: Duration::from_millis(100),
        ..Faults::default()
    });
    scene.apply(&pools("c-2x-amd64-linux, c-64x-amd64-linux"));
    let mut beat = 0;
    for _ in 0..1200 {
        scene
            .harness
            .world
            .run_for(Duration::from_millis(250))
            .await;
        let world = &scene.harness.world;
        for node in world.server.list(NODE) {
            beat += 1;
            let key = fields::key(NODE, "", name(&node));
            let beats = &mut |node: &mut Value| {
                node["status"]["nodeInfo"]["heartbeat"] = beat.to_string().into();
            };
            let _ = world.server.update(&key, Subresource::Status, beats);
        }
        // So do pods that come and go: the time of the last one is on the NodeClaim.
        for claim in world.server.list(NODE_CLAIM) {
            let key = fields::key(NODE_CLAIM, "", name(&claim));
            let change = &mut |claim: &mut Value| {
                claim["status"]["lastPodEventTime"] = "2026-01-01T00:00:00Z".into();
                claim["metadata"]["annotations"]["example.com/beat"] = beat.to_string().into();
            };
            let _ = world.server.update(&key, Subresource::Object, change);
        }
    }
    scene.run(600).await;
    let nodes = scene.claims("web").len();
    scene.expect(nodes == 1, || format!("{nodes} nodes are left"));
    let bought = scene.launched() - start;
    scene.expect(bought == 1, || format!("{bought} nodes were bought"));
    let events = scene.harness.world.server.list(EVENT);
    let failed = events
        .iter()
        .filter(|event| event["reason"] == "DisruptionFailed")
        .count();
    scene.expect(failed == 0, || {
        format!("{failed} Events say that it failed")
    });
    scene.end()
}

/// How long it takes until a NodePool of a hundred nodes has drifted, seconds; where it is busy, a pod
/// comes every 1.3 s and one is there that no node helps. A look takes two seconds.
async fn drift_of_a_hundred(busy: bool) -> (u64, Vec<String>) {
    let mut setup = Setup::new(9).expect("policies");
    setup.look_takes = Duration::from_secs(2);
    let mut scene = Scene::new(setup);
    let pools = |version: &str| {
        let label = format!("      - {{key: version, operator: In, values: ['{version}']}}\n");
        let jobs = pool("jobs", &drift_only("1"), "", "");
        format!(
            "{CLASS}{}{jobs}",
            pool("web", &drift_only("10%"), &label, "")
        )
    };
    scene.apply(&pools("1"));
    scene.apply(&pods("web", "web", 100, "200m", true));
    scene.run(600).await;
    if busy {
        scene.apply(&pods("nobody", "lost", 1, "200m", false));
    }
    scene.apply(&pools("2"));
    let mut tenths = 0;
    let mut job = 0;
    while tenths < 4 * 36_000 {
        scene
            .harness
            .world
            .run_for(Duration::from_millis(1300))
            .await;
        tenths += 13;
        if busy {
            job += 1;
            scene.apply(&one_pod(job));
            if job > 60 {
                let old = format!("job-{}", job - 60);
                scene.harness.world.delete("Pod", "default", &old);
            }
        }
        if tenths > 600 && scene.drifted("web") == 0 && scene.claims("web").len() == 100 {
            break;
        }
    }
    let left = scene.drifted("web");
    scene.expect(left == 0, || format!("{left} nodes are still drifted"));
    (tenths / 10, scene.end())
}

fn one_pod(number: u32) -> String {
    format!(
        "---
apiVersion: v1
kind: Pod
metadata: {{name: job-{number}}}
spec:
  nodeSelector: {{team: jobs}}
  restartPolicy: Never
  containers: [{{name: c, image: 'x:1', resources: {{requests: {{cpu: 300m, memory: 64Mi}}}}}}]
"
    )
}

async fn arrivals() -> Vec<String> {
    let (calm, mut wrong) = drift_of_a_hundred(false).await;
    let (busy, more) = drift_of_a_hundred(true).await;
    wrong.extend(more);
    if busy > 2 * calm {
        wrong.push(format!("{busy} s where pods come, {calm} s where none do"));
    }
    wrong
}

/// A pod comes that needs a node while a command buys the last one that the limit allows.
async fn limit() -> Vec<String> {
    let mut scene = Scene::new(Setup::new(10).expect("policies"));
    let pools = |kinds: &str| {
        let requirements = format!(
            "      - {{key: node.kubernetes.io/instance-type, operator: In, values: [{kinds}]}}\n"
        );
        let disruption = "consolidateAfter: 0s, budgets: [{nodes: '1'}]";
        let web = pool("web", disruption, &requirements, "");
        format!("{CLASS}{web}  limits: {{nodes: '4'}}\n")
    };
    scene.apply(&pools("c-8x-amd64-linux"));
    scene.apply(&pods("web", "web", 3, "1500m", true));
    scene.run(900).await;
    scene.harness.set_faults(Faults {
        writes_take: Duration::from_secs(3),
        ..Faults::default()
    });
    scene.apply(&pools("c-8x-amd64-linux, c-2x-amd64-linux"));
    let marked = |scene: &Scene| {
        let claims = scene.claims("web");
        claims
            .iter()
            .any(|claim| fields::annotation(claim, "longshore.dev/disruption").is_some())
    };
    for _ in 0..600 {
        scene.run(1).await;
        if marked(&scene) {
            break;
        }
    }
    scene.expect(marked(&scene), || "no command has begun".into());
    scene.harness.world.scale("Deployment", "default", "web", 4);
    scene.run(600).await;
    scene.harness.set_faults(Faults::default());
    scene.run(3600).await;
    let ready = scene.harness.world.ready_pods();
    scene.expect(ready == 4, || format!("{ready} pods run"));
    scene.end()
}

/// A pod that must not be disrupted comes to a node after its taint: the command is taken back.
async fn held_after_the_taint() -> Vec<String> {
    let mut setup = Setup::new(11).expect("policies");
    setup.repairs = RepairMode::Off;
    let mut scene = Scene::new(setup);
    let pools = |version: &str| {
        let label = format!("      - {{key: version, operator: In, values: ['{version}']}}\n");
        format!("{CLASS}{}", pool("web", &drift_only("1"), &label, ""))
    };
    scene.apply(&pools("1"));
    scene.apply(&pods("web", "web", 1, "200m", true));
    scene.run(600).await;
    scene.apply(&pools("2"));
    let marked = |scene: &Scene| {
        let claims = scene.claims("web");
        let is =
            |claim: &&Arc<Value>| fields::annotation(claim, "longshore.dev/disruption").is_some();
        claims.iter().any(|claim| is(&claim))
    };
    for _ in 0..60 {
        scene.run(1).await;
        if marked(&scene) {
            break;
        }
    }
    scene.expect(marked(&scene), || "no command has begun".into());
    let server = &scene.harness.world.server;
    for pod in server.list(POD) {
        let key = fields::key(resources::POD, "default", name(&pod));
        let hold = &mut |pod: &mut Value| {
            pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = "true".into();
        };
        server
            .update(&key, Subresource::Object, hold)
            .expect("the pod is there");
    }
    scene.run(1800).await;
    let claims = scene.claims("web");
    let going = claims
        .iter()
        .filter(|claim| fields::deleting(claim))
        .count();
    scene.expect(claims.len() == 1 && going == 0, || {
        format!("{} NodeClaims, {going} of them going", claims.len())
    });
    scene.expect(!marked(&scene), || "its command goes on".into());
    let bought = scene.launched();
    scene.expect(bought == 2, || format!("{bought} nodes were bought"));
    scene.end()
}

/// Spot capacity is gone for three hours: pods have their nodes on demand, and it is asked for spot
/// instances again and again, but not without end.
async fn spot_is_gone() -> Vec<String> {
    let mut scene = Scene::new(Setup::new(12).expect("policies"));
    let web = pool("web", "consolidateAfter: 30s", "", "");
    let web = web.replace("values: [on-demand]", "values: [spot, on-demand]");
    scene.apply(&format!("{CLASS}{web}"));
    let hours = Duration::from_secs(3 * 3600);
    scene.harness.world.cloud.capacity_outage("*/*/spot", hours);
    scene.apply(&pods("web", "web", 6, "900m", true));
    scene.run(600).await;
    let waits = scene.harness.world.server.list(POD);
    let waits = waits
        .iter()
        .filter(|pod| fields::text(pod, "/spec/nodeName").is_empty());
    let waits = waits.count();
    scene.expect(waits == 0, || {
        format!("{waits} pods wait after ten minutes")
    });
    scene.run(3 * 3600 - 600).await;
    let stats = scene.harness.world.cloud.stats();
    scene.expect(stats.failed <= 120, || {
        format!("{} launches failed in three hours", stats.failed)
    });
    scene.end()
}

/// Machines need sixteen minutes to boot, and a node that has not joined after fifteen goes.
async fn slow_boot() -> Vec<String> {
    let mut setup = Setup::new(13).expect("policies");
    setup.world.cloud.latencies.boot = Duration::from_secs(16 * 60);
    let mut scene = Scene::new(setup);
    scene.apply(&format!("{CLASS}{}", pool("web", &drift_only("1"), "", "")));
    scene.apply(&pods("web", "web", 1, "200m", true));
    scene.run(3 * 3600).await;
    let launched = scene.launched();
    scene.expect(launched <= 2, || {
        format!("{launched} nodes were bought for one pod in three hours")
    });
    scene.end()
}

/// A static NodePool whose image is broken: its nodes never join for six hours, then they do.
async fn static_unjoined() -> Vec<String> {
    let mut setup = Setup::new(14).expect("policies");
    setup.static_capacity = true;
    let faults = &mut setup.world.cloud.faults;
    faults.never_register_pools.push("web".to_owned());
    let mut scene = Scene::new(setup);
    let web = pool("web", &drift_only("1"), "", "");
    let web = web.replace(
        "\nspec:\n  disruption",
        "\nspec:\n  replicas: 20\n  disruption",
    );
    scene.apply(&format!("{CLASS}{web}"));
    scene.run(6 * 3600).await;
    // Twenty at first, a few before it is known that these do not join, then one after the other.
    let launched = scene.launched();
    scene.expect((25..=35).contains(&launched), || {
        format!("{launched} nodes were bought that never joined")
    });
    let cloud = &scene.harness.world.cloud;
    cloud.set_faults(longshore_simcluster::cloud::Faults::default());
    scene.run(3600 + 20 * 60).await;
    let claims = scene.claims("web");
    let ready = |claim: &&Arc<Value>| fields::condition(claim, "Initialized") == "True";
    let ready = claims.iter().filter(ready).count();
    scene.expect(ready == 20, || format!("{ready} of 20 replicas are ready"));
    scene.end()
}

/// The scenes that mutants are looked for in.
fn scene(name: &str) -> Vec<String> {
    let ended = match name {
        "never_initialized" => paused(never_initialized()),
        "restarts" => paused(restarts()),
        "used_replacement" => paused(used_replacement()),
        "coming_node" => paused(coming_node()),
        "candidate_gone" => paused(candidate_gone()),
        "heartbeats" => paused(heartbeats()),
        "arrivals" => paused(drift_of_a_hundred(true)).map(|(_, wrong)| wrong),
        "limit" => paused(limit()),
        "static_unjoined" => paused(static_unjoined()),
        other => panic!("there is no scene {other}"),
    };
    ended.expect("a runtime")
}

const NOTHING: [&str; 0] = [];

#[test]
fn nodes_that_never_get_ready_are_bought_a_few_times_a_day_and_hold_up_no_other_pod() {
    assert_eq!(scene("never_initialized"), NOTHING);
}

#[test]
fn pods_wait_ten_minutes_for_a_node_to_get_ready_and_few_more_are_bought_for_them() {
    assert_eq!(paused(late_nodes()).expect("a runtime"), NOTHING);
}

#[test]
fn nodes_of_one_kind_that_never_get_ready_are_bought_hours_apart_and_the_nodepool_goes_on() {
    assert_eq!(paused(one_kind_of_node()).expect("a runtime"), NOTHING);
}

#[test]
fn a_process_that_takes_over_knows_what_has_failed() {
    assert_eq!(scene("restarts"), NOTHING);
}

#[test]
fn a_command_whose_machines_run_short_keeps_none_of_them() {
    assert_eq!(paused(short_of_capacity()).expect("a runtime"), NOTHING);
}

#[test]
fn a_command_whose_node_claims_are_refused_is_tried_seldom() {
    assert_eq!(paused(refused_creates()).expect("a runtime"), NOTHING);
}

#[test]
fn a_replacement_that_a_pod_uses_stays_when_its_command_is_taken_back() {
    assert_eq!(scene("used_replacement"), NOTHING);
}

#[test]
fn nothing_is_bought_for_pods_that_have_room_on_a_node_that_comes() {
    assert_eq!(scene("coming_node"), NOTHING);
}

#[test]
fn a_replacement_whose_candidate_is_gone_goes_if_it_never_gets_ready() {
    assert_eq!(scene("candidate_gone"), NOTHING);
}

#[test]
fn a_command_of_fifty_nodes_begins_among_heartbeats() {
    assert_eq!(scene("heartbeats"), NOTHING);
}

#[test]
fn drift_goes_on_while_pods_come() {
    assert_eq!(paused(arrivals()).expect("a runtime"), NOTHING);
}

#[test]
fn a_round_counts_what_a_command_is_buying() {
    assert_eq!(scene("limit"), NOTHING);
}

#[test]
fn a_command_is_taken_back_if_a_pod_must_not_be_disrupted_after_all() {
    assert_eq!(paused(held_after_the_taint()).expect("a runtime"), NOTHING);
}

#[test]
fn spot_capacity_that_is_gone_is_asked_for_within_bounds() {
    assert_eq!(paused(spot_is_gone()).expect("a runtime"), NOTHING);
}

#[test]
fn machines_that_boot_for_too_long_are_bought_a_few_times() {
    assert_eq!(paused(slow_boot()).expect("a runtime"), NOTHING);
}

#[test]
fn a_static_nodepool_whose_nodes_never_join_tries_one_at_a_time() {
    assert_eq!(scene("static_unjoined"), NOTHING);
}

#[test]
fn each_mutant_is_found_by_its_scene() {
    let mut stale = String::new();
    let lines = include_str!("night.tsv").lines();
    for line in lines.filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split('\t').collect();
        let [mutant, at, says] = cells[..] else {
            panic!("not three cells: {line:?}")
        };
        assert!(
            mutants::switch(Some(mutant)),
            "mutants are compiled in for tests"
        );
        let lines = scene(at);
        mutants::switch(None);
        if !lines.iter().any(|line| line.contains(says)) {
            stale += &format!("{mutant}: {at} says {lines:?}\n");
        }
    }
    assert!(stale.is_empty(), "night.tsv is out of date:\n{stale}");
}
