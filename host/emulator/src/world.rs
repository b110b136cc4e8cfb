//! The emulated account: what exists, what is left of it, and what will happen by itself.

pub(crate) mod account;
mod asked_faults;
mod dump;
mod file;
pub(crate) mod instance;
pub(crate) mod ledger;
pub(crate) mod pools;
pub(crate) mod profile;
pub(crate) mod queue;
mod schedule;
pub(crate) mod shift;
mod subnets;
pub(crate) mod template;

use std::collections::BTreeMap;

use crate::calls::Calls;
use crate::chance::Chance;
use crate::faults::Faults;
use crate::throttle::Buckets;
use crate::time::Time;
use crate::wire::Reply;

use account::Tags;
pub use account::{Account, Settings};
pub use file::WorldError;
pub use instance::{CapacityType, Instance, InstanceState};
use ledger::Ledger;
use pools::Pools;
use profile::Profile;
use queue::Queue;
use schedule::Event;
pub(crate) use schedule::USER;
use shift::Shift;
use template::Template;

/// Everything that replies depend on. The same file, seed and requests at the same times give the
/// same replies.
#[derive(Debug)]
pub struct World {
    pub(crate) seed: u64,
    pub(crate) account: Account,
    pub(crate) chance: Chance,
    /// The time up to which events have happened.
    pub(crate) now: Time,
    pub(crate) instances: Ledger<Instance>,
    pub(crate) templates: Ledger<Template>,
    pub(crate) profiles: Ledger<Profile>,
    pub(crate) pools: Pools,
    pub(crate) queues: BTreeMap<String, Queue>,
    events: BTreeMap<(Time, u64), Event>,
    event_count: u64,
    /// Replies by action and client token, with the parameters that led to them.
    pub(crate) tokens: BTreeMap<(String, String), (BTreeMap<String, String>, Reply)>,
    pub(crate) buckets: Buckets,
    pub(crate) faults: Faults,
    pub(crate) calls: Calls,
    /// Zones that traffic is shifted away from.
    pub(crate) shifts: Vec<Shift>,
}

impl World {
    /// A world with an account and a seed.
    pub fn new(account: Account, seed: u64) -> Self {
        let queue = account.queue.clone();
        let mut world = World {
            seed,
            chance: Chance::new(seed),
            now: Time::default(),
            instances: Ledger::default(),
            templates: Ledger::default(),
            profiles: Ledger::default(),
            pools: Pools::new(&account, seed),
            queues: BTreeMap::from([(queue, Queue::default())]),
            events: BTreeMap::new(),
            event_count: 0,
            tokens: BTreeMap::new(),
            buckets: Buckets::default(),
            faults: Faults::default(),
            calls: Calls::default(),
            shifts: Vec::new(),
            account,
        };
        seed_profiles(&mut world);
        world
    }

    /// Gives the caller other policies.
    pub fn set_policies(&mut self, policies: Vec<crate::policies::Policy>) {
        self.account.policies = policies;
    }

    pub fn account(&self) -> &Account {
        &self.account
    }

    /// An id such as `i-0123456789abcdef0`.
    pub(crate) fn id(&mut self, prefix: &str) -> String {
        format!("{prefix}-{}", self.chance.hex(17))
    }

    /// The moment whose state a read shows: up to the longest lag ago, drawn for each call.
    pub(crate) fn as_of(&mut self, now: Time) -> Time {
        let (least, most) = self.account.settings.lag_milliseconds;
        now.plus(-self.chance.between(least, most))
    }
}

/// Profiles of the world file exist from the beginning.
fn seed_profiles(world: &mut World) {
    for (name, role) in std::mem::take(&mut world.account.profiles) {
        let one = Profile {
            id: format!("AIPA{}", world.chance.letters(17)),
            path: "/".to_owned(),
            created: Time(0),
            role: Some(role),
            tags: Tags::new(),
        };
        world.profiles.put(Time(i64::MIN), &name, one);
    }
}
