//! Names, functions and types of expressions over columns.

use std::borrow::Cow;

use super::part::{Condition, Extreme, Match, Number, Text};
use super::{Numbers, OneNumber, OneText, Program, Source, Texts, Use};
use crate::{Arithmetic, Comparison, Language, Literal, Logical, Refused, parse};

/// Most operators and calls: the tree of an expression is walked by calls within each other.
const MAX_OPERATORS: u32 = 256;

const NAMES: [&str; 17] = [
    "price",
    "cost",
    "instance_type",
    "zone",
    "capacity_type",
    "architecture",
    "reservation",
    "reservation_count",
    "available",
    "cpu_millicores",
    "memory_mib",
    "labels",
    "resources",
    "allocatable",
    "node_pool",
    "now",
    "infinity",
];
const FIELDS: [&str; 4] = ["name", "labels", "annotations", "weight"];
const FUNCTIONS: [&str; 7] = ["signal", "has", "min", "max", "int", "double", "size"];
const METHODS: [&str; 4] = ["startsWith", "endsWith", "contains", "size"];

/// A part, with its type.
pub(super) enum Part {
    Number(Number),
    Condition(Condition),
    Text(Text),
    Map(Map),
    NodePool,
}

/// What is read by a key.
#[derive(Clone, Copy)]
pub(super) enum Map {
    Labels,
    Resources,
    Allocatable,
    PoolLabels,
    PoolAnnotations,
}

impl Part {
    fn name(&self) -> &'static str {
        match self {
            Part::Number(_) => "a number",
            Part::Condition(_) => "a boolean",
            Part::Text(_) => "a text",
            Part::Map(_) => "a map",
            Part::NodePool => "a NodePool",
        }
    }
}

pub(super) fn compile(text: &str) -> Result<Program, Refused> {
    let mut language = ColumnNumbers {
        text,
        sources: Vec::new(),
        operators: 0,
    };
    match parse(text, &mut language)? {
        Part::Number(root) => Ok(Program {
            root,
            sources: language.sources,
        }),
        Part::Condition(_) => {
            let hint = "write what it costs in both cases: condition ? number : number";
            Err(Refused::at(text, 0, "gives a boolean", hint))
        }
        other => {
            let what = format!("gives {}", other.name());
            Err(Refused::at(
                text,
                0,
                what,
                "give a number, such as price * 0.9",
            ))
        }
    }
}

struct ColumnNumbers<'a> {
    text: &'a str,
    sources: Vec<Use>,
    operators: u32,
}

type PartResult = Result<Part, Refused>;

