//! Whether the settings of a kubelet are known, of the right type, and values that they can have.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use longshore_api::manifests::quoted;
use longshore_api::quantity::Quantity;
use longshore_userdata::duration;
use serde_json::{Map, Value};

use super::fault::Fault;
use crate::catalogue::class::read_kubelet::is_expression;
use crate::kubelet::EVICTION_SIGNALS;

/// Settings of the kubelet that are expressions, with their texts. Fields are below `spec.kubelet`.
pub fn expressions(settings: &Map<String, Value>) -> Vec<(String, &str)> {
    let max_pods = settings.get("maxPods").and_then(Value::as_str);
    let mut all: Vec<_> = max_pods
        .map(|text| ("maxPods".to_owned(), text))
        .into_iter()
        .collect();
    for name in RESERVING {
        let entries = settings.get(name).and_then(Value::as_object);
        for (key, value) in entries.into_iter().flatten() {
            let text = value.as_str().filter(|text| is_expression(text));
            all.extend(text.map(|text| (format!("{name}[{key}]"), text)));
        }
    }
    all
}

/// Struct, field, type. A type is `[]T`, `{}T`, `=Struct` or a name.
type Types = BTreeMap<String, BTreeMap<String, String>>;

static TYPES: LazyLock<Types> = LazyLock::new(|| {
    // A test reads the file.
    serde_json::from_str(include_str!("kubelet.json")).unwrap_or_default()
});

/// Settings with amounts that are kept back.
const RESERVING: [&str; 2] = ["systemReserved", "kubeReserved"];
const RESERVED: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

/// All faults of `spec.kubelet`, with fields below it. If a field is unknown or has the wrong type,
/// those faults are the only ones. Expressions are passed over.
pub fn kubelet(settings: &Map<String, Value>) -> Vec<Fault> {
    let mut faults = Vec::new();
    structure("KubeletConfiguration", settings, "", &mut faults);
    if !faults.is_empty() {
        return faults;
    }
    let texts = |name: &str| -> BTreeMap<&str, &str> {
        let map = settings.get(name).and_then(Value::as_object);
        let pairs = map.into_iter().flatten();
        pairs
            .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
            .collect()
    };
    for name in RESERVING {
        for (key, value) in texts(name) {
            reserved(name, key, value, &mut faults);
        }
    }
    for name in ["evictionHard", "evictionSoft", "evictionMinimumReclaim"] {
        for (key, value) in texts(name) {
            signal(name, key, &mut faults);
            threshold(name, key, value, &mut faults);
        }
    }
    let (soft, grace) = (texts("evictionSoft"), texts("evictionSoftGracePeriod"));
    for (key, value) in &grace {
        signal("evictionSoftGracePeriod", key, &mut faults);
        if duration::parse(value).is_none_or(|time| time < 0) {
            let what = format!("{} is not a duration from 0 on", quoted(value));
            faults.push(Fault::new(
                format!("evictionSoftGracePeriod[{key}]"),
                what,
                "write it like 90s or 1m30s",
            ));
        }
    }
    for (name, these, other, those) in [
        ("evictionSoft", &soft, "evictionSoftGracePeriod", &grace),
        ("evictionSoftGracePeriod", &grace, "evictionSoft", &soft),
    ] {
        for key in these.keys().filter(|key| !those.contains_key(*key)) {
            let what = format!("has no entry in {other}");
            faults.push(Fault::new(format!("{name}[{key}]"), what, "give it one"));
        }
    }
    numbers(settings, &mut faults);
    if settings.contains_key("registerWithTaints") {
        faults.push(Fault::new(
            "registerWithTaints",
            "is set by the autoscaler",
            "give taints and startupTaints in the NodePool",
        ));
    }
    faults
}

/// Settings of the wrong type in what the kubelet itself is given, with fields below it. Expressions
/// are of the wrong type there; what is unknown is passed over, as the kubelet does.
pub(super) fn types(settings: &Map<String, Value>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let known = known_only("KubeletConfiguration", settings);
    structure("KubeletConfiguration", &known, "", &mut faults);
    if settings.get("maxPods").is_some_and(Value::is_string) {
        let what = "is not a whole number of 32 bits";
        faults.push(Fault::new("maxPods", what, "write a whole number"));
    }
    faults
}

fn numbers(settings: &Map<String, Value>, faults: &mut Vec<Fault>) {
    let number = |name: &str| settings.get(name).and_then(Value::as_i64);
    for name in ["maxPods", "podsPerCore", "evictionMaxPodGracePeriod"] {
        if number(name).is_some_and(|number| number < 0) {
            faults.push(Fault::new(name, "is negative", "write 0 or more"));
        }
    }
    let (high, low) = ("imageGCHighThresholdPercent", "imageGCLowThresholdPercent");
    for name in [high, low] {
        if number(name).is_some_and(|percent| !(0..=100).contains(&percent)) {
            faults.push(Fault::new(name, "is not a percentage", "write 0 to 100"));
        }
    }
    if let (Some(above), Some(below)) = (number(high), number(low))
        && above <= below
    {
        let what = format!("is not above {low}, which is {below}");
        faults.push(Fault::new(
            high,
            what,
            "images are removed from the one to the other",
        ));
    }
}

fn reserved(name: &str, key: &str, value: &str, faults: &mut Vec<Fault>) {
    let field = format!("{name}[{key}]");
    if !RESERVED.contains(&key) {
        let hint = format!("expected one of {}", RESERVED.join(", "));
        return faults.push(Fault::new(field, "is not a resource to reserve", hint));
    }
    if value.starts_with('-') {
        faults.push(Fault::new(
            field,
            "is negative",
            "write it like 100m or 1Gi",
        ));
    }
}

