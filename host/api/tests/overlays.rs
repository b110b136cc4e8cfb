//! NodeOverlays on a small catalogue: manifests in, prices and resources by NodePool out.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use longshore_api::manifests::{Reader, overlays};
use longshore_core::model::{
    Catalogue, InstanceType, Offering, Op, Requirement, ResourceId, Resources, Symbols, TypeId,
};
use longshore_core::overlay;

/// Types `c1`, `c2` and `g1` (with a GPU), each in zones `a` and `b`, on demand for a dollar and
/// spot for half of one.
fn catalogue(names: &mut Symbols) -> Catalogue {
    let mut is = |key: &str, value: &str| Requirement::is(names.intern(key), names.intern(value));
    let mut rows = Vec::new();
    for kind in ["c1", "c2", "g1"] {
        let mut requirements = vec![is("node.kubernetes.io/instance-type", kind)];
        let mut gpus = is("example.com/gpus", "1");
        if kind != "g1" {
            gpus.op = Op::DoesNotExist;
        }
        requirements.push(gpus);
        let mut offerings = Vec::new();
        for zone in ["a", "b"] {
            for (capacity, price) in [("on-demand", 1.0), ("spot", 0.5)] {
                let pins = [
                    is("karpenter.sh/capacity-type", capacity),
                    is("topology.kubernetes.io/zone", zone),
                ];
                offerings.push(Offering {
                    instance_type: TypeId(0),
                    requirements: pins.to_vec().into(),
                    zone: None,
                    capacity_type: None,
                    price,
                    available: true,
                    reservation: None,
                });
            }
        }
        rows.push((requirements, offerings));
    }
    let row = |(requirements, offerings): (Vec<Requirement>, Vec<Offering>)| {
        let Op::In(name) = &requirements[0].op else {
            unreachable!("a type has a name")
        };
        let kind = InstanceType {
            name: name[0],
            capacity: Resources::new([(ResourceId::Cpu, 1000)]),
            allocatable: Resources::new([(ResourceId::Cpu, 900)]),
            volume_limits: Vec::new(),
            incompatible: None,
            offerings: 0..0,
            requirements,
        };
        (kind, offerings)
    };
    let rows = rows.into_iter().map(row).collect();
    Catalogue::new(rows, names)
}

