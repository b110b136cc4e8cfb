//! Numbers from a seed.

/// A xorshift generator. Its state is never 0.
pub struct Rng(u64);

impl Rng {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d);
        (0..8).for_each(|_| _ = rng.below(2));
        rng
    }

    /// A number below `most`.
    pub fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most.max(1)
    }

    /// True in so many of a hundred times.
    pub fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }

    /// One of some words.
    pub fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        let at = self.below(from.len());
        from.get(at).copied().unwrap_or_default()
    }
}
