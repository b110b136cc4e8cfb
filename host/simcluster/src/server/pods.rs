//! Subresources of pods: binding, and eviction if the budget admits it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::api_error::ApiErrorWithDetails;
use super::delete::{self, DeleteOptions};
use super::meta::{self, at, is_leaving, number, text};
use super::resources::{POD, POD_DISRUPTION_BUDGET};
use super::select::Selector;
use super::state::ServerState;
use super::store::Stored;

/// Puts a pod on a node. Whether there is such a node is not asked.
pub fn bind(
    state: &mut ServerState,
    pod: &Arc<Stored>,
    node: &str,
) -> Result<Arc<Stored>, ApiErrorWithDetails> {
    let name = &*pod.key.name;
    let refuse = |why: String| {
        let mut refused = ApiErrorWithDetails::conflict(POD, name, &why);
        refused.error.message =
            format!("Operation cannot be fulfilled on pods/binding \"{name}\": {why}");
        refused.details.insert("kind".into(), json!("pods/binding"));
        Err(refused)
    };
    if is_leaving(&pod.value) {
        return refuse(format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        ));
    }
    let on = text(&pod.value, &["spec", "nodeName"]);
    if !on.is_empty() {
        return refuse(format!("pod {name} is already assigned to node {on:?}"));
    }
    if at(&pod.value, &["spec", "schedulingGates"])
        .and_then(Value::as_array)
        .is_some_and(|gates| !gates.is_empty())
    {
        return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let mut new = (*pod.value).clone();
    meta::part(&mut new, "spec").insert("nodeName".into(), json!(node));
    let now = meta::time(state.clock.now());
    let status = meta::part(&mut new, "status");
    status.remove("nominatedNodeName");
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let scheduled = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
    });
    if let Some(conditions) = conditions.as_array_mut() {
        conditions.retain(|condition| condition["type"] != "PodScheduled");
        conditions.push(scheduled);
    }
    meta::drop_nulls(&mut new);
    let at = state.clock.elapsed();
    Ok(state.store.put(&pod.key, new, at))
}

/// Asks a pod to leave, as far as the budgets that it counts for allow.
pub fn evict(
    state: &mut ServerState,
    pod: &Arc<Stored>,
    options: &DeleteOptions,
) -> Result<(), ApiErrorWithDetails> {
    let phase = text(&pod.value, &["status", "phase"]);
    if !matches!(phase, "Succeeded" | "Failed" | "Pending") && !is_leaving(&pod.value) {
        ask_budgets(state, pod, options)?;
    }
    // A budget that was used up for a pod with another UID stays so, as it does on a real server.
    delete::delete(state, pod, options).map(drop)
}

fn ask_budgets(
    state: &mut ServerState,
    pod: &Arc<Stored>,
    options: &DeleteOptions,
) -> Result<(), ApiErrorWithDetails> {
    let labels = pod.value["metadata"]["labels"].as_object();
    let counts = |budget: &&Arc<Stored>| {
        at(&budget.value, &["spec", "selector"])
            .is_some_and(|selector| Selector::of(selector).takes_labels(labels))
    };
    let budgets: Vec<Arc<Stored>> = state
        .store
        .within(POD_DISRUPTION_BUDGET, &pod.key.namespace)
        .filter(counts)
        .cloned()
        .collect();
    let budget = match &budgets[..] {
        [] => return Ok(()),
        [budget] => budget,
        _ => {
            let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(ApiErrorWithDetails::plain(500, "InternalError", message));
        }
    };
    if !is_ready(&pod.value) {
        let healthy = |field: &str| number(&budget.value, &["status", field]).unwrap_or(0);
        let (has, needs) = (healthy("currentHealthy"), healthy("desiredHealthy"));
        let whatever =
            text(&budget.value, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
        if whatever || (has >= needs && needs > 0) {
            return Ok(());
        }
    }
    take(state, pod, budget, options)
}

fn is_ready(pod: &Value) -> bool {
    let conditions = at(pod, &["status", "conditions"]).and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// Takes one disruption from a budget, if there is one.
fn take(
    state: &mut ServerState,
    pod: &Stored,
    budget: &Arc<Stored>,
    options: &DeleteOptions,
) -> Result<(), ApiErrorWithDetails> {
    let name = &*budget.key.name;
    let status = |field: &str| number(&budget.value, &["status", field]).unwrap_or(0);
    if status("observedGeneration")
        < number(&budget.value, &["metadata", "generation"]).unwrap_or(0)
    {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(too_many(&why, Some(10)));
    }
    let allowed = status("disruptionsAllowed");
    if allowed < 0 {
        return Err(ApiErrorWithDetails::forbidden(
            POD_DISRUPTION_BUDGET,
            name,
            "pdb disruptions allowed is negative",
        ));
    }
    if allowed == 0 {
        let (needs, has) = (status("desiredHealthy"), status("currentHealthy"));
        let why = format!(
            "The disruption budget {name} needs {needs} healthy pods and has {has} currently"
        );
        return Err(too_many(&why, None));
    }
    if options.dry_run {
        return Ok(());
    }
    let mut new = (*budget.value).clone();
    let now = meta::time(state.clock.now());
    let status = meta::part(&mut new, "status");
    status.insert("disruptionsAllowed".into(), json!(allowed - 1));
    meta::fields(status.entry("disruptedPods").or_insert_with(|| json!({})))
        .insert(pod.key.name.to_string(), now.clone());
    if allowed == 1
        && let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut)
    {
        for condition in conditions
            .iter_mut()
            .filter(|c| c["type"] == "DisruptionAllowed" && c["status"] != "False")
        {
            condition["status"] = json!("False");
            condition["reason"] = json!("InsufficientPods");
            condition["lastTransitionTime"] = now.clone();
        }
    }
    let at = state.clock.elapsed();
    state.store.put(&budget.key, new, at);
    Ok(())
}

fn too_many(why: &str, retry_after: Option<u32>) -> ApiErrorWithDetails {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut refused = ApiErrorWithDetails::plain(429, "TooManyRequests", message);
    if let Some(seconds) = retry_after {
        refused
            .details
            .insert("retryAfterSeconds".into(), json!(seconds));
    }
    refused.because(json!([{"reason": "DisruptionBudget", "message": why}]))
}
