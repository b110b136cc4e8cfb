//! What has happened lately, as text.

use serde_json::Value;

use super::{list, shown};
use crate::error::count;
use crate::messages::span;

const HOUR: i64 = 3_600;

/// Nodes that came and went within an hour.
pub fn churn(churn: &Value) -> String {
    let number = |name: &str| churn[name].as_u64().unwrap_or(0) as usize;
    let more = if churn["endedMore"] == true {
        " or more"
    } else {
        ""
    };
    let mut text = format!(
        "{} launched and {}{more} ended in the last hour",
        count(number("launched"), "node"),
        number("ended")
    );
    if let Some(median) = churn["medianSeconds"].as_i64() {
        text += &format!(
            "; half of those that ended lived no longer than {}; ended by NodePool: {}; by reason: {}",
            span(median),
            named(&churn["byNodePool"]),
            named(&churn["byReason"])
        );
    }
    let watched = churn["watchedSeconds"].as_i64().unwrap_or(HOUR);
    if watched < HOUR {
        text += &format!(
            "; what was gone before is not known: this process has watched for {}",
            span(watched)
        );
    }
    text
}

/// Nodes that were lost to interruptions.
pub fn lost(lost: &Value) -> String {
    let nodes = lost["nodes"].as_u64().unwrap_or(0) as usize;
    let mut text = match nodes {
        0 => "no node to interruptions".to_owned(),
        nodes => format!(
            "{}{} to interruptions within 10 min: {}; {}",
            count(nodes, "node"),
            if lost["more"] == true { " or more" } else { "" },
            named(&lost["byZone"]),
            named(&lost["byType"])
        ),
    };
    let unknown = lost["unknown"].as_u64().unwrap_or(0) as usize;
    if unknown > 0 {
        text += &format!(
            "; counted for {}, since this process leads: {} ended before for no known reason",
            span(lost["countedSeconds"].as_i64().unwrap_or(0)),
            count(unknown, "node")
        );
    }
    text
}

/// What all nodes cost, and did.
pub fn cost(cost: &Value) -> String {
    let nodes = |name: &str| cost[name].as_u64().unwrap_or(0) as usize;
    let mut text = format!(
        "{:.4} USD/h for {}{}",
        cost["usdPerHour"].as_f64().unwrap_or(0.0),
        count(nodes("nodes"), "node"),
        per(&cost["usdPerCore"], "requested core")
    );
    if nodes("unpriced") > 0 {
        text += &format!(", {} without a known price", nodes("unpriced"));
    }
    let mut is_known = true;
    for (key, ago) in [("hourAgo", "an hour ago"), ("dayAgo", "a day ago")] {
        let before = &cost[key];
        let Some(usd) = before["usdPerHour"].as_f64() else {
            text += &format!("; {ago} not known");
            is_known = false;
            continue;
        };
        text += &format!(
            "; {ago} {usd:.4}{}{}{}",
            rise(&before["change"]),
            per(&before["usdPerCore"], "core"),
            rise(&before["changePerCore"])
        );
    }
    if !is_known {
        text += &format!(": watched since {}", shown(&cost["since"]));
    }
    text
}

/// Something that was changed, and when.
pub fn change(change: &Value) -> String {
    let times = match change["times"].as_u64().unwrap_or(1) {
        0 | 1 => String::new(),
        times => format!(" ({times} changes)"),
    };
    format!("{} {}{times}", shown(&change["at"]), shown(&change["what"]))
}

fn per(cost: &Value, what: &str) -> String {
    let cost = cost.as_f64();
    cost.map_or_else(String::new, |cost| format!(", {cost:.4} per {what}"))
}

fn rise(percent: &Value) -> String {
    let percent = percent.as_f64();
    percent.map_or_else(String::new, |percent| format!(" ({percent:+.0} %)"))
}

/// `web 7, base 1`
fn named(all: &Value) -> String {
    let one = |one: &Value| format!("{} {}", shown(&one["name"]), one["nodes"]);
    list(all).iter().map(one).collect::<Vec<_>>().join(", ")
}
