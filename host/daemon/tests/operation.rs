//! How the daemon is operated, on a real control plane: bad surroundings are said and waited for, a
//! cloud that is short is not asked in vain, and what an operator looks at shows what he knows.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use longshore_xtask::control_plane::{self, ControlPlane};

use crate::plane::{self, CLASS, Daemon, Suite, deployment, get, pool, running, until, usual_pool};

pub fn suite() -> Suite {
    Suite::new(
        "operation",
        None,
        &[
            (
                "what_is_missing_in_the_cluster_is_said_and_waited_for",
                missing,
            ),
            (
                "offerings_without_capacity_are_left_out_until_they_are_asked_for_again",
                storm,
            ),
            ("default_spread_constraints_are_planned_with", spread),
            ("metrics_tell_of_pods_nodes_and_claims", metrics),
            (
                "silent_connections_on_every_port_keep_no_probe_and_no_scrape_out",
                silent_connections,
            ),
        ],
        &[
            ("a_server_that_cannot_be_reached_is_waited_for", unreachable),
            (
                "what_cannot_be_understood_at_the_start_is_refused_with_a_hint",
                refused,
            ),
        ],
    )
}

impl Daemon {
    fn says(&self, what: &str) -> Result<bool> {
        Ok(self.log()?.contains(what))
    }

    /// What `longshore ARGUMENTS --at …` prints.
    fn ask(&self, args: &[&str]) -> Result<String> {
        let out = Command::new(env!("CARGO_BIN_EXE_longshore"))
            .args(args)
            .args(["--at", &format!("127.0.0.1:{}", self.status)])
            .output()?;
        ensure!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        Ok(String::from_utf8(out.stdout)?)
    }

    fn metrics(&self) -> Result<String> {
        let url = format!("http://127.0.0.1:{}/metrics", self.port);
        Ok(ureq::get(&url).call()?.body_mut().read_to_string()?)
    }

    fn metric(&self, line: &str) -> Result<Option<f64>> {
        Ok(self
            .metrics()?
            .lines()
            .find_map(|l| l.strip_prefix(line)?.trim().parse().ok()))
    }

    fn lives(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("the daemon has ended: {status}\n{}", self.log()?),
        }
    }
}

fn scratch(name: &str, text: &str) -> Result<PathBuf> {
    let file =
        std::env::temp_dir().join(format!("longshore-operation-{}-{name}", std::process::id()));
    std::fs::write(&file, text)?;
    Ok(file)
}

/// A kubeconfig of a server that is not there.
fn nowhere(name: &str) -> Result<PathBuf> {
    let config = format!(
        "{{apiVersion: v1, kind: Config, current-context: x, contexts: [{{name: x, context: \
        {{cluster: x, user: x}}}}], \
         clusters: [{{name: x, cluster: {{server: 'http://127.0.0.1:{}'}}}}], users: [{{name: x, user: {{}}}}]}}",
        control_plane::free_ports::<1>()?[0]
    );
    scratch(name, &config)
}

fn unreachable() -> Result<()> {
    let config = nowhere("unreachable")?;
    let mut daemon = Daemon::start(&config, &[])?;
    until("it says that it cannot list", || {
        daemon.says("cannot list nodepools")
    })?;
    until("its status says so", || {
        Ok(daemon
            .ask(&["status"])?
            .contains("starting: initial lists are not complete"))
    })?;
    plane::stays(5, "it lives, and says the trouble once", || {
        daemon.lives()?;
        Ok(daemon.log()?.matches("cannot list nodepools").count() == 1)
    })?;
    ensure!(
        daemon
            .ask(&["status"])?
            .contains("trouble   NodePool: cannot list nodepools"),
        "{}",
        daemon.ask(&["status"])?
    );
    Ok(())
}

