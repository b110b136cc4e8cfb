//! `cargo xtask image --try`: both charts installed by Helm on a real control plane, and the daemon
//! run from the unpacked image, with the arguments, the environment and the service account that
//! the Deployment has in the API server. Pods must get nodes.
//!
//! Once with nodes of KWOK, then with instances of an emulated EC2: with the chart's defaults, and
//! with each values file of `tests/charts`, which are as Karpenter's users have them. Each time is
//! a cluster of its own.
//!
//! No container runtime is needed: the program is started below the unpacked files (chroot), as
//! the image's user, with nothing of the machine's environment. umoci unpacks and skopeo reads the
//! image, if they are there: programs that do not know how it was made.

mod cases;
mod identity;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use longshore_xtask::control_plane::{self, ControlPlane};
use longshore_xtask::helm;
use serde_json::Value;

use super::tree::USER;
use crate::commands::{bold, found, output};
use cases::Case;
use identity::Identity;

/// Where pods find what they need for the API server.
const ACCOUNT: &str = "var/run/secrets/kubernetes.io/serviceaccount";
const NAMESPACE: &str = "kube-system";
const PODS: usize = 30;
const MAX_WAIT: Duration = Duration::from_secs(180);

/// As much of the Prometheus operator as a chart with a ServiceMonitor needs.
const SERVICE_MONITORS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: servicemonitors.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  names: {kind: ServiceMonitor, listKind: ServiceMonitorList, plural: servicemonitors, singular: servicemonitor}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

/// Tries an image.
pub fn run(layout: &Path) -> Result<()> {
    let say: &dyn Fn(&str) = &|line| println!("    {line}");
    control_plane::build(say)?;
    helm::build(say)?;
    inspect(layout)?;
    let folder = crate::commands::target().join("image/trial");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let root = unpack(layout, &folder)?;
    let cases = cases::all()?;
    for case in &cases {
        println!("{}", bold(&format!("==> {}", case.name)));
        trial(layout, &root, &folder, case).with_context(|| case.name.clone())?;
    }
    println!("nodes came in all {} cases", cases.len());
    Ok(())
}

/// One case on a cluster of its own.
fn trial(layout: &Path, root: &Path, folder: &Path, case: &Case) -> Result<()> {
    let plane = ControlPlane::start("image")?;
    let [metrics, probes, status] = control_plane::free_ports()?;
    install(&plane, case, [metrics, probes])?;
    let mut container = Container::read(&plane)?;
    // Its own is the same in every pod, and this machine may use it.
    let address = format!("127.0.0.1:{status}");
    container
        .env
        .insert("STATUS_ADDRESS".to_owned(), address.clone());
    let program = root.join("usr/local/bin/longshore");
    let cloud = case.cloud(&program, folder, &plane, &container.env)?;
    let mut machine = cloud.environment();
    // Kept until the daemon has ended.
    let identity = Identity::of(&plane, root, &container)?;
    machine.extend(identity.environment());
    let log = folder.join("daemon.log");
    let mut daemon = start(&plane, root, layout, &container, &machine, &log)?;
    let done = nodes_come(&plane, case, &container, &mut daemon)
        .and_then(|()| answers(root, metrics, probes, &address));
    let _ = daemon.kill();
    let _ = daemon.wait();
    if done.is_err() {
        let log = fs::read_to_string(log).unwrap_or_default();
        let tail: Vec<_> = log.lines().rev().take(20).collect();
        println!("the end of the daemon's log:");
        tail.iter().rev().for_each(|line| println!("    {line}"));
        let conditions = "jsonpath={range .items[*]}{.kind} {.metadata.name}: \
            {range .status.conditions[*]}{.type}={.status} {.reason} {.message}; {end}{\"\\n\"}{end}";
        let said = plane.run(&["get", case.kinds(), "-o", conditions]);
        println!("{}", said.unwrap_or_else(|why| why.to_string()));
        println!("{}", cloud.says()?);
    }
    done
}

/// What skopeo says of the image.
fn inspect(layout: &Path) -> Result<()> {
    if !found("skopeo") {
        println!("skopeo is not there: no other program read the image");
        return Ok(());
    }
    let mut skopeo = Command::new("skopeo");
    skopeo.args([
        "inspect",
        "--format",
        "{{.Digest}} {{.Os}}/{{.Architecture}} {{.Layers}}",
    ]);
    skopeo.arg(reference(layout));
    println!(
        "skopeo: {}",
        String::from_utf8_lossy(&output(skopeo)?).trim()
    );
    Ok(())
}

fn reference(layout: &Path) -> String {
    format!("oci:{}:{}", layout.display(), env!("CARGO_PKG_VERSION"))
}

