//! What a command is: nodes that go together, and what is bought for them first. It is written on
//! the NodeClaims of its candidates.

use longshore_core::disrupt::backoff;
use longshore_core::disrupt::verdicts::Reason;
use serde::{Deserialize, Serialize};

/// Annotation of a candidate with its [`Command`], as JSON.
pub const DETAILS: &str = "longshore.dev/disruption-command";

/// What is decided for a candidate, the same on each candidate of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Command {
    /// The method that found it, as `--method` calls it.
    pub method: String,
    /// The reason that budgets know.
    #[serde(with = "reason")]
    pub reason: Reason,
    /// How many candidates it has.
    pub candidates: usize,
    /// Names of the NodeClaims that are bought first.
    pub replacements: Vec<String>,
    /// The NodePool of each of them, where that is not the one of all candidates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<String>,
    /// When it was decided, seconds since 1970.
    pub began: i64,
    /// How long its replacements may take to be initialized, seconds, if it is not the usual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
    /// What it repairs, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repaired>,
    /// Why its node goes before it is replaced, as metrics call it, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
}

impl Command {
    /// When it is taken back whose replacements are not initialized, seconds since 1970.
    pub fn ends(&self) -> i64 {
        let limit = self.limit.unwrap_or(backoff::time_limit(None));
        self.began.saturating_add(limit)
    }
}

/// A reason as the API calls it.
mod reason {
    use longshore_core::disrupt::verdicts::Reason;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(reason: &Reason, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(reason.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Reason, D::Error> {
        let name = String::deserialize(from)?;
        let known = Reason::ALL.into_iter().find(|reason| reason.name() == name);
        known.ok_or_else(|| D::Error::custom(format!("unknown reason {name}")))
    }
}

/// What a command repairs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Repaired {
    /// Type of the condition.
    pub condition: String,
    /// How long, seconds, pods may take to leave, where the cloud bounds that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<i64>,
}
