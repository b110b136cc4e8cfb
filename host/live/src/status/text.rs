//! The status of a daemon as text: a line per part that it reports.

mod recent;

use std::fmt::Write as _;

use super::parts::{
    ChangedPrice, Coming, DrainingNode, Held, LastPlan, Overlays, Status, WithoutCapacity,
};
use crate::config::Mode;
use crate::status::policies::{
    Alike, DatedBy, MAX_NAMED_NODE_POOLS, PoliciesStatus, PolicyStatus, Problem, SignalStatus,
};
use longshore_report::count;
use longshore_report::messages::span;

/// Offerings without capacity that the status names.
const NAMED_OFFERINGS: usize = 10;

/// Lines, each with the name of what it is about.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, what: impl std::fmt::Display) {
        _ = writeln!(self.0, "{name:<9} {what}");
    }

    /// `and 3 more`, where only some of all are named.
    fn more(&mut self, name: &str, all: usize, named: usize) {
        if all > named {
            self.add(name, format_args!("and {} more", all - named));
        }
    }
}

/// Lines of text for what `/status` answers.
pub fn text(status: &Status) -> String {
    let mut lines = Lines::default();
    about_daemon(&mut lines, status);
    about_pods(&mut lines, status);
    about_nodes(&mut lines, status);
    for (pool, why) in &status.barren {
        lines.add("nodepool", format_args!("{pool}: {why}"));
    }
    for (kind, why) in &status.troubles {
        lines.add("trouble", format_args!("{kind}: {why}"));
    }
    if let Some(overlays) = &status.overlays {
        about_overlays(&mut lines, overlays);
    }
    if let Some(policies) = &status.policies {
        about_policies(&mut lines, policies);
    }
    lines.0
}

fn about_daemon(lines: &mut Lines, status: &Status) {
    let leads = match (status.synced, status.leads) {
        (true, true) => "leads",
        (true, false) => "standby: another replica leads, or none does yet",
        _ if status.troubles.contains_key("API server") => "cut off from the API server",
        _ => "starting: initial lists are not complete",
    };
    let answered = status.answered_seconds_ago.map(|ago| {
        let digits = usize::from(ago < 10.0);
        format!("; the API server answered {ago:.digits$} s ago")
    });
    lines.add("daemon", format!("{leads}{}", answered.unwrap_or_default()));
    lines.add(
        "cluster",
        format!(
            "{} of {} wait; {}, {}, {}",
            status.pending,
            count(status.pods, "pod"),
            count(status.nodes, "node"),
            count(status.node_claims, "NodeClaim"),
            count(status.node_pools, "NodePool")
        ),
    );
    let last = status.last_plan.as_ref().map(last_plan).unwrap_or_default();
    lines.add("rounds", format!("{}{last}", status.rounds));
    for warning in &status.warnings {
        lines.add("warning", warning);
    }
    if let Some(short) = &status.without_capacity {
        lines.add("capacity", without_capacity(short));
    }
}

fn about_pods(lines: &mut Lines, status: &Status) {
    for waiting in &status.waiting {
        let pods = count(waiting.pods, "pod");
        let some = some(&waiting.some, waiting.pods);
        lines.add("waiting", format!("{pods} ({some}): {}", waiting.why));
    }
    for coming in &status.coming {
        lines.add("coming", on_its_way(coming));
    }
    if status.others > 0 {
        let pods = count(status.others, "pod");
        lines.add(
            "waiting",
            format!("{pods}: planned for existing nodes, or not planned yet"),
        );
    }
    for refused in &status.refused {
        lines.add(
            "refused",
            format!(
                "{} for NodePool {}, {} since {}: {}",
                refused.what,
                refused.node_pool,
                count(refused.times as usize, "time"),
                refused.since,
                refused.why
            ),
        );
    }
}

fn about_nodes(lines: &mut Lines, status: &Status) {
    for held in &status.held {
        lines.add("stay", stays(held));
    }
    if let Some(draining) = &status.draining {
        for node in &draining.lines {
            lines.add("draining", goes(node));
        }
        lines.more("draining", draining.nodes, draining.lines.len());
    }
    if let Some(churn) = &status.churn {
        lines.add("churn", recent::churn(churn));
    }
    if let Some(lost) = &status.lost {
        lines.add("lost", recent::lost(lost));
    }
    if let Some(cost) = &status.cost {
        lines.add("cost", recent::cost(cost));
    }
    for change in &status.changes {
        lines.add("changed", recent::change(change));
    }
}