fn refused() -> Result<()> {
    let config = scratch("bad.toml", "[planing]\nseed = 'x'\n")?;
    let spread = scratch(
        "bad.yaml",
        "podTopologySpread:\n  defaultConstraints:\n  - {maxSkew: 0}\n",
    )?;
    let text = |path: &Path| path.display().to_string();
    let none = nowhere("refused")?;
    for (args, said) in [
        (
            vec!["--config".to_owned(), text(&config)],
            vec![
                format!("{}:1:2", text(&config)),
                "did you mean `planning`?".into(),
            ],
        ),
        (
            vec!["--scheduler-config".to_owned(), text(&spread)],
            vec![format!("{}:3", text(&spread)), "not a policy".into()],
        ),
        (
            vec!["--metric-port=1".to_owned()],
            vec!["--metric-port".into(), "'--metrics-port'".into()],
        ),
        (
            vec!["--status-address=8082".to_owned()],
            vec!["STATUS_ADDRESS (--status-address)".into()],
        ),
        (
            vec!["--batch-idle-duration=soon".to_owned()],
            vec!["BATCH_IDLE_DURATION (--batch-idle-duration)".into()],
        ),
        (
            vec!["--journal".to_owned(), "/proc/nowhere".into()],
            vec!["/proc/nowhere".into()],
        ),
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_longshore"))
            .args(["run", "--kubeconfig"])
            .arg(&none)
            .args(&args)
            .args(
                [
                    "--metrics-port=0",
                    "--health-probe-port=0",
                    "--status-address=127.0.0.1:0",
                ]
                .iter()
                .filter(|_| !args[0].starts_with("--metric-port"))
                // Given twice it would be refused for that.
                .filter(|given| given.split('=').next() != args[0].split('=').next()),
            )
            .output()?;
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        ensure!(
            out.status.code() == Some(2),
            "{args:?}: {}\n{stderr}",
            out.status
        );
        for part in said {
            ensure!(
                stderr.contains(&part),
                "{args:?} says nothing of {part}:\n{stderr}"
            );
        }
    }
    Ok(())
}

fn deploy(name: &str) -> Result<String> {
    let path = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap())
        .join("../../deploy")
        .join(name);
    Ok(path
        .canonicalize()?
        .to_str()
        .context("a path that is no text")?
        .to_owned())
}

