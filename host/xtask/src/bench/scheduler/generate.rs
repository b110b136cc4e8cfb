//! Worlds from seeds for a real control plane: nodes, what runs on them and pods that wait, with the
//! rules about nodes, volumes and other pods that kube-scheduler knows.

use fastrand::Rng;
use serde_json::{Value, json};

use super::api::NAMESPACES;

const ZONE: &str = "topology.kubernetes.io/zone";
pub const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const RACK: &str = "example.com/rack";
const GEN: &str = "example.com/gen";
const ZONES: [&str; 3] = ["test-zone-a", "test-zone-b", "test-zone-c"];
const APPS: [&str; 4] = ["web", "db", "cache", "job"];
/// The PriorityClass of pods that are tried before others.
pub const FIRST: &str = "first";
const RESTARTS_ALL: &str = "RestartAllContainersOnContainerExits";

/// A world: what is made of it before kube-scheduler looks, in order.
#[derive(Debug, Default)]
pub struct World {
    /// Nodes, storage and pods that run.
    pub objects: Vec<Value>,
    /// Pods that are deleted and stay, `namespace/name`.
    pub terminating: Vec<String>,
    /// Statuses of pods that are resized in place.
    pub resized: Vec<(String, Value)>,
    /// Pods that wait.
    pub pending: Vec<Value>,
    /// Whether nodes carry the beta label of their zone, as old cloud controllers write it.
    pub has_old_zones: bool,
    /// NodePools, which only plans are made with.
    pub pools: Vec<Value>,
}

/// The world of a seed; with NodePools, and more pods, if nodes may be bought.
pub fn world(seed: u64, buys: bool) -> World {
    let mut rng = Rng::with_seed(seed);
    let mut world = World::default();
    let old_zones = percent(&mut rng, 40);
    let nodes = if buys {
        rng.usize(..4)
    } else {
        4 + rng.usize(..6)
    };
    for at in 0..nodes {
        let node = node(&mut rng, at, old_zones);
        world.has_old_zones |= !node["metadata"]["labels"][OLD_ZONE].is_null();
        world.objects.push(node);
    }
    // Where no node says otherwise, plans take nodes to carry both names.
    world.has_old_zones |= nodes == 0;
    storage(&mut rng, &mut world, nodes);
    for at in 0..if nodes == 0 { 0 } else { 3 + rng.usize(..8) } {
        running(&mut rng, &mut world, at, nodes);
    }
    if buys {
        world.pools = pools(&mut rng);
    }
    for at in 0..2 + rng.usize(..5) {
        let pods = workload(&mut rng, at);
        world.pending.extend(pods);
    }
    world
}

/// A world in which every pod has a place, and some get none: kube-scheduler tries pods of higher
/// priority first and spreads them over the nodes, so that no whole node is left for the others.
pub fn tight(seed: u64) -> World {
    let mut rng = Rng::with_seed(seed);
    let nodes = 2 + rng.usize(..4);
    let cores = 2 << rng.u32(..3);
    let mut world = World::default();
    for at in 0..nodes {
        let name = format!("n{at}");
        let room = json!({"cpu": cores.to_string(), "memory": "16Gi", "pods": "110"});
        world
            .objects
            .push(json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {HOST: name}},
            "status": {"capacity": room, "allocatable": room}}));
    }
    let mut workload = |name: &str, count: usize, milli: u32, spec: Value| {
        let app = pick(&mut rng, &APPS).to_owned();
        let cpu = format!("{}m", milli - 50 * rng.u32(..4));
        let pods = (0..count).map(|n| pod(&format!("{name}-{n}"), "default", &app, &cpu, &spec));
        world.pending.extend(pods);
    };
    let first = json!({"priorityClassName": FIRST});
    workload("half", nodes, 500 * cores, first);
    workload("whole", nodes / 2, 1_000 * cores, json!({}));
    world
}

