//! What is written down of a canary, and what is to be: it goes forward once that is written, and
//! back at once.

use super::{Decision, Facts, Obeyed, Phase, Rollout, Terms};

/// A canary of this process.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// As the cluster has it; none before it is written for the first time.
    written: Option<Rollout>,
    /// As it should have it.
    wanted: Rollout,
}

impl Kept {
    /// One that goes on from what the cluster has of its policy, or begins.
    pub fn open(
        written: Option<Rollout>,
        (version, old, boots): (&str, &str, bool),
        terms: &Terms,
        now: i64,
    ) -> Self {
        let wanted = match written.clone() {
            Some(written) => written.continued(version, old, boots, terms, now),
            None => Rollout::begin(version, old, boots, terms, now),
        };
        let mut kept = Kept { written, wanted };
        kept.forget_another();
        kept
    }

    /// As it should be written down.
    pub fn wanted(&self) -> &Rollout {
        &self.wanted
    }

    /// Takes in what was observed.
    pub fn observe(&mut self, terms: &Terms, facts: &Facts, now: i64) -> Decision {
        self.wanted.observe(terms, facts, now)
    }

    /// Follows the operator's file.
    pub fn follow(&mut self, version: (&str, &str, bool), terms: &Terms, now: i64) {
        let (version, old, boots) = version;
        let wanted = self.wanted.clone();
        self.wanted = wanted.continued(version, old, boots, terms, now);
        self.forget_another();
    }

    /// What is written of another version, or for another order, is nothing about this one.
    fn forget_another(&mut self) {
        let wanted = (&self.wanted.version, &self.wanted.order);
        self.written
            .take_if(|written| (&written.version, &written.order) != wanted);
    }

    /// Whether there is something to write down.
    pub fn is_unwritten(&self) -> bool {
        self.written.as_ref() != Some(&self.wanted)
    }

    /// Whether what is to be written changes what is obeyed, so that it cannot wait.
    pub fn is_urgent(&self) -> bool {
        let Some(written) = &self.written else {
            return true;
        };
        let of = |of: &Rollout| (of.obeyed(), of.first_node.clone(), of.consent);
        of(written) != of(&self.wanted)
    }

    /// Notes that the cluster has it so.
    pub fn wrote(&mut self, written: Rollout) {
        self.written = Some(written);
    }

    /// Takes in what another writer put there: what it took back stays so.
    pub fn found(&mut self, found: Rollout) {
        let is_same = found.version == self.wanted.version;
        if is_same && matches!(found.phase, Phase::RolledBack(_)) {
            self.wanted = found.clone();
        }
        self.written = is_same.then_some(found);
    }

    /// NodePools that it is obeyed for: by both what is written and what is wanted.
    pub fn obeyed(&self) -> Obeyed {
        let written = self.written.as_ref().map(Rollout::obeyed);
        match (written.unwrap_or_default(), self.wanted.obeyed()) {
            (Obeyed::NotAsked, _) | (_, Obeyed::NotAsked) => Obeyed::NotAsked,
            (Obeyed::All, other) | (other, Obeyed::All) => other,
            (Obeyed::Named(mut names), wanted) => {
                names.retain(|name| wanted.has(name));
                Obeyed::Named(names)
            }
        }
    }

    /// Whether a node may boot with its text, by both.
    pub fn may_boot(&self, claim: &str) -> bool {
        let may = |rollout: &Rollout| rollout.may_boot(claim);
        self.written.as_ref().is_some_and(may) && self.wanted.may_boot(claim)
    }
}

#[cfg(test)]
impl Kept {
    pub(super) fn written_for_tests(&self) -> Option<Rollout> {
        self.written.clone()
    }
}
