//! HTTP endpoints. Metrics and probes listen on all addresses. Status and explanations name pods
//! and cost a plan, so they listen on loopback by default.

mod listen;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use futures::stream;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout};

use super::explain_requests::{ExplainRequest, Subject};
use super::gauges::Pages;
use super::questions::{NotExplained, Questions};
use crate::observe::state::MetricsSnapshot;
use crate::process::lock::lock;
use crate::status::parts::Status;
use crate::status::policies::PoliciesStatus;
use listen::{Client, Limits};
use longshore_report::explained::{Explained, NoExplanation};

/// What the loop reports about itself.
#[derive(Default)]
pub struct StatusBoard {
    /// Every watch has listed its objects once. The probe of readiness asks for it.
    pub synced: bool,
    /// What the policies say of themselves.
    pub policies: Option<PoliciesStatus>,
    /// What is wrong with the cluster's resource definitions.
    pub definitions: Vec<String>,
    /// For `longshore status`; absent until the loop has begun.
    pub status: Option<Status>,
    /// Why each pod waits, by `namespace/name`.
    pub waiting: BTreeMap<String, String>,
}

/// A query from outside.
pub enum Query {
    /// What about a pod or a node?
    Explain(ExplainRequest),
    /// What does the cluster look like? Answered at once by the leader, never by other replicas.
    Metrics(oneshot::Sender<MetricsSnapshot>),
}

/// Shared with the loop.
pub type SharedBoard = Arc<Mutex<StatusBoard>>;

/// Ports and the address that the servers listen on.
pub struct At {
    /// Port of metrics, on all addresses.
    pub metrics: u16,
    /// Of status and explanations, `host:port`.
    pub status: String,
}

#[derive(Clone)]
struct Shared {
    questions: Questions,
    /// The scrapes that hold a copy of the cluster now, and how many may.
    metrics_readers: Readers,
    /// The address of status, in the answer to requests elsewhere.
    status: Arc<str>,
}

/// Readers of metrics that are served at a time: a copy of the cluster is held for each.
const METRICS_READERS: usize = 2;

/// A whole request comes within this, if the client means it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const METRICS_LIMITS: Limits = Limits {
    connections: 64,
    request: REQUEST_TIMEOUT,
    lifetime: Duration::from_secs(30),
};
const PROBE_LIMITS: Limits = Limits {
    connections: 64,
    request: REQUEST_TIMEOUT,
    lifetime: REQUEST_TIMEOUT,
};
const STATUS_LIMITS: Limits = Limits {
    connections: 16,
    request: REQUEST_TIMEOUT,
    lifetime: Duration::from_secs(40),
};

/// What answers probes: until there is a loop, that this process is alive and not ready.
#[derive(Clone, Default)]
struct Probes(Arc<OnceLock<Shared>>);

/// Serves probes, and later all else.
pub struct Serving(oneshot::Sender<Begin>);

/// What is served besides probes, and where. `reply` gets whether the ports are open.
struct Begin {
    shared: Shared,
    at: At,
    reply: oneshot::Sender<Result<(), [String; 2]>>,
}

/// Serves probes until the process ends: on all addresses, before the cloud has answered, and on a
/// thread of its own: a busy loop does not delay a probe, and many clients do not delay the loop.
///
/// # Errors
/// A port that is in use, and the setting to change.
pub async fn probes(port: u16) -> Result<Serving, [String; 2]> {
    let (reply, bound) = oneshot::channel();
    let (begin, begun) = oneshot::channel();
    let serving = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .enable_all()
            .build();
        match runtime {
            Err(error) => drop(reply.send(Err(thread_refused(&error)))),
            Ok(runtime) => runtime.block_on(serving(port, reply, begun)),
        }
    };
    std::thread::Builder::new()
        .name("serve".to_owned())
        .spawn(serving)
        .map_err(|error| thread_refused(&error))?;
    let ended = |_| Err(thread_refused(&"it has ended"));
    bound.await.unwrap_or_else(ended)?;
    Ok(Serving(begin))
}

