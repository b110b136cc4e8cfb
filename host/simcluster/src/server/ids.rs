//! Generated identities: UIDs and suffixes of generated names, from one seed.

use longshore_core::rng::SplitMix64;

/// A source of them. The same seed gives the same ones in the same order.
#[derive(Clone, Debug)]
pub struct Ids(SplitMix64);

impl Ids {
    pub fn new(seed: u64) -> Self {
        Ids(SplitMix64(seed))
    }

    /// A UUID of version 4.
    pub fn uid(&mut self) -> String {
        let (a, b) = (self.0.bits(), self.0.bits());
        let (first, second, third) = (a >> 32, (a >> 16) & 0xffff, (a & 0x0fff) | 0x4000);
        let (fourth, fifth) = (((b >> 48) & 0x3fff) | 0x8000, b & 0xffff_ffff_ffff);
        format!("{first:08x}-{second:04x}-{third:04x}-{fourth:04x}-{fifth:012x}")
    }

    /// Five letters, none of which makes words.
    pub fn suffix(&mut self) -> String {
        const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut bits = self.0.bits();
        let letter = |_| {
            let letter = LETTERS[(bits % 27) as usize] as char;
            bits /= 27;
            letter
        };
        (0..5).map(letter).collect()
    }
}
