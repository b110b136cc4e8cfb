//! Metrics are registered when the process starts.

use prometheus::Registry;

/// Names and labels here are constants that fit together; a mistake shows in the first test.
pub fn registered<T: prometheus::core::Collector + Clone + 'static>(
    registry: &Registry,
    made: prometheus::Result<T>,
) -> T {
    #[allow(clippy::expect_used, reason = "a constant of this file would be wrong")]
    let metric = made.expect("metric is well formed");
    #[allow(clippy::expect_used, reason = "a constant of this file would be wrong")]
    registry
        .register(Box::new(metric.clone()))
        .expect("metric is registered once");
    metric
}
