//! Patches of three kinds.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::tests;
use crate::world::{World, version};

tests![
    a_merge_patch_merges_and_takes_away,
    a_patch_that_changes_nothing_keeps_the_version,
    a_patch_may_insist_on_a_version,
    a_patch_of_what_is_not_there_finds_nothing,
    a_json_patch_is_done_step_by_step,
    a_json_patch_that_fails_a_test_changes_nothing,
    a_json_patch_takes_nothing_for_null,
    a_json_patch_appends_to_lists,
    a_strategic_patch_merges_containers_by_name,
    a_strategic_patch_merges_conditions_by_type,
    a_strategic_patch_deletes_items_by_directive,
    a_strategic_patch_replaces_taints,
    a_strategic_patch_merges_finalizers,
    a_strategic_patch_merges_owners_by_uid,
    a_merge_patch_replaces_lists,
    a_patch_of_an_unknown_kind_is_refused,
    a_patch_cannot_rename,
];

async fn a_merge_patch_merges_and_takes_away(w: &World) -> Result<()> {
    w.with_map("m", json!({"a": "1", "b": "2"})).await?;
    let patch = json!({"data": {"a": null, "c": "3"}, "metadata": {"labels": {"x": "y"}}});
    let now = w
        .patch(&w.core("configmaps/m"), "merge", &patch)
        .await?
        .ok()?;
    ensure!(
        now["data"] == json!({"b": "2", "c": "3"}) && now["metadata"]["labels"]["x"] == "y",
        "{now}"
    );
    Ok(())
}

async fn a_patch_that_changes_nothing_keeps_the_version(w: &World) -> Result<()> {
    let first = w.with_map("m", json!({"a": "1"})).await?;
    let now = w
        .patch(
            &w.core("configmaps/m"),
            "merge",
            &json!({"data": {"a": "1", "b": null}}),
        )
        .await?
        .ok()?;
    ensure!(version(&first) == version(&now), "{now}");
    Ok(())
}

async fn a_patch_may_insist_on_a_version(w: &World) -> Result<()> {
    let first = w.with_map("m", json!({})).await?;
    let patch =
        |to: &str| json!({"metadata": {"resourceVersion": version(&first)}, "data": {"a": to}});
    w.patch(&w.core("configmaps/m"), "merge", &patch("1"))
        .await?
        .ok()?;
    w.patch(&w.core("configmaps/m"), "merge", &patch("2"))
        .await?
        .refused(409, "Conflict")?;
    Ok(())
}

async fn a_patch_of_what_is_not_there_finds_nothing(w: &World) -> Result<()> {
    w.patch(
        &w.core("configmaps/m"),
        "merge",
        &json!({"data": {"a": "1"}}),
    )
    .await?
    .refused(404, "NotFound")?;
    Ok(())
}

async fn a_json_patch_is_done_step_by_step(w: &World) -> Result<()> {
    w.with_map("m", json!({"a": "1", "b": "2"})).await?;
    let steps = json!([
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "replace", "path": "/data/a", "value": "one"},
        {"op": "remove", "path": "/data/b"},
        {"op": "add", "path": "/metadata/annotations", "value": {"x~y/z": "w"}},
        {"op": "add", "path": "/metadata/annotations/p~1q", "value": "r"},
    ]);
    let answer = w.patch(&w.core("configmaps/m"), "json", &steps).await?;
    // `~` is in no annotation.
    answer.refused(422, "Invalid")?;
    let steps = json!([
        {"op": "replace", "path": "/data/a", "value": "one"},
        {"op": "remove", "path": "/data/b"},
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/p~1q", "value": "r"},
    ]);
    let now = w
        .patch(&w.core("configmaps/m"), "json", &steps)
        .await?
        .ok()?;
    ensure!(
        now["data"] == json!({"a": "one"}) && now["metadata"]["annotations"]["p/q"] == "r",
        "{now}"
    );
    Ok(())
}

async fn a_json_patch_that_fails_a_test_changes_nothing(w: &World) -> Result<()> {
    let first = w.with_map("m", json!({"a": "1"})).await?;
    let steps = json!([
        {"op": "replace", "path": "/data/a", "value": "2"},
        {"op": "test", "path": "/data/a", "value": "3"},
    ]);
    w.patch(&w.core("configmaps/m"), "json", &steps)
        .await?
        .refused(422, "Invalid")?;
    let steps = json!([{"op": "remove", "path": "/data/nothing"}]);
    w.patch(&w.core("configmaps/m"), "json", &steps)
        .await?
        .refused(422, "Invalid")?;
    let now = w.get(&w.core("configmaps/m")).await?.ok()?;
    ensure!(
        version(&now) == version(&first) && now["data"]["a"] == "1",
        "{now}"
    );
    Ok(())
}

