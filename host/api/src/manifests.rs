//! Reads Kubernetes manifests into [`ClusterObjects`].
//!
//! The input is YAML with several documents, JSON, concatenated JSON objects, v1 Lists or typed
//! lists (`PodList`), from any number of sources. Objects are found and read one by one. No tree of
//! a whole file is built, and an invalid object affects only itself. [`Reader::finish`] returns
//! the objects in an order that does not depend on the order of the input, and every [`Diagnostic`]
//! with its location.
//!
//! Decided here: the first of two objects of one kind and name is kept and the second is reported;
//! kinds that planning does not use are counted silently; a pod that can be read but never planned
//! is kept (see [`Pod::invalid`](longshore_core::model::Pod)). Left to the caller: opening files,
//! `ClusterObjects::now`, settings and the catalogue.

#[cfg(feature = "crd")]
mod admit;
mod builder;
mod cluster;
mod diagnostic;
mod documents;
mod explain;
mod limit_range;
mod limits;
#[cfg(feature = "crd")]
mod metadata;
mod node;
mod nodepool;
mod normalize;
mod object;
mod old_apis;
#[cfg(feature = "crd")]
mod overlay;
mod pod;
mod requirement;
mod scheduler;
mod selector;
mod status;
mod storage;
mod store;
#[cfg(test)]
mod tests;
#[cfg(feature = "crd")]
mod typed;
mod wire;
mod workload;
mod yaml;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use longshore_core::model::ClusterObjects;
use rustc_hash::FxHashSet;
use serde::Deserialize;

#[cfg(feature = "crd")]
use crate::crd::admission::{self, Admission};
use crate::{json, labels, time};

pub use diagnostic::{Diagnostic, Diagnostics, Location, quoted};
pub use documents::{Document, documents};
pub use explain::explain;
#[cfg(feature = "crd")]
pub use overlay::{overlay, overlays};
pub use scheduler::default_spread;
pub use status::HINT as PASSED_OVER;
pub use store::{Frozen, Store};

use builder::{ObjectsBuilder, namespace};
use diagnostic::{CUT_SHORT, Fault};
use explain::unreadable;
use wire::Meta;

/// Folds manifests into a world.
#[derive(Default)]
pub struct Reader {
    objects: ObjectsBuilder,
    problems: Diagnostics,
    /// Hashes of kind, namespace and name of every object taken in.
    seen: FxHashSet<u64>,
    /// Definitions that objects of custom kinds are held against.
    #[cfg(feature = "crd")]
    admissions: &'static [Admission],
}

/// The group of an `apiVersion`, empty for the core's.
fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Group and version of an `apiVersion`.
fn parts(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// The identity of an object; `name` is `namespace/name` for namespaced kinds.
fn identity(group: &str, kind: &str, name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (group, kind, name).hash(&mut hasher);
    hasher.finish()
}

/// A text that objects are found in.
struct Source<'a> {
    name: &'a str,
    text: &'a [u8],
    /// Lines of the source before this text.
    lines_before: u32,
    document: u32,
    /// A byte and the number of lines before it, so that lines of later bytes are counted from
    /// there.
    counted: (usize, u32),
}

impl Source<'_> {
    fn line(&mut self, at: usize) -> u32 {
        let (from, lines) = if self.counted.0 <= at {
            self.counted
        } else {
            (0, 0)
        };
        let lines = lines + json::lines_before(&self.text[from..], at - from);
        self.counted = (at, lines);
        self.lines_before + lines + 1
    }

    fn place(&mut self, at: usize, item: Option<u32>) -> Location {
        Location {
            source: self.name.to_owned(),
            document: self.document,
            item,
            line: Some(self.line(at)),
        }
    }
}

/// An object's API group, kind and what the list around it says where it does not say itself.
struct TypeOf<'a> {
    api_version: &'a str,
    kind: &'a str,
}

impl Reader {
    /// A reader that has read nothing.
    pub fn new() -> Self {
        Reader::default()
    }

