//! Reasons as text: the one place where an [`Unfit`] becomes a code for programs and a sentence for
//! people.

#[cfg(test)]
mod tests;

mod amount;
mod limit;
mod types;

use std::collections::BTreeMap;
use std::sync::Arc;

use longshore_api::labels;
use longshore_core::cron::date;
use longshore_core::model::{
    ClusterObjects, Excess, NodeClassRef, NodePool, Op, PodShape, Requirement, Symbol, Taint,
    TaintEffect, fields,
};
use longshore_core::plan::{Barred, IncompatiblePool, Least, Target, TopologyRule, Unfit};
use longshore_core::reasons::{FullMemory, UnjoinedBackoff, UselessPurchase};
use longshore_core::snapshot::{ForeignTaintBackoff, Ineligible};

pub use amount::{amount, quantities, size, two_amounts};

use crate::count;

const ZONE: &str = "topology.kubernetes.io/zone";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

/// The code of a reason: stable, for programs.
pub fn code(unfit: &Unfit) -> &'static str {
    match unfit {
        Unfit::Invalid(_) => "Invalid",
        Unfit::Excess(_) => "TooMuch",
        Unfit::ResourceClaims => "ResourceClaims",
        Unfit::NoSuchResource { .. } => "NoSuchResource",
        Unfit::Volume(_) => "Volume",
        Unfit::NoPools => "NoNodePools",
        Unfit::Unusable(_) => "NodePoolUnusable",
        Unfit::Taint(_) => "Taint",
        Unfit::Label { .. } => "Label",
        Unfit::Resource { .. } => "Resource",
        Unfit::Types(_) => "InstanceTypes",
        Unfit::Topology {
            rule: TopologyRule::Spread,
            ..
        } => "TopologySpread",
        Unfit::Topology {
            rule: TopologyRule::Affinity,
            ..
        } => "PodAffinity",
        Unfit::Topology {
            rule: TopologyRule::AntiAffinity,
            ..
        } => "PodAntiAffinity",
        Unfit::Topology {
            rule: TopologyRule::InverseAntiAffinity,
            ..
        } => "PodAntiAffinityOfOthers",
        Unfit::HostPort { .. } => "HostPort",
        Unfit::VolumeLimit { .. } => "VolumeLimit",
        Unfit::LimitReached(_) => "LimitReached",
        Unfit::NodeLimitReached { .. } => "NodeLimitReached",
        Unfit::MinValues { .. } => "MinValues",
        Unfit::ReservedCapacity => "ReservedCapacity",
        Unfit::Excluded { .. } => "Excluded",
        Unfit::UselessPurchase(_) => "UselessPurchase",
        Unfit::BreaksPlan { .. } => "BreaksPlan",
        Unfit::Unrealised { .. } => "NotRealised",
        Unfit::Unexplained => "Unexplained",
    }
}

/// Instance types removed by each rule, zero counts left out; `None` where types are not the
/// reason.
pub fn type_counts(unfit: &Unfit) -> Option<BTreeMap<&'static str, u32>> {
    let Unfit::Types(left) = unfit else {
        return None;
    };
    let [cpu, memory, pods, storage, other] = left.resources;
    let counts = [
        ("all", left.all),
        ("labels", left.labels),
        ("cpu", cpu),
        ("memory", memory),
        ("pods", pods),
        ("ephemeral-storage", storage),
        ("other resources", other),
        ("offerings", left.offerings),
        ("policy", left.excluded),
        ("limits", left.limits),
    ];
    Some(counts.into_iter().filter(|&(_, count)| count > 0).collect())
}

/// What a field of nodes that pods ask for as a label says.
fn field(key: &str) -> String {
    match fields::feature(key) {
        Some(feature) => format!("the node does not declare feature {feature}"),
        None => "its volume is to be made for another node (annotation \
            volume.kubernetes.io/selected-node)"
            .into(),
    }
}