/// What the thread does.
async fn serving(
    port: u16,
    reply: oneshot::Sender<Result<(), [String; 2]>>,
    begun: oneshot::Receiver<Begin>,
) {
    let probes = Probes::default();
    let listeners = listen::everywhere(port).await;
    let listeners = listeners.map_err(setting("HEALTH_PROBE_PORT (--health-probe-port)"));
    let bound = listeners
        .map(|listeners| listen::serve(listeners, PROBE_LIMITS, probe_routes(probes.clone())));
    if reply.send(bound).is_err() {
        return;
    }
    // Without a port for probes, or after a start that failed, the process ends.
    let Ok(Begin { shared, at, reply }) = begun.await else {
        return;
    };
    let bound = bind(shared, &at, &probes).await;
    let good = bound.is_ok();
    if reply.send(bound).is_ok() && good {
        std::future::pending().await
    }
}

fn setting(name: &'static str) -> impl Fn(String) -> [String; 2] {
    move |why| [why, format!("set {name}")]
}

/// Serves metrics, status and explanations until the process ends, on the thread of the probes, which
/// then answer for the loop.
///
/// # Errors
/// A port or an address that is in use or invalid, and the setting to change.
pub async fn serve(questions: Questions, at: At, serving: Serving) -> Result<(), [String; 2]> {
    let shared = Shared {
        questions,
        metrics_readers: Readers::new(METRICS_READERS),
        status: at.status.clone().into(),
    };
    let (reply, bound) = oneshot::channel();
    _ = serving.0.send(Begin { shared, at, reply });
    bound
        .await
        .unwrap_or_else(|_| Err(thread_refused(&"it has ended")))
}

fn thread_refused(why: &dyn std::fmt::Display) -> [String; 2] {
    [
        format!("no thread for metrics and probes: {why}"),
        "give the process more threads or memory".to_owned(),
    ]
}

async fn bind(shared: Shared, at: &At, probes: &Probes) -> Result<(), [String; 2]> {
    let metrics = listen::everywhere(at.metrics)
        .await
        .map_err(setting("METRICS_PORT (--metrics-port)"))?;
    let status = listen::at(&at.status)
        .await
        .map_err(setting("STATUS_ADDRESS (--status-address)"))?;
    listen::serve(metrics, METRICS_LIMITS, metrics_routes(shared.clone()));
    _ = probes.0.set(shared.clone());
    listen::serve(status, STATUS_LIMITS, status_routes(shared));
    Ok(())
}

fn metrics_routes(shared: Shared) -> Router {
    Router::new()
        .route("/metrics", get(metrics_text))
        .route("/status", any(elsewhere))
        .route("/explain/{*rest}", any(elsewhere))
        .with_state(shared)
}

fn probe_routes(probes: Probes) -> Router {
    Router::new()
        .route("/healthz", get(healthy))
        .route("/readyz", get(ready))
        .with_state(probes)
}

fn status_routes(shared: Shared) -> Router {
    Router::new()
        .route("/status", get(status))
        .route("/explain/pod/{*name}", get(explain_pod))
        .route("/explain/node/{*name}", get(explain_node))
        .with_state(shared)
}

async fn status(State(s): State<Shared>) -> axum::Json<Value> {
    // A tree has its names in alphabetical order, whatever the order of the fields.
    axum::Json(serde_json::to_value(s.questions.status()).unwrap_or_default())
}

/// What was on this port before.
async fn elsewhere(State(s): State<Shared>) -> (StatusCode, String) {
    let at = &s.status;
    (
        StatusCode::MISDIRECTED_REQUEST,
        format!("status and explanations are at {at} (STATUS_ADDRESS), not on this port\n"),
    )
}

/// How long the loop may take to picture the cluster; metrics come without it otherwise.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(5);

