//! Kubernetes quantities: `1500m`, `2Gi`, `0.5`, `1e3`.
//!
//! A quantity is read exactly, to a billionth (finer digits round up, as in Kubernetes), and then
//! converted to a whole number of its resource's unit, rounded up. Reading never panics and never
//! wraps. A value too large for the unit is an error, or the largest number if the caller uses
//! [`Quantity::whole_saturating`].

use std::collections::BTreeMap;

use longshore_core::model::{ResourceId, Resources, Symbols};

/// An amount in billionths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Quantity {
    nano: i128,
}

/// Why a text is not a quantity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum QuantityError {
    /// There is no number.
    #[error("is empty")]
    Empty,
    /// It does not start with a number.
    #[error("does not start with a number")]
    NoNumber,
    /// What follows the number is not a suffix.
    #[error(
        "has an unknown suffix (expected m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent like e3)"
    )]
    Suffix,
    /// It is larger than any resource can be.
    #[error("is larger than 9223372036854775807")]
    TooLarge,
    /// It is below zero where only amounts make sense.
    #[error("is negative")]
    Negative,
}

/// Billionths in one.
const NANO: i128 = 1_000_000_000;
/// Where reading stops to grow: far above any unit of 64 bits, far below the end of 128 bits.
const CEILING: i128 = (i64::MAX as i128) * NANO * 1024;

impl Quantity {
    /// Reads a quantity: sign, digits with at most one point, then a suffix or an exponent.
    pub fn parse(text: &str) -> Result<Quantity, QuantityError> {
        let (negative, rest) = match text.as_bytes().first() {
            None => return Err(QuantityError::Empty),
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            Some(_) => (false, text),
        };
        let end = rest
            .bytes()
            .position(|b| !b.is_ascii_digit() && b != b'.')
            .unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return Err(QuantityError::NoNumber);
        }
        let nano = scaled(whole, fraction, Scale::of(suffix)?);
        Ok(Quantity {
            nano: if negative { -nano } else { nano },
        })
    }

    /// Below zero.
    pub fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// As a whole number, rounded up; an error if negative or too large for 64 bits.
    pub fn whole(self) -> Result<i64, QuantityError> {
        self.in_units(NANO)
    }

    /// In thousandths, rounded up; an error if negative or too large for 64 bits.
    pub fn milli(self) -> Result<i64, QuantityError> {
        self.in_units(NANO / 1000)
    }

    /// As [`Quantity::whole`], but the largest number instead of an error for being too large.
    pub fn whole_saturating(self) -> Result<i64, QuantityError> {
        saturating(self.whole())
    }

    /// As [`Quantity::milli`], but the largest number instead of an error for being too large.
    pub fn milli_saturating(self) -> Result<i64, QuantityError> {
        saturating(self.milli())
    }

    fn in_units(self, unit: i128) -> Result<i64, QuantityError> {
        if self.nano < 0 {
            return Err(QuantityError::Negative);
        }
        let rounded_up = self.nano / unit + i128::from(self.nano % unit != 0);
        i64::try_from(rounded_up).map_err(|_| QuantityError::TooLarge)
    }
}

fn saturating(amount: Result<i64, QuantityError>) -> Result<i64, QuantityError> {
    match amount {
        Err(QuantityError::TooLarge) => Ok(i64::MAX),
        other => other,
    }
}

/// What a suffix multiplies with.
#[derive(Clone, Copy)]
enum Scale {
    /// 1024 to this power.
    Binary(u32),
    /// 10 to this power.
    Decimal(i32),
}

impl Scale {
    fn of(suffix: &str) -> Result<Scale, QuantityError> {
        Ok(match suffix {
            "" => Scale::Decimal(0),
            "n" => Scale::Decimal(-9),
            "u" => Scale::Decimal(-6),
            "m" => Scale::Decimal(-3),
            "k" => Scale::Decimal(3),
            "M" => Scale::Decimal(6),
            "G" => Scale::Decimal(9),
            "T" => Scale::Decimal(12),
            "P" => Scale::Decimal(15),
            "E" => Scale::Decimal(18),
            "Ki" => Scale::Binary(1),
            "Mi" => Scale::Binary(2),
            "Gi" => Scale::Binary(3),
            "Ti" => Scale::Binary(4),
            "Pi" => Scale::Binary(5),
            "Ei" => Scale::Binary(6),
            _ => Scale::Decimal(exponent(suffix).ok_or(QuantityError::Suffix)?),
        })
    }
}

/// The number in `e3`, `E-2`, `e+10`; exponents beyond ±1000 say no more than ±1000.
fn exponent(suffix: &str) -> Option<i32> {
    let digits = suffix.strip_prefix(['e', 'E'])?;
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, digits.strip_prefix('+').unwrap_or(digits)),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(sign * digits.parse::<i32>().unwrap_or(1000).min(1000))
}

/// `whole.fraction × scale` in billionths, rounded up, at most [`CEILING`].
fn scaled(whole: &str, fraction: &str, scale: Scale) -> i128 {
    match scale {
        Scale::Decimal(power) => decimal(
            whole.bytes().chain(fraction.bytes()),
            whole.len() as i64 + i64::from(power) + 9,
        ),
        Scale::Binary(power) => binary(whole, fraction, 1024i128.pow(power)),
    }
}

/// The number whose decimal point stands after `point` of these digits, rounded up, at most
/// [`CEILING`].
fn decimal(digits: impl Iterator<Item = u8>, point: i64) -> i128 {
    let mut amount: i128 = 0;
    let mut missing = point;
    let mut rest = false;
    for digit in digits.map(|b| i128::from(b - b'0')) {
        if missing > 0 {
            amount = (amount * 10 + digit).min(CEILING);
        } else {
            rest |= digit != 0;
        }
        missing -= 1;
    }
    while missing > 0 && amount > 0 && amount < CEILING {
        amount = (amount * 10).min(CEILING);
        missing -= 1;
    }
    amount + i128::from(rest)
}

