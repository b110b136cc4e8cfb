//! Sizes, prices, NodePools.

use std::collections::BTreeMap;
use std::sync::Arc;

use expect_test::expect;
use longshore_core::check::check;
use longshore_core::kube_scheduler::{Simulator, affinity_leaders, pods_without_nomination};
use longshore_core::model::{MinValuesPolicy, Settings};
use longshore_core::plan::{Effort, Plan, PodIx};
use longshore_core::planner::{self, PlanOptions, rank_by_simulation};
use longshore_core::policy::ByPrice;
use longshore_core::snapshot::Snapshot;
use rustc_hash::FxHashSet;
use serde_json::{Value, json};

use super::{any, plan, plan_with, pod, pods, pool, world};

#[test]
fn pods_share_the_cheapest_node_that_takes_them() {
    let mut objects = pods(3, "web", "1", "2Gi", &json!({}));
    objects.push(any());
    expect![[r#"
        default: x4.arm64 spot b 0.0706 (4 types): web1 web2 web3
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn daemons_take_their_share_of_every_node() {
    let mut objects = pods(1, "web", "800m", "1Gi", &json!({}));
    let template = json!({"metadata": {"labels": {"d": "log"}}, "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]}});
    objects.push(json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "log", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"d": "log"}}, "template": template},
    }));
    objects.push(any());
    expect![[r#"
        default: x2.arm64 spot b 0.0353 (6 types): web1
    "#]]
    .assert_eq(&plan(&objects));
}

/// A pod without a CPU request beside a DaemonSet that asks for this many CPUs on every node.
fn beside_a_daemon_of(cpu: &str) -> Vec<Value> {
    let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    let template =
        json!({"metadata": {"labels": {"d": "net"}}, "spec": {"containers": [container]}});
    let idle =
        json!({"containers": [{"name": "main", "resources": {"requests": {"memory": "64Mi"}}}]});
    vec![
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "net", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"d": "net"}}, "template": template},
        }),
        pod("idle", "idle", "0", "0", &idle),
        any(),
    ]
}

