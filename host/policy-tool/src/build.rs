//! `longshore-policy build`: the language's own tools, then the encoder, then the recorded cases.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};

use crate::component::{bindings, put_cases, wrap};
use crate::tools::{c_compiler, run as call, works};
use crate::{Language, exports, files, new, refusal};

/// The world of a policy's own `wit/world.wit`.
const WORLD: &str = "policy";
const COMPONENTIZE_PY: &str = "componentize-py==0.25.1";

/// Builds the policy of a folder.
pub fn run(folder: &Path, output: Option<&Path>) -> Result<()> {
    let language = language_of(folder)?;
    let out = output.map_or_else(|| folder.join("policy.wasm"), Path::to_owned);
    new::sdk(language, folder)?;
    let work = folder.join(".longshore/build");
    std::fs::create_dir_all(&work).with_context(|| format!("cannot write {}", work.display()))?;
    let project = Project { folder, work };
    let mut bytes = match language {
        Language::Rust => project.rust(),
        Language::Python => project.python(),
        Language::Javascript => project.javascript(),
        Language::Go => project.go(),
        Language::C => project.c(),
    }?;
    let cases = put_cases(&mut bytes, folder)?;
    files::write(&out, &bytes)?;
    let inside = match cases {
        0 => "no recorded cases inside: longshore policy test . --record writes them".to_owned(),
        count => format!("recorded cases inside: {count}"),
    };
    println!("{} ({} bytes), {inside}", out.display(), bytes.len());
    Ok(())
}

/// The language of a folder, by a file that only that language has.
fn language_of(folder: &Path) -> Result<Language> {
    let marks = [
        ("Cargo.toml", Language::Rust),
        ("policy.py", Language::Python),
        ("policy.js", Language::Javascript),
        ("go.mod", Language::Go),
        ("policy.c", Language::C),
    ];
    let found = marks.iter().find(|(file, _)| folder.join(file).is_file());
    found.map(|(_, language)| *language).with_context(|| {
        let files: Vec<&str> = marks.iter().map(|(file, _)| *file).collect();
        format!(
            "{} has none of {}: longshore-policy new LANG NAME begins a policy",
            folder.display(),
            files.join(", ")
        )
    })
}

struct Project<'a> {
    folder: &'a Path,
    /// What is made on the way.
    work: PathBuf,
}