fn missing() -> Result<()> {
    let plane = ControlPlane::start("operation-missing")?;
    // No definition of NodePools, an old one of KWOKNodeClasses, and no rights to list pods.
    plane.run(&["delete", "crd", "nodepools.karpenter.sh"])?;
    let old = r#"[{"op": "remove", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/nodeRegistrationDelay"}]"#;
    plane.run(&[
        "patch",
        "crd",
        "kwoknodeclasses.karpenter.kwok.sh",
        "--type=json",
        "--patch",
        old,
    ])?;
    let rights = plane.run(&["get", "clusterrole", "longshore", "-o", "json"])?;
    let mut role: serde_json::Value = serde_json::from_str(&rights)?;
    for rule in role["rules"].as_array_mut().context("no rules")? {
        if let Some(resources) = rule["resources"].as_array_mut() {
            resources.retain(|r| r != "pods");
        }
    }
    role["rules"]
        .as_array_mut()
        .context("no rules")?
        .retain(|rule| rule["resources"] != serde_json::json!([]));
    role["metadata"] = serde_json::json!({"name": "longshore"});
    let file = scratch("role.json", &role.to_string())?;
    plane.run(&[
        "replace",
        "-f",
        file.to_str().context("a path that is no text")?,
    ])?;
    let mut daemon = Daemon::start(&plane.longshore_kubeconfig(), &[])?;
    let install = "kubectl apply --server-side --force-conflicts -f deploy/crds";
    until(
        "the missing definition is said, with what installs it",
        || {
            Ok(
                daemon.says("nodepools of karpenter.sh/v1 are not known to the cluster")?
                    && daemon.says(install)?,
            )
        },
    )?;
    until("the missing right is said", || {
        daemon.says("missing RBAC permission: list pods; kubectl apply -f deploy/rbac.yaml")
    })?;
    until("the old definition is said", || {
        daemon.says("drops the fields spec.nodeRegistrationDelay")
    })?;
    until("its status says so", || {
        let status = daemon.ask(&["status"])?;
        Ok(status.contains("starting: initial lists")
            && status.contains("trouble   Pod: missing RBAC"))
    })?;
    daemon.lives()?;
    plane.run(&[
        "apply",
        "--server-side",
        "--force-conflicts",
        "-f",
        &deploy("crds")?,
    ])?;
    plane.run(&["replace", "-f", &deploy("rbac.yaml")?])?;
    until("it goes on by itself", || {
        Ok(daemon.ask(&["status"])?.starts_with("daemon    leads"))
    })?;
    // A NodePool with a missing class, the only class of its kind at first, keeps no other NodePool
    // from nodes.
    plane.apply(&pool("orphan", "nowhere", ""))?;
    let reason = "{.status.conditions[?(@.type=='NodeClassReady')].reason}";
    until("the NodePool says so", || {
        Ok(get(&plane, "nodepool/orphan", reason)? == "NodeClassNotFound")
    })?;
    let events = || {
        plane.run(&[
            "get",
            "events",
            "-o",
            "jsonpath={range .items[*]}{.involvedObject.name} {.message}{'\\n'}{end}",
        ])
    };
    until("an Event says so", || {
        Ok(events()?
            .lines()
            .any(|l| l.starts_with("orphan ") && l.contains("NodeClassNotFound")))
    })?;
    plane.apply(&deployment("web", 3, ""))?;
    until("the pods are told", || {
        Ok(events()?.contains("Failed to schedule pod"))
    })?;
    ensure!(
        get(&plane, "nodeclaims", "{.items[*].metadata.name}")?.is_empty(),
        "it bought for a NodePool without class"
    );
    plane.apply(&usual_pool())?;
    until("the pods run on the other's nodes", || {
        Ok(running(&plane)? == 3)
    })?;
    let table = plane.run(&["get", "nodepools,nodeclaims", "-o", "wide"])?;
    let heads: Vec<Vec<&str>> = table
        .lines()
        .filter(|l| l.starts_with("NAME"))
        .map(|l| l.split_whitespace().collect())
        .collect();
    let pools = [
        "NAME",
        "NODECLASS",
        "NODES",
        "READY",
        "AGE",
        "WEIGHT",
        "CPU",
        "MEMORY",
    ];
    let claims = [
        "NAME",
        "TYPE",
        "CAPACITY",
        "ZONE",
        "NODE",
        "READY",
        "AGE",
        "IMAGEID",
        "ID",
        "NODEPOOL",
        "NODECLASS",
        "DRIFTED",
    ];
    ensure!(heads == [pools.to_vec(), claims.to_vec()], "{table}");
    let row = table
        .lines()
        .find(|l| l.starts_with("nodeclaim.karpenter.sh/default-"))
        .context("no claim")?;
    let cells: Vec<&str> = row.split_whitespace().collect();
    ensure!(
        cells.len() >= 10 && cells[5] == "True" && cells[9] == "default",
        "{table}"
    );
    daemon.lives()
}

