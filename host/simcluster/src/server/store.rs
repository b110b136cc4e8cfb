//! The store: objects by kind and name, one revision that counts all writes, and a log of the
//! latest ones.
//!
//! Watches read the log, and older versions are made from it. The store has no rules: writers have
//! validated before.

mod notifier;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::meta::text;
use super::resources::{ALL, POD};
use crate::object::{Change, Event, Key, Resource};
use notifier::Notifier;
pub use notifier::Subscription;

/// How long a write is remembered: as long as etcd keeps it.
const HISTORY_TIME: Duration = Duration::from_secs(300);
/// So many are remembered at most; each keeps a version of an object in memory.
const MAX_HISTORY: usize = 200_000;

/// A version of an object.
#[derive(Debug)]
pub struct Stored {
    /// Its name.
    pub key: Key,
    /// Where it is among its kind: `namespace/name`, or its name alone.
    pub path: Arc<str>,
    /// Its content, with `apiVersion` and `kind`.
    pub value: Arc<Value>,
    /// Its version.
    pub revision: u64,
    text: OnceLock<Text>,
    partial: OnceLock<Box<str>>,
}

/// JSON that is made once, for however many readers.
#[derive(Debug)]
struct Text {
    whole: Bytes,
    /// Where the fields after `kind` and `apiVersion` begin.
    rest: usize,
}

impl Stored {
    /// A copy to send, which is not stored.
    pub fn draft(key: &Key, value: Value) -> Arc<Self> {
        let path = path(&key.namespace, &key.name);
        Arc::new(Stored {
            key: key.clone(),
            path,
            value: Arc::new(value),
            revision: 0,
            text: OnceLock::new(),
            partial: OnceLock::new(),
        })
    }

    /// Its JSON.
    pub fn text(&self) -> &Bytes {
        &self.written().whole
    }

    /// Writes it as an item of a list, where kinds that are not custom leave out what they are.
    pub fn write_item(&self, out: &mut Vec<u8>) {
        let text = self.written();
        if self.key.resource.is_custom() {
            out.extend_from_slice(&text.whole);
        } else {
            out.push(b'{');
            out.extend_from_slice(&text.whole[text.rest..]);
        }
    }

    /// Its metadata as JSON, for clients that ask for no more.
    pub fn partial(&self) -> &str {
        self.partial.get_or_init(|| {
            let metadata = &self.value["metadata"];
            format!("{{\"apiVersion\":\"meta.k8s.io/v1\",\"kind\":\"PartialObjectMetadata\",\"metadata\":{metadata}}}")
                .into()
        })
    }

    /// The node that it is bound to, if it is a pod and bound; empty otherwise.
    fn node(&self) -> &str {
        if self.key.resource == POD {
            text(&self.value, &["spec", "nodeName"])
        } else {
            ""
        }
    }

    fn written(&self) -> &Text {
        self.text.get_or_init(|| {
            let resource = self.key.resource;
            let mut out = Vec::with_capacity(4096);
            out.extend_from_slice(
                format!(
                    "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",",
                    resource.kind,
                    resource.api_version()
                )
                .as_bytes(),
            );
            let rest = out.len();
            let fields = self.value.as_object().into_iter().flatten();
            for (n, (name, value)) in fields
                .filter(|(name, _)| *name != "kind" && *name != "apiVersion")
                .enumerate()
            {
                if n > 0 {
                    out.push(b',');
                }
                // Writing to memory does not fail, and a Value has no keys that are not text.
                let _ = serde_json::to_writer(&mut out, name);
                out.push(b':');
                let _ = serde_json::to_writer(&mut out, value);
            }
            out.push(b'}');
            Text {
                whole: Bytes::copy_from_slice(&out),
                rest,
            }
        })
    }
}

/// A write.
#[derive(Debug)]
pub struct Logged {
    /// The revision that it made.
    pub revision: u64,
    pub event: Event,
    /// The object after it, or the last version of one that is gone.
    pub now: Arc<Stored>,
    /// The object before it.
    pub before: Option<Arc<Stored>>,
    /// When it was written.
    pub at: Duration,
}

/// Objects in order, by path.
type Objects = BTreeMap<Arc<str>, Arc<Stored>>;

struct Table {
    objects: Objects,
    /// Pods by the node that they are bound to; no other kind is asked for so.
    on_node: FxHashMap<Box<str>, Objects>,
    log: VecDeque<Arc<Logged>>,
    /// Revision of the last write to this kind that watches can no longer read.
    lost: u64,
    changed: Notifier,
}

/// All objects.
pub struct Store {
    tables: BTreeMap<Resource, Table>,
    log: VecDeque<Arc<Logged>>,
    revision: u64,
    /// What happened up to here is forgotten.
    forgotten: u64,
    changed: Notifier,
}

