//! From a core module to a component, and bindings for languages that are compiled.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use wit_bindgen_core::{Files, WorldGenerator};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldId};

use crate::files::write;
use crate::refusal;

/// Answers of WASI preview 1, for the runtime of Go.
const PREVIEW1: &str = include_str!("preview1.wat");

/// Makes a component of a core module. `wit`: the folder and world, for a module that does not carry
/// them in a custom section.
pub fn wrap(mut module: Vec<u8>, wit: Option<(&Path, &str)>, preview1: bool) -> Result<Vec<u8>> {
    refusal::check_form(&module)?;
    if let Some((folder, world)) = wit {
        let (resolve, world) = world_of(folder, world)?;
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    } else if !refusal::carries_world(&module) {
        bail!(
            "it does not say for which world it is made; name the contract's WIT and the world: --wit \
             wit/policy@0.1.0 scorer-policy"
        );
    }
    let preview1 = preview1.then(|| wat::parse_str(PREVIEW1)).transpose()?;
    encode(&module, preview1.as_deref()).map_err(|error| {
        let reasons = refusal::reasons(&module, wit.map(|(_, world)| world), preview1.as_deref());
        reasons.map_or(error, |reasons| anyhow!(reasons))
    })
}

fn encode(module: &[u8], preview1: Option<&[u8]>) -> Result<Vec<u8>> {
    let mut encoder = ComponentEncoder::default();
    encoder.validate(true).module(module)?;
    if let Some(adapter) = preview1 {
        encoder.adapter("wasi_snapshot_preview1", adapter)?;
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

/// A world of a folder of WIT.
///
/// # Errors
/// There is no such folder or world, with those that there are.
pub fn world_of(wit: &Path, world: &str) -> Result<(Resolve, WorldId)> {
    let place = wit.display();
    if !wit.is_dir() {
        bail!("{place} is no folder; the contract's WIT is wanted, as wit/policy@0.1.0");
    }
    if !has_wit(wit) {
        let folders = std::fs::read_dir(wit)?.filter_map(|entry| Some(entry.ok()?.path()));
        let mut packages: Vec<_> = folders.filter(|path| has_wit(path)).collect();
        packages.sort();
        let packages: Vec<String> = packages
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        match packages.is_empty() {
            true => bail!("{place} has no WIT; the contract's is wanted, as wit/policy@0.1.0"),
            false => bail!(
                "{place} is no package of WIT; name a folder in it: {}",
                packages.join(", ")
            ),
        }
    }
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit)?;
    let worlds = &resolve.packages[package].worlds;
    let Some(&id) = worlds.get(world) else {
        let names: Vec<&str> = worlds.keys().map(String::as_str).collect();
        bail!("{place} has no world {world}; it has {}", names.join(", "));
    };
    Ok((resolve, id))
}

/// Whether a folder has files of WIT.
fn has_wit(folder: &Path) -> bool {
    let mut entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| entry.path().extension().is_some_and(|of| of == "wit"))
}