fn node(rng: &mut Rng, at: usize, old_zones: bool) -> Value {
    let name = format!("n{at}");
    let room = json!({"cpu": pick(rng, &["1", "2", "4", "8"]), "memory": "16Gi",
        "ephemeral-storage": "50Gi", "pods": pick(rng, &["110", "110", "6"])});
    let mut labels = json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"});
    if !percent(rng, 15) {
        labels[ZONE] = json!(pick(rng, &ZONES));
        if old_zones {
            labels[OLD_ZONE] = labels[ZONE].clone();
        }
    }
    if !percent(rng, 8) {
        labels[HOST] = json!(name);
    }
    if percent(rng, 50) {
        labels[RACK] = json!(pick(rng, &["r1", "r2"]));
    }
    if percent(rng, 50) {
        labels[GEN] = json!(pick(rng, &["3", "7"]));
    }
    let mut spec = json!({});
    if percent(rng, 20) {
        let effect = pick(rng, &["NoSchedule", "NoSchedule", "PreferNoSchedule"]);
        spec["taints"] = json!([{"key": "dedicated", "value": "x", "effect": effect}]);
    }
    if percent(rng, 8) {
        spec["unschedulable"] = json!(true);
    }
    let features: &[&str] = if percent(rng, 50) {
        &[RESTARTS_ALL]
    } else {
        &[]
    };
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec,
        "status": {"capacity": room, "allocatable": room, "declaredFeatures": features},
    })
}

/// Classes, claims and volumes of every kind that binds a pod to some nodes.
fn storage(rng: &mut Rng, world: &mut World, nodes: usize) {
    let class = |name: &str, provisioner: &str| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {"name": name}, "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer"})
    };
    let counts = percent(rng, 50);
    let mut zoned = class("zoned", "x.csi");
    zoned["allowedTopologies"] = json!([{"matchLabelExpressions": [
        {"key": pick(rng, &[ZONE, OLD_ZONE]), "values": [pick(rng, &ZONES[1..]), ZONES[0]]}]}]);
    world.objects.extend([
        zoned,
        class("made", "x.csi"),
        class("counted", "y.csi"),
        class("manual", "kubernetes.io/no-provisioner"),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
            "metadata": {"name": "y.csi"}, "spec": {"storageCapacity": counts}}),
    ]);
    if percent(rng, 60) {
        world.objects.push(json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
            "metadata": {"name": "room", "namespace": "default"}, "storageClassName": "counted",
            "capacity": pick(rng, &["1Gi", "9Gi"]),
            "nodeTopology": {"matchLabels": {ZONE: pick(rng, &ZONES)}},
        }));
    }
    for at in 0..nodes {
        if percent(rng, 40) {
            let driver = json!({"name": "x.csi", "nodeID": format!("n{at}"), "topologyKeys": [],
                "allocatable": {"count": rng.usize(..3)}});
            world
                .objects
                .push(json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
                "metadata": {"name": format!("n{at}")}, "spec": {"drivers": [driver]}}));
        }
    }
    let zone = pick(rng, &ZONES);
    let host = format!("n{}", rng.usize(..nodes.max(1) + 1));
    let on = |key: &str, value: &str| {
        json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": key, "operator": "In", "values": [value]}]}]}})
    };
    let csi = |handle: &str| json!({"driver": "x.csi", "volumeHandle": handle});
    let volumes = [
        (
            "zonal",
            "made",
            json!({ZONE: zone}),
            json!({"csi": csi("zonal")}),
        ),
        ("twin", "made", json!({}), json!({"csi": csi("zonal")})),
        ("alone", "made", json!({}), json!({"csi": csi("alone")})),
        (
            "local",
            "manual",
            json!({}),
            json!({"local": {"path": "/d"}, "nodeAffinity": on(HOST, &host)}),
        ),
        (
            "affine",
            "made",
            json!({}),
            json!({"csi": csi("affine"), "nodeAffinity": on(ZONE, zone)}),
        ),
    ];
    for (name, class, labels, source) in volumes {
        let mode = if name == "alone" {
            "ReadWriteOncePod"
        } else {
            "ReadWriteOnce"
        };
        let mut spec = json!({"capacity": {"storage": "5Gi"}, "accessModes": [mode],
            "storageClassName": class});
        let more = source.as_object().cloned().unwrap_or_default();
        let (is_free, claimed) = (
            name == "local",
            json!({"namespace": "default", "name": name}),
        );
        if let Some(spec) = spec.as_object_mut() {
            spec.extend(more);
            if !is_free {
                spec.insert("claimRef".into(), claimed);
            }
        }
        world
            .objects
            .push(json!({"apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": name, "labels": labels}, "spec": spec}));
        let mut claim = claim(name, class, mode);
        if !is_free {
            claim["spec"]["volumeName"] = json!(name);
        }
        world.objects.push(claim);
    }
    if nodes > 0 && percent(rng, 30) {
        let node = format!("n{}", rng.usize(..nodes));
        world.objects.push(
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
            "metadata": {"name": "attached"}, "spec": {"attacher": "x.csi", "nodeName": node,
                "source": {"persistentVolumeName": "affine"}}}),
        );
    }
    for class in ["counted", "zoned"] {
        world.objects.push(claim(class, class, "ReadWriteOnce"));
    }
    let mut chosen = claim("chosen", "made", "ReadWriteOnce");
    chosen["metadata"]["annotations"] =
        json!({"volume.kubernetes.io/selected-node": pick(rng, &["n0", "gone"])});
    world.objects.push(chosen);
}

