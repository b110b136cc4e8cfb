//! Pods, pending and running.

use serde_json::{Value, json};

use super::random::push;
use super::rules::{self, ARCH, CAPACITY, HOST, NOW, OS, TEAM, ZONE};
use super::{Making, Theme, pools, volumes};

const APPS: [&str; 3] = ["api", "job", "web"];

/// Two to twelve pending pods, and the namespaces and storage classes that they speak of.
pub fn make(making: &mut Making) {
    making.items.push(
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"env": "prod"}}}),
    );
    making.items.push(
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other", "labels": {"env": "test"}}}),
    );
    if making.about(Theme::Volumes) {
        volumes::classes(making);
    }
    for at in 0..making.random.between(2, 12) {
        let pod = pending(making, at);
        making.items.push(pod);
    }
}

/// A pod on a node, with what others may look at: labels, anti-affinity, ports.
pub fn running(making: &mut Making, name: &str, node: &str, cpu: usize) -> Value {
    let mut pod = plain(making, name, cpu, 128);
    if making.about(Theme::Neighbours) && making.random.chance(40) {
        let term = neighbour_term(making, &pod);
        push(
            &mut pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"],
            term,
        );
    }
    if making.about(Theme::Ports) && making.random.chance(60) {
        port(making, &mut pod);
    }
    pod["spec"]["nodeName"] = json!(node);
    pod["status"] = json!({"phase": "Running", "startTime": NOW, "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": NOW}]});
    if making.random.chance(8) {
        pod["status"] = json!({"phase": *making.random.pick(&["Succeeded", "Failed"])});
    }
    pod
}

fn pending(making: &mut Making, at: usize) -> Value {
    let cpu = *making
        .random
        .pick(&[100, 250, 500, 900, 1000, 1500, 1900, 3000, 7000]);
    let memory = *making.random.pick(&[128, 256, 1024, 2048, 6000]);
    let mut pod = plain(making, &format!("p{at}"), cpu, memory);
    for theme in making.themes.clone() {
        apply(making, &mut pod, theme, at);
    }
    // Something ordinary beside it now and then.
    if making.random.chance(8) {
        let key = *making.random.pick(&[ZONE, CAPACITY, ARCH, OS]);
        let values = rules::values(making, key);
        pod["spec"]["nodeSelector"][key] = json!(making.random.pick(&values));
    }
    if making.random.chance(15) {
        let toleration = pools::toleration(making);
        push(&mut pod["spec"]["tolerations"], toleration);
    }
    pod
}

/// A pod as it waits, unschedulable, with nothing but requests.
fn plain(making: &mut Making, name: &str, cpu: usize, memory: usize) -> Value {
    let app = *making.random.pick(&APPS);
    let namespace = if making.about(Theme::Neighbours) && making.random.chance(30) {
        "other"
    } else {
        "default"
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace, "uid": format!("u-{name}"), "creationTimestamp": NOW,
            "labels": {"app": app, "pod-template-hash": making.random.pick(&["h1", "h2"])},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": format!("rs-{app}"), "controller": true}],
        },
        "spec": {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")}}}]},
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": NOW}]},
    })
}

