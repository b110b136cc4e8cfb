//! Metrics of events: Karpenter's names and labels where Karpenter has the metric, `longshore_` for
//! others.

#[cfg(test)]
mod tests;

mod declared;
pub mod disruption;
pub mod reboots;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use longshore_api::crd::{Condition as Stated, NodeClaim, Timestamp};
use prometheus::{
    Encoder as _, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter,
    IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};

use self::disruption::DisruptionMetrics;
use self::reboots::RebootMetrics;
use super::policies::PolicyStatus;
use crate::config::Mode;
use crate::observe::pod_latency;
use crate::observe::state::{PodStage, PodTransition};
use crate::process::lock::lock;
use longshore_journal::Condition;

#[cfg(any(feature = "aws", test))]
#[cfg_attr(
    not(feature = "aws"),
    allow(dead_code, reason = "the reference lists them in any case")
)]
pub mod ec2;
#[cfg(test)]
pub mod reference;
pub(super) mod registration;
mod summary;

use registration::registered;
use summary::Summary;

pub struct Metrics {
    registry: Registry,
    /// Those of the cloud, if it has some.
    more: Mutex<Vec<Registry>>,
    /// Looks for disruption, and commands.
    pub disruption: DisruptionMetrics,
    /// Reboots of nodes.
    pub reboots: RebootMetrics,
    created: IntCounterVec,
    disrupted: IntCounterVec,
    unhealthy: IntCounterVec,
    terminated: IntCounterVec,
    nodes_created: IntCounterVec,
    claim_turns: Turns,
    pool_turns: Turns,
    overlay_turns: Turns,
    node_turns: Turns,
    ended_seconds: HistogramVec,
    pods_bound: HistogramVec,
    pods_startup: Summary,
    decision: Histogram,
    provisioning_bound: HistogramVec,
    provisioning_startup: Histogram,
    nodes_termination: Summary,
    ignored: IntGauge,
    /// Seconds that rounds took to decide.
    pub scheduling: HistogramVec,
    nodes_terminated: IntCounterVec,
    nodes_drained: IntCounterVec,
    nodes_lifetime: HistogramVec,
    claims_termination: HistogramVec,
    instances_termination: HistogramVec,
    /// Answers to evictions, by code.
    pub evictions: IntCounterVec,
    /// Seconds of calls to the cloud: controller, method, provider.
    pub cloud_seconds: HistogramVec,
    /// Calls to the cloud that failed: controller, method, provider, error in Karpenter's words,
    /// NodePool.
    pub cloud_errors: IntCounterVec,
    /// The same with Longshore's words for the error.
    pub finer_cloud_errors: IntCounterVec,
    pools_limit: GaugeVec,
    pools_usage: GaugeVec,
    /// Resources with a limit or usage, by NodePool.
    pools: Mutex<BTreeMap<String, BTreeSet<String>>>,
    unschedulable: IntGaugeVec,
    /// Seconds since not everything has been listed.
    pub unsynced: IntGauge,
    /// Whether everything has been listed.
    pub synced: IntGauge,
    /// Whether nothing may be planned, for watches are behind.
    pub blocked: IntGauge,
    /// Panics that were caught, by where.
    panics: IntCounterVec,
    useless: IntCounterVec,
    pub nodes: IntGauge,
    /// Number of rounds; a label says what came of them.
    pub rounds: IntCounterVec,
    pub left_out: IntCounter,
    /// Objective of the last plan that bought something.
    pub plan_cost: Gauge,
    /// Lower bound of the objective of that plan.
    pub plan_bound: Gauge,
    /// What the policies had to say.
    pub policies: IntCounterVec,
    signal_age: ByName,
    costs_alike: ByName,
    costs_raised: ByName,
    canary_step: ByName,
    kept_answers: IntCounterVec,
    policy_call: GaugeVec,
    policy_fuel: GaugeVec,
    policy_memory: GaugeVec,
    policy_refused: ByName,
    policy_info: IntGaugeVec,
    policy_active: IntGaugeVec,
    without_capacity: IntGaugeVec,
    garbage_held: IntGaugeVec,
    journal_bytes: IntGauge,
    journal_lost: IntGauge,
    journal_failing: IntGauge,
    log_lost: IntCounter,
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

/// Seconds of things that take minutes.
const MINUTES_BUCKETS: [f64; 11] = [
    1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0,
];
/// Seconds that a node lives: a minute to a quarter of a year.
const LIFETIME_BUCKETS: [f64; 9] = [
    60.0,
    600.0,
    3600.0,
    6.0 * 3600.0,
    DAY,
    3.0 * DAY,
    7.0 * DAY,
    30.0 * DAY,
    90.0 * DAY,
];
const DAY: f64 = 86_400.0;

fn histogram(
    registry: &Registry,
    name: &str,
    help: &str,
    buckets: &[f64],
    labels: &[&str],
) -> HistogramVec {
    registered(
        registry,
        HistogramVec::new(
            HistogramOpts::new(name, help).buckets(buckets.to_vec()),
            labels,
        ),
    )
}

fn unlabelled(registry: &Registry, name: &str, help: &str, buckets: &[f64]) -> Histogram {
    registered(
        registry,
        Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec())),
    )
}

