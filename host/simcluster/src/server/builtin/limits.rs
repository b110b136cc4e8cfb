//! LimitRanges: their defaults, and what pods get from them. Pods outside their bounds are not
//! refused.

use serde_json::{Map, Value, json};

use crate::server::meta::{self, part};
use crate::server::resources::LIMIT_RANGE;
use crate::server::state::ServerState;

/// Fills in the defaults of entries for containers: of limits the maximum, of requests the default
/// of limits, else the minimum.
pub fn complete(range: &mut Value) {
    for entry in part(range, "spec")
        .get_mut("limits")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if entry["type"] != "Container" {
            continue;
        }
        for (into, from) in [
            ("default", "max"),
            ("defaultRequest", "default"),
            ("defaultRequest", "min"),
        ] {
            let from = entry.get(from).cloned().unwrap_or_default();
            fill(meta::fields(entry), into, &from);
        }
    }
}

/// Gives every container of a new pod what the LimitRanges of its namespace say, in the order of
/// their names.
pub fn apply(state: &ServerState, namespace: &str, spec: &mut Map<String, Value>) {
    for range in state.store.within(LIMIT_RANGE, namespace) {
        let entries = range
            .value
            .pointer("/spec/limits")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let of_containers: Vec<&Value> = entries
            .filter(|entry| entry["type"] == "Container")
            .collect();
        for container in meta::containers(spec) {
            let resources = meta::fields(container)
                .entry("resources")
                .or_insert_with(|| json!({}));
            // Of several entries the last counts.
            for entry in of_containers.iter().rev() {
                let resources = meta::fields(resources);
                fill(resources, "requests", &entry["defaultRequest"]);
                fill(resources, "limits", &entry["default"]);
            }
        }
    }
}

/// Adds amounts to a list of them that it does not have yet.
fn fill(to: &mut Map<String, Value>, list: &str, amounts: &Value) {
    let Some(amounts) = amounts.as_object().filter(|amounts| !amounts.is_empty()) else {
        return;
    };
    let there = meta::fields(to.entry(list).or_insert_with(|| json!({})));
    for (resource, amount) in amounts {
        there
            .entry(resource.clone())
            .or_insert_with(|| amount.clone());
    }
}
