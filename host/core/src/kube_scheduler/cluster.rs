//! The cluster during one run: free room, counters, nodes that have registered.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::existing_nodes::{Domains, Load, NOWHERE, cpu_and_memory};
use super::rules::{Kinds, NodeMatch};
use super::scenario::VirtualNode;
use super::shapes::{QueueClass, Shape};
use super::simulator::Simulator;
use crate::model::{HostPort, Symbol};

/// Existing nodes first, numbered as in the snapshot, then those to come.
pub struct Cluster<'s> {
    sim: &'s Simulator<'s>,
    nodes: &'s [VirtualNode<'s>],
    existing: usize,
    kinds: Kinds,
    kind_of: Vec<u32>,
    domains: Vec<Domains>,
    /// Free amounts by node, then resource.
    free: Vec<i64>,
    /// Loads by node.
    pub load: Vec<Load>,
    /// Counts of all counters, one after the other.
    counts: Vec<i32>,
    /// Where each counter's domains start in `counts`.
    start: Vec<u32>,
    totals: Vec<i64>,
    /// Registered nodes, by key and domain.
    present: Vec<Vec<u32>>,
    /// Nodes that count as hosts without pods, by key.
    without_pods: Vec<i32>,
    /// Ports and volumes that came in this run, by node.
    ports: FxHashMap<u32, Vec<HostPort>>,
    volumes: FxHashMap<u32, Vec<(Symbol, u32)>>,
    /// The node of the first pod of each shared claim.
    claimed: FxHashMap<u32, u32>,
    /// The claim that each volume was bound to in this run.
    bound: FxHashMap<u32, u32>,
    /// What nominated pods add, by node and counter.
    reserved: FxHashMap<(u32, u32), i32>,
    /// Nominated pods that add to a counter, by node: most nodes have none, and the filters ask for
    /// each pod and node.
    nominated_on: Vec<u32>,
    /// Registered nodes, in order of registration.
    pub ready: Vec<u32>,
}

