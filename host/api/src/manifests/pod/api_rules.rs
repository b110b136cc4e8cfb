//! What the API server refuses of a pod, though a plan could be made of it: asked of manifests that
//! no API server has seen.
//!
//! Fields that planning does not read are not looked at, and neither is what placement refuses
//! itself (unknown operators, skews below one).

use super::requests::WireResources;
use super::{WirePod, WireSpec};
use crate::labels;
use crate::manifests::diagnostic::{Fault, Path, quoted};
use crate::manifests::wire::{Amount, Map};
use crate::quantity::Quantity;

/// The first thing that the API server would refuse.
pub(in crate::manifests) fn check(wire: &WirePod<'_>) -> Result<(), Fault> {
    match &wire.spec {
        Some(spec) => check_spec(spec, Path::Root.field("spec")),
        None => Ok(()),
    }
}

fn check_spec(spec: &WireSpec<'_>, at: Path<'_>) -> Result<(), Fault> {
    for (field, containers) in [
        ("containers", &spec.containers),
        ("initContainers", &spec.init_containers),
    ] {
        for (index, container) in containers.iter().enumerate() {
            if let Some(resources) = &container.resources {
                let at = at.field(field);
                check_resources(resources, at.index(index).field("resources"))?;
            }
        }
    }
    for (key, value) in spec.node_selector.iter() {
        label(
            key,
            value.as_deref().unwrap_or_default(),
            at.field("nodeSelector"),
        )?;
    }
    for (index, toleration) in spec.tolerations.iter().enumerate() {
        toleration.check_syntax(at.field("tolerations").index(index))?;
    }
    for (index, spread) in spec.topology_spread_constraints.iter().enumerate() {
        spread.check_keys(at.field("topologySpreadConstraints").index(index))?;
    }
    Ok(())
}

/// Fails on what is no label.
pub(in crate::manifests) fn label(key: &str, value: &str, at: Path<'_>) -> Result<(), Fault> {
    if !labels::is_label_key(key) {
        let what = format!("{} is not a label key", quoted(key));
        return Err(at
            .key(key)
            .fault(what, "write it like team or example.com/team"));
    }
    label_value(value, at.key(key))
}

/// Fails on a text that no label may have as its value.
pub(in crate::manifests) fn label_value(value: &str, at: Path<'_>) -> Result<(), Fault> {
    if labels::is_label_value(value) {
        return Ok(());
    }
    let what = format!("{} is not a label value", quoted(value));
    Err(at.fault(
        what,
        "at most 63 letters, digits, `-`, `_` and `.`, first and last a letter or digit",
    ))
}

fn check_resources(resources: &WireResources<'_>, at: Path<'_>) -> Result<(), Fault> {
    let (requests, limits) = (&resources.requests, &resources.limits);
    for (name, amount) in requests.iter() {
        check_name(name, at.field("requests"))?;
        let (at, limit) = (at.field("requests"), limits.get(name));
        check_whole(name, amount, at.key(name))?;
        match limit.map(|limit| compare(amount, limit)) {
            Some(Some(std::cmp::Ordering::Greater)) => {
                let limit = limit.map_or("", |limit| &limit.0);
                return Err(at.key(name).fault(
                    format!("{} is above the limit {}", quoted(&amount.0), quoted(limit)),
                    "the API server refuses it",
                ));
            }
            Some(Some(std::cmp::Ordering::Less)) if is_not_overcommitted(name) => {
                return Err(at.key(name).fault(
                    format!("{} is not its limit", quoted(&amount.0)),
                    "devices and huge pages cannot be overcommitted: request and limit are equal",
                ));
            }
            None if is_not_overcommitted(name) => {
                return Err(at.key(name).fault(
                    "has no limit",
                    "devices and huge pages cannot be overcommitted: set the limit to the same",
                ));
            }
            _ => {}
        }
    }
    for (name, amount) in limits.iter() {
        check_name(name, at.field("limits"))?;
        check_whole(name, amount, at.field("limits").key(name))?;
    }
    let has_pages =
        |map: &Map<'_, Amount<'_>>| map.iter().any(|(name, _)| name.starts_with("hugepages-"));
    let has = |name| requests.get(name).is_some() || limits.get(name).is_some();
    if (has_pages(requests) || has_pages(limits)) && !has("cpu") && !has("memory") {
        return Err(at.fault(
            "has huge pages without cpu or memory",
            "the API server asks for one of them beside huge pages",
        ));
    }
    Ok(())
}

/// A resource of a container is one of Kubernetes' own or has a domain.
fn check_name(name: &str, at: Path<'_>) -> Result<(), Fault> {
    let own = matches!(name, "cpu" | "memory" | "ephemeral-storage");
    if own || name.starts_with("hugepages-") || (name.contains('/') && labels::is_label_key(name)) {
        return Ok(());
    }
    let what = format!("{} is not a resource", quoted(name));
    let hint = "write cpu, memory, ephemeral-storage, hugepages-2Mi, or a name with a domain such as \
                example.com/device";
    Err(at.key(name).fault(what, hint))
}

/// Devices are counted in whole numbers.
fn check_whole(name: &str, amount: &Amount<'_>, at: Path<'_>) -> Result<(), Fault> {
    let fraction = || {
        let amount = Quantity::parse(&amount.0).ok()?;
        let (milli, whole) = (amount.milli().ok()?, amount.whole().ok()?);
        Some(milli != whole.checked_mul(1000)?)
    };
    if is_extended(name) && fraction() == Some(true) {
        let what = format!("{} is not a whole number", quoted(&amount.0));
        return Err(at.fault(what, "devices are counted in whole numbers"));
    }
    Ok(())
}

fn compare(request: &Amount<'_>, limit: &Amount<'_>) -> Option<std::cmp::Ordering> {
    let read = |amount: &Amount<'_>| Quantity::parse(&amount.0).ok();
    let (request, limit) = (read(request)?, read(limit)?);
    match (request.milli(), limit.milli()) {
        (Ok(request), Ok(limit)) => Some(request.cmp(&limit)),
        // What is too large for thousandths is compared in whole units; a limit beyond any number
        // is above every request.
        _ => match (request.whole(), limit.whole()) {
            (Ok(request), Ok(limit)) => Some(request.cmp(&limit)),
            (Ok(_), Err(_)) => Some(std::cmp::Ordering::Less),
            (Err(_), _) => None,
        },
    }
}

fn is_extended(name: &str) -> bool {
    name.split_once('/')
        .is_some_and(|(domain, _)| !domain.ends_with("kubernetes.io"))
}

fn is_not_overcommitted(name: &str) -> bool {
    is_extended(name) || name.starts_with("hugepages-")
}
