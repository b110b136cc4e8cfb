//! What an offering costs, as an expression over columns: a number for each row of a catalogue.
//!
//! The language is the part of CEL that has numbers, booleans and texts: `? :`, `&& || !`,
//! comparisons, arithmetic, `in` with a list, `has`, `min`, `max`, `int`, `double`, `size`,
//! `startsWith`, `endsWith` and `contains`. Names are those of the contract of policies
//! (`wit/policy@0.1.0`), with `_` in place of `-`.
//!
//! Unlike CEL:
//! - all numbers are doubles, so that integers and doubles mix and `7 / 2` is 3.5;
//! - a division by zero gives infinity, or no number, and never fails;
//! - a label that an offering has not is the empty text, a resource that it has not is 0.
//!
//! Types are right before anything is evaluated ([`Program::compile`]). [`Program::evaluate`] takes an
//! operator at a time over whole columns, never a row at a time.

mod evaluate;
mod language;
mod loops;
mod part;

use std::fmt;
use std::rc::Rc;

use crate::Refused;
use part::Number;

/// A compiled expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    root: Number,
    sources: Vec<Use>,
}

/// A source, and in how many places of an expression it stands.
#[derive(Clone, Debug, PartialEq)]
struct Use {
    source: Source,
    places: u32,
}

/// Where a value comes from. Rows are offerings.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A number for each row.
    Numbers(Numbers),
    /// A text for each row.
    Texts(Texts),
    /// `available`.
    Available,
    /// One number for all rows.
    Number(OneNumber),
    /// One text for all rows.
    Text(OneText),
}

/// A column of numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// `cost`: USD per hour by the policy before this one.
    Cost,
    /// `price`: list price in USD per hour.
    Price,
    /// `cpu_millicores`.
    CpuMillicores,
    /// `memory_mib`.
    MemoryMib,
    /// `reservation_count`: instances left in the reservation.
    ReservationCount,
    /// `resources["…"]`, in cores, bytes or devices.
    Capacity(String),
    /// `allocatable["…"]`.
    Allocatable(String),
    /// `signal("…", otherwise)`.
    Signal {
        /// The signal's name.
        name: String,
        /// What counts for rows of which it says nothing.
        otherwise: f64,
    },
}

/// A column of texts.
#[derive(Clone, Debug, PartialEq)]
pub enum Texts {
    /// `instance_type`.
    InstanceType,
    /// `zone`.
    Zone,
    /// `capacity_type`.
    CapacityType,
    /// `architecture`.
    Architecture,
    /// `reservation`: its ID; empty for none.
    Reservation,
    /// `labels["…"]`.
    Label(String),
}

/// A number that is the same for all rows.
#[derive(Clone, Debug, PartialEq)]
pub enum OneNumber {
    /// `now`: seconds since 1970.
    Now,
    /// `node_pool.weight`.
    Weight,
}

/// A text that is the same for all rows.
#[derive(Clone, Debug, PartialEq)]
pub enum OneText {
    /// `node_pool.name`.
    NodePool,
    /// `node_pool.labels["…"]`.
    Label(String),
    /// `node_pool.annotations["…"]`.
    Annotation(String),
}

/// A column of texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The texts that there are.
    pub texts: Vec<String>,
    /// Which of them each row has.
    pub rows: Vec<u32>,
}

/// A catalogue. Every column has as many rows as it says.
pub trait Columns {
    /// How many rows there are.
    fn count(&self) -> usize;

    /// A number for each row.
    fn numbers(&mut self, of: &Numbers) -> Vec<f64>;

    /// A text for each row.
    fn texts(&mut self, of: &Texts) -> Rc<Table>;

    /// Whether each row can be bought now.
    fn available(&mut self) -> Vec<bool>;

    /// A number that is the same for all rows.
    fn number(&mut self, of: &OneNumber) -> f64;

    /// A text that is the same for all rows.
    fn text(&mut self, of: &OneText) -> String;
}

/// As an expression names it.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keyed = |f: &mut fmt::Formatter<'_>, map: &str, key: &str| write!(f, "{map}[{key:?}]");
        match self {
            Source::Numbers(of) => match of {
                Numbers::Cost => f.write_str("cost"),
                Numbers::Price => f.write_str("price"),
                Numbers::CpuMillicores => f.write_str("cpu_millicores"),
                Numbers::MemoryMib => f.write_str("memory_mib"),
                Numbers::ReservationCount => f.write_str("reservation_count"),
                Numbers::Capacity(name) => keyed(f, "resources", name),
                Numbers::Allocatable(name) => keyed(f, "allocatable", name),
                Numbers::Signal { name, otherwise } => write!(f, "signal({name:?}, {otherwise})"),
            },
            Source::Texts(of) => match of {
                Texts::InstanceType => f.write_str("instance_type"),
                Texts::Zone => f.write_str("zone"),
                Texts::CapacityType => f.write_str("capacity_type"),
                Texts::Architecture => f.write_str("architecture"),
                Texts::Reservation => f.write_str("reservation"),
                Texts::Label(key) => keyed(f, "labels", key),
            },
            Source::Available => f.write_str("available"),
            Source::Number(OneNumber::Now) => f.write_str("now"),
            Source::Number(OneNumber::Weight) => f.write_str("node_pool.weight"),
            Source::Text(OneText::NodePool) => f.write_str("node_pool.name"),
            Source::Text(OneText::Label(key)) => keyed(f, "node_pool.labels", key),
            Source::Text(OneText::Annotation(key)) => keyed(f, "node_pool.annotations", key),
        }
    }
}

impl Program {
    /// Compiles a text: its form, its names and its types are right, and it gives a number.
    ///
    /// # Errors
    /// The first fault, with its column.
    pub fn compile(text: &str) -> Result<Self, Refused> {
        language::compile(text)
    }

    /// A number for each row. Each source is asked for once.
    pub fn evaluate(&self, columns: &mut impl Columns) -> Vec<f64> {
        evaluate::evaluate(&self.root, &self.sources, columns)
    }

    /// Where its values come from, each once.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().map(|of| &of.source)
    }
}

#[cfg(test)]
mod tests;
