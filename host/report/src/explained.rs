//! An explanation, and what stands in each: policies whose costs decide nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use longshore_core::policy::{AlikeCosts, Policies};
use serde::{Deserialize, Serialize};

/// An explanation, for people and for programs.
#[derive(Debug, Serialize, Deserialize)]
pub struct Explained {
    /// Lines of text.
    pub text: String,
    /// The same as data.
    pub explanation: serde_json::Value,
}

/// Why there is no explanation.
#[derive(Debug, thiserror::Error)]
pub enum NoExplanation {
    /// There is no such object, or there are several.
    #[error("{0}")]
    NotFound(String),
    /// A defect of Longshore: the object may be there.
    #[error("{0}")]
    Defect(String),
}

impl From<serde_json::Error> for NoExplanation {
    fn from(error: serde_json::Error) -> Self {
        NoExplanation::Defect(format!(
            "the explanation cannot be written as JSON: {error}"
        ))
    }
}

/// A sentence for each policy and cost of which no two offerings differ.
pub fn alike(policies: &dyn Policies) -> Vec<String> {
    let mut pools: BTreeMap<(Arc<str>, String), Vec<AlikeCosts>> = BTreeMap::new();
    for one in policies.alike() {
        let key = (one.policy.clone(), format!("{} USD/h", one.cost));
        pools.entry(key).or_default().push(one);
    }
    let sentence = |((policy, cost), of): ((Arc<str>, String), Vec<AlikeCosts>)| {
        let names: Vec<&str> = of.iter().map(|one| &*one.node_pool).collect();
        let more = if names.len() > 3 { ", …" } else { "" };
        format!(
            "Policy {policy} costs all {} offerings {cost} for NodePool {}{more}: the price decides nothing.",
            of.iter().map(|one| one.offerings).max().unwrap_or(0),
            names.get(..3).unwrap_or(&names).join(", ")
        )
    };
    pools.into_iter().map(sentence).collect()
}

/// The same behind an explanation.
pub fn alike_text(policies: &dyn Policies) -> String {
    let line = |sentence: String| format!("\n{sentence}\n");
    alike(policies).into_iter().map(line).collect()
}
