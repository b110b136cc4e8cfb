//! Golden vectors: cases that a component carries in a custom section, and answers before it is used.
//!
//! The section is the component's own, as `longshore-policy build` and `policy test --record` write it:
//! for each case its name and its text, both with their length in front as four bytes, little end
//! first. `wasm-tools strip` removes it.

use std::time::Instant;

use crate::call::answer::CallError;
use crate::cases::{Case, CaseError};
use crate::guest_text::{cut, printable};
use crate::loaded::LoadedPolicy;
use crate::version::ROUND_TIME;

/// The custom section.
pub const SECTION: &str = "longshore:policy/golden@0";
/// Most cases, bytes of them all, and offerings of one.
const MAX_CASES: usize = 64;
const MAX_BYTES: usize = 1 << 20;
const MAX_ROWS: usize = 2000;
/// Longest of what is wrong with one, in characters.
const MAX_PROBLEM: usize = 1000;

/// What became of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Golden {
    /// The component has none.
    Missing,
    /// It has none that can be asked: only scorers have.
    NotAsked,
    /// It answers so many as they say.
    Met(usize),
}

/// A component does not answer as it says of itself.
#[derive(Debug, thiserror::Error)]
pub enum GoldenError {
    /// The section cannot be read.
    #[error("its golden vectors cannot be read: {0}")]
    Section(String),
    /// One is not met.
    #[error("golden vector `{name}` is not met: {problem}")]
    Unmet {
        /// The case.
        name: String,
        /// What differs.
        problem: String,
        /// It was for want of time.
        may_go_by: bool,
    },
}

/// Names and texts of the cases in a component; nothing without the section.
pub fn cases(component: &[u8]) -> Result<Option<Vec<(String, String)>>, GoldenError> {
    let bad = |why: &str| GoldenError::Section(why.to_owned());
    let sections = sections(component).ok_or_else(|| bad("sections do not end with the file"))?;
    let mut found = sections.iter().filter(|of| of.is_golden);
    let Some(section) = found.next() else {
        return Ok(None);
    };
    if found.next().is_some() {
        return Err(bad("there are two sections"));
    }
    let mut rest = &component[section.content.clone()];
    if rest.len() > MAX_BYTES {
        return Err(bad("they have more than 1 MiB"));
    }
    let mut texts = Vec::new();
    while !rest.is_empty() {
        let (text, after) = text(rest).ok_or_else(|| bad("a text is cut short"))?;
        texts.push(text.to_owned());
        rest = after;
    }
    if texts.len() % 2 != 0 || texts.len() > 2 * MAX_CASES {
        return Err(bad("expected at most 64 cases, each a name and a text"));
    }
    let pairs = texts.chunks_exact(2);
    Ok(Some(
        pairs
            .map(|pair| (pair[0].clone(), pair[1].clone()))
            .collect(),
    ))
}

/// Asks a policy the cases of its component. `policy` was made of `component`.
pub fn check(policy: &LoadedPolicy, component: &[u8]) -> Result<Golden, GoldenError> {
    let Some(cases) = cases(component)? else {
        return Ok(Golden::Missing);
    };
    if !policy.is_scorer() {
        return Ok(Golden::NotAsked);
    }
    let begun = Instant::now();
    for (name, text) in &cases {
        let unmet = |problem: String, may_go_by| GoldenError::Unmet {
            name: cut(printable(name), 80),
            problem: cut(printable(&problem), MAX_PROBLEM),
            may_go_by,
        };
        let case = Case::read(text).map_err(|problem| unmet(problem, false))?;
        if case.offerings.len() > MAX_ROWS {
            return Err(unmet(
                format!("it has more than {MAX_ROWS} offerings"),
                false,
            ));
        }
        let answer = case.ask(policy);
        let for_want_of_time = matches!(&answer, Err(CaseError::Call(CallError::Time { .. })));
        case.meets(&answer)
            .map_err(|problem| unmet(problem, for_want_of_time))?;
        if begun.elapsed() > 2 * ROUND_TIME {
            return Err(unmet("they take more than 10 s".to_owned(), true));
        }
    }
    Ok(Golden::Met(cases.len()))
}

