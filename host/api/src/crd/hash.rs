//! The drift hash of a NodePool: which claims were made from a template that has changed since.
//!
//! Claims keep the hash of their NodePool's template in an annotation; a different one means drift.
//! The number must be Karpenter's own, version `v3`, or every node would drift when a cluster
//! migrates. [`mod@structure`] has the primitives.
//!
//! The hash covers labels, annotations, taints, startup taints, class, grace period and expiry of
//! `spec.template`. It does not cover requirements or anything outside the template. An empty list
//! or map that is present is not zero.

pub mod structure;

use super::duration::{Lifetime, NotADuration, duration, lifetime};
use super::{
    NodeClaimTemplate, NodeClaimTemplateSpec, NodeClassRef, NodePool, Taint, TemplateMetadata, Time,
};
use structure::{bytes, int64, map, some, structure};

/// The version of the hash, as written beside it.
pub const VERSION: &str = "v3";

/// The hash of a NodePool's template, as written in annotations: a decimal number. Fails on an
/// unreadable duration; the schema admits only those beyond 292 years.
pub fn nodepool_hash(pool: &NodePool) -> Result<String, NotADuration> {
    template(&pool.spec.template).map(|hash| hash.to_string())
}

fn template(template: &NodeClaimTemplate) -> Result<u64, NotADuration> {
    let metadata =
        (template.metadata != TemplateMetadata::default()).then(|| metadata(&template.metadata));
    Ok(structure(
        "NodeClaimTemplate",
        &[
            ("ObjectMeta", metadata),
            ("Spec", Some(spec(&template.spec)?)),
        ],
    ))
}

fn metadata(metadata: &TemplateMetadata) -> u64 {
    let labels = metadata.labels.as_ref().map(map);
    let annotations = metadata.annotations.as_ref().map(map);
    structure(
        "ObjectMeta",
        &[("Labels", labels), ("Annotations", annotations)],
    )
}

fn spec(spec: &NodeClaimTemplateSpec) -> Result<u64, NotADuration> {
    let taints = |list: &Option<Vec<Taint>>| {
        list.as_ref()
            .map(|list| list.iter().fold(0, |all, one| all ^ taint(one)))
    };
    let grace = spec
        .termination_grace_period
        .as_deref()
        .map(grace_period)
        .transpose()?;
    let fields = [
        ("Taints", taints(&spec.taints)),
        ("StartupTaints", taints(&spec.startup_taints)),
        ("NodeClassRef", Some(class(&spec.node_class_ref))),
        ("TerminationGracePeriod", grace),
        ("ExpireAfter", expiry(&spec.expire_after)?),
    ];
    Ok(structure("NodeClaimTemplateSpec", &fields))
}

fn class(class: &NodeClassRef) -> u64 {
    let fields = [
        ("Kind", some(&class.kind)),
        ("Name", some(&class.name)),
        ("Group", some(&class.group)),
    ];
    structure("NodeClassReference", &fields)
}

fn taint(taint: &Taint) -> u64 {
    let fields = [
        ("Key", some(&taint.key)),
        ("Value", some(&taint.value)),
        ("Effect", some(taint.effect.as_str())),
        (
            "TimeAdded",
            taint
                .time_added
                .as_ref()
                .map(|time| structure("Time", &[("Time", Some(moment(time)))])),
        ),
    ];
    structure("Taint", &fields)
}

/// Nanoseconds are a field of a struct, so none of them are no field.
fn grace_period(text: &str) -> Result<u64, NotADuration> {
    let time = duration(text)?;
    Ok(structure(
        "Duration",
        &[("Duration", (!time.is_zero()).then(|| number(time)))],
    ))
}

/// Nanoseconds are behind a pointer, so none of them are still a field; `Never` is no field at all.
fn expiry(text: &str) -> Result<Option<u64>, NotADuration> {
    Ok(match lifetime(text)? {
        Lifetime::Never => None,
        Lifetime::After(time) => Some(structure(
            "NillableDuration",
            &[("Duration", Some(number(time)))],
        )),
    })
}

/// Nanoseconds in 64 bits; [`duration`] lets no more through.
fn number(time: std::time::Duration) -> u64 {
    int64(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX))
}

/// Go's binary form of a moment, big-endian: version 1, seconds since the year 1, nanoseconds,
/// minutes east of UTC. Minutes are 0: Karpenter reads moments into its own time zone, and runs in
/// UTC.
fn moment(time: &Time) -> u64 {
    // 719 162 days lie between the years 1 and 1970.
    let seconds = time.0.as_second() + 719_162 * 86_400;
    let nanoseconds = time.0.subsec_nanosecond();
    let minutes = 0i16;
    let all = [1]
        .into_iter()
        .chain(seconds.to_be_bytes())
        .chain(nanoseconds.to_be_bytes());
    bytes(all.chain(minutes.to_be_bytes()))
}
