//! Twenty incidents of a night, staged in virtual time: each is found with `longshore status` and
//! `longshore explain` alone, in two commands at most. What they say names the rule, what is wanted and
//! what is offered, the object, and until when.

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use longshore_live::config;
use longshore_sim::harness::generated::types;
use longshore_sim::harness::{Harness, Setup, Subject};
use longshore_sim::scenario::policy::{Policy, PolicySlot};
use longshore_simcluster::cloud;
use longshore_simcluster::faults::RequestFaults;
use longshore_simcluster::fields::{self, name};
use longshore_simcluster::server::resources::{NODE, NODE_CLAIM, NODE_POOL};
use longshore_simcluster::world::{WorldOptions, paused};

#[path = "../../daemon/tests/reload/guest.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
pub mod guest;

use crate::manifests;
use guest::{Way, guest};

/// A KWOKNodeClass and NodePool `general` with more of its spec, of its requirements and of its
/// disruption.
pub fn pool(spec: &str, requirements: &str, disruption: &str) -> String {
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
  {spec}
  disruption: {{consolidateAfter: 0s, budgets: [{{nodes: 100%}}], {disruption}}}
  template:
    spec:
      expireAfter: Never
      nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}
      requirements:
      - {{key: kubernetes.io/os, operator: In, values: [linux]}}
      {requirements}
"
    )
}

pub fn usual_pool() -> String {
    pool("", "", "")
}

/// A Deployment whose pods request so much, with more of their spec.
pub fn deployment(name: &str, replicas: u32, cpu: &str, more: &str) -> String {
    let requests = format!("cpu: '{cpu}', memory: 256Mi");
    manifests::deployment(name, replicas as usize, &requests, more)
}

/// One pod on each node.
pub fn one_per_node(name: &str, replicas: u32) -> String {
    deployment(name, replicas, "200m", &manifests::alone(name))
}

fn budget(app: &str, more: &str) -> String {
    format!(
        "---\n{{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {{name: {app}}},\n\
         spec: {{selector: {{matchLabels: {{app: {app}}}}}, {more}}}}}\n"
    )
}

/// A cluster with small instance types, whose nodes are disrupted.
pub fn setup() -> Setup {
    on_small_types(Setup::new(7).expect("policies"))
}

fn on_small_types(setup: Setup) -> Setup {
    Setup {
        world: WorldOptions {
            types: Some(types(4)),
            ..WorldOptions::default()
        },
        disrupts: true,
        ..setup
    }
}

/// A night with a daemon.
pub struct Night(pub Harness);

/// What a command has printed.
struct Said(String);

impl Night {
    pub async fn minutes(&self, minutes: u64) {
        self.0
            .world
            .run_for(Duration::from_secs(60 * minutes))
            .await;
    }

    pub async fn apply(&self, manifests: &str, minutes: u64) {
        self.0.world.apply(manifests).expect("manifests");
        self.minutes(minutes).await;
    }

    fn status(&self) -> Said {
        Said(self.0.status())
    }

    /// The status once it has what policies and signals say: the loop takes that in from time to time.
    async fn status_with_policies(&self, slot: &PolicySlot) -> Said {
        slot.look();
        self.0.status();
        self.minutes(1).await;
        self.status()
    }

    async fn explain(&self, about: Subject) -> Said {
        Said(self.0.explain(about).await.unwrap_or_else(|why| why))
    }

    /// `longshore explain pod`, of the first pod of a Deployment that waits.
    async fn explain_pod(&self, app: &str) -> Said {
        let pods = self.0.world.pods();
        let waits = |pod: &&std::sync::Arc<serde_json::Value>| {
            name(pod).starts_with(app) && fields::text(pod, "/spec/nodeName").is_empty()
        };
        let pod = pods.iter().find(waits).expect("a pod waits");
        let subject = format!("default/{}", name(pod));
        self.explain(Subject::Pod(subject)).await
    }

    fn nodes(&self) -> Vec<String> {
        let all = self.0.world.server.list(NODE);
        all.iter().map(|node| name(node).to_owned()).collect()
    }

