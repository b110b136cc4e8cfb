//! Instances of an emulated EC2 as nodes of a real control plane: through the real SDK, with the
//! rights that `deploy/` ships. What instances join is read from their own user data.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use longshore_xtask::control_plane::ControlPlane;
use longshore_xtask::emulated_aws::EmulatedAws;
use serde_json::json;

#[allow(dead_code, reason = "its other user needs the rest")]
#[path = "plane/foreign.rs"]
mod foreign;
use super::plane::{
    self, Daemon, Suite, deployment, ensure_event, get, instance_of, names, objects, running,
    until, within,
};

pub fn suite() -> Suite {
    Suite::new(
        "aws_live",
        Some(1),
        &[
            ("pods_get_instances_and_give_them_back", up_and_down),
            (
                "an_interrupted_instance_is_drained_and_replaced",
                interrupted,
            ),
            ("offerings_without_capacity_are_passed_over", short),
            (
                "what_was_launched_is_found_again_by_a_restarted_daemon",
                restarted,
            ),
            ("a_class_says_what_it_lacks", lacking),
            ("nothing_of_another_provider_is_written_on_ec2", shared),
            ("a_bootstrap_policy_says_what_nodes_boot_with", booted),
            ("the_account_is_saved_as_a_world", saved),
        ],
        &[],
    )
}

const WORLD: &str = include_str!("../../emulator/data/small.json");

/// The emulated account: one that boots its instances within seconds.
fn emulator(plane: &ControlPlane) -> Result<EmulatedAws> {
    let account = json!({
        "roles": ["node"],
        "settings": {
            "startMilliseconds": [500, 1000], "bootMilliseconds": [1000, 2000],
            "stopMilliseconds": [1000, 2000], "lagMilliseconds": [0, 1000],
        },
    });
    let world = std::env::temp_dir().join(format!("longshore-world-{}.json", unique()));
    let text = WORLD.replacen('{', &format!("{{\"account\": {account},"), 1);
    std::fs::write(&world, text)?;
    let longshore = Path::new(env!("CARGO_BIN_EXE_longshore"));
    let started = EmulatedAws::start(longshore, &world, plane);
    // It is read before the emulator is ready.
    std::fs::remove_file(&world)?;
    started
}

/// How many calls of an action the emulator had.
fn calls(emulator: &EmulatedAws, action: &str) -> Result<usize> {
    let calls = emulator.ask("GET", "/_emulator/calls", &json!(null))?;
    let calls = calls["calls"].as_array().cloned().unwrap_or_default();
    Ok(calls.iter().filter(|call| call["action"] == action).count())
}

fn unique() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!(
        "{}-{}",
        std::process::id(),
        now.unwrap_or_default().as_nanos()
    )
}

fn daemon(plane: &ControlPlane, emulator: &EmulatedAws, more: &[&str]) -> Result<Daemon> {
    let arguments = [
        "--provider",
        "aws",
        "--cluster-name",
        "demo",
        "--disable-leader-election",
    ];
    let queue = ["--interruption-queue", &emulator.queue];
    let arguments = [&arguments[..], &queue, more].concat();
    Daemon::with(
        &plane.longshore_kubeconfig(),
        &arguments,
        &emulator.environment(),
    )
}

/// A class and a NodePool of spot and on-demand instances, with more of the class's spec.
fn manifests(more: &str) -> String {
    format!(
        "
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {{name: default}}
spec:
  role: node
  amiSelectorTerms: [{{alias: al2023@latest}}]
  subnetSelectorTerms: [{{tags: {{karpenter.sh/discovery: demo}}}}]
  securityGroupSelectorTerms: [{{tags: {{karpenter.sh/discovery: '*'}}}}]
  {more}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: default}}
spec:
  disruption: {{consolidateAfter: 10s}}
  template:
    metadata: {{labels: {{team: shop}}}}
    spec:
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
      requirements:
      - {{key: kubernetes.io/arch, operator: In, values: [amd64]}}
      - {{key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}}
"
    )
}

struct Scene {
    plane: ControlPlane,
    emulator: EmulatedAws,
    daemon: Daemon,
}

impl Scene {
    fn new(name: &str) -> Result<Self> {
        Scene::with(name, &[])
    }

    /// With more arguments of the daemon.
    fn with(name: &str, more: &[&str]) -> Result<Self> {
        let plane = ControlPlane::start(name)?;
        plane.apply(&manifests(""))?;
        let emulator = emulator(&plane)?;
        let daemon = daemon(&plane, &emulator, more)?;
        Ok(Scene {
            plane,
            emulator,
            daemon,
        })
    }

