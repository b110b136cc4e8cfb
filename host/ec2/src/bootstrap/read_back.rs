//! What a node would read in its user data.
//!
//! The readers are not ours: cloud-init and bootstrap.sh of AL2, nodeadm of AL2023 (`read_nodeadm`),
//! Bottlerocket's model (`bottlerocket`), EC2Launch of Windows; then the kubelet with its flags
//! (`flags`). Vectors recorded from them are in `vectors/readers.jsonl`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use longshore_userdata::{Family, mime, unknown_settings};
use serde_json::{Map, Value, json};

use super::flags::{self, Flags};
use super::join::{power_shell, shell, words};
use super::{bottlerocket, read_nodeadm};
use crate::catalogue::class::kubelet::Kubelet;

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
    /// Everything that the kubelet is asked for, by the names of its settings: of AL2023 its drop-in,
    /// with flags in their place. `null` takes back what the image has set.
    pub settings: Map<String, Value>,
    /// Names of the flags that the kubelet is started with.
    pub flags: Vec<String>,
    /// The expression by which nodeadm counts the pods that memory is reserved for.
    pub max_pods_expression: Option<String>,
    /// Why what reads it ends on it afterwards.
    pub unfinished: Option<String>,
}

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

/// The scripts of AL2 that cloud-init runs.
fn scripts(text: &str) -> Result<Vec<String>, String> {
    if !mime::is_archive(text) {
        return Ok(vec![text.to_owned()]);
    }
    let parts = mime::read(text).map_err(|fault| format!("{}; {}", fault.what, fault.hint))?;
    let script = |part: &mime::Part| {
        let body = decoded(part);
        let kind = part.kind().unwrap_or_default();
        let typed = kind.starts_with("text/x-shellscript");
        // Of a part that does not say what it is, the first words do.
        let marked = matches!(kind.as_str(), "" | "text/plain" | "text/x-not-multipart");
        let shell = typed || (marked && body.trim_start().starts_with("#!"));
        shell.then_some(body)
    };
    Ok(parts.iter().filter_map(script).collect())
}

/// What stands in a part, out of base64 where its header says so.
fn decoded(part: &mime::Part) -> String {
    let encoding = part.header("Content-Transfer-Encoding").unwrap_or_default();
    let plain = || part.body().to_owned();
    if !encoding.eq_ignore_ascii_case("base64") {
        return plain();
    }
    let text: String = part.body().split_whitespace().collect();
    let text = STANDARD.decode(text).ok();
    text.and_then(|text| String::from_utf8(text).ok())
        .unwrap_or_else(plain)
}

fn al2(text: &str) -> Result<ReadBack, String> {
    let scripts = scripts(text)?;
    if let [body] = scripts.as_slice()
        && !body.starts_with("#!")
    {
        let begins = longshore_api::manifests::quoted(body.lines().next().unwrap_or_default());
        return Err(format!(
            "is neither a MIME archive nor a script: it begins with {begins} and not with `#!`"
        ));
    }
    let (mut call, mut fault) = (None, None);
    // Others cannot be run.
    for script in scripts.iter().filter(|script| script.starts_with("#!")) {
        match shell(script, "bootstrap.sh") {
            Ok(found) => call = found.or(call),
            // A script of the user's may call it in a way that is not followed.
            Err(why) => fault = Some(why),
        }
    }
    let none = "nothing calls /etc/eks/bootstrap.sh; a node would not join";
    let call = call.ok_or_else(|| fault.unwrap_or_else(|| none.to_owned()))?;
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
    let config = read_nodeadm::read(text)?;
    let cluster = |name: &str| config.cluster.get(name)?.as_str().map(str::to_owned);
    let flags = flags::read(words(&config.flags.join(" "))?)?;
    if let Some(cidr) = cluster("cidr").filter(|cidr| !is_block(cidr)) {
        let cidr = longshore_api::manifests::quoted(&cidr);
        return Err(format!(
            "spec.cluster.cidr {cidr} is not a block of addresses"
        ));
    }
    let mut said = ReadBack {
        cluster_name: cluster("name"),
        endpoint: cluster("apiServerEndpoint"),
        ca_bundle: cluster("certificateAuthority").map(|text| text.replace(['\r', '\n'], "")),
        cidr: cluster("cidr"),
        unfinished: config.unfinished(),
        max_pods_expression: config.max_pods,
        ..ReadBack::default()
    };
    said.settings = config.config;
    said.take(&flags);
    for (field, names) in WHOLE {
        if flags.settings.contains_key(field) {
            without_others(&mut said.settings[field], names);
        }
    }
    said.set_kubelet(&counted(&said.settings))?;
    Ok(said)
}

