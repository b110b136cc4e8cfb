//! Whether unhealthy nodes are repaired, and how.

use longshore_cloud::CloudProvider;

use super::policies::{PolicyError, RepairPolicies};

/// How nodes that stay unhealthy are repaired, as an operator chooses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RepairMode {
    #[default]
    Off,
    /// Replaced regardless of budgets.
    AtOnce,
    /// Replaced or rebooted, one after the other, within budgets.
    WithinBudgets,
}

/// How nodes that stay unhealthy are repaired, with what the cloud says of unhealthy nodes.
#[derive(Clone, Debug, Default)]
pub enum Repairs {
    #[default]
    Off,
    /// Replaced regardless of budgets.
    AtOnce(RepairPolicies),
    /// Replaced or rebooted, one after the other, within budgets.
    WithinBudgets(RepairPolicies),
}

impl Repairs {
    /// Takes the policies of a cloud in, unless nothing is repaired.
    ///
    /// # Errors
    /// They cannot be used.
    pub fn new(mode: RepairMode, cloud: &dyn CloudProvider) -> Result<Self, PolicyError> {
        let policies = || RepairPolicies::new(cloud.repair_policies());
        Ok(match mode {
            RepairMode::Off => Repairs::Off,
            RepairMode::AtOnce => Repairs::AtOnce(policies()?),
            RepairMode::WithinBudgets => Repairs::WithinBudgets(policies()?),
        })
    }

    /// The policies for repair within budgets, if that is the way.
    pub fn within_budgets(&self) -> Option<&RepairPolicies> {
        match self {
            Repairs::WithinBudgets(policies) => Some(policies),
            _ => None,
        }
    }
}
