//! The NodeClaim that each pod is planned for.
//!
//! A pod can be planned for twice if others took its room on the first node. It then belongs to the
//! claim that was decided last, and no other claim may nominate it. Otherwise two claims that
//! nominate the same pod in turn would delay each other's registration for ever.

use std::collections::{BTreeMap, HashMap};

/// When a pod was planned for a claim: seconds since 1970, then the order of assignment.
type Decided = (i64, u64);

/// Pods and claims, by name.
#[derive(Default)]
pub struct PlanIndex {
    by_pod: HashMap<Box<str>, Vec<(Decided, Box<str>)>>,
    by_claim: BTreeMap<Box<str>, Vec<Box<str>>>,
    assignments: u64,
}

impl PlanIndex {
    /// Whether anything is known of a claim.
    pub fn knows(&self, claim: &str) -> bool {
        self.by_claim.contains_key(claim)
    }

    /// A pod is planned for a claim, since `decided` (seconds since 1970).
    pub fn plan(&mut self, pod: &str, claim: &str, decided: i64) {
        self.assignments += 1;
        let decided = (decided, self.assignments);
        let claims = self.by_pod.entry(pod.into()).or_default();
        match claims.iter_mut().find(|(_, known)| &**known == claim) {
            Some((at, _)) => *at = (*at).max(decided),
            None => {
                claims.push((decided, claim.into()));
                self.by_claim
                    .entry(claim.into())
                    .or_default()
                    .push(pod.into());
            }
        }
    }

    /// Nothing is planned for a claim any more.
    pub fn forget(&mut self, claim: &str) {
        for pod in self.by_claim.remove(claim).into_iter().flatten() {
            if let Some(claims) = self.by_pod.get_mut(&pod) {
                claims.retain(|(_, known)| &**known != claim);
                if claims.is_empty() {
                    self.by_pod.remove(&pod);
                }
            }
        }
    }

    /// The claim that a pod was planned for last.
    pub fn owner(&self, pod: &str) -> Option<&str> {
        self.by_pod
            .get(pod)?
            .iter()
            .max()
            .map(|(_, claim)| &**claim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_belongs_to_the_claim_that_was_decided_last_as_long_as_that_is_there() {
        let mut index = PlanIndex::default();
        index.plan("shop/a", "old", 100);
        index.plan("shop/a", "new", 130);
        index.plan("shop/b", "old", 100);
        assert_eq!(
            (index.owner("shop/a"), index.owner("shop/b")),
            (Some("new"), Some("old"))
        );
        index.plan("shop/a", "old", 150);
        assert_eq!(
            index.owner("shop/a"),
            Some("old"),
            "a round has planned it there again"
        );
        index.forget("old");
        assert_eq!(
            (index.owner("shop/a"), index.owner("shop/b")),
            (Some("new"), None)
        );
        index.forget("new");
        assert!(index.by_pod.is_empty() && index.by_claim.is_empty());
    }
}
