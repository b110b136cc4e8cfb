//! Requests of a pod: the largest amounts that are ever needed at once.

use longshore_core::model::{ResourceId, Resources, Symbol, Symbols};
use serde_json::{Map as Object, Value};

use super::wire::{WireContainer, WireResources, WireSpec, WireStatus};
use crate::manifests::diagnostic::{Fault, Path};
use crate::manifests::object::{self, amount, resource};
use crate::manifests::wire::Amount;

/// The requests of a pod: those of its containers; what the pod as a whole asks for instead, where
/// it does; its overhead; and one of `pods`. While it is resized in place, the largest counts of
/// what is asked for, given and allocated, as kube-scheduler has it.
pub(super) fn requests(
    spec: &WireSpec<'_>,
    status: Option<&WireStatus<'_>>,
    at: Path<'_>,
    names: &mut Symbols,
) -> Result<Resources, Fault> {
    let resize = Resize::of(status);
    let running = of_containers(spec, at, names, |container, at, names| {
        let asked = Resources::new(asked(container, at, names)?);
        resize.of_container(container, asked, names)
    })?;
    let whole = Whole::read(spec, at.field("resources"), names)?;
    let whole = resize.of_pod(whole, names)?;
    Ok(whole.requests(running, &overhead(spec, at, names)?))
}

/// The requests of a pod that cannot be read as a whole, from the text of its spec: what can be read
/// counts. Of a resource of which it asks for an unreadable amount it takes all that a node has; the
/// names of these come second. If no container can be read, these are CPU and memory.
pub(super) fn readable(spec: &str, names: &mut Symbols) -> (Resources, Vec<String>) {
    let mut unknown: Vec<String> = Vec::new();
    let read: Option<Value> = serde_json::from_str(spec).ok();
    let mut kept = read.and_then(|spec| keep_needs(&spec, &mut unknown));
    if let Some(spec) = &mut kept {
        let text = spec.to_string();
        let wire: Option<WireSpec<'_>> = serde_json::from_str(&text).ok();
        let needs = wire.map(|wire| requests(&wire, None, Path::Root, names));
        if let Some(Ok(mut all)) = needs {
            for name in &unknown {
                all.set(resource(name, names), i64::MAX);
            }
            return (all, unknown);
        }
    }
    let unknown = ["cpu", "memory"].map(str::to_owned).to_vec();
    let most = [ResourceId::Cpu, ResourceId::Memory].map(|resource| (resource, i64::MAX));
    (
        Resources::new(most.into_iter().chain([(ResourceId::Pods, 1)])),
        unknown,
    )
}

/// What of a spec says how much a pod needs. Nothing if parts of it are not what they should be.
fn keep_needs(spec: &Value, unknown: &mut Vec<String>) -> Option<Value> {
    let mut kept = Object::new();
    for list in ["containers", "initContainers"] {
        let containers = match spec.get(list) {
            None | Some(Value::Null) => continue,
            Some(containers) => containers.as_array()?,
        };
        let one = |container: &Value| {
            let mut one = Object::new();
            let is_text = |value: &&Value| value.is_string();
            if let Some(policy) = container.get("restartPolicy").filter(is_text) {
                one.insert("restartPolicy".into(), policy.clone());
            }
            if let Some(resources) = container.as_object()?.get("resources") {
                one.insert("resources".into(), keep_amounts(resources, unknown)?);
            }
            Some(Value::Object(one))
        };
        let containers = containers.iter().map(one);
        kept.insert(list.into(), containers.collect::<Option<Vec<_>>>()?.into());
    }
    if let Some(resources) = spec.get("resources") {
        kept.insert("resources".into(), keep_amounts(resources, unknown)?);
    }
    if let Some(overhead) = spec.get("overhead") {
        let of_requests = serde_json::json!({ "requests": overhead });
        let mut amounts = keep_amounts(&of_requests, unknown)?;
        kept.insert("overhead".into(), amounts["requests"].take());
    }
    let has_containers = kept.contains_key("containers");
    has_containers.then_some(Value::Object(kept))
}

