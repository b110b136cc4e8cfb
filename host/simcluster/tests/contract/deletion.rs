//! Deletion: at once, after a grace period, or when the last finalizer is removed.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::tests;
use crate::world::{World, version};

tests![
    an_object_goes_at_once,
    a_finalizer_holds_an_object,
    the_last_finalizer_gone_the_object_is,
    a_held_object_takes_no_new_finalizers,
    deleting_again_changes_nothing,
    a_uid_can_be_insisted_on,
    a_version_can_be_insisted_on,
    a_pod_without_a_node_goes_at_once,
    a_pod_on_a_node_takes_its_grace_period,
    a_grace_period_can_be_shortened_and_not_lengthened,
    a_pod_that_has_ended_goes_at_once,
    a_grace_period_of_none_is_at_once,
    a_held_pod_stays_after_its_grace_period,
    a_pod_that_is_going_and_let_go_of_still_has_its_time,
    foreground_deletion_waits_for_a_finalizer,
    orphaning_waits_for_a_finalizer,
    a_dry_run_deletes_nothing,
    a_namespace_that_ends_takes_nothing_new,
    a_held_custom_object_counts_its_deletion_as_a_generation,
];

async fn held(w: &World) -> Result<Value> {
    let map = json!({"metadata": {"name": "m", "finalizers": ["example.com/hold"]}});
    w.post(&w.core("configmaps"), &map).await?.ok()
}

async fn an_object_goes_at_once(w: &World) -> Result<()> {
    let made = w.with_map("m", json!({})).await?;
    let status = w
        .delete(&w.core("configmaps/m"), &Value::Null)
        .await?
        .ok()?;
    ensure!(
        status["kind"] == "Status" && status["status"] == "Success",
        "{status}"
    );
    let details = &status["details"];
    ensure!(
        details["name"] == "m" && details["kind"] == "configmaps",
        "{status}"
    );
    ensure!(details["uid"] == made["metadata"]["uid"], "{status}");
    w.get(&w.core("configmaps/m"))
        .await?
        .refused(404, "NotFound")?;
    Ok(())
}

async fn a_finalizer_holds_an_object(w: &World) -> Result<()> {
    held(w).await?;
    let going = w
        .delete(&w.core("configmaps/m"), &Value::Null)
        .await?
        .ok()?;
    ensure!(
        going["metadata"]["deletionTimestamp"].is_string(),
        "{going}"
    );
    ensure!(
        going["metadata"]["deletionGracePeriodSeconds"] == 0,
        "{going}"
    );
    let now = w.get(&w.core("configmaps/m")).await?.ok()?;
    ensure!(
        now["metadata"]["finalizers"] == json!(["example.com/hold"]),
        "{now}"
    );
    Ok(())
}

async fn the_last_finalizer_gone_the_object_is(w: &World) -> Result<()> {
    held(w).await?;
    let going = w
        .delete(&w.core("configmaps/m"), &Value::Null)
        .await?
        .ok()?;
    let path = format!(
        "{}?watch=1&resourceVersion={}",
        w.core("configmaps"),
        version(&going)
    );
    let mut watch = w.watch(&path).await?;
    w.patch(
        &w.core("configmaps/m"),
        "merge",
        &json!({"metadata": {"finalizers": null}}),
    )
    .await?
    .ok()?;
    w.get(&w.core("configmaps/m"))
        .await?
        .refused(404, "NotFound")?;
    let event = watch.next().await?.context("the watch has ended")?;
    ensure!(event["type"] == "DELETED", "{event}");
    Ok(())
}

async fn a_held_object_takes_no_new_finalizers(w: &World) -> Result<()> {
    held(w).await?;
    w.delete(&w.core("configmaps/m"), &Value::Null)
        .await?
        .ok()?;
    let patch = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}});
    w.patch(&w.core("configmaps/m"), "merge", &patch)
        .await?
        .refused(422, "Invalid")?;
    let patch = json!({"metadata": {"labels": {"still": "here"}}});
    w.patch(&w.core("configmaps/m"), "merge", &patch)
        .await?
        .ok()?;
    Ok(())
}

async fn deleting_again_changes_nothing(w: &World) -> Result<()> {
    held(w).await?;
    let first = w
        .delete(&w.core("configmaps/m"), &Value::Null)
        .await?
        .ok()?;
    let again = w
        .delete(&w.core("configmaps/m"), &Value::Null)
        .await?
        .ok()?;
    ensure!(version(&first) == version(&again), "{again}");
    Ok(())
}

async fn a_uid_can_be_insisted_on(w: &World) -> Result<()> {
    let made = w.with_map("m", json!({})).await?;
    let with = |uid: &Value| json!({"preconditions": {"uid": uid}});
    let other = json!("11111111-2222-4333-8444-555555555555");
    w.delete(&w.core("configmaps/m"), &with(&other))
        .await?
        .refused(409, "Conflict")?;
    w.delete(&w.core("configmaps/m"), &with(&made["metadata"]["uid"]))
        .await?
        .ok()?;
    Ok(())
}