    /// A reader of manifests that no API server has seen: objects of Karpenter's kinds that it would
    /// refuse are refused, in its words, and so are unknown fields. Objects with a `uid` or a
    /// `resourceVersion` come from a cluster and are not validated again.
    #[cfg(feature = "crd")]
    pub fn of_manifests() -> Self {
        Reader {
            admissions: admission::all(),
            ..Reader::default()
        }
    }

    /// Reads everything in `bytes`; `source` names it in problems. May be called any number of
    /// times.
    pub fn read(&mut self, source: &str, bytes: &[u8]) {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
            return self.whole(
                source,
                1,
                "is UTF-16",
                "save it as UTF-8 (PowerShell: `| Out-File -Encoding utf8`)",
            );
        }
        let start = json::skip_space(bytes, 0);
        if start == bytes.len() {
            return self.whole(source, 1, "is empty", "check the command that made it");
        }
        if json::looks_like_json(&bytes[start..]) {
            self.json(&mut Source {
                name: source,
                text: bytes,
                lines_before: 0,
                document: 0,
                counted: (0, 0),
            });
            return;
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => self.yaml(source, text),
            Err(error) => {
                let line = json::lines_before(bytes, error.valid_up_to()) + 1;
                self.whole(source, line, "is not UTF-8", "save it as UTF-8 text");
            }
        }
    }

    /// The objects that were read, and diagnostics of the others. Objects are ordered by namespace
    /// and name.
    pub fn finish(self) -> (ClusterObjects, Diagnostics) {
        (self.objects.finish(), self.problems)
    }

    /// A problem of a source as a whole.
    fn whole(&mut self, source: &str, line: u32, what: &str, hint: &str) {
        let place = Location {
            source: source.to_owned(),
            document: 0,
            item: None,
            line: Some(line),
        };
        self.problems.push(Diagnostic {
            location: place,
            what: what.to_owned(),
            hint: hint.to_owned(),
            ..Diagnostic::default()
        });
    }

    fn yaml(&mut self, source: &str, text: &str) {
        let mut number = 0;
        for (first_line, document) in yaml::documents(text) {
            let content = document.trim_start_matches("---").trim_start();
            if json::looks_like_json(content.as_bytes()) {
                let from = document.len() - content.len();
                let lines_before = first_line + json::lines_before(document.as_bytes(), from);
                let text = content.as_bytes();
                let mut part = Source {
                    name: source,
                    text,
                    lines_before,
                    document: number,
                    counted: (0, 0),
                };
                self.json(&mut part);
                number = part.document;
                continue;
            }
            match yaml::to_json(document) {
                Ok(json) if matches!(json.trim(), "" | "null") => {}
                Ok(json) => {
                    let text = json.as_bytes();
                    let mut part = Source {
                        name: source,
                        text,
                        lines_before: first_line,
                        document: number,
                        counted: (0, 0),
                    };
                    self.json(&mut part);
                    number = part.document;
                }
                Err(fault) => {
                    number += 1;
                    let line = Some(first_line + fault.line + 1);
                    let place = Location {
                        source: source.to_owned(),
                        document: number,
                        item: None,
                        line,
                    };
                    self.problems.push(Diagnostic {
                        location: place,
                        what: fault.what,
                        hint: fault.hint.to_owned(),
                        ..Diagnostic::default()
                    });
                }
            }
        }
    }

    /// Reads JSON values one after the other.
    fn json(&mut self, source: &mut Source<'_>) {
        let mut at = json::skip_space(source.text, 0);
        while at < source.text.len() {
            source.document += 1;
            at = match self.root(source, at) {
                Ok(end) => json::skip_space(source.text, end),
                Err(broken) => {
                    self.broken(source, broken);
                    match json::skip_value(source.text, at) {
                        Ok(end) if !broken.at_end => json::skip_space(source.text, end),
                        _ => return,
                    }
                }
            };
            if source.text[at..].starts_with(b"---") {
                at = json::skip_space(source.text, at + 3);
            }
        }
    }

    fn broken(&mut self, source: &mut Source<'_>, broken: json::Broken) {
        let place = source.place(broken.at, None);
        let (what, hint) = if broken.at_end {
            (CUT_SHORT.to_owned(), "the file may have been cut short")
        } else {
            let found = String::from_utf8_lossy(
                &source.text[broken.at..source.text.len().min(broken.at + 20)],
            )
            .into_owned();
            let found = found.lines().next().unwrap_or_default();
            (
                format!("is not JSON: unexpected {}", quoted(found)),
                "check commas, colons and quotes before it",
            )
        };
        self.problems.push(Diagnostic {
            location: place,
            what,
            hint: hint.to_owned(),
            ..Diagnostic::default()
        });
    }

    /// Reads the value at `at`: an object, a list object or a bare list. Returns its end.
    fn root(&mut self, source: &mut Source<'_>, at: usize) -> Result<usize, json::Broken> {
        let text = source.text;
        if text[at] == b'[' {
            let mut unnamed = Vec::new();
            let end = self.items(source, at, &mut unnamed)?;
            for (range, item) in unnamed {
                self.object(source, range, Some(item), None);
            }
            return Ok(end);
        }
        if text[at] != b'{' {
            let end = json::skip_value(text, at)?;
            let found = String::from_utf8_lossy(&text[at..end]).into_owned();
            let fault = Fault {
                field: String::new(),
                what: format!("is not an object: {}", quoted(&found)),
                hint: "a manifest starts with apiVersion and kind".to_owned(),
            };
            self.refuse(
                source,
                at..end,
                None,
                &TypeOf {
                    api_version: "",
                    kind: "",
                },
                "",
                fault,
            );
            return Ok(end);
        }
        // Items come before the list's own kind when fields are sorted; those without a kind wait
        // for it.
        let (mut is_list, mut unnamed) = (false, Vec::new());
        let end = json::walk(text, at, |key, start| {
            if key == b"items" && text.get(start) == Some(&b'[') {
                is_list = true;
                return Some(self.items(source, start, &mut unnamed));
            }
            Some(json::skip_value(text, start))
        })?;
        let end = end.unwrap_or(text.len());
        if !is_list {
            self.object(source, at..end, None, None);
            return Ok(end);
        }
        let of_items = kind_of_items(text, at);
        for (range, item) in unnamed {
            self.object(source, range, Some(item), of_items.as_ref());
        }
        Ok(end)
    }

    /// Reads the items of the list at `at`; those without a kind are put aside. Returns the list's
    /// end.
    fn items(
        &mut self,
        source: &mut Source<'_>,
        at: usize,
        unnamed: &mut Vec<(Range<usize>, u32)>,
    ) -> Result<usize, json::Broken> {
        let text = source.text;
        let mut item = 0;
        // Lists within the list, which are read when it is done: nothing recurses.
        let mut lists = Vec::new();
        let end = json::walk(text, at, |_, start| {
            item += 1;
            let end = match json::skip_value(text, start) {
                Ok(end) => end,
                Err(broken) => return Some(Err(broken)),
            };
            match text[start] {
                b'{' if is_list(text, start) => lists.push(start),
                b'{' if json::string_member(text, start, "kind").is_none() => {
                    unnamed.push((start..end, item))
                }
                // `null` is no object, and no mistake.
                b'n' => {}
                _ => self.object(source, start..end, Some(item), None),
            }
            Some(Ok(end))
        })?;
        self.nested(source, lists)?;
        Ok(end.unwrap_or(text.len()))
    }

    /// Reads the items of lists within a list.
    fn nested(
        &mut self,
        source: &mut Source<'_>,
        mut lists: Vec<usize>,
    ) -> Result<(), json::Broken> {
        let text = source.text;
        while let Some(at) = lists.pop() {
            let Some(items) = json::member(text, at, "items") else {
                continue;
            };
            let of_items = kind_of_items(text, at);
            let mut item = 0;
            json::walk(text, items.start, |_, start| {
                item += 1;
                let end = match json::skip_value(text, start) {
                    Ok(end) => end,
                    Err(broken) => return Some(Err(broken)),
                };
                match text[start] {
                    b'{' if is_list(text, start) => lists.push(start),
                    b'n' => {}
                    _ => self.object(source, start..end, Some(item), of_items.as_ref()),
                }
                Some(Ok(end))
            })?;
        }
        Ok(())
    }

    /// Reads one object.
    fn object(
        &mut self,
        source: &mut Source<'_>,
        range: Range<usize>,
        item: Option<u32>,
        of_list: Option<&TypeOf<'_>>,
    ) {
        let all = source.text;
        let mut of = TypeOf {
            api_version: "",
            kind: "",
        };
        let fault = |field: &str, what: &str, hint: &str| Fault {
            field: field.to_owned(),
            what: what.to_owned(),
            hint: hint.to_owned(),
        };
        let text = match std::str::from_utf8(&all[range.clone()]) {
            Ok(text) if text.starts_with('{') => text,
            Ok(_) => {
                let fault = fault(
                    "",
                    "is not an object",
                    "a manifest starts with apiVersion and kind",
                );
                return self.refuse(source, range, item, &of, "", fault);
            }
            Err(_) => {
                return self.refuse(
                    source,
                    range,
                    item,
                    &of,
                    "",
                    fault("", "is not UTF-8", "save it as UTF-8 text"),
                );
            }
        };
        let (kind, api_version) = (
            json::string_member(all, range.start, "kind"),
            json::string_member(all, range.start, "apiVersion"),
        );
        of.kind = kind.or(of_list.map(|of| of.kind)).unwrap_or("");
        of.api_version = api_version
            .or(of_list.map(|of| of.api_version))
            .unwrap_or("");
        if of.kind.is_empty() {
            let fault = fault(
                "kind",
                "is missing",
                "every object needs apiVersion and kind",
            );
            return self.refuse(source, range, item, &of, "", fault);
        }
        if of.api_version.is_empty() {
            let fault = fault(
                "apiVersion",
                "is missing",
                "every object needs apiVersion and kind",
            );
            return self.refuse(source, range, item, &of, "", fault);
        }
        let object = Object {
            text,
            range,
            item,
            of,
            refusals: Vec::new(),
            notes: Vec::new(),
            passed: Vec::new(),
        };
        self.admit(source, object);
    }

    /// Has the definition of a custom kind admit the object, where that is asked for.
    #[cfg(feature = "crd")]
    fn admit(&mut self, source: &mut Source<'_>, object: Object<'_>) {
        let group = group(object.of.api_version);
        let mut admissions = self.admissions.iter();
        let admission = admissions.find(|one| one.is_for(group, object.of.kind));
        let admitted = admission.and_then(|admission| admit::admit(admission, object.text));
        let Some(admitted) = admitted else {
            return self.dispatch(source, object);
        };
        self.dispatch(
            source,
            Object {
                text: &admitted.text,
                refusals: admitted.refusals,
                notes: admitted.notes,
                ..object
            },
        );
    }

    /// Holds an object of Kubernetes' own kinds that was written by hand against its type.
    #[cfg(feature = "crd")]
    fn hold_against_type(&self, object: &mut Object<'_>, (group, version): (&str, &str)) {
        if self.is_by_hand(object.text) {
            let found = typed::check(group, version, object.of.kind, object.text);
            object.refusals.extend(found.refusals);
            object.notes.extend(found.notes);
        }
    }

    #[cfg(not(feature = "crd"))]
    fn hold_against_type(&self, _: &mut Object<'_>, _: (&str, &str)) {}

    /// Whether an object has not been through an API server, where that is asked for.
    #[cfg(feature = "crd")]
    fn is_by_hand(&self, text: &str) -> bool {
        self.is_of_manifests() && !admit::is_stored(text)
    }

    /// Whether what is read has been through no API server.
    #[cfg(feature = "crd")]
    fn is_of_manifests(&self) -> bool {
        !self.admissions.is_empty()
    }

    #[cfg(not(feature = "crd"))]
    fn is_of_manifests(&self) -> bool {
        false
    }

    #[cfg(not(feature = "crd"))]
    fn is_by_hand(&self, _: &str) -> bool {
        false
    }

    #[cfg(not(feature = "crd"))]
    fn admit(&mut self, source: &mut Source<'_>, object: Object<'_>) {
        self.dispatch(source, object);
    }

    /// Looks whether the version of its API is one that is read.
    fn dispatch(&mut self, source: &mut Source<'_>, mut object: Object<'_>) {
        let removed = old_apis::of(object.of.api_version, object.of.kind);
        let Some((now, since)) = removed else {
            let (group, version) = parts(object.of.api_version);
            self.hold_against_type(&mut object, (group, version));
            return self.by_kind(source, object);
        };
        let what = format!(
            "{} is not served since Kubernetes {since}",
            quoted(object.of.api_version)
        );
        if self.is_by_hand(object.text) {
            let hint = format!("the object is not counted; write {now}");
            return self.refuse_version(source, &object, what, hint);
        }
        // A cluster has accepted it. Its successor has the fields that are read.
        object.notes.push(Fault {
            field: "apiVersion".to_owned(),
            what,
            hint: format!("it is read as {now}"),
        });
        object.of = TypeOf {
            api_version: now,
            kind: object.of.kind,
        };
        self.by_kind(source, object);
    }

    /// The table of kinds.
    fn by_kind(&mut self, source: &mut Source<'_>, object: Object<'_>) {
        let (group, version) = parts(object.of.api_version);
        let kind = object.of.kind;
        match (group, kind) {
            ("", "Pod") if self.is_by_hand(object.text) => {
                self.take(source, object, true, |wire, objects| {
                    pod::api_rules::check(&wire)?;
                    pod::read(wire, objects)
                })
            }
            ("", "Pod") => self.take(source, object, true, pod::read),
            ("", "Node") => self.take(source, object, false, node::read),
            ("karpenter.sh", "NodePool" | "NodeClaim")
            | ("karpenter.k8s.aws", "EC2NodeClass")
            | ("karpenter.kwok.sh", "KWOKNodeClass")
                if !matches!(
                    (group, version),
                    (_, "v1") | ("karpenter.kwok.sh", "v1alpha1")
                ) =>
            {
                let hint = format!("convert it to {group}/v1");
                self.refuse_old(source, &object, hint);
            }
            ("karpenter.sh", "Provisioner" | "Machine")
            | ("karpenter.k8s.aws", "AWSNodeTemplate") => {
                let now = match kind {
                    "Provisioner" => "NodePool of karpenter.sh/v1",
                    "Machine" => "NodeClaim of karpenter.sh/v1",
                    _ => "EC2NodeClass of karpenter.k8s.aws/v1",
                };
                self.refuse_old(source, &object, format!("its place took {now}"));
            }
            ("karpenter.sh", "NodePool") => self.take(source, object, false, nodepool::read),
            ("karpenter.sh", "NodeClaim") => self.take(source, object, false, node::read_claim),
            ("apps", "DaemonSet") if self.is_by_hand(object.text) => {
                self.take(source, object, true, |wire, objects| {
                    workload::check_daemon(&wire)?;
                    workload::read_daemon(wire, objects)
                })
            }
            ("apps", "DaemonSet") => self.take(source, object, true, workload::read_daemon),
            ("apps", "ReplicaSet" | "StatefulSet") => {
                self.take(source, object, true, |wire, objects| {
                    workload::read_workload(kind, wire, objects)
                })
            }
            ("", "Service" | "ReplicationController") => {
                self.take(source, object, true, |wire, objects| {
                    workload::read_mapped(kind, wire, objects)
                })
            }
            ("policy", "PodDisruptionBudget") => {
                self.take(source, object, true, workload::read_budget)
            }
            ("", "PersistentVolumeClaim") => self.take(source, object, true, storage::read_claim),
            ("", "PersistentVolume") => self.take(source, object, false, storage::read_volume),
            ("storage.k8s.io", "StorageClass") => {
                self.take(source, object, false, storage::read_class)
            }
            ("storage.k8s.io", "CSINode") => {
                self.take(source, object, false, storage::read_csi_node)
            }
            ("storage.k8s.io", "CSIDriver") => {
                self.take(source, object, false, storage::read_csi_driver)
            }
            ("storage.k8s.io", "CSIStorageCapacity") => {
                self.take(source, object, true, storage::read_capacity)
            }
            ("storage.k8s.io", "VolumeAttachment") => {
                self.take(source, object, false, storage::read_attachment)
            }
            ("", "LimitRange") => self.take(source, object, true, limit_range::read),
            ("", "Namespace") => self.take(source, object, false, cluster::read_namespace),
            ("scheduling.k8s.io", "PriorityClass") => {
                self.take(source, object, false, cluster::read_priority_class)
            }
            (_, kind) if kind.ends_with("NodeClass") => {
                self.take(source, object, false, |wire, objects| {
                    cluster::read_node_class(group, kind, wire, objects)
                })
            }
            _ => {
                *self
                    .problems
                    .ignored
                    .entry(kind.chars().take(100).collect())
                    .or_default() += 1
            }
        }
    }

    /// Says that the version of an object's API is not read.
    fn refuse_old(&mut self, source: &mut Source<'_>, object: &Object<'_>, hint: String) {
        let what = format!("{} is not read", quoted(object.of.api_version));
        self.refuse_version(source, object, what, hint);
    }

    fn refuse_version(
        &mut self,
        source: &mut Source<'_>,
        object: &Object<'_>,
        what: String,
        hint: String,
    ) {
        let fault = Fault {
            field: "apiVersion".to_owned(),
            what,
            hint,
        };
        let bytes = object.text.as_bytes();
        let metadata = json::member(bytes, 0, "metadata").filter(|at| bytes[at.start] == b'{');
        let name = metadata.and_then(|at| json::string_member(bytes, at.start, "name"));
        let (range, name) = (object.range.clone(), name.unwrap_or_default());
        self.refuse(source, range, object.item, &object.of, name, fault);
    }

    /// Reads an object as `W` and takes it in with `into`.
    fn take<'a, W: HasMeta + Deserialize<'a>>(
        &mut self,
        source: &mut Source<'_>,
        object: Object<'a>,
        namespaced: bool,
        into: impl FnOnce(W, &mut ObjectsBuilder) -> Result<(), Fault>,
    ) {
        let wire: W = match serde_json::from_str(object.text) {
            Ok(wire) => wire,
            Err(_) => {
                let (name, fault) = unreadable::<W>(object.text);
                return self.pass_over_or_refuse(source, object, &name, fault);
            }
        };
        let meta = wire.meta();
        let plain = meta.name.as_deref().unwrap_or_default();
        let name = if namespaced {
            format!("{}/{plain}", namespace(meta))
        } else {
            plain.to_owned()
        };
        if plain.is_empty() {
            let hint = match meta.generate_name {
                Some(_) => "generateName only works in a cluster; give it a name",
                None => "give it one",
            };
            let fault = Fault {
                field: "metadata.name".to_owned(),
                what: "is missing".to_owned(),
                hint: hint.to_owned(),
            };
            return self.pass_over_or_refuse(source, object, "", fault);
        }
        #[cfg(feature = "crd")]
        if self.is_of_manifests() && !labels::is_dns_name(plain) {
            let fault = metadata::no_name(plain);
            return self.pass_over_or_refuse(source, object, &name, fault);
        }
        let Object {
            range, item, of, ..
        } = &object;
        let identity = identity(group(of.api_version), of.kind, &name);
        if self.seen.contains(&identity) {
            let hint = "remove one; the first is used".to_owned();
            let fault = Fault {
                field: String::new(),
                what: "is there twice".to_owned(),
                hint,
            };
            return self.refuse(source, range.clone(), *item, of, &name, fault);
        }
        if !object.refusals.is_empty() {
            // Our own words have a hint, where we would refuse it too.
            let own = into(wire, &mut ObjectsBuilder::default()).err();
            let own = own.filter(|own| !status::is_status(&own.field));
            let mut faults = own.map_or_else(|| object.refusals.clone(), |own| vec![own]);
            if let Some(first) = faults.first_mut() {
                self.hold(of, object.text, first);
            }
            for fault in faults {
                self.refuse(source, range.clone(), *item, of, &name, fault);
            }
            return;
        }
        // A Node or NodeClaim of which something is passed over is not disrupted.
        self.objects.notes.clone_from(&object.passed);
        let protection = self.protection(of.kind, wire.meta());
        match into(wire, &mut self.objects) {
            Ok(()) => {
                self.seen.insert(identity);
                let passed = &object.passed;
                let is_said = |note: &&Fault| passed.iter().any(|of| of.field == note.field);
                let notes = object.notes.iter().filter(|note| !is_said(note)).cloned();
                for fault in std::mem::take(&mut self.objects.notes)
                    .into_iter()
                    .chain(notes)
                    .chain(protection)
                {
                    self.refuse(source, range.clone(), *item, of, &name, fault);
                }
            }
            Err(fault) => {
                self.objects.notes.clear();
                self.pass_over_or_refuse(source, object, &name, fault);
            }
        }
    }

    /// Reads an object again without the part of its status that a fault is about. Refuses it for any
    /// other fault.
    fn pass_over_or_refuse(
        &mut self,
        source: &mut Source<'_>,
        mut object: Object<'_>,
        name: &str,
        mut fault: Fault,
    ) {
        if let Some(text) = status::without(object.text, &fault, object.passed.len()) {
            object.passed.push(status::passed_over(fault));
            let text = &text;
            return self.by_kind(source, Object { text, ..object });
        }
        self.hold(&object.of, object.text, &mut fault);
        self.refuse(source, object.range, object.item, &object.of, name, fault);
    }

    /// Says of a manifest that an annotation which looks like a protection protects nothing. In a
    /// cluster an Event says it.
    fn protection(&self, kind: &str, meta: &Meta<'_>) -> Option<Fault> {
        if !self.is_of_manifests() || !matches!(kind, "Pod" | "Node" | "NodeClaim") {
            return None;
        }
        let at = diagnostic::Path::Root.field("metadata");
        let at = at.field("annotations");
        let hint = "write karpenter.sh/do-not-disrupt: \"true\" to protect it";
        let old = [
            "karpenter.sh/do-not-evict",
            "karpenter.sh/do-not-consolidate",
        ];
        let old = old.into_iter().find(|key| meta.annotation(key).is_some());
        if let Some(key) = old {
            let what = "is no longer read since Karpenter 0.32, so it protects nothing";
            return Some(at.key(key).fault(what, hint));
        }
        let value = meta.annotation(labels::DO_NOT_DISRUPT)?;
        let lasts = time::go_duration(value).is_some_and(|seconds| seconds > 0);
        let wanted = match kind {
            "Pod" if lasts => return None,
            "Pod" => "neither \"true\" nor a duration above 0 such as 1h30m",
            _ => "not \"true\"",
        };
        (!matches!(value, "true" | "false" | "")).then(|| {
            let what = format!("{} is {wanted}, so it protects nothing", quoted(value));
            at.key(labels::DO_NOT_DISRUPT).fault(what, hint)
        })
    }

    /// Takes an object in that cannot be read, where it protects something that others would take:
    /// a pod its node, a PodDisruptionBudget its pods. Other objects are left out.
    /// What follows from that is added to the reason.
    fn hold(&mut self, of: &TypeOf<'_>, text: &str, why: &mut Fault) {
        let head: pod::WirePodHead<'_> = match (group(of.api_version), of.kind) {
            ("", "Pod") | ("policy", "PodDisruptionBudget") => pod::WirePodHead::lenient(text),
            _ => return,
        };
        let plain = head.metadata.name.as_deref().unwrap_or_default();
        let name = format!("{}/{plain}", namespace(&head.metadata));
        let identity = identity(group(of.api_version), of.kind, &name);
        let is_passed_over = match plain {
            // In a cluster there are none without a name.
            "" => !self.is_of_manifests(),
            _ => !self.seen.insert(identity),
        };
        if is_passed_over {
            return;
        }
        match of.kind {
            "Pod" => pod::unreadable(text, &head, why, &mut self.objects),
            _ => workload::unreadable_budget(&head.metadata, &mut self.objects),
        }
    }

    /// Notes a problem of an object, at the line of its field.
    fn refuse(
        &mut self,
        source: &mut Source<'_>,
        range: Range<usize>,
        item: Option<u32>,
        of: &TypeOf<'_>,
        name: &str,
        fault: Fault,
    ) {
        let at = range.start + json::locate(&source.text[range.clone()], &fault.field);
        let place = source.place(at.min(range.end), item);
        let short = |text: &str| text.chars().take(300).collect::<String>();
        let (kind, name) = (short(of.kind), short(name));
        self.problems.push(Diagnostic {
            location: place,
            kind,
            name,
            field: short(&fault.field),
            what: fault.what,
            hint: fault.hint,
        });
    }
}

