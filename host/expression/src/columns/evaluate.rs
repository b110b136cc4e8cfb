//! The value of an expression over columns: an operator at a time, over as few values as it takes.
//!
//! A column of texts is a table of the texts that there are and a place in it for each row. What
//! depends on one such column alone is worked out for its table ([`Column::ByText`]): of 8 000
//! offerings that have three capacity types, three times. It is spread over rows where it meets a
//! column of another kind.

use std::rc::Rc;

use super::language::of_two;
use super::loops::{choose, each, made, made_of_two, zip};
use super::part::{Condition, Number, Text};
use super::{Columns, Source, Table, Use};
use crate::{Arithmetic, Comparison, Logical};

/// Values of rows.
#[derive(Clone, Debug)]
enum Column<T> {
    /// One for all rows.
    One(T),
    /// One for each text of the source at this place.
    ByText(usize, Vec<T>),
    Rows(Vec<T>),
}

use Column::{ByText, One, Rows};

/// What a source gave.
enum Pulled {
    Numbers(Vec<f64>),
    Texts(Rc<Table>),
    Conditions(Vec<bool>),
    Number(f64),
    Text(String),
}

struct Evaluation {
    rows: usize,
    pulled: Vec<Pulled>,
    /// In how many places each source is still to be read.
    places: Vec<u32>,
}

pub(super) fn evaluate(root: &Number, sources: &[Use], columns: &mut impl Columns) -> Vec<f64> {
    let pull = |of: &Use| match &of.source {
        Source::Numbers(of) => Pulled::Numbers(columns.numbers(of)),
        Source::Texts(of) => Pulled::Texts(columns.texts(of)),
        Source::Available => Pulled::Conditions(columns.available()),
        Source::Number(of) => Pulled::Number(columns.number(of)),
        Source::Text(of) => Pulled::Text(columns.text(of)),
    };
    let pulled = sources.iter().map(pull).collect();
    let mut evaluation = Evaluation {
        rows: columns.count(),
        pulled,
        places: sources.iter().map(|of| of.places).collect(),
    };
    let column = evaluation.number(root);
    evaluation.by_row(column)
}

impl Evaluation {
    fn number(&mut self, of: &Number) -> Column<f64> {
        match of {
            Number::Literal(number) => One(*number),
            Number::Source(at) => match self.last_use(*at) {
                Pulled::Numbers(rows) => Rows(rows),
                Pulled::Number(number) => One(number),
                _ => One(f64::NAN),
            },
            Number::Negate(operand) => map(self.number(operand), |number| -number),
            Number::Whole(operand) => map(self.number(operand), f64::trunc),
            Number::Arithmetic(operator, pair) => {
                let (left, right) = (self.number(&pair[0]), self.number(&pair[1]));
                // A loop for each: the operator is not looked at again for each row.
                match operator {
                    Arithmetic::Add => self.join(left, right, |a, b| a + b),
                    Arithmetic::Subtract => self.join(left, right, |a, b| a - b),
                    Arithmetic::Multiply => self.join(left, right, |a, b| a * b),
                    Arithmetic::Divide => self.join(left, right, |a, b| a / b),
                    Arithmetic::Remainder => {
                        self.join(left, right, |a, b| of_two(Arithmetic::Remainder, a, b))
                    }
                }
            }
            Number::Extreme(extreme, pair) => {
                let (left, right) = (self.number(&pair[0]), self.number(&pair[1]));
                let extreme = *extreme;
                self.join(left, right, |a, b| extreme.of(a, b))
            }
            Number::Choice(condition, pair) => {
                let condition = self.condition(condition);
                let (first, second) = (self.number(&pair[0]), self.number(&pair[1]));
                self.choice(condition, first, second)
            }
            Number::Size(text) => self.of_text(text, |text| text.chars().count() as f64),
            Number::Parsed(text) => self.of_text(text, parsed),
        }
    }

