//! Golden vectors as a component carries them: cases in a custom section of its own.
//!
//! The section has for each case its name and its text, both with their length in front as four bytes,
//! little end first. `wasm-tools strip` removes it. What a case means is not known here.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The custom section.
pub const SECTION: &str = "longshore:policy/golden@0";
/// Most cases, and bytes of them all.
const MAX_CASES: usize = 64;
const MAX_BYTES: usize = 1 << 20;

/// The section of a component cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable(&'static str);

impl std::fmt::Display for Unreadable {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(self.0)
    }
}

impl std::error::Error for Unreadable {}

/// Cases of a policy's folder that were recorded, by file name: those in `cases/*.toml` that say what is
/// expected.
///
/// # Errors
/// The path that cannot be read, and why.
pub fn recorded(folder: &Path) -> Result<Vec<(String, String)>, (PathBuf, io::Error)> {
    let cases = folder.join("cases");
    if !cases.is_dir() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(&cases).map_err(|error| (cases.clone(), error))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|of| of == "toml"))
        .collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).map_err(|error| (file.clone(), error))?;
        let says = |line: &str| line.starts_with("expected") || line.starts_with("error");
        if text.lines().any(says) {
            all.push((name, text));
        }
    }
    Ok(all)
}

/// Names and texts of the cases in a component; nothing without the section.
///
/// # Errors
/// There are two sections, too many cases, or bytes that are no cases.
pub fn cases(component: &[u8]) -> Result<Option<Vec<(String, String)>>, Unreadable> {
    let bad = Unreadable;
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

/// A component with these cases in place of its own; nothing for bytes that are no component.
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
    whole: Range<usize>,
    /// What it holds; of a custom section without its name.
    content: Range<usize>,
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
