//! NodePools, their node class and DaemonSets.

use serde_json::{Value, json};

use super::random::push;
use super::rules::{
    self, ARCH, CAPACITY, CPUS, FAMILY, FOR_POOLS, OS, PLAIN, RANK, SIZE, TEAM, TEAMS, TYPE, ZONE,
    requirement,
};
use super::{Making, Theme};

/// One to three NodePools.
pub fn make(making: &mut Making) {
    making.items.push(
        json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}, "spec": {}}),
    );
    let count = making.random.between(1, 3);
    making.pools = ["alpha", "beta", "gamma"][..count]
        .iter()
        .map(|name| name.to_string())
        .collect();
    for at in 0..count {
        let pool = pool(making, at);
        making.items.push(pool);
    }
    let daemons = if making.about(Theme::Daemons) {
        making.random.between(1, 3)
    } else {
        making.random.below(5) / 4
    };
    for at in 0..daemons {
        let daemon = daemon_set(making, at);
        making.items.push(daemon);
    }
}

fn pool(making: &mut Making, at: usize) -> Value {
    let name = making.pools[at].clone();
    let mut spec = json!({
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "expireAfter": "Never",
    });
    let mut labels = json!({});
    let capacity = if making.random.chance(70) {
        vec!["on-demand", "spot"]
    } else {
        vec!["on-demand"]
    };
    push(
        &mut spec["requirements"],
        json!({"key": CAPACITY, "operator": "In", "values": capacity}),
    );
    if making.random.chance(75) {
        push(
            &mut spec["requirements"],
            json!({"key": OS, "operator": "In", "values": ["linux"]}),
        );
    }
    let labelled = making.about(Theme::Selector)
        || making.about(Theme::Affinity)
        || making.about(Theme::Preferred);
    if making.random.chance(if labelled { 60 } else { 20 }) {
        labels[TEAM] = json!(making.random.pick(&TEAMS));
    } else if making
        .random
        .chance(if labelled || making.about(Theme::Spread) {
            60
        } else {
            10
        })
    {
        let operators = if making.random.chance(70) {
            vec!["In"]
        } else {
            FOR_POOLS.to_vec()
        };
        let team = requirement(making, TEAM, &operators);
        push(&mut spec["requirements"], team);
    }
    if labelled && making.random.chance(40) {
        labels[RANK] = json!(making.random.between(1, 9).to_string());
    }
    if making.about(Theme::PoolRequirements) {
        for _ in 0..making.random.between(1, 3) {
            let key = *making.random.pick(&[
                ZONE, ARCH, TYPE, CPUS, CPUS, CPUS, FAMILY, SIZE, TEAM, RANK, OS,
            ]);
            let more = requirement(making, key, &FOR_POOLS);
            push(&mut spec["requirements"], more);
        }
    } else if making.random.chance(25) {
        let key = *making.random.pick(&[ZONE, ARCH, TYPE, FAMILY]);
        let more = requirement(making, key, &PLAIN);
        push(&mut spec["requirements"], more);
    }
    if making.about(Theme::MinValues) {
        for key in making
            .random
            .some(&[TYPE, FAMILY, CPUS, ZONE, CAPACITY, ARCH], 2)
        {
            let least = making.random.between(1, 4);
            push(
                &mut spec["requirements"],
                json!({"key": key, "operator": "Exists", "minValues": least}),
            );
        }
    }
    if making.about(Theme::Taints) || making.random.chance(8) {
        for (field, likely) in [("taints", 70), ("startupTaints", 25)] {
            if making.random.chance(likely) {
                for _ in 0..making.random.between(1, 2) {
                    let taint = taint(making, field);
                    if !has_taint(&spec, &taint) {
                        push(&mut spec[field], taint);
                    }
                }
            }
        }
    }
    let mut pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name, "uid": format!("np-{name}")},
        "spec": {
            "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    });
    let random = &mut making.random;
    if making.themes.contains(&Theme::Limits) {
        if random.chance(60) {
            pool["spec"]["weight"] = json!(random.pick(&[1, 5, 10, 50]));
        }
        for (resource, amounts, likely) in [
            ("cpu", ["0", "2", "4", "9", "20"], 60),
            ("memory", ["4Gi", "8Gi", "20Gi", "40Gi", "64Gi"], 25),
            ("nodes", ["0", "1", "1", "2", "3"], 40),
        ] {
            if random.chance(likely) {
                pool["spec"]["limits"][resource] = json!(random.pick(&amounts));
            }
        }
    } else if random.chance(20) {
        pool["spec"]["weight"] = json!(random.between(1, 100));
    }
    pool
}

