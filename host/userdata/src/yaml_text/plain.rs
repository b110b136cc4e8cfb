//! What a plain text reads as in YAML 1.1.

/// Whether YAML 1.1 reads a plain text as something else: nothing, a truth, a number, a date.
pub(super) fn reads_as_other(text: &str) -> bool {
    const WORDS: [&str; 33] = [
        "", "~", "null", "Null", "NULL", "true", "True", "TRUE", "false", "False", "FALSE", "y",
        "Y", "yes", "Yes", "YES", "n", "N", "no", "No", "NO", "on", "On", "ON", "off", "Off",
        "OFF", ".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF",
    ];
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    WORDS.contains(&text)
        || (matches!(unsigned, ".inf" | ".Inf" | ".INF"))
        || is_whole(text)
        || (is_float(unsigned) && unsigned.parse().is_ok_and(f64::is_finite))
        || is_sexagesimal(unsigned)
        || is_date(text)
}

/// Decimal, hexadecimal, octal and binary numbers, possibly with `_` between digits.
fn is_whole(text: &str) -> bool {
    if text.starts_with('_') {
        return false;
    }
    let text = text.replace('_', "");
    let digits = text.strip_prefix(['+', '-']).unwrap_or(&text);
    if digits.is_empty() || !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let of = |digits: &str, radix: u32| {
        !digits.is_empty() && u64::from_str_radix(digits, radix).is_ok() && !digits.starts_with('+')
    };
    match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => of(&digits[2..], 16),
        [b'0', b'b' | b'B', ..] => of(&digits[2..], 2),
        [b'0', b'o' | b'O', ..] => of(&digits[2..], 8),
        [b'0', _, ..] => of(&digits[1..], 8),
        _ => of(digits, 10),
    }
}

fn is_float(text: &str) -> bool {
    let (number, power) = match text.split_once(['e', 'E']) {
        Some((number, power)) => (number, Some(power)),
        None => (text, None),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let power = power.is_none_or(|power| {
        let power = power.strip_prefix(['+', '-']).unwrap_or(power);
        !power.is_empty() && digits(power)
    });
    digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty()) && power
}

/// Numbers to the base of 60, such as `1:30`.
fn is_sexagesimal(text: &str) -> bool {
    let mut parts = text.split(':');
    let first = parts.next().unwrap_or_default();
    let starts = first.starts_with(|c: char| c.is_ascii_digit())
        && first.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let rest: Vec<&str> = parts.collect();
    let last = rest.len().saturating_sub(1);
    let sixty = |at: usize, part: &str| {
        let part = match part.split_once('.') {
            Some((part, after)) if at == last => {
                if !after.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
                    return false;
                }
                part
            }
            _ => part,
        };
        matches!(part.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9'])
    };
    starts && !rest.is_empty() && rest.iter().enumerate().all(|(at, part)| sixty(at, part))
}

/// Dates, with or without a time.
fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    if !((0..4).all(digit) && bytes.get(4) == Some(&b'-')) {
        return false;
    }
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let number = |text: Option<&str>| -> Option<u32> {
        text.filter(|text| {
            (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
        })?
        .parse()
        .ok()
    };
    parts.next();
    let (month, day) = (number(parts.next()), number(parts.next()));
    let real = month.is_some_and(|m| (1..=12).contains(&m))
        && day.is_some_and(|d| (1..=31).contains(&d))
        && parts.next().is_none();
    real && match time {
        None => true,
        Some(time) => {
            let end = time.find(['Z', '+', '-']).unwrap_or(time.len());
            let clock: Vec<&str> = time[..end].split(':').collect();
            clock.len() == 3
                && number(clock.first().copied()).is_some()
                && number(clock.get(1).copied()).is_some()
        }
    }
}
