//! Finds the objects of a JSON text without parsing them: byte ranges, one per object, in one pass.
//!
//! Nothing is allocated per object and nothing recurses, so size and depth of a text do not matter.
//! The reader of an object decides whether it is well formed: a broken object with balanced
//! brackets affects only itself.

use std::ops::Range;

/// What [`skip_value`] met instead of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken {
    /// The byte where it went wrong.
    pub at: usize,
    /// The text ends there.
    pub at_end: bool,
}

/// The first byte from `at` that is not white space.
pub fn skip_space(text: &[u8], mut at: usize) -> usize {
    while text
        .get(at)
        .is_some_and(|b| matches!(b, b' ' | b'\n' | b'\r' | b'\t'))
    {
        at += 1;
    }
    at
}

/// The end of the string whose opening quote is at `at`.
pub fn skip_string(text: &[u8], at: usize) -> Result<usize, Broken> {
    let mut from = at + 1;
    while let Some(found) = text
        .get(from..)
        .and_then(|rest| memchr::memchr2(b'"', b'\\', rest))
    {
        if text[from + found] == b'"' {
            return Ok(from + found + 1);
        }
        from += found + 2;
    }
    Err(Broken {
        at: text.len(),
        at_end: true,
    })
}

/// The end of the value that starts at `at`: brackets are counted, not matched.
pub fn skip_value(text: &[u8], at: usize) -> Result<usize, Broken> {
    match text.get(at) {
        None => Err(Broken { at, at_end: true }),
        Some(b'"') => skip_string(text, at),
        Some(b'{' | b'[') => skip_brackets(text, at),
        Some(b) if b.is_ascii_alphanumeric() || *b == b'-' => {
            let rest = &text[at..];
            Ok(at
                + rest
                    .iter()
                    .position(|b| !(b.is_ascii_alphanumeric() || b"+-.".contains(b)))
                    .unwrap_or(rest.len()))
        }
        Some(_) => Err(Broken { at, at_end: false }),
    }
}

fn skip_brackets(text: &[u8], mut at: usize) -> Result<usize, Broken> {
    let mut depth = 0usize;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                at = skip_string(text, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Ok(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
    Err(Broken {
        at: text.len(),
        at_end: true,
    })
}

/// Calls `each` with the start of every entry of the list or object at `at` (for objects: key and
/// start of the value) until it says `None`; it answers with the entry's end. Returns the end of
/// the whole, if it was reached.
pub fn walk<'a>(
    text: &'a [u8],
    at: usize,
    mut each: impl FnMut(&'a [u8], usize) -> Option<Result<usize, Broken>>,
) -> Result<Option<usize>, Broken> {
    let broken = |at: usize| Broken {
        at,
        at_end: at >= text.len(),
    };
    let (object, close) = match text.get(at) {
        Some(b'{') => (true, b'}'),
        Some(b'[') => (false, b']'),
        _ => return Err(broken(at)),
    };
    let mut at = skip_space(text, at + 1);
    if text.get(at) == Some(&close) {
        return Ok(Some(at + 1));
    }
    loop {
        let mut key: &[u8] = b"";
        if object {
            if text.get(at) != Some(&b'"') {
                return Err(broken(at));
            }
            let end = skip_string(text, at)?;
            key = &text[at + 1..end - 1];
            at = skip_space(text, end);
            if text.get(at) != Some(&b':') {
                return Err(broken(at));
            }
            at = skip_space(text, at + 1);
        }
        at = match each(key, at) {
            None => return Ok(None),
            Some(end) => skip_space(text, end?),
        };
        match text.get(at) {
            Some(b',') => at = skip_space(text, at + 1),
            Some(b) if *b == close => return Ok(Some(at + 1)),
            _ => return Err(broken(at)),
        }
    }
}

/// The value under a key of the object at `at`.
pub fn member(text: &[u8], at: usize, wanted: &str) -> Option<Range<usize>> {
    let [found] = members(text, at, [wanted]);
    found
}

/// The values under some keys of the object at `at`, in one pass that ends with the last of them.
pub(crate) fn members<const N: usize>(
    text: &[u8],
    at: usize,
    wanted: [&str; N],
) -> [Option<Range<usize>>; N] {
    let mut found = [const { None }; N];
    let mut left = N;
    let _ = walk(text, at, |key, start| {
        let end = skip_value(text, start);
        let place = wanted.iter().position(|wanted| key == wanted.as_bytes());
        // Of a key that is there twice the first counts.
        if let Some(place) = place.filter(|&place| found[place].is_none()) {
            found[place] = Some(start..end.ok()?);
            left -= 1;
            if left == 0 {
                return None;
            }
        }
        Some(end)
    });
    found
}

/// The value of a string field of the object at `at`, if it is a plain string.
pub(crate) fn string_member<'a>(text: &'a [u8], at: usize, name: &str) -> Option<&'a str> {
    plain_string(text, member(text, at, name)?)
}

