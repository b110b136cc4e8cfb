//! How many nodes commands took from NodePools, as this process has written it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use longshore_api::crd::NodePool;
use longshore_core::model::disruptions::{DISRUPTIONS, Disruptions};

use super::known_failures::{annotation, name_of};
use crate::process::lock::lock;

/// What this process has written of NodePools, by name, with their UIDs: the watch may be late, and
/// two commands may write at the same time.
#[derive(Default)]
pub struct KnownDisruptions(Mutex<BTreeMap<String, (String, Disruptions)>>);

impl KnownDisruptions {
    /// What a NodePool is to say once a command takes `nodes` from it; nothing if it knows that.
    pub(super) fn add(
        &self,
        pool: &NodePool,
        command: &str,
        nodes: u32,
        now: i64,
    ) -> Option<Disruptions> {
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