/// `whole.fraction × factor` (at most 2^60) in billionths. Eighteen digits of the fraction are read
/// (10^18 × 2^60 fits 128 bits); more only round up.
fn binary(whole: &str, fraction: &str, factor: i128) -> i128 {
    const DIGITS: i64 = 18;
    const ONE: i128 = 10i128.pow(DIGITS as u32);
    let whole = decimal(whole.bytes(), whole.len() as i64).min(CEILING / NANO);
    let parts = decimal(fraction.bytes(), DIGITS) * factor;
    let below_one = (parts % ONE) * NANO;
    let nano = below_one / ONE + i128::from(below_one % ONE != 0);
    whole
        .saturating_mul(factor)
        .saturating_add(parts / ONE)
        .min(CEILING / NANO)
        * NANO
        + nano
}

/// Amounts as Kubernetes writes them.
pub fn amounts(resources: &Resources, names: &Symbols) -> BTreeMap<String, String> {
    let text = |(id, amount): (ResourceId, i64)| {
        let text = match id {
            ResourceId::Cpu => format!("{amount}m"),
            ResourceId::Memory | ResourceId::EphemeralStorage if amount % 1024 == 0 => {
                format!("{}Ki", amount / 1024)
            }
            _ => amount.to_string(),
        };
        (id.name(names).to_owned(), text)
    };
    resources.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Result<i64, QuantityError> {
        Quantity::parse(text)?.whole()
    }

    fn milli(text: &str) -> Result<i64, QuantityError> {
        Quantity::parse(text)?.milli()
    }

    #[test]
    fn every_suffix_multiplies() {
        for (text, amount) in [
            ("0", 0),
            ("7", 7),
            ("+7", 7),
            ("007", 7),
            ("1n", 1),
            ("1u", 1),
            ("1m", 1),
            ("1000m", 1),
            ("1001m", 2),
            ("3000000000n", 3),
            ("3000000u", 3),
            ("1k", 1_000),
            ("1M", 1_000_000),
            ("1G", 1_000_000_000),
            ("1T", 1_000_000_000_000),
            ("1P", 1_000_000_000_000_000),
            ("1E", 1_000_000_000_000_000_000),
            ("1Ki", 1 << 10),
            ("1Mi", 1 << 20),
            ("1Gi", 1 << 30),
            ("1Ti", 1 << 40),
            ("1Pi", 1 << 50),
            ("1Ei", 1 << 60),
            ("7Ei", 7 << 60),
            ("9223372036854775807", i64::MAX),
        ] {
            assert_eq!(whole(text), Ok(amount), "{text}");
        }
    }

    #[test]
    fn fractions_and_exponents_are_exact_and_round_up() {
        for (text, amount) in [
            ("1.5Gi", 3 << 29),
            ("0.3Ki", 308),
            (".5Ki", 512),
            ("5.", 5),
            ("0.1", 1),
            ("1e3", 1_000),
            ("1E3", 1_000),
            ("1.5e3", 1_500),
            ("12e-1", 2),
            ("1e+2", 100),
            ("0e99999999999", 0),
            ("1e-99999999999", 1),
            ("0.000000000000000000000000000000000001", 1),
            ("100000000000000000000000000000000000000000000000000e-50", 1),
            ("0.99999999999999999999999999Ki", 1024),
            ("1.1Ei", 1_268_213_655_067_531_674), // 1.1 × 2^60 = …673.6
        ] {
            assert_eq!(whole(text), Ok(amount), "{text}");
        }
    }

    #[test]
    fn cpu_counts_in_thousandths() {
        for (text, amount) in [
            ("1", 1000),
            ("100m", 100),
            ("0.1", 100),
            ("1.0001", 1001),
            ("1n", 1),
            ("2k", 2_000_000),
            ("0.25", 250),
            ("1.5e-1", 150),
        ] {
            assert_eq!(milli(text), Ok(amount), "{text}");
        }
    }

    #[test]
    fn what_is_no_amount_says_why() {
        use QuantityError::*;
        for (text, error) in [
            ("", Empty),
            ("-", NoNumber),
            ("+", NoNumber),
            (".", NoNumber),
            ("Gi", NoNumber),
            ("1.2.3", NoNumber),
            ("--1", NoNumber),
            (" 1", NoNumber),
            ("1 ", Suffix),
            ("1 Gi", Suffix),
            ("1GB", Suffix),
            ("1gi", Suffix),
            ("1K", Suffix),
            ("1e", Suffix),
            ("1e1.5", Suffix),
            ("1e3Gi", Suffix),
            ("0x10", Suffix),
            ("1٣", Suffix),
            ("-1", Negative),
            ("-1m", Negative),
            ("9223372036854775808", TooLarge),
            ("8Ei", TooLarge),
            (
                "9999999999999999999999999999999999999999999999999",
                TooLarge,
            ),
            ("1e999", TooLarge),
            ("99999999999999999999999999999999999999Ei", TooLarge),
        ] {
            assert_eq!(whole(text), Err(error), "{text}");
        }
        assert_eq!(milli("9223372036854775807"), Err(TooLarge));
        assert_eq!(
            Quantity::parse("1e99").and_then(Quantity::whole_saturating),
            Ok(i64::MAX)
        );
        assert_eq!(
            Quantity::parse("-1e99").and_then(Quantity::whole_saturating),
            Err(Negative)
        );
    }
}
