//! `Filter.N`: names are joined by and, values by or; `*` and `?` stand for text and a character.

use std::collections::BTreeMap;

use crate::wire::{Refusal, Scope};

/// Most values of all filters of a request.
const MAX_VALUES: usize = 200;

/// The filters of a request.
pub struct Filters(Vec<(String, Vec<String>)>);

impl Filters {
    /// Reads the filters. One that is neither known nor about tags is refused.
    pub fn read(scope: &Scope, known: &[&str]) -> Result<Filters, Refusal> {
        let mut filters = Vec::new();
        for filter in scope.list("Filter") {
            let name = filter.need("Name")?;
            let tag = name.starts_with("tag:") || name == "tag-key" || name == "tag-value";
            let listed = if tag { "tag" } else { name };
            if !known.contains(&listed) {
                let message = format!("The filter '{name}' is invalid, or not emulated");
                return Err(Refusal::new("InvalidParameterValue", message));
            }
            let values = filter
                .texts("Value")
                .into_iter()
                .map(str::to_owned)
                .collect();
            filters.push((name.to_owned(), values));
        }
        let values: usize = filters
            .iter()
            .map(|(_, values): &(_, Vec<_>)| values.len())
            .sum();
        if values > MAX_VALUES {
            let message = format!(
                "The maximum number of filter values specified on a single call is {MAX_VALUES}"
            );
            return Err(Refusal::new("FilterLimitExceeded", message));
        }
        Ok(Filters(filters))
    }

    /// Whether everything fits: `own` gives the values that a thing has for a filter.
    pub fn fit<'a>(
        &self,
        tags: &'a BTreeMap<String, String>,
        own: impl Fn(&str) -> Vec<&'a str>,
    ) -> bool {
        self.0.iter().all(|(name, patterns)| {
            let values: Vec<&str> = match name.strip_prefix("tag:") {
                Some(key) => tags.get(key).map(String::as_str).into_iter().collect(),
                None if name == "tag-key" => tags.keys().map(String::as_str).collect(),
                None if name == "tag-value" => tags.values().map(String::as_str).collect(),
                None => own(name),
            };
            let fits = |value: &&str| patterns.iter().any(|pattern| like(pattern, value));
            values.iter().any(fits)
        })
    }
}

/// Whether a text is like a pattern.
fn like(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(one) if *one == b'?' || *one == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((at, from)) = star else {
                    return false;
                };
                star = Some((at, from + 1));
                (p, t) = (at + 1, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|one| *one == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_text() {
        assert!(like("m5.*", "m5.large") && like("*", "") && like("a*b?d*", "axxbcd"));
        assert!(!like("m5.*", "m6.large") && !like("a?", "a") && !like("", "a"));
        assert!(like("*aab", "aaaab"));
    }
}
