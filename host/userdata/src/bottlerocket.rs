//! Bottlerocket: settings as TOML.
//!
//! The user's settings are kept, and what the node needs to join replaces its part of
//! `settings.kubernetes`. Settings that are not known are left out, as is everything outside of
//! `settings`: Bottlerocket refuses all user data for one of them. [`left_out`] names them.

mod sections;
mod version;

use std::collections::BTreeMap;

use toml::Value;

use super::boot::Boot;
use super::fault::{Fault, quoted};
use super::kubelet::Kubelet;
use super::nodeadm::is_base64;
use super::toml_text::{self, Item, Table};
use version::version;

/// The kind of a setting's value.
#[derive(Clone, Copy)]
enum ValueKind {
    Text,
    Whole,
    Truth,
    /// A whole number of 8 bits that is not negative.
    Small,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A text in base64.
    Base64,
    TruthMap,
    /// A map of lists of texts.
    ListMap,
    /// A whole number, or a text of one.
    Percent,
    /// A text, or a list of texts.
    TextOrTexts,
    Texts,
    /// A list of lists of texts.
    Commands,
    TextMap,
    /// A map of texts or lists of texts.
    TextsMap,
    /// Anything: a setting younger than the types that are known.
    Any,
    /// A table with these settings.
    Table(&'static [Setting]),
    /// A map of such tables.
    Tables(&'static [Setting]),
}

/// A setting that Karpenter knows.
#[derive(Clone, Copy)]
struct Setting {
    name: &'static str,
    kind: ValueKind,
    /// What is written if the setting is absent.
    absent: Option<fn() -> Value>,
    /// Whether an empty value is written.
    keep_empty: bool,
}

const fn setting(name: &'static str, kind: ValueKind) -> Setting {
    Setting {
        name,
        kind,
        absent: None,
        keep_empty: false,
    }
}

/// A setting that is always written.
const fn always(name: &'static str, kind: ValueKind, absent: fn() -> Value) -> Setting {
    Setting {
        name,
        kind,
        absent: Some(absent),
        keep_empty: true,
    }
}

fn no() -> Value {
    Value::Boolean(false)
}

fn empty() -> Value {
    Value::String(String::new())
}

fn none() -> Value {
    Value::Array(Vec::new())
}

const CREDENTIAL_PROVIDER: [Setting; 4] = [
    setting("enabled", ValueKind::Truth),
    setting("cache-duration", ValueKind::Text),
    always("image-patterns", ValueKind::Texts, none),
    setting("environment", ValueKind::TextMap),
];

const STATIC_POD: [Setting; 2] = [
    setting("enabled", ValueKind::Truth),
    setting("manifest", ValueKind::Text),
];

const RESERVED_MEMORY: [Setting; 4] = [
    always("enabled", ValueKind::Truth, no),
    setting("memory", ValueKind::Text),
    setting("hugepages-2Mi", ValueKind::Text),
    setting("hugepages-1Gi", ValueKind::Text),
];

const TOPOLOGY_OPTIONS: [Setting; 2] = [
    setting("prefer-closest-numa-nodes", ValueKind::Truth),
    setting("max-allowable-numa-nodes", ValueKind::Whole),
];

const BOOTSTRAP_COMMAND: [Setting; 3] = [
    always("commands", ValueKind::Commands, none),
    always("mode", ValueKind::Text, empty),
    always("essential", ValueKind::Truth, no),
];

/// `settings.kubernetes`, in the order in which it is written.
const KUBERNETES: [Setting; 67] = [
    setting("api-server", ValueKind::Text),
    setting("cloud-provider", ValueKind::Text),
    setting("cluster-certificate", ValueKind::Text),
    setting("cluster-name", ValueKind::Text),
    setting("cluster-dns-ip", ValueKind::TextOrTexts),
    setting(
        "credential-providers",
        ValueKind::Tables(&CREDENTIAL_PROVIDER),
    ),
    setting("node-labels", ValueKind::TextMap),
    setting("node-taints", ValueKind::TextsMap),
    setting("max-pods", ValueKind::Whole),
    setting("static-pods", ValueKind::Tables(&STATIC_POD)),
    setting("eviction-hard", ValueKind::TextMap),
    setting("eviction-soft", ValueKind::TextMap),
    setting("eviction-soft-grace-period", ValueKind::TextMap),
    setting("eviction-max-pod-grace-period", ValueKind::Whole),
    setting("kube-reserved", ValueKind::TextMap),
    setting("system-reserved", ValueKind::TextMap),
    setting("allowed-unsafe-sysctls", ValueKind::Texts),
    setting("server-tls-bootstrap", ValueKind::Truth),
    setting("registry-qps", ValueKind::Whole),
    setting("registry-burst", ValueKind::Whole),
    setting("event-qps", ValueKind::Whole),
    setting("event-burst", ValueKind::Whole),
    setting("kube-api-qps", ValueKind::Whole),
    setting("kube-api-burst", ValueKind::Whole),
    setting("container-log-max-size", ValueKind::Text),
    setting("container-log-max-files", ValueKind::Whole),
    setting("cpu-manager-policy", ValueKind::Text),
    setting("cpu-manager-policy-options", ValueKind::Texts),
    setting("cpu-manager-reconcile-period", ValueKind::Text),
    setting("memory-manager-policy", ValueKind::Text),
    setting(
        "memory-manager-reserved-memory",
        ValueKind::Tables(&RESERVED_MEMORY),
    ),
    setting("topology-manager-scope", ValueKind::Text),
    setting("topology-manager-policy", ValueKind::Text),
    setting(
        "topology-manager-policy-options",
        ValueKind::Table(&TOPOLOGY_OPTIONS),
    ),
    setting("image-gc-high-threshold-percent", ValueKind::Percent),
    setting("image-gc-low-threshold-percent", ValueKind::Percent),
    setting("ids-per-pod", ValueKind::Whole),
    setting("cpu-cfs-quota-enforced", ValueKind::Truth),
    setting("shutdown-grace-period", ValueKind::Text),
    setting("shutdown-grace-period-for-critical-pods", ValueKind::Text),
    setting("cluster-domain", ValueKind::Text),
    setting("seccomp-default", ValueKind::Truth),
    setting("pod-pids-limit", ValueKind::Whole),
    setting("device-ownership-from-security-context", ValueKind::Truth),
    setting("single-process-oom-kill", ValueKind::Truth),
    setting("container-log-max-workers", ValueKind::Whole),
    setting("container-log-monitor-interval", ValueKind::Text),
    setting("hostname-override-source", ValueKind::Text),
    setting("log-level", ValueKind::Small),
    // Karpenter leaves out these. Of Bottlerocket's own models, December 2025.
    setting("authentication-mode", ValueKind::Text),
    setting("bootstrap-token", ValueKind::Text),
    setting("hostname-override", ValueKind::Text),
    setting("image-maximum-gc-age", ValueKind::Text),
    setting("image-minimum-gc-age", ValueKind::Text),
    setting("max-parallel-image-pulls", ValueKind::Whole),
    setting("memory-swap-behavior", ValueKind::Text),
    setting("node-ip", ValueKind::Text),
    setting("pod-infra-container-image", ValueKind::Text),
    setting("provider-id", ValueKind::Text),
    setting("reserved-cpus", ValueKind::Text),
    setting("server-certificate", ValueKind::Text),
    setting("server-key", ValueKind::Text),
    setting("standalone-mode", ValueKind::Truth),
    setting("static-pods-enabled", ValueKind::Truth),
    // By the changelog of the models, up to 0.28 of September 2026.
    setting("container-runtime-endpoint", ValueKind::Any),
    setting("memory-reservation-policy", ValueKind::Any),
    setting("memory-throttling-factor", ValueKind::Any),
];

/// The command that makes the instance's own disks one.
const MOUNT: &str = "000-mount-instance-storage";

/// The user's settings with ours merged in.
pub(super) fn render(boot: &Boot) -> Result<String, Fault> {
    let text = boot.user_data.as_deref().unwrap_or_default();
    let mut all: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| {
            text[..span.start.min(text.len())].matches('\n').count() + 1
        });
        let what = format!("is not TOML: line {line}: {}", error.message());
        Fault::user_data(what, "Bottlerocket takes its settings as TOML")
    })?;
    let mut settings = table(all.remove("settings"), "settings")?;
    let mut kubernetes = table(settings.remove("kubernetes"), "settings.kubernetes")?;
    check(&kubernetes, &KUBERNETES, "settings.kubernetes")?;
    check(&settings, &sections::ALL, "settings")?;
    known_only(&mut settings, &sections::ALL);
    let mut commands = match settings.remove("bootstrap-commands") {
        Some(commands) => Some(table(Some(commands), "settings.bootstrap-commands")?),
        None => None,
    };
    join(&mut kubernetes, boot);
    if boot.raid0 {
        commands
            .get_or_insert_default()
            .insert(MOUNT.to_owned(), mount(boot));
    }
    let mut below: BTreeMap<String, Item> = settings
        .into_iter()
        .map(|(name, value)| (name, Item::Read(value)))
        .collect();
    below.insert("kubernetes".to_owned(), in_order(&kubernetes, &KUBERNETES));
    if let Some(commands) = commands {
        let commands = ValueKind::Tables(&BOOTSTRAP_COMMAND).item(&Value::Table(commands));
        below.insert("bootstrap-commands".to_owned(), commands);
    }
    let below = Item::Table(below.into_iter().collect());
    Ok(toml_text::write(&vec![("settings".to_owned(), below)]))
}

