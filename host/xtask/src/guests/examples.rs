//! The example policy (examples/policies) in several languages, each if its toolchain is found.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::PoisonError;

use anyhow::{Context, Result, bail};
use sha2::{Digest as _, Sha256};

use super::tools::{NO_C_COMPILER, c_compiler, run, works};
use super::{BUILDING, GuestTool, WORLD, build_crates, folder, guest_tool, module, root, wit};

/// What became of an example.
#[derive(Clone, Debug, PartialEq)]
pub enum Built {
    Component(PathBuf),
    /// Its toolchain is not there: what is missing, and how to get it.
    Skipped(&'static str),
}

/// The example policy in one language.
pub struct Example {
    /// The language, and the name of its folder.
    pub language: &'static str,
    missing: fn() -> Option<&'static str>,
    build: Build,
}

/// The example policy in every language.
pub const EXAMPLES: [Example; 6] = [
    Example {
        language: "rust",
        missing: || None,
        build: rust,
    },
    Example {
        language: "c",
        missing: no_c,
        build: c,
    },
    Example {
        language: "go",
        missing: no_go,
        build: go,
    },
    Example {
        language: "js",
        missing: no_js,
        build: js,
    },
    Example {
        language: "js-starlingmonkey",
        missing: no_js,
        build: starlingmonkey,
    },
    Example {
        language: "python",
        missing: no_python,
        build: python,
    },
];

/// From a folder of sources, by way of a folder to work in, to a component.
type Build = fn(&GuestTool, &Path, &Path, &Path) -> Result<()>;

impl Example {
    /// What is missing of its toolchain and how to get it; nothing if the toolchain is there.
    pub fn missing(&self) -> Option<&'static str> {
        (self.missing)()
    }

    /// Builds its component. That of an earlier build is removed first, so that a toolchain that
    /// writes nothing is an error.
    pub fn build(&self) -> Result<PathBuf> {
        let _one_at_a_time = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
        let language = self.language;
        let out = folder().join(format!("example-{language}.wasm"));
        if out.exists() {
            std::fs::remove_file(&out)
                .with_context(|| format!("cannot remove {}", out.display()))?;
        }
        let source = root().join("examples/policies").join(language);
        (self.build)(
            &guest_tool()?,
            &source,
            &folder().join("examples").join(language),
            &out,
        )
        .with_context(|| format!("cannot build the example in {language}"))?;
        if !out.is_file() {
            bail!(
                "the toolchain of the example in {language} succeeded and wrote no {}",
                out.display()
            );
        }
        Ok(out)
    }
}

/// Builds the example policy in every language; an error only where a toolchain that is there
/// fails.
pub fn build_examples() -> Result<Vec<(&'static str, Built)>> {
    let build = |example: &Example| {
        let built = match example.missing() {
            Some(reason) => Built::Skipped(reason),
            None => Built::Component(example.build()?),
        };
        Ok((example.language, built))
    };
    EXAMPLES.iter().map(build).collect()
}

fn rust(tool: &GuestTool, source: &Path, _: &Path, out: &Path) -> Result<()> {
    build_crates(source, "examples/rust", &[])?;
    tool.wrap(&module("examples/rust", "spot_surcharge"), out, &[])
}

fn no_c() -> Option<&'static str> {
    c_compiler().is_err().then_some(NO_C_COMPILER)
}

fn no_go() -> Option<&'static str> {
    (!works("go", &["version"])).then_some("no Go toolchain (1.25 or later): https://go.dev/dl")
}

fn no_js() -> Option<&'static str> {
    (!works("npm", &["--version"])).then_some("no Node.js with npm: https://nodejs.org")
}

fn no_python() -> Option<&'static str> {
    let there = works("python3", &["-c", "import ensurepip, venv"]);
    (!there).then_some("no Python 3.10 or later with venv: apt-get install python3-venv")
}

fn c(tool: &GuestTool, source: &Path, work: &Path, out: &Path) -> Result<()> {
    let mut compiler = c_compiler()?;
    tool.bindings("c", work)?;
    let core = work.join("core.wasm");
    compiler
        .args(["-O2", "-mexec-model=reactor", "-Wl,--gc-sections", "-Wl,-s"])
        .arg("-I")
        .arg(work);
    compiler.arg("-o").arg(&core).arg(source.join("policy.c"));
    run(compiler.args([
        work.join("scorer_policy.c"),
        work.join("scorer_policy_component_type.o"),
    ]))?;
    tool.wrap(&core, out, &[])
}

