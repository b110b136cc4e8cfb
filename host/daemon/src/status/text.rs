//! The status of a daemon as text: a line per part that it reports.

mod recent;

use std::fmt::Write as _;

use serde_json::Value;

use crate::error::count;
use crate::messages::span;

/// Lines of text for what `/status` answers.
pub fn text(status: &Value) -> String {
    let mut out = String::new();
    let mut line = |name: &str, what: String| _ = writeln!(out, "{name:<9} {what}");
    let number = |name: &str| status[name].as_u64().unwrap_or(0) as usize;
    let leads = match (status["synced"].as_bool(), status["leads"].as_bool()) {
        (Some(true), Some(true)) => "leads",
        (Some(true), _) => "standby: another replica leads, or none does yet",
        _ if status["troubles"]["API server"].is_string() => "cut off from the API server",
        _ => "starting: initial lists are not complete",
    };
    let answered = status["answeredSecondsAgo"].as_f64().map(|ago| {
        let digits = usize::from(ago < 10.0);
        format!("; the API server answered {ago:.digits$} s ago")
    });
    line("daemon", format!("{leads}{}", answered.unwrap_or_default()));
    line(
        "cluster",
        format!(
            "{} of {} wait; {}, {}, {}",
            number("pending"),
            count(number("pods"), "pod"),
            count(number("nodes"), "node"),
            count(number("nodeClaims"), "NodeClaim"),
            count(number("nodePools"), "NodePool")
        ),
    );
    line("rounds", rounds(status));
    for warning in texts(&status["warnings"]) {
        line("warning", warning.to_owned());
    }
    if let Some(short) = status["withoutCapacity"].as_object() {
        let of = |name: &str| short.get(name).and_then(Value::as_str).unwrap_or_default();
        let offerings = short.get("offerings").and_then(Value::as_u64).unwrap_or(0) as usize;
        let some = texts(&status["withoutCapacity"]["some"]).join(", ");
        let and = if offerings > 10 { ", …" } else { "" };
        let (first, last) = (of("askedAgainFrom"), of("askedAgainUntil"));
        let until = if first == last {
            first.to_owned()
        } else {
            format!("{first} to {last}")
        };
        line(
            "capacity",
            format!(
                "{} without, until {until}: {some}{and}",
                count(offerings, "offering")
            ),
        );
    }
    for waiting in list(&status["waiting"]) {
        let pods = waiting["pods"].as_u64().unwrap_or(0) as usize;
        let some = texts(&waiting["some"]).join(", ");
        let and = if pods > texts(&waiting["some"]).len() {
            ", …"
        } else {
            ""
        };
        line(
            "waiting",
            format!(
                "{} ({some}{and}): {}",
                count(pods, "pod"),
                shown(&waiting["why"])
            ),
        );
    }
    for coming in list(&status["coming"]) {
        line("coming", on_its_way(coming));
    }
    if number("others") > 0 {
        let pods = count(number("others"), "pod");
        line(
            "waiting",
            format!("{pods}: planned for existing nodes, or not planned yet"),
        );
    }
    for refused in list(&status["refused"]) {
        line(
            "refused",
            format!(
                "{} for NodePool {}, {} since {}: {}",
                shown(&refused["what"]),
                shown(&refused["nodePool"]),
                count(refused["times"].as_u64().unwrap_or(0) as usize, "time"),
                shown(&refused["since"]),
                shown(&refused["why"])
            ),
        );
    }
    for held in list(&status["held"]) {
        line("stay", stays(held));
    }
    for node in list(&status["draining"]["lines"]) {
        line("draining", goes(node));
    }
    let more = status["draining"]["nodes"].as_u64().unwrap_or(0) as usize;
    let more = more.saturating_sub(list(&status["draining"]["lines"]).len());
    if more > 0 {
        line("draining", format!("and {more} more"));
    }
    if status["churn"].is_object() {
        line("churn", recent::churn(&status["churn"]));
    }
    if status["lost"].is_object() {
        line("lost", recent::lost(&status["lost"]));
    }
    if status["cost"].is_object() {
        line("cost", recent::cost(&status["cost"]));
    }
    for change in list(&status["changes"]) {
        line("changed", recent::change(change));
    }
    for (pool, why) in status["barren"].as_object().into_iter().flatten() {
        line("nodepool", format!("{pool}: {}", shown(why)));
    }
    for (kind, why) in status["troubles"].as_object().into_iter().flatten() {
        line("trouble", format!("{kind}: {}", shown(why)));
    }
    let overlays = &status["overlays"];
    for overlay in list(&overlays["overlays"]) {
        let (name, state) = (shown(&overlay["name"]), shown(&overlay["state"]));
        line("overlay", format!("{name}: {state}"));
    }
    let more = overlays["count"].as_u64().unwrap_or(0) as usize;
    let more = more.saturating_sub(list(&overlays["overlays"]).len());
    if more > 0 {
        line("overlay", format!("and {more} more"));
    }
    if let Some(changed) = overlays["pricesChanged"].as_u64().filter(|all| *all > 0) {
        line(
            "prices",
            prices(changed as usize, list(&overlays["prices"])),
        );
    }
    let policies = &status["policies"];
    if let Some(file) = policies["config"]["file"].as_str() {
        line(
            "config",
            format!("{file}{}", problem(&policies["config"]["error"])),
        );
    }
    if let Some(why) = policies["files"]["without_events"].as_str() {
        let every = shown(&policies["files"]["look_every_ms"]);
        line("files", format!("looked at every {every} ms: {why}"));
    }
    for policy in list(&policies["policies"]) {
        let without = match (policy["mode"].as_str(), policy["loading"].as_bool()) {
            (Some("off"), _) => "not asked",
            (_, Some(true)) => "being loaded",
            _ => "never loaded, the price answers",
        };
        let version = policy["version"].as_str().unwrap_or(without);
        let failing = policy["failing"]
            .as_str()
            .map(|why| format!("; failing: {why}"))
            .unwrap_or_default();
        let decisions = decisions(policy) + &alike(policy) + &raised(policy) + &withheld(policy);
        let (name, mode) = (shown(&policy["name"]), shown(&policy["mode"]));
        line(
            "policy",
            format!(
                "{name} ({mode}): {version}{decisions}{failing}{}",
                problem(&policy["error"])
            ),
        );
    }
    for signal in list(&policies["signals"]) {
        let had = match signal["rows"].as_u64() {
            Some(rows) => count(rows as usize, "row"),
            None => "never had".to_owned(),
        };
        let had = had + &age(signal);
        let (name, source) = (shown(&signal["name"]), shown(&signal["source"]));
        line(
            "signal",
            format!("{name} from {source}: {had}{}", problem(&signal["error"])),
        );
    }
    out
}

