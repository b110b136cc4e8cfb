//! A registry that is dead and then misbehaves once a second, on a real control plane: pods get
//! their nodes all the while, and an operator is told why the policy is not there.
//!
//! Half a minute; `LONGSHORE_REGISTRY_SECONDS` says for how long else.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use longshore_bundle::Digest;
use longshore_bundle::testing::{Reply, Request, Server, Shelf, Signer};
use longshore_xtask::control_plane::ControlPlane;

use crate::plane::{Daemon, Suite, deployment, objects, running, until, usual_pool};

pub fn suite() -> Suite {
    Suite::new(
        "bundles_live",
        Some(1),
        &[(
            "a_registry_that_misbehaves_holds_up_no_pod_and_is_said",
            misbehaves,
        )],
        &[],
    )
}

/// Pods that arrive in each second.
const PODS: usize = 7;

/// Seconds for which the registry misbehaves, each second in another way about another policy.
fn seconds() -> usize {
    let set = std::env::var("LONGSHORE_REGISTRY_SECONDS").ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(30)
}

/// The component that real tools pushed.
fn component() -> Result<Vec<u8>> {
    let blobs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bundle/vectors/signed/blobs/sha256");
    let flat = "797ee4796c4fd3f4402d344efbb6bfec35ebd223f416ee618fa51ae6c2d2427f";
    Ok(std::fs::read(blobs.join(flat))?)
}

fn config(folder: &Path, host: &str, digest: &Digest) -> Result<()> {
    let text = format!(
        "[[policy]]\nname = 'one'\noci = '{host}/policies/carbon:1.4@{digest}'\n\
         [registries.'{host}']\nplain-http = true\n\
         [[trust]]\nkey-file = 'vendor.pub'\nfor = ['{host}/*']\n\
         [cache]\ndir = 'cache'\n"
    );
    std::fs::write(folder.join("part"), text)?;
    Ok(std::fs::rename(
        folder.join("part"),
        folder.join("longshore.toml"),
    )?)
}

fn misbehaving(nth: usize, mut reply: Reply) -> Reply {
    match nth % 8 {
        0 => reply.stalls = Duration::from_secs(3),
        1 => reply.body = vec![0; 80 << 20],
        2 => reply.sent = Some(reply.body.len() / 2),
        3 => return Reply::new(500, ""),
        4 => return Reply::new(429, "").header("Retry-After", "1"),
        5 => reply.body[0] ^= 1,
        6 => return Reply::new(307, "").header("Location", "http://169.254.169.254/"),
        _ => return Reply::new(401, ""),
    }
    reply
}

fn scratch() -> Result<PathBuf> {
    let folder =
        std::env::temp_dir().join(format!("longshore-bundles-live-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// What `longshore status` says of the policy.
fn status_of_policy(daemon: &Daemon) -> Result<String> {
    let at = format!("127.0.0.1:{}", daemon.status);
    let mut command = Command::new(env!("CARGO_BIN_EXE_longshore"));
    let out = command.args(["status", "--at", &at]).output()?;
    let text = String::from_utf8(out.stdout)?;
    let line = text.lines().find(|line| line.starts_with("policy "));
    Ok(line.unwrap_or_default().to_owned())
}

/// The longest from a pod's creation until it was ready, in seconds.
fn slowest(plane: &ControlPlane) -> Result<i64> {
    let mut slowest = 0;
    for pod in objects(plane, "pods", &["-A"])? {
        let conditions = pod["status"]["conditions"].as_array();
        let ready = conditions.and_then(|all| all.iter().find(|one| one["type"] == "Ready"));
        let ready = ready.and_then(|one| one["lastTransitionTime"].as_str());
        let created = pod["metadata"]["creationTimestamp"].as_str();
        let (Some(created), Some(ready)) = (created, ready) else {
            anyhow::bail!("a pod is not ready: {pod}");
        };
        slowest = slowest.max(seconds_of(ready)? - seconds_of(created)?);
    }
    Ok(slowest)
}

/// Seconds of a time of the API server, from the epoch.
fn seconds_of(time: &str) -> Result<i64> {
    longshore_api::time::timestamp(time).with_context(|| format!("a time: {time}"))
}

fn misbehaves() -> Result<()> {
    let (folder, signer) = (scratch()?, Signer::random());
    let (mut shelf, good) = Shelf::of(&component()?);
    shelf.refer(&good, &signer.sign(&good));
    // What it has, and how it misbehaves.
    let state = Arc::new(Mutex::new((shelf.clone(), Some(0))));
    let answers = {
        let state = state.clone();
        move |request: &Request| {
            let (shelf, turn) = state.lock().unwrap().clone();
            let reply = shelf.answer(request);
            turn.map_or(reply.clone(), |nth| misbehaving(nth, reply))
        }
    };
    // A port where nothing answers, for a start with the registry dead.
    let dead = {
        let server = Server::start(|_| Reply::new(500, ""));
        server.host.clone()
    };
    std::fs::write(folder.join("vendor.pub"), signer.pem())?;
    config(&folder, &dead, &good)?;
    let plane = ControlPlane::start("bundles")?;
    plane.apply(&usual_pool())?;
    let file = folder.join("longshore.toml").display().to_string();
    let daemon = Daemon::start(&plane.longshore_kubeconfig(), &["--config", &file])?;
    plane.apply(&deployment("dead", 3, ""))?;
    until("pods run while the registry is dead", || {
        Ok(running(&plane)? == 3)
    })?;
    let said = status_of_policy(&daemon)?;
    ensure!(said.contains("Connection refused"), "{said}");
    until("an Event says so", || {
        let events = plane.run(&["get", "events", "-A", "-o", "jsonpath={.items[*].reason}"])?;
        Ok(events.contains("PolicyRefused"))
    })?;

    let registry = Server::start(answers);
    let begun = Instant::now();
    for nth in 0..seconds() {
        let (other, digest) = Shelf::of(&nth.to_le_bytes());
        *state.lock().unwrap() = (other, Some(nth));
        config(&folder, &registry.host, &digest)?;
        plane.apply(&deployment(&format!("web-{nth}"), PODS, ""))?;
        let next = Duration::from_secs(nth as u64 + 1);
        std::thread::sleep(next.saturating_sub(begun.elapsed()));
    }
    let wanted = 3 + seconds() * PODS;
    until("all pods run", || Ok(running(&plane)? == wanted))?;
    let asked = registry.asked().len();
    let slowest = slowest(&plane)?;
    eprintln!(
        "the registry was asked {asked} times; {wanted} pods ran after {slowest} s at most, the last {:?} after the first",
        begun.elapsed()
    );
    ensure!(asked > 5, "the registry was asked {asked} times");
    ensure!(slowest < 30, "a pod ran after {slowest} s");

    *state.lock().unwrap() = (shelf, None);
    config(&folder, &registry.host, &good)?;
    until("the policy is there", || {
        let said = status_of_policy(&daemon)?;
        Ok(said.contains("flat 1.4.0; signed with") && said.contains("vendor.pub"))
    })?;
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
