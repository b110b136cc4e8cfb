//! Existing nodes as numbers: the start of every run.

use rustc_hash::FxHashMap;

use super::compile::Compiled;
use super::rules::Kinds;
use super::shapes::nonzero_requested;
use crate::model::{ResourceId, Resources, ShapeId, Symbol};
use crate::snapshot::Snapshot;

/// The domain of a node that lacks the label.
pub const NOWHERE: u32 = u32::MAX;

/// CPU and memory of a node, for the scores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// What kube-scheduler may hand out: millicores and bytes.
    pub allocatable: [i64; 2],
    /// Asked for by its pods.
    pub requested: [i64; 2],
    /// The same with stand-ins for pods that ask for nothing.
    pub nonzero_requested: [i64; 2],
}

/// The values of one topology key, numbered. Every node with a hostname is one of its own, by its
/// number.
#[derive(Clone, Debug, Default)]
pub struct Domains {
    /// The key is the hostname.
    pub hostname: bool,
    /// Domain by node, or [`NOWHERE`].
    pub of: Vec<u32>,
    /// Numbers of values; not kept for hostnames.
    pub numbers: FxHashMap<Symbol, u32>,
}

impl Domains {
    /// How many domains there are.
    pub fn len(&self) -> usize {
        if self.hostname {
            self.of.len()
        } else {
            self.numbers.len()
        }
    }

    /// Adds the next node.
    pub fn push(&mut self, value: Option<Symbol>) {
        let next = self.numbers.len() as u32;
        let domain = match value {
            Some(_) if self.hostname => self.of.len() as u32,
            Some(value) => *self.numbers.entry(value).or_insert(next),
            None => NOWHERE,
        };
        self.of.push(domain);
    }
}

/// Existing nodes before anything is placed.
#[derive(Clone, Debug)]
pub struct ExistingNodes {
    /// Kinds of nodes.
    pub kinds: Kinds,
    /// Kind by node.
    pub kind_of: Vec<u32>,
    /// Domains by topology key.
    pub domains: Vec<Domains>,
    /// Free amounts by node, then resource.
    pub free: Vec<i64>,
    /// Loads by node.
    pub load: Vec<Load>,
    /// Counts by counter, then domain.
    pub counts: Vec<Vec<i32>>,
    /// Sums of counts, by counter.
    pub totals: Vec<i64>,
    /// Nodes without pods that are domains of their own, by filter and key together
    /// ([`Snapshot::hosts_without_pods`]).
    pub without_pods: Vec<i32>,
    /// Of those, the ones that become ready later, with the filters and keys by which they count.
    pub not_ready: FxHashMap<u32, Vec<u32>>,
}

/// CPU and memory of some amounts.
pub fn cpu_and_memory(resources: &Resources) -> [i64; 2] {
    [
        resources.get(ResourceId::Cpu),
        resources.get(ResourceId::Memory),
    ]
}

impl ExistingNodes {
    /// Numbers the nodes of a snapshot.
    pub fn new(snapshot: &Snapshot, compiled: &Compiled) -> Self {
        let names = &snapshot.world.names;
        let hostname = names.get("kubernetes.io/hostname");
        let domains = compiled.keys.iter().map(|&k| Domains {
            hostname: Some(k) == hostname,
            ..Domains::default()
        });
        let mut ground = ExistingNodes {
            kinds: Kinds::default(),
            kind_of: Vec::with_capacity(snapshot.nodes.len()),
            domains: domains.collect(),
            free: Vec::with_capacity(snapshot.nodes.len() * compiled.resources.len()),
            load: Vec::with_capacity(snapshot.nodes.len()),
            counts: Vec::new(),
            totals: vec![0; compiled.counters.len()],
            without_pods: vec![0; compiled.spaces.len()],
            not_ready: FxHashMap::default(),
        };
        for node in &snapshot.nodes {
            let labels = compiled
                .rules
                .keys
                .iter()
                .filter_map(|&k| Some((k, node.labels.get(k)?)))
                .collect();
            let named = hostname.is_none_or(|key| node.labels.get(key).is_some());
            ground.kind_of.push(compiled.rules.kind(
                &mut ground.kinds,
                names,
                &node.taints,
                (usize::from(node.cordoned), named),
                labels,
            ));
            for (&key, domains) in compiled.keys.iter().zip(&mut ground.domains) {
                domains.push(node.labels.get(key));
            }
            ground
                .free
                .extend(compiled.resources.iter().map(|&r| node.free.get(r)));
            let room = cpu_and_memory(&node.allocatable);
            let left = cpu_and_memory(&node.free);
            let asked = [0, 1].map(|r| room[r].saturating_sub(left[r]));
            ground.load.push(Load {
                allocatable: room,
                requested: asked,
                nonzero_requested: asked,
            });
        }
        ground.apply_default_requests(snapshot);
        ground.count(snapshot, compiled);
        ground.count_hosts_without_pods(snapshot, compiled);
        ground
    }

