//! From a core module to a component, and bindings for languages that are compiled.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use wit_bindgen_core::{Files, WorldGenerator};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldId};

use crate::files::write;

/// Answers of WASI preview 1, for the runtime of Go.
const PREVIEW1: &str = include_str!("preview1.wat");

/// Makes a component of a core module. `wit`: the folder and world, for a module that does not carry
/// them in a custom section.
pub fn wrap(mut module: Vec<u8>, wit: Option<(&Path, &str)>, preview1: bool) -> Result<Vec<u8>> {
    if let Some((folder, world)) = wit {
        let (resolve, world) = world_of(folder, world)?;
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    }
    let mut encoder = ComponentEncoder::default();
    encoder.validate(true).module(&module)?;
    if preview1 {
        encoder.adapter("wasi_snapshot_preview1", &wat::parse_str(PREVIEW1)?)?;
    }
    encoder.encode()
}

/// Puts the recorded cases of a policy's folder into its component; how many there are.
pub fn put_cases(component: &mut Vec<u8>, folder: &Path) -> Result<usize> {
    let cases = longshore_golden::recorded(folder)
        .map_err(|(path, error)| anyhow!("cannot read {}: {error}", path.display()))?;
    *component = longshore_golden::with_cases(component, &cases)
        .context("the encoder wrote sections that do not end with the file")?;
    Ok(cases.len())
}

/// Generates bindings for a world into a folder.
pub fn bindings(language: &str, wit: &Path, world: &str, out: &Path) -> Result<()> {
    let (mut resolve, world) = world_of(wit, world)?;
    let mut generator: Box<dyn WorldGenerator> = match language {
        "c" => wit_bindgen_c::Opts::default().build(),
        "go" => wit_bindgen_go::Opts::default().build(),
        other => bail!("no bindings for {other}; there are c and go"),
    };
    let mut files = Files::default();
    generator.generate(&mut resolve, world, &mut files)?;
    for (name, content) in files.iter() {
        let name: &str = name;
        write(&out.join(name), content)?;
    }
    Ok(())
}

fn world_of(wit: &Path, world: &str) -> Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit)?;
    let world = resolve.select_world(&[package], Some(world))?;
    Ok((resolve, world))
}
