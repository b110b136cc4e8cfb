//! The way to the API server: everything goes over one HTTP/2 connection, as client-go has it.
//!
//! Over HTTP/1.1 each request that is under way needs a connection of its own. Those were a hundred for a wave of a
//! thousand pods, made when the server is busiest: their TLS handshakes took a twenty-fifth of its time, and each keeps
//! its buffers here for as long as it is open.

use std::time::Duration;

use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config};
use tower::retry::RetryLayer;
use tower::{BoxError, ServiceBuilder, ServiceExt as _};

/// When nothing has come for so long, the server is asked whether it is still there:
const QUIET: Duration = Duration::from_secs(10);
/// if it does not say so within this, the connection is given up, and with it all that is waited for.
const PATIENCE: Duration = Duration::from_secs(15);

/// So many bytes of an answer may come before they are read,
const ANSWER: u32 = 1 << 20;
/// and so many of all: more than the lists and watches of every kind together, so that a lease can be renewed while none
/// of those is read.
const ANSWERS: u32 = 64 << 20;

/// Two clients of one connection.
pub struct Clients {
    /// Asks again where the server is too busy to answer.
    pub patient: Client,
    /// Does not.
    pub plain: Client,
}

/// Makes them; whether there is a server is not looked at.
///
/// # Errors
/// If the certificates, the credentials or the proxy of the configuration cannot be used.
pub fn connect(mut config: Config) -> Result<Clients, String> {
    if config.proxy_url.is_some() {
        // Says which proxies there is no way through.
        let patient = Client::try_from(config.clone()).map_err(|e| e.to_string())?;
        config.default_retry = false;
        let plain = Client::try_from(config).map_err(|e| e.to_string())?;
        return Ok(Clients { patient, plain });
    }
    let http: Http<_, Body> = Http::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(QUIET)
        .http2_keep_alive_timeout(PATIENCE)
        .http2_initial_stream_window_size(ANSWER)
        .http2_initial_connection_window_size(ANSWERS)
        .build(connector(&config)?);
    let client = |again: Option<RetryPolicy>| {
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(again.map(RetryLayer::new))
            .option_layer(config.auth_layer()?)
            .layer(config.extra_headers_layer()?)
            .map_err(BoxError::from)
            .service(http.clone());
        Ok(Client::new(service.boxed(), config.default_namespace.clone()))
    };
    let made = client(Some(RetryPolicy::server_retry())).and_then(|patient| {
        let plain = client(None)?;
        Ok(Clients { patient, plain })
    });
    made.map_err(|e: kube::Error| e.to_string())
}

/// Offers HTTP/2 first; a server that has only HTTP/1.1, or no TLS, is talked to in that.
fn connector(config: &Config) -> Result<HttpsConnector<HttpConnector>, String> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(config.connect_timeout);
    let tls = config.rustls_client_config().map_err(|e| e.to_string())?;
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name.clone().try_into().map_err(|e| format!("tls-server-name {name:?}: {e}"))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(builder.enable_all_versions().wrap_connector(http))
}
