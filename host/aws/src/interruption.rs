//! The interruption queue: messages of EventBridge that say what EC2 is about to do.
//!
//! [`read`] is a function of the text of a message. [`duties`] says what is to be done: for each
//! instance once for each kind of event, however often the message comes. A message is deleted after
//! what it asks for was done. One that cannot be read, or asks for nothing, is deleted at once: it
//! would only come again.

mod duties;
pub mod queue;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;

/// What happens to instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum InterruptionKind {
    /// A spot instance is taken back in two minutes.
    SpotInterrupted,
    /// A spot instance is likelier than others to be taken back.
    RebalanceRecommendation,
    /// Maintenance or retirement is planned.
    ScheduledChange,
    /// The instance stops or has stopped.
    InstanceStopped,
    /// The instance ends or has ended.
    InstanceTerminated,
    /// An instance of an interruptible reservation is taken back.
    ReservationInterrupted,
}

impl InterruptionKind {
    /// The word of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            InterruptionKind::SpotInterrupted => "spot_interrupted",
            InterruptionKind::RebalanceRecommendation => "rebalance_recommendation",
            InterruptionKind::ScheduledChange => "scheduled_change",
            InterruptionKind::InstanceStopped => "instance_stopped",
            InterruptionKind::InstanceTerminated => "instance_terminated",
            InterruptionKind::ReservationInterrupted => "capacity_reservation_interrupted",
        }
    }

    /// Reason of the Event on the NodeClaim and its Node.
    pub fn event_reason(self) -> &'static str {
        match self {
            InterruptionKind::SpotInterrupted => "SpotInterrupted",
            InterruptionKind::RebalanceRecommendation => "SpotRebalanceRecommendation",
            InterruptionKind::ScheduledChange => "InstanceUnhealthy",
            InterruptionKind::InstanceStopped => "InstanceStopping",
            InterruptionKind::InstanceTerminated => "InstanceTerminating",
            InterruptionKind::ReservationInterrupted => "CapacityReservationInstanceInterrupted",
        }
    }

    /// Whether the node is drained and replaced. A recommendation is an Event and nothing else.
    pub fn ends_node(self) -> bool {
        self != InterruptionKind::RebalanceRecommendation
    }
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interruption {
    /// What happens.
    pub kind: InterruptionKind,
    /// To which instances, by ID.
    pub instances: Vec<String>,
    /// When the event was sent, as it says: `2026-11-21T08:00:00Z`. Empty if it does not say.
    pub sent: String,
}

impl NotRead {
    /// The word of metrics, in place of the kind of an interruption.
    pub fn as_str(&self) -> &'static str {
        match self {
            NotRead::NotAnEvent(_) => "unreadable",
            NotRead::OfNoConcern { .. } | NotRead::NothingToDo(_) => "no_op",
        }
    }
}

/// Why a message asks for nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRead {
    /// It is no event of EventBridge.
    #[error("the message is no event: {0}")]
    NotAnEvent(String),
    /// It is an event that is none of ours.
    #[error("events {detail_type:?} of {source_name:?} are of no concern")]
    OfNoConcern {
        /// The event's source.
        source_name: String,
        /// Its detail type.
        detail_type: String,
    },
    /// It is an event of ours that says nothing to do.
    #[error("the event asks for nothing: {0}")]
    NothingToDo(String),
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Envelope {
    #[serde(default)]
    version: String,
    #[serde(default)]
    source: String,
    #[serde(default, rename = "detail-type")]
    detail_type: String,
    #[serde(default)]
    time: String,
    #[serde(default)]
    detail: Value,
}

/// IDs of a health event that are read: AWS sends at most 100 in one.
const MAX_ENTITIES: usize = 1000;

