//! Evictions, and the budgets that they are taken from.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::tests;
use crate::world::{World, plain};

tests![
    an_eviction_without_a_budget_is_a_deletion,
    an_eviction_takes_from_the_budget,
    an_eviction_beyond_the_budget_is_refused,
    an_eviction_insists_on_a_uid,
    a_pending_pod_may_always_leave,
    two_budgets_are_one_too_many,
    a_pod_that_is_not_ready_waits_for_a_healthy_budget,
    a_pod_that_is_not_ready_may_be_let_go_always,
    an_eviction_may_say_how_long_it_takes,
    evicting_a_missing_pod_finds_none,
];

fn eviction(w: &World, pod: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": w.namespace}})
}

/// A running, ready pod on a node without a kubelet.
async fn running(w: &World, name: &str) -> Result<Value> {
    let node = json!({"metadata": {"name": w.named("machine")}});
    let answer = w.post("/api/v1/nodes", &node).await?;
    ensure!(matches!(answer.code, 201 | 409), "{answer:?}");
    let mut pod = w.pod(name, json!({"app": "a"}));
    pod["spec"]["nodeName"] = json!(w.named("machine"));
    pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    w.post(&w.core("pods"), &pod).await?.ok()?;
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    w.patch(&w.core(&format!("pods/{name}/status")), "merge", &ready)
        .await?
        .ok()
}