/// The subject of a reason, so that its sentence can name what was required and what exists.
#[derive(Clone, Copy)]
pub struct Messages<'w> {
    /// Everything observed.
    pub world: &'w ClusterObjects,
    /// The pod's shape, if known.
    pub shape: Option<&'w PodShape>,
    /// The NodePool that refuses, if one does.
    pub pool: Option<&'w NodePool>,
}

impl Messages<'_> {
    fn text(&self, sym: Symbol) -> &str {
        self.world.names.text(sym)
    }

    /// Dynamic resource allocation gives extended resources as well, by their name or by that of a
    /// DeviceClass.
    fn no_such_resource(&self, name: &str) -> String {
        match name.strip_prefix("deviceclass.resource.kubernetes.io/") {
            Some(class) => format!(
                "it asks for a device of DeviceClass {class}, and dynamic resource allocation is \
                not planned for yet"
            ),
            None => format!(
                "no node has {name} and no instance type offers it; if a DeviceClass gives it \
                (extendedResourceName), dynamic resource allocation is not planned for yet"
            ),
        }
    }

    /// A reason as a sentence without a full stop.
    pub fn sentence(&self, unfit: &Unfit) -> String {
        match unfit {
            Unfit::Invalid(why) => format!("the pod cannot be planned: {why}"),
            Unfit::Excess(Excess { part, count }) => {
                format!(
                    "it has {count} {}, and pods with more than {} are not planned for",
                    part.words(),
                    part.most()
                )
            }
            Unfit::ResourceClaims => "it asks for dynamic resource claims, which are not planned \
                for yet"
                .into(),
            Unfit::NoSuchResource { resource } => {
                self.no_such_resource(resource.name(&self.world.names))
            }
            Unfit::Volume(why) => format!("volume: {why}"),
            Unfit::NoPools => "there is no NodePool, or none that can be read".into(),
            Unfit::Unusable(why) => self.unusable(why),
            Unfit::Taint(taint) => format!("it does not tolerate taint {}", self.taint(taint)),
            Unfit::Label { key } if fields::is_field(self.text(*key)) => field(self.text(*key)),
            Unfit::Label { key } => self.label(*key),
            Unfit::Resource {
                resource,
                wants,
                free,
            } => {
                let (wants, free) = two_amounts(*resource, *wants, *free);
                let resource = resource.name(&self.world.names);
                format!("too little {resource}: wants {wants}, free {free}")
            }
            Unfit::Types(left) => self.types(left),
            Unfit::Topology { rule, key, least } => {
                let key = self.text(*key);
                match rule {
                    // An existing node is refused because the pods are not on it; a new one because
                    // they cannot be.
                    TopologyRule::Affinity if self.pool.is_some() && key == labels::HOSTNAME => {
                        "its affinity requires pods on the same node; they run on full nodes or \
                        do not run"
                            .into()
                    }
                    TopologyRule::Spread => {
                        let least = least
                            .as_ref()
                            .map(|least| self.least(least))
                            .unwrap_or_default();
                        format!("topology spread over {key} leaves no domain{least}")
                    }
                    TopologyRule::Affinity => match least {
                        None => format!("no {key} has the pods that its affinity requires"),
                        Some(least) => format!(
                            "the pods that its affinity requires are in {key} {}, where it cannot be",
                            self.text(least.domain)
                        ),
                    },
                    TopologyRule::AntiAffinity => {
                        format!("its anti-affinity excludes pods that run in every {key}")
                    }
                    TopologyRule::InverseAntiAffinity => {
                        format!("anti-affinity of pods in every {key} excludes it")
                    }
                }
            }
            Unfit::HostPort { port } => format!("host port {port} is taken"),
            Unfit::VolumeLimit { driver } => {
                format!("no more volumes of {} can be attached", self.text(*driver))
            }
            Unfit::LimitReached(reached) => limit::of_resource(self.world, *reached),
            Unfit::NodeLimitReached { limit } => limit::of_nodes(*limit),
            Unfit::MinValues { key } => format!(
                "too few values of {} are left for minValues",
                self.text(*key)
            ),
            Unfit::ReservedCapacity => "all matching reserved capacity is in use; the pod waits \
                for it"
                .into(),
            Unfit::Excluded { policies } => {
                format!("{} every offering that fits", exclude(policies))
            }
            Unfit::UselessPurchase(UselessPurchase {
                claim, times: 0, ..
            }) => {
                format!(
                    "the node of NodeClaim {claim}, bought for such pods, is about to take them"
                )
            }
            Unfit::UselessPurchase(UselessPurchase {
                claim,
                times,
                until,
                after_another,
            }) => {
                let next = match after_another {
                    true => {
                        "The next is bought for another pod like it, to see whether it helps".into()
                    }
                    false => format!(
                        "No other is bought before {} UTC, unless the pod, its volumes, a NodePool or a \
                        node class change",
                        time_of_day(*until)
                    ),
                };
                let times = match times {
                    1 => String::new(),
                    times => format!(" ({times} times in a row)"),
                };
                format!(
                    "a node was bought for it in vain{times}: kube-scheduler still refuses it, \
                    though NodeClaim {claim} was made for it. {next}"
                )
            }
            Unfit::BreaksPlan { rule, detail } => format!(
                "left out, for a plan with it breaks a rule ({rule:?}: {detail}): a defect of \
                Longshore, please report it"
            ),
            Unfit::Unrealised { runs } => format!(
                "kube-scheduler would bind it to no node of the plan, in 0 of {runs} modelled runs, \
                so none is bought for it"
            ),
            Unfit::Unexplained => {
                "no rule refuses the pod, but it was not placed: a defect of Longshore, please \
                report it"
                    .into()
            }
        }
    }

    /// Which domain a spread constraint would fill first, and what keeps pods out of it.
    fn least(&self, least: &Least) -> String {
        let domain = self.text(least.domain);
        let has = format!(": {domain} has the fewest pods ({})", least.pods);
        match &least.barred {
            Barred::Unasked => has,
            Barred::NotOffered if self.is_short(least.domain) => {
                format!("{has}, and every offering there is without capacity now")
            }
            Barred::NotOffered => format!("{has}, and no NodePool offers it"),
            Barred::TooFewDomains { domains, wanted } => {
                format!(
                    "{has}; minDomains is {wanted} and only {domains} domains exist, so the \
                    minimum counts as 0"
                )
            }
            Barred::Refused(refusal) => {
                let pool = match refusal.target {
                    Target::Pool(pool) => self.world.pools.get(pool.0 as usize),
                    Target::Pod | Target::Node(_) => None,
                };
                let name = pool
                    .map(|pool| format!("NodePool {}: ", self.text(pool.name)))
                    .unwrap_or_default();
                let why = Messages { pool, ..*self }.sentence(&refusal.unfit);
                format!("{has}, and none can be added there: {name}{why}")
            }
        }
    }

    /// Whether a zone or capacity type has offerings, all of which are unavailable.
    fn is_short(&self, domain: Symbol) -> bool {
        let all = self.world.catalogue.offerings().iter();
        let mut there = all
            .filter(|one| one.zone == Some(domain) || one.capacity_type == Some(domain))
            .peekable();
        there.peek().is_some() && there.all(|one| !one.available)
    }

    /// Why a NodePool may not be bought from.
    pub fn unusable(&self, why: &Ineligible) -> String {
        let class =
            |class: &NodeClassRef| format!("{} {}", self.text(class.kind), self.text(class.name));
        match why {
            Ineligible::Deleting => "it is being deleted".into(),
            Ineligible::Static => {
                "it is static (spec.replicas): its nodes are kept by count, not by pods".into()
            }
            Ineligible::NotReady => self.not_ready(),
            Ineligible::ForeignClass(foreign) => self.foreign(foreign),
            Ineligible::ClassMissing(missing) => format!("its {} does not exist", class(missing)),
            Ineligible::ClassDeleting(deleting) => {
                format!("its {} is being deleted", class(deleting))
            }
            Ineligible::ClassNotReady(not_ready) => {
                format!("its {} is not Ready", class(not_ready))
            }
            Ineligible::ForeignTaints(ForeignTaintBackoff {
                nodes,
                taint,
                until,
            }) => format!(
                "{} unusable because of taint {}; next purchase at {} UTC. If the taint is \
                temporary, add it to startupTaints",
                count(*nodes as usize, "new node"),
                self.taint(taint),
                time_of_day(*until)
            ),
            Ineligible::NeverJoined(UnjoinedBackoff {
                nodes,
                not_ready,
                class: of,
                until,
            }) => {
                let what = match not_ready {
                    0 => "never joined the cluster".to_owned(),
                    _ if not_ready == nodes => "have joined and are not ready for pods".to_owned(),
                    _ => {
                        format!("never joined the cluster, or have ({not_ready}) and are not ready")
                    }
                };
                format!(
                    "its last {nodes} nodes {what}, probably because of {}; one node is tried \
                    after {} UTC, or when the NodePool or its node class changes",
                    class(of),
                    time_of_day(*until)
                )
            }
            Ineligible::FullMemory(FullMemory { groups, until }) => format!(
                "nodes were bought from it in vain for {groups} groups of pods, and it has no room \
                to remember more; the next is bought after {} UTC, or when NodePools or node \
                classes change",
                time_of_day(*until)
            ),
        }
    }

    /// Without any node class of its kind a NodePool is not ready, and no class is there to say why.
    fn not_ready(&self) -> String {
        let why = "its condition Ready is not True";
        let class = self.pool.map(|pool| pool.class);
        match class.filter(|class| !self.knows_any(class)) {
            None => why.to_owned(),
            Some(class) => format!("{why}, and no {} is known at all", self.text(class.kind)),
        }
    }

    /// Whether node classes of a kind are known.
    fn knows_any(&self, class: &NodeClassRef) -> bool {
        let mut known = self.world.classes.iter().map(|known| known.id);
        known.any(|known| known.kind == class.kind && known.group == class.group)
    }

    /// Which node class a NodePool names, and for which nodes are bought here.
    fn foreign(&self, class: &NodeClassRef) -> String {
        let of = |group, kind| format!("{} ({})", self.text(kind), self.text(group));
        let managed = self.world.managed;
        let managed = managed.map(|managed| {
            let managed = of(managed.group, managed.kind);
            format!("; nodes are bought here for {managed} only")
        });
        format!(
            "its nodeClassRef is {} {}, of another provider{}",
            of(class.group, class.kind),
            self.text(class.name),
            managed.unwrap_or_default()
        )
    }

    fn taint(&self, taint: &Taint) -> String {
        let value = match self.text(taint.value) {
            "" => String::new(),
            value => format!("={value}"),
        };
        format!("{}{value}:{}", self.text(taint.key), effect(taint.effect))
    }

    /// Why nothing can be bought for a NodePool, whatever pod asks.
    pub fn incompatible_pool(&self, incompatible: &IncompatiblePool) -> String {
        let why = self.sentence(&incompatible.unfit);
        let alone = |key: Symbol| {
            self.pool
                .and_then(|pool| pool.requirements.iter().find(|r| r.key == key))
        };
        match (&incompatible.unfit, incompatible.requirement) {
            (Unfit::MinValues { .. }, _) => format!("no instance types can be had together: {why}"),
            (_, Some(key)) => {
                let wanted = alone(key)
                    .map(|r| format!(": {}", self.requirement(r)))
                    .unwrap_or_default();
                let key = self.text(key);
                format!(
                    "no compatible instance type: {why}; none satisfies the NodePool's \
                    requirement on {key}{wanted}"
                )
            }
            (_, None) => format!("no compatible instance type: {why}"),
        }
    }

    fn label(&self, key: Symbol) -> String {
        let mut sentence = format!("label {} does not match", self.text(key));
        if let Some(wanted) = self.shape.and_then(|shape| demand(shape, key)) {
            sentence += &format!(": wants {}", self.requirement(wanted));
        }
        if let Some(offered) = self
            .pool
            .and_then(|pool| pool.requirements.iter().find(|r| r.key == key))
        {
            sentence += &format!(", the NodePool has {}", self.requirement(offered));
        } else if let Some(value) = self.pool.and_then(|pool| pool.labels.get(key)) {
            sentence += &format!(", the NodePool has {}", self.text(value));
        }
        sentence
    }

    /// What a requirement admits.
    pub fn requirement(&self, requirement: &Requirement) -> String {
        match &requirement.op {
            Op::In(values) => self.values(values, " or "),
            Op::NotIn(values) => format!("not {}", self.values(values, " nor ")),
            Op::Exists => "any value".into(),
            Op::DoesNotExist => "none".into(),
            Op::Gte(bound) => format!("at least {bound}"),
            Op::Lte(bound) => format!("at most {bound}"),
        }
    }

    fn values(&self, values: &[Symbol], between: &str) -> String {
        let mut texts: Vec<&str> = values.iter().map(|&value| self.text(value)).collect();
        texts.sort_unstable();
        let more = texts.len().saturating_sub(4);
        if more > 0 {
            texts.truncate(4);
        }
        let shown = texts.join(between);
        if more > 0 {
            format!("{shown} (and {more} more)")
        } else {
            shown
        }
    }
}

