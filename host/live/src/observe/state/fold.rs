//! Folds changes of objects in, and says what they touch.

use std::sync::Arc;

use longshore_api::crd::{NodeClaim, NodeOverlay, NodePool, condition};

use super::{ClusterState, Refused, WorkItem, class, why};
use crate::observe::node::NodeView;
use crate::observe::planned_pods::{PLANNED_PODS, planned_pods};
use crate::observe::state::class::NodeClass;
use crate::observe::state::head::{PodHead, full, head};
use crate::observe::watch::Change;
use crate::process::mutants::mutant;
use longshore_api::kinds::ObjectKind;

/// Most objects that are remembered as unreadable, to be named.
const MAX_UNREADABLE: usize = 1000;

/// Whether a NodePool's change could give a place to pods that have none: its spec is another one,
/// it is ready or going otherwise than before, or it has fewer nodes against its limits. That it
/// has more it says after each purchase.
fn may_buy_more(before: &NodePool, now: &NodePool) -> bool {
    let nodes = |pool: &NodePool| pool.status.as_ref().map_or(0, |status| status.nodes);
    let ready = |pool: &NodePool| {
        let conditions = pool
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        condition(conditions, "Ready").map(|ready| ready.status)
    };
    let spec = |pool: &NodePool| {
        (
            pool.metadata.generation,
            pool.metadata.deletion_timestamp.is_some(),
        )
    };
    spec(before) != spec(now) || ready(before) != ready(now) || nodes(now) < nodes(before)
}

impl ClusterState {
    /// Folds a change in. Returns what it touches and the object that it could not read, if so.
    pub fn fold(&mut self, kind: ObjectKind, change: &Change) -> (Vec<WorkItem>, Option<Refused>) {
        match change {
            Change::Recovered => {
                self.lists.recovered(kind);
                return (Vec::new(), None);
            }
            Change::Version => return (Vec::new(), None),
            _ => {}
        }
        self.revision += 1;
        match change {
            Change::Recovered | Change::Version => (Vec::new(), None),
            Change::Begin => {
                self.lists.begin(kind);
                (Vec::new(), None)
            }
            Change::Upsert(json) => self.upsert(kind, json),
            Change::Remove(json) => (
                self.remove(kind, &full(&head(json).unwrap_or_default())),
                None,
            ),
            Change::End => {
                let seen = self.lists.end(kind);
                let is_gone = |name: &&str| !seen.contains(*name);
                let mut gone: Vec<Box<str>> = match kind {
                    _ if mutant("keeps-gone") => Vec::new(),
                    ObjectKind::Pod => self.pods.names().filter(is_gone).map(Box::from).collect(),
                    _ => self
                        .lists
                        .names(kind)
                        .filter(is_gone)
                        .map(Box::from)
                        .collect(),
                };
                gone.sort_unstable();
                (
                    gone.iter()
                        .flat_map(|name| self.remove(kind, name))
                        .collect(),
                    None,
                )
            }
            Change::Failed(why) => {
                self.lists.failed(kind, why);
                (Vec::new(), None)
            }
        }
    }

    fn upsert(&mut self, kind: ObjectKind, json: &str) -> (Vec<WorkItem>, Option<Refused>) {
        let (touched, refused) = self.take_in(kind, json);
        match &refused {
            Some(Refused { name, why, .. }) => {
                // Nothing is bought from a NodePool that cannot be read, however many others cannot.
                if self.unreadable.len() < MAX_UNREADABLE || kind == ObjectKind::NodePool {
                    self.unreadable
                        .insert((kind, name.as_str().into()), why.clone());
                }
            }
            None if self.unreadable.is_empty() => {}
            None => {
                let name = head(json).map(|head| full(&head)).unwrap_or_default();
                self.unreadable.remove(&(kind, name));
            }
        }
        (touched, refused)
    }

