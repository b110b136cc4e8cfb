use std::time::Duration;

use expect_test::expect;
use longshore_cloud::{CloudError, CloudProvider, Launch, Operator, Requirement};
use longshore_simcluster::cloud::{Disturbances, LaunchFaults};
use longshore_simcluster::server::resources;
use longshore_simcluster::world::{World, WorldOptions};

use crate::scene::{apply, pod, story, story_with, wait};

/// A claim for four CPUs of a capacity type, by number.
pub fn launch(number: u32, capacity_type: &str) -> Launch {
    let is = |key: &str, value: &str| Requirement {
        key: key.into(),
        operator: Operator::In,
        values: vec![value.into()],
    };
    Launch {
        name: format!("claim-{number}"),
        uid: format!("uid-{number}"),
        requirements: vec![
            is("karpenter.sh/capacity-type", capacity_type),
            is("kubernetes.io/arch", "amd64"),
            is("kubernetes.io/os", "linux"),
        ],
        requests: [("cpu".to_owned(), "3500m".to_owned())].into(),
        class_kind: "Any".into(),
        class_name: "any".into(),
        ..Launch::default()
    }
}

/// Takes the taint of nodes that have not joined away, as the daemon does.
pub fn register(world: &World) {
    for node in world.server.list(resources::NODE) {
        let key = longshore_simcluster::fields::key_of(resources::NODE, &node);
        let done = world.server.update(
            &key,
            longshore_simcluster::server::Subresource::Object,
            &mut |node| {
                if let Some(taints) = node
                    .pointer_mut("/spec/taints")
                    .and_then(serde_json::Value::as_array_mut)
                {
                    taints.retain(|t| t["key"] != "karpenter.sh/unregistered");
                }
            },
        );
        assert!(done.is_ok());
    }
}

fn faults(faults: LaunchFaults) -> WorldOptions {
    let mut options = WorldOptions::default();
    options.cloud.faults = faults;
    options
}

