//! Numbers from a seed, for clusters that tests generate.

/// A xorshift generator. Its state is never 0.
pub struct Rng(pub u64);

impl Rng {
    /// A number below `most`.
    pub fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most
    }

    /// True once in so many times.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }
}
