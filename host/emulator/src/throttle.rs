//! Rate limits, as AWS documents them: token buckets per API on the time of calls.

use std::collections::BTreeMap;

use crate::time::{SECOND, Time};
use crate::wire::{Refusal, Service};

/// Tokens that a bucket holds, and how many come back per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    burst: f64,
    per_second: f64,
}

const fn limit(burst: u32, per_second: u32) -> Limit {
    Limit {
        burst: burst as f64,
        per_second: per_second as f64,
    }
}

/// The limit of an action. `plain` is a read without filter and paging.
///
/// Source: EC2's, Pricing's and SSM's quotas. Services without an entry have no limit here.
fn limit_of(service: Service, action: &str, plain: bool) -> Option<Limit> {
    const PLAIN: [&str; 3] = [
        "DescribeInstances",
        "DescribeInstanceStatus",
        "DescribeSecurityGroups",
    ];
    Some(match (service, action) {
        (Service::Ec2, action) if plain && PLAIN.contains(&action) => limit(50, 10),
        (Service::Ec2, "CreateTags" | "DeleteTags") => limit(100, 10),
        (Service::Ec2, "RunInstances") => limit(5, 2),
        (Service::Ec2, "TerminateInstances") => limit(100, 5),
        (Service::Ec2, action) if action.starts_with("Describe") => limit(100, 20),
        (Service::Ec2, action) if action.starts_with("Get") => limit(100, 20),
        (Service::Ec2, _) => limit(50, 5),
        (Service::Pricing, _) => limit(10, 5),
        (Service::Ssm, _) => limit(40, 40),
        _ => return None,
    })
}

/// Instances that TerminateInstances may name: a second bucket.
const INSTANCES: Limit = limit(1000, 20);

/// The buckets of the account, by name.
#[derive(Debug, Default)]
pub struct Buckets(BTreeMap<String, (f64, Time)>);

impl Buckets {
    /// Takes a token of an action, `share` (0 to 1) of the limit being left to this client.
    pub fn call(
        &mut self,
        service: Service,
        action: &str,
        plain: bool,
        share: f64,
        now: Time,
    ) -> Result<(), Refusal> {
        let Some(limit) = limit_of(service, action, plain) else {
            return Ok(());
        };
        let name = format!(
            "{}:{action}{}",
            service.name(),
            if plain { ":plain" } else { "" }
        );
        match self.take(&name, limit, share, 1.0, now) {
            true => Ok(()),
            false => Err(refusal(service)),
        }
    }

    /// Takes a token for each instance to terminate.
    pub fn terminate(&mut self, count: usize, now: Time) -> Result<(), Refusal> {
        match self.take("ec2:instances", INSTANCES, 1.0, count as f64, now) {
            true => Ok(()),
            false => Err(refusal(Service::Ec2)),
        }
    }

    fn take(&mut self, name: &str, limit: Limit, share: f64, count: f64, now: Time) -> bool {
        let most = (limit.burst * share).max(1.0);
        let bucket = self.0.entry(name.to_owned()).or_insert((most, now));
        let passed = now.since(bucket.1).max(0) as f64 / SECOND as f64;
        bucket.0 = (bucket.0 + passed * limit.per_second * share).min(most);
        bucket.1 = now;
        let enough = bucket.0 >= count;
        if enough {
            bucket.0 -= count;
        }
        enough
    }
}

/// What a throttled call is answered.
pub fn refusal(service: Service) -> Refusal {
    let code = match service {
        Service::Ec2 => "RequestLimitExceeded",
        Service::Sqs => "RequestThrottled",
        Service::Iam | Service::Sts => "Throttling",
        Service::Ssm | Service::Pricing | Service::Eks | Service::ZonalShift => {
            "ThrottlingException"
        }
    };
    Refusal::new(code, "Request limit exceeded.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_empties_and_fills_again() {
        let mut buckets = Buckets::default();
        let mut passed = |at, share| {
            let mut call = || {
                buckets
                    .call(Service::Ec2, "CreateFleet", false, share, Time(at))
                    .is_ok()
            };
            std::iter::from_fn(|| Some(call()))
                .take_while(|ok| *ok)
                .count()
        };
        assert_eq!(passed(0, 1.0), 50);
        assert_eq!(passed(2_000, 1.0), 10);
        assert_eq!(passed(12_000, 0.1), 5);
        let refused = buckets.call(Service::Ec2, "CreateFleet", false, 1.0, Time(12_000));
        let refused = refused.unwrap_err();
        assert_eq!(
            (&*refused.code, refused.status),
            ("RequestLimitExceeded", 503)
        );
    }

    #[test]
    fn services_without_a_documented_limit_have_none() {
        let mut buckets = Buckets::default();
        let mut call = || buckets.call(Service::Sqs, "ReceiveMessage", false, 1.0, Time(0));
        assert!((0..10_000).all(|_| call().is_ok()));
        assert!(buckets.terminate(1000, Time(0)).is_ok());
        assert!(buckets.terminate(1, Time(0)).is_err());
    }
}
