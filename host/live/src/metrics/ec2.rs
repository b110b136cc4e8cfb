//! Metrics of EC2 as the cloud: Karpenter's names and labels where Karpenter has the metric. They
//! have a registry of their own, so that a daemon with another cloud has none of them.

use std::time::Duration;

use longshore_api::crd::Condition as Stated;
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry};

use super::{MINUTES_BUCKETS, Turns, counter, histogram, registered, unlabelled};

pub struct Ec2Metrics {
    registry: Registry,
    launch_failures: IntCounterVec,
    termination_failures: IntCounterVec,
    batch_seconds: HistogramVec,
    batch_size: HistogramVec,
    received: IntCounterVec,
    deleted: IntCounter,
    failed: IntCounter,
    queue_seconds: Histogram,
    unhealthy: IntCounterVec,
    userdata: IntGaugeVec,
    class_turns: Turns,
    class_ended: Histogram,
    calls: IntCounterVec,
    retries: IntCounterVec,
    seconds: HistogramVec,
    waits: HistogramVec,
}

/// A call of AWS, for [`Ec2Metrics::called`].
pub struct Call<'a> {
    /// `ec2`.
    pub service: &'a str,
    /// `CreateFleet`.
    pub action: &'a str,
    /// `ok`, or what came of it in a word.
    pub outcome: &'a str,
    /// Requests that were sent.
    pub attempts: u32,
    /// How long it was held back here.
    pub waited: Duration,
    /// How long it took after that.
    pub took: Duration,
}

/// Seconds of one call: a read takes a tenth of one, and a fleet some.
const CALL_SECONDS: [f64; 9] = [0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];
/// Seconds that calls wait for others to come, or for their turn.
const WAIT_SECONDS: [f64; 8] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
const BATCH_SIZES: [f64; 9] = [1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 150.0, 200.0];

impl Ec2Metrics {
    /// All of them, at zero.
    pub fn new() -> Self {
        let registry = Registry::new();
        let all = &registry;
        let count = |name: &str, help: &str| registered(all, IntCounter::new(name, help));
        let batcher = ["batcher"];
        let action = ["service", "action"];
        let userdata = Opts::new(
            "karpenter_ec2nodeclasses_userdata_bytes",
            "Bytes of the user data that nodes of an EC2NodeClass were last given.",
        );
        Ec2Metrics {
            launch_failures: counter(
                all,
                "karpenter_cloudprovider_instance_launch_failures_total",
                "Offerings that a fleet could not launch.",
                &["zone", "zone_id", "capacity_type", "reason"],
            ),
            termination_failures: counter(
                all,
                "karpenter_cloudprovider_instance_termination_failures_total",
                "Instances that could not be terminated.",
                &["zone", "zone_id"],
            ),
            batch_seconds: histogram(
                all,
                "karpenter_cloudprovider_batcher_batch_time_seconds",
                "Seconds that the first call of a batch waited for others.",
                &WAIT_SECONDS,
                &batcher,
            ),
            batch_size: histogram(
                all,
                "karpenter_cloudprovider_batcher_batch_size",
                "Calls that were sent as one.",
                &BATCH_SIZES,
                &batcher,
            ),
            received: counter(
                all,
                "karpenter_interruption_received_messages_total",
                "Messages of the interruption queue, by what they say.",
                &["message_type"],
            ),
            deleted: count(
                "karpenter_interruption_deleted_messages_total",
                "Messages of the interruption queue that were deleted.",
            ),
            failed: count(
                "longshore_interruption_failed_messages_total",
                "Messages of the interruption queue that failed and will be delivered again.",
            ),
            queue_seconds: unlabelled(
                all,
                "karpenter_interruption_message_queue_duration_seconds",
                "Seconds from when a message was sent until what it asks for was done.",
                &CALL_SECONDS,
            ),
            unhealthy: counter(
                all,
                "karpenter_interruption_instance_status_unhealthy_total",
                "Instances that EC2 found unhealthy, each once until it recovers.",
                &["category"],
            ),
            userdata: registered(all, IntGaugeVec::new(userdata, &["nodeclass"])),
            class_turns: Turns::new(all, "ec2nodeclass"),
            class_ended: unlabelled(
                all,
                "operator_ec2nodeclass_termination_duration_seconds",
                "Seconds from an EC2NodeClass's deletion to its end.",
                &MINUTES_BUCKETS,
            ),
            calls: counter(
                all,
                "longshore_aws_calls_total",
                "Calls of AWS by what came of them, all attempts of a call as one.",
                &["service", "action", "outcome"],
            ),
            retries: counter(
                all,
                "longshore_aws_retries_total",
                "Requests to AWS beyond the first of a call.",
                &action,
            ),
            seconds: histogram(
                all,
                "longshore_aws_call_duration_seconds",
                "Seconds of calls of AWS, all attempts together.",
                &CALL_SECONDS,
                &action,
            ),
            waits: histogram(
                all,
                "longshore_aws_call_wait_seconds",
                "Seconds that calls were held back to stay below the limits of AWS.",
                &WAIT_SECONDS,
                &action,
            ),
            registry,
        }
    }

