//! kube-scheduler's filters as the documentation of Kubernetes describes them ("Pod Topology Spread
//! Constraints", "Taints and Tolerations", "Assigning Pods to Nodes"), for pods that ask for cpu
//! and spread constraints.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
pub struct Node {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// It has a taint with effect NoSchedule.
    pub tainted: bool,
    /// Milli-cpu that are free.
    pub free: i64,
    /// Pods on it that the constraint's selector selects.
    pub selected: i64,
}

/// A pod to bind.
#[derive(Clone, Debug)]
pub struct Pod {
    pub name: String,
    pub cpu: i64,
    pub tolerates: bool,
    /// Node selector: all must hold.
    pub selector: Vec<(String, Vec<String>)>,
    /// Terms of required node affinity: one must hold.
    pub terms: Vec<Vec<(String, Vec<String>)>>,
    pub spread: Vec<Spread>,
}

/// A constraint with `whenUnsatisfiable: DoNotSchedule` whose selector selects the pod itself.
#[derive(Clone, Debug)]
pub struct Spread {
    pub key: &'static str,
    pub max_skew: i64,
    pub min_domains: usize,
    pub honor_affinity: bool,
    pub honor_taints: bool,
}

/// Nodes with what is on them.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub nodes: Vec<Node>,
}

impl Pod {
    fn matches(&self, node: &Node) -> bool {
        let holds = |(key, values): &(String, Vec<String>)| {
            node.labels.get(key).is_some_and(|v| values.contains(v))
        };
        self.selector.iter().all(holds)
            && (self.terms.is_empty() || self.terms.iter().any(|t| t.iter().all(holds)))
    }

    fn tolerates(&self, node: &Node) -> bool {
        !node.tainted || self.tolerates
    }
}

impl Cluster {
    /// Whether kube-scheduler would bind a pod to a node.
    pub fn takes(&self, pod: &Pod, at: usize) -> bool {
        let node = &self.nodes[at];
        pod.tolerates(node)
            && pod.matches(node)
            && pod.cpu <= node.free
            && pod
                .spread
                .iter()
                .all(|spread| self.allows(pod, spread, node))
    }

    /// The skew of the node's domain with the pod in it, over the global minimum: the fewest
    /// matching pods in an eligible domain, or 0 if there are fewer such domains than `minDomains`.
    /// Nodes that lack any of the pod's topology keys are passed over, with the pods on them.
    fn allows(&self, pod: &Pod, spread: &Spread, node: &Node) -> bool {
        let Some(domain) = node.labels.get(spread.key) else {
            return false;
        };
        let eligible = |n: &&Node| {
            pod.spread
                .iter()
                .all(|other| n.labels.contains_key(other.key))
                && (!spread.honor_affinity || pod.matches(n))
                && (!spread.honor_taints || pod.tolerates(n))
        };
        let mut matching: BTreeMap<&str, i64> = BTreeMap::new();
        for n in self.nodes.iter().filter(eligible) {
            if let Some(domain) = n.labels.get(spread.key) {
                *matching.entry(domain).or_default() += n.selected;
            }
        }
        let domains: BTreeSet<&str> = matching.keys().copied().collect();
        let least = matching.values().copied().min().unwrap_or(0);
        let least = if domains.len() < spread.min_domains {
            0
        } else {
            least
        };
        matching.get(domain.as_str()).copied().unwrap_or(0) + 1 - least <= spread.max_skew
    }

    /// Binds a pod to a node if kube-scheduler would.
    pub fn bind(&mut self, pod: &Pod, at: usize) -> bool {
        let takes = self.takes(pod, at);
        if takes {
            self.nodes[at].free -= pod.cpu;
            self.nodes[at].selected += i64::from(!pod.spread.is_empty());
        }
        takes
    }
}
