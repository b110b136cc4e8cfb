//! The cluster, folded from the change log, with indexes for the questions of actors.
//!
//! An actor has seen every earlier change, so none has to remember its own requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::Value;

use super::pods_by_labels::PodsByLabels;
use crate::fields;
use crate::object::{Change, Event, Key, Resource};
use crate::server::resources;

type Names = (Arc<str>, Arc<str>);

/// Objects that have something in common, and how many of those that are pods and controlled by it
/// do what.
#[derive(Default)]
struct Group {
    members: BTreeMap<Key, Member>,
    pods: PodCounts,
}

/// An object, with frequently used fields parsed once.
pub struct Member {
    pub object: Arc<Value>,
    /// It has neither ended nor is it being deleted.
    pub active: bool,
    /// Condition Ready is True.
    pub ready: bool,
    /// The node that a pod of a DaemonSet is on, or meant for; empty for anything else.
    pub target: Box<str>,
    /// Who it is a member of controls it.
    controlled: bool,
}

impl Member {
    fn new(object: &Arc<Value>, of: &str) -> Self {
        let controller = fields::controller(object).filter(|o| fields::text(o, "/uid") == of);
        let target = controller
            .filter(|o| o["kind"] == "DaemonSet")
            .map_or("", |_| target(object));
        Member {
            active: !fields::ended(object) && !fields::deleting(object),
            ready: fields::ready(object),
            target: target.into(),
            controlled: controller.is_some(),
            object: object.clone(),
        }
    }

    fn pod_counts(&self, key: &Key) -> PodCounts {
        let counts = self.controlled && self.active && key.resource == resources::POD;
        PodCounts {
            active: usize::from(counts),
            ready: usize::from(counts && self.ready),
        }
    }
}

impl Group {
    fn put(&mut self, key: &Key, member: Member) {
        self.take(key);
        let PodCounts { active, ready } = member.pod_counts(key);
        self.pods = PodCounts {
            active: self.pods.active + active,
            ready: self.pods.ready + ready,
        };
        self.members.insert(key.clone(), member);
    }

    fn take(&mut self, key: &Key) {
        if let Some(member) = self.members.remove(key) {
            let PodCounts { active, ready } = member.pod_counts(key);
            self.pods = PodCounts {
                active: self.pods.active - active,
                ready: self.pods.ready - ready,
            };
        }
    }
}

/// How many pods of a controller there are that have neither ended nor are being deleted, and how
/// many of them are ready.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PodCounts {
    pub active: usize,
    pub ready: usize,
}

/// All objects. Hash maps are only looked up, never walked.
#[derive(Default)]
pub struct View {
    objects: BTreeMap<Resource, BTreeMap<Names, Arc<Value>>>,
    by_uid: FxHashMap<Box<str>, Key>,
    /// Who names an owner, by the owner's UID.
    owned: FxHashMap<Box<str>, Group>,
    /// Pods by node.
    placed: FxHashMap<Box<str>, Group>,
    /// Pods with the same labels, counted.
    pods_by_labels: PodsByLabels,
}

impl View {
    /// Takes a change in; returns the object as it was before.
    pub fn apply(&mut self, change: &Change) -> Option<Arc<Value>> {
        let names = (change.key.namespace.clone(), change.key.name.clone());
        let table = self.objects.entry(change.key.resource).or_default();
        let before = match change.event {
            Event::Deleted => table.remove(&names),
            Event::Added | Event::Modified => table.insert(names, change.object.clone()),
        };
        let after = (change.event != Event::Deleted).then_some(&change.object);
        self.index(&change.key, before.as_deref(), after);
        before
    }

    fn index(&mut self, key: &Key, before: Option<&Value>, after: Option<&Arc<Value>>) {
        let (old, new) = (before.map(fields::uid), after.map(|o| fields::uid(o)));
        if old != new {
            old.map(|uid| self.by_uid.remove(uid));
            new.map(|uid| self.by_uid.insert(uid.into(), key.clone()));
        }
        let stays =
            |uid: &str| after.is_some_and(|after| owner_uids(after).any(|other| other == uid));
        for uid in before
            .into_iter()
            .flat_map(owner_uids)
            .filter(|uid| !stays(uid))
        {
            leave(&mut self.owned, uid, key);
        }
        if let Some(after) = after {
            owner_uids(after).for_each(|uid| join(&mut self.owned, uid, key, after));
        }
        if key.resource == resources::POD {
            let [old, new] = [before, after.map(|o| &**o)]
                .map(|pod| pod.map_or("", |p| fields::text(p, "/spec/nodeName")));
            if old != new {
                leave(&mut self.placed, old, key);
            }
            if let Some(pod) = after.filter(|_| !new.is_empty()) {
                join(&mut self.placed, new, key, pod);
            }
            self.pods_by_labels
                .change(&key.namespace, before, after.map(|pod| &**pod));
        }
    }