    async fn explain_node(&self) -> Said {
        let node = self.nodes().into_iter().next().expect("there is a node");
        self.explain(Subject::Node(node)).await
    }

    pub fn everything_runs(&self, pods: usize) {
        let ready = self.0.world.ready_pods();
        assert_eq!(ready, pods, "{}", self.0.world.describe());
    }
}

impl Said {
    /// All of it is said.
    fn says(&self, all: &[&str]) -> &Self {
        for what in all {
            assert!(self.0.contains(what), "nothing of {what:?} in:\n{}", self.0);
        }
        self
    }

    fn is_silent_about(&self, all: &[&str]) -> &Self {
        for what in all {
            assert!(!self.0.contains(what), "{what:?} is in:\n{}", self.0);
        }
        self
    }
}

/// Stages an incident.
pub fn staged(setup: Setup, manifests: &str, play: impl AsyncFnOnce(&Night)) {
    paused(async {
        let night = Night(Harness::new(setup));
        night.apply(manifests, 5).await;
        play(&night).await;
    })
    .expect("a runtime");
}

pub fn folder(of: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("incidents-{of}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Policies of this test's own: a component, and what else the configuration says.
fn policies(of: &str, component: Option<Way>, more: &str) -> (Setup, PolicySlot) {
    let folder = folder(of);
    let mut text = more.replace("FOLDER", &folder.display().to_string());
    if let Some(way) = component {
        let file = folder.join("scorer.wasm");
        std::fs::write(&file, guest("1.0.0", way)).expect("a component");
        text += &format!("[[policy]]\nname = 'green'\npath = '{}'\n", file.display());
    }
    let file = folder.join("longshore.toml");
    std::fs::write(&file, &text).expect("a configuration");
    let config = config::parse(&file, &text).expect("a configuration");
    let slot = PolicySlot::new(&Policy { file: None, config }, None).expect("policies");
    let setup = on_small_types(Setup::beginning(7, slot.begin()));
    (setup, slot)
}

#[test]
fn a_nodepool_at_its_limit() {
    let web = deployment("web", 6, "1500m", "");
    let manifests = pool("limits: {cpu: '8'}", "", "") + &web;
    let limit = "the NodePool's limit of cpu is reached: it uses 8 of 8, and the smallest node that \
                 would do has 2";
    staged(setup(), &manifests, async |night| {
        night.status().says(&["waiting   ", "default/web-", limit]);
        night
            .explain_pod("web")
            .await
            .says(&["NodePool general", limit]);
    });
}

#[test]
fn a_zone_without_capacity() {
    let web = deployment(
        "web",
        3,
        "1",
        "nodeSelector: {topology.kubernetes.io/zone: test-zone-a}",
    );
    staged(setup(), &usual_pool(), async |night| {
        let outage = Duration::from_secs(3600);
        night
            .0
            .world
            .cloud
            .capacity_outage("*/test-zone-a/*", outage);
        night.apply(&web, 2).await;
        night
            .status()
            .says(&["capacity  ", "test-zone-a", "are unavailable until"]);
        let explained = night.explain_pod("web").await;
        explained
            .says(&["NodePool general", "are unavailable until"])
            .is_silent_about(&["no NodePool offers"]);
    });
}

#[test]
fn pods_that_spread_over_more_zones_than_a_nodepool_has() {
    let spread = "topologySpreadConstraints: [{maxSkew: 1, minDomains: 5, \
        topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, \
        labelSelector: {matchLabels: {app: web}}}]";
    let web = deployment("web", 6, "500m", spread);
    staged(setup(), &(usual_pool() + &web), async |night| {
        night
            .status()
            .says(&["2 pods (default/web-", "topology.kubernetes.io/zone"]);
        night
            .explain_pod("web")
            .await
            .says(&["NodePool general", "topology.kubernetes.io/zone"]);
    });
}

#[test]
fn a_volume_in_a_zone_that_no_nodepool_has() {
    let volume = "---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: disk}, provisioner: ebs.csi.aws.com,
 volumeBindingMode: WaitForFirstConsumer}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv-db}, spec: {capacity: {storage: 10Gi},
 accessModes: [ReadWriteOnce], storageClassName: disk, csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1},
 claimRef: {namespace: default, name: db},
 nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [
  {key: topology.kubernetes.io/zone, operator: In, values: [test-zone-f]}]}]}}}, status: {phase: Bound}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: db}, spec: {accessModes: [ReadWriteOnce],
 resources: {requests: {storage: 10Gi}}, storageClassName: disk, volumeName: pv-db}, status: {phase: Bound}}
