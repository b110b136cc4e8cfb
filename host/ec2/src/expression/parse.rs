//! What the parts of an expression are: a tree in which every type is right.

use longshore_expression::{Arithmetic, Comparison, Language, Literal, Logical, Refused};

/// A type of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueType {
    Int,
    Double,
    Bool,
    Text,
}

impl ValueType {
    fn name(self) -> &'static str {
        match self {
            ValueType::Int => "an integer",
            ValueType::Double => "a double",
            ValueType::Bool => "a boolean",
            ValueType::Text => "a text",
        }
    }

    fn is_number(self) -> bool {
        matches!(self, ValueType::Int | ValueType::Double)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variable {
    Vcpus,
    MemoryMib,
    DefaultEnis,
    IpsPerEni,
    MaxPods,
    InstanceType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Int,
    Double,
    Min,
    Max,
    Size,
    StartsWith,
    EndsWith,
    Contains,
}

/// A part of an expression. Its types are right, so that only numbers can go wrong.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Int(i64),
    Double(f64),
    Bool(bool),
    Text(Box<str>),
    Variable(Variable),
    Negate(Box<Node>),
    Not(Box<Node>),
    Arithmetic(Arithmetic, Box<[Node; 2]>),
    Compare(Comparison, Box<[Node; 2]>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    In(Box<Node>, Vec<Node>),
    /// A condition, and what holds if it does and if it does not.
    Choice(Box<[Node; 3]>),
    Call(Function, Vec<Node>),
}

type Typed = (Node, ValueType);

/// Parses a text that gives a number.
pub(super) fn parse(text: &str) -> Result<Node, Refused> {
    let (node, kind) = longshore_expression::parse(text, &mut KubeletNumbers { text })?;
    if !kind.is_number() {
        let what = format!("gives {}", kind.name());
        return Err(Refused::at(text, 0, what, "give a number"));
    }
    Ok(node)
}

/// Numbers of the kubelet's settings.
struct KubeletNumbers<'a> {
    text: &'a str,
}

impl KubeletNumbers<'_> {
    fn refuse(&self, at: usize, what: impl Into<String>, hint: &'static str) -> Refused {
        Refused::at(self.text, at, what, hint)
    }

    fn unlike(&self, at: usize, left: ValueType, right: ValueType) -> Refused {
        let what = format!("cannot join {} and {}", left.name(), right.name());
        let hint = match left.is_number() && right.is_number() {
            true => "write double(…) or int(…) around one of them",
            false => "join values of one type",
        };
        self.refuse(at, what, hint)
    }

    fn unknown(&self, at: usize, name: &str) -> Refused {
        let hint = "known are int, double, min, max, size, startsWith, endsWith and contains";
        self.refuse(at, format!("{name} is not a known function"), hint)
    }

    fn wanted(&self, at: usize, (node, kind): Typed, wanted: ValueType) -> Result<Node, Refused> {
        match kind == wanted {
            true => Ok(node),
            false => {
                let what = format!("is {} where {} is expected", kind.name(), wanted.name());
                Err(self.refuse(at, what, "give values of one type"))
            }
        }
    }
}

