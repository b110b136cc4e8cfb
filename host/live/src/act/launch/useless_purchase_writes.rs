//! Remembers purchases that did not help in annotations of their NodePools, so that neither another
//! round nor another process makes them again.
//!
//! What did not help is decided in `longshore_core::snapshot::useless_purchases`. Here is what is
//! still to be written, and that nodes of a NodePool have joined or not, until its step writes it.

pub mod registrations;

use std::collections::BTreeMap;

use kube::api::{Api, Patch, PatchParams};
use longshore_api::crd::NodePool;
use longshore_core::model::purchases::{UNJOINED, USELESS, Unjoined};
use longshore_core::snapshot::Snapshot;
use longshore_core::snapshot::useless_purchases::{self, unjoined_again};
use serde_json::{Value, json};

use crate::act::context::Context;
use crate::process::mutants::mutant;
use crate::process::step_error::StepError;
use registrations::Ended;

/// Texts of the annotation [`USELESS`] that are to be written, by NodePool.
#[derive(Default)]
pub struct ToRemember(BTreeMap<String, String>);

impl ToRemember {
    /// Takes in what a round or a look has found. Returns the NodePools with news, and how many
    /// purchases each made in vain since.
    pub fn note(&mut self, snapshot: &Snapshot) -> Vec<(String, usize)> {
        let (world, found) = (&*snapshot.world, &snapshot.useless.found);
        let mut news = Vec::new();
        for pool in &world.pools {
            let Some(text) = useless_purchases::remember(world, found, pool) else {
                continue;
            };
            let name = world.names.text(pool.name).to_owned();
            let of_pool = found
                .iter()
                .filter(|of| of.pool == pool.name && !of.is_known);
            if self.0.get(&name) != Some(&text) {
                self.0.insert(name.clone(), text);
                news.push((name, of_pool.count()));
            }
        }
        news
    }

    /// What is to be written to a NodePool, unless it says so already.
    pub fn take(&mut self, pool: &NodePool) -> Option<String> {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let text = self.0.get(name)?;
        if annotation(pool, USELESS).unwrap_or_default() == text {
            self.0.remove(name);
            return None;
        }
        Some(text.clone())
    }
}

/// Writes to a NodePool what is to be remembered of its purchases: `useless` where that has changed,
/// and nodes that have joined or not. `given` is the digest of the NodePool and its node class.
pub async fn step(
    ctx: &Context,
    pool: &NodePool,
    useless: Option<String>,
    given: u64,
) -> Result<(), StepError> {
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let ended = ctx.memory.launch.registrations.of(name);
    let known = annotation(pool, UNJOINED);
    let unjoined = next_unjoined(known, ended, given, ctx.now().as_second());
    let mut changes = serde_json::Map::new();
    if let Some(text) = useless.filter(|_| !mutant("forgets-useless")) {
        let value = if text.is_empty() {
            Value::Null
        } else {
            text.into()
        };
        changes.insert(USELESS.to_owned(), value);
    }
    if unjoined.as_deref() != known && !mutant("forgets-unjoined") {
        changes.insert(
            UNJOINED.to_owned(),
            unjoined.map_or(Value::Null, Value::from),
        );
    }
    if !changes.is_empty() {
        ctx.may_write()?;
        let api: Api<NodePool> = Api::all(ctx.client.clone());
        let patch = Patch::Merge(json!({"metadata": {"annotations": changes}}));
        api.patch_metadata(name, &PatchParams::default(), &patch)
            .await?;
    }
    ctx.memory.launch.registrations.written(name, ended);
    Ok(())
}

/// The annotation [`UNJOINED`] after these registrations; nothing for none.
fn next_unjoined(known: Option<&str>, ended: Ended, given: u64, now: i64) -> Option<String> {
    let known = known.filter(|_| !ended.joined);
    let Ended { failed_since, .. } = ended;
    if failed_since == 0 {
        return known.map(str::to_owned);
    }
    let before = known.and_then(Unjoined::read);
    Some(unjoined_again(before.as_ref(), failed_since, given, now).write())
}

fn annotation<'p>(pool: &'p NodePool, name: &str) -> Option<&'p str> {
    let all = pool.metadata.annotations.as_ref()?;
    all.get(name).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_nodes_in_a_row_that_never_join_put_the_next_off_and_one_that_joins_ends_that() {
        let failed = |failed_since| Ended {
            joined: false,
            failed_since,
        };
        let two = next_unjoined(None, failed(2), 7, 1000);
        assert_eq!(two.as_deref(), Some("2,0,0,0000000000000007"));
        let three = next_unjoined(two.as_deref(), failed(1), 7, 2000);
        assert_eq!(three.as_deref(), Some("3,1,2300,0000000000000007"));
        let four = next_unjoined(three.as_deref(), failed(1), 7, 3000);
        assert_eq!(four.as_deref(), Some("4,2,3600,0000000000000007"));
        let joined = Ended {
            joined: true,
            failed_since: 0,
        };
        assert_eq!(next_unjoined(four.as_deref(), joined, 7, 4000), None);
        let another_class = next_unjoined(four.as_deref(), failed(1), 8, 4000);
        assert_eq!(another_class.as_deref(), Some("1,0,0,0000000000000008"));
        assert_eq!(
            next_unjoined(four.as_deref(), Ended::default(), 7, 5000),
            four
        );
    }
}