/// Reads a message.
///
/// # Errors
/// It asks for nothing, and is to be deleted.
pub fn read(message: &str) -> Result<Interruption, NotRead> {
    let event: Envelope =
        serde_json::from_str(message).map_err(|error| NotRead::NotAnEvent(error.to_string()))?;
    let of_no_concern = || NotRead::OfNoConcern {
        source_name: shortened(&event.source),
        detail_type: shortened(&event.detail_type),
    };
    if event.version != "0" {
        return Err(of_no_concern());
    }
    let text = |key: &str| event.detail.get(key).and_then(Value::as_str);
    let one = |kind: InterruptionKind| match text("instance-id").filter(|id| is_instance(id)) {
        Some(id) => Ok((kind, vec![id.to_owned()])),
        None => Err(NotRead::NothingToDo(
            "detail.instance-id is no instance".to_owned(),
        )),
    };
    let (kind, instances) = match (&*event.source, &*event.detail_type) {
        ("aws.ec2", "EC2 Spot Instance Interruption Warning") => {
            one(InterruptionKind::SpotInterrupted)?
        }
        ("aws.ec2", "EC2 Instance Rebalance Recommendation") => {
            one(InterruptionKind::RebalanceRecommendation)?
        }
        ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning") => {
            one(InterruptionKind::ReservationInterrupted)?
        }
        ("aws.ec2", "EC2 Instance State-change Notification") => match text("state") {
            Some("stopping" | "stopped") => one(InterruptionKind::InstanceStopped)?,
            Some("shutting-down" | "terminated") => one(InterruptionKind::InstanceTerminated)?,
            other => {
                let state = shortened(other.unwrap_or_default());
                return Err(NotRead::NothingToDo(format!("state {state:?}")));
            }
        },
        ("aws.health", "AWS Health Event") => health(&event.detail)?,
        _ => return Err(of_no_concern()),
    };
    Ok(Interruption {
        kind,
        instances,
        sent: shortened(&event.time),
    })
}

fn health(detail: &Value) -> Result<(InterruptionKind, Vec<String>), NotRead> {
    let text = |key: &str| detail.get(key).and_then(Value::as_str).unwrap_or_default();
    let (service, category) = (text("service"), text("eventTypeCategory"));
    if (service, category) != ("EC2", "scheduledChange") {
        let what = format!("{:?} of {:?}", shortened(category), shortened(service));
        return Err(NotRead::NothingToDo(what));
    }
    let entities = detail.get("affectedEntities").and_then(Value::as_array);
    let value = |one: &Value| Some(one.get("entityValue")?.as_str()?.to_owned());
    let mut ids: Vec<String> = entities
        .into_iter()
        .flatten()
        .take(MAX_ENTITIES)
        .filter_map(value)
        .filter(|id| is_instance(id))
        .collect();
    ids.sort();
    ids.dedup();
    match ids.is_empty() {
        true => Err(NotRead::NothingToDo("it names no instance".to_owned())),
        false => Ok((InterruptionKind::ScheduledChange, ids)),
    }
}

fn is_instance(id: &str) -> bool {
    let rest = id.strip_prefix("i-").unwrap_or_default();
    (1..=64).contains(&rest.len()) && rest.bytes().all(|b| b.is_ascii_alphanumeric())
}

fn shortened(text: &str) -> String {
    text.chars().take(100).collect()
}

/// A message as it was received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// What deletes it.
    pub receipt: String,
    /// Its text.
    pub body: String,
    /// When it was sent, milliseconds since 1970; nothing if the queue does not say.
    pub sent: Option<i64>,
}

/// Carries out what messages ask for.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Whether an instance is known to be none of this cluster's. Asked of every instance that a
    /// message names, so it answers from memory.
    fn is_foreign(&self, instance: &str) -> bool {
        _ = instance;
        false
    }

    /// Messages cannot be received, and why; or they can again, and nothing.
    async fn trouble(&self, why: Option<&str>) {
        _ = why;
    }

    /// An instance is concerned. It may be none of this cluster's: then there is nothing to do.
    ///
    /// # Errors
    /// It could not be done: the message stays and comes again.
    async fn interrupted(&self, kind: InterruptionKind, instance: &str) -> Result<(), String>;
}

#[cfg(test)]
mod tests;