fn gauges(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
    registered(registry, GaugeVec::new(Opts::new(name, help), labels))
}

/// A label of a claim, empty for none.
fn label<'a>(claim: &'a NodeClaim, key: &str) -> &'a str {
    claim
        .metadata
        .labels
        .as_ref()
        .and_then(|l| l.get(key))
        .map_or("", String::as_str)
}

const POOL: &str = "karpenter.sh/nodepool";
/// The type of a condition as labels have it: `KernelReady` is `kernel_ready`.
fn snake(type_: &str) -> String {
    let mut text = String::new();
    for c in type_.chars() {
        if c.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.extend(c.to_lowercase());
    }
    text
}

const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
const ZONE: &str = "topology.kubernetes.io/zone";

impl Metrics {
    /// Counts a panic that was caught.
    pub fn panicked(&self, place: &str) {
        self.panics.with_label_values(&[place]).inc();
    }

    /// Counts nodes of a NodePool that were bought and did not help.
    pub fn useless_purchases(&self, pool: &str, nodes: usize) {
        self.useless.with_label_values(&[pool]).inc_by(nodes as u64);
    }

    /// A NodeClaim was created.
    pub fn claim_created(&self, pool: &str, relaxed: bool) {
        let relaxed = if relaxed { "true" } else { "false" };
        self.created
            .with_label_values(&["provisioned", pool, relaxed])
            .inc();
    }

    /// A NodeClaim was deleted by us.
    pub fn disrupted(&self, reason: &str, claim: &NodeClaim) {
        self.disrupted
            .with_label_values(&[
                reason,
                label(claim, POOL),
                label(claim, CAPACITY_TYPE),
                "",
                "",
            ])
            .inc();
    }

    /// A NodeClaim was deleted or rebooted by us since a condition of its node says that it is
    /// unhealthy. `mode` is what its pods get: `forceful` if nothing, `eventual` if a time, and
    /// `graceful` if all the time that they want.
    pub fn unhealthy(&self, condition: &str, mode: &str, claim: &NodeClaim) {
        let image = claim.status.as_ref().map_or("", |status| &status.image_id);
        let labels = [
            &snake(condition),
            label(claim, POOL),
            label(claim, CAPACITY_TYPE),
            image,
            mode,
        ];
        self.unhealthy.with_label_values(&labels).inc();
    }

    /// A NodeClaim is gone, so many seconds after its deletion was asked for; if it had an
    /// instance, so many after the end of that.
    pub fn terminated(&self, claim: &NodeClaim, seconds: f64, instance: Option<f64>) {
        let pool = label(claim, POOL);
        self.terminated
            .with_label_values(&[pool, label(claim, CAPACITY_TYPE), label(claim, ZONE)])
            .inc();
        self.claims_termination
            .with_label_values(&[pool])
            .observe(seconds);
        self.ended_seconds
            .with_label_values::<&str>(&[])
            .observe(seconds);
        if let Some(seconds) = instance {
            self.instances_termination
                .with_label_values(&[pool])
                .observe(seconds);
        }
    }

