//! What stands between a compiler and a policy: bindings for a language, and a core module wrapped
//! as a component.
//!
//! - `guest-tool wrap CORE.wasm OUT.wasm [--wit DIR WORLD] [--preview1 ADAPTER.wat]`: makes a
//!   component of a core module that carries its world in a custom section (Rust, C), or of any
//!   module with `--wit`; `--preview1` is what answers imports of `wasi_snapshot_preview1`.
//! - `guest-tool bindings c|go DIR WORLD OUT-FOLDER`: generated sources.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use wit_bindgen_core::{Files, WorldGenerator};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldId};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["wrap", core, out, ref options @ ..] => wrap(core.as_ref(), out.as_ref(), options),
        ["bindings", language, wit, world, out] => {
            bindings(language, wit.as_ref(), world, out.as_ref())
        }
        _ => bail!(
            "usage: wrap CORE OUT [--wit DIR WORLD] [--preview1 ADAPTER], or bindings c|go DIR WORLD OUT"
        ),
    }
}

fn wrap(core: &Path, out: &Path, mut options: &[&str]) -> Result<()> {
    let mut module =
        std::fs::read(core).with_context(|| format!("cannot read {}", core.display()))?;
    let mut adapter = None;
    loop {
        options = match options {
            ["--wit", wit, world, rest @ ..] => {
                let (resolve, world) = world_of(wit.as_ref(), world)?;
                embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
                rest
            }
            ["--preview1", file, rest @ ..] => {
                adapter = Some(wat::parse_file(file)?);
                rest
            }
            [] => break,
            [unknown, ..] => bail!("unknown option {unknown}"),
        };
    }
    let mut encoder = ComponentEncoder::default();
    encoder.validate(true).module(&module)?;
    if let Some(adapter) = adapter {
        encoder.adapter("wasi_snapshot_preview1", &adapter)?;
    }
    let component = encoder
        .encode()
        .with_context(|| format!("cannot make a component of {}", core.display()))?;
    write(out, &component)
}

fn bindings(language: &str, wit: &Path, world: &str, out: &Path) -> Result<()> {
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

/// Writes beside and renames, so that nobody ever reads half a file.
fn write(path: &Path, content: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut part = PathBuf::from(path);
    part.set_extension(format!("part-{}", std::process::id()));
    std::fs::write(&part, content)?;
    std::fs::rename(&part, path).with_context(|| format!("cannot write {}", path.display()))
}
