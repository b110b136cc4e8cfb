//! A control plane on which worlds are made, scheduled and taken away.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::api::{Api, NAMESPACES};
use super::generate::{FIRST, OLD_ZONE, World};
use longshore_xtask::control_plane::{ControlPlane, Program};

/// After so long kube-scheduler knows of a change.
const SCHEDULER_NEWS_DELAY: Duration = Duration::from_millis(250);
/// After so long kube-scheduler has tried a pod again that it looked at too early.
const RETRY_DELAY: Duration = Duration::from_secs(3);
/// After so long nodes say again that they are up. Without, the node lifecycle controller taints them
/// after 40 s.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
/// How long anything is waited for.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// A pod that kube-scheduler has given a node.
#[derive(Clone, Debug)]
pub struct Bound {
    /// `namespace/name`.
    pub pod: String,
    pub node: String,
}

/// A world after kube-scheduler.
pub struct End {
    /// Everything, pods without a node as kube-scheduler has given them up.
    pub objects: Vec<Value>,
    /// Pods that were bound, in that order.
    pub bound: Vec<Bound>,
    /// Pods that have their node and whose volume is to be made first.
    pub chosen: Vec<Bound>,
}

impl End {
    /// All pods that have their node.
    pub fn placed(&self) -> Vec<Bound> {
        self.bound.iter().chain(&self.chosen).cloned().collect()
    }

    /// An object by kind and `namespace/name`.
    pub fn object(&self, kind: &str, name: &str) -> Option<Value> {
        let mut all = self.objects.iter();
        let found = all.find(|object| object["kind"] == kind && name_of(object) == name);
        found.cloned()
    }
}

/// The control plane.
pub struct Stage {
    // Ends before the control plane does.
    api: Api,
    plane: ControlPlane,
    beaten: Cell<Instant>,
}

impl Stage {
    /// Starts one, with the namespaces of worlds and without kube-scheduler.
    pub fn start() -> anyhow::Result<Self> {
        let plane = ControlPlane::start("scheduler-differential")?;
        let api = Api::start(&plane)?;
        let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let ours = NAMESPACES.iter().filter(|name| **name != "default");
        let ours: Vec<Value> = ours.map(|name| namespace(name)).collect();
        api.create(&ours)?;
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": FIRST}, "value": 1_000});
        plane.apply(&class.to_string())?;
        plane.kill(Program::Scheduler)?;
        let beaten = Cell::new(Instant::now());
        Ok(Stage { api, plane, beaten })
    }

    /// Everything that there is. Nodes say that they are up where they have not for a while.
    fn objects(&self) -> anyhow::Result<Vec<Value>> {
        let objects = self.api.objects()?;
        if self.beaten.get().elapsed() > HEARTBEAT_INTERVAL {
            self.beaten.set(Instant::now());
            for node in objects.iter().filter(|object| object["kind"] == "Node") {
                let patch = json!({"status": {"conditions": ready()}});
                self.api.patch_status("Node", &name_of(node), &patch)?;
            }
        }
        Ok(objects)
    }

