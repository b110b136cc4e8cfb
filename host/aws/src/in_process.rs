//! Clients whose requests stay in this process: for simulations.
//!
//! Requests go to a function and not into a socket. Timers are tokio's, which a simulation pauses;
//! the time of day is an argument; retries count on tokens of their own. What is left to chance are
//! the pauses before retries, which `fastrand` draws for the thread.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use aws_config::retry::RetryConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_ec2::config::http::{HttpRequest, HttpResponse};
use aws_sdk_ec2::config::retry::{RetryPartition, TokenBucket};
use aws_sdk_ec2::config::{AsyncSleep, Credentials, SharedCredentialsProvider};
use aws_sdk_ec2::error::ConnectorError;
use aws_smithy_async::rt::sleep::Sleep;
use aws_smithy_async::time::TimeSource;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};

use crate::clients::{self, Clients};

/// A request of HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `POST`.
    pub method: String,
    /// The path, percent-encoded.
    pub path: String,
    /// What follows the question mark; empty without one.
    pub query: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// A reply of HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// What answers.
#[async_trait]
pub trait Endpoint: Send + Sync {
    /// Answers a request; nothing if the connection ends without a reply.
    async fn call(&self, request: Request) -> Option<Reply>;
}

/// The time of day.
pub type Now = Arc<dyn Fn() -> SystemTime + Send + Sync>;

impl Clients {
    /// Clients that send everything to an endpoint in this process, which tells services apart by
    /// the scope of the signature.
    pub fn in_process(region: &str, endpoint: Arc<dyn Endpoint>, now: Now) -> Self {
        let connector = SharedHttpConnector::new(Connector(endpoint));
        let key = Credentials::new("key", "secret", None, None, "simulated");
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new(region.to_owned()))
            .endpoint_url("http://aws.simulated")
            .credentials_provider(SharedCredentialsProvider::new(key))
            .http_client(http_client_fn(move |_, _| connector.clone()))
            .sleep_impl(Timers)
            .time_source(Time(now))
            .retry_config(RetryConfig::standard().with_max_attempts(clients::CALL_ATTEMPTS))
            .timeout_config(clients::timeouts(None))
            // A stream is measured as it is read from a socket, and there is none.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .build();
        // Retry tokens are the process's otherwise, and one simulation would change the next.
        let apart = || {
            let own = RetryPartition::custom("simulated").token_bucket(TokenBucket::default());
            Some(own.build())
        };
        Clients::of(&config, region.to_owned(), clients::WHOLE_CALL, apart)
    }
}

/// Timers of tokio.
#[derive(Debug)]
struct Timers;

impl AsyncSleep for Timers {
    fn sleep(&self, duration: Duration) -> Sleep {
        Sleep::new(tokio::time::sleep(duration))
    }
}

struct Time(Now);

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Time")
    }
}

impl TimeSource for Time {
    fn now(&self) -> SystemTime {
        (self.0)()
    }
}

struct Connector(Arc<dyn Endpoint>);

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let endpoint = self.0.clone();
        let request = read(&request);
        HttpConnectorFuture::new(async move {
            let Some(reply) = endpoint.call(request).await else {
                let why = "the connection ended without a reply";
                return Err(ConnectorError::io(why.into()));
            };
            written(reply)
        })
    }
}

fn read(request: &HttpRequest) -> Request {
    let uri = request.uri();
    let after = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    let after = after.find('/').map_or("/", |at| &after[at..]);
    let (path, query) = after.split_once('?').unwrap_or((after, ""));
    let headers = request.headers().iter();
    Request {
        method: request.method().to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        headers: headers
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        body: request.body().bytes().unwrap_or_default().to_vec(),
    }
}

fn written(reply: Reply) -> Result<HttpResponse, ConnectorError> {
    let wrong = |why: String| ConnectorError::other(why.into(), None);
    let status = reply.status.try_into();
    let status = status.map_err(|_| wrong(format!("{} is no status of HTTP", reply.status)))?;
    let mut response = HttpResponse::new(status, reply.body.into());
    for (name, value) in reply.headers {
        let added = response.headers_mut().try_append(name, value);
        added.map_err(|why| wrong(why.to_string()))?;
    }
    Ok(response)
}