    /// Terminating nodes are hosts for topology spread until they are gone, the others without pods
    /// until they are ready.
    fn count_hosts_without_pods(&mut self, snapshot: &Snapshot, compiled: &Compiled) {
        let names = &snapshot.world.names;
        let hostname = names.get("kubernetes.io/hostname");
        let numbers: FxHashMap<Symbol, u32> = match snapshot.hosts_without_pods.is_empty() {
            true => FxHashMap::default(),
            false => (snapshot.nodes.iter().map(|node| node.name))
                .zip(0..)
                .collect(),
        };
        for &at in &snapshot.hosts_without_pods {
            let node = &snapshot.world.nodes[at as usize];
            if hostname.is_none_or(|key| node.labels.get(key).is_none()) {
                continue;
            }
            let keys = compiled.rules.keys.iter();
            let labels = keys.filter_map(|&k| Some((k, node.labels.get(k)?)));
            let kind = compiled.rules.kind(
                &mut self.kinds,
                names,
                &node.taints,
                (0, true),
                labels.collect(),
            );
            let counts = |&(filter, key): &(u32, u32)| {
                self.domains[key as usize].hostname
                    && compiled.rules.counts(&self.kinds, kind, filter)
            };
            let spaces = (0..).zip(&compiled.spaces);
            let counting: Vec<u32> = spaces
                .filter(|(_, of)| counts(of))
                .map(|(at, _)| at)
                .collect();
            for &space in &counting {
                self.without_pods[space as usize] += 1;
            }
            if let Some(&number) = numbers.get(&node.name) {
                self.not_ready.insert(number, counting);
            }
        }
    }

    fn apply_default_requests(&mut self, snapshot: &Snapshot) {
        for (id, shape) in snapshot.world.shapes.iter().enumerate() {
            let (asked, counted) = (
                cpu_and_memory(&shape.requests),
                nonzero_requested(&shape.requests),
            );
            if asked == counted {
                continue;
            }
            for &(node, pods) in snapshot.running.with_terminating(ShapeId(id as u32)) {
                let load = &mut self.load[node.0 as usize];
                for r in [0, 1] {
                    let more = (counted[r] - asked[r]).saturating_mul(i64::from(pods));
                    load.nonzero_requested[r] = load.nonzero_requested[r].saturating_add(more);
                }
            }
        }
    }

    fn count(&mut self, snapshot: &Snapshot, compiled: &Compiled) {
        let len = |key: u32| self.domains[key as usize].len();
        self.counts = compiled
            .counters
            .iter()
            .map(|c| vec![0; len(c.key)])
            .collect();
        for &(counter, shape, amount, terminating) in &compiled.running {
            let c = &compiled.counters[counter as usize];
            let on = match terminating {
                true => snapshot.running.with_terminating(shape),
                false => snapshot.running.on(shape),
            };
            for &(node, pods) in on {
                let domain = self.domains[c.key as usize].of[node.0 as usize];
                let kind = self.kind_of[node.0 as usize];
                if domain == NOWHERE || !compiled.rules.counts(&self.kinds, kind, c.filter) {
                    continue;
                }
                let more = amount.saturating_mul(pods as i32);
                let count = &mut self.counts[counter as usize][domain as usize];
                *count = count.saturating_add(more);
                self.totals[counter as usize] += i64::from(more);
            }
        }
    }
}