/// A component with these cases in place of its own.
pub fn with_cases(component: &[u8], cases: &[(String, String)]) -> Option<Vec<u8>> {
    let mut all = component.get(..HEADER)?.to_vec();
    let others = sections(component)?;
    for section in others.iter().filter(|of| !of.is_golden) {
        all.extend_from_slice(&component[section.whole.clone()]);
    }
    if cases.is_empty() {
        return Some(all);
    }
    let mut body = leb128(SECTION.len());
    body.extend_from_slice(SECTION.as_bytes());
    for text in cases.iter().flat_map(|(name, text)| [name, text]) {
        body.extend_from_slice(&(text.len() as u32).to_le_bytes());
        body.extend_from_slice(text.as_bytes());
    }
    all.push(0);
    all.extend_from_slice(&leb128(body.len()));
    all.extend_from_slice(&body);
    Some(all)
}

/// Magic number, version and layer.
const HEADER: usize = 8;

struct Section {
    /// With its number and length.
    whole: std::ops::Range<usize>,
    /// What it holds; of a custom section without its name.
    content: std::ops::Range<usize>,
    is_golden: bool,
}

/// The sections at the top of a file; nothing where they do not end with it.
fn sections(component: &[u8]) -> Option<Vec<Section>> {
    let mut all = Vec::new();
    let mut at = HEADER;
    while at < component.len() {
        let begin = at;
        let is_custom = component[at] == 0;
        let (len, body) = number(component, at + 1)?;
        let end = body
            .checked_add(len)
            .filter(|&end| end <= component.len())?;
        let (mut content, mut is_golden) = (body..end, false);
        if is_custom {
            let (len, name) = number(component, body)?;
            let begins = name.checked_add(len).filter(|&begins| begins <= end)?;
            is_golden = &component[name..begins] == SECTION.as_bytes();
            content = begins..end;
        }
        all.push(Section {
            whole: begin..end,
            content,
            is_golden,
        });
        at = end;
    }
    Some(all)
}

/// A number as WebAssembly has it, and where it ends.
fn number(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut value = 0_usize;
    for shift in (0..35).step_by(7) {
        let byte = *bytes.get(at)?;
        at += 1;
        value |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value, at));
        }
    }
    None
}

fn leb128(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

fn text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component() -> Vec<u8> {
        let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
        // A custom section `a` with one byte, and a section of another kind with two.
        bytes.extend_from_slice(&[0, 3, 1, b'a', 7]);
        bytes.extend_from_slice(&[3, 2, 1, 1]);
        bytes
    }

    fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect()
    }

    #[test]
    fn cases_are_written_read_and_replaced() {
        let bare = component();
        assert!(cases(&bare).unwrap().is_none());
        let long = "x".repeat(300);
        let (one, two) = (
            pairs(&[("spot", "price")]),
            pairs(&[("a", ""), ("b", &long)]),
        );
        let first = with_cases(&bare, &one).unwrap();
        assert_eq!(cases(&first).unwrap().unwrap(), one);
        let second = with_cases(&first, &two).unwrap();
        assert_eq!(cases(&second).unwrap().unwrap(), two);
        assert_eq!(with_cases(&second, &[]).unwrap(), bare);
    }

    #[test]
    fn a_section_that_is_cut_short_or_doubled_is_refused() {
        let whole = with_cases(&component(), &pairs(&[("spot", "price")])).unwrap();
        let cut_short = &whole[..whole.len() - 1];
        assert!(
            cases(cut_short)
                .unwrap_err()
                .to_string()
                .contains("do not end with the file")
        );
        let mut doubled = whole.clone();
        doubled.extend_from_slice(&whole[component().len()..]);
        assert!(
            cases(&doubled)
                .unwrap_err()
                .to_string()
                .contains("two sections")
        );
        let mut longer = whole.clone();
        let len = longer.len();
        // The length of the last text.
        longer[len - 9] = 200;
        assert!(
            cases(&longer)
                .unwrap_err()
                .to_string()
                .contains("cut short")
        );
    }
}