    /// Where they are registered.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// A call has ended.
    pub fn called(&self, call: &Call<'_>) {
        let labels = [call.service, call.action];
        let outcome = [call.service, call.action, call.outcome];
        self.calls.with_label_values(&outcome).inc();
        let retries = u64::from(call.attempts.saturating_sub(1));
        if retries > 0 {
            self.retries.with_label_values(&labels).inc_by(retries);
        }
        let (took, waited) = (call.took.as_secs_f64(), call.waited.as_secs_f64());
        self.seconds.with_label_values(&labels).observe(took);
        self.waits.with_label_values(&labels).observe(waited);
    }

    /// A fleet could not launch an offering.
    pub fn launch_failed(&self, zone: &str, zone_id: &str, capacity_type: &str, reason: &str) {
        let labels = [zone, zone_id, capacity_type, reason];
        self.launch_failures.with_label_values(&labels).inc();
    }

    /// An instance could not be terminated.
    pub fn termination_failed(&self, zone: &str, zone_id: &str) {
        let labels = [zone, zone_id];
        self.termination_failures.with_label_values(&labels).inc();
    }

    /// Calls were sent as one.
    pub fn batched(&self, batcher: &str, size: usize, waited: Duration) {
        let labels = [batcher];
        self.batch_size
            .with_label_values(&labels)
            .observe(size as f64);
        self.batch_seconds
            .with_label_values(&labels)
            .observe(waited.as_secs_f64());
    }

    /// A message came.
    pub fn received(&self, what: &str) {
        self.received.with_label_values(&[what]).inc();
    }

    /// A message was deleted.
    pub fn deleted(&self) {
        self.deleted.inc();
    }

    /// What a message asks for could not be done.
    pub fn message_failed(&self) {
        self.failed.inc();
    }

    /// What a message asks for was done, so long after it was sent.
    pub fn message_done(&self, after: Duration) {
        self.queue_seconds.observe(after.as_secs_f64());
    }

    /// EC2 finds an instance unhealthy.
    pub fn status_unhealthy(&self, category: &str) {
        self.unhealthy.with_label_values(&[category]).inc();
    }

    /// Nodes of a class boot with so many bytes.
    pub fn user_data(&self, nodeclass: &str, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.userdata.with_label_values(&[nodeclass]).set(bytes);
    }

    pub fn class_gone(&self, nodeclass: &str) {
        // One that no node was given user data of has none.
        let _ = self.userdata.remove_label_values(&[nodeclass]);
    }

    /// A class is gone, so long after its deletion was asked for.
    pub fn class_ended(&self, after: Duration) {
        self.class_ended.observe(after.as_secs_f64());
    }

    /// A condition of a class changed.
    pub fn class_transition(&self, old: Option<&Stated>, new: &Stated) {
        self.class_turns.note(old, new);
    }

    /// All of them, for the reference.
    #[cfg(test)]
    pub fn collectors(self) -> Vec<Box<dyn prometheus::core::Collector>> {
        let Ec2Metrics {
            registry: _,
            launch_failures,
            termination_failures,
            batch_seconds,
            batch_size,
            received,
            deleted,
            failed,
            queue_seconds,
            unhealthy,
            userdata,
            class_turns,
            class_ended,
            calls,
            retries,
            seconds,
            waits,
        } = self;
        let mut all: Vec<Box<dyn prometheus::core::Collector>> = vec![
            Box::new(launch_failures),
            Box::new(termination_failures),
            Box::new(batch_seconds),
            Box::new(batch_size),
            Box::new(received),
            Box::new(deleted),
            Box::new(failed),
            Box::new(queue_seconds),
            Box::new(unhealthy),
            Box::new(userdata),
            Box::new(class_ended),
            Box::new(calls),
            Box::new(retries),
            Box::new(seconds),
            Box::new(waits),
        ];
        all.extend(class_turns.collectors());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn a_daemon_has_metrics_of_ec2_once_they_are_added() {
        let metrics = Metrics::new();
        assert!(!metrics.text().contains("aws"));
        let ec2 = Ec2Metrics::new();
        metrics.also(ec2.registry());
        ec2.called(&Call {
            service: "ec2",
            action: "CreateFleet",
            outcome: "ok",
            attempts: 3,
            waited: Duration::ZERO,
            took: Duration::from_millis(30),
        });
        ec2.user_data("default", 100);
        let text = metrics.text();
        for line in [
            r#"longshore_aws_calls_total{action="CreateFleet",outcome="ok",service="ec2"} 1"#,
            r#"longshore_aws_retries_total{action="CreateFleet",service="ec2"} 2"#,
            r#"karpenter_ec2nodeclasses_userdata_bytes{nodeclass="default"} 100"#,
            "karpenter_interruption_deleted_messages_total 0",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        ec2.class_gone("default");
        assert!(!metrics.text().contains("userdata_bytes{"));
    }
}
