//! Interned strings: label keys and values, names, namespaces, resources.

use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

/// An interned string; compare and hash it instead of the text. Valid for the [`Symbols`] that made
/// it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Symbol(pub u32);

/// The table of interned strings.
///
/// Symbols number strings in the order they were first seen, so their order says nothing about the
/// strings; compare [`Symbols::text`] where an order must not depend on the order of the input.
/// Copies share their strings until a new one is added: every round copies the table, and a
/// long-running process has many strings.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    table: Arc<IndexSet<Arc<str>, FxBuildHasher>>,
}

impl Symbols {
    /// The symbol of `text`, making one if it is new.
    pub fn intern(&mut self, text: &str) -> Symbol {
        if let Some(at) = self.table.get_index_of(text) {
            return Symbol(at as u32);
        }
        Symbol(Arc::make_mut(&mut self.table).insert_full(text.into()).0 as u32)
    }

    /// The symbol of `text`, if it was ever interned.
    pub fn get(&self, text: &str) -> Option<Symbol> {
        self.table.get_index_of(text).map(|at| Symbol(at as u32))
    }

    /// The text of a symbol of this table.
    pub fn text(&self, sym: Symbol) -> &str {
        &self.table[sym.0 as usize]
    }

    /// Keeps the strings whose places are marked; they get new numbers in the order that they had.
    pub(super) fn keep(&mut self, used: &[bool]) {
        let kept = self
            .table
            .iter()
            .zip(used)
            .filter(|(_, used)| **used)
            .map(|(text, _)| text.clone());
        self.table = Arc::new(kept.collect());
    }

    /// How many strings are known.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether no string is known yet.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}

/// Labels, sorted by key symbol, each key once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels(Box<[(Symbol, Symbol)]>);

impl Labels {
    /// Labels from pairs in any order; of a repeated key the last value counts.
    pub fn new(mut pairs: Vec<(Symbol, Symbol)>) -> Self {
        pairs.reverse();
        pairs.sort_by_key(|&(key, _)| key);
        pairs.dedup_by_key(|&mut (key, _)| key);
        Labels(pairs.into_boxed_slice())
    }

    /// The value under `key`.
    pub fn get(&self, key: Symbol) -> Option<Symbol> {
        self.0
            .binary_search_by_key(&key, |&(k, _)| k)
            .ok()
            .map(|at| self.0[at].1)
    }

    /// Key and value pairs, by key symbol.
    pub fn iter(&self) -> impl Iterator<Item = (Symbol, Symbol)> + '_ {
        self.0.iter().copied()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Visits every symbol. A visitor that changes symbols keeps their order.
    pub(super) fn each(&mut self, visit: &mut dyn FnMut(&mut Symbol)) {
        for (key, value) in &mut self.0 {
            visit(key);
            visit(value);
        }
    }
}
