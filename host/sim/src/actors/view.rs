//! The cluster as the change log tells it, with the questions that actors ask of it already answered.
//!
//! Whoever acts has seen every change before: no actor needs to remember what it has just asked for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::fields;
use crate::object::{Change, Event, Key, Resource};
use crate::server::resources;

type Names = (Arc<str>, Arc<str>);

/// All objects. Hash maps are only looked up, never walked.
#[derive(Default)]
pub struct View {
    objects: BTreeMap<Resource, BTreeMap<Names, Arc<Value>>>,
    by_uid: HashMap<Box<str>, Key>,
    /// Who names an owner, by the owner's UID.
    owned: HashMap<Box<str>, BTreeSet<Key>>,
    /// Pods by node.
    placed: HashMap<Box<str>, BTreeSet<Key>>,
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
        self.index(&change.key, before.as_deref(), after.map(|o| &**o));
        before
    }

    fn index(&mut self, key: &Key, before: Option<&Value>, after: Option<&Value>) {
        if before.map(fields::uid) != after.map(fields::uid) {
            if let Some(uid) = before.map(fields::uid) {
                self.by_uid.remove(uid);
            }
            if let Some(uid) = after.map(fields::uid) {
                self.by_uid.insert(uid.into(), key.clone());
            }
        }
        let owners = |o: &Value| o.pointer("/metadata/ownerReferences").cloned();
        if before.and_then(owners) != after.and_then(owners) {
            before.into_iter().flat_map(owner_uids).for_each(|uid| leave(&mut self.owned, uid, key));
            after.into_iter().flat_map(owner_uids).for_each(|uid| join(&mut self.owned, uid, key));
        }
        if key.resource == resources::POD {
            let node = |pod: Option<&Value>| pod.map_or("", |p| fields::text(p, "/spec/nodeName")).to_owned();
            let (old, new) = (node(before), node(after));
            if old != new || before.is_none() {
                leave(&mut self.placed, &old, key);
                if after.is_some() && !new.is_empty() {
                    join(&mut self.placed, &new, key);
                }
            } else if after.is_none() {
                leave(&mut self.placed, &old, key);
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
        self.owned.get(uid).into_iter().flatten().cloned().collect()
    }

    /// What of a kind a controller controls.
    pub fn controlled(&self, resource: Resource, uid: &str) -> Vec<(Key, Arc<Value>)> {
        let all = self.owned.get(uid).into_iter().flatten().filter(|key| key.resource == resource);
        let objects = all.filter_map(|key| Some((key.clone(), self.get(key)?.clone())));
        objects.filter(|(_, o)| fields::controller(o).is_some_and(|c| fields::text(c, "/uid") == uid)).collect()
    }

    /// Pods bound to a node, ended ones too.
    pub fn pods_on(&self, node: &str) -> Vec<(Key, Arc<Value>)> {
        let keys = self.placed.get(node).into_iter().flatten();
        keys.filter_map(|key| Some((key.clone(), self.get(key)?.clone()))).collect()
    }
}

fn owner_uids(object: &Value) -> impl Iterator<Item = &str> {
    fields::items(object, "/metadata/ownerReferences").iter().map(|o| fields::text(o, "/uid"))
}

fn join(map: &mut HashMap<Box<str>, BTreeSet<Key>>, at: &str, key: &Key) {
    map.entry(at.into()).or_default().insert(key.clone());
}

fn leave(map: &mut HashMap<Box<str>, BTreeSet<Key>>, at: &str, key: &Key) {
    if let Some(keys) = map.get_mut(at) {
        keys.remove(key);
        if keys.is_empty() {
            map.remove(at);
        }
    }
}
