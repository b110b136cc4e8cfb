//! Builds guests: first-party plugins, and the example policies in other languages.
//!
//! Everything is written to `target/guests` (under `CARGO_TARGET_DIR` if that is set): components
//! by name, and the target folders of the two guest workspaces below them, so that no lock and no
//! feature is shared with the host.

mod examples;
pub mod shipped;
#[path = "../../policy-tool/src/tools.rs"]
mod tools;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};

use anyhow::{Context, Result};

use tools::run;

pub use examples::{Built, EXAMPLES, Example, build_examples};

/// The first-party plugins: folders of plugins/, names of components.
pub const PLUGINS: [&str; 13] = [
    "bootstrap-standard",
    "bootstrap-template",
    "business-hours",
    "carbon",
    "cautious",
    "cel",
    "commitments",
    "gpu-fragmentation",
    "pdb-aware",
    "price",
    "spot-placement",
    "spot-risk",
    "zone-balance",
];

/// Only one build at a time in a process; cargo's own locks do the same between processes.
static BUILDING: Mutex<()> = Mutex::new(());

/// Builds all first-party plugins; paths of their components in the order of [`PLUGINS`].
pub fn build_plugins() -> Result<Vec<PathBuf>> {
    build_named(&PLUGINS)
}

/// Builds some of [`PLUGINS`]; paths of their components in this order.
pub fn build_named(names: &[&str]) -> Result<Vec<PathBuf>> {
    let _one_at_a_time = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    build_crates(&root().join("plugins"), "plugins", &packages(names))?;
    let tool = guest_tool()?;
    let wrap = |name: &&str| {
        let core = module("plugins", &format!("longshore_{}", name.replace('-', "_")));
        let out = folder().join(format!("{name}.wasm"));
        tool.wrap_plugin(name, &core, &out)?;
        Ok(out)
    };
    names.iter().map(wrap).collect()
}

/// What cargo is asked for to build some of [`PLUGINS`].
pub fn packages(names: &[&str]) -> Vec<String> {
    let package = |name: &&str| ["--package".to_owned(), format!("longshore-{name}")];
    names.iter().flat_map(package).collect()
}

/// The component of a first-party plugin. All are built once for each process.
///
/// # Panics
/// They cannot be built, or none is called so. For tests.
pub fn plugin(name: &str) -> PathBuf {
    static BUILT: LazyLock<Vec<PathBuf>> =
        LazyLock::new(|| build_plugins().unwrap_or_else(|error| panic!("{error:#}")));
    let file = format!("{name}.wasm");
    let found = BUILT.iter().find(|path| path.ends_with(&file));
    found
        .unwrap_or_else(|| panic!("there is no plugin {name}"))
        .clone()
}

/// Builds the scorer that misbehaves on demand, for tests of the host.
pub fn build_hostile() -> Result<PathBuf> {
    build_for_tests("hostile")
}

/// Builds the hostile guest as a consolidation policy.
pub fn build_hostile_judge() -> Result<PathBuf> {
    build_for_tests("hostile-judge")
}

fn build_for_tests(name: &str) -> Result<PathBuf> {
    let _one_at_a_time = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    build_crates(&root().join("host/policy/tests").join(name), name, &[])?;
    let out = folder().join(name).with_extension("wasm");
    let core = module(name, &name.replace('-', "_"));
    guest_tool()?.wrap(&core, &out, &[])?;
    Ok(out)
}

/// Builds the bootstrap policy that misbehaves on demand, for tests.
pub fn build_hostile_bootstrap() -> Result<PathBuf> {
    let _one_at_a_time = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder_of = root().join("host/policy/tests/hostile-bootstrap");
    build_crates(&folder_of, "hostile-bootstrap", &[])?;
    let out = folder().join("hostile-bootstrap.wasm");
    let core = module("hostile-bootstrap", "hostile_bootstrap");
    guest_tool()?.wrap(&core, &out, &[])?;
    Ok(out)
}

/// Where components are.
pub fn folder() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    // Relative to where cargo was called, which for tests is not where they run.
    if target.is_absolute() {
        target.join("guests")
    } else {
        root().join(target).join("guests")
    }
}