async fn a_json_patch_takes_nothing_for_null(w: &World) -> Result<()> {
    w.with_map("m", json!({"a": "1"})).await?;
    let steps = json!([
        {"op": "test", "path": "/metadata/finalizers", "value": null},
        {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/one"]},
    ]);
    let now = w
        .patch(&w.core("configmaps/m"), "json", &steps)
        .await?
        .ok()?;
    ensure!(
        now["metadata"]["finalizers"] == json!(["example.com/one"]),
        "{now}"
    );
    Ok(())
}

async fn a_json_patch_appends_to_lists(w: &World) -> Result<()> {
    let map = json!({"metadata": {"name": "m", "finalizers": ["example.com/one"]}});
    w.post(&w.core("configmaps"), &map).await?.ok()?;
    let steps = json!([
        {"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/three"},
        {"op": "add", "path": "/metadata/finalizers/1", "value": "example.com/two"},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    ]);
    let now = w
        .patch(&w.core("configmaps/m"), "json", &steps)
        .await?
        .ok()?;
    ensure!(
        now["metadata"]["finalizers"] == json!(["example.com/two", "example.com/three"]),
        "{now}"
    );
    Ok(())
}

fn deployment(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [
                    {"name": "one", "image": "a:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
                    {"name": "two", "image": "b:1"},
                ]},
            },
        },
    })
}

async fn a_strategic_patch_merges_containers_by_name(w: &World) -> Result<()> {
    w.post(&w.group("apps/v1", "deployments"), &deployment("d"))
        .await?
        .ok()?;
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "two", "image": "b:2"},
        {"name": "one", "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]},
    ]}}}});
    let now = w
        .patch(
            &w.group("apps/v1", "deployments/d"),
            "strategic-merge",
            &patch,
        )
        .await?
        .ok()?;
    let containers = now["spec"]["template"]["spec"]["containers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    ensure!(containers.len() == 2, "{now}");
    let one = containers
        .iter()
        .find(|c| c["name"] == "one")
        .cloned()
        .unwrap_or_default();
    let two = containers
        .iter()
        .find(|c| c["name"] == "two")
        .cloned()
        .unwrap_or_default();
    ensure!(one["image"] == "a:1" && two["image"] == "b:2", "{now}");
    let mut env: Vec<String> = one["env"]
        .as_array()
        .into_iter()
        .flatten()
        .map(Value::to_string)
        .collect();
    env.sort();
    ensure!(env.len() == 3 && env[1].contains("\"3\""), "{env:?}");
    Ok(())
}

async fn a_strategic_patch_merges_conditions_by_type(w: &World) -> Result<()> {
    w.with_pod("p", json!({})).await?;
    let patch = |kind: &str, status: &str| json!({"status": {"conditions": [{"type": kind, "status": status}]}});
    for (kind, status) in [
        ("example.com/a", "True"),
        ("example.com/b", "True"),
        ("example.com/a", "False"),
    ] {
        w.patch(
            &w.core("pods/p/status"),
            "strategic-merge",
            &patch(kind, status),
        )
        .await?
        .ok()?;
    }
    let now = w.get(&w.core("pods/p")).await?.ok()?;
    let all = now["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let of = |kind: &str| {
        all.iter()
            .filter(|c| c["type"] == kind)
            .map(|c| c["status"].clone())
            .collect::<Vec<_>>()
    };
    ensure!(
        of("example.com/a") == ["False"] && of("example.com/b") == ["True"],
        "{now}"
    );
    let nominated = json!({"status": {"nominatedNodeName": "somewhere"}});
    let now = w
        .patch(&w.core("pods/p/status"), "strategic-merge", &nominated)
        .await?
        .ok()?;
    ensure!(now["status"]["nominatedNodeName"] == "somewhere", "{now}");
    Ok(())
}

