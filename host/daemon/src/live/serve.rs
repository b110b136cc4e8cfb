//! What others can ask: metrics, probes, and over the same local port what `longshore status` and `longshore explain`
//! print.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::stream;
use serde_json::Value;
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::context::Context;
use super::gauges::Pages;
use super::lock::lock;
use super::state::Picture;
use crate::explain::Explained;

/// What the loop tells about itself.
#[derive(Default)]
pub struct Board {
    /// Everything listed once.
    pub synced: bool,
    /// What the policies say of themselves.
    pub policies: Value,
    /// What is wrong with the cluster's resource definitions.
    pub definitions: Vec<String>,
    /// For `longshore status`.
    pub status: Value,
    /// Why each pod waits, by `namespace/name`.
    pub waiting: std::collections::BTreeMap<String, String>,
}

/// A question of somebody outside.
pub enum Ask {
    /// What about this pod, `namespace/name`?
    Pod { pod: String, reply: oneshot::Sender<Result<Explained, String>> },
    /// What does the cluster look like? Answered at once by who leads, by others never.
    Picture(oneshot::Sender<Picture>),
}

/// Shared with the loop.
pub type SharedBoard = Arc<Mutex<Board>>;

#[derive(Clone)]
struct Shared {
    ctx: Arc<Context>,
    board: SharedBoard,
    asks: Sender<Ask>,
}

/// How long somebody waits for an explanation.
const PATIENCE: Duration = Duration::from_secs(30);

/// Serves metrics, status and explanations on `metrics`, probes on `probes`, until the process ends.
///
/// # Errors
/// A port that cannot be had.
pub async fn serve(
    ctx: Arc<Context>,
    board: SharedBoard,
    asks: Sender<Ask>,
    metrics: SocketAddr,
    probes: SocketAddr,
) -> Result<(), String> {
    let shared = Shared { ctx, board, asks };
    let told = Router::new()
        .route("/metrics", get(metrics_text))
        .route("/status", get(|State(s): State<Shared>| async move { axum::Json(lock(&s.board).status.clone()) }))
        .route("/explain/pod/{*name}", get(explain))
        .with_state(shared.clone());
    let asked = Router::new().route("/healthz", get(|| async { "ok" })).route("/readyz", get(ready)).with_state(shared);
    let told = listen(metrics, told).await?;
    let asked = listen(probes, asked).await?;
    tokio::spawn(told);
    tokio::spawn(asked);
    Ok(())
}

async fn listen(at: SocketAddr, router: Router) -> Result<impl Future<Output = ()>, String> {
    let listener = tokio::net::TcpListener::bind(at).await.map_err(|e| format!("cannot listen on {at}: {e}"))?;
    Ok(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, %at, "stopped serving");
        }
    })
}

/// How long the loop may take to picture the cluster; metrics come without it otherwise.
const GLANCE: Duration = Duration::from_secs(5);

/// What is counted, and behind it what the cluster looks like, written while it is read.
async fn metrics_text(State(s): State<Shared>) -> Response {
    let picture = async {
        let (reply, answer) = oneshot::channel();
        s.asks.send(Ask::Picture(reply)).await.ok()?;
        answer.await.ok()
    };
    let picture = if s.ctx.observes() { timeout(GLANCE, picture).await.ok().flatten() } else { None };
    let pages = picture.into_iter().flat_map(Pages::new);
    let pages = std::iter::once(s.ctx.metrics.text()).chain(pages).map(Ok::<_, std::convert::Infallible>);
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, Body::from_stream(stream::iter(pages))).into_response()
}

async fn ready(State(s): State<Shared>) -> (StatusCode, &'static str) {
    if lock(&s.board).synced {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not everything has been listed yet; see /status on the metrics port")
    }
}

async fn explain(
    State(s): State<Shared>,
    Path(pod): Path<String>,
) -> Result<axum::Json<Explained>, (StatusCode, String)> {
    let (reply, answer) = oneshot::channel();
    let busy = |why: &str| (StatusCode::SERVICE_UNAVAILABLE, why.to_owned());
    s.asks.send(Ask::Pod { pod, reply }).await.map_err(|_| busy("the daemon is stopping"))?;
    match timeout(PATIENCE, answer).await {
        Ok(Ok(Ok(explained))) => Ok(axum::Json(explained)),
        Ok(Ok(Err(why))) => Err((StatusCode::NOT_FOUND, why)),
        _ => Err(busy("no answer yet: not everything has been listed, see `longshore status`")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::live::lifecycle::tests::{context, fresh, instance};
    use crate::live::state::ClusterState;

    /// What `/metrics` answers where the loop does `asked` with who asks for a picture.
    async fn told(observes: bool, asked: impl FnOnce(Ask) + Send + 'static) -> String {
        let (server, _) = fresh();
        let ctx = Arc::new(context(&server, Ok(instance())));
        ctx.observes.store(observes, Ordering::Relaxed);
        let (asks, mut questions) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            if let Some(ask) = questions.recv().await {
                asked(ask);
            }
        });
        let answer = metrics_text(State(Shared { ctx, board: SharedBoard::default(), asks })).await;
        assert_eq!(answer.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn metrics_are_whole_without_a_picture() {
        let leads = |ask: Ask| match ask {
            Ask::Picture(reply) => drop(reply.send(ClusterState::default().picture(&Default::default()))),
            Ask::Pod { .. } => panic!("nobody asked for a pod"),
        };
        let both = told(true, leads).await;
        let counted = told(false, |_| panic!("it was turned off")).await;
        let follows = told(true, drop).await;
        let late = told(true, |ask| {
            drop(tokio::spawn(async {
                std::future::pending::<Ask>().await;
                drop(ask)
            }))
        })
        .await;
        assert!(both.contains("karpenter_build_info") && both.contains("karpenter_scheduler_queue_depth"), "{both}");
        for text in [counted, follows, late] {
            assert!(text.contains("karpenter_build_info") && !text.contains("scheduler_queue_depth"), "{text}");
        }
    }
}
