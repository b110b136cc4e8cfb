//! What a command is, and what is due for it: pure.

use std::sync::Arc;
use std::time::Duration;

use longshore_api::crd::{NodeClaim, NodeClaimStatus, NodePool, condition};

use longshore_core::snapshot::moves;

use crate::observe::node::NodeView;
use crate::observe::node_claim::is_true;
use longshore_core::disrupt::verdicts::{COMMAND, REPLACES};
use longshore_core::model::conditions::INITIALIZED;
use longshore_core::snapshot::moves::MOVES;
pub use longshore_report::disruption::command::{Command, DETAILS, Repaired};

/// Candidates go no earlier than so many seconds after their last replacement is initialized:
/// kube-scheduler and other watchers see the new node first.
const MIN_REPLACEMENT_AGE_SECONDS: i64 = 2;

/// Clocks of two replicas may be so many seconds apart.
const MAX_CLOCK_SKEW_SECONDS: i64 = 2;

/// The command that a NodeClaim is a candidate of; nothing if it is of none.
pub fn candidate_of(claim: &NodeClaim) -> Option<&str> {
    annotation(claim, COMMAND)
}

/// The command that a NodeClaim was bought by; nothing if it was bought otherwise.
pub fn replacement_of(claim: &NodeClaim) -> Option<&str> {
    annotation(claim, REPLACES)
}

/// Where the pods of a candidate go, by the names of nodes or NodeClaims.
pub fn destinations(claim: &NodeClaim) -> impl Iterator<Item = &str> {
    let text = annotation(claim, MOVES).unwrap_or_default();
    moves::read(text).map(|(to, _)| to)
}

fn annotation<'a>(claim: &'a NodeClaim, key: &str) -> Option<&'a str> {
    let value = claim.metadata.annotations.as_ref()?.get(key)?;
    Some(value.as_str()).filter(|value| !value.is_empty())
}

/// Why consolidation is worth it, in words for Events.
#[derive(Clone, Debug)]
pub struct Worth {
    /// What it saves, in words.
    pub text: String,
    /// A policy was asked, and lets the nodes go.
    pub is_approved: bool,
}

/// A candidate as it is.
#[derive(Clone)]
pub struct Candidate {
    pub claim: Arc<NodeClaim>,
    /// Nodes of its provider ID.
    pub nodes: Vec<Arc<NodeView>>,
}

impl Candidate {
    /// Whether it is on its way out.
    pub fn is_deleting(&self) -> bool {
        self.claim.metadata.deletion_timestamp.is_some()
    }
}

/// A NodeClaim that names a command as what it was bought by.
#[derive(Clone)]
pub struct Replacement {
    pub claim: Arc<NodeClaim>,
    /// Nodes of its provider ID.
    pub nodes: Vec<Arc<NodeView>>,
    /// Pods that wait are expected on it.
    pub is_awaited: bool,
}

/// A command as its objects are.
#[derive(Clone)]
pub struct CommandView {
    pub id: String,
    /// Candidates that are still there.
    pub candidates: Vec<Candidate>,
    /// NodePools that it buys from: those of its candidates, or others.
    pub pools: Vec<Arc<NodePool>>,
    /// NodePools of its candidates.
    pub own_pools: Vec<Arc<NodePool>>,
    /// What was bought by it.
    pub replacements: Vec<Replacement>,
    /// It could not be begun, and this process has bought nothing for it.
    pub is_unbegun: bool,
    /// All destinations of its pods are there and stay.
    pub has_places: bool,
}

/// Why a command is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Nothing was bought for it yet.
    Unbegun,
    /// What was decided cannot be read.
    Unreadable,
    /// Not all of its candidates are there.
    CandidateGone,
    /// A replacement is not there, or was never created.
    ReplacementGone,
    /// A replacement is on its way out.
    ReplacementEnds,
    /// A destination of its pods is not there.
    PlaceGone,
    /// A pod that must not be disrupted is on one of its nodes.
    Held,
    /// Its replacements were not initialized in time.
    TooLate,
}