fn about_overlays(lines: &mut Lines, overlays: &Overlays) {
    for overlay in &overlays.overlays {
        lines.add("overlay", format!("{}: {}", overlay.name, overlay.state));
    }
    lines.more("overlay", overlays.count, overlays.overlays.len());
    if overlays.prices_changed > 0 {
        lines.add("prices", prices(overlays));
    }
}

fn about_policies(lines: &mut Lines, policies: &PoliciesStatus) {
    if let Some(file) = &policies.config.file {
        let problem = problem(policies.config.error.as_ref());
        lines.add("config", format!("{file}{problem}"));
    }
    if let Some(why) = &policies.files.without_events {
        let every = policies.files.look_every_ms;
        lines.add("files", format!("looked at every {every} ms: {why}"));
    }
    for of in &policies.policies {
        lines.add("policy", policy(of));
    }
    for of in &policies.signals {
        lines.add("signal", signal(of));
    }
}

/// `a, b, …`: those that are named of so many.
fn some(named: &[String], all: usize) -> String {
    let and = if all > named.len() { ", …" } else { "" };
    format!("{}{and}", named.join(", "))
}

fn without_capacity(short: &WithoutCapacity) -> String {
    let and = match short.offerings > NAMED_OFFERINGS {
        true => ", …",
        false => "",
    };
    let (first, last) = (&short.asked_again_from, &short.asked_again_until);
    let until = match first == last {
        true => first.clone(),
        false => format!("{first} to {last}"),
    };
    let offerings = count(short.offerings, "offering");
    let some = short.some.join(", ");
    format!("{offerings} without, until {until}: {some}{and}")
}

/// Pods whose node is on its way, and what it waits for.
fn on_its_way(coming: &Coming) -> String {
    format!(
        "{} on {} of NodePool {} ({}), since {}: {}",
        count(coming.pods, "pod"),
        count(coming.node_claims, "NodeClaim"),
        coming.node_pool,
        some(&coming.some, coming.node_claims),
        coming.since.as_deref().unwrap_or_default(),
        coming.waits_for
    )
}

/// Nodes that a rule keeps.
fn stays(held: &Held) -> String {
    let drifted = match held.drifted {
        true => " that drifted",
        false => "",
    };
    let nodes = count(held.nodes, "node");
    let some = some(&held.some, held.nodes);
    format!("{nodes}{drifted} ({some}): {}", held.why)
}

/// A node whose end takes long, and which pods keep it.
fn goes(node: &DrainingNode) -> String {
    let and = match node.refusing > node.some.len() {
        true => "; …",
        false => "",
    };
    let kept = match node.refusing {
        0 => String::new(),
        refusing => format!(
            ", of which {refusing} may not be evicted ({}{and})",
            node.some.join("; ")
        ),
    };
    let name = match &*node.node {
        "" => format!(
            "NodeClaim {}",
            node.node_claim.as_deref().unwrap_or_default()
        ),
        name => format!("node {name}"),
    };
    format!(
        "{name} of NodePool {}, since {}: {}{kept}",
        node.node_pool, node.since, node.waits_for
    )
}

/// Offerings whose price NodeOverlays change, a few of them by name.
fn prices(overlays: &Overlays) -> String {
    let one = |of: &ChangedPrice| {
        let (offering, price, offered) = (&of.offering, of.price, of.offered);
        format!("{offering} {price} USD/h (offered at {offered})")
    };
    let named: Vec<String> = overlays.prices.iter().map(one).collect();
    format!(
        "{} at another price: {}",
        count(overlays.prices_changed, "offering"),
        some(&named, overlays.prices_changed)
    )
}

/// A policy: its version, what it decides, and what is wrong with it.
fn policy(policy: &PolicyStatus) -> String {
    let without = match (policy.mode, policy.loading) {
        (Mode::Off, _) => "not asked",
        _ if policy.fetching => "being fetched",
        (_, true) => "being loaded",
        (Mode::Canary, false) => "never loaded, the version that runs goes on",
        (_, false) => "never loaded, the price answers",
    };
    let version = policy.version.as_deref().unwrap_or(without);
    let failing = policy.failing.as_ref();
    let failing = failing.map(|why| format!("; failing: {why}"));
    let signed = policy.signed_by.as_ref();
    let signed = signed.map(|key| format!("; signed with {key}"));
    let coming = match policy.fetching && policy.version.is_some() {
        true => "; what the configuration names is being fetched",
        false => "",
    };
    let week = policy.windows.last().filter(|of| of.sums.rounds > 0);
    let week = week.map(|of| format!("; in a week, {}", of.verdict));
    let canary = policy.canary.as_ref();
    let canary = canary.map(|canary| format!("; {}", canary.verdict));
    let decisions = signed.unwrap_or_default()
        + coming
        + &canary.unwrap_or_default()
        + &week.unwrap_or_default()
        + &decisions(policy)
        + &alike(policy)
        + &raised(policy)
        + &withheld(policy);
    format!(
        "{} ({}): {version}{decisions}{}{}",
        policy.name,
        policy.mode,
        failing.unwrap_or_default(),
        problem(policy.error.as_ref())
    )
}

