//! Asks the API server, as a dry run, whether it takes objects in the place of those that are there.
//! Nothing is kept of it.

use std::path::Path;

use serde_json::Value;

use super::cluster::{connected, no_server};
use longshore_live::error::Failure;

/// Kinds of a chart: kind, plural, and whether they are in a namespace.
const KINDS: [(&str, &str, bool); 12] = [
    ("ClusterRole", "clusterroles", false),
    ("ClusterRoleBinding", "clusterrolebindings", false),
    ("ConfigMap", "configmaps", true),
    ("Deployment", "deployments", true),
    ("NetworkPolicy", "networkpolicies", true),
    ("PodDisruptionBudget", "poddisruptionbudgets", true),
    ("Role", "roles", true),
    ("RoleBinding", "rolebindings", true),
    ("Secret", "secrets", true),
    ("Service", "services", true),
    ("ServiceAccount", "serviceaccounts", true),
    ("ServiceMonitor", "servicemonitors", true),
];

/// What the server says of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Taken,
    /// It refuses it, and why.
    Refused(String),
    /// It was not asked, or does not let us, and why.
    Unknown(String),
}

/// Asks about each of the objects, in their order.
///
/// # Errors
/// The server cannot be reached.
pub fn ask(kubeconfig: Option<&Path>, objects: &[Value]) -> Result<Vec<Verdict>, Failure> {
    let (runtime, client) = connected(kubeconfig)?;
    runtime.block_on(async {
        let mut all = Vec::new();
        for object in objects {
            all.push(ask_one(&client, object).await?);
        }
        Ok(all)
    })
}

async fn ask_one(client: &kube::Client, object: &Value) -> Result<Verdict, Failure> {
    let Some((collection, name)) = place(object) else {
        let kind = object["kind"].as_str().unwrap_or_default();
        return Ok(Verdict::Unknown(format!(
            "objects of kind {kind} are not tried"
        )));
    };
    let found = send(client, "GET", &format!("{collection}/{name}"), None).await;
    let (method, path, body) = match found {
        // In the place of the one that is there.
        Ok(live) => {
            let mut body = object.clone();
            body["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
            ("PUT", format!("{collection}/{name}"), body)
        }
        Err(kube::Error::Api(status)) if status.code == 404 => ("POST", collection, object.clone()),
        Err(why) => return verdict(Err(why)),
    };
    let path = format!("{path}?dryRun=All&fieldManager=longshore-migrate");
    let answer = send(client, method, &path, Some(&body)).await;
    match answer {
        // It changed in between, and would be taken or refused like before.
        Err(kube::Error::Api(status)) if status.code == 409 && method == "PUT" => {
            let mut body = body;
            body["metadata"]["resourceVersion"] = Value::Null;
            verdict(send(client, method, &path, Some(&body)).await)
        }
        answer => verdict(answer),
    }
}

fn verdict(answer: Result<Value, kube::Error>) -> Result<Verdict, Failure> {
    match answer {
        Ok(_) => Ok(Verdict::Taken),
        Err(kube::Error::Api(status)) => Ok(match status.code {
            401 | 403 => Verdict::Unknown(status.message.clone()),
            404 => Verdict::Refused(format!(
                "the API server has no such kind: {}",
                status.message
            )),
            _ => Verdict::Refused(status.message.clone()),
        }),
        Err(why) => Err(no_server(&why.to_string())),
    }
}

async fn send(
    client: &kube::Client,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Result<Value, kube::Error> {
    let bytes = body.map(|body| body.to_string().into_bytes());
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(bytes.unwrap_or_default())
        .map_err(kube::Error::HttpError)?;
    client.request::<Value>(request).await
}

/// Where objects of its kind are, and its name. Nothing for a kind that no chart of ours has.
fn place(object: &Value) -> Option<(String, &str)> {
    let (_, plural, spaced) = KINDS.iter().find(|(kind, ..)| object["kind"] == *kind)?;
    let version = object["apiVersion"].as_str()?;
    let name = object["metadata"]["name"].as_str()?;
    let root = match version.contains('/') {
        true => format!("/apis/{version}"),
        false => format!("/api/{version}"),
    };
    let space = match spaced {
        true => format!("/namespaces/{}", object["metadata"]["namespace"].as_str()?),
        false => String::new(),
    };
    Some((format!("{root}{space}/{plural}"), name))
}

/// `Kind namespace/name`.
pub fn called(object: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let name = match metadata["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{}", text(&metadata["name"])),
        None => text(&metadata["name"]),
    };
    (text(&object["kind"]), name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_found_below_their_group_and_namespace() {
        let object = |version: &str, kind: &str, namespace: Value| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "k", "namespace": namespace}});
        let at = |object: &Value| place(object).map(|(path, name)| format!("{path} {name}"));
        let role = object("rbac.authorization.k8s.io/v1", "ClusterRole", Value::Null);
        let expected = "/apis/rbac.authorization.k8s.io/v1/clusterroles k";
        assert_eq!(at(&role).as_deref(), Some(expected));
        let account = object("v1", "ServiceAccount", json!("karpenter"));
        let expected = "/api/v1/namespaces/karpenter/serviceaccounts k";
        assert_eq!(at(&account).as_deref(), Some(expected));
        assert_eq!(at(&object("v1", "Pod", json!("karpenter"))), None);
        assert_eq!(
            called(&account),
            ("ServiceAccount".to_owned(), "karpenter/k".to_owned())
        );
    }
}
