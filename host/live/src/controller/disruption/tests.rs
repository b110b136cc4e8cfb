use super::super::tests::how;
use super::*;
use crate::decide::round_timer::RoundTimer;
use crate::serve::http::SharedBoard;
use crate::test_cluster::{context, fresh, instance};
use longshore_core::disrupt::methods::Round;

fn claim(node: &str, proposed: Option<&str>, more: serde_json::Value) -> NodeClaim {
    let mut annotations = more;
    if let Some(at) = proposed {
        annotations[PROPOSED] = at.into();
    }
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": node, "annotations": annotations},
        "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
        "status": {"nodeName": node},
    }))
    .unwrap()
}

#[test]
fn what_was_proposed_last_is_taken_up_by_the_next_process_for_a_while() {
    let claims = [
        claim("a", Some("2026-11-26T10:00:00Z"), json!({})),
        claim("b", Some("2026-11-26T10:00:00Z"), json!({})),
        claim("older", Some("2026-11-26T09:59:40Z"), json!({})),
        claim("never", None, json!({})),
        claim("nonsense", Some("soon"), json!({})),
    ];
    let recalled = |now: &str| recalled(claims.iter(), now.parse().unwrap());
    let (age, nodes) = recalled("2026-11-26T10:00:07Z").unwrap();
    assert_eq!(age, Duration::from_secs(7));
    assert_eq!(nodes, ["a", "b"].map(str::to_owned).into());
    assert_eq!(recalled("2026-11-26T10:02:01Z"), None, "too long ago");
    assert_eq!(
        recalled("2026-11-26T09:59:59Z"),
        None,
        "the clock was put back"
    );
}
#[test]
fn a_budget_of_0_is_in_the_way_of_a_node_that_nothing_else_keeps() {
    use longshore_api::manifests::Reader;
    use longshore_core::disrupt::methods::{self, RoundOptions};
    use longshore_core::policy::ByPrice;
    use longshore_core::stop::Stop;

    use crate::metrics::disruption::may_but_for_budgets;

    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "c"});
    let is = |kind: &str| json!({"type": kind, "status": "True"});
    let labels = json!({"karpenter.sh/nodepool": "frozen", "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true"});
    let look = |budget: &str| {
        let items = json!([
            {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "frozen"},
                "spec": {"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": budget}]},
                    "template": {"spec": {"nodeClassRef": class, "requirements": []}}}},
            {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": {"name": "a", "uid": "a", "labels": labels},
                "spec": {"nodeClassRef": class, "requirements": []},
                "status": {"providerID": "a", "nodeName": "a", "conditions":
                    [is("Registered"), is("Initialized"), is("Consolidatable")]}},
            {"apiVersion": "v1", "kind": "Node",
                "metadata": {"name": "a", "uid": "a", "labels": labels},
                "spec": {"providerID": "a"}, "status": {"conditions": [is("Ready")]}},
        ]);
        let mut reader = Reader::new();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        reader.read("cluster.json", list.as_bytes());
        let (world, problems) = reader.finish();
        assert!(problems.list.is_empty(), "{problems}");
        let snapshot = Snapshot::new(world.into());
        let round = methods::round(&snapshot, &ByPrice, RoundOptions::default(), Stop::never());
        (budgets_in_the_way(&snapshot, &round), round)
    };
    let (blocked, round) = look("0");
    assert_eq!(blocked, [(("frozen".to_owned(), "Empty"), 0)].into());
    let allowed = |round: &Round| {
        use longshore_core::disrupt::verdicts::Reason;
        Reason::ALL.map(|of| round.question.left(PoolIx(0), of))
    };
    assert_eq!(allowed(&round), [0; 4]);
    let node = &round.candidates[0];
    assert!(!node.may(Method::Emptiness) && may_but_for_budgets(node, Method::Emptiness));
    let (blocked, round) = look("1");
    assert_eq!((blocked, allowed(&round)), (BTreeMap::new(), [1; 4]));
}

/// A loop that disrupts and has looked a moment ago.
fn controller() -> Controller {
    let (server, _) = fresh();
    let ctx = Arc::new(context(&server, Ok(instance())));
    let (mut how, names) = how(&ctx);
    how.disrupts = true;
    let window = Duration::from_secs(1);
    let timer = RoundTimer::new(window, window);
    let (control, _) = Controller::new(ctx, how, timer, names, SharedBoard::default());
    control
}

#[tokio::test]
async fn a_pause_is_kept_though_something_was_proposed() {
    let mut control = controller();
    let now = Instant::now();
    let nodes = ["a".to_owned()].into();
    control.disruption.proposed = Some((now, nodes));
    assert_eq!(control.next_disruption(), Some(now + VALIDATION_DELAY));
    control.disruption.rests_until = Some(now + VALIDATION_DELAY * 2);
    assert_eq!(control.next_disruption(), Some(now + VALIDATION_DELAY * 2));
    control.planning = true;
    assert!(
        control.next_disruption().is_some(),
        "a round is no reason to wait"
    );
}

#[tokio::test]
async fn a_look_that_panics_is_repeated_later_and_later() {
    let mut control = controller();
    let now = Instant::now();
    let waits: Vec<u64> = (0..6)
        .map(|_| {
            control.disruption.proposed = Some((now, BTreeSet::new()));
            control.look_panicked(now);
            let due = control.next_disruption().expect("it is due some time");
            (due - now).as_secs()
        })
        .collect();
    assert_eq!(waits, [60, 120, 240, 480, 960, 960]);
}

#[tokio::test]
async fn what_a_look_finds_during_a_round_waits_for_its_end() {
    let mut control = controller();
    control.planning = true;
    control.disruption.deciding = true;
    control.disruption_decided(None);
    assert!(control.disruption.deciding && control.disruption.panics == 0);
    control.planning = false;
    control.take_held_look();
    assert!(!control.disruption.deciding && control.disruption.panics == 1);
}
