//! The metrics of events, for the reference in `host/docs`.

use prometheus::core::Collector;
use prometheus::proto::MetricType;

use super::{Metrics, Turns, ec2};

/// A metric, as the reference in `host/docs` has it.
pub struct Row {
    pub name: String,
    kind: &'static str,
    labels: Vec<String>,
    help: String,
}

impl Row {
    /// From the registry.
    pub fn new(
        name: &str,
        kind: MetricType,
        labels: impl IntoIterator<Item = String>,
        help: &str,
    ) -> Self {
        let kind = match kind {
            MetricType::COUNTER => "counter",
            MetricType::GAUGE => "gauge",
            MetricType::SUMMARY => "summary",
            MetricType::HISTOGRAM => "histogram",
            other => panic!("{name} is {other:?}"),
        };
        let mut labels: Vec<String> = labels.into_iter().collect();
        labels.sort();
        labels.dedup();
        Row {
            name: name.to_owned(),
            kind,
            labels,
            help: help.to_owned(),
        }
    }

    /// As the page has it.
    pub fn cells(self) -> Vec<String> {
        let label = |label: &String| {
            if label.starts_with('*') {
                label.clone()
            } else {
                format!("`{label}`")
            }
        };
        let labels: Vec<String> = self.labels.iter().map(label).collect();
        vec![
            format!("`{}`", self.name),
            self.kind.to_owned(),
            labels.join(", "),
            self.help,
        ]
    }
}

/// A row for each metric that [`Metrics`] registers. A field that is missing here does not compile.
pub fn rows() -> Vec<Row> {
    let Metrics {
        registry,
        more: _,
        disruption,
        reboots,
        created,
        useless,
        disrupted,
        unhealthy,
        terminated,
        nodes_created,
        claim_turns,
        pool_turns,
        overlay_turns,
        node_turns,
        ended_seconds,
        pods_bound,
        pods_startup,
        decision,
        provisioning_bound,
        provisioning_startup,
        nodes_termination,
        ignored,
        scheduling,
        nodes_terminated,
        nodes_drained,
        nodes_lifetime,
        claims_termination,
        instances_termination,
        evictions,
        cloud_seconds,
        cloud_errors,
        finer_cloud_errors,
        pools_limit,
        pools_usage,
        pools: _,
        unschedulable,
        unsynced,
        synced,
        blocked,
        panics,
        nodes,
        rounds,
        left_out,
        plan_cost,
        plan_bound,
        policies,
        signal_age,
        costs_alike,
        costs_raised,
        canary_step,
        kept_answers,
        policy_call,
        policy_fuel,
        policy_memory,
        policy_refused,
        policy_info,
        policy_active,
        without_capacity,
        garbage_held,
        journal_bytes,
        journal_lost,
        journal_failing,
        log_lost,
        leads,
    } = Metrics::new();
    let mut all: Vec<Box<dyn Collector>> = vec![
        Box::new(created),
        Box::new(disrupted),
        Box::new(unhealthy),
        Box::new(terminated),
        Box::new(nodes_created),
        Box::new(ended_seconds),
        Box::new(pods_bound),
        Box::new(pods_startup),
        Box::new(decision),
        Box::new(provisioning_bound),
        Box::new(provisioning_startup),
        Box::new(nodes_termination),
        Box::new(ignored),
        Box::new(scheduling),
        Box::new(nodes_terminated),
        Box::new(nodes_drained),
        Box::new(nodes_lifetime),
        Box::new(claims_termination),
        Box::new(instances_termination),
        Box::new(evictions),
        Box::new(cloud_seconds),
        Box::new(cloud_errors),
        Box::new(finer_cloud_errors),
        Box::new(pools_limit),
        Box::new(pools_usage),
        Box::new(unschedulable),
        Box::new(unsynced),
        Box::new(synced),
        Box::new(blocked),
        Box::new(panics),
        Box::new(nodes),
        Box::new(rounds),
        Box::new(left_out),
        Box::new(plan_cost),
        Box::new(plan_bound),
        Box::new(policies),
        Box::new(signal_age.gauge),
        Box::new(costs_alike.gauge),
        Box::new(costs_raised.gauge),
        Box::new(canary_step.gauge),
        Box::new(kept_answers),
        Box::new(policy_call),
        Box::new(policy_fuel),
        Box::new(policy_memory),
        Box::new(policy_refused.gauge),
        Box::new(policy_info),
        Box::new(policy_active),
        Box::new(without_capacity),
        Box::new(garbage_held),
        Box::new(journal_bytes),
        Box::new(journal_lost),
        Box::new(journal_failing),
        Box::new(useless),
        Box::new(log_lost),
        Box::new(leads),
    ];
    all.extend(disruption.collectors());
    all.extend(reboots.collectors());
    all.extend(ec2::Ec2Metrics::new().collectors());
    all.extend(
        [claim_turns, pool_turns, overlay_turns, node_turns]
            .into_iter()
            .flat_map(Turns::collectors),
    );
    let mut rows: Vec<Row> = all
        .iter()
        .map(|collector| row(collector.as_ref()))
        .collect();
    // What is registered and no field.
    for family in registry.gather() {
        if rows.iter().all(|row| row.name != family.name())
            && !family.name().starts_with("process_")
        {
            let labels = family
                .get_metric()
                .iter()
                .flat_map(|m| m.get_label().iter().map(|l| l.name().to_owned()));
            rows.push(Row::new(
                family.name(),
                family.get_field_type(),
                labels,
                family.help(),
            ));
        }
    }
    rows
}

fn row(collector: &dyn Collector) -> Row {
    let descs = collector.desc();
    assert_eq!(descs.len(), 1, "one name each");
    let kind = collector.collect()[0].get_field_type();
    Row::new(
        &descs[0].fq_name,
        kind,
        descs[0].variable_labels.iter().cloned(),
        &descs[0].help,
    )
}
