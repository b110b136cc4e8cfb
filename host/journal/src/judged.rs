//! What consolidation policies were asked and answered in a look for disruption, as it is recorded.
//! Answers of a version are given again by it; what counted where none answered is written down.

use longshore_core::disrupt::consolidation::Decision;
use longshore_policy::{Fallback, JudgeRecord, Said};
use serde::{Deserialize, Serialize};

use super::blobs::{self, BlobStore};
use super::round::{Round, Version};

/// A question to consolidation policies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Question {
    /// How many proposals it was about; none for weights of nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposals: Option<usize>,
    /// What the policies answered, in the order in which they were asked.
    pub answers: Vec<Judgement>,
}

/// What one policy answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Judgement {
    /// What the operator calls the policy.
    pub policy: String,
    /// NodePools whose nodes it speaks for.
    pub node_pools: Vec<String>,
    /// Which of the versions; none where none answered.
    pub version: Option<usize>,
    /// Checksum of what it said.
    pub sum: u64,
    /// What counted where no version answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
    /// That, by digest; none for the rules of NodePools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<String>,
}

/// What counted where no version of a policy answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counted {
    /// What it last said of the same question.
    LastAnswer,
    /// Nothing is bought or consolidated.
    Hold,
    /// An offering costs its list price.
    Price,
    /// The rules of NodePools alone.
    Rules,
    /// One that a newer Longshore knows.
    #[serde(other)]
    Other,
}

impl From<Fallback> for Counted {
    fn from(fallback: Fallback) -> Self {
        match fallback {
            Fallback::LastAnswer => Counted::LastAnswer,
            Fallback::Hold => Counted::Hold,
            Fallback::Price => Counted::Price,
            Fallback::Rules => Counted::Rules,
            // A version: where one answers, nothing else counts.
            Fallback::LastGood => Counted::Other,
        }
    }
}

impl Round {
    /// Notes what consolidation policies answered.
    pub(super) fn judged(&mut self, records: Vec<JudgeRecord>, blobs: &BlobStore) {
        let mut questions = Vec::new();
        for record in records {
            let mut answers = Vec::new();
            for answer in record.answers {
                if answer.failed && !self.failed.iter().any(|name| *name == *answer.name) {
                    self.failed.push(answer.name.to_string());
                }
                let said = answer.said.as_ref();
                let instead = said.filter(|_| answer.by.is_none()).map(|said| {
                    let bytes = write(said);
                    let digest = blobs::digest(&bytes);
                    blobs.put(&digest, &bytes);
                    digest
                });
                let by = answer.by.as_ref();
                answers.push(Judgement {
                    policy: answer.name.to_string(),
                    node_pools: answer.node_pools.iter().map(ToString::to_string).collect(),
                    version: by.map(|policy| self.version(Version::new(answer.place, policy))),
                    sum: said.map_or(0, Said::sum),
                    counted: answer.instead.map(Counted::from),
                    instead,
                });
            }
            questions.push(Question {
                proposals: record.proposals,
                answers,
            });
        }
        if let Some(look) = &mut self.look {
            look.questions = questions;
        }
    }
}

/// What was said, numbers as their bits.
#[derive(Serialize, Deserialize)]
enum Written {
    Weights(Vec<u64>),
    /// Priority, time and reason.
    Decisions(Vec<(u64, u64, String)>),
}

/// The bytes of what was said.
fn write(said: &Said) -> Vec<u8> {
    let bits = |of: &Decision| {
        let reason = of.reason.to_string();
        (of.priority.to_bits(), of.not_before.to_bits(), reason)
    };
    let written = match said {
        Said::Weights(weights) => Written::Weights(weights.iter().map(|w| w.to_bits()).collect()),
        Said::Decisions(decisions) => Written::Decisions(decisions.iter().map(bits).collect()),
    };
    serde_json::to_vec(&written).unwrap_or_default()
}

/// Reads what [`write()`] wrote.
///
/// # Errors
/// It is something else, in words.
pub fn read(bytes: &[u8]) -> Result<Said, String> {
    let written = serde_json::from_slice(bytes);
    let written = written.map_err(|error| format!("what was said makes no sense: {error}"))?;
    let decision = |(priority, not_before, reason): (u64, u64, String)| Decision {
        priority: f64::from_bits(priority),
        not_before: f64::from_bits(not_before),
        reason: reason.into(),
        by: None,
    };
    Ok(match written {
        Written::Weights(bits) => Said::Weights(bits.into_iter().map(f64::from_bits).collect()),
        Written::Decisions(all) => Said::Decisions(all.into_iter().map(decision).collect()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_comes_back_to_the_last_bit() {
        let decision = Decision {
            priority: 0.1 + 0.2,
            not_before: 1.0 / 3.0,
            reason: "later".into(),
            by: None,
        };
        for said in [
            Said::Weights([0.1 + 0.2, f64::INFINITY, 0.0].into()),
            Said::Decisions([decision].into()),
        ] {
            assert_eq!(read(&write(&said)).unwrap(), said);
        }
        let error = read(b"{}").unwrap_err();
        assert!(
            error.starts_with("what was said makes no sense: "),
            "{error}"
        );
    }

    #[test]
    fn what_a_newer_journal_says_counted_is_read_as_something_else() {
        let read: Judgement = serde_json::from_str(r#"{"counted": "a-guess"}"#).unwrap();
        assert_eq!(read.counted, Some(Counted::Other));
    }
}
