//! The SDK's clients: the one place that makes them, and the one way to send a call.
//!
//! Retries are the SDK's standard ones, three attempts, but for CreateFleet: a reply that is lost is
//! not a call undone, so the launch sends the same request again by itself. Before each call a
//! [`Bucket`] says how long to wait. The SDK sets no timeout but for connecting, so that each client
//! has its own.

mod attempts;

use std::collections::HashMap;
use std::fmt::{self, Display};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, Region, SdkConfig};
use aws_sdk_ec2::config::Credentials;
use aws_sdk_ec2::config::retry::RetryPartition;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ec2::operation::RequestId;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_http_client::{Builder, Connector};
use tokio::time::Instant;

use crate::bucket::Bucket;
use crate::calls::Call;
use crate::error::{ApiError, Class, classify};
use crate::lock::lock;
use crate::observer::{Called, Observer, Unobserved};
use attempts::CountAttempts;

/// How AWS is reached. What is `None` comes from the environment, as in every tool of AWS:
/// `AWS_REGION`, `AWS_ENDPOINT_URL`, `AWS_USE_FIPS_ENDPOINT`, credentials of IRSA, Pod Identity, an
/// instance profile or variables.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The region.
    pub region: Option<String>,
    /// One endpoint for all services.
    pub endpoint: Option<String>,
    /// Endpoints with validated cryptography.
    pub fips: Option<bool>,
    /// Endpoints with IPv4 and IPv6.
    pub dual_stack: Option<bool>,
    /// Key and secret, in place of the usual chain. For emulated endpoints.
    pub keys: Option<(String, String)>,
    /// How long one attempt of a call may take at most. For emulated endpoints that hang.
    pub patience: Option<Duration>,
}

/// Why there are no clients.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoClients {
    /// Neither the environment nor the metadata of the instance names a region.
    #[error("no region is known; set AWS_REGION")]
    NoRegion,
}

/// The clients. Shared by reference.
pub struct Clients {
    /// EC2.
    pub ec2: aws_sdk_ec2::Client,
    /// SQS.
    pub sqs: aws_sdk_sqs::Client,
    /// Systems Manager.
    pub ssm: aws_sdk_ssm::Client,
    /// IAM.
    pub iam: aws_sdk_iam::Client,
    /// EKS.
    pub eks: aws_sdk_eks::Client,
    /// The price list. It has endpoints in a few regions alone.
    pub pricing: aws_sdk_pricing::Client,
    /// Zonal shifts.
    pub arc_zonal_shift: aws_sdk_arczonalshift::Client,
    region: String,
    patience: Duration,
    began: Instant,
    buckets: Mutex<HashMap<Call, Bucket>>,
    observer: Arc<dyn Observer>,
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients")
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

/// A connection is made within this time.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(3100);
/// All attempts of a call together take at most this long.
pub(crate) const WHOLE_CALL: Duration = Duration::from_secs(120);
pub(crate) const CALL_ATTEMPTS: u32 = 3;
/// One attempt takes at most this long, unless its call has less.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
/// The SDK waits up to 1 s before the second attempt and up to 2 s before the third.
const RETRY_DELAYS_TOTAL: Duration = Duration::from_secs(3);

/// The region whose endpoint of the price list is asked about a region.
fn price_list_region(region: &str) -> &'static str {
    match region.split('-').next() {
        Some("ap") => "ap-south-1",
        Some("cn") => "cn-northwest-1",
        Some("eu") => "eu-central-1",
        _ => "us-east-1",
    }
}

impl Clients {
    /// Makes the clients.
    ///
    /// # Errors
    /// No region is known.
    pub async fn new(access: &Access) -> Result<Self, NoClients> {
        let config = load(access).await;
        let region = config.region().map(|region| region.as_ref().to_owned());
        let region = region.ok_or(NoClients::NoRegion)?;
        let patience = access.patience.unwrap_or(WHOLE_CALL);
        Ok(Clients::of(&config, region, patience, || None))
    }

