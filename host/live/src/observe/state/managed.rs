//! Objects of other providers in the state. NodePools and NodeClaims of theirs are known to the
//! store alone, so that every reader of NodePools and NodeClaims gets managed ones.

use std::collections::{BTreeMap, BTreeSet};

use super::{ClusterState, WorkItem};
use crate::observe::node::NodeView;
use longshore_api::kinds::ObjectKind;
use longshore_api::labels;
use serde::Deserialize;

/// What is known of other providers' objects.
#[derive(Default)]
pub(super) struct Foreign {
    pools: BTreeSet<String>,
    /// Provider IDs of NodeClaims, empty for none.
    claims: BTreeMap<String, String>,
    /// How many NodeClaims name a provider ID.
    instances: BTreeMap<String, usize>,
}

impl Foreign {
    /// An object is gone, or is managed from now on.
    pub(super) fn forget(&mut self, kind: ObjectKind, name: &str) {
        match kind {
            ObjectKind::NodePool => drop(self.pools.remove(name)),
            ObjectKind::NodeClaim => {
                let Some(id) = self.claims.remove(name) else {
                    return;
                };
                if let Some(count) = self.instances.get_mut(&id) {
                    *count -= 1;
                    if *count == 0 {
                        self.instances.remove(&id);
                    }
                }
            }
            _ => {}
        }
    }

