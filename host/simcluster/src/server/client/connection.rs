//! The way of a client's requests: past the gate to the server, and back.

use std::future::{self, Future};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::DATE;
use http::{HeaderValue, Request, Response};
use k8s_openapi::jiff::fmt::rfc2822;
use serde_json::json;

use super::answer;
use super::fault_gate::{CLIENT_TIMEOUT, Moment, RequestInfo, Verdict};
use super::request::{self, Body};
use crate::server::api_error::ApiErrorWithDetails;
use crate::server::state::Server;

impl Server {
    /// A client in process. `client` names its owner for counts and faults. It asks once: nothing is
    /// tried again.
    pub fn client(&self, client: &str) -> kube::Client {
        kube::Client::new(self.service(client), "default")
    }

    /// What a client is made on: the daemon puts its own layers on it.
    pub fn service(&self, client: &str) -> Connection {
        Connection {
            server: self.clone(),
            client: client.to_owned(),
        }
    }

    /// Answers a request, past the gate.
    pub fn handle(&self, client: &str, mut request: Request<Vec<u8>>) -> Response<Body> {
        let head = request
            .extensions_mut()
            .remove()
            .unwrap_or_else(|| request::Head::read(&request));
        answer::answer(self, client, head, &request)
            .unwrap_or_else(|refused| request::refuse(&refused))
    }
}

/// A client's connection.
#[derive(Clone)]
pub struct Connection {
    /// The other end.
    pub server: Server,
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
