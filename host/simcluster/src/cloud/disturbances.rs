//! Disturbances of the cloud: spot prices move, instances are interrupted, offerings run short.

use std::time::Duration;

use super::{Inner, Work};

/// How often and how much. By default nothing happens.
#[derive(Clone, Debug)]
pub struct Disturbances {
    /// How often prices of spot offerings move; zero for never.
    pub prices_every: Duration,
    /// By how much, as the largest change of the price's logarithm in one move.
    pub volatility: f64,
    /// Interruptions of one spot instance in an hour, on average.
    pub interruptions: f64,
    /// Storms in an hour, on average: one zone and capacity type runs short of a third of its
    /// types.
    pub capacity_outages: f64,
    /// How long an outage lasts, on average.
    pub outage_length: Duration,
}

impl Default for Disturbances {
    fn default() -> Self {
        Disturbances {
            prices_every: Duration::ZERO,
            volatility: 0.0,
            interruptions: 0.0,
            capacity_outages: 0.0,
            outage_length: Duration::from_secs(20 * 60),
        }
    }
}

/// What is left of a price's distance from its mean after one move.
const PRICE_MEMORY: f64 = 0.98;

impl Inner {
    /// Schedules the first event of each kind.
    pub(super) fn schedule_all(&mut self) {
        let disturbances = &self.options.disturbances;
        if !disturbances.prices_every.is_zero() && disturbances.volatility > 0.0 {
            self.event_queue.at(disturbances.prices_every, Work::Prices);
        }
        if let Some(wait) = self
            .chance
            .wait(disturbances.capacity_outages, "storm", "0")
        {
            self.event_queue.at(wait, Work::CapacityOutage(0));
        }
    }

    pub(super) fn move_prices(&mut self, now: Duration) {
        self.pay_all(now);
        let (chance, volatility) = (self.chance, self.options.disturbances.volatility);
        let moment = now.as_secs().to_string();
        let base = chance.draw("prices", &moment);
        self.market.walk(PRICE_MEMORY, |at| {
            // One draw for the moment, spread over offerings by a multiplication: there are
            // thousands of them.
            let mixed = (base ^ at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            volatility * (2.0 * ((mixed >> 11) as f64 / (1u64 << 53) as f64) - 1.0)
        });
        if !self.options.disturbances.prices_every.is_zero() {
            self.event_queue
                .at(now + self.options.disturbances.prices_every, Work::Prices);
        }
    }

    /// Pays everything at the prices of now, which are about to change.
    pub(super) fn pay_all(&mut self, now: Duration) {
        for machine in &mut self.machines {
            machine.pay(now, &self.market);
        }
    }

    pub(super) fn begin_storm(&mut self, now: Duration, number: u64) {
        if self.options.disturbances.capacity_outages <= 0.0 {
            return;
        }
        let about = number.to_string();
        let everything = self.market.matching("*/*/*");
        let lot = self.chance.draw("storm-eye", &about) as usize % everything.len().max(1);
        if let Some(eye) = everything.get(lot) {
            let [_, zone, capacity_type] = self.market.named(*eye).map(str::to_owned);
            let mut hit = self.market.matching(&format!("*/{zone}/{capacity_type}"));
            hit.retain(|id| {
                let name = self.market.named(*id)[0];
                self.chance
                    .hits(1.0 / 3.0, "storm-hits", &format!("{number}/{name}"))
            });
            let length = self.chance.around(
                self.options.disturbances.outage_length,
                0.5,
                "storm-length",
                &about,
            );
            let what = format!(
                "storm: {} {capacity_type} types run short in {zone}",
                hit.len()
            );
            self.stats.capacity_outages.push((now, what.clone()));
            self.say(what);
            self.market.close(&hit, now + length);
        }
        if let Some(wait) = self.chance.wait(
            self.options.disturbances.capacity_outages,
            "storm",
            &(number + 1).to_string(),
        ) {
            self.event_queue
                .at(now + wait, Work::CapacityOutage(number + 1));
        }
    }
}
