//! The rights that Longshore needs, as an IAM policy, and the CloudFormation stack with queue, rules
//! and roles.
//!
//! [`statements`] names each call of [`Call::ALL`] once for each kind of resource; a test fails for a
//! call without a statement. `deploy/aws/stack.json` is made from it: `UPDATE_STACK=1 cargo test -p
//! longshore-aws stack`.

use longshore_ec2::tags::{CLUSTER, NODE_CLAIM, NODE_CLASS, NODEPOOL};
use serde_json::{Value, json};

use crate::calls::{Call, Service};

/// A statement of the policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Its name.
    pub id: &'static str,
    /// The calls that it allows.
    pub calls: Vec<Call>,
    /// Actions that come with the calls and are no calls of their own: `iam:PassRole` for the role of
    /// an instance profile, rights that CreateFleet needs for RunInstances.
    pub implied: Vec<&'static str>,
    /// Resources, with CloudFormation's variables.
    pub resources: Vec<&'static str>,
    /// Conditions.
    pub conditions: Value,
}

/// ARNs of EC2's resources of a kind, in any account for those that others share.
const LAUNCHED: [&str; 6] = [
    "arn:${AWS::Partition}:ec2:${AWS::Region}:*:fleet/*",
    INSTANCE,
    "arn:${AWS::Partition}:ec2:${AWS::Region}:*:volume/*",
    "arn:${AWS::Partition}:ec2:${AWS::Region}:*:network-interface/*",
    TEMPLATE,
    "arn:${AWS::Partition}:ec2:${AWS::Region}:*:spot-instances-request/*",
];
const USED: [&str; 6] = [
    "arn:${AWS::Partition}:ec2:${AWS::Region}::image/*",
    "arn:${AWS::Partition}:ec2:${AWS::Region}::snapshot/*",
    "arn:${AWS::Partition}:ec2:${AWS::Region}:*:security-group/*",
    "arn:${AWS::Partition}:ec2:${AWS::Region}:*:subnet/*",
    "arn:${AWS::Partition}:ec2:${AWS::Region}:*:capacity-reservation/*",
    "arn:${AWS::Partition}:ec2:${AWS::Region}:*:placement-group/*",
];
const INSTANCE: &str = "arn:${AWS::Partition}:ec2:${AWS::Region}:*:instance/*";
const TEMPLATE: &str = "arn:${AWS::Partition}:ec2:${AWS::Region}:*:launch-template/*";
const PROFILE: &str = "arn:${AWS::Partition}:iam::${AWS::AccountId}:instance-profile/*";

const CLUSTER_ARN: &str =
    "arn:${AWS::Partition}:eks:${AWS::Region}:${AWS::AccountId}:cluster/${ClusterName}";

/// Variables of the policy for the role of nodes and the queue: those that the stack makes, or those
/// that are given to it.
const NODE_ROLE: &str = "${NodeRoleOf}";
const QUEUE: &str = "${QueueOf}";

const OWNED: &str = "kubernetes.io/cluster/${ClusterName}";

/// The tag of a request or a resource that a condition compares.
fn tag(of: &str, key: &str) -> String {
    format!("aws:{of}Tag/{key}")
}

fn owned(of: &str) -> (String, Value) {
    (tag(of, OWNED), json!("owned"))
}

fn map(pairs: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::Object(pairs.into_iter().collect())
}