    /// A node registered.
    pub fn node_created(&self, claim: &NodeClaim) {
        self.nodes_created
            .with_label_values(&[label(claim, POOL), label(claim, ZONE)])
            .inc();
    }

    /// A node has no more pods that would have to leave.
    pub fn node_drained(&self, claim: &NodeClaim) {
        self.nodes_drained
            .with_label_values(&[label(claim, POOL)])
            .inc();
    }

    /// A node is gone, so many seconds after it was made, and so many after its deletion was asked
    /// for.
    pub fn node_terminated(
        &self,
        labels: &BTreeMap<String, String>,
        seconds: Option<f64>,
        ending: Option<f64>,
    ) {
        let of = |key: &str| labels.get(key).map_or("", String::as_str);
        self.nodes_terminated
            .with_label_values(&[of(POOL), of(ZONE)])
            .inc();
        if let Some(seconds) = seconds {
            self.nodes_lifetime
                .with_label_values(&[of(POOL)])
                .observe(seconds);
        }
        if let Some(seconds) = ending {
            self.nodes_termination.observe(of(POOL), seconds);
        }
    }

    /// Unplaced pods of a round.
    pub fn unschedulable(&self, pods: usize) {
        self.unschedulable
            .with_label_values(&["provisioner"])
            .set(pods as i64);
    }

    /// Pods of a round that nothing could be planned for, whatever there is.
    pub fn ignored(&self, pods: usize) {
        self.ignored.set(pods as i64);
    }

    /// A round has decided about a pod for the first time, so many seconds after it was seen to
    /// wait.
    pub fn decided(&self, seconds: f64) {
        self.decision.observe(seconds);
    }

    /// A pod has reached something, so many seconds after a round had a place for it, if one had.
    pub fn reached(&self, milestone: &PodTransition, now: Timestamp, placed: Option<f64>) {
        let created = milestone
            .created
            .parse::<Timestamp>()
            .ok()
            .map(|created| pod_latency::seconds(created, now));
        let dynamic = if milestone.dynamic { "true" } else { "false" };
        match milestone.what {
            PodStage::Bound => {
                created.inspect(|seconds| {
                    self.pods_bound
                        .with_label_values(&[dynamic])
                        .observe(*seconds)
                });
                placed.inspect(|seconds| {
                    self.provisioning_bound
                        .with_label_values(&[dynamic])
                        .observe(*seconds)
                });
            }
            PodStage::Running => {
                created.inspect(|seconds| self.pods_startup.observe("", *seconds));
                placed.inspect(|seconds| self.provisioning_startup.observe(*seconds));
            }
        }
    }

    /// What a NodePool may have and has, by resource, in the resource's own unit. Both empty once
    /// it is gone.
    pub fn pool(&self, pool: &str, limits: &BTreeMap<String, f64>, usage: &BTreeMap<String, f64>) {
        let named = |amounts: &BTreeMap<String, f64>| -> BTreeMap<String, f64> {
            amounts
                .iter()
                .map(|(resource, amount)| (resource_type(resource), *amount))
                .collect()
        };
        let (limits, usage) = (&named(limits), &named(usage));
        let now: BTreeSet<String> = limits.keys().chain(usage.keys()).cloned().collect();
        let mut pools = lock(&self.pools);
        let before = pools.remove(pool).unwrap_or_default();
        for (metric, amounts) in [(&self.pools_limit, limits), (&self.pools_usage, usage)] {
            for gone in before
                .iter()
                .filter(|resource| !amounts.contains_key(*resource))
            {
                let _ = metric.remove_label_values(&[gone, pool]);
            }
            amounts.iter().for_each(|(resource, amount)| {
                metric.with_label_values(&[resource, pool]).set(*amount)
            });
        }
        if !now.is_empty() {
            pools.insert(pool.to_owned(), now);
        }
    }