/// The files of the image in a folder.
fn unpack(layout: &Path, folder: &Path) -> Result<PathBuf> {
    if found("umoci") {
        let bundle = folder.join("bundle");
        let mut umoci = Command::new("umoci");
        umoci.args(["unpack", "--image"]);
        umoci.arg(format!(
            "{}:{}",
            layout.display(),
            env!("CARGO_PKG_VERSION")
        ));
        umoci.arg(&bundle);
        output(umoci)?;
        println!("unpacked by umoci");
        return Ok(bundle.join("rootfs"));
    }
    println!("umoci is not there: unpacked by ourselves");
    let root = folder.join("rootfs");
    fs::create_dir_all(&root)?;
    let index = json(&layout.join("index.json"))?;
    let blob = |descriptor: &Value| -> Result<PathBuf> {
        let digest = descriptor["digest"]
            .as_str()
            .context("a descriptor without a digest")?;
        Ok(layout.join("blobs").join(digest.replace(':', "/")))
    };
    let manifest = json(&blob(&index["manifests"][0])?)?;
    for layer in manifest["layers"].as_array().context("no layers")? {
        let packed = fs::File::open(blob(layer)?)?;
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(packed));
        tar.set_preserve_permissions(true);
        tar.set_preserve_ownerships(true);
        tar.unpack(&root)?;
    }
    Ok(root)
}

fn json(file: &Path) -> Result<Value> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Takes away what `deploy/` gave the cluster, and lets Helm give it instead.
fn install(plane: &ControlPlane, case: &Case, [metrics, probes]: [u16; 2]) -> Result<()> {
    for file in ["rbac-kwok.yaml", "rbac.yaml", "service-account.yaml"] {
        let file = longshore_xtask::guests::root().join("deploy").join(file);
        let file = file.to_str().context("a path that is no text")?;
        plane.run(&["delete", "-f", file])?;
    }
    delete_definitions(plane)?;
    plane.apply(SERVICE_MONITORS)?;
    let crd = case.set.iter().filter(|set| set.starts_with("longshore."));
    let mut set = case.set.clone();
    set.push(format!("controller.metrics.port={metrics}"));
    set.push(format!("controller.healthProbe.port={probes}"));
    let charts = [
        (
            "karpenter-crd",
            "longshore-crd",
            None,
            crd.cloned().collect(),
        ),
        ("karpenter", "longshore", case.values.as_ref(), set),
    ];
    for (release, chart, values, set) in charts {
        let mut command = helm::command()?;
        command
            // Helm 4 applies a folder `crds` over definitions that are there: those for EC2 alone.
            .args(["upgrade", "--install", "--skip-crds", release])
            .arg(helm::chart(chart));
        command.args(["--namespace", NAMESPACE, "--kubeconfig"]);
        command.arg(plane.admin_kubeconfig());
        if let Some(values) = values {
            command.arg("--values").arg(values);
        }
        for one in &set {
            command.args(["--set", one]);
        }
        output(command)?;
    }
    plane.run(&[
        "wait",
        "--for=condition=Established",
        "crd",
        "--all",
        "--timeout=60s",
    ])?;
    Ok(())
}

/// Deletes the resource definitions of a cluster that has just started. The API server gives up on one
/// whose storage it is making at that time (`storage is (re)initializing`), until it changes again.
fn delete_definitions(plane: &ControlPlane) -> Result<()> {
    let delete = ["delete", "crd", "--all", "--timeout=20s"];
    for attempt in 0..3 {
        if plane.run(&delete).is_ok() {
            return Ok(());
        }
        let again = format!("longshore.dev/attempt={attempt}");
        plane.run(&["annotate", "crd", "--all", "--overwrite", &again])?;
    }
    plane.run(&delete).map(drop)
}

/// What the Deployment says of its container.
struct Container {
    account: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
}

