//! Two replicas under a supervisor on a real control plane, and `kubectl delete pod` of the leader
//! in the midst of a launch: it is asked to stop, and another replica is started at once.
//! `LONGSHORE_HANDOVERS` says how often (2).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use longshore_xtask::control_plane::{ControlPlane, Request};

use crate::plane::{
    Daemon, Suite, delete_claims, deployment, get, holder, names, running, until, usual_pool,
    within, words,
};

const PODS: usize = 40;
/// Small nodes, so that a launch is several.
const NODES: &str = "nodeSelector: {node.kubernetes.io/instance-type: c-4x-amd64-linux}";
/// A pod's grace period, after which the kubelet kills it.
const GRACE: u64 = 30;

pub fn suite() -> Suite {
    let name =
        "a_leader_deleted_in_the_midst_of_a_launch_leaves_the_same_nodes_and_none_bought_twice";
    Suite::new("deleted_leader", None, &[(name, deleted)], &[])
}

fn deleted() -> Result<()> {
    let times: u64 = std::env::var("LONGSHORE_HANDOVERS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(2);
    let plane = ControlPlane::start("deleted-leader")?;
    plane.apply(&usual_pool())?;
    let mut replicas = Replicas::start(&plane)?;
    let expected = launch(&plane, "undisturbed", || Ok(()))?.nodes;
    ensure!(
        expected.len() > 4,
        "too few nodes to be in the midst of them: {expected:?}"
    );
    eprintln!("undisturbed: {expected:?}");
    for turn in 0..times {
        let name = format!("turn{turn}");
        // From the first NodeClaim on, a little later each time: written, launched, registered.
        let delay = Duration::from_millis(turn % 10 * 250);
        let mut said = String::new();
        let launched = launch(&plane, &name, || {
            claims_are_written(&plane)?;
            std::thread::sleep(delay);
            said = replicas.delete_leader(&plane)?;
            Ok(())
        })?;
        eprintln!(
            "{name}: deleted {delay:?} after the first NodeClaim; {said}; pods run after {:?}",
            launched.took
        );
        ensure!(
            launched.nodes == expected,
            "{name}: nodes {:?} instead of {expected:?}",
            launched.nodes
        );
    }
    Ok(())
}

/// What came of a launch.
struct Launched {
    /// Instance type, zone and capacity type of each node, sorted.
    nodes: Vec<String>,
    took: Duration,
}

/// Pods come, something happens meanwhile, and all pods run; then all goes again.
fn launch(
    plane: &ControlPlane,
    name: &str,
    meanwhile: impl FnOnce() -> Result<()>,
) -> Result<Launched> {
    let before = plane.requests()?.len();
    let begun = Instant::now();
    plane.apply(&deployment(name, PODS, NODES))?;
    meanwhile()?;
    until(&format!("{PODS} pods run"), || Ok(running(plane)? == PODS))?;
    let took = begun.elapsed();
    until("every claim has a node and every node a claim", || {
        let claims: BTreeSet<String> = words(plane, "nodeclaims", "{.items[*].status.nodeName}")?
            .into_iter()
            .collect();
        Ok(claims == names(plane, "nodes")?.into_iter().collect())
    })?;
    nothing_is_bought_twice(plane, &plane.requests()?[before..])?;
    let nodes = nodes(plane)?;
    plane.run(&["delete", "deployment", name])?;
    delete_claims(plane, &names(plane, "nodeclaims")?)?;
    until("all nodes and claims are gone", || {
        Ok(names(plane, "nodes")?.is_empty()
            && names(plane, "nodeclaims")?.is_empty()
            && running(plane)? == 0)
    })?;
    Ok(Launched { nodes, took })
}

/// Each pod was bought for once, no claim was made in vain, and no node is empty.
fn nothing_is_bought_twice(plane: &ControlPlane, since: &[Request]) -> Result<()> {
    let claims = names(plane, "nodeclaims")?;
    let made = since.iter().filter(|request| is_purchase(request)).count();
    ensure!(
        made == claims.len(),
        "{made} NodeClaims were created, and {} are left",
        claims.len()
    );
    let planned = get(
        plane,
        "nodeclaims",
        r#"{range .items[*]}{.metadata.annotations.longshore\.dev/planned-pods},{end}"#,
    )?;
    let mut pods: Vec<&str> = planned.split(',').filter(|pod| !pod.is_empty()).collect();
    pods.iter_mut()
        .for_each(|pod| *pod = pod.split('~').next().unwrap_or(pod));
    // Pods that come after a plan may find room on its nodes: not each is planned for.
    let distinct: BTreeSet<&str> = pods.iter().copied().collect();
    ensure!(
        distinct.len() == pods.len(),
        "pods are planned for twice: {planned}"
    );
    let used = words(plane, "pods", "{.items[*].spec.nodeName}")?;
    let empty: Vec<String> = names(plane, "nodes")?
        .into_iter()
        .filter(|node| !used.contains(node))
        .collect();
    ensure!(empty.is_empty(), "bought twice: {empty:?} are empty");
    Ok(())
}

fn is_purchase(request: &Request) -> bool {
    request.resource == "nodeclaims" && request.verb == "create" && request.changed()
}

fn nodes(plane: &ControlPlane) -> Result<Vec<String>> {
    let label = |name: &str| format!("{{.metadata.labels.{}}}", name.replace('.', "\\."));
    let [kind, zone, capacity] = [
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "karpenter.sh/capacity-type",
    ]
    .map(label);
    let text = get(
        plane,
        "nodes",
        &format!("{{range .items[*]}}{kind} {zone} {capacity}{{\"\\n\"}}{{end}}"),
    )?;
    let mut nodes: Vec<String> = text.lines().map(str::to_owned).collect();
    nodes.sort();
    Ok(nodes)
}

/// Waits for a NodeClaim: there are none before.
fn claims_are_written(plane: &ControlPlane) -> Result<()> {
    within(
        60,
        Duration::from_millis(50),
        "a NodeClaim is written",
        || Ok(!names(plane, "nodeclaims")?.is_empty()),
    )
}

/// What a Deployment of two keeps running.
struct Replicas {
    kubeconfig: PathBuf,
    running: Vec<Daemon>,
}

impl Replicas {
    fn start(plane: &ControlPlane) -> Result<Self> {
        let kubeconfig = plane.longshore_kubeconfig();
        let first = Daemon::compete(&kubeconfig, &[])?;
        until("one leads", || Ok(!holder(plane)?.is_empty()))?;
        let second = Daemon::compete(&kubeconfig, &[])?;
        Ok(Replicas {
            kubeconfig,
            running: vec![first, second],
        })
    }

    /// Asks the leader to stop, starts another at once as a ReplicaSet does, and kills the old one
    /// after its grace period. Says how long things took.
    fn delete_leader(&mut self, plane: &ControlPlane) -> Result<String> {
        let old = holder(plane)?;
        let leads = |daemon: &Daemon| Ok::<_, anyhow::Error>(daemon.log()?.contains(&old));
        let mut at = None;
        for (n, daemon) in self.running.iter().enumerate() {
            if leads(daemon)? {
                at = Some(n);
            }
        }
        let mut leader = self
            .running
            .remove(at.with_context(|| format!("no replica says that it is {old:?}"))?);
        leader.signal("TERM")?;
        let begun = Instant::now();
        self.running.push(Daemon::compete(&self.kubeconfig, &[])?);
        let mut status = None;
        within(
            GRACE,
            Duration::from_millis(50),
            "the old leader ends",
            || {
                status = leader.child.try_wait()?;
                Ok(status.is_some())
            },
        )?;
        let ended = begun.elapsed();
        match status {
            Some(status) if status.success() => {}
            status => bail!("the old leader ends with {status:?}: {}", leader.log()?),
        }
        until("another leads", || {
            Ok(![old.as_str(), ""].contains(&holder(plane)?.as_str()))
        })?;
        Ok(format!(
            "it ended after {ended:?}, another led after {:?}",
            begun.elapsed()
        ))
    }
}
