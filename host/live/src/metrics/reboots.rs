//! Metrics of reboots: Karpenter's names and labels.

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

use super::registration::registered;

/// Counters of reboots.
pub struct RebootMetrics {
    reboots: IntCounterVec,
    seconds: HistogramVec,
    recovery: HistogramVec,
}

impl RebootMetrics {
    /// Registers all of them.
    pub fn new(registry: &Registry) -> Self {
        let reboots = Opts::new(
            "karpenter_nodes_reboots_total",
            "Reboots of nodes that have ended, by result.",
        );
        let seconds = |name: &str, help: &str, labels: &[&str]| {
            // 10 s × 2^0 to 2^7.
            let buckets = (0..8).map(|n| f64::from(10 << n)).collect();
            let opts = HistogramOpts::new(name, help).buckets(buckets);
            registered(registry, HistogramVec::new(opts, labels))
        };
        RebootMetrics {
            reboots: registered(registry, IntCounterVec::new(reboots, &["result"])),
            seconds: seconds(
                "karpenter_nodes_reboot_duration_seconds",
                "Seconds from the request of a reboot to its end, by result.",
                &["result"],
            ),
            recovery: seconds(
                "karpenter_nodes_reboot_recovery_duration_seconds",
                "Seconds from the cloud's acceptance of a reboot to a node that is ready.",
                &[],
            ),
        }
    }

    /// All of them, for the reference.
    #[cfg(test)]
    pub fn collectors(self) -> [Box<dyn prometheus::core::Collector>; 3] {
        [
            Box::new(self.reboots),
            Box::new(self.seconds),
            Box::new(self.recovery),
        ]
    }

    /// A reboot has ended so many seconds after it was requested.
    pub fn ended(&self, result: &str, seconds: f64) {
        self.reboots.with_label_values(&[result]).inc();
        self.seconds.with_label_values(&[result]).observe(seconds);
    }

    /// A node was ready so many seconds after its cloud accepted the reboot.
    pub fn recovered(&self, seconds: f64) {
        self.recovery
            .with_label_values::<&str>(&[])
            .observe(seconds);
    }
}