fn apply(making: &mut Making, pod: &mut Value, theme: Theme, at: usize) {
    match theme {
        Theme::Resources => resources(making, pod),
        Theme::Selector => {
            for _ in 0..making.random.below(3) {
                let key = *making.random.pick(&[
                    ZONE,
                    CAPACITY,
                    ARCH,
                    OS,
                    rules::TYPE,
                    TEAM,
                    TEAM,
                    rules::RANK,
                    rules::POOL,
                    rules::FAMILY,
                    HOST,
                ]);
                let values = rules::values(making, key);
                pod["spec"]["nodeSelector"][key] = json!(making.random.pick(&values));
            }
        }
        Theme::Affinity if making.random.chance(80) => {
            let terms: Vec<Value> = (0..making.random.between(1, 3))
                .map(|_| term(making))
                .collect();
            pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!({"nodeSelectorTerms": terms});
        }
        Theme::Preferred if making.random.chance(80) => {
            for _ in 0..making.random.between(1, 3) {
                let preference =
                    json!({"weight": making.random.between(1, 100), "preference": term(making)});
                push(
                    &mut pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"],
                    preference,
                );
            }
        }
        Theme::Taints => {
            for _ in 0..making.random.below(4) {
                let toleration = pools::toleration(making);
                push(&mut pod["spec"]["tolerations"], toleration);
            }
        }
        Theme::Spread if making.random.chance(80) => {
            for _ in 0..making.random.between(1, 2) {
                let constraint = spread(making, pod);
                push(&mut pod["spec"]["topologySpreadConstraints"], constraint);
            }
        }
        Theme::Neighbours if making.random.chance(65) => neighbours(making, pod),
        Theme::Ports if making.random.chance(75) => port(making, pod),
        Theme::Volumes if making.random.chance(75) => {
            for number in 0..making.random.between(1, 2) {
                volumes::mount(making, pod, number);
            }
        }
        Theme::Uncounted if making.random.chance(50) => uncounted(making, pod),
        Theme::Limits if at.is_multiple_of(2) && making.random.chance(40) => {
            pod["spec"]["nodeSelector"][rules::POOL] = json!(making.random.pick(&making.pools));
        }
        _ => {}
    }
}

fn term(making: &mut Making) -> Value {
    let expressions: Vec<Value> = (0..making.random.between(1, 2))
        .map(|_| rules::pod_requirement(making))
        .collect();
    json!({"matchExpressions": expressions})
}

fn resources(making: &mut Making, pod: &mut Value) {
    let random = &mut making.random;
    for _ in 0..random.between(1, 2) {
        let amount = json!({"cpu": format!("{}m", random.pick(&[50, 400, 1000, 2000])), "memory": format!("{}Mi", random.pick(&[64, 900, 3000]))});
        match random.below(8) {
            0 => push(
                &mut pod["spec"]["initContainers"],
                json!({"name": "init", "image": "init", "resources": {"requests": amount}}),
            ),
            1 => push(
                &mut pod["spec"]["initContainers"],
                json!({"name": "side", "image": "side", "restartPolicy": "Always", "resources": {"requests": amount}}),
            ),
            2 => pod["spec"]["overhead"] = amount,
            3 => pod["spec"]["resources"] = json!({"requests": amount}),
            4 => {
                pod["spec"]["containers"][0]["resources"] =
                    json!({"limits": amount, "requests": amount})
            }
            5 => {
                let gpus = random.between(1, 2).to_string();
                pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = json!(gpus);
                pod["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] =
                    json!(gpus);
            }
            6 => push(
                &mut pod["spec"]["containers"],
                json!({"name": "second", "image": "app", "resources": {"requests": amount}}),
            ),
            _ => {
                let storage = *random.pick(&["1Gi", "12Gi", "25Gi"]);
                pod["spec"]["containers"][0]["resources"]["requests"]["ephemeral-storage"] =
                    json!(storage);
            }
        }
    }
}

fn selector(making: &mut Making, pod: &Value) -> Value {
    match making.random.below(8) {
        0 => {
            json!({"matchExpressions": [{"key": "app", "operator": "In", "values": making.random.some(&APPS, 2)}]})
        }
        1 => {
            json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [making.random.pick(&APPS)]}]})
        }
        2 => json!({"matchLabels": {"app": making.random.pick(&APPS)}}),
        3 => json!({}),
        _ => json!({"matchLabels": {"app": pod["metadata"]["labels"]["app"]}}),
    }
}