    /// Adds the daemon's last lines to an error.
    fn with_log<T>(&self, result: Result<T>) -> Result<T> {
        result.with_context(|| {
            let log = self.daemon.log().unwrap_or_default();
            let lines: Vec<&str> = log.lines().rev().take(40).collect();
            format!("the daemon's log, last line first:\n{}", lines.join("\n"))
        })
    }

    /// What the instances that live boot with.
    fn user_data(&self) -> Result<Vec<String>> {
        let world = self.emulator.ask("GET", "/_emulator/world", &json!(null))?;
        let instances = world["instances"].as_array().cloned().unwrap_or_default();
        let living = instances.iter().filter(|one| one["state"] == "running");
        let texts = living.map(|one| one["userData"].as_str().unwrap_or_default().to_owned());
        Ok(texts.collect())
    }

    fn ready(&self) -> Result<()> {
        let what = "ec2nodeclass/default";
        let path = "{.status.conditions[?(@.type=='Ready')].status}";
        until("the EC2NodeClass is ready", || {
            Ok(get(&self.plane, what, path)? == "True")
        })
    }

    fn run(&self, pods: usize) -> Result<()> {
        until(&format!("{pods} pods run"), || {
            Ok(running(&self.plane)? == pods)
        })
    }
}

fn up_and_down() -> Result<()> {
    let scene = Scene::new("aws-up-and-down")?;
    scene.with_log(scene.ready())?;
    scene.plane.apply(&deployment("web", 30, ""))?;
    scene.with_log(scene.run(30))?;
    let claims = objects(&scene.plane, "nodeclaims", &[])?;
    let nodes = objects(&scene.plane, "nodes", &[])?;
    let living = scene.emulator.instances()?;
    ensure!(
        claims.len() == nodes.len() && nodes.len() == living.len(),
        "{} NodeClaims, {} Nodes, {} instances",
        claims.len(),
        nodes.len(),
        living.len()
    );
    for claim in &claims {
        let annotations = &claim["metadata"]["annotations"];
        ensure!(
            annotations["karpenter.k8s.aws/ec2nodeclass-hash"].is_string(),
            "{claim}"
        );
        ensure!(
            annotations["karpenter.k8s.aws/ec2nodeclass-hash-version"] == "v6",
            "{claim}"
        );
    }
    for node in &nodes {
        let labels = &node["metadata"]["labels"];
        ensure!(
            labels["team"] == "shop" && labels["karpenter.sh/nodepool"] == "default",
            "{node}"
        );
        ensure!(
            labels["karpenter.k8s.aws/instance-family"].is_string(),
            "{node}"
        );
    }
    // One call may launch for several claims, but never more than one each.
    let fleets = calls(&scene.emulator, "CreateFleet")?;
    ensure!(
        fleets <= claims.len() + 2,
        "{fleets} calls for {} claims",
        claims.len()
    );
    let tagged = "{.items[*].metadata.annotations.karpenter\\.k8s\\.aws/tagged}";
    until("instances have the names of their nodes", || {
        let tagged = plane::words(&scene.plane, "nodeclaims", tagged)?;
        Ok(tagged.len() == claims.len())
    })?;
    scene
        .plane
        .run(&["scale", "deployment", "web", "--replicas=0"])?;
    let ended = within(
        240,
        Duration::from_secs(1),
        "everything is given back",
        || {
            let none = objects(&scene.plane, "nodes", &[])?.is_empty()
                && objects(&scene.plane, "nodeclaims", &[])?.is_empty();
            Ok(none && scene.emulator.instances()?.is_empty())
        },
    );
    scene.with_log(ended)
}