    fn condition(&mut self, of: &Condition) -> Column<bool> {
        match of {
            Condition::Literal(is) => One(*is),
            Condition::Source(at) => match self.last_use(*at) {
                Pulled::Conditions(rows) => Rows(rows),
                _ => One(false),
            },
            Condition::Not(operand) => map(self.condition(operand), |is: bool| !is),
            Condition::Logical(operator, pair) => {
                let (left, right) = (self.condition(&pair[0]), self.condition(&pair[1]));
                match operator {
                    Logical::And => self.join(left, right, |a, b| a & b),
                    Logical::Or => self.join(left, right, |a, b| a | b),
                }
            }
            Condition::Alike(pair) => {
                let (left, right) = (self.condition(&pair[0]), self.condition(&pair[1]));
                self.join(left, right, |a, b| a == b)
            }
            Condition::Choice(three) => {
                let [condition, first, second] = &**three;
                let condition = self.condition(condition);
                let (first, second) = (self.condition(first), self.condition(second));
                self.choice(condition, first, second)
            }
            Condition::Numbers(comparison, pair) => {
                let (left, right) = (self.number(&pair[0]), self.number(&pair[1]));
                match comparison {
                    Comparison::Less => self.compare(left, right, |a, b| a < b),
                    Comparison::LessOrEqual => self.compare(left, right, |a, b| a <= b),
                    Comparison::Greater => self.compare(left, right, |a, b| a > b),
                    Comparison::GreaterOrEqual => self.compare(left, right, |a, b| a >= b),
                    Comparison::Equal => self.compare(left, right, |a, b| a == b),
                    Comparison::NotEqual => self.compare(left, right, |a, b| a != b),
                }
            }
            Condition::NumberIn(number, items) => {
                to_conditions(self.number(number), |number| items.contains(&number))
            }
            Condition::Known(number) => {
                to_conditions(self.number(number), |number: f64| !number.is_nan())
            }
            Condition::Texts(comparison, [left, right]) => self.texts(*comparison, left, right),
            Condition::TextIn(text, items) => {
                let items: Vec<String> = items.iter().map(|item| self.one(item)).collect();
                self.of_text(text, |text| items.iter().any(|item| item == text))
            }
            Condition::Match(matching, text, part) => {
                self.of_text(text, |text| matching.holds(text, part))
            }
        }
    }

    /// What a source gave: itself at the last place where it is read, before that a copy.
    fn last_use(&mut self, at: usize) -> Pulled {
        self.places[at] = self.places[at].saturating_sub(1);
        let is_last = self.places[at] == 0;
        match &mut self.pulled[at] {
            Pulled::Numbers(rows) if is_last => Pulled::Numbers(std::mem::take(rows)),
            Pulled::Numbers(rows) => Pulled::Numbers(rows.clone()),
            Pulled::Conditions(rows) if is_last => Pulled::Conditions(std::mem::take(rows)),
            Pulled::Conditions(rows) => Pulled::Conditions(rows.clone()),
            Pulled::Number(number) => Pulled::Number(*number),
            // Tables and texts are looked at where they are.
            Pulled::Texts(_) | Pulled::Text(_) => Pulled::Text(String::new()),
        }
    }

    /// A text that is the same for all rows.
    fn one(&self, text: &Text) -> String {
        match text {
            Text::Literal(text) => text.to_string(),
            Text::Source(at) => match &self.pulled[*at] {
                Pulled::Text(text) => text.clone(),
                _ => String::new(),
            },
        }
    }

    /// A value made of each text.
    fn of_text<T>(&self, text: &Text, make: impl Fn(&str) -> T) -> Column<T> {
        match text {
            Text::Literal(text) => One(make(text)),
            Text::Source(at) => match &self.pulled[*at] {
                Pulled::Texts(table) => {
                    ByText(*at, table.texts.iter().map(|text| make(text)).collect())
                }
                Pulled::Text(text) => One(make(text)),
                _ => One(make("")),
            },
        }
    }

    fn texts(&self, comparison: Comparison, left: &Text, right: &Text) -> Column<bool> {
        let table = |text: &Text| match text {
            Text::Source(at) => match &self.pulled[*at] {
                Pulled::Texts(table) => Some((*at, &table.texts)),
                _ => None,
            },
            Text::Literal(_) => None,
        };
        match (table(left), table(right)) {
            (_, None) => {
                let right = self.one(right);
                self.of_text(left, |left| holds(comparison, left, right.as_str()))
            }
            (None, Some(_)) => {
                let left = self.one(left);
                self.of_text(right, |right| holds(comparison, left.as_str(), right))
            }
            (Some((left, of_left)), Some((right, of_right))) => {
                // Texts are compared once, by their rank among all of both tables.
                let mut all: Vec<&String> = of_left.iter().chain(of_right).collect();
                all.sort_unstable();
                all.dedup();
                let rank = |text: &String| all.partition_point(|other| *other < text) as u32;
                let left = ByText(left, of_left.iter().map(rank).collect());
                let right = ByText(right, of_right.iter().map(rank).collect());
                self.compare(left, right, |left, right| holds(comparison, left, right))
            }
        }
    }

    /// The place in its table that each row has.
    fn places_of(&self, at: usize) -> &[u32] {
        match &self.pulled[at] {
            Pulled::Texts(table) => &table.rows,
            _ => &[],
        }
    }

    /// A value for each row.
    fn by_row<T: Copy + Default>(&self, column: Column<T>) -> Vec<T> {
        match column {
            One(value) => vec![value; self.rows],
            ByText(at, values) => made(self.places_of(at), |place| values[place as usize]),
            Rows(rows) => rows,
        }
    }

