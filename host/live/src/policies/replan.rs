//! Plans a round again, as it would have been with another version: the comparison that decides
//! about canaries and that shadows are shown with.
//!
//! Both plans are made for the same snapshot, with the same effort and seed, by instances of their
//! own. Nothing of them is carried out, and no round waits for them.

use std::collections::BTreeMap;
use std::time::Instant;

use longshore_core::plan::Plan;
use longshore_core::planner::{PlanOptions, plan};
use longshore_core::snapshot::Snapshot;
use longshore_policy::{Obeyed, WasmPolicies};

use super::next_version::{CanarySlot, Sighting, facts_of};
use crate::canary::{Compared, Facts, Fault};
use crate::status::windows::{Difference, Replanned, Side};

/// What a round planned for.
pub(super) struct Question {
    pub snapshot: Snapshot,
    pub options: PlanOptions,
}

impl Question {
    fn plan(&self, policies: &WasmPolicies) -> Result<Plan, String> {
        policies.begin_round(self.snapshot.world.now);
        let made = plan(&self.snapshot, policies, self.options);
        made.map_err(|rejected| {
            let broken = rejected.violations.first().map(ToString::to_string);
            broken.unwrap_or_default()
        })
    }

    /// Plans with the old version of a policy and with the next one, wherever that is obeyed. What that
    /// showed, and the numbers if there are two plans.
    pub fn canary(&self, live: &WasmPolicies, slot: &CanarySlot) -> (Sighting, Option<Replanned>) {
        let (old, new) = (live.apart(), live.apart());
        old.obey(slot.place, &Obeyed::NotAsked);
        new.obey(slot.place, &Obeyed::All);
        let (before, begun) = (self.plan(&old), Instant::now());
        let after = self.plan(&new);
        let took = begun.elapsed();
        let seen = new.take_seen(slot.place).and_then(facts_of);
        let mut facts = Facts {
            // It was no round.
            asked: false,
            ..seen.unwrap_or_default()
        };
        let mut numbers = None;
        match (before, after) {
            (Ok(before), Ok(after)) if facts.fault.is_none() => {
                let mut both = self.numbers(&before, &after, &new);
                both.seconds = took.as_secs_f64();
                facts.compared = Compared {
                    rounds: 1,
                    usd: (before.cost, after.cost),
                    left: (before.unplaced.len() as u64, after.unplaced.len() as u64),
                };
                numbers = Some(both);
            }
            (Ok(_), Err(broken)) if facts.fault.is_none() => {
                facts.fault = Some(Fault::PlanRefused(broken));
            }
            _ => {}
        }
        let sighting = (slot.policy.clone(), slot.version.clone(), facts);
        (sighting, numbers)
    }

    /// Plans without a shadow and with it.
    pub fn shadow(&self, live: &WasmPolicies, with: &WasmPolicies) -> Result<Replanned, String> {
        let (old, new) = (live.apart(), with.apart());
        new.share_signals(live.signals());
        let before = self.plan(&old)?;
        let begun = Instant::now();
        let after = self.plan(&new)?;
        let mut both = self.numbers(&before, &after, &new);
        both.seconds = begun.elapsed().as_secs_f64();
        let usage = new.tallies().into_iter().map(|tally| tally.usage);
        both.fuel = usage
            .map(|usage| f64::from(usage.fuel_permille) / 1000.0)
            .fold(0.0, f64::max);
        Ok(both)
    }

    /// By NodePool, and what is left over of all pods.
    fn numbers(&self, before: &Plan, after: &Plan, new: &WasmPolicies) -> Replanned {
        let world = &self.snapshot.world;
        let mut pools: BTreeMap<String, (Side, Side)> = BTreeMap::new();
        let mut excluded = 0;
        let costs: BTreeMap<String, _> = new
            .answered()
            .into_iter()
            .map(|answer| (answer.node_pool.to_string(), answer.cost().clone()))
            .collect();
        let (old_claims, new_claims) = (before.claims.iter(), after.claims.iter());
        let claims = old_claims
            .map(|claim| (claim, true))
            .chain(new_claims.map(|claim| (claim, false)));
        for (claim, is_old) in claims {
            let name = world.names.text(world.pools[claim.pool.0 as usize].name);
            let price = world.catalogue.offerings()[claim.offering.0 as usize].price;
            let sides = pools.entry(name.to_owned()).or_default();
            let side = if is_old { &mut sides.0 } else { &mut sides.1 };
            (side.claims, side.usd) = (side.claims + 1, side.usd + price);
            let cost = costs
                .get(name)
                .and_then(|costs| costs.get(claim.offering.0 as usize));
            excluded += u64::from(is_old && cost.is_some_and(|cost| cost.is_infinite()));
        }
        let differs = |(name, (old, new)): (&String, &(Side, Side))| Difference {
            at: world.now,
            nodepool: name.clone(),
            usd: old.usd,
            usd_instead: new.usd,
        };
        Replanned {
            differences: pools.iter().map(differs).collect(),
            pools,
            left: before.unplaced.len() as u64,
            left_instead: after.unplaced.len() as u64,
            excluded,
            ..Replanned::default()
        }
    }
}

/// Whether a round is worth planning again: it had something to place.
pub(super) fn is_worth_it(plan: &Plan) -> bool {
    !plan.claims.is_empty() || !plan.unplaced.is_empty()
}
