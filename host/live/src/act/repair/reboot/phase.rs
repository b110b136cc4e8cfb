//! Where a reboot is, and what is due for it: pure.

use std::time::Duration;

use longshore_api::crd::{
    Condition, NodeClaim, Taint, TaintEffect, Timestamp, condition, duration,
};
use longshore_api::labels;
use longshore_core::disrupt::verdicts::REBOOTING;

use crate::observe::node::NodeView;
use crate::observe::node_claim::is_true;
use longshore_core::model::conditions::INITIALIZED;

/// Taint of nodes that are being rebooted.
pub const TAINT: &str = "karpenter.sh/rebooting";
/// Reason of condition Rebooting afterwards.
pub const ISSUED: &str = "RebootIssued";
/// Annotation of a NodeClaim: how long pods may take to leave; as long as they want without it.
pub const GRACE: &str = "karpenter.sh/reboot-termination-grace-period";
/// Annotation of a NodeClaim: the boot ID of its node before.
pub const BOOT_ID: &str = "karpenter.sh/reboot-pre-boot-id";
/// Annotation of a NodeClaim: when the cloud was asked first.
pub const ATTEMPTED: &str = "longshore.dev/reboot-attempted";
/// Annotation of a NodeClaim: when its node was rebooted, the last ones.
pub const REBOOTS: &str = "longshore.dev/reboots";
/// The taint stands for so long, seconds, before the machine goes down: kube-scheduler has to hear
/// of it.
const TAINT_LEAD_SECONDS: i64 = 5;
/// For how long, seconds, the cloud is asked again.
const REBOOT_REQUEST_SECONDS: i64 = 5 * 60;
/// How long, seconds, a machine may take to come back.
const RECOVERY_LIMIT_SECONDS: i64 = 20 * 60;
/// Reboots of one NodeClaim count for so long, seconds.
const REBOOT_COUNT_WINDOW_SECONDS: i64 = 24 * 60 * 60;
/// Reboots of one NodeClaim that are tried; then its node is replaced.
const MAX_REBOOTS: usize = 2;

/// What is due for a NodeClaim whose node is being rebooted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// The node gets the taint that keeps kube-scheduler away.
    Close,
    /// Its pods are asked to leave, until a second since 1970, if that is bounded; at least until
    /// another.
    Drain {
        /// When pods that are left stay.
        until: Option<i64>,
        /// The drain lasts at least until then, seconds since 1970.
        least: i64,
    },
    /// What a machine says of itself before is written down.
    Note,
    /// The cloud is asked, with this name of the operation.
    Ask(String),
    /// The machine was started anew before that could be written down.
    Confirm,
    /// The label goes that says that the node is ready for pods.
    Unready,
    /// The machine has come back: kube-scheduler may use it.
    Open,
    /// The node is as it should be.
    Succeed,
    /// Nothing, for so many seconds at most.
    Wait(i64),
    /// It is given up: the result for metrics, and why.
    Fail(&'static str, String),
    /// It is given up, and the node stays: why.
    Refuse(String),
}

/// When the last reboot of a NodeClaim's node ended, seconds since 1970.
pub fn ended(claim: &NodeClaim) -> Option<i64> {
    let rebooting = rebooting(claim)?;
    let over = rebooting.status == longshore_api::crd::ConditionStatus::False;
    over.then(|| rebooting.last_transition_time.0.as_second())
}

/// Whether a NodeClaim's node is being rebooted.
pub fn is_under_way(claim: &NodeClaim) -> bool {
    let status = claim.status.as_ref();
    status.is_some_and(|status| is_true(status, REBOOTING))
}

/// Whether its pods are still asked to leave.
pub fn drains(claim: &NodeClaim) -> bool {
    is_under_way(claim) && rebooting(claim).is_none_or(|c| c.reason != ISSUED)
}

