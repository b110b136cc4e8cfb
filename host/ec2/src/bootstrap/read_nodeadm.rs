//! User data as nodeadm of AL2023 reads it (release 20260724), and the kubelet after it.
//!
//! nodeadm takes the NodeConfigs out of the parts of an archive, merges them in their order, writes
//! a file and a drop-in for the kubelet, and hands it the flags of all of them. One part that cannot
//! be decoded makes it pass over all user data.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use longshore_api::manifests::{documents, quoted};
use serde_json::{Map, Value, json};

use longshore_userdata::{first_document, mime};

/// What the NodeConfigs of user data come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NodeConfig {
    /// `spec.cluster`.
    pub cluster: Map<String, Value>,
    /// `spec.kubelet.config`.
    pub config: Map<String, Value>,
    /// `spec.kubelet.flags`, in their order.
    pub flags: Vec<String>,
    /// `spec.kubelet.maxPodsExpression`.
    pub max_pods: Option<String>,
    /// Fragments of TOML of `spec.containerd.config`.
    containerd: Vec<String>,
    /// `spec.instance.localStorage.strategy`.
    strategy: Option<String>,
}

/// How the instance's own disks are put together, in small letters.
const STRATEGIES: [&str; 4] = ["raid0", "raid10", "mount", "none"];

impl NodeConfig {
    /// Why nodeadm ends after it has read the user data: it sets up outposts, containerd and disks before
    /// it starts the kubelet.
    pub fn unfinished(&self) -> Option<String> {
        let id = self.cluster.get("id").and_then(Value::as_str);
        if self.cluster.get("enableOutpost") == Some(&Value::Bool(true))
            && id.is_none_or(str::is_empty)
        {
            let what =
                "spec.cluster.enableOutpost is true without spec.cluster.id: nodeadm ends on it";
            return Some(what.to_owned());
        }
        let broken = |fragment: &String| fragment.parse::<toml::Table>().err();
        if let Some(error) = self.containerd.iter().find_map(broken) {
            let error = error.message();
            return Some(format!(
                "spec.containerd.config is not TOML: {error}; nodeadm ends on it"
            ));
        }
        let other = |of: &&String| !STRATEGIES.contains(&of.to_ascii_lowercase().as_str());
        let strategy = quoted(self.strategy.as_ref().filter(other)?);
        Some(format!(
            "spec.instance.localStorage.strategy {strategy} is not RAID0, RAID10 or Mount: nodeadm ends \
             on it"
        ))
    }
}

/// What nodeadm takes out of user data.
///
/// # Errors
/// Why a node would not join.
pub(super) fn read(text: &str) -> Result<NodeConfig, String> {
    let all = unpacked(text.as_bytes())?;
    let configs = match mime::archive(&all) {
        None => vec![all],
        Some(parts) => {
            of_parts(&parts.map_err(|fault| format!("{}; {}", fault.what, fault.hint))?)?
        }
    };
    let mut merged = NodeConfig::default();
    for config in &configs {
        merged.merge(decoded(config)?);
    }
    if merged.containerd.len() > 1 {
        for fragment in &merged.containerd {
            let read: Result<toml::Table, _> = fragment.parse();
            read.map_err(|error| {
                let error = error.message().to_owned();
                format!("spec.containerd.config is not TOML: {error}")
            })?;
        }
    }
    Ok(merged)
}

/// The texts of the parts that are NodeConfigs.
fn of_parts(parts: &[mime::Part]) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let content_type = part.content_type().unwrap_or_default();
        if content_type.is_empty() {
            continue;
        }
        let kind = part.kind().ok_or_else(|| {
            let content_type = quoted(content_type);
            let at = at + 1;
            format!("the Content-Type {content_type} of part {at} cannot be read")
        })?;
        if kind == mime::NODE_CONFIG {
            all.push(unpacked(part.body().as_bytes())?);
        }
    }
    match all.is_empty() {
        true => Err(format!("no part is a NodeConfig ({})", mime::NODE_CONFIG)),
        false => Ok(all),
    }
}

/// A text that may be in base64, gzip or both, whatever its headers say.
fn unpacked(bytes: &[u8]) -> Result<String, String> {
    let without_breaks: Vec<u8> = bytes
        .iter()
        .filter(|byte| !matches!(byte, b'\r' | b'\n'))
        .copied()
        .collect();
    let decoded = STANDARD.decode(without_breaks).ok();
    let decoded = decoded.unwrap_or_else(|| bytes.to_vec());
    let text = match decoded.starts_with(&[0x1f, 0x8b]) {
        true => gunzipped(&decoded)?,
        false => decoded,
    };
    String::from_utf8(text).map_err(|_| "its NodeConfig is not text".to_owned())
}

/// Most bytes that a text may have once it is unpacked: 64 times what EC2 takes.
const MAX_UNPACKED_BYTES: u64 = 1 << 20;

fn gunzipped(bytes: &[u8]) -> Result<Vec<u8>, String> {
    use std::io::Read as _;
    let mut out = Vec::new();
    let reader = flate2::read::GzDecoder::new(bytes);
    let mut reader = reader.take(MAX_UNPACKED_BYTES);
    let read = reader.read_to_end(&mut out);
    read.map_err(|_| "has a part that begins as gzip and is none".to_owned())?;
    Ok(out)
}

