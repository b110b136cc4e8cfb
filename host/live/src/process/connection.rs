//! The connection to the API server: one HTTP/2 connection for everything, as in client-go.
//!
//! [`clients`] puts the same layers between the daemon and a real or a simulated server. From the
//! outside in: a request that was certainly not carried out is sent again ([`RetryRejected`]). Each
//! attempt of a write checks whether this replica leads, and has a deadline that ends before
//! another replica may lead ([`Gate`]). A write whose answer is lost is an error; the caller looks
//! up the result.
//!
//! Over HTTP/1.1 each concurrent request needs a connection of its own. A wave of a thousand pods
//! needed a hundred, opened when the server is busiest. Their TLS handshakes took 4 % of its time,
//! and each connection keeps buffers here while it is open.

use std::path::Path;
use std::task::{self, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, header};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::time::{Instant, Sleep, sleep, timeout};
use tower::retry::{Policy, RetryLayer};
use tower::{BoxError, Service, ServiceBuilder};

use super::clock::Clock;
use super::leader::{Leadership, NotLeading};
use super::mutants::mutant;
use crate::error::Failure;

/// After this long without any data the server is pinged.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Without an answer to the ping within this, the connection is given up, and every request on it.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(15);

/// Bytes of one answer that may come before they are read.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// Bytes of all answers that may come before they are read: more than the lists and watches of all
/// kinds, so that the Lease can be renewed while none of those is read.
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;

/// Where the API server is: as a kubeconfig says, or as the environment of a process does.
///
/// # Errors
/// Neither says it.
pub async fn config(file: Option<&Path>) -> Result<Config, Failure> {
    let unknown = |why: String| Failure::Usage {
        message: why,
        hint: "give --kubeconfig or set KUBECONFIG; in a cluster, a ServiceAccount".to_owned(),
    };
    let found = match file {
        Some(file) => {
            let read = Kubeconfig::read_from(file).map_err(|e| unknown(e.to_string()))?;
            Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
                .await
                .map_err(|e| e.to_string())
        }
        None => Config::infer().await.map_err(|e| e.to_string()),
    };
    found.map_err(|why| unknown(format!("no way to the API server: {why}")))
}

/// Two clients of one connection.
pub struct Clients {
    /// Asks again where the server is too busy to answer.
    pub patient: Client,
    /// Does not retry: for requests whose refusal is an answer.
    pub plain: Client,
}

/// Makes them without contacting the server.
///
/// # Errors
/// If the certificates, the credentials or the proxy of the configuration cannot be used.
pub fn connect(
    mut config: Config,
    leadership: &Leadership,
    clock: &Clock,
) -> Result<Clients, String> {
    let namespace = config.default_namespace.clone();
    if config.proxy_url.is_some() {
        // kube's own client, whose HTTP knows proxies, without its retries: those are ours.
        config.default_retry = false;
        let client = Client::try_from(config).map_err(|e| e.to_string())?;
        let service = tower::service_fn(move |request| {
            let client = client.clone();
            async move { client.send(request).await }
        });
        return Ok(clients(service, &namespace, leadership, clock));
    }
    let http: Http<_, Body> = Http::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .http2_keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .build(connector(&config)?);
    let made = || -> Result<Clients, kube::Error> {
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(config.auth_layer()?)
            .layer(config.extra_headers_layer()?)
            .map_err(BoxError::from)
            .service(http);
        Ok(clients(service, &namespace, leadership, clock))
    };
    made().map_err(|e| e.to_string())
}

/// The daemon's clients on any service that answers as an API server. Each answer sets the clock.
pub fn clients<S, B>(service: S, namespace: &str, leadership: &Leadership, clock: &Clock) -> Clients
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let gate = Gate {
        inner: service,
        leadership: leadership.clone(),
        clock: clock.clone(),
    };
    let patient = ServiceBuilder::new()
        .layer(RetryLayer::new(RetryRejected::default()))
        .service(gate.clone());
    Clients {
        patient: Client::new(patient, namespace),
        plain: Client::new(gate, namespace),
    }
}