    /// Waits until everything that there is meets a condition.
    fn until(&self, what: &str, is_met: impl Fn(&[Value]) -> bool) -> anyhow::Result<Vec<Value>> {
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            let objects = self.objects()?;
            if is_met(&objects) {
                return Ok(objects);
            }
            if Instant::now() > deadline {
                bail!("{what}: not within {} s", MAX_WAIT.as_secs());
            }
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    /// Makes a world. Returns all objects, the pods that wait as if kube-scheduler had given them up.
    pub fn play(&self, world: &World) -> anyhow::Result<Vec<Value>> {
        self.make(world, &world.objects)?;
        self.api.create(&world.pending)?;
        let wants_volume = |object: &Value| {
            object["kind"] == "PersistentVolumeClaim"
                && object["spec"]["volumeName"].is_string()
                && object["status"]["phase"] != "Bound"
        };
        let mut objects = self.until("nodes and claims of a world", |objects| {
            !objects
                .iter()
                .any(|o| is_tainted_anew(o) || wants_volume(o))
        })?;
        objects.iter_mut().for_each(give_up);
        Ok(objects)
    }

    /// Makes what a world has before its pods that wait.
    fn make(&self, world: &World, objects: &[Value]) -> anyhow::Result<()> {
        let with_heart = |object: &Value| {
            let mut object = object.clone();
            if object["kind"] == "Node" {
                object["status"]["conditions"] = ready();
            }
            object
        };
        let objects: Vec<Value> = objects.iter().map(with_heart).collect();
        self.api.create(&objects)?;
        for (pod, status) in &world.resized {
            self.api
                .patch_status("Pod", pod, &json!({"status": status}))?;
        }
        for pod in &world.terminating {
            self.api.delete("Pod", pod, false)?;
        }
        Ok(())
    }

    /// Lets kube-scheduler go on.
    pub fn schedule(&self) -> anyhow::Result<()> {
        self.plane.start_again(Program::Scheduler)
    }

    /// Starts kube-scheduler again, which then tries every pod that waits.
    pub fn schedule_anew(&self) -> anyhow::Result<()> {
        self.plane.kill(Program::Scheduler)?;
        self.schedule()
    }

    /// Makes the nodes of a plan.
    pub fn buy(&self, nodes: &[Value]) -> anyhow::Result<()> {
        self.api.create(nodes)?;
        self.until("nodes of a plan", |objects| {
            !objects.iter().any(is_tainted_anew)
        })?;
        Ok(())
    }

    /// Asks kube-scheduler about a plan: each pod with room on its planned node alone, those named in
    /// `first` before all others. Returns the pods that are refused even so, with what kube-scheduler
    /// says.
    pub fn replay(
        &self,
        world: &World,
        bought: &[Value],
        planned: &[Bound],
        first: &[String],
    ) -> anyhow::Result<Vec<(Bound, String)>> {
        let mut rooms: BTreeMap<String, Value> = BTreeMap::new();
        let mut closed = |object: &Value| {
            let mut object = object.clone();
            if object["kind"] == "Node" {
                let pods = object["status"]["allocatable"]["pods"].take();
                rooms.insert(name_of(&object), pods);
                object["status"]["allocatable"]["pods"] = json!("0");
            }
            object
        };
        let objects: Vec<Value> = world.objects.iter().map(&mut closed).collect();
        let bought: Vec<Value> = bought.iter().map(&mut closed).collect();
        self.make(world, &objects)?;
        self.buy(&bought)?;
        self.schedule()?;
        // First the pods that others can keep out by where they are, as long as any of them finds
        // its place: pods without rules of their own may come in any order.
        let is_picky = |one: &Bound| {
            let mut pending = world.pending.iter();
            let pod = pending.find(|pod| one.pod == name_of(pod));
            pod.is_some_and(|pod| {
                let spec = &pod["spec"];
                let spreads = spec["topologySpreadConstraints"].as_array();
                let affinity = spec["affinity"].as_object();
                let rules = ["podAffinity", "podAntiAffinity"];
                spreads.is_some_and(|rules| !rules.is_empty())
                    || affinity.is_some_and(|all| rules.iter().any(|rule| all.contains_key(*rule)))
            })
        };
        let is_first = |one: &Bound| first.contains(&one.pod);
        let (first, rest): (Vec<Bound>, Vec<Bound>) = planned.iter().cloned().partition(is_first);
        let (picky, others): (Vec<Bound>, Vec<Bound>) = rest.into_iter().partition(is_picky);
        let (mut left, mut refusals) = (Vec::new(), BTreeMap::new());
        for next in [first, picky, others] {
            left.extend(next);
            self.place_all(world, &mut left, &rooms, &mut refusals)?;
        }
        let with_reason = |one: Bound| {
            let why = refusals.get(&one.pod).cloned().unwrap_or_default();
            (one, why)
        };
        Ok(left.into_iter().map(with_reason).collect())
    }

    /// Makes pods node by node until no more of them are bound where they are planned.
    fn place_all(
        &self,
        world: &World,
        left: &mut Vec<Bound>,
        rooms: &BTreeMap<String, Value>,
        refusals: &mut BTreeMap<String, String>,
    ) -> anyhow::Result<()> {
        loop {
            let before = left.len();
            let nodes: BTreeSet<String> = left.iter().map(|one| one.node.clone()).collect();
            for node in nodes {
                let here: Vec<&Bound> = left.iter().filter(|one| one.node == node).collect();
                let room = rooms.get(&node).context("a plan names an unknown node")?;
                let refused = self.ask(world, &here, &node, room)?;
                left.retain(|one| one.node != node || refused.contains_key(&one.pod));
                refusals.extend(refused);
            }
            if left.is_empty() || left.len() == before {
                return Ok(());
            }
        }
    }

    /// Makes pods while one node alone has room. Those that are not bound there are taken away, and
    /// returned with what kube-scheduler says.
    fn ask(
        &self,
        world: &World,
        planned: &[&Bound],
        node: &str,
        room: &Value,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        let pods = |room: &Value| json!({"status": {"allocatable": {"pods": room}}});
        self.api.patch_status("Node", node, &pods(room))?;
        std::thread::sleep(SCHEDULER_NEWS_DELAY);
        let is_planned = |pod: &&Value| planned.iter().any(|one| one.pod == name_of(pod));
        let new: Vec<Value> = world.pending.iter().filter(is_planned).cloned().collect();
        self.api.create(&new)?;
        let (mut last, mut since) = (BTreeMap::new(), Instant::now());
        let deadline = Instant::now() + MAX_WAIT;
        let refused = loop {
            let objects = self.objects()?;
            let mut refused = BTreeMap::new();
            for pod in objects
                .iter()
                .filter(|pod| pod["kind"] == "Pod")
                .filter(is_planned)
            {
                let chosen = volume_on(&objects, pod);
                if pod["spec"]["nodeName"] != node && chosen.as_deref() != Some(node) {
                    let why = refusal(pod).map(str::to_owned);
                    refused.insert(name_of(pod), why);
                }
            }
            if refused != last {
                (last, since) = (refused.clone(), Instant::now());
            }
            let is_quiet = since.elapsed() > RETRY_DELAY && refused.values().all(Option::is_some);
            if refused.is_empty() || is_quiet || Instant::now() > deadline {
                break refused;
            }
            std::thread::sleep(SCHEDULER_NEWS_DELAY);
        };
        self.api.patch_status("Node", node, &pods(&json!("0")))?;
        for pod in refused.keys() {
            self.api.delete("Pod", pod, true)?;
        }
        std::thread::sleep(SCHEDULER_NEWS_DELAY);
        let said = |(pod, why): (String, Option<String>)| (pod, why.unwrap_or_default());
        Ok(refused.into_iter().map(said).collect())
    }

    /// Waits until kube-scheduler has looked at every pod of a world and has changed nothing for so
    /// many seconds.
    pub fn settled(&self, world: &World, seconds: u64) -> anyhow::Result<End> {
        let deadline = Instant::now() + MAX_WAIT;
        let (mut last, mut since) = (Value::Null, Instant::now());
        loop {
            let objects = self.objects()?;
            let waits: Vec<String> = world.pending.iter().map(name_of).collect();
            let mine =
                |object: &&Value| object["kind"] == "Pod" && waits.contains(&name_of(object));
            let state = |pod: &Value| {
                let conditions = &pod["status"]["conditions"];
                json!([name_of(pod), pod["spec"]["nodeName"], conditions])
            };
            let now: Value = objects.iter().filter(mine).map(state).collect();
            if now != last {
                (last, since) = (now, Instant::now());
            }
            let is_quiet = since.elapsed() >= Duration::from_secs(seconds);
            let is_decided = |pod: &Value| is_decided(&objects, pod);
            if (is_quiet && objects.iter().filter(mine).all(is_decided))
                || Instant::now() > deadline
            {
                return self.end(objects, &waits);
            }
            std::thread::sleep(Duration::from_millis(400));
        }
    }

    fn end(&self, mut objects: Vec<Value>, waits: &[String]) -> anyhow::Result<End> {
        let mut at: BTreeMap<String, String> = BTreeMap::new();
        for request in self.plane.recorded()? {
            if request.resource == "pods/binding" && request.code < 400 {
                at.insert(request.object, request.at);
            }
        }
        let mut bound: Vec<(String, Bound)> = Vec::new();
        let mut chosen: Vec<Bound> = Vec::new();
        for object in &objects {
            let name = name_of(object);
            if object["kind"] != "Pod" || !waits.contains(&name) {
                continue;
            }
            match object["spec"]["nodeName"].as_str() {
                Some(node) => {
                    let when = at.get(&name).cloned().unwrap_or_default();
                    let (pod, node) = (name, node.to_owned());
                    bound.push((when, Bound { pod, node }));
                }
                None => {
                    let node = volume_on(&objects, object);
                    chosen.extend(node.map(|node| Bound { pod: name, node }));
                }
            }
        }
        bound.sort_by(|a, b| a.0.cmp(&b.0));
        for object in &mut objects {
            // Their volumes are never made; they hold their place all the same.
            if let Some(of) = chosen.iter().find(|of| is_pod(object, &of.pod)) {
                object["spec"]["nodeName"] = json!(of.node);
            }
            give_up(object);
        }
        Ok(End {
            objects,
            bound: bound.into_iter().map(|(_, bound)| bound).collect(),
            chosen,
        })
    }

    /// Takes a world away, and stops kube-scheduler.
    pub fn clear(&self) -> anyhow::Result<()> {
        self.plane.kill(Program::Scheduler)?;
        self.api.delete_all()?;
        self.until("the end of a world", |objects| {
            objects.iter().all(|object| object["kind"] == "Namespace")
        })?;
        Ok(())
    }
}

/// The node that kube-scheduler chose for a pod whose volume is to be made first.
fn volume_on(objects: &[Value], pod: &Value) -> Option<String> {
    let waits = pod["status"]["nominatedNodeName"].as_str()?;
    claims_of(objects, &name_of(pod)).iter().find_map(|claim| {
        let mut all = objects.iter();
        let claim = all.find(|o| o["kind"] == "PersistentVolumeClaim" && name_of(o) == *claim)?;
        let node = &claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"];
        (node == waits).then(|| waits.to_owned())
    })
}

fn is_pod(object: &Value, name: &str) -> bool {
    object["kind"] == "Pod" && name_of(object) == name
}

/// `namespace/name`, or the name.
pub fn name_of(object: &Value) -> String {
    let meta = &object["metadata"];
    let name = meta["name"].as_str().unwrap_or_default();
    match (meta["namespace"].as_str(), object["kind"].as_str()) {
        (Some(namespace), _) => format!("{namespace}/{name}"),
        _ => name.to_owned(),
    }
}

/// Whether a pod has no node.
pub fn is_pending(pod: &Value) -> bool {
    pod["kind"] == "Pod" && pod["spec"]["nodeName"].is_null()
}

/// The claims that a pod mounts, `namespace/name`.
pub fn claims_of(objects: &[Value], pod: &str) -> Vec<String> {
    let found = objects.iter().find(|object| is_pod(object, pod));
    let volumes = found.and_then(|pod| pod["spec"]["volumes"].as_array());
    let named = volumes
        .into_iter()
        .flatten()
        .filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
    let namespace = pod
        .split_once('/')
        .map_or("default", |(namespace, _)| namespace);
    named.map(|name| format!("{namespace}/{name}")).collect()
}

/// Whether kube-scheduler has bound a pod, has chosen its volume's node, or has given it up.
fn is_decided(objects: &[Value], pod: &Value) -> bool {
    !is_pending(pod) || refusal(pod).is_some() || volume_on(objects, pod).is_some()
}

/// What kube-scheduler says of a pod that it has given up.
fn refusal(pod: &Value) -> Option<&str> {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let scheduled = conditions.find(|of| of["type"] == "PodScheduled")?;
    scheduled["message"].as_str().or(Some(""))
}

/// A node that the node lifecycle controller has not looked at yet.
fn is_tainted_anew(object: &Value) -> bool {
    let taints = object["spec"]["taints"].as_array();
    let has = |key: &str| {
        taints
            .into_iter()
            .flatten()
            .any(|taint| taint["key"] == key)
    };
    let is_cordoned = object["spec"]["unschedulable"] == true;
    object["kind"] == "Node"
        && (has("node.kubernetes.io/not-ready")
            || is_cordoned != has("node.kubernetes.io/unschedulable"))
}

/// A pod without a node waits as one that kube-scheduler has given up. kube-scheduler tries such pods in
/// the order of its last attempts, and no object says that order. So all pods are of one age here.
fn give_up(object: &mut Value) {
    if is_pending(object) {
        object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        object["status"]["conditions"] =
            json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
        if let Some(status) = object["status"].as_object_mut() {
            status.remove("nominatedNodeName");
        }
    }
}

/// The nodes that a plan buys.
pub fn nodes_of(plan: &Value, world: &World, types: &Value) -> Vec<Value> {
    let claims = plan["claims"].as_array().into_iter().flatten();
    let node = |(at, claim)| node_of(at, claim, world, types);
    claims.enumerate().map(node).collect()
}

/// The node that a claim of a plan becomes.
fn node_of(at: usize, claim: &Value, world: &World, types: &Value) -> Value {
    let name = bought_name(at);
    let offering = &claim["offering"];
    let mut pools = world.pools.iter();
    let pool = pools.find(|pool| pool["metadata"]["name"] == claim["nodePool"]);
    let template = pool.map_or(&Value::Null, |pool| &pool["spec"]["template"]);
    let mut labels = json!({
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": offering["zone"],
        "karpenter.sh/capacity-type": offering["capacityType"],
        "node.kubernetes.io/instance-type": offering["instanceType"],
        "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
    });
    if world.has_old_zones {
        labels[OLD_ZONE] = offering["zone"].clone();
    }
    let own = template["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten();
    own.for_each(|(key, value)| labels[key] = value.clone());
    for (key, values) in claim["requirements"].as_object().into_iter().flatten() {
        if let Some([only]) = values.as_array().map(Vec::as_slice) {
            labels[key] = only.clone();
        }
    }
    let mut all = types.as_array().into_iter().flatten();
    let kind = all.find(|kind| kind["name"] == offering["instanceType"]);
    let kind = kind.unwrap_or(&Value::Null);
    let taints = template["spec"]["taints"].as_array().cloned();
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints.unwrap_or_default()},
        "status": {"capacity": kind["capacity"], "allocatable": kind["allocatable"],
            "declaredFeatures": ["RestartAllContainersOnContainerExits"],
            "conditions": ready()},
    })
}

/// The name of the node that a claim of a plan becomes.
pub fn bought_name(at: usize) -> String {
    format!("new-{at}")
}

/// The conditions of a node that is up.
fn ready() -> Value {
    json!([{"type": "Ready", "status": "True", "reason": "Up", "message": "",
        "lastHeartbeatTime": now(), "lastTransitionTime": now()}])
}

/// The time as the API has it.
fn now() -> String {
    let seconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    crate::image::rfc3339(i64::try_from(seconds).unwrap_or_default())
}