/// What stands in one NodeConfig: its first document.
fn decoded(text: &str) -> Result<NodeConfig, String> {
    let all = value(text)?;
    let said = |name: &str| all[name].as_str().unwrap_or_default();
    if said("kind") != "NodeConfig" {
        return Err("its NodeConfig has another kind than NodeConfig".to_owned());
    }
    if said("apiVersion") != "node.eks.aws/v1alpha1" {
        let version = quoted(said("apiVersion"));
        return Err(format!(
            "its NodeConfig has the apiVersion {version} and not node.eks.aws/v1alpha1"
        ));
    }
    of_type(&all, &shape(), "").map_or(Ok(()), |fault| {
        Err(format!("its NodeConfig cannot be decoded: {fault}"))
    })?;
    let object = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let texts = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (spec, kubelet) = (&all["spec"], &all["spec"]["kubelet"]);
    let set = |value: &Value| {
        let text = value.as_str().filter(|text| !text.is_empty());
        text.map(str::to_owned)
    };
    let authority = spec["cluster"]["certificateAuthority"].as_str();
    if authority.is_some_and(|text| STANDARD.decode(text.replace(['\r', '\n'], "")).is_err()) {
        return Err("spec.cluster.certificateAuthority is not base64".to_owned());
    }
    Ok(NodeConfig {
        cluster: object(&spec["cluster"]),
        config: object(&kubelet["config"]),
        flags: texts(&kubelet["flags"]),
        max_pods: set(&kubelet["maxPodsExpression"]),
        containerd: set(&spec["containerd"]["config"]).into_iter().collect(),
        strategy: set(&spec["instance"]["localStorage"]["strategy"]),
    })
}

/// A text as JSON, of which nothing may stand behind it, or its first document as YAML.
fn value(text: &str) -> Result<Value, String> {
    let broken = |error: serde_json::Error| format!("its NodeConfig cannot be read: {error}");
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(broken);
    }
    // Our parser takes no tab between a key and its value; Go's does.
    let first = first_document(text).replace(":\t", ": ");
    let (found, problems) = documents("NodeConfig", first.as_bytes());
    if let Some(problem) = problems.list.first() {
        // Merge keys and tags: nodeadm reads them, and what they say is not known here.
        let head = ["apiVersion: node.eks.aws/v1alpha1", "kind: NodeConfig"];
        let says = |line: &&str| first.lines().any(|own| own.trim_end() == *line);
        if problem.what.contains("are not read") && head.iter().all(says) {
            return Ok(json!({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig"}));
        }
        return Err(format!("its NodeConfig is not YAML: {}", problem.what));
    }
    let first = found
        .first()
        .map(|document| serde_json::from_str(document.text()));
    first.unwrap_or(Ok(Value::Null)).map_err(broken)
}

/// Types of the fields of a NodeConfig. Fields that it does not have are passed over.
fn shape() -> Value {
    json!({
        "metadata": {"name": "text", "namespace": "text", "labels": ["text"], "annotations": ["text"]},
        "spec": {
            "cluster": {
                "name": "text", "apiServerEndpoint": "text", "certificateAuthority": "text",
                "cidr": "text", "enableOutpost": "truth", "id": "text",
            },
            "containerd": {"config": "text", "baseRuntimeSpec": "map"},
            "instance": {
                "localStorage": {"strategy": "text", "mountPath": "text", "disabledMounts": "texts"},
                "environment": [["text"]],
                "network": {"nameservers": "texts", "domains": "texts"},
            },
            "kubelet": {"config": "map", "flags": "texts", "maxPodsExpression": "text"},
            "featureGates": ["truth"],
        },
    })
}

/// What is wrong with the type of a value. A shape is a word, an object of fields, or a list of one
/// shape: that of all values of a map.
fn of_type(value: &Value, shape: &Value, path: &str) -> Option<String> {
    let below = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    let wrong = |expected: &str| Some(format!("{path} is not {expected}"));
    match (shape, value) {
        (_, Value::Null) => None,
        (Value::Object(fields), Value::Object(map)) => fields.iter().find_map(|(name, shape)| {
            let value = map.get(name)?;
            of_type(value, shape, &below(name))
        }),
        (Value::Array(shape), Value::Object(map)) => map
            .iter()
            .find_map(|(name, value)| of_type(value, shape.first()?, &below(name))),
        (Value::Object(_) | Value::Array(_), _) => wrong("a map"),
        (Value::String(word), value) => match (word.as_str(), value) {
            ("text", Value::String(_)) | ("truth", Value::Bool(_)) | ("map", Value::Object(_)) => {
                None
            }
            ("texts", Value::Array(items)) if items.iter().all(Value::is_string) => None,
            ("text", _) => wrong("a text"),
            ("truth", _) => wrong("true or false"),
            ("map", _) => wrong("a map"),
            _ => wrong("a list of texts"),
        },
        _ => None,
    }
}

impl NodeConfig {
    /// Takes over what a later NodeConfig says: flags are added, and the others win unless they are
    /// empty.
    fn merge(&mut self, other: NodeConfig) {
        for (name, value) in other.cluster {
            if value != Value::Null && value != "" {
                self.cluster.insert(name, value);
            }
        }
        merge_maps(&mut self.config, other.config);
        self.flags.extend(other.flags);
        self.max_pods = other.max_pods.or(self.max_pods.take());
        self.containerd.extend(other.containerd);
        self.strategy = other.strategy.or(self.strategy.take());
    }
}

/// Merges maps key by key. Anything else is replaced, a null too; only an empty map replaces
/// nothing.
fn merge_maps(into: &mut Map<String, Value>, other: Map<String, Value>) {
    for (key, value) in other {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(into)), Value::Object(other)) => merge_maps(into, other),
            (_, value) => drop(into.insert(key, value)),
        }
    }
}
