//! Custom objects: what their definitions make of them.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::tests;
use crate::world::{World, plain, version};

tests![
    unknown_fields_are_dropped,
    defaults_are_filled_in,
    a_status_has_a_default_too,
    what_is_missing_is_refused,
    a_wrong_type_is_refused,
    a_value_beyond_the_limits_is_refused,
    a_value_that_is_none_of_those_known_is_refused,
    a_text_against_its_pattern_is_refused,
    a_rule_is_obeyed,
    a_rule_about_change_is_obeyed,
    a_spec_that_cannot_change_does_not,
    a_status_is_no_part_of_a_write,
    a_write_of_the_status_leaves_the_rest,
    a_status_is_checked,
    two_conditions_of_one_type_are_refused,
    a_generation_counts_what_is_asked_for,
    a_custom_object_cannot_be_replaced_without_its_version,
    a_custom_object_is_deleted_with_a_status,
    a_null_that_is_not_allowed_is_nothing,
    int_or_string_takes_both,
];

pub fn pool(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
        }}},
    })
}

/// Creates a NodePool of the test's own.
pub async fn with_pool(w: &World, name: &str) -> Result<Value> {
    w.post(POOLS, &pool(&w.named(name))).await?.ok()
}

const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";

fn path_of(object: &Value) -> String {
    format!("{POOLS}/{}", plain(&object["metadata"]["name"]))
}

/// Refuses a pool with another value at a place; the fields that are blamed.
async fn blamed(w: &World, place: &str, value: Value) -> Result<Vec<String>> {
    let mut pool = pool(&w.named("blamed"));
    let (above, last) = place.rsplit_once('/').unwrap_or(("", place));
    pool.pointer_mut(above)
        .and_then(Value::as_object_mut)
        .map(|fields| fields.insert(last.to_owned(), value));
    let answer = w.post(POOLS, &pool).await?;
    let causes = answer.body["details"]["causes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    answer.refused(422, "Invalid")?;
    Ok(causes.iter().map(|cause| plain(&cause["field"])).collect())
}

async fn unknown_fields_are_dropped(w: &World) -> Result<()> {
    let mut pool = pool(&w.named("p"));
    pool["spec"]["nonsense"] = json!(1);
    pool["spec"]["template"]["spec"]["nonsense"] = json!({"a": 1});
    pool["other"] = json!(1);
    let made = w.post(POOLS, &pool).await?.ok()?;
    ensure!(
        !made.to_string().contains("nonsense") && made["other"].is_null(),
        "{made}"
    );
    Ok(())
}

async fn defaults_are_filled_in(w: &World) -> Result<()> {
    let made = with_pool(w, "p").await?;
    let disruption = &made["spec"]["disruption"];
    ensure!(disruption["consolidateAfter"] == "0s", "{made}");
    ensure!(
        disruption["consolidationPolicy"] == "WhenEmptyOrUnderutilized",
        "{made}"
    );
    ensure!(disruption["budgets"] == json!([{"nodes": "10%"}]), "{made}");
    ensure!(
        made["spec"]["template"]["spec"]["expireAfter"] == "720h",
        "{made}"
    );
    Ok(())
}

async fn a_status_has_a_default_too(w: &World) -> Result<()> {
    let class = json!({"metadata": {"name": w.named("c")}, "spec": {}});
    let class = json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": class["metadata"], "spec": {},
    });
    let made = w
        .post("/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses", &class)
        .await?
        .ok()?;
    ensure!(made["status"]["conditions"][0]["type"] == "Ready", "{made}");
    Ok(())
}

async fn what_is_missing_is_refused(w: &World) -> Result<()> {
    let blamed = blamed(w, "/spec/template/spec", json!({"requirements": []})).await?;
    // The second says that rules were not asked.
    ensure!(
        blamed == ["spec.template.spec.nodeClassRef", "<nil>"],
        "{blamed:?}"
    );
    Ok(())
}

async fn a_wrong_type_is_refused(w: &World) -> Result<()> {
    let blamed = blamed(w, "/spec/weight", json!("heavy")).await?;
    ensure!(blamed.contains(&"spec.weight".to_owned()), "{blamed:?}");
    Ok(())
}

