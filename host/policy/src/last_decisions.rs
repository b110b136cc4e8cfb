//! What a consolidation policy last said of nodes, for when it says nothing more: which it protects,
//! and until when. As text it outlives the process.

use std::collections::BTreeMap;
use std::sync::Arc;

use longshore_core::disrupt::consolidation::Decision;
use serde::{Deserialize, Serialize};

/// What it last said of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Said {
    /// USD per hour that removing the node has to save.
    usd: f64,
    /// It is not to be removed, whatever that saves.
    never: bool,
    /// It refused the last proposal that removes the node.
    refused: bool,
    /// Seconds since 1970, from when it lets the node go.
    not_before: f64,
}

/// What it last said of nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LastDecisions {
    /// What it last said of each node, by the node's name.
    nodes: BTreeMap<String, Said>,
    /// Whether it ever decided about proposals.
    pub has_decided: bool,
}

impl LastDecisions {
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Keeps weights of nodes by name. What was said of other nodes is forgotten: they are gone.
    pub fn weighed<'n>(&mut self, weights: impl Iterator<Item = (&'n Arc<str>, f64)>) {
        let mut before = std::mem::take(&mut self.nodes);
        for (name, usd) in weights {
            let said = Said {
                usd: if usd.is_finite() { usd } else { 0.0 },
                never: usd.is_infinite(),
                ..before.remove(&**name).unwrap_or_default()
            };
            self.nodes.insert(name.to_string(), said);
        }
    }

    /// Keeps what it said of a proposal that removes these nodes.
    pub fn decided<'n>(&mut self, nodes: impl Iterator<Item = &'n Arc<str>>, decision: &Decision) {
        self.has_decided = true;
        for name in nodes {
            let said = self.nodes.entry(name.to_string()).or_default();
            said.refused = decision.priority < 0.0;
            said.not_before = decision.not_before;
        }
    }

    /// What counts for a node that it has said nothing of: if it protected any, this one too.
    fn unseen(&self) -> Said {
        Said {
            never: self.nodes.values().any(|said| said.never || said.refused),
            ..Said::default()
        }
    }

    /// The weight of a node.
    pub fn weight(&self, node: &str) -> f64 {
        let said = self.nodes.get(node).copied();
        match said.unwrap_or_else(|| self.unseen()) {
            Said { never: true, .. } => f64::INFINITY,
            Said { usd, .. } => usd,
        }
    }

    /// What becomes of a proposal that removes these nodes: what the most protected of them needs.
    pub fn decision<'n>(&self, nodes: impl Iterator<Item = &'n Arc<str>>) -> Decision {
        let mut decision = Decision::default();
        for name in nodes {
            let said = self.nodes.get(&**name).copied();
            let said = said.unwrap_or_else(|| self.unseen());
            if said.never || said.refused {
                decision.priority = -1.0;
            }
            decision.not_before = decision.not_before.max(said.not_before);
        }
        if decision.priority < 0.0 || decision.not_before > 0.0 {
            decision.reason = "it gives no answer; this is what it last said of these nodes".into();
        }
        decision
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> Vec<Arc<str>> {
        all.iter().map(|name| Arc::from(*name)).collect()
    }

    fn weighed(last: &mut LastDecisions, weights: &[(&str, f64)]) {
        let names = names(&weights.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        last.weighed(names.iter().zip(weights.iter().map(|(_, usd)| *usd)));
    }

    #[test]
    fn what_it_protected_stays_protected_and_so_does_what_is_new() {
        let mut last = LastDecisions::default();
        weighed(&mut last, &[("a", 0.5), ("b", f64::INFINITY), ("c", 0.0)]);
        let refusal = Decision {
            priority: -1.0,
            ..Decision::default()
        };
        last.decided(names(&["a"]).iter(), &refusal);
        let text = serde_json::to_string(&last).unwrap();
        let last: LastDecisions = serde_json::from_str(&text).unwrap();
        let weights = ["a", "b", "c", "new"].map(|node| last.weight(node));
        assert_eq!(weights, [0.5, f64::INFINITY, 0.0, f64::INFINITY]);
        let goes = |nodes: &[&str]| last.decision(names(nodes).iter()).priority >= 0.0;
        assert!(goes(&["c"]));
        assert!(!goes(&["c", "a"]) && !goes(&["b"]) && !goes(&["new"]));
    }

    #[test]
    fn one_that_protected_nothing_protects_nothing_new_and_a_time_stays_a_time() {
        let mut last = LastDecisions::default();
        weighed(&mut last, &[("a", 0.5), ("b", 0.0)]);
        let later = Decision {
            not_before: 9.0,
            ..Decision::default()
        };
        last.decided(names(&["b"]).iter(), &later);
        assert_eq!(last.weight("new"), 0.0);
        assert_eq!(last.decision(names(&["new"]).iter()), Decision::default());
        assert_eq!(last.decision(names(&["a", "b"]).iter()).not_before, 9.0);
    }

    #[test]
    fn nodes_that_are_gone_are_forgotten() {
        let mut last = LastDecisions::default();
        weighed(&mut last, &[("a", f64::INFINITY)]);
        weighed(&mut last, &[("b", 1.0)]);
        assert_eq!((last.nodes.len(), last.weight("new")), (1, 0.0));
    }
}
