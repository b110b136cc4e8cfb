//! Commands of the pages.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

pub const HELM: &str = include_str!("../../../docs/helm.md");
pub const MIGRATE: &str = include_str!("../../../docs/migrate.md");

/// Blocks of shell below a heading, up to the next heading of any level.
pub fn blocks(page: &str, heading: &str) -> Result<Vec<String>> {
    let mut lines = page.lines().skip_while(|line| *line != heading);
    lines
        .next()
        .with_context(|| format!("no heading {heading:?}"))?;
    let mut all = Vec::new();
    let mut open: Option<String> = None;
    for line in lines {
        let bare = line.trim_start();
        match &mut open {
            None if bare.starts_with('#') => break,
            None if bare == "```sh" => open = Some(String::new()),
            None => {}
            Some(_) if bare == "```" => all.extend(open.take()),
            Some(block) => {
                block.push_str(bare);
                block.push('\n');
            }
        }
    }
    ensure!(!all.is_empty(), "no commands below {heading:?}");
    Ok(all)
}

/// Manifests but for definitions.
pub fn without_definitions(manifests: &str) -> Result<String> {
    let mut all: Vec<Value> = serde_saphyr::from_multiple(manifests)?;
    all.retain(|object| object.is_object() && object["kind"] != "CustomResourceDefinition");
    let texts = all.iter().map(Value::to_string);
    Ok(texts.collect::<Vec<_>>().join("\n---\n"))
}
