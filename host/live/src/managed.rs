//! What is managed here: NodePools and NodeClaims whose node class is of this provider's kind, and
//! their Nodes. The one place that decides it, for the daemon and for plans on files.
//!
//! A cluster may have several providers with Karpenter's API: EKS Auto Mode beside EC2NodeClasses.
//! As in Karpenter, `nodeClassRef` decides, by group and kind, and each object by its own. So a
//! NodeClaim of ours is managed though its NodePool is another provider's, which then decides
//! nothing about it. Which Nodes are managed follows from NodeClaims first, see
//! [`ClusterState::manages`](crate::observe::state::ClusterState::manages).
//!
//! Another provider's objects are never written: no status, condition, annotation, taint, finalizer,
//! Event or deletion. Pods may run on its Nodes.

use std::collections::BTreeMap;

use longshore_api::crd::{NodeClaim, NodeClassRef, NodePool};
use longshore_core::model::ClusterObjects;
use serde::Deserialize;

use crate::process::mutants::mutant;
use longshore_api::kinds::ObjectKind;

/// The kind of node class that nodes are made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Managed {
    group: &'static str,
    kind: &'static str,
    /// The label that names the class of a NodeClaim or Node.
    label: &'static str,
}

impl Managed {
    /// EC2's.
    pub const EC2: Managed = Managed {
        group: "karpenter.k8s.aws",
        kind: "EC2NodeClass",
        label: "karpenter.k8s.aws/ec2nodeclass",
    };
    /// KWOK's.
    pub const KWOK: Managed = Managed {
        group: "karpenter.kwok.sh",
        kind: "KWOKNodeClass",
        label: "karpenter.kwok.sh/kwoknodeclass",
    };

    /// What is managed by the provider of a kind of node class.
    pub fn of(class: ObjectKind) -> Self {
        match class {
            ObjectKind::Ec2NodeClass => Managed::EC2,
            _ => Managed::KWOK,
        }
    }

    /// Whether a reference is to a class of the kind.
    pub fn names(self, class: &NodeClassRef) -> bool {
        class.group == self.group && class.kind == self.kind || mutant("takes-foreign")
    }

    /// Whether a NodePool is managed.
    pub fn pool(self, pool: &NodePool) -> bool {
        self.names(&pool.spec.template.spec.node_class_ref)
    }

    /// Whether a NodeClaim is managed.
    pub fn claim(self, claim: &NodeClaim) -> bool {
        self.names(&claim.spec.node_class_ref)
    }

    /// Whether labels are those of a Node that was made for a class of the kind.
    pub fn labels(self, labels: &BTreeMap<String, String>) -> bool {
        labels.contains_key(self.label)
    }

    /// Whether an object, as JSON, is a NodePool or a NodeClaim of another provider. One whose
    /// `nodeClassRef` cannot be read is not: the reader of all fields says what is wrong with it.
    pub fn is_foreign(self, kind: ObjectKind, json: &str) -> bool {
        let class = match kind {
            ObjectKind::NodeClaim => serde_json::from_str(json).map(|of: ClaimHead| of.spec),
            ObjectKind::NodePool => {
                serde_json::from_str(json).map(|of: PoolHead| of.spec.template.spec)
            }
            _ => return false,
        };
        class.is_ok_and(|spec| !self.names(&spec.node_class_ref))
    }

    /// Says in a world what is managed.
    pub fn enter(self, world: &mut ClusterObjects) {
        world.manage(self.group, self.kind);
    }

    /// `EC2NodeClass (karpenter.k8s.aws)`.
    pub fn text(self) -> String {
        format!("{} ({})", self.kind, self.group)
    }
}

#[derive(Deserialize)]
struct ClaimHead {
    spec: ClassSpec,
}

#[derive(Deserialize)]
struct PoolHead {
    spec: PoolSpec,
}

#[derive(Deserialize)]
struct PoolSpec {
    template: Template,
}

#[derive(Deserialize)]
struct Template {
    spec: ClassSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClassSpec {
    node_class_ref: NodeClassRef,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn group_and_kind_of_the_node_class_decide() {
        let class = |group: &str, kind: &str| json!({"group": group, "kind": kind, "name": "a"});
        let is_foreign = |class: &Value| {
            let claim = json!({"spec": {"nodeClassRef": class}}).to_string();
            let pool = json!({"spec": {"template": {"spec": {"nodeClassRef": class}}}}).to_string();
            let of = |kind, json: &str| Managed::EC2.is_foreign(kind, json);
            assert_eq!(
                of(ObjectKind::NodeClaim, &claim),
                of(ObjectKind::NodePool, &pool),
                "{class}"
            );
            of(ObjectKind::NodeClaim, &claim)
        };
        for (class, foreign) in [
            (class("karpenter.k8s.aws", "EC2NodeClass"), false),
            (class("eks.amazonaws.com", "NodeClass"), true),
            (class("eks.amazonaws.com", "EC2NodeClass"), true),
            (class("karpenter.k8s.aws", "NodeClass"), true),
            (class("karpenter.azure.com", "AKSNodeClass"), true),
            (json!({"group": "eks.amazonaws.com"}), false),
            (json!(7), false),
        ] {
            assert_eq!(is_foreign(&class), foreign, "{class}");
        }
    }

    #[test]
    fn the_label_and_the_api_agree_with_the_kind() {
        for class in [ObjectKind::Ec2NodeClass, ObjectKind::KwokNodeClass] {
            let (managed, at) = (Managed::of(class), class.at());
            assert_eq!((managed.group, managed.kind), (at.group, at.kind));
            let label = format!("{}/{}", at.group, at.kind.to_lowercase());
            assert_eq!(managed.label, label);
        }
    }
}