/// What of the user's settings does not reach the node, in sentences without a subject; nothing for a
/// text that is not TOML.
pub(super) fn left_out(text: &str) -> Vec<String> {
    let Ok(all) = text.parse::<toml::Table>() else {
        return Vec::new();
    };
    let mut out: Vec<String> = Vec::new();
    for name in all.keys().filter(|name| *name != "settings") {
        out.push(format!("{name} is left out: it stands outside of settings"));
    }
    let empty = toml::Table::new();
    let of = |table: &toml::Table, name: &str| table.get(name).and_then(Value::as_table).cloned();
    let settings = of(&all, "settings").unwrap_or_default();
    let kubernetes = of(&settings, "kubernetes");
    let kubernetes = kubernetes.as_ref().unwrap_or(&empty);
    for (name, by) in REPLACED {
        if kubernetes.contains_key(name) {
            out.push(format!("settings.kubernetes.{name} is replaced by {by}"));
        }
    }
    let mut unknown = Vec::new();
    unknown_below(kubernetes, &KUBERNETES, "settings.kubernetes", &mut unknown);
    let sections = settings.iter().filter(|(name, _)| *name != "kubernetes");
    let sections = sections.map(|(name, value)| (name.clone(), value.clone()));
    unknown_below(
        &sections.collect(),
        &sections::ALL,
        "settings",
        &mut unknown,
    );
    out.extend(unknown.into_iter().map(|path| {
        let removed = match path.as_str() {
            "settings.kubernetes.fail-cgroup-v1" => " (models 0.18 and 0.19 alone had it)",
            _ => "",
        };
        format!(
            "{path} is left out: it is not a setting of Bottlerocket as of September 2026 (models \
             0.28){removed}"
        )
    }));
    out
}

