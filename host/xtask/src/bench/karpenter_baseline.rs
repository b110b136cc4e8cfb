//! Karpenter's own core as a command, if it is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::Value;

use crate::commands;

/// The command.
pub struct KarpenterBaseline {
    binary: PathBuf,
}

impl KarpenterBaseline {
    /// `$LONGSHORE_ORACLE`, or built with Go from `../shared/oracle` beside the repository; `None`
    /// if neither is there.
    pub fn find() -> anyhow::Result<Option<KarpenterBaseline>> {
        if let Some(binary) = std::env::var_os("LONGSHORE_ORACLE").map(PathBuf::from) {
            println!("    {}", binary.display());
            return Ok(Some(KarpenterBaseline { binary }));
        }
        let sources = longshore_xtask::guests::root().join("../shared/oracle");
        if !sources.join("go.mod").exists() || !commands::found("go") {
            println!("    not here");
            return Ok(None);
        }
        let binary = crate::commands::target().join("bench/oracle");
        let mut build = Command::new("go");
        build
            .args(["build", "-mod=mod", "-o"])
            .arg(&binary)
            .arg(".")
            .current_dir(&sources);
        commands::run(build).context("building the oracle")?;
        Ok(Some(KarpenterBaseline { binary }))
    }

    /// What Karpenter's disruption comes to, as the oracle prints it.
    pub fn converge(&self, snapshot: &Path, types: &Path) -> anyhow::Result<Vec<u8>> {
        let mut command = Command::new(&self.binary);
        command.arg("converge").arg("-snapshot").arg(snapshot);
        command.arg("-instance-types").arg(types);
        commands::output(command)
    }

    /// What Karpenter's provisioner does with the pending pods.
    pub fn schedule(&self, snapshot: &Path, types: &Path) -> anyhow::Result<Value> {
        let mut command = Command::new(&self.binary);
        command
            .arg("schedule")
            .arg("-snapshot")
            .arg(snapshot)
            .arg("-instance-types")
            .arg(types);
        serde_json::from_slice(&commands::output(command)?).context("the oracle's answer")
    }
}
