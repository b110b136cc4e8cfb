//! Whose nodes boot with the user data of a policy's next version: what steps of NodeClaims and the
//! controller tell each other.
//!
//! One NodeClaim is named first. What may have been launched already is never given another text.

use std::collections::BTreeMap;
use std::sync::Mutex;

use longshore_api::crd::NodeClaim;

use crate::observe::node_claim::pool_of;
use crate::policies::BOOTS;
use crate::process::lock::lock;
use crate::process::mutants::mutant;

/// What nodes of a NodePool boot with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootRule {
    /// The next version, as NodeClaims are marked with it.
    pub mark: String,
    pub scope: BootScope,
}

/// Which NodeClaims' nodes boot with a next version's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootScope {
    /// No node boots with it.
    NoClaim,
    /// The first NodeClaim that asks.
    FirstToAsk,
    /// This one, once it is written down.
    Named(String),
    /// Only the node of this NodeClaim, the first that was launched with it.
    OneClaim(String),
    /// All that are launched from now on.
    AllClaims,
}

/// What steps and the controller tell each other.
#[derive(Default)]
pub struct FirstBoots(Mutex<FirstBootsState>);

#[derive(Default)]
struct FirstBootsState {
    /// By NodePool; none before it is known what is written down.
    rules: Option<BTreeMap<String, BootRule>>,
    /// NodeClaims that asked first, by mark.
    named: BTreeMap<String, First>,
}

/// A NodeClaim that asked first.
struct First {
    claim: String,
    /// The controller knows of it.
    is_reported: bool,
    /// An instance may have been asked for with the text.
    tried: bool,
}

/// What is due for a NodeClaim before its launch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is launched as it is marked.
    Launch,
    Wait,
    Mark(String),
    Unmark,
}

/// What a NodeClaim is marked with.
pub fn mark_of(claim: &NodeClaim) -> Option<&str> {
    let annotations = claim.metadata.annotations.as_ref()?;
    annotations.get(BOOTS).map(String::as_str)
}

impl FirstBoots {
    /// Follows what is written down, by NodePool.
    pub fn follow(&self, rules: BTreeMap<String, BootRule>) {
        let mut known = lock(&self.0);
        known
            .named
            .retain(|mark, _| rules.values().any(|rule| rule.mark == *mark));
        known.rules = Some(rules);
    }

    /// What this process knows is another one's from now on.
    pub fn forget(&self) {
        *lock(&self.0) = FirstBootsState::default();
    }

    /// The NodeClaim that asked first for a version, returned once.
    pub fn take_named(&self, mark: &str) -> Option<String> {
        let mut known = lock(&self.0);
        let first = known
            .named
            .get_mut(mark)
            .filter(|first| !first.is_reported)?;
        first.is_reported = true;
        Some(first.claim.clone())
    }

    /// Has another NodeClaim be the first: this one is not.
    pub fn unname(&self, mark: &str) {
        lock(&self.0).named.remove(mark);
    }

    /// Whether it is sure that no instance has a version's text for a NodeClaim that asked first.
    pub fn is_untried(&self, mark: &str, claim: &str) -> bool {
        let known = lock(&self.0);
        let first = known.named.get(mark);
        first.is_some_and(|first| first.claim == claim && !first.tried)
    }

    /// Nothing was launched for a NodeClaim, and nothing will be.
    pub fn not_launched(&self, claim: &NodeClaim) {
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        let mut known = lock(&self.0);
        let firsts = known.named.values_mut();
        firsts
            .filter(|first| first.claim == name)
            .for_each(|first| first.tried = false);
    }

