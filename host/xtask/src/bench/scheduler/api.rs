//! The API server over `kubectl proxy`: a kubectl for each request takes the processor's time that
//! kube-scheduler needs.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use longshore_xtask::control_plane::{ControlPlane, free_ports};

/// How long the proxy has to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an answer is waited for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A kind of objects and where the API server has it.
pub struct ServedKind {
    name: &'static str,
    group: &'static str,
    plural: &'static str,
    is_namespaced: bool,
}

const fn kind(
    name: &'static str,
    group: &'static str,
    plural: &'static str,
    is_namespaced: bool,
) -> ServedKind {
    ServedKind {
        name,
        group,
        plural,
        is_namespaced,
    }
}

/// Kinds that worlds are made of and that plans read, in the order in which they are taken away.
const KINDS: [ServedKind; 10] = [
    kind("Pod", "v1", "pods", true),
    kind(
        "PersistentVolumeClaim",
        "v1",
        "persistentvolumeclaims",
        true,
    ),
    kind("PersistentVolume", "v1", "persistentvolumes", false),
    kind("Node", "v1", "nodes", false),
    kind("StorageClass", STORAGE, "storageclasses", false),
    kind("CSINode", STORAGE, "csinodes", false),
    kind("CSIDriver", STORAGE, "csidrivers", false),
    kind("CSIStorageCapacity", STORAGE, "csistoragecapacities", true),
    kind("VolumeAttachment", STORAGE, "volumeattachments", false),
    kind("Namespace", "v1", "namespaces", false),
];
const STORAGE: &str = "storage.k8s.io/v1";
/// Namespaces that worlds use.
pub const NAMESPACES: [&str; 3] = ["default", "team-a", "team-b"];

impl ServedKind {
    fn of(name: &str) -> anyhow::Result<&'static ServedKind> {
        let found = KINDS.iter().find(|kind| kind.name == name);
        found.with_context(|| format!("worlds have no {name}"))
    }

    /// The path of all objects, or of those of a namespace.
    fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group == "v1" { "api" } else { "apis" };
        match namespace.filter(|_| self.is_namespaced) {
            Some(namespace) => format!(
                "/{root}/{}/namespaces/{namespace}/{}",
                self.group, self.plural
            ),
            None => format!("/{root}/{}/{}", self.group, self.plural),
        }
    }
}

/// The API server.
pub struct Api {
    proxy: Child,
    port: u16,
}

impl Api {
    /// Starts the proxy.
    pub fn start(plane: &ControlPlane) -> anyhow::Result<Self> {
        let [port] = free_ports()?;
        let mut command = plane.kubectl()?;
        command
            .args(["proxy", "--port", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let proxy = command.spawn().context("cannot start kubectl proxy")?;
        let api = Api { proxy, port };
        let deadline = Instant::now() + START_TIMEOUT;
        while let Err(error) = api.ask("GET", "/version", "", &Value::Null) {
            if Instant::now() > deadline {
                return Err(error.context("kubectl proxy does not answer"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(api)
    }

    /// Makes objects, one after the other.
    pub fn create(&self, objects: &[Value]) -> anyhow::Result<()> {
        for object in objects {
            let kind = ServedKind::of(object["kind"].as_str().unwrap_or_default())?;
            let path = kind.path(object["metadata"]["namespace"].as_str().or(Some("default")));
            self.ask("POST", &path, "application/json", object)?;
        }
        Ok(())
    }

    pub fn objects(&self) -> anyhow::Result<Vec<Value>> {
        let mut all = Vec::new();
        for kind in &KINDS {
            let mut list = self.ask("GET", &kind.path(None), "", &Value::Null)?;
            let Value::Array(items) = list["items"].take() else {
                bail!("the list of {} has no items", kind.plural);
            };
            for mut item in items {
                item["apiVersion"] = json!(kind.group);
                item["kind"] = json!(kind.name);
                all.push(item);
            }
        }
        Ok(all)
    }

    /// Changes an object's status, as a JSON merge patch. The name is `namespace/name` or `name`.
    pub fn patch_status(&self, kind: &str, name: &str, patch: &Value) -> anyhow::Result<()> {
        let path = format!("{}/status", Self::path_of(kind, name)?);
        let type_ = "application/merge-patch+json";
        self.ask("PATCH", &path, type_, patch).map(drop)
    }

    /// Deletes an object, at once or with its grace period.
    pub fn delete(&self, kind: &str, name: &str, at_once: bool) -> anyhow::Result<()> {
        let options = if at_once {
            at_once_options()
        } else {
            json!({})
        };
        let path = Self::path_of(kind, name)?;
        self.ask("DELETE", &path, "application/json", &options)
            .map(drop)
    }

    /// Deletes everything but namespaces.
    pub fn delete_all(&self) -> anyhow::Result<()> {
        for kind in KINDS.iter().filter(|kind| kind.name != "Namespace") {
            let namespaces: &[&str] = match kind.is_namespaced {
                true => &NAMESPACES,
                false => &[""],
            };
            for namespace in namespaces {
                let path = kind.path(Some(namespace));
                self.ask("DELETE", &path, "application/json", &at_once_options())?;
            }
        }
        Ok(())
    }

    fn path_of(kind: &str, name: &str) -> anyhow::Result<String> {
        let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
        Ok(format!(
            "{}/{name}",
            ServedKind::of(kind)?.path(Some(namespace))
        ))
    }

    /// One request. HTTP/1.0: the answer ends with the connection.
    fn ask(&self, verb: &str, path: &str, type_: &str, body: &Value) -> anyhow::Result<Value> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let head = match type_ {
            "" => String::new(),
            type_ => format!(
                "Content-Type: {type_}\r\nContent-Length: {}\r\n",
                body.len()
            ),
        };
        write!(
            stream,
            "{verb} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n{head}\r\n{body}"
        )?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let (head, answer) = text.split_once("\r\n\r\n").context("no HTTP answer")?;
        let code = head.split(' ').nth(1).unwrap_or_default();
        if !code.starts_with('2') {
            bail!("{verb} {path}: {code} {answer}\n{body}");
        }
        serde_json::from_str(answer).with_context(|| format!("{verb} {path}: no JSON"))
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        if let Err(error) = self.proxy.kill().and_then(|()| self.proxy.wait()) {
            eprintln!("kubectl proxy: {error}");
        }
    }
}

fn at_once_options() -> Value {
    json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
}
