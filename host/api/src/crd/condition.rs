//! Conditions of a status: a type, a status (true, false, unknown), a reason and a time.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Reads a list of a status. An item that cannot be read is passed over, and so is what is no list:
/// the controller that wrote it may be newer.
///
/// # Errors
/// It is no JSON.
pub fn readable<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let Value::Array(items) = Value::deserialize(deserializer)? else {
        return Ok(Vec::new());
    };
    let read = items.into_iter().map(T::deserialize);
    Ok(read.filter_map(Result::ok).collect())
}

/// Reads a field of a status. What cannot be read counts as not there: the controller that wrote it may
/// be newer, and one object must not spoil the list that it is in.
///
/// # Errors
/// It is no JSON.
pub fn if_readable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = Value::deserialize(deserializer)?;
    Ok(T::deserialize(value).unwrap_or_default())
}

/// One statement about an object. The schema differs a little between resources (a NodeClaim's
/// reason may be empty), so each status states its own; this type reads them all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about, such as `Ready`. One condition of each type in a status.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// When `status` changed last.
    pub last_transition_time: Time,
    /// Why, as one word for programs.
    #[serde(default)]
    pub reason: String,
    /// Why, for people.
    #[serde(default)]
    pub message: String,
    /// The `metadata.generation` that it speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It does.
    True,
    /// It does not.
    False,
    /// Nobody can say yet.
    Unknown,
}

impl ConditionStatus {
    /// As it is written: `True`, `False` or `Unknown`.
    pub fn text(self) -> &'static str {
        match self {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        }
    }
}

/// The condition of a type, if there is one.
pub fn condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Sets a condition and returns whether it changed. The time of transition is `now` if the
/// condition is new or its status changes, and stays where only words do; the observed generation
/// stays too. An unchanged status need not be written.
pub fn set_condition(
    conditions: &mut Vec<Condition>,
    type_: &str,
    status: ConditionStatus,
    reason: &str,
    message: &str,
    now: Time,
) -> bool {
    let Some(old) = conditions
        .iter_mut()
        .find(|condition| condition.type_ == type_)
    else {
        conditions.push(Condition {
            type_: type_.to_owned(),
            status,
            last_transition_time: now,
            reason: reason.to_owned(),
            message: message.to_owned(),
            observed_generation: None,
        });
        return true;
    };
    if old.status == status && old.reason == reason && old.message == message {
        return false;
    }
    if old.status != status {
        old.status = status;
        old.last_transition_time = now;
    }
    reason.clone_into(&mut old.reason);
    message.clone_into(&mut old.message);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crd::Timestamp;

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn only_a_change_of_status_is_a_transition() {
        let mut all = Vec::new();
        let mut set = |status, reason, second| {
            let changed = set_condition(&mut all, "Ready", status, reason, "", at(second));
            let now = condition(&all, "Ready").unwrap();
            (
                changed,
                now.last_transition_time.0.as_second(),
                now.reason.clone(),
            )
        };
        assert_eq!(
            set(ConditionStatus::Unknown, "Starting", 10),
            (true, 10, "Starting".into())
        );
        assert_eq!(
            set(ConditionStatus::Unknown, "Starting", 20),
            (false, 10, "Starting".into())
        );
        assert_eq!(
            set(ConditionStatus::Unknown, "Waiting", 30),
            (true, 10, "Waiting".into())
        );
        assert_eq!(
            set(ConditionStatus::True, "Waiting", 40),
            (true, 40, "Waiting".into())
        );
        assert_eq!(condition(&all, "Launched"), None);
        assert_eq!(all.len(), 1);
    }

    #[test]
    fn a_condition_that_cannot_be_read_does_not_hide_the_others() {
        #[derive(Deserialize)]
        struct Status {
            #[serde(default, deserialize_with = "readable")]
            conditions: Vec<Condition>,
        }
        let read = |conditions: &str| {
            let text = format!(r#"{{"conditions":{conditions}}}"#);
            serde_json::from_str::<Status>(&text).unwrap().conditions
        };
        let at = r#""lastTransitionTime":"2026-11-21T08:00:00Z"}"#;
        let all = read(&format!(
            r#"[{{"type":"Ready","status":"Perhaps",{at},5,{{"type":"Launched","status":"True",{at}]"#
        ));
        assert_eq!(all.len(), 1);
        assert!(condition(&all, "Launched").is_some());
        assert!(read("{}").is_empty() && read("null").is_empty());
    }

    #[test]
    fn reason_and_message_may_be_absent() {
        let json =
            r#"{"type":"Ready","status":"True","lastTransitionTime":"2026-11-21T08:00:00Z"}"#;
        let condition: Condition = serde_json::from_str(json).unwrap();
        assert_eq!(
            (condition.reason.as_str(), condition.message.as_str()),
            ("", "")
        );
        let again = serde_json::to_value(&condition).unwrap();
        assert_eq!(again["lastTransitionTime"], "2026-11-21T08:00:00Z");
        assert_eq!(again["reason"], "");
    }
}
