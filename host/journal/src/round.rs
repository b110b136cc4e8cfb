//! The record of a round: its input beside the observations, and its result.

use std::collections::BTreeMap;

use longshore_core::disrupt::methods;
use longshore_core::model::{
    LabelSelector, MinValuesPolicy, NodeInclusion, OfferingId, PreferencePolicy, Settings, Spread,
    Symbols,
};
use longshore_core::plan::Effort;
use longshore_core::planner::PlanOptions;
use longshore_core::snapshot::Snapshot;
use longshore_policy::LoadedPolicy;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use super::judged::Counted;
use super::look::Look;
use super::terms::RecordedTerms;
use longshore_report::decision::{Claim, Decision};
use longshore_report::disruption::summary::summary_of;
use longshore_report::hex::hex;

/// A round. Digests name blobs of the same segment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Round {
    /// Its number, as in its beginning.
    pub round: u64,
    /// Seconds since 1970 that it planned at.
    pub now: i64,
    /// When it was decided, milliseconds since 1970.
    pub time: i64,
    /// How hard it tried, and where chance began.
    pub how: RecordedConfig,
    /// Group and kind of the node classes that were managed; older journals do not say, and all were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed: Option<(String, String)>,
    /// The instance types.
    pub catalogue: String,
    /// Which of their offerings were taken to be without capacity.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub short: Vec<Short>,
    /// The signals, if there were any.
    pub signals: Option<String>,
    /// Versions of policies that answered.
    pub versions: Vec<Version>,
    /// Who answered what, in the order of the questions.
    pub answers: Vec<Answer>,
    /// Policies that gave no answer, by name: another version or the price did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    /// Pods that a node was nominated for, by the API server's word or ours: `namespace/name`,
    /// node.
    pub nominated: Vec<(String, String)>,
    /// Pods that kube-scheduler had not tried and would mark unschedulable, `namespace/name`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub foreseen: Vec<String>,
    /// Places of pods in kube-scheduler's queue, `namespace/name`: the lowest is tried first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queued: Vec<(String, u64)>,
    /// What it had beside that, if it looked for disruption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub look: Option<Look>,
    /// What went into it that is not written down, in words. A replay can differ by it.
    pub missing: Vec<String>,
    /// The result.
    pub outcome: RoundOutcome,
    /// Milliseconds of deciding.
    pub milliseconds: u64,
    /// The time limit was reached: the plan is that of this effort, regardless of `how`.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "RecordedEffort::if_cut_short"
    )]
    pub cut_short: Option<RecordedEffort>,
}

/// An effort by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedEffort(pub Effort);

impl Serialize for RecordedEffort {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

impl RecordedEffort {
    /// Reads an effort, or what journals of older versions say: whether effort `none` was used.
    fn if_cut_short<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Self>, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            FirstFit(bool),
            Effort(String),
        }
        match Written::deserialize(from)? {
            Written::FirstFit(used) => Ok(used.then_some(RecordedEffort(Effort::None))),
            Written::Effort(name) => match Effort::named(&name) {
                Some(effort) => Ok(Some(RecordedEffort(effort))),
                None => Err(D::Error::custom(format!(
                    "its effort {name:?} is not known"
                ))),
            },
        }
    }
}

/// Offerings that were treated as unavailable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Short {
    /// Until when, seconds since 1970.
    pub until: i64,
    /// Rows of the catalogue, the first and the last of each run.
    pub rows: Vec<(u32, u32)>,
}

/// The input of planning beside the objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedConfig {
    /// `none`, `quick`, `normal` or `thorough`.
    pub effort: String,
    /// Decides between equals.
    pub seed: u64,
    /// Preferences of pods count for nothing.
    pub ignore_preferences: bool,
    /// `minValues` of a NodePool may be missed.
    pub min_values_best_effort: bool,
    /// Capacity reservations are used.
    pub reserved_capacity: bool,
    /// USD per hour and node, the bits of the number.
    pub node_cost: u64,
    /// Default topology spread constraints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub default_spread: Vec<DefaultSpread>,
}

/// A default topology spread constraint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DefaultSpread {
    /// How many pods two domains may differ by.
    pub max_skew: i32,
    /// The label that tells domains apart.
    pub key: String,
    /// `DoNotSchedule`; otherwise ScheduleAnyway.
    pub required: bool,
    /// How many domains there must be, as far as it says.
    pub min_domains: Option<i32>,
    /// Nodes count that the pod's affinity excludes.
    pub ignores_affinity: bool,
    /// Nodes do not count whose taints the pod does not tolerate.
    pub honors_taints: bool,
}