impl Container {
    fn read(plane: &ControlPlane) -> Result<Self> {
        let of_release = ["-l", "app.kubernetes.io/instance=karpenter", "-o", "json"];
        let text =
            plane.run(&[&["-n", NAMESPACE, "get", "deployment"], &of_release[..]].concat())?;
        let found: Value = serde_json::from_str(&text)?;
        let pod = &found["items"][0]["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        // The image's entry point, by name.
        ensure!(
            container["command"] == serde_json::json!(["longshore"]),
            "another program is started: {}",
            container["command"]
        );
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let env = container["env"].as_array().context("no env")?.iter();
        let env = env.map(|variable| {
            let field = variable["valueFrom"]["fieldRef"]["fieldPath"].as_str();
            let value = match field {
                Some("metadata.name") => "karpenter-0".to_owned(),
                Some("metadata.namespace") => NAMESPACE.to_owned(),
                Some(other) => bail!("a variable from {other}"),
                None => text(&variable["value"]).unwrap_or_default(),
            };
            Ok((
                text(&variable["name"]).context("a variable without a name")?,
                value,
            ))
        });
        Ok(Self {
            account: text(&pod["serviceAccountName"]).context("no service account")?,
            args: container["args"]
                .as_array()
                .context("no args")?
                .iter()
                .filter_map(text)
                .collect(),
            env: env.collect::<Result<_>>()?,
        })
    }
}

/// Starts the daemon as a kubelet would.
fn start(
    plane: &ControlPlane,
    root: &Path,
    layout: &Path,
    container: &Container,
    machine: &BTreeMap<String, String>,
    log: &Path,
) -> Result<Child> {
    let token = token(plane, &container.account, None)?;
    let secrets = root.join(ACCOUNT);
    fs::create_dir_all(&secrets)?;
    fs::write(secrets.join("token"), token)?;
    fs::write(secrets.join("namespace"), NAMESPACE)?;
    fs::copy(
        plane.folder().join("certs/apiserver.crt"),
        secrets.join("ca.crt"),
    )?;
    let kubeconfig = json(&plane.admin_kubeconfig())?;
    let server = kubeconfig["clusters"][0]["cluster"]["server"]
        .as_str()
        .unwrap_or_default();
    let (host, port) = server
        .trim_start_matches("https://")
        .rsplit_once(':')
        .context("an API server without a port")?;

    let config = image_config(layout)?;
    let mut command = command_in(root, &config)?;
    command.args(&container.args).envs(machine);
    command.env("KUBERNETES_SERVICE_HOST", host);
    command.env("KUBERNETES_SERVICE_PORT", port);
    command.envs(&container.env);
    println!("running longshore {}", container.args.join(" "));
    let child = command
        .stdout(Stdio::null())
        .stderr(fs::File::create(log)?)
        .spawn()
        .context("cannot start the daemon below the unpacked image: chroot needs root")?;
    Ok(child)
}

/// A token of the service account.
fn token(plane: &ControlPlane, account: &str, audience: Option<&str>) -> Result<String> {
    let mut words = vec!["create", "token", account, "--namespace", NAMESPACE];
    if let Some(audience) = audience {
        words.extend(["--audience", audience]);
    }
    Ok(plane.run(&words)?.trim().to_owned())
}

/// `config` of the image's configuration.
fn image_config(layout: &Path) -> Result<Value> {
    let blob = |digest: &Value| {
        let digest = digest.as_str().unwrap_or_default().replace(':', "/");
        json(&layout.join("blobs").join(digest))
    };
    let index = json(&layout.join("index.json"))?;
    let manifest = blob(&index["manifests"][0]["digest"])?;
    Ok(blob(&manifest["config"]["digest"])?["config"].clone())
}

/// The entry point of the image, with its user and environment.
fn command_in(root: &Path, config: &Value) -> Result<Command> {
    let texts = |field: &str| -> Vec<String> {
        let list = config[field].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let user = config["User"].as_str().context("no user")?;
    ensure!(user == format!("{USER}:{USER}"), "the user is {user}");
    let mut command = Command::new("chroot");
    command.arg(format!("--userspec={user}")).arg(root);
    command.args(texts("Entrypoint")).env_clear();
    for variable in texts("Env") {
        let (name, value) = variable
            .split_once('=')
            .context("a variable without a value")?;
        command.env(name, value);
    }
    // To find chroot itself.
    command.env("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    Ok(command)
}

/// Waits until all pods run.
fn nodes_come(
    plane: &ControlPlane,
    case: &Case,
    container: &Container,
    daemon: &mut Child,
) -> Result<()> {
    plane.apply(&case.manifests(&container.env))?;
    let begun = Instant::now();
    loop {
        if let Some(status) = daemon.try_wait()? {
            bail!("the daemon ended: {status}");
        }
        let phases = plane.run(&[
            "-n",
            "default",
            "get",
            "pods",
            "-o",
            "jsonpath={.items[*].status.phase}",
        ])?;
        let running = phases
            .split_whitespace()
            .filter(|phase| *phase == "Running")
            .count();
        if running == PODS {
            break;
        }
        ensure!(
            begun.elapsed() < MAX_WAIT,
            "{running} of {PODS} pods run after {MAX_WAIT:?}"
        );
        std::thread::sleep(Duration::from_millis(300));
    }
    let nodes = plane.run(&["get", "nodes", "-o", "name"])?;
    println!(
        "{PODS} pods run on {} nodes, {:.1} s after they were created",
        nodes.lines().count(),
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Asks the daemon as its probes and people do.
fn answers(root: &Path, metrics: u16, probes: u16, status: &str) -> Result<()> {
    for (port, path) in [
        (probes, "/healthz"),
        (probes, "/readyz"),
        (metrics, "/metrics"),
    ] {
        let answer = ask(port, path)?;
        let first = answer.lines().next().unwrap_or_default().to_owned();
        ensure!(first.contains(" 200"), "{path}: {first}");
        println!("{path}: {first}");
    }
    let mut command = Command::new("chroot");
    command.arg(format!("--userspec={USER}:{USER}")).arg(root);
    command.args(["/usr/local/bin/longshore", "status", "--at", status]);
    let said = String::from_utf8_lossy(&output(command)?).into_owned();
    said.lines()
        .take(3)
        .for_each(|line| println!("status: {line}"));
    Ok(())
}

/// An answer in HTTP/1.0.
fn ask(port: u16, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
