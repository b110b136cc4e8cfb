use super::{GIB, HOST, Town, ZONE, app, buy, places, resources, term};
use crate::kube_scheduler::queue::comes_by_class;
use crate::kube_scheduler::{NodeReadiness, Simulator, simulate};
use crate::model::{
    HostPort, NodeInclusion, PodShape, Requirement, ResourceId, Spread, Symbols, TaintEffect,
    Toleration,
};
use crate::plan::{Plan, PlannedClaim, PodIx, PoolIx};
use crate::snapshot::Snapshot;

fn same(_: &mut PodShape, _: &mut Symbols) {}

fn core(cores: i64) -> impl Fn(&mut PodShape, &mut Symbols) {
    move |s, _| s.requests = resources(cores * 1000, GIB, 1)
}

/// Types of 4 and 8 cores in zones a and b.
fn town() -> Town {
    let mut town = Town::new();
    town.instance_type("small", 4, &["a", "b"]);
    town.instance_type("large", 8, &["a", "b"]);
    town
}

/// How many of a hundred seeds leave nothing over.
fn share(snapshot: &Snapshot, nodes: &[(&str, &str)]) -> usize {
    let nodes: Vec<_> = nodes
        .iter()
        .map(|(t, zone)| buy(snapshot, t, zone))
        .collect();
    let sim = Simulator::new(snapshot);
    (0..100)
        .filter(|&seed| sim.run(&nodes, seed).places_all())
        .count()
}

/// Two pods of three cores and two of one fit two nodes of four cores only as 3 + 1 each.
fn threes_and_ones() -> Town {
    let mut town = town();
    for cores in [3, 3, 1, 1] {
        town.pod("web", None, core(cores));
    }
    town
}

#[test]
fn a_plan_that_only_one_assignment_realises_is_found_out() {
    let snapshot = threes_and_ones().snapshot();
    let nodes = [buy(&snapshot, "small", "a"), buy(&snapshot, "small", "a")];
    let sim = Simulator::new(&snapshot);
    let whole = |arrival| {
        let seeds = (0..12_000).filter(|&seed| sim.run_as(&nodes, arrival, seed).places_all());
        let (by_class, in_any_order): (Vec<u64>, Vec<u64>) =
            seeds.partition(|seed| comes_by_class(*seed));
        (in_any_order.len(), by_class.len())
    };
    // Two of the six orders, 3113 and 1313, put both small pods on one node if both nodes have
    // registered. In neither do pods of one size follow each other.
    let (in_any_order, by_class) = whole(NodeReadiness::Together);
    assert!(
        (3800..4200).contains(&in_any_order) && by_class == 6000,
        "{in_any_order}, {by_class}"
    );
    // If one comes first, 1133 does, one of two by size.
    let (in_any_order, by_class) = whole(NodeReadiness::OneByOne);
    assert!(
        (4800..5200).contains(&in_any_order) && (2800..3200).contains(&by_class),
        "{in_any_order}, {by_class}"
    );
}

#[test]
fn a_roomy_plan_survives_every_scenario() {
    let snapshot = threes_and_ones().snapshot();
    assert_eq!(share(&snapshot, &[("large", "a"), ("small", "a")]), 100);
}

#[test]
fn the_same_seed_gives_the_same_course_and_others_give_others() {
    let mut town = town();
    for _ in 0..12 {
        town.pod("web", None, same);
    }
    let snapshot = town.snapshot();
    let nodes = [("small", "a"), ("small", "b"), ("large", "b")].map(|(t, z)| buy(&snapshot, t, z));
    let sim = Simulator::new(&snapshot);
    let run = |seed| sim.run(&nodes, seed);
    assert_eq!(run(7), run(7));
    assert_eq!(run(7), Simulator::new(&snapshot).run(&nodes, 7));
    assert!((0..10).any(|seed| run(2 * seed).placements != run(0).placements));
}

