//! Nodes and instances end only on proof: drained, or seen to be gone; and a drain costs the API
//! server little.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use longshore_cloud::{CloudError, CloudProvider, Instance, Launch};
use longshore_core::model::{Settings, Symbols};
use longshore_journal::Journal;
use longshore_kwok::provider::Kwok;
use longshore_live::environment::{Daemon, Environment, Repairs, TerminateFirst, fixed};
use longshore_live::process::clock::Clock;
use longshore_live::process::connection::{Clients, clients};
use longshore_live::process::leader::Leadership;
use longshore_sim::harness::generated::types;
use longshore_sim::harness::reloader;
use longshore_simcluster::cloud::Cloud;
use longshore_simcluster::fields;
use longshore_simcluster::object::Key;
use longshore_simcluster::server::{
    DeleteOptions, RequestInfo, Server, Subresource, Verdict, resources,
};
use longshore_simcluster::world::{World, WorldOptions, paused};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::manifests::{KWOK_POOL, one_per_node};

const TAINT: &str = "karpenter.sh/disrupted";

/// A Deployment with one pod per node at most.
fn spread(name: &str, replicas: usize) -> String {
    one_per_node(name, replicas, "cpu: 200m, memory: 64Mi")
}

/// What the cloud's list says.
#[derive(Clone, Copy, PartialEq)]
enum Lists {
    Whole,
    /// Every second instance is left out.
    Half,
    Empty,
}

/// A cloud with lists that can be wrong. It records terminated instances and the pods on them.
#[derive(Clone)]
struct WrongLists {
    cloud: Cloud,
    server: Server,
    clock: longshore_simcluster::clock::Clock,
    lists: Arc<Mutex<Lists>>,
    /// When each node was closed to kube-scheduler.
    closed: Arc<Mutex<BTreeMap<String, Duration>>>,
    ended: Arc<Mutex<Vec<Ended>>>,
}

#[derive(Clone, Debug)]
struct Ended {
    provider_id: String,
    /// How long its Node had been closed to kube-scheduler; nothing if it has none, or an open one.
    closed: Option<Duration>,
    /// Pods that were on it and had not ended.
    pods: Vec<String>,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl CloudProvider for WrongLists {
    fn name(&self) -> &'static str {
        "told"
    }

    async fn create(&self, launch: &Launch) -> Result<Instance, CloudError> {
        self.cloud.create(launch).await
    }

    async fn delete(&self, provider_id: &str) -> Result<(), CloudError> {
        let nodes = self.server.list(resources::NODE);
        let node = nodes
            .iter()
            .find(|node| fields::text(node, "/spec/providerID") == provider_id);
        let pods = node
            .map(|node| self.server.pods_on(fields::name(node)))
            .unwrap_or_default();
        let left = pods.iter().filter(|pod| !fields::ended(pod));
        let now = self.clock.elapsed();
        let closed = node.and_then(|node| {
            locked(&self.closed)
                .get(fields::name(node))
                .map(|at| now - *at)
        });
        let pods = left.map(|pod| fields::name(pod).to_owned()).collect();
        let ended = Ended {
            provider_id: provider_id.to_owned(),
            closed,
            pods,
        };
        locked(&self.ended).push(ended);
        self.cloud.delete(provider_id).await
    }

    async fn get(&self, provider_id: &str) -> Result<Instance, CloudError> {
        self.cloud.get(provider_id).await
    }

    async fn list(&self) -> Result<Vec<Arc<Instance>>, CloudError> {
        let mut all = self.cloud.list().await?;
        match *locked(&self.lists) {
            Lists::Whole => {}
            Lists::Half => all = all.into_iter().step_by(2).collect(),
            Lists::Empty => all.clear(),
        }
        Ok(all)
    }
}

/// A cluster with one daemon in it.
struct Scene {
    world: World,
    cloud: WrongLists,
    daemon: JoinSet<()>,
    _watcher: JoinSet<()>,
}

