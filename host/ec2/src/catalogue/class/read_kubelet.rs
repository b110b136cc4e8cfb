//! Reads `spec.kubelet`: numbers, amounts and expressions.

use std::str::FromStr;

use longshore_api::quantity::Quantity;
use serde_json::{Map, Value};

use crate::expression::Expression;

use super::super::amount::Amount;
use super::expressions::{Expressions, Reservable};
use super::kubelet::{Kubelet, Reserved, Threshold};
use super::{ClassFault, fault};

/// Most pods and pods per core: what the kubelet's field holds.
const MAX_PODS: i64 = i32::MAX as i64;

impl Kubelet {
    /// What the settings of one node's kubelet say.
    ///
    /// # Errors
    /// The first setting that cannot be used. An expression is one: a node's kubelet knows none.
    pub fn of(settings: &Map<String, Value>) -> Result<Self, ClassFault> {
        let (kubelet, expressions) = kubelet(settings)?;
        match expressions.fields().first() {
            None => Ok(kubelet),
            Some(field) => Err(fault(
                format!("spec.kubelet.{field}"),
                "is an expression",
                "give a number or a quantity",
            )),
        }
    }
}

/// What `spec.kubelet` says, numbers and expressions.
pub(super) fn kubelet(settings: &Map<String, Value>) -> Result<(Kubelet, Expressions), ClassFault> {
    let set = |key: &str| settings.get(key).filter(|value| !value.is_null());
    let number = |key: &str| set(key).map(|value| count(key, value)).transpose();
    let map = |key: &'static str| match settings.get(key) {
        None | Some(Value::Null) => Ok((key, None)),
        Some(Value::Object(map)) => Ok((key, Some(map))),
        Some(_) => {
            let field = format!("spec.kubelet.{key}");
            Err(fault(field, "is not an object", "write name: value"))
        }
    };
    let eviction = map("evictionHard")?.1;
    let max_pods = set("maxPods").and_then(Value::as_str);
    let max_pods = max_pods.map(|text| compiled("spec.kubelet.maxPods", text));
    let (kube_reserved, kube_expressions) = reserved(map("kubeReserved")?)?;
    let (system_reserved, system_expressions) = reserved(map("systemReserved")?)?;
    let expressions = Expressions {
        max_pods: max_pods.transpose()?,
        kube_reserved: kube_expressions,
        system_reserved: system_expressions,
    };
    let kubelet = Kubelet {
        max_pods: match expressions.max_pods {
            None => number("maxPods")?,
            Some(_) => None,
        },
        pods_per_core: number("podsPerCore")?.unwrap_or(0),
        kube_reserved,
        system_reserved,
        evict_memory: threshold(eviction, "memory.available")?,
        evict_storage: threshold(eviction, "nodefs.available")?,
    };
    Ok((kubelet, expressions))
}

fn count(key: &str, value: &Value) -> Result<i64, ClassFault> {
    let field = format!("spec.kubelet.{key}");
    match value {
        Value::Number(number) => number
            .as_i64()
            .filter(|number| (0..=MAX_PODS).contains(number))
            .ok_or_else(|| fault(field, "is not a count", "give 0 or more")),
        _ => Err(fault(field, "is not a number", "give 0 or more")),
    }
}

type Entries<'a> = (&'a str, Option<&'a Map<String, Value>>);

fn reserved(
    (key, entries): Entries<'_>,
) -> Result<(Reserved, Vec<(Reservable, Expression)>), ClassFault> {
    let (mut all, mut expressions) = (Reserved::default(), Vec::new());
    for (name, value) in entries.into_iter().flatten() {
        let field = format!("spec.kubelet.{key}[{name}]");
        let Some(of) = Reservable::named(name) else {
            let hint = "cpu, memory, ephemeral-storage or pid";
            return Err(fault(field, "cannot be reserved", hint));
        };
        match value.as_str().filter(|text| is_expression(text)) {
            Some(text) => expressions.push((of, compiled(&field, text)?)),
            None => *of.slot(&mut all) = Some(quantity(&field, value)?),
        }
    }
    Ok((all, expressions))
}

/// Whether a reserved amount is an expression: what cannot be read as a quantity is one, except a
/// number below zero.
pub fn is_expression(text: &str) -> bool {
    Quantity::parse(text).is_err() && !text.starts_with('-')
}

fn compiled(field: &str, text: &str) -> Result<Expression, ClassFault> {
    Expression::compile(text).map_err(|refused| fault(field, refused.to_string(), refused.hint))
}

fn threshold(
    entries: Option<&Map<String, Value>>,
    signal: &str,
) -> Result<Option<Threshold>, ClassFault> {
    let Some(value) = entries.and_then(|entries| entries.get(signal)) else {
        return Ok(None);
    };
    let field = format!("spec.kubelet.evictionHard[{signal}]");
    let wrong = |what: &str| fault(&*field, what, "write it like 5% or 200Mi");
    let Some(text) = value.as_str() else {
        return Err(wrong("is not a text"));
    };
    if let Some(number) = text.strip_suffix('%') {
        let share = f64::from_str(number).ok();
        let share = share.filter(|share| (0.0..=100.0).contains(share));
        let share = share.ok_or_else(|| wrong("is not a share from 0% to 100%"))?;
        return Ok(Some(Threshold::Percent(share)));
    }
    let amount = Amount::parse(text).map_err(|error| wrong(&error.to_string()))?;
    Ok(Some(Threshold::Amount(amount)))
}

fn quantity(field: &str, value: &Value) -> Result<Amount, ClassFault> {
    let hint = "write it like 100m or 1Gi";
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err(fault(field, "is not a quantity", hint)),
    };
    Amount::parse(&text).map_err(|error| fault(field, error.to_string(), hint))
}
