//! Lists: order, selection, pages, metadata alone.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::tests;
use crate::world::{World, names, plain, version};

tests![
    a_list_is_ordered_by_name,
    a_list_names_its_kind_and_its_items_do_not,
    labels_select,
    a_selector_that_is_none_is_refused,
    fields_select,
    a_field_that_cannot_be_asked_for_is_refused,
    pods_are_found_by_their_node,
    pages_continue_where_the_last_one_ended,
    pages_show_one_moment,
    a_token_that_is_none_is_refused,
    a_list_as_of_a_version_shows_that_moment,
    a_list_of_the_future_is_refused,
    metadata_alone_is_a_kind_of_its_own,
    a_collection_is_deleted_by_labels,
];

async fn maps(w: &World, all: &[&str]) -> Result<()> {
    for name in all {
        let map = json!({"metadata": {"name": name, "labels": {"of": "many", "is": name}}});
        w.post(&w.core("configmaps"), &map).await?.ok()?;
    }
    Ok(())
}

async fn select(w: &World, labels: &str) -> Result<Vec<String>> {
    let escaped: String = labels.bytes().map(|byte| format!("%{byte:02x}")).collect();
    Ok(names(
        &w.get(&format!("{}?labelSelector={escaped}", w.core("configmaps")))
            .await?
            .ok()?,
    ))
}

async fn a_list_is_ordered_by_name(w: &World) -> Result<()> {
    maps(w, &["b", "a", "c", "a-b", "a.b"]).await?;
    let list = w.get(&w.core("configmaps")).await?.ok()?;
    ensure!(names(&list) == ["a", "a-b", "a.b", "b", "c"], "{list}");
    Ok(())
}

async fn a_list_names_its_kind_and_its_items_do_not(w: &World) -> Result<()> {
    maps(w, &["a"]).await?;
    let list = w.get(&w.core("configmaps")).await?.ok()?;
    ensure!(
        list["kind"] == "ConfigMapList" && list["apiVersion"] == "v1",
        "{list}"
    );
    ensure!(
        list["items"][0]["kind"].is_null() && list["items"][0]["apiVersion"].is_null(),
        "{list}"
    );
    let pool = crate::custom::with_pool(w, "listed").await?;
    let list = w.get("/apis/karpenter.sh/v1/nodepools").await?.ok()?;
    ensure!(list["kind"] == "NodePoolList", "{list}");
    let name = &pool["metadata"]["name"];
    let item = list["items"]
        .as_array()
        .and_then(|all| all.iter().find(|item| item["metadata"]["name"] == *name));
    ensure!(
        item.is_some_and(
            |item| item["kind"] == "NodePool" && item["apiVersion"] == "karpenter.sh/v1"
        ),
        "{list}"
    );
    Ok(())
}

async fn labels_select(w: &World) -> Result<()> {
    maps(w, &["a", "b", "c"]).await?;
    ensure!(select(w, "is=b").await? == ["b"]);
    ensure!(select(w, "is==b,of=many").await? == ["b"]);
    ensure!(select(w, "of=many,is!=b").await? == ["a", "c"]);
    ensure!(select(w, "is in (a, c)").await? == ["a", "c"]);
    ensure!(select(w, "of,is notin (a,c)").await? == ["b"]);
    ensure!(select(w, "of").await? == ["a", "b", "c"]);
    ensure!(select(w, "of,!is").await?.is_empty());
    Ok(())
}

