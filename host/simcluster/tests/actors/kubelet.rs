use expect_test::expect;
use longshore_simcluster::fields;

use crate::scene::{apply, node, pod, story, wait, workload};

const SLOW: &str = "
apiVersion: v1
kind: Pod
metadata: {name: slow, annotations: {sim.longshore.dev/start-after: 90s}}
spec: {containers: [{name: c, image: 'x:1'}]}
";

#[test]
fn a_pod_runs_some_seconds_after_it_is_bound_and_a_slow_one_when_it_says() {
    story(async |world| {
        apply(
            &world,
            &(node("n1", "4", "a") + &pod("quick", "1", "") + "---" + SLOW),
        );
        wait(&world, 2).await;
        expect![[r#"
            n1 a cpu 0/4 not ready
            pending
              quick 0/1 nodes are available: 1 node(s) had untolerated taint(s).
              slow 0/1 nodes are available: 1 node(s) had untolerated taint(s).
            0.0000 USD/h
        "#]]
        .assert_eq(&world.describe());
        wait(&world, 30).await;
        expect![[r#"
            n1 a cpu 1/4
              quick
              slow starting
            0.0000 USD/h
        "#]]
        .assert_eq(&world.describe());
        wait(&world, 90).await;
        assert_eq!(world.ready_pods(), 2);
        let quick = world.object("Pod", "default", "quick").expect("it runs");
        assert_eq!(fields::text(&quick, "/status/phase"), "Running");
        assert_eq!(fields::condition(&quick, "PodScheduled"), "True");
    });
}

#[test]
fn a_pod_leaves_when_it_has_stopped_and_at_the_end_of_its_grace_period_if_it_does_not_listen() {
    story(async |world| {
        let deaf = pod("deaf", "1", ", terminationGracePeriodSeconds: 40").replace(
            "metadata: {",
            "metadata: {annotations: {sim.longshore.dev/ignores-sigterm: 'true'}, ",
        );
        apply(
            &world,
            &(node("n1", "4", "a") + &pod("polite", "1", "") + &deaf),
        );
        wait(&world, 60).await;
        assert_eq!(world.ready_pods(), 2);
        world.delete("Pod", "default", "polite");
        world.delete("Pod", "default", "deaf");
        wait(&world, 1).await;
        expect![[r#"
            n1 a cpu 2/4
              deaf leaving
              polite leaving
            0.0000 USD/h
        "#]]
        .assert_eq(&world.describe());
        wait(&world, 4).await;
        assert!(world.object("Pod", "default", "polite").is_none());
        wait(&world, 34).await;
        assert!(world.object("Pod", "default", "deaf").is_some());
        wait(&world, 3).await;
        assert!(world.object("Pod", "default", "deaf").is_none());
    });
}

#[test]
fn a_node_that_never_gets_ready_gets_no_pods() {
    story(async |world| {
        let lame = node("n1", "4", "a").replace(
            "metadata: {",
            "metadata: {annotations: {sim.longshore.dev/ready-after: never}, ",
        );
        // A daemon tolerates that and is bound; it does not run.
        apply(&world, &(lame + &pod("p", "1", "")));
        apply(
            &world,
            &workload(
                "DaemonSet",
                "agent",
                "1",
                "",
                ", tolerations: [{operator: Exists}]",
            ),
        );
        wait(&world, 3600).await;
        let text = world.describe();
        assert!(text.contains("n1 a cpu 1/4 not ready\n  agent-"), "{text}");
        assert!(
            text.contains(
                " starting\npending\n  p 0/1 nodes are available: 1 node(s) had untolerated"
            ),
            "{text}"
        );
    });
}