fn interrupted() -> Result<()> {
    let scene = Scene::new("aws-interrupted")?;
    scene.with_log(scene.ready())?;
    scene.plane.apply(&deployment("web", 3, ""))?;
    scene.with_log(scene.run(3))?;
    let before = names(&scene.plane, "nodeclaims")?;
    let living = scene.emulator.instances()?;
    let instance = living.first().context("an instance")?;
    let path = "{.items[*].spec.taints[*].key}";
    scene.emulator.faults(&json!([
        {"interrupt": {"instance": instance, "kind": "spot", "afterSeconds": 120}}
    ]))?;
    let sent = Instant::now();
    let tainted = within(
        30,
        Duration::from_millis(100),
        "its node is tainted",
        || Ok(get(&scene.plane, "nodes", path)?.contains("karpenter.sh/disrupted")),
    );
    scene.with_log(tainted)?;
    println!(
        "tainted {:.1} s after the message",
        sent.elapsed().as_secs_f64()
    );
    let replaced = until("it is replaced", || {
        let after = names(&scene.plane, "nodeclaims")?;
        let kept = after.iter().filter(|name| before.contains(name)).count();
        Ok(kept + 1 == before.len() && after.len() == before.len() && running(&scene.plane)? == 3)
    });
    scene.with_log(replaced)?;
    ensure_event(&scene.plane, "SpotInterrupted")
}

fn short() -> Result<()> {
    let scene = Scene::new("aws-short")?;
    scene.with_log(scene.ready())?;
    // No spot anywhere, and one zone has nothing at all.
    scene.emulator.faults(&json!([
        {"capacity": {"capacityType": "spot", "free": 0}},
        {"capacity": {"zone": "us-east-1a", "free": 0}},
    ]))?;
    scene.plane.apply(&deployment("web", 6, ""))?;
    scene.with_log(scene.run(6))?;
    for node in objects(&scene.plane, "nodes", &[])? {
        let labels = &node["metadata"]["labels"];
        ensure!(
            labels["karpenter.sh/capacity-type"] == "on-demand",
            "{labels}"
        );
        ensure!(
            labels["topology.kubernetes.io/zone"] != "us-east-1a",
            "{labels}"
        );
    }
    Ok(())
}

fn restarted() -> Result<()> {
    let mut scene = Scene::new("aws-restarted")?;
    scene.with_log(scene.ready())?;
    scene.plane.apply(&deployment("web", 20, ""))?;
    let begun = Instant::now();
    // Killed while it launches, several times.
    while running(&scene.plane)? < 20 {
        if begun.elapsed() > Duration::from_secs(180) {
            bail!("20 pods do not run; {}", scene.daemon.log()?);
        }
        std::thread::sleep(Duration::from_secs(3));
        scene.daemon = daemon(&scene.plane, &scene.emulator, &[])?;
        std::thread::sleep(Duration::from_secs(4));
    }
    // Whatever a launch left behind would be an instance without a claim.
    let settled = within(
        180,
        Duration::from_secs(2),
        "each instance has its claim",
        || {
            let mut instances = scene.emulator.instances()?;
            let ids = plane::words(&scene.plane, "nodeclaims", "{.items[*].status.providerID}")?;
            let mut claimed: Vec<String> =
                ids.iter().map(|id| instance_of(id).to_owned()).collect();
            instances.sort();
            claimed.sort();
            Ok(instances == claimed)
        },
    );
    scene.with_log(settled)
}

/// Nodes of EKS Auto Mode are instances of the same account. Their NodePools, NodeClaims and Nodes are not
/// ours, whatever is due for them.
fn shared() -> Result<()> {
    let plane = ControlPlane::start("aws-shared")?;
    let theirs = foreign::apply(&plane, |name| {
        let number = name.bytes().fold(7u64, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(byte.into())
        });
        format!("aws:///us-east-1a/i-{:017x}", number % (1 << 60))
    })?;
    plane.apply(&manifests(""))?;
    let before = foreign::versions(&plane, &theirs)?;
    let emulator = emulator(&plane)?;
    let daemon = daemon(&plane, &emulator, &["--feature-gates", "NodeRepair=true"])?;
    let scene = Scene {
        plane,
        emulator,
        daemon,
    };
    scene.with_log(scene.ready())?;
    scene.plane.apply(&deployment("web", 4, ""))?;
    scene.with_log(scene.run(4))?;
    scene
        .plane
        .run(&["scale", "deployment", "web", "--replicas=0"])?;
    // Emptiness, expiry, drift and two passes of garbage collection are due meanwhile.
    let ended = within(300, Duration::from_secs(1), "ours are given back", || {
        Ok(scene.emulator.instances()?.is_empty())
    });
    scene.with_log(ended)?;
    std::thread::sleep(Duration::from_secs(60 * minutes()));
    scene.with_log(foreign::none_written(&scene.plane, &theirs, &before))
}

/// `LONGSHORE_SHARED_MINUTES`, for a longer look.
fn minutes() -> u64 {
    let set = std::env::var("LONGSHORE_SHARED_MINUTES").ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(2)
}

