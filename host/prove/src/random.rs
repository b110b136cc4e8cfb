//! Choices from a seed.

use longshore_core::rng::SplitMix64;

/// Choices for one question.
pub struct Random(SplitMix64);

impl Random {
    /// Those of question `number` of a seed.
    pub fn new(seed: u64, number: u64) -> Self {
        let mut mixed = SplitMix64(seed);
        let start = mixed
            .bits()
            .wrapping_add(number.wrapping_mul(0xd134_2543_de82_ef95));
        Random(SplitMix64(start))
    }

    /// Below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.0.bits() % end as u64) as usize
    }

    /// Once in `of` times.
    pub fn once_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// 0 to 1.
    pub fn share(&mut self) -> f64 {
        (self.0.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
