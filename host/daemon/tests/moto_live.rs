//! The daemon on an AWS that was not written here: moto's server (`pip install 'moto[server]'
//! boto3`), with a real control plane. Minutes, so nothing runs it by itself:
//!
//! `cargo test -p longshore --features aws --test on_aws -- moto_live::`
//!
//! Not run where python3 has no moto; `LONGSHORE_PYTHON` names another python3. What moto has not is
//! listed in `aws/tests/moto.rs`. Besides, its fleets give instances no security groups. So nodes
//! drift, and the budget for that is 0 here.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use longshore_xtask::control_plane::ControlPlane;
use serde_json::{Value, json};

use super::plane::{
    self, Daemon, Suite, deployment, ensure_event, get, instance_of, names, objects, running,
    within,
};

const TESTS: [plane::Test; 6] = [
    ("pods_get_instances_and_give_them_back", up_and_down),
    ("an_interrupted_instance_is_replaced", interrupted),
    ("another_image_drifts", drifted),
    ("what_is_gone_on_one_side_goes_on_the_other", garbage),
    ("another_replica_takes_over", handed_over),
    ("a_profile_that_is_seen_late_delays_a_class_by_little", late),
];

pub fn suite() -> Suite {
    let Some(reason) = missing() else {
        return Suite::new("moto_live", Some(1), &TESTS, &[]);
    };
    let not_run = |suite: Suite, (name, test): plane::Test| {
        suite.test(&format!("{name} (not run: {reason})"), true, test)
    };
    TESTS
        .into_iter()
        .fold(Suite::empty("moto_live", Some(1)), not_run)
}

fn python() -> Command {
    let named = std::env::var("LONGSHORE_PYTHON");
    Command::new(named.unwrap_or_else(|_| "python3".to_owned()))
}

