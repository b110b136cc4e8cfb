//! "Where would its pods go if this node were gone", asked of each node in turn, against a plan
//! that is made anew for a world in which that node is being deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use longshore_core::model::{ClusterObjects, OfferingId, Settings};
use longshore_core::plan::{Effort, NodeIx, PodIx};
use longshore_core::planner::{self, PlanOptions};
use longshore_core::policy::ByPrice;
use longshore_core::schedule::questions::Questions;
use longshore_core::snapshot::Snapshot;
use serde_json::{Value, json};

use crate::rng::Rng;
use crate::{any, merge, node, pod, pool, world};

/// What pods of one workload ask for.
fn demands(rng: &mut Rng, app: &str) -> Value {
    let selector = json!({"matchLabels": {"app": app}});
    let mut spec = json!({});
    if rng.one_in(3) {
        let zonal = rng.one_in(2);
        let key = if zonal {
            "topology.kubernetes.io/zone"
        } else {
            "kubernetes.io/hostname"
        };
        let when = if rng.one_in(3) {
            "ScheduleAnyway"
        } else {
            "DoNotSchedule"
        };
        let spread = json!({"maxSkew": 1 + rng.below(3), "topologyKey": key, "whenUnsatisfiable": when,
            "labelSelector": selector});
        merge(&mut spec, &json!({"topologySpreadConstraints": [spread]}));
    }
    if rng.one_in(4) {
        let other = json!({"matchLabels": {"app": format!("app{}", rng.below(6))}});
        let key = ["kubernetes.io/hostname", "topology.kubernetes.io/zone"][rng.below(2)];
        let own = if rng.one_in(2) { selector } else { other };
        let kind = if rng.one_in(4) {
            "podAffinity"
        } else {
            "podAntiAffinity"
        };
        let term = json!({"topologyKey": key, "labelSelector": own});
        merge(
            &mut spec,
            &json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}),
        );
    }
    if rng.one_in(4) {
        let zone = ["a", "b", "c"][rng.below(3)];
        merge(
            &mut spec,
            &json!({"nodeSelector": {"topology.kubernetes.io/zone": zone}}),
        );
    }
    if rng.one_in(6) {
        merge(
            &mut spec,
            &json!({"containers": [{"name": "main", "ports": [{"hostPort": 80, "containerPort": 80}]}]}),
        );
    }
    spec
}

/// Nodes of which some are nearly full, with pods of six workloads.
fn cluster(seed: u64) -> Vec<Value> {
    let mut rng = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let limits = if rng.one_in(2) {
        json!({"limits": {"cpu": "20"}})
    } else {
        json!({})
    };
    let spot = json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]);
    let mut objects = vec![any(), pool("limited", spot, &limits)];
    let sizes = [("1", "4Gi"), ("2", "8Gi"), ("4", "16Gi")];
    let nodes = 5 + rng.below(36);
    for at in 0..nodes {
        let (cpu, memory) = sizes[rng.below(3)];
        let mut node = node(
            &format!("node{at:02}"),
            ["a", "b", "c"][rng.below(3)],
            cpu,
            memory,
        );
        if rng.one_in(3) {
            node["metadata"]["labels"]["karpenter.sh/nodepool"] = json!("limited");
        }
        if rng.one_in(8) {
            node["spec"]["taints"] = json!([{"key": "own", "effect": "NoSchedule"}]);
        }
        objects.push(node);
    }
    let demands: Vec<Value> = (0..6)
        .map(|app| demands(&mut rng, &format!("app{app}")))
        .collect();
    for at in 0..nodes * 3 {
        let app = rng.below(6);
        let cpu = ["100m", "200m", "400m", "700m"][(app + usize::from(rng.one_in(5))) % 4];
        let mut pod = pod(
            &format!("pod{at:03}"),
            &format!("app{app}"),
            cpu,
            "256Mi",
            &demands[app],
        );
        if let Some(containers) = pod["spec"]["containers"].as_array_mut() {
            containers[0]["resources"] = json!({"requests": {"cpu": cpu, "memory": "256Mi"}});
        }
        pod["spec"]["nodeName"] = json!(format!("node{:02}", rng.below(nodes)));
        pod["status"] = json!({"phase": "Running"});
        objects.push(pod);
    }
    objects
}

