//! Sets of groups, or of hosts, that grow as these are numbered.

/// A set of small integers.
#[derive(Clone, Debug, Default)]
pub struct Members(Vec<u64>);

impl Members {
    /// Adds a member; whether it is new.
    pub fn insert(&mut self, at: usize) -> bool {
        if self.0.len() <= at / 64 {
            self.0.resize(at / 64 + 1, 0);
        }
        let word = &mut self.0[at / 64];
        let before = *word;
        *word |= 1 << (at % 64);
        *word != before
    }

    /// Takes a member out.
    pub fn remove(&mut self, at: usize) {
        if let Some(word) = self.0.get_mut(at / 64) {
            *word &= !(1 << (at % 64));
        }
    }

    /// Whether it is a member.
    pub fn has(&self, at: usize) -> bool {
        self.0
            .get(at / 64)
            .is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Whether both have a member in common.
    pub fn meets(&self, other: &Members) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0
            .iter()
            .enumerate()
            .filter(|(_, word)| **word != 0)
            .flat_map(|(at, &word)| {
                let bits = std::iter::successors(Some(word), |rest| {
                    (*rest != 0).then(|| rest & (rest - 1))
                });
                bits.take_while(|rest| *rest != 0)
                    .map(move |rest| at * 64 + rest.trailing_zeros() as usize)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_back_in_order() {
        let mut members = Members::default();
        assert!(members.is_empty() && !members.has(7));
        for at in [129, 0, 64, 63] {
            assert!(members.insert(at));
        }
        assert!(!members.insert(64));
        assert_eq!(members.iter().collect::<Vec<_>>(), [0, 63, 64, 129]);
        let mut other = Members::default();
        other.insert(65);
        assert!(!members.meets(&other) && members.has(129));
        other.insert(129);
        assert!(members.meets(&other) && other.meets(&members));
    }
}
