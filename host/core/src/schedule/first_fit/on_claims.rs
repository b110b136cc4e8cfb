//! Places pods on NodeClaims that the plan has opened.

use super::domain_rules::{DomainRule, narrow_domains};
use super::new_claims::drop_small_volumes;
use super::{FeasibleHosts, Packer, Placement};
use crate::matching::untolerated;
use crate::model::Symbol;
use crate::schedule::bit_set::BitSet;
use crate::schedule::node_specs::{NodeSpecId, RequirementsId};

impl<'p, 'a> Packer<'p, 'a> {
    pub(super) fn on_claims(
        &mut self,
        item: usize,
        relaxation: usize,
        scan: &mut FeasibleHosts,
        rules: &[DomainRule],
    ) -> Option<Placement> {
        if self.p.items[item].useless.is_some() {
            return None;
        }
        scan.claims
            .extend((scan.seen..self.out.claims.len()).map(|c| c as u32));
        scan.seen = self.out.claims.len();
        let mut kept = 0;
        let mut found = None;
        for at in 0..scan.claims.len() {
            let c = scan.claims[at] as usize;
            if !self.may_ever_fit(item, relaxation, c) {
                continue;
            }
            scan.claims[kept] = scan.claims[at];
            kept += 1;
            if let Some((state, need)) = self.try_claim(item, relaxation, c, rules) {
                found = Some(Placement::Claim(c, state, need));
                scan.claims.copy_within(at + 1.., kept);
                kept += scan.claims.len() - at - 1;
                break;
            }
        }
        scan.claims.truncate(kept);
        found
    }

    /// Size, taints: what never gets better as a claim fills.
    pub(super) fn may_ever_fit(&self, item: usize, relaxation: usize, c: usize) -> bool {
        let it = &self.p.items[item];
        let claim = &self.out.claims[c];
        it.request
            .iter()
            .zip(&claim.room)
            .all(|(&want, &have)| want <= have || want == 0)
            && self.tolerates(item, relaxation, claim.pool)
    }

    pub(super) fn tolerates(&self, item: usize, relaxation: usize, pool: usize) -> bool {
        let it = &self.p.items[item];
        let taints = &self.p.record(pool).taints;
        taints.is_empty()
            || untolerated(
                &it.shape.tolerations,
                taints,
                it.relaxations[relaxation].avoids_prefer_no_schedule,
            )
            .is_none()
    }

    pub(super) fn try_claim(
        &mut self,
        item: usize,
        relaxation: usize,
        c: usize,
        rules: &[DomainRule],
    ) -> Option<(NodeSpecId, RequirementsId)> {
        if !self.hosts_allow(item, relaxation, self.p.room.len() + c) {
            return None;
        }
        let it = &self.p.items[item];
        let claim = &self.out.claims[c];
        if !it.ports.is_empty()
            && claim
                .ports
                .iter()
                .any(|t| it.ports.iter().any(|p| p.conflicts(t)))
        {
            return None;
        }
        let total = claim.total_with(&it.request, 1);
        let mut types = claim.types.clone();
        if !it.ports.is_empty() {
            self.p.pools[claim.pool]
                .fit
                .port_conflicts(&it.ports)
                .iter()
                .for_each(|t| types.remove(t.0 as usize));
        }
        if !it.volumes.is_empty() {
            drop_small_volumes(self.p, &mut types, &claim.volumes, &it.volumes);
        }
        for at in 0..it.relaxations[relaxation].needs.len() {
            let need = self.p.items[item].relaxations[relaxation].needs[at];
            let from = self.out.claims[c].state;
            let pool = self.out.claims[c].pool;
            // What the NodePool cannot give alone, another pod's exclusions must not seem to give.
            let initial = self.p.pools[pool].initial;
            let Some(state) = self
                .p
                .states
                .narrow(initial, need)
                .and_then(|_| self.p.states.narrow(from, need))
            else {
                continue;
            };
            let Some(state) = narrow_domains(self.p, state, rules, pool, &types, &total) else {
                continue;
            };
            let Some((state, _)) = self.volumes_on_state(item, state) else {
                continue;
            };
            let mut left = types.clone();
            left.and(&self.p.states.get(state).types);
            self.p.pools[pool].fit.keep(&mut left, &total);
            if left.is_empty() || self.p.too_few_values(state, &left).is_some() {
                continue;
            }
            if self.p.pools[pool].reserved
                && self
                    .reserve(state, &left, &self.out.claims[c].reserved.clone())
                    .is_err()
            {
                continue;
            }
            return Some((state, need));
        }
        None
    }

    /// The reservations that a claim can hold a unit of: `Err` if all that would do are used up, or
    /// if it held some and would lose them all.
    pub(super) fn reserve(
        &self,
        state: NodeSpecId,
        types: &BitSet,
        held: &[Symbol],
    ) -> Result<Vec<Symbol>, ()> {
        let s = self.p.states.get(state);
        let mut wanted: Vec<Symbol> = s
            .cells
            .iter()
            .filter(|&c| {
                self.p
                    .states
                    .available(s.pool, c)
                    .iter()
                    .any(|t| types.has(t))
            })
            .filter_map(|c| self.p.states.cells[c].reservation)
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        let can = |id: &Symbol| {
            held.contains(id) || self.reservations.get(id).is_some_and(|&left| left > 0)
        };
        let holds: Vec<Symbol> = wanted.iter().copied().filter(can).collect();
        let none_left = !wanted.is_empty() && holds.is_empty();
        let lost = !held.is_empty() && holds.is_empty();
        if none_left || lost {
            Err(())
        } else {
            Ok(holds)
        }
    }

    /// Holds a unit of every reservation that the claim may still use, and lets go of the others.
    pub(super) fn rereserve(&mut self, c: usize, state: NodeSpecId, item: usize) {
        let claim = &self.out.claims[c];
        let it = &self.p.items[item];
        let mut left = claim.types.clone();
        left.and(&self.p.states.get(state).types);
        let total = claim.total_with(&it.request, 1);
        self.p.pools[claim.pool].fit.keep(&mut left, &total);
        let before = claim.reserved.clone();
        let now = self.reserve(state, &left, &before).unwrap_or_default();
        for id in &before {
            *self.reservations.entry(*id).or_default() += 1;
        }
        for id in &now {
            *self.reservations.entry(*id).or_default() -= 1;
        }
        self.out.claims[c].reserved = now;
    }
}