/// What a consolidation policy has decided, and how often the rules of NodePools decided alone.
fn decisions(policy: &PolicyStatus) -> String {
    if !policy.implements.iter().any(|of| of == "consolidation") {
        return String::new();
    }
    let stats = &policy.stats;
    let text = match &policy.shadow {
        None => format!(
            "; proposals approved {}, deferred {}, refused {}",
            stats.approved, stats.deferred, stats.declined
        ),
        Some(shadow) => format!(
            "; would have decided {} of {} proposals otherwise",
            shadow.proposals_differing, shadow.proposals
        ),
    };
    match stats.by_rules {
        0 => text,
        times => format!("{text}; unanswered {times}: the rules of NodePools alone counted"),
    }
}

/// What a policy wants and does not get.
fn withheld(policy: &PolicyStatus) -> String {
    let all = [
        (&policy.not_granted, "not asked"),
        (&policy.withheld_signals, "signals withheld"),
    ];
    let all = all.iter().filter(|(names, _)| !names.is_empty());
    all.map(|(names, words)| format!("; {words}: {}", names.join(", ")))
        .collect()
}

/// For which NodePools a policy costs all offerings alike.
fn alike(policy: &PolicyStatus) -> String {
    let one = |alike: &Alike| {
        let named = alike.nodepools.iter().take(MAX_NAMED_NODE_POOLS);
        let named: Vec<String> = named.cloned().collect();
        format!(
            "; costs all {} offerings {} USD/h for NodePool {}: the price decides nothing",
            alike.offerings,
            alike.cost,
            some(&named, alike.nodepools.len())
        )
    };
    policy.alike.iter().map(one).collect()
}

/// That a policy costs offerings less than the operator believes, if it does.
fn raised(policy: &PolicyStatus) -> String {
    match policy.stats.raised {
        0 => String::new(),
        times => format!(
            "; raised to the least that max-discount allows: {} so far",
            count(times as usize, "cost")
        ),
    }
}

/// A signal: how many rows it has, how old they are, and what is wrong.
fn signal(signal: &SignalStatus) -> String {
    let had = match signal.rows {
        Some(rows) => count(rows, "row"),
        None => "never had".to_owned(),
    };
    format!(
        "{} from {}: {had}{}{}",
        signal.name,
        signal.source,
        age(signal),
        problem(signal.error.as_ref())
    )
}

/// How old the data of a signal is, and what says so.
fn age(signal: &SignalStatus) -> String {
    let Some(age) = signal.age_seconds else {
        return String::new();
    };
    let by = match signal.dated_by {
        Some(DatedBy::Table) => " (its own time)",
        Some(DatedBy::File) => " (change of the file)",
        Some(DatedBy::LastModified) => " (Last-Modified of the reply)",
        Some(DatedBy::Reply) => " (since the reply)",
        None => "",
    };
    format!(", {} old{by}", span(age))
}

fn last_plan(last: &LastPlan) -> String {
    let failed = match last.failed {
        None | Some(0) => String::new(),
        Some(failed) => format!(" ({failed} could not be created)"),
    };
    let cut_short = match last.cut_short {
        true => ", cut short at the time limit: first-fit",
        false => "",
    };
    let left_out = match last.left_out {
        0 => String::new(),
        pods => format!(
            ", {} left out with which plans break a rule: a defect of Longshore",
            count(pods, "pod")
        ),
    };
    format!(
        "; in the last, {} got {}{failed} at {:.4} USD/h, {} left over, {} ms{cut_short}{left_out}",
        count(last.pods, "pod"),
        count(last.claims, "NodeClaim"),
        last.cost,
        last.left,
        last.milliseconds
    )
}

