use std::time::Duration;

use super::*;
use crate::test_cluster::fresh;

const NOW: &str = "2026-11-27T10:00:00Z";

fn at(minutes: i64) -> Timestamp {
    let now: Timestamp = NOW.parse().unwrap();
    let shift = Duration::from_secs(60 * minutes.unsigned_abs());
    if minutes < 0 {
        now - shift
    } else {
        now + shift
    }
}

/// A NodeClaim with an instance that was made, and asked to end, so many minutes from now.
fn claim(name: &str, pool: &str, made: i64, ends: Option<i64>) -> NodeClaim {
    let mut claim = fresh().1;
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    claim.metadata.name = Some(name.to_owned());
    claim.metadata.uid = Some(name.to_owned());
    claim.metadata.labels = Some(BTreeMap::from([
        label("karpenter.sh/nodepool", pool),
        label("topology.kubernetes.io/zone", "us-east-1a"),
        label("node.kubernetes.io/instance-type", "m5.large"),
    ]));
    claim.metadata.creation_timestamp = Some(longshore_api::crd::Time(at(made)));
    claim.metadata.deletion_timestamp = ends.map(|ends| longshore_api::crd::Time(at(ends)));
    let status = claim.status.get_or_insert_default();
    status.provider_id = format!("aws:///{name}");
    claim
}

/// What is said at ten o'clock of these NodeClaims by a process that began five hours before.
fn view(recent: &Recent, claims: &[NodeClaim]) -> View {
    recent.view(claims.iter(), (at(-300), at(-300), at(0)))
}

fn text(view: View) -> String {
    crate::status::as_text(&parts::Status {
        churn: view.churn,
        lost: view.lost,
        cost: view.cost,
        changes: view.changes,
        warnings: view.warnings,
        ..parts::Status::default()
    })
}