#[test]
fn more_important_pods_go_first_then_older_ones() {
    let mut town = town();
    town.pod("late", None, core(4)).created = 9;
    town.pod("early", None, core(4)).created = 1;
    town.pod("vital", None, |s, n| {
        core(4)(s, n);
        s.priority = 1000;
    });
    let snapshot = town.snapshot();
    let nodes = [buy(&snapshot, "small", "a"), buy(&snapshot, "small", "a")];
    for seed in 0..20 {
        let survival = Simulator::new(&snapshot).run(&nodes, seed);
        assert_eq!(
            survival.unplaced,
            [PodIx(0)],
            "{}",
            places(&snapshot, &survival)
        );
        assert_eq!(survival.placements[0].0, PodIx(2));
    }
}

#[test]
fn pods_that_must_spread_over_zones_fill_the_first_zone_before_the_second_comes() {
    let mut town = town();
    for _ in 0..4 {
        town.pod("web", None, |s, n| {
            s.spread.push(Spread {
                max_skew: 1,
                key: n.intern(ZONE),
                required: true,
                selector: app(n, "web"),
                min_domains: None,
                node_affinity: NodeInclusion::Honor,
                node_taints: NodeInclusion::Ignore,
            });
        });
    }
    let snapshot = town.snapshot();
    let nodes = [buy(&snapshot, "small", "a"), buy(&snapshot, "small", "b")];
    let sim = Simulator::new(&snapshot);
    let on = |arrival, node| {
        let survival = sim.run_as(&nodes, arrival, 3);
        survival
            .placements
            .iter()
            .filter(|s| s.1 == crate::kube_scheduler::SimulatedNode::New(node))
            .count()
    };
    assert_eq!([0, 1].map(|n| on(NodeReadiness::Together, n)), [2, 2]);
    let mut one_by_one = [0, 1].map(|n| on(NodeReadiness::OneByOne, n));
    one_by_one.sort_unstable();
    assert_eq!(
        one_by_one,
        [0, 4],
        "the only zone there is even with itself"
    );
}

#[test]
fn a_pod_waits_for_the_one_that_its_affinity_asks_for() {
    let mut town = town();
    town.pod("web", None, |s, n| s.affinity.push(term(n, HOST, "db")))
        .created = 1;
    town.pod("db", None, same).created = 2;
    let snapshot = town.snapshot();
    let nodes = [buy(&snapshot, "small", "a")];
    let survival = Simulator::new(&snapshot).run(&nodes, 0);
    assert_eq!(places(&snapshot, &survival), "db1@0 web0@0");
    assert_eq!(
        survival.placements[0].0,
        PodIx(1),
        "the older pod is tried first, and again once the other is there"
    );
}

#[test]
fn anti_affinity_among_pending_pods_holds_in_both_directions() {
    let mut town = town();
    town.pod("lone", None, |s, n| {
        s.anti_affinity.push(term(n, HOST, "web"))
    });
    town.pod("web", None, same);
    let snapshot = town.snapshot();
    for seed in 0..20 {
        let survival = Simulator::new(&snapshot).run(&[buy(&snapshot, "large", "a")], seed);
        assert_eq!(survival.unplaced.len(), 1);
    }
}

