//! The interface to a cloud: create an instance, terminate it, list what exists.
//!
//! Implementations are in crates of their own (`host/kwok`, later `host/aws`). Absent on purpose:
//! decisions. `host/daemon` decides which NodeClaims exist, when they are launched, and what
//! follows from an error. A provider answers one call, and keeps nothing that it could not find
//! again after a restart.

#![warn(missing_docs)]

mod error;
mod offering;
mod repair;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use error::{CloudError, Shortage};
pub use longshore_api::crd::{Operator, Taint};
pub use offering::{OfferingName, UNAVAILABLE_SECONDS};
pub use repair::{RebootError, RepairAction, RepairPolicy};

/// What a cloud must do for Longshore: launch, list and end instances.
#[async_trait]
pub trait CloudProvider: Send + Sync {
    /// Its name, as metrics and logs have it.
    fn name(&self) -> &'static str;

    /// Makes an instance for a NodeClaim. Asked again with the same `uid`, also by another process,
    /// it answers with the instance that is there: nothing is ever made twice.
    ///
    /// # Errors
    /// See [`CloudError`]; what the caller does next depends on the kind.
    async fn create(&self, launch: &Launch) -> Result<Instance, CloudError>;

    /// Most NodeClaims that one [`CloudProvider::create_group`] makes instances for; 1 if instances
    /// are made one by one.
    fn most_in_group(&self) -> usize {
        1
    }

    /// Makes instances for NodeClaims that are alike. Asked again with the same token, also by another
    /// process and for another number of instances, it answers with those that are there: nothing is
    /// ever made twice.
    ///
    /// # Errors
    /// What became of the token is not known, or it is unused: it is asked for again.
    async fn create_group(&self, group: &GroupLaunch) -> Result<GroupAnswer, CloudError> {
        let what = format!("{} makes no groups ({})", self.name(), group.token);
        Err(CloudError::Other(what))
    }

    /// Called once on election with launched claims that have no Node. For providers that make the
    /// Node themselves.
    async fn restore_launches(&self, launched: Vec<Launch>) {
        drop(launched);
    }

    /// Called with what a registered node shows: for every node after a start, and for each that
    /// changes. For providers that can only estimate it before a node is there.
    fn node_shows(&self, node: &NodeShows<'_>) {
        _ = node;
    }

    /// Begins to end an instance, by provider ID. Asked again while it ends, it answers `Ok` as
    /// well.
    ///
    /// # Errors
    /// [`CloudError::NotFound`] once it is gone.
    async fn delete(&self, provider_id: &str) -> Result<(), CloudError>;

    /// What its nodes do not recover from by themselves. None by default: then no node is repaired.
    fn repair_policies(&self) -> &[RepairPolicy] {
        &[]
    }

    /// Begins to start the machine of an instance, by provider ID, anew. Answers when the cloud has
    /// accepted that; it is over once the Node reports another boot ID. `operation` is the same each
    /// time that one reboot is asked for, so that nothing has to be done twice.
    ///
    /// # Errors
    /// See [`RebootError`]; [`CloudError::NotFound`] once the instance is gone.
    async fn reboot(&self, provider_id: &str, operation: &str) -> Result<(), RebootError> {
        _ = (provider_id, operation);
        Err(RebootError::NotImplemented(self.name()))
    }

    /// How often nodes are compared with their node class by [`CloudProvider::drifted`]. Never by
    /// default.
    fn drift_interval(&self) -> Option<Duration> {
        None
    }

    /// Why an instance, by provider ID, is no longer what its node class says for this claim: one
    /// word for the reason of condition Drifted, such as `AMIDrift`. Nothing if it is. Asked at
    /// least every [`CloudProvider::drift_interval`] and whenever the claim or its node changes, so
    /// it answers from memory where it can.
    ///
    /// # Errors
    /// If that cannot be said now: what was said before stands.
    async fn drifted(
        &self,
        provider_id: &str,
        launch: &Launch,
    ) -> Result<Option<String>, CloudError> {
        _ = (provider_id, launch);
        Ok(None)
    }

    /// Whether an instance is nothing but its Node object, so that it is gone once the Node is.
    fn ends_with_node(&self) -> bool {
        false
    }

    /// One instance, by provider ID.
    ///
    /// # Errors
    /// [`CloudError::NotFound`] if there is none.
    async fn get(&self, provider_id: &str) -> Result<Instance, CloudError>;

    /// Every instance that this cluster's Longshore made and that is not gone.
    ///
    /// # Errors
    /// If the answer may be incomplete: callers take what is missing here for gone.
    async fn list(&self) -> Result<Vec<Arc<Instance>>, CloudError>;
}

