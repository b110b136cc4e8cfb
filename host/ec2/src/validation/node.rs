//! Whether a node joins: what its kubelet and the readers of its user data refuse.

use std::net::IpAddr;

use longshore_api::manifests::quoted;
use longshore_userdata::{self as userdata, mime};
use serde_json::{Map, Value};

use super::fault::{Fault, Invalid, Reason, below, found};
use super::kubelet_settings::{known_only, types};
use super::unjoined::unjoined;
use crate::bootstrap::flags::has as has_flag;
use crate::bootstrap::read_back::ReadBack;
use crate::bootstrap::{joins, node_config, sample};
use crate::catalogue::class::kubelet::Kubelet;
use crate::kubelet::effective::Base;
use crate::kubelet::refused;
use crate::kubelet::versions::{Kubelets, minor};
use crate::nodeclass::{AmiFamily, EC2NodeClass};

/// The kubelets that nodes of a NodeClass have: those of its images' names, else that of the cluster
/// where an alias selects images for its version, else one that the cluster takes. `kubernetes` is
/// the cluster's minor version.
pub fn kubelets(object: &EC2NodeClass, kubernetes: Option<u16>) -> Kubelets {
    let amis = object
        .status
        .as_ref()
        .map_or(&[][..], |status| &status.amis);
    let named = amis.iter().map(|image| in_name(image.name.as_deref()?));
    let named: Option<Vec<u16>> = named.collect();
    let version = kubernetes.map_or_else(String::new, |minor| format!("1.{minor}"));
    match named.filter(|minors| !minors.is_empty()) {
        Some(minors) => Kubelets::each(minors),
        None if object.spec.alias().is_some() => Kubelets::of(&version),
        None => Kubelets::up_to(&version),
    }
}

/// The minor version in the name of an image of EKS, such as
/// `amazon-eks-node-al2023-x86_64-standard-1.36-v20261101`.
fn in_name(name: &str) -> Option<u16> {
    let known = ["amazon-eks-", "bottlerocket-aws-k8s-", "Windows_Server-"];
    let named = known.iter().any(|start| name.starts_with(start));
    name.split('-').filter(|_| named).find_map(minor)
}

/// Checks whether a node of `family` with these settings and user data would join. How long the user
/// data is is not looked at: a dry run tells.
///
/// # Errors
/// What keeps it from joining.
pub fn node(
    family: AmiFamily,
    settings: &Map<String, Value>,
    user_data: Option<&str>,
    kubelets: &Kubelets,
) -> Result<(), Invalid> {
    // What images of one's own do with settings is not known.
    let Some(base) = Base::of(family.into()) else {
        return Ok(());
    };
    let mut own = refused(settings, base, kubelets);
    own.extend(unjoined(settings));
    // Bottlerocket's model is stricter than the kubelet.
    if family == AmiFamily::Bottlerocket {
        let boot = sample::sample(family, settings, None);
        let text = userdata::merged(&boot).unwrap_or_default();
        if let Err(what) = joins(&boot, &text) {
            let fault = Fault::new("kubelet", what, "change it");
            return found(Reason::InvalidKubeletConfiguration, vec![fault]);
        }
    }
    let Some(text) = user_data.filter(|text| !text.is_empty()) else {
        return found(Reason::InvalidKubeletConfiguration, below(own));
    };
    let boot = sample::sample(family, settings, Some(text));
    let fault = |what: String, hint: &str| Fault::new("userData", what, hint);
    let merged = userdata::merged(&boot).map_err(|own| fault(own.what, own.hint));
    let said = merged.and_then(|sent| {
        let hint = |what: &str| match what.starts_with("its NodeConfig") && !mime::is_archive(text) {
            false => "a node would not join with it",
            true => {
                "begin a NodeConfig with apiVersion node.eks.aws/v1alpha1 and its kind, a script with \
                 #!, and what cloud-init reads with #cloud-config"
            }
        };
        joins(&boot, &sent).map_err(|what| {
            let hint = hint(&what);
            fault(what, hint)
        })
    });
    let said = match said {
        Ok(said) => said,
        Err(fault) => {
            found(Reason::InvalidKubeletConfiguration, below(own))?;
            return found(Reason::InvalidUserData, vec![fault]);
        }
    };
    // What the NodeClass says may be right together with what the user data says.
    let mut together = starts(&said, base, kubelets);
    together.extend(unjoined(&said.settings));
    let of_class = |fault: &Fault| own.iter().any(|one| one.field == fault.field);
    let (own, others): (Vec<Fault>, Vec<Fault>) = together.into_iter().partition(of_class);
    found(Reason::InvalidKubeletConfiguration, below(own))?;
    let of_text = |fault: Fault| Fault {
        field: "userData".to_owned(),
        what: format!("has {}, which {}", fault.field, fault.what),
        hint: fault.hint,
    };
    let others = others.into_iter().map(of_text).collect();
    found(Reason::InvalidUserData, others)
}

