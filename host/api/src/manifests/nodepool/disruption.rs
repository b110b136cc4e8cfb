//! `spec.disruption` of a NodePool.

use longshore_core::cron::Schedule;
use longshore_core::model::{Budget, ConsolidationPolicy, Symbols};
use serde::Deserialize;

use crate::manifests::diagnostic::{Fault, Path, quoted};
use crate::manifests::wire::{List, Text};
use crate::time::plain_duration;

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(super) struct WireDisruption<'a> {
    #[serde(borrow)]
    pub(super) consolidate_after: Option<Text<'a>>,
    #[serde(borrow)]
    consolidation_policy: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) budgets: Option<List<WireBudget<'a>>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(super) struct WireBudget<'a> {
    #[serde(borrow)]
    nodes: Option<Text<'a>>,
    #[serde(borrow)]
    reasons: Option<List<Text<'a>>>,
    #[serde(borrow)]
    schedule: Option<Text<'a>>,
    #[serde(borrow)]
    duration: Option<Text<'a>>,
}

/// 720 hours, the default of `expireAfter`.
pub(super) const MONTH: i64 = 720 * 3600;

pub(super) fn consolidation(
    disruption: Option<&WireDisruption<'_>>,
    at: Path<'_>,
) -> Result<ConsolidationPolicy, Fault> {
    match disruption.and_then(|d| d.consolidation_policy.as_deref()) {
        None | Some("WhenEmptyOrUnderutilized") => {
            Ok(ConsolidationPolicy::WhenEmptyOrUnderutilized)
        }
        Some("WhenEmpty") => Ok(ConsolidationPolicy::WhenEmpty),
        Some("Balanced") => Ok(ConsolidationPolicy::Balanced),
        Some(other) => {
            let hint = "expected WhenEmpty, WhenEmptyOrUnderutilized or Balanced";
            Err(at.fault(format!("{} is not a policy", quoted(other)), hint))
        }
    }
}

pub(super) fn budgets(
    disruption: Option<&WireDisruption<'_>>,
    at: Path<'_>,
    names: &mut Symbols,
) -> Result<Vec<Budget>, Fault> {
    let Some(list) = disruption.and_then(|d| d.budgets.as_ref()) else {
        return Ok(vec![Budget {
            nodes: "10%".into(),
            reasons: None,
            schedule: None,
            duration: None,
        }]);
    };
    if list.len() > 50 {
        return Err(at.fault(
            format!("has {} entries", list.len()),
            "a NodePool takes at most 50",
        ));
    }
    list.iter()
        .enumerate()
        .map(|(index, wire)| budget(wire, at.index(index), names))
        .collect()
}

fn budget(wire: &WireBudget<'_>, at: Path<'_>, names: &mut Symbols) -> Result<Budget, Fault> {
    let nodes = wire.nodes.as_deref().unwrap_or("10%");
    if !is_node_count(nodes) {
        let what = format!("{} is neither a count nor a percentage", quoted(nodes));
        return Err(at
            .field("nodes")
            .fault(what, "write it like \"5\" or \"10%\""));
    }
    if wire.schedule.is_some() != wire.duration.is_some() {
        return Err(at.fault(
            "schedule and duration only go together",
            "set both or neither",
        ));
    }
    let mut reasons = None;
    if let Some(list) = &wire.reasons {
        for (index, reason) in list.iter().enumerate() {
            if !["Underutilized", "Empty", "Drifted", "Unhealthy"].contains(&&**reason) {
                let what = format!("{} is not a reason", quoted(reason));
                return Err(at
                    .field("reasons")
                    .index(index)
                    .fault(what, "expected Underutilized, Empty, Drifted or Unhealthy"));
            }
        }
        reasons = Some(list.iter().map(|reason| names.intern(reason)).collect());
    }
    if let Some(schedule) = wire.schedule.as_deref().filter(|text| !is_schedule(text)) {
        let what = format!("{} is not a cron schedule", quoted(schedule));
        return Err(at
            .field("schedule")
            .fault(what, "write five fields like `0 9 * * 1-5`, or @daily"));
    }
    let duration = match wire.duration.as_deref() {
        None => None,
        Some(text) => match plain_duration(text).filter(|_| is_budget_duration(text)) {
            Some(seconds) => Some(seconds),
            None => {
                let what = format!("{} is not a duration in hours and minutes", quoted(text));
                return Err(at
                    .field("duration")
                    .fault(what, "write it like 8h or 1h30m"));
            }
        },
    };
    Ok(Budget {
        nodes: nodes.into(),
        reasons,
        schedule: wire.schedule.as_deref().map(Into::into),
        duration,
    })
}

/// `^((100|[0-9]{1,2})%|[0-9]+)$`.
fn is_node_count(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.strip_suffix('%') {
        Some(percent) => percent == "100" || (digits(percent) && percent.len() <= 2),
        None => digits(text),
    }
}

/// Whether the schema takes a schedule: it begins like `@daily`, or has at least five fields. That does
/// not say that it can be read: see [`unreadable_schedules`].
fn is_schedule(text: &str) -> bool {
    let names = [
        "annually", "yearly", "monthly", "weekly", "daily", "midnight", "hourly",
    ];
    let begins = |name: &&str| text.strip_prefix('@').is_some_and(|t| t.starts_with(*name));
    // Four spaces, and something before, between and after them.
    let (mut spaces, mut since) = (4, 0);
    for c in text.chars() {
        if c.is_ascii_whitespace() && since > 0 && spaces > 0 {
            (spaces, since) = (spaces - 1, 0);
        } else {
            since += 1;
        }
    }
    names.iter().any(begins) || (spaces == 0 && since > 0)
}

/// Schedules of budgets that the schema takes and that say no time. The NodePool is of use all the same;
/// none of its nodes is disrupted.
pub(super) fn unreadable_schedules(budgets: &[Budget]) -> impl Iterator<Item = Fault> + '_ {
    let at = Path::Root.field("spec.disruption.budgets");
    let of = move |(index, budget): (usize, &Budget)| {
        let text = budget.schedule.as_deref()?;
        let error = Schedule::parse(text).err()?;
        let what = format!("{} is not a cron schedule: {error}", quoted(text));
        let hint = "write five fields like `0 9 * * 1-5`, or @daily, in UTC; until then no node of \
            this NodePool is disrupted";
        Some(at.index(index).field("schedule").fault(what, hint))
    };
    budgets.iter().enumerate().filter_map(of)
}

/// `^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$`.
fn is_budget_duration(text: &str) -> bool {
    let text = text
        .strip_suffix("0s")
        .filter(|rest| rest.ends_with(['h', 'm']))
        .unwrap_or(text);
    let units: String = text.chars().filter(|c| !c.is_ascii_digit()).collect();
    matches!(units.as_str(), "h" | "m" | "hm")
}
