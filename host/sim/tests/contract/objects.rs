//! Creating, replacing, and what the server adds.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::tests;
use crate::world::{World, version};

tests![a_new_object_gets_a_uid_a_version_and_a_time, a_name_is_taken_once,];

async fn a_new_object_gets_a_uid_a_version_and_a_time(w: &World) -> Result<()> {
    let made = w.with_map("one", json!({"a": "1"})).await?;
    let metadata = &made["metadata"];
    ensure!(metadata["uid"].as_str().is_some_and(|uid| uid.len() == 36), "{made}");
    ensure!(version(&made).parse::<u64>().is_ok_and(|version| version > 0), "{made}");
    ensure!(metadata["creationTimestamp"].as_str().is_some_and(|at| at.len() == 20 && at.ends_with('Z')), "{made}");
    ensure!(made["kind"] == "ConfigMap" && made["apiVersion"] == "v1" && metadata["namespace"] == w.namespace);
    Ok(())
}

async fn a_name_is_taken_once(w: &World) -> Result<()> {
    w.with_map("one", json!({})).await?;
    let again = w.post(&w.core("configmaps"), &json!({"metadata": {"name": "one"}})).await?;
    ensure!(again.body["details"]["name"] == "one" && again.body["details"]["kind"] == "configmaps");
    let message = again.refused(409, "AlreadyExists")?;
    ensure!(message == "configmaps \"one\" already exists", "{message}");
    Ok(())
}
