//! NodeOverlays: read from manifests into core's records.
//!
//! The rules are those of the schema and of Karpenter's own validation: an overlay sets a price or
//! adjusts it, its requirements name labels that instance types may have, and it adds resources
//! that the cloud does not know.

use std::collections::BTreeSet;

use longshore_core::model::{NodeOverlay, Op, PriceChange, Requirement, ResourceId, Symbols};

use super::diagnostic::{Diagnostic, Diagnostics, quoted};
use super::documents::{Document, documents};
use crate::crd::{self, Operator, OverlayRequirement, admission};
use crate::labels;
use crate::quantity::Quantity;

/// Greatest weight, and most requirements, as the schema has them.
const MOST_WEIGHT: i32 = 10_000;
const MOST_REQUIREMENTS: usize = 100;

/// Field, reason and hint.
type Fault = (String, String, &'static str);

/// The NodeOverlays of a text (YAML, JSON, Lists), in its order, and diagnostics of those that
/// cannot be used. Other kinds are passed over, and so are problems of the text as a whole: the
/// reader of the other manifests reports them. `known` are resources that the cloud fills in
/// itself, beside those of every node. `source` names the text in diagnostics.
pub fn overlays(
    source: &str,
    bytes: &[u8],
    known: &[&str],
    names: &mut Symbols,
) -> (Vec<NodeOverlay>, Diagnostics) {
    let (found, _) = documents(source, bytes);
    let (mut all, mut problems) = (Vec::new(), Diagnostics::default());
    let mut seen = BTreeSet::new();
    for document in found.into_iter().flat_map(Document::items) {
        if document.field("kind") != Some("NodeOverlay") {
            continue;
        }
        match of_document(document.clone(), known, names) {
            Ok(overlay) if !seen.insert(overlay.name) => {
                let hint = "remove one; the first is used";
                problems.push(document.refuse("", "is there twice", hint));
            }
            Ok(overlay) => all.push(overlay),
            Err(problem) => problems.push(problem),
        }
    }
    (all, problems)
}

#[allow(
    clippy::result_large_err,
    reason = "one for each document that is refused"
)]
fn of_document(
    mut document: Document,
    known: &[&str],
    names: &mut Symbols,
) -> Result<NodeOverlay, Diagnostic> {
    let version = document.field("apiVersion").unwrap_or_default();
    if version != "karpenter.sh/v1alpha1" {
        let what = format!("{} is not read", quoted(version));
        return Err(document.refuse("apiVersion", what, "write karpenter.sh/v1alpha1"));
    }
    let mut all = admission::all().iter();
    let admission = all.find(|one| one.is_for("karpenter.sh", "NodeOverlay"));
    if let Some(admission) = admission {
        document.prune(admission)?;
    }
    let object: crd::NodeOverlay = document.read()?;
    let name = object.metadata.name.as_deref().unwrap_or_default();
    if name.is_empty() {
        return Err(document.refuse("metadata.name", "is missing", "give it one"));
    }
    let overlay = record(&object, known, names)
        .map_err(|(field, what, hint)| document.refuse(&field, what, hint))?;
    if let Some(admission) = admission {
        document.check_admission(admission)?;
    }
    Ok(overlay)
}

/// One NodeOverlay, as the API server has it. `known` are resources that the cloud fills in itself,
/// beside those of every node.
///
/// # Errors
/// What is wrong with it: the field, the reason and a hint.
pub fn overlay(
    object: &crd::NodeOverlay,
    known: &[&str],
    names: &mut Symbols,
) -> Result<NodeOverlay, String> {
    record(object, known, names).map_err(|(field, what, hint)| format!("{field}: {what}; {hint}"))
}

fn record(
    object: &crd::NodeOverlay,
    known: &[&str],
    names: &mut Symbols,
) -> Result<NodeOverlay, Fault> {
    let spec = &object.spec;
    Ok(NodeOverlay {
        name: names.intern(object.metadata.name.as_deref().unwrap_or_default()),
        requirements: requirements(&spec.requirements, names)?,
        price: price(spec)?,
        capacity: capacity(spec, known, names)?,
        weight: weight(spec.weight)?,
    })
}

fn weight(weight: Option<i32>) -> Result<i32, Fault> {
    match weight {
        None => Ok(0),
        Some(weight) if (1..=MOST_WEIGHT).contains(&weight) => Ok(weight),
        Some(weight) => Err((
            "spec.weight".to_owned(),
            format!("{weight} is out of range"),
            "give 1 to 10000, or leave it out for 0",
        )),
    }
}

fn price(spec: &crd::NodeOverlaySpec) -> Result<Option<PriceChange>, Fault> {
    match (&spec.price, &spec.price_adjustment) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err((
            "spec.priceAdjustment".to_owned(),
            "stands beside a price".to_owned(),
            "give one of them",
        )),
        (Some(text), None) => decimal(text).map(PriceChange::Set).map(Some).ok_or((
            "spec.price".to_owned(),
            format!("{} is not a price", quoted(text)),
            "write USD per hour like \"0.071\"",
        )),
        (None, Some(text)) => adjustment(text).map(Some).ok_or((
            "spec.priceAdjustment".to_owned(),
            format!("{} is not an adjustment", quoted(text)),
            "write a sign and USD per hour or percent, down to -100%: \"-0.01\", \"+10%\"",
        )),
    }
}

