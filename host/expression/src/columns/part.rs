//! Parts of an expression over columns. Each type has its own tree, so that a tree that exists is right.

use crate::{Arithmetic, Comparison, Logical};

/// The place of a source in its program.
pub(super) type At = usize;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Number {
    /// The same for all rows.
    Literal(f64),
    Source(At),
    Negate(Box<Number>),
    Arithmetic(Arithmetic, Box<[Number; 2]>),
    Extreme(Extreme, Box<[Number; 2]>),
    /// Cut off behind the point.
    Whole(Box<Number>),
    Choice(Box<Condition>, Box<[Number; 2]>),
    /// How many characters a text has.
    Size(Text),
    /// The number that a text is; NaN for one that is none.
    Parsed(Text),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extreme {
    Min,
    Max,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Condition {
    Literal(bool),
    Source(At),
    Not(Box<Condition>),
    Logical(Logical, Box<[Condition; 2]>),
    /// Whether two conditions are alike.
    Alike(Box<[Condition; 2]>),
    Choice(Box<[Condition; 3]>),
    Numbers(Comparison, Box<[Number; 2]>),
    NumberIn(Box<Number>, Vec<f64>),
    /// Whether it is a number, and not NaN.
    Known(Box<Number>),
    Texts(Comparison, [Text; 2]),
    /// A column or one text, and texts that are the same for all rows.
    TextIn(Text, Vec<Text>),
    Match(Match, Text, Box<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    StartsWith,
    EndsWith,
    Contains,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Text {
    Literal(Box<str>),
    Source(At),
}

impl Extreme {
    /// NaN if either is.
    pub fn of(self, a: f64, b: f64) -> f64 {
        let first = match self {
            Extreme::Min => a < b,
            Extreme::Max => a > b,
        };
        match first || a.is_nan() {
            true => a,
            false => b,
        }
    }
}

impl Match {
    /// Whether `part` stands in `text` as this says.
    pub fn holds(self, text: &str, part: &str) -> bool {
        match self {
            Match::StartsWith => text.starts_with(part),
            Match::EndsWith => text.ends_with(part),
            Match::Contains => text.contains(part),
        }
    }
}
