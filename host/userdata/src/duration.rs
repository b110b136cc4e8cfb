//! Durations as Go reads and writes them: `90s` is written `1m30s`.

use std::fmt::Write as _;

/// Reads a duration such as `1h30m`, `1.5h`, `-2ms` or `0` into nanoseconds. `None` if it is none,
/// or beyond 292 years.
pub fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => SECOND,
            "m" => 60 * SECOND,
            "h" => 3600 * SECOND,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let digits = |text: &str| match text {
            "" => Some(0),
            text if text.len() <= 19 => text.parse::<i128>().ok(),
            _ => None,
        };
        // Digits below a billionth of the unit do not count.
        let fraction = &fraction[..fraction.len().min(18)];
        let scale = 10_i128.pow(fraction.len() as u32);
        total += digits(whole)? * unit + digits(fraction)? * unit / scale;
        if total > i128::from(i64::MAX) + i128::from(negative) {
            return None;
        }
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

const SECOND: i128 = 1_000_000_000;

/// Writes nanoseconds: hours, minutes and seconds from a second on, else one unit.
pub fn write(nanoseconds: i64) -> String {
    let size = nanoseconds.unsigned_abs();
    let mut out = String::new();
    if nanoseconds < 0 {
        out.push('-');
    }
    let fraction = |out: &mut String, amount: u64, unit: u64, name: &str| {
        let _ = write!(out, "{}", amount / unit);
        let rest = amount % unit;
        if rest > 0 {
            let width = unit.ilog10() as usize;
            let digits = format!("{rest:0width$}");
            let _ = write!(out, ".{}", digits.trim_end_matches('0'));
        }
        out.push_str(name);
    };
    match size {
        0 => out.push_str("0s"),
        1..1_000 => fraction(&mut out, size, 1, "ns"),
        1_000..1_000_000 => fraction(&mut out, size, 1_000, "µs"),
        1_000_000..1_000_000_000 => fraction(&mut out, size, 1_000_000, "ms"),
        _ => {
            let second = 1_000_000_000;
            let (hours, minutes) = (size / (3600 * second), size / (60 * second) % 60);
            if hours > 0 {
                let _ = write!(out, "{hours}h");
            }
            if hours > 0 || minutes > 0 {
                let _ = write!(out, "{minutes}m");
            }
            fraction(&mut out, size % (60 * second), second, "s");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written_as_go_does() {
        for (text, written) in [
            ("90s", "1m30s"),
            ("1.5h", "1h30m0s"),
            ("0", "0s"),
            ("100ms", "100ms"),
            ("1500us", "1.5ms"),
            ("1h0m0.25s", "1h0m0.25s"),
            ("-2m", "-2m0s"),
            ("3ns", "3ns"),
            (".5s", "500ms"),
        ] {
            assert_eq!(parse(text).map(write).as_deref(), Some(written), "{text}");
        }
        for bad in [
            "",
            "s",
            "5",
            "1d",
            "1.2.3s",
            "-",
            "9999999999h",
            "1 s",
            ".s",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
