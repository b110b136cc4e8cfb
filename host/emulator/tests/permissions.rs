//! Calls under policies: those of Karpenter's versions, and those of `deploy/aws/stack.json`.

use crate::common::{IMAGE, START, ec2, form, reply, shown, world};
use longshore_emulator::World;
use longshore_emulator::policies::Policy;
use longshore_emulator::policies::karpenter::{self, Names, VERSIONS};
use serde_json::Value;

const ACCOUNT: &str = "123456789012";
const NODE_ROLE: &str = "arn:aws:iam::123456789012:role/KarpenterNodeRole-demo";
const QUEUE: &str = "arn:aws:sqs:us-east-1:123456789012:demo";

fn names() -> Names<'static> {
    Names {
        cluster: "demo",
        region: "us-east-1",
        account: ACCOUNT,
        node_role: NODE_ROLE,
        queue: QUEUE,
    }
}

/// A world whose caller has policies.
fn world_with(policies: &[Value]) -> World {
    let mut account = world().account().clone();
    let read = |policy: &Value| -> Policy { serde_json::from_value(policy.clone()).unwrap() };
    account.policies = policies.iter().map(read).collect();
    account.roles.insert("KarpenterNodeRole-demo".to_owned());
    World::new(account, 1)
}

fn of_karpenter(minor: u32) -> World {
    world_with(&[karpenter::policy(minor, names())])
}

fn iam(world: &mut World, query: &str) -> String {
    shown(&reply(world, START, &form("iam", query)))
}

fn encoded(text: &str) -> String {
    text.replace('/', "%2F").replace(':', "%3A")
}

/// Tags of everything that a launch makes.
const TAGS: [(&str, &str); 4] = [
    ("kubernetes.io/cluster/demo", "owned"),
    ("eks:eks-cluster-name", "demo"),
    ("karpenter.sh/nodepool", "default"),
    ("longshore.dev/nodeclaim-uid", "1-2-3"),
];

fn tagged(prefix: &str, kinds: &[&str], tags: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (at, kind) in (1..).zip(kinds) {
        out += &format!("&{prefix}TagSpecification.{at}.ResourceType={kind}");
        for (number, (key, value)) in (1..).zip(tags) {
            let tag = format!("{prefix}TagSpecification.{at}.Tag.{number}");
            out += &format!("&{tag}.Key={}&{tag}.Value={value}", encoded(key));
        }
    }
    out
}

fn profile_tags(tags: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (at, (key, value)) in (1..).zip(tags) {
        out += &format!(
            "&Tags.member.{at}.Key={}&Tags.member.{at}.Value={value}",
            encoded(key)
        );
    }
    out
}

const PROFILE_TAGS: [(&str, &str); 4] = [
    ("kubernetes.io/cluster/demo", "owned"),
    ("topology.kubernetes.io/region", "us-east-1"),
    ("karpenter.k8s.aws/ec2nodeclass", "default"),
    ("eks:eks-cluster-name", "demo"),
];

fn make_profile(world: &mut World, tags: &[(&str, &str)]) -> String {
    let make = "Action=CreateInstanceProfile&InstanceProfileName=p&Path=%2Fkarpenter%2Fus-east-1%2Fdemo%2Fu%2F";
    iam(world, &format!("{make}{}", profile_tags(tags)))
}

fn template(tags: &[(&str, &str)]) -> String {
    let data = "LaunchTemplateData.";
    format!(
        "Action=CreateLaunchTemplate&LaunchTemplateName=one&{data}ImageId={IMAGE}\
         &{data}IamInstanceProfile.Name=p&{data}NetworkInterface.1.DeviceIndex=0\
         &{data}NetworkInterface.1.SecurityGroupId.1=sg-00000000000000001{}{}",
        tagged("", &["launch-template"], tags),
        tagged(data, &["network-interface"], tags),
    )
}