fn signal(name: &str, key: &str, faults: &mut Vec<Fault>) {
    if !EVICTION_SIGNALS.contains(&key) {
        let hint = format!("expected one of {}", EVICTION_SIGNALS.join(", "));
        faults.push(Fault::new(
            format!("{name}[{key}]"),
            "is not an eviction signal",
            hint,
        ));
    }
}

/// A percentage from 0 to 100, or a quantity that is not negative.
fn threshold(name: &str, key: &str, value: &str, faults: &mut Vec<Fault>) {
    let right = match value.strip_suffix('%') {
        Some(percent) => percent
            .parse::<f64>()
            .is_ok_and(|percent| (0.0..=100.0).contains(&percent)),
        None => Quantity::parse(value).is_ok_and(|amount| !amount.is_negative()),
    };
    if !right {
        let what = format!("{} is neither a percentage nor an amount", quoted(value));
        faults.push(Fault::new(
            format!("{name}[{key}]"),
            what,
            "write it like 5% or 500Mi",
        ));
    }
}

fn structure(name: &str, fields: &Map<String, Value>, path: &str, faults: &mut Vec<Fault>) {
    let Some(known) = TYPES.get(name) else {
        return;
    };
    for (field, value) in fields {
        let path = match path {
            "" => field.clone(),
            path => format!("{path}.{field}"),
        };
        match known.get(field) {
            // An expression.
            Some(_) if path == "maxPods" && value.is_string() => {}
            Some(kind) => of_type(kind, value, &path, faults),
            None => {
                let same = |one: &&String| one.eq_ignore_ascii_case(field);
                let hint = match known.keys().find(same) {
                    Some(right) => format!("write {right}"),
                    None => "see KubeletConfiguration (kubelet.config.k8s.io/v1beta1)".to_owned(),
                };
                faults.push(Fault::new(path, "is not a setting of the kubelet", hint));
            }
        }
    }
}

/// Settings without those that the kubelet does not know: it drops them without a word.
pub(super) fn known_only(name: &str, fields: &Map<String, Value>) -> Map<String, Value> {
    let kind = |field: &str| TYPES.get(name)?.get(field);
    let known = fields.iter().filter_map(|(field, value)| {
        let below = kind(field)?.strip_prefix('=');
        let value = match (below, value) {
            (Some(name), Value::Object(fields)) => Value::Object(known_only(name, fields)),
            (_, value) => value.clone(),
        };
        Some((field.clone(), value))
    });
    known.collect()
}

fn of_type(kind: &str, value: &Value, path: &str, faults: &mut Vec<Fault>) {
    if value.is_null() && !kind.starts_with("duration") {
        return;
    }
    let mut wrong = |expected: &str| {
        let what = format!("is not {expected}");
        faults.push(Fault::new(path, what, format!("write {expected}")));
    };
    if let Some(kind) = kind.strip_prefix("[]") {
        match value {
            Value::Array(items) => items
                .iter()
                .enumerate()
                .for_each(|(at, item)| of_type(kind, item, &format!("{path}[{at}]"), faults)),
            _ => wrong("a list"),
        }
    } else if let Some(kind) = kind.strip_prefix("{}") {
        match value {
            Value::Object(map) => map
                .iter()
                .for_each(|(key, item)| of_type(kind, item, &format!("{path}[{key}]"), faults)),
            _ => wrong("a map"),
        }
    } else if let Some(name) = kind.strip_prefix('=') {
        match value {
            Value::Object(fields) => structure(name, fields, path, faults),
            _ => wrong("a map"),
        }
    } else if let Some(expected) = scalar(kind, value) {
        wrong(expected);
    }
}

/// What a value should be, if it is not.
fn scalar(kind: &str, value: &Value) -> Option<&'static str> {
    let within = |low: i64, high: i64| {
        value
            .as_i64()
            .is_some_and(|number| (low..=high).contains(&number))
    };
    let time = || {
        value
            .as_str()
            .is_some_and(|text| duration::parse(text).is_some())
    };
    let (right, expected) = match kind {
        "string" => (value.is_string(), "a text"),
        "bool" => (value.is_boolean(), "true or false"),
        "int32" => (
            within(i32::MIN.into(), i32::MAX.into()),
            "a whole number of 32 bits",
        ),
        "uint32" => (
            within(0, u32::MAX.into()),
            "a whole number of 32 bits, from 0 on",
        ),
        "int64" => (value.is_i64(), "a whole number"),
        "float64" => (value.is_number(), "a number"),
        "duration" => (time(), "a duration such as 90s"),
        "durationOrNumber" => (time() || value.is_i64(), "a duration such as 90s"),
        "quantity" => (
            value.is_number()
                || value
                    .as_str()
                    .is_some_and(|text| Quantity::parse(text).is_ok()),
            "an amount such as 1Gi",
        ),
        "time" => (
            value
                .as_str()
                .is_some_and(|text| longshore_api::time::timestamp(text).is_some()),
            "a time such as 2026-11-01T00:00:00Z",
        ),
        _ => (true, ""),
    };
    (!right).then_some(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_settings_is_whole() {
        let types: Types = serde_json::from_str(include_str!("kubelet.json")).unwrap();
        // 126 settings, kind and apiVersion.
        assert_eq!(types["KubeletConfiguration"].len(), 128);
        for (name, fields) in &types {
            for (field, kind) in fields {
                let kind = kind.trim_start_matches("[]").trim_start_matches("{}");
                let kind = kind.trim_start_matches("[]");
                let known = match kind.strip_prefix('=') {
                    Some(below) => types.contains_key(below),
                    None => {
                        let odd = scalar(kind, &Value::Array(Vec::new()));
                        odd.is_some_and(|expected| !expected.is_empty())
                    }
                };
                assert!(known, "{name}.{field}: {kind}");
            }
        }
    }
}
