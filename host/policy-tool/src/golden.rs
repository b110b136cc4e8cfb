//! Recorded cases inside a component, as the last section of the file.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The custom section that the host reads.
const SECTION: &str = "longshore:policy/golden@0";

/// Cases of a policy's folder that were recorded, by file name.
pub fn recorded(folder: &Path) -> Result<Vec<(String, String)>> {
    let cases = folder.join("cases");
    if !cases.is_dir() {
        return Ok(Vec::new());
    }
    let failed = || format!("cannot read {}", cases.display());
    let mut files: Vec<PathBuf> = std::fs::read_dir(&cases)
        .with_context(failed)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|of| of == "toml"))
        .collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let name = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let says = |line: &str| line.starts_with("expected") || line.starts_with("error");
        if text.lines().any(says) {
            all.push((name, text));
        }
    }
    Ok(all)
}

/// Appends the cases to a component that has none yet: for each its name and its text, both with
/// their length in front as four bytes, little end first.
pub fn append(component: &mut Vec<u8>, cases: &[(String, String)]) {
    if cases.is_empty() {
        return;
    }
    let mut body = leb128(SECTION.len());
    body.extend(SECTION.as_bytes());
    for text in cases.iter().flat_map(|(name, text)| [name, text]) {
        body.extend((text.len() as u32).to_le_bytes());
        body.extend(text.as_bytes());
    }
    component.push(0);
    component.extend(leb128(body.len()));
    component.extend(body);
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
