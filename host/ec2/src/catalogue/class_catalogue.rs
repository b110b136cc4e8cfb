//! The catalogue of one NodeClass: what its nodes have, where they can be launched, and what of it
//! EC2 would refuse.

use super::class::expressions::Unresolved;
use super::class::kubelet::Kubelet;
use super::class::{Class, ClassFault, GroupSelector, Reservation};
use super::compatibility::{self, Incompatible};
use super::images::image_of;
use super::machine::Machine;
use super::region::{Group, Region, Zone, ZoneSet};
use super::requirements::{self, InClass};
use super::tables::NetworkRow;
use crate::bootstrap::kept::Kept;
use crate::facts::TypeFacts;

/// The catalogue of one NodeClass: columns by instance type, in the order of [`Region::types`].
#[derive(Clone, Debug)]
pub struct ClassCatalogue {
    pub(super) class: Class,
    pub(super) group: Option<Group>,
    machines: Vec<Machine>,
    pub(super) incompatible: Vec<Option<Incompatible>>,
    pub(super) zones: Vec<ZoneSet>,
    /// Index of the type and of the reservation in the class, ordered.
    reservations: Vec<(u32, u32)>,
    /// [`super::discovered::Discovered::sequence`] of the memory in `machines`.
    memory: u64,
}

impl ClassCatalogue {
    /// The catalogue of `class` in `region`. Reservations of the class's status are always in it;
    /// without the gate ReservedCapacity the status has none.
    ///
    /// # Errors
    /// An expression of the kubelet's settings that may not be there, or has no value for a type.
    pub fn new(region: &Region, class: Class) -> Result<Self, ClassFault> {
        if let Some(field) = class.expressions.fields().first()
            && !region.settings.expressions
        {
            return Err(ClassFault {
                field: format!("spec.kubelet.{field}"),
                what: "is an expression, and the gate NodeClassCEL is off".to_owned(),
                hint: "turn it on with --aws-feature-gates NodeClassCEL=true, or give a number"
                    .into(),
            });
        }
        let group = class.placement_group.as_ref().and_then(|selector| {
            let same = |group: &&Group| match selector {
                GroupSelector::Id(id) => group.id == *id,
                GroupSelector::Name(name) => group.name == *name,
            };
            region.groups.iter().find(same).cloned()
        });
        let mut subnets = ZoneSet::default();
        for subnet in &class.subnets {
            if let Some(zone) = region.zone(&subnet.zone) {
                subnets.insert(zone);
            }
        }
        let mut reservations: Vec<(u32, u32)> = class
            .reservations
            .iter()
            .enumerate()
            .filter_map(|(at, reservation)| {
                Some((region.find(&reservation.instance_type)? as u32, at as u32))
            })
            .collect();
        reservations.sort_by_key(|&(of, at)| (of, &class.reservations[at as usize].id));
        let types = region.facts.iter().zip(region.network.iter());
        let machine = |(facts, network): (&TypeFacts, &Option<NetworkRow>)| {
            Machine::new(facts, *network, &class, &region.settings)
                .map_err(|unresolved| evaluation(&facts.name, unresolved))
        };
        let mut made = ClassCatalogue {
            machines: types.map(machine).collect::<Result<_, _>>()?,
            incompatible: region
                .facts
                .iter()
                .map(|facts| compatibility::incompatible(facts, &class, group.as_ref()))
                .collect(),
            zones: region
                .offered
                .iter()
                .map(|offered| offered.and(subnets))
                .collect(),
            reservations,
            group,
            class,
            memory: 0,
        };
        made.follow(region);
        made.leave_out_types_without_image(region);
        Ok(made)
    }

    /// Types that no image of the status fits become incompatible. A status without any image says
    /// nothing of types: the NodeClass is not ready.
    fn leave_out_types_without_image(&mut self, region: &Region) {
        if self.class.amis.is_empty() {
            return;
        }
        for at in 0..self.incompatible.len() {
            if image_of(region, self, &self.class.amis, at).is_none() {
                self.incompatible[at].get_or_insert(Incompatible::Image);
            }
        }
    }

    /// Takes over what memory nodes were seen with since it was last asked. Of the columns it
    /// touches memory alone. Whether anything was new.
    pub fn follow(&mut self, region: &Region) -> bool {
        let discovered = region.discovered();
        if self.memory == discovered.sequence() {
            return false;
        }
        self.memory = discovered.sequence();
        for (machine, facts) in self.machines.iter_mut().zip(&*region.facts) {
            let seen = discovered.get(&facts.name, self.class.images);
            machine.set_memory(facts, &region.settings, seen);
        }
        true
    }

