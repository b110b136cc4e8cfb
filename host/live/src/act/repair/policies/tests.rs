//! Conditions in, what is due out.

use expect_test::expect;
use serde_json::{Value, json};

use super::*;

const fn policy(
    named: (&'static str, &'static str, &'static str),
    toleration: u64,
    grace: Option<Duration>,
    priority: u8,
    action: RepairAction,
) -> RepairPolicy {
    RepairPolicy {
        condition: named.0,
        status: named.1,
        reason: named.2,
        toleration: Duration::from_secs(toleration),
        grace,
        priority,
        action,
    }
}

const fn grace(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

const POLICIES: [RepairPolicy; 6] = [
    policy(
        ("Ready", "False", ""),
        600,
        grace(500),
        0,
        RepairAction::Replace,
    ),
    policy(
        ("Ready", "Unknown", ".*"),
        600,
        None,
        0,
        RepairAction::Replace,
    ),
    policy(
        ("Gpu", "False", "XID(64|74)"),
        60,
        grace(300),
        10,
        RepairAction::Replace,
    ),
    policy(
        ("Gpu", "False", "XID(46|64)"),
        120,
        grace(90),
        50,
        RepairAction::Reboot,
    ),
    policy(
        ("Disk", "True", "^Slow"),
        60,
        None,
        10,
        RepairAction::Reboot,
    ),
    policy(
        ("Disk", "True", "^SlowNow$"),
        0,
        None,
        50,
        RepairAction::Reboot,
    ),
];

/// 1970 and so many seconds.
fn stamp(second: i64) -> String {
    longshore_api::crd::Timestamp::from_second(second)
        .unwrap()
        .to_string()
}

/// A node that was made at a second, with conditions as `Type=Status/Reason@second`.
fn node(created: i64, conditions: &str) -> NodeView {
    let read = |text: &str| -> Value {
        let (named, since) = text.split_once('@').unwrap();
        let (kind, rest) = named.split_once('=').unwrap();
        let (status, reason) = rest.split_once('/').unwrap();
        json!({"type": kind, "status": status, "reason": reason,
            "lastTransitionTime": stamp(since.parse().unwrap())})
    };
    let all: Vec<Value> = conditions.split_whitespace().map(read).collect();
    let object = json!({"metadata": {"name": "n", "creationTimestamp": stamp(created)},
        "status": {"conditions": all}});
    NodeView::read(&object.to_string()).unwrap()
}

fn said(unhealthy: Option<Unhealthy>) -> String {
    let Some(unhealthy) = unhealthy else {
        return "healthy\n".into();
    };
    let due = unhealthy.due.map_or("tolerated".to_owned(), |due| {
        let grace = due
            .grace
            .map_or("without bound".to_owned(), |s| format!("within {s} s"));
        format!("{:?} {grace}, score {:.2}", due.action, due.score)
    });
    let (what, reason, since) = (unhealthy.text(), &unhealthy.reason, unhealthy.since);
    format!("{what}/{reason} due at {since}: {due}\n")
}

/// What becomes of a node by its conditions, at seconds.
fn at(times: &[i64], conditions: &str) -> String {
    let policies = RepairPolicies::new(&POLICIES).unwrap();
    let node = node(0, conditions);
    let one = |now: &i64| format!("{now}: {}", said(policies.of(&node, None, *now)));
    times.iter().map(one).collect()
}

#[test]
fn a_condition_is_tolerated_for_a_while() {
    expect![[r#"
        0: Ready=False/KubeletDown due at 700: tolerated
        699: Ready=False/KubeletDown due at 700: tolerated
        700: Ready=False/KubeletDown due at 700: Replace within 500 s, score 0.00
        2500: Ready=False/KubeletDown due at 700: Replace within 500 s, score 1.00
    "#]]
    .assert_eq(&at(&[0, 699, 700, 2500], "Ready=False/KubeletDown@100"));
    expect!["9000: healthy\n"].assert_eq(&at(&[9000], "Ready=True/Fine@0 Net=False/Down@0"));
}

#[test]
fn a_reason_that_no_policy_has_falls_back() {
    // Not after the 60 s that others of the condition are tolerated for.
    expect![[r#"
        599: Gpu=False/Weird due at 600: tolerated
        600: Gpu=False/Weird due at 600: Replace within 500 s, score 0.00
    "#]]
    .assert_eq(&at(&[599, 600], "Gpu=False/Weird@0"));
    // One that is meant and still tolerated is no reason to fall back.
    expect!["650: Gpu=False/NvidiaXID46Error due at 720: tolerated\n"]
        .assert_eq(&at(&[650], "Gpu=False/NvidiaXID46Error@600"));
}

#[test]
fn replacing_beats_rebooting_and_the_shortest_grace_period_wins() {
    // The reboot has the higher priority, and still the other policy decides.
    expect![[r#"
        60: Gpu=False/XID64 due at 60: Replace within 300 s, score 1.00
        120: Gpu=False/XID64 due at 60: Replace within 90 s, score 2.00
    "#]]
    .assert_eq(&at(&[60, 120], "Gpu=False/XID64@0"));
    expect!["200: Gpu=False/XID46 due at 120: Reboot within 90 s, score 2.04\n"]
        .assert_eq(&at(&[200], "Gpu=False/XID46@0"));
    // A policy without a bound does not lengthen the other's.
    expect!["900: Gpu=False/XID46 due at 120: Reboot within 90 s, score 2.43\n"]
        .assert_eq(&at(&[900], "Gpu=False/XID46@0 Disk=True/SlowAgain@0"));
}

#[test]
fn of_equal_actions_priority_names_then_age_then_the_type() {
    expect!["100: Disk=True/SlowNow due at 10: Reboot without bound, score 2.05\n"]
        .assert_eq(&at(&[100], "Disk=True/SlowNow@10"));
    expect!["9000: Ready=Unknown/Lost due at 600: Replace within 500 s, score 4.67\n"]
        .assert_eq(&at(&[9000], "Disk=True/Odd@5 Ready=Unknown/Lost@0"));
    expect!["9000: Disk=True/Odd due at 600: Replace within 500 s, score 4.67\n"]
        .assert_eq(&at(&[9000], "Ready=Unknown/Lost@0 Disk=True/Odd@0"));
}

#[test]
fn a_node_that_is_new_or_was_rebooted_has_the_whole_toleration_again() {
    let policies = RepairPolicies::new(&POLICIES).unwrap();
    let node = node(1000, "Ready=False/KubeletDown@100");
    expect!["Ready=False/KubeletDown due at 1600: tolerated\n"]
        .assert_eq(&said(policies.of(&node, None, 1599)));
    expect!["Ready=False/KubeletDown due at 2600: tolerated\n"].assert_eq(&said(policies.of(
        &node,
        Some(2000),
        1700,
    )));
    // At once it is as it was in 1.14.
    expect!["Ready=False/KubeletDown due at 700: tolerated\n"]
        .assert_eq(&said(policies.at_once(&node)));
}

#[test]
fn at_once_nothing_is_rebooted() {
    let policies = RepairPolicies::new(&POLICIES).unwrap();
    let of = |conditions: &str| said(policies.at_once(&node(0, conditions)));
    expect!["healthy\n"].assert_eq(&of("Gpu=False/XID46@0"));
    expect!["Gpu=False/XID64 due at 60: tolerated\n"]
        .assert_eq(&of("Gpu=False/XID64@0 Ready=False/KubeletDown@0"));
}

#[test]
fn policies_that_make_no_set_are_refused() {
    let [fallback, unknown, ..] = POLICIES;
    let refused =
        |policies: &[RepairPolicy]| RepairPolicies::new(policies).unwrap_err().to_string();
    let with = |more: RepairPolicy| refused(&[fallback, more]);
    let broken = RepairPolicy {
        reason: "(",
        ..unknown
    };
    let pattern = with(broken);
    let said = [
        refused(&[]),
        refused(&[unknown]),
        with(fallback),
        refused(&[RepairPolicy {
            action: RepairAction::Reboot,
            ..fallback
        }]),
        with(RepairPolicy {
            status: "Maybe",
            ..unknown
        }),
        with(RepairPolicy {
            priority: 101,
            ..unknown
        }),
        pattern.lines().next().unwrap_or_default().to_owned(),
    ];
    expect![[r#"
        0 repair policies have no reason, and exactly one is the fallback for all others
        0 repair policies have no reason, and exactly one is the fallback for all others
        2 repair policies have no reason, and exactly one is the fallback for all others
        the fallback among repair policies, Ready=False, has to replace the node
        the repair policy for Ready=Maybe names no status: True, False or Unknown
        the repair policy for Ready=Unknown has priority 101, and 100 is most
        the repair policy for Ready=Unknown has no regular expression: regex parse error:"#]]
    .assert_eq(&said.join("\n"));
}
