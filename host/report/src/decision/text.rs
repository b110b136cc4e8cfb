//! Renders a plan as text: NodeClaims, cost, unplaced pods with reasons.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use longshore_core::model::{ClusterObjects, ResourceId};

use super::{Claim, Decision, Report, UnplacedPod};
use crate::count;
use crate::messages::{self, amount, size};
use crate::table::{Align, table};

/// How many names of a list are shown before the rest is counted.
const MAX_SHOWN_NAMES: usize = 4;

/// What `longshore plan` prints of a plan: purchases, pods on existing nodes, pods without a place.
pub fn render(report: &Report, world: &ClusterObjects) -> String {
    let decision = &report.decision;
    let mut text = String::new();
    text += &purchases(decision, world);
    text += &existing(decision);
    text += &leftovers(decision);
    text += &incompatible_pools(report);
    text += &totals(report, world);
    text
}

fn purchases(decision: &Decision, world: &ClusterObjects) -> String {
    if decision.claims.is_empty() {
        return "Buy nothing.\n\n".into();
    }
    let pods: usize = decision.claims.iter().map(|claim| claim.pods.len()).sum();
    let nodes = count(decision.claims.len(), "node");
    let mut groups: BTreeMap<(&str, &str, &str), Vec<&Claim>> = BTreeMap::new();
    for claim in &decision.claims {
        let capacity_type = claim.offering.capacity_type.as_deref().unwrap_or("-");
        groups
            .entry((
                &claim.node_pool,
                &claim.offering.instance_type,
                capacity_type,
            ))
            .or_default()
            .push(claim);
    }
    let mut rows: Vec<(f64, Vec<String>)> = groups
        .iter()
        .map(|(key, claims)| (price(claims), row(*key, claims, world)))
        .collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut rows: Vec<Vec<String>> = rows.into_iter().map(|(_, row)| row).collect();
    if rows.len() > 1 {
        let mut total = vec![String::new(); COLUMNS.len()];
        total[0] = decision.claims.len().to_string();
        total[1] = "in all".into();
        total[7] = pods.to_string();
        total[9] = usd(decision.cost, estimated(&decision.claims));
        rows.push(total);
    }
    format!(
        "Buy {nodes} for {}:\n\n{}\n",
        count(pods, "pod"),
        table(&COLUMNS, &rows)
    )
}

const COLUMNS: [(&str, Align); 10] = [
    ("NODES", Align::Right),
    ("INSTANCE TYPE", Align::Left),
    ("CPU", Align::Right),
    ("MEMORY", Align::Right),
    ("CAPACITY", Align::Left),
    ("ZONES", Align::Left),
    ("NODEPOOL", Align::Left),
    ("PODS", Align::Right),
    ("USD/H EACH", Align::Right),
    ("USD/H", Align::Right),
];

fn price(claims: &[&Claim]) -> f64 {
    claims.iter().map(|claim| claim.price).sum()
}

fn row(
    (pool, name, capacity_type): (&str, &str, &str),
    claims: &[&Claim],
    world: &ClusterObjects,
) -> Vec<String> {
    let found = world
        .names
        .get(name)
        .and_then(|name| world.catalogue.find(name));
    let capacity = |resource| {
        found.map_or(String::new(), |id| {
            amount(
                resource,
                world.catalogue.instance_type(id).capacity.get(resource),
            )
        })
    };
    let mut zones: BTreeMap<&str, usize> = BTreeMap::new();
    for claim in claims {
        *zones
            .entry(claim.offering.zone.as_deref().unwrap_or("-"))
            .or_default() += 1;
    }
    let zones: Vec<String> = match zones.len() {
        1 => zones.keys().map(|&zone| zone.to_owned()).collect(),
        _ => zones
            .iter()
            .map(|(zone, nodes)| format!("{zone} ×{nodes}"))
            .collect(),
    };
    let pods: usize = claims.iter().map(|claim| claim.pods.len()).sum();
    let estimated = claims.iter().any(|claim| claim.offering.estimated);
    vec![
        claims.len().to_string(),
        name.into(),
        capacity(ResourceId::Cpu),
        capacity(ResourceId::Memory),
        capacity_type.into(),
        zones.join(", "),
        pool.into(),
        pods.to_string(),
        usd(price(claims) / claims.len() as f64, estimated),
        usd(price(claims), estimated),
    ]
}

