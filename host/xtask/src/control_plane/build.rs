//! Builds programs from Go modules where no ready ones are installed.
//!
//! `go install` cannot build Kubernetes, because its manifest requires its own libraries at version
//! 0.0.0, to be found beside it. So everything is built from a module of our own that requires the
//! program as a tool, with replacements read from the manifest of the same version: each library at
//! v0.36.4 for Kubernetes 1.36.4. Go checks the sums as for any module.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::binaries::{Binaries, Binary, built};
use super::program::Program;

/// What kwok 0.8 and Kubernetes 1.36 ask for.
const GO: (u32, u32) = (1, 26);
/// How often a build says that it is alive.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// Builds what is missing; says what it does. Only one build at a time on a machine.
pub fn build(binaries: &Binaries, say: &dyn Fn(&str)) -> Result<()> {
    if binaries.missing().is_empty() {
        return Ok(());
    }
    go_is_there().map_err(anyhow::Error::msg)?;
    let folder = built()?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let lock = fs::File::create(folder.join("lock"))?;
    if lock.try_lock().is_err() {
        say("waiting for another build of the control plane");
        lock.lock()?;
    }
    // Again: the other build may have made them.
    let missing = binaries.missing();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = missing
        .iter()
        .map(|binary| format!("{} {}", binary.program.name(), binary.version))
        .collect();
    say(&format!(
        "building {} into {}",
        names.join(", "),
        folder.display()
    ));
    say(
        "once per version; all of them take about 20 minutes of one core, 3 GB of disk and 2 GB \
        of memory",
    );
    missing
        .into_iter()
        .try_for_each(|binary| build_one(binary, say))
}

/// Whether Go is there and new enough, or can make itself so.
pub fn go_is_there() -> Result<(), String> {
    let wanted = format!("{}.{}", GO.0, GO.1);
    let hint = format!(
        "install Go {wanted} or later (https://go.dev/dl), or set KUBEBUILDER_ASSETS to a folder \
        with the programs"
    );
    let out = Command::new("go")
        .args(["env", "GOVERSION", "GOTOOLCHAIN"])
        .output();
    let out = out.map_err(|_| format!("Go is not there: {hint}"))?;
    let said = String::from_utf8_lossy(&out.stdout);
    let mut lines = said.lines();
    let (version, toolchain) = (
        lines.next().unwrap_or_default(),
        lines.next().unwrap_or_default(),
    );
    match go_version(version) {
        Some(version) if version >= GO => Ok(()),
        // Since 1.21 Go fetches the version that a module asks for, unless this is turned off.
        Some(version) if version >= (1, 21) && toolchain != "local" => Ok(()),
        Some((major, minor)) => Err(format!("Go {major}.{minor} is too old: {hint}")),
        None => Err(format!("`go env GOVERSION` says {version:?}: {hint}")),
    }
}

/// `go1.26.8` → (1, 26).
fn go_version(said: &str) -> Option<(u32, u32)> {
    let mut parts = said.trim().strip_prefix("go")?.split(['.', ' ', 'r', 'b']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn build_one(binary: &Binary, say: &dyn Fn(&str)) -> Result<()> {
    let prepare = |source: &Path| match library_version(binary) {
        Some(library) => replace_libraries(source, &binary.version, &library),
        None => Ok(()),
    };
    let tool = GoTool {
        name: binary.program.name(),
        version: &binary.version,
        package: package(binary.program),
        linker: &linker_flags(binary),
        path: &binary.path,
    };
    tool.build(&prepare, say)
}

/// A program that is built from a Go module.
pub struct GoTool<'a> {
    /// For people, and of its folder of sources.
    pub name: &'a str,
    /// Without the leading `v`.
    pub version: &'a str,
    /// The package of its `main`.
    pub package: &'a str,
    /// Flags of the linker.
    pub linker: &'a str,
    /// Where it is put.
    pub path: &'a Path,
}

impl GoTool<'_> {
    /// Builds it. `prepare` may change the module that requires it, in its folder.
    pub fn build(&self, prepare: &dyn Fn(&Path) -> Result<()>, say: &dyn Fn(&str)) -> Result<()> {
        let Self {
            name,
            version,
            package,
            linker,
            path,
        } = self;
        let folder = path.parent().context("a program in no folder")?;
        let source = folder.join("source").join(name);
        fs::create_dir_all(&source).with_context(|| format!("cannot make {}", source.display()))?;
        for old in ["go.mod", "go.sum"] {
            let _ = fs::remove_file(source.join(old));
        }
        say(&format!("{name} {version}: fetching modules"));
        go(
            &source,
            &["mod", "init", &format!("longshore.local/{name}")],
        )?;
        prepare(&source)?;
        go(&source, &["get", "-tool", &format!("{package}@v{version}")])?;
        // In place only when it is whole.
        let fresh = source.join(name);
        let fresh_text = fresh.display().to_string();
        let args = [
            "build",
            "-v",
            "-trimpath",
            "-ldflags",
            linker,
            "-o",
            &fresh_text,
            package,
        ];
        compile(
            go_command(&source, &args),
            &format!("{name} {version}"),
            say,
        )?;
        fs::rename(&fresh, path).with_context(|| format!("cannot move {}", fresh.display()))
    }
}

