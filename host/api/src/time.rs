//! Times and durations as Kubernetes writes them, in seconds.

/// Seconds since 1970 of an RFC 3339 time such as `2026-11-01T00:00:00Z` or `…T01:00:00.5+01:00`;
/// fractions are cut.
pub fn timestamp(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = bytes.get(from..to)?;
        digits
            .iter()
            .all(u8::is_ascii_digit)
            .then(|| digits.iter().fold(0, |n, b| n * 10 + i64::from(b - b'0')))
    };
    let is = |at: usize, any: &[u8]| bytes.get(at).is_some_and(|b| any.contains(b));
    if !(is(4, b"-") && is(7, b"-") && is(10, b"Tt ") && is(13, b":") && is(16, b":")) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1..=12).contains(&month)
        || day < 1
        || day > days_in(year, month)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    let mut at = 19;
    if is(at, b".") {
        let digits = bytes[at + 1..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        if digits == 0 {
            return None;
        }
        at += 1 + digits;
    }
    let offset = match bytes.get(at)? {
        b'Z' | b'z' if bytes.len() == at + 1 => 0,
        sign @ (b'+' | b'-') if bytes.len() == at + 6 && is(at + 3, b":") => {
            let seconds = number(at + 1, at + 3)? * 3600 + number(at + 4, at + 6)? * 60;
            if *sign == b'+' { seconds } else { -seconds }
        }
        _ => return None,
    };
    Some(days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset)
}

fn days_in(year: i64, month: i64) -> i64 {
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a day of the Gregorian calendar. Years are counted from March, so that
/// the leap day is the last of its year and the days before a month follow one line: (153 m + 2) /
/// 5.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    year * 365 + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + day
        - 719_469
}

/// Seconds of a Go duration such as `1h30m`, `300s`, `1.5h` or `-5m`, cut to whole seconds.
pub fn go_duration(text: &str) -> Option<i64> {
    go_seconds(text).map(|seconds| seconds as i64)
}

/// Seconds of a Go duration, with their fractions.
pub fn go_seconds(text: &str) -> Option<f64> {
    let (sign, mut rest) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    if rest == "0" {
        return Some(0.0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut seconds = 0f64;
    while !rest.is_empty() {
        let end = rest
            .bytes()
            .position(|b| !b.is_ascii_digit() && b != b'.')?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let end = rest
            .bytes()
            .position(|b| b.is_ascii_digit() || b == b'.')
            .unwrap_or(rest.len());
        seconds += number
            * match &rest[..end] {
                "ns" => 1e-9,
                "us" | "µs" | "μs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        rest = &rest[end..];
    }
    // Go holds durations in 64 bits of nanoseconds: about 292 years.
    (seconds < 9.3e9).then_some(sign * seconds)
}

/// Seconds of a duration of a NodePool: whole hours, minutes and seconds, `^([0-9]+(s|m|h))+$`.
pub fn plain_duration(text: &str) -> Option<i64> {
    let mut seconds: i64 = 0;
    let mut number: Option<i64> = None;
    for byte in text.bytes() {
        let unit = match byte {
            b'0'..=b'9' => {
                number = Some(
                    number
                        .unwrap_or(0)
                        .checked_mul(10)?
                        .checked_add(i64::from(byte - b'0'))?,
                );
                continue;
            }
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            _ => return None,
        };
        seconds = seconds.checked_add(number.take()?.checked_mul(unit)?)?;
    }
    (number.is_none() && !text.is_empty() && seconds <= 9_223_372_036).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_seconds_since_1970() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T12:00:00Z", Some(951_825_600)),
            ("2026-11-01T00:00:00Z", Some(1_793_491_200)),
            ("2026-11-01T01:00:00.123456+01:00", Some(1_793_491_200)),
            ("2026-10-31T23:30:00-00:30", Some(1_793_491_200)),
            ("1969-12-31T23:59:59Z", Some(-1)),
            ("2026-02-29T00:00:00Z", None),
            ("2026-13-01T00:00:00Z", None),
            ("2026-11-01", None),
            ("2026-11-01T00:00:00", None),
            ("2026-11-01T00:00:00.Z", None),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(timestamp(text), seconds, "{text}");
        }
    }

    #[test]
    fn durations_are_read_as_go_and_as_the_schema_do() {
        for (text, go, plain) in [
            ("1h30m", Some(5400), Some(5400)),
            ("720h", Some(2_592_000), Some(2_592_000)),
            ("0s", Some(0), Some(0)),
            ("0", Some(0), None),
            ("1.5h", Some(5400), None),
            ("1500ms", Some(1), None),
            ("-5m", Some(-300), None),
            ("", None, None),
            ("h", None, None),
            ("5", None, None),
            ("1d", None, None),
            ("Never", None, None),
            ("99999999999999999999h", None, None),
            ("1.2.3s", None, None),
        ] {
            assert_eq!(
                (go_duration(text), plain_duration(text)),
                (go, plain),
                "{text}"
            );
        }
    }
}