fn fleet(tags: &[(&str, &str)]) -> String {
    let config = "LaunchTemplateConfigs.1";
    format!(
        "Action=CreateFleet&Type=instant&TargetCapacitySpecification.TotalTargetCapacity=1\
         &TargetCapacitySpecification.DefaultTargetCapacityType=on-demand\
         &{config}.LaunchTemplateSpecification.LaunchTemplateName=one\
         &{config}.LaunchTemplateSpecification.Version=1\
         &{config}.Overrides.1.InstanceType=m5.large\
         &{config}.Overrides.1.SubnetId=subnet-00000000000000001{}",
        tagged("", &["instance", "volume", "fleet"], tags)
    )
}

/// The first instance that a reply names.
fn instance(said: &str) -> String {
    let at = said
        .find("i-")
        .unwrap_or_else(|| panic!("no instance in {said}"));
    let id = said[at..].chars();
    id.take_while(|c| c.is_ascii_alphanumeric() || *c == '-')
        .collect()
}

#[test]
fn what_longshore_and_karpenter_call_for_a_node_is_allowed_from_1_3_on() {
    for minor in VERSIONS {
        let mut world = of_karpenter(minor);
        let done = |said: String| {
            assert!(said.starts_with("200"), "1.{minor}: {said}");
            said
        };
        done(make_profile(&mut world, &PROFILE_TAGS));
        let add =
            "Action=AddRoleToInstanceProfile&InstanceProfileName=p&RoleName=KarpenterNodeRole-demo";
        done(iam(&mut world, add));
        done(ec2(&mut world, &template(&TAGS)));
        let said = done(ec2(&mut world, &fleet(&TAGS)));
        let id = instance(&said);
        let later = format!(
            "Action=CreateTags&ResourceId.1={id}&Tag.1.Key=Name&Tag.1.Value=n\
             &Tag.2.Key=karpenter.sh%2Fnodeclaim&Tag.2.Value=c"
        );
        done(ec2(&mut world, &later));
        done(ec2(
            &mut world,
            &format!("Action=TerminateInstances&InstanceId.1={id}"),
        ));
        done(ec2(
            &mut world,
            "Action=DeleteLaunchTemplate&LaunchTemplateName=one",
        ));
    }
}

#[test]
fn what_is_not_tagged_as_the_clusters_is_refused() {
    let denied = |said: String, action: &str| {
        assert!(said.starts_with("403") && said.contains(action), "{said}");
    };
    let mut world = of_karpenter(15);
    make_profile(&mut world, &PROFILE_TAGS);
    let of = |left_out: &str| -> Vec<(&str, &str)> {
        TAGS.into_iter()
            .filter(|(key, _)| *key != left_out)
            .collect()
    };
    for (key, _) in &TAGS[..3] {
        denied(
            ec2(&mut world, &template(&of(key))),
            "ec2:CreateLaunchTemplate",
        );
    }
    // The profile has no role yet: nothing is passed.
    assert!(ec2(&mut world, &template(&TAGS)).starts_with("200"));
    let add = "Action=AddRoleToInstanceProfile&InstanceProfileName=p&RoleName=";
    denied(iam(&mut world, &format!("{add}node")), "iam:PassRole");
    assert!(iam(&mut world, &format!("{add}KarpenterNodeRole-demo")).starts_with("200"));
    for (key, _) in &TAGS[..3] {
        denied(ec2(&mut world, &fleet(&of(key))), "ec2:");
    }
    let id = instance(&ec2(&mut world, &fleet(&TAGS)));
    // Tags of our own can be given at launch alone.
    let later =
        format!("Action=CreateTags&ResourceId.1={id}&Tag.1.Key=longshore.dev%2Fx&Tag.1.Value=y");
    denied(ec2(&mut world, &later), "ec2:CreateTags");
    denied(
        make_profile(&mut world, &PROFILE_TAGS[1..]),
        "iam:CreateInstanceProfile",
    );
}

