use longshore_simcluster::fields;
use longshore_simcluster::world::World;
use serde_json::json;

use crate::scene::{apply, deployment, node, story, wait, workload};

/// Fields of an object's status, as text.
fn status(world: &World, kind: &str, name: &str, of: &[&str]) -> String {
    let Some(object) = world.object(kind, "default", name) else {
        return "gone".to_owned();
    };
    of.iter()
        .map(|f| format!("{f} {} ", object["status"].get(*f).unwrap_or(&json!(0))))
        .collect::<String>()
        .trim_end()
        .to_owned()
}

#[test]
fn a_deployment_rolls_without_leaving_its_limits() {
    story(async |world| {
        apply(
            &world,
            &(node("n1", "64", "a") + &deployment("web", 8, "1")),
        );
        wait(&world, 60).await;
        let fields = [
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
        ];
        let all = "replicas 8 updatedReplicas 8 readyReplicas 8 availableReplicas 8";
        assert_eq!(status(&world, "Deployment", "web", &fields), all);
        apply(&world, &deployment("web", 8, "2"));
        let mut steps = 0;
        for _ in 0..600 {
            world.run_for(std::time::Duration::from_millis(100)).await;
            // A quarter more, a quarter fewer.
            let live = world.pods().iter().filter(|p| !fields::deleting(p)).count();
            assert!(
                live <= 10 && world.ready_pods() >= 6,
                "{} pods, {} ready",
                live,
                world.ready_pods()
            );
            steps += usize::from(live != 8);
        }
        assert!(steps > 10, "{steps}");
        assert_eq!(status(&world, "Deployment", "web", &fields), all);
        let sizes: Vec<_> = world
            .server
            .list(longshore_simcluster::server::resources::REPLICA_SET);
        let mut sizes: Vec<i64> = sizes
            .iter()
            .filter_map(|s| fields::number(s, "/spec/replicas"))
            .collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [0, 8]);
        assert!(
            world
                .pods()
                .iter()
                .all(|p| fields::text(p, "/spec/containers/0/resources/requests/cpu") == "2")
        );
    });
}

#[test]
fn a_deployment_that_is_recreated_has_no_pods_of_both_templates() {
    story(async |world| {
        let web = |cpu| {
            workload(
                "Deployment",
                "web",
                cpu,
                ", replicas: 3, strategy: {type: Recreate}",
                "",
            )
        };
        apply(&world, &(node("n1", "64", "a") + &web("1")));
        wait(&world, 60).await;
        apply(&world, &web("2"));
        for _ in 0..300 {
            world.run_for(std::time::Duration::from_millis(100)).await;
            let pods = world.pods();
            let cpu = |n: &str| {
                pods.iter()
                    .any(|p| fields::text(p, "/spec/containers/0/resources/requests/cpu") == n)
            };
            assert!(!(cpu("1") && cpu("2")));
        }
        assert_eq!(world.ready_pods(), 3);
    });
}

#[test]
fn a_smaller_deployment_gives_up_pods_that_wait_before_those_that_run() {
    story(async |world| {
        apply(&world, &(node("n1", "2", "a") + &deployment("web", 5, "1")));
        wait(&world, 60).await;
        assert_eq!((world.ready_pods(), world.pods().len()), (2, 5));
        world.scale("Deployment", "default", "web", 2);
        wait(&world, 10).await;
        assert_eq!((world.ready_pods(), world.pods().len()), (2, 2));
    });
}