impl Scene {
    fn new() -> Self {
        let options = WorldOptions {
            types: Some(types(4)),
            ..WorldOptions::default()
        };
        let world = World::new(7, options);
        let cloud = WrongLists {
            cloud: world.cloud.clone(),
            server: world.server.clone(),
            clock: world.clock,
            lists: Arc::new(Mutex::new(Lists::Whole)),
            closed: Arc::default(),
            ended: Arc::default(),
        };
        let mut watcher = JoinSet::new();
        watcher.spawn(watch_taints(cloud.clone()));
        let mut scene = Scene {
            world,
            cloud,
            daemon: JoinSet::new(),
            _watcher: watcher,
        };
        scene.start();
        scene
    }

    /// A new process begins, with nothing in its memory.
    fn start(&mut self) {
        self.start_on(Arc::new(self.cloud.clone()));
    }

    fn start_on(&mut self, provider: Arc<dyn CloudProvider>) {
        let (catalogue, names) = (*types(4)).clone();
        let leadership = Leadership::new(true);
        let clock = Clock::starting_at(self.world.clock.now());
        let Clients { patient, plain } = clients(
            self.world.server.service("daemon"),
            "default",
            &leadership,
            &clock,
        );
        let daemon = Daemon::new(Environment {
            leadership,
            client: patient,
            plain,
            provider,
            clock,
            catalogue: fixed(catalogue),
            overlays: None,
            names,
            settings: Settings::default(),
            reloader: reloader().expect("policies"),
            journal: Journal::off(),
            window: (Duration::from_secs(1), Duration::from_secs(10)),
            lease: None,
            repairs: Repairs::Off,
            disrupts: false,
            spot_to_spot: false,
            terminate_first: TerminateFirst::default(),
            static_capacity: false,
            inline: true,
            computing: None,
            look_takes: Duration::ZERO,
        });
        self.daemon = JoinSet::new();
        self.daemon
            .spawn(async move { daemon.run().await.expect("it ends when it is told to") });
    }

    /// The process ends.
    async fn stop(&mut self) {
        self.daemon.shutdown().await;
    }

    async fn wait(&self, seconds: u64) {
        self.world.run_for(Duration::from_secs(seconds)).await;
    }

    /// Applies manifests and waits until so many pods run.
    async fn runs(&self, manifests: &str, pods: usize) {
        self.wait(1).await;
        self.world
            .apply(&format!("{KWOK_POOL}{manifests}"))
            .expect("manifests");
        let all = self
            .world
            .run_until(
                |world| world.ready_pods() >= pods,
                Duration::from_secs(1800),
            )
            .await;
        assert!(all, "{}", self.world.describe());
        self.wait(30).await;
    }

    fn claims(&self) -> Vec<Arc<Value>> {
        self.world.server.list(resources::NODE_CLAIM)
    }

    fn nodes(&self) -> Vec<Arc<Value>> {
        self.world.server.list(resources::NODE)
    }

    fn delete_claims(&self) {
        self.claims()
            .iter()
            .for_each(|claim| assert!(self.world.delete("NodeClaim", "", fields::name(claim))));
    }

    fn ended(&self) -> Vec<Ended> {
        locked(&self.cloud.ended).clone()
    }

    /// The first termination request of each instance.
    fn first_ended(&self) -> Vec<Ended> {
        let all: BTreeMap<String, Ended> = self
            .ended()
            .into_iter()
            .rev()
            .map(|e| (e.provider_id.clone(), e))
            .collect();
        all.into_values().collect()
    }

    fn running(&self) -> BTreeSet<String> {
        self.world
            .cloud
            .running()
            .into_iter()
            .map(|running| running.provider_id)
            .collect()
    }

    /// Events of a reason: what they say.
    fn events(&self, reason: &str) -> Vec<String> {
        let events = self.world.server.list(resources::EVENT);
        let of = events
            .iter()
            .filter(|event| fields::text(event, "/reason") == reason);
        of.map(|event| fields::text(event, "/message").to_owned())
            .collect()
    }

