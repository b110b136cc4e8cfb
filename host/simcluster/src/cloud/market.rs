//! Current prices and capacity of offerings.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use longshore_core::model::{Catalogue, InstanceType, Offering, OfferingId, Symbols};

/// One offering's state.
#[derive(Clone, Copy, Debug)]
struct OfferingPlace {
    /// USD per hour.
    price: f64,
    /// Logarithm of what the price is to its mean.
    drift: f64,
    /// Instances that can be had besides those that run.
    left: u32,
    /// Unavailable until this time.
    closed_until: Duration,
}

/// All offerings.
pub struct Market {
    types: Arc<(Catalogue, Symbols)>,
    places: Vec<OfferingPlace>,
    /// With current prices; made on the first request after they moved.
    offers: OnceCell<Catalogue>,
}

impl Market {
    /// A market that begins with the prices of the catalogue.
    pub fn new(types: Arc<(Catalogue, Symbols)>, capacity: Option<u32>) -> Self {
        let place = |o: &Offering| OfferingPlace {
            price: o.price,
            drift: 0.0,
            left: if o.available {
                o.reservation.map(|r| r.1).or(capacity).unwrap_or(u32::MAX)
            } else {
                0
            },
            closed_until: Duration::ZERO,
        };
        let places = types.0.offerings().iter().map(place).collect();
        Market {
            types,
            places,
            offers: OnceCell::new(),
        }
    }

    /// What can be bought, with the prices that it began with.
    pub fn types(&self) -> &(Catalogue, Symbols) {
        &self.types
    }

    /// USD per hour.
    pub fn price(&self, offering: OfferingId) -> f64 {
        self.places[offering.0 as usize].price
    }

    pub fn available(&self, offering: OfferingId, now: Duration) -> bool {
        let place = &self.places[offering.0 as usize];
        place.left > 0 && place.closed_until <= now
    }

    /// One has been bought.
    pub fn take(&mut self, offering: OfferingId) {
        let left = &mut self.places[offering.0 as usize].left;
        if *left != u32::MAX {
            *left = left.saturating_sub(1);
        }
    }

    /// One has been given back.
    pub fn give_back(&mut self, offering: OfferingId) {
        let left = &mut self.places[offering.0 as usize].left;
        *left = left.saturating_add(1);
    }

    /// These are unavailable until a time.
    pub fn close(&mut self, offerings: &[OfferingId], until: Duration) {
        for offering in offerings {
            let place = &mut self.places[offering.0 as usize];
            place.closed_until = place.closed_until.max(until);
        }
    }

    /// Moves the prices of spot offerings; `step` is asked for each one's change of drift, by
    /// number.
    pub fn walk(&mut self, calm: f64, mut step: impl FnMut(usize) -> f64) {
        self.offers.take();
        let (catalogue, names) = &*self.types;
        let spot = names.get("spot");
        for (at, (offering, place)) in catalogue
            .offerings()
            .iter()
            .zip(&mut self.places)
            .enumerate()
        {
            if offering.capacity_type == spot && spot.is_some() {
                place.drift = place.drift * calm + step(at);
                place.price = offering.price * place.drift.exp();
            }
        }
    }

    /// Multiplies the prices of these; where prices walk, they find back to their mean.
    pub fn shift(&mut self, offerings: &[OfferingId], factor: f64) {
        self.offers.take();
        for offering in offerings {
            let place = &mut self.places[offering.0 as usize];
            place.drift += factor.ln();
            place.price *= factor;
        }
    }

    /// Offerings by `TYPE/ZONE/CAPACITY-TYPE`, `*` for any.
    pub fn matching(&self, pattern: &str) -> Vec<OfferingId> {
        let parts: Vec<&str> = pattern.split('/').collect();
        let fits = |at: usize, text: &str| parts.get(at).is_none_or(|p| *p == "*" || *p == text);
        let all = (0..self.places.len()).map(|n| OfferingId(n as u32));
        all.filter(|id| {
            self.named(*id)
                .iter()
                .enumerate()
                .all(|(at, text)| fits(at, text))
        })
        .collect()
    }

    /// Type, zone and capacity type.
    pub fn named(&self, id: OfferingId) -> [&str; 3] {
        let (catalogue, names) = &*self.types;
        let offering = catalogue.offering(id);
        let text = |s: Option<_>| s.map_or("", |s| names.text(s));
        let name = names.text(catalogue.instance_type(offering.instance_type).name);
        [name, text(offering.zone), text(offering.capacity_type)]
    }

    /// What can be bought at the prices of now, in the names of [`Market::types`]; the same
    /// catalogue until they move. An outage stays: a cloud reports it only in answer to a launch.
    pub fn offers(&self) -> Catalogue {
        let made = self.offers.get_or_init(|| {
            let (catalogue, names) = &*self.types;
            let row = |t: &InstanceType| {
                let rows = t.offerings.start as usize..t.offerings.end as usize;
                let offerings = rows.map(|at| {
                    let price = self.places[at].price;
                    Offering {
                        price,
                        ..catalogue.offerings()[at].clone()
                    }
                });
                (t.clone(), offerings.collect())
            };
            Catalogue::new(catalogue.types().iter().map(row).collect(), names)
        });
        made.clone()
    }
}
