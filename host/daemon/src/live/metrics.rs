//! What Prometheus reads: Karpenter's names and labels where it has one, `longshore_` for ours.

use longshore_api::crd::{ConditionStatus, NodeClaim};
use prometheus::{
    Encoder as _, Gauge, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};

use super::journal::Condition;

/// All metrics.
pub struct Metrics {
    registry: Registry,
    created: IntCounterVec,
    disrupted: IntCounterVec,
    terminated: IntCounterVec,
    nodes_created: IntCounterVec,
    transitions: IntCounterVec,
    /// Seconds of deciding.
    pub scheduling: HistogramVec,
    /// Pods that no node was found for.
    pub unschedulable: IntGauge,
    /// Whether everything has been listed.
    pub synced: IntGauge,
    /// Nodes known.
    pub nodes: IntGauge,
    /// Rounds by outcome.
    pub rounds: IntCounterVec,
    /// Objective of the last plan that bought something.
    pub plan_cost: Gauge,
    /// Its lower bound.
    pub plan_bound: Gauge,
    /// What the policies had to say.
    pub policies: IntCounterVec,
    without_capacity: IntGaugeVec,
    journal_bytes: IntGauge,
    journal_lost: IntGauge,
    journal_failing: IntGauge,
    /// 1 while this replica leads.
    pub leads: IntGauge,
}

fn counter(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    let made = IntCounterVec::new(Opts::new(name, help), labels);
    registered(registry, made)
}

fn gauge(registry: &Registry, name: &str, help: &str) -> IntGauge {
    registered(registry, IntGauge::new(name, help))
}

/// Names and labels here are constants that fit together; a mistake shows in the first test.
fn registered<T: prometheus::core::Collector + Clone + 'static>(registry: &Registry, made: prometheus::Result<T>) -> T {
    #[allow(clippy::expect_used, reason = "a constant of this file would be wrong")]
    let metric = made.expect("metric is well formed");
    #[allow(clippy::expect_used, reason = "a constant of this file would be wrong")]
    registry.register(Box::new(metric.clone())).expect("metric is registered once");
    metric
}

impl Metrics {
    /// Metrics, all at zero.
    pub fn new() -> Self {
        let registry = Registry::new();
        #[cfg(target_os = "linux")]
        let _ = registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()));
        let build = counter(&registry, "karpenter_build_info", "Version of this build.", &["version"]);
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).inc();
        let five = ["reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"];
        let scheduling = HistogramVec::new(
            HistogramOpts::new("karpenter_scheduler_scheduling_duration_seconds", "Seconds of deciding.")
                .buckets(vec![0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]),
            &["controller"],
        );
        Metrics {
            created: counter(
                &registry,
                "karpenter_nodeclaims_created_total",
                "NodeClaims created.",
                &["reason", "nodepool", "min_values_relaxed"],
            ),
            disrupted: counter(&registry, "karpenter_nodeclaims_disrupted_total", "NodeClaims deleted by us.", &five),
            terminated: counter(
                &registry,
                "karpenter_nodeclaims_terminated_total",
                "NodeClaims that are gone.",
                &["nodepool", "capacity_type", "zone"],
            ),
            nodes_created: counter(
                &registry,
                "karpenter_nodes_created_total",
                "Nodes registered.",
                &["nodepool", "zone"],
            ),
            transitions: counter(
                &registry,
                "karpenter_operator_nodeclaim_status_condition_transitions_total",
                "Conditions that changed.",
                &["type", "status"],
            ),
            scheduling: registered(&registry, scheduling),
            unschedulable: gauge(&registry, "karpenter_scheduler_unschedulable_pods_count", "Pods left over."),
            synced: gauge(&registry, "karpenter_cluster_state_synced", "1 once everything has been listed."),
            nodes: gauge(&registry, "karpenter_cluster_state_node_count", "Nodes known."),
            rounds: counter(&registry, "longshore_rounds_total", "Rounds by outcome.", &["outcome"]),
            plan_cost: registered(&registry, Gauge::new("longshore_plan_effective_cost", "Objective, USD per hour.")),
            plan_bound: registered(&registry, Gauge::new("longshore_plan_lower_bound", "Lower bound, USD per hour.")),
            policies: counter(
                &registry,
                "longshore_policy_notices_total",
                "What policies had to say, by kind: loaded, refused, failing, …",
                &["kind", "policy"],
            ),
            without_capacity: registered(
                &registry,
                IntGaugeVec::new(
                    Opts::new("longshore_offerings_without_capacity", "Offerings not asked for after a shortage."),
                    &["capacity_type", "zone"],
                ),
            ),
            journal_bytes: gauge(&registry, "longshore_journal_bytes", "Bytes of all segments of the journal."),
            journal_lost: gauge(
                &registry,
                "longshore_journal_lost",
                "Observations and rounds that the journal has not.",
            ),
            journal_failing: gauge(&registry, "longshore_journal_failing", "1 while the journal cannot be written."),
            leads: gauge(&registry, "longshore_leader", "1 while this replica leads."),
            registry,
        }
    }

    /// A NodeClaim was created.
    pub fn claim_created(&self, pool: &str, relaxed: bool) {
        let relaxed = if relaxed { "true" } else { "false" };
        self.created.with_label_values(&["provisioned", pool, relaxed]).inc();
    }

    /// A NodeClaim was deleted by us.
    pub fn disrupted(&self, reason: &str, pool: &str) {
        self.disrupted.with_label_values(&[reason, pool, "", "", ""]).inc();
    }

    /// A NodeClaim is gone.
    pub fn terminated(&self, pool: &str, claim: &NodeClaim) {
        let label = |key: &str| claim.metadata.labels.as_ref().and_then(|l| l.get(key)).map_or("", String::as_str);
        let (capacity, zone) = (label("karpenter.sh/capacity-type"), label("topology.kubernetes.io/zone"));
        self.terminated.with_label_values(&[pool, capacity, zone]).inc();
    }

    /// A node registered.
    pub fn node_created(&self, pool: &str) {
        self.nodes_created.with_label_values(&[pool, ""]).inc();
    }

    /// A condition of a claim changed.
    pub fn transition(&self, _kind: &str, condition: &str, status: ConditionStatus) {
        self.transitions.with_label_values(&[condition, &format!("{status:?}")]).inc();
    }

    /// Offerings that could not be had a moment ago.
    pub fn short(&self, short: &super::shortages::Summary) {
        self.without_capacity.reset();
        for ((capacity_type, zone), count) in &short.by_place {
            self.without_capacity.with_label_values(&[capacity_type, zone]).set(*count as i64);
        }
    }

    /// How the journal goes, if there is one.
    pub fn journal(&self, condition: Option<Condition>) {
        let condition = condition.unwrap_or_default();
        self.journal_bytes.set(condition.bytes as i64);
        self.journal_lost.set(condition.lost as i64);
        self.journal_failing.set(i64::from(condition.failing));
    }

    /// Everything in Prometheus' text format.
    pub fn text(&self) -> String {
        let mut out = Vec::new();
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut out);
        String::from_utf8(out).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_well_formed() {
        let metrics = Metrics::new();
        metrics.claim_created("default", false);
        let text = metrics.text();
        assert!(text.contains(r#"karpenter_nodeclaims_created_total{min_values_relaxed="false",nodepool="default",reason="provisioned"} 1"#), "{text}");
        assert!(text.contains("karpenter_build_info"));
    }
}
