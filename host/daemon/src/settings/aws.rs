//! What the flags and variables of Karpenter's AWS provider mean here.

use std::time::Duration;

use super::{Note, called, go_duration};
use longshore_live::error::Failure;

/// What an operator set about EC2.
#[derive(Clone, Debug, PartialEq)]
pub struct AwsSettings {
    pub cluster_name: String,
    /// Empty for what EKS says.
    pub cluster_endpoint: String,
    /// PEM in base64; empty for the certificate of the pod's ServiceAccount, or what EKS says.
    pub cluster_ca_bundle: String,
    /// There is no way to IAM and to the price list.
    pub isolated: bool,
    /// The Kubernetes version is asked of EKS and not of the API server.
    pub eks_control_plane: bool,
    /// The share of memory that the hypervisor keeps.
    pub vm_memory_overhead: f64,
    pub reserved_enis: i64,
    /// Name of the queue with interruptions, if there is one.
    pub interruption_queue: Option<String>,
    pub without_dry_runs: bool,
    /// Zonal shifts of the cluster are obeyed.
    pub zonal_shift: bool,
    /// Gate RebootForRepair: what a reboot helps is rebooted and not replaced.
    pub reboot_for_repair: bool,
    /// How often each is asked for.
    pub images_every: Duration,
    pub subnets_every: Duration,
    pub groups_every: Duration,
    /// Gate NodeClassCEL: settings of the kubelet may be expressions.
    pub expressions: bool,
    /// What was set and has no effect.
    pub notes: Vec<Note>,
}

/// The least interval of Karpenter.
const MINUTE: Duration = Duration::from_secs(60);

/// Gates of the AWS provider that do nothing here yet.
const GATES: [&str; 2] = ["DRANVIDIAGPU", "DRAEFA"];