#[test]
fn an_instance_comes_as_a_node_takes_pods_and_is_paid_for_until_it_ends() {
    story(async |world| {
        let made = world
            .cloud
            .create(&launch(1, "on-demand"))
            .await
            .expect("there is room");
        assert_eq!(made.claim_uid.as_deref(), Some("uid-1"));
        apply(&world, &pod("p", "2", ""));
        wait(&world, 60).await;
        expect![[r#"
            node-1 c-4x-amd64-linux test-zone-a on-demand cpu 0/3.9 karpenter.sh/unregistered:NoExecute
            pending
              p 0/1 nodes are available: 1 node(s) had untolerated taint(s).
            0.1086 USD/h
        "#]]
        .assert_eq(&world.describe());
        register(&world);
        wait(&world, 30).await;
        expect![[r#"
            node-1 c-4x-amd64-linux test-zone-a on-demand cpu 2/3.9
              p
            0.1086 USD/h
        "#]]
        .assert_eq(&world.describe());
        wait(&world, 3600).await;
        world
            .cloud
            .delete(&made.provider_id)
            .await
            .expect("it runs");
        assert!(world.cloud.get(&made.provider_id).await.is_ok());
        wait(&world, 30).await;
        let gone = world.cloud.delete(&made.provider_id).await;
        assert!(matches!(gone, Err(CloudError::NotFound(_))), "{gone:?}");
        assert!(world.cloud.list().await.expect("it answers").is_empty());
        wait(&world, 120).await;
        expect![[r#"
            00:00:01.997 node-1 (c-4x-amd64-linux test-zone-a on-demand, for claim-1) is launched
            00:00:34.658 node-1 joins
            00:00:43.792 node-1 is ready
            01:01:31.997 node-1 (c-4x-amd64-linux test-zone-a on-demand, for claim-1) is ended
            01:02:21.997 node-1 is unreachable
            01:02:31.997 node-1: its machine is gone, the Node is deleted
            01:03:21.997 p is collected: node-1 is gone
            node-1 c-4x-amd64-linux test-zone-a on-demand 00:00:01.997 to 01:01:31.997: 0.111305 USD
            0.111305 USD
            0.0000 USD/h
        "#]]
        .assert_eq(&format!(
            "{}{}{}",
            world.log.text(),
            world.cloud.ledger(),
            world.describe()
        ));
    });
}

#[test]
fn asking_twice_makes_one_instance_even_if_the_first_caller_is_gone() {
    story(async |world| {
        let claim = launch(1, "spot");
        let dropped =
            tokio::time::timeout(Duration::from_millis(1), world.cloud.create(&claim)).await;
        assert!(dropped.is_err());
        let (one, two) = tokio::join!(world.cloud.create(&claim), world.cloud.create(&claim));
        assert_eq!(one, two);
        assert_eq!(world.cloud.ledger().entries.len(), 1);
    });
}

#[test]
fn an_answer_that_is_lost_leaves_an_instance_that_the_next_call_finds() {
    story_with(
        faults(LaunchFaults {
            lost: 1.0,
            ..LaunchFaults::default()
        }),
        async |world| {
            let claim = launch(1, "spot");
            let first = world.cloud.create(&claim).await;
            assert!(matches!(first, Err(CloudError::Other(_))), "{first:?}");
            assert_eq!(world.cloud.list().await.expect("it answers").len(), 1);
            world.cloud.set_faults(LaunchFaults::default());
            let again = world.cloud.create(&claim).await.expect("it is there");
            assert_eq!(
                world.cloud.list().await.expect("it answers"),
                [std::sync::Arc::new(again)]
            );
            assert!(world.cloud.ledger().bought_twice().is_empty());
            assert_eq!(world.cloud.ledger().leaked(|_| false).len(), 1);
        },
    );
}

#[test]
fn launches_fail_and_nodes_stay_away_as_often_as_was_asked_for() {
    let quarter = LaunchFaults {
        fail: 0.25,
        never_register: 0.25,
        never_ready: 0.25,
        slow: 0.25,
        ..LaunchFaults::default()
    };
    story_with(faults(quarter), async |world| {
        for number in 0..100 {
            let _ = world.cloud.create(&launch(number, "spot")).await;
        }
        wait(&world, 600).await;
        let lines = world.log.text();
        let count = |what: &str| lines.lines().filter(|l| l.contains(what)).count();
        let found = [
            count("fails"),
            count("will never register"),
            count("will never be ready"),
            count("is ready"),
        ];
        expect!["[22, 17, 19, 42]"].assert_eq(&format!("{found:?}"));
    });
}

#[test]
fn in_a_storm_the_next_best_offering_is_taken_and_without_any_there_is_no_capacity() {
    story(async |world| {
        world
            .cloud
            .capacity_outage("*/test-zone-a/spot", Duration::from_secs(600));
        let one = world
            .cloud
            .create(&launch(1, "spot"))
            .await
            .expect("other zones have some");
        assert_eq!(one.labels["topology.kubernetes.io/zone"], "test-zone-b");
        world
            .cloud
            .capacity_outage("*/*/spot", Duration::from_secs(600));
        let none = world.cloud.create(&launch(2, "spot")).await;
        assert!(
            matches!(none, Err(CloudError::InsufficientCapacity(_))),
            "{none:?}"
        );
        wait(&world, 600).await;
        assert!(world.cloud.create(&launch(2, "spot")).await.is_ok());
    });
}

#[test]
fn what_there_is_of_an_offering_is_used_up_and_comes_back() {
    let mut options = WorldOptions::default();
    options.cloud.capacity = Some(1);
    story_with(options, async |world| {
        let mut zones = Vec::new();
        let mut ids = Vec::new();
        for number in 1..=4 {
            let made = world
                .cloud
                .create(&launch(number, "spot"))
                .await
                .expect("there is room");
            zones.push(made.labels["topology.kubernetes.io/zone"].clone());
            ids.push(made.provider_id);
        }
        assert_eq!(
            zones,
            ["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"]
        );
        world.cloud.delete(&ids[2]).await.expect("it runs");
        let made = world
            .cloud
            .create(&launch(5, "spot"))
            .await
            .expect("there is room again");
        assert_eq!(made.labels["topology.kubernetes.io/zone"], "test-zone-c");
    });
}

#[test]
fn an_interrupted_instance_goes_two_minutes_after_its_notice_and_its_node_a_minute_later() {
    story(async |world| {
        let made = world
            .cloud
            .create(&launch(1, "spot"))
            .await
            .expect("there is room");
        wait(&world, 60).await;
        register(&world);
        apply(&world, &pod("p", "2", ""));
        wait(&world, 30).await;
        assert!(world.cloud.interrupt(&made.provider_id));
        wait(&world, 119).await;
        assert_eq!(world.ready_pods(), 1);
        wait(&world, 55).await;
        assert_eq!(world.ready_pods(), 0);
        wait(&world, 120).await;
        expect![[r#"
            00:00:01.997 node-1 (c-4x-amd64-linux test-zone-a spot, for claim-1) is launched
            00:00:34.658 node-1 joins
            00:00:43.792 node-1 is ready
            00:01:31.997 node-1 (c-4x-amd64-linux test-zone-a spot, for claim-1) is given notice of its interruption
            00:03:31.997 node-1 (c-4x-amd64-linux test-zone-a spot, for claim-1) is taken back
            00:04:21.997 node-1 is unreachable
            00:04:31.997 node-1: its machine is gone, the Node is deleted
            00:05:21.997 p is collected: node-1 is gone
            0.0000 USD/h
        "#]]
        .assert_eq(&format!("{}{}", world.log.text(), world.describe()));
    });
}

#[test]
fn spot_prices_walk_and_the_ledger_walks_with_them() {
    let mut options = WorldOptions::default();
    options.cloud.disturbances = Disturbances {
        prices_every: Duration::from_secs(600),
        volatility: 0.1,
        capacity_outages: 1.0,
        ..Disturbances::default()
    };
    story_with(options, async |world| {
        let _ = world.cloud.create(&launch(1, "spot")).await;
        let _ = world.cloud.create(&launch(2, "on-demand")).await;
        let mut text = String::new();
        for hour in 0..6 {
            wait(&world, 3600).await;
            let paid: Vec<String> = world
                .cloud
                .ledger()
                .entries
                .iter()
                .map(|e| format!("{:.4}", e.paid))
                .collect();
            text += &format!(
                "{hour}: {:.4} USD/h, paid {}\n",
                world.cloud.cost_per_hour(),
                paid.join(" and ")
            );
        }
        expect![[r#"
            0: 0.1852 USD/h, paid 0.0746 and 0.1086
            1: 0.1922 USD/h, paid 0.1578 and 0.2172
            2: 0.1680 USD/h, paid 0.2293 and 0.3258
            3: 0.1681 USD/h, paid 0.2867 and 0.4344
            4: 0.1536 USD/h, paid 0.3418 and 0.5429
            5: 0.1484 USD/h, paid 0.3825 and 0.6515
            00:00:01.997 node-1 (c-4x-amd64-linux test-zone-a spot, for claim-1) is launched
            00:00:04.443 node-2 (c-4x-amd64-linux test-zone-a on-demand, for claim-2) is launched
            00:00:33.011 node-2 joins
            00:00:34.658 node-1 joins
            00:00:43.468 node-2 is ready
            00:00:43.792 node-1 is ready
            01:17:15.989 storm: 39 on-demand types run short in test-zone-b
            02:37:01.103 storm: 47 on-demand types run short in test-zone-b
            03:38:30.702 storm: 44 spot types run short in test-zone-a
            05:09:30.196 storm: 44 on-demand types run short in test-zone-d
        "#]]
        .assert_eq(&(text + &world.log.text()));
        let (catalogue, _) = world.cloud.catalogue();
        assert!(catalogue.offerings().iter().all(|o| o.price > 0.0));
    });
}
