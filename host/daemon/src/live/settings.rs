//! What Karpenter's environment and flags mean here. Flags win over the environment; what is not understood is said.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use longshore_core::model::{MinValuesPolicy, PreferencePolicy};

use crate::failure::Failure;

/// What an operator set.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub metrics: SocketAddr,
    pub probes: SocketAddr,
    pub elects: bool,
    pub lease: String,
    pub namespace: String,
    pub idle: Duration,
    pub longest: Duration,
    pub preferences: Option<PreferencePolicy>,
    pub min_values: Option<MinValuesPolicy>,
    pub reserved_capacity: bool,
    pub log_level: String,
    pub instance_types: Option<PathBuf>,
    /// What was set and has no effect, in words.
    pub notes: Vec<String>,
}

/// Variables of Karpenter's that mean nothing here, and why.
const WITHOUT_MEANING: [(&str, &str); 8] = [
    ("KUBE_CLIENT_QPS", "requests are not limited by rate; how many are under way at once is"),
    ("KUBE_CLIENT_BURST", "requests are not limited by rate; how many are under way at once is"),
    ("MEMORY_LIMIT", "there is no garbage collector to tune"),
    ("CPU_REQUESTS", "work is not scaled by it"),
    ("ENABLE_PROFILING", "not yet: there is no profile to serve"),
    ("DISABLE_CONTROLLER_WARMUP", "replicas always watch"),
    ("KARPENTER_SERVICE", "nothing uses it"),
    ("IGNORE_DRA_REQUESTS", "claims of dynamic resources are always ignored"),
];

/// Reads settings from variables.
///
/// # Errors
/// The first variable that cannot be understood.
pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Settings, Failure> {
    let wrong = |name: &str, value: &str, expected: &str| Failure::Usage {
        message: format!("environment variable {name}: {value:?} is not understood"),
        hint: format!("expected {expected}"),
    };
    let port = |name: &str, default: u16| match get(name) {
        None => Ok(default),
        Some(text) => text.parse::<u16>().map_err(|_| wrong(name, &text, "a port such as 8080")),
    };
    let flag = |name: &str, default: bool| match get(name).as_deref() {
        None | Some("") => Ok(default),
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(text) => Err(wrong(name, text, "true or false")),
    };
    let span = |name: &str, default: Duration| match get(name) {
        None => Ok(default),
        Some(text) => go_duration(&text).ok_or_else(|| wrong(name, &text, "a duration such as 1s or 500ms")),
    };
    let mut notes = Vec::new();
    for (name, why) in WITHOUT_MEANING {
        if get(name).is_some() {
            notes.push(format!("{name} is set and has no effect: {why}"));
        }
    }
    if get("SCHEDULER_CONFIG").is_some_and(|v| !v.is_empty()) {
        return Err(Failure::Usage {
            message: "environment variable SCHEDULER_CONFIG is set".into(),
            hint: "not yet: default topology spread constraints cannot be given to the daemon".into(),
        });
    }
    let mut reserved_capacity = true;
    for gate in get("FEATURE_GATES").unwrap_or_default().split(',').filter(|g| !g.trim().is_empty()) {
        match gate.trim().split_once('=') {
            Some(("ReservedCapacity", value)) => reserved_capacity = value == "true",
            Some((name, "true")) => notes.push(format!("feature gate {name}=true has no effect: not yet")),
            Some(_) => {}
            None => return Err(wrong("FEATURE_GATES", gate, "Name=true or Name=false, separated by commas")),
        }
    }
    let local = |port: u16| SocketAddr::from(([0, 0, 0, 0], port));
    Ok(Settings {
        metrics: local(port("METRICS_PORT", 8080)?),
        probes: local(port("HEALTH_PROBE_PORT", 8081)?),
        elects: !flag("DISABLE_LEADER_ELECTION", false)?,
        lease: get("LEADER_ELECTION_NAME").unwrap_or_else(|| "karpenter-leader-election".into()),
        namespace: get("LEADER_ELECTION_NAMESPACE")
            .or_else(|| get("SYSTEM_NAMESPACE"))
            .filter(|n| !n.is_empty())
            .unwrap_or_else(|| "kube-system".into()),
        idle: span("BATCH_IDLE_DURATION", Duration::from_secs(1))?,
        longest: span("BATCH_MAX_DURATION", Duration::from_secs(10))?,
        preferences: match get("PREFERENCE_POLICY").as_deref() {
            None | Some("") => None,
            Some("Respect") => Some(PreferencePolicy::Respect),
            Some("Ignore") => Some(PreferencePolicy::Ignore),
            Some(text) => return Err(wrong("PREFERENCE_POLICY", text, "Respect or Ignore")),
        },
        min_values: match get("MIN_VALUES_POLICY").as_deref() {
            None | Some("") => None,
            Some("Strict") => Some(MinValuesPolicy::Strict),
            Some("BestEffort") => Some(MinValuesPolicy::BestEffort),
            Some(text) => return Err(wrong("MIN_VALUES_POLICY", text, "Strict or BestEffort")),
        },
        reserved_capacity,
        log_level: match get("LOG_LEVEL").as_deref() {
            None | Some("") => "info".into(),
            Some(level @ ("debug" | "info" | "error" | "warn")) => level.into(),
            Some(text) => return Err(wrong("LOG_LEVEL", text, "debug, info or error")),
        },
        instance_types: get("INSTANCE_TYPES_FILE_PATH").filter(|p| !p.is_empty()).map(PathBuf::from),
        notes,
    })
}

