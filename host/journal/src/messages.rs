//! Formats records as text, one line each.

use serde::Deserialize;

use super::record::{Gap, Observed, What, kinds};
use longshore_core::plan::Effort;

use super::judged::Counted;
use super::look::BEFORE_FIRST_LOOK;
use super::round::{RecordedEffort, Round, RoundOutcome};
use super::segment::End;
use longshore_api::kinds::ObjectKind;
use longshore_report::count;
use longshore_report::messages::rfc3339;

/// A time, milliseconds since 1970, as RFC 3339 writes it.
pub fn time(milliseconds: i64) -> String {
    let second = rfc3339(milliseconds.div_euclid(1000));
    let fraction = milliseconds.rem_euclid(1000);
    format!("{}.{fraction:03}Z", second.trim_end_matches('Z'))
}

/// What a kind is called.
pub fn kind(kind: ObjectKind) -> String {
    kind.at().kind.to_lowercase()
}

/// The kinds whose bits are set, as the API calls them: `nodes, pods`.
pub fn some_kinds(bits: u32) -> String {
    kinds(bits)
        .map(|kind| kind.at().plural)
        .collect::<Vec<_>>()
        .join(", ")
}

/// The `namespace/name` of an object.
pub fn name(text: &str) -> Option<String> {
    longshore_api::strip_managed_fields::full_name(text)
}

/// How an observation came about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeKind {
    /// It was known when the segment began.
    Known,
    /// It was not there before.
    Added,
    /// It was there before.
    Changed,
}