async fn a_value_beyond_the_limits_is_refused(w: &World) -> Result<()> {
    ensure!(blamed(w, "/spec/weight", json!(101)).await? == ["spec.weight"]);
    ensure!(blamed(w, "/spec/weight", json!(0)).await? == ["spec.weight"]);
    let many: Vec<Value> = (0..51).map(|_| json!({"nodes": "1"})).collect();
    let blamed = blamed(w, "/spec/disruption", json!({"budgets": many})).await?;
    ensure!(
        blamed.contains(&"spec.disruption.budgets".to_owned()),
        "{blamed:?}"
    );
    Ok(())
}

async fn a_value_that_is_none_of_those_known_is_refused(w: &World) -> Result<()> {
    let blamed = blamed(
        w,
        "/spec/disruption",
        json!({"consolidationPolicy": "Sometimes"}),
    )
    .await?;
    ensure!(
        blamed.contains(&"spec.disruption.consolidationPolicy".to_owned()),
        "{blamed:?}"
    );
    Ok(())
}

async fn a_text_against_its_pattern_is_refused(w: &World) -> Result<()> {
    let blamed = blamed(w, "/spec/disruption", json!({"consolidateAfter": "soon"})).await?;
    ensure!(
        blamed.contains(&"spec.disruption.consolidateAfter".to_owned()),
        "{blamed:?}"
    );
    Ok(())
}

async fn a_rule_is_obeyed(w: &World) -> Result<()> {
    let wanted = json!([{"key": "kubernetes.io/os", "operator": "In", "values": []}]);
    let blamed = blamed(w, "/spec/template/spec/requirements", wanted).await?;
    ensure!(blamed == ["spec.template.spec.requirements"], "{blamed:?}");
    let mut pool = pool(&w.named("p"));
    pool["spec"]["replicas"] = json!(1);
    pool["spec"]["weight"] = json!(1);
    let message = w.post(POOLS, &pool).await?.refused(422, "Invalid")?;
    ensure!(
        message.contains("a pool with replicas has no weight"),
        "{message}"
    );
    Ok(())
}

async fn a_rule_about_change_is_obeyed(w: &World) -> Result<()> {
    let made = with_pool(w, "p").await?;
    let patch = json!({"spec": {"template": {"spec": {"nodeClassRef": {"kind": "Other"}}}}});
    let message = w
        .patch(&path_of(&made), "merge", &patch)
        .await?
        .refused(422, "Invalid")?;
    ensure!(
        message.contains("nodeClassRef.kind cannot change"),
        "{message}"
    );
    let patch = json!({"spec": {"template": {"spec": {"nodeClassRef": {"name": "other"}}}}});
    w.patch(&path_of(&made), "merge", &patch).await?.ok()?;
    Ok(())
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
        },
    })
}

async fn a_spec_that_cannot_change_does_not(w: &World) -> Result<()> {
    let name = w.named("c");
    w.post("/apis/karpenter.sh/v1/nodeclaims", &claim(&name))
        .await?
        .ok()?;
    let path = format!("/apis/karpenter.sh/v1/nodeclaims/{name}");
    let patch = json!({"spec": {"expireAfter": "1h"}});
    w.patch(&path, "merge", &patch)
        .await?
        .refused(422, "Invalid")?;
    let now = w
        .patch(&path, "merge", &json!({"metadata": {"labels": {"a": "b"}}}))
        .await?
        .ok()?;
    ensure!(now["metadata"]["generation"] == 1, "{now}");
    let status = json!({"status": {"providerID": "x://1", "conditions": []}});
    let now = w
        .patch(&format!("{path}/status"), "merge", &status)
        .await?
        .ok()?;
    ensure!(now["status"]["providerID"] == "x://1", "{now}");
    Ok(())
}

async fn a_status_is_no_part_of_a_write(w: &World) -> Result<()> {
    let mut pool = pool(&w.named("p"));
    pool["status"] = json!({"nodes": 7});
    let made = w.post(POOLS, &pool).await?.ok()?;
    ensure!(made["status"]["nodes"].as_i64().unwrap_or(0) == 0, "{made}");
    let now = w
        .patch(&path_of(&made), "merge", &json!({"status": {"nodes": 7}}))
        .await?
        .ok()?;
    ensure!(
        now["status"]["nodes"].as_i64().unwrap_or(0) == 0 && version(&now) == version(&made),
        "{now}"
    );
    Ok(())
}

