//! Notices for logs, metrics and Events: what happened to policies and signals.

use longshore_policy::Level;
use serde::Serialize;

/// The kinds of notices: a closed set, fit for a label.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoticeKind {
    /// Another configuration is in force.
    ConfigLoaded,
    /// The configuration cannot be used; the last good one stays in force.
    ConfigRefused,
    /// A version was made ready; the next round takes it over.
    PolicyLoaded,
    /// A version was refused; the old one goes on.
    PolicyRefused,
    /// The configuration names a policy no more, or turns it off.
    PolicyRemoved,
    /// Compiled code was not read or not kept: something is wrong with the cache.
    CompiledCodeIgnored,
    /// What was fetched was not read or not kept: something is wrong with the cache.
    BundleNotKept,
    /// An enforced policy fails; a substitute answers.
    PolicyFailing,
    /// An enforced policy that failed answers again.
    PolicyRecovered,
    /// An enforced policy costs all offerings alike: the price decides nothing.
    PolicyCostsAlike,
    /// It does so no longer.
    PolicyCostsDiffer,
    /// Costs of an enforced policy were too far below the list price, and raised.
    PolicyCostsRaised,
    /// A component wants more than the operator's file grants.
    PolicyNotGranted,
    /// A policy had something to say.
    PolicySaid,
    /// A policy that is compared does not answer.
    ShadowFailing,
    /// A policy that is compared answers again.
    ShadowRecovered,
    /// A next version is asked beside the one at work, and obeyed for the NodePools of a step.
    CanaryAdvanced,
    /// It answers for all NodePools.
    CanaryPromoted,
    /// A next version is obeyed no longer, because of a fault or an operator.
    CanaryTakenBack,
    /// A signal cannot be fetched; its last good table stays.
    SignalLost,
    /// It can be fetched (again).
    SignalBack,
}

impl NoticeKind {
    /// Whether an operator should look at it.
    pub fn is_warning(self) -> bool {
        use NoticeKind::*;
        matches!(
            self,
            ConfigRefused
                | PolicyRefused
                | CompiledCodeIgnored
                | BundleNotKept
                | PolicyFailing
                | PolicyCostsAlike
                | PolicyCostsRaised
                | PolicyNotGranted
                | ShadowFailing
                | CanaryTakenBack
                | SignalLost
        )
    }
}

impl NoticeKind {
    /// Whether a component brings it about by itself, as often as it is asked.
    pub fn is_of_component(self) -> bool {
        use NoticeKind::*;
        matches!(
            self,
            PolicySaid
                | PolicyFailing
                | PolicyRecovered
                | PolicyCostsAlike
                | PolicyCostsDiffer
                | PolicyCostsRaised
                | ShadowFailing
                | ShadowRecovered
        )
    }
}

/// Something that happened. The same trouble in many rounds is one notice.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Notice {
    pub kind: NoticeKind,
    /// Name of the policy or signal; file of the configuration.
    pub name: String,
    /// What happened, in a sentence.
    pub message: String,
    /// What can be done; may be empty.
    pub hint: String,
    /// It is of what this process began with, which is no change.
    #[serde(skip)]
    pub at_start: bool,
    /// How loud it is, if a policy said it.
    #[serde(skip)]
    pub level: Option<Level>,
}

impl Notice {
    /// What was changed and how, where rounds may decide otherwise from now on.
    pub fn change(&self) -> Option<(String, &str)> {
        let subject = match self.kind {
            _ if self.at_start => return None,
            NoticeKind::ConfigLoaded => "configuration".to_owned(),
            NoticeKind::PolicyLoaded
            | NoticeKind::PolicyRemoved
            | NoticeKind::CanaryAdvanced
            | NoticeKind::CanaryPromoted
            | NoticeKind::CanaryTakenBack => format!("policy {}", self.name),
            _ => return None,
        };
        let what = self.message.strip_prefix(&subject).unwrap_or(&self.message);
        Some((subject, what.trim_start_matches([':', ' '])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_is_a_change_of_its_policy() {
        let notice = |kind, name: &str, message: &str| Notice {
            kind,
            name: name.to_owned(),
            message: message.to_owned(),
            hint: String::new(),
            at_start: false,
            level: None,
        };
        let loaded = "policy cost: discounts 1.2.0 (sha256:a179) is ready";
        let loaded = notice(NoticeKind::PolicyLoaded, "cost", loaded);
        let what = "discounts 1.2.0 (sha256:a179) is ready";
        assert_eq!(loaded.change(), Some(("policy cost".to_owned(), what)));
        let first = Notice {
            at_start: true,
            ..loaded
        };
        assert_eq!(first.change(), None);
        let reloaded = "configuration reloaded; 2 policies changed";
        let reloaded = notice(NoticeKind::ConfigLoaded, "/etc/longshore.toml", reloaded);
        let what = "reloaded; 2 policies changed";
        assert_eq!(reloaded.change(), Some(("configuration".to_owned(), what)));
        assert_eq!(
            notice(NoticeKind::PolicySaid, "cost", "hello").change(),
            None
        );
    }
}