impl DefaultSpread {
    fn new(spread: &Spread, names: &Symbols) -> Self {
        DefaultSpread {
            max_skew: spread.max_skew,
            key: names.text(spread.key).to_owned(),
            required: spread.required,
            min_domains: spread.min_domains,
            ignores_affinity: spread.node_affinity == NodeInclusion::Ignore,
            honors_taints: spread.node_taints == NodeInclusion::Honor,
        }
    }

    fn meant(&self, names: &mut Symbols) -> Spread {
        let inclusion = |honors: bool| {
            if honors {
                NodeInclusion::Honor
            } else {
                NodeInclusion::Ignore
            }
        };
        Spread {
            max_skew: self.max_skew,
            key: names.intern(&self.key),
            required: self.required,
            selector: LabelSelector::default(),
            min_domains: self.min_domains,
            node_affinity: inclusion(!self.ignores_affinity),
            node_taints: inclusion(self.honors_taints),
        }
    }
}

/// A version of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Version {
    /// What it calls itself.
    pub name: String,
    /// Its component.
    pub digest: String,
    /// Its settings, a JSON object.
    pub settings: String,
    /// Its place among the policies; two places have instances of their own.
    pub place: usize,
    /// What the operator let it do.
    pub terms: RecordedTerms,
}

impl Version {
    /// A version at a place, as it is written down.
    pub(super) fn new(place: usize, policy: &LoadedPolicy) -> Self {
        Version {
            name: policy.called(),
            digest: policy.digest().to_owned(),
            settings: policy.settings().to_owned(),
            place,
            terms: RecordedTerms::new(policy.terms()),
        }
    }
}

/// What one policy of a NodePool's chain answered about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// The NodePool's name.
    pub node_pool: String,
    /// It was given what the answer before says that offerings cost, and not their prices.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub follows: bool,
    /// Which of the versions; none where offerings cost what they did before.
    pub version: Option<usize>,
    /// Checksum of the answer.
    pub sum: u64,
    /// It was there already: all that it was made of was the same.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
    /// What offerings cost where neither a version nor the price answered, by digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<String>,
    /// What counted where no version answered; older journals do not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
    /// What the operator calls the policy, where no version answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}

/// The result of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RoundOutcome {
    /// A plan.
    Decided(Summary),
    /// A plan that broke a rule and was dropped.
    Rejected(String),
}

impl Default for RoundOutcome {
    fn default() -> Self {
        RoundOutcome::Decided(Summary::default())
    }
}

/// A plan in numbers, and enough words to say where another plan differs from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// SHA-256 of the decision, as `longshore plan` prints it.
    pub digest: String,
    /// USD per hour of what is bought.
    pub cost: f64,
    /// The objective, USD per hour.
    pub effective: f64,
    /// Nodes to buy.
    pub claims: usize,
    /// Pods to plan.
    pub pods: usize,
    /// Pods for nodes that exist.
    pub existing: usize,
    /// Unplaced pods.
    pub left: usize,
    /// The first of its parts, each with a checksum.
    pub parts: Vec<Part>,
}

/// A part of a plan: a claim, a node that gets pods, an unplaced pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// A line for people, such as `NodePool web: m5.large`.
    pub words: String,
    /// Over everything that the plan says of it.
    pub sum: String,
}

/// Limit of parts that are recorded.
const MAX_PARTS: usize = 2_000;

impl Short {
    /// Offerings and until when they are short, as they are written down.
    pub fn all(short: &[(OfferingId, i64)]) -> Vec<Short> {
        let mut by_time: BTreeMap<i64, Vec<(u32, u32)>> = BTreeMap::new();
        for &(OfferingId(row), until) in short {
            let rows = by_time.entry(until).or_default();
            match rows
                .last_mut()
                .filter(|(_, last)| last.checked_add(1) == Some(row))
            {
                Some((_, last)) => *last = row,
                None => rows.push((row, row)),
            }
        }
        by_time
            .into_iter()
            .map(|(until, rows)| Short { until, rows })
            .collect()
    }

    /// As it was meant, rows of a catalogue with this many offerings.
    pub fn meant(all: &[Short], offerings: usize) -> Vec<(OfferingId, i64)> {
        let last_row = (offerings as u32).saturating_sub(1);
        let rows = |&(first, last): &(u32, u32)| first..=last.min(last_row);
        let of = |short: &Short| {
            let until = short.until;
            short
                .rows
                .iter()
                .flat_map(rows)
                .map(move |row| (OfferingId(row), until))
                .collect::<Vec<_>>()
        };
        all.iter().flat_map(of).collect()
    }
}

