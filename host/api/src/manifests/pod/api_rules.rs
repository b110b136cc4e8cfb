//! What the API server refuses of a pod, though a plan could be made of it: asked of manifests that
//! no API server has seen.
//!
//! What needs no amounts is in `typed/pod.rs`. What placement refuses itself (unknown operators, skews
//! below one) is not looked at.

use super::requests::is_pod_level;
use super::wire::{
    WireContainer, WirePod, WireResources, WireSpec, WireSpread, WireTemplate, WireToleration,
};
use crate::labels;
use crate::manifests::diagnostic::{Fault, Path, quoted};
use crate::manifests::object::quantity;
use crate::manifests::wire::{Amount, Map};
use crate::quantity::Quantity;

/// The first thing that the API server would refuse.
pub(in crate::manifests) fn check(wire: &WirePod<'_>) -> Result<(), Fault> {
    match &wire.spec {
        Some(spec) => check_spec(spec, Path::Root.field("spec")),
        None => Ok(()),
    }
}

/// The same of a pod template at `spec.template`.
pub(in crate::manifests) fn check_template(wire: &WireTemplate<'_>) -> Result<(), Fault> {
    match &wire.spec {
        Some(spec) => check_spec(spec, Path::Root.field("spec.template.spec")),
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
    if let Some(resources) = &spec.resources {
        check_whole_pod(resources, &spec.containers, at.field("resources"))?;
    }
    for (key, value) in spec.node_selector.iter() {
        label(
            key,
            value.as_deref().unwrap_or_default(),
            at.field("nodeSelector"),
        )?;
    }
    for (index, toleration) in spec.tolerations.iter().enumerate() {
        check_toleration(toleration, at.field("tolerations").index(index))?;
    }
    for (index, spread) in spec.topology_spread_constraints.iter().enumerate() {
        check_spread(spread, at.field("topologySpreadConstraints").index(index))?;
    }
    Ok(())
}

/// What the API server checks of a toleration beside its operator and effect.
fn check_toleration(toleration: &WireToleration<'_>, at: Path<'_>) -> Result<(), Fault> {
    let (key, value) = (
        toleration.key.as_deref().unwrap_or_default(),
        toleration.value.as_deref().unwrap_or_default(),
    );
    if toleration.operator.as_deref() == Some("Exists") && !value.is_empty() {
        return Err(at.field("value").fault(
            format!("{} stands beside the operator Exists", quoted(value)),
            "remove it, or write the operator Equal",
        ));
    }
    if !key.is_empty() && !labels::is_label_key(key) {
        let what = format!("{} is not a taint key", quoted(key));
        return Err(at
            .field("key")
            .fault(what, "write it like team or example.com/team"));
    }
    if toleration.toleration_seconds.is_some() && toleration.effect.as_deref() != Some("NoExecute")
    {
        return Err(at.field("effect").fault(
            "is not NoExecute beside tolerationSeconds",
            "write NoExecute, or remove tolerationSeconds",
        ));
    }
    match toleration.operator.as_deref() {
        None | Some("" | "Equal") => label_value(value, at.field("value")),
        _ => Ok(()),
    }
}

/// What the API server checks of the `matchLabelKeys` of a constraint.
fn check_spread(spread: &WireSpread<'_>, at: Path<'_>) -> Result<(), Fault> {
    if !spread.match_label_keys.is_empty() && spread.label_selector.is_none() {
        return Err(at.field("matchLabelKeys").fault(
            "stands without a labelSelector",
            "add the selector that the keys narrow, or remove them",
        ));
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
        check_pages(name, amount, at.key(name))?;
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
        check_pages(name, amount, at.field("limits").key(name))?;
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

/// What a pod asks for as a whole: of few resources, as much as its containers together, and at most
/// its limit. No container has a greater one.
fn check_whole_pod(
    resources: &WireResources<'_>,
    containers: &[WireContainer<'_>],
    at: Path<'_>,
) -> Result<(), Fault> {
    for (field, map) in [
        ("requests", &resources.requests),
        ("limits", &resources.limits),
    ] {
        if let Some((name, _)) = map.iter().find(|(name, _)| !is_pod_level(name)) {
            let what = format!("{} is not a resource of a pod as a whole", quoted(name));
            return Err(at
                .field(field)
                .key(name)
                .fault(what, "write cpu, memory or huge pages"));
        }
    }
    check_resources(resources, at)?;
    let number = |name: &str, amount: &Amount<'_>| {
        let amount = quantity(amount).ok()?;
        match name {
            "cpu" => amount.milli_saturating().ok(),
            _ => amount.whole_saturating().ok(),
        }
    };
    let of = |container: &WireContainer<'_>, name: &str, is_limit: bool| {
        let own = container.resources.as_ref()?;
        let limit = own.limits.get(name);
        let amount = if is_limit {
            limit
        } else {
            own.requests.get(name).or(limit)
        };
        number(name, amount?)
    };
    for (name, amount) in resources.requests.iter() {
        let mut sum = 0_i64;
        for container in containers {
            sum = sum.saturating_add(of(container, name, false).unwrap_or(0));
        }
        if number(name, amount).is_some_and(|whole| whole < sum) {
            let what = format!(
                "{} is less than its containers ask for together",
                quoted(&amount.0)
            );
            return Err(at
                .field("requests")
                .key(name)
                .fault(what, "raise it, or lower theirs"));
        }
    }
    for (name, amount) in resources.limits.iter() {
        let whole = number(name, amount).unwrap_or(i64::MAX);
        let above = |container: &&WireContainer<'_>| of(container, name, true) > Some(whole);
        if containers.iter().any(|container| above(&container)) {
            let what = format!("{} is below the limit of a container", quoted(&amount.0));
            return Err(at
                .field("limits")
                .key(name)
                .fault(what, "raise it, or lower theirs"));
        }
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
        let amount = quantity(amount).ok()?;
        let (milli, whole) = (amount.milli().ok()?, amount.whole().ok()?);
        Some(milli != whole.checked_mul(1000)?)
    };
    if is_extended(name) && fraction() == Some(true) {
        let what = format!("{} is not a whole number", quoted(&amount.0));
        return Err(at.fault(what, "devices are counted in whole numbers"));
    }
    Ok(())
}

/// Huge pages come in whole pages, of the size that their name says.
fn check_pages(name: &str, amount: &Amount<'_>, at: Path<'_>) -> Result<(), Fault> {
    let Some(size) = name.strip_prefix("hugepages-") else {
        return Ok(());
    };
    let size_of_page = Quantity::parse(size).ok().filter(|size| {
        let whole = size.whole().ok().and_then(|whole| whole.checked_mul(1000));
        whole.is_some_and(|milli| milli > 0 && size.milli() == Ok(milli))
    });
    let Some(page) = size_of_page.and_then(|size| size.whole().ok()) else {
        let what = format!("{} is not the size of a page", quoted(size));
        return Err(at.fault(what, "write hugepages-2Mi or hugepages-1Gi"));
    };
    match quantity(amount).map(Quantity::whole_saturating) {
        Ok(Ok(amount)) if amount % page == 0 => Ok(()),
        // Reading it says what is wrong.
        Err(_) | Ok(Err(_)) => Ok(()),
        Ok(Ok(_)) => {
            let what = format!("{} is no multiple of {size}", quoted(&amount.0));
            Err(at.fault(what, "huge pages come in whole pages"))
        }
    }
}

fn compare(request: &Amount<'_>, limit: &Amount<'_>) -> Option<std::cmp::Ordering> {
    let (request, limit) = (quantity(request).ok()?, quantity(limit).ok()?);
    match (request.milli(), limit.milli()) {
        (Ok(request), Ok(limit)) => Some(request.cmp(&limit)),
        // What is too large for thousandths is compared in whole units; a limit beyond any number
        // is above every request.
        _ => match (request.whole(), limit.whole()) {
            (Ok(request), Ok(limit)) => Some(request.cmp(&limit)),
            (Ok(_), Err(_)) => Some(std::cmp::Ordering::Less),
            (Err(_), Ok(_)) => Some(std::cmp::Ordering::Greater),
            (Err(_), Err(_)) => None,
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
