//! Bit sets of a fixed length: instance types that fit, offering keys that are allowed.

/// A set of small integers below a length fixed at its making. Sets that meet must have the same
/// length.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BitSet(Box<[u64]>);

impl BitSet {
    /// No member, room for `len`.
    pub fn none(len: usize) -> Self {
        BitSet(vec![0; len.div_ceil(64)].into())
    }

    /// All of `0..len`.
    pub fn all(len: usize) -> Self {
        let mut bits = BitSet(vec![u64::MAX; len.div_ceil(64)].into());
        if !len.is_multiple_of(64)
            && let Some(last) = bits.0.last_mut()
        {
            *last = (1 << (len % 64)) - 1;
        }
        bits
    }

    /// Adds a member.
    pub fn insert(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }

    /// Removes a member.
    pub fn remove(&mut self, at: usize) {
        self.0[at / 64] &= !(1 << (at % 64));
    }

    /// Removes all members.
    pub fn clear(&mut self) {
        self.0.fill(0);
    }

    /// Whether it is a member.
    pub fn has(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    /// Keeps what `other` has too.
    pub fn and(&mut self, other: &BitSet) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a &= b;
        }
    }

    /// Adds what `other` has.
    pub fn or(&mut self, other: &BitSet) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
    }

    /// Removes what `other` has.
    pub fn and_not(&mut self, other: &BitSet) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a &= !b;
        }
    }

    /// Whether the two have a member in common.
    pub fn meets(&self, other: &BitSet) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&w| w == 0)
    }

    /// How many members there are.
    pub fn count(&self) -> usize {
        self.0.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(at, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    at * 64 + bit
                })
            })
        })
    }

    /// The words, lowest members first.
    pub fn words(&self) -> &[u64] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_back_in_order() {
        let mut bits = BitSet::none(130);
        for at in [129, 0, 64, 63] {
            bits.insert(at);
        }
        assert_eq!(bits.iter().collect::<Vec<_>>(), [0, 63, 64, 129]);
        assert_eq!(BitSet::all(130).count(), 130);
        bits.remove(64);
        assert!(!bits.has(64) && bits.has(129));
    }
}
