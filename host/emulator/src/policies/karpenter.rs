//! What the policies of Karpenter's getting-started stack allow the controller, by minor version of
//! 1: actions, resources and conditions. Facts of the templates of v1.3 to v1.14 and, for 1.15, of its
//! documentation; in a form of our own.

use serde_json::{Map, Value, json};

/// The names that a stack puts into its policies.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    pub cluster: &'a str,
    /// `us-east-1`.
    pub region: &'a str,
    /// The account's number.
    pub account: &'a str,
    /// ARN of the role of nodes.
    pub node_role: &'a str,
    /// ARN of the queue.
    pub queue: &'a str,
}

/// The oldest version that is known here, and the newest.
pub const VERSIONS: std::ops::RangeInclusive<u32> = 3..=15;

/// What a request or a resource has to have.
#[derive(Clone, Copy)]
enum Bound {
    Free,
    /// The resource is one of the cluster's NodePools.
    Owned,
    /// The request tags it as one.
    Tagging,
    /// The same, in an action that makes something.
    TaggingAtLaunch,
    /// The resource is one of the cluster's NodePools, and the request has these tags alone.
    TaggingLater,
    /// The role is passed to EC2.
    PassedToEc2,
    /// The request tags a profile as the cluster's.
    TaggingProfile,
    /// The same, of a profile that is tagged so already.
    RetaggingProfile,
    /// The profile is the cluster's.
    OwnedProfile,
    /// The request is for this region.
    Regional,
    /// The zonal shift is that of the cluster.
    OfCluster,
}

/// First and last minor version, actions, resources, what they are bound to.
type Row = (
    u32,
    u32,
    &'static [&'static str],
    &'static [&'static str],
    Bound,
);

const LAST: u32 = u32::MAX;
const MADE: &[&str] = &[
    "ec2:*:fleet/*",
    "ec2:*:instance/*",
    "ec2:*:volume/*",
    "ec2:*:network-interface/*",
    "ec2:*:launch-template/*",
    "ec2:*:spot-instances-request/*",
];
const PROFILES: &[&str] = &["iam:ACCOUNT:instance-profile/*"];

const ROWS: &[Row] = &[
    (
        0,
        LAST,
        &["ec2:RunInstances", "ec2:CreateFleet"],
        &[
            "ec2::image/*",
            "ec2::snapshot/*",
            "ec2:*:security-group/*",
            "ec2:*:subnet/*",
            "ec2:*:capacity-reservation/*",
        ],
        Bound::Free,
    ),
    (
        11,
        LAST,
        &["ec2:RunInstances", "ec2:CreateFleet"],
        &["ec2:*:placement-group/*"],
        Bound::Free,
    ),
    (
        0,
        LAST,
        &["ec2:RunInstances", "ec2:CreateFleet"],
        &["ec2:*:launch-template/*"],
        Bound::Owned,
    ),
    (
        0,
        LAST,
        &[
            "ec2:RunInstances",
            "ec2:CreateFleet",
            "ec2:CreateLaunchTemplate",
        ],
        MADE,
        Bound::Tagging,
    ),
    (0, LAST, &["ec2:CreateTags"], MADE, Bound::TaggingAtLaunch),
    (
        0,
        LAST,
        &["ec2:CreateTags"],
        &["ec2:*:instance/*"],
        Bound::TaggingLater,
    ),
    (
        0,
        LAST,
        &["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"],
        &["ec2:*:instance/*", "ec2:*:launch-template/*"],
        Bound::Owned,
    ),
    (
        15,
        LAST,
        &["ec2:RebootInstances"],
        &["ec2:*:instance/*", "ec2:*:launch-template/*"],
        Bound::Owned,
    ),
    (0, LAST, &["iam:PassRole"], &["ROLE"], Bound::PassedToEc2),
    (
        0,
        LAST,
        &["iam:CreateInstanceProfile"],
        PROFILES,
        Bound::TaggingProfile,
    ),
    (
        0,
        LAST,
        &["iam:TagInstanceProfile"],
        PROFILES,
        Bound::RetaggingProfile,
    ),
    (
        0,
        LAST,
        &[
            "iam:AddRoleToInstanceProfile",
            "iam:RemoveRoleFromInstanceProfile",
            "iam:DeleteInstanceProfile",
        ],
        PROFILES,
        Bound::OwnedProfile,
    ),
    (0, LAST, &["iam:GetInstanceProfile"], PROFILES, Bound::Free),
    (7, LAST, &["iam:ListInstanceProfiles"], &["*"], Bound::Free),
    (
        0,
        LAST,
        &[
            "ec2:DescribeCapacityReservations",
            "ec2:DescribeImages",
            "ec2:DescribeInstances",
            "ec2:DescribeInstanceTypeOfferings",
            "ec2:DescribeInstanceTypes",
            "ec2:DescribeLaunchTemplates",
            "ec2:DescribeSecurityGroups",
            "ec2:DescribeSpotPriceHistory",
            "ec2:DescribeSubnets",
        ],
        &["*"],
        Bound::Regional,
    ),
    (
        11,
        LAST,
        &["ec2:DescribePlacementGroups"],
        &["*"],
        Bound::Regional,
    ),
    (
        12,
        LAST,
        &["ec2:DescribeInstanceStatus"],
        &["*"],
        Bound::Regional,
    ),
    (
        0,
        LAST,
        &["ssm:GetParameter"],
        &["ssm::parameter/aws/service/*"],
        Bound::Free,
    ),
    (0, LAST, &["pricing:GetProducts"], &["*"], Bound::Free),
    (
        0,
        LAST,
        &["eks:DescribeCluster"],
        &["eks:ACCOUNT:cluster/CLUSTER"],
        Bound::Free,
    ),
    (
        0,
        LAST,
        &["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"],
        &["QUEUE"],
        Bound::Free,
    ),
    // On the cluster, which is no resource of that service.
    (
        12,
        12,
        &["arc-zonal-shift:GetManagedResource"],
        &["eks:ACCOUNT:cluster/CLUSTER"],
        Bound::Free,
    ),
    (
        13,
        LAST,
        &["arc-zonal-shift:GetManagedResource"],
        &["*"],
        Bound::OfCluster,
    ),
];