async fn a_strategic_patch_deletes_items_by_directive(w: &World) -> Result<()> {
    w.post(&w.group("apps/v1", "deployments"), &deployment("d"))
        .await?
        .ok()?;
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "two", "$patch": "delete"}]}}}});
    let now = w
        .patch(
            &w.group("apps/v1", "deployments/d"),
            "strategic-merge",
            &patch,
        )
        .await?
        .ok()?;
    let containers = now["spec"]["template"]["spec"]["containers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    ensure!(
        containers.len() == 1 && containers[0]["name"] == "one",
        "{now}"
    );
    Ok(())
}

async fn a_strategic_patch_replaces_taints(w: &World) -> Result<()> {
    let name = w.named("tainted");
    let node = json!({"metadata": {"name": name}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
    w.post("/api/v1/nodes", &node).await?.ok()?;
    let patch = json!({"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}});
    let now = w
        .patch(&format!("/api/v1/nodes/{name}"), "strategic-merge", &patch)
        .await?
        .ok()?;
    ensure!(
        now["spec"]["taints"] == json!([{"key": "b", "effect": "NoExecute"}]),
        "{now}"
    );
    w.delete(&format!("/api/v1/nodes/{name}"), &Value::Null)
        .await?
        .ok()?;
    Ok(())
}

async fn a_strategic_patch_merges_finalizers(w: &World) -> Result<()> {
    let map =
        json!({"metadata": {"name": "m", "finalizers": ["example.com/one", "example.com/two"]}});
    w.post(&w.core("configmaps"), &map).await?.ok()?;
    let patch = json!({"metadata": {
        "finalizers": ["example.com/three"], "$deleteFromPrimitiveList/finalizers": ["example.com/one"],
    }});
    let now = w
        .patch(&w.core("configmaps/m"), "strategic-merge", &patch)
        .await?
        .ok()?;
    let all = now["metadata"]["finalizers"].to_string();
    ensure!(
        all.contains("two") && all.contains("three") && !all.contains("one"),
        "{now}"
    );
    Ok(())
}

async fn a_strategic_patch_merges_owners_by_uid(w: &World) -> Result<()> {
    let owner = w.with_map("owner", json!({})).await?;
    let other = w.with_map("other", json!({})).await?;
    w.with_map("m", json!({})).await?;
    for of in [&owner, &other, &owner] {
        let reference = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": of["metadata"]["name"], "uid": of["metadata"]["uid"],
        });
        let patch = json!({"metadata": {"ownerReferences": [reference]}});
        w.patch(&w.core("configmaps/m"), "strategic-merge", &patch)
            .await?
            .ok()?;
    }
    let now = w.get(&w.core("configmaps/m")).await?.ok()?;
    ensure!(
        now["metadata"]["ownerReferences"]
            .as_array()
            .is_some_and(|all| all.len() == 2),
        "{now}"
    );
    Ok(())
}

async fn a_merge_patch_replaces_lists(w: &World) -> Result<()> {
    w.post(&w.group("apps/v1", "deployments"), &deployment("d"))
        .await?
        .ok()?;
    let patch =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "three", "image": "c"}]}}}});
    let now = w
        .patch(&w.group("apps/v1", "deployments/d"), "merge", &patch)
        .await?
        .ok()?;
    let containers = now["spec"]["template"]["spec"]["containers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    ensure!(
        containers.len() == 1 && containers[0]["name"] == "three",
        "{now}"
    );
    Ok(())
}

async fn a_patch_of_an_unknown_kind_is_refused(w: &World) -> Result<()> {
    w.with_map("m", json!({})).await?;
    w.patch(&w.core("configmaps/m"), "clever", &json!({}))
        .await?
        .refused(415, "UnsupportedMediaType")?;
    let pool = crate::custom::with_pool(w, "unknown").await?;
    let path = format!(
        "/apis/karpenter.sh/v1/nodepools/{}",
        crate::world::plain(&pool["metadata"]["name"])
    );
    w.patch(&path, "strategic-merge", &json!({}))
        .await?
        .refused(415, "UnsupportedMediaType")?;
    Ok(())
}

async fn a_patch_cannot_rename(w: &World) -> Result<()> {
    w.with_map("m", json!({})).await?;
    let answer = w
        .patch(
            &w.core("configmaps/m"),
            "merge",
            &json!({"metadata": {"name": "n"}}),
        )
        .await?;
    ensure!(answer.code == 400, "{answer:?}");
    Ok(())
}