#[test]
fn daemons_that_run_on_a_new_node_are_there_first() {
    let mut town = town();
    let taint = town.taint("pool", TaintEffect::NoSchedule);
    town.world.pools[0].taints.push(taint);
    let tolerant = |s: &mut PodShape, n: &mut Symbols| {
        s.tolerations.push(Toleration {
            key: None,
            exists: true,
            value: n.intern(""),
            effect: None,
        });
    };
    town.daemon("agent", tolerant);
    town.daemon("port", |s, n| {
        tolerant(s, n);
        s.requests = Default::default();
        s.ports.push(HostPort {
            ip: None,
            port: 80,
            protocol: n.intern("TCP"),
        });
    });
    town.daemon("elsewhere", |s, n| {
        tolerant(s, n);
        s.node_selector
            .push(Requirement::is(n.intern(ZONE), n.intern("c")));
    });
    town.daemon("intolerant", same);
    for cores in [3, 1] {
        town.pod("web", None, |s, n| {
            core(cores)(s, n);
            tolerant(s, n);
        })
        .created = -cores;
    }
    town.pod("proxy", None, |s, n| {
        tolerant(s, n);
        s.requests = Default::default();
        s.ports.push(HostPort {
            ip: None,
            port: 80,
            protocol: n.intern("TCP"),
        });
    })
    .created = 1;
    let snapshot = town.snapshot();
    let survival = Simulator::new(&snapshot).run(&[buy(&snapshot, "small", "a")], 1);
    assert_eq!(
        places(&snapshot, &survival),
        "web0@0 web1 left proxy2 left",
        "one core and the port are taken"
    );
}

#[test]
fn labels_of_a_new_node_come_from_offering_type_claim_and_pool() {
    let mut town = town();
    let pairs = [("team", "red"), ("arch", "arm64"), ("tier", "gold")]
        .map(|(k, v)| (town.sym(k), town.sym(v)));
    town.world.pools[0].labels = crate::model::Labels::new(vec![pairs[0]]);
    town.types[0]
        .0
        .requirements
        .push(Requirement::is(pairs[1].0, pairs[1].1));
    let mut wanted = pairs.to_vec();
    for (key, value) in [
        (ZONE, "b"),
        ("node.kubernetes.io/instance-type", "small"),
        ("karpenter.sh/nodepool", "pool"),
    ] {
        wanted.push((town.sym(key), town.sym(value)));
    }
    town.pod("web", None, |s, _| {
        s.node_selector = wanted.iter().map(|&(k, v)| Requirement::is(k, v)).collect()
    });
    let snapshot = town.snapshot();
    let requirements = [(pairs[2].0, vec![pairs[2].1])];
    let mut node = buy(&snapshot, "small", "b");
    let sim = Simulator::new(&snapshot);
    assert_eq!(
        sim.run(&[node], 0).unplaced.len(),
        1,
        "the new node lacks the label tier"
    );
    node.requirements = &requirements;
    assert!(sim.run(&[node], 0).places_all());
}

#[test]
fn pods_take_places_on_nodes_that_exist_too() {
    let mut town = town();
    town.node("old", "a");
    town.pod("db", Some("old"), core(3));
    for _ in 0..3 {
        town.pod("web", None, same);
    }
    let snapshot = town.snapshot();
    let survival = Simulator::new(&snapshot).run(&[], 5);
    assert_eq!((survival.placements.len(), survival.unplaced.len()), (1, 2));
}

#[test]
fn a_pod_that_the_plan_left_over_is_not_left_over_again() {
    let mut town = town();
    town.pod("web", None, same);
    town.pod("giant", None, |s, _| {
        s.requests.set(ResourceId::Cpu, 64_000)
    });
    let snapshot = town.snapshot();
    let claim = PlannedClaim {
        pool: PoolIx(0),
        offering: buy(&snapshot, "small", "a").offering,
        types: Vec::new(),
        requirements: Vec::new(),
        open: Vec::new(),
        requests: crate::model::Resources::default(),
        price: 1.0,
        effective_cost: 1.0,
        pods: vec![PodIx(0)],
        min_values_relaxed: false,
        discouraged_by: None,
        dearer_at_same_price: false,
    };
    let unplaced = crate::plan::Unplaced {
        pod: PodIx(1),
        refusals: Vec::new(),
    };
    let mut plan = Plan {
        claims: vec![claim],
        unplaced: vec![unplaced],
        ..Plan::default()
    };
    assert!(simulate(&snapshot, &plan, 0).places_all());
    plan.unplaced.clear();
    assert_eq!(simulate(&snapshot, &plan, 0).unplaced, [PodIx(1)]);
}