async fn a_version_can_be_insisted_on(w: &World) -> Result<()> {
    let made = w.with_map("m", json!({})).await?;
    let now = w
        .patch(
            &w.core("configmaps/m"),
            "merge",
            &json!({"data": {"a": "1"}}),
        )
        .await?
        .ok()?;
    let with = |object: &Value| json!({"preconditions": {"resourceVersion": version(object)}});
    w.delete(&w.core("configmaps/m"), &with(&made))
        .await?
        .refused(409, "Conflict")?;
    w.delete(&w.core("configmaps/m"), &with(&now)).await?.ok()?;
    Ok(())
}

async fn a_pod_without_a_node_goes_at_once(w: &World) -> Result<()> {
    w.with_pod("p", json!({})).await?;
    let last = w.delete(&w.core("pods/p"), &Value::Null).await?.ok()?;
    ensure!(last["kind"] == "Pod", "{last}");
    w.get(&w.core("pods/p")).await?.refused(404, "NotFound")?;
    Ok(())
}

/// A pod on a node without a kubelet.
async fn placed(w: &World, grace: i64) -> Result<Value> {
    // Without its node a pod is collected before long; a node without a kubelet keeps it.
    let node = w.named("machine");
    w.post("/api/v1/nodes", &json!({"metadata": {"name": node}}))
        .await?
        .ok()?;
    let mut pod = w.pod("p", json!({}));
    pod["spec"]["nodeName"] = json!(node);
    pod["spec"]["terminationGracePeriodSeconds"] = json!(grace);
    // The node is not ready, and pods that mind it would be evicted.
    pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    w.post(&w.core("pods"), &pod).await?.ok()
}