/// Reads them: `get` answers what was set for a variable, by its flag or in the environment.
///
/// # Errors
/// The first variable that cannot be understood, or CLUSTER_NAME if it is missing.
pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<AwsSettings, Failure> {
    let get = |name: &str| get(name).filter(|text| !text.is_empty());
    let wrong = |name: &str, value: &str, expected: &str| Failure::Usage {
        message: format!("{}: {value:?} is not understood", called(name)),
        hint: format!("expected {expected}"),
    };
    let flag = |name: &str| match get(name).as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(text) => Err(wrong(name, text, "true or false")),
    };
    let interval = |name: &str| match get(name) {
        None => Ok(MINUTE),
        Some(text) => go_duration(&text)
            .filter(|every| *every >= MINUTE)
            .ok_or_else(|| wrong(name, &text, "a duration of at least 1m")),
    };
    let cluster_name = get("CLUSTER_NAME").ok_or_else(|| Failure::Usage {
        message: "--provider aws needs the cluster's name".to_owned(),
        hint: "set --cluster-name or CLUSTER_NAME to the name that EKS knows".to_owned(),
    })?;
    let cluster_endpoint = get("CLUSTER_ENDPOINT").unwrap_or_default();
    let has_host = |url: &str| {
        let host = url.split_once("://").map(|(_, rest)| rest);
        host.is_some_and(|host| !host.is_empty() && !host.starts_with('/'))
    };
    if !cluster_endpoint.is_empty() && !has_host(&cluster_endpoint) {
        let expected = "an URL with a host, such as https://ABC.gr7.us-east-1.eks.amazonaws.com";
        return Err(wrong("CLUSTER_ENDPOINT", &cluster_endpoint, expected));
    }
    let vm_memory_overhead = match get("VM_MEMORY_OVERHEAD_PERCENT") {
        None => 0.075,
        Some(text) => text
            .parse::<f64>()
            .ok()
            .filter(|share| (0.0..1.0).contains(share))
            .ok_or_else(|| {
                let name = "VM_MEMORY_OVERHEAD_PERCENT";
                wrong(
                    name,
                    &text,
                    "a share of at least 0 and below 1, such as 0.075",
                )
            })?,
    };
    let reserved_enis = match get("RESERVED_ENIS") {
        None => 0,
        Some(text) => text
            .parse::<i64>()
            .ok()
            .filter(|count| *count >= 0)
            .ok_or_else(|| wrong("RESERVED_ENIS", &text, "a number that is not negative"))?,
    };
    let mut notes = Vec::new();
    let (mut expressions, mut reboot_for_repair) = (false, false);
    let gates = get("AWS_FEATURE_GATES").unwrap_or_default();
    for gate in gates.split(',').filter(|gate| !gate.trim().is_empty()) {
        match gate.trim().split_once('=') {
            Some(("NodeClassCEL", "true")) => expressions = true,
            Some(("RebootForRepair", "true")) => reboot_for_repair = true,
            Some((_, "false")) => {}
            Some((name, "true")) if GATES.contains(&name) => {
                let what =
                    format!("AWS feature gate {name} is not implemented yet and has no effect");
                notes.push(Note::of_nodes(what));
            }
            // As Karpenter does, which is silent about it.
            Some((name, "true")) => {
                let what = format!("AWS feature gate {name} is not known");
                notes.push(Note::of_nodes(what));
            }
            _ => {
                let expected = "Name=true or Name=false, separated by commas";
                return Err(wrong("AWS_FEATURE_GATES", gate.trim(), expected));
            }
        }
    }
    Ok(AwsSettings {
        cluster_name,
        cluster_endpoint,
        cluster_ca_bundle: get("CLUSTER_CA_BUNDLE").unwrap_or_default(),
        isolated: flag("ISOLATED_VPC")?,
        eks_control_plane: flag("EKS_CONTROL_PLANE")?,
        vm_memory_overhead,
        reserved_enis,
        interruption_queue: get("INTERRUPTION_QUEUE"),
        without_dry_runs: flag("DISABLE_DRY_RUN")?,
        zonal_shift: flag("ENABLE_ZONAL_SHIFT")?,
        reboot_for_repair,
        images_every: interval("AMI_REFRESH_INTERVAL")?,
        subnets_every: interval("SUBNET_REFRESH_INTERVAL")?,
        groups_every: interval("SECURITY_GROUP_REFRESH_INTERVAL")?,
        expressions,
        notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Result<AwsSettings, String> {
        let get = |name: &str| {
            let found = pairs.iter().find(|(own, _)| *own == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        read(get).map_err(|failure| failure.report())
    }

    #[test]
    fn a_name_is_needed_and_the_rest_has_karpenters_defaults() {
        assert!(with(&[]).unwrap_err().contains("--cluster-name"));
        let settings = with(&[("CLUSTER_NAME", "demo"), ("INTERRUPTION_QUEUE", "")]).unwrap();
        assert_eq!(settings.interruption_queue, None);
        assert_eq!(
            (settings.vm_memory_overhead, settings.reserved_enis),
            (0.075, 0)
        );
        let every = [
            settings.images_every,
            settings.subnets_every,
            settings.groups_every,
        ];
        assert_eq!(every, [MINUTE; 3]);
        assert!(!settings.isolated && !settings.expressions && settings.notes.is_empty());
    }

    #[test]
    fn nonsense_is_refused_with_the_variable_and_a_hint() {
        for (name, value, hint) in [
            ("CLUSTER_ENDPOINT", "demo.example.com", "URL with a host"),
            ("CLUSTER_ENDPOINT", "https:///path", "URL with a host"),
            ("VM_MEMORY_OVERHEAD_PERCENT", "-1", "0.075"),
            ("VM_MEMORY_OVERHEAD_PERCENT", "NaN", "0.075"),
            ("RESERVED_ENIS", "-1", "not negative"),
            ("AMI_REFRESH_INTERVAL", "30s", "at least 1m"),
            ("ISOLATED_VPC", "yes", "true or false"),
            ("AWS_FEATURE_GATES", "NodeClassCEL", "Name=true"),
        ] {
            let report = with(&[("CLUSTER_NAME", "demo"), (name, value)]).unwrap_err();
            assert!(report.contains(name) && report.contains(hint), "{report}");
        }
    }

    #[test]
    fn what_has_no_effect_yet_is_said() {
        let set = [
            ("CLUSTER_NAME", "demo"),
            ("ENABLE_ZONAL_SHIFT", "true"),
            (
                "AWS_FEATURE_GATES",
                "NodeClassCEL=true,RebootForRepair=true,DRAEFA=true,Other=true,Else=false",
            ),
        ];
        let settings = with(&set).unwrap();
        assert!(settings.expressions && settings.zonal_shift && settings.reboot_for_repair);
        assert_eq!(settings.notes.len(), 2, "{:?}", settings.notes);
    }
}
