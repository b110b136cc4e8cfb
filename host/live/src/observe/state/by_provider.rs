//! Objects by the provider ID of their instance.

use std::collections::{BTreeMap, BTreeSet};

/// Names of objects of one kind by provider ID.
#[derive(Default)]
pub(super) struct NamesByProvider(BTreeMap<String, BTreeSet<String>>);

impl NamesByProvider {
    /// The names with a provider ID.
    pub(super) fn get(&self, provider_id: &str) -> impl Iterator<Item = &String> {
        self.0.get(provider_id).into_iter().flatten()
    }

    pub(super) fn contains(&self, provider_id: &str) -> bool {
        self.0.contains_key(provider_id)
    }

    /// An object has another provider ID than before, `""` for none.
    pub(super) fn replace(&mut self, name: &str, before: &str, now: &str) {
        if before == now {
            return;
        }
        if let Some(names) = self.0.get_mut(before) {
            names.remove(name);
            if names.is_empty() {
                self.0.remove(before);
            }
        }
        if !now.is_empty() {
            let names = self.0.entry(now.to_owned()).or_default();
            names.insert(name.to_owned());
        }
    }
}
