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
mod lists;
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
mod take;
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

#[cfg(feature = "crd")]
use crate::crd::admission::{self, Admission};
use crate::json;

pub use diagnostic::{Diagnostic, Diagnostics, Location, quoted};
pub use documents::{Document, documents};
pub use explain::explain;
#[cfg(feature = "crd")]
pub use overlay::{overlay, overlays};
pub use scheduler::default_spread;
pub use status::HINT as PASSED_OVER;
pub use store::{Frozen, Store};

use builder::ObjectsBuilder;
use diagnostic::Fault;
use wire::Meta;

use self::take::HasMeta;

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
        let names = ["kind", "apiVersion", "metadata"];
        let [kind, api_version, metadata] = json::members(all, range.start, names);
        let [kind, api_version] = [kind, api_version].map(|value| json::plain_string(all, value?));
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
            is_by_hand: self.is_by_hand(all, metadata),
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
        let admitted =
            admission.and_then(|admission| admit::admit(admission, object.text, object.is_by_hand));
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
        if object.is_by_hand {
            let found = typed::check(group, version, object.of.kind, object.text);
            object.refusals.extend(found.refusals);
            object.notes.extend(found.notes);
        }
    }

    #[cfg(not(feature = "crd"))]
    fn hold_against_type(&self, _: &mut Object<'_>, _: (&str, &str)) {}

    /// Whether an object has not been through an API server, where that is asked for.
    #[cfg(feature = "crd")]
    fn is_by_hand(&self, text: &[u8], metadata: Option<Range<usize>>) -> bool {
        let is_stored = |metadata| admit::is_stored_by(text, metadata);
        self.is_of_manifests() && !metadata.is_some_and(is_stored)
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
    fn is_by_hand(&self, _: &[u8], _: Option<Range<usize>>) -> bool {
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
        if object.is_by_hand {
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
            ("", "Pod") if object.is_by_hand => self.take(source, object, true, |wire, objects| {
                pod::api_rules::check(&wire)?;
                pod::read(wire, objects)
            }),
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
            ("apps", "DaemonSet") if object.is_by_hand => {
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
}

/// An object's text, place and type.
struct Object<'a> {
    text: &'a str,
    range: Range<usize>,
    item: Option<u32>,
    of: TypeOf<'a>,
    /// It has not been through an API server, and was to be held against what one would say.
    is_by_hand: bool,
    /// Why the API server refuses it.
    refusals: Vec<Fault>,
    /// Fields that do not count.
    notes: Vec<Fault>,
    /// Parts of its status that cannot be read and are left out.
    passed: Vec<Fault>,
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