/// A budget that lets so many go, as its controller has written it or would have.
async fn budget(w: &World, name: &str, needs: i64, has: i64) -> Result<()> {
    let budget = json!({
        "metadata": {"name": name},
        "spec": {"minAvailable": needs, "selector": {"matchLabels": {"app": "a"}}},
    });
    w.post(&w.group("policy/v1", "poddisruptionbudgets"), &budget)
        .await?
        .ok()?;
    let path = w.group("policy/v1", &format!("poddisruptionbudgets/{name}"));
    let allowed = (has - needs).max(0);
    if w.real {
        w.until(&path, |now| {
            let status = &now["status"];
            status["observedGeneration"] == 1
                && status["currentHealthy"] == has
                && status["disruptionsAllowed"] == allowed
        })
        .await?;
        return Ok(());
    }
    let status = json!({"status": {
        "observedGeneration": 1, "currentHealthy": has, "desiredHealthy": needs, "expectedPods": has,
        "disruptionsAllowed": allowed,
        "conditions": [{
            "type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    }});
    w.patch(&format!("{path}/status"), "merge", &status)
        .await?
        .ok()?;
    Ok(())
}

async fn an_eviction_without_a_budget_is_a_deletion(w: &World) -> Result<()> {
    running(w, "p").await?;
    let answer = w
        .post(&w.core("pods/p/eviction"), &eviction(w, "p"))
        .await?;
    ensure!(
        answer.code == 201 && answer.body["status"] == "Success",
        "{answer:?}"
    );
    let now = w.get(&w.core("pods/p")).await?.ok()?;
    ensure!(now["metadata"]["deletionGracePeriodSeconds"] == 30, "{now}");
    Ok(())
}

async fn an_eviction_takes_from_the_budget(w: &World) -> Result<()> {
    running(w, "p").await?;
    running(w, "q").await?;
    budget(w, "b", 1, 2).await?;
    w.post(&w.core("pods/p/eviction"), &eviction(w, "p"))
        .await?
        .ok()?;
    let now = w
        .get(&w.group("policy/v1", "poddisruptionbudgets/b"))
        .await?
        .ok()?;
    ensure!(now["status"]["disruptionsAllowed"] == 0, "{now}");
    w.post(&w.core("pods/q/eviction"), &eviction(w, "q"))
        .await?
        .refused(429, "TooManyRequests")?;
    Ok(())
}

async fn an_eviction_beyond_the_budget_is_refused(w: &World) -> Result<()> {
    running(w, "p").await?;
    budget(w, "b", 1, 1).await?;
    let answer = w
        .post(&w.core("pods/p/eviction"), &eviction(w, "p"))
        .await?;
    let cause = &answer.body["details"]["causes"][0];
    ensure!(cause["reason"] == "DisruptionBudget", "{}", answer.body);
    let why = plain(&cause["message"]);
    ensure!(
        why == "The disruption budget b needs 1 healthy pods and has 1 currently",
        "{why}"
    );
    ensure!(
        answer.body["details"]["retryAfterSeconds"].is_null(),
        "{}",
        answer.body
    );
    let message = answer.refused(429, "TooManyRequests")?;
    ensure!(
        message == "Cannot evict pod as it would violate the pod's disruption budget.",
        "{message}"
    );
    let now = w.get(&w.core("pods/p")).await?.ok()?;
    ensure!(now["metadata"]["deletionTimestamp"].is_null(), "{now}");
    Ok(())
}

async fn an_eviction_insists_on_a_uid(w: &World) -> Result<()> {
    let pod = running(w, "p").await?;
    let with = |uid: &Value| {
        let mut eviction = eviction(w, "p");
        eviction["deleteOptions"] = json!({"preconditions": {"uid": uid}});
        eviction
    };
    let other = json!("11111111-2222-4333-8444-555555555555");
    w.post(&w.core("pods/p/eviction"), &with(&other))
        .await?
        .refused(409, "Conflict")?;
    w.post(&w.core("pods/p/eviction"), &with(&pod["metadata"]["uid"]))
        .await?
        .ok()?;
    Ok(())
}

async fn a_pending_pod_may_always_leave(w: &World) -> Result<()> {
    running(w, "p").await?;
    w.with_pod("q", json!({"app": "a"})).await?;
    budget(w, "b", 2, 1).await?;
    w.post(&w.core("pods/q/eviction"), &eviction(w, "q"))
        .await?
        .ok()?;
    w.post(&w.core("pods/p/eviction"), &eviction(w, "p"))
        .await?
        .refused(429, "TooManyRequests")?;
    Ok(())
}

async fn two_budgets_are_one_too_many(w: &World) -> Result<()> {
    running(w, "p").await?;
    running(w, "q").await?;
    budget(w, "b", 1, 2).await?;
    budget(w, "c", 1, 2).await?;
    let message = w
        .post(&w.core("pods/p/eviction"), &eviction(w, "p"))
        .await?;
    ensure!(message.code == 500, "{message:?}");
    ensure!(
        plain(&message.body["message"]).contains("more than one PodDisruptionBudget"),
        "{message:?}"
    );
    Ok(())
}

async fn unready(w: &World, name: &str) -> Result<()> {
    running(w, name).await?;
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    w.patch(&w.core(&format!("pods/{name}/status")), "merge", &status)
        .await?
        .ok()?;
    Ok(())
}

async fn a_pod_that_is_not_ready_waits_for_a_healthy_budget(w: &World) -> Result<()> {
    unready(w, "p").await?;
    budget(w, "b", 1, 0).await?;
    w.post(&w.core("pods/p/eviction"), &eviction(w, "p"))
        .await?
        .refused(429, "TooManyRequests")?;
    w.delete(
        &w.group("policy/v1", "poddisruptionbudgets/b"),
        &Value::Null,
    )
    .await?
    .ok()?;
    running(w, "q").await?;
    budget(w, "c", 1, 1).await?;
    w.post(&w.core("pods/p/eviction"), &eviction(w, "p"))
        .await?
        .ok()?;
    w.post(&w.core("pods/q/eviction"), &eviction(w, "q"))
        .await?
        .refused(429, "TooManyRequests")?;
    Ok(())
}

async fn a_pod_that_is_not_ready_may_be_let_go_always(w: &World) -> Result<()> {
    unready(w, "p").await?;
    budget(w, "b", 1, 0).await?;
    let patch = json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}});
    w.patch(
        &w.group("policy/v1", "poddisruptionbudgets/b"),
        "merge",
        &patch,
    )
    .await?
    .ok()?;
    w.post(&w.core("pods/p/eviction"), &eviction(w, "p"))
        .await?
        .ok()?;
    Ok(())
}

async fn an_eviction_may_say_how_long_it_takes(w: &World) -> Result<()> {
    running(w, "p").await?;
    let mut wish = eviction(w, "p");
    wish["deleteOptions"] = json!({"gracePeriodSeconds": 7});
    w.post(&w.core("pods/p/eviction"), &wish).await?.ok()?;
    let now = w.get(&w.core("pods/p")).await?.ok()?;
    ensure!(now["metadata"]["deletionGracePeriodSeconds"] == 7, "{now}");
    Ok(())
}

async fn evicting_a_missing_pod_finds_none(w: &World) -> Result<()> {
    w.post(&w.core("pods/p/eviction"), &eviction(w, "p"))
        .await?
        .refused(404, "NotFound")?;
    Ok(())
}