async fn a_selector_that_is_none_is_refused(w: &World) -> Result<()> {
    let path = format!("{}?labelSelector=a%3D%3D%3Db", w.core("configmaps"));
    w.get(&path).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn fields_select(w: &World) -> Result<()> {
    maps(w, &["a", "b", "c"]).await?;
    let list = w
        .get(&format!(
            "{}?fieldSelector=metadata.name%3Db",
            w.core("configmaps")
        ))
        .await?
        .ok()?;
    ensure!(names(&list) == ["b"], "{list}");
    let list = w
        .get(&format!(
            "{}?fieldSelector=metadata.name!%3Db",
            w.core("configmaps")
        ))
        .await?
        .ok()?;
    ensure!(names(&list) == ["a", "c"], "{list}");
    Ok(())
}

async fn a_field_that_cannot_be_asked_for_is_refused(w: &World) -> Result<()> {
    for kind in ["configmaps", "pods"] {
        let path = format!("{}?fieldSelector=spec.unknown%3Db", w.core(kind));
        w.get(&path).await?.refused(400, "BadRequest")?;
    }
    Ok(())
}

async fn pods_are_found_by_their_node(w: &World) -> Result<()> {
    let mut pod = w.pod("here", json!({}));
    pod["spec"]["nodeName"] = json!(w.named("node"));
    w.post(&w.core("pods"), &pod).await?.ok()?;
    w.with_pod("there", json!({})).await?;
    let list = w
        .get(&format!(
            "/api/v1/pods?fieldSelector=spec.nodeName%3D{}",
            w.named("node")
        ))
        .await?
        .ok()?;
    ensure!(names(&list) == ["here"], "{list}");
    let list = w
        .get(&format!(
            "{}?fieldSelector=spec.nodeName%3D",
            w.core("pods")
        ))
        .await?
        .ok()?;
    ensure!(names(&list) == ["there"], "{list}");
    Ok(())
}

async fn pages_continue_where_the_last_one_ended(w: &World) -> Result<()> {
    maps(w, &["a", "b", "c", "d", "e"]).await?;
    let (mut token, mut seen, mut left) = (String::new(), Vec::new(), Vec::new());
    loop {
        let page = w
            .get(&format!(
                "{}?limit=2&continue={token}",
                w.core("configmaps")
            ))
            .await?
            .ok()?;
        seen.extend(names(&page));
        left.push(plain(&page["metadata"]["remainingItemCount"]));
        token = page["metadata"]["continue"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if token.is_empty() {
            break;
        }
    }
    ensure!(seen == ["a", "b", "c", "d", "e"], "{seen:?}");
    ensure!(left == ["3", "1", "null"], "{left:?}");
    Ok(())
}

async fn pages_show_one_moment(w: &World) -> Result<()> {
    maps(w, &["a", "b", "c", "d"]).await?;
    let first = w
        .get(&format!("{}?limit=2", w.core("configmaps")))
        .await?
        .ok()?;
    maps(w, &["c2"]).await?;
    w.delete(&w.core("configmaps/c"), &Value::Null)
        .await?
        .ok()?;
    w.patch(
        &w.core("configmaps/d"),
        "merge",
        &json!({"data": {"new": "yes"}}),
    )
    .await?
    .ok()?;
    let token = plain(&first["metadata"]["continue"]);
    let second = w
        .get(&format!(
            "{}?limit=2&continue={token}",
            w.core("configmaps")
        ))
        .await?
        .ok()?;
    ensure!(
        names(&second) == ["c", "d"] && second["items"][1]["data"].is_null(),
        "{second}"
    );
    ensure!(version(&first) == version(&second), "{second}");
    Ok(())
}

async fn a_token_that_is_none_is_refused(w: &World) -> Result<()> {
    let path = format!("{}?limit=2&continue=nothing", w.core("configmaps"));
    w.get(&path).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn a_list_as_of_a_version_shows_that_moment(w: &World) -> Result<()> {
    maps(w, &["a", "b"]).await?;
    let then = w.get(&w.core("configmaps")).await?.ok()?;
    w.delete(&w.core("configmaps/a"), &Value::Null)
        .await?
        .ok()?;
    maps(w, &["c"]).await?;
    let version = version(&then);
    let path = format!(
        "{}?resourceVersion={version}&resourceVersionMatch=Exact",
        w.core("configmaps")
    );
    ensure!(names(&w.get(&path).await?.ok()?) == ["a", "b"]);
    let path = format!(
        "{}?resourceVersion={version}&resourceVersionMatch=NotOlderThan",
        w.core("configmaps")
    );
    let now = w.get(&path).await?.ok()?;
    ensure!(
        names(&now) == ["b", "c"] || names(&now) == ["a", "b"] || names(&now) == ["b"],
        "{now}"
    );
    Ok(())
}

async fn a_list_of_the_future_is_refused(w: &World) -> Result<()> {
    let path = format!("{}?resourceVersion=999999999", w.core("configmaps"));
    let answer = w.get(&path).await?;
    ensure!(
        answer.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge",
        "{answer:?}"
    );
    answer.refused(504, "Timeout")?;
    Ok(())
}

async fn metadata_alone_is_a_kind_of_its_own(w: &World) -> Result<()> {
    let made = w.with_map("m", json!({"a": "1"})).await?;
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let one = w
        .send(
            "GET",
            &w.core("configmaps/m"),
            &[("accept", accept)],
            String::new(),
        )
        .await?
        .ok()?;
    ensure!(
        one["kind"] == "PartialObjectMetadata" && one["apiVersion"] == "meta.k8s.io/v1",
        "{one}"
    );
    ensure!(
        one["data"].is_null() && one["metadata"]["uid"] == made["metadata"]["uid"],
        "{one}"
    );
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let all = w
        .send(
            "GET",
            &w.core("configmaps"),
            &[("accept", accept)],
            String::new(),
        )
        .await?
        .ok()?;
    ensure!(
        all["kind"] == "PartialObjectMetadataList" && names(&all) == ["m"],
        "{all}"
    );
    ensure!(all["items"][0]["data"].is_null(), "{all}");
    Ok(())
}

async fn a_collection_is_deleted_by_labels(w: &World) -> Result<()> {
    maps(w, &["a", "b", "c"]).await?;
    w.delete(
        &format!("{}?labelSelector=is%3Db", w.core("configmaps")),
        &Value::Null,
    )
    .await?
    .ok()?;
    ensure!(select(w, "of").await? == ["a", "c"]);
    Ok(())
}