    /// What is due for a NodeClaim. `is_unlaunched`: no instance was asked for.
    pub(super) fn turn(&self, claim: &NodeClaim, is_unlaunched: bool) -> Turn {
        let (name, own) = (claim.metadata.name.as_deref(), mark_of(claim));
        let name = name.unwrap_or_default();
        let mut known = lock(&self.0);
        let FirstBootsState { rules, named } = &mut *known;
        let Some(rules) = rules else {
            // What is written down of its version is not read yet.
            return match own {
                Some(_) => Turn::Wait,
                None => Turn::Launch,
            };
        };
        let rule = rules.get(pool_of(claim));
        let scope = match rule.map(|rule| &rule.scope) {
            Some(BootScope::FirstToAsk | BootScope::Named(_) | BootScope::OneClaim(_))
                if mutant("canary-boots-all") =>
            {
                &BootScope::AllClaims
            }
            scope => scope.unwrap_or(&BootScope::NoClaim),
        };
        let is_due = match scope {
            BootScope::NoClaim | BootScope::FirstToAsk | BootScope::Named(_) => false,
            BootScope::OneClaim(first) => first == name,
            BootScope::AllClaims => true,
        };
        let mark = rule.map_or("", |rule| &*rule.mark);
        match (is_due, own) {
            (true, Some(own)) if own == mark => Turn::Launch,
            (true, _) if is_unlaunched => {
                if let Some(first) = named.get_mut(mark).filter(|first| first.claim == name) {
                    first.tried = true;
                }
                Turn::Mark(mark.to_owned())
            }
            (true, _) => Turn::Launch,
            (false, Some(_)) if is_unlaunched => Turn::Unmark,
            // It is launched no more, and given up in time: its node may have the text already.
            (false, Some(_)) => Turn::Wait,
            (false, None) if !is_unlaunched => Turn::Launch,
            (false, None) => match scope {
                BootScope::FirstToAsk => {
                    let first = named.entry(mark.to_owned()).or_insert_with(|| First {
                        claim: name.to_owned(),
                        is_reported: false,
                        tried: false,
                    });
                    match first.claim == name {
                        true => Turn::Wait,
                        false => Turn::Launch,
                    }
                }
                BootScope::Named(first) if first == name => Turn::Wait,
                _ => Turn::Launch,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MARK: &str = "boot@1";

    fn claim(name: &str, mark: Option<&str>) -> NodeClaim {
        let annotations = mark.map(|mark| json!({BOOTS: mark})).unwrap_or(json!({}));
        serde_json::from_value(json!({
            "metadata": {"name": name, "uid": name, "annotations": annotations,
                "labels": {"karpenter.sh/nodepool": "web"}},
            "spec": {"requirements": [],
                "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
        }))
        .unwrap()
    }

    fn follows(boots: &FirstBoots, scope: BootScope) {
        let rule = BootRule {
            mark: MARK.to_owned(),
            scope,
        };
        boots.follow([("web".to_owned(), rule)].into());
    }

    fn turn(boots: &FirstBoots, name: &str) -> Turn {
        boots.turn(&claim(name, None), true)
    }

    fn marked(boots: &FirstBoots, name: &str) -> Turn {
        boots.turn(&claim(name, Some(MARK)), true)
    }

    #[test]
    fn one_waits_until_it_is_written_down_and_the_others_do_not() {
        let boots = FirstBoots::default();
        follows(&boots, BootScope::FirstToAsk);
        assert_eq!(turn(&boots, "a"), Turn::Wait);
        assert_eq!(turn(&boots, "b"), Turn::Launch);
        assert_eq!(boots.take_named(MARK).as_deref(), Some("a"));
        assert_eq!(boots.take_named(MARK), None, "told once");
        follows(&boots, BootScope::Named("a".into()));
        assert_eq!(
            (turn(&boots, "a"), turn(&boots, "b")),
            (Turn::Wait, Turn::Launch)
        );
        assert!(boots.is_untried(MARK, "a"));
        follows(&boots, BootScope::OneClaim("a".into()));
        assert_eq!(turn(&boots, "b"), Turn::Launch);
        assert_eq!(turn(&boots, "a"), Turn::Mark(MARK.into()));
        assert!(!boots.is_untried(MARK, "a"));
        assert_eq!(marked(&boots, "a"), Turn::Launch);
        assert_eq!(marked(&boots, "b"), Turn::Unmark);
        follows(&boots, BootScope::AllClaims);
        assert_eq!(turn(&boots, "c"), Turn::Mark(MARK.into()));
        follows(&boots, BootScope::NoClaim);
        assert_eq!(
            (turn(&boots, "c"), marked(&boots, "d")),
            (Turn::Launch, Turn::Unmark)
        );
    }

    #[test]
    fn what_may_have_been_launched_already_gets_no_other_text() {
        let boots = FirstBoots::default();
        for scope in [
            BootScope::FirstToAsk,
            BootScope::OneClaim("a".into()),
            BootScope::AllClaims,
        ] {
            follows(&boots, scope);
            assert_eq!(boots.turn(&claim("a", None), false), Turn::Launch);
        }
        assert_eq!(boots.take_named(MARK), None);
        follows(&boots, BootScope::NoClaim);
        let tried = boots.turn(&claim("a", Some(MARK)), false);
        assert_eq!(tried, Turn::Wait, "its node may have the text");
    }

    #[test]
    fn before_it_is_known_what_is_written_only_one_that_is_marked_waits() {
        let boots = FirstBoots::default();
        assert_eq!(
            (turn(&boots, "a"), marked(&boots, "b")),
            (Turn::Launch, Turn::Wait)
        );
        follows(&boots, BootScope::AllClaims);
        boots.forget();
        assert_eq!(marked(&boots, "b"), Turn::Wait);
    }

    #[test]
    fn one_that_was_refused_by_the_cloud_was_never_tried() {
        let boots = FirstBoots::default();
        follows(&boots, BootScope::FirstToAsk);
        turn(&boots, "a");
        follows(&boots, BootScope::OneClaim("a".into()));
        turn(&boots, "a");
        assert!(!boots.is_untried(MARK, "a"));
        boots.not_launched(&claim("a", Some(MARK)));
        assert!(boots.is_untried(MARK, "a") && !boots.is_untried(MARK, "b"));
        boots.unname(MARK);
        follows(&boots, BootScope::FirstToAsk);
        assert_eq!(turn(&boots, "b"), Turn::Wait);
    }
}
