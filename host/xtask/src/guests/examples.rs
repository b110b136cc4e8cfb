//! The example policy (examples/policies) in several languages, each where its toolchain is found.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::PoisonError;

use anyhow::{Context, Result};

use super::{BUILDING, GuestTool, WORLD, build_crates, folder, guest_tool, module, root, run, wit};

/// What became of an example.
#[derive(Clone, Debug, PartialEq)]
pub enum Built {
    /// Its component.
    Component(PathBuf),
    /// Its toolchain is not there: what is missing, and how to get it.
    Skipped(String),
}

/// Builds the example policy in every language; an error only where a toolchain that is there fails.
pub fn build_examples() -> Result<Vec<(&'static str, Built)>> {
    let _one_at_a_time = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let tool = guest_tool()?;
    let languages: [(&str, Build); 4] = [("rust", rust), ("c", c), ("go", go), ("js", js)];
    let build = |(language, build): (&'static str, Build)| {
        let out = folder().join(format!("example-{language}.wasm"));
        let built = build(&tool, &source(language), &folder().join("examples").join(language), &out)
            .with_context(|| format!("cannot build the example in {language}"))?;
        Ok((language, built.map_or(Built::Component(out), Built::Skipped)))
    };
    languages.into_iter().map(build).collect()
}

/// From a folder of sources, by way of a folder to work in, to a component; or why it is skipped.
type Build = fn(&GuestTool, &Path, &Path, &Path) -> Result<Option<String>>;

fn source(language: &str) -> PathBuf {
    root().join("examples/policies").join(language)
}

fn rust(tool: &GuestTool, source: &Path, _: &Path, out: &Path) -> Result<Option<String>> {
    build_crates(source, "examples/rust")?;
    tool.wrap(&module("examples/rust", "spot_surcharge"), out, &[])?;
    Ok(None)
}

fn c(tool: &GuestTool, source: &Path, work: &Path, out: &Path) -> Result<Option<String>> {
    let Some(mut compiler) = c_compiler() else {
        return Ok(Some(
            "no C compiler for wasm32-wasi: apt-get install clang-19 lld-19 libclang-rt-19-dev-wasm32 wasi-libc, or \
             pip install ziglang"
                .to_owned(),
        ));
    };
    tool.bindings("c", work)?;
    let core = work.join("core.wasm");
    compiler.args(["-O2", "-mexec-model=reactor", "-Wl,--gc-sections", "-Wl,-s"]).arg("-I").arg(work);
    compiler.arg("-o").arg(&core).arg(source.join("policy.c"));
    run(compiler.args([work.join("scorer_policy.c"), work.join("scorer_policy_component_type.o")]))?;
    tool.wrap(&core, out, &[])?;
    Ok(None)
}

/// clang with a libc for WASI (nothing of WASI stays in a policy that does no I/O), or Zig, which brings its own.
fn c_compiler() -> Option<Command> {
    let clang = ["clang-19", "clang-20", "clang-18", "clang"].into_iter().find(|clang| {
        let probe = Command::new(clang).args(["--target=wasm32-wasi", "-print-file-name=libc.a"]).output();
        // The bare name comes back if there is no such file.
        probe.is_ok_and(|found| Path::new(String::from_utf8_lossy(&found.stdout).trim()).is_absolute())
    });
    if let Some(clang) = clang {
        let mut command = Command::new(clang);
        command.arg("--target=wasm32-wasi");
        return Some(command);
    }
    works("python3", ["-m", "ziglang", "version"]).then(|| {
        let mut command = Command::new("python3");
        command.args(["-m", "ziglang", "cc", "-target", "wasm32-wasi"]);
        command
    })
}

fn go(tool: &GuestTool, source: &Path, work: &Path, out: &Path) -> Result<Option<String>> {
    if !works("go", ["version"]) {
        return Ok(Some("no Go toolchain (1.25 or later): https://go.dev/dl".to_owned()));
    }
    tool.bindings("go", work)?;
    for file in
        ["go.mod", "go.sum", "export_longshore_policy_plugin/plugin.go", "export_longshore_policy_scorer/scorer.go"]
    {
        let to = work.join(file);
        std::fs::create_dir_all(to.parent().unwrap_or(work))?;
        std::fs::copy(source.join(file), to)?;
    }
    let core = work.join("core.wasm");
    let mut build = Command::new("go");
    build.current_dir(work).envs([("GOOS", "wasip1"), ("GOARCH", "wasm"), ("GOFLAGS", "-mod=mod")]);
    build.args(["build", "-trimpath", "-ldflags=-s -w -checklinkname=0", "-buildmode=c-shared", "-o"]);
    run(build.arg(&core).arg("."))?;
    let (wit, adapter) = (wit(), source.join("preview1.wat"));
    tool.wrap(
        &core,
        out,
        &["--wit".as_ref(), wit.as_os_str(), WORLD.as_ref(), "--preview1".as_ref(), adapter.as_os_str()],
    )?;
    Ok(None)
}

fn js(_: &GuestTool, source: &Path, work: &Path, out: &Path) -> Result<Option<String>> {
    if !works("npm", ["--version"]) {
        return Ok(Some("no Node.js with npm: https://nodejs.org".to_owned()));
    }
    std::fs::create_dir_all(work)?;
    std::fs::copy(source.join("package.json"), work.join("package.json"))?;
    if !work.join("node_modules/componentize-qjs").exists() {
        // Pinned in package.json; a lock file would name optional builds of it that were never published.
        let mut npm = Command::new("npm");
        run(npm.current_dir(work).args(["install", "--no-package-lock", "--no-audit", "--no-fund"]))?;
    }
    let mut componentize = Command::new("npx");
    componentize.current_dir(work).args(["--no-install", "componentize-qjs", "--sync", "--stub-wasi", "-n", WORLD]);
    run(componentize.arg("--wit").arg(wit()).arg("--js").arg(source.join("policy.js")).arg("-o").arg(out))?;
    Ok(None)
}

fn works<const N: usize>(program: &str, arguments: [&str; N]) -> bool {
    Command::new(program).args(arguments.map(OsStr::new)).output().is_ok_and(|output| output.status.success())
}
