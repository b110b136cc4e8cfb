//! Pseudo-random numbers that depend on a seed and a key only, so that the order of questions
//! changes nothing.

/// The seed of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedRng(pub u64);

impl KeyedRng {
    /// A number that depends on the seed, the question and its subject only.
    pub fn draw(self, question: &str, about: &str) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325u64 ^ mix(self.0);
        for byte in question.bytes().chain([0]).chain(about.bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        mix(hash)
    }

    /// From 0 to just below 1.
    pub fn unit(self, question: &str, about: &str) -> f64 {
        (self.draw(question, about) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Whether something with this share of cases happens.
    pub fn hits(self, share: f64, question: &str, about: &str) -> bool {
        share > 0.0 && self.unit(question, about) < share
    }

    /// A duration around `mean`: between `1 - spread` and `1 + spread` of it.
    pub fn around(
        self,
        mean: std::time::Duration,
        spread: f64,
        question: &str,
        about: &str,
    ) -> std::time::Duration {
        let factor = 1.0 + spread.clamp(0.0, 1.0) * (2.0 * self.unit(question, about) - 1.0);
        mean.mul_f64(factor)
    }

    /// How long until something happens that happens `per_hour` times in an hour; nothing for
    /// never.
    pub fn wait(self, per_hour: f64, question: &str, about: &str) -> Option<std::time::Duration> {
        if per_hour <= 0.0 {
            return None;
        }
        let hours = -(1.0 - self.unit(question, about)).ln() / per_hour;
        // A thousand years are as good as never, and a Duration takes them.
        Some(std::time::Duration::from_secs_f64(
            (hours * 3600.0).min(3.2e10),
        ))
    }
}

/// Spreads every bit of a number over all bits (the finisher of MurmurHash3).
fn mix(mut n: u64) -> u64 {
    n ^= n >> 33;
    n = n.wrapping_mul(0xff51_afd7_ed55_8ccd);
    n ^= n >> 33;
    n = n.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    n ^ (n >> 33)
}

/// Five letters as Kubernetes puts them after a generated name.
pub fn suffix(mut number: u64) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut letter = || {
        let at = (number % LETTERS.len() as u64) as usize;
        number /= LETTERS.len() as u64;
        char::from(LETTERS[at])
    };
    (0..5).map(|_| letter()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn shares_come_out_and_seeds_differ() {
        let hits = |seed| {
            (0..1000)
                .filter(|n| KeyedRng(seed).hits(0.3, "fail", &n.to_string()))
                .count()
        };
        assert!(
            (250..350).contains(&hits(1)) && (250..350).contains(&hits(2)),
            "{} {}",
            hits(1),
            hits(2)
        );
        assert_ne!(KeyedRng(1).draw("a", "b"), KeyedRng(2).draw("a", "b"));
        assert!(!KeyedRng(1).hits(0.0, "a", "b") && KeyedRng(1).hits(1.0, "a", "b"));
    }

    #[test]
    fn waits_have_the_mean_that_was_asked_for() {
        let sum: f64 = (0..1000)
            .map(|n| {
                KeyedRng(7)
                    .wait(2.0, "stop", &n.to_string())
                    .unwrap_or_default()
                    .as_secs_f64()
            })
            .sum();
        assert!(
            (1600.0..2000.0).contains(&(sum / 1000.0)),
            "{}",
            sum / 1000.0
        );
        assert_eq!(KeyedRng(7).wait(0.0, "stop", "x"), None);
        let around = KeyedRng(7).around(Duration::from_secs(10), 0.5, "boot", "x");
        assert!((5.0..15.0).contains(&around.as_secs_f64()));
    }
}
