//! The value of an expression for one instance type.

use std::borrow::Cow;
use std::cmp::Ordering;

use longshore_expression::{Arithmetic, Comparison};

use super::Variables;
use super::parse::{Function, Node, Variable};

/// Why an expression has no value for an instance type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Failed {
    /// An integer is divided by zero.
    #[error("divides by zero")]
    DivisionByZero,
    /// A number is beyond 64 bits.
    #[error("gives a number beyond 64 bits")]
    Overflow,
    /// The result is infinite, or no number.
    #[error("gives no finite number")]
    NotFinite,
}

#[derive(Clone, Debug, PartialEq)]
enum Value<'a> {
    Int(i64),
    Double(f64),
    Bool(bool),
    Text(Cow<'a, str>),
}

/// The number that an expression gives, cut off behind the point.
pub(super) fn number(node: &Node, variables: &Variables<'_>) -> Result<i64, Failed> {
    match value(node, variables)? {
        Value::Int(number) => Ok(number),
        Value::Double(number) => whole(number),
        // The parser lets numbers through alone.
        Value::Bool(_) | Value::Text(_) => Err(Failed::NotFinite),
    }
}

fn whole(number: f64) -> Result<i64, Failed> {
    match number {
        number if !number.is_finite() => Err(Failed::NotFinite),
        // Both ends of `i64` are beyond what a double can tell apart from it.
        number if number.abs() >= i64::MAX as f64 => Err(Failed::Overflow),
        number => Ok(number as i64),
    }
}

fn value<'a>(node: &'a Node, variables: &Variables<'a>) -> Result<Value<'a>, Failed> {
    let of = |node: &'a Node| value(node, variables);
    Ok(match node {
        Node::Int(number) => Value::Int(*number),
        Node::Double(number) => Value::Double(*number),
        Node::Bool(is) => Value::Bool(*is),
        Node::Text(text) => Value::Text(Cow::Borrowed(text)),
        Node::Variable(variable) => variable.value(variables),
        Node::Negate(operand) => match of(operand)? {
            Value::Int(number) => Value::Int(number.checked_neg().ok_or(Failed::Overflow)?),
            Value::Double(number) => Value::Double(-number),
            other => other,
        },
        Node::Not(operand) => Value::Bool(!is_true(of(operand)?)),
        Node::Arithmetic(operator, pair) => {
            let [left, right] = &**pair;
            arithmetic(*operator, of(left)?, of(right)?)?
        }
        Node::Compare(comparison, pair) => {
            let [left, right] = &**pair;
            Value::Bool(holds(*comparison, &of(left)?, &of(right)?))
        }
        Node::And(pair) => Value::Bool(decided(pair, variables, false)?),
        Node::Or(pair) => Value::Bool(decided(pair, variables, true)?),
        Node::In(member, items) => {
            let member = of(member)?;
            let mut found = false;
            for item in items {
                found |= of(item)? == member;
            }
            Value::Bool(found)
        }
        Node::Choice(three) => {
            let [condition, first, second] = &**three;
            of(if is_true(of(condition)?) {
                first
            } else {
                second
            })?
        }
        Node::Call(function, arguments) => {
            let arguments = arguments.iter().map(of).collect::<Result<Vec<_>, _>>()?;
            call(*function, &arguments)?
        }
    })
}

/// `&&` and `||`: if either side is `deciding`, so is the whole, even if the other side fails.
fn decided(pair: &[Node; 2], variables: &Variables<'_>, deciding: bool) -> Result<bool, Failed> {
    let left = value(&pair[0], variables).map(is_true);
    if left == Ok(deciding) {
        return Ok(deciding);
    }
    let right = value(&pair[1], variables).map(is_true);
    match right == Ok(deciding) {
        true => Ok(deciding),
        false => left.and(right),
    }
}

fn is_true(value: Value<'_>) -> bool {
    value == Value::Bool(true)
}