fn storm() -> Result<()> {
    let plane = ControlPlane::start("operation-storm")?;
    // Spot is short in the first zone; then nothing can be had at all.
    let short = "kwok.longshore.dev/no-capacity: '*/*/spot'";
    plane.apply(CLASS)?;
    plane.apply(&pool("default", "default", short))?;
    let daemon = Daemon::start(&plane.longshore_kubeconfig(), &[])?;
    plane.apply(&deployment(
        "web",
        5,
        "nodeSelector: {karpenter.sh/capacity-type: spot}",
    ))?;
    let gauge = "longshore_offerings_without_capacity{capacity_type=\"spot\",zone=\"test-zone-a\"}";
    until("the shortage is counted", || {
        Ok(daemon.metric(gauge)?.is_some_and(|n| n > 0.0))
    })?;
    until("the pods are told until when", || {
        let status = daemon.ask(&["status"])?;
        Ok(status.contains("are unavailable until") && status.contains("capacity  "))
    })?;
    let pod = get(&plane, "pods", "{.items[0].metadata.name}")?;
    let explained = daemon.ask(&["explain", "pod", &format!("default/{pod}")])?;
    ensure!(explained.contains("are unavailable until"), "{explained}");
    let events = plane.run(&["get", "events", "-o", "jsonpath={.items[*].reason}"])?;
    ensure!(events.contains("InsufficientCapacityError"), "{events}");
    // A claim for each shape of need, and no other for three minutes.
    let made = || Ok::<_, anyhow::Error>(daemon.log()?.matches("created NodeClaim").count());
    let before = made()?;
    plane::stays(25, "no other NodeClaim is made", || Ok(made()? == before))?;
    // Pods that may run elsewhere do, at once.
    let begun = Instant::now();
    plane.apply(&deployment("any", 5, ""))?;
    until("pods that need no spot run", || Ok(running(&plane)? == 5))?;
    ensure!(
        begun.elapsed() < Duration::from_secs(20),
        "it took {:?}",
        begun.elapsed()
    );
    let kinds = get(
        &plane,
        "nodeclaims",
        "{.items[*].metadata.labels.karpenter\\.sh/capacity-type}",
    )?;
    ensure!(
        kinds.split_whitespace().all(|kind| kind == "on-demand"),
        "{kinds}"
    );
    // It comes back when it is asked for again.
    plane.run(&["annotate", "kwoknodeclass", "default", "a=b"])?;
    plane.run(&[
        "patch",
        "nodepool",
        "default",
        "--type=json",
        "--patch",
        r#"[{"op": "remove", "path": "/spec/template/metadata/annotations"}]"#,
    ])?;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(240) && running(&plane)? < 10 {
        std::thread::sleep(Duration::from_secs(2));
    }
    ensure!(
        running(&plane)? == 10,
        "spot was not asked for again:\n{}",
        daemon.log()?
    );
    Ok(())
}

fn spread() -> Result<()> {
    let plane = ControlPlane::start("operation-spread")?;
    plane.apply(&usual_pool())?;
    let config = "{podTopologySpread: {defaultConstraints: [{maxSkew: 1, topologyKey: \
        topology.kubernetes.io/zone, \
                  whenUnsatisfiable: DoNotSchedule}]}}";
    let daemon = Daemon::start(
        &plane.longshore_kubeconfig(),
        &["--scheduler-config", config, "--isolated-vpc"],
    )?;
    plane.apply(&deployment("web", 8, ""))?;
    until("8 pods run", || Ok(running(&plane)? == 8))?;
    let zones = get(
        &plane,
        "nodeclaims",
        "{.items[*].metadata.labels.topology\\.kubernetes\\.io/zone}",
    )?;
    let distinct: std::collections::BTreeSet<&str> = zones.split_whitespace().collect();
    ensure!(distinct.len() == 4, "nodes are in {zones}");
    ensure!(
        daemon.says("ISOLATED_VPC (--isolated-vpc) is set and has no effect")?,
        "{}",
        daemon.log()?
    );
    Ok(())
}

