//! Opens NodeClaims, within the limits of their NodePools.

use super::compiled_cluster::CompiledCluster;
use super::domain_rules::{DomainRule, narrow_domains};
use super::{OpenClaim, Packer, Placement};
use crate::model::{MinValuesPolicy, Requirement, ResourceId, Symbol, TypeId};
use crate::schedule::bit_set::BitSet;
use crate::schedule::node_specs::{NodeSpecId, RequirementsId};
use crate::schedule::sets::Sets;
use crate::snapshot::Given;

/// Types of a NodePool that its limits still admit; nothing if it has no limits.
pub fn within_limits(p: &CompiledCluster<'_>, pool: usize) -> Option<BitSet> {
    let template = &p.pools[pool];
    if template.limits.is_empty() {
        return None;
    }
    let mut types = p.states.get(template.initial).types.clone();
    for (at, t) in p.snapshot.world.catalogue.types().iter().enumerate() {
        if template
            .limits
            .iter()
            .any(|&(resource, left)| t.capacity.get(resource) > left)
        {
            types.remove(at);
        }
    }
    Some(types)
}

/// Takes the most that any of `types` has off what a NodePool's limits leave, and says what was
/// taken.
fn take_limits(p: &mut CompiledCluster<'_>, pool: usize, types: &BitSet) -> Vec<i64> {
    let charged = charges(p, pool, types);
    let template = &mut p.pools[pool];
    template.nodes_left = template.nodes_left.map(|n| n - 1);
    for ((_, left), most) in template.limits.iter_mut().zip(&charged) {
        *left -= most;
    }
    charged
}

/// The most that any of `types` has of each resource that a NodePool limits.
fn charges(p: &CompiledCluster<'_>, pool: usize, types: &BitSet) -> Vec<i64> {
    let catalogue = p.snapshot.world.catalogue.types();
    let most = |&(of, _): &(ResourceId, i64)| {
        let amounts = types.iter().map(|t| catalogue[t].capacity.get(of));
        amounts.max().unwrap_or(0)
    };
    p.pools[pool].limits.iter().map(most).collect()
}

/// The driver whose limit `have` and `more` together would pass.
pub fn over_limit(
    have: &[(Symbol, u32)],
    more: &[(Symbol, u32)],
    limits: &[(Symbol, u32)],
) -> Option<Symbol> {
    let mut all: Vec<(Symbol, u32)> = have.iter().chain(more).copied().collect();
    all.sort_unstable();
    all.dedup();
    let count = |driver: Symbol| all.iter().filter(|(d, _)| *d == driver).count();
    limits
        .iter()
        .find(|&&(driver, limit)| {
            more.iter().any(|(d, _)| *d == driver) && count(driver) > limit as usize
        })
        .map(|l| l.0)
}

/// Drops types that cannot attach all the volumes.
pub(in crate::schedule) fn drop_small_volumes(
    p: &CompiledCluster<'_>,
    types: &mut BitSet,
    have: &[(Symbol, u32)],
    more: &[(Symbol, u32)],
) {
    for (at, t) in p.snapshot.world.catalogue.types().iter().enumerate() {
        if types.has(at) && over_limit(have, more, &t.volume_limits).is_some() {
            types.remove(at);
        }
    }
}

impl<'p, 'a> Packer<'p, 'a> {
    /// The volumes that the claims of a pod get on a new node, and the state of one that has them.
    pub(super) fn volumes_on_state(
        &mut self,
        item: usize,
        state: NodeSpecId,
    ) -> Option<(NodeSpecId, Given)> {
        let mut given = Given::new();
        let mut state = state;
        for at in 0..self.p.items[item].to_bind.len() {
            let (claim, volumes) = {
                let of = &self.p.items[item].to_bind[at];
                (of.claim, of.volumes.len())
            };
            let mut found = None;
            for number in 0..volumes {
                let volume = self.p.items[item].to_bind[at].volumes[number];
                let of = self.out.taken_volumes.get(&volume);
                if of.is_some_and(|&of| of != claim) || given.iter().any(|g| g.0 == volume) {
                    continue;
                }
                let terms = &self.p.snapshot.world.volumes[volume as usize].node_affinity;
                if let Some(there) = self.narrow_to_one(state, terms) {
                    found = Some((volume, there));
                    break;
                }
            }
            if let Some((volume, there)) = found {
                given.push((volume, claim));
                state = there;
                continue;
            }
            let made = self.p.items[item].to_bind[at].made.clone()?;
            state = self.narrow_to_one(state, &made)?;
        }
        Some((state, given))
    }

