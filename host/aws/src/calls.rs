//! Every call to AWS: its action in a policy, how often it may be made, how long it may take.
//!
//! Nothing else sends a request: [`Clients::send`](crate::clients::Clients::send) takes a [`Call`],
//! and the policy document is made from [`Call::ALL`]. A test compares the two with the source.

use std::time::Duration;

/// A service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Service {
    /// EC2.
    Ec2,
    /// SQS.
    Sqs,
    /// Systems Manager.
    Ssm,
    /// IAM.
    Iam,
    /// EKS.
    Eks,
    /// The price list.
    Pricing,
    /// Zonal shifts of Application Recovery Controller.
    ZonalShift,
}

impl Service {
    /// All services.
    pub const ALL: [Service; 7] = [
        Service::Ec2,
        Service::Sqs,
        Service::Ssm,
        Service::Iam,
        Service::Eks,
        Service::Pricing,
        Service::ZonalShift,
    ];

    /// Its prefix in actions of a policy.
    pub fn prefix(self) -> &'static str {
        match self {
            Service::Ec2 => "ec2",
            Service::Sqs => "sqs",
            Service::Ssm => "ssm",
            Service::Iam => "iam",
            Service::Eks => "eks",
            Service::Pricing => "pricing",
            Service::ZonalShift => "arc-zonal-shift",
        }
    }
}

/// A bucket of tokens: one call takes one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Most tokens.
    pub burst: f64,
    /// Tokens that come back in a second.
    pub per_second: f64,
}

macro_rules! calls {
    ($($name:ident $service:ident $rate:ident $seconds:literal;)*) => {
        /// A call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Call {
            $(
                #[doc = concat!("`", stringify!($name), "`.")]
                $name,
            )*
        }

        impl Call {
            /// All calls.
            pub const ALL: &[Call] = &[$(Call::$name),*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(Call::$name => stringify!($name)),* }
            }

            /// Its service.
            pub fn service(self) -> Service {
                match self { $(Call::$name => Service::$service),* }
            }

            /// How often it is made at most.
            pub fn rate(self) -> Rate {
                match self { $(Call::$name => $rate),* }
            }

            /// How long one attempt may take.
            pub fn timeout(self) -> Duration {
                match self { $(Call::$name => Duration::from_secs($seconds)),* }
            }
        }
    };
}

/// Buckets of EC2 are per account, region and action. Others use the account as well, so half of
/// what EC2 allows is taken.
const READ: Rate = rate(50.0, 10.0);
/// Reads that EC2 counts more strictly without a filter.
const NARROW_READ: Rate = rate(25.0, 5.0);
const WRITE: Rate = rate(25.0, 2.5);
const TAGS: Rate = rate(50.0, 5.0);
const TERMINATE: Rate = rate(50.0, 2.5);
const DRY_RUN: Rate = rate(3.0, 1.0);
const PARAMETERS: Rate = rate(20.0, 20.0);
/// IAM is one endpoint for all regions, and its limits are not published.
const IAM: Rate = rate(10.0, 2.0);
const CLUSTER: Rate = rate(5.0, 1.0);
/// The price list has fewer tokens than EC2, for the whole account: half of them again.
const PRICES: Rate = rate(5.0, 2.5);
/// Two a minute are asked for.
const SHIFTS: Rate = rate(5.0, 1.0);
/// EC2 limits the questions about scores by day, and the schedule keeps them few.
const SCORES: Rate = rate(10.0, 1.0);
/// SQS has no limit for a standard queue that a client could reach; the messages bound the calls.
const QUEUE: Rate = rate(1000.0, 500.0);

const fn rate(burst: f64, per_second: f64) -> Rate {
    Rate { burst, per_second }
}

calls! {
    DescribeInstanceTypes Ec2 READ 30;
    DescribeInstanceTypeOfferings Ec2 READ 30;
    DescribeSpotPriceHistory Ec2 READ 30;
    DescribeSubnets Ec2 READ 30;
    DescribeSecurityGroups Ec2 NARROW_READ 30;
    DescribeImages Ec2 READ 30;
    DescribeCapacityReservations Ec2 READ 30;
    DescribePlacementGroups Ec2 READ 30;
    DescribeLaunchTemplates Ec2 READ 30;
    CreateLaunchTemplate Ec2 WRITE 30;
    DeleteLaunchTemplate Ec2 WRITE 30;
    CreateFleet Ec2 WRITE 60;
    RunInstances Ec2 DRY_RUN 30;
    DescribeInstances Ec2 NARROW_READ 30;
    TerminateInstances Ec2 TERMINATE 30;
    CreateTags Ec2 TAGS 30;
    DescribeInstanceStatus Ec2 READ 30;
    RebootInstances Ec2 WRITE 30;
    GetSpotPlacementScores Ec2 SCORES 30;
    GetQueueUrl Sqs QUEUE 10;
    ReceiveMessage Sqs QUEUE 30;
    DeleteMessageBatch Sqs QUEUE 10;
    GetParameter Ssm PARAMETERS 15;
    GetInstanceProfile Iam IAM 30;
    CreateInstanceProfile Iam IAM 30;
    TagInstanceProfile Iam IAM 30;
    AddRoleToInstanceProfile Iam IAM 30;
    RemoveRoleFromInstanceProfile Iam IAM 30;
    DeleteInstanceProfile Iam IAM 30;
    ListInstanceProfiles Iam IAM 30;
    DescribeCluster Eks CLUSTER 30;
    GetProducts Pricing PRICES 30;
    GetManagedResource ZonalShift SHIFTS 15;
}

impl Call {
    /// Its action in a policy, such as `ec2:CreateFleet`.
    pub fn action(self) -> String {
        let name = match self {
            // SQS has one action for a message and for a batch.
            Call::DeleteMessageBatch => "DeleteMessage",
            own => own.name(),
        };
        format!("{}:{name}", self.service().prefix())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A call that is sent and is not in [`Call::ALL`] would have no action in the policy. Requests
    /// are made of `clients.<service>.<operation>()` and sent with `send(Call::<Operation>, …)`.
    #[test]
    fn every_operation_that_the_source_sends_is_a_call_and_every_call_is_sent() {
        let (mut sent, mut made) = (BTreeSet::new(), BTreeSet::new());
        for (file, text) in crate::tests::sources() {
            let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
            if file == "calls.rs" {
                continue;
            }
            for rest in text.split(".send(Call::").skip(1) {
                let name = rest.split(',').next().unwrap_or_default();
                let call = Call::ALL.iter().find(|call| call.name() == name);
                sent.insert(*call.unwrap_or_else(|| panic!("{file}: {name} is no call")));
            }
            for service in Service::ALL {
                let client = format!("clients.{}.", service.prefix().replace('-', "_"));
                for rest in text.split(&client).skip(1) {
                    let name = rest.split('(').next().unwrap_or_default();
                    let is = |call: &&Call| call.service() == service && snake(call.name()) == name;
                    let call = Call::ALL.iter().find(is);
                    made.insert(*call.unwrap_or_else(|| panic!("{file}: {name} is no call")));
                }
            }
        }
        let all: BTreeSet<Call> = Call::ALL.iter().copied().collect();
        assert_eq!(sent, all);
        assert_eq!(made, all);
    }

    fn snake(name: &str) -> String {
        let mut text = String::new();
        for c in name.chars() {
            if c.is_ascii_uppercase() && !text.is_empty() {
                text.push('_');
            }
            text.push(c.to_ascii_lowercase());
        }
        text
    }
}