    /// Two columns of a type made into one of it, in the room of either.
    fn join<T: Copy + Default>(
        &self,
        left: Column<T>,
        right: Column<T>,
        of: impl Fn(T, T) -> T,
    ) -> Column<T> {
        match (left, right) {
            (One(a), right) => map(right, |b| of(a, b)),
            (left, One(b)) => map(left, |a| of(a, b)),
            (ByText(at, mut values), ByText(other, others)) if at == other => {
                zip(&mut values, &others, of);
                ByText(at, values)
            }
            (ByText(at, values), Rows(mut rows)) => {
                zip(&mut rows, self.places_of(at), |b, place| {
                    of(values[place as usize], b)
                });
                Rows(rows)
            }
            (left, ByText(at, values)) => {
                let mut rows = self.by_row(left);
                zip(&mut rows, self.places_of(at), |a, place| {
                    of(a, values[place as usize])
                });
                Rows(rows)
            }
            (Rows(mut rows), Rows(others)) => {
                zip(&mut rows, &others, of);
                Rows(rows)
            }
        }
    }

    fn compare<T: Copy + Default>(
        &self,
        left: Column<T>,
        right: Column<T>,
        of: impl Fn(T, T) -> bool,
    ) -> Column<bool> {
        match (left, right) {
            (One(a), right) => to_conditions(right, |b| of(a, b)),
            (left, One(b)) => to_conditions(left, |a| of(a, b)),
            (ByText(at, values), ByText(other, others)) if at == other => {
                ByText(at, made_of_two(&values, &others, of))
            }
            (left, right) => {
                let (left, right) = (self.by_row(left), self.by_row(right));
                Rows(made_of_two(&left, &right, of))
            }
        }
    }

    fn choice<T: Copy + Default>(
        &self,
        condition: Column<bool>,
        first: Column<T>,
        second: Column<T>,
    ) -> Column<T> {
        // As many values of both as the condition has, if they have no more.
        let fits = |column: &Column<T>, place: usize| match column {
            One(_) => true,
            ByText(at, _) => *at == place,
            Rows(_) => false,
        };
        match condition {
            One(true) => first,
            One(false) => second,
            ByText(at, holds) if fits(&first, at) && fits(&second, at) => {
                let values = |column| match column {
                    One(value) => vec![value; holds.len()],
                    ByText(_, values) | Rows(values) => values,
                };
                let mut first = values(first);
                choose(&holds, &mut first, &values(second));
                ByText(at, first)
            }
            condition => {
                let holds = self.by_row(condition);
                match (first, second) {
                    (One(a), One(b)) => Rows(made(&holds, |is| if is { a } else { b })),
                    (One(a), second) => {
                        let mut rows = self.by_row(second);
                        zip(&mut rows, &holds, |b, is| if is { a } else { b });
                        Rows(rows)
                    }
                    (first, One(b)) => {
                        let mut rows = self.by_row(first);
                        zip(&mut rows, &holds, |a, is| if is { a } else { b });
                        Rows(rows)
                    }
                    (first, second) => {
                        let mut rows = self.by_row(first);
                        choose(&holds, &mut rows, &self.by_row(second));
                        Rows(rows)
                    }
                }
            }
        }
    }
}

/// Replaces each value.
fn map<T: Copy>(column: Column<T>, of: impl Fn(T) -> T) -> Column<T> {
    match column {
        One(value) => One(of(value)),
        ByText(at, mut values) => {
            each(&mut values, of);
            ByText(at, values)
        }
        Rows(mut rows) => {
            each(&mut rows, of);
            Rows(rows)
        }
    }
}

fn to_conditions<T: Copy>(column: Column<T>, of: impl Fn(T) -> bool) -> Column<bool> {
    match column {
        One(value) => One(of(value)),
        ByText(at, values) => ByText(at, made(&values, of)),
        Rows(rows) => Rows(made(&rows, of)),
    }
}

/// In the order of code points, as CEL has it.
fn holds<T: Ord>(comparison: Comparison, left: T, right: T) -> bool {
    match comparison {
        Comparison::Less => left < right,
        Comparison::LessOrEqual => left <= right,
        Comparison::Greater => left > right,
        Comparison::GreaterOrEqual => left >= right,
        Comparison::Equal => left == right,
        Comparison::NotEqual => left != right,
    }
}

/// The number that a text is: what CEL's `double` takes, and NaN in place of its error.
fn parsed(text: &str) -> f64 {
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    match is_number {
        true => text.parse().unwrap_or(f64::NAN),
        false => f64::NAN,
    }
}
