use crate::offerings;

/// A value derived from static columns, kept for as long as they stay the same.
#[derive(Debug, Default)]
pub struct PerEdition<T> {
    kept: Option<(String, T)>,
}

impl<T> PerEdition<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        PerEdition { kept: None }
    }

    /// The value of this edition, worked out if it is not there yet.
    pub fn get(&mut self, derive: impl FnOnce() -> T) -> &T {
        self.get_mut(derive)
    }

    /// The same, for values that remember more than static columns.
    pub fn get_mut(&mut self, derive: impl FnOnce() -> T) -> &mut T {
        let now = offerings::edition();
        let kept = self.kept.take().filter(|(edition, _)| *edition == now);
        &mut self.kept.insert(kept.unwrap_or_else(|| (now, derive()))).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Offering};

    #[test]
    fn a_value_is_worked_out_once_for_each_edition() {
        let mut cached = PerEdition::new();
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
