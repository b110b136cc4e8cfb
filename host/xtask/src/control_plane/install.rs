//! Installs into a new cluster what `deploy/` ships (definitions and permissions), and creates a
//! token for the daemon's account.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::cluster::Cluster;

/// The account of `deploy/service-account.yaml`.
const ACCOUNT: &str = "karpenter";
const NAMESPACE: &str = "kube-system";
/// A year.
const TOKEN_LIFE: &str = "8760h";

/// The daemon's account and what it may do: by itself, and with the KWOK provider.
const RIGHTS: [&str; 3] = ["service-account.yaml", "rbac.yaml", "rbac-kwok.yaml"];

/// Applies [`RIGHTS`] and `deploy/crds`, and writes the daemon's kubeconfig. Twice is as good as
/// once.
pub fn install(cluster: &Cluster, say: &dyn Fn(&str)) -> Result<()> {
    wait_for_namespace(cluster)?;
    let deploy = crate::guests::root().join("deploy");
    for file in RIGHTS {
        apply(cluster, &deploy.join(file))?;
    }
    let crds = manifests(&deploy.join("crds"))?;
    for file in &crds {
        apply(cluster, file)?;
    }
    if !crds.is_empty() {
        run(
            cluster,
            &[
                "wait",
                "--for=condition=Established",
                "crd",
                "--all",
                "--timeout=60s",
            ],
        )?;
        say(&format!(
            "{} resource definitions of deploy/crds are established",
            crds.len()
        ));
    }
    cluster.write_longshore_kubeconfig(super::LONGSHORE, &token(cluster)?)
}

/// A new token of the daemon's account.
pub fn token(cluster: &Cluster) -> Result<String> {
    let token = run(
        cluster,
        &[
            "create",
            "token",
            ACCOUNT,
            "--namespace",
            NAMESPACE,
            "--duration",
            TOKEN_LIFE,
        ],
    )?;
    Ok(token.trim().to_owned())
}

/// The API server makes its namespaces a moment after it is ready.
fn wait_for_namespace(cluster: &Cluster) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while let Err(error) = run(cluster, &["get", "namespace", "default", NAMESPACE]) {
        if Instant::now() > deadline {
            return Err(error);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Manifests in a folder, sorted; none if there is no such folder.
fn manifests(folder: &Path) -> Result<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let mut files = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    files.retain(|file| {
        file.extension()
            .is_some_and(|kind| kind == "yaml" || kind == "yml" || kind == "json")
    });
    files.sort();
    Ok(files)
}

fn apply(cluster: &Cluster, file: &Path) -> Result<()> {
    let file = file.to_str().context("a path that is no text")?;
    run(
        cluster,
        &[
            "apply",
            "--server-side",
            "--force-conflicts",
            "--filename",
            file,
        ],
    )
    .map(drop)
}

/// Runs kubectl as the administrator and returns what it prints.
pub fn run(cluster: &Cluster, args: &[&str]) -> Result<String> {
    let mut command = cluster.kubectl()?;
    command.args(args);
    let out = command
        .output()
        .with_context(|| format!("cannot start {:?}", command.get_program()))?;
    checked(&command, out)
}

/// What a command printed, if it succeeded.
pub fn checked(command: &Command, out: Output) -> Result<String> {
    if !out.status.success() {
        let args: Vec<_> = command
            .get_args()
            .map(|arg| arg.to_string_lossy())
            .collect();
        bail!(
            "kubectl {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&out.stderr).trim_end()
        );
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}
