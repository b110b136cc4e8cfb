//! Whether an instance type can be launched with the settings of a NodeClass.

use crate::facts::TypeFacts;

use super::class::{Class, Family};
use super::region::Group;

/// Why a type cannot be launched with a NodeClass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Incompatible {
    /// No image of the status fits the type.
    #[error("no image in the NodeClass's status fits them")]
    Image,
    /// Amazon Linux 2023 does not run on the first generation of Graviton.
    #[error("Amazon Linux 2023 does not run on the first generation of Graviton")]
    FirstGraviton,
    /// The interfaces that the NodeClass lists are too many, on cards or devices that the type has
    /// not, or need a driver that it has not.
    #[error("they have no place or driver for the NodeClass's networkInterfaces")]
    NetworkInterfaces,
    /// Connection tracking is set and the hypervisor is not Nitro.
    #[error("connectionTracking needs the hypervisor Nitro")]
    ConnectionTracking,
    /// Nested virtualization is set and the processor cannot do it.
    #[error(
        "their processors have no nested virtualization, and the NodeClass's cpuOptions ask for it"
    )]
    NestedVirtualization,
    /// Enclaves are set and the type has none.
    #[error("they have no enclaves, and the NodeClass's enclaveOptions ask for them")]
    Enclaves,
    /// The placement group's strategy is not open to the type.
    #[error("the strategy of the NodeClass's placement group is not open to them")]
    PlacementGroup,
}

/// Nothing if the type can be launched.
pub fn incompatible(
    facts: &TypeFacts,
    class: &Class,
    group: Option<&Group>,
) -> Option<Incompatible> {
    let checks = [
        (
            class.family == Family::AL2023 && facts.name.starts_with("a1."),
            Incompatible::FirstGraviton,
        ),
        (
            !interfaces_fit(facts, class),
            Incompatible::NetworkInterfaces,
        ),
        (
            class.connection_tracking && &*facts.hypervisor != "nitro",
            Incompatible::ConnectionTracking,
        ),
        (
            class.nested_virtualization && !facts.nested_virtualization,
            Incompatible::NestedVirtualization,
        ),
        (class.enclaves && !facts.enclaves, Incompatible::Enclaves),
        (
            group.is_some_and(|group| !facts.placement.contains(&group.strategy)),
            Incompatible::PlacementGroup,
        ),
    ];
    checks
        .into_iter()
        .find_map(|(applies, why)| applies.then_some(why))
}

/// Whether the type has a place for every interface that the NodeClass lists.
fn interfaces_fit(facts: &TypeFacts, class: &Class) -> bool {
    let listed = &class.network_interfaces;
    if listed.is_empty() {
        return true;
    }
    let network = &facts.network;
    if &*network.ena == "unsupported" {
        return false;
    }
    let efa_only = listed.iter().filter(|interface| interface.efa_only).count() as i64;
    if efa_only > network.efa_interfaces.unwrap_or(0) {
        return false;
    }
    listed.iter().all(|interface| {
        let card = network
            .cards
            .iter()
            .find(|card| card.index == interface.card);
        card.is_some_and(|card| interface.device < card.interfaces)
    })
}
