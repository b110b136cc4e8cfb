//! Why an instance is no longer what its NodeClass says.
//!
//! The static reason compares hashes in annotations; the others compare the instance with the
//! class's status. The first that holds is the answer, in Karpenter's order.

use std::collections::{BTreeMap, BTreeSet};

use longshore_cloud::Launch;
use longshore_ec2::bootstrap::drift as bootstrap;
use longshore_ec2::catalogue::{ClassCatalogue, Region, image_of};
use longshore_ec2::hash::migration::{Annotated, differ};
use longshore_ec2::nodeclass::EC2NodeClass;

use crate::records::InstanceFacts;

/// What is compared.
#[derive(Clone, Copy, Debug)]
pub struct Compared<'a> {
    /// The region.
    pub region: &'a Region,
    /// The NodeClass's catalogue.
    pub catalogue: &'a ClassCatalogue,
    /// The NodeClass.
    pub class: &'a EC2NodeClass,
    /// The NodeClaim.
    pub launch: &'a Launch,
    /// Its instance.
    pub instance: &'a InstanceFacts,
    /// Whether its user data would be another today, if the class asks.
    pub bootstrap: bool,
}

/// The reason, if there is one.
///
/// # Errors
/// What is compared with is not known: what was said before stands.
pub fn reason(all: &Compared<'_>) -> Result<Option<&'static str>, String> {
    let none = BTreeMap::new();
    let class = all.class.metadata.annotations.as_ref().unwrap_or(&none);
    let claim = &all.launch.annotations;
    if differ(Annotated::read(class), Annotated::read(claim)) == Some(true) {
        return Ok(Some("NodeClassDrift"));
    }
    let status = all.class.status.as_ref();
    let name = all.class.metadata.name.as_deref().unwrap_or_default();
    let empty = |what: &str| format!("EC2NodeClass {name}: status has no {what} to compare with");
    let status = status.ok_or_else(|| empty("subnets"))?;
    if all.image_differs(status)? {
        return Ok(Some("AMIDrift"));
    }
    if status.security_groups.is_empty() {
        return Err(empty("security groups"));
    }
    let groups: BTreeSet<&str> = status.security_groups.iter().map(|one| &*one.id).collect();
    let own: BTreeSet<&str> = all.instance.groups.iter().map(String::as_str).collect();
    if own.is_empty() {
        return Err(format!(
            "instance {}: no security groups are known",
            all.instance.id
        ));
    }
    if groups != own {
        return Ok(Some("SecurityGroupDrift"));
    }
    if status.subnets.is_empty() {
        return Err(empty("subnets"));
    }
    if !status
        .subnets
        .iter()
        .any(|one| one.id == all.instance.subnet)
    {
        return Ok(Some("SubnetDrift"));
    }
    if let Some(id) = &all.instance.reservation
        && !status.capacity_reservations.iter().any(|one| one.id == *id)
    {
        return Ok(Some("CapacityReservationDrift"));
    }
    let group = all.catalogue.group().map_or("", |group| &*group.id);
    // A class whose group is not found is not ready, and says so by itself.
    let selected = all.class.spec.placement_group_selector.is_some();
    if (!selected || !group.is_empty()) && group != all.instance.placement_group {
        return Ok(Some("PlacementGroupDrift"));
    }
    Ok(all.bootstrap.then_some(bootstrap::REASON))
}

impl Compared<'_> {
    fn image_differs(
        &self,
        status: &longshore_ec2::nodeclass::EC2NodeClassStatus,
    ) -> Result<bool, String> {
        let name = self.class.metadata.name.as_deref().unwrap_or_default();
        if status.amis.is_empty() {
            return Err(format!(
                "EC2NodeClass {name}: status has no images to compare with"
            ));
        }
        let kind = &self.instance.instance_type;
        let Some(at) = self.region.find(kind) else {
            return Err(format!(
                "instance type {kind} of {} is not known",
                self.instance.id
            ));
        };
        if self.instance.image.is_empty() {
            return Err(format!(
                "instance {}: its image is not known",
                self.instance.id
            ));
        }
        let today = image_of(self.region, self.catalogue, &status.amis, at);
        Ok(today.is_none_or(|image| image.id != self.instance.image))
    }
}

#[cfg(test)]
mod tests;