/// What of a NodeClass does not reach its nodes, or reaches them otherwise than it seems, in sentences.
pub fn warnings(
    family: AmiFamily,
    settings: &Map<String, Value>,
    user_data: Option<&str>,
) -> Vec<String> {
    let text = user_data.unwrap_or_default();
    let mut out = userdata::left_out(family.into(), text);
    let said = sample::said(family, settings, user_data);
    let all = said.as_ref().map_or(settings, |said| &said.settings);
    let whole = all
        .get("memoryManagerPolicy")
        .is_some_and(|of| of == "Static");
    let known = Base::of(family.into()).is_some();
    if known && whole && !all.contains_key("reservedMemory") {
        out.push(
            "memoryManagerPolicy Static needs a reservedMemory that makes up kubeReserved, \
             systemReserved and evictionHard together: the kubelet ends without it"
                .to_owned(),
        );
    }
    if known {
        out.extend(passed_over(all));
    }
    if family == AmiFamily::AL2023 {
        out.extend(replaced(settings, text));
    }
    let Some(said) = said else {
        return out;
    };
    let known = known_only("KubeletConfiguration", &said.settings);
    let unknown = said
        .settings
        .keys()
        .filter(|name| !known.contains_key(*name));
    out.extend(unknown.map(|name| {
        format!("spec.kubelet.config.{name} is not a setting of the kubelet, which drops it")
    }));
    // Expressions are counted elsewhere.
    let own = sample::sample(family, settings, None).kubelet;
    let own: Map<String, Value> = own
        .into_iter()
        .filter(|(name, value)| {
            !value.is_null() && (name != "maxPods" || settings.contains_key(name))
        })
        .collect();
    if let Ok(own) = Kubelet::of(&own) {
        out.extend(sample::differences(&own, &said));
    }
    out
}

/// Settings that a kubelet starts with and does not follow.
fn passed_over(settings: &Map<String, Value>) -> Vec<String> {
    let mut out = Vec::new();
    let servers = settings.get("clusterDNS").and_then(Value::as_array);
    let servers = servers.into_iter().flatten().filter_map(Value::as_str);
    for server in servers.filter(|server| server.parse::<IpAddr>().is_err()) {
        out.push(format!(
            "clusterDNS has {}, which is not an address: the kubelet passes over it",
            quoted(server)
        ));
    }
    let id = settings.get("providerID").and_then(Value::as_str);
    if let Some(id) = id.filter(|id| !id.is_empty()) {
        out.push(format!(
            "providerID is {} on all nodes: a NodeClaim does not find its Node by it, since the \
             instance has an ID of its own",
            quoted(id)
        ));
    }
    let endpoint = settings.get("containerRuntimeEndpoint");
    let endpoint = endpoint.and_then(Value::as_str).unwrap_or_default();
    if !endpoint.is_empty() && !endpoint.ends_with("/run/containerd/containerd.sock") {
        out.push(format!(
            "containerRuntimeEndpoint is {}: the image's containerd listens at \
             unix:///run/containerd/containerd.sock, and a kubelet without a runtime ends",
            quoted(endpoint)
        ));
    }
    out
}

/// Settings of a NodeConfig of the user's that ours replaces, because they are set on every node.
fn replaced(settings: &Map<String, Value>, text: &str) -> Vec<String> {
    let asked = node_config(text);
    let all = [
        (
            "maxPods",
            "spec.kubelet.maxPods, or without it by what the instance type takes",
        ),
        (
            "clusterDNS",
            "spec.kubelet.clusterDNS, or without it by the cluster's own",
        ),
        ("registerWithTaints", "the taints of the NodePool"),
    ];
    let lost = all.into_iter().filter(|(name, _)| {
        let theirs = asked.get(*name).filter(|value| !value.is_null());
        theirs.is_some_and(|theirs| settings.get(*name) != Some(theirs))
    });
    let lost = lost.map(|(name, by)| format!("spec.kubelet.config.{name} is replaced by {by}"));
    lost.collect()
}

/// What kubelets refuse of what user data says to them, with the fields of their settings, or flags.
pub fn starts(said: &ReadBack, base: Base, kubelets: &Kubelets) -> Vec<Fault> {
    let mut settings = known_only("KubeletConfiguration", &said.settings);
    settings.remove("registerWithTaints");
    let mut faults = types(&settings);
    if faults.is_empty() {
        faults = refused(&settings, base, kubelets);
    }
    let unknown = said.flags.iter().filter(|name| {
        let lacks = |minor: u16| !has_flag(name, minor);
        kubelets.refuse(lacks)
    });
    faults.extend(unknown.map(|name| {
        let what = format!(
            "is not a flag of the kubelet of 1.{}, which ends on it",
            kubelets.newest()
        );
        Fault::new(format!("--{name}"), what, "remove it")
    }));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_image_says_the_version_of_its_kubelet() {
        for (name, version) in [
            (
                "amazon-eks-node-al2023-x86_64-standard-1.36-v20261101",
                Some(36),
            ),
            ("amazon-eks-node-1.30-v20241213", Some(30)),
            ("bottlerocket-aws-k8s-1.31-x86_64-v1.46.0-0abc", Some(31)),
            (
                "Windows_Server-2022-English-Core-EKS_Optimized-1.33-2026.01.13",
                Some(33),
            ),
            ("my-image-1.31", None),
        ] {
            assert_eq!(in_name(name), version, "{name}");
        }
    }
}