impl ColumnNumbers<'_> {
    fn refuse(
        &self,
        at: usize,
        what: impl Into<String>,
        hint: impl Into<Cow<'static, str>>,
    ) -> Refused {
        Refused::at(self.text, at, what, hint)
    }

    /// A name that is none of the known ones: the one that is meant, or all of them.
    fn unknown(&self, at: usize, name: &str, what: &str, known: &[&str]) -> Refused {
        let likeness = |word: &str| strsim::jaro_winkler(&name.to_lowercase(), word);
        let nearest = known
            .iter()
            .max_by(|a, b| likeness(&a.to_lowercase()).total_cmp(&likeness(&b.to_lowercase())));
        let hint = match nearest.filter(|word| likeness(&word.to_lowercase()) > 0.8) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None if known == NAMES => {
                format!(
                    "a text stands in quotes; known names are {}",
                    known.join(", ")
                )
            }
            None => format!("known are {}", known.join(", ")),
        };
        self.refuse(at, format!("{name} is not a known {what}"), hint)
    }

    fn source(&mut self, source: Source) -> usize {
        let known = self.sources.iter().position(|of| of.source == source);
        let at = known.unwrap_or_else(|| {
            self.sources.push(Use { source, places: 0 });
            self.sources.len() - 1
        });
        self.sources[at].places += 1;
        at
    }

    fn numbers(&mut self, of: Numbers) -> Part {
        Part::Number(Number::Source(self.source(Source::Numbers(of))))
    }

    fn texts(&mut self, of: Texts) -> Part {
        Part::Text(Text::Source(self.source(Source::Texts(of))))
    }

    fn one_text(&mut self, of: OneText) -> Part {
        Part::Text(Text::Source(self.source(Source::Text(of))))
    }

    fn of_map(&mut self, map: Map, key: String) -> Part {
        match map {
            Map::Labels => self.texts(Texts::Label(key)),
            Map::Resources => self.numbers(Numbers::Capacity(key)),
            Map::Allocatable => self.numbers(Numbers::Allocatable(key)),
            Map::PoolLabels => self.one_text(OneText::Label(key)),
            Map::PoolAnnotations => self.one_text(OneText::Annotation(key)),
        }
    }

    fn number(&self, at: usize, part: Part) -> Result<Number, Refused> {
        match part {
            Part::Number(number) => Ok(number),
            other => Err(self.unlike(at, &other, "a number")),
        }
    }

    fn unlike(&self, at: usize, part: &Part, wanted: &str) -> Refused {
        let hint = match part {
            Part::Map(_) => "take one of it by its key, as labels[\"…\"]",
            Part::NodePool => "take name, weight, labels[\"…\"] or annotations[\"…\"] of it",
            Part::Text(_) if wanted == "a number" => "read a number from a text with double(…)",
            _ => "give values of one type",
        };
        let what = format!("is {} where {wanted} is expected", part.name());
        self.refuse(at, what, hint)
    }

    /// Counts an operator or a call.
    fn operator(&mut self, at: usize) -> Result<(), Refused> {
        self.operators += 1;
        match self.operators > MAX_OPERATORS {
            true => Err(self.refuse(
                at,
                "has more than 256 operators",
                "split it into two policies: the second goes on from `cost`",
            )),
            false => Ok(()),
        }
    }

    /// Whether a text is the same for all rows.
    fn is_one(&self, text: &Text) -> bool {
        match text {
            Text::Literal(_) => true,
            Text::Source(at) => matches!(self.sources[*at].source, Source::Text(_)),
        }
    }

    fn signal(&mut self, at: usize, arguments: Vec<Part>) -> PartResult {
        let hint =
            "write signal(\"name\", otherwise), with a number for offerings that it does not know";
        let Ok([name, otherwise]) = <[Part; 2]>::try_from(arguments) else {
            return Err(self.refuse(at, "signal takes a name and a number", hint));
        };
        match (name, otherwise) {
            (Part::Text(Text::Literal(name)), Part::Number(Number::Literal(otherwise))) => {
                let name = name.into();
                Ok(self.numbers(Numbers::Signal { name, otherwise }))
            }
            _ => Err(self.refuse(
                at,
                "signal takes a name and a number, both in quotes or digits",
                hint,
            )),
        }
    }

    fn has(&self, at: usize, arguments: Vec<Part>) -> PartResult {
        let Ok([part]) = <[Part; 1]>::try_from(arguments) else {
            let hint = "write has(labels[\"…\"]) or has(resources[\"…\"])";
            return Err(self.refuse(at, "has takes one value", hint));
        };
        let condition = match part {
            Part::Text(text) => {
                Condition::Texts(Comparison::NotEqual, [text, Text::Literal("".into())])
            }
            Part::Number(number) if self.is_resource(&number) => {
                let none = Number::Literal(0.0);
                Condition::Numbers(Comparison::NotEqual, Box::new([number, none]))
            }
            Part::Number(number) => Condition::Known(Box::new(number)),
            other => return Err(self.unlike(at, &other, "a text or a number")),
        };
        Ok(Part::Condition(condition))
    }

    /// Whether it is an amount of a resource, which is 0 for what a machine has not.
    fn is_resource(&self, number: &Number) -> bool {
        let Number::Source(at) = number else {
            return false;
        };
        matches!(
            self.sources[*at].source,
            Source::Numbers(Numbers::Capacity(_) | Numbers::Allocatable(_))
        )
    }

    /// The smallest or largest of two and more.
    fn extreme(&self, at: usize, extreme: Extreme, arguments: Vec<Part>) -> PartResult {
        if arguments.len() < 2 {
            return Err(self.refuse(at, "min and max take two and more numbers", "add a number"));
        }
        let mut numbers = arguments.into_iter().map(|part| self.number(at, part));
        let first = numbers.next().unwrap_or(Ok(Number::Literal(f64::NAN)))?;
        let all = numbers.try_fold(first, |all, one| {
            Ok(folded(
                [all, one?],
                |a, b| extreme.of(a, b),
                |pair| Number::Extreme(extreme, pair),
            ))
        });
        all.map(Part::Number)
    }

    /// A function of one value.
    fn of_one(&self, at: usize, name: &str, arguments: Vec<Part>) -> PartResult {
        let number = match (name, <[Part; 1]>::try_from(arguments)) {
            ("double", Ok([Part::Number(number)])) => number,
            ("double", Ok([Part::Text(text)])) => Number::Parsed(text),
            ("int", Ok([Part::Number(Number::Literal(number))])) => Number::Literal(number.trunc()),
            ("int", Ok([Part::Number(number)])) => Number::Whole(Box::new(number)),
            ("size", Ok([Part::Text(text)])) => Number::Size(text),
            _ => {
                let hint = "double takes a number or a text, int a number, size a text";
                return Err(self.refuse(at, format!("{name} does not take these values"), hint));
            }
        };
        Ok(Part::Number(number))
    }
}

