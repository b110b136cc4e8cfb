//! Catches panics of rounds and steps. Each is logged and counted, and its waiters continue.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;

use crate::metrics::Metrics;

/// Does a piece of work that others wait for. Nothing if it panicked; `place` is what metrics call
/// it.
pub async fn guarded<T>(
    metrics: &Metrics,
    place: &'static str,
    work: impl Future<Output = T>,
) -> Option<T> {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(done) => Some(done),
        Err(panic) => {
            report(metrics, place, &*panic);
            None
        }
    }
}

/// Runs work that takes a thread, as `guarded` runs a future.
pub fn guarded_now<T>(
    metrics: &Metrics,
    place: &'static str,
    work: impl FnOnce() -> T,
) -> Option<T> {
    std::panic::catch_unwind(AssertUnwindSafe(work))
        .map_err(|panic| report(metrics, place, &*panic))
        .ok()
}

fn report(metrics: &Metrics, place: &'static str, panic: &(dyn std::any::Any + Send)) {
    metrics.panicked(place);
    tracing::error!(
        place,
        panic = words(panic),
        "panicked: a defect, please report it"
    );
}

fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no words")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_panics_is_counted_and_what_does_not_is_not() {
        let metrics = Metrics::new();
        assert_eq!(guarded(&metrics, "step", async { 1 }).await, Some(1));
        let broken = guarded(&metrics, "step", async {
            assert!(std::hint::black_box(false), "broken")
        })
        .await;
        assert_eq!(broken, None);
        assert_eq!(
            guarded_now(&metrics, "planning", || assert!(
                std::hint::black_box(false),
                "broken"
            )),
            None
        );
        let text = metrics.text();
        let counted =
            |place: &str| text.contains(&format!(r#"longshore_panics_total{{where="{place}"}} 1"#));
        assert!(counted("step") && counted("planning"), "{text}");
    }
}
