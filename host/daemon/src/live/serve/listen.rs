//! Listeners with limits: number of connections, lifetime of each, one request per connection.
//!
//! A slow client holds its connection, and the response written to it, until the connection's
//! lifetime ends. Further connections wait in the kernel's queue.

use std::io::{self, ErrorKind, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

/// What a listener allows.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most connections at a time.
    pub connections: usize,
    /// A connection is closed after this long, whatever it is doing.
    pub lifetime: Duration,
}

/// Longest accepted path and query, in bytes. `namespace/name` of a pod has at most 317.
const PATH: usize = 512;

/// Binds a port on all addresses, IPv6 and IPv4; on those of IPv4 alone where the kernel has no
/// IPv6.
///
/// # Errors
/// The port cannot be bound.
pub async fn everywhere(port: u16) -> Result<Vec<TcpListener>, String> {
    let on = |address: SocketAddr| async move {
        TcpListener::bind(address)
            .await
            .map_err(|error| (format!("cannot listen on {address}: {error}"), error))
    };
    let v6 = match on((Ipv6Addr::UNSPECIFIED, port).into()).await {
        Ok(listener) => Some(listener),
        Err((why, error)) if error.kind() == ErrorKind::AddrInUse => return Err(why),
        Err(_) => None,
    };
    // The same port, where the kernel chose one.
    let port = v6
        .as_ref()
        .and_then(|v6| v6.local_addr().ok())
        .map_or(port, |at| at.port());
    match (v6, on((Ipv4Addr::UNSPECIFIED, port).into()).await) {
        // One socket for both: the usual setting (net.ipv6.bindv6only = 0).
        (Some(v6), Err((_, error))) if error.kind() == ErrorKind::AddrInUse => Ok(vec![v6]),
        (v6, Ok(v4)) => Ok(v6.into_iter().chain([v4]).collect()),
        (Some(v6), Err(_)) => Ok(vec![v6]),
        (None, Err((why, _))) => Err(why),
    }
}

/// Binds `host:port`.
///
/// # Errors
/// The address cannot be bound.
pub async fn at(address: &str) -> Result<Vec<TcpListener>, String> {
    let bound = TcpListener::bind(address).await;
    bound
        .map(|listener| vec![listener])
        .map_err(|error| format!("cannot listen on {address}: {error}"))
}

/// Serves `router` on every listener until the process ends. All of them share the limits.
pub fn serve(listeners: Vec<TcpListener>, limits: Limits, router: Router) {
    let router = router.layer(middleware::from_fn(one_small_request));
    let free = Arc::new(Semaphore::new(limits.connections));
    for listener in listeners {
        let bounded = Bounded {
            listener,
            free: free.clone(),
            lifetime: limits.lifetime,
        };
        let router = router.clone();
        tokio::spawn(async move {
            if let Err(error) = axum::serve(bounded, router).await {
                tracing::error!(%error, "stopped serving");
            }
        });
    }
}

/// Refuses long paths and requests with a body, and ends the connection after the answer, so that
/// the time of a connection is the time of a request.
async fn one_small_request(request: Request, next: Next) -> Response {
    let long = request
        .uri()
        .path_and_query()
        .is_some_and(|path| path.as_str().len() > PATH);
    let headers = request.headers();
    let empty = headers
        .get(CONTENT_LENGTH)
        .is_none_or(|length| length.as_bytes() == b"0");
    let mut response = if long {
        (
            StatusCode::URI_TOO_LONG,
            format!("the path is longer than {PATH} bytes\n"),
        )
            .into_response()
    } else if !empty || headers.contains_key(TRANSFER_ENCODING) {
        (
            StatusCode::PAYLOAD_TOO_LARGE,
            "no request here has a body\n",
        )
            .into_response()
    } else {
        next.run(request).await
    };
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A listener with limits.
struct Bounded {
    listener: TcpListener,
    free: Arc<Semaphore>,
    lifetime: Duration,
}

impl axum::serve::Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let permit = match self.free.clone().acquire_owned().await {
            Ok(permit) => permit,
            // Nobody closes it.
            Err(_) => std::future::pending().await,
        };
        let (stream, from) = axum::serve::Listener::accept(&mut self.listener).await;
        (
            Connection {
                stream,
                ends: Box::pin(sleep(self.lifetime)),
                _permit: permit,
            },
            from,
        )
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that fails once its time is up.
struct Connection {
    stream: TcpStream,
    ends: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    /// The stream, while there is time.
    fn open(&mut self, cx: &mut Context<'_>) -> io::Result<Pin<&mut TcpStream>> {
        match self.ends.as_mut().poll(cx) {
            Poll::Ready(()) => Err(ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(Pin::new(&mut self.stream)),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.open(cx)?.poll_read(cx, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.open(cx)?.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.open(cx)?.poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.open(cx)?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.open(cx)?.poll_shutdown(cx)
    }
}