";
    let db = deployment(
        "db",
        1,
        "1",
        "volumes: [{name: data, persistentVolumeClaim: {claimName: db}}]",
    );
    staged(setup(), &(usual_pool() + volume + &db), async |night| {
        night.status().says(&["1 pod (default/db-", "test-zone-f"]);
        night
            .explain_pod("db")
            .await
            .says(&["PersistentVolumeClaim db", "test-zone-f"]);
    });
}

#[test]
fn a_node_that_a_pod_disruption_budget_keeps() {
    let manifests = usual_pool() + &one_per_node("web", 2) + &budget("web", "minAvailable: 2");
    staged(setup(), &manifests, async |night| {
        night.everything_runs(2);
        let why = "PodDisruptionBudget default/web allows no eviction of pod default/web-";
        night.status().says(&["stay      2 nodes (", why]);
        night.explain_node().await.says(&[why]);
    });
}

#[test]
fn a_budget_with_a_schedule_holds_drift() {
    // The night begins at midnight of a Thursday.
    let closed = "budgets: [{nodes: 100%}, {schedule: '0 22 * * *', duration: 10h, nodes: '0'}]";
    let of = |team: &str| {
        let labels =
            format!("metadata: {{labels: {{team: {team}}}}}\n    spec:\n      expireAfter");
        usual_pool()
            .replace("budgets: [{nodes: 100%}]", closed)
            .replace("spec:\n      expireAfter", &labels)
    };
    staged(
        setup(),
        &(of("a") + &one_per_node("web", 2)),
        async |night| {
            night.everything_runs(2);
            night.apply(&of("b"), 10).await;
            let until = "schedule \"0 22 * * *\" for 10 h, now until 2026-01-01T08:00:00Z";
            night.status().says(&[
                "changed   2026-01-01T00:05:00Z",
                "NodePool general: generation 2, was 1",
                "stay      2 nodes that drifted (",
                until,
            ]);
            let explained = night.explain_node().await;
            explained
                .says(&["drift", until])
                .is_silent_about(&["budget 2"]);
        },
    );
}

#[test]
fn nodes_come_and_go() {
    staged(
        setup(),
        &(usual_pool() + &one_per_node("base", 2)),
        async |night| {
            for _ in 0..5 {
                night.apply(&one_per_node("burst", 6), 4).await;
                night.0.world.scale("Deployment", "default", "burst", 0);
                night.minutes(4).await;
            }
            night.status().says(&[
                "warning   nodes live short: ",
                "of NodePool general",
                "churn     ",
                "by reason: ",
            ]);
        },
    );
}

#[test]
fn a_policy_that_excludes_what_a_pod_needs() {
    // Every second offering is one of spot.
    let (setup, slot) = policies("excludes", Some(Way::Alternates(1.0, f64::INFINITY)), "");
    let of = |kind: &str| {
        let on = format!("nodeSelector: {{karpenter.sh/capacity-type: {kind}}}");
        deployment(kind, 1, "1", &on)
    };
    let manifests = usual_pool() + &of("spot") + &of("on-demand");
    staged(setup, &manifests, async |night| {
        let said = night.status_with_policies(&slot).await;
        let why = "NodePool general: 6 of 9 types: policy green excludes every spot offering";
        said.says(&["1 pod (default/spot-", why, "policy    green (enforce): "]);
        let explained = night.explain_pod("spot").await;
        explained.says(&[
            "policy green excludes every spot offering",
            "Policy green costs all 36 offerings",
        ]);
    });
}

