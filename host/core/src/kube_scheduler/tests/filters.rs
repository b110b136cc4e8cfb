use super::{HOST, Town, ZONE, app, term};
use crate::model::storage::{AccessModes, CsiNode, StorageClass, VolumeClaim};
use crate::model::{
    HostPort, NodeInclusion, Op, PodShape, Requirement, ResourceId, Spread, Symbols, TaintEffect,
    Toleration,
};

/// Nodes a1 and a2 in zone a, b1 in zone b.
fn three() -> Town {
    let mut town = Town::new();
    town.node("a1", "a");
    town.node("a2", "a");
    town.node("b1", "b");
    town
}

fn same(_: &mut PodShape, _: &mut Symbols) {}

fn evenly(names: &mut Symbols, key: &str, value: &str) -> Spread {
    Spread {
        max_skew: 1,
        key: names.intern(key),
        required: true,
        selector: app(names, value),
        min_domains: None,
        node_affinity: NodeInclusion::Honor,
        node_taints: NodeInclusion::Ignore,
    }
}

#[test]
fn a_pod_needs_room_of_every_resource() {
    let mut town = three();
    town.pod("db", Some("a1"), |s, _| {
        s.requests.set(ResourceId::Cpu, 3001)
    });
    town.pod("db", Some("a2"), |s, _| {
        s.requests.set(ResourceId::Cpu, 3000)
    });
    town.pod("web", None, same);
    assert_eq!(town.passing(), "a2 b1");
}

#[test]
fn pods_count_as_a_resource() {
    let mut town = three();
    town.world.nodes[0].allocatable.set(ResourceId::Pods, 1);
    town.pod("db", Some("a1"), same);
    town.pod("web", None, same);
    assert_eq!(town.passing(), "a2 b1");
}

#[test]
fn a_taint_keeps_pods_away_that_do_not_tolerate_it() {
    let mut town = three();
    let [hard, soft, evict] = [
        TaintEffect::NoSchedule,
        TaintEffect::PreferNoSchedule,
        TaintEffect::NoExecute,
    ]
    .map(|effect| town.taint("dedicated", effect));
    for (node, taint) in town.world.nodes.iter_mut().zip([hard, soft, evict]) {
        node.taints.push(taint);
    }
    town.pod("web", None, |s, n| {
        let key = Some(n.intern("dedicated"));
        let value = n.intern("");
        s.tolerations.push(Toleration {
            key,
            exists: true,
            value,
            effect: Some(TaintEffect::NoExecute),
        });
    });
    assert_eq!(town.passing(), "a2 b1");
}

#[test]
fn node_selector_and_one_term_of_node_affinity_must_hold() {
    let mut town = three();
    town.label("a1", "disk", "ssd");
    town.label("b1", "disk", "ssd");
    town.label("b1", "cores", "4");
    town.pod("web", None, |s, n| {
        let (ssd, many) = (n.intern("ssd"), Op::Gte(3));
        s.node_selector.push(Requirement::is(n.intern("disk"), ssd));
        let none = Requirement::is(n.intern("disk"), n.intern("tape"));
        s.required = vec![vec![none], vec![Requirement::new(n.intern("cores"), many)]];
    });
    assert_eq!(town.passing(), "b1");
}

#[test]
fn two_pods_cannot_bind_one_host_port() {
    let mut town = three();
    let port = |s: &mut PodShape, n: &mut Symbols| {
        s.ports.push(HostPort {
            ip: None,
            port: 80,
            protocol: n.intern("TCP"),
        });
    };
    town.pod("proxy", Some("a1"), port);
    town.pod("web", None, port);
    assert_eq!(town.passing(), "a2 b1");
}

#[test]
fn a_volume_keeps_its_pod_in_the_zone_and_counts_against_the_limit() {
    let mut town = three();
    let [zone, a, namespace, claim, other, class, driver] =
        [ZONE, "a", "default", "data", "other", "fast", "ebs"].map(|text| town.sym(text));
    for name in [claim, other] {
        let class = Some(class);
        let claim = VolumeClaim {
            namespace,
            name,
            volume: None,
            class,
            lost: false,
            bound: false,
            selected_node: None,
            modes: AccessModes::default(),
            storage: 0,
            block: false,
            selector: None,
            deleting: false,
        };
        town.world.volume_claims.push(claim);
    }
    let topologies = vec![vec![Requirement::is(zone, a)]];
    let (wait_for_consumer, default) = (true, false);
    let class = StorageClass {
        name: class,
        provisioner: driver,
        topologies,
        wait_for_consumer,
        default,
        created: 0,
    };
    town.world.storage_classes.push(class);
    let a1 = town.sym("a1");
    town.world.csi_nodes.push(CsiNode {
        name: a1,
        drivers: vec![(driver, Some(1))],
    });
    town.pod("db", Some("a1"), same).claims = Box::new([other]);
    town.pod("web", None, same).claims = Box::new([claim]);
    assert_eq!(
        town.passing(),
        "a2",
        "a1 has its one volume, b1 is in another zone"
    );
}

#[test]
fn spread_compares_with_the_emptiest_zone_there_is() {
    let mut town = three();
    town.pod("web", Some("a1"), same);
    town.pod("web", None, |s, n| s.spread.push(evenly(n, ZONE, "web")));
    assert_eq!(
        town.passing(),
        "b1",
        "a has one, b none: one more in a would be a skew of 2"
    );
}

