//! `cargo xtask image --try`: both charts installed by Helm on a real control plane, and the daemon
//! run from the unpacked image, with the arguments, the environment and the service account that
//! the Deployment has in the API server. Pods must get nodes.
//!
//! No container runtime is needed: the program is started below the unpacked files (chroot), as
//! the image's user, with nothing of the machine's environment. umoci unpacks and skopeo reads the
//! image, if they are there: programs that do not know how it was made.

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
use crate::commands::{found, output};

/// Where pods find what they need for the API server.
const ACCOUNT: &str = "var/run/secrets/kubernetes.io/serviceaccount";
const NAMESPACE: &str = "kube-system";
const PODS: usize = 30;
const PATIENCE: Duration = Duration::from_secs(180);

/// A NodePool of the KWOK provider, and pods.
const CLUSTER: &str = "
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: kubernetes.io/os, operator: In, values: [linux]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 30
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: pause, resources: {requests: {cpu: 700m, memory: 600Mi}}}]
";

/// Tries an image.
pub fn run(layout: &Path) -> Result<()> {
    let say: &dyn Fn(&str) = &|line| println!("    {line}");
    control_plane::build(say)?;
    helm::build(say)?;
    inspect(layout)?;
    let folder = crate::target().join("image/trial");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let root = unpack(layout, &folder)?;

    let plane = ControlPlane::start("image")?;
    let ports: [u16; 3] = control_plane::free_ports()?;
    install(&plane, ports)?;
    let container = Container::read(&plane)?;
    let mut daemon = start(&plane, &root, layout, &container)?;
    let done = nodes_come(&plane, &root, &mut daemon, ports);
    let _ = daemon.kill();
    let _ = daemon.wait();
    if done.is_err() {
        let log = fs::read_to_string(folder.join("daemon.log")).unwrap_or_default();
        let tail: Vec<_> = log.lines().rev().take(20).collect();
        println!("the end of the daemon's log:");
        tail.iter().rev().for_each(|line| println!("    {line}"));
    }
    done
}

/// What skopeo says of the image.
fn inspect(layout: &Path) -> Result<()> {
    if !found("skopeo") {
        println!("skopeo is not there: nobody else read the image");
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
fn install(plane: &ControlPlane, [metrics, probes, status]: [u16; 3]) -> Result<()> {
    let rbac = crate::root().join("deploy/rbac.yaml");
    plane.run(&[
        "delete",
        "-f",
        rbac.to_str().context("a path that is no text")?,
    ])?;
    plane.run(&["delete", "crd", "--all"])?;
    for (release, chart, values) in [
        (
            "karpenter-crd",
            "longshore-crd",
            vec!["longshore.provider=kwok".to_owned()],
        ),
        (
            "karpenter",
            "longshore",
            vec![
                "longshore.provider=kwok".to_owned(),
                format!("controller.metrics.port={metrics}"),
                format!("controller.healthProbe.port={probes}"),
                "controller.env[0].name=STATUS_ADDRESS".to_owned(),
                format!("controller.env[0].value=127.0.0.1:{status}"),
            ],
        ),
    ] {
        let mut command = helm::command()?;
        command
            .args(["upgrade", "--install", release])
            .arg(helm::chart(chart));
        command.args(["--namespace", NAMESPACE, "--kubeconfig"]);
        command.arg(plane.admin_kubeconfig());
        for value in &values {
            command.args(["--set", value]);
        }
        output(command)?;
        println!("installed {chart} as {release}");
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

/// What the Deployment says of its container.
struct Container {
    account: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
}

impl Container {
    fn read(plane: &ControlPlane) -> Result<Self> {
        let text = plane.run(&[
            "-n",
            NAMESPACE,
            "get",
            "deployment",
            "karpenter",
            "-o",
            "json",
        ])?;
        let deployment: Value = serde_json::from_str(&text)?;
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        ensure!(
            container["command"].is_null(),
            "the image's entry point is replaced"
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
fn start(plane: &ControlPlane, root: &Path, layout: &Path, container: &Container) -> Result<Child> {
    let token = plane.run(&[
        "create",
        "token",
        &container.account,
        "--namespace",
        NAMESPACE,
    ])?;
    let secrets = root.join(ACCOUNT);
    fs::create_dir_all(&secrets)?;
    fs::write(secrets.join("token"), token.trim())?;
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
    command.args(&container.args).envs(&container.env);
    command.env("KUBERNETES_SERVICE_HOST", host);
    command.env("KUBERNETES_SERVICE_PORT", port);
    let log = crate::target().join("image/trial/daemon.log");
    println!("running longshore {}", container.args.join(" "));
    let child = command
        .stdout(Stdio::null())
        .stderr(fs::File::create(log)?)
        .spawn()
        .context("cannot start the daemon below the unpacked image: chroot needs root")?;
    Ok(child)
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

/// Waits until all pods run, and asks the daemon as its probes and people do.
fn nodes_come(
    plane: &ControlPlane,
    root: &Path,
    daemon: &mut Child,
    [metrics, probes, status]: [u16; 3],
) -> Result<()> {
    plane.apply(CLUSTER)?;
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
            begun.elapsed() < PATIENCE,
            "{running} of {PODS} pods run after {PATIENCE:?}"
        );
        std::thread::sleep(Duration::from_millis(300));
    }
    let nodes = plane.run(&["get", "nodes", "-o", "name"])?;
    println!(
        "{PODS} pods run on {} nodes, {:.1} s after they were created",
        nodes.lines().count(),
        begun.elapsed().as_secs_f64()
    );
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
    command.args([
        "/usr/local/bin/longshore",
        "status",
        "--at",
        &format!("127.0.0.1:{status}"),
    ]);
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
