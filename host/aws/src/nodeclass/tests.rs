use expect_test::expect;
use longshore_ec2::nodeclass::Ami;
use serde_json::json;

use super::*;
use crate::calls::Call;

fn class(spec: serde_json::Value) -> EC2NodeClass {
    let mut whole = json!({
        "subnetSelectorTerms": [{"id": "subnet-1"}],
        "securityGroupSelectorTerms": [{"id": "sg-1"}],
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "role": "node",
    });
    whole
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    serde_json::from_value(json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": "default", "generation": 3}, "spec": whole,
    }))
    .unwrap()
}

fn region() -> Region {
    Region::new("us-east-1", Vec::new(), Vec::new().into())
}

fn subnet(id: &str, free: i64) -> SubnetFacts {
    SubnetFacts {
        id: id.into(),
        zone: "us-east-1a".into(),
        free,
        ..SubnetFacts::default()
    }
}

/// Everything is found.
fn found() -> Observed {
    let group = |id: &str| GroupFacts {
        id: id.into(),
        ..GroupFacts::default()
    };
    let ami = Ami {
        id: "ami-1".into(),
        ..Ami::default()
    };
    Observed {
        images: Some(Ok(Selected {
            amis: vec![ami],
            missing: Vec::new(),
            unusable: Vec::new(),
        })),
        reservations: Some(Ok(Vec::new())),
        placement: None,
        subnets: Some(Ok(vec![
            subnet("subnet-2", 5),
            subnet("subnet-3", 9),
            subnet("subnet-1", 5),
        ])),
        groups: Some(Ok(vec![group("sg-2"), group("sg-1"), group("sg-2")])),
        profile: Some(Ok("demo_1".into())),
        probe: Some(Probe::Passed),
    }
}

/// Conditions as lines, after those of `before`.
fn shown(class: &EC2NodeClass, observed: &Observed) -> String {
    let status = status(class, observed, &region(), 1000);
    let line = |own: &Condition| {
        let line = format!(
            "{}={} {} {}",
            own.type_,
            own.status.text(),
            own.reason,
            own.message
        );
        line.trim().to_owned()
    };
    let lines: Vec<String> = status.conditions.iter().map(line).collect();
    lines.join("\n")
}

