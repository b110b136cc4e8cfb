//! An expression's text as a tree in which every type is right.

use super::Refused;
use super::tokens::{Token, Word, refused, tokens};

/// Most levels of brackets, choices and signs within each other.
const MAX_LEVELS: usize = 48;

/// A type of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Int,
    Double,
    Bool,
    Text,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Int => "an integer",
            Kind::Double => "a double",
            Kind::Bool => "a boolean",
            Kind::Text => "a text",
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Kind::Int | Kind::Double)
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
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
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

type Typed = (Node, Kind);

/// Parses a text that gives a number.
pub(super) fn parse(text: &str) -> Result<Node, Refused> {
    if text.len() > super::MOST_BYTES {
        let what = format!("has {} bytes", text.len());
        return Err(refused(text, 0, what, "write at most 4096"));
    }
    let mut parser = Parser {
        text,
        tokens: tokens(text)?,
        next: 0,
        levels: 0,
    };
    let (node, kind) = parser.choice()?;
    if parser.peek().word != Word::End {
        return Err(parser.refuse(
            "the expression ended before this",
            "join it with an operator",
        ));
    }
    if !kind.is_number() {
        let what = format!("gives {}", kind.name());
        return Err(refused(text, 0, what, "give a number"));
    }
    Ok(node)
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    next: usize,
    levels: usize,
}