    /// A state narrowed by the first of some alternatives that it agrees with.
    fn narrow_to_one(
        &mut self,
        state: NodeSpecId,
        terms: &[Vec<Requirement>],
    ) -> Option<NodeSpecId> {
        if terms.is_empty() {
            return Some(state);
        }
        let states = &mut self.p.states;
        terms.iter().find_map(|term| {
            let need = states.requirements(Sets::new(term, &states.numbers));
            states.narrow(state, need)
        })
    }

    pub(super) fn on_new_claim(
        &mut self,
        item: usize,
        relaxation: usize,
        rules: &[DomainRule],
    ) -> Option<Placement> {
        if self.p.items[item].useless.is_some() {
            return None;
        }
        for pool in 0..self.p.pools.len() {
            if !self.tolerates(item, relaxation, pool)
                || self.p.pools[pool].nodes_left.is_some_and(|n| n <= 0)
            {
                continue;
            }
            if !self.hosts_allow(item, relaxation, usize::MAX) {
                return None;
            }
            for at in 0..self.p.items[item].relaxations[relaxation].needs.len() {
                let need = self.p.items[item].relaxations[relaxation].needs[at];
                if let Some(state) = self.open(item, pool, need, rules) {
                    return Some(Placement::Claim(self.out.claims.len() - 1, state, need));
                }
                if self.out.awaits_reservation[item] {
                    return None;
                }
            }
        }
        None
    }

    /// Opens a claim of a NodePool that could take one pod of the pod group. Where only the limits
    /// are in the way, the claims of this plan give back what they may not need.
    pub(super) fn open(
        &mut self,
        item: usize,
        pool: usize,
        need: RequirementsId,
        rules: &[DomainRule],
    ) -> Option<NodeSpecId> {
        let limited = within_limits(self.p, pool);
        let opened = self.open_within(item, pool, need, rules, limited.clone());
        if opened.is_some() || limited.is_none() || self.out.awaits_reservation[item] {
            return opened;
        }
        let before = self.p.pools[pool].limits_before.0.clone();
        let mut all = self.p.states.get(self.p.pools[pool].initial).types.clone();
        self.drop_beyond(&mut all, &before);
        self.suited(item, pool, need, rules, all)?;
        if !self.trim(pool) {
            return None;
        }
        let limited = within_limits(self.p, pool);
        self.open_within(item, pool, need, rules, limited)
    }

    /// Cuts every claim of a NodePool that has limits down to types that need no more of what is
    /// limited than its cheapest one. Whether any limit has more left now.
    fn trim(&mut self, pool: usize) -> bool {
        let mut gained = false;
        for c in 0..self.out.claims.len() {
            let claim = &self.out.claims[c];
            if claim.pool != pool || claim.trimmed || !claim.reserved.is_empty() {
                continue;
            }
            let mut types = claim.types.clone();
            let bound: Option<Vec<(ResourceId, i64)>> = self.cheapest(claim).map(|cheapest| {
                let capacity = &self.p.snapshot.world.catalogue.types()[cheapest].capacity;
                let limits = self.p.pools[pool].limits.iter();
                limits.map(|&(of, _)| (of, capacity.get(of))).collect()
            });
            self.out.claims[c].trimmed = true;
            let Some(bound) = bound else { continue };
            self.drop_beyond(&mut types, &bound);
            let claim = &self.out.claims[c];
            if self.p.too_few_values(claim.state, &types).is_some() {
                continue;
            }
            let charged = charges(self.p, pool, &types);
            let limits = self.p.pools[pool].limits.iter_mut();
            for ((_, left), (now, before)) in limits.zip(charged.iter().zip(&claim.charged)) {
                *left += before - now;
                gained |= now < before;
            }
            let most = self.p.pools[pool].fit.most(&types);
            let claim = &mut self.out.claims[c];
            claim.room = most
                .iter()
                .zip(&claim.total)
                .map(|(&m, &t)| m - t)
                .collect();
            (claim.types, claim.charged) = (types, charged);
        }
        gained
    }

