//! Status checks of instances, and events that EC2 plans for them.

use aws_sdk_ec2::types::{InstanceStatus, InstanceStatusSummary};

use super::{filters, owned};
use crate::calls::Call;
use crate::clients::{Clients, pages};
use crate::error::ApiError;
use crate::records::{Filters, StatusFacts};

/// What EC2 says of the running instances of the account that filters find.
///
/// # Errors
/// A page failed.
pub async fn find(clients: &Clients, query: &Filters) -> Result<Vec<StatusFacts>, ApiError> {
    pages(Call::DescribeInstanceStatus, |token| async move {
        let request = clients.ec2.describe_instance_status();
        let request = request.set_filters(filters(query)).max_results(1000);
        let request = request.set_next_token(token);
        let out = clients
            .send(Call::DescribeInstanceStatus, request.send())
            .await?;
        let rows = out.instance_statuses().iter().map(facts).collect();
        Ok((rows, out.next_token().map(str::to_owned)))
    })
    .await
}

fn facts(one: &InstanceStatus) -> StatusFacts {
    let events = one.events().iter().map(|event| {
        let code = owned(event.code().map(|of| of.as_str()));
        (code, owned(event.description()))
    });
    StatusFacts {
        id: owned(one.instance_id()),
        instance_failed: one.instance_status().and_then(failed_since),
        system_failed: one.system_status().and_then(failed_since),
        events: events.collect(),
    }
}

/// Since when a check fails, seconds since 1970; the earliest of its parts.
fn failed_since(summary: &InstanceStatusSummary) -> Option<i64> {
    let failed = summary.details().iter().filter(|of| {
        of.status()
            .is_some_and(|status| status.as_str() == "failed")
    });
    failed
        .filter_map(|of| Some(of.impaired_since()?.secs()))
        .min()
}