fn lacking() -> Result<()> {
    let scene = Scene::new("aws-lacking")?;
    scene.with_log(scene.ready())?;
    let wrong = manifests("").replace("karpenter.sh/discovery: demo", "team: none");
    scene.plane.apply(&wrong)?;
    let what = "ec2nodeclass/default";
    let said = |field: &str| {
        let path = format!("{{.status.conditions[?(@.type=='SubnetsReady')].{field}}}");
        get(&scene.plane, what, &path)
    };
    let unready = until("it says that no subnet is found", || {
        Ok(said("status")? == "False" && said("reason")? == "SubnetsNotFound")
    });
    scene.with_log(unready)?;
    scene.plane.apply(&deployment("web", 1, ""))?;
    plane::stays(10, "nothing is launched", || {
        Ok(names(&scene.plane, "nodeclaims")?.is_empty())
    })?;
    scene.plane.apply(&manifests(""))?;
    scene.with_log(scene.run(1))
}

fn booted() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("longshore-boot-{}", unique()));
    std::fs::create_dir(&folder)?;
    let config = folder.join("longshore.toml");
    let write = |policy: &Path, settings: &str| {
        let text = format!(
            "[[policy]]\nname = 'boot'\npath = '{}'\ngrants = ['bootstrap']\n",
            policy.display()
        );
        std::fs::write(&config, format!("{text}[policy.settings]\n{settings}\n"))
    };
    let template = "template = '#!/bin/bash\\necho hello {{ node-pool }}\\n'";
    let template = template.replace('\'', "\"");
    write(
        &longshore_xtask::guests::plugin("bootstrap-template"),
        &template,
    )?;
    let path = config.to_str().context("a path")?;
    let scene = Scene::with("aws-booted", &["--config", path])?;
    scene.with_log(scene.ready())?;
    scene.plane.apply(&deployment("first", 1, ""))?;
    scene.with_log(scene.run(1))?;
    let texts = scene.user_data()?;
    ensure!(
        !scene.daemon.log()?.contains("PolicyRefused"),
        "{}",
        scene.daemon.log()?
    );
    ensure!(
        texts.len() == 1 && texts[0].contains("echo hello default"),
        "{texts:?}"
    );

    // One that nodes cannot boot with is refused: the version before it answers.
    write(
        &longshore_xtask::guests::build_hostile_bootstrap()?,
        "mode = 'no-join'",
    )?;
    let refused = until("it is said that it fails", || {
        Ok(scene.daemon.log()?.contains("boot 6.6.6: user-data"))
    });
    scene.with_log(refused)?;
    scene.plane.apply(&deployment("second", 8, ""))?;
    scene.with_log(scene.run(9))?;
    let nodes = objects(&scene.plane, "nodes", &[])?.len();
    let texts = scene.user_data()?;
    ensure!(
        texts.len() == nodes && nodes > 1,
        "{nodes} nodes, {texts:?}"
    );
    ensure!(
        texts.iter().all(|text| text.contains("hello default")),
        "{texts:?}"
    );
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// `types --save-world` writes what `plan --world` reads.
fn saved() -> Result<()> {
    let plane = ControlPlane::start("aws-saved")?;
    let emulator = emulator(&plane)?;
    let folder = std::env::temp_dir().join(format!("longshore-saved-{}", unique()));
    std::fs::create_dir_all(&folder)?;
    let (world, cluster) = (folder.join("world.json.gz"), folder.join("cluster.yaml"));
    let run = |arguments: &[&str], file: &Path| -> Result<String> {
        let done = Command::new(env!("CARGO_BIN_EXE_longshore"))
            .args(arguments)
            .arg(file)
            .envs(emulator.environment())
            .output()?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        ensure!(done.status.success(), "{arguments:?}: {said}");
        Ok(String::from_utf8(done.stdout)?)
    };
    let output = run(&["types", "--provider", "aws", "--save-world"], &world)?;
    ensure!(output.contains(" in 3 zones of us-east-1, "), "{output}");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Pending", "conditions":
            [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}});
    std::fs::write(&cluster, format!("{}\n---\n{pod}\n", manifests("")))?;
    let world = world.to_str().context("a path")?;
    let plan = ["plan", "-o", "json", "--world", world, "--snapshot"];
    let plan: serde_json::Value = serde_json::from_str(&run(&plan, &cluster)?)?;
    ensure!(
        plan["claims"].as_array().is_some_and(|all| all.len() == 1),
        "{plan}"
    );
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
