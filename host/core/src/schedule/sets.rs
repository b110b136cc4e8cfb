//! The algebra of requirements: sets of label values, given by the values they contain or exclude.
//!
//! Semantics are those of Karpenter's requirement package: bounds are inclusive, concrete values
//! are filtered by bounds, and two requirements that both allow absence never contradict each
//! other. One rule is kube-scheduler's: whether the label may be absent is kept beside the values.
//! So `NotIn` and `Exists` of one label together require the label, and contradictory requirements
//! admit nothing, not its absence.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::model::{Op, Requirement, Symbol, Symbols};

/// A set of values of one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Set {
    /// The values are those left out rather than those held.
    pub complement: bool,
    /// Sorted by symbol.
    pub values: SmallVec<[Symbol; 4]>,
    /// Smallest integer held (`i64::MIN` for no bound); only complements carry bounds.
    pub lo: i64,
    /// Largest integer held (`i64::MAX` for no bound).
    pub hi: i64,
    /// A node without the label will do.
    pub absent: bool,
}

/// Which symbols are integers, for bounds.
#[derive(Clone, Debug, Default)]
pub struct Numbers(FxHashMap<Symbol, i64>);

impl Numbers {
    /// Reads every interned string that is an integer.
    pub fn read(names: &Symbols) -> Self {
        let parse = |at: usize| {
            let text = names.text(Symbol(at as u32));
            let first = text.as_bytes().first().copied().unwrap_or(b' ');
            (first.is_ascii_digit() || first == b'-')
                .then(|| text.parse().ok())
                .flatten()
        };
        Numbers(
            (0..names.len())
                .filter_map(|at| Some((Symbol(at as u32), parse(at)?)))
                .collect(),
        )
    }

    /// The integer that a symbol spells.
    pub fn get(&self, sym: Symbol) -> Option<i64> {
        self.0.get(&sym).copied()
    }
}

impl Set {
    /// Every value.
    pub fn any() -> Self {
        Set {
            complement: true,
            values: SmallVec::new(),
            lo: i64::MIN,
            hi: i64::MAX,
            absent: false,
        }
    }

    /// Exactly these values; none is [`Set::nothing`].
    pub fn of(values: impl IntoIterator<Item = Symbol>) -> Self {
        let mut values: SmallVec<[Symbol; 4]> = values.into_iter().collect();
        values.sort_unstable();
        values.dedup();
        Set {
            complement: false,
            values,
            lo: i64::MIN,
            hi: i64::MAX,
            absent: false,
        }
    }

    /// Everything but these values, absence included.
    pub fn but(values: impl IntoIterator<Item = Symbol>) -> Self {
        Set {
            complement: true,
            absent: true,
            ..Set::of(values)
        }
    }

    /// Absence, and no value.
    pub fn none() -> Self {
        Set {
            absent: true,
            ..Set::of([])
        }
    }

    /// Not even absence: what two requirements of one label that contradict each other leave.
    pub fn nothing() -> Self {
        Set::of([])
    }

    /// Whether no node can ever satisfy it.
    pub fn is_nothing(&self) -> bool {
        self.is_empty() && !self.absent
    }

    /// What a requirement allows.
    pub fn from_op(op: &Op) -> Self {
        match op {
            Op::In(values) => Set::of(values.iter().copied()),
            Op::NotIn(values) => Set::but(values.iter().copied()),
            Op::Exists => Set::any(),
            Op::DoesNotExist => Set::none(),
            Op::Gte(lo) => Set {
                lo: *lo,
                ..Set::any()
            },
            Op::Lte(hi) => Set {
                hi: *hi,
                ..Set::any()
            },
        }
    }

    /// Whether a label of this value is allowed.
    pub fn admits(&self, value: Symbol, numbers: &Numbers) -> bool {
        let bounded = self.lo != i64::MIN || self.hi != i64::MAX;
        (!bounded
            || numbers
                .get(value)
                .is_some_and(|n| self.lo <= n && n <= self.hi))
            && (self.values.binary_search(&value).is_ok() != self.complement)
    }

    /// What both allow.
    pub fn meet(&self, other: &Set, numbers: &Numbers) -> Set {
        let (lo, hi) = (self.lo.max(other.lo), self.hi.min(other.hi));
        let absent = self.absent && other.absent;
        if lo > hi {
            return Set {
                absent,
                ..Set::of([])
            };
        }
        let met = match (self.complement, other.complement) {
            (true, true) => Set {
                lo,
                hi,
                ..Set::but(self.values.iter().chain(&other.values).copied())
            },
            (false, _) => Set::of(
                self.values
                    .iter()
                    .copied()
                    .filter(|&v| other.admits(v, numbers)),
            ),
            (true, false) => Set::of(
                other
                    .values
                    .iter()
                    .copied()
                    .filter(|&v| self.admits(v, numbers)),
            ),
        };
        Set { absent, ..met }
    }

    /// Whether both allow something in common, be it absence.
    pub fn agrees(&self, other: &Set, numbers: &Numbers) -> bool {
        !self.meet(other, numbers).is_nothing()
    }

    /// Holds no value.
    pub fn is_empty(&self) -> bool {
        !self.complement && self.values.is_empty()
    }

    /// A node without the label will do.
    pub fn allows_absence(&self) -> bool {
        self.absent
    }

