//! Reads from the API server right before an irreversible step.
//!
//! A watch may lag, so an object missing from the state may still exist. Lists here name no
//! `resourceVersion`, so that the server answers from the newest version (a quorum read). An answer
//! that is not a list is an error and not an empty list.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, DeleteParams, Preconditions};
use longshore_api::crd::NodeClaim;
use longshore_api::labels;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::act::context::Context;
use crate::observe::node::NodeView;
use crate::observe::node_claim::is_true;
use crate::process::step_error::StepError;
use longshore_core::model::conditions::INITIALIZED;

/// Objects of a page.
const PAGE_SIZE: usize = 500;

/// The Node of a name; nothing if there is none.
///
/// # Errors
/// What the server says, or that the answer is not a Node.
pub async fn node(client: &Client, name: &str) -> Result<Option<NodeView>, StepError> {
    match client
        .request_text(get(&format!("/api/v1/nodes/{name}"))?)
        .await
    {
        Ok(text) => Ok(Some(NodeView::read(&text)?)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The NodeClaim of a name; nothing if there is none.
///
/// # Errors
/// What the server says, or that the answer is not a NodeClaim.
pub async fn claim(client: &Client, name: &str) -> Result<Option<NodeClaim>, StepError> {
    let path = format!("/apis/karpenter.sh/v1/nodeclaims/{name}");
    match client.request_text(get(&path)?).await {
        Ok(text) => serde_json::from_str(&text)
            .map(Some)
            .map_err(StepError::other),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The Nodes that have one of these provider IDs, among those of a NodePool, or among all.
///
/// # Errors
/// What the server says.
pub async fn nodes_with(
    client: &Client,
    pool: &str,
    ids: &BTreeSet<&str>,
) -> Result<Vec<NodeView>, StepError> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Head {
        spec: Spec,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Spec {
        #[serde(rename = "providerID")]
        provider_id: String,
    }
    let mut found = Vec::new();
    list(client, &in_pool("/api/v1/nodes", pool), |text| {
        let head: Head = serde_json::from_str(text).map_err(StepError::other)?;
        if ids.contains(head.spec.provider_id.as_str()) {
            found.push(NodeView::read(text)?);
        }
        Ok(())
    })
    .await?;
    Ok(found)
}

/// The NodeClaims of a NodePool, or all.
///
/// # Errors
/// What the server says.
pub async fn claims(client: &Client, pool: &str) -> Result<Vec<NodeClaim>, StepError> {
    let mut found = Vec::new();
    list(
        client,
        &in_pool("/apis/karpenter.sh/v1/nodeclaims", pool),
        |text| keep(text, &mut found),
    )
    .await?;
    Ok(found)
}

/// Whether the NodeClaims of these names are there, initialized, and not on their way out.
///
/// # Errors
/// What the server says.
pub async fn are_initialized(client: &Client, names: &[String]) -> Result<bool, StepError> {
    for name in names {
        let Some(claim) = self::claim(client, name).await? else {
            return Ok(false);
        };
        let status = claim.status.unwrap_or_default();
        let there = claim.metadata.deletion_timestamp.is_none();
        if !there || !is_true(&status, INITIALIZED) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The pods of a node, and the version of the list.
///
/// # Errors
/// What the server says.
pub async fn pods_on<T: DeserializeOwned>(
    client: &Client,
    node: &str,
) -> Result<(Vec<T>, String), StepError> {
    let mut found = Vec::new();
    let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}&");
    let version = list(client, &path, |text| keep(text, &mut found)).await?;
    Ok((found, version))
}

/// Deletes a Node if it is still the one that was read. One that is gone is no error.
///
/// # Errors
/// What the server says.
pub async fn delete_node(ctx: &Context, node: &NodeView) -> Result<(), StepError> {
    ctx.may_write()?;
    let api: Api<Node> = Api::all(ctx.client.clone());
    let uid = Some(node.uid.clone()).filter(|uid| !uid.is_empty());
    let params = DeleteParams::default().preconditions(Preconditions {
        uid,
        resource_version: None,
    });
    match api.delete(&node.name, &params).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

fn keep<T: DeserializeOwned>(text: &str, found: &mut Vec<T>) -> Result<(), StepError> {
    found.push(serde_json::from_str(text).map_err(StepError::other)?);
    Ok(())
}

/// The path of a list of what belongs to a NodePool, or to any.
fn in_pool(path: &str, pool: &str) -> String {
    match pool {
        "" => format!("{path}?"),
        pool => format!(
            "{path}?labelSelector={}%3D{pool}&",
            labels::NODEPOOL.replace('/', "%2F")
        ),
    }
}

fn get(path: &str) -> Result<http::Request<Vec<u8>>, StepError> {
    http::Request::get(path)
        .body(Vec::new())
        .map_err(StepError::other)
}

/// Hands on every object of a list, page by page. Returns the version of the list.
async fn list(
    client: &Client,
    path: &str,
    mut object: impl FnMut(&str) -> Result<(), StepError>,
) -> Result<String, StepError> {
    let mut token = String::new();
    loop {
        let request = get(&format!("{path}limit={PAGE_SIZE}&continue={token}"))?;
        let text = client
            .request_text(request)
            .await
            .map_err(StepError::other)?;
        let (meta, items) = page(&text)?;
        items.iter().try_for_each(|item| object(item.get()))?;
        if meta.next.is_empty() {
            return Ok(meta.resource_version);
        }
        // Tokens are base64 for URLs.
        token = meta
            .next
            .replace('=', "%3D")
            .replace('+', "%2B")
            .replace('/', "%2F");
    }
}

/// The metadata of a list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
    #[serde(rename = "continue", default)]
    next: String,
}

/// A page of a list; an error where the text is none.
fn page(text: &str) -> Result<(ListMeta, Vec<&RawValue>), StepError> {
    #[derive(Deserialize)]
    struct Page<'a> {
        metadata: ListMeta,
        #[serde(borrow)]
        items: Vec<&'a RawValue>,
    }
    let page: Page<'_> = serde_json::from_str(text)
        .map_err(|e| format!("the answer to a list is not a list: {e}"))?;
    Ok((page.metadata, page.items))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_list_is_not_an_empty_list() {
        let whole =
            page(r#"{"metadata":{"resourceVersion":"7","continue":"a"},"items":[{"x":1},{}]}"#)
                .unwrap();
        assert_eq!(
            (
                whole.0.resource_version.as_str(),
                whole.0.next.as_str(),
                whole.1.len()
            ),
            ("7", "a", 2)
        );
        assert_eq!(
            page(r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#)
                .unwrap()
                .1
                .len(),
            0
        );
        for broken in [
            "",
            "{}",
            r#"{"kind":"Status"}"#,
            r#"{"metadata":{"resourceVersion":"7"}}"#,
            r#"{"items":[]}"#,
        ] {
            assert!(page(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn lists_are_narrowed_to_a_nodepool_where_there_is_one() {
        assert_eq!(in_pool("/api/v1/nodes", ""), "/api/v1/nodes?");
        assert_eq!(
            in_pool("/api/v1/nodes", "web"),
            "/api/v1/nodes?labelSelector=karpenter.sh%2Fnodepool%3Dweb&"
        );
    }
}