#[test]
fn what_older_policies_lack_is_refused_by_them() {
    for (service, query, since) in [
        ("ec2", "Action=DescribeInstances", 3),
        ("ec2", "Action=DescribeCapacityReservations", 3),
        (
            "iam",
            "Action=ListInstanceProfiles&PathPrefix=%2Fkarpenter%2F",
            7,
        ),
        ("ec2", "Action=DescribePlacementGroups", 11),
        ("ec2", "Action=DescribeInstanceStatus", 12),
        ("ec2", "Action=GetSpotPlacementScores", u32::MAX),
    ] {
        for minor in VERSIONS {
            let mut world = of_karpenter(minor);
            let said = shown(&reply(&mut world, START, &form(service, query)));
            let denied = said.starts_with("403");
            assert_eq!(denied, minor < since, "1.{minor} {query}: {said}");
        }
    }
}

/// Profiles that Karpenter made before it tagged them with the cluster's name for EKS.
#[test]
fn profiles_of_older_karpenters_are_changed_with_karpenters_policies_and_with_ours() {
    let ours = stack();
    for policies in [vec![karpenter::policy(15, names())], ours] {
        let mut world = world_with(&[]);
        assert!(make_profile(&mut world, &PROFILE_TAGS[..3]).starts_with("200"));
        let read = |policy: &Value| -> Policy { serde_json::from_value(policy.clone()).unwrap() };
        world.set_policies(policies.iter().map(read).collect());
        for query in [
            format!("Action=TagInstanceProfile&InstanceProfileName=p{}", profile_tags(&PROFILE_TAGS)),
            "Action=AddRoleToInstanceProfile&InstanceProfileName=p&RoleName=KarpenterNodeRole-demo".to_owned(),
            "Action=RemoveRoleFromInstanceProfile&InstanceProfileName=p&RoleName=KarpenterNodeRole-demo".to_owned(),
            "Action=DeleteInstanceProfile&InstanceProfileName=p".to_owned(),
        ] {
            let said = iam(&mut world, &query);
            assert!(said.starts_with("200"), "{query}: {said}");
        }
    }
}

/// The policies of `deploy/aws/stack.json` with Karpenter's role and queue as parameters.
fn stack() -> Vec<Value> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/aws/stack.json");
    let stack: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    for parameter in ["NodeRoleArn", "InterruptionQueueArn"] {
        assert_eq!(stack["Parameters"][parameter]["Default"], "", "{parameter}");
    }
    let policy = |name: &str| -> Value {
        let document = &stack["Resources"][name]["Properties"]["PolicyDocument"]["Fn::Sub"];
        let text = document.as_str().or_else(|| document[0].as_str()).unwrap();
        let text = text
            .replace("${ClusterName}", "demo")
            .replace("${AWS::Partition}", "aws")
            .replace("${AWS::Region}", "us-east-1")
            .replace("${AWS::AccountId}", ACCOUNT)
            .replace("${NodeRoleOf}", NODE_ROLE)
            .replace("${QueueOf}", QUEUE);
        assert!(!text.contains("${"), "{text}");
        serde_json::from_str(&text).unwrap()
    };
    vec![policy("ControllerPolicy"), policy("ServicesPolicy")]
}

/// Karpenter's role and queue are enough for a node under the policies of our stack.
#[test]
fn the_stack_with_karpenters_role_and_queue_allows_a_node() {
    let mut world = world_with(&stack());
    let done = |said: String| assert!(said.starts_with("200"), "{said}");
    done(make_profile(&mut world, &PROFILE_TAGS));
    let add =
        "Action=AddRoleToInstanceProfile&InstanceProfileName=p&RoleName=KarpenterNodeRole-demo";
    done(iam(&mut world, add));
    done(ec2(&mut world, &template(&TAGS)));
    done(ec2(&mut world, &fleet(&TAGS)));
    let target = crate::common::target("AmazonSQS.GetQueueUrl", r#"{"QueueName": "demo"}"#);
    done(shown(&reply(&mut world, START, &target)));
    let other = crate::common::target("AmazonSQS.GetQueueUrl", r#"{"QueueName": "other"}"#);
    let said = shown(&reply(&mut world, START, &other));
    assert!(
        said.starts_with("403") && said.contains("sqs:GetQueueUrl"),
        "{said}"
    );
}
