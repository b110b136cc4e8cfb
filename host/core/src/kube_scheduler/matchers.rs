//! Which pods a selector selects: scopes, and an index of shapes by their labels.

use rustc_hash::FxHashMap;

use crate::model::{
    ClusterObjects, LabelSelector, Labels, PodShape, PodTerm, SelectorOp, SelectorRule, Symbol,
};

/// Pods of some namespaces that a selector selects.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scope {
    namespaces: Vec<Symbol>,
    namespace_selector: Option<LabelSelector>,
    selector: LabelSelector,
}

/// Pods that lie in every one of these scopes. Never empty.
pub type Matcher = Vec<Scope>;

impl Scope {
    /// What a term of pod affinity of a pod in namespace `own` means.
    pub fn of_term(term: &PodTerm, own: Symbol) -> Self {
        let namespaces = match term.namespaces.is_empty() && term.namespace_selector.is_none() {
            true => vec![own],
            false => term.namespaces.clone(),
        };
        Scope {
            namespaces,
            namespace_selector: term.namespace_selector.clone(),
            selector: term.selector.clone(),
        }
    }

    /// What a selector means within one namespace.
    pub fn within(namespace: Symbol, selector: LabelSelector) -> Self {
        Scope {
            namespaces: vec![namespace],
            namespace_selector: None,
            selector,
        }
    }

    /// Pods of one namespace that carry all of these labels.
    pub fn same_owner(namespace: Symbol, labels: impl Iterator<Item = (Symbol, Symbol)>) -> Self {
        let rules = labels.map(|(key, value)| SelectorRule {
            key,
            op: SelectorOp::In(Box::new([value])),
        });
        Scope::within(namespace, LabelSelector(Some(rules.collect())))
    }
}

/// Labels of namespaces by name; a namespace without an object has none.
pub struct Namespaces<'a>(FxHashMap<Symbol, &'a Labels>);

impl<'a> Namespaces<'a> {
    /// Indexes the observed namespaces.
    pub fn of(world: &'a ClusterObjects) -> Self {
        Namespaces(
            world
                .namespaces
                .iter()
                .map(|(name, labels)| (*name, labels))
                .collect(),
        )
    }

    /// Whether a pod lies in every scope.
    pub fn matches(&self, matcher: &[Scope], shape: &PodShape) -> bool {
        matcher.iter().all(|scope| {
            let here = scope.namespaces.contains(&shape.namespace)
                || scope
                    .namespace_selector
                    .as_ref()
                    .is_some_and(|s| self.selects(s, shape.namespace));
            here && scope.selector.matches(&shape.labels)
        })
    }

    fn selects(&self, selector: &LabelSelector, namespace: Symbol) -> bool {
        match self.0.get(&namespace) {
            Some(labels) => selector.matches(labels),
            None => selector.matches(&Labels::default()),
        }
    }
}

/// Shapes by label, so that a selector is compared with the few that may match instead of all.
#[derive(Default)]
pub struct Postings {
    by_label: FxHashMap<(Symbol, Symbol), Vec<u32>>,
    len: u32,
}

impl Postings {
    /// Adds the next shape; the first one is number 0.
    pub fn push(&mut self, labels: &Labels) {
        labels
            .iter()
            .for_each(|label| self.by_label.entry(label).or_default().push(self.len));
        self.len += 1;
    }

    /// Shapes that a matcher may select, in order: a superset, by the first rule with values.
    pub fn candidates(&self, matcher: &[Scope]) -> Vec<u32> {
        let rules = matcher
            .iter()
            .filter_map(|scope| scope.selector.0.as_ref())
            .flatten();
        let named = rules.into_iter().find_map(|rule| match &rule.op {
            SelectorOp::In(values) => Some((rule.key, values)),
            _ => None,
        });
        let Some((key, values)) = named else {
            return (0..self.len).collect();
        };
        let mut found: Vec<u32> = values
            .iter()
            .filter_map(|&v| self.by_label.get(&(key, v)))
            .flatten()
            .copied()
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// The selector of the first scope, by which running shapes are looked up.
pub fn first_selector(matcher: &[Scope]) -> &LabelSelector {
    &matcher[0].selector
}
