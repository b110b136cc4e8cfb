//! Label selectors.

use longshore_core::model::{LabelSelector, SelectorOp, SelectorRule, Symbols};
use serde::Deserialize;

use super::diagnostic::{Fault, Path, quoted};
use super::wire::{List, Map, Text, only_from_maps};

/// A label selector as written.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(crate) struct WireSelector<'a> {
    #[serde(borrow)]
    match_labels: Map<'a, Option<Text<'a>>>,
    #[serde(borrow)]
    match_expressions: List<WireRule<'a>>,
}

/// One of its expressions.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
struct WireRule<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    #[serde(borrow)]
    operator: Text<'a>,
    #[serde(borrow)]
    values: List<Text<'a>>,
}

impl WireSelector<'_> {
    /// How many rules and values it has, and the bytes of their texts.
    pub(crate) fn size(&self) -> (u64, u64) {
        let bytes = |texts: &[Text<'_>]| texts.iter().map(|text| text.len()).sum::<usize>();
        let labels = self.match_labels.iter();
        let labels =
            labels.map(|(key, value)| (1, key.len() + value.as_deref().map_or(0, str::len)));
        let rules = self.match_expressions.iter();
        let rules = rules.map(|rule| (1 + rule.values.len(), rule.key.len() + bytes(&rule.values)));
        let sum = labels
            .chain(rules)
            .fold((0, 0), |sum, (count, bytes)| (sum.0 + count, sum.1 + bytes));
        (sum.0 as u64, sum.1 as u64)
    }
}

only_from_maps!(WireSelector<'a>, WireRule<'a>);

/// Reads a selector; an absent one selects nothing.
pub(crate) fn selector(
    wire: Option<&WireSelector<'_>>,
    at: Path<'_>,
    names: &mut Symbols,
) -> Result<LabelSelector, Fault> {
    let Some(wire) = wire else {
        return Ok(LabelSelector(None));
    };
    let mut rules = equal_to(&wire.match_labels, names);
    for (index, rule) in wire.match_expressions.iter().enumerate() {
        rules.push(expression(
            rule,
            at.field("matchExpressions").index(index),
            names,
        )?);
    }
    Ok(LabelSelector(Some(rules)))
}

/// The selector of a plain map, as Services have it: an empty one selects nothing.
pub(crate) fn map_selector(map: &Map<'_, Option<Text<'_>>>, names: &mut Symbols) -> LabelSelector {
    LabelSelector((!map.is_empty()).then(|| equal_to(map, names)))
}

fn equal_to(map: &Map<'_, Option<Text<'_>>>, names: &mut Symbols) -> Vec<SelectorRule> {
    let mut rules: Vec<SelectorRule> = map
        .iter()
        .map(|(key, value)| {
            let value = names.intern(value.as_deref().unwrap_or(""));
            SelectorRule {
                key: names.intern(key),
                op: SelectorOp::In(Box::new([value])),
            }
        })
        .collect();
    // The order of a map says nothing; pods of one shape should not differ by it.
    rules.sort_by_key(|rule| rule.key);
    rules
}

fn expression(
    rule: &WireRule<'_>,
    at: Path<'_>,
    names: &mut Symbols,
) -> Result<SelectorRule, Fault> {
    if rule.key.is_empty() {
        return Err(at
            .field("key")
            .fault("an expression has no key", "name the label"));
    }
    let values = |names: &mut Symbols| {
        rule.values
            .iter()
            .map(|v| names.intern(v))
            .collect::<Box<[_]>>()
    };
    let op = match &*rule.operator {
        "In" | "NotIn" if rule.values.is_empty() => {
            let what = format!("{} of {} has no values", &*rule.operator, quoted(&rule.key));
            return Err(at.field("values").fault(
                what,
                "list at least one value, or use Exists or DoesNotExist",
            ));
        }
        "In" => SelectorOp::In(values(names)),
        "NotIn" => SelectorOp::NotIn(values(names)),
        "Exists" => SelectorOp::Exists,
        "DoesNotExist" => SelectorOp::DoesNotExist,
        other => {
            let hint = "expected In, NotIn, Exists or DoesNotExist";
            return Err(at
                .field("operator")
                .fault(format!("unknown operator {}", quoted(other)), hint));
        }
    };
    Ok(SelectorRule {
        key: names.intern(&rule.key),
        op,
    })
}
