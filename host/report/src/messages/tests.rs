use super::*;
use longshore_core::model::ResourceId;
use longshore_core::plan::Refusal;
use longshore_core::reasons::TypesLeft;

fn words(world: &ClusterObjects) -> Messages<'_> {
    Messages {
        world,
        shape: None,
        pool: None,
    }
}

#[test]
fn counts_of_types_come_largest_first() {
    let left = TypesLeft {
        all: 844,
        resources: [0, 812, 0, 0, 0],
        offerings: 32,
        ..TypesLeft::default()
    };
    assert_eq!(
        words(&ClusterObjects::default()).sentence(&Unfit::Types(left)),
        "812 of 844 types: too little memory; 32: no offering available"
    );
}

#[test]
fn types_that_do_not_suit_the_node_class_are_told_from_those_without_an_offering() {
    let mut world = ClusterObjects::default();
    let why = world
        .names
        .intern("no image in the NodeClass's status fits them");
    let left = TypesLeft {
        all: 844,
        labels: 800,
        offerings: 3,
        incompatible: 41,
        incompatible_for: Some(why),
        ..TypesLeft::default()
    };
    assert_eq!(
        words(&world).sentence(&Unfit::Types(left)),
        "800 of 844 types: labels do not match; 41: no image in the NodeClass's status fits \
         them; 3: no offering available"
    );
}

#[test]
fn what_a_policy_excludes_is_told_from_what_nobody_offers() {
    let world = ClusterObjects::default();
    let mut left = TypesLeft {
        all: 9,
        labels: 2,
        offerings: 3,
        excluded: 4,
        excluded_by: vec!["green".into()],
        ..TypesLeft::default()
    };
    assert_eq!(
        words(&world).sentence(&Unfit::Types(left.clone())),
        "4 of 9 types: policy green excludes every offering; 3: no offering available; 2: labels do \
         not match"
    );
    let short = TypesLeft {
        short: 2,
        short_until: 3_600,
        ..left.clone()
    };
    assert_eq!(
        words(&world).sentence(&Unfit::Types(short)),
        "4 of 9 types: policy green excludes every offering with capacity; 3: no offering available; \
         2: labels do not match; 2 offerings are unavailable until 01:00:00 UTC"
    );
    left.excluded_by = vec!["green".into(), "quota".into(), "vendor".into()];
    let several = words(&world).sentence(&Unfit::Types(left.clone()));
    assert!(
        several.starts_with(
            "4 of 9 types: policies green, quota and vendor together exclude every offering"
        ),
        "{several}"
    );
    left.excluded_by.clear();
    let unnamed = words(&world).sentence(&Unfit::Types(left));
    assert!(
        unnamed.contains("the policy excludes every offering"),
        "{unnamed}"
    );
    let policies = vec!["green".into()];
    assert_eq!(
        words(&world).sentence(&Unfit::Excluded { policies }),
        "policy green excludes every offering that fits"
    );
}

#[test]
fn what_is_without_capacity_for_now_is_said_with_its_end() {
    let until = 1_793_541_800;
    let left = TypesLeft {
        all: 3,
        offerings: 3,
        short: 5,
        short_until: until,
        ..TypesLeft::default()
    };
    assert_eq!(
        words(&ClusterObjects::default()).sentence(&Unfit::Types(left)),
        "3 of 3 types: no offering available; 5 offerings are unavailable until 14:03:20 UTC"
    );
}