/// The statements, in the order of what happens.
pub fn statements() -> Vec<Statement> {
    use Call::*;
    let cluster = |of: &str| (tag(of, CLUSTER), json!("${ClusterName}"));
    let any = |of: &str, key: &str| map([(tag(of, key), json!("*"))]);
    let tagged = json!({
        "StringEquals": map([owned("Request"), cluster("Request")]),
        "StringLike": any("Request", NODEPOOL),
    });
    let of_ours = json!({
        "StringEquals": map([owned("Resource")]),
        "StringLike": any("Resource", NODEPOOL),
    });
    let region = ("topology.kubernetes.io/region", json!("${AWS::Region}"));
    let profile = |of: &str| {
        let region = (tag(of, region.0), region.1.clone());
        let mut equal = vec![owned(of), region];
        // Profiles that older Karpenters made lack it.
        if of == "Request" {
            equal.push(cluster(of));
        }
        json!({"StringEquals": map(equal), "StringLike": any(of, NODE_CLASS)})
    };
    let statement = |id, calls: &[Call], resources: &[&'static str], conditions| Statement {
        id,
        calls: calls.to_vec(),
        implied: Vec::new(),
        resources: resources.to_vec(),
        conditions,
    };
    let mut tag_profile = profile("Resource");
    merge(&mut tag_profile, profile("Request"));
    let mut creation = tagged.clone();
    creation["StringEquals"]["ec2:CreateAction"] =
        json!(["RunInstances", "CreateFleet", "CreateLaunchTemplate"]);
    vec![
        statement(
            "UseOfImagesAndNetwork",
            &[RunInstances, CreateFleet],
            &USED,
            Value::Null,
        ),
        statement(
            "UseOfOwnTemplates",
            &[RunInstances, CreateFleet],
            &[TEMPLATE],
            of_ours.clone(),
        ),
        statement(
            "LaunchWithTags",
            &[RunInstances, CreateFleet, CreateLaunchTemplate],
            &LAUNCHED,
            tagged,
        ),
        statement("TagsAtLaunch", &[CreateTags], &LAUNCHED, creation),
        statement(
            "TagsOfOwnInstances",
            &[CreateTags],
            &[INSTANCE],
            json!({
                "StringEquals": map([owned("Resource")]),
                "StringLike": any("Resource", NODEPOOL),
                "ForAllValues:StringEquals": {
                    "aws:TagKeys": [CLUSTER, NODE_CLAIM, "Name"],
                },
            }),
        ),
        statement(
            "EndOfOwnInstancesAndTemplates",
            &[TerminateInstances, RebootInstances, DeleteLaunchTemplate],
            &[INSTANCE, TEMPLATE],
            of_ours,
        ),
        statement(
            "RegionalReads",
            &[
                DescribeCapacityReservations,
                DescribeImages,
                DescribeInstances,
                DescribeInstanceStatus,
                DescribeInstanceTypeOfferings,
                DescribeInstanceTypes,
                DescribeLaunchTemplates,
                DescribePlacementGroups,
                DescribeSecurityGroups,
                DescribeSpotPriceHistory,
                DescribeSubnets,
            ],
            &["*"],
            json!({"StringEquals": {"aws:RequestedRegion": "${AWS::Region}"}}),
        ),
        // For the signal of that name alone.
        statement(
            "SpotPlacementScores",
            &[GetSpotPlacementScores],
            &["*"],
            Value::Null,
        ),
        // It has endpoints in other regions, and no resources.
        statement("PriceList", &[GetProducts], &["*"], Value::Null),
        statement(
            "ParametersOfImages",
            &[GetParameter],
            &["arn:${AWS::Partition}:ssm:${AWS::Region}::parameter/aws/service/*"],
            Value::Null,
        ),
        Statement {
            implied: vec!["iam:PassRole"],
            ..statement(
                "PassNodeRole",
                &[],
                &[NODE_ROLE],
                json!({"StringEquals": {
                    "iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"],
                }}),
            )
        },
        statement(
            "MakeProfiles",
            &[CreateInstanceProfile],
            &[PROFILE],
            profile("Request"),
        ),
        statement(
            "TagProfiles",
            &[TagInstanceProfile],
            &[PROFILE],
            tag_profile,
        ),
        statement(
            "ChangeOwnProfiles",
            &[
                AddRoleToInstanceProfile,
                RemoveRoleFromInstanceProfile,
                DeleteInstanceProfile,
            ],
            &[PROFILE],
            profile("Resource"),
        ),
        statement(
            "ReadProfiles",
            &[GetInstanceProfile],
            &[PROFILE],
            Value::Null,
        ),
        statement("ListProfiles", &[ListInstanceProfiles], &["*"], Value::Null),
        statement(
            "ReadCluster",
            &[DescribeCluster],
            &[CLUSTER_ARN],
            Value::Null,
        ),
        statement(
            "ZonalShiftsOfCluster",
            &[GetManagedResource],
            &["*"],
            json!({"StringEquals": {"arc-zonal-shift:ResourceIdentifier": CLUSTER_ARN}}),
        ),
        statement(
            "InterruptionQueue",
            &[GetQueueUrl, ReceiveMessage, DeleteMessageBatch],
            &[QUEUE],
            Value::Null,
        ),
    ]
}

