//! How many nodes commands take from NodePools, in an annotation of each, written before they go: so
//! that policies know it after a restart as well. [`longshore_core::model::disruptions`] has the text.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use longshore_api::crd::NodePool;
use longshore_core::model::disruptions::{DISRUPTIONS, Disruptions};

use super::failures;
use super::known_failures::{annotation, name_of};
use crate::live::act::context::Context;
use crate::live::decide::command::{Candidate, CommandView};
use crate::live::observe::node_claim;
use crate::live::process::lock::lock;
use crate::live::process::step_error::StepError;

/// What this process has written of NodePools, by name, with their UIDs: the watch may be late, and
/// two commands may write at the same time.
#[derive(Default)]
pub struct KnownDisruptions(Mutex<BTreeMap<String, (String, Disruptions)>>);

impl KnownDisruptions {
    /// What a NodePool is to say once a command takes `nodes` from it; nothing if it knows that.
    fn add(&self, pool: &NodePool, command: &str, nodes: u32, now: i64) -> Option<Disruptions> {
        let said = Disruptions::read(annotation(pool, DISRUPTIONS)).unwrap_or_default();
        let uid = pool.metadata.uid.clone().unwrap_or_default();
        let mut all = lock(&self.0);
        let written = all.get(name_of(pool)).filter(|(of, _)| *of == uid);
        let known = match written {
            Some((_, written)) if !said.is_after(written) => written,
            _ => &said,
        };
        let next = known.with(command, nodes, now)?;
        all.insert(name_of(pool).to_owned(), (uid, next.clone()));
        Some(next)
    }
}

/// Counts the nodes that a command is about to take, by their NodePools. A command that is carried on
/// by another process is counted once.
///
/// # Errors
/// This process leads no more.
pub async fn count(ctx: &Context, view: &CommandView) -> Result<(), StepError> {
    if view.candidates.iter().any(Candidate::is_deleting) {
        return Ok(());
    }
    let now = ctx.now().as_second();
    for (pool, nodes) in by_pool(view) {
        if let Some(next) = ctx.memory.disruptions.add(pool, &view.id, nodes, now) {
            failures::annotate(ctx, pool, DISRUPTIONS, next.write().into()).await?;
        }
    }
    Ok(())
}

/// The NodePools of a command's candidates, each with how many nodes go.
fn by_pool(view: &CommandView) -> impl Iterator<Item = (&NodePool, u32)> {
    let nodes = |pool: &Arc<NodePool>| {
        let candidates = view.candidates.iter();
        let of_pool = |one: &&Candidate| node_claim::pool_of(&one.claim) == name_of(pool);
        u32::try_from(candidates.filter(of_pool).count()).unwrap_or(u32::MAX)
    };
    let pools = view.own_pools.iter();
    pools.map(move |pool| (&**pool, nodes(pool)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pool(uid: &str, said: &str) -> NodePool {
        let class = json!({"group": "g", "kind": "k", "name": "n"});
        let pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "web", "uid": uid, "annotations": {DISRUPTIONS: said}},
            "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}},
        });
        serde_json::from_value(pool).unwrap()
    }

    #[test]
    fn what_was_written_counts_until_the_watch_brings_something_newer() {
        let known = KnownDisruptions::default();
        let total = |of: Option<Disruptions>, now| of.map(|of| of.within(3600, now));
        let add = |pool: &NodePool, command, now| total(known.add(pool, command, 1, now), now);
        assert_eq!(add(&pool("u", ""), "a", 1000), Some(1));
        assert_eq!(add(&pool("u", ""), "b", 1000), Some(2), "the watch is late");
        assert_eq!(add(&pool("u", ""), "b", 1001), None, "it is carried on");
        let later = "2000,c;6:5";
        assert_eq!(
            add(&pool("u", later), "d", 2001),
            Some(6),
            "of another leader"
        );
        assert_eq!(add(&pool("v", ""), "e", 2002), Some(1), "it was made anew");
        let broken = pool("w", "7");
        assert_eq!(add(&broken, "f", 2003), Some(1), "counted from now on");
    }
}
