use expect_test::expect;
use serde_json::json;

use super::*;

fn terms<T: serde::de::DeserializeOwned>(terms: serde_json::Value) -> Vec<T> {
    serde_json::from_value(terms).unwrap()
}

fn shown(all: &[Filters]) -> String {
    let one = |filters: &Filters| {
        let filters = filters
            .iter()
            .map(|(name, values)| format!("{name}={}", values.join("|")));
        filters.collect::<Vec<_>>().join(" ")
    };
    all.iter().map(one).collect::<Vec<_>>().join("\n")
}

#[test]
fn terms_become_one_query_for_ids_and_one_for_each_set_of_tags() {
    let subnets = terms(json!([
        {"id": "subnet-2"}, {"id": "subnet-1"},
        {"tags": {"team": "a", "discover": "*"}}, {"tags": {"team": "b"}},
    ]));
    let groups = terms(json!([
        {"name": "node"}, {"id": "sg-1"}, {"name": "other"}, {"tags": {"team": "a"}},
    ]));
    let (reservations, ids) = reservation_queries(&terms(json!([
        {"id": "cr-1"},
        {"tags": {"team": "a"}, "ownerID": "123456789012"},
        {"instanceMatchCriteria": "open"},
    ])));
    let all = [
        shown(&subnet_queries(&subnets)),
        shown(&group_queries(&groups)),
        shown(&reservations),
        ids.into_iter().collect::<Vec<_>>().join(" "),
    ];
    expect![[r#"
        subnet-id=subnet-1|subnet-2
        tag-key=discover tag:team=a
        tag:team=b

        group-id=sg-1
        group-name=node|other
        tag:team=a

        tag:team=a owner-id=123456789012 state=active
        instance-match-criteria=open state=active

        cr-1"#]]
    .assert_eq(&all.join("\n\n"));
}

#[test]
fn many_ids_are_asked_for_in_parts() {
    let ids = (0..450).map(|at| format!("ami-{at}")).collect();
    let queries = image_queries(&[], ids);
    let sizes: Vec<usize> = queries
        .iter()
        .map(|query| query.filters[0].1.len())
        .collect();
    assert_eq!(sizes, [200, 200, 50]);
}

#[test]
fn a_name_finds_no_images_of_strangers() {
    let all = terms::<AmiSelectorTerm>(json!([
        {"name": "mine-*"},
        {"name": "theirs-*", "owner": "123456789012"},
        {"tags": {"env": "*"}},
        {"id": "ami-1"},
    ]));
    let queries = image_queries(&all, ["ami-1".to_owned()].into());
    let all: Vec<String> = queries
        .iter()
        .map(|query| {
            format!(
                "{:?} {}",
                query.owners,
                shown(std::slice::from_ref(&query.filters))
            )
        })
        .collect();
    expect![[r#"
        [] image-id=ami-1 state=available
        ["self", "amazon"] name=mine-* state=available
        ["123456789012"] name=theirs-* state=available
        [] tag-key=env state=available"#]]
    .assert_eq(&all.join("\n"));
}

fn price(kind: &str, zone: &str, price: f64, at: i64) -> SpotPrice {
    SpotPrice {
        instance_type: kind.into(),
        zone: zone.into(),
        price,
        at,
    }
}

fn small() -> Region {
    let text = include_str!("../../../emulator/data/small.json");
    longshore_ec2::catalogue::world::read("small", text.as_bytes(), None)
        .unwrap()
        .0
        .region
}

#[test]
fn the_newest_price_counts_and_none_is_no_answer() {
    let mut region = small();
    let at = region.find("m5.large").unwrap();
    set_spot_prices(&mut region, &[]);
    assert_eq!(region.spot(at, 0), Some(0.04712), "as it was");
    let prices = [
        price("m5.large", "us-east-1a", 0.3, 20),
        price("m5.large", "us-east-1a", 0.2, 30),
        price("m5.large", "us-east-1a", 0.1, 10),
    ];
    set_spot_prices(&mut region, &prices);
    assert_eq!((region.spot(at, 0), region.spot(at, 1)), (Some(0.2), None));
}

#[test]
fn a_short_answer_keeps_the_prices_that_it_leaves_out() {
    let before = [
        price("m5.large", "us-east-1a", 0.2, 30),
        price("m5.large", "us-east-1b", 0.3, 30),
    ];
    let short = [price("m5.large", "us-east-1a", 0.1, 40)];
    let all = newest_prices(short.iter().chain(&before));
    let all: Vec<(&str, f64)> = all.iter().map(|one| (&*one.zone, one.price)).collect();
    assert_eq!(all, [("us-east-1a", 0.1), ("us-east-1b", 0.3)]);
}

#[test]
fn zones_are_those_that_offer_a_type() {
    let types: serde_json::Value =
        serde_json::from_str(include_str!("../../../emulator/data/small.json")).unwrap();
    let types = types["instanceTypes"].as_array().unwrap();
    let offered = [
        ("m5.large", "z-b"),
        ("m5.large", "z-a"),
        ("c5.large", "z-b"),
    ];
    let offered = offered.map(|(kind, zone)| (kind.to_owned(), zone.to_owned()));
    let ids = [("z-a".to_owned(), "id-a".to_owned())].into();
    let (region, problems) = region("r", types, &offered, &ids);
    assert!(problems.list.is_empty(), "{problems}");
    let zones: Vec<String> = region
        .zones()
        .iter()
        .map(|zone| format!("{}={}", zone.name, zone.id))
        .collect();
    assert_eq!(zones, ["z-a=id-a", "z-b="]);
    let of = |name: &str| {
        let zones = region.offered_in(region.find(name).unwrap()).iter();
        zones.collect::<Vec<_>>()
    };
    assert_eq!(
        (of("m5.large"), of("c5.large"), of("r5.large")),
        (vec![0, 1], vec![1], vec![])
    );
}

#[test]
fn a_new_region_inherits_what_has_no_capacity() {
    let mut old = small();
    old.set_free("cr-1", 3);
    old.change_unavailable(|all| all.mark_capacity_type("spot", 100));
    let group = PlacementFacts {
        id: "pg-1".into(),
        strategy: "partition".into(),
        partitions: 3,
        ..PlacementFacts::default()
    };
    set_group(&mut old, &group);
    let mut new = small();
    inherit(&mut new, &old, ["cr-1"].into_iter());
    assert!(new.unavailable().has_no("spot"));
    assert_eq!((new.free("cr-1"), new.groups.len()), (3, 1));
    let before = old.groups.clone();
    set_group(&mut old, &group);
    assert!(Arc::ptr_eq(&before, &old.groups), "nothing has changed");
}

#[test]
fn times_and_accounts_are_read_as_aws_writes_them() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_588_683);
    assert_eq!(timestamp(now), "2026-11-25T06:38:03.000Z");
    assert_eq!(
        account_of("arn:aws:eks:us-east-1:123456789012:cluster/demo"),
        "123456789012"
    );
    assert_eq!(account_of("rubbish"), "");
}