impl Project<'_> {
    fn wit(&self) -> PathBuf {
        self.folder.join("wit")
    }

    fn sdk(&self, language: Language) -> PathBuf {
        self.folder.join(".longshore/sdk").join(language.folder())
    }

    fn rust(&self) -> Result<Vec<u8>> {
        const TARGET: &str = "wasm32-unknown-unknown";
        if !works("cargo", &["--version"]) {
            bail!("no Rust toolchain; install it from https://rustup.rs");
        }
        let output = Command::new("rustc")
            .args(["--print", "target-libdir", "--target", TARGET])
            .output()
            .context("cannot run rustc")?;
        if !Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir() {
            bail!("Rust's target {TARGET} is missing; install it: rustup target add {TARGET}");
        }
        let target = self.folder.join("target");
        let manifest = self.folder.join("Cargo.toml");
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--quiet", "--release", "--target", TARGET]);
        cargo.arg("--manifest-path").arg(&manifest);
        cargo.arg("--target-dir").arg(&target);
        // Flags meant for a program around this one are not for WebAssembly.
        for inherited in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"] {
            cargo.env_remove(inherited);
        }
        call(&mut cargo)?;
        let core = target
            .join(TARGET)
            .join("release")
            .join(crate_name(&manifest)?)
            .with_extension("wasm");
        let module = read(&core)?;
        if !refusal::exports_policy(&module) {
            bail!(
                "{} exports no policy; a line of src/lib.rs names it: \
                 longshore_sdk::export_scorer!(MyPolicy)",
                core.display()
            );
        }
        component_of(&core, module, None, false)
    }

    fn c(&self) -> Result<Vec<u8>> {
        let mut compiler = c_compiler()?;
        bindings("c", &self.wit(), WORLD, &self.work)?;
        let (core, sdk) = (self.work.join("core.wasm"), self.sdk(Language::C));
        compiler
            .args(["-O2", "-ffp-contract=off", "-mexec-model=reactor"])
            .args(["-Wl,--gc-sections", "-Wl,-s"]);
        compiler.arg("-I").arg(&self.work).arg("-I").arg(&sdk);
        compiler
            .arg("-o")
            .arg(&core)
            .arg(self.folder.join("policy.c"));
        compiler.arg(sdk.join("longshore.c"));
        call(
            compiler.args(["policy.c", "policy_component_type.o"].map(|file| self.work.join(file))),
        )?;
        component_of(&core, read(&core)?, None, false)
    }

    fn go(&self) -> Result<Vec<u8>> {
        if !works("go", &["version"]) {
            bail!("no Go toolchain; install 1.25 or later from https://go.dev/dl");
        }
        let module = module_name(&self.folder.join("go.mod"))?;
        let sdk = self.sdk(Language::Go);
        bindings("go", &self.wit(), WORLD, &sdk)?;
        let import = format!("package main\n\nimport _ \"{module}\"\n");
        files::write(&sdk.join("policy.go"), import.as_bytes())?;
        let core = absolute(&self.work)?.join("core.wasm");
        let mut build = Command::new("go");
        build.current_dir(self.folder);
        build.envs([("GOOS", "wasip1"), ("GOARCH", "wasm")]);
        build.args(["build", "-trimpath", "-ldflags=-s -w -checklinkname=0"]);
        build.args(["-buildmode=c-shared", "-o"]);
        call(build.arg(&core).arg("wit_component"))?;
        component_of(&core, read(&core)?, Some((&self.wit(), WORLD)), true)
    }

    fn javascript(&self) -> Result<Vec<u8>> {
        let tools = absolute(self.folder)?.join("node_modules/.bin");
        let out = absolute(&self.work)?.join("component.wasm");
        let package = std::fs::read_to_string(self.folder.join("package.json"));
        let wants_monkey =
            package.is_ok_and(|text| text.contains("\"@bytecodealliance/componentize-js\""));
        let name = match wants_monkey {
            true => "componentize-js",
            false => "componentize-qjs",
        };
        let program = tools.join(name);
        if !program.is_file() {
            bail!("no {name} in node_modules; install it in the policy's folder: npm install");
        }
        let source = String::from_utf8(read(&self.folder.join("policy.js"))?)?;
        exports::check_javascript(&source, &exports::wanted(&self.wit(), WORLD)?)?;
        if wants_monkey {
            // It finds no packages, only files.
            let text = source.replace("'longshore/", "'../sdk/javascript/");
            files::write(&self.work.join("policy.js"), text.as_bytes())?;
        }
        let mut componentize = Command::new(program);
        match wants_monkey {
            true => componentize
                .args([
                    ".longshore/build/policy.js",
                    "--wit",
                    "wit",
                    "-n",
                    WORLD,
                    "-d",
                ])
                .args(["stdio", "random", "clocks", "http", "fetch-event"]),
            false => componentize
                .args(["--sync", "--stub-wasi", "-n", WORLD])
                .args(["--wit", "wit", "--js", "policy.js"]),
        };
        call(componentize.current_dir(self.folder).arg("-o").arg(&out))?;
        read(&out)
    }

    fn python(&self) -> Result<Vec<u8>> {
        let own = absolute(self.folder)?.join(".venv/bin/componentize-py");
        let program = match own.is_file() {
            true => own,
            false => "componentize-py".into(),
        };
        if !works(&program, &["--version"]) {
            bail!(
                "no componentize-py; install it in the policy's folder: python3 -m venv .venv && \
                 .venv/bin/pip install {COMPONENTIZE_PY}"
            );
        }
        let out = self.work.join("component.wasm");
        let mut componentize = Command::new(program);
        componentize.arg("-d").arg(self.wit()).args(["-w", WORLD]);
        componentize.args(["componentize", "--stub-wasi", "policy"]);
        componentize.arg("-p").arg(self.folder);
        componentize.arg("-p").arg(self.sdk(Language::Python));
        call(componentize.arg("-o").arg(&out)).map_err(|error| {
            let missing = exports::missing_in_python(&error.to_string());
            missing.map_or(error, |missing| anyhow!(missing))
        })?;
        read(&out)
    }
}

/// Makes a component of what a compiler has made.
fn component_of(
    core: &Path,
    module: Vec<u8>,
    wit: Option<(&Path, &str)>,
    preview1: bool,
) -> Result<Vec<u8>> {
    wrap(module, wit, preview1)
        .with_context(|| format!("cannot make a component of {}", core.display()))
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("no such folder: {}", path.display()))
}

/// The name of a crate's library as a file.
fn crate_name(manifest: &Path) -> Result<String> {
    let text = String::from_utf8(read(manifest)?)?;
    let name = text.lines().find_map(|line| line.strip_prefix("name = \""));
    let name = name.and_then(|rest| rest.split('"').next());
    let name = name.with_context(|| format!("{} names no package", manifest.display()))?;
    Ok(name.replace('-', "_"))
}

fn module_name(go_mod: &Path) -> Result<String> {
    let text = String::from_utf8(read(go_mod)?)?;
    let name = text.lines().find_map(|line| line.strip_prefix("module "));
    let name = name.with_context(|| format!("{} names no module", go_mod.display()))?;
    Ok(name.trim().to_owned())
}