    /// The cheapest type of a claim: by effective cost outside commitments, then price, then name.
    fn cheapest(&self, claim: &OpenClaim) -> Option<usize> {
        let states = &self.p.states;
        let cost = |t: usize| {
            let offering = states.cheapest(claim.state, TypeId(t as u32))?;
            let cost = states.scores[claim.pool].cost[offering.0 as usize];
            Some((cost, states.catalogue.offering(offering).price, t))
        };
        let best = claim.types.iter().filter_map(cost).min_by(|a, b| {
            let price = a.1.total_cmp(&b.1);
            a.0.total_cmp(&b.0).then(price).then(a.2.cmp(&b.2))
        });
        best.map(|(_, _, t)| t)
    }

    /// Drops types that have more of some resource than an amount.
    fn drop_beyond(&self, types: &mut BitSet, most: &[(ResourceId, i64)]) {
        let catalogue = self.p.snapshot.world.catalogue.types();
        let beyond = |t: &usize| {
            let capacity = &catalogue[*t].capacity;
            most.iter().any(|&(of, most)| capacity.get(of) > most)
        };
        let beyond: Vec<usize> = types.iter().filter(beyond).collect();
        beyond.into_iter().for_each(|t| types.remove(t));
    }

    /// The state of a claim of a NodePool for one pod of the pod group, and its types of `types`
    /// before and after size and state have their say; nothing if none is left.
    fn suited(
        &mut self,
        item: usize,
        pool: usize,
        need: RequirementsId,
        rules: &[DomainRule],
        mut types: BitSet,
    ) -> Option<(NodeSpecId, BitSet, BitSet)> {
        let initial = self.p.pools[pool].initial;
        let state = self.p.states.narrow(initial, need)?;
        let it = &self.p.items[item];
        let total = it.request.clone();
        if !it.ports.is_empty() {
            self.p.pools[pool]
                .fit
                .port_conflicts(&it.ports)
                .iter()
                .for_each(|t| types.remove(t.0 as usize));
        }
        if !it.volumes.is_empty() {
            drop_small_volumes(self.p, &mut types, &[], &it.volumes);
        }
        let state = narrow_domains(self.p, state, rules, pool, &types, &total)?;
        let (state, _) = self.volumes_on_state(item, state)?;
        let mut left = types.clone();
        left.and(&self.p.states.get(state).types);
        self.p.pools[pool].fit.keep(&mut left, &total);
        (!left.is_empty()).then_some((state, types, left))
    }

    /// The same for a claim that may be of types within limits only, if there are any.
    fn open_within(
        &mut self,
        item: usize,
        pool: usize,
        need: RequirementsId,
        rules: &[DomainRule],
        limited: Option<BitSet>,
    ) -> Option<NodeSpecId> {
        let initial = self.p.pools[pool].initial;
        let types = limited
            .clone()
            .unwrap_or_else(|| self.p.states.get(initial).types.clone());
        let (state, types, left) = self.suited(item, pool, need, rules, types)?;
        let short = self.p.too_few_values(state, &left).is_some();
        let strict = self.p.snapshot.world.settings.min_values == MinValuesPolicy::Strict;
        if short && strict {
            return None;
        }
        if self.p.pools[pool].reserved && self.reserve(state, &left, &[]).is_err() {
            self.out.awaits_reservation[item] = true;
            return None;
        }
        let charged = take_limits(self.p, pool, &left);
        let total = self.p.items[item].request.clone();
        let empty = OpenClaim::empty(pool, initial, total.len());
        self.out.claims.push(OpenClaim {
            types,
            room: total,
            within_limits: limited,
            charged,
            min_values_relaxed: short,
            ..empty
        });
        Some(state)
    }
}