/// A duration as Go writes it: `1s`, `500ms`, `1m30s`.
fn go_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut all = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        let unit = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| digits + at);
        let seconds = match &rest[digits..unit] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        all += Duration::try_from_secs_f64(number * seconds).ok()?;
        rest = &rest[unit..];
    }
    (!text.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Result<Settings, Failure> {
        read(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
    }

    #[test]
    fn nothing_set_means_karpenters_defaults() {
        let settings = with(&[]).unwrap();
        assert_eq!((settings.metrics.port(), settings.probes.port()), (8080, 8081));
        assert!(settings.elects && settings.reserved_capacity && settings.notes.is_empty());
        assert_eq!((settings.idle.as_secs(), settings.longest.as_secs()), (1, 10));
        assert_eq!(settings.lease, "karpenter-leader-election");
    }

    #[test]
    fn what_karpenter_understands_is_understood() {
        let settings = with(&[
            ("METRICS_PORT", "9000"),
            ("BATCH_IDLE_DURATION", "1m30s"),
            ("BATCH_MAX_DURATION", "500ms"),
            ("FEATURE_GATES", "ReservedCapacity=false, NodeRepair=true"),
            ("PREFERENCE_POLICY", "Ignore"),
            ("KUBE_CLIENT_QPS", "7"),
        ]);
        let settings = settings.unwrap();
        assert_eq!((settings.metrics.port(), settings.idle.as_secs(), settings.longest.as_millis()), (9000, 90, 500));
        assert!(!settings.reserved_capacity);
        assert_eq!(settings.notes.len(), 2, "{:?}", settings.notes);
    }

    #[test]
    fn what_is_not_understood_is_an_error_with_a_hint() {
        for (name, value) in [
            ("METRICS_PORT", "many"),
            ("DISABLE_LEADER_ELECTION", "yes"),
            ("BATCH_IDLE_DURATION", "1 fortnight"),
            ("PREFERENCE_POLICY", "maybe"),
            ("FEATURE_GATES", "NodeRepair"),
            ("LOG_LEVEL", "loud"),
        ] {
            let told = with(&[(name, value)]).unwrap_err().report();
            assert!(told.contains(name) && told.contains("expected"), "{told}");
        }
    }
}