async fn a_write_of_the_status_leaves_the_rest(w: &World) -> Result<()> {
    let made = with_pool(w, "p").await?;
    let mut next = made.clone();
    next["status"] = json!({"nodes": 3});
    next["spec"]["weight"] = json!(9);
    next["metadata"]["labels"] = json!({"a": "b"});
    let now = w
        .put(&format!("{}/status", path_of(&made)), &next)
        .await?
        .ok()?;
    ensure!(
        now["status"]["nodes"] == 3 && now["spec"]["weight"].is_null(),
        "{now}"
    );
    ensure!(
        now["metadata"]["labels"].is_null() && now["metadata"]["generation"] == 1,
        "{now}"
    );
    w.put(&format!("{}/status", path_of(&made)), &next)
        .await?
        .refused(409, "Conflict")?;
    Ok(())
}

fn condition(kind: &str) -> Value {
    json!({
        "type": kind, "status": "True", "reason": "Asked", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

async fn a_status_is_checked(w: &World) -> Result<()> {
    let made = with_pool(w, "p").await?;
    let path = format!("{}/status", path_of(&made));
    for (field, value) in [
        ("status", "Perhaps"),
        ("lastTransitionTime", "yesterday"),
        ("reason", "not a word"),
    ] {
        let mut condition = condition("A");
        condition[field] = json!(value);
        let answer = w
            .patch(
                &path,
                "merge",
                &json!({"status": {"conditions": [condition]}}),
            )
            .await?;
        let blamed = answer.body["details"]["causes"][0]["field"].clone();
        ensure!(
            blamed == format!("status.conditions[0].{field}"),
            "{blamed}"
        );
        answer.refused(422, "Invalid")?;
    }
    Ok(())
}

async fn two_conditions_of_one_type_are_refused(w: &World) -> Result<()> {
    let made = with_pool(w, "p").await?;
    let twice = json!({"status": {"conditions": [condition("A"), condition("A")]}});
    w.patch(&format!("{}/status", path_of(&made)), "merge", &twice)
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

async fn a_generation_counts_what_is_asked_for(w: &World) -> Result<()> {
    let made = with_pool(w, "p").await?;
    ensure!(made["metadata"]["generation"] == 1, "{made}");
    let now = w
        .patch(
            &path_of(&made),
            "merge",
            &json!({"metadata": {"annotations": {"a": "b"}}}),
        )
        .await?
        .ok()?;
    ensure!(now["metadata"]["generation"] == 1, "{now}");
    let now = w
        .patch(&path_of(&made), "merge", &json!({"spec": {"weight": 5}}))
        .await?
        .ok()?;
    ensure!(now["metadata"]["generation"] == 2, "{now}");
    Ok(())
}

async fn a_custom_object_cannot_be_replaced_without_its_version(w: &World) -> Result<()> {
    let made = with_pool(w, "p").await?;
    let mut next = made.clone();
    next["spec"]["weight"] = json!(5);
    let fields = next["metadata"].as_object_mut();
    fields.map(|fields| fields.remove("resourceVersion"));
    let answer = w.put(&path_of(&made), &next).await?;
    ensure!(
        answer.body["details"]["causes"][0]["field"] == "metadata.resourceVersion",
        "{answer:?}"
    );
    answer.refused(422, "Invalid")?;
    Ok(())
}

async fn a_custom_object_is_deleted_with_a_status(w: &World) -> Result<()> {
    let made = with_pool(w, "p").await?;
    let status = w.delete(&path_of(&made), &Value::Null).await?.ok()?;
    ensure!(
        status["kind"] == "Status" && status["details"]["group"] == "karpenter.sh",
        "{status}"
    );
    Ok(())
}

async fn a_null_that_is_not_allowed_is_nothing(w: &World) -> Result<()> {
    let mut pool = pool(&w.named("p"));
    pool["spec"]["weight"] = Value::Null;
    pool["spec"]["disruption"] = Value::Null;
    let made = w.post(POOLS, &pool).await?.ok()?;
    ensure!(made["spec"].get("weight").is_none(), "{made}");
    ensure!(
        made["spec"]["disruption"]["consolidateAfter"] == "0s",
        "{made}"
    );
    Ok(())
}

async fn int_or_string_takes_both(w: &World) -> Result<()> {
    let mut pool = pool(&w.named("p"));
    pool["spec"]["limits"] = json!({"cpu": 100, "memory": "10Gi"});
    let made = w.post(POOLS, &pool).await?.ok()?;
    ensure!(
        made["spec"]["limits"] == json!({"cpu": 100, "memory": "10Gi"}),
        "{made}"
    );
    let blamed = blamed(w, "/spec/limits", json!({"cpu": "lots"})).await?;
    ensure!(
        blamed.iter().any(|field| field.starts_with("spec.limits")),
        "{blamed:?}"
    );
    Ok(())
}
