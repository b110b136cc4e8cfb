//! The cluster as the change log tells it, with the questions that actors ask of it already answered.
//!
//! Whoever acts has seen every change before: no actor needs to remember what it has just asked for.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::fields;
use crate::object::{Change, Event, Key, Resource};
use crate::server::resources;

type Names = (Arc<str>, Arc<str>);

/// Objects that have something in common.
type Group = BTreeMap<Key, Member>;

/// An object, and what is asked of it so often that it is read only once.
struct Member {
    object: Arc<Value>,
    /// Neither ended nor being deleted.
    active: bool,
    /// Condition Ready is True.
    ready: bool,
    /// UID of its controller, if it has one.
    controller: Option<Box<str>>,
}

impl Member {
    fn new(object: &Arc<Value>) -> Self {
        let controller = fields::controller(object).map(|o| fields::text(o, "/uid").into());
        let active = !fields::ended(object) && !fields::deleting(object);
        Member { active, ready: fields::ready(object), controller, object: object.clone() }
    }
}

/// How many pods of a controller there are that have neither ended nor are being deleted, and how many of them are
/// ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tally {
    /// All of them.
    pub active: usize,
    /// The ready ones.
    pub ready: usize,
}

/// All objects. Hash maps are only looked up, never walked.
#[derive(Default)]
pub struct View {
    objects: BTreeMap<Resource, BTreeMap<Names, Arc<Value>>>,
    by_uid: HashMap<Box<str>, Key>,
    /// Who names an owner, by the owner's UID.
    owned: HashMap<Box<str>, Group>,
    /// Pods by node.
    placed: HashMap<Box<str>, Group>,
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
        before.into_iter().flat_map(owner_uids).for_each(|uid| leave(&mut self.owned, uid, key));
        if let Some(after) = after {
            owner_uids(after).for_each(|uid| join(&mut self.owned, uid, key, after));
        }
        if key.resource == resources::POD {
            before.into_iter().for_each(|pod| leave(&mut self.placed, fields::text(pod, "/spec/nodeName"), key));
            if let Some(pod) = after.filter(|pod| !fields::text(pod, "/spec/nodeName").is_empty()) {
                join(&mut self.placed, fields::text(pod, "/spec/nodeName"), key, pod);
            }
        }
    }

    /// One object.
    pub fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(&key.resource)?.get(&(key.namespace.clone(), key.name.clone()))
    }

    /// One object, if it is still the one with this UID.
    pub fn same(&self, key: &Key, uid: &str) -> Option<&Arc<Value>> {
        self.get(key).filter(|o| fields::uid(o) == uid)
    }

    /// One node.
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
            (Key { resource, namespace: namespace.clone(), name: name.clone() }, object)
        })
    }

    /// All objects of a kind in a namespace, by name.
    pub fn within(&self, resource: Resource, namespace: &Arc<str>) -> impl Iterator<Item = (Key, &Arc<Value>)> {
        let from = (namespace.clone(), Arc::from(""));
        let table = self.objects.get(&resource).into_iter().flat_map(move |t| t.range(from.clone()..));
        let here = namespace.clone();
        table.take_while(move |((namespace, _), _)| *namespace == here).map(move |((namespace, name), object)| {
            (Key { resource, namespace: namespace.clone(), name: name.clone() }, object)
        })
    }

    /// Everything that names an owner, by kind, namespace and name.
    pub fn dependents(&self, uid: &str) -> Vec<Key> {
        self.owned.get(uid).into_iter().flat_map(|all| all.keys().cloned()).collect()
    }

    /// What of a kind a controller controls.
    pub fn controlled(&self, resource: Resource, uid: &str) -> Vec<(Key, Arc<Value>)> {
        let all = self.members(resource, uid);
        all.map(|(key, member)| (key.clone(), member.object.clone())).collect()
    }

    /// Counts the pods that a controller controls.
    pub fn tally(&self, uid: &str) -> Tally {
        let active = self.members(resources::POD, uid).filter(|(_, m)| m.active);
        active.fold(Tally { active: 0, ready: 0 }, |t, (_, m)| Tally {
            active: t.active + 1,
            ready: t.ready + usize::from(m.ready),
        })
    }

    fn members(&self, resource: Resource, uid: &str) -> impl Iterator<Item = (&Key, &Member)> {
        let all = self.owned.get(uid).into_iter().flatten();
        all.filter(move |(key, m)| key.resource.kind == resource.kind && m.controller.as_deref() == Some(uid))
    }

    /// Pods bound to a node, ended ones too.
    pub fn pods_on(&self, node: &str) -> Vec<(Key, Arc<Value>)> {
        let all = self.placed.get(node).into_iter().flatten();
        all.map(|(key, member)| (key.clone(), member.object.clone())).collect()
    }
}

fn owner_uids(object: &Value) -> impl Iterator<Item = &str> {
    fields::items(object, "/metadata/ownerReferences").iter().map(|o| fields::text(o, "/uid"))
}

fn join(map: &mut HashMap<Box<str>, Group>, at: &str, key: &Key, object: &Arc<Value>) {
    match map.get_mut(at) {
        Some(group) => drop(group.insert(key.clone(), Member::new(object))),
        None => drop(map.insert(at.into(), Group::from([(key.clone(), Member::new(object))]))),
    }
}

fn leave(map: &mut HashMap<Box<str>, Group>, at: &str, key: &Key) {
    if let Some(group) = map.get_mut(at) {
        group.remove(key);
        if group.is_empty() {
            map.remove(at);
        }
    }
}
