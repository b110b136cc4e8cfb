//! The component that is in the `longshore` binary, made so that the same sources give the same bytes
//! wherever they are.
//!
//! Two things of a checkout get into what rustc writes: paths of sources, in panics, and the path of a
//! package that is outside of its workspace, in the hash that is in names of symbols and orders them. So
//! the sources are copied into one workspace that holds them all, and paths are mapped to names.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::{
    BUILDING, PoisonError, TARGET, folder, guest_tool, install_target, module, root, run, unlocked,
};

/// The committed component, below the repository.
pub const COMMITTED: &str = "host/live/shipped/cel.wasm";

/// The plugin that it is made of.
const PLUGIN: &str = "cel";
/// Folders with its sources, and files of the two workspaces.
const SOURCES: [&str; 5] = [
    "plugins/cel",
    "host/expression",
    "sdk/rust",
    "wit",
    "plugins/Cargo.lock",
];
/// Its folder below those of other guests.
const FOLDER: &str = "shipped";

/// Builds it: its bytes.
pub fn build_shipped() -> Result<Vec<u8>> {
    let _one_at_a_time = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let staged = folder().join("shipped-sources");
    if staged.exists() {
        std::fs::remove_dir_all(&staged)?;
    }
    for source in SOURCES {
        copy(&root().join(source), &staged.join(source))
            .with_context(|| format!("cannot copy {source}"))?;
    }
    std::fs::rename(staged.join("plugins/Cargo.lock"), staged.join("Cargo.lock"))?;
    std::fs::write(staged.join("Cargo.toml"), manifest()?)?;
    edit(&staged.join("sdk/rust/Cargo.toml"), |text| {
        text.replace("workspace = \"../../plugins\"\n", "")
    })?;
    // The lock file of plugins/ does not know of its tests.
    edit(&staged.join("host/expression/Cargo.toml"), |text| {
        let (text, _) = text.split_once("[dev-dependencies]").unwrap_or((text, ""));
        text.replace("[lints]\nworkspace = true\n", "")
    })?;

    install_target()?;
    // The lock file of plugins/ has packages of other plugins; versions stay as they are there.
    let mut build = unlocked("build", &staged.join("Cargo.toml"), FOLDER);
    build.args([
        "--release",
        "--target",
        TARGET,
        "--package",
        "longshore-cel",
    ]);
    run(build.env("CARGO_ENCODED_RUSTFLAGS", remapped(&staged)?))?;
    let core = module(FOLDER, "longshore_cel");
    let out = folder().join(FOLDER).join(PLUGIN).with_extension("wasm");
    guest_tool()?.wrap_plugin(PLUGIN, &core, &out)?;
    std::fs::read(&out).with_context(|| format!("cannot read {}", out.display()))
}

/// The workspace of the copies: profile and packages of plugins/, with what host/expression asks of its
/// own workspace.
fn manifest() -> Result<String> {
    let text = std::fs::read_to_string(root().join("plugins/Cargo.toml"))?;
    let (_, profile) = text
        .split_once("[profile.release]")
        .context("plugins/Cargo.toml has no [profile.release]")?;
    let host = std::fs::read_to_string(root().join("Cargo.toml"))?;
    let thiserror = host.lines().find(|line| line.starts_with("thiserror = "));
    let package = section(&text, "[workspace.package]")?;
    Ok(format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\"plugins/cel\", \"host/expression\", \"sdk/rust\"]\n\n\
         [workspace.package]{package}\n[workspace.dependencies]\nlongshore-sdk = {{ path = \"sdk/rust\" \
         }}\nserde = {{ version = \"1\", features = [\"derive\"] }}\n{}\n\n[profile.release]{profile}",
        thiserror.context("Cargo.toml has no thiserror")?
    ))
}

/// What follows a header up to the next one.
fn section<'a>(text: &'a str, header: &str) -> Result<&'a str> {
    let (_, rest) = text
        .split_once(header)
        .with_context(|| format!("plugins/Cargo.toml has no {header}"))?;
    Ok(rest.split_once("\n[").map_or(rest, |(section, _)| section))
}

/// Flags that give paths names which are the same on every machine.
fn remapped(staged: &Path) -> Result<String> {
    let home = std::env::var_os("CARGO_HOME").map_or_else(
        || {
            let home = std::env::var_os("HOME").context("neither CARGO_HOME nor HOME is set")?;
            Ok(Path::new(&home).join(".cargo"))
        },
        |home| anyhow::Ok(home.into()),
    )?;
    let map = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    // Parts of this variable end with this character.
    Ok([map(staged, "longshore"), map(&home, "cargo")].join("\u{1f}"))
}

fn edit(file: &Path, to: impl Fn(&str) -> String) -> Result<()> {
    let text = std::fs::read_to_string(file)?;
    std::fs::write(file, to(&text))?;
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.is_dir() {
        std::fs::create_dir_all(to)?;
        for entry in std::fs::read_dir(from)? {
            let name = entry?.file_name();
            if name != "target" {
                copy(&from.join(&name), &to.join(&name))?;
            }
        }
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::copy(from, to)?;
    Ok(())
}