#[test]
fn a_policy_that_traps() {
    let (setup, slot) = policies("traps", Some(Way::Traps), "");
    let manifests = usual_pool() + &deployment("web", 2, "1", "");
    staged(setup, &manifests, async |night| {
        night.everything_runs(2);
        let said = night.status_with_policies(&slot).await;
        said.says(&["policy    green (enforce): ", "failing: score: wasm trap"]);
    });
}

#[test]
fn a_scorer_that_answers_the_same_for_all() {
    let (setup, slot) = policies("zero", Some(Way::Costs(1000.0)), "");
    let manifests = usual_pool() + &deployment("web", 2, "1", "");
    staged(setup, &manifests, async |night| {
        night.status_with_policies(&slot).await.says(&[
            "warning   policy green costs all ",
            "offerings 1000 USD/h for NodePool general: the price decides nothing",
        ]);
    });
}

#[test]
fn a_signal_whose_data_is_three_days_old() {
    let file = folder("signal").join("carbon.json");
    std::fs::write(&file, "{\"test-zone-a\": 1.0}").expect("a signal");
    let file = File::options().write(true).open(&file).expect("a signal");
    let three_days = Duration::from_secs(3 * 86_400);
    file.set_modified(SystemTime::now() - three_days)
        .expect("a time");
    let signal = "[signals.carbon]\nfile = 'FOLDER/carbon.json'\n";
    let (setup, slot) = policies("signal", None, signal);
    staged(setup, &usual_pool(), async |night| {
        night.status_with_policies(&slot).await.says(&[
            "warning   signal carbon: its data is 3 d old, more than ",
            "carbon.json: 1 row, 3 d old (change of the file)",
        ]);
    });
}

#[test]
fn creating_nodeclaims_is_forbidden() {
    let setup = Setup {
        faults: RequestFaults {
            refused_claims: 1.0,
            ..RequestFaults::default()
        },
        ..setup()
    };
    let manifests = usual_pool() + &deployment("web", 20, "1", "");
    staged(setup, &manifests, async |night| {
        let said = night.status();
        said.says(&[
            "20 of 20 pods wait",
            "refused   creating NodeClaims for NodePool general, ",
            " times since 2026-01-01T00:0",
            "could not be created",
        ]);
        night.explain_pod("web").await;
    });
}

#[test]
fn the_definition_of_nodepools_is_gone() {
    staged(setup(), &usual_pool(), async |night| {
        night.0.set_faults(RequestFaults {
            undefined: Some(NODE_POOL),
            ..RequestFaults::default()
        });
        night.0.world.server.drop_watches();
        night.apply(&deployment("web", 3, "1", ""), 3).await;
        night.status().says(&[
            "trouble   NodePool: nodepools of karpenter.sh/v1 are not known to the cluster",
            "kubectl apply --server-side --force-conflicts -f deploy/crds",
        ]);
    });
}

#[test]
fn a_nodeclass_that_comes_late_is_missed_no_longer() {
    let all = usual_pool();
    let (class, pool) = all.split_once("---").expect("two objects");
    // Another one of its kind: without any the daemon knows of none.
    let other = class.replace("default", "other");
    let manifests = other + "---" + pool + &deployment("web", 2, "1", "");
    staged(setup(), &manifests, async |night| {
        let missing = "its KWOKNodeClass default does not exist";
        night.status().says(&["2 pods (default/web-", missing]);
        night
            .explain_pod("web")
            .await
            .says(&["NodePool general", missing]);
        night.apply(class, 1).await;
        night.status().is_silent_about(&["does not exist", "Ready"]);
        night.everything_runs(2);
    });
}

#[test]
fn no_nodeclass_at_all() {
    let all = usual_pool();
    let (_, pool) = all.split_once("---").expect("two objects");
    let manifests = pool.to_owned() + &deployment("web", 2, "1", "");
    staged(setup(), &manifests, async |night| {
        let missing = "its condition Ready is not True, and no KWOKNodeClass is known at all";
        night.status().says(&["2 pods (default/web-", missing]);
        let explained = night.explain_pod("web").await;
        explained.says(&["NodePool general", missing]);
    });
}