/// The lines of the status with one of these names.
fn lines(view: View) -> String {
    let names = ["churn", "lost", "cost", "changed", "warning"];
    let text = text(view);
    let lines = text.lines().filter(|line| {
        let name = line.split(' ').next().unwrap_or_default();
        names.contains(&name)
    });
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn many_nodes_that_live_short_are_churn() {
    let recent = Recent::default();
    let mut there: Vec<NodeClaim> = Vec::new();
    for at_node in 0..10 {
        there.push(claim(&format!("old-{at_node}"), "base", -3000, None));
    }
    for at_node in 0..7 {
        let end = claim(&format!("gone-{at_node}"), "web", -40, Some(-31));
        let reason = if at_node < 5 {
            "underutilized"
        } else {
            "empty"
        };
        recent.because(&end, reason, at(-31));
        recent.gone(&end, at(-29));
    }
    // One goes still, and one has never had an instance.
    there.push(claim("going", "base", -50, Some(-5)));
    let mut short = claim("short", "web", -20, Some(-19));
    short.status = None;
    recent.gone(&short, at(-19));
    expect_test::expect![[r#"
        warning   nodes live short: 8 ended within the hour, 10 are there; half of those that ended lived no longer than 9 min; 7 of them are of NodePool web, 5 ended as underutilized
        churn     8 nodes launched and 8 ended in the last hour; half of those that ended lived no longer than 9 min; ended by NodePool: web 7, base 1; by reason: underutilized 5, empty 2, unknown 1
    "#]]
    .assert_eq(&lines(view(&recent, &there)));
    // Half of the nodes are not many, and a life of an hour is not short.
    there.extend((0..6).map(|node| claim(&format!("more-{node}"), "base", -3000, None)));
    assert!(view(&recent, &there).warnings.is_empty());
}

#[test]
fn nodes_that_lived_long_are_no_churn_and_a_young_process_says_that_it_is_young() {
    let recent = Recent::default();
    for node in 0..7 {
        let end = claim(&format!("gone-{node}"), "web", -600, Some(-3));
        recent.gone(&end, at(-2));
    }
    let view = recent.view([].into_iter(), (at(-12), at(-12), at(0)));
    expect_test::expect![[r#"
        churn     0 nodes launched and 7 ended in the last hour; half of those that ended lived no longer than 9 h; ended by NodePool: web 7; by reason: unknown 7; what was gone before is not known: this process has watched for 12 min
    "#]]
    .assert_eq(&lines(view));
}

#[test]
fn what_is_in_the_cluster_survives_a_restart() {
    let ends = |node: i64| {
        let mut end = claim(&format!("web-{node}"), "web", -20, Some(-8));
        let status = end.status.get_or_insert_default();
        status.conditions.push(longshore_api::crd::Condition {
            type_: DISRUPTION_REASON.to_owned(),
            status: ConditionStatus::True,
            reason: "Underutilized".to_owned(),
            message: String::new(),
            last_transition_time: longshore_api::crd::Time(at(-9)),
            observed_generation: None,
        });
        end
    };
    let there: Vec<NodeClaim> = (0..5).map(ends).collect();
    let view = Recent::default().view(there.iter(), (at(-1), at(-1), at(0)));
    let [warning] = &view.warnings[..] else {
        panic!("{:?}", view.warnings)
    };
    assert!(
        warning.contains("12 min") && warning.contains("5 ended as underutilized"),
        "{warning}"
    );
}

#[test]
fn a_burst_of_interruptions_is_told_by_zone_and_type() {
    let recent = Recent::default();
    let mut there: Vec<NodeClaim> = Vec::new();
    for node in 0..8 {
        there.push(claim(&format!("stays-{node}"), "web", -3000, None));
    }
    for node in 0..4 {
        let mut end = claim(&format!("lost-{node}"), "web", -3000, Some(-4));
        if node == 3 {
            let labels = end.metadata.labels.get_or_insert_default();
            labels.insert("topology.kubernetes.io/zone".into(), "us-east-1b".into());
        }
        recent.because(&end, "spot_interrupted", at(-4));
        there.push(end);
    }
    let burst = view(&recent, &there);
    assert_eq!(burst.lost.as_ref().map(|lost| lost.nodes), Some(4));
    expect_test::expect![[r#"
        warning   interruptions took 4 of 12 nodes within 10 min: 3 in us-east-1a, 4 of type m5.large
        churn     0 nodes launched and 4 ended in the last hour; half of those that ended lived no longer than 2 d; ended by NodePool: web 4; by reason: spot_interrupted 4
        lost      4 nodes to interruptions within 10 min: us-east-1a 3, us-east-1b 1; m5.large 4
    "#]]
    .assert_eq(&lines(burst));
    // What is bought for them, and what ends for another reason, is beside the question.
    there.extend((0..20).map(|node| claim(&format!("new-{node}"), "web", -3, None)));
    there.push(claim("empty", "web", -3000, Some(-4)));
    let [warning] = &view(&recent, &there).warnings[..] else {
        panic!("one warning")
    };
    assert!(warning.contains("took 4 of 13 nodes"), "{warning}");
    // A fifth of the nodes is no burst; and after ten minutes it is over.
    there.extend((0..8).map(|node| claim(&format!("more-{node}"), "web", -3000, None)));
    assert!(view(&recent, &there).warnings.is_empty());
    let later = recent.view(there.iter(), (at(-300), at(-300), at(7)));
    assert_eq!(later.lost, None);
}

#[test]
fn a_new_leader_says_since_when_it_counts_interruptions() {
    let recent = Recent::default();
    let ends = |name: &str, minutes| claim(name, "web", -3000, Some(minutes));
    // It stood by while three nodes went, and has led for two minutes when a fourth is lost.
    for name in ["a", "b", "c"] {
        recent.gone(&ends(name, -5), at(-4));
    }
    let lost = ends("d", -1);
    recent.because(&lost, "spot_interrupted", at(-1));
    let there = [lost];
    let shown = |claims: &[NodeClaim], now| {
        let view = recent.view(claims.iter(), (at(-300), at(-2), at(now)));
        lines(view)
            .lines()
            .find(|line| line.starts_with("lost"))
            .map(str::to_owned)
    };
    assert_eq!(
        shown(&there, 0).as_deref(),
        Some(
            "lost      1 node to interruptions within 10 min: us-east-1a 1; m5.large 1; counted for 2 min, \
             since this process leads: 3 nodes ended before for no known reason"
        )
    );
    assert_eq!(
        shown(&[], 0).as_deref(),
        Some(
            "lost      no node to interruptions; counted for 2 min, since this process leads: 3 nodes ended \
             before for no known reason"
        )
    );
    // Ten minutes later it has seen all that counts.
    assert_eq!(shown(&[], 9), None);
}

fn cost(usd: f64, cores: f64) -> Cost {
    Cost {
        usd,
        cores,
        nodes: 4,
        unpriced: 0,
    }
}

#[test]
fn a_bill_that_rises_is_told_with_what_was_changed() {
    let recent = Recent::default();
    for minute in -90..=0 {
        let usd = if minute < -30 { 8.0 } else { 10.16 };
        recent.sample(at(minute), cost(usd, 200.0));
    }
    // Nothing was changed: an hour is no comparison, for a day has its course.
    assert!(view(&recent, &[]).warnings.is_empty());
    recent.changed(at(-31), "NodePool web", "generation 4, was 3");
    recent.changed(at(-31), "NodePool web", "generation 5, was 4");
    recent.changed(
        at(-30),
        "policy cost",
        "discounts 1.2.0 (sha256:a179) is ready",
    );
    expect_test::expect![[r#"
        warning   a requested core costs 0.0508 USD/h, 27 % more than an hour ago (0.0400); changed since: policy cost: discounts 1.2.0 (sha256:a179) is ready
        cost      10.1600 USD/h for 4 nodes, 0.0508 per requested core; an hour ago 8.0000 (+27 %), 0.0400 per core (+27 %); a day ago not known: watched since 2026-11-27T05:00:00Z
        changed   2026-11-27T09:29:00Z NodePool web: generation 5, was 4 (2 changes)
        changed   2026-11-27T09:30:00Z policy cost: discounts 1.2.0 (sha256:a179) is ready
    "#]]
    .assert_eq(&lines(view(&recent, &[])));
}

#[test]
fn a_day_is_remembered_by_the_hour() {
    let recent = Recent::default();
    for minute in -1500..=0 {
        let usd = if minute < -120 { 4.0 } else { 6.0 };
        recent.sample(at(minute), cost(usd, 100.0));
    }
    let inner = lock(&recent.0);
    assert_eq!(
        inner
            .costs
            .status(String::new())
            .and_then(|cost| cost.day_ago)
            .map(|before| before.usd_per_hour),
        Some(4.0)
    );
    let warning = inner.costs.warning(None).unwrap();
    assert!(warning.contains("50 % more than a day ago"), "{warning}");
    drop(inner);
    // This process does not know a cost yet.
    let young = Recent::default();
    young.sample(at(0), cost(1.0, 0.0));
    let cost = view(&young, &[]).cost.unwrap();
    assert_eq!((cost.hour_ago, cost.usd_per_core), (None, None));
}

#[test]
fn little_is_remembered() {
    let recent = Recent::default();
    for node in 0..3 * MAX_ENDS {
        let end = claim(&format!("web-{node}"), "web", -20, Some(-8));
        recent.because(&end, "empty", at(-8));
        recent.gone(&end, at(-8));
        let subject = format!("NodePool {node}");
        recent.changed(at(-8), &subject, "created");
    }
    let seen = view(&recent, &[]);
    let churn = seen.churn.unwrap();
    assert_eq!((churn.ended, churn.ended_more), (MAX_ENDS, true));
    assert_eq!(seen.lost, None);
    assert_eq!(seen.changes.len(), MAX_CHANGES);
    assert!(lock(&recent.0).reasons.is_empty());
    // An hour, and a day, later it is forgotten.
    recent.sample(at(60), Cost::default());
    assert_eq!(lock(&recent.0).gone.len(), 0);
    recent.sample(at(24 * 60), Cost::default());
    assert!(lock(&recent.0).changes.is_empty());
}
