//! Helm, for the charts in `deploy/charts`: both majors that people use, built from their Go modules,
//! once per version.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::cache;
use crate::control_plane::build::{GoTool, go_is_there};

/// A major version of Helm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helm {
    /// Helm 3, which applies on the client.
    Three,
    /// Helm 4, which applies on the server what it has installed itself.
    Four,
}

impl Helm {
    /// Both.
    pub const ALL: [Helm; 2] = [Helm::Three, Helm::Four];

    /// The version that is built.
    pub fn version(self) -> &'static str {
        match self {
            Helm::Three => "3.22.0",
            Helm::Four => "4.3.1",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Helm::Three => "helm.sh/helm/v3/cmd/helm",
            Helm::Four => "helm.sh/helm/v4/cmd/helm",
        }
    }

    /// Where it is, or will be.
    ///
    /// # Errors
    /// There is no folder for the cache.
    pub fn path(self) -> Result<PathBuf> {
        let folder = format!("helm-{}", self.version());
        Ok(cache()?.join("tools").join(folder).join("helm"))
    }

    /// Folders of its own, by variable: neither the user's repositories nor plugins.
    ///
    /// # Errors
    /// There is no folder for the cache.
    pub fn environment(self) -> Result<[(&'static str, PathBuf); 3]> {
        let path = self.path()?;
        let own = |folder: &str| path.with_file_name(folder);
        Ok([
            ("HELM_CONFIG_HOME", own("config")),
            ("HELM_CACHE_HOME", own("cache")),
            ("HELM_DATA_HOME", own("data")),
        ])
    }

    /// A command of it.
    ///
    /// # Errors
    /// There is no folder for the cache.
    pub fn command(self) -> Result<Command> {
        let mut command = Command::new(self.path()?);
        command.envs(self.environment()?);
        Ok(command)
    }

    /// Builds it if it is not there, and says what it does.
    fn build(self, say: &dyn Fn(&str)) -> Result<()> {
        let path = self.path()?;
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
            version: self.version(),
            package: self.package(),
            linker: "-s -w",
            path: &path,
        };
        tool.build(&|_| Ok(()), say)
    }
}

/// Whether both are there, or why not.
///
/// # Errors
/// What is missing, and what can be done.
pub fn available() -> Result<(), String> {
    for helm in Helm::ALL {
        let path = helm.path().map_err(|error| format!("{error:#}"))?;
        if path.is_file() {
            continue;
        }
        let version = helm.version();
        return match go_is_there() {
            Ok(()) => Err(format!(
                "Helm {version} is not built yet: run `cargo xtask helm version`, once"
            )),
            Err(reason) => Err(format!(
                "no Helm {version}, and it cannot be built: {reason}"
            )),
        };
    }
    Ok(())
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

/// Builds what is missing of both, and says what it does.
///
/// # Errors
/// Go is not there, or does not build it.
pub fn build(say: &dyn Fn(&str)) -> Result<()> {
    Helm::ALL.iter().try_for_each(|helm| helm.build(say))
}

/// A command of the newest.
///
/// # Errors
/// There is no folder for the cache.
pub fn command() -> Result<Command> {
    Helm::Four.command()
}

/// The folder of a chart in `deploy/charts`.
pub fn chart(name: &str) -> PathBuf {
    crate::guests::root().join("deploy/charts").join(name)
}

/// What `helm template` prints for release `karpenter` in `kube-system` with these files of values
/// and `--set` arguments, or its error.
pub fn template(chart: &Path, values: &[PathBuf], set: &[&str]) -> Result<String> {
    rendered(Helm::Four, &["template"], chart, values, set)
}

/// The same by one of them, with its own definitions: as Argo CD renders a chart.
pub fn template_with_definitions(
    helm: Helm,
    chart: &Path,
    values: &[PathBuf],
    set: &[&str],
) -> Result<String> {
    rendered(helm, &["template", "--include-crds"], chart, values, set)
}

/// The same of `helm install --dry-run`, which has the notes of the release too.
pub fn notes(chart: &Path, values: &[PathBuf], set: &[&str]) -> Result<String> {
    let verb = ["install", "--dry-run=client"];
    let all = rendered(Helm::Four, &verb, chart, values, set)?;
    let (_, notes) = all
        .split_once("\nNOTES:\n")
        .context("helm install printed no notes")?;
    Ok(notes.to_owned())
}

fn rendered(
    helm: Helm,
    verb: &[&str],
    chart: &Path,
    values: &[PathBuf],
    set: &[&str],
) -> Result<String> {
    let mut command = helm.command()?;
    command.args(verb).arg("karpenter").arg(chart);
    command.args(["--namespace", "kube-system"]);
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