/// The policy document of a minor version of 1 in [`VERSIONS`].
pub fn policy(minor: u32, names: Names<'_>) -> Value {
    let rows = ROWS.iter().filter(|row| (row.0..=row.1).contains(&minor));
    let statements: Vec<Value> = rows.map(|row| statement(row, names)).collect();
    json!({"Version": "2012-10-17", "Statement": statements})
}

fn statement((_, _, actions, resources, bound): &Row, names: Names<'_>) -> Value {
    let resources: Vec<String> = resources.iter().map(|one| arn(one, names)).collect();
    let mut statement = json!({"Effect": "Allow", "Action": actions, "Resource": resources});
    let conditions = conditions(*bound, names);
    if conditions != json!({}) {
        statement["Condition"] = conditions;
    }
    statement
}

/// `service:account:rest` as an ARN of the region; IAM has none.
fn arn(short: &str, names: Names<'_>) -> String {
    match short {
        "*" => return short.to_owned(),
        "ROLE" => return names.node_role.to_owned(),
        "QUEUE" => return names.queue.to_owned(),
        _ => {}
    }
    let (service, rest) = short.split_once(':').unwrap_or((short, ""));
    let region = if service == "iam" { "" } else { names.region };
    let rest = rest
        .replace("ACCOUNT", names.account)
        .replace("CLUSTER", names.cluster);
    format!("arn:aws:{service}:{region}:{rest}")
}

fn conditions(bound: Bound, names: Names<'_>) -> Value {
    let owned = |of: &str| {
        (
            format!("aws:{of}Tag/kubernetes.io/cluster/{}", names.cluster),
            "owned",
        )
    };
    let cluster = |of: &str| (format!("aws:{of}Tag/eks:eks-cluster-name"), names.cluster);
    let region = |of: &str| {
        (
            format!("aws:{of}Tag/topology.kubernetes.io/region"),
            names.region,
        )
    };
    let pool = |of: &str| (format!("aws:{of}Tag/karpenter.sh/nodepool"), "*");
    let class = |of: &str| (format!("aws:{of}Tag/karpenter.k8s.aws/ec2nodeclass"), "*");
    let map = |pairs: &[(String, &str)]| -> Value {
        let pairs = pairs.iter().map(|(key, value)| (key.clone(), json!(value)));
        Value::Object(pairs.collect::<Map<String, Value>>())
    };
    match bound {
        Bound::Free => json!({}),
        Bound::Owned => json!({
            "StringEquals": map(&[owned("Resource")]),
            "StringLike": map(&[pool("Resource")]),
        }),
        Bound::Tagging => json!({
            "StringEquals": map(&[owned("Request"), cluster("Request")]),
            "StringLike": map(&[pool("Request")]),
        }),
        Bound::TaggingAtLaunch => {
            let mut all = conditions(Bound::Tagging, names);
            let making = ["RunInstances", "CreateFleet", "CreateLaunchTemplate"];
            all["StringEquals"]["ec2:CreateAction"] = json!(making);
            all
        }
        Bound::TaggingLater => {
            let mut all = conditions(Bound::Owned, names);
            all["StringEqualsIfExists"] = map(&[cluster("Request")]);
            let keys = ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"];
            all["ForAllValues:StringEquals"] = json!({"aws:TagKeys": keys});
            all
        }
        Bound::PassedToEc2 => json!({
            "StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]},
        }),
        Bound::TaggingProfile => json!({
            "StringEquals": map(&[owned("Request"), cluster("Request"), region("Request")]),
            "StringLike": map(&[class("Request")]),
        }),
        // Profiles of older Karpenters lack the cluster's name.
        Bound::RetaggingProfile => json!({
            "StringEquals": map(&[
                owned("Request"), cluster("Request"), region("Request"),
                owned("Resource"), region("Resource"),
            ]),
            "StringLike": map(&[class("Request"), class("Resource")]),
        }),
        Bound::OwnedProfile => json!({
            "StringEquals": map(&[owned("Resource"), region("Resource")]),
            "StringLike": map(&[class("Resource")]),
        }),
        Bound::Regional => json!({"StringEquals": {"aws:RequestedRegion": names.region}}),
        Bound::OfCluster => json!({
            "StringEquals": {
                "arc-zonal-shift:ResourceIdentifier": arn("eks:ACCOUNT:cluster/CLUSTER", names),
            },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::Policy;

    #[test]
    fn policies_of_all_versions_can_be_read_and_grow() {
        let names = Names {
            cluster: "demo",
            region: "us-east-1",
            account: "111122223333",
            node_role: "arn:aws:iam::111122223333:role/node",
            queue: "arn:aws:sqs:us-east-1:111122223333:demo",
        };
        let mut before = 0;
        for minor in VERSIONS {
            let policy: Policy = serde_json::from_value(policy(minor, names)).unwrap();
            let actions: usize = policy.statement.iter().map(|one| one.action.len()).sum();
            assert!(actions >= before, "1.{minor}");
            before = actions;
            let resources = policy.statement.iter().flat_map(|one| &one.resource);
            for resource in resources {
                let known = resource == "*" || resource.split(':').count() >= 6;
                assert!(known && !resource.contains("ACCOUNT"), "{resource}");
            }
        }
    }
}