/// What is counted, and behind it what the cluster looks like, written while it is read.
async fn metrics_text(State(s): State<Shared>, client: Client) -> Response {
    let turn = s.metrics_readers.turn(client.address());
    let Ok(Some(reading)) = timeout(SCRAPE_TIMEOUT, turn).await else {
        let busy = format!(
            "{METRICS_READERS} readers of metrics are served at a time, one from each address; retry later\n"
        );
        return (StatusCode::SERVICE_UNAVAILABLE, busy).into_response();
    };
    let picture = async {
        let (reply, answer) = oneshot::channel();
        s.questions.queries.send(Query::Metrics(reply)).await.ok()?;
        answer.await.ok()
    };
    let picture = if s.questions.ctx.observes() {
        timeout(SCRAPE_TIMEOUT, picture).await.ok().flatten()
    } else {
        None
    };
    let pages = picture.into_iter().flat_map(Pages::new);
    let pages = std::iter::once(s.questions.counted())
        .chain(pages)
        .inspect(move |_| _ = &reading);
    let kind = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    (
        kind,
        Body::from_stream(stream::iter(pages.map(Ok::<_, std::convert::Infallible>))),
    )
        .into_response()
}

/// Readers of metrics: so many at a time, and one from each address, so that a slow one keeps only
/// its own address from reading.
#[derive(Clone)]
struct Readers {
    free: Arc<Semaphore>,
    by_address: Arc<Mutex<BTreeMap<IpAddr, Arc<Semaphore>>>>,
}

