use longshore_ec2::catalogue::class::Class;
use longshore_ec2::catalogue::world;
use longshore_ec2::hash::migration::{HASH, HASH_VERSION};
use serde_json::json;

use super::*;

const SMALL: &str = include_str!("../../../emulator/data/small.json");

fn class() -> EC2NodeClass {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": "default", "annotations": {HASH: "1", HASH_VERSION: "v6"}},
        "spec": {
            "subnetSelectorTerms": [{"id": "subnet-1"}],
            "securityGroupSelectorTerms": [{"id": "sg-1"}],
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "role": "node",
        },
        "status": {
            "subnets": [{"id": "subnet-1", "zone": "us-east-1a"}],
            "securityGroups": [{"id": "sg-1"}, {"id": "sg-2"}],
            "amis": [
                {"id": "ami-arm", "requirements": [
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]},
                {"id": "ami-new", "requirements": [
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]},
            ],
            "capacityReservations": [{
                "id": "cr-1", "availabilityZone": "us-east-1a", "instanceType": "m5.large",
                "instanceMatchCriteria": "targeted", "ownerID": "123456789012",
            }],
        },
    }))
    .unwrap()
}

fn instance() -> InstanceFacts {
    InstanceFacts {
        id: "i-1".into(),
        instance_type: "m5.large".into(),
        image: "ami-new".into(),
        subnet: "subnet-1".into(),
        groups: ["sg-1", "sg-2"].map(String::from).into(),
        ..InstanceFacts::default()
    }
}

/// The reason after changes of class, claim and instance.
fn after(
    change: impl FnOnce(&mut EC2NodeClass, &mut Launch, &mut InstanceFacts),
) -> Result<Option<&'static str>, String> {
    let (mut class, mut instance) = (class(), instance());
    let mut launch = Launch {
        annotations: [(HASH, "1"), (HASH_VERSION, "v6")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..Launch::default()
    };
    change(&mut class, &mut launch, &mut instance);
    let region = world::read("small", SMALL.as_bytes(), None)
        .unwrap()
        .0
        .region;
    let catalogue = ClassCatalogue::new(&region, Class::of(&class).unwrap()).unwrap();
    reason(&Compared {
        region: &region,
        catalogue: &catalogue,
        class: &class,
        launch: &launch,
        instance: &instance,
        bootstrap: false,
    })
}

#[test]
fn each_part_of_an_instance_that_differs_is_a_reason() {
    let is = |reason| Ok(Some(reason));
    assert_eq!(after(|_, _, _| {}), Ok(None));
    let other = |launch: &mut Launch, key: &str, value: &str| {
        launch.annotations.insert(key.into(), value.into());
    };
    assert_eq!(
        after(|_, launch, _| other(launch, HASH, "2")),
        is("NodeClassDrift")
    );
    assert_eq!(
        after(|_, _, own| own.image = "ami-old".into()),
        is("AMIDrift")
    );
    assert_eq!(
        after(|_, _, own| own.groups = ["sg-1".to_owned()].into()),
        is("SecurityGroupDrift")
    );
    assert_eq!(
        after(|_, _, own| own.subnet = "subnet-9".into()),
        is("SubnetDrift")
    );
    assert_eq!(
        after(|_, _, own| own.reservation = Some("cr-1".into())),
        Ok(None)
    );
    assert_eq!(
        after(|_, _, own| own.reservation = Some("cr-9".into())),
        is("CapacityReservationDrift")
    );
    assert_eq!(
        after(|_, _, own| own.placement_group = "pg-1".into()),
        is("PlacementGroupDrift")
    );
}

#[test]
fn hashes_of_different_versions_say_nothing() {
    let changed = after(|_, launch, _| {
        launch.annotations.insert(HASH.into(), "2".into());
        launch.annotations.insert(HASH_VERSION.into(), "v5".into());
    });
    assert_eq!(changed, Ok(None));
}

#[test]
fn what_cannot_be_compared_is_an_error_and_no_drift() {
    let status = |class: &mut EC2NodeClass| class.status.clone().unwrap();
    for result in [
        after(|class, _, _| {
            let mut own = status(class);
            own.amis.clear();
            class.status = Some(own);
        }),
        after(|class, _, _| {
            let mut own = status(class);
            own.security_groups.clear();
            class.status = Some(own);
        }),
        after(|class, _, _| {
            let mut own = status(class);
            own.subnets.clear();
            class.status = Some(own);
        }),
        after(|class, _, _| class.status = None),
        after(|_, _, own| own.image = String::new()),
        after(|_, _, own| own.groups.clear()),
        after(|_, _, own| own.instance_type = "x9.huge".into()),
    ] {
        assert!(result.is_err(), "{result:?}");
    }
}