/// When a NodeClaim's node was rebooted, of what counts still, seconds since 1970.
pub fn recent(claim: &NodeClaim, now: i64) -> Vec<i64> {
    let all = annotation(claim, REBOOTS).unwrap_or_default().split(',');
    let times = all.filter_map(|at| at.trim().parse::<Timestamp>().ok());
    times
        .map(Timestamp::as_second)
        .filter(|at| now.saturating_sub(*at) < REBOOT_COUNT_WINDOW_SECONDS)
        .collect()
}

/// Whether rebooting has been tried often enough.
pub fn is_tried(claim: &NodeClaim, now: i64) -> bool {
    recent(claim, now).len() >= MAX_REBOOTS
}

/// What is due at a time, seconds since 1970. `node` is the NodeClaim's only one.
pub fn due(claim: &NodeClaim, node: Option<&NodeView>, now: i64) -> Due {
    let Some(rebooting) = rebooting(claim) else {
        return Due::Wait(0);
    };
    let since = rebooting.last_transition_time.0;
    if rebooting.reason == ISSUED {
        return recovery(claim, node, now);
    }
    let Ok(grace) = grace(claim) else {
        let text = annotation(claim, GRACE).unwrap_or_default();
        return Due::Refuse(format!("annotation {GRACE} is not a duration: {text}"));
    };
    let requested = since.as_second();
    let Some(node) = node else {
        return within(
            requested + REBOOT_REQUEST_SECONDS,
            now,
            "provider_error",
            || "its Node is gone".to_owned(),
        );
    };
    let before = annotation(claim, BOOT_ID);
    if before.is_some_and(|before| is_new(node, before)) {
        return Due::Confirm;
    }
    let Some((attempted, before)) = attempted(claim).zip(before) else {
        return request(node, requested, grace, now);
    };
    if now > attempted + REBOOT_REQUEST_SECONDS {
        let why = "its cloud did not accept that within 5 minutes".to_owned();
        return Due::Fail("provider_error", why);
    }
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    Due::Ask(format!("{uid}-{}-{before}", since.as_nanosecond()))
}

/// What is due before the cloud is asked for the first time.
fn request(node: &NodeView, requested: i64, grace: Option<i64>, now: i64) -> Due {
    if !is_closed(node) {
        return Due::Close;
    }
    let until = grace.map(|grace| requested.saturating_add(grace.max(TAINT_LEAD_SECONDS)));
    let least = requested + TAINT_LEAD_SECONDS;
    match grace {
        Some(0) => Due::Note,
        _ if until.is_some_and(|until| now >= until) => Due::Note,
        _ => Due::Drain { until, least },
    }
}

/// What is due once the cloud has accepted it.
fn recovery(claim: &NodeClaim, node: Option<&NodeView>, now: i64) -> Due {
    let initialized = claim
        .status
        .as_ref()
        .and_then(|status| condition(&status.conditions, INITIALIZED));
    let issued = initialized.map_or(now, |c| c.last_transition_time.0.as_second());
    let late = |what: &str| {
        let what = what.to_owned();
        within(
            issued + RECOVERY_LIMIT_SECONDS,
            now,
            "recovery_timeout",
            || what,
        )
    };
    let Some(node) = node else {
        return late("its Node did not come back within 20 minutes");
    };
    if is_new(node, annotation(claim, BOOT_ID).unwrap_or_default()) {
        return match (is_closed(node), node.is_ready()) {
            (true, _) => Due::Open,
            (false, true) => Due::Succeed,
            (false, false) => late("its Node was not ready within 20 minutes"),
        };
    }
    if node.labels.contains_key(labels::INITIALIZED) {
        return Due::Unready;
    }
    late("its machine did not start anew within 20 minutes")
}

fn within(limit: i64, now: i64, result: &'static str, why: impl FnOnce() -> String) -> Due {
    match limit - now {
        left if left > 0 => Due::Wait(left),
        _ => Due::Fail(result, why()),
    }
}

/// Whether a node was started since it had a boot ID.
fn is_new(node: &NodeView, before: &str) -> bool {
    !node.boot_id.is_empty() && node.boot_id != before
}