    /// How many requests the daemon has made.
    fn requests(&self) -> u64 {
        self.world
            .server
            .requests()
            .by
            .iter()
            .filter(|((client, ..), _)| client == "daemon")
            .map(|(_, count)| count)
            .sum()
    }
}

/// Notes when nodes are closed, for ever.
async fn watch_taints(cloud: WrongLists) {
    let mut seen = 0;
    loop {
        for change in cloud.server.changes(seen) {
            seen = change.revision;
            let closed = fields::items(&change.object, "/spec/taints")
                .iter()
                .any(|taint| taint["key"] == TAINT);
            if change.key.resource == resources::NODE && closed {
                locked(&cloud.closed)
                    .entry(change.key.name.to_string())
                    .or_insert(cloud.clock.elapsed());
            }
        }
        cloud.server.changed(seen).await;
    }
}

fn play(story: impl AsyncFnOnce(Scene)) {
    paused(async { story(Scene::new()).await }).expect("a runtime");
}

/// A pod that no scheduler looks at is bound to a node, as kube-scheduler does that has not seen a
/// taint.
fn bind(world: &World, name: &str, node: &str) {
    world
        .apply(&format!(
            "
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec: {{schedulerName: nobody, terminationGracePeriodSeconds: 3, containers: [{{name: c, image: 'x:1'}}]}}
"
        ))
        .expect("a pod");
    world
        .server
        .bind(&fields::key(resources::POD, "default", name), node)
        .expect("bound");
}

#[test]
fn pods_that_are_bound_after_the_taint_are_drained_and_an_empty_node_waits_for_them() {
    play(async |scene| {
        const NODES: usize = 24;
        scene.runs(&spread("web", NODES), NODES).await;
        let nodes: Vec<String> = scene
            .nodes()
            .iter()
            .map(|node| fields::name(node).to_owned())
            .collect();
        assert_eq!(nodes.len(), NODES);
        scene.delete_claims();
        // One pod is bound every fifth of a second, each to another node, from the taint to the
        // last moment.
        let tainted = |world: &World| {
            let nodes = world.server.list(resources::NODE);
            let closed = nodes.iter().filter(|n| {
                fields::items(n, "/spec/taints")
                    .iter()
                    .any(|t| t["key"] == TAINT)
            });
            closed.count() >= NODES
        };
        assert!(scene.world.run_until(tainted, Duration::from_secs(5)).await);
        for (number, node) in nodes.iter().enumerate() {
            bind(&scene.world, &format!("late-{number}"), node);
            scene.world.run_for(Duration::from_millis(200)).await;
        }
        scene.wait(300).await;
        let first = scene.first_ended();
        assert!(first.len() >= NODES, "{first:#?}");
        for ended in &first {
            assert_eq!(ended.pods, [""; 0], "{ended:?}");
            assert!(
                ended
                    .closed
                    .is_some_and(|closed| closed >= Duration::from_secs(5)),
                "{ended:?}"
            );
        }
        let events = scene.world.server.list(resources::EVENT);
        let evicted: BTreeSet<&str> = events
            .iter()
            .filter(|event| fields::text(event, "/reason") == "Evicted")
            .map(|event| fields::text(event, "/involvedObject/name"))
            .filter(|name| name.starts_with("late-"))
            .collect();
        assert_eq!(evicted.len(), NODES, "{evicted:?}");
        assert!((0..NODES).all(|n| {
            scene
                .world
                .object("Pod", "default", &format!("late-{n}"))
                .is_none()
        }));
    });
}