fn merge(into: &mut Value, from: Value) {
    let (Some(into), Value::Object(from)) = (into.as_object_mut(), from) else {
        return;
    };
    for (operator, tests) in from {
        let own = into.entry(operator).or_insert_with(|| json!({}));
        if let (Some(own), Value::Object(tests)) = (own.as_object_mut(), tests) {
            own.extend(tests);
        }
    }
}

/// Which of the two policies: IAM bounds the length of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Calls of EC2.
    Ec2,
    /// Calls of other services, and the right to pass the node's role on.
    Others,
}

impl Statement {
    /// The policy that has it.
    pub fn part(&self) -> Part {
        let of_ec2 = |call: &Call| call.service() == Service::Ec2;
        match !self.calls.is_empty() && self.calls.iter().all(of_ec2) {
            true => Part::Ec2,
            false => Part::Others,
        }
    }
}

/// A policy, with CloudFormation's variables in it.
pub fn document(part: Part) -> Value {
    let statement = |one: Statement| {
        let calls = one.calls.iter().map(|call| call.action());
        let mut actions: Vec<String> = calls.collect();
        actions.extend(one.implied.iter().map(|action| (*action).to_owned()));
        let mut statement = json!({
            "Sid": one.id,
            "Effect": "Allow",
            "Action": actions,
            "Resource": one.resources,
        });
        if !one.conditions.is_null() {
            statement["Condition"] = one.conditions;
        }
        statement
    };
    let own = statements().into_iter().filter(|one| one.part() == part);
    let all: Vec<Value> = own.map(statement).collect();
    json!({"Version": "2012-10-17", "Statement": all})
}

/// Events that a rule sends to the queue: name, source, detail type.
const RULES: [(&str, &str, &str); 5] = [
    ("ScheduledChangeRule", "aws.health", "AWS Health Event"),
    (
        "SpotInterruptionRule",
        "aws.ec2",
        "EC2 Spot Instance Interruption Warning",
    ),
    (
        "RebalanceRule",
        "aws.ec2",
        "EC2 Instance Rebalance Recommendation",
    ),
    (
        "InstanceStateChangeRule",
        "aws.ec2",
        "EC2 Instance State-change Notification",
    ),
    (
        "ReservationInterruptionRule",
        "aws.ec2",
        "EC2 Capacity Reservation Instance Interruption Warning",
    ),
];

/// The ARN of a resource that the stack makes, or the parameter in its place.
fn given_or(condition: &str, parameter: &str, resource: &str) -> Value {
    let made = json!({"Fn::GetAtt": [resource, "Arn"]});
    json!({"Fn::If": [condition, made, {"Ref": parameter}]})
}

