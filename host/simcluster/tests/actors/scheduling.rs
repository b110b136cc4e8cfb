use expect_test::expect;
use longshore_simcluster::fields;
use longshore_simcluster::server::{Subresource, resources};

use crate::scene::{apply, deployment, node, pod, story, wait, workload};

#[test]
fn the_more_important_pod_goes_first_then_the_older_one() {
    story(async |world| {
        let class = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}\n";
        let high = pod("high", "2", ", priorityClassName: high");
        apply(&world, &(class.to_owned() + &pod("old", "2", "")));
        wait(&world, 5).await;
        apply(
            &world,
            &(pod("young", "2", "") + &high + &node("n1", "4", "a")),
        );
        wait(&world, 60).await;
        expect![[r#"
            n1 a cpu 4/4
              high
              old
            pending
              young 0/1 nodes are available: 1 Insufficient cpu.
            0.0000 USD/h
        "#]]
        .assert_eq(&world.describe());
    });
}

#[test]
fn a_pod_that_found_no_node_is_tried_again_when_room_comes() {
    story(async |world| {
        apply(
            &world,
            &(node("n1", "1", "a") + &pod("first", "1", "") + &pod("second", "1", "")),
        );
        wait(&world, 60).await;
        assert_eq!(world.ready_pods(), 1);
        world.delete("Pod", "default", "first");
        wait(&world, 20).await;
        expect![[r#"
            n1 a cpu 1/1
              second
            0.0000 USD/h
        "#]]
        .assert_eq(&world.describe());
    });
}

#[test]
fn what_is_nominated_counts_as_used_and_is_tried_first() {
    story(async |world| {
        apply(&world, &(node("n1", "2", "a") + &node("n2", "2", "a")));
        wait(&world, 30).await;
        // Waits for its gate, nominated for n2 meanwhile.
        apply(&world, &pod("late", "2", ", schedulingGates: [{name: g}]"));
        let late = fields::key(resources::POD, "default", "late");
        let nominate =
            &mut |p: &mut serde_json::Value| p["status"]["nominatedNodeName"] = "n2".into();
        world
            .server
            .update(&late, Subresource::Status, nominate)
            .expect("it is there");
        let open =
            &mut |p: &mut serde_json::Value| p["spec"]["schedulingGates"] = serde_json::json!([]);
        world
            .server
            .update(&late, Subresource::Object, open)
            .expect("it is there");
        apply(&world, &pod("early", "1", ""));
        wait(&world, 30).await;
        expect![[r#"
            n1 a cpu 1/2
              early
            n2 a cpu 2/2
              late
            0.0000 USD/h
        "#]]
        .assert_eq(&world.describe());
    });
}

#[test]
fn spread_affinity_ports_and_taints_are_kept() {
    story(async |world| {
        let nodes = node("n1", "8", "a") + &node("n2", "8", "b") + &node("n3", "8", "b");
        let tainted = node("n4", "8", "c") + "spec: {taints: [{key: gpu, effect: NoSchedule}]}\n";
        let spread = ", topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, \
            whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Honor, labelSelector: {matchLabels: {app: even}}}]";
        let even = workload("Deployment", "even", "100m", ", replicas: 4", spread);
        let apart = ", affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
            [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: lone}}}]}}";
        let lone = workload("Deployment", "lone", "100m", ", replicas: 4", apart);
        let near = ", affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
            [{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: anchor}}}]}}";
        let anchor = pod(
            "anchor",
            "100m",
            ", nodeSelector: {topology.kubernetes.io/zone: b}",
        );
        let follower = pod("follower", "100m", near);
        let port = pod(
            "port1",
            "100m",
            ", hostNetwork: true, nodeSelector: {kubernetes.io/hostname: n1}",
        )
        .replace("name: c,", "name: c, ports: [{containerPort: 80}],");
        let taken = port.replace("port1", "port2");
        apply(&world, &(nodes + &tainted));
        wait(&world, 30).await;
        apply(
            &world,
            &(even + &lone + &follower + &anchor + &port + &taken),
        );
        wait(&world, 60).await;
        // Names of pods that controllers made end in letters of chance.
        let cut = |line: &str| match line.trim_start().split_once('-') {
            Some((base @ ("even" | "lone"), rest)) => format!(
                "  {base} {}",
                rest.split_once(' ').map_or("", |(_, why)| why)
            )
            .trim_end()
            .to_owned(),
            _ => line.to_owned(),
        };
        let text: Vec<String> = world.describe().lines().map(cut).collect();
        expect![[r#"
            n1 a cpu 0.4/8
              even
              even
              lone
              port1
            n2 b cpu 0.3/8
              even
              follower
              lone
            n3 b cpu 0.3/8
              anchor
              even
              lone
            n4 c cpu 0/8 gpu:NoSchedule
            pending
              lone 0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 node(s) didn't match pod anti-affinity rules.
              port2 0/4 nodes are available: 1 node(s) didn't have free ports for the requested pod ports, 1 node(s) had untolerated taint(s), 2 node(s) didn't match Pod's node affinity/selector.
            0.0000 USD/h"#]].assert_eq(&text.join("\n"));
    });
}

#[test]
fn pods_bound_to_a_cordoned_node_stay_and_new_ones_go_elsewhere() {
    story(async |world| {
        apply(&world, &(node("n1", "8", "a") + &deployment("web", 2, "1")));
        wait(&world, 60).await;
        apply(
            &world,
            &(node("n1", "8", "a") + "spec: {unschedulable: true}\n" + &node("n2", "8", "a")),
        );
        world.scale("Deployment", "default", "web", 4);
        wait(&world, 60).await;
        let on = |node: &str| {
            world
                .pods()
                .iter()
                .filter(|p| fields::text(p, "/spec/nodeName") == node)
                .count()
        };
        assert_eq!((on("n1"), on("n2")), (2, 2));
        let n1 = world.object("Node", "", "n1").expect("it is there");
        assert_eq!(
            fields::text(&n1, "/spec/taints/0/key"),
            "node.kubernetes.io/unschedulable"
        );
    });
}
