//! Amounts that keep the notation which Kubernetes writes them in.
//!
//! Plans compare numbers, so [`Amount::milli`] is what counts. The notation matters where an answer
//! is compared with Karpenter's text: `20Gi` stays binary, `468G` stays decimal.

use std::fmt;

use longshore_api::quantity::{Quantity, QuantityError};

/// How a quantity is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notation {
    /// Powers of 1000: `1500m`, `468G`.
    Decimal,
    /// Powers of 1024: `20Gi`.
    Binary,
}

/// An amount of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Amount {
    /// In thousandths of the resource's unit (core, byte, device).
    pub milli: i64,
    /// How it is written.
    pub notation: Notation,
}

/// Bytes in a MiB.
pub const MIB: i64 = 1 << 20;
/// Bytes in a GiB.
pub const GIB: i64 = 1 << 30;

impl Amount {
    /// None of a resource, written `0`.
    pub const ZERO: Amount = Amount::decimal(0);

    /// Whole units in decimal notation.
    pub const fn decimal(units: i64) -> Self {
        Amount {
            milli: units.saturating_mul(1000),
            notation: Notation::Decimal,
        }
    }

    /// Thousandths in decimal notation.
    pub const fn milli(milli: i64) -> Self {
        Amount {
            milli,
            notation: Notation::Decimal,
        }
    }

    /// Whole units in binary notation.
    pub const fn binary(units: i64) -> Self {
        Amount {
            milli: units.saturating_mul(1000),
            notation: Notation::Binary,
        }
    }

    /// Reads a quantity; digits beyond thousandths round up.
    ///
    /// # Errors
    /// Those of [`Quantity::parse`]; a negative quantity is one.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let notation = match text.ends_with('i') {
            true => Notation::Binary,
            false => Notation::Decimal,
        };
        let milli = Quantity::parse(text)?.milli_saturating()?;
        Ok(Amount { milli, notation })
    }

    /// Whole units, rounded up.
    pub fn units(self) -> i64 {
        self.milli.div_euclid(1000) + i64::from(self.milli.rem_euclid(1000) != 0)
    }

    /// `self − other` in the notation of `self`, or of `other` if `self` is zero. May be negative.
    pub fn less(self, other: Amount) -> Self {
        Amount {
            milli: self.milli.saturating_sub(other.milli),
            notation: match self.milli {
                0 => other.notation,
                _ => self.notation,
            },
        }
    }

    /// `self + other` in the notation of `self`, or of `other` if `self` is zero.
    pub fn plus(self, other: Amount) -> Self {
        Amount {
            milli: self.milli.saturating_add(other.milli),
            notation: match self.milli {
                0 => other.notation,
                _ => self.notation,
            },
        }
    }
}

impl fmt::Display for Amount {
    /// The canonical form of Kubernetes: a whole number with the largest suffix that keeps it
    /// whole.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.milli % 1000 != 0 {
            return write!(f, "{}m", self.milli);
        }
        let (step, suffixes) = match self.notation {
            Notation::Binary => (1024, ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
            Notation::Decimal => (1000, ["", "k", "M", "G", "T", "P", "E"]),
        };
        let (mut amount, mut at) = (self.milli / 1000, 0);
        while amount != 0 && amount % step == 0 && at + 1 < suffixes.len() {
            amount /= step;
            at += 1;
        }
        write!(f, "{amount}{}", suffixes[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_as_kubernetes_writes_them() {
        for (text, canonical) in [
            ("1024Mi", "1Gi"),
            ("100Gi", "100Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5", "500m"),
            ("2000", "2k"),
            ("468G", "468G"),
            ("0", "0"),
            ("1e3", "1k"),
            ("100m", "100m"),
            ("1000m", "1"),
        ] {
            assert_eq!(
                Amount::parse(text).unwrap().to_string(),
                canonical,
                "{text}"
            );
        }
        assert_eq!(Amount::parse("-1"), Err(QuantityError::Negative));
    }

    #[test]
    fn a_difference_keeps_the_notation_of_what_it_is_taken_from() {
        let storage = Amount::decimal(468_000_000_000).less(Amount::binary(GIB));
        assert_eq!(storage.to_string(), "466926258176");
        assert_eq!(Amount::ZERO.plus(Amount::binary(MIB)).to_string(), "1Mi");
        assert_eq!(
            Amount::milli(2000).less(Amount::milli(70)).to_string(),
            "1930m"
        );
        assert_eq!(Amount::milli(1500).units(), 2);
    }
}