/// A value, if it is a string in which nothing is escaped, and not an empty one.
pub(crate) fn plain_string(text: &[u8], value: Range<usize>) -> Option<&str> {
    let inner = text[value].strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    std::str::from_utf8(inner)
        .ok()
        .filter(|text| !text.is_empty())
}

/// Whether a text is JSON rather than YAML, which may start with a brace too.
pub(crate) fn looks_like_json(text: &[u8]) -> bool {
    let inside = |text: &[u8]| text.get(skip_space(text, 1)).copied();
    match text.first() {
        Some(b'{') => matches!(inside(text), Some(b'"' | b'}') | None),
        Some(b'[') => matches!(inside(text), Some(b'{' | b'[' | b']' | b'"') | None),
        _ => false,
    }
}

/// Where the deepest part of a path such as `spec.containers[0].image` or `metadata.labels[a.b/c]`
/// is found that is there at all.
pub fn locate(text: &[u8], path: &str) -> usize {
    let mut at = skip_space(text, 0);
    let mut rest = path;
    while !rest.is_empty() {
        let (segment, indexed);
        if let Some(inner) = rest.strip_prefix('[') {
            let Some(end) = inner.find(']') else { break };
            (segment, rest, indexed) = (&inner[..end], &inner[end + 1..], true);
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            (segment, rest, indexed) = (&rest[..end], &rest[end..], false);
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let next = match segment.parse::<usize>() {
            Ok(index) if indexed && text.get(at) == Some(&b'[') => element(text, at, index),
            _ => member(text, at, segment).map(|range| range.start),
        };
        match next {
            Some(next) => at = next,
            None => break,
        }
    }
    at
}

fn element(text: &[u8], at: usize, index: usize) -> Option<usize> {
    let (mut seen, mut found) = (0, None);
    let _ = walk(text, at, |_, start| {
        if seen == index {
            found = Some(start);
            return None;
        }
        seen += 1;
        Some(skip_value(text, start))
    });
    found
}

/// How many lines end before `at`.
pub fn lines_before(text: &[u8], at: usize) -> u32 {
    memchr::memchr_iter(b'\n', &text[..at.min(text.len())])
        .count()
        .min(u32::MAX as usize) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_by_path() {
        let text = br#"{"a": {"b": [1, {"c": "x"}], "d.e/f": {}}, "z": "q\"}"}"#;
        let at = |path: &str| {
            String::from_utf8_lossy(&text[locate(text, path)..])
                .chars()
                .take(5)
                .collect::<String>()
        };
        assert_eq!(at("a.b[1].c"), "\"x\"}]");
        assert_eq!(at("a.b[0]"), "1, {\"");
        assert_eq!(at("a[d.e/f]"), "{}}, ");
        assert_eq!(at("z"), "\"q\\\"}");
        assert_eq!(
            at("a.nothing.here"),
            "{\"b\":",
            "the parent, where the field is missing"
        );
        assert_eq!(at(""), "{\"a\":");
    }

    #[test]
    fn values_end_where_their_brackets_close() {
        for (text, end) in [
            (r#"{"a":"}"} x"#, Ok(9)),
            ("[1,[2]],3", Ok(7)),
            ("-1.5e3,", Ok(6)),
            ("null]", Ok(4)),
            (r#""\\" "#, Ok(4)),
            (
                r#"{"a":1"#,
                Err(Broken {
                    at: 6,
                    at_end: true,
                }),
            ),
            (
                r#""a\"#,
                Err(Broken {
                    at: 3,
                    at_end: true,
                }),
            ),
            (
                ",",
                Err(Broken {
                    at: 0,
                    at_end: false,
                }),
            ),
            (
                "",
                Err(Broken {
                    at: 0,
                    at_end: true,
                }),
            ),
        ] {
            assert_eq!(skip_value(text.as_bytes(), 0), end, "{text}");
        }
    }
}
