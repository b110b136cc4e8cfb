//! Builds the program, so that neither the folder of the repository nor the user's home are in it.

use anyhow::{Context as _, Result};

use super::FEATURES;
use crate::commands::{cargo, run, without_variables};

/// Profile in the manifest of the workspace.
const PROFILE: &str = "image";
/// The one that packages are locked for.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The bytes of `longshore`.
pub fn program() -> Result<Vec<u8>> {
    anyhow::ensure!(
        cfg!(all(target_arch = "x86_64", target_os = "linux")),
        "images are made on Linux on x86_64 alone: deploy/image/debian.lock has no packages for \
         another machine"
    );
    let target = crate::commands::target();
    let mut build = cargo(&["rustc", "--locked", "--package", "longshore", "--bin"]);
    build.args(["longshore", "--profile", PROFILE, "--target", TARGET]);
    build.args(["--features", &FEATURES.join(",")]);
    // The names of functions would take 22 MB.
    build.args(["--", "-C", "strip=symbols"]);
    // What rustc and gcc write down of the places of sources.
    let places = [
        (longshore_xtask::guests::root(), "/build/longshore"),
        (home("CARGO_HOME", ".cargo")?, "/build/cargo"),
        (target.clone(), "/build/target"),
    ];
    let flags = |flag: &str, between: &str| {
        let flags: Vec<_> = places
            .iter()
            .map(|(place, shown)| format!("{flag}={}={shown}", place.display()))
            .collect();
        flags.join(between)
    };
    // What would make other code of the same commit.
    let begins = [
        "CARGO_PROFILE_",
        "CARGO_BUILD_",
        "CARGO_TARGET_X86_64_",
        "CFLAGS_",
        "TARGET_",
        "RUSTFLAGS",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
    ];
    without_variables(&mut build, &begins);
    build.env("CARGO_TARGET_DIR", &target);
    build.env(
        "CARGO_ENCODED_RUSTFLAGS",
        flags("--remap-path-prefix", "\u{1f}"),
    );
    build.env("CFLAGS", flags("-ffile-prefix-map", " "));
    run(build)?;
    let file = target.join(TARGET).join(PROFILE).join("longshore");
    std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))
}

/// A folder that a variable names, or one in the user's home.
fn home(variable: &str, folder: &str) -> Result<std::path::PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    set(variable)
        .map(Into::into)
        .or_else(|| Some(std::path::PathBuf::from(set("HOME")?).join(folder)))
        .with_context(|| format!("neither {variable} nor HOME is set"))
}