fn go(tool: &GuestTool, source: &Path, work: &Path, out: &Path) -> Result<()> {
    tool.bindings("go", work)?;
    for file in [
        "go.mod",
        "go.sum",
        "export_longshore_policy_plugin/plugin.go",
        "export_longshore_policy_scorer/scorer.go",
    ] {
        let to = work.join(file);
        std::fs::create_dir_all(to.parent().unwrap_or(work))?;
        std::fs::copy(source.join(file), to)?;
    }
    let core = work.join("core.wasm");
    let mut build = Command::new("go");
    build.current_dir(work).envs([
        ("GOOS", "wasip1"),
        ("GOARCH", "wasm"),
        ("GOFLAGS", "-mod=mod"),
    ]);
    build.args([
        "build",
        "-trimpath",
        "-ldflags=-s -w -checklinkname=0",
        "-buildmode=c-shared",
        "-o",
    ]);
    run(build.arg(&core).arg("."))?;
    let wit = wit();
    tool.wrap(
        &core,
        out,
        &[
            "--wit".as_ref(),
            wit.as_os_str(),
            WORLD.as_ref(),
            "--preview1".as_ref(),
        ],
    )
}

/// Installs what a package.json pins; a lock file would name optional builds that were never published.
fn npm_install(source: &Path, work: &Path, package: &str) -> Result<()> {
    std::fs::create_dir_all(work)?;
    std::fs::copy(source.join("package.json"), work.join("package.json"))?;
    if work.join("node_modules").join(package).exists() {
        return Ok(());
    }
    let mut npm = Command::new("npm");
    run(npm
        .current_dir(work)
        .args(["install", "--no-package-lock", "--no-audit", "--no-fund"]))
}

fn js(_: &GuestTool, source: &Path, work: &Path, out: &Path) -> Result<()> {
    npm_install(source, work, "componentize-qjs")?;
    let mut componentize = Command::new("npx");
    componentize.current_dir(work).args([
        "--no-install",
        "componentize-qjs",
        "--sync",
        "--stub-wasi",
        "-n",
        WORLD,
    ]);
    run(componentize
        .arg("--wit")
        .arg(wit())
        .arg("--js")
        .arg(source.join("policy.js"))
        .arg("-o")
        .arg(out))
}

/// The policy of folder `js`, with the other engine.
fn starlingmonkey(_: &GuestTool, source: &Path, work: &Path, out: &Path) -> Result<()> {
    let policy = source.with_file_name("js").join("policy.js");
    let script = source.join("build.mjs");
    let sources = [&policy, &script, &source.join("package.json")];
    made_once(&sources, work, out, |part| {
        npm_install(source, work, "@bytecodealliance/componentize-js")?;
        // Packages are found beside the script.
        let copy = work.join("build.mjs");
        std::fs::copy(&script, &copy)?;
        let mut node = Command::new("node");
        node.arg(copy).args([&policy, &wit()]).arg(WORLD);
        run(node.arg(part))
    })
}

fn python(_: &GuestTool, source: &Path, work: &Path, out: &Path) -> Result<()> {
    let requirements = source.join("requirements.txt");
    let sources = [source.join("policy.py"), requirements.clone()];
    made_once(&sources, work, out, |part| {
        let tools = work.join("venv");
        let componentize = tools.join("bin/componentize-py");
        if !componentize.is_file() {
            run(Command::new("python3").args(["-m", "venv"]).arg(&tools))?;
            let mut pip = Command::new(tools.join("bin/pip"));
            pip.args(["install", "--quiet", "--disable-pip-version-check", "-r"]);
            run(pip.arg(&requirements))?;
        }
        let mut componentize = Command::new(componentize);
        componentize.arg("-d").arg(wit()).args(["-w", WORLD]);
        componentize.args(["componentize", "--stub-wasi", "policy", "-p"]);
        run(componentize.arg(source).arg("-o").arg(part))
    })
}

/// Componentizing an interpreter takes 20 s of CPU, and no two results are the same bytes. So what was made
/// of the same sources stays, and with it its compiled code.
fn made_once(
    sources: &[impl AsRef<Path>],
    work: &Path,
    out: &Path,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    std::fs::create_dir_all(work)?;
    let made = work.join(format!("{}.wasm", digest(sources)?));
    if !made.is_file() {
        let part = work.join("part.wasm");
        make(&part)?;
        std::fs::rename(&part, &made)?;
    }
    std::fs::copy(&made, out)?;
    Ok(())
}

/// Digits of all that a component is made of: its sources, and the contract.
fn digest(sources: &[impl AsRef<Path>]) -> Result<String> {
    let mut files: Vec<PathBuf> = sources.iter().map(|file| file.as_ref().into()).collect();
    for entry in std::fs::read_dir(wit())? {
        files.push(entry?.path());
    }
    files.sort();
    let mut sum = Sha256::new();
    for file in files {
        sum.update(
            std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?,
        );
    }
    let sum = sum.finalize();
    Ok(sum[..8].iter().map(|byte| format!("{byte:02x}")).collect())
}