/// Settings of `settings.kubernetes` that we set on every node, and what they are replaced by.
const REPLACED: [(&str, &str); 3] = [
    ("node-taints", "the taints of the NodePool"),
    (
        "max-pods",
        "spec.kubelet.maxPods, or without it by what the instance type takes",
    ),
    (
        "cluster-dns-ip",
        "spec.kubelet.clusterDNS, or without it by the cluster's own",
    ),
];

/// Settings outside of `settings.kubernetes` as Bottlerocket's model takes them: the paths of those
/// that it does not know, for one of which it refuses all user data.
///
/// # Errors
/// The first setting with a value that the model does not take.
pub(super) fn others(text: &str) -> Result<Vec<String>, Fault> {
    let all: toml::Table = text.parse().unwrap_or_default();
    let mut settings = table(all.get("settings").cloned(), "settings")?;
    settings.remove("kubernetes");
    check(&settings, &sections::ALL, "settings")?;
    let outside = all.keys().filter(|name| *name != "settings");
    let mut unknown: Vec<String> = outside.cloned().collect();
    unknown_below(&settings, &sections::ALL, "settings", &mut unknown);
    Ok(unknown)
}

/// The paths of settings that are not known.
fn unknown_below(table: &toml::Table, known: &[Setting], path: &str, out: &mut Vec<String>) {
    for (name, value) in table {
        let path = format!("{path}.{name}");
        let setting = known.iter().find(|setting| setting.name == name);
        match (setting.map(|setting| setting.kind), value) {
            (None, _) => out.push(path),
            (Some(ValueKind::Table(known)), Value::Table(table)) => {
                unknown_below(table, known, &path, out);
            }
            (Some(ValueKind::Tables(known)), Value::Table(tables)) => {
                for (name, value) in tables {
                    if let Value::Table(table) = value {
                        unknown_below(table, known, &format!("{path}.{name}"), out);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Removes settings that are not known.
fn known_only(table: &mut toml::Table, known: &[Setting]) {
    table.retain(|name, value| {
        let setting = known.iter().find(|setting| setting.name == name);
        match (setting.map(|setting| setting.kind), value) {
            (None, _) => return false,
            (Some(ValueKind::Table(known)), Value::Table(table)) => known_only(table, known),
            (Some(ValueKind::Tables(known)), Value::Table(tables)) => {
                for (_, value) in tables.iter_mut() {
                    if let Value::Table(table) = value {
                        known_only(table, known);
                    }
                }
            }
            _ => {}
        }
        true
    });
}

/// What the node needs to join, and what the NodeClass says of its kubelet.
fn join(settings: &mut toml::Table, boot: &Boot) {
    let (cluster, kubelet) = (&boot.cluster, Kubelet::of(&boot.kubelet));
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            settings.insert(name.to_owned(), value);
        }
    };
    let text = |text: &str| Some(Value::String(text.to_owned()));
    set("api-server", text(&cluster.endpoint));
    set("cluster-name", text(&cluster.name));
    let authority = (!cluster.ca_bundle.is_empty()).then(|| text(&cluster.ca_bundle));
    set("cluster-certificate", authority.flatten());
    set(
        "cluster-dns-ip",
        kubelet.cluster_dns.first().and_then(|first| text(first)),
    );
    set("max-pods", kubelet.max_pods.map(Value::Integer));
    for (name, map) in [
        ("system-reserved", &kubelet.system_reserved),
        ("kube-reserved", &kubelet.kube_reserved),
        ("eviction-hard", &kubelet.eviction_hard),
        ("eviction-soft", &kubelet.eviction_soft),
        (
            "eviction-soft-grace-period",
            &kubelet.eviction_soft_grace_period,
        ),
    ] {
        set(name, (!map.is_empty()).then(|| text_map(map)));
    }
    set(
        "eviction-max-pod-grace-period",
        kubelet.eviction_max_pod_grace_period.map(Value::Integer),
    );
    let percent = |value: Option<i64>| value.map(|value| Value::String(value.to_string()));
    set(
        "image-gc-high-threshold-percent",
        percent(kubelet.image_gc_high_threshold_percent),
    );
    set(
        "image-gc-low-threshold-percent",
        percent(kubelet.image_gc_low_threshold_percent),
    );
    set(
        "cpu-cfs-quota-enforced",
        kubelet.cpu_cfs_quota.map(Value::Boolean),
    );
    let mut taints = toml::Table::new();
    for taint in &boot.taints {
        let value = Value::String(format!("{}:{}", taint.value, taint.effect));
        match taints.entry(taint.key.clone()) {
            toml::map::Entry::Vacant(entry) => drop(entry.insert(Value::Array(vec![value]))),
            toml::map::Entry::Occupied(mut entry) => {
                if let Value::Array(list) = entry.get_mut() {
                    list.push(value);
                }
            }
        }
    }
    set("node-taints", Some(Value::Table(taints)));
    if let Some(Value::Table(mut labels)) = Some(text_map(&boot.labels)) {
        if let Some(Value::Table(theirs)) = settings.remove("node-labels") {
            for (key, value) in theirs {
                labels.entry(key).or_insert(value);
            }
        }
        settings.insert("node-labels".to_owned(), Value::Table(labels));
    }
}

fn text_map(map: &BTreeMap<String, String>) -> Value {
    let pairs = map.iter();
    Value::Table(
        pairs
            .map(|(key, value)| (key.clone(), Value::String(value.clone())))
            .collect(),
    )
}

/// The command that makes the instance's own disks one. Releases before 1.46.0 must be told which
/// folders go there.
fn mount(boot: &Boot) -> Value {
    let mut bind = vec!["apiclient", "ephemeral-storage", "bind"];
    if version(boot) < Some((1, 46, 0)) {
        bind.extend([
            "--dirs",
            "/var/lib/containerd",
            "/var/lib/kubelet",
            "/var/log/pods",
        ]);
    }
    let list = |words: &[&str]| {
        let words = words.iter();
        Value::Array(
            words
                .map(|word| Value::String((*word).to_owned()))
                .collect(),
        )
    };
    let init = list(&["apiclient", "ephemeral-storage", "init"]);
    let pairs = [
        ("commands", Value::Array(vec![init, list(&bind)])),
        ("mode", Value::String("always".to_owned())),
        ("essential", Value::Boolean(true)),
    ];
    let pairs = pairs.into_iter();
    Value::Table(
        pairs
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}

/// A table, empty if it is absent.
fn table(value: Option<Value>, path: &str) -> Result<toml::Table, Fault> {
    match value {
        None => Ok(toml::Table::new()),
        Some(Value::Table(table)) => Ok(table),
        Some(other) => Err(wrong(path, "a table", &other)),
    }
}

fn wrong(path: &str, expected: &str, found: &Value) -> Fault {
    let found = match found {
        Value::String(_) => "a text",
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number with a point",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a time",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    };
    let what = format!("{path} is {found}, not {expected}");
    Fault::user_data(what, "see Bottlerocket's documentation of its settings")
}

/// Checks the settings of a table that are known.
fn check(table: &toml::Table, known: &[Setting], path: &str) -> Result<(), Fault> {
    for setting in known {
        if let Some(value) = table.get(setting.name) {
            setting
                .kind
                .check(value, &format!("{path}.{}", setting.name))?;
        }
    }
    Ok(())
}

/// The known settings of a table, in their order. Settings that are absent or empty are left out,
/// unless they are always written.
fn in_order(table: &toml::Table, known: &[Setting]) -> Item {
    let item = |setting: &Setting| {
        let value = match table.get(setting.name) {
            Some(value) if setting.keep_empty || !setting.kind.is_empty(value) => {
                setting.kind.item(value)
            }
            Some(_) => return None,
            None => Item::Read(setting.absent?()),
        };
        Some((setting.name.to_owned(), value))
    };
    let all: Table = known.iter().filter_map(item).collect();
    Item::Table(all)
}

impl ValueKind {
    fn check(self, value: &Value, path: &str) -> Result<(), Fault> {
        let right = match self {
            ValueKind::Text => value.is_str(),
            ValueKind::Whole => value.is_integer(),
            ValueKind::Truth => value.is_bool(),
            ValueKind::Any => true,
            ValueKind::Small => value
                .as_integer()
                .is_some_and(|number| u8::try_from(number).is_ok()),
            ValueKind::Percent => value.is_str() || value.is_integer(),
            ValueKind::TextOrTexts if value.is_array() => {
                return ValueKind::Texts.check(value, path);
            }
            ValueKind::TextOrTexts => value.is_str(),
            ValueKind::Texts => return each(value, "a list of texts", path, ValueKind::Text),
            ValueKind::Commands => {
                return each(value, "a list of commands", path, ValueKind::Texts);
            }
            ValueKind::Words(words) => value.as_str().is_some_and(|text| words.contains(&text)),
            ValueKind::Base64 => value.as_str().is_some_and(is_base64),
            ValueKind::TruthMap => {
                return every(value, path, |value, path| {
                    ValueKind::Truth.check(value, path)
                });
            }
            ValueKind::ListMap => {
                return every(value, path, |value, path| {
                    ValueKind::Texts.check(value, path)
                });
            }
            ValueKind::TextMap => {
                return every(value, path, |value, path| {
                    ValueKind::Text.check(value, path)
                });
            }
            ValueKind::TextsMap => {
                return every(value, path, |value, path| {
                    ValueKind::TextOrTexts.check(value, path)
                });
            }
            ValueKind::Table(known) => {
                return check(&table(Some(value.clone()), path)?, known, path);
            }
            ValueKind::Tables(known) => {
                return every(value, path, |value, path| {
                    check(&table(Some(value.clone()), path)?, known, path)
                });
            }
        };
        if let (ValueKind::Small, Value::Integer(number), false) = (self, value, right) {
            let what = format!("{path} is {number}, not from 0 to 255");
            return Err(Fault::user_data(what, "write a number in between"));
        }
        if let (Value::String(text), false) = (value, right) {
            let expected = match self {
                ValueKind::Words(words) => format!("one of {}", words.join(", ")),
                ValueKind::Base64 => "base64".to_owned(),
                _ => String::new(),
            };
            if !expected.is_empty() {
                let what = format!("{path} is {}, not {expected}", quoted(text));
                return Err(Fault::user_data(
                    what,
                    "Bottlerocket refuses all user data for it",
                ));
            }
        }
        let expected = match self {
            ValueKind::Whole => "a whole number",
            ValueKind::Truth => "true or false",
            ValueKind::Small | ValueKind::Percent => "a whole number",
            ValueKind::TextOrTexts => "a text or a list of texts",
            _ => "a text",
        };
        right
            .then_some(())
            .ok_or_else(|| wrong(path, expected, value))
    }

    /// Whether Go would leave the value out.
    fn is_empty(self, value: &Value) -> bool {
        match (self, value) {
            (ValueKind::Texts | ValueKind::Commands, Value::Array(items)) => items.is_empty(),
            (
                ValueKind::TextMap | ValueKind::TextsMap | ValueKind::Tables(_),
                Value::Table(map),
            ) => map.is_empty(),
            _ => false,
        }
    }

    fn item(self, value: &Value) -> Item {
        match (self, value) {
            (ValueKind::Table(known), Value::Table(table)) => in_order(table, known),
            (ValueKind::Tables(known), Value::Table(map)) => {
                let sorted: BTreeMap<&String, &Value> = map.iter().collect();
                let below = |value: &Value| match value {
                    Value::Table(table) => in_order(table, known),
                    other => Item::Read(other.clone()),
                };
                Item::Table(
                    sorted
                        .into_iter()
                        .map(|(name, value)| (name.clone(), below(value)))
                        .collect(),
                )
            }
            (_, value) => Item::Read(value.clone()),
        }
    }
}

fn each(value: &Value, expected: &str, path: &str, kind: ValueKind) -> Result<(), Fault> {
    let Value::Array(items) = value else {
        return Err(wrong(path, expected, value));
    };
    let mut items = items.iter().enumerate();
    items.try_for_each(|(at, item)| kind.check(item, &format!("{path}[{at}]")))
}

fn every(
    value: &Value,
    path: &str,
    check: impl Fn(&Value, &str) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let Value::Table(map) = value else {
        return Err(wrong(path, "a table", value));
    };
    map.iter()
        .try_for_each(|(key, value)| check(value, &format!("{path}.{key}")))
}
