//! What objects are taken into: the objects of a cluster, and what of them counts only once all are
//! there.

use std::sync::Arc;

use longshore_core::model::{ClusterObjects, Resources, Symbol};

use super::diagnostic::Fault;
use super::limits::Limits;
use super::pod::requests::Needs;
use super::wire::Meta;

/// What objects are taken into.
#[derive(Default)]
pub(super) struct ObjectsBuilder {
    pub world: ClusterObjects,
    pub priority_classes: Vec<PriorityClass>,
    /// Pods and DaemonSets without a priority of their own, by index, with the name of their class.
    pub pods_by_class: Vec<(usize, Option<Symbol>)>,
    pub daemons_by_class: Vec<(usize, Option<Symbol>)>,
    /// What the containers of each DaemonSet ask for, by index.
    pub daemon_needs: Vec<Arc<Needs>>,
    pub limit_ranges: Vec<LimitRange>,
    /// What pods may use at most.
    pub limits: Limits,
    /// Faults of the object that is read which do not keep it out.
    pub notes: Vec<Fault>,
}

pub(super) struct PriorityClass {
    pub name: Symbol,
    pub value: i32,
    pub default: bool,
}

impl ObjectsBuilder {
    /// An object's namespace, `default` if it does not say.
    pub fn namespace(&mut self, meta: &Meta<'_>) -> Symbol {
        self.world.names.intern(namespace(meta))
    }
}

/// A LimitRange, as far as it changes what pods ask for.
#[derive(Clone)]
pub(super) struct LimitRange {
    pub namespace: Symbol,
    /// What a container asks for of each resource that it does not mention.
    pub requests: Resources,
}

/// The namespace that an object is in, `default` if it does not say.
pub(super) fn namespace<'a>(meta: &'a Meta<'_>) -> &'a str {
    meta.namespace
        .as_deref()
        .filter(|name| !name.is_empty())
        .unwrap_or("default")
}
