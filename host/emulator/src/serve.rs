//! The loopback server.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::shell::{Clock, Shell};
use crate::time::Time;
use crate::wire::{Reply, Request};
use crate::world::World;

/// Bytes of a body that are read. EC2's longest requests are far below.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Time(since.map_or(0, |since| since.as_millis() as i64))
    }

    fn sleep_until(&self, time: Time) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let left = u64::try_from(time.since(self.now())).unwrap_or(0);
        Box::pin(tokio::time::sleep(Duration::from_millis(left)))
    }
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    shell: Arc<Shell<SystemClock>>,
}

/// Listens on a loopback port, on any that is free for 0.
///
/// # Errors
/// The port is taken.
pub async fn serve(port: u16, world: World) -> std::io::Result<Server> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let shell = Shell::new(world, SystemClock);
    Ok(Server { listener, shell })
}

impl Server {
    /// The address.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The world that it serves.
    pub fn shell(&self) -> Arc<Shell<SystemClock>> {
        self.shell.clone()
    }

    /// Serves until it is dropped.
    pub async fn run(self) {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => drop(tokio::spawn(connection(stream, self.shell.clone()))),
                // Out of file descriptors, say: the next connection may fare better.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }
}

async fn connection(stream: TcpStream, shell: Arc<Shell<SystemClock>>) {
    let _ = stream.set_nodelay(true);
    let answer = service_fn(|request| answer(request, &shell));
    let connection = http1::Builder::new()
        // The header has the emulator's own time.
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), answer);
    // An error is the client's end of the connection, or a dropped reply.
    let _ = connection.await;
}

/// An error ends the connection without a reply.
async fn answer(
    request: hyper::Request<Incoming>,
    shell: &Shell<SystemClock>,
) -> Result<hyper::Response<Full<Bytes>>, crate::shell::Dropped> {
    let (parts, body) = request.into_parts();
    let Ok(body) = Limited::new(body, MAX_BODY_BYTES).collect().await else {
        let text = format!("a body has at most {MAX_BODY_BYTES} bytes");
        return Ok(response(Reply::new(413, "text/plain", text)));
    };
    let header = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        (
            name.as_str().to_owned(),
            String::from_utf8_lossy(value.as_bytes()).into_owned(),
        )
    };
    let request = Request {
        method: parts.method.as_str().to_owned(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers.iter().map(header).collect(),
        body: body.to_bytes().to_vec(),
    };
    shell.call(request).await.map(response)
}

fn response(reply: Reply) -> hyper::Response<Full<Bytes>> {
    let mut builder = hyper::Response::builder().status(reply.status);
    for (name, value) in &reply.headers {
        builder = builder.header(name, value);
    }
    let body = Full::new(Bytes::from(reply.body));
    // A status or header that HTTP does not have came with a fault.
    builder.body(body).unwrap_or_else(|_: hyper::http::Error| {
        let mut plain = hyper::Response::new(Full::default());
        *plain.status_mut() = hyper::StatusCode::INTERNAL_SERVER_ERROR;
        plain
    })
}
