//! A next version of a policy decides no NodeClaim of a NodePool that is beyond its step, and none once
//! it was taken back. No node boots with its user data but the one that is written down, before that is
//! ready.

use std::time::Duration;

use longshore_cloud::Launch;
use serde_json::Value;

use crate::harness::interceptor::Interceptor;
use longshore_simcluster::fields;
use longshore_simcluster::object::{Change, Event};
use longshore_simcluster::server::{RequestInfo, resources};

const POOL: &str = "karpenter.sh/nodepool";
const MARK: &str = "longshore.dev/policy-canary";
const BOOTS: &str = "longshore.dev/bootstrap-canary";
const MAP: &str = "longshore-policy-canaries";

/// NodeClaims of a round that was planned before are still created, by a process that was frozen
/// too: a write is carried out within 20 s of its decision.
const DECIDED: Duration = Duration::from_secs(25);

/// A claim was made by a process of the daemon.
pub(super) fn claim(interceptor: &Interceptor, change: &Change, by: Option<&RequestInfo>) {
    if change.event != Event::Added || by.is_none() {
        return;
    }
    let claim = &*change.object;
    let marks = fields::annotation(claim, MARK).unwrap_or_default();
    let pool = fields::label(claim, POOL).unwrap_or_default();
    for mark in marks.split(',').filter(|mark| !mark.is_empty()) {
        if let Some(wrong) = wrong(interceptor, mark, pool) {
            interceptor.violated(format!(
                "a NodeClaim of {pool} was decided by {mark}: {wrong}"
            ));
        }
    }
}

/// An instance is asked for.
pub(in crate::harness) fn launch(interceptor: &Interceptor, launch: &Launch) {
    let Some(mark) = launch.annotations.get(BOOTS) else {
        return;
    };
    let pool = launch.nodepool.as_deref().unwrap_or_default();
    let name = &*launch.name;
    let wrong = wrong(interceptor, mark, pool).or_else(|| {
        let entry = written(interceptor, mark).ok()?;
        let first = &entry["first-node"];
        let may = first == "ready" || first["booting"][0] == name;
        (!may).then(|| format!("the first node is {first}"))
    });
    if let Some(wrong) = wrong {
        interceptor.violated(format!(
            "the node of NodeClaim {name} boots with the user data of {mark}: {wrong}"
        ));
    }
}

/// What is written down of a version.
fn written(interceptor: &Interceptor, mark: &str) -> Result<Value, String> {
    let (policy, version) = mark.split_once('@').ok_or("it is no mark")?;
    let key = fields::key(resources::CONFIG_MAP, "kube-system", MAP);
    let map = interceptor.server.get(&key);
    let map = map.ok_or("nothing is written down of it")?;
    let entry = map
        .pointer(&format!("/data/{policy}"))
        .and_then(Value::as_str);
    let entry: Value = serde_json::from_str(entry.unwrap_or_default()).unwrap_or_default();
    match entry["version"] == version {
        true => Ok(entry),
        false => Err("another version is written down".to_owned()),
    }
}

fn wrong(interceptor: &Interceptor, mark: &str, pool: &str) -> Option<String> {
    let entry = match written(interceptor, mark) {
        Ok(entry) => entry,
        Err(wrong) => return Some(wrong),
    };
    let now = interceptor.clock.now().as_second();
    let since = entry["since"].as_i64().unwrap_or_default();
    if entry["phase"].get("rolled-back").is_some() {
        let is_late = now - since > DECIDED.as_secs() as i64;
        return is_late.then(|| "it was taken back".to_owned());
    }
    let step = entry["step"].as_u64().unwrap_or_default() as usize;
    let order = entry["order"]
        .as_array()
        .into_iter()
        .flatten()
        .take(step + 1);
    let mut names = order.filter_map(Value::as_array).flatten();
    let is_reached = names.any(|name| name == pool || name == "*");
    (!is_reached).then(|| format!("it is at step {}", step + 1))
}