/// How often a request is sent.
const REQUEST_ATTEMPTS: u32 = 5;
/// Wait before a request is sent for the second time; doubled each time.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(50);
/// Longest wait before a request is sent again, whatever `Retry-After` says. What was to be sent is
/// old by then, and is made anew.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5);

/// Sends again what was not carried out: every request that was refused with 429, and reads that
/// got 503 or 504. A write that got one of those may have been carried out.
#[derive(Clone, Default)]
struct RetryRejected {
    attempts: u32,
}

impl<B> Policy<Request<Body>, Response<B>, BoxError> for RetryRejected {
    type Future = Sleep;

    fn retry(
        &mut self,
        request: &mut Request<Body>,
        result: &mut Result<Response<B>, BoxError>,
    ) -> Option<Self::Future> {
        let response = result.as_ref().ok()?;
        let again = match response.status() {
            StatusCode::TOO_MANY_REQUESTS => true,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                reads(request.method())
            }
            _ => false,
        };
        self.attempts += 1;
        if !again || self.attempts >= REQUEST_ATTEMPTS {
            return None;
        }
        let asked = response
            .headers()
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok());
        let delay = FIRST_RETRY_DELAY * (1 << (self.attempts - 1));
        Some(sleep(
            asked
                .map_or(delay, Duration::from_secs)
                .max(delay)
                .min(MAX_RETRY_DELAY),
        ))
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        let body = request.body().try_clone()?;
        let mut copy = Request::new(body);
        *copy.method_mut() = request.method().clone();
        *copy.uri_mut() = request.uri().clone();
        *copy.version_mut() = request.version();
        copy.headers_mut().clone_from(request.headers());
        copy.extensions_mut().clone_from(request.extensions());
        Some(copy)
    }
}

/// How long a read may take; a watch until it begins.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Lets writes out only while this replica leads, and counts those under way. Leases are written by
/// all replicas.
#[derive(Clone)]
struct Gate<S> {
    inner: S,
    leadership: Leadership,
    clock: Clock,
}

impl<S, B> Service<Request<Body>> for Gate<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, context: &mut task::Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shared = reads(request.method()) || request.uri().path().contains("/leases/");
        let (ticket, limit) = if shared || request.uri().path().ends_with("/leases") {
            (None, READ_TIMEOUT)
        } else {
            match self.leadership.begin_write() {
                Ok(ticket) => {
                    let limit = ticket.time_left();
                    (Some(ticket), limit)
                }
                Err(_) if mutant("retries-without-leadership") => (None, READ_TIMEOUT),
                Err(refused) => return Box::pin(std::future::ready(Err(refused.into()))),
            }
        };
        let method = request.method().clone();
        let answer = self.inner.call(request);
        let (clock, begun) = (self.clock.clone(), Instant::now());
        Box::pin(async move {
            let _under_way = ticket;
            match timeout(limit, answer).await {
                Ok(answer) => answer
                    .inspect(|answer| set(&clock, answer, begun))
                    .map_err(Into::into),
                Err(_) => Err(NoAnswer { method, limit }.into()),
            }
        })
    }
}

/// Notes that the server has answered, and sets the clock by the time at which it says so.
fn set<B>(clock: &Clock, answer: &Response<B>, begun: Instant) {
    clock.answered();
    let date = answer
        .headers()
        .get(header::DATE)
        .and_then(|date| date.to_str().ok());
    if let Some(ahead) = date.and_then(|date| clock.learn(date, begun.elapsed())) {
        tracing::warn!(
            seconds = ahead,
            "local clock is ahead of the API server; using the server's time"
        );
    }
}

/// A request without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not answer a {method} within {} s", .limit.as_secs())]
struct NoAnswer {
    method: Method,
    limit: Duration,
}

fn reads(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Whether a request was not sent because this replica does not lead.
pub fn is_not_leading(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Service(why) if why.downcast_ref::<NotLeading>().is_some())
}