/// Digits, and possibly a point and digits.
fn decimal(text: &str) -> Option<f64> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number: f64 = text.parse().ok()?;
    (digits(whole) && digits(rest) && number.is_finite()).then_some(number)
}

/// A sign, and an amount or a percentage; no price falls by more than itself.
fn adjustment(text: &str) -> Option<PriceChange> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1.0, &text[1..]),
        b'-' => (-1.0, &text[1..]),
        _ => return None,
    };
    // `.5` is an amount too.
    let number = |text: &str| match text.starts_with('.') {
        true => decimal(&format!("0{text}")),
        false => decimal(text),
    };
    match rest.strip_suffix('%') {
        None => Some(PriceChange::Add(sign * number(rest)?)),
        Some(percent) => {
            let percent = sign * number(percent)?;
            (percent >= -100.0).then_some(PriceChange::Percent(percent))
        }
    }
}

fn capacity(
    spec: &crd::NodeOverlaySpec,
    known: &[&str],
    names: &mut Symbols,
) -> Result<Vec<(ResourceId, i64)>, Fault> {
    let mut all = Vec::new();
    for (name, amount) in &spec.capacity {
        let field = || format!("spec.capacity[{name}]");
        if ResourceId::known(name).is_some() || known.contains(&name.as_str()) {
            let what = "is known from the cloud".to_owned();
            return Err((field(), what, "an overlay adds other resources"));
        }
        let read = Quantity::parse(&amount.0).and_then(|amount| amount.whole_saturating());
        let amount =
            read.map_err(|error| (field(), error.to_string(), "write it like 4 or 1Gi"))?;
        all.push((ResourceId::named(name, names), amount));
    }
    Ok(all)
}

fn requirements(
    list: &[OverlayRequirement],
    names: &mut Symbols,
) -> Result<Vec<Requirement>, Fault> {
    if list.len() > MOST_REQUIREMENTS {
        return Err((
            "spec.requirements".to_owned(),
            format!("has {} entries", list.len()),
            "an overlay takes at most 100",
        ));
    }
    let one = |(index, requirement): (usize, &OverlayRequirement)| {
        let at = format!("spec.requirements[{index}]");
        let op = operator(requirement, &at, names)?;
        let key = key(&requirement.key, &at)?;
        Ok(Requirement::new(names.intern(key), op))
    };
    list.iter().enumerate().map(one).collect()
}

/// The stable name of a label that an overlay may require.
fn key<'a>(key: &'a str, at: &str) -> Result<&'a str, Fault> {
    let stable = labels::stable(key);
    let wrong = |what: String, hint| Err((format!("{at}.key"), what, hint));
    if !labels::is_label_key(stable) {
        let what = format!("{} is not a label key", quoted(key));
        return wrong(what, "write it like team or example.com/team");
    }
    match labels::restricted(stable) {
        // Overlays may be for some NodePools.
        Some(why) if stable != labels::NODEPOOL => wrong(
            format!("label {} is restricted: {why}", quoted(key)),
            "use another label",
        ),
        _ => Ok(stable),
    }
}

fn operator(requirement: &OverlayRequirement, at: &str, names: &mut Symbols) -> Result<Op, Fault> {
    let listed = &requirement.values;
    let wrong = |what: String, hint| Err((format!("{at}.values"), what, hint));
    let bound = || match listed.as_slice() {
        // A sign is none of a label's value.
        [only] if only.starts_with('+') => None,
        [only] => only.parse::<i64>().ok().filter(|number| *number >= 0),
        _ => None,
    };
    let is_bound = matches!(
        requirement.operator,
        Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte
    );
    let is_list = matches!(requirement.operator, Operator::In | Operator::NotIn);
    if is_list && listed.is_empty() {
        let what = format!("{} has no values", requirement.operator.as_str());
        return wrong(
            what,
            "list at least one value, or use Exists or DoesNotExist",
        );
    }
    // Karpenter looks at values that an operator does not use, too.
    if let Some(bad) = listed
        .iter()
        .find(|value| !is_bound && !labels::is_label_value(value))
    {
        return wrong(
            format!("{} is not a label value", quoted(bad)),
            "at most 63 letters, digits, `-`, `_` and `.`, first and last a letter or digit",
        );
    }
    let mut values = || listed.iter().map(|value| names.intern(value)).collect();
    let at_least = |number: Option<i64>| number.map_or(Op::DoesNotExist, Op::Gte);
    let at_most = |number: Option<i64>| number.map_or(Op::DoesNotExist, Op::Lte);
    let op = match requirement.operator {
        Operator::In => Some(Op::In(values())),
        Operator::NotIn => Some(Op::NotIn(values())),
        Operator::Exists => Some(Op::Exists),
        Operator::DoesNotExist => Some(Op::DoesNotExist),
        Operator::Gt => bound().map(|number| at_least(number.checked_add(1))),
        Operator::Lt => bound().map(|number| at_most(number.checked_sub(1))),
        Operator::Gte => bound().map(|number| at_least(Some(number))),
        Operator::Lte => bound().map(|number| at_most(Some(number))),
    };
    op.ok_or_else(|| {
        let what = format!("{} has no single bound", requirement.operator.as_str());
        (
            format!("{at}.values"),
            what,
            "give one whole number from 0 on",
        )
    })
}

#[cfg(test)]
mod tests;
