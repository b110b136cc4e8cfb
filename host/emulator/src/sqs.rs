//! SQS: standard queues with visibility, redelivery, duplicates, long polls and retention.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::action::{Answer, Context};
use crate::json::{read, unknown};
use crate::time::{SECOND, Time};
use crate::wire::Refusal;
use crate::world::World;
use crate::world::queue::{Message, Poll, Queue, RETENTION};

/// How long a received message is hidden unless the request says otherwise.
const HIDDEN_SECONDS: i64 = 30;
/// Most messages that are received and not deleted.
const MAX_IN_FLIGHT: usize = 120_000;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Named {
    queue_name: String,
    #[serde(default, rename = "QueueOwnerAWSAccountId")]
    _owner: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Receive {
    queue_url: String,
    #[serde(default)]
    max_number_of_messages: Option<usize>,
    #[serde(default)]
    visibility_timeout: Option<i64>,
    #[serde(default)]
    wait_time_seconds: Option<i64>,
    #[serde(default)]
    attribute_names: Vec<String>,
    #[serde(default)]
    message_system_attribute_names: Vec<String>,
    #[serde(default, rename = "MessageAttributeNames")]
    _message_attributes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Send {
    queue_url: String,
    message_body: String,
    #[serde(default)]
    delay_seconds: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Delete {
    queue_url: String,
    receipt_handle: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct DeleteBatch {
    queue_url: String,
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Entry {
    id: String,
    receipt_handle: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Attributes {
    queue_url: String,
    #[serde(default)]
    attribute_names: Vec<String>,
}

pub(crate) fn answer(world: &mut World, context: &Context, body: &[u8]) -> Result<Answer, Refusal> {
    let now = context.now;
    let json = match &*context.action {
        "GetQueueUrl" => {
            let wanted: Named = read(body)?;
            queue(world, &wanted.queue_name)?;
            let (host, account) = (&context.host, &world.account.id);
            json!({"QueueUrl": format!("{host}/{account}/{}", wanted.queue_name)})
        }
        "ReceiveMessage" => return receive(world, now, read(body)?),
        "SendMessage" => {
            let wanted: Send = read(body)?;
            let id = world.chance.uuid();
            let sum = md5(&wanted.message_body);
            let delay = wanted.delay_seconds.clamp(0, 900) * SECOND;
            queue(world, &wanted.queue_url)?.send(now, id.clone(), wanted.message_body, delay);
            json!({"MD5OfMessageBody": sum, "MessageId": id})
        }
        "DeleteMessage" => {
            let wanted: Delete = read(body)?;
            let number = number(&wanted.receipt_handle)?;
            queue(world, &wanted.queue_url)?.delete(number);
            json!({})
        }
        "DeleteMessageBatch" => delete_batch(world, read(body)?)?,
        "GetQueueAttributes" => attributes(world, now, read(body)?)?,
        other => return Err(unknown(other)),
    };
    Ok(Answer::Json(json))
}

/// A queue by name or URL.
fn queue<'a>(world: &'a mut World, url: &str) -> Result<&'a mut Queue, Refusal> {
    let name = url.rsplit('/').next().unwrap_or(url);
    let missing = || Refusal::new("QueueDoesNotExist", "The specified queue does not exist.");
    world.queues.get_mut(name).ok_or_else(missing)
}

fn receive(world: &mut World, now: Time, wanted: Receive) -> Result<Answer, Refusal> {
    let most = wanted.max_number_of_messages.unwrap_or(1);
    let wait = wanted.wait_time_seconds.unwrap_or(0);
    let hidden = wanted.visibility_timeout.unwrap_or(HIDDEN_SECONDS);
    let limits = [
        ("MaxNumberOfMessages", most as i64, 1, 10),
        ("WaitTimeSeconds", wait, 0, 20),
        ("VisibilityTimeout", hidden, 0, 43_200),
    ];
    for (name, value, least, greatest) in limits {
        if !(least..=greatest).contains(&value) {
            let message = format!(
                "Value {value} for parameter {name} is invalid. Reason: Must be between {least} \
                 and {greatest}, if provided."
            );
            return Err(Refusal::new("InvalidParameterValue", message));
        }
    }
    let mut attributes = wanted.attribute_names;
    attributes.extend(wanted.message_system_attribute_names);
    let poll_for = Poll {
        queue: wanted.queue_url,
        most,
        hidden: hidden * SECOND,
        attributes,
    };
    match poll(world, now, &poll_for)? {
        Some(found) => Ok(Answer::Json(found)),
        None if wait > 0 => Ok(Answer::Poll(poll_for, now.plus(wait * SECOND))),
        None => Ok(Answer::Json(json!({}))),
    }
}

/// Messages of a poll, if there are any.
pub(crate) fn poll(world: &mut World, now: Time, wanted: &Poll) -> Result<Option<Value>, Refusal> {
    let share = world.account.settings.duplicate_share;
    let mut chance = world.chance.clone();
    let queue = queue(world, &wanted.queue)?;
    if queue.next_visible().is_some_and(|from| from <= now) && queue.in_flight(now) >= MAX_IN_FLIGHT
    {
        let message = "Too many messages are in flight.";
        return Err(Refusal::new("OverLimit", message).status(403));
    }
    let mut found = Vec::new();
    while found.len() < wanted.most {
        // A message that is not hidden is received again, as standard queues may do.
        let again = chance.unit() < share;
        let until = if again {
            now.plus(1)
        } else {
            now.plus(wanted.hidden)
        };
        let Some((number, message)) = queue.take(now, until) else {
            break;
        };
        let handle = STANDARD.encode(format!("{number}:{}", chance.hex(16)));
        found.push(shown(&message, &handle, &wanted.attributes));
        if wanted.hidden == 0 {
            break;
        }
    }
    world.chance = chance;
    Ok((!found.is_empty()).then(|| json!({"Messages": found})))
}

fn shown(message: &Message, handle: &str, attributes: &[String]) -> Value {
    let mut all = json!({
        "MessageId": message.id,
        "ReceiptHandle": handle,
        "MD5OfBody": md5(&message.body),
        "Body": message.body,
    });
    let known = [
        ("SenderId", "AIDAEMULATOR00000000".to_owned()),
        ("SentTimestamp", message.sent.0.to_string()),
        ("ApproximateReceiveCount", message.received.to_string()),
        (
            "ApproximateFirstReceiveTimestamp",
            message.first.unwrap_or(message.sent).0.to_string(),
        ),
    ];
    let asked = |name: &str| attributes.iter().any(|one| one == "All" || one == name);
    let chosen = known.into_iter().filter(|(name, _)| asked(name));
    let chosen: Map<String, Value> = chosen
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    if !chosen.is_empty() {
        all["Attributes"] = chosen.into();
    }
    all
}

fn md5(text: &str) -> String {
    let sum = Md5::digest(text.as_bytes());
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The number of a message, from the handle that its receiver got.
fn number(handle: &str) -> Result<u64, Refusal> {
    let decoded = STANDARD.decode(handle).ok();
    let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    let number = text.and_then(|text| text.split_once(':')?.0.parse().ok());
    number.ok_or_else(|| {
        let message = "The input receipt handle is invalid.";
        Refusal::new("ReceiptHandleIsInvalid", message)
    })
}

fn delete_batch(world: &mut World, wanted: DeleteBatch) -> Result<Value, Refusal> {
    let ids: std::collections::BTreeSet<_> = wanted.entries.iter().map(|one| &one.id).collect();
    let wrong = match wanted.entries.len() {
        0 => Some((
            "EmptyBatchRequest",
            "There should be at least one entry in the request.",
        )),
        1..=10 if ids.len() == wanted.entries.len() => None,
        1..=10 => Some((
            "BatchEntryIdsNotDistinct",
            "Two or more entries have the same Id.",
        )),
        _ => Some((
            "TooManyEntriesInBatchRequest",
            "A batch has at most 10 entries.",
        )),
    };
    if let Some((code, message)) = wrong {
        return Err(Refusal::new(code, message));
    }
    let queue = queue(world, &wanted.queue_url)?;
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for entry in wanted.entries {
        match number(&entry.receipt_handle) {
            Ok(number) => {
                queue.delete(number);
                good.push(json!({"Id": entry.id}));
            }
            Err(refusal) => bad.push(json!({
                "Id": entry.id,
                "SenderFault": true,
                "Code": refusal.code,
                "Message": refusal.message,
            })),
        }
    }
    Ok(json!({"Successful": good, "Failed": bad}))
}

fn attributes(world: &mut World, now: Time, wanted: Attributes) -> Result<Value, Refusal> {
    let name = wanted
        .queue_url
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_owned();
    let arn = world.account.arn("sqs", &name);
    let queue = queue(world, &wanted.queue_url)?;
    let hidden = queue.in_flight(now);
    let known = [
        (
            "ApproximateNumberOfMessages",
            (queue.len() - hidden).to_string(),
        ),
        ("ApproximateNumberOfMessagesNotVisible", hidden.to_string()),
        ("ApproximateNumberOfMessagesDelayed", "0".to_owned()),
        ("MessageRetentionPeriod", (RETENTION / SECOND).to_string()),
        ("VisibilityTimeout", HIDDEN_SECONDS.to_string()),
        ("QueueArn", arn),
    ];
    let names = &wanted.attribute_names;
    let asked = |name: &str| names.iter().any(|one| one == "All" || one == name);
    let unknown = names
        .iter()
        .find(|one| *one != "All" && known.iter().all(|(name, _)| name != one));
    if let Some(one) = unknown {
        let message = format!("Unknown Attribute {one}.");
        return Err(Refusal::new("InvalidAttributeName", message));
    }
    let chosen = known.iter().filter(|(name, _)| asked(name));
    let chosen: Map<String, Value> = chosen
        .map(|(name, value)| ((*name).to_owned(), value.clone().into()))
        .collect();
    Ok(json!({"Attributes": chosen}))
}
