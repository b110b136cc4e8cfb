//! Helm, for the charts in `deploy/charts`: built from its Go module, once per version.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::cache;
use crate::control_plane::build::{GoTool, go_is_there};

/// The version that is built.
pub const VERSION: &str = "4.3.1";

/// Where it is, or will be.
fn path() -> Result<PathBuf> {
    Ok(cache()?
        .join("tools")
        .join(format!("helm-{VERSION}"))
        .join("helm"))
}

/// Whether it is there, or why not.
pub fn available() -> Result<(), String> {
    let path = path().map_err(|error| format!("{error:#}"))?;
    if path.is_file() {
        return Ok(());
    }
    match go_is_there() {
        Ok(()) => Err(format!(
            "Helm {VERSION} is not built yet: run `cargo xtask helm version`, once"
        )),
        Err(reason) => Err(format!("no Helm, and it cannot be built: {reason}")),
    }
}

/// Whether tests that need it are to be reported as ignored. It is missing then, and standard error
/// says why.
pub fn tests_are_ignored() -> bool {
    match available() {
        Err(reason) => {
            eprintln!("not run: {reason}");
            true
        }
        Ok(()) => false,
    }
}

/// Builds it if it is not there, and says what it does.
pub fn build(say: &dyn Fn(&str)) -> Result<()> {
    let path = path()?;
    if path.is_file() {
        return Ok(());
    }
    go_is_there().map_err(anyhow::Error::msg)?;
    let folder = path.parent().context("a program in no folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let lock = fs::File::create(folder.join("lock"))?;
    if lock.try_lock().is_err() {
        say("waiting for another build of Helm");
        lock.lock()?;
    }
    // Again: the other build may have made it.
    if path.is_file() {
        return Ok(());
    }
    let tool = GoTool {
        name: "helm",
        version: VERSION,
        package: "helm.sh/helm/v4/cmd/helm",
        linker: "-s -w",
        path: &path,
    };
    tool.build(&|_| Ok(()), say)
}

/// A command of it, with folders of its own: neither the user's repositories nor plugins.
pub fn command() -> Result<Command> {
    let path = path()?;
    let own = |folder: &str| path.with_file_name(folder);
    let mut command = Command::new(&path);
    command
        .env("HELM_CONFIG_HOME", own("config"))
        .env("HELM_CACHE_HOME", own("cache"))
        .env("HELM_DATA_HOME", own("data"));
    Ok(command)
}

/// The folder of a chart in `deploy/charts`.
pub fn chart(name: &str) -> PathBuf {
    crate::guests::root().join("deploy/charts").join(name)
}

/// What `helm template` prints for release `karpenter` in `kube-system` with these files of values
/// and `--set` arguments, or its error.
pub fn template(chart: &Path, values: &[PathBuf], set: &[&str]) -> Result<String> {
    rendered("template", chart, values, set)
}

/// The same of `helm install --dry-run`, which has the notes of the release too.
pub fn notes(chart: &Path, values: &[PathBuf], set: &[&str]) -> Result<String> {
    let all = rendered("install", chart, values, set)?;
    let (_, notes) = all
        .split_once("\nNOTES:\n")
        .context("helm install printed no notes")?;
    Ok(notes.to_owned())
}

fn rendered(verb: &str, chart: &Path, values: &[PathBuf], set: &[&str]) -> Result<String> {
    let mut command = command()?;
    command.args([verb, "karpenter"]).arg(chart);
    command.args(["--namespace", "kube-system"]);
    if verb == "install" {
        command.arg("--dry-run=client");
    }
    for file in values {
        command.arg("--values").arg(file);
    }
    for one in set {
        command.args(["--set", one]);
    }
    let out = command
        .output()
        .with_context(|| format!("cannot start {:?}", command.get_program()))?;
    if !out.status.success() {
        anyhow::bail!("{}", String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(String::from_utf8(out.stdout)?)
}
