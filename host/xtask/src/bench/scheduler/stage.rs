//! A control plane on which worlds are made, scheduled and taken away.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::generate::World;
use longshore_xtask::control_plane::{ControlPlane, Program};

/// Kinds that worlds are made of and that plans read.
const KINDS: &str = "nodes,pods,persistentvolumeclaims,persistentvolumes,storageclasses,csinodes,\
    csidrivers,csistoragecapacities,volumeattachments,namespaces";
/// Kinds that are taken away after a world, in this order.
const TAKEN: [&str; 7] = [
    "pods",
    "persistentvolumeclaims",
    "persistentvolumes",
    "nodes",
    "storageclasses",
    "csidrivers",
    "csistoragecapacities",
];
/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

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
    /// Whether a pod has its node.
    pub fn has_placed(&self, pod: &str) -> bool {
        let mut all = self.bound.iter().chain(&self.chosen);
        all.any(|bound| bound.pod == pod)
    }

    /// An object by kind and `namespace/name`.
    pub fn object(&self, kind: &str, name: &str) -> Option<Value> {
        let mut all = self.objects.iter();
        let found = all.find(|object| object["kind"] == kind && name_of(object) == name);
        found.cloned()
    }
}

/// The control plane.
pub struct Stage(ControlPlane);

impl Stage {
    /// Starts one, with the namespaces of worlds and without kube-scheduler.
    pub fn start() -> anyhow::Result<Self> {
        let stage = Stage(ControlPlane::start("scheduler-differential")?);
        let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        stage.create(&["team-a", "team-b"].map(namespace))?;
        stage.0.kill(Program::Scheduler)?;
        Ok(stage)
    }

    fn create(&self, objects: &[Value]) -> anyhow::Result<()> {
        if objects.is_empty() {
            return Ok(());
        }
        let mut command = self.0.kubectl()?;
        command
            .args(["create", "--filename", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start kubectl")?;
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let mut stdin = child.stdin.take().context("no way to kubectl")?;
        stdin.write_all(list.to_string().as_bytes())?;
        drop(stdin);
        let out = child.wait_with_output()?;
        if !out.status.success() {
            bail!("kubectl create: {}", String::from_utf8_lossy(&out.stderr));
        }
        Ok(())
    }

    /// Everything that there is.
    fn objects(&self) -> anyhow::Result<Vec<Value>> {
        let text = self
            .0
            .run(&["get", KINDS, "--all-namespaces", "--output", "json"])?;
        let list: Value = serde_json::from_str(&text)?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Waits until everything that there is meets a condition.
    fn until(&self, what: &str, is_met: impl Fn(&[Value]) -> bool) -> anyhow::Result<Vec<Value>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let objects = self.objects()?;
            if is_met(&objects) {
                return Ok(objects);
            }
            if Instant::now() > deadline {
                bail!("{what}: not within {} s", PATIENCE.as_secs());
            }
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    fn patch(&self, kind: &str, name: &str, patch: &Value) -> anyhow::Result<()> {
        let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
        let patch = patch.to_string();
        let args = ["patch", kind, name, "--namespace", namespace];
        let more = [
            "--subresource",
            "status",
            "--type",
            "merge",
            "--patch",
            &patch,
        ];
        self.0.run(&[args.as_slice(), &more].concat()).map(drop)
    }

    /// Makes a world. Returns all objects, the pods that wait as if kube-scheduler had given them up.
    pub fn play(&self, world: &World) -> anyhow::Result<Vec<Value>> {
        let ready = json!([{"type": "Ready", "status": "True", "reason": "Up", "message": "",
            "lastHeartbeatTime": now(), "lastTransitionTime": now()}]);
        let with_heart = |object: &Value| {
            let mut object = object.clone();
            if object["kind"] == "Node" {
                object["status"]["conditions"] = ready.clone();
            }
            object
        };
        let objects: Vec<Value> = world.objects.iter().map(with_heart).collect();
        self.create(&objects)?;
        for (pod, status) in &world.resized {
            self.patch("pod", pod, &json!({"status": status}))?;
        }
        for pod in &world.terminating {
            let (namespace, name) = pod.split_once('/').unwrap_or(("default", pod));
            self.0.run(&[
                "delete",
                "pod",
                name,
                "--namespace",
                namespace,
                "--wait=false",
            ])?;
        }
        self.create(&world.pending)?;
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

    /// Lets kube-scheduler go on.
    pub fn schedule(&self) -> anyhow::Result<()> {
        self.0.start_again(Program::Scheduler)
    }

    /// Makes the nodes of a plan.
    pub fn buy(&self, plan: &Value, world: &World, types: &Value) -> anyhow::Result<()> {
        let claims = plan["claims"].as_array().into_iter().flatten();
        let nodes: Vec<Value> = claims
            .enumerate()
            .map(|(at, claim)| node_of(at, claim, world, types))
            .collect();
        self.create(&nodes)?;
        self.until("nodes of a plan", |objects| {
            !objects.iter().any(is_tainted_anew)
        })?;
        Ok(())
    }

    /// Waits until kube-scheduler has looked at every pod of a world and has changed nothing for so
    /// many seconds.
    pub fn settled(&self, world: &World, seconds: u64) -> anyhow::Result<End> {
        let deadline = Instant::now() + PATIENCE;
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
        for request in self.0.recorded()? {
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
        self.0.kill(Program::Scheduler)?;
        for kind in TAKEN {
            let args = ["delete", kind, "--all", "--force", "--grace-period=0"];
            let all: &[&str] = match kind {
                "nodes" | "persistentvolumes" | "storageclasses" | "csidrivers" => &[],
                _ => &["--all-namespaces"],
            };
            self.0
                .run(&[args.as_slice(), &["--wait=false"], all].concat())?;
        }
        self.0
            .run(&["delete", "csinodes", "--all", "--wait=false"])?;
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

/// Whether kube-scheduler has bound a pod or given it up.
fn is_decided(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    !is_pending(pod) || conditions.any(|of| of["type"] == "PodScheduled")
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

/// A pod without a node waits as one that kube-scheduler has given up.
fn give_up(object: &mut Value) {
    if is_pending(object) {
        object["status"]["conditions"] =
            json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
        if let Some(status) = object["status"].as_object_mut() {
            status.remove("nominatedNodeName");
        }
    }
}

/// The node that a claim of a plan becomes.
fn node_of(at: usize, claim: &Value, world: &World, types: &Value) -> Value {
    let name = format!("new-{at}");
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
            "conditions": [{"type": "Ready", "status": "True", "reason": "Up", "message": "",
                "lastHeartbeatTime": now(), "lastTransitionTime": now()}]},
    })
}

/// The time as the API has it.
fn now() -> String {
    let seconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    crate::image::rfc3339(i64::try_from(seconds).unwrap_or_default())
}
