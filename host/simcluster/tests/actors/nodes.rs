use longshore_simcluster::fields;
use longshore_simcluster::server::{Subresource, resources};

use crate::scene::{apply, deployment, node, pod, story, wait};

#[test]
fn pods_leave_a_node_with_a_taint_that_they_do_not_tolerate_when_their_time_is_up() {
    story(async |world| {
        let patient = pod(
            "patient",
            "1",
            ", tolerations: [{key: k, operator: Exists, tolerationSeconds: 100}]",
        );
        let content = pod(
            "content",
            "1",
            ", tolerations: [{key: k, operator: Exists}]",
        );
        apply(
            &world,
            &(node("n1", "8", "a") + &pod("touchy", "1", "") + &patient + &content),
        );
        wait(&world, 60).await;
        assert_eq!(world.ready_pods(), 3);
        apply(
            &world,
            &(node("n1", "8", "a") + "spec: {taints: [{key: k, effect: NoExecute}]}\n"),
        );
        let names = || {
            world
                .pods()
                .iter()
                .map(|p| fields::name(p).to_owned())
                .collect::<Vec<_>>()
        };
        wait(&world, 10).await;
        assert_eq!(names(), ["content", "patient"]);
        wait(&world, 100).await;
        assert_eq!(names(), ["content"]);
    });
}

#[test]
fn pods_of_a_node_that_was_deleted_are_collected_and_made_again() {
    story(async |world| {
        apply(&world, &(node("n1", "8", "a") + &deployment("web", 2, "1")));
        wait(&world, 60).await;
        world.delete("Node", "", "n1");
        apply(&world, &node("n2", "8", "a"));
        wait(&world, 45).await;
        assert!(
            world
                .pods()
                .iter()
                .all(|p| fields::text(p, "/spec/nodeName") == "n1")
        );
        wait(&world, 30).await;
        assert!(
            world
                .pods()
                .iter()
                .all(|p| fields::text(p, "/spec/nodeName") == "n2")
        );
        assert_eq!(world.ready_pods(), 2);
    });
}

#[test]
fn a_node_that_says_that_it_is_not_ready_is_tainted_and_left_after_five_minutes() {
    story(async |world| {
        apply(&world, &(node("n1", "8", "a") + &deployment("web", 1, "1")));
        wait(&world, 60).await;
        let key = fields::key(resources::NODE, "", "n1");
        let now = world.clock.now();
        let sick = &mut |n: &mut serde_json::Value| {
            fields::set_condition(n, "Ready", "False", "KubeletNotReady", "sick", now);
        };
        world
            .server
            .update(&key, Subresource::Status, sick)
            .expect("it is there");
        wait(&world, 290).await;
        assert!(world.pods().iter().all(|p| !fields::deleting(p)));
        wait(&world, 30).await;
        let lines = world.log.text();
        assert!(lines.contains("is evicted by a taint of n1"), "{lines}");
    });
}
