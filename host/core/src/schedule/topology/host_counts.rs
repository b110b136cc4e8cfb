//! How many pods a rule counts on each host.

use super::constraint_kind::ConstraintKind;
use crate::schedule::members::Members;

/// Pods of a group by host. A host beyond the end has none.
#[derive(Clone, Debug)]
pub(super) enum HostCounts {
    /// Their number, for rules that need it, and the nodes that are compared.
    Pods(Vec<u16>, ComparedNodes),
    /// Whether there are any, for rules that need no number.
    Any(Members),
}

/// The nodes among which a spread constraint over hosts looks for the fewest pods: those that are
/// initialized and pass its filter.
#[derive(Clone, Debug, Default)]
pub(super) struct ComparedNodes {
    pub(super) nodes: Members,
    /// Number of nodes that are compared.
    pub(super) number: usize,
    /// How many of them have so many pods.
    with: Vec<u32>,
    /// The fewest pods on any of them.
    pub(super) least: u16,
    /// How many others have no pods: those on their way out, each compared until it is gone, and
    /// those that do not get ready.
    pub(super) without_pods: usize,
}

impl ComparedNodes {
    /// All of them before pods are counted, and how many others have none.
    pub(super) fn new(nodes: Members, without_pods: usize) -> Self {
        let number = nodes.len();
        ComparedNodes {
            nodes,
            number,
            with: vec![number as u32],
            least: 0,
            without_pods,
        }
    }

    /// The minimum for a pod that is placed on a host.
    fn least_for(&self, host: usize, min_domains: i32) -> u16 {
        let is_enough = self.number as i64 >= i64::from(min_domains);
        match self.without_pods == 0 && is_enough && self.nodes.has(host) {
            true => self.least,
            false => 0,
        }
    }

    /// The number of pods on a host has changed.
    pub(super) fn change(&mut self, host: usize, from: u16, to: u16) {
        if from != to && self.nodes.has(host) {
            self.count_out(from);
            self.count_in(to);
        }
    }

    pub(super) fn remove(&mut self, host: usize, pods: u16) {
        self.nodes.remove(host);
        self.without_pods += 1;
        self.number -= 1;
        self.count_out(pods);
    }

    fn put_back(&mut self, host: usize, pods: u16) {
        self.nodes.insert(host);
        self.without_pods -= 1;
        self.number += 1;
        self.count_in(pods);
    }

    fn count_out(&mut self, pods: u16) {
        self.with[usize::from(pods)] -= 1;
        self.settle();
    }

    fn count_in(&mut self, pods: u16) {
        let pods = usize::from(pods);
        if self.with.len() <= pods {
            self.with.resize(pods + 1, 0);
        }
        self.with[pods] += 1;
        self.settle();
    }

    fn settle(&mut self) {
        let least = self.with.iter().position(|&nodes| nodes > 0);
        self.least = least.unwrap_or(0) as u16;
    }
}

impl HostCounts {
    pub(super) fn of(rule: ConstraintKind) -> Self {
        match rule {
            ConstraintKind::Spread { .. } => HostCounts::Pods(Vec::new(), ComparedNodes::default()),
            ConstraintKind::Affinity
            | ConstraintKind::AntiAffinity
            | ConstraintKind::InverseAntiAffinity => HostCounts::Any(Members::default()),
        }
    }

    /// Counts more pods on a host; whether they are the first there (of rules that do not ask for
    /// how many).
    pub(super) fn add(&mut self, host: usize, pods: u16) -> bool {
        match self {
            HostCounts::Any(hosts) => hosts.insert(host),
            HostCounts::Pods(counts, compared) => {
                if counts.len() <= host {
                    counts.resize(host + 1, 0);
                }
                let before = counts[host];
                counts[host] = before.saturating_add(pods);
                compared.change(host, before, counts[host]);
                false
            }
        }
    }

    /// Takes back what [`add`](HostCounts::add) did.
    pub(super) fn take(&mut self, host: usize, pods: u16, first: bool) {
        match self {
            HostCounts::Any(hosts) if first => hosts.remove(host),
            HostCounts::Any(_) => {}
            HostCounts::Pods(counts, compared) => {
                let before = counts[host];
                counts[host] = before.saturating_sub(pods);
                compared.change(host, before, counts[host]);
            }
        }
    }

    /// The minimum for a pod that is placed on a host.
    pub(super) fn least(&self, host: usize, min_domains: i32) -> u16 {
        match self {
            HostCounts::Pods(_, compared) => compared.least_for(host, min_domains),
            HostCounts::Any(_) => 0,
        }
    }

    /// A node is gone. Returns whether it was compared.
    pub(super) fn remove_node(&mut self, node: usize) -> bool {
        let pods = self.on(node);
        match self {
            HostCounts::Pods(_, compared) if compared.nodes.has(node) => {
                compared.remove(node, pods);
                true
            }
            _ => false,
        }
    }

    /// Takes back what [`remove_node`](HostCounts::remove_node) did.
    pub(super) fn put_back_node(&mut self, node: usize) {
        let pods = self.on(node);
        if let HostCounts::Pods(_, compared) = self {
            compared.put_back(node, pods);
        }
    }

    /// How many pods are on a host, at most one where that is all that matters.
    pub(super) fn on(&self, host: usize) -> u16 {
        match self {
            HostCounts::Pods(counts, _) => counts.get(host).copied().unwrap_or(0),
            HostCounts::Any(hosts) => u16::from(hosts.has(host)),
        }
    }
}
