//! Requirements on labels in pods, NodePools, NodeClaims and volumes.

use longshore_core::model::{Op, Requirement, Symbols};
use serde::Deserialize;

use super::diagnostic::{Fault, Path, quoted};
use super::wire::{List, Text, only_from_maps};
use crate::labels;

/// A requirement as written.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(crate) struct WireRequirement<'a> {
    #[serde(borrow)]
    pub key: Text<'a>,
    #[serde(borrow)]
    pub operator: Text<'a>,
    #[serde(borrow)]
    pub values: List<Text<'a>>,
    pub min_values: Option<i64>,
}

only_from_maps!(WireRequirement<'a>);

/// The owner of the requirement, which decides the allowed operators.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// Node affinity of a pod or a volume: no Gte and Lte; bounds are any integer.
    Affinity,
    /// A NodePool: all operators; bounds are not negative.
    NodePool,
    /// A NodeClaim, which the autoscaler wrote itself.
    NodeClaim,
}

/// Reads one requirement; the key gets its stable name.
pub(crate) fn requirement(
    wire: &WireRequirement<'_>,
    of: Of,
    at: Path<'_>,
    names: &mut Symbols,
) -> Result<Requirement, Fault> {
    if wire.key.is_empty() {
        return Err(at
            .field("key")
            .fault("a requirement has no key", "name the label"));
    }
    let op = operator(wire, of, at, names)?;
    let min_values = min_values(wire, at)?;
    Ok(Requirement {
        key: names.intern(labels::stable(&wire.key)),
        op,
        min_values,
    })
}

/// Reads a list of requirements.
pub(crate) fn requirements(
    list: &[WireRequirement<'_>],
    of: Of,
    at: Path<'_>,
    names: &mut Symbols,
) -> Result<Vec<Requirement>, Fault> {
    list.iter()
        .enumerate()
        .map(|(index, wire)| requirement(wire, of, at.index(index), names))
        .collect()
}

fn operator(
    wire: &WireRequirement<'_>,
    of: Of,
    at: Path<'_>,
    names: &mut Symbols,
) -> Result<Op, Fault> {
    let wrong = |field: &str, what: String, hint: &str| Err(at.field(field).fault(what, hint));
    let known = match of {
        Of::Affinity => "expected In, NotIn, Exists, DoesNotExist, Gt or Lt",
        Of::NodePool | Of::NodeClaim => {
            "expected In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte"
        }
    };
    let values = |names: &mut Symbols| {
        wire.values
            .iter()
            .map(|v| names.intern(v))
            .collect::<Box<[_]>>()
    };
    Ok(match &*wire.operator {
        "In" | "NotIn"
            if wire.values.is_empty() && (of == Of::Affinity || &*wire.operator == "In") =>
        {
            let what = format!("{} of {} has no values", &*wire.operator, quoted(&wire.key));
            return wrong(
                "values",
                what,
                "list at least one value, or use Exists or DoesNotExist",
            );
        }
        "In" => Op::In(values(names)),
        "NotIn" => Op::NotIn(values(names)),
        "Exists" | "DoesNotExist" if of == Of::Affinity && !wire.values.is_empty() => {
            let what = format!(
                "{} of {} takes no values",
                &*wire.operator,
                quoted(&wire.key)
            );
            return wrong("values", what, "remove them, or use In or NotIn");
        }
        "Exists" => Op::Exists,
        "DoesNotExist" => Op::DoesNotExist,
        "Gt" => match bound(wire, of, at)?.checked_add(1) {
            Some(least) => Op::Gte(least),
            None => Op::DoesNotExist,
        },
        "Lt" => match bound(wire, of, at)?.checked_sub(1) {
            Some(most) => Op::Lte(most),
            None => Op::DoesNotExist,
        },
        "Gte" if of != Of::Affinity => Op::Gte(bound(wire, of, at)?),
        "Lte" if of != Of::Affinity => Op::Lte(bound(wire, of, at)?),
        "" => {
            return wrong(
                "operator",
                format!("the requirement on {} has no operator", quoted(&wire.key)),
                known,
            );
        }
        other => {
            return wrong(
                "operator",
                format!("unknown operator {}", quoted(other)),
                known,
            );
        }
    })
}

/// The one integer of Gt, Lt, Gte and Lte.
fn bound(wire: &WireRequirement<'_>, of: Of, at: Path<'_>) -> Result<i64, Fault> {
    let at = at.field("values");
    let [value] = &*wire.values else {
        let what = format!(
            "{} of {} has {} values",
            &*wire.operator,
            quoted(&wire.key),
            wire.values.len()
        );
        return Err(at.fault(what, "give exactly one integer"));
    };
    if of == Of::NodePool && value.starts_with('+') {
        let what = format!("{} is not a label value", quoted(value));
        return Err(at.fault(what, "write the number without a sign"));
    }
    match value.parse::<i64>() {
        Ok(number) if number >= 0 || of == Of::Affinity => Ok(number),
        Ok(number) => Err(at.fault(
            format!("{number} is negative"),
            "bounds of a NodePool start at 0",
        )),
        Err(_) => Err(at.fault(
            format!("{} is not an integer", quoted(value)),
            "give exactly one integer",
        )),
    }
}

fn min_values(wire: &WireRequirement<'_>, at: Path<'_>) -> Result<Option<u16>, Fault> {
    let Some(least) = wire.min_values else {
        return Ok(None);
    };
    let at = at.field("minValues");
    let listed = wire.values.len() as i64;
    if !(1..=50).contains(&least) {
        return Err(at.fault(
            format!("{least} is out of range"),
            "minValues goes from 1 to 50",
        ));
    }
    if &*wire.operator == "In" && least > listed {
        let what = format!("{least} distinct values are wanted, but only {listed} are listed");
        return Err(at.fault(what, "list more values or lower minValues"));
    }
    Ok(Some(least as u16))
}
