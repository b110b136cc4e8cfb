//! The journal of a daemon on a real control plane, decided again.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use longshore_xtask::control_plane::ControlPlane;
use serde_json::Value;

#[allow(dead_code, reason = "its other users need the rest")]
#[path = "reload/guest.rs"]
mod guest;

use crate::plane::{Daemon, Suite, delete_claims, deployment, names, running, until, usual_pool};
use guest::{Way, guest};

const CONFIG: &str = "
[[policy]]
name = 'one'
path = 'one.wasm'
[signals.carbon]
file = 'carbon.json'
[journal]
dir = 'journal'
max-size = '16MiB'
segment-size = '64KiB'
";

pub fn suite() -> Suite {
    let name = "the_journal_of_two_daemons_on_one_cluster_is_decided_again_to_the_same_digests";
    Suite::new("journal_live", None, &[(name, decided_again)], &[])
}

fn scale(plane: &ControlPlane, replicas: usize) -> Result<()> {
    plane.apply(&deployment("web", replicas, ""))?;
    until(&format!("{replicas} pods run"), || {
        Ok(running(plane)? == replicas)
    })
}

fn longshore(args: &[&str]) -> Result<Output> {
    Ok(Command::new(env!("CARGO_BIN_EXE_longshore"))
        .args(args)
        .output()?)
}

fn renamed(folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    std::fs::write(folder.join("part"), bytes)?;
    Ok(std::fs::rename(folder.join("part"), folder.join(name))?)
}

fn decided_again() -> Result<()> {
    let folder =
        std::env::temp_dir().join(format!("longshore-journal-live-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("longshore.toml"), CONFIG)?;
    std::fs::write(folder.join("carbon.json"), "{\"us-east-1a\": 379.5}")?;
    std::fs::write(
        folder.join("one.wasm"),
        guest("1.0.0", Way::Alternates(0.2, 0.1)),
    )?;
    let plane = ControlPlane::start("journal")?;
    plane.apply(&usual_pool())?;
    let config = folder.join("longshore.toml");
    let config = config.to_str().context("a path of text")?;
    let start = || Daemon::start(&plane.longshore_kubeconfig(), &["--config", config]);
    let first = start()?;
    scale(&plane, 20)?;
    renamed(
        &folder,
        "one.wasm",
        &guest("1.1.0", Way::Alternates(0.1, 0.2)),
    )?;
    std::thread::sleep(Duration::from_secs(2));
    scale(&plane, 45)?;
    // Killed: its last segment has no end.
    drop(first);
    let mut second = start()?;
    scale(&plane, 90)?;
    let claims = names(&plane, "nodeclaims")?;
    delete_claims(&plane, &claims)?;
    until("the old claims are gone", || {
        let left = names(&plane, "nodeclaims")?;
        Ok(claims.iter().all(|claim| !left.contains(claim)))
    })?;
    scale(&plane, 10)?;
    second.signal("TERM")?;
    ensure!(
        second.child.wait()?.success(),
        "the daemon ends badly: {}",
        second.log()?
    );
    check(&folder)?;
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

fn check(folder: &Path) -> Result<()> {
    let journal = folder.join("journal");
    let path = journal.to_str().context("a path of text")?;
    let replayed = longshore(&["replay", path, "--output", "json"])?;
    let output = String::from_utf8_lossy(&replayed.stdout).into_owned();
    ensure!(
        replayed.status.code() == Some(0),
        "{output}{}",
        String::from_utf8_lossy(&replayed.stderr)
    );
    let verdict: Value = serde_json::from_str(&output)?;
    let equal = verdict["equal"].as_u64().unwrap_or(0);
    ensure!(equal >= 4 && verdict["passedOver"] == 0, "{output}");
    eprintln!(
        "{equal} rounds, {} observations, {} segments",
        verdict["observations"], verdict["segments"]
    );
    // Every segment by itself.
    let mut files: Vec<PathBuf> = std::fs::read_dir(&journal)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|ending| ending == "journal"));
    ensure!(files.len() >= 2, "{files:?}");
    for file in &files {
        let alone = longshore(&["replay", file.to_str().unwrap_or_default()])?;
        ensure!(
            alone.status.code() == Some(0),
            "{file:?}: {}",
            String::from_utf8_lossy(&alone.stdout)
        );
    }
    // Another scorer says where it differs.
    std::fs::write(folder.join("other.wasm"), guest("2.0.0", Way::Costs(1.0)))?;
    let other = folder.join("other.wasm");
    let compared = longshore(&[
        "replay",
        path,
        "--scorer",
        other.to_str().unwrap_or_default(),
    ])?;
    let output = String::from_utf8_lossy(&compared.stdout).into_owned();
    ensure!(
        compared.status.code() == Some(0) && output.contains("With other 2.0.0"),
        "{output}"
    );
    eprintln!("{output}");
    let shown = longshore(&["journal", "show", path, "--rounds"])?;
    let output = String::from_utf8_lossy(&shown.stdout).into_owned();
    ensure!(
        output
            .lines()
            .filter(|line| line.contains(" decided in "))
            .count() as u64
            == equal,
        "{output}"
    );
    eprintln!("{output}");
    let found = longshore(&["journal", "grep", "default/web-", path, "--kind", "pod"])?;
    ensure!(
        found.status.code() == Some(0) && found.stdout.len() > 1000,
        "nothing of web-"
    );
    let none = longshore(&["journal", "grep", "no such thing", path])?;
    ensure!(
        none.status.code() == Some(1) && none.stdout.is_empty(),
        "something of nothing"
    );
    Ok(())
}
