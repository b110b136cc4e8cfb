//! A registry that is dead and then misbehaves once a second, on a real control plane: pods get
//! their nodes all the while, and an operator is told why the policy is not there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use longshore_bundle::Digest;
use longshore_bundle::testing::{Reply, Request, Server, Shelf, Signer};
use longshore_xtask::control_plane::ControlPlane;

use crate::plane::{Daemon, Suite, deployment, running, until, usual_pool, within};

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

/// Seconds for which the registry misbehaves, each second in another way about another policy.
const SECONDS: u64 = 60;
/// Pods that arrive in each of them.
const PODS: usize = 10;

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
fn told(daemon: &Daemon) -> Result<String> {
    let at = format!("127.0.0.1:{}", daemon.status);
    let mut command = Command::new(env!("CARGO_BIN_EXE_longshore"));
    let out = command.args(["status", "--at", &at]).output()?;
    let text = String::from_utf8(out.stdout)?;
    let line = text.lines().find(|line| line.starts_with("policy "));
    Ok(line.unwrap_or_default().to_owned())
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
    let said = told(&daemon)?;
    ensure!(said.contains("Connection refused"), "{said}");
    until("an Event says so", || {
        let events = plane.run(&["get", "events", "-A", "-o", "jsonpath={.items[*].reason}"])?;
        Ok(events.contains("PolicyRefused"))
    })?;

    let registry = Server::start(answers);
    let (begun, mut slowest) = (Instant::now(), Duration::ZERO);
    for nth in 0_usize.. {
        if begun.elapsed() > Duration::from_secs(SECONDS) {
            break;
        }
        let (other, digest) = Shelf::of(&nth.to_le_bytes());
        *state.lock().unwrap() = (other, Some(nth));
        config(&folder, &registry.host, &digest)?;
        let (asked, before) = (Instant::now(), running(&plane)?);
        plane.apply(&deployment(&format!("web-{nth}"), PODS, ""))?;
        within(60, Duration::from_millis(200), "the pods run", || {
            Ok(running(&plane)? >= before + PODS)
        })?;
        slowest = slowest.max(asked.elapsed());
        std::thread::sleep(Duration::from_secs(1).saturating_sub(asked.elapsed()));
    }
    let asked = registry.asked().len();
    eprintln!("the registry was asked {asked} times; pods ran after {slowest:?} at most");
    ensure!(asked > 5, "the registry was asked {asked} times");
    ensure!(slowest < Duration::from_secs(20), "{slowest:?}");

    *state.lock().unwrap() = (shelf, None);
    config(&folder, &registry.host, &good)?;
    until("the policy is there", || {
        let said = told(&daemon)?;
        Ok(said.contains("flat 1.4.0; signed with") && said.contains("vendor.pub"))
    })?;
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