#[test]
fn the_leader_is_cut_off_from_the_api_server() {
    let setup = Setup {
        elects: true,
        ..setup()
    };
    let manifests = usual_pool() + &deployment("web", 3, "1", "");
    staged(setup, &manifests, async |night| {
        night
            .status()
            .says(&["daemon    leads; the API server answered "]);
        night.0.set_faults(RequestFaults {
            lost_request: 1.0,
            ..RequestFaults::default()
        });
        night.0.stall_watches(Duration::from_secs(600));
        night.0.world.run_for(Duration::from_secs(30)).await;
        let said = night.status();
        said.says(&["the API server answered "])
            .is_silent_about(&["daemon    leads"]);
        let counted = night.0.counted();
        assert!(
            counted.contains("\nlongshore_planning_blocked 1"),
            "{counted}"
        );
    });
}

#[test]
fn an_image_that_never_joins() {
    staged(
        setup(),
        &(usual_pool() + &one_per_node("base", 1)),
        async |night| {
            night.0.world.cloud.set_faults(cloud::LaunchFaults {
                never_register: 1.0,
                ..cloud::LaunchFaults::default()
            });
            night.apply(&deployment("web", 3, "1", ""), 8).await;
            night.status().says(&[
                "coming    3 pods on ",
                "of NodePool general (general-",
                "since 2026-01-01T00:0",
                "launched, not registered",
            ]);
            night.explain_pod("web").await.says(&[
                "NodeClaim general-",
                "min ago: its instance runs and has not joined the cluster yet",
            ]);
        },
    );
}

#[test]
fn the_bill_rises_after_a_change() {
    let large = "- {key: karpenter.kwok.sh/instance-cpu, operator: In, values: ['4']}";
    let manifests = usual_pool() + &one_per_node("web", 4);
    staged(setup(), &manifests, async |night| {
        night.minutes(90).await;
        night.apply(&pool("", large, ""), 30).await;
        night.status().says(&[
            "cost      ",
            "warning   a requested core costs ",
            " % more than an hour ago",
            "changed since: NodePool general: generation 2, was 1",
        ]);
    });
}

#[test]
fn a_daemonset_that_is_too_large() {
    let agent = "---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      containers: [{name: c, image: 'x:1', resources: {requests: {cpu: '3'}}}]
";
    let manifests = usual_pool() + agent + &deployment("web", 2, "2", "");
    staged(setup(), &manifests, async |night| {
        night
            .status()
            .says(&["2 pods (default/web-", "DaemonSets, which take 3 cpu"]);
        night
            .explain_pod("web")
            .await
            .says(&["DaemonSets, which take 3 cpu"]);
    });
}

#[test]
fn a_drain_that_a_pod_disruption_budget_holds() {
    let manifests = usual_pool() + &one_per_node("web", 1) + &budget("web", "minAvailable: 1");
    staged(setup(), &manifests, async |night| {
        night.everything_runs(1);
        let claims = night.0.world.server.list(NODE_CLAIM);
        assert!(night.0.world.delete("NodeClaim", "", name(&claims[0])));
        night.minutes(10).await;
        night.status().says(&[
            "draining  node ",
            "of NodePool general, since 2026-01-01T00:05:00Z: 1 pods left",
            "The disruption budget web needs 1 healthy pods and has 1 currently",
        ]);
        night
            .explain_node()
            .await
            .says(&["PodDisruptionBudget default/web allows none of pod default/web-"]);
    });
}

#[test]
fn launches_are_not_authorized() {
    staged(setup(), &usual_pool(), async |night| {
        night.0.world.cloud.set_faults(cloud::LaunchFaults {
            unauthorized: 1.0,
            ..cloud::LaunchFaults::default()
        });
        night.apply(&deployment("web", 3, "1", ""), 4).await;
        night.status().says(&[
            "coming    3 pods on ",
            "not launched: unauthorized: launch of general-",
            "refused   launching instances for NodePool general, ",
            "unauthorized: launch of general-",
        ]);
        night
            .explain_pod("web")
            .await
            .says(&["NodeClaim general-", "its instance is not launched yet"]);
    });
}