fn spread(making: &mut Making, pod: &Value) -> Value {
    let key = *making
        .random
        .pick(&[ZONE, ZONE, HOST, HOST, CAPACITY, TEAM, ARCH]);
    let when = if making.random.chance(70) {
        "DoNotSchedule"
    } else {
        "ScheduleAnyway"
    };
    let selector = selector(making, pod);
    let random = &mut making.random;
    let mut made = json!({"maxSkew": random.pick(&[1, 1, 2, 3]), "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector});
    if when == "DoNotSchedule" && random.chance(20) {
        made["minDomains"] = json!(random.between(1, 4));
    }
    if random.chance(20) {
        made["matchLabelKeys"] = json!(["pod-template-hash"]);
    }
    if random.chance(20) {
        made["nodeAffinityPolicy"] = json!(random.pick(&["Ignore", "Honor"]));
    }
    if random.chance(20) {
        made["nodeTaintsPolicy"] = json!(random.pick(&["Ignore", "Honor"]));
    }
    made
}

fn neighbours(making: &mut Making, pod: &mut Value) {
    for _ in 0..making.random.between(1, 2) {
        let kind = *making
            .random
            .pick(&["podAffinity", "podAntiAffinity", "podAntiAffinity"]);
        let term = neighbour_term(making, pod);
        let list = &mut pod["spec"]["affinity"][kind];
        if making.random.chance(75) {
            push(
                &mut list["requiredDuringSchedulingIgnoredDuringExecution"],
                term,
            );
        } else {
            let preferred =
                json!({"weight": making.random.between(1, 100), "podAffinityTerm": term});
            push(
                &mut list["preferredDuringSchedulingIgnoredDuringExecution"],
                preferred,
            );
        }
    }
}

fn neighbour_term(making: &mut Making, pod: &Value) -> Value {
    let selector = selector(making, pod);
    let mut term = json!({"topologyKey": making.random.pick(&[HOST, HOST, ZONE, ZONE, CAPACITY]), "labelSelector": selector});
    match making.random.below(7) {
        0 => term["namespaces"] = json!(["other"]),
        1 => term["namespaces"] = json!(["default", "other"]),
        2 => term["namespaceSelector"] = json!({}),
        3 => {
            term["namespaceSelector"] =
                json!({"matchLabels": {"env": making.random.pick(&["prod", "test"])}})
        }
        _ => {}
    }
    term
}

fn port(making: &mut Making, pod: &mut Value) {
    let random = &mut making.random;
    let number = *random.pick(&[8080, 8080, 9090, 53]);
    let mut port = json!({"containerPort": number, "hostPort": number, "protocol": "TCP"});
    if random.chance(30) {
        port["protocol"] = json!(random.pick(&["UDP", "TCP"]));
    }
    if random.chance(40) {
        port["hostIP"] = json!(random.pick(&["0.0.0.0", "10.0.0.1", "10.0.0.2", "127.0.0.1"]));
    }
    push(&mut pod["spec"]["containers"][0]["ports"], port);
}

fn uncounted(making: &mut Making, pod: &mut Value) {
    match making.random.below(10) {
        0 => pod["status"] = json!({"phase": "Pending"}),
        1 => pod["status"]["conditions"][0]["reason"] = json!("SchedulingGated"),
        2 => {
            pod["metadata"]["ownerReferences"][0] = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "ds-d", "controller": true})
        }
        3 => {
            pod["metadata"]["ownerReferences"][0] = json!({"apiVersion": "v1", "kind": "Node", "name": "node-0", "uid": "n-0", "controller": true})
        }
        4 => pod["status"]["nominatedNodeName"] = json!("node-0"),
        5 => pod["status"]["phase"] = json!(*making.random.pick(&["Succeeded", "Failed"])),
        6 => {
            pod["metadata"]["deletionTimestamp"] = json!(NOW);
            pod["metadata"]["finalizers"] = json!(["example.com/keep"]);
        }
        7 => pod["spec"]["schedulerName"] = json!("other-scheduler"),
        8 => pod["spec"]["schedulingGates"] = json!([{"name": "wait"}]),
        _ => pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = json!("true"),
    }
}