    /// Clients of a configuration; `partition` is whose retry tokens each uses, the process's if
    /// nothing.
    pub(crate) fn of(
        config: &SdkConfig,
        region: String,
        patience: Duration,
        partition: impl Fn() -> Option<RetryPartition>,
    ) -> Self {
        macro_rules! client {
            ($service:ident) => {
                client!($service, config.region().cloned())
            };
            ($service:ident, $region:expr) => {{
                let builder = $service::config::Builder::from(config);
                let mut builder = builder.region($region).interceptor(CountAttempts);
                builder.set_retry_partition(partition());
                $service::Client::from_conf(builder.build())
            }};
        }
        let of_prices = Region::new(price_list_region(&region));
        Clients {
            ec2: client!(aws_sdk_ec2),
            sqs: client!(aws_sdk_sqs),
            ssm: client!(aws_sdk_ssm),
            iam: client!(aws_sdk_iam),
            eks: client!(aws_sdk_eks),
            pricing: client!(aws_sdk_pricing, of_prices),
            arc_zonal_shift: client!(aws_sdk_arczonalshift),
            region,
            patience,
            began: Instant::now(),
            buckets: Mutex::default(),
            observer: Arc::new(Unobserved),
        }
    }

    /// The same, with an observer of every call.
    pub fn observed_by(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// The observer of calls.
    pub fn observer(&self) -> &dyn Observer {
        &*self.observer
    }

    /// The region.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Waits for the call's turn, sends it, and says what an error means.
    ///
    /// # Errors
    /// The call failed, after the attempts that its client makes.
    pub async fn send<O, E, F>(&self, call: Call, sent: F) -> Result<O, ApiError>
    where
        F: Future<Output = Result<O, SdkError<E>>>,
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let turn = self.turn(call).await;
        self.send_in(turn, sent).await
    }

    /// Waits for a call's turn, so that its request can be made of what is known then.
    pub async fn turn(&self, call: Call) -> Turn<'_> {
        let turn = Turn {
            clients: self,
            call,
            waited: self.with(call, |bucket, now| bucket.take(now)),
            used: false,
        };
        tokio::time::sleep(turn.waited).await;
        turn
    }

    /// Sends a call whose turn it is, and says what an error means.
    ///
    /// # Errors
    /// The call failed, after the attempts that its client makes.
    pub async fn send_in<O, E, F>(&self, mut turn: Turn<'_>, sent: F) -> Result<O, ApiError>
    where
        F: Future<Output = Result<O, SdkError<E>>>,
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        turn.used = true;
        let (call, waits) = (turn.call, turn.waited);
        let began = Instant::now();
        let attempt = call.timeout().min(self.patience);
        let bound = (attempt * CALL_ATTEMPTS + RETRY_DELAYS_TOTAL).min(WHOLE_CALL);
        let sent = tokio::time::timeout(bound, sent);
        let (result, attempts) = attempts::counted(sent).await;
        let result = match result {
            Ok(result) => result.map_err(|error| failed(call, &error)),
            Err(_) => Err(ApiError::new(call, "", "no reply came in time")),
        };
        if let Err(error) = &result {
            // With the ID of the request, which AWS's support asks for.
            tracing::debug!(%error, attempts, "call failed");
            if error.class == Class::Throttled {
                self.refused(call);
            }
        }
        let how = Called {
            attempts,
            waited: waits,
            took: began.elapsed(),
            error: result.as_ref().err().map(|error| error.class),
        };
        self.observer.called(call, how);
        result
    }

    fn refused(&self, call: Call) {
        self.with(call, |bucket, now| bucket.refused(now));
    }

    fn with<T>(&self, call: Call, act: impl FnOnce(&mut Bucket, Duration) -> T) -> T {
        let now = self.began.elapsed();
        let mut buckets = lock(&self.buckets);
        act(
            buckets
                .entry(call)
                .or_insert_with(|| Bucket::new(call.rate())),
            now,
        )
    }
}

/// The turn of a call. One that is not used is given back.
#[must_use]
pub struct Turn<'a> {
    clients: &'a Clients,
    call: Call,
    waited: Duration,
    used: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.used {
            self.clients
                .with(self.call, |bucket, now| bucket.give_back(now));
        }
    }
}

pub(crate) fn timeouts(patience: Option<Duration>) -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(patience.unwrap_or(ATTEMPT_TIMEOUT))
        .operation_timeout(WHOLE_CALL)
        .build()
}