/// Two numbers joined: at once if both are known.
fn folded(
    pair: [Number; 2],
    of: impl Fn(f64, f64) -> f64,
    join: impl Fn(Box<[Number; 2]>) -> Number,
) -> Number {
    match pair {
        [Number::Literal(a), Number::Literal(b)] => Number::Literal(of(a, b)),
        pair => join(Box::new(pair)),
    }
}

impl Language for ColumnNumbers<'_> {
    type Part = Part;

    const HAS_KEYS: bool = true;

    fn literal(&mut self, _: usize, literal: Literal) -> PartResult {
        Ok(match literal {
            Literal::Int(number) => Part::Number(Number::Literal(number as f64)),
            Literal::Double(number) => Part::Number(Number::Literal(number)),
            Literal::Bool(is) => Part::Condition(Condition::Literal(is)),
            Literal::Text(text) => Part::Text(Text::Literal(text.into())),
        })
    }

    fn name(&mut self, at: usize, name: &str) -> PartResult {
        Ok(match name {
            "price" => self.numbers(Numbers::Price),
            "cost" => self.numbers(Numbers::Cost),
            "cpu_millicores" => self.numbers(Numbers::CpuMillicores),
            "memory_mib" => self.numbers(Numbers::MemoryMib),
            "reservation_count" => self.numbers(Numbers::ReservationCount),
            "instance_type" => self.texts(Texts::InstanceType),
            "zone" => self.texts(Texts::Zone),
            "capacity_type" => self.texts(Texts::CapacityType),
            "architecture" => self.texts(Texts::Architecture),
            "reservation" => self.texts(Texts::Reservation),
            "available" => Part::Condition(Condition::Source(self.source(Source::Available))),
            "labels" => Part::Map(Map::Labels),
            "resources" => Part::Map(Map::Resources),
            "allocatable" => Part::Map(Map::Allocatable),
            "node_pool" => Part::NodePool,
            "now" => {
                let source = Source::Number(OneNumber::Now);
                Part::Number(Number::Source(self.source(source)))
            }
            "infinity" => Part::Number(Number::Literal(f64::INFINITY)),
            _ => return Err(self.unknown(at, name, "name", &NAMES)),
        })
    }

    fn function(&mut self, at: usize, name: &str, arguments: Vec<Part>) -> PartResult {
        self.operator(at)?;
        match name {
            "signal" => self.signal(at, arguments),
            "has" => self.has(at, arguments),
            "min" => self.extreme(at, Extreme::Min, arguments),
            "max" => self.extreme(at, Extreme::Max, arguments),
            "int" | "double" | "size" => self.of_one(at, name, arguments),
            _ => Err(self.unknown(at, name, "function", &FUNCTIONS)),
        }
    }

    fn method(&mut self, at: usize, name: &str, of: Part, arguments: Vec<Part>) -> PartResult {
        self.operator(at)?;
        let matching = match name {
            "startsWith" => Match::StartsWith,
            "endsWith" => Match::EndsWith,
            "contains" => Match::Contains,
            "size" if arguments.is_empty() => return self.of_one(at, name, vec![of]),
            "matches" => {
                let hint = "use startsWith, endsWith, contains, or `in` with a list";
                return Err(self.refuse(at, "regular expressions are not supported", hint));
            }
            _ => return Err(self.unknown(at, name, "function of a text", &METHODS)),
        };
        match (of, <[Part; 1]>::try_from(arguments)) {
            (Part::Text(text), Ok([Part::Text(Text::Literal(part))])) => {
                Ok(Part::Condition(Condition::Match(matching, text, part)))
            }
            _ => {
                let hint = "call it on a text, with a text in quotes";
                Err(self.refuse(at, format!("{name} does not take these values"), hint))
            }
        }
    }

    fn field(&mut self, at: usize, of: Part, name: &str) -> PartResult {
        match (of, name) {
            (Part::NodePool, "name") => Ok(self.one_text(OneText::NodePool)),
            (Part::NodePool, "labels") => Ok(Part::Map(Map::PoolLabels)),
            (Part::NodePool, "annotations") => Ok(Part::Map(Map::PoolAnnotations)),
            (Part::NodePool, "weight") => {
                let source = Source::Number(OneNumber::Weight);
                Ok(Part::Number(Number::Source(self.source(source))))
            }
            (Part::NodePool, _) => Err(self.unknown(at, name, "field of node_pool", &FIELDS)),
            (Part::Map(map), _) => Ok(self.of_map(map, name.to_owned())),
            (other, _) => {
                let hint = "labels, resources, allocatable and node_pool have fields";
                Err(self.refuse(at, format!("{} has no field {name}", other.name()), hint))
            }
        }
    }

    fn key(&mut self, at: usize, of: Part, key: Part) -> PartResult {
        match (of, key) {
            (Part::Map(map), Part::Text(Text::Literal(key))) => {
                Ok(self.of_map(map, key.into_string()))
            }
            (Part::Map(_), _) => {
                let hint = "write it in quotes, as labels[\"kubernetes.io/arch\"]";
                Err(self.refuse(at, "a key is not a text in quotes", hint))
            }
            (other, _) => {
                let hint = "labels, resources, allocatable, node_pool.labels and \
                            node_pool.annotations have keys";
                Err(self.refuse(at, format!("{} has no keys", other.name()), hint))
            }
        }
    }

    fn condition(&mut self, at: usize, part: Part) -> PartResult {
        match part {
            Part::Condition(_) => Ok(part),
            other => Err(self.unlike(at, &other, "a boolean")),
        }
    }

    fn choice(&mut self, at: usize, condition: Part, first: Part, second: Part) -> PartResult {
        self.operator(at)?;
        let Part::Condition(condition) = condition else {
            return Err(self.unlike(at, &condition, "a boolean"));
        };
        match (first, second) {
            (Part::Number(first), Part::Number(second)) => Ok(Part::Number(Number::Choice(
                Box::new(condition),
                Box::new([first, second]),
            ))),
            (Part::Condition(first), Part::Condition(second)) => {
                Ok(Part::Condition(Condition::Choice(Box::new([
                    condition, first, second,
                ]))))
            }
            (Part::Text(_), Part::Text(_)) => {
                let hint = "choose between numbers or booleans";
                Err(self.refuse(at, "a choice between texts is not supported", hint))
            }
            (first, second) => Err(self.unlike(at, &second, first.name())),
        }
    }

    fn logical(&mut self, operator: Logical, left: Part, right: Part) -> Part {
        // The parser has taken both as conditions.
        let (Part::Condition(left), Part::Condition(right)) = (left, right) else {
            return Part::Condition(Condition::Literal(false));
        };
        self.operators += 1;
        Part::Condition(Condition::Logical(operator, Box::new([left, right])))
    }

    fn not(&mut self, operand: Part) -> Part {
        match operand {
            Part::Condition(operand) => Part::Condition(Condition::Not(Box::new(operand))),
            other => other,
        }
    }

    fn negate(&mut self, at: usize, operand: Part) -> PartResult {
        Ok(Part::Number(match self.number(at, operand)? {
            Number::Literal(number) => Number::Literal(-number),
            number => Number::Negate(Box::new(number)),
        }))
    }

    fn arithmetic(
        &mut self,
        at: usize,
        operator: Arithmetic,
        left: Part,
        right: Part,
    ) -> PartResult {
        self.operator(at)?;
        if matches!((&left, &right), (Part::Text(_), Part::Text(_))) {
            let hint = "compare a text with ==, in, startsWith, endsWith or contains";
            return Err(self.refuse(at, "texts cannot be joined", hint));
        }
        let pair = [self.number(at, left)?, self.number(at, right)?];
        Ok(Part::Number(folded(
            pair,
            |a, b| of_two(operator, a, b),
            |pair| Number::Arithmetic(operator, pair),
        )))
    }

    fn compare(
        &mut self,
        at: usize,
        comparison: Comparison,
        left: Part,
        right: Part,
    ) -> PartResult {
        self.operator(at)?;
        let condition = match (left, right) {
            (Part::Number(left), Part::Number(right)) => {
                Condition::Numbers(comparison, Box::new([left, right]))
            }
            (Part::Text(left), Part::Text(right)) => Condition::Texts(comparison, [left, right]),
            (Part::Condition(left), Part::Condition(right)) => {
                let alike = Condition::Alike(Box::new([left, right]));
                match comparison {
                    Comparison::Equal => alike,
                    Comparison::NotEqual => Condition::Not(Box::new(alike)),
                    _ => {
                        let hint = "compare booleans with == or !=";
                        return Err(self.refuse(at, "booleans have no order", hint));
                    }
                }
            }
            (left @ (Part::Map(_) | Part::NodePool), _) => {
                return Err(self.unlike(at, &left, "a value"));
            }
            (left, right) => {
                let what = format!("cannot compare {} and {}", left.name(), right.name());
                let hint = match (&left, &right) {
                    (Part::Text(_), Part::Number(_)) | (Part::Number(_), Part::Text(_)) => {
                        "read a number from a text with double(…)"
                    }
                    _ => "compare values of one type",
                };
                return Err(self.refuse(at, what, hint));
            }
        };
        Ok(Part::Condition(condition))
    }

    fn item(&mut self, at: usize, member: &Part, item: Part) -> PartResult {
        let fits = match (member, &item) {
            (Part::Number(_), Part::Number(item)) => matches!(item, Number::Literal(_)),
            (Part::Text(_), Part::Text(item)) => self.is_one(item),
            (Part::Number(_) | Part::Text(_), _) => {
                return Err(self.unlike(at, &item, member.name()));
            }
            _ => return Err(self.unlike(at, member, "a text or a number before `in`")),
        };
        match fits {
            true => Ok(item),
            false => {
                let hint = "write values in the list, and compare columns with ==";
                Err(self.refuse(at, "a list cannot hold a column", hint))
            }
        }
    }

    fn member(&mut self, at: usize, member: Part, items: Vec<Part>) -> PartResult {
        self.operator(at)?;
        let condition = match member {
            Part::Number(number) => {
                let items = items.into_iter().filter_map(|item| match item {
                    Part::Number(Number::Literal(item)) => Some(item),
                    _ => None,
                });
                Condition::NumberIn(Box::new(number), items.collect())
            }
            Part::Text(text) => {
                let items = items.into_iter().filter_map(|item| match item {
                    Part::Text(item) => Some(item),
                    _ => None,
                });
                Condition::TextIn(text, items.collect())
            }
            other => return Err(self.unlike(at, &other, "a text or a number before `in`")),
        };
        Ok(Part::Condition(condition))
    }
}

pub(super) fn of_two(operator: Arithmetic, a: f64, b: f64) -> f64 {
    match operator {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        Arithmetic::Divide => a / b,
        Arithmetic::Remainder => a % b,
    }
}