impl Why {
    pub fn text(self) -> &'static str {
        match self {
            Why::Unbegun => "it could not be begun",
            Why::Unreadable => "its annotation cannot be read",
            Why::CandidateGone => "not all of its nodes are there",
            Why::ReplacementGone => "a replacement is gone",
            Why::ReplacementEnds => "a replacement is being deleted",
            Why::PlaceGone => "a node that its pods would move to is gone",
            Why::Held => "a pod that must not be disrupted is on one of its nodes",
            Why::TooLate => "its replacements were not initialized in time",
        }
    }

    /// Whether what it has bought was bought in vain: the same again might be as well.
    pub fn is_failure(self) -> bool {
        self != Why::Unbegun
    }
}

/// What is due for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing before this has passed, or before an object changes.
    Wait(Duration),
    /// Delete the NodeClaims of the candidates.
    Delete,
    /// The candidates stay, for this reason.
    TakeBack(Why),
    /// Nothing is left to do.
    Over,
}

impl CommandView {
    /// What was decided; nothing if no candidate says it in a form that can be read.
    pub fn command(&self) -> Option<Command> {
        let text = |c: &Candidate| annotation(&c.claim, DETAILS).map(str::to_owned);
        let texts = self.candidates.iter().filter_map(text);
        texts.flat_map(|text| serde_json::from_str(&text)).next()
    }

    /// NodePools that are to blame where a command is taken back: those whose nodes did not become ready,
    /// or all that it has bought from.
    pub fn blamed(&self, command: &Command) -> Vec<&Arc<NodePool>> {
        let is_ready = |name: &String| {
            let of = |of: &&Replacement| of.claim.metadata.name.as_ref() == Some(name);
            let found = self.replacements.iter().find(of);
            let status = found.and_then(|of| of.claim.status.as_ref());
            status.is_some_and(|status| is_true(status, INITIALIZED))
        };
        let bought = command.pools.iter().zip(&command.replacements);
        let unready: Vec<&String> = bought
            .filter(|(_, name)| !is_ready(name))
            .map(|(pool, _)| pool)
            .collect();
        let is_to_blame = |pool: &&Arc<NodePool>| {
            let name = pool.metadata.name.as_ref();
            unready.is_empty() || name.is_some_and(|name| unready.contains(&name))
        };
        self.pools.iter().filter(is_to_blame).collect()
    }

    /// What is due at a time, seconds since 1970.
    pub fn due(&self, now: i64) -> Due {
        if self.candidates.iter().all(Candidate::is_deleting) {
            return Due::Over;
        }
        let Some(command) = self.command() else {
            return Due::TakeBack(Why::Unreadable);
        };
        if self.is_unbegun && self.replacements.is_empty() && !command.replacements.is_empty() {
            return Due::TakeBack(Why::Unbegun);
        }
        if self.candidates.len() < command.candidates {
            return Due::TakeBack(Why::CandidateGone);
        }
        let mut all = true;
        let mut settles: i64 = 0;
        for name in &command.replacements {
            let named = |of: &&Replacement| of.claim.metadata.name.as_ref() == Some(name);
            let Some(Replacement { claim, .. }) = self.replacements.iter().find(named) else {
                return Due::TakeBack(Why::ReplacementGone);
            };
            if claim.metadata.deletion_timestamp.is_some() {
                return Due::TakeBack(Why::ReplacementEnds);
            }
            let status = claim.status.as_ref();
            all &= status.is_some_and(|status| is_true(status, INITIALIZED));
            settles = settles.max(status.map_or(0, |status| still_settles(status, now)));
        }
        let has_begun = self.candidates.iter().any(Candidate::is_deleting);
        if !self.has_places && !has_begun {
            return Due::TakeBack(Why::PlaceGone);
        }
        if all {
            return match u64::try_from(settles) {
                Ok(left) if left > 0 && !has_begun => Due::Wait(Duration::from_secs(left)),
                _ => Due::Delete,
            };
        }
        match u64::try_from(command.ends() - now) {
            Ok(left) if left > 0 => Due::Wait(Duration::from_secs(left)),
            _ => Due::TakeBack(Why::TooLate),
        }
    }
}