fn claim(name: &str, class: &str, mode: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"accessModes": [mode], "storageClassName": class,
            "resources": {"requests": {"storage": "2Gi"}}}})
}

fn pod(name: &str, namespace: &str, app: &str, cpu: &str, spec: &Value) -> Value {
    let mut all = json!({"terminationGracePeriodSeconds": 3600, "containers": [{
        "name": "main", "image": "x", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]});
    if let (Some(all), Some(more)) = (all.as_object_mut(), spec.as_object()) {
        all.extend(more.clone());
    }
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": app}}, "spec": all})
}

/// A pod that runs: some are terminating, some are being resized.
fn running(rng: &mut Rng, world: &mut World, at: usize, nodes: usize) {
    let (namespace, app) = (pick(rng, &NAMESPACES), pick(rng, &APPS));
    let mut spec = json!({"nodeName": format!("n{}", rng.usize(..nodes))});
    if percent(rng, 35) {
        let term = term(rng);
        spec["affinity"] = json!({"podAntiAffinity": required(&[term])});
    }
    if namespace == "default" && percent(rng, 20) {
        spec["volumes"] = mounts(pick(rng, &["alone", "twin", "zonal"]));
    }
    let name = format!("run{at}");
    world.objects.push(pod(
        &name,
        namespace,
        app,
        pick(rng, &["100m", "500m"]),
        &spec,
    ));
    let name = format!("{namespace}/{name}");
    if percent(rng, 25) {
        world.terminating.push(name);
    } else if percent(rng, 25) {
        let (has, allocated) = (pick(rng, &["50m", "900m"]), pick(rng, &["50m", "400m"]));
        let mut status = json!({"phase": "Running", "containerStatuses": [{
            "name": "main", "image": "x", "imageID": "", "ready": true, "restartCount": 0,
            "resources": {"requests": {"cpu": has, "memory": "64Mi"}},
            "allocatedResources": {"cpu": allocated, "memory": "64Mi"}}]});
        if percent(rng, 60) {
            let reason = pick(rng, &["Infeasible", "Deferred"]);
            status["conditions"] =
                json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
        }
        world.resized.push((name, status));
    }
}

fn pools(rng: &mut Rng) -> Vec<Value> {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let mut all = Vec::new();
    for name in ["default", "second"] {
        let mut requirements = vec![
            json!({"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}),
            json!({"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}),
            json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}),
            json!({"key": ZONE, "operator": "In", "values": ZONES}),
        ];
        if percent(rng, 40) {
            requirements[3]["values"] = json!([ZONES[0], ZONES[2]]);
        }
        let mut template = json!({"spec": {"nodeClassRef": class, "requirements": requirements}});
        if percent(rng, 35) {
            let rack = pick(rng, &["r1", "r3"]);
            template["metadata"] = json!({"labels": {RACK: rack}});
        }
        if percent(rng, 25) {
            template["spec"]["taints"] =
                json!([{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]);
        }
        all.push(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": name}, "spec": {"template": template}}));
        if !percent(rng, 40) {
            break;
        }
    }
    all
}

/// Some pods that wait, with the same rules.
fn workload(rng: &mut Rng, at: usize) -> Vec<Value> {
    let (namespace, app) = (pick(rng, &NAMESPACES), pick(rng, &APPS));
    let count = 1 + rng.usize(..5);
    let cpu = pick(rng, &["100m", "400m", "900m", "1900m"]);
    let (mut spec, mut affinity) = (json!({}), json!({}));
    for (kind, share) in [("podAffinity", 35), ("podAntiAffinity", 35)] {
        if percent(rng, share) {
            let terms: Vec<Value> = (0..1 + rng.usize(..2)).map(|_| term(rng)).collect();
            affinity[kind] = required(&terms);
        }
    }
    if percent(rng, 25) {
        let rule = match rng.usize(..5) {
            0 => json!({"key": GEN, "operator": "Gt", "values": ["4"]}),
            1 => json!({"key": ZONE, "operator": "In", "values": [ZONES[0], ZONES[1]]}),
            2 => json!({"key": RACK, "operator": "DoesNotExist"}),
            3 => json!({"key": GEN, "operator": "Lt", "values": ["4"]}),
            _ => json!({"key": RACK, "operator": "NotIn", "values": ["r1"]}),
        };
        affinity["nodeAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [rule]}]}});
    }
    if percent(rng, 15) {
        let kind = pick(rng, &["podAffinity", "podAntiAffinity"]);
        let preferred = json!([{"weight": 10, "podAffinityTerm": term(rng)}]);
        affinity[kind]["preferredDuringSchedulingIgnoredDuringExecution"] = preferred;
    }
    spec["affinity"] = affinity;
    if percent(rng, 40) {
        let mut rules: Vec<Value> = Vec::new();
        for _ in 0..1 + rng.usize(..2) {
            let rule = spread(rng, app);
            let fields = ["topologyKey", "whenUnsatisfiable"];
            let same = |of: &Value| fields.iter().all(|field| of[*field] == rule[*field]);
            if !rules.iter().any(same) {
                rules.push(rule);
            }
        }
        spec["topologySpreadConstraints"] = json!(rules);
    }
    if percent(rng, 40) {
        spec["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]);
    }
    let mut container = json!({"name": "main", "image": "x",
        "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}});
    if percent(rng, 12) {
        container["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
    }
    if percent(rng, 8) {
        container["restartPolicy"] = json!("Never");
        container["restartPolicyRules"] = json!([{"action": "RestartAllContainers",
            "exitCodes": {"operator": "In", "values": [42]}}]);
    }
    spec["containers"] = json!([container]);
    if namespace == "default" && percent(rng, 35) {
        let claims = [
            "zonal", "twin", "alone", "local", "affine", "counted", "zoned", "chosen",
        ];
        spec["volumes"] = mounts(pick(rng, &claims));
    }
    (0..count)
        .map(|n| pod(&format!("w{at}-{n}"), namespace, app, cpu, &spec))
        .collect()
}

fn mounts(claim: &str) -> Value {
    json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}])
}

fn required(terms: &[Value]) -> Value {
    json!({"requiredDuringSchedulingIgnoredDuringExecution": terms})
}

fn term(rng: &mut Rng) -> Value {
    let app = pick(rng, &APPS);
    let selector = match rng.usize(..5) {
        0 => {
            json!({"matchExpressions": [{"key": "app", "operator": "In", "values": [app, "web"]}]})
        }
        1 => json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
        _ => json!({"matchLabels": {"app": app}}),
    };
    let key = pick(rng, &[ZONE, ZONE, HOST, HOST, RACK, RACK, RACK, OLD_ZONE]);
    let mut term = json!({"topologyKey": key, "labelSelector": selector});
    match rng.usize(..8) {
        0 => term["namespaces"] = json!(["team-a", "default"]),
        1 => {
            term["namespaceSelector"] =
                json!({"matchLabels": {"kubernetes.io/metadata.name": "team-b"}})
        }
        2 => term["namespaceSelector"] = json!({}),
        3 => term["matchLabelKeys"] = json!(["tier"]),
        _ => {}
    }
    term
}

fn spread(rng: &mut Rng, app: &str) -> Value {
    let of = if percent(rng, 85) { app } else { "db" };
    let mut rule = json!({
        "maxSkew": 1 + rng.usize(..2), "topologyKey": pick(rng, &[ZONE, HOST, RACK]),
        "whenUnsatisfiable": pick(rng, &["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": {"matchLabels": {"app": of}},
        "nodeAffinityPolicy": pick(rng, &["Honor", "Honor", "Ignore"]),
        "nodeTaintsPolicy": pick(rng, &["Honor", "Ignore", "Ignore"]),
    });
    if rule["whenUnsatisfiable"] == "DoNotSchedule" && percent(rng, 20) {
        rule["minDomains"] = json!(1 + rng.usize(..3));
    }
    rule
}

/// True in so many of a hundred times.
fn percent(rng: &mut Rng, share: usize) -> bool {
    rng.usize(..100) < share
}

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    rng.choice(from).copied().unwrap_or_default()
}