#[test]
fn a_daemonset_is_on_every_node_that_lets_it_in() {
    story(async |world| {
        let reserved = node("n3", "4", "a") + "spec: {taints: [{key: own, effect: NoSchedule}]}\n";
        let agent = workload("DaemonSet", "agent", "100m", "", "");
        apply(
            &world,
            &(node("n1", "4", "a") + &node("n2", "4", "a") + &reserved + &agent),
        );
        wait(&world, 60).await;
        let fields = ["desiredNumberScheduled", "numberReady"];
        assert_eq!(
            status(&world, "DaemonSet", "agent", &fields),
            "desiredNumberScheduled 2 numberReady 2"
        );
        apply(&world, &node("n4", "4", "a"));
        // It tolerates being unschedulable, as all daemons do.
        apply(
            &world,
            &(node("n1", "4", "a") + "spec: {unschedulable: true}\n"),
        );
        world.delete("Node", "", "n2");
        wait(&world, 120).await;
        assert_eq!(
            status(&world, "DaemonSet", "agent", &fields),
            "desiredNumberScheduled 2 numberReady 2"
        );
        let mut on: Vec<_> = world
            .pods()
            .iter()
            .map(|p| fields::text(p, "/spec/nodeName").to_owned())
            .collect();
        on.sort();
        assert_eq!(on, ["n1", "n4"]);
    });
}

#[test]
fn a_statefulset_grows_in_order_and_shrinks_from_the_end() {
    story(async |world| {
        let db = |n: u32| {
            workload(
                "StatefulSet",
                "db",
                "1",
                &format!(", replicas: {n}, serviceName: db"),
                "",
            )
        };
        apply(&world, &(node("n1", "8", "a") + &db(3)));
        let mut seen = Vec::new();
        for _ in 0..600 {
            world.run_for(std::time::Duration::from_millis(100)).await;
            let names: Vec<_> = world
                .pods()
                .iter()
                .map(|p| fields::name(p).to_owned())
                .collect();
            if seen.last() != Some(&names) {
                seen.push(names);
            }
        }
        let names = |n: usize| (0..n).map(|i| format!("db-{i}")).collect::<Vec<_>>();
        assert_eq!(seen[seen.len() - 3..], [names(1), names(2), names(3)]);
        world.scale("StatefulSet", "default", "db", 1);
        wait(&world, 1).await;
        let leaving = |name| {
            world
                .object("Pod", "default", name)
                .is_none_or(|p| fields::deleting(&p))
        };
        assert!(leaving("db-2") && !leaving("db-1"));
        wait(&world, 20).await;
        assert_eq!(world.pods().len(), 1);
        world.delete("Pod", "default", "db-0");
        wait(&world, 20).await;
        assert_eq!(world.ready_pods(), 1);
    });
}

#[test]
fn a_job_runs_its_pods_to_the_end_and_goes_with_them_when_it_is_told_to() {
    story(async |world| {
        let job = workload(
            "Job",
            "sum",
            "1",
            ", completions: 4, parallelism: 2, ttlSecondsAfterFinished: 600",
            "",
        );
        apply(&world, &(node("n1", "8", "a") + &job));
        wait(&world, 30).await;
        assert_eq!(
            status(&world, "Job", "sum", &["active", "succeeded"]),
            "active 2 succeeded 0"
        );
        wait(&world, 300).await;
        assert_eq!(
            status(&world, "Job", "sum", &["active", "succeeded"]),
            "active 0 succeeded 4"
        );
        let job = world
            .object("Job", "default", "sum")
            .expect("it is kept for a while");
        assert_eq!(fields::condition(&job, "Complete"), "True");
        wait(&world, 600).await;
        assert_eq!(
            (
                status(&world, "Job", "sum", &[]).as_str(),
                world.pods().len()
            ),
            ("gone", 0)
        );
    });
}

#[test]
fn a_job_whose_pods_fail_gives_up() {
    story(async |world| {
        let job = workload("Job", "bad", "1", ", backoffLimit: 2", "").replace(
            "metadata: {labels",
            "metadata: {annotations: {sim.longshore.dev/fails: 'true'}, labels",
        );
        apply(&world, &(node("n1", "8", "a") + &job));
        wait(&world, 600).await;
        assert_eq!(
            status(&world, "Job", "bad", &["active", "failed"]),
            "active 0 failed 3"
        );
        let job = world.object("Job", "default", "bad").expect("it is kept");
        assert_eq!(fields::condition(&job, "Failed"), "True");
    });
}
