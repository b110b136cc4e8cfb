//! What is left to buy: capacity by type, zone and capacity type, and vCPUs under quotas.
//!
//! Rules say how much a pool has; of several that fit a pool the last holds. What is taken and
//! given back is counted per pool and rule, so a new rule starts from its own number.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::account::Account;
use super::instance::CapacityType;
use crate::chance::draw;
use crate::time::{SECOND, Time};

/// What pools of some types, zones and capacity types have. What is left out stands for all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// `m5.large`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// `us-east-1a`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// `spot`, `on-demand`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_type: Option<String>,
    /// Instances that can still be bought. `None`: as many as anybody wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<u32>,
    /// The share of pools (0 to 1) that have none, drawn anew every `every_seconds`; the others
    /// have `free`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_share: Option<f64>,
    /// Seconds between two draws.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_seconds: Option<u32>,
}

/// Type, zone, capacity type.
pub type Key = (String, String, CapacityType);

#[derive(Debug)]
pub struct Pools {
    seed: u64,
    pub(crate) rules: Vec<Rule>,
    left: BTreeMap<(usize, Key), u32>,
    vcpus: BTreeMap<CapacityType, i64>,
}

impl Pools {
    /// Pools as the account begins.
    pub fn new(account: &Account, seed: u64) -> Self {
        Pools {
            seed,
            rules: account.capacity.clone(),
            left: BTreeMap::new(),
            vcpus: BTreeMap::new(),
        }
    }

    /// The rule of a pool, and how many instances it has left (`None`: no limit).
    pub fn free(&self, key: &Key, now: Time) -> (usize, Option<u32>) {
        let fits = |wanted: &Option<String>, own: &str| wanted.as_deref().is_none_or(|w| w == own);
        let holds = |rule: &Rule| {
            fits(&rule.instance_type, &key.0)
                && fits(&rule.zone, &key.1)
                && fits(&rule.capacity_type, key.2.name())
        };
        let Some(at) = self.rules.iter().rposition(holds) else {
            return (usize::MAX, None);
        };
        let rule = &self.rules[at];
        if rule
            .short_share
            .is_some_and(|share| self.chance(key, rule, now) < share)
        {
            return (at, Some(0));
        }
        let left = self.left.get(&(at, key.clone())).copied();
        (at, rule.free.map(|free| left.unwrap_or(free)))
    }

    fn chance(&self, (kind, zone, capacity_type): &Key, rule: &Rule, now: Time) -> f64 {
        let every = i64::from(rule.every_seconds.unwrap_or(u32::MAX).max(1)) * SECOND;
        let epoch = now.0.div_euclid(every) as u64;
        draw(
            self.seed,
            &["short", kind, zone, capacity_type.name()],
            epoch,
        )
    }

    /// Takes one instance. Returns the rule to give it back to.
    pub fn take(&mut self, key: &Key, vcpus: i64, now: Time) -> usize {
        let (rule, free) = self.free(key, now);
        if let Some(free) = free {
            self.left
                .insert((rule, key.clone()), free.saturating_sub(1));
        }
        *self.vcpus.entry(key.2).or_default() += vcpus;
        rule
    }

    /// Gives one instance back.
    pub fn give_back(&mut self, key: &Key, vcpus: i64, rule: usize) {
        if let Some(left) = self.left.get_mut(&(rule, key.clone())) {
            *left += 1;
        }
        *self.vcpus.entry(key.2).or_default() -= vcpus;
    }

    /// vCPUs in use.
    pub fn vcpus(&self, capacity_type: CapacityType) -> i64 {
        self.vcpus.get(&capacity_type).copied().unwrap_or(0)
    }

    /// How deep a pool is: 1 to 10 as spot placement scores are, 0 without capacity.
    pub fn depth(&self, key: &Key, now: Time) -> u8 {
        let drawn = draw(self.seed, &["depth", &key.0, &key.1, key.2.name()], 0);
        match self.free(key, now).1 {
            Some(0) => 0,
            Some(free) => free.min(10) as u8,
            None => 1 + (drawn * 10.0) as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(zone: &str) -> Key {
        ("m5.large".to_owned(), zone.to_owned(), CapacityType::Spot)
    }

    #[test]
    fn the_last_rule_that_fits_holds_and_counts_for_itself() {
        let mut pools = Pools::new(&Account::default_region(), 1);
        assert_eq!(pools.free(&key("a"), Time(0)).1, None);
        let rule = |zone: Option<&str>, free| Rule {
            zone: zone.map(str::to_owned),
            free,
            ..Rule::default()
        };
        pools.rules = vec![rule(None, Some(2)), rule(Some("b"), Some(1))];
        let taken = pools.take(&key("a"), 2, Time(0));
        assert_eq!(pools.free(&key("a"), Time(0)), (0, Some(1)));
        assert_eq!(pools.free(&key("b"), Time(0)), (1, Some(1)));
        pools.rules.push(rule(None, Some(0)));
        pools.give_back(&key("a"), 2, taken);
        assert_eq!(pools.free(&key("a"), Time(0)).1, Some(0));
        assert_eq!(pools.vcpus(CapacityType::Spot), 0);
        assert_eq!(pools.depth(&key("a"), Time(0)), 0);
    }

    #[test]
    fn a_share_of_pools_is_short_and_changes() {
        let mut pools = Pools::new(&Account::default_region(), 1);
        pools.rules = vec![Rule {
            short_share: Some(0.8),
            every_seconds: Some(60),
            ..Rule::default()
        }];
        let short = |minute: i64| -> Vec<usize> {
            let at = Time(minute * 60 * SECOND);
            let zones = 0..500;
            let none = |zone: &usize| pools.free(&key(&zone.to_string()), at).1 == Some(0);
            zones.filter(none).collect()
        };
        assert!((370..430).contains(&short(0).len()), "{}", short(0).len());
        assert_ne!(short(0), short(1));
        assert_eq!(short(1), short(1));
    }
}