/// Which pods are where, by shape, one line for each node: those that exist by name, new ones by
/// what is bought, in no order.
fn places<'p>(
    world: &ClusterObjects,
    existing: impl Iterator<Item = (String, Vec<PodIx>)>,
    bought: impl Iterator<Item = (OfferingId, &'p Vec<PodIx>)>,
    unplaced: Vec<PodIx>,
) -> Vec<String> {
    let mut by_node: BTreeMap<String, Vec<PodIx>> = BTreeMap::new();
    existing.for_each(|(node, pods)| by_node.entry(node).or_default().extend(pods));
    let shapes = |pods: &[PodIx]| {
        let mut shapes: Vec<u32> = pods
            .iter()
            .map(|pod| world.pods[pod.0 as usize].shape.0)
            .collect();
        shapes.sort_unstable();
        shapes
    };
    let mut all: Vec<String> = by_node
        .iter()
        .map(|(node, pods)| format!("{node}: {:?}", shapes(pods)))
        .collect();
    all.extend(bought.map(|(offering, pods)| format!("new {}: {:?}", offering.0, shapes(pods))));
    all.push(format!("nowhere: {:?}", shapes(&unplaced)));
    all.sort();
    all
}

#[test]
fn what_becomes_of_a_nodes_pods_is_what_a_plan_that_is_made_anew_says() {
    let (mut asked, mut bought, mut unplaced, mut different) = (0, 0, 0, Vec::new());
    for seed in 1..=60 {
        let world = world(&cluster(seed), Settings::default());
        let snapshot = Snapshot::new(Arc::new(world.clone()));
        let mut questions = Questions::new(&snapshot, &ByPrice);
        for at in 0..snapshot.nodes.len() {
            let answer = questions.without(&[NodeIx(at as u32)]);
            let name = |node: NodeIx| world.names.text(snapshot.nodes[node.0 as usize].name);
            let found = places(
                &world,
                answer
                    .existing
                    .iter()
                    .map(|&(pod, node)| (name(node).to_owned(), vec![pod])),
                answer
                    .bought
                    .iter()
                    .map(|bought| (bought.offering, &bought.pods)),
                answer.unplaced.clone(),
            );
            (asked, bought, unplaced) = (
                asked + 1,
                bought + answer.bought.len(),
                unplaced + answer.unplaced.len(),
            );
            let mut without = world.clone();
            let gone = snapshot.nodes[at].name;
            without
                .nodes
                .iter_mut()
                .filter(|node| node.name == gone)
                .for_each(|node| node.deleting = true);
            let anew = Snapshot::new(Arc::new(without));
            let options = PlanOptions {
                effort: Effort::None,
                seed: 0,
            };
            let plan =
                planner::plan(&anew, &ByPrice, options).expect("a plan that keeps every rule");
            let of_anew = |node: NodeIx| world.names.text(anew.nodes[node.0 as usize].name);
            let expected = places(
                &world,
                plan.on_existing_nodes
                    .iter()
                    .map(|e| (of_anew(e.node).to_owned(), e.pods.clone())),
                plan.claims
                    .iter()
                    .map(|claim| (claim.offering, &claim.pods)),
                plan.unplaced.iter().map(|left| left.pod).collect(),
            );
            if found != expected {
                different.push(format!(
                    "seed {seed}, without {}:\n{found:?}\n{expected:?}",
                    name(NodeIx(at as u32))
                ));
            }
        }
    }
    assert!(
        asked > 900 && bought > 50 && unplaced > 50,
        "{asked} questions, {bought} bought, {unplaced} unplaced"
    );
    let first: Vec<&String> = different.iter().take(3).collect();
    assert!(
        different.is_empty(),
        "{} of {asked} differ:\n{first:#?}",
        different.len()
    );
}

#[test]
fn several_nodes_may_be_gone_and_a_question_leaves_nothing_behind() {
    let world = world(&cluster(7), Settings::default());
    let snapshot = Snapshot::new(Arc::new(world));
    let mut questions = Questions::new(&snapshot, &ByPrice);
    let all: Vec<NodeIx> = (0..snapshot.nodes.len() as u32).map(NodeIx).collect();
    let before: Vec<_> = all.iter().map(|&node| questions.without(&[node])).collect();
    let together = questions.without(&all);
    assert!(together.existing.is_empty(), "there is no other node");
    let pods: usize =
        together.bought.iter().map(|b| b.pods.len()).sum::<usize>() + together.unplaced.len();
    assert_eq!(pods, snapshot.movable().len());
    for &node in all.iter().rev() {
        assert_eq!(questions.without(&[node]), before[node.0 as usize]);
    }
}