#[test]
fn no_node_is_bought_that_its_daemons_cannot_start_on() {
    expect![[r#"
        default: x4.arm64 spot b 0.0706 (4 types): idle
    "#]]
    .assert_eq(&plan(&beside_a_daemon_of("3")));
}

#[test]
fn a_daemon_that_fits_no_type_leaves_the_pod_over() {
    expect![[r#"
        left idle: default types 8: labels 0 resources [8, 0, 0, 0, 0] offerings 0
    "#]]
    .assert_eq(&plan(&beside_a_daemon_of("30")));
}

#[test]
fn a_pod_that_no_type_takes_is_told_why() {
    let objects = [
        any(),
        pod("big", "big", "9", "1Gi", &json!({})),
        pod("wide", "wide", "1", "64Gi", &json!({})),
    ];
    expect![[r#"
        left big: default types 8: labels 0 resources [8, 0, 0, 0, 0] offerings 0
        left wide: default types 8: labels 0 resources [2, 6, 0, 0, 0] offerings 0
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn the_heavier_pool_comes_first_and_the_lighter_takes_what_it_refuses() {
    let arm = json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]);
    let mut objects = pods(2, "any", "500m", "1Gi", &json!({}));
    objects.push(pod(
        "intel",
        "intel",
        "500m",
        "1Gi",
        &json!({"nodeSelector": {"kubernetes.io/arch": "amd64"}}),
    ));
    objects.push(pool("arm", arm, &json!({"weight": 10})));
    objects.push(any());
    expect![[r#"
        arm: x2.arm64 spot b 0.0353 (3 types): any1 any2
        default: x1.amd64 spot b 0.0196 (4 types): intel
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn a_limit_stops_buying_and_says_so() {
    let mut objects = pods(4, "web", "3500m", "1Gi", &json!({}));
    objects.push(pool("small", json!([]), &json!({"limits": {"cpu": "16"}})));
    expect![[r#"
        small: x8.arm64 spot b 0.1411 (2 types): web1 web2
        small: x8.arm64 spot b 0.1411 (2 types): web3 web4
    "#]]
    .assert_eq(&plan(&objects));
}

#[test]
fn min_values_are_kept_or_lowered() {
    let types =
        json!([{"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 9}]);
    let objects = [
        pool("nine", types, &json!({})),
        pod("web", "web", "1", "1Gi", &json!({})),
    ];
    expect![[r#"
        left web: nine minValues node.kubernetes.io/instance-type
    "#]]
    .assert_eq(&plan(&objects));
    let relaxed = Settings {
        min_values: MinValuesPolicy::BestEffort,
        ..Settings::default()
    };
    expect![[r#"
        nine: x2.arm64 spot b 0.0353 (6 types, minValues relaxed): web
    "#]]
    .assert_eq(&plan_with(&objects, relaxed));
}

#[test]
fn host_ports_keep_pods_apart() {
    let ports = json!({"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}], "resources": {"requests": {"cpu": "100m"}}}]});
    let mut objects = pods(2, "web", "100m", "128Mi", &ports);
    objects.push(any());
    expect![[r#"
        default: x1.arm64 spot b 0.0176 (8 types): web1
        default: x1.arm64 spot b 0.0176 (8 types): web2
    "#]]
    .assert_eq(&plan(&objects));
}

/// Two small pods and a wide one that is behind them in the queue: on two nodes of two cores only
/// one assignment works, and kube-scheduler spreads the small ones first come, first served; a node
/// of four cores at the same price takes them in any order.
#[test]
fn of_plans_that_cost_nearly_the_same_the_sturdier_one_is_wanted() {
    let objects = |most: &str| {
        let cpu =
            json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [most]});
        let mut objects = pods(2, "small", "900m", "1Gi", &json!({"priority": 10}));
        objects.extend([
            pod("wide", "wide", "1800m", "1Gi", &json!({})),
            pool("default", json!([cpu]), &json!({})),
        ]);
        objects
    };
    let settings = Settings {
        node_cost: 0.0,
        ..Settings::default()
    };
    let of = |most: &str| {
        let snapshot = Snapshot::new(Arc::new(world(&objects(most), settings.clone())));
        let plan = planner::plan(&snapshot, &ByPrice, PlanOptions::default()).unwrap();
        (snapshot, plan)
    };
    let ((snapshot, fragile), (_, sturdy)) = (of("x2.arm64"), of("x4.arm64"));
    assert!(
        fragile.claims.len() == 2
            && sturdy.claims.len() == 1
            && fragile.effective_cost == sturdy.effective_cost
    );
    let simulator = Simulator::new(&snapshot);
    let first = |fragile: &Plan| {
        rank_by_simulation(&simulator, vec![fragile.clone(), sturdy.clone()]).0[0]
            .claims
            .len()
    };
    assert_eq!(first(&fragile), 1, "the price is the same");
    let cheaper = Plan {
        effective_cost: fragile.effective_cost * 0.99,
        ..fragile
    };
    assert_eq!(first(&cheaper), 2, "a percent is worth more");
}

/// Services that spread over three zones, two of them with so many times eight and thirteen pods,
/// and pods that go anywhere.
fn crowded(plain: usize, times: usize) -> Snapshot {
    crowded_beside(pods(plain, "plain", "150m", "300Mi", &json!({})), times)
}

fn crowded_beside(mut objects: Vec<Value>, times: usize) -> Snapshot {
    objects.push(any());
    let services = [
        (8 * times, "200m", "256Mi"),
        (3, "700m", "1280Mi"),
        (3, "400m", "2304Mi"),
        (13 * times, "700m", "2048Mi"),
    ];
    for (at, (count, cpu, memory)) in services.into_iter().enumerate() {
        objects.extend(spreading(count, &format!("service{at}-"), cpu, memory));
    }
    let settings = Settings {
        node_cost: 0.005,
        ..Settings::default()
    };
    Snapshot::new(Arc::new(world(&objects, settings)))
}

/// Which zones get the odd pods of a service that must spread is kube-scheduler's choice: a plan
/// without a spare millicore has room for them in the wrong ones.
#[test]
fn a_plan_has_room_for_what_kube_scheduler_does_differently() {
    let snapshot = crowded(30, 1);
    let simulator = Simulator::new(&snapshot);
    // Nodes come up together at odd seeds; ten courses, of which the planner has tried four.
    let left = |plan: &Plan| {
        (1..20)
            .step_by(2)
            .map(|seed| simulator.simulate_nominated(plan, seed).unplaced.len())
            .sum::<usize>()
    };
    let plan =
        |effort| planner::plan(&snapshot, &ByPrice, PlanOptions { effort, seed: 1 }).unwrap();
    let (tight, roomy) = (plan(Effort::Quick), plan(Effort::Normal));
    assert_eq!((left(&tight), left(&roomy)), (14, 0));
    assert!(
        roomy.cost <= 1.03 * tight.cost,
        "{} for {}",
        roomy.cost,
        tight.cost
    );
}

/// Every service is a pod over what divides by three, in whichever zone kube-scheduler likes, and
/// nodes of a core have nothing left for it there. A few per cent more than the cheapest plan is
/// cheaper in the end than what comes later.
#[test]
fn services_alone_on_small_nodes_get_room_for_their_odd_pods() {
    let services = |count: usize, types: &[&str]| {
        let small =
            json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types});
        let mut objects = vec![pool("default", json!([small]), &json!({}))];
        for at in 0..20 {
            let (cpu, memory) = (
                ["100m", "250m", "500m"][at % 3],
                ["128Mi", "512Mi", "1Gi", "256Mi"][at % 4],
            );
            objects.extend(spreading(
                count + at % 2,
                &format!("service{at}-"),
                cpu,
                memory,
            ));
        }
        let settings = Settings {
            node_cost: 0.005,
            ..Settings::default()
        };
        let snapshot = Snapshot::new(Arc::new(world(&objects, settings)));
        let simulator = Simulator::new(&snapshot);
        let of = |effort| {
            let plan = planner::plan(&snapshot, &ByPrice, PlanOptions { effort, seed: 1 }).unwrap();
            let left = (1..20)
                .step_by(2)
                .map(|seed| simulator.simulate_nominated(&plan, seed).unplaced.len())
                .sum::<usize>();
            format!(
                "{} nodes, {:.3} USD/h, {left} left over in ten courses",
                plan.claims.len(),
                plan.effective_cost
            )
        };
        format!("{}; {}\n", of(Effort::Quick), of(Effort::Normal))
    };
    let steps = services(19, &["x1.arm64", "x4.arm64"]);
    let doubled = services(31, &["x1.amd64", "x2.arm64", "x2.amd64", "x4.arm64"]);
    // Where no larger type is allowed they have to come later.
    let none = services(19, &["x1.arm64"]);
    expect![[r#"
        34 nodes, 2.185 USD/h, 56 left over in ten courses; 35 nodes, 2.317 USD/h, 0 left over in ten courses
        56 nodes, 3.559 USD/h, 87 left over in ten courses; 50 nodes, 3.634 USD/h, 0 left over in ten courses
        126 nodes, 2.896 USD/h, 6 left over in ten courses; 126 nodes, 2.896 USD/h, 6 left over in ten courses
    "#]]
    .assert_eq(&(steps + &doubled + &none));
}

/// How many pods of these services come to each node, by zone.
fn by_zone(snapshot: &Snapshot, plan: &Plan, services: &[&str]) -> BTreeMap<String, Vec<usize>> {
    let world = &snapshot.world;
    let mut zones: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for claim in &plan.claims {
        let zone = world
            .catalogue
            .offering(claim.offering)
            .zone
            .map(|zone| world.names.text(zone).to_owned());
        let names = claim
            .pods
            .iter()
            .map(|pod| &world.pods[pod.0 as usize].name);
        let pods = names
            .filter(|name| services.iter().any(|service| name.starts_with(service)))
            .count();
        if pods > 0 {
            zones.entry(zone.unwrap()).or_default().push(pods);
        }
    }
    zones
}

/// Pods of a spread service on one node are nominated one at a time, and pods that are tried
/// earlier take their room. On one node that makes no difference.
#[test]
fn what_crowds_a_zone_comes_to_one_node_of_it_with_room_for_the_odd_pod() {
    let snapshot = crowded(150, 1);
    let world = &snapshot.world;
    let plan =
        |effort| planner::plan(&snapshot, &ByPrice, PlanOptions { effort, seed: 1 }).unwrap();
    let (tight, tied) = (plan(Effort::Quick), plan(Effort::Normal));
    let crowds = ["service0", "service3"];
    let nodes = |plan| {
        by_zone(&snapshot, plan, &crowds)
            .into_values()
            .map(|nodes| nodes.len())
            .collect::<Vec<_>>()
    };
    assert!(
        nodes(&tight).iter().any(|nodes| *nodes > 1),
        "the plan ignores how kube-scheduler places pods"
    );
    assert_eq!(nodes(&tied), [1, 1, 1]);
    let pod = world
        .pods
        .iter()
        .find(|pod| pod.name.starts_with("service3-"))
        .unwrap();
    let in_zone = by_zone(&snapshot, &tied, &["service3"]);
    let most = in_zone.values().map(|nodes| nodes[0]).max().unwrap();
    for claim in &tied.claims {
        let names = claim
            .pods
            .iter()
            .map(|pod| &world.pods[pod.0 as usize].name);
        let here = names.filter(|name| name.starts_with("service3-")).count();
        let mut wanted = claim.requests.clone();
        (here..most)
            .filter(|_| here > 0)
            .for_each(|_| wanted.add(&world.shapes.get(pod.shape).requests));
        assert!(
            claim
                .types
                .iter()
                .all(|t| wanted.fits(&world.catalogue.instance_type(*t).allocatable)),
            "{here}"
        );
    }
    // The other pods of a service that is alone in its zone are nominated; pods that would have to
    // wait are not.
    let mut free: Vec<&str> = pods_not_nominated(&snapshot, &tied)
        .iter()
        .map(|pod| &*world.pods[pod.0 as usize].name)
        .collect();
    free.sort_unstable();
    assert!(
        free.iter()
            .all(|name| crowds.iter().any(|load| name.starts_with(load))),
        "{free:?}"
    );
    assert_eq!(free.len(), 21);
    assert_eq!(pods_not_nominated(&snapshot, &tight).len(), 0);
}

/// A large pod with a node that registers a moment later would take the room of several pods that
/// fit nowhere else in their zone. Large pods and others on each node of a bundle: as is cheapest,
/// and as is bought.
#[test]
fn what_crowds_a_zone_has_no_pods_beside_it_that_are_larger_where_that_is_not_too_dear() {
    let beside = |large: usize, plain: usize| {
        let mut objects = pods(large, "large", "1", "4Gi", &json!({}));
        objects.extend(pods(plain, "plain", "150m", "300Mi", &json!({})));
        let snapshot = crowded_beside(objects, 1);
        let plan =
            |effort| planner::plan(&snapshot, &ByPrice, PlanOptions { effort, seed: 1 }).unwrap();
        let both = |plan: &Plan| {
            let all = |names: &[&str], claim: &longshore_core::plan::PlannedClaim| {
                let named = |name: &str| names.iter().any(|start| name.starts_with(start));
                claim
                    .pods
                    .iter()
                    .filter(|pod| named(&snapshot.world.pods[pod.0 as usize].name))
                    .count()
            };
            let bundles = plan
                .claims
                .iter()
                .filter(|claim| all(&["service0", "service3"], claim) > 1);
            bundles
                .map(|claim| format!("{}+{} ", all(&["large"], claim), all(&["plain"], claim)))
                .collect::<String>()
        };
        format!(
            "{}| {}\n",
            both(&plan(Effort::Quick)),
            both(&plan(Effort::Normal))
        )
    };
    expect![[r#"
        3+0 2+0 0+0 7+0 7+0 7+0 | 0+10 0+10 0+5 
        0+7 0+12 0+0 7+0 5+2 | 2+4 2+4 1+9 
    "#]]
    .assert_eq(&(beside(40, 110) + &beside(12, 110)));
}

/// More than eight cores are split evenly, and the pods wait for their nomination.
#[test]
fn what_crowds_a_zone_too_much_for_any_node_comes_to_several_alike() {
    let snapshot = crowded(150, 3);
    let plan =
        |effort| planner::plan(&snapshot, &ByPrice, PlanOptions { effort, seed: 1 }).unwrap();
    let nodes = |effort| format!("{:?}\n", by_zone(&snapshot, &plan(effort), &["service3"]));
    expect![[r#"
        {"a": [6, 7], "b": [6, 7], "c": [6, 7]}
    "#]]
    .assert_eq(&nodes(Effort::Normal));
    assert_ne!(nodes(Effort::Quick), nodes(Effort::Normal));
    let plan = plan(Effort::Normal);
    assert_eq!(pods_not_nominated(&snapshot, &plan).len(), 0);
}

/// A service over three zones beside pods that fill up the nodes: all pods are placed if all can be
/// nominated at once and the first pod of each zone is tried before the second of any.
#[test]
fn like_pods_that_must_spread_go_one_to_each_zone_in_the_order_in_which_they_came() {
    let mut objects = spreading(6, "web", "900m", "1Gi");
    objects.extend(pods(20, "plain", "700m", "1Gi", &json!({})));
    objects.push(any());
    let played = |reversed: bool| {
        let mut world = world(&objects, Settings::default());
        if reversed {
            // Without a place in the queue pods are tried by name.
            let mut names: Vec<_> = world.pods.iter().map(|pod| pod.name.clone()).collect();
            names.sort_by(|a, b| b.cmp(a));
            for at in 0..world.pods.len() {
                let place = names.iter().position(|name| *name == world.pods[at].name);
                world.pods[at].queued = place.unwrap() as u64 + 1;
            }
        }
        let snapshot = Snapshot::new(Arc::new(world));
        let options = PlanOptions {
            effort: Effort::Normal,
            seed: 1,
        };
        let plan = planner::plan(&snapshot, &ByPrice, options).unwrap();
        check(&snapshot, &plan).unwrap();
        (snapshot, plan)
    };
    let zones = |snapshot: &Snapshot, plan: &Plan| {
        let world = &snapshot.world;
        let mut zones: Vec<(String, String)> = Vec::new();
        for claim in &plan.claims {
            let zone = world
                .catalogue
                .offering(claim.offering)
                .zone
                .map(|zone| world.names.text(zone).to_owned());
            let pods = claim
                .pods
                .iter()
                .map(|pod| world.pods[pod.0 as usize].name.to_string());
            zones.extend(
                pods.filter(|pod| pod.starts_with("web"))
                    .map(|pod| (pod, zone.clone().unwrap_or_default())),
            );
        }
        zones.sort();
        zones.into_iter().map(|(_, zone)| zone).collect::<Vec<_>>()
    };
    let each_once = |zones: &[String]| {
        zones
            .iter()
            .collect::<std::collections::BTreeSet<_>>()
            .len()
            == 3
    };
    let (snapshot, plan) = played(false);
    let as_planned = zones(&snapshot, &plan);
    assert!(
        each_once(&as_planned[..3]) && each_once(&as_planned[3..]),
        "{as_planned:?}"
    );
    let simulator = Simulator::new(&snapshot);
    assert!(
        (1..20)
            .step_by(2)
            .all(|seed| simulator.simulate_nominated(&plan, seed).places_all())
    );
    let (snapshot, turned) = played(true);
    let expected: Vec<String> = as_planned.into_iter().rev().collect();
    assert_eq!(zones(&snapshot, &turned), expected);
    assert_eq!(
        (turned.claims.len(), turned.cost.to_bits()),
        (plan.claims.len(), plan.cost.to_bits())
    );
}

fn spreading(count: usize, app: &str, cpu: &str, memory: &str) -> Vec<Value> {
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }]});
    pods(count, app, cpu, memory, &spread)
}

fn pods_not_nominated(snapshot: &Snapshot, plan: &Plan) -> FxHashSet<PodIx> {
    pods_without_nomination(snapshot, plan, &affinity_leaders(snapshot, plan))
}

/// A pod without a nomination takes the room of others, unless all are equal.
#[test]
fn pods_of_several_shapes_are_all_nominated() {
    let without = |small: usize, spread: usize| {
        let mut objects = pods(100, "large-", "1", "2Gi", &json!({}));
        objects.extend(spreading(spread, "service", "10m", "8Mi"));
        objects.extend(pods(small, "small-", "20m", "16Mi", &json!({})));
        objects.push(any());
        let snapshot = Snapshot::new(Arc::new(world(&objects, Settings::default())));
        let options = PlanOptions {
            effort: Effort::Normal,
            seed: 1,
        };
        let plan = planner::plan(&snapshot, &ByPrice, options).unwrap();
        pods_not_nominated(&snapshot, &plan).len()
    };
    assert_eq!(without(0, 0), 100, "one shape");
    assert_eq!(without(1, 0), 0, "two");
    assert_eq!(without(0, 90), 0, "spread pods wait for their nominations");
}

/// One Deployment: any pod may take any slot, because all are equal.
#[test]
fn of_pods_that_are_all_alike_none_need_be_nominated() {
    let mut objects = pods(200, "web", "250m", "500Mi", &json!({}));
    objects.push(any());
    let snapshot = Snapshot::new(Arc::new(world(&objects, Settings::default())));
    let plan = planner::plan(
        &snapshot,
        &ByPrice,
        PlanOptions {
            effort: Effort::Normal,
            seed: 1,
        },
    )
    .unwrap();
    assert!(plan.claims.len() > 1);
    assert_eq!(pods_not_nominated(&snapshot, &plan).len(), 200);
}

/// Where the first of them goes, the others have to go too.
#[test]
fn pods_that_others_have_to_follow_are_nominated_however_small() {
    let near = |app: &str| {
        json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": app}},
        }]}}})
    };
    let mut objects = pods(30, "large-", "1", "2Gi", &json!({}));
    objects.extend(pods(60, "small-", "20m", "16Mi", &json!({})));
    objects.push(pod("db", "db", "10m", "8Mi", &json!({})));
    objects.push(pod("web", "web", "10m", "8Mi", &near("db")));
    objects.extend(["x", "y"].map(|name| pod(name, "twins", "10m", "8Mi", &near("twins"))));
    objects.push(any());
    let snapshot = Snapshot::new(Arc::new(world(&objects, Settings::default())));
    let plan = planner::plan(
        &snapshot,
        &ByPrice,
        PlanOptions {
            effort: Effort::Normal,
            seed: 1,
        },
    )
    .unwrap();
    let world = &snapshot.world;
    let followed = affinity_leaders(&snapshot, &plan);
    let mut names: Vec<&str> = world
        .pods
        .iter()
        .filter(|pod| followed.contains(&pod.shape))
        .map(|pod| &*pod.name)
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["db", "x", "y"]);

    // Of one shape, but where the first of them goes, the others have to go too.
    let mut objects = pods(80, "twins", "10m", "8Mi", &near("twins"));
    objects.push(any());
    let snapshot = Snapshot::new(Arc::new(self::world(&objects, Settings::default())));
    let plan = planner::plan(&snapshot, &ByPrice, PlanOptions::default()).unwrap();
    let bought: usize = plan.claims.iter().map(|claim| claim.pods.len()).sum();
    assert_eq!(
        (bought, pods_not_nominated(&snapshot, &plan).len()),
        (80, 0)
    );
}
