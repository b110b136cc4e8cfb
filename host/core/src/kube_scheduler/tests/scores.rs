use super::{GIB, HOST, Town, ZONE, app, resources, term};
use crate::kube_scheduler::existing_nodes::Load;
use crate::kube_scheduler::score;
use crate::kube_scheduler::shapes::Shape;
use crate::model::{
    NodeInclusion, PodShape, Requirement, ResourceId, Resources, Spread, Symbols, TaintEffect,
};

/// Nodes a1 and a2 in zone a, b1 in zone b, all of the same size.
fn three() -> Town {
    let mut town = Town::new();
    town.node("a1", "a");
    town.node("a2", "a");
    town.node("b1", "b");
    town
}

fn same(_: &mut PodShape, _: &mut Symbols) {}

fn shape(requests: Resources) -> Shape {
    let source = Town::new().shape("web", |s, _| s.requests = requests);
    Shape::new(
        source.into(),
        &[ResourceId::Cpu, ResourceId::Memory, ResourceId::Pods],
    )
}

#[test]
fn resources_score_what_stays_free_and_how_much_more_even_it_gets() {
    let load = Load {
        allocatable: [4000, 8 * GIB],
        requested: [1000, GIB],
        nonzero_requested: [1000, GIB],
    };
    // CPU 2000 of 4000: 50 free; memory 2 of 8 GiB: 75 free; mean 62. Shares 0.5 and 0.25:
    // deviation 0.125, so 87; now 0.25 and 0.125: 0.0625, so 93; 50 + (50 + 87 - 93) / 2.
    assert_eq!(
        score::resources(&load, &shape(resources(1000, GIB, 1))),
        62 + 72
    );
    // A core and 3 GiB: 50 and 50 free. Both half used, so 100; 50 + (50 + 100 - 93) / 2.
    assert_eq!(
        score::resources(&load, &shape(resources(1000, 3 * GIB, 1))),
        50 + 78
    );
}

#[test]
fn a_pod_that_asks_for_nothing_counts_as_a_tenth_of_a_core_and_is_not_balanced() {
    let load = Load {
        allocatable: [1000, 2000 << 20],
        requested: [0, 0],
        nonzero_requested: [0, 0],
    };
    // 100 of 1000 and 200 of 2000 MiB: 90 free of both; a pod without requests gets no score for
    // balance.
    assert_eq!(score::resources(&load, &shape(resources(0, 0, 1))), 90);
}

#[test]
fn a_node_that_would_be_overcommitted_by_stand_ins_scores_nothing_for_that_resource() {
    let load = Load {
        allocatable: [1000, 8 * GIB],
        requested: [0, 0],
        nonzero_requested: [950, 0],
    };
    // CPU 950 + 100 > 1000: nothing; memory 4 of 8 GiB: 50; mean 25. Shares 0 and 0.5: deviation
    // 0.25, so 75, where it is 100 now: 50 + (50 + 75 - 100) / 2.
    assert_eq!(
        score::resources(&load, &shape(resources(0, 4 * GIB, 1))),
        25 + 62
    );
}

#[test]
fn untolerated_soft_taints_cost_in_proportion() {
    let mut town = three();
    for (at, key) in [(0, "x"), (0, "y"), (1, "x")] {
        let taint = town.taint(key, TaintEffect::PreferNoSchedule);
        town.world.nodes[at].taints.push(taint);
    }
    town.pod("web", None, same);
    assert_eq!(town.scores(), [0, 3 * 50, 3 * 100]);
}

#[test]
fn preferred_node_affinity_scores_by_weight() {
    let mut town = three();
    town.label("a2", "disk", "ssd");
    town.pod("web", None, |s, n| {
        let ssd = Requirement::is(n.intern("disk"), n.intern("ssd"));
        let in_a = Requirement::is(n.intern(ZONE), n.intern("a"));
        s.preferred = vec![(30, vec![ssd]), (10, vec![in_a])];
    });
    // a1 has 10, a2 has 40, b1 nothing; the largest is 100.
    assert_eq!(town.scores(), [2 * 25, 2 * 100, 0]);
}

#[test]
fn a_constraint_that_need_not_hold_scores_fewer_pods_higher() {
    let mut town = three();
    for node in ["a1", "a1", "b1"] {
        town.pod("web", Some(node), same);
    }
    town.pod("web", None, |s, n| {
        s.spread.push(Spread {
            max_skew: 1,
            key: n.intern(ZONE),
            required: false,
            selector: app(n, "web"),
            min_domains: None,
            node_affinity: NodeInclusion::Honor,
            node_taints: NodeInclusion::Ignore,
        });
    });
    // Two zones: weight ln 4 = 1.386. a: 2 × 1.386 = 2.77, 3; b: 1.39, 1. 100 × (3 + 1 − 3) / 3 =
    // 33; b 100.
    assert_eq!(town.scores(), [2 * 33, 2 * 33, 2 * 100]);
}

#[test]
fn pods_of_one_owner_spread_over_hosts_and_zones_without_asking() {
    let mut town = three();
    for node in ["a1", "a1", "b1"] {
        town.pod("web", Some(node), same);
    }
    let owner = Some((town.sym("ReplicaSet"), town.sym("web")));
    town.pod("web", None, same).owner = owner;
    // Hosts: ln 5 = 1.609, skew 3; zones: ln 4 = 1.386, skew 5; 2 + 4 to all. a1: 3.22 + 2.77 + 6 =
    // 11.99, 12; a2: 2.77 + 6, 9; b1: 1.61 + 1.39 + 6 = 8.996, 9. 100 × (12 + 9 − 12) / 12 = 75;
    // the others 100.
    assert_eq!(town.scores(), [2 * 75, 2 * 100, 2 * 100]);
}

#[test]
fn preferred_pod_affinity_draws_and_repels() {
    let mut town = three();
    town.pod("cache", Some("a1"), same);
    town.pod("noise", Some("b1"), same);
    town.pod("web", None, |s, n| {
        s.preferred_affinity = vec![(10, term(n, HOST, "cache"))];
        s.preferred_anti_affinity = vec![(10, term(n, ZONE, "noise"))];
    });
    // 10, 0 and −10: stretched to 100, 50 and 0.
    assert_eq!(town.scores(), [2 * 100, 2 * 50, 0]);
}

#[test]
fn running_pods_draw_those_that_they_select() {
    let mut town = three();
    town.pod("cache", Some("a1"), |s, n| {
        s.preferred_affinity = vec![(4, term(n, HOST, "web"))]
    });
    town.pod("mate", Some("b1"), |s, n| {
        s.affinity = vec![term(n, HOST, "web")]
    });
    town.pod("web", None, same);
    // 4 by preference, nothing, 1 for required affinity.
    assert_eq!(town.scores(), [2 * 100, 0, 2 * 25]);
}
