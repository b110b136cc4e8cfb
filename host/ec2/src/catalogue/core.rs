//! The catalogue in the records that plans are made on.

use longshore_api::labels;
use longshore_core::model::{
    Catalogue, InstanceType, Offering, Op, Requirement, ResourceId, Resources, Symbol, Symbols,
    TypeId,
};

use super::machine::RESOURCES;
use super::requirements::aws;
use super::{ClassCatalogue, Region};

/// Label that ties a node to its NodeClass.
pub const NODE_CLASS: &str = "karpenter.k8s.aws/ec2nodeclass";

/// Builds core's catalogue for NodeClasses of one region.
///
/// One row per NodeClass and type: capacity, zones and availability differ between NodeClasses.
/// Each row requires [`NODE_CLASS`], so a NodePool only meets the rows of its own NodeClass.
pub struct CoreCatalogues<'a> {
    region: &'a Region,
    names: &'a mut Symbols,
    resources: [ResourceId; RESOURCES.len()],
    rows: Vec<(InstanceType, Vec<Offering>)>,
}

impl<'a> CoreCatalogues<'a> {
    /// Rows of no NodeClass yet.
    pub fn new(region: &'a Region, names: &'a mut Symbols) -> Self {
        CoreCatalogues {
            resources: RESOURCES.map(|name| ResourceId::named(name, names)),
            region,
            names,
            rows: Vec::with_capacity(region.types().len()),
        }
    }

    /// Adds the rows of a NodeClass.
    pub fn add(&mut self, class: &ClassCatalogue) {
        let key = self.names.intern(NODE_CLASS);
        let name = self.names.intern(&class.class().name);
        for at in 0..self.region.types().len() {
            let row = self.row(class, at, Requirement::is(key, name));
            self.rows.push(row);
        }
    }

    /// The catalogue of everything added.
    pub fn finish(self) -> Catalogue {
        Catalogue::new(self.rows, self.names)
    }

    fn row(
        &mut self,
        class: &ClassCatalogue,
        at: usize,
        of_class: Requirement,
    ) -> (InstanceType, Vec<Offering>) {
        let mut requirements = Vec::with_capacity(40);
        requirements.push(of_class);
        class.labels(self.region, at, &mut |key, values| {
            let key = self.names.intern(key);
            let op = match values {
                [] => Op::DoesNotExist,
                _ => Op::In(
                    values
                        .iter()
                        .map(|value| self.names.intern(value))
                        .collect(),
                ),
            };
            requirements.push(Requirement::new(key, op));
        });
        let name = self.names.intern(&self.region.types()[at].name);
        let machine = class.machine(at);
        let kind = InstanceType {
            name,
            requirements,
            capacity: self.amounts(&machine.capacity),
            allocatable: self.amounts(&machine.allocatable()),
            volume_limits: Vec::new(),
            offerings: 0..0,
        };
        (kind, self.offerings(class, at))
    }

    /// Amounts as core counts them; what would be below zero is zero.
    fn amounts(&self, all: &[Option<super::amount::Amount>; RESOURCES.len()]) -> Resources {
        let pairs = self
            .resources
            .iter()
            .zip(all)
            .filter_map(|(&resource, amount)| {
                let amount = (*amount)?;
                let value = match resource {
                    ResourceId::Cpu => amount.milli,
                    _ => amount.units(),
                };
                Some((resource, value.max(0)))
            });
        Resources::new(pairs)
    }

    fn offerings(&mut self, class: &ClassCatalogue, at: usize) -> Vec<Offering> {
        let mut all = Vec::new();
        let region = self.region;
        let reserved = class.reservations_of(at).next().is_some();
        class.offerings(region, at, &mut |offering| {
            let Some(price) = offering.price else { return };
            let zone = &region.zones()[offering.zone];
            let zone_name = self.names.intern(&zone.name);
            let capacity_type = self.names.intern(offering.capacity_type);
            let mut requirements = vec![
                self.is(labels::CAPACITY_TYPE, capacity_type),
                self.is(labels::ZONE, zone_name),
            ];
            let id = class.zone_id(zone);
            if !id.is_empty() && class.zones(at).contains(offering.zone) {
                let id = self.names.intern(id);
                requirements.push(self.is(aws::ZONE_ID, id));
            }
            match offering.reservation {
                Some((reservation, _)) => {
                    for (key, value) in [
                        (aws::RESERVATION_ID, &*reservation.id),
                        (aws::RESERVATION_TYPE, &*reservation.kind),
                        (
                            aws::RESERVATION_INTERRUPTIBLE,
                            if reservation.interruptible {
                                "true"
                            } else {
                                "false"
                            },
                        ),
                    ] {
                        let value = self.names.intern(value);
                        requirements.push(self.is(key, value));
                    }
                }
                None if reserved => {
                    for key in [
                        aws::RESERVATION_ID,
                        aws::RESERVATION_TYPE,
                        aws::RESERVATION_INTERRUPTIBLE,
                    ] {
                        let key = self.names.intern(key);
                        requirements.push(Requirement::new(key, Op::DoesNotExist));
                    }
                }
                None => {}
            }
            if offering.partition > 0 {
                let partition = self.names.intern(&offering.partition.to_string());
                requirements.push(self.is(aws::GROUP_PARTITION, partition));
            }
            all.push(Offering {
                instance_type: TypeId(0),
                requirements,
                zone: Some(zone_name),
                capacity_type: Some(capacity_type),
                price,
                available: offering.available,
                reservation: offering
                    .reservation
                    .map(|(reservation, free)| (self.names.intern(&reservation.id), free)),
            });
        });
        all
    }

    fn is(&mut self, key: &str, value: Symbol) -> Requirement {
        Requirement::is(self.names.intern(key), value)
    }
}
