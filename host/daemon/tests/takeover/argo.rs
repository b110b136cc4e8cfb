//! What Argo CD does to a cluster in a sync with pruning: objects of the source are applied with the
//! tracking annotation, and objects with it that are not of the source are deleted, unless they say
//! that they must not.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::scene::Scene;

const TRACKED: &str = "argocd.argoproj.io/tracking-id";
const KINDS: &str = "crd,clusterroles,clusterrolebindings,roles,rolebindings,deployments,services,\
                     serviceaccounts,poddisruptionbudgets";

/// Syncs an Application `karpenter`. What was pruned, as `Kind/name`.
///
/// # Errors
/// An object cannot be applied or deleted.
pub fn sync(scene: &Scene, manifests: &str) -> Result<Vec<String>> {
    let mut source: Vec<Value> = serde_saphyr::from_multiple(manifests)?;
    source.retain(Value::is_object);
    let mut wanted = BTreeSet::new();
    for object in &mut source {
        let id = id(object).context("an object without a name")?;
        object["metadata"]["annotations"][TRACKED] = json!(format!("karpenter:{id}"));
        wanted.insert(id);
    }
    let file = scene.folder.join("sync.yaml");
    let texts: Vec<String> = source.iter().map(Value::to_string).collect();
    std::fs::write(&file, texts.join("\n---\n"))?;
    let file = file.to_str().context("a path that is no text")?;
    scene.plane.run(&["apply", "-f", file])?;
    let live = scene.plane.run(&["get", KINDS, "-A", "-o", "json"])?;
    let live: Value = serde_json::from_str(&live)?;
    let mut pruned = Vec::new();
    for object in live["items"].as_array().into_iter().flatten() {
        let annotations = &object["metadata"]["annotations"];
        let id = id(object).context("an object without a name")?;
        let tracked = annotations[TRACKED] == format!("karpenter:{id}");
        if !tracked || wanted.contains(&id) || stays(annotations) {
            continue;
        }
        let kind = object["kind"].as_str().unwrap_or_default();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let mut delete = vec!["delete", kind, name, "--wait=false"];
        let namespace = object["metadata"]["namespace"].as_str();
        delete.extend(namespace.iter().flat_map(|one| ["--namespace", one]));
        scene.plane.run(&delete)?;
        pruned.push(format!("{kind}/{name}"));
    }
    Ok(pruned)
}

/// Whether an object says that it must not be pruned.
fn stays(annotations: &Value) -> bool {
    let options = annotations["argocd.argoproj.io/sync-options"].as_str();
    let no_prune = options.is_some_and(|all| all.split(',').any(|one| one.trim() == "Prune=false"));
    no_prune || annotations["helm.sh/resource-policy"] == "keep"
}

/// `kind/namespace/name`.
fn id(object: &Value) -> Option<String> {
    let metadata = &object["metadata"];
    Some(format!(
        "{}/{}/{}",
        object["kind"].as_str()?,
        metadata["namespace"].as_str().unwrap_or_default(),
        metadata["name"].as_str()?
    ))
}