    fn take_in(&mut self, kind: ObjectKind, json: &str) -> (Vec<WorkItem>, Option<Refused>) {
        let at = kind.at();
        let refused = |name: &str, why: String| {
            Some(Refused {
                kind,
                name: name.to_owned(),
                why,
                is_kept: false,
            })
        };
        if kind == ObjectKind::Pod {
            let pod: PodHead = match serde_json::from_str(json) {
                Ok(pod) => pod,
                Err(error) => return (Vec::new(), refused("?", error.to_string())),
            };
            let name = full(&pod.metadata);
            let applied = self.store.apply(&at.api_version(), at.kind, json);
            self.lists.note_seen(kind, &name);
            let touched = self.pods.fold(name.clone(), &pod);
            let is_kept = applied.is_ok();
            let problem = applied.unwrap_or_else(Some);
            let refused = problem.map(|problem| Refused {
                kind,
                name: name.to_string(),
                why: why(&problem),
                is_kept,
            });
            return (touched, refused);
        }
        let (name, generation) = match head(json) {
            Ok(head) => (full(&head), head.generation),
            Err(error) => return (Vec::new(), refused("?", error.to_string())),
        };
        self.lists.note_seen(kind, &name);
        self.lists.add(kind, &name);
        if self.is_foreign(kind, json) {
            return (self.take_foreign(kind, &name, json), None);
        }
        self.foreign.forget(kind, &name);
        let is_listed = self.lists.is_listed(kind);
        self.changes
            .note_generation(kind, &name, generation, is_listed);
        if kind == ObjectKind::NodeOverlay {
            return match serde_json::from_str::<NodeOverlay>(json) {
                Ok(overlay) => (self.overlay(&name, overlay), None),
                Err(error) => (
                    self.forget_overlay(&name),
                    refused(&name, error.to_string()),
                ),
            };
        }
        let note = match self.store.apply(&at.api_version(), at.kind, json) {
            Ok(problem) => problem.map(|problem| Refused {
                kind,
                name: name.to_string(),
                why: why(&problem),
                is_kept: true,
            }),
            Err(problem) if kind == ObjectKind::NodePool => {
                let touched = self.unreadable_pool(&name, json);
                return (touched, refused(&name, why(&problem)));
            }
            Err(problem) => return (Vec::new(), refused(&name, why(&problem))),
        };
        let name = name.to_string();
        match kind {
            ObjectKind::NodeClaim => match serde_json::from_str::<NodeClaim>(json) {
                Ok(claim) => {
                    self.claim(&name, Some(claim));
                    (vec![WorkItem::Claim(name)], note)
                }
                Err(error) => (Vec::new(), refused(&name, error.to_string())),
            },
            ObjectKind::NodePool => match serde_json::from_str::<NodePool>(json) {
                Ok(pool) => {
                    let pool = Arc::new(pool);
                    let before = self.pools.insert(name.clone(), pool.clone());
                    let more = before
                        .as_ref()
                        .is_none_or(|before| may_buy_more(before, &pool));
                    let mut touched = vec![WorkItem::Pool(name.clone())];
                    touched.extend(more.then_some(WorkItem::Pending));
                    // Its claims are compared with the NodePool, and overlays may name its labels.
                    if before.is_none_or(|before| before.spec != pool.spec) {
                        touched.extend(self.every_overlay());
                        touched.extend(self.claims_of_pool(&name).cloned().map(WorkItem::Claim));
                    }
                    (touched, note)
                }
                Err(error) => (Vec::new(), refused(&name, error.to_string())),
            },
            ObjectKind::Node => match NodeView::read(json) {
                Ok(node) => (self.node(name, node), note),
                Err(error) => (Vec::new(), refused(&name, error)),
            },
            ObjectKind::KwokNodeClass | ObjectKind::Ec2NodeClass => {
                (self.class_changed(kind, name, class::read(json)), None)
            }
            _ => (Vec::new(), note),
        }
    }

    /// A node class, where it is new or another one. Instances are compared with it: one whose image it
    /// names no longer has drifted.
    fn class_changed(&mut self, kind: ObjectKind, name: String, class: NodeClass) -> Vec<WorkItem> {
        let pools = self.pools.keys().cloned().map(WorkItem::Pool);
        let mut touched: Vec<WorkItem> = pools.chain([WorkItem::Pending]).collect();
        let now = class.compared;
        let before = self.classes.insert((kind, name.clone()), class);
        if before.is_some_and(|before| before.compared != now) {
            let of_class = |claim: &NodeClaim| {
                let named = &claim.spec.node_class_ref;
                named.kind == kind.at().kind && named.name == name
            };
            let claims = self.claims.iter().filter(|(_, claim)| of_class(claim));
            touched.extend(claims.map(|(name, _)| WorkItem::Claim(name.clone())));
        }
        touched
    }

    /// A NodePool that cannot be planned with. Its last version is forgotten: no node is bought with
    /// that. Its status will say why.
    fn unreadable_pool(&mut self, name: &str, json: &str) -> Vec<WorkItem> {
        let at = ObjectKind::NodePool.at();
        self.store.remove(at.group, at.kind, "", name);
        match serde_json::from_str::<NodePool>(json) {
            Ok(pool) => drop(self.pools.insert(name.to_owned(), Arc::new(pool))),
            Err(_) => drop(self.pools.remove(name)),
        }
        let pool = WorkItem::Pool(name.to_owned());
        self.every_overlay()
            .chain([pool, WorkItem::Pending])
            .collect()
    }

    /// Keeps a claim, or lets go of it.
    pub(super) fn claim(&mut self, name: &str, claim: Option<NodeClaim>) {
        let claim = claim.map(Arc::new);
        let old = match &claim {
            Some(claim) => self.claims.insert(name.to_owned(), claim.clone()),
            None => {
                let gone = self.claims.remove(name);
                gone.iter().for_each(|gone| self.changes.note_gone(gone));
                gone
            }
        };
        self.planned(name, old.as_deref(), claim.as_deref());
        let id = |claim: &Option<Arc<NodeClaim>>| {
            let status = claim.as_ref().and_then(|claim| claim.status.as_ref());
            status.map_or_else(String::new, |status| status.provider_id.clone())
        };
        self.claims_by_provider
            .replace(name, &id(&old), &id(&claim));
    }

