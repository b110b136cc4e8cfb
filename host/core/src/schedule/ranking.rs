//! The cheapest way to buy what a node spec admits.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::first_fit::CompiledCluster;
use super::node_specs::NodeSpecId;
use crate::model::{OfferingId, TypeId};

/// The types of each state with their cheapest offering, cheapest first.
#[derive(Default)]
pub struct Ranking(FxHashMap<NodeSpecId, Rc<Vec<(TypeId, OfferingId)>>>);

impl Ranking {
    /// Types of a state, cheapest first: by effective cost outside commitments, then price, then
    /// name.
    pub fn of(
        &mut self,
        p: &CompiledCluster<'_>,
        state: NodeSpecId,
    ) -> Rc<Vec<(TypeId, OfferingId)>> {
        let rank = || {
            let s = p.states.get(state);
            let cost = &p.states.scores[s.pool].cost;
            let all = s.types.iter().map(|t| TypeId(t as u32));
            let mut ranked: Vec<(TypeId, OfferingId)> = all
                .filter_map(|t| Some((t, p.states.cheapest(state, t)?)))
                .collect();
            ranked.sort_by(|a, b| {
                let price = |o: OfferingId| p.snapshot.world.catalogue.offering(o).price;
                let key = |o: OfferingId| cost[o.0 as usize];
                key(a.1)
                    .total_cmp(&key(b.1))
                    .then(price(a.1).total_cmp(&price(b.1)))
                    .then(a.0.cmp(&b.0))
            });
            Rc::new(ranked)
        };
        self.0.entry(state).or_insert_with(rank).clone()
    }
}
