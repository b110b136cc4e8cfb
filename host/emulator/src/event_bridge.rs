//! Events as EventBridge puts them into a queue.

use serde_json::{Value, json};

use crate::time::{HOUR, Time};
use crate::world::account::Account;

/// Source and detail type.
pub const STATE_CHANGE: (&str, &str) = ("aws.ec2", "EC2 Instance State-change Notification");
/// Two minutes before a spot instance is taken away.
pub const SPOT_WARNING: (&str, &str) = ("aws.ec2", "EC2 Spot Instance Interruption Warning");
/// A spot instance is likely to be taken away.
pub const REBALANCE: (&str, &str) = ("aws.ec2", "EC2 Instance Rebalance Recommendation");
/// Before an instance of an interruptible reservation is taken away.
pub const RESERVATION_WARNING: (&str, &str) = (
    "aws.ec2",
    "EC2 Capacity Reservation Instance Interruption Warning",
);
/// Maintenance and retirement.
pub const HEALTH: (&str, &str) = ("aws.health", "AWS Health Event");

/// The envelope, version 0.
pub fn event(
    account: &Account,
    now: Time,
    id: &str,
    (source, kind): (&str, &str),
    instance: &str,
    detail: Value,
) -> String {
    let arn = account.arn("ec2", &format!("instance/{instance}"));
    json!({
        "version": "0",
        "id": id,
        "detail-type": kind,
        "source": source,
        "account": account.id,
        "time": now.iso_seconds(),
        "region": account.region,
        "resources": [arn],
        "detail": detail,
    })
    .to_string()
}

/// The detail of a health event about an instance that will be retired.
pub fn scheduled_change(account: &Account, now: Time, instance: &str) -> Value {
    let code = "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED";
    json!({
        "eventArn": format!("arn:aws:health:{}::event/EC2/{code}/{instance}", account.region),
        "service": "EC2",
        "eventTypeCode": code,
        "eventTypeCategory": "scheduledChange",
        "startTime": Time(now.0 + 24 * HOUR).http(),
        "eventDescription": [{
            "language": "en_US",
            "latestDescription": "The instance is scheduled for retirement.",
        }],
        "affectedEntities": [{"entityValue": instance, "tags": {}}],
    })
}
