//! Places pods on nodes that exist.

use super::domain_rules::DomainRule;
use super::new_claims::over_limit;
use super::{FeasibleHosts, Packer, Placement};
use crate::matching::{satisfies, untolerated};
use crate::model::Requirement;
use crate::schedule::node_specs::RequirementsId;
use crate::schedule::sets::Sets;
use crate::snapshot::{Given, give};

impl<'p, 'a> Packer<'p, 'a> {
    /// Whether a node's taints and labels are right.
    fn suits(&self, item: usize, relaxation: usize, node: usize) -> bool {
        let it = &self.p.items[item];
        let variant = &it.relaxations[relaxation];
        let node = &self.p.snapshot.nodes[node];
        untolerated(
            &it.shape.tolerations,
            &node.taints,
            variant.avoids_prefer_no_schedule,
        )
        .is_none()
            && variant
                .needs
                .iter()
                .any(|&n| self.admits(self.p.states.need_sets(n), node))
    }

    pub(super) fn admits(&self, asked: &Sets, node: &crate::snapshot::StateNode) -> bool {
        asked
            .0
            .iter()
            .all(|(key, set)| match node.labels.get(*key) {
                Some(value) => set.admits(value, &self.p.states.numbers),
                None => set.allows_absence(),
            })
    }

    /// On one host alone: an existing node, or a claim of this plan.
    pub(super) fn on_host(
        &mut self,
        item: usize,
        relaxation: usize,
        host: usize,
        rules: &[DomainRule],
    ) -> Option<Placement> {
        let it = &self.p.items[item];
        if let Some(claim) = host.checked_sub(self.p.room.len()) {
            let open = it.useless.is_none() && self.may_ever_fit(item, relaxation, claim);
            let (state, need) = open
                .then(|| self.try_claim(item, relaxation, claim, rules))
                .flatten()?;
            return Some(Placement::Claim(claim, state, need));
        }
        let open = self.p.room.fits(host, &it.request) && self.suits(item, relaxation, host);
        let need = open
            .then(|| self.try_node(item, relaxation, host, rules))
            .flatten()?;
        Some(Placement::Node(host, need))
    }

    pub(super) fn on_nodes(
        &mut self,
        item: usize,
        relaxation: usize,
        scan: &mut FeasibleHosts,
        rules: &[DomainRule],
    ) -> Option<Placement> {
        let mut kept = 0;
        let mut found = None;
        for at in 0..scan.nodes.len() {
            let node = scan.nodes[at] as usize;
            if !self.p.room.fits(node, &self.p.items[item].request) {
                continue;
            }
            scan.nodes[kept] = scan.nodes[at];
            kept += 1;
            if let Some(need) = self.try_node(item, relaxation, node, rules) {
                found = Some(Placement::Node(node, need));
                scan.nodes.copy_within(at + 1.., kept);
                kept += scan.nodes.len() - at - 1;
                break;
            }
        }
        scan.nodes.truncate(kept);
        while found.is_none() {
            let Some(node) = self.p.room.next(scan.next, &self.p.items[item].request) else {
                scan.next = self.p.room.len();
                break;
            };
            scan.next = node + 1;
            if self.suits(item, relaxation, node) {
                scan.nodes.push(node as u32);
                found = self
                    .try_node(item, relaxation, node, rules)
                    .map(|need| Placement::Node(node, need));
            }
        }
        found
    }

    fn try_node(
        &self,
        item: usize,
        relaxation: usize,
        node: usize,
        rules: &[DomainRule],
    ) -> Option<RequirementsId> {
        let it = &self.p.items[item];
        let domain_ok = |rule: &DomainRule| {
            let domain = self.p.topology.keys[rule.key].of_node[node] as usize;
            rule.allowed.get(domain).copied().unwrap_or(rule.absent)
        };
        if !rules.iter().all(domain_ok) || !self.hosts_allow(item, relaxation, node) {
            return None;
        }
        let state = &self.p.snapshot.nodes[node];
        if !it.ports.is_empty() {
            let taken = state
                .ports
                .iter()
                .chain(self.ports.get(&node).into_iter().flatten());
            if taken
                .into_iter()
                .any(|t| it.ports.iter().any(|p| p.conflicts(t)))
            {
                return None;
            }
        }
        if !it.volumes.is_empty() {
            let mut all = state.volumes.clone();
            all.extend(self.volumes.get(&node).into_iter().flatten());
            if over_limit(&all, &it.volumes, &state.volume_limits).is_some() {
                return None;
            }
        }
        let needs = &it.relaxations[relaxation].needs;
        let mut admitted = needs.iter().copied();
        let need = admitted.find(|&n| self.admits(self.p.states.need_sets(n), state))?;
        self.volumes_on_node(item, node).map(|_| need)
    }

    /// The volumes that the claims of a pod get on an existing node.
    pub(super) fn volumes_on_node(&self, item: usize, node: usize) -> Option<Given> {
        let claims = &self.p.items[item].to_bind;
        let world = &self.p.snapshot.world;
        let labels = &self.p.snapshot.nodes[node].labels;
        let hold = |all: &[Requirement]| all.iter().all(|r| satisfies(labels, r, &world.names));
        give(world, claims, &self.out.taken_volumes, hold)
    }
}
