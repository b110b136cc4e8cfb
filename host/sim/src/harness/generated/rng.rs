//! A sequence of pseudo-random numbers from a seed.

use std::time::Duration;

use longshore_simcluster::faults::unit;

/// Dice of one seed: the same throws in the same order.
#[derive(Clone, Debug)]
pub struct Rng {
    seed: u64,
    thrown: u64,
}

impl Rng {
    /// Dice that have not been thrown.
    pub fn new(seed: u64) -> Self {
        Rng {
            seed: seed ^ 0x5107_ae5e,
            thrown: 0,
        }
    }

    /// From 0 to just below 1.
    pub fn unit(&mut self) -> f64 {
        self.thrown += 1;
        unit(self.seed, self.thrown)
    }

    /// Whether something with this share of cases happens.
    pub fn hits(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// A share below `most`, in this share of cases; else 0.
    pub fn share(&mut self, chance: f64, most: f64) -> f64 {
        match self.hits(chance) {
            true => self.unit() * most,
            false => 0.0,
        }
    }

    /// From `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + (self.unit() * (most - least + 1) as f64) as u64
    }

    /// One of several.
    pub fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.between(0, of.len() as u64 - 1) as usize]
    }

    /// A time before another.
    pub fn time(&mut self, before: Duration) -> Duration {
        Duration::from_millis((self.unit() * before.as_millis() as f64) as u64)
    }
}
