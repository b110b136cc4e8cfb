//! Tools of languages: found, or named with the command that installs them. `cargo xtask` has this
//! file, too (`xtask/src/guests.rs`).

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// How to get a C compiler for policies.
pub const NO_C_COMPILER: &str = "no C compiler for wasm32-wasi; install one: apt-get install \
    clang-19 lld-19 libclang-rt-19-dev-wasm32 wasi-libc, or pip install ziglang, or wasi-sdk with \
    WASI_SDK_PATH";

/// Runs a command; its output is in the error if it fails.
pub fn run(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {:?}", command.get_program()))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        bail!("{command:?} failed:\n{}", String::from_utf8_lossy(&said));
    }
    Ok(())
}

/// Whether a program is there and answers.
pub fn works(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .output()
        .is_ok_and(|output| output.status.success())
}

/// clang with a libc for WASI (nothing of WASI stays in a policy that does no I/O), or Zig, which
/// brings its own.
pub fn c_compiler() -> Result<Command> {
    let sdk = std::env::var_os("WASI_SDK_PATH").map(|sdk| Path::new(&sdk).join("bin/clang"));
    let names = [
        "clang-19", "clang-20", "clang-21", "clang-22", "clang-18", "clang",
    ];
    let clangs = sdk.into_iter().chain(names.map(Into::into));
    let clang = clangs.into_iter().find(|clang| {
        let probe = Command::new(clang)
            .args(["--target=wasm32-wasi", "-print-file-name=libc.a"])
            .output();
        // The bare name comes back if there is no such file.
        probe.is_ok_and(|found| {
            Path::new(String::from_utf8_lossy(&found.stdout).trim()).is_absolute()
        })
    });
    if let Some(clang) = clang {
        let mut command = Command::new(clang);
        command.arg("--target=wasm32-wasi");
        return Ok(command);
    }
    if works("python3", &["-m", "ziglang", "version"]) {
        let mut command = Command::new("python3");
        command.args(["-m", "ziglang", "cc", "-target", "wasm32-wasi"]);
        return Ok(command);
    }
    bail!(NO_C_COMPILER)
}
