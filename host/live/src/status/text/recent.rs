//! What has happened lately, as text.

use crate::status::parts::{Change, Churn, Cost, Lost, NodesOf};
use longshore_report::count;
use longshore_report::messages::span;

const HOUR: i64 = 3_600;

/// Nodes that came and went within an hour.
pub fn churn(churn: &Churn) -> String {
    let more = if churn.ended_more { " or more" } else { "" };
    let mut text = format!(
        "{} launched and {}{more} ended in the last hour",
        count(churn.launched, "node"),
        churn.ended
    );
    if let Some(median) = churn.median_seconds {
        text += &format!(
            "; half of those that ended lived no longer than {}; ended by NodePool: {}; by reason: {}",
            span(median),
            named(&churn.by_node_pool),
            named(&churn.by_reason)
        );
    }
    if let Some(watched) = churn.watched_seconds.filter(|watched| *watched < HOUR) {
        text += &format!(
            "; what was gone before is not known: this process has watched for {}",
            span(watched)
        );
    }
    text
}

/// Nodes that were lost to interruptions.
pub fn lost(lost: &Lost) -> String {
    let mut text = match lost.nodes {
        0 => "no node to interruptions".to_owned(),
        nodes => format!(
            "{}{} to interruptions within 10 min: {}; {}",
            count(nodes, "node"),
            if lost.more { " or more" } else { "" },
            named(&lost.by_zone),
            named(&lost.by_type)
        ),
    };
    if lost.unknown > 0 {
        text += &format!(
            "; counted for {}, since this process leads: {} ended before for no known reason",
            span(lost.counted_seconds),
            count(lost.unknown, "node")
        );
    }
    text
}

/// What all nodes cost, and did.
pub fn cost(cost: &Cost) -> String {
    let mut text = format!(
        "{:.4} USD/h for {}{}",
        cost.usd_per_hour,
        count(cost.nodes, "node"),
        per(cost.usd_per_core, "requested core")
    );
    if cost.unpriced > 0 {
        text += &format!(", {} without a known price", cost.unpriced);
    }
    let mut is_known = true;
    for (before, ago) in [
        (&cost.hour_ago, "an hour ago"),
        (&cost.day_ago, "a day ago"),
    ] {
        let Some(before) = before else {
            text += &format!("; {ago} not known");
            is_known = false;
            continue;
        };
        text += &format!(
            "; {ago} {:.4}{}{}{}",
            before.usd_per_hour,
            rise(before.change),
            per(before.usd_per_core, "core"),
            rise(before.change_per_core)
        );
    }
    if !is_known {
        text += &format!(": watched since {}", cost.since);
    }
    text
}

/// Something that was changed, and when.
pub fn change(change: &Change) -> String {
    let times = match change.times {
        0 | 1 => String::new(),
        times => format!(" ({times} changes)"),
    };
    format!("{} {}{times}", change.at, change.what)
}

fn per(cost: Option<f64>, what: &str) -> String {
    cost.map_or_else(String::new, |cost| format!(", {cost:.4} per {what}"))
}

fn rise(percent: Option<f64>) -> String {
    percent.map_or_else(String::new, |percent| format!(" ({percent:+.0} %)"))
}

/// `web 7, base 1`
fn named(all: &[NodesOf]) -> String {
    let one = |of: &NodesOf| format!("{} {}", of.name, of.nodes);
    all.iter().map(one).collect::<Vec<_>>().join(", ")
}