fn package(program: Program) -> &'static str {
    match program {
        Program::Etcd => "go.etcd.io/etcd/server/v3",
        Program::ApiServer => "k8s.io/kubernetes/cmd/kube-apiserver",
        Program::ControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
        Program::Scheduler => "k8s.io/kubernetes/cmd/kube-scheduler",
        Program::Kwok => "sigs.k8s.io/kwok/cmd/kwok",
        Program::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
    }
}

/// The version of Kubernetes' libraries that goes with a program of Kubernetes: v0.36.4 with
/// 1.36.4.
fn library_version(binary: &Binary) -> Option<String> {
    let ours = !matches!(binary.program, Program::Etcd | Program::Kwok);
    ours.then(|| {
        format!(
            "v0.{}",
            binary.version.strip_prefix("1.").unwrap_or(&binary.version)
        )
    })
}

/// Without symbols; Kubernetes learns its version from the linker alone.
fn linker_flags(binary: &Binary) -> String {
    let mut flags = "-s -w".to_owned();
    if library_version(binary).is_some() {
        let mut parts = binary.version.split('.');
        let (major, minor) = (
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default(),
        );
        for (name, value) in [
            ("gitVersion", &*format!("v{}", binary.version)),
            ("gitMajor", major),
            ("gitMinor", minor),
        ] {
            flags += &format!(" -X k8s.io/component-base/version.{name}={value}");
        }
    }
    flags
}

/// Points every library that Kubernetes' manifest asks for at version 0.0.0 to the one that was
/// released with it.
fn replace_libraries(source: &Path, version: &str, library: &str) -> Result<()> {
    let module = format!("k8s.io/kubernetes@v{version}");
    let downloaded = json(&go(source, &["mod", "download", "-json", &module])?)?;
    let manifest = downloaded["GoMod"]
        .as_str()
        .with_context(|| format!("no manifest of {module}"))?;
    let manifest = json(&go(source, &["mod", "edit", "-json", manifest])?)?;
    let required = manifest["Require"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let unreleased = required
        .iter()
        .filter(|module| module["Version"] == "v0.0.0");
    let replace = |path: &str| format!("-replace={path}={path}@{library}");
    let mut edits: Vec<String> = unreleased
        .filter_map(|module| module["Path"].as_str())
        .map(replace)
        .collect();
    edits.extend(manifest["Go"].as_str().map(|go| format!("-go={go}")));
    let mut args = vec!["mod", "edit"];
    args.extend(edits.iter().map(String::as_str));
    go(source, &args).map(drop)
}

fn json(text: &[u8]) -> Result<Value> {
    serde_json::from_slice(text).context("Go printed something that is no JSON")
}

fn go_command(source: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("go");
    // -buildvcs: the cache may be inside of a repository.
    command
        .args(args)
        .current_dir(source)
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-buildvcs=false");
    command.env("GOWORK", "off").stdin(Stdio::null());
    command
}

/// Runs Go and returns what it prints.
fn go(source: &Path, args: &[&str]) -> Result<Vec<u8>> {
    let out = go_command(source, args)
        .output()
        .context("cannot start go")?;
    if !out.status.success() {
        bail!(
            "go {}: {}\n{}",
            args.join(" "),
            out.status,
            String::from_utf8_lossy(&out.stderr).trim_end()
        );
    }
    Ok(out.stdout)
}

/// Runs `go build -v`, which names each package that it compiles, and counts them aloud.
fn compile(mut command: Command, what: &str, say: &dyn Fn(&str)) -> Result<()> {
    let start = Instant::now();
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start go")?;
    let (mut packages, mut said, mut last) = (0_u32, Instant::now(), VecDeque::new());
    if let Some(errors) = child.stderr.take() {
        for line in BufReader::new(errors).lines() {
            let line = line?;
            packages += 1;
            last.push_back(line);
            if last.len() > 30 {
                last.pop_front();
            }
            if said.elapsed() >= PROGRESS_INTERVAL {
                said = Instant::now();
                say(&format!(
                    "{what}: {packages} packages compiled, {} s",
                    start.elapsed().as_secs()
                ));
            }
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!(
            "go build of {what}: {status}\n{}",
            Vec::from(last).join("\n")
        );
    }
    say(&format!("{what}: built in {} s", start.elapsed().as_secs()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_go_are_understood() {
        assert_eq!(go_version("go1.26.8"), Some((1, 26)));
        assert_eq!(go_version("go1.27rc1"), Some((1, 27)));
        assert_eq!(go_version("devel"), None);
    }

    #[test]
    fn libraries_have_the_minor_and_patch_of_kubernetes() {
        let binary = |program| Binary {
            program,
            version: "1.36.4".into(),
            path: "x".into(),
        };
        assert_eq!(
            library_version(&binary(Program::ApiServer)).as_deref(),
            Some("v0.36.4")
        );
        assert_eq!(library_version(&binary(Program::Kwok)), None);
        assert!(linker_flags(&binary(Program::Kubectl)).contains("gitMinor=36"));
    }
}