/// Pods whose node is on its way, and what it waits for.
fn on_its_way(coming: &Value) -> String {
    let number = |name: &str| coming[name].as_u64().unwrap_or(0) as usize;
    let some = texts(&coming["some"]);
    let and = if number("nodeClaims") > some.len() {
        ", …"
    } else {
        ""
    };
    format!(
        "{} on {} of NodePool {} ({}{and}), since {}: {}",
        count(number("pods"), "pod"),
        count(number("nodeClaims"), "NodeClaim"),
        shown(&coming["nodePool"]),
        some.join(", "),
        shown(&coming["since"]),
        shown(&coming["waitsFor"])
    )
}

/// Nodes that a rule keeps.
fn stays(held: &Value) -> String {
    let (nodes, some) = (
        held["nodes"].as_u64().unwrap_or(0) as usize,
        texts(&held["some"]),
    );
    let and = if nodes > some.len() { ", …" } else { "" };
    let drifted = match held["drifted"] == true {
        true => " that drifted",
        false => "",
    };
    let (nodes, some) = (count(nodes, "node"), some.join(", "));
    format!("{nodes}{drifted} ({some}{and}): {}", shown(&held["why"]))
}

/// A node whose end takes long, and which pods keep it.
fn goes(node: &Value) -> String {
    let some = texts(&node["some"]);
    let refusing = node["refusing"].as_u64().unwrap_or(0) as usize;
    let and = if refusing > some.len() { "; …" } else { "" };
    let kept = match refusing {
        0 => String::new(),
        _ => format!(
            ", of which {refusing} may not be evicted ({}{and})",
            some.join("; ")
        ),
    };
    let name = match shown(&node["node"]) {
        "" => format!("NodeClaim {}", shown(&node["nodeClaim"])),
        name => format!("node {name}"),
    };
    format!(
        "{name} of NodePool {}, since {}: {}{kept}",
        shown(&node["nodePool"]),
        shown(&node["since"]),
        shown(&node["waitsFor"])
    )
}