/// Requests and limits without the amounts that cannot be read, whose names are put into `unknown`.
fn keep_amounts(resources: &Value, unknown: &mut Vec<String>) -> Option<Value> {
    let mut kept = Object::new();
    if resources.is_null() {
        return Some(Value::Object(kept));
    }
    for part in ["requests", "limits"] {
        let amounts = match resources.as_object()?.get(part) {
            None | Some(Value::Null) => continue,
            Some(amounts) => amounts.as_object()?,
        };
        let mut left = Object::new();
        for (name, value) in amounts {
            let text = value.to_string();
            let read = serde_json::from_str::<Amount<'_>>(&text);
            let is_read = read.is_ok_and(|read| amount(name, &read, Path::Root).is_ok());
            // A limit counts only where there is no request.
            let asked = kept.get("requests").and_then(|asked| asked.get(name));
            if is_read {
                left.insert(name.clone(), value.clone());
            } else if asked.is_none() && !unknown.contains(name) {
                unknown.push(name.clone());
            }
        }
        kept.insert(part.into(), left.into());
    }
    Some(Value::Object(kept))
}

/// What the status of a pod says of a resize in place.
struct Resize<'s, 'a> {
    status: Option<&'s WireStatus<'a>>,
    /// The kubelet can never do it: what is asked for does not count.
    infeasible: bool,
}

impl<'s, 'a> Resize<'s, 'a> {
    fn of(status: Option<&'s WireStatus<'a>>) -> Self {
        let mut conditions = status
            .into_iter()
            .flat_map(|status| status.conditions.iter());
        let infeasible = conditions.any(|condition| {
            (&*condition.kind, condition.reason.as_deref())
                == ("PodResizePending", Some("Infeasible"))
        });
        Resize { status, infeasible }
    }

    /// What counts of a container that asks for so much. Ordinary init containers have run.
    fn of_container(
        &self,
        container: &WireContainer<'_>,
        asked: Resources,
        names: &mut Symbols,
    ) -> Result<Resources, Fault> {
        let (Some(status), Some(name)) = (self.status, container.name.as_deref()) else {
            return Ok(asked);
        };
        let init = status.init_container_statuses.iter();
        let mut all = status.container_statuses.iter().chain(init);
        let Some(has) = all.find(|one| &*one.name == name) else {
            return Ok(asked);
        };
        let Some(resources) = &has.resources else {
            return Ok(asked);
        };
        let at = Path::Root.field("status.containerStatuses");
        let mut most =
            object::resources(&resources.requests, at.field("resources.requests"), names)?;
        most.max(&object::resources(
            &has.allocated_resources,
            at.field("allocatedResources"),
            names,
        )?);
        if !self.infeasible {
            most.max(&asked);
        }
        Ok(most)
    }

    /// What counts of what the pod asks for as a whole.
    fn of_pod(&self, mut asked: Whole, names: &mut Symbols) -> Result<Whole, Fault> {
        let Some((status, resources)) = self
            .status
            .and_then(|status| Some((status, status.resources.as_ref()?)))
        else {
            return Ok(asked);
        };
        let at = Path::Root.field("status");
        let mut most =
            object::resources(&resources.requests, at.field("resources.requests"), names)?;
        most.max(&object::resources(
            &status.allocated_resources,
            at.field("allocatedResources"),
            names,
        )?);
        for (resource, value, _) in &mut asked.0 {
            let has = most.get(*resource);
            *value = match self.infeasible && has > 0 {
                true => has,
                false => has.max(*value),
            };
        }
        Ok(asked)
    }
}

/// What a template asks for, container by container, so that a LimitRange's defaults can be put in
/// where a container says nothing.
#[derive(Clone, Debug)]
pub(crate) struct Needs {
    containers: Vec<(Role, Asked)>,
    whole: Whole,
    overhead: Resources,
}

/// What a container asks for, zero included, each resource once.
type Asked = Vec<(ResourceId, i64)>;

