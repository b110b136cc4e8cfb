//! Limits on what one pod may ask for; pods above a limit are not planned.
//!
//! The API server accepts any number of terms and constraints that fit into 1.5 MiB. The planner
//! looks at each of them for each pod that they may select, so one tenant could stop planning for
//! all. Every limit is at least ten times what real workloads use: up to five terms, two spread
//! constraints, a dozen tolerations.

/// A part of a pod that is limited.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Part {
    /// Required terms of pod affinity and anti-affinity.
    PodTerms,
    /// Preferred terms of pod affinity and anti-affinity. Each is one more attempt to place the
    /// pod.
    PreferredPodTerms,
    /// Topology spread constraints. Kubernetes has one per topology key and mode.
    SpreadConstraints,
    /// Distinct namespaces that its pod terms name.
    Namespaces,
    /// Rules and values of its label selectors.
    SelectorValues,
    /// `spec.tolerations`.
    Tolerations,
    /// Terms of node affinity, required and preferred. Each is one more attempt to place the pod.
    NodeTerms,
    /// Rules and values of node affinity and node selector. A list of all instance types of a cloud
    /// has 1 400.
    NodeValues,
    /// Host ports and volumes.
    PortsAndVolumes,
    /// Bytes of labels, keys and values. Fifty labels of the greatest length have 19 KiB.
    LabelBytes,
    /// Bytes of texts in selectors, affinities, constraints and tolerations.
    RuleBytes,
}

impl Part {
    /// All parts, in the order in which they are checked.
    pub const ALL: [Part; 11] = [
        Part::PodTerms,
        Part::PreferredPodTerms,
        Part::SpreadConstraints,
        Part::Namespaces,
        Part::SelectorValues,
        Part::Tolerations,
        Part::NodeTerms,
        Part::NodeValues,
        Part::PortsAndVolumes,
        Part::LabelBytes,
        Part::RuleBytes,
    ];

    /// Of how many a pod is still planned for.
    pub fn most(self) -> u64 {
        match self {
            Part::PodTerms | Part::Tolerations | Part::PortsAndVolumes => 500,
            Part::PreferredPodTerms | Part::NodeTerms => 100,
            Part::SpreadConstraints => 64,
            Part::Namespaces => 1_000,
            Part::SelectorValues | Part::NodeValues => 5_000,
            Part::LabelBytes => 64 << 10,
            Part::RuleBytes => 256 << 10,
        }
    }

    /// What a pod has too much of, for a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Part::PodTerms => "required terms of pod affinity and anti-affinity",
            Part::PreferredPodTerms => "preferred terms of pod affinity and anti-affinity",
            Part::SpreadConstraints => "topology spread constraints",
            Part::Namespaces => "namespaces in terms of pod affinity and anti-affinity",
            Part::SelectorValues => "rules and values of label selectors",
            Part::Tolerations => "tolerations",
            Part::NodeTerms => "terms of node affinity",
            Part::NodeValues => "rules and values of node selector and node affinity",
            Part::PortsAndVolumes => "host ports and volumes",
            Part::LabelBytes => "bytes of labels",
            Part::RuleBytes => "bytes of selectors, affinities, constraints and tolerations",
        }
    }
}

/// A limit that a pod passes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Excess {
    /// The part that exceeds its limit.
    pub part: Part,
    /// How many of it the pod has.
    pub count: u64,
}

impl Excess {
    /// The first exceeded limit.
    pub fn of(count: impl Fn(Part) -> u64) -> Option<Self> {
        let all = Part::ALL.into_iter().map(|part| Excess {
            part,
            count: count(part),
        });
        all.into_iter()
            .find(|excess| excess.count > excess.part.most())
    }
}