/// Whether a node has the taint that keeps kube-scheduler away while it is rebooted.
pub fn is_closed(node: &NodeView) -> bool {
    node.taints.iter().any(is_rebooting)
}

/// How long the pods may take, seconds; nothing if as long as they want.
pub fn grace(claim: &NodeClaim) -> Result<Option<i64>, duration::NotADuration> {
    let seconds = |of: Duration| i64::try_from(of.as_secs()).unwrap_or(i64::MAX);
    let text = annotation(claim, GRACE);
    text.map(|text| duration::duration(text).map(seconds))
        .transpose()
}

fn attempted(claim: &NodeClaim) -> Option<i64> {
    let at: Timestamp = annotation(claim, ATTEMPTED)?.parse().ok()?;
    Some(at.as_second())
}

fn rebooting(claim: &NodeClaim) -> Option<&Condition> {
    condition(&claim.status.as_ref()?.conditions, REBOOTING)
}

fn annotation<'a>(claim: &'a NodeClaim, key: &str) -> Option<&'a str> {
    let annotations = claim.metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

/// Whether a taint says that its node is being rebooted.
pub fn is_rebooting(taint: &Taint) -> bool {
    taint.key == TAINT && taint.effect == TaintEffect::NoSchedule
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::{Value, json};

    use super::*;
    use crate::act::repair::reboot::{REQUESTED, TAINT};

    fn stamp(second: i64) -> String {
        Timestamp::from_second(second).unwrap().to_string()
    }

    /// A NodeClaim whose reboot was requested at 1000, with annotations.
    fn claim(reason: &str, annotations: Value) -> NodeClaim {
        let stated = |kind: &str, status: &str, reason: &str, at: i64| {
            json!({"type": kind, "status": status, "reason": reason, "message": "",
                "lastTransitionTime": stamp(at)})
        };
        let conditions = [
            stated(REBOOTING, "True", reason, 1000),
            stated("Initialized", "Unknown", "Rebooting", 1100),
        ];
        let object = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "c", "uid": "u", "annotations": annotations},
            "spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": []},
            "status": {"conditions": conditions},
        });
        serde_json::from_value(object).unwrap()
    }

    /// A node by its boot ID and what else is said of it: `closed`, `ready`, `initialized`.
    fn node(boot_id: &str, is: &str) -> NodeView {
        let has = |word: &str| is.split(' ').any(|known| known == word);
        let taints = match has("closed") {
            true => json!([{"key": TAINT, "effect": "NoSchedule"}]),
            false => json!([]),
        };
        let labels = match has("initialized") {
            true => json!({labels::INITIALIZED: "true"}),
            false => json!({}),
        };
        let ready = if has("ready") { "True" } else { "False" };
        let object = json!({
            "metadata": {"name": "n", "labels": labels},
            "spec": {"taints": taints},
            "status": {
                "nodeInfo": {"bootID": boot_id},
                "conditions": [{"type": "Ready", "status": ready, "reason": ""}],
            },
        });
        NodeView::read(&object.to_string()).unwrap()
    }

    fn all(claim: &NodeClaim, node: Option<&NodeView>, times: &[i64]) -> String {
        let one = |now: &i64| format!("{now}: {:?}\n", due(claim, node, *now));
        times.iter().map(one).collect()
    }

    #[test]
    fn pods_leave_before_the_cloud_is_asked() {
        let bounded = claim(REQUESTED, json!({GRACE: "1m0s"}));
        expect!["1000: Close\n"].assert_eq(&all(&bounded, Some(&node("a", "ready")), &[1000]));
        let closed = node("a", "ready closed");
        expect![[r#"
            1000: Drain { until: Some(1060), least: 1005 }
            1059: Drain { until: Some(1060), least: 1005 }
            1060: Note
        "#]]
        .assert_eq(&all(&bounded, Some(&closed), &[1000, 1059, 1060]));
        let unbounded = claim(REQUESTED, json!({}));
        expect!["99000: Drain { until: None, least: 1005 }\n"].assert_eq(&all(
            &unbounded,
            Some(&closed),
            &[99_000],
        ));
        // No time at all asks no pod; a short one is as long as kube-scheduler needs.
        let none = claim(REQUESTED, json!({GRACE: "0s"}));
        expect!["1000: Note\n"].assert_eq(&all(&none, Some(&closed), &[1000]));
        let short = claim(REQUESTED, json!({GRACE: "1s"}));
        expect!["1001: Drain { until: Some(1005), least: 1005 }\n"].assert_eq(&all(
            &short,
            Some(&closed),
            &[1001],
        ));
    }

    #[test]
    fn the_cloud_is_asked_for_five_minutes() {
        let asked = json!({BOOT_ID: "a", ATTEMPTED: stamp(1060)});
        let asked = claim(REQUESTED, asked);
        let closed = node("a", "closed");
        expect![[r#"
            1061: Ask("u-1000000000000-a")
            1360: Ask("u-1000000000000-a")
            1361: Fail("provider_error", "its cloud did not accept that within 5 minutes")
        "#]]
        .assert_eq(&all(&asked, Some(&closed), &[1061, 1360, 1361]));
        // A process that was killed has asked already.
        expect!["1061: Confirm\n"].assert_eq(&all(&asked, Some(&node("b", "closed")), &[1061]));
        expect![[r#"
            1299: Wait(1)
            1300: Fail("provider_error", "its Node is gone")
        "#]]
        .assert_eq(&all(&asked, None, &[1299, 1300]));
    }

    #[test]
    fn a_machine_has_twenty_minutes_to_come_back() {
        let issued = claim(ISSUED, json!({BOOT_ID: "a"}));
        let at =
            |boot_id: &str, is: &str, times: &[i64]| all(&issued, Some(&node(boot_id, is)), times);
        expect!["1100: Unready\n"].assert_eq(&at("a", "ready closed initialized", &[1100]));
        expect![[r#"
            1101: Wait(1199)
            2300: Fail("recovery_timeout", "its machine did not start anew within 20 minutes")
        "#]]
        .assert_eq(&at("a", "closed", &[1101, 2300]));
        expect!["1200: Open\n"].assert_eq(&at("b", "closed", &[1200]));
        expect![[r#"
            1200: Wait(1100)
            2300: Fail("recovery_timeout", "its Node was not ready within 20 minutes")
        "#]]
        .assert_eq(&at("b", "", &[1200, 2300]));
        expect!["1200: Succeed\n"].assert_eq(&at("b", "ready", &[1200]));
        expect![[r#"
            1200: Wait(1100)
            2300: Fail("recovery_timeout", "its Node did not come back within 20 minutes")
        "#]]
        .assert_eq(&all(&issued, None, &[1200, 2300]));
    }

    #[test]
    fn a_bound_that_cannot_be_read_ends_the_reboot() {
        let broken = claim(REQUESTED, json!({GRACE: "soon"}));
        let annotation = "karpenter.sh/reboot-termination-grace-period";
        assert_eq!(
            due(&broken, Some(&node("a", "closed")), 1000),
            Due::Refuse(format!("annotation {annotation} is not a duration: soon"))
        );
    }

    #[test]
    fn two_reboots_a_day_are_tried() {
        let times = |times: &[i64]| {
            let times: Vec<String> = times.iter().map(|at| stamp(*at)).collect();
            claim(REQUESTED, json!({REBOOTS: times.join(",")}))
        };
        let day = 24 * 60 * 60;
        assert!(is_tried(&times(&[1000, 2000]), 3000));
        assert!(!is_tried(&times(&[1000, 2000]), 1000 + day), "a day ago");
        assert!(!is_tried(&times(&[1000]), 3000));
        assert!(!is_tried(&claim(REQUESTED, json!({})), 3000));
    }
}
