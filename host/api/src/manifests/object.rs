//! Shared parts of all kinds: names, resources, conditions, times.

use longshore_core::model::{Labels, ResourceId, Resources, Symbol, Symbols, Taint, TaintEffect};
use serde::Deserialize;

use super::diagnostic::{Fault, Path, quoted};
use super::wire::{Amount, Condition, Map, Meta, Text, only_from_maps};
use crate::quantity::{Quantity, QuantityError};
use crate::time;

/// Labels of a map; a label without value has an empty one.
pub(crate) fn labels(map: &Map<'_, Option<Text<'_>>>, names: &mut Symbols) -> Labels {
    let text = |value: &Option<Text<'_>>, names: &mut Symbols| {
        names.intern(value.as_deref().unwrap_or(""))
    };
    Labels::new(
        map.iter()
            .map(|(key, value)| (names.intern(key), text(value, names)))
            .collect(),
    )
}

/// Annotations that planning may read: those under `karpenter.sh` and `longshore.dev`.
pub(crate) fn annotations(meta: &Meta<'_>, names: &mut Symbols) -> Labels {
    let ours = |key: &str| key.starts_with("karpenter.sh/") || key.starts_with("longshore.dev/");
    let pairs = meta.annotations.iter().filter(|(key, _)| ours(key));
    Labels::new(
        pairs
            .map(|(key, value)| {
                (
                    names.intern(key),
                    names.intern(value.as_deref().unwrap_or("")),
                )
            })
            .collect(),
    )
}

/// The resource of a name.
pub(crate) fn resource(name: &str, names: &mut Symbols) -> ResourceId {
    ResourceId::named(name, names)
}

/// A quantity as Go reads it: a suffix alone is 0.
pub(crate) fn quantity(amount: &Amount<'_>) -> Result<Quantity, QuantityError> {
    Quantity::parse(&amount.0).or_else(|error| {
        let is_suffix = amount.0.starts_with(|c: char| c.is_ascii_alphabetic());
        match Quantity::parse(&format!("0{}", amount.0)) {
            Ok(zero) if is_suffix => Ok(zero),
            _ => Err(error),
        }
    })
}

/// One amount of a resource, in the unit of the resource. The API server stores larger ones than can
/// be counted, and kube-scheduler takes them for the largest that can: so they are here.
pub(crate) fn amount(name: &str, amount: &Amount<'_>, at: Path<'_>) -> Result<i64, Fault> {
    let wrong = |error: QuantityError| {
        let hint = match error {
            QuantityError::Negative => "amounts start at 0",
            QuantityError::TooLarge => "check the suffix",
            _ => "write it like 500m, 2 or 4Gi",
        };
        at.fault(format!("quantity {} {error}", quoted(&amount.0)), hint)
    };
    let quantity = quantity(amount).map_err(wrong)?;
    let counted = if name == "cpu" {
        quantity.milli()
    } else {
        quantity.whole()
    };
    match counted {
        Err(QuantityError::TooLarge) => Ok(i64::MAX),
        counted => counted.map_err(wrong),
    }
}

/// Amounts of a resource list.
pub(crate) fn resources(
    map: &Map<'_, Amount<'_>>,
    at: Path<'_>,
    names: &mut Symbols,
) -> Result<Resources, Fault> {
    let mut all = Resources::default();
    for (name, value) in map.iter() {
        let value = amount(name, value, at.key(name))?;
        all.set(resource(name, names), value);
    }
    Ok(all)
}

/// Whether a condition is True; `None` if it is missing or its status is unknown to this reader.
pub(crate) fn condition(conditions: &[Condition<'_>], kind: &str) -> Option<bool> {
    let found = conditions.iter().find(|c| &*c.kind == kind)?;
    matches!(&*found.status, "True" | "False" | "Unknown").then(|| &*found.status == "True")
}

/// A time, if there is one.
pub(crate) fn time_of(text: &Option<Text<'_>>, at: Path<'_>) -> Result<Option<i64>, Fault> {
    let Some(text) = text else { return Ok(None) };
    match time::timestamp(text) {
        Some(seconds) => Ok(Some(seconds)),
        None => Err(at.fault(
            format!("{} is not a time", quoted(text)),
            "write it like 2026-11-01T00:00:00Z",
        )),
    }
}

/// `metadata.creationTimestamp`, 0 if absent.
pub(crate) fn created(meta: &Meta<'_>) -> Result<i64, Fault> {
    Ok(time_of(
        &meta.creation_timestamp,
        Path::Field(&Path::Root, "metadata.creationTimestamp"),
    )?
    .unwrap_or(0))
}

/// A symbol of a text, if there is one and it is not empty.
pub(crate) fn symbol(text: &Option<Text<'_>>, names: &mut Symbols) -> Option<Symbol> {
    text.as_deref()
        .filter(|text| !text.is_empty())
        .map(|text| names.intern(text))
}

/// A taint as written.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireTaint<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    #[serde(borrow)]
    value: Option<Text<'a>>,
    #[serde(borrow)]
    effect: Text<'a>,
}

/// `nodeClassRef` as written.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireClassRef<'a> {
    #[serde(borrow)]
    pub group: Text<'a>,
    #[serde(borrow)]
    pub kind: Text<'a>,
    #[serde(borrow)]
    pub name: Text<'a>,
}

only_from_maps!(WireTaint<'a>, WireClassRef<'a>);

/// The effect of a name.
pub(crate) fn effect(text: &str, at: Path<'_>) -> Result<TaintEffect, Fault> {
    Ok(match text {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        other => {
            let what = format!("{} is not an effect of a taint", quoted(other));
            return Err(at.fault(what, "expected NoSchedule, PreferNoSchedule or NoExecute"));
        }
    })
}

/// Taints of a list.
pub(crate) fn taints(
    list: &[WireTaint<'_>],
    at: Path<'_>,
    names: &mut Symbols,
) -> Result<Vec<Taint>, Fault> {
    let mut all = Vec::with_capacity(list.len());
    for (index, taint) in list.iter().enumerate() {
        let at = at.index(index);
        if taint.key.is_empty() {
            return Err(at.fault("a taint has no key", "give it one"));
        }
        all.push(Taint {
            key: names.intern(&taint.key),
            value: names.intern(taint.value.as_deref().unwrap_or("")),
            effect: effect(&taint.effect, at.field("effect"))?,
        });
    }
    Ok(all)
}
