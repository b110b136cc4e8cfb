//! The daemon on a real control plane, with the rights that `deploy/` ships: a scale-up, a drain,
//! deaths in the midst of either, and a leader that freezes.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use longshore_xtask::control_plane::{ControlPlane, Request};

use crate::plane::{
    Daemon, Suite, delete_claims, deployment, get, holder, names, running, until, usual_pool, words,
};

pub fn suite() -> Suite {
    // Each has a control plane of its own, which takes more than one core while pods start.
    Suite::new(
        "deaths",
        Some(2),
        &[
            (
                "pods_get_nodes_and_leave_them_when_their_claims_are_deleted",
                scale_and_drain,
            ),
            (
                "a_daemon_killed_at_any_moment_of_a_scale_up_buys_nothing_twice",
                killed,
            ),
            (
                "a_daemon_killed_at_any_moment_of_a_drain_leaves_nothing_behind",
                killed_draining,
            ),
            (
                "a_leader_that_was_frozen_writes_nothing_once_another_leads",
                frozen,
            ),
        ],
        &[],
    )
}

/// Waits until claims and their nodes are gone and so many pods run elsewhere.
fn moved(plane: &ControlPlane, first: &[String], pods: usize) -> Result<()> {
    until(
        "the old claims and their nodes are gone, and all pods run elsewhere",
        || {
            let (left, nodes) = (names(plane, "nodeclaims")?, names(plane, "nodes")?);
            let gone = first.iter().all(|name| !left.contains(name));
            Ok(gone && running(plane)? == pods && nodes.len() == left.len())
        },
    )
}

/// Whether every node has a pod.
fn none_is_empty(plane: &ControlPlane) -> Result<()> {
    let used = words(plane, "pods", "{.items[*].spec.nodeName}")?;
    let nodes = names(plane, "nodes")?;
    let empty: Vec<&String> = nodes.iter().filter(|node| !used.contains(node)).collect();
    ensure!(empty.is_empty(), "bought twice: {empty:?} are empty");
    Ok(())
}

fn scale_and_drain() -> Result<()> {
    let plane = ControlPlane::start("live-drain")?;
    plane.apply(&usual_pool())?;
    let daemon = Daemon::start(&plane.longshore_kubeconfig(), &[])?;
    plane.apply(&deployment("web", 30, ""))?;
    until("30 pods run", || Ok(running(&plane)? == 30))?;
    // One to the API server, two that it listens on, and those of its three runtimes. With a
    // connection for each watch it would be twice as many.
    let files = std::fs::read_dir(format!("/proc/{}/fd", daemon.child.id()))?.flatten();
    let links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    let sockets = links
        .filter(|link| link.to_string_lossy().starts_with("socket:"))
        .count();
    ensure!(
        (1..=12).contains(&sockets),
        "{sockets} sockets: is it HTTP/1.1?"
    );
    let first = names(&plane, "nodeclaims")?;
    ensure!(!first.is_empty(), "no NodeClaims");
    let pool = get(
        &plane,
        "nodepool/default",
        "{.status.conditions[?(@.type=='Ready')].status}",
    )?;
    ensure!(pool == "True", "NodePool Ready is {pool:?}");
    delete_claims(&plane, &first)?;
    moved(&plane, &first, 30)
}

fn killed() -> Result<()> {
    let plane = ControlPlane::start("live-kill")?;
    plane.apply(&usual_pool())?;
    plane.apply(&deployment("web", 40, ""))?;
    // Idle for a second, then plan, write, launch, register: every moment of that, a little later
    // each time.
    for moment in [
        200u64, 900, 1_300, 1_600, 1_900, 2_200, 2_600, 3_000, 3_500, 4_000,
    ] {
        let daemon = Daemon::start(&plane.longshore_kubeconfig(), &[])?;
        std::thread::sleep(Duration::from_millis(moment));
        drop(daemon);
    }
    let _daemon = Daemon::start(&plane.longshore_kubeconfig(), &[])?;
    until("40 pods run", || Ok(running(&plane)? == 40))?;
    until("every claim has a node and every node a claim", || {
        let claims = words(&plane, "nodeclaims", "{.items[*].status.nodeName}")?;
        let nodes = names(&plane, "nodes")?;
        let same = |a: &[String], b: &[String]| a.iter().all(|name| b.contains(name));
        Ok(!claims.is_empty() && claims.len() == nodes.len() && same(&claims, &nodes))
    })?;
    none_is_empty(&plane)
}

