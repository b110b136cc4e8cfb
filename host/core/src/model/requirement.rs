//! A requirement on a label, as written in a NodePool, a pod's affinity or an offering.

use super::symbols::Symbol;

/// What a label must be. The bounds are inclusive; `Gt N` is read as `Gte N+1` and `Lt N` as
/// `Lte N-1` at the boundary (`Gt` of the largest integer is `DoesNotExist`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// One of these values.
    In(Box<[Symbol]>),
    /// None of these values, or absent.
    NotIn(Box<[Symbol]>),
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
    /// An integer of at least this.
    Gte(i64),
    /// An integer of at most this.
    Lte(i64),
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The label, beta names already replaced by the stable ones.
    pub key: Symbol,
    /// How the label's value relates to the values.
    pub op: Op,
    /// How many distinct values the instance types kept for a launch must offer (NodePool only;
    /// 1..=50).
    pub min_values: Option<u16>,
}

impl Requirement {
    /// A requirement without `minValues`.
    pub fn new(key: Symbol, op: Op) -> Self {
        Requirement {
            key,
            op,
            min_values: None,
        }
    }

    /// Calls `visit` for the key and each value.
    pub fn symbols(&self, visit: &mut dyn FnMut(Symbol)) {
        visit(self.key);
        if let Op::In(values) | Op::NotIn(values) = &self.op {
            values.iter().for_each(|value| visit(*value));
        }
    }

    /// `key In [value]`.
    pub fn is(key: Symbol, value: Symbol) -> Self {
        Requirement::new(key, Op::In(Box::new([value])))
    }
}
