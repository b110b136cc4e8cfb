//! `settings.kubernetes` as Bottlerocket's own model takes it.
//!
//! The model is strict: one setting that it does not know, or a value outside of its range, and the
//! whole user data is refused, so that the node does not boot. It is lenient where others are not:
//! numbers or texts for percentages, an address or a list of them, a taint or a list of them.
//!
//! Source: the models of bottlerocket-settings-sdk in their repository, newest of December 2025, and
//! the names that its changelog adds up to models 0.28 of September 2026, whose types are not known.

use std::net::IpAddr;

use longshore_api::manifests::quoted;
use serde_json::{Map, Value};

use crate::kubelet::EVICTION_SIGNALS;

/// What a setting may be.
#[derive(Clone, Copy)]
enum ValueKind {
    Text,
    Truth,
    /// A whole number from the first to the second.
    Whole(i64, i64),
    /// A percentage of 0 to 100, as a number or a text.
    Percent,
    Words(&'static [&'static str]),
    Time,
    Quantity,
    Address,
    Addresses,
    Base64,
    Texts,
    /// A list of these words.
    WordList(&'static [&'static str]),
    Labels,
    Taints,
    /// Thresholds of eviction by signal.
    Thresholds,
    /// Durations by signal.
    Times,
    /// Amounts by resource.
    Amounts,
    /// A table whose fields are not looked at.
    Tables,
    /// Newer than the types that are known.
    Any,
}

const SMALL: ValueKind = ValueKind::Whole(i32::MIN as i64, i32::MAX as i64);

/// Every setting, as of December 2025; then those of the changelog.
const SETTINGS: [(&str, ValueKind); 67] = [
    ("allowed-unsafe-sysctls", ValueKind::Texts),
    ("api-server", ValueKind::Text),
    ("authentication-mode", ValueKind::Words(&["aws", "tls"])),
    ("bootstrap-token", ValueKind::Text),
    (
        "cloud-provider",
        ValueKind::Words(&["", "aws", "external", "\"\""]),
    ),
    ("cluster-certificate", ValueKind::Base64),
    ("cluster-dns-ip", ValueKind::Addresses),
    ("cluster-domain", ValueKind::Text),
    ("cluster-name", ValueKind::Text),
    ("container-log-max-files", SMALL),
    ("container-log-max-size", ValueKind::Quantity),
    ("container-log-max-workers", SMALL),
    ("container-log-monitor-interval", ValueKind::Time),
    ("cpu-cfs-quota-enforced", ValueKind::Truth),
    (
        "cpu-manager-policy",
        ValueKind::Words(&["static", "Static", "none", "None"]),
    ),
    (
        "cpu-manager-policy-options",
        ValueKind::WordList(&[
            "distribute-cpus-across-numa",
            "full-pcpus-only",
            "prefer-align-cpus-by-uncorecache",
            "strict-cpu-reservation",
        ]),
    ),
    ("cpu-manager-reconcile-period", ValueKind::Time),
    ("credential-providers", ValueKind::Tables),
    ("device-ownership-from-security-context", ValueKind::Truth),
    ("event-burst", SMALL),
    ("event-qps", SMALL),
    ("eviction-hard", ValueKind::Thresholds),
    (
        "eviction-max-pod-grace-period",
        ValueKind::Whole(0, i32::MAX as i64),
    ),
    ("eviction-soft", ValueKind::Thresholds),
    ("eviction-soft-grace-period", ValueKind::Times),
    ("hostname-override", ValueKind::Text),
    (
        "hostname-override-source",
        ValueKind::Words(&["private-dns-name", "instance-id"]),
    ),
    ("ids-per-pod", ValueKind::Whole(0, u32::MAX as i64)),
    ("image-gc-high-threshold-percent", ValueKind::Percent),
    ("image-gc-low-threshold-percent", ValueKind::Percent),
    ("image-maximum-gc-age", ValueKind::Time),
    ("image-minimum-gc-age", ValueKind::Time),
    ("kube-api-burst", SMALL),
    ("kube-api-qps", SMALL),
    ("kube-reserved", ValueKind::Amounts),
    ("log-level", ValueKind::Whole(0, u8::MAX as i64)),
    ("max-parallel-image-pulls", SMALL),
    ("max-pods", ValueKind::Whole(0, u32::MAX as i64)),
    (
        "memory-manager-policy",
        ValueKind::Words(&["Static", "static", "None", "none"]),
    ),
    ("memory-manager-reserved-memory", ValueKind::Tables),
    ("memory-swap-behavior", ValueKind::Text),
    ("node-ip", ValueKind::Address),
    ("node-labels", ValueKind::Labels),
    ("node-taints", ValueKind::Taints),
    ("pod-infra-container-image", ValueKind::Text),
    ("pod-pids-limit", ValueKind::Whole(i64::MIN, i64::MAX)),
    ("provider-id", ValueKind::Text),
    ("registry-burst", SMALL),
    ("registry-qps", SMALL),
    ("reserved-cpus", ValueKind::Text),
    ("seccomp-default", ValueKind::Truth),
    ("server-certificate", ValueKind::Base64),
    ("server-key", ValueKind::Base64),
    ("server-tls-bootstrap", ValueKind::Truth),
    ("shutdown-grace-period", ValueKind::Time),
    ("shutdown-grace-period-for-critical-pods", ValueKind::Time),
    ("single-process-oom-kill", ValueKind::Truth),
    ("standalone-mode", ValueKind::Truth),
    ("static-pods", ValueKind::Tables),
    ("static-pods-enabled", ValueKind::Truth),
    ("system-reserved", ValueKind::Amounts),
    (
        "topology-manager-policy",
        ValueKind::Words(&["none", "restricted", "best-effort", "single-numa-node"]),
    ),
    (
        "topology-manager-scope",
        ValueKind::Words(&["container", "pod"]),
    ),
    // By the changelog, or by Karpenter 1.15.1.
    ("container-runtime-endpoint", ValueKind::Any),
    ("memory-reservation-policy", ValueKind::Any),
    ("memory-throttling-factor", ValueKind::Any),
    ("topology-manager-policy-options", ValueKind::Any),
];