#[test]
fn spread_leaves_out_zones_that_the_pod_cannot_use_unless_told_otherwise() {
    let only_a = |policy| {
        move |s: &mut PodShape, n: &mut Symbols| {
            s.node_selector
                .push(Requirement::is(n.intern(ZONE), n.intern("a")));
            s.spread.push(Spread {
                node_affinity: policy,
                ..evenly(n, ZONE, "web")
            });
        }
    };
    for (policy, expected) in [(NodeInclusion::Honor, "a1 a2"), (NodeInclusion::Ignore, "")] {
        let mut town = three();
        town.pod("web", Some("a1"), same);
        town.pod("web", None, only_a(policy));
        assert_eq!(town.passing(), expected);
    }
}

#[test]
fn spread_may_leave_out_tainted_nodes() {
    for (policy, expected) in [(NodeInclusion::Honor, "a1 a2"), (NodeInclusion::Ignore, "")] {
        let mut town = three();
        let taint = town.taint("dedicated", TaintEffect::NoSchedule);
        town.world.nodes[2].taints.push(taint);
        town.pod("web", Some("a1"), same);
        town.pod("web", None, |s, n| {
            s.spread.push(Spread {
                node_taints: policy,
                ..evenly(n, ZONE, "web")
            })
        });
        assert_eq!(town.passing(), expected);
    }
}

#[test]
fn too_few_domains_count_as_empty_ones() {
    let mut town = three();
    town.pod("web", Some("a1"), same);
    town.pod("web", Some("b1"), same);
    town.pod("web", None, |s, n| {
        s.spread.push(Spread {
            min_domains: Some(3),
            ..evenly(n, ZONE, "web")
        })
    });
    assert_eq!(
        town.passing(),
        "",
        "each zone has one, a third is asked for"
    );
}

#[test]
fn a_pod_that_its_constraint_does_not_select_does_not_count_itself() {
    let mut town = three();
    town.pod("web", Some("a1"), same);
    town.pod("cron", None, |s, n| s.spread.push(evenly(n, ZONE, "web")));
    assert_eq!(town.passing(), "a1 a2 b1");
}

#[test]
fn a_node_without_the_label_takes_no_pod_that_spreads_by_it() {
    let mut town = three();
    town.label("a1", "rack", "r1");
    town.pod("web", None, |s, n| s.spread.push(evenly(n, "rack", "web")));
    assert_eq!(town.passing(), "a1");
}

#[test]
fn affinity_asks_for_a_pod_that_is_there() {
    let mut town = three();
    town.pod("db", Some("b1"), same);
    town.pod("web", None, |s, n| s.affinity.push(term(n, ZONE, "db")));
    assert_eq!(town.passing(), "b1");
}

#[test]
fn the_first_of_a_group_may_go_anywhere_but_not_if_it_asks_for_others() {
    for (asks_for, expected) in [("web", "a1 a2 b1"), ("db", "")] {
        let mut town = three();
        town.pod("web", None, |s, n| s.affinity.push(term(n, ZONE, asks_for)));
        assert_eq!(town.passing(), expected);
    }
}

#[test]
fn two_terms_of_affinity_ask_for_a_pod_that_matches_both() {
    let mut town = three();
    town.pod("db", Some("b1"), same);
    town.pod("web", None, |s, n| {
        s.affinity = vec![term(n, ZONE, "db"), term(n, HOST, "cache")]
    });
    assert_eq!(town.passing(), "");
}

#[test]
fn anti_affinity_keeps_away_from_whom_it_selects() {
    let mut town = three();
    town.pod("db", Some("a1"), same);
    town.pod("web", None, |s, n| {
        s.anti_affinity.push(term(n, ZONE, "db"))
    });
    assert_eq!(town.passing(), "b1");
}

#[test]
fn anti_affinity_of_a_running_pod_keeps_others_away() {
    let mut town = three();
    town.pod("db", Some("a1"), |s, n| {
        s.anti_affinity.push(term(n, HOST, "web"))
    });
    town.pod("web", None, same);
    assert_eq!(town.passing(), "a2 b1");
}

#[test]
fn a_term_reaches_other_namespaces_only_if_it_says_so() {
    for (all, expected) in [(false, "a1 a2 b1"), (true, "a2 b1")] {
        let mut town = three();
        town.pod("db", Some("a1"), |s, n| s.namespace = n.intern("elsewhere"));
        town.pod("web", None, |s, n| {
            let mut term = term(n, HOST, "db");
            term.namespace_selector = all.then(|| crate::model::LabelSelector(Some(Vec::new())));
            s.anti_affinity.push(term);
        });
        assert_eq!(town.passing(), expected);
    }
}

#[test]
fn a_term_that_names_no_namespace_means_that_of_its_pod() {
    let mut town = three();
    town.pod("db", Some("a1"), same);
    town.pod("db", Some("b1"), |s, n| s.namespace = n.intern("elsewhere"));
    town.pod("web", None, |s, n| {
        let mut term = term(n, HOST, "db");
        term.namespaces.clear();
        s.affinity.push(term);
    });
    assert_eq!(town.passing(), "a1");
}