    /// A condition of a claim changed.
    pub fn claim_transition(&self, old: Option<&Stated>, new: &Stated) {
        self.claim_turns.note(old, new);
    }

    /// A condition of a NodePool changed.
    pub fn pool_transition(&self, old: Option<&Stated>, new: &Stated) {
        self.pool_turns.note(old, new);
    }

    /// A condition of a NodeOverlay changed.
    pub fn overlay_transition(&self, old: Option<&Stated>, new: &Stated) {
        self.overlay_turns.note(old, new);
    }

    /// A condition of a Node changed.
    pub fn node_transition(&self, old: Option<&Stated>, new: &Stated) {
        self.node_turns.note(old, new);
    }

    /// Offerings that are unavailable now.
    pub fn short(&self, short: &crate::observe::unavailable_offerings::Summary) {
        self.without_capacity.reset();
        for ((capacity_type, zone), count) in &short.by_place {
            self.without_capacity
                .with_label_values(&[capacity_type, zone])
                .set(*count as i64);
        }
    }

    /// How old the data of signals is, and which enforced policies tell no offerings apart.
    pub fn policies_and_signals(&self, status: &super::status::policies::PoliciesStatus) {
        let ages = status.signals.iter();
        let ages = ages.filter_map(|signal| Some((signal.name.as_str(), signal.age_seconds?)));
        self.signal_age.set(ages);
        self.policy_versions(&status.policies);
        let canaries = status.policies.iter();
        let canaries = canaries.filter_map(|policy| {
            let canary = policy.canary.as_ref()?;
            let step = i64::try_from(canary.step).unwrap_or_default();
            let is_back = canary.taken_back.is_some();
            Some((policy.name.as_str(), if is_back { -1 } else { step }))
        });
        self.canary_step.set(canaries);
        let enforced = status.policies.iter();
        let enforced = enforced.filter(|policy| policy.mode == Mode::Enforce);
        let raised = enforced.clone();
        let raised = raised.filter(|policy| policy.stats.raised > 0);
        self.costs_raised.set(raised.map(|policy| {
            (
                policy.name.as_str(),
                i64::try_from(policy.stats.raised).unwrap_or(i64::MAX),
            )
        }));
        for policy in enforced.clone() {
            let counted = self.kept_answers.with_label_values(&[&policy.name]);
            counted.inc_by(policy.stats.kept.saturating_sub(counted.get()));
        }
        let alike = |policy: &PolicyStatus| i64::from(!policy.alike.is_empty());
        self.costs_alike
            .set(enforced.map(|policy| (policy.name.as_str(), alike(policy))));
    }

    /// Which versions of policies run, and what answers for each.
    fn policy_versions(&self, policies: &[PolicyStatus]) {
        for gauge in [&self.policy_call, &self.policy_fuel, &self.policy_memory] {
            gauge.reset();
        }
        let refused = |policy: &PolicyStatus| i64::try_from(policy.refused).unwrap_or(i64::MAX);
        let rows = policies.iter();
        self.policy_refused
            .set(rows.map(|policy| (policy.name.as_str(), refused(policy))));
        self.policy_info.reset();
        self.policy_active.reset();
        for policy in policies {
            if let (Some(version), Some(digest)) = (&policy.version, &policy.digest) {
                let digest = digest.get(..12).unwrap_or(digest);
                let labels = [policy.name.as_str(), version.as_str(), digest];
                self.policy_info.with_label_values(&labels).set(1);
            }
            if policy.mode == Mode::Enforce
                && let Some(by) = policy.active
            {
                let labels = [policy.name.as_str(), by.label()];
                self.policy_active.with_label_values(&labels).set(1);
            }
            for (gauge, value) in [
                (&self.policy_call, policy.call_seconds),
                (&self.policy_fuel, policy.fuel_ratio),
                (
                    &self.policy_memory,
                    policy.memory_bytes.map(|bytes| bytes as f64),
                ),
            ] {
                if let Some(value) = value {
                    gauge.with_label_values(&[policy.name.as_str()]).set(value);
                }
            }
        }
    }