/// Offers HTTP/2 first; a server that has only HTTP/1.1, or no TLS, is talked to in that.
fn connector(config: &Config) -> Result<HttpsConnector<HttpConnector>, String> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(config.connect_timeout);
    let tls = config.rustls_client_config().map_err(|e| e.to_string())?;
    let mut builder = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name
            .clone()
            .try_into()
            .map_err(|e| format!("tls-server-name {name:?}: {e}"))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(builder.enable_all_versions().wrap_connector(http))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::process::lock::lock;

    /// A server that answers with these codes, one after the other, and the last one from then on.
    /// Notes what it was sent.
    fn server(
        codes: &'static [u16],
        leadership: &Leadership,
    ) -> (Clients, Arc<Mutex<Vec<String>>>) {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let log = sent.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let mut log = lock(&log);
            let code = codes[log.len().min(codes.len() - 1)];
            log.push(format!("{} {}", request.method(), request.uri().path()));
            async move {
                if code == 0 {
                    std::future::pending::<()>().await;
                }
                let answer = Response::builder()
                    .status(code)
                    .header(header::RETRY_AFTER, "1000");
                answer.body(Body::from(b"{}".to_vec()))
            }
        });
        (
            clients(service, "default", leadership, &Clock::system()),
            sent,
        )
    }

    async fn send(client: &Client, method: &Method, path: &str) -> Result<u16, kube::Error> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .body(Body::empty())
            .unwrap();
        client
            .send(request)
            .await
            .map(|answer| answer.status().as_u16())
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_not_carried_out_is_sent_again_and_what_may_have_been_is_not() {
        let leads = Leadership::new(true);
        let begun = Instant::now();
        for (method, code, attempts) in [
            (Method::GET, 429, 5),
            (Method::GET, 503, 5),
            (Method::POST, 429, 5),
            (Method::POST, 503, 1),
            (Method::PATCH, 504, 1),
        ] {
            let codes: &[u16] = match code {
                429 => &[429],
                503 => &[503],
                _ => &[504],
            };
            let (clients, sent) = server(codes, &leads);
            assert_eq!(
                send(&clients.patient, &method, "/api/v1/pods")
                    .await
                    .unwrap(),
                code,
                "{method}"
            );
            assert_eq!(lock(&sent).len(), attempts, "{method} {code}");
            let (clients, sent) = server(codes, &leads);
            assert_eq!(
                send(&clients.plain, &method, "/api/v1/pods").await.unwrap(),
                code
            );
            assert_eq!(lock(&sent).len(), 1);
        }
        assert_eq!(
            begun.elapsed(),
            MAX_RETRY_DELAY * 12,
            "whatever the server says, no longer than this each time"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn leadership_that_is_lost_between_two_attempts_ends_a_write() {
        let leads = Leadership::new(true);
        let (clients, sent) = server(&[429], &leads);
        let writing =
            tokio::spawn(
                async move { send(&clients.patient, &Method::POST, "/api/v1/pods").await },
            );
        tokio::time::sleep(Duration::from_secs(1)).await;
        leads.stop();
        let error = writing.await.unwrap().unwrap_err();
        assert!(is_not_leading(&error), "{error}");
        assert_eq!(lock(&sent).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_does_not_lead_reads_and_competes_for_the_lease_and_writes_nothing() {
        let (clients, sent) = server(&[200], &Leadership::new(false));
        for client in [&clients.patient, &clients.plain] {
            assert!(send(client, &Method::GET, "/api/v1/pods").await.is_ok());
            let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
            assert!(send(client, &Method::POST, lease).await.is_ok());
            assert!(
                send(
                    client,
                    &Method::PUT,
                    &format!("{lease}/karpenter-leader-election")
                )
                .await
                .is_ok()
            );
            for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
                assert!(is_not_leading(
                    &send(client, &method, "/api/v1/nodes/a").await.unwrap_err()
                ));
            }
        }
        assert_eq!(lock(&sent).len(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_without_an_answer_is_given_up_and_counts_as_under_way_until_then() {
        let leads = Leadership::new(true);
        let (clients, _) = server(&[0], &leads);
        let begun = Instant::now();
        let writing =
            tokio::spawn(
                async move { send(&clients.plain, &Method::DELETE, "/api/v1/nodes/a").await },
            );
        tokio::task::yield_now().await;
        leads.is_idle().await;
        assert_eq!(begun.elapsed().as_secs(), 20);
        let error = writing.await.unwrap().unwrap_err();
        assert!(
            error
                .to_string()
                .contains("did not answer a DELETE within 20 s"),
            "{error}"
        );
    }
}
