//! The checker finds what is wrong: plans that were right, tampered with, one rule at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use longshore_core::check::{Invariant, check};
use longshore_core::model::{Settings, Symbol};
use longshore_core::plan::{NodeIx, Placement, Plan, PoolIx, Unplaced};
use longshore_core::planner::{self, PlanOptions};
use longshore_core::policy::ByPrice;
use longshore_core::snapshot::Snapshot;
use serde_json::{Value, json};

use super::{any, merge, node, pod, pods, pool, running, world};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

/// A pod's rule about its own like.
fn rule(kind: &str, key: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": key});
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

fn spread() -> Value {
    json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]})
}

/// Rules that an altered plan breaks.
fn broken(objects: &[Value], change: impl FnOnce(&Snapshot, &mut Plan)) -> BTreeSet<String> {
    let snapshot = Snapshot::new(Arc::new(world(objects, Settings::default())));
    let mut plan = planner::plan(&snapshot, &ByPrice, PlanOptions::default()).unwrap();
    assert_eq!(check(&snapshot, &plan), Ok(()), "as it was made");
    change(&snapshot, &mut plan);
    let violations = check(&snapshot, &plan).err().unwrap_or_default();
    assert!(violations.iter().all(|v| !v.detail.is_empty()));
    violations
        .iter()
        .map(|v| format!("{:?}", v.invariant))
        .collect()
}

fn finds(rule: Invariant, objects: &[Value], change: impl FnOnce(&Snapshot, &mut Plan)) {
    let found = broken(objects, change);
    assert!(
        found.contains(&format!("{rule:?}")),
        "{rule:?} is not among {found:?}"
    );
}

/// Sums and prices that fit the claims again, so that only the rule in question is broken.
fn settle(snapshot: &Snapshot, plan: &mut Plan) {
    for claim in &mut plan.claims {
        claim.price = snapshot.world.catalogue.offering(claim.offering).price;
        claim.effective_cost = claim.price;
    }
    plan.cost = plan.claims.iter().map(|c| c.price).sum();
    plan.effective_cost = plan.cost + plan.claims.len() as f64 * snapshot.world.settings.node_cost;
    plan.lower_bound = 0.0;
}

/// All pods on the first claim, which may be of its largest type alone.
fn all_on_one(snapshot: &Snapshot, plan: &mut Plan) {
    let rest: Vec<_> = plan.claims.drain(1..).collect();
    let first = &mut plan.claims[0];
    first.pods.extend(rest.into_iter().flat_map(|c| c.pods));
    settle(snapshot, plan);
}

/// The claim is for this zone and nothing else.
fn move_to(snapshot: &Snapshot, plan: &mut Plan, at: usize, zone: &str) {
    let names = &snapshot.world.names;
    let (key, zone) = (names.get(ZONE).unwrap(), names.get(zone).unwrap());
    let claim = &mut plan.claims[at];
    set(&mut claim.requirements, key, zone);
    let catalogue = &snapshot.world.catalogue;
    let old = catalogue.offering(claim.offering).clone();
    let there = catalogue.offerings().iter().position(|o| {
        o.instance_type == old.instance_type
            && o.capacity_type == old.capacity_type
            && o.zone == Some(zone)
    });
    claim.offering.0 = there.unwrap() as u32;
    settle(snapshot, plan);
}

fn set(requirements: &mut Vec<(Symbol, Vec<Symbol>)>, key: Symbol, value: Symbol) {
    requirements.retain(|(k, _)| *k != key);
    requirements.push((key, vec![value]));
}

fn web(count: usize, cpu: &str, patch: &Value) -> Vec<Value> {
    let mut objects = pods(count, "web", cpu, "1Gi", patch);
    objects.push(any());
    objects
}

#[test]
fn a_pod_that_is_forgotten_or_placed_twice() {
    let objects = web(2, "1", &json!({}));
    finds(Invariant::Accounting, &objects, |_, plan| {
        _ = plan.claims[0].pods.pop()
    });
    finds(Invariant::Accounting, &objects, |_, plan| {
        let pod = plan.claims[0].pods[0];
        plan.claims[0].pods.push(pod);
    });
    finds(Invariant::Accounting, &objects, |_, plan| {
        plan.claims[0].types.clear()
    });
    finds(Invariant::Accounting, &objects, |_, plan| {
        let pod = plan.claims[0].pods.pop().unwrap();
        plan.unplaced.push(Unplaced {
            pod,
            refusals: Vec::new(),
        });
    });
}

#[test]
fn an_offering_that_is_another_ones_or_has_another_price() {
    let objects = web(1, "1", &json!({}));
    finds(Invariant::Offering, &objects, |_, plan| {
        plan.claims[0].types.reverse()
    });
    finds(Invariant::Offering, &objects, |_, plan| {
        plan.claims[0].price /= 2.0;
        plan.cost = plan.claims[0].price;
    });
}

#[test]
fn sums_that_do_not_add_up() {
    let objects = web(1, "1", &json!({}));
    finds(Invariant::Totals, &objects, |_, plan| plan.cost *= 2.0);
    finds(Invariant::Totals, &objects, |_, plan| {
        plan.effective_cost = f64::NAN
    });
    finds(Invariant::Totals, &objects, |_, plan| {
        plan.lower_bound = plan.effective_cost + 1.0
    });
}