    /// Notes which pods a claim was planned for; `old` is the claim as it was.
    fn planned(&mut self, name: &str, old: Option<&NodeClaim>, new: Option<&NodeClaim>) {
        let pods = |claim: &NodeClaim| {
            claim
                .metadata
                .annotations
                .as_ref()?
                .get(PLANNED_PODS)
                .cloned()
        };
        if old.and_then(pods) == new.and_then(pods) {
            return;
        }
        for planned in old.into_iter().flat_map(planned_pods) {
            if let Some(claims) = self.claims_by_pod.get_mut(planned.pod) {
                claims.retain(|claim| **claim != *name);
                if claims.is_empty() {
                    self.claims_by_pod.remove(planned.pod);
                }
            }
        }
        let name: Arc<str> = name.into();
        for planned in new.into_iter().flat_map(planned_pods) {
            let claims = self.claims_by_pod.entry(planned.pod.into()).or_default();
            claims.push(name.clone());
        }
    }

    /// Keeps an overlay. Where its spec is another one, every overlay is looked at: it may be in
    /// conflict with this one, or be no longer.
    fn overlay(&mut self, name: &str, overlay: NodeOverlay) -> Vec<WorkItem> {
        if self.overlays.put(name, overlay) {
            return self.overlays_changed();
        }
        vec![WorkItem::Overlay(name.to_owned())]
    }

    fn forget_overlay(&mut self, name: &str) -> Vec<WorkItem> {
        match self.overlays.remove(name) {
            true => self.overlays_changed(),
            false => Vec::new(),
        }
    }

    /// Prices and resources may be others, so that pods may find a place.
    fn overlays_changed(&mut self) -> Vec<WorkItem> {
        self.keep_names();
        self.every_overlay().chain([WorkItem::Pending]).collect()
    }

    pub(super) fn node(&mut self, name: String, node: NodeView) -> Vec<WorkItem> {
        let mut touched = vec![WorkItem::Node(name.clone())];
        let old = self.nodes.get(&name).cloned();
        // Nodes of a list are not new.
        if old.is_some() || !self.lists.is_being_read(ObjectKind::Node) {
            self.changes.note_conditions(old.as_deref(), &node);
        }
        let before = old.as_ref().map_or("", |old| &old.provider_id);
        let by_provider = &mut self.nodes_by_provider;
        by_provider.replace(&name, before, &node.provider_id);
        touched.extend(
            self.claim_of(&node)
                .iter()
                .filter_map(|c| c.metadata.name.clone())
                .map(WorkItem::Claim),
        );
        match node.deletion {
            Some(_) => {
                self.deleting.insert(name.clone());
                touched.push(WorkItem::Pending);
            }
            None => drop(self.deleting.remove(&name)),
        }
        self.nodes.insert(name, Arc::new(node));
        touched
    }

    pub(super) fn remove(&mut self, kind: ObjectKind, name: &str) -> Vec<WorkItem> {
        let at = kind.at();
        let (namespace, plain) = name.split_once('/').unwrap_or(("", name));
        self.store.remove(at.group, at.kind, namespace, plain);
        self.lists.forget(kind, name);
        self.foreign.forget(kind, name);
        let is_listed = self.lists.is_listed(kind);
        self.changes.note_generation(kind, name, None, is_listed);
        self.unreadable.remove(&(kind, name.into()));
        match kind {
            ObjectKind::Pod => self.pods.remove(name).into_iter().collect(),
            ObjectKind::NodeClaim => {
                self.claim(name, None);
                vec![WorkItem::Claim(name.to_owned()), WorkItem::Pending]
            }
            ObjectKind::NodePool => {
                self.pools.remove(name);
                let pool = WorkItem::Pool(name.to_owned());
                self.every_overlay().chain([pool]).collect()
            }
            ObjectKind::NodeOverlay => self.forget_overlay(name),
            ObjectKind::Node => {
                let old = self.nodes.remove(name);
                self.deleting.remove(name);
                let mut touched = vec![WorkItem::Node(name.to_owned())];
                if let Some(old) = old {
                    let by_provider = &mut self.nodes_by_provider;
                    by_provider.replace(name, &old.provider_id, "");
                    let claims = self.claim_of(&old);
                    touched.extend(
                        claims
                            .iter()
                            .filter_map(|c| c.metadata.name.clone())
                            .map(WorkItem::Claim),
                    );
                }
                touched
            }
            ObjectKind::KwokNodeClass | ObjectKind::Ec2NodeClass => {
                self.classes.remove(&(kind, name.to_owned()));
                self.pools.keys().cloned().map(WorkItem::Pool).collect()
            }
            _ => Vec::new(),
        }
    }
}