#[test]
fn an_empty_node_ends_five_seconds_after_its_taint_even_if_its_process_is_another_one() {
    play(async |mut scene| {
        scene.runs(&spread("web", 3), 3).await;
        scene.world.scale("Deployment", "default", "web", 0);
        scene.wait(60).await;
        scene.delete_claims();
        for _ in 0..8 {
            scene.world.run_for(Duration::from_millis(700)).await;
            scene.stop().await;
            scene.start();
        }
        scene.wait(120).await;
        let first = scene.first_ended();
        let in_time = |e: &Ended| {
            e.closed
                .is_some_and(|c| (Duration::from_secs(5)..Duration::from_secs(15)).contains(&c))
        };
        assert!(first.len() == 3 && first.iter().all(in_time), "{first:#?}");
        assert!(
            scene.nodes().is_empty() && scene.claims().is_empty() && scene.running().is_empty()
        );
    });
}

#[test]
fn a_node_that_the_watch_does_not_know_keeps_its_instance() {
    play(async |mut scene| {
        // The initial list of nodes is answered; later nodes are never sent.
        scene.world.server.set_gate(Box::new(|asked: &RequestInfo| {
            match (asked.verb, asked.resource) {
                ("watch", Some(resources::NODE)) => Verdict::Kill,
                _ => Verdict::Go,
            }
        }));
        scene.wait(1).await;
        scene
            .world
            .apply(&format!("{KWOK_POOL}{}", spread("web", 1)))
            .expect("manifests");
        assert!(
            scene
                .world
                .run_until(
                    |w| w.server.list(resources::NODE).len() == 1,
                    Duration::from_secs(300)
                )
                .await
        );
        let node = fields::name(&scene.nodes()[0]).to_owned();
        let key = fields::key(resources::NODE, "", &node);
        let hold = &mut |node: &mut Value| node["metadata"]["finalizers"] = json!(["test/holds"]);
        scene
            .world
            .server
            .update(&key, Subresource::Object, hold)
            .expect("a finalizer");
        scene.world.scale("Deployment", "default", "web", 0);
        scene.wait(10).await;
        scene.delete_claims();
        scene.wait(120).await;
        assert!(
            scene
                .world
                .object("Node", "", &node)
                .is_some_and(|node| fields::deleting(&node)),
            "it is deleted first"
        );
        assert_eq!(scene.ended().len(), 0, "its Node is there");
        let release = &mut |node: &mut Value| fields::release(node, "test/holds");
        scene
            .world
            .server
            .update(&key, Subresource::Object, release)
            .expect("released");
        scene.wait(120).await;
        assert!(
            !scene.ended().is_empty() && scene.claims().is_empty() && scene.running().is_empty()
        );
        scene.world.server.open_gate();
        scene.stop().await;
    });
}

/// Claims as they were, under new UIDs; Nodes without owners, as kubelets register them in a
/// cluster that was restored.
fn restore(scene: &Scene, with_status: bool) {
    let server = &scene.world.server;
    for node in scene.nodes() {
        let key = fields::key_of(resources::NODE, &node);
        let disown = &mut |node: &mut Value| node["metadata"]["ownerReferences"] = json!([]);
        server
            .update(&key, Subresource::Object, disown)
            .expect("a node");
    }
    for old in scene.claims() {
        let key = fields::key_of(resources::NODE_CLAIM, &old);
        let release = &mut |claim: &mut Value| claim["metadata"]["finalizers"] = json!([]);
        server
            .update(&key, Subresource::Object, release)
            .expect("a claim");
        server
            .delete(&key, &DeleteOptions::default())
            .expect("deleted");
        assert!(server.get(&key).is_none());
        let mut new = (*old).clone();
        let metadata = &old["metadata"];
        new["metadata"] = json!({
            "name": metadata["name"], "labels": metadata["labels"], "annotations": metadata["annotations"],
            "finalizers": metadata["finalizers"],
        });
        let made = server.create(resources::NODE_CLAIM, new).expect("restored");
        assert_ne!(fields::uid(&made), fields::uid(&old));
        if with_status {
            let status = old["status"].clone();
            server
                .update(&key, Subresource::Status, &mut |claim| {
                    claim["status"] = status.clone()
                })
                .expect("its status");
        }
    }
}

