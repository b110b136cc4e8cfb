//! Labels and requirements on them, shared by pods and NodePools.

use serde_json::{Value, json};

use super::Making;

pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const HOST: &str = "kubernetes.io/hostname";
pub const CAPACITY: &str = "karpenter.sh/capacity-type";
pub const ARCH: &str = "kubernetes.io/arch";
pub const OS: &str = "kubernetes.io/os";
pub const TYPE: &str = "node.kubernetes.io/instance-type";
pub const POOL: &str = "karpenter.sh/nodepool";
pub const CPUS: &str = "karpenter.kwok.sh/instance-cpu";
pub const FAMILY: &str = "karpenter.kwok.sh/instance-family";
pub const SIZE: &str = "karpenter.kwok.sh/instance-size";
/// A label of ours with names, and one with numbers.
pub const TEAM: &str = "example.com/team";
pub const RANK: &str = "example.com/rank";

pub const TEAMS: [&str; 3] = ["blue", "green", "red"];
pub const NOW: &str = "2026-11-01T00:00:00Z";

/// Values that a label has somewhere in the cluster, and now and then one that it has nowhere.
pub fn values(making: &mut Making, key: &str) -> Vec<String> {
    let of = |field: fn(&str) -> String| {
        making
            .types
            .iter()
            .map(|t| field(t["name"].as_str().unwrap_or("")))
            .collect()
    };
    let mut all: Vec<String> = match key {
        ZONE => making.zones.iter().map(|zone| zone.to_string()).collect(),
        CAPACITY => vec!["spot".into(), "on-demand".into()],
        ARCH => vec!["amd64".into(), "arm64".into()],
        OS => vec!["linux".into(), "windows".into()],
        TYPE => of(str::to_owned),
        FAMILY => of(|name| name.split(['.', '-']).next().unwrap_or("").to_owned()),
        SIZE => vec!["large".into(), "xlarge".into(), "2".into(), "8".into()],
        CPUS => making
            .types
            .iter()
            .map(|t| t["resources"]["cpu"].as_str().unwrap_or("").to_owned())
            .collect(),
        POOL => making.pools.clone(),
        HOST => vec!["node-0".into(), "node-1".into()],
        RANK => (1..=4).map(|rank| (rank * 2).to_string()).collect(),
        _ => TEAMS.iter().map(|team| team.to_string()).collect(),
    };
    all.sort();
    all.dedup();
    if making.random.chance(6) && ![CAPACITY, OS, ARCH].contains(&key) {
        all.push("nowhere".into());
    }
    all
}

/// A requirement on `key` with one of `operators`.
pub fn requirement(making: &mut Making, key: &str, operators: &[&str]) -> Value {
    let values = values(making, key);
    let random = &mut making.random;
    let numbers = key == CPUS || key == RANK;
    let usable: Vec<&str> = operators
        .iter()
        .copied()
        .filter(|op| numbers || !["Gt", "Lt", "Gte", "Lte"].contains(op))
        .collect();
    let operator = *random.pick(&usable);
    match operator {
        "Exists" | "DoesNotExist" => json!({"key": key, "operator": operator}),
        "In" | "NotIn" => {
            json!({"key": key, "operator": operator, "values": random.some(&values, 2)})
        }
        _ => {
            json!({"key": key, "operator": operator, "values": [random.pick(&["1", "2", "3", "4", "7", "8"])]})
        }
    }
}

pub const FOR_PODS: [&str; 8] = [
    "In",
    "In",
    "NotIn",
    "Exists",
    "DoesNotExist",
    "Gt",
    "Lt",
    "In",
];
pub const FOR_POOLS: [&str; 9] = [
    "In",
    "In",
    "NotIn",
    "Exists",
    "DoesNotExist",
    "Gt",
    "Lt",
    "Gte",
    "Lte",
];
pub const PLAIN: [&str; 2] = ["In", "NotIn"];

/// A key to require, and the operators that make sense on it for pods.
pub fn pod_requirement(making: &mut Making) -> Value {
    let key = *making.random.pick(&[
        ZONE, ZONE, CAPACITY, ARCH, OS, TYPE, POOL, CPUS, CPUS, FAMILY, SIZE, TEAM, TEAM, RANK,
    ]);
    requirement(making, key, &FOR_PODS)
}
