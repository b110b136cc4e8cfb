//! Offerings of an instance type under a NodeClass: zones, ways to buy, prices, availability.

use super::class::Reservation;
use super::class_catalogue::ClassCatalogue;
use super::region::{Region, ZoneSet};
use super::unavailable::Wanted;

/// An instance type in a zone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offering<'a> {
    /// Index of its zone in [`Region::zones`].
    pub zone: usize,
    /// `on-demand`, `reserved` or `spot`.
    pub capacity_type: &'static str,
    /// USD per hour, if known.
    pub price: Option<f64>,
    /// Whether it may be launched. A reservation stays available when it is full.
    pub available: bool,
    /// For `reserved`: the reservation and the instances left in it.
    pub reservation: Option<(&'a Reservation, u32)>,
    /// The partition of the placement group, from 1; 0 without partitions.
    pub partition: i64,
}

/// A reserved instance is paid for already. Its offering costs a ten-millionth of the on-demand
/// price, so that reservations of cheaper types come first.
const RESERVED_DIVISOR: f64 = 10_000_000.0;

impl ClassCatalogue {
    /// Visits the offerings of the type with index `at`: zones in order, ways to buy by name.
    pub fn offerings<'a>(
        &'a self,
        region: &Region,
        at: usize,
        visit: &mut dyn FnMut(Offering<'a>),
    ) {
        let facts = &region.facts[at];
        let compatible = self.incompatible[at].is_none();
        let zones = self.zones[at];
        let group = self.group.as_ref().map(|group| &*group.id);
        let short = region.unavailable();
        let any_short = short.of(&facts.name).next().is_some();
        let full = self.full_zones(region);
        let shifted = self.shifted_zones(region);
        let (on_demand, preview) = (region.on_demand(at), region.preview(at));
        let mut emit = |offering: Offering<'a>| {
            let partitions = match self.partitions() {
                0 => 0..=0,
                partitions => 1..=partitions,
            };
            for partition in partitions {
                let out = || {
                    let wanted = Wanted {
                        capacity_type: offering.capacity_type,
                        zone: &region.zones[offering.zone].name,
                        reservation: offering.reservation.map(|(of, _)| &*of.id),
                        group,
                        partition,
                    };
                    any_short && short.contains(&facts.name, &wanted)
                };
                visit(Offering {
                    partition,
                    available: offering.available && !out(),
                    ..offering
                });
            }
        };
        let may_buy = ["on-demand", "reserved", "spot"].map(|kind| !short.has_no(kind));
        for (zone, described) in region.zones.iter().enumerate() {
            let may = compatible
                && zones.contains(zone)
                && !full.contains(zone)
                && !shifted.contains(zone);
            let plain = |capacity_type, may_buy: bool, price: Option<f64>| {
                let price = price.or(preview);
                Offering {
                    zone,
                    capacity_type,
                    price,
                    available: may && may_buy && price.is_some(),
                    reservation: None,
                    partition: 0,
                }
            };
            if facts.usage.on_demand {
                emit(plain("on-demand", may_buy[0], on_demand));
            }
            for reservation in self.reservations_of(at) {
                if reservation.zone != described.name {
                    continue;
                }
                let free = region.free(&reservation.id);
                emit(Offering {
                    zone,
                    capacity_type: "reserved",
                    price: Some(on_demand.unwrap_or(0.0) / RESERVED_DIVISOR),
                    available: may && may_buy[1] && !reservation.expiring,
                    reservation: Some((reservation, free)),
                    partition: 0,
                });
            }
            if facts.usage.spot {
                emit(plain("spot", may_buy[2], region.spot(at, zone)));
            }
        }
    }

    /// Zones that traffic is shifted away from.
    fn shifted_zones(&self, region: &Region) -> ZoneSet {
        let mut away = ZoneSet::default();
        if !region.shifted().is_empty() {
            for (at, zone) in region.zones.iter().enumerate() {
                let id = self.zone_id(zone);
                if region.shifted().iter().any(|shifted| **shifted == *id) {
                    away.insert(at);
                }
            }
        }
        away
    }

    /// Whether the same zones are without addresses under another NodeClass.
    pub(super) fn full_like(&self, other: &ClassCatalogue, region: &Region) -> bool {
        self.full_zones(region) == other.full_zones(region)
    }

    /// Zones in which every subnet of the NodeClass is without addresses.
    fn full_zones(&self, region: &Region) -> ZoneSet {
        let mut full = ZoneSet::default();
        let short = region.unavailable();
        if !short.any_subnet() {
            return full;
        }
        for (zone, described) in region.zones.iter().enumerate() {
            let subnets = &self.class.subnet_ids;
            let mut here = subnets.iter().filter(|(of, _)| *of == described.name);
            let known = here.clone().next().is_some();
            if known && here.all(|(_, id)| short.is_full(id)) {
                full.insert(zone);
            }
        }
        full
    }
}
