//! Chance from a seed (`SplitMix64`: Steele, Lea, Flood 2014), the same on every machine.
//!
//! [`Chance`] is a stream: its numbers depend on the order of calls. [`draw`] is a function of its
//! arguments, for what must not depend on that order.

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Chance(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        finish(self.0)
    }

    /// A whole number from `least` to `most`, both included; `least` if `most` is smaller.
    pub fn between(&mut self, least: i64, most: i64) -> i64 {
        let next = self.next();
        let span = most.saturating_sub(least);
        match u64::try_from(span) {
            Ok(span) if span > 0 => least + (next % (span + 1)) as i64,
            _ => least,
        }
    }

    /// From 0 to just below 1.
    pub fn unit(&mut self) -> f64 {
        unit(self.next())
    }

    /// Lower-case hexadecimal digits.
    pub fn hex(&mut self, digits: usize) -> String {
        let mut text = String::with_capacity(digits + 16);
        while text.len() < digits {
            text.push_str(&format!("{:016x}", self.next()));
        }
        text.truncate(digits);
        text
    }

    /// Letters and digits of IAM's ids.
    pub fn letters(&mut self, count: usize) -> String {
        const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
        let letter = |chance: &mut Chance| char::from(ALPHABET[(chance.next() % 32) as usize]);
        (0..count).map(|_| letter(self)).collect()
    }

    /// `8-4-4-4-12` hexadecimal digits.
    pub fn uuid(&mut self) -> String {
        let hex = self.hex(32);
        let parts = [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ];
        parts.join("-")
    }
}

fn finish(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn unit(number: u64) -> f64 {
    (number >> 11) as f64 / (1u64 << 53) as f64
}

/// From 0 to just below 1, from a seed, texts (FNV-1a) and a number.
pub fn draw(seed: u64, texts: &[&str], number: u64) -> f64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut byte = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    for text in texts {
        text.bytes().chain([0xff]).for_each(&mut byte);
    }
    unit(finish(finish(seed.wrapping_add(hash)).wrapping_add(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let numbers = |seed| {
            let mut chance = Chance::new(seed);
            let between = chance.between(5, 9);
            (
                between,
                chance.hex(17),
                chance.letters(5),
                chance.uuid(),
                chance.unit(),
            )
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
        assert!((5..=9).contains(&numbers(1).0));
        assert_eq!(numbers(1).1.len(), 17);
        assert_eq!(numbers(1).3.len(), 36);
        assert_eq!(Chance::new(3).between(4, 4), 4);
        assert_eq!(Chance::new(3).between(4, 1), 4);
    }

    #[test]
    fn a_draw_depends_on_its_arguments_alone() {
        assert_eq!(draw(1, &["a", "b"], 2), draw(1, &["a", "b"], 2));
        assert_ne!(draw(1, &["a", "b"], 2), draw(1, &["ab"], 2));
        let many = (0..1000).map(|number| draw(7, &["m5.large"], number));
        let low = many.filter(|unit| *unit < 0.8).count();
        assert!((760..840).contains(&low), "{low}");
    }
}