    /// What looks like garbage and was not collected in the last pass, by kind.
    pub fn garbage(&self, held: impl Iterator<Item = (&'static str, usize)>) {
        self.garbage_held.reset();
        for (kind, count) in held {
            self.garbage_held
                .with_label_values(&[kind])
                .set(count as i64);
        }
    }

    /// How many lines of the log were dropped so far.
    pub fn log_lines_dropped(&self, total: u64) {
        let known = self.log_lost.get();
        self.log_lost.inc_by(total.saturating_sub(known));
    }

    /// How the journal goes, if there is one.
    pub fn journal(&self, condition: Option<Condition>) {
        let condition = condition.unwrap_or_default();
        self.journal_bytes.set(condition.bytes as i64);
        self.journal_lost.set(condition.lost as i64);
        self.journal_failing.set(i64::from(condition.failing));
    }

    /// Writes these as well from now on.
    #[cfg(any(feature = "aws", test))]
    pub fn also(&self, more: &Registry) {
        lock(&self.more).push(more.clone());
    }

    /// Everything in Prometheus' text format.
    pub fn text(&self) -> String {
        let mut out = Vec::new();
        let mut families = self.registry.gather();
        let more = lock(&self.more).clone();
        families.extend(more.iter().flat_map(Registry::gather));
        let _ = TextEncoder::new().encode(&families, &mut out);
        String::from_utf8(out).unwrap_or_default()
    }
}

/// A resource as the label `resource_type` has it.
pub fn resource_type(resource: &str) -> String {
    resource.replace('-', "_")
}

/// A number for each of some names, which come and go.
struct ByName {
    gauge: IntGaugeVec,
    names: Mutex<BTreeSet<String>>,
}

impl ByName {
    fn new(registry: &Registry, name: &str, help: &str, label: &str) -> Self {
        let gauge = IntGaugeVec::new(Opts::new(name, help), &[label]);
        ByName {
            gauge: registered(registry, gauge),
            names: Mutex::default(),
        }
    }

    /// Shows these. A reader never finds one missing that is in both.
    fn set<'n>(&self, rows: impl Iterator<Item = (&'n str, i64)>) {
        let mut names = lock(&self.names);
        let mut gone = std::mem::take(&mut *names);
        for (name, value) in rows {
            self.gauge.with_label_values(&[name]).set(value);
            gone.remove(name);
            names.insert(name.to_owned());
        }
        for name in gone {
            // One that was never shown is no fault.
            _ = self.gauge.remove_label_values(&[&name]);
        }
    }
}

/// How often conditions of a kind of object changed, and for how long they had been so.
struct Turns {
    count: IntCounterVec,
    seconds: HistogramVec,
}

impl Turns {
    fn new(registry: &Registry, kind: &str) -> Self {
        let name = |of: &str| format!("operator_{kind}_status_condition_{of}");
        Turns {
            count: counter(
                registry,
                &name("transitions_total"),
                "Conditions that changed.",
                &["type", "status", "reason"],
            ),
            seconds: histogram(
                registry,
                &name("transition_seconds"),
                "Seconds that a condition was so before it changed.",
                &MINUTES_BUCKETS,
                &["type", "status", "to_status"],
            ),
        }
    }

    /// Both, for the reference.
    #[cfg(test)]
    fn collectors(self) -> [Box<dyn prometheus::core::Collector>; 2] {
        [Box::new(self.count), Box::new(self.seconds)]
    }

    fn note(&self, old: Option<&Stated>, new: &Stated) {
        self.count
            .with_label_values(&[new.type_.as_str(), new.status.text(), &new.reason])
            .inc();
        if let Some(old) = old {
            let held = new
                .last_transition_time
                .0
                .duration_since(old.last_transition_time.0)
                .as_secs_f64();
            let labels = [old.type_.as_str(), old.status.text(), new.status.text()];
            self.seconds
                .with_label_values(&labels)
                .observe(held.max(0.0));
        }
    }
}