/// Why a node with these settings would not join, though the model takes them.
pub(super) fn unjoined(settings: &Map<String, Value>) -> Option<String> {
    let text = |name: &str| settings.get(name).and_then(Value::as_str);
    if settings.get("standalone-mode") == Some(&Value::Bool(true)) {
        let what = "settings.kubernetes.standalone-mode is true: the kubelet would join no cluster";
        return Some(what.to_owned());
    }
    if text("cloud-provider") == Some("aws") {
        let what = "settings.kubernetes.cloud-provider is `aws`, which kubelets since 1.27 end on";
        return Some(what.to_owned());
    }
    if let Some(name) = text("hostname-override") {
        return Some(format!(
            "settings.kubernetes.hostname-override gives all nodes the name {}, and the API server \
             lets none of them join with it",
            quoted(name)
        ));
    }
    let labels = settings.get("node-labels").and_then(Value::as_object);
    let mut labels = labels.into_iter().flatten();
    let fault = labels.find_map(|(key, value)| {
        let value = value.as_str().unwrap_or_default();
        super::flags::label_fault(key, value)
    });
    fault.map(|fault| format!("settings.kubernetes.node-labels has {fault}"))
}

/// Why Bottlerocket refuses `settings.kubernetes`, if it does.
pub(super) fn refusal(settings: &Map<String, Value>) -> Option<String> {
    settings.iter().find_map(|(name, value)| {
        let known = SETTINGS.iter().find(|(known, _)| *known == name.as_str());
        let Some((_, kind)) = known else {
            return Some(format!(
                "settings.kubernetes.{name} is not a setting of Bottlerocket, which would refuse all \
                 of the user data"
            ));
        };
        let fault = kind.fault(value)?;
        Some(format!(
            "settings.kubernetes.{name} {fault}; Bottlerocket would refuse all of the user data"
        ))
    })
}

impl ValueKind {
    fn fault(self, value: &Value) -> Option<String> {
        let wrong = |expected: &str| Some(format!("is {}, not {expected}", shown(value)));
        let text = value.as_str();
        let right = match self {
            ValueKind::Any => true,
            ValueKind::Text => text.is_some(),
            ValueKind::Truth => value.is_boolean(),
            ValueKind::Whole(least, most) => {
                let within = value
                    .as_i64()
                    .is_some_and(|of| (least..=most).contains(&of));
                if !within && value.is_i64() && most < i64::MAX {
                    return wrong(&format!("from {least} to {most}"));
                }
                within
            }
            ValueKind::Percent => {
                let number = value.as_i64().or_else(|| text?.parse().ok());
                number.is_some_and(|of| (0..=100).contains(&of))
            }
            ValueKind::Words(words) => {
                let right = text.is_some_and(|text| words.contains(&text));
                return (!right).then(|| wrong(&format!("one of {}", words.join(", "))))?;
            }
            ValueKind::Time => text.is_some_and(is_time),
            ValueKind::Quantity => text.is_some_and(is_quantity),
            ValueKind::Address => text.is_some_and(is_address),
            ValueKind::Addresses => {
                let all = value.as_array();
                let list = all
                    .is_some_and(|all| all.iter().all(|one| one.as_str().is_some_and(is_address)));
                list || text.is_some_and(is_address)
            }
            ValueKind::Base64 => text.is_some_and(is_base64),
            ValueKind::Texts => value
                .as_array()
                .is_some_and(|all| all.iter().all(Value::is_string)),
            ValueKind::WordList(words) => value.as_array().is_some_and(|all| {
                let known = |one: &Value| one.as_str().is_some_and(|one| words.contains(&one));
                all.iter().all(known)
            }),
            ValueKind::Tables => value.is_object(),
            ValueKind::Labels => {
                return entries(value, |_, value| {
                    let right = value
                        .as_str()
                        .is_some_and(|text| text.is_empty() || is_name(text));
                    (!right).then(|| "a label's value".to_owned())
                });
            }
            ValueKind::Taints => {
                return entries(value, |_, value| {
                    let right = match value {
                        Value::Array(all) => {
                            !all.is_empty()
                                && all.iter().all(|one| one.as_str().is_some_and(is_taint))
                        }
                        one => one.as_str().is_some_and(is_taint),
                    };
                    (!right).then(|| "a taint `value:Effect` or a list of them".to_owned())
                });
            }
            ValueKind::Thresholds => {
                return entries(value, |name, value| {
                    let text = value.as_str().unwrap_or_default();
                    let right = match text.strip_suffix('%') {
                        Some(share) => share
                            .parse::<f32>()
                            .is_ok_and(|of| (0.0..100.0).contains(&of)),
                        None => is_quantity(text),
                    };
                    let known = EVICTION_SIGNALS.contains(&name);
                    let expected = match known {
                        true => "an amount, or a percentage from 0 and below 100",
                        false => "a signal of eviction",
                    };
                    (!(right && known)).then(|| expected.to_owned())
                });
            }
            ValueKind::Times => {
                return entries(value, |name, value| {
                    let right =
                        value.as_str().is_some_and(is_time) && EVICTION_SIGNALS.contains(&name);
                    (!right).then(|| "a duration such as 1m30s".to_owned())
                });
            }
            ValueKind::Amounts => {
                return entries(value, |name, value| {
                    // `pid` since models 0.16 of September 2025.
                    let known = ["cpu", "memory", "ephemeral-storage", "pid"].contains(&name);
                    let right = known && value.as_str().is_some_and(is_quantity);
                    (!right)
                        .then(|| "an amount of cpu, memory, ephemeral-storage or pid".to_owned())
                });
            }
        };
        match right {
            true => None,
            false => wrong(self.expected()),
        }
    }

