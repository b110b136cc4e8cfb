//! The order of keys in a map.

use std::cmp::Ordering;

use serde_json::Value;

/// Sorts by key. The order has circles (`a2`, `a10`, `a1b`), with which the sort of the standard
/// library may panic; this one merges halves.
pub(super) fn in_order<'a>(mut all: Vec<(&'a String, &'a Value)>) -> Vec<(&'a String, &'a Value)> {
    if all.len() < 2 {
        return all;
    }
    let mut second = in_order(all.split_off(all.len() / 2))
        .into_iter()
        .peekable();
    let mut first = in_order(all).into_iter().peekable();
    let mut out = Vec::new();
    while let (Some(a), Some(b)) = (first.peek(), second.peek()) {
        let next = match natural(b.0, a.0) {
            Ordering::Less => second.next(),
            _ => first.next(),
        };
        out.extend(next);
    }
    out.extend(first.chain(second));
    out
}

/// The order of keys in Go's library: other characters before letters, and numbers by their value.
fn natural(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = (0..a.len().min(b.len())).find(|at| a[*at] != b[*at]) else {
        return a.len().cmp(&b.len());
    };
    match (a[at].is_alphabetic(), b[at].is_alphabetic()) {
        (true, true) => return a[at].cmp(&b[at]),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A zero counts only if it stands inside a number.
    let inside = (a[at] == '0' || b[at] == '0')
        && a[..at]
            .iter()
            .rev()
            .take_while(|c| c.is_ascii_digit())
            .any(|c| *c != '0');
    let number = |text: &[char]| {
        let digits = text.iter().take_while(|c| c.is_ascii_digit());
        digits.fold((u64::from(inside), 0), |(number, length), c| {
            let digit = u64::from(*c) - u64::from('0');
            (number.wrapping_mul(10).wrapping_add(digit), length + 1)
        })
    };
    let (first, second) = (number(&a[at..]), number(&b[at..]));
    first.cmp(&second).then(a[at].cmp(&b[at]))
}