/// `; PLACE: REASON`, if there is a problem.
fn problem(problem: Option<&Problem>) -> String {
    problem.map_or_else(String::new, |problem| format!("; {problem}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::status::parts::read;

    #[test]
    fn a_status_reads_as_lines() {
        let status = json!({
            "synced": true, "leads": true, "answeredSecondsAgo": 0.42, "pods": 340, "pending": 3, "nodes": 17, "nodeClaims": 18, "nodePools": 1,
            "rounds": 4,
            "lastPlan": {"pods": 50, "claims": 3, "cost": 1.25, "left": 2, "milliseconds": 12, "failed": 1},
            "coming": [{"nodePool": "web", "nodeClaims": 4, "pods": 9, "since": "2026-01-01T02:31:00Z",
                "some": ["web-a", "web-b", "web-c"], "waitsFor": "launched, not registered: its node has not joined yet"}],
            "others": 2,
            "refused": [{"what": "launching instances", "nodePool": "web", "times": 312,
                "since": "2026-01-01T02:40:00Z", "why": "unauthorized: ec2:CreateFleet"}],
            "held": [{"nodes": 4, "some": ["n1", "n2", "n3"], "drifted": true, "why": "budget with nodes \"0\" allows no more"}],
            "draining": {"nodes": 3, "lines": [
                {"node": "n1", "nodePool": "web", "since": "2026-01-01T02:00:00Z", "waitsFor": "2 pods left",
                    "refusing": 1, "some": ["shop/a: The disruption budget a needs 1 healthy pods and has 1 currently"]},
                {"node": "", "nodeClaim": "web-x", "nodePool": "web", "since": "2026-01-01T02:01:00Z",
                    "waitsFor": "the end of its instance", "refusing": 0, "some": []}]},
            "withoutCapacity": {
                "offerings": 2, "askedAgainFrom": "14:03:20 UTC", "askedAgainUntil": "14:03:20 UTC",
                "some": ["m5.large/z1/spot", "m5.large/z2/spot"],
            },
            "waiting": [{"why": "NodePool web: 3 of 3 types: too little cpu", "pods": 3, "some": ["shop/a", "shop/b"]}],
            "barren": {"arm": "no compatible instance type: 3 of 3 types: labels do not match"},
            "troubles": {"Pod": "cannot watch pods: no answer"},
            "policies": {
                "config": {"file": "/etc/longshore.toml", "error": null},
                "policies": [{"name": "cost", "mode": "enforce", "version": "cost 1.2.0", "failing": null, "error": null,
                        "alike": [{"cost": 0.0, "offerings": 812, "nodepools": ["arm", "web"]}]},
                    {"name": "hours", "mode": "enforce", "version": "business-hours 0.1.0",
                        "raised": 12, "implements": ["consolidation"], "approved": 3, "deferred": 2, "declined": 1, "by_rules": 1,
                        "shadow": null, "failing": "decide: no", "error": null}],
                "signals": [{"name": "carbon", "source": "http://x/y", "rows": 4,
                    "age_seconds": 259_300, "dated_by": "last-modified",
                    "error": {"place": "http://x/y", "reason": "it answers with status 500"}}],
            },
        });
        expect_test::expect![[r#"
            daemon    leads; the API server answered 0.4 s ago
            cluster   3 of 340 pods wait; 17 nodes, 18 NodeClaims, 1 NodePool
            rounds    4; in the last, 50 pods got 3 NodeClaims (1 could not be created) at 1.2500 USD/h, 2 left over, 12 ms
            capacity  2 offerings without, until 14:03:20 UTC: m5.large/z1/spot, m5.large/z2/spot
            waiting   3 pods (shop/a, shop/b, …): NodePool web: 3 of 3 types: too little cpu
            coming    9 pods on 4 NodeClaims of NodePool web (web-a, web-b, web-c, …), since 2026-01-01T02:31:00Z: launched, not registered: its node has not joined yet
            waiting   2 pods: planned for existing nodes, or not planned yet
            refused   launching instances for NodePool web, 312 times since 2026-01-01T02:40:00Z: unauthorized: ec2:CreateFleet
            stay      4 nodes that drifted (n1, n2, n3, …): budget with nodes "0" allows no more
            draining  node n1 of NodePool web, since 2026-01-01T02:00:00Z: 2 pods left, of which 1 may not be evicted (shop/a: The disruption budget a needs 1 healthy pods and has 1 currently)
            draining  NodeClaim web-x of NodePool web, since 2026-01-01T02:01:00Z: the end of its instance
            draining  and 1 more
            nodepool  arm: no compatible instance type: 3 of 3 types: labels do not match
            trouble   Pod: cannot watch pods: no answer
            config    /etc/longshore.toml
            policy    cost (enforce): cost 1.2.0; costs all 812 offerings 0 USD/h for NodePool arm, web: the price decides nothing
            policy    hours (enforce): business-hours 0.1.0; proposals approved 3, deferred 2, refused 1; unanswered 1: the rules of NodePools alone counted; raised to the least that max-discount allows: 12 costs so far; failing: decide: no
            signal    carbon from http://x/y: 4 rows, 3 d old (Last-Modified of the reply); http://x/y: it answers with status 500
        "#]]
        .assert_eq(&text(&read(status)));
        assert!(text(&Status::default()).starts_with("daemon    starting"));
    }
}