/// The stack: the node's role, the controller's policies, the queue and the rules that fill it.
///
/// With the role of nodes or the queue as parameters, as of a cluster that Karpenter runs, it makes none.
///
/// A policy is one text, because tags of conditions have the cluster's name in their keys, and
/// CloudFormation substitutes variables in values alone.
pub fn stack() -> Value {
    let managed = [
        "AmazonEKS_CNI_Policy",
        "AmazonEKSWorkerNodePolicy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonSSMManagedInstanceCore",
    ];
    let managed = managed
        .map(|name| json!({"Fn::Sub": format!("arn:${{AWS::Partition}}:iam::aws:policy/{name}")}));
    let rules = RULES.map(|(name, ..)| json!({"Fn::GetAtt": [name, "Arn"]}));
    let mut resources = json!({
        "NodeRole": {
            "Type": "AWS::IAM::Role",
            "Properties": {
                "RoleName": {"Fn::Sub": "LongshoreNodeRole-${ClusterName}"},
                "AssumeRolePolicyDocument": {
                    "Version": "2012-10-17",
                    "Statement": [{
                        "Effect": "Allow",
                        "Principal": {"Service": {"Fn::Sub": "ec2.${AWS::URLSuffix}"}},
                        "Action": ["sts:AssumeRole"],
                    }],
                },
                "ManagedPolicyArns": managed,
            },
        },
        "ControllerPolicy": {
            "Type": "AWS::IAM::ManagedPolicy",
            "Properties": {
                "ManagedPolicyName": {"Fn::Sub": "LongshoreController-${ClusterName}"},
                "PolicyDocument": {"Fn::Sub": document(Part::Ec2).to_string()},
            },
        },
        "ServicesPolicy": {
            "Type": "AWS::IAM::ManagedPolicy",
            "Properties": {
                "ManagedPolicyName": {"Fn::Sub": "LongshoreServices-${ClusterName}"},
                "PolicyDocument": {"Fn::Sub": [document(Part::Others).to_string(), {
                    "NodeRoleOf": given_or("MakesNodeRole", "NodeRoleArn", "NodeRole"),
                    "QueueOf": given_or("MakesQueue", "InterruptionQueueArn", "InterruptionQueue"),
                }]},
            },
        },
        "InterruptionQueue": {
            "Type": "AWS::SQS::Queue",
            "Properties": {
                "QueueName": {"Ref": "ClusterName"},
                "MessageRetentionPeriod": 300,
                "SqsManagedSseEnabled": true,
            },
        },
        "InterruptionQueuePolicy": {
            "Type": "AWS::SQS::QueuePolicy",
            "Properties": {
                "Queues": [{"Ref": "InterruptionQueue"}],
                "PolicyDocument": {
                    "Version": "2012-10-17",
                    "Statement": [
                        {
                            "Sid": "Events",
                            "Effect": "Allow",
                            "Principal": {"Service": "events.amazonaws.com"},
                            "Action": "sqs:SendMessage",
                            "Resource": {"Fn::GetAtt": ["InterruptionQueue", "Arn"]},
                            // A rule's ARN has the account's number. Anybody's rules could send else.
                            "Condition": {
                                "ArnEquals": {"aws:SourceArn": rules},
                            },
                        },
                        {
                            "Sid": "OnlyTls",
                            "Effect": "Deny",
                            "Principal": "*",
                            "Action": "sqs:*",
                            "Resource": {"Fn::GetAtt": ["InterruptionQueue", "Arn"]},
                            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                        },
                    ],
                },
            },
        },
    });
    for (name, source, detail) in RULES {
        resources[name] = json!({
            "Type": "AWS::Events::Rule",
            "Properties": {
                "EventPattern": {"source": [source], "detail-type": [detail]},
                "Targets": [{
                    "Id": "LongshoreInterruptionQueue",
                    "Arn": {"Fn::GetAtt": ["InterruptionQueue", "Arn"]},
                }],
            },
        });
    }
    let of_queue = RULES.iter().map(|(name, ..)| *name);
    let of_queue = of_queue.chain(["InterruptionQueue", "InterruptionQueuePolicy"]);
    for name in of_queue {
        resources[name]["Condition"] = json!("MakesQueue");
    }
    resources["NodeRole"]["Condition"] = json!("MakesNodeRole");
    let parameter = |description: &str| json!({"Type": "String", "Description": description});
    let optional = |description: &str| {
        let mut one = parameter(description);
        one["Default"] = json!("");
        one
    };
    let none = |parameter: &str| json!({"Fn::Equals": [{"Ref": parameter}, ""]});
    // The sixth part of an ARN of SQS.
    let given = json!({"Fn::Select": [5, {"Fn::Split": [":", {"Ref": "InterruptionQueueArn"}]}]});
    let made = json!({"Fn::GetAtt": ["InterruptionQueue", "QueueName"]});
    json!({
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "What Longshore needs on AWS: node role, policy, interruption queue, rules",
        "Parameters": {
            "ClusterName": parameter("Name of the EKS cluster"),
            "NodeRoleArn": optional("Role of nodes that is there, such as Karpenter's; empty: one is made"),
            "InterruptionQueueArn": optional("Queue that is there, such as Karpenter's; empty: one is made"),
        },
        "Conditions": {
            "MakesNodeRole": none("NodeRoleArn"),
            "MakesQueue": none("InterruptionQueueArn"),
        },
        "Resources": resources,
        "Outputs": {
            "ControllerPolicyArn": {"Value": {"Ref": "ControllerPolicy"}},
            "ServicesPolicyArn": {"Value": {"Ref": "ServicesPolicy"}},
            "InterruptionQueueName": {"Value": {"Fn::If": ["MakesQueue", made, given]}},
            "NodeRoleName": {"Condition": "MakesNodeRole", "Value": {"Ref": "NodeRole"}},
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_call_is_allowed_by_a_statement_and_no_statement_allows_more() {
        let allowed: BTreeSet<Call> = statements().into_iter().flat_map(|one| one.calls).collect();
        let called: BTreeSet<Call> = Call::ALL.iter().copied().collect();
        assert_eq!(allowed, called);
        let implied: Vec<&str> = statements()
            .into_iter()
            .flat_map(|one| one.implied)
            .collect();
        assert_eq!(implied, ["iam:PassRole"]);
    }

    #[test]
    fn what_changes_something_is_bound_to_tags_or_to_one_resource() {
        for one in statements() {
            let reads = one.calls.iter().all(|call| {
                ["Describe", "Get", "List"]
                    .iter()
                    .any(|word| call.name().starts_with(word))
            });
            let every = one.resources.contains(&"*");
            assert!(!every || reads, "{}", one.id);
            let own = one.resources.iter().all(|arn| *arn == QUEUE);
            let used = one.id == "UseOfImagesAndNetwork";
            assert!(
                reads || own || used || !one.conditions.is_null(),
                "{}",
                one.id
            );
        }
    }

    #[test]
    fn the_stack_in_deploy_is_the_one_that_is_made_here() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/aws/stack.json");
        let made = stack();
        if std::env::var_os("UPDATE_STACK").is_some() {
            std::fs::write(file, format!("{made:#}\n")).unwrap();
        }
        let found = std::fs::read_to_string(file).unwrap();
        let found: Value = serde_json::from_str(&found).unwrap();
        assert!(
            found == made,
            "UPDATE_STACK=1 cargo test -p longshore-aws stack writes it anew"
        );
    }

    #[test]
    fn what_is_given_is_not_made_and_profiles_of_older_karpenters_can_be_changed() {
        let stack = stack();
        for (name, resource) in stack["Resources"].as_object().unwrap() {
            let condition = match &**name {
                "ControllerPolicy" | "ServicesPolicy" => Value::Null,
                "NodeRole" => json!("MakesNodeRole"),
                _ => json!("MakesQueue"),
            };
            assert_eq!(resource["Condition"], condition, "{name}");
        }
        // Each variable of a policy is CloudFormation's, a parameter, or given with it.
        let services = &stack["Resources"]["ServicesPolicy"]["Properties"]["PolicyDocument"];
        let [text, given] = [0, 1].map(|at| &services["Fn::Sub"][at]);
        let text = text.as_str().unwrap();
        for variable in text.split("${").skip(1) {
            let variable = variable.split('}').next().unwrap();
            let known = variable.starts_with("AWS::") || variable == "ClusterName";
            assert!(known || given[variable].is_object(), "{variable}");
        }
        for one in statements() {
            let text = one.conditions.to_string();
            assert!(
                !text.contains("aws:ResourceTag/eks:eks-cluster-name"),
                "{}",
                one.id
            );
        }
    }

    #[test]
    fn only_the_rules_of_the_stack_send_to_the_queue() {
        let stack = stack();
        let policy = &stack["Resources"]["InterruptionQueuePolicy"]["Properties"]["PolicyDocument"];
        for one in policy["Statement"].as_array().unwrap() {
            if one["Effect"] != "Allow" {
                continue;
            }
            assert_eq!(one["Principal"], json!({"Service": "events.amazonaws.com"}));
            let from = one["Condition"]["ArnEquals"]["aws:SourceArn"]
                .as_array()
                .unwrap();
            let from: BTreeSet<&str> = from
                .iter()
                .map(|arn| arn["Fn::GetAtt"][0].as_str().unwrap())
                .collect();
            let rules = stack["Resources"].as_object().unwrap();
            let rules = rules
                .iter()
                .filter(|(_, one)| one["Type"] == "AWS::Events::Rule");
            assert_eq!(from, rules.map(|(name, _)| &**name).collect());
        }
    }

    #[test]
    fn each_policy_fits_into_a_managed_policy() {
        // IAM counts 6 144 characters without white space, and EKS allows names of 100.
        let name = "c".repeat(100);
        for part in [Part::Ec2, Part::Others] {
            let text = document(part).to_string().replace("${ClusterName}", &name);
            let text = text.replace("${AWS::Partition}", "aws-us-gov");
            let text = text.replace("${AWS::Region}", "ap-southeast-1");
            let role = format!("arn:aws-us-gov:iam::111122223333:role/{}", "r".repeat(64));
            let queue = format!(
                "arn:aws-us-gov:sqs:ap-southeast-1:111122223333:{}",
                "q".repeat(80)
            );
            let text = text.replace(NODE_ROLE, &role).replace(QUEUE, &queue);
            assert!(text.len() < 6144, "{part:?}: {} characters", text.len());
        }
    }
}
