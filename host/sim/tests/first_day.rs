//! What a Karpenter user sees on the first day: the Events and the metrics that Karpenter has, on a real
//! scale-down and a real replacement.

use std::collections::BTreeSet;
use std::time::Duration;

use longshore_sim::harness::Harness;
use longshore_simcluster::fields::{self, name};
use longshore_simcluster::server::resources::{EVENT, NODE_CLAIM};

use crate::incidents::{deployment, one_per_node, pool, setup, staged, usual_pool};

/// Objects that have an Event of a reason, as `Kind/name`.
fn objects_with_event(harness: &Harness, reason: &str) -> Vec<String> {
    let all = harness.world.server.list(EVENT);
    let of = all
        .iter()
        .filter(|event| fields::text(event, "/reason") == reason);
    let about =
        |part: &str, event| fields::text(event, &format!("/involvedObject/{part}")).to_owned();
    of.map(|event| format!("{}/{}", about("kind", event), about("name", event)))
        .collect()
}

fn assert_event(harness: &Harness, reason: &str, kind: &str) {
    let begin = format!("{kind}/");
    let objects = objects_with_event(harness, reason);
    let all = harness.world.server.list(EVENT);
    let reasons: BTreeSet<&str> = all
        .iter()
        .map(|event| fields::text(event, "/reason"))
        .collect();
    let is_there = objects.iter().any(|of| of.starts_with(&begin));
    assert!(is_there, "{reason} of {kind}: {objects:?}, of {reasons:?}");
}

/// Lines of a metric.
fn lines(harness: &Harness, metric: &str) -> Vec<String> {
    let begin = format!("{metric}{{");
    let counted = harness.counted();
    let lines = counted.lines().filter(|line| line.starts_with(&begin));
    lines.map(str::to_owned).collect()
}

#[test]
fn a_scale_down_is_told_and_is_no_error_of_the_cloud() {
    staged(
        setup(),
        &(usual_pool() + &one_per_node("web", 4)),
        async |night| {
            night.everything_runs(4);
            night.0.world.scale("Deployment", "default", "web", 2);
            night.minutes(10).await;
            let claims = night.0.world.server.list(NODE_CLAIM);
            assert_eq!(claims.len(), 2, "{}", night.0.world.describe());
            for reason in ["ConsolidationCandidate", "DisruptionTerminating"] {
                assert_event(&night.0, reason, "NodeClaim");
                assert_event(&night.0, reason, "Node");
            }
            assert_eq!(
                lines(&night.0, "karpenter_cloudprovider_errors_total"),
                [""; 0]
            );
        },
    );
}

#[test]
fn a_replacement_is_told_and_its_node_is_ready_for_two_seconds_before_the_old_one_goes() {
    let small = deployment("small", 1, "200m", "");
    let manifests = usual_pool() + &small + &deployment("large", 1, "3", "");
    staged(setup(), &manifests, async |night| {
        night.everything_runs(2);
        let claims = || night.0.world.server.list(NODE_CLAIM);
        let old = name(&claims()[0]).to_owned();
        assert_eq!(claims().len(), 1);
        night.0.world.scale("Deployment", "default", "large", 0);
        let mut since = None;
        for _ in 0..6_000 {
            night.0.world.run_for(Duration::from_millis(100)).await;
            let now = night.0.world.clock.elapsed();
            let all = claims();
            let is_ready = |claim| fields::condition(claim, "Initialized") == "True";
            if all
                .iter()
                .any(|claim| name(claim) != old && is_ready(claim))
            {
                since.get_or_insert(now);
            }
            let old = all.iter().find(|claim| name(claim) == old);
            if old.is_none_or(|old| fields::deleting(old)) {
                break;
            }
        }
        let ready = since.expect("another node comes first");
        let waited = night.0.world.clock.elapsed() - ready;
        assert!(waited >= Duration::from_millis(1_900), "{waited:?}");
        assert!(waited < Duration::from_secs(30), "{waited:?}");
        for reason in [
            "ConsolidationCandidate",
            "DisruptionLaunching",
            "DisruptionWaitingReadiness",
        ] {
            assert_event(&night.0, reason, "NodeClaim");
        }
    });
}

#[test]
fn a_closed_budget_is_an_event_of_its_nodepool_and_a_metric() {
    let closed = "budgets: [{nodes: '0'}]";
    let manifests = pool("", "", "").replace("budgets: [{nodes: 100%}]", closed);
    staged(
        setup(),
        &(manifests + &one_per_node("web", 3)),
        async |night| {
            night.0.world.scale("Deployment", "default", "web", 1);
            night.minutes(5).await;
            assert_event(&night.0, "DisruptionBlocked", "NodePool");
            let allowed = lines(&night.0, "karpenter_nodepools_allowed_disruptions");
            let empty =
                "karpenter_nodepools_allowed_disruptions{nodepool=\"general\",reason=\"empty\"} 0";
            assert!(allowed.iter().any(|line| line == empty), "{allowed:?}");
            // Nodes that may go but for the budget.
            let eligible = lines(&night.0, "karpenter_voluntary_disruption_eligible_nodes");
            let empty = "karpenter_voluntary_disruption_eligible_nodes{reason=\"empty\"} 2";
            assert!(eligible.iter().any(|line| line == empty), "{eligible:?}");
        },
    );
}

#[test]
fn a_value_of_do_not_disrupt_that_protects_nothing_is_an_event_of_the_pod() {
    let annotated = one_per_node("web", 1).replace(
        "metadata: {labels: {app: web}}\n    spec",
        "metadata: {labels: {app: web}, annotations: {karpenter.sh/do-not-disrupt: tomorrow}}\n    spec",
    );
    assert!(annotated.contains("tomorrow"));
    staged(setup(), &(usual_pool() + &annotated), async |night| {
        assert_event(&night.0, "InvalidDoNotDisruptAnnotation", "Pod");
    });
}

#[test]
fn every_pod_of_sixty_that_wait_is_told_why_with_its_uid() {
    let nowhere = "nodeSelector: {example.org/none: such}";
    let manifests = usual_pool() + &deployment("web", 60, "1", nowhere);
    staged(setup(), &manifests, async |night| {
        night.minutes(10).await;
        let events = night.0.world.server.list(EVENT);
        let pods = night.0.world.pods();
        let of = |uid: &str| {
            events.iter().find(|event| {
                fields::text(event, "/reason") == "FailedScheduling"
                    && fields::text(event, "/involvedObject/uid") == uid
                    && fields::text(event, "/source/component") == "karpenter"
            })
        };
        let reported = pods
            .iter()
            .filter(|pod| of(fields::text(pod, "/metadata/uid")).is_some());
        assert_eq!(reported.count(), 60);
        let counted =
            |event: &&std::sync::Arc<serde_json::Value>| event["count"].as_u64() > Some(1);
        assert!(
            events.iter().any(|event| counted(&event)),
            "Events are counted"
        );
    });
}
