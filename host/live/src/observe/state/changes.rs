//! What has changed and was not read yet. Each list has a limit: a replay never reads them.

use std::collections::BTreeMap;
use std::sync::Arc;

use longshore_api::crd::{Condition, ConditionStatus, NodeClaim, condition};

use super::pods::MAX_MILESTONES;
use crate::observe::node::NodeView;
use longshore_api::kinds::ObjectKind;

/// A NodePool, NodeClass or NodeOverlay that is another one than before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpecChange {
    pub kind: ObjectKind,
    pub name: Box<str>,
    /// Its generation before; nothing if it is new.
    pub before: Option<i64>,
    /// Its generation now; nothing if it is gone.
    pub now: Option<i64>,
}

impl SpecChange {
    /// `generation 2, was 1`
    pub fn text(&self) -> String {
        match (self.before, self.now) {
            (Some(before), Some(now)) => format!("generation {now}, was {before}"),
            (None, _) => "created".to_owned(),
            (Some(_), None) => "deleted".to_owned(),
        }
    }
}

/// Changes until they are read.
#[derive(Default)]
pub struct Changes {
    /// NodeClaims that have gone.
    claims_gone: Vec<Arc<NodeClaim>>,
    /// Generations of what nodes are bought with.
    generations: BTreeMap<(ObjectKind, Box<str>), i64>,
    specs: Vec<SpecChange>,
    /// Conditions of Nodes: old and new.
    conditions: Vec<(Option<Condition>, Condition)>,
}

impl Changes {
    /// NodeClaims that have gone since this was last asked, as they were.
    pub fn claims_gone(&mut self) -> Vec<Arc<NodeClaim>> {
        std::mem::take(&mut self.claims_gone)
    }

    /// What nodes are bought with and is another one since this was last asked.
    pub fn specs(&mut self) -> Vec<SpecChange> {
        std::mem::take(&mut self.specs)
    }

    /// Conditions of Nodes that have changed since this was last asked, as they were and as they
    /// are.
    pub fn conditions(&mut self) -> Vec<(Option<Condition>, Condition)> {
        std::mem::take(&mut self.conditions)
    }

    /// A NodeClaim has gone.
    pub(super) fn note_gone(&mut self, claim: &Arc<NodeClaim>) {
        if self.claims_gone.len() < MAX_MILESTONES {
            self.claims_gone.push(claim.clone());
        }
    }

    /// Notes whether the spec of an object is another one than before, where nodes are bought with it;
    /// nothing if the object is gone.
    pub(super) fn note_generation(
        &mut self,
        kind: ObjectKind,
        name: &str,
        now: Option<i64>,
        is_listed: bool,
    ) {
        if !matches!(
            kind,
            ObjectKind::NodePool
                | ObjectKind::NodeOverlay
                | ObjectKind::KwokNodeClass
                | ObjectKind::Ec2NodeClass
        ) {
            return;
        }
        let key = (kind, name.into());
        let before = match now {
            Some(now) => self.generations.insert(key, now),
            None => self.generations.remove(&key),
        };
        // What the first list brings is no change.
        let is_news = before.is_some() || (now.is_some() && is_listed);
        if is_news && before != now && self.specs.len() < MAX_MILESTONES {
            self.specs.push(SpecChange {
                kind,
                name: name.into(),
                before,
                now,
            });
        }
    }

    /// Notes conditions of a node that have changed their status, and those of a new node that are
    /// True or False: Karpenter counts them too.
    pub(super) fn note_conditions(&mut self, old: Option<&NodeView>, node: &NodeView) {
        let old = old.map_or(&[][..], |old| &old.conditions);
        let changed = node.conditions.iter().filter_map(|new| {
            let old = condition(old, &new.type_);
            let was = old.map_or(ConditionStatus::Unknown, |old| old.status);
            (was != new.status).then(|| (old.cloned(), new.clone()))
        });
        let room = MAX_MILESTONES.saturating_sub(self.conditions.len());
        self.conditions.extend(changed.take(room));
    }
}