impl Needs {
    /// Those of a pod's spec.
    pub(super) fn read(
        spec: &WireSpec<'_>,
        at: Path<'_>,
        names: &mut Symbols,
    ) -> Result<Needs, Fault> {
        let mut containers = Vec::new();
        each_container(spec, at, |role, container, at| {
            containers.push((role, asked(container, at, names)?));
            Ok(())
        })?;
        let whole = Whole::read(spec, at.field("resources"), names)?;
        Ok(Needs {
            containers,
            whole,
            overhead: overhead(spec, at, names)?,
        })
    }

    /// The requests of a pod that is made of the template where these are the defaults of a
    /// container's requests.
    pub fn requests(&self, defaults: &Resources) -> Resources {
        let mut sum = Sum::default();
        for (role, asked) in &self.containers {
            let left = defaults
                .iter()
                .filter(|(resource, _)| asked.iter().all(|(said, _)| said != resource));
            sum.add(*role, Resources::new(asked.iter().copied().chain(left)));
        }
        self.whole.requests(sum.most(), &self.overhead)
    }

    pub fn each(&mut self, visit: &mut dyn FnMut(&mut Symbol)) {
        let Needs {
            containers,
            whole: Whole(whole),
            overhead,
        } = self;
        let of_containers = containers
            .iter_mut()
            .flat_map(|(_, asked)| asked)
            .map(|(resource, _)| resource);
        for resource in of_containers.chain(whole.iter_mut().map(|(resource, ..)| resource)) {
            if let ResourceId::Other(name) = resource {
                visit(name);
            }
        }
        overhead.each(visit);
    }
}

/// The limits of a pod: those of its containers, or pod-level limits if set, plus its overhead on
/// limited resources. A container without a limit adds nothing.
pub(super) fn limits(
    spec: &WireSpec<'_>,
    at: Path<'_>,
    names: &mut Symbols,
) -> Result<Resources, Fault> {
    let limit = |container: &WireContainer<'_>, at: Path<'_>, names: &mut Symbols| {
        said(&container.resources, at, names)
    };
    let mut running = of_containers(spec, at, names, limit)?;
    let whole = said(&spec.resources, at, names)?;
    whole
        .iter()
        .for_each(|(resource, value)| running.set(resource, value));
    for (resource, value) in overhead(spec, at, names)?.iter() {
        if running.get(resource) > 0 {
            running.add_one(resource, value);
        }
    }
    Ok(running)
}

/// What it takes to have the pod at all.
fn overhead(spec: &WireSpec<'_>, at: Path<'_>, names: &mut Symbols) -> Result<Resources, Fault> {
    let mut all = Resources::default();
    for (name, value) in spec.overhead.iter() {
        all.add_one(
            resource(name, names),
            amount(name, value, at.field("overhead").key(name))?,
        );
    }
    Ok(all)
}

/// When a container runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// Beside all others of its kind.
    Main,
    /// From its turn among the init containers on, for ever.
    Sidecar,
    /// Alone but for the sidecars before it.
    Init,
}

/// The most that containers need at once: of those that run together, or of an init container with
/// the sidecars started before it.
#[derive(Default)]
struct Sum {
    running: Resources,
    sidecars: Resources,
    starting: Resources,
}

impl Sum {
    /// Adds a container; init containers in their order.
    fn add(&mut self, role: Role, mut needed: Resources) {
        match role {
            Role::Main => return self.running.add(&needed),
            Role::Sidecar => {
                self.running.add(&needed);
                self.sidecars.add(&needed);
                needed = self.sidecars.clone();
            }
            Role::Init => needed.add(&self.sidecars),
        }
        self.starting.max(&needed);
    }

    fn most(mut self) -> Resources {
        self.running.max(&self.starting);
        self.running
    }
}

/// Visits containers, then init containers.
fn each_container<'a>(
    spec: &WireSpec<'a>,
    at: Path<'_>,
    mut visit: impl FnMut(Role, &WireContainer<'a>, Path<'_>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    for (index, container) in spec.containers.iter().enumerate() {
        visit(Role::Main, container, at.field("containers").index(index))?;
    }
    for (index, container) in spec.init_containers.iter().enumerate() {
        let role = if container.is_sidecar() {
            Role::Sidecar
        } else {
            Role::Init
        };
        visit(role, container, at.field("initContainers").index(index))?;
    }
    Ok(())
}