/// Whether a template has a taint of the same key and effect, which may be there once.
fn has_taint(spec: &Value, taint: &Value) -> bool {
    let all = ["taints", "startupTaints"]
        .into_iter()
        .flat_map(|field| spec[field].as_array().into_iter().flatten());
    all.into_iter()
        .any(|other| other["key"] == taint["key"] && other["effect"] == taint["effect"])
}

fn taint(making: &mut Making, field: &str) -> Value {
    let random = &mut making.random;
    let key = *random.pick(&["dedicated", "gpu", "example.com/boot"]);
    let effect = match field {
        "taints" => *random.pick(&["NoSchedule", "NoExecute", "PreferNoSchedule"]),
        _ => "NoSchedule",
    };
    match random.chance(60) {
        true => json!({"key": key, "value": random.pick(&["a", "b"]), "effect": effect}),
        false => json!({"key": key, "effect": effect}),
    }
}

/// A toleration of some taint that NodePools may have.
pub fn toleration(making: &mut Making) -> Value {
    let random = &mut making.random;
    let key = *random.pick(&["dedicated", "dedicated", "gpu", "example.com/boot"]);
    let effect = *random.pick(&["NoSchedule", "NoExecute", "", "", "PreferNoSchedule"]);
    let mut toleration = match random.below(6) {
        0 => return json!({"operator": "Exists"}),
        1 | 2 => json!({"key": key, "operator": "Exists"}),
        3 => json!({"key": key}),
        _ => json!({"key": key, "operator": "Equal", "value": random.pick(&["a", "b"])}),
    };
    if !effect.is_empty() {
        toleration["effect"] = json!(effect);
    }
    toleration
}

fn daemon_set(making: &mut Making, at: usize) -> Value {
    let name = format!("daemon-{at}");
    let cpu = *making.random.pick(&[50, 100, 300, 900]);
    let amount = if making.random.chance(85) {
        "requests"
    } else {
        "limits"
    };
    let mut spec = json!({"containers": [{"name": "main", "image": "daemon", "resources": {amount: {"cpu": format!("{cpu}m"), "memory": "128Mi"}}}]});
    match making.random.below(5) {
        0 => {}
        1 => {
            let key = *making.random.pick(&[ARCH, OS, ZONE, TEAM, CAPACITY]);
            let values = rules::values(making, key);
            spec["nodeSelector"][key] = json!(making.random.pick(&values));
        }
        2 => {
            let terms: Vec<Value> = (0..making.random.between(1, 2))
                .map(|_| json!({"matchExpressions": [rules::pod_requirement(making)]}))
                .collect();
            spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!({"nodeSelectorTerms": terms});
        }
        3 => {
            let toleration = toleration(making);
            push(&mut spec["tolerations"], toleration);
        }
        _ => push(&mut spec["tolerations"], json!({"operator": "Exists"})),
    }
    if making.about(Theme::Ports) && making.random.chance(60) {
        let port = *making.random.pick(&[8080, 9090, 53]);
        spec["containers"][0]["ports"] =
            json!([{"containerPort": port, "hostPort": port, "protocol": "TCP"}]);
    }
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default", "uid": format!("ds-{name}"), "creationTimestamp": rules::NOW},
        "spec": {"selector": {"matchLabels": {"daemon": name}}, "template": {"metadata": {"labels": {"daemon": name}}, "spec": spec}},
    })
}