impl Variable {
    fn value<'a>(self, variables: &Variables<'a>) -> Value<'a> {
        Value::Int(match self {
            Variable::Vcpus => variables.vcpus,
            Variable::MemoryMib => variables.memory_mib,
            Variable::DefaultEnis => variables.default_enis,
            Variable::IpsPerEni => variables.ips_per_eni,
            Variable::MaxPods => variables.max_pods,
            Variable::InstanceType => {
                return Value::Text(Cow::Borrowed(variables.instance_type));
            }
        })
    }
}

fn arithmetic<'a>(
    operator: Arithmetic,
    left: Value<'a>,
    right: Value<'a>,
) -> Result<Value<'a>, Failed> {
    Ok(match (left, right) {
        (Value::Int(a), Value::Int(b)) => {
            let divides = matches!(operator, Arithmetic::Divide | Arithmetic::Remainder);
            if divides && b == 0 {
                return Err(Failed::DivisionByZero);
            }
            let result = match operator {
                Arithmetic::Add => a.checked_add(b),
                Arithmetic::Subtract => a.checked_sub(b),
                Arithmetic::Multiply => a.checked_mul(b),
                Arithmetic::Divide => a.checked_div(b),
                Arithmetic::Remainder => a.checked_rem(b),
            };
            Value::Int(result.ok_or(Failed::Overflow)?)
        }
        (Value::Double(a), Value::Double(b)) => Value::Double(match operator {
            Arithmetic::Add => a + b,
            Arithmetic::Subtract => a - b,
            Arithmetic::Multiply => a * b,
            Arithmetic::Divide => a / b,
            Arithmetic::Remainder => a % b,
        }),
        (Value::Text(a), Value::Text(b)) => Value::Text(Cow::Owned(a.into_owned() + &b)),
        // The parser lets no other pair through.
        (left, _) => left,
    })
}

fn holds(comparison: Comparison, left: &Value<'_>, right: &Value<'_>) -> bool {
    let order = match (left, right) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        _ => None,
    };
    match comparison {
        Comparison::Less => order == Some(Ordering::Less),
        Comparison::LessOrEqual => order.is_some_and(Ordering::is_le),
        Comparison::Greater => order == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        Comparison::Equal => order == Some(Ordering::Equal),
        Comparison::NotEqual => order != Some(Ordering::Equal),
    }
}

fn call<'a>(function: Function, arguments: &[Value<'a>]) -> Result<Value<'a>, Failed> {
    Ok(match (function, arguments) {
        (Function::Int, [Value::Double(number)]) => Value::Int(whole(*number)?),
        (Function::Double, [Value::Int(number)]) => Value::Double(*number as f64),
        (Function::Min, [a, b]) => extreme(a, b, Ordering::Less),
        (Function::Max, [a, b]) => extreme(a, b, Ordering::Greater),
        (Function::Size, [Value::Text(text)]) => Value::Int(text.chars().count() as i64),
        (Function::StartsWith, [Value::Text(text), Value::Text(part)]) => {
            Value::Bool(text.starts_with(&**part))
        }
        (Function::EndsWith, [Value::Text(text), Value::Text(part)]) => {
            Value::Bool(text.ends_with(&**part))
        }
        (Function::Contains, [Value::Text(text), Value::Text(part)]) => {
            Value::Bool(text.contains(&**part))
        }
        // A number of the type that is asked for; the parser lets nothing else through.
        (_, [value, ..]) => value.clone(),
        (_, []) => return Err(Failed::NotFinite),
    })
}

/// The smaller or the larger of two numbers. An integer beside a double is one.
fn extreme<'a>(a: &Value<'a>, b: &Value<'a>, wanted: Ordering) -> Value<'a> {
    if let (Value::Int(a), Value::Int(b)) = (a, b) {
        return Value::Int(if b.cmp(a) == wanted { *b } else { *a });
    }
    let double = |value: &Value<'_>| match value {
        Value::Int(number) => *number as f64,
        Value::Double(number) => *number,
        Value::Bool(_) | Value::Text(_) => f64::NAN,
    };
    let (a, b) = (double(a), double(b));
    Value::Double(match wanted {
        Ordering::Less if a.is_nan() || b.is_nan() => f64::NAN,
        Ordering::Greater if a.is_nan() || b.is_nan() => f64::NAN,
        Ordering::Less => a.min(b),
        _ => a.max(b),
    })
}
