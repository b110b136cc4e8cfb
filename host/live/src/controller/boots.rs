//! Follows the first node that boots with the user data of a policy's next version: which NodeClaim
//! it is, what became of it, and whose nodes boot with that text from then on.

use std::collections::BTreeMap;

use longshore_core::model::conditions::INITIALIZED;

use super::Controller;
use crate::act::launch::boot_turns::{BootRule, BootScope, mark_of};
use crate::canary::{Facts, FirstNode, Kept, NodeFact};
use crate::observe::node_claim::{is_true, provider_id};
use crate::policies::{BootSlot, CanarySlot, NoticeKind};

impl Controller {
    /// Takes in what became of first nodes, and says whose nodes boot with a next version.
    pub(super) fn follow_boots(&mut self, slots: &[CanarySlot]) {
        for slot in slots.iter().filter(|slot| slot.boots) {
            let mark = slot.mark();
            if let Some(claim) = self.ctx.memory.launch.first_boots.take_named(&mark) {
                self.first_node(slot, NodeFact::Launching(claim));
            }
            if let Some(fact) = self.what_became(slot, &mark) {
                if matches!(fact, NodeFact::NotLaunched(_)) {
                    self.ctx.memory.launch.first_boots.unname(&mark);
                }
                self.first_node(slot, fact);
            }
        }
        let rules = self.boot_rules(slots);
        self.ctx.memory.launch.first_boots.follow(rules);
    }

    fn first_node(&mut self, slot: &CanarySlot, fact: NodeFact) {
        let first = |control: &Controller| {
            let kept = control.canaries.kept.get(&slot.policy);
            kept.map(|kept| kept.wanted().first_node.clone())
        };
        let before = first(self);
        let facts = Facts {
            node: Some(fact.clone()),
            ..Facts::default()
        };
        self.canary_saw(&slot.policy, &slot.version, &facts);
        if first(self) == before {
            return;
        }
        let (claim, what) = match &fact {
            NodeFact::Launching(claim) => (claim, "is the first to boot with its user data"),
            NodeFact::Ready(claim) => (claim, "is ready: others may boot with its user data"),
            NodeFact::NotLaunched(claim) => (claim, "got no node: another one will be the first"),
            // That takes it back, and is said.
            NodeFact::Gone(_) => return,
        };
        let policy = &slot.policy;
        let message = format!("policy {policy}: of its next version NodeClaim {claim} {what}");
        let policies = &self.config.policies;
        policies.canary_moved(NoticeKind::CanaryAdvanced, policy, message, "");
    }

    /// What became of the first node, if there is news.
    fn what_became(&self, slot: &CanarySlot, mark: &str) -> Option<NodeFact> {
        let kept = self.canaries.kept.get(&slot.policy)?;
        let FirstNode::Booting(first, _) = &kept.wanted().first_node else {
            return None;
        };
        let claim = self.state.claims.get(first);
        let marked = claim.map(|claim| mark_of(claim) == Some(mark));
        let goes = claim.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some());
        let untried = self.ctx.memory.launch.first_boots.is_untried(mark, first);
        let launched = claim.is_some_and(|claim| !provider_id(claim).is_empty());
        let status = claim.and_then(|claim| claim.status.as_ref());
        let ready = status.is_some_and(|status| is_true(status, INITIALIZED));
        match marked {
            // A silent watch says nothing.
            _ if self.blocked.is_some() => None,
            // Its node boots with the version at work.
            Some(false) if launched || goes => Some(NodeFact::NotLaunched(first.clone())),
            _ if goes && untried => Some(NodeFact::NotLaunched(first.clone())),
            _ if goes => Some(NodeFact::Gone(first.clone())),
            Some(true) if ready => Some(NodeFact::Ready(first.clone())),
            _ => None,
        }
    }

    /// By NodePool: those that a bootstrap policy with a next version is for.
    fn boot_rules(&self, slots: &[CanarySlot]) -> BTreeMap<String, BootRule> {
        let boots = self.config.policies.boots();
        let rule = |pool: &String| {
            let policy = boots.iter().find(|slot: &&BootSlot| slot.serves(pool))?;
            let mut slots = slots.iter().filter(|slot| slot.boots);
            let slot = slots.find(|slot| slot.policy == policy.name)?;
            let kept = self.canaries.kept.get(&slot.policy)?;
            let rule = BootRule {
                mark: slot.mark(),
                scope: scope(kept, pool),
            };
            Some((pool.clone(), rule))
        };
        self.state.pools.keys().filter_map(rule).collect()
    }
}

/// Whose nodes of a NodePool boot with a next version: by what is written down.
fn scope(kept: &Kept, pool: &str) -> BootScope {
    if !kept.obeyed().has(pool) {
        return BootScope::NoClaim;
    }
    match &kept.wanted().first_node {
        FirstNode::NotNeeded => BootScope::NoClaim,
        FirstNode::Awaited => BootScope::FirstToAsk,
        FirstNode::Booting(first, _) if kept.may_boot(first) => BootScope::OneClaim(first.clone()),
        FirstNode::Booting(first, _) => BootScope::Named(first.clone()),
        FirstNode::Ready if kept.may_boot("") => BootScope::AllClaims,
        FirstNode::Ready => BootScope::NoClaim,
    }
}