#[test]
fn a_pod_on_a_node_with_a_taint_that_it_does_not_tolerate() {
    let mut objects = web(1, "1", &json!({}));
    let taint = json!({"template": {"spec": {"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]}}});
    objects.push(pool("tainted", json!([]), &taint));
    finds(Invariant::Taints, &objects, |snapshot, plan| {
        let name = |at: u32| {
            snapshot
                .world
                .names
                .text(snapshot.world.pools[at as usize].name)
        };
        plan.claims[0].pool = PoolIx(u32::from(name(0) != "tainted"));
    });
}

#[test]
fn a_pod_on_a_node_of_another_architecture() {
    let objects = web(
        1,
        "1",
        &json!({"nodeSelector": {"kubernetes.io/arch": "amd64"}}),
    );
    finds(Invariant::Labels, &objects, |snapshot, plan| {
        let names = &snapshot.world.names;
        let (key, arm) = (
            names.get("kubernetes.io/arch").unwrap(),
            names.get("arm64").unwrap(),
        );
        let claim = &mut plan.claims[0];
        set(&mut claim.requirements, key, arm);
        let catalogue = &snapshot.world.catalogue;
        let is_arm = |t: &usize| names.text(catalogue.types()[*t].name) == "x1.arm64";
        let of = (0..catalogue.types().len()).find(is_arm).unwrap();
        claim.types = vec![longshore_core::model::TypeId(of as u32)];
        claim.offering.0 = catalogue
            .offerings()
            .iter()
            .position(|o| o.instance_type == claim.types[0])
            .unwrap() as u32;
        settle(snapshot, plan);
    });
}

#[test]
fn more_on_a_node_than_fits() {
    finds(Invariant::Resources, &web(2, "7", &json!({})), all_on_one);
}

#[test]
fn a_host_port_taken_twice() {
    let port = json!({"containers": [{
        "name": "main", "ports": [{"containerPort": 80, "hostPort": 80}],
        "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}},
    }]});
    let objects = [
        pod("a", "web", "1", "1Gi", &port),
        pod("b", "web", "1", "1Gi", &port),
        any(),
    ];
    finds(Invariant::Ports, &objects, all_on_one);
}

#[test]
fn pods_that_must_spread_in_one_zone() {
    finds(
        Invariant::Spread,
        &web(3, "900m", &spread()),
        |snapshot, plan| {
            (0..plan.claims.len()).for_each(|at| move_to(snapshot, plan, at, "a"));
        },
    );
}

#[test]
fn pods_that_must_spread_over_hosts_beyond_the_emptiest_that_is_there() {
    let over_hosts = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]});
    finds(Invariant::Spread, &web(2, "900m", &over_hosts), all_on_one);
    let mut objects = web(1, "900m", &over_hosts);
    objects.extend(["n1", "n2"].map(|name| node(name, "a", "4", "8Gi")));
    objects.push(running("r", "web", "n1", &json!({})));
    finds(Invariant::Spread, &objects, |_, plan| {
        assert_eq!(plan.on_existing_nodes[0].node.0, 1);
        plan.on_existing_nodes[0].node.0 = 0;
    });
}

#[test]
fn pods_of_an_unbound_claim_on_two_nodes() {
    let mounts = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]});
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "late",
            "resources": {"requests": {"storage": "2Gi"}}},
    });
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"},
        "provisioner": "x.csi", "volumeBindingMode": "WaitForFirstConsumer",
    });
    let mut objects = pods(2, "web", "900m", "1Gi", &mounts);
    objects.extend(["n1", "n2"].map(|name| node(name, "a", "4", "8Gi")));
    objects.extend([claim, class]);
    finds(Invariant::Volumes, &objects, |_, plan| {
        let moved = plan.on_existing_nodes[0].pods.pop().unwrap();
        let node = NodeIx(1);
        let pods = vec![moved];
        plan.on_existing_nodes.push(Placement { node, pods });
    });
}

#[test]
fn pods_that_belong_together_in_two_zones() {
    finds(
        Invariant::Affinity,
        &web(2, "7", &rule("podAffinity", ZONE)),
        |snapshot, plan| {
            assert_eq!(plan.claims.len(), 2);
            move_to(snapshot, plan, 0, "a");
            move_to(snapshot, plan, 1, "b");
        },
    );
}

#[test]
fn pods_that_exclude_each_other_on_one_node() {
    finds(
        Invariant::AntiAffinity,
        &web(2, "100m", &rule("podAntiAffinity", HOST)),
        all_on_one,
    );
}

#[test]
fn more_than_the_limits_of_a_nodepool() {
    let mut objects = pods(2, "web", "7", "1Gi", &json!({}));
    objects.push(pool("default", json!([]), &json!({"limits": {"cpu": "8"}})));
    finds(Invariant::Limits, &objects, |snapshot, plan| {
        let left = plan.unplaced.pop().unwrap();
        let more = longshore_core::plan::PlannedClaim {
            pods: vec![left.pod],
            ..plan.claims[0].clone()
        };
        plan.claims.push(more);
        settle(snapshot, plan);
    });
}

#[test]
fn fewer_types_than_min_values_asks_for() {
    let mut objects = pods(1, "web", "900m", "1Gi", &json!({}));
    let few =
        json!([{"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 3}]);
    objects.push(pool("default", few, &json!({})));
    finds(Invariant::MinValues, &objects, |_, plan| {
        plan.claims[0].types.truncate(2)
    });
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    let mut objects = web(9, "900m", &spread());
    merge(
        &mut objects[0],
        &json!({"spec": {"nodeSelector": {"kubernetes.io/arch": "amd64"}}}),
    );
    assert_eq!(broken(&objects, |_, _| {}), BTreeSet::new());
}
