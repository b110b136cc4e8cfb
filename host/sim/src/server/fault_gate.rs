//! The gate between a client and the server: faults and request counts.
//!
//! The fault policy sees every request of every client in order of arrival and answers with a
//! [`Verdict`]. Calls of actors through the methods of [`Server`](super::Server) do not pass here.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::{self, Future};
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use http::header::DATE;
use http::{HeaderValue, Request, Response};
use k8s_openapi::jiff::fmt::rfc2822;
use serde_json::json;

use super::Server;
use super::api_error::ApiErrorWithDetails;
use super::request;
use crate::object::Resource;

/// After this time a client gives up on a request that is not answered.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);

/// A request of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestInfo {
    /// Whose client it is.
    pub client: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: &'static str,
    /// The kind, nothing for a path that is none of a kind.
    pub resource: Option<Resource>,
    /// Such as `status`, or empty.
    pub subresource: String,
    /// Of the path, or empty.
    pub namespace: String,
    /// Of the path, or empty.
    pub name: String,
    /// How many requests came before it, of all clients.
    pub number: u64,
}

/// What becomes of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is answered.
    Go,
    /// It is refused, and nothing is done.
    Refuse {
        /// HTTP status, as 500.
        code: u16,
        /// As `InternalError`.
        reason: &'static str,
        /// Seconds of a `Retry-After`.
        retry_after: Option<u32>,
    },
    /// It is carried out, and answered with this all the same.
    RefuseAfter {
        /// HTTP status, as 504.
        code: u16,
        /// As `Timeout`.
        reason: &'static str,
    },
    /// Nothing is done; the client hears nothing and gives up after [`CLIENT_TIMEOUT`].
    TimeOutBefore,
    /// It is carried out, but the client hears nothing and gives up after [`CLIENT_TIMEOUT`].
    TimeOutAfter,
    /// It arrives later.
    Delay(Duration),
    /// The client's future never ends, and nothing is done.
    Kill,
    /// A list from version 0 is answered as of an older revision, as the server's cache may do;
    /// anything else is answered as it is now.
    Stale(u64),
}

/// Decides on requests.
pub type FaultPolicy = Box<dyn FnMut(&RequestInfo) -> Verdict + Send>;

/// A moment of a request that the server carries out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment<'a> {
    /// Nothing has been done yet; the request's body.
    Before(&'a [u8]),
    /// It has been done, with this code.
    After(u16),
}

/// Hears of requests when they are carried out: later than a [`FaultPolicy`] where a request was
/// held up on its way.
pub type Witness = Box<dyn FnMut(&RequestInfo, Moment<'_>) + Send>;

/// The gate of a server.
#[derive(Default)]
pub struct FaultGate {
    fault_policy: Mutex<Option<FaultPolicy>>,
    witness: Mutex<Option<Witness>>,
    counts: Mutex<Counts>,
}

/// How many requests there were, by caller, verb and kind with subresource (`pods/status`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub total: u64,
    /// By caller, verb and kind.
    pub by: BTreeMap<(String, &'static str, String), u64>,
}

impl FaultGate {
    /// Replaces the fault policy.
    pub fn set(&self, judge: Option<FaultPolicy>) {
        *self
            .fault_policy
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = judge;
    }

    /// Replaces the witness of carried-out requests.
    pub fn set_witness(&self, witness: Option<Witness>) {
        *self.witness.lock().unwrap_or_else(PoisonError::into_inner) = witness;
    }

    fn tell(&self, asked: &RequestInfo, moment: Moment<'_>) {
        if let Some(witness) = self
            .witness
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_mut()
        {
            witness(asked, moment);
        }
    }

    /// What was asked until now.
    pub fn counts(&self) -> Counts {
        self.counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn judge(&self, asked: &mut RequestInfo) -> Verdict {
        {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            asked.number = counts.total;
            counts.total += 1;
            let mut kind = asked
                .resource
                .map_or("", |resource| resource.plural)
                .to_owned();
            if !asked.subresource.is_empty() {
                kind = format!("{kind}/{}", asked.subresource);
            }
            *counts
                .by
                .entry((asked.client.clone(), asked.verb, kind))
                .or_default() += 1;
        }
        let mut judge = self
            .fault_policy
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        judge.as_mut().map_or(Verdict::Go, |judge| judge(asked))
    }
}

/// A client's connection.
#[derive(Clone)]
pub struct Connection {
    /// The other end.
    pub server: Server,
    /// Whose it is.
    pub client: String,
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, io::Error>> + Send>>;

impl tower_service::Service<Request<kube::client::Body>> for Connection {
    type Response = Response<Body>;
    type Error = io::Error;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Answer {
        let Connection { server, client } = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.map_err(io::Error::other)?;
            pass(&server, &client, Request::from_parts(parts, body.to_vec())).await
        })
    }
}

async fn pass(
    server: &Server,
    client: &str,
    mut request: Request<Vec<u8>>,
) -> io::Result<Response<Body>> {
    let head = request::Head::read(&request);
    let mut asked = head.asked(client);
    request.extensions_mut().insert(head);
    server.until_it_goes_on(client).await;
    match server.fault_gate().judge(&mut asked) {
        Verdict::Go => {}
        Verdict::Delay(pause) => tokio::time::sleep(pause).await,
        Verdict::Kill => future::pending().await,
        Verdict::TimeOutBefore => return give_up().await,
        Verdict::TimeOutAfter => {
            drop(carry_out(server, &asked, request));
            return give_up().await;
        }
        Verdict::RefuseAfter { code, reason } => {
            drop(carry_out(server, &asked, request));
            let refused = ApiErrorWithDetails::plain(
                code,
                reason,
                format!("refused for the test after it was done: {reason}"),
            );
            let answer = dated(server, request::refuse(&refused));
            server.until_it_goes_on(client).await;
            return Ok(answer);
        }
        Verdict::Stale(revision) => {
            request.extensions_mut().insert(request::AsOf(revision));
        }
        Verdict::Refuse {
            code,
            reason,
            retry_after,
        } => {
            let mut refused =
                ApiErrorWithDetails::plain(code, reason, format!("refused for the test: {reason}"));
            if let Some(seconds) = retry_after {
                refused
                    .details
                    .insert("retryAfterSeconds".into(), json!(seconds));
            }
            return Ok(dated(server, request::refuse(&refused)));
        }
    }
    let answer = carry_out(server, &asked, request);
    server.until_it_goes_on(client).await;
    Ok(answer)
}

fn carry_out(server: &Server, asked: &RequestInfo, request: Request<Vec<u8>>) -> Response<Body> {
    server
        .fault_gate()
        .tell(asked, Moment::Before(request.body()));
    let answer = server.handle(&asked.client, request);
    server
        .fault_gate()
        .tell(asked, Moment::After(answer.status().as_u16()));
    dated(server, answer)
}

/// The answer with the time of day, as every real server has it.
fn dated(server: &Server, mut answer: Response<Body>) -> Response<Body> {
    let now =
        rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&server.lock().clock.now());
    if let Some(date) = now.ok().and_then(|text| HeaderValue::from_str(&text).ok()) {
        answer.headers_mut().insert(DATE, date);
    }
    answer
}

async fn give_up() -> io::Result<Response<Body>> {
    tokio::time::sleep(CLIENT_TIMEOUT).await;
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        "the server did not answer",
    ))
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
