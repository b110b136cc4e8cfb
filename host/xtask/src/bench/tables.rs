//! Results as tables.

use serde_json::Value;

use super::cases::Goal;
use super::outcome::{CaseAnswers, number};
use crate::commands::table;

/// The tables of one part.
pub fn tables(part: &str, outcomes: &[CaseAnswers]) -> String {
    match part {
        "policy" => policy(outcomes),
        _ => plans(outcomes),
    }
}

const HEADINGS: [&str; 15] = [
    "CASE",
    "PODS",
    "NODES",
    "USD/H",
    "KARPENTER",
    "GOAL",
    "",
    "BOUND",
    "GAP",
    "SECONDS",
    "KARPENTER",
    "RATIO",
    "PARSE",
    "MIB",
    "ROBUST",
];

fn plans(outcomes: &[CaseAnswers]) -> String {
    let rows = outcomes.iter().map(|outcome| {
        let CaseAnswers {
            case,
            ours,
            karpenters,
            ..
        } = outcome;
        let theirs = |key| karpenters.as_ref().map(|answer| number(answer, key));
        let seconds = number(ours, "seconds");
        let ratio = theirs("seconds").map(|theirs| theirs / seconds);
        let (goal, met) = goal(outcome, ratio);
        vec![
            case.name.to_owned(),
            pods(ours).to_string(),
            ours["claims"].as_array().map_or(0, Vec::len).to_string(),
            format!("{:.3}", number(ours, "cost")),
            or_dash(theirs("cost").map(|cost| format!("{cost:.3}"))),
            goal,
            if met { "met" } else { "MISSED" }.into(),
            format!("{:.3}", number(ours, "lowerBound")),
            format!("{:.1} %", 100.0 * number(ours, "gap")),
            format!("{seconds:.4}"),
            or_dash(theirs("seconds").map(|seconds| format!("{seconds:.2}"))),
            or_dash(ratio.map(|ratio| format!("{ratio:.0}×"))),
            format!("{:.2} s", number(ours, "parseSeconds")),
            format!("{:.0}", number(ours, "mib")),
            survival(ours),
        ]
    });
    table(&HEADINGS, &rows.collect::<Vec<_>>())
}

fn policy(outcomes: &[CaseAnswers]) -> String {
    let rows = outcomes.iter().filter_map(|outcome| {
        let scored = outcome.scored.as_ref()?;
        let (plain, with) = (number(&outcome.ours, "seconds"), number(scored, "seconds"));
        let (goal, met) = goal(outcome, None);
        Some(vec![
            outcome.case.name.to_owned(),
            format!("{:.2} ms", 1e3 * plain),
            format!("{:.2} ms", 1e3 * with),
            format!("{:+.1} %", 100.0 * (with / plain - 1.0)),
            goal,
            if met { "met" } else { "MISSED" }.into(),
            if outcome.ours["cost"] == scored["cost"] {
                "same"
            } else {
                "DIFFERENT"
            }
            .into(),
        ])
    });
    let headings = ["CASE", "BUILT-IN", "PRICE.WASM", "MORE", "GOAL", "", "COST"];
    table(&headings, &rows.collect::<Vec<_>>())
}

/// The goal in words, and whether it was met. A ratio without Karpenter's side counts as met, for
/// nothing says otherwise.
fn goal(outcome: &CaseAnswers, ratio: Option<f64>) -> (String, bool) {
    let ours = &outcome.ours;
    let seconds = number(ours, "seconds");
    match outcome.case.goal {
        Goal::Cost(most) => (format!("≤ {most} USD/h"), number(ours, "cost") <= most),
        Goal::Ratio(least) => (
            format!("≥ {least}×"),
            ratio.is_none_or(|ratio| ratio >= least),
        ),
        Goal::Seconds(most) => (format!("≤ {most} s"), seconds <= most),
        Goal::Large(most) => {
            let (parsed, mib) = (number(ours, "parseSeconds"), number(ours, "mib"));
            // 300 MB = 286 MiB.
            (
                format!("≤ {most} s, parse 2 s, 286 MiB"),
                seconds <= most && parsed < 2.0 && mib < 286.0,
            )
        }
        Goal::Share(most) => {
            let with = outcome
                .scored
                .as_ref()
                .map_or(0.0, |scored| number(scored, "seconds"));
            (
                format!("≤ +{:.0} %", 100.0 * most),
                with <= seconds * (1.0 + most),
            )
        }
    }
}

/// Pods planned: on new nodes, on existing ones, left over.
fn pods(answer: &Value) -> usize {
    let length = |value: &Value| value.as_array().map_or(0, Vec::len);
    let new: usize = answer["claims"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|claim| length(&claim["pods"]))
        .sum();
    let old: usize = answer["existing"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(_, pods)| length(pods))
        .sum();
    new + old + answer["errors"].as_object().map_or(0, serde_json::Map::len)
}

fn survival(answer: &Value) -> String {
    let share = |of: &str| {
        let count = |key: &str| answer[of][key].as_f64();
        let left = count("leftOver")?;
        Some(format!(
            "{:.0} % ({left:.0})",
            100.0 * count("survived")? / count("runs")?
        ))
    };
    or_dash(
        share("survivesTold")
            .zip(share("survives"))
            .map(|(nominated, alone)| format!("{nominated}, {alone}")),
    )
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or("-".into())
}