#[test]
fn claims_restored_under_new_uids_end_no_instance() {
    for with_status in [true, false] {
        play(async |mut scene| {
            scene.runs(&spread("web", 100), 100).await;
            let before = scene.running();
            assert_eq!(before.len(), 100);
            scene.stop().await;
            restore(&scene, with_status);
            scene.start();
            scene.wait(1800).await;
            assert!(
                scene.ended().is_empty(),
                "with status {with_status}: {:?}",
                scene.ended()
            );
            assert!(scene.running().is_superset(&before));
            assert_eq!(scene.world.ready_pods(), 100);
            let said = scene.events("InstancesWithoutNodeClaim");
            assert_eq!(said.is_empty(), with_status, "{said:?}");
            assert!(
                said.iter().all(|said| said.contains("100 instances")),
                "{said:?}"
            );
        });
    }
}

#[test]
fn a_list_that_lacks_half_or_all_deletes_no_claim_and_says_so() {
    for lists in [Lists::Half, Lists::Empty] {
        play(async |mut scene| {
            scene.runs(&spread("web", 40), 40).await;
            let (claims, before) = (scene.claims().len(), scene.running());
            *locked(&scene.cloud.lists) = lists;
            scene.wait(600).await;
            let now = (scene.claims().len(), scene.running(), scene.ended().len());
            assert_eq!(now, (claims, before.clone(), 0), "with Ready nodes");
            // No kubelet speaks for its instance any more, so that the list is all there is. A
            // process that begins now collects after two and after four minutes; a minute later
            // pods leave such nodes.
            scene.stop().await;
            for node in scene.nodes() {
                let key = fields::key_of(resources::NODE, &node);
                let silent = &mut |node: &mut Value| {
                    for condition in node["status"]["conditions"]
                        .as_array_mut()
                        .into_iter()
                        .flatten()
                    {
                        if condition["type"] == "Ready" {
                            condition["status"] = json!("Unknown");
                        }
                    }
                };
                scene
                    .world
                    .server
                    .update(&key, Subresource::Status, silent)
                    .expect("a node");
            }
            scene.start();
            scene.wait(280).await;
            let now = (scene.claims().len(), scene.running(), scene.ended().len());
            assert_eq!(now, (claims, before, 0), "with silent nodes");
            let said = scene.events("GarbageLimitExceeded");
            assert!(
                said.iter().any(|said| said.contains("--garbage-limit")),
                "{said:?}"
            );
            let pool = &scene.world.server.list(resources::NODE_POOL)[0];
            let held = fields::items(pool, "/status/conditions")
                .iter()
                .find(|c| c["type"] == "GarbageCollectionHeld");
            let held = held.expect("a condition of the NodePool");
            assert_eq!(
                (&held["status"], &held["reason"]),
                (&json!("True"), &json!("GarbageLimitExceeded")),
                "{held}"
            );
            assert!(
                fields::text(held, "/message").contains("--garbage-limit"),
                "{held}"
            );
        });
    }
}

#[test]
fn an_instance_that_is_really_gone_takes_its_claim_with_it() {
    play(async |scene| {
        scene.runs(&spread("web", 3), 3).await;
        let claim = fields::name(&scene.claims()[0]).to_owned();
        let id = fields::text(&scene.claims()[0], "/status/providerID").to_owned();
        scene.world.cloud.delete(&id).await.expect("ended by hand");
        let gone = |world: &World| world.object("NodeClaim", "", &claim).is_none();
        assert!(
            scene.world.run_until(gone, Duration::from_secs(600)).await,
            "{}",
            scene.world.describe()
        );
        assert!(
            scene
                .world
                .run_until(|world| world.ready_pods() == 3, Duration::from_secs(600))
                .await
        );
    });
}

