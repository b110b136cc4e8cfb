//! Watches: where they begin, what they send, how they end.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::tests;
use crate::world::{World, plain, version};

tests![
    a_watch_tells_what_happens_after_a_version,
    a_watch_without_a_version_begins_with_what_is_there,
    a_watch_from_zero_begins_with_what_is_there,
    a_watch_of_labels_tells_what_comes_and_goes,
    a_watch_of_a_field_tells_what_comes,
    an_initial_list_ends_with_a_bookmark,
    initial_events_have_to_be_asked_for_properly,
    a_watch_ends_in_time,
    a_bookmark_comes_before_the_end_of_a_watch,
    a_deleted_object_is_told_with_the_version_of_its_end,
    a_watch_of_metadata_tells_metadata,
    a_write_that_changes_nothing_is_not_told,
    a_watch_from_a_listed_version_misses_nothing,
    a_watch_of_one_name_tells_of_no_other,
    a_bad_version_is_refused,
];

fn from(path: &str, version: &str) -> String {
    format!("{path}?watch=1&resourceVersion={version}")
}

async fn a_watch_tells_what_happens_after_a_version(w: &World) -> Result<()> {
    let first = w.with_map("a", json!({})).await?;
    let mut watch = w
        .watch(&from(&w.core("configmaps"), version(&first)))
        .await?;
    w.with_map("b", json!({})).await?;
    w.patch(
        &w.core("configmaps/a"),
        "merge",
        &json!({"data": {"x": "1"}}),
    )
    .await?
    .ok()?;
    w.delete(&w.core("configmaps/a"), &Value::Null)
        .await?
        .ok()?;
    for wanted in ["ADDED b", "MODIFIED a", "DELETED a"] {
        let event = watch.next_change().await?;
        ensure!(event == wanted, "{event}");
    }
    Ok(())
}

async fn begins_with_what_is_there(w: &World, version: &str) -> Result<()> {
    w.with_map("a", json!({})).await?;
    w.with_map("b", json!({})).await?;
    let mut watch = w.watch(&from(&w.core("configmaps"), version)).await?;
    let mut events = vec![watch.next_change().await?, watch.next_change().await?];
    events.sort();
    ensure!(events == ["ADDED a", "ADDED b"], "{events:?}");
    w.with_map("c", json!({})).await?;
    ensure!(watch.next_change().await? == "ADDED c");
    Ok(())
}

async fn a_watch_without_a_version_begins_with_what_is_there(w: &World) -> Result<()> {
    begins_with_what_is_there(w, "").await
}

async fn a_watch_from_zero_begins_with_what_is_there(w: &World) -> Result<()> {
    begins_with_what_is_there(w, "0").await
}

async fn a_watch_of_labels_tells_what_comes_and_goes(w: &World) -> Result<()> {
    let first = w.with_map("a", json!({})).await?;
    let path = format!(
        "{}&labelSelector=in%3Dyes",
        from(&w.core("configmaps"), version(&first))
    );
    let mut watch = w.watch(&path).await?;
    let label = |value: Value| json!({"metadata": {"labels": {"in": value}}});
    w.with_map("other", json!({})).await?;
    w.patch(&w.core("configmaps/a"), "merge", &label(json!("yes")))
        .await?
        .ok()?;
    w.patch(
        &w.core("configmaps/a"),
        "merge",
        &json!({"data": {"x": "1"}}),
    )
    .await?
    .ok()?;
    let out = w
        .patch(&w.core("configmaps/a"), "merge", &label(json!("no")))
        .await?
        .ok()?;
    w.delete(&w.core("configmaps/a"), &Value::Null)
        .await?
        .ok()?;
    ensure!(watch.next_change().await? == "ADDED a");
    ensure!(watch.next_change().await? == "MODIFIED a");
    let gone = watch.next().await?.context("the watch has ended")?;
    ensure!(
        gone["type"] == "DELETED" && gone["object"]["metadata"]["labels"]["in"] == "yes",
        "{gone}"
    );
    ensure!(version(&gone["object"]) == version(&out), "{gone}");
    Ok(())
}

async fn a_watch_of_a_field_tells_what_comes(w: &World) -> Result<()> {
    let first = w.with_pod("a", json!({})).await?;
    let node = w.named("node");
    let path = format!(
        "{}&fieldSelector=spec.nodeName%3D{node}",
        from(&w.core("pods"), version(&first))
    );
    let mut watch = w.watch(&path).await?;
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": node}});
    w.post(&w.core("pods/a/binding"), &binding).await?.ok()?;
    let event = watch.next_change().await?;
    ensure!(event == "ADDED a", "{event}");
    Ok(())
}

async fn an_initial_list_ends_with_a_bookmark(w: &World) -> Result<()> {
    let first = w.with_map("a", json!({})).await?;
    let path = format!(
        "{}?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&resourceVersion={}",
        w.core("configmaps"),
        version(&first)
    );
    let mut watch = w.watch(&path).await?;
    ensure!(watch.next_change().await? == "ADDED a");
    let mark = watch.next().await?.context("the watch has ended")?;
    ensure!(mark["type"] == "BOOKMARK", "{mark}");
    ensure!(
        mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true",
        "{mark}"
    );
    ensure!(
        mark["object"]["kind"] == "ConfigMap" && mark["object"]["apiVersion"] == "v1",
        "{mark}"
    );
    ensure!(
        version(&mark["object"]).parse::<u64>()? >= version(&first).parse::<u64>()?,
        "{mark}"
    );
    w.with_map("b", json!({})).await?;
    ensure!(watch.next_change().await? == "ADDED b");
    Ok(())
}