/// For how many seconds more a replacement is left to be seen, at most
/// [`MIN_REPLACEMENT_AGE_SECONDS`] and the second that its condition's time may have lost. The
/// condition is on the object, so a restart changes nothing. A time that is further ahead comes
/// from a clock that was wrong: it is not waited for.
fn still_settles(status: &NodeClaimStatus, now: i64) -> i64 {
    let since = condition(&status.conditions, INITIALIZED);
    let ends = since.map_or(0, |c| {
        c.last_transition_time.0.as_second() + MIN_REPLACEMENT_AGE_SECONDS + 1
    });
    match ends - now {
        left if left > MIN_REPLACEMENT_AGE_SECONDS + 1 + MAX_CLOCK_SKEW_SECONDS => 0,
        left => left.clamp(0, MIN_REPLACEMENT_AGE_SECONDS + 1),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(
        name: &str,
        annotations: serde_json::Value,
        more: serde_json::Value,
    ) -> Arc<NodeClaim> {
        let mut object = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "uid": name, "annotations": annotations},
            "spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": []},
        });
        let fields = more.as_object().cloned().unwrap_or_default();
        for (key, value) in fields {
            match key.as_str() {
                "deleted" => object["metadata"]["deletionTimestamp"] = value,
                _ => object[&key] = value,
            }
        }
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn candidate(name: &str, more: serde_json::Value) -> Candidate {
        let details = r#"{"method":"multi","reason":"Underutilized","candidates":2,"replacements":["r"],"began":1000}"#;
        let annotations = json!({COMMAND: "d1", DETAILS: details});
        Candidate {
            claim: claim(name, annotations, more),
            nodes: Vec::new(),
        }
    }

    fn replacement(initialized: &str, more: serde_json::Value) -> Replacement {
        let status = json!({"conditions": [{"type": "Initialized", "status": initialized,
            "reason": "r", "message": "", "lastTransitionTime": "2026-11-24T00:00:00Z"}]});
        let mut all = json!({"status": status});
        all.as_object_mut()
            .unwrap()
            .extend(more.as_object().cloned().unwrap_or_default());
        Replacement {
            claim: claim("r", json!({REPLACES: "d1"}), all),
            nodes: Vec::new(),
            is_awaited: false,
        }
    }

    fn due(candidates: Vec<Candidate>, replacements: Vec<Replacement>, now: i64) -> Due {
        view(candidates, replacements).due(now)
    }

    fn view(candidates: Vec<Candidate>, replacements: Vec<Replacement>) -> CommandView {
        CommandView {
            id: "d1".into(),
            candidates,
            pools: Vec::new(),
            own_pools: Vec::new(),
            replacements,
            is_unbegun: false,
            has_places: true,
        }
    }

    #[test]
    fn candidates_are_deleted_once_all_replacements_are_initialized() {
        let both = || vec![candidate("a", json!({})), candidate("b", json!({}))];
        let deleted = json!({"deleted": "2026-11-24T00:00:00Z"});
        let known = |text: &str| replacement(text, json!({}));
        assert_eq!(
            due(both(), vec![known("Unknown")], 1010),
            Due::Wait(Duration::from_secs(590))
        );
        assert_eq!(due(both(), vec![known("True")], 1010), Due::Delete);
        assert_eq!(
            due(both(), vec![known("True")], 9999),
            Due::Delete,
            "late is not too late"
        );
        let going = vec![candidate("a", deleted.clone()), candidate("b", json!({}))];
        assert_eq!(
            due(going, vec![known("True")], 1010),
            Due::Delete,
            "the other one as well"
        );
        let gone = vec![candidate("a", deleted.clone()), candidate("b", deleted)];
        assert_eq!(due(gone, Vec::new(), 1010), Due::Over);
    }

    #[test]
    fn candidates_stay_until_their_replacements_have_been_seen() {
        let both = || vec![candidate("a", json!({})), candidate("b", json!({}))];
        // When `replacement` is initialized.
        let since: longshore_api::crd::Timestamp = "2026-11-24T00:00:00Z".parse().unwrap();
        let at = |seconds: i64| {
            let now = since.as_second() + seconds;
            due(both(), vec![replacement("True", json!({}))], now)
        };
        assert_eq!(at(0), Due::Wait(Duration::from_secs(3)));
        assert_eq!(at(2), Due::Wait(Duration::from_secs(1)));
        assert_eq!(at(3), Due::Delete);
        assert_eq!(at(-1), Due::Wait(Duration::from_secs(3)), "clocks differ");
        assert_eq!(at(-3600), Due::Delete, "a clock was wrong");
        let going = vec![
            candidate("a", json!({"deleted": "2026-11-24T00:00:00Z"})),
            candidate("b", json!({})),
        ];
        let ready = vec![replacement("True", json!({}))];
        assert_eq!(
            due(going, ready, since.as_second()),
            Due::Delete,
            "the other one has begun to go"
        );
    }

    #[test]
    fn what_was_not_begun_is_no_failure() {
        assert!(Why::TooLate.is_failure() && Why::ReplacementGone.is_failure());
        assert!(Why::PlaceGone.is_failure(), "it was bought in vain");
        assert!(!Why::Unbegun.is_failure());
    }

    #[test]
    fn a_command_after_failures_has_more_time() {
        let details = r#"{"method":"drift","reason":"Drifted","candidates":1,"replacements":["r"],"began":1000,"limit":1200}"#;
        let slow = Candidate {
            claim: claim("a", json!({COMMAND: "d1", DETAILS: details}), json!({})),
            nodes: Vec::new(),
        };
        let late = view(vec![slow], vec![replacement("Unknown", json!({}))]);
        assert_eq!(late.due(1700), Due::Wait(Duration::from_secs(500)));
        assert_eq!(late.due(2200), Due::TakeBack(Why::TooLate));
    }

    #[test]
    fn a_command_that_cannot_be_carried_out_is_taken_back() {
        let both = || vec![candidate("a", json!({})), candidate("b", json!({}))];
        let why = |due: Due| match due {
            Due::TakeBack(why) => why.text(),
            other => panic!("{other:?}"),
        };
        let deleted = json!({"deleted": "2026-11-24T00:00:00Z"});
        assert_eq!(why(due(both(), Vec::new(), 1010)), "a replacement is gone");
        assert_eq!(
            why(due(both(), vec![replacement("True", deleted)], 1010)),
            "a replacement is being deleted"
        );
        let one = vec![candidate("a", json!({}))];
        assert_eq!(
            why(due(one, vec![replacement("True", json!({}))], 1010)),
            "not all of its nodes are there"
        );
        assert_eq!(
            why(due(both(), vec![replacement("Unknown", json!({}))], 1600)),
            "its replacements were not initialized in time"
        );
        let mut nowhere = view(both(), vec![replacement("True", json!({}))]);
        nowhere.has_places = false;
        assert_eq!(
            why(nowhere.due(1010)),
            "a node that its pods would move to is gone"
        );
        let mut unbegun = view(both(), Vec::new());
        unbegun.is_unbegun = true;
        assert_eq!(why(unbegun.due(1010)), "it could not be begun");
        let broken = Candidate {
            claim: claim("a", json!({COMMAND: "d1", DETAILS: "{}"}), json!({})),
            nodes: Vec::new(),
        };
        assert_eq!(
            why(due(vec![broken], Vec::new(), 1010)),
            "its annotation cannot be read"
        );
    }
}