/// The repository: two folders above the package that cargo runs, `host/PACKAGE`. The folder that
/// this was compiled in can be another clone, for clones share what cargo has built.
pub fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.ancestors().nth(2).unwrap_or(&package).to_owned()
}

/// What guests written in Rust are compiled for.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// Installs the standard library of [`TARGET`] where it is not there: rustup does that itself by
/// `rust-toolchain.toml`, but neither for a toolchain that was installed without it nor where
/// `RUSTUP_AUTO_INSTALL=0`.
pub fn install_target() -> Result<()> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc
        .args(["--print", "target-libdir", "--target", TARGET])
        .current_dir(root());
    let found = rustc.output().context("cannot run rustc")?;
    if found.status.success() && Path::new(String::from_utf8_lossy(&found.stdout).trim()).is_dir() {
        return Ok(());
    }
    run(Command::new("rustup")
        .args(["target", "add", TARGET])
        .current_dir(root()))
    .with_context(|| format!("guests need Rust's target {TARGET}, and rustup does not install it"))
}

/// Compiles a workspace of guests written in Rust, or some of its packages; `name` is its target
/// folder.
pub(crate) fn build_crates(workspace: &Path, name: &str, packages: &[String]) -> Result<()> {
    install_target()?;
    let manifest = workspace.join("Cargo.toml");
    run(cargo("build", &manifest, name)
        .args(["--release", "--target", TARGET])
        .args(packages))
}

/// The core module of a crate that [`build_crates`] compiled.
pub(crate) fn module(name: &str, crate_name: &str) -> PathBuf {
    folder()
        .join(name)
        .join(TARGET)
        .join("release")
        .join(crate_name)
        .with_extension("wasm")
}

/// The tool that wraps modules and generates bindings, built.
pub(crate) fn guest_tool() -> Result<GuestTool> {
    run(&mut cargo(
        "build",
        &root().join("host/policy-tool/Cargo.toml"),
        "tool",
    ))?;
    Ok(GuestTool {
        program: folder().join("tool/debug/longshore-policy"),
    })
}

/// The program `longshore-policy`, built.
pub fn policy_tool() -> Result<PathBuf> {
    let _one_at_a_time = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(guest_tool()?.program)
}

/// See host/policy-tool.
pub(crate) struct GuestTool {
    program: PathBuf,
}

impl GuestTool {
    /// Makes a component of a core module.
    pub fn wrap(&self, core: &Path, out: &Path, options: &[&OsStr]) -> Result<()> {
        run(Command::new(&self.program)
            .arg("wrap")
            .args([core, out])
            .args(options))
    }

    /// Makes the component of a first-party plugin, with the recorded cases of its folder inside.
    pub fn wrap_plugin(&self, name: &str, core: &Path, out: &Path) -> Result<()> {
        let cases = root().join("plugins").join(name);
        self.wrap(core, out, &["--cases".as_ref(), cases.as_ref()])
    }

    /// Generates bindings for world `scorer-policy`.
    pub fn bindings(&self, language: &str, out: &Path) -> Result<()> {
        run(Command::new(&self.program)
            .args(["bindings", language])
            .arg(wit())
            .arg(WORLD)
            .arg(out))
    }
}

/// The contract.
pub(crate) fn wit() -> PathBuf {
    root().join("wit/policy@0.1.0")
}

/// The world that examples implement.
pub(crate) const WORLD: &str = "scorer-policy";

/// Cargo on a workspace that is not ours, in a target folder of its own. Flags meant for the host
/// are not passed on.
fn cargo(command: &str, manifest: &Path, target: &str) -> Command {
    let mut cargo = unlocked(command, manifest, target);
    cargo.arg("--locked");
    cargo
}

/// As [`cargo`], where the lock file may lose packages that nothing needs.
fn unlocked(command: &str, manifest: &Path, target: &str) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args([command, "--quiet", "--manifest-path"])
        .arg(manifest);
    cargo.arg("--target-dir").arg(folder().join(target));
    for inherited in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_BUILD_TARGET",
        "RUSTC_WRAPPER",
    ] {
        cargo.env_remove(inherited);
    }
    cargo
}
