//! Counts the requests that a call makes: the SDK tries again by itself and does not say how often.

use std::cell::Cell;
use std::future::Future;

use aws_sdk_ec2::config::interceptors::BeforeTransmitInterceptorContextRef;
use aws_sdk_ec2::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_ec2::error::BoxError;

tokio::task_local! {
    static ATTEMPTS: Cell<u32>;
}

/// Runs a call. Its result, and how many requests were sent.
pub async fn counted<F: Future>(call: F) -> (F::Output, u32) {
    let counts = async {
        let result = call.await;
        (result, ATTEMPTS.with(Cell::get))
    };
    ATTEMPTS.scope(Cell::new(0), counts).await
}

/// An interceptor: the SDK calls it for each request, in the task of the call.
#[derive(Debug)]
pub struct CountAttempts;

impl Intercept for CountAttempts {
    fn name(&self) -> &'static str {
        "CountAttempts"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        // A call of another crate, such as for credentials, is not counted.
        let _ = ATTEMPTS.try_with(|count| count.set(count.get() + 1));
        Ok(())
    }
}
