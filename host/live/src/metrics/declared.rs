//! Every metric of the loop, with its labels.

use std::sync::Mutex;

use prometheus::{
    Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntGaugeVec, Opts, Registry,
};

use super::{
    ByName, LIFETIME_BUCKETS, MINUTES_BUCKETS, Metrics, Turns, counter, gauge, gauges, histogram,
    unlabelled,
};
use crate::metrics::disruption::DisruptionMetrics;
use crate::metrics::reboots::RebootMetrics;
use crate::metrics::registration::registered;
use crate::metrics::summary::Summary;

impl Metrics {
    /// Metrics, all at zero.
    pub fn new() -> Self {
        let registry = Registry::new();
        #[cfg(target_os = "linux")]
        let _ = registry.register(Box::new(
            prometheus::process_collector::ProcessCollector::for_self(),
        ));
        let build = counter(
            &registry,
            "karpenter_build_info",
            "Version of this build.",
            &["version"],
        );
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).inc();
        let five = [
            "reason",
            "nodepool",
            "capacity_type",
            "consolidation_policy",
            "termination_mode",
        ];
        let scheduling = HistogramVec::new(
            HistogramOpts::new(
                "karpenter_scheduler_scheduling_duration_seconds",
                "Seconds of deciding.",
            )
            .buckets(vec![0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]),
            &["controller"],
        );
        Metrics {
            disruption: DisruptionMetrics::new(&registry),
            reboots: RebootMetrics::new(&registry),
            created: counter(
                &registry,
                "karpenter_nodeclaims_created_total",
                "NodeClaims created.",
                &["reason", "nodepool", "min_values_relaxed"],
            ),
            disrupted: counter(
                &registry,
                "karpenter_nodeclaims_disrupted_total",
                "NodeClaims deleted by us.",
                &five,
            ),
            unhealthy: counter(
                &registry,
                "karpenter_nodeclaims_unhealthy_disrupted_total",
                "NodeClaims deleted, or nodes rebooted, by us because the node was unhealthy.",
                &[
                    "condition",
                    "nodepool",
                    "capacity_type",
                    "image_id",
                    "termination_mode",
                ],
            ),
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
            claim_turns: Turns::new(&registry, "nodeclaim"),
            pool_turns: Turns::new(&registry, "nodepool"),
            overlay_turns: Turns::new(&registry, "nodeoverlay"),
            node_turns: Turns::new(&registry, "node"),
            ended_seconds: histogram(
                &registry,
                "operator_nodeclaim_termination_duration_seconds",
                "Seconds from a NodeClaim's deletion to its end.",
                &MINUTES_BUCKETS,
                &[],
            ),
            pods_bound: histogram(
                &registry,
                "karpenter_pods_bound_duration_seconds",
                "Seconds from a pod's creation until it has a node.",
                &MINUTES_BUCKETS,
                &["dynamic_resources"],
            ),
            pods_startup: registered(
                &registry,
                Summary::new(
                    "karpenter_pods_startup_duration_seconds",
                    "Seconds from a pod's creation until it runs.",
                    None,
                ),
            ),
            decision: unlabelled(
                &registry,
                "karpenter_pods_scheduling_decision_duration_seconds",
                "Seconds from when a pod was first seen unschedulable until a round decided about \
                it.",
                &MINUTES_BUCKETS,
            ),
            provisioning_bound: histogram(
                &registry,
                "karpenter_pods_provisioning_bound_duration_seconds",
                "Seconds from when a round placed a pod until it was bound.",
                &MINUTES_BUCKETS,
                &["dynamic_resources"],
            ),
            provisioning_startup: unlabelled(
                &registry,
                "karpenter_pods_provisioning_startup_duration_seconds",
                "Seconds from when a round placed a pod until it ran.",
                &MINUTES_BUCKETS,
            ),
            nodes_termination: registered(
                &registry,
                Summary::new(
                    "karpenter_nodes_termination_duration_seconds",
                    "Seconds from a node's deletion to its end.",
                    Some("nodepool"),
                ),
            ),
            ignored: gauge(
                &registry,
                "karpenter_scheduler_ignored_pods_count",
                "Pending pods that the scheduler ignores because their spec cannot be planned.",
            ),
            scheduling: registered(&registry, scheduling),
            nodes_terminated: counter(
                &registry,
                "karpenter_nodes_terminated_total",
                "Nodes that are gone.",
                &["nodepool", "zone"],
            ),
            nodes_drained: counter(
                &registry,
                "karpenter_nodes_drained_total",
                "Nodes drained.",
                &["nodepool"],
            ),
            nodes_lifetime: histogram(
                &registry,
                "karpenter_nodes_lifetime_duration_seconds",
                "Seconds from a node's creation to its end.",
                &LIFETIME_BUCKETS,
                &["nodepool"],
            ),
            claims_termination: histogram(
                &registry,
                "karpenter_nodeclaims_termination_duration_seconds",
                "Seconds from a NodeClaim's deletion to its end.",
                &MINUTES_BUCKETS,
                &["nodepool"],
            ),
            instances_termination: histogram(
                &registry,
                "karpenter_nodeclaims_instance_termination_duration_seconds",
                "Seconds from asking for an instance's end to its end.",
                &MINUTES_BUCKETS,
                &["nodepool"],
            ),
            evictions: counter(
                &registry,
                "karpenter_pods_eviction_requests_total",
                "Answers to evictions.",
                &["code"],
            ),
            cloud_seconds: histogram(
                &registry,
                "karpenter_cloudprovider_duration_seconds",
                "Seconds of calls to the cloud.",
                &[0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0],
                &["controller", "method", "provider"],
            ),
            cloud_errors: counter(
                &registry,
                "karpenter_cloudprovider_errors_total",
                "Calls to the cloud that failed. `error` is `InsufficientCapacityError`, \
                `NodeClassNotReadyError`, `NodeClaimNotFoundError` or `unknown`.",
                &["controller", "method", "provider", "error", "nodepool"],
            ),
            finer_cloud_errors: counter(
                &registry,
                "longshore_cloud_errors_total",
                "The same calls, with the kind of error: `InsufficientCapacity`, \
                `NodeClassNotReady`, `Throttled`, `Unauthorized`, `NotFound`, `Invalid` or \
                `LaunchFailed`.",
                &["controller", "method", "provider", "error", "nodepool"],
            ),
            pools_limit: gauges(
                &registry,
                "karpenter_nodepools_limit",
                "Limits of NodePools.",
                &["resource_type", "nodepool"],
            ),
            pools_usage: gauges(
                &registry,
                "karpenter_nodepools_usage",
                "What NodePools have.",
                &["resource_type", "nodepool"],
            ),
            pools: Mutex::default(),
            unschedulable: registered(
                &registry,
                IntGaugeVec::new(
                    Opts::new(
                        "karpenter_scheduler_unschedulable_pods_count",
                        "Unplaced pods.",
                    ),
                    &["controller"],
                ),
            ),
            unsynced: gauge(
                &registry,
                "karpenter_cluster_state_unsynced_time_seconds",
                "Seconds since not everything has been listed.",
            ),
            synced: gauge(
                &registry,
                "karpenter_cluster_state_synced",
                "1 once everything has been listed.",
            ),
            blocked: gauge(
                &registry,
                "longshore_planning_blocked",
                "1 while nothing is planned: lists are not complete, watches are behind, or the API server is silent.",
            ),
            useless: counter(
                &registry,
                "longshore_useless_purchases_total",
                "Nodes that were bought for pods and did not help: kube-scheduler refused the pods all \
                 the same.",
                &["nodepool"],
            ),
            panics: counter(
                &registry,
                "longshore_panics_total",
                "Panics that were caught, by where.",
                &["where"],
            ),
            nodes: gauge(
                &registry,
                "karpenter_cluster_state_node_count",
                "Nodes known.",
            ),
            rounds: counter(
                &registry,
                "longshore_rounds_total",
                "Rounds by outcome: `bought`, `nothing`, `failed` (no NodeClaim could be created), \
                `outdated`, `rejected`, `replaced`, `cut_short`, `left_out` (pods with which plans \
                break a rule).",
                &["outcome"],
            ),
            left_out: registered(
                &registry,
                IntCounter::new(
                    "longshore_pods_left_out_total",
                    "Pods left out of a round's plan because plans with them broke a rule: a defect, \
                    of which a report is beside the journal.",
                ),
            ),
            plan_cost: registered(
                &registry,
                Gauge::new("longshore_plan_effective_cost", "Objective, USD per hour."),
            ),
            plan_bound: registered(
                &registry,
                Gauge::new("longshore_plan_lower_bound", "Lower bound, USD per hour."),
            ),
            policies: counter(
                &registry,
                "longshore_policy_notices_total",
                "Notices about policies, by kind: PolicyLoaded, PolicyRefused, PolicyFailing, …",
                &["kind", "policy"],
            ),
            signal_age: ByName::new(
                &registry,
                "longshore_signal_age_seconds",
                "Seconds since the numbers of a signal were true, as far as its source says.",
                "signal",
            ),
            costs_alike: ByName::new(
                &registry,
                "longshore_policy_costs_alike",
                "1 while an enforced policy costs all offerings the same for some NodePool, so that \
                the price decides nothing.",
                "policy",
            ),
            canary_step: ByName::new(
                &registry,
                "longshore_policy_canary_step",
                "The step that the next version of a policy is obeyed at, from 1 on; 0 where it is not \
                 obeyed, -1 once it was taken back.",
                "policy",
            ),
            costs_raised: ByName::new(
                &registry,
                "longshore_policy_costs_raised",
                "Costs of an enforced policy that were raised so far: they were further below the list \
                price than `max-discount` allows.",
                "policy",
            ),
            kept_answers: counter(
                &registry,
                "longshore_policy_kept_answers_total",
                "Questions to a policy that an earlier answer answered: all that it was made of was the same.",
                &["policy"],
            ),
            policy_call: registered(
                &registry,
                GaugeVec::new(
                    Opts::new(
                        "longshore_policy_call_seconds",
                        "The longest call of an enforced policy when it was last asked.",
                    ),
                    &["policy"],
                ),
            ),
            policy_fuel: registered(
                &registry,
                GaugeVec::new(
                    Opts::new(
                        "longshore_policy_fuel_ratio",
                        "The most fuel that a call used then, as a share of what a call has.",
                    ),
                    &["policy"],
                ),
            ),
            policy_memory: registered(
                &registry,
                GaugeVec::new(
                    Opts::new(
                        "longshore_policy_memory_bytes",
                        "The most memory that an enforced policy had then, of 64 MiB.",
                    ),
                    &["policy"],
                ),
            ),
            policy_refused: ByName::new(
                &registry,
                "longshore_policy_refused",
                "Versions of a policy that were refused so far.",
                "policy",
            ),
            policy_info: registered(
                &registry,
                IntGaugeVec::new(
                    Opts::new(
                        "longshore_policy_info",
                        "1 for the version of a policy that runs, with the first 12 digits of its digest.",
                    ),
                    &["policy", "version", "digest"],
                ),
            ),
            policy_active: registered(
                &registry,
                IntGaugeVec::new(
                    Opts::new(
                        "longshore_policy_active",
                        "1 for what answered for an enforced policy in the last round: `current`, \
                        `last-version`, `last-answer`, `hold`, `price`, `rules` or `built-in`.",
                    ),
                    &["policy", "by"],
                ),
            ),
            without_capacity: registered(
                &registry,
                IntGaugeVec::new(
                    Opts::new(
                        "longshore_offerings_without_capacity",
                        "Offerings left out after an insufficient-capacity error.",
                    ),
                    &["capacity_type", "zone"],
                ),
            ),
            garbage_held: registered(
                &registry,
                IntGaugeVec::new(
                    Opts::new(
                        "longshore_garbage_held",
                        "What looks like garbage and was not collected, by kind.",
                    ),
                    &["kind"],
                ),
            ),
            journal_bytes: gauge(
                &registry,
                "longshore_journal_bytes",
                "Bytes of all segments of the journal.",
            ),
            journal_lost: gauge(
                &registry,
                "longshore_journal_lost",
                "Observations and rounds missing in the journal.",
            ),
            journal_failing: gauge(
                &registry,
                "longshore_journal_failing",
                "1 while the journal cannot be written.",
            ),
            log_lost: registered(
                &registry,
                IntCounter::new(
                    "longshore_log_lines_dropped_total",
                    "Lines of the log that were dropped because its reader was slow or gone.",
                ),
            ),
            leads: gauge(&registry, "longshore_leader", "1 while this replica leads."),
            more: Mutex::default(),
            registry,
        }
    }
}
