//! ReplicaSets: a number of pods of one template.
//!
//! Absent: adoption of pods without a controller, `minReadySeconds` (a ready pod is available at
//! once).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::template;
use crate::actors::context::ActorContext;
use crate::actors::view::PodCounts;
use crate::fields;
use crate::object::Key;
use crate::server::resources;

/// Makes and deletes pods until their number is right, and counts them.
pub fn reconcile(ctx: &mut ActorContext, key: &Key, set: &Value) {
    let PodCounts { active, ready } = ctx.view.pod_counts(fields::uid(set));
    let wanted = fields::number(set, "/spec/replicas").unwrap_or(1).max(0) as usize;
    if !fields::deleting(set) {
        for _ in active..wanted {
            let name = ctx.name(&format!("{}-", key.name));
            ctx.create(
                resources::POD,
                template::pod(&set["spec"]["template"], key.resource, set, &name),
            );
        }
        if active > wanted {
            let mut pods = ctx.view.controlled(resources::POD, fields::uid(set));
            pods.retain(|(_, p)| !fields::ended(p) && !fields::deleting(p));
            for key in first_to_go(&pods).into_iter().take(active - wanted) {
                ctx.delete(&key);
            }
        }
    }
    let count = |n: usize| if n == 0 { Value::Null } else { json!(n) };
    ctx.set_status(
        key,
        &[
            ("replicas", json!(active)),
            ("fullyLabeledReplicas", count(active)),
            ("readyReplicas", count(ready)),
            ("availableReplicas", count(ready)),
            ("observedGeneration", set["metadata"]["generation"].clone()),
        ],
    );
}

/// Pods in the order in which they are given up: without node, not running, not ready, cheap to
/// delete, crowded, young.
fn first_to_go(pods: &[(Key, Arc<Value>)]) -> Vec<Key> {
    let mut load: BTreeMap<&str, i64> = BTreeMap::new();
    for (_, pod) in pods {
        *load.entry(fields::text(pod, "/spec/nodeName")).or_default() += 1;
    }
    let rank = |pod: &Value| {
        let node = fields::text(pod, "/spec/nodeName");
        let cost = fields::annotation(pod, "controller.kubernetes.io/pod-deletion-cost");
        (
            !node.is_empty(),
            fields::text(pod, "/status/phase") == "Running",
            fields::ready(pod),
            cost.and_then(|c| c.parse::<i64>().ok()).unwrap_or(0),
            -load.get(node).copied().unwrap_or(0),
            std::cmp::Reverse(fields::text(pod, "/metadata/creationTimestamp").to_owned()),
        )
    };
    let mut order: Vec<&(Key, Arc<Value>)> = pods.iter().collect();
    order.sort_by_cached_key(|(_, pod)| rank(pod));
    order.into_iter().map(|(key, _)| key.clone()).collect()
}