    /// The set as requirements.
    pub fn ops(&self) -> Vec<Op> {
        let mut ops = Vec::new();
        let bounded = self.lo != i64::MIN || self.hi != i64::MAX;
        match (self.complement, self.values.is_empty()) {
            (false, true) => ops.push(Op::DoesNotExist),
            (false, false) => ops.push(Op::In(self.values.to_vec().into())),
            (true, false) => ops.push(Op::NotIn(self.values.to_vec().into())),
            (true, true) => {}
        }
        ops.extend((self.complement && !self.absent && !bounded).then_some(Op::Exists));
        ops.extend((self.lo != i64::MIN).then_some(Op::Gte(self.lo)));
        ops.extend((self.hi != i64::MAX).then_some(Op::Lte(self.hi)));
        ops
    }

    /// The only value it allows, if there is just one.
    pub fn single(&self) -> Option<Symbol> {
        (!self.complement && self.values.len() == 1).then(|| self.values[0])
    }
}

/// Requirements on several labels, all of which must hold; sorted by key, each key once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sets(pub Vec<(Symbol, Set)>);

impl Sets {
    /// Merges requirements, meeting those of the same key.
    pub fn new<'a>(
        requirements: impl IntoIterator<Item = &'a Requirement>,
        numbers: &Numbers,
    ) -> Self {
        let mut all = Sets::default();
        for r in requirements {
            all.add(r.key, &Set::from_op(&r.op), numbers);
        }
        all
    }

    /// Adds one requirement; a contradiction results in [`Set::nothing`].
    pub fn add(&mut self, key: Symbol, set: &Set, numbers: &Numbers) {
        match self.0.binary_search_by_key(&key, |&(k, _)| k) {
            Ok(at) => self.0[at].1 = self.0[at].1.meet(set, numbers),
            Err(at) => self.0.insert(at, (key, set.clone())),
        }
    }

    /// Adds all of `other`.
    pub fn add_all(&mut self, other: &Sets, numbers: &Numbers) {
        for (key, set) in &other.0 {
            self.add(*key, set, numbers);
        }
    }

    /// What is required of a label, if anything.
    pub fn get(&self, key: Symbol) -> Option<&Set> {
        self.0
            .binary_search_by_key(&key, |&(k, _)| k)
            .ok()
            .map(|at| &self.0[at].1)
    }

    /// The first key on which `asked` contradicts these sets. A key
    /// that these sets do not name contradicts unless `undefined_ok` says so or `asked` allows
    /// absence.
    pub fn conflict(
        &self,
        asked: &Sets,
        undefined_ok: impl Fn(Symbol) -> bool,
        numbers: &Numbers,
    ) -> Option<Symbol> {
        asked.0.iter().find_map(|(key, set)| match self.get(*key) {
            Some(mine) => (!mine.agrees(set, numbers)).then_some(*key),
            None if set.is_nothing() => Some(*key),
            None => (!undefined_ok(*key) && !set.allows_absence()).then_some(*key),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world() -> (Symbols, Numbers, Vec<Symbol>) {
        let mut names = Symbols::default();
        let syms = ["a", "b", "3", "5", "9"].map(|t| names.intern(t)).to_vec();
        let numbers = Numbers::read(&names);
        (names, numbers, syms)
    }

    #[test]
    fn bounds_filter_values_and_contradictions_mean_absent() {
        let (_, n, s) = world();
        let at_least_4 = Set::from_op(&Op::Gte(4));
        let at_most_3 = Set::from_op(&Op::Lte(3));
        assert_eq!(
            at_least_4.meet(&Set::of([s[0], s[2], s[3], s[4]]), &n),
            Set::of([s[3], s[4]])
        );
        assert!(at_least_4.meet(&at_most_3, &n).is_nothing());
        assert!(!at_least_4.agrees(&at_most_3, &n));
        assert!(at_least_4.admits(s[3], &n) && !at_least_4.admits(s[0], &n));
    }

    #[test]
    fn two_exclusions_never_contradict() {
        let (_, n, s) = world();
        assert!(Set::but([s[0]]).agrees(&Set::none(), &n));
        assert!(!Set::of([s[0]]).agrees(&Set::but([s[0]]), &n));
        assert!(Set::any().agrees(&Set::of([s[1]]), &n));
        assert!(!Set::any().agrees(&Set::none(), &n));
    }

    #[test]
    fn a_contradiction_is_satisfied_by_nothing_not_even_absence() {
        let (_, n, s) = world();
        let mut asked = Sets(vec![(s[0], Set::of([s[1]]))]);
        asked.add(s[0], &Set::of([s[2]]), &n);
        assert_eq!(Sets::default().conflict(&asked, |_| true, &n), Some(s[0]));
        assert_eq!(
            Sets(vec![(s[0], Set::none())]).conflict(&asked, |_| true, &n),
            Some(s[0])
        );
        let mut absent = Sets(vec![(s[0], Set::but([s[1]]))]);
        absent.add(s[0], &Set::none(), &n);
        assert_eq!(Sets::default().conflict(&absent, |_| false, &n), None);
        absent.add(s[0], &Set::any(), &n);
        assert_eq!(Sets::default().conflict(&absent, |_| true, &n), Some(s[0]));
    }

    #[test]
    fn an_undefined_key_contradicts_unless_absence_is_fine() {
        let (_, n, s) = world();
        let asked = Sets(vec![(s[0], Set::of([s[1]]))]);
        assert_eq!(Sets::default().conflict(&asked, |_| false, &n), Some(s[0]));
        assert_eq!(Sets::default().conflict(&asked, |_| true, &n), None);
        assert_eq!(
            Sets::default().conflict(&Sets(vec![(s[0], Set::but([s[1]]))]), |_| false, &n),
            None
        );
    }
}
