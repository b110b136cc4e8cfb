//! What a NodePool remembers of commands of disruption that failed: an annotation, so that a process
//! that takes over knows it as well.

use longshore_core::disrupt::backoff;
use longshore_core::model::Failures;
use serde::{Deserialize, Serialize};

/// Annotation of NodePools with a [`Recorded`], as JSON.
pub const FAILURES: &str = "longshore.dev/disruption-failures";
/// Annotation of NodePools: the hash of what their nodes are made of.
pub const HASH: &str = "karpenter.sh/nodepool-hash";

/// Commands that failed one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recorded {
    /// How many.
    pub count: u32,
    /// Nothing is bought to replace a node before this, seconds since 1970.
    pub until: i64,
    /// [`HASH`] of the NodePool at that time: another template may do better.
    #[serde(default)]
    pub template: String,
}

impl Recorded {
    /// Reads the annotation of a NodePool whose hash is `template`. Nothing if it says nothing of this
    /// template, or cannot be read.
    pub fn read(text: &str, template: &str) -> Option<Failures> {
        let known: Recorded = serde_json::from_str(text).ok()?;
        let failures = Failures {
            count: known.count,
            until: known.until,
        };
        (known.template == template && backoff::is_plausible(failures)).then_some(failures)
    }

    /// The annotation's text.
    pub fn write(failures: Failures, template: &str) -> String {
        let Failures { count, until } = failures;
        let template = template.to_owned();
        let recorded = Recorded {
            count,
            until,
            template,
        };
        serde_json::to_string(&recorded).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_hold_for_the_template_that_they_were_recorded_of() {
        let failures = Failures {
            count: 3,
            until: 1_795_539_600,
        };
        let text = Recorded::write(failures, "123");
        assert_eq!(text, r#"{"count":3,"until":1795539600,"template":"123"}"#);
        assert_eq!(Recorded::read(&text, "123"), Some(failures));
        assert_eq!(Recorded::read(&text, "124"), None, "it was changed since");
        for text in [
            "",
            "soon",
            r#"{"count":0,"until":9}"#,
            r#"{"count":-1,"until":9}"#,
        ] {
            assert_eq!(Recorded::read(text, ""), None, "{text:?}");
        }
    }
}