async fn a_pod_on_a_node_takes_its_grace_period(w: &World) -> Result<()> {
    let made = placed(w, 77).await?;
    let going = w.delete(&w.core("pods/p"), &Value::Null).await?.ok()?;
    ensure!(
        going["metadata"]["deletionGracePeriodSeconds"] == 77,
        "{going}"
    );
    ensure!(
        going["metadata"]["deletionTimestamp"].is_string(),
        "{going}"
    );
    let generation = |pod: &Value| pod["metadata"]["generation"].as_i64();
    ensure!(
        generation(&going) == generation(&made).map(|n| n + 1),
        "{going}"
    );
    w.get(&w.core("pods/p")).await?.ok()?;
    w.delete(&w.core("pods/p"), &json!({"gracePeriodSeconds": 0}))
        .await?
        .ok()?;
    w.get(&w.core("pods/p")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn a_grace_period_can_be_shortened_and_not_lengthened(w: &World) -> Result<()> {
    placed(w, 100).await?;
    let first = w
        .delete(&w.core("pods/p"), &json!({"gracePeriodSeconds": 50}))
        .await?
        .ok()?;
    ensure!(
        first["metadata"]["deletionGracePeriodSeconds"] == 50,
        "{first}"
    );
    let longer = w
        .delete(&w.core("pods/p"), &json!({"gracePeriodSeconds": 90}))
        .await?
        .ok()?;
    ensure!(
        longer["metadata"]["deletionGracePeriodSeconds"] == 50,
        "{longer}"
    );
    ensure!(
        longer["metadata"]["deletionTimestamp"] == first["metadata"]["deletionTimestamp"],
        "{longer}"
    );
    let shorter = w
        .delete(&w.core("pods/p"), &json!({"gracePeriodSeconds": 20}))
        .await?
        .ok()?;
    ensure!(
        shorter["metadata"]["deletionGracePeriodSeconds"] == 20,
        "{shorter}"
    );
    ensure!(
        shorter["metadata"]["deletionTimestamp"] != first["metadata"]["deletionTimestamp"],
        "{shorter}"
    );
    let unsaid = w.delete(&w.core("pods/p"), &Value::Null).await?.ok()?;
    ensure!(
        unsaid["metadata"]["deletionGracePeriodSeconds"] == 20,
        "{unsaid}"
    );
    Ok(())
}

async fn a_pod_that_has_ended_goes_at_once(w: &World) -> Result<()> {
    placed(w, 77).await?;
    w.patch(
        &w.core("pods/p/status"),
        "merge",
        &json!({"status": {"phase": "Succeeded"}}),
    )
    .await?
    .ok()?;
    w.delete(&w.core("pods/p"), &Value::Null).await?.ok()?;
    w.get(&w.core("pods/p")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn a_grace_period_of_none_is_at_once(w: &World) -> Result<()> {
    placed(w, 77).await?;
    w.delete(&w.core("pods/p"), &json!({"gracePeriodSeconds": 0}))
        .await?
        .ok()?;
    w.get(&w.core("pods/p")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn foreground_deletion_waits_for_a_finalizer(w: &World) -> Result<()> {
    held(w).await?;
    let going = w
        .delete(
            &w.core("configmaps/m"),
            &json!({"propagationPolicy": "Foreground"}),
        )
        .await?
        .ok()?;
    let all = going["metadata"]["finalizers"].to_string();
    ensure!(
        all.contains("foregroundDeletion") && all.contains("example.com/hold"),
        "{going}"
    );
    Ok(())
}

async fn orphaning_waits_for_a_finalizer(w: &World) -> Result<()> {
    held(w).await?;
    let going = w
        .delete(
            &w.core("configmaps/m"),
            &json!({"propagationPolicy": "Orphan"}),
        )
        .await?
        .ok()?;
    ensure!(
        going["metadata"]["finalizers"]
            .to_string()
            .contains("\"orphan\""),
        "{going}"
    );
    Ok(())
}

async fn a_dry_run_deletes_nothing(w: &World) -> Result<()> {
    w.with_map("m", json!({})).await?;
    w.delete(
        &format!("{}?dryRun=All", w.core("configmaps/m")),
        &Value::Null,
    )
    .await?
    .ok()?;
    w.get(&w.core("configmaps/m")).await?.ok()?;
    Ok(())
}

async fn a_namespace_that_ends_takes_nothing_new(w: &World) -> Result<()> {
    // What is in it holds it.
    held(w).await?;
    let path = format!("/api/v1/namespaces/{}", w.namespace);
    let going = w.delete(&path, &Value::Null).await?.ok()?;
    ensure!(
        going["metadata"]["deletionTimestamp"].is_string(),
        "{going}"
    );
    ensure!(going["status"]["phase"] == "Terminating", "{going}");
    let answer = w
        .post(
            &w.core("configmaps"),
            &json!({"metadata": {"name": "late"}}),
        )
        .await?;
    ensure!(
        answer.body["details"]["causes"][0]["reason"] == "NamespaceTerminating",
        "{answer:?}"
    );
    answer.refused(403, "Forbidden")?;
    w.patch(
        &w.core("configmaps/m"),
        "merge",
        &json!({"metadata": {"finalizers": null}}),
    )
    .await?
    .ok()?;
    Ok(())
}

async fn a_held_custom_object_counts_its_deletion_as_a_generation(w: &World) -> Result<()> {
    let pool = crate::custom::with_pool(w, "held").await?;
    let path = format!(
        "/apis/karpenter.sh/v1/nodepools/{}",
        crate::world::plain(&pool["metadata"]["name"])
    );
    w.patch(
        &path,
        "merge",
        &json!({"metadata": {"finalizers": ["example.com/hold"]}}),
    )
    .await?
    .ok()?;
    let going = w.delete(&path, &Value::Null).await?.ok()?;
    ensure!(
        pool["metadata"]["generation"] == 1 && going["metadata"]["generation"] == 2,
        "{going}"
    );
    w.patch(&path, "merge", &json!({"metadata": {"finalizers": []}}))
        .await?
        .ok()?;
    w.get(&path).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn a_held_pod_stays_after_its_grace_period(w: &World) -> Result<()> {
    placed(w, 77).await?;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    w.patch(&w.core("pods/p"), "merge", &hold).await?.ok()?;
    let going = w
        .delete(&w.core("pods/p"), &json!({"gracePeriodSeconds": 0}))
        .await?
        .ok()?;
    ensure!(
        going["metadata"]["deletionGracePeriodSeconds"] == 0,
        "{going}"
    );
    w.get(&w.core("pods/p")).await?.ok()?;
    w.patch(
        &w.core("pods/p"),
        "merge",
        &json!({"metadata": {"finalizers": null}}),
    )
    .await?
    .ok()?;
    w.get(&w.core("pods/p")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn a_pod_that_is_going_and_let_go_of_still_has_its_time(w: &World) -> Result<()> {
    placed(w, 77).await?;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    w.patch(&w.core("pods/p"), "merge", &hold).await?.ok()?;
    w.delete(&w.core("pods/p"), &Value::Null).await?.ok()?;
    w.patch(
        &w.core("pods/p"),
        "merge",
        &json!({"metadata": {"finalizers": null}}),
    )
    .await?
    .ok()?;
    let now = w.get(&w.core("pods/p")).await?.ok()?;
    ensure!(now["metadata"]["deletionGracePeriodSeconds"] == 77, "{now}");
    w.delete(&w.core("pods/p"), &json!({"gracePeriodSeconds": 0}))
        .await?
        .ok()?;
    w.get(&w.core("pods/p")).await?.refused(404, "NotFound")?;
    Ok(())
}