/// `policy a excludes`, `policies a and b together exclude`.
fn exclude(policies: &[Arc<str>]) -> String {
    match policies {
        [] => "the policy excludes".to_owned(),
        [one] => format!("policy {one} excludes"),
        [others @ .., last] => {
            format!("policies {} and {last} together exclude", others.join(", "))
        }
    }
}

/// The effect of a taint, as the API calls it.
pub fn effect(effect: TaintEffect) -> &'static str {
    match effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
        TaintEffect::NoExecute => "NoExecute",
    }
}

/// `2026-11-24T14:03:20Z` of a second since 1970.
pub fn rfc3339(second: i64) -> String {
    let (year, month, day) = date(second.div_euclid(86_400));
    format!("{year:04}-{month:02}-{day:02}T{}Z", time_of_day(second))
}

/// `14:03:20` of a second since 1970.
pub fn time_of_day(second: i64) -> String {
    let of_day = second.rem_euclid(86_400);
    format!(
        "{:02}:{:02}:{:02}",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
}

/// So many seconds, in the largest unit of which there are two, but hours up to a day: `40 s`, `12 min`,
/// `5 h`, `3 d`.
pub fn span(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// What a pod demands of a label without an alternative: its node selector, or its only term of
/// required affinity.
fn demand(shape: &PodShape, key: Symbol) -> Option<&Requirement> {
    let only_term = match shape.required.as_slice() {
        [term] => term.as_slice(),
        _ => &[],
    };
    shape
        .node_selector
        .iter()
        .chain(only_term)
        .find(|requirement| requirement.key == key)
}

/// An amount of money with so many digits behind the point. `~` marks an estimate.
pub fn usd(amount: f64, digits: usize, estimated: bool) -> String {
    format!("{}{amount:.digits$}", mark(estimated))
}

/// The mark of an estimate.
pub fn mark(estimated: bool) -> &'static str {
    if estimated { "~" } else { "" }
}

/// What prices are estimated from, if some are estimates.
pub fn estimated_from(world: &ClusterObjects) -> Option<&str> {
    let words = world.catalogue.estimates().words?;
    Some(world.names.text(words))
}

/// What `~` means by that: a line after an empty one, or nothing.
pub fn estimates(from: Option<&str>) -> String {
    from.map_or(String::new(), |words| {
        format!("\n~ is an estimate: {words}. --world FILE plans with the account's own prices.\n")
    })
}
