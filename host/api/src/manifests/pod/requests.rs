//! What a pod asks for: the largest amounts ever needed at once.

use longshore_core::model::{Names, ResourceId, Resources};
use serde::Deserialize;

use super::{WireContainer, WireSpec};
use crate::manifests::object::{amount, resource};
use crate::manifests::problem::{Fault, Path};
use crate::manifests::wire::{Amount, Map, only_from_maps};

/// Requests and limits of a container or a pod.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireResources<'a> {
    #[serde(borrow)]
    requests: Map<'a, Amount<'a>>,
    #[serde(borrow)]
    limits: Map<'a, Amount<'a>>,
}

only_from_maps!(WireResources<'a>);

/// The requests of a pod: those of its containers; what the pod as a whole asks for instead, where it does; its overhead;
/// and one of `pods`.
pub(super) fn requests(spec: &WireSpec<'_>, at: Path<'_>, names: &mut Names) -> Result<Resources, Fault> {
    let mut running = of_containers(spec, at, names, of_container)?;
    of_pod(spec, &mut running, at.field("resources"), names)?;
    for (name, value) in spec.overhead.iter() {
        let value = amount(name, value, at.field("overhead").key(name))?;
        running.add_one(resource(name, names), value);
    }
    running.set(ResourceId::Pods, 1);
    Ok(running)
}

/// The limits of a pod: those of its containers; what the pod as a whole may use instead, where that is said; its overhead
/// on what is limited. A container without a limit adds nothing.
pub(super) fn limits(spec: &WireSpec<'_>, at: Path<'_>, names: &mut Names) -> Result<Resources, Fault> {
    let limit = |container: &WireContainer<'_>, at: Path<'_>, names: &mut Names| said(&container.resources, at, names);
    let mut running = of_containers(spec, at, names, limit)?;
    let whole = said(&spec.resources, at, names)?;
    whole.iter().for_each(|(resource, value)| running.set(resource, value));
    for (name, value) in spec.overhead.iter() {
        let (resource, value) = (resource(name, names), amount(name, value, at.field("overhead").key(name))?);
        if running.get(resource) > 0 {
            running.add_one(resource, value);
        }
    }
    Ok(running)
}

/// What is read of each container, together: of containers and sidecars that run at once, or of an init container with the
/// sidecars started before it, whichever is more.
fn of_containers<'a>(
    spec: &WireSpec<'a>,
    at: Path<'_>,
    names: &mut Names,
    read: impl Fn(&WireContainer<'a>, Path<'_>, &mut Names) -> Result<Resources, Fault>,
) -> Result<Resources, Fault> {
    let mut running = Resources::default();
    for (index, container) in spec.containers.iter().enumerate() {
        running.add(&read(container, at.field("containers").index(index), names)?);
    }
    let mut sidecars = Resources::default();
    let mut starting = Resources::default();
    for (index, container) in spec.init_containers.iter().enumerate() {
        let mut needed = read(container, at.field("initContainers").index(index), names)?;
        if container.is_sidecar() {
            running.add(&needed);
            sidecars.add(&needed);
            needed = sidecars.clone();
        } else {
            needed.add(&sidecars);
        }
        starting.max(&needed);
    }
    running.max(&starting);
    Ok(running)
}

/// The limits that a container or a pod says.
fn said(wire: &Option<WireResources<'_>>, at: Path<'_>, names: &mut Names) -> Result<Resources, Fault> {
    let mut all = Resources::default();
    for (name, value) in wire.iter().flat_map(|wire| wire.limits.iter()) {
        all.set(resource(name, names), amount(name, value, at.field("resources").field("limits").key(name))?);
    }
    Ok(all)
}

/// A container's requests; where it has only a limit, that is its request.
fn of_container(container: &WireContainer<'_>, at: Path<'_>, names: &mut Names) -> Result<Resources, Fault> {
    let Some(wire) = &container.resources else { return Ok(Resources::default()) };
    let at = at.field("resources");
    let mut all = Resources::default();
    for (name, value) in wire.limits.iter() {
        let value = amount(name, value, at.field("limits").key(name))?;
        if wire.requests.get(name).is_none() {
            all.set(resource(name, names), value);
        }
    }
    for (name, value) in wire.requests.iter() {
        all.set(resource(name, names), amount(name, value, at.field("requests").key(name))?);
    }
    Ok(all)
}

/// Replaces the sums over containers with what the pod asks for as a whole. A limit of the pod is its request where
/// nothing else says one.
fn of_pod(spec: &WireSpec<'_>, sums: &mut Resources, at: Path<'_>, names: &mut Names) -> Result<(), Fault> {
    let Some(wire) = &spec.resources else { return Ok(()) };
    for (name, value) in wire.limits.iter().filter(|(name, _)| is_pod_level(name)) {
        let value = amount(name, value, at.field("limits").key(name))?;
        let resource = resource(name, names);
        if wire.requests.get(name).is_none() && (name.starts_with("hugepages-") || sums.get(resource) == 0) {
            sums.set(resource, value);
        }
    }
    for (name, value) in wire.requests.iter().filter(|(name, _)| is_pod_level(name)) {
        sums.set(resource(name, names), amount(name, value, at.field("requests").key(name))?);
    }
    Ok(())
}

/// Resources that a pod can ask for as a whole.
fn is_pod_level(name: &str) -> bool {
    name == "cpu" || name == "memory" || name.starts_with("hugepages-")
}
