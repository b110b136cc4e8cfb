//! What garbage collection remembers from pass to pass.

use std::sync::Mutex;

use super::limit::{Limit, Refusal};
use super::sightings::Sightings;
use crate::process::lock::lock;

/// What is remembered from pass to pass.
#[derive(Default)]
pub struct Garbage(pub(super) Mutex<Memory>);

/// The findings of earlier passes.
#[derive(Default)]
pub(super) struct Memory {
    /// How much may go in one pass.
    pub(super) limit: Limit,
    /// Claims without instance, by UID.
    pub(super) claims: Sightings,
    /// Instances without claim, by provider ID.
    pub(super) instances: Sightings,
    /// What was not done in the last pass, and why.
    pub(super) trouble: Vec<Refusal>,
}

impl Garbage {
    /// How many instances, and how many claims, may go in one pass, whatever the cluster's size.
    pub fn allow(&self, most: Option<usize>) {
        lock(&self.0).limit = Limit(most);
    }

    /// What was not done in the last pass, and why; nothing if all is well.
    pub fn trouble(&self) -> Option<String> {
        let memory = lock(&self.0);
        let all: Vec<String> = memory.trouble.iter().map(Refusal::to_string).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Reason and message of the condition [`HELD`](super::HELD) while something is not collected.
    pub fn held(&self) -> Option<(&'static str, String)> {
        let reason = lock(&self.0)
            .trouble
            .first()
            .map(|refusal| refusal.what.reason())?;
        Some((reason, self.trouble()?))
    }
}
