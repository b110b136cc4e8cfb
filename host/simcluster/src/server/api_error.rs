//! Errors in the words of a real server.
//!
//! Clients read `code` and `reason`; people, and one or two clients, read the message.

pub use longshore_api::crd::admission::Cause;
use serde_json::{Map, Value, json};

use crate::object::{ApiError, Resource};

/// A refusal with what only its text needs.
#[derive(Clone, Debug)]
pub struct ApiErrorWithDetails {
    /// What the caller goes by.
    pub error: ApiError,
    /// `details` of the Status.
    pub details: Map<String, Value>,
    /// A token to go on with, for a list that has become stale.
    pub next: Option<String>,
}

impl From<ApiErrorWithDetails> for ApiError {
    fn from(refused: ApiErrorWithDetails) -> ApiError {
        refused.error
    }
}

impl ApiErrorWithDetails {
    /// A refusal with nothing but words.
    pub fn plain(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        let refusal = ApiError {
            code,
            reason,
            message: message.into(),
        };
        ApiErrorWithDetails {
            error: refusal,
            details: Map::new(),
            next: None,
        }
    }

    fn about(mut self, resource: Resource, name: &str) -> Self {
        self.details.insert("name".into(), json!(name));
        if !resource.group.is_empty() {
            self.details.insert("group".into(), json!(resource.group));
        }
        self.details.insert("kind".into(), json!(resource.plural));
        self
    }

    /// A cause among the details.
    pub fn because(mut self, causes: Value) -> Self {
        self.details.insert("causes".into(), causes);
        self
    }

    /// 400.
    pub fn bad(message: impl Into<String>) -> Self {
        ApiErrorWithDetails::plain(400, "BadRequest", message)
    }

    /// 404 for an object.
    pub fn not_found(resource: Resource, name: &str) -> Self {
        ApiErrorWithDetails::plain(
            404,
            "NotFound",
            format!("{} \"{name}\" not found", resource.qualified()),
        )
        .about(resource, name)
    }

    /// 404 for a path.
    pub fn nowhere() -> Self {
        ApiErrorWithDetails::plain(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    /// 409 for a name that is taken.
    pub fn exists(resource: Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        ApiErrorWithDetails::plain(409, "AlreadyExists", message).about(resource, name)
    }

    /// 409 for a version that is not the last.
    pub fn conflict(resource: Resource, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            resource.qualified()
        );
        ApiErrorWithDetails::plain(409, "Conflict", message).about(resource, name)
    }

    /// 409 for an object that has changed since.
    pub fn changed(resource: Resource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        ApiErrorWithDetails::conflict(resource, name, why)
    }

    /// 403.
    pub fn forbidden(resource: Resource, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", resource.qualified());
        ApiErrorWithDetails::plain(403, "Forbidden", message).about(resource, name)
    }

    /// 422.
    pub fn invalid(resource: Resource, name: &str, causes: &[Cause]) -> Self {
        let words: Vec<String> = causes
            .iter()
            .map(|c| format!("{}: {}", c.field, c.message))
            .collect();
        let words = match &words[..] {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let kind = match resource.group {
            "" => resource.kind.to_owned(),
            group => format!("{}.{group}", resource.kind),
        };
        let mut refused = ApiErrorWithDetails::plain(
            422,
            "Invalid",
            format!("{kind} \"{name}\" is invalid: {words}"),
        );
        refused = refused.about(resource, name);
        refused.details.insert("kind".into(), json!(resource.kind));
        let cause = |c: &Cause| json!({"reason": c.reason, "message": c.message, "field": c.field});
        refused.because(causes.iter().map(cause).collect())
    }

    /// 422 for parameters of a list or a watch.
    pub fn invalid_options(cause: &Cause) -> Self {
        let Cause {
            field,
            reason,
            message,
        } = cause;
        let words = format!("ListOptions.meta.k8s.io \"\" is invalid: {field}: {message}");
        let mut refused = ApiErrorWithDetails::plain(422, "Invalid", words);
        refused.details.insert("group".into(), json!("meta.k8s.io"));
        refused.details.insert("kind".into(), json!("ListOptions"));
        refused.because(json!([{"reason": reason, "message": message, "field": field}]))
    }

    /// 410: the version is older than the server's memory.
    pub fn expired(asked: u64, oldest: u64) -> Self {
        ApiErrorWithDetails::plain(
            410,
            "Expired",
            format!("too old resource version: {asked} ({oldest})"),
        )
    }

    /// 405.
    pub fn no_such_verb() -> Self {
        let message = "the server does not allow this method on the requested resource";
        ApiErrorWithDetails::plain(405, "MethodNotAllowed", message)
    }

    /// 415.
    pub fn media_type(given: &str, known: &[&str]) -> Self {
        let known = known.join(", ");
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {known}"
        );
        let mut refused = ApiErrorWithDetails::plain(415, "UnsupportedMediaType", message);
        refused.details.insert("given".into(), json!(given));
        refused
    }

    /// As `metav1.Status`.
    pub fn status(&self) -> Value {
        let ApiError {
            code,
            reason,
            message,
        } = &self.error;
        let mut metadata = Map::new();
        if let Some(next) = &self.next {
            metadata.insert("continue".into(), json!(next));
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure",
            "message": message, "reason": reason, "code": code,
        });
        if !self.details.is_empty() {
            status["details"] = Value::Object(self.details.clone());
        }
        status
    }
}
