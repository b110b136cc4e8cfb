//! Types that EC2 publishes no price for: NodeOverlays in, offerings out.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use longshore_api::manifests::overlays;
use longshore_core::model::Symbols;
use longshore_ec2::catalogue::{ClassCatalogue, Region, preview, world};

/// `m5.large` has a price, `m9.large` and `m9.xlarge` have none. `m9.xlarge` is reserved, too.
fn world() -> (Region, ClassCatalogue) {
    let kind = |name: &str| {
        format!(
            "- {{InstanceType: {name}, ProcessorInfo: {{SupportedArchitectures: [x86_64]}}, \
             VCpuInfo: {{DefaultVCpus: 2}}, MemoryInfo: {{SizeInMiB: 8192}}, NetworkInfo: \
             {{MaximumNetworkInterfaces: 3, Ipv4AddressesPerInterface: 10}}, \
             SupportedUsageClasses: [on-demand, spot]}}"
        )
    };
    let text = format!(
        "region: us-east-1\nzones: {{us-east-1a: use1-az1}}\nprices: {{spot: {{m5.large: \
         {{us-east-1a: 0.03}}}}}}\nfreeReservations: {{cr-1: 2}}\ninstanceTypes:\n{}\n{}\n{}\n\
         nodeClass:\n  apiVersion: karpenter.k8s.aws/v1\n  kind: EC2NodeClass\n  metadata: {{name: \
         default}}\n  spec:\n    role: r\n    amiSelectorTerms: [{{alias: al2023@latest}}]\n    \
         subnetSelectorTerms: [{{id: subnet-1}}]\n    securityGroupSelectorTerms: [{{id: sg-1}}]\n  \
         status:\n    capacityReservations: [{{id: cr-1, availabilityZone: us-east-1a, instanceType: \
         m9.xlarge, instanceMatchCriteria: open, ownerID: '012345678901'}}]\n",
        kind("m5.large"),
        kind("m9.large"),
        kind("m9.xlarge"),
    );
    let read = world::read("world", text.as_bytes(), None);
    let (world, problems) = read.unwrap_or_else(|problems| panic!("{problems}"));
    assert!(problems.is_empty(), "{problems}");
    let class = world.class.expect("there is a class");
    let class = ClassCatalogue::new(&world.region, class).expect("it can be used");
    (world.region, class)
}

/// An overlay: its name, requirements as flow YAML, the rest of its spec.
fn check(all: &[(&str, &str, &str)], expected: Expect) {
    let mut text = String::new();
    for (name, requirements, spec) in all {
        let _ = writeln!(
            text,
            "---\napiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {{name: {name}}}\n\
             spec: {{requirements: [{requirements}], {spec}}}"
        );
    }
    let mut names = Symbols::default();
    let (found, problems) = overlays("overlays", text.as_bytes(), &[], &mut names);
    assert!(problems.is_empty(), "{problems}");
    let (mut region, class) = world();
    let before = region.revisions().prices;
    let prices = preview::prices(&region, &found, &names);
    region.replace_preview(|name| prices.get(name).copied());
    assert_eq!(region.revisions().prices, before + 1);
    let mut out = String::new();
    for (at, kind) in region.types().iter().enumerate() {
        class.offerings(&region, at, &mut |offering| {
            let price = offering
                .price
                .map_or("none".to_owned(), |price| price.to_string());
            let gone = if offering.available {
                ""
            } else {
                ", unavailable"
            };
            let _ = writeln!(
                out,
                "{} {}: {price}{gone}",
                kind.name, offering.capacity_type
            );
        });
    }
    expected.assert_eq(&out);
}

/// What can be bought where no overlay gives a price.
fn unpriced() -> Expect {
    expect![[r#"
        m5.large on-demand: 0.096
        m5.large spot: 0.03
        m9.large on-demand: none, unavailable
        m9.large spot: none, unavailable
        m9.xlarge on-demand: none, unavailable
        m9.xlarge reserved: 0
        m9.xlarge spot: none, unavailable
    "#]]
}

fn types(list: &str) -> String {
    format!("{{key: node.kubernetes.io/instance-type, operator: In, values: [{list}]}}")
}

#[test]
fn without_an_overlay_a_type_without_a_price_cannot_be_bought() {
    check(&[], unpriced());
}

#[test]
fn an_overlay_for_instance_types_gives_the_price_that_they_lack() {
    check(
        &[(
            "new",
            &types("m5.large, m9.large, m9.xlarge"),
            "price: \"0.5\"",
        )],
        expect![[r#"
            m5.large on-demand: 0.096
            m5.large spot: 0.03
            m9.large on-demand: 0.5
            m9.large spot: 0.5
            m9.xlarge on-demand: 0.5
            m9.xlarge reserved: 0
            m9.xlarge spot: 0.5
        "#]],
    );
}

#[test]
fn other_overlays_give_no_price() {
    let zone = "{key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a]}";
    let family = "{key: karpenter.k8s.aws/instance-family, operator: In, values: [m9]}";
    let not = types("m5.large").replace("operator: In", "operator: NotIn");
    check(
        &[
            ("adjusts", &types("m9.large"), "priceAdjustment: \"+1\""),
            (
                "adds",
                &types("m9.large"),
                "capacity: {example.com/x: \"1\"}",
            ),
            (
                "by-zone",
                &format!("{}, {zone}", types("m9.large")),
                "price: \"1\"",
            ),
            ("by-family", family, "price: \"2\""),
            ("others", &not, "price: \"3\""),
        ],
        unpriced(),
    );
}

#[test]
fn the_greatest_weight_counts_and_of_one_weight_the_later_name() {
    check(
        &[
            (
                "low",
                &types("m9.large, m9.xlarge"),
                "price: \"1\", weight: 1",
            ),
            ("high", &types("m9.large"), "price: \"2\", weight: 2"),
        ],
        expect![[r#"
            m5.large on-demand: 0.096
            m5.large spot: 0.03
            m9.large on-demand: 2
            m9.large spot: 2
            m9.xlarge on-demand: 1
            m9.xlarge reserved: 0
            m9.xlarge spot: 1
        "#]],
    );
    // Nothing of the one that is in conflict counts. A type that is nowhere is in no conflict.
    check(
        &[
            ("a", &types("m9.large, m9.xlarge"), "price: \"1\""),
            ("b", &types("m9.large, m10.large"), "price: \"2\""),
        ],
        expect![[r#"
            m5.large on-demand: 0.096
            m5.large spot: 0.03
            m9.large on-demand: 2
            m9.large spot: 2
            m9.xlarge on-demand: none, unavailable
            m9.xlarge reserved: 0
            m9.xlarge spot: none, unavailable
        "#]],
    );
    check(
        &[
            ("a", &types("m9.xlarge, m10.large"), "price: \"1\""),
            ("b", &types("m9.large, m10.large"), "price: \"2\""),
        ],
        expect![[r#"
            m5.large on-demand: 0.096
            m5.large spot: 0.03
            m9.large on-demand: 2
            m9.large spot: 2
            m9.xlarge on-demand: 1
            m9.xlarge reserved: 0
            m9.xlarge spot: 1
        "#]],
    );
}