#[test]
fn a_claim_whose_provider_id_is_of_another_form_can_be_deleted() {
    play(async |mut scene| {
        scene.stop().await;
        let mut names = Symbols::default();
        let catalogue = longshore_kwok::catalogue::built_in(&mut names);
        let kwok = Kwok::new(scene.world.server.client("kwok"), catalogue, names);
        // A Node whose name an ID of KWOK's form names, and which is not KWOK's.
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "mine"},
            "spec": {"providerID": "aws:///us-east-1a/i-0"},
        });
        scene.world.apply_object(node).expect("a node");
        for id in [
            "aws:///us-east-1a/i-1",
            "kwok://nobody",
            "kwok://mine",
            "kwok://../secrets",
            "",
            "kwok://",
        ] {
            assert!(
                matches!(kwok.get(id).await, Err(CloudError::NotFound(_))),
                "{id}"
            );
            assert!(
                matches!(kwok.delete(id).await, Err(CloudError::NotFound(_))),
                "{id}"
            );
        }
        assert!(
            scene
                .world
                .object("Node", "", "mine")
                .is_some_and(|node| !fields::deleting(&node))
        );
        scene.start_on(Arc::new(kwok));
        scene.wait(2).await;
        scene.world.apply(KWOK_POOL).expect("manifests");
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "other", "finalizers": ["karpenter.sh/termination"]},
            "spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [], "resources": {},
            },
        });
        scene.world.apply_object(claim).expect("a claim");
        let key: Key = fields::key(resources::NODE_CLAIM, "", "other");
        let conditions: Vec<Value> = ["Launched", "Registered", "Initialized", "Ready"]
            .map(|kind| {
                json!({"type": kind, "status": "True", "reason": kind, "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"})
            })
            .into();
        let status = json!({"providerID": "aws:///us-east-1a/i-1", "nodeName": "theirs", "conditions": conditions});
        scene
            .world
            .server
            .update(&key, Subresource::Status, &mut |claim| {
                claim["status"] = status.clone()
            })
            .expect("status");
        scene.wait(5).await;
        assert!(scene.world.delete("NodeClaim", "", "other"));
        let gone = |world: &World| world.object("NodeClaim", "", "other").is_none();
        assert!(scene.world.run_until(gone, Duration::from_secs(30)).await);
    });
}

/// Requests of the daemon in a minute while 100 nodes with two pods that may not leave are drained,
/// before drains were read from the watch and evictions backed off: a list of pods and two
/// evictions for each node and second.
const BEFORE: u64 = 100 * (1 + 2) * 60;

#[test]
fn a_hundred_nodes_that_cannot_be_drained_cost_a_tenth_of_what_they_did() {
    play(async |scene| {
        let budget = |name: &str| {
            format!(
                "---\n{{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {{name: \
                {name}}},\n\
                 spec: {{maxUnavailable: 0, selector: {{matchLabels: {{app: {name}}}}}}}}}\n"
            )
        };
        let names = ["stays-a", "stays-b", "leaves-a", "leaves-b"];
        let mut manifests: String = names.map(|name| spread(name, 100)).concat();
        manifests += &(budget("stays-a") + &budget("stays-b"));
        scene.runs(&manifests, 400).await;
        let nodes = scene.nodes().len();
        scene.delete_claims();
        let mut minutes = Vec::new();
        for _ in 0..8 {
            let before = scene.requests();
            scene.wait(60).await;
            minutes.push(scene.requests() - before);
        }
        eprintln!("{nodes} nodes; requests per minute: {minutes:?}");
        let blocked = scene
            .nodes()
            .iter()
            .filter(|node| fields::deleting(node))
            .count();
        assert!(
            nodes >= 100 && blocked >= 100,
            "{nodes} nodes, {blocked} still there"
        );
        assert!(
            scene.ended().iter().all(|ended| ended.pods.is_empty()),
            "{:?}",
            scene.ended()
        );
        // In the first minute pods are asked again sooner, and those that left get new nodes.
        assert!(
            minutes[1..].iter().all(|minute| *minute <= BEFORE / 10),
            "{minutes:?}"
        );
        assert!(
            minutes.iter().sum::<u64>() <= BEFORE / 10 * minutes.len() as u64,
            "{minutes:?}"
        );
    });
}