impl Parser<'_> {
    /// The next token. After the end there is the end again.
    fn peek(&self) -> &Token {
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    fn at_sign(&self, sign: &str) -> bool {
        matches!(self.peek().word, Word::Sign(found) if found == sign)
    }

    fn skip(&mut self, sign: &str) -> bool {
        let there = self.at_sign(sign);
        self.next += usize::from(there);
        there
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), Refused> {
        match self.skip(sign) {
            true => Ok(()),
            false => Err(self.refuse(format!("expected `{sign}`"), "add it")),
        }
    }

    fn refuse(&self, what: impl Into<String>, hint: &'static str) -> Refused {
        refused(self.text, self.peek().at, what, hint)
    }

    fn refuse_at(&self, at: usize, what: impl Into<String>, hint: &'static str) -> Refused {
        refused(self.text, at, what, hint)
    }

    /// Runs `part` one level deeper.
    fn deeper<T>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        if self.levels == MAX_LEVELS {
            return Err(self.refuse("is nested too deeply", "nest at most 48 levels"));
        }
        self.levels += 1;
        let result = part(self);
        self.levels -= 1;
        result
    }

    fn choice(&mut self) -> Result<Typed, Refused> {
        self.deeper(|this| {
            let at = this.peek().at;
            let condition = this.or()?;
            if !this.skip("?") {
                return Ok(condition);
            }
            let condition = this.wanted(condition, Kind::Bool, at)?;
            let (first, kind) = this.or()?;
            this.expect(":")?;
            let at = this.peek().at;
            let second = this.choice()?;
            let second = this.wanted(second, kind, at)?;
            Ok((Node::Choice(Box::new([condition, first, second])), kind))
        })
    }

    fn or(&mut self) -> Result<Typed, Refused> {
        self.logical("||", Self::and, Node::Or)
    }

    fn and(&mut self) -> Result<Typed, Refused> {
        self.logical("&&", Self::comparison, Node::And)
    }

    fn logical(
        &mut self,
        sign: &str,
        part: fn(&mut Self) -> Result<Typed, Refused>,
        join: fn(Box<[Node; 2]>) -> Node,
    ) -> Result<Typed, Refused> {
        let at = self.peek().at;
        let mut left = part(self)?;
        while self.skip(sign) {
            let first = self.wanted(left, Kind::Bool, at)?;
            let at = self.peek().at;
            let right = part(self)?;
            let second = self.wanted(right, Kind::Bool, at)?;
            left = (join(Box::new([first, second])), Kind::Bool);
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Result<Typed, Refused> {
        let mut left = self.sum()?;
        loop {
            let token = self.peek().clone();
            let comparison = match &token.word {
                Word::Sign("<") => Comparison::Less,
                Word::Sign("<=") => Comparison::LessOrEqual,
                Word::Sign(">") => Comparison::Greater,
                Word::Sign(">=") => Comparison::GreaterOrEqual,
                Word::Sign("==") => Comparison::Equal,
                Word::Sign("!=") => Comparison::NotEqual,
                Word::Name(name) if name == "in" => {
                    self.next += 1;
                    left = (self.list(left)?, Kind::Bool);
                    continue;
                }
                _ => return Ok(left),
            };
            self.next += 1;
            let right = self.sum()?;
            if left.1 != right.1 {
                return Err(self.unlike(&token, left.1, right.1));
            }
            let pair = Box::new([left.0, right.0]);
            left = (Node::Compare(comparison, pair), Kind::Bool);
        }
    }

    /// The list after `in`.
    fn list(&mut self, (member, kind): Typed) -> Result<Node, Refused> {
        if !self.skip("[") {
            return Err(self.refuse(
                "expected a list",
                "write it like [\"m5.large\", \"c5.large\"]",
            ));
        }
        let mut items = Vec::new();
        while !self.skip("]") {
            if !items.is_empty() {
                self.expect(",")?;
                // A comma may be last.
                if self.skip("]") {
                    break;
                }
            }
            let at = self.peek().at;
            let item = self.choice()?;
            items.push(self.wanted(item, kind, at)?);
        }
        Ok(Node::In(Box::new(member), items))
    }

    fn sum(&mut self) -> Result<Typed, Refused> {
        let signs = [("+", Arithmetic::Add), ("-", Arithmetic::Subtract)];
        self.arithmetic(&signs, Self::product)
    }

    fn product(&mut self) -> Result<Typed, Refused> {
        let signs = [
            ("*", Arithmetic::Multiply),
            ("/", Arithmetic::Divide),
            ("%", Arithmetic::Remainder),
        ];
        self.arithmetic(&signs, Self::signed)
    }

    fn arithmetic(
        &mut self,
        signs: &[(&str, Arithmetic)],
        part: fn(&mut Self) -> Result<Typed, Refused>,
    ) -> Result<Typed, Refused> {
        let mut left = part(self)?;
        loop {
            let token = self.peek().clone();
            let Some((_, operator)) = signs.iter().find(|(sign, _)| self.at_sign(sign)) else {
                return Ok(left);
            };
            self.next += 1;
            let right = part(self)?;
            let takes = match operator {
                Arithmetic::Add => left.1 != Kind::Bool,
                Arithmetic::Remainder => left.1 == Kind::Int,
                _ => left.1.is_number(),
            };
            if left.1 != right.1 || !takes {
                return Err(self.unlike(&token, left.1, right.1));
            }
            let pair = Box::new([left.0, right.0]);
            left = (Node::Arithmetic(*operator, pair), left.1);
        }
    }

    fn unlike(&self, token: &Token, left: Kind, right: Kind) -> Refused {
        let what = format!("cannot join {} and {}", left.name(), right.name());
        let hint = match left.is_number() && right.is_number() {
            true => "write double(…) or int(…) around one of them",
            false => "join values of one type",
        };
        self.refuse_at(token.at, what, hint)
    }

    fn signed(&mut self) -> Result<Typed, Refused> {
        let at = self.peek().at;
        if self.skip("!") {
            let operand = self.deeper(Self::signed)?;
            let operand = self.wanted(operand, Kind::Bool, at)?;
            return Ok((Node::Not(Box::new(operand)), Kind::Bool));
        }
        if !self.skip("-") {
            return self.member();
        }
        if let Word::Int(number) = self.peek().word {
            self.next += 1;
            return match 0_i64.checked_sub_unsigned(number) {
                Some(number) => Ok((Node::Int(number), Kind::Int)),
                None => Err(self.refuse_at(at, "is beyond 64 bits", "write a smaller number")),
            };
        }
        let (operand, kind) = self.deeper(Self::signed)?;
        match kind.is_number() {
            true => Ok((Node::Negate(Box::new(operand)), kind)),
            false => {
                let what = format!("- takes a number and not {}", kind.name());
                Err(self.refuse_at(at, what, "remove the sign"))
            }
        }
    }

    fn member(&mut self) -> Result<Typed, Refused> {
        let mut value = self.primary()?;
        while self.skip(".") {
            let token = self.take();
            let Word::Name(name) = &token.word else {
                return Err(self.refuse_at(token.at, "expected a name", "name a function"));
            };
            if !self.skip("(") {
                let what = format!("no value has a field {name}");
                return Err(self.refuse_at(token.at, what, VARIABLES));
            }
            let mut arguments = vec![value];
            arguments.extend(self.arguments()?);
            value = self.method(name, &token, arguments)?;
        }
        Ok(value)
    }

    fn arguments(&mut self) -> Result<Vec<Typed>, Refused> {
        let mut all = Vec::new();
        while !self.skip(")") {
            if !all.is_empty() {
                self.expect(",")?;
            }
            all.push(self.choice()?);
        }
        Ok(all)
    }

    fn primary(&mut self) -> Result<Typed, Refused> {
        let token = self.take();
        Ok(match token.word {
            Word::Int(number) => match i64::try_from(number) {
                Ok(number) => (Node::Int(number), Kind::Int),
                Err(_) => {
                    let hint = "write a smaller number";
                    return Err(self.refuse_at(token.at, "is beyond 64 bits", hint));
                }
            },
            Word::Double(number) => (Node::Double(number), Kind::Double),
            Word::Text(text) => (Node::Text(text.into()), Kind::Text),
            Word::Sign("(") => {
                let inner = self.choice()?;
                self.expect(")")?;
                inner
            }
            Word::Name(ref name) if self.skip("(") => {
                let arguments = self.arguments()?;
                self.function(name, &token, arguments)?
            }
            Word::Name(ref name) => self.name(name, token.at)?,
            Word::End => {
                let what = "the expression ends too early";
                return Err(self.refuse_at(token.at, what, "add a value"));
            }
            Word::Sign(sign) => {
                let what = format!("expected a value and not `{sign}`");
                return Err(self.refuse_at(token.at, what, "add a value before it"));
            }
        })
    }

    fn name(&self, name: &str, at: usize) -> Result<Typed, Refused> {
        let number = |variable| Ok((Node::Variable(variable), Kind::Int));
        match name {
            "true" | "false" => Ok((Node::Bool(name == "true"), Kind::Bool)),
            "vcpus" => number(Variable::Vcpus),
            "memory_mib" => number(Variable::MemoryMib),
            "default_enis" => number(Variable::DefaultEnis),
            "ips_per_eni" => number(Variable::IpsPerEni),
            "max_pods" => number(Variable::MaxPods),
            "instance_type" => Ok((Node::Variable(Variable::InstanceType), Kind::Text)),
            _ => Err(self.refuse_at(at, format!("{name} is not a known name"), VARIABLES)),
        }
    }

    fn function(&self, name: &str, token: &Token, arguments: Vec<Typed>) -> Result<Typed, Refused> {
        let kinds: Vec<Kind> = arguments.iter().map(|(_, kind)| *kind).collect();
        let (function, kind) = match (name, kinds.as_slice()) {
            ("int", [kind]) if kind.is_number() => (Function::Int, Kind::Int),
            ("double", [kind]) if kind.is_number() => (Function::Double, Kind::Double),
            ("min" | "max", [a, b]) if a.is_number() && b.is_number() => {
                let function = match name {
                    "min" => Function::Min,
                    _ => Function::Max,
                };
                let kind = match a == b {
                    true => *a,
                    false => Kind::Double,
                };
                (function, kind)
            }
            ("size", [Kind::Text]) => (Function::Size, Kind::Int),
            ("int" | "double" | "min" | "max" | "size", _) => {
                let hint = "int and double take a number, min and max two, size a text";
                let what = format!("{name} does not take these values");
                return Err(self.refuse_at(token.at, what, hint));
            }
            _ => return Err(self.unknown(name, token)),
        };
        let nodes = arguments.into_iter().map(|(node, _)| node).collect();
        Ok((Node::Call(function, nodes), kind))
    }

    fn method(&self, name: &str, token: &Token, arguments: Vec<Typed>) -> Result<Typed, Refused> {
        let kinds: Vec<Kind> = arguments.iter().map(|(_, kind)| *kind).collect();
        let (function, kind) = match (name, kinds.as_slice()) {
            ("startsWith", [Kind::Text, Kind::Text]) => (Function::StartsWith, Kind::Bool),
            ("endsWith", [Kind::Text, Kind::Text]) => (Function::EndsWith, Kind::Bool),
            ("contains", [Kind::Text, Kind::Text]) => (Function::Contains, Kind::Bool),
            ("size", [Kind::Text]) => (Function::Size, Kind::Int),
            ("startsWith" | "endsWith" | "contains" | "size", _) => {
                let what = format!("{name} does not take these values");
                return Err(self.refuse_at(token.at, what, "call it on a text, with a text"));
            }
            _ => return Err(self.unknown(name, token)),
        };
        let nodes = arguments.into_iter().map(|(node, _)| node).collect();
        Ok((Node::Call(function, nodes), kind))
    }

    fn unknown(&self, name: &str, token: &Token) -> Refused {
        let hint = "known are int, double, min, max, size, startsWith, endsWith and contains";
        self.refuse_at(token.at, format!("{name} is not a known function"), hint)
    }

    fn wanted(&self, (node, kind): Typed, wanted: Kind, at: usize) -> Result<Node, Refused> {
        match kind == wanted {
            true => Ok(node),
            false => {
                let what = format!("is {} where {} is expected", kind.name(), wanted.name());
                Err(self.refuse_at(at, what, "give values of one type"))
            }
        }
    }
}

const VARIABLES: &str =
    "known are vcpus, memory_mib, default_enis, ips_per_eni, max_pods and instance_type";
