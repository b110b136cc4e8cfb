//! Chance from a seed: splitmix64, the same on every machine and for ever, for recorded answers
//! depend on it.

use longshore_core::rng::SplitMix64;
use serde_json::Value;

/// A source of chance.
pub struct Random(SplitMix64);

impl Random {
    /// The source of a seed. Neighbouring seeds have nothing in common.
    pub fn new(seed: u64) -> Random {
        let start = seed
            .wrapping_mul(0xd134_2543_de82_ef95)
            .wrapping_add(0x5851_f42d_4c95_7f2d);
        Random(SplitMix64(start))
    }

    /// A number from 0 up to, not including, `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.0.bits() % end.max(1) as u64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True in so many of a hundred cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `from`, which has at least one.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// From one to `most` different ones of `from`, in its order.
    pub fn some<T: Clone>(&mut self, from: &[T], most: usize) -> Vec<T> {
        let wanted = self.between(1, most.clamp(1, from.len()));
        let mut left = wanted;
        let mut chosen = Vec::new();
        for (at, item) in from.iter().enumerate() {
            if self.below(from.len() - at) < left {
                chosen.push(item.clone());
                left -= 1;
            }
        }
        chosen
    }
}

/// Adds to a list inside an object, making it if need be.
pub fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        _ => *list = Value::Array(vec![item]),
    }
}