impl Language for KubeletNumbers<'_> {
    type Part = Typed;

    fn literal(&mut self, _: usize, literal: Literal) -> Result<Typed, Refused> {
        Ok(match literal {
            Literal::Int(number) => (Node::Int(number), ValueType::Int),
            Literal::Double(number) => (Node::Double(number), ValueType::Double),
            Literal::Bool(is) => (Node::Bool(is), ValueType::Bool),
            Literal::Text(text) => (Node::Text(text.into()), ValueType::Text),
        })
    }

    fn name(&mut self, at: usize, name: &str) -> Result<Typed, Refused> {
        let number = |variable| Ok((Node::Variable(variable), ValueType::Int));
        match name {
            "vcpus" => number(Variable::Vcpus),
            "memory_mib" => number(Variable::MemoryMib),
            "default_enis" => number(Variable::DefaultEnis),
            "ips_per_eni" => number(Variable::IpsPerEni),
            "max_pods" => number(Variable::MaxPods),
            "instance_type" => Ok((Node::Variable(Variable::InstanceType), ValueType::Text)),
            _ => Err(self.refuse(at, format!("{name} is not a known name"), VARIABLES)),
        }
    }

    fn function(&mut self, at: usize, name: &str, arguments: Vec<Typed>) -> Result<Typed, Refused> {
        let kinds: Vec<ValueType> = arguments.iter().map(|(_, kind)| *kind).collect();
        let (function, kind) = match (name, kinds.as_slice()) {
            ("int", [kind]) if kind.is_number() => (Function::Int, ValueType::Int),
            ("double", [kind]) if kind.is_number() => (Function::Double, ValueType::Double),
            ("min" | "max", [a, b]) if a.is_number() && b.is_number() => {
                let function = match name {
                    "min" => Function::Min,
                    _ => Function::Max,
                };
                let kind = match a == b {
                    true => *a,
                    false => ValueType::Double,
                };
                (function, kind)
            }
            ("size", [ValueType::Text]) => (Function::Size, ValueType::Int),
            ("int" | "double" | "min" | "max" | "size", _) => {
                let hint = "int and double take a number, min and max two, size a text";
                let what = format!("{name} does not take these values");
                return Err(self.refuse(at, what, hint));
            }
            _ => return Err(self.unknown(at, name)),
        };
        let nodes = arguments.into_iter().map(|(node, _)| node).collect();
        Ok((Node::Call(function, nodes), kind))
    }

    fn method(
        &mut self,
        at: usize,
        name: &str,
        of: Typed,
        arguments: Vec<Typed>,
    ) -> Result<Typed, Refused> {
        let arguments: Vec<Typed> = std::iter::once(of).chain(arguments).collect();
        let kinds: Vec<ValueType> = arguments.iter().map(|(_, kind)| *kind).collect();
        let (function, kind) = match (name, kinds.as_slice()) {
            ("startsWith", [ValueType::Text, ValueType::Text]) => {
                (Function::StartsWith, ValueType::Bool)
            }
            ("endsWith", [ValueType::Text, ValueType::Text]) => {
                (Function::EndsWith, ValueType::Bool)
            }
            ("contains", [ValueType::Text, ValueType::Text]) => {
                (Function::Contains, ValueType::Bool)
            }
            ("size", [ValueType::Text]) => (Function::Size, ValueType::Int),
            ("startsWith" | "endsWith" | "contains" | "size", _) => {
                let what = format!("{name} does not take these values");
                return Err(self.refuse(at, what, "call it on a text, with a text"));
            }
            _ => return Err(self.unknown(at, name)),
        };
        let nodes = arguments.into_iter().map(|(node, _)| node).collect();
        Ok((Node::Call(function, nodes), kind))
    }

    fn field(&mut self, at: usize, _: Typed, name: &str) -> Result<Typed, Refused> {
        Err(self.refuse(at, format!("no value has a field {name}"), VARIABLES))
    }

    fn key(&mut self, at: usize, _: Typed, _: Typed) -> Result<Typed, Refused> {
        Err(self.refuse(at, "no value has keys", VARIABLES))
    }

    fn condition(&mut self, at: usize, part: Typed) -> Result<Typed, Refused> {
        Ok((self.wanted(at, part, ValueType::Bool)?, ValueType::Bool))
    }

    fn choice(
        &mut self,
        at: usize,
        (condition, _): Typed,
        (first, kind): Typed,
        second: Typed,
    ) -> Result<Typed, Refused> {
        let second = self.wanted(at, second, kind)?;
        Ok((Node::Choice(Box::new([condition, first, second])), kind))
    }

    fn logical(&mut self, operator: Logical, (left, _): Typed, (right, _): Typed) -> Typed {
        let pair = Box::new([left, right]);
        let node = match operator {
            Logical::And => Node::And(pair),
            Logical::Or => Node::Or(pair),
        };
        (node, ValueType::Bool)
    }

    fn not(&mut self, (operand, _): Typed) -> Typed {
        (Node::Not(Box::new(operand)), ValueType::Bool)
    }

    fn negate(&mut self, at: usize, (operand, kind): Typed) -> Result<Typed, Refused> {
        match kind.is_number() {
            true => Ok((Node::Negate(Box::new(operand)), kind)),
            false => {
                let what = format!("- takes a number and not {}", kind.name());
                Err(self.refuse(at, what, "remove the sign"))
            }
        }
    }

    fn arithmetic(
        &mut self,
        at: usize,
        operator: Arithmetic,
        left: Typed,
        right: Typed,
    ) -> Result<Typed, Refused> {
        let takes = match operator {
            Arithmetic::Add => left.1 != ValueType::Bool,
            Arithmetic::Remainder => left.1 == ValueType::Int,
            _ => left.1.is_number(),
        };
        if left.1 != right.1 || !takes {
            return Err(self.unlike(at, left.1, right.1));
        }
        let pair = Box::new([left.0, right.0]);
        Ok((Node::Arithmetic(operator, pair), left.1))
    }

    fn compare(
        &mut self,
        at: usize,
        comparison: Comparison,
        left: Typed,
        right: Typed,
    ) -> Result<Typed, Refused> {
        if left.1 != right.1 {
            return Err(self.unlike(at, left.1, right.1));
        }
        let pair = Box::new([left.0, right.0]);
        Ok((Node::Compare(comparison, pair), ValueType::Bool))
    }

    fn item(&mut self, at: usize, member: &Typed, item: Typed) -> Result<Typed, Refused> {
        Ok((self.wanted(at, item, member.1)?, member.1))
    }

    fn member(
        &mut self,
        _: usize,
        (member, _): Typed,
        items: Vec<Typed>,
    ) -> Result<Typed, Refused> {
        let items = items.into_iter().map(|(item, _)| item).collect();
        Ok((Node::In(Box::new(member), items), ValueType::Bool))
    }
}

const VARIABLES: &str =
    "known are vcpus, memory_mib, default_enis, ips_per_eni, max_pods and instance_type";