#[test]
fn a_spread_constraint_names_the_domain_with_the_fewest_pods_and_what_keeps_pods_out_of_it() {
    let mut world = ClusterObjects::default();
    let [key, domain] =
        ["topology.kubernetes.io/zone", "us-east-1e"].map(|text| world.names.intern(text));
    let said = |barred| {
        let least = Some(Box::new(Least {
            domain,
            pods: 2,
            barred,
        }));
        words(&world).sentence(&Unfit::Topology {
            rule: TopologyRule::Spread,
            key,
            least,
        })
    };
    let start = "topology spread over topology.kubernetes.io/zone leaves no domain: \
        us-east-1e has the fewest pods (2)";
    assert_eq!(said(Barred::Unasked), start);
    assert_eq!(
        said(Barred::NotOffered),
        format!("{start}, and no NodePool offers it")
    );
    let left = TypesLeft {
        all: 3,
        offerings: 3,
        short: 5,
        short_until: 1_793_541_800,
        ..TypesLeft::default()
    };
    let refusal = Refusal {
        target: Target::Pod,
        unfit: Unfit::Types(left),
    };
    assert_eq!(
        said(Barred::Refused(refusal)),
        format!(
            "{start}, and none can be added there: 3 of 3 types: no offering available; \
             5 offerings are unavailable until 14:03:20 UTC"
        )
    );
}

#[test]
fn a_domain_whose_offerings_are_all_short_is_told_from_one_that_nobody_offers() {
    use longshore_core::model::{Catalogue, InstanceType, Offering, OfferingId, TypeId};
    let mut world = ClusterObjects::default();
    let names = &mut world.names;
    let [key, short, never] = [ZONE, "us-east-1c", "us-east-1z"].map(|text| names.intern(text));
    let kind = InstanceType::named(names.intern("m5.large"));
    let offering = Offering {
        instance_type: TypeId(0),
        requirements: Vec::new().into(),
        zone: Some(short),
        capacity_type: None,
        price: 1.0,
        available: true,
        reservation: None,
    };
    let whole = Catalogue::new(vec![(kind, vec![offering])], names);
    world.catalogue = whole.without_capacity(&[(OfferingId(0), 1_793_541_800)]);
    let said = |domain| {
        let least = Least {
            domain,
            pods: 0,
            barred: Barred::NotOffered,
        };
        words(&world).sentence(&Unfit::Topology {
            rule: TopologyRule::Spread,
            key,
            least: Some(Box::new(least)),
        })
    };
    let short = said(short);
    assert!(
        short.ends_with("and every offering there is without capacity now"),
        "{short}"
    );
    let never = said(never);
    assert!(never.ends_with("and no NodePool offers it"), "{never}");
}

#[test]
fn the_share_of_daemons_is_named() {
    let left = TypesLeft {
        all: 3,
        resources: [3, 0, 0, 0, 0],
        daemons: Some((ResourceId::Cpu, 1500)),
        by_daemons: 2,
        ..TypesLeft::default()
    };
    assert_eq!(
        words(&ClusterObjects::default()).sentence(&Unfit::Types(left)),
        "3 of 3 types: too little cpu; 2 of them would be large enough but for DaemonSets, \
         which take 1500m cpu of each"
    );
}

#[test]
fn amounts_are_in_the_units_of_manifests() {
    let unfit = Unfit::Resource {
        resource: ResourceId::Memory,
        wants: 3 << 30,
        free: 512 << 20,
    };
    assert_eq!(
        words(&ClusterObjects::default()).sentence(&unfit),
        "too little memory: wants 3Gi, free 512Mi"
    );
    let unfit = Unfit::Resource {
        resource: ResourceId::Cpu,
        wants: 4000,
        free: -250,
    };
    assert_eq!(
        words(&ClusterObjects::default()).sentence(&unfit),
        "too little cpu: wants 4, free -250m"
    );
}

#[test]
fn a_taint_is_written_as_kubectl_does() {
    let mut world = ClusterObjects::default();
    let taint = longshore_core::model::Taint {
        key: world.names.intern("gpu"),
        value: world.names.intern(""),
        effect: TaintEffect::NoSchedule,
    };
    assert_eq!(
        words(&world).sentence(&Unfit::Taint(taint)),
        "it does not tolerate taint gpu:NoSchedule"
    );
}

#[test]
fn times_are_written_as_objects_have_them() {
    assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
    assert_eq!(rfc3339(1_795_539_600), "2026-11-24T17:00:00Z");
    assert_eq!(rfc3339(951_782_399), "2000-02-28T23:59:59Z");
}
