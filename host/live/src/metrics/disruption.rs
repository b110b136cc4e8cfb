//! Metrics of disruption: Karpenter's names and labels.

use std::time::Duration;

use longshore_core::disrupt::methods::Round;
use longshore_core::disrupt::verdicts::{Candidate, Method, Reason, Stays};
use longshore_core::ids::PoolIx;
use longshore_core::snapshot::Snapshot;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry};

use super::registration::registered;
use crate::decide::command::Command;

/// Counters of looks and commands.
pub struct DisruptionMetrics {
    seconds: HistogramVec,
    eligible: IntGaugeVec,
    allowed: IntGaugeVec,
    decisions: IntCounterVec,
    failures: IntCounterVec,
    unconfirmed: IntCounterVec,
    first: IntCounterVec,
    backoffs: IntCounterVec,
}

impl DisruptionMetrics {
    /// Registers all of them.
    pub fn new(registry: &Registry) -> Self {
        const OF: &str = "karpenter_voluntary_disruption";
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let opts = Opts::new(format!("{OF}_{name}"), help);
            registered(registry, IntCounterVec::new(opts, labels))
        };
        let backoffs = Opts::new(
            "longshore_disruption_backoffs_total",
            "How often nothing was bought for a while to replace nodes of a NodePool, because \
            replacements did not become ready.",
        );
        let kind = ["decision", "reason", "consolidation_type"];
        let seconds = HistogramOpts::new(
            format!("{OF}_decision_evaluation_duration_seconds"),
            "Seconds of one look for nodes to disrupt.",
        )
        .buckets(vec![0.001, 0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0]);
        let eligible = Opts::new(
            format!("{OF}_eligible_nodes"),
            "Nodes that the rules let go, at the last look, before disruption budgets.",
        );
        let allowed = Opts::new(
            "karpenter_nodepools_allowed_disruptions",
            "Nodes of a NodePool that its budgets let go for a reason, at the last look; 2147483647 \
            without a budget.",
        );
        DisruptionMetrics {
            seconds: registered(
                registry,
                HistogramVec::new(seconds, &["reason", "consolidation_type"]),
            ),
            eligible: registered(registry, IntGaugeVec::new(eligible, &["reason"])),
            allowed: registered(registry, IntGaugeVec::new(allowed, &["nodepool", "reason"])),
            decisions: counter("decisions_total", "Commands of disruption begun.", &kind),
            failures: counter(
                "queue_failures_total",
                "Commands of disruption taken back.",
                &kind,
            ),
            unconfirmed: counter(
                "failed_validations_total",
                "Proposals that a second look did not confirm.",
                &["consolidation_type"],
            ),
            first: counter(
                "terminate_first_decisions_total",
                "Nodes that go before they are replaced.",
                &["nodepool", "reason", "terminate_first_reason"],
            ),
            backoffs: registered(registry, IntCounterVec::new(backoffs, &["nodepool"])),
        }
    }

    /// All of them, for the reference.
    #[cfg(test)]
    pub fn collectors(self) -> [Box<dyn prometheus::core::Collector>; 8] {
        [
            Box::new(self.seconds),
            Box::new(self.eligible),
            Box::new(self.allowed),
            Box::new(self.decisions),
            Box::new(self.failures),
            Box::new(self.unconfirmed),
            Box::new(self.first),
            Box::new(self.backoffs),
        ]
    }

    /// A look has ended that took so long.
    pub fn looked(&self, took: Duration, snapshot: &Snapshot, round: &Round) {
        let took = took.as_secs_f64();
        self.seconds.with_label_values(&["all", ""]).observe(took);
        for method in [
            Method::Repair,
            Method::Emptiness,
            Method::Drift,
            Method::MultiNode,
        ] {
            let may = round
                .candidates
                .iter()
                .filter(|one| may_but_for_budgets(one, method));
            self.eligible
                .with_label_values(&[&method.reason().name().to_lowercase()])
                .set(may.count() as i64);
        }
        // NodePools that are gone have no row.
        self.allowed.reset();
        let world = &snapshot.world;
        for (at, pool) in world.pools.iter().enumerate() {
            for reason in Reason::ALL {
                let left = round.question.left(PoolIx(at as u32), reason);
                let labels = [world.names.text(pool.name), &reason.name().to_lowercase()];
                self.allowed
                    .with_label_values(&labels)
                    .set(i64::from(left.min(i32::MAX as u32)));
            }
        }
    }

    /// A reboot was begun.
    pub fn rebooted(&self) {
        self.decisions
            .with_label_values(&["reboot", "unhealthy", ""])
            .inc();
    }

    /// A node of a NodePool goes before it is replaced.
    pub fn goes_first(&self, pool: &str, command: &Command) {
        if let Some(why) = &command.first {
            self.first
                .with_label_values(&[pool, &command.reason.name().to_lowercase(), why])
                .inc();
        }
    }

    /// Nothing is bought for a while to replace nodes of a NodePool.
    pub fn backs_off(&self, pool: &str) {
        self.backoffs.with_label_values(&[pool]).inc();
    }

    pub fn begun(&self, command: &Command) {
        self.decisions
            .with_label_values(&labels(command).each_ref())
            .inc();
    }

    /// A command was taken back.
    pub fn failed(&self, command: &Command) {
        self.failures
            .with_label_values(&labels(command).each_ref())
            .inc();
    }

    /// A second look did not confirm a proposal of a method.
    pub fn unconfirmed(&self, method: Method) {
        self.unconfirmed
            .with_label_values(&[consolidation(method.name())])
            .inc();
    }
}

/// Whether nothing keeps a method from a node but a budget of its NodePool.
pub fn may_but_for_budgets(candidate: &Candidate, method: Method) -> bool {
    matches!(
        candidate.refusal(method),
        None | Some(Stays::NodePoolBudget(_))
    )
}

/// Decision, reason and kind of consolidation.
fn labels(command: &Command) -> [String; 3] {
    let decision = match (&command.first, command.replacements.is_empty()) {
        (Some(_), _) => "terminate-first",
        (None, true) => "delete",
        (None, false) => "replace",
    };
    let kind = consolidation(&command.method);
    [
        decision.to_owned(),
        command.reason.name().to_lowercase(),
        kind.to_owned(),
    ]
}

fn consolidation(method: &str) -> &str {
    match method {
        "emptiness" => "empty",
        "multi" | "single" => method,
        _ => "",
    }
}