/// What is read of each container, together.
fn of_containers<'a>(
    spec: &WireSpec<'a>,
    at: Path<'_>,
    names: &mut Symbols,
    read: impl Fn(&WireContainer<'a>, Path<'_>, &mut Symbols) -> Result<Resources, Fault>,
) -> Result<Resources, Fault> {
    let mut sum = Sum::default();
    each_container(spec, at, |role, container, at| {
        sum.add(role, read(container, at, names)?);
        Ok(())
    })?;
    Ok(sum.most())
}

/// The limits that a container or a pod says.
fn said(
    wire: &Option<WireResources<'_>>,
    at: Path<'_>,
    names: &mut Symbols,
) -> Result<Resources, Fault> {
    let mut all = Resources::default();
    for (name, value) in wire.iter().flat_map(|wire| wire.limits.iter()) {
        all.set(
            resource(name, names),
            amount(name, value, at.field("resources").field("limits").key(name))?,
        );
    }
    Ok(all)
}

/// A container's requests; where it has only a limit, that is its request.
fn asked(container: &WireContainer<'_>, at: Path<'_>, names: &mut Symbols) -> Result<Asked, Fault> {
    let Some(wire) = &container.resources else {
        return Ok(Asked::new());
    };
    let at = at.field("resources");
    let mut all = Asked::new();
    let mut set = |resource, value| match all.iter_mut().find(|(known, _)| *known == resource) {
        // Of a repeated key the last counts.
        Some((_, old)) => *old = value,
        None => all.push((resource, value)),
    };
    for (name, value) in wire.limits.iter() {
        let value = amount(name, value, at.field("limits").key(name))?;
        if wire.requests.get(name).is_none() {
            set(resource(name, names), value);
        }
    }
    for (name, value) in wire.requests.iter() {
        set(
            resource(name, names),
            amount(name, value, at.field("requests").key(name))?,
        );
    }
    Ok(all)
}

/// What a pod asks for as a whole, in the place of what its containers do.
#[derive(Clone, Default, Debug)]
struct Whole(Vec<(ResourceId, i64, Counts)>);

/// Where an amount of the whole pod counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Counts {
    Always,
    /// Where no container asks for any.
    IfNone,
}

impl Whole {
    /// A limit of the pod is its request where nothing else says one.
    fn read(spec: &WireSpec<'_>, at: Path<'_>, names: &mut Symbols) -> Result<Whole, Fault> {
        let mut all = Vec::new();
        let Some(wire) = &spec.resources else {
            return Ok(Whole(all));
        };
        for (name, value) in wire.limits.iter().filter(|(name, _)| is_pod_level(name)) {
            let value = amount(name, value, at.field("limits").key(name))?;
            if wire.requests.get(name).is_none() {
                let counts = if name.starts_with("hugepages-") {
                    Counts::Always
                } else {
                    Counts::IfNone
                };
                all.push((resource(name, names), value, counts));
            }
        }
        for (name, value) in wire.requests.iter().filter(|(name, _)| is_pod_level(name)) {
            let value = amount(name, value, at.field("requests").key(name))?;
            all.push((resource(name, names), value, Counts::Always));
        }
        Ok(Whole(all))
    }

    /// The requests of a pod whose containers need `sums`.
    fn requests(&self, mut sums: Resources, overhead: &Resources) -> Resources {
        for &(resource, value, counts) in &self.0 {
            if counts == Counts::Always || sums.get(resource) == 0 {
                sums.set(resource, value);
            }
        }
        sums.add(overhead);
        sums.set(ResourceId::Pods, 1);
        sums
    }
}

/// Resources that a pod can ask for as a whole.
pub(super) fn is_pod_level(name: &str) -> bool {
    name == "cpu" || name == "memory" || name.starts_with("hugepages-")
}