impl RecordedConfig {
    /// As it is written down.
    pub fn new(settings: &Settings, options: PlanOptions, names: &Symbols) -> Self {
        RecordedConfig {
            effort: options.effort.name().into(),
            seed: options.seed,
            ignore_preferences: settings.preferences == PreferencePolicy::Ignore,
            min_values_best_effort: settings.min_values == MinValuesPolicy::BestEffort,
            reserved_capacity: settings.reserved_capacity,
            node_cost: settings.node_cost.to_bits(),
            default_spread: settings
                .default_spread
                .iter()
                .map(|spread| DefaultSpread::new(spread, names))
                .collect(),
        }
    }

    /// As it was meant. Fails with words on an effort that is not known.
    pub fn meant(&self, names: &mut Symbols) -> Result<(Settings, PlanOptions), String> {
        let effort = Effort::named(&self.effort)
            .ok_or_else(|| format!("its effort {:?} is not known", self.effort))?;
        let settings = Settings {
            preferences: if self.ignore_preferences {
                PreferencePolicy::Ignore
            } else {
                PreferencePolicy::Respect
            },
            min_values: match self.min_values_best_effort {
                true => MinValuesPolicy::BestEffort,
                false => MinValuesPolicy::Strict,
            },
            reserved_capacity: self.reserved_capacity,
            node_cost: f64::from_bits(self.node_cost),
            default_spread: self
                .default_spread
                .iter()
                .map(|spread| spread.meant(names))
                .collect(),
        };
        Ok((
            settings,
            PlanOptions {
                effort,
                seed: self.seed,
            },
        ))
    }
}

impl Summary {
    /// The summary of a decision about `pods` pods.
    pub fn new(decision: &Decision, pods: usize) -> Self {
        let claims = decision
            .claims
            .iter()
            .map(|claim| Part::new(claim_words(claim), claim));
        let existing = decision.existing.iter().map(|(node, pods)| {
            Part::new(
                format!("node {node} gets {}", some_pods(pods)),
                &(node, pods),
            )
        });
        let left = decision.errors.iter().map(|(pod, why)| {
            Part::new(
                format!("pod {pod} is left over: {}", why.message),
                &(pod, why),
            )
        });
        Summary {
            digest: decision.digest(),
            cost: decision.cost,
            effective: decision.effective,
            claims: decision.claims.len(),
            pods,
            existing: decision.existing.values().map(Vec::len).sum(),
            left: decision.errors.len(),
            parts: claims.chain(existing).chain(left).take(MAX_PARTS).collect(),
        }
    }

    /// What a look came to: `claims` are nodes to buy, `pods` those that move, `existing` the nodes that
    /// may go now.
    pub fn of_look(snapshot: &Snapshot, round: &methods::Round) -> Self {
        let found = summary_of(snapshot, round);
        Summary {
            digest: found.digest,
            cost: found.savings,
            claims: found.replacements,
            pods: found.pods,
            existing: found.nodes,
            ..Summary::with_parts(found.parts)
        }
    }

    /// A summary of nothing but parts: words, and everything that is said of each.
    pub fn with_parts<T: Serialize>(parts: Vec<(String, T)>) -> Self {
        let parts = parts.into_iter().take(MAX_PARTS);
        Summary {
            parts: parts.map(|(words, of)| Part::new(words, &of)).collect(),
            ..Summary::default()
        }
    }

    /// The first thing that `other` says otherwise: (what this says, what `other` says). Nothing if
    /// they are equal.
    pub fn difference(&self, other: &Summary) -> Option<(String, String)> {
        if self.digest == other.digest {
            return None;
        }
        let nothing = || "nothing more".to_owned();
        let longest = self.parts.len().max(other.parts.len());
        for at in 0..longest {
            let (a, b) = (self.parts.get(at), other.parts.get(at));
            if a == b {
                continue;
            }
            let words = |part: Option<&Part>| part.map_or_else(nothing, |part| part.words.clone());
            let (a, b) = (words(a), words(b));
            // The same to people, so it is in what the words leave out.
            let more = if a == b {
                " (with other alternatives, requirements or pods)"
            } else {
                ""
            };
            return Some((a, b + more));
        }
        let totals = |s: &Summary| format!("cost {} and objective {} USD/h", s.cost, s.effective);
        let (a, b) = (totals(self), totals(other));
        let same = "the same in every part that is written down";
        Some(if a == b {
            (
                same.into(),
                format!("{same}, with another lower bound or further parts"),
            )
        } else {
            (a, b)
        })
    }
}

