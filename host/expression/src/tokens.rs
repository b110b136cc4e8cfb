//! Words of an expression.

use super::Refused;

/// A word, with the byte where it starts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub at: usize,
    pub word: Word,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    /// A whole number without its sign, which may be one beyond `i64`.
    Int(u64),
    Double(f64),
    Text(String),
    Name(String),
    Sign(&'static str),
    End,
}

/// Operators and brackets; of two that start alike the longer is first.
const SIGNS: [&str; 22] = [
    "&&", "||", "<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",",
    "(", ")", "[", "]",
];

/// Takes a text apart. The last token is [`Word::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Refused> {
    let mut all = Vec::new();
    let mut at = 0;
    loop {
        at += blank(&text[at..]);
        let rest = &text[at..];
        let Some(first) = rest.chars().next() else {
            all.push(Token {
                at,
                word: Word::End,
            });
            return Ok(all);
        };
        let second = rest.as_bytes().get(1);
        let (word, length) = match first {
            '0'..='9' => number(text, at)?,
            '.' if second.is_some_and(u8::is_ascii_digit) => number(text, at)?,
            '"' | '\'' => quoted(text, at)?,
            'a'..='z' | 'A'..='Z' | '_' => {
                let name = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
                let length = rest.find(name).unwrap_or(rest.len());
                (Word::Name(rest[..length].to_owned()), length)
            }
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (Word::Sign(sign), sign.len()),
                None => {
                    let what = format!("{first:?} has no meaning here");
                    return Err(Refused::at(text, at, what, "remove it"));
                }
            },
        };
        all.push(Token { at, word });
        at += length;
    }
}

/// Bytes of blanks and comments at the start of a text.
fn blank(text: &str) -> usize {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
        if !rest.starts_with("//") {
            return text.len() - rest.len();
        }
        rest = rest.split_once('\n').map_or("", |(_, after)| after);
    }
}

/// A number that starts at a byte, and its length.
fn number(text: &str, at: usize) -> Result<(Word, usize), Refused> {
    let rest = &text[at..];
    let digits = |from: usize, hex: bool| {
        let is = |b: &u8| match hex {
            true => b.is_ascii_hexdigit(),
            false => b.is_ascii_digit(),
        };
        from + rest.as_bytes()[from..].iter().take_while(|b| is(b)).count()
    };
    let beyond = |_| Refused::at(text, at, "is beyond 64 bits", "write a smaller number");
    let (word, end) = if rest.starts_with("0x") {
        let end = digits(2, true);
        let number = u64::from_str_radix(&rest[2..end], 16).map_err(beyond)?;
        (Word::Int(number), end)
    } else {
        let mut end = digits(0, false);
        let whole = end;
        if rest[end..].starts_with('.') && digits(end + 1, false) > end + 1 {
            end = digits(end + 1, false);
        }
        let power = rest[end..].strip_prefix(['e', 'E']);
        if let Some(power) = power {
            let sign = usize::from(power.starts_with(['+', '-']));
            let from = end + 1 + sign;
            if digits(from, false) > from {
                end = digits(from, false);
            }
        }
        match end == whole {
            true => (Word::Int(rest[..end].parse().map_err(beyond)?), end),
            // Digits, a point and a power are always a double.
            false => (Word::Double(rest[..end].parse().unwrap_or(f64::NAN)), end),
        }
    };
    let after = rest[end..].chars().next();
    if after.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
        let what = "a number ends in letters";
        let hint = "write 12, 1.5 or 0x1f; unsigned integers are not supported";
        return Err(Refused::at(text, at, what, hint));
    }
    Ok((word, end))
}

/// A text in quotes that starts at a byte, and its length with quotes.
fn quoted(text: &str, at: usize) -> Result<(Word, usize), Refused> {
    let rest = &text[at..];
    let mut out = String::new();
    let mut chars = rest.char_indices();
    let quote = chars.next().map(|(_, quote)| quote);
    if rest.starts_with("\"\"\"") || rest.starts_with("'''") {
        let what = "texts in three quotes are not supported";
        return Err(Refused::at(text, at, what, "write one quote at each end"));
    }
    while let Some((offset, c)) = chars.next() {
        match c {
            _ if Some(c) == quote => return Ok((Word::Text(out), offset + 1)),
            '\n' | '\r' => break,
            '\\' => out.push(match chars.next() {
                Some((_, same @ ('\\' | '"' | '\''))) => same,
                Some((_, 'n')) => '\n',
                Some((_, 't')) => '\t',
                _ => {
                    let hint = "known are \\\\, \\\", \\', \\n and \\t";
                    return Err(Refused::at(text, at + offset, "is not an escape", hint));
                }
            }),
            c => out.push(c),
        }
    }
    Err(Refused::at(
        text,
        at,
        "a text has no end",
        "close its quotes",
    ))
}
