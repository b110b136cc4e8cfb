//! What a node would read in its user data.

use std::collections::BTreeMap;

use longshore_api::manifests::documents;
use serde_json::{Map, Value, json};

use super::join::{arguments, power_shell, shell};
use crate::catalogue::class::Kubelet;
use crate::userdata::{Family, mime};

/// What user data says of the cluster and to the kubelet. `None` is not said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadBack {
    /// The cluster's name.
    pub cluster_name: Option<String>,
    /// The API server's URL.
    pub endpoint: Option<String>,
    /// The CA certificate in base64.
    pub ca_bundle: Option<String>,
    /// The CIDR block of Services.
    pub cidr: Option<String>,
    /// Taints that the node registers with: key, value, effect.
    pub taints: Vec<(String, String, String)>,
    /// Labels that the kubelet gives the node, by key.
    pub labels: BTreeMap<String, String>,
    /// Settings of the kubelet that change how many pods fit.
    pub kubelet: Kubelet,
}

/// Content-Type of a part with a NodeConfig.
const NODE_CONFIG: &str = "application/node.eks.aws";

/// Reads user data of a family: a MIME archive or a script of AL2, a MIME archive or a NodeConfig of
/// AL2023, TOML of Bottlerocket, PowerShell of Windows. Of Custom nothing is known. The error says
/// why a node could not read it.
pub fn read_back(family: Family, text: &str) -> Result<ReadBack, String> {
    match family {
        Family::AL2 => al2(text),
        Family::AL2023 => al2023(text),
        Family::Bottlerocket => bottlerocket(text),
        Family::Custom => Ok(ReadBack::default()),
        Family::Windows2019 | Family::Windows2022 | Family::Windows2025 => windows(text),
    }
}

/// Parts of an archive: content types and bodies.
fn parts(text: &str) -> Result<Vec<(String, String)>, String> {
    let parts = mime::read(text).map_err(|fault| format!("{}; {}", fault.what, fault.hint))?;
    let named = |(at, part): (usize, &mime::Part)| match part.content_type() {
        Some(kind) => Ok((kind.to_owned(), part.body().to_owned())),
        None => Err(format!("part {} has no Content-Type", at + 1)),
    };
    parts.iter().enumerate().map(named).collect()
}

fn al2(text: &str) -> Result<ReadBack, String> {
    let scripts: Vec<String> = match mime::is_archive(text) {
        true => parts(text)?
            .into_iter()
            .filter(|(kind, _)| kind.starts_with("text/x-shellscript"))
            .map(|(_, body)| body)
            .collect(),
        false => vec![text.to_owned()],
    };
    if let Some(body) = scripts.iter().find(|body| !body.starts_with("#!"))
        && scripts.len() == 1
    {
        let begins = longshore_api::manifests::quoted(body.lines().next().unwrap_or_default());
        return Err(format!(
            "is neither a MIME archive nor a script: it begins with {begins} and not with `#!`"
        ));
    }
    let mut call = None;
    for script in &scripts {
        call = shell(script, "bootstrap.sh")?.or(call);
    }
    let call = call.ok_or("nothing calls /etc/eks/bootstrap.sh; a node would not join")?;
    let mut said = ReadBack {
        cluster_name: call.positional,
        endpoint: call.named.get("apiserver-endpoint").cloned(),
        ca_bundle: call.named.get("b64-cluster-ca").cloned(),
        ..ReadBack::default()
    };
    said.arguments(call.named.get("kubelet-extra-args"))?;
    Ok(said)
}

fn windows(text: &str) -> Result<ReadBack, String> {
    let script = text
        .find("<powershell>")
        .map(|at| &text[at + "<powershell>".len()..])
        .and_then(|rest| rest.rfind("</powershell>").map(|end| &rest[..end]))
        .ok_or("has no <powershell> with a </powershell> after it; nothing would run")?;
    let call = power_shell(script, "-EKSClusterName")?.ok_or(
        "nothing calls Start-EKSBootstrap.ps1 with -EKSClusterName; a node would not join",
    )?;
    let mut said = ReadBack {
        cluster_name: call.get("EKSClusterName").cloned(),
        endpoint: call.get("APIServerEndpoint").cloned(),
        ca_bundle: call.get("Base64ClusterCA").cloned(),
        ..ReadBack::default()
    };
    said.arguments(call.get("KubeletExtraArgs"))?;
    Ok(said)
}

