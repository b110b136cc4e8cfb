//! Generated identities: UIDs and suffixes of generated names, from one seed.

/// A source of them. The same seed gives the same ones in the same order.
#[derive(Clone, Debug)]
pub struct Ids(u64);

impl Ids {
    /// By seed.
    pub fn new(seed: u64) -> Self {
        Ids(seed)
    }

    /// SplitMix64 (Steele, Lea, Flood 2014).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A UUID of version 4.
    pub fn uid(&mut self) -> String {
        let (a, b) = (self.next(), self.next());
        let (first, second, third) = (a >> 32, (a >> 16) & 0xffff, (a & 0x0fff) | 0x4000);
        let (fourth, fifth) = (((b >> 48) & 0x3fff) | 0x8000, b & 0xffff_ffff_ffff);
        format!("{first:08x}-{second:04x}-{third:04x}-{fourth:04x}-{fifth:012x}")
    }

    /// Five letters, none of which makes words.
    pub fn suffix(&mut self) -> String {
        const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut bits = self.next();
        let letter = |_| {
            let letter = LETTERS[(bits % 27) as usize] as char;
            bits /= 27;
            letter
        };
        (0..5).map(letter).collect()
    }
}
