//! What the cloud is asked for on behalf of a NodeClaim.

use longshore_api::crd::{NodeClaim, Requirement};
use longshore_api::labels;
use longshore_cloud::Launch;

use super::launch_groups::members::GROUP;
use crate::observe::overlays::added_capacity;
use crate::observe::planned_pods::PLANNED_PODS;

/// A requirement as the cloud wants it.
pub fn requirement(of: &Requirement) -> longshore_cloud::Requirement {
    longshore_cloud::Requirement {
        key: of.key.clone(),
        operator: of.operator,
        values: of.values.clone(),
    }
}

/// A claim as the cloud wants it.
pub fn launch_of(claim: &NodeClaim) -> Launch {
    let spec = &claim.spec;
    let added = added_capacity(claim);
    Launch {
        name: claim.metadata.name.clone().unwrap_or_default(),
        uid: claim.metadata.uid.clone().unwrap_or_default(),
        nodepool: claim
            .metadata
            .labels
            .as_ref()
            .and_then(|l| l.get(labels::NODEPOOL))
            .cloned(),
        labels: claim.metadata.labels.clone().unwrap_or_default(),
        annotations: {
            let mut own = claim.metadata.annotations.clone().unwrap_or_default();
            own.remove(PLANNED_PODS);
            own.remove(GROUP);
            own
        },
        requirements: spec.requirements.iter().map(requirement).collect(),
        min_values: spec
            .requirements
            .iter()
            .filter_map(|r| Some((r.key.clone(), usize::try_from(r.min_values?).ok()?)))
            .collect(),
        // The cloud does not know what NodeOverlays add.
        requests: spec
            .resources
            .requests
            .iter()
            .filter(|(resource, _)| !added.contains_key(*resource))
            .map(|(k, v)| (k.clone(), v.0.clone()))
            .collect(),
        taints: spec.taints.clone(),
        startup_taints: spec.startup_taints.clone(),
        class_kind: spec.node_class_ref.kind.clone(),
        class_name: spec.node_class_ref.name.clone(),
    }
}
