//! Offerings of an instance type under a NodeClass: zones, ways to buy, prices, availability.

use super::ClassCatalogue;
use super::class::Reservation;
use super::region::Region;

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
        let short = region.unavailable();
        let any_short = short.of(&facts.name).next().is_some();
        let out = |capacity_type: &str, zone: &str, reservation: Option<&str>| {
            any_short && short.contains(&facts.name, capacity_type, zone, reservation)
        };
        let on_demand = region.on_demand(at);
        let mut emit = |offering: Offering<'a>| match self.partitions() {
            0 => visit(offering),
            partitions => (1..=partitions).for_each(|partition| {
                visit(Offering {
                    partition,
                    ..offering
                });
            }),
        };
        for (zone, described) in region.zones.iter().enumerate() {
            let may = compatible && zones.contains(zone);
            let plain = |capacity_type, price: Option<f64>| Offering {
                zone,
                capacity_type,
                price,
                available: may && price.is_some() && !out(capacity_type, &described.name, None),
                reservation: None,
                partition: 0,
            };
            if facts.usage.on_demand {
                emit(plain("on-demand", on_demand));
            }
            for reservation in self.reservations_of(at) {
                if reservation.zone != described.name {
                    continue;
                }
                let free = region.free(&reservation.id);
                let id = Some(&*reservation.id);
                emit(Offering {
                    zone,
                    capacity_type: "reserved",
                    price: Some(on_demand.unwrap_or(0.0) / RESERVED_DIVISOR),
                    available: may
                        && !reservation.expiring
                        && !out("reserved", &described.name, id),
                    reservation: Some((reservation, free)),
                    partition: 0,
                });
            }
            if facts.usage.spot {
                emit(plain("spot", region.spot(at, zone)));
            }
        }
    }
}