impl Table {
    /// Notes where a pod is now.
    fn place(&mut self, before: Option<&Stored>, after: Option<&Arc<Stored>>) {
        let (old, new) = (
            before.map_or("", Stored::node),
            after.map_or("", |stored| stored.node()),
        );
        if let Some(before) = before
            && old != new
            && let Some(here) = self.on_node.get_mut(old)
        {
            here.remove(&before.path);
            if here.is_empty() {
                self.on_node.remove(old);
            }
        }
        let Some(after) = after.filter(|_| !new.is_empty()) else {
            return;
        };
        match self.on_node.get_mut(new) {
            Some(here) => drop(here.insert(after.path.clone(), after.clone())),
            None => drop(self.on_node.insert(
                new.into(),
                BTreeMap::from([(after.path.clone(), after.clone())]),
            )),
        }
    }
}

/// Where an object is among its kind. The order of these is the order of lists.
pub fn path(namespace: &str, name: &str) -> Arc<str> {
    if namespace.is_empty() {
        name.into()
    } else {
        format!("{namespace}/{name}").into()
    }
}

impl Store {
    /// An empty one.
    pub fn new() -> Self {
        let table = || Table {
            objects: BTreeMap::new(),
            on_node: FxHashMap::default(),
            log: VecDeque::new(),
            lost: 0,
            changed: Notifier::default(),
        };
        Store {
            tables: ALL.iter().map(|resource| (*resource, table())).collect(),
            log: VecDeque::new(),
            // A revision of 0 means something else to clients.
            revision: 1,
            forgotten: 0,
            changed: Notifier::default(),
        }
    }

    /// Of the last write.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Revision of the last write up to a time; 0 if it is no longer known.
    pub fn revision_at(&self, at: Duration) -> u64 {
        let later = self.log.partition_point(|logged| logged.at <= at);
        later
            .checked_sub(1)
            .and_then(|last| self.log.get(last))
            .map_or(0, |logged| logged.revision)
    }

    /// Watches can begin here, not before.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Watches of a kind that have not read this write never will.
    pub fn lost(&self, resource: Resource) -> u64 {
        self.tables.get(&resource).map_or(0, |table| table.lost)
    }

    /// Watches can begin here and no earlier, whatever is still known.
    pub fn compact(&mut self) {
        self.forgotten = self.revision;
        for table in self.tables.values_mut() {
            table.lost = table.log.back().map_or(table.lost, |last| last.revision);
            table.changed.notify();
        }
    }

    /// The object of a name.
    pub fn get(&self, resource: Resource, path: &str) -> Option<&Arc<Stored>> {
        self.tables.get(&resource)?.objects.get(path)
    }

    /// All objects of a kind, in order.
    pub fn all(&self, resource: Resource) -> impl Iterator<Item = &Arc<Stored>> {
        self.tables
            .get(&resource)
            .into_iter()
            .flat_map(|table| table.objects.values())
    }

    /// All objects of a kind in a namespace, in order.
    pub fn within(
        &self,
        resource: Resource,
        namespace: &str,
    ) -> impl Iterator<Item = &Arc<Stored>> {
        let from: Arc<str> = format!("{namespace}/").into();
        let to: Arc<str> = format!("{namespace}0").into();
        self.tables
            .get(&resource)
            .into_iter()
            .flat_map(move |table| {
                table
                    .objects
                    .range::<str, _>((Bound::Included(&*from), Bound::Excluded(&*to)))
                    .map(|(_, stored)| stored)
            })
    }

    /// Pods that are bound to a node, in order, from after `after`.
    pub fn on_node(&self, node: &str, after: &str) -> impl Iterator<Item = &Arc<Stored>> {
        let here = self
            .tables
            .get(&POD)
            .and_then(|table| table.on_node.get(node));
        let bounds = (Bound::Excluded(after), Bound::Unbounded);
        here.into_iter()
            .flat_map(move |here| here.range::<str, _>(bounds).map(|(_, stored)| stored))
    }

    /// Goes over a kind as it was at a revision, from after `after`, until `visit` says no.
    pub fn walk(
        &self,
        resource: Resource,
        after: &str,
        revision: u64,
        visit: &mut dyn FnMut(&Arc<Stored>) -> bool,
    ) {
        let Some(table) = self.tables.get(&resource) else {
            return;
        };
        let mut then: BTreeMap<&str, Option<&Arc<Stored>>> = BTreeMap::new();
        for logged in table
            .log
            .iter()
            .rev()
            .take_while(|logged| logged.revision > revision)
        {
            then.insert(&logged.now.path, logged.before.as_ref());
        }
        let bounds = (Bound::Excluded(after), Bound::Unbounded);
        let mut now = table
            .objects
            .range::<str, _>(bounds)
            .map(|(path, stored)| (&**path, stored))
            .peekable();
        let mut then = then
            .range::<str, _>(bounds)
            .map(|(path, stored)| (*path, *stored))
            .peekable();
        loop {
            let stored = match (now.peek(), then.peek()) {
                (None, None) => return,
                (Some((path, _)), Some((other, _))) if path == other => {
                    now.next();
                    then.next().and_then(|(_, stored)| stored)
                }
                (Some((path, _)), Some((other, _))) if path > other => {
                    then.next().and_then(|(_, stored)| stored)
                }
                (None, Some(_)) => then.next().and_then(|(_, stored)| stored),
                (Some(_), _) => now.next().map(|(_, stored)| stored),
            };
            if let Some(stored) = stored
                && !visit(stored)
            {
                return;
            }
        }
    }

