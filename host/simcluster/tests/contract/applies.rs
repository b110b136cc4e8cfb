//! Server-side apply.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::tests;
use crate::world::{World, plain, version};

tests![
    applying_makes_what_is_not_there,
    applying_twice_changes_nothing,
    what_another_applied_is_a_conflict,
    force_takes_a_field,
    what_both_say_belongs_to_both,
    what_is_applied_no_more_goes,
    what_another_wants_too_stays,
    applying_over_what_was_created_is_a_conflict,
    an_update_takes_a_field_from_the_manager_that_applied_it,
    items_of_a_list_have_owners_of_their_own,
    finalizers_are_a_set,
    a_manager_has_to_be_named,
    a_status_is_applied_apart,
];

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data})
}

async fn applied(w: &World, client: &str, data: Value) -> Result<crate::world::Answer> {
    w.apply(&w.core("configmaps/m"), client, false, &map(data))
        .await
}

async fn applying_makes_what_is_not_there(w: &World) -> Result<()> {
    let answer = applied(w, "one", json!({"a": "1"})).await?;
    ensure!(answer.code == 201, "{answer:?}");
    let entry = &answer.body["metadata"]["managedFields"][0];
    ensure!(
        entry["manager"] == "one" && entry["operation"] == "Apply" && entry["apiVersion"] == "v1",
        "{entry}"
    );
    ensure!(entry["fieldsType"] == "FieldsV1", "{entry}");
    ensure!(
        entry["fieldsV1"] == json!({"f:data": {"f:a": {}}}),
        "{entry}"
    );
    Ok(())
}

async fn applying_twice_changes_nothing(w: &World) -> Result<()> {
    let first = applied(w, "one", json!({"a": "1"})).await?.ok()?;
    let again = applied(w, "one", json!({"a": "1"})).await?;
    ensure!(again.code == 200, "{again:?}");
    ensure!(version(&first) == version(&again.body), "{again:?}");
    Ok(())
}

async fn what_another_applied_is_a_conflict(w: &World) -> Result<()> {
    applied(w, "one", json!({"a": "1", "b": "1"})).await?.ok()?;
    let answer = applied(w, "two", json!({"a": "2"})).await?;
    let cause = &answer.body["details"]["causes"][0];
    ensure!(
        cause["reason"] == "FieldManagerConflict" && cause["field"] == ".data.a",
        "{}",
        answer.body
    );
    let message = answer.refused(409, "Conflict")?;
    ensure!(
        message == "Apply failed with 1 conflict: conflict with \"one\": .data.a",
        "{message}"
    );
    Ok(())
}

async fn force_takes_a_field(w: &World) -> Result<()> {
    applied(w, "one", json!({"a": "1", "b": "1"})).await?.ok()?;
    let now = w
        .apply(
            &w.core("configmaps/m"),
            "two",
            true,
            &map(json!({"a": "2"})),
        )
        .await?
        .ok()?;
    ensure!(now["data"] == json!({"a": "2", "b": "1"}), "{now}");
    // The other manager owns it now, so the first one gets the conflict.
    applied(w, "one", json!({"a": "1", "b": "1"}))
        .await?
        .refused(409, "Conflict")?;
    Ok(())
}

async fn what_both_say_belongs_to_both(w: &World) -> Result<()> {
    applied(w, "one", json!({"a": "1"})).await?.ok()?;
    let now = applied(w, "two", json!({"a": "1"})).await?.ok()?;
    let owners = now["metadata"]["managedFields"]
        .as_array()
        .map_or(0, Vec::len);
    ensure!(owners == 2, "{now}");
    applied(w, "two", json!({"a": "2"}))
        .await?
        .refused(409, "Conflict")?;
    Ok(())
}

async fn what_is_applied_no_more_goes(w: &World) -> Result<()> {
    applied(w, "one", json!({"a": "1", "b": "1"})).await?.ok()?;
    let now = applied(w, "one", json!({"a": "1"})).await?.ok()?;
    ensure!(now["data"] == json!({"a": "1"}), "{now}");
    Ok(())
}

async fn what_another_wants_too_stays(w: &World) -> Result<()> {
    applied(w, "one", json!({"a": "1", "b": "1"})).await?.ok()?;
    applied(w, "two", json!({"b": "1"})).await?.ok()?;
    let now = applied(w, "one", json!({"a": "1"})).await?.ok()?;
    ensure!(now["data"] == json!({"a": "1", "b": "1"}), "{now}");
    Ok(())
}

async fn applying_over_what_was_created_is_a_conflict(w: &World) -> Result<()> {
    w.with_map("m", json!({"a": "1"})).await?;
    let answer = applied(w, "one", json!({"a": "2"})).await?;
    ensure!(
        answer.body["details"]["causes"][0]["field"] == ".data.a",
        "{answer:?}"
    );
    answer.refused(409, "Conflict")?;
    let now = w
        .apply(
            &w.core("configmaps/m"),
            "one",
            true,
            &map(json!({"a": "2"})),
        )
        .await?
        .ok()?;
    ensure!(now["data"] == json!({"a": "2"}), "{now}");
    Ok(())
}

