//! `[[nodepool]]`.

use std::time::Duration;

use longshore_api::labels::{self, kwok};
use longshore_live::config::reader::{Table, duration};
use serde_json::{Map, Value};

use super::known::ScenarioBasics;
use super::values::check_word;
use crate::scenario::objects::{Pool, node_class};

/// NodePools as objects, with their class.
pub fn pools(root: &mut Table, known: &ScenarioBasics) -> Vec<Value> {
    let mut pools: Vec<Pool> = Vec::new();
    for mut table in root.tables("nodepool") {
        let pool = pool(&mut table, known);
        if pools.iter().any(|other| other.name == pool.name) {
            let message = format!("NodePool `{}` is there twice", pool.name);
            table.fault_at("name", message, "give each a name of its own".into());
        }
        pools.push(pool);
        table.finish();
    }
    let class = (!pools.is_empty()).then(|| node_class(known.on_ec2));
    class
        .into_iter()
        .chain(pools.iter().map(Pool::object))
        .collect()
}

fn pool(table: &mut Table, known: &ScenarioBasics) -> Pool {
    const CAPACITY: [&str; 3] = ["spot", "on-demand", "reserved"];
    const ARCH: [&str; 2] = ["amd64", "arm64"];
    let name = table.required_text("name").unwrap_or_default().to_owned();
    let (minute, year) = (Duration::from_secs(60), Duration::from_secs(366 * 86_400));
    let zones: Vec<&str> = known.offerings.zones.iter().map(String::as_str).collect();
    let types: Vec<&str> = known.offerings.types.iter().map(String::as_str).collect();
    let families: Vec<&str> = known
        .offerings
        .families
        .iter()
        .map(String::as_str)
        .collect();
    let sizes: Vec<&str> = known.offerings.sizes.iter().map(String::as_str).collect();
    let (family, size) = match known.on_ec2 {
        true => (
            "karpenter.k8s.aws/instance-family",
            "karpenter.k8s.aws/instance-size",
        ),
        false => (kwok::FAMILY, kwok::SIZE),
    };
    let mut requirements = Vec::new();
    let keys: [(&str, &str, &str, Option<&[&str]>); 6] = [
        (
            "capacity-types",
            labels::CAPACITY_TYPE,
            "capacity type",
            Some(&CAPACITY),
        ),
        ("zones", labels::ZONE, "zone", Some(&zones)),
        (
            "instance-types",
            labels::INSTANCE_TYPE,
            "instance type",
            Some(&types),
        ),
        ("instance-families", family, "family", Some(&families)),
        ("instance-sizes", size, "size", Some(&sizes)),
        ("arch", labels::ARCH, "architecture", Some(&ARCH)),
    ];
    for (key, label, what, among) in keys {
        let Some(values) = table.texts(key) else {
            continue;
        };
        if let Some(among) = among {
            for value in &values {
                check_word(table, key, value, among, what);
            }
        }
        if values.is_empty() {
            let hint = "leave the line out for any".into();
            table.fault_at(
                key,
                format!("`{key}` is empty: nothing could be bought"),
                hint,
            );
        }
        requirements.push((label.to_owned(), values));
    }
    Pool {
        name,
        on_ec2: known.on_ec2,
        weight: table
            .number("weight", 1.0..=100.0, "the largest is asked first")
            .map(|weight| weight as u64),
        limits: pairs(table, "limits"),
        expires: table.duration("expire-after", minute..=year),
        grace: table.duration("grace", Duration::from_secs(1)..=year),
        requirements,
        labels: pairs(table, "labels"),
        taints: taints(table),
        consolidation: consolidation(table),
        consolidate_after: consolidate_after(table),
        budgets: budgets(table),
        move_cost: table.text("move-cost").map(str::to_owned),
    }
}

fn consolidation(table: &mut Table) -> Option<String> {
    const POLICIES: [&str; 3] = ["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"];
    let typed = table.text("consolidation")?.to_owned();
    check_word(table, "consolidation", &typed, &POLICIES, "policy").then_some(typed)
}

/// A time, or `Never`.
fn consolidate_after(table: &mut Table) -> Option<String> {
    const KEY: &str = "consolidate-after";
    let typed = table.text(KEY)?.to_owned();
    if typed == "Never" || duration(&typed).is_some() {
        return Some(typed);
    }
    let message = format!("`{KEY}` is `{typed}`: expected a time or `Never`");
    table.fault_at(KEY, message, "write it as `30s`, `10m` or `Never`".into());
    None
}

/// Budgets as a NodePool has them. The simulated API server checks their values as a real one does.
fn budgets(table: &mut Table) -> Vec<Value> {
    let mut budgets = Vec::new();
    for mut budget in table.tables("budgets") {
        let mut object = Map::new();
        if let Some(nodes) = budget.required_text("nodes") {
            object.insert("nodes".into(), nodes.into());
        }
        for key in ["schedule", "duration"] {
            if let Some(typed) = budget.text(key) {
                object.insert(key.into(), typed.into());
            }
        }
        if let Some(reasons) = budget.texts("reasons") {
            object.insert("reasons".into(), reasons.into());
        }
        budget.finish();
        budgets.push(object.into());
    }
    budgets
}

/// Strings or numbers of a table, by key.
fn pairs(table: &mut Table, key: &str) -> Vec<(String, String)> {
    let Some(pairs) = table.table(key).map(Table::into_json) else {
        return Vec::new();
    };
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    pairs
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), text(value)))
        .collect()
}

/// `KEY=VALUE:EFFECT`, as `kubectl taint` has it.
fn taints(table: &mut Table) -> Vec<(String, String, String)> {
    let mut taints = Vec::new();
    for typed in table.texts("taints").unwrap_or_default() {
        let parsed = typed
            .rsplit_once(':')
            .filter(|(_, effect)| ["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(effect));
        match parsed {
            Some((taint, effect)) => {
                let (key, value) = taint.split_once('=').unwrap_or((taint, ""));
                taints.push((key.to_owned(), value.to_owned(), effect.to_owned()));
            }
            None => {
                let message = format!(
                    "taint `{typed}`: expected `key=value:NoSchedule`, `:PreferNoSchedule` or `:NoExecute`"
                );
                table.fault_at("taints", message, "as in `kubectl taint`".into());
            }
        }
    }
    taints
}