    fn expected(self) -> &'static str {
        match self {
            ValueKind::Truth => "true or false",
            ValueKind::Whole(..) => "a whole number",
            ValueKind::Percent => "a percentage from 0 to 100",
            ValueKind::Time => "a duration such as 1m30s",
            ValueKind::Quantity => "an amount such as 10Mi",
            ValueKind::Address => "an address",
            ValueKind::Addresses => "an address or a list of addresses",
            ValueKind::Base64 => "base64",
            ValueKind::Texts => "a list of texts",
            ValueKind::WordList(_) => "a list of known words",
            ValueKind::Tables => "a table",
            _ => "a text",
        }
    }
}

/// The first entry of a table with a fault: `fault` gives what it should be.
fn entries(value: &Value, fault: impl Fn(&str, &Value) -> Option<String>) -> Option<String> {
    let Some(all) = value.as_object() else {
        return Some(format!("is {}, not a table", shown(value)));
    };
    all.iter().find_map(|(name, value)| {
        if !is_key(name) {
            return Some(format!("has the key {}", quoted(name)));
        }
        let expected = fault(name, value)?;
        Some(format!("has {name} = {}, not {expected}", shown(value)))
    })
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        other => other.to_string().chars().take(40).collect(),
    }
}

fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

fn is_base64(text: &str) -> bool {
    use base64::Engine as _;
    let decoded = base64::engine::general_purpose::STANDARD.decode(text);
    decoded.is_ok()
}

/// An amount as the model's pattern has it: digits and points, then a unit or an exponent.
fn is_quantity(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let exponent = unit.strip_prefix('e');
    let exponent = exponent.is_some_and(|of| of.bytes().all(|b| b.is_ascii_digit()));
    let big = unit.strip_suffix('i').unwrap_or(unit);
    let named = unit.is_empty() || ["E", "P", "T", "G", "M", "K"].contains(&big);
    !number.is_empty() && (exponent || named || ["n", "u", "m", "k"].contains(&unit))
}

/// Hours, minutes, seconds and milliseconds, in this order.
fn is_time(text: &str) -> bool {
    let mut rest = text;
    for unit in ["h", "m", "s", "ms"] {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, after) = rest.split_at(end.unwrap_or(rest.len()));
        let Some(after) = after.strip_prefix(unit) else {
            continue;
        };
        // `9ms` is no minutes.
        if unit == "m" && after.starts_with('s') {
            continue;
        }
        let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
        if whole.is_empty() || part.is_empty() || part.contains('.') {
            return false;
        }
        rest = after;
    }
    !text.is_empty() && rest.is_empty()
}

/// Up to 63 letters, digits, `.`, `_` and `-`, with a letter or digit at both ends.
fn is_name(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && text.chars().all(inner)
        && edge(text.chars().next())
        && edge(text.chars().last())
}

/// A name, possibly after a domain.
fn is_key(text: &str) -> bool {
    match text.split_once('/') {
        None => is_name(text),
        Some((domain, name)) => {
            let part = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
            (1..=253).contains(&domain.len()) && domain.chars().all(part) && is_name(name)
        }
    }
}

/// `value:Effect`, with or without a value.
fn is_taint(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(value, effect)| {
        let effects = effect.chars().all(|c| c.is_ascii_alphanumeric());
        (value.is_empty() || is_name(value)) && !effect.is_empty() && effects
    })
}