    /// Stores a new version. It gets the next revision.
    pub fn put(&mut self, key: &Key, mut value: Value, at: Duration) -> Arc<Stored> {
        self.revision += 1;
        value["metadata"]["resourceVersion"] = Value::String(self.revision.to_string());
        let path = path(&key.namespace, &key.name);
        let before = self.get(key.resource, &path).cloned();
        let event = if before.is_some() {
            Event::Modified
        } else {
            Event::Added
        };
        let stored = self.stored(key, before.as_ref().map_or(path, |b| b.path.clone()), value);
        if let Some(table) = self.tables.get_mut(&key.resource) {
            table.objects.insert(stored.path.clone(), stored.clone());
            table.place(before.as_deref(), Some(&stored));
        }
        self.log(event, stored.clone(), before, at);
        stored
    }

    /// Takes an object out. Its last version gets the next revision.
    pub fn remove(&mut self, key: &Key, at: Duration) -> Option<Arc<Stored>> {
        let path = path(&key.namespace, &key.name);
        let table = self.tables.get_mut(&key.resource)?;
        let before = table.objects.remove(&path)?;
        table.place(Some(&before), None);
        self.revision += 1;
        let mut value = (*before.value).clone();
        value["metadata"]["resourceVersion"] = Value::String(self.revision.to_string());
        let last = self.stored(key, path, value);
        self.log(Event::Deleted, last.clone(), Some(before), at);
        Some(last)
    }

    fn stored(&self, key: &Key, path: Arc<str>, value: Value) -> Arc<Stored> {
        let (key, value, revision) = (key.clone(), Arc::new(value), self.revision);
        Arc::new(Stored {
            key,
            path,
            value,
            revision,
            text: OnceLock::new(),
            partial: OnceLock::new(),
        })
    }

    fn log(&mut self, event: Event, now: Arc<Stored>, before: Option<Arc<Stored>>, at: Duration) {
        let logged = Arc::new(Logged {
            revision: self.revision,
            event,
            now,
            before,
            at,
        });
        if let Some(table) = self.tables.get_mut(&logged.now.key.resource) {
            table.log.push_back(logged.clone());
            table.changed.notify();
        }
        self.log.push_back(logged);
        self.changed.notify();
        while self.log.len() > MAX_HISTORY
            || self
                .log
                .front()
                .is_some_and(|oldest| oldest.at + HISTORY_TIME < at)
        {
            let Some(oldest) = self.log.pop_front() else {
                break;
            };
            self.forgotten = self.forgotten.max(oldest.revision);
            if let Some(table) = self.tables.get_mut(&oldest.now.key.resource) {
                table.log.pop_front();
                table.lost = table.lost.max(oldest.revision);
            }
        }
    }

    /// What was written to a kind after a revision, in order.
    pub fn since(&self, resource: Resource, after: u64) -> impl Iterator<Item = &Arc<Logged>> {
        self.tables
            .get(&resource)
            .into_iter()
            .flat_map(move |table| {
                let from = table.log.partition_point(|logged| logged.revision <= after);
                table.log.range(from..)
            })
    }

    /// What was written after a revision, in order.
    pub fn changes(&self, after: u64) -> Vec<Change> {
        let from = self.log.partition_point(|logged| logged.revision <= after);
        let change = |logged: &Arc<Logged>| Change {
            revision: logged.revision,
            event: logged.event,
            key: logged.now.key.clone(),
            object: logged.now.value.clone(),
        };
        self.log.range(from..).map(change).collect()
    }

    /// Says when anything is written.
    pub fn changed(&self) -> Subscription {
        self.changed.subscribe()
    }

    /// Says when a kind is written, or something has become of its watches.
    pub fn kind_changed(&self, resource: Resource) -> Subscription {
        self.tables
            .get(&resource)
            .map_or_else(|| self.changed(), |table| table.changed.subscribe())
    }

    /// Wakes all watches.
    pub fn wake(&self) {
        for table in self.tables.values() {
            table.changed.notify();
        }
    }
}