fn metrics() -> Result<()> {
    let plane = ControlPlane::start("operation-metrics")?;
    plane.apply(&usual_pool())?;
    let daemon = Daemon::start(&plane.longshore_kubeconfig(), &[])?;
    plane.apply(&deployment("web", 6, ""))?;
    plane.apply(&deployment(
        "huge",
        1,
        "nodeSelector: {node.kubernetes.io/instance-type: none-such}",
    ))?;
    until("6 pods run", || Ok(running(&plane)? == 6))?;
    let nodes = plane::names(&plane, "nodes")?.len();
    // The running pods were planned for, and the pending one is reported as pending.
    let expected = [
        ("karpenter_pods_state{", "phase=\"Running\"", 6),
        ("karpenter_pods_unbound_time_seconds{", "name=\"huge-", 1),
        (
            "karpenter_nodes_allocatable{",
            "resource_type=\"cpu\"",
            nodes,
        ),
        (
            "karpenter_nodes_total_pod_requests{",
            "nodepool=\"default\"",
            3 * nodes,
        ),
        (
            "operator_nodeclaim_status_condition_count{",
            "type=\"Initialized\",status=\"True\"",
            nodes,
        ),
        (
            "operator_node_status_condition_count{",
            "type=\"Ready\",status=\"True\"",
            nodes,
        ),
        (
            "karpenter_nodepools_cost_total{nodepool=\"default\"}",
            "",
            1,
        ),
    ];
    let counted = |name: &str, value: usize| {
        Ok::<_, anyhow::Error>(daemon.metric(name)? == Some(value as f64))
    };
    until("metrics say so", || {
        let text = daemon.metrics()?;
        let lines = |name: &str, label: &str| {
            text.lines()
                .filter(|l| l.starts_with(name) && l.contains(label))
                .count()
        };
        for (name, label, count) in expected {
            ensure!(
                lines(name, label) == count,
                "{} of {name} with {label}, not {count}",
                lines(name, label)
            );
        }
        Ok(counted(
            "karpenter_pods_provisioning_startup_duration_seconds_count",
            6,
        )? && counted(
            "karpenter_pods_scheduling_decision_duration_seconds_count",
            7,
        )? && counted(
            "karpenter_nodes_created_total{nodepool=\"default\",zone=\"test-zone-a\"}",
            nodes,
        )? && counted(
            "karpenter_scheduler_unschedulable_pods_count{controller=\"provisioner\"}",
            1,
        )?)
    })
}

/// Five hundred connections on each port, that send nothing or half a request, and a scrape that is
/// read slowly.
fn silent_connections() -> Result<()> {
    let plane = ControlPlane::start("operation-silent")?;
    plane.apply(&usual_pool())?;
    let mut daemon = Daemon::start(&plane.longshore_kubeconfig(), &[])?;
    plane.apply(&deployment("web", 6, ""))?;
    until("6 pods run", || Ok(running(&plane)? == 6))?;
    let to = |port: u16| TcpStream::connect(("127.0.0.1", port));
    let mut slow = to(daemon.port)?;
    slow.set_read_timeout(Some(Duration::from_secs(5)))?;
    slow.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")?;
    let mut silent = Vec::new();
    for number in 0..500 {
        for port in [daemon.port, daemon.probes, daemon.status] {
            let mut connection = to(port)?;
            // What was displaced does not take it any more.
            if number % 2 == 0 {
                _ = connection.write_all(b"GET /healthz HTTP/1.1\r\nHost: a");
            }
            silent.push(connection);
        }
    }
    let probe = |path: &str| -> Result<Duration> {
        let begun = Instant::now();
        let url = format!("http://127.0.0.1:{}/{path}", daemon.probes);
        ensure!(ureq::get(&url).call()?.status() == 200, "{path}");
        Ok(begun.elapsed())
    };
    let mut worst = Duration::ZERO;
    let mut scraped = Vec::new();
    for _ in 0..30 {
        worst = worst.max(probe("healthz")?).max(probe("readyz")?);
        let mut some = [0; 200];
        let read = slow.read(&mut some)?;
        scraped.extend_from_slice(&some[..read]);
        std::thread::sleep(Duration::from_millis(100));
    }
    ensure!(worst < Duration::from_secs(1), "a probe took {worst:?}");
    ensure!(
        scraped.starts_with(b"HTTP/1.1 200") && scraped.len() > 3_000,
        "the slow scrape got {} bytes",
        scraped.len()
    );
    ensure!(daemon.metrics()?.contains("karpenter_pods_state"));
    ensure!(daemon.ask(&["status"])?.starts_with("daemon    leads"));
    // The loop goes on beside them.
    plane.apply(&deployment("more", 4, ""))?;
    until("10 pods run", || Ok(running(&plane)? == 10))?;
    drop(silent);
    daemon.lives()
}