/// What was observed, without the time.
pub fn observed(observed: &Observed, came: ChangeKind) -> String {
    let plural = observed.kind.at().plural;
    match &observed.what {
        What::Begin => format!("list of {plural} begins"),
        What::End => format!("list of {plural} is complete"),
        What::Failed(why) => format!("{plural} cannot be watched: {why}"),
        What::Remove(text) => {
            format!(
                "{} {} removed",
                kind(observed.kind),
                name(text).unwrap_or_else(|| "without a name".into())
            )
        }
        What::Upsert(text) => {
            let came = match came {
                ChangeKind::Known => "known",
                ChangeKind::Added => "added",
                ChangeKind::Changed => "changed",
            };
            let name = name(text).unwrap_or_else(|| "without a name".into());
            let mut line = format!("{} {name} {came}", kind(observed.kind));
            let state = state(observed.kind, text);
            if !state.is_empty() {
                line += &format!(": {}", state.join(", "));
            }
            if observed.refused {
                line += "; cannot be read, the last good version stays";
            }
            line
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Object {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    deletion_timestamp: Option<String>,
    labels: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: String,
    unschedulable: bool,
    taints: Vec<TaintKey>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TaintKey {
    key: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    nominated_node_name: String,
    node_name: String,
    conditions: Vec<Condition>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
}

/// What matters of an object's state.
fn state(kind: ObjectKind, text: &str) -> Vec<String> {
    let object: Object = serde_json::from_str(text).unwrap_or_default();
    let Object {
        metadata,
        spec,
        status,
    } = object;
    let condition = |kind: &str| {
        status
            .conditions
            .iter()
            .find(|condition| condition.kind == kind)
    };
    let label = |key: &str| metadata.labels.get(key).cloned();
    let mut words: Vec<String> = Vec::new();
    match kind {
        ObjectKind::Pod => {
            words.extend(Some(status.phase.clone()).filter(|phase| !phase.is_empty()));
            words.extend(
                Some(&spec.node_name)
                    .filter(|node| !node.is_empty())
                    .map(|node| format!("on {node}")),
            );
            let waits = condition("PodScheduled")
                .filter(|c| c.status == "False" && spec.node_name.is_empty());
            words.extend(waits.map(|c| c.reason.clone()));
            let nominated = Some(&status.nominated_node_name).filter(|node| !node.is_empty());
            words.extend(nominated.map(|node| format!("nominated to {node}")));
        }
        ObjectKind::Node => {
            words.extend(label("node.kubernetes.io/instance-type"));
            words.extend(condition("Ready").map(|c| {
                if c.status == "True" {
                    "ready".into()
                } else {
                    "not ready".into()
                }
            }));
            words.extend(spec.unschedulable.then(|| "cordoned".into()));
            words.extend(
                spec.taints
                    .iter()
                    .map(|taint| format!("taint {}", taint.key)),
            );
        }
        ObjectKind::NodeClaim => {
            words.extend(label("node.kubernetes.io/instance-type"));
            let true_ones = status
                .conditions
                .iter()
                .filter(|c| c.status == "True")
                .map(|c| c.kind.clone());
            words.extend(true_ones);
            words.extend(
                Some(&status.node_name)
                    .filter(|node| !node.is_empty())
                    .map(|node| format!("node {node}")),
            );
        }
        ObjectKind::NodePool
        | ObjectKind::NodeOverlay
        | ObjectKind::KwokNodeClass
        | ObjectKind::Ec2NodeClass => {
            words.extend(condition("Ready").map(|c| format!("Ready={}", c.status)));
        }
        _ => {}
    }
    words.extend(
        metadata
            .deletion_timestamp
            .map(|since| format!("ending since {since}")),
    );
    words
}

/// A round, without the time.
pub fn round(round: &Round) -> String {
    let Round {
        round: number,
        milliseconds,
        outcome,
        cut_short,
        ..
    } = round;
    let limit = match cut_short {
        None => String::new(),
        Some(RecordedEffort(Effort::None)) => ", at its time limit and so first-fit".into(),
        Some(RecordedEffort(lesser)) => {
            format!(", at its time limit and so of effort {}", lesser.name())
        }
    };
    let name = name_of(*number);
    let summary = match outcome {
        RoundOutcome::Rejected(why) => {
            return format!("{name}: plan rejected by check: {why}");
        }
        RoundOutcome::Decided(summary) => summary,
    };
    let by = answered_by(round);
    if round.look.as_ref().is_some_and(|look| look.same) {
        return format!("{name}: nothing has changed, so nothing was searched");
    }
    if round.look.is_some() {
        return format!(
            "{name} decided in {milliseconds} ms by {by}: removes {}, buys {}, moves {}, saves \
            {:.4} USD/h; plan {}",
            count(summary.existing, "node"),
            count(summary.claims, "node"),
            count(summary.pods, "pod"),
            summary.cost + 0.0,
            short(&summary.digest)
        );
    }
    format!(
        "{name} decided in {milliseconds} ms{limit} by {by}: buys {} at {:.4} USD/h for \
        {}, {} to nodes that exist, {} \
         left over; plan {}",
        count(summary.claims, "node"),
        // A sum of nothing is a zero with a sign.
        summary.cost + 0.0,
        count(summary.pods, "pod"),
        summary.existing,
        summary.left,
        short(&summary.digest)
    )
}

/// The versions of policies that answered, what counted in the place of others, or the price, and
/// which policies failed.
fn answered_by(round: &Round) -> String {
    let scored = round.answers.iter().filter_map(|answer| {
        // An older journal says that something counted, and not what.
        let unsaid = answer.instead.as_ref().map(|_| Counted::Other);
        Some((answer.counted.or(unsaid)?, answer.policy.as_deref()))
    });
    let questions = round.look.iter().flat_map(|look| &look.questions);
    let judged = questions.flat_map(|question| &question.answers);
    let judged = judged.filter_map(|answer| Some((answer.counted?, Some(&*answer.policy))));
    let instead = scored.chain(judged);
    let instead = instead.filter_map(|(counted, policy)| counted_words(counted, policy));
    let mut by: Vec<String> = Vec::new();
    for words in (round.versions.iter().map(|of| of.name.clone())).chain(instead) {
        if !by.contains(&words) {
            by.push(words);
        }
    }
    let by = match by.as_slice() {
        [] => "price".to_owned(),
        some => some.join(", "),
    };
    match round.failed.as_slice() {
        [] => by,
        [one] => format!("{by} (policy {one} failed)"),
        some => format!("{by} (policies {} failed)", some.join(", ")),
    }
}

/// What counted in the place of a policy; nothing where it is as if the policy were not there.
fn counted_words(counted: Counted, policy: Option<&str>) -> Option<String> {
    let of = policy.map_or_else(|| "a policy".to_owned(), |name| format!("policy {name}"));
    match counted {
        Counted::LastAnswer => Some(format!("the last answer of {of}")),
        Counted::Hold => Some(format!("`hold` of {of}")),
        Counted::Other => Some(format!("what counts where {of} fails")),
        Counted::Price | Counted::Rules => None,
    }
}

/// What a round of provisioning or a look for disruption is called.
pub fn name_of(number: u64) -> String {
    match number.checked_sub(BEFORE_FIRST_LOOK) {
        Some(look) => format!("look {look}"),
        None => format!("round {number}"),
    }
}

/// The beginning of a digest.
pub fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

/// What is missing.
pub fn gap(gap: &Gap) -> String {
    let Gap {
        since,
        until,
        observations,
        rounds,
        kinds,
    } = *gap;
    let of = if kinds == 0 {
        String::new()
    } else {
        format!(" of {}", some_kinds(kinds))
    };
    format!(
        "missing from {} to {}: {observations} observations{of}, {rounds} beginnings and \
        decisions of rounds",
        time(since),
        time(until)
    )
}

/// How a segment ends; nothing where it is complete.
pub fn end(end: End) -> Option<String> {
    match end {
        End::Closed => None,
        End::Open { at } => Some(format!(
            "is not closed: the daemon still writes it, or was killed, or the file was cut; it was \
            read up to byte {at}"
        )),
        End::Cut { at } => Some(format!(
            "is cut in the middle of a record; it was read up to byte {at}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_answered_and_policies_that_failed_are_told_apart() {
        use super::super::round::Version;
        let by = |versions: &[&str], failed: &[&str]| {
            let version = |name: &&str| Version {
                name: (*name).to_owned(),
                ..Version::default()
            };
            answered_by(&Round {
                versions: versions.iter().map(version).collect(),
                failed: failed.iter().map(|name| (*name).to_owned()).collect(),
                ..Round::default()
            })
        };
        assert_eq!(by(&[], &[]), "price");
        assert_eq!(by(&[], &["cost"]), "price (policy cost failed)");
        assert_eq!(by(&["cost 1.2.0"], &[]), "cost 1.2.0");
        assert_eq!(
            by(&["cost 1.1.0"], &["cost", "risk"]),
            "cost 1.1.0 (policies cost, risk failed)"
        );
    }

    #[test]
    fn what_counted_in_the_place_of_a_policy_is_told() {
        use super::super::judged::{Judgement, Question};
        use super::super::look::Look;
        use super::super::round::Answer;
        let answer = |counted: Option<Counted>, policy: Option<&str>, instead: bool| Answer {
            counted,
            policy: policy.map(str::to_owned),
            instead: instead.then(String::new),
            ..Answer::default()
        };
        let last = answer(Some(Counted::LastAnswer), Some("green"), true);
        let hold = answer(Some(Counted::Hold), Some("risk"), true);
        let price = answer(Some(Counted::Price), Some("cost"), false);
        let by = |answers: Vec<Answer>| {
            answered_by(&Round {
                answers,
                ..Round::default()
            })
        };
        assert_eq!(
            by(vec![last.clone(), last, hold, price.clone()]),
            "the last answer of policy green, `hold` of policy risk"
        );
        assert_eq!(by(vec![price]), "price");
        let old = answer(None, None, true);
        assert_eq!(by(vec![old]), "what counts where a policy fails");
        let judgement = Judgement {
            policy: "judge".to_owned(),
            counted: Some(Counted::Hold),
            ..Judgement::default()
        };
        let look = Look {
            questions: vec![Question {
                proposals: None,
                answers: vec![judgement],
            }],
            ..Look::default()
        };
        let round = Round {
            look: Some(look),
            failed: vec!["judge".to_owned()],
            ..Round::default()
        };
        let expected = "`hold` of policy judge (policy judge failed)";
        assert_eq!(answered_by(&round), expected);
    }

    #[test]
    fn what_was_observed_is_told_in_a_line() {
        let line = |kind, what: What, came| {
            observed(
                &Observed {
                    time: 0,
                    revision: 1,
                    kind,
                    what,
                    refused: false,
                },
                came,
            )
        };
        let pod = r#"{"metadata":{"name":"a","namespace":"shop"},"status":{"phase":"Pending",
            "conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable"}]}}"#;
        assert_eq!(
            line(ObjectKind::Pod, What::Upsert(pod.into()), ChangeKind::Added),
            "pod shop/a added: Pending, Unschedulable"
        );
        assert_eq!(
            line(
                ObjectKind::Pod,
                What::Remove(pod.into()),
                ChangeKind::Changed
            ),
            "pod shop/a removed"
        );
        let node = r#"{"metadata":{"name":"n1","deletionTimestamp":"2026-11-01T00:00:00Z"},"spec":{"taints":[{"key":"t"}]},
            "status":{"conditions":[{"type":"Ready","status":"False"}]}}"#;
        assert_eq!(
            line(
                ObjectKind::Node,
                What::Upsert(node.into()),
                ChangeKind::Changed
            ),
            "node n1 changed: not ready, taint t, ending since 2026-11-01T00:00:00Z"
        );
        assert_eq!(
            line(ObjectKind::Pod, What::End, ChangeKind::Known),
            "list of pods is complete"
        );
        assert_eq!(time(1_793_491_200_007), "2026-11-01T00:00:00.007Z");
    }
}