    /// One object.
    pub fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects
            .get(&key.resource)?
            .get(&(key.namespace.clone(), key.name.clone()))
    }

    /// One object, if it is still the one with this UID.
    pub fn same(&self, key: &Key, uid: &str) -> Option<&Arc<Value>> {
        self.get(key).filter(|o| fields::uid(o) == uid)
    }

    pub fn node(&self, name: &str) -> Option<&Arc<Value>> {
        self.get(&fields::key(resources::NODE, "", name))
    }

    /// The object with this UID.
    pub fn by_uid(&self, uid: &str) -> Option<&Key> {
        self.by_uid.get(uid)
    }

    /// All objects of a kind, by namespace and name.
    pub fn all(&self, resource: Resource) -> impl Iterator<Item = (Key, &Arc<Value>)> {
        let table = self.objects.get(&resource).into_iter().flatten();
        table.map(move |((namespace, name), object)| {
            (
                Key {
                    resource,
                    namespace: namespace.clone(),
                    name: name.clone(),
                },
                object,
            )
        })
    }

    /// All objects of a kind in a namespace, by name.
    pub fn within(
        &self,
        resource: Resource,
        namespace: &Arc<str>,
    ) -> impl Iterator<Item = (Key, &Arc<Value>)> {
        let from = (namespace.clone(), Arc::from(""));
        let table = self
            .objects
            .get(&resource)
            .into_iter()
            .flat_map(move |t| t.range(from.clone()..));
        let here = namespace.clone();
        table
            .take_while(move |((namespace, _), _)| *namespace == here)
            .map(move |((namespace, name), object)| {
                (
                    Key {
                        resource,
                        namespace: namespace.clone(),
                        name: name.clone(),
                    },
                    object,
                )
            })
    }

    /// Everything that names an owner, by kind, namespace and name.
    pub fn dependents(&self, uid: &str) -> Vec<Key> {
        self.owned
            .get(uid)
            .into_iter()
            .flat_map(|all| all.members.keys().cloned())
            .collect()
    }

    /// What of a kind a controller controls.
    pub fn controlled(&self, resource: Resource, uid: &str) -> Vec<(Key, Arc<Value>)> {
        let all = self.members(resource, uid);
        all.map(|(key, member)| (key.clone(), member.object.clone()))
            .collect()
    }

    /// Counts the pods that a controller controls.
    pub fn pod_counts(&self, uid: &str) -> PodCounts {
        self.owned
            .get(uid)
            .map_or(PodCounts::default(), |group| group.pods)
    }

    /// Objects of a kind that a controller owns, with their parsed fields.
    pub fn members(&self, resource: Resource, uid: &str) -> impl Iterator<Item = (&Key, &Member)> {
        let all = self
            .owned
            .get(uid)
            .into_iter()
            .flat_map(|group| &group.members);
        all.filter(move |(key, m)| key.resource == resource && m.controlled)
    }

    /// Pods bound to a node, ended ones too.
    pub fn pods_on(&self, node: &str) -> Vec<(Key, Arc<Value>)> {
        let all = self
            .placed
            .get(node)
            .into_iter()
            .flat_map(|group| &group.members);
        all.map(|(key, member)| (key.clone(), member.object.clone()))
            .collect()
    }

    /// Pods with the same labels, counted.
    pub fn pods_by_labels(&self) -> &PodsByLabels {
        &self.pods_by_labels
    }
}

fn owner_uids(object: &Value) -> impl Iterator<Item = &str> {
    fields::items(object, "/metadata/ownerReferences")
        .iter()
        .map(|o| fields::text(o, "/uid"))
}

fn join(map: &mut FxHashMap<Box<str>, Group>, at: &str, key: &Key, object: &Arc<Value>) {
    let member = Member::new(object, at);
    match map.get_mut(at) {
        Some(group) => group.put(key, member),
        None => map.entry(at.into()).or_default().put(key, member),
    }
}

fn leave(map: &mut FxHashMap<Box<str>, Group>, at: &str, key: &Key) {
    if let Some(group) = map.get_mut(at) {
        group.take(key);
        if group.members.is_empty() {
            map.remove(at);
        }
    }
}

/// The node that a daemon's pod is on, or meant for.
fn target(pod: &Value) -> &str {
    match fields::text(pod, "/spec/nodeName") {
        "" => fields::text(
            pod,
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0",
        ),
        node => node,
    }
}