/// An object's text, place and type.
struct Object<'a> {
    text: &'a str,
    range: Range<usize>,
    item: Option<u32>,
    of: TypeOf<'a>,
    /// Why the API server refuses it.
    refusals: Vec<Fault>,
    /// Fields that do not count.
    notes: Vec<Fault>,
    /// Parts of its status that cannot be read and are left out.
    passed: Vec<Fault>,
}

/// The types that kinds are read into.
trait HasMeta {
    fn meta(&self) -> &Meta<'_>;
}

macro_rules! has_meta {
    ($($wire:ty),* $(,)?) => {
        $(impl HasMeta for $wire {
            fn meta(&self) -> &Meta<'_> {
                &self.metadata
            }
        })*
    };
}

has_meta!(
    pod::WirePod<'_>,
    node::WireNode<'_>,
    node::WireNodeClaim<'_>,
    nodepool::WireNodePool<'_>,
    workload::WireDaemonSet<'_>,
    workload::WireWorkload<'_>,
    workload::WireMapped<'_>,
    workload::WireBudget<'_>,
    limit_range::WireLimitRange<'_>,
    storage::WireClaim<'_>,
    storage::WireVolume<'_>,
    storage::WireClass<'_>,
    storage::WireCsiNode<'_>,
    storage::WireCsiDriver<'_>,
    storage::WireCapacity<'_>,
    storage::WireAttachment<'_>,
    cluster::WireNamespace<'_>,
    cluster::WirePriorityClass<'_>,
    cluster::WireNodeClass<'_>,
);

/// The kind of a typed list's items, which may leave it out.
fn kind_of_items(text: &[u8], at: usize) -> Option<TypeOf<'_>> {
    let kind = json::string_member(text, at, "kind")?.strip_suffix("List")?;
    (!kind.is_empty()).then(|| TypeOf {
        api_version: json::string_member(text, at, "apiVersion").unwrap_or(""),
        kind,
    })
}

/// Whether the object at `at` is a List or a typed list.
fn is_list(text: &[u8], at: usize) -> bool {
    json::string_member(text, at, "kind").is_some_and(|kind| kind.ends_with("List"))
        && json::member(text, at, "items").is_some_and(|items| text[items.start] == b'[')
}