async fn initial_events_have_to_be_asked_for_properly(w: &World) -> Result<()> {
    let path = format!("{}?watch=1&sendInitialEvents=true", w.core("configmaps"));
    w.get(&path).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn a_watch_ends_in_time(w: &World) -> Result<()> {
    let first = w.with_map("a", json!({})).await?;
    let path = format!(
        "{}&timeoutSeconds=2",
        from(&w.core("configmaps"), version(&first))
    );
    let mut watch = w.watch(&path).await?;
    ensure!(watch.next().await?.is_none());
    Ok(())
}

/// They come about every minute as well, which is longer than this wants to wait for a real server.
async fn a_bookmark_comes_before_the_end_of_a_watch(w: &World) -> Result<()> {
    let first = w.with_map("a", json!({})).await?;
    let path = format!(
        "{}&allowWatchBookmarks=true&timeoutSeconds=6",
        from(&w.core("configmaps"), version(&first))
    );
    let mut watch = w.watch(&path).await?;
    let mark = watch.next().await?.context("the watch has ended")?;
    ensure!(
        mark["type"] == "BOOKMARK" && mark["object"]["kind"] == "ConfigMap",
        "{mark}"
    );
    ensure!(
        version(&mark["object"]).parse::<u64>()? >= version(&first).parse::<u64>()?,
        "{mark}"
    );
    // A real server sends more of them as the end comes near.
    while let Some(mark) = watch.next().await? {
        ensure!(mark["type"] == "BOOKMARK", "{mark}");
    }
    Ok(())
}

async fn a_deleted_object_is_told_with_the_version_of_its_end(w: &World) -> Result<()> {
    let first = w.with_map("a", json!({})).await?;
    let mut watch = w
        .watch(&from(&w.core("configmaps"), version(&first)))
        .await?;
    w.delete(&w.core("configmaps/a"), &Value::Null)
        .await?
        .ok()?;
    let gone = watch.next().await?.context("the watch has ended")?;
    ensure!(gone["type"] == "DELETED", "{gone}");
    ensure!(
        version(&gone["object"]).parse::<u64>()? > version(&first).parse::<u64>()?,
        "{gone}"
    );
    Ok(())
}

async fn a_watch_of_metadata_tells_metadata(w: &World) -> Result<()> {
    let first = w.with_map("a", json!({})).await?;
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let path = from(&w.core("configmaps"), version(&first));
    let mut watch = w.watch_as(&path, accept).await?;
    w.with_map("b", json!({"x": "1"})).await?;
    let event = watch.next().await?.context("the watch has ended")?;
    ensure!(
        event["type"] == "ADDED" && event["object"]["kind"] == "PartialObjectMetadata",
        "{event}"
    );
    ensure!(
        event["object"]["data"].is_null() && event["object"]["metadata"]["name"] == "b",
        "{event}"
    );
    Ok(())
}

async fn a_write_that_changes_nothing_is_not_told(w: &World) -> Result<()> {
    let first = w.with_map("a", json!({"x": "1"})).await?;
    let mut watch = w
        .watch(&from(&w.core("configmaps"), version(&first)))
        .await?;
    w.put(&w.core("configmaps/a"), &first).await?.ok()?;
    w.patch(
        &w.core("configmaps/a"),
        "merge",
        &json!({"data": {"x": "1"}}),
    )
    .await?
    .ok()?;
    w.with_map("b", json!({})).await?;
    ensure!(watch.next_change().await? == "ADDED b");
    Ok(())
}

async fn a_watch_from_a_listed_version_misses_nothing(w: &World) -> Result<()> {
    w.with_map("a", json!({})).await?;
    let list = w.get(&w.core("configmaps")).await?.ok()?;
    w.with_map("b", json!({})).await?;
    w.with_map("c", json!({})).await?;
    let mut watch = w
        .watch(&from(&w.core("configmaps"), version(&list)))
        .await?;
    ensure!(watch.next_change().await? == "ADDED b");
    ensure!(watch.next_change().await? == "ADDED c");
    Ok(())
}

async fn a_watch_of_one_name_tells_of_no_other(w: &World) -> Result<()> {
    let first = w.with_map("a", json!({})).await?;
    let path = format!(
        "{}&fieldSelector=metadata.name%3Dc",
        from(&w.core("configmaps"), version(&first))
    );
    let mut watch = w.watch(&path).await?;
    w.with_map("b", json!({})).await?;
    w.with_map("c", json!({})).await?;
    ensure!(watch.next_change().await? == "ADDED c");
    Ok(())
}

async fn a_bad_version_is_refused(w: &World) -> Result<()> {
    let answer = w.get(&from(&w.core("configmaps"), "many")).await?;
    ensure!(answer.code == 500, "{answer:?}");
    ensure!(
        plain(&answer.body["message"]).starts_with("resourceVersion: Invalid value: \"many\""),
        "{answer:?}"
    );
    let answer = w
        .get(&format!("{}?resourceVersion=many", w.core("configmaps")))
        .await?;
    ensure!(answer.code == 400, "{answer:?}");
    Ok(())
}