/// A reader of metrics, until it is dropped.
struct Reading {
    _of_address: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Readers {
    fn new(most: usize) -> Self {
        Readers {
            free: Arc::new(Semaphore::new(most)),
            by_address: Arc::default(),
        }
    }

    /// Waits until an address may read.
    async fn turn(&self, address: IpAddr) -> Option<Reading> {
        let own = {
            let mut all = lock(&self.by_address);
            // Those that nobody reads or waits for.
            all.retain(|_, own| Arc::strong_count(own) > 1);
            all.entry(address)
                .or_insert_with(|| Arc::new(Semaphore::new(1)))
                .clone()
        };
        let of_address = own.acquire_owned().await.ok()?;
        let of_all = self.free.clone().acquire_owned().await.ok()?;
        Some(Reading {
            _of_address: of_address,
            _of_all: of_all,
        })
    }
}

async fn healthy(State(probes): State<Probes>) -> (StatusCode, String) {
    let Some(s) = probes.0.get() else {
        return (StatusCode::OK, "starting".to_owned());
    };
    match s.questions.ctx.pulse.check(Instant::now()) {
        Ok(()) => (StatusCode::OK, "ok".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
    }
}

async fn ready(State(probes): State<Probes>) -> (StatusCode, &'static str) {
    let Some(s) = probes.0.get() else {
        return (
            StatusCode::SERVICE_UNAVAILABLE,
            "starting: the cloud has not answered yet; see the log",
        );
    };
    if lock(&s.questions.board).synced {
        (StatusCode::OK, "ok")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "not everything has been listed, or the API server does not answer; see `longshore status`",
        )
    }
}

type Answer = Result<axum::Json<Explained>, Response>;

async fn explain_pod(State(s): State<Shared>, Path(pod): Path<String>) -> Answer {
    explain(s, Subject::Pod(pod)).await
}

async fn explain_node(State(s): State<Shared>, Path(node): Path<String>) -> Answer {
    explain(s, Subject::Node(node)).await
}

async fn explain(s: Shared, about: Subject) -> Answer {
    let answer = s.questions.explain(about).await;
    answer.map(axum::Json).map_err(not_explained)
}

fn not_explained(why: NotExplained) -> Response {
    let said = format!("{why}\n");
    match why {
        NotExplained::Busy => {
            let later = [(header::RETRY_AFTER, "1")];
            (StatusCode::TOO_MANY_REQUESTS, later, said).into_response()
        }
        NotExplained::No(NoExplanation::NotFound(why)) => {
            (StatusCode::NOT_FOUND, why).into_response()
        }
        NotExplained::No(NoExplanation::Defect(_)) => {
            (StatusCode::INTERNAL_SERVER_ERROR, said).into_response()
        }
        NotExplained::Late => (StatusCode::SERVICE_UNAVAILABLE, said).into_response(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::SocketAddr;
    use std::sync::atomic::Ordering;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::sync::mpsc::Sender;

    use super::*;
    use crate::act::context::Context;
    use crate::observe::state::ClusterState;
    use crate::test_cluster::{context, fresh, instance};

    fn shared(ctx: Arc<Context>, asks: Sender<Query>) -> Shared {
        Shared {
            questions: Questions::new(ctx, SharedBoard::default(), asks),
            metrics_readers: Readers::new(METRICS_READERS),
            status: "127.0.0.1:8082".into(),
        }
    }

    fn begun(shared: Shared) -> Probes {
        Probes(Arc::new(shared.into()))
    }

    /// Serves status and explanations on a port of the kernel's choice.
    pub async fn status_on_loopback(
        ctx: &Arc<Context>,
        board: &SharedBoard,
        asks: &Sender<Query>,
    ) -> SocketAddr {
        let shared = Shared {
            questions: Questions::new(ctx.clone(), board.clone(), asks.clone()),
            ..shared(ctx.clone(), asks.clone())
        };
        on_loopback(STATUS_LIMITS, status_routes(shared)).await
    }

    async fn on_loopback(limits: Limits, router: Router) -> SocketAddr {
        let listeners = listen::at("127.0.0.1:0").await.unwrap();
        let at = listeners[0].local_addr().unwrap();
        listen::serve(listeners, limits, router);
        at
    }

    /// What comes back for these bytes.
    async fn answered(at: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// A daemon with a loop that receives nothing.
    fn deaf() -> (Shared, tokio::sync::mpsc::Receiver<Query>) {
        let (asks, questions) = tokio::sync::mpsc::channel(1);
        let ctx = Arc::new(context(&fresh().0, Ok(instance())));
        ctx.observes.store(false, Ordering::Relaxed);
        (shared(ctx, asks), questions)
    }

    #[tokio::test]
    async fn requests_are_small_and_connections_carry_one() {
        let at = on_loopback(METRICS_LIMITS, metrics_routes(deaf().0)).await;
        let get = |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\n{more}\r\n");
        let long = answered(at, &get(&format!("/metrics?{}", "x".repeat(600)), "")).await;
        assert!(
            long.starts_with("HTTP/1.1 414 ") && long.contains("connection: close"),
            "{long}"
        );
        let body = answered(at, &get("/metrics", "Content-Length: 9\r\n")).await;
        assert!(body.starts_with("HTTP/1.1 413 "), "{body}");
        let elsewhere = answered(at, &get("/status", "")).await;
        assert!(
            elsewhere.starts_with("HTTP/1.1 421 ") && elsewhere.contains("at 127.0.0.1:8082"),
            "{elsewhere}"
        );
        let good = answered(at, &get("/metrics", "")).await;
        assert!(
            good.starts_with("HTTP/1.1 200 ") && good.contains("karpenter_build_info"),
            "{good}"
        );
        assert_eq!(good.matches("HTTP/1.1").count(), 1);
    }

    #[tokio::test]
    async fn a_client_that_is_slow_is_cut_off() {
        let limits = Limits {
            request: Duration::from_millis(200),
            ..PROBE_LIMITS
        };
        let at = on_loopback(limits, probe_routes(begun(deaf().0))).await;
        let mut slow = TcpStream::connect(at).await.unwrap();
        slow.write_all(b"GET /healthz HTTP/1.1\r\nHost:")
            .await
            .unwrap();
        let mut rest = Vec::new();
        let cut = timeout(Duration::from_secs(5), slow.read_to_end(&mut rest)).await;
        let cut = cut.expect("not within 5 s");
        assert!(
            cut.is_err() || rest.is_empty() || !rest.starts_with(b"HTTP/1.1 200"),
            "{rest:?}"
        );
    }

    /// How many of these connections the server holds.
    fn held(clients: &[TcpStream]) -> usize {
        let waits = |client: &&TcpStream| {
            let read = client.try_read(&mut [0]);
            matches!(read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        };
        clients.iter().filter(waits).count()
    }

    /// Silent connections to a port.
    async fn silent(at: SocketAddr, number: usize) -> Vec<TcpStream> {
        let mut all = Vec::new();
        for _ in 0..number {
            all.push(TcpStream::connect(at).await.unwrap());
        }
        all
    }

    const PROBE: &str = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    const SCRAPE: &str = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

    #[tokio::test]
    async fn silent_sockets_on_every_port_delay_neither_probes_nor_scrapes() {
        let (shared, _questions) = deaf();
        let probes = on_loopback(PROBE_LIMITS, probe_routes(begun(shared.clone()))).await;
        let metrics = on_loopback(METRICS_LIMITS, metrics_routes(shared)).await;
        let clients = [silent(probes, 500).await, silent(metrics, 500).await];
        let begun = Instant::now();
        for round in 0..20 {
            // Others keep coming.
            let more = [silent(probes, 10).await, silent(metrics, 10).await];
            let probe = answered(probes, PROBE).await;
            assert!(probe.starts_with("HTTP/1.1 200 "), "{round}: {probe}");
            let scrape = answered(metrics, SCRAPE).await;
            assert!(scrape.starts_with("HTTP/1.1 200 "), "{round}: {scrape}");
            drop(more);
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "a second each");
        let limits = [PROBE_LIMITS.connections, METRICS_LIMITS.connections];
        for (clients, most) in clients.iter().zip(limits) {
            let held = held(clients);
            assert!(held > 0 && held <= most, "{held} silent sockets are held");
        }
    }

    #[tokio::test]
    async fn readers_that_do_not_read_keep_only_their_own_address_waiting() {
        let readers = Readers::new(METRICS_READERS);
        let endless = move |client: Client| {
            let readers = readers.clone();
            async move {
                let turn = readers.turn(client.address());
                let Ok(Some(reading)) = timeout(Duration::from_millis(300), turn).await else {
                    return StatusCode::SERVICE_UNAVAILABLE.into_response();
                };
                let page = |_| Ok::<_, std::io::Error>("x".repeat(1 << 14));
                let pages = (0..1 << 12).map(page).inspect(move |_| _ = &reading);
                Body::from_stream(stream::iter(pages)).into_response()
            }
        };
        let router = Router::new().route("/metrics", get(endless));
        let at = on_loopback(METRICS_LIMITS, router).await;
        let mut slow = Vec::new();
        for _ in 0..20 {
            let mut client = TcpStream::connect(at).await.unwrap();
            client.write_all(SCRAPE.as_bytes()).await.unwrap();
            slow.push(client);
        }
        let mut first = [0; 12];
        slow[0].read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        assert!(answered(at, SCRAPE).await.starts_with("HTTP/1.1 503 "));
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 2], 0))).unwrap();
        let mut other = socket.connect(at).await.unwrap();
        other.write_all(SCRAPE.as_bytes()).await.unwrap();
        other.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
    }

    #[tokio::test]
    async fn ports_are_open_to_ipv4_and_ipv6() {
        let listeners = listen::everywhere(0).await.unwrap();
        let port = listeners[0].local_addr().unwrap().port();
        let v6 = listeners[0].local_addr().unwrap().is_ipv6();
        assert!(
            listen::everywhere(port)
                .await
                .unwrap_err()
                .contains("cannot listen on")
        );
        listen::serve(listeners, PROBE_LIMITS, probe_routes(begun(deaf().0)));
        for at in ["127.0.0.1", "::1"].iter().take(1 + usize::from(v6)) {
            let at = SocketAddr::new(at.parse().unwrap(), port);
            assert!(
                answered(at, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                    .await
                    .starts_with("HTTP/1.1 200 "),
                "{at}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_hangs_is_unhealthy() {
        let (shared, _questions) = deaf();
        let probes = begun(shared);
        assert_eq!(
            healthy(State(probes.clone())).await,
            (StatusCode::OK, "ok".into())
        );
        tokio::time::advance(Duration::from_secs(31)).await;
        assert_eq!(
            healthy(State(probes)).await.0,
            StatusCode::SERVICE_UNAVAILABLE
        );
    }

    #[tokio::test]
    async fn a_process_that_waits_for_the_cloud_is_healthy_and_not_ready() {
        let at = on_loopback(PROBE_LIMITS, probe_routes(Probes::default())).await;
        let asked = async |path: &str| {
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
            answered(at, &request).await
        };
        assert!(asked("/healthz").await.starts_with("HTTP/1.1 200 "));
        let answer = asked("/readyz").await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(
            answer.contains("the cloud has not answered yet"),
            "{answer}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_question_is_refused_until_the_first_is_done_with() {
        let (shared, mut questions) = deaf();
        let ask = |shared: &Shared| {
            tokio::spawn(explain_pod(State(shared.clone()), Path("shop/web".into())))
        };
        let first = ask(&shared);
        let Some(Query::Explain(question)) = questions.recv().await else {
            panic!("a question")
        };
        let second = ask(&shared).await.unwrap().unwrap_err();
        assert_eq!(second.status(), StatusCode::TOO_MANY_REQUESTS);
        // The first has waited long enough; its plan is still being made.
        assert_eq!(
            first.await.unwrap().unwrap_err().status(),
            StatusCode::SERVICE_UNAVAILABLE
        );
        assert_eq!(
            ask(&shared).await.unwrap().unwrap_err().status(),
            StatusCode::TOO_MANY_REQUESTS
        );
        drop(question);
        let third = ask(&shared);
        let Some(Query::Explain(question)) = questions.recv().await else {
            panic!("a question")
        };
        question
            .reply
            .send(Err(NoExplanation::NotFound("there is no pod".into())))
            .ok();
        assert_eq!(
            third.await.unwrap().unwrap_err().status(),
            StatusCode::NOT_FOUND
        );
    }

    /// The answer of `/metrics` if the loop does `asked` with requests for a snapshot.
    async fn scraped(observes: bool, asked: impl FnOnce(Query) + Send + 'static) -> String {
        let (server, _) = fresh();
        let ctx = Arc::new(context(&server, Ok(instance())));
        ctx.observes.store(observes, Ordering::Relaxed);
        let (asks, mut questions) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            if let Some(ask) = questions.recv().await {
                asked(ask);
            }
        });
        let answer =
            metrics_text(State(shared(ctx, asks)), Client::of([127, 0, 0, 1].into())).await;
        assert_eq!(
            answer.headers()["content-type"],
            "text/plain; version=0.0.4; charset=utf-8"
        );
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX)
            .await
            .unwrap();
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn metrics_are_whole_without_a_picture() {
        let leads = |ask: Query| match ask {
            Query::Metrics(reply) => {
                drop(reply.send(ClusterState::default().metrics_snapshot(&Default::default())))
            }
            Query::Explain(_) => panic!("metrics alone were asked for"),
        };
        let both = scraped(true, leads).await;
        let counted = scraped(false, |_| panic!("it was turned off")).await;
        let follows = scraped(true, drop).await;
        let late = scraped(true, |ask| {
            drop(tokio::spawn(async {
                std::future::pending::<Query>().await;
                drop(ask)
            }))
        })
        .await;
        assert!(
            both.contains("karpenter_build_info")
                && both.contains("karpenter_scheduler_queue_depth"),
            "{both}"
        );
        for text in [counted, follows, late] {
            assert!(
                text.contains("karpenter_build_info") && !text.contains("scheduler_queue_depth"),
                "{text}"
            );
        }
    }

    #[test]
    fn only_an_object_that_is_not_there_is_called_not_found() {
        let status = |why: NotExplained| not_explained(why).status().as_u16();
        let no = |why: fn(String) -> NoExplanation| NotExplained::No(why("text".into()));
        assert_eq!(status(no(NoExplanation::NotFound)), 404);
        assert_eq!(status(no(NoExplanation::Defect)), 500);
        assert_eq!(status(NotExplained::Busy), 429);
        assert_eq!(status(NotExplained::Late), 503);
    }
}
