//! Hosts and their pods by shape, updated change by change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use longshore_core::model::{
    HostPort, Labels, PodShape, ResourceId, Resources, Symbol, Symbols, Taint,
};
use serde_json::Value;

use super::shape;
use crate::fields;
use crate::object::Key;

/// A shape by number. Numbers of unused shapes are reused.
pub type ShapeNo = usize;

/// A node.
#[derive(Default)]
pub struct Host {
    /// Its labels, and its name as [`shape::NAME`].
    pub labels: Labels,
    pub taints: Vec<Taint>,
    pub unschedulable: bool,
    pub allocatable: Resources,
    pub used: Resources,
    /// Pods that stay, by shape, and those that are leaving.
    pub staying: BTreeMap<ShapeNo, u32>,
    pub leaving: BTreeMap<ShapeNo, u32>,
    pub ports: Vec<HostPort>,
    /// The Node object is there; pods can be bound to one that is not.
    pub exists: bool,
}

impl Host {
    /// Pods of a shape, those that are leaving too.
    pub fn all(&self) -> impl Iterator<Item = (ShapeNo, u32)> + '_ {
        self.staying
            .iter()
            .chain(&self.leaving)
            .map(|(shape, n)| (*shape, *n))
    }
}

/// What the scheduler knows of a pod.
pub struct Record {
    pub shape: ShapeNo,
    /// Where it is; empty for a pod that waits.
    pub node: Arc<str>,
    pub leaving: bool,
}

/// All hosts, pods and shapes. The hash maps are only looked up.
#[derive(Default)]
pub struct Cluster {
    pub names: Symbols,
    pub hosts: BTreeMap<Arc<str>, Host>,
    shapes: Vec<Option<(Arc<PodShape>, usize)>>,
    numbers: HashMap<Arc<PodShape>, ShapeNo>,
    free: BTreeSet<ShapeNo>,
    pods: HashMap<Key, Record>,
    born: u64,
    pub namespaces: BTreeMap<Symbol, Labels>,
}

impl Cluster {
    pub fn shape(&self, number: ShapeNo) -> Option<&Arc<PodShape>> {
        self.shapes.get(number)?.as_ref().map(|(shape, _)| shape)
    }

    /// All shapes that pods have, by number.
    pub fn shapes(&self) -> impl Iterator<Item = (ShapeNo, &PodShape)> {
        self.shapes
            .iter()
            .enumerate()
            .filter_map(|(n, s)| Some((n, &*s.as_ref()?.0)))
    }

    /// How far shape numbers go.
    pub fn shape_count(&self) -> usize {
        self.shapes.len()
    }

    /// Counts shapes that were new: a number means the same shape until then.
    pub fn born(&self) -> u64 {
        self.born
    }

    pub fn pod(&self, key: &Key) -> Option<&Record> {
        self.pods.get(key)
    }

    /// Takes in a pod that counts (it has not ended), in the place of an older version.
    pub fn put_pod(&mut self, key: &Key, pod: &Value, before: Option<&Value>) {
        let same = before.is_some_and(|b| {
            b["metadata"]["labels"] == pod["metadata"]["labels"]
                && fields::uid(b) == fields::uid(pod)
        });
        let shape = match self.pods.get(key).filter(|_| same).map(|r| r.shape) {
            Some(shape) => {
                self.take(shape);
                shape
            }
            None => {
                let shape = shape::read(pod, &mut self.names);
                self.number(shape)
            }
        };
        self.remove_pod(key);
        let record = Record {
            shape,
            node: Arc::from(fields::text(pod, "/spec/nodeName")),
            leaving: fields::deleting(pod),
        };
        if !record.node.is_empty() {
            self.place(&record);
        }
        self.pods.insert(key.clone(), record);
    }

    /// Forgets a pod.
    pub fn remove_pod(&mut self, key: &Key) {
        let Some(record) = self.pods.remove(key) else {
            return;
        };
        if !record.node.is_empty() {
            self.displace(&record);
        }
        self.drop_shape(record.shape);
    }

    fn place(&mut self, record: &Record) {
        let Some(shape) = self.shape(record.shape).cloned() else {
            return;
        };
        let host = self.hosts.entry(record.node.clone()).or_default();
        host.used.add(&shape.requests);
        host.ports.extend(&shape.ports);
        let table = if record.leaving {
            &mut host.leaving
        } else {
            &mut host.staying
        };
        *table.entry(record.shape).or_default() += 1;
    }

    fn displace(&mut self, record: &Record) {
        let Some(shape) = self.shape(record.shape).cloned() else {
            return;
        };
        let Some(host) = self.hosts.get_mut(&record.node) else {
            return;
        };
        host.used.sub(&shape.requests);
        for port in &shape.ports {
            if let Some(at) = host.ports.iter().position(|p| p == port) {
                host.ports.swap_remove(at);
            }
        }
        let table = if record.leaving {
            &mut host.leaving
        } else {
            &mut host.staying
        };
        if let Some(count) = table.get_mut(&record.shape) {
            *count -= 1;
            if *count == 0 {
                table.remove(&record.shape);
            }
        }
        if !host.exists && host.staying.is_empty() && host.leaving.is_empty() {
            self.hosts.remove(&record.node);
        }
    }

    pub fn put_node(&mut self, node: &Value) {
        let mut labels = node["metadata"]["labels"].clone();
        if !labels.is_object() {
            labels = serde_json::json!({});
        }
        labels[shape::NAME] = fields::name(node).into();
        let mut allocatable = shape::amounts(&node["status"]["allocatable"], &mut self.names);
        if node["status"]["allocatable"].get("pods").is_none() {
            allocatable.set(ResourceId::Pods, 110);
        }
        let labels = shape::labels(&labels, &mut self.names);
        let taints = shape::taints(node, &mut self.names);
        let host = self.hosts.entry(Arc::from(fields::name(node))).or_default();
        host.exists = true;
        host.unschedulable = node["spec"]["unschedulable"] == true;
        (host.labels, host.taints, host.allocatable) = (labels, taints, allocatable);
    }

    /// Forgets a node; pods on it keep its place in the table.
    pub fn remove_node(&mut self, name: &str) {
        let Some(host) = self.hosts.get_mut(name) else {
            return;
        };
        if host.staying.is_empty() && host.leaving.is_empty() {
            self.hosts.remove(name);
        } else {
            host.exists = false;
        }
    }

    fn number(&mut self, shape: PodShape) -> ShapeNo {
        if let Some(&number) = self.numbers.get(&shape) {
            self.take(number);
            return number;
        }
        self.born += 1;
        let shape = Arc::new(shape);
        let number = self.free.pop_first().unwrap_or_else(|| {
            self.shapes.push(None);
            self.shapes.len() - 1
        });
        self.shapes[number] = Some((shape.clone(), 1));
        self.numbers.insert(shape, number);
        number
    }

    fn take(&mut self, number: ShapeNo) {
        if let Some(Some((_, count))) = self.shapes.get_mut(number) {
            *count += 1;
        }
    }

    fn drop_shape(&mut self, number: ShapeNo) {
        let Some(Some((shape, count))) = self.shapes.get_mut(number) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            let shape = shape.clone();
            self.numbers.remove(&shape);
            self.shapes[number] = None;
            self.free.insert(number);
        }
    }
}
