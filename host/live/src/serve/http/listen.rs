//! Listeners that a client cannot fill: bounds on connections, on the time of each, and on the size of
//! a request; one request per connection.
//!
//! A connection is accepted at once, always. Where there are too many, one that has not sent a
//! whole request yet makes room: the oldest of the address that has the most connections. So silent
//! connections keep nobody out, and an address that opens many displaces its own. A connection that
//! is being answered is never displaced; a client that reads its answer slowly holds it until its
//! lifetime ends.

mod places;

use std::io::{self, ErrorKind, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::extract::{FromRequestParts, Request};
use axum::http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::serve::IncomingStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep, sleep};

use places::{MAX_PER_ADDRESS, Place, Places};

/// What a listener allows.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most connections at a time.
    pub connections: usize,
    /// A connection is closed after this long without a whole request.
    pub request: Duration,
    /// A connection is closed after this long, whatever it is doing.
    pub lifetime: Duration,
}

/// Longest accepted path and query, in bytes. `namespace/name` of a pod has at most 317.
const MAX_PATH_BYTES: usize = 512;

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

/// Serves `router` on every listener until the runtime ends. All of them share the limits.
pub fn serve(listeners: Vec<TcpListener>, limits: Limits, router: Router) {
    let router = router.layer(middleware::from_fn(one_small_request));
    let places = Places::new(limits.connections);
    for listener in listeners {
        let bounded = Bounded {
            listener,
            places: places.clone(),
            limits,
        };
        let router = router.clone();
        tokio::spawn(async move {
            let service = router.into_make_service_with_connect_info::<Client>();
            if let Err(error) = axum::serve(bounded, service).await {
                tracing::error!(%error, "stopped serving");
            }
        });
    }
}

/// The connection that a request came by.
#[derive(Clone)]
pub struct Client {
    place: Arc<Place>,
    places: Places,
}

impl Client {
    /// The address that it comes from.
    pub fn address(&self) -> std::net::IpAddr {
        self.place.source
    }

    /// A client of a listener of its own.
    ///
    /// # Panics
    /// Never: there is room.
    #[cfg(test)]
    pub fn of(source: std::net::IpAddr) -> Self {
        let places = Places::new(1);
        Client {
            place: places.take(source).unwrap(),
            places,
        }
    }
}

impl Connected<IncomingStream<'_, Bounded>> for Client {
    fn connect_info(stream: IncomingStream<'_, Bounded>) -> Self {
        let Connection { place, places, .. } = stream.io();
        Client {
            place: place.clone(),
            places: places.clone(),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Client {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        let known = parts.extensions.get::<ConnectInfo<Client>>();
        known
            .map(|info| info.0.clone())
            .ok_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// Refuses long paths and requests with a body, and ends the connection after the answer, so that
/// the time of a connection is the time of a request.
async fn one_small_request(request: Request, next: Next) -> Response {
    let long = request
        .uri()
        .path_and_query()
        .is_some_and(|path| path.as_str().len() > MAX_PATH_BYTES);
    let busy = match request.extensions().get::<ConnectInfo<Client>>() {
        Some(ConnectInfo(client)) => !client.places.answer(&client.place),
        None => false,
    };
    let headers = request.headers();
    let empty = headers
        .get(CONTENT_LENGTH)
        .is_none_or(|length| length.as_bytes() == b"0");
    let mut response = if long {
        (
            StatusCode::URI_TOO_LONG,
            format!("the path is longer than {MAX_PATH_BYTES} bytes\n"),
        )
            .into_response()
    } else if busy {
        let why = format!(
            "{MAX_PER_ADDRESS} requests of one address are answered at a time; retry later\n"
        );
        (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
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
    places: Places,
    limits: Limits,
}

impl axum::serve::Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let (stream, from) = axum::serve::Listener::accept(&mut self.listener).await;
            let source = from.ip().to_canonical();
            match self.places.take(source) {
                Some(place) => {
                    // The one that made room is closed before the next is accepted.
                    if self.places.is_full() {
                        tokio::task::yield_now().await;
                    }
                    let connection = Connection {
                        stream,
                        place,
                        places: self.places.clone(),
                        ends: Box::pin(sleep(self.limits.request)),
                        dies: Instant::now() + self.limits.lifetime,
                    };
                    return (connection, from);
                }
                // Every one is being answered.
                None => drop(stream),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that fails once its time is up, or another one needs its place.
struct Connection {
    stream: TcpStream,
    place: Arc<Place>,
    places: Places,
    /// When it is looked at next whether its time is up.
    ends: Pin<Box<Sleep>>,
    dies: Instant,
}

impl Connection {
    /// The stream, while there is time.
    fn open(&mut self, cx: &mut Context<'_>) -> io::Result<Pin<&mut TcpStream>> {
        if self.place.is_displaced(cx) {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        while self.ends.as_mut().poll(cx).is_ready() {
            if !self.place.answered() || Instant::now() >= self.dies {
                return Err(ErrorKind::TimedOut.into());
            }
            self.ends.as_mut().reset(self.dies);
        }
        Ok(Pin::new(&mut self.stream))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.places.leave(&self.place);
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