fn existing(decision: &Decision) -> String {
    if decision.existing.is_empty() {
        return String::new();
    }
    let pods: usize = decision.existing.values().map(Vec::len).sum();
    let mut text = format!("Place {} on nodes that exist:\n\n", count(pods, "pod"));
    let mut fullest: Vec<_> = decision.existing.iter().collect();
    fullest.sort_by_key(|(_, pods)| std::cmp::Reverse(pods.len()));
    let rows: Vec<Vec<String>> = fullest
        .iter()
        .take(5 * MAX_SHOWN_NAMES)
        .map(|(node, pods)| vec![(*node).clone(), pods.len().to_string(), some_of(pods)])
        .collect();
    text += &table(
        &[
            ("NODE", Align::Left),
            ("PODS", Align::Right),
            ("", Align::Left),
        ],
        &rows,
    );
    if fullest.len() > rows.len() {
        _ = writeln!(
            text,
            "and {} more",
            count(fullest.len() - rows.len(), "node")
        );
    }
    text + "\n"
}

/// Unplaced pods, grouped by equal refusals, the largest group first.
fn leftovers(decision: &Decision) -> String {
    if decision.errors.is_empty() {
        return String::new();
    }
    let mut groups: BTreeMap<&UnplacedPod, Vec<String>> = BTreeMap::new();
    for (pod, leftover) in &decision.errors {
        groups.entry(leftover).or_default().push(pod.clone());
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, pods)| std::cmp::Reverse(pods.len()));
    let mut text = format!("{} left over:\n\n", count(decision.errors.len(), "pod"));
    for (leftover, pods) in groups {
        _ = writeln!(text, "  {}", some_of(&pods));
        for refusal in &leftover.refusals {
            _ = writeln!(text, "      {}", refusal.sentence());
        }
    }
    text + "\n"
}

/// NodePools that nothing can be bought for, one a line.
fn incompatible_pools(report: &Report) -> String {
    let mut text = String::new();
    for (pool, why) in &report.incompatible_pools {
        _ = writeln!(text, "NodePool {pool}: {why}");
    }
    if text.is_empty() { text } else { text + "\n" }
}

/// The first few names, and how many more there are.
fn some_of(names: &[String]) -> String {
    let shown = names
        .iter()
        .take(MAX_SHOWN_NAMES)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().saturating_sub(MAX_SHOWN_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn totals(report: &Report, world: &ClusterObjects) -> String {
    let decision = &report.decision;
    let mut text = String::new();
    let mut line = |name: &str, value: String, note: String| {
        let line = format!("{name:<12} {value:>12}  {note}");
        _ = writeln!(text, "{}", line.trim_end());
    };
    let estimated = estimated(&decision.claims);
    line("Price", usd(decision.cost, estimated), "USD/h".into());
    let node_cost = world.settings.node_cost;
    line(
        "Objective",
        usd(decision.effective, estimated),
        format!("USD/h as scored, with {node_cost} for each node"),
    );
    line(
        "Lower bound",
        usd(decision.lower_bound, estimated),
        format!("USD/h, gap {:.1} %", report.gap * 100.0),
    );
    let nominated = "runs of kube-scheduler leave no pod over if it is told of the plan, as \
        `longshore run` does";
    let alone = "if it is not";
    for (name, survival, words) in [
        ("Robust", report.robustness_nominated, nominated),
        ("", report.robustness, alone),
    ] {
        if let Some(survival) = survival {
            let share = format!("{}/{}", survival.survived, survival.runs);
            line(
                name,
                share,
                format!("{words} (mean {:.1} pods)", survival.left_over),
            );
        }
    }
    if let Some(why) = &report.cut_short {
        line("Cut short", String::new(), why.clone());
    }
    for note in &report.policies {
        line("Policy", String::new(), note.clone());
    }
    text += &messages::estimates(report.estimates.as_deref());
    let mib = report.mib.map_or(String::new(), |mib| {
        format!(", at most {} of memory", size((mib << 20) as i64))
    });
    _ = writeln!(
        text,
        "\nDecided in {} (read in {}, joined in {}{mib}). Digest {:.16}.",
        duration(report.seconds),
        duration(report.parse_seconds),
        duration(report.state_seconds),
        report.digest
    );
    text
}

fn usd(amount: f64, estimated: bool) -> String {
    messages::usd(amount, 4, estimated)
}

/// Whether the price of a node is an estimate.
fn estimated(claims: &[Claim]) -> bool {
    claims.iter().any(|claim| claim.offering.estimated)
}

/// `1.25 s`, `12.3 ms`.
fn duration(seconds: f64) -> String {
    if seconds < 1.0 {
        format!("{:.1} ms", seconds * 1e3)
    } else {
        format!("{seconds:.2} s")
    }
}