const POOLS: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: blue}
spec: {template: {metadata: {labels: {team: blue}}, spec: {requirements: [],
  nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: red}
spec: {template: {metadata: {labels: {team: red}}, spec: {requirements: [],
  nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}}}
";

/// An overlay: name, requirements as flow YAML, the rest of its spec.
fn check(all: &[(&str, &str, &str)], expected: Expect) {
    let mut text = String::new();
    for (name, requirements, spec) in all {
        let _ = writeln!(
            text,
            "---\napiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {{name: {name}}}\n\
             spec: {{requirements: [{requirements}], {spec}}}"
        );
    }
    let mut reader = Reader::new();
    reader.read("pools", POOLS.as_bytes());
    let (mut world, problems) = reader.finish();
    assert!(problems.list.is_empty(), "{problems}");
    let before = catalogue(&mut world.names);
    let (found, problems) = overlays("overlays", text.as_bytes(), &[], &mut world.names);
    assert!(problems.list.is_empty(), "{problems}");
    let made = overlay::apply(&before, &found, world.pools.iter(), &mut world.names);
    let names = &world.names;
    let mut out = String::new();
    for name in made.conflicts {
        let _ = writeln!(out, "conflict: {}", names.text(name));
    }
    for (at, kind) in made.catalogue.types().iter().enumerate() {
        let of = TypeId(at as u32);
        let mut line = names.text(kind.name).to_owned();
        for requirement in &kind.requirements {
            if let ("karpenter.sh/nodepool", Op::In(pools)) =
                (names.text(requirement.key), &requirement.op)
            {
                let pools: Vec<&str> = pools.iter().map(|pool| names.text(*pool)).collect();
                let _ = write!(line, " of {}", pools.join(" and "));
            }
        }
        let prices = made.catalogue.offerings_of(of).iter();
        let prices: Vec<String> = prices
            .map(|offering| {
                let pins = offering.requirements.iter().map(|one| match &one.op {
                    Op::In(values) => names.text(values[0]),
                    _ => "",
                });
                let pins: Vec<&str> = pins.collect();
                format!("{} {:.2}", pins.join(" "), offering.price)
            })
            .collect();
        let capacity = kind.capacity.iter().zip(kind.allocatable.iter());
        let more: Vec<String> = capacity
            .filter(|((of, _), _)| *of != ResourceId::Cpu)
            .map(|((of, has), (_, free))| format!("{} {has} ({free})", of.name(names)))
            .collect();
        let _ = writeln!(out, "{line}: {}; {}", prices.join(", "), more.join(", "));
    }
    expected.assert_eq(&out);
}

#[test]
fn prices_and_resources_change_where_the_requirements_are_met() {
    check(
        &[
            (
                "spot",
                "{key: karpenter.sh/capacity-type, operator: In, values: [spot]}",
                "priceAdjustment: \"+10%\"",
            ),
            (
                "zone",
                "{key: topology.kubernetes.io/zone, operator: NotIn, values: [a]}, \
                 {key: node.kubernetes.io/instance-type, operator: In, values: [c2]}",
                "price: \"0.25\", weight: 5",
            ),
            (
                "gpus",
                "{key: example.com/gpus, operator: Exists}",
                "priceAdjustment: \"-2\", weight: 7, capacity: {example.com/slices: \"7\"}",
            ),
            (
                "no-such-label",
                "{key: example.com/other, operator: Exists}",
                "price: \"9\", weight: 9",
            ),
        ],
        expect![[r#"
            c1: spot a 0.55, spot b 0.55, on-demand a 1.00, on-demand b 1.00; 
            c2: spot b 0.25, on-demand b 0.25, spot a 0.55, on-demand a 1.00; 
            g1: spot a 0.00, spot b 0.00, on-demand a 0.00, on-demand b 0.00; example.com/slices 7 (7)
        "#]],
    );
}

#[test]
fn the_greatest_weight_counts_apart_for_each_price_and_resource() {
    let c1 = "{key: node.kubernetes.io/instance-type, operator: In, values: [c1]}";
    check(
        &[
            (
                "low",
                c1,
                "price: \"3\", weight: 1, capacity: {example.com/x: \"1\", example.com/y: \"1\"}",
            ),
            ("high", c1, "weight: 2, capacity: {example.com/x: \"2\"}"),
            ("none", c1, "price: \"4\", capacity: {example.com/z: \"4\"}"),
        ],
        expect![[r#"
            c1: spot a 3.00, spot b 3.00, on-demand a 3.00, on-demand b 3.00; example.com/x 2 (2), example.com/y 1 (1), example.com/z 4 (4)
            c2: spot a 0.50, spot b 0.50, on-demand a 1.00, on-demand b 1.00; 
            g1: spot a 0.50, spot b 0.50, on-demand a 1.00, on-demand b 1.00; 
        "#]],
    );
}

#[test]
fn two_of_one_weight_that_touch_the_same_are_in_conflict() {
    let kinds = |kinds: &str| {
        format!("{{key: node.kubernetes.io/instance-type, operator: In, values: [{kinds}]}}")
    };
    let (c1, both, g1) = (kinds("c1"), kinds("c1, c2"), kinds("g1"));
    check(
        &[
            ("a", &both, "price: \"3\", capacity: {example.com/x: \"3\"}"),
            ("b", &c1, "price: \"4\""),
            ("c", &g1, "price: \"5\""),
            ("d", &c1, "capacity: {example.com/y: \"1\"}"),
        ],
        expect![[r#"
            conflict: a
            c1: spot a 4.00, spot b 4.00, on-demand a 4.00, on-demand b 4.00; example.com/y 1 (1)
            c2: spot a 0.50, spot b 0.50, on-demand a 1.00, on-demand b 1.00; 
            g1: spot a 5.00, spot b 5.00, on-demand a 5.00, on-demand b 5.00; 
        "#]],
    );
    // The second does not count, and still has touched the price with its weight.
    check(
        &[
            ("a", &c1, "price: \"3\", weight: 5"),
            ("b", &c1, "price: \"4\", weight: 5"),
            ("c", &c1, "price: \"5\", weight: 9"),
        ],
        expect![[r#"
            conflict: a
            c1: spot a 5.00, spot b 5.00, on-demand a 5.00, on-demand b 5.00; 
            c2: spot a 0.50, spot b 0.50, on-demand a 1.00, on-demand b 1.00; 
            g1: spot a 0.50, spot b 0.50, on-demand a 1.00, on-demand b 1.00; 
        "#]],
    );
}

#[test]
fn an_overlay_can_be_for_some_nodepools() {
    check(
        &[
            (
                "team",
                "{key: team, operator: In, values: [blue]}, \
                 {key: node.kubernetes.io/instance-type, operator: In, values: [c1]}",
                "priceAdjustment: \"-50%\"",
            ),
            (
                "pool",
                "{key: karpenter.sh/nodepool, operator: NotIn, values: [blue]}, \
                 {key: node.kubernetes.io/instance-type, operator: In, values: [c2]}",
                "price: \"2\"",
            ),
        ],
        expect![[r#"
            c1 of blue: spot a 0.25, spot b 0.25, on-demand a 0.50, on-demand b 0.50; 
            c1 of red: spot a 0.50, spot b 0.50, on-demand a 1.00, on-demand b 1.00; 
            c2 of blue: spot a 0.50, spot b 0.50, on-demand a 1.00, on-demand b 1.00; 
            c2 of red: spot a 2.00, spot b 2.00, on-demand a 2.00, on-demand b 2.00; 
            g1: spot a 0.50, spot b 0.50, on-demand a 1.00, on-demand b 1.00; 
        "#]],
    );
}

#[test]
fn huge_pages_that_an_overlay_adds_are_taken_from_memory() {
    let gi = |amount: i64| amount << 30;
    let of = |pages: i64, added: i64| {
        let mut reader = Reader::new();
        reader.read("pools", POOLS.as_bytes());
        let (mut world, _) = reader.finish();
        let huge = ResourceId::named("hugepages-2Mi", &mut world.names);
        let kind = InstanceType {
            name: world.names.intern("m"),
            capacity: Resources::new([(ResourceId::Memory, gi(16)), (huge, gi(pages))]),
            allocatable: Resources::new([(ResourceId::Memory, gi(15 - pages)), (huge, gi(pages))]),
            volume_limits: Vec::new(),
            incompatible: None,
            offerings: 0..0,
            requirements: Vec::new(),
        };
        let offering = Offering {
            instance_type: TypeId(0),
            requirements: Vec::new().into(),
            zone: None,
            capacity_type: None,
            price: 1.0,
            available: true,
            reservation: None,
        };
        let before = Catalogue::new(vec![(kind, vec![offering])], &world.names);
        let text = format!(
            "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {{name: pages}}\n\
             spec: {{requirements: [], capacity: {{hugepages-2Mi: {added}Gi}}}}\n"
        );
        let (found, problems) = overlays("overlays", text.as_bytes(), &[], &mut world.names);
        assert!(problems.list.is_empty(), "{problems}");
        let made = overlay::apply(&before, &found, world.pools.iter(), &mut world.names);
        let kind = &made.catalogue.types()[0];
        let left = kind.allocatable.get(ResourceId::Memory) >> 30;
        (
            left,
            kind.allocatable.get(huge) >> 30,
            kind.capacity.get(ResourceId::Memory) >> 30,
            made.catalogue.offerings()[0].available,
        )
    };
    assert_eq!(of(0, 8), (7, 8, 16, true), "memory that is there stays");
    assert_eq!(of(2, 4), (11, 4, 16, true), "some were there already");
    assert_eq!(of(0, 99), (0, 99, 16, false), "no machine has so many");
}

#[test]
fn every_value_of_an_overlay_is_one_that_a_label_may_have() {
    let said = |operator: &str, value: &str| {
        let text = format!(
            "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {{name: o}}\nspec: \
             {{requirements: [{{key: tier, operator: {operator}, values: ['{value}']}}], price: '1'}}\n"
        );
        let mut names = Symbols::default();
        overlays("overlays", text.as_bytes(), &[], &mut names)
            .1
            .to_string()
    };
    for (operator, value) in [("In", "a b"), ("Exists", "a b"), ("DoesNotExist", "-a")] {
        let said = said(operator, value);
        assert!(said.contains("is not a label value"), "{operator}: {said}");
    }
    assert!(said("Gt", "+1").contains("has no single bound"));
    assert_eq!(said("Gt", "1"), "");
    assert_eq!(said("Exists", "a"), "");
}