fn killed_draining() -> Result<()> {
    let plane = ControlPlane::start("live-kill-drain")?;
    plane.apply(&usual_pool())?;
    let daemon = Daemon::start(&plane.longshore_kubeconfig(), &[])?;
    plane.apply(&deployment("web", 30, ""))?;
    until("30 pods run", || Ok(running(&plane)? == 30))?;
    drop(daemon);
    let first = names(&plane, "nodeclaims")?;
    delete_claims(&plane, &first)?;
    // Taint, evict, wait, buy for those that were evicted, end: every moment of that.
    for moment in [
        200u64, 700, 1_000, 1_300, 1_600, 2_000, 2_500, 3_000, 3_500, 4_500,
    ] {
        let daemon = Daemon::start(&plane.longshore_kubeconfig(), &[])?;
        std::thread::sleep(Duration::from_millis(moment));
        drop(daemon);
    }
    let _daemon = Daemon::start(&plane.longshore_kubeconfig(), &[])?;
    moved(&plane, &first, 30)
}

fn frozen() -> Result<()> {
    let plane = ControlPlane::start("live-frozen")?;
    plane.apply(&usual_pool())?;
    let first = Daemon::compete(&plane.replica_kubeconfig("first")?, &[])?;
    until("the first leads", || Ok(!holder(&plane)?.is_empty()))?;
    let (old, token) = (holder(&plane)?, only_credential(&plane)?);
    let second = Daemon::compete(&plane.replica_kubeconfig("second")?, &[])?;
    plane.apply(&deployment("web", 10, ""))?;
    until("10 pods run", || Ok(running(&plane)? == 10))?;
    // Work is waiting for the first when it is frozen, in the middle of a batching window.
    plane.apply(&deployment("more", 20, ""))?;
    std::thread::sleep(Duration::from_millis(800));
    first.signal("STOP")?;
    let begun = Instant::now();
    until("the second leads", || Ok(holder(&plane)? != old))?;
    ensure!(
        begun.elapsed() < Duration::from_secs(25),
        "hand-over took {:?}",
        begun.elapsed()
    );
    until("30 pods run", || Ok(running(&plane)? == 30))?;
    std::thread::sleep(Duration::from_secs(60).saturating_sub(begun.elapsed()));
    let before = plane.requests()?;
    let of_first = |request: &&Request| request.credential == token;
    // A log that does not have what it wrote as a leader would not have what it writes now.
    let bought = before
        .iter()
        .filter(of_first)
        .filter(|request| request.resource == "nodeclaims" && request.changed());
    ensure!(
        bought.count() > 0,
        "the audit log has nothing that the first wrote as a leader"
    );
    let claims = || words(&plane, "nodeclaims", "{.items[*].metadata.uid}");
    let claimed = claims()?;
    first.signal("CONT")?;
    until("the thawed one asks for the Lease again", || {
        let since = plane.requests()?.split_off(before.len());
        Ok(since
            .iter()
            .filter(of_first)
            .any(|request| request.resource == "leases"))
    })?;
    // What it had planned, or would plan now, is written within this time.
    std::thread::sleep(Duration::from_secs(8));
    let since = plane.requests()?.split_off(before.len());
    let written: Vec<&Request> = since
        .iter()
        .filter(of_first)
        .filter(|request| request.changed())
        .collect();
    ensure!(written.is_empty(), "the thawed one wrote {written:?}");
    ensure!(
        claims()? == claimed,
        "the claims are not those of before: {claimed:?}, now {:?}",
        claims()?
    );
    ensure!(
        holder(&plane)? != old,
        "the thawed one took the Lease from one that renews it"
    );
    none_is_empty(&plane)?;
    // A clean stop hands over at once, not after the Lease has run out.
    second.signal("TERM")?;
    let begun = Instant::now();
    until("the first leads again", || Ok(holder(&plane)? == old))?;
    ensure!(
        begun.elapsed() < Duration::from_secs(8),
        "hand-over after a clean stop took {:?}",
        begun.elapsed()
    );
    Ok(())
}

/// The token that all requests of the daemon's account were made with.
fn only_credential(plane: &ControlPlane) -> Result<String> {
    let requests = plane.requests()?;
    let used: BTreeSet<String> = requests
        .into_iter()
        .map(|request| request.credential)
        .collect();
    let [only] = &Vec::from_iter(used)[..] else {
        bail!("not one token was used")
    };
    ensure!(!only.is_empty(), "the audit log does not tell tokens apart");
    Ok(only.clone())
}