impl Summary {
    /// Whether purchases, their pods and unplaced pods are equal, whatever their estimated cost.
    pub fn same_parts(&self, other: &Summary) -> bool {
        let words = |s: &Summary| {
            s.parts
                .iter()
                .map(|part| part.words.clone())
                .collect::<Vec<_>>()
        };
        (self.cost, self.claims, self.left) == (other.cost, other.claims, other.left)
            && words(self) == words(other)
    }
}

impl Part {
    fn new(words: String, of: &impl Serialize) -> Self {
        let bytes = serde_json::to_vec(of).unwrap_or_default();
        Part {
            words,
            sum: hex(&Sha256::digest(&bytes)[..8]),
        }
    }
}

fn claim_words(claim: &Claim) -> String {
    let offering = &claim.offering;
    let text = |text: &Option<String>| {
        text.clone()
            .map_or_else(String::new, |text| format!(" {text}"))
    };
    format!(
        "NodePool {} buys {}{}{} at {:.4} USD/h for {}",
        claim.node_pool,
        offering.instance_type,
        text(&offering.capacity_type),
        text(&offering.zone),
        claim.price,
        some_pods(&claim.pods)
    )
}

fn some_pods(pods: &[String]) -> String {
    match pods {
        [] => "no pods".into(),
        [only] => format!("pod {only}"),
        [first, ..] => format!("{} pods from {first} on", pods.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_to_the_last_bit() {
        let mut names = Symbols::default();
        let spread = Spread {
            max_skew: 2,
            key: names.intern("zone"),
            required: true,
            selector: LabelSelector::default(),
            min_domains: Some(3),
            node_affinity: NodeInclusion::Honor,
            node_taints: NodeInclusion::Ignore,
        };
        let other = Spread {
            node_affinity: NodeInclusion::Ignore,
            node_taints: NodeInclusion::Honor,
            ..spread.clone()
        };
        let settings = Settings {
            preferences: PreferencePolicy::Ignore,
            node_cost: 0.1 + 0.2,
            reserved_capacity: false,
            default_spread: vec![spread, other],
            ..Settings::default()
        };
        let options = PlanOptions {
            effort: Effort::Thorough,
            seed: u64::MAX,
        };
        let text = serde_json::to_string(&RecordedConfig::new(&settings, options, &names)).unwrap();
        let how: RecordedConfig = serde_json::from_str(&text).unwrap();
        assert_eq!(how.meant(&mut names), Ok((settings, options)));
        let cut_short = |written: &str| {
            let round: Round =
                serde_json::from_str(&format!(r#"{{"cut_short": {written}}}"#)).unwrap();
            let again = serde_json::to_value(&round).unwrap();
            (
                round.cut_short.map(|used| used.0),
                again["cut_short"].clone(),
            )
        };
        assert_eq!(cut_short("true"), (Some(Effort::None), "none".into()));
        assert_eq!(
            cut_short(r#""quick""#),
            (Some(Effort::Quick), "quick".into())
        );
        assert_eq!(cut_short("false"), (None, serde_json::Value::Null));
        assert!(
            RecordedConfig::default()
                .meant(&mut names)
                .unwrap_err()
                .contains("effort")
        );
    }

    #[test]
    fn what_is_short_is_written_down_in_runs() {
        let short: Vec<_> = [(0, 7), (1, 7), (2, 9), (3, 7), (4, 7)]
            .map(|(row, t)| (OfferingId(row), t))
            .into();
        let all = Short::all(&short);
        assert_eq!(
            all[0],
            Short {
                until: 7,
                rows: vec![(0, 1), (3, 4)]
            }
        );
        let mut meant = Short::meant(&all, 5);
        meant.sort_unstable();
        assert_eq!(meant, short);
        assert_eq!(
            Short::meant(
                &[Short {
                    until: 1,
                    rows: vec![(1, u32::MAX)]
                }],
                3
            )
            .len(),
            2,
            "no further than there are"
        );
    }

    #[test]
    fn the_first_difference_is_named_with_both_sides() {
        let part = |words: &str, sum: &str| Part {
            words: words.into(),
            sum: sum.into(),
        };
        let summary = |digest: &str, parts: Vec<Part>| Summary {
            digest: digest.into(),
            parts,
            ..Summary::default()
        };
        let a = summary("1", vec![part("x", "1"), part("y", "1")]);
        assert_eq!(a.difference(&a), None);
        let difference = |b: Vec<Part>| a.difference(&summary("2", b)).unwrap();
        assert_eq!(
            difference(vec![part("x", "1"), part("z", "2")]),
            ("y".into(), "z".into())
        );
        assert_eq!(
            difference(vec![part("x", "1")]),
            ("y".into(), "nothing more".into())
        );
        assert!(
            difference(vec![part("x", "2")])
                .1
                .starts_with("x (with other")
        );
    }
}
