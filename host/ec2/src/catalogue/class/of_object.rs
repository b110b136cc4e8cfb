//! A [`Class`] from the object as the API server stores it.

use std::str::FromStr;

use longshore_api::quantity::Quantity;
use serde_json::{Map, Value};

use crate::bootstrap::sample;
use crate::expression::Expression;
use crate::nodeclass::{
    BlockDeviceMapping, CapacityReservation, EC2NodeClass, InterfaceType, NetworkInterface,
    PlacementGroupSelector, ReservationState, Subnet, Switch,
};

use super::super::discovered::ImageSet;
use super::{
    Amount, BlockDevice, Class, ClassFault, ClassZone, Expressions, GroupSelector, Interface,
    Kubelet, Reservable, Reservation, Reserved, Threshold,
};

/// Most pods and pods per core: what the kubelet's field holds.
const MAX_PODS: i64 = i32::MAX as i64;

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

impl Kubelet {
    /// What the settings of one node's kubelet say.
    ///
    /// # Errors
    /// The first setting that cannot be used. An expression is one: a node's kubelet knows none.
    pub fn of(settings: &Map<String, Value>) -> Result<Self, ClassFault> {
        let (kubelet, expressions) = kubelet(settings)?;
        match expressions.fields().first() {
            None => Ok(kubelet),
            Some(field) => Err(fault(
                format!("spec.kubelet.{field}"),
                "is an expression",
                "give a number or a quantity",
            )),
        }
    }
}

/// What `spec.kubelet` says, numbers and expressions.
fn kubelet(settings: &Map<String, Value>) -> Result<(Kubelet, Expressions), ClassFault> {
    let set = |key: &str| settings.get(key).filter(|value| !value.is_null());
    let number = |key: &str| set(key).map(|value| count(key, value)).transpose();
    let map = |key: &'static str| match settings.get(key) {
        None | Some(Value::Null) => Ok((key, None)),
        Some(Value::Object(map)) => Ok((key, Some(map))),
        Some(_) => {
            let field = format!("spec.kubelet.{key}");
            Err(fault(field, "is not an object", "write name: value"))
        }
    };
    let eviction = map("evictionHard")?.1;
    let max_pods = set("maxPods").and_then(Value::as_str);
    let max_pods = max_pods.map(|text| compiled("spec.kubelet.maxPods", text));
    let (kube_reserved, kube_expressions) = reserved(map("kubeReserved")?)?;
    let (system_reserved, system_expressions) = reserved(map("systemReserved")?)?;
    let expressions = Expressions {
        max_pods: max_pods.transpose()?,
        kube_reserved: kube_expressions,
        system_reserved: system_expressions,
    };
    let kubelet = Kubelet {
        max_pods: match expressions.max_pods {
            None => number("maxPods")?,
            Some(_) => None,
        },
        pods_per_core: number("podsPerCore")?.unwrap_or(0),
        kube_reserved,
        system_reserved,
        evict_memory: threshold(eviction, "memory.available")?,
        evict_storage: threshold(eviction, "nodefs.available")?,
    };
    Ok((kubelet, expressions))
}

fn count(key: &str, value: &Value) -> Result<i64, ClassFault> {
    let field = format!("spec.kubelet.{key}");
    match value {
        Value::Number(number) => number
            .as_i64()
            .filter(|number| (0..=MAX_PODS).contains(number))
            .ok_or_else(|| fault(field, "is not a count", "give 0 or more")),
        _ => Err(fault(field, "is not a number", "give 0 or more")),
    }
}

type Entries<'a> = (&'a str, Option<&'a Map<String, Value>>);

fn reserved(
    (key, entries): Entries<'_>,
) -> Result<(Reserved, Vec<(Reservable, Expression)>), ClassFault> {
    let (mut all, mut expressions) = (Reserved::default(), Vec::new());
    for (name, value) in entries.into_iter().flatten() {
        let field = format!("spec.kubelet.{key}[{name}]");
        let Some(of) = Reservable::named(name) else {
            let hint = "cpu, memory, ephemeral-storage or pid";
            return Err(fault(field, "cannot be reserved", hint));
        };
        match value.as_str().filter(|text| is_expression(text)) {
            Some(text) => expressions.push((of, compiled(&field, text)?)),
            None => *of.slot(&mut all) = Some(quantity(&field, value)?),
        }
    }
    Ok((all, expressions))
}

/// Whether a reserved amount is an expression: what cannot be read as a quantity is one, except a
/// number below zero.
pub fn is_expression(text: &str) -> bool {
    Quantity::parse(text).is_err() && !text.starts_with('-')
}

fn compiled(field: &str, text: &str) -> Result<Expression, ClassFault> {
    Expression::compile(text).map_err(|refused| fault(field, refused.to_string(), refused.hint))
}

fn threshold(
    entries: Option<&Map<String, Value>>,
    signal: &str,
) -> Result<Option<Threshold>, ClassFault> {
    let Some(value) = entries.and_then(|entries| entries.get(signal)) else {
        return Ok(None);
    };
    let field = format!("spec.kubelet.evictionHard[{signal}]");
    let wrong = |what: &str| fault(&*field, what, "write it like 5% or 200Mi");
    let Some(text) = value.as_str() else {
        return Err(wrong("is not a text"));
    };
    if let Some(number) = text.strip_suffix('%') {
        let share = f64::from_str(number).ok();
        let share = share.filter(|share| (0.0..=100.0).contains(share));
        let share = share.ok_or_else(|| wrong("is not a share from 0% to 100%"))?;
        return Ok(Some(Threshold::Percent(share)));
    }
    let amount = Amount::parse(text).map_err(|error| wrong(&error.to_string()))?;
    Ok(Some(Threshold::Amount(amount)))
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

fn fault(field: impl Into<String>, what: impl Into<String>, hint: &'static str) -> ClassFault {
    ClassFault {
        field: field.into(),
        what: what.into(),
        hint,
    }
}

fn quantity(field: &str, value: &Value) -> Result<Amount, ClassFault> {
    let hint = "write it like 100m or 1Gi";
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err(fault(field, "is not a quantity", hint)),
    };
    Amount::parse(&text).map_err(|error| fault(field, error.to_string(), hint))
}