/// Maps of which the image has entries of its own. A flag leaves none of them.
const WHOLE: [(&str, &[&str]); 2] = [
    ("kubeReserved", &["cpu", "memory", "ephemeral-storage"]),
    (
        "evictionHard",
        &["memory.available", "nodefs.available", "nodefs.inodesFree"],
    ),
];

/// Takes back what a map does not name.
fn without_others(map: &mut Value, names: &[&str]) {
    if let Value::Object(map) = map {
        for name in names {
            map.entry(*name).or_insert(Value::Null);
        }
    }
}

/// Whether a text is an address, a slash and the length of a prefix.
fn is_block(text: &str) -> bool {
    let (address, length) = text.split_once('/').unwrap_or_default();
    let most = match address.parse() {
        Ok(std::net::IpAddr::V4(_)) => 32,
        Ok(std::net::IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= most)
}

/// Settings with amounts that change how many pods fit.
const AMOUNTS: [(&str, &[&str]); 3] = [
    ("kubeReserved", &["cpu", "memory", "ephemeral-storage"]),
    ("systemReserved", &["cpu", "memory", "ephemeral-storage"]),
    ("evictionHard", &["memory.available", "nodefs.available"]),
];

/// The settings that are counted with. What is taken back with `null` is zero.
fn counted(settings: &Map<String, Value>) -> Map<String, Value> {
    let set = |name: &&str| settings.get(*name).is_some_and(|value| !value.is_null());
    let copied = ["maxPods", "podsPerCore"].into_iter().filter(set);
    let mut all: Map<String, Value> = copied
        .map(|name| (name.to_owned(), settings[name].clone()))
        .collect();
    if settings.get("maxPods").is_some_and(Value::is_null) {
        // The kubelet's own default.
        all.insert("maxPods".to_owned(), 110.into());
    }
    for (field, names) in AMOUNTS {
        let own = settings.get(field);
        let mut map = own.and_then(Value::as_object).cloned().unwrap_or_default();
        if own.is_some_and(Value::is_null) {
            map.extend(names.iter().map(|name| ((*name).to_owned(), Value::Null)));
        }
        for value in map.values_mut().filter(|value| value.is_null()) {
            *value = "0".into();
        }
        if !map.is_empty() {
            all.insert(field.to_owned(), map.into());
        }
    }
    all
}

fn bottlerocket(text: &str) -> Result<ReadBack, String> {
    let all: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = text[..at].matches('\n').count() + 1;
        format!("is not TOML: line {line}: {}", error.message())
    })?;
    let all = serde_json::to_value(&all).map_err(|error| error.to_string())?;
    let settings = &all["settings"]["kubernetes"];
    if let Some(settings) = settings.as_object() {
        let refusal = bottlerocket::refusal(settings);
        if let Some(refusal) = refusal.or_else(|| bottlerocket::unjoined(settings)) {
            return Err(refusal);
        }
    }
    let unknown = unknown_settings(text).map_err(|fault| fault.what)?;
    if let Some(unknown) = unknown.first() {
        return Err(format!(
            "{unknown} is not a setting of Bottlerocket, which would refuse all of the user data"
        ));
    }
    let text = |name: &str| settings[name].as_str().map(str::to_owned);
    let mut said = ReadBack {
        cluster_name: text("cluster-name"),
        endpoint: text("api-server"),
        ca_bundle: text("cluster-certificate"),
        ..ReadBack::default()
    };
    for (key, values) in settings["node-taints"].as_object().into_iter().flatten() {
        let one = std::slice::from_ref(values);
        for value in values.as_array().map_or(one, Vec::as_slice) {
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
    for (theirs, ours) in BOTTLEROCKET {
        let Some(value) = settings.get(theirs) else {
            continue;
        };
        let number = value.as_str().and_then(|text| text.parse::<i64>().ok());
        let value = match (theirs, number) {
            (
                "image-gc-high-threshold-percent" | "image-gc-low-threshold-percent",
                Some(number),
            ) => number.into(),
            ("memory-swap-behavior", _) => json!({"swapBehavior": value}),
            ("ids-per-pod", _) => json!({"idsPerPod": value}),
            ("cpu-manager-policy-options", _) => {
                let names = value.as_array().into_iter().flatten();
                let names = names.filter_map(Value::as_str);
                names
                    .map(|name| (name.to_owned(), Value::from("true")))
                    .collect()
            }
            _ => value.clone(),
        };
        said.settings.insert(ours.to_owned(), value);
    }
    said.set_kubelet(&counted(&said.settings))?;
    Ok(said)
}

/// Settings of Bottlerocket that become settings of the kubelet under another name.
const BOTTLEROCKET: [(&str, &str); 37] = [
    ("allowed-unsafe-sysctls", "allowedUnsafeSysctls"),
    ("container-log-max-files", "containerLogMaxFiles"),
    ("container-log-max-size", "containerLogMaxSize"),
    ("container-log-max-workers", "containerLogMaxWorkers"),
    (
        "container-log-monitor-interval",
        "containerLogMonitorInterval",
    ),
    ("cpu-manager-policy", "cpuManagerPolicy"),
    ("cpu-manager-policy-options", "cpuManagerPolicyOptions"),
    ("cpu-manager-reconcile-period", "cpuManagerReconcilePeriod"),
    ("event-burst", "eventBurst"),
    ("event-qps", "eventRecordQPS"),
    ("eviction-hard", "evictionHard"),
    ("eviction-max-pod-grace-period", "evictionMaxPodGracePeriod"),
    ("eviction-soft", "evictionSoft"),
    ("eviction-soft-grace-period", "evictionSoftGracePeriod"),
    (
        "image-gc-high-threshold-percent",
        "imageGCHighThresholdPercent",
    ),
    (
        "image-gc-low-threshold-percent",
        "imageGCLowThresholdPercent",
    ),
    ("ids-per-pod", "userNamespaces"),
    ("image-maximum-gc-age", "imageMaximumGCAge"),
    ("image-minimum-gc-age", "imageMinimumGCAge"),
    ("kube-api-burst", "kubeAPIBurst"),
    ("kube-api-qps", "kubeAPIQPS"),
    ("kube-reserved", "kubeReserved"),
    ("max-parallel-image-pulls", "maxParallelImagePulls"),
    ("max-pods", "maxPods"),
    ("memory-swap-behavior", "memorySwap"),
    ("pod-pids-limit", "podPidsLimit"),
    ("provider-id", "providerID"),
    ("registry-burst", "registryBurst"),
    ("registry-qps", "registryPullQPS"),
    ("reserved-cpus", "reservedSystemCPUs"),
    ("seccomp-default", "seccompDefault"),
    ("server-tls-bootstrap", "serverTLSBootstrap"),
    ("shutdown-grace-period", "shutdownGracePeriod"),
    (
        "shutdown-grace-period-for-critical-pods",
        "shutdownGracePeriodCriticalPods",
    ),
    ("system-reserved", "systemReserved"),
    ("topology-manager-policy", "topologyManagerPolicy"),
    ("topology-manager-scope", "topologyManagerScope"),
];

impl ReadBack {
    /// Takes the kubelet's arguments.
    fn arguments(&mut self, text: Option<&String>) -> Result<(), String> {
        let flags = flags::read(words(text.map_or("", String::as_str))?)?;
        self.take(&flags);
        self.set_kubelet(&counted(&self.settings))
    }

    /// Takes flags, which win over settings.
    fn take(&mut self, flags: &Flags) {
        flags.win(&mut self.settings);
        self.flags.extend(flags.names.iter().cloned());
        self.labels.extend(flags.labels.clone());
        let taints = self
            .settings
            .get("registerWithTaints")
            .and_then(Value::as_array);
        let text = |taint: &Value, name: &str| taint[name].as_str().unwrap_or_default().to_owned();
        let taint = |taint| {
            (
                text(taint, "key"),
                text(taint, "value"),
                text(taint, "effect"),
            )
        };
        self.taints = taints.into_iter().flatten().map(taint).collect();
    }

    fn set_kubelet(&mut self, settings: &Map<String, Value>) -> Result<(), String> {
        self.kubelet = Kubelet::of(settings)
            .map_err(|fault| format!("{} {}; {}", fault.field, fault.what, fault.hint))?;
        Ok(())
    }
}
