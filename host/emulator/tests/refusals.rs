//! What EC2 and IAM refuse by their own models is refused here: limits of lists, tags and names, and
//! parts that do not go together.

use crate::common::{IMAGE, START, ec2, form, reply, world};
use longshore_emulator::{Account, Time, World};

/// The code that a request is refused with; empty if it is not.
fn code(world: &mut World, query: &str) -> String {
    let text = ec2(world, query);
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("Code "));
    line.unwrap_or_default().to_owned()
}

fn template(name: &str, more: &str) -> String {
    format!(
        "Action=CreateLaunchTemplate&LaunchTemplateName={name}\
         &LaunchTemplateData.ImageId={IMAGE}{more}"
    )
}

fn tag(number: usize, key: &str, value: &str) -> String {
    format!("&Tag.{number}.Key={key}&Tag.{number}.Value={value}")
}

#[test]
fn tags_are_few_short_and_not_awss_own() {
    let world = &mut world();
    let tags = |tags: &str| {
        let tags = tags.replace("&Tag.", "&TagSpecification.1.Tag.");
        template(
            "t-1",
            &format!("&TagSpecification.1.ResourceType=launch-template{tags}"),
        )
    };
    let many: String = (1..=51).map(|n| tag(n, &format!("k{n}"), "v")).collect();
    for (given, refused) in [
        (many, "TagLimitExceeded"),
        (tag(1, "aws%3Amine", "v"), "InvalidParameterValue"),
        (
            tag(1, "a", "1") + &tag(2, "a", "2"),
            "InvalidParameterValue",
        ),
        (tag(1, &"k".repeat(128), "v"), "InvalidParameterValue"),
        (tag(1, "k", &"v".repeat(257)), "InvalidParameterValue"),
        (tag(1, &"k".repeat(127), &"v".repeat(256)), ""),
    ] {
        assert_eq!(code(world, &tags(&given)), refused, "{given}");
    }
    let id = ec2(world, "Action=DescribeLaunchTemplates");
    let id = id
        .lines()
        .find_map(|line| line.trim().strip_prefix("launchTemplateId "))
        .unwrap()
        .to_owned();
    let more: String = (1..=50).map(|n| tag(n, &format!("k{n}"), "v")).collect();
    let retag = format!("Action=CreateTags&ResourceId.1={id}{more}");
    assert_eq!(
        code(world, &retag),
        "TagLimitExceeded",
        "with the one it has"
    );
    let own = format!(
        "Action=CreateTags&ResourceId.1={id}{}",
        tag(1, "AWS%3Ax", "v")
    );
    assert_eq!(code(world, &own), "InvalidParameterValue");
}

#[test]
fn lists_have_their_limits() {
    let world = &mut world();
    let values = |count: usize| -> String {
        let value = |n| format!("&Filter.1.Value.{n}=i-{n:x}");
        let values: String = (1..=count).map(value).collect();
        format!("Action=DescribeInstances&Filter.1.Name=instance-id{values}")
    };
    assert_eq!(code(world, &values(200)), "");
    assert_eq!(code(world, &values(201)), "FilterLimitExceeded");
    let types: String = (1..=101)
        .map(|n| format!("&InstanceType.{n}=m5.large"))
        .collect();
    let types = format!("Action=DescribeInstanceTypes{types}");
    assert_eq!(code(world, &types), "InvalidParameterValue");
    assert_eq!(code(world, &template("many", "")), "");
    let config = |n: usize| {
        format!(
            "&LaunchTemplateConfigs.{n}.LaunchTemplateSpecification.LaunchTemplateName=many\
             &LaunchTemplateConfigs.{n}.LaunchTemplateSpecification.Version=1"
        )
    };
    let configs: String = (1..=51).map(config).collect();
    let fleet = format!(
        "Action=CreateFleet&Type=instant&TargetCapacitySpecification.TotalTargetCapacity=1{configs}"
    );
    assert_eq!(code(world, &fleet), "InvalidParameterValue");
}

#[test]
fn launches_are_tried_as_they_would_be_made() {
    let world = &mut world();
    let dry = |more: &str| format!("Action=RunInstances&DryRun=true&MinCount=1&MaxCount=1{more}");
    for (more, refused) in [
        (
            "&ImageId=ami-latest&InstanceType=m5.large",
            "InvalidAMIID.Malformed",
        ),
        (
            "&ImageId=ami-00000000000000000&InstanceType=m5.large",
            "InvalidAMIID.NotFound",
        ),
        (
            "&ImageId=ami-00000000000000000&SecurityGroupId.1=sg-1\
             &NetworkInterface.1.DeviceIndex=0&NetworkInterface.1.SecurityGroupId.1=sg-1",
            "InvalidParameterCombination",
        ),
    ] {
        assert_eq!(code(world, &dry(more)), refused, "{more}");
    }
    let data = "QUFB".repeat(6_000);
    let long = dry(&format!("&ImageId={IMAGE}&UserData={data}"));
    assert_eq!(code(world, &long), "InvalidParameterValue");
}

#[test]
fn ec2_knows_a_profile_a_while_after_iam() {
    let mut account = Account::default_region();
    account.settings.lag_milliseconds = (0, 0);
    account.settings.throttle = false;
    account.settings.profile_milliseconds = 6_000;
    account.roles.insert("node".to_owned());
    let world = &mut World::new(account, 1);
    let iam = |world: &mut World, query: &str| {
        let request = form("iam", &format!("{query}&Version=2010-05-08"));
        reply(world, START, &request).status
    };
    let make = "Action=CreateInstanceProfile&InstanceProfileName=p&Path=/a/";
    assert_eq!(iam(world, make), 200);
    let add = "Action=AddRoleToInstanceProfile&InstanceProfileName=p&RoleName=node";
    assert_eq!(iam(world, add), 200);
    let mut tried = |after: i64| {
        let query = format!(
            "Action=RunInstances&DryRun=true&MinCount=1&MaxCount=1&ImageId={IMAGE}\
             &InstanceType=m5.large&IamInstanceProfile.Name=p&Version=2016-11-15"
        );
        let at = Time(START.0 + after);
        reply(world, at, &form("ec2", &query)).text().to_string()
    };
    assert!(tried(5_999).contains("Invalid IAM Instance Profile name"));
    assert!(!tried(6_000).contains("Invalid IAM Instance Profile name"));
}

#[test]
fn tags_of_profiles_are_of_letters_and_few_signs() {
    let world = &mut world();
    for (value, status) in [
        ("a_b.c:d/e=f%2Bg-h@i j", 200),
        ("a,b", 400),
        ("a(b)", 400),
        ("%23", 400),
    ] {
        let name = status.to_string() + &value.len().to_string();
        let query = format!(
            "Action=CreateInstanceProfile&InstanceProfileName=p{name}&Tags.member.1.Key=k\
             &Tags.member.1.Value={value}&Version=2010-05-08"
        );
        let found = reply(world, START, &form("iam", &query));
        assert_eq!(found.status, status, "{value}");
    }
}
