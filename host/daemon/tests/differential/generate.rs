//! Small clusters from seeds, each about one or two families of scheduling rules, so that every
//! rule comes up often and a difference is easy to understand. A seed gives the same cluster for
//! ever: recorded answers belong to it, so a change here that draws chance differently makes all of
//! them void.

mod nodes;
mod pods;
mod pools;
mod random;
mod rules;
mod types;
mod volumes;

use serde_json::{Value, json};

use random::Random;

/// A family of rules that a cluster is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Theme {
    /// Init containers, sidecars, overhead, limits without requests, pod-level requests, extended
    /// resources.
    Resources,
    /// `nodeSelector`.
    Selector,
    /// Required node affinity.
    Affinity,
    /// Preferred node affinity.
    Preferred,
    /// Requirements of NodePools.
    PoolRequirements,
    /// Taints and tolerations.
    Taints,
    /// Topology spread.
    Spread,
    /// Pod affinity and anti-affinity.
    Neighbours,
    /// Host ports.
    Ports,
    Volumes,
    /// DaemonSets.
    Daemons,
    /// Weights and limits of NodePools.
    Limits,
    MinValues,
    /// Nodes in all their states.
    Nodes,
    /// Pods that are not to be planned.
    Uncounted,
    /// Three more, whatever they are.
    Mixed,
}

use Theme::*;

/// Every theme, the hard ones more often.
const THEMES: [Theme; 20] = [
    Resources,
    Selector,
    Affinity,
    Preferred,
    PoolRequirements,
    Taints,
    Spread,
    Neighbours,
    Ports,
    Volumes,
    Daemons,
    Limits,
    MinValues,
    Nodes,
    Uncounted,
    Mixed,
    Affinity,
    Spread,
    Neighbours,
    Nodes,
];

/// What everything is drawn from.
pub struct Making {
    random: Random,
    themes: Vec<Theme>,
    zones: Vec<&'static str>,
    /// Names of NodePools.
    pools: Vec<String>,
    /// Instance types in KWOK's format.
    types: Vec<Value>,
    /// Manifests so far.
    items: Vec<Value>,
}

impl Making {
    fn about(&self, theme: Theme) -> bool {
        self.themes.contains(&theme)
    }
}

/// The cluster of a seed, a v1 List, and the instance types that it can buy, in KWOK's format.
pub fn cluster(seed: u64) -> (Value, Value) {
    let mut random = Random::new(seed);
    let mut themes = vec![THEMES[(seed % THEMES.len() as u64) as usize]];
    if random.chance(55) {
        themes.push(*random.pick(&THEMES));
    }
    if themes.contains(&Mixed) {
        themes.extend([(); 3].map(|()| *random.pick(&THEMES)));
    }
    let zones = ["zone-a", "zone-b", "zone-c"][..random.between(2, 3)].to_vec();
    let mut making = Making {
        random,
        themes,
        zones,
        pools: Vec::new(),
        types: Vec::new(),
        items: Vec::new(),
    };
    types::make(&mut making);
    pools::make(&mut making);
    nodes::make(&mut making);
    pods::make(&mut making);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": making.items});
    (list, Value::Array(making.types))
}
