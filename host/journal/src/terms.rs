//! What an operator let a policy do, as far as its answers depend on it.

use longshore_policy::{Ability, Exclusions, Terms};
use serde::{Deserialize, Serialize};

/// The terms of a version as they are written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedTerms {
    /// What it may be asked.
    pub grants: Vec<String>,
    /// Signals that it may read; none for all that it declares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signals: Option<Vec<String>>,
    /// The share of the list price that it may take off, the bits of the number.
    pub max_discount: u64,
    /// Whether offerings that it excludes are only dear.
    pub discourages: bool,
}

impl Default for RecordedTerms {
    /// Those of journals that do not say them: whatever it exports.
    fn default() -> Self {
        RecordedTerms::new(&Terms::everything())
    }
}

impl RecordedTerms {
    /// As they are written down.
    pub fn new(terms: &Terms) -> Self {
        let signals = terms.signals.as_ref();
        RecordedTerms {
            grants: terms
                .grants
                .iter()
                .map(|ability| ability.name().to_owned())
                .collect(),
            signals: signals.map(|names| names.iter().cloned().collect()),
            max_discount: terms.max_discount.to_bits(),
            discourages: terms.exclusions == Exclusions::Discourage,
        }
    }

    /// As they were meant.
    pub fn meant(&self) -> Terms {
        let granted = |name: &String| {
            let known = Ability::ALL.iter().find(|(known, _)| known == name);
            known.map(|(_, ability)| *ability)
        };
        let signals = self.signals.as_ref();
        Terms {
            grants: self.grants.iter().filter_map(granted).collect(),
            signals: signals.map(|names| names.iter().cloned().collect()),
            max_discount: f64::from_bits(self.max_discount),
            exclusions: match self.discourages {
                true => Exclusions::Discourage,
                false => Exclusions::Allow,
            },
            ..Terms::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_come_back_as_they_were_and_old_journals_grant_everything() {
        let terms = Terms {
            grants: [Ability::Scorer].into(),
            signals: Some(["carbon".to_owned()].into()),
            max_discount: 0.1 + 0.2,
            exclusions: Exclusions::Discourage,
            ..Terms::default()
        };
        let text = serde_json::to_string(&RecordedTerms::new(&terms)).unwrap();
        let read: RecordedTerms = serde_json::from_str(&text).unwrap();
        assert_eq!(read.meant(), terms);
        let old: RecordedTerms = serde_json::from_str("{}").unwrap();
        assert_eq!(old.meant(), Terms::everything());
    }
}