async fn load(access: &Access) -> SdkConfig {
    // ring is no default of the SDK: without a client of ours the chain of credentials panics.
    // Proxies are those of the environment: HTTPS_PROXY, HTTP_PROXY, NO_PROXY.
    let client = Builder::new().build_with_connector_fn(|settings, components| {
        let mut connector = Connector::builder()
            .proxy_config(ProxyConfig::from_env())
            .tls_provider(Provider::Rustls(CryptoMode::Ring));
        connector.set_connector_settings(settings.cloned());
        connector.set_sleep_impl(components.and_then(|components| components.sleep_impl()));
        connector.build()
    });
    let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .http_client(client)
        .retry_config(RetryConfig::standard().with_max_attempts(CALL_ATTEMPTS))
        .timeout_config(timeouts(access.patience));
    if let Ok(name) = AppName::new(concat!("longshore-", env!("CARGO_PKG_VERSION"))) {
        loader = loader.app_name(name);
    }
    if let Some(region) = &access.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(endpoint) = &access.endpoint {
        loader = loader.endpoint_url(endpoint);
    }
    if let Some(fips) = access.fips {
        loader = loader.use_fips(fips);
    }
    if let Some(dual_stack) = access.dual_stack {
        loader = loader.use_dual_stack(dual_stack);
    }
    if let Some((key, secret)) = &access.keys {
        loader = loader.credentials_provider(Credentials::new(key, secret, None, None, "given"));
    }
    loader.load().await
}

fn failed<E>(call: Call, error: &SdkError<E>) -> ApiError
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let code = error.code().unwrap_or_default();
    let status = error
        .raw_response()
        .map(|response| response.status().as_u16());
    let message = match (error.message(), status) {
        (Some(message), _) => message.to_owned(),
        (None, Some(status)) if is_html(error) => {
            format!("the answer is a page of HTML (HTTP {status}) and none of AWS")
        }
        (None, _) => chain(error),
    };
    let class = match (code, status) {
        // Refused without a code that could be read: nothing was done.
        ("", Some(401 | 403)) => Class::Unauthorized,
        _ => classify(code, &message),
    };
    ApiError {
        call,
        class,
        code: code.to_owned(),
        message,
        request: error.request_id().unwrap_or_default().to_owned(),
    }
}

/// Whether what came back is a page of HTML: a proxy's, or a portal's.
fn is_html<E>(error: &SdkError<E>) -> bool {
    let body = error
        .raw_response()
        .and_then(|response| response.body().bytes());
    let begins = body.unwrap_or_default().trim_ascii_start();
    let is = |tag: &[u8]| {
        begins
            .get(..tag.len())
            .is_some_and(|own| own.eq_ignore_ascii_case(tag))
    };
    is(b"<!doctype html") || is(b"<html")
}

/// An error and its causes, outermost first, each once.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said: &dyn Display = cause;
        let said = said.to_string();
        if !text.contains(&said) {
            text += ": ";
            text += &said;
        }
        next = cause.source();
    }
    text
}

/// All pages of a read: `page` gets the token of the last page and gives its rows and the next
/// token. All rows or an error: callers act on what is missing.
///
/// # Errors
/// A page failed, or a token came twice, which would end the list without a word.
pub async fn pages<T, F, R>(call: Call, mut page: F) -> Result<Vec<T>, ApiError>
where
    F: FnMut(Option<String>) -> R,
    R: Future<Output = Result<(Vec<T>, Option<String>), ApiError>>,
{
    let (mut all, mut token): (Vec<T>, Option<String>) = (Vec::new(), None);
    loop {
        let (rows, next) = page(token.clone()).await?;
        all.extend(rows);
        // The last token of spot prices is an empty one.
        match next.filter(|next| !next.is_empty()) {
            None => return Ok(all),
            Some(next) if token.as_ref() == Some(&next) => {
                return Err(ApiError::new(call, "", "a page's token came twice"));
            }
            Some(next) => token = Some(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::price_list_region;

    #[test]
    fn each_region_asks_the_price_list_at_the_endpoint_that_is_near() {
        let asked = [
            "us-west-2",
            "sa-east-1",
            "ap-east-1",
            "eu-west-3",
            "cn-north-1",
        ];
        assert_eq!(
            asked.map(price_list_region),
            [
                "us-east-1",
                "us-east-1",
                "ap-south-1",
                "eu-central-1",
                "cn-northwest-1"
            ]
        );
    }
}
