//! Reads an object of a known kind, or says why it cannot be read.

use std::ops::Range;

use serde::Deserialize;

use super::{Object, Reader, Source, TypeOf, diagnostic, group, identity, pod, status, workload};
use crate::manifests::builder::{ObjectsBuilder, namespace};
use crate::manifests::diagnostic::{Diagnostic, Fault, quoted};
use crate::manifests::explain::unreadable;
use crate::manifests::wire::Meta;
use crate::{json, labels, time};

/// The types that kinds are read into.
pub(super) trait HasMeta {
    fn meta(&self) -> &Meta<'_>;
}

impl Reader {
    /// Says that the version of an object's API is not read.
    pub(super) fn refuse_old(
        &mut self,
        source: &mut Source<'_>,
        object: &Object<'_>,
        hint: String,
    ) {
        let what = format!("{} is not read", quoted(object.of.api_version));
        self.refuse_version(source, object, what, hint);
    }

    pub(super) fn refuse_version(
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
    pub(super) fn take<'a, W: HasMeta + Deserialize<'a>>(
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
            let fault = crate::manifests::metadata::no_name(plain);
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
    pub(super) fn refuse(
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
