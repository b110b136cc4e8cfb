//! A [`Class`] from the object as the API server stores it.

use crate::bootstrap::sample;
use crate::expression::Expression;
use crate::nodeclass::{
    BlockDeviceMapping, CapacityReservation, EC2NodeClass, InterfaceType, NetworkInterface,
    PlacementGroupSelector, ReservationState, Subnet, Switch,
};

use super::super::discovered::ImageSet;
use super::read_kubelet::kubelet;
use super::{
    Amount, BlockDevice, Class, ClassFault, ClassZone, GroupSelector, Interface, Reservation, fault,
};

impl Class {
    /// What the catalogue depends on of an EC2NodeClass.
    ///
    /// # Errors
    /// The first field that cannot be used. An expression of the kubelet's settings is compiled;
    /// whether it may be used is asked later.
    pub fn of(object: &EC2NodeClass) -> Result<Self, ClassFault> {
        let spec = &object.spec;
        let status = object.status.as_ref();
        let reservations = status.map_or(&[][..], |status| &status.capacity_reservations);
        let amis = status.map_or(&[][..], |status| &status.amis);
        let subnets = status.map_or(&[][..], |status| &status.subnets);
        let subnet_id = |subnet: &Subnet| ((*subnet.zone).into(), (*subnet.id).into());
        let cpu = spec.cpu_options.as_ref();
        let (mut kubelet, expressions) = kubelet(spec.kubelet())?;
        let said = sample::said(spec.family(), spec.kubelet(), spec.user_data.as_deref());
        let memory_pods = said.as_ref().and_then(|said| {
            let text = said.max_pods_expression.as_deref()?;
            Expression::compile(text).ok()
        });
        if let Some(said) = said {
            kubelet = said.kubelet;
        }
        Ok(Class {
            name: object.metadata.name.as_deref().unwrap_or_default().into(),
            family: spec.family(),
            subnets: zones(subnets),
            subnet_ids: subnets.iter().map(subnet_id).collect(),
            images: ImageSet::of(amis),
            amis: amis.to_vec(),
            kubelet,
            expressions,
            memory_pods,
            local_disks_as_storage: spec.instance_store_policy.is_some(),
            block_devices: devices(spec.block_device_mappings())?,
            network_interfaces: spec.network_interfaces().iter().map(interface).collect(),
            connection_tracking: spec.connection_tracking.is_some(),
            nested_virtualization: cpu
                .is_some_and(|cpu| cpu.nested_virtualization == Some(Switch::Enabled)),
            enclaves: spec.enclaves(),
            reservations: reservations.iter().map(reservation).collect(),
            placement_group: spec.placement_group_selector.as_ref().and_then(group),
        })
    }
}

/// One entry per zone, ordered.
fn zones(subnets: &[Subnet]) -> Vec<ClassZone> {
    let zone = |subnet: &Subnet| ClassZone {
        zone: (*subnet.zone).into(),
        id: subnet.zone_id.as_deref().unwrap_or_default().into(),
    };
    let mut zones: Vec<_> = subnets.iter().map(zone).collect();
    zones.sort();
    zones.dedup_by(|second, first| {
        let same = first.zone == second.zone;
        // Ordered, an unknown id comes first.
        if same && first.id.is_empty() {
            first.id = std::mem::take(&mut second.id);
        }
        same
    });
    zones
}

fn devices(mappings: &[BlockDeviceMapping]) -> Result<Vec<BlockDevice>, ClassFault> {
    let device = |(index, mapping): (usize, &BlockDeviceMapping)| {
        let field = format!("spec.blockDeviceMappings[{index}].ebs.volumeSize");
        let size = mapping
            .ebs
            .as_ref()
            .and_then(|ebs| ebs.volume_size.as_ref());
        let size = size
            .map(|size| Amount::parse(&size.to_string()))
            .transpose();
        Ok(BlockDevice {
            name: mapping.device_name.as_deref().unwrap_or_default().into(),
            size: size.map_err(|error| fault(field, error.to_string(), "write it like 100Gi"))?,
            root: mapping.root_volume,
        })
    };
    mappings.iter().enumerate().map(device).collect()
}

fn interface(interface: &NetworkInterface) -> Interface {
    Interface {
        card: interface.network_card_index.into(),
        device: interface.device_index.into(),
        efa_only: interface.interface_type == InterfaceType::EfaOnly,
    }
}

fn reservation(reservation: &CapacityReservation) -> Reservation {
    Reservation {
        id: (*reservation.id).into(),
        zone: (*reservation.availability_zone).into(),
        instance_type: (*reservation.instance_type).into(),
        kind: reservation.reservation_type.as_str().into(),
        interruptible: reservation.interruptible,
        expiring: reservation.state == ReservationState::Expiring,
    }
}

fn group(selector: &PlacementGroupSelector) -> Option<GroupSelector> {
    match (&selector.id, &selector.name) {
        (Some(id), _) => Some(GroupSelector::Id((**id).into())),
        (None, Some(name)) => Some(GroupSelector::Name((**name).into())),
        (None, None) => None,
    }
}