#[test]
fn what_is_found_is_ordered_and_the_class_is_ready() {
    let class = class(json!({}));
    let status = status(&class, &found(), &region(), 1000);
    let subnets: Vec<&str> = status.subnets.iter().map(|one| &*one.id).collect();
    assert_eq!(subnets, ["subnet-3", "subnet-1", "subnet-2"]);
    let groups: Vec<&str> = status.security_groups.iter().map(|one| &*one.id).collect();
    assert_eq!(groups, ["sg-1", "sg-2"]);
    assert_eq!(status.instance_profile.as_deref(), Some("demo_1"));
    assert!(
        status
            .conditions
            .iter()
            .all(|own| own.observed_generation == Some(3))
    );
    expect![[r#"
        AMIsReady=True AMIsReady
        CapacityReservationsReady=True CapacityReservationsReady
        PlacementGroupReady=True PlacementGroupReady
        SubnetsReady=True SubnetsReady
        SecurityGroupsReady=True SecurityGroupsReady
        InstanceProfileReady=True InstanceProfileReady
        ValidationSucceeded=True ValidationSucceeded
        Ready=True Ready"#]]
    .assert_eq(&shown(&class, &found()));
}

#[test]
fn selectors_that_match_nothing_say_so_and_what_waits_for_them() {
    let nothing = Observed {
        images: Some(Ok(Selected {
            amis: Vec::new(),
            missing: vec!["/aws/x".into()],
            unusable: Vec::new(),
        })),
        subnets: Some(Ok(Vec::new())),
        groups: Some(Ok(Vec::new())),
        profile: Some(Err(ProfileFault::NoRole("node".into()))),
        placement: Some(Ok(None)),
        ..Observed::default()
    };
    let class = class(json!({"placementGroupSelector": {"name": "rack"}}));
    expect![[r#"
        AMIsReady=False AMINotFound spec.amiSelectorTerms select no image; see that the version of al2023@latest exists; there is no SSM parameter /aws/x
        PlacementGroupReady=False PlacementGroupNotFound placement group rack does not exist; create it or correct spec.placementGroupSelector
        SubnetsReady=False SubnetsNotFound spec.subnetSelectorTerms select no subnet; see that tags and IDs are those of subnets in this region
        SecurityGroupsReady=False SecurityGroupsNotFound spec.securityGroupSelectorTerms select no security group; see that tags, names and IDs are those of groups in this region
        InstanceProfileReady=False RoleNotFound the role node does not exist; create it or correct spec.role
        ValidationSucceeded=False DependenciesNotReady waits for AMIsReady, InstanceProfileReady, SecurityGroupsReady, SubnetsReady
        Ready=False UnhealthyDependents AMIsReady=AMINotFound, SubnetsReady=SubnetsNotFound, SecurityGroupsReady=SecurityGroupsNotFound, InstanceProfileReady=RoleNotFound, PlacementGroupReady=PlacementGroupNotFound, ValidationSucceeded=DependenciesNotReady"#]]
    .assert_eq(&shown(&class, &nothing));
}

#[test]
fn an_error_leaves_what_was_known_but_a_missing_right_is_said() {
    let mut class = class(json!({}));
    class.status = Some(status(&class, &found(), &region(), 1000));
    let slow = ApiError::new(Call::DescribeSubnets, "RequestLimitExceeded", "slow down");
    let denied = ApiError::new(Call::DescribeSecurityGroups, "UnauthorizedOperation", "no");
    let observed = Observed {
        subnets: Some(Err(slow.clone())),
        ..found()
    };
    let next = status(&class, &observed, &region(), 2000);
    assert_eq!(Some(&next), class.status.as_ref(), "nothing is written");
    let observed = Observed {
        groups: Some(Err(denied)),
        ..found()
    };
    let next = status(&class, &observed, &region(), 2000);
    assert_eq!(
        next.security_groups.len(),
        2,
        "drift still has something to compare with"
    );
    let groups = condition(&next.conditions, "SecurityGroupsReady").unwrap();
    assert_eq!(
        (groups.status, &*groups.reason),
        (ConditionStatus::False, "Unauthorized")
    );
    assert!(
        groups.message.contains("allow ec2:DescribeSecurityGroups"),
        "{}",
        groups.message
    );
    // A class that was never looked at is not ready, and not broken.
    let mut new = class;
    new.status = None;
    let observed = Observed {
        subnets: Some(Err(slow)),
        ..Observed::default()
    };
    let next = status(&new, &observed, &region(), 1000);
    let ready = condition(&next.conditions, "Ready").unwrap();
    assert_eq!(ready.status, ConditionStatus::Unknown);
}

#[test]
fn settings_and_tags_are_checked_before_a_launch_is_tried() {
    let bad = class(json!({"kubelet": {"maxPods": -1}}));
    let text = shown(&bad, &found());
    assert!(
        text.contains("ValidationSucceeded=False InvalidKubeletConfiguration"),
        "{text}"
    );
    let failed = |error: &ApiError| {
        let observed = Observed {
            probe: Some(probe_failed(error)),
            ..found()
        };
        let text = shown(&class(json!({})), &observed);
        text.lines()
            .find(|line| line.starts_with("Validation"))
            .unwrap()
            .to_owned()
    };
    let cases = [
        ApiError::new(Call::CreateFleet, "UnauthorizedOperation", "no"),
        ApiError::new(Call::RunInstances, "InvalidAMIID.NotFound", "no image"),
        ApiError::new(Call::RunInstances, "RequestLimitExceeded", "slow down"),
        ApiError::new(
            Call::CreateLaunchTemplate,
            "InvalidParameterValue",
            "User data is limited to 16384 bytes",
        ),
    ];
    let all: Vec<String> = cases.iter().map(failed).collect();
    expect![[r#"
        ValidationSucceeded=False CreateFleetAuthCheckFailed ec2:CreateFleet: UnauthorizedOperation: no; allow ec2:CreateFleet in the policy of Longshore's role
        ValidationSucceeded=Unknown Pending ec2:RunInstances: InvalidAMIID.NotFound: no image
        ValidationSucceeded=Unknown Pending ec2:RunInstances: RequestLimitExceeded: slow down
        ValidationSucceeded=False UserDataSizeLimitExceeded ec2:CreateLaunchTemplate: InvalidParameterValue: User data is limited to 16384 bytes"#]]
    .assert_eq(&all.join("\n"));
}

#[test]
fn reservations_that_are_over_or_of_an_unknown_kind_are_left_out() {
    let one = |id: &str, kind: &str, end: Option<i64>| ReservationFacts {
        id: id.into(),
        kind: kind.into(),
        criteria: "targeted".into(),
        end,
        ..ReservationFacts::default()
    };
    let all = [
        one("cr-4", "capacity-block", Some(1000 + EXPIRING_SECONDS + 1)),
        one("cr-3", "capacity-block", Some(1000 + EXPIRING_SECONDS)),
        one("cr-2", "default", Some(1001)),
        one("cr-1", "default", Some(1000)),
        one("cr-5", "new-kind", None),
        one("cr-2", "default", Some(1001)),
    ];
    let shown: Vec<String> = reservations(&all, 1000)
        .iter()
        .map(|own| format!("{} {:?}", own.id, own.state))
        .collect();
    assert_eq!(shown, ["cr-2 Active", "cr-3 Expiring", "cr-4 Active"]);
}

#[test]
fn nothing_is_launched_from_a_class_that_is_not_ready() {
    let mut class = class(json!({}));
    assert!(
        launchable(&class)
            .unwrap_err()
            .contains("no condition Ready")
    );
    class.status = Some(status(&class, &found(), &region(), 1000));
    assert_eq!(launchable(&class), Ok(()));
    class.metadata.generation = Some(4);
    assert!(launchable(&class).unwrap_err().contains("has changed"));
    class.metadata.deletion_timestamp = Some(Time(Timestamp::from_second(1).unwrap()));
    assert!(launchable(&class).unwrap_err().contains("being deleted"));
}

#[test]
fn a_class_ends_after_its_claims() {
    assert_eq!(ending(&[]), Ending::CleansUp);
    let claims: Vec<String> = (0..7).map(|at| format!("c{at}")).collect();
    let Ending::Waits(message) = ending(&claims) else {
        panic!("waits")
    };
    assert_eq!(
        message,
        "waiting on NodeClaim termination for c0, c1, c2, c3, c4 and 2 more"
    );
}

#[test]
fn a_profile_that_ec2_does_not_see_yet_is_no_fault_of_the_class() {
    let message = "Value (demo_1) for parameter iamInstanceProfile.name is invalid. Invalid IAM \
                   Instance Profile name";
    let error = ApiError::new(Call::RunInstances, "InvalidParameterValue", message);
    assert!(matches!(probe_failed(&error), Probe::NoProfileYet(_)));
    let expired = ApiError::new(Call::CreateFleet, "RequestExpired", "clock");
    assert!(matches!(probe_failed(&expired), Probe::Later(_)));
}

#[test]
fn a_version_of_kubernetes_that_is_not_known_is_said() {
    assert_eq!(unknown_kubernetes(None), None);
    assert_eq!(unknown_kubernetes(Some(26)), None);
    assert_eq!(unknown_kubernetes(Some(37)), None);
    let mut region = region();
    region.settings.kubernetes = Some(38);
    let status = status(&class(json!({})), &found(), &region, 1000);
    let own = condition(&status.conditions, "ValidationSucceeded").unwrap();
    assert_eq!(own.status, ConditionStatus::True);
    assert_eq!(
        own.message,
        "Kubernetes 1.38 is not one of the versions 1.26 to 1.37 that Longshore knows"
    );
}