/// Offerings whose price NodeOverlays change, a few of them by name.
fn prices(changed: usize, some: &[Value]) -> String {
    let one = |one: &Value| {
        let price = |name: &str| one[name].as_f64().unwrap_or_default();
        let (price, offered) = (price("price"), price("offered"));
        let offering = shown(&one["offering"]);
        format!("{offering} {price} USD/h (offered at {offered})")
    };
    let named: Vec<String> = some.iter().map(one).collect();
    let and = if changed > some.len() { ", …" } else { "" };
    let named = named.join(", ");
    format!(
        "{} at another price: {named}{and}",
        count(changed, "offering")
    )
}

/// What a consolidation policy has decided, and how often the rules of NodePools decided alone.
fn decisions(policy: &Value) -> String {
    let implements = list(&policy["implements"]);
    if !implements.iter().any(|of| of == "consolidation") {
        return String::new();
    }
    let number = |name: &str| policy[name].as_u64().unwrap_or(0);
    let mut text = format!(
        "; proposals approved {}, deferred {}, refused {}",
        number("approved"),
        number("deferred"),
        number("declined")
    );
    let shadow = &policy["shadow"];
    if !shadow.is_null() {
        let number = |name: &str| shadow[name].as_u64().unwrap_or(0);
        text = format!(
            "; would have decided {} of {} proposals otherwise",
            number("proposals_differing"),
            number("proposals")
        );
    }
    match number("by_rules") {
        0 => text,
        times => format!("{text}; unanswered {times}: the rules of NodePools alone counted"),
    }
}

/// What a policy wants and does not get.
fn withheld(policy: &Value) -> String {
    let names = |key: &str| {
        list(&policy[key])
            .iter()
            .map(shown)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut text = String::new();
    for (key, words) in [
        ("not_granted", "not asked"),
        ("withheld_signals", "signals withheld"),
    ] {
        let names = names(key);
        if !names.is_empty() {
            text += &format!("; {words}: {names}");
        }
    }
    text
}

/// For which NodePools a policy costs all offerings alike.
fn alike(policy: &Value) -> String {
    let one = |one: &Value| {
        let pools = texts(&one["nodepools"]);
        let more = if pools.len() > 3 { ", …" } else { "" };
        format!(
            "; costs all {} offerings {} USD/h for NodePool {}{more}: the price decides nothing",
            one["offerings"],
            one["cost"].as_f64().unwrap_or_default(),
            pools.get(..3).unwrap_or(&pools).join(", ")
        )
    };
    list(&policy["alike"]).iter().map(one).collect()
}

/// That a policy costs offerings less than the operator believes, if it does.
fn raised(policy: &Value) -> String {
    match policy["raised"].as_u64() {
        None | Some(0) => String::new(),
        Some(times) => format!(
            "; raised to the least that max-discount allows: {} so far",
            count(times as usize, "cost")
        ),
    }
}

/// How old the data of a signal is, and what says so.
fn age(signal: &Value) -> String {
    let Some(age) = signal["age_seconds"].as_i64() else {
        return String::new();
    };
    let by = match shown(&signal["dated_by"]) {
        "table" => " (its own time)",
        "file" => " (change of the file)",
        "last-modified" => " (Last-Modified of the reply)",
        "reply" => " (since the reply)",
        _ => "",
    };
    format!(", {} old{by}", span(age))
}

fn rounds(status: &Value) -> String {
    let rounds = status["rounds"].as_u64().unwrap_or(0);
    let last = &status["lastPlan"];
    if last.is_null() {
        return rounds.to_string();
    }
    let number = |name: &str| last[name].as_u64().unwrap_or(0) as usize;
    let failed = match number("failed") {
        0 => String::new(),
        failed => format!(" ({failed} could not be created)"),
    };
    format!(
        "{rounds}; in the last, {} got {}{failed} at {:.4} USD/h, {} left over, {} ms{}{}",
        count(number("pods"), "pod"),
        count(number("claims"), "NodeClaim"),
        last["cost"].as_f64().unwrap_or(0.0),
        number("left"),
        number("milliseconds"),
        if last["cutShort"] == true {
            ", cut short at the time limit: first-fit"
        } else {
            ""
        },
        match number("leftOut") {
            0 => String::new(),
            pods => format!(
                ", {} left out with which plans break a rule: a defect of Longshore",
                count(pods, "pod")
            ),
        }
    )
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn texts(value: &Value) -> Vec<&str> {
    list(value).iter().filter_map(Value::as_str).collect()
}

fn shown(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// `; PLACE: REASON`, if there is a problem.
fn problem(value: &Value) -> String {
    match value.is_object() {
        true => format!("; {}: {}", shown(&value["place"]), shown(&value["reason"])),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
        .assert_eq(&text(&status));
        assert!(text(&json!({"synced": false})).starts_with("daemon    starting"));
    }
}