    fn take_claim(&mut self, name: &str, id: String) {
        self.forget(ObjectKind::NodeClaim, name);
        if !id.is_empty() {
            *self.instances.entry(id.clone()).or_default() += 1;
        }
        self.claims.insert(name.to_owned(), id);
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Claim {
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    #[serde(rename = "providerID")]
    provider_id: String,
}

impl ClusterState {
    /// Whether an object is a NodePool or a NodeClaim of another provider.
    pub(super) fn is_foreign(&self, kind: ObjectKind, json: &str) -> bool {
        self.managed
            .is_some_and(|managed| managed.is_foreign(kind, json))
    }

    /// Takes in a NodePool or a NodeClaim of another provider. What cannot be read of it is nobody's
    /// business here.
    pub(super) fn take_foreign(
        &mut self,
        kind: ObjectKind,
        name: &str,
        json: &str,
    ) -> Vec<WorkItem> {
        let at = kind.at();
        if self.store.apply(&at.api_version(), at.kind, json).is_err() {
            self.store.remove(at.group, at.kind, "", name);
        }
        match kind {
            ObjectKind::NodePool => {
                let is_new = self.foreign.pools.insert(name.to_owned());
                // Pods that wait get an Event about it.
                let news = is_new.then_some(WorkItem::Pending).into_iter();
                match self.pools.remove(name) {
                    Some(_) => news.chain([WorkItem::Pool(name.to_owned())]).collect(),
                    None => news.collect(),
                }
            }
            _ => {
                let claim: Claim = serde_json::from_str(json).unwrap_or_default();
                let id = claim.status.provider_id;
                self.foreign.take_claim(name, id);
                if !self.claims.contains_key(name) {
                    return Vec::new();
                }
                self.claim(name, None);
                vec![WorkItem::Claim(name.to_owned()), WorkItem::Pending]
            }
        }
    }

    /// Whether a Node is another provider's: by its NodeClaims, or else by its NodePool.
    pub(super) fn is_of_others(&self, node: &NodeView) -> bool {
        let id = &node.provider_id;
        let pool = node.labels.get(labels::NODEPOOL);
        self.foreign.instances.contains_key(id)
            || !self.claims_by_provider.contains(id)
                && pool.is_some_and(|pool| self.foreign.pools.contains(pool))
    }

    /// Whether a Node is managed. Its NodeClaims decide; one that several providers claim is nobody's
    /// to touch. Where there is none, the label with its node class does, which NodeClaims of this
    /// provider give their Nodes; or, on Nodes that older versions made, the label with a managed
    /// NodePool.
    pub fn manages(&self, node: &NodeView) -> bool {
        let Some(managed) = self.managed else {
            return true;
        };
        let id = &node.provider_id;
        if !id.is_empty() && self.foreign.instances.contains_key(id) {
            return false;
        }
        let pool = node.labels.get(labels::NODEPOOL);
        self.claims_by_provider.contains(id)
            || managed.labels(&node.labels)
            || pool.is_some_and(|pool| self.pools.contains_key(pool))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use longshore_core::snapshot::{Ineligible, Snapshot};
    use serde_json::{Value, json};

    use super::*;
    use crate::managed::Managed;
    use crate::observe::watch::Change;

    const POOL: &str = "karpenter.sh/nodepool";
    const AUTO: [&str; 2] = ["eks.amazonaws.com", "NodeClass"];
    const EC2: [&str; 2] = ["karpenter.k8s.aws", "EC2NodeClass"];

    fn class([group, kind]: [&str; 2]) -> Value {
        json!({"group": group, "kind": kind, "name": "default"})
    }

    fn pool(name: &str, of: [&str; 2]) -> (ObjectKind, Value) {
        let spec = json!({"nodeClassRef": class(of), "requirements": []});
        let pool = json!({"metadata": {"name": name}, "spec": {"template": {"spec": spec}}});
        (ObjectKind::NodePool, pool)
    }

    fn claim(name: &str, pool: &str, of: [&str; 2]) -> (ObjectKind, Value) {
        let claim = json!({"metadata": {"name": name, "uid": name, "labels": {POOL: pool}},
            "spec": {"nodeClassRef": class(of), "requirements": []},
            "status": {"providerID": format!("aws:///{name}")}});
        (ObjectKind::NodeClaim, claim)
    }

    fn node(name: &str, labels: Value) -> (ObjectKind, Value) {
        let amounts = json!({"cpu": "4", "memory": "8Gi", "pods": "20"});
        let node = json!({"metadata": {"name": name, "labels": labels},
            "spec": {"providerID": format!("aws:///{name}")},
            "status": {"capacity": amounts, "allocatable": amounts}});
        (ObjectKind::Node, node)
    }

    fn state(all: impl IntoIterator<Item = (ObjectKind, Value)>) -> ClusterState {
        let mut state = ClusterState {
            managed: Some(Managed::EC2),
            ..ClusterState::default()
        };
        for (kind, object) in all {
            let change = Change::Upsert(object.to_string().into());
            let (_, refused) = state.fold(kind, &change);
            assert_eq!(refused.map(|of| of.why), None);
        }
        state
    }

    #[test]
    fn the_state_has_managed_nodepools_and_nodeclaims_only_and_every_node() {
        let state = state([
            pool("auto", AUTO),
            pool("web", EC2),
            claim("a", "auto", AUTO),
            claim("b", "web", EC2),
            node("a", json!({POOL: "auto"})),
            node("b", json!({POOL: "web"})),
        ]);
        assert_eq!(state.pools.keys().collect::<Vec<_>>(), ["web"]);
        assert_eq!(state.claims.keys().collect::<Vec<_>>(), ["b"]);
        let world = state.freeze().world();
        assert_eq!((world.claims.len(), world.nodes.len()), (1, 2));
        let snapshot = Snapshot::new(Arc::new(world));
        assert_eq!(snapshot.nodes.len(), 2, "pods have room on both");
        let ineligible = snapshot.ineligible_pools.iter();
        let foreign = ineligible.filter(|(_, why)| matches!(why, Ineligible::ForeignClass(_)));
        assert_eq!(foreign.count(), 1);
    }

    #[test]
    fn a_node_is_managed_by_its_nodeclaim_its_label_or_its_nodepool() {
        let our_label = json!({"karpenter.k8s.aws/ec2nodeclass": "default"});
        let their_label = json!({"eks.amazonaws.com/nodeclass": "default", POOL: "auto"});
        let state = state([
            pool("auto", AUTO),
            pool("web", EC2),
            claim("theirs", "web", AUTO),
            claim("ours", "auto", EC2),
            claim("both", "web", EC2),
            (ObjectKind::NodeClaim, {
                let (_, mut other) = claim("other", "auto", AUTO);
                other["status"]["providerID"] = "aws:///both".into();
                other
            }),
            node("theirs", json!({POOL: "web"})),
            node("ours", json!({POOL: "auto"})),
            node("both", our_label.clone()),
            node("label", our_label),
            node("pool", json!({POOL: "web"})),
            node("their-label", their_label),
            node("their-pool", json!({POOL: "auto"})),
            node("gone-pool", json!({POOL: "gone"})),
            node("nobodys", json!({})),
        ]);
        let managed = |name: &str| state.manages(&state.nodes[name]);
        for (name, ours) in [
            ("theirs", false),
            ("ours", true),
            ("both", false),
            ("label", true),
            ("pool", true),
            ("their-label", false),
            ("their-pool", false),
            ("gone-pool", false),
            ("nobodys", false),
        ] {
            assert_eq!(managed(name), ours, "{name}");
        }
    }

    #[test]
    fn pods_of_another_providers_node_that_goes_are_left_to_it() {
        let goes = |name: &str, pool: &str| {
            let (kind, mut node) = node(name, json!({POOL: pool}));
            node["metadata"]["deletionTimestamp"] = "2026-11-24T12:00:00Z".into();
            node["metadata"]["finalizers"] = json!(["karpenter.sh/termination"]);
            (kind, node)
        };
        let pod = |node: &str| {
            let pod = json!({
                "metadata": {"name": format!("on-{node}"), "namespace": "shop", "uid": node,
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet",
                        "name": "web", "uid": "u", "controller": true}]},
                "spec": {"nodeName": node, "containers": [{"name": "c"}]},
                "status": {"phase": "Running"},
            });
            (ObjectKind::Pod, pod)
        };
        let pending = |all: Vec<(ObjectKind, Value)>| {
            let state = state(all);
            let snapshot = Snapshot::new(Arc::new(state.freeze().world()));
            (state.any_node_leaves(), snapshot.pending.len())
        };
        let base = || {
            [
                pool("auto", AUTO),
                pool("web", EC2),
                claim("a", "auto", AUTO),
            ]
        };
        let theirs = [goes("a", "web"), pod("a"), goes("b", "auto"), pod("b")];
        assert_eq!(
            pending(base().into_iter().chain(theirs).collect()),
            (false, 0)
        );
        let others = [goes("c", "web"), pod("c"), goes("d", "gone"), pod("d")];
        assert_eq!(
            pending(base().into_iter().chain(others).collect()),
            (true, 2)
        );
    }

    #[test]
    fn an_object_that_is_made_again_for_another_provider_is_let_go_and_taken_up_again() {
        let mut state = state([pool("web", EC2), claim("a", "web", EC2)]);
        let mut see = |(kind, object): (ObjectKind, Value)| {
            let change = Change::Upsert(object.to_string().into());
            let (touched, _) = state.fold(kind, &change);
            (touched, state.pools.len(), state.claims.len())
        };
        let item = |name: &str| name.to_owned();
        let (touched, pools, claims) = see(claim("a", "web", AUTO));
        assert_eq!(touched, [WorkItem::Claim(item("a")), WorkItem::Pending]);
        assert_eq!((pools, claims), (1, 0));
        let (touched, pools, _) = see(pool("web", AUTO));
        assert_eq!(touched, [WorkItem::Pending, WorkItem::Pool(item("web"))]);
        assert_eq!(pools, 0);
        assert_eq!(see(pool("web", AUTO)).0, [], "nothing new");
        assert_eq!(see(claim("a", "web", AUTO)).0, []);
        see(pool("web", EC2));
        assert_eq!(see(claim("a", "web", EC2)).2, 1);
        let (_, gone) = claim("a", "web", EC2);
        state.fold(
            ObjectKind::NodeClaim,
            &Change::Remove(gone.to_string().into()),
        );
        assert!(state.claims.is_empty() && state.foreign.claims.is_empty());
        assert!(state.foreign.instances.is_empty() && state.foreign.pools.is_empty());
    }
}
