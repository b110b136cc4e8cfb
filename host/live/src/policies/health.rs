//! Which policies give no answer, for the condition of their NodePools.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::Mode;
use crate::status::policies::{Active, PolicyStatus};

/// Seconds that a policy must answer before it counts as healthy: one that flips its answers changes
/// no NodePool twice a round.
const SETTLED_SECONDS: i64 = 300;

/// A policy that gives no answer.
#[derive(Clone, PartialEq, Debug)]
pub struct Trouble {
    policy: String,
    /// NodePools that it serves; none for all.
    nodepools: Option<Vec<String>>,
    what: String,
}

/// The troubles of all policies.
#[derive(Default)]
pub(super) struct Health {
    current: Arc<[Trouble]>,
    /// What is wrong, and when it was last seen, by policy.
    known: BTreeMap<String, (String, i64)>,
}

impl Health {
    /// Takes in how policies are at `now`, seconds since 1970.
    pub fn note(&mut self, policies: &[PolicyStatus], now: i64) {
        let mut all = Vec::new();
        let mut known = std::mem::take(&mut self.known);
        for policy in policies.iter().filter(|one| one.mode == Mode::Enforce) {
            let before = known.remove(&policy.name);
            let settles =
                |(_, seen): &(String, i64)| (*seen..*seen + SETTLED_SECONDS).contains(&now);
            let (what, seen) = match (what(policy), before) {
                // In the words that it began with: those of a policy may differ each time.
                (Some(_), Some((what, _))) => (what, now),
                (Some(what), None) => (what, now),
                (None, Some(before)) if settles(&before) => before,
                (None, _) => continue,
            };
            all.push(Trouble {
                policy: policy.name.clone(),
                nodepools: policy.nodepools.clone(),
                what: what.clone(),
            });
            self.known.insert(policy.name.clone(), (what, seen));
        }
        if *self.current != *all {
            self.current = all.into();
        }
    }

    /// What stands. It is another list each time that it has changed.
    pub fn current(&self) -> Arc<[Trouble]> {
        self.current.clone()
    }
}

/// What is wrong with the policies of a NodePool, in sentences; none if nothing is.
pub fn trouble_of(troubles: &[Trouble], node_pool: &str) -> Option<String> {
    let serves = |trouble: &&Trouble| {
        let names = trouble.nodepools.as_ref();
        names.is_none_or(|names| names.iter().any(|name| name == node_pool))
    };
    let own = troubles.iter().filter(serves);
    let own: Vec<String> = own
        .map(|trouble| format!("policy {} {}", trouble.policy, trouble.what))
        .collect();
    (!own.is_empty()).then(|| own.join("; "))
}

/// Why an enforced policy gives no answer, and what counts instead; none if it does.
fn what(policy: &PolicyStatus) -> Option<String> {
    if policy.loading {
        return None;
    }
    let why = match (&policy.failing, &policy.version) {
        (Some(failing), _) => format!("gives no answer: {failing}"),
        (None, None) => {
            let error = policy.error.as_ref();
            let reason = error.map_or("it is not loaded", |error| &*error.reason);
            format!("cannot be used: {reason}")
        }
        (None, Some(_)) => return None,
    };
    let instead = match policy.active {
        Some(Active::LastVersion) => "; its last good version answers",
        Some(Active::LastAnswer) => "; what it last said counts",
        Some(Active::Hold) => "; nothing is bought or consolidated",
        Some(Active::Price) => "; the list price decides",
        Some(Active::BuiltIn) => "; nodes boot with the built-in user data",
        Some(Active::Rules) => "; the rules of NodePools alone count",
        Some(Active::Current) | None => "",
    };
    Some(format!("{why}{instead}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::policies::Problem;

    fn policy(name: &str, failing: Option<&str>) -> PolicyStatus {
        PolicyStatus {
            name: name.to_owned(),
            nodepools: Some(vec!["web".to_owned()]),
            version: Some("cost 1.0.0".to_owned()),
            failing: failing.map(str::to_owned),
            active: failing.map(|_| Active::LastAnswer),
            ..PolicyStatus::default()
        }
    }

    #[test]
    fn a_nodepool_hears_of_its_own_policies_alone() {
        let mut health = Health::default();
        let unloaded = PolicyStatus {
            name: "risk".to_owned(),
            error: Some(Problem {
                reason: "damaged".to_owned(),
                ..Problem::default()
            }),
            ..PolicyStatus::default()
        };
        health.note(&[policy("cost", Some("score: wasm trap")), unloaded], 10);
        let trouble = |pool: &str| trouble_of(&health.current(), pool);
        let cost = "policy cost gives no answer: score: wasm trap; what it last said counts";
        let risk = "policy risk cannot be used: damaged";
        assert_eq!(trouble("web"), Some(format!("{cost}; {risk}")));
        assert_eq!(trouble("batch"), Some(risk.to_owned()));
    }

    #[test]
    fn a_policy_that_flips_changes_nothing_and_one_that_answers_again_is_healthy_in_the_end() {
        let mut health = Health::default();
        health.note(&[policy("cost", Some("trap"))], 0);
        let first = health.current();
        for now in 1..100 {
            let failing = (now % 2 == 0).then(|| format!("trap number {now}"));
            health.note(&[policy("cost", failing.as_deref())], now);
            assert!(Arc::ptr_eq(&first, &health.current()), "{now}");
        }
        health.note(&[policy("cost", None)], 98 + SETTLED_SECONDS - 1);
        assert_eq!(health.current().len(), 1);
        health.note(&[policy("cost", None)], 98 + SETTLED_SECONDS);
        assert_eq!(trouble_of(&health.current(), "web"), None);
    }

    #[test]
    fn a_policy_that_is_turned_off_troubles_nobody() {
        let mut health = Health::default();
        health.note(&[policy("cost", Some("trap"))], 0);
        let off = PolicyStatus {
            mode: Mode::Off,
            ..policy("cost", None)
        };
        health.note(&[off], 1);
        assert!(health.current().is_empty());
    }
}