impl<'s> Cluster<'s> {
    /// Existing nodes and those to come, none of them there yet.
    pub fn new(sim: &'s Simulator<'s>, nodes: &'s [VirtualNode<'s>]) -> Self {
        let (ground, compiled) = (&sim.existing_nodes, &sim.compiled);
        let mut cluster = Cluster {
            sim,
            nodes,
            existing: ground.kind_of.len(),
            kinds: ground.kinds.clone(),
            kind_of: ground.kind_of.clone(),
            domains: ground.domains.clone(),
            free: ground.free.clone(),
            load: ground.load.clone(),
            counts: Vec::new(),
            start: Vec::with_capacity(compiled.counters.len()),
            totals: ground.totals.clone(),
            present: Vec::new(),
            without_pods: ground.without_pods.clone(),
            ports: FxHashMap::default(),
            volumes: FxHashMap::default(),
            claimed: FxHashMap::default(),
            bound: FxHashMap::default(),
            reserved: FxHashMap::default(),
            nominated_on: vec![0; ground.kind_of.len() + nodes.len()],
            ready: Vec::with_capacity(ground.kind_of.len() + nodes.len()),
        };
        for at in 0..nodes.len() {
            cluster.add(at);
        }
        for (counter, counts) in compiled.counters.iter().zip(&ground.counts) {
            let start = cluster.counts.len();
            cluster.start.push(start as u32);
            cluster.counts.extend_from_slice(counts);
            cluster
                .counts
                .resize(start + cluster.domains[counter.key as usize].len(), 0);
        }
        let len = |&(_, key): &(u32, u32)| cluster.domains[key as usize].len();
        cluster.present = compiled
            .spaces
            .iter()
            .map(|space| vec![0; len(space)])
            .collect();
        cluster
    }

    /// How many nodes exist from the start.
    pub fn existing(&self) -> usize {
        self.existing
    }

    fn add(&mut self, at: usize) {
        let (sim, node) = (self.sim, &self.nodes[at]);
        let (world, rules) = (&sim.snapshot.world, &sim.compiled.rules);
        // A hostname that no label can name: symbols past the table.
        let made_up = Symbol((world.names.len() + at) as u32);
        let label = |key: Symbol| {
            if Some(key) == sim.hostname {
                Some(made_up)
            } else {
                sim.labels.get(node, key)
            }
        };
        let labels = rules
            .keys
            .iter()
            .filter_map(|&key| Some((key, label(key)?)))
            .collect();
        let taints = &world.pools[node.pool.0 as usize].taints;
        self.kind_of
            .push(rules.kind(&mut self.kinds, &world.names, taints, (0, true), labels));
        for (&key, domains) in sim.compiled.keys.iter().zip(&mut self.domains) {
            domains.push(label(key));
        }
        let offering = world.catalogue.offering(node.offering);
        let allocatable = &world
            .catalogue
            .instance_type(offering.instance_type)
            .allocatable;
        self.free
            .extend(sim.compiled.resources.iter().map(|&r| allocatable.get(r)));
        self.load.push(Load {
            allocatable: cpu_and_memory(allocatable),
            ..Load::default()
        });
    }

    /// A node becomes ready; the daemons of a new one are the first on it. Calls `woken` for the
    /// shapes that may find a place because of them.
    pub fn node_ready(&mut self, node: u32, woken: &mut impl FnMut(u32)) {
        self.ready.push(node);
        if let Some(spaces) = self.sim.existing_nodes.not_ready.get(&node) {
            for &space in spaces {
                self.without_pods[space as usize] -= 1;
            }
        }
        let kind = self.kind_of[node as usize];
        for (&(filter, key), present) in self.sim.compiled.spaces.iter().zip(&mut self.present) {
            let domain = self.domains[key as usize].of[node as usize];
            if domain != NOWHERE && self.sim.compiled.rules.counts(&self.kinds, kind, filter) {
                present[domain as usize] += 1;
            }
        }
        if (node as usize) < self.existing {
            return;
        }
        for (shape, &profile) in self.sim.compiled.daemons.iter().enumerate() {
            if self.verdict(node, profile).fits {
                let shape = &self.sim.compiled.shapes[shape];
                self.place(node, shape, &[]);
                shape.requeues.iter().for_each(|&s| woken(s));
            }
        }
    }

    /// Keeps room on a node for a pod that is nominated there: others find it taken, and its rules
    /// about others hold.
    pub fn reserve(&mut self, node: u32, shape: &Shape) {
        self.take(node, shape);
        self.nominated_on[node as usize] += u32::from(!shape.adds.is_empty());
        for &(counter, amount) in &shape.adds {
            *self.reserved.entry((node, counter)).or_default() += amount;
        }
    }

    /// Undoes [`Cluster::reserve`].
    pub fn release(&mut self, node: u32, shape: &Shape) {
        let free = self.free_on(node);
        shape
            .needs
            .iter()
            .for_each(|&(r, amount)| free[r as usize] = free[r as usize].saturating_add(amount));
        self.nominated_on[node as usize] -= u32::from(!shape.adds.is_empty());
        for &(counter, amount) in &shape.adds {
            *self.reserved.entry((node, counter)).or_default() -= amount;
        }
    }

    /// What pods add to a counter that are nominated to a node and not there yet.
    pub fn reserved(&self, counter: u32, node: u32) -> i32 {
        if self.nominated_on[node as usize] == 0 {
            return 0;
        }
        self.reserved.get(&(node, counter)).copied().unwrap_or(0)
    }

    fn take(&mut self, node: u32, shape: &Shape) {
        let free = self.free_on(node);
        shape
            .needs
            .iter()
            .for_each(|&(r, amount)| free[r as usize] = free[r as usize].saturating_sub(amount));
    }

    fn free_on(&mut self, node: u32) -> &mut [i64] {
        let resources = self.sim.compiled.resources.len();
        &mut self.free[node as usize * resources..][..resources]
    }

    /// Binds a pod.
    pub fn place(&mut self, node: u32, shape: &Shape, volumes: &[(Symbol, u32)]) {
        self.take(node, shape);
        let load = &mut self.load[node as usize];
        for r in [0, 1] {
            load.requested[r] = load.requested[r].saturating_add(shape.requested[r]);
            load.nonzero_requested[r] =
                load.nonzero_requested[r].saturating_add(shape.nonzero_requested[r]);
        }
        if !shape.ports.is_empty() {
            self.ports.entry(node).or_default().extend(&shape.ports);
        }
        if !volumes.is_empty() {
            self.volumes.entry(node).or_default().extend(volumes);
        }
        let kind = self.kind_of[node as usize];
        for &(counter, amount) in &shape.adds {
            let c = &self.sim.compiled.counters[counter as usize];
            let domain = self.domains[c.key as usize].of[node as usize];
            if domain != NOWHERE && self.sim.compiled.rules.counts(&self.kinds, kind, c.filter) {
                let count =
                    &mut self.counts[self.start[counter as usize] as usize + domain as usize];
                *count = count.saturating_add(amount);
                self.totals[counter as usize] += i64::from(amount);
            }
        }
    }

    /// What a profile makes of a node.
    pub fn verdict(&self, node: u32, profile: u32) -> NodeMatch {
        self.sim
            .compiled
            .rules
            .verdict(&self.kinds, self.kind_of[node as usize], profile)
    }

    /// Whether a node has room for what a shape needs.
    pub fn fits(&self, node: u32, shape: &Shape) -> bool {
        let resources = self.sim.compiled.resources.len();
        let free = &self.free[node as usize * resources..][..resources];
        shape
            .needs
            .iter()
            .all(|&(resource, amount)| amount <= free[resource as usize])
    }

    /// Whether none of the host ports is taken.
    pub fn ports_free(&self, node: u32, ports: &[HostPort]) -> bool {
        let before = self
            .sim
            .snapshot
            .nodes
            .get(node as usize)
            .map(|n| n.ports.as_slice())
            .unwrap_or_default();
        let since = self.ports.get(&node).map(Vec::as_slice).unwrap_or_default();
        !before
            .iter()
            .chain(since)
            .any(|taken| ports.iter().any(|p| p.conflicts(taken)))
    }

    /// Whether the node can attach the volumes; those attached already cost nothing.
    pub fn attaches(&self, node: u32, class: &QueueClass) -> bool {
        let existing = self.sim.snapshot.nodes.get(node as usize);
        let limits = match existing {
            Some(node) => &node.volume_limits,
            None => {
                let offering = self.nodes[node as usize - self.existing].offering;
                let catalogue = &self.sim.snapshot.world.catalogue;
                &catalogue
                    .instance_type(catalogue.offering(offering).instance_type)
                    .volume_limits
            }
        };
        let before = existing.map(|n| n.volumes.as_slice()).unwrap_or_default();
        let since = self
            .volumes
            .get(&node)
            .map(Vec::as_slice)
            .unwrap_or_default();
        limits.iter().all(|&(driver, most)| {
            let of_driver = |v: &&(Symbol, u32)| v.0 == driver;
            let mut attached: Vec<u32> = before
                .iter()
                .chain(since)
                .filter(of_driver)
                .map(|v| v.1)
                .collect();
            let had = attached.len();
            attached.extend(class.volumes.iter().filter(of_driver).map(|v| v.1));
            if attached.len() == had {
                return true;
            }
            attached.sort_unstable();
            attached.dedup();
            attached.len() <= most as usize
        })
    }

    /// Whether the claims that a pod shares with others can be had on a node.
    pub fn reaches(&self, node: u32, class: &QueueClass) -> bool {
        class.shared.iter().all(|of| {
            let nominated = of.first.map(|(_, node)| node);
            let first = self.claimed.get(&of.claim).copied().or(nominated);
            first.is_none_or(|first| !of.one_pod && first == node)
        })
    }

    /// The volumes that claims of a pod are bound to on a node; nothing if one stays without.
    pub fn bindings(&self, node: u32, class: &QueueClass) -> Option<SmallVec<[(u32, u32); 2]>> {
        let mut chosen: SmallVec<[(u32, u32); 2]> = SmallVec::new();
        let (rules, names) = (&self.sim.compiled.rules, &self.sim.snapshot.world.names);
        let kind = self.kind_of[node as usize];
        let reaches = |number: u32| rules.reaches(&self.kinds, kind, number, names);
        for of in &class.unbound {
            let smallest = of.volumes.iter().find(|(volume, number)| {
                let claim = self.bound.get(volume).copied().unwrap_or(of.claim);
                let twice = chosen.iter().any(|(other, _)| other == volume);
                claim == of.claim && !twice && reaches(*number)
            });
            match (smallest, of.made) {
                (Some(&(volume, _)), _) => chosen.push((volume, of.claim)),
                (None, Some(made)) if reaches(made) => {}
                _ => return None,
            }
        }
        Some(chosen)
    }

    /// A pod that was bound is the first of those that share its claims, if no other is, and has
    /// its volumes.
    pub fn claim(&mut self, node: u32, class: &QueueClass) {
        let chosen = self.bindings(node, class);
        self.bound.extend(chosen.into_iter().flatten());
        for of in &class.shared {
            self.claimed.entry(of.claim).or_insert(node);
        }
    }

    /// The domains of a counter's nodes, and its counts.
    pub fn counter(&self, counter: u32) -> (&[u32], &[i32]) {
        let domains = &self.domains[self.sim.compiled.counters[counter as usize].key as usize];
        let start = self.start[counter as usize] as usize;
        (&domains.of, &self.counts[start..start + domains.len()])
    }

    /// Whether the domains of a counter are single nodes.
    pub fn by_hostname(&self, counter: u32) -> bool {
        self.domains[self.sim.compiled.counters[counter as usize].key as usize].hostname
    }

    /// What a counter counts on one node's domain; nothing if the node has none.
    pub fn count(&self, counter: u32, node: u32) -> Option<i32> {
        let (domain, counts) = self.counter(counter);
        let domain = domain[node as usize];
        (domain != NOWHERE).then(|| counts[domain as usize])
    }

    /// The sum over all domains.
    pub fn total(&self, counter: u32) -> i64 {
        self.totals[counter as usize]
    }

    /// How many domains a counter has that at least one of its nodes is in, and the least count
    /// among them.
    pub fn least(&self, counter: u32) -> (i32, Option<i32>) {
        let space = self.sim.compiled.counters[counter as usize].space as usize;
        let present = &self.present[space];
        let (_, counts) = self.counter(counter);
        let start = match self.without_pods[space] {
            0 => (0, None),
            nodes => (nodes, Some(0)),
        };
        let there = counts.iter().zip(present).filter(|(_, nodes)| **nodes > 0);
        there.fold(start, |(domains, least), (&count, _)| {
            (
                domains + 1,
                Some(least.map_or(count, |l: i32| l.min(count))),
            )
        })
    }
}