fn al2023(text: &str) -> Result<ReadBack, String> {
    let configs: Vec<String> = match mime::is_archive(text) {
        true => parts(text)?
            .into_iter()
            .filter(|(kind, _)| kind.starts_with(NODE_CONFIG))
            .map(|(_, body)| body)
            .collect(),
        false => vec![text.to_owned()],
    };
    if configs.is_empty() {
        return Err(format!("no part is a NodeConfig ({NODE_CONFIG})"));
    }
    let mut all = json!({});
    for config in configs {
        let (found, problems) = documents("NodeConfig", config.as_bytes());
        if let Some(problem) = problems.list.first() {
            return Err(format!("its NodeConfig is not YAML: {}", problem.what));
        }
        for document in found {
            let one: Value = serde_json::from_str(document.text())
                .map_err(|error| format!("its NodeConfig cannot be read: {error}"))?;
            if one["kind"] != "NodeConfig" {
                return Err("its NodeConfig has another kind than NodeConfig".to_owned());
            }
            // nodeadm merges them in their order.
            merge(&mut all, one);
        }
    }
    let cluster = |name: &str| all["spec"]["cluster"][name].as_str().map(str::to_owned);
    let config = all["spec"]["kubelet"]["config"].as_object();
    let mut said = ReadBack {
        cluster_name: cluster("name"),
        endpoint: cluster("apiServerEndpoint"),
        ca_bundle: cluster("certificateAuthority"),
        cidr: cluster("cidr"),
        ..ReadBack::default()
    };
    if let Some(config) = config {
        let text = |taint: &Value, name: &str| taint[name].as_str().unwrap_or_default().to_owned();
        let taints = config.get("registerWithTaints").and_then(Value::as_array);
        let taint = |taint| {
            (
                text(taint, "key"),
                text(taint, "value"),
                text(taint, "effect"),
            )
        };
        said.taints = taints.into_iter().flatten().map(taint).collect();
        said.set_kubelet(config)?;
    }
    let flags = all["spec"]["kubelet"]["flags"].as_array();
    for flag in flags.into_iter().flatten().filter_map(Value::as_str) {
        for (name, value) in arguments(flag)? {
            if name == "node-labels" {
                said.labels.extend(labels(&value));
            }
        }
    }
    Ok(said)
}

fn merge(value: &mut Value, other: Value) {
    match (value, other) {
        (Value::Object(map), Value::Object(other)) => {
            for (key, other) in other {
                merge(map.entry(key).or_insert(Value::Null), other);
            }
        }
        (value, other) => *value = other,
    }
}

fn bottlerocket(text: &str) -> Result<ReadBack, String> {
    let all: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = text[..at].matches('\n').count() + 1;
        format!("is not TOML: line {line}: {}", error.message())
    })?;
    let all = serde_json::to_value(&all).map_err(|error| error.to_string())?;
    let settings = &all["settings"]["kubernetes"];
    let text = |name: &str| settings[name].as_str().map(str::to_owned);
    let mut said = ReadBack {
        cluster_name: text("cluster-name"),
        endpoint: text("api-server"),
        ca_bundle: text("cluster-certificate"),
        ..ReadBack::default()
    };
    for (key, values) in settings["node-taints"].as_object().into_iter().flatten() {
        for value in values.as_array().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default();
            let (value, effect) = value.rsplit_once(':').unwrap_or((value, ""));
            said.taints
                .push((key.clone(), value.to_owned(), effect.to_owned()));
        }
    }
    for (key, value) in settings["node-labels"].as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        said.labels.insert(key.clone(), value.to_owned());
    }
    let mut kubelet = Map::new();
    for (theirs, ours) in [
        ("max-pods", "maxPods"),
        ("kube-reserved", "kubeReserved"),
        ("system-reserved", "systemReserved"),
        ("eviction-hard", "evictionHard"),
    ] {
        if let Some(value) = settings.get(theirs) {
            kubelet.insert(ours.to_owned(), value.clone());
        }
    }
    said.set_kubelet(&kubelet)?;
    Ok(said)
}

impl ReadBack {
    /// Takes the kubelet's arguments.
    fn arguments(&mut self, text: Option<&String>) -> Result<(), String> {
        let all = arguments(text.map_or("", String::as_str))?;
        let mut kubelet = Map::new();
        for (name, value) in &all {
            match name.as_str() {
                "register-with-taints" => self.taints = taints(value),
                "node-labels" => self.labels = labels(value),
                "max-pods" | "pods-per-core" => {
                    let number: i64 = value
                        .parse()
                        .map_err(|_| format!("--{name}={value} is not a number"))?;
                    let ours = match name.as_str() {
                        "max-pods" => "maxPods",
                        _ => "podsPerCore",
                    };
                    kubelet.insert(ours.to_owned(), number.into());
                }
                "kube-reserved" => drop(kubelet.insert("kubeReserved".into(), map(value, '='))),
                "system-reserved" => drop(kubelet.insert("systemReserved".into(), map(value, '='))),
                "eviction-hard" => drop(kubelet.insert("evictionHard".into(), map(value, '<'))),
                _ => {}
            }
        }
        self.set_kubelet(&kubelet)
    }

    fn set_kubelet(&mut self, settings: &Map<String, Value>) -> Result<(), String> {
        self.kubelet = Kubelet::of(settings)
            .map_err(|fault| format!("{} {}; {}", fault.field, fault.what, fault.hint))?;
        Ok(())
    }
}

/// `key=value:Effect,key:Effect`.
fn taints(text: &str) -> Vec<(String, String, String)> {
    let one = |taint: &str| {
        let (rest, effect) = taint.rsplit_once(':').unwrap_or((taint, ""));
        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
        (key.to_owned(), value.to_owned(), effect.to_owned())
    };
    let all = text.split(',').filter(|taint| !taint.is_empty());
    all.map(one).collect()
}

/// `key=value,key=value`.
fn labels(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn map(text: &str, sign: char) -> Value {
    let pairs = text.split(',').filter_map(|pair| pair.split_once(sign));
    let pairs = pairs.map(|(key, value)| (key.to_owned(), Value::from(value)));
    Value::Object(pairs.collect())
}
