use crate::offerings;

/// A value derived from static columns, kept for as long as they stay the same.
#[derive(Debug, Default)]
pub struct PerGeneration<T> {
    kept: Option<(u32, T)>,
}

impl<T> PerGeneration<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        PerGeneration { kept: None }
    }

    /// The value of this generation, worked out if it is not there yet.
    pub fn get(&mut self, derive: impl FnOnce() -> T) -> &T {
        self.get_mut(derive)
    }

    /// The same, for values that remember more than static columns.
    pub fn get_mut(&mut self, derive: impl FnOnce() -> T) -> &mut T {
        let now = offerings::generation();
        let kept = self
            .kept
            .take()
            .filter(|&(generation, _)| generation == now);
        &mut self.kept.insert(kept.unwrap_or_else(|| (now, derive()))).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Offering};

    #[test]
    fn a_value_is_worked_out_once_for_each_generation() {
        let mut cached = PerGeneration::new();
        let mut worked = 0;
        for rows in [1, 1, 2] {
            for _ in 0..2 {
                testing::with(&vec![Offering::default(); rows], || {
                    cached.get(|| worked += 1);
                });
            }
        }
        assert_eq!(worked, 2);
    }
}
