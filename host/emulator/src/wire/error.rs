//! Errors, in the document that each protocol has for them.

use serde_json::json;

use super::request::Reply;
use super::route::Service;
use super::xml::{document, element, text};

/// An error that a service answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// `InvalidInstanceID.NotFound`.
    pub code: String,
    pub message: String,
    /// The status of HTTP.
    pub status: u16,
}

impl Refusal {
    /// An error with the status that belongs to its code, 400 for most.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        let code = code.into();
        Refusal {
            status: usual_status(&code),
            code,
            message: message.into(),
        }
    }

    /// The same error with another status.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn missing(name: &str) -> Self {
        let message = format!("The request must contain the parameter {name}");
        Refusal::new("MissingParameter", message)
    }

    /// The error as a reply of a service.
    pub(crate) fn reply(&self, service: Service, request_id: &str) -> Reply {
        match service {
            Service::Ec2 => self.ec2(request_id),
            Service::Iam | Service::Sts => self.query(service.namespace(), request_id),
            Service::Sqs => self.sqs(),
            Service::Ssm | Service::Pricing => self.json(&self.code),
            Service::Eks | Service::ZonalShift => self.rest(),
        }
    }

    fn ec2(&self, request_id: &str) -> Reply {
        let error = element(
            "Error",
            [text("Code", &self.code), text("Message", &self.message)],
        );
        let root = element(
            "Response",
            [element("Errors", [error]), text("RequestID", request_id)],
        );
        Reply::new(self.status, "text/xml;charset=UTF-8", document(&root, ""))
    }

    fn query(&self, namespace: &str, request_id: &str) -> Reply {
        let error = [
            text(
                "Type",
                if self.status < 500 {
                    "Sender"
                } else {
                    "Receiver"
                },
            ),
            text("Code", &self.code),
            text("Message", &self.message),
        ];
        let root = element(
            "ErrorResponse",
            [element("Error", error), text("RequestId", request_id)],
        );
        Reply::new(self.status, "text/xml", document(&root, namespace))
    }

    fn json(&self, kind: &str) -> Reply {
        let body = json!({"__type": kind, "message": self.message});
        Reply::new(self.status, "application/x-amz-json-1.1", body.to_string())
    }

    /// SQS's codes are those of its JSON protocol; the header has those of the query protocol.
    fn sqs(&self) -> Reply {
        let old = match &*self.code {
            "QueueDoesNotExist" => "AWS.SimpleQueueService.NonExistentQueue",
            "EmptyBatchRequest" => "AWS.SimpleQueueService.EmptyBatchRequest",
            "TooManyEntriesInBatchRequest" => "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
            "BatchEntryIdsNotDistinct" => "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
            other => other,
        };
        let side = if self.status < 500 {
            "Sender"
        } else {
            "Receiver"
        };
        let body = json!({
            "__type": format!("com.amazonaws.sqs#{}", self.code),
            "message": self.message,
        });
        Reply::new(self.status, "application/x-amz-json-1.0", body.to_string())
            .with("x-amzn-query-error", format!("{old};{side}"))
    }

    fn rest(&self) -> Reply {
        let body = json!({"message": self.message});
        Reply::new(self.status, "application/json", body.to_string())
            .with("x-amzn-errortype", &*self.code)
    }
}

/// Statuses other than 400, by code.
fn usual_status(code: &str) -> u16 {
    match code {
        "DryRunOperation" => 412,
        "UnauthorizedOperation" | "AccessDenied" | "SignatureDoesNotMatch" | "ExpiredToken" => 403,
        "InvalidClientTokenId" | "MissingAuthenticationToken" => 403,
        "AuthFailure" => 401,
        "NoSuchEntity" | "ResourceNotFoundException" => 404,
        "EntityAlreadyExists" | "DeleteConflict" | "LimitExceeded" => 409,
        "InsufficientInstanceCapacity" | "InternalError" | "InternalFailure" => 500,
        "InternalServiceError" | "ServerException" | "InternalServerError" => 500,
        "InsufficientHostCapacity" | "InsufficientCapacity" => 500,
        "RequestLimitExceeded" | "ServiceUnavailable" | "Unavailable" => 503,
        _ => 400,
    }
}