    /// Whether the same can be bought with the NodeClass of another catalogue, under the same labels
    /// but for the NodeClass's name.
    pub fn sells_like(&self, other: &ClassCatalogue, region: &Region) -> bool {
        let (class, others) = (&self.class, &other.class);
        class.family == others.family
            && class.subnets == others.subnets
            && class.reservations == others.reservations
            && self.reservations == other.reservations
            && self.group == other.group
            && self.zones == other.zones
            && self.incompatible == other.incompatible
            && (class.subnet_ids == others.subnet_ids || self.full_like(other, region))
            && self.machines == other.machines
    }

    /// Its NodeClass.
    pub fn class(&self) -> &Class {
        &self.class
    }

    /// What a node of the type with index `at` has.
    pub fn machine(&self, at: usize) -> &Machine {
        &self.machines[at]
    }

    /// What a node of the type with index `at` has if its user data says `kubelet`, whatever the
    /// NodeClass says. Memory is estimated.
    pub fn booted(&self, region: &Region, at: usize, kubelet: &Kubelet) -> Machine {
        let (facts, network) = (&region.facts[at], region.network[at]);
        Machine::with(facts, network, &self.class, kubelet, &region.settings)
    }

    /// Replaces what the kubelet keeps back, one row for each type. Fails, and changes nothing, if
    /// there are more or fewer rows.
    pub fn keep(&mut self, kept: &[Kept]) -> Result<(), String> {
        if kept.len() != self.machines.len() {
            let types = self.machines.len();
            return Err(format!("{} rows of overhead for {types} types", kept.len()));
        }
        for (machine, kept) in self.machines.iter_mut().zip(kept) {
            kept.apply(machine);
        }
        Ok(())
    }

    /// Why the type with index `at` cannot be launched, if it cannot.
    pub fn incompatible(&self, at: usize) -> Option<Incompatible> {
        self.incompatible[at]
    }

    /// Zones that the type is offered in and the NodeClass has a subnet in.
    pub fn zones(&self, at: usize) -> ZoneSet {
        self.zones[at]
    }

    /// Reservations for a type, by id.
    pub(super) fn reservations_of(&self, at: usize) -> impl Iterator<Item = &Reservation> {
        let from = self
            .reservations
            .partition_point(|&(of, _)| (of as usize) < at);
        self.reservations[from..]
            .iter()
            .take_while(move |&&(of, _)| of as usize == at)
            .map(|&(_, reservation)| &self.class.reservations[reservation as usize])
    }

    /// The placement group that the NodeClass selects, if it is there.
    pub fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    pub(super) fn partitions(&self) -> i64 {
        self.group.as_ref().map_or(0, |group| group.partitions)
    }

    /// Visits every label of the type with index `at`, see [`requirements::visit`].
    pub fn labels(&self, region: &Region, at: usize, visit: &mut dyn FnMut(&'static str, &[&str])) {
        let zones = || self.zones[at].iter().map(|zone| &region.zones[zone]);
        let names: Vec<&str> = zones().map(|zone| &*zone.name).collect();
        let mut ids: Vec<&str> = zones().map(|zone| self.zone_id(zone)).collect();
        ids.retain(|id| !id.is_empty());
        ids.sort_unstable();
        let reservations: Vec<&Reservation> = self.reservations_of(at).collect();
        let group = self
            .group
            .as_ref()
            .map(|group| (&*group.id, group.partitions));
        let at_class = InClass {
            class: &self.class,
            region: &region.name,
            zones: &names,
            zone_ids: &ids,
            reservations: &reservations,
            group,
        };
        requirements::visit(&region.facts[at], region.network[at], &at_class, visit);
    }

    /// The id of a zone as the NodeClass's subnets name it, or as the region does.
    pub(super) fn zone_id<'a>(&'a self, zone: &'a Zone) -> &'a str {
        let subnets = &self.class.subnets;
        let subnet = subnets.iter().find(|subnet| subnet.zone == zone.name);
        match subnet {
            Some(subnet) if !subnet.id.is_empty() => &subnet.id,
            _ => &zone.id,
        }
    }
}

fn evaluation(instance_type: &str, Unresolved { field, what }: Unresolved) -> ClassFault {
    ClassFault {
        field: format!("spec.kubelet.{field}"),
        what: format!("{what} for {instance_type}"),
        hint: "change the expression so that it suits every instance type".into(),
    }
}
