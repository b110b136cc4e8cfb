//! The API server's audit log, which records the requests of controllers, and what is bound.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// Name of the log in a cluster's folder.
pub const LOG: &str = "audit.log";
/// Name of the policy in a cluster's folder.
pub const POLICY: &str = "audit.yaml";
/// The user of a foreign controller.
pub const OTHER: &str = "other-controller";
/// The user that `deploy/rbac.yaml` makes.
pub const OURS: &str = "system:serviceaccount:kube-system:karpenter";

/// What is recorded: each request of the two users and each binding, once. Only changes of Nodes by
/// Longshore have their bodies, so that it costs little.
pub fn policy() -> String {
    format!(
        "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {{level: Request, users: ['{OURS}'], verbs: [patch, update], resources: [{{resources: [nodes]}}]}}
- {{level: Metadata, resources: [{{resources: [pods/binding]}}]}}
- {{level: Metadata, users: ['{OURS}', '{OTHER}']}}
- {{level: None}}
"
    )
}

/// A request that was answered, or a watch that was begun.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// When it was answered, or the watch begun: RFC 3339 in UTC with microseconds, so that texts
    /// are in the order of time.
    pub at: String,
    /// The user that it was sent as.
    pub user: String,
    /// The token that was used, by an id, which distinguishes replicas of one user.
    pub credential: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// As in `pods` or `pods/eviction`; empty for what is no resource.
    pub resource: String,
    /// The object's namespace and name, where they are known before the answer.
    pub object: String,
    /// The answer's status.
    pub code: u64,
    /// What was sent, where it is recorded.
    pub body: Value,
}

impl Request {
    /// Whether it asked for a change.
    pub fn is_write(&self) -> bool {
        !matches!(
            self.verb.as_str(),
            "get" | "list" | "watch" | "head" | "options"
        )
    }

    /// Whether it was a write and changed something.
    pub fn changed(&self) -> bool {
        self.is_write() && self.code < 400
    }

    /// Nothing of an event that does not end a request, for a watch: that does not begin it.
    fn read(event: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let verb = text(&event["verb"]);
        if (verb == "watch") != (event["stage"] == "ResponseStarted") {
            return None;
        }
        let object = &event["objectRef"];
        let joined = |one: &Value, other: &Value| match (text(one), text(other)) {
            (one, other) if other.is_empty() => one,
            (one, other) if one.is_empty() => other,
            (one, other) => format!("{one}/{other}"),
        };
        Some(Request {
            at: text(&event["stageTimestamp"]),
            user: text(&event["user"]["username"]),
            credential: text(
                &event["user"]["extra"]["authentication.kubernetes.io/credential-id"][0],
            ),
            verb,
            resource: joined(&object["resource"], &object["subresource"]),
            object: joined(&object["namespace"], &object["name"]),
            code: event["responseStatus"]["code"].as_u64().unwrap_or(0),
            body: event["requestObject"].clone(),
        })
    }
}

/// All requests so far, in the order of their answers; none if there is no log yet.
pub fn requests(folder: &Path) -> Result<Vec<Request>> {
    let file = folder.join(LOG);
    let text = match std::fs::read_to_string(&file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.with_context(|| format!("cannot read {}", file.display()))?,
    };
    // The last line may be half written.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let events = whole
        .lines()
        .map(|line| serde_json::from_str(line).context("a line of the audit log is no JSON"));
    events
        .filter_map(|event| event.map(|event| Request::read(&event)).transpose())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(event: &str) -> Option<Request> {
        Request::read(&serde_json::from_str(event).unwrap())
    }

    #[test]
    fn a_request_is_counted_once() {
        let write = r#"{"stage": "ResponseComplete", "stageTimestamp": "2026-11-25T14:00:00.000001Z", "verb": "create", "responseStatus": {"code": 409},
            "user": {"username": "a", "extra": {"authentication.kubernetes.io/credential-id": ["JTI=1"]}},
            "objectRef": {"resource": "pods", "subresource": "eviction", "namespace": "shop", "name": "web"}}"#;
        let expected = Request {
            at: "2026-11-25T14:00:00.000001Z".into(),
            user: "a".into(),
            credential: "JTI=1".into(),
            verb: "create".into(),
            resource: "pods/eviction".into(),
            object: "shop/web".into(),
            code: 409,
            body: Value::Null,
        };
        assert_eq!(read(write), Some(expected.clone()));
        assert!(expected.is_write() && !expected.changed());
        assert!(read(r#"{"stage": "ResponseStarted", "verb": "watch"}"#).is_some());
        assert!(read(r#"{"stage": "ResponseComplete", "verb": "watch"}"#).is_none());
    }

    #[test]
    fn the_policy_names_the_users_that_are_recorded() {
        assert!(policy().contains(
            "users: ['system:serviceaccount:kube-system:karpenter', 'other-controller']"
        ));
    }
}