fn missing() -> Option<String> {
    let import = ["-c", "import boto3, moto.server"];
    match python().args(import).output() {
        Err(error) => Some(format!("python3: {error}")),
        Ok(done) if done.status.success() => None,
        Ok(_) => Some("python3 has no moto[server] or no boto3".to_owned()),
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/moto")
        .join(name)
}

/// moto's server with an account; ended when it is dropped.
struct Moto {
    child: Child,
    url: String,
}

impl Moto {
    /// One that shows a new instance profile to launches after so many seconds.
    fn start(late: u32) -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = python()
            .arg(script("server.py"))
            .args([port.to_string(), late.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let url = format!("http://127.0.0.1:{port}");
        let moto = Moto { child, url };
        let every = Duration::from_millis(200);
        within(120, every, "moto's server listens", || {
            Ok(TcpStream::connect(("127.0.0.1", port)).is_ok())
        })?;
        moto.account(&["prepare"])?;
        Ok(moto)
    }

    /// Runs the script that changes the account, and returns what it prints.
    fn account(&self, what: &[&str]) -> Result<String> {
        let done = python()
            .arg(script("account.py"))
            .arg(&self.url)
            .args(what)
            .output()?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        ensure!(done.status.success(), "{what:?}: {said}");
        Ok(String::from_utf8(done.stdout)?.trim().to_owned())
    }

    /// IDs of the instances that live.
    fn living(&self) -> Result<Vec<String>> {
        Ok(serde_json::from_str(&self.account(&["living"])?)?)
    }

    /// Names of two images.
    fn images(&self) -> Result<[String; 2]> {
        Ok(serde_json::from_str(&self.account(&["images"])?)?)
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A class that boots an image, and a NodePool of it.
fn manifests(image: &str) -> String {
    format!(
        "
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {{name: default}}
spec:
  role: node
  amiFamily: AL2023
  amiSelectorTerms: [{{name: {image}, owner: '137112412989'}}]
  subnetSelectorTerms: [{{tags: {{karpenter.sh/discovery: demo}}}}]
  securityGroupSelectorTerms: [{{tags: {{karpenter.sh/discovery: '*'}}}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: default}}
spec:
  disruption:
    consolidateAfter: 10s
    budgets: [{{nodes: '0', reasons: [Drifted]}}, {{nodes: '100%', reasons: [Empty]}}]
  template:
    spec:
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
      requirements:
      - {{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m5.xlarge]}}
      - {{key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}}
"
    )
}

struct Scene {
    plane: ControlPlane,
    moto: Moto,
    daemon: Daemon,
    images: [String; 2],
}

impl Scene {
    fn new(name: &str) -> Result<Self> {
        Scene::with(name, 0, &["--disable-leader-election"])
    }

    fn with(name: &str, late: u32, more: &[&str]) -> Result<Self> {
        let plane = ControlPlane::start(name)?;
        let moto = Moto::start(late)?;
        let images = moto.images()?;
        let daemon = daemon(&plane, &moto, more)?;
        Ok(Scene {
            plane,
            moto,
            daemon,
            images,
        })
    }

    /// With a class that is ready.
    fn ready(name: &str) -> Result<Self> {
        let scene = Scene::new(name)?;
        scene.plane.apply(&manifests(&scene.images[0]))?;
        scene.until(120, "the EC2NodeClass is ready", || scene.class_is_ready())?;
        Ok(scene)
    }

    fn class_is_ready(&self) -> Result<bool> {
        let path = "{.status.conditions[?(@.type=='Ready')].status}";
        Ok(get(&self.plane, "ec2nodeclass/default", path)? == "True")
    }

    /// Waits until something holds. Instances join the cluster meanwhile.
    fn until(&self, seconds: u64, what: &str, holds: impl Fn() -> Result<bool>) -> Result<()> {
        let every = Duration::from_millis(500);
        let waited = within(seconds, every, what, || {
            self.join()?;
            holds()
        });
        waited.with_context(|| {
            let log = self.daemon.log().unwrap_or_default();
            let lines: Vec<&str> = log.lines().rev().take(40).collect();
            format!("the daemon's log, last line first:\n{}", lines.join("\n"))
        })
    }

    /// A Node for each instance that lives and has a NodeClaim, as its kubelet would make it.
    fn join(&self) -> Result<()> {
        let claims = objects(&self.plane, "nodeclaims", &[])?;
        let nodes = objects(&self.plane, "nodes", &[])?;
        let id = |object: &Value, at: &str| {
            object
                .pointer(at)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let joined: Vec<String> = nodes
            .iter()
            .filter_map(|node| id(node, "/spec/providerID"))
            .collect();
        let new: Vec<(&Value, String)> = claims
            .iter()
            .filter_map(|claim| Some((claim, id(claim, "/status/providerID")?)))
            .filter(|(claim, id)| {
                !id.is_empty()
                    && !joined.contains(id)
                    && claim["metadata"]["deletionTimestamp"].is_null()
            })
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        let living = self.moto.living()?;
        for (claim, provider_id) in new {
            let instance = instance_of(&provider_id).to_owned();
            if !living.contains(&instance) {
                continue;
            }
            let node = json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": instance, "annotations": {"kwok.x-k8s.io/node": "fake"},
                    "labels": {"kubernetes.io/hostname": instance, "kubernetes.io/os": "linux",
                        "kubernetes.io/arch": "amd64"}},
                "spec": {"providerID": provider_id, "taints":
                    [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]},
                "status": {"capacity": claim["status"]["capacity"],
                    "allocatable": claim["status"]["allocatable"]},
            });
            let file = std::env::temp_dir().join(format!("longshore-moto-{instance}.json"));
            std::fs::write(&file, node.to_string())?;
            let path = file.to_str().context("a path")?;
            let made = self.plane.run(&["create", "--validate=false", "-f", path]);
            std::fs::remove_file(&file)?;
            made?;
        }
        Ok(())
    }

    fn run(&self, pods: usize) -> Result<()> {
        self.until(180, &format!("{pods} pods run"), || {
            Ok(running(&self.plane)? == pods)
        })
    }

    /// Instances of the NodeClaims that there are.
    fn claimed(&self) -> Result<Vec<String>> {
        let ids = plane::words(&self.plane, "nodeclaims", "{.items[*].status.providerID}")?;
        Ok(ids.iter().map(|id| instance_of(id).to_owned()).collect())
    }
}

fn daemon(plane: &ControlPlane, moto: &Moto, more: &[&str]) -> Result<Daemon> {
    let arguments = [
        "--provider",
        "aws",
        "--cluster-name",
        "demo",
        "--interruption-queue",
        "demo",
        // DescribeCapacityReservations is not there.
        "--feature-gates",
        "ReservedCapacity=false",
    ];
    let environment = [
        ("AWS_ENDPOINT_URL", &*moto.url),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    let arguments = [&arguments[..], more].concat();
    Daemon::with(&plane.longshore_kubeconfig(), &arguments, &environment)
}

/// Start, NodeClasses, launch, registration, and the way back.
fn up_and_down() -> Result<()> {
    let scene = Scene::ready("moto-up-and-down")?;
    scene.plane.apply(&deployment("web", 6, ""))?;
    scene.run(6)?;
    let (mut living, mut claimed) = (scene.moto.living()?, scene.claimed()?);
    living.sort();
    claimed.sort();
    ensure!(
        living == claimed && !living.is_empty(),
        "{living:?}, {claimed:?}"
    );
    for node in objects(&scene.plane, "nodes", &[])? {
        let labels = &node["metadata"]["labels"];
        ensure!(
            labels["karpenter.sh/registered"] == "true"
                && labels["karpenter.k8s.aws/instance-family"] == "m5",
            "{labels}"
        );
    }
    scene
        .plane
        .run(&["scale", "deployment", "web", "--replicas=0"])?;
    scene.until(300, "everything is given back", || {
        let none = names(&scene.plane, "nodes")?.is_empty()
            && names(&scene.plane, "nodeclaims")?.is_empty();
        Ok(none && scene.moto.living()?.is_empty())
    })
}

fn interrupted() -> Result<()> {
    let scene = Scene::ready("moto-interrupted")?;
    scene.plane.apply(&deployment("web", 1, ""))?;
    scene.run(1)?;
    let before = scene.claimed()?;
    let instance = before.first().context("an instance")?;
    scene.moto.account(&["interrupt", instance])?;
    scene.until(180, "its pod runs on another", || {
        let after = scene.claimed()?;
        Ok(!after.contains(instance) && after.len() == 1 && running(&scene.plane)? == 1)
    })?;
    ensure!(!scene.moto.living()?.contains(instance), "it is ended");
    ensure_event(&scene.plane, "SpotInterrupted")
}

fn drifted() -> Result<()> {
    let scene = Scene::ready("moto-drifted")?;
    scene.plane.apply(&deployment("web", 1, ""))?;
    scene.run(1)?;
    scene.plane.apply(&manifests(&scene.images[1]))?;
    let path = "{.items[*].status.conditions[?(@.type=='Drifted')].reason}";
    // Nodes are compared every 5 minutes.
    scene.until(420, "its NodeClaim has drifted from the image", || {
        Ok(get(&scene.plane, "nodeclaims", path)?.contains("AMIDrift"))
    })?;
    let open = manifests(&scene.images[1]).replace("nodes: '0'", "nodes: '100%'");
    let before = scene.claimed()?;
    scene.plane.apply(&open)?;
    scene.until(300, "it is replaced", || {
        let after = scene.claimed()?;
        Ok(before.iter().all(|old| !after.contains(old)) && running(&scene.plane)? == 1)
    })
}

fn garbage() -> Result<()> {
    let scene = Scene::ready("moto-garbage")?;
    scene.plane.apply(&deployment("web", 1, ""))?;
    scene.run(1)?;
    let gone = scene.claimed()?.first().cloned().context("an instance")?;
    let image = scene.moto.account(&["image-id", &scene.images[0]])?;
    let orphan = scene.moto.account(&["orphan", &image])?;
    scene.moto.account(&["terminate", &gone])?;
    // What a cloud controller does. The finalizer holds the Node until its instance is looked up.
    scene
        .plane
        .run(&["delete", "node", &gone, "--wait=false"])?;
    scene.until(300, "its pod runs on another", || {
        let after = scene.claimed()?;
        Ok(!after.contains(&gone) && after.len() == 1 && running(&scene.plane)? == 1)
    })?;
    // Two passes have to find it, two minutes apart.
    scene.until(420, "the instance without a NodeClaim is ended", || {
        Ok(!scene.moto.living()?.contains(&orphan))
    })?;
    ensure!(
        scene.moto.living()? == scene.claimed()?,
        "the other instance stays"
    );
    Ok(())
}

fn handed_over() -> Result<()> {
    let mut scene = Scene::with("moto-handed-over", 0, &[])?;
    scene.plane.apply(&manifests(&scene.images[0]))?;
    scene.until(120, "the EC2NodeClass is ready", || scene.class_is_ready())?;
    scene.plane.apply(&deployment("first", 1, ""))?;
    scene.run(1)?;
    let before = scene.claimed()?;
    let second = daemon(&scene.plane, &scene.moto, &[])?;
    std::thread::sleep(Duration::from_secs(5));
    // The first is killed when it is dropped.
    scene.daemon = second;
    scene.plane.apply(&deployment("second", 6, ""))?;
    scene.run(7)?;
    let after = scene.claimed()?;
    ensure!(
        before.iter().all(|old| after.contains(old)),
        "{before:?}, {after:?}"
    );
    let mut living = scene.moto.living()?;
    let mut after = after;
    living.sort();
    after.sort();
    ensure!(living == after, "{living:?}, {after:?}");
    Ok(())
}

/// EC2 sees a new instance profile after 15 s, which delays a class by at most 20 s. A class is looked
/// at every 5 s, and gets its finalizer at the first look.
fn late() -> Result<()> {
    let scene = Scene::with("moto-late", 15, &["--disable-leader-election"])?;
    let log = || scene.daemon.log();
    scene.until(120, "the daemon runs", || Ok(log()?.contains("running")))?;
    scene.plane.apply(&manifests(&scene.images[0]))?;
    let made = "{.status.instanceProfile}";
    scene.until(60, "the profile is made", || {
        Ok(!get(&scene.plane, "ec2nodeclass/default", made)?.is_empty())
    })?;
    let begun = Instant::now();
    scene.until(120, "the EC2NodeClass is ready", || scene.class_is_ready())?;
    let seconds = begun.elapsed().as_secs_f64();
    println!("ready {seconds:.1} s after its profile was made, which was seen after 15 s");
    // The profile was made a little before the status said so.
    ensure!((12.0..20.0).contains(&seconds), "{seconds} s");
    Ok(())
}