/// What an instance is made for: a NodeClaim, as plain data. Taints and operators are the NodeClaim's
/// own types.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launch {
    /// Name of the NodeClaim.
    pub name: String,
    /// What the idempotency token comes from: the UID of the NodeClaim, or the token of its group.
    pub uid: String,
    /// Name of the NodePool, if one owns the claim.
    pub nodepool: Option<String>,
    /// Labels of the NodeClaim.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the NodeClaim.
    pub annotations: BTreeMap<String, String>,
    /// What the node's labels must satisfy.
    pub requirements: Vec<Requirement>,
    /// How many values of a label the instance types of the launch must have between them.
    pub min_values: BTreeMap<String, usize>,
    /// What the node must have room for: resource and quantity as Kubernetes writes it (`500m`,
    /// `4Gi`).
    pub requests: BTreeMap<String, String>,
    /// Taints of the node.
    pub taints: Vec<Taint>,
    /// Taints that others take away once their part is ready.
    pub startup_taints: Vec<Taint>,
    /// Kind of the node class.
    pub class_kind: String,
    /// Name of the node class.
    pub class_name: String,
}

impl Launch {
    /// Requirements on a label.
    pub fn requirements_on(&self, key: &str) -> impl Iterator<Item = &Requirement> {
        self.requirements.iter().filter(move |one| one.key == key)
    }

    /// Whether every requirement on a label admits this value (`None`: no such label).
    pub fn admits(&self, key: &str, value: Option<&str>) -> bool {
        self.requirements_on(key).all(|one| one.admits(value))
    }
}

/// What instances of a group are made for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupLaunch {
    /// The idempotency token, and what the instances are found by.
    pub token: String,
    /// How many instances are wanted.
    pub count: usize,
    /// How many NodeClaims the group was made for. As many may have been asked for before.
    pub size: usize,
    /// One of the NodeClaims, with the largest request of each resource. Its name and its UID mean
    /// nothing.
    pub launch: Launch,
}

/// What there is of a group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupAnswer {
    /// Its instances that are known and do not end, those that NodeClaims name already included.
    pub instances: Vec<Instance>,
    /// Whether these are all that the token will ever make. If not, others may show later.
    pub settled: bool,
    /// Why there are fewer than were wanted, if the cloud says so.
    pub short: Option<CloudError>,
}

/// What a registered node shows of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeShows<'a> {
    /// Kind of the node class.
    pub class_kind: &'a str,
    /// Name of the node class.
    pub class_name: &'a str,
    /// The image that the node has started from, as its NodeClaim says.
    pub image_id: &'a str,
    /// `node.kubernetes.io/instance-type`.
    pub instance_type: &'a str,
    /// `status.capacity.memory`, as Kubernetes writes it.
    pub memory: &'a str,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// How the label's value relates to `values`.
    pub operator: Operator,
    /// Values that `operator` compares with; empty for Exists and DoesNotExist.
    pub values: Vec<String>,
}

impl Requirement {
    /// Whether a label of this value (`None`: no such label) satisfies it.
    pub fn admits(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|v| v == value);
        let bound = || self.values.first().and_then(|v| v.parse::<i64>().ok());
        let number = || value.and_then(|v| v.parse::<i64>().ok());
        let compared = |holds: fn(&i64, &i64) -> bool| {
            let pair = number().zip(bound());
            pair.is_some_and(|(n, b)| holds(&n, &b))
        };
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => compared(i64::gt),
            Operator::Lt => compared(i64::lt),
            Operator::Gte => compared(i64::ge),
            Operator::Lte => compared(i64::le),
        }
    }
}

/// An instance that the cloud has or had.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Instance {
    /// The cloud's ID for it, as in `Node.spec.providerID`.
    pub provider_id: String,
    /// UID of the NodeClaim that it was made for; empty for one that another controller of this
    /// cluster made without saying. Nothing if the provider cannot know whether it was made for a
    /// NodeClaim.
    pub claim_uid: Option<String>,
    /// The token of the group that it was made in: it is any NodeClaim's of that group until one
    /// names it.
    pub group: Option<String>,
    /// The image that it started from.
    pub image_id: Option<String>,
    /// Labels that follow from the chosen offering: instance type, zone, capacity type,
    /// architecture, …
    pub labels: BTreeMap<String, String>,
    /// What it has, by resource.
    pub capacity: BTreeMap<String, String>,
    /// What of it is left for pods, by resource.
    pub allocatable: BTreeMap<String, String>,
    /// Annotations that its NodeClaim gets with the launch, such as the hash of its node class.
    pub annotations: BTreeMap<String, String>,
    /// When it was made, seconds since 1970 (0 if unknown).
    pub created: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_is_understood() {
        use Operator::*;
        let admits = |operator: Operator, values: &[&str], value: Option<&str>| {
            let values = values.iter().map(ToString::to_string).collect();
            Requirement {
                key: "k".into(),
                operator,
                values,
            }
            .admits(value)
        };
        assert!(admits(In, &["a", "b"], Some("b")) && !admits(In, &["a"], None));
        assert!(admits(NotIn, &["a"], None) && !admits(NotIn, &["a"], Some("a")));
        assert!(admits(Exists, &[], Some("")) && !admits(Exists, &[], None));
        assert!(admits(DoesNotExist, &[], None) && !admits(DoesNotExist, &[], Some("")));
        assert!(
            admits(Gt, &["3"], Some("4"))
                && !admits(Gt, &["3"], Some("3"))
                && !admits(Gt, &["3"], Some("x"))
        );
        assert!(admits(Lt, &["3"], Some("2")) && !admits(Lt, &["3"], None));
        assert!(admits(Gte, &["3"], Some("3")) && admits(Lte, &["3"], Some("3")));
    }
}
