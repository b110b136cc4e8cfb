//! Parses requests (paths, verbs, parameters) and encodes answers.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use http::{Method, Request, Response};
use serde_json::{Value, json};

use super::fault_gate::RequestInfo;
use crate::object::Resource;
use crate::server::api_error::ApiErrorWithDetails;
use crate::server::resources;

/// A list is to be answered as of this revision.
#[derive(Clone, Copy, Debug)]
pub struct AsOf(pub u64);

/// The place that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestPath {
    pub resource: Resource,
    /// Empty for all of them, or for a kind without.
    pub namespace: String,
    /// Empty for the collection.
    pub name: String,
    /// Such as `status`, or empty.
    pub sub: String,
}

impl RequestPath {
    /// Resource and namespace of a collection whose objects can be made or deleted.
    ///
    /// # Errors
    /// Objects of several namespaces are read alone.
    pub fn collection(&self) -> Result<(Resource, &str), ApiErrorWithDetails> {
        if self.resource.namespaced && self.namespace.is_empty() {
            return Err(ApiErrorWithDetails::no_such_verb());
        }
        Ok((self.resource, &self.namespace))
    }

    /// Reads a path, `/apis/GROUP/VERSION[/namespaces/NAME]/PLURAL[/NAME[/SUBRESOURCE]]`.
    pub fn read(path: &str) -> Option<RequestPath> {
        let parts: Vec<String> = path
            .split('/')
            .filter(|part| !part.is_empty())
            .map(decoded)
            .collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, version, rest) = match &parts[..] {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] if group.is_empty() => {
                ("", rest)
            }
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            _ => ("", rest),
        };
        let (plural, name, sub) = match rest {
            [plural] => (*plural, "", ""),
            [plural, name] => (*plural, *name, ""),
            [plural, name, sub] => (*plural, *name, *sub),
            _ => return None,
        };
        let resource = resources::find(group, version, plural)?;
        if !namespace.is_empty() && !resource.namespaced
            || (namespace.is_empty() && resource.namespaced && !name.is_empty())
        {
            return None;
        }
        let owned = str::to_owned;
        Some(RequestPath {
            resource,
            namespace: owned(namespace),
            name: owned(name),
            sub: owned(sub),
        })
    }
}

/// Parameters of a request.
#[derive(Clone)]
pub struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// From what follows the `?`.
    pub fn read(query: Option<&str>) -> Self {
        let pairs = query
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty());
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(&value.replace('+', " ")))
        };
        Parameters(pairs.map(pair).collect())
    }

    /// One of them, empty if it is not there.
    pub fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Whether one of them says yes.
    pub fn is(&self, name: &str) -> bool {
        matches!(self.get(name), "1" | "true")
    }
}

/// Takes percent signs apart.
fn decoded(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = bytes
            .get(at + 1..at + 3)
            .and_then(|hex| std::str::from_utf8(hex).ok());
        match hex
            .and_then(|hex| u8::from_str_radix(hex, 16).ok())
            .filter(|_| byte == b'%')
        {
            Some(decoded) => {
                out.push(decoded);
                at += 3;
            }
            None => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The head of a request, parsed once.
#[derive(Clone)]
pub struct Head {
    /// Nothing for a path that is none of a kind.
    pub place: Option<RequestPath>,
    pub parameters: Parameters,
    /// The verb of RBAC; empty for unknown ones.
    pub verb: &'static str,
}

impl Head {
    pub fn read(request: &Request<Vec<u8>>) -> Self {
        let place = RequestPath::read(request.uri().path());
        let parameters = Parameters::read(request.uri().query());
        let verb = verb(request.method(), place.as_ref(), &parameters);
        Head {
            place,
            parameters,
            verb,
        }
    }

    /// The target of the request, for counts and faults.
    pub fn asked(&self, client: &str) -> RequestInfo {
        let (resource, subresource, namespace, name) = match self.place.clone() {
            Some(place) => (Some(place.resource), place.sub, place.namespace, place.name),
            None => Default::default(),
        };
        RequestInfo {
            client: client.to_owned(),
            verb: self.verb,
            resource,
            subresource,
            namespace,
            name,
            number: 0,
        }
    }
}

/// The verb of RBAC; empty for unknown ones.
pub fn verb(method: &Method, place: Option<&RequestPath>, parameters: &Parameters) -> &'static str {
    let whole = place.is_none_or(|place| place.name.is_empty());
    match *method {
        Method::GET if parameters.is("watch") => "watch",
        Method::GET if whole && place.is_some() => "list",
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if whole => "deletecollection",
        Method::DELETE => "delete",
        _ => "",
    }
}

/// The body of an answer: a whole, or a watch that is read as it comes.
pub enum Body {
    /// All there is; nothing once it is read.
    Full(Option<Bytes>),
    /// Lines of a watch.
    Watch(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        let bytes = match self.get_mut() {
            Body::Full(bytes) => Poll::Ready(bytes.take()),
            Body::Watch(stream) => stream.as_mut().poll_next(context),
        };
        bytes.map(|bytes| bytes.map(|bytes| Ok(http_body::Frame::data(bytes))))
    }
}

/// An answer of JSON.
pub fn answer(code: u16, text: impl Into<Bytes>) -> Response<Body> {
    respond(code, Body::Full(Some(text.into())), None)
}

/// An answer that is read as it comes.
pub fn stream(body: Body) -> Response<Body> {
    respond(200, body, None)
}

/// A refusal.
pub fn refuse(refused: &ApiErrorWithDetails) -> Response<Body> {
    let after = refused
        .details
        .get("retryAfterSeconds")
        .map(Value::to_string);
    respond(
        refused.error.code,
        Body::Full(Some(refused.status().to_string().into())),
        after,
    )
}

fn respond(code: u16, body: Body, retry_after: Option<String>) -> Response<Body> {
    let mut response = Response::builder()
        .status(code)
        .header("content-type", "application/json");
    if let Some(seconds) = retry_after {
        response = response.header("retry-after", seconds);
    }
    // Only a status below 100 or above 999 is none, and those come from tests alone.
    response
        .body(body)
        .unwrap_or_else(|_| Response::new(Body::Full(None)))
}

/// What a server says when there is nothing more to say.
pub fn success(details: &Value) -> Bytes {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
        .to_string()
        .into()
}