async fn an_update_takes_a_field_from_the_manager_that_applied_it(w: &World) -> Result<()> {
    applied(w, "one", json!({"a": "1"})).await?.ok()?;
    let path = format!("{}?fieldManager=hand", w.core("configmaps/m"));
    w.patch(&path, "merge", &json!({"data": {"a": "2"}}))
        .await?
        .ok()?;
    let message = applied(w, "one", json!({"a": "1"}))
        .await?
        .refused(409, "Conflict")?;
    ensure!(
        message == "Apply failed with 1 conflict: conflict with \"hand\" using v1: .data.a",
        "{message}"
    );
    Ok(())
}

async fn items_of_a_list_have_owners_of_their_own(w: &World) -> Result<()> {
    let deployment = |containers: Value| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"app": "d"}},
                "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": containers}},
            },
        })
    };
    let path = w.group("apps/v1", "deployments/d");
    let one = json!([{"name": "main", "image": "a:1"}]);
    w.apply(&path, "one", false, &deployment(one)).await?.ok()?;
    let two = json!([{"name": "side", "image": "b:1"}]);
    let now = w.apply(&path, "two", false, &deployment(two)).await?.ok()?;
    let containers = &now["spec"]["template"]["spec"]["containers"];
    ensure!(
        containers.as_array().is_some_and(|all| all.len() == 2),
        "{containers}"
    );
    let other = json!([{"name": "main", "image": "a:2"}, {"name": "side", "image": "b:1"}]);
    let answer = w.apply(&path, "two", false, &deployment(other)).await?;
    let field = plain(&answer.body["details"]["causes"][0]["field"]);
    ensure!(
        field == ".spec.template.spec.containers[name=\"main\"].image",
        "{field}"
    );
    answer.refused(409, "Conflict")?;
    let mut rest = deployment(json!([{"name": "main", "image": "a:1"}]));
    rest["metadata"]["labels"] = json!({"x": "y"});
    let now = w.apply(&path, "two", false, &rest).await?.ok()?;
    let containers = &now["spec"]["template"]["spec"]["containers"];
    ensure!(
        containers.as_array().is_some_and(|all| all.len() == 1) && containers[0]["name"] == "main",
        "{containers}"
    );
    Ok(())
}

async fn finalizers_are_a_set(w: &World) -> Result<()> {
    let with = |finalizer: &str| {
        let mut map = map(json!({"a": "1"}));
        map["metadata"]["finalizers"] = json!([finalizer]);
        map
    };
    w.apply(
        &w.core("configmaps/m"),
        "one",
        false,
        &with("example.com/one"),
    )
    .await?
    .ok()?;
    let now = w
        .apply(
            &w.core("configmaps/m"),
            "two",
            false,
            &with("example.com/two"),
        )
        .await?
        .ok()?;
    ensure!(
        now["metadata"]["finalizers"] == json!(["example.com/one", "example.com/two"]),
        "{now}"
    );
    let now = w
        .apply(
            &w.core("configmaps/m"),
            "one",
            false,
            &map(json!({"a": "1"})),
        )
        .await?
        .ok()?;
    ensure!(
        now["metadata"]["finalizers"] == json!(["example.com/two"]),
        "{now}"
    );
    Ok(())
}

async fn a_manager_has_to_be_named(w: &World) -> Result<()> {
    let header = [("content-type", "application/apply-patch+yaml")];
    let answer = w
        .send(
            "PATCH",
            &w.core("configmaps/m"),
            &header,
            map(json!({})).to_string(),
        )
        .await?;
    answer.refused(422, "Invalid")?;
    Ok(())
}

async fn a_status_is_applied_apart(w: &World) -> Result<()> {
    let pool = crate::custom::with_pool(w, "applied").await?;
    let name = plain(&pool["metadata"]["name"]);
    let path = format!("/apis/karpenter.sh/v1/nodepools/{name}/status");
    let condition = |kind: &str, status: &str| {
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "status": {"conditions": [{
                "type": kind, "status": status, "reason": "Asked", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]},
        })
    };
    w.apply(&path, "one", false, &condition("One", "True"))
        .await?
        .ok()?;
    let now = w
        .apply(&path, "two", false, &condition("Two", "True"))
        .await?
        .ok()?;
    ensure!(
        now["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.len() == 2),
        "{now}"
    );
    ensure!(
        now["metadata"]["generation"] == pool["metadata"]["generation"],
        "{now}"
    );
    w.apply(&path, "two", false, &condition("One", "False"))
        .await?
        .refused(409, "Conflict")?;
    Ok(())
}
